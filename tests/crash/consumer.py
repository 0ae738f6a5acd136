"""The consumer: follows a feed, and writes the events and its position to one file, so that it can resume after it was killed.

A line has an event and the token after it, in one write, so that the effect of an event and the position are never separate. (A
consumer that stores them separately would get the last event twice, and must handle that.)

Rule of this file: it judges nothing. `following.py` compares the lines with the log.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

from reactdb import HistoryLost, row
from reactdb.database import Database
from reactdb.feeds.feed import Feed

from .lanes import DOCS, HIGH

# What is followed: every table, and a condition on one.
FEEDS = ("all", "high")


def stamp(document: Any) -> int | None:
    """A document in a number; None for none."""
    if document is None:
        return None
    return zlib.crc32(json.dumps(document, sort_keys=True).encode())


def feed_of(db: Database, name: str, since: str) -> Feed:
    if name == "all":
        return db.changes(since=since, include_seq=True, include_catalogue=True)
    return db.table(DOCS).filter(row["score"] > HIGH).changes(since=since, include_seq=True)


def line_of(event: dict[str, Any], token: str | None) -> dict[str, Any]:
    return {
        "seq": event["seq"],
        "table": event.get("table"),
        "old": stamp(event.get("old_val")),
        "new": stamp(event.get("new_val")),
        "token": token,
    }


def read_lines(path: Path) -> list[dict[str, Any]]:
    """What was written in whole."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def follow(db: Database, name: str, folder: Path) -> None:
    """Go on where the file says, until the process dies."""
    path = folder / f"{name}.feed"
    lines = read_lines(path)
    # The last line may have been cut off.
    whole = path.read_bytes().rfind(b"\n") + 1 if path.exists() else 0
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    os.ftruncate(file, whole)
    os.lseek(file, 0, os.SEEK_END)

    def keep(line: dict[str, Any]) -> None:
        os.write(file, json.dumps(line).encode() + b"\n")

    token = lines[-1]["token"] if lines else None
    while True:
        if token is None:
            token = db.token
            keep({"begin": True, "token": token})
        try:
            _follow_from(db, name, token, keep)
        except HistoryLost:
            token = None
            keep({"lost": True, "token": None})


def _follow_from(db: Database, name: str, token: str, keep: Any) -> None:
    feed = feed_of(db, name, token)
    with feed.cursor() as cursor:
        while True:
            try:
                event = cursor.next(timeout=0.03)
            except TimeoutError:
                # It moves on also where nothing matches.
                if feed.token is not None and feed.token != token:
                    token = feed.token
                    keep({"token": token})
                continue
            token = feed.token
            keep(line_of(event, token))
