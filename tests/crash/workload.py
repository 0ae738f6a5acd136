"""Workloads of the power-cut tests: steps that a program carries out on a database, and what each does to a plain model of it.

A step can be carried out in any state (it creates missing tables and skips missing keys), so that the same steps
can continue from an image.

Rule of this file: the model is dicts and lists and knows nothing of reactdb, but for what `revise` says. A write to a table that
does not exist (because its creation failed) does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import reactdb
from reactdb import Blob
from reactdb.change import TableReference
from reactdb.session import session_of
from reactdb.values import codec
from tests.support.hooks import JOURNAL, JOURNALLED, make_journal, whole_log

CONSUMER = "power"
KEPT = "kept"

Document = dict[str, Any]
Change = tuple[TableReference, Any, Document | None]
Edit = Callable[[Any], object]
"""An edit of a database's documents. What it does depends on nothing but these."""


@dataclass(slots=True)
class Model:
    """What a database holds, and its log: one change (table, key, new document) for each seq. A write to a table in `hooked` is
    followed by that of its revision into the hidden table JOURNAL. A change of a table or an index has their names as key, and
    no document; `catalogue` has its seq. `position` is a consumer's in the log. `edits` are those of CouchDB's documents, with
    `edited` entries in the log."""

    tables: dict[TableReference, dict[Any, Document]] = field(default_factory=dict)
    indexes: dict[TableReference, set[str]] = field(default_factory=dict)
    log: list[Change] = field(default_factory=list)
    position: int = 0
    hooked: set[TableReference] = field(default_factory=set)
    catalogue: set[int] = field(default_factory=set)
    edits: tuple[Edit, ...] = ()
    edited: int = 0

    def note(self, table: TableReference, key: Any) -> None:
        """A change of a table, or of an index."""
        self.log.append((table, key, None))
        self.catalogue.add(len(self.log))

    def put(self, table: str, document: Document) -> None:
        key = document["id"]
        if table in self.tables and self.tables[table].get(key) != document:
            self.tables[table][key] = document
            self._changed(table, key, document)

    def delete(self, table: str, key: Any) -> None:
        if self.tables.get(table, {}).pop(key, None) is not None:
            self._changed(table, key, None)

    def _changed(self, table: str, key: Any, document: Document | None) -> None:
        self.log.append((table, key, document))
        if table in self.hooked:
            before = self.tables[JOURNAL].get(key, {"revision": b"0-"})["revision"]
            number, fields = int(before.partition(b"-")[0]) + 1, len(document or ())
            kept = {"id": key, "revision": b"%d-%d" % (number, fields), "is_deleted": document is None}
            self.tables[JOURNAL][key] = kept
            self.log.append((JOURNAL, key, kept))

    def picture(self) -> Picture:
        """A copy, to compare with."""
        tables = {
            name: (dict(documents), sorted(self.indexes[name])) for name, documents in self.tables.items()
        }
        return Picture(len(self.log), tables)

    def copy(self) -> Model:
        tables = {name: dict(documents) for name, documents in self.tables.items()}
        indexes = {name: set(names) for name, names in self.indexes.items()}
        return Model(
            tables,
            indexes,
            list(self.log),
            self.position,
            set(self.hooked),
            set(self.catalogue),
            self.edits,
            self.edited,
        )


@dataclass(slots=True, frozen=True)
class Picture:
    """The documents and the names of the indexes of each table, at one seq."""

    seq: int
    tables: dict[TableReference, tuple[dict[Any, Document], list[str]]]


# ---------------------------------------------------------------------------------------------------------------
# Actions: (what it does to a database, what it does to the model)


@dataclass(slots=True, frozen=True)
class Action:
    perform: Callable[[Any, str | None], object]
    effect: Callable[[Model], None]


def put(table: str, *documents: Document) -> Action:
    """Documents, in the place of those that have their keys."""

    def perform(database: Any, durability: str | None) -> None:
        database.table(table).insert(
            [dict(one) for one in documents], conflict="replace", durability=durability
        )

    def effect(model: Model) -> None:
        for document in documents:
            model.put(table, document)

    return Action(perform, effect)


