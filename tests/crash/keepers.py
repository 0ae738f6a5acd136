"""Keepers: processes that keep tables equal to selections are killed at random moments, in steps and while they build.

    python -m tests.crash --keeper-kills 2000

A scenario is one file with a table of orders, and some processes that keep three tables of it: a part, totals by city, and the
first of an order. They write orders, too. The parent kills them, and the next one takes their place. Now and then it drops a kept
table, so that one dies while it is built, and compacts.

After each kill every kept table that is whole is compared with its selection as of the position that the file says.

Rule of this file: nothing depends on how long something takes but the time that the run takes. A seed gives the same choices, not
the same moments.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

import reactdb
from reactdb import keyed, materialize, row
from reactdb.store.leases import Lease, read_lease
from reactdb.store.positions import find_position
from reactdb.store.transaction import WriteTransaction

LEASE_S = 0.4
KILLS_OF_A_SCENARIO = 50
# Nothing that is waited for takes longer, even on a busy machine.
PATIENCE_S = 60.0

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


Broken = Callable[[], None]


def without_fence() -> None:
    """Whoever writes a step is believed."""

    def believe(transaction: WriteTransaction, held: Lease) -> Lease:
        return read_lease(transaction.connection, held.name, held.partition) or held

    materialize.still_held = believe


def apart_from_the_documents() -> None:
    """Only what comes to more than one document is written; the position moves all the same."""
    write = materialize.write_kept

    def some(transaction: Any, table: Any, documents: Any) -> None:
        write(transaction, table, list(documents)[1:])

    materialize.write_kept = some


def half_built() -> None:
    """A table is whole when the first part of it is there."""
    for shape in (keyed.KeyedRows, keyed.KeyedValues, keyed.KeyedList):
        initial = shape.initial

        def first(self: Any, reader: Any, past: Any, initial: Any = initial) -> Any:
            yield from ([documents[0]] for documents in list(initial(self, reader, past))[:1])

        shape.initial = first  # type: ignore[method-assign]


MUTANTS: dict[str, Broken] = {
    "whoever writes is believed": without_fence,
    "the position moves without the documents": apart_from_the_documents,
    "a table that was begun is taken as whole": half_built,
}


def keep(path: str, folder: str, mutant: str) -> None:
    """One keeper's life, until it is killed."""
    if mutant:
        MUTANTS[mutant]()
    try:
        db = reactdb.connect(path, durability="soft", busy_timeout=PATIENCE_S)
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
                except (reactdb.LeaseLost, reactdb.HistoryLost):
                    # Another one builds it; or is not heard of, and history went on.
                    continue
            write(orders, random)
    except BaseException:
        Path(folder, f"error-{os.getpid()}").write_text(traceback.format_exc())
        raise


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
class Outcome:
    """What a scenario came to."""

    seed: int
    kills: int = 0
    looks: int = 0
    changes: int = 0
    seconds: float = 0.0
    losses: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        verdict = "LOSS" if self.losses else "exact at each look"
        return (
            f"seed {self.seed}: {self.kills} kills, {self.looks} looks, {self.changes:,} changes, {self.seconds:.1f} s: "
            f"{verdict}"
        )


