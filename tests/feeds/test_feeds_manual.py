"""RethinkDB's manual of `changes`, example by example, with the events that it prints; then what it says of each option, and the
sentences of the real server for what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import reactdb
from reactdb import asc, desc, r, row
from reactdb.errors import (
    FeedAborted,
    IndexNotFound,
    InvalidKey,
    InvalidOption,
    MissingValue,
    QueryError,
    TableNotFound,
    UnsupportedFeed,
)
from reactdb.testing import Recorder
from tests.support.feeds import changed, new_ids

TERMINAL = "Cannot call a terminal (`reduce`, `count`, etc.) on an infinite stream (such as a changefeed)."
EAGER = "Cannot call `changes` on an eager stream."
AFTER_LIMIT = (
    "Changefeeds are not supported on queries that have a transformation following a `limit` term.  Transformations "
    "include terms such as `filter`, `map`, `pluck`, etc.  Consider moving the transformation before the `limit` term."
)
INITIALIZING, READY = {"state": "initializing"}, {"state": "ready"}


@pytest.fixture
def arena() -> Iterator[Any]:
    """An empty table in memory, for tests of many small cases."""
    with reactdb.connect(":memory:") as db:
        yield db.table_create("games")


# ---------------------------------------------------------------------------------------------------------------
# Subscribe to the changes on a table


def test_the_changes_on_a_table_are_printed_as_in_the_manual(db, games):
    """The manual's first example, from the first insert to the table's end, read by a loop."""
    changes = iter(games.changes())

    games.insert({"id": 1})
    games.get(1).update({"player1": "Bob"})
    games.get(1).replace({"id": 1, "player1": "Bob", "player2": "Alice"})
    games.get(1).delete()
    db.table_drop("games")

    assert {"old_val": None, "new_val": {"id": 1}} == next(changes)
    assert {"old_val": {"id": 1}, "new_val": {"id": 1, "player1": "Bob"}} == next(changes)
    assert {
        "old_val": {"id": 1, "player1": "Bob"},
        "new_val": {"id": 1, "player1": "Bob", "player2": "Alice"},
    } == next(changes)
    assert {"old_val": {"id": 1, "player1": "Bob", "player2": "Alice"}, "new_val": None} == next(changes)
    with pytest.raises(FeedAborted) as caught:
        next(changes)
    assert "Changefeed aborted (table unavailable)" == str(caught.value)


def test_a_subscriber_hears_what_a_loop_reads(db, games):
    heard = Recorder(games.changes())

    games.insert({"id": 1})
    games.get(1).update({"player1": "Bob"})
    games.get(1).delete()
    db.table_drop("games")

    assert [
        changed(None, {"id": 1}),
        changed({"id": 1}, {"id": 1, "player1": "Bob"}),
        changed({"id": 1, "player1": "Bob"}, None),
    ] == heard.events
    assert ["Changefeed aborted (table unavailable)"] == [str(error) for error in heard.errors]
    assert 0 == heard.completions


# ---------------------------------------------------------------------------------------------------------------
# The manual's filters


@pytest.mark.parametrize(
    "increases",
    [
        row["new_val"]["score"] > row["old_val"]["score"],
        r.row["new_val"]["score"] > r.row["old_val"]["score"],
        row["new_val"]["score"].gt(row["old_val"]["score"]),
    ],
    ids=["row", "r.row", "gt"],
)
def test_all_the_changes_that_increase_a_players_score(arena, increases):
    """An insert and a delete have nothing to compare: their missing field counts as False."""
    heard = Recorder(arena.changes().filter(increases))

    arena.insert({"id": 1, "score": 5})
    arena.get(1).update({"score": 7})
    arena.get(1).update({"score": 6})
    arena.get(1).update({"score": 20})
    arena.get(1).delete()

    assert [(5, 7), (6, 20)] == [(e["old_val"]["score"], e["new_val"]["score"]) for e in heard.events]
    assert not heard.errors


def test_all_the_changes_to_a_players_score_that_increase_it_past_ten(games):
    """Filter before changes: what counts is whether the document is in the result, so 12 to 15 is told as well."""
    heard = Recorder(games.get(1).filter(r.row["score"].gt(10)).changes())

    games.insert([{"id": 1, "score": 8}, {"id": 2, "score": 80}])
    games.get(1).update({"score": 12})
    games.get(1).update({"score": 15})
    games.get(1).update({"score": 9})
    games.get(1).update({"score": 3})

    assert [
        changed(None, {"id": 1, "score": 12}),
        changed({"id": 1, "score": 12}, {"id": 1, "score": 15}),
        changed({"id": 1, "score": 15}, None),
    ] == heard.events


@pytest.mark.parametrize(
    "is_insert",
    [row["old_val"].eq(None), r.row["old_val"] == None, {"old_val": None}],  # noqa: E711
    ids=["eq", "==", "dict"],
)
def test_all_the_inserts_on_a_table(arena, is_insert):
    heard = Recorder(arena.changes().filter(is_insert))

    arena.insert({"id": 1})
    arena.get(1).update({"score": 1})
    arena.insert({"id": 2})
    arena.get(1).delete()

    assert [changed(None, {"id": 1}), changed(None, {"id": 2})] == heard.events


# ---------------------------------------------------------------------------------------------------------------
# Game 1 with states and initial values


def test_game_one_with_state_notifications_and_initial_values(games):
    games.insert({"id": 1, "score": 12, "arena": "Hobbiton Field"})
    changes = iter(games.get(1).changes(include_initial=True, include_states=True))

    games.get(1).update({"score": 14})
    games.get(1).update({"score": 17, "winner": "Frodo"})

    assert [
        {"state": "initializing"},
        {"new_val": {"id": 1, "score": 12, "arena": "Hobbiton Field"}},
        {"state": "ready"},
        {
            "old_val": {"id": 1, "score": 12, "arena": "Hobbiton Field"},
            "new_val": {"id": 1, "score": 14, "arena": "Hobbiton Field"},
        },
        {
            "old_val": {"id": 1, "score": 14, "arena": "Hobbiton Field"},
            "new_val": {"id": 1, "score": 17, "arena": "Hobbiton Field", "winner": "Frodo"},
        },
    ] == [next(changes) for _ in range(5)]


def test_a_point_feed_on_nothing_begins_with_null(games):
    """Only a point feed may say `new_val: null` for an initial value."""
    heard = Recorder(games.get(1).changes(include_initial=True, include_states=True, include_types=True))

    games.insert({"id": 1})

    assert [
        {"state": "initializing", "type": "state"},
        {"new_val": None, "type": "initial"},
        {"state": "ready", "type": "state"},
        {"old_val": None, "new_val": {"id": 1}, "type": "add"},
    ] == heard.events


# ---------------------------------------------------------------------------------------------------------------
# The top 10 games


def test_all_the_changes_to_the_top_ten_games(games):
    games.index_create("score")
    games.insert([{"id": n, "score": n * 10} for n in range(12)])
    heard = Recorder(games.order_by(index=r.desc("score")).limit(10).changes())

    games.insert({"id": "below", "score": 15})
    games.insert({"id": "above", "score": 1000})
    games.get(5).update({"score": 0})
    games.get(1).update({"winner": "nobody"})

    assert [
        changed({"id": 2, "score": 20}, {"id": "above", "score": 1000}),
        changed({"id": 5, "score": 50}, {"id": 2, "score": 20}),
    ] == heard.events


def test_the_top_ten_begin_in_order(games):
    games.index_create("score")
    games.insert([{"id": n, "score": n} for n in range(20)])

    heard = Recorder(games.order_by(index=desc("score")).limit(10).changes(include_initial=True))

    assert [{"new_val": {"id": n, "score": n}} for n in range(19, 9, -1)] == heard.events


@pytest.mark.parametrize("limit", [0, 1, 3, 50])
@pytest.mark.parametrize("direction", [asc, desc])
def test_a_list_is_maintained_by_offsets(arena, limit, direction):
    """The manual's loop: delete at `old_offset` first, then insert at `new_offset`. After each event the list is the answer."""
    arena.index_create("score")
    arena.insert([{"id": n, "score": n % 3} for n in range(6)])
    selection = arena.order_by(index=direction("score")).limit(limit)
    my_list: list[Any] = []

    def apply(change: Any) -> None:
        if change.get("old_offset") is not None:
            del my_list[change["old_offset"]]
        if change.get("new_offset") is not None:
            my_list.insert(change["new_offset"], change["new_val"])

    selection.changes(include_initial=True, include_offsets=True).subscribe(apply)
    assert selection.run() == my_list
    for write in (
        lambda: arena.insert({"id": 7, "score": 1}),
        lambda: arena.get(0).update({"score": 9}),
        lambda: arena.get(3).delete(),
        lambda: arena.update({"score": row["score"] * -1}),
        lambda: arena.get(4).update({"name": "same rank"}),
        lambda: arena.delete(),
    ):
        write()
        assert selection.run() == my_list


