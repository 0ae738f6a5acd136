"""A writer, and an exporter that is killed with kill -9 at random moments, each time with committed chunks before.

In the end a run that nobody kills brings the tables up to date, and they are compared with the file, which the exporter has no
part in: the documents (current), each change once (changes), the versions (scd2).
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import reactdb
from tests.lake import answers

ROOT = Path(__file__).resolve().parent.parent.parent
TABLE = "games"
PAUSE_S = 0.01
# The commits that the writer makes for each exporter, and for each line that the exporter prints. So the number of changes
# depends on the number of kills, and not on the speed of the machine: a slow exporter would never come to the end of the log.
WRITES_AT_START = 40
WRITES_PER_LINE = 15
DEADLINE_S = 180
MOST_COMMITS = 4
# The longest time after a commit at which a process is killed. A run of a few chunks takes about as long.
MOST_DELAY_S = 0.3


class Failed(AssertionError):
    """A process did not do what it should, or a table is wrong."""


@dataclass
class Seen:
    """What has happened.

    Attributes:
        changes: In the log of the file.
        moments: For each kill, the commits that the killed process had made, and the line it had printed last.
    """

    changes: int = 0
    moments: list[tuple[int, str]] = field(default_factory=list)


class Writer(threading.Thread):
    """Writes to the file: it makes a given number of commits, and each has several inserts, updates and deletes."""

    def __init__(self, db: reactdb.Database, seed: int) -> None:
        super().__init__(daemon=True)
        self._db = db
        self._chance = random.Random(seed)
        self._is_stopped = threading.Event()
        self._writes = threading.Semaphore(0)

    def run(self) -> None:
        games = self._db.table(TABLE)
        number = 0
        while not self._is_stopped.wait(PAUSE_S):
            if not self._writes.acquire(blocking=False):
                continue
            number += 1
            with self._db.transaction():
                for _ in range(self._chance.randint(1, 5)):
                    self._write(games, number)

    def _write(self, games: Any, number: int) -> None:
        chance = self._chance
        key = chance.randint(0, 200)
        if chance.random() < 0.25:
            games.get(key).delete()
            return
        document: dict[str, Any] = {"id": key, "n": number, "text": "x" * chance.randint(0, 80)}
        # Columns come late, widen, and meet values of another type.
        if number > 50 and chance.random() < 0.2:
            document["level"] = chance.choice([1, 2.5]) if number > 100 else 1
        if number > 150 and chance.random() < 0.05:
            document["n"] = "many"
        games.insert(document, conflict=chance.choice(["replace", "update"]))

    def write_more(self, commits: int) -> None:
        """Let it make so many commits more. It does not wait for them."""
        self._writes.release(commits)

    def stop(self) -> None:
        self._is_stopped.set()
        self.join()


def run(folder: Path, kills: int, *, format_: str, seed: int, say: Any = None) -> Seen:
    """All of it, in an empty folder.

    Raises:
        Failed.
    """
    chance = random.Random(seed)
    seen = Seen()
    file = folder / "source.db"
    with reactdb.connect(file, durability="soft") as db:
        db.table_create(TABLE).insert([{"id": n, "n": 0, "text": "begin"} for n in range(100)])
        writer = Writer(db, seed)
        writer.start()
        try:
            for number in range(kills):
                moment = kill_one(folder, file, format_, seed + number, chance, writer)
                seen.moments.append(moment)
                if say is not None:
                    say(f"kill {number + 1}: after {moment[0]} commits; last: {moment[1]}")
        finally:
            writer.stop()
        with start(folder, file, format_, seed, rounds=1) as child:
            output, errors = child.communicate(timeout=DEADLINE_S)
        if child.returncode:
            raise Failed(errors)
        if say is not None:
            say(f"the run that nobody kills: {output.count('commit')} commits")
        compare(db, folder, format_, output)
        seen.changes = len(answers.wanted_changes(db, TABLE))
    return seen


def start(folder: Path, file: Path, format_: str, seed: int, rounds: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable, "-m", "tests.lake_kills.child", str(file), str(folder), format_, str(seed),
            str(rounds),
        ],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def kill_one(
    folder: Path, file: Path, format_: str, seed: int, chance: random.Random, writer: Writer
) -> tuple[int, str]:
    """Start an exporter, and kill it some time after one of its commits. Meanwhile the writer goes on."""
    wanted = chance.randint(1, MOST_COMMITS)
    writer.write_more(WRITES_AT_START)
    commits, last = 0, ""
    with start(folder, file, format_, seed, rounds=0) as child:
        deadline = threading.Timer(DEADLINE_S, child.kill)
        deadline.start()
        try:
            assert child.stdout is not None
            assert child.stderr is not None
            for line in child.stdout:
                last = line.strip()
                writer.write_more(WRITES_PER_LINE)
                commits += line.startswith("commit")
                if commits == wanted:
                    break
            else:
                raise Failed(child.stderr.read() or f"no {wanted} commits in {DEADLINE_S} s")
            try:
                child.wait(chance.uniform(0, MOST_DELAY_S))
                raise Failed(child.stderr.read())
            except subprocess.TimeoutExpired:
                child.kill()
            rest = child.stdout.read().splitlines()
        finally:
            deadline.cancel()
            child.kill()
    return commits + sum(line.startswith("commit") for line in rest), rest[-1] if rest else last


def compare(db: reactdb.Database, folder: Path, format_: str, output: str) -> None:
    """Compare the tables with the file.

    Raises:
        Failed.
    """
    kinds = {
        "current": (answers.wanted_current, answers.current),
        "changes": (answers.wanted_changes, answers.changes),
        "scd2": (answers.wanted_versions, answers.versions),
    }
    for mode, (wanted, found) in kinds.items():
        path = folder / mode
        if format_ == "parquet" and mode != "changes":
            path = path / "latest"
        right, rows = wanted(db, TABLE), found(answers.read(str(path), format_, TABLE))
        if right != rows:
            raise Failed(f"{mode}: {len(rows)} rows, and {len(right)} are right; the last run:\n{output}")
