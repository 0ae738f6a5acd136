"""The stage: starts the processes of a round, carries out its schedule, and hears what they say.

Rule of this file: it ends only processes that it has started. It knows nothing of what is right.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tests.crash.killing import PATIENCE_S, context_of
from tests.faults.shim import Fault, Faults
from tests.swarm import schedule, workers
from tests.swarm.schedule import SERVERS, TASK, TASKS, WORKERS, Action, Round
from tests.swarm.workers import Orders

Hear = Callable[[list[Any]], None]


class Worker:
    """One process, and the pipe by which it says what it does."""

    def __init__(self, context: Any, orders: Orders) -> None:
        self.name = orders.name
        self.is_killed = False
        self.pipe, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=workers.live, args=(orders, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def signal(self, number: signal.Signals) -> None:
        if self.process.is_alive():
            os.kill(self.process.pid, number)

    def kill(self) -> None:
        self.is_killed = True
        self.process.kill()
        self.process.join()


class Stage:
    """See the head of this file."""

    def __init__(self, folder: Path, seed: int, faults: Faults, hear: Hear, mistake: str = "") -> None:
        """`hear` is given each message, and what is wrong with a process as an "error"."""
        self.context = context_of(workers.__name__)
        self.folder = folder
        self.seed = seed
        self.faults = faults
        self.mistake = mistake
        self.hear = hear
        self.token: str | None = None
        self.lives = 0
        self.done: Counter[str] = Counter()
        self.workers: list[Worker] = []
        self.round = 0

    def play(self, round: Round, since: str | None) -> None:
        """A round, to its end. `since`: where the follower goes on."""
        self.round, self.token = round.number, since
        for name in WORKERS:
            self.start(name)
        begun = time.monotonic()
        try:
            for action in round.actions:
                self.listen(begun + action.at_s)
                self.carry_out(action)
            self.listen(begun + schedule.ROUND_S)
            self.end(round)
        finally:
            self.stop()

    def start(self, name: str, **task: Any) -> None:
        self.lives += 1
        orders = Orders(
            name,
            str(self.folder),
            self.seed,
            self.round,
            self.lives,
            self.mistake,
            self.token if name == "follower" else None,
            **task,
        )
        self.workers.append(Worker(self.context, orders))

    def carry_out(self, action: Action) -> None:
        self.done[action.what] += 1
        if action.what in TASKS:
            self.start(TASK, task=action.what, value=action.value)
        elif action.what in (schedule.KILL, schedule.STOP, schedule.GO_ON):
            for worker in [one for one in self.workers if one.name == action.who]:
                self.strike(worker, action)
        elif action.what == schedule.DISK_FULL:
            self.faults.arm(Fault(str(action.value), errno.ENOSPC, is_sticky=True), threads="all")
        elif action.what == schedule.DISK_FREE:
            self.faults.lift()
        elif action.what == schedule.SLOW_FLUSHES:
            self.faults.slow_flushes(float(action.value or 0))
        else:
            self.faults.set_clock(int(action.value or 0))

    def strike(self, worker: Worker, action: Action) -> None:
        if action.what == schedule.STOP:
            worker.signal(signal.SIGSTOP)
        elif action.what == schedule.GO_ON:
            worker.signal(signal.SIGCONT)
        else:
            worker.kill()
            self.collect(worker)
            if worker.name != TASK:
                self.start(worker.name)

    # -----------------------------------------------------------------------------------------------------------
    # What they say

    def listen(self, until: float) -> None:
        """Hear what is said, until a moment."""
        while (left := until - time.monotonic()) > 0:
            pipes: dict[Any, Worker] = {worker.pipe: worker for worker in self.workers}
            for pipe in wait(list(pipes), timeout=left):
                if not self.take(pipe):  # type: ignore[arg-type]
                    self.collect(pipes[pipe])

    def take(self, pipe: Connection) -> bool:
        """One message. False: the process has ended."""
        try:
            words = json.loads(pipe.recv_bytes())
        except EOFError:
            return False
        if words[0] in ("told", "begins"):
            self.token = words[-1]
        elif words[0] == "lost":
            self.token = None
        self.hear(words)
        return True

    def collect(self, worker: Worker) -> None:
        """The rest of what a process said that has ended."""
        while self.take(worker.pipe):
            pass
        worker.pipe.close()
        worker.process.join(PATIENCE_S)
        self.workers.remove(worker)
        code = worker.process.exitcode
        if code != 0 and not worker.is_killed:
            self.hear(["error", f"{worker.name} ended with {code}"])

    # -----------------------------------------------------------------------------------------------------------
    # The end of a round

    def end(self, round: Round) -> None:
        """Without any fault: all end by themselves, the servers last, or all are killed."""
        self.calm()
        (self.folder / f"stop-{round.number}").touch()
        if round.is_killed:
            return
        end = time.monotonic() + PATIENCE_S
        self.listen_while(lambda: any(one.name not in SERVERS for one in self.workers), end)
        (self.folder / f"close-{round.number}").touch()
        self.listen_while(lambda: bool(self.workers), end)
        for worker in self.workers:
            self.hear(["error", f"{worker.name} has not ended after {PATIENCE_S:.0f} s"])

    def listen_while(self, is_true: Callable[[], bool], end: float) -> None:
        while is_true() and time.monotonic() < end:
            self.listen(min(end, time.monotonic() + 0.02))

    def calm(self) -> None:
        self.faults.lift()
        self.faults.slow_flushes(0)
        self.faults.set_clock(0)
        for worker in self.workers:
            worker.signal(signal.SIGCONT)

    def stop(self) -> None:
        """Kill all that are left."""
        self.calm()
        for worker in list(self.workers):
            worker.kill()
            self.collect(worker)
