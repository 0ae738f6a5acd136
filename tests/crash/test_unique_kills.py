"""Processes with a unique index that are killed: the short form of `python -m tests.crash --unique-kills 1000`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.crash import unique

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it kills processes by signals")


@pytest.mark.slow
def test_a_value_belongs_to_one_document_whoever_is_killed(tmp_path: Path):
    assert [] == list(unique.run(tmp_path, seed=1, kills=30))
