"""Control: threads that run one at a time in the order of a schedule, on a clock that advances only when all of them wait.

`install` replaces Python's locks, threads and clock by those of this file. It must run before the tested modules are
imported, in a process that does nothing else. Python itself builds conditions, events and queues from locks, in Python, so
they need no substitutes.

    point      a line of a chosen module is about to run: a schedule may switch to another thread, which is a preemption
    wait       a thread cannot go on (a lock is held, or it sleeps): another one must run, which is no preemption

A thread that waits with a timeout continues when no other thread can run; the clock then advances to that moment. A schedule
may let it continue earlier, as if the others had taken that long: that is a preemption, too.

The threads are real ones, with numbers and thread locals of their own; each waits for a baton, and only one has it.
"""

from __future__ import annotations

import _thread
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

# Where a thread is that cannot go on: at no line that a schedule could name.
WAITING = ("waiting", 0)
# A run of more lines than this does not end.
MOST_STEPS = 200_000
# Seconds after the last thread of the scenario has ended in which what it has started, such as timers, may go on.
GRACE_S = 60.0

allocate_lock = _thread.allocate_lock
get_ident = _thread.get_ident


class Stuck(BaseException):
    """Nobody is left to let this thread go on."""


class Option:
    """A moment in which the turn could go to somebody else.

    Attributes:
        step: Its number in this run.
        cost: How many preemptions that would be.
        others: The numbers of the threads that could have it.
        place: (file, line) that was about to be run, to see whether another run came to the same.
    """

    __slots__ = ("cost", "others", "place", "step")

    def __init__(self, step: int, cost: int, others: tuple[int, ...], place: tuple[str, int]) -> None:
        self.step = step
        self.cost = cost
        self.others = others
        self.place = place


class Controlled:
    """One thread of a run. It can go on if it does not wait, or what it waits for has come."""

    def __init__(self, number: int, name: str, work: Callable[[], None], *, is_main: bool) -> None:
        self.number = number
        self.name = name
        self.work = work
        self.is_main = is_main
        self.ident = 0
        self.baton = allocate_lock()
        self.baton.acquire()
        self.is_begun = False
        self.is_done = False
        self.error: BaseException | None = None
        self.waits_for: Callable[[], bool] | None = None
        self.deadline: float | None = None
        self.has_timed_out = False
        # What the library started, if it did.
        self.thread: Thread | None = None

    @property
    def can_go_on(self) -> bool:
        return not self.is_done and (self.waits_for is None or self.waits_for())


