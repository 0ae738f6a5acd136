"""Processes with blobs that are killed, in the short form; `python -m tests.crash --blob-kills 1000` is the long one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.crash import attachments

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it kills processes by signals")


@pytest.mark.slow
def test_blobs_and_documents_agree_whoever_is_killed(tmp_path: Path):
    assert [] == list(attachments.run(tmp_path, seed=1, kills=30))
