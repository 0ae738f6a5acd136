"""Deployment: the shared state of all clients of one server, and Client: one socket of one client.

The deployment has the database, cursors, sessions and fail points, and describes the server to drivers.
It presents a replica set with one member, because drivers allow `watch()` and sessions on nothing less.

Rule of this file: it holds things. The commands work with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from threading import Lock
from typing import Any, Final

from bson import ObjectId, Timestamp

from reactdb.clock import time_ns
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
"""The wire version of that release."""

# Seconds, nanoseconds, and nothing: 12 bytes that grow with the time.
NEWER: Final = Struct(">3I")


class Deployment:
    """
    Attributes:
        database: The served database.
        spaces: Its databases and collections in MongoDB's sense.
        exchange: Begins a SCRAM exchange, if clients must authenticate; None if they need not.
        message_bytes: The size limit of one message for drivers.
        for_testing: Whether fail points may be set.
        opened: The number of clients so far.
        address: The address for clients: host and port, or the path of a socket. Set as soon as it is known.
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
            most_cursors: The limit of open cursors and change streams per socket.
            spaces: Namespaces with other names for native tables; None for the usual ones.
            is_profiled: Every request comes as a command, so it can be noted in `system.profile`.
        """
        self.database = database
        self.exchange = exchange
        self.for_testing = for_testing
        self.message_bytes = message_bytes
        self.address = "127.0.0.1:27017"
        self.started_at = time_ns() / 1e9
        # Drivers that stay from a former server treat a lower id as an old primary, and refuse it. An ObjectId of the driver's
        # begins with the second, and goes on at random.
        self.election_id = ObjectId(NEWER.pack(*divmod(time_ns(), 10**9), 0))
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
        # The newest known change, and the moment of its commit.
        self._moment = 0, Timestamp(1, 1)
        # By default a commit waits for the disk; without that wait it is quick enough for the event loop.
        self.is_memory = database.path == ":memory:"
        self.retries = Retries(are_kept=not self.is_memory)
        self.writes_quickly = self.is_memory or session_of(database).durability == "soft"

    def client(self, address: tuple[str, int], wake: Callable[[], None]) -> Client:
        """A new socket."""
        with self._lock:
            self.opened += 1
            client = Client(self, self.opened, address, wake)
        self.clients.add(client)
        return client

    def count(self, name: str) -> None:
        """Count a command, for `serverStatus`."""
        self.counts[name] = self.counts.get(name, 0) + 1

    def flush(self) -> None:
        """Wait until all writes are on the disk. It returns at once if each commit waits for the disk."""
        if not self.is_memory and session_of(self.database).durability == "soft":
            # A commit that waits for the disk makes the earlier ones durable, too.
            with self.database.transaction(durability="hard"):
                pass

    def operation_time(self) -> Timestamp:
        """The moment of the newest commit. Every reply contains it."""
        engine = self.spaces.session.engine
        writer = engine.writer
        if writer is not None and engine.is_memory and writer.last_seq == self._moment[0]:
            # There is no other writer.
            return self._moment[1]
        own = None if writer is None else writer.own_commit
        if own is not None and own.seq > self._moment[0]:
            # It was the newest commit when it was made. The next reply notices writes of other processes.
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
            # In memory a reader waits for a writer. The reply does not wait: the next one has the newer moment.
            pass
        return self._moment[1]

    def namespaces_at(self, moment: Timestamp) -> Namespaces:
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
    """A session on a moment of the log: its history may be compacted away during the read."""

    def __init__(self, present: Session, seq: int, moment: Timestamp) -> None:
        super().__init__(present, seq)
        self._moment = moment

    @contextmanager
    def read(self) -> Iterator[Snapshot]:
        """
        Raises:
            MongoError: 239, a part of its history was compacted away.
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
        here: The local address and port, if known.
        number: The identity of the socket; `connectionId` in `hello`.
        wake: Signals the server that an AwaitedReply may be ready. Any thread may call it.
        app_name: The program's name from the driver's first `hello`.
        user: The authenticated user; "" without one.
        exchange: A pending authentication.
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

    def set_driver_description(self, description: Any) -> None:
        """Read the driver's description of itself in its first `hello`: the field `client`."""
        if isinstance(description, dict) and isinstance(description.get("application"), dict):
            self.app_name = str(description["application"].get("name", ""))

    @property
    def server_address(self) -> str:
        """The server's address for this client. If the server listens on all addresses, it is the address of the connection."""
        own = self.deployment.address
        host, _, port = own.rpartition(":")
        if host not in ("0.0.0.0", "[::]") or not self.here[0]:
            return own
        return f"[{self.here[0]}]:{port}" if ":" in self.here[0] else f"{self.here[0]}:{port}"

    def close(self) -> None:
        self.deployment.clients.discard(self)
