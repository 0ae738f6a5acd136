"""Every kind of query that can be watched, and difficult documents and writes for it, as Hypothesis strategies.

There are few keys and few values, so that sort keys are equal, limits are not reached, and documents at the limit are deleted.

Rule of this file: it generates queries and writes. The laws say what must hold.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from typing import Any

import pytest
from hypothesis import strategies as st

import reactdb
from reactdb import asc, branch, desc, maxval, minval, r, row
from reactdb.feeds import broadcast, consumers, hub, log_reader
from reactdb.feeds.views import window
from tests.support.replica import Entry, Event, exactly, roughly

# ---------------------------------------------------------------------------------------------------------------
# Documents and writes

TABLES = ("games", "others")
KEYS = st.sampled_from([0, 1, 2, 3, 4, 5, 6, "a", "b", True, [1, "x"]])
SORT_VALUES = st.sampled_from(
    [
        0,
        1,
        1,
        1,
        2,
        2,
        3,
        None,
        False,
        True,
        0.0,
        -0.0,
        1.0,
        float("nan"),
        float("inf"),
        "x",
        "",
        [1],
        [None],
        {"x": 1},
    ]
)
NUMBERS = st.sampled_from([None, 0, 1, 2, 2, 3, 0.5, -0.0, 0.1, 0.2])
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "a": SORT_VALUES,
        "b": NUMBERS,
        "tags": st.lists(st.sampled_from("pqr"), max_size=3),
        "v": st.integers(0, 2),
    },
)
PLAIN_BODIES = st.fixed_dictionaries(
    {"a": st.integers(0, 3)}, optional={"b": NUMBERS, "v": st.integers(0, 2)}
)

# What a table begins with.
ROWS = st.lists(st.tuples(KEYS, BODIES), min_size=2, max_size=9)

Write = tuple[Any, ...]


def one_write() -> st.SearchStrategy[Write]:
    """One change of one document, or none: (verb, table, key, value)."""
    table = st.sampled_from(("games", "games", "games", "games", "others"))
    return st.one_of(
        st.tuples(st.just("put"), table, KEYS, BODIES),
        st.tuples(st.just("put"), table, KEYS, PLAIN_BODIES),
        st.tuples(st.just("set a"), table, KEYS, SORT_VALUES),
        st.tuples(st.just("set v"), table, KEYS, st.integers(0, 2)),
        st.tuples(st.just("delete"), table, KEYS),
        st.tuples(st.just("delete"), table, KEYS),
    )


def one_statement() -> st.SearchStrategy[Write]:
    """One write of many documents."""
    return st.one_of(
        st.tuples(st.just("set v of all"), st.integers(0, 2)),
        st.tuples(st.just("set a of all"), st.integers(0, 2)),
        st.tuples(st.just("delete where a"), st.integers(0, 3)),
        st.tuples(st.just("insert"), st.lists(st.tuples(KEYS, BODIES), max_size=6)),
        st.tuples(st.just("count up")),
    )


def some_writes(max_size: int) -> st.SearchStrategy[list[Write]]:
    """Some of both, from one on."""
    return st.lists(
        st.one_of(one_write(), one_write(), one_write(), one_statement()), min_size=1, max_size=max_size
    )


def act(db: reactdb.Database, writes: list[Write]) -> str:
    """One commit. Returns the token of the moment after it."""
    with db.transaction():
        for write in writes:
            do(db, write)
    return db.token


def do(db: reactdb.Database, write: Write) -> None:
    """Carry out a write."""
    verb, *rest = write
    games = db.table("games")
    if verb == "set v of all":
        games.update({"v": rest[0]})
    elif verb == "set a of all":
        games.update({"a": rest[0]})
    elif verb == "count up":
        games.filter(row["v"] < 9).update({"v": row["v"] + 1})
    elif verb == "delete where a":
        games.filter(row["a"] == rest[0]).delete()
    elif verb == "insert":
        games.insert([{"id": key, **body} for key, body in rest[0]], conflict="replace")
    else:
        one = db.table(rest[0]).get(rest[1])
        if verb == "put":
            one.replace({"id": rest[1], **rest[2]})
        elif verb == "set a":
            one.update({"a": reactdb.literal(rest[2])})
        elif verb == "set v":
            one.update({"v": rest[2]})
        else:
            one.delete()


def prepare(db: reactdb.Database) -> None:
    """Create the tables and indexes that the kinds need."""
    for name in TABLES:
        table = db.table_create(name)
        table.index_create("a")
        table.index_create("ab", [row["a"], row["b"]])
        table.index_create("tags", multi=True)


@contextmanager
def little_room() -> Iterator[None]:
    """Make reserves and pages so small that a dozen documents, and a dozen changes, need many of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "SPARE", 1)
        patch.setattr(window, "SPARE_WITHOUT_INDEX", 1)
        patch.setattr(hub, "LAST_CHANGES", 2)
        patch.setattr(consumers, "EVENTS_IN_A_TURN", 3)
        patch.setattr(broadcast, "EVENTS_IN_A_TURN", 3)
        patch.setattr(log_reader.LogReader.read, "__defaults__", (3,))
        yield


