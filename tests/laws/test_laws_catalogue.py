"""The log tells all: replayed, it gives the documents and the catalogue, at its end and at each seq before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

import reactdb
from reactdb import row
from reactdb.change import Change, HiddenTable
from reactdb.expression import from_data, to_data
from reactdb.query import Query
from reactdb.session import session_of
from reactdb.store.log import is_shown
from reactdb.table import Table
from tests.support.hooks import REVISIONS
from tests.support.law_machine import Abandoned, LawMachine
from tests.support.scaling import examples

NAMES = st.sampled_from("abc")
INDEXES = st.sampled_from("xyz")
KEYS = st.integers(0, 4)


class Replayed:
    """What the log says, taken in change by change. It knows tables by number, as programs that follow the log do."""

    def __init__(self, changes: Iterable[Change] = ()) -> None:
        self.tables: dict[int, dict[str, Any]] = {}
        for change in changes:
            self.take(change)

    def take(self, change: Change) -> None:
        said = change.catalogue
        if said is None:
            documents = self.tables[change.table_id]["documents"]
            if change.new_val is None:
                del documents[change.key]
            else:
                documents[change.key] = change.new_val
        elif change.kind == "table_create":
            self.tables[said["table_id"]] = {
                "name": said["table"],
                "primary_key": said["primary_key"],
                "indexes": {},
                "hook": None,
                "documents": {},
            }
        elif change.kind == "table_drop":
            assert self.tables.pop(said["table_id"])["name"] == said["table"]
        else:
            self.change_table(self.tables[said["table_id"]], change.kind, said)

    def change_table(self, table: dict[str, Any], kind: str, said: Any) -> None:
        indexes = table["indexes"]
        assert table["name"] == said["table"]
        if kind == "table_rename":
            table["name"] = said["new_name"]
        elif kind == "hook_set":
            table["hook"] = said["hook"]
        elif kind == "index_create":
            indexes[said["index"]] = (str(from_data(said["expression"])), said["multi"])
        elif kind == "index_rename":
            indexes[said["new_name"]] = indexes.pop(said["index"])
        else:
            assert kind == "index_drop"
            del indexes[said["index"]]

    @property
    def documents(self) -> dict[str, dict[Any, Any]]:
        return {table["name"]: table["documents"] for table in self.tables.values()}


def documents_of(db: Any) -> dict[str, dict[Any, Any]]:
    return {name: {one["id"]: one for one in db.table(name)} for name in db.table_list()}


class CatalogueLaws(LawMachine):
    """Law 2 of documents and catalogue."""

    def __init__(self) -> None:
        super().__init__()
        self.states = {0: documents_of(self.db)}
        self.token = self.db.token
        self.heard: list[tuple[int, str | None]] = []
        self.db.changes(include_catalogue=True, include_seq=True).subscribe(self.hear)

    def hear(self, event: dict[str, Any]) -> None:
        self.heard.append((event["seq"], event.get("kind")))

    def rename(self, old: str, new: str) -> None:
        self.db.table_rename(old, new)

    def step(self, what: str, name: str, other: str, index: str, key: int) -> None:
        """One change, where it can be made; nothing else."""
        tables = self.db.table_list()
        if what == "create" and name not in tables:
            self.db.table_create(name)
        if name not in tables:
            return
        table = self.db.table(name)
        indexes = table.index_list()
        info = session_of(self.db).info(name)
        if what == "drop":
            self.db.table_drop(name)
        elif what == "rename" and other not in tables:
            self.rename(name, other)
        elif what == "hook":
            hook = None if info.hook else REVISIONS
            session_of(self.db).transact(lambda transaction: transaction.set_hook(info, hook))
        elif what == "index":
            if index in indexes:
                table.index_drop(index)
            else:
                table.index_create(index, row["id"] + key, multi=bool(key % 2))
        elif what == "index rename" and indexes and index not in indexes:
            session_of(self.db).transact(
                lambda transaction: transaction.rename_index(info, indexes[0], index)
            )
        elif what == "hidden":
            hidden = HiddenTable("tests", name)
            session_of(self.db).make_hidden(hidden)
            beside = Table(session_of(self.db), Query(hidden))
            beside.insert({"id": key, "x": other}, conflict="replace")
            if index not in beside.index_list():
                beside.index_create(index)
        elif what == "put":
            table.insert({"id": key, "x": other}, conflict="replace")
        elif what == "delete":
            table.get(key).delete()

    STEP = st.tuples(
        st.sampled_from(
            [
                "create",
                "create",
                "drop",
                "rename",
                "hook",
                "index",
                "index rename",
                "put",
                "put",
                "put",
                "delete",
                "hidden",
            ]
        ),
        NAMES,
        NAMES,
        INDEXES,
        KEYS,
    )

    @rule(step=STEP)
    def alone(self, step: Any) -> None:
        self.step(*step)
        self.states[self.db.seq] = documents_of(self.db)

    @rule(steps=st.lists(STEP, min_size=1, max_size=6), is_kept=st.booleans())
    def together(self, steps: list[Any], is_kept: bool) -> None:
        before = self.db.seq
        try:
            with self.db.transaction():
                for step in steps:
                    self.step(*step)
                    try:
                        with self.db.transaction():
                            self.step(*steps[0])
                            raise Abandoned
                    except Abandoned:
                        pass
                if not is_kept:
                    raise Abandoned
        except Abandoned:
            assert before == self.db.seq
        self.states[self.db.seq] = documents_of(self.db)

    @precondition(lambda self: self.on_file)
    @rule()
    def reopen(self) -> None:
        self.db.close()
        self.db = reactdb.connect(self.path, durability="soft")
        self.db.changes(include_catalogue=True, include_seq=True).subscribe(self.hear)

    @invariant()
    def the_log_gives_all(self) -> None:
        changes = list(self.db.log())
        with session_of(self.db).read() as snapshot:
            everything = snapshot.changes(0, limit=100_000)
        assert [change.seq for change in everything] == list(range(1, self.db.seq + 1))
        assert [change.seq for change in changes] == [change.seq for change in everything if is_shown(change)]
        replayed = Replayed(changes)
        catalogue = session_of(self.db).engine.catalogue
        assert replayed.documents == documents_of(self.db)
        assert {
            number: (one["name"], one["primary_key"], one["hook"]) for number, one in replayed.tables.items()
        } == {info.id: (info.name, info.primary_key, info.hook) for info in catalogue.ordinary().values()}
        assert {number: one["indexes"] for number, one in replayed.tables.items()} == {
            info.id: {
                index.name: (str(from_data(to_data(index.expression))), index.multi)
                for index in info.indexes.values()
            }
            for info in catalogue.ordinary().values()
        }
        assert self.heard == [
            (change.seq, None if change.catalogue is None else change.kind) for change in changes
        ]

    @invariant()
    def the_past_is_as_it_was(self) -> None:
        for seq, state in self.states.items():
            past = self.db.at(seq)
            assert documents_of(past) == state

    @invariant()
    def a_feed_from_any_position_tells_the_rest(self) -> None:
        for seq in {0, self.db.seq // 2}:
            with self.db.changes(since=seq, include_catalogue=True, include_seq=True).cursor() as cursor:
                told = [one for one in self.heard if one[0] > seq]
                found = [cursor.next(timeout=5) for _ in told]
                with pytest.raises(TimeoutError):
                    cursor.next(timeout=0)
            assert told == [(event["seq"], event.get("kind")) for event in found]


class CatalogueLawsOnAFile(CatalogueLaws):
    on_file: ClassVar[bool] = True


CatalogueLaws.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=20)
CatalogueLawsOnAFile.TestCase.settings = settings(max_examples=examples(15), stateful_step_count=20)
TestCatalogueLaws = CatalogueLaws.TestCase
TestCatalogueLawsOnAFile = CatalogueLawsOnAFile.TestCase
