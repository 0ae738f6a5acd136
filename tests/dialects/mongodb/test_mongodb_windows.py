"""`$setWindowFields`, and what stands on it: against a naive evaluation, as the manual says it, and what is refused."""

from __future__ import annotations

import math
import statistics
from datetime import datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("bson")

from bson import Decimal128, Int64
from hypothesis import given, settings
from hypothesis import strategies as st

from reactdb.dialects.mongodb.bson_order import identical, sort_key
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.stages import Pipeline, Setting
from tests.support.scaling import examples

WHOLE = ["unbounded", "unbounded"]
DAY = datetime(2024, 1, 1)


def run(stage: dict[str, Any], documents: list[Any], setting: Setting | None = None) -> list[Any]:
    return list(Pipeline([stage], setting).run(documents))


def windowed(documents: list[Any], output: dict[str, Any], **options: Any) -> list[Any]:
    return run({"$setWindowFields": {"output": output, **options}}, documents)


def results(documents: list[Any], function: dict[str, Any], **options: Any) -> list[Any]:
    """What a function gives for documents that are ordered by `t`."""
    return [made["r"] for made in windowed(documents, {"r": function}, sortBy={"t": 1}, **options)]


def of_values(*values: Any) -> list[Any]:
    return [{"t": number, "v": value} for number, value in enumerate(values)]


# --- The law ---

numbers = st.one_of(
    st.integers(-6, 6), st.integers(-6, 6).map(Int64), st.integers(-12, 12).map(lambda n: n / 2)
)
values = st.one_of(numbers, numbers, st.none(), st.just("x"))


@st.composite
def collections(draw: st.DrawFn, places: st.SearchStrategy[Any]) -> list[dict[str, Any]]:
    rows = draw(st.lists(st.fixed_dictionaries({"p": st.sampled_from("ab"), "t": places}), max_size=9))
    made = []
    for number, row in enumerate(rows):
        value = draw(values)
        made.append({"_id": number, **row} | ({} if value == "x" and number % 2 else {"v": value}))
    return made


bounds = st.tuples(
    st.sampled_from(["unbounded", "current", -3, -2, -1, 0, 1, 2]),
    st.sampled_from(["unbounded", "current", -2, -1, 0, 1, 2, 3]),
).filter(lambda pair: _number(pair[0], -99) <= _number(pair[1], 99))


def _number(bound: Any, unbounded: int) -> int:
    return unbounded if bound == "unbounded" else 0 if bound == "current" else bound


def partitions(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    return [
        sorted((row for row in rows if row["p"] == name), key=lambda row: row["t"])
        for name in sorted({row["p"] for row in rows})
    ]


NAIVE: dict[str, Any] = {
    "$sum": lambda window: sum(_numbers(window)),
    "$avg": lambda window: statistics.fmean(_numbers(window)) if _numbers(window) else None,
    "$min": lambda window: min(_there(window), key=sort_key, default=None),
    "$max": lambda window: max(_there(window), key=sort_key, default=None),
    "$push": lambda window: [row["v"] for row in window if "v" in row],
    "$first": lambda window: window[0].get("v") if window else None,
    "$last": lambda window: window[-1].get("v") if window else None,
    "$stdDevPop": lambda window: statistics.pstdev(_numbers(window)) if _numbers(window) else None,
    "$stdDevSamp": lambda window: statistics.stdev(_numbers(window)) if len(_numbers(window)) > 1 else None,
}


def _numbers(window: list[Any]) -> list[float]:
    return [float(row["v"]) for row in window if type(row.get("v")) in (int, Int64, float)]


def _there(window: list[Any]) -> list[Any]:
    return [row["v"] for row in window if row.get("v") is not None]


def naive_window(part: list[Any], place: int, mode: str, pair: tuple[Any, Any]) -> list[Any]:
    """The documents in the window of one: each is asked whether it is."""
    lower, upper = _number(pair[0], -99), _number(pair[1], 99)
    if mode == "documents":
        return [row for other, row in enumerate(part) if place + lower <= other <= place + upper]
    far = timedelta(days=1) if mode == "day" else 1
    here = part[place]["t"]
    return [row for row in part if here + lower * far <= row["t"] <= here + upper * far]


def equal(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float | int):
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(equal, left, right))
    return sort_key(left) == sort_key(right)


