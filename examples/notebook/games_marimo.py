"""reactdb in marimo: a table that shows itself, and a live table.

Run: marimo edit examples/notebook/games_marimo.py
"""

import marimo

app = marimo.App()


@app.cell
def _():
    import random
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
    return LiveTable, desc, games, random, time


@app.cell
def _(games):
    games  # noqa: B018
    return


@app.cell
def _(LiveTable, desc, games):
    LiveTable(games.order_by(desc("score")), columns=["player", "score"], rows=10)
    return


@app.cell
def _(games, random, time):
    chance = random.Random(7)
    for _number in range(1_000):
        games.get(chance.randrange(1_000)).update({"score": chance.randrange(1_000)})
        time.sleep(0.002)
    games.count().run()
    return


if __name__ == "__main__":
    app.run()
