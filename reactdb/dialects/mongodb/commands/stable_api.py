"""The stable API: what `apiVersion`, `apiStrict` and `apiDeprecationErrors` of a command ask for.

There is version 1. A command that is `apiStrict` is refused what does not belong to it: commands, options and stages that MongoDB
may change. Nothing of version 1 is deprecated, so `apiDeprecationErrors` refuses nothing.

Rule of this file: it reads commands and refuses them; it carries out none. What is not there at all is refused elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from reactdb.dialects.mongodb.bson_order import is_text, type_name
from reactdb.dialects.mongodb.errors import MongoError

__all__ = ["API_FIELDS", "STABLE_COMMANDS", "check_api"]

API_FIELDS: Final = frozenset(("apiVersion", "apiStrict", "apiDeprecationErrors"))

STABLE_COMMANDS: Final = frozenset(
    (
        "abortTransaction",
        "aggregate",
        "bulkWrite",
        "collMod",
        "commitTransaction",
        "count",
        "create",
        "createIndexes",
        "delete",
        "drop",
        "dropDatabase",
        "dropIndexes",
        "endSessions",
        "explain",
        "find",
        "findAndModify",
        "getMore",
        "hello",
        "insert",
        "killCursors",
        "listCollections",
        "listDatabases",
        "listIndexes",
        "ping",
        "refreshSessions",
        "saslContinue",
        "saslStart",
        "update",
    )
)
"""The commands of version 1."""

_OPTIONS: Final[Mapping[str, frozenset[str]]] = {
    "aggregate": frozenset(("explain",)),
    "create": frozenset(("autoIndexId", "capped", "indexOptionDefaults", "max", "size", "storageEngine")),
    "find": frozenset(
        (
            "awaitData",
            "max",
            "min",
            "noCursorTimeout",
            "oplogReplay",
            "returnKey",
            "showRecordId",
            "tailable",
        )
    ),
}
"""Options of commands of version 1 that do not belong to it."""
_OF_INDEXES: Final = frozenset(("background", "bucketSize", "sparse", "storageEngine"))
_STAGES: Final = frozenset(
    (
        "$currentOp",
        "$indexStats",
        "$listLocalSessions",
        "$listSearchIndexes",
        "$listSessions",
        "$planCacheStats",
        "$search",
        "$searchMeta",
        "$vectorSearch",
    )
)
"""Stages that do not belong to version 1."""


def check_api(name: str, body: Mapping[str, Any]) -> None:
    """
    Args:
        name: The command, as the table of commands spells it.

    Raises:
        MongoError: 322, there is no such version; 4886600, one has to be named; 323, the command is strict and something in it
            is not in version 1; 14, a field is of another type.
    """
    version = body.get("apiVersion")
    for field in ("apiStrict", "apiDeprecationErrors"):
        given = body.get(field)
        if given is not None and not isinstance(given, bool):
            raise MongoError(
                14, f"BSON field '{field}' is the wrong type '{type_name(given)}', expected 'bool'"
            )
        if given is not None and version is None:
            raise MongoError(4886600, f"{field} needs an apiVersion")
    if version is None:
        return
    if not is_text(version):
        raise MongoError(
            14, f"BSON field 'apiVersion' is the wrong type '{type_name(version)}', expected 'string'"
        )
    if version != "1":
        raise MongoError(322, f"API version must be '1', not '{version}'")
    if body.get("apiStrict"):
        _check_strict(name, body)


def _check_strict(name: str, body: Mapping[str, Any]) -> None:
    if name not in STABLE_COMMANDS:
        raise MongoError(323, f"the command {name} is not in API version 1, and apiStrict is asked for")
    for option in _OPTIONS.get(name, ()):
        if option in body:
            raise _strange(f"the option '{option}' of {name}")
    if name == "createIndexes":
        for index in _documents(body.get("indexes")):
            for option in _OF_INDEXES.intersection(index):
                raise _strange(f"the option '{option}' of an index")
    if name in ("aggregate", "create"):
        _check_pipeline(body.get("pipeline"))
    if name == "explain" and isinstance(body.get("explain"), Mapping):
        # What is explained has to be in the version as well. The first field of it is its name.
        asked = body["explain"]
        _check_strict(next(iter(asked), ""), asked)


def _check_pipeline(pipeline: Any) -> None:
    for stage in _documents(pipeline):
        for name, spec in stage.items():
            if name in _STAGES:
                raise _strange(f"the stage {name}")
            if name == "$collStats" and isinstance(spec, Mapping) and set(spec) - {"count"}:
                raise _strange("$collStats with more than 'count'")
            if name == "$changeStream" and isinstance(spec, Mapping) and "showExpandedEvents" in spec:
                raise _strange("the option 'showExpandedEvents' of $changeStream")
            for inner in _pipelines_in(name, spec):
                _check_pipeline(inner)


def _pipelines_in(name: str, spec: Any) -> Iterator[Any]:
    """The pipelines that lie within a stage."""
    if isinstance(spec, Mapping):
        if name in ("$lookup", "$unionWith"):
            yield spec.get("pipeline")
        elif name == "$facet":
            yield from spec.values()


def _documents(given: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(given, list | tuple):
        yield from (one for one in given if isinstance(one, Mapping))


def _strange(what: str) -> MongoError:
    return MongoError(323, f"{what} is not in API version 1, and apiStrict is asked for")
