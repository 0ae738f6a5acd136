"""A few kills of the exporter for each format; `python -m tests.lake_kills` has more."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")

from tests.lake_kills import kills


@pytest.mark.slow
@pytest.mark.parametrize("format_", ["parquet", "delta", "iceberg"])
def test_tables_are_right_after_kills_at_random_moments(format_, tmp_path):
    if format_ != "parquet":
        pytest.importorskip({"delta": "deltalake", "iceberg": "pyiceberg"}[format_])

    seen = kills.run(tmp_path, 3, format_=format_, seed=7)

    assert 3 == len(seen.moments)
    assert all(commits for commits, _ in seen.moments)
