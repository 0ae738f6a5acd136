"""Tasks: running compactions and synchronisations of a file in this process, as in `_active_tasks`.

    with running(session, task): ...        `task()` describes it, for every request

Rule of this file: an ended task leaves nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final
from weakref import WeakKeyDictionary

from reactdb.clock import time_ns
from reactdb.session import Session
from reactdb.store.engine import Engine

NODE: Final = "nonode@nohost"
"""CouchDB's default name for a node."""

Task = Callable[[], dict[str, Any]]

_lock: Final = Lock()
_running: Final[WeakKeyDictionary[Engine, dict[object, Task]]] = WeakKeyDictionary()


@contextmanager
def list_task(session: Session, task: Task) -> Iterator[None]:
    """List a task until the block ends. `task` returns its members, beside the common ones."""
    began = time_ns() // 1_000_000_000
    pid = f"<0.{os.getpid()}.0>"

    def told() -> dict[str, Any]:
        return {
            "node": NODE,
            "pid": pid,
            "started_on": began,
            "updated_on": time_ns() // 1_000_000_000,
            **task(),
        }

    place = object()
    with _lock:
        _running.setdefault(session.engine, {})[place] = told
    try:
        yield
    finally:
        with _lock:
            del _running[session.engine][place]


def active_tasks(session: Session) -> list[dict[str, Any]]:
    """The running tasks of this file, the oldest first."""
    with _lock:
        tasks = list(_running.get(session.engine, {}).values())
    return [task() for task in tasks]