def test_offsets_stand_beside_their_values(games):
    games.index_create("score")
    games.insert([{"id": 1, "score": 1}, {"id": 2, "score": 2}])
    selection = games.order_by(index="score").limit(2)
    heard = Recorder(selection.changes(include_initial=True, include_offsets=True, include_types=True))

    games.insert({"id": 0, "score": 0})
    games.get(0).delete()
    games.get(2).update({"score": -1})
    games.get(1).delete()

    one, two, zero = {"id": 1, "score": 1}, {"id": 2, "score": 2}, {"id": 0, "score": 0}
    moved = {"id": 2, "score": -1}
    assert [
        {"new_val": one, "new_offset": 0, "type": "initial"},
        {"new_val": two, "new_offset": 1, "type": "initial"},
        {"old_val": two, "new_val": zero, "old_offset": 1, "new_offset": 0, "type": "change"},
        {"old_val": zero, "new_val": two, "old_offset": 0, "new_offset": 1, "type": "change"},
        {"old_val": two, "new_val": moved, "old_offset": 1, "new_offset": 0, "type": "change"},
        {"old_val": one, "new_val": None, "old_offset": 1, "new_offset": None, "type": "remove"},
    ] == heard.events


# ---------------------------------------------------------------------------------------------------------------
# The guide to changefeeds


