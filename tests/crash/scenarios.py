"""The scenarios of the power-cut tests: what the recorded program does, each aimed at another moment to cut the power at.

A scenario is its name and a seed: both the program that is recorded and the judge of the images make the steps from them.

Rule of this file: steps are made by `Random` alone, and no step depends on what an earlier one found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from random import Random
from typing import Any, Literal
from unittest.mock import patch

# Registers the write hooks, where a scenario is carried out and where its images are opened.
import tests.support.hooks  # noqa: F401
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.errors import CouchError

from .workload import (
    CONSUMER,
    Action,
    Document,
    Reopen,
    Step,
    Together,
    Upkeep,
    Write,
    again,
    attach,
    bulk,
    consume,
    create,
    delete,
    drop,
    hook,
    index,
    keep,
    put,
    revise,
    unindex,
    update,
)

SMALL_CHECKPOINT_BYTES = 64 * 1024
EDITED = "notes"
"""The table of CouchDB's documents."""


@dataclass(slots=True, frozen=True)
class Scenario:
    """See the head of this file.

    Attributes:
        steps: The steps, made with a random source.
        durability: Of the database; each write names its own.
        checkpoint_bytes: Size of the write-ahead log that starts a checkpoint, where it is not the store's own.
        cache_kib: Of the writer's pages, where it is not the store's own: a transaction that is larger goes to the log early.
        chunk_changes: Changes that one transaction of a compaction removes, where it is not the store's own.
        piece_bytes: Of blobs, where it is not the store's own.
        retention: As for `connect`.
        least_bytes: What history may take in any case, where it is not the store's own.
        is_heard: A feed listens, and marks what it is told.
        failing: Suffix of the files of which a flush fails; the random source says which. None: none does.
        failures: How many flushes of them fail, one after the other.
    """

    name: str
    steps: Callable[[Random], list[Step]]
    durability: str = "hard"
    checkpoint_bytes: int | None = None
    cache_kib: int | None = None
    chunk_changes: int | None = None
    piece_bytes: int | None = None
    retention: int | Literal["auto"] = "auto"
    least_bytes: int | None = None
    is_heard: bool = False
    failing: str | None = None
    failures: int = 1


class Script:
    """Makes writes, numbered from 1 (or from where another script has ended)."""

    def __init__(self, random: Random, first: int = 1) -> None:
        self.random = random
        self.numbers = count(first)

    def document(self, number: int, key: Any) -> Document:
        random = self.random
        return {
            "id": key,
            "step": number,
            "n": random.randrange(5),
            "tags": random.sample(["red", "green", "blue", "white"], random.randrange(4)),
            # Some documents have pages of their own.
            "text": random.randbytes(random.choice((10, 10, 100, 400, 3_000))).hex(),
        }

    def make(self, durability: str, *actions: Action) -> Write:
        return Write(next(self.numbers), actions, durability)

    def one(self, durability: str, table: str = "games", keys: int = 12) -> Write:
        """A write of one document or none: a new one, a change, a deletion, or one that changes nothing."""
        random, number, key = self.random, next(self.numbers), self.random.randrange(keys)
        kind = random.choices(("put", "update", "delete", "again"), (10, 4, 3, 1))[0]
        if kind == "put":
            action = put(table, self.document(number, key))
        elif kind == "update":
            action = update(table, key, {"step": number, "n": random.randrange(5)})
        elif kind == "delete":
            action = delete(table, key)
        else:
            action = again(table, key)
        return Write(number, (action,), durability)

    def several(self, durability: str, tables: tuple[str, ...] = ("games", "players")) -> Write:
        """A transaction over several tables."""
        random, number = self.random, next(self.numbers)
        actions = [
            put(random.choice(tables), self.document(number, random.randrange(8)))
            for _ in range(random.randrange(2, 6))
        ]
        actions.append(delete(random.choice(tables), random.randrange(8)))
        return Write(number, tuple(actions), durability)

    def many(self, durability: str, how_many: int, table: str = "games") -> Write:
        """A bulk of new documents."""
        number = next(self.numbers)
        documents = [self.document(number, f"{number}-{place}") for place in range(how_many)]
        return Write(number, (bulk(table, documents),), durability)

    def consumed(self, durability: str) -> Write:
        """What a consumer has still to read, done and acknowledged."""
        number = next(self.numbers)
        return Write(number, (consume(number),), durability)

    def tables(self, durability: str, *names: str) -> Iterator[Write]:
        for name in names:
            yield self.make(durability, create(name))


