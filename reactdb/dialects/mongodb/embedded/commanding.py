"""Commands in the process: `database.command(...)`, with the table of commands that the server has.

    client["shop"].command("collStats", "orders")

Rule of this file: a command means what it means over a socket. The caller has nothing to prove, and an answer that comes later
is waited for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from threading import Event
from typing import TYPE_CHECKING, Any

import bson

from reactdb.dialects.mongodb.commands import AwaitedReply, Client, Deployment, carry_out, poll
from reactdb.dialects.mongodb.embedded.codecs import PLAIN, Codec
from reactdb.dialects.mongodb.embedded.raising import reply_error

if TYPE_CHECKING:
    from reactdb.dialects.mongodb.transactions import Transaction

__all__ = ["command_document", "run_command"]

Document = dict[str, Any]


def run_command(
    deployment: Deployment,
    database: str,
    body: Mapping[str, Any],
    transaction: Transaction | None = None,
    *,
    codec: Codec = PLAIN,
    check: bool = True,
    allowable_errors: Collection[str | int] | None = None,
) -> Any:
    """The answer to a command. Any thread.

    Args:
        database: The name of the database that it is about.
        body: The command; its first field names it.
        transaction: The one that it is a statement of.
        codec: How the command becomes BSON, and what the answer is given as.
        check: Whether an answer that is an error is raised.
        allowable_errors: Codes and messages that are not raised.

    Raises:
        OperationFailure: The answer is an error.
    """
    moved = Event()
    client = Client(deployment, 0, ("127.0.0.1", 0), moved.set)
    reply = _waited(carry_out({**codec.given(body), "$db": database}, client, transaction), moved)
    allowed = allowable_errors or ()
    if check and not reply["ok"] and reply["code"] not in allowed and reply["errmsg"] not in allowed:
        raise reply_error(reply)
    return bson.decode(bson.encode(reply), codec.options)


def _waited(reply: Document | AwaitedReply, moved: Event) -> Document:
    while isinstance(reply, AwaitedReply):
        moved.wait(reply.wait_s)
        moved.clear()
        answer = poll(reply)
        if answer is not None:
            return answer
    return reply


def command_document(command: str | Mapping[str, Any], value: Any, options: Mapping[str, Any]) -> Document:
    """A command as PyMongo's `command` takes it: its name and what stands beside it, or a document."""
    first = {command: value} if isinstance(command, str) else dict(command)
    return {**first, **options}
