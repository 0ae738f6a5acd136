"""Follow a busy table in a user interface that repaints at most so many times a second.

Run: python examples/squash_for_a_ui.py
"""

from __future__ import annotations

from typing import Any

from reactivex.scheduler import VirtualTimeScheduler

import reactdb
from reactdb import desc, row

REPAINTS_PER_S = 4
SECONDS = 5
WRITES_PER_S = 100


class Panel:
    """What a screen would show. However many events come together, it is painted once, when they are all in."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self._is_stale = False
        self.board: reactdb.LiveList | None = None
        self.painted_at: list[float] = []
        self.text = ""

    def invalidate(self, event: dict[str, Any]) -> None:
        if not self._is_stale:
            self._is_stale = True
            # What a user interface calls "later" or "idle".
            self._clock.schedule(self.paint)

    def paint(self, *_: Any) -> None:
        self._is_stale = False
        self.painted_at.append(self._clock.clock)
        self.text = ", ".join(f"{game['player']} {game['score']}" for game in self.board or ())


# Virtual time, so that five seconds are over at once. An application gives its user interface's scheduler.
clock: Any = VirtualTimeScheduler()

with reactdb.connect(":memory:") as db:
    games = db.table_create("games")
    games.index_create("score")
    games.insert({"id": number, "player": player, "score": 0} for number, player in enumerate("ABCDE"))

    best = games.order_by(index=desc("score")).limit(3)
    feed = best.changes(
        include_initial=True, include_offsets=True, squash=1 / REPAINTS_PER_S, on_overflow="spill"
    )
    panel = Panel(clock)
    panel.board = reactdb.LiveList(feed, scheduler=clock)
    panel.board.subscribe(panel.invalidate)

    for number in range(SECONDS * WRITES_PER_S):
        games.get(number * number % 5).update({"score": row["score"] + number % 7})
        clock.advance_by(1 / WRITES_PER_S)
    clock.advance_by(1.0)

    per_second = [sum(second <= at < second + 1 for at in panel.painted_at) for second in range(SECONDS)]
    print(f"{SECONDS * WRITES_PER_S} writes in {SECONDS} seconds")
    print(f"at most {REPAINTS_PER_S} repaints a second:", max(per_second) <= REPAINTS_PER_S)
    print(f"repaints in all: {len(panel.painted_at)}")
    print("The last picture is what the query gives:", panel.board == best.run())
    print(panel.text)
