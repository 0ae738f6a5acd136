"""Mango: CouchDB's selectors, as conditions on documents in CouchDB's form (with `_id`, `_rev`, `_deleted`).

A selector is brought into a normal form with one operator at each field, and then compiled into functions of a document. The
normal form is CouchDB's: it decides the meaning of a selector, with its odd rules.

- `{a: 1, b: 2}` is an `$and`; a bare value is an `$eq`; `{a: {b: 1}}` is a condition on the field `a.b`.
- `$not` and `$nor` are pushed inwards, so that comparisons turn into their opposites. A document without the field passes none of
them: only `$exists: false` holds for a missing field, and only in an object. Inside of `$elemMatch` and similar operators they
stay in place: there an element without the field passes a negation.
- An empty `$and`, `$or` or `$nor` holds for every document; `{}` as a part of them is a comparison of the document with `{}`.

Where it differs from CouchDB: a `$regex` has the syntax of RE2, and is matched in time linear in the text, or within a bound.

Rule of this file: a selector is refused when it is compiled; a condition never raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator
from functools import reduce
from operator import and_
from typing import Any, Final

from reactdb.budget import spend
from reactdb.dialects.couchdb.collation import collation_key, identity, raw_key
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.errors import QueryError, ResourceLimit
from reactdb.expression.build import Expression, row
from reactdb.expression.pattern import read_pattern

__all__ = ["Selector", "erlang", "field_path", "native_path", "project", "read_field", "set_field"]

Condition = Callable[[Any], bool]
MAX_DEPTH: Final = 100
"""How deeply a selector may be nested: a thousand levels would end in a RecursionError."""

MOST_DIGITS: Final = 18
"""The digits of an element's number. Python converts no number with thousands of digits, and no list is as long."""

_BOOLEAN: Final = {"$and", "$or", "$nor"}
_ELEMENTS: Final = {"$elemMatch", "$allMatch", "$keyMapMatch"}
_OPPOSITES: Final = {
    "$lt": "$gte",
    "$lte": "$gt",
    "$eq": "$ne",
    "$ne": "$eq",
    "$gte": "$lt",
    "$gt": "$lte",
    "$in": "$nin",
    "$nin": "$in",
}
_NOT_SUPPORTED: Final = {"$where", "$geoWithin", "$geoIntersects", "$near", "$nearSphere"}
# Comparisons that one range of an index can answer.
_RANGES: Final = {"$lt", "$lte", "$eq", "$gte", "$gt", "$beginsWith", "$exists"}


class Selector:
    """A parsed selector.

    `source` is the caller's selector, `normal` its normal form: nested objects of one member each, fields joined by dots. `size`
    is the number of its objects, lists and values: a test of one document counts as so many steps of a budget.

    Raises:
        CouchError: It is no selector (400). `error` has `_find`'s name for the mistake, such as `bad_arg`.
    """

    def __init__(self, source: dict[str, Any]) -> None:
        self.source = source
        self.size = _size_of(source)
        self.normal = _normalize(source)
        self.passes: Condition = _compile(self.normal)
        """Whether a document, in CouchDB's form, is selected."""

    def fields(self) -> list[str]:
        """The fields with conditions, in their order, with repetitions."""
        return list(_fields(self.normal))

    def required_fields(self) -> set[str]:
        """The fields of every selected document."""
        return _required_paths(self.normal)

    def indexable_fields(self) -> list[str]:
        """The fields for which a range of an index may help, sorted."""
        return sorted({field for field, condition in self._conjuncts() if next(iter(condition)) in _RANGES})

    def conditions_on(self, field: str) -> list[tuple[str, Any]]:
        """The comparisons of this field for every selected document: pairs of an operator and its argument."""
        return [
            (operator, argument)
            for name, condition in self._conjuncts()
            if name == field
            for operator, argument in condition.items()
        ]

    def is_constant(self, field: str) -> bool:
        """Whether the field has the same value in all selected documents."""
        return any(operator == "$eq" for operator, _ in self.conditions_on(field))

    def equalities(self) -> list[tuple[tuple[str, ...], Any]]:
        """Paths of native documents with a fixed value, a text, a number, a boolean or null, in every selected document. A router
        of changes may use the values unchanged: they are equal in this order if they are equal in reactdb's."""
        return [
            (path, condition["$eq"])
            for field, condition in self._conjuncts()
            if "$eq" in condition and not isinstance(condition["$eq"], dict | list)
            if field and (path := native_path(field)) is not None
        ]

    def condition(self) -> Expression | None:
        """A condition on native documents that every selected document passes: an index or a router can begin with it. None if
        there is no such condition."""
        parts = [
            part
            for field in dict.fromkeys(self.fields())
            for part in _implied_conditions(field, self.conditions_on(field))
        ]
        return reduce(and_, parts) if parts else None

    def is_text_search(self) -> bool:
        """Whether it needs a text index, which does not exist here."""
        return "$default" in _operators(self.normal)

    def _conjuncts(self) -> Iterator[tuple[str, dict[str, Any]]]:
        return _conjuncts(self.normal)


