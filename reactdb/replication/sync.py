"""`reactdb.sync`: a table and a database behind CouchDB's HTTP, brought to the same state.

Once, in the caller's thread, or live, in one thread for each direction until it is stopped.

Rule of this file: options, threads and their ends. The replicator sends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Literal, Self

from reactdb.clock import monotonic
from reactdb.database import MOST_ORIGIN, Database, check_origin
from reactdb.dialects.couchdb.tasks import list_task
from reactdb.errors import InvalidOption, SyncFailed, TableNotFound
from reactdb.errors import format_value as shown_value
from reactdb.replication.local import LocalPeer, Resolver
from reactdb.replication.peers import Bell, Subset
from reactdb.replication.remote import RemotePeer
from reactdb.replication.replicator import Replicator, SyncProgress
from reactdb.session import Session, session_of

__all__ = ["RETRIES", "Sync", "check_remote", "sync"]

RETRIES: Final = 5

Direction = Literal["push", "pull"]


class Sync:
    """A synchronisation, complete or running until `stop()`. Leaving a `with` block calls `stop()`, too.

    Thread safety: any thread.
    """

    def __init__(
        self,
        session: Session,
        replicators: dict[Direction, Replicator],
        bells: list[Bell],
        close: Callable[[], None],
    ) -> None:
        self._session = session
        self._replicators = replicators
        self._bells = bells
        self._close = close
        self._threads: list[threading.Thread] = []
        self._error: SyncFailed | None = None

    @property
    def push(self) -> SyncProgress | None:
        """How far it got in sending; None where nothing is sent."""
        return self._progress("push")

    @property
    def pull(self) -> SyncProgress | None:
        """How far it got in fetching; None where nothing is fetched."""
        return self._progress("pull")

    def _progress(self, direction: Direction) -> SyncProgress | None:
        replicator = self._replicators.get(direction)
        return None if replicator is None else replicator.progress

    @property
    def is_running(self) -> bool:
        """Whether it goes on."""
        return any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """End it, and wait for its end: at most a few seconds. All copied changes are in the checkpoints."""
        for bell in self._bells:
            bell.stop()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        self._close()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it ends, at most `timeout` seconds: whether it has ended.

        Raises:
            SyncFailed: One direction could not continue; the other was stopped.
        """
        end = None if timeout is None else monotonic() + timeout
        for thread in self._threads:
            thread.join(None if end is None else max(0.0, end - monotonic()))
        if self._error is not None:
            raise self._error
        return not self.is_running

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def run(self, *, live: bool, create: bool) -> None:
        """Run it: with `live`, in threads of its own.

        Raises:
            SyncFailed: Not live, and it has failed.
        """
        if not live:
            try:
                for replicator in self._replicators.values():
                    self._run(replicator, live=False, create=create)
            finally:
                self._close()
            return
        for direction, replicator in self._replicators.items():
            thread = threading.Thread(
                target=self._run_live,
                args=(replicator, create),
                name=f"reactdb-sync-{direction}",
                daemon=True,
            )
            self._threads.append(thread)
        for thread in self._threads:
            thread.start()

    def _run(self, replicator: Replicator, *, live: bool, create: bool) -> None:
        with list_task(self._session, lambda: replicator.task(live=live)):
            replicator.run(live=live, create=create)

    def _run_live(self, replicator: Replicator, create: bool) -> None:
        try:
            self._run(replicator, live=True, create=create)
        except BaseException as error:
            # Also errors of `on_progress` or `resolve`: `wait` raises them.
            self._error = replicator.fail_with(error)
            for bell in self._bells:
                bell.stop()


