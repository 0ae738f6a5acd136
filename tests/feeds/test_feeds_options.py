"""The options of `changes()`, and the errors for wrong ones."""

from __future__ import annotations

import inspect
from decimal import Decimal
from typing import Any

import pytest
from reactivex.scheduler import VirtualTimeScheduler

from reactdb import desc, r, row
from reactdb.errors import IndexNotFound, InvalidOption, QueryError, TableNotFound, UnsupportedFeed
from reactdb.feeds.options import NAMES
from tests.support.feeds import listen

RANGE = "Cannot include offsets for range subs."
EAGER = "Cannot call `changes` on an eager stream."
TERMINAL = "Cannot call a terminal (`reduce`, `count`, etc.) on an infinite stream (such as a changefeed)."
AFTER_LIMIT = (
    "Changefeeds are not supported on queries that have a transformation following a `limit` term.  Transformations "
    "include terms such as `filter`, `map`, `pluck`, etc.  Consider moving the transformation before the `limit` term."
)


@pytest.fixture
def scored(games):
    games.index_create("a")
    games.index_create("b")
    return games


def test_changes_has_the_options_that_are_checked_for_a_selection_and_for_a_database(db, games):
    """All but `include_meta`, which is for dialects."""
    for source in (games, db, games.get(1)):
        assert set(NAMES) - {"include_meta"} == set(inspect.signature(source.changes).parameters)


def test_an_option_that_is_not_there_is_refused_at_once(db, games):
    for source in (games, db):
        with pytest.raises(TypeError, match="no option `sqash`: the nearest is `squash`"):
            source.changes(sqash=True)


def test_a_selection_has_no_events_of_the_catalogue(games):
    with pytest.raises(InvalidOption, match=r"include_catalogue is an option of db\.changes"):
        games.changes(include_catalogue=True)


# ---------------------------------------------------------------------------------------------------------------
# Values that are refused


@pytest.mark.parametrize(
    ("squash", "sentence"),
    [
        (None, "Expected BOOL or NUMBER but found NULL."),
        ("1", "Expected BOOL or NUMBER but found STRING."),
        ([], "Expected BOOL or NUMBER but found ARRAY."),
        ({}, "Expected BOOL or NUMBER but found OBJECT."),
        (-0.5, "Expected BOOL or a positive NUMBER but found a negative NUMBER."),
        (float("nan"), "Expected BOOL or a positive NUMBER but found a non-finite NUMBER (nan)."),
        (86_401, "Expected BOOL or a positive NUMBER of at most 86400 seconds but found 86401."),
    ],
)
def test_a_squash_that_cannot_be(games, squash, sentence):
    with pytest.raises(InvalidOption) as caught:
        games.changes(squash=squash)

    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("size", "sentence"),
    [
        (0, "Illegal changefeed queue size `0`.  (Must be >= 1.)"),
        (-3, "Illegal changefeed queue size `-3`.  (Must be >= 1.)"),
        (1.5, "Number not an integer: 1.5"),
        ("9", "Expected type NUMBER but found STRING."),
        (True, "Expected type NUMBER but found BOOL."),
        (None, "Expected type NUMBER but found NULL."),
    ],
)
def test_a_queue_size_that_cannot_be(games, size, sentence):
    with pytest.raises(InvalidOption) as caught:
        games.changes(changefeed_queue_size=size)

    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    "name", ["include_initial", "include_states", "include_offsets", "include_types", "include_seq"]
)
@pytest.mark.parametrize("value", [None, 0, 1, "", "yes", []])
def test_switches_are_booleans(games, name, value):
    with pytest.raises(InvalidOption):
        games.changes(**{name: value})


@pytest.mark.parametrize("squash", [True, False, 0, 0.0, 86_400, 1.5, Decimal("0.5")])
@pytest.mark.parametrize("size", [1, 2.0, 10**9])
def test_values_that_are_good(games, squash, size):
    heard = listen(games.changes(squash=squash, changefeed_queue_size=size, include_states=True))

    assert heard == [{"state": "ready"}]


