"""Operations: objects and their fields.

The operations on objects are also defined on arrays of objects, where they act on each element. ReQL is exact about
it: `get_field` leaves out the elements that do not have the field, `has_fields` is a filter, the others are a map; and
an array within an array is an error.

Source: RethinkDB 2.4, terms/obj_or_seq.cc, obj.cc, and `datum_t::merge`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reactdb.budget import spend
from reactdb.errors import MissingValue, QueryError
from reactdb.expression.checks import (
    check_array,
    equal,
    fail,
    fail_type,
    format_value,
    integer,
    kind,
    string,
    truth,
)
from reactdb.expression.markers import Literal, absent
from reactdb.expression.paths import Path, has, project, read_paths, unproject
from reactdb.expression.registry import operation
from reactdb.values.codec import pretty


def missing_field(name: str, document: dict[str, Any]) -> MissingValue:
    return MissingValue(f"No attribute `{name}` in object:\n{pretty(document)}")


def _not_an_object(name: str, value: Any) -> None:
    """Raise ReQL's error for a value other than an object or an array."""
    what = kind(value)
    if what.startswith("PTYPE<") and what != "PTYPE<BINARY>":
        raise QueryError(f"Cannot call `{name}` on objects of type `{what}`.")
    fail(value, f"Cannot perform {name} on a non-object non-sequence `{format_value(value)}`.")


def _elements(name: str, value: Any) -> list[Any]:
    """The elements of an array, none of them an array itself."""
    if not isinstance(value, list):
        _not_an_object(name, value)
    spend(1 + len(value))
    for element in value:
        if isinstance(element, list):
            raise QueryError(f"Cannot perform {name} on a sequence of sequences.")
    return value  # type: ignore[no-any-return]


def _for_each_object(name: str, value: Any, function: Callable[[dict[str, Any]], Any]) -> Any:
    if isinstance(value, dict):
        return function(value)
    results = []
    for element in _elements(name, value):
        if not isinstance(element, dict):
            _not_an_object(name, element)
        results.append(function(element))
    return results


# ---------------------------------------------------------------------------------------------------------------
# Fields


def _field_of(operation_name: str, value: Any, name: str) -> Any:
    if isinstance(value, dict):
        field = value.get(name, absent)
        if field is absent:
            raise missing_field(name, value)
        return field
    found_values = []
    for element in _elements(operation_name, value):
        try:
            if not isinstance(element, dict):
                _not_an_object(operation_name, element)
            found_values.append(_field_of(operation_name, element, name))
        except MissingValue:
            continue
    return found_values


def _field_name(name: Any) -> tuple[str] | None:
    return (name,) if isinstance(name, str) else None


@operation("get_field", 2, fields=_field_name)
def get_field(value: Any, name: Any) -> Any:
    if not isinstance(value, (dict, list)):
        _not_an_object("get_field", value)
    return _field_of("get_field", value, string(name))


@operation("bracket", 2, fields=_field_name)
def bracket(value: Any, place: Any) -> Any:
    """`value[place]`: a field by its name, an element by its number."""
    if isinstance(place, str):
        return _field_of("bracket", value, place)
    if kind(place) == "NUMBER":
        return nth(value, place)
    return fail(place, f"Expected NUMBER or STRING as second argument to `bracket` but found {kind(place)}.")


@operation("nth", 2)
def nth(values: Any, place: Any) -> Any:
    """The element at that place; negative places count from the end."""
    at = integer(place)
    if not isinstance(values, list):
        fail_type("ARRAY", values)
    if not -len(values) <= at < len(values):
        raise MissingValue(f"Index out of bounds: {at}")
    return values[at]


def _make_preparation(
    function: Callable[[Any, Path], Any], otherwise: Callable[..., Any]
) -> Callable[..., Callable[[Any], Any]]:
    """Prepares an operation with paths for objects; `otherwise` is the operation, for all other values."""

    def prepare(*paths: Any) -> Callable[[Any], Any]:
        path = read_paths(paths)
        return lambda value: function(value, path) if isinstance(value, dict) else otherwise(value, *paths)

    return prepare


@operation("has_fields", 1, None, prepare=_make_preparation(has, lambda *all: has_fields(*all)))
def has_fields(value: Any, *paths: Any) -> Any:
    """Whether the object has all those fields, and none of them null; for an array, the objects that have."""
    if isinstance(value, dict):
        return has(value, read_paths(paths))
    return [element for element in _elements("has_fields", value) if _has_fields(element, paths)]


def _has_fields(element: Any, paths: tuple[Any, ...]) -> bool:
    if element is None:
        return False  # A filter forgives a missing field, and null counts as missing.
    if not isinstance(element, dict):
        _not_an_object("has_fields", element)
    return has(element, read_paths(paths))


@operation("with_fields", 1, None)
def with_fields(values: Any, *paths: Any) -> Any:
    """The objects of an array that have those fields, with nothing else in them."""
    return pluck(has_fields(values, *paths), *paths)


