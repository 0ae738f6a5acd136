"""The command `reactdb serve`: it listens, prints its address, and stops on a signal."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import rethinkdb
from rethinkdb.errors import ReqlResourceLimitError

import reactdb

r = rethinkdb.RethinkDB()


def command(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "reactdb.cli", "serve", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def test_a_driver_uses_a_served_file(tmp_path: Path) -> None:
    file = str(tmp_path / "arena.db")
    server = command(file, "--rethinkdb", "--port", "0", "--password-env", "SESAME", SESAME="open")
    try:
        assert server.stdout is not None
        port = int(re.search(r":(\d+)$", server.stdout.readline().strip())[1])  # type: ignore[index]
        with r.connect("127.0.0.1", port, password="open") as connection:
            r.table_create("games").run(connection)
            r.table("games").insert({"id": 1}).run(connection)
    finally:
        server.send_signal(signal.SIGINT)
        output, errors = server.communicate(timeout=20)

    assert (0, "") == (server.returncode, errors)
    assert "stopped" in output
    with reactdb.connect(file) as db:
        assert [{"id": 1}] == db.table("games").run()


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ("--rethinkdb", ()),
        ("password", ("--rethinkdb", "--host", "0.0.0.0")),
        ("not set", ("--rethinkdb", "--password-env", "NO_SUCH_VARIABLE")),
    ],
)
def test_what_would_be_unsafe_or_unclear_is_refused(
    tmp_path: Path, words: str, arguments: tuple[str, ...]
) -> None:
    server = command(str(tmp_path / "arena.db"), *arguments)
    _, errors = server.communicate(timeout=20)

    assert 2 == server.returncode
    assert words in errors


def test_a_port_in_use_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = command(str(tmp_path / "arena.db"), "--rethinkdb", "--port", str(port))
        output, errors = server.communicate(timeout=20)

    assert (1, "") == (server.returncode, output)
    assert f"reactdb: port {port} on 127.0.0.1 is in use; choose another with --port\n" == errors


def test_the_command_says_how_long_a_query_may_take(tmp_path: Path) -> None:
    server = command(str(tmp_path / "arena.db"), "--rethinkdb", "--port", "0", "--query-timeout", "0.2")
    try:
        assert server.stdout is not None
        port = int(re.search(r":(\d+)$", server.stdout.readline().strip())[1])  # type: ignore[index]
        with r.connect("127.0.0.1", port) as connection:
            with pytest.raises(ReqlResourceLimitError, match=r"longer than the 0\.2 seconds"):
                r.range(10**12).sum().run(connection)
            assert 5 == r.expr(5).run(connection)
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=20)

    assert 0 == server.returncode
