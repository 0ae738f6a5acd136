"""Projections of `find` and findAndModify: the returned part of a document.

    Projection({"name": 1, "scores.$": 1, "tags": {"$slice": 3}}).apply(document, matched_filter=query)

A projection has the forms of `$project` (see `shapes`), and three forms for arrays: the element that matched the query
(`path.$`), some elements (`$slice`), and the first element under a condition (`$elemMatch`). These cut the arrays first; then the
other fields are kept or left out.

Rule of this file: a document is never changed. Unchanged parts are shared with the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isnan
from typing import Any, Final

from reactdb.budget import spend_value
from reactdb.dialects.mongodb.bson_order import MISSING, TextKey, type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions.compile import Scope
from reactdb.dialects.mongodb.filters import Filter, is_operators
from reactdb.dialects.mongodb.numeric import NUMBERS, whole
from reactdb.dialects.mongodb.paths import split
from reactdb.dialects.mongodb.shapes import Reshape, field_path, projection
from reactdb.dialects.mongodb.values import is_document

__all__ = ["Projection", "check_stage_projection"]

Cut = Callable[[Any], Any]
"""Cuts an array; other values stay as they are. MISSING if nothing is left."""


class Projection:
    """A checked projection.

    Attributes:
        is_positional: It has a `path.$`, and needs the query.
    """

    def __init__(
        self,
        spec: Mapping[str, Any],
        *,
        variables: Mapping[str, Any] | None = None,
        collation: TextKey | None = None,
    ) -> None:
        """
        Args:
            spec: Fields with 1, 0, an operator or an expression. An empty projection returns everything.
            variables: The command's `let`, and `NOW`.
            collation: The key of a text, or None.

        Raises:
            MongoError: 31249 to 31308 and others, the projection is invalid.
        """
        if not is_document(spec):
            raise MongoError(14, "a projection has to be a document")
        self._variables = dict(variables or {})
        self._positional: str | None = None
        self._cuts: list[tuple[tuple[str, ...], Cut]] = []
        self._chosen: list[str] = []
        rest = self._read(spec, collation)
        scope = Scope(frozenset(self._variables), collation)
        self._is_keeping = not any(_is_zero(value) for name, value in rest.items() if name != "_id")
        self._shape: Reshape | None = projection(rest, scope) if rest else None

    @property
    def is_positional(self) -> bool:
        return self._positional is not None

    def _read(self, spec: Mapping[str, Any], collation: TextKey | None) -> dict[str, Any]:
        """Store the cuts and the positional path in this object. Returns: the other fields, for `$project`."""
        rest: dict[str, Any] = {}
        sliced: list[str] = []
        for path, value in _flat(spec, ""):
            if path in rest or path.removesuffix(".$") in sliced:
                raise MongoError(31250, f"Path collision at {path}: it is there twice")
            if path.endswith(".$"):
                self._note_positional(path, value, rest)
                rest[path[:-2]] = 1
            elif _has(value, "$elemMatch"):
                if self._positional is not None:
                    raise MongoError(31255, "Cannot specify both positional and $elemMatch")
                self._cuts.append((split(path), _first_matching(path, value["$elemMatch"], collation)))
                self._chosen.append(path)
                rest[path] = 1
            elif _has(value, "$slice") and not _is_expression(value["$slice"]):
                self._cuts.append((field_path(path), _slice(value["$slice"])))
                sliced.append(path)
                rest[path] = 1
            elif _has(value, "$meta"):
                raise MongoError(40218, f"there is no metadata '{value['$meta']}' here")
            else:
                rest[path] = value
        cut = {*sliced, *self._chosen}
        others = [value for name, value in rest.items() if name != "_id" and name not in cut]
        leaves_out = any(_is_zero(value) for value in others)
        keeps = any(not _is_zero(value) for value in others) or (
            not others and not _is_zero(rest.get("_id", 0))
        )
        if leaves_out:
            # An exclusion keeps the cut arrays.
            return {name: value for name, value in rest.items() if name not in cut}
        if keeps or self._chosen:
            return rest
        # A slice alone keeps all fields; beside included fields, it keeps its own field.
        return {name: value for name, value in rest.items() if name not in sliced}

    def _note_positional(self, path: str, value: Any, rest: Mapping[str, Any]) -> None:
        if _is_zero(value) or any(_is_zero(other) for name, other in rest.items() if name != "_id"):
            raise MongoError(31395, "positional projection cannot be used with exclusion")
        if is_document(value):
            raise MongoError(31271, "positional projection cannot be used with an expression or sub object")
        if type(value) is not bool and type(value) not in NUMBERS:
            raise MongoError(31308, "positional projection cannot be used with a literal")
        if self._chosen:
            raise MongoError(31256, "Cannot specify both positional and $elemMatch")
        if self._positional is not None:
            raise MongoError(31276, "Cannot specify more than one positional projection per query.")
        self._positional = path[:-2]
        field_path(self._positional)

    def apply(self, document: Mapping[str, Any], *, matched_filter: Filter | None = None) -> dict[str, Any]:
        """The returned part of a document.

        Args:
            matched_filter: The query that it matched, for `path.$`.

        Raises:
            MongoError: 51246, no element of the array has matched; 51247, it has fewer elements; and errors of expressions.
        """
        made: dict[str, Any] = document if type(document) is dict else dict(document)
        if self._positional is not None:
            index = None if matched_filter is None else matched_filter.position(document, self._positional)
            made = _cut_arrays(made, split(self._positional), lambda value: _only(value, index))
        for parts, cut in self._cuts:
            made = _cut_arrays(made, parts, cut)
        if self._shape is None:
            return made
        shown = self._shape(made, self._variables)
        if len(shown) > 1:
            for name in self._chosen:
                # The result of $elemMatch is computed, and follows the kept fields.
                if name in shown and self._is_keeping:
                    shown[name] = shown.pop(name)
        return shown


def _flat(spec: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in spec.items():
        path = prefix + name
        if ".$." in path:
            raise MongoError(
                31394, f"the positional operator is only at the end of a path, unlike in '{path}'"
            )
        if is_document(value) and len(value) > 1 and not {"$elemMatch", "$slice"}.isdisjoint(value):
            raise MongoError(16410, f"a name of a field may not begin with '$': {list(value)}")
        if is_document(value) and value and not is_operators(value):
            yield from _flat(value, path + ".")
        else:
            yield path, value


def _has(value: Any, name: str) -> bool:
    return is_document(value) and len(value) == 1 and name in value


def _is_zero(value: Any) -> bool:
    return value is False or (type(value) in NUMBERS and whole(value) == 0)


# -----------------------------------------------------------------------------------------------------------
# Cutting arrays


def _cut_arrays(value: Any, parts: Sequence[str], cut: Cut) -> Any:
    """A copy with cut arrays at the path, also in documents of arrays on the way."""
    if not parts:
        return cut(value)
    if type(value) is list:
        spend_value(value)
        return [_cut_arrays(element, parts, cut) if type(element) is dict else element for element in value]
    if type(value) is not dict or parts[0] not in value:
        return value
    made = dict(value)
    inner = _cut_arrays(value[parts[0]], parts[1:], cut)
    if inner is MISSING:
        del made[parts[0]]
    else:
        made[parts[0]] = inner
    return made


def _only(value: Any, index: int | None) -> Any:
    if type(value) is not list:
        return value
    if index is None or index >= len(value):
        raise MongoError(
            51246 if index is None else 51247,
            "Executor error during find command :: caused by :: positional operator '.$' couldn't find a matching "
            "element in the array",
        )
    return [value[index]]


def _first_matching(path: str, operand: Any, collation: TextKey | None) -> Cut:
    if len(field_path(path)) > 1:
        raise MongoError(31275, f"Cannot use $elemMatch projection on a nested field: {path}")
    if not is_document(operand):
        raise MongoError(31274, f"elemMatch: Invalid argument, object required, but got {type_name(operand)}")
    matches = Filter({"element": {"$elemMatch": operand}}, collation=collation).matches

    def cut(value: Any) -> Any:
        if type(value) is not list:
            return MISSING
        spend_value(value)
        matching = [element for element in value if matches({"element": [element]})]
        return matching[:1] if matching else MISSING

    return cut


def check_stage_projection(spec: Any) -> None:
    """Check that a projection has only the forms of `$project`, without the additional forms for arrays.

    Raises:
        MongoError: 31324, 31325, 28667 or 28724.
    """
    if not is_document(spec):
        return
    for path, value in spec.items():
        if path.endswith(".$"):
            raise MongoError(31324, "Cannot use positional projection in aggregation projection")
        if not is_document(value):
            continue
        if "$elemMatch" in value:
            raise MongoError(31325, "Unknown expression $elemMatch")
        operand = value.get("$slice", [None])
        if type(operand) in NUMBERS:
            raise MongoError(28667, "Expression $slice takes at least 2 arguments, and at most 3")
        if not _is_expression(operand):
            raise MongoError(28724, "First argument to $slice must be an array")


def _is_expression(operand: Any) -> bool:
    """Whether `$slice` is the expression's form, with an array as its first argument."""
    return type(operand) is list and bool(operand) and type(operand[0]) not in NUMBERS


