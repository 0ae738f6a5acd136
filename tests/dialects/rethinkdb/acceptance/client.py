"""Client: the driver's side of one connection, in virtual time, that never waits.

An automatic client requests the next batch as soon as it has one, as the official drivers do.
"""

from __future__ import annotations

import json
from typing import Any

from rethinkdb.ast import ReQLEncoder, expr

from reactdb import Database
from reactdb.dialects.rethinkdb import Session


class Clock:
    """Seconds, that pass when somebody says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Batches:
    """The batches of one query at a time: responses, decoded, in the order in which they came."""

    def __init__(self, *, is_automatic: bool) -> None:
        self.is_automatic = is_automatic
        self.batches: list[dict[str, Any]] = []
        self.is_outstanding = False
        self._token = 0

    def _take(self, response: dict[str, Any]) -> None:
        self.batches.append(response)
        self.is_outstanding = False
        if response["t"] == 3 and self.is_automatic:
            self.ask()

    def ask(self) -> bool:
        """Ask for the next batch, unless one is being waited for, or there is none to come."""
        if self.is_outstanding or not self.batches or self.batches[-1]["t"] != 3:
            return False
        self.is_outstanding = True
        self._ask()
        return True

    def _ask(self) -> None:
        """Send the request for the next batch."""
        raise NotImplementedError


class Client(Batches):
    """See the head of this file."""

    def __init__(self, db: Database, clock: Clock, *, is_automatic: bool = True) -> None:
        super().__init__(is_automatic=is_automatic)
        self.clock = clock
        self.session = Session(db, clock=clock)

    def run(self, query: Any, database: str = "test", **options: Any) -> dict[str, Any]:
        """One query of the driver; its first response."""
        self._token += 1
        wire = ReQLEncoder().encode([1, query, expr({"db": _Database(database), **options})])
        return self.start(wire)

    def start(self, wire: str) -> dict[str, Any]:
        (frame,) = self.session.receive(self._token, wire.encode())
        found: dict[str, Any] = json.loads(frame.body)
        return found

    def open(self, wire: Any, database: str = "test", **options: Any) -> None:
        """Start a query of which the batches are collected."""
        self._token += 1
        self._take(self.start(json.dumps([1, wire, {"db": [14, [database]], **options}])))

    def _ask(self) -> None:
        for frame in self.session.receive(self._token, b"[2]"):
            self._take(json.loads(frame.body))

    def stop(self) -> None:
        for frame in self.session.receive(self._token, b"[3]"):
            self.batches.append(json.loads(frame.body))

    def pump(self) -> bool:
        """Take what has come meanwhile. Whether there was anything."""
        found = False
        while frames := self.session.poll():
            found = True
            for frame in frames:
                self._take(json.loads(frame.body))
        return found

    def drain(self) -> list[Any]:
        """Every item of a stream that ends."""
        while self.batches and self.batches[-1]["t"] == 3 and self.ask():
            pass
        return [item for one in self.batches for item in one["r"]]

    def close(self) -> None:
        self.session.close()


def _Database(name: str) -> Any:
    from rethinkdb.ast import DB

    return DB(name)
