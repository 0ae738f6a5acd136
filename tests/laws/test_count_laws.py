"""Laws of counts: a number that comes from the entries of an index is the number of the documents that are read.

Whatever the documents, the conditions and the index; in a transaction with writes that are not flushed, in the present and in
the past; and a feed of a count that begins with such a number goes on as one that has read the documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reactivex.scheduler import VirtualTimeScheduler

import reactdb
from reactdb import desc, maxval, minval, row
from reactdb.documents import index_values
from reactdb.documents import read as read_module
from reactdb.expression import as_predicate, call_node, expr
from reactdb.expression.build import Expression
from reactdb.expression.exact_ranges import find_exact_ranges
from reactdb.feeds.views.select import SelectView
from reactdb.feeds.views.source import Source
from reactdb.store.catalogue import HIDDEN_VALUE_BYTES
from reactdb.values.collation import EQUALS, index_key_bytes, key_bytes
from tests.laws.test_expression_laws import conditions as any_conditions
from tests.laws.test_expression_laws import documents, passes, values
from tests.laws.test_index_laws import BOUNDS, NAN, ODD, answer, keyed
from tests.support.replica import exactly
from tests.support.scaling import examples


@pytest.fixture(scope="module", autouse=True)
def no_types_of_programs() -> Iterator[None]:
    """In a process with types that equal numbers or texts, as MongoDB's, the values of an index are read from the documents. No
    document here has a value of such a type."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reactdb.documents.index_values.EQUALS", {})
        yield


LONG = "x" * HIDDEN_VALUE_BYTES
INDEXES: dict[str, tuple[Any, bool]] = {
    "a": (row["a"], False),
    "b": (row["b"], False),
    "ab": (expr([row["a"], row["b"]]), False),
    "inner": (row["a"]["b"], False),
    "elements": (row["a"], True),
    "or_zero": (row["b"].default(0), False),
}
# Values that are the same key, or nearly, and long ones, of which a hidden entry keeps a part.
NEAR = [
    *[0, -0.0, False, 1, 1.0, Decimal(1), 2**53, 2**53 + 1, 2.0**53, NAN, None, "", "a", "a\0"],
    *[LONG, LONG + "y", {"x": LONG}, {"x": LONG + "y"}, [None, LONG], [], [1], [1, 2], {}, {"x": 1}, ODD[-1]],
]
known_values = st.one_of(st.sampled_from(NEAR), values)
bodies = st.one_of(
    st.fixed_dictionaries({}, optional={"a": known_values, "b": known_values}),
    documents,
)


@pytest.fixture(scope="module", autouse=True)
def without_values_that_equal_others() -> Iterator[None]:
    """Other tests register a type whose values equal numbers. With such a type, all documents are read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_values, "EQUALS", {})
        yield


@st.composite
def exact_conditions(draw: st.DrawFn, depth: int = 2) -> Any:
    """Conditions as a range of an index may answer them."""
    kinds = ["compare"] * 3 + ["is_in", "prefix", "dict", "has"] + (["and", "or", "not"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    field = draw(
        st.sampled_from([row["a"], row["a"], row["b"], row["id"], row["b"].default(0), row["a"]["b"]])
    )
    if kind == "compare":
        operation = draw(st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"]))
        pair = draw(st.permutations([field.node, expr(draw(known_values)).node]))
        return Expression(call_node(operation, tuple(pair)))
    if kind == "is_in":
        return field.is_in(draw(st.lists(known_values, max_size=4)))
    if kind == "prefix":
        return field.startswith(draw(st.sampled_from(["", "a", "a\0", LONG, "\ud7ff", "\U0010ffff"])))
    if kind == "has":
        return row.has_fields(*draw(st.lists(st.sampled_from(["a", "b", "id"]), min_size=1, max_size=2)))
    if kind == "dict":
        pattern = draw(st.dictionaries(st.sampled_from(["a", "b", "id"]), known_values, max_size=2))
        return as_predicate(pattern).expression
    if kind == "not":
        return ~draw(exact_conditions(depth - 1))
    parts = draw(st.lists(exact_conditions(depth - 1), min_size=1, max_size=3))
    return Expression(call_node(kind, tuple(part.node for part in parts)))


asked_conditions = st.one_of(exact_conditions(), exact_conditions(), any_conditions())


@pytest.fixture(scope="module", autouse=True)
def no_type_equals_another() -> Iterator[None]:
    """A type of another test, registered for the whole process, would end the short way of values."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in list(EQUALS):
            patch.delitem(EQUALS, kind)
        yield


