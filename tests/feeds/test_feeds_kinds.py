"""The events of each kind of feed: the examples of RethinkDB's two manuals, and what the log adds to them."""

from __future__ import annotations

from typing import Any

import pytest

import reactdb
from reactdb import desc, maxval, minval, row
from reactdb.errors import FeedAborted
from tests.support.feeds import listen


def told(heard: list[Any]) -> list[Any]:
    """What was heard, which is then forgotten."""
    found = list(heard)
    heard.clear()
    return found


# ---------------------------------------------------------------------------------------------------------------
# The manuals


def test_the_first_example_of_the_manual(db, games):
    heard = listen(games.changes())

    games.insert({"id": 1})
    games.get(1).update({"player1": "Bob"})
    games.get(1).replace({"id": 1, "player1": "Bob", "player2": "Alice"})
    games.get(1).delete()
    db.table_drop("games")

    both = {"id": 1, "player1": "Bob", "player2": "Alice"}
    *events, error = heard
    assert events == [
        {"old_val": None, "new_val": {"id": 1}},
        {"old_val": {"id": 1}, "new_val": {"id": 1, "player1": "Bob"}},
        {"old_val": {"id": 1, "player1": "Bob"}, "new_val": both},
        {"old_val": both, "new_val": None},
    ]
    assert isinstance(error, FeedAborted)
    assert str(error) == "Changefeed aborted (table unavailable)"


def test_changes_that_increase_a_score(games):
    games.insert([{"id": 1, "score": 5}, {"id": 2}])
    heard = listen(games.changes().filter(row["new_val"]["score"] > row["old_val"]["score"]))

    games.get(1).update({"score": 4})
    games.get(1).update({"score": 6})
    games.get(2).update({"score": 1})
    games.get(1).delete()

    assert heard == [{"old_val": {"id": 1, "score": 4}, "new_val": {"id": 1, "score": 6}}]


def test_changes_of_one_score_past_ten(games):
    games.insert({"id": 1, "score": 9})
    heard = listen(games.get(1).filter(row["score"].gt(10)).changes())

    for score in (10, 11, 12, 3):
        games.get(1).update({"score": score})

    assert [
        (e["old_val"] and e["old_val"]["score"], e["new_val"] and e["new_val"]["score"]) for e in heard
    ] == [
        (None, 11),
        (11, 12),
        (12, None),
    ]


def test_all_inserts(games):
    heard = listen(games.changes().filter(row["old_val"].eq(None)))

    games.insert({"id": 1})
    games.get(1).update({"a": 1})
    games.insert({"id": 2})

    assert [event["new_val"]["id"] for event in heard] == [1, 2]


def test_one_document_with_states_and_initial_value(games):
    first = {"id": 1, "score": 12, "arena": "Hobbiton Field"}
    second = {**first, "score": 14}
    third = {**first, "score": 17, "winner": "Frodo"}
    games.insert(first)
    heard = listen(games.get(1).changes(include_initial=True, include_states=True))

    games.get(1).update({"score": 14})
    games.get(1).update({"score": 17, "winner": "Frodo"})

    assert heard == [
        {"state": "initializing"},
        {"new_val": first},
        {"state": "ready"},
        {"old_val": first, "new_val": second},
        {"old_val": second, "new_val": third},
    ]


def test_the_top_ten(games):
    games.index_create("score")
    games.insert([{"id": number, "score": number} for number in range(20)])
    heard = listen(games.order_by(index=desc("score")).limit(10).changes())

    games.insert({"id": 20, "score": 12.5})

    assert heard == [{"old_val": {"id": 10, "score": 10}, "new_val": {"id": 20, "score": 12.5}}]


def test_a_list_is_maintained_by_offsets(games):
    games.index_create("score")
    games.insert([{"id": number, "score": number} for number in range(4)])
    selection = games.order_by(index="score").limit(3)
    held: list[Any] = []

    def apply(change: Any) -> None:
        if change.get("old_offset") is not None:
            held.pop(change["old_offset"])
        if change.get("new_offset") is not None:
            held.insert(change["new_offset"], change["new_val"])

    selection.changes(include_initial=True, include_offsets=True).subscribe(apply)
    for write in (
        lambda: games.get(0).delete(),
        lambda: games.get(3).update({"score": -1}),
        lambda: games.insert({"id": 9, "score": 1}),
        lambda: games.get(1).update({"name": "Ann"}),
    ):
        write()

        assert held == selection.run()


# ---------------------------------------------------------------------------------------------------------------
# Ranges