def test_an_insert_of_a_user_is_posted_to_the_feed(db):
    users = db.table_create("users")
    heard = Recorder(users.changes())

    users.insert({"id": 1, "name": "Slava", "age": 31})

    assert [{"old_val": None, "new_val": {"id": 1, "name": "Slava", "age": 31}}] == heard.events


def test_a_point_feed_looks_like_a_tables(db):
    users = db.table_create("users")
    heard = Recorder(users.get(100).changes())

    users.insert([{"id": 99}, {"id": 100}, {"id": 101}])
    users.get(100).update({"age": 31})
    users.delete()

    assert [
        changed(None, {"id": 100}),
        changed({"id": 100}, {"id": 100, "age": 31}),
        changed({"id": 100, "age": 31}, None),
    ] == heard.events


def test_messages_of_one_room(db):
    """Entering the room is an add and leaving it a removal, though both are updates of the table."""
    messages = db.table_create("messages")
    heard = Recorder(messages.filter({"room_id": 5}).changes(include_types=True))

    messages.insert([{"id": 1, "room_id": 5}, {"id": 2, "room_id": 6}])
    messages.get(2).update({"room_id": 5})
    messages.get(1).update({"text": "hello"})
    messages.get(1).update({"room_id": 7})

    assert [("add", 1), ("add", 2), ("change", 1), ("remove", 1)] == [
        (e["type"], (e["new_val"] or e["old_val"])["id"]) for e in heard.events
    ]


def test_only_the_new_value_where_a_user_beats_the_previous_score(db):
    scores = db.table_create("scores")
    beaten = scores.changes().filter(row["new_val"]["score"] > row["old_val"]["score"])["new_val"]
    heard = Recorder(beaten)

    scores.insert({"id": "bob", "score": 3})
    scores.get("bob").update({"score": 2})
    scores.get("bob").update({"score": 4})

    assert [{"id": "bob", "score": 4}] == heard.events


def test_a_feed_with_the_fields_that_are_wanted(db):
    users = db.table_create("users")
    heard = Recorder(users.changes().pluck({"new_val": ["name"], "old_val": ["name"]}))

    users.insert({"id": 1, "name": "Slava", "age": 31})
    users.get(1).update({"age": 32})
    users.get(1).delete()

    assert [
        {"new_val": {"name": "Slava"}},
        {"old_val": {"name": "Slava"}, "new_val": {"name": "Slava"}},
        {"old_val": {"name": "Slava"}},
    ] == heard.events


def test_plucking_before_changes_hides_what_is_not_in_the_result(db):
    users = db.table_create("users")
    heard = Recorder(users.pluck("id", "name").changes())

    users.insert({"id": 1, "name": "Slava", "age": 31})
    users.get(1).update({"age": 32})
    users.get(1).update({"name": "Mike"})

    assert [
        changed(None, {"id": 1, "name": "Slava"}),
        changed({"id": 1, "name": "Slava"}, {"id": 1, "name": "Mike"}),
    ] == heard.events


