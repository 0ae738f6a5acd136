"""Retention by age: older changes are removed, younger ones stay. The test has its own clock."""

from __future__ import annotations

from datetime import timedelta

import pytest

import reactdb
from reactdb.session import session_of
from reactdb.store.schema import set_fact

DAY_NS = 24 * 3_600 * 1_000_000_000


class Clock:
    """The wall clock of the machine."""

    def __init__(self) -> None:
        # The year 2096: times in the log never go back, also not behind those of a fixture.
        self.now_ns = 4_000_000_000 * 1_000_000_000

    def time_ns(self) -> int:
        return self.now_ns


@pytest.fixture
def wall(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("time.time_ns", clock.time_ns)
    return clock


def write_ten_days(games, wall: Clock) -> None:
    for day in range(10):
        games.insert({"id": 1, "day": day}, conflict="replace")
        wall.now_ns += DAY_NS


def test_compaction_keeps_what_is_younger(db, games, wall):
    write_ten_days(games, wall)

    assert 8 == db.compact(keep=timedelta(days=3, hours=1))["oldest"]
    assert [7, 8, 9] == [entry.new_val["day"] for entry in db.log(8)]
    assert [6, 7, 8] == [entry.old_val["day"] for entry in db.log(8)]
    assert 9 == games.get(1).run()["day"]


def test_an_open_database_removes_what_has_grown_old(tmp_path, wall):
    """A little at a time: after some hundred changes, not after each."""
    with reactdb.connect(tmp_path / "a.db", retention=timedelta(days=2)) as db:
        games = db.table_create("games")
        for day in range(1_200):
            games.insert({"id": 1, "day": day}, conflict="replace", durability="soft")
            wall.now_ns += DAY_NS
        oldest = db.stats()["oldest"]

        assert 600 <= oldest <= 1_198
        assert games.get(1).run() == {"id": 1, "day": 1_199}
        with pytest.raises(reactdb.HistoryLost):
            db.log(0)


def test_the_longest_age_is_kept_and_read_as_it_was_given(tmp_path):
    """Counted as a float it was a millisecond more than the longest, and nobody could read the file's figures any more."""
    longest = timedelta.max - timedelta(microseconds=999)
    with reactdb.connect(tmp_path / "a.db", retention=timedelta.max) as db:
        assert longest == db.stats()["history"]["retention"]

        session_of(db).transact(
            lambda inside: set_fact(inside.connection, "retention", "age_ms 86400000000000000")
        )
        assert longest == db.stats()["history"]["retention"]
