"""Workers: processes that share a durable consumer are killed, and stopped for longer than their lease, at random moments.

    python -m tests.crash --worker-kills 2000

A scenario is one file with a table of orders, and eight processes that work for one consumer of it, with one partition or with
several. What a worker handles it writes down in the transaction that acknowledges it. The parent writes orders, and meanwhile
kills workers, more often than not one that has a lease; the next one takes its place. Sometimes it stops a holder until another
one has taken over, and then lets it go on: what it acknowledges must be refused.

In the end what was written down is compared with the log: each change once, those of one key in order, none set aside.

Rule of this file: what the processes do, and what must be true of the file. How they are killed is in `killing`.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import reactdb
from reactdb.durable import partitions, worker
from reactdb.durable.dead_letters import DEAD_LETTERS
from reactdb.store.leases import Lease, read_lease
from reactdb.store.transaction import WriteTransaction
from reactdb.values.collation import key_bytes

from . import killing
from .killing import PATIENCE_S, Broken

NAME = "uploader"
LEASE_S = 0.4


def without_fence() -> None:
    """Whoever acknowledges is believed."""

    def believe(transaction: WriteTransaction, held: Lease) -> Lease:
        lease = read_lease(transaction.connection, held.name, held.partition)
        return lease or held

    worker.check_still_held = believe


def apart_from_the_work() -> None:
    """The position moves in a commit of its own, a moment before the work is committed."""

    def enter(self: worker.Batch) -> worker.Batch:
        self.acknowledge()
        # So long that a kill soon comes in between.
        time.sleep(0.01)
        return self

    worker.Batch.__enter__ = enter  # type: ignore[method-assign]


MUTANTS: dict[str, Broken] = {
    "whoever acknowledges is believed": without_fence,
    "the position moves apart from the work": apart_from_the_work,
}


def work(db: reactdb.Database, folder: str, partitions: int) -> None:
    """What a worker does."""
    consumer = db.consumer(
        NAME,
        db.table("orders"),
        partitions=partitions,
        lease_s=LEASE_S,
        backoff_s=0.001,
        most_backoff_s=0.01,
    )
    done = db.table("done")
    found = consumer.batches(max_changes=7, max_wait_s=0)
    random = Random(os.getpid())
    while True:
        try:
            for batch in found:
                # A moment in which it may be killed, or stopped, with a batch in its hand.
                time.sleep(random.choice([0, 0, 0.005]))
                with batch, db.transaction():
                    for change in batch:
                        done.insert({"seq": change["seq"], "key": change["key"], "pid": os.getpid()})
                    if batch.state == worker.OPEN:
                        batch.acknowledge()
        except reactdb.errors.LeaseLost:
            Path(folder, f"fenced-{os.getpid()}-{time.monotonic_ns()}").touch()


@dataclass
class Outcome(killing.Outcome):
    partitions: int = 1
    stops: int = 0
    fenced: int = 0

    def __str__(self) -> str:
        verdict = "LOSS" if self.losses else "each once, in order"
        return (
            f"seed {self.seed}, {self.partitions} partitions: {self.kills} kills, {self.stops} stops, {self.fenced} fenced off, "
            f"{self.changes:,} changes, {self.seconds:.1f} s: {verdict}"
        )


class Workers(killing.Killing):
    """See the head of this file."""

    work = staticmethod(work)
    mutants = MUTANTS
    kills_of_one = 100
    for_mutants: ClassVar = {"partitions": 1, "workers": 3, "stops": 0.4}

    def __init__(
        self,
        seed: int,
        folder: Path,
        *,
        partitions: int,
        workers: int = 8,
        mutant: str = "",
        stops: float = 0.04,
    ) -> None:
        """`stops`: how often a worker is stopped and not killed."""
        outcome = Outcome(seed, partitions=partitions)
        super().__init__(outcome, folder, partitions, processes=workers, mutant=mutant)
        self.stops = stops
        self.orders = self.db.table_create("orders")
        self.db.table_create("done")
        self.db.consumer(NAME, self.orders, since=0, partitions=partitions, lease_s=LEASE_S)
        self.written: list[tuple[int, int]] = []

    @classmethod
    def options_of(cls, seed: int) -> dict[str, Any]:
        return {"partitions": (1, 4, 12)[seed % 3]}

    def step(self) -> None:
        self.write()
        if self.random.random() < self.stops:
            self.stop_one()
        else:
            time.sleep(self.random.random() * self.random.choice([0.002, 0.01, 0.03]))
            self.kill_one()
        if self.random.random() < 0.1:
            self.db.compact(keep=self.random.choice([0, 50]))

    def write(self) -> None:
        """Some orders: new ones, changes, deletions; several in one commit, or one after the other."""
        random = self.random
        before = self.db.seq

        def some() -> None:
            for _ in range(random.choice([1, 1, 3, 20])):
                key = random.randrange(12)
                if random.random() < 0.1:
                    self.orders.get(key).delete()
                else:
                    self.orders.insert({"id": key, "n": random.random()}, conflict="replace")
                if not is_one:
                    self.note(before)

        is_one = random.random() < 0.5
        if is_one:
            with self.db.transaction():
                some()
        else:
            some()
        self.note(before)

    def note(self, since: int) -> None:
        """Remember what was written: compaction removes it once it was handled."""
        since = max(since, self.written[-1][0] if self.written else 0, self.db.stats()["oldest"])
        self.written += [
            (change.seq, change.key) for change in self.db.log(since=since) if change.table == "orders"
        ]

    def holders(self) -> list[Any]:
        """The processes that have a lease, as the file says."""
        pids = {one["holder"].split("/")[-2] for one in self.db.consumers() if one["holder"]}
        return [process for process in self.processes if str(process.pid) in pids]

    def victim(self) -> Any:
        holders = self.holders() if self.random.random() < 0.6 else []
        return self.random.choice(holders or self.processes)

    def stop_one(self) -> None:
        """Until another worker has what it had."""
        # At first, and after a kill, nobody has one for a moment.
        end = time.monotonic() + PATIENCE_S
        while not (holders := self.holders()):
            if self.errors() or time.monotonic() > end:
                return
            time.sleep(0.01)
        process = self.random.choice(holders)
        os.kill(process.pid, signal.SIGSTOP)
        try:
            # One that was stopped in the middle of a write keeps everybody waiting, and must not be stopped for long.
            end = time.monotonic() + 4 * LEASE_S
            while process in self.holders() and time.monotonic() < end:
                time.sleep(0.01)
        finally:
            os.kill(process.pid, signal.SIGCONT)
        self.outcome.stops += 1

    def settle(self) -> None:
        """Until everything is handled, or nothing more will be."""
        end = time.monotonic() + PATIENCE_S
        last = self.written[-1][0] if self.written else 0
        while time.monotonic() < end and not self.errors():
            if all(one["seq"] >= last or self.is_idle(one) for one in self.db.consumers()):
                return
            time.sleep(0.02)
        self.outcome.losses.append(f"not handled after {PATIENCE_S:.0f} s: {self.db.consumers()}")

    def is_idle(self, one: dict[str, Any]) -> bool:
        """Nothing past the position is of this partition."""
        return not any(
            seq > one["seq"]
            and partitions.partition_of(key_bytes(key), one["partitions"]) == one["partition"]
            for seq, key in self.written
        )

    def check(self) -> None:
        losses = self.outcome.losses
        self.outcome.fenced = len(list(self.folder.glob("fenced-*")))
        self.outcome.changes = len(self.written)
        handled = sorted(
            (change.seq, change.new_val["seq"], change.new_val["key"])
            for document in self.db.table("done")
            for change in self.db.table("done").get(document["id"]).history()
            if change.new_val is not None
        )
        seqs = [seq for _, seq, _ in handled]
        if sorted(seqs) != [seq for seq, _ in self.written]:
            twice = sorted({seq for seq in seqs if seqs.count(seq) > 1})
            never = sorted({seq for seq, _ in self.written} - set(seqs))
            losses.append(f"handled twice: {twice[:10]}, never: {never[:10]}")
        newest: dict[Any, int] = {}
        for _, seq, key in handled:
            if newest.get(key, 0) > seq:
                losses.append(f"of key {key}, {newest[key]} was handled before {seq}")
            newest[key] = max(seq, newest.get(key, 0))
        if DEAD_LETTERS in self.db.table_list():
            losses.append(f"set aside: {self.db.table(DEAD_LETTERS).run()[:2]}")
