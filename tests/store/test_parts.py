"""A write that fails inside a transaction is rolled back alone, at whichever step it failed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

import reactdb
from reactdb import row
from reactdb.errors import DuplicateKey, StorageError
from reactdb.session import session_of

TABLES = ("log", "heads", "graves", "marks", "entries", "tables", "indexes", "facts")

Write = Callable[[reactdb.Database], object]

WRITES: dict[str, Write] = {
    "insert": lambda db: db.table("games").insert({"id": "new", "score": 5, "tags": ["x", "y"]}),
    "insert of a key that was deleted": lambda db: db.table("games").insert({"id": "gone", "score": 9}),
    "insert into a table without indexes": lambda db: db.table("plain").insert({"id": "new"}),
    "replace by insert": lambda db: db.table("games").insert({"id": "a", "score": 7}, conflict="replace"),
    "update": lambda db: db.table("games").get("a").update({"score": row["score"] + 1, "tags": ["z"]}),
    "delete": lambda db: db.table("games").get("a").delete(),
    "insert of many": lambda db: db.table("plain").insert([{"id": "m"}, {"id": "n"}, {"id": "o"}]),
    "insert of many, some deleted before": lambda db: db.table("games").insert([{"id": "gone"}, {"id": "n"}]),
    "update of many": lambda db: db.table("games").update({"score": row["score"] + 1}),
    "delete of many": lambda db: db.table("games").delete(),
    "a new table": lambda db: db.table_create("more"),
    "a dropped table": lambda db: db.table_drop("games"),
    "a new index": lambda db: db.table("games").index_create("later", row["score"] * 2),
    "a dropped index": lambda db: db.table("games").index_drop("score"),
}


class Struck(Exception):
    """As Ctrl-C would: at a step that has no error of its own."""


def make() -> reactdb.Database:
    db = reactdb.connect(":memory:")
    games = db.table_create("games")
    games.index_create("score")
    games.index_create("tags", multi=True)
    db.table_create("plain")
    games.insert([{"id": key, "score": place, "tags": [key, "all"]} for place, key in enumerate("abc")])
    games.insert({"id": "gone", "score": 3})
    games.get("gone").delete()
    return db


def content(db: reactdb.Database) -> dict[str, list[tuple[Any, ...]]]:
    transaction = session_of(db).engine.current_transaction()
    assert transaction is not None
    with session_of(db).engine.snapshot():  # what is buffered is in the file from here on
        pass
    return {name: transaction.connection.execute(f"SELECT * FROM {name}").fetchall() for name in TABLES}


class Failing:
    """Raises at the nth statement, before it or after it."""

    def __init__(self, at: int, error: Exception, *, after: bool) -> None:
        self.left, self.error, self.after = at, error, after
        self.find_order = ""

    def __call__(self, real: Callable[..., Any], *arguments: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            self.find_order = arguments[0]
        if self.left == 0 and not self.after:
            raise self.error
        found = real(*arguments)
        if self.left == 0:
            raise self.error
        return found


@pytest.mark.parametrize("after", [False, True], ids=["before the step", "after the step"])
@pytest.mark.parametrize("name", WRITES)
def test_a_write_that_fails_at_any_step_leaves_nothing(name: str, after: bool) -> None:
    """It is taken back alone, or the transaction as a whole; and Ctrl-C leaves a transaction that can go on."""
    step = 0
    failed = True
    while failed:
        step += 1
        failed = fails_at(step, WRITES[name], after=after)
    assert step > 2


def fails_at(step: int, write: Write, *, after: bool) -> bool:
    """Whether the write and the flush after it have so many steps; then half of it is nowhere."""
    with make() as db:
        at_first = db.seq
        try:
            with db.transaction():
                return fails_inside(db, step, write, after=after)
        except StorageError:
            # All of it was taken back.
            assert db.seq == at_first
            assert db.table("games").get("before").run() is None
            db.table("games").insert({"id": "before"})
            return True


def fails_inside(db: reactdb.Database, step: int, write: Write, *, after: bool) -> bool:
    db.table("games").insert({"id": "before", "score": step})
    transaction = session_of(db).engine.current_transaction()
    assert transaction is not None
    before, real = content(db), transaction.execute
    cursor = transaction.cursor
    error = Struck() if step % 2 else sqlite3.OperationalError("disk I/O error")
    failing = Failing(step, error, after=after)
    is_done = False
    transaction.execute = partial(failing, real)
    transaction.cursor = SimpleNamespace(executemany=partial(failing, cursor.executemany))
    try:
        write(db)
        is_done = True
        content(db)
    except (Struck, StorageError):
        pass
    finally:
        transaction.execute = real
        transaction.cursor = cursor
    if failing.left > 0:
        return False
    # Released, it is done, whatever comes after that; and done, it is flushed again after Ctrl-C.
    is_done = is_done or (after and failing.find_order.startswith("RELEASE"))
    assert (content(db) == before) is not is_done
    db.table("plain").insert({"id": "after"})
    assert db.table("plain").count().run() >= 1
    return True


def test_a_taken_key_inside_a_transaction_takes_nothing_of_the_other_document() -> None:
    with make() as db, db.transaction():
        before = content(db)
        with pytest.raises(DuplicateKey):
            db.table("games").insert({"id": "a", "score": 0, "tags": ["a", "all"]})
        assert content(db) == before


def test_a_write_by_a_function_of_a_write_is_taken_back_with_it() -> None:
    with make() as db:

        def conflicting(key: Any, old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
            db.table("plain").insert({"id": "smuggled"})
            return new

        with db.transaction():
            before = content(db)
            with pytest.raises(reactdb.errors.UsageError):
                db.table("games").insert(
                    [{"id": "free"}, {"id": "a", "score": 1}, {"id": "b"}], conflict=conflicting
                )
            assert content(db) == before
        assert db.table("plain").count().run() == 0


def test_what_follows_a_failed_write_is_numbered_and_told_as_if_it_had_not_been() -> None:
    with make() as db:
        told: list[Any] = []
        db.table("games").changes(include_seq=True).subscribe(told.append)
        first = db.seq + 1
        with db.transaction():
            db.table("games").insert({"id": "x"})
            with pytest.raises(DuplicateKey):
                db.table("games").insert({"id": "x"})
            db.table("games").insert({"id": "y"})
        assert [(event["seq"], event["new_val"]["id"]) for event in told] == [(first, "x"), (first + 1, "y")]