def compact(keep: int, vacuum: bool = False) -> Upkeep:
    return Upkeep(lambda database: database.compact(keep, vacuum=vacuum))


# ---------------------------------------------------------------------------------------------------------------
# Steps


def creation(durability: str) -> Callable[[Random], list[Step]]:
    def steps(random: Random) -> list[Step]:
        script = Script(random)
        return [
            *script.tables(durability, "games"),
            script.one(durability),
            Reopen(),
            script.one(durability),
            Reopen(),
            script.one(durability),
        ]

    return steps


def writes(durability: str, how_many: int = 24) -> Callable[[Random], list[Step]]:
    def steps(random: Random) -> list[Step]:
        script = Script(random)
        return [
            *script.tables(durability, "games"),
            script.make(durability, index("games", "n")),
            *(script.one(durability) for _ in range(how_many)),
        ]

    return steps


def with_second_tries(
    steps: Callable[[Random], list[Step]], tries: int = 1
) -> Callable[[Random], list[Step]]:
    """For scenarios in which something fails: if it is the making of the first table, the rest must not do without."""

    def tried(random: Random) -> list[Step]:
        first, *others = steps(random)
        assert isinstance(first, Write)
        # Numbers below 1 are free.
        again = [Write(-number, first.actions, first.durability) for number in range(tries)]
        return [first, *again, *others]

    return tried


def mixed(random: Random) -> list[Step]:
    script = Script(random)
    return [
        *script.tables("hard", "games", "players"),
        script.make("hard", index("games", "n")),
        *(
            random.choice((script.one, script.one, script.several))(
                random.choices(("soft", "hard"), (3, 1))[0]
            )
            for _ in range(30)
        ),
    ]


def transactions(random: Random) -> list[Step]:
    script = Script(random)
    return [
        *script.tables("hard", "games", "players"),
        script.make("hard", index("games", "tags", multi=True)),
        *(script.several("hard") for _ in range(16)),
    ]


def bulks(random: Random) -> list[Step]:
    script = Script(random)
    return [
        *script.tables("hard", "games"),
        script.make("hard", index("games", "n")),
        script.many("hard", 40),
        script.one("hard"),
        script.many("soft", 60),
        script.one("hard"),
    ]


def checkpoints(random: Random) -> list[Step]:
    script = Script(random)
    return [
        *script.tables("hard", "games"),
        script.make("hard", index("games", "n")),
        *(script.one(random.choice(("hard", "hard", "soft"))) for _ in range(40)),
    ]


def compactions(random: Random) -> list[Step]:
    script = Script(random)
    steps: list[Step] = [*script.tables("hard", "games", "players")]
    for _ in range(3):
        steps += [script.one(random.choice(("hard", "soft")), keys=6) for _ in range(12)]
        steps.append(compact(random.randrange(6), vacuum=random.random() < 0.5))
    # Everything is deleted, and then even the deletions are removed: no entry is left to count on from.
    steps += [script.make("hard", delete("games", key)) for key in range(6)]
    steps += [compact(0), script.one("hard")]
    return steps


def retention(random: Random) -> list[Step]:
    script = Script(random)
    return [
        *script.tables("hard", "games"),
        *(script.one(random.choice(("hard", "soft")), keys=5) for _ in range(40)),
    ]


