"""Records: the reports of the processes, and the earlier state of the file.

Rule of this file: it stores records and judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .consumer import stamp
from .lanes import DOCS, HIGH, Holding, Step

ADDS = ("put", "del", "add")


@dataclass
class Op:
    """One announced write, or piece of upkeep.

    Attributes:
        state: "open" until it is acknowledged ("done") or refused ("failed").
        begun, ended: On the machine's monotonic clock, in nanoseconds.
        seq: Of its last change, where the process knew it.
    """

    name: str
    kind: str
    lane: str | None = None
    steps: list[Step] = field(default_factory=list)
    is_unordered: bool = False
    begun: int | None = None
    ended: int | None = None
    seq: int | None = None
    keep: int | None = None
    oldest: int | None = None
    state: str = "open"

    @property
    def changes(self) -> list[Step]:
        """The steps that are in the log."""
        return [step for step in self.steps if step[0] in ADDS]


class Life:
    """What one process told before it died."""

    def __init__(self, retention: int | str | None) -> None:
        self.retention = retention
        self.ops: dict[str, Op] = {}
        self.errors: list[str] = []
        self.is_speaking = False
        self.opened = 0
        self.is_opening = False

    def take(self, message: dict[str, Any]) -> None:
        self.is_speaking = True
        if "hello" in message:
            return
        if "opening" in message:
            self.is_opening = True
        elif "opened" in message:
            self.opened += 1
        elif "error" in message:
            self.errors.append(message["error"])
        elif "failed" in message:
            self.ops[message["failed"]].state = "failed"
        elif "done" in message:
            op = self.ops[message["done"]]
            op.state = "done"
            op.seq, op.ended = message["seq"], message.get("ended")
            op.oldest = message.get("oldest")
        else:
            self.ops[message["op"]] = Op(
                message["op"],
                message["kind"],
                message.get("lane"),
                message.get("steps", []),
                message.get("unordered", False),
                message.get("begun"),
                keep=message.get("keep"),
            )

    @property
    def moment(self) -> str:
        """What the process was doing when it died, in a word or two; of several threads, the rarest thing."""
        if not self.opened:
            return "open"
        kinds = {op.kind for op in self.ops.values() if op.state == "open"}
        return next((kind for kind in MOMENTS if kind in kinds), "between")


# From the rarest to the most frequent.
MOMENTS = (
    "found",
    "vacuum",
    "compact",
    "checkpoint",
    "close",
    "catalogue_transaction",
    "catalogue",
    "rollback",
    "duplicate",
    "bulk_write",
    "transfer",
    "transaction",
    "single",
)


class Entry(NamedTuple):
    """A log entry, as far as it must never change."""

    table: str
    table_id: int
    key: str
    kind: str
    commit: int
    old: int | None
    new: int | None
    # Whether the documents pass the condition of the feed `high`.
    old_high: bool
    new_high: bool
    meta: bytes | None
    prev: int | None

    @classmethod
    def of(cls, change: Any) -> Entry:
        return cls(
            change.table,
            change.table_id,
            change.key,
            change.kind,
            change.commit,
            stamp(change.old_val),
            stamp(change.new_val),
            is_high(change.table, change.old_val),
            is_high(change.table, change.new_val),
            change.meta,
            change.prev,
        )


def is_high(table: str, document: Any) -> bool:
    return table == DOCS and document is not None and document["score"] > HIGH


@dataclass
class Memory:
    """What is known of a file from the last look at it.

    Attributes:
        lanes: What each lane has.
        totals: The numbers that all lanes add to, by (table, key).
        documents: By the number of their table, then by key.
        entries: Every log entry that was ever seen, by seq.
        places: Whose each seq is, as far as writes were acknowledged with it.
    """

    lanes: dict[str, Holding] = field(default_factory=dict)
    totals: dict[tuple[str, str], int] = field(default_factory=dict)
    documents: dict[int, dict[str, Any]] = field(default_factory=dict)
    entries: dict[int, Entry] = field(default_factory=dict)
    places: dict[int, str] = field(default_factory=dict)
    head: int = 0
    low: int = 0
    is_founded: bool = False


def by_lane(lives: list[Life]) -> Iterator[tuple[str, list[Op]]]:
    """The writes of each lane, in order. A lane lives in one process only between two looks at the file."""
    found: dict[str, list[Op]] = {}
    for life in lives:
        for op in life.ops.values():
            if op.lane is not None:
                found.setdefault(op.lane, []).append(op)
    yield from found.items()
