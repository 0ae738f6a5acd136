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
from tests.support.command import run

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

    assert [2, 3, 4, 5] == [change["seq"] for change in heard]
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
    process = tail("games", "--since", 2, "--json")
    with reactdb.connect(file, durability="soft") as db:
        games = db.table("games")
        games.insert([{"id": n} for n in range(2, 3000)])
        for n in range(3000, 3500):
            games.insert({"id": n})

        assert list(range(3, 3501)) == [change["seq"] for change in changes(process, 3498)]


def test_other_tables_are_passed_over_and_without_a_table_they_are_told(file, tail):
    one, every = tail("games", "--since", 2, "--json"), tail("--since", 2, "--json")
    with reactdb.connect(file, durability="soft") as db:
        db.table_create("other").insert({"id": "x"})
        db.table("games").insert({"id": 2})

    assert [5] == [change["seq"] for change in changes(one, 1)]
    assert [("other", 3), ("other", 4), ("games", 5)] == [
        (change["table"], change["seq"]) for change in changes(every, 3)
    ]


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

        assert [2, 3] == [first.seq, next(told).seq]
        told.close()


def test_the_last_changes_of_a_table_are_told_before_its_end(file):
    with reactdb.connect(file, durability="soft") as db:
        told = follow(db, "games", 0)
        next(told)
        db.table("games").insert({"id": 2})
        db.table_drop("games")

        assert 3 == next(told).seq
        with pytest.raises((TableNotFound, FeedAborted)):
            next(told)


# ---------------------------------------------------------------------------------------------------------------
# A part of a table


@pytest.fixture
def told(file):
    """What `reactdb tail FILE games --json ...` prints of the past, as event objects."""

    def told(*arguments):
        result = run("tail", file, "games", *arguments, "--json")
        assert 0 == result.exit_code, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]

    with reactdb.connect(file, durability="soft") as db:
        games = db.table("games")
        games.get(1).update({"score": 5})
        games.insert([{"id": 2, "score": 9}, {"id": 3, "score": 7}])
        games.get(3).update({"score": 10})
        games.get(2).delete()
    return told


def test_a_condition_tells_what_comes_and_goes(told):
    assert [("add", 4), ("add", 5), ("change", 6), ("remove", 7)] == [
        (event["type"], event["seq"]) for event in told("--where", "score>=7")
    ]


def test_a_condition_that_nothing_meets_tells_nothing_and_ends(told):
    assert [] == told("--where", "score>1000")


def test_since_the_newest_seq_there_is_nothing_to_tell(told):
    assert [] == told("--where", "score>1", "--since", 7)


def test_an_order_tells_places_that_can_be_followed(told, file):
    board: list[Any] = []
    for event in told("--order", "score", "--desc", "--limit", 2):
        if event["old_offset"] is not None:
            del board[event["old_offset"]]
        if event["new_offset"] is not None:
            board.insert(event["new_offset"], event["new_val"])

    assert [{"id": 3, "score": 10}, {"id": 1, "score": 5}] == board


def test_events_are_lines_for_people(told, file):
    result = run("tail", file, "games", "--order", "score", "--since", "5")

    assert [
        "     6  change   1 -> 2    3  score: 7 -> 10",
        "     7  remove   at 1      2",
    ] == result.stdout.splitlines()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["games", "--limit", "3"], "give --order"),
        (["games", "--desc"], "give --order"),
        (["--where", "a=1"], "name one"),
        (["games", "--where", "a="], "position 3: expected a value but found the end"),
        (["games", "--order", "a."], "position 3: expected a field but found the end"),
    ],
)
def test_what_cannot_be_meant_is_a_mistake_in_the_command_line(file, arguments, words):
    result = run("tail", file, *arguments)

    assert (2, True) == (result.exit_code, words in result.stderr)


def test_a_condition_follows_what_another_process_writes(file, tail):
    process = tail("games", "--where", "room=5", "--since", 0, "--json")
    with reactdb.connect(file, durability="soft") as db:
        db.table("games").insert([{"id": 2, "room": 4}, {"id": 3, "room": 5}])
        (came,) = changes(process, 1)
        db.table("games").get(3).update({"room": 4})
        (went,) = changes(process, 1)

    assert ("add", {"id": 3, "room": 5}) == (came["type"], came["new_val"])
    assert ("remove", None) == (went["type"], went["new_val"])


def test_a_list_that_is_followed_begins_with_what_is_there(file, tail):
    process = tail("games", "--order", "id", "--desc", "--limit", 1, "--json")
    (present,) = changes(process, 1)
    with reactdb.connect(file, durability="soft") as db:
        db.table("games").insert({"id": 2})
    (change,) = changes(process, 1)

    assert ("initial", {"id": 1}) == (present["type"], present["new_val"])
    assert ({"id": 1}, {"id": 2}, 0, 0) == tuple(
        change[name] for name in ("old_val", "new_val", "old_offset", "new_offset")
    )


def test_rows_take_the_same_conditions(told, file):
    result = run("rows", file, "games", "--where", "score>=7", "--limit", "5")

    assert [{"id": 3, "score": 10}] == [json.loads(line) for line in result.stdout.splitlines()]
