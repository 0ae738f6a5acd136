"""Terms: joins. Each pairs the elements of a sequence, one at a time, with those of another, so a feed can be joined too.

Rule of this file: handlers only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from reactdb.dialects.rethinkdb.errors import located
from reactdb.dialects.rethinkdb.evaluator import TermCall, handles
from reactdb.dialects.rethinkdb.functions import Function
from reactdb.dialects.rethinkdb.keys import checked_index, index_key, primary_key
from reactdb.dialects.rethinkdb.transforming import AFTER_CONCAT_MAP, expanded
from reactdb.dialects.rethinkdb.values import EAGER, TABLE, Sequence, expected
from reactdb.errors import MissingValue, ReactDBError
from reactdb.expression import OPERATIONS
from reactdb.expression.checks import checked_array, truth
from reactdb.query import GetAll


@handles("inner_join")
def inner_join(call: TermCall) -> Any:
    return joined(call, is_outer=False)


@handles("outer_join")
def outer_join(call: TermCall) -> Any:
    return joined(call, is_outer=True)


def joined(call: TermCall, *, is_outer: bool) -> Any:
    left, right, test = call.values[0], call.values[1], call.function(2)

    def pairs(one: Any) -> Iterator[Any]:
        found = False
        for other in call.evaluator.elements(right, call.paths[1]):
            if truth(test(one, other)):
                found = True
                yield {"left": one, "right": other}
        if is_outer and not found:
            yield {"left": one}

    if isinstance(left, Sequence):
        return expanded(call, left, pairs, left.refusal or (AFTER_CONCAT_MAP, None))
    return checked_array([pair for one in call.elements(0) for pair in pairs(one)])


@handles("eq_join")
def eq_join(call: TermCall) -> Any:
    """Pairs of an element and the documents of a table whose key or index equals the element's field."""
    left, by, right = call.values[0], call.values[1], call.values[2]
    if not isinstance(right, Sequence) or right.kind != TABLE or right.query is None:
        raise located(expected("TABLE", right), call.paths[2])
    index = checked_index(call.evaluator, right, call.string_option("index"))
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
        for other in call.evaluator.read(right.then(GetAll((value,), (key,), index))):
            yield {"left": one, "right": other}

    if isinstance(left, Sequence):
        found = expanded(call, left, pairs, (EAGER, call.path))
        return found if left.feed is not None else replace(found, path=call.path)
    return checked_array([pair for one in call.elements(0) for pair in pairs(one)])