@pytest.mark.parametrize("mode", ["documents", "range", "day"])
@given(data=st.data(), pair=bounds)
@settings(max_examples=examples(120))
def test_a_window_is_the_documents_that_are_so_near_and_a_function_is_its_total(mode, data, pair):
    places = st.integers(0, 6)
    rows = data.draw(collections(places.map(lambda n: DAY + timedelta(days=n)) if mode == "day" else places))
    window = {"range": list(pair), "unit": "day"} if mode == "day" else {mode: list(pair)}

    output = {name[1:]: {name: "$v", "window": window} for name in NAIVE}
    made = windowed(rows, output, partitionBy="$p", sortBy={"t": 1})

    expected = []
    for part in partitions(rows):
        for place, row in enumerate(part):
            near = naive_window(part, place, mode, pair)
            expected.append((row["_id"], {name[1:]: naive(near) for name, naive in NAIVE.items()}))
    assert [number for number, _ in expected] == [row["_id"] for row in made]
    for (_, fields), row in zip(expected, made, strict=True):
        assert dict.fromkeys(fields, True) == {
            name: equal(value, row[name]) for name, value in fields.items()
        }


@given(collections(st.integers(0, 3)), st.integers(-3, 3))
@settings(max_examples=examples(120))
def test_a_rank_counts_those_before_and_a_shift_is_a_neighbour(rows, by):
    functions = {
        "rank": {"$rank": {}},
        "dense": {"$denseRank": {}},
        "number": {"$documentNumber": {}},
        "there": {"$shift": {"output": "$_id", "by": by, "default": "none"}},
        "last": {"$locf": "$v"},
    }

    made = windowed(rows, functions, partitionBy="$p", sortBy={"t": 1})

    expected = []
    for part in partitions(rows):
        last = None
        for place, row in enumerate(part):
            before = [other["t"] for other in part if other["t"] < row["t"]]
            last = row["v"] if row.get("v") is not None else last
            expected.append(
                {
                    "rank": len(before) + 1,
                    "dense": len(set(before)) + 1,
                    "number": place + 1,
                    "there": part[place + by]["_id"] if 0 <= place + by < len(part) else "none",
                    "last": last,
                }
            )
    assert expected == [{name: row[name] for name in functions} for row in made]


# --- What each function gives ---


def test_partitions_follow_each_other_and_what_is_missing_is_null():
    rows = [
        {"_id": 1, "p": "b"},
        {"_id": 2},
        {"_id": 3, "p": "a"},
        {"_id": 4, "p": None},
        {"_id": 5, "p": "b"},
    ]

    made = windowed(rows, {"ids": {"$push": "$_id"}}, partitionBy="$p")

    assert [(2, [2, 4]), (4, [2, 4]), (3, [3]), (1, [1, 5]), (5, [1, 5])] == [
        (row["_id"], row["ids"]) for row in made
    ]


def test_a_result_has_its_place_in_the_document_and_the_document_is_not_changed():
    row = {"a": {"x": 1, "y": 2}, "t": 1}

    made = windowed([row], {"a.x": {"$sum": "$a.y"}, "b.c": {"$count": {}}})

    assert [{"a": {"x": 2, "y": 2}, "t": 1, "b": {"c": 1}}] == made
    assert {"a": {"x": 1, "y": 2}, "t": 1} == row


