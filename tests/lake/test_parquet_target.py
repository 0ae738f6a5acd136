"""Folders of Parquet that hold one state, with the tests of all targets."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reactdb.lake import data_files
from reactdb.lake.parquet import ParquetTarget
from tests.lake.target_suite import TargetSuite, batches_of, keys_of, note, table_of


class TestParquet(TargetSuite):
    format = "parquet"

    def make(self, folder: Path) -> ParquetTarget:
        return ParquetTarget(str(folder), "current")

    def read(self, folder: Path) -> pa.Table:
        return pq.read_table(folder / "latest")

    def test_a_merge_holds_one_group_of_rows_at_a_time(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The rows of a group may be large, so those of many groups would be too much."""
        monkeypatch.setattr(data_files, "ROW_GROUP_BYTES", 10_000)
        schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
        target = self.make(tmp_path / "t")
        with target.lock():
            target.state({})
            rows = [{"id": number, "text": "x" * 2_000} for number in range(60)]
            target.create(schema, (batch for row in rows for batch in batches_of([row], schema)), note(1))
            target.merge(table_of([{"id": 0, "text": "new"}], schema), keys_of([1]), ["id"], note(2))

            assert 59 == sum(map(len, target.scan()))
            assert 12 >= max(map(len, target.scan()))
