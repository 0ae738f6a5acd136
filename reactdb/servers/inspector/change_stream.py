"""ChangeStream: the changes while they happen, as lines of JSON; an empty line is a heartbeat.

    {"seq", "since", "changes": [...], "counts": {table: [inserted, updated, deleted]}, "skipped", "tables": {name: count}}

Changes are gathered for at least 100 ms. A line has at most the 200 newest of them, and the counts of all. Everything is read
from the log when the client has taken the line before, so a slow client costs no memory. A commit pays nothing: the stream
looks at the newest seq ten times a second.

Rule of this file: the time of each line.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

from reactdb import json
from reactdb.change import DELETE, INSERT
from reactdb.clock import monotonic
from reactdb.database import Database
from reactdb.errors import ReactDBError
from reactdb.servers.http.loop_waiter import LoopWaiter
from reactdb.servers.http.protocol import Run
from reactdb.servers.inspector.log_pages import read_newest
from reactdb.servers.inspector.overview import read_counts
from reactdb.session import session_of
from reactdb.store.key_pages import count_changes
from reactdb.store.log import read_low_water

__all__ = ["ChangeStream", "OpenedStream"]

GATHER_S: Final = 0.1
HEARTBEAT_S: Final = 10.0
MOST_CHANGES: Final = 200
"""Changes with their documents in a line."""


class OpenedStream:
    """The answer of `api/stream`: see `http.protocol.Opened`."""

    headers: Final[dict[str, str]] = {"x-accel-buffering": "no"}

    def __init__(self, db: Database, after: int | None) -> None:
        """`after`: the stream begins with the changes after this seq; None: after now."""
        self._db = db
        self._after = session_of(db).engine.newest_seq() if after is None else after

    def stream(self, run: Run) -> ChangeStream:
        return ChangeStream(self._db, self._after, run)

    def close(self) -> None:
        """Nothing to close: the stream subscribes to nothing."""


class ChangeStream(LoopWaiter):
    """See the head of this file. `end` of LoopWaiter ends it."""

    content_type: Final = "application/x-ndjson"

    def __init__(self, db: Database, after: int, run: Run) -> None:
        super().__init__()
        self._session = session_of(db)
        self._seq = after
        self._run = run

    async def chunks(self) -> AsyncIterator[bytes]:
        spoken_at = monotonic()
        is_first = True
        while not self._is_ending:
            began = monotonic()
            try:
                line = await self._run(self._read_line, is_first)
            except ReactDBError as error:
                # The database is closed, or cannot be read any more.
                yield json.dumps({"end": str(error)}, plain=True).encode() + b"\n"
                return
            is_first = False
            if line is not None:
                yield line
                spoken_at = monotonic()
            elif monotonic() >= spoken_at + HEARTBEAT_S:
                yield b"\n"
                spoken_at = monotonic()
            # A line that takes long to read must not take all of the time.
            with suppress(TimeoutError):
                async with asyncio.timeout(max(GATHER_S, 2 * (monotonic() - began))):
                    await self._changed.wait()

    def _read_line(self, is_first: bool) -> bytes | None:
        """The next line, or None if nothing has changed. In a thread."""
        session, since = self._session, self._seq
        session.check_open()
        if not is_first and session.engine.newest_seq() == since:
            return None
        with session.engine.fresh_snapshot() as snapshot:
            head, low = snapshot.seq, read_low_water(snapshot.connection)
            # A client of another file, or of an older copy, may be ahead.
            is_lost = since < low or since > head
            begin = max(low, min(since, head))
            counts: dict[str, list[int]] = {}
            total = 0
            for table_id, kinds in count_changes(snapshot, begin, head).items():
                info = snapshot.catalogue.by_id.get(table_id)
                if info is None or info.owner is not None:
                    continue
                inserted, deleted = kinds.get(INSERT, 0), kinds.get(DELETE, 0)
                one = counts.setdefault(info.name, [0, 0, 0])
                of_table = sum(kinds.values())
                total += of_table
                for place, count in enumerate((inserted, of_table - inserted - deleted, deleted)):
                    one[place] += count
            changes = read_newest(snapshot, begin, MOST_CHANGES)
            shown = sum(change["kind"] in DOCUMENT_KINDS for change in changes)
            line: dict[str, Any] = {
                "seq": head,
                "since": begin,
                "oldest": low,
                "changes": changes,
                "counts": counts,
                "skipped": max(0, total - shown),
                "tables": read_counts(snapshot),
            }
        if is_lost:
            line["lost"] = True
        self._seq = head
        return json.dumps(line, plain=True).encode() + b"\n"


DOCUMENT_KINDS: Final = frozenset({"insert", "update", "replace", "delete"})