def _slice(operand: Any) -> Cut:
    if type(operand) is list:
        if len(operand) != 2:
            raise MongoError(28724, f"$slice takes a number, or two in an array, not {len(operand)}")
        if operand[1] is None:
            return lambda value: None
        skip, limit = _number(operand[0]), _number(operand[1])
        if skip is None or limit is None:
            raise MongoError(28724, "$slice takes numbers")
        if limit <= 0:
            raise MongoError(28724, "$slice takes a number above zero of elements to show")
        first, most = skip, limit

        def cut_middle(value: Any) -> Any:
            if type(value) is not list:
                return value
            start = first if first >= 0 else max(len(value) + first, 0)
            return value[start : start + most]

        return cut_middle
    count = _number(operand)
    if count is None:
        raise MongoError(28667, f"$slice takes a number, or two in an array, not {type_name(operand)}")
    number = count
    return lambda value: (
        value if type(value) is not list else value[:number] if number >= 0 else value[number:]
    )


def _number(value: Any) -> int | None:
    """A number for `$slice`: without its fraction, within 32 bits, and NaN is 0. None for other values."""
    if type(value) not in NUMBERS:
        return None
    number = float(str(value))
    return 0 if isnan(number) else int(min(max(number, -_MOST), _MOST))


_MOST: Final = (1 << 31) - 1
