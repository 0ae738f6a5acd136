"""A server and a client of PyMongo for it, fresh for each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient

from reactdb.servers.mongodb import MongoDBServer, serve_in_thread


@pytest.fixture
def server(db: Any) -> Iterator[MongoDBServer]:
    """A server of `db`, on which fail points can be set."""
    with serve_in_thread(db, for_testing=True) as running:
        yield running


@pytest.fixture
def client(server: MongoDBServer) -> Iterator[MongoClient[dict[str, Any]]]:
    with MongoClient(server.uri) as made:
        yield made
