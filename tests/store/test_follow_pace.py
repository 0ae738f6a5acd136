"""When the thread that follows files looks at them: in virtual time, with a file whose commits, reports and locks are made up."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactdb.store import follow
from reactdb.store.file import sqlite


@dataclass
class Commit:
    """A commit of another connection.

    Attributes:
        written: When it is written to the log, and reported if `is_reported`.
        readable: When it can be read.
        is_ours: By this process: the system does not name its lock, and the feeds have it already.
    """

    written: float
    readable: float
    is_reported: bool = True
    is_ours: bool = False


@dataclass
class World:
    """A file, its system and its clock; it stands in for the engine, its guard, its publisher and `FileEvents`."""

    commits: list[Commit] = field(default_factory=list)
    has_reports: bool = True
    end: float = 10.0
    now: float = 0.0
    path: str = "a.db"
    is_memory: bool = False
    is_usable: bool = True
    fails_until: float = 0.0

    def __post_init__(self) -> None:
        self.guard = self.publisher = self
        self.looks: list[float] = []
        self.found: dict[int, float] = {}
        self.examined: list[float] = []
        self.names: set[int] = set()
        self.asked = 0.0
        self.follower = follow.Follower()
        self.follower._events = self  # type: ignore[assignment]
        self.watched = follow.Watched(self)  # type: ignore[arg-type]

    def run(self) -> World:
        self.follower._watched = {1: self.watched}
        self.follower._thread = threading.current_thread()
        self.follower._run()
        return self

    # The engine

    def has_news(self) -> bool:
        self.looks.append(self.now)
        if self.now < self.fails_until:
            raise sqlite.sqlite3.OperationalError("database is locked")
        return True

    def catch_up(self) -> bool:
        new = [
            place
            for place, commit in enumerate(self.commits)
            if commit.readable <= self.now and not commit.is_ours and place not in self.found
        ]
        self.found.update(dict.fromkeys(new, self.now))
        return bool(new)

    def end_feeds(self) -> None:
        pass

    # The guard

    def examine(self) -> str:
        self.examined.append(self.now)
        return ""

    def has_foreign_writer(self) -> bool:
        return any(
            commit.written <= self.now < commit.readable and not commit.is_ours for commit in self.commits
        )

    # The events

    def watch(self, name: int, path: str) -> bool:
        if self.has_reports:
            self.names.add(name)
            self.asked = self.now
        return self.has_reports

    def is_watched(self, name: int) -> bool:
        return name in self.names

    def unwatch(self, name: int) -> None:
        self.names.discard(name)

    def wait(self, timeout_s: float, *, listens: bool) -> dict[int, bool]:
        until = self.now + timeout_s
        if listens and self.names:
            until = min([until, *(max(commit.written, self.now) for commit in self._reports(until))])
        self.now = until
        reports = self._reports(self.now)
        if self.now >= self.end:
            self.follower._watched.clear()
        if not reports or not self.names:
            return {}
        # The first report ends the watch.
        self.names.clear()
        for commit in reports:
            commit.is_reported = False
        return {1: False}

    def _reports(self, until: float) -> list[Commit]:
        return [
            commit for commit in self.commits if commit.is_reported and self.asked <= commit.written <= until
        ]

    def wake(self) -> None:
        pass

    def close(self) -> None:
        self.names.clear()


@pytest.fixture(autouse=True, scope="module")
def virtual() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(follow, "answer_questions", lambda engine: None)
        yield


def run(world: World) -> World:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(follow, "monotonic", lambda: world.now)
        world.watched._heard = 0.0
        return world.run()


def looks_between(world: World, since: float, until: float) -> int:
    return sum(since <= moment < until for moment in world.looks)


def test_an_idle_file_is_looked_at_less_than_twice_a_second():
    world = run(World(end=100.0))

    assert looks_between(world, 1.0, 99.0) <= 98 / follow.REPORTED_S + 1
    assert follow.LOOK_S < follow.REPORTED_S
    assert looks_between(world, 1.0, 99.0) == sum(1.0 <= moment < 99.0 for moment in world.examined)


def test_without_reports_the_pause_grows_with_the_silence_and_news_makes_it_short_again():
    world = run(World([Commit(50.0, 50.0)], has_reports=False, end=100.0))
    pauses = [later - earlier for earlier, later in zip(world.looks, world.looks[1:], strict=False)]
    before = [pause for moment, pause in zip(world.looks, pauses, strict=False) if moment < 50.0]
    after = pauses[len(before) :]

    for some in (before, after):
        assert follow.QUICK_S == pytest.approx(some[0])
        assert some == pytest.approx(sorted(some))
        assert follow.SLOW_S == pytest.approx(some[-1])
    assert 0 <= world.found[0] - 50.0 <= follow.SLOW_S
    # One after 8 seconds of silence costs as many looks as the first.
    assert looks_between(world, 90.0, 98.0) <= 8 / follow.SLOW_S + 1


def test_a_reported_commit_is_found_as_soon_as_it_can_be_read():
    world = run(World([Commit(5.0, 5.0), Commit(6.1, 6.1005), Commit(7.2, 7.25)]))

    assert 5.0 == world.found[0]
    assert world.found[1] - 6.1005 <= follow.QUICK_S
    assert world.found[2] - 7.25 <= follow.BUSY_S


@pytest.mark.parametrize(("takes_s", "looks"), [(0.0, 1), (0.0002, 2)])
def test_a_commit_a_second_takes_few_looks(takes_s, looks):
    """At the report, and when it can be read."""
    world = run(World([Commit(n + 0.25, n + 0.25 + takes_s) for n in range(2, 98)], end=100.0))

    assert len(world.found) == 96
    # One a second without a report.
    assert looks_between(world, 2.0, 98.0) <= 96 * (looks + 1) + 3


def test_a_commit_just_before_the_system_was_asked_for_reports_is_found():
    world = World([Commit(0.0, 0.0, is_reported=False)])
    world.commits[0].readable = float("inf")
    watch = world.watch

    def watch_late(name: int, path: str) -> bool:
        world.commits[0].readable = world.now
        world.now += 0.001
        return watch(name, path)

    world.watch = watch_late  # type: ignore[method-assign]
    run(world)

    assert world.found[0] - world.commits[0].readable <= 0.001 + follow.QUICK_S


def test_a_commit_without_a_report_is_found_by_the_next_look():
    world = run(World([Commit(5.0, 5.0, is_reported=False)]))

    assert world.found[0] - 5.0 <= follow.REPORTED_S


def test_own_commits_cause_no_more_looks_than_the_short_pauses_have_room_for():
    """A thousand a second, each with a report."""
    own = [Commit(5 + n / 1_000, 5 + n / 1_000, is_ours=True) for n in range(2_000)]
    world = run(World(own))

    # The pauses have grown to 20 ms after 0.4 s.
    assert looks_between(world, 6.0, 7.0) <= 1 / follow.BUSY_S + 2
    assert looks_between(world, 7.5, 9.5) <= 2 / follow.REPORTED_S + 1


def test_a_commit_between_own_commits_is_found_soon():
    own = [Commit(5 + n / 1_000, 5 + n / 1_000, is_ours=True) for n in range(2_000)]
    world = run(World([*own, Commit(6.5, 6.5)]))

    assert world.found[2_000] - 6.5 <= follow.BUSY_S


def test_a_file_whose_looks_fail_is_looked_at_often():
    world = World(fails_until=5.0)
    world.is_usable = False
    run(world)

    assert looks_between(world, 4.0, 5.0) >= 0.9 / follow.BUSY_S


def test_where_the_system_has_no_more_watches_it_is_asked_again():
    world = World(end=30.0)
    asked: list[float] = []

    def watch(name: int, path: str) -> bool:
        asked.append(world.now)
        if world.now > 10.0:
            world.names.add(name)
        return world.now > 10.0

    world.watch = watch  # type: ignore[method-assign]
    run(world)

    assert 0.4 == pytest.approx(asked[0], abs=0.02)
    assert 10.0 < asked[-1] < 11.0
    assert looks_between(world, 20.0, 30.0) <= 10 / follow.REPORTED_S + 1


def test_a_watch_that_the_system_has_ended_is_asked_for_again():
    world = World([Commit(20.0, 20.0)], end=30.0)
    wait = world.wait

    def lose(timeout_s: float, **options: Any) -> dict[int, bool]:
        reports = wait(timeout_s, **options)
        if 10.0 < world.now < 11.0:
            world.names.clear()
        return reports

    world.wait = lose  # type: ignore[method-assign]
    run(world)

    assert 20.0 == world.found[0]


def test_a_file_that_was_touched_is_examined_at_once():
    """It was moved perhaps; or another process asks for the feeds."""
    world = World([Commit(5.0, 5.0, is_ours=True), Commit(5.01, 5.01, is_ours=True)])
    wait = world.wait
    world.wait = lambda *given, **options: dict.fromkeys(wait(*given, **options), True)  # type: ignore[method-assign]
    run(world)

    assert 5.0 in world.examined
    assert any(5.0 < moment < 5.04 for moment in world.examined)


def test_a_hint_of_this_process_ends_the_wait():
    """Of another engine on the file: `Publisher.look_soon`."""
    world = World()
    woken: list[float] = []
    wait = world.wait

    def hint(timeout_s: float, **options: Any) -> dict[int, bool]:
        if not woken and world.now > 5.0:
            woken.append(world.now)
            follower.look_soon(1)
            assert follower._is_listening
            return {}
        return wait(timeout_s, **options)

    world.wait = hint  # type: ignore[method-assign]
    follower = world.follower
    run(world)

    assert woken[0] in world.looks


moments = st.floats(1.0, 9.0)


@given(
    st.lists(
        st.builds(
            lambda written, takes_s, is_reported, is_ours: Commit(
                written, written + takes_s, is_reported, is_ours
            ),
            moments,
            st.sampled_from([0.0, 0.0002, 0.004, 0.05, 0.5]),
            st.booleans(),
            st.booleans(),
        ),
        max_size=30,
    ),
    st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_no_commit_is_lost_and_none_is_late(commits: list[Commit], has_reports: bool):
    were_reported = [commit.is_reported for commit in commits]
    world = run(World(commits, has_reports=has_reports, end=12.0))

    for place, commit in enumerate(commits):
        if not commit.is_ours:
            late_s = world.found[place] - commit.readable
            assert 0 <= late_s <= (follow.REPORTED_S if has_reports else follow.SLOW_S) + follow.BUSY_S
            if has_reports and were_reported[place]:
                assert late_s <= follow.BUSY_S + 1e-9
