"""python -m tests.fuzz.campaign TARGET SECONDS SEED FINDINGS [--plain]: runs one target for some time, in a process of its own.

With Atheris, libFuzzer keeps the inputs that reach new lines of reactdb,
and changes those; half of the changes are the target's
own. Without it, inputs of the corpus and new ones are changed without knowing what they reach.

A failure does not end the campaign: the input goes to a file of the folder FINDINGS, once for each place that fails. The exit
code
is 1 where there was one.

Rule of this file: how inputs come about. What fails is said by `target`.
"""

from __future__ import annotations

import faulthandler
import hashlib
import logging
import os
import re
import resource
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.generating import mutated
from tests.fuzz.target import Failure, Target, judge
from tests.fuzz.targets import find

MOST_BYTES = 64 * 1024
MOST_MEMORY_BYTES = 4 * 2**30
"""Of the process. An input of 64 kB that needs more is a failure: it raises a MemoryError."""
STUCK_S = 120
"""After which a run that not even a signal ends is told with its stack, and ends the campaign."""
KEPT_INPUTS = 500


class Campaign:
    """Runs a target again and again, and keeps what fails."""

    def __init__(self, target: Target, seconds: float, seed: int, folder: Path) -> None:
        self.target = target
        self.failures: dict[str, Path] = {}
        self.runs = 0
        self._end = time.monotonic() + seconds
        self._folder = folder
        self._random = Random(seed)
        self._current = folder / f"{target.name}.current"
        self._inputs = [path.read_bytes() for path in target.corpus()]

    def run(self, data: bytes) -> None:
        """One input; at the end of the time, the end of the process, because libFuzzer has none that is quieter."""
        # Where the process dies, this file is what killed it.
        self._current.write_bytes(data)
        faulthandler.dump_traceback_later(STUCK_S, exit=True)
        try:
            judge(self.target, data)
        except Failure as failure:
            self._keep(data, str(failure))
        finally:
            faulthandler.cancel_dump_traceback_later()
        self.runs += 1
        if time.monotonic() >= self._end:
            self.finish()

    def _keep(self, data: bytes, failure: str) -> None:
        # Numbers and quoted values differ from input to input, the place does not.
        lines = failure.splitlines()
        kind = re.sub(r"'[^']*'|\"[^\"]*\"|\d+", "_", lines[0])[:80] + (lines[-1] if len(lines) > 1 else "")
        if kind in self.failures:
            return
        path = self._folder / f"{self.target.name}-{hashlib.sha256(data).hexdigest()[:12]}"
        path.write_bytes(data)
        self.failures[kind] = path
        print(f"{self.target.name}: {failure}\n  the input is in {path}", flush=True)

    def finish(self) -> None:
        self._current.unlink(missing_ok=True)
        print(f"{self.target.name}: {self.runs} runs, {len(self.failures)} failures", flush=True)
        os._exit(1 if self.failures else 0)

    def make_input(self, data: bytes, random: Random) -> bytes:
        """A new input, or a changed one."""
        if not data or random.random() < 0.5:
            return bytes(self.target.generate(random)[:MOST_BYTES])
        return mutated(data, random, self.target.words, self._inputs)[:MOST_BYTES]

    def plain(self) -> None:
        for data in self._inputs:
            self.run(data)
        while True:
            held = self._inputs and self._random.random() < 0.5
            data = self.make_input(self._random.choice(self._inputs) if held else b"", self._random)
            if len(self._inputs) < KEPT_INPUTS:
                self._inputs.append(data)
            self.run(data)

    def guided(self, atheris: Any, seed: int) -> None:
        def change(data: bytes, most: int, number: int) -> bytes:
            if number % 2:
                return bytes(atheris.Mutate(data, most))
            return self.make_input(data, Random(number))[:most]

        folder = self._folder / f"{self.target.name}-corpus"
        folder.mkdir(exist_ok=True)
        given = [str(path.parent) for path in self.target.corpus()[:1]]
        # How long a run may take is said by `judge`; a timeout of libFuzzer would end the process.
        options = [
            f"-seed={seed}",
            f"-max_len={MOST_BYTES}",
            "-timeout=100000",
            "-rss_limit_mb=0",
            "-verbosity=0",
        ]
        atheris.Setup([sys.argv[0], *options, str(folder), *given], self.run, custom_mutator=change)
        atheris.Fuzz()


def atheris_or_none(name: str, *, is_plain: bool) -> Any:
    """Atheris, which has instrumented what the target imports of reactdb; None where it is not to be used or not installed."""
    if is_plain:
        return None
    try:
        import atheris
    except ImportError:
        return None
    # It writes a line for each module.
    error_output, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        with atheris.instrument_imports(include=["reactdb"]):
            find(name)
    finally:
        os.dup2(error_output, 2)
        os.close(error_output)
        os.close(nowhere)
    return atheris


def main() -> None:
    name, seconds, seed, folder, *rest = sys.argv[1:]
    logging.getLogger("reactdb").addHandler(logging.NullHandler())
    atheris = atheris_or_none(name, is_plain="--plain" in rest)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
    campaign = Campaign(find(name), float(seconds), int(seed), Path(folder))
    if atheris is None:
        campaign.plain()
    else:
        campaign.guided(atheris, int(seed))


if __name__ == "__main__":
    main()
