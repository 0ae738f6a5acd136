"""The questions of scripts and tools to a RethinkDB server about itself and its tables, and their settings."""

from __future__ import annotations

import gc
import os
import re
import weakref
from typing import Any

import pytest
import rethinkdb
from rethinkdb.errors import (
    ReqlOpFailedError,
    ReqlOpIndeterminateError,
    ReqlQueryLogicError,
)

import reactdb
from reactdb.dialects.rethinkdb import Session
from reactdb.dialects.rethinkdb.jobs import jobs_of
from reactdb.session import session_of
from reactdb.testing import rethinkdb_connection, rethinkdb_server
from tests.support.threads import wait_until

r = rethinkdb.RethinkDB()
games = r.table("games")
system = r.db("rethinkdb")


# ---------------------------------------------------------------------------------------------------------------
# The server


def test_the_server_says_its_version_as_rethinkdbs_tools_read_it(run: Any) -> None:
    (status,) = run(system.table("server_status"))

    assert status["process"]["version"] == f"rethinkdb 2.4.4 (reactdb {reactdb.__version__})"
    assert os.getpid() == status["process"]["pid"]
    assert [{"id": status["id"], "name": "reactdb"}] == run(system.table("server_config").pluck("id", "name"))


def test_the_port_is_the_one_that_is_listened_on(memory: Any) -> None:
    with rethinkdb_server(memory) as (host, port), r.connect(host, port) as connection:
        assert port == system.table("server_status")[0]["network"]["reql_port"].run(connection)


def test_the_tables_of_the_system_are_listed(run: Any) -> None:
    listed = run(system.table_list())

    assert {"jobs", "logs", "stats", "server_status", "server_config", "db_config", "table_config"} <= set(
        listed
    )
    for name in listed:
        assert isinstance(run(system.table(name)), list)


def test_every_table_and_database_has_a_configuration(run: Any) -> None:
    run(r.db_create("arena"))
    run(r.db("arena").table_create("rooms", primary_key="name"))

    assert [("arena", "rooms", "name"), ("test", "games", "id")] == [
        (one["db"], one["name"], one["primary_key"]) for one in run(system.table("table_config"))
    ]
    assert run(games.config()) == run(system.table("table_config").get(run(games.info()["id"])))
    assert {"arena", "test"} == {one["name"] for one in run(system.table("db_config"))}
    assert run(r.db("arena").config()) in run(system.table("db_config"))
    assert all(one["status"]["ready_for_writes"] for one in run(system.table("table_status")))


@pytest.mark.parametrize("name", ["db_config", "server_status", "stats", "logs", "table_status"])
def test_what_is_computed_cannot_be_written(run: Any, name: str) -> None:
    run(r.db_create("arena"))

    for query in (
        system.table(name).insert({"id": 1}),
        system.table(name).delete(),
        system.table(name).nth(0).update({"name": "other"}),
    ):
        with pytest.raises(ReqlOpFailedError, match="system table"):
            run(query)
    assert ["arena", "rethinkdb", "test"] == run(r.db_list())


# ---------------------------------------------------------------------------------------------------------------
# Jobs


def test_a_query_sees_itself_among_the_jobs(run: Any) -> None:
    (job,) = run(system.table("jobs"))

    assert ("query", "admin") == (job["type"], job["info"]["user"])
    assert 'r.db("rethinkdb").table("jobs")' == job["info"]["query"]


def test_an_open_feed_is_a_job_until_it_is_closed(memory: Any, run: Any) -> None:
    feeds = system.table("jobs").filter(lambda job: job["info"]["query"].match("^r.table.*changes"))
    with rethinkdb_server(memory) as (host, port), r.connect(host, port) as connection:
        feed = games.filter(lambda game: game["score"] > 5).changes(squash=True).run(connection)
        (job,) = run(feeds)
        feed.close()
        r.expr(1).run(connection)

        assert [] == run(feeds)
    assert (
        'r.table("games").filter(function(var_1) { return var_1("score").gt(5); }).changes({"squash": true})'
        == re.sub(r"var_\d+", "var_1", job["info"]["query"])
    )
    assert "127.0.0.1" == job["info"]["client_address"]


