"""Other processes: real ones, and engines that SQLite treats as other processes."""

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
    """Run a program in its own process, and return its output. It must succeed and write nothing to standard error."""
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
    """Open the file again with an engine that does not know the first one; to SQLite this is another process."""
    database = Database(Session(Engine(str(path), read_only=False, busy_timeout_s=5.0), "soft"))
    try:
        yield database
    finally:
        database.close()
