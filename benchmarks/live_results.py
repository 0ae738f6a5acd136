"""`python -m benchmarks.live_results`: what a live list costs, as ratios in one run: to read, to begin, to follow, to switch.

    python -m benchmarks.live_results                100,000 documents, five rounds, about half a minute
    python -m benchmarks.live_results --rows 1000    fewer

Each round does everything in turn, and a ratio is formed within a round; the median of the ratios is printed. CPU of the
process. `run` is what reading and decoding the rows costs, into documents of which nobody shares one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import reactdb
from reactdb import row

BATCH = 100
ROUNDS = 5


def cpu_of(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds, and the result."""
    begin = time.process_time()
    result = work()
    return time.process_time() - begin, result


def measure(rows: int) -> dict[str, float]:
    """One round: CPU seconds by what was done."""
    figures: dict[str, float] = {}
    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")
        games.insert([{"id": key, "v": key * 7919 % 100_003, "name": f"n{key}"} for key in range(rows)])
        by_value = games.order_by("v")
        figures["run"], _ = cpu_of(games.run)
        figures["run in order"], _ = cpu_of(by_value.run)
        figures["live"], one = cpu_of(games.live)
        one.close()
        figures["live in order"], board = cpu_of(by_value.live)
        assert len(board) == rows
        batch = [{"id": rows + number, "v": number * 997 % rows} for number in range(BATCH)]
        board.close()
        figures["a batch, no list"], _ = cpu_of(lambda: games.insert(batch))
        games.get_all(*range(rows, rows + BATCH)).delete()
        with by_value.live() as board:
            heard: list[int] = []
            board.subscribe(lambda edits: heard.append(len(edits)))
            figures["a batch to a list"], _ = cpu_of(lambda: games.insert(batch))
            assert heard == [BATCH]

            def switch() -> None:
                board.selection = games.filter(row["v"] < rows // 2).order_by("v")

            figures["another selection"], _ = cpu_of(switch)
            assert len(heard) == 2
    return figures


RATIOS = (
    ("live", "run"),
    ("live in order", "run in order"),
    ("a batch to a list", "a batch, no list"),
    ("another selection", "live in order"),
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live_results")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    chosen = parser.parse_args()
    rounds = [measure(chosen.rows) for _ in range(chosen.rounds)]
    for name, base in RATIOS:
        ratio = median(one[name] / one[base] for one in rounds)
        cpu_ms = median(one[name] for one in rounds) * 1e3
        print(f"{name}: {cpu_ms:.1f} ms CPU, {ratio:.1f} x {base}")


if __name__ == "__main__":
    main()
