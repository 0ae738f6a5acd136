"""The RethinkDB server over a real port: the official driver, the protocol's edges, and clients that misbehave."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import rethinkdb
from rethinkdb.errors import ReqlAuthError, ReqlOpFailedError, ReqlQueryLogicError, ReqlTimeoutError

import reactdb
from reactdb.servers.limits import Limits
from reactdb.servers.rethinkdb.handshake import VERSION
from reactdb.testing import rethinkdb_connection, rethinkdb_server
from tests.support.rethinkdb import Raw, subscriptions
from tests.support.threads import wait_until

r = rethinkdb.RethinkDB()

LATE = '{"$reql_type$": "TIME", "epoch_time": 1e300, "timezone": "+00:00"}'


@pytest.fixture
def server(db: Any) -> Iterator[tuple[str, int]]:
    db.table_create("games")
    with rethinkdb_server(db) as address:
        yield address


@pytest.fixture
def connection(server: tuple[str, int]) -> Iterator[Any]:
    with r.connect(*server) as connection:
        yield connection


# ---------------------------------------------------------------------------------------------------------------
# The driver


def test_the_official_driver_writes_and_native_code_reads(db: Any, connection: Any) -> None:
    result = r.table("games").insert({"id": 1, "score": 5}).run(connection)

    assert 1 == result["inserted"]
    assert {"id": 1, "score": 5} == db.table("games").get(1).run()


def test_a_native_write_reaches_a_drivers_feed(db: Any, connection: Any) -> None:
    feed = r.table("games").filter(r.row["score"] > 10).changes().run(connection)

    db.table("games").insert([{"id": 1, "score": 5}, {"id": 2, "score": 50}])

    assert {"old_val": None, "new_val": {"id": 2, "score": 50}} == feed.next(wait=5)


def test_another_database_is_a_prefix_of_the_tables_name(db: Any, connection: Any) -> None:
    r.db_create("arena").run(connection)
    r.db("arena").table_create("rooms").run(connection)
    r.db("arena").table("rooms").insert({"id": 1}).run(connection)

    assert [{"id": 1}] == db.table("arena.rooms").run()
    assert ["arena", "rethinkdb", "test"] == r.db_list().run(connection)
    assert ["rooms"] == r.db("arena").table_list().run(connection)
    r.db_drop("arena").run(connection)
    assert ["rethinkdb", "test"] == r.db_list().run(connection)


def test_a_database_that_was_never_made_does_not_exist(connection: Any) -> None:
    with pytest.raises(ReqlOpFailedError, match="Database `nope` does not exist"):
        r.db("nope").table("x").run(connection)


def test_hundreds_of_feeds_share_one_connection(db: Any, connection: Any) -> None:
    feeds = [r.table("games").get(number).changes().run(connection) for number in range(300)]

    db.table("games").insert([{"id": number} for number in range(300)])

    assert [{"id": number} for number in range(300)] == [feed.next(wait=5)["new_val"] for feed in feeds]


def test_several_clients_hear_of_each_others_writes(server: tuple[str, int]) -> None:
    with r.connect(*server) as one, r.connect(*server) as other:
        feed = r.table("games").changes().run(one)
        for number in range(50):
            r.table("games").insert({"id": number}).run(other)

        assert list(range(50)) == [feed.next(wait=5)["new_val"]["id"] for _ in range(50)]


def test_a_closed_cursor_ends_its_feed(db: Any, connection: Any) -> None:
    feed = r.table("games").changes().run(connection)
    assert 1 == subscriptions(db)

    feed.close()

    r.table("games").count().run(connection)
    wait_until(lambda: subscriptions(db) == 0)


def test_a_client_that_goes_away_leaves_nothing_behind(db: Any, server: tuple[str, int]) -> None:
    connection = r.connect(*server)
    for _ in range(20):
        r.table("games").changes(squash=1).run(connection)
    assert 20 == subscriptions(db)

    connection._instance._socket._socket.close()

    wait_until(lambda: subscriptions(db) == 0)


def test_a_long_stream_comes_in_batches(db: Any, connection: Any) -> None:
    db.table("games").insert([{"id": number} for number in range(5_000)])

    cursor = r.table("games").run(connection, max_batch_rows=100)

    assert list(range(5_000)) == sorted(document["id"] for document in cursor)


def test_squash_waits_and_tells_the_difference(db: Any, connection: Any) -> None:
    feed = r.table("games").changes(squash=0.2).run(connection)

    for number in range(5):
        r.table("games").insert({"id": 1, "n": number}, conflict="replace").run(connection)

    assert {"old_val": None, "new_val": {"id": 1, "n": 4}} == feed.next(wait=5)
    with pytest.raises(ReqlTimeoutError):
        feed.next(wait=False)


def test_a_squashed_change_that_came_before_it_was_asked_for_is_told_when_its_wait_is_over(
    db: Any, server: tuple[str, int]
) -> None:
    """The request finds the server asleep until a moment that was chosen before it, and nothing else happens afterwards."""
    with Raw(server) as client:
        client.shake_hands()
        client.frame(5, b'[1,[152,[[15,["games"]]],{"squash":0.3}]]')
        client.response()
        db.table("games").insert({"id": 1})
        # Answered after the server has looked at what the commit left for it.
        client.frame(6, b"[1,[86,[[2,[]]]]]")
        client.response()

        client.frame(5, b"[2]")
        assert [{"new_val": {"id": 1}, "old_val": None}] == client.response()[1]["r"]


@pytest.mark.slow
def test_two_squashed_feeds_of_one_connection_keep_their_own_moments(
    db: Any, server: tuple[str, int]
) -> None:
    """The one that waits longer is asked first; the other must not be told with it, nor keep it waiting for ever."""
    with Raw(server) as client:
        client.shake_hands()
        for token, wait_s in ((5, b"0.6"), (6, b"0.1")):
            client.frame(token, b'[1,[152,[[15,["games"]]],{"squash":' + wait_s + b"}]]")
            client.response()
        db.table("games").insert({"id": 1})
        client.send(b"".join(struct.pack("<qL", token, 3) + b"[2]" for token in (5, 6)))

        assert [6, 5] == [client.response()[0], client.response()[0]]


def test_noreply_writes_are_done_when_noreply_wait_returns(db: Any, connection: Any) -> None:
    for number in range(10):
        r.table("games").insert({"id": number}).run(connection, noreply=True)

    connection.noreply_wait()

    assert 10 == db.table("games").count().run()


def test_numbers_that_are_too_large_are_errors_of_the_query(connection: Any) -> None:
    for term in (r.expr("0x1p99999").coerce_to("number"), r.json("1e999"), r.json(LATE)):
        with pytest.raises(ReqlQueryLogicError):
            term.run(connection)


def test_server_says_who_it_is(connection: Any) -> None:
    assert "reactdb" == connection.server()["name"]


def test_a_dropped_table_ends_its_feeds_with_an_error(db: Any, connection: Any) -> None:
    feed = r.table("games").changes().run(connection)

    db.table_drop("games")

    with pytest.raises(ReqlOpFailedError, match="Changefeed aborted"):
        feed.next(wait=5)


# ---------------------------------------------------------------------------------------------------------------
# Who may come in


def test_a_password_is_asked_for(db: Any) -> None:
    with rethinkdb_server(db, user="ann", password="sesame") as (host, port):
        with r.connect(host, port, user="ann", password="sesame") as connection:
            assert 3 == r.expr(1).add(2).run(connection)
        with pytest.raises(ReqlAuthError, match="Wrong password"):
            r.connect(host, port, user="ann", password="guess")
        with pytest.raises(ReqlAuthError, match="Wrong password"):
            r.connect(host, port, user="bob", password="sesame")


# ---------------------------------------------------------------------------------------------------------------
# What is not the protocol


@pytest.mark.parametrize(
    "greeting",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("<L", 0x400C2D20),
        struct.pack("<L", VERSION) + b"not json\0",
        struct.pack("<L", VERSION) + b'{"protocol_version":7}\0',
        struct.pack("<L", VERSION) + b'{"protocol_version":0,"authentication_method":"PLAIN"}\0',
        struct.pack("<L", VERSION)
        + b'{"protocol_version":0,"authentication_method":"SCRAM-SHA-256","authentication":"n,,n"}\0',
        struct.pack("<L", VERSION) + b"x" * 20_000,
    ],
)
def test_a_wrong_greeting_is_answered_and_the_connection_closed(
    server: tuple[str, int], greeting: bytes
) -> None:
    with Raw(server) as client:
        client.send(greeting)
        answer = client.everything()

    assert b'"success":false' in answer


def test_an_oversized_frame_is_answered_and_the_connection_closed(server: tuple[str, int]) -> None:
    with Raw(server) as client:
        client.shake_hands()
        client.send(struct.pack("<qL", 7, Limits().message_bytes + 1))
        token, response = client.response()

        assert (7, 16) == (token, response["t"])
        assert "too large" in response["r"][0]
        assert b"" == client.everything()


@pytest.mark.parametrize("body", [b"", b"{", b"5", b"[]", b"[99]", b'["1"]', b"\xff\xfe", b"[" * 3_000])
def test_a_body_that_is_no_query_is_a_client_error(server: tuple[str, int], body: bytes) -> None:
    with Raw(server) as client:
        client.shake_hands()
        client.frame(3, body)
        token, response = client.response()

        assert (3, 16) == (token, response["t"])
        client.frame(4, b"[1,5]")
        assert (4, {"t": 1, "r": [5]}) == client.response()


def test_an_unknown_term_is_named(server: tuple[str, int]) -> None:
    with Raw(server) as client:
        client.shake_hands()
        client.frame(1, b"[1,[9999,[]]]")
        assert "9999" in client.response()[1]["r"][0]
        client.frame(2, b"[1,[158,[1]]]")
        assert "to_geojson" in client.response()[1]["r"][0]


def test_a_token_in_use_and_a_token_unknown_are_refused(server: tuple[str, int]) -> None:
    with Raw(server) as client:
        client.shake_hands()
        client.frame(5, b'[1,[152,[[15,["games"]]]]]')
        assert 3 == client.response()[1]["t"]

        client.frame(5, b"[1,1]")
        assert "ERROR: duplicate token 5" == client.response()[1]["r"][0]
        client.frame(99, b"[2]")
        assert "Token 99 not in stream cache." == client.response()[1]["r"][0]


def test_two_continues_in_flight_are_answered_in_turn(db: Any, server: tuple[str, int]) -> None:
    with Raw(server) as client:
        client.shake_hands()
        client.frame(5, b'[1,[152,[[15,["games"]]]]]')
        client.response()
        client.frame(5, b"[2]")
        client.frame(5, b"[2]")

        db.table("games").insert({"id": 1})
        assert [{"new_val": {"id": 1}, "old_val": None}] == client.response()[1]["r"]
        db.table("games").insert({"id": 2})
        assert [{"new_val": {"id": 2}, "old_val": None}] == client.response()[1]["r"]
        client.frame(5, b"[3]")
        assert {"t": 2, "r": []} == client.response()[1]


def test_a_client_that_does_not_read_is_bounded_by_its_queue(db: Any, server: tuple[str, int]) -> None:
    with Raw(server) as client:
        client.shake_hands()
        client.frame(5, b'[1,[152,[[15,["games"]]],{"changefeed_queue_size":10}]]')
        client.response()

        db.table("games").insert([{"id": number} for number in range(100)])
        client.frame(5, b"[2]")
        told = client.response()[1]["r"]

        assert {"error": "Changefeed cache over array size limit, skipped 90 elements."} == told[0]
        assert 11 == len(told)


def test_a_client_of_a_list_with_offsets_is_bounded_as_rethinkdb_bounds_it(
    db: Any, server: tuple[str, int]
) -> None:
    """By dropping, which a native feed with offsets does only where it was asked to."""
    with Raw(server) as client:
        client.shake_hands()
        # table.orderBy(index: "id").limit(5).changes(includeOffsets: true, changefeedQueueSize: 10)
        ordered = b'[71,[[41,[[15,["games"]]],{"index":"id"}],5]]'
        client.frame(5, b"[1,[152,[" + ordered + b'],{"include_offsets":true,"changefeed_queue_size":10}]]')
        client.response()

        for number in range(20):
            db.table("games").insert({"id": -number})
        client.frame(5, b"[2]")
        told = client.response()[1]["r"]

        assert {"error": "Changefeed cache over array size limit, skipped 10 elements."} == told[0]


# ---------------------------------------------------------------------------------------------------------------
# Without a socket


def test_the_driver_needs_no_socket(db: Any) -> None:
    db.table_create("games")
    with rethinkdb_connection(db) as connection:
        feed = r.table("games").changes(include_initial=True, include_states=True).run(connection)
        r.table("games").insert({"id": 1}).run(connection)

        told = [feed.next(wait=1) for _ in range(3)]

    assert [{"state": "initializing"}, {"state": "ready"}, {"old_val": None, "new_val": {"id": 1}}] == told
    assert 0 == subscriptions(db)


def test_a_write_of_another_thread_wakes_the_driver(db: Any) -> None:
    games = db.table_create("games")
    with rethinkdb_connection(db) as connection:
        feed = r.table("games").changes().run(connection)
        writer = threading.Thread(target=lambda: games.insert({"id": 1}))
        writer.start()

        assert {"id": 1} == feed.next(wait=5)["new_val"]
        writer.join()


def test_a_driver_without_a_socket_times_out_as_with_one() -> None:
    with reactdb.connect(":memory:") as db, rethinkdb_connection(db) as connection:
        db.table_create("games")
        feed = r.table("games").changes().run(connection)

        with pytest.raises(ReqlTimeoutError):
            feed.next(wait=0.01)
