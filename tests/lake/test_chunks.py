"""What a chunk holds: of each key the newest document, or the versions that begin and end, and the size that they count for."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")

from reactdb.lake.chunks import ChunkDocuments, ChunkVersions
from reactdb.lake.file_reader import RowPage
from reactdb.lake.file_states import FileState
from reactdb.lake.parts import DatabasePosition

Row = tuple[int, bytes, str, bytes | None]
A, B = b"a", b"b"


def file(database: str = "d") -> FileState:
    return FileState(database, DatabasePosition(f"/{database}.db", "e", 9, {"games": 1}), 0, ())


def page(*rows: Row, of: FileState | None = None) -> RowPage:
    """Changes: (seq, key, op, document). The time of each is ten times its seq."""
    count = len(rows)
    seqs, keys, ops, bodies = zip(*rows, strict=True)
    nothing = [None] * count
    times = [10 * seq for seq in seqs]
    return RowPage(
        of or file(), seqs, ["games"] * count, keys, ops, times, seqs, nothing, nothing, nothing, bodies
    )


class TestDocuments:
    def test_of_each_key_the_newest_document_stays(self):
        chunk = ChunkDocuments()
        chunk.add(page((1, A, "insert", b"1"), (2, B, "update", b"2")))
        chunk.add(page((3, A, "update", b"3"), (4, B, "delete", None)))
        chunk.add(page((5, A, "insert", b"5"), of=file("other")))

        found = [(one.database, documents) for one, documents in chunk.by_file()]
        assert [("d", {A: (False, b"3"), B: (True, None)}), ("other", {A: (False, b"5")})] == found

    def test_whether_a_document_was_there_is_said_by_its_first_change(self):
        chunk = ChunkDocuments()
        chunk.add(
            page(
                (1, A, "delete", None), (2, A, "insert", b"2"), (3, B, "insert", b"3"), (4, B, "delete", None)
            )
        )

        ((_, documents),) = chunk.by_file()
        assert {A: (True, b"2"), B: (False, None)} == documents

    def test_the_size_is_that_of_the_newest_documents(self):
        chunk = ChunkDocuments()
        chunk.add(page((1, A, "insert", b"12345"), (2, A, "update", b"123"), (3, B, "insert", b"1")))
        assert 4 == chunk.size_bytes

        chunk.add(page((4, A, "delete", None)))
        assert 1 == chunk.size_bytes

        chunk.clear()
        assert (0, []) == (chunk.size_bytes, list(chunk.by_file()))


class TestVersions:
    def test_a_version_ends_with_the_next_change_of_its_key(self):
        chunk = ChunkVersions()
        chunk.add(page((1, A, "insert", b"1"), (2, B, "insert", b"2"), (3, A, "update", b"3")))
        chunk.add(page((4, A, "delete", None), (5, A, "insert", b"5")))

        begun = [(one.seqs, ends) for one, ends in chunk.begun()]
        assert [([1, 2, 3], [(3, 30), None, (4, 40)]), ([5], [None])] == begun

    def test_the_first_change_of_a_key_ends_the_version_from_before(self):
        chunk = ChunkVersions()
        chunk.add(
            page(
                (1, A, "update", b"1"), (2, A, "update", b"2"), (3, B, "insert", b"3"), (4, B, "update", b"4")
            )
        )

        assert {("d", A): (1, 10)} == chunk.ended

    def test_the_size_is_that_of_all_versions(self):
        chunk = ChunkVersions()
        chunk.add(page((1, A, "insert", b"12345"), (2, A, "update", b"123"), (3, A, "delete", None)))
        chunk.add(page((4, B, "insert", b"1")))
        assert 9 == chunk.size_bytes

        chunk.clear()
        assert (0, {}, []) == (chunk.size_bytes, chunk.ended, list(chunk.begun()))
