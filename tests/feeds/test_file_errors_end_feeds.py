"""Whatever happens to the file, every open feed has ended with the error within a second, whoever noticed first: a write, a read,
a checkpoint, the thread that follows the file, or who closes the database.

To let one of them be the first, the tests keep the thread that follows the file from looking by itself.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from reactivex.scheduler import EventLoopScheduler

import reactdb
from reactdb import row
from reactdb.session import session_of
from reactdb.store import follow
from reactdb.store.engine import Engine
from reactdb.store.file import sqlite
from reactdb.testing import Recorder
from tests.support.feeds import hub, is_clean
from tests.support.threads import PATIENCE_S

# The thread that follows the file ends the feeds after this, at the most.
LAW_S = 1.0

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there an open file cannot be moved")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Any]:
    folder = tmp_path / "folder"
    folder.mkdir()
    with reactdb.connect(folder / "a.db", durability="soft") as database:
        database.table_create("games").insert([{"id": n, "score": n} for n in range(20)])
        yield database


@pytest.fixture
def nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that follows the file does not look whether it is still the one that was opened."""
    monkeypatch.setattr(follow.Watched, "trouble", lambda watched, engine: "")


def move(db: Any) -> None:
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.rename(f"{db.path}{suffix}", f"{db.path}.away{suffix}")


# ---------------------------------------------------------------------------------------------------------------
# Who notices: each meets the error, and is the only one that does.


def a_write(db: Any) -> None:
    with pytest.raises(reactdb.errors.StorageMoved):
        db.table("games").insert({"id": "new"})


def a_write_that_finds_nothing_to_change(db: Any) -> None:
    with pytest.raises(reactdb.errors.StorageMoved):
        db.table("games").get(1).update({"score": 1}, durability="hard")


def a_transaction(db: Any) -> None:
    with pytest.raises(reactdb.errors.StorageMoved), db.transaction():
        db.table("games").insert({"id": "new"})


def a_compaction(db: Any) -> None:
    db.table("games")
    with pytest.raises(reactdb.errors.StorageMoved):
        db.compact(keep=0)


def a_checkpoint(db: Any) -> None:
    writer = session_of(db).engine.writer
    assert not writer.run_in_turn(writer.checkpoints.run)


def a_repair_after_a_failed_flush(db: Any) -> None:
    error = sqlite.sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = "SQLITE_IOERR_FSYNC"
    session_of(db).engine.writer.doubt(error)
    with pytest.raises(reactdb.errors.StorageMoved) as caught:
        db.table("games").insert({"id": "new"})
    assert not isinstance(caught.value, reactdb.OutcomeUnknown)


def a_read(db: Any) -> None:
    """One that needs a connection of its own."""
    read_with_a_new_connection(db)


def read_with_a_new_connection(db: Any) -> None:
    """Reads one in another use up the connections that there are: this thread's and that of the thread that follows the file."""
    with pytest.raises(reactdb.errors.StorageMoved), ExitStack() as reads:
        for _ in range(4):
            reads.enter_context(session_of(db).engine.snapshot())


def closing(db: Any) -> None:
    """Nobody had time to tell the feeds what a write has noticed."""
    a_write(db)
    db.close()


NOTICERS: list[Callable[[Any], None]] = [
    a_write,
    a_write_that_finds_nothing_to_change,
    a_transaction,
    a_compaction,
    a_checkpoint,
    a_repair_after_a_failed_flush,
    a_read,
    closing,
]


@pytest.fixture(params=NOTICERS, ids=lambda noticer: noticer.__name__)
def noticer(request: Any) -> Any:
    return request.param


# ---------------------------------------------------------------------------------------------------------------
# The law


def ends_with(kind: type[Exception], ears: list[Recorder]) -> None:
    for ear in ears:
        ear.wait_for_end(PATIENCE_S)
        assert [kind] == [type(error) for error in ear.errors]
        assert 0 == ear.completions


def test_every_kind_of_listener_hears_who_ever_noticed_that_the_file_was_moved(db, noticer, nobody_looks):
    games = db.table("games")
    scheduler = EventLoopScheduler()
    feeds = [
        games.changes(),
        games.get(1).changes(include_initial=True),
        games.filter(row["score"] > 3).changes(squash=60),
        games.order_by("score")
        .limit(3)
        .changes(include_initial=True, include_offsets=True, on_overflow="spill"),
        games.count().changes(),
        games.changes().union(games.get(2).changes()),
        games.changes().filter(row["new_val"]["score"] > 100),
        db.changes(),
    ]
    ears = [Recorder(feed) for feed in feeds] + [Recorder(feed, scheduler=scheduler) for feed in feeds]
    # Two that are alike share a queue.
    ears += [Recorder(games.changes()), Recorder(games.changes())]
    cursors = [feed.cursor() for feed in feeds]
    # One that somebody waits for.
    waited_for = games.changes().cursor()
    told: list[str] = []
    waiting = threading.Thread(target=lambda: told.append(how_it_ends(waited_for)))
    waiting.start()
    board = reactdb.LiveList(games.order_by("score").limit(3))

    move(db)
    noticer(db)

    ends_with(reactdb.errors.StorageMoved, ears)
    for cursor in cursors:
        with pytest.raises(reactdb.errors.StorageMoved):
            while True:
                cursor.next(timeout=PATIENCE_S)
    waiting.join(PATIENCE_S)
    assert ["StorageMoved"] == told
    assert isinstance(board.error, reactdb.errors.StorageMoved)
    assert is_clean(db)
    db.close()
    scheduler.dispose()
    # Closing tells nobody anything more.
    assert [1] * len(ears) == [len(ear.errors) + ear.completions for ear in ears]


