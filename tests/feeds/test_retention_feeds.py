"""Retention and feeds: what an open feed of this process has still to read is not removed under it, up to a limit."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb import row
from reactdb.store import retention as store_retention
from tests.support.processes import another_process

SPILL: dict[str, Any] = {"on_overflow": "spill", "changefeed_queue_size": 10, "include_seq": True}


@pytest.fixture(params=["memory", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """Where the database is, as arguments of `connect`."""
    path = ":memory:" if request.param == "memory" else tmp_path / "a.db"
    return {"path": path, "durability": "soft"}


def seqs(cursor: Any, count: int) -> list[int]:
    return [cursor.next(timeout=10)["seq"] for _ in range(count)]


def write(games: Any, numbers: range) -> None:
    """One commit each, so that retention has its turns."""
    for n in numbers:
        games.insert({"id": n % 20, "n": n}, conflict="replace")


def test_a_spilled_feed_is_told_all_although_retention_keeps_less(place):
    with reactdb.connect(**place, retention=1_000) as db:
        games = db.table_create("games")
        with games.changes(**SPILL).cursor() as cursor:
            write(games, range(4_000))

            assert list(range(2, 4_002)) == seqs(cursor, 4_000)
            assert db.stats()["oldest"] <= 11
            # It has told everything, so retention goes on with the next look.
            with pytest.raises(TimeoutError):
                cursor.next(timeout=0)
            write(games, range(4_000, 6_000))
            assert db.stats()["oldest"] >= 3_000
            assert list(range(4_002, 6_002)) == seqs(cursor, 2_000)


def test_a_feed_that_is_told_by_its_callback_holds_nothing_back(place):
    with reactdb.connect(**place, retention=100) as db:
        games = db.table_create("games")
        told: list[int] = []
        feed = games.changes(**SPILL).subscribe(lambda event: told.append(event["seq"]))
        write(games, range(2_000))

        assert list(range(2, 2_002)) == told
        assert db.stats()["oldest"] >= 1_400
        feed.dispose()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["since", "squash", "limit", "filter", "sum", "all tables"])
def test_whatever_reads_on_from_the_log_can_do_so(place, kind):
    with reactdb.connect(**place, retention=50) as db:
        games = db.table_create("games")
        games.index_create("n")
        write(games, range(20))
        options = SPILL | ({"since": 5, "on_overflow": "drop"} if kind == "since" else {})
        options |= {"squash": True} if kind == "squash" else {}
        selection: Any = {
            "limit": games.order_by(index=reactdb.desc("n")).limit(3),
            "filter": games.filter(row["n"] % 2 == 0),
            "sum": games.sum("n"),
            "all tables": db,
        }.get(kind, games)
        with selection.changes(**options).cursor() as cursor:
            write(games, range(20, 2_000))

            told: list[Any] = []
            while True:
                try:
                    told.append(cursor.next(timeout=0)["new_val"])
                except TimeoutError:
                    break
            if kind == "sum":
                assert sum(range(1_980, 2_000)) == told[-1]
            else:
                newest = 1_998 if kind == "filter" else 1_999
                assert newest == max(document["n"] for document in told if document is not None)


def test_retention_by_age_leaves_a_feed_what_it_has_to_read(place):
    with reactdb.connect(**place) as db:
        games = db.table_create("games")
        with games.changes(**SPILL).cursor() as cursor:
            write(games, range(50))
            db.set_retention(timedelta())
            write(games, range(50, 1_200))

            assert list(range(2, 1_202)) == seqs(cursor, 1_200)


@pytest.mark.parametrize("keep", [0, 7, timedelta()])
def test_compact_stops_at_what_a_feed_has_to_read(place, keep):
    with reactdb.connect(**place) as db:
        games = db.table_create("games")
        with games.changes(**SPILL).cursor() as cursor:
            write(games, range(1_000))

            assert 11 == db.compact(keep)["oldest"]
            assert list(range(2, 102)) == seqs(cursor, 100)
            # It reads the log in pages.
            assert 100 < db.compact(keep)["oldest"] < 900
            assert list(range(102, 1_002)) == seqs(cursor, 900)
        # Closed, it needs nothing.
        assert 993 <= db.compact(keep)["oldest"]


def test_a_feed_that_is_closed_or_forgotten_holds_nothing_back(place):
    with reactdb.connect(**place) as db:
        games = db.table_create("games")
        cursor = games.changes(**SPILL).cursor()
        write(games, range(100))
        assert 11 == db.compact(0)["oldest"]

        del cursor

        assert 101 == db.compact(0)["oldest"]


def test_a_feed_further_behind_than_the_limit_is_told_that_history_is_lost(place, monkeypatch):
    monkeypatch.setattr(store_retention, "MOST_HELD_CHANGES", 300)
    with reactdb.connect(**place, retention=100) as db:
        games = db.table_create("games")
        with games.changes(**SPILL).cursor() as late:
            write(games, range(380))
            with games.changes(since=201, include_seq=True).cursor() as behind:
                # At the look after 500 changes, 400 are too old: 390 of them are not told to the one, and 200 to the other.
                write(games, range(380, 600))

                assert 201 == db.stats()["oldest"]
                assert list(range(2, 12)) == seqs(late, 10)
                with pytest.raises(
                    reactdb.HistoryLost, match="changes since seq 11 are gone; the log starts at seq 202"
                ):
                    late.next(timeout=5)
                assert list(range(202, 602)) == seqs(behind, 400)


def test_what_another_process_has_written_is_told_before_it_is_removed(tmp_path: Path):
    path = tmp_path / "a.db"
    with reactdb.connect(path, durability="soft") as db, another_process(path) as other:
        games = db.table_create("games")
        with games.changes(include_seq=True).cursor() as cursor:
            write(other.table("games"), range(300))
            assert 301 == db.compact(0)["oldest"]

            assert list(range(2, 302)) == seqs(cursor, 300)


def test_a_feed_of_a_read_only_handle_counts_too(tmp_path: Path):
    path = tmp_path / "a.db"
    with reactdb.connect(path, durability="soft") as db:
        write(db.table_create("games"), range(500))
        with (
            reactdb.connect(path, read_only=True) as reader,
            reader.table("games").changes(since=0, include_seq=True).cursor() as cursor,
        ):
            assert 0 == db.compact(0)["oldest"]

            assert list(range(2, 502)) == seqs(cursor, 500)
            with pytest.raises(TimeoutError):
                cursor.next(timeout=0)
        assert 501 == db.compact(0)["oldest"]


def test_a_feed_of_another_process_is_not_known_here(tmp_path: Path):
    path = tmp_path / "a.db"
    with reactdb.connect(path, durability="soft") as db, another_process(path) as other:
        write(db.table_create("games"), range(1_200))
        with other.table("games").changes(since=0, include_seq=True).cursor() as cursor:
            db.compact(0)

            with pytest.raises(reactdb.HistoryLost):
                seqs(cursor, 1_200)


@settings(max_examples=30)
@given(
    retention=st.integers(0, 40),
    queue=st.integers(1, 30),
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.integers(1, 60)),
            st.tuples(st.just("read"), st.integers(1, 80)),
            st.tuples(st.just("compact"), st.integers(0, 30)),
            st.tuples(st.just("join"), st.integers(0, 10)),
        ),
        max_size=25,
    ),
)
def test_every_open_feed_that_spills_is_told_every_change(
    retention: int, queue: int, steps: list[tuple[str, int]]
):
    """Law: with spill, a feed is told every change after it began, in order and once, whatever is removed meanwhile."""
    with pytest.MonkeyPatch.context() as patch, reactdb.connect(":memory:", retention=retention) as db:
        patch.setattr(store_retention, "RETAIN_EVERY", 5)
        games = db.table_create("games")
        cursors: list[tuple[Any, list[int], int]] = []
        options = SPILL | {"changefeed_queue_size": queue}
        written = 0

        def join() -> None:
            cursors.append((games.changes(**options).cursor(), [], written))

        def read(cursor: Any, told: list[int], most: int) -> None:
            try:
                told += [cursor.next(timeout=0)["seq"] for _ in range(most)]
            except TimeoutError:
                pass

        join()
        for what, count in steps:
            if what == "write":
                write(games, range(written, written + count))
                written += count
            elif what == "read":
                cursor, told, _ = cursors[count % len(cursors)]
                for _ in range(count):
                    read(cursor, told, 1)
            elif what == "compact":
                db.compact(keep=count)
            else:
                join()
        for cursor, told, since in cursors:
            for _ in range(written):
                read(cursor, told, 1)
            # The first seq is of the table.
            assert list(range(since + 2, written + 2)) == told
            cursor.close()
