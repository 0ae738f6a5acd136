"""Durable consumers: however workers crash, hang, fail and take over, each change is handled exactly once inside the file.

The machine has some workers of one consumer on one clock. What they handle they write into a table, in the transaction that
acknowledges it, so the table says what was done, and in which order.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import reactdb
from reactdb import row
from reactdb.durable.dead_letters import DEAD_LETTERS
from reactdb.durable.partitions import partition_of
from reactdb.durable.worker import ACKNOWLEDGED, FAILED, Batch, Batches
from reactdb.testing import VirtualClock
from reactdb.values.collation import key_bytes
from tests.support.scaling import examples

LEASE_S = 8.0
MAX_ATTEMPTS = 2
KEYS = st.integers(0, 5)
SIZES = st.integers(-1, 3)


class Failed(Exception):
    """What a handler of these tests raises."""


class Consumers(RuleBasedStateMachine):
    """See the head of this file.

    What is right is worked out from the log alone: the changes of the selection, by partition.
    """

    @initialize(partitions=st.integers(1, 3), workers=st.integers(2, 3))
    def begin(self, partitions: int, workers: int) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "a.db"
        self.clock = VirtualClock()
        self.partitions = partitions
        self.workers: list[Batches | None] = [None] * workers
        self.batches: list[Batch | None] = [None] * workers
        self.hung: list[Batch] = []
        # The highest fencing number with which each partition was acknowledged.
        self.fences = [0] * partitions
        self.open()
        self.db.table_create("orders")
        self.db.table_create("others")
        self.db.table_create("done")
        self.consumer()

    def open(self) -> None:
        self.db = reactdb.connect(self.path, durability="soft")

    def consumer(self) -> Any:
        return self.db.consumer(
            "uploader",
            self.db.table("orders").filter(row["size"] > 0),
            since=0,
            partitions=self.partitions,
            lease_s=LEASE_S,
            max_attempts=MAX_ATTEMPTS,
            backoff_s=1.0,
            most_backoff_s=4.0,
            scheduler=self.clock,
        )

    def worker(self, number: int) -> Batches:
        found = self.workers[number]
        if found is None:
            found = self.workers[number] = self.consumer().batches(max_changes=4, max_wait_s=0)
        return found

    # What happens around the consumer

    @rule(key=KEYS, size=SIZES, table=st.sampled_from(["orders", "orders", "others"]), is_bad=st.booleans())
    def write(self, key: int, size: int, table: str, is_bad: bool) -> None:
        document = {"id": key, "size": size, "is_bad": is_bad and size == 3}
        self.db.table(table).insert(document, conflict="replace")

    @rule(key=KEYS)
    def delete(self, key: int) -> None:
        self.db.table("orders").get(key).delete()

    @rule(keys=st.lists(KEYS, min_size=2, max_size=6))
    def write_several(self, keys: list[int]) -> None:
        with self.db.transaction():
            for size, key in enumerate(keys):
                self.db.table("orders").insert({"id": key, "size": size, "is_bad": False}, conflict="replace")

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0, 5.0, 9.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance_by(seconds)

    @rule(keep=st.integers(0, 10))
    def compact(self, keep: int) -> None:
        self.db.compact(keep=keep)

    @rule()
    def open_again(self) -> None:
        """All workers die at once."""
        self.db.close()
        self.workers = [None] * len(self.workers)
        self.batches = [None] * len(self.batches)
        self.hung.clear()
        self.open()

    # What workers do

    @rule(number=st.integers(0, 2))
    def poll(self, number: int) -> None:
        number %= len(self.workers)
        if self.batches[number] is not None:
            return
        batch = self.worker(number).poll()
        if batch is not None:
            self.check_batch(batch)
            self.batches[number] = batch

    @rule(number=st.integers(0, 2))
    def handle(self, number: int) -> None:
        """With the acknowledgement in the transaction of what is done."""
        batch = self.take(number)
        if batch is None:
            return
        has_it = self.has_it(batch)
        is_bad = any(change["new_val"] and change["new_val"]["is_bad"] for change in batch.changes)
        try:
            with batch, self.db.transaction():
                self.note(batch)
                if is_bad:
                    raise Failed
                batch.acknowledge()
        except reactdb.errors.LeaseLost:
            assert not has_it
            return
        # What another worker has written down cannot be written again: that is a failure, and none of the batch.
        assert has_it or is_bad or batch.state == FAILED
        if batch.state == ACKNOWLEDGED:
            assert batch.fence >= self.fences[batch.partition]
            self.fences[batch.partition] = batch.fence

    @rule(number=st.integers(0, 2), is_acknowledged=st.booleans())
    def fail(self, number: int, is_acknowledged: bool) -> None:
        """Whatever was done is taken back, the acknowledgement too; the loop around it goes on."""
        batch = self.take(number, must_have_it=is_acknowledged)
        if batch is None:
            return
        with batch, self.db.transaction():
            self.note(batch)
            if is_acknowledged:
                batch.acknowledge()
            raise Failed

    @rule(number=st.integers(0, 2))
    def roll_back_unnoticed(self, number: int) -> None:
        """The acknowledgement is taken back after the batch was left."""
        batch = self.take(number, must_have_it=True)
        if batch is None:
            return
        try:
            with self.db.transaction(), batch:
                self.note(batch)
                batch.acknowledge()
                raise Failed
        except Failed:
            pass

    @rule(number=st.integers(0, 2))
    def renew(self, number: int) -> None:
        batch = self.batches[number % len(self.batches)]
        if batch is None:
            return
        has_it = self.has_it(batch)
        try:
            batch.renew()
            assert has_it
        except reactdb.errors.LeaseLost:
            assert not has_it

    @rule(number=st.integers(0, 2))
    def crash(self, number: int) -> None:
        number %= len(self.workers)
        self.workers[number] = self.batches[number] = None

    @rule(number=st.integers(0, 2))
    def hang(self, number: int) -> None:
        """It lives, and does nothing for long; what it had is acknowledged much later."""
        number %= len(self.workers)
        batch = self.batches[number]
        if batch is not None:
            self.hung.append(batch)
            self.keep = [*getattr(self, "keep", []), self.workers[number]]
            self.workers[number] = self.batches[number] = None

    @precondition(lambda self: self.hung)
    @rule()
    def wake(self) -> None:
        batch = self.hung.pop()
        has_it = self.has_it(batch)
        try:
            with self.db.transaction():
                self.note(batch)
                batch.acknowledge()
            assert has_it
        except (reactdb.errors.LeaseLost, reactdb.DuplicateKey):
            assert not has_it

    @rule(number=st.integers(0, 2))
    def close(self, number: int) -> None:
        number %= len(self.workers)
        worker = self.workers[number]
        if worker is not None and self.batches[number] is None:
            worker.close()
            self.workers[number] = None

    # What is right

    def take(self, number: int, *, must_have_it: bool = False) -> Batch | None:
        """What a worker has in its hand, which it is about to let go."""
        number %= len(self.batches)
        batch = self.batches[number]
        if batch is None or (must_have_it and not self.has_it(batch)):
            return None
        self.batches[number] = None
        return batch

    def has_it(self, batch: Batch) -> bool:
        """Whether nobody has taken over, nor moved the position."""
        (found,) = [one for one in self.db.consumers() if one["partition"] == batch.partition]
        return bool(found["fence"] == batch.fence and found["seq"] < batch.changes[0]["seq"])

    def note(self, batch: Batch) -> None:
        done = self.db.table("done")
        for change in batch.changes:
            done.insert({"id": change["seq"], "key": change["key"], "place": done.count().run()})

    def expected(self) -> list[int]:
        """The seqs of the changes that the selection has, from the documents alone."""
        with_size = {
            seq: any(document is not None and document["size"] > 0 for document in documents)
            for seq, documents in self.story.items()
        }
        return [seq for seq, is_in in with_size.items() if is_in]

    @property
    def story(self) -> dict[int, tuple[Any, Any]]:
        """Documents before and after by seq, of what is left of the log and of what was seen of it before."""
        known: dict[int, tuple[Any, Any]] = self.__dict__.setdefault("_story", {})
        return known

    @invariant()
    def read_on(self) -> None:
        if not hasattr(self, "db"):
            return
        since = max(self.story, default=0)
        oldest = self.db.stats()["oldest"]
        for change in self.db.log(since=max(since, oldest)):
            if change.table == "orders":
                self.story[change.seq] = (change.old_val, change.new_val)
                self.__dict__.setdefault("_keys", {})[change.seq] = change.key

    def check_batch(self, batch: Batch) -> None:
        self.read_on()
        seqs = [change["seq"] for change in batch.changes]
        handled = self.handled()
        mine = [
            seq
            for seq in self.expected()
            if partition_of(key_bytes(self._keys[seq]), self.partitions) == batch.partition
            and seq not in handled
        ]
        assert seqs == mine[: len(seqs)]
        assert [
            tuple(one if one is not None and one["size"] > 0 else None for one in self.story[seq])
            for seq in seqs
        ] == [(change["old_val"], change["new_val"]) for change in batch.changes]

    def handled(self) -> set[int]:
        done = {document["id"] for document in self.db.table("done")}
        aside = set()
        if DEAD_LETTERS in self.db.table_list():
            aside = {document["seq"] for document in self.db.table(DEAD_LETTERS)}
        assert not done & aside
        return done | aside

    @invariant()
    def nothing_is_passed_over(self) -> None:
        """Behind each position everything is done, and past it nothing."""
        if not hasattr(self, "db"):
            return
        handled = self.handled()
        positions = {one["partition"]: one["seq"] for one in self.db.consumers()}
        for seq in self.expected():
            partition = partition_of(key_bytes(self._keys[seq]), self.partitions)
            assert (seq in handled) == (seq <= positions[partition]), seq

    def teardown(self) -> None:
        """Whatever happened, one worker that goes on handles the rest; and each key's changes were handled in order."""
        if not hasattr(self, "db"):
            return
        try:
            self.check_the_rest()
        finally:
            self.db.close()
            shutil.rmtree(self.folder)

    def check_the_rest(self) -> None:
        self.clock.advance_by(3 * LEASE_S)
        worker = self.consumer().batches(max_changes=4, max_wait_s=0)
        for _ in range(400):
            batch = worker.poll()
            if batch is None:
                self.clock.advance_by(2.0)
                if self.handled() >= set(self.expected()):
                    break
                continue
            with batch, self.db.transaction():
                self.note(batch)
                if any(change["new_val"] and change["new_val"]["is_bad"] for change in batch):
                    raise Failed
                batch.acknowledge()
        assert self.handled() == set(self.expected())
        places: dict[int, int] = {}
        for document in sorted(self.db.table("done").run(), key=lambda one: one["place"]):
            assert places.get(document["key"], 0) < document["id"]
            places[document["key"]] = document["id"]


TestConsumers = Consumers.TestCase
TestConsumers.settings = settings(max_examples=examples(200), stateful_step_count=40)
