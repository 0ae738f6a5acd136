"""Tasks: what runs over a file in this process, as `_active_tasks` tells it: compactions and synchronisations.

    with running(session, task): ...        `task()` describes it, as often as somebody asks

Rule of this file: nothing is kept of what has ended.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final
from weakref import WeakKeyDictionary

from reactdb.session import Session
from reactdb.store.engine import Engine

NODE: Final = "nonode@nohost"
"""The name that CouchDB has for itself where it was given none."""

Task = Callable[[], dict[str, Any]]

_lock: Final = Lock()
_running: Final[WeakKeyDictionary[Engine, dict[object, Task]]] = WeakKeyDictionary()


@contextmanager
def running(session: Session, task: Task) -> Iterator[None]:
    """Have a task listed until the block ends. `task` gives its members, besides those that all have."""
    began = int(time.time())
    pid = f"<0.{os.getpid()}.0>"

    def told() -> dict[str, Any]:
        return {"node": NODE, "pid": pid, "started_on": began, "updated_on": int(time.time()), **task()}

    place = object()
    with _lock:
        _running.setdefault(session.engine, {})[place] = told
    try:
        yield
    finally:
        with _lock:
            del _running[session.engine][place]


def active_tasks(session: Session) -> list[dict[str, Any]]:
    """What runs over this file now, the oldest first."""
    with _lock:
        found = list(_running.get(session.engine, {}).values())
    return [task() for task in found]
