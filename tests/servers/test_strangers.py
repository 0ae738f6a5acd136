"""Strangers cannot stop a server: each protocol, in the clear and over TLS, attacked over real sockets in real time.

`docs/explanation/security.md` names the tests of this file beside the limits that they show.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from pymongo import MongoClient

from reactdb.servers.limits import Limits
from reactdb.servers.mongodb import serve_in_thread as serve_mongodb
from reactdb.servers.places import Places
from reactdb.servers.users import Credentials
from tests.servers.attacked import PROTOCOLS, attacked, is_closed_within
from tests.servers.mongodb.wire import Wire, message
from tests.support.certificates import Certificate, make_certificate
from tests.support.threads import PATIENCE_S, wait_until

SOON_S = 0.2
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: Any) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(
    params=[
        *(f"{protocol}-plain" for protocol in PROTOCOLS),
        *(pytest.param(f"{protocol}-tls", marks=pytest.mark.slow) for protocol in PROTOCOLS),
    ]
)
def opened(request: Any, certificate: Certificate) -> Open:
    """Opens a server of each protocol: `with opened(strangers=4) as server`."""
    protocol, _, form = request.param.partition("-")
    return lambda **options: attacked(protocol, certificate if form == "tls" else None, **options)


def send_slowly(line: socket.socket, data: bytes) -> bool:
    """Send a byte every hundredth of a second. Whether the server has closed the connection before the end."""
    line.settimeout(0.01)
    for byte in data:
        try:
            line.sendall(bytes([byte]))
            if line.recv(65_536) == b"":
                return True
        except TimeoutError:
            continue
        except (ConnectionError, ssl.SSLError):
            return True
    return False


# What a client begins with, and never ends.
BEGINNINGS = {
    "http": b"GET /" + b"x" * 1_000,
    "mongodb": b"\xe8\x03\0\0" + b"\1\0\0\0" + b"\0\0\0\0" + b"\xdd\7\0\0" + b"\0" * 900,
    "rethinkdb": b"\xc3\xbd\xc2\x34" + b'{"protocol_version": 0' + b" " * 900,
}
# The head of a ClientHello of 1,000 bytes, and a part of it.
CLIENT_HELLO = b"\x16\x03\x01\x03\xe8" + b"\x01\x00\x03\xe4\x03\x03" + b"\0" * 900


# ---------------------------------------------------------------------------------------------------------------
# Places


def test_silent_connections_do_not_keep_clients_out(opened: Open) -> None:
    with opened(connections=8, strangers=4) as server:
        for _ in range(20):
            server.connect()

        assert server.serves_others()
        wait_until(lambda: server.server.connection_count <= 4)


def test_connections_that_stop_in_the_middle_do_not_keep_clients_out(opened: Open) -> None:
    with opened(connections=8, strangers=4) as server:
        beginning = BEGINNINGS[server.protocol] if server.tls is None else CLIENT_HELLO
        for _ in range(20):
            with suppress(ConnectionError):
                server.connect().sendall(beginning)

        assert server.serves_others()


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_thousand_silent_connections_do_not_keep_clients_out(protocol: str) -> None:
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 4_096:
        if hard != resource.RLIM_INFINITY and hard < 4_096:
            pytest.skip("needs 4,096 open files")
        resource.setrlimit(resource.RLIMIT_NOFILE, (4_096, hard))
    with attacked(protocol) as server:
        for _ in range(1_030):
            server.connect()

        assert server.serves_others()


def test_a_known_client_keeps_its_place_while_strangers_come(opened: Open) -> None:
    with opened(connections=8, strangers=2) as server:
        known = server.known()
        for _ in range(20):
            server.connect()
        assert server.serves_others()

        assert not is_closed_within(known, 0.05)


def test_of_strangers_the_one_leaves_that_has_been_silent_for_the_longest_time() -> None:
    left = []

    class Stranger:
        def __init__(self, name: str) -> None:
            self.name = name

        def abort(self) -> None:
            left.append(self.name)

    places = Places(most=3, most_strangers=2)
    one, two, three, four = (Stranger(name) for name in ("one", "two", "three", "four"))
    for each in (one, two):
        assert places.enter(each)
    places.touch(one)
    assert places.enter(three)
    places.admit(one)
    assert places.enter(four)

    assert ["two"] == left
    places.admit(three)
    places.admit(four)
    assert not places.enter(Stranger("five"))
    places.rest(three)
    assert places.enter(Stranger("six"))
    assert ["two", "three"] == left
    # One that had to leave does not come back by what it still sends.
    places.touch(two)
    places.admit(two)
    assert 3 == len(places)


# ---------------------------------------------------------------------------------------------------------------
# Time


def test_a_connection_over_which_nothing_comes_is_closed(opened: Open) -> None:
    with opened(handshake_s=SOON_S) as server:
        assert is_closed_within(server.connect(), PATIENCE_S)
        wait_until(lambda: server.server.connection_count == 0)


def test_a_beginning_that_comes_byte_by_byte_does_not_hold_a_connection(opened: Open) -> None:
    with opened(handshake_s=SOON_S) as server:
        assert send_slowly(server.open(), BEGINNINGS[server.protocol])
        assert server.serves_others()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_handshake_of_tls_that_comes_byte_by_byte_does_not_hold_a_connection(
    protocol: str, certificate: Certificate
) -> None:
    with attacked(protocol, certificate, handshake_s=SOON_S) as server:
        assert send_slowly(server.connect(), CLIENT_HELLO)
        wait_until(lambda: server.server.connection_count == 0)


def test_a_server_with_half_open_connections_stops(opened: Open) -> None:
    with opened() as server:
        line = server.connect()
        wait_until(lambda: server.server.connection_count == 1)
        began = time.monotonic()

    assert time.monotonic() - began < PATIENCE_S / 2
    assert 0 == server.server.connection_count
    line.close()


# ---------------------------------------------------------------------------------------------------------------
# MongoDB


@pytest.fixture(params=["plain", "tls"])
def guarded(request: Any, certificate: Certificate) -> Callable[..., Any]:
    """Opens a MongoDB server with a user, `ann`."""
    chosen = certificate if request.param == "tls" else None
    return lambda **options: attacked("mongodb", chosen, credentials=Credentials("ann", "secret"), **options)


def test_whoever_has_only_said_hello_is_a_stranger(guarded: Callable[..., Any]) -> None:
    with guarded(handshake_s=SOON_S) as server:
        line = server.known()

        assert is_closed_within(line, PATIENCE_S)


def test_greeted_connections_do_not_keep_clients_out(guarded: Callable[..., Any]) -> None:
    with guarded(connections=8, strangers=4) as server:
        first = server.known()
        for _ in range(8):
            server.known()

        assert is_closed_within(first, PATIENCE_S)
        assert server.serves_others()


@pytest.mark.slow
def test_a_driver_watches_the_server_by_a_connection_that_never_proves_anything(
    guarded: Callable[..., Any],
) -> None:
    """It says hello again and again, and may stay for as long as it does."""
    with guarded(handshake_s=0.3) as server:
        line = server.known()
        end = time.monotonic() + 0.7
        while time.monotonic() < end:
            assert not is_closed_within(line, 0.1)
            line.settimeout(PATIENCE_S)
            server.ask(line)


def test_a_client_that_has_proved_who_it_is_stays(db: Any) -> None:
    limits = Limits(handshake_s=0.3, strangers=1)
    with serve_mongodb(db, credentials=Credentials("ann", "secret"), limits=limits) as server:
        uri = f"mongodb://ann:secret@127.0.0.1:{server.port}/?maxPoolSize=1&directConnection=true&serverMonitoringMode=poll"
        with MongoClient(uri) as client:
            before = client.admin.command("hello")["connectionId"]
            with Wire(server.port) as stranger:
                assert stranger.is_closed()
            assert before == client.admin.command("hello")["connectionId"]
            client.admin.command("logout")
        wait_until(lambda: server.connection_count == 0)


def test_whoever_logs_out_is_a_stranger_again(db: Any) -> None:
    with serve_mongodb(
        db, credentials=Credentials("ann", "secret"), limits=Limits(handshake_s=0.3)
    ) as server:
        uri = f"mongodb://ann:secret@127.0.0.1:{server.port}/?maxPoolSize=1&directConnection=true"
        with MongoClient(uri) as client:
            client.admin.command("ping")
            known = {one for one in server._connections if not one._is_stranger}
            assert 1 == len(known)
            client.admin.command("logout")
            wait_until(lambda: known.isdisjoint(server._connections))


def test_cursors_and_change_streams_of_a_mongodb_connection_are_counted(db: Any) -> None:
    with serve_mongodb(db, limits=Limits(streams=3)) as server, Wire(server.port) as wire:
        name = "notes"

        def find() -> dict[str, Any]:
            return wire.ask({"find": "notes", "batchSize": 2, "$db": name})

        def watch() -> dict[str, Any]:
            pipeline = [{"$changeStream": {}}]
            return wire.ask({"aggregate": "notes", "pipeline": pipeline, "cursor": {}, "$db": name})

        wire.ask(
            {"insert": "notes", "documents": [{"_id": number} for number in range(100, 110)], "$db": name}
        )
        cursors = [find(), watch(), find()]
        refused = [find(), watch()]
        with Wire(server.port) as other:
            served = other.ask({"find": "notes", "batchSize": 2, "$db": name})
        wire.ask({"killCursors": "notes", "cursors": [cursors[0]["cursor"]["id"]], "$db": name})
        again = watch()

    assert [1.0] * 3 == [one["ok"] for one in cursors]
    assert [146, 146] == [one.get("code") for one in refused]
    assert "3 open cursors" in refused[0]["errmsg"]
    assert 1.0 == served["ok"] == again["ok"]


def test_a_compressed_message_is_refused_before_it_is_unpacked(db: Any) -> None:
    """OP_COMPRESSED may name any size; no compressor is offered in `hello`."""
    body = b"\xdd\7\0\0" + b"\xff\xff\xff\x7f" + b"\2" + b"\0" * 9
    with serve_mongodb(db) as server, Wire(server.port) as wire:
        wire.send(len(body).to_bytes(1, "little") + b"\0\0\0" + b"\1\0\0\0\0\0\0\0" + b"\xdc\7\0\0" + body)

        assert wire.is_closed()


# ---------------------------------------------------------------------------------------------------------------
# Known clients


@pytest.fixture(
    params=[f"{protocol}-{form}" for protocol in ("mongodb", "rethinkdb") for form in ("plain", "tls")]
)
def spoken(request: Any, certificate: Certificate) -> Open:
    """As `opened`, of the protocols that sit on `reactdb.servers.connection`; HTTP's have their tests in `http/`."""
    protocol, _, form = request.param.partition("-")
    return lambda **options: attacked(protocol, certificate if form == "tls" else None, **options)


