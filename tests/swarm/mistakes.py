"""Mistakes that are made on purpose, to show that the referee notices: in the store, in a worker, or in the referee itself.

Those of the store are the ones of the crash tests. They are made in all processes but the referee's.
"""

from __future__ import annotations

from tests.crash import broken

# A native lane acknowledges each write, and begins it a moment later.
ACKNOWLEDGED_EARLY = "acknowledged_early"
# One native write in ten is acknowledged, and not made.
NOT_WRITTEN = "not_written"
# The consumer to the outside passes over a change now and then.
NOT_DELIVERED = "not_delivered"
# The consumer inside the file notes a batch in one transaction, and acknowledges it in another.
NOTED_APART = "noted_apart"
# The referee forgets one acknowledged write in each round.
FORGOTTEN = "forgotten"

# Some that a round or two show; the others of the crash tests need its sharper eyes.
OF_THE_STORE = ("transaction_in_two_halves", "index_not_maintained", "feed_told_before_commit")
MISTAKES = (ACKNOWLEDGED_EARLY, NOT_WRITTEN, NOT_DELIVERED, NOTED_APART, FORGOTTEN, *OF_THE_STORE)


def make(mistake: str) -> None:
    """Break the store of this process, where that is the mistake."""
    if mistake in OF_THE_STORE:
        broken.apply(mistake)