# ---------------------------------------------------------------------------------------------------------------
# Kinds


@dataclass(frozen=True)
class Kind:
    """A query to watch.

    Attributes:
        name: The text of the query.
        ask: Returns the selection (or the database, for all tables).
        shape: The shape of the result: `list`, `one` document or value, `groups` of a value each, `grouped` documents, `tables`.
        has_offsets: It may be watched with offsets, and the list is the query's.
        expect: Returns the selection with the right result if `ask` may fail on a document; such documents are left out. Also
            the same query written in another way.
        fails_on_seed: Subscribing fails if querying does.
    """

    name: str
    ask: Callable[[Any], Any]
    shape: str = "list"
    has_offsets: bool = False
    expect: Callable[[Any], Any] | None = None
    fails_on_seed: bool = False

    def __repr__(self) -> str:
        return self.name

    def _repr_pretty_(self, printer: Any, is_cycle: bool) -> None:
        printer.text(self.name)

    @property
    def extra_fields(self) -> tuple[str, ...]:
        return {"groups": ("group",), "grouped": ("group",), "tables": ("table",)}.get(self.shape, ())

    @property
    def name_of(self) -> Callable[[Any], Hashable]:
        # The event of a document names its group with the value in the document.
        return roughly if self.shape == "grouped" else exactly

    @property
    def value_of(self) -> Callable[[Any], Hashable]:
        return exactly

    def answer(self, db: Any) -> list[Entry]:
        """The present result of the query as entries of a replica. Only lists contain nulls."""
        found: list[tuple[Any, Any]]
        if self.shape == "tables":
            found = [(name, document) for name in db.table_list() for document in db.table(name).run()]
        else:
            answer = (self.expect or self.ask)(db).run()
            if self.shape == "one":
                found = [(None, answer)]
            elif self.shape == "groups":
                found = [(group["group"], group["reduction"]) for group in answer]
            elif self.shape == "grouped":
                found = [(group["group"], one) for group in answer for one in group["reduction"]]
            else:
                found = [(None, one) for one in answer]
        return [
            (self.name_of(name), self.value_of(value))
            for name, value in found
            if value is not None or self.shape == "list"
        ]


def alike(kind: Kind, events: list[Event]) -> list[Hashable]:
    """Events in a form in which equivalent events are equal."""
    found: list[Hashable] = []
    for event in events:
        shown = {name: value for name, value in event.items() if name not in ("old_val", "new_val", "group")}
        values = tuple(kind.value_of(event[name]) for name in ("old_val", "new_val") if name in event)
        found.append((exactly(shown), kind.name_of(event.get("group")), values))
    return found


def b_is_one(document: dict[str, Any]) -> bool:
    return bool(document.get("b") == 1)


def id_or_none(document: dict[str, Any]) -> Any:
    return document["id"] if document.get("v") == 1 else None


def a_plus_one_is_above_two(document: dict[str, Any]) -> bool:
    """`row["a"] + 1 > 2`; False if that fails."""
    a = document.get("a")
    return type(a) in (int, float) and isfinite(a) and a + 1 > 2