def how_it_ends(cursor: Any) -> str:
    try:
        for _ in cursor:
            pass
    except reactdb.ReactDBError as error:
        return type(error).__name__
    return "completed"


def test_a_coroutine_hears_it_too(db, noticer, nobody_looks):
    games = db.table("games")

    async def follow(feed: Any, is_following: asyncio.Event) -> str:
        cursor = aiter(feed)
        is_following.set()
        try:
            async for _ in cursor:
                pass
        except reactdb.ReactDBError as error:
            return type(error).__name__
        return "completed"

    async def main() -> list[str]:
        feeds = [
            games.changes(),
            games.order_by("score").limit(3).changes(include_initial=True),
            games.changes(squash=60),
        ]
        following = [asyncio.Event() for _ in feeds]
        tasks = [asyncio.create_task(follow(*one)) for one in zip(feeds, following, strict=True)]
        for one in following:
            await one.wait()
        move(db)
        await asyncio.to_thread(noticer, db)
        return await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE_S)

    assert ["StorageMoved"] * 3 == asyncio.run(main())


def test_feeds_that_nobody_asks_and_that_read_on_from_the_log_have_ended_too(db, noticer, nobody_looks):
    games = db.table("games")
    behind = games.changes(since=0).cursor()
    spilled = games.changes(changefeed_queue_size=2, on_overflow="spill").cursor()
    for n in range(100, 110):
        games.insert({"id": n})
    ear = Recorder(games.changes())
    move(db)
    noticer(db)
    ends_with(reactdb.errors.StorageMoved, [ear])

    assert is_clean(db)
    for cursor in (behind, spilled):
        assert "StorageMoved" == how_it_ends(cursor)


@pytest.mark.parametrize("read_only", [False, True])
def test_where_nobody_uses_the_file_it_is_noticed_by_whoever_follows_it(db, read_only):
    with reactdb.connect(db.path, read_only=read_only) as other:
        feeds = [
            other.table("games").changes(),
            other.table("games").order_by("score").limit(2).changes(squash=60),
        ]
        ears = [Recorder(feed) for feed in feeds]
        behind = other.table("games").changes(since=0).cursor()
        move(db)

        ends_with(reactdb.errors.StorageMoved, ears)
        assert "StorageMoved" == how_it_ends(behind)


def test_a_handle_that_only_reads_ends_its_feeds_when_it_is_closed_after_the_file_was_moved(
    tmp_path, nobody_looks
):
    path = tmp_path / "a.db"
    with reactdb.connect(path) as db:
        db.table_create("games")
        reader = reactdb.connect(path, read_only=True)
        ear = Recorder(reader.table("games").changes())
        move(db)
        read_with_a_new_connection(reader)
        reader.close()

        ends_with(reactdb.errors.StorageMoved, [ear])


def test_a_feed_that_is_opened_while_somebody_notices_is_not_left_over(tmp_path, nobody_looks, monkeypatch):
    """It is registered already, and the file is not followed yet."""
    with reactdb.connect(tmp_path / "a.db") as db:
        games = db.table_create("games")
        feeds = hub(db)
        follow = feeds._update_following

        def notice_first() -> None:
            monkeypatch.setattr(feeds, "_update_following", follow)
            move(db)
            a_write(db)
            follow()

        monkeypatch.setattr(feeds, "_update_following", notice_first, raising=False)
        ear = Recorder(games.changes())

        ends_with(reactdb.errors.StorageMoved, [ear])


def test_damage_that_a_write_meets_ends_the_feeds_because_nothing_will_come_from_this_handle_any_more(
    tmp_path,
):
    path = tmp_path / "a.db"
    with reactdb.connect(path) as db:
        db.table_create("games").insert([{"id": n, "text": f"text {n}"} for n in range(3)])
        db.table_create("others").insert({"id": 1})
    path.write_bytes(path.read_bytes().replace(b"text 1", b"text 7"))

    with reactdb.connect(path) as db:
        ears = [Recorder(db.table("games").changes()), Recorder(db.table("others").changes(squash=60))]
        cursor = db.changes().cursor()
        with pytest.raises(reactdb.CorruptDatabase):
            db.table("games").get(1).run()
        # A read that meets it says so to who reads; other documents go on being told.
        db.table("others").insert({"id": 2})
        ears[0].on_next({})
        assert [[], []] == [ear.errors for ear in ears]
        with pytest.raises(reactdb.CorruptDatabase):
            db.table("games").get(1).update({"score": 1})

        ends_with(reactdb.CorruptDatabase, ears)
        assert "CorruptDatabase" == how_it_ends(cursor)


