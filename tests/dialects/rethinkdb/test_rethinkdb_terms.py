"""ReQL terms that a small application needs, run with the official driver; and values on the wire."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

import pytest
import rethinkdb
from rethinkdb.errors import (
    ReqlNonExistenceError,
    ReqlOpFailedError,
    ReqlQueryLogicError,
    ReqlResourceLimitError,
    ReqlServerCompileError,
    ReqlTimeoutError,
)

from reactdb.testing import rethinkdb_connection

r = rethinkdb.RethinkDB()
games = r.table("games")


@pytest.fixture
def run(run: Any) -> Any:
    run(games.insert([{"id": 1, "room": "a", "score": 5}, {"id": 2, "room": "b", "score": 7}]))
    run(games.insert({"id": 3, "room": "a", "score": 9, "tags": ["x", "y"]}))
    return run


@pytest.mark.parametrize(
    ("expected", "query"),
    [
        (21, games.sum("score")),
        (7, games.avg("score")),
        (3, games.count()),
        (2, games.count(r.row["room"] == "a")),
        (9, games.max("score")["score"]),
        (5, games.min("score")["score"]),
        (21, games["score"].reduce(lambda one, other: one + other)),
        ({"a": 2, "b": 1}, games.group("room").count()),
        ([{"group": "a", "reduction": 14}, {"group": "b", "reduction": 7}], games.group("room").sum("score").ungroup()),
        (["a", "b"], games["room"].distinct()),
        ([1, 2, 3], games.order_by("score")["id"]),
        ([3, 2], games.order_by(r.desc("score")).limit(2)["id"]),
        ([3], games.filter(r.row["tags"].contains("x"))["id"]),
        ([{"id": 1}], games.filter({"score": 5}).pluck("id")),
        ([6, 8, 10], games.order_by("id").map(r.row["score"] + 1)),
        (["x", "y"], games.concat_map(lambda game: game["tags"].default([]))),
        ([[0, 5], [5, 12], [12, 21]], games.order_by("id").fold(
            0, lambda total, game: total + game["score"], emit=lambda before, game, after: [[before, after]]
        )),
        ({"id": 1, "room": "a", "score": 5, "best": True}, games.get(1).merge({"best": True})),
        ("high", games.get(3).do(lambda game: r.branch(game["score"] > 8, "high", "low"))),
        (None, games.get(99)),
        (0, games.get(99)["score"].default(0)),
        ([3, 4], r.range(3, 5)),
        ([[1, "a"], [2, "b"]], r.map([1, 2], ["a", "b"], lambda one, other: [one, other])),
        (["b", "c"], r.expr(["a", "b", "c"])[1:]),
        ("hello", r.expr("HELLO").downcase()),
        (["a", "b"], r.expr("a,b").split(",")),
        (True, r.expr("reactdb").match("^re").ne(None)),
        (2.5, r.expr(5) / 2),
        ({"a": {"b": 1, "c": 2}}, r.expr({"a": {"b": 1}}).merge({"a": {"c": 2}})),
        ([1, 2, 3], r.args([1, 2, 3])),
        ("PTYPE<TIME>", r.now().type_of()),
        (2026, r.iso8601("2026-11-21T10:00:00+00:00").year()),
        (0, r.epoch_time(0).to_epoch_time()),
        ("TABLE", games.type_of()),
        ("games", games.info()["name"]),
        (False, games.is_empty()),
        ([{"left": {"id": 1, "k": 3}, "right": {"id": 3}}], r.expr([{"id": 1, "k": 3}]).eq_join("k", games)
            .map(lambda pair: pair.merge({"right": r.literal(pair["right"].pluck("id"))}))),
        (1, r.monday),
        # Arrays, where the real server has arrays: what is made of an unindexed order or of a sample.
        ([1, 2, 3, 9], games.order_by("id")["id"].add([9])),
        ([{"id": 1}, {"id": 2}, {"id": 3}, 9], games.order_by("id").pluck("id").append(9)),
        ([1, 2, 3, 9], games.order_by("id").map(r.row["id"]).add([9])),
        ([1, 3, 9], games.filter({"room": "a"}).order_by("id").get_field("id").add([9])),
        ([3, 9], games.order_by("id").skip(2)["id"].add([9])),
        ([0, 2, 9], games.order_by("id").offsets_of(lambda game: game["room"] == "a").add([9])),
        (["x", "y", 9], games.order_by("id").concat_map(r.row["tags"].default([])).add([9])),
        ([[1], [2], 9], games.order_by("id").limit(2).fold(
            0, lambda total, game: total, emit=lambda before, game, after: [[game["id"]]]
        ).add([9])),
        ([1, 2, 3, 7], games.order_by("id").union([{"id": 7}])["id"].coerce_to("array")),
        ([1, 2, 3, 3, 9], (games.order_by("id")["id"]).union(games.order_by("id").filter({"score": 9})["id"]).add([9])),
        ([[1, 5], [2, 7], [3, 9]], r.map(games.order_by("id"), [5, 7, 9], lambda game, score: [game["id"], score]).add([])),
        ([{"id": 1, "all": [1, 2, 3, 9]}], games.get_all(1).pluck("id").merge(
            lambda game: {"all": games.order_by("id")["id"].add([9])}
        )),
        (2, games.sample(2)["id"].do(lambda ids: (ids + ids).count() / 2)),
        ([1, 1], r.expr([{"k": 1}]).eq_join("k", games)["right"]["id"].add([1])),
        ("ARRAY", games.order_by("id")["id"].type_of()),
        ("ARRAY", games.sample(2)["id"].type_of()),
        ("SELECTION<ARRAY>", games.sample(2).filter({}).limit(1).type_of()),
        ("SELECTION<ARRAY>", games.order_by("id").filter({}).limit(1).has_fields("id").type_of()),
        ("SELECTION<OBJECT>", games.sample(1)[0].type_of()),
        ("SELECTION<STREAM>", games.order_by("room", index="id").type_of()),
        ("STREAM", games.order_by(index="id")["id"].type_of()),
        # A bound is the key of nothing.
        (None, games.get(r.minval)),
        (None, games.get([r.maxval])),
    ],
)  # fmt: skip
def test_a_term_gives_what_rethinkdb_gives(run: Any, expected: Any, query: Any) -> None:
    assert expected == run(query)


def test_times_binaries_and_uuids_survive_the_wire(run: Any) -> None:
    moment = datetime.datetime(2026, 11, 21, 10, 0, 0, 123000, tzinfo=r.make_timezone("+01:00"))
    run(games.insert({"id": 10, "at": moment, "data": r.binary(b"\x00\xff")}))

    found = run(games.get(10))

    assert moment == found["at"]
    assert b"\x00\xff" == found["data"]
    assert uuid.UUID(run(r.uuid()))
    assert run(r.uuid("games")) == run(r.uuid("games"))


def test_a_native_document_of_other_types_can_be_read(memory: Any, run: Any) -> None:
    """What RethinkDB has no type for is shown as what comes nearest."""
    from decimal import Decimal

    name = uuid.uuid4()
    memory.table("games").insert(
        {"id": 20, "price": Decimal("1.5"), "name": name, "day": datetime.date(2026, 1, 2)}
    )

    assert {"id": 20, "price": 1.5, "name": str(name), "day": "2026-01-02"} == run(games.get(20))


def test_an_index_serves_drivers_and_native_code(memory: Any, run: Any) -> None:
    run(games.index_create("score"))
    run(games.index_create("both", [r.row["room"], r.row["score"]]))
    run(games.index_wait())

    assert [2, 3] == run(games.between(6, 20, index="score").order_by(index="score")["id"])
    assert [1] == run(games.get_all(["a", 5], index="both")["id"])
    assert ["both", "score"] == memory.table("games").index_list()
    assert 3 == memory.table("games").order_by(index="score").run()[-1]["id"]


def test_an_index_is_made_again_from_its_binary(run: Any) -> None:
    run(games.index_create("double", lambda game: game["score"] * 2))
    function = run(games.index_status("double"))[0]["function"]
    run(games.index_drop("double"))

    run(games.index_create("double", r.binary(function)))

    assert [2] == run(games.get_all(14, index="double")["id"])


def test_an_index_can_be_renamed(run: Any) -> None:
    run(games.index_create("score"))
    run(games.index_rename("score", "points"))

    assert ["points"] == run(games.index_list())
    assert [2] == run(games.get_all(7, index="points")["id"])


@pytest.mark.parametrize("name", ["", "x" * 256, "\x1b[31mred", "two\nlines"])
def test_an_index_has_a_name_that_can_be_shown(run: Any, name: str) -> None:
    run(games.index_create("by room & größe", r.row["room"]))

    for query in (games.index_create(name), games.index_rename("by room & größe", name)):
        with pytest.raises(ReqlQueryLogicError, match="characters that can be printed"):
            run(query)
    assert ["by room & größe"] == run(games.index_list())


def test_a_write_counts_what_fails_and_writes_the_rest(run: Any) -> None:
    result = run(games.insert([{"id": 1}, {"id": 50}, {"id": None}]))

    assert (1, 2) == (result["inserted"], result["errors"])
    assert {"id": 50} == run(games.get(50))


def test_a_statement_is_one_commit(memory: Any, run: Any) -> None:
    before = memory.seq
    run(games.update({"round": 1}))

    changes = list(memory.log(since=before))
    assert 3 == len(changes)
    assert 1 == len({change.commit for change in changes})


@pytest.mark.parametrize(
    ("error", "message", "query"),
    [
        (ReqlNonExistenceError, "No attribute `nope`", games.get(1)["nope"]),
        (ReqlOpFailedError, "Table `test.nope` does not exist", r.table("nope")),
        (ReqlQueryLogicError, "Cannot divide by zero", r.expr(1) / 0),
        (ReqlQueryLogicError, "JavaScript", r.js("1")),
        (ReqlServerCompileError, "`circle`", r.circle([1, 1], 5)),
        (ReqlQueryLogicError, "infinite stream", r.range().count()),
        (ReqlQueryLogicError, "must be of type DATUM", r.db("test")),
    ],
)
def test_an_error_has_rethinkdbs_kind_and_says_what_is_wrong(
    run: Any, error: type[Exception], message: str, query: Any
) -> None:
    with pytest.raises(error, match=message):
        run(query)


@pytest.mark.parametrize(
    ("frames", "message", "query"),
    [
        ([0, 0], "eager stream", games.offsets_of(lambda game: game["room"] == "a").changes()),
        ([0, 0, 0], "eager stream", games.filter({"room": "a"}).offsets_of(r.row["score"] > 1).changes()),
        ([0], "eager stream", games.order_by("id").offsets_of(r.row["score"] > 1).changes()),
        ([0], "eager stream", games.order_by("id")["id"].changes()),
        ([0], "eager stream", games.sample(2)["id"].changes()),
        ([], "Invalid return_changes value `sometimes`", games.delete(return_changes="sometimes")),
        ([], "Invalid return_changes value `sometimes`", games.update({}, return_changes="sometimes")),
        ([], "Cannot convert NUMBER to SEQUENCE", games.insert(5)),
        ([0], "Cannot convert NUMBER to SEQUENCE", games.insert(5).merge({})),
        ([], "Cannot convert STRING to SEQUENCE", r.expr("a").map(lambda one: one)),
        ([0], "Cannot convert NUMBER to SEQUENCE", r.expr(5).distinct().count()),
        ([0], "Expected type SEQUENCE but found SINGLE_SELECTION", games.get(1).map(lambda one: one)),
        ([0], "Expected type DATUM but found SELECTION", games.order_by("id").add([9])),
        ([], "Unknown Type: LIST", games.coerce_to("list")),
        ([0], "Expected type DATUM but found SEQUENCE", games.order_by(index="id")["id"].add([9])),
    ],
)
def test_an_error_blames_the_term_that_rethinkdb_blames(
    run: Any, frames: list[Any], message: str, query: Any
) -> None:
    with pytest.raises(ReqlQueryLogicError, match=message) as caught:
        run(query)

    assert frames == list(caught.value.frames)


def test_an_array_is_no_longer_than_the_limit(run: Any) -> None:
    with pytest.raises(ReqlResourceLimitError, match="Array over size limit `2`"):
        run(games.order_by("id")["id"], array_limit=2)

    assert [1, 2, 3] == run(games.order_by("id")["id"], array_limit=3)


def test_a_sample_of_a_table_can_be_written(memory: Any, run: Any) -> None:
    assert 2 == run(games.sample(3).limit(2).update({"seen": True}))["replaced"]
    assert 2 == memory.table("games").has_fields("seen").count().run()
    assert 1 == run(games.order_by("id").nth(0).update({"first": True}))["replaced"]


# ---------------------------------------------------------------------------------------------------------------
# for_each


def test_databases_tables_and_indexes_are_made_in_a_for_each(run: Any) -> None:
    """As RethinkDB's tool for importing makes those that are missing."""
    made = run(r.expr(["arena", "test", "hall"]).set_difference(r.db_list()).for_each(r.db_create(r.row)))
    tables = run(r.expr(["rooms", "doors"]).for_each(lambda name: r.db("arena").table_create(name)))
    indexes = run(r.expr(["score", "room"]).for_each(lambda name: games.index_create(name)))

    assert (2, ["arena", "hall"]) == (
        made["dbs_created"],
        sorted(change["new_val"]["name"] for change in made["config_changes"]),
    )
    assert (2, 2) == (tables["tables_created"], len(tables["config_changes"]))
    assert {"created": 2} == indexes
    assert ["arena", "hall", "rethinkdb", "test"] == run(r.db_list())
    assert ["doors", "rooms"] == run(r.db("arena").table_list())
    assert ["room", "score"] == run(games.index_list())
    assert {"dropped": 2} == run(r.expr(["score", "room"]).for_each(lambda name: games.index_drop(name)))
    assert 2 == run(r.expr(["arena", "hall"]).for_each(lambda name: r.db_drop(name)))["dbs_dropped"]


