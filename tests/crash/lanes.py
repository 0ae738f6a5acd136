"""Lanes: what the threads of a workload write, and what each write must leave behind.

A lane is one thread's line of writes. It owns its keys (`lane:number`), the tables and indexes that carry its name, and shares
two tables with the other lanes, where it only adds to numbers. So what a lane's documents must be follows from its own
writes alone, whatever the others do meanwhile, and sums of the shared numbers follow from everybody's.

A write is announced as a list of steps before it is begun, and acknowledged after it returned:

    ["put", table, key, kind, document]     one change in the log; kind is insert, update or replace
    ["del", table, key]                     one change in the log
    ["add", table, key, field, amount]      one change in the log, of a shared document
    ["table", name]  ["drop", name]         nothing in the log
    ["index", table, name, form]  ["unindex", table, name]

A write that will be rolled back is announced with no steps.

Rule of this file: steps say in plain data what is true afterwards. The checker uses nothing else of the lane.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Any

from reactdb import DatabaseBusy, DuplicateKey, row
from reactdb.database import Database
from reactdb.session import session_of
from tests.support.hooks import REVISIONS

DOCS, NOTES, ACCOUNTS, HITS = "docs", "notes", "accounts", "hits"
SHARED = (ACCOUNTS, HITS)
BASE = (DOCS, NOTES, ACCOUNTS, HITS)
ACCOUNT_COUNT = 6
EUROS = 1_000
# The lane that makes the tables everybody uses.
FOUNDER = "founder"
# Above this, the second feed tells of a document.
HIGH = 50

# What an index is of, by the form's name: (expression, multi).
FORMS: dict[str, tuple[Any, bool]] = {
    "score": (row["score"], False),
    "pair": ([row["room"], row["score"]], False),
    "tags": (row["tags"], True),
}
MOST_DOCUMENTS = 120

Document = dict[str, Any]
Step = list[Any]
Say = Callable[[dict[str, Any]], None]


class TakenBack(Exception):
    """Raised in a transaction so that it leaves nothing."""


class Surprise(AssertionError):
    """A write said that it did something else than it was asked for."""


class Holding:
    """What a lane has in the file: its documents by table, the tables that it made, and its indexes' forms by (table, name)."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, Document]] = {DOCS: {}, NOTES: {}}
        self.own: set[str] = set()
        self.indexes: dict[tuple[str, str], str] = {}

    def copy(self) -> Holding:
        other = Holding()
        other.tables = {name: dict(documents) for name, documents in self.tables.items()}
        other.own = set(self.own)
        other.indexes = dict(self.indexes)
        return other

    def apply(self, steps: list[Step]) -> Holding:
        """Take the steps, in order. Returns itself."""
        for what, *rest in steps:
            if what == "put":
                table, key, _, document = rest
                self.tables[table][key] = document
            elif what == "del":
                table, key = rest
                del self.tables[table][key]
            elif what == "table":
                self.tables[rest[0]] = {}
                self.own.add(rest[0])
            elif what == "drop":
                del self.tables[rest[0]]
                self.own.discard(rest[0])
                self.indexes = {place: form for place, form in self.indexes.items() if place[0] != rest[0]}
            elif what == "index":
                table, name, form = rest
                self.indexes[table, name] = form
            elif what == "unindex":
                del self.indexes[rest[0], rest[1]]
        return self

    def to_data(self) -> dict[str, Any]:
        return {
            "tables": self.tables,
            "own": sorted(self.own),
            "indexes": [[*place, form] for place, form in self.indexes.items()],
        }

    @classmethod
    def of_data(cls, data: dict[str, Any]) -> Holding:
        holding = cls()
        holding.tables = data["tables"]
        holding.own = set(data["own"])
        holding.indexes = {(table, name): form for table, name, form in data["indexes"]}
        return holding


def expect(result: dict[str, Any], **counters: int) -> None:
    """Raises: Surprise, where ReQL's counters are not these."""
    found = {name: count for name, count in result.items() if isinstance(count, int) and count}
    if found != {name: count for name, count in counters.items() if count}:
        raise Surprise(f"the write says {found}, not {counters}")


