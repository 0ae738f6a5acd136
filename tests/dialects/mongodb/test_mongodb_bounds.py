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
from bson.int64 import Int64
from bson.regex import Regex

import reactdb
from reactdb import budget
from reactdb.budget import STEPS, Budget, Stopped, WorkStopped, bind_budget
from reactdb.dialects.mongodb.accumulators import ACCUMULATORS
from reactdb.dialects.mongodb.bson_order import MISSING
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions.compile import OPERATORS as EXPRESSIONS
from reactdb.dialects.mongodb.expressions.compile import Scope, compile_value, constant_of
from reactdb.dialects.mongodb.filters import Filter
from reactdb.dialects.mongodb.operators import OPERATORS as UPDATES
from reactdb.dialects.mongodb.stages.pipeline import Pipeline
from reactdb.dialects.mongodb.stages.stage import STAGES, Setting
from reactdb.dialects.mongodb.updates import Update
from reactdb.dialects.mongodb.window_functions import WINDOW_FUNCTIONS

MOST_STEP_S = 150e-6
COUNT = 1_000
NUMBERS = list(range(COUNT))
TEXT = "abcdefgh " * 8_000
DOCUMENT: dict[str, Any] = {
    "n": 5,
    "zero": 0,
    "id": "a" * 24,
    "pairs": [[str(number), number] for number in NUMBERS],
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
    """How many seconds of computing a step takes, in the quickest of some tries: the others may have been disturbed."""
    least = float("inf")
    for _ in range(3):
        counter = Counter()
        outer = budget.current.set(counter)  # type: ignore[arg-type]
        began = time.thread_time()
        try:
            for _ in range(200):
                work()
                if time.thread_time() - began > 0.001:
                    break
        finally:
            budget.current.reset(outer)
        least = min(least, (time.thread_time() - began) / max(counter.steps, 1))
        if least < MOST_STEP_S / 10:
            break
    return least


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
    **{
        name: [{"input": "$text"}, {"input": "$text", "chars": "abc"}]
        for name in ("$trim", "$ltrim", "$rtrim")
    },
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
    "$toDate": [{"$literal": Int64(5)}, {"$toLong": "$n"}],
    "$convert": [{"input": field, "to": to, "onError": 0} for field in FIELDS for to in ("int", "string")],
}
# These work with a date, and with nothing that is large.
OF_DATES = {
    name
    for name in EXPRESSIONS
    if name.startswith(("$date", "$ts"))
    or name
    in (
        "$year",
        "$month",
        "$week",
        "$hour",
        "$minute",
        "$second",
        "$millisecond",
        "$dayOfMonth",
        "$dayOfWeek",
        "$dayOfYear",
        "$isoWeek",
        "$isoWeekYear",
        "$isoDayOfWeek",
    )
}
# They are given nothing that is read.
WITHOUT_INPUT = {"$literal", "$const", "$rand", "$meta"}


def specs_of(name: str) -> Iterator[Any]:
    yield from NAMED.get(name, ())
    if name not in NAMED:
        yield from FIELDS
        yield from ([field, other] for field in FIELDS for other in (field, "$n", "$text"))
        yield from ([field, 0, COUNT] for field in FIELDS)
        yield ["$n"] * COUNT


@pytest.mark.parametrize("name", sorted(EXPRESSIONS.keys() - OF_DATES - WITHOUT_INPUT))
def test_each_operator_spends_the_budget(name: str) -> None:
    tried = 0
    for spec in specs_of(name):
        try:
            evaluate = compile_value({name: spec}, Scope())
            evaluate(DOCUMENT, {})
        except MongoError:
            continue
        if constant_of(evaluate) is not MISSING:
            # It was worked out when it was compiled, as `$or` with a true constant is.
            continue
        tried += 1
        a_step_s = seconds_a_step(lambda: evaluate(DOCUMENT, {}))  # noqa: B023 (it is called at once)

        assert a_step_s < MOST_STEP_S, f"{name} of {spec!r:.80}"
    assert tried, "nothing was found that it can work with"


