"""What is told of a feed besides its rows: how many changes are pending, and what was read before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import reactdb
from reactdb.dialects.couchdb.changes import ChangesFeed, ChangesRequest
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.servers.couchdb.wrapped_rows import Begun, Counts, Paged


@pytest.fixture
def notes() -> Iterator[CouchDatabase]:
    with reactdb.connect(":memory:") as db:
        notes = Couch(db).create("notes")
        notes.bulk_docs([{"_id": id} for id in "abcde"])
        yield notes


def paged(notes: CouchDatabase, counts: Counts, since: str = "0", **options: Any) -> Paged:
    feed = notes.changes(ChangesRequest(since, **options))
    return Paged(feed, notes, since, notes.update_seq, counts)


def test_what_is_pending_is_counted_once_for_page_after_page(
    notes: CouchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = Counts()
    first = paged(notes, counts)
    first.rows(2)
    assert 3 == first.pending
    # From here on nothing is counted.
    monkeypatch.setattr(ChangesFeed, "pending", property(lambda feed: pytest.fail("it was counted again")))
    second = paged(notes, counts, first.last_seq)
    second.rows(2)
    assert 1 == second.pending


def test_a_document_that_was_told_again_is_not_subtracted_again(notes: CouchDatabase) -> None:
    """A feed that goes on for a while tells the same document each time it changes."""
    counts = Counts()
    begin = paged(notes, counts, limit=0)
    assert 5 == begin.pending
    long = paged(notes, counts, begin.last_seq)
    for _ in range(2):
        notes.put({"_id": "a", "_rev": notes.get("a")["_rev"]})
        long.rows(5)
    notes.bulk_docs([{"_id": id} for id in "xyz"])
    assert 8 == paged(notes, counts, limit=0).pending

    # It has told six rows of five documents.
    assert 3 == long.pending


def test_a_feed_that_was_read_from_is_not_at_its_end_before_that_is_told(notes: CouchDatabase) -> None:
    begun = Begun(notes.changes(ChangesRequest(limit=2)), 100)

    assert not begun.is_finished
    assert ["a", "b"] == [row["id"] for row in begun.rows(100)]
    assert begun.is_finished
    assert [] == begun.rows(100)
