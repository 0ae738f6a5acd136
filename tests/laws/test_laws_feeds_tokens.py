"""A token is never ahead of the events, wherever a feed is cut: in initial values, between them and the log, or later.

A subscriber that got some events and resumes with the token gets the rest; without a token (None) it begins anew. The events
before and after together give the result, as if nothing had been cut.
"""

from __future__ import annotations

import tempfile
from collections.abc import Hashable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb import desc, row
from reactdb.store import walk
from tests.support.feed_kinds import (
    BODIES,
    KEYS,
    Kind,
    do,
    kinds,
    little_room,
    one_statement,
    one_write,
    prepare,
)
from tests.support.feeds import heard
from tests.support.replica import Event, Replica

ROWS = st.lists(st.tuples(KEYS, BODIES), min_size=3, max_size=9)
COMMITS = st.lists(st.lists(st.one_of(one_write(), one_write(), one_statement()), max_size=2), max_size=3)


def alike(kind: Kind, events: list[Event]) -> list[Hashable]:
    return [(event["seq"], kind.value_of(event["new_val"])) for event in events]


def act(db: reactdb.Database, commits: list[list[Any]]) -> None:
    for commit in commits:
        with db.transaction():
            for write in commit:
                do(db, write)


def parts() -> st.SearchStrategy[Kind]:
    """Those whose initial values are read in the order of keys, or of an index."""
    return st.sampled_from(
        [
            Kind("games", lambda db: db.table("games")),
            Kind("filter(v)", lambda db: db.table("games").filter({"v": 1})),
            Kind("between", lambda db: db.table("games").between(1, 5)),
            Kind("order_by(index=a)", lambda db: db.table("games").order_by(index="a")),
            Kind("order_by(index=desc(a))", lambda db: db.table("games").order_by(index=desc("a"))),
            Kind("order_by(index=desc(id))", lambda db: db.table("games").order_by(index=desc("id"))),
            Kind("order_by(index=tags)", lambda db: db.table("games").order_by(index="tags")),
            Kind("order_by(index=desc(tags))", lambda db: db.table("games").order_by(index=desc("tags"))),
            Kind("between(index=a)", lambda db: db.table("games").between(0, 3, index="a")),
            Kind("filter by index", lambda db: db.table("games").filter(row["a"] > 0)),
            Kind("pluck", lambda db: db.table("games").pluck("id", "v")),
        ]
    )


def made_of(kind: Kind, events: list[Event]) -> Replica:
    replica = Replica(name_of=kind.name_of, value_of=kind.value_of)
    for event in events:
        replica.apply(event)
    return replica


def kept(events: list[Event], token: str | None) -> list[Event]:
    """What of it a consumer has that keeps its results together with the token: a change, or a batch, that was told in part comes
    again, whole. Without a token there is nothing."""
    if token is None:
        return []
    seq = int(token.split(".")[2])
    return [event for event in events if "old_val" not in event or event["seq"] <= seq]


def check_lives(data: st.DataObject, kind: Kind, path: str, rows: list[Any], most: int, **asked: Any) -> None:
    """Several lives of a consumer, each of which is told a few events and keeps the token."""
    told: list[Event] = []
    token: str | None = None
    with little_room(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "FIRST_PAGE", 2)
        patch.setattr(walk, "PAGE", 2)
        db = reactdb.connect(path, durability="soft")
        try:
            prepare(db)
            do(db, ("insert", rows))
            for life in range(most):
                begin = {"include_initial": True} if token is None else {"since": token}
                feed = kind.ask(db).changes(**begin, include_seq=True, **asked)
                with feed.cursor() as cursor:
                    told += heard(cursor, data.draw(st.integers(0, 5), "told"))
                    act(db, data.draw(COMMITS, "written meanwhile"))
                    is_last = life == most - 1
                    told += heard(cursor, None if is_last else data.draw(st.integers(0, 4), "told then"))
                    token = cursor.token
                    assert token == feed.token
                assert token == cursor.token
                told = kept(told, token)
                if not is_last:
                    act(db, data.draw(COMMITS, "written while away"))
                    if path != ":memory:" and data.draw(st.booleans(), "opened again"):
                        db.close()
                        db = reactdb.connect(path, durability="soft")
            assert token is not None
            made_of(kind, told).assert_equals(kind.answer(db), kind)
        finally:
            db.close()


@settings(max_examples=60)
@given(data=st.data(), kind=st.one_of(parts(), kinds()), rows=ROWS)
def test_wherever_a_feed_is_cut_what_was_told_makes_the_answer(
    data: st.DataObject, kind: Kind, rows: list[Any]
) -> None:
    if not kind.fails_on_seed:
        check_lives(data, kind, ":memory:", rows, 4)


@settings(max_examples=20)
@given(data=st.data(), kind=st.one_of(parts(), kinds()), rows=ROWS)
def test_the_same_in_a_file_that_is_opened_again(data: st.DataObject, kind: Kind, rows: list[Any]) -> None:
    if not kind.fails_on_seed:
        with tempfile.TemporaryDirectory() as folder:
            check_lives(data, kind, f"{folder}/laws.db", rows, 3)


@settings(max_examples=30)
@given(data=st.data(), kind=parts(), rows=ROWS, squash=st.booleans(), size=st.sampled_from([1, 2, 100]))
def test_it_is_so_too_with_squash_with_states_and_with_little_room(
    data: st.DataObject, kind: Kind, rows: list[Any], squash: bool, size: int
) -> None:
    asked: dict[str, Any] = {"include_states": True, "include_types": True, "on_overflow": "spill"}
    check_lives(data, kind, ":memory:", rows, 4, squash=squash, changefeed_queue_size=size, **asked)


@settings(max_examples=30)
@given(data=st.data(), kind=parts(), rows=ROWS)
def test_no_initial_value_is_told_twice_where_there_is_a_token(
    data: st.DataObject, kind: Kind, rows: list[Any]
) -> None:
    """Of one moment, all lives together are told what one is."""
    with little_room(), pytest.MonkeyPatch.context() as patch, reactdb.connect(":memory:") as db:
        patch.setattr(walk, "FIRST_PAGE", 2)
        patch.setattr(walk, "PAGE", 2)
        prepare(db)
        do(db, ("insert", rows))
        with kind.ask(db).changes(include_initial=True, include_seq=True).cursor() as cursor:
            whole = heard(cursor)
        found: list[Event] = []
        options: dict[str, Any] = {"include_initial": True}
        while not found or len(found) < len(whole):
            with kind.ask(db).changes(**options, include_seq=True).cursor() as cursor:
                some = heard(cursor, data.draw(st.integers(1, 3), "told"))
                options = {"since": cursor.token}
            found += [event for event in some if "old_val" not in event]
            act(db, [[data.draw(one_write(), "written while away")]])
            if not whole:
                break

        assert alike(kind, whole) == alike(kind, found)
