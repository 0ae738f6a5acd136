"""MongoDBConversation: the messages of one driver's socket, one after the other.

A command with little work runs at once, on the event loop; other commands run in a thread. A `getMore` that waits for events of a
change stream needs neither: it is put aside (`AwaitedReply`), and polled again when the stream has called `wake` or its time is
over.

Rule of this file: it treats bytes, and chooses where a command runs. The dialect's `commands` execute it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Final

from reactdb.budget import Budget, MemoryFull, Stopped, current
from reactdb.dialects.mongodb.commands import (
    AwaitedReply,
    Deployment,
    HangUp,
    execute_command,
    is_quick,
    poll,
)
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.logs import logger
from reactdb.servers.connection import Conversation, LastAnswer
from reactdb.servers.limits import Limits
from reactdb.servers.mongodb.messages import BrokenMessage, Message, length_of, read_message
from reactdb.servers.workers import Workers

MOST_QUICK_BYTES: Final = 32 * 1024


class MongoDBConversation(Conversation):
    """See the head of this file. A request is a Message, or a long message as bytes."""

    may_stay_outside = True

    def __init__(
        self,
        deployment: Deployment,
        limits: Limits,
        workers: Workers,
        wake: Callable[[], None],
        address: tuple[str, int],
    ) -> None:
        self._workers = workers
        self._buffer = bytearray()
        self._numbers = count(1)
        self._waiting: tuple[AwaitedReply, Message] | None = None
        self._budget = Budget(
            limits.query_s or None, crowd=workers.crowd, most_bytes=limits.query_bytes or None
        )
        self._deployment = deployment
        self._client = deployment.client(address, wake)
        # Until the driver's hello, and its authentication, if required.
        self.is_admitted = False

    @property
    def buffered_bytes(self) -> int:
        return len(self._buffer)

    @property
    def is_answering(self) -> bool:  # type: ignore[override]
        return self._waiting is not None

    @property
    def wait_s(self) -> float | None:
        return None if self._waiting is None else self._waiting[0].wait_s

    @property
    def _most_bytes(self) -> int:
        """A client that must authenticate sends only short messages before."""
        return MOST_QUICK_BYTES if self._is_stranger else self._deployment.message_bytes

    @property
    def _is_stranger(self) -> bool:
        return self._deployment.exchange is not None and not self._client.user

    def receive(self, data: bytes) -> None:
        self._buffer += data

    def next_request(self) -> Any:
        buffer = self._buffer
        if not buffer:
            return None
        try:
            length = length_of(buffer, self._most_bytes)
        except BrokenMessage as error:
            raise LastAnswer(b"", str(error)) from error
        if length is None or len(buffer) < length:
            return None
        data = bytes(memoryview(buffer)[:length])
        del buffer[:length]
        return data if length > MOST_QUICK_BYTES else read_or_end(data)

    def is_quick(self, request: Any) -> bool:
        return isinstance(request, Message) and is_quick(
            request.body, self._deployment, bool(self._workers.jobs)
        )

    def answer(self, request: Any) -> bytes:
        message = request if isinstance(request, Message) else read_or_end(request)
        self._client.here = self.here
        if message.refusal is not None:
            return self._format_reply(message, message.refusal.reply())
        reply = self._within_budget(execute_command, message.body, self._client)
        self.is_admitted = not self._is_stranger
        return self._format_reply(message, reply)

    def poll(self) -> bytes:
        if self._waiting is None:
            return b""
        waiting, message = self._waiting
        reply = self._within_budget(poll, waiting)
        if reply is None:
            return b""
        self._waiting = None
        return self._format_reply(message, reply)

    def cancel(self) -> None:
        self._budget.cancel()

    def close(self) -> None:
        if self._waiting is not None:
            self._waiting[0].cancel()
            self._waiting = None
        self._client.close()

    def _format_reply(self, message: Message, reply: dict[str, Any] | AwaitedReply) -> bytes:
        if isinstance(reply, AwaitedReply):
            self._waiting = (reply, message)
            return b""
        if message.is_silent:
            return b""
        try:
            return message.answer(reply, next(self._numbers))
        except MongoError as error:
            # The reply has no BSON form. The client gets this error, and keeps its connection.
            logger.error("a reply of MongoDB's dialect cannot be written as BSON", exc_info=error)
            return message.answer(error.reply(), next(self._numbers))

    def _within_budget(self, function: Callable[..., Any], *arguments: Any) -> Any:
        budget = self._budget
        outer = current.set(budget)
        budget.begin()
        try:
            return function(*arguments)
        except HangUp:
            raise LastAnswer(b"", "a fail point closes the connection") from None
        except MemoryFull:
            return MongoError(146, "The command was stopped, because it filled too much memory.").reply()
        except Stopped:
            return MongoError(
                50, "operation exceeded time limit: the command took longer than this server allows"
            ).reply()
        finally:
            budget.end()
            current.reset(outer)


def read_or_end(data: bytes) -> Message:
    """Raises: LastAnswer: The bytes are no message."""
    try:
        return read_message(data)
    except BrokenMessage as error:
        raise LastAnswer(b"", str(error)) from error
