"""The source and the pipelines on a real cluster: a standalone master and two workers, with an interpreter without reactdb.

Takes about a minute: `pytest -m long tests/spark/test_spark_cluster.py`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from reactdb.errors import SparkUnavailable
from reactdb.spark import check, shipping
from tests.spark import flights_database as database
from tests.support import kept_files

pq = pytest.importorskip("pyarrow.parquet")

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.skipif(sys.platform == "win32", reason="Spark's scripts are for a POSIX shell")
def test_two_workers_without_reactdb_read_a_file_and_write_parquet(tmp_path):
    try:
        check()
    except SparkUnavailable as missing:
        pytest.skip(str(missing))
    from tests.spark.cluster import cluster, executor_python

    file, out = tmp_path / "flights.db", tmp_path / "out"
    out.mkdir()
    steps = database.steps()
    database.write(file, steps)
    python = executor_python(tmp_path / "python")
    with cluster(tmp_path) as master:
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.on_cluster", master, str(file), str(out)],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "PYSPARK_PYTHON": str(python),
                "PYSPARK_DRIVER_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    assert 0 == done.returncode, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert [True, True] == [str(tmp_path / "work-") in folder for folder in found["folders"]]
    # What executors have is what was sent to them, into these folders.
    assert [f"./{shipping.zip_name()}/reactdb/__init__.py"] == found["packages"]
    assert 6099 == found["documents"] == found["snapshot"]
    assert len(steps) == found["changes"] == found["history"]
    # The first place in the log is that of the table.
    assert list(range(2, len(steps) + 2)) == sorted(pq.read_table(out / "changes")["seq"].to_pylist())


@pytest.mark.slow
def test_the_package_in_a_zip_opens_a_database_with_what_executors_have(tmp_path):
    """pyarrow, msgpack and the standard library; nothing of this installation. A file of the first format is read, too."""
    import reactdb
    from tests.spark.cluster import executor_python

    with reactdb.connect(tmp_path / "games.db") as db:
        db.table_create("games").insert({"id": 1})
    old = kept_files.unpack("format-1-closed", tmp_path)
    package = shipping.package_zip(tmp_path)
    program = (
        f"import sys; sys.path.insert(0, {str(package)!r}); import reactdb;"
        f" print(reactdb.connect({str(tmp_path / 'games.db')!r}, read_only=True).table('games').run(), reactdb.__file__,"
        f" *reactdb.connect({str(old)!r}, read_only=True).table_list())"
    )

    done = subprocess.run(
        [str(executor_python(tmp_path / "python")), "-c", program],
        env={},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert "" == done.stderr
    assert f"[{{'id': 1}}] {package}/reactdb/__init__.py empty keys people values" == done.stdout.strip()


def test_the_zip_of_one_installation_is_always_the_same(tmp_path):
    (tmp_path / "again").mkdir()
    first, second = shipping.package_zip(tmp_path), shipping.package_zip(tmp_path / "again")

    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        names = set(archive.namelist())
    assert {"reactdb/spark/source.py", "reactdb/store/engine.py"} <= names
    assert not [name for name in names if "__pycache__" in name or not name.startswith("reactdb/")]
