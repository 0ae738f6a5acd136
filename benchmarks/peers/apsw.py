"""apsw: the other binding to SQLite, with a newer SQLite inside; the statements are those of raw. No log, no feeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw

from benchmarks.peers import Durability, Layout, Peer, Store
from benchmarks.peers.raw import RawStore


class Connection:
    """apsw's connection, as far as raw uses one."""

    def __init__(self, path: Path) -> None:
        self.connection = apsw.Connection(str(path))
        self.execute = self.connection.execute
        self.executemany = self.connection.executemany

    def close(self) -> None:
        self.connection.close()


class ApswStore(RawStore):
    file = "apsw.db"

    def connect(self, path: Path) -> Any:
        return Connection(path)


class Apsw(Peer):
    name = "apsw"
    imports = "import apsw, msgpack"
    imports_to_open = imports

    def open(self, folder: Path, layout: Layout, durability: Durability) -> Store:
        return ApswStore(folder, layout, durability)


PEERS: tuple[Peer, ...] = (Apsw(),)