def test_a_bad_squash_is_told_before_a_missing_table(db):
    with pytest.raises(InvalidOption):
        db.table("nope").changes(squash=-1)
    with pytest.raises(TableNotFound):
        db.table("nope").changes()


def test_a_missing_index_is_told_at_once(games):
    with pytest.raises(IndexNotFound):
        games.between(1, 2, index="nope").changes()


def test_since_and_include_initial_exclude_each_other(games):
    with pytest.raises(InvalidOption):
        games.changes(since=0, include_initial=True)


@pytest.mark.parametrize("on_overflow", ["ignore", 1, False])
def test_an_overflow_that_cannot_be(games, on_overflow):
    with pytest.raises(InvalidOption):
        games.changes(on_overflow=on_overflow)


# ---------------------------------------------------------------------------------------------------------------
# Queries that are refused


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda t: t, RANGE),
        (lambda t: t.filter(row["a"] == 1), RANGE),
        (lambda t: t.between(1, 2), RANGE),
        (lambda t: t.get_all(1), RANGE),
        (lambda t: t.union(t.order_by(index="a").limit(1)), RANGE),
        (lambda t: t.get(1), "Cannot include offsets for point subs."),
        (lambda t: t.get_all(), "Cannot include offsets for empty subs."),
        (lambda t: t.between(2, 1), "Cannot include offsets for empty subs."),
    ],
)
def test_offsets_where_there_are_none(scored, make, sentence):
    with pytest.raises(UnsupportedFeed) as caught:
        make(scored).changes(include_offsets=True)

    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t.order_by(index="a").limit(2),
        lambda t: t.order_by("a").limit(2),
        lambda t: t.order_by("a").skip(1).limit(2),
        lambda t: t.order_by("a"),
        lambda t: t.order_by(index="a"),
        lambda t: t.min(index="a"),
        lambda t: t.max("a"),
        lambda t: t.order_by(index="a").limit(1).union(t.order_by(index="b").limit(1)),
    ],
)
def test_offsets_where_there_are_some(scored, make):
    assert listen(make(scored).changes(include_offsets=True, include_states=True)) == [{"state": "ready"}]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda t: t.limit(3), "Cannot get changes on the first elements of an unordered stream."),
        (lambda t: t.get_all(1).limit(3), "Cannot get changes on the first elements of an unordered stream."),
        (
            lambda t: t.filter(row["a"] == 1).limit(0),
            "Cannot get changes on the first elements of an unordered stream.",
        ),
        (lambda t: t.skip(1), EAGER),
        (lambda t: t.order_by(index="a").limit(3).limit(2), EAGER),
        (lambda t: t.order_by(index="a").limit(3).skip(1), EAGER),
        (lambda t: t.order_by(index="a").limit(3).order_by("b"), EAGER),
        (lambda t: t.order_by("b", index="a"), EAGER),
        (lambda t: t.distinct("a").limit(1), EAGER),
        (lambda t: t.order_by(index="a").limit(3).filter(row["a"] == 1), AFTER_LIMIT),
        (lambda t: t.order_by(index="a").limit(3).pluck("a"), AFTER_LIMIT),
        (lambda t: t.order_by(index="a").limit(3).has_fields("a"), AFTER_LIMIT),
        (lambda t: t.concat_map(row["a"]), "Cannot call `changes` after `concat_map`."),
        (lambda t: t.union(t).limit(2), "Cannot call `changes` on a slice of a union."),
        (lambda t: t.union(t).order_by("a").limit(2), EAGER),
        (lambda t: t.map(r.random()), "Cannot call `changes` after a non-deterministic function."),
        (
            lambda t: t.filter(row["a"] > r.random()),
            "Cannot call `changes` after a non-deterministic function.",
        ),
        (
            lambda t: t.between(1, 2, index="a").order_by(index="b"),
            "Cannot order by index `b` after calling BETWEEN on index `a`.",
        ),
        (lambda t: t.get(1).count(), "Expected type SEQUENCE but found SINGLE_SELECTION."),
    ],
)
def test_what_cannot_be_kept_up_to_date(scored, make, sentence):
    with pytest.raises(QueryError) as caught:
        make(scored).changes()

    assert str(caught.value) == sentence


