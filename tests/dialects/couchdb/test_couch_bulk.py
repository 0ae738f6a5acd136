"""Bulks: many documents are several commits, and each document is written as it would be alone."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import reactdb
from reactdb import budget
from reactdb.budget import Budget, Stopped
from reactdb.dialects.couchdb import database as bulk
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.errors import CouchError


@pytest.fixture
def db() -> Iterator[Any]:
    with reactdb.connect(":memory:") as opened:
        yield opened


@pytest.fixture
def todo(db: Any) -> CouchDatabase:
    return Couch(db).create("todo")


def commits(db: Any) -> list[int]:
    """How many documents each commit has written, the oldest first."""
    counts = Counter(change.commit for change in db.log(table="todo"))
    return [counts[commit] for commit in sorted(counts)]


def some(count: int) -> list[dict[str, Any]]:
    return [{"n": number} for number in range(count)]


def test_few_documents_are_one_commit(db: Any, todo: CouchDatabase) -> None:
    todo.bulk_docs(some(bulk.FEWEST_TOGETHER))

    assert [bulk.FEWEST_TOGETHER] == commits(db)


def test_many_documents_are_several_commits(db: Any, todo: CouchDatabase) -> None:
    rows = todo.bulk_docs(some(1_100))

    assert [True] * 1_100 == [row["ok"] for row in rows]
    assert 1_100 == sum(commits(db))
    assert max(commits(db)) <= bulk.MOST_TOGETHER


def test_large_documents_are_written_by_the_megabyte(db: Any, todo: CouchDatabase) -> None:
    todo.bulk_docs([{"text": "x" * (bulk.MOST_TOGETHER_BYTES // 3)} for _ in range(8)])

    assert max(commits(db)) <= 3


def test_a_bulk_with_something_that_is_no_document_writes_nothing(todo: CouchDatabase) -> None:
    with pytest.raises(CouchError) as refused:
        todo.bulk_docs([*some(bulk.MOST_TOGETHER + 1), {"_no": 1}])

    assert (400, 0) == (refused.value.status, todo.info()["doc_count"])


def test_ids_that_are_chosen_are_in_order(todo: CouchDatabase) -> None:
    ids = [row["id"] for row in todo.bulk_docs(some(100))]

    assert (sorted(set(ids)), {32}) == (ids, set(map(len, ids)))


class EndingBudget(Budget):
    """One that is spent when it is looked at for the third time."""

    looks = 0

    def check(self, *, may_sleep: bool = True) -> None:
        self.looks += 1
        if self.looks == 3:
            raise Stopped


def test_what_was_committed_before_the_end_of_a_budget_stays(
    db: Any, todo: CouchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "STEPS", 10**9)
    outer = budget.current.set(EndingBudget())
    try:
        with pytest.raises(Stopped):
            todo.bulk_docs(some(5_000))
    finally:
        budget.current.reset(outer)

    # It is looked at before each commit.
    assert 2 == len(commits(db))
    assert sum(commits(db)) == todo.info()["doc_count"]


def test_a_bulk_does_what_single_writes_do(todo: CouchDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same document several times, updates, deletions, new documents in the place of deleted ones, conflicts."""
    monkeypatch.setattr(bulk, "READ_TOGETHER", 3)
    monkeypatch.setattr(bulk, "MOST_TOGETHER", 7)
    chance = random.Random(7)
    with reactdb.connect(":memory:") as other:
        single = Couch(other).create("todo")
        known: dict[str, list[str]] = {}
        for _ in range(60):
            documents = [any_edit(chance, known) for _ in range(chance.randrange(12))]

            in_bulk = todo.bulk_docs([dict(one) for one in documents])
            alone = [put_alone(single, one) for one in documents]

            assert alone == in_bulk
            for row in in_bulk:
                if "ok" in row:
                    known.setdefault(row["id"], []).append(row["rev"])
        ids = sorted(known)

        assert [single.open_revs(id, "all", revs=True) for id in ids] == [
            todo.open_revs(id, "all", revs=True) for id in ids
        ]


def any_edit(chance: random.Random, known: dict[str, list[str]]) -> dict[str, Any]:
    id = chance.choice("abcde")
    document: dict[str, Any] = {"_id": id, "n": chance.randrange(3)}
    if known.get(id) and chance.random() < 0.7:
        document["_rev"] = chance.choice(known[id][-2:])
    if chance.random() < 0.3:
        document["_deleted"] = True
    return document


def put_alone(database: CouchDatabase, document: dict[str, Any]) -> dict[str, Any]:
    try:
        return database.put(dict(document))
    except CouchError as error:
        return {"id": document["_id"], "error": error.error, "reason": error.reason}


def test_grafts_in_a_bulk_are_those_of_single_ones(todo: CouchDatabase) -> None:
    chance = random.Random(8)
    with reactdb.connect(":memory:") as other:
        single = Couch(other).create("todo")
        for _ in range(40):
            documents = []
            for _ in range(chance.randrange(1, 9)):
                start = chance.randrange(1, 4)
                ids = [chance.choice("abc") * 32 for _ in range(start)]
                revisions = {"start": start, "ids": ids}
                document = {"_id": chance.choice("xy"), "_revisions": revisions, "_rev": f"{start}-{ids[0]}"}
                # A revision has one content.
                documents.append({**document, "said": "".join(one[0] for one in ids)})

            assert [] == todo.bulk_docs([dict(one) for one in documents], new_edits=False)
            for one in documents:
                single.put(dict(one), new_edits=False)

        assert [single.open_revs(id, "all", revs=True) for id in "xy"] == [
            todo.open_revs(id, "all", revs=True) for id in "xy"
        ]


def test_many_purged_documents_are_several_commits(db: Any, todo: CouchDatabase) -> None:
    rows = todo.bulk_docs(some(bulk.PURGED_TOGETHER + 50))

    gone = todo.purge({row["id"]: [row["rev"]] for row in rows})

    assert {row["id"]: [row["rev"]] for row in rows} == gone
    assert [bulk.PURGED_TOGETHER, 50] == commits(db)[-2:]
