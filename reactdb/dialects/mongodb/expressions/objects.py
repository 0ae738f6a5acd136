"""Operators on objects: their fields by name, merging, and objects from arrays of names and values.

Rule of this file: a name is taken as it is, with its dots and dollars.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from reactdb.budget import spend_value
from reactdb.dialects.mongodb.bson_order import MISSING, is_text, type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions.compile import (
    Evaluate,
    NamedArguments,
    Scope,
    check_named_parts,
    compile_value,
    constant_of,
    function,
    is_nullish,
    syntax,
)

__all__: list[str] = []

Variables = dict[str, Any]


@function("$mergeObjects", 0, None)
def merged(*objects: Any) -> dict[str, Any]:
    """One object with the fields of all arguments, or of all objects in an array: the last value of a field counts."""
    result: dict[str, Any] = {}
    for value in objects[0] if len(objects) == 1 and isinstance(objects[0], list) else objects:
        if is_nullish(value):
            continue
        if not isinstance(value, dict):
            raise MongoError(
                40400, f"$mergeObjects requires object inputs, but input is of type {type_name(value)}"
            )
        spend_value(value)
        result.update(value)
    return result


@function("$objectToArray", 1)
def pairs(value: Any) -> Any:
    """The fields as an array of `{k, v}`."""
    if is_nullish(value):
        return None
    if not isinstance(value, dict):
        raise MongoError(40390, f"$objectToArray requires a document input, found: {type_name(value)}")
    return [{"k": name, "v": part} for name, part in value.items()]


@function("$arrayToObject", 1)
def from_pairs(array: Any) -> Any:
    """The object of an array of `{k, v}`, or of arrays of two."""
    if is_nullish(array):
        return None
    if not isinstance(array, list):
        raise MongoError(40386, f"$arrayToObject requires an array input, found: {type_name(array)}")
    spend_value(array)
    if not array:
        return {}
    if isinstance(array[0], list):
        return dict(_pair(element) for element in array)
    if isinstance(array[0], dict):
        return dict(_named_pair(element) for element in array)
    raise MongoError(40398, f"$arrayToObject takes pairs or objects of k and v, not {type_name(array[0])}")


def _pair(element: Any) -> tuple[str, Any]:
    if not isinstance(element, list):
        raise MongoError(40396, f"$arrayToObject began with pairs, and then found {type_name(element)}")
    if len(element) != 2:
        raise MongoError(40397, f"$arrayToObject takes arrays of 2 elements, not of {len(element)}")
    name, value = element
    if not is_text(name):
        raise MongoError(40395, f"$arrayToObject takes texts as names, not {type_name(name)}")
    if "\0" in name:
        raise MongoError(4940400, "a field's name must not contain a null character")
    return name, value


def _named_pair(element: Any) -> tuple[str, Any]:
    if not isinstance(element, dict):
        raise MongoError(
            40391, f"$arrayToObject began with objects of k and v, and then found {type_name(element)}"
        )
    if len(element) != 2:
        raise MongoError(40392, f"$arrayToObject takes objects of k and v, not of {len(element)} fields")
    if "k" not in element or "v" not in element:
        raise MongoError(40393, "$arrayToObject takes objects of k and v")
    if not is_text(element["k"]):
        raise MongoError(40394, f"$arrayToObject takes texts as names, not {type_name(element['k'])}")
    if "\0" in element["k"]:
        raise MongoError(4940401, "a field's name must not contain a null character")
    return element["k"], element["v"]


# --- One field ---

_GET: Final = NamedArguments(3041701, 3041701, {"field": 3041702, "input": 3041703})


@syntax("$getField")
def _get_field(spec: Any, scope: Scope) -> Evaluate:
    if isinstance(spec, Mapping) and not any(name.startswith("$") for name in spec):
        parts = check_named_parts("$getField", spec, _GET)
        field_spec, source = parts["field"], compile_value(parts["input"], scope)
    else:
        field_spec, source = spec, compile_value("$$CURRENT", scope)
    field = compile_value(field_spec, scope)
    _check_constant_name(field, 3041704)

    def evaluate(document: Any, variables: Variables) -> Any:
        name = field(document, variables)
        if not is_text(name):
            raise MongoError(
                3041704, f"$getField requires 'field' to evaluate to type String, but got {type_name(name)}"
            )
        value = source(document, variables)
        if isinstance(value, dict):
            return value.get(name, MISSING)
        return None if value is None else MISSING

    return evaluate


def _check_constant_name(field: Evaluate, code: int) -> None:
    name = constant_of(field)
    if name is not MISSING and not is_text(name):
        raise MongoError(code, f"a field's name is a text, not {type_name(name)}")


_SET: Final = NamedArguments(4161100, 4161101, {"field": 4161102, "input": 4161109, "value": 4161103})
_UNSET: Final = NamedArguments(4161100, 4161101, {"field": 4161102, "input": 4161109})


def _constant_field(name: str, spec: Any, scope: Scope) -> str:
    if is_text(spec) and spec.startswith("$"):
        raise MongoError(4161108, f"{name} takes a text as field, not a path: write {{$literal: '{spec}'}}")
    field = constant_of(compile_value(spec, scope))
    if field is MISSING:
        raise MongoError(4161106, f"{name} takes a constant as field")
    if not is_text(field):
        raise MongoError(4161107, f"{name} takes a text as field, not {type_name(field)}")
    return field


def _sets_field(name: str, names: NamedArguments) -> None:
    @syntax(name)
    def compiler(spec: Any, scope: Scope) -> Evaluate:
        parts = check_named_parts(name, spec, names)
        field = _constant_field(name, parts["field"], scope)
        source = compile_value(parts["input"], scope)
        new = compile_value(parts.get("value", "$$REMOVE"), scope)

        def evaluate(document: Any, variables: Variables) -> Any:
            value = source(document, variables)
            if is_nullish(value):
                return None
            if not isinstance(value, dict):
                raise MongoError(
                    4161105, f"{name} requires 'input' to evaluate to type Object, not {type_name(value)}"
                )
            spend_value(value)
            result = dict(value)
            part = new(document, variables)
            if part is MISSING:
                result.pop(field, None)
            else:
                result[field] = part
            return result

        return evaluate


_sets_field("$setField", _SET)
_sets_field("$unsetField", _UNSET)