def test_a_document_that_comes_into_a_filter_is_added_and_one_that_goes_out_removed(games):
    games.insert({"id": 1, "score": 5})
    heard = listen(games.filter(row["score"] > 10).changes(include_types=True))

    for score in (11, 12, 7):
        games.get(1).update({"score": score})

    assert [event["type"] for event in heard] == ["add", "change", "remove"]


def test_a_change_that_the_transformation_hides_is_not_told(games):
    games.insert({"id": 1, "score": 5})
    heard = listen(games.pluck("id", "score").changes())

    games.get(1).update({"name": "Ann"})

    assert heard == []


def test_a_key_that_is_listed_twice_is_told_twice(games):
    games.insert({"id": 1})
    heard = listen(games.get_all(1, 1).changes(include_initial=True))

    games.get(1).update({"a": 1})

    change = {"old_val": {"id": 1}, "new_val": {"id": 1, "a": 1}}
    assert heard == [{"new_val": {"id": 1}}, {"new_val": {"id": 1}}, change, change]


def test_a_multi_index_pairs_off_entries(games):
    games.index_create("tags", multi=True)
    old, new = {"id": 1, "tags": ["p", "q"]}, {"id": 1, "tags": ["p"]}
    games.insert(old)
    heard = listen(games.between("a", "z", index="tags").changes(include_types=True))

    games.get(1).replace(new)

    assert heard == [
        {"old_val": old, "new_val": new, "type": "change"},
        {"old_val": old, "new_val": None, "type": "remove"},
    ]


def test_moving_between_two_keys_of_one_get_all_is_one_change(games):
    games.index_create("room")
    games.insert({"id": 1, "room": 1})
    heard = listen(games.get_all(1, 2, index="room").changes(include_types=True))

    games.get(1).update({"room": 2})

    assert [event["type"] for event in heard] == ["change"]


@pytest.mark.parametrize(
    ("bounds", "inside"),
    [
        ({}, [2, 3]),
        ({"left_bound": "open"}, [3]),
        ({"right_bound": "closed"}, [2, 3, 4]),
        ({"left_bound": "open", "right_bound": "closed"}, [3, 4]),
    ],
)
def test_between_keeps_its_bounds(games, bounds, inside):
    heard = listen(games.between(2, 4, **bounds).changes())

    games.insert([{"id": number} for number in range(6)])

    assert [event["new_val"]["id"] for event in heard] == inside


def test_a_compound_index_is_watched_by_its_first_part(games):
    games.index_create("where", [row["room"], row["seat"]])
    heard = listen(games.between([1, minval], [1, maxval], index="where").changes())

    games.insert([{"id": 1, "room": 1, "seat": 2}, {"id": 2, "room": 2, "seat": 1}, {"id": 3, "room": 1}])

    assert [event["new_val"]["id"] for event in heard] == [1]


def test_an_empty_selection_still_says_its_states(games):
    heard = listen(games.get_all().changes(include_initial=True, include_states=True))

    games.insert({"id": 1})

    assert heard == [{"state": "initializing"}, {"state": "ready"}]


def test_initial_values_come_in_key_order(games):
    games.insert([{"id": number} for number in (3, 1, 2)])

    heard = listen(games.changes(include_initial=True))

    assert [event["new_val"]["id"] for event in heard] == [1, 2, 3]


def test_a_mapping_that_gives_null_is_not_in_the_result(games):
    heard = listen(games.map(row["a"].default(None)).changes())

    games.insert({"id": 1})
    games.get(1).update({"a": 5})
    games.get(1).replace({"id": 1})

    assert heard == [{"old_val": None, "new_val": 5}, {"old_val": 5, "new_val": None}]


def test_a_filter_that_fails_on_a_change_counts_as_out(games):
    games.insert({"id": 1, "a": 1})
    heard = listen(games.filter(row["a"] + 1 > 0).changes())

    games.get(1).update({"a": "text"})

    assert heard == [{"old_val": {"id": 1, "a": 1}, "new_val": None}]


def test_a_filter_that_fails_on_an_initial_value_ends_the_feed(games):
    games.insert({"id": 1, "a": "text"})

    heard = listen(games.filter(row["a"] + 1 > 0).changes(include_initial=True))

    assert [type(found) for found in heard] == [reactdb.errors.QueryError]


def test_a_python_function_may_be_a_filter(games):
    heard = listen(games.filter(lambda document: document["a"] > 1).changes())

    games.insert([{"id": 1, "a": 1}, {"id": 2, "a": 2}, {"id": 3}])

    assert [event["new_val"]["id"] for event in heard] == [2]


