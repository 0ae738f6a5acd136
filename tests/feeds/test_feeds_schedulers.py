"""Schedulers whose event loop has a thread of its own: writes of other threads reach a subscriber there, or `subscribe` refuses.

The toolkits are played by stand-ins that keep their rule about threads: what is called in the wrong one never happens. Qt is
tried for real too, where it is installed.
"""

from __future__ import annotations

import asyncio
import importlib.util
import queue
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from reactivex.scheduler import CatchScheduler, EventLoopScheduler
from reactivex.scheduler.eventloop import (
    AsyncIOScheduler,
    AsyncIOThreadSafeScheduler,
    EventletScheduler,
    GEventScheduler,
    IOLoopScheduler,
    TwistedScheduler,
)
from reactivex.scheduler.mainloop import (
    GtkScheduler,
    PyGameScheduler,
    QtScheduler,
    TkinterScheduler,
    WxScheduler,
)

import reactdb
from reactdb.errors import InvalidOption
from tests.support.processes import run_python
from tests.support.threads import PATIENCE_S


class EventLoop:
    """An event loop that belongs to the thread that made it. What is asked of it elsewhere is lost, as toolkits lose it."""

    def __init__(self) -> None:
        self._thread = threading.current_thread()
        self._calls: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()
        self.waits: list[float] = []
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    @property
    def is_here(self) -> bool:
        return threading.current_thread() is self._thread

    def post(self, function: Callable[..., Any], *arguments: Any) -> None:
        """The way in for other threads."""
        self._calls.put(lambda: function(*arguments))

    def later(self, wait_s: float, function: Callable[..., Any]) -> Any:
        """A timer. Time is the loop's own, and passes by waiting for timers."""
        timer = SimpleNamespace(is_on=True, called=False, cancel=lambda: setattr(timer, "is_on", False))

        def fire() -> None:
            self.time += timedelta(seconds=wait_s)
            if timer.is_on:
                function()

        if self.is_here:
            self.waits.append(wait_s)
            self._calls.put(fire)
        return timer

    def scheduler(self, kind: type, toolkit: Any) -> Any:
        """A scheduler of this kind with the loop's time."""
        timed = type(f"Timed{kind.__name__}", (kind,), {"now": property(lambda _: self.time)})
        return timed(toolkit)

    def run_until(self, is_done: Callable[[], bool]) -> None:
        while not is_done():
            self._calls.get(timeout=PATIENCE_S)()


def qt(loop: EventLoop) -> Any:
    """QtCore in PySide's words."""

    class Signal:
        def __init__(self, *_kinds: Any) -> None:
            self.slots: list[Callable[[Any], None]] = []

        def connect(self, slot: Callable[[Any], None], kind: str) -> None:
            assert kind == "queued"
            self.slots.append(slot)

        def emit(self, argument: Any) -> None:
            for slot in self.slots:
                loop.post(slot, argument)

    class Object:
        def moveToThread(self, thread: Any) -> None:
            assert thread is loop

    application = SimpleNamespace(thread=lambda: loop)
    return SimpleNamespace(
        Signal=Signal,
        Slot=lambda *_kinds: lambda method: method,
        QObject=Object,
        Qt=SimpleNamespace(ConnectionType=SimpleNamespace(QueuedConnection="queued")),
        QTimer=SimpleNamespace(singleShot=lambda wait_ms, function: loop.later(wait_ms / 1000, function)),
        QCoreApplication=SimpleNamespace(instance=lambda: application),
    )


class Hashable(SimpleNamespace):
    """A namespace that stands for a module."""

    __hash__ = object.__hash__


def qt_scheduler(loop: EventLoop) -> Any:
    return loop.scheduler(QtScheduler, Hashable(**vars(qt(loop))))


def wx_scheduler(loop: EventLoop) -> Any:
    class Timer:
        def Start(self, wait_ms: int, oneShot: bool) -> None:
            loop.later(wait_ms / 1000, self.Notify)  # type: ignore[attr-defined]

    wx = SimpleNamespace(Timer=Timer, CallAfter=loop.post, IsMainThread=lambda: loop.is_here)
    return loop.scheduler(WxScheduler, wx)


