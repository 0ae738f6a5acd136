"""`db.blobs`: large values are put and read as streams, and documents name them."""

from __future__ import annotations

import hashlib
import io
import sqlite3
import threading
import time
import tracemalloc
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.blobs import write_rows
from reactdb.session import session_of
from reactdb.store.blobs import GRACE_MS, MAX_BLOB_BYTES, PIECE_BYTES, begin_blob, piece_checksum
from reactdb.values.blob import Blob
from tests.support.inspection import problems
from tests.support.processes import another_process

DATA = bytes(range(251)) * 4_000
AT_ONCE = timedelta(0)


def pieces_in(db: Any) -> int:
    with session_of(db).read() as snapshot:
        return int(snapshot.connection.execute("SELECT count(*) FROM pieces").fetchone()[0])


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the clock go so many milliseconds ahead."""
    now = time.time_ns

    def go(ms: int) -> None:
        monkeypatch.setattr(time, "time_ns", lambda: now() + ms * 1_000_000)

    return go


# -----------------------------------------------------------------------------------------------------------
# Put and read


@pytest.mark.parametrize(
    "source",
    [
        lambda: DATA,
        lambda: bytearray(DATA),
        lambda: memoryview(DATA),
        lambda: memoryview(DATA).cast("I"),
        lambda: io.BytesIO(DATA),
        lambda: iter([DATA[:10], b"", bytearray(DATA[10:700_000]), memoryview(DATA)[700_000:]]),
        lambda: [DATA],
    ],
)
def test_bytes_files_and_parts_are_one_blob(db: Any, source: Any):
    blob = db.blobs.put(source())

    assert Blob(hashlib.sha256(DATA).hexdigest(), len(DATA)) == blob
    assert DATA == db.blobs.read(blob) == db.blobs.read(blob.digest)
    assert blob in db.blobs
    assert blob.digest in db.blobs
    assert [blob] == list(db.blobs)
    assert blob == db.blobs.get(blob.digest)
    assert (1, len(DATA)) == db.blobs.totals()


def test_a_file_is_read_from_where_it_stands_to_its_end(db: Any):
    file = io.BytesIO(DATA)
    file.seek(1000)

    assert DATA[1000:] == db.blobs.read(db.blobs.put(file))


def test_an_empty_blob_is_one_too(db: Any):
    blob = db.blobs.put(b"")

    assert 0 == blob.size
    assert b"" == db.blobs.read(blob)
    assert blob == db.blobs.put([])
    with db.blobs.open(blob) as file:
        assert b"" == file.read()


def test_the_same_content_is_stored_once(db: Any):
    assert db.blobs.put(DATA) == db.blobs.put(io.BytesIO(DATA)) == db.blobs.put(iter([DATA, b""]))
    assert -(-len(DATA) // PIECE_BYTES) == pieces_in(db)
    large = DATA * 3
    assert db.blobs.put(large) == db.blobs.put(large)
    assert -(-len(DATA) // PIECE_BYTES) + -(-len(large) // PIECE_BYTES) == pieces_in(db)


def test_two_processes_that_put_the_same_at_once_store_it_once(path: Path):
    large = DATA * 3
    with reactdb.connect(path) as db, another_process(path) as other:
        given = []

        def parts() -> Iterator[bytes]:
            yield large[: 6 * PIECE_BYTES]
            # The other one begins later and ends earlier.
            given.append(other.blobs.put(large))
            yield large[6 * PIECE_BYTES :]

        blob = db.blobs.put(parts())
        assert [blob] == given == list(db.blobs)
        assert -(-len(large) // PIECE_BYTES) == pieces_in(db)
        assert large == db.blobs.read(blob) == other.blobs.read(blob)


def test_a_blob_is_a_file_object(db: Any):
    text = "".join(f"line {number} of a long text, ö\n" for number in range(20_000))
    blob = db.blobs.put(text.encode())

    with db.blobs.open(blob) as file:
        assert file.readable()
        assert file.seekable()
        assert not file.writable()
        assert not file.isatty()
        assert 0 == file.tell()
        assert text.encode()[:5] == file.read(5)
        assert blob.size - 3 == file.seek(-3, io.SEEK_END)
        assert text.encode()[-3:] == file.read()
        assert b"" == file.read(1)
        assert PIECE_BYTES - 2 == file.seek(PIECE_BYTES - 2)
        assert text.encode()[PIECE_BYTES - 2 : PIECE_BYTES + 2] == file.read(4)
        assert PIECE_BYTES == file.seek(-2, io.SEEK_CUR)
        assert blob.size + 10 == file.seek(blob.size + 10)
        assert b"" == file.read()
        for wrong in ((-1,), (0, 7)):
            with pytest.raises((ValueError, OSError)):
                file.seek(*wrong)
        with pytest.raises(io.UnsupportedOperation):
            file.write(b"x")
    with pytest.raises(ValueError, match="closed"):
        file.read()
    with io.TextIOWrapper(db.blobs.open(blob), encoding="utf-8") as lines:
        assert text == "".join(lines)


def test_the_digest_alone_opens_a_blob(db: Any):
    blob = db.blobs.put(DATA)

    with db.blobs.open(blob.digest) as file:
        assert blob == file.raw.blob
        assert str(blob) in repr(file.raw)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (
            "UPDATE pieces SET bytes = zeroblob(length(bytes)) WHERE id & 0xffffff = 1",
            "does not match its checksum",
        ),
        ("UPDATE pieces SET bytes = x'00' WHERE id & 0xffffff = 1", "does not match its checksum"),
        ("DELETE FROM pieces WHERE id & 0xffffff = 1", "is missing"),
    ],
)
def test_a_piece_that_changed_on_the_disk_is_not_given(path: Path, damage: str, words: str):
    with reactdb.connect(path) as db:
        blob = db.blobs.put(DATA)
    connection = sqlite3.connect(path)
    connection.execute(damage)
    connection.commit()
    connection.close()

    with reactdb.connect(path) as db, db.blobs.open(blob) as file:
        assert DATA[:PIECE_BYTES] == file.read(PIECE_BYTES)
        with pytest.raises(reactdb.CorruptDatabase, match=f"piece 1 {words}"):
            file.read(1)
        file.seek(2 * PIECE_BYTES)
        assert DATA[2 * PIECE_BYTES :] == file.read()


def test_other_bytes_under_a_right_checksum_are_not_the_blob(path: Path):
    """A whole read compares with the digest, which nobody can bring about by chance or by hand."""
    with reactdb.connect(path) as db:
        blob = db.blobs.put(DATA)
    connection = sqlite3.connect(path)
    number, data = connection.execute("SELECT id, bytes FROM pieces WHERE id & 0xffffff = 1").fetchone()
    other = data[::-1]
    connection.execute(
        "UPDATE pieces SET bytes = ?, seal = ? WHERE id = ?", (other, piece_checksum(number, other), number)
    )
    connection.commit()
    connection.close()

    with (
        reactdb.connect(path) as db,
        pytest.raises(reactdb.CorruptDatabase, match="does not match its digest"),
    ):
        db.blobs.read(blob)
    assert any("does not match its digest" in problem for problem in problems(path))


# -----------------------------------------------------------------------------------------------------------
# Documents


def test_a_blob_is_a_value(db: Any, games: Any):
    one, other = db.blobs.put(b"one"), db.blobs.put(b"other")
    games.index_create("scan")
    games.insert([{"id": one, "scan": other, "deep": [{"a": one}]}, {"id": 2, "scan": one}])

    assert {"id": one, "scan": other, "deep": [{"a": one}]} == games.get(one).run()
    assert [2] == [found["id"] for found in games.get_all(one, index="scan").run()]
    assert 1 == games.filter({"scan": other}).count().run()
    assert f"sha256:{one.digest}:3" == str(one)
    assert f"Blob(digest='{one.digest}', size=3)" == repr(one)
    text = reactdb.json.dumps({"a": one})
    assert f'{{"a":{{"$reactdb_type$":"reactdb.blob","value":"sha256:{one.digest}:3"}}}}' == text
    assert {"a": one} == reactdb.json.loads(text)


@pytest.mark.parametrize(
    "value", ["sha256:00:1", "sha256:" + "0" * 64 + ":-1", "sha256:" + "0" * 64 + ":01", "0" * 64]
)
def test_a_text_that_names_no_blob_is_refused(value: str):
    with pytest.raises(reactdb.InvalidDocument):
        reactdb.json.loads(f'{{"$reactdb_type$":"reactdb.blob","value":"{value}"}}')


@pytest.mark.parametrize(
    "arguments", [("a" * 63, 1), ("A" * 64, 1), (1, 1), ("a" * 64, -1), ("a" * 64, True)]
)
def test_what_names_no_blob_is_none(arguments: Any):
    with pytest.raises(reactdb.InvalidOption):
        Blob(*arguments)


@pytest.mark.parametrize("count", [1, 3])
def test_a_document_with_a_blob_that_is_not_there_is_refused_whole(db: Any, games: Any, count: int):
    blob = db.blobs.put(DATA)
    missing = Blob("0" * 64, 4)
    games.insert({"id": "known", "scan": blob})
    before = db.seq

    for wrong in (missing, Blob(blob.digest, 3)):
        with pytest.raises(reactdb.errors.BlobNotFound) as caught:
            games.insert([{"id": number, "scan": wrong} for number in range(count)])
        assert str(wrong) == caught.value.blob
        with pytest.raises(reactdb.errors.BlobNotFound, match="database"):
            games.get("known").update({"scan": [wrong]})
        with pytest.raises(LookupError):
            games.get("known").replace({"id": "known", "x": {"y": wrong}})
    assert (before, 1) == (db.seq, games.count().run())


def test_the_past_has_its_blobs(db: Any, games: Any):
    one, other = db.blobs.put(b"one"), db.blobs.put(b"other")
    games.insert({"id": 1, "scan": one})
    then = db.seq
    games.get(1).update({"scan": other})
    games.get(1).delete()

    assert 0 == db.blobs.remove_unused(AT_ONCE)
    past = db.at(then)
    assert b"one" == past.blobs.read(past.table("games").get(1).run()["scan"])
    with pytest.raises(reactdb.errors.ReadOnlyDatabase):
        past.blobs.put(b"new")
    db.compact(1)
    # The deletion is kept, and with it the old value that it has.
    assert 1 == db.blobs.remove_unused(AT_ONCE)
    assert [other] == list(db.blobs)
    db.compact(0)
    assert (1, []) == (db.blobs.remove_unused(AT_ONCE), list(db.blobs))
    assert 0 == pieces_in(db)


def test_a_table_that_was_dropped_keeps_no_blob(db: Any, games: Any):
    kept, gone = db.blobs.put(b"kept"), db.blobs.put(b"gone")
    games.insert([{"id": 1, "scan": kept}, {"id": 2, "scan": gone}])
    db.table_create("others").insert({"id": 1, "scan": kept})
    db.table_drop("games")
    db.compact(0)

    assert 1 == db.blobs.remove_unused(AT_ONCE)
    assert [kept] == list(db.blobs)


# -----------------------------------------------------------------------------------------------------------
# What is left, and when it goes


def test_compaction_leaves_a_new_blob_for_an_hour(db: Any, later: Any):
    blob = db.blobs.put(DATA)
    db.compact(0)
    assert blob in db.blobs

    later(GRACE_MS - 60_000)
    db.compact(0)
    assert blob in db.blobs
    assert blob == db.blobs.put(DATA)
    later(GRACE_MS + 60_000)
    db.compact(0)
    assert blob in db.blobs
    later(2 * GRACE_MS)
    db.compact(0)
    assert blob not in db.blobs
    assert 0 == pieces_in(db)


def test_what_a_put_that_died_has_left_goes_after_an_hour(db: Any, later: Any):
    write_rows(session_of(db), begin_blob, None, "put")
    db.blobs.remove_unused(AT_ONCE)

    def left() -> int:
        with session_of(db).read() as snapshot:
            return int(snapshot.connection.execute("SELECT count(*) FROM blobs").fetchone()[0])

    assert 1 == left()
    later(GRACE_MS + 1000)
    db.compact(0)
    assert 0 == left()


def test_a_put_that_sleeps_for_more_than_an_hour_says_so_and_leaves_nothing(db: Any, later: Any):
    def parts() -> Iterator[bytes]:
        yield bytes(6 * PIECE_BYTES)
        later(GRACE_MS + 1000)
        db.compact(0)
        yield bytes(6 * PIECE_BYTES)

    with pytest.raises(reactdb.errors.BlobNotFound, match="for so long"):
        db.blobs.put(parts())
    assert (0, []) == (pieces_in(db), list(db.blobs))


def test_a_put_that_others_pass_by_keeps_its_pieces(db: Any):
    def parts() -> Iterator[bytes]:
        for _ in range(4):
            yield bytes(6 * PIECE_BYTES)
            db.compact(0)
            db.blobs.remove_unused(AT_ONCE)
            assert [] == list(db.blobs)

    blob = db.blobs.put(parts())
    assert bytes(24 * PIECE_BYTES) == db.blobs.read(blob)


@pytest.mark.parametrize("size", [0, 10, 6 * PIECE_BYTES])
def test_a_source_that_fails_leaves_nothing(db: Any, size: int):
    def parts() -> Iterator[bytes]:
        yield bytes(size)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        db.blobs.put(parts())
    assert (0, []) == (pieces_in(db), list(db.blobs))


def test_a_put_is_part_of_a_transaction(db: Any, games: Any):
    large = DATA * 3
    with pytest.raises(ZeroDivisionError), db.transaction():
        games.insert({"id": 1, "scan": db.blobs.put(large)})
        assert large == db.blobs.read(games.get(1).run()["scan"])
        raise ZeroDivisionError
    assert (0, [], 0) == (pieces_in(db), list(db.blobs), games.count().run())

    with db.transaction():
        games.insert({"id": 1, "scan": db.blobs.put(large)})
    assert large == db.blobs.read(games.get(1).run()["scan"])


def test_a_blob_that_is_open_is_not_removed(db: Any):
    blob = db.blobs.put(DATA)
    with db.blobs.open(blob) as file:
        assert DATA[:10] == file.read(10)
        assert 0 == db.blobs.remove_unused(AT_ONCE)
        assert DATA[10:] == file.read()
    assert 1 == db.blobs.remove_unused(AT_ONCE)


def test_a_blob_that_another_process_removes_is_missed_by_who_reads_it(path: Path):
    with reactdb.connect(path) as db, another_process(path) as other:
        blob = db.blobs.put(DATA)
        with db.blobs.open(blob) as file:
            assert DATA[:10] == file.read(10)
            assert 1 == other.blobs.remove_unused(AT_ONCE)
            with pytest.raises(reactdb.errors.BlobNotFound, match="was removed while it was read"):
                file.read()


def test_a_large_removal_is_many_small_ones(db: Any):
    blob = db.blobs.put(bytes(100 * PIECE_BYTES))
    other = db.blobs.put(b"other")

    assert 2 == db.blobs.remove_unused(AT_ONCE)
    assert 0 == pieces_in(db)
    assert blob not in db.blobs
    assert other not in db.blobs


# -----------------------------------------------------------------------------------------------------------
# Mistakes


@pytest.mark.parametrize("source", ["text", 7, None, ["text"], [7], io.StringIO("text"), object()])
def test_what_is_not_bytes_is_refused(db: Any, source: Any):
    with pytest.raises(reactdb.InvalidOption, match="blob"):
        db.blobs.put(source)
    assert 0 == pieces_in(db)


def test_a_source_that_does_not_wait_is_refused(db: Any):
    class Pipe:
        def read(self, size: int) -> None:
            return None

    with pytest.raises(reactdb.InvalidOption, match="wait"):
        db.blobs.put(Pipe())


@pytest.mark.parametrize("blob", ["a", 7, None, "A" * 64, b"a" * 32])
def test_what_is_no_digest_is_refused(db: Any, blob: Any):
    for ask in (db.blobs.open, db.blobs.read, db.blobs.get, db.blobs.__contains__):
        with pytest.raises(reactdb.InvalidOption, match="digest"):
            ask(blob)


def test_a_blob_that_is_not_there_is_not_found(db: Any):
    missing = Blob("0" * 64, 4)
    assert missing not in db.blobs
    assert missing.digest not in db.blobs
    assert db.blobs.get(missing.digest) is None
    for ask in (db.blobs.open, db.blobs.read):
        for name in (missing, missing.digest):
            with pytest.raises(reactdb.errors.BlobNotFound, match="is not in this database"):
                ask(name)


@pytest.mark.parametrize("age", [1, None, timedelta(-1)])
def test_an_age_is_a_timedelta(db: Any, age: Any):
    with pytest.raises(reactdb.InvalidOption, match="older_than"):
        db.blobs.remove_unused(age)


def test_a_blob_that_is_too_large_is_refused(db: Any, monkeypatch: pytest.MonkeyPatch):
    assert 4 * 2**40 == MAX_BLOB_BYTES
    monkeypatch.setattr("reactdb.blobs.MAX_BLOB_BYTES", 8 * PIECE_BYTES)
    with pytest.raises(reactdb.errors.ResourceLimit, match="at most"):
        db.blobs.put(bytes(8 * PIECE_BYTES + 1))
    assert (0, []) == (pieces_in(db), list(db.blobs))


def test_a_database_that_is_only_read_is_read(path: Path):
    with reactdb.connect(path) as db:
        blob = db.blobs.put(DATA)
    with reactdb.connect(path, read_only=True) as db:
        assert DATA == db.blobs.read(blob)
        for write in (lambda: db.blobs.put(b""), db.blobs.remove_unused):
            with pytest.raises(reactdb.errors.ReadOnlyDatabase):
                write()


def test_a_database_that_is_closed_says_so(path: Path):
    db = reactdb.connect(path)
    blob = db.blobs.put(DATA)
    file = db.blobs.open(blob)
    blobs = db.blobs
    db.close()
    for use in (
        lambda: blobs.put(b""),
        lambda: blobs.open(blob),
        lambda: blob in blobs,
        lambda: list(blobs),
        blobs.totals,
        file.read,
    ):
        with pytest.raises(reactdb.errors.DatabaseClosed):
            use()
    file.close()


# -----------------------------------------------------------------------------------------------------------
# Beside others


def test_others_write_while_a_large_blob_is_put(db: Any, games: Any):
    def parts() -> Iterator[bytes]:
        for number in range(8):
            yield bytes([number]) * 2 * PIECE_BYTES
            # From another thread, which would wait for ever if this one held the lock.
            thread = threading.Thread(target=games.insert, args=({"id": number},))
            thread.start()
            thread.join(10)
            assert not thread.is_alive()

    db.blobs.put(parts())
    assert 8 == games.count().run()


def test_threads_put_and_read(path: Path):
    errors: list[BaseException] = []
    with reactdb.connect(path, durability="soft") as db:
        notes = db.table_create("notes")

        def work(seed: int) -> None:
            try:
                for number in range(6):
                    data = bytes([seed % 2, number]) * PIECE_BYTES
                    blob = db.blobs.put(io.BytesIO(data))
                    notes.insert({"id": [seed, number], "blob": blob})
                    assert data == db.blobs.read(blob)
                    db.compact(0)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [] == errors
        assert 12 == len(list(db.blobs))


def test_a_large_blob_takes_little_memory(path: Path):
    """50 MB: what is held is a few pieces."""

    def parts() -> Iterator[bytes]:
        for number in range(500):
            yield number.to_bytes(4, "big") * 25_000

    with reactdb.connect(path, durability="soft") as db:
        db.blobs.put(b"what is imported only once")
        tracemalloc.start()
        try:
            blob = db.blobs.put(parts())
            digest = hashlib.sha256()
            with db.blobs.open(blob) as file:
                while part := file.read(100_000):
                    digest.update(part)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (50_000_000, blob.digest) == (blob.size, digest.hexdigest())
    assert most < 5_000_000
