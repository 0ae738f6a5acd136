"""Handles: a database that one commit leaves open for the next.

Every process, and every opening, that writes begins an epoch of the file: a row that stays. A stream commits once a second and
for months, in a worker process that Spark uses again, so the handle stays open for a while instead; which also saves opening it.

Rule of this file: a handle is used by one commit at a time, and none that has failed is used again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import reactdb
from reactdb.database import Database

# Batches of a stream that has something to do follow each other within a second or two. Longer, and whoever wants to remove or
# replace the file would be told for longer that it is open.
LINGERS_S = 5.0

_lock = threading.Lock()
_idle: dict[tuple[Any, ...], tuple[Database, threading.Timer]] = {}


@contextmanager
def lingering(path: str, **options: Any) -> Iterator[Database]:
    """A handle as `reactdb.connect` gives it, which stays open for `LINGERS_S` after its use."""
    name = (path, *sorted(options.items()))
    with _lock:
        kept = _idle.pop(name, None)
    if kept is None:
        db = reactdb.connect(path, **options)
    else:
        db, timer = kept
        timer.cancel()
    try:
        yield db
    except BaseException:
        db.close()
        raise
    timer = threading.Timer(LINGERS_S, close, [name])
    timer.daemon = True
    with _lock:
        before = _idle.pop(name, None)
        _idle[name] = db, timer
    timer.start()
    if before is not None:
        # Two commits at once, of two queries.
        before[1].cancel()
        before[0].close()


def close(name: tuple[Any, ...]) -> None:
    """Close a handle that nobody has asked for since."""
    with _lock:
        kept = _idle.pop(name, None)
    if kept is not None:
        kept[1].cancel()
        kept[0].close()


def close_all() -> None:
    for name in list(_idle):
        close(name)
