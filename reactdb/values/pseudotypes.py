"""Pseudo-types: the objects of ReQL's JSON for values that JSON lacks. Every JSON of ours has them from here.

    TIME      {"$reql_type$": "TIME", "epoch_time": <seconds>, "timezone": "+00:00"}    a datetime
    BINARY    {"$reql_type$": "BINARY", "data": "<base64>"}                             bytes

The JSONs differ in the precision of the seconds, so the caller computes those.
"""

from __future__ import annotations

from base64 import b64encode
from datetime import datetime, timedelta
from typing import Any, Final

REQL: Final = "$reql_type$"


def time_object(moment: datetime, seconds: int | float) -> dict[str, Any]:
    return {REQL: "TIME", "epoch_time": seconds, "timezone": zone_text(moment)}


def binary_object(data: bytes | bytearray | memoryview) -> dict[str, Any]:
    return {REQL: "BINARY", "data": b64encode(data).decode("ascii")}


def zone_text(moment: datetime) -> str:
    """The offset from UTC as `+hh:mm`. Its seconds are cut off, so that no local time is after the year 9999."""
    minutes = int((moment.utcoffset() or timedelta()).total_seconds() / 60)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
