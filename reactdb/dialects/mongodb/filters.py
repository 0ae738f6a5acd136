"""Filters: queries of MongoDB, compiled once into a function of a document.

    Filter({"age": {"$gte": 18}, "tags": "new"}).matches(document)

A field's condition is tested on the values at its path (`paths.ends`), and on the elements of arrays there: one match is enough.
Negations (`$ne`, `$nin`, `$not`, `$nor`) negate the whole result.

Besides the result, a filter knows the index of the matched array element (the `$` of updates and projections), and the values
that it requires to be equal (for the document of an upsert).

Rule of this file: the test of one operator on one value is in `conditions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import random
from typing import Any, Final, NamedTuple, cast

from bson.regex import Regex

from reactdb.budget import spend, spend_value
from reactdb.dialects.mongodb import conditions
from reactdb.dialects.mongodb.bson_order import MISSING, TextKey, number_of
from reactdb.dialects.mongodb.collation import text_key
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.numeric import NUMBERS, as_float, whole
from reactdb.dialects.mongodb.paths import ends, is_index, split
from reactdb.dialects.mongodb.values import is_document

__all__ = ["Filter", "is_demanded", "is_operators"]

Document = Mapping[str, Any]
Matches = Callable[[Any], bool]
_MAX_DEPTH: Final = 100
# The fields of a reference to another document. They begin as operators do, and are none.
_OF_REFERENCES: Final = frozenset({"$ref", "$id", "$db"})


class Test(NamedTuple):
    """A condition on one path.

    Attributes:
        holds: Whether it holds, for all values at the path.
        of_element: Whether a single array element makes it hold; None if that never happens.
        expands: The elements of an array at the end of the path count as well, and not only elements of arrays on the way.
    """

    holds: Callable[[Sequence[Any]], bool]
    of_element: Matches | None = None
    expands: bool = True


class LocatedTest(NamedTuple):
    """A condition that may know the matched element of an array."""

    parts: tuple[str, ...]
    of_element: Matches
    expands: bool


class CompiledFilter(NamedTuple):
    """A filter, or a part of one.

    Attributes:
        matches: The function of a document.
        located: The conditions that know an element's index, and alternatives of them.
    """

    matches: Matches
    located: list[LocatedTest | list[CompiledFilter]]


class Filter:
    """A query.

    Attributes:
        matches: Whether a BSON document matches.
        is_everything: Every document matches.
    """

    def __init__(
        self,
        spec: Document | None,
        *,
        variables: Mapping[str, Any] | None = None,
        collation: Any = None,
    ) -> None:
        """
        Args:
            spec: The query. None matches everything.
            variables: The command's `let`, for `$expr`.
            collation: A collation's document, the key of a text as a function, or None.

        Raises:
            MongoError: 2 and others, the query is invalid.
        """
        if spec is None:
            spec = {}
        if not is_document(spec):
            raise MongoError(14, "a query has to be a document")
        self.spec = spec
        self.is_everything = not spec
        compiler = _Compiler({} if variables is None else variables, collation)
        self._compiled = compiler.document(spec, 0)
        self.matches: Matches = _spending(self._compiled.matches, _conditions(spec))

    @property
    def equalities(self) -> list[tuple[str, Any]]:
        """The paths and values required to be equal, in the order of the query; without conditions under `$nor` and `$not`.

        A path may occur twice.
        """
        return list(_equalities(self.spec))

    def position(self, document: Document, path: str | None = None) -> int | None:
        """The index of the array element that makes the document match, or None.

        Args:
            path: The path of the array. If several arrays matched, the index is in this one.
        """
        position: int | None = None
        for parts, index in _positions(document, self._compiled):
            if path is not None and parts == split(path):
                return index
            position = index if position is None else position
        return position


QUICK_CONDITIONS: Final = 16
"""A filter with at most this many conditions spends no budget: reading the documents does."""


def _conditions(spec: Any) -> int:
    """About how many conditions a query consists of."""
    if is_document(spec):
        return 1 + sum(
            len(operand) if name == "$all" and type(operand) is list else _conditions(operand)
            for name, operand in spec.items()
        )
    if type(spec) is list:
        return sum(_conditions(one) for one in spec)
    return 1 if type(spec) is Regex else 0


def _spending(matches: Matches, conditions: int) -> Matches:
    if conditions <= QUICK_CONDITIONS:
        return matches

    def spending(document: Any) -> bool:
        spend(conditions)
        return matches(document)

    return spending


def _positions(document: Document, compiled: CompiledFilter) -> Iterator[tuple[tuple[str, ...], int]]:
    for one in compiled.located:
        if isinstance(one, LocatedTest):
            place = _position(document, one)
            if place is not None:
                yield place
        else:
            for alternative in one:
                if alternative.matches(document):
                    yield from _positions(document, alternative)
                    break


def _position(document: Document, condition: LocatedTest) -> tuple[tuple[str, ...], int] | None:
    """The path of the first array, and the index of its first element for which the condition holds."""
    value: Any = document
    parts = condition.parts
    for number, part in enumerate((*parts, "")):
        if type(value) is list:
            if number < len(parts) and is_index(part) and int(part) < len(value):
                value = value[int(part)]
                continue
            rest = parts[number:]
            if not rest and not condition.expands:
                return None
            for index, element in enumerate(value):
                if (
                    condition.of_element(element)
                    if not rest
                    else type(element) is dict and _element_in(element, rest, condition)
                ):
                    return parts[:number], index
            return None
        if number == len(parts) or not is_document(value):
            return None
        value = value.get(part, MISSING)
    return None


def _element_in(element: Document, rest: Sequence[str], condition: LocatedTest) -> bool:
    of_element, expands = condition.of_element, condition.expands
    return any(
        of_element(end) or (expands and type(end) is list and any(map(of_element, end)))
        for end in ends(element, rest)
    )


def _equalities(spec: Document) -> Iterator[tuple[str, Any]]:
    for name, operand in spec.items():
        if name == "$and":
            for part in operand:
                yield from _equalities(part)
        elif name == "$or" and len(operand) == 1:
            yield from _equalities(operand[0])
        elif name.startswith("$") or type(operand) is Regex:
            continue
        elif not is_operators(operand):
            yield name, operand
        else:
            if "$eq" in operand:
                yield name, operand["$eq"]
            for several in ("$in", "$all"):
                values = operand.get(several)
                only = values[0] if type(values) is list and len(values) == 1 else MISSING
                if only is not MISSING and type(only) is not Regex and not is_operators(only):
                    yield name, only


def is_operators(operand: Any) -> bool:
    """Whether a field's operand is a document of operators, and not a value. A reference (`$ref`, `$id`) is a value."""
    if not is_document(operand) or not operand:
        return False
    first = next(iter(operand))
    return first.startswith("$") and first not in _OF_REFERENCES