@contextmanager
def one_table() -> Iterator[tuple[reactdb.Database, Any]]:
    with reactdb.connect(":memory:") as db:
        table = db.table_create("games")
        for name, (expression, multi) in INDEXES.items():
            table.index_create(name, expression, multi=multi)
        yield db, table


def check(selection: Any) -> None:
    """The number is the length of the result, or the error is the same."""
    try:
        expected = exactly(len(selection.run()))
    except reactdb.errors.QueryError as error:
        expected = type(error)
    assert expected == answer(selection.count())


def check_cuts(selection: Any) -> None:
    """Also behind skip and limit."""
    for cut in (selection, selection.limit(2), selection.skip(1).limit(2).skip(1)):
        check(cut)


@settings(max_examples=examples(60))
@given(
    st.lists(bodies, max_size=6),
    st.lists(bodies, max_size=3),
    st.lists(asked_conditions, min_size=1, max_size=3),
)
@example([{"a": value} for value in ODD], [{"a": 1}, {"a": None}], [row["a"] > 10, row["a"] != 3])
@example([{"a": 1, "b": value} for value in ODD], [], [(row["a"] == 1) & (row["b"] > 3)])
@example([{"a": {"x": LONG + end}} for end in "abc"], [], [row["a"] > {"x": LONG + "b"}])
def test_a_filter_counts_what_it_finds(
    before: list[dict[str, Any]], after: list[dict[str, Any]], asked: list[Any]
) -> None:
    """Of the present, of a transaction with its own writes, of the past, and of the past in a transaction's time."""
    with one_table() as (db, games):
        games.insert(keyed(before))
        then = db.seq

        def check_all(tables: list[Any]) -> None:
            for table in tables:
                for condition in asked:
                    check(table.filter(condition))
                check(table.filter(asked[0]).filter(asked[-1]))
                check(table.between(minval, 2).filter(asked[0]))
                check(table.between(0, "b", index="a").filter(asked[0]))
                check(table.order_by(index="a").filter(asked[0]))

        with db.transaction():
            for document in keyed(after):
                games.get(document["id"]).replace(document)
            games.get(len(after)).delete()
            check_all([games])
        check_all([games, db.at(then).table("games")])


@settings(max_examples=examples(60))
@given(
    st.lists(bodies, max_size=8),
    st.lists(bodies, max_size=3),
    BOUNDS,
    BOUNDS,
    st.lists(values.filter(lambda value: index_key_bytes(value) is not None), max_size=3),
)
@example([{"a": value} for value in ODD], [{"a": None}], minval, maxval, [3, 3])
@example([{"a": [1, 1, 2]}, {"a": 1}], [], 1, 2, [1, 1, 2])
def test_a_range_counts_what_it_finds(
    before: list[dict[str, Any]], after: list[dict[str, Any]], low: Any, high: Any, keys: list[Any]
) -> None:
    with one_table() as (db, games):
        games.insert(keyed(before))
        then = db.seq

        def check_all(table: Any) -> None:
            check_cuts(table)
            for index in (None, *INDEXES):
                for left, right in (("closed", "open"), ("open", "closed")):
                    check_cuts(table.between(low, high, index=index, left_bound=left, right_bound=right))
                check_cuts(table.get_all(*keys, index=index))
                check_cuts(table.order_by(index=index or "id"))
                check_cuts(table.between(low, high, index=index).order_by(index=desc(index or "id")))
            check_cuts(table.get_all(0, 2, 2, 50))
            check_cuts(table.order_by("b", index="a"))

        with db.transaction():
            for document in keyed(after):
                games.get(document["id"]).replace(document)
            games.get(len(after)).delete()
            check_all(games)
        check_all(games)
        check_all(db.at(then).table("games"))


DISTINCT: list[Any] = [
    *[
        0,
        -0.0,
        1,
        1.0,
        Decimal(1),
        Decimal("1.0"),
        1.5,
        Decimal("1.5"),
        2**16,
        2.0**16,
        2**32,
        2.0**32,
        Decimal(2**32),
    ],
    *["a", "b", True, b"a", None, [1], [1.0], [Decimal(1), "a"], ["a"], [], {}, NAN],
    *[datetime(2020, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), datetime(2020, 1, 1, tzinfo=UTC)],
]
few_values = st.sampled_from(DISTINCT)
few_bodies = st.fixed_dictionaries(
    {}, optional={"a": few_values | st.lists(few_values, max_size=3), "b": few_values}
)


