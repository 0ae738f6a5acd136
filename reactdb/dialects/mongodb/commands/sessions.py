"""Commands about sessions. A driver makes their ids itself, so a session begins with the first command that names it.

Rule of this file: ids. What a transaction does is in `transactions`, beside this package.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from bson import Binary

from reactdb.dialects.mongodb.commands.requests import CommandRequest, type_name
from reactdb.dialects.mongodb.commands.table import always, command
from reactdb.dialects.mongodb.errors import MongoError

__all__ = ["session_key"]


def session_key(request: CommandRequest) -> bytes | None:
    """The id of the session that a command belongs to; None for none.

    Raises:
        MongoError.
    """
    given = request.body.get("lsid")
    return None if given is None else key_of(given)


def key_of(given: Any) -> bytes:
    if not isinstance(given, dict):
        raise MongoError(
            14, f"BSON field 'lsid' is the wrong type '{type_name(given)}', expected type 'object'"
        )
    number = given.get("id")
    if not isinstance(number, bytes) or len(number) != 16:
        raise MongoError(207, "The id of a session is a UUID.")
    return bytes(number)


def keys_of(request: CommandRequest) -> list[bytes]:
    given = request.value
    if not isinstance(given, list):
        raise MongoError(14, f"BSON field '{request.name}' is the wrong type, expected type 'array'")
    return [key_of(one) for one in given]


@command("startSession", quick=always)
def start_session(request: CommandRequest) -> dict[str, Any]:
    return {"id": {"id": Binary(uuid4().bytes, 4)}, "timeoutMinutes": 30}


@command("refreshSessions", quick=always)
def refresh_sessions(request: CommandRequest) -> dict[str, Any]:
    keys_of(request)
    return {}


@command("endSessions")
def end_sessions(request: CommandRequest) -> dict[str, Any]:
    for key in keys_of(request):
        request.deployment.end_session(key)
    return {}


@command("killSessions")
def kill_sessions(request: CommandRequest) -> dict[str, Any]:
    keys = keys_of(request)
    for key in keys:
        request.deployment.end_session(key)
    if not keys:
        request.deployment.end_all_sessions()
    return {}


@command("killAllSessions", "killAllSessionsByPattern")
def kill_all_sessions(request: CommandRequest) -> dict[str, Any]:
    request.deployment.end_all_sessions()
    return {}
