"""Running sums: what is stored, rolled forward, is at every moment what the documents and the index entries come to."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from zlib import crc32

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import reactdb
from reactdb import row
from reactdb.store import sums
from reactdb.store.checksums import LOW
from reactdb.store.snapshot import Snapshot
from reactdb.values import codec
from tests.support.processes import another_process
from tests.support.scaling import examples

Figures = tuple[int, int, dict[int, tuple[int, int]]]


def counted(snapshot: Snapshot, table: Any) -> Figures:
    """The sums of a table by brute force: from the newest entry of each key in the log, and from what its indexes give for it."""
    select = snapshot.connection.execute
    newest: dict[bytes, tuple[bytes | None, int]] = {}
    for key, body, checksum in select(
        "SELECT key, body, seal FROM log WHERE table_id = ? ORDER BY seq", (table.id,)
    ):
        newest[key] = body, checksum
    there = {key: (body, checksum) for key, (body, checksum) in newest.items() if body is not None}
    counts: Counter[int] = Counter()
    hashes: Counter[int] = Counter()
    for key, (body, _) in there.items():
        for index in table.indexes.values():
            for number, value, tag in index.stored_entries(codec.decode(body)):
                counts[number] += 1
                hashes[number] += crc32(value, crc32(key, tag))
    numbers = [sign * index.id for index in table.indexes.values() for sign in (1, -1)]
    return (
        len(there),
        sum(checksum for _, checksum in there.values()) & LOW,
        {number: (counts[number], hashes[number] & LOW) for number in numbers},
    )


def stored(snapshot: Snapshot, table: Any) -> Figures | None:
    """The sums of a table that the file has, rolled forward to now."""
    _, found = sums.newest(snapshot.connection, table, tuple(table.indexes.values()))
    if found is None:
        return None
    numbers = [sign * index.id for index in table.indexes.values() for sign in (1, -1)]
    indexes = {number: found.indexes[number] for number in numbers}
    return found.count, found.total & LOW, {n: (one[0], one[1] & LOW) for n, one in indexes.items()}


def agree(db: reactdb.Database) -> None:
    """Every table's sums are what it comes to, on what is committed or, inside a transaction, on what that sees."""
    with db._session.engine.snapshot() as snapshot:
        for table in snapshot.catalogue.by_id.values():
            known = stored(snapshot, table)
            if known is None:
                # It never had a change, and was made before where the log begins now.
                known = 0, 0, dict.fromkeys(counted(snapshot, table)[2], (0, 0))
            assert counted(snapshot, table) == known


class Abandoned(Exception):
    """Raised inside a transaction to take it back."""


KEYS = st.integers(0, 40)
VALUES = st.one_of(st.none(), st.integers(0, 5), st.lists(st.integers(0, 3), max_size=3))


