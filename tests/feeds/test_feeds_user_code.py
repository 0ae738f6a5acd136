"""Whatever code of a subscriber's raises, of any type, ends that subscriber's feed at most: the writer does not get it, and all
other subscribers have their event before `insert` returns. Only what ends a program goes on to the writer.

`USER_CODE` is the register of the places where reactdb calls code of a subscriber's while somebody else commits.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

import reactdb
from reactdb import row
from reactdb.budget import Stopped
from reactdb.errors import INTERRUPTS, FeedAborted
from reactdb.feeds.livelist import LiveList
from reactdb.testing import Recorder
from tests.support.threads import PATIENCE_S

reactivex = pytest.importorskip("reactivex")
from reactivex import operators  # noqa: E402
from reactivex.scheduler import ImmediateScheduler, VirtualTimeScheduler  # noqa: E402

from reactdb.session import session_of  # noqa: E402

Fail = Callable[..., Any]


class Odd(BaseException):
    """An exception of a program's own that is no Exception, as those of test frameworks and of green threads are."""


ERRORS = [
    ValueError,
    StopIteration,
    StopAsyncIteration,
    RecursionError,
    MemoryError,
    GeneratorExit,
    asyncio.CancelledError,
    Stopped,
    Odd,
]
# An ordinary one, one that ends a loop, and one that is no Exception; with each of the others by `pytest -m slow`.
FEW_ERRORS = [
    error if error in (ValueError, StopIteration, Odd) else pytest.param(error, marks=pytest.mark.slow)
    for error in ERRORS
]


class Scheduler(VirtualTimeScheduler):
    """A scheduler that fails in one of its methods; the others do what they do at once."""

    def __init__(self, failing: str, fail: Fail) -> None:
        super().__init__()
        self.failing = failing
        self.fail = fail

    def _do(self, name: str) -> None:
        if name == self.failing:
            self.fail()

    @property
    def now(self) -> Any:
        self._do("now")
        return super().now

    def schedule(self, action: Any, state: Any = None) -> Any:
        self._do("schedule")
        return ImmediateScheduler().schedule(action, state)

    def schedule_relative(self, duetime: Any, action: Any, state: Any = None) -> Any:
        self._do("schedule_relative")
        return reactivex.disposable.Disposable(lambda: self._do("dispose"))


class Observer:
    def __init__(self, **methods: Fail) -> None:
        for name in ("on_next", "on_error", "on_completed"):
            setattr(self, name, methods.get(name, lambda *_: None))


class Loop(asyncio.SelectorEventLoop):
    """An event loop that cannot be called from another thread."""

    fail: Fail

    def call_soon_threadsafe(self, *arguments: Any, **options: Any) -> Any:
        self.fail()
        return super().call_soon_threadsafe(*arguments, **options)


class Setting:
    """The database of a test, and what it has to close."""

    def __init__(self) -> None:
        self.db = reactdb.connect(":memory:")
        self.games = self.db.table_create("games")
        self.closing: list[Callable[[], object]] = []

    def close(self) -> None:
        for close in reversed(self.closing):
            close()
        self.db.close()


def waits_in_a_loop(setting: Setting, fail: Fail) -> None:
    loop = Loop()
    cursor = aiter(setting.games.changes())
    waiting = loop.create_task(anext(cursor))
    loop.run_until_complete(asyncio.sleep(0))
    loop.fail = fail

    def close() -> None:
        waiting.cancel()
        loop.run_until_complete(asyncio.gather(waiting, return_exceptions=True))
        cursor.close()
        loop.close()

    setting.closing.append(close)


def follows_a_list(setting: Setting, fail: Fail, **options: Any) -> None:
    games = LiveList(setting.games.order_by("id"))
    setting.closing.append(games.close)
    if options.pop("is_observed", False):
        games.changes.subscribe(fail)
    elif options:
        games.subscribe(lambda edits: None, before=fail)
    else:
        games.subscribe(fail)


def is_kept(setting: Setting, fail: Fail) -> None:
    setting.closing.append(setting.db.materialize(setting.games.map(fail), into="kept").close)


def observes_mongodb(setting: Setting, fail: Fail, scheduler: Any = None) -> None:
    subscription = reactdb.mongodb(setting.db)["test"]["games"].changes().subscribe(fail, scheduler=scheduler)
    setting.closing.append(subscription.dispose)