def test_the_answers_of_a_for_each_are_added_up(run: Any) -> None:
    both = run(
        r.expr([1, 2, 77]).for_each(
            lambda key: [
                games.get(key).update({"seen": True}, return_changes=True),
                games.insert({"id": key}),
            ]
        )
    )

    assert (2, 1, 1, 2) == (both["replaced"], both["skipped"], both["inserted"], both["errors"])
    assert 2 == len(both["changes"])
    assert both["first_error"].startswith("Duplicate primary key `id`")
    assert {} == run(r.expr([]).for_each(lambda key: games.insert({"id": key})))
    # No function: it is carried out once, and counts each time.
    assert 2 == run(r.expr([1, 2]).for_each(games.insert({"id": 78})))["inserted"]
    assert 1 == run(games.filter({"id": 78}).count())


def test_the_lists_of_a_for_each_are_as_long_as_arrays_may_be(run: Any) -> None:
    answer = run(
        games.for_each(lambda game: games.get(game["id"]).update({"seen": True}, return_changes=True)),
        array_limit=2,
    )

    assert (3, 2) == (answer["replaced"], len(answer["changes"]))
    assert ["Too many changes, array truncated to 2."] == answer["warnings"]


@pytest.mark.parametrize(
    ("frames", "message", "query"),
    [
        ([1, 1], "Expected type ARRAY but found NUMBER", r.expr([1]).for_each(lambda one: one)),
        ([1, 1], "basic write queries", r.expr([1]).for_each(lambda one: games)),
        ([], "Expected type OBJECT but found NUMBER", r.expr([1]).for_each(lambda one: [one])),
        ([], "Cannot merge statistics `1`", r.expr([1, "a"]).for_each(lambda one: {"n": one})),
    ],
)
def test_what_is_no_write_is_refused_in_a_for_each(
    run: Any, frames: list[Any], message: str, query: Any
) -> None:
    with pytest.raises(ReqlQueryLogicError, match=message) as caught:
        run(query)

    assert str(caught.value).startswith("FOR_EACH expects one or more basic write queries")
    assert frames == list(caught.value.frames)


