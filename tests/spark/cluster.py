"""A Spark standalone cluster on loopback: a master, workers, and an interpreter without reactdb for the executors.

The jars come with the pip package of PySpark; `spark-class` becomes the JVM that it starts, so its process id is the daemon's.
The system chooses the ports. The executors of a worker are its children and in its process group.

Rule of this file: it ends only what it has started, by process group id.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
# What executors must have installed; the package itself is shipped to them.
NEEDED_BY_EXECUTORS = ("pyspark", "py4j", "pyarrow", "msgpack")
START_S = 60.0
END_S = 10.0


def executor_python(folder: Path, *, without: tuple[str, ...] = ()) -> Path:
    """An interpreter with what an executor needs, linked from this one's packages, and nothing else: no reactdb."""
    packages = folder / "packages"
    packages.mkdir(parents=True)
    for name in NEEDED_BY_EXECUTORS:
        if name not in without:
            module = __import__(name)
            found = Path(str(module.__file__)).parent
            (packages / name).symlink_to(found)
            # Shared libraries of a wheel stand beside its package.
            libraries = found.with_name(f"{name}.libs")
            if libraries.exists():
                (packages / libraries.name).symlink_to(libraries)
    python = folder / "python"
    # -S: without the packages and the .pth files of the interpreter's own site.
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="{packages}:$PYTHONPATH"\nexport PYTHONPATH\nexec "{sys.executable}" -S "$@"\n',
        encoding="utf-8",
    )
    python.chmod(0o755)
    return python


@contextmanager
def cluster(folder: Path, workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[str]:
    """The URL of a master with so many workers; all are ended at the end, with their executors."""
    with ExitStack() as stack:
        log = folder / "master.log"
        stack.enter_context(
            daemon(log, "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        )
        url = wait_for(
            log, lambda text: found[1] if (found := re.search(r"(spark://127\.0\.0\.1:\d+)", text)) else None
        )
        logs = [folder / f"worker-{number}.log" for number in range(1, workers + 1)]
        for number, worker_log in enumerate(logs, 1):
            stack.enter_context(
                daemon(
                    worker_log, "worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "--cores", str(cores),
                    "--memory", memory, "--work-dir", str(folder / f"work-{number}"), url,
                )
            )  # fmt: skip
        for worker_log in logs:
            wait_for(worker_log, lambda text: "Successfully registered with master" in text or None)
        yield url


@contextmanager
def daemon(log: Path, name: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """One of Spark's daemons, in a process group of its own."""
    # Its own directory of settings: those of the machine, where there are any, are not under test.
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))},
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_CONF_DIR": str(log.parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    # What the test's interpreter finds without being told, an executor's shall not.
    environment.pop("PYTHONPATH", None)
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask, wait, and then insist; on the whole group, because an executor outlives a worker that is killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            continue


def wait_for(log: Path, look: Callable[[str], str | bool | None]) -> str:
    """What `look` finds in the log, as soon as it finds something."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        found = look(log.read_text(encoding="utf-8", errors="replace"))
        if found:
            return str(found)
        time.sleep(0.05)
    raise AssertionError(
        f"nothing came of it within {START_S:g} s:\n{log.read_text(encoding='utf-8')[-3000:]}"
    )