# -----------------------------------------------------------------------------------------------------------
# Tests


def _over(one: Matches, *, expands: bool) -> Test:
    """A condition that holds if any value at the path meets it; with `expands`, also any of their elements."""
    if not expands:
        return Test(lambda values: any(map(one, values)), one, expands=False)

    def holds(values: Sequence[Any]) -> bool:
        for value in values:
            if type(value) is list:
                spend_value(value)
                if one(value) or any(map(one, value)):
                    return True
            elif one(value):
                return True
        return False

    return Test(holds, one)


def _negated(test: Test) -> Test:
    holds = test.holds
    return Test(lambda found: not holds(found))


def _at(path: str, test: Test) -> CompiledFilter:
    """A condition on a path, as a condition on documents."""
    parts = split(path)
    holds = test.holds
    located: list[LocatedTest | list[CompiledFilter]] = (
        [] if test.of_element is None else [LocatedTest(parts, test.of_element, test.expands)]
    )
    if len(parts) == 1:
        return CompiledFilter(lambda document: holds((document.get(path, MISSING),)), located)
    return CompiledFilter(lambda document: holds(ends(document, parts)), located)


def _all_of(parts: list[CompiledFilter]) -> CompiledFilter:
    if len(parts) == 1:
        return parts[0]
    located = [one for part in parts for one in part.located]
    functions = [part.matches for part in parts]
    if len(functions) == 2:
        first, second = functions
        return CompiledFilter(lambda document: first(document) and second(document), located)

    def every(document: Any) -> bool:
        for matches in functions:  # noqa: SIM110 (a loop takes half the time of a generator)
            if not matches(document):
                return False
        return True

    return CompiledFilter(every, located)


# -----------------------------------------------------------------------------------------------------------
# Compiling


