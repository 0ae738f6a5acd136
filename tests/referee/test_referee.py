"""The referee itself: it finds no difference between a copy and itself, and finds the ones that are put in."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import reactdb
from tests.referee.__main__ import compare

ROOT = Path(reactdb.__file__).parent.parent

# A change that a user would see: the file, what it says, what it is made to say.
DIFFERENCES = {
    "an error's sentence": ("errors.py", "Duplicate primary key", "A primary key twice"),
    "a counter of a write": ("documents/write.py", '"replaced"', '"exchanged"'),
    "an option that is ignored": ("feeds/options.py", 'options.get("squash", False)', "False"),
}


def test_a_copy_does_not_differ_from_itself():
    assert compare(ROOT, ROOT, scripts=6, steps=60, seed=1) is None


@pytest.mark.parametrize(
    "name",
    [
        name if name == "an error's sentence" else pytest.param(name, marks=pytest.mark.slow)
        for name in DIFFERENCES
    ],
)
def test_a_difference_is_found_and_the_script_is_shortened(name, tmp_path):
    file, text, other = DIFFERENCES[name]
    shutil.copytree(
        ROOT / "reactdb", tmp_path / "reactdb", ignore=shutil.ignore_patterns("__pycache__", "spark")
    )
    changed = tmp_path / "reactdb" / file
    source = changed.read_text(encoding="utf-8")
    assert text in source
    changed.write_text(source.replace(text, other), encoding="utf-8")

    found = compare(ROOT, tmp_path, scripts=40, steps=60, seed=0)

    assert found is not None
    steps = [line for line in found.splitlines() if line.startswith("  ")]
    assert len(steps) <= 6, found
