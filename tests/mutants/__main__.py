"""python -m tests.mutants: does every wrong that we can think of fail a test?

    python -m tests.mutants                 all of them, one line each; 1 if one survives
    python -m tests.mutants queue index     those with these words in their names
    python -m tests.mutants --list

Each mutant is applied to a copy of the project in a temporary folder, and its tests are run there until the first failure.
Before that, they are run once without any mutant: tests that fail anyway notice nothing.

Rule of this file: the tree that it is started in is never changed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.mutants import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 600
NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info")


def copied(folder: Path) -> Path:
    """The project, as far as tests need it."""
    target = folder / "project"
    shutil.copytree(ROOT, target, ignore=NOT_COPIED)
    return target


def applied(mutant: Mutant, project: Path) -> str:
    """Do the wrong. Returns the text to put back."""
    path = project / "reactdb" / mutant.file
    text = path.read_text()
    if text.count(mutant.old) != 1:
        raise SystemExit(
            f"{mutant.name}: its text is {text.count(mutant.old)} times in {mutant.file}, not once"
        )
    path.write_text(text.replace(mutant.old, mutant.new))
    return text


def run_tests(project: Path, tests: tuple[str, ...], timeout_s: float | None = TIMEOUT_S) -> tuple[int, str]:
    """(pytest's exit code, what it printed). A run that hangs has noticed too. `timeout_s`: None for no limit."""
    # As in CI: with the same examples each time, and with all of them.
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-n",
        "0",
        "-m",
        "",
        "-p",
        "no:cacheprovider",
        *tests,
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": str(project),
        "PYTHONDONTWRITEBYTECODE": "1",
        "CI": "1",
        "REACTDB_EXAMPLES": "1",
    }
    try:
        found = subprocess.run(
            command, cwd=project, env=environment, capture_output=True, text=True, timeout=timeout_s
        )
    except subprocess.TimeoutExpired:
        return 1, f"FAILED no end after {timeout_s} s"
    return found.returncode, found.stdout + found.stderr


def first_failure(output: str) -> str:
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    return found[1] if found else "the run itself broke off"


def judge(mutant: Mutant, project: Path) -> bool:
    """Whether some test notices. Prints the line."""
    start = time.perf_counter()
    path = project / "reactdb" / mutant.file
    text = applied(mutant, project)
    try:
        code, output = run_tests(project, mutant.tests)
    finally:
        path.write_text(text)
    # 1: tests failed. 2, 3 and 4 are pytest's own troubles, which a mutant that does not even import gives too.
    verdict = f"caught by {first_failure(output)}" if code == 1 else f"SURVIVED (pytest ended with {code})"
    print(f"{mutant.name}: {verdict} ({time.perf_counter() - start:.0f} s)", flush=True)
    return code == 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="only mutants with one of these words in their names")
    parser.add_argument("--list", action="store_true", help="name them and stop")
    arguments = parser.parse_args()
    chosen = [
        mutant
        for mutant in MUTANTS
        if not arguments.words or any(word in mutant.name for word in arguments.words)
    ]
    if not chosen:
        parser.error("no mutant has one of these words in its name")
    if arguments.list:
        print("\n".join(mutant.name for mutant in chosen))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        project = copied(Path(folder))
        tests = tuple(dict.fromkeys(test for mutant in chosen for test in mutant.tests))
        # The tests of all mutants together take longer than those of one may.
        code, output = run_tests(project, tests, timeout_s=None)
        if code:
            print(output[-3000:])
            print("the tests fail without any mutant")
            return 2
        survivors = [mutant for mutant in chosen if not judge(mutant, project)]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants are caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
