"""Epochs: a file that was opened often is as fast as one that was not, and compaction removes epochs that are not needed.

Cost is counted in steps of SQLite's machine, which are the same on every computer.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb.database import Database
from reactdb.feeds.position import resolve_since
from reactdb.session import session_of
from reactdb.store import exports
from reactdb.store.file import sqlite
from tests.support.inspection import problems
from tests.support.processes import another_process

MANY = 20_000


def open_often(path: Path, count: int) -> None:
    """Leave the file as `count` processes would, each of which has written one document."""
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games").insert([{"id": n} for n in range(MANY)])
    with sqlite3.connect(path) as connection:
        connection.executemany(
            "INSERT INTO epochs (epoch, since, position) VALUES (?, ?, ?)",
            [(f"{n * 7919 % MANY:012x}", n, n + 2) for n in range(1, count - 1)],
        )
    connection.close()


class Steps:
    """Counts the steps of SQLite's machine that this thread asks for, on every connection. (Another one polls the file.)"""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._count = 0
        self._thread = threading.get_ident()

        class Counting(sqlite.Tracked):
            def __init__(connection, *arguments: Any, **options: Any) -> None:
                super().__init__(*arguments, **options)
                super().set_progress_handler(self._step, 1)

            def set_progress_handler(connection, *arguments: Any) -> None:
                """There can be one."""

        monkeypatch.setattr(sqlite, "Tracked", Counting)

    def _step(self) -> int:
        self._count += threading.get_ident() == self._thread
        return 0

    def of(self, work: Callable[[], Any]) -> int:
        before = self._count
        work()
        return self._count - before


