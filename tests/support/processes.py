"""Other processes, real and as good as real."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reactdb.database import Database
from reactdb.session import Session
from reactdb.store.engine import Engine

ROOT = Path(__file__).resolve().parents[2]


def run_python(program: str, *arguments: object, timeout_s: float = 60) -> str:
    """What a program prints, run in a process of its own. It must succeed, and complain of nothing."""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout


@contextmanager
def another_process(path: Path) -> Iterator[Database]:
    """The file opened once more, by an engine that knows nothing of the first: to SQLite, another process."""
    database = Database(Session(Engine(str(path), read_only=False, busy_timeout_s=5.0), "soft"))
    try:
        yield database
    finally:
        database.close()
