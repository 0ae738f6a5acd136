"""Code that does not do what it seems to is refused with the right form, or gets a hint in `explain()` and once in the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from typing import Any

import pytest

import reactdb
from reactdb import InvalidOption, asc, desc, literal, maxval, minval, r, row
from reactdb.documents.hints import MOST_PLACES
from reactdb.errors import QueryError


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, "reactdb"):
        yield caplog


@pytest.fixture
def events(db: Any) -> Any:
    """A hundred documents with times, numbers, texts and lists, and indexes on the times and the lists."""
    table = db.table_create("events")
    table.index_create("at")
    table.index_create("tags", multi=True)
    table.index_create("pair", [row["n"], row["kind"]])
    table.insert(
        [
            {
                "id": n,
                "at": datetime(2026, 1, 1 + n % 28, tzinfo=UTC),
                "day": datetime(2026, 1, 1 + n % 28, tzinfo=UTC),
                "n": n,
                "kind": "a",
                "tags": ["a", "b"],
                "gone": None,
            }
            for n in range(100)
        ]
    )
    return table


def warnings(log: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in log.records if record.levelno == logging.WARNING]


# ---------------------------------------------------------------------------------------------------------------
# Refused: a sign before a name


@pytest.mark.parametrize(
    "order",
    [
        lambda t: t.order_by("-score"),
        lambda t: t.order_by("id", "-score"),
        lambda t: t.order_by(desc("-score")),
        lambda t: t.order_by(asc("-score")),
        lambda t: t.map(row["list"].order_by("-score")),
    ],
)
def test_a_sign_before_the_name_of_a_field_is_refused(games: Any, order: Callable[[Any], Any]) -> None:
    with pytest.raises(
        QueryError, match=r"write desc\('score'\); for a field with the name '-score', row\['-score'\]"
    ):
        order(games)


def test_a_sign_before_the_name_of_an_index_is_refused(games: Any) -> None:
    with pytest.raises(InvalidOption, match=r"write index=desc\('score'\)"):
        games.order_by(index="-score")


def test_a_field_may_have_a_name_that_begins_with_a_sign(games: Any) -> None:
    games.insert([{"id": 1, "-score": 2}, {"id": 2, "-score": 1}])

    assert [2, 1] == games.order_by(row["-score"])["id"].run()
    assert [1, 2] == games.order_by(desc(row["-score"]))["id"].run()


# ---------------------------------------------------------------------------------------------------------------
# Refused: operators in a patch


@pytest.mark.parametrize(
    ("patch", "spelling"),
    [
        ({"a": {"$inc": 1}}, "{'a': row['a'] + 1}"),
        ({"$inc": {"a": 1}}, "{'a': row['a'] + 1}"),
        ({"b": 2, "a": {"$mul": 3}}, "{'a': row['a'] * 3}"),
        ({"$set": {"a": 1}}, "{'a': 1}"),
        ({"$push": {"tags": "new"}}, "{'tags': row['tags'].append('new')}"),
        ({"a": {"b": {"$unset": ""}}}, "{'a': {'b': literal()}}"),
        ({"a": row["a"] + 1, "b": {"$addToSet": 4}}, "{'b': row['b'].set_insert(4)}"),
        ({"$currentDate": {"at": True}}, "{'at': r.now()}"),
        ({"a": {"$add": ["$a", 1]}}, "an expression of row"),
        ({"$unknown": 5}, "an expression of row"),
        ({"$unset": "a"}, "an expression of row"),
    ],
)
def test_an_operator_in_a_patch_is_refused_wherever_a_patch_is_given(
    db: Any, games: Any, patch: Any, spelling: str
) -> None:
    games.insert([{"id": 1, "a": 1}, {"id": 2, "a": 1}])
    before = games.run()

    def refused(update: Callable[[], Any]) -> None:
        with pytest.raises(QueryError) as caught:
            update()
        assert spelling in str(caught.value)
        assert "r.expr({...}), or use replace" in str(caught.value)

    refused(lambda: games.update(patch))
    refused(lambda: games.filter(row["a"] == 1).update(patch))
    refused(lambda: games.get(1).update(patch))
    refused(lambda: games.get(1).update(lambda document: patch))
    refused(lambda: games.update(lambda document: patch))
    with db.transaction():
        refused(lambda: games.get(1).update(patch))
    assert before == games.run()


def test_the_spellings_of_the_refusal_do_what_was_meant(games: Any) -> None:
    games.insert({"id": 1, "a": 5, "tags": ["x"], "b": {"c": 1}})
    meant = {
        "$inc": ({"a": 1}, 6),
        "$mul": ({"a": 2}, 12),
        "$min": ({"a": 3}, 3),
        "$max": ({"a": 9}, 9),
        "$set": ({"a": "set"}, "set"),
        "$push": ({"tags": "y"}, ["x", "y"]),
        "$addToSet": ({"tags": "y"}, ["x", "y"]),
        "$pull": ({"tags": "x"}, ["y"]),
    }
    for operator, (operand, wanted) in meant.items():
        with pytest.raises(QueryError) as caught:
            games.update({operator: operand})
        spelling = str(caught.value).partition(": write ")[2].partition("; to store")[0]
        games.update(eval(spelling, {"row": row, "r": r, "literal": literal}))
        (field,) = operand
        assert wanted == games.get(1).run()[field]


def test_documents_may_have_names_that_begin_with_a_dollar(db: Any, games: Any) -> None:
    """They are data of other systems' users."""
    stored = {"id": 1, "$schema": "x", "ref": {"$ref": "games", "$id": 5}, "steps": [{"$inc": 1}]}
    games.insert(stored)
    games.get(2).replace({**stored, "id": 2})
    games.insert({"id": 1, "more": {"$date": 3}}, conflict="update")

    assert {**stored, "more": {"$date": 3}} == games.get(1).run()
    assert {**stored, "id": 2} == games.get(2).run()
    assert [1, 2] == games.filter({"ref": {"$id": 5}})["id"].run()
    assert [1, 2] == games.filter(row["$schema"] == "x")["id"].run()