def cost(path: Path, epochs: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Steps for what a program does with a file that so many processes have written to."""
    open_often(path, epochs)
    steps = Steps(monkeypatch)
    opened: list[Database] = []
    found = {}
    found["open"] = steps.of(lambda: opened.append(reactdb.connect(path, durability="soft")))
    (db,) = opened
    games = db.table("games")
    found["read"] = steps.of(lambda: games.get(1).run())
    found["first write"] = steps.of(lambda: games.insert({"id": "first"}))
    found["write"] = steps.of(lambda: games.insert({"id": "second"}))
    found["token"] = steps.of(lambda: db.token)
    found["subscribe"] = steps.of(lambda: games.changes(since=db.token).cursor().close())
    with games.changes().cursor() as cursor:
        found["token of a cursor"] = steps.of(lambda: cursor.token)
        feed_token = cursor.token
    found["go on from a token"] = steps.of(lambda: games.changes(since=feed_token).cursor().close())
    found["close"] = steps.of(db.close)
    monkeypatch.undo()
    return found


def test_opening_and_tokens_cost_the_same_however_often_a_file_was_opened(tmp_path: Path, monkeypatch):
    few = cost(tmp_path / "few.db", 20, monkeypatch)
    many = cost(tmp_path / "many.db", MANY, monkeypatch)

    assert few == many


def test_the_token_of_a_reader_takes_one_look_up(tmp_path: Path, monkeypatch):
    open_often(tmp_path / "a.db", MANY)
    steps = Steps(monkeypatch)

    with reactdb.connect(tmp_path / "a.db", read_only=True) as db:
        first = steps.of(lambda: db.token)
        again = steps.of(lambda: db.token)

    assert first < 300
    assert again < 200


def test_a_token_of_a_reader_follows_the_epochs_that_others_begin(tmp_path: Path):
    path = tmp_path / "a.db"
    reactdb.connect(path).close()
    with reactdb.connect(path, read_only=True) as reader:
        tokens = []
        for n in range(3):
            with another_process(path) as writer:
                writer.table_create(f"t{n}").insert({"id": 1})
                assert writer.token == reader.token
                tokens.append(reader.token)
            assert len({token.split(".")[1] for token in tokens}) == n + 1
            for seq, token in enumerate(tokens):
                with reader.changes(since=token).cursor() as cursor:
                    assert n - seq == len([cursor.next(timeout=5) for _ in range(n - seq)])


def names_of(path: Path) -> list[tuple[str, int, int]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT epoch, since, position FROM epochs ORDER BY position").fetchall()
    finally:
        connection.close()


def test_compaction_removes_the_epochs_that_ended_before_the_log_begins(tmp_path: Path):
    path = tmp_path / "a.db"
    open_often(path, 1_000)
    with reactdb.connect(path) as db:
        old = f"{db.token.split('.')[0]}.{names_of(path)[10][0]}.10"
        newest = db.token
        with db.changes(since=old).cursor():
            pass

        db.compact(keep=0)

        # The one that ends where the log begins, and the one that compaction itself has begun.
        assert [newest.split(".")[1], db.token.split(".")[1]] == [name for name, _, _ in names_of(path)]
        with db.changes(since=newest).cursor():
            pass
        with pytest.raises(reactdb.HistoryLost):
            db.changes(since=old).cursor()
        with pytest.raises(reactdb.HistoryDiverged):
            db.changes(since=f"{newest.split('.')[0]}.{'f' * 12}.{db.seq}").cursor()
    assert problems(path) == []


def test_an_epoch_stays_as_long_as_a_position_in_it_can_be_gone_on_from(tmp_path: Path):
    path = tmp_path / "a.db"
    open_often(path, 1_000)
    before = names_of(path)
    with reactdb.connect(path) as db:
        db.compact(keep=MANY + 1 - 700)

        kept = names_of(path)
        assert 700 == db.stats()["oldest"]
        # The one that begins at seq 699 ends at 700, and a token of that position may be out there.
        own, stays = kept.pop(), before[700:]
        assert own[1] == MANY + 1
        assert [(name, since) for name, since, _ in stays] == [(name, since) for name, since, _ in kept]
        assert [position for _, _, position in stays] == [position for _, _, position in kept]
        database = db.token.split(".")[0]
        with db.changes(since=f"{database}.{stays[0][0]}.700").cursor() as cursor:
            assert {"id": 699} == cursor.next(timeout=5)["new_val"]
        with pytest.raises(reactdb.HistoryDiverged, match="was lost"):
            db.changes(since=f"{database}.{stays[0][0]}.701").cursor()
    assert problems(path) == []


def test_retention_keeps_the_list_short(tmp_path: Path):
    path = tmp_path / "a.db"
    with reactdb.connect(path) as db:
        db.table_create("games")
    for n in range(40):
        with reactdb.connect(path, durability="soft", retention=50) as db:
            db.table("games").insert([{"id": n * 100 + m} for m in range(100)])

    assert len(names_of(path)) < 8
    assert problems(path) == []


def test_a_writer_goes_on_where_its_epoch_was_removed(tmp_path: Path):
    """Its file has the history that it had, and not another one's."""
    path = tmp_path / "a.db"
    with (
        reactdb.connect(path, durability="soft") as db,
        db.table_create("games").changes().cursor() as cursor,
    ):
        games = db.table("games")
        games.insert({"id": 0})
        own = db.token
        for n in range(1, 4):
            with another_process(path) as other:
                other.table("games").insert([{"id": f"{n}, {m}"} for m in range(10)])
                other.table("games").update({"n": n})
                other.compact(keep=0)
            games.insert({"id": n})

        assert own.split(".")[1] not in [name for name, _, _ in names_of(path)]
        assert 34 == games.count().run()
        with pytest.raises(reactdb.HistoryLost):
            db.changes(since=own).cursor()
        with db.changes(since=db.token).cursor():
            pass
        assert cursor.next(timeout=5)["new_val"] == {"id": 0}
    assert problems(path) == []


def test_a_backup_put_over_an_open_file_is_noticed_although_compaction_removes_epochs(tmp_path: Path):
    path = tmp_path / "a.db"
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games").insert([{"id": n} for n in range(10)])
        db.compact(keep=5)
    backup = sqlite3.connect(":memory:")
    with sqlite3.connect(path) as source:
        source.backup(backup)
    source.close()
    with reactdb.connect(path, durability="soft") as db:
        games = db.table("games")
        games.insert({"id": "of a future that is lost"})
        with sqlite3.connect(path) as target:
            backup.backup(target)
        target.close()
        with another_process(path) as other:
            other.table("games").insert([{"id": f"other {n}"} for n in range(5)])

        with pytest.raises(reactdb.errors.StorageMoved, match="another history"):
            games.insert({"id": 11})
    backup.close()


def test_a_position_of_spark_in_a_removed_epoch_is_lost_and_not_of_another_history(tmp_path: Path):
    pytest.importorskip("pyspark")
    from reactdb.lake import file_states, fleet
    from reactdb.spark import positions

    path = tmp_path / "a.db"
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games").insert({"id": 0})
    options = fleet.FileOptions((str(path),))
    (before,) = file_states.read_file_states(options)
    position = positions.Position(before.database, before.position.epoch, 0, before.position.seq)
    for n in range(1, 4):
        with reactdb.connect(path, durability="soft") as db:
            db.table("games").insert({"id": n})
            oldest = db.compact(keep=0)["oldest"]
    (now,) = file_states.read_file_states(options)

    assert before.position.epoch not in [epoch.name for epoch in now.history]
    with pytest.raises(reactdb.HistoryLost):
        file_states.check_position(now, before.position)
    with exports.open_to_read(str(path)) as engine, engine.snapshot() as snapshot:
        pin = exports.pin_snapshot(engine, snapshot)
        with pytest.raises(reactdb.HistoryLost):
            positions.check(pin, snapshot, position, position.seq)
        assert oldest == positions.check(pin, snapshot, position, position.seq, fail_on_data_loss=False)


@pytest.mark.slow
@settings(max_examples=25)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("open"), st.integers(0, 4)),
            st.tuples(st.just("other"), st.integers(1, 4)),
            st.tuples(st.just("write"), st.integers(1, 5)),
            st.tuples(st.just("compact"), st.integers(0, 12)),
        ),
        max_size=14,
    )
)
def test_a_token_is_gone_on_from_or_lost(tmp_path_factory, script):
    """Law: whoever opened, wrote and compacted meanwhile, a token gives every change past it, or says HistoryLost where they are
    gone; never that history has diverged."""
    path = tmp_path_factory.mktemp("epochs") / "a.db"
    db = reactdb.connect(path, durability="soft")
    try:
        games = db.table_create("games")
        tokens = [db.token]
        for n, (what, count) in enumerate(script):
            documents = [{"id": m, "n": n} for m in range(count)]
            if what == "open":
                db.close()
                db = reactdb.connect(path, durability="soft")
                games = db.table("games")
            if what in ("open", "write"):
                games.insert(documents, conflict="replace")
            elif what == "other":
                with another_process(path) as other:
                    other.table("games").insert(documents, conflict="replace")
                    tokens.append(other.token)
            else:
                db.compact(keep=count)
            tokens.append(db.token)
            oldest, head = db.stats()["oldest"], db.seq
            for token in tokens:
                seq = int(token.split(".")[2])
                if seq < oldest:
                    with pytest.raises(reactdb.HistoryLost):
                        db.changes(since=token).cursor()
                else:
                    with db.changes(since=token, include_seq=True).cursor() as cursor:
                        seqs = [cursor.next(timeout=5)["seq"] for _ in range(head - seq)]
                    assert list(range(seq + 1, head + 1)) == seqs
    finally:
        db.close()
    assert problems(path) == []


def test_an_epoch_ends_where_another_one_begins_at_the_same_seq(tmp_path: Path):
    """All that was written in it was lost: a position past its beginning is not that of what was written instead."""
    path, lost = tmp_path / "a.db", "0" * 12
    with reactdb.connect(path) as db:
        db.table_create("games").insert({"id": 1})
        seq = db.seq
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO epochs SELECT ?, ?, max(position) + 1 FROM epochs", (lost, seq))
    connection.close()

    with reactdb.connect(path) as db, session_of(db).read() as snapshot:
        assert seq == resolve_since(
            f"{session_of(db).engine.database_id}.{lost}.{seq}", session_of(db).engine, snapshot
        )
    with reactdb.connect(path) as db:
        db.table("games").insert({"id": 2})
        with session_of(db).read() as snapshot, pytest.raises(reactdb.HistoryDiverged):
            resolve_since(
                f"{session_of(db).engine.database_id}.{lost}.{db.seq}", session_of(db).engine, snapshot
            )
