"""python -m tests.referee BEFORE [--after PATH] [--scripts N] [--steps N] [--seed N] [--without NAME ...]

BEFORE and PATH are folders that hold a package `reactdb`: checkouts, or what was installed with `pip install
--target`. PATH is this checkout unless it is given. Scripts run in both, half of them in memory; the first that
differs is shortened and printed, and the exit status is 1. What was meant to change is named with `--without`: fields of
answers that are not compared.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tests.referee.scripts import Step, make_script

ROOT = Path(__file__).resolve().parent.parent.parent


class Company:
    """An actor in a process of its own, with the copy of the library in one folder."""

    def __init__(self, folder: Path, without: Collection[str] = ()) -> None:
        if not (folder / "reactdb" / "__init__.py").is_file():
            raise SystemExit(f"there is no package reactdb in {folder}")
        self._without = frozenset(without)
        environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONHASHSEED": "0"}
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(Path(__file__).with_name("actor.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=folder,
        )

    def perform(self, script: list[Step], in_memory: bool) -> list[Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"script": script, "in_memory": in_memory}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("an actor ended in the middle of a script")
        transcript: list[Any] = json.loads(line)
        return [stripped(answer, self._without) for answer in transcript] if self._without else transcript

    def __enter__(self) -> Company:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def stripped(answer: Any, without: frozenset[str]) -> Any:
    """An answer as the actor shows it, without the fields of these names."""
    if not isinstance(answer, list):
        return answer
    if answer[:1] == ["dict"]:
        return [
            "dict",
            *([name, stripped(inner, without)] for name, inner in answer[1:] if name not in without),
        ]
    return [stripped(inner, without) for inner in answer]


def difference(
    before: Company, after: Company, script: list[Step], in_memory: bool
) -> tuple[int, Any, Any] | None:
    """The first place where the two transcripts differ, and what each says there; None if they are equal."""
    pair = zip(before.perform(script, in_memory), after.perform(script, in_memory), strict=True)
    return next(((place, one, other) for place, (one, other) in enumerate(pair) if one != other), None)


def shortened(before: Company, after: Company, script: list[Step], in_memory: bool) -> list[Step]:
    """A script that still differs and from which no step can be left out."""
    size = len(script) // 2
    while size:
        start = 0
        while start < len(script):
            rest = script[:start] + script[start + size :]
            if rest and difference(before, after, rest, in_memory):
                script = rest
            else:
                start += size
        size //= 2
    return script


def compare(
    folder_before: Path,
    folder_after: Path,
    scripts: int,
    steps: int,
    seed: int,
    without: Collection[str] = (),
) -> str | None:
    """What differs between the two copies, in words; None if nothing does."""
    with Company(folder_before, without) as before, Company(folder_after, without) as after:
        for number in range(seed, seed + scripts):
            script, in_memory = make_script(number, steps), bool(number % 2)
            if not difference(before, after, script, in_memory):
                continue
            short = shortened(before, after, script, in_memory)
            found = difference(before, after, short, in_memory)
            assert found is not None
            lines = [f"script {number}{' in memory' if in_memory else ''} differs at step {found[0]}:"]
            lines += [f"  {place}: {json.dumps(step)}" for place, step in enumerate(short)]
            return "\n".join([*lines, f"before: {json.dumps(found[1])}", f"after:  {json.dumps(found[2])}"])
    return None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.referee", description=__doc__.split("\n\n")[1])
    parser.add_argument("before", type=Path)
    parser.add_argument("--after", type=Path, default=ROOT)
    parser.add_argument("--scripts", type=int, default=500)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without", nargs="*", default=(), metavar="NAME")
    asked = parser.parse_args(arguments)
    found = compare(
        asked.before.resolve(), asked.after.resolve(), asked.scripts, asked.steps, asked.seed, asked.without
    )
    print(found or f"{asked.scripts} scripts of {asked.steps} steps: no difference")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
