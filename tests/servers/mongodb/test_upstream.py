"""PyMongo's own tests, from its source distribution, against this server: of change streams, and some of those about the rest.

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
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest

from reactdb.servers.mongodb import MongoDBServer

SOURCE: Final = Path(os.environ.get("REACTDB_PYMONGO_SOURCE", "nowhere"))
PATIENCE_S: Final = 280

HAS_ICU: Final = find_spec("icu") is not None

LONG_ID: Final = "a text of 8 MiB is too long for an `_id`"

NOT_PASSING: Final[dict[str, dict[str, str]]] = {
    "bulk": {},
    "causal_consistency": {},
    "change_stream": {},
    "client_bulk_write": {
        "TestClientBulkWriteCRUD.test_7_handles_cursor_requiring_getMore": LONG_ID,
        "TestClientBulkWriteCRUD.test_8_handles_cursor_requiring_getMore_within_transaction": LONG_ID,
        "TestClientBulkWriteCRUD.test_9_handles_getMore_error": LONG_ID,
        "TestClientBulkWriteCRUD.test_11_batch_splits_if_new_namespace_is_too_large": (
            "a name of 204 characters is too long for a table's"
        ),
    },
    "crud_unified": {},
    "collection": {
        "TestCollection.test_exhaust": "exhaust cursors are not offered",
        "TestCollection.test_index_2dsphere": "there are no geospatial indexes",
        "TestCollection.test_index_geo2d": "there are no geospatial indexes",
        "TestCollection.test_index_text": "there are no text indexes",
    },
    "cursor": {
        "TestCursor.test_to_list_csot_applied": "no JavaScript is run, and so none that takes long",
        "TestCursor.test_to_list_tailable": "there is no oplog to be read",
        "TestCursor.test_where": "no JavaScript is run",
        "TestRawBatchCommandCursor.test_exhaust_cursor_db_set": "exhaust cursors are not offered",
    },
    "gridfs": {},
    "gridfs_bucket": {},
    "gridfs_spec": {},
    "read_write_concern_spec": {},
    "retryable_writes_unified": {},
    "run_command": {},
    "session": {},
    "sessions_unified": {},
    "transactions_unified": {},
}
"""By file, test -> why it does not pass. Those about collations come to it where PyICU is missing."""

NOT_RUN: Final = {"transactions_unified": "not secondary"}
"""By file, what is left out: three tests look for a secondary, for half a minute each, and there is one member."""

AT_LEAST: Final = {
    "bulk": 30,
    "causal_consistency": 15,
    "change_stream": 100,
    "client_bulk_write": 15,
    "crud_unified": 400,
    "collection": 90,
    "cursor": 70,
    "gridfs": 25,
    "gridfs_bucket": 30,
    "gridfs_spec": 40,
    "read_write_concern_spec": 80,
    "retryable_writes_unified": 130,
    "run_command": 15,
    "session": 35,
    "sessions_unified": 25,
    "transactions_unified": 250,
}
"""How many tests there are, so that it is noticed where they are not found."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (SOURCE / "test" / "test_change_stream.py").exists(),
        reason="PyMongo's tests are not there: REACTDB_PYMONGO_SOURCE names its unpacked source distribution",
    ),
]


@pytest.mark.parametrize(
    ("folder", "suite"), [*(("test", suite) for suite in NOT_PASSING), ("test/asynchronous", "change_stream")]
)
@pytest.mark.parametrize("db", ["memory"], indirect=True)
def test_pymongo_s_own_tests(server: MongoDBServer, tmp_path: Path, folder: str, suite: str) -> None:
    asynchronous = os.environ.get("REACTDB_PYTEST_ASYNCIO", "")
    if folder.endswith("asynchronous") and not asynchronous:
        pytest.skip("pytest-asyncio is not there: REACTDB_PYTEST_ASYNCIO names its folder")
    # Beside the original lies the package that is not built; the one that is installed is meant.
    shutil.copytree(SOURCE / "test", tmp_path / "test")
    report = tmp_path / "report.xml"
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--junitxml={report}"]
    if suite in NOT_RUN:
        options += ["-k", NOT_RUN[suite]]
    environment = {**os.environ, "DB_IP": "127.0.0.1", "DB_PORT": str(server.port)}
    if folder.endswith("asynchronous"):
        environment["PYTHONPATH"] = asynchronous
        options += ["-o", "asyncio_default_fixture_loop_scope=session"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"{folder}/test_{suite}.py"],
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
    if not HAS_ICU:
        failed = {name for name in failed if "ollation" not in name}
    assert set(NOT_PASSING[suite]) == failed, done.stdout[-10_000:]
    assert len(cases) > AT_LEAST[suite]
