"""Raw batches: results as the BSON that a driver would be sent, many documents in a piece of bytes.

    for piece in orders.find_raw_batches({"paid": True}):
        documents = bson.decode_all(piece)

Rule of this file: pieces are cut where a server would cut its batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NoReturn

from pymongo.errors import InvalidOperation

from reactdb.dialects.mongodb.commands.cursors import FIRST_BATCH, MOST_BATCH_BYTES
from reactdb.dialects.mongodb.embedded.cursor import EmbeddedCommandCursor, EmbeddedCursor
from reactdb.dialects.mongodb.values import encode

__all__ = ["RawBatchCommandCursor", "RawBatchCursor"]


class Pieces:
    """An iterator over the pieces of some documents. It goes on after its end where these do."""

    def __init__(self, documents: Iterator[dict[str, Any]], first: int | None, others: int | None) -> None:
        """Args: first, others: How many documents a piece has at most; None for as many as fit into an answer."""
        self._documents = documents
        self._most = first
        self._others = others
        self._kept: bytes | None = None

    def __iter__(self) -> Pieces:
        return self

    def __next__(self) -> bytes:
        found: list[bytes] = []
        left = MOST_BATCH_BYTES
        while self._most is None or len(found) < self._most:
            data = self._kept
            if data is None:
                document = next(self._documents, None)
                if document is None:
                    break
                data = encode(document)
            self._kept = None
            left -= len(data)
            if left < 0 and found:
                self._kept = data
                break
            found.append(data)
        if not found:
            raise StopIteration
        self._most = self._others
        return b"".join(found)


class RawBatchCursor(EmbeddedCursor):
    """What `find_raw_batches` gives."""

    def _begun(self) -> Iterator[Any]:
        self._read_document = _itself
        size = self._command.get("batchSize")
        return Pieces(super()._begun(), size or FIRST_BATCH, size)

    def __getitem__(self, index: Any) -> NoReturn:
        raise InvalidOperation("Cannot call __getitem__ on RawBatchCursor")


class RawBatchCommandCursor(EmbeddedCommandCursor):
    """What `aggregate_raw_batches` gives."""

    def __init__(self, documents: Iterator[Any], batch_size: int | None, session: Any) -> None:
        """`batch_size`: how many documents a piece has at most; 1 means 2, as with PyMongo."""
        size = _LEAST if batch_size == 1 else batch_size or None
        super().__init__(Pieces(documents, size, size), session=session)
        self._read_document = _itself

    def __getitem__(self, index: Any) -> NoReturn:
        raise InvalidOperation("Cannot call __getitem__ on RawBatchCommandCursor")


_LEAST: Final = 2


def _itself(piece: Any) -> Any:
    return piece