def test_no_output_leaves_the_documents_as_they_are_and_orders_them():
    assert [{"t": 1}, {"t": 2}] == windowed([{"t": 2}, {"t": 1}], {}, sortBy={"t": 1})


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ({"$sum": "$v"}, [10, 10, 10]),
        ({"$sum": ["$v", 1]}, [0, 0, 0]),
        ({"$count": {}, "window": {}}, [3, 3, 3]),
        ({"$addToSet": "$v", "window": {"documents": [0, 1]}}, [[5, 2], [2, 3], [3]]),
        ({"$firstN": {"n": 2, "input": "$v"}, "window": {"documents": [-1, 1]}}, [[5, 2], [5, 2], [2, 3]]),
        ({"$lastN": {"n": 1, "input": "$v"}, "window": {"documents": [-1, 1]}}, [[2], [3], [3]]),
        ({"$minN": {"n": 2, "input": "$v"}}, [[2, 3]] * 3),
        ({"$maxN": {"n": 2, "input": "$v"}}, [[5, 3]] * 3),
        ({"$top": {"sortBy": {"v": 1}, "output": "$t"}}, [1, 1, 1]),
        ({"$bottom": {"sortBy": {"v": 1}, "output": "$t"}}, [0, 0, 0]),
        ({"$topN": {"n": 2, "sortBy": {"v": 1}, "output": "$t"}}, [[1, 2]] * 3),
        ({"$bottomN": {"n": 2, "sortBy": {"v": 1}, "output": "$t"}}, [[2, 0]] * 3),
        ({"$covariancePop": ["$t", "$v"]}, [-2 / 3] * 3),
        ({"$covarianceSamp": ["$t", "$v"]}, [-1.0] * 3),
        ({"$covariancePop": "$v"}, [None] * 3),
        ({"$stdDevPop": "$v", "window": {"documents": [0, 0]}}, [0, 0, 0]),
        ({"$median": {"input": "$v", "method": "approximate"}}, [3.0] * 3),
        ({"$sum": "$v", "window": {"documents": [5, 6]}}, [0, 0, 0]),
        ({"$expMovingAvg": {"input": "$v", "N": 3}}, [5.0, 3.5, 3.25]),
        ({"$expMovingAvg": {"input": "$v", "alpha": 0.5}}, [5.0, 3.5, 3.25]),
        ({"$derivative": {"input": "$v"}, "window": {"documents": [-1, 0]}}, [None, -3.0, 1.0]),
        ({"$integral": {"input": "$v"}, "window": {"documents": ["unbounded", 0]}}, [0.0, 3.5, 6.0]),
        ({"$integral": {"input": "$v"}}, [6.0] * 3),
    ],
    ids=repr,
)
def test_a_function_gives_what_the_manual_says(function, expected):
    given_ = results(of_values(5, 2, 3), function)

    assert all(map(equal, expected, given_)), given_
    assert [type(value) for value in expected] == [type(value) for value in given_]


def test_dates_are_counted_in_units():
    rows = [
        {"t": DAY + timedelta(minutes=30 * number), "v": value} for number, value in enumerate([0, 30, 90])
    ]
    function = {
        "$derivative": {"input": "$v", "unit": "hour"},
        "window": {"range": [-30, 0], "unit": "minute"},
    }
    area = {"$integral": {"input": "$v", "unit": "hour"}, "window": {"documents": ["unbounded", "current"]}}

    assert [None, 60.0, 120.0] == results(rows, function)
    assert [0.0, 7.5, 37.5] == results(rows, area)


def test_a_month_before_is_counted_by_the_calendar():
    rows = [
        {"t": datetime(2024, month, day), "v": day} for month, day in [(1, 29), (2, 29), (3, 29), (3, 31)]
    ]

    pushed = results(rows, {"$push": "$v", "window": {"range": [-1, 0], "unit": "month"}})

    # A month before the 31st of March is the 29th of February.
    assert [[29], [29, 29], [29, 29], [29, 29, 31]] == pushed


def test_a_mean_passes_over_what_is_no_number_and_keeps_decimals():
    halves = {"$expMovingAvg": {"input": "$v", "alpha": 0.5}}

    assert [4.0, None, 6.0] == results(of_values(4, "x", 8), halves)
    exact = results(of_values(1, Decimal128("2")), {"$expMovingAvg": {"input": "$v", "N": 1}})
    assert [1.0, 2] == [exact[0], float(exact[1].to_decimal())]
    assert isinstance(exact[1], Decimal128)


@pytest.mark.parametrize(
    ("function", "values_", "expected"),
    [
        ("$stdDevPop", [math.inf, 1, 3, 5], [None, None, 1.0, 1.0]),
        ("$stdDevSamp", [math.nan, 1, 3], [None, None, math.sqrt(2)]),
    ],
)
def test_a_deviation_that_slides_is_null_as_long_as_something_endless_is_in_its_window(
    function, values_, expected
):
    given_ = results(of_values(*values_), {function: "$v", "window": {"documents": [-1, 0]}})

    assert all(map(equal, expected, given_)), given_


