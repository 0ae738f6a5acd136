"""A document or an index entry that damage has hidden is noticed: by every read of all of them, and by the doctor.

The damage leaves trees that SQLite believes: a cell's place is taken off its page, or a page is as it was some commits ago.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlite_utils.utils import sqlite3

import reactdb
from reactdb import desc, row
from reactdb.store import transaction
from reactdb.store.walk import pages
from tests.support import kept_files
from tests.support.inspection import problems

PAGE = 4096
# The kinds of page of a tree that is ordered by a key, as SQLite's file format has them.
INNER, LEAF = 2, 10
DOCUMENTS = 40


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables with two indexes each; some documents were changed or deleted; the heads and the entries have several pages."""
    path = tmp_path_factory.mktemp("sound") / "sound.db"
    with reactdb.connect(path) as db:
        for name in ("people", "places"):
            table = db.table_create(name)
            table.index_create("age")
            table.index_create("tags", multi=True)
            table.insert(
                [
                    {"id": f"{n:03}" + "x" * 100, "age": f"{n % 7}" + "y" * 60, "tags": [n % 3, None]}
                    for n in range(DOCUMENTS)
                ]
            )
            table.filter(row["age"] == "3" + "y" * 60).update({"age": "33"})
            table.get("005" + "x" * 100).delete()
    return path


def leaves(path: Path, tree: str) -> Iterator[tuple[int, int]]:
    """The place of each leaf page of a tree in the file, and its number of cells."""
    connection = sqlite3.connect(path)
    (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (tree,)).fetchone()
    connection.close()
    data = path.read_bytes()
    waiting = [root]
    while waiting:
        start = (waiting.pop() - 1) * PAGE
        cells = int.from_bytes(data[start + 3 : start + 5])
        if data[start] == LEAF:
            yield start, cells
            continue
        assert data[start] == INNER
        waiting.append(int.from_bytes(data[start + 8 : start + 12]))
        for cell in range(cells):
            place = start + int.from_bytes(data[start + 12 + 2 * cell : start + 14 + 2 * cell])
            waiting.append(int.from_bytes(data[place : place + 4]))


def without(data: bytes, start: int, cell: int) -> bytes:
    """A file in which a leaf page does not have this cell any more."""
    page = bytearray(data[start : start + PAGE])
    cells = int.from_bytes(page[3:5])
    page[3:5] = (cells - 1).to_bytes(2)
    pointers = page[8 : 8 + 2 * cells]
    del pointers[2 * cell : 2 * cell + 2]
    page[8 : 8 + 2 * cells] = pointers + b"\0\0"
    return data[:start] + bytes(page) + data[start + PAGE :]


READS: dict[str, Callable[[reactdb.Table], Any]] = {
    "scan": lambda table: table.run(),
    "scan downwards": lambda table: table.order_by(index=desc("id")).run(),
    "count": lambda table: table.count().run(),
    "index": lambda table: table.order_by(index="age").run(),
    "multi index": lambda table: table.order_by(index=desc("tags")).run(),
    "aggregate": lambda table: table["age"].count().run(),
}


def answers(path: Path) -> dict[str, Any]:
    """What each read of each table gives; None where it tells of damage."""
    found: dict[str, Any] = {}
    with reactdb.connect(path, read_only=True) as db:
        for name in ("people", "places"):
            for what, read in READS.items():
                try:
                    found[f"{what} of {name}"] = read(db.table(name))
                except reactdb.CorruptDatabase:
                    found[f"{what} of {name}"] = None
    return found


@pytest.mark.parametrize("tree", ["heads", "entries"])
def test_whatever_a_tree_has_lost_no_whole_read_answers_without_it(
    sound: Path, tmp_path: Path, tree: str
) -> None:
    data, expected = sound.read_bytes(), answers(sound)
    assert None not in expected.values()
    path = tmp_path / "hurt.db"
    tried = 0
    for start, cells in leaves(sound, tree):
        for cell in range(0, cells, 3):
            path.write_bytes(without(data, start, cell))
            found = answers(path)
            wrong = {
                what for what, answer in found.items() if answer is not None and answer != expected[what]
            }
            assert set() == wrong
            # The hidden entries of nulls are in no answer.
            assert None in found.values() or tree == "entries"
            tried += 1
    assert tried > 20


