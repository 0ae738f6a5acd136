"""Undo and redo against a model that knows no log: a document's version is an object, and an undo puts the object before
back in its place.

Laws: undo and then redo change nothing; n undos give the state before n steps; the write of another origin is never
taken back, and is named.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from reactdb.errors import Conflict
from tests.support.law_machine import Abandoned, LawMachine
from tests.support.scaling import examples

KEYS = st.integers(0, 3)
WRITES = st.lists(st.tuples(KEYS, st.none() | st.integers(0, 2)), min_size=1, max_size=3)


class Version:
    """One content of one document; two versions of the same content are different."""

    def __init__(self, value: int | None) -> None:
        self.value = value


class UndoMachine(LawMachine):
    limit = 4

    @initialize()
    def begin(self) -> None:
        self.table = self.db.table_create("things")
        self.stack = self.db.undo_stack(origin="ui", limit=self.limit)
        self.nothing = Version(None)
        self.model: dict[int, Version] = {}
        self.undo: list[dict[int, tuple[Version, Version]]] = []
        self.redo: list[dict[int, tuple[Version, Version]]] = []
        self.told: list[tuple[bool, bool]] = []
        self.stack.subscribe(lambda stack: self.told.append((stack.can_undo, stack.can_redo)))

    def write(self, writes: list[tuple[int, int | None]]) -> None:
        for key, value in writes:
            if value is None:
                self.table.get(key).delete()
            else:
                self.table.insert({"id": key, "value": value}, conflict="replace")

    def write_model(self, writes: list[tuple[int, int | None]]) -> dict[int, tuple[Version, Version]]:
        changed: dict[int, tuple[Version, Version]] = {}
        for key, value in writes:
            before = self.model.get(key, self.nothing)
            if before.value != value:
                self.model[key] = Version(value)
                changed[key] = changed.get(key, (before,))[0], self.model[key]
        return changed

    def add(self, step: dict[int, tuple[Version, Version]]) -> None:
        if step:
            self.redo.clear()
            self.undo = [*self.undo, step][-self.limit :]

    @rule(writes=WRITES)
    def write_as_the_user(self, writes: list[tuple[int, int | None]]) -> None:
        with self.db.transaction(origin="ui"):
            self.write(writes)
        self.add(self.write_model(writes))

    @rule(writes=WRITES)
    def write_as_another(self, writes: list[tuple[int, int | None]]) -> None:
        with self.db.transaction(origin="sync"):
            self.write(writes)
        self.write_model(writes)

    @rule(writes=WRITES)
    def take_a_transaction_back(self, writes: list[tuple[int, int | None]]) -> None:
        with pytest.raises(Abandoned), self.db.transaction(origin="ui"):
            self.write(writes)
            raise Abandoned

    @rule(first=WRITES, other=WRITES, second=WRITES)
    def write_a_group(self, first: Any, other: Any, second: Any) -> None:
        with self.stack.group("both"):
            with self.db.transaction(origin="ui"):
                self.write(first)
            with self.db.transaction(origin="sync"):
                self.write(other)
            with self.db.transaction(origin="ui"):
                self.write(second)
        step = self.write_model(first)
        self.write_model(other)
        self.add(step)
        # Change by change, as the group is split at the first document that another writer has changed in between.
        later: dict[int, tuple[Version, Version]] = {}
        is_first = bool(step)
        for key, value in second:
            before = self.model.get(key, self.nothing)
            if before.value == value:
                continue
            ((_, (_, after)),) = self.write_model([(key, value)]).items()
            if is_first and (key not in step or step[key][1] is before):
                step[key] = step.get(key, (before,))[0], after
            else:
                if is_first or not later:
                    later = {}
                    is_first = False
                    self.add(later or {key: (before, after)})
                    later = self.undo[-1]
                later[key] = later.get(key, (before,))[0], after

    def move(self, source: list[Any], target: list[Any], is_undo: bool, skips: bool) -> None:
        move = self.stack.undo if is_undo else self.stack.redo
        if not source:
            assert move() is None
            return
        step = source[-1]
        others = {
            key for key, (before, after) in step.items()
            if self.model.get(key, self.nothing) is not (after if is_undo else before)
        }  # fmt: skip
        if others and not skips:
            seq = self.db.seq
            with pytest.raises(Conflict) as error:
                move()
            assert others == {one["key"] for one in error.value.documents}
            assert self.db.seq == seq
            return
        answer = move(skip_conflicts=skips)
        assert answer is not None
        assert (answer["restored"], len(answer["skipped"])) == (len(step) - len(others), len(others))
        source.pop()
        for key, (before, after) in step.items():
            if key not in others:
                self.model[key] = before if is_undo else after
        if len(others) < len(step):
            target.append({key: versions for key, versions in step.items() if key not in others})

    @rule(skips=st.booleans())
    def undo_a_step(self, skips: bool) -> None:
        self.move(self.undo, self.redo, is_undo=True, skips=skips)

    @rule(skips=st.booleans())
    def redo_a_step(self, skips: bool) -> None:
        self.move(self.redo, self.undo, is_undo=False, skips=skips)

    @precondition(lambda self: hasattr(self, "undo"))
    @rule()
    def undo_and_redo_all(self) -> None:
        while self.undo:
            self.move(self.undo, self.redo, is_undo=True, skips=True)
        while self.redo:
            self.move(self.redo, self.undo, is_undo=False, skips=True)

    @invariant()
    def documents_agree(self) -> None:
        if hasattr(self, "stack"):
            stored = {document["id"]: document["value"] for document in self.table}
            assert stored == {key: one.value for key, one in self.model.items() if one.value is not None}
            state = bool(self.undo), bool(self.redo)
            assert (self.stack.can_undo, self.stack.can_redo) == state
            assert (self.told or [(False, False)])[-1] == state


class UndoMachineOnFile(UndoMachine):
    on_file = True


TestUndo = UndoMachine.TestCase
TestUndo.settings = settings(max_examples=examples(120), stateful_step_count=25, deadline=None)
TestUndoOnFile = UndoMachineOnFile.TestCase
TestUndoOnFile.settings = settings(max_examples=examples(15), stateful_step_count=25, deadline=None)