FILTERS: list[tuple[str, Callable[[Any], Any]]] = [
    ("filter(a > 1)", lambda t: t.filter(row["a"] > 1)),
    ("filter(a >= 1 & a < 3)", lambda t: t.filter((row["a"] >= 1) & (row["a"] < 3))),
    ("filter(a == 1)", lambda t: t.filter(row["a"] == 1)),
    ("filter(a == 0)", lambda t: t.filter(row["a"] == 0)),
    ("filter(a == None)", lambda t: t.filter(row["a"] == None)),  # noqa: E711
    ("filter(a == 1 | a == 2)", lambda t: t.filter((row["a"] == 1) | (row["a"] == 2))),
    ("filter(a == 1 & b > 0)", lambda t: t.filter((row["a"] == 1) & (row["b"] > 0))),
    ("filter(a != 1)", lambda t: t.filter(row["a"] != 1)),
    ("filter(a == 1, default=True)", lambda t: t.filter(row["a"] == 1, default=True)),
    ("filter(b > 1, default=True)", lambda t: t.filter(row["b"] > 1, default=True)),
    ("filter({a: 1})", lambda t: t.filter({"a": 1})),
    ("filter({a: {x: 1}})", lambda t: t.filter({"a": {"x": 1}})),
    ("filter(b_is_one)", lambda t: t.filter(b_is_one)),
    ("filter(v)", lambda t: t.filter(row["v"])),
    ("filter(id > 2)", lambda t: t.filter(row["id"] > 2)),
    ("filter(a == 1).filter(v == 1)", lambda t: t.filter(row["a"] == 1).filter(row["v"] == 1)),
    ("filter(tags contains p)", lambda t: t.filter(row["tags"].contains("p"))),
    ("filter(a is_in [1, x])", lambda t: t.filter(row["a"].is_in([1, "x", None]))),
    ("filter(id is_in [1, a])", lambda t: t.filter(row["id"].is_in([1, "a", 3, {}]))),
    ("filter(a startswith x)", lambda t: t.filter(row["a"].startswith("x"))),
    ("filter(a startswith '')", lambda t: t.filter(row["a"].startswith(""))),
    ("filter(id startswith a)", lambda t: t.filter(row["id"].startswith("a"))),
    ("filter(a endswith x)", lambda t: t.filter(row["a"].endswith("x"))),
    ("has_fields(a)", lambda t: t.has_fields("a")),
    ("has_fields(a, b)", lambda t: t.has_fields("a", "b")),
    ("has_fields({a: x})", lambda t: t.has_fields({"a": "x"})),
]

# Maps that return a value other than null for every document.
MAPS: list[tuple[str, Callable[[Any], Any]]] = [
    ("pluck(id, a)", lambda t: t.pluck("id", "a")),
    ("pluck(b)", lambda t: t.pluck("b")),
    ("without(a)", lambda t: t.without("a")),
    ("without(v, tags)", lambda t: t.without("v", "tags")),
    ("merge(w)", lambda t: t.merge({"w": row["b"].default(0)})),
    ("map(id)", lambda t: t.map(row["id"])),
    ("map([id, v])", lambda t: t.map([row["id"], row["v"].default(7)])),
    ("map(constant)", lambda t: t.map(branch(row["id"] == 1, "one", "other"))),
    ("filter(v == 1).pluck(id)", lambda t: t.filter(row["v"] == 1).pluck("id")),
    ("pluck(a, v).filter(v == 1)", lambda t: t.pluck("a", "v").filter(row["v"] == 1)),
    ("with_fields(id, b)", lambda t: t.with_fields("id", "b")),
]

NULLABLE_MAPS: list[tuple[str, Callable[[Any], Any]]] = [
    ("map(id_or_none)", lambda t: t.map(id_or_none)),
    ("map(a default None)", lambda t: t.map(row["a"].default(None))),
    ("['b']", lambda t: t["b"]),
]

BOUNDS: list[tuple[str | None, Any, Any]] = [
    (None, 1, 4),
    (None, minval, 3),
    (None, 2, "b"),
    (None, minval, maxval),
    (None, 3, 3),
    ("a", 1, 2),
    ("a", 1, 1),
    ("a", minval, maxval),
    ("a", False, 2),
    ("a", 2, 1),
    ("a", 0, "y"),
    ("ab", [1, minval], [1, maxval]),
    ("ab", [1, 1], [2, 2]),
    ("tags", "p", "q"),
    ("tags", "p", "r"),
    ("tags", minval, maxval),
]

PATHS: list[tuple[str, tuple[str, ...]]] = [("a", ()), ("v", ())]


@st.composite
def tables(draw: st.DrawFn) -> Kind:
    return draw(
        st.sampled_from(
            [Kind("games", lambda db: db.table("games")), Kind("others", lambda db: db.table("others"))]
        )
    )


