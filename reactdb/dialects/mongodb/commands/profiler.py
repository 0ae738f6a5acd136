"""The profiler: the commands to a database, recorded in its collection `system.profile`.

    level 0                  nothing
    level 1                  commands slower than `slowms`; of these, the fraction `sampleRate`
    level 2                  all
    a filter                 matching entries, instead of both, at the levels 1 and 2

Each statement of `update` and `delete` has its own entry, as in MongoDB; every other command has one. The collection is capped at
1 MiB; levels last until the server ends.

Rule of this file: a failure to write an entry does not affect the command.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from reactdb.clock import now
from reactdb.dialects.mongodb.bson_order import is_text
from reactdb.dialects.mongodb.collection import CollectionWork
from reactdb.dialects.mongodb.errors import MongoError, code_name
from reactdb.dialects.mongodb.filters import Filter
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.values import encode
from reactdb.logs import logger

if TYPE_CHECKING:
    from reactdb.dialects.mongodb.namespaces import Namespaces

__all__ = ["PROFILE", "Level", "SystemProfile"]

PROFILE: Final = "system.profile"
PROFILE_BYTES: Final = 1 << 20
NOT_NOTED: Final = frozenset(("profile", "hello", "isMaster", "saslStart", "saslContinue"))
"""Commands without an entry. All but the first may contain credentials."""
MOST_BYTES: Final = 50_000
"""The size limit of a command in an entry."""
OPERATIONS: Final = {"find": "query", "getMore": "getmore", "insert": "insert", "bulkWrite": "bulkWrite"}
"""Commands with another name than `command` in `op`."""
NOT_OF_COLLECTIONS: Final = frozenset(("renameCollection", "configureFailPoint", "getLog"))
"""Commands with a text as their value that is no collection's name."""


@dataclass(frozen=True, slots=True)
class Level:
    """The profiling level of a database.

    Attributes:
        number: 0, 1 or 2; see the head of this file.
        given, filter: The filter of entries, as given and compiled; None without a filter.
    """

    number: int = 0
    given: dict[str, Any] | None = None
    filter: Filter | None = None


OFF: Final = Level()


class Asker(Protocol):
    """The fields of a client in an entry."""

    @property
    def address(self) -> tuple[str, int]: ...

    @property
    def app_name(self) -> str: ...

    @property
    def user(self) -> str: ...


class SystemProfile:
    """See the head of this file. Any thread.

    Attributes:
        is_offered: Databases may be profiled.
        slow_ms, sample_rate: `slowms` and `sampleRate`, for all databases.
        levels: The level of each database with a setting; the others are not profiled.
    """

    def __init__(self, spaces: Namespaces, *, is_offered: bool) -> None:
        self._spaces = spaces
        self.is_offered = is_offered
        self.slow_ms = 100
        self.sample_rate = 1.0
        self.levels: dict[str, Level] = {}

    @property
    def is_on(self) -> bool:
        """Some database is profiled."""
        return any(level.number for level in self.levels.values())

    def of(self, database: str) -> Level:
        return self.levels.get(database, OFF)

    def set(self, database: str, level: Level) -> None:
        """
        Raises:
            MongoError: 13, the file cannot be written.
        """
        if level.number:
            self._make(database)
        # Replaced and not changed: others look at it meanwhile.
        self.levels = {**self.levels, database: level}

    def forget(self, database: str) -> None:
        """The database is dropped."""
        if database in self.levels:
            self.set(database, OFF)

    def _is_chosen(self, took_ms: int) -> bool:
        """Whether level 1 records a command of this duration."""
        return took_ms > self.slow_ms and random.random() < self.sample_rate

    def _make(self, database: str) -> None:
        namespace = MongoNamespace(database, PROFILE)
        if self._spaces.find(namespace) is None:
            try:
                self._spaces.create(namespace, {"capped": True, "size": PROFILE_BYTES})
            except MongoError as error:
                if error.code != 48:
                    raise

    def note(
        self, name: str, body: dict[str, Any], reply: dict[str, Any], asker: Asker, seconds: float
    ) -> None:
        """Write the entries of a command, if its database is profiled.

        Args:
            name: The command's, as the table of commands spells it.
            reply: Empty for a waiting command.
            seconds: Its duration.
        """
        database = body.get("$db")
        if not is_text(database) or name in NOT_NOTED:
            return
        level = self.of(database)
        if not level.number:
            return
        try:
            common = _common_fields(asker, reply, seconds)
            entries = [{**own, **common} for own in _operations(name, body, reply)]
            if level.filter is not None:
                entries = [entry for entry in entries if level.filter.matches(entry)]
            elif level.number == 1 and not self._is_chosen(common["millis"]):
                return
            if entries:
                self._make(database)
                CollectionWork(self._spaces, MongoNamespace(database, PROFILE), None).insert(entries)
        except Exception:
            # The command was executed: its client must not take it for failed.
            logger.warning("an operation of %s could not be noted in %s", database, PROFILE, exc_info=True)


