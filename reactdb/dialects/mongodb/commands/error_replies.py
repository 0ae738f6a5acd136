"""reactdb's errors as MongoDB's.

Rule of this file: one table from ours to theirs. A MongoError is sent unchanged.
"""

from __future__ import annotations

from typing import Final

from reactdb import errors
from reactdb.dialects.mongodb.errors import TOO_DEEP, MongoError
from reactdb.logs import logger

__all__ = ["as_mongo_error"]

CODES: Final[tuple[tuple[type[Exception], int], ...]] = (
    (errors.DuplicateKey, 11000),
    (errors.TableNotFound, 26),
    (errors.TableExists, 48),
    (errors.IndexNotFound, 27),
    (errors.IndexExists, 68),
    (errors.InvalidName, 73),
    (errors.ReadOnlyDatabase, 10107),
    (errors.DatabaseBusy, 24),
    (errors.DiskFull, 14031),
    (errors.DatabaseClosed, 91),
    (errors.HistoryLost, 286),
    (errors.HistoryDiverged, 286),
    (errors.FeedOverflow, 136),
    (errors.ResourceLimit, 146),
    (errors.UsageError, 2),
    (RecursionError, 15),
)
"""The first match counts."""


def as_mongo_error(error: Exception) -> MongoError:
    """The error in MongoDB's terms; an unexpected error is logged, and becomes an internal error."""
    if isinstance(error, MongoError):
        return error
    for kind, code in CODES:
        if isinstance(error, kind):
            return MongoError(code, TOO_DEEP if kind is RecursionError else str(error))
    logger.error("a command of MongoDB's dialect failed", exc_info=error)
    return MongoError(1, f"{type(error).__name__}: {error}")