# ---------------------------------------------------------------------------------------------------------------
# Refusals


def erlang(value: Any, *, with_text: bool = False) -> str:
    """A JSON value in Erlang's notation, which CouchDB uses for a refused argument.

    Args:
        with_text: Text is shown as text, where it would be the numbers of its bytes.
    """
    if isinstance(value, bool) or value is None:
        return "null" if value is None else str(value).lower()
    if isinstance(value, str):
        if with_text and value.isascii() and value.isprintable():
            return f'<<"{value}">>' if value else "<<>>"
        return f"<<{','.join(map(str, value.encode('utf-8', 'surrogatepass')))}>>"
    if isinstance(value, list):
        return f"[{','.join(erlang(member, with_text=with_text) for member in value)}]"
    if isinstance(value, dict):
        pairs = [[erlang(part, with_text=with_text) for part in member] for member in value.items()]
        return f"{{[{','.join(f'{{{name},{member}}}' for name, member in pairs)}]}}"
    return repr(value)


def _bad_argument(operator: str, argument: Any) -> CouchError:
    return CouchError(400, "bad_arg", f"Bad argument for operator {operator}: {erlang(argument)}")


def _invalid_operator(operator: str) -> CouchError:
    return CouchError(400, "invalid_operator", f"Invalid operator: {operator}")


def _bad_field(selector: Any) -> CouchError:
    return CouchError(400, "bad_field", f"Invalid field normalization on selector: {erlang(selector)}")


def _no_field() -> CouchError:
    return CouchError(400, "invalid_selector", "One or more conditions is missing a field name.")


# ---------------------------------------------------------------------------------------------------------------
# The normal form: each operator with its argument, then fields as far down as they go, then negations further down


def _normalize(selector: dict[str, Any]) -> dict[str, Any]:
    if not selector:
        return {}
    _check_depth(selector)
    normal = _with_negations_inside(_with_fields(_with_operators(selector), ""))
    if "" in normal:
        raise _no_field()
    return normal


def _size_of(selector: Any) -> int:
    size, level = 1, [selector]
    while level:
        below = []
        for value in level:
            members = value.values() if isinstance(value, dict) else value
            size += len(members)
            spend(1 + len(members))
            below += [inner for inner in members if isinstance(inner, dict | list)]
        level = below
    return size


def _check_depth(selector: Any) -> None:
    level, depth = [selector], 0
    while level:
        if depth > MAX_DEPTH:
            raise CouchError(400, "bad_arg", f"A selector may have at most {MAX_DEPTH} nested levels.")
        depth += 1
        members = (value.values() if isinstance(value, dict) else value for value in level)
        level = [inner for values in members for inner in values if isinstance(inner, dict | list)]


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_pattern(argument: Any) -> bool:
    if not isinstance(argument, str):
        return False
    try:
        _pattern(argument)
    except ResourceLimit as error:
        raise CouchError(400, "bad_arg", f"{_bad_argument('$regex', argument).reason}. {error}") from None
    except QueryError:
        raise _bad_argument("$regex", argument) from None
    return True