# ---------------------------------------------------------------------------------------------------------------
# Filters


@pytest.mark.parametrize(
    "query",
    [
        {"$or": [{"n": -number} for number in range(1, COUNT)]},
        {"n": {"$in": [Regex(f"x{number}") for number in range(200)]}, "numbers": 5},
        {"numbers": {"$all": list(range(200))}},
        {"documents.k": "none"},
        {"documents": {"$elemMatch": {"v": -1}}},
        {"numbers": {"$elemMatch": {"$gt": COUNT}}},
        {"numbers": {"$lt": 0}},
        {"numbers": NUMBERS},
        {"object": {"$gt": {"a": 1}}},
        {"text": {"$regex": "[a-z]+x"}},
        {"$expr": {"$in": [-1, "$numbers"]}},
        {"$jsonSchema": {"properties": {"numbers": {"items": {"minimum": 5}, "uniqueItems": True}}}},
    ],
    ids=lambda query: str(query)[:50],
)
def test_each_filter_spends_the_budget(query: dict[str, Any]) -> None:
    matches = Filter(query).matches

    assert seconds_a_step(lambda: matches(DOCUMENT)) < MOST_STEP_S


# ---------------------------------------------------------------------------------------------------------------
# Stages, accumulators and window functions

ROWS: list[dict[str, Any]] = [
    {
        "_id": number,
        "n": number,
        "k": number % 7,
        "a": [number, number + 1],
        "o": {f"f{number}": 1},
        "next": number + 1,
    }
    for number in range(200)
]


class Rows:
    """The collections beside: each has the same documents."""

    def documents(self, namespace: str) -> list[dict[str, Any]]:
        return ROWS


def through_stages(*specs: Any) -> None:
    setting = Setting(collections=Rows())  # type: ignore[arg-type]
    for _ in Pipeline(specs, setting).run(iter(ROWS)):
        pass


TO_BOTH_SIDES = {"documents": [-100, 100]}
STAGES_TRIED: dict[str, list[Any]] = {
    "$match": [{"k": 3}],
    "$sort": [{"k": 1, "n": -1}],
    "$limit": [150],
    "$skip": [5],
    "$sample": [{"size": 150}],
    "$redact": [{"$cond": [{"$eq": ["$k", 1]}, "$$PRUNE", "$$DESCEND"]}],
    "$unwind": ["$a"],
    "$group": [{"_id": "$k", "all": {"$push": "$$ROOT"}}],
    "$sortByCount": ["$k"],
    "$count": ["n"],
    "$bucket": [{"groupBy": "$n", "boundaries": [0, 100, 1_000]}],
    "$bucketAuto": [{"groupBy": "$n", "buckets": 50}, {"groupBy": "$n", "buckets": 50, "granularity": "R5"}],
    "$lookup": [
        {"from": "t", "localField": "k", "foreignField": "k", "as": "found"},
        {"from": "t", "localField": "k", "foreignField": "k", "pipeline": [{"$limit": 5}], "as": "found"},
        {"from": "t", "pipeline": [{"$match": {"n": 5}}], "as": "found"},
    ],
    "$graphLookup": [
        {
            "from": "t",
            "startWith": "$next",
            "connectFromField": "next",
            "connectToField": "_id",
            "as": "found",
        },
        {"from": "t", "startWith": "$k", "connectFromField": "k", "connectToField": "k", "as": "found"},
    ],
    "$unionWith": ["t"],
    "$facet": [{f"f{number}": [] for number in range(50)}, {"one": [{"$sort": {"n": -1}}]}],
    "$fill": [{"sortBy": {"n": 1}, "output": {"m": {"method": "linear"}, "k": {"method": "locf"}}}],
    "$densify": [{"field": "n", "range": {"step": 0.25, "bounds": "full"}}],
    "$project": [{"n": 1, "o": 1}, {"o": 0}, {"sum": {"$add": ["$n", 1]}}],
    "$addFields": [{"m": "$n"}],
    "$set": [{"m": "$n"}],
    "$unset": ["k"],
    "$replaceRoot": [{"newRoot": "$o"}],
    "$replaceWith": ["$o"],
    "$setWindowFields": [
        {"sortBy": {"n": 1}, "output": {"m": {"$min": "$n", "window": window}}}
        for window in ({}, TO_BOTH_SIDES, {"range": [-50, 50]})
    ],
    "$documents": [],
}
# They read or write what is beside, or are refused.
ELSEWHERE = {
    *("$out", "$merge", "$collStats", "$indexStats", "$planCacheStats", "$currentOp", "$listSessions"),
    *(
        "$listLocalSessions",
        "$geoNear",
        "$search",
        "$searchMeta",
        "$vectorSearch",
        "$rankFusion",
        "$scoreFusion",
    ),
    "$listSearchIndexes",
}