def test_a_covariance_leaves_endless_pairs_out_until_two_others_are_there():
    rows = [{"t": number, "x": x, "y": 1} for number, x in enumerate([math.inf, 2, 3])]
    function = {"$covariancePop": ["$x", "$y"], "window": {"documents": ["unbounded", "current"]}}

    assert [None, 0.0, math.inf] == results(rows, function)


def test_a_line_is_drawn_between_values():
    assert [None, 0, 1.0, 2.0, 3, None] == results(
        of_values(None, 0, None, None, 3, None), {"$linearFill": "$v"}
    )


def test_a_collation_puts_equal_texts_into_one_partition():
    rows = [{"_id": 1, "p": "a"}, {"_id": 2, "p": "A"}, {"_id": 3, "p": "b"}]
    stage = {"$setWindowFields": {"partitionBy": "$p", "output": {"n": {"$count": {}}}}}

    made = run(stage, rows, Setting(text=str.lower))

    assert [2, 2, 1] == [row["n"] for row in made]


def test_what_is_held_is_bounded():
    stage = {"$setWindowFields": {"output": {"n": {"$count": {}}}}}
    rows = [{"a": "x" * 1_000} for _ in range(100)]

    with pytest.raises(MongoError) as refused:
        run(stage, rows, Setting(max_memory_bytes=10_000))

    assert 292 == refused.value.code


def test_results_are_made_as_documents_are_asked_for():
    """Pushes of growing windows are as large as the square of their number: they are not all held."""
    pipeline = Pipeline(
        [
            {
                "$setWindowFields": {
                    "sortBy": {"t": 1},
                    "output": {"r": {"$push": {"$divide": [1, "$t"]}, "window": {"documents": [0, 0]}}},
                }
            }
        ]
    )

    made = pipeline.run([{"t": 1}, {"t": 2}])

    assert {"t": 1, "r": [1.0]} == next(made)


@given(st.lists(numbers, max_size=9), bounds, st.integers(-3, 3), st.integers(1, 5))
@settings(max_examples=examples(120))
def test_a_scaled_value_lies_between_the_ends_as_it_does_in_its_window(given_, pair, least, width):
    function = {"input": "$v", "min": least, "max": least + width}

    made = results(of_values(*given_), {"$minMaxScaler": function, "window": {"documents": list(pair)}})

    expected = []
    for place, value in enumerate(given_):
        near = [float(row["v"]) for row in naive_window(of_values(*given_), place, "documents", pair)]
        extent = max(near, default=0) - min(near, default=0)
        share = (float(value) - min(near, default=0)) / extent if extent else 0
        expected.append(share * width + least if near else None)
    assert [True] * len(made) == list(map(equal, expected, made))


def test_values_are_scaled_to_0_and_1_unless_it_says_to_what():
    rows = of_values(1, 5, 13, 21)

    assert [0.0, 0.2, 0.6, 1.0] == results(rows, {"$minMaxScaler": "$v"})
    assert [0.0, 0.2, 0.6, 1.0] == results(rows, {"$minMaxScaler": {"$multiply": ["$v", 2]}})
    assert [0.0, 20.0, 60.0, 100.0] == results(rows, {"$minMaxScaler": {"input": "$v", "max": 100}})
    assert [2, 2] == results(of_values(7, 7), {"$minMaxScaler": {"input": "$v", "min": 2, "max": 3}})
    assert [Decimal128("0"), Decimal128("0.5"), Decimal128("1")] == results(
        of_values(Decimal128("0.1"), Decimal128("0.2"), Decimal128("0.3")), {"$minMaxScaler": "$v"}
    )


# --- What is refused ---


def _stage(**options: Any) -> dict[str, Any]:
    return {"$setWindowFields": {"sortBy": {"t": 1}, "output": {}, **options}}


def _output(**function: Any) -> dict[str, Any]:
    return _stage(
        output={"r": {(f"${name}" if name != "window" else name): value for name, value in function.items()}}
    )


def _window(**window: Any) -> dict[str, Any]:
    return _output(sum="$v", window=window)


