"""How far a journey goes through the house: the calls of reactdb's own functions, the files that they enter, the depth.

    python -m tests.trace               every journey, a line each
    python -m tests.trace insert        the journeys that have these words in their names
    python -m tests.trace --files       and the files, in the order in which they are entered
    python -m tests.trace --calls       and every call, indented by its depth

Each journey is made once before it is counted, so that imports and caches do not count, in a file with hard durability. This is
a thermometer and not a gate: two ideas in one file would lower the figures, and the house would be worse.

Rule of this file: it reports, and judges nothing.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any

import reactdb
from reactdb import row

PACKAGE = Path(reactdb.__file__).resolve().parent
# Frames of their own in some versions of Python and not in others.
COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}

Journey = Callable[[], object]


@dataclass
class Trace:
    """The calls of a journey in order, each as (depth, function). The depth is 1 for what the program itself calls."""

    calls: list[tuple[int, CodeType]] = field(default_factory=list)

    @property
    def functions(self) -> int:
        return len({code for _, code in self.calls})

    @property
    def files(self) -> list[str]:
        """The files of the package that were entered, from the first to the last."""
        return list(dict.fromkeys(file_of(code) for _, code in self.calls))

    @property
    def depth(self) -> int:
        return max((depth for depth, _ in self.calls), default=0)


def file_of(code: CodeType) -> str:
    """Where a function stands, from the package's folder on."""
    return Path(code.co_filename).resolve().relative_to(PACKAGE).as_posix()


def is_ours(code: CodeType) -> bool:
    """Whether a function stands in a file of the package. What is generated for an expression does not."""
    return code.co_filename.startswith(str(PACKAGE)) and code.co_name not in COMPREHENSIONS


def traced(journey: Journey) -> Trace:
    """Make the journey on this thread, and keep what it calls."""
    found = Trace()
    depth = 0

    def see(frame: FrameType, event: str, _: Any) -> None:
        nonlocal depth
        if event in {"call", "return"} and is_ours(frame.f_code):
            if event == "call":
                depth += 1
                found.calls.append((depth, frame.f_code))
            else:
                depth -= 1

    # What others have dropped is not to be finalized on the way.
    was_enabled = gc.isenabled()
    gc.disable()
    before = sys.getprofile()
    sys.setprofile(see)
    try:
        journey()
    finally:
        sys.setprofile(before)
        if was_enabled:
            gc.enable()
    return found


def inserting(table: Any) -> Journey:
    """Each time another document, which the condition `score > 10` selects."""
    numbers = count(1)
    return lambda: table.insert({"id": next(numbers), "score": 20})


def insert(table: Any) -> Journey:
    return inserting(table)


def insert_and_callback(table: Any) -> Journey:
    table.changes().subscribe(lambda event: None)
    return inserting(table)


def insert_and_cursor(table: Any) -> Journey:
    cursor = iter(table.filter(row["score"] > 10).changes())
    write = inserting(table)

    def journey() -> None:
        write()
        next(cursor)

    return journey


def get(table: Any) -> Journey:
    table.insert({"id": 1})
    return lambda: table.get(1).run()


def subscribe(table: Any) -> Journey:
    return lambda: table.changes().subscribe(lambda event: None).dispose()


def subscribe_to_filter(table: Any) -> Journey:
    return lambda: table.filter(row["score"] > 10).changes().subscribe(lambda event: None).dispose()


JOURNEYS: dict[str, Callable[[Any], Journey]] = {
    "insert(doc), nobody listens": insert,
    "insert(doc), one callback on the table": insert_and_callback,
    "insert(doc), a filter feed read by a cursor": insert_and_cursor,
    "get(key).run()": get,
    "changes().subscribe(f) and dispose": subscribe,
    "filter(...).changes().subscribe(f) and dispose": subscribe_to_filter,
}


def trace_of(name: str) -> Trace:
    """One of JOURNEYS, in a database of its own."""
    with TemporaryDirectory() as folder, reactdb.connect(Path(folder, "games.db")) as db:
        journey = JOURNEYS[name](db.table_create("games"))
        journey()
        return traced(journey)


def report(name: str, trace: Trace) -> str:
    return f"{name:<54}{len(trace.calls):>6}{trace.functions:>10}{len(trace.files):>7}{trace.depth:>7}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.trace", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("words", nargs="*", help="only journeys with one of these words in their names")
    parser.add_argument(
        "--files", action="store_true", help="also the files, in the order in which they are entered"
    )
    parser.add_argument("--calls", action="store_true", help="also every call, indented by its depth")
    arguments = parser.parse_args(argv)
    print(f"{'journey':<54}{'calls':>6}{'functions':>10}{'files':>7}{'depth':>7}")
    for name in JOURNEYS:
        if arguments.words and not any(word in name for word in arguments.words):
            continue
        trace = trace_of(name)
        print(report(name, trace))
        if arguments.files:
            print("\n".join(f"    {number:>2} {file}" for number, file in enumerate(trace.files, 1)))
        if arguments.calls:
            for depth, code in trace.calls:
                print(f"    {'  ' * depth}{code.co_qualname}  {file_of(code)}:{code.co_firstlineno}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
