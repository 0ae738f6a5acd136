"""The command `reactdb serve`: it listens, prints its address, and stops on a signal."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import rethinkdb
from rethinkdb.errors import ReqlAuthError, ReqlResourceLimitError

import reactdb
from tests.support.certificates import make_certificate

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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ("--rethinkdb", ()),
        ("password", ("--rethinkdb", "--host", "0.0.0.0")),
        ("--users", ("--rethinkdb", "--host", "0.0.0.0")),
        ("not set", ("--rethinkdb", "--password-env", "NO_SUCH_VARIABLE")),
        ("give only one", ("--rethinkdb", "--port", "0", "--rethinkdb-port", "0")),
        ("both --certificate and --key", ("--rethinkdb", "--certificate", "server.pem")),
        ("both --certificate and --key", ("--rethinkdb", "--key", "server.key")),
        ("leave --user and --password-env out", ("--rethinkdb", "--users", "users.txt", "--user", "ann")),
        (
            "leave --user and --password-env out",
            ("--rethinkdb", "--users", "users.txt", "--password-env", "PATH"),
        ),
    ],
)
def test_what_would_be_unsafe_or_unclear_is_refused(
    tmp_path: Path, words: str, arguments: tuple[str, ...]
) -> None:
    server = command(str(tmp_path / "arena.db"), *arguments)
    _, errors = server.communicate(timeout=20)

    assert 2 == server.returncode
    assert words in errors


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sentence", "arguments"),
    [
        ("the file of users nobody.txt cannot be read: No such file", ("--users", "nobody.txt")),
        (
            "the certificate no.pem cannot be read: No such file",
            ("--certificate", "no.pem", "--key", "no.key"),
        ),
        (
            "203.0.113.9 is no address of this machine; choose another with --host",
            ("--host", "203.0.113.9", "--password-env", "PATH"),
        ),
    ],
)
def test_a_file_or_an_address_that_is_not_there_is_one_line(
    tmp_path: Path, sentence: str, arguments: tuple[str, ...]
) -> None:
    server = command(str(tmp_path / "arena.db"), "--rethinkdb", "--port", "0", *arguments)
    output, errors = server.communicate(timeout=20)

    assert (1, "") == (server.returncode, output)
    assert errors.startswith(f"reactdb: {sentence}")
    assert 1 == errors.count("\n")


@pytest.mark.filterwarnings(r"ignore:ssl\.:DeprecationWarning")
def test_the_command_speaks_tls_to_the_users_of_a_file(tmp_path: Path) -> None:
    made, users = make_certificate(tmp_path), tmp_path / "users.txt"
    added = subprocess.run(
        [sys.executable, "-m", "reactdb.servers.users", str(users), "ann"],
        input="sesame\n",
        capture_output=True,
        text=True,
    )
    assert (0, f"added ann in {users}\n") == (added.returncode, added.stdout)
    server = command(
        *(str(tmp_path / "arena.db"), "--rethinkdb", "--rethinkdb-port", "0", "--users", str(users)),
        *("--certificate", str(made.certificate), "--key", str(made.key)),
    )
    try:
        assert server.stdout is not None
        said = server.stdout.readline().strip()
        port = int(re.search(r":(\d+)$", said)[1])  # type: ignore[index]
        assert "over TLS" in said
        trusted = {"ca_certs": str(made.certificate)}
        with r.connect("localhost", port, user="ann", password="sesame", ssl=trusted) as connection:
            assert 5 == r.expr(5).run(connection)
        with pytest.raises(ReqlAuthError, match="Wrong password"):
            r.connect("localhost", port, user="ann", password="guess", ssl=trusted)
    finally:
        server.send_signal(signal.SIGTERM)
        output, errors = server.communicate(timeout=20)

    assert (0, "", "stopped\n") == (server.returncode, errors, output)


def test_a_port_in_use_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = command(str(tmp_path / "arena.db"), "--rethinkdb", "--port", str(port))
        output, errors = server.communicate(timeout=20)

    assert (1, "") == (server.returncode, output)
    assert f"reactdb: port {port} on 127.0.0.1 is in use; choose another with --port\n" == errors


def test_a_socket_that_cannot_be_made_is_one_line_and_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "s.sock"
    server = command(str(tmp_path / "arena.db"), "--mongodb", "--mongodb-socket", str(path))
    output, errors = server.communicate(timeout=20)

    assert (1, "") == (server.returncode, output)
    assert f"reactdb: the socket {path} cannot be listened on: No such file or directory\n" == errors
    assert [] == list(tmp_path.iterdir())


FILLING = r.range(10_000).map(lambda x: r.range(90_000).coerce_to("array")).coerce_to("array")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "query", "sentence"),
    [
        (("--query-timeout", "0.2"), r.range(10**12).sum(), r"longer than the 0\.2 seconds"),
        pytest.param(
            ("--query-timeout", "0", "--query-memory", "16777216"),
            FILLING,
            "more than the 16 MiB of memory",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells"),
        ),
    ],
    ids=["time", "memory"],
)
def test_the_command_says_what_a_query_may_take(
    tmp_path: Path, options: tuple[str, ...], query: Any, sentence: str
) -> None:
    server = command(str(tmp_path / "arena.db"), "--rethinkdb", "--port", "0", *options)
    try:
        assert server.stdout is not None
        port = int(re.search(r":(\d+)$", server.stdout.readline().strip())[1])  # type: ignore[index]
        with r.connect("127.0.0.1", port) as connection:
            with pytest.raises(ReqlResourceLimitError, match=sentence):
                query.run(connection)
            assert 5 == r.expr(5).run(connection)
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=20)

    assert 0 == server.returncode
