"""Keepers: processes that keep tables equal to selections are killed at random moments, in steps and while they build.

    python -m tests.crash --keeper-kills 2000

A scenario is one file with a table of orders, and some processes that keep three tables of it: a part, totals by city, and the
first of an order. They write orders, too. The parent kills them, and the next one takes their place. Now and then it drops a kept
table, so that one dies while it is built, and compacts.

After each kill every kept table that is whole is compared with its selection as of the position that the file says.

Rule of this file: what the processes do, and what must be true of the file. How they are killed is in `killing`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import reactdb
from reactdb import row
from reactdb.durable import keyed_result, materialized_views
from reactdb.session import session_of
from reactdb.store.leases import Lease, read_lease
from reactdb.store.materialized_tables import MATERIALIZED
from reactdb.store.positions import find_position
from reactdb.store.transaction import WriteTransaction

from . import killing
from .killing import Broken

LEASE_S = 0.4

SELECTIONS: dict[str, Callable[[Any], Any]] = {
    "high": lambda orders: orders.filter(row["euros"] > 50).pluck("id", "euros"),
    "totals": lambda orders: orders.group("city").sum("euros"),
    "best": lambda orders: orders.order_by(reactdb.desc("euros")).limit(5),
}


def expected(name: str, db: Any) -> list[Any]:
    found = SELECTIONS[name](db.table("orders")).run()
    if name == "totals":
        return [{"id": one["group"], "sum": one["reduction"]} for one in found]
    return sorted(found, key=lambda one: one["id"])


def without_fence() -> None:
    """Whoever writes a step is believed."""

    def believe(transaction: WriteTransaction, held: Lease) -> Lease:
        return read_lease(transaction.connection, held.name, held.partition) or held

    materialized_views.check_still_held = believe


def apart_from_the_documents() -> None:
    """Only what comes to more than one document is written; the position moves all the same."""
    write = materialized_views.write_kept

    def some(transaction: Any, table: Any, documents: Any) -> None:
        write(transaction, table, list(documents)[1:])

    materialized_views.write_kept = some


def half_built() -> None:
    """A table is whole when the first part of it is there."""
    for shape in (keyed_result.KeyedRows, keyed_result.KeyedValues, keyed_result.KeyedList):
        initial = shape.initial

        def first(self: Any, reader: Any, past: Any, initial: Any = initial) -> Any:
            yield from ([documents[0]] for documents in list(initial(self, reader, past))[:1])

        shape.initial = first  # type: ignore[method-assign]


MUTANTS: dict[str, Broken] = {
    "whoever writes is believed": without_fence,
    "the position moves without the documents": apart_from_the_documents,
    "a table that was begun is taken as whole": half_built,
}


def keep(db: reactdb.Database, folder: str) -> None:
    """What a keeper does."""
    orders = db.table("orders")
    random = Random(os.getpid())
    kept: dict[str, Any] = {}
    while True:
        for name, selection in SELECTIONS.items():
            try:
                if name not in kept:
                    follow = random.random() < 0.7
                    kept[name] = db.materialize(selection(orders), name, follow=follow, lease_s=LEASE_S)
                elif random.random() < 0.3:
                    kept[name].catch_up()
            except (reactdb.errors.LeaseLost, reactdb.HistoryLost):
                # Another one builds it; or is not heard of, and history went on.
                continue
        write(orders, random)


def write(orders: Any, random: Random) -> None:
    """Some orders, in one commit."""
    key = random.randrange(60)
    if random.random() < 0.2:
        orders.get(key).delete()
        return
    found = [
        {"id": (key + number) % 60, "city": random.choice("abcd"), "euros": random.choice([0.1, 7, 60, 99])}
        for number in range(random.choice([1, 1, 5]))
    ]
    orders.insert(found, conflict="replace")


@dataclass
class Outcome(killing.Outcome):
    looks: int = 0

    def __str__(self) -> str:
        verdict = "LOSS" if self.losses else "exact at each look"
        return (
            f"seed {self.seed}: {self.kills} kills, {self.looks} looks, {self.changes:,} changes, {self.seconds:.1f} s: "
            f"{verdict}"
        )


class Keepers(killing.Killing):
    """See the head of this file."""

    work = staticmethod(keep)
    mutants = MUTANTS
    kills_of_one = 50

    def __init__(self, seed: int, folder: Path, *, keepers: int = 3, mutant: str = "") -> None:
        super().__init__(Outcome(seed), folder, processes=keepers, mutant=mutant)
        orders = self.db.table_create("orders")
        # So many that the first of the tables is built in steps.
        orders.insert([{"id": number, "city": "a", "euros": number % 60} for number in range(1_200)])

    def step(self) -> None:
        time.sleep(self.random.random() * self.random.choice([0.01, 0.05, 0.1]))
        self.kill_one()
        self.look()
        if self.random.random() < 0.3:
            self.drop_one()
        if self.random.random() < 0.2:
            self.db.compact(keep=self.random.choice([20, 200]))

    def drop_one(self) -> None:
        name = self.random.choice(list(SELECTIONS))
        if name in self.db.table_list():
            try:
                self.db.table_drop(name)
            except reactdb.TableNotFound:
                # It was made anew, and the name is another one's for a moment.
                pass

    def look(self) -> None:
        """In one transaction, in which nobody else writes."""
        for name in SELECTIONS:
            with self.db.transaction():
                with session_of(self.db).read() as snapshot:
                    found = find_position(snapshot.connection, MATERIALIZED, name)
                if found is None or found.position is None:
                    continue
                kept = sorted(self.db.table(name).run(), key=lambda one: one["id"])
                right = expected(name, self.db.at(found.position))
                self.outcome.looks += 1
            if kept != right:
                self.outcome.losses.append(f"{name} at {found.position}: {kept} is not {right}"[:600])

    def check(self) -> None:
        losses = self.outcome.losses
        self.outcome.changes = self.db.seq
        orders = self.db.table("orders")
        for name, selection in SELECTIONS.items():
            with self.db.materialize(selection(orders), name, follow=False) as kept:
                kept.catch_up()
                if sorted(kept.table.run(), key=lambda one: one["id"]) != expected(name, self.db):
                    losses.append(f"{name} is wrong in the end")
        left = [name for name in self.db.table_list() if name.endswith(".building")]
        if left:
            losses.append(f"left behind: {left}")
