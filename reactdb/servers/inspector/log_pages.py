"""Log pages: the log from its end backwards, filtered, and the history of one document.

A filter may match nothing, so a request examines a bounded part of the log, and says where the next goes on.

Rule of this file: newest first, and every answer bounded in entries, examined entries and bytes.
"""

from __future__ import annotations

from typing import Any, Final

from reactdb import json
from reactdb.change import CATALOGUE_KINDS, KINDS, Change
from reactdb.database import Database
from reactdb.errors import HistoryLost, TableNotFound
from reactdb.key_spelling import key_text
from reactdb.servers.inspector.parameters import bad
from reactdb.servers.inspector.past_tables import find_table_at
from reactdb.servers.inspector.shown_changes import show_change, size_of_change
from reactdb.session import session_of
from reactdb.store.key_pages import find_changes
from reactdb.store.log import is_shown, read_low_water
from reactdb.store.snapshot import Snapshot
from reactdb.values import codec
from reactdb.values.collation import primary_key_bytes

__all__ = ["MOST_CHANGES", "read_document", "read_log", "read_newest"]

MOST_CHANGES: Final = 500
MOST_EXAMINED: Final = 200_000
"""Entries that one request examines: some 50 ms, because no document is read."""
MOST_BYTES: Final = 4 * 1024 * 1024
"""Of documents, in one answer. A single change may have more."""
PART: Final = 20
"""Changes that are in memory at once beside an answer."""


def kind_numbers(kind: str | None) -> list[int] | None:
    """The numbers of a kind of change; None for all.

    Raises:
        RequestRefused: 400, there is no such kind.
    """
    if kind is None:
        return None
    names = {**dict(enumerate(KINDS)), **CATALOGUE_KINDS}
    numbers = [number for number, name in names.items() if name == kind]
    if not numbers:
        raise bad(f"kind is one of {', '.join(names.values())}, not {kind[:40]!r}.")
    return numbers


def table_ids(snapshot: Snapshot, name: str | None) -> list[int] | None:
    """The numbers of all tables that have this name, or had it when they were dropped; None for all tables.

    Raises:
        TableNotFound: There was none.
    """
    if name is None:
        return None
    numbers = [info.id for info in snapshot.catalogue.by_id.values() if info.reference == name]
    if not numbers:
        raise TableNotFound(name)
    return numbers


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
        bottom = max(low, top - MOST_EXAMINED)
        seqs = find_changes(
            snapshot,
            bottom,
            top,
            limit,
            table_ids=table_ids(snapshot, table),
            kinds=kind_numbers(kind),
            origin=origin,
        )
        # Fewer than wanted: the whole range was examined.
        reached = seqs[-1] - 1 if len(seqs) == limit and seqs else bottom
        shown: list[dict[str, Any]] = []
        size = 0
        for seq in seqs:
            if size >= MOST_BYTES:
                reached = seq
                break
            change = snapshot.entry(seq)
            if change is not None and is_shown(change):
                size += size_of_change(change)
                shown.append(show_change(change))
    answer: dict[str, Any] = {"seq": head, "oldest": low, "changes": shown, "more": reached > low}
    if reached > low:
        answer["next_before"] = reached + 1
    return answer


def read_newest(snapshot: Snapshot, since: int, most: int) -> list[dict[str, Any]]:
    """At most so many of the newest changes past `since`, oldest first."""
    bottom = max(since, snapshot.seq - most)
    newest: list[Change] = []
    size = 0
    # In parts, because all of them together may have more documents than memory has room.
    for top in range(snapshot.seq, bottom, -PART):
        for change in reversed(snapshot.changes(max(bottom, top - PART), top)):
            if size < MOST_BYTES and is_shown(change):
                size += size_of_change(change)
                newest.append(change)
        if size >= MOST_BYTES:
            break
    return [show_change(change) for change in reversed(newest)]


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
