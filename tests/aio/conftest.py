"""Fixtures of the awaited database. `place` runs a test on memory and on a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(params=["memory", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Where to open a database."""
    return ":memory:" if request.param == "memory" else tmp_path / "a.db"