class _Compiler:
    def __init__(self, variables: Mapping[str, Any], collation: Any) -> None:
        self._variables = variables
        self._text: TextKey | None = collation if callable(collation) else text_key(collation)
        self._is_in_element = False

    def document(self, spec: Document, depth: int) -> CompiledFilter:
        if depth > _MAX_DEPTH:
            raise MongoError(15, f"a query is nested more than {_MAX_DEPTH} levels deep")
        parts: list[CompiledFilter] = []
        for name, operand in spec.items():
            if not name.startswith("$") or name in _OF_REFERENCES:
                parts += [_at(name, test) for test in self.field(name, operand, depth)]
                continue
            work = _TOP_LEVEL.get(name)
            if self._is_in_element and name in _OF_WHOLE_DOCUMENTS:
                raise MongoError(2, f"{name} can only be applied to the top-level document")
            if work is None:
                raise MongoError(
                    2,
                    f"unknown top level operator: {name}. If you have a field name that starts with a '$' symbol, "
                    "consider using $getField or $setField.",
                )
            made = work(self, name, operand, depth)
            if made is not None:
                parts.append(made)
        if not parts:
            return CompiledFilter(lambda document: True, [])
        return _all_of(parts)

    def field(self, path: str, operand: Any, depth: int, *, expands: bool = True) -> list[Test]:
        """The conditions on one field. All of them must hold."""
        if type(operand) is Regex:
            return [_over(conditions.matches_pattern(operand), expands=expands)]
        if not is_operators(operand):
            return [_over(conditions.equals(operand, self._text), expands=expands)]
        tests: list[Test] = []
        for name, value in operand.items():
            if name == "$options":
                if "$regex" not in operand:
                    raise MongoError(2, "$options needs a $regex")
                continue
            work = _OF_FIELD.get(name)
            if work is None:
                raise MongoError(2, f"unknown operator: {name}")
            if name == "$regex":
                value = operand
            tests.append(work(self, name, path, value, depth + 1, expands))
        return tests

    # Operators of a field: (name, path, operand, depth, expands) -> Test

    def _compare(self, name: str, path: str, operand: Any, depth: int, expands: bool) -> Test:
        if type(operand) is Regex:
            raise MongoError(2, f"Can't have RegEx as arg to predicate over field '{path}'.")
        return _over(conditions.comparison(name, operand, self._text), expands=expands)

    def _eq(self, name: str, path: str, operand: Any, depth: int, expands: bool) -> Test:
        return _over(conditions.equals(operand, self._text), expands=expands)

    def _ne(self, name: str, path: str, operand: Any, depth: int, expands: bool) -> Test:
        if type(operand) is Regex:
            raise MongoError(2, "Can't have regex as arg to $ne.")
        return _negated(self._eq(name, path, operand, depth, expands))

    def _in(self, name: str, path: str, operand: Any, depth: int, expands: bool) -> Test:
        if type(operand) is not list:
            raise MongoError(2, f"{name} needs an array")
        if any(is_operators(one) for one in operand):
            raise MongoError(2, f"cannot nest $ under {name}")
        return _over(conditions.among(operand, self._text), expands=expands)

    def _nin(self, name: str, path: str, operand: Any, depth: int, expands: bool) -> Test:
        return _negated(self._in(name, path, operand, depth, expands))

    def _not(self, name: str, path: str, operand: Any, depth: int, expands: bool) -> Test:
        if type(operand) is not Regex:
            if not is_document(operand):
                raise MongoError(2, "$not needs a regex or a document")
            if not operand:
                raise MongoError(2, "$not cannot be empty")
            if not is_operators(operand):
                raise MongoError(2, f"unknown operator: {next(iter(operand))}")
        tests = [test.holds for test in self.field(path, operand, depth, expands=expands)]
        return Test(lambda found: not all(holds(found) for holds in tests))

    def _exists(self, name: str, path: str, operand: Any, depth: int, expands: bool) -> Test:
        test = _over(lambda value: value is not MISSING, expands=False)
        return test if is_demanded(operand) else _negated(test)

    def _type(self, name: str, path: str, operand: Any, depth: int, expands: bool) -> Test:
        return _over(conditions.has_type(operand), expands=expands)

    def _mod(self, name: str, path: str, operand: Any, depth: int, expands: bool) -> Test:
        return _over(conditions.has_remainder(operand), expands=expands)

    def _bits(self, name: str, path: str, operand: Any, depth: int, expands: bool) -> Test:
        return _over(conditions.bits(name, operand), expands=expands)

    def _regex(self, name: str, path: str, operand: Any, depth: int, expands: bool) -> Test:
        from reactdb.dialects.mongodb.patterns import option_letters

        pattern = operand["$regex"]
        options = operand.get("$options", "")
        if type(options) is not str:
            raise MongoError(2, "$options has to be a string")
        if "$options" in operand and isinstance(pattern, Regex) and option_letters(pattern.flags):
            is_after = list(operand).index("$options") > list(operand).index("$regex")
            raise MongoError(51075 if is_after else 51074, "options set in both $regex and $options")
        return _over(conditions.matches_pattern(pattern, options), expands=expands)

    def _size(self, name: str, path: str, operand: Any, depth: int, expands: bool) -> Test:
        size = whole(operand)
        if size is None or size >= 2**31:
            raise MongoError(2, f"Failed to parse $size. Expected an integer in: $size: {operand!r:.60}")
        if size < 0:
            raise MongoError(2, f"Failed to parse $size. Expected a non-negative number in: $size: {size}")
        return _over(lambda value: type(value) is list and len(value) == size, expands=False)

    def _all(self, name: str, path: str, operand: Any, depth: int, expands: bool) -> Test:
        if type(operand) is not list:
            raise MongoError(2, "$all needs an array")
        if not operand:
            return Test(lambda found: False)
        if is_operators(operand[0]) and not all(map(is_operators, operand)):
            raise MongoError(2, "$all/$elemMatch has to be consistent")
        tests: list[Test] = []
        for one in operand:
            if is_operators(one):
                if list(one) != ["$elemMatch"] or not is_operators(operand[0]):
                    raise MongoError(2, "no $ expressions in $all")
                tests += self.field(path, one, depth, expands=expands)
            elif type(one) is Regex:
                tests += self.field(path, one, depth, expands=expands)
            else:
                tests.append(self._eq(name, path, one, depth, expands))
        functions = [test.holds for test in tests]
        return Test(
            lambda found: all(holds(found) for holds in functions), tests[-1].of_element, tests[-1].expands
        )

    def _elem_match(self, name: str, path: str, operand: Any, depth: int, expands: bool) -> Test:
        if not is_document(operand):
            raise MongoError(2, "$elemMatch needs an Object")
        if is_operators(operand) and next(iter(operand)) not in _TOP_LEVEL:
            tests = [test.holds for test in self.field(path, operand, depth, expands=False)]

            def of_element(element: Any) -> bool:
                values = (element,)
                return all(holds(values) for holds in tests)

        else:
            was_in_element, self._is_in_element = self._is_in_element, True
            matches = self.document(operand, depth).matches
            self._is_in_element = was_in_element

            def of_element(element: Any) -> bool:
                if type(element) is list:
                    spend_value(element)
                    element = {str(index): inner for index, inner in enumerate(element)}
                return type(element) is dict and matches(element)

        def holds_of(values: Sequence[Any]) -> bool:
            for value in values:
                if type(value) is list:
                    spend_value(value)
                    if any(map(of_element, value)):
                        return True
            return False

        return Test(holds_of, of_element)

    # Operators of the whole document: (name, operand, depth) -> Compiled, or None if they have no effect

    def _branches(self, name: str, operand: Any, depth: int) -> list[CompiledFilter]:
        if type(operand) is not list:
            raise MongoError(2, f"{name} argument must be an array")
        if not operand:
            raise MongoError(2, f"{name} argument must be a non-empty array")
        for part in operand:
            if not is_document(part):
                raise MongoError(2, f"{name} argument's entries must be objects")
        return [self.document(part, depth + 1) for part in operand]

    def _and(self, name: str, operand: Any, depth: int) -> CompiledFilter:
        return _all_of(self._branches(name, operand, depth))

    def _or(self, name: str, operand: Any, depth: int) -> CompiledFilter:
        branches = self._branches(name, operand, depth)
        functions = [branch.matches for branch in branches]

        def one_of(document: Any) -> bool:
            for matches in functions:  # noqa: SIM110 (as above)
                if matches(document):
                    return True
            return False

        return CompiledFilter(one_of, [branches])

    def _nor(self, name: str, operand: Any, depth: int) -> CompiledFilter:
        functions = [branch.matches for branch in self._branches(name, operand, depth)]
        return CompiledFilter(lambda document: not any(matches(document) for matches in functions), [])

    def _comment(self, name: str, operand: Any, depth: int) -> None:
        return None

    def _constantly(self, name: str, operand: Any, depth: int) -> CompiledFilter:
        if whole(operand) != 1:
            raise MongoError(9, f"{name} must be an integer value of 1")
        answer = name == "$alwaysTrue"
        return CompiledFilter(lambda document: answer, [])

    def _sample_rate(self, name: str, operand: Any, depth: int) -> CompiledFilter:
        if type(operand) not in NUMBERS:
            raise MongoError(2, f"argument to {name} must be a numeric type")
        rate = as_float(operand)
        if not 0 <= rate <= 1:
            raise MongoError(2, f"numeric argument to {name} must be in [0, 1]")
        return CompiledFilter(lambda document: random() < rate, [])

    def _expr(self, name: str, operand: Any, depth: int) -> CompiledFilter:
        # Imported here because most queries have no expression.
        from reactdb.dialects.mongodb.expressions import compile_expression, is_true

        evaluate = compile_expression(operand, self._variables, text=self._text)
        # The values are looked up in each call: a join changes the variables of its pipeline for each document.
        variables = cast("dict[str, Any]", self._variables)
        return CompiledFilter(lambda document: is_true(evaluate(document, variables)), [])

    def _json_schema(self, name: str, operand: Any, depth: int) -> CompiledFilter:
        from reactdb.dialects.mongodb.schemas import compile_schema

        return CompiledFilter(compile_schema(operand), [])

    def _no_text(self, name: str, operand: Any, depth: int) -> CompiledFilter:
        raise MongoError(27, "text index required for $text query: there are no text indexes here")

    def _no_geospatial(self, name: str, path: str, operand: Any, depth: int, expands: bool) -> Test:
        if name in ("$near", "$nearSphere"):
            raise MongoError(
                291, f"unable to find index for {name} query: there are no geospatial indexes here"
            )
        raise MongoError(115, f"{name} is not supported here: there are no geospatial queries")

    def _not_here(self, name: str, operand: Any, depth: int) -> CompiledFilter:
        raise MongoError(115, f"{name} is not supported here")


