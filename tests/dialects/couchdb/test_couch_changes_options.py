"""What `_changes` has beyond CouchDB: an end, times as positions, no old deletions, removals, and what the log says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import reactdb
from reactdb.database import Database
from reactdb.dialects.couchdb.changes import ChangesFeed, ChangesRequest
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.filters import IdFilter, SelectorFilter
from reactdb.dialects.couchdb.mango import Selector
from tests.support.scaling import examples


def rows(notes: CouchDatabase, **options: Any) -> list[dict[str, Any]]:
    return notes.changes(ChangesRequest(**options)).rows()


def ids(notes: CouchDatabase, **options: Any) -> list[str]:
    return [row["id"] for row in rows(notes, **options)]


def of(**fields: Any) -> SelectorFilter:
    return SelectorFilter(Selector(fields))


def save(notes: CouchDatabase, id: str, **fields: Any) -> None:
    try:
        before = {"_rev": notes.get(id)["_rev"]}
    except CouchError:
        before = {}
    notes.put({"_id": id, **before, **fields})


# ---------------------------------------------------------------------------------------------------------------
# An end, and a beginning


def test_a_feed_can_end_at_a_position(notes: CouchDatabase, db: Database) -> None:
    for id in "abcd":
        save(notes, id)
    seqs = [row["seq"] for row in rows(notes)]
    assert ["a", "b"] == ids(notes, until=seqs[1])
    assert ["b", "c"] == ids(notes, since=seqs[0], until=seqs[2])
    assert ["c", "b", "a"] == ids(notes, descending=True, until=seqs[2])
    assert ["a", "b"] == ids(notes, filter=IdFilter(["a", "b", "d"]), until=seqs[2])
    feed = notes.changes(ChangesRequest(until=seqs[2]))
    assert ["a", "b"] == [row["id"] for row in feed.rows(2)]
    assert (1, False) == (feed.pending, feed.is_finished)
    assert ["c"] == [row["id"] for row in feed.rows()]
    assert (seqs[2], 0, True) == (feed.last_seq, feed.pending, feed.is_finished)
    # What has changed again is told by those who read on.
    save(notes, "b", n=1)
    assert ["a", "c"] == ids(notes, until=seqs[2])
    db.table_create("other").insert({"id": 1})
    assert ["a", "c", "d", "b"] == ids(notes, until=db.token)
    for since in (seqs[1], "now"):
        feed = notes.changes(ChangesRequest(since=since, until=seqs[1]))
        assert (True, [], 0) == (feed.is_finished, feed.rows(), feed.pending)


def test_a_time_is_a_position(notes: CouchDatabase, db: Database) -> None:
    save(notes, "a")
    save(notes, "b")
    times = [row["log"]["time"] for row in rows(notes, include_log=True)]
    assert [] == ids(notes, since=times[1])
    assert ["a", "b"] == ids(notes, since="2001-01-01T00:00:00Z")
    assert ["a", "b"] == ids(notes, until=times[1])
    assert ["a", "b"] == ids(notes, since="0", until="2999-12-31T23:59:59.999Z")
    for time in ("2026-13-01T00:00:00Z", "2026-01-01T00:00:00", "0000-01-01T00:00:00Z"):
        with pytest.raises(CouchError, match=r"^Malformed sequence supplied in 'since' parameter.$"):
            rows(notes, since=time)


def test_who_begins_with_nothing_needs_no_old_deletions(notes: CouchDatabase) -> None:
    save(notes, "a")
    save(notes, "b", _deleted=True)
    begin = notes.info()["update_seq"]
    save(notes, "c", _deleted=True)
    assert ["a", "c"] == ids(notes, deletions_after=begin)
    assert ["c"] == ids(notes, deletions_after=begin, filter=IdFilter(["b", "c"]))
    assert ["a"] == ids(notes, deletions_after="now")
    # So many that a page has nothing else.
    notes.bulk_docs([{"_id": f"x{number}", "_deleted": True} for number in range(600)])
    save(notes, "z")
    assert ["a", "z"] == ids(notes, deletions_after="now")
    assert ["z", "a"] == ids(notes, deletions_after="now", descending=True)


# ---------------------------------------------------------------------------------------------------------------
# Removals


def test_a_document_that_passes_no_longer_is_told(notes: CouchDatabase) -> None:
    for id in ("a", "b", "c", "d"):
        save(notes, id, list="home")
    feed = notes.changes(ChangesRequest(filter=of(list="home"), removals=True, include_docs=True))
    assert ["a", "b", "c", "d"] == [row["id"] for row in feed.rows()]
    save(notes, "a", list="work")
    notes.delete("b", notes.get("b")["_rev"])
    save(notes, "c", list="home", n=2)
    save(notes, "e", list="work")
    assert [
        {"id": "a", "changes": [{"rev": notes.get("a")["_rev"]}], "removed": True},
        {
            "id": "b",
            "changes": [{"rev": rows(notes)[2]["changes"][0]["rev"]}],
            "deleted": True,
            "removed": True,
        },
        {"id": "c", "changes": [{"rev": notes.get("c")["_rev"]}], "doc": notes.get("c")},
    ] == [{name: value for name, value in row.items() if name != "seq"} for row in feed.rows()]
    # Once it is away, it is of no more interest.
    save(notes, "a", list="school")
    assert [] == feed.rows()
    assert [] == rows(notes, since="now", filter=of(list="home"), removals=True)
    assert ["d", "c"] == ids(notes, filter=of(list="home"), removals=True)


def test_where_the_log_does_not_reach_back_a_removal_is_told_in_any_case(
    notes: CouchDatabase, db: Database
) -> None:
    save(notes, "a", list="work")
    since = notes.info()["update_seq"]
    save(notes, "a", list="school")
    save(notes, "a", list="work")
    assert [] == rows(notes, since=since, filter=of(list="home"), removals=True)
    db.compact(0)
    save(notes, "b", list="work")
    assert ["a"] == ids(notes, since=since, filter=of(list="home"), removals=True)
    # Who begins with nothing was told of nothing.
    assert [] == rows(notes, since="0", filter=of(list="home"), removals=True)


@pytest.mark.parametrize("selector", [{"list": "home"}, {"n": {"$gt": 0}}])
def test_who_waits_for_a_value_is_woken_when_it_goes(notes: CouchDatabase, selector: dict[str, Any]) -> None:
    save(notes, "a", list="home", n=1)
    feed = notes.changes(
        ChangesRequest(filter=SelectorFilter(Selector(selector)), removals=True, since="now")
    )
    woken: list[int] = []
    assert [] == feed.rows()
    feed.on_ready(lambda: woken.append(1))
    assert [] == woken
    save(notes, "a", list="work", n=0)
    assert [1] == woken
    assert [True] == [row["removed"] for row in feed.rows()]
    feed.close()


STEPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["home", "work", "gone", "read", "native"])),
    max_size=25,
)


def follow(feed: ChangesFeed, known: dict[str, Any]) -> None:
    """Do with the rows what a client does."""
    while found := feed.rows(2):
        assert len(found) <= 2
        for row in found:
            if row.get("removed") or row.get("deleted"):
                known.pop(row["id"], None)
            else:
                known[row["id"]] = row["doc"]


@given(STEPS)
# The change before the newest one came after what the reader has read: only the one before that was told.
@example([("b", "home"), ("a", "read"), ("a", "home"), ("b", "work"), ("c", "home"), ("b", "work")])
@settings(max_examples=examples(150), deadline=None)
def test_who_applies_rows_and_removals_has_what_passes(steps: list[tuple[str, str]]) -> None:
    with reactdb.connect(":memory:") as db:
        notes = Couch(db).create("notes")
        known: dict[str, Any] = {}
        since = "0"
        for number, (id, what) in enumerate([*steps, ("a", "read")]):
            if what == "read":
                options = ChangesRequest(
                    since=since, filter=of(list="home"), removals=True, include_docs=True
                )
                feed = notes.changes(options)
                follow(feed, known)
                since = feed.last_seq
            elif what == "native":
                db.table("notes").insert({"_id": id, "list": "home", "n": number}, conflict="replace")
            elif what == "gone":
                save(notes, id, _deleted=True, n=number)
            else:
                save(notes, id, list=what, n=number)
        assert known == {
            row["id"]: row["doc"] for row in rows(notes, filter=of(list="home"), include_docs=True)
        }


@given(STEPS)
@settings(max_examples=examples(150), deadline=None)
def test_who_follows_while_others_write_has_what_passes_and_no_row_for_nothing(
    steps: list[tuple[str, str]],
) -> None:
    """One feed, page by page: a removal is told of what was told, and of nothing else."""
    with reactdb.connect(":memory:") as db:
        notes = Couch(db).create("notes")
        options = ChangesRequest(since="0", filter=of(list="home"), removals=True, include_docs=True)
        feed, known = notes.changes(options), dict[str, Any]()

        def read() -> list[Any]:
            found = feed.rows(1)
            assert len(found) <= 1
            for row in found:
                if row.get("removed"):
                    assert row["id"] in known
                if row.get("removed") or row.get("deleted"):
                    known.pop(row["id"], None)
                else:
                    known[row["id"]] = row["doc"]
            return found

        for number, (id, what) in enumerate(steps):
            if what == "read":
                read()
            elif what == "gone":
                save(notes, id, _deleted=True, n=number)
            else:
                save(notes, id, list="home" if what == "native" else what, n=number)
        while read():
            pass
        assert known == {
            row["id"]: row["doc"] for row in rows(notes, filter=of(list="home"), include_docs=True)
        }
        feed.close()


# ---------------------------------------------------------------------------------------------------------------
# What the log says


def test_rows_can_say_what_was_done_and_by_whom() -> None:
    with reactdb.connect(":memory:", origin="phone") as db:
        notes = Couch(db).create("notes")
        save(notes, "a")
        save(notes, "b")
        save(notes, "b", n=2)
        save(notes, "c", _deleted=True)
        notes.put({"_id": "a", "_rev": "1-0"}, new_edits=False)
        with db.transaction(origin="program"):
            db.table("notes").insert({"_id": "d"})
        found = {row["id"]: row["log"] for row in rows(notes, include_log=True)}
        assert {
            "a": ("conflict", "phone"),
            "b": ("update", "phone"),
            "c": ("delete", "phone"),
            "d": ("create", "program"),
        } == {id: (log["op"], log["origin"]) for id, log in found.items()}
        assert all("log" not in row for row in rows(notes))


def test_the_position_passes_what_is_rejected_while_nothing_is_found(notes: CouchDatabase) -> None:
    feed = notes.changes(ChangesRequest(filter=of(list="home")))
    first = feed.passed_seq
    save(notes, "a", list="work")
    assert [] == feed.rows()
    assert first != feed.passed_seq == feed.last_seq == notes.info()["update_seq"]
    save(notes, "b", list="home")
    save(notes, "c", list="work")
    passed = feed.passed_seq
    assert 1 == len(feed.rows())
    # What was found has not reached anybody yet.
    assert passed == feed.passed_seq
    assert [] == feed.rows()
    assert feed.passed_seq == notes.info()["update_seq"]
