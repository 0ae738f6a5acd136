"""The events of a selection's feed, one line each.

If printing is slow, the feed catches up from the log, so nothing is lost.

Rule of this file: a selection in, events and text out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from reactdb.cli.changelines import differences, shown
from reactdb.json import to_json
from reactdb.values.codec import same

if TYPE_CHECKING:
    from reactdb.database import Database
    from reactdb.expression import Expression
    from reactdb.table import Selection

COLORS: Final = {"initial": "cyan", "add": "green", "change": "yellow", "remove": "red"}
DOCUMENTS: Final = ("old_val", "new_val")


def selected(
    database: Database,
    table: str,
    where: Expression | None,
    order: Expression | None,
    *,
    is_descending: bool,
    limit: int | None,
) -> Selection:
    """The selection that the options describe."""
    from reactdb import asc, desc

    found: Selection = database.table(table)
    if where is not None:
        found = found.filter(where)
    if order is not None:
        found = found.order_by(desc(order) if is_descending else asc(order))
    return found if limit is None else found.limit(limit)


def events(
    database: Database, selection: Selection, since: int | None, *, is_ordered: bool, is_following: bool
) -> Iterator[dict[str, Any]]:
    """The events of the selection's feed after `since`, without end if `is_following`, otherwise up to now. States are left out.

    If `since` is None, the events begin with the log. If following, they begin now, for an ordered selection with the present
    list first, because offsets mean nothing without the list.

    Raises:
        HistoryLost: Compaction has removed changes that are needed. FeedAborted: The table was dropped.
    """
    if since is None and not is_following:
        since = database.stats()["oldest"]
    feed = selection.changes(
        since=since,
        include_initial=since is None and is_ordered,
        include_offsets=is_ordered,
        include_states=True,
        include_types=True,
        include_seq=True,
        on_overflow="spill",
    )
    with feed.cursor() as cursor:
        for event in cursor:
            if "state" not in event:
                yield event
            elif event["state"] == "ready" and not is_following:
                return


def as_json(event: dict[str, Any]) -> dict[str, Any]:
    """An event as JSON values, documents as `reactdb.json` writes them."""
    return {name: to_json(value) if name in DOCUMENTS else value for name, value in event.items()}


def as_line(event: dict[str, Any], primary_key: str) -> str:
    """An event as a line for people: seq, type, place in the list, key, and the fields that differ."""
    old, new = event.get("old_val"), event.get("new_val")
    parts = [f"{event['seq']:>6}", click.style(f"{event['type']:<7}", fg=COLORS[event["type"]])]
    if "old_offset" in event or "new_offset" in event:
        parts.append(f"{place(event.get('old_offset'), event.get('new_offset')):<8}")
    keys = [document[primary_key] for document in (old, new) if document is not None]
    is_another = len(keys) == 2 and not same(*keys)
    parts.append(click.style(" -> ".join(map(shown, keys if is_another else keys[-1:])), bold=True))
    steps = "" if new is None else ", ".join(differences(None if is_another else old, new))
    return "  ".join([*parts, steps] if steps else parts)


def place(old: int | None, new: int | None) -> str:
    """The place in the list, counted from 0: `at 3` if the document came, went or stayed there, `3 -> 0` if it moved."""
    if old is None or new is None or old == new:
        return f"at {old if new is None else new}"
    return f"{old} -> {new}"