@pytest.mark.parametrize("tree", ["heads", "entries"])
def test_the_doctor_names_the_table_or_the_index_that_has_lost_something(
    sound: Path, tmp_path: Path, tree: str
) -> None:
    assert [] == problems(sound)
    path = tmp_path / "hurt.db"
    for start, cells in leaves(sound, tree):
        path.write_bytes(without(sound.read_bytes(), start, cells // 2))

        told = [words for words in problems(path) if "its checksum is of" in words]

        # A head is of one table; without it nothing is known of where its index entries lead.
        assert told
        assert all(tree == "heads" or words.startswith("index ") for words in told)


def test_a_page_of_heads_from_before_is_noticed_although_the_number_is_right(tmp_path: Path) -> None:
    """The disk has lost one write of a page: it still leads to older versions of documents, each of them whole."""
    path, before = tmp_path / "new.db", tmp_path / "before.db"
    with reactdb.connect(path) as db:
        db.table_create("people").insert([{"id": n, "n": 0} for n in range(50)])
    shutil.copy(path, before)
    with reactdb.connect(path) as db:
        db.table("people").get(7).update({"n": 1})
    ((start, _),) = leaves(path, "heads")
    data = bytearray(path.read_bytes())
    data[start : start + PAGE] = before.read_bytes()[start : start + PAGE]
    path.write_bytes(data)

    with reactdb.connect(path, read_only=True) as db:
        assert 50 == db.table("people").count().run()
        with pytest.raises(reactdb.CorruptDatabase, match="50 documents can be found, as many as were"):
            db.table("people").run()
    assert any("others" in words for words in problems(path))


def test_a_scan_of_several_pages_is_compared_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "long.db"
    with reactdb.connect(path) as db:
        db.table_create("people").insert([{"id": n} for n in range(1_000)])
    lose_a_head(path)

    with (
        reactdb.connect(path) as db,
        pytest.raises(reactdb.CorruptDatabase, match="999 documents can be found"),
    ):
        db.table("people").run()


def test_reads_that_end_early_compare_nothing(sound: Path, tmp_path: Path) -> None:
    path = tmp_path / "hurt.db"
    start, _ = min(leaves(sound, "heads"))
    path.write_bytes(without(sound.read_bytes(), start, 3))

    with reactdb.connect(path, read_only=True) as db:
        assert 10 == len(db.table("people").limit(10).run())
        assert db.table("people").between("000", "002").run()


@pytest.mark.parametrize("at", [0, 1, -1])
def test_sums_that_changed_on_the_disk_are_told(sound: Path, tmp_path: Path, at: int) -> None:
    path = tmp_path / "hurt.db"
    shutil.copy(sound, path)
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT table_id, block, sums FROM marks WHERE sums IS NOT NULL").fetchall()
    for table_id, block, sums in rows:
        changed = bytearray(sums)
        changed[at] ^= 1
        where = (bytes(changed), table_id, block)
        connection.execute("UPDATE marks SET sums = ? WHERE table_id = ? AND block = ?", where)
    connection.commit()
    connection.close()

    with (
        reactdb.connect(path) as db,
        pytest.raises(reactdb.CorruptDatabase, match="the stored checksum of table"),
    ):
        db.table("people").count().run()
    assert any("the stored checksum of table" in words for words in problems(path))


@pytest.mark.parametrize("index", [None, "age"])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_walk_of_all_documents_that_lacks_one_ends_with_an_error(
    sound: Path, tmp_path: Path, index: str | None, reverse: bool
) -> None:
    """What a feed begins with is read by a walk."""
    path = tmp_path / "hurt.db"
    shutil.copy(sound, path)
    connection = sqlite3.connect(path)
    where = "table_id = 1" if index is None else "index_id = 1"
    tree = "heads" if index is None else "entries"
    connection.execute(
        f"DELETE FROM {tree} WHERE {where} AND key = (SELECT max(key) FROM {tree} WHERE {where})"
    )
    connection.commit()
    connection.close()

    with reactdb.connect(path, read_only=True) as db, db._session.engine.snapshot() as snapshot:
        table = snapshot.catalogue.live["people"]
        walk = pages(snapshot, table, table.indexes[index] if index else None, b"", b"\xff", reverse=reverse)
        with pytest.raises(reactdb.CorruptDatabase, match=r"can be found, and \d+ were written"):
            list(walk)


def test_an_older_format_that_is_only_read_has_no_sums_and_is_read(tmp_path: Path) -> None:
    path = kept_files.unpack("format-2-long", tmp_path)

    with reactdb.connect(path, read_only=True) as db:
        assert [2, 4] == sorted(db.table(name).count().run() for name in ("idle", "ended"))


def lose_a_head(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute(
        "DELETE FROM heads WHERE table_id = 1 AND key = (SELECT max(key) FROM heads WHERE table_id = 1)"
    )
    connection.commit()
    connection.close()


def test_a_small_table_of_an_older_format_gets_its_sums_when_it_is_written_to(tmp_path: Path) -> None:
    path = kept_files.unpack("format-2-long", tmp_path)
    with reactdb.connect(path) as db:
        for n in range(33):
            db.table("idle").insert({"id": 1000 + n})
        count = db.table("idle").count().run()
    lose_a_head(path)

    with (
        reactdb.connect(path) as db,
        pytest.raises(reactdb.CorruptDatabase, match=f": {count - 1} doc.* found, and {count} were written"),
    ):
        db.table("idle").count().run()


@pytest.mark.parametrize("is_vacuumed", [False, True])
def test_a_large_table_of_an_older_format_gets_its_sums_when_the_file_is_vacuumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_vacuumed: bool
) -> None:
    monkeypatch.setattr(transaction, "MOST_IN_PASSING", 3)
    path = kept_files.unpack("format-2-long", tmp_path)
    with reactdb.connect(path) as db:
        for n in range(33):
            db.table("idle").insert({"id": 1000 + n})
        db.compact(keep=0, vacuum=is_vacuumed)
        count = db.table("idle").count().run()
    assert [] == problems(path)
    lose_a_head(path)

    with reactdb.connect(path) as db:
        if is_vacuumed:
            with pytest.raises(reactdb.CorruptDatabase, match=f"and {count} were written"):
                db.table("idle").count().run()
        else:
            assert count - 1 == db.table("idle").count().run()


def test_a_flush_that_goes_on_into_a_new_block_counts_what_it_had_before_that(tmp_path: Path) -> None:
    """Also where nothing was known of the table before the flush."""
    path = tmp_path / "new.db"
    with reactdb.connect(path) as db:
        people = db.table_create("people")
        for n in range(20):
            people.insert({"id": n})
    with reactdb.connect(path) as db:
        with db.transaction():
            for n in range(20, 60):
                db.table("people").get(n - 20).update({"seen": True})
                db.table("people").insert({"id": n})
        assert 60 == db.table("people").count().run()
    assert [] == problems(path)


def test_sums_are_right_after_ctrl_c_in_the_middle_of_a_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was torn is written again: with its sums once."""
    path = tmp_path / "torn.db"
    add = transaction.WriteTransaction._add_blocks

    for place, is_after in enumerate((False, True)):

        def strike(self: Any, *arguments: Any, is_after: bool = is_after) -> None:
            monkeypatch.setattr(transaction.WriteTransaction, "_add_blocks", add)
            if is_after:
                add(self, *arguments)
            raise KeyboardInterrupt

        with reactdb.connect(path) as db:
            people = db.table_create(f"people{place}")
            people.index_create("n")
            people.insert([{"id": n, "n": n} for n in range(10)])
            with db.transaction():
                for n in range(100):
                    people.insert({"id": 10 + n, "n": n})
                people.get(3).delete()
                monkeypatch.setattr(transaction.WriteTransaction, "_add_blocks", strike)
                with pytest.raises(KeyboardInterrupt):
                    people.count().run()
                assert 109 == people.count().run()
                people.insert({"id": 1000})
            assert 110 == people.count().run()
            assert 109 == len(people.order_by(index="n").run())
        assert [] == problems(path)
