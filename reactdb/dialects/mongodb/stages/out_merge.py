"""Stages that write the results of a pipeline at its end: `$out` and `$merge`. They return no documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from reactdb.dialects.mongodb.bson_order import is_text, type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions.compile import Evaluate, constant, variable_name
from reactdb.dialects.mongodb.shapes import field_path
from reactdb.dialects.mongodb.stages.stage import Document, MergeTarget, Setting, Stage, stage

__all__: list[str] = []

_RESERVED: Final = frozenset({"admin", "config", "local"})


@stage("$out")
def _out(spec: Any, setting: Setting) -> Stage:
    database, collection = setting.database, spec
    if isinstance(spec, Mapping):
        for name in spec:
            if name not in {"db", "coll", "timeseries"}:
                raise MongoError(40415, f"$out has no option '{name}'")
        for name in ("db", "coll"):
            if spec.get(name) is None:
                raise MongoError(40414, f"$out needs the option '{name}'")
        database, collection = spec["db"], spec["coll"]
        if spec.get("timeseries") is not None:
            raise MongoError(115, "$out cannot write to a time series: there are none here")
    if not is_text(database) or not is_text(collection):
        raise MongoError(
            16990 if not isinstance(spec, Mapping) else 14,
            f"$out only supports a string or object argument, not {type_name(spec)}",
        )
    _check_name("$out", database, collection, 31321, 17385)

    def run(documents: Iterator[Document]) -> Iterator[Document]:
        setting.collections.replace(f"{database}.{collection}", documents)
        return iter(())

    return Stage("$out", run)


def _check_name(name: str, database: str, collection: str, code_database: int, code_collection: int) -> None:
    if collection.startswith("$"):
        raise MongoError(20, f"{name} cannot write to a collection with the name '{collection}'")
    if not collection or collection.startswith(".") or "$" in collection or "\0" in collection:
        raise MongoError(73, f"{name} cannot write to a collection with the name '{collection}'")
    if not database or any(letter in database for letter in '/\\. "$\0'):
        raise MongoError(73, f"{name} cannot write to a database with the name '{database}'")
    if database in _RESERVED:
        raise MongoError(code_database, f"{name} cannot write to the database '{database}'")
    if collection.startswith("system."):
        raise MongoError(code_collection, f"{name} cannot write to the collection '{collection}'")


_OF_SYSTEM: Final = frozenset({"NOW", "CLUSTER_TIME"})
_MERGE: Final = (
    "into",
    "on",
    "let",
    "whenMatched",
    "whenNotMatched",
    "targetCollectionVersion",
    "allowMergeOnNullishValues",
)
_MATCHED: Final = ("replace", "keepExisting", "merge", "fail")
_NOT_MATCHED: Final = ("insert", "discard", "fail")
# The meaningful pairs: the others are refused with their code.
_REFUSED: Final = {
    ("keepExisting", "discard"),
    ("keepExisting", "fail"),
    ("fail", "discard"),
    ("fail", "fail"),
}


@stage("$merge")
def _merge(spec: Any, setting: Setting) -> Stage:
    if spec == "":
        raise MongoError(73, "$merge needs the name of a collection")
    if is_text(spec):
        spec = {"into": spec}
    if not isinstance(spec, Mapping):
        raise MongoError(14, f"$merge only supports a string or object argument, not {type_name(spec)}")
    for name in spec:
        if name not in _MERGE:
            raise MongoError(40415, f"$merge has no option '{name}'")
    # These two count as not there where they are null.
    spec = {
        name: value
        for name, value in spec.items()
        if value is not None or name not in {"whenNotMatched", "let"}
    }
    if "into" not in spec:
        raise MongoError(40414, "$merge needs the option 'into'")
    merging = MergeTarget(
        _read_into(spec["into"], setting),
        _read_on(spec.get("on", "_id")),
        _read_when_matched(spec.get("whenMatched", "merge")),
        _choice("whenNotMatched", spec.get("whenNotMatched", "insert"), _NOT_MATCHED),
        _variables(spec, setting),
    )
    if is_text(merging.when_matched) and (merging.when_matched, merging.when_not_matched) in _REFUSED:
        raise MongoError(
            51181,
            f"$merge cannot combine whenMatched '{merging.when_matched}' with whenNotMatched '{merging.when_not_matched}'",
        )
    if isinstance(merging.when_matched, list):
        # Parsed now, so that errors are raised before the first write.
        setting.nested(merging.when_matched, setting.within((*merging.variables, "new")))

    def run(documents: Iterator[Document]) -> Iterator[Document]:
        setting.collections.merge(merging, documents)
        return iter(())

    return Stage("$merge", run)


def _read_into(value: Any, setting: Setting) -> str:
    database, collection = setting.database, value
    if isinstance(value, Mapping):
        for name in value:
            if name not in {"db", "coll"}:
                raise MongoError(40415, f"$merge's into has no field '{name}'")
        if value.get("coll") is None:
            raise MongoError(5786801, "$merge's into needs the name of a collection")
        database, collection = value.get("db") or database, value["coll"]
    elif not is_text(value):
        raise MongoError(51178, f"$merge takes a text or an object as into, not {type_name(value)}")
    if not is_text(database) or not is_text(collection):
        raise MongoError(14, "$merge's into takes texts as names")
    if not collection:
        raise MongoError(5786800, "$merge's into needs the name of a collection")
    _check_name("$merge", database, collection, 31320, 31319)
    return f"{database}.{collection}"


def _read_on(value: Any) -> tuple[str, ...]:
    if is_text(value):
        value = [value]
    if not isinstance(value, list | tuple):
        raise MongoError(51186, f"$merge takes a text or an array of texts as on, not {type_name(value)}")
    if not value:
        raise MongoError(51187, "$merge takes at least one field as on")
    for name in value:
        if not is_text(name):
            raise MongoError(51134, f"$merge takes texts as on, not {type_name(name)}")
        field_path(name, what="a field of $merge's on")
    if len(set(value)) != len(value):
        raise MongoError(31465, "$merge takes each field of on once")
    return tuple(value)


def _read_when_matched(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return list(value)
    if not is_text(value):
        raise MongoError(51191, f"$merge takes a text or a pipeline as whenMatched, not {type_name(value)}")
    return _choice("whenMatched", value, _MATCHED)


def _choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    if not is_text(value):
        raise MongoError(14, f"$merge takes a text as {name}, not {type_name(value)}")
    if value not in choices:
        raise MongoError(2, f"$merge takes one of {', '.join(choices)} as {name}, not '{value}'")
    return value


def _variables(spec: Mapping[str, Any], setting: Setting) -> dict[str, Any]:
    # The command's variables are visible, too. The system's own are made anew.
    given = {name: constant(value) for name, value in setting.variables.items() if name not in _OF_SYSTEM}
    let = spec.get("let")
    if let is None:
        return given
    if not isinstance(let, Mapping):
        raise MongoError(14, f"$merge takes an object as let, not {type_name(let)}")
    if not isinstance(spec.get("whenMatched", "merge"), list | tuple):
        raise MongoError(51199, "$merge takes let only together with a pipeline as whenMatched")
    if "new" in let and let["new"] != "$$ROOT":
        raise MongoError(51273, "$merge's let cannot define 'new' as anything but '$$ROOT'")
    return given | {variable_name(name): _with_variables(value, setting) for name, value in let.items()}


def _with_variables(spec: Any, setting: Setting) -> Evaluate:
    evaluate = setting.expression(spec)
    return lambda document, variables: evaluate(document, setting.variables | variables)
