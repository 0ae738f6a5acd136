"""`tail --follow`, in a process of its own, while this one writes."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.cli.tail import follow
from reactdb.errors import FeedAborted, TableNotFound

Tail = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "games.db"
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games").insert({"id": 1})
    return path


@pytest.fixture
def tail(file: Path) -> Iterator[Tail]:
    """Starts `reactdb tail FILE --follow ...`; what is still running at the end is killed."""
    started = []

    def start(*arguments: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "reactdb.cli", "tail", str(file), "--follow", *map(str, arguments)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def changes(process: subprocess.Popen[str], count: int) -> list[dict[str, Any]]:
    """The next `count` lines; waits for them."""
    assert process.stdout is not None
    return [json.loads(process.stdout.readline()) for _ in range(count)]


def test_what_another_process_writes_is_printed_as_it_comes(file, tail):
    process = tail("games", "--since", 0, "--json")
    heard = changes(process, 1)
    with reactdb.connect(file, durability="soft", origin="writer") as db:
        games = db.table("games")
        for step in range(3):
            games.get(1).update({"step": step})
            heard += changes(process, 1)

    assert [1, 2, 3, 4] == [change["seq"] for change in heard]
    assert ["insert", "update", "update", "update"] == [change["kind"] for change in heard]
    assert [None, "writer", "writer", "writer"] == [change["origin"] for change in heard]
    assert {"id": 1, "step": 2} == heard[-1]["new_val"]


def test_without_since_it_begins_now(file, tail):
    process = tail("games", "--json")
    written = 0
    with reactdb.connect(file, durability="soft") as db:
        # Nobody says when the other process has begun; it has when it says something.
        while not select.select([process.stdout], [], [], 0.05)[0]:
            db.table("games").get(1).update({"written": written})
            written += 1
    (change,) = changes(process, 1)

    assert "update" == change["kind"]


def test_many_changes_at_once_come_complete_and_in_order(file, tail):
    """More than the bell's queue holds."""
    process = tail("games", "--since", 1, "--json")
    with reactdb.connect(file, durability="soft") as db:
        games = db.table("games")
        games.insert([{"id": n} for n in range(2, 3000)])
        for n in range(3000, 3500):
            games.insert({"id": n})

        assert list(range(2, 3500)) == [change["seq"] for change in changes(process, 3498)]


def test_other_tables_are_passed_over_and_without_a_table_they_are_told(file, tail):
    one, every = tail("games", "--since", 1, "--json"), tail("--since", 1, "--json")
    with reactdb.connect(file, durability="soft") as db:
        db.table_create("other").insert({"id": "x"})
        db.table("games").insert({"id": 2})

    assert [3] == [change["seq"] for change in changes(one, 1)]
    assert [("other", 2), ("games", 3)] == [(change["table"], change["seq"]) for change in changes(every, 2)]


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_ctrl_c_is_how_it_ends(tail, form):
    process = tail("games", "--since", 0, *form)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert (0, "", "") == (process.returncode, out, err)


def test_a_closed_pipe_ends_it_without_a_word(file, tail):
    process = tail("games", "--since", 0, "--json")
    changes(process, 1)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with reactdb.connect(file, durability="soft") as db:
        while process.poll() is None and not select.select([process.stderr], [], [], 0.05)[0]:
            db.table("games").insert({})

    assert "" == process.stderr.read()


def test_a_dropped_table_ends_it_with_an_error(file, tail):
    process = tail("games", "--since", 0, "--json")
    changes(process, 1)
    with reactdb.connect(file, durability="soft") as db:
        # Whether the feed is there already when the table goes, or comes too late: both say it in a line.
        db.table_drop("games")
    _, err = process.communicate(timeout=60)

    assert 1 == process.returncode
    assert err in (
        "reactdb: Table `games` does not exist.\n",
        "reactdb: Changefeed aborted (table unavailable)\n",
    )


def test_an_unknown_table_is_an_error_at_once(tail):
    process = tail("nobody")
    _, err = process.communicate(timeout=60)

    assert (1, "reactdb: Table `nobody` does not exist.\n") == (process.returncode, err)


def test_in_one_process_it_follows_as_well(file):
    with reactdb.connect(file, durability="soft") as db:
        told = follow(db, "games", 0)
        first = next(told)
        db.table("games").insert({"id": 2})

        assert [1, 2] == [first.seq, next(told).seq]
        told.close()


def test_the_last_changes_of_a_table_are_told_before_its_end(file):
    with reactdb.connect(file, durability="soft") as db:
        told = follow(db, "games", 0)
        next(told)
        db.table("games").insert({"id": 2})
        db.table_drop("games")

        assert 2 == next(told).seq
        with pytest.raises((TableNotFound, FeedAborted)):
            next(told)
