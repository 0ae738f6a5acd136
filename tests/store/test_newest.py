"""The newest entry of each document, by key and by seq, also where the log was compacted."""

from __future__ import annotations

import reactdb
from reactdb.store.newest import count_newest, count_range, newest_by_key, newest_by_seq
from reactdb.values import collation


def test_the_newest_entries_are_read_in_both_orders_and_survive_compaction():
    with reactdb.connect(":memory:") as db:
        one, two = db.table_create("one"), db.table_create("two")
        for key in "cab":
            one.insert({"id": key, "n": 1})
        two.insert({"id": "x"})
        one.get("a").update({"n": 2})
        one.get("b").delete()
        for _ in range(2):
            with db.session.read() as snapshot:
                tables = [db.session.info("one"), db.session.info("two")]
                by_key = newest_by_key(snapshot, tables[0])
                assert [(change.key, change.new_val["n"]) for change in by_key] == [("a", 2), ("c", 1)]
                assert [
                    change.key for change in newest_by_key(snapshot, tables[0], reverse=True, limit=1)
                ] == ["c"]
                bound = collation.key_bytes("b")
                assert [change.key for change in newest_by_key(snapshot, tables[0], bound)] == ["c"]
                assert count_range(snapshot, tables[0], b"", bound) == 1
                every = newest_by_seq(snapshot, tables, 0, snapshot.seq)
                assert [change.key for change in every] == ["c", "x", "a"]
                seqs = [change.seq for change in every]
                assert seqs == sorted(seqs)
                assert [change.key for change in newest_by_seq(snapshot, tables, seqs[0], seqs[2] - 1)] == [
                    "x"
                ]
                down = newest_by_seq(snapshot, tables[:1], 0, snapshot.seq, reverse=True)
                assert [change.key for change in down] == ["a", "c"]
                assert count_newest(snapshot, tables, seqs[0], snapshot.seq) == 2
            db.compact(0)