@st.composite
def points(draw: st.DrawFn) -> Kind:
    key = draw(KEYS)
    name, change = draw(
        st.sampled_from(
            [
                ("", lambda one: one),
                (".filter(a == 1)", lambda one: one.filter(row["a"] == 1)),
                (".pluck(a)", lambda one: one.pluck("a")),
                (".map(v default 0)", lambda one: one.map(row["v"].default(0))),
            ]
        )
    )
    return Kind(f"get({key!r}){name}", lambda db: change(db.table("games").get(key)), shape="one")


@st.composite
def sources(draw: st.DrawFn) -> tuple[str, Callable[[Any], Any]]:
    """The sources of documents: the table, keys of it or of an index, a range."""
    which = draw(st.sampled_from(["table", "table", "get_all", "between", "between", "filter"]))
    if which == "table":
        return "games", lambda db: db.table("games")
    if which == "filter":
        name, narrow = draw(st.sampled_from(FILTERS))
        return name, lambda db: narrow(db.table("games"))
    if which == "get_all":
        index = draw(st.sampled_from([None, "a", "ab", "tags"]))
        values: Any = {
            None: KEYS,
            "a": st.sampled_from([0, 1, 1, 2, "x", False, 1.0]),
            "ab": st.tuples(st.sampled_from([0, 1, 2]), st.sampled_from([0, 1, 2])).map(list),
            "tags": st.sampled_from("pqr"),
        }[index]
        keys = draw(st.lists(values, max_size=4))
        return f"get_all({keys}, index={index})", lambda db: db.table("games").get_all(*keys, index=index)
    index, lower, upper = draw(st.sampled_from(BOUNDS))
    left, right = (draw(st.sampled_from(["open", "closed"])) for _ in range(2))
    return (
        f"between({lower!r}, {upper!r}, index={index}, {left}, {right})",
        lambda db: db.table("games").between(lower, upper, index=index, left_bound=left, right_bound=right),
    )


@st.composite
def ranges(draw: st.DrawFn) -> Kind:
    """Results without an order: sources through filters and maps."""
    name, ask = draw(sources())
    steps = draw(st.lists(st.sampled_from(FILTERS), max_size=1)) + draw(
        st.lists(st.sampled_from(MAPS + NULLABLE_MAPS), max_size=1)
    )
    return Kind(".".join([name, *(step for step, _ in steps)]), lambda db: then(ask(db), steps))


def then(selection: Any, steps: list[tuple[str, Callable[[Any], Any]]]) -> Any:
    for _, step in steps:
        selection = step(selection)
    return selection


SORTS: list[tuple[str, tuple[Any, ...]]] = [
    ("a", ("a",)),
    ("desc(a)", (desc("a"),)),
    ("a, desc(b)", ("a", desc("b"))),
    ("desc(a), v", (desc("a"), "v")),
    ("b default 0", (row["b"].default(0),)),
    ("asc(v)", (asc("v"),)),
    ("", ()),
]


@st.composite
def windows(draw: st.DrawFn, has_nulls: bool = False) -> Kind:
    """An order, with the steps that may come before and after it, with or without skip and limit."""
    is_indexed = draw(st.booleans())
    begin: Callable[[Any], Any]
    if is_indexed:
        index = draw(st.sampled_from(["a", "a", "ab", "tags", "id"]))
        is_descending = draw(st.booleans())
        bounds = [bound for bound in BOUNDS if bound[0] == (None if index == "id" else index)]
        direction = desc(index) if is_descending else index
        first = "games"
        begin = all_games
        if draw(st.booleans()):
            _, lower, upper = draw(st.sampled_from(bounds))
            left, right = (draw(st.sampled_from(["open", "closed"])) for _ in range(2))
            first = f"between({lower!r}, {upper!r}, index={index}, {left}, {right})"

            def begin(db: Any) -> Any:
                games = db.table("games")
                return games.between(lower, upper, index=index, left_bound=left, right_bound=right)

        order = [
            (
                f"order_by(index={'desc ' if is_descending else ''}{index})",
                lambda s: s.order_by(index=direction),
            )
        ]
    else:
        first, begin = draw(sources())
        sort, keys = draw(st.sampled_from(SORTS))
        order = [(f"order_by({sort})", lambda s: s.order_by(*keys))]
    filters = draw(st.lists(st.sampled_from(FILTERS), max_size=1))
    rest = draw(
        st.lists(st.sampled_from(NULLABLE_MAPS if has_nulls else MAPS), min_size=has_nulls, max_size=1)
    )
    skip = draw(st.sampled_from([None, None, None, 0, 1, 2]))
    limit = draw(st.sampled_from([None, 0, 1, 1, 2, 3, 5]))
    if skip is not None:
        rest.append((f"skip({skip})", lambda s: s.skip(skip)))
    if limit is not None:
        rest.append((f"limit({limit})", lambda s: s.limit(limit)))
    usual = [*order, *filters, *rest]
    # An order by an index after a filter is that order before the filter.
    steps = [*filters, *order, *rest] if is_indexed and draw(st.booleans()) else usual
    return Kind(
        ".".join([first, *(step for step, _ in steps)]),
        lambda db: then(begin(db), steps),
        has_offsets=True,
        expect=None if steps == usual else lambda db: then(begin(db), usual),
    )