class Scenario:
    """See the head of this file."""

    def __init__(self, seed: int, folder: Path, *, keepers: int = 3, mutant: str = "") -> None:
        self.random = Random(seed)
        self.folder = folder
        self.path = folder / "kept.db"
        self.mutant = mutant
        self.outcome = Outcome(seed)
        # Forked from a process that has imported everything and opened nothing.
        self.context = get_context("forkserver")
        self.context.set_forkserver_preload(["tests.crash.keepers", "reactdb.feeds.hub"])
        self.db = reactdb.connect(self.path, durability="soft", busy_timeout=PATIENCE_S)
        orders = self.db.table_create("orders")
        # So many that the first of the tables is built in steps.
        orders.insert([{"id": number, "city": "a", "euros": number % 60} for number in range(1_200)])
        self.keepers: list[Any] = []
        for _ in range(keepers):
            self.start()

    def start(self) -> None:
        arguments = (str(self.path), str(self.folder), self.mutant)
        process = self.context.Process(target=keep, args=arguments, daemon=True)
        process.start()
        self.keepers.append(process)

    def run(self, kills: int) -> Outcome:
        begun = time.monotonic()
        try:
            while self.outcome.kills < kills and not self.errors() and not self.outcome.losses:
                time.sleep(self.random.random() * self.random.choice([0.01, 0.05, 0.1]))
                self.kill_one()
                self.look()
                if self.random.random() < 0.3:
                    self.drop_one()
                if self.random.random() < 0.2:
                    self.db.compact(keep=self.random.choice([20, 200]))
        finally:
            for process in self.keepers:
                process.kill()
                process.join()
        self.check()
        self.outcome.changes = self.db.seq
        self.db.close()
        self.outcome.seconds = time.monotonic() - begun
        return self.outcome

    def kill_one(self) -> None:
        process = self.random.choice(self.keepers)
        process.kill()
        process.join()
        self.keepers.remove(process)
        self.outcome.kills += 1
        self.start()

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
                with self.db.session.read() as snapshot:
                    found = find_position(snapshot.connection, materialize.MATERIALIZED, name)
                if found is None or found.position is None:
                    continue
                kept = sorted(self.db.table(name).run(), key=lambda one: one["id"])
                right = expected(name, self.db.at(found.position))
                self.outcome.looks += 1
            if kept != right:
                self.outcome.losses.append(f"{name} at {found.position}: {kept} is not {right}"[:600])

    def errors(self) -> list[Path]:
        return sorted(self.folder.glob("error-*"))

    def check(self) -> None:
        losses = self.outcome.losses
        losses += [f"a keeper failed: {path.read_text().splitlines()[-1]}" for path in self.errors()]
        orders = self.db.table("orders")
        for name, selection in SELECTIONS.items():
            with self.db.materialize(selection(orders), name, follow=False) as kept:
                kept.catch_up()
                if sorted(kept.table.run(), key=lambda one: one["id"]) != expected(name, self.db):
                    losses.append(f"{name} is wrong in the end")
        left = [name for name in self.db.table_list() if name.endswith(".building")]
        if left:
            losses.append(f"left behind: {left}")


def run_scenario(seed: int, kills: int, **options: Any) -> Outcome:
    """One file. The folder is kept where something was lost."""
    folder = Path(tempfile.mkdtemp(prefix="reactdb-keepers-"))
    outcome = Scenario(seed, folder, **options).run(kills)
    if outcome.losses and not options.get("mutant"):
        outcome.losses.append(f"the file is kept in {folder}")
    else:
        shutil.rmtree(folder)
    return outcome


def noticed(mutant: str, seed: int, scenarios: int = 12) -> Outcome:
    """Kill keepers that are broken until it is noticed."""
    for number in range(scenarios):
        outcome = run_scenario(seed + number, 20, mutant=mutant)
        if outcome.losses:
            break
    return outcome


def prove(*, seed: int) -> int:
    """Every mutant must be noticed: a line each. 1 where one is not, else 0."""
    missed = 0
    for mutant in MUTANTS:
        outcome = noticed(mutant, seed)
        missed += not outcome.losses
        print(f"{mutant}: {outcome.losses[0] if outcome.losses else 'NOT NOTICED'}", flush=True)
    return 1 if missed else 0


def run(kills: int, *, seed: int) -> int:
    """The long run: a line a scenario. 1 where anything was lost, else 0."""
    done, losses = 0, 0
    while done < kills:
        outcome = run_scenario(seed, min(KILLS_OF_A_SCENARIO, kills - done))
        print(outcome, flush=True)
        for loss in outcome.losses[:10]:
            print(f"  {loss}", flush=True)
        done += outcome.kills
        losses += len(outcome.losses)
        seed += 1
        if not outcome.kills:
            break
    print(f"{done:,} kills of keepers: {losses} losses")
    return 1 if losses else 0
