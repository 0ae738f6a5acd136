"""Tables of Delta, written by reactdb and read by delta-rs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from reactdb.lake.delta import DeltaTarget
from tests.lake.target_suite import (
    TargetSuite,
)

deltalake = pytest.importorskip("deltalake")


class TestDelta(TargetSuite):
    ignores_case = True

    def make(self, folder: Path) -> DeltaTarget:
        return DeltaTarget(str(folder))

    def read(self, folder: Path) -> pa.Table:
        return deltalake.DeltaTable(str(folder)).to_pyarrow_table()
