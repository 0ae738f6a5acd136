"""Observation: the result of a function that reads the database, kept current.

    names = db.observe(lambda db: [todo["name"] for todo in db.table("todos").filter({"done": False})])
    names.value                                 the result, now
    names.subscribe(lambda value: show(value))  called with each new result

The function gets a read-only database, of one snapshot. What it reads is noted: keys, also absent ones, ranges of an
index, whole tables. The function runs again
after each commit, of any process, that concerns these reads.

Rule of this file: every read of the function is noted, or raises. `feeds.rerun` decides when the function runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import get_ident
from typing import TYPE_CHECKING, Any

from reactdb.async_functions import is_async
from reactdb.change import TableReference
from reactdb.documents.access_path import find_table
from reactdb.documents.hints import HintLog
from reactdb.errors import InvalidOption, UsageError, format_value
from reactdb.feeds.live import Ending, Listener, Live
from reactdb.feeds.rerun import NewestAnswer, Running
from reactdb.logs import logger
from reactdb.session import Session, computing
from reactdb.store.catalogue import TableInfo
from reactdb.store.snapshot import Snapshot
from reactdb.table import Selection
from reactdb.values import codec

if TYPE_CHECKING:
    from reactivex.abc import SchedulerBase

    from reactdb.feeds.feed import Feed
    from reactdb.feeds.reader import FeedReader

ASYNCHRONOUS = (
    "the function of observe() must not be async: what it reads after an `await` would be of another state; read in it, and "
    "await in the subscriber"
)


class Observation(Live):
    """See the head of this file, and `Database.observe`. A context manager.

    With subscribers it lives as long as the database, like a subscription of a feed. Without subscribers, it is closed
    when the program no longer refers to it.

    Thread safety: any method from any thread. One thread at a time runs the function and calls subscribers.
    """

    _name = "an Observation"
    _kind = "observation"

    def __init__(
        self,
        session: Session,
        function: Callable[[Any], Any],
        open_database: Callable[[Session], Any],
        *,
        distinct: bool,
        scheduler: SchedulerBase | None,
    ) -> None:
        """`open_database` makes the database that the function gets."""
        if not callable(function):
            raise InvalidOption(f"observe takes a function of a database, not {format_value(function)}")
        if is_async(function):
            raise UsageError(ASYNCHRONOUS)
        if not isinstance(distinct, bool):
            raise InvalidOption(f"distinct is True or False, not {format_value(distinct)}")
        super().__init__(scheduler=scheduler, skip_origin=None, wait=True)
        self._distinct = distinct
        self._value: Any = None
        # By which two results are compared: the encoded value, which nobody changes, or the value itself.
        self._mark: Any = None
        self._has_value = False
        self._is_beginning = True
        self._follow(session.rerun(Computation(session, function, open_database), function))
        error = self._error
        if type(error) is UsageError:
            # A mistake in the function, which no commit will mend, unlike a missing table.
            self.close()
            raise error
        self._is_beginning = False

    @property
    def value(self) -> Any:
        """The result as of the last run without an error; None before the first."""
        return self._value

    def _take_answer(self, answer: NewestAnswer) -> None:
        mark = _mark_of(answer.value)
        is_new = not (self._has_value and self._distinct and _is_same(mark, self._mark))
        self._error = None
        self._value, self._mark, self._has_value = answer.value, mark, True
        if is_new:
            for one in self._present_listeners():
                if one.callback is not None:
                    self._call(one.callback, answer.value)

    def _take_trouble(self, error: Exception) -> None:
        self._error = error
        is_raised = self._is_beginning and type(error) is UsageError
        if not is_raised and not any(one.on_error is not None for one in list(self._listeners.values())):
            logger.error("the function of an Observation failed: %s: %s", type(error).__name__, error)
        for one in self._present_listeners():
            if one.on_error is not None:
                self._call(one.on_error, error)
        self._set_state("live")

    def subscribe(
        self,
        callback: Callable[[Any], object] | None = None,
        on_error: Callable[[Exception], object] | None = None,
        on_completed: Callable[[], object] | None = None,
        on_state: Callable[[str], object] | None = None,
    ) -> Ending:
        """Call back with each new result, after the commits that led to it. The present result is in `value`.

        Args:
            on_error: Called with each error of the function, which runs again after the next commit that concerns it, and
                with the error that has stopped the observation. Without an `on_error`, errors are logged.
            on_completed: Called once, when the observation or its database is closed; at once if it is closed already.
            on_state: Called with each new state; at once if the observation has stopped.

        Returns:
            An object that ends the subscription, by a call or by its `dispose()`. After this call has returned, no callback
            runs any more: the call waits for a callback that is running in another thread.
        """
        return self._add_listener(Listener(callback, None, on_error, on_completed, on_state))

    def stats(self) -> dict[str, Any]:
        """Figures: `runs`, how often the function ran; `seq`, the newest change that the value includes; `reads`, the reads of
        the last run, in words; and `hints`, about reads that cause more runs than necessary."""
        following = self._following
        running = None if following is None else following.subscription
        if not isinstance(running, Running):
            return {"runs": 0, "seq": None, "reads": [], "hints": []}
        read_set = running.read_set
        return {
            "runs": running.runs,
            "seq": running.seq,
            "reads": read_set.describe(),
            "hints": [
                f"the function reads the whole table {name!r}, so each commit to it runs the function again: an index or a get "
                "would narrow that"
                for name in read_set.whole_tables()
            ],
        }

    def close(self) -> None:
        """Do not run the function again. `value` stays. No callback runs after this has returned: it waits for a callback that
        is running in another thread. Inside a callback it returns at once."""
        super().close()
        self._wait_for_calls()

    def _settle(self) -> None:
        self._wait_for_calls()

    def __repr__(self) -> str:
        state = self.state
        return f"Observation({self._value!r}{'' if state == 'live' else f', {state}'})"


def _mark_of(value: Any) -> Any:
    try:
        return codec.encode_value(value)
    except Exception:
        return value


def _is_same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    try:
        return bool(one == other)
    except Exception:
        # Such as an array, whose comparison is one.
        return False


class Computation:
    """The function, called with a database of one snapshot."""

    def __init__(
        self, session: Session, function: Callable[[Any], Any], open_database: Callable[[Session], Any]
    ) -> None:
        self._session = session
        self._function = function
        self._open_database = open_database

    def __call__(self, snapshot: Snapshot) -> Any:
        with ObservedSession(self._session, snapshot).in_use() as session:
            result = self._function(self._open_database(session))
            if inspect.isawaitable(result):
                if inspect.iscoroutine(result):
                    result.close()
                raise UsageError(ASYNCHRONOUS)
            # What is lazy is read here, where it is known.
            if isinstance(result, Selection):
                return result.run()
            return list(result) if isinstance(result, Iterator) else result


class NoHints(HintLog):
    """Makes no hints: looking for them reads from the file, and this would count as a read of the function."""

    def look(self, *arguments: Any, **options: Any) -> None:
        """Log nothing."""


class ObservedSession(Session):
    """A read-only session on one snapshot, for one call of the function and for the thread of this call."""

    def __init__(self, present: Session, snapshot: Snapshot) -> None:
        super().__init__(present.engine, "hard")
        self.hints = NoHints()
        self._present = present
        self._snapshot: Snapshot | None = snapshot
        self._thread = get_ident()

    @contextmanager
    def in_use(self) -> Iterator[ObservedSession]:
        is_nested = self._thread in computing
        computing.add(self._thread)
        try:
            yield self
        finally:
            if not is_nested:
                computing.discard(self._thread)
            self._snapshot = None

    def close(self) -> None:
        """Nothing to close: the session of the observation has the file."""

    def __del__(self) -> None:
        """Nothing to close."""

    def check_open(self) -> None:
        self._present_snapshot()

    def _present_snapshot(self) -> Snapshot:
        if self._snapshot is None:
            raise UsageError(
                "the database of observe() is for the call of its function, which has returned: read everything in it"
            )
        if get_ident() != self._thread:
            raise UsageError("the database of observe() is for the thread that calls its function")
        return self._snapshot

    @contextmanager
    def read(self) -> Iterator[Snapshot]:
        yield self._present_snapshot()

    def read_rows(self) -> AbstractContextManager[Snapshot]:
        return self.read()

    @property
    def write_wait_s(self) -> float | None:
        return None

    def get(self, table: TableReference, key: bytes) -> bytes | None:
        snapshot = self._present_snapshot()
        return snapshot.get(find_table(table, snapshot), key)

    def token(self) -> str:
        snapshot = self._present_snapshot()
        return self._token(snapshot, snapshot.seq)

    def find_cached(self, table: TableReference) -> TableInfo | None:
        return self._present_snapshot().table(table)

    def transact(self, work: object, **options: object) -> Any:
        raise self._read_only_error()

    def block(self, *options: object, **others: object) -> Any:
        raise self._read_only_error()

    def compact(self, retention: object, **options: object) -> Any:
        raise self._read_only_error()

    @staticmethod
    def _read_only_error() -> UsageError:
        return UsageError("the function of observe() only reads: write in a subscriber, or outside")

    def watch(self, query: object, options: object, purpose: str = "") -> Feed:
        raise UsageError("the function of observe() is run again by itself: run() the selection in it")

    def rerun(self, compute: object, about: object = None) -> Any:
        return self.watch(None, None)

    def reader(self, query: object, options: object, *others: object, **more: object) -> FeedReader:
        raise UsageError("the function of observe() is run again by itself: run() the selection in it")
