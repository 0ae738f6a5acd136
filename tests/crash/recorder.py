"""Recorder: builds `recorder.c`, and keeps a process that runs under it and records one scenario after the other.

The process (`recorded.py`) imports the store once and forks for every recording, because a recording takes 50 ms and starting
Python with everything ten times that.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from .recording import Recording, read_folder, read_trace

HERE = Path(__file__).resolve().parent


class NoRecorder(Exception):
    """There is no compiler, or no way to load the recorder: nothing can be recorded here."""


@dataclass(slots=True, frozen=True)
class Job:
    """One run to record.

    Attributes:
        scenario, seed: What is done; see `scenarios.py`.
        folder: Empty, or with the files of an image.
        trace, result: Files to write, outside of the folder.
        mutant: What is wrong with the store meanwhile; see `mutants.py`.
    """

    scenario: str
    seed: int
    folder: str
    trace: str
    result: str
    mutant: str = ""


def build(folder: Path) -> Path:
    """The shared object.

    Raises:
        NoRecorder: With the reason in words.
    """
    if not sys.platform.startswith("linux"):
        raise NoRecorder(f"calls are recorded through LD_PRELOAD on Linux, not on {sys.platform}")
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CC", "cc"), "gcc", "clang"))), None)
    if compiler is None:
        raise NoRecorder("there is no C compiler (cc, gcc or clang) to build the recorder with")
    target = folder / "recorder.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(target), str(HERE / "recorder.c"), "-ldl"]
    done = subprocess.run([*command, "-lpthread"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoRecorder(f"{compiler} cannot build the recorder: {done.stderr.strip()[-500:]}")
    return target


class Recorder:
    """The process that records. Use it as a context manager."""

    def __init__(self, folder: Path) -> None:
        environment = {
            **os.environ,
            "LD_PRELOAD": str(build(folder)),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.recorded"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()

    def record(self, job: Job) -> tuple[Recording, dict[str, Any]]:
        """Run a job: (what was recorded, what the program found out about its run)."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        before = read_folder(Path(job.folder))
        process.stdin.write(json.dumps(asdict(job)) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if answer.strip() != "done":
            raise RuntimeError(f"recording {job.scenario!r} with seed {job.seed} failed: {answer.strip()!r}")
        recording = read_trace(Path(job.trace), before)
        if not recording.events:
            raise NoRecorder("nothing was recorded: this SQLite does not go through the C library")
        return recording, json.loads(Path(job.result).read_text())
