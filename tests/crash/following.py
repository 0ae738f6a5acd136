"""Following: checks that a consumer that was killed and resumed got exactly the events of one that was never killed.

Rule of this file: the log is the truth; the consumer's lines must agree with it, and so must a feed that now resumes from
the last of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reactdb import HistoryLost
from reactdb.database import Database

from .consumer import FEEDS, feed_of, line_of, read_lines
from .records import Entry, Memory

TIMEOUT_S = 60.0
# How long a feed that has told everything is listened to, to see that it tells no more.
QUIET_S = 0.003


def position(token: str) -> int:
    return int(token.rpartition(".")[2])


def expected_line(name: str, seq: int, entry: Entry) -> dict[str, Any] | None:
    """What the feed tells of a change; None for nothing."""
    if name == "all":
        return {"seq": seq, "table": entry.table, "old": entry.old, "new": entry.new}
    old = entry.old if entry.old_high else None
    new = entry.new if entry.new_high else None
    if old is None and new is None:
        return None
    return {"seq": seq, "table": None, "old": old, "new": new}


def check_following(db: Database, folder: Path, memory: Memory) -> Iterator[str]:
    """Losses, in words. `memory` knows the log as it is now, and what is gone from it."""
    for name in FEEDS:
        lines = read_lines(folder / f"{name}.feed")
        yield from _check_told(name, lines, memory)
        if lines and lines[-1]["token"] is not None:
            yield from _check_resumed(db, name, lines[-1]["token"], memory)


def _check_told(name: str, lines: list[dict[str, Any]], memory: Memory) -> Iterator[str]:
    at: int | None = None
    for line in lines:
        if "lost" in line:
            if at is None or at >= memory.low:
                yield f"feed {name}: HistoryLost at {at}, but the log can be read from {memory.low}"
            at = None
            continue
        here = position(line["token"])
        if here > memory.head:
            yield f"feed {name}: was told of {here}, but the log ends at {memory.head}"
            return
        if "begin" in line:
            at = here
            continue
        assert at is not None
        seq = line.get("seq")
        # A token of the same place may have another name: another process has begun to write since.
        if not (at <= here if seq is None else at < seq <= here):
            yield f"feed {name}: at {at}, was told of {seq} with the token of {here}"
            return
        # Where nothing matches, the token moves on: a promise that there is nothing to tell up to it.
        for between in range(at + 1, here + 1):
            entry = memory.entries.get(between)
            if between == seq:
                told = {part: line[part] for part in ("seq", "table", "old", "new")}
                if entry is not None and told != expected_line(name, between, entry):
                    yield f"feed {name}: was told {told}, but the log has {expected_line(name, between, entry)}"
                    return
            elif entry is not None and expected_line(name, between, entry) is not None:
                yield f"feed {name}: was never told of {between} ({entry.table} {entry.key})"
                return
            elif entry is None and name == "all":
                # Gone from the log before we saw it; but this feed passes over nothing.
                yield f"feed {name}: passed over {between}"
                return
        at = here


def _check_resumed(db: Database, name: str, token: str, memory: Memory) -> Iterator[str]:
    start = position(token)
    expected = [
        line
        for seq in range(start + 1, memory.head + 1)
        if (entry := memory.entries.get(seq)) is not None
        and (line := expected_line(name, seq, entry)) is not None
    ]
    told: list[dict[str, Any]] = []
    try:
        with feed_of(db, name, token).cursor() as cursor:
            try:
                while len(told) < len(expected):
                    told.append(_told(cursor.next(timeout=TIMEOUT_S)))
                while True:
                    told.append(_told(cursor.next(timeout=QUIET_S)))
            except TimeoutError:
                pass
    except HistoryLost:
        if start >= memory.low:
            yield f"feed {name}: cannot go on from {start}, but the log can be read from {memory.low}"
        return
    if start < memory.low:
        yield f"feed {name}: went on from {start}, but the log can be read only from {memory.low}"
    elif told != expected:
        place = next(
            (n for n, (a, b) in enumerate(zip(told, expected, strict=False)) if a != b),
            min(len(told), len(expected)),
        )
        yield (
            f"feed {name}: going on from {start}, told {told[place : place + 1]} in place {place} of {len(expected)},"
            f" where the log has {expected[place : place + 1]}"
        )


def _told(event: dict[str, Any]) -> dict[str, Any]:
    line = line_of(event, None)
    del line["token"]
    return line