# ---------------------------------------------------------------------------------------------------------------
# Limits


def offsets(heard: list[Any]) -> list[tuple[Any, ...]]:
    return [
        (
            event["old_val"] and event["old_val"]["id"],
            event["old_offset"],
            event["new_val"] and event["new_val"]["id"],
            event["new_offset"],
        )
        for event in told(heard)
    ]


def test_a_limit_tells_one_item_for_each_write(games):
    games.index_create("score")
    heard = listen(games.order_by(index="score").limit(2).changes(include_offsets=True))

    games.insert({"id": "b", "score": 2})
    games.insert({"id": "c", "score": 3})
    assert offsets(heard) == [(None, None, "b", 0), (None, None, "c", 1)]

    games.insert({"id": "a", "score": 1})
    assert offsets(heard) == [("c", 1, "a", 0)]

    games.get("b").delete()
    assert offsets(heard) == [("b", 1, "c", 1)]

    games.get("a").delete()
    assert offsets(heard) == [("a", 0, None, None)]


def test_equal_sort_keys_are_ordered_by_the_primary_key_both_ways(games):
    games.index_create("score")
    games.insert([{"id": number, "score": 1} for number in (2, 1, 3)])

    up = listen(games.order_by(index="score").limit(2).changes(include_initial=True))
    down = listen(games.order_by(index=desc("score")).limit(2).changes(include_initial=True))

    assert [event["new_val"]["id"] for event in up] == [1, 2]
    assert [event["new_val"]["id"] for event in down] == [3, 2]


def test_a_move_in_rank_alone_is_told_with_offsets_only(games):
    games.index_create("score")
    games.insert([{"id": 1, "score": 1}, {"id": 2, "score": 2}])
    selection = games.order_by(index="score").pluck("id").limit(2)
    with_offsets, without = listen(selection.changes(include_offsets=True)), listen(selection.changes())

    games.get(1).update({"score": 3})

    assert with_offsets == [{"old_val": {"id": 1}, "new_val": {"id": 1}, "old_offset": 0, "new_offset": 1}]
    assert without == []


def test_a_limit_of_none_tells_only_states(games):
    heard = listen(games.order_by(index="id").limit(0).changes(include_initial=True, include_states=True))

    games.insert({"id": 1})

    assert heard == [{"state": "initializing"}, {"state": "ready"}]


def test_a_window_past_the_first_documents(games):
    games.insert([{"id": number, "score": number} for number in range(5)])
    heard = listen(games.order_by("score").skip(1).limit(2).changes(include_offsets=True))

    games.get(0).delete()
    assert offsets(heard) == [(1, 0, 3, 1)]

    games.get(4).update({"score": -1})
    assert offsets(heard) == [(3, 1, 1, 0)]


def test_an_order_without_a_limit_has_offsets(games):
    games.insert([{"id": 1, "score": 2}, {"id": 2, "score": 1}])
    heard = listen(games.order_by("score").changes(include_offsets=True))

    games.insert({"id": 3, "score": 1.5})

    assert offsets(heard) == [(None, None, 3, 1)]


def test_many_leave_a_limit_in_one_commit(db, games):
    """Each step is exact, although the window has to be read anew in the middle of the commit."""
    games.index_create("score")
    games.insert([{"id": number, "score": number} for number in range(300)])
    selection = games.order_by(index="score").limit(3)
    held = [event["new_val"] for event in listen(selection.changes(include_initial=True))]
    heard = listen(selection.changes(include_offsets=True))

    games.filter(row["id"] < 200).delete()

    for event in heard:
        assert held.pop(event["old_offset"]) == event["old_val"]
        held.insert(event["new_offset"], event["new_val"])
    assert len(heard) == 200
    assert held == selection.run()


# ---------------------------------------------------------------------------------------------------------------
# Aggregates


def test_a_count_follows(games):
    heard = listen(games.filter(row["score"] > 1).count().changes(include_initial=True))

    games.insert([{"id": 1, "score": 2}, {"id": 2, "score": 0}])
    games.get(2).update({"score": 3})
    games.get(1).update({"name": "Ann"})

    assert heard == [{"new_val": 0}, {"old_val": 0, "new_val": 1}, {"old_val": 1, "new_val": 2}]