def fails_again(setting: Setting, fail: Fail) -> None:
    """In `on_error`, after `on_next` has failed."""

    def on_next(event: Any) -> None:
        raise ValueError

    setting.games.changes().subscribe(on_next, fail)


def read(setting: Setting, fail: Fail) -> None:
    reader = setting.games.changes().reader()
    reader.on_ready = fail
    setting.closing.append(reader.close)


def subscribe(feed: Callable[[Any, Fail], Any]) -> Callable[[Setting, Fail], None]:
    return lambda setting, fail: feed(setting.games, fail).subscribe(lambda event: None, lambda error: None)


def subscribe_on(failing: str, **options: Any) -> Callable[[Setting, Fail], None]:
    def begin(setting: Setting, fail: Fail) -> None:
        setting.games.changes(**options).subscribe(
            lambda event: None, lambda error: None, scheduler=Scheduler(failing, fail)
        )

    return begin


def call(**options: Any) -> Callable[[Setting, Fail], None]:
    return lambda setting, fail: setting.games.changes(**options).subscribe(fail, lambda error: None)


USER_CODE: dict[str, Callable[[Setting, Fail], Any]] = {
    "on_next": call(),
    "on_next without on_error": lambda setting, fail: setting.games.changes().subscribe(fail),
    "on_next of an observer": lambda setting, fail: setting.games.changes().subscribe(Observer(on_next=fail)),
    "on_next of a pipe": lambda setting, fail: setting.games.changes().pipe().subscribe(fail),
    "a function in a pipe": lambda setting, fail: (
        setting.games.changes().pipe(operators.map(fail)).subscribe(on_error=lambda error: None)
    ),
    "on_next with offsets": lambda setting, fail: (
        setting.games.order_by("id")
        .limit(5)
        .changes(include_offsets=True)
        .subscribe(fail, lambda error: None)
    ),
    "on_next of whole commits": call(batches=True),
    "on_next of a feed that resumes": call(since=0),
    "on_next of a feed that spills": call(on_overflow="spill", changefeed_queue_size=1),
    "on_next of net differences": call(squash=True),
    "on_next of a union": lambda setting, fail: (
        setting.games.changes().union(setting.games.changes()).subscribe(fail, lambda error: None)
    ),
    "on_next on a scheduler": lambda setting, fail: setting.games.changes().subscribe(
        fail, scheduler=ImmediateScheduler()
    ),
    "on_error": fails_again,
    "on_completed": lambda setting, fail: (
        setting.games.changes().limit(1).subscribe(lambda event: None, on_completed=fail)
    ),
    "schedule": subscribe_on("schedule"),
    "schedule_relative": subscribe_on("schedule_relative", squash=5.0),
    "now": subscribe_on("now", squash=5.0),
    "on_ready": read,
    "filter": subscribe(lambda games, fail: games.filter(fail).changes()),
    "map": subscribe(lambda games, fail: games.map(fail).changes()),
    "filter of a count": subscribe(lambda games, fail: games.filter(fail).count().changes()),
    "filter of groups": subscribe(lambda games, fail: games.filter(fail).group("id").count().changes()),
    "map of distinct values": subscribe(lambda games, fail: games.map(fail).distinct().changes()),
    "filter of a limit": subscribe(lambda games, fail: games.filter(fail).order_by("id").limit(2).changes()),
    "filter of a union": subscribe(lambda games, fail: games.union(games.filter(fail)).changes()),
    "filter of a feed that resumes": subscribe(lambda games, fail: games.filter(fail).changes(since=0)),
    "filter that is to raise": subscribe(
        lambda games, fail: games.filter(fail).changes(on_predicate_error="raise")
    ),
    "filter after changes": subscribe(lambda games, fail: games.changes().filter(fail)),
    "map after changes": subscribe(lambda games, fail: games.changes().map(fail)),
    "concat_map after changes": subscribe(lambda games, fail: games.changes().concat_map(fail)),
    "filter of a cursor": lambda setting, fail: setting.closing.append(
        setting.games.filter(fail).changes().cursor().close
    ),
    "filter of a materialized table": is_kept,
    "subscriber of a LiveList": follows_a_list,
    "hook of a LiveList": lambda setting, fail: follows_a_list(setting, fail, before=True),
    "observer of a LiveList": lambda setting, fail: follows_a_list(setting, fail, is_observed=True),
    "waker of an event loop": waits_in_a_loop,
    "observer of MongoDB's changes": observes_mongodb,
    "observer of MongoDB's changes on a scheduler": lambda setting, fail: observes_mongodb(
        setting, fail, ImmediateScheduler()
    ),
    "scheduler of MongoDB's changes": lambda setting, fail: observes_mongodb(
        setting, lambda event: None, Scheduler("schedule", fail)
    ),
}
MONGODB = [name for name in USER_CODE if "MongoDB" in name]
# It is called while the commit is taken in, where an interrupt ends all feeds of the view.
ASYNCHRONOUS = ["waker of an event loop"]


