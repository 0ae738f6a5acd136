"""The stream over a real port: gathered, complete in its counts, and ended by the client, the database or the server."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest

import reactdb
from reactdb.servers.inspector import change_stream
from reactdb.servers.inspector.change_stream import MOST_CHANGES, ChangeStream
from reactdb.servers.inspector.server import InspectorServer
from reactdb.servers.server import in_thread
from tests.servers.inspector.service import OWN, PATIENCE_S
from tests.support.threads import wait_until

COUNT = 3_000


@pytest.fixture
def db() -> Iterator[Any]:
    with reactdb.connect(":memory:") as database:
        database.table_create("games")
        yield database


@contextmanager
def served(db: Any) -> Iterator[tuple[InspectorServer, httpx.Client]]:
    server = InspectorServer(db, token=None)
    with in_thread(server), httpx.Client(base_url=server.url, headers=OWN, timeout=PATIENCE_S) as client:
        yield server, client


def lines_of(answer: Any) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in answer.iter_lines() if line)


def test_each_line_has_the_changes_since_the_line_before(db: Any) -> None:
    games = db.table("games")
    games.insert({"id": 1, "a": 1})
    with served(db) as (_, client), client.stream("GET", "api/stream", params={"after": 0}) as answer:
        lines = lines_of(answer)
        first = next(lines)
        assert [change["kind"] for change in first["changes"]] == ["table_create", "insert"]
        assert (first["counts"], first["skipped"], first["tables"]) == ({"games": [1, 0, 0]}, 0, {"games": 1})
        with db.transaction(origin="ui"):
            games.get(1).update({"a": 2})
            games.insert({"id": 2})
            games.get(2).delete()
        second = next(lines)
        assert (second["since"], second["seq"]) == (first["seq"], db.seq)
        assert [change["kind"] for change in second["changes"]] == ["update", "insert", "delete"]
        assert second["changes"][0]["origin"] == "ui"
        assert second["changes"][0]["old"] == {"id": 1, "a": 1}
        assert second["counts"] == {"games": [1, 1, 1]}


def test_without_a_seq_it_begins_now(db: Any) -> None:
    db.table("games").insert({"id": 1})
    with served(db) as (_, client), client.stream("GET", "api/stream") as answer:
        line = next(lines_of(answer))
        assert (line["seq"], line["changes"], line["tables"]) == (db.seq, [], {"games": 1})


def test_a_stream_of_many_changes_counts_all_and_shows_the_newest(db: Any) -> None:
    games = db.table("games")

    def write() -> None:
        for number in range(COUNT):
            games.insert({"id": number})

    writer = threading.Thread(target=write)
    inserted = position = 0
    shown: list[int] = []
    with served(db) as (_, client), client.stream("GET", "api/stream") as answer:
        lines = lines_of(answer)
        position = next(lines)["seq"]
        writer.start()
        while inserted < COUNT:
            line = next(lines)
            assert line["since"] == position
            position = line["seq"]
            inserted += line["counts"]["games"][0]
            assert len(line["changes"]) <= MOST_CHANGES
            assert line["skipped"] == line["counts"]["games"][0] - len(line["changes"])
            shown += [change["seq"] for change in line["changes"]]
            assert line["tables"]["games"] == inserted
    writer.join()
    assert inserted == COUNT
    assert shown == sorted(set(shown))
    assert shown[-1] == db.seq


def test_a_position_before_the_log_is_said_to_be_lost(db: Any) -> None:
    for number in range(30):
        db.table("games").insert({"id": number})
    db.compact(keep=5)
    with served(db) as (_, client):
        for after in (3, 10_000):
            with client.stream("GET", "api/stream", params={"after": after}) as answer:
                line = next(lines_of(answer))
                assert (line["lost"], line["seq"]) == (True, db.seq)


def test_a_closed_database_ends_the_stream_with_a_sentence() -> None:
    database = reactdb.connect(":memory:")
    with served(database) as (_, client), client.stream("GET", "api/stream") as answer:
        lines = lines_of(answer)
        next(lines)
        database.close()
        assert "closed" in next(lines)["end"]
        assert list(lines) == []


def test_a_server_that_closes_ends_its_streams(db: Any) -> None:
    with ExitStack() as clients:
        server = InspectorServer(db, token=None)
        with in_thread(server):
            answers = []
            for _ in range(5):
                client = clients.enter_context(httpx.Client(headers=OWN, timeout=PATIENCE_S))
                answers.append(clients.enter_context(client.stream("GET", f"{server.url}api/stream")))
            streams = [lines_of(answer) for answer in answers]
            for stream in streams:
                next(stream)
            assert server.feed_count == 5
        for stream in streams:
            assert list(stream) == []


def test_a_client_that_goes_takes_its_stream_along(db: Any) -> None:
    with served(db) as (server, client):
        with client.stream("GET", "api/stream") as answer:
            # Without a name for the lines, httpx would close the answer after the first.
            lines = lines_of(answer)
            next(lines)
            assert server.feed_count == 1
        wait_until(lambda: server.feed_count == 0)


def test_a_silent_stream_has_heartbeats_and_no_thread(db: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_stream, "HEARTBEAT_S", 0.0)
    monkeypatch.setattr(change_stream, "GATHER_S", 0.0)

    async def run() -> list[bytes]:
        async def call(function: Any, *arguments: Any) -> Any:
            return function(*arguments)

        stream = ChangeStream(db, db.seq, call)
        pieces = []
        async for piece in stream.chunks():
            pieces.append(piece)
            if len(pieces) == 4:
                stream.end()
        return pieces

    first, *others = asyncio.run(run())
    assert json.loads(first)["changes"] == []
    assert others == [b"\n"] * 3
