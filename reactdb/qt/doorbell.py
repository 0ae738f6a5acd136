"""Doorbell: how other threads call the thread of the window.

A signal of an object that lives in the window's thread, queued. Only threads that Python has made emit it: since PySide 6.8,
signals from threads of C++ can crash (PYSIDE-3124). However often it rings, the window is called once until it answers.

Rule of this file: after `close` nothing is emitted, and nothing is called.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from weakref import WeakMethod

from reactdb.logs import logger
from reactdb.qt.binding import QtCore, Signal, Slot


class Doorbell(QtCore.QObject):
    """See the head of this file."""

    _rang = Signal()

    def __init__(self, answer: Callable[[], object], parent: QtCore.QObject) -> None:
        """`answer`: a method, called in the thread of the parent. The bell does not keep its object."""
        super().__init__(parent)
        self._answer = WeakMethod(answer)
        self._lock = threading.Lock()
        self._is_ringing = False
        self._is_closed = False
        self._rang.connect(self._on_rang, QtCore.Qt.ConnectionType.QueuedConnection)

    def ring(self) -> None:
        """Any thread."""
        # Under the lock, so that the object of Qt's is there while it emits: `close` comes before its end.
        with self._lock:
            if self._is_closed or self._is_ringing:
                return
            self._is_ringing = True
            self._rang.emit()

    @Slot()
    def _on_rang(self) -> None:
        with self._lock:
            self._is_ringing = False
            answer = None if self._is_closed else self._answer()
        if answer is None:
            return
        try:
            answer()
        except Exception:
            # PyQt ends the process at an exception that leaves a slot.
            logger.exception("a model of Qt could not show a change")

    def close(self) -> None:
        """Any thread; a second call does nothing."""
        with self._lock:
            self._is_closed = True
