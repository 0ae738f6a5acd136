"""Jobs: the running queries and open streams of the sessions of one database.

`db("rethinkdb").table("jobs")` shows them, and deleting a row there ends the job. The tables `stats` and `server_status`
show their counters.

Thread safety: any thread. `kill` only leaves a note for the job's session, which then ends the job.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakSet, ref

from reactdb.clock import monotonic, now
from reactdb.dialects.rethinkdb.query_text import print_term
from reactdb.dialects.rethinkdb.terms import Term
from reactdb.session import session_of

if TYPE_CHECKING:
    from reactdb.database import Database
    from reactdb.store.engine import Engine

MAX_QUERY_TEXT: Final = 5_000
TERMINATED: Final = "Query terminated by the `rethinkdb.jobs` table."


class JobHolder(Protocol):
    """A job's view of its session."""

    client: tuple[str, int]
    user: str

    def kill(self, token: int) -> None:
        """Note that the stream with this token must end."""


class Job:
    """One query of one session. Its reference to the session is weak, so a session that is dropped unclosed has no jobs."""

    __slots__ = ("_id", "_session", "started", "term", "token")

    def __init__(self, session: JobHolder, token: int, term: Term) -> None:
        self._session = ref(session)
        self.token = token
        self.term = term
        self.started = monotonic()
        self._id: str | None = None

    @property
    def session(self) -> JobHolder | None:
        return self._session()

    @property
    def id(self) -> str:
        """The job's id, created on first use, because most queries are never looked up."""
        if self._id is None:
            self._id = str(uuid4())
        return self._id

    def document(self, server: str) -> dict[str, Any]:
        """The job as a row of the table."""
        session = self.session
        address, port = ("", 0) if session is None else session.client
        return {
            "duration_sec": monotonic() - self.started,
            "id": ["query", self.id],
            "info": {
                "client_address": address,
                "client_port": port,
                "query": print_term(self.term)[:MAX_QUERY_TEXT],
                "user": "" if session is None else session.user,
            },
            "servers": [server],
            "type": "query",
        }

    def kill(self) -> None:
        """End the job, if it is a stream. A running query cannot be stopped."""
        session = self.session
        if session is not None:
            session.kill(self.token)


class Jobs:
    """The queries and streams of one database.

    Attributes:
        started: When the first session was opened.
        queries: The number of queries begun so far.
        port: The port of the server; None without a server.
    """

    def __init__(self) -> None:
        self.started = now()
        self.queries = 0
        self.port: int | None = None
        self.sessions: WeakSet[JobHolder] = WeakSet()
        self._jobs: dict[Job, None] = {}
        self._lock = threading.Lock()

    def join(self, session: JobHolder) -> None:
        with self._lock:
            self.sessions.add(session)

    def leave(self, session: JobHolder) -> None:
        with self._lock:
            self.sessions.discard(session)

    def begin(self, session: JobHolder, token: int, term: Term) -> Job:
        job = Job(session, token, term)
        self.queries += 1
        self._jobs[job] = None
        return job

    def end(self, job: Job) -> None:
        self._jobs.pop(job, None)

    def list_running(self) -> list[Job]:
        for job in list(self._jobs):
            if job.session is None:
                self.end(job)
        return list(self._jobs)

    def find(self, identity: Any) -> Job | None:
        """The job with this id, which is a list, as in the row."""
        return next((job for job in self.list_running() if ["query", job.id] == identity), None)

    @property
    def connections(self) -> int:
        with self._lock:
            return len(self.sessions)


_KNOWN: Final[WeakKeyDictionary[Engine, Jobs]] = WeakKeyDictionary()
_LOCK: Final = threading.Lock()


def jobs_of(database: Database) -> Jobs:
    """The jobs of a database; all handles on one file share them."""
    session_of(database).check_open()
    engine = session_of(database).engine
    with _LOCK:
        jobs = _KNOWN.get(engine)
        if jobs is None:
            jobs = _KNOWN[engine] = Jobs()
        return jobs
