"""What a journey costs, counted and not timed: calls, files, frames and bytecodes of Python.

    python -m tests.trace               every journey, a line each
    python -m tests.trace insert        the journeys that have these words in their names
    python -m tests.trace --files       and the files, in the order in which they are entered
    python -m tests.trace --calls       and every call, indented by its depth

Calls, functions, files and depth are of reactdb's own functions. Frames and bytecodes are of all Python code that runs, also of
the standard library; for a transaction they are those of one write in it. Each journey is made a few times before it is counted,
so that imports and caches do not count, in a file with hard durability. `tests/house/test_costs.py` has a limit for each journey.

Rule of this file: it reports, and judges nothing.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any

import reactdb
from reactdb import row
from reactdb.store import follow

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


@dataclass
class Costs:
    """Frames that were entered and bytecodes that were executed."""

    frames: int = 0
    bytecodes: int = 0


def count_costs(journey: Journey) -> Costs:
    """Make the journey on this thread, and count what Python executes."""
    costs = Costs()

    def step(frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode":
            costs.bytecodes += 1
        return step

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        costs.frames += 1
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        return step

    was_enabled = gc.isenabled()
    gc.disable()
    before = sys.gettrace()
    sys.settrace(enter)
    try:
        journey()
    finally:
        sys.settrace(before)
        if was_enabled:
            gc.enable()
    return costs


# A journey is made this often before it is counted, and counted this often. The least is taken, because one write in 32 also
# writes the running sums.
WARM_UP, COUNTED = 5, 5
# Steps of a transaction that is counted as a whole.
STEPS = 100
# Characters of the printed table.
NAME_WIDTH = 54


def insert_documents(table: Any) -> Journey:
    """Each time another document, which the condition `score > 10` selects."""
    numbers = count(1)
    return lambda: table.insert({"id": next(numbers), "score": 20})


def update_document(table: Any) -> Journey:
    """Each time another value of a document that is there."""
    table.insert({"id": 1, "score": 0})
    numbers = count(1)
    return lambda: table.get(1).update({"score": next(numbers)})


def update_documents(db: Any, table: Any) -> Journey:
    """Each time another value of STEPS documents, in one transaction."""
    table.insert([{"id": number, "score": 0} for number in range(STEPS)])
    scores = count(1)

    def journey() -> None:
        score = next(scores)
        with db.transaction():
            for number in range(STEPS):
                table.get(number).update({"score": score})

    return journey


def insert(db: Any) -> Journey:
    return insert_documents(db.table_create("games"))


def insert_and_callback(db: Any) -> Journey:
    table = db.table_create("games")
    table.changes().subscribe(lambda event: None)
    return insert_documents(table)


def insert_and_cursor(db: Any) -> Journey:
    table = db.table_create("games")
    cursor = iter(table.filter(row["score"] > 10).changes())
    write = insert_documents(table)

    def journey() -> None:
        write()
        next(cursor)

    return journey


def update(db: Any) -> Journey:
    return update_document(db.table_create("games"))


def update_and_callback(db: Any) -> Journey:
    table = db.table_create("games")
    table.changes().subscribe(lambda event: None)
    return update_document(table)


def update_in_transaction(db: Any) -> Journey:
    return update_documents(db, db.table_create("games"))


def update_in_squashed_transaction(db: Any) -> Journey:
    table = db.table_create("games")
    table.changes(squash=3600).subscribe(lambda event: None)
    return update_documents(db, table)


def update_and_filters(db: Any) -> Journey:
    table = db.table_create("games")
    for number in range(100):
        table.filter(row["score"] == -number).changes().subscribe(lambda event: None)
    return update_document(table)


def update_and_top(db: Any) -> Journey:
    table = db.table_create("games")
    table.index_create("score")
    table.insert([{"id": number, "score": number} for number in range(2, 50)])
    table.order_by(index="score").limit(10).changes().subscribe(lambda event: None)
    return update_document(table)


def get(db: Any) -> Journey:
    table = db.table_create("games")
    table.insert({"id": 1})
    return lambda: table.get(1).run()


def subscribe(db: Any) -> Journey:
    table = db.table_create("games")
    # The first feed of a database and its end do more than those of the others.
    table.changes().subscribe(lambda event: None)
    return lambda: table.changes().subscribe(lambda event: None).dispose()


def subscribe_to_filter(db: Any) -> Journey:
    table = db.table_create("games")
    kept = []
    return lambda: kept.append(table.filter(row["score"] > 10).changes().subscribe(lambda event: None))


def dispose_of_filter(db: Any) -> Journey:
    table = db.table_create("games")
    kept = [
        table.filter(row["score"] > 10).changes().subscribe(lambda event: None)
        for _ in range(2 * (WARM_UP + COUNTED))
    ]
    return lambda: kept.pop().dispose()


def insert_one(db: Any) -> Journey:
    collection = reactdb.mongodb(db)["play"]["games"]
    numbers = count(1)
    return lambda: collection.insert_one({"_id": next(numbers), "score": 20})


def update_one(db: Any) -> Journey:
    collection = reactdb.mongodb(db)["play"]["games"]
    collection.insert_one({"_id": 1, "score": 0})
    numbers = count(1)
    return lambda: collection.update_one({"_id": 1}, {"$set": {"score": next(numbers)}})


JOURNEYS: dict[str, Callable[[Any], Journey]] = {
    "insert(doc), nobody listens": insert,
    "insert(doc), one callback on the table": insert_and_callback,
    "insert(doc), a filter feed read by a cursor": insert_and_cursor,
    "update(patch), nobody listens": update,
    "update(patch), one callback on the table": update_and_callback,
    "update(patch), 100 filter feeds, none concerned": update_and_filters,
    "update(patch), a feed of the first 10": update_and_top,
    "update(patch) in a transaction of 100": update_in_transaction,
    "update(patch) in a transaction of 100, squashed": update_in_squashed_transaction,
    "get(key).run()": get,
    "changes().subscribe(f) and dispose": subscribe,
    "filter(...).changes().subscribe(f)": subscribe_to_filter,
    "dispose of filter(...).changes()": dispose_of_filter,
    "MongoDB in the process: insert_one(doc)": insert_one,
    "MongoDB in the process: update_one(filter, update)": update_one,
}


@contextmanager
def without_follower() -> Iterator[None]:
    """Let no thread look for commits of other processes during the block, because there are none.

    A poll takes the publish lock and a reader of the pool. If it happens during a journey, the poll removes the ended
    subscription instead of the journey, and the journey may get a reader that does not know the latest commit yet. So the counts
    would depend on the moment of the poll.
    """
    # Not by unittest.mock: it imports asyncio, and where that is imported, each step looks for the running task.
    watch = follow.watch
    follow.watch = lambda engine: None
    try:
        yield
    finally:
        follow.watch = watch


def trace_of(name: str) -> tuple[Trace, Costs]:
    """One of JOURNEYS, in a database of its own. Its costs are those of a step."""
    with without_follower(), TemporaryDirectory() as folder, reactdb.connect(Path(folder, "games.db")) as db:
        journey = JOURNEYS[name](db)
        for _ in range(WARM_UP):
            journey()
        trace = traced(journey)
        costs = min((count_costs(journey) for _ in range(COUNTED)), key=lambda each: each.bytecodes)
    steps = STEPS if "transaction" in name else 1
    return trace, Costs(round(costs.frames / steps), round(costs.bytecodes / steps))


def report(name: str, trace: Trace, costs: Costs) -> str:
    return (
        f"{name:<{NAME_WIDTH}}{len(trace.calls):>6}{trace.functions:>10}{len(trace.files):>7}{trace.depth:>7}"
        f"{costs.frames:>8}{costs.bytecodes:>11}"
    )


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
    print(
        f"{'journey':<{NAME_WIDTH}}{'calls':>6}{'functions':>10}{'files':>7}{'depth':>7}{'frames':>8}{'bytecodes':>11}"
    )
    for name in JOURNEYS:
        if arguments.words and not any(word in name for word in arguments.words):
            continue
        trace, costs = trace_of(name)
        print(report(name, trace, costs))
        if arguments.files:
            print("\n".join(f"    {number:>2} {file}" for number, file in enumerate(trace.files, 1)))
        if arguments.calls:
            for depth, code in trace.calls:
                print(f"    {'  ' * depth}{code.co_qualname}  {file_of(code)}:{code.co_firstlineno}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
