"""The short form of `python -m tests.spark_kills`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.spark_kills.__main__ import problems
from tests.spark_kills.kills import run


@pytest.mark.long
@pytest.mark.timeout(900)
def test_after_kills_each_change_is_in_each_sink_exactly_once(spark: Any, tmp_path: Path):
    """What is left is read by this session, which saves starting one more."""
    outcome = run(tmp_path, 2, seed=20, session=spark)

    assert [] == problems(outcome)
    assert ["parquet", "log,replica"] == [names for names, _, _ in outcome.moments]
