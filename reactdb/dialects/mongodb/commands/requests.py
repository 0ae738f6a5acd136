"""CommandRequest: one command of one client; AwaitedReply: an answer that comes later.

Rule of this file: what a command finds when it is called. It knows no command.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bson import Code, Timestamp

from reactdb.budget import current
from reactdb.dialects.mongodb.collection import count_of
from reactdb.dialects.mongodb.commands.deployment import Client, Deployment
from reactdb.dialects.mongodb.commands.fields import boolean_of, checked_ms, flag_of
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.namespaces import Namespaces
from reactdb.dialects.mongodb.ordering import is_text, type_name
from reactdb.dialects.mongodb.retries import RetryableWrite
from reactdb.dialects.mongodb.transactions import Transaction
from reactdb.dialects.mongodb.viewing import ViewingWork

__all__ = ["AwaitedReply", "CommandRequest", "Delayed", "HangUp"]


class HangUp(Exception):
    """The connection is to be closed without an answer, because a fail point says so."""


@dataclass(slots=True)
class CommandRequest:
    """One command.

    Attributes:
        name: As the table of commands spells it.
        body: The whole command, in the order in which it came.
        client: The client that asks.
        deployment: What it asks.
        labels: Labels that its answer gets besides.
        transaction: Which one it is a statement of; None for none.
        moment: The one that it reads; None for now.
        retry: What its driver may send again; None where it is no retryable write.
        write_concern_error: What a fail point orders to be said of the write concern.
    """

    name: str
    body: dict[str, Any]
    client: Client
    deployment: Deployment
    labels: list[str] = field(default_factory=list)
    transaction: Transaction | None = None
    moment: Timestamp | None = None
    retry: RetryableWrite | None = None
    write_concern_error: dict[str, Any] | None = None

    @property
    def database(self) -> str:
        found: str = self.body["$db"]
        return found

    @property
    def value(self) -> Any:
        """What stands beside the command's name."""
        return next(iter(self.body.values()))

    @property
    def collection(self) -> str:
        """The name of the collection that the command is about.

        Raises:
            MongoError.
        """
        name = self.value
        if not is_text(name):
            raise MongoError(73, f"collection name has invalid type {type_name(name)}")
        if not name or name.startswith(".") or "\0" in name:
            raise MongoError(73, f"Invalid namespace specified '{self.database}.{name}'")
        return name

    @property
    def namespace(self) -> str:
        return f"{self.database}.{self.collection}"

    def collection_work(self) -> ViewingWork:
        """What can be done with the collection, in the transaction that the command is a part of.

        Raises:
            MongoError.
        """
        body = self.body
        bypasses = "bypassDocumentValidation" in body and self.flag("bypassDocumentValidation")
        keeps_empty = "bypassEmptyTsReplacement" in body and self.flag("bypassEmptyTsReplacement")
        spaces = self.spaces() if "readConcern" in body else self.deployment.spaces
        return ViewingWork(
            spaces,
            self.mongo_namespace(),
            self.transaction,
            bypasses=bypasses,
            keeps_empty=keeps_empty,
            retry=self.retry,
        )

    def spaces(self) -> Namespaces:
        """The databases and collections: of now, or of the moment that a read concern names. A snapshot for which it names none
        is of the newest moment, which is told with the answer.

        Raises:
            MongoError: 239, that moment is too long ago; 14.
        """
        now = self.deployment.spaces
        concern = self.get("readConcern", dict, {})
        moment = concern.get("atClusterTime")
        if moment is None and concern.get("level") == "snapshot" and self.transaction is None:
            # Before it is read, so that the answer is not older than what it says of itself.
            moment = self.deployment.operation_time()
        if moment is None:
            return now
        self.moment = moment
        if not isinstance(moment, Timestamp):
            raise MongoError(
                14, "BSON field 'readConcern.atClusterTime' is the wrong type, expected type 'timestamp'"
            )
        return self.deployment.spaces_at(moment)

    def at_moment(self, reply: dict[str, Any]) -> dict[str, Any]:
        """The answer, with the moment that was read where a snapshot was asked for."""
        if self.moment is not None and self.get("readConcern", dict, {}).get("level") == "snapshot":
            reply.get("cursor", reply)["atClusterTime"] = self.moment
        return reply

    def mongo_namespace(self) -> MongoNamespace:
        """The collection that the command is about.

        Raises:
            MongoError: 73, there can be none of this name.
        """
        return MongoNamespace(self.database, self.collection)

    def get(self, name: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
        """A field of the command; `default` if it is not there or null.

        Raises:
            MongoError: It is of another type.
        """
        found = self.body.get(name)
        if found is None:
            return default
        # Code is a subclass of str.
        is_right = isinstance(found, kind) and (kind is bool or not isinstance(found, bool | Code))
        if not is_right and not (kind is bool and isinstance(found, int | float)):
            raise MongoError(
                14,
                f"BSON field '{self.name}.{name}' is the wrong type '{type_name(found)}', expected {expected(kind)}",
            )
        return found

    def flag(self, name: str) -> bool:
        """A field that is a boolean, or a number in its place; false where it is not there or null.

        Raises:
            MongoError: 14.
        """
        return flag_of(self.name, name, self.body.get(name))

    def boolean(self, name: str, default: bool = False) -> bool:
        """A field that has to be a boolean, and is not even null.

        Raises:
            MongoError: 14.
        """
        return boolean_of(self.name, name, self.body.get(name, default))

    def number(self, name: str, default: int | None = None) -> int | None:
        """A number that is not negative, without its fraction; see `count_of`.

        Raises:
            MongoError.
        """
        return count_of(name, self.body.get(name), default)

    def most_ms(self) -> int | None:
        """`maxTimeMS`; None where it is not there.

        Raises:
            MongoError: 14, it is no number; 9, it is not whole; 2, it is not within 0 and 2^31 - 1.
        """
        return checked_ms(self.body.get("maxTimeMS"))


class AwaitedReply:
    """A command whose answer comes later, without a thread: `poll` it after `client.wake`, or after `wait_s` seconds.

    Subclasses write `ready`: the answer, or None as long as there is none; and `cancel`, for a client that has gone.
    """

    request: CommandRequest
    """Set by the function that carries commands out."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    @property
    def wait_s(self) -> float:
        return max(0.0, self._until - time.monotonic())

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._until

    def ready(self) -> dict[str, Any] | None:
        raise NotImplementedError

    def at_last(self) -> dict[str, Any] | None:
        """The answer now, as if the time were over."""
        self._until = time.monotonic()
        return self.ready()

    def cancel(self) -> None:
        """The client has gone."""


class Delayed(AwaitedReply):
    """A command that begins later."""

    def __init__(self, seconds: float, work: Callable[[], dict[str, Any] | AwaitedReply]) -> None:
        super().__init__(seconds)
        self._work = work

    def ready(self) -> dict[str, Any] | None:
        if not self.is_over:
            return None
        reply = self._work()
        # A getMore is not made to wait a second time.
        return reply.at_last() if isinstance(reply, AwaitedReply) else reply


def hold_to(request: CommandRequest, seconds: float) -> None:
    """Let a command take no longer.

    Raises:
        MongoError: 50, there is no time left, or a fail point says so.
    """
    deployment = request.deployment
    if deployment.fail_points.struck("maxTimeAlwaysTimeOut", None, request.client.app_name) is not None:
        raise MongoError(50, "operation exceeded time limit, by the fail point maxTimeAlwaysTimeOut")
    if seconds <= 0:
        raise MongoError(50, "operation exceeded time limit")
    budget = current.get()
    if budget is not None:
        budget.limit(seconds)


def expected(kind: type | tuple[type, ...]) -> str:
    """The types that a field may have, in an error's words. Each is a class whose empty value has the type."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    names = [f"'{type_name(one())}'" for one in kinds]
    return f"type {names[0]}" if len(names) == 1 else f"types [{', '.join(names)}]"
