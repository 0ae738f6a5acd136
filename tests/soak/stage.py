"""The stage: starts actors, kills and stops some of them at random, starts them again, and measures their resources.

Rule of this file: it ends only processes that it has started, by their process id.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path

from . import actors
from .actors import Orders

ROOT = Path(__file__).resolve().parent.parent.parent


class Actor:
    """One process. `method`: "spawn" starts a program, "fork" forks this one, with its database open."""

    def __init__(self, orders: Orders, method: str, python: str = sys.executable) -> None:
        self.orders = orders
        self.method = method
        self.python = python
        self.code: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.begin()

    def begin(self) -> None:
        self.code = None
        self.errors = Path(self.orders.folder, f"{self.orders.name}.{self.orders.life}.errors")
        errors = os.open(self.errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        if self.method == "fork":
            with warnings.catch_warnings():
                # Newer Pythons warn of threads, which is what is tried here.
                warnings.simplefilter("ignore", DeprecationWarning)
                self.pid = os.fork()
            if self.pid == 0:
                code = 1
                try:
                    os.dup2(errors, 2)
                    actors.run(self.orders)
                    code = 0
                except BaseException:
                    import traceback

                    traceback.print_exc()
                finally:
                    sys.stderr.flush()
                    os._exit(code)
        else:
            self._process = subprocess.Popen(
                [self.python, "-m", "tests.soak.actors", actors.as_text(self.orders)],
                stderr=errors,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            self.pid = self._process.pid
        os.close(errors)

    def poll(self) -> int | None:
        """Its exit code, None while it runs; negative: the signal that ended it."""
        if self.code is None:
            if self._process is not None:
                self.code = self._process.poll()
            else:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.code = os.waitstatus_to_exitcode(status)
        return self.code

    @property
    def has_begun(self) -> bool:
        """It has the file open in this life, or has ended already."""
        return self.orders.begun.exists() or self.poll() is not None

    def wait(self, seconds: float) -> int | None:
        end = time.monotonic() + seconds
        while self.poll() is None and time.monotonic() < end:
            time.sleep(0.005)
        return self.code

    def signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait(10)

    def restart(self) -> None:
        self.orders = replace(self.orders, life=self.orders.life + 1)
        self.begin()


@dataclass
class Usage:
    """What a process takes, over time: (seconds, resident bytes, open files, threads)."""

    samples: list[tuple[float, int, int, int]] = field(default_factory=list)

    def look(self, pid: int, now: float) -> None:
        try:
            resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            files = len(os.listdir(f"/proc/{pid}/fd"))
            threads = len(os.listdir(f"/proc/{pid}/task"))
        except (OSError, IndexError):
            return
        self.samples.append((now, resident, files, threads))

    def trends(self, name: str) -> list[str]:
        """What has grown from the second to the last quarter of the time, by more than chance."""
        if len(self.samples) < 20:
            return []
        quarter = len(self.samples) // 4
        early, late = self.samples[quarter : 2 * quarter], self.samples[-quarter:]

        def middle(samples: list[tuple[float, int, int, int]], place: int) -> float:
            return float(sorted(sample[place] for sample in samples)[len(samples) // 2])  # type: ignore[arg-type]

        found = []
        for place, what, factor, slack in (
            (1, "resident bytes", 1.2, 16 << 20),
            (2, "open files", 1.2, 4),
            (3, "threads", 1.0, 3),
        ):
            before, after = middle(early, place), middle(late, place)
            if after > before * factor + slack:
                found.append(f"{name}: {what} grew from {before:,.0f} to {after:,.0f}")
        return found


class Stage:
    """All actors of one scenario, in one folder."""

    def __init__(self, folder: str, seed: int) -> None:
        self.folder = Path(folder)
        self.actors: list[Actor] = []
        self.chance = random.Random(seed)
        self.kills = 0
        self.stops = 0
        self.problems: list[str] = []
        self.usage: dict[str, Usage] = {}
        self.wal_bytes: list[int] = []

    def start(self, orders: Orders, method: str = "spawn", python: str = sys.executable) -> Actor:
        actor = Actor(orders, method, python)
        self.actors.append(actor)
        return actor

    def play(self, seconds: float, *, kill_every_s: float | None, sample_every_s: float = 0.5) -> None:
        """Let them work; kill one now and then, or stop it for a moment, and start it again.

        The time begins when all have begun: to start a program takes as long as a short run.
        """
        self._let_all_begin()
        start = time.monotonic()
        next_kill = start + (kill_every_s or seconds * 2)
        next_sample = start
        while (now := time.monotonic()) < start + seconds and not self.problems:
            if now >= next_sample:
                next_sample = now + sample_every_s
                for actor in self.actors:
                    self.usage.setdefault(actor.orders.name, Usage()).look(actor.pid, now - start)
                self.wal_bytes.append(self.wal_now())
            if kill_every_s is not None and now >= next_kill:
                next_kill = now + kill_every_s * self.chance.uniform(0.3, 1.7)
                self._strike(self.chance.choice(self.actors))
            for actor in self.actors:
                if actor.poll() is not None:
                    self.complain(actor)
            time.sleep(0.01)
        self._let_all_begin()

    def _let_all_begin(self) -> None:
        end = time.monotonic() + 60
        while not all(actor.has_begun for actor in self.actors) and time.monotonic() < end:
            time.sleep(0.02)

    def _strike(self, actor: Actor) -> None:
        if self.chance.random() < 0.2:
            actor.signal(signal.SIGSTOP)
            time.sleep(0.1)
            actor.signal(signal.SIGCONT)
            self.stops += 1
            return
        actor.kill()
        self.kills += 1
        actor.restart()

    def wal_now(self) -> int:
        try:
            return os.stat(self.folder / "soak.db-wal").st_size
        except OSError:
            return 0

    def complain(self, actor: Actor) -> None:
        told = actor.errors.read_text(errors="replace")[-1500:]
        self.problems.append(f"{actor.orders.name} ended with {actor.code}: {told}")

    def end(self, actor: Actor, seconds: float) -> None:
        """Wait until it ends by itself."""
        if actor.wait(seconds) != 0:
            self.complain(actor)
            actor.kill()

    def kill_all(self) -> None:
        for actor in self.actors:
            actor.signal(signal.SIGCONT)
            actor.kill()
