"""The standing laws of the store, as state machines against a model of plain dicts.

The model remembers what every table held at every seq. After every step the database must agree with it: documents, indexes,
log, the past; on memory and on a file that is closed and opened again in between.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

import reactdb
from reactdb import desc, row
from reactdb.values import codec, collation
from tests.support.law_machine import Abandoned, LawMachine
from tests.support.scaling import examples

KEYS = st.one_of(st.integers(0, 6), st.sampled_from(["a", "b", "c"]))
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(allow_nan=True),
    st.text("abc", max_size=2),
    st.lists(st.integers(0, 3), max_size=3),
    st.dictionaries(st.sampled_from("xy"), st.integers(0, 2), max_size=2),
)
BODIES = st.fixed_dictionaries(
    {}, optional={"a": VALUES, "b": VALUES, "tags": st.lists(st.sampled_from("pqr"), max_size=3)}
)

State = dict[bytes, bytes]


class StoreLaws(LawMachine):
    """Law 2, 3 and 6: log, documents, indexes and the past never disagree."""

    def __init__(self) -> None:
        super().__init__()
        self.games = self.db.table_create("games")
        self.model: State = {}
        # Before the table was made, and then.
        self.past: dict[int, State] = {0: {}, self.db.seq: {}}
        self.oldest = 0

    def remember(self) -> None:
        self.past[self.db.seq] = dict(self.model)

    @initialize()
    def indexes(self) -> None:
        self.games.index_create("a")
        self.games.index_create("ab", [row["a"], row["b"]])
        self.games.index_create("tags", multi=True)
        self.remember()

    # -- steps

    def write(self, key: Any, document: dict[str, Any] | None) -> None:
        place = collation.key_bytes(key)
        if document is None:
            self.model.pop(place, None)
        else:
            self.model[place] = codec.encode({"id": key, **document})

    @rule(key=KEYS, body=BODIES)
    def insert(self, key: Any, body: dict[str, Any]) -> None:
        if collation.key_bytes(key) in self.model:
            with pytest.raises(reactdb.DuplicateKey):
                self.games.insert({"id": key, **body})
        else:
            self.games.insert({"id": key, **body})
            self.write(key, body)
        self.remember()

    @rule(rows=st.dictionaries(KEYS, BODIES, max_size=5))
    def insert_many(self, rows: dict[Any, dict[str, Any]]) -> None:
        self.games.insert([{"id": key, **body} for key, body in rows.items()], conflict="replace")
        changed = 0
        for key, body in rows.items():
            old = self.model.get(collation.key_bytes(key))
            if old is None or not codec.same(codec.decode(old), {"id": key, **body}):
                self.write(key, body)
                changed += 1
        self.remember()

    @rule(keys=st.lists(st.integers(100, 130), unique=True, min_size=2, max_size=6))
    def bulk(self, keys: list[int]) -> None:
        documents = [{"id": key, "a": key % 3} for key in keys]
        if any(collation.key_bytes(key) in self.model for key in keys):
            with pytest.raises(reactdb.DuplicateKey):
                self.games.insert(documents)
        else:
            self.games.insert(documents)
            for key in keys:
                self.write(key, {"a": key % 3})
        self.remember()

    @rule(key=KEYS, body=BODIES)
    def replace(self, key: Any, body: dict[str, Any]) -> None:
        old = self.model.get(collation.key_bytes(key))
        self.games.get(key).replace({"id": key, **body})
        if old is None or not codec.same(codec.decode(old), {"id": key, **body}):
            self.write(key, body)
        self.remember()

    @rule(key=KEYS, value=VALUES)
    def update(self, key: Any, value: Any) -> None:
        place = collation.key_bytes(key)
        self.games.get(key).update({"a": reactdb.literal(value)})
        if place in self.model:
            document = codec.decode(self.model[place])
            new = {**document, "a": value}
            if not codec.same(document, new):
                self.model[place] = codec.encode(new)
        self.remember()

    @rule(key=KEYS)
    def delete(self, key: Any) -> None:
        self.games.get(key).delete()
        self.write(key, None)
        self.remember()

    @rule(rows=st.dictionaries(KEYS, st.one_of(st.none(), BODIES), max_size=4), is_kept=st.booleans())
    def transaction(self, rows: dict[Any, dict[str, Any] | None], is_kept: bool) -> None:
        before = dict(self.model)
        try:
            with self.db.transaction():
                for key, body in rows.items():
                    self.games.get(key).replace(None if body is None else {"id": key, **body})
                    old = self.model.get(collation.key_bytes(key))
                    if body is None or old is None or not codec.same(codec.decode(old), {"id": key, **body}):
                        self.write(key, body)
                if not is_kept:
                    raise Abandoned
        except Abandoned:
            self.model = before
        self.remember()

    @precondition(lambda self: self.on_file)
    @rule()
    def reopen(self) -> None:
        self.db.close()
        self.db = reactdb.connect(self.path, durability="soft")
        self.games = self.db.table("games")

    @rule(keep=st.integers(0, 20))
    def compact(self, keep: int) -> None:
        self.oldest = self.db.compact(keep=keep)["oldest"]

    @rule(data=st.data())
    def look_at_the_past(self, data: st.DataObject) -> None:
        seq = data.draw(
            st.sampled_from([seq for seq in self.past if seq >= max(1, self.oldest)] or [self.db.seq])
        )
        then = self.db.at(seq).table("games")
        expected = self.past[seq]

        assert_same([codec.decode(expected[key]) for key in sorted(expected)], then.run())
        for index in ("a", "ab", "tags"):
            assert_same(indexed(expected, index), then.order_by(index=index).run())
            assert_same(indexed(expected, index)[::-1][:2], then.order_by(index=desc(index)).limit(2).run())

    # -- laws

    @invariant()
    def the_table_equals_the_model(self) -> None:
        assert_same([codec.decode(self.model[key]) for key in sorted(self.model)], self.games.run())
        assert len(self.model) == self.games.count().run()

    @invariant()
    def the_indexes_equal_the_model(self) -> None:
        if self.games.index_list():
            for index in ("a", "ab", "tags"):
                assert_same(indexed(self.model, index), self.games.order_by(index=index).run())

    @invariant()
    def the_log_replays_to_the_documents(self) -> None:
        state = dict(self.past[self.oldest]) if self.oldest in self.past else None
        entries = list(self.db.log(self.oldest))
        assert list(range(self.oldest + 1, self.db.seq + 1)) == [entry.seq for entry in entries]
        if state is None:
            return
        for entry in entries:
            if entry.catalogue is not None:
                continue
            before = state.get(entry.key_bytes)
            assert (before is None) == (entry.old_bytes is None)
            assert before is None or codec.same_bytes(before, entry.old_bytes)
            if entry.new_bytes is None:
                del state[entry.key_bytes]
            else:
                state[entry.key_bytes] = entry.new_bytes
        assert {key: codec.decode(body) for key, body in state.items()}.keys() == self.model.keys()
        assert all(codec.same_bytes(state[key], body) for key, body in self.model.items())


def indexed(state: State, index: str) -> list[dict[str, Any]]:
    """What an index must list, by brute force."""
    places = []
    for key, body in state.items():
        document = codec.decode(body)
        if index == "tags":
            values = document.get("tags", [])
        elif index == "a":
            values = [document["a"]] if "a" in document else []
        else:
            values = [[document["a"], document["b"]]] if "a" in document and "b" in document else []
        for tag, value in enumerate(values):
            place = collation.index_key_bytes(value)
            if place is not None:
                places.append((place, key, tag, body))
    return [codec.decode(body) for *_, body in sorted(places)]


def assert_same(expected: list[Any], actual: list[Any]) -> None:
    """Equal by encoding: to Python 0, 0.0 and False are one value, and NaN is not itself."""
    assert len(expected) == len(actual)
    assert all(codec.same(one, other) for one, other in zip(expected, actual, strict=True)), (
        expected,
        actual,
    )


class FileLaws(StoreLaws):
    on_file = True


TestInMemory = StoreLaws.TestCase
TestInMemory.settings = settings(max_examples=examples(60), stateful_step_count=30)
TestOnFile = FileLaws.TestCase
TestOnFile.settings = settings(max_examples=examples(30), stateful_step_count=30)
