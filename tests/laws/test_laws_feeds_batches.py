"""Law 8: no half of a commit is ever visible to a subscriber that asked for batches, or to a LiveList.

One cursor gets every change by itself, with its commit. Beside it, readers, cursors and callbacks come and go that get batches:
from now on or from any seq, squashed or not, with a queue that is too small, resumed from their positions. Whatever they were
told, at every moment, is the changes of whole commits; squashed, the result as it was after some commit.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import reactdb
from reactdb import asc, desc, row
from tests.support.feed_kinds import ROWS, Kind, act, alike, do, kinds, little_room, prepare, some_writes
from tests.support.feeds import heard
from tests.support.replica import Event, Replica, exactly
from tests.support.scaling import examples

WRITES = some_writes(5)


def by_commit(events: list[Event]) -> list[list[Event]]:
    return [list(group) for _, group in groupby(events, key=lambda event: event["commit"])]


class Follower:
    """Somebody who gets batches."""

    def __init__(self, machine: Commits, way: str, since: int, is_squashed: bool, size: int) -> None:
        self.machine = machine
        self.way = way
        self.is_squashed = is_squashed
        self.begin = machine.before_commit(since)
        self.told: list[list[Event]] = []
        self.feed = machine.kind.ask(machine.db).changes(
            **machine.asked,
            batches=True,
            since=since,
            squash=is_squashed,
            changefeed_queue_size=size,
            on_overflow="spill",
        )
        self.replica = machine.replica(self.begin)
        self.source: Any = None
        self.open(self.feed)

    def open(self, feed: Any) -> None:
        if self.way == "reader":
            self.source = feed.reader()
        elif self.way == "cursor":
            self.source = feed.cursor()
        else:
            self.source = feed.subscribe(self.told.append)

    def read(self, count: int | None) -> None:
        before = len(self.told)
        if self.way == "reader":
            self.told += self.source.poll(*([] if count is None else [count]))
        elif self.way == "cursor":
            self.told += heard(self.source, count)
        self.check(before)

    def check(self, before: int) -> None:
        kind = self.machine.kind
        if not self.is_squashed:
            expected = by_commit([e for e in self.machine.events if e["seq"] > self.begin])
            for told, whole in zip(self.told, expected, strict=False):
                assert alike(kind, told) == alike(kind, whole), "not what one commit did"
            assert len(self.told) <= len(expected)
        elif self.way == "reader":
            for batch in self.told[before:]:
                for event in batch:
                    self.replica.apply(event)
            self.replica.assert_equals(kind.answer(self.machine.db.at(self.position)), "squashed")
        if self.way == "reader":
            assert self.position == self.machine.before_commit(self.position), "a position inside of a commit"

    @property
    def position(self) -> int:
        return int(self.source.position.rpartition(".")[2])

    def close(self) -> None:
        getattr(self.source, "close", getattr(self.source, "dispose", None))()


class Commits(RuleBasedStateMachine):
    db: reactdb.Database

    def __init__(self) -> None:
        super().__init__()
        self.room = little_room()
        self.room.__enter__()
        self.db = reactdb.connect(":memory:")
        prepare(self.db)
        # Before that there are no tables.
        self.start = self.db.seq
        self.followers: list[Follower] = []
        self.events: list[Event] = []
        self.whole: Any = None

    @initialize(data=st.data(), kind=kinds(), rows=ROWS)
    def begin(self, data: st.DataObject, kind: Kind, rows: list[Any]) -> None:
        self.kind = kind
        flags = ["include_types"] + (["include_offsets"] if kind.has_offsets else [])
        self.asked = {"include_seq": True, **{flag: True for flag in flags if data.draw(st.booleans())}}
        self.asked["include_commit"] = True
        self.whole = kind.ask(self.db).changes(**self.asked).cursor()
        self.commit([("insert", rows)])

    def replica(self, seq: int) -> Replica:
        return Replica(
            self.kind.answer(self.db.at(seq)),
            by_offset=self.asked.get("include_offsets", False),
            name_of=self.kind.name_of,
            value_of=self.kind.value_of,
        )

    def before_commit(self, seq: int) -> int:
        """The seq, or the last one before the commit that it is inside of."""
        following = next(iter(self.db.log(since=seq)), None)
        return seq if following is None or following.commit > seq else following.commit - 1

    @rule(writes=WRITES)
    def commit(self, writes: list[Any]) -> None:
        act(self.db, writes)
        self.events += heard(self.whole)

    @precondition(lambda self: len(self.followers) < 4)
    @rule(
        data=st.data(),
        way=st.sampled_from(["reader", "reader", "cursor", "callback"]),
        is_squashed=st.booleans(),
        size=st.sampled_from([1, 3, 100]),
    )
    def join(self, data: st.DataObject, way: str, is_squashed: bool, size: int) -> None:
        since = data.draw(st.one_of(st.just(self.db.seq), st.integers(self.start, self.db.seq)))
        self.followers.append(Follower(self, way, since, is_squashed, size))

    @precondition(lambda self: self.followers)
    @rule(data=st.data(), count=st.sampled_from([1, 1, 2, None]))
    def read(self, data: st.DataObject, count: int | None) -> None:
        data.draw(st.sampled_from(self.followers)).read(count)

    @precondition(lambda self: any(one.way == "reader" for one in self.followers))
    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        """From where it was, as another process would."""
        one = data.draw(st.sampled_from([one for one in self.followers if one.way == "reader"]))
        position = one.source.position
        one.close()
        again = self.kind.ask(self.db).changes(
            **self.asked, batches=True, since=position, squash=one.is_squashed, changefeed_queue_size=2
        )
        one.open(again)

    def teardown(self) -> None:
        try:
            for one in self.followers:
                one.read(None)
                if not one.is_squashed:
                    expected = by_commit([e for e in self.events if e["seq"] > one.begin])
                    assert len(expected) == len(one.told)
                one.close()
        finally:
            self.db.close()
            self.room.__exit__(None, None, None)


TestCommits = Commits.TestCase
TestCommits.settings = settings(max_examples=examples(60), stateful_step_count=15)


@settings(max_examples=examples(40))
@given(kind=kinds(), rows=ROWS, script=st.lists(WRITES, max_size=6), size=st.sampled_from([1, 4, 100]))
def test_initial_values_are_lists_too_and_then_come_whole_commits(
    kind: Kind, rows: list[Any], script: list[Any], size: int
) -> None:
    if kind.fails_on_seed:
        return
    with little_room(), reactdb.connect(":memory:") as db:
        prepare(db)
        do(db, ("insert", rows))
        options = {"include_initial": True, "include_offsets": kind.has_offsets, "include_states": True}
        plain = kind.ask(db).changes(**options)
        batched = kind.ask(db).changes(**options, batches=True, changefeed_queue_size=size)
        with plain.cursor() as one, batched.cursor() as other:
            begin = heard(other)
            assert alike(kind, heard(one)) == alike(kind, [event for batch in begin for event in batch])
            for batch in begin:
                assert len(batch) == 1 or not any("state" in event for event in batch)
            for writes in script:
                act(db, writes)
                told = heard(other)
                assert len(told) <= 1
                assert alike(kind, heard(one)) == alike(kind, [event for batch in told for event in batch])


@settings(max_examples=examples(40))
@given(
    script=st.lists(st.tuples(st.integers(0, 2), WRITES), min_size=1, max_size=8),
    skipped=st.sampled_from(["a", "b"]),
    batches=st.booleans(),
    size=st.sampled_from([2, 100]),
    kind=kinds(),
)
def test_what_an_origin_wrote_is_left_out(
    script: list[Any], skipped: str, batches: bool, size: int, kind: Kind
) -> None:
    """Also where it is read from the log."""
    origins = [None, "a", "b"]
    with little_room(), reactdb.connect(":memory:") as db:
        prepare(db)
        options: dict[str, Any] = {"include_origin": True, "include_commit": True, "include_seq": True}
        feed = kind.ask(db)
        lagging = feed.changes(
            **options, skip_origin=skipped, batches=batches, changefeed_queue_size=size, on_overflow="spill"
        )
        with feed.changes(**options).cursor() as whole, lagging.reader() as reader:
            for which, writes in script:
                with db.transaction(origin=origins[which]):
                    for write in writes:
                        do(db, write)
            everything = heard(whole)
            for event in everything:
                assert event["origin"] == next(iter(db.log(since=event["seq"] - 1))).origin
            wanted = [event for event in everything if event["origin"] != skipped]
            told: list[Any] = []
            while events := reader.poll():
                told += events
            if batches:
                assert [alike(kind, one) for one in by_commit(wanted)] == [alike(kind, one) for one in told]
            else:
                assert alike(kind, wanted) == alike(kind, told)
            assert reader.position == db.token


@settings(max_examples=examples(40))
@given(
    script=st.lists(WRITES, min_size=1, max_size=8),
    reads=st.lists(st.integers(0, 3), min_size=8, max_size=8),
    sizes=st.tuples(st.sampled_from([1, 3, 100]), st.sampled_from([1, 3, 100])),
    since=st.sampled_from([None, 0, 3]),
)
def test_members_of_a_union_of_feeds_tell_a_commit_in_one_list(
    script: list[Any], reads: list[int], sizes: tuple[int, int], since: int | None
) -> None:
    with little_room(), reactdb.connect(":memory:") as db:
        prepare(db)
        for number in range(4):
            db.table("games").insert({"id": number, "a": 1})
        options = {"batches": True, "include_seq": True, "include_commit": True, "since": since}
        feeds = [
            db.table(name).changes(**options, changefeed_queue_size=size)
            for name, size in zip(("games", "others"), sizes, strict=True)
        ]
        with db.changes(**{**options, "batches": False}).cursor() as whole:
            reader = feeds[0].union(feeds[1]).reader()
            told = []
            for writes, count in zip(script, reads, strict=False):
                act(db, writes)
                told += reader.poll(count) if count else []
            told += reader.poll()
            expected = by_commit(heard(whole))
            for event in (event for batch in expected for event in batch):
                del event["table"]
            assert exactly(expected) == exactly(told)
            assert reader.position == db.token


ORDERS = [
    ("a", lambda t: t.order_by("a", "id").limit(3)),
    ("index", lambda t: t.order_by(index=desc("a")).limit(4)),
    ("all", lambda t: t.order_by(index=asc("a"))),
    ("filtered", lambda t: t.order_by("b").filter(row["a"] >= 1).limit(3)),
]


@pytest.mark.parametrize("ask", [ask for _, ask in ORDERS], ids=[name for name, _ in ORDERS])
@settings(max_examples=examples(25))
@given(rows=ROWS, script=st.lists(WRITES, max_size=8))
def test_a_live_list_is_the_query_after_each_commit_and_so_are_its_edits(
    ask: Any, rows: list[Any], script: list[Any]
) -> None:
    with little_room(), reactdb.connect(":memory:") as db:
        prepare(db)
        do(db, ("insert", rows))
        selection = ask(db.table("games"))
        mirror, commits = list(selection.run()), []
        with reactdb.LiveList(selection) as board, reactdb.LiveList(selection) as plain:
            assert exactly(list(board)) == exactly(mirror)

            seen: list[Any] = []

            def before(edit: Event) -> None:
                """Where a hook stands, the list is what the edits before it have made."""
                seen.append((exactly(list(board)), exactly(mirror)))
                if edit.get("old_offset") is not None:
                    seen.append((exactly(mirror.pop(edit["old_offset"])), exactly(edit["old_val"])))
                if edit.get("new_offset") is not None:
                    mirror.insert(edit["new_offset"], edit["new_val"])

            def after(edits: list[Event]) -> None:
                seen.append((exactly(list(board)), exactly(mirror)))
                seen.append((exactly(mirror), exactly(selection.run())))
                commits.append(len(edits))

            board.subscribe(after, before)
            for writes in script:
                count = len(commits)
                act(db, writes)
                assert exactly(mirror) == exactly(list(board)) == exactly(list(plain))
                assert exactly(mirror) == exactly(selection.run())
                assert len(commits) <= count + 1
                # What a listener raises would only be logged.
                assert all(left == right for left, right in seen)