def test_what_sqlite_calls_damage_ends_the_feeds_when_the_next_write_finds_it_there_still(tmp_path):
    """Of a disk that cannot be read for a moment it says the same."""
    path = tmp_path / "a.db"
    with reactdb.connect(path) as db:
        db.table_create("games").insert([{"id": n, "score": n} for n in range(10)])
        db.table("games").index_create("score")
        db.table_create("others")
        (root,) = (
            session_of(db)
            .engine.writer.connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'entries'")
            .fetchone()
        )
    data = bytearray(path.read_bytes())
    data[(root - 1) * 4096] = 0
    path.write_bytes(data)

    with reactdb.connect(path) as db:
        ear = Recorder(db.table("others").changes())
        with pytest.raises(reactdb.CorruptDatabase) as caught:
            db.table("games").get(1).update({"score": 100})
        assert isinstance(caught.value.__cause__, sqlite.SQLiteError)
        with pytest.raises(reactdb.CorruptDatabase, match="nothing is written any more"):
            db.table("others").insert({"id": 1})

        ends_with(reactdb.CorruptDatabase, [ear])


def test_feeds_of_a_file_that_cannot_be_read_for_long_end(db, monkeypatch):
    monkeypatch.setattr(follow, "FAILING_S", 0.0)

    def fail(watched: Any) -> bool:
        raise sqlite.sqlite3.OperationalError("disk I/O error")

    ear = Recorder(db.table("games").changes())
    monkeypatch.setattr(Engine, "has_news", fail)

    ends_with(reactdb.errors.StorageError, [ear])


def test_a_lock_that_another_process_holds_is_no_error_of_the_file(db, monkeypatch):
    monkeypatch.setattr(follow, "FAILING_S", 0.0)
    polled = threading.Semaphore(0)

    def fail(watched: Any) -> bool:
        polled.release()
        raise sqlite.sqlite3.OperationalError("database is locked")

    ear = Recorder(db.table("games").changes())
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "has_news", fail)
        for _ in range(5):
            assert polled.acquire(timeout=PATIENCE_S)
    db.table("games").insert({"id": "new"})

    ear.wait(1, PATIENCE_S)
    assert [] == ear.errors


def test_all_of_it_fits_into_the_second_that_is_promised():
    longest_s = max(follow.SLOW_S, follow.REPORTED_S)
    assert follow.LOOK_S + longest_s < LAW_S
    # A file counts as unreadable after `FAILING_S`, which the first failed look may note late.
    assert longest_s + follow.BUSY_S < LAW_S


# ---------------------------------------------------------------------------------------------------------------
# What a write says that has noticed


def test_a_write_that_had_made_its_commit_says_that_it_may_be_there(db):
    move(db)
    with pytest.raises(reactdb.errors.MovedAtCommit, match="may be there, or not") as caught:
        db.table("games").insert({"id": "new"})
    assert isinstance(caught.value, reactdb.OutcomeUnknown)
    with pytest.raises(reactdb.errors.StorageMoved) as caught_next:
        db.table("games").insert({"id": "newer"})
    assert not isinstance(caught_next.value, reactdb.OutcomeUnknown)
    db.close()

    with reactdb.connect(f"{db.path}.away") as moved:
        keys = {document["id"] for document in moved.table("games")}
    assert "newer" not in keys


def test_a_write_that_is_there_is_not_refused_as_if_it_were_not(tmp_path, monkeypatch):
    """A copy is put into the place of the file between a COMMIT and the look that follows it."""
    path = tmp_path / "a.db"
    with reactdb.connect(path) as db:
        games = db.table_create("games")
        games.insert({"id": 1})
        look = session_of(db).engine.guard.look

        def replaced_just_now() -> Any:
            with sqlite.sqlite3.connect(tmp_path / "copy.db") as copy, sqlite.sqlite3.connect(path) as source:
                source.backup(copy)
            copy.close()
            source.close()
            os.replace(tmp_path / "copy.db", path)
            monkeypatch.undo()
            return look()

        monkeypatch.setattr(type(session_of(db).engine.guard), "look", lambda guard: replaced_just_now())
        with pytest.raises(reactdb.OutcomeUnknown) as caught:
            games.insert({"id": 2})
        assert isinstance(caught.value, reactdb.errors.StorageMoved)
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)

    with sqlite.sqlite3.connect(path) as copy:
        assert (2,) == copy.execute("SELECT count(*) FROM heads").fetchone()
    copy.close()
