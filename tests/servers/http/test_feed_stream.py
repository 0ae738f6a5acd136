"""What a feed of `_changes` says over time: with a feed that is told what it has, and a loop whose time passes at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from reactdb.errors import TableNotFound
from reactdb.servers.couchdb.feed_stream import FeedStream, Waiting
from tests.servers.http.asgi import in_no_time


class ScriptedRows:
    """A feed whose rows are those that it was given."""

    def __init__(self, *ids: str) -> None:
        self.waiting = [row(id) for id in ids]
        self.last_seq = self.passed_seq = "0-x"
        self.pending = 0
        self.is_finished = False
        self.is_closed = False
        self.read: list[int] = []
        self._call: Callable[[], object] = lambda: None

    def rows(self, most: int) -> list[dict[str, Any]]:
        self.read.append(most)
        found, self.waiting = self.waiting[:most], self.waiting[most:]
        if found:
            self.last_seq = found[-1]["seq"]
        self.passed_seq = self.last_seq
        return found

    def on_ready(self, callback: Callable[[], object]) -> None:
        self._call = callback
        if self.waiting:
            callback()

    def add(self, *ids: str) -> None:
        self.waiting += [row(id) for id in ids]
        self._call()

    def close(self) -> None:
        self.is_closed = True


def row(id: str) -> dict[str, Any]:
    return {"seq": f"{id}-x", "id": id, "changes": [{"rev": "1-a"}]}


async def at_once(function: Any, *arguments: Any) -> Any:
    return function(*arguments)


def told(rows: ScriptedRows, waiting: Waiting, *later: tuple[float, Any], most: float = 1e9) -> list[Any]:
    """(the second, the bytes) of everything that is sent; `later`: what is done at which second."""

    async def run() -> list[tuple[float, bytes]]:
        loop = asyncio.get_running_loop()
        for when, what in later:
            loop.call_later(when, what)
        stream = FeedStream(rows, waiting, at_once)
        loop.call_later(most, stream.end)
        return [(round(loop.time(), 1), chunk) async for chunk in stream.chunks()]

    found = in_no_time(run())
    assert rows.is_closed
    return found


def body(found: list[Any]) -> bytes:
    return b"".join(chunk for _, chunk in found)


ROW_A = b'{"seq":"a-x","id":"a","changes":[{"rev":"1-a"}]}'
ROW_B = b'{"seq":"b-x","id":"b","changes":[{"rev":"1-a"}]}'


def test_a_normal_feed_is_one_object_and_never_waits() -> None:
    found = told(ScriptedRows("a", "b"), Waiting("normal"))

    assert b'{"results":[\n' + ROW_A + b",\r\n" + ROW_B + b'\n],\n"last_seq":"b-x","pending":0}\n\n' == body(
        found
    )
    assert 0 == found[-1][0]


def test_a_long_poll_answers_at_once_with_what_there_is() -> None:
    found = told(ScriptedRows("a"), Waiting("longpoll"))

    assert b'{"results":[\n' + ROW_A + b'\n],\n"last_seq":"a-x","pending":0}\n\n' == body(found)
    assert 0 == found[-1][0]


def test_heartbeats_can_tell_the_position() -> None:
    rows = ScriptedRows("a")

    def passes_over_one() -> None:
        rows.passed_seq = rows.last_seq = "b-x"

    waiting = Waiting("continuous", heartbeat_s=10, tells_seqs=True)
    found = told(rows, waiting, (15, passes_over_one), (33, lambda: rows.add("c")), most=45)

    position = b'{"seq":"b-x","id":null,"changes":[]}\n'
    end = b'{"last_seq":"c-x","pending":0}\n\n'
    expected = [
        (0, ROW_A + b"\n"),
        (10, b"\n"),
        (20, position),
        (30, b"\n"),
        (33, b"\n" + ROW_A.replace(b"a-x", b"c-x").replace(b':"a"', b':"c"') + b"\n"),
    ]
    assert [*expected, (43, b"\n"), (45, end)] == found


def test_a_position_moves_where_a_browser_goes_on() -> None:
    rows = ScriptedRows()
    found = told(rows, Waiting("eventsource", heartbeat_s=10, tells_seqs=True), most=15)

    event = b'data: {"seq":"0-x","id":null,"changes":[]}\nid: "0-x"\n\n'
    assert [(10, event), (15, b"\n")] == found[1:]


def test_a_long_poll_has_no_positions() -> None:
    found = told(ScriptedRows(), Waiting("longpoll", heartbeat_s=10, tells_seqs=True), most=15)

    assert [(10, b"\n"), (15, b'\n],\n"last_seq":"0-x","pending":0}\n\n')] == found[2:]


def test_a_long_poll_waits_for_the_next_change() -> None:
    rows = ScriptedRows()
    found = told(rows, Waiting("longpoll"), (5, lambda: rows.add("a", "b")))

    assert [
        (0, b'{"results":[\n'),
        (0, b"\n"),
        (5, b"\n" + ROW_A + b",\r\n" + ROW_B),
        (5, b'\n],\n"last_seq":"b-x","pending":0}\n\n'),
    ] == found


def test_a_long_poll_ends_when_its_time_is_over() -> None:
    found = told(ScriptedRows(), Waiting("longpoll", timeout_s=7))

    assert [
        (0, b'{"results":[\n'),
        (0, b"\n"),
        (7, b'\n],\n"last_seq":"0-x","pending":0}\n\n'),
    ] == found


def test_a_change_that_the_filter_rejects_begins_the_time_anew() -> None:
    rows = ScriptedRows()
    found = told(rows, Waiting("longpoll", timeout_s=7), (4, rows.add))

    assert [(4, b"\n"), (11, b'\n],\n"last_seq":"0-x","pending":0}\n\n')] == found[2:]


def test_a_feed_looks_once_more_before_it_ends() -> None:
    """What cannot pass its filter does not wake it, but its last seq is past that."""
    rows = ScriptedRows()
    found = told(rows, Waiting("longpoll", timeout_s=7), (4, lambda: rows.waiting.append(row("a"))))

    assert [(7, ROW_A), (7, b'\n],\n"last_seq":"a-x","pending":0}\n\n')] == found[2:]


def test_heartbeats_take_the_place_of_the_end() -> None:
    rows = ScriptedRows()
    found = told(rows, Waiting("longpoll", heartbeat_s=2, timeout_s=3), (5, lambda: rows.add("a")))

    assert [0, 0, 2, 4, 5, 5] == [when for when, _ in found]
    assert b'{"results":[\n\n\n\n\n' + ROW_A + b'\n],\n"last_seq":"a-x","pending":0}\n\n' == body(found)


def test_a_long_poll_that_may_tell_nothing_waits_nevertheless() -> None:
    rows = ScriptedRows("a")
    rows.is_finished = True

    assert 3 == told(rows, Waiting("longpoll", limit=0, timeout_s=3))[-1][0]


def test_a_continuous_feed_goes_on_until_its_time_is_over() -> None:
    rows = ScriptedRows("a")
    found = told(rows, Waiting("continuous", timeout_s=6), (4, lambda: rows.add("b")))

    assert [
        (0, ROW_A + b"\n"),
        (4, b"\n" + ROW_B + b"\n"),
        (10, b'{"last_seq":"b-x","pending":0}\n\n'),
    ] == found


def test_a_continuous_feed_ends_with_its_limit() -> None:
    rows = ScriptedRows("a")
    found = told(rows, Waiting("continuous", limit=2), (4, lambda: rows.add("b", "c")))

    assert 4 == found[-1][0]
    assert ROW_A + b"\n\n" + ROW_B + b'\n{"last_seq":"b-x","pending":0}\n\n' == body(found)


def test_a_descending_feed_never_waits() -> None:
    assert 0 == told(ScriptedRows("a"), Waiting("continuous", descending=True))[-1][0]


def test_an_event_source_has_the_data_before_the_id_and_no_last_line() -> None:
    rows = ScriptedRows("a")
    found = told(rows, Waiting("eventsource", heartbeat_s=3), (4, lambda: rows.add("b")), most=5)

    assert [
        (0, b"data: " + ROW_A + b'\nid: "a-x"\n\n'),
        (3, b"event: heartbeat\ndata: \n\n"),
        (4, b"data: " + ROW_B + b'\nid: "b-x"\n\n'),
        (5, b"\n"),
    ] == found


def test_an_event_source_that_has_nothing_to_tell_says_that_it_is_there() -> None:
    assert [(0, b"\n"), (6, b"\n")] == told(ScriptedRows(), Waiting("eventsource", timeout_s=6))


def test_a_feed_ends_when_the_server_stops() -> None:
    found = told(ScriptedRows(), Waiting("continuous", heartbeat_s=60), most=5)

    assert [(0, b"\n"), (5, b'{"last_seq":"0-x","pending":0}\n\n')] == found


def test_a_feed_of_a_database_that_was_deleted_ends() -> None:
    rows = ScriptedRows()

    def delete() -> None:
        rows.is_finished = True
        rows.add()

    assert 4 == told(rows, Waiting("continuous", heartbeat_s=60), (4, delete))[-1][0]


@pytest.mark.parametrize("feed", ["normal", "longpoll", "continuous"])
def test_what_goes_wrong_later_ends_a_feed_with_its_last_line(feed: str) -> None:
    class Failing(ScriptedRows):
        def rows(self, most: int) -> list[dict[str, Any]]:
            if self.read:
                raise TableNotFound("todo")
            return super().rows(most)

    assert b'"last_seq":"a-x","pending":0}\n\n' in body(told(Failing("a"), Waiting(feed)))[-40:]


def test_about_as_many_bytes_are_read_at_a_time_whatever_the_documents_are() -> None:
    rows = ScriptedRows(*map(str, range(100)))
    for row in rows.waiting[:10]:
        row["doc"] = {"text": "x" * 40_000}
    told(rows, Waiting("normal", has_documents=True, limit=99))

    # One at a time while they are large, then many, and no more than were asked for.
    assert ([1] * 11, [88], 99) == (rows.read[:11], rows.read[11:12], 100 - len(rows.waiting))


def test_a_search_that_takes_long_gives_heartbeats() -> None:
    async def slowly(function: Any, *arguments: Any) -> Any:
        await asyncio.sleep(5)
        return function(*arguments)

    async def run() -> list[bytes]:
        stream = FeedStream(ScriptedRows("a"), Waiting("longpoll", heartbeat_s=2), slowly)
        return [chunk async for chunk in stream.chunks()]

    assert [b'{"results":[\n', b"\n", b"\n", ROW_A] == in_no_time(run())[:4]
