"""Commands for the authentication of a client: SCRAM-SHA-256, with the users of `reactdb.servers.users`.

    saslStart     {mechanism, payload}                 the client's first message, and the server's
    saslContinue  {conversationId, payload}            its last message, with the proof
    hello         {speculativeAuthenticate: {...}}     the first message, to save a round trip

Rule of this file: it wraps the messages of the exchange. The server makes the exchange itself, because it has the passwords.
"""

from __future__ import annotations

from typing import Any

from bson import Binary

from reactdb.dialects.mongodb.bson_order import is_text
from reactdb.dialects.mongodb.commands.requests import CommandRequest
from reactdb.dialects.mongodb.commands.table import command
from reactdb.dialects.mongodb.errors import MongoError


def authentication_failure(reason: str = "Authentication failed.") -> MongoError:
    return MongoError(18, reason)


def start_exchange(request: CommandRequest, fields: dict[str, Any]) -> dict[str, Any]:
    """The reply to a client's first message."""
    deployment, client = request.deployment, request.client
    if deployment.exchange is None:
        raise authentication_failure(
            "Authentication failed: this server has no users, so connect without one."
        )
    if fields.get("mechanism") != "SCRAM-SHA-256":
        raise MongoError(
            334, f"Unsupported mechanism {fields.get('mechanism')}: this server supports SCRAM-SHA-256"
        )
    options = fields.get("options")
    skips = isinstance(options, dict) and bool(options.get("skipEmptyExchange"))
    exchange = deployment.exchange()
    client.exchange = (exchange, skips)
    return {"conversationId": 1, "done": False, "payload": step(exchange.first, fields, client)}


def step(function: Any, fields: dict[str, Any], client: Any) -> Binary:
    payload = fields.get("payload")
    if is_text(payload):
        payload = payload.encode()
    if not isinstance(payload, bytes):
        client.exchange = None
        raise authentication_failure()
    try:
        return Binary(function(payload.decode()).encode())
    except Exception:
        client.exchange = None
        # The reply does not reveal whether the user or the password is wrong.
        raise authentication_failure() from None


def speculative(request: CommandRequest) -> dict[str, Any] | None:
    """The first reply, for a first message within `hello`; None if it does not fit, and the client begins anew."""
    fields = request.body.get("speculativeAuthenticate")
    if not isinstance(fields, dict) or "saslStart" not in fields:
        return None
    try:
        return start_exchange(request, fields)
    except MongoError:
        return None


@command("saslStart", is_open=True)
def sasl_start(request: CommandRequest) -> dict[str, Any]:
    return start_exchange(request, request.body)


@command("saslContinue", is_open=True)
def sasl_continue(request: CommandRequest) -> dict[str, Any]:
    client = request.client
    if client.exchange is None or request.body.get("conversationId") != 1:
        raise MongoError(17, "No SASL session state found")
    exchange, skips = client.exchange
    if exchange is None:
        # The empty exchange, for a client without `skipEmptyExchange`.
        client.exchange = None
        return {"conversationId": 1, "done": True, "payload": Binary(b"")}
    payload = step(exchange.last, request.body, client)
    client.user = exchange.user
    client.exchange = None if skips else (None, False)
    return {"conversationId": 1, "done": skips, "payload": payload}


@command("logout", is_open=True)
def logout(request: CommandRequest) -> dict[str, Any]:
    request.client.user = ""
    return {}


@command("usersInfo")
def users_info(request: CommandRequest) -> dict[str, Any]:
    # Users belong to the server, not to the database; no client may list them.
    return {"users": []}
