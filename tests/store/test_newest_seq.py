"""The newest seq of a table: one look-up, right after every write, compaction and reopening."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import reactdb
from reactdb.session import session_of
from reactdb.store.snapshot import NEWEST
from tests.support.inspection import problems
from tests.support.kept_files import kept, unpack


def newest(db: Any, *names: str) -> list[int]:
    return [session_of(db).newest_seq(name) for name in names]


def test_it_is_that_of_the_tables_newest_change(db: Any):
    one, two = db.table_create("one"), db.table_create("two")
    assert [1, 2] == newest(db, "one", "two")
    one.insert([{"id": 1}, {"id": 2}])
    two.insert({"id": 1})
    assert [4, 5] == newest(db, "one", "two")
    with pytest.raises(ZeroDivisionError), db.transaction():
        one.delete()
        assert [7, 5] == newest(db, "one", "two")
        raise ZeroDivisionError
    assert [4, 5] == newest(db, "one", "two")
    one.get(1).update({})
    assert [4, 5] == newest(db, "one", "two")
    with pytest.raises(reactdb.TableNotFound):
        newest(db, "three")


def test_a_deletion_that_compaction_removes_still_counts(db: Any):
    idle, busy = db.table_create("idle"), db.table_create("busy")
    idle.insert([{"id": 1}, {"id": 2}])
    idle.get(1).delete()
    before = newest(db, "idle")
    for number in range(100):
        busy.insert({"id": 1, "n": number}, conflict="replace")
    for keep in (90, 50, 10, 0):
        db.compact(keep=keep)
        assert before == newest(db, "idle")
    idle.get(2).delete()
    db.compact(keep=0)

    assert [db.seq] == newest(db, "idle")


def test_it_costs_one_look_up_however_much_others_have_written(db: Any):
    idle, busy = db.table_create("idle"), db.table_create("busy")
    idle.insert({"id": 1})
    busy.insert([{"id": number} for number in range(5_000)])
    with session_of(db).read() as snapshot:
        plan = [
            row[3] for row in snapshot.connection.execute(f"EXPLAIN QUERY PLAN {NEWEST}", (1,)).fetchall()
        ]

    assert not any(step.startswith("SCAN") for step in plan), plan
    assert [3] == newest(db, "idle")


@pytest.mark.parametrize("name", [name for name in kept() if "format-3" not in name])
def test_in_a_file_that_was_migrated_no_change_is_newer(name: str, tmp_path: Path):
    path = unpack(name, tmp_path)
    with reactdb.connect(path) as db:
        low = db.stats()["oldest"]
        for table in db.table_list():
            logged = max((change.seq for change in db.log(low, table=table)), default=0)
            found = session_of(db).newest_seq(table)
            made = session_of(db).info(table).created
            assert found == logged if logged else found <= max(low, made), table
            # What is left of the table below the mark is not newer either.
            query = "SELECT max(seq) FROM log WHERE table_id = ?"
            with session_of(db).read() as snapshot:
                (left,) = snapshot.connection.execute(query, (session_of(db).info(table).id,)).fetchone()
            assert found >= (left or 0), table
        people = db.table("people")
        people.insert({"id": "after"})
        assert [db.seq] == newest(db, "people")
    assert [] == problems(path)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "put", "delete", "compact", "drop"]), st.integers(0, 2), st.integers(0, 3)
        ),
        max_size=60,
    )
)
# The deletion, which was the newest change of then, has been removed.
@example([("put", 0, 0), ("put", 0, 1), ("delete", 0, 0), ("compact", 0, 0), ("put", 0, 0)])
def test_whatever_is_written_and_removed(script):
    """Law: it is the seq of the last change, or that at which the table was made, and it never goes back."""
    with reactdb.connect(":memory:", durability="soft") as db:
        expected = {}
        for number in range(3):
            db.table_create(str(number))
            expected[number] = db.seq
        past = {db.seq: dict(expected)}
        for what, number, key in script:
            table, before = db.table(str(number)), db.seq
            if what == "compact":
                db.compact(keep=key * 7)
            elif what == "drop":
                db.table_drop(str(number))
                db.table_create(str(number))
                expected[number] = db.seq
            elif what == "put":
                table.insert({"id": key, "n": before}, conflict="replace")
                expected[number] = db.seq
            elif table.get(key).delete()["deleted"]:
                expected[number] = db.seq
            past[db.seq] = dict(expected)
            assert list(expected.values()) == newest(db, "0", "1", "2")
        low = db.stats()["oldest"]
        for seq, then in past.items():
            if seq >= low:
                session = session_of(db.at(seq))
                for number, wanted in then.items():
                    found = session.newest_seq(str(number))
                    assert wanted == found or wanted < found == low