def test_feeds_of_two_tables_become_one(db):
    first, second = db.table_create("first"), db.table_create("second")
    before = Recorder(first.union(second).changes())
    after = Recorder(first.changes().union(second.changes()))

    first.insert({"id": 1})
    second.insert({"id": 2})
    first.get(1).delete()

    assert [changed(None, {"id": 1}), changed(None, {"id": 2}), changed({"id": 1}, None)] == before.events
    assert before.events == after.events


def test_a_union_before_changes_tells_its_states_once_and_one_after_changes_tells_each(db):
    first, second = db.table_create("first"), db.table_create("second")
    first.insert({"id": 1})
    second.insert({"id": 2})
    options: dict[str, Any] = {"include_initial": True, "include_states": True}

    before = Recorder(first.union(second).changes(**options))
    after = Recorder(first.changes(**options).union(second.changes(**options)))

    one, two = {"new_val": {"id": 1}}, {"new_val": {"id": 2}}
    assert [INITIALIZING, one, two, READY] == before.events
    assert [INITIALIZING, one, READY, INITIALIZING, two, READY] == after.events


@pytest.mark.parametrize("kind", ["min", "max"])
def test_min_and_max_are_lists_of_one(arena, kind):
    arena.index_create("score")
    arena.insert([{"id": 1, "score": 1}, {"id": 2, "score": 2}])
    selection = getattr(arena, kind)(index="score")
    best, other = ({"id": 1, "score": 1}, {"id": 2, "score": 2})[:: 1 if kind == "min" else -1]

    heard = Recorder(selection.changes(include_initial=True, include_offsets=True))
    arena.get(best["id"]).delete()

    assert [
        {"new_val": best, "new_offset": 0},
        {"old_val": best, "new_val": other, "old_offset": 0, "new_offset": 0},
    ] == heard.events


def test_a_range_of_an_index_is_watched(games):
    """What has no such field, or null in it, is not in the index and so in no range of it."""
    games.index_create("score")
    heard = Recorder(games.between(10, 20, index="score").changes())

    games.insert([{"id": 1, "score": 9}, {"id": 2, "score": 10}, {"id": 3, "score": 20}, {"id": 4}])
    games.get(1).update({"score": 19})
    games.get(2).update({"score": None})

    assert [
        changed(None, {"id": 2, "score": 10}),
        changed(None, {"id": 1, "score": 19}),
        changed({"id": 2, "score": 10}, None),
    ] == heard.events


def test_a_key_listed_twice_is_told_twice(games):
    games.insert({"id": 1})
    heard = Recorder(games.get_all(1, 1).changes(include_initial=True))

    games.get(1).update({"score": 1})

    assert [
        {"new_val": {"id": 1}},
        {"new_val": {"id": 1}},
        changed({"id": 1}, {"id": 1, "score": 1}),
        changed({"id": 1}, {"id": 1, "score": 1}),
    ] == heard.events


# ---------------------------------------------------------------------------------------------------------------
# The options, as the manual describes them


def test_states_alone_are_one_ready(games):
    """ "If `include_states` is true and `include_initial` is false, the first document on the feed will be ready"."""
    games.insert({"id": 1})
    heard = Recorder(games.changes(include_states=True))

    games.insert({"id": 2})

    assert [READY, changed(None, {"id": 2})] == heard.events


def test_without_states_nothing_marks_the_end_of_the_initial_values(games):
    games.insert([{"id": 2}, {"id": 1}])
    heard = Recorder(games.changes(include_initial=True))

    games.insert({"id": 3})

    assert [{"new_val": {"id": 1}}, {"new_val": {"id": 2}}, changed(None, {"id": 3})] == heard.events


def test_types_say_what_kind_of_change_it_is(games):
    games.insert({"id": 1})
    heard = Recorder(games.changes(include_types=True, include_initial=True, include_states=True))

    games.insert({"id": 2})
    games.get(2).update({"score": 1})
    games.get(2).delete()

    assert ["state", "initial", "state", "add", "change", "remove"] == [e["type"] for e in heard.events]


