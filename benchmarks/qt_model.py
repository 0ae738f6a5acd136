"""`python -m benchmarks.qt_model`: what a model of Qt costs the thread of the window.

    python -m benchmarks.qt_model                 100,000 rows, 1,000 commits a second for five seconds, about half a minute
    python -m benchmarks.qt_model --rows 1000

A table with four columns is shown (offscreen, if there is no other platform). A timer of one millisecond in the window's
thread measures how long the thread stands still: what it waits for, a repaint, a step of the model or the interpreter's lock,
does not matter to the user.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import reactdb
from reactdb import desc, row
from reactdb.qt import FeedTableModel
from reactdb.qt.binding import BINDING, QtCore, load

QtWidgets = load("QtWidgets")
RATE = 1_000


class MeasuredModel(FeedTableModel):
    """Notes the CPU that it takes from the window's thread, in milliseconds: for each time that it takes commits."""

    takes: list[float] = []  # noqa: RUF012

    def _take(self) -> None:
        begin = time.thread_time()
        super()._take()
        self.takes.append((time.thread_time() - begin) * 1000)

    def describe_cost(self) -> str:
        takes, self.takes[:] = sorted(self.takes), []
        return f"the model {sum(takes):.1f} ms CPU in {len(takes)} parts, longest {takes[-1]:.1f}, median {median(takes):.2f}"


class Pulse:
    """The gaps between the beats of a timer, in milliseconds."""

    def __init__(self) -> None:
        self.gaps: list[float] = []
        self._last = time.perf_counter()
        self._timer = QtCore.QTimer()
        self._timer.setTimerType(QtCore.Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._beat)
        self._timer.start(1)

    def _beat(self) -> None:
        now = time.perf_counter()
        self.gaps.append((now - self._last) * 1000)
        self._last = now

    def reset(self) -> None:
        self.gaps.clear()
        self._last = time.perf_counter()

    def describe(self) -> str:
        gaps = sorted(self.gaps)
        p50, p99 = gaps[len(gaps) // 2], gaps[int(len(gaps) * 0.99)]
        return f"standing still p50 {p50:.1f} ms, p99 {p99:.1f}, longest {gaps[-1]:.1f}"


def run_until(is_done: Callable[[], bool], most_s: float = 120) -> None:
    loop, end = QtCore.QEventLoop(), time.monotonic() + most_s
    watch = QtCore.QTimer()
    watch.timeout.connect(lambda: loop.quit() if is_done() or time.monotonic() > end else None)
    watch.start(5)
    loop.exec()
    assert is_done(), "it took too long"


def write(db: reactdb.Database, rows: int, seconds: float, done: threading.Event) -> None:
    """Commits at a steady rate: nine changes of a value, which move a row, and then an insertion."""
    readings, chosen = db.table("readings"), random.Random(7)
    begin = time.perf_counter()
    for number in range(int(RATE * seconds)):
        wait_s = begin + number / RATE - time.perf_counter()
        if wait_s > 0:
            time.sleep(wait_s)
        if number % 10 == 9:
            readings.insert(
                {"id": rows + number, "value": chosen.randrange(rows), "name": "new", "unit": "°C"}
            )
        else:
            readings.get(chosen.randrange(rows)).update({"value": chosen.randrange(rows)})
    print(f"    {int(RATE * seconds) / (time.perf_counter() - begin):,.0f} commits a second")
    done.set()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.qt_model")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=5.0)
    chosen = parser.parse_args()
    application = QtWidgets.QApplication([])
    with tempfile.TemporaryDirectory() as folder:
        db = reactdb.connect(Path(folder) / "readings.db", durability="soft")
        readings = db.table_create("readings")
        readings.insert(
            {"id": number, "value": number * 7919 % chosen.rows, "name": f"sensor {number}", "unit": "°C"}
            for number in range(chosen.rows)
        )
        print(f"{BINDING} {QtCore.qVersion()}, {chosen.rows:,} rows")
        view = QtWidgets.QTableView()
        view.resize(800, 600)
        pulse = Pulse()
        view.show()
        rest = time.monotonic() + 1
        run_until(lambda: time.monotonic() > rest)
        print(f"an empty window, for comparison: {pulse.describe()}")
        pulse.reset()
        begin = time.perf_counter()
        model = MeasuredModel(readings.order_by("value"), ["id", "value", "name", "unit"])
        view.setModel(model)
        run_until(lambda: model.rowCount() == chosen.rows)
        print(f"start: {time.perf_counter() - begin:.2f} s; {pulse.describe()}; {model.describe_cost()}")
        for name, selection in (
            ("the order turned round", readings.order_by(desc("value"))),
            ("half of the rows", readings.filter(row["value"] % 2 == 0).order_by("value")),
            ("all rows", readings.order_by("value")),
        ):
            pulse.reset()
            begin = time.perf_counter()
            model.selection = selection
            run_until(lambda: model.state == "live")
            print(f"{name}: {time.perf_counter() - begin:.2f} s; {pulse.describe()}; {model.describe_cost()}")
        done = threading.Event()
        threading.Thread(target=write, args=(db, chosen.rows, chosen.seconds, done)).start()
        pulse.reset()
        run_until(done.is_set)
        print(f"{RATE:,} commits a second: {pulse.describe()}; {model.describe_cost()}")
        model.close()
        db.close()
    application.quit()


if __name__ == "__main__":
    main()
