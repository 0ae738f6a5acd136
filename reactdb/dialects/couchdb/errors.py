"""CouchError: a refusal in CouchDB's terms, which a server sends unchanged.

Rule of this file: it holds no sentences. Each is written where the request is refused.
"""

from __future__ import annotations

from reactdb.errors import UsageError


class CouchError(UsageError):
    """A request that CouchDB refuses: the HTTP status, the error's name and its reason, as in `{"error", "reason"}`."""

    def __init__(self, status: int, error: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.error = error
        self.reason = reason
