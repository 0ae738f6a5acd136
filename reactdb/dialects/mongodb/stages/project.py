"""Stages that reshape each document: `$project`, `$addFields`, `$set`, `$unset`, `$replaceRoot`, `$replaceWith`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reactdb.dialects.mongodb.bson_order import MISSING, is_text, type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions import Scope
from reactdb.dialects.mongodb.shapes import Reshape, additions, exclusion, projection
from reactdb.dialects.mongodb.stages.stage import STAGES, Document, Setting, Stage, each, stage

__all__: list[str] = []


def _reshape_stage(name: str, reshape: Reshape, setting: Setting) -> Stage:
    variables = setting.variables
    return each(name, lambda document: reshape(document, variables))


def _compile(
    name: str, compiler: Callable[[Mapping[str, Any], Scope], Reshape], spec: Any, setting: Setting
) -> Stage:
    """A stage; errors in its fields contain its name, as in MongoDB."""
    try:
        return _reshape_stage(name, compiler(spec, setting.scope()), setting)
    except MongoError as error:
        raise MongoError(error.code, f"Invalid {name} :: caused by :: {error.message}") from error


@stage("$project")
def _project(spec: Any, setting: Setting) -> Stage:
    if not isinstance(spec, Mapping):
        raise MongoError(15969, "$project specification must be an object")
    return _compile("$project", projection, spec, setting)


def _adds(name: str) -> None:
    def compiler(spec: Any, setting: Setting) -> Stage:
        if not isinstance(spec, Mapping):
            raise MongoError(40272, f"{name} specification stage must be an object, got {type_name(spec)}")
        return _compile(name, additions, spec, setting)

    STAGES[name] = compiler


_adds("$addFields")
_adds("$set")


@stage("$unset")
def _unset(spec: Any, setting: Setting) -> Stage:
    if is_text(spec):
        spec = [spec]
    if not isinstance(spec, list | tuple):
        raise MongoError(31002, "$unset specification must be a string or an array")
    if not spec:
        raise MongoError(31119, "$unset specification must be a string or an array with at least one field")
    for path in spec:
        if not is_text(path):
            raise MongoError(
                31120, "$unset specification must be a string or an array containing only string values"
            )
    return _reshape_stage("$unset", exclusion(list(spec)), setting)


def _replaces(name: str, spec: Any, setting: Setting) -> Stage:
    evaluate, variables = setting.expression(spec), setting.variables

    def of_one(document: Document) -> Document:
        value = evaluate(document, variables)
        if not isinstance(value, dict):
            kind = "nothing" if value is MISSING else type_name(value)
            raise MongoError(
                40228, f"'newRoot' expression must evaluate to an object, but resulting value was: {kind}"
            )
        return value

    return each(name, of_one)


@stage("$replaceRoot")
def _replace_root(spec: Any, setting: Setting) -> Stage:
    if not isinstance(spec, Mapping):
        raise MongoError(
            40229, f"expected an object as specification for $replaceRoot stage, got {type_name(spec)}"
        )
    for name in spec:
        if name != "newRoot":
            raise MongoError(40415, f"$replaceRoot has no option '{name}'")
    if "newRoot" not in spec:
        raise MongoError(40414, "$replaceRoot needs the option 'newRoot'")
    return _replaces("$replaceRoot", spec["newRoot"], setting)


@stage("$replaceWith")
def _replace_with(spec: Any, setting: Setting) -> Stage:
    return _replaces("$replaceWith", spec, setting)
