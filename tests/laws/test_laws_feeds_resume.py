"""Law 5: resuming from any seq, or token, gives the same events as never having left.

One cursor reads everything from the beginning. For every position on the way another begins there and must get the rest: while
everything is in the log, after old history was compacted away, and in a file that was closed and opened again.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from tests.support.feed_kinds import ROWS, Kind, act, alike, do, kinds, little_room, prepare, some_writes
from tests.support.feeds import heard
from tests.support.replica import Event, Replica
from tests.support.scaling import examples

COMMITS = some_writes(3)
SCRIPTS = st.lists(COMMITS, min_size=4, max_size=9)
MORE = st.lists(COMMITS, min_size=1, max_size=3)


@st.composite
def options(draw: st.DrawFn, kind: Kind) -> dict[str, Any]:
    flags = ["include_types"] + (["include_offsets"] if kind.has_offsets else [])
    return {"include_seq": True, **{flag: True for flag in flags if draw(st.booleans())}}


def past(events: list[Event], seq: int) -> list[Event]:
    return [event for event in events if event["seq"] > seq]


def check_every_seq(
    data: st.DataObject,
    kind: Kind,
    rows: list[Any],
    script: list[Any],
    more: list[Any],
    path: str = ":memory:",
) -> None:
    asked = data.draw(options(kind), "options")
    with little_room(), reactdb.connect(path, durability="soft") as db:
        prepare(db)
        feed = kind.ask(db)
        with feed.changes(**asked).cursor() as whole, ExitStack() as stack:
            tokens = {0: db.token}
            for commit in [[("insert", rows)], *script]:
                token = act(db, commit)
                tokens[db.seq] = token
            events = heard(whole)
            resumed = []
            for seq in range(db.seq + 1):
                cursor = stack.enter_context(feed.changes(since=tokens.get(seq, seq), **asked).cursor())
                assert alike(kind, past(events, seq)) == alike(kind, heard(cursor)), (kind, seq)
                resumed.append(cursor)

            for commit in more:
                act(db, commit)
                new = alike(kind, heard(whole))
                for cursor in resumed:
                    assert new == alike(kind, heard(cursor))


@settings(max_examples=examples(50))
@given(data=st.data(), kind=kinds(), rows=ROWS, script=SCRIPTS, more=MORE)
def test_resuming_from_any_seq_gives_what_was_missed_and_goes_on(
    data: st.DataObject, kind: Kind, rows: list[Any], script: list[Any], more: list[Any]
) -> None:
    """By seq inside of commits, and by token between them."""
    check_every_seq(data, kind, rows, script, more)


@settings(max_examples=examples(8))
@given(data=st.data(), kind=kinds(), rows=ROWS, script=SCRIPTS, more=MORE)
def test_resuming_on_a_file_gives_what_was_missed_and_goes_on(
    data: st.DataObject, kind: Kind, rows: list[Any], script: list[Any], more: list[Any]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check_every_seq(data, kind, rows, script, more, f"{folder}/laws.db")


@settings(max_examples=examples(8))
@given(data=st.data(), kind=kinds(), rows=ROWS, script=SCRIPTS)
def test_resuming_in_a_file_that_was_opened_again(
    data: st.DataObject, kind: Kind, rows: list[Any], script: list[Any]
) -> None:
    """Tokens are good in the next process too."""
    asked = data.draw(options(kind), "options")
    with tempfile.TemporaryDirectory() as folder, little_room():
        with reactdb.connect(f"{folder}/laws.db", durability="soft") as db:
            prepare(db)
            with kind.ask(db).changes(**asked).cursor() as whole:
                tokens = {db.seq: db.token}
                for commit in [[("insert", rows)], *script]:
                    token = act(db, commit)
                    tokens[db.seq] = token
                events = heard(whole)
        with reactdb.connect(f"{folder}/laws.db", durability="soft") as db:
            for seq, token in tokens.items():
                for since in (seq, token):
                    with kind.ask(db).changes(since=since, **asked).cursor() as cursor:
                        assert alike(kind, past(events, seq)) == alike(kind, heard(cursor))


@settings(max_examples=examples(40))
@given(data=st.data(), kind=kinds(), rows=ROWS, script=SCRIPTS, keep=st.integers(0, 12))
def test_what_retention_has_removed_is_refused_and_the_rest_is_as_before(
    data: st.DataObject, kind: Kind, rows: list[Any], script: list[Any], keep: int
) -> None:
    asked = data.draw(options(kind), "options")
    with little_room(), reactdb.connect(":memory:") as db:
        prepare(db)
        feed = kind.ask(db)
        with feed.changes(**asked).cursor() as whole:
            for commit in [[("insert", rows)], *script]:
                act(db, commit)
            events = heard(whole)
            oldest = db.compact(keep=keep)["oldest"]
            for seq in range(db.seq + 1):
                if seq < oldest:
                    with pytest.raises(reactdb.HistoryLost) as caught:
                        feed.changes(since=seq, **asked)
                    assert (seq, oldest + 1) == (caught.value.since, caught.value.oldest)
                else:
                    with feed.changes(since=seq, **asked).cursor() as cursor:
                        assert alike(kind, past(events, seq)) == alike(kind, heard(cursor))


@settings(max_examples=examples(40))
@given(
    data=st.data(),
    kind=kinds(),
    rows=ROWS,
    script=SCRIPTS,
    size=st.sampled_from([1, 3, 100]),
    squash=st.booleans(),
)
def test_a_token_taken_in_the_middle_leads_to_everything_that_was_not_told(
    data: st.DataObject, kind: Kind, rows: list[Any], script: list[Any], size: int, squash: bool
) -> None:
    """Wherever a cursor stops, also while it lags, the state at its token and what comes after it make the answer.

    What was told counts as told only when it is told whole: a batch, or all that one change did.
    """
    asked = data.draw(options(kind), "options")
    with little_room(), reactdb.connect(":memory:") as db:
        prepare(db)
        do(db, ("insert", rows))
        feed = kind.ask(db)
        with feed.changes(**asked).cursor() as whole:
            lagging = feed.changes(**asked, squash=squash, changefeed_queue_size=size, on_overflow="spill")
            with lagging.cursor() as cursor:
                told: list[Event] = []
                for commit in script:
                    act(db, commit)
                    told += heard(cursor, data.draw(st.integers(0, 3)))
                    seq = int(lagging.token.rpartition(".")[2])
                    assert seq <= db.seq
                    events = [event for event in told if event["seq"] <= seq]
                    if not squash:
                        assert told[: len(events)] == events
                        assert len({event["seq"] for event in told[len(events) :]}) <= 1
                token = lagging.token
            events = heard(whole)
            seq = int(token.rpartition(".")[2])
            if not squash:
                assert alike(kind, [e for e in events if e["seq"] <= seq]) == alike(
                    kind, [e for e in told if e["seq"] <= seq]
                )
            replica = Replica(
                kind.answer(db.at(seq)),
                by_offset=asked.get("include_offsets", False),
                name_of=kind.name_of,
                value_of=kind.value_of,
            )
            with feed.changes(since=token, **asked).cursor() as resumed:
                rest = heard(resumed)
            assert alike(kind, past(events, seq)) == alike(kind, rest)
            for event in rest:
                replica.apply(event)
            replica.assert_equals(kind.answer(db), kind)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_resuming_for_longer() -> None:
    """The same with many more examples."""
    settings(max_examples=examples(2000))(given(st.data(), kinds(), ROWS, SCRIPTS, MORE)(check_in_memory))()


def check_in_memory(
    data: st.DataObject, kind: Kind, rows: list[Any], script: list[Any], more: list[Any]
) -> None:
    # Hypothesis takes no function with defaults.
    check_every_seq(data, kind, rows, script, more)
