"""CommandRequest: one command of one client; AwaitedReply: a later reply.

Rule of this file: the context of a command. It knows no command.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bson import Code, Timestamp

from reactdb.budget import current
from reactdb.clock import monotonic
from reactdb.dialects.mongodb.bson_order import is_text, type_name
from reactdb.dialects.mongodb.collection import count_of
from reactdb.dialects.mongodb.command_fields import boolean_of, check_ms, flag_of
from reactdb.dialects.mongodb.commands.deployment import Client, Deployment
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.namespaces import Namespaces
from reactdb.dialects.mongodb.retries import RetryableWrite
from reactdb.dialects.mongodb.transactions import Transaction
from reactdb.dialects.mongodb.views import ViewingWork

__all__ = ["AwaitedReply", "CommandRequest", "DelayedCommand", "HangUp"]


class HangUp(Exception):
    """Close the connection without a reply, because of a fail point."""


@dataclass(slots=True)
class CommandRequest:
    """One command.

    Attributes:
        name: The command's name in the table of commands.
        body: The whole command, in the order of its fields on the wire.
        client: The client.
        deployment: The deployment.
        labels: Additional error labels of the reply.
        transaction: The transaction of this statement; None without one.
        moment: The moment to read; None for now.
        retry: The retryable write; None if the command is none.
        write_concern_error: The write concern error of a fail point.
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
        database: str = self.body["$db"]
        return database

    @property
    def value(self) -> Any:
        """The value of the field with the command's name."""
        return next(iter(self.body.values()))

    @property
    def collection(self) -> str:
        """The name of the command's collection.

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
        """The work on the collection, in the command's transaction.

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
        """The databases and collections: now, or at the moment of a read concern. A snapshot without a moment reads the newest
        one, and the reply contains it.

        Raises:
            MongoError: 239, the moment is too long ago; 14.
        """
        now = self.deployment.spaces
        concern = self.get("readConcern", dict, {})
        moment = concern.get("atClusterTime")
        if moment is None and concern.get("level") == "snapshot" and self.transaction is None:
            # Before the read, so that the reply is not older than its moment.
            moment = self.deployment.operation_time()
        if moment is None:
            return now
        self.moment = moment
        if not isinstance(moment, Timestamp):
            raise MongoError(
                14, "BSON field 'readConcern.atClusterTime' is the wrong type, expected type 'timestamp'"
            )
        return self.deployment.namespaces_at(moment)

    def at_moment(self, reply: dict[str, Any]) -> dict[str, Any]:
        """The reply, with the moment of the read, if it was a snapshot read."""
        if self.moment is not None and self.get("readConcern", dict, {}).get("level") == "snapshot":
            reply.get("cursor", reply)["atClusterTime"] = self.moment
        return reply

    def mongo_namespace(self) -> MongoNamespace:
        """The collection that the command is about.

        Raises:
            MongoError: 73, the name is invalid.
        """
        return MongoNamespace(self.database, self.collection)

    def get(self, name: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
        """A field of the command; `default` if it is not there or null.

        Raises:
            MongoError: It is of another type.
        """
        value = self.body.get(name)
        if value is None:
            return default
        # Code is a subclass of str.
        is_right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool | Code))
        if not is_right and not (kind is bool and isinstance(value, int | float)):
            raise MongoError(
                14,
                f"BSON field '{self.name}.{name}' is the wrong type '{type_name(value)}', expected {expected_types(kind)}",
            )
        return value

    def flag(self, name: str) -> bool:
        """A field with a boolean or a number as its value; false if it is missing or null.

        Raises:
            MongoError: 14.
        """
        return flag_of(self.name, name, self.body.get(name))

    def boolean(self, name: str, default: bool = False) -> bool:
        """A field with a boolean as its value; null is an error, too.

        Raises:
            MongoError: 14.
        """
        return boolean_of(self.name, name, self.body.get(name, default))

    def number(self, name: str, default: int | None = None) -> int | None:
        """A number from 0 on, without its fraction; see `count_of`.

        Raises:
            MongoError.
        """
        return count_of(name, self.body.get(name), default)

    def most_ms(self) -> int | None:
        """`maxTimeMS`; None if it is missing.

        Raises:
            MongoError: 14, it is no number; 9, it is not whole; 2, it is not within 0 and 2^31 - 1.
        """
        return check_ms(self.body.get("maxTimeMS"))


class AwaitedReply:
    """A command with a later reply, without a thread: `poll` it after `client.wake`, or after `wait_s` seconds.

    Subclasses write `ready`: the reply, or None until it is there; and `cancel`, for a client that has disconnected.
    """

    request: CommandRequest
    """Set by the function that executes commands."""

    def __init__(self, seconds: float) -> None:
        self._until = monotonic() + seconds

    @property
    def wait_s(self) -> float:
        return max(0.0, self._until - monotonic())

    @property
    def is_over(self) -> bool:
        return monotonic() >= self._until

    def ready(self) -> dict[str, Any] | None:
        raise NotImplementedError

    def at_last(self) -> dict[str, Any] | None:
        """The reply now, as if the time were over."""
        self._until = monotonic()
        return self.ready()

    def cancel(self) -> None:
        """The client has gone."""


class DelayedCommand(AwaitedReply):
    """A command with a delayed start."""

    def __init__(self, seconds: float, work: Callable[[], dict[str, Any] | AwaitedReply]) -> None:
        super().__init__(seconds)
        self._work = work

    def ready(self) -> dict[str, Any] | None:
        if not self.is_over:
            return None
        reply = self._work()
        # A getMore is not made to wait a second time.
        return reply.at_last() if isinstance(reply, AwaitedReply) else reply


def limit_duration(request: CommandRequest, seconds: float) -> None:
    """Limit the running time of a command.

    Raises:
        MongoError: 50, there is no time left, or a fail point orders it.
    """
    deployment = request.deployment
    if deployment.fail_points.find_order("maxTimeAlwaysTimeOut", None, request.client.app_name) is not None:
        raise MongoError(50, "operation exceeded time limit, by the fail point maxTimeAlwaysTimeOut")
    if seconds <= 0:
        raise MongoError(50, "operation exceeded time limit")
    budget = current.get()
    if budget is not None:
        budget.limit(seconds)


def expected_types(kind: type | tuple[type, ...]) -> str:
    """The allowed types of a field, for an error message. `kind` is a class, or several, whose empty value has the type."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    names = [f"'{type_name(one())}'" for one in kinds]
    return f"type {names[0]}" if len(names) == 1 else f"types [{', '.join(names)}]"
