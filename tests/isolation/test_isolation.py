"""The checker of isolation is shown right and wrong histories, then those of the database.

Long: `python -m tests.isolation`.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reactdb
from tests.isolation.checker import find_anomalies
from tests.isolation.history import (
    ABORTED,
    COMMITTED,
    DOUBT,
    SERIALIZABLE,
    SNAPSHOT,
    Append,
    Read,
    Transaction,
)

ROOT = Path(__file__).resolve().parents[2]


def a(key: str, value: str) -> Append:
    return Append(key, value)


def r(key: str, *values: str) -> Read:
    return Read(key, values)


def t(
    name: str,
    *operations: Read | Append,
    state: str = COMMITTED,
    promise: str = SNAPSHOT,
    at: tuple[int, int] = (0, 1_000),
) -> Transaction:
    """A transaction; by default at the same time as all others."""
    return Transaction(name, promise, operations, state, *at)


def names_of(history: list[Transaction]) -> set[str]:
    return {anomaly.name for anomaly in find_anomalies(history)}


def all_serializable(history: list[Transaction]) -> list[Transaction]:
    return [dataclasses.replace(one, promise=SERIALIZABLE) for one in history]


# ---------------------------------------------------------------------------------------------------------------
# Wrong histories: each with all anomalies that it has

WRONG: dict[str, tuple[set[str], list[Transaction]]] = {
    "a value of an aborted transaction was read": (
        {"G1a"},
        [t("one", a("x", "1"), state=ABORTED), t("two", r("x", "1"))],
    ),
    "an aborted transaction has read what another aborted one wrote": (
        {"G1a"},
        [t("one", a("x", "1"), state=ABORTED), t("two", r("x", "1"), state=ABORTED)],
    ),
    "a value in the middle of a transaction was read": (
        {"G1b", "G-single"},
        [t("one", a("x", "1"), a("x", "2")), t("two", r("x", "1")), t("three", r("x", "1", "2"))],
    ),
    "half of a transaction is there at the end": (
        {"G1b", "lost append"},
        [t("one", a("x", "1"), a("x", "2"), at=(0, 1)), t("two", r("x", "2"), at=(2, 3))],
    ),
    "an append stands on one that was aborted": (
        {"G1a", "dirty update"},
        [t("one", a("x", "1"), state=ABORTED), t("two", a("x", "2")), t("three", r("x", "1", "2"))],
    ),
    "an acknowledged append is not there": (
        {"lost append", "G-single-realtime"},
        [t("one", a("x", "1"), at=(0, 1)), t("two", r("x"), at=(2, 3))],
    ),
    "two transactions have read the same list, and both have appended": (
        {"lost update", "G-single"},
        [
            t("one", r("x"), a("x", "1")),
            t("two", r("x"), a("x", "2")),
            t("three", r("x", "1", "2")),
        ],
    ),
    "an append was made twice": ({"duplicate append"}, [t("one", a("x", "1")), t("two", r("x", "1", "1"))]),
    "a value was appended by nobody": ({"unknown value"}, [t("one", r("x", "1"))]),
    "two reads give two orders": (
        {"incompatible order"},
        [t("one", a("x", "1")), t("two", a("x", "2")), t("three", r("x", "1")), t("four", r("x", "2", "1"))],
    ),
    "a transaction does not read its own append": ({"internal"}, [t("one", a("x", "1"), r("x"))]),
    "a transaction reads two states of a list": (
        {"internal"},
        [t("one", a("x", "1")), t("two", r("x"), r("x", "1"))],
    ),
    "a transaction reads what it has not yet appended": ({"internal"}, [t("one", r("x", "1"), a("x", "1"))]),
    "two transactions have written in two orders": (
        {"G0"},
        [
            t("one", a("x", "1"), a("y", "1")),
            t("two", a("x", "2"), a("y", "2")),
            t("three", r("x", "1", "2")),
            t("four", r("y", "2", "1")),
        ],
    ),
    "two transactions have each read what the other wrote": (
        {"G1c"},
        [t("one", a("x", "1"), r("y", "1")), t("two", a("y", "1"), r("x", "1"))],
    ),
    "a transaction has read half of another one": (
        {"G-single"},
        [t("one", a("x", "1"), a("y", "1")), t("two", r("x", "1"), r("y")), t("three", r("y", "1"))],
    ),
    "a transaction in doubt has come in half": (
        {"G-single"},
        [t("one", a("x", "1"), a("y", "1"), state=DOUBT), t("two", r("x", "1"), r("y"))],
    ),
    "two readers have seen two writers in two orders": (
        {"G-nonadjacent"},
        [
            t("one", a("x", "1")),
            t("two", a("y", "1")),
            t("three", r("x", "1"), r("y")),
            t("four", r("x"), r("y", "1")),
        ],
    ),
    "serializable transactions have a write skew": (
        {"G2-item"},
        [
            t("one", r("x"), a("y", "1"), promise=SERIALIZABLE),
            t("two", r("y"), a("x", "1"), promise=SERIALIZABLE),
            t("three", r("x", "1"), r("y", "1"), promise=SERIALIZABLE),
        ],
    ),
    "a write skew of three has a serializable transaction wherever two reads meet": (
        {"G2-item"},
        [
            t("one", r("x"), a("z", "1"), promise=SERIALIZABLE),
            t("two", r("y"), a("x", "1"), promise=SERIALIZABLE),
            t("three", r("z"), a("y", "1"), promise=SERIALIZABLE),
        ],
    ),
    "a read does not see what was acknowledged before it began": (
        {"G-single-realtime"},
        [
            t("one", a("x", "1"), at=(0, 1)),
            t("two", r("x"), at=(2, 3)),
            t("three", r("x", "1"), at=(4, 5)),
        ],
    ),
    "a write comes before another that was acknowledged before it began": (
        {"G0-realtime"},
        [
            t("one", a("x", "1"), at=(0, 1)),
            t("two", a("x", "2"), at=(2, 3)),
            t("three", r("x", "2", "1"), at=(2, 9)),
        ],
    ),
    "a transaction has read one that began after it": (
        {"G1c-realtime"},
        [t("one", r("x", "1"), at=(0, 1)), t("two", a("x", "1"), at=(2, 3))],
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_each_anomaly_is_found_by_its_name(what):
    names, history = WRONG[what]

    assert names == names_of(history)
    assert names == names_of(history[::-1])


@pytest.mark.parametrize("what", WRONG)
def test_an_anomaly_names_its_transactions(what):
    _, history = WRONG[what]
    names = {one.name for one in history}

    for anomaly in find_anomalies(history):
        assert anomaly.transactions
        assert set(anomaly.transactions) <= names
        assert all(name in anomaly.sentence for name in anomaly.transactions if anomaly.name != "lost update")


def test_a_history_with_a_value_twice_cannot_be_judged():
    with pytest.raises(ValueError, match="1 was appended twice to x"):
        find_anomalies([t("one", a("x", "1")), t("two", a("x", "1"))])


# ---------------------------------------------------------------------------------------------------------------
# Right histories

WRITE_SKEW = [
    t("one", r("x"), a("y", "1")),
    t("two", r("y"), a("x", "1")),
    t("three", r("x", "1"), r("y", "1")),
]

RIGHT: dict[str, list[Transaction]] = {
    "nothing": [],
    "own appends are read": [t("one", a("x", "1"), r("x", "1"), a("x", "2"), r("x", "1", "2"))],
    "what was aborted is not there": [t("one", a("x", "1"), state=ABORTED), t("two", r("x"))],
    "a transaction that was aborted has read its own appends": [
        t("one", a("x", "1"), r("x", "1"), state=ABORTED),
        t("two", r("x")),
    ],
    "what is in doubt is there": [
        t("one", a("x", "1"), a("y", "1"), state=DOUBT),
        t("two", r("x", "1"), r("y", "1")),
    ],
    "what is in doubt is not there": [t("one", a("x", "1"), state=DOUBT), t("two", r("x"))],
    "what is in doubt comes later": [
        t("one", a("x", "1"), state=DOUBT, at=(0, 1)),
        t("two", r("x"), at=(2, 3)),
        t("three", r("x", "1"), at=(4, 5)),
    ],
    "a snapshot is older than what was committed meanwhile": [
        t("one", r("x"), a("y", "1"), at=(0, 9)),
        t("two", a("x", "1"), at=(2, 3)),
        t("three", r("x", "1"), r("y"), at=(4, 5)),
    ],
    "transactions with snapshots have a write skew": WRITE_SKEW,
    "of a write skew, one is serializable": [
        dataclasses.replace(WRITE_SKEW[0], promise=SERIALIZABLE),
        *WRITE_SKEW[1:],
    ],
}


@pytest.mark.parametrize("what", RIGHT)
def test_a_right_history_passes(what):
    assert [] == find_anomalies(RIGHT[what])


Plans = list[tuple[str, str, list[tuple[bool, str]]]]
PLANS: st.SearchStrategy[Plans] = st.lists(
    st.tuples(
        st.sampled_from([SERIALIZABLE, SNAPSHOT]),
        st.sampled_from([COMMITTED, ABORTED, DOUBT, "lost in doubt"]),
        st.lists(st.tuples(st.booleans(), st.sampled_from("xyz")), max_size=5),
    ),
    max_size=12,
)


class Lists:
    """A store with snapshot isolation, in a few lines."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[str, ...]] = dict.fromkeys("xyz", ())

    def begin(self) -> dict[str, tuple[str, ...]]:
        return dict(self.values)

    def commit(self, began: dict[str, tuple[str, ...]], own: dict[str, tuple[str, ...]]) -> bool:
        if any(self.values[key] != began[key] for key in own):
            return False
        self.values.update({key: began[key] + values for key, values in own.items()})
        return True


