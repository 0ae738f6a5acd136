"""Tables of Iceberg, written by reactdb and read by pyiceberg."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from reactdb.lake.iceberg import IcebergTarget
from tests.lake.answers import read_iceberg
from tests.lake.target_suite import TargetSuite

pytest.importorskip("pyiceberg")


class TestIceberg(TargetSuite):
    format = "iceberg"

    def make(self, folder: Path) -> IcebergTarget:
        return IcebergTarget(str(folder), "t")

    def read(self, folder: Path) -> pa.Table:
        return read_iceberg(str(folder), "t")

    @pytest.mark.slow
    @pytest.mark.timeout(1_200)
    def test_killed_runs_leave_whole_commits(
        self, killed_runs: Callable[[int], tuple[str, int, str]]
    ) -> None:
        self.check_kills(killed_runs)
