"""The line of the program that called the library: errors, warnings and hints name it, because the fix belongs there.

Rule of this file: it reads frames, and keeps none, because a frame keeps all the variables of its function.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import FrameType

__all__ = ["find_caller", "find_calling_line"]

_CONTEXTLIB = contextmanager.__code__.co_filename
"""A `with` block enters the library through this file."""


def find_caller() -> FrameType | None:
    """The frame of the program that called the library; None where nothing but the library is on the stack."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package != "reactdb" and frame.f_code.co_filename != _CONTEXTLIB:
            return frame
        frame = frame.f_back
    return None


def find_calling_line() -> tuple[str, int] | None:
    """The file and the line of `find_caller`."""
    frame = find_caller()
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)
