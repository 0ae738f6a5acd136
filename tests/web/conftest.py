"""One server for all tests of a module: a program starts once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import reactdb
from tests.web.server import Program, serving


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    with serving(Program()) as running:
        yield running


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Any]:
    """In a file only: the tests of feeds have shown that memory makes no difference."""
    with reactdb.connect(tmp_path / "test.db", durability="soft") as database:
        yield database
