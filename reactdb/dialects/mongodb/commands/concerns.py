"""Read and write concerns: the check of a command's fields.

One member has everything, so every concern is met as soon as a command is done. An invalid concern is refused before the command
runs, as in MongoDB.

Rule of this file: it reads a command's fields. `dispatch` reports an unmet write concern.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from bson.timestamp import Timestamp

from reactdb.dialects.mongodb.bson_order import is_text, type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.numeric import INT32_MAX, as_float, is_number, truncate

__all__ = [
    "check_cluster_time",
    "check_level_of_transaction",
    "check_read_concern",
    "check_supported_level",
    "check_time_reached",
    "check_write_concern",
]

_LEVELS: Final = frozenset({"available", "linearizable", "local", "majority", "snapshot"})
_NOTHING: Final = Timestamp(0, 0)
_LOCAL: Final = frozenset({"local"})
_OF_TRANSACTIONS: Final = frozenset({"local", "majority", "snapshot"})
_READ_FIELDS: Final = frozenset(
    {
        "level",
        "afterClusterTime",
        "afterOpTime",
        "atClusterTime",
        "provenance",
        "allowTransactionTableSnapshot",
        "waitLastStableRecoveryTimestamp",
    }
)
_WRITE_FIELDS: Final = frozenset({"w", "j", "wtimeout", "fsync", "provenance", "getLastError"})
_SOURCES: Final = frozenset(
    {"clientSupplied", "customDefault", "implicitDefault", "getLastErrorDefaults", "internalWriteDefault"}
)
_MOST_MEMBERS: Final = 50
_LEVELS_OF: Final = {
    **dict.fromkeys(("find", "aggregate", "distinct", "getMore", "explain"), _LEVELS),
    "count": _LEVELS - {"snapshot"},
}
"""The levels of a command, if it has other levels than `local`."""


def check_read_concern(concern: Any) -> None:
    """
    Raises:
        MongoError: 14, 40415 or 2, it is no read concern.
    """
    _check_fields("readConcern", concern, _READ_FIELDS)
    level = concern.get("level")
    if level is not None and not is_text(level):
        raise MongoError(14, f"readConcern.level has to be a string, not {type_name(level)}")
    if level is not None and level not in _LEVELS:
        raise MongoError(
            2, f"Enumeration value '{level}' for field 'readConcern.level' is not a valid value."
        )
    for name in ("afterClusterTime", "atClusterTime"):
        if name in concern and not isinstance(concern[name], Timestamp):
            raise MongoError(
                14, f"BSON field 'readConcern.{name}' is the wrong type, expected type 'timestamp'"
            )
    if "atClusterTime" in concern and level != "snapshot":
        raise MongoError(
            72, f"readConcern.atClusterTime is only there at the level 'snapshot', not '{level}'"
        )
    if concern.get("afterClusterTime") == _NOTHING:
        raise MongoError(72, "readConcern.afterClusterTime cannot be a null timestamp")
    if concern.get("atClusterTime") == _NOTHING:
        raise MongoError(72, "readConcern.atClusterTime cannot be a null timestamp")


def check_cluster_time(given: Any) -> None:
    """Check the type of a command's `$clusterTime`.

    Raises:
        MongoError: 14.
    """
    moment = given.get("clusterTime") if isinstance(given, Mapping) else given
    if not isinstance(moment, Timestamp):
        raise MongoError(
            14,
            f"BSON field '$clusterTime.clusterTime' is the wrong type '{type_name(moment)}', expected type 'timestamp'",
        )


def check_time_reached(concern: Mapping[str, Any], given: Any, newest: Timestamp) -> None:
    """Check that the moment of `afterClusterTime` has come. Reads see every commit, so there is nothing to wait for.

    Args:
        concern: A concern that passes `check_read_concern`.
        `given`: The command's `$clusterTime`: the driver's newest known time.
        newest: The moment of the newest commit.

    Raises:
        MongoError: 72, the moment is in the future.
    """
    wanted = concern.get("afterClusterTime")
    if wanted is None or wanted <= newest:
        return
    driver_time = given.get("clusterTime") if isinstance(given, Mapping) else None
    if not isinstance(driver_time, Timestamp) or driver_time < wanted:
        raise MongoError(
            72,
            "readConcern afterClusterTime value must not be greater than the current clusterTime. "
            f"Requested clusterTime: {wanted}; current clusterTime: {newest}",
        )


def check_supported_level(command: str, concern: Mapping[str, Any]) -> None:
    """
    Args:
        concern: A concern that passes `check_read_concern`.

    Raises:
        MongoError: 72, the command does not support it.
    """
    level = concern.get("level") or "local"
    if level not in _LEVELS_OF.get(command, _LOCAL):
        raise MongoError(72, f"read concern level '{level}' is not supported by {command}")


def check_level_of_transaction(level: str | None) -> None:
    """
    Raises:
        MongoError: 72, a transaction is not read with it.
    """
    if level is not None and level not in _OF_TRANSACTIONS:
        raise MongoError(
            72,
            "The readConcern level must be either 'local' (default), 'majority' or 'snapshot' in order to run in a "
            f"transaction, not '{level}'",
        )


def check_write_concern(concern: Any) -> None:
    """
    Raises:
        MongoError: 14, 40415, 9 or 2, it is no write concern.
    """
    _check_fields("writeConcern", concern, _WRITE_FIELDS)
    members = concern.get("w", 1)
    if is_number(members):
        number = as_float(members)
        if math.isnan(number) or not 0 <= truncate(members) <= _MOST_MEMBERS:
            raise MongoError(9, f"w has to be a non-negative number and not greater than {_MOST_MEMBERS}")
    elif isinstance(members, Mapping):
        if not members or not all(map(is_number, members.values())):
            raise MongoError(9, "tagged write concern requires tags with numbers")
    elif members is not None and not is_text(members):
        raise MongoError(9, f"w has to be a number, string, or object; found: {type_name(members)}")
    j = concern.get("j")
    if j is not None and not isinstance(j, bool) and not is_number(j):
        raise MongoError(14, f"j has to be a boolean or a number, not {type_name(j)}")
    timeout = concern.get("wtimeout")
    if is_number(timeout) and as_float(timeout) > INT32_MAX:
        raise MongoError(9, "wtimeout must be a 32-bit integer")


def _check_fields(name: str, concern: Any, known: frozenset[str]) -> None:
    if not isinstance(concern, Mapping):
        raise MongoError(
            14, f"BSON field '{name}' is the wrong type '{type_name(concern)}', expected type 'object'"
        )
    for field in concern:
        if field not in known:
            raise MongoError(40415, f"BSON field '{name}.{field}' is an unknown field.")
    source = concern.get("provenance")
    if source is not None and not is_text(source):
        raise MongoError(14, f"BSON field '{name}.provenance' is the wrong type '{type_name(source)}'")
    if source is not None and source not in _SOURCES:
        raise MongoError(2, f"Enumeration value '{source}' for field 'provenance' is not a valid value.")
