"""What a read may cost, counted in steps of SQLite's virtual machine: exact, and the same on every machine."""

from __future__ import annotations

from typing import Any

import reactdb
from reactdb.session import session_of
from reactdb.values import collation


def steps_of(db: Any, work: Any) -> int:
    """Steps of the virtual machine, in hundreds, that `work(snapshot)` takes."""
    count = 0

    def tick() -> int:
        nonlocal count
        count += 1
        return 0

    with session_of(db).read() as snapshot:
        snapshot.connection.set_progress_handler(tick, 100)
        try:
            work(snapshot)
        finally:
            snapshot.connection.set_progress_handler(None, 100)
    return count


def filled(documents: int) -> Any:
    db = reactdb.connect(":memory:")
    games, other = db.table_create("games"), db.table_create("other")
    for start in range(0, documents, 100):
        games.insert([{"id": start + n} for n in range(100)])
        other.insert({"id": start})
    return db


def test_a_page_of_one_tables_log_costs_the_same_however_long_the_log_is():
    def page(snapshot: Any) -> None:
        assert 500 == len(snapshot.changes(0, None, snapshot.table("games"), 500))

    with filled(1_000) as short, filled(20_000) as long:
        assert steps_of(long, page) <= 1.2 * steps_of(short, page)


def test_a_rare_tables_log_does_not_cost_the_others_changes():
    """10 changes among 10,000: what is read grows with the blocks that hold them, not with the log."""

    def rare(snapshot: Any) -> None:
        assert 10 == len(snapshot.changes(0, None, snapshot.table("other")))

    def everything(snapshot: Any) -> None:
        snapshot.changes(0, None, None, 100_000)

    with filled(1_000) as db:
        for start in range(0, 10_000, 100):
            db.table("games").insert([{"id": 5_000 + start + n} for n in range(100)])
        assert steps_of(db, rare) * 10 < steps_of(db, everything)


def test_a_point_read_costs_the_same_in_a_large_table():
    def get(snapshot: Any) -> None:
        table = snapshot.table("games")
        for key in range(100):
            snapshot.get(table, collation.key_bytes(key))

    with filled(1_000) as small, filled(20_000) as large:
        assert steps_of(large, get) <= 1.2 * steps_of(small, get)
