"""Deployment: what all clients of one server share, and Client: one socket of one of them.

The deployment has the database, cursors, sessions, fail points, and how it presents itself.
It looks like a replica set with one member, because drivers allow `watch()` and sessions on nothing less.

Rule of this file: it holds things. What is done with them is in the commands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from threading import Lock
from typing import Any, Final

from bson import ObjectId, Timestamp

from reactdb.database import Database
from reactdb.dialects.mongodb.commands.cursors import MOST_CURSORS, Cursors
from reactdb.dialects.mongodb.commands.fail_points import FailPoints
from reactdb.dialects.mongodb.commands.profiler import SystemProfile
from reactdb.dialects.mongodb.commands.session_states import SessionStates
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.namespaces import Namespaces
from reactdb.dialects.mongodb.points import cluster_time, position_before
from reactdb.dialects.mongodb.retries import Retries
from reactdb.dialects.mongodb.streams import ChangeStreams
from reactdb.dialects.mongodb.transactions import Transactions
from reactdb.errors import DatabaseBusy, HistoryLost
from reactdb.session import PastSession, Session, session_of
from reactdb.store.snapshot import Snapshot

__all__ = ["Client", "Deployment"]

SET_NAME: Final = "rs0"
VERSION: Final = (8, 2, 4, 0)
VERSION_TEXT: Final = ".".join(map(str, VERSION[:3]))
WIRE_VERSION: Final = 27
"""That version's own."""

# Seconds, nanoseconds, and nothing: 12 bytes that grow with the time.
NEWER: Final = Struct(">3I")


class Deployment:
    """
    Attributes:
        database: What is served.
        spaces: Its databases and collections, as MongoDB knows them.
        exchange: Begins an exchange of SCRAM, where clients have to prove who they are; None where everybody is let in.
        message_bytes: The size of one message, which drivers keep to.
        for_testing: Whether fail points may be set.
        opened: How many clients there have been.
        address: Where clients reach it: host and port, or the path of a socket. Set when that is known.
    """

    def __init__(
        self,
        database: Database,
        exchange: Callable[[], Any] | None = None,
        *,
        for_testing: bool = False,
        message_bytes: int = 48_000_000,
        most_cursors: int = MOST_CURSORS,
        spaces: Namespaces | None = None,
        is_profiled: bool = True,
    ) -> None:
        """
        Args:
            most_cursors: How many cursors and change streams one socket may have open.
            spaces: Those that show other names for what was made natively; None for the usual ones.
            is_profiled: All that is asked comes as commands, so that it may be noted in `system.profile`.
        """
        self.database = database
        self.exchange = exchange
        self.for_testing = for_testing
        self.message_bytes = message_bytes
        self.address = "127.0.0.1:27017"
        self.started_at = time.time()
        # Drivers that are still there from the server before take one with a lower id for an old primary, and do not use it. An
        # ObjectId of the driver's begins with the second, and goes on by chance.
        self.election_id = ObjectId(NEWER.pack(*divmod(time.time_ns(), 10**9), 0))
        self.spaces = Namespaces(session_of(database)) if spaces is None else spaces
        self.sessions = SessionStates(Transactions(self.spaces))
        self.streams = ChangeStreams(self.spaces)
        self.cursors = Cursors(most_cursors)
        self.fail_points = FailPoints()
        self.profiler = SystemProfile(self.spaces, is_offered=is_profiled)
        self.clients: set[Client] = set()
        self.opened = 0
        self.counts: dict[str, int] = {}
        self._lock = Lock()
        # The newest change that was seen, and the moment of its commit.
        self._moment = 0, Timestamp(1, 1)
        # A commit waits for the disk unless it is told not to; then it is quick enough for the loop.
        self.is_memory = database.path == ":memory:"
        self.retries = Retries(are_kept=not self.is_memory)
        self.writes_quickly = self.is_memory or session_of(database).durability == "soft"

    def client(self, address: tuple[str, int], wake: Callable[[], None]) -> Client:
        """A socket that has been opened."""
        with self._lock:
            self.opened += 1
            client = Client(self, self.opened, address, wake)
        self.clients.add(client)
        return client

    def count(self, name: str) -> None:
        """Count a command, for `serverStatus`."""
        self.counts[name] = self.counts.get(name, 0) + 1

    def flush(self) -> None:
        """Wait until all that is written is on the disk. It is at once where each commit waits for that."""
        if not self.is_memory and session_of(self.database).durability == "soft":
            # A commit that waits makes those before it durable, too.
            with self.database.transaction(durability="hard"):
                pass

    def operation_time(self) -> Timestamp:
        """The moment of the newest commit, which every answer tells."""
        engine = self.spaces.session.engine
        writer = engine.writer
        if writer is not None and engine.is_memory and writer.last_seq == self._moment[0]:
            # Nobody else writes it.
            return self._moment[1]
        own = None if writer is None else writer.own_commit
        if own is not None and own.seq > self._moment[0]:
            # It was the newest when it was made, whoever writes the file besides. What another process writes is seen by the next
            # answer.
            self._moment = own.seq, Timestamp(*cluster_time(own))
            return self._moment[1]
        try:
            seq = engine.newest_seq()
            if seq != self._moment[0]:
                with engine.fresh_snapshot() as snapshot:
                    newest = snapshot.entry(seq)
                if newest is not None:
                    self._moment = seq, Timestamp(*cluster_time(newest))
        except DatabaseBusy:
            # In memory a reader waits for whoever writes. An answer is not held back for it: the next one tells.
            pass
        return self._moment[1]

    def spaces_at(self, moment: Timestamp) -> Namespaces:
        """The databases and collections of a moment of the log.

        Raises:
            MongoError: 239, it is too long ago.
        """
        now = self.spaces
        engine = now.session.engine
        try:
            with engine.fresh_snapshot() as snapshot:
                seq = position_before(snapshot, (moment.time, moment.inc + 1))
            return Namespaces(MomentSession(now.session, seq, moment), now.names)
        except (MongoError, HistoryLost):
            raise too_old(moment) from None

    def end_session(self, key: bytes) -> None:
        """End a session: its transaction and its cursors."""
        self.sessions.end(key)
        self.cursors.end_session(key)

    def end_all_sessions(self) -> None:
        self.sessions.end_all()
        self.cursors.close()

    def close(self) -> None:
        """Let go of all cursors and transactions."""
        self.sessions.end_all()
        self.cursors.close()


