"""`$jsonSchema`: the keywords of JSON Schema, draft 4, and MongoDB's `bsonType`.

    matches = compile_schema({"required": ["name"], "properties": {"age": {"bsonType": "int", "minimum": 0}}})

A keyword for texts, numbers, arrays or objects accepts all other values. Numbers are equal across their types.

Rule of this file: it sees values, and no paths. Nested schemas are compiled by the same function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from reactdb.budget import spend_value
from reactdb.dialects.mongodb.bson_order import is_nan, number_of, sort_key, type_name
from reactdb.dialects.mongodb.conditions import comparison, has_type, matches_pattern
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.numeric import NUMBERS, as_decimal, decimal128, remainder, whole

__all__ = ["compile_schema"]

Test = Callable[[Any], bool]

_JSON_TYPES: Final = {
    "object": "object",
    "array": "array",
    "string": "string",
    "boolean": "bool",
    "null": "null",
    "number": "number",
}
_NOT_HERE: Final = frozenset({"$ref", "$schema", "default", "definitions", "format", "id"})
_READ_WITH_OTHERS: Final = frozenset(
    {"exclusiveMinimum", "exclusiveMaximum", "additionalProperties", "patternProperties", "additionalItems"}
)
_MAX_DEPTH: Final = 100


def compile_schema(schema: Any, depth: int = 0) -> Test:
    """Whether a value passes the schema.

    Raises:
        MongoError: 9, a keyword is unknown or not supported; 14 and 9, an operand is invalid.
    """
    if not isinstance(schema, Mapping):
        raise MongoError(14, "$jsonSchema must be an object")
    if depth > _MAX_DEPTH:
        raise MongoError(15, f"a schema is nested more than {_MAX_DEPTH} levels deep")
    if "type" in schema and "bsonType" in schema:
        raise MongoError(9, "Cannot specify both $jsonSchema keywords 'type' and 'bsonType'")
    tests: list[Test] = []
    for name, operand in schema.items():
        make = _KEYWORDS.get(name)
        if make is not None:
            tests.append(make(name, operand, schema, depth + 1))
        elif name in ("title", "description"):
            if type(operand) is not str:
                raise _schema_error(name, "a string")
        elif name in _NOT_HERE:
            raise MongoError(9, f"$jsonSchema keyword '{name}' is not currently supported")
        elif name not in _READ_WITH_OTHERS:
            raise MongoError(9, f"Unknown $jsonSchema keyword: {name}")
    if not {"properties"} & schema.keys() and {"additionalProperties", "patternProperties"} & schema.keys():
        tests.append(_properties("properties", {}, schema, depth + 1))
    if "additionalItems" in schema and type(schema.get("items")) is not list:
        _additional(schema, "additionalItems", depth + 1)
    return lambda value: all(test(value) for test in tests)


def _schema_error(name: str, wanted: str) -> MongoError:
    return MongoError(14, f"$jsonSchema keyword '{name}' must be {wanted}")


def _only_of(kinds: frozenset[type], test: Test) -> Test:
    """A test of some types; values of all others pass."""

    def holds(value: Any) -> bool:
        if type(value) not in kinds:
            return True
        spend_value(value)
        return test(value)

    return holds


_TEXTS: Final[frozenset[type]] = frozenset({str})
_ARRAYS: Final[frozenset[type]] = frozenset({list})
_OBJECTS: Final[frozenset[type]] = frozenset({dict})


# -----------------------------------------------------------------------------------------------------------
# Keywords: (name, operand, the whole schema, depth) -> Test


def _type(name: str, operand: Any, schema: Mapping[str, Any], depth: int) -> Test:
    wanted = operand if type(operand) is list else [operand]
    if not wanted or any(type(one) is not str for one in wanted):
        raise _schema_error(name, "a string or an array of strings")
    for one in wanted:
        if one == "integer":
            raise MongoError(9, "$jsonSchema type 'integer' is not currently supported.")
        if name == "type" and one not in _JSON_TYPES:
            raise MongoError(2, f"Unknown type name alias: {one}")
    return has_type(wanted if name == "bsonType" else [_JSON_TYPES[one] for one in wanted])


def _enum(name: str, operand: Any, schema: Mapping[str, Any], depth: int) -> Test:
    if type(operand) is not list or not operand:
        raise _schema_error(name, "a non-empty array")
    keys = {sort_key(one) for one in operand}
    return lambda value: sort_key(value) in keys


def _bound(name: str, operand: Any, schema: Mapping[str, Any], depth: int) -> Test:
    if type(operand) not in NUMBERS:
        raise _schema_error(name, "a number")
    exclusive = schema.get("exclusiveMinimum" if name == "minimum" else "exclusiveMaximum", False)
    if type(exclusive) is not bool:
        raise _schema_error(f"exclusive{name.capitalize()}", "a boolean")
    operator = ("$gt" if exclusive else "$gte") if name == "minimum" else ("$lt" if exclusive else "$lte")
    return _only_of(NUMBERS, comparison(operator, operand))


def _multiple_of(name: str, operand: Any, schema: Mapping[str, Any], depth: int) -> Test:
    if type(operand) not in NUMBERS:
        raise _schema_error(name, "a number")
    if not number_of(operand) or is_nan(operand) or number_of(operand) < 0:  # type: ignore[operator]
        raise MongoError(9, f"$jsonSchema keyword '{name}' must have a positive value")
    # In decimals, where 0.3 is a multiple of 0.1.
    return _only_of(NUMBERS, lambda value: number_of(remainder(decimal128(as_decimal(value)), operand)) == 0)


def _length(kinds: frozenset[type], is_least: bool) -> Callable[..., Test]:
    def make(name: str, operand: Any, schema: Mapping[str, Any], depth: int) -> Test:
        number = whole(operand)
        if number is None:
            raise MongoError(9, f"$jsonSchema keyword '{name}' must be a whole number")
        if number < 0:
            raise MongoError(9, f"$jsonSchema keyword '{name}' must not be negative")
        size = number
        if is_least:
            return _only_of(kinds, lambda value: len(value) >= size)
        return _only_of(kinds, lambda value: len(value) <= size)

    return make


def _pattern(name: str, operand: Any, schema: Mapping[str, Any], depth: int) -> Test:
    if type(operand) is not str:
        raise _schema_error(name, "a string")
    return _only_of(_TEXTS, matches_pattern(operand))


def _unique(name: str, operand: Any, schema: Mapping[str, Any], depth: int) -> Test:
    if type(operand) is not bool:
        raise _schema_error(name, "a boolean")
    return _only_of(_ARRAYS, lambda value: not operand or len(set(map(sort_key, value))) == len(value))


def _items(name: str, operand: Any, schema: Mapping[str, Any], depth: int) -> Test:
    if type(operand) is not list:
        only = compile_schema(operand, depth)
        return _only_of(_ARRAYS, lambda value: all(map(only, value)))
    tests = [compile_schema(one, depth) for one in operand]
    others = _additional(schema, "additionalItems", depth)

    def holds(value: list[Any]) -> bool:
        firsts = all(test(one) for test, one in zip(tests, value, strict=False))
        return firsts and all(map(others, value[len(tests) :]))

    return _only_of(_ARRAYS, holds)


def _additional(schema: Mapping[str, Any], name: str, depth: int) -> Test:
    operand = schema.get(name, True)
    if type(operand) is bool:
        return lambda value: operand
    if not isinstance(operand, Mapping):
        raise _schema_error(name, "a boolean or an object")
    return compile_schema(operand, depth)


def _required(name: str, operand: Any, schema: Mapping[str, Any], depth: int) -> Test:
    if type(operand) is not list or any(type(one) is not str for one in operand):
        raise _schema_error(name, "an array of strings")
    if not operand:
        raise MongoError(9, "$jsonSchema keyword 'required' cannot be an empty array")
    if len(set(operand)) < len(operand):
        raise MongoError(9, "$jsonSchema keyword 'required' cannot have a value twice")
    names = tuple(operand)
    return _only_of(_OBJECTS, lambda value: all(one in value for one in names))


def _properties(name: str, operand: Any, schema: Mapping[str, Any], depth: int) -> Test:
    patterns = schema.get("patternProperties", {})
    for keyword, given in ((name, operand), ("patternProperties", patterns)):
        if not isinstance(given, Mapping):
            raise _schema_error(keyword, "an object")
    known = {field: compile_schema(inner, depth) for field, inner in operand.items()}
    by_pattern = [(_name_test(pattern), compile_schema(inner, depth)) for pattern, inner in patterns.items()]
    others = _additional(schema, "additionalProperties", depth)

    def holds(value: dict[str, Any]) -> bool:
        for field, inner in value.items():
            tests = [known[field]] if field in known else []
            tests += [test for is_named, test in by_pattern if is_named(field)]
            if not all(test(inner) for test in tests or [others]):
                return False
        return True

    return _only_of(_OBJECTS, holds)


def _name_test(pattern: str) -> Test:
    try:
        return matches_pattern(pattern)
    except MongoError as error:
        raise MongoError(2, f"Invalid regular expression in 'patternProperties': {error}") from None


def _dependencies(name: str, operand: Any, schema: Mapping[str, Any], depth: int) -> Test:
    if not isinstance(operand, Mapping):
        raise _schema_error(name, "an object")
    tests = {
        field: _required("required", needed, schema, depth)
        if type(needed) is list
        else compile_schema(needed, depth)
        for field, needed in operand.items()
    }
    return _only_of(
        _OBJECTS, lambda value: all(test(value) for field, test in tests.items() if field in value)
    )


def _several(name: str, operand: Any, schema: Mapping[str, Any], depth: int) -> Test:
    if type(operand) is not list or not operand:
        raise _schema_error(name, f"a non-empty array of objects, not {type_name(operand)}")
    tests = [compile_schema(one, depth) for one in operand]
    if name == "allOf":
        return lambda value: all(test(value) for test in tests)
    if name == "anyOf":
        return lambda value: any(test(value) for test in tests)
    return lambda value: sum(test(value) for test in tests) == 1


def _not(name: str, operand: Any, schema: Mapping[str, Any], depth: int) -> Test:
    test = compile_schema(operand, depth)
    return lambda value: not test(value)


_KEYWORDS: Final[dict[str, Callable[[str, Any, Mapping[str, Any], int], Test]]] = {
    "type": _type,
    "bsonType": _type,
    "enum": _enum,
    "minimum": _bound,
    "maximum": _bound,
    "multipleOf": _multiple_of,
    "minLength": _length(_TEXTS, is_least=True),
    "maxLength": _length(_TEXTS, is_least=False),
    "pattern": _pattern,
    "minItems": _length(_ARRAYS, is_least=True),
    "maxItems": _length(_ARRAYS, is_least=False),
    "uniqueItems": _unique,
    "items": _items,
    "minProperties": _length(_OBJECTS, is_least=True),
    "maxProperties": _length(_OBJECTS, is_least=False),
    "required": _required,
    "properties": _properties,
    "dependencies": _dependencies,
    "allOf": _several,
    "anyOf": _several,
    "oneOf": _several,
    "not": _not,
}