def catalogue(random: Random) -> list[Step]:
    script = Script(random)
    steps: list[Step] = [*script.tables("hard", "games", "players"), script.many("hard", 20)]
    for _ in range(2):
        steps += [
            script.make("hard", index("games", "n")),
            script.one("hard"),
            script.make("hard", index("games", "tags", multi=True)),
            script.several("hard"),
            script.make("hard", unindex("games", "n")),
            script.make("hard", drop("players")),
            script.one("hard"),
            compact(0),
            *script.tables("hard", "players"),
            # A table that is made, filled and given an index as one commit.
            make_at_once(script, "cups"),
            script.make("hard", drop("cups")),
        ]
    return steps


def make_at_once(script: Script, table: str) -> Write:
    number = next(script.numbers)
    documents = [script.document(number, key) for key in range(5)]
    return Write(number, (create(table), put(table, *documents), index(table, "n")), "hard")


def consumers(*durabilities: str) -> Callable[[Random], list[Step]]:
    """Writes, and what a consumer does with them in transactions that acknowledge it; processes end in between."""

    def steps(random: Random) -> list[Step]:
        script = Script(random)
        steps: list[Step] = [
            *script.tables("hard", "games", "done"),
            script.one("hard"),
            Upkeep(lambda database: database.consumer(CONSUMER, database.table("games"), since=0)),
        ]
        for _ in range(8):
            steps += [script.one(random.choice(durabilities)) for _ in range(random.randrange(3))]
            steps.append(script.consumed(random.choice(durabilities)))
            if random.random() < 0.3:
                steps.append(Reopen())
        return steps

    return steps


def kept(random: Random) -> list[Step]:
    """Writes, and a materialized view that takes them in; processes end in between."""
    script = Script(random)

    def taken_in() -> Write:
        return Write(next(script.numbers), (keep(),), "hard")

    steps: list[Step] = [*script.tables("hard", "games"), taken_in()]
    for _ in range(8):
        steps += [script.one("hard", keys=5) for _ in range(random.randrange(3))]
        if random.random() < 0.4:
            steps.append(script.several("hard", ("games",)))
        steps.append(taken_in())
        if random.random() < 0.3:
            steps.append(Reopen())
    return steps


def together(by: str, *durabilities: str) -> Callable[[Random], list[Step]]:
    """Lines of writes at once. Every write puts documents, so that the log tells in which order they were committed."""

    def steps(random: Random) -> list[Step]:
        script = Script(random)
        lines = []
        for line in range(4 if by == "threads" else 2):
            writes = []
            for _ in range(8):
                number = next(script.numbers)
                actions = [
                    put("games", script.document(number, f"{line}-{random.randrange(4)}"))
                    for _ in range(random.choice((1, 1, 3)))
                ]
                writes.append(Write(number, tuple(actions), random.choice(durabilities)))
            lines.append(tuple(writes))
        return [
            *script.tables("hard", "games"),
            script.make("hard", index("games", "n")),
            Together(tuple(lines), by),
        ]

    return steps


def hooks(random: Random) -> list[Step]:
    """Writes to a table with a write hook, and to one without."""
    script = Script(random)
    made = script.make("hard", create("games"), create("ranked"), hook("ranked"))
    steps: list[Step] = [made, script.make("hard", index("ranked", "n"))]
    for _ in range(3):
        steps += [
            *(script.one(random.choice(("hard", "soft")), "ranked", keys=5) for _ in range(6)),
            script.several("hard", ("ranked", "games")),
            script.many("soft", 6, "ranked"),
            random.choice((Reopen(), script.one("hard"))),
        ]
    return steps


