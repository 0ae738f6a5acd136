"""Fixtures. `db` runs a test twice, on memory and on a file: a promise that holds on one must hold on the other. The ordinary run
has the files, `pytest -m slow` the memory."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import reactdb
from reactdb.testing import VirtualClock
from tests.support.scaling import examples

# Fixed seeds in CI: a red build must be red for everybody. Locally, every run looks elsewhere.
common = settings(
    deadline=None, max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("ci", common, derandomize=True)
settings.register_profile("local", common)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# A shell that starts these tests in the background lets them, and what they start, ignore Ctrl-C; some are about it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Where the system has a folder in memory, the files of the tests lie there: to make, flush and remove a file takes half of the
# CPU time of a small test, and most of its waiting. In a container the folder may be too small; then they lie on the disk.
IN_MEMORY, ROOM_BYTES = "/dev/shm", 4 * 1024**3
if (
    "TMPDIR" not in os.environ
    and os.access(IN_MEMORY, os.W_OK)
    and shutil.disk_usage(IN_MEMORY).free >= ROOM_BYTES
):
    # For the processes that tests start, and for this one, which may have asked for the folder before.
    os.environ["TMPDIR"], tempfile.tempdir = IN_MEMORY, IN_MEMORY

ACCEPTANCE = Path(__file__).resolve().parent.parent.parent / "shared" / "acceptance"


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What was imported and collected stays until the end: no collection of garbage need look at it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def quick_collections() -> Iterator[None]:
    """What a module of tests has left, such as imports and reports, needs no further look either: tests of leaks collect garbage
    often, and each collection looks at every object that is not frozen."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a test may make its file."""
    return tmp_path / "a.db"


# A file has all that a database in memory has, and more: other processes, checkpoints, and a path that may be moved.
MEMORY_AND_FILE = [pytest.param("memory", marks=pytest.mark.slow), "file"]


@pytest.fixture(params=MEMORY_AND_FILE)
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """An empty database, closed afterwards."""
    path = ":memory:" if request.param == "memory" else tmp_path / "test.db"
    with reactdb.connect(path, durability="soft") as database:
        yield database


@pytest.fixture
def games(db: Any) -> Any:
    """An empty table of `db`."""
    return db.table_create("games")


@pytest.fixture
def clock() -> VirtualClock:
    """Time that passes when it is told to."""
    return VirtualClock()
