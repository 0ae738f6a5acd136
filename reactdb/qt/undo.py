"""undo_actions: the actions Undo and Redo of a window, for an undo stack.

A thread follows the stack and makes the steps, because an undo is a write, and may have to wait for another writer. Qt's own
QUndoStack is not used: the steps are commits, and the change log has them.

Rule of this file: an error ends no process. It becomes a sentence, and the stack goes on.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from reactdb.errors import Conflict, InvalidOption, ReactDBError, UsageError, format_value
from reactdb.logs import logger
from reactdb.qt.binding import QtCore, Signal, Slot, check_thread, load
from reactdb.qt.cell_edits import WAIT_S
from reactdb.qt.doorbell import Doorbell
from reactdb.qt.follower import OwnThread
from reactdb.threads import Threads
from reactdb.undo_stack import UndoStack

if TYPE_CHECKING:
    from PySide6 import QtGui
else:
    QtGui = load("QtGui")

State = tuple[bool, bool, str | None, str | None]
NOTHING: Final[State] = (False, False, None, None)


class UndoAction(QtGui.QAction):
    """One of the two actions of `undo_actions`."""

    failed = Signal(str)
    """The step was not made, and nothing was written. A sentence that says why."""


class StackWatch(QtCore.QObject):
    """Keeps the two actions as the stack is. A child of the first action, so that both have one life."""

    def __init__(
        self, stack: UndoStack, undo: UndoAction, redo: UndoAction, words: Sequence[str], skips: bool
    ) -> None:
        super().__init__(undo)
        self._undo, self._redo = undo, redo
        self._words = tuple(words)
        bell = Doorbell(self._show, self)
        self._steps = StackSteps(stack, bell, skips)
        undo.triggered.connect(self._on_undo)
        redo.triggered.connect(self._on_redo)
        # A method of an object that is no QObject: it is called although this one is being destroyed.
        undo.destroyed.connect(self._steps.close)
        redo.destroyed.connect(self._steps.close)
        self._steps.follow()
        self._show()

    @Slot()
    def _on_undo(self) -> None:
        self._move("undo")

    @Slot()
    def _on_redo(self) -> None:
        self._move("redo")

    def _move(self, direction: str) -> None:
        if self._steps.start(direction):
            self._show()
        else:
            # A slower step: no second one until its end.
            self._undo.setEnabled(False)
            self._redo.setEnabled(False)

    def _show(self) -> None:
        steps = self._steps
        if steps.is_closed:
            return
        can_undo, can_redo, undo_label, redo_label = steps.state
        for action, can, word, label in (
            (self._undo, can_undo, self._words[0], undo_label),
            (self._redo, can_redo, self._words[1], redo_label),
        ):
            action.setEnabled(can and not steps.is_busy)
            action.setText(f"{word} {label}" if can and label else word)
        for direction, sentence in steps.take_failures():
            (self._undo if direction == "undo" else self._redo).failed.emit(sentence)


class StackSteps:
    """The stack, followed and moved by a thread. The window's thread calls all methods but those that begin with `_`."""

    def __init__(self, stack: UndoStack, bell: Doorbell, skips: bool) -> None:
        self._stack = stack
        self._bell = bell
        self._skips = skips
        self._threads = Threads("reactdb: undo in Qt", 1)
        self._failures: deque[tuple[str, str]] = deque()
        self._end: Callable[[], None] | None = None
        self.state = NOTHING
        self.is_busy = False
        self.is_closed = False

    def follow(self) -> None:
        """Begin.

        Raises:
            DatabaseClosed.
        """
        self._end = self._stack.subscribe(self._look, scheduler=OwnThread(self._threads))  # type: ignore[arg-type]
        self.state = self._stack.state()

    def start(self, direction: str) -> bool:
        """Make a step. True: it is done, or has failed. False: it waits for another writer."""
        if self.is_busy or self.is_closed:
            return True
        self.is_busy = True
        done = threading.Event()
        if not self._threads.run(partial(self._move, direction, done)):
            self.is_busy = False
            return True
        return done.wait(WAIT_S)

    def take_failures(self) -> list[tuple[str, str]]:
        """The failures that nobody has been told of: (direction, sentence)."""
        failures = list(self._failures)
        for _ in failures:
            self._failures.popleft()
        return failures

    def close(self, *_: object) -> None:
        """Follow the stack no longer. A second call does nothing."""
        if self.is_closed:
            return
        self.is_closed = True
        self._bell.close()
        self._threads.run(self._finish)
        self._threads.stop()

    def _finish(self) -> None:
        if self._end is not None:
            self._end()

    def _look(self, _: object) -> None:
        self._read_state()
        self._bell.ring()

    def _read_state(self) -> None:
        try:
            self.state = self._stack.state()
        except ReactDBError:
            # The database was closed.
            self.state = NOTHING

    def _move(self, direction: str, done: threading.Event) -> None:
        try:
            getattr(self._stack, direction)(skip_conflicts=self._skips)
        except Conflict as conflict:
            self._failures.append((direction, f"{direction} is not possible: {_describe(conflict)}"))
        except ReactDBError as error:
            self._failures.append((direction, str(error)))
        except Exception as error:
            logger.exception("a step of an undo stack failed")
            self._failures.append((direction, str(error)))
        self._read_state()
        self.is_busy = False
        done.set()
        self._bell.ring()


def _describe(conflict: Conflict) -> str:
    count = len(conflict.documents)
    names = ", ".join(f"{one['table']}/{format_value(one['key'], 40)}" for one in conflict.documents[:3])
    more = f" and {count - 3} more" if count > 3 else ""
    return f"another writer has changed {names}{more} since; nothing was written"


def undo_actions(
    stack: UndoStack,
    parent: QtCore.QObject | None = None,
    *,
    texts: Sequence[str] = ("Undo", "Redo"),
    skip_conflicts: bool = False,
) -> tuple[UndoAction, UndoAction]:
    """The actions Undo and Redo for an undo stack, to add to a menu or a tool bar.

    They are enabled while the stack has a step, have the shortcuts of the system, and their texts name the step: "Undo Move
    the card" after a commit in `stack.group("Move the card")`. Only commits with the stack's origin are steps.

    Args:
        stack: From `db.undo_stack(origin=...)`.
        parent: The window. The actions end with it.
        texts: The two words, in the language of the program.
        skip_conflicts: Leave out documents that another writer has changed since. False: such a step is not made, and the
            signal `failed(str)` of the action says why.

    Returns:
        (undo, redo).

    Raises:
        UsageError: `stack` is no undo stack, there is no QApplication, or this is not its thread.
        DatabaseClosed.
    """
    check_thread("undo_actions")
    if not isinstance(stack, UndoStack):
        raise UsageError(f"undo_actions needs a stack, as of db.undo_stack(), not {format_value(stack)}")
    if isinstance(texts, str) or len(texts) != 2 or not all(isinstance(text, str) for text in texts):
        raise InvalidOption(f"texts are two texts, for undo and redo, not {format_value(texts)}")
    if not isinstance(skip_conflicts, bool):
        raise InvalidOption(f"skip_conflicts is True or False, not {format_value(skip_conflicts)}")
    undo, redo = UndoAction(texts[0], parent), UndoAction(texts[1], parent)
    undo.setShortcuts(QtGui.QKeySequence.StandardKey.Undo)
    redo.setShortcuts(QtGui.QKeySequence.StandardKey.Redo)
    undo.setEnabled(False)
    redo.setEnabled(False)
    StackWatch(stack, undo, redo, texts, skip_conflicts)
    return undo, redo
