"""Errors of a query as RethinkDB's drivers expect them: a kind, a message, and the path to the term at fault.

Evaluation raises reactdb's usual errors. The innermost term around an error marks it with its path (`locate`), and at the end
`as_failure` turns it into an error response.

Rule of this file: it maps and renders. Messages are written where the mistake is found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from reactdb import errors
from reactdb.dialects.rethinkdb.terms import Path

# Types of responses.
CLIENT_ERROR, COMPILE_ERROR, RUNTIME_ERROR = 16, 17, 18

# Kinds of runtime errors.
INTERNAL: Final = 1_000_000
RESOURCE_LIMIT: Final = 2_000_000
QUERY_LOGIC: Final = 3_000_000
NON_EXISTENCE: Final = 3_100_000
OP_FAILED: Final = 4_100_000
OP_INDETERMINATE: Final = 4_200_000
USER: Final = 5_000_000
PERMISSION: Final = 6_000_000


class OperationFailed(errors.UsageError):
    """ReQL's ReqlOpFailedError: the query is valid, but not in the present state of the database."""


class CompileError(errors.UsageError):
    """The term tree itself is wrong, and nothing of it was run."""


class ClientError(errors.UsageError):
    """The driver broke the protocol."""


class Terminated(errors.UsageError):
    """The server stopped the query."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error response: its type, the kind of a runtime error (else None), the sentence, and the path as a list."""

    type: int
    kind: int | None
    message: str
    backtrace: list[int | str]


# The first matching class gives the kind, so subclasses come before their base classes.
_KINDS: Final[tuple[tuple[type[Exception], int], ...]] = (
    (errors.RaisedError, USER),
    (errors.MissingValue, NON_EXISTENCE),
    (errors.ResourceLimit, RESOURCE_LIMIT),
    (errors.QueryError, QUERY_LOGIC),
    (OperationFailed, OP_FAILED),
    (errors.TableNotFound, OP_FAILED),
    (errors.TableExists, OP_FAILED),
    (errors.IndexNotFound, OP_FAILED),
    (errors.IndexExists, OP_FAILED),
    (errors.HookNotFound, OP_FAILED),
    (errors.ReadOnlyDatabase, PERMISSION),
    (errors.DatabaseClosed, OP_FAILED),
    (Terminated, OP_INDETERMINATE),
    (errors.OutcomeUnknown, OP_INDETERMINATE),
    (errors.FeedError, OP_FAILED),
    (errors.StorageError, OP_FAILED),
    (errors.UsageError, QUERY_LOGIC),
)


def locate(error: BaseException, path: Path) -> None:
    """Mark an error with the path of the term at fault, unless a term inside it has already done so."""
    if getattr(error, "reql_path", None) is None:
        error.reql_path = path  # type: ignore[attr-defined]


def with_path(error: errors.ReactDBError, path: Path) -> errors.ReactDBError:
    """The error with this path in place of an earlier path."""
    error.reql_path = path  # type: ignore[attr-defined]
    return error


def as_failure(error: BaseException) -> Failure:
    """The error response for an error."""
    path = list(getattr(error, "reql_path", None) or ())
    message = str(error)
    if isinstance(error, CompileError):
        return Failure(COMPILE_ERROR, None, message, path)
    if isinstance(error, ClientError):
        return Failure(CLIENT_ERROR, None, message, path)
    if isinstance(error, errors.InvalidDocument):
        return Failure(RUNTIME_ERROR, QUERY_LOGIC, error.reason, path)
    for known, kind in _KINDS:
        if isinstance(error, known):
            return Failure(RUNTIME_ERROR, kind, message, path)
    if isinstance(error, RecursionError):
        return Failure(RUNTIME_ERROR, RESOURCE_LIMIT, "The query is nested too deeply.", path)
    return Failure(RUNTIME_ERROR, INTERNAL, f"{type(error).__name__}: {message}", path)
