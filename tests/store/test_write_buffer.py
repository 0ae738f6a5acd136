"""The write buffer of a transaction: it is not observable that writes wait in it, also if a write fails or is interrupted."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb import row
from reactdb.change import INSERT
from reactdb.errors import ForkedDatabase, ReactDBError, StorageError
from reactdb.session import session_of
from reactdb.store import transaction
from reactdb.store.tools import doctor
from reactdb.store.transaction import WriteTransaction
from reactdb.store.writer import Writer
from reactdb.values import codec
from reactdb.values.collation import key_bytes
from tests.support import inspection
from tests.support.scaling import examples

KEYS = st.sampled_from("abcd")
TABLES = st.sampled_from(["games", "plain", "indexed"])
STEPS: st.SearchStrategy[Any] = st.one_of(
    st.tuples(st.just("set"), TABLES, KEYS, st.integers(0, 3)),
    st.tuples(st.just("add"), TABLES, KEYS, st.sampled_from(["n", "missing"])),
    st.tuples(st.just("both"), TABLES, KEYS, st.integers(0, 3)),
    st.tuples(
        st.just("set"), TABLES, KEYS, st.sampled_from(["\ud800", {"deep": 1}, [1], b"\xff", "x" * 20_000])
    ),
    st.tuples(st.just("key"), TABLES, KEYS),
    st.tuples(st.just("get"), TABLES, KEYS),
    st.tuples(st.just("scan"), TABLES),
    st.tuples(st.just("insert"), TABLES, KEYS),
    st.tuples(st.just("insert large"), TABLES, KEYS),
    st.tuples(st.just("delete"), TABLES, KEYS),
    st.tuples(st.just("function"), TABLES, KEYS),
    st.tuples(st.just("history"), TABLES, KEYS),
    st.tuples(st.just("index"), TABLES),
    st.tuples(st.just("past"), TABLES),
)
PROGRAMS = st.lists(
    st.one_of(STEPS, st.tuples(st.just("part"), st.lists(STEPS, max_size=4), st.booleans())), max_size=14
)


class Abandoned(Exception):
    pass


def step(db: reactdb.Database, kind: str, *given: Any) -> Any:
    """Do one, and give what its caller sees of it."""
    if kind == "part":
        steps, is_kept = given
        with db.transaction():
            found = [attempt(db, one) for one in steps]
            if not is_kept:
                raise Abandoned
            return found
    table = db.table(given[0])
    if kind == "scan":
        return table.run()
    if kind == "past":
        return db.at(1).table(given[0]).run()
    if kind == "index":
        return table.index_create("n")
    key = given[1]
    if kind == "set":
        return table.get(key).update({"value": given[2]})
    if kind == "add":
        return table.get(key).update({"n": row[given[2]] + 1})
    if kind == "both":
        return table.get(key).update({"value": given[2], "n": row["n"] * 2, "m": row["n"]})
    if kind == "key":
        return table.get(key).update({"id": "other"})
    if kind == "get":
        return table.get(key).run()
    if kind == "insert":
        return table.insert({"id": key, "n": 7})
    if kind == "insert large":
        return table.insert({"id": key, "n": 7, "text": "x" * transaction.LARGE_BYTES})
    if kind == "delete":
        return table.get(key).delete()
    if kind == "function":
        return table.get(key).update(lambda document: {"n": document["n"] + 5})
    assert kind == "history"
    return [change.new_bytes for change in table.get(key).history()]


def attempt(db: reactdb.Database, one: Any) -> Any:
    try:
        return step(db, *one)
    except (ReactDBError, Abandoned) as error:
        return type(error), str(error)


def carried_out(program: Any, path: str, *, is_kept: bool, origin: str | None) -> tuple[Any, ...]:
    """What the callers saw, what was told, and what the file has in the end: all but times and checksums."""
    told: list[Any] = []
    seen: list[Any] = []
    with reactdb.connect(path, durability="soft") as db:
        for name in ("games", "plain", "indexed"):
            db.table_create(name).insert([{"id": key, "n": number} for number, key in enumerate("abc")])
        db.table("indexed").index_create("value")
        db.changes(include_seq=True).subscribe(told.append)
        try:
            with db.transaction(origin=origin):
                seen += [attempt(db, one) for one in program]
                if not is_kept:
                    raise Abandoned
        except Abandoned:
            pass
    connection = sqlite3.connect(path)
    found = [
        connection.execute(f"SELECT {columns} FROM {table} ORDER BY 1, 2, 3").fetchall()
        for table, columns in (
            ("log", "seq, table_id, kind, step, prev, key, body, origin, meta"),
            ("heads", "*"),
            ("graves", "*"),
            ("entries", "*"),
        )
    ]
    marks = connection.execute("SELECT table_id, block, 0 FROM marks ORDER BY 1, 2").fetchall()
    connection.close()
    assert [] == [one for _, findings in doctor.examine(path) for one in findings if one.level == "problem"]
    return seen, told, found, marks


@settings(max_examples=examples(80), deadline=None)
@given(PROGRAMS, st.booleans(), st.sampled_from([None, "elsewhere"]), st.sampled_from([2, 3, 1_024]))
def test_a_transaction_whose_writes_wait_is_as_one_whose_writes_do_not(
    tmp_path_factory: pytest.TempPathFactory, program: Any, is_kept: bool, origin: str | None, most: int
) -> None:
    folder = tmp_path_factory.mktemp("pending")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transaction, "MOST_ENTRIES", most)
        waiting = carried_out(program, str(folder / "waiting.db"), is_kept=is_kept, origin=origin)
        patch.setattr(transaction, "MOST_ENTRIES", 1)
        assert carried_out(program, str(folder / "direct.db"), is_kept=is_kept, origin=origin) == waiting


def test_writes_wait_for_the_end_of_the_transaction(db: reactdb.Database) -> None:
    with db.transaction():
        add_to_all(db)
        db.table("plain").insert({"id": "x"})
        db.table("plain").get("x").delete()
        assert waiting(db) == 5
        assert db.table("games").get("a").run() == {"id": "a", "n": 1}
        assert db.table("plain").get("x").run() is None
        assert waiting(db) == 5
        assert db.table("games").count().run() == 3
        assert waiting(db) == 0
    assert [document["n"] for document in db.table("games")] == [1, 2, 3]


@pytest.mark.parametrize("size", [10, transaction.LARGE_BYTES], ids=["small", "large"])
def test_a_key_that_comes_back_after_the_buffer_was_flushed_between_has_no_tombstone(
    tmp_path: Path, size: int
) -> None:
    """A large document is flushed at once. Its savepoint began after the deletion, which is flushed by itself before it."""
    path = tmp_path / "test.db"
    with reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games")
        games.insert({"id": "a"})
        with db.transaction():
            games.get("a").delete()
            games.insert({"id": "a", "text": "x" * size})

    assert [] == inspection.problems(path)


def test_a_key_that_a_part_updates_and_reads_after_it_was_inserted_before_the_part(tmp_path: Path) -> None:
    """The insert is flushed by itself, before the savepoint of the part: then the update finds a head in the file."""
    path = tmp_path / "test.db"
    with reactdb.connect(path, durability="soft") as db:
        plain = db.table_create("plain")
        with db.transaction():
            plain.insert({"id": "x", "n": 1})
            with db.transaction():
                plain.get("x").update({"n": 2})
                assert plain.run() == [{"id": "x", "n": 2}]
        assert plain.run() == [{"id": "x", "n": 2}]

    assert [] == inspection.problems(path)


def test_a_new_key_that_goes_and_returns_and_changes_while_it_waits_has_a_head(tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    with reactdb.connect(path, durability="soft") as db:
        plain = db.table_create("plain")
        with db.transaction():
            plain.insert({"id": "x", "n": 1})
            plain.get("x").delete()
            plain.insert({"id": "x", "n": 2})
            plain.get("x").update({"n": 3})
        assert plain.run() == [{"id": "x", "n": 3}]

    assert [] == inspection.problems(path)


@pytest.mark.parametrize("deleted", [0, 5, 40])
def test_the_running_sums_count_what_one_flush_adds_and_deletes(tmp_path: Path, deleted: int) -> None:
    """The flush of many entries goes through several blocks of the log, and the sums of both tables begin in none of them."""
    path = tmp_path / "test.db"
    with reactdb.connect(path, durability="soft") as db:
        plain, games = db.table_create("plain"), db.table_create("games")
        for number in range(40):
            plain.insert({"id": number})
    with reactdb.connect(path, durability="soft") as db:
        plain, games = db.table("plain"), db.table("games")
        with db.transaction():
            for number in range(deleted):
                plain.get(number).delete()
                games.insert({"id": number})
        for number in range(33):
            plain.insert({"id": f"more {number}"})
        assert plain.count().run() == 73 - deleted

    assert [] == inspection.problems(path)


def test_no_more_than_so_many_wait(db: reactdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "MOST_ENTRIES", 5)
    with db.transaction():
        for _ in range(6):
            add_to_all(db)
            assert waiting(db) < 5
    assert [document["n"] for document in db.table("games")] == [6, 7, 8]


def test_a_large_document_does_not_wait(db: reactdb.Database) -> None:
    text = "x" * transaction.LARGE_BYTES
    with db.transaction():
        db.table("games").get("a").update({"n": 5})
        assert waiting(db) == 1
        db.table("games").get("b").update({"text": text})
        assert waiting(db) == 0
    assert len(db.table("games").get("b").run()["text"]) == len(text)


@pytest.mark.parametrize("size", [10, transaction.LARGE_BYTES], ids=["small", "large"])
@pytest.mark.parametrize("has_tombstones", [False, True])
@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
def test_a_taken_key_is_said_to_be_taken_however_the_document_comes(
    db: reactdb.Database, size: int, has_tombstones: bool, many: bool
) -> None:
    plain = db.table("plain")
    document = {"id": "x", "text": "x" * size}
    plain.insert([{"id": "gone"}, document])
    if has_tombstones:
        plain.get("gone").delete()
    seq = db.seq
    given: Any = [{"id": "y"}, document] if many else document
    with pytest.raises(reactdb.DuplicateKey):
        plain.insert(given)
    with db.transaction(), pytest.raises(reactdb.DuplicateKey):
        plain.insert(given)
    assert db.seq == seq
    assert plain.get("y").run() is None
    assert problems(db) == []


def test_a_key_may_come_and_go_while_it_waits(db: reactdb.Database) -> None:
    """A tombstone that is in the file, one that is not, and a head that was and is not any more."""
    plain = db.table("plain")
    plain.insert({"id": "x", "n": 1})
    plain.get("x").delete()
    with db.transaction():
        plain.insert({"id": "x", "n": 2})
        plain.get("x").delete()
        plain.insert({"id": "x", "n": 3})
        with pytest.raises(reactdb.DuplicateKey):
            plain.insert({"id": "x", "n": 4})
        plain.insert({"id": "y", "n": 5})
        plain.get("y").delete()
    assert plain.run() == [{"id": "x", "n": 3}]
    history = [change.new_val and change.new_val["n"] for change in plain.get("x").history()]
    assert history == [1, None, 2, None, 3]
    assert [change.prev is None for change in plain.get("x").history()] == [True, False, False, False, False]
    assert problems(db) == []


def test_index_entries_that_go_and_come_while_they_wait_are_as_they_should_be(db: reactdb.Database) -> None:
    games = db.table("games")
    games.index_create("n")
    with db.transaction():
        games.get("a").update({"n": 9})
        games.get("a").update({"n": 0})
        games.insert({"id": "x", "n": 5})
        games.get("x").delete()
        games.get("b").update({"n": 7})
    assert [document["id"] for document in games.order_by(index="n")] == ["a", "c", "b"]
    assert problems(db) == []


def test_a_part_that_fails_after_a_flush_leaves_what_was_buffered_before_it(db: reactdb.Database) -> None:
    plain = db.table("plain")
    with db.transaction():
        plain.insert({"id": "before"})
        with pytest.raises(Abandoned), db.transaction():
            plain.insert({"id": "inside"})
            assert plain.count().run() == 2
            raise Abandoned
        plain.insert({"id": "after"})
    assert [document["id"] for document in plain] == ["after", "before"]
    assert problems(db) == []


def test_a_part_that_fails_while_all_waits_leaves_nothing(db: reactdb.Database) -> None:
    plain = db.table("plain")
    with db.transaction():
        plain.insert({"id": "before"})
        with pytest.raises(Abandoned), db.transaction():
            plain.insert({"id": "inside"})
            plain.get("before").update({"n": 1})
            raise Abandoned
        assert waiting(db) == 1
        assert plain.get("before").run() == {"id": "before"}
        assert plain.get("inside").run() is None
        plain.insert({"id": "after"})
    assert plain.run() == [{"id": "after"}, {"id": "before"}]
    assert problems(db) == []


def test_a_write_that_selects_sees_what_is_buffered(db: reactdb.Database) -> None:
    plain = db.table("plain")
    with db.transaction():
        plain.insert({"id": "x", "n": 1})
        assert plain.filter({"n": 1}).update({"n": 2})["replaced"] == 1
    assert plain.get("x").run() == {"id": "x", "n": 2}


def test_a_snapshot_of_a_transaction_sees_what_is_buffered(db: reactdb.Database) -> None:
    """Without a look of anybody else before it, of whom SQLite might have been given what waits."""
    key, body = key_bytes("x"), codec.encode({"id": "x", "n": 1})

    def work(transaction: WriteTransaction) -> bytes | None:
        table = transaction.catalogue.live["plain"]
        transaction.write(table, key, INSERT, None, body)
        return transaction.snapshot().get(table, key)

    assert session_of(db).transact(work) == body


def test_a_failed_update_leaves_those_before_it_waiting_right(db: reactdb.Database) -> None:
    told: list[Any] = []
    db.table("games").changes(include_seq=True).subscribe(told.append)
    first = db.seq + 1
    with db.transaction():
        games = db.table("games")
        games.get("a").update({"n": 10})
        for patch in ({"n": row["missing"] + 1}, {"n": "\ud800"}, {"n": {1, 2}}):
            with pytest.raises(ReactDBError):
                games.get("a").update(patch)
        games.get("b").update({"n": 11})
    assert [(event["seq"], event["new_val"]["n"]) for event in told] == [(first, 10), (first + 1, 11)]


def test_what_is_told_after_a_part_was_taken_back_is_what_was_written(db: reactdb.Database) -> None:
    told: list[Any] = []
    db.table("games").changes().subscribe(told.append)
    with db.transaction():
        with pytest.raises(Abandoned), db.transaction():
            db.table("games").insert({"id": "x"})
            raise Abandoned
        db.table("games").get("a").update({"n": 5})
    assert told == [{"old_val": {"id": "a", "n": 0}, "new_val": {"id": "a", "n": 5}}]


class Struck(BaseException):
    """As Ctrl-C would."""


# ---------------------------------------------------------------------------------------------------------------
# What strikes while they are given to SQLite


class Failing:
    """Raises at the nth call, before it or after it."""

    def __init__(self, real: Callable[..., Any], at: int, error: BaseException, *, after: bool) -> None:
        self.real, self.left, self.error, self.after = real, at, error, after

    def __call__(self, *arguments: Any) -> Any:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise self.error
        found = self.real(*arguments)
        if self.left == 0:
            raise self.error
        return found


def strike(
    db: reactdb.Database, monkeypatch: pytest.MonkeyPatch, at: int, error: BaseException, *, after: bool
) -> None:
    """From now on, let the nth statement with many rows of this thread's transaction fail."""
    transaction = transaction_of(db)
    failing = SimpleNamespace(executemany=Failing(transaction.cursor.executemany, at, error, after=after))
    monkeypatch.setattr(transaction, "cursor", failing)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", [1, 2])
