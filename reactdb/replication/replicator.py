"""Replicator: one direction, from a source to a target, once or until it is stopped.

    changes of the source -> the revisions that the target lacks -> these, with ancestors -> the target -> checkpoint

After a temporary failure (no connection, a server that is busy or starting) it tries again from the last checkpoint, after 1 s, 2
s, 4 s and so on up to a minute. A permanent failure (see `advice_if_permanent`) ends it, unless it has reached the other side
before: then an unknown name only means that the network is away.

A document that the target refuses is counted and skipped. So is a document that the source cannot deliver while it answers other
requests: at once after a refusal, and after `MOST_READS` attempts if an answer breaks off.

Rule of this file: it knows no side, and waits only on its bell.
"""

from __future__ import annotations

import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from reactdb.clock import monotonic
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.errors import DatabaseBusy, SyncFailed
from reactdb.logs import logger
from reactdb.replication.checkpoints import START, ReplicationLog
from reactdb.replication.peers import Bell, ChangesPage, Peer, Subset, Transfer, Unreadable

__all__ = ["Replicator", "SyncProgress"]

FIRST_DELAY_S: Final = 1.0
LONGEST_DELAY_S: Final = 60.0
CHECKPOINT_S: Final = 1.0
REMEMBERED_ERRORS: Final = 20
MOST_READS: Final = 3
"""Attempts to read one document. Meanwhile all others are copied, and three seconds pass."""

# A server with one of these statuses may answer the same request later.
_TEMPORARY: Final = frozenset({408, 425, 429, 500, 502, 503, 504})

