"""Processes with CouchDB's revisions that are killed: the short form of `python -m tests.crash --tree-kills 1000`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.crash import trees

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it kills processes by signals")


@pytest.mark.slow
def test_trees_are_whole_whoever_is_killed(tmp_path: Path):
    assert [] == list(trees.run(tmp_path, seed=1, kills=30))