@pytest.mark.parametrize(
    ("stage", "code"),
    [
        ({"$setWindowFields": 5}, 9),
        ({"$setWindowFields": {}}, 40414),
        (_stage(more=1), 40415),
        (_stage(output=[]), 14),
        (_stage(sortBy=1), 14),
        (_stage(sortBy={"a": 2}), 15975),
        (_stage(sortBy={"a": "asc"}), 15974),
        (_stage(partitionBy=["$a"]), 14),
        (_stage(output={"": {"$sum": 1}}), 40352),
        (_stage(output={"$a": {"$sum": 1}}), 16410),
        (_stage(output={"a": {"$sum": 1}, "a.b": {"$sum": 1}}), 40176),
        (_stage(output={"a": 1}), 9),
        (_stage(output={"a": {"window": {}}}), 9),
        (_stage(output={"a": {"$nope": 1}}), 9),
        (_stage(output={"a": {"$mergeObjects": "$v"}}), 9),
        (_stage(output={"a": {"$sum": 1, "more": 1}}), 9),
        (_stage(output={"a": {"$sum": 1, "$avg": 1}}), 9),
        (_stage(output={"a": {"$sum": {"$nope": 1}}}), 168),
        (_output(sum="$v", window=None), 9),
        (_output(sum="$v", window=[0, 1]), 9),
        (_window(nonsense=[0, 1]), 9),
        (_window(documents=[0, 1], range=[0, 1]), 9),
        (_window(documents=[0, 1], unit="day"), 9),
        (_window(unit="day"), 9),
        (_window(documents=[0]), 9),
        (_window(documents=5), 9),
        (_window(documents=[0, 1, 2]), 9),
        (_window(documents=["first", 0]), 9),
        (_window(documents=[0.5, 1]), 9),
        (_window(documents=[True, 1]), 9),
        (_window(documents=[1, -1]), 5339900),
        (_window(documents=["current", -1]), 5339900),
        (_window(range=[1, 0]), 5339900),
        (_window(range=[None, 0]), 9),
        (_window(range=[0, 1], unit="days"), 9),
        (_window(range=[0, 1], unit=5), 9),
        (_window(range=[0.5, 1], unit="day"), 9),
        (_stage(sortBy=None, output={"r": {"$sum": 1, "window": {"documents": [0, 1]}}}), 5339901),
        (_stage(sortBy=None, output={"r": {"$sum": 1, "window": {"range": [0, 1]}}}), 5339902),
        (_stage(sortBy={"a": 1, "b": 1}, output={"r": {"$sum": 1, "window": {"range": [0, 1]}}}), 5339902),
        (_stage(sortBy={"a": -1}, output={"r": {"$sum": 1, "window": {"range": [0, 1]}}}), 8947401),
        (_output(rank={}, window={}), 5371601),
        (_output(rank={"a": 1}), 5371603),
        (_stage(sortBy=None, output={"r": {"$denseRank": {}}}), 5371602),
        (_stage(sortBy={"a": 1, "b": 1}, output={"r": {"$documentNumber": {}}}), 5371602),
        (_output(shift={"output": "$v", "by": 1}, window={}), 9),
        (_output(shift={"output": "$v"}), 9),
        (_output(shift={"by": 1}), 9),
        (_output(shift={"output": "$v", "by": 1.5}), 9),
        (_output(shift={"output": "$v", "by": 2**31}), 9),
        (_output(shift={"output": "$v", "by": 1, "default": "$v"}), 9),
        (_output(shift={"output": "$v", "by": 1, "more": 1}), 9),
        (_stage(sortBy=None, output={"r": {"$shift": {"output": "$v", "by": 1}}}), 9),
        (_output(expMovingAvg={"input": "$v"}), 9),
        (_output(expMovingAvg={"input": "$v", "N": 2, "alpha": 0.5}), 9),
        (_output(expMovingAvg={"input": "$v", "N": 0}), 9),
        (_output(expMovingAvg={"input": "$v", "N": 1.5}), 9),
        (_output(expMovingAvg={"input": "$v", "alpha": 1}), 9),
        (_output(expMovingAvg={"input": "$v", "N": 2}, window={}), 9),
        (_output(minMaxScaler={}), 9),
        (_output(minMaxScaler={"min": 0}), 9),
        (_output(minMaxScaler={"input": "$v", "more": 1}), 9),
        (_output(minMaxScaler={"input": "$v", "max": "$v"}), 9),
        (_output(minMaxScaler={"input": "$v", "min": "0"}), 9),
        (_output(minMaxScaler={"input": "$v", "min": 1}), 9),
        (_output(derivative={"input": "$v"}), 9),
        (_output(derivative={"input": "$v", "unit": "month"}, window={}), 5490710),
        (_output(derivative={"input": "$v", "unit": "x"}, window={}), 9),
        (_output(integral={"unit": "day"}), 9),
        (_stage(sortBy=None, output={"r": {"$integral": {"input": "$v"}}}), 9),
        (_output(locf="$v", window={}), 9),
        (_output(linearFill="$v", window={}), 9),
        (_stage(sortBy=None, output={"r": {"$linearFill": "$v"}}), 605001),
        (_output(count={"a": 1}), 14),
        (_output(firstN={"input": "$v"}), 5787906),
        (_output(topN={"output": "$v", "sortBy": {"v": 1}}), 5788003),
    ],
    ids=repr,
)
def test_a_stage_that_is_wrong_is_refused_before_a_document_is_read(stage, code):
    with pytest.raises(MongoError) as refused:
        run(stage, [])

    assert code == refused.value.code


