"""Offsets in a union: its list is the concatenation of its members' lists, and offsets count in the whole."""

from __future__ import annotations

from typing import Any

import pytest

from reactdb import LiveList, UnsupportedFeed, desc


@pytest.fixture
def boards(db: Any) -> Any:
    """The least two of one table, then the greatest two of another."""
    for name in ("games", "others"):
        db.table_create(name).insert([{"id": key} for key in range(4)])
    return (
        db.table("games")
        .order_by(index="id")
        .limit(2)
        .union(db.table("others").order_by(index=desc("id")).limit(2))
    )


def test_initial_offsets_go_on_from_member_to_member(boards: Any) -> None:
    heard: list[Any] = []
    boards.changes(include_initial=True, include_offsets=True).subscribe(heard.append)

    assert [
        {"new_val": {"id": 0}, "new_offset": 0},
        {"new_val": {"id": 1}, "new_offset": 1},
        {"new_val": {"id": 3}, "new_offset": 2},
        {"new_val": {"id": 2}, "new_offset": 3},
    ] == heard


@pytest.mark.parametrize("squash", [False, True])
def test_a_change_of_a_later_member_is_told_where_it_stands_in_the_whole(
    db: Any, boards: Any, squash: bool
) -> None:
    heard: list[Any] = []
    boards.changes(include_offsets=True, squash=squash).subscribe(heard.append)

    db.table("games").delete()
    db.table("others").insert({"id": 9})

    assert {"old_val": {"id": 2}, "new_val": {"id": 9}, "old_offset": 1, "new_offset": 0} == heard[-1]


def test_a_live_list_follows_a_union(db: Any, boards: Any) -> None:
    with LiveList(boards) as board:
        for key in (7, -1, -2, 8):
            db.table("games").insert({"id": key})
            db.table("others").insert({"id": key})

            assert boards.run() == list(board)

        db.table("games").delete()

        assert boards.run() == list(board)


def test_a_union_with_a_member_without_an_order_has_no_offsets(db: Any, boards: Any) -> None:
    with pytest.raises(UnsupportedFeed, match=r"^Cannot include offsets for range subs\.$"):
        boards.union(db.table("games")).changes(include_offsets=True)


@pytest.mark.parametrize("overflow", ["drop", "error"])
def test_what_a_later_member_has_nothing_to_tell_of_takes_no_place_in_the_queue(
    db: Any, overflow: str
) -> None:
    """A null that comes, where nobody asked for offsets."""
    games = db.table_create("games")
    nulls = games.order_by("n").map(lambda document: None).skip(0)
    with games.union(nulls).changes(changefeed_queue_size=2, on_overflow=overflow).cursor() as cursor:
        for key in (1, 2):
            games.insert({"id": key})

        for key in (1, 2):
            assert {"old_val": None, "new_val": {"id": key}} == cursor.next(0)