def is_demanded(value: Any) -> bool:
    """Whether an operand of `$exists` requires the field."""
    return bool(number_of(value)) if type(value) in NUMBERS else value is not None and value is not False


_OF_FIELD: Final[dict[str, Callable[[_Compiler, str, str, Any, int, bool], Test]]] = {
    "$eq": _Compiler._eq,
    "$ne": _Compiler._ne,
    "$gt": _Compiler._compare,
    "$gte": _Compiler._compare,
    "$lt": _Compiler._compare,
    "$lte": _Compiler._compare,
    "$in": _Compiler._in,
    "$nin": _Compiler._nin,
    "$not": _Compiler._not,
    "$exists": _Compiler._exists,
    "$type": _Compiler._type,
    "$mod": _Compiler._mod,
    "$regex": _Compiler._regex,
    "$size": _Compiler._size,
    "$all": _Compiler._all,
    "$elemMatch": _Compiler._elem_match,
    "$bitsAllSet": _Compiler._bits,
    "$bitsAllClear": _Compiler._bits,
    "$bitsAnySet": _Compiler._bits,
    "$bitsAnyClear": _Compiler._bits,
    "$near": _Compiler._no_geospatial,
    "$nearSphere": _Compiler._no_geospatial,
    "$geoWithin": _Compiler._no_geospatial,
    "$geoIntersects": _Compiler._no_geospatial,
    "$within": _Compiler._no_geospatial,
}
_TOP_LEVEL: Final[dict[str, Callable[[_Compiler, str, Any, int], CompiledFilter | None]]] = {
    "$and": _Compiler._and,
    "$or": _Compiler._or,
    "$nor": _Compiler._nor,
    "$expr": _Compiler._expr,
    "$comment": _Compiler._comment,
    "$alwaysTrue": _Compiler._constantly,
    "$alwaysFalse": _Compiler._constantly,
    "$sampleRate": _Compiler._sample_rate,
    "$where": _Compiler._not_here,
    "$text": _Compiler._no_text,
    "$jsonSchema": _Compiler._json_schema,
}
_OF_WHOLE_DOCUMENTS: Final = frozenset({"$expr", "$where", "$text"})
