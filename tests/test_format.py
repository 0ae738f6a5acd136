"""The file format: files that were kept of each one give what they gave on the day they were made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kept_files import contents, expected, kept, unpack

every_kept_file = pytest.mark.parametrize("name", list(kept()))


@every_kept_file
def test_a_kept_file_gives_what_it_gave(name: str, tmp_path: Path):
    assert contents(unpack(name, tmp_path), read_only=False) == expected(name)
