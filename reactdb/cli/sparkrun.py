"""Runs Spark for a command: starts it quietly, shows its progress, stops it at the end, and turns its errors into one sentence.

The JVM inherits standard error. Its launcher, its logging and its Python workers write many lines there. So standard error is a
file when the JVM starts. Everything that matters is raised as an exception anyway.

Rule of this file: it knows neither the options nor the work of a command.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import IO, Any

import click

from reactdb.cli.terminal import Progress

LOOK_EVERY_S = 0.2
# These loggers write tracebacks of exceptions that are raised anyway, also of an interrupt.
NOISY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
# The last line of a Python worker's traceback, if the error is from reactdb.
OUR_ERROR = re.compile(r"reactdb\.errors\.\w+: (.+)")
OTHER = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception): (.+)", re.MULTILINE)
# A Java exception without a class in pyspark, and its causes: the last cause has the reason.
OF_JAVA = "An error occurred while calling"
CAUSE = re.compile(r"^(?:Caused by)?: (?:\w+\.)*[\w$]+: (.+)", re.MULTILINE)


@contextmanager
def run_session(master: str | None, settings: Mapping[str, str], log: str | None) -> Iterator[Any]:
    """A session for one command.

    Raises:
        click.ClickException: Spark's error in one sentence.
        SparkUnavailable.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from reactdb.spark import environment
    from reactdb.spark.shipping import ship

    with ExitStack() as stack:
        progress = stack.enter_context(Progress("tasks"))
        file = stack.enter_context(open_log(log))
        try:
            progress.show("starting Spark ...")
            config = {"spark.sql.session.timeZone": "UTC", **settings}
            with redirect_stderr(file), delay_interrupt(progress):
                session = stack.enter_context(environment.session("reactdb", master=master, config=config))
            stack.enter_context(silence_loggers())
            if not str(session.sparkContext.master).startswith("local"):
                ship(session)
            stack.enter_context(show_tasks(session, progress))
            yield session
        except (PySparkException, Py4JError) as error:
            raise click.ClickException(sentence_of(str(error), file)) from error


@contextmanager
def open_log(path: str | None) -> Iterator[IO[bytes]]:
    """The file for Spark's log; a temporary file if no log is wanted."""
    with tempfile.TemporaryFile() if path is None else open(path, "wb") as file:
        yield file


@contextmanager
def redirect_stderr(file: IO[bytes]) -> Iterator[None]:
    """Redirect standard error of this process and its children to the file."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        os.dup2(file.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def silence_loggers() -> Iterator[None]:
    """Keep Python's logging off standard error, because each error is printed as one sentence."""
    for name in NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # py4j logs with the functions of the root logger, which create a handler if there is none.
    handler = logging.NullHandler()
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


@contextmanager
def delay_interrupt(progress: Progress) -> Iterator[None]:
    """Delay Ctrl-C until Spark has started: a JVM that is abandoned during its start would never end."""
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread can handle signals.
        yield
        return
    was_asked = threading.Event()

    def remember(number: int, frame: FrameType | None) -> None:
        was_asked.set()
        progress.show("stopping, as soon as Spark has started ...")

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        # By now Spark may have its own handler, which cancels its jobs; `before` would not cancel them.
        if signal.getsignal(signal.SIGINT) is remember:
            signal.signal(signal.SIGINT, before)
    if was_asked.is_set():
        raise KeyboardInterrupt


@contextmanager
def show_tasks(session: Any, progress: Progress) -> Iterator[None]:
    """Show how many tasks of Spark's present stages are done."""
    over = threading.Event()

    def watch() -> None:
        tracker = session.sparkContext.statusTracker()
        while not over.wait(LOOK_EVERY_S):
            # The session may be ending at this moment.
            with suppress(Exception):
                stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
                total = sum(stage.numTasks for stage in stages if stage is not None)
                if total:
                    progress.set_total(total)
                    progress.update(sum(stage.numCompletedTasks for stage in stages if stage is not None))

    thread = threading.Thread(target=watch, name="reactdb-spark-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def sentence_of(text: str, log: IO[bytes]) -> str:
    """One sentence for an error of Spark: the message of reactdb's error if there is one, otherwise the first line.

    Args:
        text: The text of the error, which may contain the tracebacks of a Python worker and of Java.
        log: Spark's log.
    """
    sentences = OUR_ERROR.findall(text)
    if sentences:
        return str(sentences[-1]).strip()
    if "JAVA_GATEWAY_EXITED" in text:
        log.flush()
        log.seek(0)
        lines = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
        line_with_error = next(
            (line for line in lines if "error" in line.lower() or "exception" in line.lower()), ""
        )
        return f"Spark did not start: {line_with_error or (lines[-1] if lines else 'it does not say why')}"
    first = text.strip().splitlines()[0]
    deeper = CAUSE.findall(text) if first.startswith(OF_JAVA) else []
    if first.startswith("[PYTHON"):
        deeper = OTHER.findall(text)
    return f"Spark: {(deeper[-1] if deeper else first).strip()}"
