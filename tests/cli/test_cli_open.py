"""`reactdb open`: the address, the browser, and the end of the process."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

import reactdb
from reactdb.cli import main, open_
from tests.support.processes import ROOT

OWN = {"X-Reactdb-Inspector": "1"}
PATIENCE_S = 60.0
posix_only = pytest.mark.skipif(os.name != "posix", reason="signals of a POSIX system")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "app.db"
    with reactdb.connect(file) as db:
        db.table_create("games").insert({"id": 1})
    return file


@contextmanager
def opened(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process of the command, and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "reactdb.cli", "open", *map(str, arguments), "--no-browser"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def login(client: httpx.Client, address: str) -> str:
    assert client.get(address, follow_redirects=True).status_code == 200
    return address.partition("?")[0]


@posix_only
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_cleanly_after_a_signal_with_streams_open(path: Path, number: signal.Signals) -> None:
    with opened(path) as (process, address), httpx.Client(timeout=PATIENCE_S, headers=OWN) as client:
        base = login(client, address)
        with (
            client.stream("GET", f"{base}api/stream") as one,
            client.stream("GET", f"{base}api/stream") as other,
        ):
            lines = one.iter_lines(), other.iter_lines()
            assert [next(each)[:6] for each in lines] == ['{"seq"'] * 2
            process.send_signal(number)
            assert [list(each) for each in lines] == [[], []]
            out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
        token = address.partition("token=")[2]
        assert len(token) >= 32
        assert token not in out + err
        assert "only reads" in err


@posix_only
def test_it_follows_the_writes_of_another_process_and_leaves_the_file_alone(path: Path) -> None:
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    with opened(path) as (_, address), httpx.Client(timeout=PATIENCE_S, headers=OWN) as client:
        base = login(client, address)
        assert client.get(f"{base}api/overview").json()["tables"][0]["count"] == 1
        assert client.post(f"{base}api/insert", json={"table": "games", "doc": {"id": 2}}).status_code == 403
        assert hashlib.sha256(path.read_bytes()).hexdigest() == before
        with client.stream("GET", f"{base}api/stream") as answer:
            lines = answer.iter_lines()
            next(lines)
            with reactdb.connect(path) as db:
                db.table("games").insert({"id": 3})
            assert '"key":"=3"' in next(lines)


@posix_only
def test_with_write_the_page_edits_the_file(path: Path) -> None:
    with opened(path, "--write") as (_, address), httpx.Client(timeout=PATIENCE_S, headers=OWN) as client:
        base = login(client, address)
        assert client.post(f"{base}api/insert", json={"table": "games", "doc": {"id": 2}}).status_code == 200
    with reactdb.connect(path) as db:
        assert db.table("games").count().run() == 2


@posix_only
def test_after_a_kill_the_file_has_every_answered_edit(path: Path) -> None:
    with (
        opened(path, "--write") as (process, address),
        httpx.Client(timeout=PATIENCE_S, headers=OWN) as client,
    ):
        base = login(client, address)
        for number in range(10, 30):
            answer = client.post(f"{base}api/insert", json={"table": "games", "doc": {"id": number}})
            assert answer.status_code == 200
        process.kill()
        process.wait()
    with reactdb.connect(path) as db:
        assert db.table("games").count().run() == 21


def run(*arguments: object) -> Any:
    return CliRunner().invoke(main, ["open", *map(str, arguments)])


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    for more in ((), ("--write",)):
        result = run(tmp_path / "nothing.db", *more)
        assert result.exit_code == 1
        assert result.stderr.count("\n") == 1
        assert "does not exist" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "text.db"
    file.write_text("no database\n")
    result = run(file)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "is not a reactdb database" in result.stderr


def test_another_address_than_of_this_machine_is_refused(path: Path) -> None:
    result = run(path, "--host", "0.0.0.0")
    assert result.exit_code == 2
    assert "this machine alone" in result.stderr


def test_a_port_in_use_is_one_line(path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = run(path, "--port", taken.getsockname()[1])
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "is in use" in result.stderr


def test_without_a_browser_the_printed_address_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(address: str) -> bool:
        raise webbrowser.Error("no browser")

    monkeypatch.setattr(webbrowser, "open", fail)
    open_.open_browser("http://127.0.0.1:1/")