class Run:
    """One run of a scenario, under one schedule. `is_fine`: with points before each instruction of a line, not before the first.

    Attributes:
        options: Where the turn could have gone to somebody else, after the last place where the schedule says so.
        passed_s: Seconds that passed because nobody could go on otherwise.
        story: (thread, file, line, function) of each step, where it is wanted.
        is_diverged: The schedule names a place that this run did not come to.
    """

    current: Run | None = None

    def __init__(
        self,
        decisions: Mapping[int, tuple[int, tuple[str, int]]],
        files: frozenset[str],
        *,
        is_told: bool = False,
        is_fine: bool = False,
    ) -> None:
        self.threads: list[Controlled] = []
        self.options: list[Option] = []
        self.passed_s = 0.0
        self.story: list[tuple[str, str, int, str]] | None = [] if is_told else None
        self.is_diverged = False
        self.is_endless = False
        self._decisions = decisions
        self._last = max(decisions, default=-1)
        self._files = files
        self._event = "opcode" if is_fine else "line"
        self._step = 0
        self._has_turn: Controlled | None = None
        self._driver = allocate_lock()
        self._driver.acquire()
        self._is_exploring = False
        self._end: float | None = None
        Run.current = self

    def add(self, work: Callable[[], None], name: str, *, is_main: bool = False) -> Controlled:
        """One thread more. It runs when it is its turn. `is_main`: the scenario has not ended before this one has."""
        thread = Controlled(len(self.threads), name, work, is_main=is_main)
        self.threads.append(thread)
        return thread

    # -----------------------------------------------------------------------------------------------------------
    # By the driver, which is no thread of the run

    def go(self, *, is_exploring: bool = True) -> None:
        """Let the threads run until nobody can go on."""
        self._is_exploring = is_exploring
        self._end = None
        first = self._next(None)
        if first is not None:
            self._give_to(first)
            self._driver.acquire()
        self._is_exploring = False

    @property
    def hanging(self) -> list[Controlled]:
        """Threads of the scenario that have not ended."""
        return [thread for thread in self.threads if thread.is_main and not thread.is_done]

    @property
    def mine(self) -> Controlled | None:
        """The calling thread, if it is one of the run's."""
        turn = self._has_turn
        return turn if turn is not None and turn.ident == get_ident() else None

    # -----------------------------------------------------------------------------------------------------------
    # By the thread that has the turn

    def wait(self, is_ready: Callable[[], bool], timeout_s: float | None) -> bool:
        """Let others run until it is ready. False: the time has passed first."""
        me = self._has_turn
        assert me is not None
        me.waits_for = is_ready
        me.deadline = None if timeout_s is None else clock.now + timeout_s
        target = self._next(me)
        if target is not me:
            if target is None:
                self._has_turn = None
                self._driver.release()
            else:
                self._give_to(target)
            me.baton.acquire()
        me.waits_for = me.deadline = None
        timed_out, me.has_timed_out = me.has_timed_out, False
        return not timed_out

    def point(self, frame: FrameType) -> None:
        """A line is about to be run."""
        me = self._has_turn
        assert me is not None
        place = (frame.f_code.co_filename, frame.f_lineno)
        if self.story is not None:
            self.story.append((me.name, *place, frame.f_code.co_name))
        step = self._step
        self._step = step + 1
        if step > self._last:
            if step > MOST_STEPS:
                self._give_up(me)
            others = tuple(self._others(me))
            if others:
                self.options.append(Option(step, 1, others, place))
        elif step in self._decisions:
            number, expected = self._decisions[step]
            target = self._chosen(number, place, expected)
            if target is not None and target is not me:
                self._give_to(target)
                me.baton.acquire()

    def _others(self, me: Controlled) -> list[int]:
        return [
            one.number
            for one in self.threads
            if one is not me and not one.is_done and (one.can_go_on or one.deadline is not None)
        ]

    def _chosen(self, number: int, place: tuple[str, int], expected: tuple[str, int]) -> Controlled | None:
        target = self.threads[number] if number < len(self.threads) else None
        if target is None or place != expected or target.is_done:
            self.is_diverged = True
            return None
        if not target.can_go_on:
            if target.deadline is None:
                self.is_diverged = True
                return None
            self._time_out(target)
        return target

    def _time_out(self, thread: Controlled) -> None:
        assert thread.deadline is not None
        clock.now = max(clock.now, thread.deadline)
        thread.has_timed_out = True

    def _next(self, me: Controlled | None) -> Controlled | None:
        """Who goes on where `me` cannot. None: nobody."""
        if self._end is None and not self.hanging:
            self._end = clock.now + GRACE_S
        # Who comes after it, and so on around: nobody is left out for ever.
        start = 0 if me is None else me.number + 1
        around = self.threads[start:] + self.threads[:start]
        able = [one for one in around if one.can_go_on]
        step = self._step
        self._step = step + 1
        if self._is_exploring and step in self._decisions:
            number, expected = self._decisions[step]
            target = self._chosen(number, WAITING, expected)
            if target is not None:
                return target
        timed = [one for one in around if one not in able and not one.is_done and one.deadline is not None]
        if able:
            if self._is_exploring and step > self._last:
                for cost, others in ((0, able[1:]), (1, timed)):
                    if others:
                        self.options.append(Option(step, cost, tuple(one.number for one in others), WAITING))
            return able[0]
        if not timed:
            return None
        first = min(timed, key=lambda one: one.deadline or 0.0)
        if self._end is not None and (first.deadline or 0.0) > self._end:
            return None
        before = clock.now
        self._time_out(first)
        if self._end is None:
            self.passed_s += clock.now - before
        return first

    def _give_up(self, me: Controlled) -> None:
        self.is_endless = True
        self._has_turn = None
        self._driver.release()
        me.baton.acquire()

    # -----------------------------------------------------------------------------------------------------------
    # Batons

    def _give_to(self, target: Controlled) -> None:
        self._has_turn = target
        if target.is_begun:
            target.baton.release()
        else:
            target.is_begun = True
            _thread.start_new_thread(self._begin, (target,))

    def _begin(self, me: Controlled) -> None:
        me.ident = get_ident()
        files, wanted = self._files, self._event

        def on_line(frame: FrameType, event: str, argument: Any) -> Any:
            if event == wanted and self._is_exploring:
                self.point(frame)
            return on_line

        def on_call(frame: FrameType, event: str, argument: Any) -> Any:
            if frame.f_code.co_filename not in files:
                return None
            frame.f_trace_opcodes = wanted == "opcode"
            return on_line

        if self._is_exploring:
            sys.settrace(on_call)
        try:
            me.work()
        except BaseException as error:
            me.error = error
        finally:
            sys.settrace(None)
        me.is_done = True
        target = self._next(me)
        if target is None:
            self._has_turn = None
            self._driver.release()
        else:
            self._give_to(target)