# ---------------------------------------------------------------------------------------------------------------
# run


def test_a_profile_says_what_was_evaluated(run: Any) -> None:
    one = run(games.get(1)["score"], profile=True)
    several = run(games.filter({"room": "a"}), profile=True)
    none = run(games.get(1)["score"], profile=False)

    assert (5, 5) == (one["value"], none)
    (bracket,) = one["profile"]
    assert "Evaluating bracket." == bracket["description"]
    assert ["Evaluating get."] == [task["description"] for task in bracket["sub_tasks"]]
    assert bracket["duration(ms)"] >= bracket["sub_tasks"][0]["duration(ms)"] >= 0
    assert [1, 3] == [game["id"] for game in several["value"]]
    assert "Reading the first batch." == several["profile"][-1]["description"]


def test_a_profile_has_an_end(run: Any) -> None:
    found = run(r.range(3_000).map(lambda one: games.count() + one).sum(), profile=True)

    assert 3 * 3_000 + sum(range(3_000)) == found["value"]
    assert len(repr(found["profile"])) < 200_000


def test_a_feed_of_a_key_that_nothing_has_is_silent(memory: Any) -> None:
    """RethinkDB takes its bounds for keys that can be looked for."""
    with rethinkdb_connection(memory) as connection:
        feeds = [
            games.get(key).changes(include_initial=True, include_states=True).run(connection)
            for key in (r.minval, r.maxval, [1, r.minval])
        ]
        memory.table("games").insert([{"id": 1}, {"id": [1, 2]}])

        for feed in feeds:
            told = [feed.next(wait=1) for _ in range(3)]
            assert [{"state": "initializing"}, {"new_val": None}, {"state": "ready"}] == told
            with pytest.raises(ReqlTimeoutError):
                feed.next(wait=False)
        assert 1 == games.get(r.minval).update({"a": 1}).run(connection)["skipped"]
        assert 1 == games.get(r.minval).replace({"id": 5}).run(connection)["errors"]


