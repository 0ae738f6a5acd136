"""Work that ends: whatever an operator, a stage or an update does, it spends the budget in proportion to the time that it takes.

A budget looks at the clock after `STEPS` steps. So where no step takes longer than `MOST_STEP_S`, what is evaluated ends a second
after its time at the latest. Each operator of each register is given values that are large for it, and the time that a step takes
is measured: the bound is some hundred times what it takes on an idle machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("bson", reason="PyMongo is not installed")

from bson.decimal128 import Decimal128
from bson.regex import Regex

from reactdb import budget
from reactdb.budget import STEPS, Budget, Stopped
from reactdb.dialects.mongodb.accumulators import ACCUMULATORS
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions.compiling import OPERATORS as EXPRESSIONS
from reactdb.dialects.mongodb.expressions.compiling import Scope, compiled
from reactdb.dialects.mongodb.filters import Filter
from reactdb.dialects.mongodb.operators import OPERATORS as UPDATES
from reactdb.dialects.mongodb.stages.pipeline import Pipeline
from reactdb.dialects.mongodb.stages.stage import STAGES, Setting
from reactdb.dialects.mongodb.updates import Update
from reactdb.dialects.mongodb.window_functions import WINDOW_FUNCTIONS

MOST_STEP_S = 150e-6
COUNT = 20_000
NUMBERS = list(range(COUNT))
TEXT = "abcdefgh " * (COUNT * 8)
DOCUMENT: dict[str, Any] = {
    "n": 5,
    "numbers": NUMBERS,
    "shifted": [number + 1 for number in NUMBERS],
    "flags": [True] * COUNT,
    "arrays": [[number, number] for number in NUMBERS],
    "documents": [{"k": str(number), "v": number, "a": [number]} for number in NUMBERS],
    "object": {f"f{number}": number for number in NUMBERS},
    "text": TEXT,
    "bytes": TEXT.encode(),
    "digits": "7" * COUNT,
    "decimals": [Decimal128(str(number)) for number in NUMBERS],
}


class Counter:
    """A budget without an end, which counts what is spent."""

    def __init__(self) -> None:
        self.steps = 0

    def spend(self, steps: int) -> None:
        assert steps >= 0
        self.steps += steps


def seconds_a_step(work: Callable[[], Any]) -> float:
    """How many seconds a step takes, in what takes long enough to be measured."""
    counter = Counter()
    outer = budget.current.set(counter)  # type: ignore[arg-type]
    began = time.thread_time()
    try:
        for _ in range(2_000):
            work()
            if time.thread_time() - began > 0.02:
                break
    finally:
        budget.current.reset(outer)
    return (time.thread_time() - began) / max(counter.steps, 1)


# ---------------------------------------------------------------------------------------------------------------
# Expressions

FIELDS = [f"${name}" for name in DOCUMENT]
INNER = {"input": "$numbers"}
# Of operators that are not given values by place: what they are given.
NAMED: dict[str, list[Any]] = {
    "$map": [{**INNER, "in": 1}, {**INNER, "in": "$$this"}, {**INNER, "in": {"$size": "$numbers"}}],
    "$filter": [{**INNER, "cond": True}, {**INNER, "cond": {"$gt": ["$$this", 5]}}],
    "$reduce": [
        {**INNER, "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}},
        {**INNER, "initialValue": 0, "in": "$$this"},
        {"input": [1, 2, 3], "initialValue": [], "in": {"$setUnion": ["$$value", "$numbers"]}},
        {"input": [1, 2, 3], "initialValue": [], "in": {"$concatArrays": ["$$value", "$numbers"]}},
        {"input": [1, 2, 3], "initialValue": "", "in": {"$concat": ["$$value", "$text"]}},
    ],
    "$let": [{"vars": {"x": "$numbers"}, "in": {"$in": [-1, "$$x"]}}],
    "$zip": [{"inputs": ["$numbers", "$documents"]}],
    "$sortArray": [{"input": "$documents", "sortBy": {"v": -1, "k": 1}}, {"input": "$arrays", "sortBy": 1}],
    **{
        name: [{"input": "$numbers", "n": 2}, {"input": "$arrays", "n": COUNT}]
        for name in ("$firstN", "$lastN", "$minN", "$maxN")
    },
    **{name: [{"input": "$text"}, {"input": "$text", "chars": "abc"}] for name in ("$trim", "$ltrim", "$rtrim")},
    **{
        name: [{"input": "$text", "find": find, "replacement": "xy"} for find in ("a", "none")]
        for name in ("$replaceOne", "$replaceAll")
    },
    **{
        name: [{"input": "$text", "regex": regex} for regex in ("h", "[a-z]+x", "e.*f", "none")]
        for name in ("$regexMatch", "$regexFind", "$regexFindAll")
    },
    "$switch": [{"branches": [{"case": False, "then": 1}] * COUNT, "default": "$n"}],
    "$getField": [{"field": "n", "input": "$object"}],
    "$setField": [{"field": "n", "input": "$object", "value": 1}],
    "$unsetField": [{"field": "n", "input": "$object"}],
    "$percentile": [{**INNER, "p": [0.5], "method": "approximate"}],
    "$median": [{**INNER, "method": "approximate"}],
    "$convert": [{"input": field, "to": to, "onError": 0} for field in FIELDS for to in ("int", "string")],
}
# These work with a date, and with nothing that is large.
OF_DATES = {name for name in EXPRESSIONS if name.startswith(("$date", "$ts")) or name in (
    "$year", "$month", "$week", "$hour", "$minute", "$second", "$millisecond", "$dayOfMonth", "$dayOfWeek",
    "$dayOfYear", "$isoWeek", "$isoWeekYear", "$isoDayOfWeek",
)}
# They are given nothing that is read.
WITHOUT_INPUT = {"$literal", "$const", "$rand", "$meta"}


def specs_of(name: str) -> Iterator[Any]:
    yield from NAMED.get(name, ())
    if name not in NAMED:
        yield from FIELDS
        yield from ([left, right] for left in FIELDS for right in (left, "$n", "$text", "$shifted"))
        yield from ([right, left] for left in FIELDS for right in ("$n", "$text"))
        yield from ([field, 0, COUNT] for field in FIELDS)
        yield [*FIELDS[:1]] * COUNT


@pytest.mark.parametrize("name", sorted(EXPRESSIONS.keys() - OF_DATES - WITHOUT_INPUT))
def test_each_operator_spends_the_budget(name: str) -> None:
    tried = 0
    for spec in specs_of(name):
        try:
            evaluate = compiled({name: spec}, Scope())
            evaluate(DOCUMENT, {})
        except MongoError:
            continue
        tried += 1
        a_step_s = seconds_a_step(lambda: evaluate(DOCUMENT, {}))  # noqa: B023 (it is called at once)

        assert a_step_s < MOST_STEP_S, f"{name} of {spec!r:.80}"
    assert tried, "nothing was found that it can work with"
