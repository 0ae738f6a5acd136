"""The bounded form of `python -m tests.spark_kills`."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from reactdb import SparkUnavailable
from reactdb.spark import check
from tests.spark_kills.__main__ import problems
from tests.spark_kills.kills import run


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_after_kills_each_change_is_in_each_sink_exactly_once(tmp_path: Path):
    try:
        check()
    except SparkUnavailable as missing:
        pytest.skip(str(missing))
    outcome = run(tmp_path, 2, seed=20)

    assert [] == problems(outcome)
    assert ["parquet", "log,replica"] == [names for names, _, _ in outcome.moments]