def test_deleting_a_job_ends_the_feed(memory: Any, run: Any) -> None:
    with rethinkdb_server(memory) as (host, port), r.connect(host, port) as connection:
        feed, other = games.changes().run(connection), games.get(1).changes().run(connection)
        job = system.table("jobs").filter(lambda job: job["info"]["query"].match('"games"..changes'))
        answer = run(job.delete())
        with pytest.raises(ReqlOpIndeterminateError, match="Query terminated by the `rethinkdb"):
            feed.next(wait=5)
        memory.table("games").insert({"id": 1})

        assert 1 == answer["deleted"]
        assert {"id": 1} == other.next(wait=5)["new_val"]


def test_a_query_that_ends_itself_is_told_so(run: Any) -> None:
    with pytest.raises(ReqlOpIndeterminateError, match="Query terminated"):
        run(system.table("jobs").delete())


def test_no_job_is_left_behind(memory: Any, run: Any) -> None:
    """Neither by queries that fail, nor by streams that are read to their end, nor by clients that go."""
    memory.table("games").insert([{"id": number} for number in range(50)])
    with rethinkdb_server(memory) as (host, port):
        with r.connect(host, port) as connection:
            games.changes().run(connection)
            list(games.run(connection, max_batch_rows=5))
            with pytest.raises(ReqlQueryLogicError):
                r.expr(1).div(0).run(connection)
            assert 2 == len(run(system.table("jobs")))
        # The server notices in a moment that the client has gone.
        wait_until(lambda: len(run(system.table("jobs"))) == 1)


def test_a_session_that_is_dropped_leaves_no_job_and_keeps_no_database() -> None:
    db = reactdb.connect(":memory:")
    db.table_create("games").insert([{"id": 1}, {"id": 2}])
    session = Session(db)
    session.receive(1, b'[1,[15,["games"]],{"max_batch_rows":1}]')
    engine = weakref.ref(session_of(db).engine)
    assert 1 == len(jobs_of(db).list_running())

    del session
    gc.collect()
    assert [] == jobs_of(db).list_running()
    db.close()
    del db
    gc.collect()

    assert engine() is None


def test_stats_count_clients_and_queries(memory: Any, run: Any) -> None:
    def engine() -> Any:
        return run(system.table("stats").get(["cluster"])["query_engine"])

    before = engine()
    with rethinkdb_connection(memory) as other:
        r.expr(1).run(other)
        during = engine()

    assert 2 == during["client_connections"]
    assert 1 == engine()["client_connections"]
    assert before["queries_total"] + 2 == during["queries_total"]
    assert 1 == during["clients_active"]


# ---------------------------------------------------------------------------------------------------------------
# Setting up


def test_a_table_of_one_shard_is_reconfigured_and_rebalanced(run: Any) -> None:
    configured = run(games.config())

    answer = run(games.reconfigure(shards=1, replicas=1))

    assert 1 == answer["reconfigured"]
    assert [{"old_val": configured, "new_val": configured}] == answer["config_changes"]
    assert 1 == len(answer["status_changes"])
    tried = run(games.reconfigure(shards=1, replicas=1, dry_run=True))
    assert (0, False) == (tried["reconfigured"], "status_changes" in tried)
    assert 0 == run(games.rebalance())["rebalanced"]
    run(games.insert({"id": 1}))
    assert 1 == run(games.rebalance())["rebalanced"]
    assert (
        1
        == run(games.reconfigure(shards=1, replicas={"default": 1}, primary_replica_tag="default"))[
            "reconfigured"
        ]
    )


def test_a_database_is_reconfigured_as_its_tables_are(run: Any) -> None:
    run(r.table_create("rooms"))

    assert 2 == run(r.db("test").reconfigure(shards=1, replicas=1))["reconfigured"]
    assert 2 == len(run(r.db("test").rebalance())["status_changes"])
    assert {"ready": 2} == run(r.db("test").wait())


@pytest.mark.parametrize(
    ("error", "words", "query"),
    [
        (ReqlOpFailedError, "cannot have 3 shards", games.reconfigure(shards=3, replicas=1)),
        (ReqlOpFailedError, "Can't put 2 replicas", games.reconfigure(shards=1, replicas=2)),
        (ReqlQueryLogicError, "at least one shard", games.reconfigure(shards=0, replicas=1)),
        (ReqlQueryLogicError, "Missing required argument `shards`", games.reconfigure(replicas=1)),
        (ReqlQueryLogicError, "found STRING", games.reconfigure(shards="1", replicas=1)),
        (ReqlQueryLogicError, "no other replicas", games.reconfigure(emergency_repair="unsafe_rollback")),
        (ReqlOpFailedError, "special", system.reconfigure(shards=1, replicas=1)),
    ],
)
def test_what_needs_other_servers_is_refused(
    run: Any, error: type[Exception], words: str, query: Any
) -> None:
    with pytest.raises(error, match=words):
        run(query)