def twisted_scheduler(loop: EventLoop) -> Any:
    return loop.scheduler(TwistedScheduler, SimpleNamespace(callLater=loop.later, callFromThread=loop.post))


def tornado_scheduler(loop: EventLoop) -> Any:
    ioloop = SimpleNamespace(
        add_callback=loop.post, call_later=loop.later, remove_timeout=lambda timer: timer.cancel()
    )
    return loop.scheduler(IOLoopScheduler, ioloop)


MAKERS = {
    "Qt": qt_scheduler,
    "wx": wx_scheduler,
    "Twisted": twisted_scheduler,
    "Tornado": tornado_scheduler,
    "caught": lambda loop: CatchScheduler(qt_scheduler(loop), lambda error: False),
}


def in_a_thread(work: Callable[[], Any]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("squash", [False, 2.5])
def test_a_write_of_another_thread_is_told_in_the_event_loops_thread(games, make, squash):
    loop = EventLoop()
    heard: list[tuple[Any, bool]] = []
    subscription = games.changes(squash=squash).subscribe(
        lambda event: heard.append((event["new_val"]["id"], loop.is_here)), scheduler=make(loop)
    )

    in_a_thread(lambda: games.insert({"id": 1}))
    loop.run_until(lambda: len(heard) == 1)
    games.insert({"id": 2})
    loop.run_until(lambda: len(heard) == 2)
    in_a_thread(lambda: games.insert({"id": 3}))
    loop.run_until(lambda: len(heard) == 3)

    assert [(1, True), (2, True), (3, True)] == heard
    assert bool(squash) == any(wait_s == 2.5 for wait_s in loop.waits)
    subscription.dispose()


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_what_was_disposed_of_in_another_thread_is_not_told(games, make):
    loop = EventLoop()
    heard: list[Any] = []
    last: list[Any] = []
    scheduler = make(loop)
    subscription = games.changes(squash=2.5).subscribe(heard.append, scheduler=scheduler)
    games.changes().subscribe(last.append, scheduler=scheduler)
    games.insert({"id": 1})

    in_a_thread(subscription.dispose)
    loop.run_until(lambda: len(last) == 1)

    assert [] == heard


def test_a_live_list_follows_in_the_event_loops_thread(games):
    loop = EventLoop()
    board = reactdb.LiveList(games.order_by("id").limit(2), scheduler=qt_scheduler(loop))
    in_a_thread(lambda: games.insert([{"id": 1}, {"id": 2}]))

    loop.run_until(lambda: len(board) == 2)

    assert [{"id": 1}, {"id": 2}] == board
    board.close()


REFUSED = {
    "Tkinter": lambda: TkinterScheduler(SimpleNamespace()),
    "gevent": lambda: GEventScheduler(SimpleNamespace()),
    "eventlet": lambda: EventletScheduler(SimpleNamespace()),
    "caught": lambda: CatchScheduler(TkinterScheduler(SimpleNamespace()), lambda error: True),
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_a_scheduler_that_no_other_thread_can_reach_is_refused_at_once(games, make):
    with pytest.raises(InvalidOption, match=r"thread of its event loop only.*take a cursor instead"):
        games.changes().subscribe(print, scheduler=make())
    with pytest.raises(InvalidOption, match=r"take a cursor instead"):
        reactdb.LiveList(games.order_by("id").limit(2), scheduler=make())
    with (
        reactdb.connect(":memory:", scheduler=make()) as db,
        pytest.raises(InvalidOption, match=r"take a cursor instead"),
    ):
        db.table_create("games").changes().subscribe(print)


def test_qt_without_an_application_is_refused(games):
    module = qt(EventLoop())
    module.QCoreApplication = SimpleNamespace(instance=lambda: None)
    with pytest.raises(InvalidOption, match=r"make the QApplication first"):
        games.changes().subscribe(print, scheduler=QtScheduler(Hashable(**vars(module))))


def test_a_scheduler_that_any_thread_may_call_is_called_as_it_is(games):
    from reactdb.feeds.schedulers import make_thread_safe

    loop = asyncio.new_event_loop()
    safe = EventLoopScheduler()
    for scheduler in (
        safe,
        AsyncIOThreadSafeScheduler(loop),
        GtkScheduler(SimpleNamespace()),
        PyGameScheduler(SimpleNamespace()),
        CatchScheduler(safe, lambda error: True),
        None,
    ):
        assert make_thread_safe(scheduler) is scheduler
    safe.dispose()
    loop.close()


@pytest.mark.parametrize("kind", [AsyncIOScheduler, AsyncIOThreadSafeScheduler])
def test_a_loop_of_asyncio_that_sleeps_is_woken_by_another_threads_write(games, kind):
    """`call_soon` of another thread's lets it sleep: the first event would come with whatever wakes it next."""

    async def run() -> list[Any]:
        loop = asyncio.get_running_loop()
        told: asyncio.Queue[Any] = asyncio.Queue()
        subscription = games.changes().subscribe(
            lambda event: told.put_nowait((event["new_val"]["id"], threading.current_thread() is here)),
            scheduler=kind(loop),
        )
        here = threading.current_thread()
        # Real time, because a loop that nothing wakes would wait for good; one that is woken does not wait at all.
        writer = threading.Timer(0.05, lambda: games.insert({"id": 1}))
        writer.start()
        found = [await asyncio.wait_for(told.get(), PATIENCE_S)]
        took_s = loop.time() - began_s
        writer.join()
        subscription.dispose()
        return [*found, took_s < PATIENCE_S / 2]

    loop = asyncio.new_event_loop()
    began_s = loop.time()
    try:
        assert [(1, True), True] == loop.run_until_complete(run())
    finally:
        loop.close()


def test_a_loop_of_asyncio_that_is_closed_harms_nobody(games):
    loop = asyncio.new_event_loop()
    heard: list[Any] = []
    subscription = games.changes(squash=1).subscribe(heard.append, scheduler=AsyncIOScheduler(loop))
    other: list[Any] = []
    games.changes().subscribe(other.append)
    loop.close()

    games.insert({"id": 1})
    subscription.dispose()

    assert (0, 1) == (len(heard), len(other))


QT = """
import sys, threading, time
import reactdb
from PySide6 import QtCore
from reactivex.scheduler.mainloop import QtScheduler

application = QtCore.QCoreApplication([])
scheduler = QtScheduler(QtCore)
main = threading.current_thread()
db = reactdb.connect(sys.argv[1], scheduler=scheduler)
games = db.table_create("games")
heard, squashed = [], []

def hear(event):
    heard.append((event["new_val"]["id"], threading.current_thread() is main))
    if len(heard) == 3:
        application.quit()

def write(*ids):
    thread = threading.Thread(target=lambda: [games.insert({"id": one}) for one in ids])
    thread.start()
    thread.join()

games.changes().subscribe(hear)
games.changes(squash=0.05).subscribe(squashed.append)
write(1)
games.insert({"id": 2})
write(3)
QtCore.QTimer.singleShot(20000, application.quit)
application.exec()
end = time.monotonic() + 20
while len(squashed) < 3 and time.monotonic() < end:
    application.processEvents()
print(heard, [event["new_val"]["id"] for event in squashed])
db.close()
"""


@pytest.mark.skipif(importlib.util.find_spec("PySide6") is None, reason="PySide6 is not installed")
def test_qt_itself_tells_writes_of_other_threads_in_the_main_thread(tmp_path):
    assert "[(1, True), (2, True), (3, True)] [1, 2, 3]\n" == run_python(QT, tmp_path / "qt.db")


@pytest.mark.parametrize("scheduler", [3, "asyncio", object()])
def test_what_is_no_scheduler_is_refused_at_once(scheduler: Any) -> None:
    """And not when the first event is to be delivered, on another thread and only in the log of errors."""
    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")
        for follow in (
            lambda: games.changes().subscribe(print, scheduler=scheduler),
            lambda: games.live(scheduler=scheduler),
            lambda: games.live(scheduler=scheduler, wait=False),
            lambda: games.count().live(scheduler=scheduler),
            lambda: db.observe(lambda db: db["games"].count().run(), scheduler=scheduler),
            lambda: reactdb.connect(":memory:", scheduler=scheduler),
        ):
            with pytest.raises(InvalidOption, match="scheduler is one of reactivex's, or None, not "):
                follow()
        assert db.activity()["processes"][0]["feeds"] == []
