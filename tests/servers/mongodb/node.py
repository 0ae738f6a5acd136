"""MongoDB's driver for Node: programs that talk with a server, and print what they found."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

# Nothing that a program prints is waited for longer, even on a busy machine.
PATIENCE_S = 60.0

FOLDER = Path(__file__).resolve().parents[2] / "mongodb_node"
PRELUDE = """
const { MongoClient, ObjectId, Long, Double, Decimal128 } = require("mongodb");
const print = value => process.stdout.write(JSON.stringify(value) + "\\n");
const isWatching = async (cursors = 1) => {
  const opened = async () => (await client.db("admin").command({serverStatus: 1})).metrics.cursor.open.total;
  while (await opened() < cursors) await new Promise(resolve => setTimeout(resolve, 10));
};
let client;
const program = async () => {
client = new MongoClient(process.argv[1]);
await client.connect();
const orders = client.db("shop").collection("orders");
"""
END = """
await client.close();
};
program().then(() => process.exit(0), error => { console.error(error); process.exit(1); });
"""

needs_node = [
    pytest.mark.node,
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("node") is None or not (FOLDER / "node_modules" / "mongodb").exists(),
        reason="Node or its packages are missing: run `npm ci` in tests/mongodb_node",
    ),
]


def run_node(program: str, uri: str) -> list[Any]:
    """What a program prints, one value a line. `client`, `orders`, `print(value)` and `isWatching()`, which waits until the
    server has so many cursors, are there."""
    done = subprocess.run(
        ["node", "-e", PRELUDE + program + END, uri],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
