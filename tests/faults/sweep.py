"""The sweep: an operation is repeated, and each time another system call under it fails, until a run meets no fault.

After each run, the promises are checked:

    the error        it is one of reactdb's, below StorageError, and its message names the operation
    all or nothing   the state is the one before, or (if the operation returned, or its outcome is unknown) has all of it
    decided          a process that opens the file after this one was killed reads the same as this one after the error
    told             the feeds delivered exactly the changes that are in the log, each once
    usable           without the fault the same handle can do the operation, so can another one, and the doctor finds nothing

Rule of this file: a broken promise is the exception `Broken`, and so is any error of the check itself.
"""

from __future__ import annotations

import errno
import gzip
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

import reactdb
from reactdb.database import Database
from reactdb.errors import OutcomeUnknown, StorageError
from reactdb.store.file import sqlite
from reactdb.store.tools import doctor
from tests.faults.operations import Operation, State, fill, state_of
from tests.faults.shim import Fault, Faults

# Seconds that another thread may take to close a file.
PATIENCE_S = 5.0

# What can fail, and how. A lock that cannot be had is waited for, so that the databases here have little patience.
SWEPT = [
    ("open", errno.EMFILE),
    ("open", errno.EACCES),
    ("read", errno.EIO),
    ("write", errno.EIO),
    ("write", errno.ENOSPC),
    ("short write", errno.ENOSPC),
    ("sync", errno.EIO),
    ("truncate", errno.EIO),
    ("lock", errno.ENOLCK),
    ("mmap", errno.ENOMEM),
    ("unlink", errno.EIO),
]
BUSY_TIMEOUT_S = 0.02
# An operation that makes more calls than this is not deterministic, or does not end.
MOST_CALLS = 5_000


class Broken(Exception):
    """A promise was not kept."""


@dataclass
class Tally:
    """What a sweep has seen."""

    cases: int = 0
    failed: int = 0
    absorbed: int = 0
    unknown: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.cases += other.cases
        self.failed += other.failed
        self.absorbed += other.absorbed
        self.unknown += other.unknown
        self.broken += other.broken
        for name, count in other.errors.items():
            self.errors[name] = self.errors.get(name, 0) + count


def leave_behind(path: Path) -> None:
    """A file that `fill` has filled, as a process leaves it that dies with all of it still in its write-ahead log."""
    code = (
        "import os, sys; from pathlib import Path; import reactdb; from tests.faults import operations\n"
        "path = Path(sys.argv[1]); db = reactdb.connect(path); operations.fill(path); os._exit(0)"
    )
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, env=plain)
    path.with_name(path.name + "-shm").unlink()