# ---------------------------------------------------------------------------------------------------------------
# After changes()


@pytest.mark.parametrize(
    "call",
    [
        lambda feed: feed.count(),
        lambda feed: feed.sum("a"),
        lambda feed: feed.avg("a"),
        lambda feed: feed.min("a"),
        lambda feed: feed.max("a"),
        lambda feed: feed.reduce(lambda a, b: a),
        lambda feed: feed.distinct(),
        lambda feed: feed.group("a"),
        lambda feed: feed.order_by("a"),
        lambda feed: feed.nth(0),
        lambda feed: feed[0],
        lambda feed: feed.sample(1),
        lambda feed: feed.contains(1),
        lambda feed: feed.coerce_to("array"),
        lambda feed: feed.limit(3).count(),
    ],
)
def test_a_terminal_is_refused(games, call):
    with pytest.raises(QueryError) as caught:
        call(games.changes())

    assert str(caught.value) == TERMINAL


def test_limit_counts_every_item_and_ends_the_feed(games):
    games.insert({"id": 1})
    heard: list[Any] = []
    feed = games.changes(include_initial=True, include_states=True).limit(2)

    feed.subscribe(heard.append, None, lambda: heard.append("end"))
    games.insert({"id": 2})

    assert heard == [{"state": "initializing"}, {"new_val": {"id": 1}}, "end"]


def test_a_field_of_events_passes_over_those_that_lack_it(games):
    games.insert({"id": 1})
    heard = listen(games.changes(include_initial=True, include_states=True)["new_val"])

    games.get(1).delete()

    assert heard == [{"id": 1}, None]


def test_a_mapping_that_fails_ends_the_feed(games):
    heard = listen(games.changes().map(row["new_val"]["id"]))

    games.insert({"id": 1})
    games.get(1).delete()
    games.insert({"id": 2})

    assert heard[0] == 1
    assert [type(found) for found in heard[1:]] == [QueryError] or isinstance(heard[1], QueryError)
    assert len(heard) == 2


def test_terms_follow_each_other(games):
    feed = (
        games.changes(include_types=True)
        .has_fields("new_val")
        .merge({"id": row["new_val"]["id"]})
        .without("old_val", "new_val")
        .skip(1)
        .limit(2)
    )
    heard = listen(feed)

    games.insert([{"id": number} for number in range(5)])

    assert heard == [{"type": "add", "id": 1}, {"type": "add", "id": 2}]


def test_concat_map_pluck_with_fields_and_default(games):
    ids = listen(games.changes().concat_map(lambda event: [event["new_val"]["id"]] * 2))
    plucked = listen(games.changes().pluck({"new_val": "id"}))
    held = listen(games.changes().with_fields({"new_val": "a"}))
    missing = listen(games.changes()["old_val"].default("none"))

    games.insert({"id": 1})

    assert ids == [1, 1]
    assert plucked == [{"new_val": {"id": 1}}]
    assert held == []
    assert missing == ["none"]


def test_a_union_of_feeds_keeps_the_states_of_each(db, games):
    others = db.table_create("others")
    heard = listen(games.changes(include_states=True).union(others.changes(include_states=True)))

    games.insert({"id": 1})
    others.insert({"id": 2})

    assert heard[:2] == [{"state": "ready"}, {"state": "ready"}]
    assert [event["new_val"]["id"] for event in heard[2:]] == [1, 2]


# ---------------------------------------------------------------------------------------------------------------
# Squashing


@pytest.fixture
def clock():
    return VirtualTimeScheduler()


