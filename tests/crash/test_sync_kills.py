"""Synchronisations that are killed: the short form of `python -m tests.crash --sync-kills 200`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("httpx")

from tests.crash import syncs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it kills processes by signals")


@pytest.mark.slow
def test_one_that_is_killed_goes_on_from_its_checkpoint_and_ends_equal(tmp_path: Path):
    assert [] == list(syncs.run(tmp_path, seed=1, kills=8))