def test_the_keys_of_an_event_are_those_that_were_asked_for(games):
    games.index_create("score")
    selection = games.order_by(index="score").limit(1)
    extras = {
        "include_types": {"type"},
        "include_seq": {"seq"},
        "include_offsets": {"old_offset", "new_offset"},
    }
    heard = {(name,): Recorder(selection.changes(**{name: True})) for name in extras} | {
        tuple(extras): Recorder(selection.changes(**dict.fromkeys(extras, True)))
    }

    games.insert({"id": 1, "score": 1})

    for names, ear in heard.items():
        wanted = {"old_val", "new_val"}.union(*(extras[name] for name in names))
        assert wanted == set(ear.events[0])


def test_squash_true_tells_a_slow_reader_the_net_difference(games):
    """ "One change that brings the client fully up to date", for each document, in the order of their first changes."""
    cursor = games.changes(squash=True).cursor()

    games.insert({"id": 1, "score": 1})
    games.insert({"id": 2})
    games.get(1).update({"score": 2})
    games.insert({"id": 3})
    games.get(3).delete()

    assert [changed(None, {"id": 1, "score": 2}), changed(None, {"id": 2})] == [
        cursor.next(timeout=10) for _ in range(2)
    ]
    with pytest.raises(TimeoutError):
        cursor.next(timeout=0)


def test_squash_true_tells_a_reader_that_waits_every_change(games):
    heard = Recorder(games.changes(squash=True))

    games.insert({"id": 1, "score": 1})
    games.get(1).update({"score": 2})

    assert [
        changed(None, {"id": 1, "score": 1}),
        changed({"id": 1, "score": 1}, {"id": 1, "score": 2}),
    ] == heard.events


def test_the_earliest_changes_are_discarded_and_counted(games):
    """The newest `changefeed_queue_size` stay; one error document with the count comes before them."""
    cursor = games.changes(changefeed_queue_size=3).cursor()

    games.insert([{"id": n} for n in range(8)])

    assert {"error": "Changefeed cache over array size limit, skipped 5 elements."} == cursor.next(timeout=10)
    assert [5, 6, 7] == [cursor.next(timeout=10)["new_val"]["id"] for _ in range(3)]
    games.insert({"id": 8})
    assert 8 == cursor.next(timeout=10)["new_val"]["id"]


def test_a_queue_that_is_exactly_full_has_lost_nothing(games):
    cursor = games.changes(changefeed_queue_size=3).cursor()

    games.insert([{"id": n} for n in range(3)])

    assert [0, 1, 2] == [cursor.next(timeout=10)["new_val"]["id"] for _ in range(3)]


def test_the_error_document_never_has_a_type(games):
    cursor = games.changes(changefeed_queue_size=1, include_types=True, include_seq=True).cursor()

    games.insert([{"id": 1}, {"id": 2}])

    assert {"error": "Changefeed cache over array size limit, skipped 1 elements."} == cursor.next(timeout=10)


# ---------------------------------------------------------------------------------------------------------------
# What an option may not be

POSITIVE = "Expected BOOL or a positive NUMBER but found a negative NUMBER."


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("squash", None, "Expected BOOL or NUMBER but found NULL."),
        ("squash", "true", "Expected BOOL or NUMBER but found STRING."),
        ("squash", [1], "Expected BOOL or NUMBER but found ARRAY."),
        ("squash", {}, "Expected BOOL or NUMBER but found OBJECT."),
        ("squash", -1, POSITIVE),
        ("squash", -0.5, POSITIVE),
        ("changefeed_queue_size", 0, "Illegal changefeed queue size `0`.  (Must be >= 1.)"),
        ("changefeed_queue_size", -7, "Illegal changefeed queue size `-7`.  (Must be >= 1.)"),
        ("changefeed_queue_size", 1.5, "Number not an integer: 1.5"),
        ("changefeed_queue_size", "5", "Expected type NUMBER but found STRING."),
        ("changefeed_queue_size", True, "Expected type NUMBER but found BOOL."),
        ("changefeed_queue_size", None, "Expected type NUMBER but found NULL."),
        ("changefeed_queue_size", [], "Expected type NUMBER but found ARRAY."),
        ("include_initial", 1, "Expected type BOOL but found NUMBER for `include_initial`."),
        ("include_states", "", "Expected type BOOL but found STRING for `include_states`."),
        ("include_types", None, "Expected type BOOL but found NULL for `include_types`."),
        ("include_offsets", [], "Expected type BOOL but found ARRAY for `include_offsets`."),
        ("include_seq", 0, "Expected type BOOL but found NUMBER for `include_seq`."),
    ],
)
def test_an_option_with_a_value_that_it_cannot_have_is_refused_at_once(arena, option, value, sentence):
    """With the server's sentence where it has one; the native API wants real booleans, where the wire takes anything."""
    with pytest.raises(InvalidOption) as caught:
        arena.changes(**{option: value})

    assert sentence == str(caught.value)
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 1e308, 86_401])
def test_a_squash_interval_out_of_all_bounds_is_refused(arena, value):
    """One of 1e308 seconds stops the real server."""
    with pytest.raises(InvalidOption, match=r"^Expected BOOL or a positive NUMBER"):
        arena.changes(squash=value)


