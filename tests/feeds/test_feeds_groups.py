"""Groups without an aggregate: their values are counted. Events do not say which document or place a value comes from."""

from __future__ import annotations

from typing import Any

import pytest

from reactdb import row


def told(feed: Any) -> list[Any]:
    heard: list[Any] = []
    feed.subscribe(heard.append)
    return heard


@pytest.mark.parametrize("squash", [False, True])
def test_a_value_that_makes_room_for_an_equal_one_is_not_told(games: Any, squash: bool) -> None:
    games.insert([{"id": 1, "v": 5}, {"id": 2, "v": 5}])
    first = games.order_by("id").map({"v": row["v"]}).limit(1)
    heard = told(first.group("v").changes(squash=squash))

    games.get(1).delete()

    assert [{"v": 5}] == first.run()
    assert [] == heard


@pytest.mark.parametrize("squash", [False, True])
def test_a_value_that_moves_in_a_multi_index_is_not_told(games: Any, squash: bool) -> None:
    games.index_create("tags", multi=True)
    games.insert({"id": 1, "tags": ["p", "q"], "v": 5})
    heard = told(games.get_all("p", "q", "r", index="tags").pluck("v").group("v").changes(squash=squash))

    games.get(1).update({"tags": ["q", "r"]})

    assert [] == heard


def test_a_squashed_batch_neither_adds_nor_removes_what_it_removes_and_adds(games: Any) -> None:
    games.insert([{"id": 1, "v": 5, "a": 1}, {"id": 2, "v": 6, "a": 1}])
    with games.pluck("v", "a").group("a").changes(squash=True).cursor() as cursor:
        games.get(1).delete()
        games.insert([{"id": 3, "v": 5, "a": 1}, {"id": 4, "v": 7, "a": 1}])

        assert {"group": 1, "old_val": None, "new_val": {"v": 7, "a": 1}} == cursor.next(timeout=1)
        with pytest.raises(TimeoutError):
            cursor.next(timeout=0)