class Draft:
    """A write in the making: what it will do (`calls`), and what will be true then (`steps`)."""

    def __init__(self, lane: Lane, op: str, holding: Holding) -> None:
        self.lane = lane
        self.op = op
        self.after = holding
        self.random = lane.random
        self.steps: list[Step] = []
        self.calls: list[Callable[[], Any]] = []
        self.durability: str | None = None
        # The log's order within the write is the store's to choose: a write of many documents by a filter.
        self.is_unordered = False

    def do(self, steps: list[Step], call: Callable[[], Any]) -> None:
        self.steps += steps
        self.after.apply(steps)
        self.calls.append(call)

    # One document each

    def document(self, key: str) -> Document:
        random = self.random
        return {
            "id": key,
            "lane": self.lane.name,
            "op": self.op,
            "score": random.randrange(100),
            "room": random.randrange(4),
            "tags": random.sample("abcdef", random.randrange(4)),
            # Now and then one that needs pages of its own.
            "pad": "x"
            * (random.randrange(4_000, 20_000) if random.random() < 0.02 else random.randrange(60)),
        }

    def some_table(self) -> str:
        return self.random.choice([DOCS, DOCS, *self.after.tables])

    def insert(self) -> None:
        table = self.some_table()
        free = [key for key in self.lane.keys if key not in self.after.tables[table]]
        if not free:
            self.delete()
            return
        document = self.document(self.random.choice(free))
        conflict = self.random.choice(["error", "error", "replace", "update"])
        games, durability = self.lane.db.table(table), self.durability
        self.do(
            [["put", table, document["id"], "insert", document]],
            lambda: expect(games.insert(document, conflict=conflict, durability=durability), inserted=1),
        )

    def _some_document(self) -> tuple[str, Document] | None:
        table = self.some_table()
        documents = self.after.tables[table]
        return (table, documents[self.random.choice(list(documents))]) if documents else None

    def update(self) -> None:
        found = self._some_document()
        if found is None:
            self.insert()
            return
        table, old = found
        new = {**old, "op": self.op, "score": old["score"] + 1, "room": self.random.randrange(4)}
        patch: Any = {"op": self.op, "score": row["score"] + 1, "room": new["room"]}
        if self.random.random() < 0.3:
            patch = lambda document: new  # noqa: E731
        point, durability = self.lane.db.table(table).get(old["id"]), self.durability
        self.do(
            [["put", table, old["id"], "update", new]],
            lambda: expect(point.update(patch, durability=durability), replaced=1),
        )

    def replace(self) -> None:
        found = self._some_document()
        if found is None:
            self.insert()
            return
        table, old = found
        new = self.document(old["id"])
        if self.random.random() < 0.2:
            del new["score"]
            new["score"] = 0
        point, durability = self.lane.db.table(table).get(old["id"]), self.durability
        self.do(
            [["put", table, old["id"], "replace", new]],
            lambda: expect(point.replace(new, durability=durability), replaced=1),
        )

    def delete(self) -> None:
        found = self._some_document()
        if found is None:
            self.insert()
            return
        table, old = found
        point, durability = self.lane.db.table(table).get(old["id"]), self.durability
        self.do([["del", table, old["id"]]], lambda: expect(point.delete(durability=durability), deleted=1))

    def hit(self) -> None:
        op, durability = self.op, self.durability
        point = self.lane.db.table(HITS).get("all")
        self.do(
            [["add", HITS, "all", "count", 1]],
            lambda: expect(
                point.update({"count": row["count"] + 1, "op": op}, durability=durability), replaced=1
            ),
        )

    # Many documents

    def bulk_insert(self) -> None:
        table = self.some_table()
        if len(self.after.tables[table]) > MOST_DOCUMENTS:
            self.bulk_delete()
            return
        count = self.random.randrange(2, 60)
        documents = [self.document(self.lane.next_key()) for _ in range(count)]
        games, durability = self.lane.db.table(table), self.durability
        self.do(
            [["put", table, document["id"], "insert", document] for document in documents],
            lambda: expect(games.insert(documents, durability=durability), inserted=count),
        )

    def _some_room(self) -> tuple[str, int, list[Document]] | None:
        table, room = self.some_table(), self.random.randrange(4)
        found = [document for document in self.after.tables[table].values() if document["room"] == room]
        return (table, room, found) if found else None

    def bulk_update(self) -> None:
        found = self._some_room()
        if found is None:
            self.insert()
            return
        table, room, documents = found
        op, durability = self.op, self.durability
        self.is_unordered = True
        mine = self.lane.db.table(table).filter({"lane": self.lane.name, "room": room})
        self.do(
            [
                ["put", table, old["id"], "update", {**old, "op": op, "score": old["score"] + 1}]
                for old in documents
            ],
            lambda: expect(
                mine.update({"op": op, "score": row["score"] + 1}, durability=durability),
                replaced=len(documents),
            ),
        )

    def bulk_delete(self) -> None:
        found = self._some_room()
        if found is None:
            self.insert()
            return
        table, room, documents = found
        durability = self.durability
        self.is_unordered = True
        mine = self.lane.db.table(table).filter({"lane": self.lane.name, "room": room})
        self.do(
            [["del", table, old["id"]] for old in documents],
            lambda: expect(mine.delete(durability=durability), deleted=len(documents)),
        )

    # Several as one

    def transfer(self) -> None:
        """From one account to another, and a receipt: three documents in two tables."""
        payer, payee = self.random.sample(range(ACCOUNT_COUNT), 2)
        euros, op, accounts = self.random.randrange(1, 50), self.op, self.lane.db.table(ACCOUNTS)
        for account, amount in ((payer, -euros), (payee, euros)):
            point = accounts.get(str(account))
            self.do(
                [["add", ACCOUNTS, str(account), "euros", amount]],
                lambda point=point, amount=amount: expect(
                    point.update({"euros": row["euros"] + amount, "op": op}), replaced=1
                ),
            )
        self.insert()

    def part_that_fails(self) -> None:
        """A transaction inside this one that takes itself back, and only itself."""
        inner = Draft(self.lane, self.op + "-back", self.after.copy())
        inner.fill(self.random.randrange(1, 3))

        def call() -> None:
            try:
                with self.lane.db.transaction():
                    for one in inner.calls:
                        one()
                    raise TakenBack
            except TakenBack:
                pass

        self.calls.append(call)

    def new_table(self) -> None:
        """A table of the lane's own, or one less where it has two. The name was used before, as often as not."""
        db, name = self.lane.db, self.lane.name
        free = [found for found in (f"own_{name}_a", f"own_{name}_b") if found not in self.after.own]
        if not free or (self.after.own and self.random.random() < 0.3):
            gone = self.random.choice(sorted(self.after.own))
            self.do([["drop", gone]], lambda: db.table_drop(gone))
        else:
            self.do([["table", free[0]]], lambda: db.table_create(free[0]))

    def new_index(self) -> None:
        """An index of the lane's own, or one less where it has two."""
        table = self.some_table()
        mine = sorted(place for place in self.after.indexes if place[0] == table)
        games = self.lane.db.table(table)
        if len(mine) > 1 or (mine and self.random.random() < 0.3):
            _, gone = self.random.choice(mine)
            self.do([["unindex", table, gone]], lambda: games.index_drop(gone))
            return
        form = self.random.choice(sorted(FORMS))
        name = f"{self.lane.name}_{form}"
        if (table, name) in self.after.indexes:
            return
        expression, multi = FORMS[form]
        self.do([["index", table, name, form]], lambda: games.index_create(name, expression, multi=multi))

    def fill(self, count: int) -> None:
        """So many random writes."""
        for _ in range(count):
            choice = self.random.choices(
                [self.insert, self.update, self.replace, self.delete, self.hit, self.bulk_insert],
                [6, 6, 2, 3, 2, 1],
            )[0]
            choice()