@pytest.fixture
def setting(caplog: pytest.LogCaptureFixture) -> Iterator[Setting]:
    with caplog.at_level(logging.CRITICAL, "reactdb"):
        setting = Setting()
        yield setting
        setting.close()


class Others:
    """Subscribers of each way in which events are delivered, some from before the one that fails, and some from after it."""

    def __init__(self, table: Any) -> None:
        ordered = table.order_by("id").limit(9)
        self.called = [
            Recorder(table.changes()),
            Recorder(table.filter(lambda document: True).changes()),
            Recorder(ordered.changes(include_offsets=True)),
            Recorder(table.changes(), scheduler=ImmediateScheduler()),
            Recorder(table.changes().map(row["new_val"])),
        ]
        self.cursor = table.changes().cursor()
        self.reader = table.changes().reader()

    def ids(self) -> list[list[Any]]:
        """What each of them has got until now."""
        events = [list(one.events) for one in self.called]
        self.cursors_events = [*getattr(self, "cursors_events", []), *drained(self.cursor)]
        self.readers_events = [*getattr(self, "readers_events", []), *self.reader.poll()]
        found = [*events, self.cursors_events, self.readers_events]
        return [[event.get("new_val", event)["id"] for event in one] for one in found]

    def close(self) -> None:
        self.cursor.close()
        self.reader.close()


def drained(cursor: Any) -> list[Any]:
    found = []
    while True:
        try:
            found.append(cursor.next(timeout=0))
        except TimeoutError:
            return found


def insert(setting: Setting, name: str, number: int) -> None:
    if name in MONGODB:
        reactdb.mongodb(setting.db)["test"]["games"].insert_one({"_id": number, "id": number})
    else:
        setting.games.insert({"id": number})


def table_of(setting: Setting, name: str) -> Any:
    if name in MONGODB:
        collection = reactdb.mongodb(setting.db)["test"]["games"]
        collection.insert_one({"_id": 0, "id": 0})
        (table,) = (one for one in setting.db.table_list() if one != "games")
        return setting.db.table(table)
    return setting.games


@pytest.mark.parametrize("error", FEW_ERRORS, ids=lambda error: error.__name__)
@pytest.mark.parametrize("name", USER_CODE)
def test_what_a_subscriber_raises_stays_with_it(
    setting: Setting, name: str, error: type[BaseException]
) -> None:
    """The writer does not get it, and the others have both events before the inserts return."""
    raised = []

    def fail(*_: Any) -> Any:
        if is_armed:
            raised.append(error)
            raise error
        return None

    is_armed: list[bool] = []
    table = table_of(setting, name)
    before = Others(table)
    USER_CODE[name](setting, fail)
    after = Others(table)
    setting.closing += [before.close, after.close]

    is_armed.append(True)
    found = []
    for number in (1, 2):
        insert(setting, name, number)
        found += [before.ids(), after.ids()]
    is_armed.clear()

    assert raised or name in ("filter of a cursor",)
    assert [[[1]] * 7] * 2 + [[[1, 2]] * 7] * 2 == found


@pytest.mark.parametrize("error", INTERRUPTS, ids=lambda error: error.__name__)
@pytest.mark.parametrize("name", [name for name in USER_CODE if name not in ASYNCHRONOUS])
def test_what_ends_a_program_goes_on_to_the_writer_and_loses_nobody_an_event(
    setting: Setting, name: str, error: type[BaseException]
) -> None:
    """The commit is made. The others have got its event with the next commit at the latest."""

    def fail(*_: Any) -> Any:
        if is_armed:
            is_armed.clear()
            raise error
        return None

    is_armed: list[bool] = []
    table = table_of(setting, name)
    before = Others(table)
    USER_CODE[name](setting, fail)
    after = Others(table)
    setting.closing += [before.close, after.close]

    is_armed.append(True)
    with pytest.raises(error):
        insert(setting, name, 1)
    insert(setting, name, 2)

    assert [[1, 2]] * 14 == before.ids() + after.ids()