def test_such_names_can_be_patched_on_purpose(games: Any) -> None:
    games.insert({"id": 1, "$schema": "x", "m": {"a": 1}})

    games.get(1).update(r.expr({"$schema": "y", "m": {"$ref": 2}}))
    games.get(1).update({"n": literal({"$ref": 3}), "l": [{"$inc": 1}]})

    assert {
        "id": 1,
        "$schema": "y",
        "m": {"a": 1, "$ref": 2},
        "n": {"$ref": 3},
        "l": [{"$inc": 1}],
    } == games.get(1).run()


def test_a_dollar_elsewhere_in_a_name_is_nothing_special(games: Any) -> None:
    games.insert({"id": 1})

    games.get(1).update({"us$": 5, "price": {"in_$": 6}})

    assert {"id": 1, "us$": 5, "price": {"in_$": 6}} == games.get(1).run()


def test_a_patch_that_holds_itself_is_refused_as_ever(games: Any) -> None:
    games.insert({"id": 1})
    patch: dict[str, Any] = {"a": {}}
    patch["a"]["b"] = patch["a"]

    with pytest.raises(reactdb.UsageError):
        games.update(patch)


# ---------------------------------------------------------------------------------------------------------------
# Hinted at

# A selection of `events`, and what its hint says.
MISTAKES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "text and times by an index": (
        lambda t: t.filter(row["at"] > "2026-01-02"),
        "index `at` has only PTYPE<TIME>",
    ),
    "day and times by an index": (
        lambda t: t.filter(row["at"] > date(2026, 1, 2)),
        "compares with a PTYPE<DATE>",
    ),
    "text and times": (lambda t: t.filter(row["day"] > "2026-01-02"), "the field has only PTYPE<TIME>"),
    "times on the right": (
        lambda t: t.filter(r.expr("2026-01-02") < row["day"]),
        "the field has only PTYPE<TIME>",
    ),
    "one of two": (lambda t: t.filter((row["day"] > "2026") | (row["n"] == 5)), "row['day'] > '2026'"),
    "in a dict": (lambda t: t.filter({"at": "2026-01-02"}), "row['at'] == '2026-01-02'"),
    "text and numbers": (lambda t: t.filter(row["n"] == "5"), "the field has only NUMBER"),
    "not equal": (lambda t: t.filter(row["n"] != "5"), "the field has only NUMBER"),
    "primary key": (lambda t: t.filter(row["id"] == "5"), "the primary key has only NUMBER"),
    "a list": (lambda t: t.filter(row["tags"] == "a"), "To look inside of a list, use contains"),
    "list of keys": (lambda t: t.get_all([1, 2, 3]), "write get_all(1, 2, 3) or get_all(*keys)"),
    "list of index keys": (lambda t: t.get_all(["a", "b"], index="tags"), "index `tags` has no list"),
    "keys of another type": (lambda t: t.get_all("1", "2"), "the primary key has only NUMBER"),
    "range of another type": (
        lambda t: t.between("2026", maxval, index="at"),
        "index `at` has only PTYPE<TIME>",
    ),
    "operator in a dict": (lambda t: t.filter({"n": {"$gt": 5}}), "for a condition write row['n'] > 5"),
    "operator of conditions": (
        lambda t: t.filter({"$or": [{"n": 1}]}),
        "for a condition write (...) | (...)",
    ),
}


