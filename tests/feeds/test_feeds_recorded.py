"""What a real RethinkDB told, write by write, against what these feeds tell.

Three recorded runs: 24 feeds open at once, hundreds of random writes, every feed's notifications after every write. A write of
one document must give the same events in the same order; of several, where the server promises no order, the same result.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb import r, row
from reactdb.values.codec import encode_value

ACCEPTANCE = (
    Path(__file__).resolve().parent.parent.parent.parent / "shared" / "acceptance" / "rethinkdb" / "fuzz"
)
ORDERED = ("lim_", "min_", "max_")
# A Python function cannot be what ReQL makes of a lambda: True + 1 is an error there.
SPELLINGS = {"map_arith": "t.map(row['s'] + 1)"}

pytestmark = pytest.mark.skipif(
    not ACCEPTANCE.is_dir(), reason="the recordings of a real server are not here"
)


def canonical(value: Any) -> Any:
    """A value in which the order of keys is nothing; whole floats are ints, as in JSON."""
    if isinstance(value, dict):
        return {key: canonical(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [canonical(inner) for inner in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def bag(values: list[Any]) -> list[bytes]:
    return sorted(encode_value(canonical(value)) for value in values)


class Result:
    """A result that is kept by applying events to it: a list by offsets, or how often each value is there."""

    def __init__(self, *, is_ordered: bool) -> None:
        self.is_ordered = is_ordered
        self.values: list[Any] = []
        self.counts: Counter[bytes] = Counter()

    def apply(self, event: dict[str, Any]) -> None:
        if "state" in event:
            return
        if self.is_ordered:
            if event.get("old_offset") is not None:
                assert canonical(self.values.pop(event["old_offset"])) == canonical(event["old_val"])
            if event["new_offset"] is not None:
                self.values.insert(event["new_offset"], event["new_val"])
            return
        for name, step in (("old_val", -1), ("new_val", 1)):
            if event.get(name) is not None:
                self.counts[encode_value(canonical(event[name]))] += step

    def now(self) -> Any:
        if self.is_ordered:
            return [canonical(value) for value in self.values]
        return {value: count for value, count in self.counts.items() if count}


@pytest.mark.parametrize("name", ["seed1_num", "seed2_mixed", "seed3_single"])
def test_a_recorded_run_is_told_alike(name):
    trace = json.loads((ACCEPTANCE / f"{name}.json").read_text())
    with reactdb.connect(":memory:") as db:
        t = db.table_create("fz")
        for index, options in trace["indexes"].items():
            t.index_create(index, **options)
        t.insert(trace["initial_docs"])
        scope = {"t": t, "r": r, "row": row}
        ours: dict[str, list[Any]] = {}
        results = {}
        theirs = {}
        for feed, spec in trace["queries"].items():
            ours[feed] = []
            query = eval(SPELLINGS.get(feed, spec["query"]), scope)
            query.changes(**eval(f"dict({spec['options']})")).subscribe(ours[feed].append, ours[feed].append)
            is_ordered = feed.startswith(ORDERED) and "include_offsets" in spec["options"]
            results[feed], theirs[feed] = Result(is_ordered=is_ordered), Result(is_ordered=is_ordered)
        check(ours, trace["start"], results, theirs, is_one=False, what="start")
        for number, step in enumerate(trace["steps"]):
            with suppress(reactdb.ReactDBError):
                # Where ReQL counts an error, a native write raises; nothing was written either way.
                eval(step["op"], scope)
            summary = step["result"]
            written = sum(summary[counter] for counter in ("deleted", "inserted", "replaced"))
            check(ours, step["feeds"], results, theirs, is_one=written <= 1, what=f"{number}: {step['op']}")


def check(
    ours: dict[str, list[Any]],
    recorded: dict[str, list[Any]],
    results: dict[str, Result],
    theirs: dict[str, Result],
    *,
    is_one: bool,
    what: str,
) -> None:
    for feed, events in ours.items():
        expected = recorded.get(feed, [])
        if is_one and feed != "lim_multi":
            # Nothing orders the places of one document, its copies, or the members of a union among themselves.
            assert bag(expected) == bag(events), (what, feed, expected, events)
        for event in events:
            results[feed].apply(event)
        for event in expected:
            theirs[feed].apply(event)
        assert theirs[feed].now() == results[feed].now(), (what, feed)
        events.clear()