@pytest.mark.parametrize(
    ("function", "rows", "code"),
    [
        ({"$sum": 1, "window": {"range": [0, 1]}}, [{"t": "x"}], 5429414),
        ({"$sum": 1, "window": {"range": [0, 1]}}, [{}], 5429414),
        ({"$sum": 1, "window": {"range": [0, 1]}}, [{"t": DAY}], 5429413),
        ({"$sum": 1, "window": {"range": [0, 1], "unit": "day"}}, [{"t": 1}], 5429513),
        ({"$derivative": {"input": "$v"}, "window": {}}, [{"t": DAY, "v": 1}] * 2, 5624901),
        ({"$derivative": {"input": "$v", "unit": "day"}, "window": {}}, [{"t": 1, "v": 1}] * 2, 5624900),
        ({"$derivative": {"input": "$v"}, "window": {}}, [{"t": 1, "v": "x"}] * 2, 5423900),
        ({"$integral": {"input": "$v"}}, [{"t": DAY, "v": 1}], 5423902),
        ({"$integral": {"input": "$v", "unit": "day"}}, [{"t": 1, "v": 1}], 5423901),
        ({"$integral": {"input": "$v"}}, [{"t": 1, "v": None}], 5423900),
        ({"$linearFill": "$v"}, [{"t": "x", "v": 1}], 14),
        ({"$linearFill": "$v"}, [{"t": 1, "v": "x"}], 14),
        ({"$linearFill": "$v"}, [{"t": 1}, {"t": DAY}], 14),
        ({"$linearFill": "$v"}, [{"t": 1}, {"t": 1}], 6050106),
        ({"$firstN": {"n": 0, "input": "$v"}}, [{"t": 1}], 7548606),
        ({"$minMaxScaler": "$v"}, of_values(1, "x"), 14),
        ({"$minMaxScaler": "$v"}, of_values(1, None), 14),
        ({"$minMaxScaler": "$v"}, of_values(1, []), 14),
        ({"$minMaxScaler": "$v"}, [{"t": 1}], 14),
    ],
    ids=repr,
)
def test_documents_that_a_function_cannot_work_with_are_refused(function, rows, code):
    with pytest.raises(MongoError) as refused:
        results(rows, function)

    assert code == refused.value.code


def test_a_partition_is_no_array():
    with pytest.raises(MongoError) as refused:
        windowed([{"a": [1]}], {"n": {"$count": {}}}, partitionBy="$a")

    assert 14 == refused.value.code


# --- $fill and $densify ---


@given(collections(st.integers(0, 30)))
@settings(max_examples=examples(80))
def test_a_fill_is_what_its_window_function_gives_where_nothing_is(rows):
    rows = [row for row in rows if row.get("v") != "x"]
    rows = list({(row["p"], row["t"]): row for row in rows}.values())
    for method, function in (("locf", "$locf"), ("linear", "$linearFill")):
        filled = run(
            {"$fill": {"partitionByFields": ["p"], "sortBy": {"t": 1}, "output": {"v": {"method": method}}}},
            rows,
        )
        made = windowed(rows, {"v": {function: "$v"}}, partitionBy="$p", sortBy={"t": 1})
        assert identical([list(row.items()) for row in made], [list(row.items()) for row in filled])


