"""latency.svg: the time from the start of a write to the call of a subscriber. Measured.

The times are read from the same monotonic clock in all processes of the machine, which Linux and macOS have.
"""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import reactdb
from docs.pictures.chart import machine
from docs.pictures.svg import LINE, SOFT, TEAL, picture, text

WRITES = 300
# Between two writes, so that each is alone.
PAUSE_S = 0.01

FOLLOWER = """
import sys, time
import reactdb

with reactdb.connect(sys.argv[1]) as db, db["games"].changes(include_initial=True, include_states=True).cursor() as cursor:
    for event in cursor:
        if event.get("state") == "ready":
            print("ready", flush=True)
        elif "new_val" in event:
            print(time.monotonic() - event["new_val"]["at"], flush=True)
"""


def write(games: reactdb.Table) -> None:
    for number in range(WRITES):
        games.insert({"id": number, "at": time.monotonic(), "score": number * 7919 % 1000})
        time.sleep(PAUSE_S)


def in_the_same_thread(durability: str) -> list[float]:
    found: list[float] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        reactdb.connect(Path(folder, "a.db"), durability=durability) as db,
    ):
        games = db.table_create("games")
        games.changes().subscribe(lambda event: found.append(time.monotonic() - event["new_val"]["at"]))
        write(games)
    return found


def in_a_list_beside_a_thousand_feeds() -> list[float]:
    found: list[float] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        reactdb.connect(Path(folder, "a.db"), durability="soft") as db,
    ):
        games = db.table_create("games")
        for number in range(1000):
            games.filter(player=number).changes().subscribe(lambda event: None)
        best = games.order_by("at").live()
        best.subscribe(lambda edits: found.append(time.monotonic() - edits["new_val"]["at"]))
        write(games)
    return found


def in_asyncio() -> list[float]:
    async def follow(games: reactdb.Table) -> list[float]:
        found: list[float] = []
        writer = threading.Thread(target=write, args=(games,))
        async for event in games.changes(include_states=True):
            if event.get("state") == "ready":
                writer.start()
            elif "new_val" in event:
                found.append(time.monotonic() - event["new_val"]["at"])
                if len(found) == WRITES:
                    break
        writer.join()
        return found

    with (
        tempfile.TemporaryDirectory() as folder,
        reactdb.connect(Path(folder, "a.db"), durability="soft") as db,
    ):
        return asyncio.run(follow(db.table_create("games")))


def in_another_process() -> list[float]:
    with (
        tempfile.TemporaryDirectory() as folder,
        reactdb.connect(Path(folder, "a.db"), durability="soft") as db,
    ):
        games = db.table_create("games")
        with subprocess.Popen(
            [sys.executable, "-c", FOLLOWER, db.path], stdout=subprocess.PIPE, text=True
        ) as follower:
            assert follower.stdout is not None
            assert follower.stdout.readline() == "ready\n"
            write(games)
            found = [float(follower.stdout.readline()) for _ in range(WRITES)]
            follower.terminate()
    return found


ROWS: dict[str, Callable[[], list[float]]] = {
    "a function, same program": lambda: in_the_same_thread("soft"),
    'the same, durability="hard"': lambda: in_the_same_thread("hard"),
    "a live list, beside 1,000 feeds": in_a_list_beside_a_thousand_feeds,
    "async for, from a thread": in_asyncio,
    "another process": in_another_process,
}


def draw() -> str:
    width, height, left, top = 760, 320, 230, 84
    least, most = 1e-5, 1e-1

    def x(seconds: float) -> float:
        share = (math.log10(seconds) - math.log10(least)) / (math.log10(most) - math.log10(least))
        return left + min(max(share, 0), 1) * (width - left - 40)

    parts = [text(24, 30, "From the start of a write to the call of a subscriber", more='font-weight="600"')]
    parts += [
        text(
            24,
            48,
            f"bar: the median; line: to the 99th percentile of {WRITES} writes ({machine()})",
            colour=SOFT,
            size=12,
        )
    ]
    for exponent, words in ((-5, "10 µs"), (-4, "100 µs"), (-3, "1 ms"), (-2, "10 ms"), (-1, "100 ms")):
        at = x(10.0**exponent)
        parts += [f'<line x1="{at:.1f}" y1="{top - 14}" x2="{at:.1f}" y2="{height - 38}" stroke="{LINE}"/>']
        parts += [text(at, height - 18, words, colour=SOFT, size=12, anchor="middle")]
    for number, (name, measure) in enumerate(ROWS.items()):
        found = sorted(measure())
        median, late = found[len(found) // 2], found[len(found) * 99 // 100]
        y = top + 40 * number
        parts += [text(left - 12, y + 15, name, size=13, anchor="end")]
        parts += [
            f'<rect x="{left}" y="{y}" width="{x(median) - left:.1f}" height="20" rx="3" fill="{TEAL}"/>'
        ]
        parts += [
            f'<line x1="{x(median):.1f}" y1="{y + 10}" x2="{x(late):.1f}" y2="{y + 10}" stroke="{TEAL}" stroke-width="3"/>'
        ]
        parts += [text(x(late) + 8, y + 15, shown(median), colour=SOFT, size=12)]
    return picture(
        width, height, "How long a subscriber waits for a write: below a millisecond in one program", *parts
    )


def shown(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"
