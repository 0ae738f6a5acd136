"""A database in memory with a table `games`, and RethinkDB's driver on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from reactdb.testing import rethinkdb_connection


@pytest.fixture
def memory(reactdb_memory: Any) -> Any:
    reactdb_memory.table_create("games")
    return reactdb_memory


@pytest.fixture
def run(memory: Any) -> Iterator[Callable[..., Any]]:
    """Carries out a query of the driver. What comes as a cursor is read to its end."""
    with rethinkdb_connection(memory) as connection:

        def run(query: Any, **options: Any) -> Any:
            found = query.run(connection, **options)
            return list(found) if hasattr(found, "next") else found

        yield run