@settings(max_examples=examples(30))
@given(st.lists(few_bodies, max_size=12), st.lists(few_bodies, max_size=3))
@example([{"a": 1.0}, {"a": 1}, {"a": [1.0, 1]}, {"a": 2.0**32}, {"a": 2**32}], [{"a": 1.0}, {"a": 1.0}])
def test_the_values_of_an_index_are_those_of_the_documents(
    before: list[dict[str, Any]], after: list[dict[str, Any]]
) -> None:
    """`distinct` and `group` with `count`: also which of equal values is shown."""
    with one_table() as (db, games):
        games.insert(keyed(before))
        then = db.seq

        def list_all(table: Any) -> list[Any]:
            asked = []
            for index in INDEXES:
                for source in (table, table.between(1, "a", index=index), table.between(minval, 3)):
                    asked += [ask(source, index) for ask in ASKED]
            return [answer_or_refusal(one) for one in asked]

        def check_all(table: Any) -> None:
            short = list_all(table)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(read_module, "find_index_values", lambda path: None)
                assert list_all(table) == short

        with db.transaction():
            for document in keyed(after):
                games.get(document["id"]).replace(document)
            check_all(games)
        check_all(games)
        check_all(db.at(then).table("games"))


def answer_or_refusal(ask: Any) -> Any:
    """A multi index cannot be grouped by, and a range of keys has no order by an index."""
    try:
        return answer(ask())
    except reactdb.errors.QueryError as error:
        return type(error)


ASKED: list[Any] = [
    lambda source, index: lambda: source.distinct(index=index),
    lambda source, index: lambda: source.distinct(index=index).count(),
    lambda source, index: lambda: source.distinct(index=index).skip(1).limit(2),
    lambda source, index: lambda: source.group(index=index).count(),
    lambda source, index: lambda: source.group(index=index).count().filter(row["reduction"] > 1),
    lambda source, index: lambda: source.group(index=index).limit(1),
]


@settings(max_examples=examples(600))
@given(asked_conditions, asked_conditions, st.one_of(bodies, documents))
def test_exact_ranges_have_the_documents_that_pass_and_no_others(
    condition: Any, other: Any, document: dict[str, Any]
) -> None:
    document = {"id": 1, **document}
    for index, multi in INDEXES.values():
        if multi:
            continue
        for conditions in ([condition], [condition, other]):
            ranges = find_exact_ranges([as_predicate(one) for one in conditions], index)
            if ranges is None:
                continue
            try:
                entry = key_bytes(index(document))
            except reactdb.ReactDBError:
                entry = None
            is_inside = entry is not None and any(start <= entry < stop for start, stop in ranges)
            assert is_inside == all(passes(one, document) for one in conditions)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda t: t, "counts the keys"),
        (lambda t: t.between(1, 3), "counts the keys"),
        (lambda t: t.filter(row["id"] > 3), "counts the keys"),
        (lambda t: t.get_all(1, 2), "counts the keys"),
        (lambda t: t.between(1, 3, index="elements"), "counts the entries of index `elements`"),
        (lambda t: t.get_all(1, 3, index="a"), "counts the entries of index `a`"),
        (lambda t: t.order_by(index="a").limit(3), "counts the entries of index `a`"),
        (lambda t: t.filter({"a": 3}), "counts the entries of index `a`"),
        (lambda t: t.filter(a=3, b=4), "counts the entries of index `ab`"),
        (lambda t: t.filter((row["a"] == 3) & (row["b"] > 4)), "counts the entries of index `ab`"),
        (lambda t: t.filter(row["a"] > 3, row["a"] <= 5), "counts the entries of index `a`"),
        (lambda t: t.filter((row["a"] < 3) | (row["a"] == 5)), "counts the entries of index `a`"),
        (lambda t: t.filter(~(row["a"] < 3)), "counts the entries of index `a`"),
        (lambda t: t.filter(row["a"] != 3), "counts the entries of index `a`"),
        (lambda t: t.filter(row["a"].is_in([3, 5])), "counts the entries of index `a`"),
        (lambda t: t.filter(row["a"].startswith("x")), "counts the entries of index `a`"),
        (lambda t: t.has_fields("a"), "counts the entries of index `a`"),
        (lambda t: t.between(1, 9, index="a").filter(row["a"] != 3), "counts the entries of index `a`"),
    ],
)
def test_a_count_says_how_it_is_found(ask: Any, words: str) -> None:
    """So no document is read: the test fails if there is no short way any more."""
    with one_table() as (_, games):
        games.insert(keyed([{"a": value, "b": 4} for value in ODD]))
        counted = ask(games).count()

        assert words in counted.explain()["access"]
        assert "reads no document" in counted.explain()["access"]


