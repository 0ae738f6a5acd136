"""A list that stays current: the three best players, for a window or a terminal.

Run: python examples/leaderboard/main.py
"""

from __future__ import annotations

from typing import Any

import reactdb
from reactdb import desc, row


def show(title: str, best: reactdb.LiveList) -> None:
    print(f"{title}:", ", ".join(f"{game['player']} {game['score']}" for game in best))


def show_edits(edits: list[dict[str, Any]]) -> None:
    """What a window does to its rows. It is called once for each commit that changes the list."""
    for edit in edits:
        if edit["old_offset"] is not None:
            print(f"  delete row {edit['old_offset']}")
        if edit["new_offset"] is not None:
            print(f"  insert row {edit['new_offset']}: {edit['new_val']['player']}")


with reactdb.connect(":memory:") as db:
    games = db.table_create("games")
    games.index_create("score")
    games.insert(
        {"id": number, "player": player, "score": score}
        for number, (player, score) in enumerate([("Ann", 50), ("Bob", 40), ("Cem", 70), ("Dia", 60)])
    )

    best = games.order_by(index=desc("score")).limit(3).live()
    show("At first", best)

    games.get(1).update({"score": row["score"] + 100})
    show("Bob has a good day", best)

    best.subscribe(show_edits)
    with db.transaction():
        games.insert({"id": 9, "player": "Eve", "score": 65})
        games.get(2).delete()
    show("One commit, two writes", best)

    assert best == games.order_by(index=desc("score")).limit(3).run()
    print("The list equals a fresh query.")
