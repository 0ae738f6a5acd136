"""Law 1 of feeds, as a state machine: applying a feed's events gives what asking the query again gives, after every step.

Many feeds of every kind, with every combination of options, are open on one database while documents are written one by one, in
statements and in transactions. Some subscribers are called, some ask when they like, some live in virtual time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from reactivex.scheduler import VirtualTimeScheduler

import reactdb
from tests.support.feed_kinds import (
    BODIES,
    KEYS,
    Kind,
    do,
    kinds,
    little_room,
    one_statement,
    one_write,
    prepare,
)
from tests.support.law_machine import LawMachine
from tests.support.replica import Event, Grammar, Replica
from tests.support.scaling import examples

FLAGS = ("include_initial", "include_states", "include_types", "include_seq", "include_offsets")
SQUASH_S = 2.0
MOST_FEEDS = 6
MANNERS = st.sampled_from(["push", "push", "pull", "clock"])
STEPS = st.one_of(
    st.just(("nothing", None)),
    st.tuples(st.just("write"), one_write()),
    st.tuples(st.just("write"), one_write()),
    st.tuples(st.just("write"), one_statement()),
    st.tuples(
        st.just("transaction"),
        st.lists(st.one_of(one_write(), one_write(), one_statement()), min_size=2, max_size=8),
    ),
    st.tuples(st.just("read"), st.sampled_from([1, 2, 4, None])),
    st.tuples(st.just("wait"), st.sampled_from([0.5, 1.5, SQUASH_S + 0.5])),
)


@st.composite
def options(draw: st.DrawFn) -> dict[str, Any]:
    """Any combination that makes sense. The offsets are taken out again where a kind has none."""
    asked: dict[str, Any] = {flag: True for flag in FLAGS if draw(st.booleans())}
    squash = draw(st.sampled_from([False, False, True, SQUASH_S]))
    if squash is not False:
        asked["squash"] = squash
    return asked


class Watch:
    """A feed and its replica. `manner`: events come as a `push` on the committing thread, by a `pull`, or by a `clock`."""

    def __init__(
        self,
        db: reactdb.Database,
        kind: Kind,
        asked: dict[str, Any],
        manner: str,
        clock: VirtualTimeScheduler,
    ) -> None:
        if not kind.has_offsets:
            asked = {name: value for name, value in asked.items() if name != "include_offsets"}
        if asked.get("squash") == SQUASH_S:
            manner = "clock"
        self.kind, self.asked, self.manner = kind, asked, manner
        self.heard: list[Event] = []
        self.errors: list[Exception] = []
        self.grammar = Grammar(asked, kind.extra_fields)
        has_initial = asked.get("include_initial", False)
        self.replica = Replica(
            [] if has_initial else kind.answer(db),
            by_offset=asked.get("include_offsets", False),
            name_of=kind.name_of,
            value_of=kind.value_of,
        )
        self.seq = db.seq
        self.cursor: reactdb.Cursor | None = None
        feed = kind.ask(db).changes(**asked)
        if manner == "pull":
            self.cursor = feed.cursor()
            self.stop: Callable[[], None] = self.cursor.close
        else:
            scheduler = clock if manner == "clock" else None
            self.stop = feed.subscribe(self.heard.append, self.errors.append, scheduler=scheduler).dispose

    def __repr__(self) -> str:
        return f"{self.kind} {self.asked} {self.manner}"

    @property
    def tells_each_step(self) -> bool:
        return "include_seq" in self.asked and "squash" not in self.asked

    def read(self, count: int | None = None) -> None:
        """Ask for so many events, or for all there are."""
        assert self.cursor is not None
        while count is None or count > 0:
            try:
                self.heard.append(self.cursor.next(timeout=0))
            except TimeoutError:
                return
            count = None if count is None else count - 1

    def apply(self, until: int | None = None) -> None:
        """Take in what was heard; of a feed that tells each step, up to a seq."""
        while self.heard:
            event = self.heard[0]
            if until is not None and "old_val" in event and event["seq"] > until:
                return
            self.grammar.check(event)
            self.replica.apply(event)
            del self.heard[0]

    def catch_up(self, db: reactdb.Database) -> None:
        """Everything heard, and compared: with each state on the way where the events say which that was."""
        head = db.seq
        if self.tells_each_step and head > self.seq + 1:
            self.apply(self.seq)
            for seq in range(self.seq + 1, head):
                self.apply(seq)
                self.replica.assert_equals(self.kind.answer(db.at(seq)), f"{self} at {seq}")
        self.apply()
        self.seq = head
        assert self.errors == [], (self, self.errors)
        self.replica.assert_equals(self.kind.answer(db), self)


class FeedLaws(LawMachine):
    """See the head of this file."""

    def __init__(self) -> None:
        super().__init__()
        self.room = ExitStack()
        self.room.enter_context(little_room())
        self.clock = VirtualTimeScheduler(0.0)
        self.watched: list[Watch] = []
        prepare(self.db)

    def teardown(self) -> None:
        self.room.close()
        super().teardown()

    @initialize(
        rows=st.lists(st.tuples(KEYS, BODIES), min_size=4, max_size=9),
        feeds=st.lists(st.tuples(kinds(), options(), MANNERS), min_size=4, max_size=MOST_FEEDS),
    )
    def begin(
        self, rows: list[tuple[Any, dict[str, Any]]], feeds: list[tuple[Kind, dict[str, Any], str]]
    ) -> None:
        do(self.db, ("insert", rows))
        for kind, asked, manner in feeds:
            self.open(kind, asked, manner)

    # -- feeds

    @precondition(lambda self: len(self.watched) < MOST_FEEDS)
    @rule(kind=kinds(), asked=options(), manner=MANNERS)
    def watch(self, kind: Kind, asked: dict[str, Any], manner: str) -> None:
        self.open(kind, asked, manner)

    def open(self, kind: Kind, asked: dict[str, Any], manner: str) -> None:
        try:
            kind.ask(self.db).run() if kind.shape != "tables" else None
        except reactdb.errors.QueryError:
            # It cannot be asked now. Most can be watched all the same, but for what they begin with.
            if kind.fails_on_seed and asked.get("include_initial"):
                return
        self.watched.append(Watch(self.db, kind, asked, manner, self.clock))

    @precondition(lambda self: len(self.watched) > 1)
    @rule(number=st.integers(0, MOST_FEEDS))
    def forget(self, number: int) -> None:
        self.watched.pop(number % len(self.watched)).stop()

    def read(self, count: int | None) -> None:
        for watch in self.watched:
            if watch.cursor is not None:
                watch.read(count)
                if count is None:
                    watch.catch_up(self.db)

    def wait(self, seconds: float) -> None:
        self.clock.advance_by(seconds)
        for watch in self.watched:
            if watch.manner == "clock" and (watch.asked.get("squash") != SQUASH_S or seconds > SQUASH_S):
                watch.catch_up(self.db)

    # -- living

    @rule(steps=st.lists(STEPS, min_size=10, max_size=30))
    def live(self, steps: list[tuple[str, Any]]) -> None:
        for verb, value in steps:
            if verb == "write":
                do(self.db, value)
            elif verb == "transaction":
                with self.db.transaction():
                    for write in value:
                        do(self.db, write)
            elif verb == "read":
                self.read(value)
            elif verb == "wait":
                self.wait(value)
            self.feeds_equal_their_queries()

    # -- the law

    @invariant()
    def feeds_equal_their_queries(self) -> None:
        for watch in self.watched:
            if watch.manner == "push":
                watch.catch_up(self.db)


class FileFeedLaws(FeedLaws):
    on_file = True


class LongFeedLaws(FeedLaws):
    """The same, for longer."""


TestInMemory = FeedLaws.TestCase
TestInMemory.settings = settings(max_examples=examples(150), stateful_step_count=5)
TestOnFile = FileFeedLaws.TestCase
TestOnFile.settings = settings(max_examples=examples(10), stateful_step_count=5)
TestLong = pytest.mark.long(pytest.mark.timeout(3600)(LongFeedLaws.TestCase))
TestLong.settings = settings(max_examples=examples(600), stateful_step_count=10)