class SumLaws(RuleBasedStateMachine):
    """Two processes write to one file, now one and now the other: each forgets what it knew when the other has committed."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="reactdb-sums-")
        self.path = Path(self.folder, "sums.db")
        self.names = ["games"]
        self.numbers = itertools.count()
        self.open()
        self.db.table_create("games").index_create("a")

    def open(self) -> None:
        self.closing = ExitStack()
        self.db = self.closing.enter_context(reactdb.connect(self.path, durability="soft"))
        self.other = self.closing.enter_context(another_process(self.path))

    def teardown(self) -> None:
        self.closing.close()
        shutil.rmtree(self.folder)

    def table(self, number: int) -> reactdb.Table:
        return self.db.table(self.names[number % len(self.names)])

    # -- steps

    @rule(number=KEYS, key=KEYS, a=VALUES)
    def put(self, number: int, key: int, a: Any) -> None:
        self.table(number).insert({"id": key, "a": a}, conflict="replace")

    @rule(number=KEYS, key=KEYS, a=VALUES)
    def insert_or_fail(self, number: int, key: int, a: Any) -> None:
        with suppress(reactdb.DuplicateKey):
            self.table(number).insert({"id": key, "a": a})

    @rule(number=KEYS, key=KEYS)
    def delete(self, number: int, key: int) -> None:
        self.table(number).get(key).delete()

    @rule(number=KEYS, count=st.integers(2, 80))
    def insert_many(self, number: int, count: int) -> None:
        first = 100 * (1 + next(self.numbers))
        self.table(number).insert([{"id": first + n, "a": n % 7} for n in range(count)])

    @rule(number=KEYS, a=VALUES)
    def update_all(self, number: int, a: Any) -> None:
        self.table(number).update({"a": a})

    @rule(number=KEYS)
    def delete_some(self, number: int) -> None:
        self.table(number).filter(row["id"] % 3 == 0).delete()

    @rule(number=KEYS, keys=st.lists(KEYS, max_size=50), is_kept=st.booleans())
    def in_a_transaction(self, number: int, keys: list[int], is_kept: bool) -> None:
        with suppress(Abandoned), self.db.transaction():
            for place, key in enumerate(keys):
                self.table(number + place % 3).insert({"id": key, "a": place}, conflict="replace")
                if key % 11 == 0:
                    agree(self.db)
            if not is_kept:
                raise Abandoned

    @rule(number=KEYS, keys=st.lists(KEYS, max_size=40), is_flushed=st.booleans())
    def a_part_is_taken_back(self, number: int, keys: list[int], is_flushed: bool) -> None:
        with self.db.transaction():
            self.table(number).insert({"id": 0, "a": -1}, conflict="replace")
            with suppress(Abandoned), self.db.transaction():
                for key in keys:
                    self.table(number).insert({"id": key, "a": 9}, conflict="replace")
                    self.table(number).get(key + 1).delete()
                if is_flushed:
                    self.table(number).count().run()
                raise Abandoned
            agree(self.db)
            self.table(number).insert({"id": 1, "a": -2}, conflict="replace")

    @precondition(lambda self: len(self.names) < 4)
    @rule()
    def create_table(self) -> None:
        name = f"t{next(self.numbers)}"
        self.db.table_create(name)
        self.names.append(name)

    @precondition(lambda self: len(self.names) > 1)
    @rule()
    def drop_table(self) -> None:
        self.db.table_drop(self.names.pop())

    @rule(number=KEYS, multi=st.booleans())
    def create_or_drop_index(self, number: int, multi: bool) -> None:
        table = self.table(number)
        name = "multi" if multi else "b"
        if name in table.index_list():
            table.index_drop(name)
        else:
            table.index_create(name, row["a"], multi=multi)

    @rule(keep=st.integers(0, 60), vacuum=st.booleans())
    def compact(self, keep: int, vacuum: bool) -> None:
        self.db.compact(keep=keep, vacuum=vacuum)

    @rule()
    def reopen(self) -> None:
        self.closing.close()
        self.open()

    @rule()
    def the_other_goes_on(self) -> None:
        self.db, self.other = self.other, self.db

    # -- the law

    @invariant()
    def the_sums_are_what_there_is(self) -> None:
        agree(self.db)


TestSums = SumLaws.TestCase
TestSums.settings = settings(max_examples=examples(60), stateful_step_count=30)


def test_a_reader_does_not_compare_with_an_earlier_state(tmp_path: Path) -> None:
    with reactdb.connect(tmp_path / "read.db") as db:
        people = db.table_create("people")
        for n in range(70):
            people.insert({"id": n})
            assert n + 1 == people.count().run() == len(people.run())


def test_compaction_takes_nothing_that_the_sums_still_need(tmp_path: Path) -> None:
    with reactdb.connect(tmp_path / "short.db") as db:
        people = db.table_create("people")
        people.index_create("a")
        for n in range(40):
            people.insert({"id": n, "a": n})
        for n in range(5):
            people.get(n).delete()
            people.get(10 + n).update({"a": -1})
        db.compact(keep=0)

        assert 35 == people.count().run() == len(people.run()) == len(people.order_by(index="a").run())
        agree(db)


def test_what_is_taken_back_of_a_transaction_is_not_counted(tmp_path: Path) -> None:
    with reactdb.connect(tmp_path / "back.db") as db:
        people = db.table_create("people")
        with db.transaction():
            people.insert([{"id": n} for n in range(40)])
            with suppress(Abandoned), db.transaction():
                people.insert([{"id": 100 + n} for n in range(40)])
                raise Abandoned
            people.insert([{"id": 200 + n} for n in range(40)])
        agree(db)