class Sweep:
    """One operation's sweep, in a folder of its own."""

    def __init__(self, operation: Operation, folder: Path, faults: Faults) -> None:
        self.operation = operation
        self.folder = folder
        self.faults = faults
        self._number = 0
        self._template = folder / "template.db"
        if operation.kept is not None:
            for suffix in ("", "-wal"):
                source = operation.kept.with_name(operation.kept.name.removesuffix(".gz") + f"{suffix}.gz")
                if source.exists():
                    Path(f"{self._template}{suffix}").write_bytes(gzip.decompress(source.read_bytes()))
        elif operation.has_log:
            leave_behind(self._template)
        elif not operation.is_new:
            fill(self._template)
        self.before, self.after = self._states()

    def _states(self) -> tuple[State, State]:
        """What is there before and after the operation where nothing fails."""
        path = self._fresh()
        if self.operation.opens:
            before = {"seq": 0} if self.operation.is_new else self._state_of_file(path)
            self.operation.act(None, path)  # type: ignore[arg-type]
        else:
            with self._connect(path) as db:
                self.operation.before(db)
                before = state_of(db)
                self.operation.act(db, path)
        after = self._state_of_file(path)
        self._remove(path)
        return before, after

    def _fresh(self) -> Path:
        self._number += 1
        path = self.folder / f"case{self._number}.db"
        for suffix in ("", "-wal"):
            if (source := Path(f"{self._template}{suffix}")).exists():
                shutil.copyfile(source, f"{path}{suffix}")
        return path

    def _connect(self, path: Path) -> Database:
        return reactdb.connect(path, busy_timeout=BUSY_TIMEOUT_S)

    @staticmethod
    def _remove(path: Path) -> None:
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)

    @staticmethod
    def _state_of_file(path: Path) -> State:
        with reactdb.connect(path, busy_timeout=1.0) as db:
            return state_of(db)

    # -----------------------------------------------------------------------------------------------------------

    def faults_of(
        self, call: str, error: int, is_sticky: bool, growth: float
    ) -> Iterator[tuple[Fault, Tally]]:
        """Every case of one kind of fault: the n-th call fails, for n = 1, 2, ... until the operation makes fewer calls.

        `growth`: 1 for every n; with more, each is so many times the one before.
        """
        nth = 1
        while nth < MOST_CALLS:
            fault = Fault(call, error, nth, is_sticky)
            tally = Tally()
            has_fired = self.one(fault, tally)
            if has_fired or tally.broken:
                yield fault, tally
            if not has_fired:
                return
            nth = max(nth + 1, int(nth * growth))
        raise Broken(f"{self.operation.name}: more than {MOST_CALLS} calls")

    def one(self, fault: Fault, tally: Tally) -> bool:
        """One case. Whether the fault struck; what came of it goes into the tally."""
        path = self._fresh()
        open_files = len(os.listdir("/proc/self/fd"))
        try:
            play = self._open if self.operation.opens else self._use
            with left_open() as connections:
                has_fired = play(path, fault, tally)
                self._examine(path)
            if connections and not fault.is_sticky:
                raise Broken("a connection was not closed, though the log could be made sure of")
            for connection in connections:
                connection.close()
            left = len(os.listdir("/proc/self/fd")) - open_files
            end = time.monotonic() + PATIENCE_S
            while left > 0 and time.monotonic() < end:
                # The thread that follows files may have one open for a moment.
                time.sleep(0.001)
                left = len(os.listdir("/proc/self/fd")) - open_files
            if left > 0:
                raise Broken(f"{left} open files are left behind")
        except Exception as error:
            said = str(error) if isinstance(error, Broken) else f"then, {type(error).__name__}: {error}"
            tally.broken.append(f"{self.operation.name}: {fault}: {said}")
            has_fired = bool(self.faults.control.fired)
        finally:
            self.faults.lift()
            self._remove(path)
        tally.cases += has_fired
        return has_fired

    def _open(self, path: Path, fault: Fault, tally: Tally) -> bool:
        """An operation that opens the file itself."""
        failure = self._act(None, path, fault)
        has_fired = self._judge(failure, tally)
        found = self._state_of_file(path)
        if found not in self._allowed(failure):
            raise Broken(f"there is now {brief(found)}, after {failure!r}")
        if self.operation.is_new and found != self.after:
            with reactdb.connect(path) as db:
                db.table_create("games", exist_ok=True).insert(self.after["games"]["documents"])
        elif failure is not None and not self.operation.is_new:
            self.operation.act(None, path)  # type: ignore[arg-type]
        return has_fired

    def _use(self, path: Path, fault: Fault, tally: Tally) -> bool:
        """An operation on an open database, with a feed on all of it."""
        operation = self.operation
        heard: list[dict[str, Any]] = []
        ends: list[Any] = []
        db = self._connect(path)
        try:
            operation.before(db)
            start = self.before["seq"]
            db.changes(include_seq=True).subscribe(heard.append, ends.append, lambda: ends.append(None))
            failure = self._act(db, path, fault)
            has_fired = self._judge(failure, tally)
            told = [event["seq"] for event in heard]
            if operation.closes:
                return has_fired
            found = state_of(db)
            if found not in self._allowed(failure):
                raise Broken(f"there is now {brief(found)}, after {failure!r}")
            if failure is not None:
                if told and found == self.before:
                    raise Broken(f"feeds were told of {told}, which did not happen")
                self._examine_image(path, found, failure)
                if found == self.before:
                    operation.act(db, path)
                    again = state_of(db)
                    if again != self.after:
                        raise Broken(f"done again when the fault was gone, there is {brief(again)}")
            db.table("games").insert({"id": "later"})
            self._examine_feed(db, start, heard, ends, fault)
        finally:
            self.faults.lift()
            db.close()
        after = self._state_of_file(path)
        after["games"]["documents"] = [one for one in after["games"]["documents"] if one["id"] != "later"]
        after["seq"] -= 1
        if after != self.after:
            raise Broken(f"opened again, there is {brief(after)}")
        return has_fired

    def _act(self, db: Database | None, path: Path, fault: Fault) -> BaseException | None:
        """The operation under the fault; what it raised."""
        try:
            with self.faults.during(fault):
                self.operation.act(db, path)  # type: ignore[arg-type]
        except Exception as error:
            return error
        return None

    def _judge(self, failure: BaseException | None, tally: Tally) -> bool:
        """Whether the fault struck, and whether what was raised is what may be raised."""
        has_fired = bool(self.faults.control.fired)
        if failure is None:
            tally.absorbed += has_fired
            return has_fired
        if not has_fired:
            raise Broken(f"no call failed, but it raised {failure!r}") from failure
        if not isinstance(failure, StorageError):
            raise Broken(f"it raised {failure!r}, which is no StorageError") from failure
        message = str(failure)
        if not any(message.startswith(word) for word in self.operation.words):
            raise Broken(f"{type(failure).__name__} does not say what was going on: {message}") from failure
        tally.failed += 1
        tally.unknown += isinstance(failure, OutcomeUnknown)
        name = type(failure).__name__
        tally.errors[name] = tally.errors.get(name, 0) + 1
        return True

    def _allowed(self, failure: BaseException | None) -> list[State]:
        """The states that there may be, after what was raised."""
        if failure is None:
            return [self.after]
        if self.operation.is_new:
            # Several commits: the file, the table, which has a place in the log, and the document.
            games = {**self.after["games"], "documents": []}
            return [{"seq": 0}, {"seq": self.after["seq"] - 1, "games": games}, self.after]
        return [self.before, self.after] if isinstance(failure, OutcomeUnknown) else [self.before]

    def _examine_image(self, path: Path, found: State, failure: BaseException) -> None:
        """The files as they are now are what is left if the process is killed now."""
        image = path.with_name("image.db")
        for suffix in ("", "-wal"):
            # This drops the locks of the process, which nobody else contends for.
            shutil.copyfile(f"{path}{suffix}", f"{image}{suffix}")
        try:
            left = self._state_of_file(image)
        finally:
            self._remove(image)
        if left != found:
            raise Broken(f"{failure!r}; read: {brief(found)}; but killed then, there is {brief(left)}")

    def _examine_feed(
        self, db: Database, start: int, heard: list[dict[str, Any]], ends: list[Any], fault: Fault
    ) -> None:
        """The feed has delivered what is in the log; a table that is dropped, as the deletion of each of its documents.

        The feed reads the documents of a dropped table when it delivers them. Where that read fails, it ends with the error.
        """
        changes = list(db.log(since=start))
        has_drop = any(one.catalogue is not None and one.kind == "table_drop" for one in changes)
        if has_drop and fault.call == "read" and ends and isinstance(ends[0], StorageError):
            return
        if ends:
            raise Broken(f"the feed ended: {ends}")
        told = [(event["seq"], event["table"], event["old_val"], event["new_val"]) for event in heard]
        logged: list[tuple[int, str, Any, Any]] = []
        for one in changes:
            if one.catalogue is None:
                logged.append((one.seq, one.table, one.old_val, one.new_val))
            elif one.kind == "table_drop":
                documents = sorted(self.before[one.table]["documents"], key=itemgetter("id"))
                logged += [(one.seq, one.table, document, None) for document in documents]
        if told != logged:
            raise Broken(
                f"feeds were told of {[one[0] for one in told]}, the log has {[one[0] for one in logged]}"
            )

    def _examine(self, path: Path) -> None:
        """Opened anew, everything is right."""
        if self.operation.closes and (found := self._state_of_file(path)) != self.after:
            raise Broken(f"closed, there is {brief(found)}")
        for name, findings in doctor.examine(str(path)):
            problems = [finding for finding in findings if finding.level == "problem"]
            if problems:
                raise Broken(f"the doctor's {name}: {problems[0]}")


@contextmanager
def left_open() -> Iterator[list[sqlite.Connection]]:
    """The connections that the store leaves open on purpose: where a flush has failed and goes on failing, closing the last one
    would copy a log that nobody can rely on. They would pile up over the cases, so that each ends with closing its own."""
    found: list[sqlite.Connection] = []
    before, sqlite.keep_open = sqlite.keep_open, found.append
    try:
        yield found
    finally:
        sqlite.keep_open = before


def brief(state: State) -> str:
    """A state in a line."""
    tables = {name: len(found["documents"]) for name, found in state.items() if name not in ("seq", "blobs")}
    return f"seq {state['seq']} and documents {tables}"
