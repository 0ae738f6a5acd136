"""ControlFlow: the running flow among several in a thread: (thread, asyncio task, greenlet).

A transaction belongs to a flow, because a thread is not enough: all tasks of an event loop share a thread. Context
variables would not do, because a task begins with a copy of its creator's.

Flows that Python cannot tell apart count as the same flow: a suspended generator and its caller in the same task, a
callback of a nested loop of a window system and the code that it interrupts, two tasks of another library than
asyncio.

Rule of this file: it imports neither asyncio nor greenlet. A program that has not imported them has no tasks or greenlets.
"""

from __future__ import annotations

import sys
import threading
from threading import get_ident
from typing import Any
from weakref import ref

__all__ = ["ControlFlow"]


def find_running_task() -> Any:
    """The running asyncio task of this thread; None outside of a loop, and in a callback of a loop."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return None
    try:
        # This first: to look for the task where there is no loop takes ten times as long.
        loop = asyncio._get_running_loop()
        return None if loop is None else asyncio.current_task(loop)
    except AttributeError:
        # Another thread is importing it just now, so no loop runs.
        return None


def find_running_greenlet() -> Any:
    """The running greenlet of this thread; None for the thread's first greenlet."""
    greenlet = sys.modules.get("greenlet")
    if greenlet is None:
        return None
    try:
        current = greenlet.getcurrent()
    except AttributeError:
        return None
    return None if current.parent is None else current


class ControlFlow:
    """The flow that was running when this was made.

    Tasks and greenlets are referred to weakly: an unused one is collected, and that ends its `with` blocks.
    """

    __slots__ = ("_greenlet", "_name", "_task", "thread")

    def __init__(self) -> None:
        task, greenlet = find_running_task(), find_running_greenlet()
        self.thread = get_ident()
        self._task = None if task is None else ref(task)
        # Kept, because the name is also needed after the task has ended.
        self._name = None if task is None else task.get_name()
        self._greenlet = None if greenlet is None else ref(greenlet)

    def is_current(self) -> bool:
        """Whether it is the running flow."""
        if self.thread != get_ident():
            return False
        modules = sys.modules
        task = find_running_task() if "asyncio" in modules else None
        greenlet = find_running_greenlet() if "greenlet" in modules else None
        # A collected one is None, like no task, so this is checked first.
        if task is None or self._task is None:
            if task is not None or self._task is not None:
                return False
        elif self._task() is not task:
            return False
        if greenlet is None or self._greenlet is None:
            return greenlet is None and self._greenlet is None
        return self._greenlet() is greenlet

    @property
    def is_gone(self) -> bool:
        """Whether its task or greenlet was collected."""
        return (self._task is not None and self._task() is None) or (
            self._greenlet is not None and self._greenlet() is None
        )

    def is_same(self, other: ControlFlow) -> bool:
        """Whether both are the same flow."""
        # Python keeps one weak reference without a callback for each object.
        return self.thread == other.thread and self._task is other._task and self._greenlet is other._greenlet

    def in_words(self) -> str:
        """For a sentence: "task 'pay'", "thread 'MainThread'"."""
        words = []
        if self._greenlet is not None:
            greenlet = self._greenlet()
            words.append("a greenlet that has ended" if greenlet is None else f"greenlet {id(greenlet):#x}")
        if self._task is not None:
            words.append(f"task {self._name!r}")
        return " in ".join(words) or f"thread {self.thread_name()!r}"

    def thread_name(self) -> str:
        for thread in threading.enumerate():
            if thread.ident == self.thread:
                return thread.name
        return str(self.thread)