def test_a_count_names_one_index() -> None:
    """Not that of the path which reads would take beside that of the count."""
    with one_table() as (_, games):
        games.insert({"id": 1, "a": 3, "b": 4})

        for asked, index in ((games.filter(a=3, b=4), "ab"), (games.has_fields("a"), "a")):
            told = asked.count().explain()
            assert told["access"] == f"counts the entries of index `{index}`, reads no document"
            assert told["index"] == index


def test_the_past_says_that_documents_are_read() -> None:
    with one_table() as (db, games):
        games.insert({"id": 1, "a": 3, "b": 4})
        seq = db.seq
        games.get(1).update({"a": 5})
        past = db.at(seq).table(games.name)

        for asked in (past, past.between(1, 9, index="a"), past.filter(row["a"] > 3)):
            access = asked.count().explain()["access"]
            assert access.endswith("reads no document but those that have changed since")
        for asked in (past.distinct(index="a"), past.group(index="a").count()):
            assert "entries" not in asked.explain()["access"]


def test_the_values_of_an_index_say_where_they_come_from() -> None:
    with one_table() as (_, games):
        for asked in (
            games.distinct(index="a"),
            games.distinct(index="elements"),
            games.group(index="a").count(),
        ):
            assert "its values are in the entries" in asked.explain()["access"]
        for asked in (
            games.distinct("a"),
            games.group(index="a").sum("b"),
            games.between(1, 2).distinct("a"),
        ):
            assert "entries" not in asked.explain()["access"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda t: t.filter(row["a"] + 1 > 3),
        lambda t: t.filter(lambda document: True),
        lambda t: t.filter(row["a"] > 3, default=True),
        lambda t: t.filter(row["a"] > LONG + "y"),
        lambda t: t.filter({"a": {"x": 1}}),
        lambda t: t.filter(a=3, c=4),
        lambda t: t.filter((row["a"] > 3) | (row["b"] > 3)),
        lambda t: t.filter((row["a"] > 3) & (row["b"] > 3)),
        lambda t: t.filter(~row.has_fields("a")),
        lambda t: t.order_by("b", index="a"),
        lambda t: t.pluck("a"),
    ],
)
def test_other_counts_read_the_documents(ask: Any) -> None:
    with one_table() as (_, games):
        games.insert(keyed([{"a": value, "b": 4} for value in ODD]))

        assert "reads no document" not in ask(games).count().explain()["access"]


# ---------------------------------------------------------------------------------------------------------------
# Feeds


def test_a_feed_of_a_count_says_how_it_begins() -> None:
    with one_table() as (_, games):
        asked = [games, games.between(1, 3), games.get_all(1, index="a"), games.filter(row["a"] > 3)]
        said = [one.count().changes().explain()["access"] for one in asked]

        assert ["keys", "keys", "entries of index `a`", "entries of index `a`"] == [
            text.split("counts the ")[1].split(", reads")[0] for text in said
        ]
        assert "counts" not in games.filter(row["c"] > 3).count().changes().explain()["access"]


