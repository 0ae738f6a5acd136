"""Tables of Delta, written by reactdb and read by delta-rs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from reactdb.lake.delta import DeltaTarget
from tests.lake.target_suite import (
    TargetSuite,
)

deltalake = pytest.importorskip("deltalake")


class TestDelta(TargetSuite):
    format = "delta"

    def make(self, folder: Path) -> DeltaTarget:
        return DeltaTarget(str(folder))

    def read(self, folder: Path) -> pa.Table:
        return deltalake.DeltaTable(str(folder)).to_pyarrow_table()

    def test_killed_runs_leave_whole_commits(
        self, killed_runs: Callable[[int], tuple[str, int, str]]
    ) -> None:
        self.check_kills(killed_runs)
