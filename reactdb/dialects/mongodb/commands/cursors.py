"""Cursors: results that are read batch by batch, each with a number by which any socket can ask for more.

    Results     documents of a `find` or an `aggregate`, from an iterator
    Events      events of a change stream, which may have to be waited for
    Tailed      documents of a capped collection, likewise

A cursor is used by one command at a time. It ends when it was read, killed, or not used for IDLE_S.

Rule of this file: batches and numbers. Where documents come from is others'.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any, Final

from bson import Int64
from bson.raw_bson import RawBSONDocument

from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.tailing import Tail
from reactdb.dialects.mongodb.values import MAX_BSON_BYTES, encode
from reactdb.dialects.mongodb.waking import StreamWakers, TableWait

__all__ = [
    "FIRST_BATCH",
    "Cursors",
    "Events",
    "OpenCursor",
    "Results",
    "Tailed",
    "Tailing",
    "check_transaction",
]

FIRST_BATCH: Final = 101
"""Documents of a first batch for which nobody named a number."""

MOST_EVENTS: Final = 1_000
"""Events of one batch of a change stream. They are read on the loop, so all other clients wait for them."""

MOST_BATCH_BYTES: Final = 16 * 1024 * 1024
IDLE_S: Final = 600.0
MOST_CURSORS: Final = 100_000
"""Open at a time, of all clients together."""


def check_transaction(number: int, own: object | None, asking: object | None) -> None:
    """A cursor goes on only in the transaction in which it was opened; where that is None, outside of all.

    Args:
        number: The cursor's.

    Raises:
        MongoError: 50739, it was opened outside, and is asked within one; 50740, the other way round; 50741, in another one.
    """
    if own is asking:
        return
    code, was = (
        (50739, "was not created") if own is None else (50740 if asking is None else 50741, "was created")
    )
    where = "outside of one" if asking is None else "in another one" if own is not None else "in one"
    raise MongoError(code, f"Cannot run getMore on cursor {number}, which {was} in a transaction, {where}")


class OpenCursor:
    """What all cursors have. Subclasses write `batch` and `let_go`.

    Attributes:
        namespace: Database and collection, with a dot between.
        session: The session that it was opened in, as the bytes of its id; None for none. Only that one may go on with it.
        transaction: Likewise the transaction.
        is_tailing: Whether more may come later, so that a command may wait for it.
        client: The socket that it was opened by. Other sockets may go on with it, but it counts for this one.
        on_killed: Called when it is killed while a command waits for it.
        timeout_s: How long it may be left alone.
        left_s: How long the commands about it may take together, as `maxTimeMS` of the first said; None for any time.
    """

    is_tailing = False

    def __init__(self, namespace: str, session: bytes | None = None, *, timeout_s: float = IDLE_S) -> None:
        self.id = Int64(0)
        self.namespace = namespace
        self.session = session
        self.transaction: object | None = None
        self.timeout_s = timeout_s
        self.left_s: float | None = None
        self.used_at = time.monotonic()
        self.is_busy = False
        self.is_killed = False
        self.client: object | None = None
        self.on_killed: Callable[[], None] | None = None

    def let_go(self) -> None:
        """Give back what it holds. Called once."""


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
        found: list[RawBSONDocument] = []
        left = MOST_BATCH_BYTES
        while most is None or len(found) < most:
            if self._error is not None:
                raise self._error
            document = self._following() if self._kept is None else self._kept
            if document is None:
                break
            left -= len(document.raw)
            if left < 0 and found:
                self._kept = document
                return found
            self._kept = None
            found.append(document)
        return found

    def look_ahead(self) -> None:
        """Find out whether the last document has been read."""
        if self._kept is None and not self.is_read:
            try:
                self._kept = self._following()
            except Exception as error:
                # What is wrong with a document that nobody has asked for yet is told when somebody does.
                self._error = error

    def _following(self) -> RawBSONDocument | None:
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


class Tailing(OpenCursor):
    """What both kinds have that more may come of later. Subclasses write `_read`, `_listen`, and what they tell beside.

    Attributes:
        is_closed: There will be no more: its last batch has been told.
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
        """Whom to call when there may be something: the command that waits. Any thread calls it."""
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
        """The answer of the command that opens it. Of a batch of 0, nothing is read."""
        found = self._read(FIRST_BATCH if most is None else most)
        return self._told("firstBatch", found)

    def next_batch(self, most: int | None) -> dict[str, Any] | None:
        """The answer of a getMore, if there is anything to tell."""
        found = self._read(MOST_EVENTS if most is None else min(most, MOST_EVENTS))
        return self._told("nextBatch", found) if found or self.is_closed else None

    def quiet_batch(self) -> dict[str, Any]:
        """The answer of a getMore that has waited in vain."""
        return self._told("nextBatch", [])

    def _told(self, field: str, found: list[Any]) -> dict[str, Any]:
        number = Int64(0) if self.is_closed else self.id
        return {"cursor": {field: found, "id": number, "ns": self.namespace, **self._beside()}}

    def _beside(self) -> dict[str, Any]:
        """What is told beside a batch."""
        return {}


