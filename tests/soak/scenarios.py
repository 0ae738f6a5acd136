"""The scenarios: which actors run, what is done to them, and what must be true afterwards.

Every scenario ends in the same way: the faults stop; within two seconds the followers have everything, a new process can write,
and the write-ahead log is small. Then the referee reads the reports.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import reactdb
from reactdb.session import session_of

from . import referee
from .actors import Orders, document
from .stage import ROOT, Stage

# Seconds within which everything is as if nothing had been, once the faults stop: as promised, and in a short run, which shares
# its machine with other tests.
RECOVERY_S = 2.0
SHORT_RECOVERY_S = 15.0


@dataclass(frozen=True)
class Options:
    seconds: float
    writers: int
    followers: int
    seed: int
    other_python: str | None = None
    is_long: bool = False

    @property
    def recovery_s(self) -> float:
        return RECOVERY_S if self.is_long else SHORT_RECOVERY_S


@dataclass(frozen=True)
class Result:
    """One line of figures, and what was wrong; `is_skipped`: it could not be tried here."""

    line: str
    problems: list[str]
    is_skipped: bool = False


def prepare(folder: str) -> reactdb.Database:
    db = reactdb.connect(os.path.join(folder, "soak.db"), durability="soft", busy_timeout=30)
    db.table_create("games").insert({"id": "counter", "n": 0})
    db.table_create("pairs")
    return db


def finish(stage: Stage, db: reactdb.Database, recovery_s: float) -> tuple[str, list[str]]:
    """The end of every scenario: see the head of this file. Returns figures and problems."""
    problems = stage.problems
    followers = [actor for actor in stage.actors if actor.orders.role in ("follow", "slow")]
    shards = [actor for actor in stage.actors if actor.orders.role == "shards"]
    others = [actor for actor in stage.actors if actor not in followers and actor not in shards]
    (stage.folder / "stop").touch()
    for actor in others:
        stage.end(actor, 60)
    start = time.monotonic()
    db.table("games").insert(document("last", 0, "the referee"))
    free_s = time.monotonic() - start
    final = db.seq
    (stage.folder / "final.new").write_text(str(final))
    os.rename(stage.folder / "final.new", stage.folder / "final")
    for actor in followers:
        stage.end(actor, 60)
    caught_up_s = time.monotonic() - start
    for actor in shards:
        stage.end(actor, 60)
    writer = session_of(db).engine.writer
    assert writer is not None
    writer.run_in_turn(writer.checkpoints.run)
    wal_bytes = stage.wal_now()
    if not problems:
        if free_s > recovery_s:
            problems.append(f"the write lock was free after {free_s:.1f} s only")
        if caught_up_s > recovery_s:
            problems.append(f"the followers had caught up after {caught_up_s:.1f} s only")
        if wal_bytes > 1 << 20:
            problems.append(f"the write-ahead log still has {wal_bytes:,} bytes")
    log, wrong = referee.the_log([actor.orders.report for actor in followers], final)
    documents, more = referee.replay(log)
    acknowledged, most = referee.judge_writers(
        [actor.orders.report for actor in stage.actors if actor.orders.role == "write"], log
    )
    problems += wrong + more + most
    if not acknowledged:
        problems.append("nothing was written: this was no trial")
    for actor in shards:
        problems += referee.judge_shards(actor.orders.report, log)
    path = db.path
    db.close()
    problems += referee.judge_file(path, log, documents)
    figures = (
        f"{final:,} changes, {acknowledged:,} acknowledged, {stage.kills} kills, {stage.stops} stops, "
        f"caught up in {caught_up_s:.2f} s, log at most {max(stage.wal_bytes, default=0) >> 20} MiB"
    )
    return figures, problems


def _crowd(stage: Stage, options: Options, method: str, keep: int = 50_000) -> None:
    """Writers of both durabilities, followers, somebody who compacts, somebody who checkpoints, somebody who dawdles."""

    def orders(role: str, number: int, **more: object) -> Orders:
        durability = ("hard", "soft")[number % 2]
        return Orders(
            role,
            f"{role}{number}",
            str(stage.folder),
            options.seed,
            durability=durability,
            keep=keep,
            **more,  # type: ignore[arg-type]
        )

    for number in range(options.followers):
        stage.start(orders("follow", number), method)
    for number in range(options.writers):
        stage.start(orders("write", number, has_bad_clock=number == 1, pause_s=0.002), method)
    for role in ("prune", "checkpoint", "dawdle"):
        stage.start(orders(role, 0), method)


def kills(options: Options, method: str) -> Result:
    """Everybody works, and is killed now and then, or stopped for a moment."""
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(folder, options.seed)
        try:
            db = prepare(folder)
            _crowd(stage, options, method)
            stage.play(options.seconds, kill_every_s=0.4)
            figures, problems = finish(stage, db, options.recovery_s)
        finally:
            stage.kill_all()
        return Result(figures, problems)


def kills_spawn(options: Options) -> Result:
    """Processes of their own, killed and started again."""
    return kills(options, "spawn")


def kills_fork(options: Options) -> Result:
    """Children of one process that has the file open itself, killed and forked again."""
    return kills(options, "fork")


def mixed_versions(options: Options) -> Result:
    """Half of them with another SQLite: that of --other-python, or the standard library's where pysqlite3 is installed."""
    if options.other_python is None:
        return Result("no other SQLite here (pysqlite3, or --other-python)", [], is_skipped=True)
    # One interpreter with two: then the others do without pysqlite3.
    is_one = options.other_python == sys.executable
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(folder, options.seed)

        def start(role: str, number: int, **more: Any) -> None:
            is_other = number % 2 == 1
            python = options.other_python if is_other else sys.executable
            orders = Orders(
                role,
                f"{role}{number}",
                folder,
                options.seed,
                is_plain=is_other and is_one,
                keep=50_000,
                **more,
            )
            stage.start(orders, python=python or sys.executable)

        try:
            db = prepare(folder)
            for number in range(max(2, options.followers)):
                start("follow", number)
            for number in range(max(2, options.writers)):
                start("write", number, durability="soft", pause_s=0.002)
            for number in range(2):
                start("checkpoint", number)
            start("prune", 0)
            stage.play(options.seconds, kill_every_s=0.5)
            figures, problems = finish(stage, db, options.recovery_s)
        finally:
            stage.kill_all()
        versions = [
            _sqlite_version(sys.executable, is_plain=False),
            _sqlite_version(options.other_python, is_plain=is_one),
        ]
        if len(set(versions)) == 1:
            problems.append(f"both have SQLite {versions[0]}")
        return Result(f"SQLite {' and '.join(versions)}: {figures}", problems)


