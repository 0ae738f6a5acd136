"""growth.svg: the size of a file while its documents are updated, by the amount of history that it keeps. Measured."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import reactdb
from docs.pictures.chart import BOTTOM, LEFT, RIGHT, TOP, axes, machine, scale
from docs.pictures.svg import AMBER, INK, SOFT, TEAL, line, picture, text

DOCUMENTS, UPDATES, EACH, STEP = 5_000, 100_000, 100, 5_000


def sizes(retention: int | None) -> list[float]:
    """Megabytes of the closed file after every `STEP` updates, from the start on."""
    random = Random(7)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "growth.db")
        with reactdb.connect(path, durability="soft", retention=retention) as db:
            games = db.table_create("games")
            games.insert({"id": number, "score": 0, "text": "x" * 200} for number in range(DOCUMENTS))
        found = [path.stat().st_size / 1e6]
        for _ in range(UPDATES // STEP):
            # Closed after each step: then all of it is in the file, and nothing in the write-ahead log.
            with reactdb.connect(path, durability="soft") as db:
                for _ in range(STEP // EACH):
                    with db.transaction():
                        for _ in range(EACH):
                            db["games"].get(random.randrange(DOCUMENTS)).update(
                                {"score": random.randrange(1000)}
                            )
            found.append(path.stat().st_size / 1e6)
    return found


def draw() -> str:
    kept = {
        "all history": (None, AMBER),
        "the last 20,000 changes": (20_000, TEAL),
        "the last 1,000 changes": (1_000, INK),
    }
    lines = {name: (sizes(retention), colour) for name, (retention, colour) in kept.items()}
    width, height = 780, 400
    most = max(max(found) for found, _ in lines.values())
    top = 10 * (int(most / 10) + 1)
    x, y = scale(0, UPDATES, LEFT, width - RIGHT - 160), scale(0, top, height - BOTTOM, TOP)
    marks = range(0, top + 1, 10 if top <= 60 else 20)
    parts = [text(LEFT, 30, "Size of a file while 5,000 documents are updated", more='font-weight="600"')]
    parts += [text(LEFT, 48, f"megabytes, by the history that it keeps ({machine()})", colour=SOFT, size=12)]
    parts += axes(
        x,
        y,
        {n: f"{n:,}" for n in range(0, UPDATES + 1, 25_000)},
        {n: str(n) for n in marks},
        "updates",
        width - 160,
        height,
    )
    for name, (found, colour) in lines.items():
        parts += [line([(x(number * STEP), y(value)) for number, value in enumerate(found)], colour)]
        parts += [text(x(UPDATES) + 8, y(found[-1]) + 4, name, colour=colour, size=12)]
    return picture(
        width,
        height,
        "The size of a file grows with each change until it has reached the history that it keeps",
        *parts,
    )
