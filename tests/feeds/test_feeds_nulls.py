"""A null in a list: to skip and limit it counts, offsets tell of it, and without offsets it is not seen.

ReQL tells no result that is null: that is a value that is not there. A list with a null in it is one element longer all the same.
"""

from __future__ import annotations

from typing import Any

import pytest

from reactdb import LiveList, row


@pytest.fixture
def listed(games: Any) -> Any:
    """v = null, 5, 6, in this order."""
    games.index_create("a")
    games.insert([{"id": 1, "a": 1, "v": None}, {"id": 2, "a": 2, "v": 5}, {"id": 3, "a": 3, "v": 6}])
    return games


def values(games: Any) -> Any:
    return games.order_by(index="a").map(row["v"]).limit(2)


def told(feed: Any) -> list[Any]:
    heard: list[Any] = []
    feed.subscribe(heard.append)
    return heard


def test_a_null_takes_its_place_in_the_limit(listed: Any) -> None:
    heard = told(values(listed).changes(include_initial=True))

    assert [None, 5] == values(listed).run()
    assert [{"new_val": 5}] == heard


def test_a_null_that_leaves_the_list_makes_room(listed: Any) -> None:
    heard = told(values(listed).changes())

    listed.get(1).delete()

    assert [{"old_val": None, "new_val": 6}] == heard


def test_a_null_that_pushes_a_value_out_removes_it(listed: Any) -> None:
    heard = told(values(listed).changes())

    listed.insert({"id": 0, "a": 0, "v": None})

    assert [None, None] == values(listed).run()
    assert [{"old_val": 5, "new_val": None}] == heard


def test_a_null_that_comes_alone_is_not_told_without_offsets(games: Any) -> None:
    games.index_create("a")
    heard = told(values(games).changes(include_types=True))

    games.insert({"id": 1, "a": 1, "v": None})
    games.get(1).delete()

    assert [] == heard


@pytest.mark.parametrize("squash", [False, True])
def test_offsets_tell_where_a_null_stands(listed: Any, squash: bool) -> None:
    heard = told(
        values(listed).changes(include_initial=True, include_offsets=True, include_types=True, squash=squash)
    )

    listed.get(2).delete()
    listed.get(1).delete()

    assert [
        {"new_val": None, "new_offset": 0, "type": "initial"},
        {"new_val": 5, "new_offset": 1, "type": "initial"},
        {"old_val": 5, "new_val": 6, "old_offset": 1, "new_offset": 1, "type": "change"},
        {"old_val": None, "new_val": None, "old_offset": 0, "new_offset": None, "type": "remove"},
    ] == heard


def test_a_live_list_shows_nulls(listed: Any) -> None:
    with LiveList(values(listed)) as board:
        assert [None, 5] == list(board)

        listed.insert({"id": 0, "a": 0, "v": None})

        assert [None, None] == list(board)


def test_a_filling_null_is_no_document(listed: Any) -> None:
    """The window refills from the table: what stands for a null there is the null."""
    games = listed
    games.insert([{"id": key, "a": key, "v": None} for key in range(4, 90)])
    with LiveList(values(games)) as board:
        for key in range(1, 80):
            games.get(key).delete()

            assert values(games).run() == list(board)
