"""Small scenarios, recorded on a real RethinkDB server and replayed: answers are equal, or listed here with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dialects.rethinkdb.acceptance import FOLDER
from tests.dialects.rethinkdb.acceptance.deviations import deviations
from tests.dialects.rethinkdb.acceptance.probes import read, replay

ORDER = "tables are read in the order of their keys; RethinkDB reads them in the order of hashes"
AFTER_LIMIT = (
    "a filter after a limit is refused, as every transformation there; RethinkDB moves it before the limit"
)
UNION_NOTE = "a union says that it tells states, as every other feed does"
NO_INDEX = "a missing index is an error at once; RethinkDB's feed stays silent"
SYSTEM = "the system's tables are computed: they can be read, not watched nor written"
NO_CODE = "there is no JavaScript engine, and nothing is fetched from elsewhere"
HELD_BACK = "every event is passed on when it comes; RethinkDB holds some back until the next"
IS_EMPTY = "is_empty of a feed answers false at once; RethinkDB waits for the first event"
COPIES = "squashing keeps the copies of a document apart, as they are told without it"
PLACES = "a document with several entries moves entry by entry; both ways lead to the same list"
LIMIT_QUEUE = "the queue of a limit feed is bounded as any other"
OVERFLOW = "the earliest changes are discarded and the newest stay; RethinkDB throws all of them away"
DROPPED = "the manual's sentence for a dropped table"
PENDING = "what was pending is told before the error"
INDEX_GONE = "a feed whose index is dropped or renamed ends with an error; RethinkDB's goes silent"
SNAPSHOT = "initial values are one snapshot, in order: changes come after them, and none is mixed in"
SCRATCH = "feeds of the system's scratch table are like any other; RethinkDB looks at it once in a while and skips steps"

DIFFERENT = {
    "before.019 t.nth(0)": ORDER,
    "before.020 t[0]": ORDER,
    "before_init.020 t[0]": ORDER,
    "before_init.082 t.filter(lambda d: d['nope'] > 1, default=r.error())": ORDER,
    "before_init.097 t.map(lambda d: d['nope'])": ORDER,
    "before.037 t.order_by(index='a').limit(2).filter(lambda d: d['a'] > 1)": AFTER_LIMIT,
    "before_init.037 t.order_by(index='a').limit(2).filter(lambda d: d['a'] > 1)": AFTER_LIMIT,
    "before.038 t.order_by(index='a').limit(2).filter({'b':'x'})": AFTER_LIMIT,
    "before_init.122 t.union(t)": UNION_NOTE,
    "before_init.209 t.filter({'a':1}).union(t.get_all(2))": UNION_NOTE,
    "union.same": UNION_NOTE,
    "union.limits": UNION_NOTE,
    "union.of_feeds": UNION_NOTE,
    "m.union.include_states=True, include_types=True": UNION_NOTE,
    "m.union.include_initial=True, include_states=True, include_types=True": UNION_NOTE,
    "m.union_limit.include_states=True": UNION_NOTE,
    "m.union_limit.include_states=True, include_types=True": UNION_NOTE,
    "m.union_limit.include_initial=False, include_states=True": UNION_NOTE,
    "m.union_limit.include_initial=False, include_states=True, include_types=True": UNION_NOTE,
    "before.147 t.get_all(1, index='nope')": NO_INDEX,
    "before.215 r.db('rethinkdb').table('table_config').filter({'name':'probe'}).pluck('name')": SYSTEM,
    "before_init.215 r.db('rethinkdb').table('table_config').filter({'name':'probe'}).pluck('name')": SYSTEM,
    "before.224 r.js('[1]')": NO_CODE,
    "before_init.224 r.js('[1]')": NO_CODE,
    "before.225 r.http('http://127.0.0.1:1/')": NO_CODE,
    "after.36 .map(r.range(), lambda c, n: [c['new_val'], n])": HELD_BACK,
    "after.56 .union(t.changes(), interleave=False)": HELD_BACK,
    "after.60 .eq_join(lambda c: c['new_val']['id'], t).zip()": HELD_BACK,
    "after.64 .is_empty()": IS_EMPTY,
    "nest.09 t.filter(lambda d: t.changes().is_empty())": IS_EMPTY,
    "multi.squash": COPIES,
    "limit.multi_index": PLACES,
    "limit.queue_size": LIMIT_QUEUE,
    "overflow.one": OVERFLOW,
    "overflow.partial": OVERFLOW,
    "overflow.size1": OVERFLOW,
    "overflow.squash": OVERFLOW,
    "overflow.point": OVERFLOW,
    "overflow.runopt": OVERFLOW,
    "overflow.initial": OVERFLOW,
    "q.overflow.initial": OVERFLOW,
    "drop.table.0 t.changes()": DROPPED,
    "drop.table.1 t.get(1).changes()": DROPPED,
    "drop.table.2 t.between(1,3).changes()": DROPPED,
    "drop.table.3 t.order_by(index='a').limit(2).changes()": DROPPED,
    "drop.table.4 t.get_all(1,index='a').changes()": DROPPED,
    "drop.table.8 t.changes(include_initial=True, include_states=True)": DROPPED,
    "drop.table.pending": PENDING,
    "drop.index.0 t.get_all(1,index='a').changes()": INDEX_GONE,
    "drop.index.1 t.between(1,3,index='a').changes()": INDEX_GONE,
    "drop.index.3 t.order_by(index='a').changes()": INDEX_GONE,
    "rename.index.0 t.get_all(1,index='a').changes()": INDEX_GONE,
    "rename.index.1 t.between(1,3,index='a').changes()": INDEX_GONE,
    "rename.index.2 t.order_by(index='a').limit(2).changes()": INDEX_GONE,
    "init.squash": SNAPSHOT,
    "q.init.index.move": SNAPSHOT,
    "q.init.pk.swap_back": SNAPSHOT,
    "virtual.scratch": SCRATCH,
}

PROBES = read()


@pytest.mark.skipif(bool(PROBES), reason="the recordings are there")
def test_the_recordings_are_absent() -> None:
    pytest.skip(f"the recorded probes are not at {FOLDER}")


@pytest.mark.parametrize("probe", PROBES, ids=[probe["id"] for probe in PROBES])
def test_a_scenario_goes_as_recorded(probe: dict[str, Any]) -> None:
    """Or it is listed, and then it differs in exactly what is kept: another difference beside it is a fault as anywhere."""
    assert deviations().get(probe["id"], {}) == replay(probe)


def test_every_listed_difference_is_a_recorded_scenario_and_has_a_reason() -> None:
    if PROBES:
        assert set(DIFFERENT) <= {probe["id"] for probe in PROBES}
    assert set(deviations()) == set(DIFFERENT)


def test_a_second_difference_in_a_scenario_is_seen() -> None:
    """Steps after the first difference are compared too."""
    probe = {
        "id": "made up",
        "steps": [
            {"run": "r.expr(1)", "result": {"kind": "atom", "value": 2}},
            {"run": "r.expr(1)", "result": {"kind": "atom", "value": 1}},
            {"run": "r.expr(5)", "result": {"kind": "atom", "value": 6}},
        ],
    }

    assert {
        "step 0": {"kind": "atom", "value": 1},
        "step 2": {"kind": "atom", "value": 5},
    } == replay(probe)
