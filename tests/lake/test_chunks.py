"""What a chunk holds: of each key the newest document, or the versions that begin and end, and the size that they count for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from reactdb.lake.current_rows import CurrentRows  # noqa: E402
from reactdb.lake.file_reader import RowPage  # noqa: E402
from reactdb.lake.file_states import FileState  # noqa: E402
from reactdb.lake.parquet import ParquetTarget  # noqa: E402
from reactdb.lake.rows import MergedRows, ReadProgress  # noqa: E402
from reactdb.lake.target import Note, TargetState  # noqa: E402
from reactdb.lake.version_rows import VersionRows  # noqa: E402
from reactdb.values.codec import encode  # noqa: E402
from reactdb.values.collation import key_bytes  # noqa: E402
from reactdb.values.scalars import EPOCH  # noqa: E402

# Its seq, key, op, and the value in the document after it; None: there is no document.
Row = tuple[int, str, str, int | None]
A, B = "a", "b"


def file(database: str = "d") -> FileState:
    return FileState(f"/{database}.db", database, "e", 9, 0, 0, {"games": 1}, ())


def page(*rows: Row, of: FileState | None = None) -> RowPage:
    """Changes. The time of each is ten times its seq."""
    count = len(rows)
    seqs, keys, ops, values = zip(*rows, strict=True)
    bodies = [body(key, value) for key, value in zip(keys, values, strict=True)]
    nothing = [None] * count
    times = [10 * seq for seq in seqs]
    return RowPage(
        of or file(), seqs, ["games"] * count, list(map(key_bytes, keys)), ops, times, seqs, nothing, nothing, nothing,
        bodies,
    )  # fmt: skip


def body(key: str, value: int | None) -> bytes | None:
    return None if value is None else encode({"id": key, "v": value})


def size(*documents: tuple[str, int]) -> int:
    return sum(len(encode({"id": key, "v": value})) for key, value in documents)


def rows_of(kind: type[MergedRows]) -> MergedRows:
    """Rows of several files. The table has text as keys."""
    rows = kind("games", True, "evolve", ReadProgress(None))
    rows.begin(TargetState(pa.schema([]), {"primary_key": "id"}, {}))
    return rows


class RecordedMerge(ParquetTarget):
    """A table that keeps what a merge is given. `found`: what a search for rows finds."""

    def __init__(self, found: Any = None) -> None:
        self.found = found
        self.merged: list[tuple[list[Any], list[Any], list[str]]] = []
        self.wanted: list[dict[str, Any]] = []

    def lookup(self, keys: Any, where_current: bool) -> Any:
        assert where_current
        self.wanted += keys.to_pylist()
        return self.found

    def merge(self, rows: Any, deleted: Any, keys: Any, note: Note) -> None:
        self.merged.append((rows.to_pylist(), deleted.to_pylist(), list(keys)))


class TestDocuments:
    def chunk(self, *pages: RowPage) -> tuple[list[Any], list[Any], tuple[int, int, int | None]]:
        """The documents of a chunk, the keys that go, and how many are inserted, updated and deleted."""
        rows, target = rows_of(CurrentRows), RecordedMerge()
        for one in pages:
            rows.add(one)
        table = rows.chunk()
        assert table is not None
        counts = rows.merge(target, table, Note({}, {}))
        ((merged, deleted, keys),) = target.merged
        assert ["_database", "id"] == keys
        return [(row["_database"], row["id"], row["v"]) for row in merged], deleted, counts

    def test_of_each_key_the_newest_document_stays(self):
        found = self.chunk(
            page((1, A, "insert", 1), (2, B, "update", 2)),
            page((3, A, "update", 3), (4, B, "delete", None)),
            page((5, A, "insert", 5), of=file("other")),
        )

        assert ([("d", A, 3), ("other", A, 5)], [{"_database": "d", "id": B}], (2, 0, 1)) == found

    def test_whether_a_document_was_there_is_said_by_its_first_change(self):
        changes = [(1, A, "delete", None), (2, A, "insert", 2), (3, B, "insert", 3), (4, B, "delete", None)]

        assert ([("d", A, 2)], [], (0, 1, 0)) == self.chunk(page(*changes))

    def test_a_chunk_whose_documents_came_and_went_changes_no_row(self):
        rows = rows_of(CurrentRows)
        rows.add(page((1, A, "insert", 1), (2, A, "delete", None)))

        assert rows.chunk() is None

    def test_the_size_is_that_of_the_newest_documents(self):
        rows = rows_of(CurrentRows)
        rows.add(page((1, A, "insert", 12345), (2, A, "update", 123), (3, B, "insert", 1)))
        assert size((A, 123), (B, 1)) == rows.size_bytes

        rows.add(page((4, A, "delete", None)))
        assert size((B, 1)) == rows.size_bytes

        rows.clear()
        assert (0, None) == (rows.size_bytes, rows.chunk())


class TestVersions:
    def chunk(self, *pages: RowPage) -> tuple[VersionRows, Any]:
        """The rows of a chunk, and the table of its versions."""
        rows = VersionRows("games", True, "evolve", ReadProgress(None))
        for one in pages:
            rows.add(one)
        table = rows.chunk()
        assert table is not None
        return rows, table

    def ends(self, rows: list[dict[str, Any]]) -> list[tuple[int, int | None, int | None]]:
        """Of each version its seq, and the seq and the time in milliseconds of the change that ended it."""
        assert [row["next_seq"] is None for row in rows] == [row["is_current"] for row in rows]
        times = [row["valid_to"] and (row["valid_to"] - EPOCH) // timedelta(milliseconds=1) for row in rows]
        return [(row["seq"], row["next_seq"], time) for row, time in zip(rows, times, strict=True)]

    def test_a_version_ends_with_the_next_change_of_its_key(self):
        _, table = self.chunk(
            page((1, A, "insert", 1), (2, B, "insert", 2), (3, A, "update", 3)),
            page((4, A, "delete", None), (5, A, "insert", 5)),
        )

        assert [(1, 3, 30), (2, None, None), (3, 4, 40), (5, None, None)] == self.ends(table.to_pylist())

    def test_the_first_change_of_a_key_ends_the_version_from_before(self):
        _, before = self.chunk(page((1, A, "insert", 1)))
        rows, table = self.chunk(
            page((2, A, "update", 2), (3, A, "update", 3), (4, B, "insert", 4), (5, B, "update", 5))
        )
        target = RecordedMerge(before)

        assert (4, 1, None) == rows.merge(target, table, Note({}, {}))

        assert [{"database": "d", "key_bytes": key_bytes(A)}] == target.wanted
        ((merged, deleted, keys),) = target.merged
        assert ([], ["database", "key_bytes", "seq"]) == (deleted, keys)
        expected = [(1, 2, 20), (2, 3, 30), (3, None, None), (4, 5, 50), (5, None, None)]
        assert expected == self.ends(merged)

    def test_the_size_is_that_of_all_versions(self):
        rows = VersionRows("games", True, "evolve", ReadProgress(None))
        rows.add(page((1, A, "insert", 12345), (2, A, "update", 123), (3, A, "delete", None)))
        rows.add(page((4, B, "insert", 1)))
        assert size((A, 12345), (A, 123), (B, 1)) == rows.size_bytes

        rows.clear()
        assert (0, None) == (rows.size_bytes, rows.chunk())
