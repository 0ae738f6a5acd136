"""PouchDB, the real one, in Node: programs that talk with a server, and print what they found."""

from __future__ import annotations

import json
import select
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

# Nothing that a program prints is waited for longer, even on a busy machine.
PATIENCE_S = 60.0

FOLDER = Path(__file__).resolve().parents[2] / "pouchdb"
PRELUDE = """
const PouchDB = require("./pouch.js");
const url = process.argv[1], print = value => process.stdout.write(JSON.stringify(value) + "\\n");
const memory = name => new PouchDB(name, {adapter: "memory"});
const heard = (emitter, event) => new Promise((done, failed) => { emitter.once(event, done); emitter.once("error", failed); });
const until = async (found, what) => {
  for (let i = 0; i < 2400; i++) {
    const value = await found();
    if (value) return value;
    await new Promise(r => setTimeout(r, 25));
  }
  throw new Error("never: " + (what || found));
};
const program = async () => {
"""
END = """
};
program().then(() => process.exit(0), error => { console.error(error); process.exit(1); });
"""

needs_pouchdb = [
    pytest.mark.node,
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("node") is None or not (FOLDER / "node_modules" / "pouchdb-core").exists(),
        reason="Node or its packages are missing: run `npm ci` in tests/pouchdb",
    ),
]


def run_pouchdb(program: str, url: str, timeout_s: float = 2 * PATIENCE_S) -> list[Any]:
    """What a program prints, one value a line. `url`, `memory(name)`, `print(value)` and `PouchDB` are there."""
    done = subprocess.run(
        ["node", "-e", PRELUDE + program + END, url],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stderr), done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@contextmanager
def running_pouchdb(program: str, url: str) -> Iterator[subprocess.Popen[str]]:
    """The program while it runs. It is ended with the block."""
    process = subprocess.Popen(
        ["node", "-e", PRELUDE + program + END, url],
        cwd=FOLDER,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def is_telling(process: subprocess.Popen[str], within_s: float) -> bool:
    """Whether a running program has printed something, of which nothing was read yet."""
    return bool(select.select([process.stdout], [], [], within_s)[0])


def next_of(process: subprocess.Popen[str]) -> Any:
    """The next value that a running program prints."""
    assert process.stdout is not None
    watch = threading.Timer(PATIENCE_S, process.kill)
    watch.start()
    try:
        line = process.stdout.readline()
    finally:
        watch.cancel()
    if not line:
        process.wait(timeout=PATIENCE_S)
        assert process.stderr is not None
        raise AssertionError(process.stderr.read())
    return json.loads(line)
