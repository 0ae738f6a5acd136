"""A table is dropped, renamed or made again, while somebody follows all tables. Applied in order, what is told gives what asking
again gives.

`Mirror` applies events of documents and knows nothing of tables. It is strict: what goes must be there, and as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb.session import session_of
from reactdb.testing import Recorder
from tests.support.processes import another_process
from tests.support.scaling import examples
from tests.support.threads import PATIENCE_S

Documents = dict[str, dict[Any, Any]]


class Mirror:
    """Every document of every table, by the events of a feed of all tables."""

    def __init__(self, documents: Documents | None = None) -> None:
        self.tables: Documents = {name: dict(rows) for name, rows in (documents or {}).items()}

    def apply(self, event: dict[str, Any]) -> None:
        assert {"table", "old_val", "new_val"} <= set(event), event
        rows = self.tables.setdefault(event["table"], {})
        old, new = event["old_val"], event["new_val"]
        if old is not None:
            assert rows.pop(old["id"]) == old
        if new is not None:
            assert new["id"] not in rows
            rows[new["id"]] = new

    def apply_all(self, events: list[dict[str, Any]]) -> None:
        for event in events:
            self.apply(event)

    @property
    def documents(self) -> Documents:
        return {name: rows for name, rows in self.tables.items() if rows}


def documents_of(db: Any) -> Documents:
    found = {name: {one["id"]: one for one in db.table(name)} for name in db.table_list()}
    return {name: rows for name, rows in found.items() if rows}


def rename(db: Any, old: str, new: str) -> None:
    info = session_of(db).info(old)
    session_of(db).transact(lambda transaction: transaction.rename_table(info, new))


# ---------------------------------------------------------------------------------------------------------------
# What is done to tables


def drop(db: Any) -> None:
    db.table_drop("games")


def drop_and_make_again(db: Any) -> None:
    db.table_drop("games")
    db.table_create("games").insert([{"id": 1, "n": "new"}, {"id": 9}])


def drop_and_make_again_with_another_key(db: Any) -> None:
    db.table_drop("games")
    db.table_create("games", primary_key="name").insert({"name": 1, "id": 1})


def a_transaction_that_writes_before_and_after(db: Any) -> None:
    with db.transaction():
        db.table("games").insert({"id": 7})
        db.table("games").get(1).update({"n": 100})
        db.table("games").get(2).delete()
        db.table_drop("games")
        db.table_create("games").insert({"id": 7, "n": "new"})
        db.table("others").insert({"id": 7})


def two_in_one_transaction(db: Any) -> None:
    with db.transaction():
        db.table_drop("games")
        db.table_create("games").insert({"id": 1})
        db.table_drop("games")
        db.table_drop("others")


def an_empty_one(db: Any) -> None:
    db.table("games").delete()
    db.table_drop("games")


def a_rename(db: Any) -> None:
    rename(db, "games", "matches")
    db.table("matches").get(1).update({"n": 5})
    db.table("matches").get(2).delete()


def two_renames_and_a_drop(db: Any) -> None:
    rename(db, "games", "matches")
    db.table("matches").insert({"id": 8})
    rename(db, "matches", "rounds")
    db.table("rounds").get(8).delete()
    db.table_create("games").insert({"id": 1, "n": "new"})
    db.table_drop("rounds")


def two_tables_that_change_their_names(db: Any) -> None:
    with db.transaction():
        db.table("games").get(1).update({"n": 5})
        rename(db, "games", "between")
        rename(db, "others", "games")
        rename(db, "between", "others")
        db.table("others").get(1).update({"n": 6})


def a_view_that_is_built_anew(db: Any) -> None:
    db.materialize(db.table("games").count(), into="games.count").close()
    db.materialize(db.table("games").sum("n"), into="games.count", rebuild=True).drop()


def what_is_taken_back(db: Any) -> None:
    with pytest.raises(ZeroDivisionError), db.transaction():
        db.table_drop("games")
        raise ZeroDivisionError


STEPS: list[Callable[[Any], None]] = [
    drop,
    drop_and_make_again,
    drop_and_make_again_with_another_key,
    a_transaction_that_writes_before_and_after,
    two_in_one_transaction,
    an_empty_one,
    a_rename,
    two_renames_and_a_drop,
    two_tables_that_change_their_names,
    a_view_that_is_built_anew,
    what_is_taken_back,
]


@pytest.fixture(params=STEPS, ids=lambda step: step.__name__)
def step(request: Any) -> Any:
    return request.param


def fill(db: Any) -> None:
    db.table_create("games").insert([{"id": number, "n": number} for number in range(4)])
    db.table_create("others").insert({"id": 1, "n": "other"})


@pytest.fixture
def filled() -> Iterator[Any]:
    with reactdb.connect(":memory:") as db:
        fill(db)
        yield db


# ---------------------------------------------------------------------------------------------------------------
# Feeds


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"squash": True},
        {"include_types": True, "include_seq": True, "include_origin": True, "include_commit": True},
        {"changefeed_queue_size": 1, "on_overflow": "spill"},
    ],
    ids=str,
)
def test_a_mirror_of_all_tables_has_what_is_there(filled, step, options):
    mirror = Mirror(documents_of(filled))
    ear = Recorder(filled.changes(**options))
    step(filled)

    mirror.apply_all(ear.events)
    assert mirror.documents == documents_of(filled)
    assert ear.errors == []


def test_squashed_over_all_that_happened_it_has_what_is_there(filled, step):
    mirror = Mirror(documents_of(filled))
    with filled.changes(squash=True).cursor() as cursor:
        filled.table("games").insert({"id": 6})
        step(filled)
        mirror.apply_all(list_of(cursor))

    assert mirror.documents == documents_of(filled)


def test_whole_commits_have_what_is_there_after_each(filled, step):
    mirror = Mirror(documents_of(filled))
    ear = Recorder(filled.changes(batches=True, include_seq=True, include_commit=True))
    step(filled)

    for batch in ear.events:
        mirror.apply_all(batch)
        assert 1 == len({event["commit"] for event in batch})
        assert mirror.documents == documents_of(filled.at(batch[-1]["seq"]))
    assert mirror.documents == documents_of(filled)


def test_a_mirror_goes_on_from_every_position(filled, step):
    before = filled.seq
    step(filled)

    for seq in range(filled.seq + 1):
        mirror = Mirror(documents_of(filled.at(seq)))
        with filled.changes(since=seq).cursor() as cursor:
            mirror.apply_all(list_of(cursor))
        assert mirror.documents == documents_of(filled), seq
    assert before <= filled.seq


def test_from_the_log_it_is_told_as_it_was_told_live(filled, step):
    before = filled.seq
    live = Recorder(filled.changes(include_seq=True))
    step(filled)

    with filled.changes(since=before, include_seq=True).cursor() as cursor:
        assert live.events == list_of(cursor)


def test_a_token_in_the_middle_of_a_dropped_table_leads_to_all_its_documents(filled):
    with filled.changes().cursor() as cursor:
        filled.table_drop("games")
        first = cursor.next(timeout=PATIENCE_S)
        token = cursor.token
        list_of(cursor)
        end = cursor.token
    with filled.changes(since=token).cursor() as again:
        assert [first, 4] == [again.next(timeout=PATIENCE_S), 1 + len(list_of(again))]
    with filled.changes(since=end).cursor() as nothing:
        assert [] == list_of(nothing)


def test_a_mirror_that_begins_with_the_documents_goes_on_from_there(filled, step):
    mirror = Mirror()
    ear = Recorder(filled.changes(include_initial=True))
    step(filled)

    mirror.apply_all([{"old_val": None, **event} for event in ear.events])
    assert mirror.documents == documents_of(filled)


@pytest.mark.parametrize(
    "step", [drop_and_make_again, two_renames_and_a_drop, two_tables_that_change_their_names]
)
def test_another_process_tells_the_same(path: Path, step):
    with reactdb.connect(path, durability="soft") as db, another_process(path) as other:
        fill(db)
        mirror = Mirror(documents_of(db))
        with other.changes(include_seq=True).cursor() as cursor:
            step(db)
            db.table_create("end").insert({"id": "end"})
            while "end" not in mirror.documents:
                mirror.apply(cursor.next(timeout=PATIENCE_S))
        assert mirror.documents == documents_of(db)


def test_the_events_are_those_of_deletions(filled):
    ear = Recorder(filled.changes(include_types=True))
    filled.table_drop("others")

    assert [
        {"table": "others", "old_val": {"id": 1, "n": "other"}, "new_val": None, "type": "remove"}
    ] == ear.events


def test_conditions_of_a_feed_are_asked_about_them(filled):
    ear = Recorder(filled.changes().filter(reactdb.row["old_val"]["n"] == 2).pluck("table", "new_val"))
    filled.table_drop("games")

    assert [{"table": "games", "new_val": None}] == ear.events


def test_who_drops_the_table_is_not_told_where_he_is_left_out(filled):
    ear = Recorder(filled.changes(skip_origin="me"))
    with filled.transaction(origin="me"):
        filled.table_drop("games")
    with filled.transaction(origin="you"):
        filled.table_drop("others")

    assert ["others"] == [event["table"] for event in ear.events]


def test_who_is_told_of_tables_is_told_of_the_drop_once(filled):
    ear = Recorder(filled.changes(include_catalogue=True))
    filled.table_drop("games")

    assert [{"kind": "table_drop", "table": "games", "table_id": 1}] == ear.events


def test_a_feed_that_is_too_slow_for_a_large_table_says_how_many_it_has_dropped(filled):
    with filled.changes(changefeed_queue_size=3).cursor() as cursor:
        filled.table_drop("games")
        events = list_of(cursor)

    assert "skipped 1 elements" in events[0]["error"]
    assert 3 == len(events[1:])


def test_history_that_is_gone_is_said(filled):
    seq = filled.seq
    filled.table_drop("games")
    filled.table_create("later")
    filled.compact(keep=0)

    with pytest.raises(reactdb.HistoryLost):
        filled.changes(since=seq)


def list_of(cursor: Any) -> list[Any]:
    found = []
    while True:
        try:
            found.append(cursor.next(timeout=0))
        except TimeoutError:
            return found


# ---------------------------------------------------------------------------------------------------------------
# Durable consumers


def consume(batches: Any, mirror: Mirror, ids: list[str]) -> None:
    while (batch := batches.poll()) is not None:
        with batch:
            mirror.apply_all(batch.changes)
            ids += [change["id"] for change in batch]


@pytest.mark.parametrize("most", [1, 3, 500])
def test_a_consumer_of_all_tables_has_what_is_there(filled, step, most):
    mirror, ids = Mirror(documents_of(filled)), []
    batches = filled.consumer("mirror").batches(max_changes=most, max_wait_s=0)
    step(filled)
    consume(batches, mirror, ids)

    assert mirror.documents == documents_of(filled)
    assert len(ids) == len(set(ids))


def test_partitions_tell_each_document_once(filled, step):
    mirror, ids = Mirror(documents_of(filled)), []
    consumer = filled.consumer("mirror", partitions=3)
    step(filled)
    # Each partition is given the changes of its keys in order, and partitions in any order.
    with consumer.batches(max_changes=2, max_wait_s=0) as batches:
        consume(batches, mirror, ids)

    assert mirror.documents == documents_of(filled)
    assert len(ids) == len(set(ids))


def test_a_consumer_is_woken_by_a_drop(filled):
    batches = filled.consumer("mirror").batches(max_wait_s=0)
    assert None is batches.poll()
    filled.table_drop("games")
    with next(batches) as batch:
        assert [("games", key, "remove") for key in range(4)] == [
            (change["table"], change["key"], change["type"]) for change in batch
        ]


def test_the_documents_of_a_dropped_table_that_fail_are_set_aside_together(filled):
    consumer = filled.consumer("mirror", partitions=2, max_attempts=1, backoff_s=0)
    filled.table_drop("games")
    with consumer.batches(max_wait_s=0) as batches:
        while (batch := batches.poll()) is not None:
            with batch:
                raise ValueError("no")

    found = filled.table("consumers.dead_letters").run()
    assert [0, 1, 2, 3] == sorted(one["key"] for one in found)
    assert 4 == sum(one["dead_letters"] for one in filled.consumers())


def test_the_documents_of_a_dropped_table_are_skipped_together(filled):
    consumer = filled.consumer("mirror", backoff_s=0)
    filled.table_drop("games")
    batches = consumer.batches(max_wait_s=0)
    with batches.poll():
        raise ValueError("no")
    batches.poll()
    assert 1 == consumer.skip()

    assert [0, 1, 2, 3] == sorted(one["key"] for one in filled.table("consumers.dead_letters").run())


# ---------------------------------------------------------------------------------------------------------------
# Any order of them

NAMES = st.sampled_from(["a", "b", "c"])
ANY_STEP = st.tuples(
    st.sampled_from(["create", "create", "drop", "rename", "put", "put", "put", "delete"]),
    NAMES,
    NAMES,
    st.integers(0, 3),
)


def carry_out(db: Any, what: str, name: str, other: str, key: int) -> None:
    tables = db.table_list()
    if what == "create":
        db.table_create(name, exist_ok=True)
    elif name not in tables:
        return
    elif what == "drop":
        db.table_drop(name)
    elif what == "rename" and other not in tables:
        rename(db, name, other)
    elif what == "put":
        db.table(name).insert({"id": key, "n": db.seq}, conflict="replace")
    elif what == "delete":
        db.table(name).get(key).delete()


@given(commits=st.lists(st.lists(ANY_STEP, min_size=1, max_size=4), max_size=12), squash=st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_whatever_happens_to_tables_a_mirror_has_what_is_there(commits, squash):
    """Law 1, of all tables; and law 5: from every position the same."""
    with reactdb.connect(":memory:") as db:
        live, consumer = Recorder(db.changes()), db.consumer("mirror", partitions=2)
        start = db.seq
        later = db.changes(squash=squash).cursor()
        for steps in commits:
            with db.transaction():
                for step in steps:
                    carry_out(db, *step)
        now = documents_of(db)
        mirror = Mirror()
        mirror.apply_all(live.events)
        assert mirror.documents == now
        squashed = Mirror()
        squashed.apply_all(list_of(later))
        assert squashed.documents == now
        consumed = Mirror()
        consume(consumer.batches(max_changes=2, max_wait_s=0), consumed, [])
        assert consumed.documents == now
        for seq in range(start, db.seq + 1, 3):
            resumed = Mirror(documents_of(db.at(seq)))
            with db.changes(since=seq).cursor() as cursor:
                resumed.apply_all(list_of(cursor))
            assert resumed.documents == now