def test_an_error_of_the_file_fails_the_whole_transaction(
    db: reactdb.Database, at: int, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StorageError, match="disk I/O error") as raised, db.transaction():
        add_to_all(db)
        error = sqlite3.OperationalError("disk I/O error")
        strike(db, monkeypatch, at, error, after=after)
        with pytest.raises(StorageError) as first:
            db.table("games").run()
        monkeypatch.undo()
        for again in (db.table("games").run, lambda: add_to_all(db), lambda: db.table("plain").insert({})):
            with pytest.raises(StorageError) as later:
                again()
            assert later.value is first.value
    assert raised.value is first.value
    assert [document["n"] for document in db.table("games")] == [0, 1, 2]
    assert db.table("plain").run() == []
    add_to_all(db)
    assert [document["n"] for document in db.table("games")] == [1, 2, 3]


def test_an_error_of_the_file_at_the_end_leaves_nothing(
    db: reactdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    seq = db.seq
    with pytest.raises(reactdb.errors.DiskFull), db.transaction():
        add_to_all(db)
        error = sqlite3.OperationalError("database or disk is full")
        strike(db, monkeypatch, 2, error, after=True)
    monkeypatch.undo()
    assert db.seq == seq
    with db.transaction():
        add_to_all(db)
    assert db.seq == seq + 3


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, 9))
def test_what_ctrl_c_tears_is_written_again(
    db: reactdb.Database, at: int, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.table("games").index_create("n")
    db.table("plain").insert({"id": "gone"})
    db.table("plain").get("gone").delete()
    with db.transaction():
        add_to_all(db)
        db.table("plain").insert({"id": "gone"})
        db.table("plain").insert({"id": "new"})
        db.table("plain").insert({"id": "brief"})
        db.table("plain").get("brief").delete()
        strike(db, monkeypatch, at, Struck(), after=after)
        with pytest.raises(Struck):
            db.table("games").run()
        monkeypatch.undo()
        add_to_all(db)
        assert [document["n"] for document in db.table("games")] == [2, 3, 4]
    assert [document["n"] for document in db.table("games")] == [2, 3, 4]
    assert [len(list(db.table("games").get(key).history())) for key in "abc"] == [3, 3, 3]
    assert [document["id"] for document in db.table("games").order_by(index="n")] == ["a", "b", "c"]
    assert [document["id"] for document in db.table("plain")] == ["gone", "new"]
    assert problems(db) == []


# ---------------------------------------------------------------------------------------------------------------
# Against a model: parts in parts, reads, and flushes that Ctrl-C tears

# Few keys, so that they come and go while they wait.
FEW_KEYS, TWO_TABLES = st.sampled_from("ad"), st.sampled_from(["games", "plain"])
PUTS = st.tuples(st.just("put"), TWO_TABLES, FEW_KEYS, st.sampled_from([None, 1, 2, 3]))
MODEL_STEPS: st.SearchStrategy[Any] = st.one_of(
    PUTS,
    PUTS,
    st.tuples(st.just("insert"), TWO_TABLES, st.lists(FEW_KEYS, max_size=2)),
    st.tuples(st.just("read"), TWO_TABLES),
    st.tuples(st.just("torn read"), st.integers(1, 5), st.booleans()),
)
PARTS = st.tuples(
    st.just("part"),
    st.lists(
        MODEL_STEPS | st.tuples(st.just("part"), st.lists(MODEL_STEPS, max_size=4), st.booleans()),
        max_size=5,
    ),
    st.booleans(),
)
MODEL_PROGRAMS = st.lists(MODEL_STEPS | PARTS, max_size=12)


class Model:
    """Documents by table and key, and the entries of the log since it was made: table, key, and the new value."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, int]] = {"games": {"a": 0, "b": 1, "c": 2}, "plain": {}}
        self.log: list[tuple[str, str, int | None]] = []

    def put(self, table: str, key: str, value: int | None) -> None:
        if self.tables[table].get(key) == value:
            return
        self.log.append((table, key, value))
        if value is None:
            del self.tables[table][key]
        else:
            self.tables[table][key] = value

    def part(self) -> Model:
        part = Model()
        part.tables = {name: dict(documents) for name, documents in self.tables.items()}
        part.log = list(self.log)
        return part


def do_both(db: reactdb.Database, model: Model, one: Any) -> Model:
    """A step on the database and on the model. Returns: the model after it."""
    kind, *given = one
    if kind == "put":
        name, key, value = given
        model.put(name, key, value)
        db.table(name).get(key).replace(None if value is None else {"id": key, "n": value})
    elif kind == "insert":
        name, keys = given
        is_free = len(set(keys)) == len(keys) and not set(keys) & set(model.tables[name])
        for key in keys if is_free else ():
            model.put(name, key, 7)
        try:
            db.table(name).insert([{"id": key, "n": 7} for key in keys])
            assert is_free
        except reactdb.DuplicateKey:
            assert not is_free
    elif kind == "read":
        assert {one["id"]: one["n"] for one in db.table(given[0])} == model.tables[given[0]]
    elif kind == "torn read":
        with pytest.MonkeyPatch.context() as patch:
            strike(db, patch, given[0], Struck(), after=given[1])
            try:
                db.table("plain").run()
            except Struck:
                pass
    else:
        steps, is_kept = given
        part = model.part()
        try:
            with db.transaction():
                for inner in steps:
                    part = do_both(db, part, inner)
                if not is_kept:
                    raise Abandoned
            return part
        except Abandoned:
            pass
    return model


@settings(max_examples=examples(150), deadline=None)
@given(MODEL_PROGRAMS, MODEL_PROGRAMS, st.integers(0, 31), st.sampled_from([3, 1_024, 1_024]))
def test_transactions_of_parts_and_torn_flushes_leave_what_the_model_has(
    tmp_path_factory: pytest.TempPathFactory, first: Any, second: Any, filler: int, most: int
) -> None:
    """With any number of entries before, because the running sums are written when a block of the log begins."""
    path = str(tmp_path_factory.mktemp("model") / "games.db")
    with pytest.MonkeyPatch.context() as patch, made(path) as db:
        patch.setattr(transaction, "MOST_ENTRIES", most)
        db.table("games").index_create("n")
        db.table_create("filler").insert([{"id": number} for number in range(filler)])
        start, model = db.seq, Model()
        # The second transaction begins with the running sums that the first has left.
        for program in (first, second):
            with db.transaction():
                for one in program:
                    model = do_both(db, model, one)
        written = db.seq
        # The entry with which each table begins the next block: now its sums are in the file.
        for name in ("games", "plain"):
            db.table(name).insert([{"id": f"last {number}", "n": -1} for number in range(32)])
            db.table(name).filter({"n": -1}).delete()
        log = [
            (change.table, str(change.key), None if change.new_val is None else change.new_val["n"])
            for change in db.log(since=start)
            if change.seq <= written
        ]
        assert log == model.log
        for name, documents in model.tables.items():
            assert {one["id"]: one["n"] for one in db.table(name)} == documents
            assert db.table(name).count().run() == len(documents)
        in_order = [(one["n"], one["id"]) for one in db.table("games").order_by(index="n")]
        assert in_order == sorted((n, key) for key, n in model.tables["games"].items())
        assert problems(db) == []


@pytest.mark.parametrize("is_heard", [False, True])
def test_an_update_that_ctrl_c_strikes_in_any_line_is_there_whole_or_not_at_all(is_heard: bool) -> None:
    line, is_struck = 0, True
    while is_struck:
        line += 1
        with made() as db:
            told: list[Any] = []
            if is_heard:
                db.table("games").changes().subscribe(told.append)
            with db.transaction():
                db.table("games").get("b").update({"n": 100})
                is_struck = strikes(lambda: db.table("games").get("a").update({"n": row["n"] + 50}), line)
                done = db.table("games").get("a").run()["n"]
                db.table("games").get("c").update({"n": 101})
            found = [document["n"] for document in db.table("games")]
            assert found == [done, 100, 101]
            assert done in (0, 50) if is_struck else done == 50
            changes = [
                change.new_val["n"] for change in db.log() if change.kind == "update" and change.new_val
            ]
            assert changes == [100, 50, 101] if done else changes == [100, 101]
            if is_heard:
                assert [event["new_val"]["n"] for event in told] == changes
    assert line > 20


def strikes(work: Callable[[], object], at: int) -> bool:
    """Do the work and raise in the nth line of what buffers and flushes. Whether there are so many."""
    left = at

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != transaction.__file__ and frame.f_code is not Writer.flush.__code__:
            return None
        if event == "line" and frame.f_code.co_name not in ("_take_back", "_end", "drop_changes_after"):
            left -= 1
            if left == 0:
                raise Struck
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except Struck:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_what_waits_is_the_parents_to_write_after_fork(db: reactdb.Database) -> None:
    child = -1
    try:
        with db.transaction():
            add_to_all(db)
            child = os.fork()
    except ForkedDatabase:
        if not child:
            os._exit(7)
        raise
    finally:
        if not child:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert [document["n"] for document in db.table("games")] == [1, 2, 3]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[reactdb.Database]:
    with made(str(tmp_path / "games.db")) as found:
        yield found


def made(path: str = ":memory:") -> reactdb.Database:
    db = reactdb.connect(path)
    db.table_create("games").insert([{"id": key, "n": number} for number, key in enumerate("abc")])
    db.table_create("plain")
    return db


def problems(db: reactdb.Database) -> list[Any]:
    """What the doctor has to say of the file, once it is closed."""
    path = db.path
    db.close()
    return [one for _, found in doctor.examine(path) for one in found if one.level == "problem"]


def add_to_all(db: reactdb.Database) -> None:
    for key in "abc":
        db.table("games").get(key).update({"n": row["n"] + 1})


def transaction_of(db: reactdb.Database) -> Any:
    found = session_of(db).engine.current_transaction()
    assert found is not None
    return found


def waiting(db: reactdb.Database) -> int:
    found = transaction_of(db)
    return int(found.count - found.flushed)
