"""Ear: a subscriber that keeps what it hears. For tests that want to know what was told, in what order and on which thread.

Rule of this file: waiting is for an event and has a bound; nobody sleeps.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# Longer than anything here takes on a machine that is busy with other things.
PATIENCE_S = 20.0


class Ear:
    """An observer. Pass it to `subscribe` as it is.

    Attributes:
        events, errors: What was heard.
        completions: How many times it was told that nothing more will come.
        threads: The name of the thread that told each event.
    """

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.errors: list[Exception] = []
        self.completions = 0
        self.threads: list[str] = []
        self._condition = threading.Condition()

    def on_next(self, event: Any) -> None:
        with self._condition:
            self.events.append(event)
            self.threads.append(threading.current_thread().name)
            self._condition.notify_all()

    def on_error(self, error: Exception) -> None:
        with self._condition:
            self.errors.append(error)
            self._condition.notify_all()

    def on_completed(self) -> None:
        with self._condition:
            self.completions += 1
            self._condition.notify_all()

    def wait_for(self, count: int) -> list[Any]:
        """The first `count` events, as soon as they are there."""
        with self._condition:
            assert self._condition.wait_for(lambda: len(self.events) >= count, PATIENCE_S), self.events
            return self.events[:count]

    def wait_for_end(self) -> None:
        """Until it has been told an error or the end."""
        with self._condition:
            assert self._condition.wait_for(lambda: self.errors or self.completions, PATIENCE_S), self.events

    @property
    def new_ids(self) -> list[Any]:
        """The id of each event's new document; None where there is none."""
        return [event["new_val"] and event["new_val"]["id"] for event in self.events]


def run_python(program: str, *arguments: object, timeout_s: float = 60) -> str:
    """What a program prints, run in a process of its own. It must succeed, and complain of nothing."""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout


def changed(old_val: Any, new_val: Any) -> dict[str, Any]:
    """A change event with nothing extra."""
    return {"old_val": old_val, "new_val": new_val}
