"""Terms that turn sequences into sequences: `map` and similar ones, terms on the fields of each object, joins and unions.

Rule of this file: handlers only. A term for one element at a time becomes a native step or an operator; a term that needs all
elements reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from reactdb.budget import spend_per_element
from reactdb.dialects.rethinkdb.errors import with_path
from reactdb.dialects.rethinkdb.evaluator import TERMINAL, TermCall, cannot_convert, handles
from reactdb.dialects.rethinkdb.functions import (
    Function,
    LocatedExpression,
    NotPure,
    is_deterministic,
    to_node,
)
from reactdb.dialects.rethinkdb.keys import stored_key
from reactdb.dialects.rethinkdb.streams import Fold, OffsetsOf, unite
from reactdb.dialects.rethinkdb.terms import Path, Term
from reactdb.dialects.rethinkdb.terms_order import map_elements, of_value
from reactdb.dialects.rethinkdb.terms_select import AFTER_LIMIT
from reactdb.dialects.rethinkdb.values import (
    EAGER,
    STREAM,
    TABLE,
    Sequence,
    Single,
    expected,
    expected_kind,
    is_array,
    stream,
)
from reactdb.dialects.rethinkdb.write_checks import find_index, index_key, primary_key
from reactdb.documents.steps import Convert, Expand, Keep
from reactdb.errors import MissingValue, QueryError, ReactDBError, ResourceLimit
from reactdb.expression import OPERATIONS, Call, Expression, Predicate, Row
from reactdb.expression.checks import check_array, equal, truth
from reactdb.expression.operations.logic import passes_filter
from reactdb.expression.order import sort_by_keys
from reactdb.expression.tree import constant
from reactdb.query import GetAll, HasFields, Union
from reactdb.values import collation

MAX_OF_ENDLESS = 10_000_000
AFTER_CONCAT_MAP = "Cannot call `changes` after `concat_map`."


# ---------------------------------------------------------------------------------------------------------------
# map and similar terms


@handles("map")
def map_(call: TermCall) -> Any:
    function = call.function(len(call) - 1)
    sources = call.values[:-1]
    if len(sources) > 1:
        return map_several(call, function)
    source = sources[0]
    if isinstance(source, Sequence):
        changing = None if function.is_deterministic else function.body.path
        return map_elements(call, source, function, function.expression, "map", changing)
    return [function(element) for element in call.elements(0)]


def map_several(call: TermCall, function: Function) -> Any:
    """`map` of several sequences: the function gets one element of each, until the shortest sequence ends."""
    sources = call.values[:-1]
    feeds = [
        place
        for place, source in enumerate(sources)
        if isinstance(source, Sequence) and source.feed is not None
    ]
    if len(feeds) > 1:
        raise QueryError(TERMINAL)
    if feeds:
        return sources[feeds[0]].through(lambda: SideBySide(call, function, feeds[0]), lambda: iter(()))
    if all(map(is_array, sources)):
        columns = [call.array(place) for place in range(len(sources))]
        return [function(*elements) for elements in zip(*columns, strict=False)]

    def read() -> Iterator[Any]:
        columns = [endless_elements(call, place) for place in range(len(sources))]
        return (function(*elements) for elements in zip(*columns, strict=False))

    endless = all(isinstance(source, Sequence) and source.is_endless for source in sources)
    return replace(stream(read, call.path), is_endless=endless)


class SideBySide:
    """Pairs the events of a feed with elements of other sequences. It ends when the first of these ends."""

    def __init__(self, call: TermCall, function: Function, place: int) -> None:
        self._function = function
        self._place = place
        self._others = [endless_elements(call, other) for other in range(len(call) - 1) if other != place]
        self.is_finished = False

    def over(self, elements: Iterable[Any]) -> Iterator[Any]:
        if self.is_finished:
            return
        for element in elements:
            values = [next(other, self) for other in self._others]
            if any(value is self for value in values):
                self.is_finished = True
                return
            values.insert(self._place, element)
            yield self._function(*values)


def endless_elements(call: TermCall, place: int) -> Iterator[Any]:
    """The elements of an argument, perhaps without an end."""
    value = call.values[place]
    if isinstance(value, Sequence) and value.is_endless:
        return call.evaluator.read(value)
    return call.elements(place)


def elements_of(call: TermCall, function: Function) -> Callable[[Any], Iterable[Any]]:
    """The function, changed to return the elements of its value, which must be a sequence."""

    def elements(*values: Any) -> Iterator[Any]:
        result = function.value(*values)
        try:
            # The elements are yielded one by one, because the reader may not need all of them.
            yield from call.evaluator.elements(result, function.body.path)
        except ReactDBError as error:
            if getattr(error, "reql_path", None) is None:
                raise with_path(error, function.body.path) from None
            raise

    return elements


@handles("concat_map")
def concat_map(call: TermCall) -> Any:
    source, function = call.values[0], call.function(1)
    elements = elements_of(call, function)
    if isinstance(source, Sequence):
        return expand(call, source, elements, source.refusal or (AFTER_CONCAT_MAP, None))
    return check_array([inner for element in call.elements(0) for inner in elements(element)])


def expand(
    call: TermCall,
    source: Sequence,
    elements: Callable[[Any], Iterable[Any]],
    refusal: tuple[str, Path | None],
) -> Sequence:
    """The elements of a function's results for each element, in one sequence. `refusal`: why `changes` is not possible."""
    result = source.through(lambda: Expand(elements), lambda: call.evaluator.read(source))
    return result if source.feed is not None else replace(result, refusal=refusal)


