"""The past of one key: `db.at(seq).table(name).get(key)` is the document that a model has noted at that seq, for every seq."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

import reactdb
from reactdb.errors import HistoryLost, TableNotFound
from reactdb.session import PastSession, session_of
from tests.support.law_machine import Abandoned, LawMachine
from tests.support.scaling import examples

NAMES = st.sampled_from("ab")
KEYS = range(3)

Tables = dict[str, dict[int, Any]]


class PastLaws(LawMachine):
    """A get of the past follows the key's own entries. So each read has a view of its own, that has read nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: Tables = {}
        self.states: dict[int, Tables] = {}
        self.low = 0
        # Views that compaction may overtake.
        self.kept: dict[int, reactdb.PastDatabase] = {}
        self.note(0)

    def note(self, seq: int) -> None:
        self.states[seq] = {name: dict(documents) for name, documents in self.tables.items()}

    def step(self, operation: str, name: str, key: int, value: int) -> None:
        """One change, or none where it cannot be made."""
        tables = self.tables
        if operation == "create" and name not in tables:
            self.db.table_create(name)
            tables[name] = {}
        elif name not in tables:
            return
        elif operation == "drop":
            self.db.table_drop(name)
            del tables[name]
        elif operation == "rename":
            other = "b" if name == "a" else "a"
            if other in tables:
                return
            self.db.table_rename(name, other)
            tables[other] = tables.pop(name)
        elif operation == "delete":
            if key not in tables[name]:
                return
            self.db.table(name).get(key).delete()
            del tables[name][key]
        else:
            body = {"id": key, "x": value}
            if tables[name].get(key) == body:
                return
            self.db.table(name).insert(body, conflict="replace")
            tables[name][key] = body
        self.note(self.db.seq)

    STEP = st.tuples(
        st.sampled_from(["put", "put", "put", "put", "delete", "delete", "create", "drop", "rename"]),
        NAMES,
        st.sampled_from(KEYS),
        st.integers(0, 3),
    )

    @rule(step=STEP)
    def alone(self, step: Any) -> None:
        self.step(*step)

    @rule(steps=st.lists(STEP, min_size=1, max_size=8))
    def one_by_one(self, steps: list[Any]) -> None:
        for step in steps:
            self.step(*step)

    @rule(steps=st.lists(STEP, min_size=1, max_size=5), is_kept=st.booleans())
    def together(self, steps: list[Any], is_kept: bool) -> None:
        before, states = self.db.seq, dict(self.states)
        tables = {name: dict(documents) for name, documents in self.tables.items()}
        try:
            with self.db.transaction():
                for step in steps:
                    self.step(*step)
                    # Inside of it, the past does not have its writes.
                    self.check(states, before)
                if not is_kept:
                    raise Abandoned
        except Abandoned:
            self.tables = tables
            self.states = states
        else:
            self.states = states
            self.note(self.db.seq)

    @rule(keep=st.integers(0, 12))
    def compact(self, keep: int) -> None:
        low = max(self.low, self.db.seq - keep)
        self.kept = {seq: self.db.at(seq) for seq in self.states if seq >= self.low}
        self.db.compact(keep=keep)
        self.low = low

    def check(self, states: dict[int, Tables], until: int) -> None:
        for seq, tables in states.items():
            if seq > until:
                continue
            if seq < self.low:
                with pytest.raises(HistoryLost):
                    self.db.at(seq)
                if seq in self.kept:
                    with pytest.raises(HistoryLost):
                        self.kept[seq].table("a").get(0).run()
                continue
            for name in "ab":
                past = self.db.at(seq).table(name)
                if name not in tables:
                    with pytest.raises(TableNotFound):
                        past.get(0).run()
                    continue
                wanted = [tables[name].get(key) for key in KEYS]
                assert [past.get(key).run() for key in KEYS] == wanted
                assert past.get_all(*KEYS).run() == [one for one in wanted if one is not None]
                session = session_of(past)
                assert isinstance(session, PastSession)
                # It has not been answered by all changes since.
                assert not session._later.is_read
                # Nor do all changes since tell otherwise.
                assert past.run() == [one for one in wanted if one is not None]
                assert [past.get(key).run() for key in KEYS] == wanted

    @invariant()
    def a_document_of_the_past_is_as_it_was(self) -> None:
        self.check(self.states, self.db.seq)


class PastLawsOnAFile(PastLaws):
    on_file: ClassVar[bool] = True


PastLaws.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=15)
PastLawsOnAFile.TestCase.settings = settings(max_examples=examples(10), stateful_step_count=15)
TestPastLaws = PastLaws.TestCase
TestPastLawsOnAFile = PastLawsOnAFile.TestCase
