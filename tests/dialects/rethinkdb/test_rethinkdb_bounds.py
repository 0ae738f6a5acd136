"""Work that ends: whatever a term of ReQL does, it spends the budget in proportion to the time that it takes.

A budget looks at the clock after `STEPS` steps. So where no step takes longer than `MOST_STEP_S`, a query ends a second after its
time at the latest. Each term of the register is given values that are large for it, and the time that a step takes is measured:
the bound is some ten to some hundred times what it takes on an idle machine. The time is the thread's own.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from reactdb import budget
from reactdb.budget import STEPS, Budget
from reactdb.dialects.rethinkdb.evaluator import Evaluator, RunOptions
from reactdb.dialects.rethinkdb.parse import parse
from reactdb.dialects.rethinkdb.terms import TERM_TYPES, Term, TermType
from reactdb.dialects.rethinkdb.values import Sequence, Single
from reactdb.errors import ReactDBError
from tests.support.rethinkdb_terms import VALID, Undo, function, games_database
from tests.support.scaling import part_of

MOST_STEP_S = 150e-6
# What takes so long is not tried again: no disturbance of a thread's own time is as long.
MOST_TRIED_S = 0.05
# What a term may take by itself, such as to plan a query, however large its values are.
ITSELF_S = 0.5e-3
COUNT = 400
ARRAY_LIMIT = 100_000
# These read or write what a database consists of, and no documents.
OF_ADMINISTRATORS = {
    *("db_create", "db_drop", "table_create", "table_drop", "index_create", "index_drop", "index_rename"),
    *("reconfigure", "rebalance", "sync", "config", "set_write_hook", "wait", "grant", "changes"),
}

# Values that are large, each in a variable: a query's text with them would take longer to read than what is tried.
LARGE: dict[str, Any] = {
    "numbers": list(range(COUNT)),
    "texts": [f"f{number}" for number in range(COUNT)],
    "documents": [
        {"id": number, "room": str(number % 7), "a": [number], "left": {"a": 1}, "right": {"b": number}}
        for number in range(COUNT)
    ],
    "pairs": [[f"f{number}", number] for number in range(COUNT)],
    "object": {f"f{number}": number for number in range(COUNT)},
    "text": "abcdefgh " * (COUNT * 8),
    "digits": "7" * COUNT,
    "json": json.dumps(list(range(COUNT))),
    "bytes": b"abcdefgh " * (COUNT * 8),
}
VARIABLES = dict(enumerate(LARGE, start=101))
SCOPE = {number: LARGE[name] for number, name in VARIABLES.items()}
GIVEN: dict[str, Any] = {
    **{name: [10, [number]] for number, name in VARIABLES.items()},
    "table": [15, ["large"]],
    "range": [173, [COUNT]],
    "a function": function(False, 1),
    "a function of two": function(True, 1, 2),
    "a number": 1,
    "a name": "id",
}
OTHERS = ("numbers", "texts", "a function", "a number", "a name")


class Counter(Budget):
    """A budget without an end, which counts what is spent."""

    steps = 0

    def spend(self, steps: int) -> None:
        assert steps >= 0
        self.steps += steps


@pytest.fixture(scope="module")
def db() -> Iterator[Any]:
    with games_database() as database:
        large = database.table_create("large")
        large.insert([{"id": number, "room": str(number % 7), "a": [number] * 20} for number in range(300)])
        large.index_create("room")
        yield database


def arguments_of(kind: TermType) -> Iterator[list[Any]]:
    """Valid arguments with each in turn replaced by a large value, and large values with all others."""
    for valid in VALID.get(kind.name, []):
        for place in range(len(valid)):
            for given in GIVEN.values():
                yield [*valid[:place], given, *valid[place + 1 :]]
    count = max(kind.at_least, 2)
    for given in GIVEN.values():
        if kind.at_least <= 1:
            yield [given]
        if kind.at_most is None or count <= kind.at_most:
            for name in OTHERS:
                yield [given, *[GIVEN[name]] * (count - 1)]


def read(evaluator: Evaluator, term: Term) -> None:
    value = evaluator.run(term, SCOPE)
    if isinstance(value, Sequence):
        for _ in evaluator.elements(value, ()):
            pass
    elif isinstance(value, Single):
        value.document()


def seconds_a_step(db: Any, term: Term) -> float | None:
    """How many seconds of computing a step takes, in the quickest of some tries: the others may have been disturbed. None: the
    term does not work with these values."""
    least = float("inf")
    for _ in range(5):
        counter = Counter()
        outer = budget.current.set(counter)
        began = time.thread_time()
        try:
            with db.transaction():
                read(Evaluator(db, RunOptions()), term)
                took_s = time.thread_time() - began
                raise Undo
        except Undo:
            least = min(least, max(0.0, took_s - ITSELF_S) / max(counter.steps, 1))
        except ReactDBError:
            return None
        finally:
            budget.current.reset(outer)
        # A try that was disturbed says nothing: what seems to be too slow is tried again.
        if least < MOST_STEP_S / 2 or (least < MOST_STEP_S and took_s > MOST_TRIED_S):
            break
    return least


@pytest.fixture(autouse=True)
def without_collections() -> Iterator[None]:
    """A collection of garbage in the middle would be counted as work of the term."""
    gc.disable()
    yield
    gc.enable()


def terms_of(kind: TermType) -> Iterator[tuple[Term, list[Any]]]:
    for arguments in arguments_of(kind):
        try:
            term = parse([69, [[2, list(VARIABLES)], [kind.number, arguments]]], ARRAY_LIMIT).arguments[0]
        except ReactDBError:
            continue
        yield term, arguments


KINDS = [kind for kind in TERM_TYPES.values() if kind.name not in OF_ADMINISTRATORS]


@pytest.mark.examples
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_each_term_spends_the_budget(db: Any, kind: TermType) -> None:
    slow = []
    for term, arguments in part_of(terms_of(kind)):
        a_step_s = seconds_a_step(db, term)
        if a_step_s is not None and a_step_s >= MOST_STEP_S:
            slow.append((f"{a_step_s * 1e6:.0f} us", arguments))

    assert [] == slow


def test_steps_are_counted_before_a_second_is_over() -> None:
    assert STEPS * MOST_STEP_S < 1


def test_the_terms_that_are_not_tried_are_there() -> None:
    assert {kind.name for kind in TERM_TYPES.values()} >= OF_ADMINISTRATORS