@pytest.mark.parametrize("value", [0, 0.0, 0.0001, 1, 2.5, 86_400, True, False])
def test_a_squash_interval_may_be_any_time_up_to_a_day(arena, value):
    heard = Recorder(arena.changes(squash=value, include_states=True))

    assert [READY] == heard.events


def test_an_option_that_does_not_exist_is_refused(games):
    with pytest.raises(TypeError, match="unknown_opt"):
        games.changes(unknown_opt=1)
    with pytest.raises(TypeError):
        games.changes(True)


def test_a_bad_squash_is_reported_before_a_missing_table(db):
    with pytest.raises(InvalidOption, match="negative NUMBER"):
        db.table("nope").changes(squash=-1)
    with pytest.raises(TableNotFound, match="`nope` does not exist"):
        db.table("nope").changes()


@pytest.mark.parametrize(
    ("select", "kind"),
    [
        (lambda t: t, "range"),
        (lambda t: t.filter(row["a"] == 1), "range"),
        (lambda t: t.map(row["a"]), "range"),
        (lambda t: t.between(1, 2), "range"),
        (lambda t: t.get_all(1), "range"),
        (lambda t: t.union(t), "range"),
        (lambda t: t.order_by(index="score").limit(1).union(t), "range"),
        (lambda t: t.get(1), "point"),
        (lambda t: t.get_all(), "empty"),
        (lambda t: t.between(2, 1), "empty"),
        (lambda t: t.between(1, 1), "empty"),
    ],
)
def test_offsets_are_refused_where_there_is_no_order(arena, select, kind):
    arena.index_create("score")

    with pytest.raises(UnsupportedFeed) as caught:
        select(arena).changes(include_offsets=True)

    assert f"Cannot include offsets for {kind} subs." == str(caught.value)


# ---------------------------------------------------------------------------------------------------------------
# What cannot be watched


@pytest.mark.parametrize(
    ("select", "sentence"),
    [
        (lambda t: t.limit(3), "Cannot get changes on the first elements of an unordered stream."),
        (lambda t: t.limit(0), "Cannot get changes on the first elements of an unordered stream."),
        (
            lambda t: t.get_all(1, 2).limit(1),
            "Cannot get changes on the first elements of an unordered stream.",
        ),
        (lambda t: t.order_by(index="score").limit(3).filter(row["score"] > 1), AFTER_LIMIT),
        (lambda t: t.order_by(index="score").limit(3).has_fields("a"), AFTER_LIMIT),
        (lambda t: t.order_by(index="score").limit(3).map(row["a"]), AFTER_LIMIT),
        (lambda t: t.order_by(index="score").limit(3).pluck("a"), AFTER_LIMIT),
        (lambda t: t.order_by(index="score").limit(3).without("a"), AFTER_LIMIT),
        (lambda t: t.order_by(index="score").limit(3).merge({"a": 1}), AFTER_LIMIT),
        (lambda t: t.order_by(index="score").limit(3)["score"], AFTER_LIMIT),
        (lambda t: t.order_by(index="score").limit(3).limit(2), EAGER),
        (lambda t: t.order_by(index="score").limit(3).skip(1), EAGER),
        (lambda t: t.skip(1), EAGER),
        (lambda t: t.concat_map(row["tags"]), "Cannot call `changes` after `concat_map`."),
        (lambda t: t.union(t).limit(1), "Cannot call `changes` on a slice of a union."),
    ],
)
def test_what_cannot_be_kept_up_to_date_is_refused_with_the_servers_sentence(arena, select, sentence):
    arena.index_create("score")

    with pytest.raises(UnsupportedFeed) as caught:
        select(arena).changes()

    assert sentence == str(caught.value)


