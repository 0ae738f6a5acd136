"""Readers, and feeds of whole commits: what they promise one by one. `tests.laws.test_laws_feeds_batches` has the laws."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import reactdb
from reactdb import FeedReader, InvalidOption, row
from reactdb.feeds.subscription import Subscription
from reactdb.table import query_of
from tests.support.feeds import changed, hub, is_clean

SIX = changed(None, {"id": 6})


def test_a_reader_calls_once_until_everything_was_polled(games):
    calls: list[int] = []
    with games.changes().reader(on_ready=lambda: calls.append(1)) as reader:
        games.insert({"id": 1})
        games.insert({"id": 2})
        assert [1] == calls
        assert 1 == len(reader.poll(max=1))
        games.insert({"id": 3})
        assert [1] == calls
        assert 2 == len(reader.poll())
        assert [] == reader.poll()
        games.insert({"id": 4})
        assert [1, 1] == calls


def test_after_the_last_event_it_looks_once_for_another(games, monkeypatch):
    looks = []
    poll = Subscription.poll
    monkeypatch.setattr(
        Subscription, "poll", lambda self, **options: looks.append(poll(self, **options)) or looks[-1]
    )
    with games.changes().reader() as reader:
        reader.poll()
        games.insert({"id": 1})
        looks.clear()
        assert 1 == len(reader.poll())
        assert 2 == len(looks)


@pytest.mark.parametrize("options", [{}, {"on_overflow": "drop"}])
def test_a_document_that_cannot_be_shown_ends_the_feed_after_those_before_it(db, games, options):
    with games.changes(**options).reader() as reader:
        reader.poll()
        games.insert({"id": 5})
        reader.poll()
        with db.transaction():
            games.insert({"id": 6})
            games.insert({"id": 7})
        member = reader._consumer.members[0]
        event, first = member._render, member.queue.first.seq
        member._render = lambda delta: event(delta) if delta.seq == first else 1 // 0
        assert [SIX] == reader.poll()
        with pytest.raises(ZeroDivisionError):
            reader.poll()


def test_what_is_called_may_be_set_later_and_is_called_at_once_where_there_is_something(games):
    calls: list[int] = []
    reader = games.changes().reader()
    games.insert({"id": 6})
    reader.on_ready = lambda: calls.append(1)

    assert [1] == calls
    assert [SIX] == reader.poll()
    reader.on_ready = None
    games.insert({"id": 7})
    assert [1] == calls
    assert None is reader.on_ready


def test_a_callback_that_raises_is_logged_and_the_reader_goes_on(games, caplog):
    reader = games.changes().reader(on_ready=lambda: 1 / 0)
    games.insert({"id": 6})

    assert "on_ready of a reader raised" in caplog.text
    assert [SIX] == reader.poll()


def test_a_reader_says_when_it_has_ended(db, games):
    calls: list[int] = []
    reader = games.changes().reader(on_ready=lambda: calls.append(1))
    games.insert({"id": 6})
    db.table_drop("games")

    assert [1] == calls
    assert reader.is_ending
    assert not reader.is_finished
    assert [SIX] == reader.poll()
    with pytest.raises(reactdb.errors.FeedAborted):
        reader.poll()
    assert reader.is_finished
    assert [] == reader.poll()


def test_a_closed_reader_gives_nothing_and_leaves_nothing_behind(games):
    reader = games.changes().reader()
    games.insert({"id": 6})
    reader.close()
    reader.close()

    assert ([], True) == (reader.poll(), reader.is_finished)
    assert is_clean(games)
    games.changes().reader()
    assert is_clean(games)


def test_a_reader_that_falls_behind_reads_on_from_the_log_unless_it_was_said_otherwise(games):
    spilling = games.changes(changefeed_queue_size=2).reader()
    dropping = games.changes(changefeed_queue_size=2, on_overflow="drop").reader()
    for number in range(6):
        games.insert({"id": number})

    assert spilling.queued <= 2
    assert [0, 1, 2, 3, 4, 5] == [event["new_val"]["id"] for event in spilling.poll()]
    assert "error" in dropping.poll()[0]


def test_a_reader_of_net_differences_is_called_when_their_time_has_come(games):
    clock, calls = [0.0], []
    reader = games.changes(squash=5).reader(on_ready=lambda: calls.append(1))
    games.insert({"id": 6})
    assert ([], []) == (calls, reader.poll())
    reader.close()
    reader = games._session.reader(
        query_of(games), {"squash": 5}, lambda: calls.append(1), clock=lambda: clock[0]
    )
    games.get(6).update({"a": 1})
    assert [] == reader.poll()
    clock[0] = 6.0
    assert [changed({"id": 6}, {"id": 6, "a": 1})] == reader.poll()
    reader.close()


@pytest.mark.parametrize("most", [0, -1, True, 1.5, "1", None])
def test_a_wrong_number_of_events_is_refused(games, most):
    with games.changes().reader() as reader, pytest.raises(InvalidOption, match="max is a number of events"):
        reader.poll(max=most)


def test_what_cannot_be_called_is_refused(games):
    with pytest.raises(InvalidOption, match="on_ready is a callable without arguments"):
        games.changes().reader(on_ready=5)


def test_a_reader_stays_in_its_process(games):
    with games.changes().reader() as reader, pytest.raises(reactdb.UsageError, match="pass its position"):
        pickle.dumps(reader)
    assert isinstance(reader, FeedReader)


# ---------------------------------------------------------------------------------------------------------------
# Whole commits


def test_a_commit_that_fails_in_the_middle_is_not_told_in_part(db, games):
    """Who gets single changes is told what came before the mistake."""
    options = {"on_predicate_error": "raise"}
    ask = games.filter(row["n"] + 1 > 0)
    readers = [ask.changes(**options, batches=batches).reader() for batches in (False, True)]
    behind = ask.changes(**options, batches=True, since=0).reader()
    games.insert({"id": 1, "n": 1})
    with db.transaction():
        games.insert({"id": 2, "n": 2})
        games.insert({"id": 3, "n": "three"})

    assert [1, 2] == [event["new_val"]["id"] for event in readers[0].poll()]
    for reader in (readers[1], behind):
        assert [[changed(None, {"id": 1, "n": 1})]] == reader.poll()
        with pytest.raises(reactdb.errors.QueryError):
            reader.poll()


def test_a_commit_larger_than_the_queue_has_room_alone(games):
    reader = games.changes(batches=True, changefeed_queue_size=2, on_overflow="drop").reader()
    for first in (0, 10, 20):
        games.insert([{"id": first + number} for number in range(3)])

    error, last = reader.poll()
    assert "skipped 6 elements" in error[0]["error"]
    assert [20, 21, 22] == [event["new_val"]["id"] for event in last]


def test_terms_are_given_lists(games):
    reader = games.changes(batches=True).concat_map(lambda batch: batch)["new_val"]["id"].limit(3).reader()
    games.insert([{"id": 1}, {"id": 2}])
    games.insert([{"id": 3}, {"id": 4}])

    assert [1, 2, 3] == reader.poll()
    assert reader.is_finished


UNIONS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "some": ({"batches": True}, {}, "for all members of a union of feeds, or for none"),
    "squash": ({"batches": True}, {"batches": True, "squash": True}, "cannot squash"),
    "drop": ({"batches": True}, {"batches": True, "on_overflow": "drop"}, "cannot drop"),
}


@pytest.mark.parametrize(("one", "other", "sentence"), UNIONS.values(), ids=UNIONS)
def test_a_union_that_could_tell_half_of_a_commit_is_refused(games, one, other, sentence):
    with pytest.raises(InvalidOption, match=sentence):
        games.changes(**one).union(games.changes(**other))


def test_terms_inside_of_a_union_of_whole_commits_are_refused(games):
    with pytest.raises(InvalidOption, match="terms come after a union"):
        games.changes(batches=True).union(games.changes(batches=True).limit(1))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"batches": 1}, "Expected type BOOL but found NUMBER for `batches`"),
        ({"skip_origin": 5}, "skip_origin is the origin of a writer"),
        ({"skip_origin": "me", "include_offsets": True}, "exclude each other"),
    ],
)
def test_wrong_options_are_refused_with_a_sentence(games, options, sentence):
    with pytest.raises(InvalidOption, match=sentence):
        games.order_by("id").changes(**options)


def test_members_of_a_union_begin_together(db, games):
    """A commit between the moments at which they began is told by none of them."""
    others = db.table_create("others")
    attach, count = hub(games).attach, [0]

    def attach_slowly(subscription: Any) -> None:
        attach(subscription)
        count[0] += 1
        if count[0] == 1:
            with db.transaction():
                games.insert({"id": 1})
                others.insert({"id": 1})

    hub(games).attach = attach_slowly  # type: ignore[method-assign]
    reader = games.changes(batches=True).union(others.changes(batches=True)).reader()
    assert [] == reader.poll()
    with db.transaction():
        games.insert({"id": 2})
        others.insert({"id": 2})

    assert [2] == [len(batch) for batch in reader.poll()]


def test_a_commit_is_read_from_the_log_as_a_whole(db, games):
    """Longer than a page of the log; and from its middle."""
    start = db.seq
    games.insert([{"id": number} for number in range(1_300)])
    games.insert([{"id": number} for number in range(2_000, 2_003)])

    for after, lengths in ((0, [1_300, 3]), (700, [1_300, 3]), (1_300, [3]), (1_301, [3]), (1_303, [])):
        with games.changes(batches=True, since=start + after).reader() as reader:
            assert lengths == [len(batch) for batch in reader.poll()]


@pytest.mark.parametrize("batches", [False, True])
def test_net_differences_that_wait_are_resumed_from_before_all_of_them(db, games, batches):
    reader = games.changes(squash=True, batches=batches).reader()
    before = db.token
    games.insert({"id": 2})
    games.insert({"id": 1})
    games.get(2).delete()

    assert before == reader.position
    assert 1 == len(reader.poll())
    assert db.token == reader.position
