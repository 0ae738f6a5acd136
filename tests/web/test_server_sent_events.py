"""`reactdb.web.sse` over a real port: what a browser gets, and what it gets when it comes back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

import reactdb
import reactdb.web
from reactdb import row
from reactdb.web import positions
from tests.support.feeds import is_clean
from tests.web.server import follow


def changed(old: Any, new: Any) -> dict[str, Any]:
    return {"old_val": old, "new_val": new}


def test_a_new_browser_gets_the_documents_then_ready_then_each_commit(program, db, games):
    games.insert([{"id": 1}, {"id": 2}])
    program.serve(games)
    with follow(program) as client:
        block = client.next()
        assert (None, [{"new_val": {"id": 1}}, {"new_val": {"id": 2}}]) == (block.event, block.data)
        assert block.id
        assert ("ready", {}) == client.next()[::2]
        with db.transaction():
            games.insert({"id": 3})
            games.get(1).delete()
        assert [changed(None, {"id": 3}), changed({"id": 1}, None)] == client.next().data


def test_an_empty_table_is_ready_at_once(program, games):
    program.serve(games)
    with follow(program) as client:
        assert "ready" == client.next().event


@pytest.mark.parametrize("way", ["header", "query", "both"])
def test_a_browser_that_comes_back_gets_what_it_missed_and_nothing_twice(program, games, way):
    program.serve(games)
    games.insert({"id": 1})
    with follow(program) as client:
        first = client.ready().last_id
    games.insert({"id": 2})
    games.insert({"id": 3})
    header = first if way in ("header", "both") else None
    query = {"header": "", "query": f"?after={first}", "both": "?after=of.an.older"}[way]
    with follow(program, header, query) as client:
        assert [[changed(None, {"id": 2})], [changed(None, {"id": 3})]] == [
            client.next().data,
            client.next().data,
        ]
        assert "ready" == client.next().event


def test_every_place_of_a_stream_can_be_continued(program, db, games):
    with db.transaction():
        games.insert([{"id": number} for number in range(2_500)])
    program.serve(games)
    with follow(program) as client:
        assert 1_000 == len(client.next().data)
        middle = client.last_id
    games.get(0).update({"late": True})
    with follow(program, middle) as client:
        rest = [event["new_val"]["id"] for _ in range(2) for event in client.next().data]
        assert list(range(1_000, 2_500)) == rest
        assert [changed({"id": 0}, {"id": 0, "late": True})] == client.next().data


def test_a_beginning_without_a_middle_is_begun_anew_after_a_reset(program, games):
    program.serve(lambda: games.order_by("id").limit(2))
    games.insert([{"id": 1}, {"id": 2}, {"id": 3}])
    with follow(program, positions.NEW) as client:
        assert "reset" == client.next().event
        assert 2 == len(client.next().data)
        assert "ready" == client.next().event


def test_a_position_of_another_file_gives_one_reset_and_the_documents(program, games):
    games.insert({"id": 1})
    program.serve(games)
    with reactdb.connect(":memory:") as other, follow(program, other.token) as client:
        assert [("reset", {}), (None, [{"new_val": {"id": 1}}]), ("ready", {})] == [
            client.next()[::2] for _ in range(3)
        ]


def test_a_position_that_is_too_old_gives_one_reset_and_the_documents(program, db, games):
    program.serve(games)
    with follow(program) as client:
        first = client.ready().last_id
    games.insert({"id": 1})
    games.get(1).update({"n": 1})
    is_clean(db)
    db.compact(keep=1)
    with follow(program, first) as client:
        assert ["reset", None, "ready"] == [client.next().event for _ in range(3)]
        games.insert({"id": 2})
        assert [changed(None, {"id": 2})] == client.next().data
    with follow(program, client.last_id) as client:
        assert "ready" == client.next().event


def test_the_message_of_a_reset_leads_to_the_beginning(program, games):
    games.insert({"id": 1})
    program.serve(games)
    with follow(program, "no.such.position") as client:
        reset = client.next()
    with follow(program, reset.id) as client:
        assert [{"new_val": {"id": 1}}] == client.next().data


def test_what_a_client_sends_is_never_sent_back(program, games):
    program.serve(games)
    with follow(program, query="?after=1%0Adata:%20forged%0A%0A") as client:
        assert positions.NEW == client.next_block().id
        assert ["reset", "ready"] == [client.next().event, client.next().event]


def test_a_quiet_stream_moves_its_position_on(program, db, games):
    """So that a browser that was told nothing for long comes back to a position that is still kept."""
    program.serve(lambda: games.filter(row["id"] < 0), heartbeat_s=0.02)
    with follow(program) as client:
        before = client.ready().last_id
        games.insert({"id": 1})
        block = client.until(lambda block: block.id not in (None, before))
        assert (None, None) == (block.event, block.data)
        assert db.token == block.id


def test_a_comment_keeps_a_quiet_stream_alive(program, games):
    program.serve(games, heartbeat_s=0.02)
    with follow(program) as client:
        client.ready()
        assert (None, None, None) == client.next_block()


def test_the_headers_keep_proxies_from_holding_events_back(program, games):
    program.serve(games, headers={"X-Own": "1"})
    with follow(program) as client:
        headers = client.response.headers
        assert "text/event-stream; charset=utf-8" == headers["content-type"]
        assert "no-store, no-transform" == headers["cache-control"]
        assert ("no", "1") == (headers["x-accel-buffering"], headers["x-own"])


def test_the_first_line_says_when_to_come_back(program, games):
    program.serve(games, retry_s=0.25)
    with follow(program) as client:
        assert "retry: 250" == next(client.response.iter_lines())


def test_values_are_plain_json(program, games):
    games.insert(
        {
            "id": 1,
            "at": datetime(2026, 1, 2, 12, 30, tzinfo=UTC),
            "n": 2**60,
            "data": b"\x01",
            "text": "a\r\nb",
        }
    )
    program.serve(games)
    with follow(program) as client:
        assert {
            "id": 1,
            "at": "2026-01-02T12:30:00Z",
            "n": str(2**60),
            "data": "AQ==",
            "text": "a\r\nb",
        } == client.next().data[0]["new_val"]


def test_a_feed_without_batches_has_a_message_for_each_change_and_continues_inside_of_a_commit(
    program, db, games
):
    program.serve(games.changes())
    with follow(program) as client:
        client.ready()
        with db.transaction():
            games.insert([{"id": 1}, {"id": 2}])
        assert changed(None, {"id": 1}) == client.next().data
        inside = client.last_id
    with follow(program, inside) as client:
        assert changed(None, {"id": 2}) == client.next().data


def test_a_feed_keeps_its_options_when_it_is_continued(program, games):
    program.serve(
        games.changes(include_initial=True, include_types=True, include_origin=True).pluck("type", "origin")
    )
    with follow(program) as client:
        first = client.ready().last_id
    games.insert({"id": 1})
    with follow(program, first) as client:
        assert {"type": "add", "origin": None} == client.next().data


def test_a_list_with_places_is_continued(program, games):
    games.insert([{"id": 1, "n": 3}, {"id": 2, "n": 1}])
    program.serve(
        lambda: games.order_by("n").limit(2).changes(include_initial=True, include_offsets=True, batches=True)
    )
    with follow(program) as client:
        first = client.ready().last_id
    games.insert({"id": 3, "n": 2})
    with follow(program, first) as client:
        assert [{"old_offset": 1, "new_offset": 1}] == [
            {name: event[name] for name in ("old_offset", "new_offset")} for event in client.next().data
        ]


def test_several_feeds_share_a_stream_under_their_names(program, db, games):
    users = db.table_create("users")
    games.insert({"id": 1})
    program.serve({"games": games, "users": users.changes()})
    with follow(program) as client:
        found = [client.next() for _ in range(3)]
        assert {("games", None), ("ready", "games"), ("ready", "users")} == {
            (one.event, one.data["feed"] if one.event == "ready" else None) for one in found
        }
        users.insert({"id": "ann"})
        block = client.next()
        assert ("users", changed(None, {"id": "ann"})) == (block.event, block.data)
    games.insert({"id": 2})
    users.insert({"id": "bob"})
    with follow(program, block.id) as client:
        found = [one for _ in range(4) if (one := client.next()).event != "ready"]
        assert {
            "games": [changed(None, {"id": 2})],
            "users": changed(None, {"id": "bob"}),
        } == {one.event: one.data for one in found}


def test_one_of_several_feeds_begins_anew_alone(program, db, games):
    users = db.table_create("users")
    users.insert({"id": "ann"})
    program.serve({"games": games})
    with follow(program) as client:
        first = client.ready().last_id
    program.serve({"games": games, "users": users})
    with follow(program, first) as client:
        found = [client.next() for _ in range(4)]
        assert [{"feed": "users"}] == [one.data for one in found if one.event == "reset"]
        assert ["users"] == [one.event for one in found if one.event not in ("ready", "reset")]


def test_a_dropped_table_gives_an_error_and_the_browser_does_not_come_back(program, db, games):
    program.serve(games)
    with follow(program) as client:
        client.ready()
        db.table_drop("games")
        error = client.next()
        assert ("error", "FeedAborted", "end") == (error.event, error.data["error"], error.id)
        assert "table unavailable" in error.data["message"]
        assert client.next() is None
    program.serve(db)
    with follow(program, error.id) as client:
        assert 204 == client.response.status_code


def test_an_error_of_a_document_tells_the_browser_no_values(program, games, caplog):
    program.serve(
        games.filter(lambda document: 1 / document["n"] > 0).changes(on_predicate_error="raise", batches=True)
    )
    with follow(program) as client:
        client.ready()
        games.insert({"id": 1, "n": 0, "secret": "s3cret"})
        error = client.next()
        assert "error" == error.event
        assert "s3cret" not in error.data["message"]
    assert "a feed of a browser has ended" in caplog.text


def test_an_event_that_json_has_not_ends_the_stream_with_an_error(program, games, caplog):
    program.serve(games.changes().map(lambda event: object()))
    with follow(program) as client:
        client.ready()
        games.insert({"id": 1})
        error = client.next()
        assert ("error", "InvalidDocument", "end") == (error.event, error.data["error"], error.id)
    assert "a feed of a browser has ended" in caplog.text


def test_a_closed_database_ends_the_stream_without_an_error(program, tmp_path):
    db = reactdb.connect(tmp_path / "b.db")
    games = db.table_create("games")
    feed = games.changes(batches=True, include_initial=True)
    program.serve(feed)
    with follow(program) as client:
        client.ready()
        db.close()
        assert client.next() is None
    with follow(program) as client:
        assert 200 == client.response.status_code
        assert client.next() is None


def test_a_position_that_the_program_gave_and_that_is_too_old_is_no_loop(program, db, games):
    feed = games.changes(since=db.token)
    games.insert({"id": 1})
    games.get(1).update({"n": 1})
    is_clean(db)
    db.compact(keep=1)
    program.serve(feed)
    with follow(program) as client:
        assert ("error", "HistoryLost") == ((error := client.next()).event, error.data["error"])
        assert client.next() is None


def test_a_database_is_a_source_too(program, db, games):
    games.insert({"id": 1})
    program.serve(db)
    with follow(program) as client:
        assert [{"table": "games", "new_val": {"id": 1}}] == client.next().data


def test_an_awaited_database_is_a_source_too(program, path):
    import asyncio

    async def show() -> list[Any]:
        async with await reactdb.aconnect(path) as db:
            games = await db.table_create("games")
            await games.insert({"id": 1})
            program.serve(games)
            return await asyncio.to_thread(read)

    def read() -> list[Any]:
        with follow(program) as client:
            return client.next().data

    assert [{"new_val": {"id": 1}}] == asyncio.run(show())


def test_head_gives_the_headers_alone(program, games):
    program.serve(games)
    answer = httpx.head(f"{program.url}/live", timeout=10)
    assert (200, "text/event-stream; charset=utf-8") == (answer.status_code, answer.headers["content-type"])


REQUEST: Any = type("Request", (), {"headers": {}, "query_params": {}})()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda games: 5, "a stream has a feed, a selection, or a dict of them by name, not 5"),
        (dict, "a stream has at least one feed"),
        (lambda games: {"ready": games}, "'ready' cannot be the name of a feed"),
        (lambda games: {"a\nb": games}, "cannot be the name of a feed"),
        (lambda games: games.changes().limit(3), "a feed with limit or skip would count again"),
    ],
)
def test_what_cannot_be_a_stream_is_refused_in_one_sentence(games, make, sentence):
    with pytest.raises(reactdb.UsageError, match=sentence):
        reactdb.web.sse({} if make is dict else make(games), REQUEST)


def test_a_union_of_several_databases_is_refused(games):
    with reactdb.connect(":memory:") as other:
        both = games.changes().union(other.table_create("others").changes())
        with pytest.raises(reactdb.UsageError, match="give a dict with a feed for each database"):
            reactdb.web.sse(both, REQUEST)


def test_a_time_that_is_no_number_is_refused(games):
    with pytest.raises(reactdb.InvalidOption, match="heartbeat_s is a number of seconds"):
        reactdb.web.sse(games, REQUEST, heartbeat_s=-1)


@pytest.mark.parametrize("option", ["heartbeat_s", "send_timeout_s"])
def test_a_time_of_zero_is_refused(games, option):
    """Heartbeats without a pause would fill the connection."""
    with pytest.raises(reactdb.InvalidOption, match=f"{option} is more than 0 seconds"):
        reactdb.web.sse(games, REQUEST, **{option: 0})


@pytest.mark.parametrize("request_", [None, "a text of the address"])
def test_what_is_no_request_is_refused_in_a_sentence(games, request_):
    with pytest.raises(reactdb.InvalidOption, match=r"`async def live\(request: Request\)`"):
        reactdb.web.sse(games, request_)


def test_a_table_that_is_missing_is_an_error_of_the_route(db):
    with pytest.raises(reactdb.TableNotFound):
        reactdb.web.sse(db.table("nothing"), REQUEST)
