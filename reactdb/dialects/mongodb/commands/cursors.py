"""Cursors: results that are read batch by batch. Each has a number, and any socket can read on with it.

    Results     documents of a `find` or an `aggregate`, from an iterator
    Events      events of a change stream, with a wait for more
    Tailed      documents of a capped collection, likewise

A cursor is used by one command at a time. It ends when it is exhausted, killed, or unused for IDLE_S.

Rule of this file: batches and numbers. Other files produce the documents.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any, Final

from bson import Int64
from bson.raw_bson import RawBSONDocument

from reactdb.clock import monotonic
from reactdb.dialects.mongodb.command_fields import FIRST_BATCH
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.stream_waiters import StreamWakers, TableWait
from reactdb.dialects.mongodb.tailable import Tail
from reactdb.dialects.mongodb.values import MAX_BSON_BYTES, encode

__all__ = [
    "AwaitingCursor",
    "ChangeStreamCursor",
    "Cursors",
    "OpenCursor",
    "Results",
    "TailableCursor",
    "check_transaction",
]

MOST_EVENTS: Final = 1_000
"""Events per batch of a change stream. They are read on the event loop, so all other clients wait for them."""

MOST_BATCH_BYTES: Final = 16 * 1024 * 1024
IDLE_S: Final = 600.0
MOST_CURSORS: Final = 100_000
"""Open at a time, of all clients together."""


def check_transaction(number: int, own: object | None, asking: object | None) -> None:
    """Check that a cursor is continued only in its own transaction; or, if that is None, outside of any.

    Args:
        number: The cursor's number.

    Raises:
        MongoError: 50739, it was opened outside and is used in a transaction; 50740, the reverse; 50741, in another transaction.
    """
    if own is asking:
        return
    code, was = (
        (50739, "was not created") if own is None else (50740 if asking is None else 50741, "was created")
    )
    where = "outside of one" if asking is None else "in another one" if own is not None else "in one"
    raise MongoError(code, f"Cannot run getMore on cursor {number}, which {was} in a transaction, {where}")


class OpenCursor:
    """The common part of all cursors. Subclasses write `batch` and `let_go`.

    Attributes:
        namespace: Database and collection, separated by a dot.
        session: The id of its session in bytes; None without one. Only this session may continue it.
        transaction: Likewise the transaction.
        is_tailing: Whether more documents may come later, so that a command may wait for them.
        client: The socket that opened it. Other sockets may continue it, but it counts for this one.
        on_killed: Called when it is killed while a command waits for it.
        timeout_s: The longest time without use.
        left_s: The remaining time for all its commands together, from the first command's `maxTimeMS`; None is unlimited.
    """

    is_tailing = False

    def __init__(self, namespace: str, session: bytes | None = None, *, timeout_s: float = IDLE_S) -> None:
        self.id = Int64(0)
        self.namespace = namespace
        self.session = session
        self.transaction: object | None = None
        self.timeout_s = timeout_s
        self.left_s: float | None = None
        self.used_at = monotonic()
        self.is_busy = False
        self.is_killed = False
        self.client: object | None = None
        self.on_killed: Callable[[], None] | None = None

    def let_go(self) -> None:
        """Release its resources. Called once."""


class Results(OpenCursor):
    """A cursor over an iterator of documents."""

    def __init__(
        self,
        namespace: str,
        documents: Iterator[dict[str, Any]],
        session: bytes | None = None,
        **options: Any,
    ) -> None:
        super().__init__(namespace, session, **options)
        self._documents = documents
        self._kept: RawBSONDocument | None = None
        self._error: Exception | None = None
        self.is_read = False

    def batch(self, most: int | None) -> list[RawBSONDocument]:
        """The next documents, at most `most` and no more than fit into a reply; `is_read` after the last."""
        documents: list[RawBSONDocument] = []
        left = MOST_BATCH_BYTES
        while most is None or len(documents) < most:
            if self._error is not None:
                raise self._error
            document = self._read_next() if self._kept is None else self._kept
            if document is None:
                break
            left -= len(document.raw)
            if left < 0 and documents:
                self._kept = document
                return documents
            self._kept = None
            documents.append(document)
        return documents

    def look_ahead(self) -> None:
        """Find out whether the last document has been read."""
        if self._kept is None and not self.is_read:
            try:
                self._kept = self._read_next()
            except Exception as error:
                # An error in a document beyond this batch is raised only when that document is read.
                self._error = error

    def _read_next(self) -> RawBSONDocument | None:
        following = next(self._documents, None)
        if following is None:
            self.is_read = True
            return None
        data = encode(following)
        if len(data) > MAX_BSON_BYTES:
            raise MongoError(
                10334,
                f"BSONObj size: {len(data)} is invalid. Size must be between 0 and {MAX_BSON_BYTES} bytes. "
                f"It is the document of {self.namespace} with _id: {following.get('_id')!r:.200}",
            )
        return RawBSONDocument(data)

    def let_go(self) -> None:
        close = getattr(self._documents, "close", None)
        if close is not None:
            close()


class AwaitingCursor(OpenCursor):
    """The common part of both cursors whose results grow. Subclasses write `_read`, `_listen`, and `_beside`.

    Attributes:
        is_closed: There will be no more: its last batch was sent.
        is_awaiting: A getMore waits for more.
    """

    is_tailing = True
    is_awaiting = True

    def __init__(self, namespace: str, session: bytes | None = None) -> None:
        super().__init__(namespace, session)
        self._waiter: Callable[[], None] | None = None
        self._is_listening = False
        self.is_closed = False

    def _read(self, most: int) -> list[Any]:
        raise NotImplementedError

    def _listen(self, call: Callable[[], None]) -> None:
        """Have `call` called when there may be more."""
        raise NotImplementedError

    def on_ready(self, call: Callable[[], None] | None) -> None:
        """Set the callback of the waiting command, for when documents may be ready. Any thread calls it."""
        self._waiter = call
        if call is not None and not self._is_listening:
            # From then on until its end: to begin to listen costs more than to be called in vain.
            self._is_listening = True
            self._listen(self._ready)

    def _ready(self) -> None:
        call = self._waiter
        if call is not None:
            call()

    def first_batch(self, most: int | None) -> dict[str, Any]:
        """The reply of the command that opens it. A batch size of 0 reads nothing."""
        documents = self._read(FIRST_BATCH if most is None else most)
        return self._build_reply("firstBatch", documents)

    def next_batch(self, most: int | None) -> dict[str, Any] | None:
        """The reply of a getMore, if there is anything to send."""
        documents = self._read(MOST_EVENTS if most is None else min(most, MOST_EVENTS))
        return self._build_reply("nextBatch", documents) if documents or self.is_closed else None

    def quiet_batch(self) -> dict[str, Any]:
        """The reply of a getMore after a wait without results."""
        return self._build_reply("nextBatch", [])

    def _build_reply(self, field: str, documents: list[Any]) -> dict[str, Any]:
        number = Int64(0) if self.is_closed else self.id
        return {"cursor": {field: documents, "id": number, "ns": self.namespace, **self._beside()}}

    def _beside(self) -> dict[str, Any]:
        """Additional fields of a batch."""
        return {}


class ChangeStreamCursor(AwaitingCursor):
    """A cursor over a change stream. It is closed when it was invalidated."""

    def __init__(self, namespace: str, stream: Any, session: bytes | None = None) -> None:
        super().__init__(namespace, session)
        self._stream = stream
        self._token: dict[str, Any] | None = None

    def _read(self, most: int) -> list[Any]:
        events: list[Any]
        events, self._token, self.is_closed = self._stream.batch(most, MOST_BATCH_BYTES)
        return events

    def _listen(self, call: Callable[[], None]) -> None:
        self._stream.on_ready(call)

    def _beside(self) -> dict[str, Any]:
        # How far the stream has looked.
        return {"postBatchResumeToken": self._token}

    def let_go(self) -> None:
        self._stream.close()


class TailableCursor(AwaitingCursor):
    """A cursor over a capped collection. It is closed if there was nothing at first."""

    def __init__(
        self, namespace: str, tail: Tail, wakers: StreamWakers, session: bytes | None, *, is_awaiting: bool
    ) -> None:
        super().__init__(namespace, session)
        self.is_awaiting = is_awaiting
        self._tail = tail
        self._wakers = wakers
        self._listening: TableWait | None = None
        self._kept: list[RawBSONDocument] = []

    def _read(self, most: int) -> list[Any]:
        documents = self._kept[:most]
        self._kept = self._kept[most:]
        if not documents and most:
            documents = [RawBSONDocument(encode(one)) for one in self._tail.batch(most)]
        left = MOST_BATCH_BYTES
        for place, document in enumerate(documents):
            left -= len(document.raw)
            if left < 0 and place:
                documents, self._kept = documents[:place], [*documents[place:], *self._kept]
                break
        self.is_closed = self._tail.is_over and not self._kept
        return documents

    def _listen(self, call: Callable[[], None]) -> None:
        self._listening = self._wakers.listen([self._tail.table_id], call)

    def let_go(self) -> None:
        if self._listening is not None:
            self._listening.end()


class Cursors:
    """The open cursors by number. Any thread may use it."""

    def __init__(self, most_of_client: int = MOST_CURSORS) -> None:
        """`most_of_client`: the limit of open cursors per socket."""
        self._lock = Lock()
        self._open: dict[int, OpenCursor] = {}
        self._most_of_client = most_of_client
        self._counts: Counter[object] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, cursor: OpenCursor, client: object = None) -> Int64:
        """Give the cursor of a client a number.

        Raises:
            MongoError: 146, there are too many, of all clients or of this one. The cursor is then closed.
        """
        self._sweep()
        with self._lock:
            refusal = self._refusal(client)
            if refusal is None:
                while not cursor.id or int(cursor.id) in self._open:
                    cursor.id = Int64(secrets.randbits(62) + 1)
                self._open[int(cursor.id)] = cursor
                cursor.client = client
                self._counts[client] += 1
        if refusal is not None:
            cursor.let_go()
            raise MongoError(146, refusal)
        return cursor.id

    def _refusal(self, client: object) -> str | None:
        """Why no further cursor can be opened."""
        if len(self._open) >= MOST_CURSORS:
            return f"There are {MOST_CURSORS:,} open cursors already: close some."
        if self._counts[client] >= self._most_of_client:
            return f"This connection has {self._most_of_client:,} open cursors, which is the limit."
        return None

    def _remove(self, cursor: OpenCursor) -> None:
        """Within the lock."""
        if self._open.pop(int(cursor.id), None) is None:
            return
        self._counts[cursor.client] -= 1
        if not self._counts[cursor.client]:
            del self._counts[cursor.client]

    def find(self, number: int) -> OpenCursor | None:
        return self._open.get(int(number))

    def take(self, number: int, session: bytes | None, transaction: object | None = None) -> OpenCursor:
        """The cursor for one command; return it with `give_back`.

        Raises:
            MongoError: The number is unknown, the cursor is in use, or it belongs to another session or transaction.
        """
        with self._lock:
            cursor = self._open.get(int(number))
            if cursor is None:
                raise MongoError(43, f"cursor id {number} not found")
            if cursor.session != session:
                raise MongoError(
                    50737 if session is None else 50736 if cursor.session is None else 50738,
                    f"Cannot run getMore on cursor {number}, which was not created in the same session.",
                )
            check_transaction(number, cursor.transaction, transaction)
            if cursor.is_busy:
                raise MongoError(143, f"cursor id {number} is already in use")
            cursor.is_busy = True
            return cursor

    def give_back(self, cursor: OpenCursor, *, is_over: bool = False) -> None:
        with self._lock:
            cursor.is_busy = False
            cursor.on_killed = None
            cursor.used_at = monotonic()
            if is_over or cursor.is_killed:
                self._remove(cursor)
                is_over = True
        if is_over:
            cursor.let_go()

    def kill(self, numbers: list[Any]) -> dict[str, list[Any]]:
        """End cursors. Returns the outcome for each number, in the form of `killCursors`."""
        reply: dict[str, list[Any]] = {
            "cursorsKilled": [],
            "cursorsNotFound": [],
            "cursorsAlive": [],
            "cursorsUnknown": [],
        }
        for number in numbers:
            with self._lock:
                cursor = self._open.get(int(number))
                if cursor is None:
                    reply["cursorsNotFound"].append(number)
                    continue
                self._remove(cursor)
                cursor.is_killed = True
                is_busy, tell = cursor.is_busy, cursor.on_killed
            reply["cursorsKilled"].append(number)
            if not is_busy:
                cursor.let_go()
            elif tell is not None:
                tell()
        return reply

    def end_session(self, session: bytes) -> None:
        self.kill([number for number, cursor in list(self._open.items()) if cursor.session == session])

    def close(self) -> None:
        self.kill(list(self._open))

    def _sweep(self) -> None:
        """End cursors after a long time without use. Called whenever a cursor is opened, so that they cannot add up."""
        now = monotonic()
        self.kill(
            [
                number
                for number, cursor in list(self._open.items())
                if not cursor.is_busy and now - cursor.used_at > cursor.timeout_s
            ]
        )
