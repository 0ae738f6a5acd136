"""Replica: a query's result, reconstructed from the events of a feed alone.

    unordered result     a bag: take out one `old_val`, put in one `new_val`
    result with offsets  a list: delete at `old_offset`, then insert at `new_offset`

It checks everything: a value that is taken out must be there, and an event without a change is an error.

A null result counts as no result, except in a list, where it has a place.

Rule of this file: it knows only events and values. It uses no code of feeds, not even to compare.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from reactdb.values import collation

Event = dict[str, Any]
Entry = tuple[Hashable, Hashable]
STATES = ("initializing", "catching_up", "ready")


def exactly(value: Any) -> Hashable:
    """A key that is equal for values that are stored in the same way: 0, 0.0, -0.0 and False differ, and NaN equals itself."""
    if isinstance(value, dict):
        return ("object", frozenset((key, exactly(part)) for key, part in value.items()))
    if isinstance(value, (list, tuple)):
        return ("array", tuple(exactly(part) for part in value))
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else struct.pack(">d", value))
    return (type(value).__name__, value)


def roughly(value: Any) -> Hashable:
    """A key that is equal for values with the same sort key: 0 and 0.0 are one group."""
    return None if value is None else collation.key_bytes(value)


class Replica:
    """See the head of this file.

    Attributes:
        entries: The result as (name, value) in canonical form; the order matters for lists only. The name is the group or
            the table that the event names, if any.
    """

    def __init__(
        self,
        entries: Iterable[Entry] = (),
        *,
        by_offset: bool = False,
        name_of: Callable[[Any], Hashable] = exactly,
        value_of: Callable[[Any], Hashable] = exactly,
    ) -> None:
        self.by_offset = by_offset
        self.name_of = name_of
        self.value_of = value_of
        self.entries: list[Entry] = self._seen(entries)

    def entry(self, event: Event, value: Any) -> Entry:
        return (self.name_of(event.get("group", event.get("table"))), self.value_of(value))

    def _seen(self, entries: Iterable[Entry]) -> list[Entry]:
        null = self.value_of(None)
        return [entry for entry in entries if self.by_offset or entry[1] != null]

    def apply(self, event: Event) -> None:
        """Apply an event: a change or an initial value. States change nothing."""
        assert "error" not in event, event
        if "state" in event:
            return
        old_val, new_val = event.get("old_val"), event.get("new_val")
        if "old_val" in event:
            assert not says_nothing(event), f"an event that says nothing: {event}"
        if self.by_offset:
            self._apply_by_offset(event, old_val, new_val)
            return
        if old_val is not None:
            gone = self.entry(event, old_val)
            assert gone in self.entries, f"{event} takes out what is not there"
            self.entries.remove(gone)
        if new_val is not None:
            self.entries.append(self.entry(event, new_val))

    def _apply_by_offset(self, event: Event, old_val: Any, new_val: Any) -> None:
        old_offset, new_offset = event.get("old_offset"), event.get("new_offset")
        assert old_val is None or old_offset is not None, event
        assert new_val is None or new_offset is not None, event
        if old_offset is not None:
            assert 0 <= old_offset < len(self.entries), f"{event} deletes behind the end"
            assert self.entries[old_offset] == self.entry(event, old_val), f"{event} deletes something else"
            del self.entries[old_offset]
        if new_offset is not None:
            assert 0 <= new_offset <= len(self.entries), f"{event} inserts behind the end"
            self.entries.insert(new_offset, self.entry(event, new_val))

    def assert_equals(self, expected: Iterable[Entry], context: object = "") -> None:
        wanted = self._seen(expected)
        if self.by_offset:
            assert wanted == self.entries, f"{context}\nexpected {wanted}\n  actual {self.entries}"
        else:
            more, less = Counter(self.entries), Counter(wanted)
            assert less == more, f"{context}\n missing {dict(less - more)}\ntoo much {dict(more - less)}"


def says_nothing(event: Event) -> bool:
    """Whether a change event contains no change."""
    return exactly(event["old_val"]) == exactly(event["new_val"]) and event.get("old_offset") == event.get(
        "new_offset"
    )


class Grammar:
    """The grammar of events: their form and order for the options of the feed."""

    def __init__(self, options: dict[str, Any], extra: tuple[str, ...] = ()) -> None:
        self.options = options
        self.extra = set(extra)
        self.seq = 0
        self._next = self._order()
        self._expected = next(self._next)

    def _asked(self, name: str) -> bool:
        return bool(self.options.get(name, False))

    def _order(self) -> Iterator[str]:
        """The phases: before anything, among the initial values, ready."""
        if self._asked("include_states") and self._asked("include_initial"):
            yield "initializing"
        yield "initial" if self._asked("include_initial") else "ready"
        while True:
            yield "live"

    def check(self, event: Event) -> None:
        """Raise AssertionError if the event has a wrong form, or must not come now."""
        assert isinstance(event, dict)
        if "state" in event:
            self._check_state(event)
            return
        if "error" in event:
            assert {"error"} == set(event)
            return
        fields = self.extra | {"new_val"}
        if self._asked("include_seq"):
            fields |= {"seq"}
        if self._asked("include_types"):
            fields |= {"type"}
        if self._asked("include_offsets"):
            fields |= {"new_offset"}
        is_initial = "old_val" not in event
        if is_initial:
            assert self._expected == "initial", f"an initial value now? {event}"
        else:
            if self._expected == "initial" and not self._asked("include_states"):
                self._expected = "live"
            assert self._expected == "live" or not self._asked("include_states"), f"a change now? {event}"
            fields |= {"old_val"} | ({"old_offset"} if self._asked("include_offsets") else set())
        assert fields == set(event), f"expected {sorted(fields)}, got {sorted(event)}"
        if self._asked("include_types"):
            assert self._type(event, is_initial) == event["type"], event
        if self._asked("include_seq") and self.options.get("squash", False) is False:
            assert event["seq"] >= self.seq, f"{event} comes after seq {self.seq}"
            self.seq = event["seq"]

    def _type(self, event: Event, is_initial: bool) -> str:
        if is_initial:
            return "initial"
        old, new = ("old_offset", "new_offset") if self._asked("include_offsets") else ("old_val", "new_val")
        return "add" if event[old] is None else "remove" if event[new] is None else "change"

    def _check_state(self, event: Event) -> None:
        assert self._asked("include_states"), event
        assert {"state", "type"} == set(event) if self._asked("include_types") else {"state"} == set(event)
        name = event["state"]
        assert name in STATES
        if name == "initializing":
            assert self._expected == "initializing"
            self._expected = next(self._next)
        elif name == "catching_up":
            self._expected = "live"
        else:
            self._expected = "live"