# A temporary failure of a name's look-up, as without a network, is EAI_AGAIN.
_NO_SUCH_NAME: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})
_NO_TLS: Final = frozenset(
    {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"}
)

State = Literal["starting", "active", "waiting", "retrying", "complete", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class SyncProgress:
    """The progress of one direction.

    Attributes:
        direction: "push" or "pull".
        state: "waiting" for changes, "retrying" after an error, "complete" after all existing changes.
        docs_read, docs_written: Revisions that the target lacked, and revisions written to it.
        doc_write_failures: Revisions that the target refused; the newest are in `errors`.
        doc_read_failures: Revisions that the source did not deliver; they are in `errors`, too.
        last_seq: Position in the source's changes.
        pending: How many changes are left, if the source counts them.
        error: The last error, while it is retrying or after it failed.
        attempts: How many attempts in a row have failed; `retry_s`: seconds until the next, while it is retrying.
    """

    direction: Literal["push", "pull"]
    state: State = "starting"
    docs_read: int = 0
    docs_written: int = 0
    doc_write_failures: int = 0
    doc_read_failures: int = 0
    last_seq: Any = START
    pending: int | None = None
    error: str | None = None
    errors: tuple[dict[str, Any], ...] = field(default=())
    attempts: int = 0
    retry_s: float | None = None


class Replicator:
    """See the head of this file.

    Args:
        retries: How many times in a row to try again; None: for ever.
        tell: Called with the progress whenever it changes.
        creates_source: A missing source may be made, as a target may.
        skip_old_deletions: The first time, deletions of documents unknown to the target are skipped.
    """

    def __init__(
        self,
        source: Peer,
        target: Peer,
        selection: Subset,
        bell: Bell,
        progress: SyncProgress,
        *,
        batch_size: int,
        retries: int | None,
        tell: Callable[[SyncProgress], object],
        creates_source: bool = False,
        skip_old_deletions: bool = False,
    ) -> None:
        self._source, self._target = source, target
        self._selection = selection
        self._bell = bell
        self.progress = progress
        self._batch_size = batch_size
        self._retries = retries
        self._tell = tell
        self._checkpoints = ReplicationLog(source, target, selection)
        self._since: Any = None
        self._attempts = 0
        self._failing_since = 0.0
        self._was_reached = False
        self._creates_source = creates_source
        self._skip_old_deletions = skip_old_deletions
        self._is_first = False
        # By id and revision: the number of failed reads, and the skipped revisions. After an error the changes behind the last
        # checkpoint are compared again.
        self._failed_reads: Counter[tuple[str, str | None]] = Counter()
        self._passed_over: set[tuple[str, str | None]] = set()

    def run(self, *, live: bool, create: bool) -> None:
        """Replicate the existing changes, and with `live` further changes until the bell stops it.

        Raises:
            SyncFailed: It cannot go on.
        """
        try:
            while not self._bell.is_stopped:
                try:
                    self._target.prepare(create=create)
                    self._source.prepare(create=create and self._creates_source)
                    self._was_reached = True
                    self._go_on(live=live)
                    break
                except Exception as error:
                    self._wait_after(error)
        except SyncFailed as error:
            self._update_progress(state="failed", error=str(error))
            raise
        self._update_progress(state="stopped" if self._bell.is_stopped else "complete", error=None)

    def task(self, *, live: bool) -> dict[str, Any]:
        """As in `_active_tasks`."""
        progress = self.progress
        return {
            "type": "replication",
            "replication_id": self._checkpoints.id.removeprefix("_local/"),
            "source": self._source.name,
            "target": self._target.name,
            "continuous": live,
            "user": None,
            "database": None,
            "doc_id": None,
            "docs_read": progress.docs_read,
            "docs_written": progress.docs_written,
            "doc_write_failures": progress.doc_write_failures,
            "missing_revisions_found": progress.docs_read,
            "changes_pending": progress.pending,
            "checkpointed_source_seq": self._checkpoints.seq,
            "source_seq": progress.last_seq,
            "through_seq": progress.last_seq,
        }

    def reach(self, peer: Peer, *, create: bool, must_answer: bool) -> None:
        """Ask a side whether it is there, and make nothing.

        Args:
            create: It would be made.
            must_answer: No answer is an error, too.

        Raises:
            SyncFailed: It refuses, or is not there.
        """
        while True:
            try:
                return peer.prepare(create=False)
            except Exception as error:
                if create and isinstance(error, CouchError) and error.status == 404:
                    return None
                if not must_answer and is_temporary(error) and not advice_if_permanent(error):
                    return None
                self._wait_after(error)

    def _go_on(self, *, live: bool) -> None:
        self._since = self._checkpoints.read()
        self._is_first = self._since == START
        self._update_progress(state="active", last_seq=self._since)
        due = monotonic() + CHECKPOINT_S
        is_caught_up = False
        while not self._bell.is_stopped:
            page = self._next(wait=live and is_caught_up)
            if self._bell.is_stopped:
                return
            if page.rows:
                self._update_progress(state="active", error=None)
                self._copy(page)
            self._since = page.last_seq
            # After an earlier error, it works again.
            self._attempts = 0
            is_caught_up = len(page.rows) < self._batch_size
            self._is_first = self._is_first and not is_caught_up
            if self._since != self._checkpoints.seq and (is_caught_up or monotonic() >= due):
                # A checkpoint costs a commit on both sides. Changes behind the last checkpoint are compared again, but not sent
                # again.
                self._checkpoints.write(self._since)
                due = monotonic() + CHECKPOINT_S
            self._update_progress(
                state="waiting" if is_caught_up and live else "active",
                last_seq=page.last_seq,
                pending=page.pending,
                error=None,
                attempts=0,
                retry_s=None,
            )
            if is_caught_up and not live:
                return

    def _next(self, *, wait: bool) -> ChangesPage:
        try:
            if wait:
                return self._source.wait(self._selection, self._since, self._batch_size, self._bell)
            return self._source.changes(self._selection, self._since, self._batch_size)
        except CouchError as error:
            if error.status != 400 or "since" not in error.reason or self._since == START:
                raise
            # The source does not know this position: it was replaced, or has lost its newest changes. All is compared.
            self._since = START
            return self._source.changes(self._selection, START, self._batch_size)

    def _copy(self, page: ChangesPage) -> None:
        revisions: dict[str, list[str]] = {}
        for row in page.rows:
            known = revisions.setdefault(row["id"], [])
            known += [change["rev"] for change in row["changes"] if change["rev"] not in known]
        missing = self._target.missing(revisions)
        if self._skip_old_deletions and self._is_first:
            deleted = {row["id"] for row in page.rows if row.get("deleted")}
            missing = {
                id: difference
                for id, difference in missing.items()
                if id not in deleted or difference.get("possible_ancestors")
            }
        if not missing:
            return
        results = list(self._source.leaves(missing, self._target))
        leaves = [one for one in results if isinstance(one, Transfer)]
        failures = self._target.write(leaves)
        refused = [one for one in failures if not isinstance(one, Unreadable)]
        unreadable = [one for one in (*results, *failures) if isinstance(one, Unreadable)]
        read = len(leaves) - (len(failures) - len(refused))
        self._update_progress(
            docs_read=self.progress.docs_read + read,
            docs_written=self.progress.docs_written + read - len(refused),
            doc_write_failures=self.progress.doc_write_failures + len(refused),
            errors=(*self.progress.errors, *refused)[-REMEMBERED_ERRORS:],
        )
        if unreadable:
            self._skip_unreadable(unreadable)

    def _skip_unreadable(self, unreadable: list[Unreadable]) -> None:
        """Count revisions that the source does not deliver.

        Raises:
            CouchError, httpx.TransportError: The source does not answer at all, or another attempt may do better.
        """
        self._source.prepare(create=False)
        most = MOST_READS if self._retries is None else min(MOST_READS, self._retries + 1)
        for one in unreadable:
            self._failed_reads[one.id, one.rev] += 1
        for one in unreadable:
            if is_temporary(one.error) and self._failed_reads[one.id, one.rev] < most:
                raise one.error
        rows = []
        for one in unreadable:
            if (one.id, one.rev) not in self._passed_over:
                self._passed_over.add((one.id, one.rev))
                rows.append({"id": one.id, "rev": one.rev, **_error_members(one.error)})
                # The other side's message becomes one line of the log.
                reason = " ".join(describe_error(one.error).split())
                logger.warning("%r of %s is passed over: %s", one.id, self._source.name, reason)
        self._update_progress(
            doc_read_failures=self.progress.doc_read_failures + len(rows),
            errors=(*self.progress.errors, *rows)[-REMEMBERED_ERRORS:],
        )

    def _wait_after(self, error: Exception) -> None:
        """Wait for the next attempt.

        Raises:
            SyncFailed: Another attempt is useless, or this was the last.
        """
        if not is_temporary(error) or (advice_if_permanent(error) and not self._was_reached):
            raise self._on_failure(error) from error
        if not self._attempts:
            self._failing_since = monotonic()
        self._attempts += 1
        if self._retries is not None and self._attempts > self._retries:
            raise self._on_failure(error) from error
        delay = min(FIRST_DELAY_S * 2 ** (self._attempts - 1), LONGEST_DELAY_S)
        self._update_progress(
            state="retrying", error=describe_error(error), attempts=self._attempts, retry_s=delay
        )
        self._bell.clear()
        if not self._bell.is_stopped:
            self._bell.wait(delay)

    def _on_failure(self, error: BaseException) -> SyncFailed:
        there = self._target if self.progress.direction == "push" else self._source
        if isinstance(error, SyncFailed):
            return error
        tried = ""
        if self._attempts > 1:
            tried = f", after {self._attempts} attempts in {monotonic() - self._failing_since:.0f} s"
        return SyncFailed(there.name, describe_error(error) + tried + advice_on(error))

    def fail_with(self, error: BaseException) -> SyncFailed:
        """Note that `run` has ended with this error, and return it as `SyncFailed`. No callback is called, because a callback may
        have failed."""
        failed = self._on_failure(error)
        self.progress = replace(self.progress, state="failed", error=str(failed))
        return failed

    def _update_progress(self, **changed: Any) -> None:
        self.progress = replace(self.progress, **changed)
        self._tell(self.progress)


def is_temporary(error: Exception) -> bool:
    """Whether another attempt may do better."""
    if isinstance(error, CouchError):
        return error.status in _TEMPORARY
    return isinstance(error, DatabaseBusy) or _is_of_connection(error)


def _error_members(error: Exception) -> dict[str, str]:
    """An error as rows of failures have it."""
    if isinstance(error, CouchError):
        return {"error": error.error, "reason": error.reason}
    return {"error": "unreadable", "reason": describe_error(error)}


def describe_error(error: BaseException) -> str:
    """The error as a sentence."""
    if isinstance(error, CouchError):
        return f"{error.error} ({error.status}): {error.reason}"
    return str(error) or type(error).__name__


def advice_if_permanent(error: BaseException) -> str:
    """The advice for an error of the connection that a new attempt would meet again, "" for any other error."""
    for cause in _causes(error):
        if isinstance(cause, socket.gaierror) and cause.errno in _NO_SUCH_NAME:
            return "there is no host of that name; check the URL"
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "its certificate is not trusted here; name the file of the authority that signed it in SSL_CERT_FILE"
        if isinstance(cause, ssl.SSLError) and cause.reason in _NO_TLS:
            return "the server on that port does not use TLS; check whether the URL begins with http://"
    return ""


def advice_on(error: BaseException) -> str:
    """The advice for an error, as the end of a sentence."""
    if advice := advice_if_permanent(error):
        return f": {advice}"
    return "; is a server running there, and is the URL right?" if _is_of_connection(error) else ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes. httpx wraps a system error twice."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _is_of_connection(error: BaseException) -> bool:
    # Where httpx is not there, no error is of it.
    return any(
        kind.__module__.partition(".")[0] == "httpx" and kind.__name__ == "TransportError"
        for kind in type(error).__mro__
    )
