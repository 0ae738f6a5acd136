"""A machine's clock that is wrong: what has a time in the file goes on growing old. The tests have their own clock."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.store import retention
from reactdb.store.leases import Lease, next_leases
from tests.support.inspection import problems

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
# The year 2096, because times in the log never go back, also not behind those of a fixture.
NOW_MS = 4_000_000_000_000
# 73 years later.
WRONG_MS = NOW_MS + 73 * 365 * DAY_MS
LONG_AGO_MS = 1_000 * DAY_MS
KEPT = timedelta(hours=8)
KEPT_MINUTES = 480


class Wall:
    """The wall clock of the machine."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS

    def time_ns(self) -> int:
        return self.now_ms * 1_000_000


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    clock = Wall()
    monkeypatch.setattr("time.time_ns", clock.time_ns)
    return clock


def write_each_minute(games: Any, wall: Wall, minutes: int) -> None:
    for _ in range(minutes):
        wall.now_ms += MINUTE_MS
        games.insert({"id": 1, "at": wall.now_ms}, conflict="replace", durability="soft")


def write_under(games: Any, wall: Wall, now_ms: int) -> None:
    right_ms, wall.now_ms = wall.now_ms, now_ms
    games.insert({"id": 2, "at": now_ms}, conflict="replace", durability="soft")
    wall.now_ms = right_ms


def kept(db: Any) -> int:
    return int(db.seq - db.stats()["oldest"])


@pytest.mark.slow
def test_one_write_under_a_clock_that_is_ahead_does_not_end_retention_by_age(path: Path, wall: Wall):
    with reactdb.connect(path, retention=KEPT) as db:
        games = db.table_create("games")
        write_under(games, wall, WRONG_MS)
        write_each_minute(games, wall, 3_600)

        # A look comes after each 250 changes.
        assert KEPT_MINUTES - 1 <= kept(db) <= KEPT_MINUTES + retention.RETAIN_EVERY
        db.compact(keep=KEPT)
        assert KEPT_MINUTES - 1 <= kept(db) <= KEPT_MINUTES + 1
    assert [] == problems(path)


def test_what_was_written_before_the_jump_is_kept_for_as_long_as_ever(db: Any, games: Any, wall: Wall):
    """A clock that was wrong for a moment makes nothing older."""
    write_each_minute(games, wall, 100)
    write_under(games, wall, WRONG_MS)
    write_each_minute(games, wall, 100)
    before = db.seq

    db.compact(keep=KEPT)
    assert before - 202 <= db.stats()["oldest"] <= before - 200

    write_each_minute(games, wall, 430)
    db.compact(keep=KEPT)
    assert KEPT_MINUTES - 1 <= kept(db) <= KEPT_MINUTES + 1


def test_a_clock_that_has_fallen_back_to_its_beginning_ends_no_retention(db: Any, games: Any, wall: Wall):
    """As on a board without a battery, until it hears of the right time."""
    write_each_minute(games, wall, 600)
    right_ms, wall.now_ms = wall.now_ms, LONG_AGO_MS
    write_each_minute(games, wall, 600)
    db.compact(keep=KEPT)
    assert KEPT_MINUTES - 1 <= kept(db) <= KEPT_MINUTES + 1

    wall.now_ms = right_ms + 600 * MINUTE_MS
    write_each_minute(games, wall, 10)
    db.compact(keep=KEPT)
    assert KEPT_MINUTES - 1 <= kept(db) <= KEPT_MINUTES + 1
    assert wall.now_ms == next(iter(db.log(db.seq - 1))).time


def test_the_times_of_the_log_never_go_back_and_go_on_at_the_pace_of_the_clock(path: Path, wall: Wall):
    with reactdb.connect(path, retention=None) as db:
        games = db.table_create("games")
        for jump_ms in (WRONG_MS, WRONG_MS + 5 * 365 * DAY_MS):
            write_under(games, wall, jump_ms)
            write_each_minute(games, wall, 50)
        with reactdb.connect(path, read_only=True) as reader:
            times = [change.time for change in reader.log()]

        assert times == sorted(times)
        assert 49 * MINUTE_MS == times[-1] - times[-50]
        assert 49 * MINUTE_MS == times[-52] - times[-101]