def test_where_all_places_have_known_clients_one_more_is_sent_away(spoken: Open) -> None:
    with spoken(connections=2) as server:
        known = [server.known(), server.known()]

        assert is_closed_within(server.connect(), PATIENCE_S)
        assert not any(is_closed_within(line, 0.05) for line in known)


def test_half_a_request_of_a_known_client_does_not_hold_a_connection(spoken: Open) -> None:
    with spoken(message_s=SOON_S) as server:
        line = server.known()
        line.sendall(
            BEGINNINGS["mongodb"] if server.protocol == "mongodb" else b"\1" + b"\0" * 7 + b"\xff\0\0\0["
        )

        assert is_closed_within(line, PATIENCE_S)
        assert server.serves_others()


def test_a_message_of_mongodb_has_a_size(db: Any) -> None:
    """Of a stranger it is smaller: a proof of a password needs little."""
    for credentials, size in ((None, 1_100_000), (Credentials("ann", "secret"), 60_000)):
        limits = Limits(message_bytes=1_000_000)
        with serve_mongodb(db, limits=limits, credentials=credentials) as server, Wire(server.port) as wire:
            assert 1.0 == wire.ask({"hello": 1})["ok"]
            wire.send(struct.pack("<iiii", size, 1, 0, 2013))

            assert wire.is_closed()