@handles("offsets_of")
def offsets_of(call: TermCall) -> Any:
    source, wanted = call.values[0], call.values[1]
    value = None if isinstance(wanted, Function) else call.datum(1)

    def test(element: Any) -> bool:
        return passes_filter(
            element, lambda one: wanted.test(one) if isinstance(wanted, Function) else equal(one, value)
        )

    if isinstance(source, Sequence):
        # If `changes` is refused, the error blames the term whose elements are counted, as on a real server.
        return source.through(lambda: OffsetsOf(test), lambda: call.evaluator.read(source))
    return [place for place, element in enumerate(call.elements(0)) if test(element)]


@handles("fold")
def fold(call: TermCall) -> Any:
    source, base, join = call.values[0], call.datum(1), call.function(2)
    emit_term, last_term = call.term.options.get("emit"), call.term.options.get("final_emit")
    if emit_term is None:
        if last_term is not None:
            raise QueryError(
                "The `final_emit` optarg can only be specified if the `emit` optarg is also specified."
            )
        result = base
        for element in call.elements(0):
            result = join(result, element)
        return result
    emitted = emit_function(call, emit_term)
    last = None if last_term is None else emit_function(call, last_term)
    if isinstance(source, Sequence) and source.feed is not None:
        return source.through(lambda: Fold(base, join, emitted), lambda: iter(()))

    def read() -> Iterator[Any]:
        operator = Fold(base, join, emitted)
        yield from operator.over(call.elements(0))
        if last is not None:
            yield from last(operator.result)

    return list(read()) if is_array(source) else stream(read, call.path)


def emit_function(call: TermCall, option: Term) -> Callable[..., list[Any]]:
    """The option `emit` of `fold`: a function whose value must be an array."""
    function = call.evaluator.run(option, call.scope)
    if not isinstance(function, Function):
        raise with_path(expected("FUNCTION", function), option.path)

    def emitted(*values: Any) -> list[Any]:
        result = function(*values)
        if not isinstance(result, list):
            raise with_path(expected_kind("ARRAY", result), function.body.path)
        return result

    return emitted


def whole_numbers() -> Iterator[int]:
    """0, 1, 2, ... with a distant end, so that a filter without a match does not hold a thread for ever."""
    yield from spend_per_element(range(MAX_OF_ENDLESS))
    raise ResourceLimit(f"An endless `range` ends after {MAX_OF_ENDLESS} elements.")


@handles("range")
def range_(call: TermCall) -> Any:
    if not len(call):
        return replace(stream(whole_numbers, call.path), is_endless=True)
    start = call.integer(0) if len(call) == 2 else 0
    stop = call.integer(len(call) - 1)
    return stream(lambda: iter(spend_per_element(range(start, stop))), call.path)


# ---------------------------------------------------------------------------------------------------------------
# The fields of each object


