"""The workloads about delivery to a listener that is not a plain function: in another thread, through Rx, or asleep.

Latency in another thread is the time by which its listener gets a change later than the listener in the writing thread. Both
get every write, so the write itself and the load of the machine affect both. Between two writes the writer sleeps, as a
program does that has woken another thread; `bare` is the same with only Python's own means between the threads: a
condition, or a callback in an event loop.

Rule of this file: as in `workloads`.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from statistics import median, quantiles
from typing import Any

from reactivex.observer import Observer
from reactivex.scheduler import EventLoopScheduler

from benchmarks.feed_workloads import SMALL, end, ignore, new_scores, players, room
from benchmarks.harness import Bench, Figures, Stopwatch, Workload, expect
from benchmarks.peers import NotOffered
from benchmarks.workloads import WORKLOADS, made, workload

PAUSE_S = 0.0003
"""Between two writes: the other thread has told, and sleeps again."""

DEADLINE_S = 60.0

Heard = list[float]
Elsewhere = Callable[[Any, Heard, int], Any]
"""A context in which each change of the table is noted, with the time, by another thread; given how many there will be."""


# ---------------------------------------------------------------------------------------------------------------
# W4: to another thread


@workload("W4-thread", "µs later than in the writing thread")
def to_a_cursor(bench: Bench) -> Figures:
    """Write a score 1,500 times, a commit each, with one listener, and one that waits at a cursor in another thread.

    Answers: how much later is it there? Expect what it takes to wake a thread: `bare`.
    """
    return {**later(bench, at_a_cursor), "bare": bare_thread(bench.count(1_500))}


@workload("W4-asyncio", "µs later than in the writing thread")
def to_a_coroutine(bench: Bench) -> Figures:
    """The same with one that waits in `async for` in another thread.

    Answers: the same for a coroutine. Expect what it takes an event loop to be woken and to go round twice: `bare`.
    """
    return {**later(bench, in_a_coroutine), "bare": bare_loop(bench.count(1_500))}


@workload("W4-scheduler", "µs later than in the writing thread")
def to_a_scheduler(bench: Bench) -> Figures:
    """The same with one that is called by Rx's EventLoopScheduler, which has a thread of its own.

    Answers: the same for who brings a scheduler. Expect what the scheduler takes: `bare`.
    """
    return {**later(bench, at_a_scheduler), "bare": bare_scheduler(bench.count(1_500))}


def later(bench: Bench, elsewhere: Elsewhere) -> Figures:
    scores = new_scores(bench.count(1_500), SMALL)
    here: Heard = []
    there: Heard = []
    with players(bench) as store:
        store.hear_table(lambda event: here.append(time.perf_counter()))
        with elsewhere(store.players, there, len(scores)):
            # It waits before the first write comes.
            time.sleep(0.05)
            for number, one in enumerate(scores):
                store.score_each((one,))
                wait_for(there, number + 1)
        store.hush()
    expect(len(scores), len(here))
    expect(len(scores), len(there))
    return spread([after - before for before, after in zip(here, there, strict=True)])


def wait_for(heard: Heard, count: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    time.sleep(PAUSE_S)
    while len(heard) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"only {len(heard)} of {count} changes were heard in the other thread")
        time.sleep(PAUSE_S)


def spread(waits_s: list[float]) -> Figures:
    cuts = quantiles((max(wait_s, 1e-9) * 1e6 for wait_s in waits_s), n=100)
    return {"p50": cuts[49], "p99": cuts[98]}


@contextmanager
def at_a_cursor(players: Any, heard: Heard, count: int) -> Iterator[None]:
    cursor = players.changes().cursor()
    thread = threading.Thread(target=note_each, args=(cursor, heard))
    thread.start()
    try:
        yield
    finally:
        cursor.close()
        thread.join()


def note_each(cursor: Any, heard: Heard) -> None:
    for _ in cursor:
        heard.append(time.perf_counter())


@contextmanager
def in_a_coroutine(players: Any, heard: Heard, count: int) -> Iterator[None]:
    async def listen() -> None:
        async for _ in players.changes():
            heard.append(time.perf_counter())
            if len(heard) == count:
                return

    thread = threading.Thread(target=lambda: asyncio.run(listen()))
    thread.start()
    yield
    thread.join()


@contextmanager
def at_a_scheduler(players: Any, heard: Heard, count: int) -> Iterator[None]:
    scheduler = EventLoopScheduler()
    handle = players.changes().subscribe(lambda event: heard.append(time.perf_counter()), scheduler=scheduler)
    try:
        yield
    finally:
        handle.dispose()
        scheduler.dispose()


def bare_thread(count: int) -> float:
    """p50 of a condition, µs from before the call that wakes until the other thread runs."""
    condition, heard = threading.Condition(), Heard()
    asked = 0

    def listen() -> None:
        while len(heard) < count:
            with condition:
                condition.wait_for(lambda: asked > len(heard))
            heard.append(time.perf_counter())

    def call() -> None:
        nonlocal asked
        with condition:
            asked += 1
            condition.notify_all()

    thread = threading.Thread(target=listen)
    thread.start()
    began = called_again(call, heard, count)
    thread.join()
    return spread([end - begin for begin, end in zip(began, heard, strict=True)])["p50"]


def bare_loop(count: int) -> float:
    """The same of a callback that wakes a coroutine."""
    heard = Heard()
    loops: list[asyncio.AbstractEventLoop] = []
    waiting: list[asyncio.Future[None]] = []
    is_waiting = threading.Event()

    async def listen() -> None:
        loop = asyncio.get_running_loop()
        loops.append(loop)
        while len(heard) < count:
            waiting[:] = [loop.create_future()]
            is_waiting.set()
            await waiting[0]
            heard.append(time.perf_counter())

    thread = threading.Thread(target=lambda: asyncio.run(listen()))
    thread.start()
    is_waiting.wait()
    began = called_again(
        lambda: loops[0].call_soon_threadsafe(lambda: waiting[0].set_result(None)), heard, count
    )
    thread.join()
    return spread([end - begin for begin, end in zip(began, heard, strict=True)])["p50"]


def bare_scheduler(count: int) -> float:
    """The same of an action that is scheduled."""
    scheduler, heard = EventLoopScheduler(), Heard()
    began = called_again(
        lambda: scheduler.schedule(lambda *_: heard.append(time.perf_counter())), heard, count
    )
    scheduler.dispose()
    return spread([end - begin for begin, end in zip(began, heard, strict=True)])["p50"]


def called_again(call: Callable[[], Any], heard: Heard, count: int) -> Heard:
    began = Heard()
    for number in range(count):
        began.append(time.perf_counter())
        call()
        wait_for(heard, number + 1)
    return began


# ---------------------------------------------------------------------------------------------------------------
# W5: functions, Rx observers, and readers that sleep


def fan_out_to(
    bench: Bench, listeners: int, listen: Callable[[Any], Any], writes: int
) -> tuple[Figures, float]:
    """What a write costs where there are so many, and how much more CPU than where there is one: two tables, in turns."""
    turns, each = 12, max(1, writes // 12)
    scores = iter(new_scores(2 * (turns + 1) * each, SMALL))
    watch = Stopwatch()
    costs: dict[str, list[float]] = {}
    with players(bench) as store:
        one = store.database.table_create("one")
        one.insert(made(SMALL))
        kept = [listen(one), *(listen(store.players) for _ in range(listeners))]
        gc.collect()
        for turn in range(turns + 1):
            for name, table in (("many", store.players), ("one", one)):
                block = Stopwatch()
                with block:
                    for key, score in islice(scores, each):
                        table.get(key).update({"score": score})
                # The first turn is for what is made once.
                if turn:
                    costs.setdefault(name, []).append(block.per(each)["cpu"])
                if turn and name == "many":
                    watch.cpu_s += block.cpu_s
                    watch.wall_s += block.wall_s
        for listening in kept:
            end(listening)
    more = median(costs["many"]) - median(costs["one"])
    return watch.per(turns * each), max(more, 1e-3)


def to_functions(bench: Bench, listeners: int) -> Figures:
    """Write a score, a commit each, with {listeners} functions subscribed to the table.

    Answers: what does one delivery more cost? Look at "added". Expect less than a tenth of a microsecond: a turn of a loop, a
    copy of a small dict, and the call.
    """
    figures, more = fan_out_to(
        bench, listeners, lambda players: players.changes().subscribe(ignore), bench.count(60, 12)
    )
    return {**figures, "added": more / (listeners - 1)}


def to_observers(bench: Bench, listeners: int) -> Figures:
    """The same with {listeners} of Rx's Observers.

    Answers: and what through Rx? Expect the same, and the three calls that an Observer passes an event through.
    """
    figures, more = fan_out_to(
        bench, listeners, lambda players: players.changes().subscribe(Observer(ignore)), bench.count(60, 12)
    )
    return {**figures, "added": more / (listeners - 1)}


def to_sleepers(bench: Bench, listeners: int) -> Figures:
    """The same with {listeners} cursors that nobody reads.

    Answers: what do readers cost that have not come yet? Look at "added": for all of them together, more than one does. Expect
    a microsecond: they share a queue.
    """
    figures, more = fan_out_to(
        bench, listeners, lambda players: players.changes().cursor(), bench.count(2_400, 12)
    )
    return {**figures, "added": more}


# ---------------------------------------------------------------------------------------------------------------
# W11: through Rx


@workload("W11-observer", "bytes per feed")
def room_of_observers(bench: Bench) -> Figures:
    """Memory of 2,000 idle subscriptions of Rx's Observers to one table.

    Answers: what does a listener weigh that comes through Rx? Expect a third more: the Observer itself.
    """
    return room(bench, lambda store, number: store.players.changes().subscribe(Observer(ignore)))


SIZED = (
    ("W5-functions", to_functions, (10_000,)),
    ("W5-observers", to_observers, (10_000,)),
    ("W5-sleepers", to_sleepers, (100, 10_000)),
)


def register() -> None:
    """Add those that come in several sizes. Once."""
    for name, run, sizes in SIZED:
        for size in sizes:
            if not any(one.name == f"{name}-{size}" for one in WORKLOADS):
                WORKLOADS.append(Workload(f"{name}-{size}", "µs per write", sized(run, size)))


def sized(run: Callable[[Bench, int], Figures], size: int) -> Callable[[Bench], Figures]:
    def of_size(bench: Bench) -> Figures:
        if bench.peer.name != "reactdb":
            raise NotOffered
        return run(bench, min(size, max(bench.count(size), 10)))

    of_size.__doc__ = (run.__doc__ or "").format(listeners=f"{size:,}")
    return of_size