def _operations(name: str, body: dict[str, Any], reply: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The fields of an entry for its operation."""
    collection = next(iter(body.values()))
    space = f"{body['$db']}.$cmd"
    if name == "getMore":
        space = f"{body['$db']}.{body.get('collection')}"
    elif is_text(collection) and name not in NOT_OF_COLLECTIONS:
        space = f"{body['$db']}.{collection}"
    elif name == "aggregate":
        space += ".aggregate"
    statements = body.get({"update": "updates", "delete": "deletes"}.get(name, ""))
    if isinstance(statements, list) and "errmsg" not in reply:
        remark = {"comment": body["comment"]} if "comment" in body else {}
        for statement in statements:
            statement = {**statement, **remark}
            if is_text(statement.get("hint")):
                # As MongoDB spells an index by its name here.
                statement["hint"] = {"$hint": statement["hint"]}
            own = {
                "op": "update" if name == "update" else "remove",
                "ns": space,
                "command": _shorten(statement),
            }
            # The reply counts all statements together.
            yield {**own, **_counts(name, reply)} if len(statements) == 1 else own
        return
    if name == "insert":
        body = {field: value for field, value in body.items() if field != "documents"}
    entry: dict[str, Any] = {"op": OPERATIONS.get(name, "command"), "ns": space, "command": _shorten(body)}
    cursor = reply.get("cursor")
    if isinstance(cursor, dict):
        batch: list[Any] = cursor.get("firstBatch") or cursor.get("nextBatch") or []
        entry["nreturned"] = len(batch)
        entry |= {"cursorid": cursor["id"]} if cursor.get("id") else {"cursorExhausted": True}
    if name == "insert" and "n" in reply:
        entry["ninserted"] = reply["n"]
    yield entry


def _counts(name: str, reply: dict[str, Any]) -> dict[str, Any]:
    """The result fields of a command with one statement."""
    count = reply.get("n", 0)
    if name == "delete":
        return {"ndeleted": count}
    upserted = len(reply.get("upserted", ()))
    return {"nMatched": count - upserted, "nModified": reply.get("nModified", 0), "nUpserted": upserted}


def _shorten(body: dict[str, Any]) -> dict[str, Any]:
    """A command, or if it is large the beginning of it as text."""
    if len(encode(body)) <= MOST_BYTES:
        return body
    return {"$truncated": repr(body)[:MOST_BYTES]}


def _common_fields(asker: Asker, reply: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The common fields of all entries."""
    fields: dict[str, Any] = {}
    if "errmsg" in reply:
        fields = {
            "ok": 0,
            "errMsg": reply["errmsg"],
            "errName": code_name(reply["code"]),
            "errCode": reply["code"],
        }
    return {
        **fields,
        "responseLength": len(encode(reply)),
        "protocol": "op_msg",
        "millis": int(seconds * 1000),
        "ts": now(),
        "client": asker.address[0],
        "appName": asker.app_name,
        "allUsers": [{"user": asker.user, "db": "admin"}] if asker.user else [],
        "user": f"{asker.user}@admin" if asker.user else "",
    }