def test_a_sum_is_exact(games):
    """0.1 + 0.2 + 0.3 - 0.1 - 0.2 is 0.3, whatever came in between."""
    heard = listen(games.sum("x").changes())

    games.insert([{"id": 1, "x": 0.1}, {"id": 2, "x": 0.2}, {"id": 3, "x": 0.3}])
    games.get(1).delete()
    games.get(2).delete()

    assert heard[-1]["new_val"] == 0.3


def test_an_average_of_nothing_is_none(games):
    games.insert([{"id": 1, "x": 1}, {"id": 2, "x": 2}])
    heard = listen(games.avg("x").changes(include_initial=True))

    games.delete()

    assert heard == [{"new_val": 1.5}, {"old_val": 1.5, "new_val": 2.0}, {"old_val": 2.0, "new_val": None}]


def test_the_greatest_follows(games):
    games.insert([{"id": 1, "x": 1}, {"id": 2, "x": 2}])
    heard = listen(games.max("x").changes(include_initial=True))

    games.get(1).update({"x": 3})
    games.get(1).delete()

    assert heard == [
        {"new_val": {"id": 2, "x": 2}},
        {"old_val": {"id": 2, "x": 2}, "new_val": {"id": 1, "x": 3}},
        {"old_val": {"id": 1, "x": 3}, "new_val": {"id": 2, "x": 2}},
    ]


def test_the_least_of_an_index_has_offsets(games):
    games.index_create("x")
    heard = listen(games.min(index="x").changes(include_offsets=True))

    games.insert({"id": 1, "x": 1})

    assert heard == [{"old_val": None, "new_val": {"id": 1, "x": 1}, "old_offset": None, "new_offset": 0}]


def test_distinct_values_appear_and_vanish(games):
    heard = listen(games.distinct("room").changes())

    games.insert([{"id": 1, "room": 1}, {"id": 2, "room": 1}])
    games.get(1).update({"room": 2})
    games.get(2).delete()

    assert heard == [
        {"old_val": None, "new_val": 1},
        {"old_val": None, "new_val": 2},
        {"old_val": 1, "new_val": None},
    ]


def test_groups_are_told_each(games):
    games.insert({"id": 1, "room": "a"})
    heard = listen(games.group("room").count().changes(include_initial=True))

    games.insert({"id": 2, "room": "b"})
    games.get(1).update({"room": "b"})

    assert heard == [
        {"group": "a", "new_val": 1},
        {"group": "b", "old_val": None, "new_val": 1},
        {"group": "a", "old_val": 1, "new_val": None},
        {"group": "b", "old_val": 1, "new_val": 2},
    ]


# ---------------------------------------------------------------------------------------------------------------
# Several tables


def test_a_document_in_two_members_of_a_union_is_told_twice(db, games):
    others = db.table_create("others")
    selection = games.filter({"a": 1}).union(games.filter({"b": 1}), others)
    heard = listen(selection.changes(include_initial=True, include_states=True))

    games.insert({"id": 1, "a": 1, "b": 1})
    others.insert({"id": 2})

    assert [event["state"] for event in heard if "state" in event] == ["initializing", "ready"]
    assert [event["new_val"]["id"] for event in heard if "old_val" in event] == [1, 1, 2]


def test_every_table_is_watched_also_those_made_later(db, games):
    heard = listen(db.changes())

    games.insert({"id": 1})
    db.table_create("later").insert({"id": 2})

    assert heard == [
        {"table": "games", "old_val": None, "new_val": {"id": 1}},
        {"table": "later", "old_val": None, "new_val": {"id": 2}},
    ]


def test_a_dropped_index_ends_the_feeds_that_need_it(games):
    games.index_create("score")
    needs = listen(games.order_by(index="score").limit(1).changes())
    does_not = listen(games.filter(row["score"] == 1).changes())

    games.index_drop("score")
    games.insert({"id": 1, "score": 1})

    assert [str(error) for error in needs] == ["Changefeed aborted (index `score` unavailable)"]
    assert len(does_not) == 1


def test_events_are_told_in_the_order_of_the_log(games):
    heard = listen(games.changes(include_seq=True))

    games.insert([{"id": number} for number in (5, 1, 4)])
    games.update({"a": 1})

    assert [event["seq"] for event in heard] == sorted(event["seq"] for event in heard)
    assert len(heard) == 6


def test_documents_in_events_cannot_be_changed(games):
    heard = listen(games.changes())

    games.insert({"id": 1, "tags": ["a"]})

    with pytest.raises(TypeError, match="copy"):
        heard[0]["new_val"]["tags"].append("b")