def test_a_tables_durability_is_set_and_kept(memory: Any, run: Any) -> None:
    """It is what the table's writes have that say nothing themselves; a table of that name that is made later begins anew."""
    hard = run(games.config())
    soft = {**hard, "durability": "soft"}

    answer = run(games.config().update({"durability": "soft"}, return_changes=True))

    assert (1, [{"old_val": hard, "new_val": soft}]) == (answer["replaced"], answer["changes"])
    assert 1 == run(games.config().update({"durability": "soft"}))["unchanged"]
    run(games.config().update({"name": "matches", "write_acks": "single"}))
    assert {**soft, "name": "matches", "write_acks": "single"} == run(r.table("matches").config())
    run(r.table_drop("matches"))
    run(r.table_create("matches"))
    assert "hard" == run(r.table("matches").config()["durability"])


@pytest.mark.parametrize("asked", ["soft", "hard"])
def test_writes_are_as_durable_as_their_table_says(
    memory: Any, run: Any, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    run(r.table_create("rooms", durability="soft"))
    chosen: list[Any] = []
    write = session_of(memory).write
    monkeypatch.setattr(
        session_of(memory),
        "write",
        lambda *given, **options: (chosen.append(options["durability"]), write(*given, **options))[1],
    )

    run(r.table("rooms").insert({"id": 1}))
    run(r.table("rooms").insert({"id": 2}, durability=asked))
    run(games.insert({"id": 1}))

    assert ["soft", asked, None] == chosen


def test_the_configuration_that_there_is_can_be_written_back(run: Any) -> None:
    """As scripts do that copy settings from one table to another."""
    config = run(games.config().without("id"))

    assert 1 == run(games.config().update(config))["unchanged"]
    shards = [{"primary_replica": "reactdb", "replicas": ["reactdb"]}]
    assert 1 == run(games.config().update({"shards": shards}))["unchanged"]
    everywhere = system.table("table_config").filter({"db": "test"}).update({"durability": "soft"})
    assert 1 == run(everywhere)["replaced"]


@pytest.mark.parametrize(
    ("words", "patch"),
    [
        ("not: primary_key", {"primary_key": "x", "durability": "soft"}),
        ("not: shards", {"shards": []}),
        ("Durability option `firm` unrecognized", {"durability": "firm"}),
        ("Write acks option `all` unrecognized", {"write_acks": "all"}),
        ("Expected type STRING but found NUMBER", {"name": 5}),
    ],
)
def test_what_cannot_be_configured_changes_nothing(run: Any, words: str, patch: Any) -> None:
    before = run(games.config())

    with pytest.raises(ReqlQueryLogicError, match=words):
        run(games.config().update(patch))

    assert before == run(games.config())


def test_a_database_that_is_dropped_takes_hooks_and_settings_along(run: Any) -> None:
    rooms = r.db("arena").table("rooms")
    for _ in range(2):
        run(r.db_create("arena"))
        run(r.db("arena").table_create("rooms"))
        assert (None, "hard") == (run(rooms.get_write_hook()), run(rooms.config()["durability"]))
        run(rooms.set_write_hook(lambda context, old, new: new.merge({"hooked": True})))
        run(rooms.config().update({"durability": "soft"}))
        run(r.db_drop("arena"))


def test_a_write_hook_is_set_again_from_what_was_got(run: Any) -> None:
    run(games.set_write_hook(lambda context, old, new: new.merge({"by": context["primary_key"]})))
    hook = run(games.get_write_hook())
    run(games.set_write_hook(None))

    run(games.set_write_hook(hook["function"]))
    run(games.insert({"id": 3}))

    assert {"id": 3, "by": 3} == run(games.get(3))
    assert hook == run(games.config()["write_hook"])
    assert hook["query"].startswith("setWriteHook(function(")
