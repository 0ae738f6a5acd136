"""reactdb in marimo: a table that shows itself, and a live table.

Run: marimo edit examples/notebook/games_marimo.py
"""

import marimo

app = marimo.App()


@app.cell
def _():
    import random
    import threading
    import time

    import reactdb
    from reactdb import desc

    try:
        from reactdb.notebook import LiveTable
    except ModuleNotFoundError as missing:
        raise SystemExit(str(missing)) from None

    db = reactdb.connect(":memory:")
    games = db.table_create("games")
    games.insert(
        [{"id": number, "player": f"player {number}", "score": number % 97} for number in range(1_000)]
    )
    db  # noqa: B018
    return LiveTable, desc, games, random, threading, time


@app.cell
def _(games):
    games  # noqa: B018
    return


@app.cell
def _(LiveTable, desc, games):
    LiveTable(games.order_by(desc("score")), columns=["player", "score"], rows=10)
    return


@app.cell
def _(games, random, threading, time):
    def write():
        chance = random.Random(7)
        for _ in range(1_000):
            games.get(chance.randrange(1_000)).update({"score": chance.randrange(1_000)})
            time.sleep(0.01)

    # In a thread: marimo passes the requests of a table on between two cells.
    threading.Thread(target=write, daemon=True).start()
    return


if __name__ == "__main__":
    app.run()