def test_after_reopening_the_log_goes_on_by_the_time_that_has_passed(path: Path, wall: Wall):
    with reactdb.connect(path, retention=None) as db:
        games = db.table_create("games")
        write_under(games, wall, WRONG_MS)
        write_each_minute(games, wall, 1)
    wall.now_ms += 2 * DAY_MS
    with reactdb.connect(path) as db:
        write_each_minute(db.table("games"), wall, 1)
        *_, before, after = db.log()

        assert 2 * DAY_MS + MINUTE_MS == after.time - before.time
        assert 1 == db.compact(keep=timedelta(days=1))["oldest"] - db.seq + 2


@pytest.mark.parametrize("ahead_ms", [MINUTE_MS, DAY_MS])
def test_a_clock_that_was_set_back_by_up_to_a_day_is_left_alone(
    db: Any, games: Any, wall: Wall, ahead_ms: int, caplog: pytest.LogCaptureFixture
):
    write_under(games, wall, wall.now_ms + ahead_ms)
    newest_ms = list(db.log())[-1].time
    wall.now_ms += 1
    games.insert({"id": 3})

    assert newest_ms == list(db.log())[-1].time
    assert db.stats()["history"]["clock_behind_s"] is None
    assert "clock" not in caplog.text


def test_a_wrong_clock_is_logged_once_and_shown_in_the_figures(
    path: Path, wall: Wall, caplog: pytest.LogCaptureFixture
):
    with reactdb.connect(path, retention=KEPT) as db:
        games = db.table_create("games")
        assert db.stats()["history"]["clock_behind_s"] is None
        write_under(games, wall, WRONG_MS)
        with caplog.at_level(logging.WARNING, "reactdb"):
            write_each_minute(games, wall, 300)
            db.compact(keep=KEPT)

        warned = [record.getMessage() for record in caplog.records if "clock" in record.getMessage()]
        assert 1 == len(warned)
        assert f"{path} is 26645.0 days ahead" in warned[0]
        assert (WRONG_MS - NOW_MS) / 1_000 == pytest.approx(
            db.stats()["history"]["clock_behind_s"], abs=MINUTE_MS / 1_000
        )


def test_blobs_that_were_put_under_a_wrong_clock_are_removed_an_hour_later(path: Path, wall: Wall):
    with reactdb.connect(path, durability="soft", retention=None) as db:
        wall.now_ms = WRONG_MS
        db.blobs.put(b"x" * 1_000)
        wall.now_ms = NOW_MS
        db.compact(keep=1_000)
        assert 1 == len(list(db.blobs))

        wall.now_ms += 61 * MINUTE_MS
        db.compact(keep=1_000)
        assert 0 == len(list(db.blobs))


class TestLeases:
    """Their times are of a clock that was ahead, and is right now."""

    NOW_MS = 1_000_000_000_000
    LEASE_MS = 30_000

    def lease(self, **changes: Any) -> Lease:
        return Lease(
            "orders",
            0,
            1,
            "all",
            5,
            fence=1,
            until_ms=self.NOW_MS + 73 * 365 * DAY_MS,
            lease_ms=self.LEASE_MS,
        ).copy_with(**changes)

    def next_of(self, lease: Lease, worker: str) -> list[Lease]:
        return list(next_leases([lease], worker, self.NOW_MS, self.LEASE_MS, lambda _: False))

    def test_a_holder_renews_its_own(self):
        """Else the others, who see nothing change, would count it as silent."""
        (renewed,) = self.next_of(self.lease(holder="me"), "me")

        assert self.NOW_MS + self.LEASE_MS == renewed.until_ms
        assert not renewed.is_renewal_due(self.NOW_MS)

    def test_one_that_was_given_up_for_somebody_who_is_gone_is_free(self):
        (taken,) = self.next_of(self.lease(wished_by="gone"), "me")

        assert "me" == taken.holder

    def test_one_that_was_given_up_just_now_still_waits_for_whoever_wished_for_it(self):
        given_up = self.lease(holder="me", wished_by="other").release(self.NOW_MS)

        assert [] == self.next_of(given_up, "third")

    def test_it_is_over_once_it_would_last_longer_than_any(self):
        assert self.lease(holder="other").is_over(self.NOW_MS)
        assert not self.lease(holder="other").extend(self.NOW_MS).is_over(self.NOW_MS)
