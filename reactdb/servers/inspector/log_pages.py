"""Log pages: the log from its end backwards, filtered, and the history of one document.

A filter may match nothing, so a request examines a bounded part of the log, and says where the next goes on.

Rule of this file: newest first, and every answer bounded in entries, examined entries and bytes.
"""

from __future__ import annotations

from typing import Any, Final

from reactdb import json
from reactdb.change import Change
from reactdb.database import Database
from reactdb.errors import HistoryLost
from reactdb.key_spelling import key_text
from reactdb.servers.inspector.past_tables import find_table_at
from reactdb.servers.inspector.shown_changes import show_change, size_of_change
from reactdb.session import session_of
from reactdb.store.log import is_shown, read_low_water
from reactdb.store.snapshot import Snapshot
from reactdb.values import codec
from reactdb.values.collation import primary_key_bytes

__all__ = ["MOST_CHANGES", "read_document", "read_log", "read_newest"]

MOST_CHANGES: Final = 500
MOST_EXAMINED: Final = 20_000
"""Entries that one request examines: some 100 ms."""
MOST_BYTES: Final = 4 * 1024 * 1024
"""Of documents, in one answer. A single change may have more."""
WINDOW: Final = 500


def read_log(
    db: Database, *, before: int | None, limit: int, table: str | None, origin: str | None, kind: str | None
) -> dict[str, Any]:
    """The changes before a seq, newest first.

    Args:
        before: None: from the newest.
        table, origin, kind: Only changes with this; None: all. The origin "" means none.

    Returns:
        `changes`; `more`, whether older ones may follow, and then `next_before`, the `before` of the next request.
    """
    session = session_of(db)
    session.check_open()
    with session.engine.fresh_snapshot() as snapshot:
        snapshot.check_end()
        head, low = snapshot.seq, read_low_water(snapshot.connection)
        top = head if before is None else min(head, max(0, before - 1))
        found: list[Change] = []
        info = None if table is None else snapshot.table(table)
        examined = size = 0
        window = limit if info is not None or (table is None and origin is None and kind is None) else WINDOW
        while top > low and len(found) < limit and examined < MOST_EXAMINED and size < MOST_BYTES:
            bottom = max(low, top - max(1, window))
            for change in reversed(snapshot.changes(bottom, top, info, limit=WINDOW)):
                examined += 1
                top = change.seq - 1
                if (
                    is_shown(change)
                    and (table is None or change.table == table)
                    and (origin is None or (change.origin or "") == origin)
                    and (kind is None or change.kind == kind)
                ):
                    found.append(change)
                    size += size_of_change(change)
                    if len(found) >= limit or size >= MOST_BYTES:
                        break
            else:
                # A table's own entries may be rare among the others.
                examined += (top - bottom) // 32
                top = bottom
                window = WINDOW
        shown = [show_change(change) for change in found]
    answer: dict[str, Any] = {"seq": head, "oldest": low, "changes": shown, "more": top > low}
    if top > low:
        answer["next_before"] = top + 1
    return answer


def read_newest(snapshot: Snapshot, since: int, most: int) -> list[dict[str, Any]]:
    """At most so many of the newest changes past `since`, oldest first."""
    head = snapshot.seq
    changes = [
        change for change in snapshot.changes(max(since, head - most), head, limit=most) if is_shown(change)
    ]
    size = 0
    for place in range(len(changes) - 1, -1, -1):
        size += size_of_change(changes[place])
        if size >= MOST_BYTES:
            changes = changes[place:]
            break
    return [show_change(change) for change in changes]


def read_document(
    db: Database, table: str, key: Any, *, at: int | None, before: int | None, limit: int
) -> dict[str, Any]:
    """A document, now or as of a seq, and its versions in the log up to then, newest first.

    Args:
        before: Only versions with a smaller seq; None: all.

    Returns:
        `doc` and its exact JSON as `json`, both None where it is `deleted`; `history`, at most `limit` changes; `more`.
    """
    session = session_of(db)
    session.check_open()
    key_bytes = primary_key_bytes(key)
    with session.engine.fresh_snapshot() as snapshot:
        head, low = snapshot.seq, read_low_water(snapshot.connection)
        moment = head if at is None else min(at, head)
        if moment < low:
            raise HistoryLost(moment, low + 1)
        info = find_table_at(snapshot, table, moment)
        body: bytes | None = None
        is_found = False
        history: list[Change] = []
        more, size = False, 0
        for change in snapshot.history(info, key_bytes):
            if change.seq > moment:
                continue
            if not is_found:
                is_found, body = True, change.new_bytes
            if before is not None and change.seq >= before:
                continue
            if len(history) >= limit or size >= MOST_BYTES:
                more = True
                break
            history.append(change)
            size += size_of_change(change)
        shown = [show_change(change) for change in history]
    document = None if body is None else codec.decode(body)
    return {
        "table": table,
        "key": key_text(key),
        "seq": head,
        "at": at,
        "doc": document,
        "json": None if document is None else json.dumps(document),
        "deleted": document is None,
        "history": shown,
        "more": more,
    }