def bulk(table: str, documents: Sequence[Document]) -> Action:
    """Many new documents with one call: their keys are free."""

    def perform(database: Any, durability: str | None) -> None:
        database.table(table).insert([dict(one) for one in documents], durability=durability)

    def effect(model: Model) -> None:
        for document in documents:
            model.put(table, document)

    return Action(perform, effect)


def attach(table: str, key: Any, number: int, size: int) -> Action:
    """A document with a blob, which is put just before."""
    data = bytes((number % 251, number // 251)) * (size // 2) + bytes(size % 2)
    document = {"id": key, "step": number, "blob": Blob(sha256(data).hexdigest(), size)}

    def perform(database: Any, durability: str | None) -> None:
        database.blobs.put(data, durability=durability)
        database.table(table).insert(dict(document), conflict="replace", durability=durability)

    return Action(perform, lambda model: model.put(table, document))


def again(table: str, key: Any) -> Action:
    """Nothing changes, and the answer says that what is there is there (or that it is not)."""

    def perform(database: Any, durability: str | None) -> None:
        database.table(table).get(key).update({}, durability=durability)

    return Action(perform, lambda model: None)


def update(table: str, key: Any, fields: Document) -> Action:
    def perform(database: Any, durability: str | None) -> None:
        database.table(table).get(key).update(dict(fields), durability=durability)

    def effect(model: Model) -> None:
        old = model.tables.get(table, {}).get(key)
        if old is not None:
            model.put(table, {**old, **fields})

    return Action(perform, effect)


def delete(table: str, key: Any) -> Action:
    def perform(database: Any, durability: str | None) -> None:
        database.table(table).get(key).delete(durability=durability)

    return Action(perform, lambda model: model.delete(table, key))


def create(table: str) -> Action:
    def effect(model: Model) -> None:
        if table not in model.tables:
            model.tables[table], model.indexes[table] = {}, set()
            model.note(table, table)

    def perform(database: Any, durability: str | None) -> None:
        with database.transaction(durability=durability):
            database.table_create(table, exist_ok=True)

    return Action(perform, effect)


def hook(table: str) -> Action:
    """A write hook for a table that was just made, and the hidden table that it writes to."""

    def perform(database: Any, durability: str | None) -> None:
        with database.transaction(durability=durability):
            make_journal(database)
            session_of(database).set_hook(table, JOURNALLED)

    def effect(model: Model) -> None:
        if table in model.tables:
            if JOURNAL not in model.tables:
                model.tables[JOURNAL], model.indexes[JOURNAL] = {}, set()
                model.note(JOURNAL, JOURNAL.name)
            model.hooked.add(table)
            model.note(table, table)

    return Action(perform, effect)


def drop(table: str) -> Action:
    def perform(database: Any, durability: str | None) -> None:
        with database.transaction(durability=durability):
            if table in database.table_list():
                database.table_drop(table)

    def effect(model: Model) -> None:
        if model.tables.pop(table, None) is not None:
            del model.indexes[table]
            model.note(table, table)

    return Action(perform, effect)


def index(table: str, name: str, multi: bool = False) -> Action:
    def perform(database: Any, durability: str | None) -> None:
        with database.transaction(durability=durability):
            if name not in database.table(table).index_list():
                database.table(table).index_create(name, multi=multi)

    def effect(model: Model) -> None:
        if name not in model.indexes.get(table, {name}):
            model.indexes[table].add(name)
            model.note(table, [table, name])

    return Action(perform, effect)


def unindex(table: str, name: str) -> Action:
    def perform(database: Any, durability: str | None) -> None:
        with database.transaction(durability=durability):
            if name in database.table(table).index_list():
                database.table(table).index_drop(name)

    def effect(model: Model) -> None:
        if name in model.indexes.get(table, ()):
            model.indexes[table].discard(name)
            model.note(table, [table, name])

    return Action(perform, effect)


def consume(number: int) -> Action:
    """What a durable consumer of `games` has still to read is noted in `done`, in the transaction that acknowledges it."""

    def perform(database: Any, durability: str | None) -> None:
        worker = database.consumer(CONSUMER, database.table("games")).batches(max_changes=1_000, max_wait_s=0)
        batch = worker.poll()
        if batch is None:
            return
        with database.transaction(durability=durability):
            database.table("done").insert([{"id": change["seq"], "step": number} for change in batch.changes])
            batch.acknowledge()

    def effect(model: Model) -> None:
        end = len(model.log)
        seqs = [
            seq
            for seq in range(model.position + 1, end + 1)
            if seq not in model.catalogue and model.log[seq - 1][0] == "games"
        ]
        for seq in seqs:
            model.put("done", {"id": seq, "step": number})
        model.position = end if seqs else model.position

    return Action(perform, effect)


def keep() -> Action:
    """The table `kept` is made equal to `games`, as a materialized view. It is made while `games` is empty, so that the log has
    its documents in the order of their changes."""

    def perform(database: Any, durability: str | None) -> None:
        with database.materialize(database.table("games"), KEPT, follow=False):
            pass

    def effect(model: Model) -> None:
        if KEPT not in model.tables:
            model.tables[KEPT], model.indexes[KEPT] = {}, set()
            model.note(KEPT, KEPT)
            model.note(KEPT, KEPT)
        since, model.position = model.position, len(model.log)
        newest = {key: document for table, key, document in model.log[since:] if table == "games"}
        for key, document in newest.items():
            if document is None:
                model.delete(KEPT, key)
            else:
                model.put(KEPT, document)

    return Action(perform, effect)


def place_of(key: Any) -> Any:
    """A key as that of a dict."""
    return tuple(key) if isinstance(key, list) else key


def revise(edit: Edit) -> Action:
    """An edit of CouchDB's documents, as one commit. The model has what the same edits make in a database that nobody cuts off:
    whether that is right is for others to say, and here that it is there, or not, as a whole."""

    def perform(database: Any, durability: str | None) -> None:
        with database.transaction(durability=durability):
            edit(database)

    def effect(model: Model) -> None:
        model.edits += (edit,)
        with reactdb.connect(":memory:", retention=None) as database:
            for one in model.edits:
                with database.transaction():
                    one(database)
            entries = whole_log(database)
            with session_of(database).read() as snapshot:
                for name, info in snapshot.catalogue.live.items():
                    rows = map(codec.decode, (row.body for row in snapshot.rows(info)))
                    model.tables[name] = {place_of(row[info.primary_key]): row for row in rows}
                    model.indexes.setdefault(name, set())
        for change in entries[model.edited :]:
            model.log.append((change.table, change.key, change.new_val))
            if change.catalogue is not None:
                model.catalogue.add(len(model.log))
        model.edited = len(entries)

    return Action(perform, effect)


# ---------------------------------------------------------------------------------------------------------------
# Steps


@dataclass(slots=True, frozen=True)
class Write:
    """One commit.

    Attributes:
        number: Names it in the marks; also in the field `step` of every document that it writes.
        durability: What is asked for; of several actions, for the transaction that they are made in.
    """

    number: int
    actions: tuple[Action, ...]
    durability: str

    def perform(self, database: Any) -> None:
        if len(self.actions) == 1:
            self.actions[0].perform(database, self.durability)
            return
        with database.transaction(durability=self.durability):
            for action in self.actions:
                action.perform(database, None)

    def effect(self, model: Model) -> None:
        for action in self.actions:
            action.effect(model)


@dataclass(slots=True, frozen=True)
class Upkeep:
    """Something that changes the files, and nothing that they say."""

    perform: Callable[[Any], object]


class Reopen:
    """Close the database and open it again: the last one to close empties the write-ahead log and removes it."""


@dataclass(slots=True, frozen=True)
class Together:
    """Several sequences of writes at once, each by a thread or a process of its own."""

    lines: tuple[tuple[Write, ...], ...]
    by: str  # "threads" or "processes"


Step = Write | Upkeep | Reopen | Together


def writes_of(steps: Iterable[Step]) -> list[Write]:
    """Every write, in the order in which they are begun; of those made at once, in any."""
    found: list[Write] = []
    for step in steps:
        if isinstance(step, Write):
            found.append(step)
        elif isinstance(step, Together):
            found += [write for line in step.lines for write in line]
    return found
