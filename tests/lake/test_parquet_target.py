"""Folders of Parquet that hold one state, with the tests of all targets."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from reactdb.lake.parquet import ParquetTarget
from tests.lake.target_suite import TargetSuite


class TestParquet(TargetSuite):
    format = "parquet"

    def make(self, folder: Path) -> ParquetTarget:
        return ParquetTarget(str(folder), "current")

    def read(self, folder: Path) -> pa.Table:
        return pq.read_table(folder / "latest")
