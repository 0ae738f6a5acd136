"""Events: deltas as the plain dicts that RethinkDB's manual prints, with exactly the fields of the options.

    {"old_val": ..., "new_val": ...}          a change; None where the result had, or has, no such value
    {"new_val": ...}                          an initial value
    {"state": "initializing"}, {"state": "ready"}, {"state": "catching_up"}
    {"error": "Changefeed cache over array size limit, skipped 6 elements."}
    {"kind": "table_create", "table": ...}    a table or an index was made, renamed or dropped: see `CatalogueChange`

then, by options: `old_offset`, `new_offset`, `type`, `seq`, `commit`, `origin`, `meta`; `table` on feeds of all
tables and `group` on grouped ones. A feed of whole commits delivers these in lists.

Rule of this file: each event is a dict of its own; the values inside are shared and frozen.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Generic, TypedDict

from reactdb.change import CatalogueChange, Change
from reactdb.feeds.options import FeedOptions
from reactdb.feeds.views.base import AnyDelta, Delta, Initial
from reactdb.type_variables import Recorded

Event = dict[str, Any]
Render = Callable[[AnyDelta], "Event | None"]


class ChangeEvent(TypedDict, Generic[Recorded]):
    """The event of a feed, for type checkers: at run time it is a plain dict. `ChangeEvent[Todo]` has objects of a type.

    An event has only the keys that the options of `changes` ask for, and an initial value has no `old_val`; look for a key with
    `in` or `get` where that is not known.

    Attributes:
        old_val, new_val: The documents before and after; None where the result had, or has, none.
        type: "add", "remove", "change", "initial", "state" or "catalogue".
        old_offset, new_offset: Places in the list, from 0; None for no place.
        state: "initializing", "ready" or "catching_up"; such an event has nothing else but `type`.
        seq, commit: Positions in the log: of the change, and of the first change of its commit.
        origin: The name of the writer, or None.
        table: The name of the table, in a feed of the database.
        group: The group, in a grouped feed.
        error: How many events were dropped, in words; such an event has nothing else.
    """

    old_val: Recorded | None
    new_val: Recorded | None
    type: str
    old_offset: int | None
    new_offset: int | None
    state: str
    seq: int
    commit: int
    origin: str | None
    table: str
    group: Any
    error: str


def overflow_event(skipped: int) -> Event:
    return {"error": f"Changefeed cache over array size limit, skipped {skipped} elements."}


def state_event(name: str, options: FeedOptions) -> Event:
    return {"state": name, "type": "state"} if options.include_types else {"state": name}


def wrap_single(event: Event, options: FeedOptions) -> Any:
    """The delivered form of an event that belongs to no commit."""
    return [event] if options.batches else event


def make_renderer(options: FeedOptions, *, is_ordered: bool, is_of_all_tables: bool) -> Render:
    """The function that makes an event of a delta; it returns None for a delta that is not delivered."""
    return _renderer(
        options.include_offsets,
        options.include_types,
        (options.include_seq, options.include_commit, options.include_origin, options.include_meta),
        is_ordered,
        is_of_all_tables,
    )


@cache
def _renderer(
    has_offsets: bool,
    has_types: bool,
    has_source: tuple[bool, bool, bool, bool],
    is_ordered: bool,
    is_of_all_tables: bool,
) -> Render:
    """`has_source`: whether events have the seq, the commit, the origin and the metadata of their change."""
    has_seq, has_commit, has_origin, has_meta = has_source
    if not (has_offsets or has_types or any(has_source) or is_ordered or is_of_all_tables):
        return _plain

    def render(delta: AnyDelta) -> Event | None:
        event: Event = {}
        if type(delta) is CatalogueChange:
            event |= {"kind": delta.kind, **delta.catalogue}
            if has_types:
                event["type"] = "catalogue"
            if has_seq:
                event["seq"] = delta.seq
            return event
        if isinstance(delta, Delta):
            if delta.is_move and not has_offsets:
                return None
            if delta.group is not None:
                event["group"] = delta.group[0]
        change = delta if isinstance(delta, Change) else delta.change
        if is_of_all_tables:
            event["table"] = change.table
        old_val = event["old_val"] = delta.old_val
        new_val = event["new_val"] = delta.new_val
        if has_offsets:
            assert isinstance(delta, Delta)
            event["old_offset"] = delta.old_offset
            event["new_offset"] = delta.new_offset
        if has_types:
            # With offsets, a null may be in the list.
            old, new = (event["old_offset"], event["new_offset"]) if has_offsets else (old_val, new_val)
            event["type"] = "add" if old is None else "remove" if new is None else "change"
        if has_seq:
            event["seq"] = change.seq
        if has_commit:
            event["commit"] = change.commit
        if has_origin:
            event["origin"] = change.origin
        if has_meta:
            event["meta"] = change.meta
        return event

    return render


def _plain(delta: AnyDelta) -> Event | None:
    if type(delta) is Change:
        old, new = delta.documents()
        return {"old_val": old, "new_val": new}
    if type(delta) is Delta:
        if delta.is_move:
            return None
        if delta.group is not None:
            return {"group": delta.group[0], "old_val": delta.old_val, "new_val": delta.new_val}
    return {"old_val": delta.old_val, "new_val": delta.new_val}


def render_initial(initial: Initial, seq: int, options: FeedOptions) -> Event:
    """The event of an initial value; `seq` is the snapshot's."""
    event: Event = {}
    if initial.group is not None:
        event["group"] = initial.group[0]
    if initial.table is not None:
        event["table"] = initial.table
    event["new_val"] = initial.value
    if options.include_offsets:
        event["new_offset"] = initial.offset
    if options.include_types:
        event["type"] = "initial"
    if options.include_seq:
        event["seq"] = seq
    return event
