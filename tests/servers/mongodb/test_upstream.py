"""PyMongo's own tests of change streams, from its source distribution, against this server.

They are not a part of this project. Where `REACTDB_PYMONGO_SOURCE` names the unpacked source distribution of the PyMongo that is
installed, they run, from a copy that is thrown away; `.ci/run` fetches it. The asynchronous ones need pytest-asyncio, in the
folder that `REACTDB_PYTEST_ASYNCIO` names, because this project's own tests do without. What does not pass is in NOT_PASSING,
each with its reason; a test that is named there and passes is a failure here, so that the table stays true.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest

from reactdb.servers.mongodb import MongoDBServer

SOURCE: Final = Path(os.environ.get("REACTDB_PYMONGO_SOURCE", "nowhere"))
PATIENCE_S: Final = 280

NOT_PASSING: Final[dict[str, str]] = {}
"""Test -> why it does not pass."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (SOURCE / "test" / "test_change_stream.py").exists(),
        reason="PyMongo's tests are not there: REACTDB_PYMONGO_SOURCE names its unpacked source distribution",
    ),
]


@pytest.mark.parametrize("folder", ["test", "test/asynchronous"])
@pytest.mark.parametrize("db", ["memory"], indirect=True)
def test_pymongo_s_own_tests(server: MongoDBServer, tmp_path: Path, folder: str) -> None:
    asynchronous = os.environ.get("REACTDB_PYTEST_ASYNCIO", "")
    if folder.endswith("asynchronous") and not asynchronous:
        pytest.skip("pytest-asyncio is not there: REACTDB_PYTEST_ASYNCIO names its folder")
    # Beside the original lies the package that is not built; the one that is installed is meant.
    shutil.copytree(SOURCE / "test", tmp_path / "test")
    report = tmp_path / "report.xml"
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--junitxml={report}"]
    environment = {**os.environ, "DB_IP": "127.0.0.1", "DB_PORT": str(server.port)}
    if folder.endswith("asynchronous"):
        environment["PYTHONPATH"] = asynchronous
        options += ["-o", "asyncio_default_fixture_loop_scope=session"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"{folder}/test_change_stream.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert report.exists(), done.stdout[-3_000:] + done.stderr[-3_000:]
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = {
        f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    }
    assert set(NOT_PASSING) == failed, done.stdout[-10_000:]
    assert len(cases) > 100
