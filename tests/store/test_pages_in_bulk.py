"""Pages of documents and of changes for bulk readers: complete, and within their size limit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import reactdb
from reactdb.store import exports, log
from reactdb.store.file.sqlite import connect
from reactdb.store.snapshot import Snapshot

PAGE_BYTES, LARGE = 10_000, 4_000


class Cursor:
    """A cursor over rows (number, body), which counts the bytes that it has handed out."""

    def __init__(self, bodies: list[bytes]) -> None:
        self._rows = iter(enumerate(bodies))
        self.handed_bytes = 0

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        for row in self._rows:
            self.handed_bytes += len(row[1])
            yield row

    def fetchmany(self, count: int) -> list[tuple[int, bytes]]:
        return [row for row, _ in zip(self, range(count), strict=False)]

    def close(self) -> None:
        pass


def test_no_row_is_fetched_after_those_that_fill_a_page():
    cursor = Cursor([b"x"] * 875 + [b"y" * 4 * 1024 * 1024] * 125)

    rows, is_all = log.fetch(cursor, 2_000, exports.PAGE_BYTES, body=1)

    assert (877, False) == (len(rows), is_all)
    assert exports.PAGE_BYTES + 875 == cursor.handed_bytes


@pytest.mark.parametrize(("count", "is_all"), [(9, True), (10, False)])
def test_a_page_that_is_not_full_has_all_rows(count, is_all):
    assert (count, is_all) == (
        len((found := log.fetch(Cursor([b"x"] * count), 10, 1_000, body=1))[0]),
        found[1],
    )


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "PAGE_BYTES", PAGE_BYTES)


@pytest.fixture
def large(tmp_path: Path, small_pages: None) -> tuple[str, int]:
    """Small documents, then large ones, which were all replaced and then deleted; and the seq before that."""
    path = str(tmp_path / "large.db")
    with reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games")
        games.insert([{"id": number} for number in range(50)])
        games.insert([{"id": number, "body": b"x" * LARGE} for number in range(50, 80)])
        seq = db.seq
        games.insert([{"id": number, "body": b"y" * LARGE} for number in range(50, 80)], conflict="replace")
        games.between(65, 80).delete()
    return path, seq


def document_bodies(path: str, seq: int | None = None) -> list[list[bytes]]:
    """Of each page."""
    found = []
    start: bytes | None = b""
    with exports.open_to_read(path) as engine:
        while start is not None:
            with engine.snapshot() as snapshot:
                table = snapshot.table("games")
                assert table is not None
                at = snapshot.seq if seq is None else seq
                page = exports.documents(snapshot, table, at, start, b"\xff")
            found.append(list(page.bodies))
            start = page.next_start
    return found


@pytest.mark.parametrize(("is_past", "count"), [(False, 65), (True, 80)])
def test_a_page_of_documents_ends_with_the_one_that_fills_it(large, is_past, count):
    """Also of the past, where what is read are the documents of then."""
    path, seq = large

    pages = document_bodies(path, seq if is_past else None)

    assert count == sum(map(len, pages))
    assert max(sum(map(len, page)) for page in pages) < PAGE_BYTES + LARGE + 100


@pytest.mark.parametrize("is_of_table", [True, False])
def test_a_page_of_changes_ends_with_the_one_that_fills_it(large, is_of_table):
    """The documents before count as well."""
    path, _ = large
    seqs: list[int] = []
    with exports.open_to_read(path) as engine, engine.snapshot() as snapshot:
        ids = exports.find_table_ids(snapshot, "games") if is_of_table else None
        position, head = 0, snapshot.seq
        while position < head:
            page, position = exports.changes(snapshot, position, head, table_ids=ids, with_old=True)
            if page is not None:
                seqs += page.seqs
                assert (
                    sum(len(body or b"") for body in (*page.bodies, *page.olds))
                    < PAGE_BYTES + 2 * LARGE + 200
                )

    # The first entry made the table.
    assert list(range(2, head + 1)) == seqs


@pytest.mark.parametrize("seed", range(8))
def test_pages_of_a_table_are_the_entries_of_all_with_its_number(tmp_path, seed):
    """Whatever other tables write in between, wherever compaction has cut the log, and wherever pages end."""
    chance = Random(seed)
    path = str(tmp_path / "a.db")
    names = [f"t{number}" for number in range(chance.choice([1, 2, 4]))]
    with reactdb.connect(path, durability="soft") as db:
        tables = [db.table_create(name) for name in names]
        while db.seq < 1_500:
            table = chance.choice(tables)
            count = chance.choice([1, 3, 40, 300])
            keys = [chance.randrange(400) for _ in range(count)]
            if chance.random() < 0.2:
                table.get(keys[0]).delete()
            else:
                body = b"x" * chance.choice([1, 300])
                table.insert(
                    [{"id": key, "n": chance.random(), "body": body} for key in keys], conflict="replace"
                )
        if seed % 2:
            db.compact(keep=chance.randrange(1_500))

    with exports.open_to_read(path) as engine, engine.snapshot() as snapshot:
        oldest, head = log.read_low_water(snapshot.connection), snapshot.seq
        bounds = sorted(chance.randrange(oldest, head + 1) for _ in range(2))
        for since, until in ((oldest, head), bounds):
            ways: list[dict[str, Any]] = [
                {"has_old": False},
                {"has_old": True, "most_bytes": 5_000},
                {"has_new": False, "has_old": False, "limit": chance.choice([1, 32, 2_000])},
            ]
            for way in ways:
                everything = read_all(snapshot, since, until, None, way)
                for table_id in {row[1] for row in everything}:
                    own = [row for row in everything if row[1] == table_id]
                    assert own == read_all(snapshot, since, until, table_id, way)


def read_all(
    snapshot: Snapshot, since: int, until: int, table_id: int | None, way: dict[str, Any]
) -> list[tuple[Any, ...]]:
    """All entries, row by row, read page by page."""
    rows: list[tuple[Any, ...]] = []
    while since < until:
        ids = None if table_id is None else (table_id,)
        entries, since = log.read(snapshot.connection, snapshot.catalogue, since, until, table_ids=ids, **way)
        if entries is not None:
            rows += zip(*(column or [None] * len(entries.seqs) for column in entries), strict=True)
    return rows


@pytest.mark.parametrize("is_of_table", [False, True])
@pytest.mark.parametrize("has_old", [False, True])
def test_sqlite_sorts_no_documents_for_a_page_of_changes(tmp_path, is_of_table, has_old):
    path = str(tmp_path / "a.db")
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games").insert([{"id": number} for number in range(500)])
    with exports.open_to_read(path) as engine, engine.snapshot() as snapshot:
        made: list[str] = []
        connection = snapshot.connection
        connection.set_trace_callback(made.append)
        ids = exports.find_table_ids(snapshot, "games") if is_of_table else None
        exports.changes(snapshot, 0, snapshot.seq, table_ids=ids, with_old=has_old)
        connection.set_trace_callback(None)
        reads = [text for text in made if text.startswith("SELECT") and "FROM log l" in text]
        plans = [row[3] for text in reads for row in connection.execute(f"EXPLAIN QUERY PLAN {text}")]

    assert reads
    assert [] == [plan for plan in plans if "TEMP B-TREE" in plan or "SEARCH" not in plan]


@pytest.mark.parametrize("seed", range(8))
def test_pages_of_the_past_are_the_documents_of_then(tmp_path, monkeypatch, small_pages, seed):
    """Whatever was written since, and wherever the pages end."""
    chance = Random(seed)
    monkeypatch.setattr(exports, "LONG_HISTORY", chance.choice([6, 40, 20_000]))
    path = str(tmp_path / "a.db")
    with reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games")
        for _ in range(60):
            key = chance.randrange(25)
            if chance.random() < 0.3:
                games.get(key).delete()
            else:
                body = b"x" * chance.choice([1, 10, 3_000, 12_000])
                games.insert({"id": key, "n": chance.random(), "body": body}, conflict="replace")
        for seq in range(1, db.seq + 1, 7):
            wanted = list(db.at(seq).table("games").order_by("id").run())

            pages = document_bodies(path, seq)

            assert wanted == [reactdb.values.codec.decode(body) for page in pages for body in page]


def damage(path: str, statement: str) -> None:
    connection = connect(path, mode="rw", busy_timeout_s=1)
    connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("seq", [2, 5, 6, 9])
@pytest.mark.parametrize(
    "change",
    [
        "body = x'81a26964ff'",
        "body = NULL",
        "time = time + 1",
        "kind = 3 - kind",
        "prev = CASE WHEN prev > 3 THEN prev - 2 ELSE 10 END",
        "step = step + 1",
        "origin = 'x'",
        "key = x'01'",
        "table_id = table_id + 1",
        "seal = seal + 4294967296",
    ],
)
def test_damage_to_history_is_told_by_a_read_of_the_past_or_does_not_matter_to_it(tmp_path, change, seq):
    """A step whose document nobody needs is checked as far as it leads from one to the next."""
    path = str(tmp_path / "a.db")
    with reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games")
        for number in range(4):
            games.insert([{"id": key, "n": number} for key in (1, 2)], conflict="replace")
        games.get(1).delete()
        games.insert({"id": 3})
    damage(path, f"UPDATE log SET {change} WHERE seq = {seq}")

    for past in range(11):
        wanted: list[Any] = [{"id": key, "n": (past - key) // 2} for key in (1, 2) if key <= past]
        if past >= 9:
            wanted = [{"id": 2, "n": 3}, {"id": 3}][: past - 8]
        elif past == 8:
            wanted = [{"id": 1, "n": 3}, {"id": 2, "n": 3}]
        try:
            found = [
                reactdb.values.codec.decode(body) for page in document_bodies(path, past + 1) for body in page
            ]
        except reactdb.CorruptDatabase:
            continue
        assert wanted == found
