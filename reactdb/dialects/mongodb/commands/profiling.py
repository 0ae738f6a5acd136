"""The profiler: the command `profile`, and what `system.profile` tells of the commands that were carried out.

    {profile: 2}                                everything that is done in this database
    {profile: 1, slowms: 20}                    what takes longer
    {profile: 1, filter: {op: "query"}}         what a query matches

A command about `system.profile` is carried out by the deployment beside (`Profiles.side`), which has a capped collection of this
name for each database. A command is told of when it has its answer, so one that reads `system.profile` is not there yet.

Rule of this file: whatever goes wrong while a command is told of, its answer stays as it is.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import bson
from bson import Int64

from reactdb import budget
from reactdb.database import connect
from reactdb.dialects.mongodb.collection import CollectionWork
from reactdb.dialects.mongodb.commands.deployment import Deployment
from reactdb.dialects.mongodb.commands.requests import CommandRequest
from reactdb.dialects.mongodb.commands.table import command
from reactdb.dialects.mongodb.errors import MongoError, code_name
from reactdb.dialects.mongodb.filters import Filter, is_operators
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.numeric import as_float, is_number, truncated
from reactdb.dialects.mongodb.ordering import type_name
from reactdb.errors import ReactDBError
from reactdb.logs import logger

__all__ = ["redirected", "tell"]

Document = dict[str, Any]

PROFILE: Final = "system.profile"
PROFILE_BYTES: Final = 1 << 20
"""What `system.profile` holds; the oldest entries make room."""
HISTORY: Final = 100
"""Commits that the database beside keeps, so that it does not grow."""
MOST_COMMAND_BYTES: Final = 50 * 1024
LEVELS: Final = (0, 1, 2)
NOTE: Final = "When a filter expression is set, slowms and sampleRate are not used for profiling and slow-query log lines."
SENT_APART: Final = ("documents", "updates", "deletes")
"""Fields of a command that MongoDB does not tell: drivers send them beside it."""
NOT_TOLD: Final = frozenset(("$clusterTime", "signature", *SENT_APART))
OF_OTHERS: Final = frozenset(("$out", "$merge", "$lookup", "$graphLookup", "$unionWith"))
"""Stages that are about other collections, which are not where `system.profile` is."""
OPERATIONS: Final = {"find": "query", "insert": "insert", "getMore": "getmore"}
STATEMENTS: Final = {"update": ("updates", "update"), "delete": ("deletes", "remove")}
"""Command -> the field that has its statements, each of which is told of, and how it is called."""


@command("profile", fields="slowms sampleRate filter")
def profile(request: CommandRequest) -> Document:
    profiles, database = request.deployment.profiles, request.database
    level = checked_level(request.value)
    slow, rate = number(request, "slowms"), number(request, "sampleRate")
    if rate is not None and not 0 <= as_float(rate) <= 1:
        raise MongoError(2, f"'sampleRate' must be between 0.0 and 1.0 inclusive, not {rate}")
    chosen = checked_filter(request.body["filter"]) if "filter" in request.body else None
    if level in (1, 2):
        open_side(request.deployment, database)
    reply: Document = {
        "was": profiles.level(database),
        "slowms": profiles.slow_ms,
        "sampleRate": profiles.rate,
    }
    before = profiles.filters.get(database)
    if before is not None:
        reply |= {"filter": normal(before.spec), "note": NOTE}
    if level in LEVELS:
        profiles.levels[database] = level
    if slow is not None:
        profiles.slow_ms = truncated(slow)
    if rate is not None:
        profiles.rate = as_float(rate)
    if "filter" in request.body:
        profiles.filters.pop(database, None)
        if chosen is not None:
            profiles.filters[database] = chosen
    return reply


def checked_level(given: Any) -> int:
    """
    Raises:
        MongoError: 40414, no level is said; 14, it is no number.
    """
    if given is None:
        raise MongoError(40414, "BSON field 'profile.profile' is missing but a required field")
    if not is_number(given):
        raise MongoError(
            14, f"BSON field 'profile.profile' is the wrong type '{type_name(given)}', expected type 'int'"
        )
    return truncated(given)


def number(request: CommandRequest, name: str) -> Any:
    """
    Raises:
        MongoError: 14, the field is there and is no number.
    """
    found = request.body.get(name)
    if found is not None and not is_number(found):
        raise MongoError(
            14, f"BSON field 'profile.{name}' is the wrong type '{type_name(found)}', expected a number"
        )
    return found


def checked_filter(given: Any) -> Filter | None:
    """
    Raises:
        MongoError: 2, it is neither a query nor "unset"; or what the query deserves.
    """
    if isinstance(given, dict):
        return Filter(given)
    if given != "unset":
        raise MongoError(2, "Expected an object, or the string 'unset'.")
    return None


def normal(spec: Mapping[str, Any]) -> Document:
    """A query as `profile` shows it: equalities are spelled out."""
    return {
        name: value if name.startswith("$") or is_operators(value) else {"$eq": value}
        for name, value in spec.items()
    }


def open_side(deployment: Deployment, database: str) -> None:
    """See that `system.profile` of a database is there.

    Raises:
        MongoError: 115, nothing is profiled in the process.
    """
    profiles = deployment.profiles
    if not profiles.are_offered:
        raise MongoError(115, "nothing is profiled in the process, where most of what is done is no command")
    with profiles.lock:
        if profiles.side is None:
            side = Deployment(connect(":memory:", durability="soft", retention=HISTORY))
            # `getMore` and `killCursors` do not say of which deployment a cursor is.
            side.cursors = deployment.cursors
            profiles.side = side
    make(profiles.side, MongoNamespace(database, PROFILE))


def make(side: Deployment, namespace: MongoNamespace) -> None:
    if side.spaces.find(namespace) is None:
        try:
            side.spaces.create(namespace, {"capped": True, "size": PROFILE_BYTES})
        except MongoError as error:
            if error.code != 48:
                raise


def redirected(request: CommandRequest) -> CommandRequest:
    """The request, of the deployment that `system.profile` is in, if it is about that.

    Raises:
        MongoError: 20, the profiler writes to it; 115, it is about other collections, too.
    """
    profiles, body = request.deployment.profiles, request.body
    side = profiles.side
    if side is None or "autocommit" in body or next(iter(body.values()), None) != PROFILE:
        return request
    if request.name == "drop" and profiles.level(request.database):
        raise MongoError(20, "turn off profiling before dropping system.profile collection")
    stages = body.get("pipeline")
    for stage in stages if isinstance(stages, list) else ():
        if isinstance(stage, dict) and not OF_OTHERS.isdisjoint(stage):
            raise MongoError(115, f"{next(iter(stage))} is not supported of {PROFILE}")
    request.deployment = side
    return request


def tell(request: CommandRequest, reply: Document) -> None:
    """Tell of a command that has been answered, where its database wants that."""
    profiles, database = request.client.deployment.profiles, request.body.get("$db")
    side = profiles.side
    if side is None or request.name == "profile" or database is None or not profiles.level(database):
        return
    # What the command had left of its time and its memory is not the profiler's.
    outer = budget.current.set(None)
    try:
        found = [one for one in entries(request, reply) if profiles.wants(database, one)]
        if found:
            namespace = MongoNamespace(database, PROFILE)
            make(side, namespace)
            CollectionWork(side.spaces, namespace).insert(found)
    except (MongoError, ReactDBError, bson.errors.BSONError, ValueError, OverflowError) as error:
        logger.warning("the command %s is not told of in %s: %s", request.name, PROFILE, error)
    finally:
        budget.current.reset(outer)


def entries(request: CommandRequest, reply: Document) -> list[Document]:
    """What is told of a command: of each of its statements, if it is an update or a delete."""
    body, name = request.body, request.name
    said: Document = {
        "millis": round((time.monotonic() - (request.began or time.monotonic())) * 1_000),
        "ts": datetime.now(UTC),
        "client": request.client.address[0],
        "appName": request.client.app_name,
        "allUsers": [],
        "user": request.client.user,
        "protocol": "op_msg",
    }
    if not reply.get("ok"):
        code = reply.get("code", 1)
        said |= {"errMsg": reply.get("errmsg", ""), "errName": code_name(code), "errCode": code}
    field, operation = STATEMENTS.get(name, ("", OPERATIONS.get(name, "command")))
    command = {key: value for key, value in body.items() if key not in NOT_TOLD}
    about: list[Document] = [command]
    statements = body.get(field)
    if isinstance(statements, list):
        shared: Document = {key: body[key] for key in ("comment", "let") if key in body}
        about = [{**stated(one), **shared} for one in statements if isinstance(one, dict)]
    counts = counted(name, reply, alone=len(about) == 1)
    return [
        {"op": operation, "ns": namespace_of(body), "command": shortened(one), **counts, **said}
        for one in about
    ]


def namespace_of(body: Document) -> str:
    first = body.get("collection") if "getMore" in body else next(iter(body.values()), None)
    if isinstance(first, str):
        return f"{body['$db']}.{first}"
    return f"{body['$db']}.$cmd" + (".aggregate" if "aggregate" in body else "")


def stated(statement: Document) -> Document:
    """A statement as it is told, with the name of an index spelled as in a query."""
    hint = statement.get("hint")
    return {**statement, "hint": {"$hint": hint}} if isinstance(hint, str) else dict(statement)


def counted(name: str, reply: Document, *, alone: bool) -> Document:
    """What came of a command, as far as it is known of each of its statements."""
    cursor: Document | None = reply.get("cursor")
    if cursor is not None:
        batch: list[Any] = cursor["firstBatch" if "firstBatch" in cursor else "nextBatch"]
        number = cursor.get("id", 0)
        told: Document = {"cursorid": Int64(number)} if number else {"cursorExhausted": True}
        return {**told, "nreturned": len(batch)}
    if name == "insert":
        return {"ninserted": reply.get("n", 0)}
    if name == "delete" and alone:
        return {"ndeleted": reply.get("n", 0)}
    if name == "update" and alone:
        upserted = len(reply.get("upserted", ()))
        matched = {"nMatched": reply.get("n", 0) - upserted, "nModified": reply.get("nModified", 0)}
        return {**matched, "nUpserted": upserted}
    return {}


def shortened(command: Document) -> Document:
    """A command as it is told: of a long one the beginning."""
    if len(bson.encode(command)) <= MOST_COMMAND_BYTES:
        return command
    shared: Document = {"comment": command["comment"]} if "comment" in command else {}
    return {"$truncated": str(command)[:MOST_COMMAND_BYTES], **shared}