def all_games(db: Any) -> Any:
    return db.table("games")


@st.composite
def extremes(draw: st.DrawFn) -> Kind:
    """min and max."""
    name, options = draw(
        st.sampled_from(
            [
                ("min(index=a)", ("min", (), {"index": "a"})),
                ("max(index=a)", ("max", (), {"index": "a"})),
                ("min(a)", ("min", ("a",), {})),
                ("max(a)", ("max", ("a",), {})),
                ("max(b)", ("max", (row["b"],), {})),
                ("min()", ("min", (), {})),
            ]
        )
    )
    word, arguments, named = options
    first: tuple[str, Callable[[Any], Any]] = ("games", lambda db: db.table("games"))
    if not named:
        first = draw(sources())
    ask = first[1]
    return Kind(
        f"{first[0]}.{name}",
        lambda db: getattr(ask(db), word)(*arguments, **named),
        shape="one",
        has_offsets=True,
    )


AGGREGATES: list[tuple[str, Callable[[Any], Any]]] = [
    ("count()", lambda s: s.count()),
    ("sum(b)", lambda s: s.sum("b")),
    ("avg(b)", lambda s: s.avg("b")),
    ("sum(v)", lambda s: s.sum(row["v"])),
]


SEVERAL = {"n": r.count(), "total": r.sum("b"), "mean": r.avg("v"), "most": r.max("b"), "least": r.min("v")}

# Steps after an aggregate of groups.
ON_GROUPS: list[tuple[str, Callable[[Any], Any]]] = [
    ("filter(reduction > 1)", lambda s: s.filter(row["reduction"] > 1)),
    ("has_fields(reduction)", lambda s: s.has_fields("reduction")),
    ("order_by(desc(reduction))", lambda s: s.order_by(desc("reduction"))),
    ("order_by(reduction)", lambda s: s.order_by("reduction")),
]
CUTS: list[tuple[str, Callable[[Any], Any]]] = [
    ("limit(1)", lambda s: s.limit(1)),
    ("limit(2)", lambda s: s.limit(2)),
    ("skip(1)", lambda s: s.skip(1)),
    ("skip(1).limit(1)", lambda s: s.skip(1).limit(1)),
]