def blobs(random: Random) -> list[Step]:
    """Pieces of 4 KiB, so that each blob takes several commits; the documents with them come, change and go."""
    script = Script(random)
    steps: list[Step] = [*script.tables("hard", "games")]
    for _ in range(14):
        durability = random.choice(("hard", "soft"))
        number = next(script.numbers)
        size = random.choice((0, 100, 4_096, 12_000, 40_001))
        # Some blobs come again, perhaps while their pieces are being removed.
        content = random.choice((number, 1))
        steps.append(Write(number, (attach("games", random.randrange(4), content, size),), durability))
        if random.random() < 0.3:
            steps.append(script.make(durability, delete("games", random.randrange(4))))
        if random.random() < 0.3:
            steps += [compact(random.randrange(3)), Upkeep(remove_unused)]
    steps.append(make_with_blobs(script))
    return steps


def trees(random: Random) -> list[Step]:
    """Edits of CouchDB's documents: revisions, conflicts, deletions, attachments of several pieces, and native writes of them."""
    script = Script(random)
    # The first table: what is kept of when it was first served is the same then in the model.
    steps: list[Step] = [script.make("hard", revise(serve)), *script.tables("hard", "games")]
    for _ in range(24):
        steps.append(script.make(random.choice(("hard", "soft")), revise(an_edit(random.randrange(2**32)))))
        if random.random() < 0.15:
            steps.append(random.choice((Reopen(), script.one("hard"))))
    return steps


def serve(database: Any) -> None:
    with patch("reactdb.dialects.couchdb.couch.read_second", lambda: 0):
        Couch(database).create(EDITED)


def an_edit(seed: int) -> Callable[[Any], None]:
    def edit(database: Any) -> None:
        if EDITED in database.table_list():
            edit_tree(database, Couch(database).open(EDITED), Random(seed))

    return edit


def edit_tree(database: Any, notes: CouchDatabase, random: Random) -> None:
    id, what = f"d{random.randrange(3)}", random.random()
    alive = leaves_alive(notes, id)
    rev = random.choice(alive) if alive else None
    text = random.randbytes(random.choice((10, 400, 3_000))).hex()
    if what < 0.3:
        notes.put({"_id": id, "text": text, **({} if rev is None else {"_rev": rev})})
    elif what < 0.55:
        start = random.choice((1, 2, 3, 17, 40))
        ids = [random.randbytes(4).hex(), *(f"h{number}" for number in reversed(range(1, start)))]
        given = {"_revisions": {"start": start, "ids": ids}, "_deleted": random.random() < 0.3}
        notes.bulk_docs([{"_id": id, "text": text, **given}], new_edits=False)
    elif what < 0.75:
        notes.put_attachment(id, "x", random.randbytes(random.choice((10, 9_000, 20_000))), "a/b", rev)
    elif what < 0.85 and rev is not None:
        notes.delete(id, rev)
    else:
        database.table(EDITED).insert({"_id": id, "native": text}, conflict="replace")


def leaves_alive(notes: CouchDatabase, id: str) -> list[str]:
    try:
        leaves = [one["ok"] for one in notes.open_revs(id, "all")]
    except CouchError:
        return []
    return [leaf["_rev"] for leaf in leaves if "_deleted" not in leaf]


def remove_unused(database: Any) -> None:
    database.blobs.remove_unused(timedelta(0))


def make_with_blobs(script: Script) -> Write:
    """A table, and documents with blobs, as one commit."""
    number = next(script.numbers)
    attached = [attach("cups", key, number + key, 20_000) for key in range(2)]
    return Write(number, (create("cups"), *attached, delete("games", 0)), "hard")


def reopenings(random: Random) -> list[Step]:
    script = Script(random)
    steps: list[Step] = [*script.tables("hard", "games")]
    for _ in range(5):
        steps += [script.one(random.choice(("hard", "soft"))) for _ in range(random.randrange(1, 5))]
        steps.append(Reopen())
    return steps


