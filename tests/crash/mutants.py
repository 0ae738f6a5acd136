"""Mutants: mistakes that are put into the store of a program that is about to be recorded. The images must show each of them.

`tests/mutants` is different: it changes the text of a copy of the project, to show that the ordinary tests notice. And
`broken.py` breaks stores that are going to be killed, because a kill loses other things than a power cut does.

Rule of this file: a mutant changes the store in its own process, and nothing in the files of the package.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from reactdb import blobs
from reactdb.change import CATALOGUE
from reactdb.durable import worker
from reactdb.errors import BlobNotFound
from reactdb.store import blobs as stored_blobs
from reactdb.store import publisher, schema, transaction, writer
from reactdb.store.file import flush, sqlite


def synchronous_off() -> None:
    """Nothing is ever flushed."""

    class WithoutFlushes(sqlite.Tracked):
        def execute(self, statement: str, *arguments: Any) -> Any:
            return super().execute(statement.replace("synchronous=FULL", "synchronous=OFF"), *arguments)

    sqlite.Tracked = WithoutFlushes  # type: ignore[misc]


def soft_for_hard() -> None:
    """Every commit is soft, whatever was asked for: what the images then hold is judged as hard."""
    real = writer.Writer._begin

    def begin(self: Any, left_s: float, is_hard: bool, *arguments: Any) -> Any:
        return real(self, left_s, False, *arguments)

    writer.Writer._begin = begin  # type: ignore[method-assign]


def log_apart_from_heads() -> None:
    """The head of a document is committed, and then the log entry that it points to in a transaction of its own."""
    real = transaction.append

    def append(connection: Any, how: Any, rows: Any, count: int) -> None:
        rows = list(rows)
        # A table is made within a savepoint, which a commit would end.
        if all(row[1] != CATALOGUE for row in rows):
            connection.execute("COMMIT")
            connection.execute("BEGIN IMMEDIATE")
        real(connection, how, rows, count)

    transaction.append = append


def told_early() -> None:
    """Feeds hear of a commit before it is made."""
    real = writer.Writer._commit

    def commit(self: Any, transactions: Any, *arguments: Any) -> None:
        self.engine.publisher.publish(transactions, transactions[-1].first + transactions[-1].count - 1)
        self.engine.publisher.drain()
        real(self, transactions, *arguments)

    writer.Writer._commit = commit  # type: ignore[method-assign]
    # The thread that follows the file may look at it in between. It would find less there than was told, which it takes for a
    # backup that was restored, and would end the program by chance.
    publisher.describe_other_history = lambda *arguments: ""  # type: ignore[assignment]


def forgets_failures() -> None:
    """After a flush has failed, it goes on as if nothing was the matter."""
    flush.Flushes.notice = lambda self, error: False  # type: ignore[method-assign]


def answers_unflushed() -> None:
    """A hard write that changes nothing flushes nothing, whatever its answer rests on."""
    schema.touch = lambda connection: None


def acknowledged_apart() -> None:
    """A consumer's position is committed before what is done with the changes."""
    poll, acknowledge = worker.Batches.poll, worker.Batch.acknowledge

    def poll_and_acknowledge(self: Any) -> Any:
        batch = poll(self)
        if batch is not None:
            acknowledge(batch)
        return batch

    worker.Batches.poll = poll_and_acknowledge  # type: ignore[method-assign]
    worker.Batch.acknowledge = lambda self: None  # type: ignore[method-assign]


def beside_apart() -> None:
    """What a write hook writes beside is committed in a transaction of its own."""
    real = transaction.WriteTransaction.put

    def put(self: Any, *arguments: Any) -> bool:
        if self.savepoint is None:
            self.flush()
            self.connection.execute("COMMIT")
            self.connection.execute("BEGIN IMMEDIATE")
        return real(self, *arguments)

    transaction.WriteTransaction.put = put  # type: ignore[method-assign]


def pieces_after_the_blob() -> None:
    """A blob is found, and its last pieces are committed after that."""
    real = blobs._Unfinished.finish

    def finish(self: Any, pieces: list[bytes], digest: bytes, *arguments: Any) -> None:
        real(self, [], digest, *arguments)

        def add(connection: Any, now: int) -> None:
            stored = stored_blobs.find_blob(connection, digest)
            assert stored is not None
            rows = list(zip(stored.pieces[self._count :], pieces, strict=False))
            connection.executemany(
                stored_blobs.ADD_PIECE.replace("INSERT", "INSERT OR IGNORE"),
                [(number, stored_blobs.piece_checksum(number, data), data) for number, data in rows],
            )

        blobs.write_rows(self._session, add, arguments[-1], "blobs.put")

    blobs._Unfinished.finish = finish  # type: ignore[method-assign]


def references_apart() -> None:
    """Which blobs a document refers to is committed with the next document that has some."""
    real = transaction.add_references
    late: list[tuple[int, bytes | None]] = []

    def add_references(connection: Any, entries: Any) -> None:
        for entry in late:
            # Nothing referred to it, so it may be gone.
            with suppress(BlobNotFound):
                real(connection, [entry])
        late[:] = entries

    transaction.add_references = add_references


def removed_in_use() -> None:
    """Blobs are removed when they are old, whoever refers to them."""
    stored_blobs.UNUSED = (  # type: ignore[misc]
        f"SELECT {stored_blobs.COLUMNS} FROM blobs WHERE time < ?1 AND (digest IS NOT NULL OR time < ?2) ORDER BY time"
    )


MUTANTS: dict[str, Callable[[], None]] = {
    "synchronous=OFF": synchronous_off,
    "soft judged as hard": soft_for_hard,
    "log apart from heads": log_apart_from_heads,
    "a feed is told early": told_early,
    "a failed flush is forgotten": forgets_failures,
    "an answer is not flushed": answers_unflushed,
    "acknowledged apart from the work": acknowledged_apart,
    "what is beside is committed apart": beside_apart,
    "a blob is found before its pieces": pieces_after_the_blob,
    "references are committed apart": references_apart,
    "a blob in use is removed": removed_in_use,
}
