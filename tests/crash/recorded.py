"""The program that is recorded: carries out a scenario on a database, and marks each step and event in the trace.

Its marks, each a line of JSON (see `recording.py`):

    {"begin": n}                write n is about to be called
    {"done": n, "token": t}     it has returned, and then `db.token` was t
    {"told": n}                 a feed was told of a change that write n has made
    {"failed": n}               it raised an error

Run by `recorder.py`: jobs come as lines of JSON, and each is answered with a line.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import sys
import threading
import traceback
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import reactdb

from .mutants import MUTANTS
from .recorder import Job
from .recording import MARKS
from .scenarios import Scenario, scenario_of
from .settings import set_in_store
from .workload import Reopen, Together, Upkeep, Write

FILE = "a.db"


class Program:
    """One scenario, being carried out."""

    def __init__(self, scenario: Scenario, seed: int, folder: str) -> None:
        self.scenario = scenario
        self.path = os.path.join(folder, FILE)
        self.steps = scenario.steps(Random(f"{scenario.name}/{seed}"))
        self.marks = os.open(os.path.join(folder, MARKS), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        # Of the writes, those that were committed, in the order in which they were.
        self.order: list[int] = []

    def mark(self, **said: Any) -> None:
        os.write(self.marks, json.dumps(said).encode() + b"\n")

    def open(self) -> Any:
        scenario = self.scenario
        failures = 0
        while True:
            try:
                database = reactdb.connect(
                    self.path,
                    durability=scenario.durability,
                    retention=scenario.retention,
                )
                break
            except reactdb.errors.StorageError:
                # The flushes that are to fail were of those that make a file: whoever meets that, tries again.
                failures += 1
                if scenario.failing is None or failures > scenario.failures:
                    raise
        if scenario.is_heard:
            database.changes().subscribe(self._hear)
        return database

    def _hear(self, change: Any) -> None:
        if change.get("new_val"):
            self.mark(told=change["new_val"]["step"])

    def carry_out(self) -> None:
        database = self.open()
        for step in self.steps:
            if isinstance(step, Write):
                if self.write(database, step):
                    self.order.append(step.number)
            elif isinstance(step, Reopen):
                database.close()
                database = self.open()
            elif isinstance(step, Together):
                self.order += self.together(database, step)
            else:
                self.upkeep(database, step)
        database.close()

    def upkeep(self, database: Any, step: Upkeep) -> None:
        try:
            step.perform(database)
        except reactdb.errors.StorageError:
            if self.scenario.failing is None:
                raise

    def write(self, database: Any, write: Write) -> bool:
        """Whether it is written."""
        self.mark(begin=write.number)
        try:
            write.perform(database)
        except (reactdb.errors.StorageError, reactdb.TableNotFound):
            # Not found, because it could not be made.
            if self.scenario.failing is None:
                raise
            self.mark(failed=write.number)
            return False
        self.mark(done=write.number, token=database.token)
        return True

    def together(self, database: Any, step: Together) -> list[int]:
        """Carry out the lines at once. Returns: the writes in the order in which they were committed."""
        before = database.seq
        if step.by == "threads":
            threads = [threading.Thread(target=self.line, args=(database, line)) for line in step.lines]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        else:
            children = [fork(partial(self.line_of_a_process, line)) for line in step.lines]
            for child in children:
                wait_for(child)
        committed = [change.new_val["step"] for change in database.log(since=before)]
        return list(dict.fromkeys(committed))

    def line(self, database: Any, line: tuple[Write, ...]) -> None:
        for write in line:
            self.write(database, write)

    def line_of_a_process(self, line: tuple[Write, ...]) -> None:
        database = self.open()
        self.line(database, line)
        database.close()


def record(job: Job) -> None:
    logging.getLogger("reactdb").addHandler(logging.NullHandler())
    logging.getLogger("reactdb").propagate = False
    scenario = scenario_of(job.scenario)
    if scenario.checkpoint_bytes is not None:
        set_in_store("CHECKPOINT_BYTES", scenario.checkpoint_bytes)
    if scenario.cache_kib is not None:
        set_in_store("CACHE_KIB", scenario.cache_kib)
    if scenario.chunk_changes is not None:
        set_in_store("CHUNK_CHANGES", scenario.chunk_changes)
    if scenario.piece_bytes is not None:
        set_in_store("PIECE_BYTES", scenario.piece_bytes)
    if scenario.least_bytes is not None:
        set_in_store("LEAST_BYTES", scenario.least_bytes)
    set_in_store("RETAIN_EVERY", 10)
    if job.mutant:
        MUTANTS[job.mutant]()
    shim = ctypes.CDLL(None)
    if shim.recorder_begin(job.folder.encode(), job.trace.encode()):
        raise OSError(f"the trace {job.trace} cannot be written")
    if scenario.failing is not None:
        before = Random(f"{job.scenario}/{job.seed}/failing").randrange(20)
        shim.recorder_fail_sync(before, scenario.failures, scenario.failing.encode())
    program = Program(scenario, job.seed, job.folder)
    program.carry_out()
    Path(job.result).write_text(json.dumps({"order": program.order}))


def fork(work: Any) -> int:
    """The id of a child process that does the work."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def wait_for(child: int) -> None:
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError(f"the process ended with status {status}")


def main() -> None:
    for line in sys.stdin:
        try:
            wait_for(fork(partial(record, Job(**json.loads(line)))))
            answer = "done"
        except RuntimeError as error:
            answer = str(error)
        print(answer, flush=True)


if __name__ == "__main__":
    main()