def test_a_squashed_feed_tells_the_net_difference(games, clock):
    """Insert then update is one add; insert then delete is silence."""
    heard = listen(games.changes(squash=1.0, include_types=True), scheduler=clock)

    games.insert({"id": 1, "score": 5})
    games.get(1).replace({"id": 1, "score": 9})
    games.insert({"id": 2})
    games.get(2).delete()
    clock.advance_by(1.0)

    assert heard == [{"type": "add", "old_val": None, "new_val": {"id": 1, "score": 9}}]


def test_the_first_change_after_a_pause_is_told_at_once(games, clock):
    """Source: a real server with squash=1, idle for 2.5 s, then an update every 0.2 s."""
    times: list[float] = []
    games.changes(squash=1.0).subscribe(lambda event: times.append(round(clock.clock, 3)), scheduler=clock)
    clock.advance_by(2.5)

    for number in range(12):
        games.insert({"id": 1, "n": number}, conflict="replace")
        clock.advance_by(0.2)
    clock.advance_by(5.0)

    assert times == [2.5, 3.5, 4.5, 5.5]


def test_a_half_full_queue_is_told_early(games, clock):
    heard = listen(games.changes(squash=60, changefeed_queue_size=10), scheduler=clock)

    games.insert([{"id": number} for number in range(5)])
    clock.advance_by(1)
    assert heard == []

    games.insert({"id": 5})
    clock.advance_by(1)
    assert len(heard) == 6


def test_squashing_keeps_the_place_of_the_first_change(games, clock):
    heard = listen(games.changes(squash=1), scheduler=clock)

    games.insert([{"id": 1}, {"id": 2}])
    games.get(1).update({"a": 1})
    clock.advance_by(1)

    assert [event["new_val"] for event in heard] == [{"id": 1, "a": 1}, {"id": 2}]


def test_squashing_keeps_copies_apart(games, clock):
    games.insert({"id": 1})
    heard = listen(games.get_all(1, 1).changes(squash=1), scheduler=clock)

    games.get(1).update({"a": 1})
    games.get(1).update({"a": 2})
    clock.advance_by(1)

    assert heard == [{"old_val": {"id": 1}, "new_val": {"id": 1, "a": 2}}] * 2


def test_squashed_offsets_are_exact(games, clock):
    games.index_create("score")
    games.insert([{"id": number, "score": number} for number in range(6)])
    selection = games.order_by(index=desc("score")).limit(3)
    held = selection.run()
    heard = listen(selection.changes(squash=1, include_offsets=True), scheduler=clock)

    games.get(5).delete()
    games.get(0).update({"score": 9})
    games.get(4).update({"score": 3.5})
    games.get(0).update({"score": 3.7})
    clock.advance_by(1)

    for event in heard:
        if event["old_offset"] is not None:
            assert held.pop(event["old_offset"]) == event["old_val"]
        if event["new_offset"] is not None:
            held.insert(event["new_offset"], event["new_val"])
    assert held == selection.run()
    assert len(heard) == 2


def test_squashing_without_a_clock_waits_in_a_thread_of_its_own(games):
    """The timer thread ends when nothing is due."""
    with games.changes(squash=0.05).cursor() as cursor:
        games.insert({"id": 1})
        games.get(1).update({"a": 1})

        assert cursor.next(timeout=5) == {"old_val": None, "new_val": {"id": 1, "a": 1}}


@pytest.mark.parametrize("options", [{"squash": -1}, {"include_states": 1}])
def test_a_bad_option_is_reported_before_a_missing_table(db, options):
    with pytest.raises(InvalidOption):
        db.table("nowhere").changes(changefeed_queue_size=0, **options)


@pytest.mark.parametrize("size", [0, "many", 1.5])
def test_a_missing_table_is_reported_before_a_bad_queue_size(db, size):
    """ReQL looks at that option after the query."""
    with pytest.raises(TableNotFound):
        db.table("nowhere").changes(changefeed_queue_size=size)


def test_what_cannot_be_watched_is_reported_before_a_bad_queue_size(games):
    with pytest.raises(UnsupportedFeed):
        games.limit(1).changes(changefeed_queue_size=0)
