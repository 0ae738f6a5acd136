"""AidboxError: the refusal of a request, and its form in Aidbox: FHIR's OperationOutcome.

Rule of this file: values.
"""

from __future__ import annotations

from typing import Any

from reactdb.errors import ReactDBError


class AidboxError(ReactDBError):
    """A refusal.

    Attributes:
        status: HTTP's.
        code: A type of FHIR's issues, such as `not-found`. Source: http://hl7.org/fhir/R4/valueset-issue-type.html.
        reason: A sentence.
        details: Further data for a program, such as the oldest version that is left.
    """

    def __init__(self, status: int, code: str, reason: str, **details: Any) -> None:
        super().__init__(reason)
        self.status = status
        self.code = code
        self.reason = reason
        self.details = details

    @property
    def outcome(self) -> dict[str, Any]:
        """The body of the answer."""
        return outcome(self.code, self.reason, **self.details)


def outcome(code: str, reason: str, **details: Any) -> dict[str, Any]:
    """An OperationOutcome."""
    return {
        "resourceType": "OperationOutcome",
        "issue": [{"severity": "fatal", "code": code, "diagnostics": reason}],
        **details,
    }