def on_each_object(name: str) -> Callable[[TermCall], Any]:
    """A term for objects and for sequences of objects."""
    operation = OPERATIONS[name]

    def handler(call: TermCall) -> Any:
        source = call.values[0]
        evaluator = call.evaluator
        rest = [
            evaluator.as_argument(value, path)
            for value, path in zip(call.values[1:], call.paths[1:], strict=True)
        ]
        if not isinstance(source, Sequence):
            return of_value(call, operation.function, *rest)
        if name in ("pluck", "without"):
            # Wrong arguments raise before anything is read.
            operation.function({}, *rest)

        def walk(element: Any) -> Any:
            if isinstance(element, list):
                raise with_path(QueryError(f"Cannot perform {name} on a sequence of sequences."), call.path)
            try:
                return operation.function(element, *rest)
            except ReactDBError as error:
                if getattr(error, "reql_path", None) is None:
                    raise with_path(error, call.path) from None
                raise

        changing = call.path if not all(map(is_deterministic, call.term.arguments[1:])) else None
        return map_elements(call, source, walk, object_expression(call, name, walk), name, changing)

    return handler


def object_expression(call: TermCall, name: str, walk: Callable[[Any], Any]) -> Expression | None:
    """The term applied to one element as an expression; None if there is none."""
    try:
        rest = tuple(to_node(term, call.scope, {}, call.evaluator) for term in call.term.arguments[1:])
        return LocatedExpression(Call(name, (Row(), *rest)), walk)
    except (NotPure, ReactDBError, KeyError):
        return None


for _name in ("pluck", "without", "merge"):
    handles(_name)(on_each_object(_name))


@handles("has_fields")
def has_fields(call: TermCall) -> Any:
    source = call.values[0]
    if not isinstance(source, Sequence):
        return of_value(call, OPERATIONS["has_fields"].function, *call.datums(1))
    paths = call.datums(1)
    OPERATIONS["has_fields"].function({}, *paths)
    test = Predicate(Expression(Call("has_fields", (Row(), *(constant(path) for path in paths)))))
    if source.query is None:
        return source.select(lambda: Keep(test.test), lambda: call.evaluator.read(source))
    filtered = source.then(HasFields(test), source.selection_kind)
    return filtered.refuse_changes(AFTER_LIMIT, call.path) if source.is_limited else filtered


_pluck = on_each_object("pluck")


@handles("with_fields")
def with_fields(call: TermCall) -> Any:
    if not isinstance(call.values[0], Sequence):
        return OPERATIONS["with_fields"].function(call.array(0), *call.datums(1))
    having = has_fields(call)
    return _pluck(TermCall(call.evaluator, call.term, call.scope, [having, *call.values[1:]], call.paths))


# ---------------------------------------------------------------------------------------------------------------
# Joins pair the elements of a sequence, one at a time, with elements of another, so a feed can be joined too


@handles("inner_join")
def inner_join(call: TermCall) -> Any:
    return join_sequences(call, is_outer=False)


@handles("outer_join")
def outer_join(call: TermCall) -> Any:
    return join_sequences(call, is_outer=True)


def join_sequences(call: TermCall, *, is_outer: bool) -> Any:
    left, right, test = call.values[0], call.values[1], call.function(2)

    def pairs(one: Any) -> Iterator[Any]:
        has_match = False
        for other in call.evaluator.elements(right, call.paths[1]):
            if truth(test(one, other)):
                has_match = True
                yield {"left": one, "right": other}
        if is_outer and not has_match:
            yield {"left": one}

    if isinstance(left, Sequence):
        return expand(call, left, pairs, left.refusal or (AFTER_CONCAT_MAP, None))
    return check_array([pair for one in call.elements(0) for pair in pairs(one)])


@handles("eq_join")
def eq_join(call: TermCall) -> Any:
    """Pairs of an element and the documents of a table whose key or index equals the element's field."""
    left, by, right = call.values[0], call.values[1], call.values[2]
    if not isinstance(right, Sequence) or right.kind != TABLE or right.query is None:
        raise with_path(expected("TABLE", right), call.paths[2])
    index = find_index(call.evaluator, right, call.string_option("index"))
    name = None if isinstance(by, Function) else call.string(1)
    encode = primary_key if index is None else index_key

    def pairs(one: Any) -> Iterator[Any]:
        try:
            value = by(one) if isinstance(by, Function) else OPERATIONS["get_field"].function(one, name)
        except MissingValue:
            return
        if value is None:
            return
        try:
            key = encode(value)
        except ReactDBError:
            return
        assert right.query is not None
        if index is None:
            value = stored_key(value)
        for other in call.evaluator.read(right.then(GetAll((value,), (key,), index))):
            yield {"left": one, "right": other}

    if isinstance(left, Sequence):
        joined_pairs = expand(call, left, pairs, (EAGER, call.path))
        return joined_pairs if left.feed is not None else replace(joined_pairs, path=call.path)
    return check_array([pair for one in call.elements(0) for pair in pairs(one)])


