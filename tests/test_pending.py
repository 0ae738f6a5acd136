"""Updates that wait inside a transaction: nobody can tell that they do, and what strikes them leaves what it should."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scaling import examples

import reactdb
from reactdb import point_selection, point_update, row
from reactdb.errors import ForkedDatabase, ReactDBError, StorageError
from reactdb.store import doctor, pending

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
@given(PROGRAMS, st.booleans(), st.sampled_from([None, "elsewhere"]), st.sampled_from([1, 2, 3, 1_024]))
def test_a_transaction_whose_updates_wait_is_as_one_whose_updates_do_not(
    tmp_path_factory: pytest.TempPathFactory, program: Any, is_kept: bool, origin: str | None, most: int
) -> None:
    folder = tmp_path_factory.mktemp("pending")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(point_update, "MOST", most)
        waiting = carried_out(program, str(folder / "waiting.db"), is_kept=is_kept, origin=origin)
        patch.setattr(point_selection, "update_inside", lambda *given: None)
        assert carried_out(program, str(folder / "direct.db"), is_kept=is_kept, origin=origin) == waiting


def test_updates_wait_for_the_end_of_the_transaction(db: reactdb.Database) -> None:
    with db.transaction():
        add_to_all(db)
        assert len(waiting(db)) == 3
        assert db.table("games").get("a").run() == {"id": "a", "n": 1}
        assert len(waiting(db)) == 3
        assert db.table("games").count().run() == 3
        assert waiting(db) == []
    assert [document["n"] for document in db.table("games")] == [1, 2, 3]


def test_no_more_than_so_many_wait(db: reactdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(point_update, "MOST", 5)
    with db.transaction():
        for _ in range(6):
            add_to_all(db)
            assert 0 < len(waiting(db)) <= 5
    assert [document["n"] for document in db.table("games")] == [6, 7, 8]


def test_a_large_document_does_not_wait(db: reactdb.Database) -> None:
    with db.transaction():
        db.table("games").get("a").update({"text": "x" * pending.LARGE_BYTES})
        assert waiting(db) == []
    assert len(db.table("games").get("a").run()["text"]) == pending.LARGE_BYTES


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


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_error_of_the_file_fails_the_whole_transaction(
    db: reactdb.Database, at: int, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StorageError, match="disk I/O error") as raised, db.transaction():
        connection = transaction_of(db).connection
        db.table("plain").insert({"id": "x"})
        add_to_all(db)
        error = sqlite3.OperationalError("disk I/O error")
        monkeypatch.setattr(
            connection, "executemany", Failing(connection.executemany, at, error, after=after)
        )
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
        connection = transaction_of(db).connection
        add_to_all(db)
        error = sqlite3.OperationalError("database or disk is full")
        monkeypatch.setattr(connection, "executemany", Failing(connection.executemany, 2, error, after=True))
    monkeypatch.undo()
    assert db.seq == seq
    with db.transaction():
        add_to_all(db)
    assert db.seq == seq + 3


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_what_ctrl_c_tears_is_written_again(
    db: reactdb.Database, at: int, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with db.transaction():
        connection = transaction_of(db).connection
        add_to_all(db)
        monkeypatch.setattr(
            connection, "executemany", Failing(connection.executemany, at, Struck(), after=after)
        )
        with pytest.raises(Struck):
            db.table("games").run()
        monkeypatch.undo()
        add_to_all(db)
        assert [document["n"] for document in db.table("games")] == [2, 3, 4]
    assert [document["n"] for document in db.table("games")] == [2, 3, 4]
    assert [len(list(db.table("games").get(key).history())) for key in "abc"] == [3, 3, 3]


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
    """Do the work and raise in the nth line of the two files. Whether there are so many."""
    left = at
    files = (point_update.__file__, pending.__file__)

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in files:
            return None
        if event == "line" and frame.f_code.co_name != "take_back":
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


@pytest.fixture(params=[False, True], ids=["shared", "exclusive"])
def db(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[reactdb.Database]:
    with made(str(tmp_path / "games.db"), exclusive=request.param) as found:
        yield found


def made(path: str = ":memory:", *, exclusive: bool = False) -> reactdb.Database:
    db = reactdb.connect(path, exclusive=exclusive)
    db.table_create("games").insert([{"id": key, "n": number} for number, key in enumerate("abc")])
    db.table_create("plain")
    return db


def add_to_all(db: reactdb.Database) -> None:
    for key in "abc":
        db.table("games").get(key).update({"n": row["n"] + 1})


def transaction_of(db: reactdb.Database) -> Any:
    found = db._engine.transaction_as_it_is()
    assert found is not None
    return found


def waiting(db: reactdb.Database) -> list[Any]:
    found = transaction_of(db).pending
    return [] if found is None else found.rows
