"""Laws of registered types and operations: they are to indexes, conditions and equality what the core's are."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import reactdb
from reactdb import json, row
from reactdb.expression import call, evaluate
from reactdb.values import codec, collation
from reactdb.values.codec import UnknownValue
from tests.support.registered_types import TYPES, Exact, Mark, Release, first, in_reverse, place
from tests.support.scaling import examples

marks = st.binary(min_size=4, max_size=4).map(Mark) | st.sampled_from(
    [Mark(b"\0\0\0\0"), Mark(b"\0\xff\0\1")]
)
releases = st.builds(Release, st.integers(0, 12), st.integers(0, 12))
exacts = st.sampled_from(["1", "1.0", "01", "9", "10", "-2.50", "NaN", "nan", "1E+3", "1000"]).map(Exact)
plain = st.sampled_from([0, 1, 1.0, 9, 10, -3, 1000, 2.5, "", "1", "b", Decimal("1.00"), Decimal("-2.5")])
values = st.one_of(marks, releases, exacts, plain)


@settings(max_examples=examples(600))
@given(values)
def test_a_value_comes_back_equal_from_its_bytes_its_key_and_its_json(value: Any) -> None:
    document = {"id": 1, "deep": [{"a": value}], "a": value}
    data = codec.encode(document)

    for decoded in (codec.decode(data), codec.decode_frozen(data), *codec.decode_many([data, data])):
        assert document == decoded
        assert type(value) is type(decoded["a"])
        assert data == codec.encode(decoded)
    assert document == json.loads(json.dumps(document))
    key = collation.key_bytes(value)
    assert key == collation.key_bytes(collation.key_value(key))
    if isinstance(value, Mark | Release):
        assert value == collation.key_value(key)


@settings(max_examples=examples(600))
@given(values, values)
def test_the_order_is_pythons_and_no_key_begins_another(one: Any, other: Any) -> None:
    before = (place(one) > place(other)) - (place(one) < place(other))

    assert before == collation.compare(one, other)
    assert before == collation.compare([one, 1], [other, 1])
    left, right = collation.key_bytes(one), collation.key_bytes(other)
    assert before == (left > right) - (left < right)
    assert left == right or not left.startswith(right)
    for sign, wanted in {"lt": before < 0, "eq": before == 0, "ge": before >= 0}.items():
        condition = call(sign, row["a"], other)
        assert wanted == condition({"a": one}) == evaluate(condition, {"a": one})


@settings(max_examples=examples(300))
@given(values, values)
def test_two_values_are_the_same_where_their_bytes_are(one: Any, other: Any) -> None:
    assert codec.same(one, other) == (codec.encode_value(one) == codec.encode_value(other))
    assert codec.same({"a": one, "b": 1}, {"b": 1, "a": other}) == codec.same(one, other)
    assert not codec.same({"a": one, "b": 1}, {"b": 1, "a": other}, sees_order=True)


@settings(max_examples=examples(300))
@given(st.sampled_from(TYPES), st.binary(max_size=6))
@example(TYPES[1], b"01.1")
def test_bytes_are_either_a_values_own_or_damage(kind: Any, data: bytes) -> None:
    packed = codec.encode_value(UnknownValue(127, data)).replace(b"\x7f", bytes((kind.code,)), 1)
    try:
        value = codec.decode_value(packed)
    except reactdb.CorruptDatabase:
        return
    assert packed == codec.encode_value(value)


class Registered(RuleBasedStateMachine):
    """A table with indexes on registered values and operations, against documents in a dict.

    Whatever is written, an index finds what a scan finds, in Python's order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.db = reactdb.connect(":memory:")
        self.table = self.db.table_create("known")
        self.model: dict[int, dict[str, Any]] = {}

    @initialize()
    def indexes(self) -> None:
        self.table.index_create("a")
        self.table.index_create("first", call("acme.first", row["a"]))
        self.table.index_create("reversed", call("acme.in_reverse", row["a"]))

    @rule(key=st.integers(0, 8), value=values)
    def put(self, key: int, value: Any) -> None:
        before = self.model.get(key)
        self.model[key] = {"id": key, "a": value}
        counts = self.table.insert(self.model[key], conflict="replace")
        same = before is not None and codec.same(before, self.model[key])
        wanted = "inserted" if before is None else "unchanged" if same else "replaced"
        assert 1 == counts[wanted]

    @rule(key=st.integers(0, 8))
    def delete(self, key: int) -> None:
        self.table.get(key).delete()
        self.model.pop(key, None)

    @rule(value=values)
    def look_up(self, value: Any) -> None:
        for sign in ("eq", "lt", "ge"):
            condition = call(sign, row["a"], value)
            found = self.table.filter(condition)
            assert "a" == found.explain()["index"]
            wanted = [body for body in self.model.values() if evaluate(condition, body)]
            assert sorted(body["id"] for body in wanted) == sorted(found["id"].run())

    @rule(number=st.integers(0, 12))
    def look_up_by_an_operation(self, number: int) -> None:
        found = self.table.filter(call("acme.first", row["a"]) == number)
        assert "first" == found.explain()["index"]
        wanted = sorted(
            key for key, body in self.model.items() if collation.compare(first(body["a"]), number) == 0
        )
        assert (
            wanted
            == sorted(found["id"].run())
            == sorted(self.table.get_all(number, index="first")["id"].run())
        )

    @invariant()
    def every_index_is_in_order(self) -> None:
        # NaN is in no index of ReQL's.
        numbered = [body for body in self.model.values() if place(body["a"])[:2] != (1, True)]
        wanted = sorted(numbered, key=lambda body: (place(body["a"]), body["id"]))
        assert [body["id"] for body in wanted] == self.table.order_by(index="a")["id"].run()
        wanted = sorted(self.model.values(), key=lambda body: (in_reverse(body["a"]), body["id"]))
        assert [body["id"] for body in wanted] == self.table.order_by(index="reversed")["id"].run()

    def teardown(self) -> None:
        self.db.close()


Registered.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=20)
TestRegistered = Registered.TestCase
