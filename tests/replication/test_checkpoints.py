"""Where a replication goes on: the newest session that both sides know."""

from __future__ import annotations

from typing import Any

import pytest

from reactdb.replication.checkpoints import common_seq


def checkpoint(*history: tuple[str, Any]) -> dict[str, Any]:
    """As PouchDB, or a replication here, writes it: the newest session first."""
    entries = [{"session_id": session, "last_seq": seq} for session, seq in history]
    return {"_id": "_local/x", "_rev": "0-1", **entries[0], "history": entries, "version": 1}


@pytest.mark.parametrize(
    ("target", "source", "seq"),
    [
        (None, None, "0"),
        (checkpoint(("a", "5-x")), None, "0"),
        (None, checkpoint(("a", "5-x")), "0"),
        (checkpoint(("a", "5-x")), checkpoint(("a", "5-x")), "5-x"),
        (checkpoint(("a", 5)), checkpoint(("a", 5)), 5),
        # The target has a newer session, of which the source's copy of the past knows nothing.
        (checkpoint(("b", "9-x"), ("a", "5-x")), checkpoint(("a", "5-x")), "5-x"),
        (checkpoint(("a", "5-x")), checkpoint(("b", "9-x"), ("a", "5-x")), "5-x"),
        # Broken off between the two writes.
        (checkpoint(("a", "10-x")), checkpoint(("a", "9-x")), "9-x"),
        (checkpoint(("a", "9-x")), checkpoint(("a", "10-x")), "9-x"),
        (checkpoint(("a", "5-x")), checkpoint(("b", "5-x")), "0"),
        ({"_id": "_local/x", "last_seq": "5-x"}, checkpoint(("a", "5-x")), "0"),
        ({"_id": "_local/x", "history": "none"}, checkpoint(("a", "5-x")), "0"),
    ],
)
def test_the_newest_session_that_both_know_says_where_to_go_on(target, source, seq):
    assert seq == common_seq(target, source)
