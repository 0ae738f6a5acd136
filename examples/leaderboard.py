"""Keep a list on a screen in step with a query: order, limit, and where each change happens in the list.

Run: python examples/leaderboard.py
"""

from __future__ import annotations

from typing import Any

import reactdb
from reactdb import desc, row


class Board:
    """What a screen would show. It never asks the database: the events say what to delete and insert, and where."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def apply(self, event: dict[str, Any]) -> None:
        if event.get("old_offset") is not None:
            del self.lines[event["old_offset"]]
        if event.get("new_offset") is not None:
            self.lines.insert(event["new_offset"], event["new_val"])

    def show(self, title: str) -> None:
        print(f"{title}:", ", ".join(f"{line['player']} {line['score']}" for line in self.lines))


with reactdb.connect(":memory:") as db:
    games = db.table_create("games")
    games.index_create("score")
    games.insert(
        {"id": number, "player": player, "score": score}
        for number, (player, score) in enumerate([("Ann", 50), ("Bob", 40), ("Cem", 70), ("Dia", 60)])
    )

    best = games.order_by(index=desc("score")).limit(3)
    board = Board()
    best.changes(include_initial=True, include_offsets=True).subscribe(board.apply)
    board.show("To begin with")

    games.get(1).update({"score": row["score"] + 100})
    board.show("Bob has a good day")

    # One commit, several changes: the board takes them one after the other.
    with db.transaction():
        games.insert({"id": 9, "player": "Eve", "score": 65})
        games.get(2).delete()
    board.show("Eve for Cem")

    assert board.lines == best.run()
    print("The board is what the query gives.")