@st.composite
def aggregates(draw: st.DrawFn) -> Kind:
    """One value for all documents, or for each group; and the distinct values."""
    name, ask = draw(sources())
    is_over_window = False
    if draw(st.integers(0, 3)) == 0:
        # These aggregate over a window, so they count what enters and leaves it. The values do not identify their documents.
        limit = draw(st.integers(0, 3))
        before, name = ask, f"{name}.order_by(v).pluck(a, b, v, tags).limit({limit})"
        is_over_window = True

        def ask(db: Any) -> Any:
            return before(db).order_by("v").pluck("a", "b", "v", "tags").limit(limit)

    which = draw(
        st.sampled_from(
            ["one", "groups", "groups", "grouped", "distinct", "distinct count", "several", "on groups"]
        )
    )
    aggregate, total = draw(st.sampled_from(AGGREGATES))
    if which == "one":
        return Kind(f"{name}.{aggregate}", lambda db: total(ask(db)), shape="one")
    if which == "distinct":
        fields = draw(st.sampled_from([("a",), ("v",), ("tags",), (), ("a", "v"), (["v", "b"],)]))
        return Kind(f"{name}.distinct({fields})", lambda db: ask(db).distinct(*fields))
    if which == "distinct count":
        if draw(st.booleans()):
            return Kind(f"{name}.distinct(b).sum()", lambda db: ask(db).distinct("b").sum(), shape="one")
        return Kind(f"{name}.distinct(a).count()", lambda db: ask(db).distinct("a").count(), shape="one")
    if which == "several":
        if draw(st.booleans()):
            return Kind(f"{name}.aggregate(...)", lambda db: ask(db).aggregate(**SEVERAL), shape="one")
        return Kind(
            f"{name}.group(v).aggregate(...)",
            lambda db: ask(db).group("v").aggregate(**SEVERAL),
            shape="groups",
        )
    if which == "on groups":
        steps = draw(
            st.lists(st.sampled_from(ON_GROUPS), min_size=1, max_size=2)
            | st.tuples(st.sampled_from([("", lambda s: s), *ON_GROUPS]), st.sampled_from(CUTS))
        )
        aggregate, total = draw(st.sampled_from([*AGGREGATES, ("max(b)", lambda s: s.max("b"))]))
        return Kind(
            ".".join([name, "group(v)", aggregate, *(step for step, _ in steps)]),
            lambda db: then(total(ask(db).group("v")), list(steps)),
        )
    by = draw(st.sampled_from(["a", "v", ["v", "b"], ("a", row["v"])]))
    if which == "grouped":
        if not is_over_window and draw(st.booleans()):
            # The values do not identify their documents.
            return Kind(
                f"{name}.pluck(a, v).group({by})",
                lambda db: ask(db).pluck("a", "v").group(by),
                shape="grouped",
            )
        return Kind(f"{name}.group({by})", lambda db: ask(db).group(by), shape="grouped")
    more = [*AGGREGATES, ("min(b)", lambda s: s.min("b")), ("max(v)", lambda s: s.max("v"))]
    aggregate, total = draw(st.sampled_from(more))
    return Kind(f"{name}.group({by}).{aggregate}", lambda db: total(ask(db).group(by)), shape="groups")


@st.composite
def unions(draw: st.DrawFn) -> Kind:
    """Unions of two members, perhaps of one kind and perhaps overlapping, of tables or of windows."""
    either = st.one_of(ranges(), windows(), windows(has_nulls=True))
    members = [draw(either) for _ in range(2)]
    first, second = members
    steps = []
    if not any(member.has_offsets for member in members):
        steps = draw(st.lists(st.sampled_from(MAPS), max_size=1))
        if draw(st.integers(0, 4)) == 0:
            return Kind(
                f"{first}.union({second}).count()",
                lambda db: first.ask(db).union(second.ask(db)).count(),
                shape="one",
            )
        if any(word in member.name for member in members for word in ("map", "pluck", "with", "['b']")):
            # A mapped value may lack the field that the next step needs.
            steps = []
    return Kind(
        ".".join([f"{first}.union({second})", *(step for step, _ in steps)]),
        lambda db: then(first.ask(db).union(second.ask(db)), steps),
        has_offsets=all(member.has_offsets for member in members),
    )


WHOLE_DATABASE = Kind("db", lambda db: db, shape="tables")

# Queries that fail on some documents, which are then left out.
FAILING = [
    Kind(
        "filter(a + 1 > 2)",
        lambda db: db.table("games").filter(row["a"] + 1 > 2),
        expect=lambda db: db.table("games").filter(a_plus_one_is_above_two),
        fails_on_seed=True,
    ),
    Kind(
        "order_by(b).filter(a + 1 > 2).limit(2)",
        lambda db: db.table("games").order_by("b").filter(row["a"] + 1 > 2).limit(2),
        expect=lambda db: db.table("games").order_by("b").filter(a_plus_one_is_above_two).limit(2),
        has_offsets=True,
    ),
    Kind(
        "order_by(index=a).filter(a + 1 > 2).limit(2)",
        lambda db: db.table("games").order_by(index="a").filter(row["a"] + 1 > 2).limit(2),
        expect=lambda db: db.table("games").order_by(index="a").filter(a_plus_one_is_above_two).limit(2),
        has_offsets=True,
    ),
    Kind(
        "map(v + 1)",
        lambda db: db.table("games").map(row["v"] + 1),
        expect=lambda db: db.table("games").has_fields("v").map(row["v"] + 1),
        fails_on_seed=True,
    ),
]


def kinds() -> st.SearchStrategy[Kind]:
    """Any query that can be watched."""
    return st.one_of(
        tables(),
        points(),
        ranges(),
        ranges(),
        windows(),
        windows(),
        windows(),
        windows(has_nulls=True),
        extremes(),
        aggregates(),
        aggregates(),
        unions(),
        st.just(WHOLE_DATABASE),
        st.sampled_from(FAILING),
    )
