"""Updates by key, and scans that take several pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb import row
from reactdb.errors import InvalidDocument, InvalidKey, MissingValue
from reactdb.expression import Expression, compile_value, evaluate, merge_document
from tests.support.scaling import examples

NAMES = st.sampled_from(["id", "a", "b", "c", "longer"])
PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=3)
VALUES = (
    PLAIN | st.binary(max_size=3) | st.lists(PLAIN, max_size=2) | st.dictionaries(NAMES, PLAIN, max_size=3)
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=4).map(lambda document: {**document, "id": "k"})
PATCHES = st.dictionaries(NAMES.filter(lambda name: name != "id"), VALUES, max_size=4)


@pytest.fixture(scope="module")
def table() -> Iterator[reactdb.Table]:
    with reactdb.connect(":memory:") as database:
        yield database.table_create("things")


@settings(max_examples=examples(150), deadline=None)
@given(DOCUMENTS, PATCHES, st.booleans())
def test_a_point_update_stores_the_document_with_the_patch_merged_in(
    table: reactdb.Table, document: dict[str, Any], patch: dict[str, Any], is_function: bool
) -> None:
    table.get("k").delete()
    table.insert(document)
    before = reactdb.Database(table._session).seq
    expected = merge_document(table.get("k").run(), patch)
    counts = table.get("k").update((lambda _: patch) if is_function else patch)
    found = table.get("k").run()
    assert reactdb.values.codec.same(expected, found)
    is_changed = not reactdb.values.codec.same(expected, document)
    assert (counts["replaced"], counts["unchanged"]) == (int(is_changed), int(not is_changed))
    assert reactdb.Database(table._session).seq == before + is_changed


@settings(max_examples=examples(100), deadline=None)
@given(DOCUMENTS, st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=2), PLAIN)
def test_a_patch_of_expressions_gives_the_same_when_it_is_compiled(
    table: reactdb.Table, document: dict[str, Any], names: list[str], other: Any
) -> None:
    patch = {**{name: row[name].default(0).type_of() for name in names}, "c": other}
    expected = merge_document(document, evaluate(patch, document))
    for _ in range(3):
        table.get("k").delete()
        table.insert(document)
        table.get("k").update(patch)
        assert reactdb.values.codec.same(expected, table.get("k").run())


@pytest.mark.parametrize("edge", [0, 1, 2**53, 2**62 - 2, 2**62 - 1, 2**62, 2**63 - 1, 2**63, 10**30])
@pytest.mark.parametrize("sign", [1, -1])
def test_sums_of_small_and_large_ints_are_exact(edge: int, sign: int) -> None:
    for expression in (
        row["a"] + 2**62 - 1,
        row["a"] - 3,
        row["a"] + row["b"],
        5 - row["b"],
        row["a"] - row["b"],
    ):
        for document in ({"a": sign * edge, "b": edge}, {"a": edge, "b": -7}, {"a": 1.5, "b": sign * edge}):
            found = compile_value(expression)(document)
            assert (type(found), found) == (
                type(evaluate(expression, document)),
                evaluate(expression, document),
            )


def test_a_sum_of_what_is_no_number_tells_the_same_error_compiled() -> None:
    for document in ({"a": True}, {"a": None}, {"a": {}}, {}):
        with pytest.raises(reactdb.errors.QueryError) as walked:
            evaluate(row["a"] + 1, document)
        with pytest.raises(reactdb.errors.QueryError) as compiled:
            compile_value(row["a"] + 1)(document)
        assert str(walked.value) == str(compiled.value)


def test_a_field_of_the_row_is_one_expression_for_all() -> None:
    assert row["some name"] is row["some name"]
    assert isinstance(row["some name"], Expression)
    assert row["x" * 100] is not row["x" * 100]


def test_a_function_that_changes_what_it_is_given_changes_nothing(table: reactdb.Table) -> None:
    table.insert({"id": "mine", "a": 1, "b": 2}, conflict="replace")

    def patch(document: dict[str, Any]) -> dict[str, Any]:
        del document["b"]
        document["a"] = 100
        return {"c": 3}

    table.get("mine").update(patch)
    assert table.get("mine").run() == {"id": "mine", "a": 1, "b": 2, "c": 3}


def test_a_patch_may_not_change_the_key_but_may_repeat_it(table: reactdb.Table) -> None:
    table.insert({"id": 1, "a": 1}, conflict="replace")
    assert table.get(1).update({"id": 1, "a": 2})["replaced"] == 1
    for other in (2, 1.5, None):
        with pytest.raises(InvalidKey):
            table.get(1).update({"id": other, "a": 3})
    assert table.get(1).run() == {"id": 1, "a": 2}


def test_a_patch_that_no_document_may_hold_is_refused_and_leaves_nothing(table: reactdb.Table) -> None:
    table.insert({"id": 1, "a": 1}, conflict="replace")
    for wrong in ({"a": "\ud800"}, {"a": {1, 2}}, {"a": object()}, {"a": row["a"] + 0, "b": "\ud800"}):
        with pytest.raises(InvalidDocument):
            table.get(1).update(wrong)
    with pytest.raises(MissingValue):
        table.get(1).update({"a": row["nothing"] + 1, "b": 2})
    assert table.get(1).run() == {"id": 1, "a": 1}


def test_an_update_of_a_missing_document_skips_it(table: reactdb.Table) -> None:
    for patch in ({"a": 1}, {"a": row["a"] + 1}, lambda document: {"a": 1}):
        assert table.get("missing").update(patch)["skipped"] == 1


def test_what_a_point_update_changed_is_returned_when_asked(table: reactdb.Table) -> None:
    table.insert({"id": 1, "a": 1}, conflict="replace")
    found = table.get(1).update({"a": row["a"] + 1}, return_changes=True)
    assert found["changes"] == [{"old_val": {"id": 1, "a": 1}, "new_val": {"id": 1, "a": 2}}]
    assert "changes" not in table.get(1).update({"a": row["a"] + 1})


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 512, 700])
def test_a_scan_gives_every_document_once_in_order_however_many_pages_it_takes(count: int) -> None:
    with reactdb.connect(":memory:") as database:
        table = database.table_create("things")
        table.insert([{"id": number, "n": number % 7} for number in range(count)])
        past = database.at(database.seq).table("things")
        table.filter(row["id"] >= count // 2).update({"n": -1})
        numbers = list(range(count))
        for selection in (table, past):
            assert [document["id"] for document in selection] == numbers
            backwards = selection.order_by(index=reactdb.desc("id"))
            assert [document["id"] for document in backwards] == numbers[::-1]
            for skip, limit in ((0, 3), (250, 10), (256, 256), (300, 10_000), (0, 256), (0, 257)):
                assert [d["id"] for d in selection.skip(skip).limit(limit)] == numbers[skip : skip + limit]
            odd = [d["id"] for d in selection.filter(lambda document: document["id"] % 2 == 1)]
            assert odd == numbers[1::2]
        assert [document["n"] for document in past] == [number % 7 for number in numbers]


def test_a_limit_of_an_index_reads_the_first_places_in_order() -> None:
    with reactdb.connect(":memory:") as database:
        table = database.table_create("things")
        table.index_create("n")
        table.insert([{"id": number, "n": number // 3} for number in range(900)])
        by_n = table.order_by(index="n")
        assert [d["id"] for d in by_n.limit(5)] == [0, 1, 2, 3, 4]
        assert [d["id"] for d in by_n.skip(2).limit(5)] == [2, 3, 4, 5, 6]
        assert [d["id"] for d in table.order_by(index=reactdb.desc("n")).limit(4)] == [899, 898, 897, 896]
        assert [d["id"] for d in table.between(10, 12, index="n").order_by(index="n")] == list(range(30, 36))
        assert by_n.limit(0).run() == []
        assert len(by_n.skip(2**62).limit(2**62).run()) == 0
