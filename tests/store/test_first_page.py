"""The first page of an open file is overwritten by another program. The connections have it in memory, and do not notice.
So a write looks whether somebody has written to the file, and a read that meets it stops the writes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.session import session_of
from reactdb.testing import Recorder
from tests.support.processes import another_process
from tests.support.threads import wait_until

# In a process of its own: to close a descriptor of the file here would drop the locks of the database.
OVERWRITE = """
import os, sys
path, damage, is_hidden = sys.argv[1], sys.argv[2], sys.argv[3] == "True"
file = os.open(path, os.O_RDWR)
before, page = os.fstat(file), bytearray(os.pread(file, 4096, 0))
if damage == "garbage":
    page[:] = bytes((7 * n + 13) % 251 for n in range(4096))
elif damage == "zeros":
    page[:] = bytes(4096)
elif damage == "everything but the header":
    page[100:] = bytes(3996)
elif damage == "a bit":
    page[3] ^= 1
elif damage == "another page":
    page[:] = os.pread(file, 4096, 4096)
os.pwrite(file, page, 0)
os.close(file)
if is_hidden:
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
"""
DAMAGES = ["garbage", "zeros", "everything but the header", "a bit", "another page"]


def overwrite(path: str, damage: str, *, is_hidden: bool = False) -> None:
    """`is_hidden`: the file looks as if nobody had written to it."""
    subprocess.run([sys.executable, "-S", "-c", OVERWRITE, path, damage, str(is_hidden)], check=True)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Any]:
    """It was closed once, so that all of it is in the file, and a write and a read have been made since."""
    path = tmp_path / "a.db"
    with reactdb.connect(path) as database:
        database.table_create("games").insert([{"id": n} for n in range(10)])
    with reactdb.connect(path) as database:
        database.table("games").insert({"id": "since"})
        database.table("games").get(5).run()
        yield database


@pytest.mark.parametrize("damage", DAMAGES)
def test_no_write_is_acknowledged_after_the_first_page_was_overwritten(db: Any, damage: str) -> None:
    games = db.table("games")
    overwrite(db.path, damage)

    with pytest.raises(reactdb.errors.DamagedAtCommit, match=r"first page .* may be there, or not"):
        games.insert({"id": "a"})
    for attempt in (
        lambda: games.insert({"id": "b"}),
        lambda: games.get(1).delete(),
        lambda: db.compact(keep=0),
    ):
        with pytest.raises(reactdb.CorruptDatabase, match="nothing is written any more"):
            attempt()
    with pytest.raises(reactdb.CorruptDatabase, match="nothing is written any more"), db.transaction():
        games.insert({"id": "c"})


def test_a_read_that_meets_it_stops_the_writes(db: Any) -> None:
    games = db.table("games")
    overwrite(db.path, "garbage", is_hidden=True)
    # It makes the connections that read look at the first page again.
    games.insert({"id": "unnoticed"})

    with pytest.raises(reactdb.CorruptDatabase, match="first page"):
        games.run()

    with pytest.raises(reactdb.CorruptDatabase, match="nothing is written any more"):
        games.insert({"id": "b"})


def test_a_read_of_a_handle_that_only_reads_stops_the_writes_of_this_process(db: Any) -> None:
    with reactdb.connect(db.path, read_only=True) as reading:
        reading.table("games").run()
        overwrite(db.path, "zeros", is_hidden=True)
        db.table("games").insert({"id": "unnoticed"})

        with pytest.raises(reactdb.CorruptDatabase, match="first page"):
            reading.table("games").run()

    with pytest.raises(reactdb.CorruptDatabase, match="nothing is written any more"):
        db.table("games").insert({"id": "b"})


def test_feeds_end_with_the_damage_that_a_write_has_noticed(db: Any) -> None:
    recorder = Recorder(db.table("games").changes())
    overwrite(db.path, "zeros")

    with pytest.raises(reactdb.errors.DamagedAtCommit):
        db.table("games").insert({"id": "a"})

    wait_until(lambda: recorder.error is not None)
    assert isinstance(recorder.error, reactdb.CorruptDatabase)


def test_another_process_that_empties_the_log_into_the_file_is_no_damage(db: Any) -> None:
    games = db.table("games")
    with another_process(Path(db.path)) as other:
        other.table("games").insert({"id": "of the other"})
        writer = session_of(other).engine.writer
        before = Path(db.path).stat().st_mtime_ns
        assert writer.run_in_turn(writer.checkpoints.run)
        assert before != Path(db.path).stat().st_mtime_ns

    games.insert({"id": "a"})

    assert 13 == games.count().run()


def test_a_page_that_could_not_be_read_for_a_moment_stops_no_write_for_ever(db: Any) -> None:
    """A read has met it, and it is there again: the file is whole, and the next write looks."""
    games = db.table("games")
    path = Path(db.path)
    before = subprocess.run(
        [
            sys.executable,
            "-S",
            "-c",
            "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read(4096))",
            path,
        ],
        check=True,
        capture_output=True,
    ).stdout
    overwrite(db.path, "zeros", is_hidden=True)
    games.insert({"id": "unnoticed"})
    with pytest.raises(reactdb.CorruptDatabase, match="first page"):
        games.run()
    restore = "import sys; file = open(sys.argv[1], 'r+b'); file.write(bytes.fromhex(sys.argv[2]))"
    subprocess.run([sys.executable, "-S", "-c", restore, path, before.hex()], check=True)

    games.insert({"id": "a"})

    assert 13 == games.count().run()