def carried_out(
    store: Lists, name: str, operations: list[tuple[bool, str]], began: dict[str, tuple[str, ...]]
) -> tuple[list[Read | Append], dict[str, tuple[str, ...]]]:
    done: list[Read | Append] = []
    own: dict[str, tuple[str, ...]] = {}
    for number, (is_append, key) in enumerate(operations):
        if is_append:
            done.append(a(key, f"{name}.{number}"))
            own[key] = (*own.get(key, ()), f"{name}.{number}")
        else:
            done.append(r(key, *began[key], *own.get(key, ())))
    return done, own


@given(PLANS)
def test_a_serial_history_always_passes(plans):
    store = Lists()
    history = []
    for number, (promise, state, operations) in enumerate(plans):
        began = store.begin()
        done, own = carried_out(store, str(number), operations, began)
        if state in (COMMITTED, DOUBT):
            store.commit(began, own)
        state = DOUBT if state == "lost in doubt" else state
        history.append(t(str(number), *done, promise=promise, state=state, at=(10 * number, 10 * number + 5)))
    last = t("last", *(r(key, *store.values[key]) for key in "xyz"), at=(1_000, 1_001))

    assert [] == find_anomalies([*history, last])


@given(PLANS, st.randoms(use_true_random=False))
def test_a_history_of_snapshots_with_conflicts_always_passes(plans, chance: Random):
    store = Lists()
    history = []
    # Each transaction has two moments, and a serializable one has them together.
    moments = [(chance.random(), chance.random()) for _ in plans]
    steps = []
    for number, ((promise, _, _), both) in enumerate(zip(plans, moments, strict=True)):
        first, second = sorted(both)
        steps += [(first, False, number), (first if promise == SERIALIZABLE else second, True, number)]
    began: dict[int, Any] = {}
    for place, (_, is_commit, number) in enumerate(sorted(steps)):
        if not is_commit:
            began[number] = (place, store.begin())
            continue
        promise, state, operations = plans[number]
        start, seen = began[number]
        done, own = carried_out(store, str(number), operations, seen)
        if state in (COMMITTED, DOUBT) and not store.commit(seen, own):
            state = ABORTED
        state = DOUBT if state == "lost in doubt" else state
        history.append(t(str(number), *done, promise=promise, state=state, at=(start, place)))
    last = t("last", *(r(key, *store.values[key]) for key in "xyz"), at=(1_000, 1_001))

    assert [] == find_anomalies([*history, last])


