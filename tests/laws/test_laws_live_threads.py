"""Live results while several threads write, as they come and squashed by a virtual clock: no half of a commit is ever visible.

Each commit gives both documents of a pair the same number. So a list, a value or an observation that shows two numbers in one
pair has shown half of a commit.
"""

from __future__ import annotations

import threading
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb import LiveList, row
from reactdb.testing import VirtualClock
from tests.support.scaling import examples
from tests.support.threads import PATIENCE_S

PAIRS = 3
# What one thread does: (number of the pair, new number; None deletes both documents).
COMMITS = st.lists(
    st.tuples(st.integers(0, PAIRS - 1), st.none() | st.integers(0, 4)), min_size=1, max_size=6
)


def halves(documents: Any) -> list[int]:
    """The pairs of which only one half is there, or which have two numbers."""
    pairs: dict[int, list[int]] = {}
    for document in documents:
        pairs.setdefault(document["pair"], []).append(document["n"])
    return [pair for pair, numbers in pairs.items() if len(numbers) != 2 or len(set(numbers)) != 1]


@settings(max_examples=examples(70), deadline=None)
@given(st.lists(COMMITS, min_size=2, max_size=4), st.booleans(), st.sampled_from(["all", "filter", "limit"]))
def test_no_half_of_a_commit_is_visible(scripts: list[Any], is_squashed: bool, kind: str) -> None:
    clock = VirtualClock()
    with reactdb.connect(":memory:", clock=clock) as db:
        table = db.table_create("pairs")
        table.insert(
            {"id": f"{pair}{half}", "pair": pair, "n": 0} for pair in range(PAIRS) for half in ("a", "b")
        )
        selection = {
            "all": table.order_by("pair", "id"),
            "filter": table.filter(row["n"] < 3).order_by("pair", "id"),
            # An even number of documents: whole pairs.
            "limit": table.order_by("pair", "id").limit(4),
        }[kind]
        if is_squashed:
            live = LiveList(selection.changes(squash=1.0, include_initial=True, include_offsets=True))
        else:
            live = selection.live()
        observation = db.observe(lambda db: db["pairs"].run())
        shown: list[Any] = []
        live.subscribe(lambda edits: shown.append(list(live)))
        observation.subscribe(shown.append)
        barrier = threading.Barrier(len(scripts) + 1)

        def write(script: list[Any]) -> None:
            barrier.wait(PATIENCE_S)
            for pair, number in script:
                with db.transaction():
                    for half in ("a", "b"):
                        if number is None:
                            table.get(f"{pair}{half}").delete()
                        else:
                            table.insert(
                                {"id": f"{pair}{half}", "pair": pair, "n": number}, conflict="replace"
                            )

        threads = [threading.Thread(target=write, args=(script,)) for script in scripts]
        for thread in threads:
            thread.start()
        barrier.wait(PATIENCE_S)
        while any(thread.is_alive() for thread in threads):
            shown.append(list(live))
            clock.advance_by(0.4)
        for thread in threads:
            thread.join(PATIENCE_S)
        clock.advance_by(2)
        assert [] == [documents for documents in shown if halves(documents)]
        assert selection.run() == list(live)
        assert table.run() == observation.value
        live.close()
        observation.close()
