"""Commands in the process: `database.command(...)`, with the server's table of commands.

    client["shop"].command("collStats", "orders")

Rule of this file: a command behaves as over a socket. The caller needs no authentication, and the call waits for a later reply.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from threading import Event
from typing import TYPE_CHECKING, Any

import bson

from reactdb.dialects.mongodb.commands import AwaitedReply, Client, Deployment, execute_command, poll
from reactdb.dialects.mongodb.embedded.codecs import PLAIN, Codec
from reactdb.dialects.mongodb.embedded.errors import reply_error

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
    """The reply to a command. Any thread.

    Args:
        database: The name of its database.
        body: The command; its first field is its name.
        transaction: The transaction of the statement.
        codec: The conversion of the command to BSON, and of the reply.
        check: Whether an error in the reply is raised.
        allowable_errors: Codes and messages that are not raised.

    Raises:
        OperationFailure: The reply is an error.
    """
    moved = Event()
    client = Client(deployment, 0, ("127.0.0.1", 0), moved.set)
    reply = _wait_for_reply(
        execute_command({**codec.given(body), "$db": database}, client, transaction), moved
    )
    allowed = allowable_errors or ()
    if check and not reply["ok"] and reply["code"] not in allowed and reply["errmsg"] not in allowed:
        raise reply_error(reply)
    return bson.decode(bson.encode(reply), codec.options)


def _wait_for_reply(reply: Document | AwaitedReply, moved: Event) -> Document:
    while isinstance(reply, AwaitedReply):
        moved.wait(reply.wait_s)
        moved.clear()
        answer = poll(reply)
        if answer is not None:
            return answer
    return reply


def command_document(command: str | Mapping[str, Any], value: Any, options: Mapping[str, Any]) -> Document:
    """A command in one of the forms of PyMongo's `command`: its name and the value for it, or a document."""
    first = {command: value} if isinstance(command, str) else dict(command)
    return {**first, **options}