def test_an_error_points_at_the_term(run: Any) -> None:
    with pytest.raises(ReqlQueryLogicError) as caught:
        run(r.expr([1, "a"]).map(lambda one: one + 1))

    assert [1, 1] == list(caught.value.frames)


def test_array_limit_bounds_arrays(run: Any) -> None:
    with pytest.raises(ReqlResourceLimitError, match="Array over size limit `2`"):
        run(games.coerce_to("array"), array_limit=2)


def test_a_write_hook_sees_every_write_of_a_driver(run: Any) -> None:
    run(games.set_write_hook(lambda context, old, new: new.merge({"checked": True})))

    run(games.insert({"id": 30}))

    assert {"id": 30, "checked": True} == run(games.get(30))


def test_a_renamed_table_keeps_its_documents_its_feeds_and_its_hook(memory: Any, run: Any) -> None:
    run(games.set_write_hook(lambda context, old, new: new.merge({"checked": True})))
    heard: list[Any] = []
    memory.table("games").changes().subscribe(heard.append)

    run(games.config().update({"name": "matches"}))
    run(r.table("matches").insert({"id": 40}))

    assert ["matches"] == run(r.table_list())
    assert 4 == memory.table("matches").count().run()
    assert [{"id": 40, "checked": True}] == [event["new_val"] for event in heard]
    with pytest.raises(ReqlQueryLogicError, match="can change, not: primary_key"):
        run(r.table("matches").config().update({"primary_key": "x"}))
