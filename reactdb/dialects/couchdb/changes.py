"""Changes: the rows of `_changes` that exist now, and a call when there are more.

    feed = database.changes(since="0", include_docs=True)
    feed.rows(100)                  the next rows; an empty list if there are none at the moment
    feed.last_seq, feed.pending     its position, and how many changes come after it
    feed.on_ready(callback)         called once when there may be rows again
    feed.close()

Rows are read from the log in pages, each in a snapshot of its own: one row per document, at the place of its newest change, in
the order of commits. A change of any leaf, also of a losing leaf, is a change of its document. An idle reader holds a position
and nothing else.

Rule of this file: it never waits, and has no thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from reactdb.budget import CALL_STEPS, spend, spend_per_element
from reactdb.change import Change
from reactdb.clock import time_text
from reactdb.dialects.couchdb.change_waiters import Interest, Wakers
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.filters import DocumentFilter, IdFilter, SelectorFilter
from reactdb.dialects.couchdb.names import id_of, key_or_none
from reactdb.dialects.couchdb.reader import DocumentReader, OpenReading, add_losers
from reactdb.dialects.couchdb.removals import UNKNOWN, ReceivedDocuments
from reactdb.dialects.couchdb.states import State, load_many, states_of
from reactdb.errors import DatabaseClosed
from reactdb.store.newest import count_newest, read_newest_by_seq
from reactdb.values import collation

# How many documents the first snapshot reads, and how many any snapshot reads at most. In between, their size decides.
FIRST_PAGE: Final = 128
PAGE: Final = 256
# Once the size of documents is known, a snapshot reads and a batch delivers about so many bytes of documents.
PAGE_BYTES: Final = 1 << 20
# CouchDB's limit if none is given: `seq_interval` counts from it.
NO_LIMIT: Final = 10**15
MOST_SEQ: Final = 2**62
# The errors after the database was deleted, or the file closed: a feed has ended then.
GONE: Final = (CouchError, DatabaseClosed)


@dataclass(frozen=True)
class ChangesRequest:
    """A request for a database's changes.

    Attributes:
        since: The exclusive lower position: "0", "now", or a seq.
        limit: The most rows; None: any number.
        descending: The newest first, of the present documents. `since` does not count.
        style: "main_only": the winner's revision; "all_docs": the revisions of all leaves.
        include_docs: Rows have `doc`, the present winner.
        conflicts: In `doc`, the revisions that lost.
        attachments: In `doc`, the bytes of attachments.
        filter: Selects the revisions; None: all.
        doc_ids: Only these documents; None: all.
        seq_interval: Only one row in `seq_interval` has its seq.
        until: The last position, if it is in the past: documents with a later change have no row.
        deletions_after: A deleted document has a row only if it was deleted after this position.
        removals: With a filter: a document that does not pass now, but passed at the feed's start or its last row, has a row with
            `removed`, and without `doc`.
        include_log: Rows have `log`: the kind, time and origin of the newest change.
    """

    since: str = "0"
    limit: int | None = None
    descending: bool = False
    style: Literal["main_only", "all_docs"] = "main_only"
    include_docs: bool = False
    conflicts: bool = False
    attachments: bool = False
    filter: DocumentFilter | None = None
    doc_ids: Collection[str] | None = None
    seq_interval: int | None = None
    until: str | None = None
    deletions_after: str | None = None
    removals: bool = False
    include_log: bool = False


class _Candidate:
    """A document that may become a row."""

    __slots__ = ("before", "doc", "leaves", "log", "seq", "seq_text", "state")

    def __init__(
        self,
        seq: int,
        seq_text: str,
        state: State,
        leaves: list[tuple[str, Any]],
        doc: Any,
        before: Any,
        log: dict[str, Any] | None,
    ) -> None:
        self.seq = seq
        self.seq_text = seq_text
        self.state = state
        # Revisions, each with the document for the filter.
        self.leaves = leaves
        self.doc = doc
        # The state of the reader's last row of the document, as `ReceivedDocuments.document` returns it.
        self.before = before
        self.log = log

    @property
    def revs(self) -> list[str]:
        return [rev for rev, _ in self.leaves]


class _Page(NamedTuple):
    """The next documents.

    Attributes:
        end, end_text: The seq of the last change of the page.
        newest: The seq of the newest change at the time of reading.
        bytes: Their approximate size.
    """

    candidates: list[_Candidate]
    end: int
    end_text: str
    newest: int
    bytes: int


class ChangesFeed:
    """See the head of this file. One thread at a time, and `on_ready` from any."""

    def __init__(self, database: DocumentReader, request: ChangesRequest, wakers: Wakers) -> None:
        self._database = database
        self._request = request
        self._left = request.limit
        # How many rows were returned.
        self._count = 0
        self._page_rows = FIRST_PAGE
        self._is_finished = request.limit == 0
        self._lock = threading.Lock()
        self._on_ready: Callable[[], object] | None = None
        self._is_woken = False
        self._keys: list[bytes] | None = None
        ids = request.doc_ids
        if ids is None and isinstance(request.filter, IdFilter):
            ids = request.filter.ids
        if ids is not None:
            self._keys = list(
                dict.fromkeys(key for id in spend_per_element(ids) if (key := key_or_none(id)) is not None)
            )
        self._end_listening: Callable[[], None] | None = None
        self._wakers = wakers
        with database.reading() as reading:
            since = "0" if request.descending else request.since
            self._position = database.sequences.seq(reading.snapshot, reading.tables, since)
            self._until = min(reading.newest, self._seq(reading, request.until, reading.newest))
            self._deletions_after = self._seq(reading, request.deletions_after, 0)
            # Descending: the next change is below this seq.
            self._above = self._until
            self._last_seq = reading.seq_text(self._above if request.descending else self._position)

        # All rows up to this position were returned.
        self._passed_seq = self._last_seq
        self._received: ReceivedDocuments | None = None
        if request.removals and request.filter is not None and not request.descending:
            self._received = ReceivedDocuments(database, self._position)
        self._end_if_over()

    def _seq(self, reading: OpenReading, text: str | None, default: int) -> int:
        if text is None:
            return default
        return self._database.sequences.seq(reading.snapshot, reading.tables, text)

    # -----------------------------------------------------------------------------------------------------------
    # Reading

    @property
    def passed_seq(self) -> str:
        """The position up to which all rows were returned, also while the next rows are searched for."""
        return self._passed_seq

    @property
    def last_seq(self) -> str:
        """The position that was reached."""
        return self._last_seq

    @property
    def pending(self) -> int:
        """How many documents have changed past it. With a filter, whether they pass is not known."""
        try:
            with self._database.reading() as reading:
                if self._request.descending:
                    return count_newest(reading.snapshot, reading.tables.watched, 0, self._above)
                until = MOST_SEQ if self._request.until is None else max(self._until, self._position)
                return count_newest(reading.snapshot, reading.tables.watched, self._position, until)
        except GONE:
            return 0

    @property
    def is_finished(self) -> bool:
        """No more rows will come: the limit is reached, a descending feed is at its end, or the database is gone."""
        return self._is_finished

    def rows(self, most: int = 1000) -> list[dict[str, Any]]:
        """The next present rows, at most `most`, and fewer of large documents. Only an empty list means that there are no
        more."""
        with self._lock:
            self._is_woken = False
        self._passed_seq = self._last_seq
        rows: list[dict[str, Any]] = []
        size = 0
        while len(rows) < most and not self._is_finished and not (rows and size >= PAGE_BYTES):
            spend(CALL_STEPS)
            wanted = most - len(rows) if self._left is None else min(most - len(rows), self._left)
            try:
                page = self._page(wanted)
            except GONE:
                self._is_finished = True
                break
            end, end_text, count = page.end, page.end_text, len(rows)
            is_last = not page.candidates
            size += page.bytes
            for candidate, revs in self._filter(page.candidates):
                rows.append(self._row(candidate, revs))
                self._count += 1
                if self._left is not None:
                    self._left -= 1
                    self._is_finished = self._left == 0
                if len(rows) == most or self._is_finished:
                    # The rest of this page is read again.
                    end, end_text = candidate.seq, candidate.seq_text
                    break
            self._move(end, end_text, has_rows=len(rows) > count)
            if self._received is not None:
                self._received.note_page(end, page.newest, is_last=is_last)
            if not rows:
                self._passed_seq = self._last_seq
            if is_last:
                self._is_finished = self._is_finished or self._request.descending
                break
        return rows

    def _move(self, end: int, end_text: str, *, has_rows: bool) -> None:
        if not self._request.descending:
            self._position = end
            self._last_seq = end_text
            self._end_if_over()
        else:
            self._above = end - 1
            if has_rows:
                self._last_seq = end_text

    def _end_if_over(self) -> None:
        is_bounded = self._request.until is not None and not self._request.descending
        if is_bounded and self._position >= self._until:
            self._is_finished = True

    def _page(self, wanted: int) -> _Page:
        request = self._request
        with self._database.reading() as reading:
            limit = min(self._page_rows, wanted) if request.filter is None else self._page_rows
            newest = reading.newest
            until = newest if request.until is None else self._until
            # Also if all rows of the page were returned already, for a later change of the document.
            states: list[State] = []
            end = 0 if request.descending else until
            while not states:
                changes, is_last = self._changes(reading, until, limit)
                size = self._measure(changes)
                states = self._states(reading, changes)
                if is_last:
                    break
                end = changes[-1].seq
                if not states:
                    self._move(end, reading.seq_text(end), has_rows=False)
            if is_last and not request.descending:
                end = until
            elif states:
                end = states[-1].seq
            texts = reading.seq_texts([state.seq for state in states])
            candidates = [
                self._candidate(reading, state, text)
                for state, text in spend_per_element(zip(states, texts, strict=True))
            ]
            return _Page(candidates, end, reading.seq_text(end), newest, size)

    def _measure(self, changes: Sequence[Change]) -> int:
        """How many bytes these have. This decides how many documents the next page has."""
        size = sum(len(change.new_bytes or b"") for change in changes)
        if size > PAGE_BYTES:
            self._page_rows = max(1, len(changes) * PAGE_BYTES // size)
        else:
            self._page_rows = min(PAGE, self._page_rows * 2)
        return size

    def _changes(self, reading: OpenReading, until: int, limit: int) -> tuple[list[Change], bool]:
        """The next entries, and whether these are the last."""
        if self._keys is not None:
            return [], True
        if self._request.descending:
            bounds, reverse = (0, self._above), True
        else:
            bounds, reverse = (self._position, until), False
        changes = read_newest_by_seq(
            reading.snapshot, reading.tables.watched, *bounds, reverse=reverse, limit=limit
        )
        return changes, len(changes) < limit

    def _states(self, reading: OpenReading, changes: Sequence[Change]) -> list[State]:
        """The documents that get a row, with these as their newest changes."""
        return [
            state
            for state in self._changed_states(reading, changes)
            if state.seq > self._deletions_after or not state.is_deleted
        ]

    def _changed_states(self, reading: OpenReading, changes: Sequence[Change]) -> list[State]:
        if self._keys is not None:
            known = load_many(reading.heads, reading.tables, self._keys).values()
            if self._request.descending:
                states = [state for state in known if state.seq <= self._above]
                return sorted(states, key=lambda state: -state.seq)
            until = MOST_SEQ if self._request.until is None else self._until
            states = [state for state in known if self._position < state.seq <= until]
            return sorted(states, key=lambda state: state.seq)
        # A document with leaves in several tables has one row, at its newest change.
        newest = {state.seq: state for state in states_of(reading.heads, reading.tables, changes)}
        return [newest[change.seq] for change in changes if change.seq in newest]

    # -----------------------------------------------------------------------------------------------------------
    # Rows

    def _candidate(self, reading: OpenReading, state: State, text: str) -> _Candidate:
        request, database = self._request, self._database
        revs = state.revs() if request.style == "all_docs" else state.revs()[:1]
        leaves: list[tuple[str, Any]]
        if request.filter is None:
            leaves = [(str(rev), None) for rev, _ in revs]
        else:
            shown = state.leaves if request.style == "all_docs" else [state.winner]
            leaves = [(str(leaf.lineage.rev), database.render(leaf, state)) for leaf in shown]
        doc = None
        if request.include_docs:
            doc = database.render(state.winner, state)
            if request.conflicts:
                add_losers(doc, state)
        before = None if self._received is None else self._received.document(reading, state)
        log = log_details(reading, state) if request.include_log else None
        return _Candidate(state.seq, text, state, leaves, doc, before, log)

    def _filter(self, candidates: Sequence[_Candidate]) -> Iterator[tuple[_Candidate, list[str]]]:
        """The candidates that become rows, each with its revisions that pass the filter; without revisions for a `removed`
        row."""
        filter = self._request.filter
        if filter is None:
            yield from ((candidate, candidate.revs) for candidate in candidates)
            return
        answers = iter(
            filter.passes_many([document for candidate in candidates for _, document in candidate.leaves])
        )
        passing = [[rev for rev, _ in candidate.leaves if next(answers)] for candidate in candidates]
        left = [
            candidate.before
            for candidate, revs in zip(candidates, passing, strict=True)
            if not revs and candidate.before is not None and candidate.before is not UNKNOWN
        ]
        passed = iter(filter.passes_many(left))
        for candidate, revs in zip(candidates, passing, strict=True):
            if revs or (candidate.before is not None and (candidate.before is UNKNOWN or next(passed))):
                yield candidate, revs

    def _row(self, candidate: _Candidate, revs: Sequence[str]) -> dict[str, Any]:
        request, state = self._request, candidate.state
        seq: str | None = candidate.seq_text
        if request.seq_interval is not None:
            left = (NO_LIMIT if request.limit is None else request.limit) - self._count
            seq = seq if left % request.seq_interval == 0 else None
        row: dict[str, Any] = {
            "seq": seq,
            "id": id_of(collation.key_value(state.key_bytes)),
            "changes": [{"rev": rev} for rev in revs or candidate.revs],
        }
        if state.is_deleted:
            row["deleted"] = True
        if candidate.log is not None:
            row["log"] = candidate.log
        if not revs:
            row["removed"] = True
        elif candidate.doc is not None:
            if request.attachments:
                self._database.attach(candidate.doc, state.winner)
            row["doc"] = self._project(candidate.doc)
        return row

    def _project(self, document: dict[str, Any]) -> Any:
        filter = self._request.filter
        return filter.render(document) if isinstance(filter, SelectorFilter) else document

    def _interest(self) -> Interest:
        """The changes that the feed waits for."""
        filter = self._request.filter
        if self._keys is None and isinstance(filter, SelectorFilter):
            equalities = filter.selector.equalities()
            return Interest(equality=equalities[0] if equalities else None)
        return Interest(self._keys)

    # -----------------------------------------------------------------------------------------------------------
    # Waiting

    def on_ready(self, callback: Callable[[], object]) -> None:
        """Call `callback` when there may be rows, or the database is gone: once, and again only after `rows` was called. The call
        is immediate if that is so already. It runs where a commit is delivered: it should set an event, and return."""
        with self._lock:
            self._on_ready = callback
        if self._end_listening is None and not self._is_finished:
            try:
                with self._database.reading() as reading:
                    tables = reading.tables
                self._end_listening = self._wakers.listen(tables, self._wake, self._interest())
            except GONE:
                self._is_finished = True
        if self._has_more():
            self._wake()

    def _has_more(self) -> bool:
        if self._is_finished:
            return True
        try:
            with self._database.reading() as reading:
                return reading.newest > self._position
        except GONE:
            return True

    def _wake(self) -> None:
        with self._lock:
            callback = self._on_ready
            if callback is None or self._is_woken:
                return
            self._is_woken = True
        callback()

    def close(self) -> None:
        """End it. Any thread; a second call does nothing."""
        with self._lock:
            self._on_ready = None
            end, self._end_listening = self._end_listening, None
        self._is_finished = True
        if end is not None:
            end()


def log_details(reading: OpenReading, state: State) -> dict[str, Any]:
    """The log entry of the newest change of a document: `{"op", "time", "origin"}`.

    `op` is "create", "update" or "delete", or "conflict" if only losing leaves have changed; `time` is the commit's time, in the
    form of `since`; `origin` is the writer's name, or None.
    """
    change = reading.snapshot.entry(state.seq)
    assert change is not None
    op = "delete" if state.is_deleted else "conflict"
    if state.main is not None and state.main[0] == state.seq:
        op = "create" if change.kind == "insert" else "update"
    return {"op": op, "time": time_text(change.time), "origin": change.origin}