def test_each_stage_is_tried() -> None:
    assert STAGES.keys() == STAGES_TRIED.keys() | ELSEWHERE


@pytest.mark.parametrize(
    ("name", "spec"),
    [(name, spec) for name, specs in STAGES_TRIED.items() for spec in specs],
    ids=lambda one: str(one)[:40],
)
def test_each_stage_spends_the_budget(name: str, spec: Any) -> None:
    assert seconds_a_step(lambda: through_stages({name: spec})) < MOST_STEP_S


def arguments_of(name: str) -> Any:
    if name in ("$firstN", "$lastN", "$minN", "$maxN"):
        return {"n": 150, "input": "$n"}
    if name in ("$top", "$bottom", "$topN", "$bottomN"):
        return {"output": "$n", "sortBy": {"n": 1}} | ({"n": 150} if name.endswith("N") else {})
    if name in ("$median", "$percentile"):
        return {"input": "$n", "method": "approximate"} | ({"p": [0.5]} if name == "$percentile" else {})
    special = {
        "$count": {},
        "$mergeObjects": "$o",
        "$concatArrays": "$a",
        "$setUnion": "$a",
        "$covariancePop": ["$n", "$k"],
        "$covarianceSamp": ["$n", "$k"],
        "$minMaxScaler": {"input": "$n"},
        "$rank": {},
        "$denseRank": {},
        "$documentNumber": {},
        "$shift": {"output": "$n", "by": 1},
        "$expMovingAvg": {"input": "$n", "N": 5},
        "$derivative": {"input": "$n"},
        "$integral": {"input": "$n"},
    }
    return special.get(name, "$n")


@pytest.mark.parametrize("name", sorted(ACCUMULATORS))
def test_each_accumulator_spends_the_budget(name: str) -> None:
    group = {"$group": {"_id": None, "found": {name: arguments_of(name)}}}

    assert seconds_a_step(lambda: through_stages(group)) < MOST_STEP_S


@pytest.mark.parametrize("name", sorted(WINDOW_FUNCTIONS))
def test_each_window_function_spends_the_budget(name: str) -> None:
    function = {name: arguments_of(name)}
    if name not in (
        "$rank",
        "$denseRank",
        "$documentNumber",
        "$shift",
        "$expMovingAvg",
        "$locf",
        "$linearFill",
    ):
        function["window"] = TO_BOTH_SIDES
    stage = {"$setWindowFields": {"sortBy": {"n": 1}, "output": {"found": function}}}

    assert seconds_a_step(lambda: through_stages(stage)) < MOST_STEP_S


# ---------------------------------------------------------------------------------------------------------------
# Updates