@pytest.mark.parametrize(
    ("stage", "code"),
    [
        ({"$fill": 5}, 40201),
        ({"$fill": {}}, 40414),
        ({"$fill": {"output": {}, "more": 1}}, 40415),
        ({"$fill": {"output": {"a": {"method": "line"}}}}, 6050202),
        ({"$fill": {"output": {"a": {"method": "linear"}}}}, 605001),
        ({"$fill": {"output": {"a": {"method": "linear"}}, "sortBy": {"a": 1, "b": 1}}}, 605001),
        (
            {"$fill": {"output": {"a": {"value": 1}}, "partitionBy": "$a", "partitionByFields": ["a"]}},
            6050204,
        ),
        ({"$fill": {"output": {"a": {"value": 1}}, "partitionByFields": ["$a"]}}, 16410),
        ({"$densify": 5}, 9),
        ({"$densify": {}}, 40414),
        ({"$densify": {"field": 1}}, 14),
        ({"$densify": {"field": "a"}}, 40414),
        ({"$densify": {"field": "a", "range": 1}}, 14),
        ({"$densify": {"field": "a", "range": {}}}, 40414),
        ({"$densify": {"field": "a", "range": {"bounds": 1, "step": 1}}}, 5733402),
        ({"$densify": {"field": "a", "range": {"bounds": "na", "step": 1}}}, 5946802),
        ({"$densify": {"field": "a", "range": {"bounds": [1], "step": 1}}}, 5733403),
        ({"$densify": {"field": "a", "range": {"bounds": "full"}}}, 40414),
        ({"$densify": {"field": "a", "range": {"bounds": "full", "step": "x"}}}, 14),
        ({"$densify": {"field": "a", "range": {"bounds": "full", "step": 0}}}, 5733401),
        ({"$densify": {"field": "a", "range": {"bounds": "full", "step": 1, "unit": "sec"}}}, 9),
        ({"$densify": {"field": "a", "range": {"bounds": "full", "step": 1.5, "unit": "day"}}}, 6586400),
        ({"$densify": {"field": "a", "range": {"bounds": "partition", "step": 1}}}, 5733408),
        ({"$densify": {"field": "a", "range": {"bounds": [2, 1], "step": 1}}}, 5733402),
        ({"$densify": {"field": "a", "range": {"bounds": [1, DAY], "step": 1}}}, 5733406),
        ({"$densify": {"field": "a", "range": {"bounds": [1, 2], "step": 1.5}}}, 5876900),
        ({"$densify": {"field": "a", "range": {"bounds": [1, 2], "step": 1, "unit": "day"}}}, 5733409),
        (
            {"$densify": {"field": "a", "partitionByFields": ["a"], "range": {"bounds": "full", "step": 1}}},
            8993000,
        ),
    ],
    ids=repr,
)
def test_a_fill_or_a_densify_that_is_wrong_is_refused(stage, code):
    with pytest.raises(MongoError) as refused:
        run(stage, [])

    assert code == refused.value.code


@pytest.mark.parametrize(
    ("value", "unit", "code"), [(DAY, {}, 6053600), ("x", {}, 5733201), (1, {"unit": "day"}, 6053600)]
)
def test_a_densify_refuses_values_of_another_kind(value, unit, code):
    with pytest.raises(MongoError) as refused:
        run({"$densify": {"field": "a", "range": {"bounds": "full", "step": 1, **unit}}}, [{"a": value}])

    assert code == refused.value.code


def test_a_document_in_between_is_of_the_partition_of_the_next_one():
    rows = [{"p": "apple", "a": 0}, {"p": "Apple", "a": 10}]
    stage = {
        "$densify": {"field": "a", "partitionByFields": ["p"], "range": {"step": 5, "bounds": "partition"}}
    }

    made = run(stage, rows, Setting(text=str.lower))

    assert [{"p": "apple", "a": 0}, {"p": "Apple", "a": 5}, {"p": "Apple", "a": 10}] == made


def test_partitions_of_a_densify_follow_each_other_in_order():
    rows = [{"p": "b", "a": 0}, {"p": "b", "a": 2}, {"p": "B", "a": 1}]
    stage = {
        "$densify": {"field": "a", "partitionByFields": ["p"], "range": {"step": 1, "bounds": "partition"}}
    }

    assert [("B", 1), ("b", 0), ("b", 1), ("b", 2)] == [(one["p"], one["a"]) for one in run(stage, rows)]
