"""Fail points: failures for tests, in a server started for testing.

    configureFailPoint: "failCommand", mode: {times: 1}, data: {failCommands: ["getMore"], errorCode: 91}

Rule of this file: whether a command fails, and how. An error has only the ordered labels.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

from reactdb.dialects.mongodb.errors import MongoError

__all__ = ["FailPoint", "FailPoints"]


class FailPoint:
    """One order."""

    def __init__(self, mode: Any, data: dict[str, Any]) -> None:
        """
        Raises:
            MongoError: There is no such mode.
        """
        self.data = data
        self.skips = 0
        self.times: int | None = None
        self.entered = 0
        if isinstance(mode, dict) and mode.keys() <= {"times", "skip"} and mode:
            self.skips = int(mode.get("skip", 0))
            self.times = int(mode["times"]) if "times" in mode else None
        elif mode == "off":
            self.times = 0
        elif mode != "alwaysOn":
            raise MongoError(2, f"unknown mode of a fail point: {mode!r}")

    def strikes(self, command: str | None, app_name: str) -> bool:
        """Whether it strikes this command; counts it."""
        commands = self.data.get("failCommands")
        # A command may be named in other spellings: `ismaster`.
        if command is not None and (
            not isinstance(commands, list) or command.lower() not in (str(name).lower() for name in commands)
        ):
            return False
        if self.data.get("appName", app_name) != app_name or self.times == 0:
            return False
        if self.skips > 0:
            self.skips -= 1
            return False
        if self.times is not None:
            self.times -= 1
        self.entered += 1
        return True


class FailPoints:
    """The orders by the name of the fail point. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._points: dict[str, FailPoint] = {}

    def set(self, name: str, mode: Any, data: dict[str, Any]) -> int:
        """Replace an order. Returns: how often the former order was applied."""
        point = FailPoint(mode, data)
        with self._lock:
            before = self._points.pop(name, None)
            if point.times != 0:
                self._points[name] = point
            return 0 if before is None else before.entered

    @property
    def are_set(self) -> bool:
        """Whether there is any."""
        return bool(self._points)

    def find_order(self, name: str, command: str | None, app_name: str) -> dict[str, Any] | None:
        """The fail point's order for this command, or None."""
        if not self._points:
            return None
        with self._lock:
            point = self._points.get(name)
            return point.data if point is not None and point.strikes(command, app_name) else None
