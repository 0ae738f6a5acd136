"""The project as mutants see it: a copy that may be changed, where a dotted name is in it, and a run of its tests.

Rule of this file: the folder that the command is started in is never changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["ROOT", "changed_file", "copy_project", "locate", "run_tests"]

ROOT = Path(__file__).resolve().parents[2]
_NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info")


def copy_project(folder: Path) -> Path:
    """The copy that tests run in, without what tests do not need."""
    target = folder / "project"
    shutil.copytree(ROOT, target, ignore=_NOT_COPIED)
    return target


def locate(place: str, root: Path = ROOT) -> tuple[Path, list[str]]:
    """The file of a dotted name, and the names of the classes and functions that lead to it within the file.

    Raises:
        LookupError: No module has this name.
    """
    names = place.split(".")
    for count in range(len(names), 0, -1):
        path = Path(*names[:count])
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if (root / file).exists():
                return file, names[count:]
    raise LookupError(f"no module leads to {place}")


@contextmanager
def changed_file(path: Path, source: str) -> Iterator[None]:
    """The file has another content within the block, and its own again afterwards."""
    before = path.read_text(encoding="utf-8")
    path.write_text(source, encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(before, encoding="utf-8")


def run_tests(
    project: Path, tests: Iterable[str], *, timeout_s: float | None, with_slow: bool
) -> tuple[int, str]:
    """Run tests until the first failure: (pytest's exit code, its output).

    Args:
        timeout_s: A run that takes longer counts as a failure, because a mutant that hangs was noticed. None for no limit.
        with_slow: Run the tests that are marked as slow, too.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
    if with_slow:
        command += ["-m", ""]
    # As in CI: with the same examples each time, and with all of them.
    environment = {
        **os.environ,
        "PYTHONPATH": str(project),
        "PYTHONDONTWRITEBYTECODE": "1",
        "CI": "1",
        "REACTDB_EXAMPLES": "1",
    }
    try:
        done = subprocess.run(
            [*command, *tests],
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, f"FAILED no end after {timeout_s} s"
    return done.returncode, done.stdout + done.stderr
