"""`reactdb.web.websocket` over a real port."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.websockets import WebSocket
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

import reactdb
from reactdb.web.sources import feeds_of
from tests.support.feeds import is_clean
from tests.web.server import PATIENCE_S, SOON_S, Program, serving


@contextmanager
def socket_to(program: Program, query: str = "?after=", **options: Any) -> Iterator[ClientConnection]:
    with connect(f"ws://127.0.0.1:{program.port}/socket{query}", proxy=None, **options) as client:
        yield client


def receive(client: ClientConnection) -> dict[str, Any]:
    message = json.loads(client.recv(PATIENCE_S))
    return {"event": message["event"], "data": message["data"]} if "id" in message else message


def code_of(client: ClientConnection) -> tuple[int, str]:
    """The code and the reason of the end."""
    with pytest.raises(ConnectionClosed) as raised:
        while True:
            client.recv(PATIENCE_S)
    return raised.value.rcvd.code, raised.value.rcvd.reason


READY = {"event": "ready", "data": {}}


@pytest.mark.parametrize("first", ["address", "message"])
def test_a_page_gets_the_documents_and_each_commit(program, games, first):
    games.insert({"id": 1})
    program.serve(games)
    with socket_to(program, "?after=" if first == "address" else "") as client:
        if first == "message":
            client.send('{"after": null}')
        assert {"event": "message", "data": [{"new_val": {"id": 1}}]} == receive(client)
        assert READY == receive(client)
        games.insert({"id": 2})
        assert [{"old_val": None, "new_val": {"id": 2}}] == receive(client)["data"]


@pytest.mark.parametrize("first", ["address", "message"])
def test_a_page_that_comes_back_gets_what_it_missed_and_nothing_twice(program, games, first):
    program.serve(games)
    with socket_to(program) as client:
        place = json.loads(client.recv(PATIENCE_S))["id"]
    games.insert({"id": 1})
    with socket_to(program, f"?after={place}" if first == "address" else "") as client:
        if first == "message":
            client.send(json.dumps({"after": place}))
        assert [{"old_val": None, "new_val": {"id": 1}}] == receive(client)["data"]
        assert READY == receive(client)


def test_a_page_that_says_nothing_begins_at_the_beginning(program, games, monkeypatch):
    monkeypatch.setattr("reactdb.web.socket.FIRST_MESSAGE_S", 0.01)
    games.insert({"id": 1})
    program.serve(games)
    with socket_to(program, "") as client:
        assert [{"new_val": {"id": 1}}] == receive(client)["data"]


def test_a_page_may_begin_anew_on_the_same_socket(program, games):
    games.insert({"id": 1})
    program.serve(games)
    with socket_to(program) as client:
        assert [{"new_val": {"id": 1}}] == receive(client)["data"]
        assert READY == receive(client)
        client.send('{"after": null}')
        assert [{"new_val": {"id": 1}}] == receive(client)["data"]


def test_an_unknown_position_gives_one_reset(program, games):
    program.serve(games)
    with socket_to(program, "?after=no.such.place") as client:
        assert ["reset", "ready"] == [receive(client)["event"] for _ in range(2)]


def test_several_feeds_have_their_names_as_events(program, db, games):
    users = db.table_create("users")
    users.insert({"id": "ann"})
    program.serve({"games": games, "users": users})
    with socket_to(program) as client:
        found = [receive(client) for _ in range(3)]
        assert {"event": "users", "data": [{"new_val": {"id": "ann"}}]} in found
        assert {"event": "ready", "data": {"feed": "games"}} in found


def test_a_quiet_socket_has_pings(program, games):
    program.serve(games, heartbeat_s=0.02)
    with socket_to(program) as client:
        assert [READY, {"event": "ping", "data": None}] == [receive(client), receive(client)]


@pytest.mark.parametrize("text", ["x", "5", "{}", '{"after": 5}'])
def test_a_message_that_makes_no_sense_closes_with_4400(program, db, games, text):
    program.serve(games)
    with socket_to(program) as client:
        client.send(text)
        assert (
            4400,
            'a message of the page is JSON such as {"after": null}, and after is an id or null',
        ) == code_of(client)
    assert is_clean(db)


def test_a_dropped_table_gives_an_error_and_closes_with_4410_for_good(program, db, games):
    program.serve(games)
    with socket_to(program) as client:
        assert READY == receive(client)
        db.table_drop("games")
        error = json.loads(client.recv(PATIENCE_S))
        assert ("error", "FeedAborted", "end") == (error["event"], error["data"]["error"], error["id"])
        assert (4410, "Changefeed aborted (table unavailable)") == code_of(client)
    program.serve(db)
    with socket_to(program, "?after=end") as client:
        assert 4410 == code_of(client)[0]


def test_a_table_that_is_gone_closes_with_4410_so_that_no_page_comes_back_for_ever(program, db, games):
    """Without an accepted socket the page would see 1006, as if the connection had broken."""
    db.table_drop("games")
    program.serve(games)
    with socket_to(program) as client:
        assert (4410, "Table `games` does not exist.") == code_of(client)


def test_swapped_arguments_are_one_sentence(games):
    request = WebSocket({"type": "websocket"}, None, None)
    with pytest.raises(reactdb.InvalidOption, match="the feed comes first"):
        feeds_of(request)


def test_a_closed_database_closes_with_1012(program, tmp_path):
    with reactdb.connect(tmp_path / "b.db") as db:
        program.serve(db.table_create("games"))
        with socket_to(program) as client:
            assert READY == receive(client)
            db.close()
            assert (1012, "the database was closed") == code_of(client)


def test_a_server_that_stops_closes_with_1012(db, games):
    with serving(Program()) as program:
        program.serve(games)
        with socket_to(program) as client:
            assert READY == receive(client)
            began = time.monotonic()
            program.stop()
            assert time.monotonic() - began < SOON_S
            assert 1012 == code_of(client)[0]
    assert is_clean(db)


def test_a_page_that_goes_closes_its_feed(program, db, games):
    program.serve(games)
    with socket_to(program) as client:
        assert READY == receive(client)
    assert is_clean(db)


def test_a_page_that_never_reads_is_cut_off(db, games):
    with serving(Program()) as program:
        program.serve(games, send_timeout_s=0.2)
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
            sock.connect(("127.0.0.1", program.port))
            sock.sendall(
                b"GET /socket?after= HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            )
            assert sock.recv(1) == b"H"
            for number in range(12):
                games.insert({"id": number, "text": "x" * (1 << 20)})
            assert is_clean(db)
            began = time.monotonic()
            program.stop()
            assert time.monotonic() - began < SOON_S
