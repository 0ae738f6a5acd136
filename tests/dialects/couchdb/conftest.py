"""A database in memory, as CouchDB's dialect sees it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import reactdb
from reactdb.database import Database
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.couchdb.database import CouchDatabase


@pytest.fixture
def db() -> Iterator[Database]:
    with reactdb.connect(":memory:") as db:
        yield db


@pytest.fixture
def couch(db: Database) -> Couch:
    return Couch(db)


@pytest.fixture
def notes(couch: Couch) -> CouchDatabase:
    return couch.create("notes")
