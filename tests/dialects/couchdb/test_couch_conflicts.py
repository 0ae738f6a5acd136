"""Documents in conflict as a feed, and how a conflict is ended in one commit."""

from __future__ import annotations

from typing import Any

import pytest

from reactdb.database import Database
from reactdb.dialects.couchdb.conflicts import conflicts, ids_in_conflict, resolve
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.errors import CouchError


def graft(notes: CouchDatabase, id: str, rev: str, **fields: Any) -> None:
    notes.put({"_id": id, "_rev": rev, **fields}, new_edits=False)


def told(event: dict[str, Any]) -> tuple[str, Any, list[str]]:
    winner = event["winner"]
    return event["id"], winner and winner["_rev"], [other["_rev"] for other in event["others"]]


def test_documents_in_conflict_are_a_feed(notes: CouchDatabase, db: Database) -> None:
    for rev in ("1-a", "1-b"):
        graft(notes, "old", rev)
    graft(notes, "deleted", "1-a", _deleted=True)
    graft(notes, "deleted", "1-b")
    heard: list[Any] = []
    subscription = conflicts(notes).subscribe(lambda event: heard.append(told(event)))
    assert [("old", "1-b", ["1-a"])] == heard
    heard.clear()
    notes.put({"_id": "alone"})
    graft(notes, "new", "1-b", n=1)
    assert [] == heard
    graft(notes, "new", "1-a", n=2)
    assert [("new", "1-b", ["1-a"])] == heard
    rev = resolve(notes, {"_id": "new", "_rev": "1-b", "n": 3}, [notes.get("new", rev="1-a")])["rev"]
    assert ("new", rev, []) == heard[-1]
    assert {"_id": "new", "_rev": rev, "n": 3} == notes.get("new", conflicts=True)
    db.table("notes").get("old").delete()
    assert ("old", None, []) == heard[-1]
    subscription.dispose()
    count = len(heard)
    graft(notes, "new", "2-z")
    assert count == len(heard)
    assert {"new", "deleted"} == set(ids_in_conflict(notes))


def test_a_conflict_that_has_changed_is_not_ended(notes: CouchDatabase) -> None:
    for rev in ("1-a", "1-b"):
        graft(notes, "x", rev)
    loser = notes.get("x", rev="1-a")
    notes.put({"_id": "x", "_rev": "1-a", "late": True})
    before = notes.open_revs("x", "all", revs=True)
    with pytest.raises(CouchError) as caught:
        resolve(notes, {"_id": "x", "_rev": "1-b", "n": 1}, [loser])
    assert 409 == caught.value.status
    assert before == notes.open_revs("x", "all", revs=True)