def sync(
    db: Database,
    table: str,
    url: str,
    *,
    push: bool = True,
    pull: bool = True,
    live: bool = False,
    create: bool = True,
    selector: Mapping[str, Any] | None = None,
    doc_ids: list[str] | None = None,
    filter: str | None = None,
    query_params: Mapping[str, str] | None = None,
    removals: bool = False,
    skip_old_deletions: bool = False,
    resolve: Resolver | None = None,
    origin: str | None = None,
    batch_size: int = 250,
    retries: int | None = RETRIES,
    auth: tuple[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    on_progress: Callable[[SyncProgress], object] | None = None,
) -> Sync:
    """Synchronise a table with a database behind CouchDB's HTTP: CouchDB, a PouchDB server, another reactdb.

    Each side gets the revisions that it lacks, unchanged; documents that were changed on both sides are in conflict on both, with
    the same winner. With the same arguments it continues where it ended last.

    Args:
        table: Its name; a missing table is made.
        url: The other database, `http://user:password@host:5984/name`.
        push, pull: Send to it; fetch from it. Fetching comes first.
        live: Return at once, and continue in two threads until `stop()`.
        create: Make the other database if it is missing.
        selector, doc_ids, filter: At most one: a Mango selector, keys as `_id`, or the name `design/filter` of a function in the
            source, with its `query_params`. Rejected documents are not sent, nor is a deletion without fields.
        removals: With one of these, a document that has left the selection is sent once more, if the source is a reactdb.
        skip_old_deletions: The first time, leave out deletions of documents that the other side never had.
        resolve: Called for each fetched document in conflict, with the winner and the list of its other live leaves, in CouchDB's
            form. Its result replaces them, in one commit; None changes nothing.
        origin: The origin of fetched changes in the log; by default `url`, without its password.
        batch_size: Changes that are compared, copied and committed together.
        retries: How many times in a row to try again after an error of the connection or the server, with delays of 1 s to 60 s.
            None: for ever, which is the default of live.
        auth: (user, password), if they are not in the URL.
        headers: Sent with each request, besides its own.
        on_progress: Called with a SyncProgress after each step, in the thread that made it.

    Returns:
        A Sync: with `push` and `pull`, how far each got.

    Raises:
        SyncFailed: It has failed; with `live`, `wait()` raises it.
        TableNotFound: There is no table to send.
        InvalidOption: An option is wrong.
    """
    selection = _selection(selector, doc_ids, filter, query_params, removals)
    _check(push or pull, batch_size, resolve)
    check_origin(origin)
    if not pull and table not in db.table_list():
        raise TableNotFound(table)
    there = RemotePeer(url, auth=auth, headers=headers)
    made = _make_sync(
        session_of(db),
        LocalPeer(db, table, resolve=resolve, origin=origin or there.name[:MOST_ORIGIN]),
        there,
        {"pull": pull, "push": push},
        selection,
        batch_size,
        None if live else retries,
        on_progress or _ignore_progress,
        skip_old_deletions=skip_old_deletions,
    )
    made.run(live=live, create=create)
    return made


def check_remote(
    url: str,
    auth: tuple[str, str] | None,
    *,
    create: bool,
    retries: int | None,
    tell: Callable[[SyncProgress], object],
) -> None:
    """See whether there is any use in synchronising with it.

    Args:
        create: Make it if it is missing.
        retries: As for `sync`. None: one request, and a server without an answer now may answer later.

    Raises:
        SyncFailed: httpx is not installed, or it refuses, or does not answer; InvalidOption: It is no URL of a database.
    """
    there = RemotePeer(url, auth=auth)
    try:
        asking = Replicator(
            there,
            there,
            Subset(),
            Bell(),
            SyncProgress("pull"),
            batch_size=1,
            retries=retries or 0,
            tell=tell,
        )
        asking.reach(there, create=create, must_answer=retries is not None)
    finally:
        there.close()


def _make_sync(
    session: Session,
    here: LocalPeer,
    there: RemotePeer,
    wanted: dict[Direction, bool],
    selection: Subset,
    batch_size: int,
    retries: int | None,
    tell: Callable[[SyncProgress], object],
    *,
    skip_old_deletions: bool,
) -> Sync:
    bells = []
    replicators: dict[Direction, Replicator] = {}
    for direction in [direction for direction in wanted if wanted[direction]]:
        source, target = (there, here) if direction == "pull" else (here, there)
        bells.append(Bell())
        replicators[direction] = Replicator(
            source,
            target,
            selection,
            bells[-1],
            SyncProgress(direction),
            batch_size=batch_size,
            retries=retries,
            tell=tell,
            # Fetching comes first, and would not find a database that sending makes.
            creates_source=direction == "pull" and wanted["push"],
            skip_old_deletions=skip_old_deletions,
        )
    return Sync(session, replicators, bells, there.close)


def _check(is_some: bool, batch_size: object, resolve: object) -> None:
    """
    Raises:
        InvalidOption: An option is wrong.
    """
    if not is_some:
        raise InvalidOption("push or pull, or both: there is nothing to do")
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise InvalidOption(f"batch_size is a whole number from 1 on, not {shown_value(batch_size)}")
    if resolve is not None and not callable(resolve):
        raise InvalidOption(f"resolve is a function, not {shown_value(resolve)}")


def _ignore_progress(progress: SyncProgress) -> None:
    pass


def _selection(
    selector: Mapping[str, Any] | None,
    doc_ids: list[str] | None,
    filter: str | None,
    query_params: Mapping[str, str] | None,
    removals: bool,
) -> Subset:
    if sum(one is not None for one in (selector, doc_ids, filter)) > 1:
        raise InvalidOption("give only one of selector, doc_ids and filter")
    if selector is not None and not isinstance(selector, Mapping):
        raise InvalidOption(f"selector is a dict, not {shown_value(selector)}")
    if doc_ids is not None and not (
        isinstance(doc_ids, list | tuple) and all(isinstance(id, str) for id in doc_ids)
    ):
        raise InvalidOption(f"doc_ids is a list of ids, not {shown_value(doc_ids)}")
    if filter is not None and not isinstance(filter, str):
        raise InvalidOption(f"filter is the name of a function, `design/filter`, not {shown_value(filter)}")
    ids = None if doc_ids is None else tuple(doc_ids)
    return Subset(selector, ids, filter, dict(query_params or {}), removals)
