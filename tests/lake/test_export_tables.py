"""The law of the export, for tables of Delta and Iceberg: see `test_export_machine`."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.lake.test_export_machine import ExportMachine, MixedKeys

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")


class DeltaMachine(ExportMachine):
    format = "delta"


class DeltaMixedKeys(MixedKeys):
    format = "delta"


class IcebergMachine(ExportMachine):
    format = "iceberg"


class IcebergMixedKeys(MixedKeys):
    format = "iceberg"


few = settings(max_examples=8, stateful_step_count=8, deadline=None)
TestDelta = DeltaMachine.TestCase
TestDelta.settings = few
TestDeltaMixedKeys = DeltaMixedKeys.TestCase
TestDeltaMixedKeys.settings = few
TestIceberg = pytest.mark.slow(IcebergMachine.TestCase)
TestIceberg.settings = few
TestIcebergMixedKeys = pytest.mark.slow(IcebergMixedKeys.TestCase)
TestIcebergMixedKeys.settings = few