class Events(Tailing):
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


class Tailed(Tailing):
    """A cursor over a capped collection. It is closed where there was nothing at first."""

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
        found = self._kept[:most]
        self._kept = self._kept[most:]
        if not found and most:
            found = [RawBSONDocument(encode(one)) for one in self._tail.batch(most)]
        left = MOST_BATCH_BYTES
        for place, document in enumerate(found):
            left -= len(document.raw)
            if left < 0 and place:
                found, self._kept = found[:place], [*found[place:], *self._kept]
                break
        self.is_closed = self._tail.is_over and not self._kept
        return found

    def _listen(self, call: Callable[[], None]) -> None:
        self._listening = self._wakers.listen([self._tail.table_id], call)

    def let_go(self) -> None:
        if self._listening is not None:
            self._listening.end()


class Cursors:
    """The open cursors by number. Any thread may use it."""

    def __init__(self, most_of_client: int = MOST_CURSORS) -> None:
        """`most_of_client`: how many cursors one socket may have opened that are still open."""
        self._lock = Lock()
        self._open: dict[int, OpenCursor] = {}
        self._most_of_client = most_of_client
        self._counts: Counter[object] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, cursor: OpenCursor, client: object = None) -> Int64:
        """Give the cursor of a client a number.

        Raises:
            MongoError: 146, there are too many, of all clients or of this one. The cursor has ended then.
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
            return (
                f"This connection has {self._most_of_client:,} open cursors, which is as many as it can have."
            )
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
        """The cursor for one command; `give_back` it.

        Raises:
            MongoError: There is none of this number, or it is in use, or another session's or transaction's.
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
            cursor.used_at = time.monotonic()
            if is_over or cursor.is_killed:
                self._remove(cursor)
                is_over = True
        if is_over:
            cursor.let_go()

    def kill(self, numbers: list[Any]) -> dict[str, list[Any]]:
        """End cursors. Gives what became of each number, as `killCursors` tells it."""
        told: dict[str, list[Any]] = {
            "cursorsKilled": [],
            "cursorsNotFound": [],
            "cursorsAlive": [],
            "cursorsUnknown": [],
        }
        for number in numbers:
            with self._lock:
                cursor = self._open.get(int(number))
                if cursor is None:
                    told["cursorsNotFound"].append(number)
                    continue
                self._remove(cursor)
                cursor.is_killed = True
                is_busy, tell = cursor.is_busy, cursor.on_killed
            told["cursorsKilled"].append(number)
            if not is_busy:
                cursor.let_go()
            elif tell is not None:
                tell()
        return told

    def end_session(self, session: bytes) -> None:
        self.kill([number for number, cursor in list(self._open.items()) if cursor.session == session])

    def close(self) -> None:
        self.kill(list(self._open))

    def _sweep(self) -> None:
        """End cursors that nobody has used for long. Asked when one is opened, so that they cannot add up."""
        now = time.monotonic()
        self.kill(
            [
                number
                for number, cursor in list(self._open.items())
                if not cursor.is_busy and now - cursor.used_at > cursor.timeout_s
            ]
        )