def _sqlite_version(python: str, *, is_plain: bool) -> str:
    code = "import sys\nif sys.argv[1] == '1': sys.modules['pysqlite3'] = None\n"
    code += "from reactdb.store.file import sqlite\nprint('.'.join(map(str, sqlite.VERSION)))"
    done = subprocess.run(
        [python, "-c", code, str(int(is_plain))],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return done.stdout.strip() or "?"


def steady(options: Options) -> Result:
    """Nobody is killed: a hundred feeds, slow readers, a clock that is set back and forth. Does anything grow?"""
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(folder, options.seed)
        try:
            db = prepare(folder)
            stage.start(Orders("shards", "shards0", folder, options.seed))
            for number in range(options.followers):
                stage.start(Orders("follow", f"follow{number}", folder, options.seed))
            stage.start(Orders("slow", "slow0", folder, options.seed, pause_s=0.0005))
            for number in range(options.writers):
                durability = ("hard", "soft")[number % 2]
                orders = Orders(
                    "write",
                    f"write{number}",
                    folder,
                    options.seed,
                    durability=durability,
                    pause_s=0.03,
                    has_bad_clock=number % 2 == 0,
                )
                stage.start(orders)
            stage.start(Orders("prune", "prune0", folder, options.seed, keep=5_000))
            stage.start(Orders("dawdle", "dawdle0", folder, options.seed))
            stage.play(options.seconds, kill_every_s=None)
            # The slow one has a queue of its own making.
            figures, problems = finish(stage, db, recovery_s=30.0)
        finally:
            stage.kill_all()
        if options.is_long:
            for name, usage in stage.usage.items():
                problems += usage.trends(name)
            problems += _log_trend(stage.wal_bytes)
        most = max((max(one[1] for one in usage.samples) for usage in stage.usage.values()), default=0)
        return Result(f"{figures}, at most {most >> 20} MiB in a process", problems)


def _log_trend(sizes: list[int]) -> list[str]:
    quarter = len(sizes) // 4
    if quarter < 5:
        return []
    early, late = max(sizes[quarter : 2 * quarter]), max(sizes[-quarter:])
    if late > 1.5 * early + (32 << 20):
        return [f"the write-ahead log grew from {early:,} to {late:,} bytes"]
    return []


HOLDER = """
import sys, time, reactdb
db = reactdb.connect(sys.argv[1])
with db.transaction():
    db.table("games").insert({"id": "never"})
    print("held", flush=True)
    time.sleep(3600)
"""


def stopped_holder(options: Options) -> Result:
    """A process is stopped, then killed, with the write lock in hand: the others are refused in time, then free at once."""
    problems: list[str] = []
    rounds, refused_s, freed_s = 0, 0.0, 0.0
    end = time.monotonic() + min(options.seconds, 20)
    with tempfile.TemporaryDirectory() as folder:
        prepare(folder).close()
        path = os.path.join(folder, "soak.db")
        with reactdb.connect(path, busy_timeout=0.3, durability="soft") as db:
            games = db.table("games")
            while rounds < 3 or time.monotonic() < end:
                rounds += 1
                holder = subprocess.Popen(
                    [sys.executable, "-c", HOLDER, path],
                    stdout=subprocess.PIPE,
                    cwd=ROOT,
                    env={**os.environ, "PYTHONPATH": str(ROOT)},
                )
                try:
                    assert holder.stdout is not None
                    holder.stdout.readline()
                    holder.send_signal(signal.SIGSTOP)
                    start = time.monotonic()
                    try:
                        games.insert({"id": f"refused-{rounds}"})
                        problems.append("a write went through while another process had the lock")
                    except reactdb.DatabaseBusy:
                        refused_s = max(refused_s, time.monotonic() - start)
                    games.count().run()
                finally:
                    holder.kill()
                    holder.wait()
                    holder.stdout.close()
                start = time.monotonic()
                games.insert({"id": f"free-{rounds}"})
                freed_s = max(freed_s, time.monotonic() - start)
            if games.get("never").run() is not None or games.count().run() != rounds + 1:
                problems.append("what was not committed is there")
    if refused_s > 0.3 + options.recovery_s / 2:
        problems.append(f"DatabaseBusy came after {refused_s:.2f} s instead of 0.3")
    if freed_s > options.recovery_s / 2:
        problems.append(f"the lock of a killed process was in the way for {freed_s:.2f} s")
    return Result(
        f"{rounds} rounds, refused within {refused_s:.2f} s, free after {freed_s * 1000:.1f} ms", problems
    )


def latency(options: Options) -> Result:
    """From a commit in one process to a feed, and to `reactdb tail --follow`, in another."""
    from .latency import measure

    figures = measure(seconds=min(options.seconds, 60), seed=options.seed)
    # 50 ms is what is promised of an idle machine; this one may be anything but idle.
    problems = [f"{name}: p50 {p50:.1f} ms" for name, p50, _ in figures.latencies if p50 > 150]
    return Result(str(figures), problems)


SCENARIOS: dict[str, Callable[[Options], Result]] = {
    "kills-spawn": kills_spawn,
    "kills-fork": kills_fork,
    "mixed-versions": mixed_versions,
    "steady": steady,
    "stopped-holder": stopped_holder,
    "latency": latency,
}
