"""A folder as it is on a medium that cannot be written, for tests that run as root, who may otherwise do everything."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted_read_only(folder: Path, place: Path) -> Iterator[Path]:
    """The folder once more at `place`, where it cannot be written. Skips the test where that cannot be had."""
    place.mkdir()
    for command in (["--bind", str(folder), str(place)], ["-o", "remount,ro,bind", str(place)]):
        try:
            done = subprocess.run(["mount", *command], capture_output=True, text=True)
        except FileNotFoundError:
            pytest.skip("there is no command `mount`")
        if done.returncode:
            subprocess.run(["umount", str(place)], capture_output=True)
            pytest.skip(f"a folder cannot be mounted to be read only: {done.stderr.strip()}")
    try:
        yield place
    finally:
        # Lazily: what a test has left open must not keep it there.
        subprocess.run(["umount", "-l", str(place)], check=True)