@handles("zip")
def zip_(call: TermCall) -> Any:
    source = call.values[0]
    zipped = OPERATIONS["zip"].function
    if isinstance(source, Sequence):
        return replace(
            source.through(
                lambda: Convert(lambda pair: zipped([pair])[0]), lambda: call.evaluator.read(source)
            ),
            path=call.path,
            refusal=(EAGER, call.path),
        )
    return zipped(call.array(0))


# ---------------------------------------------------------------------------------------------------------------
# Several sequences


@handles("union")
def union(call: TermCall) -> Any:
    values = call.values
    for place, value in enumerate(values):
        if isinstance(value, Single):
            raise with_path(expected("SEQUENCE", value), call.paths[place])
        if not isinstance(value, (Sequence, list)):
            raise with_path(cannot_convert(call.datum(place)), call.paths[place])
    interleave = (
        call.evaluator.run(call.term.options["interleave"], call.scope)
        if call.has_option("interleave")
        else True
    )
    if all(map(is_array, values)):
        return check_array(
            interleave_lists(call, [call.array(place) for place in range(len(call))], interleave)
        )
    if any(isinstance(value, Sequence) and value.feed is not None for value in values):
        return union_of_feeds(call)
    if not isinstance(interleave, bool):
        return stream(
            lambda: iter(
                interleave_lists(call, [call.array(place) for place in range(len(call))], interleave)
            ),
            call.path,
        )
    is_in_turn = interleave is False
    if not is_in_turn and all(isinstance(value, Sequence) and value.query is not None for value in values):
        return union_of_queries(call)

    def read() -> Iterator[Any]:
        for place in range(len(values)):
            yield from call.elements(place)

    if is_in_turn:
        return stream(read, call.path)
    blamed = next(
        place for place, value in enumerate(values) if not isinstance(value, Sequence) or value.query is None
    )
    value = values[blamed]
    refusal = value.refusal if isinstance(value, Sequence) and value.refusal else (EAGER, call.paths[blamed])
    return stream(read, call.path, refusal)


def interleave_lists(call: TermCall, lists: list[list[Any]], interleave: Any) -> list[Any]:
    elements = [element for one in lists for element in one]
    if isinstance(interleave, bool):
        return elements
    keys = interleave if isinstance(interleave, list) else [interleave]
    finders: list[tuple[Callable[[Any], Any], bool]] = []
    for key in keys:
        descending = getattr(key, "descending", False)
        inner = key.value if hasattr(key, "descending") else key
        finders.append((inner if callable(inner) else partial(field_of, inner), descending))
    return sort_by_keys(elements, finders)


def field_of(name: str, element: Any) -> Any:
    return OPERATIONS["get_field"].function(element, name)


def union_of_queries(call: TermCall) -> Sequence:
    members = tuple(value for value in call.values if isinstance(value, Sequence))
    first = members[0].query
    assert first is not None
    others = tuple(member.query for member in members[1:] if member.query is not None)
    refusal = next((member.refusal for member in members if member.refusal is not None), None)
    return Sequence(
        STREAM,
        call.path,
        query=first.then(Union(others)),
        refusal=refusal,
        is_limited=any(member.is_limited for member in members),
        members=members,
    )


def union_of_feeds(call: TermCall) -> Sequence:
    pairs: list[tuple[Sequence, Callable[[], Iterator[Any]]]] = []
    for place, value in enumerate(call.values):
        read = partial(call.elements, place)
        pairs.append((value if isinstance(value, Sequence) else stream(read, call.paths[place]), read))
    feed = path_of_union(call)
    return Sequence(STREAM, call.path, feed=unite(pairs), refusal=(EAGER, feed))


def path_of_union(call: TermCall) -> Any:
    return next(
        path
        for value, path in zip(call.values, call.paths, strict=True)
        if isinstance(value, Sequence) and value.feed is not None
    )


@handles("difference")
def difference(call: TermCall) -> Any:
    source = call.values[0]
    others = call.array(1)
    unwanted = {collation.key_bytes(value) for value in others}

    def test(element: Any) -> bool:
        return collation.key_bytes(element) not in unwanted

    if isinstance(source, Sequence):
        return source.through(lambda: Keep(test), lambda: call.evaluator.read(source))
    return [element for element in call.elements(0) if test(element)]