_ARGUMENTS: Final[dict[str, Callable[[Any], bool]]] = {
    "$in": lambda argument: isinstance(argument, list),
    "$nin": lambda argument: isinstance(argument, list),
    "$all": lambda argument: isinstance(argument, list),
    "$exists": lambda argument: isinstance(argument, bool),
    "$type": lambda argument: isinstance(argument, str),
    "$mod": lambda argument: (
        isinstance(argument, list) and len(argument) == 2 and all(map(_is_integer, argument))
    ),
    "$size": lambda argument: _is_integer(argument) and argument >= 0,
    "$text": lambda argument: not isinstance(argument, dict | list | None),
    "$regex": _is_pattern,
    "$beginsWith": lambda argument: isinstance(argument, str),
    **dict.fromkeys(("$lt", "$lte", "$eq", "$ne", "$gte", "$gt", "$default"), lambda argument: True),
}


def _with_operators(selector: Any) -> dict[str, Any]:
    """Each condition named by its operator, and the operators' arguments checked."""
    if not isinstance(selector, dict) or not selector:
        return {"$eq": selector}
    if len(selector) > 1:
        return {"$and": [_with_operators({name: condition}) for name, condition in selector.items()]}
    ((name, argument),) = selector.items()
    if name in _BOOLEAN:
        if not isinstance(argument, list):
            raise _bad_argument(name, argument)
        return {name: [_with_operators(part) for part in argument]}
    if name == "$not" or name in _ELEMENTS:
        if not isinstance(argument, dict):
            raise _bad_argument(name, argument)
        return {name: _with_operators(argument)}
    if name in _ARGUMENTS:
        if not _ARGUMENTS[name](argument):
            # To CouchDB an operator of these two with another argument is no operator.
            raise (
                _invalid_operator(name)
                if name in ("$regex", "$beginsWith")
                else _bad_argument(name, argument)
            )
        return {"$default": {"$text": argument}} if name == "$text" else selector
    if name in _NOT_SUPPORTED:
        raise CouchError(400, "not_supported", f"Unsupported operator: {name}")
    if name.startswith("$"):
        raise _invalid_operator(name)
    return {name: _with_operators(argument)}


def _with_fields(selector: dict[str, Any], path: str) -> dict[str, Any]:
    """Names of fields moved down to the operators, joined by dots. A condition on the value itself has the field ``""``."""
    ((name, argument),) = selector.items()
    if name in _BOOLEAN:
        return {name: [_with_fields(part, path) for part in argument]}
    if name == "$not":
        return {name: _with_fields(argument, path)}
    if name in _ELEMENTS:
        return {path: {name: _with_fields(argument, "")}}
    if name == "$default":
        if path or list(argument) != ["$text"]:
            raise _bad_field(selector)
        return selector
    if name.startswith("$"):
        return {path: selector}
    return _with_fields(argument, f"{path}.{name}" if path else name)


def _with_negations_inside(selector: dict[str, Any]) -> dict[str, Any]:
    ((name, argument),) = selector.items()
    if name == "$not":
        return _negate(argument)
    if name == "$nor":
        return {"$and": [_negate(part) for part in argument]}
    if name in ("$and", "$or"):
        return {name: [_with_negations_inside(part) for part in argument]}
    return selector


def _negate(selector: dict[str, Any]) -> dict[str, Any]:
    ((name, argument),) = selector.items()
    if name == "$not":
        return _with_negations_inside(argument)
    if name == "$nor":
        return {"$or": [_with_negations_inside(part) for part in argument]}
    if name in ("$and", "$or"):
        return {"$or" if name == "$and" else "$and": [_negate(part) for part in argument]}
    if name == "$default":
        raise _bad_argument("$not", selector)
    if name in _OPPOSITES:
        return {_OPPOSITES[name]: argument}
    if name == "$exists":
        return {name: not argument}
    if name.startswith("$"):
        return {"$not": selector}
    return {name: _negate(argument)}