@settings(max_examples=examples(100))
@given(
    st.lists(bodies, max_size=6),
    st.lists(st.tuples(st.integers(0, 7), st.none() | bodies), max_size=6),
    asked_conditions,
    BOUNDS,
    BOUNDS,
)
@example([{"a": [1, 1]}, {"a": 1}], [(0, None), (1, {"a": [1]})], row["a"] != 3, 1, 2)
@example([{"a": 0}], [(0, None)], row["a"]["b"] == 0, minval, minval)
def test_a_count_feed_goes_on_as_one_that_has_read_the_documents(
    before: list[dict[str, Any]],
    writes: list[tuple[int, Any]],
    condition: Any,
    low: Any,
    high: Any,
) -> None:
    """In the present, and from a seq of the past."""

    def hear() -> list[list[Any]]:
        with one_table() as (db, games):
            games.insert(keyed(before))
            then = db.seq
            asked = [
                games,
                games.filter(condition),
                games.filter(condition).union(games.get_all(0, 0)),
                games.between(low, high),
                games.get_all(1, 1, index="a"),
                *(games.between(low, high, index=index) for index in INDEXES),
            ]
            heard = [listen(one.count(), include_initial=True) for one in asked]
            for key, body in writes:
                if body is None:
                    games.get(key).delete()
                else:
                    games.insert({**body, "id": key}, conflict="replace")
            for one, events in zip(asked, heard, strict=True):
                # A condition that fails for a document ends a read, and so the beginning of a feed; later a feed leaves the
                # document out.
                counted = answer(one.count())
                if not isinstance(counted, type) and not isinstance(events[-1], type):
                    assert counted == exactly(events[-1])
            return heard + [listen(one.count(), since=then) for one in asked]

    short = hear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SelectView, "find_count", lambda view, tables: None)
        assert hear() == short


@settings(max_examples=examples(60))
@given(
    st.lists(few_bodies | st.sampled_from([{"a": "x"}, {"a": "y"}, {"b": "x"}]), max_size=6),
    st.lists(st.tuples(st.integers(0, 7), st.none() | few_bodies), max_size=6),
)
@example([{"a": "x"}, {"a": "x"}, {"a": "y"}], [(0, {"a": 1.0}), (1, {"a": 1}), (0, {"a": "z"}), (2, None)])
@example([{"a": "x"}, {"a": 1.0}], [(2, {"a": 1}), (1, None)])
def test_a_feed_of_values_goes_on_as_one_that_has_read_the_documents(
    before: list[dict[str, Any]], writes: list[tuple[int, Any]]
) -> None:
    """Of groups with their counts, and of different values."""

    def hear() -> list[list[Any]]:
        with one_table() as (_, games):
            games.insert(keyed(before))
            asked = [
                ask(source)
                for source in (games, games.between("a", "y", index="a"))
                for ask in (lambda one: one.group(index="a").count(), lambda one: one.distinct(index="a"))
            ]
            heard: list[list[Any]] = [[] for _ in asked]
            for one, events in zip(asked, heard, strict=True):
                one.changes(include_initial=True).subscribe(
                    lambda event, events=events: events.append(exactly(dict(event)))
                )
            for key, body in writes:
                if body is None:
                    games.get(key).delete()
                else:
                    games.insert({**body, "id": key}, conflict="replace")
            return heard

    short = hear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Source, "read_values", lambda *ignored: None)
        assert hear() == short


def listen(counted: Any, **options: Any) -> list[Any]:
    """The numbers that a feed delivers, and the class of its error."""
    heard: list[Any] = []
    counted.changes(**options).subscribe(
        lambda event: heard.append(event["new_val"]), lambda error: heard.append(type(error))
    )
    return heard


@settings(max_examples=examples(40))
@given(
    st.lists(bodies, max_size=5),
    st.lists(st.tuples(st.integers(0, 6), st.none() | bodies), min_size=1, max_size=5),
    exact_conditions(),
)
@example([{"a": 1}], [(0, {"a": None}), (0, {"a": {}}), (1, {"a": 2})], row["a"] != 1)
def test_an_observed_count_is_made_again_after_each_change_that_concerns_it(
    before: list[dict[str, Any]], writes: list[tuple[int, Any]], condition: Any
) -> None:
    """The entries that were counted are what it has read, with the hidden ones."""
    with one_table() as (db, games):
        games.insert(keyed(before))
        ways: list[Any] = [
            lambda own: own.table("games").filter(condition).count(),
            lambda own: own.table("games").between(1, "b", index="a").count(),
            lambda own: own.table("games").between(2, 9).count(),
            lambda own: own.table("games").distinct(index="a"),
        ]
        clock = VirtualTimeScheduler()
        watched = [db.observe(lambda own, way=way: answer(way(own)), scheduler=clock) for way in ways]
        for key, body in writes:
            if body is None:
                games.get(key).delete()
            else:
                games.insert({**body, "id": key}, conflict="replace")
            clock.advance_by(1.0)
            assert [answer(way(db)) for way in ways] == [one.value for one in watched]
