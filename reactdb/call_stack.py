"""The line of the program that called the library: errors, warnings and hints name it, because the fix belongs there.

Rule of this file: it reads frames, and keeps none, because a frame keeps all the variables of its function.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["called_from", "find_caller", "find_calling_line"]

_CONTEXTLIB = contextmanager.__code__.co_filename
"""A `with` block enters the library through this file."""


_of_thread = threading.local()


@contextmanager
def called_from(line: tuple[str, int] | None) -> Iterator[None]:
    """In this block, a thread of the library makes a call for a line of the program in another thread."""
    _of_thread.line = line
    _of_thread.is_set = True
    try:
        yield
    finally:
        _of_thread.is_set = False


def find_caller() -> FrameType | None:
    """The frame of the program that called the library; None where nothing but the library is on the stack, and in a thread
    of the library."""
    if getattr(_of_thread, "is_set", False):
        return None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package != "reactdb" and frame.f_code.co_filename != _CONTEXTLIB:
            return frame
        frame = frame.f_back
    return None


def find_calling_line() -> tuple[str, int] | None:
    """The file and the line of `find_caller`, or of the call for which a thread of the library works."""
    if getattr(_of_thread, "is_set", False):
        return _of_thread.line  # type: ignore[no-any-return]
    frame = find_caller()
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)