def test_a_missing_index_is_an_error_at_once(games):
    """The real server opens some of these feeds and is silent for ever."""
    for select in (
        lambda: games.get_all(1, index="nope"),
        lambda: games.between(1, 2, index="nope"),
        lambda: games.order_by(index="nope"),
        lambda: games.order_by(index="nope").limit(1),
        lambda: games.min(index="nope"),
    ):
        with pytest.raises(IndexNotFound, match=r"^Index `nope` was not found on table `games`.$"):
            select().changes()


def test_a_key_that_cannot_be_one_is_refused_as_by_get(games):
    with pytest.raises(MissingValue):
        games.get(None).changes()
    with pytest.raises(InvalidKey, match=r"^Primary keys must be either a number, string, bool"):
        games.get({}).changes()
    with pytest.raises(QueryError, match="Keys cannot be NULL"):
        games.get_all(None).changes()


# ---------------------------------------------------------------------------------------------------------------
# What may stand after `changes`


@pytest.mark.parametrize(
    "terminal",
    [
        lambda feed: feed.count(),
        lambda feed: feed.sum("score"),
        lambda feed: feed.avg("score"),
        lambda feed: feed.min("score"),
        lambda feed: feed.max("score"),
        lambda feed: feed.reduce(lambda a, b: a),
        lambda feed: feed.distinct(),
        lambda feed: feed.group("score"),
        lambda feed: feed.order_by("score"),
        lambda feed: feed.coerce_to("array"),
        lambda feed: feed.nth(0),
        lambda feed: feed[0],
        lambda feed: feed.sample(1),
        lambda feed: feed.contains(1),
        lambda feed: feed.for_each(lambda e: None),
        lambda feed: feed.fold(0, lambda a, b: a),
        lambda feed: feed.limit(1).count(),
        lambda feed: feed.filter(row["new_val"]).limit(3).order_by("id"),
    ],
)
def test_a_terminal_after_changes_is_refused_with_reqls_sentence(arena, terminal):
    with pytest.raises(QueryError) as caught:
        terminal(arena.changes())

    assert TERMINAL == str(caught.value)


def test_a_negative_slice_of_a_feed_is_refused(games):
    with pytest.raises(QueryError, match=r"^Cannot use a negative left index on a stream.$"):
        games.changes()[-2:-1]


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        (lambda f: f["new_val"], [{"id": 1, "score": 3}, {"id": 1, "score": 9}, None]),
        (
            lambda f: f.pluck("new_val"),
            [{"new_val": {"id": 1, "score": 3}}, {"new_val": {"id": 1, "score": 9}}, {"new_val": None}],
        ),
        (
            lambda f: f.pluck({"new_val": ["score"]}),
            [{"new_val": {"score": 3}}, {"new_val": {"score": 9}}, {}],
        ),
        (
            lambda f: f.without("old_val", {"new_val": "score"}),
            [{"new_val": {"id": 1}}, {"new_val": {"id": 1}}, {"new_val": None}],
        ),
        (lambda f: f.map(row["new_val"]["score"].default(0)), [3, 9, 0]),
        (lambda f: f.map(lambda e: e["old_val"] is None), [True, False, False]),
        (lambda f: f.has_fields("old_val")["old_val"]["score"], [3, 9]),
        (lambda f: f.has_fields({"new_val": "score"}).map(row["new_val"]["score"]), [3, 9]),
        (
            lambda f: f.with_fields("new_val"),
            [{"new_val": {"id": 1, "score": 3}}, {"new_val": {"id": 1, "score": 9}}],
        ),
        (lambda f: f.merge({"seen": True}).pluck("seen"), [{"seen": True}] * 3),
        (lambda f: f.concat_map(lambda e: [1, 2]), [1, 2, 1, 2, 1, 2]),
        (lambda f: f.concat_map(row["new_val"].keys()).limit(3), ["id", "score", "id"]),
        (
            lambda f: f["new_val"].default({"id": None}),
            [{"id": 1, "score": 3}, {"id": 1, "score": 9}, {"id": None}],
        ),
        (lambda f: f.skip(1)["old_val"]["score"], [3, 9]),
        (lambda f: f.limit(1)["new_val"]["id"], [1]),
        (lambda f: f[1:2]["new_val"]["score"], [9]),
        (lambda f: f.filter(row["new_val"]["score"] > 3)["new_val"]["score"], [9]),
        (lambda f: f.filter(row["new_val"]["score"] > 3, default=True).map(lambda e: 1), [1, 1]),
    ],
)
def test_terms_after_changes_work_on_the_events(arena, chain, expected):
    heard = Recorder(chain(arena.changes()))

    arena.insert({"id": 1, "score": 3})
    arena.get(1).update({"score": 9})
    arena.get(1).delete()

    assert expected == heard.events
    assert not heard.errors