@pytest.mark.parametrize(("make", "words"), MISTAKES.values(), ids=MISTAKES)
def test_explain_has_a_hint(events: Any, make: Callable[[Any], Any], words: str) -> None:
    (hint,) = make(events).explain()["hints"]
    assert words in hint
    assert [hint] == make(events).changes().explain()["hints"]


@pytest.mark.parametrize(("make", "words"), MISTAKES.values(), ids=MISTAKES)
def test_the_log_has_the_hint_once_for_each_line_that_asks(
    events: Any, log: pytest.LogCaptureFixture, make: Callable[[Any], Any], words: str
) -> None:
    for _ in range(5):
        make(events).run()
    line = here() - 1
    assert 1 == len(warnings(log))
    assert words in warnings(log)[0]
    assert warnings(log)[0].startswith("table 'events': ")
    assert warnings(log)[0].endswith(f"({__file__}:{line})")

    list(make(events))
    assert 2 == len(warnings(log))


def here() -> int:
    import sys

    return sys._getframe(1).f_lineno


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t,
        lambda t: t.filter(row["at"] > datetime(2026, 1, 2, tzinfo=UTC)),
        lambda t: t.filter(row["at"] > r.iso8601("2026-01-02T00:00:00Z")),
        lambda t: t.filter(row["n"] == 5.5),
        lambda t: t.filter(row["kind"] == "none of this name"),
        lambda t: t.filter(row["gone"] == "not yet"),
        lambda t: t.filter(row["n"] == None),  # noqa: E711
        lambda t: t.filter(row["none"] == 5),
        lambda t: t.filter({"kind": "a", "n": 500}),
        lambda t: t.filter(lambda document: document["n"] == "5"),
        lambda t: t.filter(row["tags"].contains("none")),
        lambda t: t.filter(row["tags"] == ["none"]),
        lambda t: t.get_all(500),
        lambda t: t.get_all(500, "x"),
        lambda t: t.get_all([5, "none"], index="pair"),
        lambda t: t.get_all("none", index="tags"),
        lambda t: t.between(minval, maxval, index="at"),
        lambda t: t.between(500, maxval),
        lambda t: t.order_by("n"),
        lambda t: t.order_by(index="at"),
        lambda t: t.map(row["n"]).filter(row == "x"),
        lambda t: t.get(500),
    ],
)
def test_what_may_be_meant_has_no_hint(
    events: Any, log: pytest.LogCaptureFixture, make: Callable[[Any], Any]
) -> None:
    make(events).run()

    assert [] == make(events).explain()["hints"]
    assert [] == warnings(log)


