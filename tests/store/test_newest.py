"""The newest entry of each document, by key and by seq, also where the log was compacted."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb.errors import CorruptDatabase
from reactdb.session import session_of
from reactdb.store.newest import (
    count_newest,
    read_newest_by_key,
    read_newest_by_seq,
    read_newest_of_keys,
)
from reactdb.values import collation
from tests.support.scaling import examples


def test_the_newest_entries_are_read_in_both_orders_and_survive_compaction():
    with reactdb.connect(":memory:") as db:
        one, two = db.table_create("one"), db.table_create("two")
        for key in "cab":
            one.insert({"id": key, "n": 1})
        two.insert({"id": "x"})
        one.get("a").update({"n": 2})
        one.get("b").delete()
        for _ in range(2):
            with session_of(db).read() as snapshot:
                tables = [session_of(db).info("one"), session_of(db).info("two")]
                by_key = read_newest_by_key(snapshot, tables[0])
                assert [(change.key, change.new_val["n"]) for change in by_key] == [("a", 2), ("c", 1)]
                assert [
                    change.key for change in read_newest_by_key(snapshot, tables[0], reverse=True, limit=1)
                ] == ["c"]
                bound = collation.key_bytes("b")
                assert [change.key for change in read_newest_by_key(snapshot, tables[0], bound)] == ["c"]
                assert snapshot.count_keys(tables[0], b"", bound) == 1
                every = read_newest_by_seq(snapshot, tables, 0, snapshot.seq)
                assert [change.key for change in every] == ["c", "x", "a"]
                seqs = [change.seq for change in every]
                assert seqs == sorted(seqs)
                assert [
                    change.key for change in read_newest_by_seq(snapshot, tables, seqs[0], seqs[2] - 1)
                ] == ["x"]
                down = read_newest_by_seq(snapshot, tables[:1], 0, snapshot.seq, reverse=True)
                assert [change.key for change in down] == ["a", "c"]
                assert count_newest(snapshot, tables, seqs[0], snapshot.seq) == 2
            db.compact(0)


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["one", "two", "other"]), st.integers(0, 60)), min_size=60, max_size=120
    ),
    st.integers(0, 60),
    st.data(),
)
def test_any_part_in_either_order_is_that_of_the_whole_also_below_the_low_water_mark(
    writes: list[tuple[str, int]], keep: int, data: st.DataObject
):
    with reactdb.connect(":memory:") as db:
        for name in ("one", "two", "other"):
            db.table_create(name)
        expected: dict[tuple[str, int], int] = {}
        for number, (table, key) in enumerate(writes):
            db.table(table).insert({"id": key, "n": number}, conflict="replace")
            expected[table, key] = db.seq
        db.compact(keep)
        wanted = sorted((seq, *name) for name, seq in expected.items() if name[0] != "other")
        tables = [session_of(db).info("one"), session_of(db).info("two")]
        for _ in range(4):
            since, until = sorted((data.draw(st.integers(0, db.seq)), data.draw(st.integers(0, db.seq))))
            limit = data.draw(st.sampled_from([-1, 1, 2, 7, 40]))
            inside = [one for one in wanted if since < one[0] <= until]
            with session_of(db).read() as snapshot:
                assert count_newest(snapshot, tables, since, until) == len({one[2] for one in inside})
                for reverse in (False, True):
                    found = read_newest_by_seq(snapshot, tables, since, until, reverse=reverse, limit=limit)
                    ordered = inside[::-1] if reverse else inside
                    ordered = ordered if limit < 0 else ordered[:limit]
                    assert [(change.seq, change.table, change.key) for change in found] == ordered


def test_the_newest_entries_of_many_keys_are_those_that_there_are():
    with reactdb.connect(":memory:") as db:
        one, two = db.table_create("one"), db.table_create("two")
        one.insert([{"id": number} for number in range(0, 700, 2)])
        two.insert({"id": 3})
        one.get(4).update({"n": 1})
        one.get(6).delete()
        keys = [collation.key_bytes(number) for number in reversed(range(350))]
        with session_of(db).read() as snapshot:
            found = read_newest_of_keys(snapshot, session_of(db).info("one"), keys)
            assert {change.key for change in found.values()} == set(range(0, 350, 2)) - {6}
            assert all(change.key_bytes == key for key, change in found.items())
            assert found[collation.key_bytes(4)].new_val == {"id": 4, "n": 1}
            assert read_newest_of_keys(snapshot, session_of(db).info("one"), []) == {}


def test_an_entry_that_is_missing_is_damage_and_no_answer(path: str):
    with reactdb.connect(path) as db:
        db.table_create("one").insert([{"id": "a"}, {"id": "b"}])
        seq = db.seq - 1
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM log WHERE seq = ?", (seq,))
    connection.close()

    with (
        reactdb.connect(path) as db,
        session_of(db).read() as snapshot,
        pytest.raises(CorruptDatabase, match=f"entry {seq}"),
    ):
        read_newest_of_keys(snapshot, session_of(db).info("one"), [collation.key_bytes("a")])