@operation("pluck", 1, None, prepare=_make_preparation(project, lambda *all: pluck(*all)))
def pluck(value: Any, *paths: Any) -> Any:
    return _for_each_object("pluck", value, lambda document: project(document, read_paths(paths)))


@operation("without", 1, None, prepare=_make_preparation(unproject, lambda *all: without(*all)))
def without(value: Any, *paths: Any) -> Any:
    return _for_each_object("without", value, lambda document: unproject(document, read_paths(paths)))


@operation("keys", 1)
def keys(value: Any) -> list[str]:
    return sorted(_object(value, "keys"))


@operation("values", 1)
def values(value: Any) -> list[Any]:
    document = _object(value, "values")
    return [document[name] for name in sorted(document)]


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise QueryError(f"Cannot call `{name}` on objects of type `{kind(value)}`.")
    return value


@operation("object", 0, None)
def object_(*arguments: Any) -> dict[str, Any]:
    """An object of names and values, given in turn."""
    if len(arguments) % 2:
        raise QueryError(f"OBJECT expects an even number of arguments (but found {len(arguments)}).")
    return collect_pairs(zip(arguments[::2], arguments[1::2], strict=True), "in object")


def collect_pairs(pairs: Any, where: str) -> dict[str, Any]:
    """An object of pairs, each name once."""
    result: dict[str, Any] = {}
    for name, value in pairs:
        if string(name) in result:
            raise QueryError(
                f"Duplicate key {pretty(name)} {where}.  (got {format_value(result[name])} and {format_value(value)} as values)"
            )
        result[name] = value
    return result


@operation("make_obj", 0, options=None, never_fails=True)
def make_obj(**fields: Any) -> dict[str, Any]:
    return fields


@operation("make_array", 0, None, never_fails=True)
def make_array(*elements: Any) -> list[Any]:
    return check_array(list(elements))


# ---------------------------------------------------------------------------------------------------------------
# Merging


@operation("literal", 0, 1)
def literal(*value: Any) -> Literal:
    return Literal(*value)


@operation("merge", 1, None)
def merge(value: Any, *patches: Any) -> Any:
    """The object with others merged into it, one after the other. A function gives its patch for the object so far."""

    def merge_all(document: Any) -> Any:
        for patch in patches:
            new = patch(document) if callable(patch) else patch
            what = kind(new)
            if what.startswith("PTYPE<") and what != "PTYPE<BINARY>":
                raise QueryError(f"Cannot merge objects of type `{what}`.")
            document = merge_patch(document, new)
        return document

    return _for_each_object("merge", value, merge_all)


def merge_patch(old: Any, patch: Any) -> Any:
    """The old value with a patch merged into it; objects are merged field by field, all else is exchanged.

    Neither is changed, and the result shares their unchanged parts.
    """
    if not (isinstance(old, dict) and isinstance(patch, dict)):
        return resolve_literals(patch)
    spend(1 + len(old) + len(patch))
    result = dict(old)
    for name, new in patch.items():
        if isinstance(new, dict) and name in result:
            result[name] = merge_patch(result[name], new)
            continue
        value = resolve_literals(new)
        if value is absent:
            result.pop(name, None)
        else:
            result[name] = value
    return result


def resolve_literals(value: Any) -> Any:
    """The value with every `literal` replaced by its own value, or taken away if it has none."""
    if isinstance(value, Literal):
        return value.value
    if isinstance(value, (dict, list)):
        spend(len(value))
    if isinstance(value, dict):
        inner = {name: resolve_literals(one) for name, one in value.items()}
        return {name: one for name, one in inner.items() if one is not absent}
    if isinstance(value, list):
        return [one for one in map(resolve_literals, value) if one is not absent]
    return value


# ---------------------------------------------------------------------------------------------------------------
# Matching a pattern, as `filter` does with an object


@operation("filter_match", 2)
def filter_match(value: Any, pattern: Any) -> bool:
    """Whether a value matches the argument of `filter`.

    An object must agree field by field, where it has more fields it may; `literal` must be equal; of anything else only
    its truth counts.
    """
    if isinstance(pattern, Literal):
        return equal(pattern.value, value)
    if isinstance(pattern, dict):
        return _matches(value, pattern)
    return truth(pattern)


def _matches(value: Any, pattern: dict[str, Any]) -> bool:
    if not isinstance(value, dict):
        fail_type("OBJECT", value)
    for name in sorted(pattern):
        field, wanted = value.get(name, absent), pattern[name]
        if field is absent:
            raise MissingValue(f"No attribute `{name}` in object.")
        if isinstance(wanted, Literal):
            if not equal(wanted.value, field):
                return False
        elif isinstance(wanted, dict) and isinstance(field, dict):
            spend(1 + len(wanted))
            if not _matches(field, wanted):
                return False
        elif not equal(field, wanted):
            return False
    return True