ARRAYS_CHANGED: list[tuple[str, Any]] = [
    ("$push", {"numbers": {"$each": NUMBERS, "$sort": -1, "$slice": 50}}),
    ("$push", {"documents": {"$each": [], "$sort": {"v": -1, "k": 1}}}),
    ("$addToSet", {"numbers": {"$each": DOCUMENT["shifted"]}}),
    ("$pull", {"documents": {"v": {"$gt": 5}}}),
    ("$pullAll", {"numbers": NUMBERS}),
    ("$pop", {"numbers": 1}),
    ("$set", {"documents.$[].x": 1}),
    ("$inc", {"numbers.$[]": 1}),
    ("$min", {"numbers": [5]}),
    ("$max", {"numbers": [5]}),
]


@pytest.mark.parametrize(("name", "operand"), ARRAYS_CHANGED, ids=lambda one: str(one)[:30])
def test_each_update_of_an_array_spends_the_budget(name: str, operand: Any) -> None:
    assert name in UPDATES
    update = Update({name: operand})

    assert seconds_a_step(lambda: update.apply(DOCUMENT)) < MOST_STEP_S


# ---------------------------------------------------------------------------------------------------------------
# What was found


def ends_after(looks: int, work: Callable[[], Any]) -> bool:
    """Whether it is stopped, where the time is over when the clock has been read so often."""
    clock = iter(range(10**9))
    outer = budget.current.set(Budget(looks, clock=lambda: next(clock)))
    try:
        work()
    except Stopped:
        return True
    finally:
        budget.current.reset(outer)
    return False


def test_a_union_that_grows_with_each_turn_is_stopped() -> None:
    union = {
        "$reduce": {
            "input": {"$range": [0, 30_000]},
            "initialValue": [],
            "in": {"$setUnion": ["$$value", ["$$this"]]},
        }
    }
    evaluate = compile_value(union, Scope())

    assert ends_after(20, lambda: evaluate({}, {}))


def test_a_window_to_both_sides_is_stopped() -> None:
    rows = [{"n": number} for number in range(10_000)]
    stage = {
        "$setWindowFields": {
            "sortBy": {"n": 1},
            "output": {"m": {"$min": "$n", "window": {"documents": [-5_000, 5_000]}}},
        }
    }

    assert ends_after(20, lambda: list(Pipeline([stage]).run(iter(rows))))


def test_documents_in_between_that_are_never_reached_are_given_up() -> None:
    """A step that is lost in the rounding of a double leads nowhere."""
    rows = [{"n": 1e300}, {"n": 1e301}]
    stage = {"$densify": {"field": "n", "range": {"step": 1.0, "bounds": "full"}}}

    assert ends_after(20, lambda: list(Pipeline([stage]).run(iter(rows))))


def test_steps_are_counted_before_a_second_is_over() -> None:
    assert STEPS * MOST_STEP_S < 1


def test_the_work_of_a_write_spends_the_budget_of_its_own_client() -> None:
    """Another thread may carry it out in its own commit: its time is not spent, and its commit does not fail."""
    own, other = Counter(), Counter()
    outer = budget.current.set(own)  # type: ignore[arg-type]
    try:
        work = bind_budget(lambda steps: budget.spend(steps))
        budget.current.set(other)  # type: ignore[arg-type]
        work(5)
    finally:
        budget.current.reset(outer)

    assert (5, 0) == (own.steps, other.steps)


def test_the_work_of_a_write_that_is_stopped_fails_as_others_do() -> None:
    """What is no `Exception` would end the commit of the thread that carries it out."""
    outer = budget.current.set(Budget(0, clock=lambda: 1.0))
    try:
        with pytest.raises(WorkStopped):
            bind_budget(lambda steps: budget.spend(steps))(STEPS + 1)
    finally:
        budget.current.reset(outer)


def test_an_update_that_is_stopped_has_written_nothing() -> None:
    with reactdb.connect(":memory:") as db, reactdb.mongodb(db) as client:
        client.test.t.insert_many([{"_id": number, "a": list(range(500))} for number in range(100)])

        assert ends_after(2, lambda: client.test.t.update_many({}, {"$inc": {"a.$[]": 1}}))
        assert 100 == client.test.t.count_documents({"a.0": 0})
