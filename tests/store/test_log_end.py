"""A log that seems to end early, because damage has hidden its newest entries: whoever relies on its end is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlite_utils.utils import sqlite3

import reactdb


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "sound.db"
    with reactdb.connect(path) as db:
        games = db.table_create("games")
        games.index_create("n")
        for n in range(100):
            games.insert({"id": n, "n": n})
        for n in range(5):
            games.get(n).delete()
    return path


def without_the_newest(sound: Path, folder: Path, entries: int) -> Path:
    """A copy in which the newest entries of the log cannot be found any more."""
    path = folder / "hurt.db"
    path.write_bytes(sound.read_bytes())
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM log WHERE seq > (SELECT max(seq) FROM log) - ?", (entries,))
    connection.commit()
    connection.close()
    return path


async def read(feed: Any) -> Any:
    return await anext(aiter(feed))


USES: dict[str, Callable[[Any, Any], Any]] = {
    "a feed": lambda db, games: games.changes().cursor().next(timeout=10),
    "a feed from the beginning": lambda db, games: games.changes(since=0).cursor().next(timeout=10),
    "a feed with initial values": lambda db, games: (
        games.changes(include_initial=True).cursor().next(timeout=10)
    ),
    "a feed in a coroutine": lambda db, games: asyncio.run(read(games.changes())),
    "a count": lambda db, games: games.count().changes(include_initial=True).cursor().next(timeout=10),
    "a worker": lambda db, games: next(db.consumer("up", games).batches()),
    "the log": lambda db, games: list(db.log()),
    "a write": lambda db, games: games.insert({"id": "new"}),
    "a change stream": lambda db, games: reactdb.mongodb(db)["test"]["games"].watch().try_next(),
}


@pytest.mark.parametrize("use", USES)
# One deletion; and entries of several blocks.
@pytest.mark.parametrize("entries", [1, 60])
def test_whoever_relies_on_the_end_of_the_log_is_told_that_it_ends_early(
    sound: Path, tmp_path: Path, entries: int, use: str
) -> None:
    """A feed told nothing, as if nothing had happened."""
    with (
        reactdb.connect(without_the_newest(sound, tmp_path, entries)) as db,
        pytest.raises(reactdb.CorruptDatabase, match=r"the log ends at seq \d+, and had entries up to seq"),
    ):
        USES[use](db, db.table("games"))


def test_an_observer_is_told(sound: Path, tmp_path: Path) -> None:
    ended: list[Exception] = []
    with reactdb.connect(without_the_newest(sound, tmp_path, 7)) as db:
        db.table("games").changes().subscribe(print, ended.append)

    assert [reactdb.CorruptDatabase] == [type(error) for error in ended]


def test_documents_that_can_be_read_are_read(sound: Path, tmp_path: Path) -> None:
    with reactdb.connect(without_the_newest(sound, tmp_path, 7)) as db:
        assert {"id": 50, "n": 50} == db.table("games").get(50).run()


def test_a_log_whose_newest_entries_were_compacted_away_ends_where_it_does(tmp_path: Path) -> None:
    with reactdb.connect(tmp_path / "a.db") as db:
        games = db.table_create("games")
        games.insert([{"id": n} for n in range(100)])
        games.delete()
        db.compact(keep=0)
        seq = db.seq
    with reactdb.connect(tmp_path / "a.db") as db:
        assert seq == db.seq
        games = db.table("games")
        with games.changes().cursor() as cursor:
            games.insert({"id": 1})
            assert {"id": 1} == cursor.next(timeout=10)["new_val"]
