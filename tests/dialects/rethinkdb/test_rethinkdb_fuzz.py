"""Traces of random writes under 24 feeds, recorded on a real RethinkDB server, replayed."""

from __future__ import annotations

import pytest

from tests.dialects.rethinkdb.acceptance import FOLDER
from tests.dialects.rethinkdb.acceptance.fuzz import differences, names

if not names():
    pytest.skip(f"the recorded traces are not at {FOLDER}", allow_module_level=True)


@pytest.mark.parametrize("name", names())
def test_every_feed_tells_what_was_recorded_after_every_write(name: str) -> None:
    """Offsets replay exactly; squashed too, where RethinkDB's own do not."""
    assert [] == differences(name)
