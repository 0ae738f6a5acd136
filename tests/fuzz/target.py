"""Target: something that reads bytes from outside; and `judge`, which runs it once and says whether it failed.

Rule of this file: it knows no format.
"""

from __future__ import annotations

import logging
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

CORPUS = Path(__file__).parent / "corpus"

MOST_CPU_S = 5.0
"""Of one run: a hundred times what the slowest takes, so that a busy machine fails none."""


class Failure(Exception):
    """A run of a target did what no input may make it do."""


class TookTooLong(BaseException):
    """Raised in the middle of a run. A BaseException, so that nothing below takes it for its own error."""


@dataclass(frozen=True, slots=True)
class Target:
    """See the head of this file.

    Attributes:
        name: The name of its folder in `corpus/`, too.
        run: Given an input. A ReactDBError is an allowed end; anything else that it raises is a failure.
        generate: A whole new input.
        words: What a mutation may put into an input.
    """

    name: str
    run: Callable[[bytes], None]
    generate: Callable[[Random], bytes]
    words: tuple[bytes, ...] = ()

    def corpus(self) -> list[Path]:
        folder = CORPUS / self.name
        return sorted(folder.iterdir()) if folder.is_dir() else []


@dataclass(slots=True)
class Logged(logging.Handler):
    """The errors that reactdb, asyncio or the web server has logged during a run."""

    records: list[logging.LogRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        logging.Handler.__init__(self, logging.ERROR)

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    __hash__ = object.__hash__


@contextmanager
def errors_logged() -> Iterator[list[logging.LogRecord]]:
    handler = Logged()
    loggers = [logging.getLogger(name) for name in ("reactdb", "asyncio", "uvicorn.error")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield handler.records
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


@contextmanager
def bounded_cpu(seconds: float) -> Iterator[None]:
    """
    Raises:
        TookTooLong: The block has used more processor time than this. Only in the main thread of a program.
    """

    def stop(number: int, frame: Any) -> None:
        raise TookTooLong("".join(traceback.format_stack(frame)[-12:]))

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def judge(target: Target, data: bytes) -> None:
    """Run the target once.

    Raises:
        Failure: With what happened, and where.
    """
    with errors_logged() as records:
        try:
            with bounded_cpu(MOST_CPU_S):
                target.run(data)
        except TookTooLong as late:
            raise Failure(f"a run took more than {MOST_CPU_S:g} s of processor time\n{late}") from None
        except Failure:
            # What was logged says more: where it came from.
            if not records:
                raise
        except Exception as error:
            if not _is_ours(error):
                raise Failure(f"{type(error).__name__}: {error!s:.300}\n{_where(error)}") from error
    if records:
        record = records[0]
        error = record.exc_info[1] if record.exc_info else None
        where = "" if error is None else f": {type(error).__name__}: {error!s:.300}\n{_where(error)}"
        raise Failure(f"logged as an error: {record.getMessage()}{where}")


def _is_ours(error: BaseException) -> bool:
    # Imported here, and not before Atheris has had its chance to instrument it.
    from reactdb.errors import ReactDBError

    return isinstance(error, ReactDBError)


def _where(error: BaseException) -> str:
    """The last lines of the traceback, the innermost last."""
    found = traceback.extract_tb(error.__traceback__)
    lines = [f"  {Path(frame.filename).name}:{frame.lineno} {frame.name}: {frame.line}" for frame in found]
    # Of a recursion, what led to it is at the beginning.
    return "\n".join(lines if len(lines) < 16 else [*lines[:8], "  ...", *lines[-8:]])
