"""A bulk insert stores the same as inserts one by one, whatever the number, the order and the keys of the documents."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reactdb
from reactdb.errors import DuplicateKey, InvalidDocument, InvalidKey, ReactDBError
from reactdb.store.log import APPENDED
from reactdb.store.tools import doctor
from reactdb.values import codec, collation

COUNTS = [2, APPENDED - 1, APPENDED, APPENDED + 1, 5 * APPENDED, 33 * APPENDED + 5]


def rows_of(path: Path) -> list[Any]:
    """What the file has, but times and checksums; these are looked at by the doctor."""
    problems = [one for _, found in doctor.examine(str(path)) for one in found if one.level == "problem"]
    assert problems == []
    connection = sqlite3.connect(path)
    found = [
        connection.execute(statement).fetchall()
        for statement in (
            "SELECT seq, table_id, kind, step, prev, key, body, origin, meta FROM log ORDER BY seq",
            "SELECT * FROM heads ORDER BY table_id, key",
            # Not the running sums: one by one, they are those as of an earlier entry of the block.
            "SELECT table_id, block, newest FROM marks ORDER BY table_id, block",
        )
    ]
    connection.close()
    return found


@pytest.mark.parametrize("origin", [None, "elsewhere"])
@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("count", COUNTS)
def test_many_are_stored_as_one_by_one(
    tmp_path: Path, count: int, is_sorted: bool, origin: str | None
) -> None:
    documents = [{"id": f"k{number:05}", "n": number} for number in range(count)]
    if not is_sorted:
        random.Random(count).shuffle(documents)
    for name in ("many", "each"):
        with reactdb.connect(tmp_path / name, durability="soft", origin=origin) as db:
            games = db.table_create("games")
            with db.transaction():
                games.insert({"id": "before"})
                if name == "many":
                    games.insert(documents)
                else:
                    for document in documents:
                        games.insert(document)
                games.insert({"id": "zafter"})
    assert rows_of(tmp_path / "many") == rows_of(tmp_path / "each")


@pytest.mark.parametrize("count", [2, APPENDED, 5 * APPENDED + 1])
@pytest.mark.parametrize("is_twice", [True, False], ids=["twice in it", "there already"])
def test_a_taken_key_among_many_leaves_nothing(count: int, is_twice: bool) -> None:
    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")
        games.insert({"id": "there"})
        documents: list[dict[str, Any]] = [{"id": number} for number in range(count)]
        documents[-1] = {"id": 0, "again": True} if is_twice else {"id": "there", "again": True}
        with pytest.raises(DuplicateKey, match="again"):
            games.insert(documents)
        assert games.run() == [{"id": "there"}]
        assert db.seq == 2


@pytest.mark.parametrize(
    ("odd", "error"),
    [
        ({"id": None}, InvalidKey),
        ({"id": float("nan")}, InvalidKey),
        ({"id": "x" * 2_000}, InvalidKey),
        ({"id": "\ud800"}, InvalidDocument),
        ({"id": "x", "n": {1}}, InvalidDocument),
        ({"id": "x", "n": [{1: 2}]}, InvalidDocument),
        ({"id": "x", 1: 2}, InvalidDocument),
    ],
)
def test_one_that_cannot_be_stored_keeps_the_others_out(
    odd: dict[Any, Any], error: type[ReactDBError]
) -> None:
    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")
        with pytest.raises(error):
            games.insert([{"id": "a"}, {"id": "b"}, odd, {"id": "c"}])
        assert games.count().run() == 0


def test_one_without_a_key_among_many_gets_one() -> None:
    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")
        counts = games.insert([{"id": "a"}, {"n": 1}, {"id": "b"}])
        assert games.get(counts["generated_keys"][0]).run()["n"] == 1
        assert counts["inserted"] == 3


KEYS = st.one_of(
    st.lists(st.text(max_size=4)),
    st.lists(st.integers(-5, 2**54)),
    st.lists(st.text(max_size=2) | st.integers() | st.booleans() | st.binary(max_size=2) | st.floats()),
    st.lists(st.text(min_size=1_015, max_size=1_030), max_size=2),
)


def outcome(function: Callable[[Any], Any], given: Any) -> Any:
    """What it gives, or what it says."""
    try:
        return function(given)
    except ReactDBError as error:
        return str(error)


@given(KEYS)
def test_keys_of_many_are_the_keys_of_each(values: list[Any]) -> None:
    def of_each(values: list[Any]) -> list[bytes]:
        return [collation.primary_key_bytes(value) for value in values]

    assert outcome(collation.primary_keys_bytes, values) == outcome(of_each, values)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=2) | st.dates() | st.just({1}),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=2) | st.integers(0, 1), inner, max_size=3)
        | st.tuples(inner)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=2), VALUES, max_size=4))
def test_a_document_is_encoded_as_the_value_that_it_is(document: dict[str, Any]) -> None:
    assert outcome(codec.encode, document) == outcome(codec.encode_value, document)


@pytest.mark.slow
def test_a_list_that_holds_another_too_often_is_refused_at_once() -> None:
    inner: list[Any] = [1]
    for _ in range(60):
        inner = [inner, inner]
    with pytest.raises(InvalidDocument):
        codec.encode({"id": "k", "deep": inner})
    with pytest.raises(InvalidDocument):
        codec.encode({"id": "k", **{f"f{number}": [list(range(5_000))] * 2_000 for number in range(3)}})
