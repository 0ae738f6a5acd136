"""Handles: a commit leaves the database open for the next commit.

Every opening for writes adds an epoch, a row that stays in the file. A stream may commit once a second for months, in worker
processes that Spark reuses, so a handle stays open for a while after its use. That also saves the time of opening.

Rule of this file: a handle is used by one commit at a time, and is not used again after an error.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import reactdb
from reactdb.database import Database

# Batches of a busy stream follow each other within a second or two. A longer time would also keep the file open for longer when
# it is to be removed or replaced.
LINGERS_S = 5.0

_lock = threading.Lock()
_idle: dict[tuple[Any, ...], tuple[Database, threading.Timer]] = {}


@contextmanager
def open_lingering(path: str, **options: Any) -> Iterator[Database]:
    """A handle of `reactdb.connect` that stays open for `LINGERS_S` after its use."""
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
        # Two queries committed at the same time, so there are two handles; a single handle is enough.
        before[1].cancel()
        before[0].close()


def close(name: tuple[Any, ...]) -> None:
    """Close an idle handle."""
    with _lock:
        kept = _idle.pop(name, None)
    if kept is not None:
        kept[1].cancel()
        kept[0].close()


def close_all() -> None:
    for name in list(_idle):
        close(name)