def test_limit_counts_every_item_and_then_completes(games):
    """State documents and initial values are items."""
    games.insert({"id": 1})
    heard = Recorder(games.changes(include_initial=True, include_states=True).limit(4))

    assert ([INITIALIZING, {"new_val": {"id": 1}}, READY], 0) == (heard.events, heard.completions)
    games.insert({"id": 2})
    games.insert({"id": 3})
    assert (4, 1) == (len(heard.events), heard.completions)


def test_limit_zero_is_over_before_it_begins(games):
    heard = Recorder(games.changes(include_states=True).limit(0))

    games.insert({"id": 1})

    assert ([], 1) == (heard.events, heard.completions)


def test_mapping_what_is_not_there_ends_the_feed_and_a_bracket_passes_over_it(games):
    """As in ReQL: `map` raises for the state document, `["new_val"]` skips it."""
    mapped = Recorder(games.changes(include_states=True).map(row["new_val"]["id"]))
    picked = Recorder(games.changes(include_states=True)["new_val"])

    games.insert({"id": 1})

    assert ([], [{"id": 1}]) == (mapped.events, picked.events)
    assert ['No attribute `new_val` in object:\n{\n\t"state":\t"ready"\n}'] == [str(e) for e in mapped.errors]


def test_a_mapping_of_a_deleted_document_ends_the_feed_with_reqls_sentence(games):
    heard = Recorder(games.changes().map(row["new_val"]["id"]))

    games.insert({"id": 1})
    games.get(1).delete()

    assert [1] == heard.events
    assert ["Cannot perform bracket on a non-object non-sequence `null`."] == [str(e) for e in heard.errors]


def test_a_predicate_is_a_callable_where_it_is_wanted(games):
    heard = Recorder(
        games.filter(lambda game: game["id"] % 2).changes().filter(lambda e: e["new_val"] is not None)
    )

    games.insert([{"id": n} for n in range(4)])
    games.delete()

    assert [1, 3] == new_ids(heard)


# ---------------------------------------------------------------------------------------------------------------
# Errors in what stands before `changes`


def test_a_document_for_which_the_filter_fails_is_not_in_the_result(games):
    """An update that makes the filter fail is a removal; the feed goes on."""
    heard = Recorder(games.filter(10 / row["score"] > 2).changes())

    games.insert({"id": 1, "score": 1})
    games.get(1).update({"score": 0})
    games.get(1).update({"score": "many"})
    games.get(1).update({"score": 2})

    assert [
        changed(None, {"id": 1, "score": 1}),
        changed({"id": 1, "score": 1}, None),
        changed(None, {"id": 1, "score": 2}),
    ] == heard.events


def test_a_filter_that_fails_for_an_initial_value_fails_the_feed(games):
    games.insert({"id": 1, "score": 0})
    heard = Recorder(games.filter(10 / row["score"] > 2).changes(include_initial=True))

    assert ["Cannot divide by zero."] == [str(error) for error in heard.errors]


@pytest.mark.parametrize(("default", "ids"), [(False, [2]), (True, [1, 2]), (r.error("absent"), [2])])
def test_a_missing_field_counts_as_the_filters_default(arena, default, ids):
    heard = Recorder(arena.filter(row["score"] > 1, default=default).changes())

    arena.insert([{"id": 1}, {"id": 2, "score": 2}])

    assert ids == new_ids(heard)


def test_a_result_of_null_is_not_in_the_result(games):
    heard = Recorder(games.map(row["score"].default(None)).changes(include_initial=True, include_types=True))

    games.insert({"id": 1})
    games.get(1).update({"score": 1})
    games.get(1).update({"score": None})

    assert [("add", 1), ("remove", None)] == [(e["type"], e["new_val"]) for e in heard.events]


def test_a_feed_is_a_feed_again_after_a_term(games):
    feed = games.changes().filter(row["new_val"]["id"] > 1)["new_val"]

    assert isinstance(feed, reactdb.Feed)
