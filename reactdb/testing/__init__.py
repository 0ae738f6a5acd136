"""Testing code that uses reactdb: a recorder of feeds, virtual time, RethinkDB's driver without a server, a pytest plugin.

    recorder     Recorder: keeps the events of a feed, without sleeping
    clock        VirtualClock: a scheduler whose time a test advances
    rethinkdb    rethinkdb_connection(db), rethinkdb_server(db)
    plugin       the fixtures `reactdb_...` for pytest

Rule of this folder: importing it imports neither pytest, nor a driver, nor asyncio. Functions import them when they need them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reactdb.testing.clock import VirtualClock
    from reactdb.testing.recorder import Recorder
    from reactdb.testing.rethinkdb import rethinkdb_connection, rethinkdb_server

__all__ = ["Recorder", "VirtualClock", "rethinkdb_connection", "rethinkdb_server"]

_HOMES = {
    "Recorder": "reactdb.testing.recorder",
    "VirtualClock": "reactdb.testing.clock",
    "rethinkdb_connection": "reactdb.testing.rethinkdb",
    "rethinkdb_server": "reactdb.testing.rethinkdb",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)
