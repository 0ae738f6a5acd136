"""One Spark session for all tests that need one, because starting it takes longer than any of them.

A test that uses `spark` has the marker of that name and is slow, and is skipped with the reason if Java, pyspark or pyarrow is
missing. The session runs two workers, with the format registered; a test that needs another setting changes it for a while
(`configured`).
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from reactdb.errors import SparkUnavailable
from reactdb.spark import check, environment
from tests.spark_kills.child import QUICK

ROOT = Path(__file__).resolve().parent.parent.parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The session. Do not stop it."""
    try:
        check()
    except SparkUnavailable as missing:
        pytest.skip(str(missing))
    folder = tmp_path_factory.mktemp("spark")
    before = dict(os.environ)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # Workers are forked from a process that has what a plan needs, once it was imported.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    with warnings.catch_warnings():
        # pyspark opens sockets and leaves them to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            with environment.session(
                "reactdb tests",
                master="local[2]",
                config={
                    "spark.sql.shuffle.partitions": "2",
                    "spark.default.parallelism": "2",
                    "spark.python.worker.reuse": "true",
                    "spark.sql.warehouse.dir": str(folder / "warehouse"),
                    "spark.local.dir": str(folder / "local"),
                    "spark.sql.session.timeZone": "America/New_York",
                    "spark.driver.bindAddress": "127.0.0.1",
                    "spark.driver.memory": "1g",
                    **QUICK,
                },
            ) as session:
                yield session
        finally:
            os.environ.clear()
            os.environ.update(before)


@pytest.fixture
def configured(spark: Any) -> Callable[..., AbstractContextManager[None]]:
    """`with configured(name=value): ...` sets Spark's settings for a moment. Names with `__` for the dots."""

    @contextmanager
    def set_(**settings: str) -> Iterator[None]:
        names = {name.replace("__", "."): value for name, value in settings.items()}
        before = {name: spark.conf.get(name, None) for name in names}
        try:
            for name, value in names.items():
                spark.conf.set(name, value)
            yield
        finally:
            for name, old in before.items():
                if old is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, old)

    return set_