class Lane:
    """One thread's writes. See the head of this file.

    Args:
        say: Tells the parent; what was said has left the process.
        life: Makes the names of this life's writes different from those of others.
        is_sweeping: Half of its deletions are removed from the log at once.
    """

    def __init__(
        self,
        name: str,
        db: Database,
        holding: Holding,
        random: Random,
        say: Say,
        life: str,
        *,
        is_sweeping: bool = False,
    ) -> None:
        self.name = name
        self.db = db
        self.holding = holding
        self.random = random
        self.say = say
        self.life = life
        self.is_sweeping = is_sweeping
        self.count = 0
        self.keys = [f"{name}:{number}" for number in range(40)]
        self._bulk = 0

    def next_key(self) -> str:
        self._bulk += 1
        return f"{self.name}:{self.life}.{self._bulk}"

    def step(self) -> None:
        """Announce one write, do it, and acknowledge it."""
        self.count += 1
        op = f"{self.name}-{self.life}.{self.count}"
        kind = self.random.choices(list(WRITES), list(WRITES.values()))[0]
        draft = Draft(self, op, self.holding.copy())
        draft.durability = self.random.choice(["soft", "soft", "hard"])
        announced = {"lane": self.name, "op": op, "kind": kind, "begun": time.monotonic_ns()}
        run = getattr(self, "_" + kind)(draft)
        announced["steps"] = draft.steps
        announced["unordered"] = draft.is_unordered
        self.say(announced)
        try:
            seq = run()
        except DatabaseBusy:
            # Nothing was written, it says.
            self.say({"failed": op})
            return
        self.say({"done": op, "seq": seq, "ended": time.monotonic_ns()})
        self.holding = draft.after
        if self.is_sweeping and draft.steps and draft.steps[-1][0] == "del" and self.random.random() < 0.5:
            self._sweep(op + "-sweep")

    def _sweep(self, op: str) -> None:
        """Remove all history. The newest entry goes too, if it still is a deletion; its seq must not come back."""
        self.say({"op": op, "kind": "compact", "keep": 0})
        oldest = self.db.compact(0)["oldest"]
        self.say({"done": op, "seq": None, "oldest": oldest})

    # Each kind makes the draft and gives what carries it out; that gives the seq of its last change, where it is known.

    def _single(self, draft: Draft) -> Callable[[], int | None]:
        draft.fill(1)
        return lambda: self._alone(draft)

    def _bulk_write(self, draft: Draft) -> Callable[[], int | None]:
        self.random.choice([draft.bulk_insert, draft.bulk_insert, draft.bulk_update, draft.bulk_delete])()
        return lambda: self._alone(draft)

    def _alone(self, draft: Draft) -> int | None:
        for call in draft.calls:
            call()
        if len(draft.steps) == 1 and draft.steps[0][0] == "put" and self.random.random() < 0.2:
            _, table, key, _, _ = draft.steps[0]
            return self.db.table(table).get(key).history()[-1].seq
        return None

    def _transaction(self, draft: Draft) -> Callable[[], int | None]:
        draft.fill(self.random.randrange(1, 4))
        if self.random.random() < 0.3:
            draft.part_that_fails()
        draft.fill(self.random.randrange(1, 4))
        return lambda: self._together(draft)

    def _transfer(self, draft: Draft) -> Callable[[], int | None]:
        draft.transfer()
        return lambda: self._together(draft)

    def _together(self, draft: Draft) -> int:
        with self.db.transaction(durability=draft.durability, origin=draft.op):
            for call in draft.calls:
                call()
            return self.db.seq

    def _rollback(self, draft: Draft) -> Callable[[], int | None]:
        """A transaction that is taken back: announced as nothing."""
        whole = Draft(self, draft.op + "-back", draft.after.copy())
        whole.fill(self.random.randrange(1, 5))
        self.random.choice([whole.transfer, whole.new_table, whole.new_index, whole.bulk_insert])()

        def run() -> None:
            try:
                self._together(whole)
            except TakenBack:
                pass

        whole.calls.append(lambda: _raise(TakenBack()))
        return run

    def _duplicate(self, draft: Draft) -> Callable[[], int | None]:
        """A bulk insert whose last key is taken: announced as nothing."""
        taken = [(table, key) for table, documents in draft.after.tables.items() for key in documents]
        if not taken:
            return self._single(draft)
        table, key = self.random.choice(taken)
        ghost = Draft(self, draft.op + "-back", draft.after)
        documents = [ghost.document(self.next_key()) for _ in range(5)] + [ghost.document(key)]

        def run() -> None:
            try:
                self.db.table(table).insert(documents, durability=draft.durability)
            except DuplicateKey:
                return
            raise Surprise(f"{key} of {table} was there, and could be inserted again")

        return run

    def _catalogue(self, draft: Draft) -> Callable[[], int | None]:
        self.random.choice([draft.new_table, draft.new_index, draft.new_index])()
        return lambda: self._alone(draft)

    def _catalogue_transaction(self, draft: Draft) -> Callable[[], int | None]:
        """Tables, indexes and documents as one."""
        draft.new_table()
        draft.fill(2)
        draft.new_index()
        draft.fill(2)
        return lambda: self._together(draft)