def recoveries(first: int, durability: str) -> Callable[[Random], list[Step]]:
    """What is done with an image: the steps of a scenario that begins where another has ended."""

    def steps(random: Random) -> list[Step]:
        script = Script(random, first)
        return [
            *script.tables(durability, "games"),
            *(script.one(durability) for _ in range(random.randrange(3))),
            compact(random.randrange(5)) if random.random() < 0.3 else Reopen(),
            script.one(durability),
        ]

    return steps


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("creation", creation("hard")),
        Scenario("creation, soft", creation("soft"), durability="soft"),
        Scenario("writes", writes("hard"), is_heard=True),
        Scenario("writes, soft", writes("soft"), durability="soft", is_heard=True),
        Scenario("writes, mixed", mixed, is_heard=True),
        Scenario("transactions", transactions, is_heard=True),
        Scenario("bulks", bulks, cache_kib=64, is_heard=True),
        Scenario("checkpoints", checkpoints, checkpoint_bytes=SMALL_CHECKPOINT_BYTES),
        Scenario(
            "checkpoints, soft",
            writes("soft", 40),
            durability="soft",
            checkpoint_bytes=SMALL_CHECKPOINT_BYTES,
        ),
        Scenario("compactions", compactions, checkpoint_bytes=SMALL_CHECKPOINT_BYTES, chunk_changes=7),
        Scenario(
            "retention", retention, retention=8, chunk_changes=5, checkpoint_bytes=SMALL_CHECKPOINT_BYTES
        ),
        Scenario(
            "retention, auto",
            retention,
            least_bytes=1_000,
            chunk_changes=5,
            checkpoint_bytes=SMALL_CHECKPOINT_BYTES,
        ),
        Scenario("tables and indexes", catalogue, checkpoint_bytes=SMALL_CHECKPOINT_BYTES),
        Scenario("threads", together("threads", "hard"), is_heard=True),
        Scenario("threads, mixed", together("threads", "hard", "soft"), is_heard=True),
        Scenario(
            "processes",
            together("processes", "hard", "soft"),
            checkpoint_bytes=SMALL_CHECKPOINT_BYTES,
        ),
        Scenario("blobs", blobs, checkpoint_bytes=SMALL_CHECKPOINT_BYTES, piece_bytes=4_096),
        Scenario("trees", trees, checkpoint_bytes=SMALL_CHECKPOINT_BYTES, piece_bytes=4_096),
        Scenario("reopenings", reopenings),
        Scenario("consumers", consumers("hard")),
        Scenario("kept", kept),
        Scenario("consumers, mixed", consumers("hard", "soft"), checkpoint_bytes=SMALL_CHECKPOINT_BYTES),
        Scenario("hooks", hooks, checkpoint_bytes=SMALL_CHECKPOINT_BYTES),
        Scenario("a flush fails in creation", with_second_tries(creation("hard")), failing=""),
        Scenario("a flush of the log fails", with_second_tries(writes("hard")), failing="-wal"),
        Scenario(
            "a flush of the file fails",
            with_second_tries(checkpoints),
            checkpoint_bytes=SMALL_CHECKPOINT_BYTES,
            failing=".db",
        ),
        Scenario("a flush fails, mixed", with_second_tries(mixed), failing="-wal"),
        Scenario("flushes fail, mixed", with_second_tries(mixed, 4), failing="-wal", failures=4),
        Scenario(
            "a flush fails, soft",
            with_second_tries(writes("soft", 40)),
            durability="soft",
            checkpoint_bytes=SMALL_CHECKPOINT_BYTES,
            failing="-wal",
        ),
    )
}


def recovery(first: int, durability: str) -> str:
    """The name of a scenario that goes on with what an image holds, numbering its writes from `first`."""
    return f"recovery/{first}/{durability}"


def scenario_of(name: str) -> Scenario:
    """By its name: one of SCENARIOS, or as `recovery` names it."""
    if name in SCENARIOS:
        return SCENARIOS[name]
    kind, first, durability = name.split("/")
    assert kind == "recovery"
    return Scenario(name, recoveries(int(first), durability), durability=durability)