def test_nothing_is_said_of_an_empty_table(games: Any, log: pytest.LogCaptureFixture) -> None:
    for make in (lambda: games.filter(row["at"] > "2026"), lambda: games.order_by("nope")):
        make().run()
        assert [] == make().explain()["hints"]
    assert [] == warnings(log)


def test_a_line_is_looked_at_again_when_the_table_has_been_filled(
    games: Any, log: pytest.LogCaptureFixture
) -> None:
    for number in range(5):
        games.filter(row["at"] > "2026").run()
        games.insert({"id": number, "at": datetime(2026, 1, 2, tzinfo=UTC)})

    assert 1 == len(warnings(log))


def test_a_list_among_the_keys_is_a_key(games: Any, log: pytest.LogCaptureFixture) -> None:
    games.insert([{"id": [1, 2]}, {"id": 3}])

    assert [{"id": [1, 2]}] == games.get_all([1, 2]).run()
    assert [] == games.get_all([1, 3]).run()
    assert [] == games.get_all([1, 3]).explain()["hints"]
    assert [] == warnings(log)


def test_a_field_that_no_document_has_is_a_hint_to_who_asks(
    events: Any, log: pytest.LogCaptureFixture
) -> None:
    """Perhaps none has it yet: the log is left alone."""
    events.order_by("nope").run()

    (hint,) = events.order_by(desc("nope"), "n").limit(3).explain()["hints"]
    assert "order_by sorts by row['nope'], and no document has that field" in hint
    assert [] == warnings(log)


def test_what_is_not_found_out_in_the_first_documents_is_said_of_them_only(games: Any) -> None:
    games.insert([{"id": n, "a": n} for n in range(1_001)])

    assert "none of the first 1000 documents has that field" in games.order_by("nope").explain()["hints"][0]
    assert (
        "in the first 1000 documents the field has only NUMBER"
        in games.filter(row["a"] == "x").explain()["hints"][0]
    )


def test_a_key_of_another_type_is_a_hint(events: Any) -> None:
    assert (
        "get('5') asks for STRING, and the primary key has only NUMBER"
        in events.get("5").explain()["hints"][0]
    )


def test_the_members_of_a_union_have_their_hints(events: Any) -> None:
    assert 1 == len(events.get_all(1).union(events.filter(row["at"] > "2026")).explain()["hints"])


def test_writes_and_feeds_are_looked_at_too(events: Any, log: pytest.LogCaptureFixture) -> None:
    """A delete of everything after a day, where a text was written for it, deletes nothing; by a date, all."""
    events.filter(row["at"] > "2026-01-02").delete()
    events.filter(row["at"] > "2026-01-02").update({"late": True})
    events.filter(row["at"] > "2026-01-02").changes()
    events.filter(row["at"] > date(2026, 1, 2)).delete()

    assert 4 == len(warnings(log))
    assert 0 == events.count().run()


def test_the_past_has_hints(db: Any, events: Any) -> None:
    past = db.at(db.seq)

    assert 1 == len(past.table("events").filter(row["at"] > "2026").explain()["hints"])


def test_a_query_is_examined_once_for_each_line(events: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Any] = []
    monkeypatch.setattr("reactdb.documents.hints.hints", lambda *arguments: looked.append(arguments) or [])

    for _ in range(100):
        events.filter(row["n"] == 5).run()

    assert 1 == len(looked)


def test_a_program_of_very_many_lines_is_not_kept_in_mind(events: Any) -> None:
    for number in range(MOST_PLACES + 10):
        exec(compile("events.get_all(5).run()", f"line {number}", "exec"), {"events": events})

    assert MOST_PLACES == len(events._session.hints._examined)


def test_a_hint_that_fails_does_not_fail_the_query(events: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr("reactdb.documents.hints.hints", broken)

    assert [5] == events.filter(row["n"] == 5)["n"].run()