# Kinds of writes and how often they come.
WRITES = {
    "single": 50,
    "transaction": 14,
    "transfer": 10,
    "rollback": 6,
    "bulk_write": 8,
    "duplicate": 2,
    "catalogue": 5,
    "catalogue_transaction": 2,
}


def _raise(error: Exception) -> None:
    raise error


def found(db: Database, say: Say, life: str) -> None:
    """Make the tables that everybody uses, as one transaction of the lane `founder`."""
    op = f"{FOUNDER}-{life}.0"
    accounts = [{"id": str(number), "euros": EUROS, "op": op} for number in range(ACCOUNT_COUNT)]
    hits = {"id": "all", "count": 0, "op": op}
    steps: list[Step] = [["table", name] for name in BASE]
    steps += [["put", ACCOUNTS, account["id"], "insert", account] for account in accounts]
    steps.append(["put", HITS, "all", "insert", hits])
    say({"lane": FOUNDER, "op": op, "kind": "found", "begun": time.monotonic_ns(), "steps": steps})
    with db.transaction(origin=op):
        for name in BASE:
            db.table_create(name)
        session_of(db).set_hook(NOTES, REVISIONS)
        db.table(ACCOUNTS).insert(accounts)
        db.table(HITS).insert(hits)
        seq = db.seq
    say({"done": op, "seq": seq, "ended": time.monotonic_ns()})