# ---------------------------------------------------------------------------------------------------------------
# The meaning of the normal form


def _conjuncts(normal: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The fields with their conditions that hold for every selected document."""
    for name, argument in normal.items():
        if name == "$and":
            for part in argument:
                yield from _conjuncts(part)
        elif not name.startswith("$"):
            yield name, argument


def _fields(normal: dict[str, Any]) -> Iterator[str]:
    for name, argument in normal.items():
        if not name.startswith("$"):
            yield name
        elif isinstance(argument, list):
            for part in argument:
                yield from _fields(part)


def _operators(normal: dict[str, Any]) -> Iterator[str]:
    for name, argument in normal.items():
        yield name
        for part in argument if isinstance(argument, list) else (argument,):
            if isinstance(part, dict):
                yield from _operators(part)


def _required_paths(normal: dict[str, Any]) -> set[str]:
    if "$and" in normal:
        return set().union(*map(_required_paths, normal["$and"]))
    if "$or" in normal:
        return set.intersection(*map(_required_paths, normal["$or"])) if normal["$or"] else set()
    return {
        name
        for name, argument in normal.items()
        if not name.startswith("$") and argument != {"$exists": False}
    }


def native_path(field: str) -> tuple[str, ...] | None:
    """The path of this field in a native document, or None: fields with `_` in front and elements of arrays have none."""
    path = field_path(field)
    is_here = not any(name.startswith(("_", "=")) or name.lstrip("+").isdecimal() for name in path)
    return path if is_here else None


def _implied_conditions(field: str, conditions: list[tuple[str, Any]]) -> Iterator[Expression]:
    """Native comparisons that follow from Mango's. Between two numbers both orders have only numbers; above a number Mango's
    order has texts, the native order other types."""
    path = native_path(field) if field else None
    if path is None:
        return
    value = reduce(lambda expression, name: expression[name], path, row)
    bounds: dict[str, list[Expression]] = {"$g": [], "$l": []}
    for operator, argument in conditions:
        if operator == "$eq" and isinstance(argument, str | bool | int | float):
            yield value == argument
        elif operator == "$beginsWith":
            yield value >= argument
            if argument and argument[-1] not in _WITHOUT_NEXT:
                yield value < argument[:-1] + chr(ord(argument[-1]) + 1)
        elif operator in _COMPARED and isinstance(argument, int | float) and not isinstance(argument, bool):
            bounds[operator[:2]].append(_COMPARED[operator](value, argument))
    if bounds["$g"] and bounds["$l"]:
        yield from bounds["$g"]
        yield from bounds["$l"]


# No code point follows these, or no code point of a text.
_WITHOUT_NEXT: Final = "\ud7ff\U0010ffff"

_COMPARED: Final[dict[str, Callable[[Expression, Any], Expression]]] = {
    "$gt": lambda value, argument: value > argument,
    "$gte": lambda value, argument: value >= argument,
    "$lt": lambda value, argument: value < argument,
    "$lte": lambda value, argument: value <= argument,
}


# ---------------------------------------------------------------------------------------------------------------
# Fields of documents

_MISSING: Final = object()
"""The field is missing in an existing object."""
_NO_PATH: Final = object()
"""The path leads through a value that is no object."""

_DOT: Final = re.compile(r"(?<!\\)\.")


def field_path(field: str) -> tuple[str, ...]:
    """The names along a path: dots descend, and a backslash takes the next dot for a part of the name.

    Raises:
        CouchError: A name in the path is empty.
    """
    names = _DOT.split(field)
    if "" in names:
        raise CouchError(400, "invalid_field_name", f"Invalid field name: {field}")
    return tuple(name.replace("\\", "") for name in names)


def _read(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if isinstance(value, dict):
            value = value.get(name, _MISSING)
            if value is _MISSING:
                return _MISSING
        elif isinstance(value, list):
            # Elements have numbers from zero; a number beyond the end is no missing field.
            digits = name.removeprefix("+")
            is_place = digits.isascii() and digits.isdecimal() and len(digits) <= MOST_DIGITS
            if not (is_place and int(digits) < len(value)):
                return _NO_PATH
            value = value[int(digits)]
        else:
            return _NO_PATH
    return value


def read_field(document: Any, path: tuple[str, ...], absent: Any = None) -> Any:
    """The value at a path, or `absent`."""
    value = _read(document, path)
    return absent if value is _MISSING or value is _NO_PATH else value


def set_field(document: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Put a value at a path into a document, with the objects on the way to it."""
    for name in path[:-1]:
        inner = document.setdefault(name, {})
        if not isinstance(inner, dict):
            return
        document = inner
    document[path[-1]] = value


def project(document: dict[str, Any], paths: list[tuple[str, ...]]) -> dict[str, Any]:
    """The fields of a document at these paths, in their order; without paths the document."""
    if not paths:
        return document
    fields: dict[str, Any] = {}
    for path in paths:
        value = read_field(document, path, _MISSING)
        if value is not _MISSING:
            set_field(fields, path, value)
    return fields


# ---------------------------------------------------------------------------------------------------------------
# Conditions


def _compile(normal: dict[str, Any], key: Callable[[Any], Any] = collation_key) -> Condition:
    """A normal form as a function. `key` gives the order of the compared values."""
    if not normal:
        return lambda value: True
    ((name, argument),) = normal.items()
    if name in ("$and", "$or"):
        return _all_or_any(name, [_compile(part, key) for part in argument])
    if name == "$not":
        inner = _compile(argument, key)
        return lambda value: not inner(value)
    if name == "$nor":
        return _compile({"$and": [{"$not": part} for part in argument]}, key)
    if name in _OPERATORS:
        return _OPERATORS[name](argument, key)
    if name == "":
        return _compile(argument, key)
    return _at_field(name, argument, key)


def _all_or_any(name: str, parts: list[Condition]) -> Condition:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return lambda value: True
    if len(parts) == 2:
        first, second = parts
        if name == "$and":
            return lambda value: first(value) and second(value)
        return lambda value: first(value) or second(value)
    if name == "$and":
        return lambda value: all(part(value) for part in parts)
    return lambda value: any(part(value) for part in parts)


def _at_field(field: str, condition: dict[str, Any], key: Callable[[Any], Any]) -> Condition:
    path = field_path(field)
    passes = _compile(condition, raw_key if field == "_id" else key)
    if condition == {"$exists": False}:
        return lambda document: _read(document, path) is _MISSING
    if len(path) == 1:
        (name,) = path

        def at_top(document: Any) -> bool:
            if not isinstance(document, dict):
                return at_path(document)
            value = document.get(name, _MISSING)
            return value is not _MISSING and passes(value)

    def at_path(document: Any) -> bool:
        value = _read(document, path)
        return value is not _MISSING and value is not _NO_PATH and passes(value)

    return at_top if len(path) == 1 else at_path


def _equal(argument: Any, key: Callable[[Any], Any]) -> Condition:
    wanted = identity(argument)
    return lambda value: identity(value) == wanted


def _not_equal(argument: Any, key: Callable[[Any], Any]) -> Condition:
    wanted = identity(argument)
    return lambda value: identity(value) != wanted


def _less(argument: Any, key: Callable[[Any], Any]) -> Condition:
    bound = key(argument)
    return lambda value: key(value) < bound


def _at_most(argument: Any, key: Callable[[Any], Any]) -> Condition:
    bound = key(argument)
    return lambda value: key(value) <= bound


def _greater(argument: Any, key: Callable[[Any], Any]) -> Condition:
    bound = key(argument)
    return lambda value: key(value) > bound


def _at_least(argument: Any, key: Callable[[Any], Any]) -> Condition:
    bound = key(argument)
    return lambda value: key(value) >= bound


def _in(argument: list[Any], key: Callable[[Any], Any]) -> Condition:
    wanted = frozenset(map(identity, argument))

    def passes(value: Any) -> bool:
        if isinstance(value, list):
            return any(identity(element) in wanted for element in value)
        return identity(value) in wanted

    return passes


def _not_in(argument: list[Any], key: Callable[[Any], Any]) -> Condition:
    inside = _in(argument, key)
    return lambda value: not inside(value)


def _exists(argument: bool, key: Callable[[Any], Any]) -> Condition:
    # Only existing values get here; the code that reads the field sees a missing field.
    return lambda value: argument


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    return "object" if isinstance(value, dict) else "number"


def _type(argument: str, key: Callable[[Any], Any]) -> Condition:
    return lambda value: _type_name(value) == argument


def _mod(argument: list[int], key: Callable[[Any], Any]) -> Condition:
    divisor, remainder = abs(argument[0]), argument[1]

    def passes(value: Any) -> bool:
        if not _is_integer(value) or not divisor:
            return False
        # The remainder has the sign of the dividend.
        rest: int = value % divisor if value >= 0 else -(-value % divisor)
        return rest == remainder

    return passes


def _size(argument: int, key: Callable[[Any], Any]) -> Condition:
    return lambda value: isinstance(value, list) and len(value) == argument


def _begins_with(argument: str, key: Callable[[Any], Any]) -> Condition:
    return lambda value: isinstance(value, str) and value.startswith(argument)


def _bytes_as_text(text: str) -> str:
    """Each byte of the text's UTF-8 as a character: CouchDB matches bytes."""
    return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("latin-1")


def _pattern(text: str) -> Any:
    return read_pattern(_bytes_as_text(text))


def _regex(argument: str, key: Callable[[Any], Any]) -> Condition:
    pattern = _pattern(argument)

    def passes(value: Any) -> bool:
        if not isinstance(value, str):
            return False
        try:
            return pattern.search(_bytes_as_text(value)) is not None
        except ResourceLimit:
            # CouchDB limits the tries, too, and then takes a text as one without a match.
            return False

    return passes


def _exact(value: Any) -> Hashable:
    """A value that is equal for two values if Erlang's `=:=` holds for them: 1 is not 1.0."""
    if isinstance(value, list):
        return ("[", tuple(map(_exact, value)))
    if isinstance(value, dict):
        return ("{", tuple((name, _exact(member)) for name, member in value.items()))
    return (type(value).__name__, value)


def _all(argument: list[Any], key: Callable[[Any], Any]) -> Condition:
    wanted = frozenset(map(_exact, argument))
    whole = identity(argument[0]) if len(argument) == 1 and isinstance(argument[0], list) else None

    def passes(value: Any) -> bool:
        if not isinstance(value, list) or not wanted:
            return False
        return wanted <= frozenset(map(_exact, value)) or (whole is not None and identity(value) == whole)

    return passes


def _element_matches(argument: dict[str, Any], key: Callable[[Any], Any]) -> Condition:
    passes = _compile(argument)
    return lambda value: isinstance(value, list) and any(map(passes, value))


def _elements_match(argument: dict[str, Any], key: Callable[[Any], Any]) -> Condition:
    passes = _compile(argument)
    return lambda value: isinstance(value, list) and bool(value) and all(map(passes, value))


def _name_matches(argument: dict[str, Any], key: Callable[[Any], Any]) -> Condition:
    passes = _compile(argument)
    return lambda value: isinstance(value, dict) and any(map(passes, value))


_OPERATORS: Final[dict[str, Callable[[Any, Callable[[Any], Any]], Condition]]] = {
    "$lt": _less,
    "$lte": _at_most,
    "$eq": _equal,
    "$ne": _not_equal,
    "$gte": _at_least,
    "$gt": _greater,
    "$in": _in,
    "$nin": _not_in,
    "$exists": _exists,
    "$type": _type,
    "$mod": _mod,
    "$size": _size,
    "$beginsWith": _begins_with,
    "$regex": _regex,
    "$all": _all,
    "$elemMatch": _element_matches,
    "$allMatch": _elements_match,
    "$keyMapMatch": _name_matches,
    # A text index would have found them.
    "$default": lambda argument, key: lambda value: True,
}
