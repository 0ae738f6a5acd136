"""When a connection is woken: by the moment that its conversation names, and by what another client's request has done.

Time is the test's: `Loop` has a clock that stands still until it is moved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from reactdb.servers.connection import Connection, Conversation
from reactdb.servers.limits import Limits
from reactdb.servers.places import Places
from reactdb.servers.workers import Workers


class Timer:
    def __init__(self, when: float, call: Callable[[], None]) -> None:
        self._when = when
        self.call = call
        self.is_over = False

    def when(self) -> float:
        return self._when

    def cancel(self) -> None:
        self.is_over = True


class Loop:
    """As much of an event loop as a connection asks for."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, function: Callable[..., None], *arguments: Any) -> Timer:
        timer = Timer(self.now + seconds, lambda: function(*arguments))
        self.timers.append(timer)
        return timer

    def move(self, seconds: float) -> None:
        """Let time go by, and each timer ring in its turn."""
        end = self.now + seconds
        while due := [one for one in self.timers if not one.is_over and one.when() <= end]:
            first = min(due, key=Timer.when)
            self.now = first.when()
            first.is_over = True
            first.call()
        self.now = end


class Transport(asyncio.Transport):
    """What was written to it, in one list with what others have done."""

    def __init__(self, done: list[Any]) -> None:
        super().__init__()
        self._done = done

    def write(self, data: Any) -> None:
        self._done.append(data)

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


class Waits(Conversation):
    """Each byte is a request, which sets how long the conversation waits; 0 for not at all."""

    def __init__(self, done: list[Any]) -> None:
        self._done = done
        self._buffer = b""
        self.waits: float | None = None
        self.during: Callable[[], None] = lambda: None

    @property
    def buffered_bytes(self) -> int:
        return len(self._buffer)

    @property
    def wait_s(self) -> float | None:
        return self.waits

    def receive(self, data: bytes) -> None:
        self._buffer += data

    def next_request(self) -> Any:
        found, self._buffer = self._buffer[:1], self._buffer[1:]
        return found or None

    def is_quick(self, request: Any) -> bool:
        return True

    def answer(self, request: Any) -> bytes:
        self.waits = float(request[0]) or None
        self.during()
        return b"answer"

    def poll(self) -> bytes:
        self.waits = None
        return b"polled"


@pytest.fixture
def workers() -> Any:
    made = Workers(1)
    yield made
    made.close()


def connected(workers: Workers, done: list[Any]) -> tuple[Connection, Waits, Loop]:
    async def connect() -> tuple[Connection, Waits, Loop]:
        conversation, loop = Waits(done), Loop()
        connection = Connection(
            lambda wake, client: conversation, workers, Limits(), Places(1, 1), lambda one: None
        )
        connection._loop = loop  # type: ignore[assignment]
        connection.connection_made(Transport(done))
        return connection, conversation, loop

    return asyncio.run(connect())


class TestMoments:
    def test_a_wait_that_ends_before_its_time_sets_no_timer_for_the_next(self, workers: Workers) -> None:
        connection, _, loop = connected(workers, [])
        before = len(loop.timers)
        for _ in range(100):
            connection.data_received(bytes([60]))
            loop.now += 0.001
        assert 1 == len(loop.timers) - before

    def test_a_moment_that_was_put_off_comes_at_its_time(self, workers: Workers) -> None:
        done: list[Any] = []
        connection, _, loop = connected(workers, done)
        connection.data_received(bytes([10]))
        loop.move(6)
        connection.data_received(bytes([10]))
        loop.move(9.5)
        assert b"polled" not in done
        loop.move(0.5)
        assert b"polled" == done[-1]

    def test_an_earlier_moment_comes_earlier(self, workers: Workers) -> None:
        done: list[Any] = []
        connection, _, loop = connected(workers, done)
        connection.data_received(bytes([60]))
        connection.data_received(bytes([1]))
        loop.move(1)
        assert b"polled" == done[-1]
        loop.move(100)
        assert 1 == done.count(b"polled")

    def test_a_wait_that_is_over_is_not_heard_of(self, workers: Workers) -> None:
        done: list[Any] = []
        connection, _, loop = connected(workers, done)
        connection.data_received(bytes([10]))
        connection.data_received(bytes([0]))
        loop.move(100)
        assert b"polled" not in done


class TestWhatIsPutOff:
    def test_it_is_done_after_the_answer_and_before_those_are_told_whom_it_wakes(
        self, workers: Workers
    ) -> None:
        done: list[Any] = []
        writer, conversation, _ = connected(workers, done)
        waiter, _, _ = connected(workers, done)

        def look() -> None:
            done.append("look")
            waiter.wake()

        conversation.during = lambda: done.append(workers.put_off(look))
        writer.data_received(bytes([0]))

        assert [True, b"answer", "look", b"polled"] == done

    def test_one_that_fails_is_logged_and_the_others_are_done(self, workers: Workers, caplog: Any) -> None:
        done: list[Any] = []
        writer, conversation, _ = connected(workers, done)

        def fail() -> None:
            raise RuntimeError("no")

        def during() -> None:
            workers.put_off(fail)
            workers.put_off(lambda: done.append("look"))

        conversation.during = during
        writer.data_received(bytes([0, 0]))

        assert [b"answer", "look"] * 2 == done
        assert "has failed" in caplog.text

    def test_where_nothing_is_carried_out_on_the_loop_nothing_is_put_off(self, workers: Workers) -> None:
        def work() -> None:
            raise AssertionError("it was put off")

        assert not workers.put_off(work)
        workers.begin_on_loop()
        # Another thread has its own answer to send.
        assert not workers.submit(workers.put_off, work).result()
        workers.end_on_loop()
