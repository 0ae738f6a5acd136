"""The thread of a window for tests: it runs the event loop until something is so, and never sleeps.

A process can load one binding only. Tests in this process use PySide6; `tests/qt/test_bindings.py` runs them again with PyQt6.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from reactdb.qt.binding import QtCore, load

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

QtWidgets: Any = load("QtWidgets")
QtTest: Any = load("QtTest")
FATAL = QtTest.QAbstractItemModelTester.FailureReportingMode.Fatal
MOST_S = 60.0


def application() -> Any:
    return QtWidgets.QApplication.instance() or QtWidgets.QApplication([])


def run_until(is_so: Callable[[], bool]) -> None:
    """Run the event loop until it is so, at most a minute."""
    end = time.monotonic() + MOST_S
    while not is_so():
        assert time.monotonic() < end, "it did not happen within a minute"
        QtCore.QCoreApplication.processEvents(QtCore.QEventLoop.ProcessEventsFlag.WaitForMoreEvents, 20)


def check(model: Any) -> Any:
    """A checker of the model, which ends the process at a wrong step. Keep it."""
    return QtTest.QAbstractItemModelTester(model, FATAL)


def documents(model: Any) -> list[Any]:
    return [model.document(row) for row in range(model.rowCount())]


class StepCounter:
    """What the model tells Qt, in words: `inserted 3 3`."""

    def __init__(self, model: Any) -> None:
        self.steps: list[str] = []
        add = self.steps.append
        model.rowsInserted.connect(lambda _, first, last: add(f"inserted {first} {last}"))
        model.rowsRemoved.connect(lambda _, first, last: add(f"removed {first} {last}"))
        model.rowsMoved.connect(lambda _, first, last, to, row: add(f"moved {first} before {row}"))
        model.dataChanged.connect(
            lambda a, b, roles: add(f"changed {a.row()} {b.row()} columns {a.column()} {b.column()}")
        )
        model.layoutChanged.connect(lambda *_: add("rearranged"))
        model.modelReset.connect(lambda: add("reset"))