class MomentSession(PastSession):
    """What is read of a moment of the log: its history may be compacted away while it is read."""

    def __init__(self, present: Session, seq: int, moment: Timestamp) -> None:
        super().__init__(present, seq)
        self._moment = moment

    @contextmanager
    def read(self) -> Iterator[Snapshot]:
        """
        Raises:
            MongoError: 239, some of the history that it takes is gone.
        """
        try:
            with super().read() as snapshot:
                yield snapshot
        except HistoryLost:
            raise too_old(self._moment) from None


def too_old(moment: Timestamp) -> MongoError:
    return MongoError(239, f"Read timestamp {moment} is older than the oldest available timestamp.")


class Client:
    """One socket of a driver.

    Attributes:
        here: The address and port that it has connected to, where those are known.
        number: It tells sockets apart; `connectionId` in `hello`.
        wake: Tells the server that a AwaitedReply may have its answer. Any thread may call it.
        app_name: What the driver says of its program in its first `hello`.
        user: Who has proven a password; "" if nobody has.
        exchange: A proof that is under way.
    """

    def __init__(
        self, deployment: Deployment, number: int, address: tuple[str, int], wake: Callable[[], None]
    ) -> None:
        self.deployment = deployment
        self.number = number
        self.address = address
        self.wake = wake
        self.here: tuple[str, int] = ("", 0)
        self.app_name = ""
        self.user = ""
        self.exchange: Any = None

    def introduce(self, said: Any) -> None:
        """Take in what a driver says of itself in its first `hello`: the field `client` of that."""
        if isinstance(said, dict) and isinstance(said.get("application"), dict):
            self.app_name = str(said["application"].get("name", ""))

    @property
    def server_address(self) -> str:
        """Where this client reaches the server: where it has, if the server listens on all addresses."""
        own = self.deployment.address
        host, _, port = own.rpartition(":")
        if host not in ("0.0.0.0", "[::]") or not self.here[0]:
            return own
        return f"[{self.here[0]}]:{port}" if ":" in self.here[0] else f"{self.here[0]}:{port}"

    def close(self) -> None:
        self.deployment.clients.discard(self)
