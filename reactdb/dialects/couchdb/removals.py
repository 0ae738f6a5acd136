"""Removals: the reader's last state of a document, which shows that the document has left a filter.

    received.note_page(end, newest, is_last=...)    the reader received everything up to `end`, with `newest` as the newest seq
    received.document(reading, state)               the document in the state that the reader received last

Up to one position the reader knows the documents of that position. After it come pages that were read while others wrote. Each
page contains documents as of its own reading.

Rule of this file: it remembers positions. Earlier documents are read from the log.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final

from reactdb.dialects.couchdb.reader import DocumentReader, OpenReading
from reactdb.dialects.couchdb.revisions import KeptLeaf
from reactdb.dialects.couchdb.states import State, fields_of, lineage_of_entry
from reactdb.store.log import read_low_water

UNKNOWN: Final = object()
"""A document whose earlier state is no longer in the log."""


class ReceivedDocuments:
    """The documents that one reader has received. The reader begins with the documents as of `position`."""

    def __init__(self, database: DocumentReader, position: int) -> None:
        self._database = database
        self._settled = position
        # The pages after it: (the page's last seq, the seq of the database's newest change then).
        self._pages: list[tuple[int, int]] = []

    def note_page(self, end: int, newest: int, *, is_last: bool) -> None:
        """The reader received all changes up to `end`, while `newest` was the newest; `is_last`: all existing changes."""
        if is_last:
            self._settled = end
            self._pages.clear()
        elif self._pages and self._pages[-1][1] == newest:
            self._pages[-1] = end, newest
        else:
            self._pages.append((end, newest))

    def document(self, reading: OpenReading, state: State) -> Any:
        """The reader's last state of the document: None if it did not exist, or `UNKNOWN`."""
        tables, oldest, later = reading.tables, None, state.seq
        for change in reading.snapshot.history(tables.main, state.key_bytes):
            oldest = change
            if change.seq <= self._settled or self._was_newest(change.seq, later):
                if change.new_bytes is None:
                    return None
                fields = fields_of(change.new_bytes, tables.main.primary_key)
                leaf = KeptLeaf(lineage_of_entry(tables, change.new_bytes, change.meta), False, fields)
                return self._database.render(leaf, state)
            later = change.seq
        # No document existed before; unless the log does not reach back that far.
        is_kept = self._settled == 0 or self._settled >= read_low_water(reading.snapshot.connection)
        return None if is_kept or (oldest is not None and oldest.kind == "insert") else UNKNOWN

    def _was_newest(self, seq: int, later: int) -> bool:
        """Whether a page has delivered a change: whether it was the newest of its document when that page was read, and not yet
        `later`."""
        place = bisect_left(self._pages, (seq, 0))
        return place < len(self._pages) and self._pages[place][1] < later
