"""The package for executors: reactdb as one zip for every worker.

Executors import the module of a Python data source by name, on machines where it may not be installed. A zip on their path is
enough for reactdb, which is all Python and needs only `pyarrow` and `msgpack` for reading. These, and `pyspark` itself, must be
installed there, for the same Python version as the driver's.

Rule of this file: the zip of one installation is always the same bytes, so that sending it again sends nothing new.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import reactdb
from reactdb.spark import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The format zip has no earlier year.
_THE_DAY: Final = (1980, 1, 1, 0, 0, 0)


def package_zip(path: str | os.PathLike[str]) -> Path:
    """Write the zip for `spark-submit --py-files` or `spark.submit.pyFiles`, and return its path.

    Args:
        path: The path of the file, which is replaced; or of a folder for the file `reactdb-<version>.zip`.
    """
    target = Path(path)
    if target.is_dir():
        target /= zip_name()
    folder = Path(reactdb.__file__).parent
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                inside = f"reactdb/{file.relative_to(folder).as_posix()}"
                archive.writestr(zipfile.ZipInfo(inside, _THE_DAY), file.read_bytes(), zipfile.ZIP_DEFLATED)
    return target


def zip_name() -> str:
    return f"reactdb-{reactdb.__version__}.zip"


def ship(spark: SparkSession) -> None:
    """Send the package to the present and future executors of a session. Call it before the first read; twice does no harm.

    It is not needed with `local[...]`, nor if reactdb is installed on every machine.
    """
    # The driver serves this file to executors that start later, so it stays until the process ends.
    folder = tempfile.mkdtemp(prefix="reactdb-ship-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    spark.addArtifacts(str(package_zip(folder)), pyfile=True)
    # A data source is sent with the files that had been added when it was registered.
    register(spark)


__all__ = ["package_zip", "ship", "zip_name"]