def wait_until(is_ready: Callable[[], bool], timeout_s: float | None) -> bool:
    """Wait, in the place of a call of the system's that waits."""
    run = Run.current
    if run is None or run.mine is None:
        raise Stuck("this would wait, and nobody else is running")
    return run.wait(is_ready, timeout_s)


class Lock:
    """In the place of `threading.Lock`."""

    def __init__(self) -> None:
        self._is_held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._is_held:
            if not blocking or timeout == 0:
                return False
            if not wait_until(self._is_free, None if timeout < 0 else timeout):
                return False
        self._is_held = True
        return True

    def _is_free(self) -> bool:
        return not self._is_held

    def release(self) -> None:
        if not self._is_held:
            raise RuntimeError("release unlocked lock")
        self._is_held = False

    def locked(self) -> bool:
        return self._is_held

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self.release()

    def _at_fork_reinit(self) -> None:
        self._is_held = False


class RLock:
    """In the place of `threading.RLock`."""

    def __init__(self) -> None:
        self._owner: int | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = get_ident()
        if self._owner != me:
            if self._owner is not None:
                if not blocking or timeout == 0:
                    return False
                if not wait_until(self._is_free, None if timeout < 0 else timeout):
                    return False
            self._owner = me
        self._count += 1
        return True

    def _is_free(self) -> bool:
        return self._owner is None

    def release(self) -> None:
        if self._owner != get_ident():
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            self._owner = None

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self.release()

    # What a Condition asks of its lock.

    def _is_owned(self) -> bool:
        return self._owner == get_ident()

    def _release_save(self) -> int:
        count, self._count, self._owner = self._count, 0, None
        return count

    def _acquire_restore(self, count: int) -> None:
        self.acquire()
        self._count = count

    def _at_fork_reinit(self) -> None:
        self._owner, self._count = None, 0


class Thread:
    """In the place of `threading.Thread`, as far as libraries use it."""

    def __init__(
        self,
        group: None = None,
        target: Callable[..., Any] | None = None,
        name: str | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        self._target = target
        self._args = tuple(args)
        self._kwargs = dict(kwargs or {})
        self._controlled: Controlled | None = None
        self.name = name or "a thread"
        self.daemon = bool(daemon)

    def start(self) -> None:
        run = Run.current
        assert run is not None
        self._controlled = run.add(self.run, self.name)
        self._controlled.thread = self

    def run(self) -> None:
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

    def is_alive(self) -> bool:
        return self._controlled is not None and not self._controlled.is_done

    def join(self, timeout: float | None = None) -> None:
        if self.is_alive():
            wait_until(lambda: not self.is_alive(), timeout)


uncontrolled_thread = threading.current_thread


def current_thread() -> Any:
    """In the place of `threading.current_thread`."""
    run = Run.current
    mine = None if run is None else run.mine
    return uncontrolled_thread() if mine is None else mine.thread or mine


class Clock:
    """Seconds that pass when somebody waits, and nobody else can go on."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1_700_000_000.0 + self.now

    def time_ns(self) -> int:
        return int(self.time() * 1_000_000_000)

    def sleep(self, seconds: float) -> None:
        run = Run.current
        if run is None or run.mine is None:
            self.now += seconds
        else:
            run.wait(never, seconds)


def never() -> bool:
    return False


clock = Clock()


def install() -> None:
    """From here on, whoever is imported gets these."""
    substitutes: dict[str, Any] = {
        "Lock": Lock,
        "RLock": RLock,
        "_allocate_lock": Lock,
        "Thread": Thread,
        "current_thread": current_thread,
        "_time": clock.monotonic,
    }
    for name, substitute in substitutes.items():
        setattr(threading, name, substitute)
    for name in ("monotonic", "time", "time_ns", "sleep"):
        setattr(time, name, getattr(clock, name))