@pytest.mark.parametrize("error", [GeneratorExit, asyncio.CancelledError, Odd])
@pytest.mark.parametrize("name", ["on_next", "filter", "filter after changes"])
def test_a_feed_that_ends_with_what_is_no_exception_says_so_as_an_error(
    setting: Setting, name: str, error: type[BaseException]
) -> None:
    """A cursor or a coroutine that raised a CancelledError would look as if it had been cancelled."""

    def fail(*_: Any) -> Any:
        raise error("mine")

    errors: list[Exception] = []
    feed = setting.games.changes()
    if name == "filter":
        feed = setting.games.filter(fail).changes()
    elif name == "filter after changes":
        feed = feed.filter(fail)
    feed.subscribe(fail, errors.append)
    setting.games.insert({"id": 1})

    assert [FeedAborted] == list(map(type, errors))
    assert error.__name__ in str(errors[0])
    assert isinstance(errors[0].__cause__, error)


@pytest.mark.parametrize("error", [*INTERRUPTS, GeneratorExit, Odd], ids=lambda error: error.__name__)
def test_threads_of_reactdb_survive_what_a_subscriber_raises_in_them(
    setting: Setting, error: type[BaseException]
) -> None:
    """A squashed feed is told by a thread that belongs to all feeds of the process."""
    told, struck = threading.Event(), threading.Event()

    def fail(event: Any) -> None:
        struck.set()
        raise error

    setting.games.changes(squash=0.05).subscribe(fail, lambda error: None)
    # On a machine that is busy the interval may be over when the insert is done: then the insert's own thread delivers.
    with suppress(error):
        setting.games.insert({"id": 1})
    assert struck.wait(PATIENCE_S)
    setting.games.changes(squash=0.001).subscribe(lambda event: told.set())
    setting.games.insert({"id": 2})

    assert told.wait(PATIENCE_S)


WRITES: dict[str, Callable[[Any, Fail], Any]] = {
    "update": lambda games, fail: games.update(fail),
    "update of one": lambda games, fail: games.get(2).update(fail),
    "replace": lambda games, fail: games.replace(fail),
    "conflict of insert": lambda games, fail: games.insert([{"id": 3}, {"id": 2}], conflict=fail),
    "filter of delete": lambda games, fail: games.filter(fail).delete(),
    "source of insert": lambda games, fail: games.insert({"id": n} if n < 4 else fail() for n in (3, 4)),
}


@pytest.mark.parametrize("error", [*ERRORS, *INTERRUPTS], ids=lambda error: error.__name__)
@pytest.mark.parametrize("name", WRITES)
def test_what_a_function_of_a_write_raises_takes_the_write_back(
    setting: Setting, name: str, error: type[BaseException]
) -> None:
    """It is the writer's own, so the writer gets it; nothing is stored, and nobody hears of anything."""
    games = setting.games
    games.insert([{"id": 1}, {"id": 2}])
    others = Others(games)
    setting.closing.append(others.close)

    def fail(*arguments: Any) -> Any:
        if arguments and arguments[0] in (1, {"id": 1}):
            return {"id": 1, "is_written": True}
        raise error

    # Python itself makes RuntimeError of these where they leave a generator.
    with pytest.raises((error, RuntimeError) if issubclass(error, StopIteration) else error):
        WRITES[name](games, fail)
    games.insert({"id": 9})

    assert [{"id": 1}, {"id": 2}, {"id": 9}] == games.run()
    assert [[9]] * 7 == others.ids()


@pytest.mark.parametrize("error", [*ERRORS, *INTERRUPTS], ids=lambda error: error.__name__)
def test_what_the_source_of_a_blob_raises_leaves_nothing_behind(
    setting: Setting, error: type[BaseException]
) -> None:
    def parts() -> Iterator[bytes]:
        yield bytes(2 << 20)
        raise error

    with pytest.raises((error, RuntimeError) if issubclass(error, (StopIteration,)) else error):
        setting.db.blobs.put(parts())

    with session_of(setting.db).read() as snapshot:
        rows = snapshot.connection.execute("SELECT id FROM blobs UNION ALL SELECT id FROM pieces").fetchall()
    assert [] == rows
