"""Tables of Iceberg, written by reactdb and read by pyiceberg."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reactdb.lake.iceberg import IcebergTarget
from tests.lake.target_suite import TargetSuite

pytest.importorskip("pyiceberg")


class TestIceberg(TargetSuite):
    format = "iceberg"

    def make(self, folder: Path) -> IcebergTarget:
        return IcebergTarget(str(folder), "t")

    def read(self, folder: Path) -> pa.Table:
        """The files that pyiceberg lists, read by Arrow: pyiceberg 0.12 itself reads null lists as empty ones."""
        from pyiceberg.catalog.sql import SqlCatalog

        catalogue = SqlCatalog("reactdb", uri=f"sqlite:///{folder}/catalog.db")
        try:
            table = catalogue.load_table(("reactdb", "t"))
            paths = [task.file.file_path for task in table.scan().plan_files()]
            empty = table.schema().as_arrow().empty_table()
            tables = [pq.read_table(path) for path in paths]
        finally:
            catalogue.close()
        return pa.concat_tables(tables, promote_options="default") if tables else empty

    def test_killed_runs_leave_whole_commits(
        self, killed_runs: Callable[[int], tuple[str, int, str]]
    ) -> None:
        self.check_kills(killed_runs)