# ---------------------------------------------------------------------------------------------------------------
# The database


@pytest.fixture
def path(tmp_path: Path) -> Path:
    pytest.importorskip("pymongo")
    from tests.isolation.workload import prepare

    prepare(tmp_path / "lists.db")
    return tmp_path / "lists.db"


def interleaved(path: Path, face: str) -> Iterator[list[Transaction]]:
    """Two transactions of MongoDB's that are open at once: each reads what the other appends to, and both append to one list."""
    from pymongo import MongoClient

    from reactdb.servers.mongodb import serve_in_thread
    from tests.isolation.workload import MongoDB, Plan, Recorder

    with reactdb.connect(path) as db, serve_in_thread(db) as server, MongoClient[Any](server.uri) as socket:
        client = reactdb.mongodb(db) if face == "inside" else socket
        one, two = (Recorder(MongoDB(client, face), name) for name in ("one", "two"))
        # The second moves while the first is open.
        with MongoDB(client, face).transaction() as statements:
            one.do(statements, "read", "group0.0")
            one.do(statements, "read", "group0.1")
            middle = two.carry_out(Plan((("read", "group0.0"), ("read", "group0.1"), ("append", "group0.0"))))
            one.do(statements, "read", "group0.0")
            one.do(statements, "append", "group0.1")
        done = [one.noted(COMMITTED, 0), middle]
        last = Recorder(MongoDB(client, face), "last").carry_out(Plan((("read all", "group0"),)))
        yield [*done, last]


