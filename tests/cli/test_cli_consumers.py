"""`reactdb consumers`: what it shows of durable consumers, and what it does to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import reactdb
from tests.support.command import done, error_of, run


@pytest.fixture
def file(path: Path) -> Path:
    """Two consumers: one that is behind, and one for which a change fails."""
    with reactdb.connect(path) as db:
        orders = db.table_create("orders")
        db.consumer("copier", orders, partitions=2)
        orders.insert([{"id": 1}, {"id": 2}])
        worker = db.consumer("uploader", orders, since=0).batches(max_changes=1, max_wait_s=0)
        batch = worker.poll()
        assert batch is not None
        with batch:
            raise ValueError("the server\nis gone")
        worker.poll()
        worker.close()
    return path


def found(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done(run("consumers", file, "--json")).stdout.splitlines()]


def test_it_shows_a_line_for_each_partition_and_what_fails(file: Path):
    lines = done(run("consumers", file)).stdout.splitlines()

    assert ["consumer", "seq", "behind", "age", "attempts", "dead", "letters", "holder"] == lines[0].split()
    assert [["copier", "1/2", "1", "2"], ["copier", "2/2", "1", "2"], ["uploader", "0", "3"]] == [
        line.split()[: 4 - (number == 2)] for number, line in enumerate(lines[1:4])
    ]
    assert "uploader: seq 2 has failed 1 time: ValueError: the server is gone" == lines[4]


def test_a_file_without_consumers_says_so(path: Path):
    reactdb.connect(path).close()

    assert "no consumers\n" == done(run("consumers", path)).stdout


def test_as_json_it_is_what_the_library_says(file: Path):
    with reactdb.connect(file) as db:
        expected = db.consumers()
    for one in expected + (printed := found(file)):
        assert one.pop("lag_s") > 0

    assert expected == printed


def test_a_consumer_is_reset_to_a_seq_or_to_now(file: Path):
    done(run("consumers", file, "--reset", "copier", "--since", 1))
    assert [1, 1, 0] == [one["seq"] for one in found(file)]
    done(run("consumers", file, "--reset", "uploader"))

    assert [1, 1, 3] == [one["seq"] for one in found(file)]


def test_what_fails_is_skipped_once(file: Path):
    done(run("consumers", file, "--skip", "uploader"))

    assert (2, 1) == (found(file)[2]["seq"], found(file)[2]["dead_letters"])
    assert "nothing of consumer `uploader` is failing" in error_of(
        run("consumers", file, "--skip", "uploader")
    )


def test_a_consumer_is_removed(file: Path):
    done(run("consumers", file, "--remove", "copier"))

    assert ["uploader"] == [one["name"] for one in found(file)]
    assert "there is no consumer 'copier': the file has uploader" == error_of(
        run("consumers", file, "--remove", "copier")
    )


def test_how_much_history_is_held_is_told_to_the_file(file: Path):
    done(run("consumers", file, "--hold", 7))

    with reactdb.connect(file, read_only=True) as db:
        assert 7 == db.stats()["hold"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--reset", "a", "--skip", "b"], "One thing at a time: --reset, --skip, --remove or --hold."),
        (["--since", "3"], "--since is the position for --reset."),
        (["--reset", "uploader", "--since", "99"], "there is no position 99 in this history"),
    ],
)
def test_what_makes_no_sense_is_one_line(file: Path, options: list[str], sentence: str):
    before = found(file)
    assert sentence in error_of(run("consumers", file, *options))

    assert [one["seq"] for one in before] == [one["seq"] for one in found(file)]
