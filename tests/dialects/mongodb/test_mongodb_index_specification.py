"""`create_index` makes the specification that PyMongo's `IndexModel` makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from bson.son import SON
from pymongo.collation import Collation
from pymongo.operations import IndexModel

from reactdb.dialects.mongodb.embedded.index_specification import index_specification

KEYS: list[Any] = [
    "a",
    ["a"],
    [("a", 1), ("b", -1)],
    (("a", 1), "b"),
    [["a", 1]],
    {"a": 1, "b": "text"},
    {"a": 1}.items(),
    SON([("a", -1)]),
    {"a": {"x": 1}},
    # Invalid ones.
    "",
    [],
    {},
    1,
    None,
    [1],
    [("a",)],
    [("a", 1, 2)],
    [(1, 1)],
    [("a", None)],
    {"a": 1.5},
    {1},
]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"name": "own"},
    {"name": None, "unique": True},
    {"name": 5},
    {"collation": None},
    {"collation": Collation("de"), "sparse": True},
    {"collation": {"locale": "en"}},
    {"collation": 3},
]


def outcome(make: Callable[[], Any]) -> tuple[str, Any]:
    try:
        made = make()
    except Exception as error:
        return type(error).__name__, str(error)
    return "made", ({name: made[name] for name in sorted(made)}, list(made["key"].items()))


@pytest.mark.parametrize("options", OPTIONS, ids=repr)
@pytest.mark.parametrize("keys", KEYS, ids=repr)
def test_a_specification_is_that_of_an_index_model(keys: Any, options: dict[str, Any]) -> None:
    assert outcome(lambda: IndexModel(keys, **options).document) == outcome(
        lambda: index_specification(keys, options)
    )