@pytest.mark.parametrize("face", ["inside", "socket"])
def test_write_skew_is_what_mongodbs_transactions_are_not_kept_from(path, face):
    (history,) = interleaved(path, face)

    assert [COMMITTED] * 3 == [one.state for one in history]
    assert [] == find_anomalies(history)
    assert {"G2-item"} == names_of(all_serializable(history))


def test_transactions_that_read_the_newest_state_are_noticed(path, monkeypatch):
    from reactdb.dialects.mongodb.transactions import Transaction as OfMongoDB

    as_of = OfMongoDB._as_of

    def as_of_now(self: Any, now: Any) -> Any:
        self._seq = self._undo = None
        return as_of(self, now)

    monkeypatch.setattr(OfMongoDB, "_as_of", as_of_now)
    (history,) = interleaved(path, "inside")

    assert {"internal"} <= names_of(history)


def test_transactions_without_conflicts_are_noticed(path, monkeypatch):
    from reactdb.dialects.mongodb import transactions
    from tests.isolation.workload import MongoDB, Plan, Recorder

    with reactdb.connect(path) as db:
        face = MongoDB(reactdb.mongodb(db), "inside")
        history = [Recorder(face, "zero").carry_out(Plan((("append", "group0.0"),)))]
        one = Recorder(face, "one")
        with face.transaction() as statements:
            one.do(statements, "read", "group0.0")
            history.append(Recorder(face, "two").carry_out(Plan((("append", "group0.0"),))))
            one.do(statements, "read", "group0.0")
            # From here on nobody has changed anything.
            monkeypatch.setattr(transactions.Undo, "one", lambda *_: (False, None))
            one.do(statements, "append", "group0.0")
        history.append(one.noted(COMMITTED, history[0].ended))
        history.append(Recorder(face, "three").carry_out(Plan((("read", "group0.0"),))))

    assert {"lost update", "G-single"} <= names_of(history)


def test_a_transaction_is_in_doubt_until_its_commit_is_acknowledged(path):
    from tests.isolation.workload import MongoDB, MongoDBStatements, Native, Plan, Recorder

    append, give_up = Plan((("append", "group0.0"),)), Plan((("append", "group0.0"),), gives_up=True)
    with reactdb.connect(path) as db:
        client = reactdb.mongodb(db)
        for face in (Native(db), MongoDB(client, "mongodb"), MongoDBStatements(client, "statements")):
            notes: list[Transaction] = []
            Recorder(face, face.name, notes.append).carry_out(append)

            assert [DOUBT, COMMITTED] == [one.state for one in notes][-2:]
            assert all(one.operations == notes[-1].operations for one in notes)

        notes = []
        Recorder(Native(db), "given-up", notes.append).carry_out(give_up)
        assert [ABORTED] == [one.state for one in notes]


def test_threads_of_all_faces_keep_their_promises(tmp_path):
    pytest.importorskip("pymongo")
    from tests.isolation.workload import run_round

    history = run_round(tmp_path / "lists.db", seed=1, count=20, processes=0)

    assert [] == find_anomalies(history)
    assert 6 * 20 + 1 == len(history)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.isolation", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=280,
    )


@pytest.mark.slow
def test_processes_with_all_faces_keep_their_promises():
    pytest.importorskip("pymongo")
    found = run("--rounds", "2", "--seed", "3")

    assert 0 == found.returncode, found.stdout + found.stderr
    assert "2 rounds" in found.stdout
