"""A folder on a read-only mount, for tests that run as root, whom permissions do not stop."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted_read_only(folder: Path, place: Path) -> Iterator[Path]:
    """Mount the folder read-only at `place`. Skips the test if that is not possible."""
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
        # The unmount is lazy, because files that a test has left open must not prevent it.
        subprocess.run(["umount", "-l", str(place)], check=True)
