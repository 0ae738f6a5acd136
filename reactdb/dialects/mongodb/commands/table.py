"""The table of commands: the name of each command, in any case of its letters, and its function.

    @command("ping", quick=always)
    def ping(request): return {}

A function takes a CommandRequest and returns the fields of the reply without `ok`, or an AwaitedReply, or raises MongoError.

Rule of this file: a table. The functions are in the files of their subjects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from reactdb.dialects.mongodb.commands.requests import AwaitedReply, CommandRequest

if TYPE_CHECKING:
    from reactdb.dialects.mongodb.commands.deployment import Deployment

__all__ = ["COMMANDS", "Command", "Work", "command", "find_command"]

Work = Callable[[CommandRequest], "dict[str, Any] | AwaitedReply"]
Quick = Callable[["dict[str, Any]", "Deployment"], bool]


def never(body: dict[str, Any], deployment: Deployment) -> bool:
    return False


def always(body: dict[str, Any], deployment: Deployment) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Command:
    """One line of the table.

    Attributes:
        name: Its main spelling in MongoDB.
        work: Its function.
        fields: The known fields; any other field is an error. None ignores unknown fields.
        is_write: It changes something, so it takes the write lock.
        is_open: Also for a client without authentication.
        quick: Whether a command takes less than a millisecond, as far as its fields show.
    """

    name: str
    work: Work
    fields: frozenset[str] | None
    is_write: bool
    is_open: bool
    quick: Quick


COMMANDS: Final[dict[str, Command]] = {}
"""Name, as MongoDB spells it and in small letters -> command."""

COMMON_FIELDS: Final = frozenset(
    (
        "$db",
        "$readPreference",
        "$clusterTime",
        "$configTime",
        "$topologyTime",
        "$audit",
        "$client",
        "lsid",
        "txnNumber",
        "autocommit",
        "startTransaction",
        "coordinator",
        "stmtId",
        "stmtIds",
        "readConcern",
        "writeConcern",
        "maxTimeMS",
        "maxTimeMSOpOnly",
        "comment",
        # For time series, which do not exist here.
        "rawData",
        "apiVersion",
        "apiStrict",
        "apiDeprecationErrors",
        "serialization_context",
        "help",
    )
)
"""The common fields of all commands."""


def command(
    *names: str,
    fields: str | None = None,
    is_write: bool = False,
    is_open: bool = False,
    quick: Quick = never,
) -> Callable[[Work], Work]:
    """Put a function into the table, under its names. `fields`: the known fields, separated by spaces."""

    def put(work: Work) -> Work:
        known = None if fields is None else COMMON_FIELDS.union(names, fields.split())
        for name in names:
            assert name.lower() not in COMMANDS, name
            made = Command(names[0], work, known, is_write, is_open, quick)
            # Drivers spell it so.
            COMMANDS[name] = COMMANDS[name.lower()] = made
        return work

    return put


def find_command(body: dict[str, Any]) -> Command | None:
    """The command of a request, from its first field."""
    name = next(iter(body), "")
    return COMMANDS.get(name) or COMMANDS.get(name.lower())
