"""Faults of more than one call: a disk that is full only for checkpoints, a reader that does not end, a file
that cannot be opened, memory that runs out, a clock that goes back.

Rule of this file: a scenario is a function of (folder, faults), and raises if a promise is broken.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import itertools
import logging
import os
import resource
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import reactdb
from reactdb.database import Database
from reactdb.errors import CannotOpen, DatabaseBusy, DiskFull, OutcomeUnknown, StorageError, WalTooLarge
from reactdb.session import Session, session_of
from reactdb.store import checkpoints, follow
from reactdb.store.engine import Engine
from reactdb.store.tools import doctor
from tests.faults.operations import document, fill
from tests.faults.shim import Fault, Faults
from tests.faults.sweep import Broken

PATIENCE_S = 20.0


class Skipped(Exception):
    """The scenario cannot be played here; the message says why."""


def check(is_so: bool, sentence: str) -> None:
    if not is_so:
        raise Broken(sentence)


def wait_until(condition: Callable[[], bool], sentence: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        check(time.monotonic() < end, f"after {PATIENCE_S:g} s still not: {sentence}")
        time.sleep(0.002)


def refused(kind: type[Exception], act: Callable[[], Any], *words: str) -> str:
    """The message of the error that is raised."""
    try:
        act()
    except kind as error:
        for word in words:
            check(word in str(error), f"{type(error).__name__} does not say {word!r}: {error}")
        return str(error)
    except Exception as error:
        raise Broken(f"it raised {error!r}, not {kind.__name__}") from error
    raise Broken(f"it did not raise {kind.__name__}")


@contextmanager
def heard_on_the_logger() -> Iterator[list[str]]:
    """Warnings and errors that reactdb logs."""
    lines: list[str] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    keeper = Keeper(logging.WARNING)
    logging.getLogger("reactdb").addHandler(keeper)
    try:
        yield lines
    finally:
        logging.getLogger("reactdb").removeHandler(keeper)


@contextmanager
def changed(thing: Any, **values: Any) -> Iterator[None]:
    """Other values of a module's constants."""
    before = {name: getattr(thing, name) for name in values}
    for name, value in values.items():
        setattr(thing, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(thing, name, value)


def small_log() -> Any:
    """As if memory were dear: a checkpoint every 64 KiB, a warning at 256, no time between two tries, and little waiting."""
    return changed(
        checkpoints,
        CHECKPOINT_BYTES=65_536,
        RETRY_BYTES=65_536,
        WARN_BYTES=262_144,
        SMALL_BYTES=8_192,
        RETRY_S=0.0,
        MOST_WAIT_S=0.02,
    )


def is_healthy(path: Path) -> None:
    for name, findings in doctor.examine(str(path)):
        problems = [finding for finding in findings if finding.level == "problem"]
        check(not problems, f"the doctor's {name}: {problems[:1]}")


@contextmanager
def another_process(path: Path) -> Iterator[Database]:
    """The file opened once more, by an engine that knows nothing of the first."""
    database = Database(Session(Engine(str(path), read_only=False, busy_timeout_s=5.0), "soft"))
    try:
        yield database
    finally:
        database.close()


# ---------------------------------------------------------------------------------------------------------------
# Checkpoints


def checkpoints_that_fail(folder: Path, faults: Faults, fault: Fault, word: str) -> None:
    path = folder / "a.db"
    with small_log(), heard_on_the_logger() as lines:
        db = reactdb.connect(path, durability="soft", wal_limit_bytes=1_048_576)
        with db:
            games = db.table_create("games")
            games.insert({"id": "first"})
            check(db.stats()["checkpoint"]["is_healthy"], "it is not healthy from the start")
            written = 0

            def write(times: int = 1) -> None:
                nonlocal written
                for _ in range(times):
                    games.insert({"id": written, "text": "x" * 20_000})
                    written += 1

            with faults.during(fault):
                while written < 10:
                    write()
                figures = db.stats()["checkpoint"]
                check(not figures["is_healthy"], "checkpoints fail, but the figures say they do not")
                check(figures["failed"] >= 1 and figures["failing_s"] > 0, f"the figures are {figures}")
                check(word in figures["error"], f"the figures say {figures['error']!r}, not {word!r}")
                refused(WalTooLarge, lambda: write(200), "insert", "limit of 1048576", word)
                refused(WalTooLarge, write)
                check(
                    db.stats()["checkpoint"]["is_refusing_writes"], "it does not say that it refuses writes"
                )
                check(db.stats()["wal_bytes"] > 1_048_576, f"the log has {db.stats()['wal_bytes']} bytes")
                check(len(games.run()) == written + 1, "what was acknowledged cannot be read")
            write()
            figures = db.stats()
            check(figures["checkpoint"]["is_healthy"], f"the fault is gone, but: {figures['checkpoint']}")
            check(figures["wal_bytes"] < 131_072, f"the log still has {figures['wal_bytes']} bytes")
            check(sum("checkpoint of" in line for line in lines) == 1, f"logged: {lines}")
            check(sum("has grown" in line for line in lines) == 1, f"logged: {lines}")
            check(sum("are refused" in line for line in lines) == 1, f"logged: {lines}")
            check(sum("succeed again" in line for line in lines) == 1, f"logged: {lines}")
    with reactdb.connect(path) as db:
        check(len(db.table("games").run()) == written + 1, "documents are lost")
    is_healthy(path)


def disk_full_in_checkpoints_only(folder: Path, faults: Faults) -> None:
    """Commits go on, the figures and the logger tell of it, once, and at the limit writes are refused until it is over."""
    fault = Fault("write", errno.ENOSPC, 1, True, ("file",))
    checkpoints_that_fail(folder, faults, fault, "no room left")


def no_sync_in_checkpoints_only(folder: Path, faults: Faults) -> None:
    """The same where the file cannot be flushed."""
    checkpoints_that_fail(folder, faults, Fault("sync", errno.EIO, 1, True, ("file",)), "I/O error")


def a_sync_that_fails_once(folder: Path, faults: Faults) -> None:
    """A checkpoint whose flush failed is done again whole, and what it copied is there after a crash."""
    path = folder / "a.db"
    with reactdb.connect(path) as db:
        games = db.table_create("games")
        games.insert([document(n) for n in range(50)])
        checkpoints = session_of(db).engine.writer.checkpoints  # type: ignore[union-attr]
        with faults.during(Fault("sync", errno.EIO, 1, False, ("file",))):
            check(not checkpoints.run(), "a checkpoint succeeded whose flush failed")
            check(not db.stats()["checkpoint"]["is_healthy"], "the figures do not say so")
            check(checkpoints.run(), "the next one failed")
        check(db.stats()["checkpoint"]["is_healthy"], "the figures do not say that it is over")
    is_healthy(path)


def long_reader(
    folder: Path, faults: Faults, begin: Callable[[Database, Path], Callable[[], None]], word: str
) -> None:
    path = folder / "a.db"
    with small_log(), heard_on_the_logger() as lines, reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games")
        games.insert({"id": "first"})
        end = begin(db, path)
        slowest = 0.0
        for n in range(60):
            started = time.monotonic()
            games.insert({"id": n, "text": "x" * 10_000})
            slowest = max(slowest, time.monotonic() - started)
        figures = db.stats()
        check(not figures["checkpoint"]["is_healthy"], "the figures do not tell of the reader")
        check(word in figures["checkpoint"]["error"], f"the figures say {figures['checkpoint']['error']!r}")
        check(
            any("has grown" in line and word in line for line in lines), f"no warning with {word!r}: {lines}"
        )
        check(slowest < 2, f"a write waited {slowest:.1f} s for a reader")
        end()
        for n in range(100, 110):
            games.insert({"id": n, "text": "x" * 10_000})
        figures = db.stats()
        check(figures["checkpoint"]["is_healthy"], f"the reader is gone, but: {figures['checkpoint']}")
        check(figures["wal_bytes"] < 262_144, f"the log still has {figures['wal_bytes']} bytes")
        check(len(lines) == 3, f"logged: {lines}")
    is_healthy(path)


def long_reader_of_another_program(folder: Path, faults: Faults) -> None:
    """A program that reads, with bare SQL, and does not finish: a warning, no writer waits, and it passes when it ends."""

    def begin(db: Database, path: Path) -> Callable[[], None]:
        code = (
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
            "c.execute('BEGIN'); c.execute('SELECT * FROM log').fetchone(); print('reading', flush=True); sys.stdin.read()"
        )
        child = subprocess.Popen(
            [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()

        def end() -> None:
            child.communicate()

        return end

    long_reader(folder, faults, begin, "a reader of another program keeps")


def long_reader_of_this_process(folder: Path, faults: Faults) -> None:
    """A read of this process that does not finish: its age is in the warning, and in the figures."""

    def begin(db: Database, path: Path) -> Callable[[], None]:
        inside, leave = threading.Event(), threading.Event()

        def read() -> None:
            with session_of(db).engine.snapshot() as snapshot:
                check(snapshot.seq > 0, "there is nothing to read")
                inside.set()
                leave.wait(PATIENCE_S)

        thread = threading.Thread(target=read)
        thread.start()
        inside.wait(PATIENCE_S)
        time.sleep(0.1)
        check(db.stats()["oldest_read_s"] >= 0.1, "the figures do not tell its age")

        def end() -> None:
            leave.set()
            thread.join(PATIENCE_S)
            check(db.stats()["oldest_read_s"] < 0.1, "the figures still tell its age")

        return end

    long_reader(folder, faults, begin, "a read of this process that began")


# ---------------------------------------------------------------------------------------------------------------
# Many writers


def writers_that_share_a_commit(folder: Path, faults: Faults) -> None:
    """Threads whose writes go into one commit, while calls fail: each hears of its own write what is so, and feeds of all. A read
    that succeeds has what was acknowledged before."""
    path = folder / "a.db"
    told: dict[int, str] = {}
    wrong: list[str] = []
    seen: set[int] = set()
    enough = threading.Event()
    with reactdb.connect(path) as db:
        games = db.table_create("games")
        heard: list[Any] = []
        games.changes(include_seq=True).subscribe(heard.append)

        def write(thread: int) -> None:
            for n in itertools.count(thread * 1_000_000):
                if enough.is_set():
                    return
                try:
                    games.insert({"id": n, "text": "x" * 500})
                    told[n] = "there"
                except OutcomeUnknown:
                    told[n] = "unknown"
                except StorageError:
                    told[n] = "not there"
                except Exception as error:
                    wrong.append(f"a write raised {error!r}")
                    return

        def read() -> None:
            while any(writer.is_alive() for writer in writers):
                acknowledged = {n for n, word in told.copy().items() if word == "there"}
                try:
                    found = {one["id"] for one in games.run()}
                except StorageError:
                    continue
                except Exception as error:
                    wrong.append(f"a read raised {error!r}")
                    return
                if not found >= acknowledged:
                    wrong.append(
                        f"a read does not have {sorted(acknowledged - found)}, which was acknowledged"
                    )
                seen.update(found)

        writers = [threading.Thread(target=write, args=(number,)) for number in range(6)]
        threads = [*writers, *(threading.Thread(target=read) for _ in range(2))]
        for thread in threads:
            thread.start()
        calls = itertools.cycle(
            [
                ("sync", errno.EIO),
                ("write", errno.ENOSPC),
                ("write", errno.EIO),
                ("short write", errno.ENOSPC),
            ]
        )
        struck, latest = 0, time.monotonic() + PATIENCE_S
        for nth in itertools.cycle(range(1, 6)):
            # (Where faults strike quickly, perhaps no write has come through by then.)
            is_enough = struck >= 24 and "there" in list(told.values())
            if is_enough or wrong or time.monotonic() > latest:
                enough.set()
                break
            call, error = next(calls)
            faults.arm(Fault(call, error, nth), threads="all")
            end = time.monotonic() + 0.05
            while not faults.control.fired and time.monotonic() < end:
                time.sleep(0.0005)
            struck += faults.lift()
        for thread in threads:
            thread.join(PATIENCE_S)
        check(not wrong, "; ".join(wrong[:3]))
        check(struck >= 24, f"only {struck} faults struck")
        games.insert({"id": -1})
        found = {one["id"] for one in games.run()}
        check(seen <= found, f"reads had {sorted(seen - found)}, which are not there")
        for n, word in told.items():
            check(
                word == "unknown" or (n in found) == (word == "there"),
                f"{n} was told to be {word}, which is wrong",
            )
        outcomes = set(told.values())
        check("there" in outcomes and len(outcomes) > 1, f"writes heard only {outcomes}")
        check(
            [one["seq"] for one in heard] == [one.seq for one in db.log(table="games")],
            "feeds were told something else than the log",
        )
    with reactdb.connect(path) as db:
        check(
            {one["id"] for one in db.table("games").run()} == found, "opened again, something else is there"
        )
    is_healthy(path)


# ---------------------------------------------------------------------------------------------------------------
# Opening


def files_that_cannot_be_opened(folder: Path, faults: Faults) -> None:
    """One clear error that names the path and the reason, and nothing left open."""
    path = folder / "a.db"
    fill(path)
    (folder / "sub").mkdir()
    before = len(os.listdir("/proc/self/fd"))

    def attempt(name: str, *words: str, **options: Any) -> None:
        target = folder / name
        refused(CannotOpen, lambda: reactdb.connect(target, **options), str(target), *words)

    attempt("sub", "it is a folder")
    attempt("nowhere/a.db", "does not exist")
    attempt("a.db/b.db", "is not a folder")
    attempt("missing.db", "does not exist", read_only=True)
    with faults.during(Fault("open", errno.EACCES, 1, True)):
        attempt("a.db", "permission")
    with faults.during(Fault("open", errno.EMFILE, 1, True)):
        attempt("a.db")
    with faults.during(Fault("open", errno.EACCES, 1, True, ("shm",))):
        attempt("a.db", "permission")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        refusals = 0
        while True:
            try:
                reactdb.connect(path).close()
                break
            except CannotOpen as error:
                check(str(path) in str(error) and "too many open files" in str(error), f"it says {error}")
                refusals += 1
                os.close(held.pop())
        # The file, its log, and their shared memory.
        check(refusals >= 3, f"it opened with only {refusals} files to open")
    finally:
        for file in held:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    check(len(os.listdir("/proc/self/fd")) == before, "files are left open")
    with reactdb.connect(path) as db:
        check(db.table("games").count().run() == 35, "documents are lost")
    is_healthy(path)


def no_shared_memory(folder: Path, faults: Faults) -> None:
    """What several connections share cannot be mapped: an error that says so, and it opens when it can."""
    path = folder / "a.db"
    fill(path)
    for call in ("mmap", "truncate", "write"):
        with faults.during(Fault(call, errno.ENOMEM, 1, True, ("shm",))):
            try:
                reactdb.connect(path).close()
            except StorageError as error:
                check("shared memory" in str(error), f"{call}: {error}")
            else:
                check(faults.control.fired == 0, f"{call}: it opened")
    is_healthy(path)


def no_locks(folder: Path, faults: Faults) -> None:
    """ENOLCK: an error that says that locks do not work."""
    path = folder / "a.db"
    fill(path)
    with faults.during(Fault("lock", errno.ENOLCK, 1, True, ("file",))):
        refused(
            DatabaseBusy, lambda: reactdb.connect(path, busy_timeout=0.05), str(path), "locks do not work"
        )
    is_healthy(path)


def no_locks_on_the_shared_memory(folder: Path, faults: Faults) -> None:
    """The same while it is open. SQLite tries for ten seconds, whatever the timeout."""
    path = folder / "a.db"
    fill(path)
    with reactdb.connect(path, busy_timeout=0.05) as db:
        started = time.monotonic()
        with faults.during(Fault("lock", errno.ENOLCK, 1, True, ("shm",))):
            refused(DatabaseBusy, lambda: db.table("games").insert({"id": 100}), "locks do not work")
        check(time.monotonic() - started < PATIENCE_S, "it took too long")
        db.table("games").insert({"id": 100})
    is_healthy(path)


# ---------------------------------------------------------------------------------------------------------------
# Reading


def reads_that_fail(folder: Path, faults: Faults) -> None:
    """A read raises, a feed that reads the log ends with the error, others go on, and the database stays open."""
    path = folder / "a.db"
    with reactdb.connect(path) as db:
        games = db.table_create("games")
        games.insert([document(n) for n in range(400)])
    with reactdb.connect(path) as db:
        games = db.table("games")
        live: list[Any] = []
        ends: list[Any] = []
        told: list[Any] = []
        games.changes(include_seq=True).subscribe(live.append, ends.append)
        with faults.during(Fault("read", errno.EIO, 1, True, ("file", "log")), threads="all"):
            refused(StorageError, games.run, "read", str(path))
            refused(StorageError, lambda: games.get(300).run(), "read", str(path))
            try:
                games.changes(since=0).subscribe(told.append, told.append)
            except StorageError as error:
                told.append(error)
        check(bool(told), "a feed that cannot read the log has not ended")
        check(isinstance(told[-1], StorageError), f"the feed ended with {told[-1]!r}")
        check(not ends, f"another feed ended: {ends}")
        games.insert({"id": "later"})
        check([one["seq"] for one in live] == [402], f"the other feed heard {live}")
        check(len(games.run()) == 401, "documents are lost")
        again: list[Any] = []
        games.changes(since=0).subscribe(again.append, again.append)
        check(len(again) == 401, f"a new feed heard {len(again)} changes")
    is_healthy(path)


def following_through_faults(folder: Path, faults: Faults) -> None:
    """Reads fail while another process writes: a feed hears of everything when they work again, in order, or ends with an
    error; it never just stays silent."""
    path = folder / "a.db"
    with reactdb.connect(path, durability="soft") as db, another_process(path) as other:
        games = db.table_create("games")
        heard: list[Any] = []
        ends: list[Any] = []
        games.changes(include_seq=True).subscribe(heard.append, ends.append)
        other.table("games").insert({"id": 0})
        wait_until(lambda: len(heard) == 1, "the feed hears of another process")
        written = 0

        def hears_all() -> bool:
            return len(heard) > written or bool(ends)

        # Sticky, until the poller has met it; and once, at each of the calls that it makes to find out and to read.
        kinds = [(call, 1, True) for call in ("read", "lock")] + [
            (call, nth, False) for call in ("read", "lock") for nth in range(1, 9)
        ]
        for call, nth, is_sticky in kinds:
            written += 20
            with faults.during(Fault(call, errno.EIO, nth, is_sticky), threads="but this"):
                other.table("games").insert([document(written + n) for n in range(20)])
                if is_sticky:
                    wait_until(lambda: faults.control.fired > 1, "the poller meets the fault")
                else:
                    wait_until(
                        lambda: bool(faults.control.fired or hears_all()), "the fault strikes, or does not"
                    )
            wait_until(hears_all, f"the feed hears of what was written, or ends ({call} {nth})")
        if not ends:
            check(
                [one["seq"] for one in heard] == list(range(2, written + 3)), "it heard it in another order"
            )
    is_healthy(path)


def a_log_that_cannot_be_read_for_long(folder: Path, faults: Faults) -> None:
    """A feed that cannot be told what another process writes ends with the error; the database stays open."""
    path = folder / "a.db"
    with (
        changed(follow, FAILING_S=0.1),
        reactdb.connect(path, durability="soft") as db,
        another_process(path) as other,
    ):
        games = db.table_create("games")
        ends: list[Any] = []
        games.changes().subscribe(lambda event: None, ends.append)
        with faults.during(Fault("read", errno.EIO, 1, True), threads="but this"):
            other.table("games").insert([document(n) for n in range(20)])
            wait_until(lambda: bool(ends), "the feed ends")
        check(isinstance(ends[0], StorageError), f"it ended with {ends[0]!r}")
        check(str(ends[0]).startswith("read: "), f"it ended with {ends[0]}")
        check(games.count().run() == 20, "the database does not go on")
        heard: list[Any] = []
        games.changes().subscribe(heard.append)
        other.table("games").insert({"id": "later"})
        wait_until(lambda: len(heard) == 1, "a new feed hears of another process")
    is_healthy(path)


# ---------------------------------------------------------------------------------------------------------------
# Room, memory, time


def room_on_a_full_disk(folder: Path, faults: Faults) -> None:
    """A disk that is full to the last byte: deleting and compacting say what to do; with a little room, compacting works, and
    deleting too."""
    small = folder / "small"
    small.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(small)], capture_output=True
    ).returncode:
        raise Skipped("a small file system cannot be mounted here")
    try:
        path = small / "a.db"
        with reactdb.connect(path, durability="soft") as db:
            games = db.table_create("games")
            for turn in range(3):
                games.insert([{**document(n), "turn": turn} for n in range(500)], conflict="replace")
            session_of(db).engine.writer.checkpoints.run()  # type: ignore[union-attr]
            with open(small / "ballast", "wb") as ballast, open(small / "more", "wb") as more:
                more.write(b"x" * 300_000)
                more.flush()
                try:
                    while True:
                        ballast.write(b"x" * 4096)
                        ballast.flush()
                except OSError:
                    pass
                os.close(os.dup(ballast.fileno()))
                try:
                    ballast.close()
                except OSError:
                    pass
            refused(DiskFull, games.delete, "delete", "nothing was written")
            refused(DiskFull, lambda: db.compact(keep=0), "compact", "make that much on this disk")
            check(games.count().run() == 500, "documents are lost")
            (small / "more").unlink()
            removed = db.compact(keep=0)
            check(removed["entries"] == 1001, f"removed {removed}")
            games.between(0, 50).delete()
            check(games.count().run() == 450, "they were not deleted")
        is_healthy(path)
    finally:
        subprocess.run(["umount", "-l", str(small)], check=False)


def memory_that_runs_out(folder: Path, faults: Faults) -> None:
    """SQLite gets no more memory, at any point of a write: an error, nothing that was acknowledged is lost, and it goes on."""
    name = ctypes.util.find_library("sqlite3")
    if name is None:
        raise Skipped("SQLite is not a shared library here")
    library = ctypes.CDLL(name)
    library.sqlite3_libversion.restype = ctypes.c_char_p
    if library.sqlite3_libversion().decode() != sqlite3.sqlite_version:
        raise Skipped("Python has an SQLite of its own")
    library.sqlite3_hard_heap_limit64.argtypes = [ctypes.c_int64]
    library.sqlite3_hard_heap_limit64.restype = ctypes.c_int64
    library.sqlite3_memory_used.restype = ctypes.c_int64
    path = folder / "a.db"
    failed = 0
    with reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games")
        games.index_create("n")
        heard: list[Any] = []
        games.changes(include_seq=True).subscribe(heard.append)
        acknowledged = 0
        for extra in [*range(0, 4_000, 250), *range(4_000, 200_000, 9_000)]:
            library.sqlite3_hard_heap_limit64(library.sqlite3_memory_used() + extra)
            done = 0
            try:
                for _ in range(30):
                    games.insert({"id": acknowledged, "n": acknowledged % 7, "text": "x" * 3_000})
                    acknowledged += 1
                    done += 1
            except (MemoryError, StorageError):
                failed += 1
            finally:
                library.sqlite3_hard_heap_limit64(0)
            check(
                games.count().run() == acknowledged,
                f"{acknowledged} were acknowledged, {games.count().run()} are there",
            )
        games.insert({"id": "later", "n": 0})
        check([one["seq"] for one in heard] == list(range(3, acknowledged + 4)), "feeds were told otherwise")
    check(failed >= 5, f"only {failed} times memory ran out")
    is_healthy(path)


def a_clock_that_goes_back(folder: Path, faults: Faults) -> None:
    """Times in the log never go back, not in another process nor after opening again; nothing waits by that clock."""

    now_ns = 2_000_000_000_000_000_000
    path = folder / "a.db"
    with changed(time, time_ns=lambda: now_ns):
        for _ in range(2):
            with reactdb.connect(path, durability="soft") as db, another_process(path) as other:
                games = db.table_create("games", exist_ok=True)
                for step in (0, -3_600, 1, -86_400, 50_000):
                    now_ns += step * 1_000_000_000
                    games.insert({})
                    other.table("games").insert({})
                times = [change.time for change in db.log()]
                check(times == sorted(times), f"times go back: {times}")
    with (
        reactdb.connect(path, durability="soft", busy_timeout=0.05) as db,
        another_process(path) as other,
        db.table("games").changes(squash=0.05).cursor() as cursor,
    ):
        # Every look at the clock finds it a minute earlier.
        passing = itertools.count(2_000_000_000, -60)
        with changed(time, time=lambda: float(next(passing)), time_ns=lambda: next(passing) * 1_000_000_000):
            started = time.monotonic()
            refused(TimeoutError, lambda: cursor.next(timeout=0.05))
            with other.transaction():
                other.table("games").insert({"id": "other"})
                refused(DatabaseBusy, lambda: db.table("games").insert({"id": "mine"}))
            check(
                cursor.next(timeout=PATIENCE_S)["new_val"]["id"] == "other", "the feed heard something else"
            )
            check(time.monotonic() - started < 5, "a wait went by the wall clock")
    is_healthy(path)


# They take ten seconds and more, and are left out of the quick run.
SLOW = {no_locks_on_the_shared_memory}
SCENARIOS: list[Callable[[Path, Faults], None]] = [
    disk_full_in_checkpoints_only,
    no_sync_in_checkpoints_only,
    a_sync_that_fails_once,
    long_reader_of_another_program,
    long_reader_of_this_process,
    writers_that_share_a_commit,
    files_that_cannot_be_opened,
    no_shared_memory,
    no_locks,
    no_locks_on_the_shared_memory,
    reads_that_fail,
    following_through_faults,
    a_log_that_cannot_be_read_for_long,
    room_on_a_full_disk,
    memory_that_runs_out,
    a_clock_that_goes_back,
]
