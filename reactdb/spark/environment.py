"""The environment: Spark's requirements beside reactdb, and the error messages if one is missing.

Rule of this file: pyspark is imported when a session is made, and not before.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from reactdb.errors import SparkUnavailable, how_to_install

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

OLDEST_PYSPARK, NEXT_PYSPARK, OLDEST_PYARROW, OLDEST_JAVA = (4, 2), (5,), (17,), 17
INSTALL, INSTALL_CONNECT = how_to_install("spark"), how_to_install("spark-connect")
# Python workers and the driver run these interpreters, or else any `python3` on the path. Without an activated virtual
# environment, that interpreter lacks reactdb.
INTERPRETERS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


# The address of a Spark Connect server, or local[...] for one that the client starts; and what a client needs besides.
REMOTE = "SPARK_REMOTE"
CONNECT_PACKAGES = {
    "pandas": (2, 2),
    "grpcio": (1, 48),
    "grpcio-status": (1, 48),
    "googleapis-common-protos": (1, 56),
    "zstandard": (0, 25),
}


def check(*, with_java: bool = True) -> None:
    """Check that all of Spark's requirements are installed.

    Raises:
        SparkUnavailable: Something is missing or too old. The message has the command that installs it.
    """
    check_package("pyspark", OLDEST_PYSPARK, NEXT_PYSPARK)
    check_package("pyarrow", OLDEST_PYARROW, None)
    remote = os.environ.get(REMOTE)
    if remote:
        for name, oldest in CONNECT_PACKAGES.items():
            check_package(
                name, oldest, None, f"Spark Connect needs it ({REMOTE} is {remote}): {INSTALL_CONNECT}"
            )
    # A server elsewhere has its own Java.
    if with_java and (not remote or remote.startswith("local")):
        check_java()


def check_package(
    name: str, oldest: tuple[int, ...], next_: tuple[int, ...] | None, advice: str = INSTALL
) -> None:
    """Check that a package is installed in a version from `oldest` to before `next_`."""
    installed = version_of(name)
    if installed is None:
        raise SparkUnavailable(f"{name} is not installed: {advice}")
    number = tuple(map(int, re.findall(r"\d+", installed)[:3]))
    if number < oldest or (next_ is not None and number >= next_):
        wanted = f"{'.'.join(map(str, oldest))} or newer" + (
            f", before {'.'.join(map(str, next_))}" if next_ is not None else ""
        )
        raise SparkUnavailable(f"{name} {installed} does not do, {wanted} is needed: {advice}")


def version_of(name: str) -> str | None:
    """The version of an installed package; None if it is not installed."""
    # A worker never asks, and this import would cost it a tenth of the time that it needs to start.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def check_java() -> None:
    """Check that there is a Java for Spark."""
    java = find_java()
    if java is None:
        home = os.environ.get("JAVA_HOME")
        install = (
            f"install a Java runtime of version {OLDEST_JAVA} or newer (Debian: apt install "
            f"openjdk-{OLDEST_JAVA}-jre-headless; macOS: brew install openjdk@{OLDEST_JAVA})"
        )
        raise SparkUnavailable(
            f"JAVA_HOME is {home}, where there is no bin/java: correct it, or unset it if java is on the path, or {install}"
            if home
            else f"Java is missing: {install}, or set JAVA_HOME"
        )
    number = java_version(java)
    if number is not None and number < OLDEST_JAVA:
        raise SparkUnavailable(
            f"{java} is Java {number}, and Spark needs {OLDEST_JAVA} or newer: install one, and set JAVA_HOME to its folder"
        )


def find_java() -> str | None:
    """The path of the Java that Spark would start; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    if home:
        path = os.path.join(home, "bin", "java")
        return path if shutil.which(path) else None
    return shutil.which("java")


def java_version(java: str) -> int | None:
    """The major version of this Java; None if it cannot be found out."""
    home = os.path.dirname(os.path.dirname(os.path.realpath(java)))
    try:
        # Reading the version from this file saves starting Java, which takes a third of a second.
        with open(os.path.join(home, "release"), encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        try:
            done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.SubprocessError):
            return None
        text = done.stderr + done.stdout
    match = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    return None if match is None else int(match[1])


def set_interpreter() -> None:
    """Make Python workers run this interpreter, unless the environment names another one."""
    for name in INTERPRETERS:
        os.environ.setdefault(name, sys.executable)


def context_of(session: SparkSession) -> SparkContext | None:
    """The context of a session in this process; None with Spark Connect, where the server has it."""
    try:
        return session.sparkContext
    except AttributeError:
        return None


def use_interpreter(session: SparkSession) -> None:
    """Do the same for a running session, if it runs on this machine: on others the interpreter may have another path."""
    context = context_of(session)
    if context is None or any(os.environ.get(name) for name in INTERPRETERS):
        return
    if (context.master or "").startswith("local") and context.getConf().get("spark.pyspark.python") is None:
        context.pythonExec = sys.executable


def quieten(session: SparkSession) -> None:
    """Make Spark log errors only. A Connect server decides about its own log."""
    context = context_of(session)
    if context is not None:
        context.setLogLevel("ERROR")
    logging.getLogger("py4j").setLevel(logging.ERROR)


@contextmanager
def session(
    app_name: str = "reactdb",
    *,
    master: str | None = None,
    config: dict[str, str] | None = None,
) -> Iterator[SparkSession]:
    """A quiet Spark session with the data source registered. It is stopped at the end of the block.

    If a session is already running, it is used; its configuration is not changed, and it is not stopped.

    Args:
        app_name: The name in Spark's pages.
        master: Where to run; None: where the environment says (`SPARK_REMOTE`, then `MASTER`), or else on all cores of this
            machine.
        config: Spark's settings.

    Raises:
        SparkUnavailable: Java, pyspark or pyarrow is missing or too old.
    """
    check()
    set_interpreter()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from reactdb.spark import register

    running = SparkSession.getActiveSession()
    if running is None and SparkContext._active_spark_context is not None:
        # Another thread has started it, and a thread knows only its own.
        running = SparkSession.builder.getOrCreate()
    if running is not None:
        register(running)
        yield running
        return
    builder = SparkSession.builder.appName(app_name)
    settings = dict(config or {})
    if master is not None:
        settings["spark.master"] = master
    elif not os.environ.get(REMOTE):
        settings.setdefault("spark.master", os.environ.get("MASTER", "local[*]"))
    if not os.environ.get(REMOTE):
        # A Connect server refuses these, because they are of its start.
        settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", **settings}
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    try:
        quieten(made)
        register(made)
        yield made
    finally:
        made.stop()