def test_a_client_of_mongodb_that_reads_nothing_is_sent_away(db: Any) -> None:
    db.table_create("notes", primary_key="_id").insert(
        [{"_id": number, "text": "x" * 1_000_000} for number in range(8)]
    )
    with serve_mongodb(db, limits=Limits(write_s=SOON_S)) as server, Wire(server.port) as wire:
        for _ in range(4):
            wire.send(message({"find": "notes", "$db": "reactdb"}))
        wait_until(lambda: server.connection_count == 0)


def test_a_command_of_mongodb_that_takes_too_long_is_stopped(db: Any) -> None:
    numbers = {"n": list(range(1_000))}
    each = {"$lookup": {"from": "notes", "pipeline": [{"$unwind": "$n"}], "as": "more"}}
    # Counted, so that no first batch is ready in time.
    twice = [{"$unwind": "$n"}, each, {"$count": "all"}]
    with serve_mongodb(db, limits=Limits(query_s=0.1)) as server, Wire(server.port) as wire:
        wire.ask({"insert": "notes", "documents": [{"_id": 1, **numbers}], "$db": "reactdb"})
        answer = wire.ask({"aggregate": "notes", "pipeline": twice, "cursor": {}, "$db": "reactdb"})

    assert (0.0, 50) == (answer["ok"], answer.get("code"))
