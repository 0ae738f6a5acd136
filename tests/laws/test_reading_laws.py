"""Law 6 of reading: whatever the indexes, the page sizes and the moment, a result is what brute force over plain dicts gives.

A selection is generated in two forms: as a query to the database, and as plain list operations on the documents in key order.
Both must give the same list, or an error of the same class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cmp_to_key
from itertools import islice
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb import desc, maxval, minval, r, row
from reactdb.documents.read import encoded_documents, run
from reactdb.errors import MissingValue, QueryError
from reactdb.expression import Expression, evaluate
from reactdb.feeds.read_set import ReadSet, TrackedSnapshot
from reactdb.session import session_of
from reactdb.values import codec, collation
from tests.support.scaling import examples

Document = dict[str, Any]
Documents = Iterator[Any]
# How the database is asked, and what that means.
Selection = Any
Step = tuple[Callable[[Selection], Selection], Callable[[Documents], Documents], str]
Source = tuple[Callable[[Any], Selection], Callable[[list[Document]], Documents], str]

SCALARS: list[Any] = [
    None,
    False,
    True,
    -1,
    0,
    1,
    1.0,
    1.5,
    2,
    2**60,
    2**60 + 1,
    "",
    "a",
    "b",
    float("inf"),
    float("nan"),
]
VALUES: list[Any] = [*SCALARS, [], [1], [1, 2], ["a", "a"], [None], {}, {"x": 1}, b"", b"a"]
# What can be asked for by index; 1 and 1.0 are one key.
KEYS: list[Any] = [False, True, -1, 0, 1, 1.5, 2, 2**60, "", "a", b"a", [1], [1, 2], ["a", "a"]]
FIELDS = ["a", "b", "tags"]
INDEXES: dict[str, tuple[Any, bool]] = {
    "a": (row["a"], False),
    "b": (row["b"], False),
    "tags": (row["tags"], True),
    "plain": (row["tags"], False),
    "pair": (r.expr([row["a"], row["b"]]), False),
    "sum": (row["a"] + row["b"], False),
    "x": (row["a"]["x"], False),
}

# Few different values, so that there are ties; and all of them, so that none is forgotten.
USUAL: list[Any] = [0, 1, "a", [1, 2]]
MISSING = object()


def document_of(fields: Document) -> Document:
    return {name: value for name, value in fields.items() if value is not MISSING}


documents_strategy = st.sampled_from([14, 9, 5, 2, 0]).flatmap(
    lambda count: st.lists(
        st.builds(
            lambda **fields: document_of(fields),
            id=st.sampled_from([*range(13), "a", "b", 0.5, 7.5, True]),
            a=st.sampled_from([*USUAL * 5, MISSING, *VALUES]),
            b=st.sampled_from([*USUAL * 4, MISSING, *SCALARS]),
            tags=st.lists(st.sampled_from(USUAL), max_size=3) | st.sampled_from([MISSING, *VALUES]),
        ),
        min_size=count,
        max_size=count,
        unique_by=lambda document: collation.key_bytes(document["id"]),
    )
)


# -----------------------------------------------------------------------------------------------------------
# What is meant


def in_key_order(documents: list[Document]) -> list[Document]:
    return sorted(documents, key=lambda document: collation.key_bytes(document["id"]))


def entries(documents: list[Document], index: str) -> list[tuple[bytes, bytes, int, Document]]:
    """The places of an index, in order, by the words of the manual: what is left out, and what a multi index doubles."""
    found = []
    expression, multi = INDEXES[index]
    for document in documents:
        try:
            value = evaluate(expression, document)
        except QueryError:
            continue
        for tag, element in enumerate(value if multi and isinstance(value, list) else [value]):
            place = collation.index_key_bytes(element)
            if place is not None:
                found.append((place, collation.key_bytes(document["id"]), tag, document))
    return sorted(found, key=lambda entry: entry[:3])


def compared_by(key: Expression) -> Callable[[Any, Any], int]:
    def compare(left: Any, right: Any) -> int:
        sides = []
        for document in (left, right):
            try:
                sides.append((True, evaluate(key, document)))
            except MissingValue:
                sides.append((False, None))
        (has_left, one), (has_right, other) = sides
        if not (has_left and has_right):
            return has_left - has_right
        return collation.compare(one, other)

    return compare


def sorted_by(documents: list[Any], keys: list[tuple[str, bool]]) -> list[Any]:
    for name, descending in reversed(keys):
        documents = sorted(documents, key=cmp_to_key(compared_by(row[name])), reverse=descending)
    return documents


# -----------------------------------------------------------------------------------------------------------
# What is asked


@st.composite
def conditions(draw: st.DrawFn, depth: int = 2) -> Expression:
    kind = draw(
        st.sampled_from(
            ["compare"] * 5 + ["fails", "nested", "contains", "id"] + ["and", "or", "not"] * bool(depth)
        )
    )
    field = row[draw(st.sampled_from(FIELDS))]
    value = draw(st.sampled_from(VALUES))
    operator = draw(st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"]))
    if kind == "compare":
        return getattr(field, operator)(r.expr(value))
    if kind == "id":
        return getattr(row["id"], operator)(draw(st.integers(0, 12)))
    if kind == "fails":
        return (field + 1).gt(0)
    if kind == "nested":
        return getattr(field["x"], operator)(r.expr(value))
    if kind == "contains":
        return row["tags"].contains(r.expr(value))
    if kind == "not":
        return ~draw(conditions(depth - 1))
    left, right = draw(conditions(depth - 1)), draw(conditions(depth - 1))
    return left & right if kind == "and" else left | right


@st.composite
def sources(draw: st.DrawFn) -> Source:
    """Where the documents come from: the table, keys, ranges, orders of an index."""
    index = draw(st.sampled_from([None, "a", "b", *INDEXES]))
    kind = draw(st.sampled_from(["table", "get_all", "between", "order_by", "between and order_by"]))
    if kind == "table":
        return (lambda table: table), (lambda documents: iter(in_key_order(documents))), "table"

    def places(documents: list[Document]) -> list[tuple[bytes, bytes, int, Document]]:
        if index is None:
            return [(b"", b"", 0, document) for document in in_key_order(documents)]
        return entries(documents, index)

    def place_of(entry: tuple[bytes, bytes, int, Document]) -> bytes:
        return entry[0] if index is not None else collation.key_bytes(entry[3]["id"])

    if kind == "get_all":
        keys = draw(st.lists(st.sampled_from([*KEYS, 3, 4]), max_size=3))
        return (
            lambda table: table.get_all(*keys, **({} if index is None else {"index": index})),
            lambda documents: (
                entry[3]
                for key in keys
                for entry in places(documents)
                if place_of(entry) == collation.key_bytes(key)
            ),
            f"get_all({keys}, {index})",
        )
    lower, upper = draw(st.sampled_from([minval, *KEYS])), draw(st.sampled_from([*KEYS, maxval]))
    left, right = draw(st.sampled_from(["open", "closed"])), draw(st.sampled_from(["open", "closed"]))
    is_between, is_ordered = kind.startswith("between"), kind.endswith("order_by")
    descending = is_ordered and draw(st.booleans())
    keys_of_ties = (
        draw(st.lists(st.tuples(st.sampled_from([*FIELDS, "id"]), st.booleans()), max_size=2))
        if is_ordered
        else []
    )

    def ask(table: Any) -> Any:
        selection = table
        if is_between:
            options = {} if index is None else {"index": index}
            selection = selection.between(lower, upper, left_bound=left, right_bound=right, **options)
        if is_ordered:
            ties = [desc(name) if is_descending else name for name, is_descending in keys_of_ties]
            name = index or "id"
            selection = selection.order_by(*ties, index=desc(name) if descending else name)
        return selection

    def is_inside(entry: tuple[bytes, bytes, int, Document]) -> bool:
        place = place_of(entry)
        low, high = collation.key_bytes(lower), collation.key_bytes(upper)
        return (place > low or (left == "closed" and place == low)) and (
            place < high or (right == "closed" and place == high)
        )

    def mean(documents: list[Document]) -> Documents:
        found = [entry for entry in places(documents) if not is_between or is_inside(entry)]
        if descending:
            found.reverse()
        groups: dict[bytes, list[Document]] = {}
        for entry in found:
            groups.setdefault(place_of(entry), []).append(entry[3])
        # The primary key has no ties to break.
        for group in groups.values():
            yield from sorted_by(group, keys_of_ties) if index is not None else group

    return ask, mean, f"{kind}({lower}, {upper}, {left}, {right}, {index}, {descending}, {keys_of_ties})"


def passes(condition: Expression, default: bool) -> Callable[[Any], bool]:
    def test(document: Any) -> bool:
        try:
            value = evaluate(condition, document)
        except MissingValue:
            return default
        return value is not None and value is not False

    return test


KINDS = ["filter", "filter", "filter", "dict", "has_fields", "order_by", "limit", "skip", "pluck"]


def rows_of_steps() -> st.SearchStrategy[list[Step]]:
    """Any steps; or tests and then a limit, which is what a walk in pages is for."""
    return st.lists(steps(KINDS), max_size=3) | st.builds(
        lambda found, skipped, limit: [*found, *skipped, limit],
        st.lists(steps(["filter", "dict", "has_fields"]), max_size=2),
        st.lists(steps(["skip"]), max_size=1),
        steps(["limit"]),
    )


@st.composite
def steps(draw: st.DrawFn, kinds: list[str]) -> Step:
    kind = draw(st.sampled_from(kinds))
    if kind == "filter":
        condition, default = draw(conditions()), draw(st.booleans())
        test = passes(condition, default)
        return (
            lambda selection: selection.filter(condition, default=default),
            lambda documents: filter(test, documents),
            f"filter({condition}, {default})",
        )
    if kind == "dict":
        name, value = draw(st.sampled_from(FIELDS)), draw(st.sampled_from(SCALARS))
        return (
            lambda selection: selection.filter({name: value}),
            lambda documents: filter(
                lambda document: name in document and collation.compare(document[name], value) == 0, documents
            ),
            f"filter({name}: {value})",
        )
    if kind == "has_fields":
        name = draw(st.sampled_from(FIELDS))
        return (
            lambda selection: selection.has_fields(name),
            lambda documents: (document for document in documents if document.get(name) is not None),
            f"has_fields({name})",
        )
    if kind == "order_by":
        keys = draw(st.lists(st.tuples(st.sampled_from([*FIELDS, "id"]), st.booleans()), max_size=2))
        return (
            lambda selection: selection.order_by(
                *(desc(name) if descending else name for name, descending in keys)
            ),
            lambda documents: iter(sorted_by(list(documents), keys or [("id", False)])),
            f"order_by({keys})",
        )
    if kind == "pluck":
        return (
            lambda selection: selection.pluck("id", "a"),
            lambda documents: (
                {name: document[name] for name in document if name in ("id", "a")} for document in documents
            ),
            "pluck",
        )
    count = draw(st.integers(0, 6))
    if kind == "limit":
        return (
            (lambda selection: selection.limit(count)),
            (lambda documents: islice(documents, count)),
            f"limit({count})",
        )
    return (
        (lambda selection: selection.skip(count)),
        (lambda documents: islice(documents, count, None)),
        f"skip({count})",
    )


class Outcome:
    """What came of it: a value, equal by encoding, because to Python 0, 0.0 and False are one; or the class of an error."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.error: type[Exception] | None = None
        self.value: Any = None
        try:
            self.value = work()
        except QueryError as error:
            self.error = type(error)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Outcome) and self.error is other.error and codec.same(self.value, other.value)
        )

    def __repr__(self) -> str:
        return repr(self.value) if self.error is None else self.error.__name__


def check(table: Any, documents: list[Document], source: Source, following: list[Step]) -> None:
    selection, text = source[0](table), source[2]
    for ask, _, shown in following:
        selection, text = ask(selection), f"{text}.{shown}"

    def mean() -> Documents:
        found: Documents = source[1](documents)
        for _, meant, _ in following:
            found = meant(found)
        return found

    assert Outcome(lambda: list(mean())) == Outcome(selection.run), text
    assert Outcome(lambda: sum(1 for _ in mean())) == Outcome(selection.count().run), text


ALL = sorted(INDEXES)


@contextmanager
def small(page: int, few: int) -> Iterator[None]:
    """The numbers that decide between equally good ways are such that a few documents are many."""
    with (
        patch("reactdb.documents.access_path.PAGE_PLACES", page),
        patch("reactdb.store.snapshot.Snapshot.page_rows", page),
        patch("reactdb.documents.access_path.FEW_FOUND", few),
    ):
        yield


def filled(db: Any, documents: list[Document], indexes: list[str], *, index_first: bool) -> Any:
    table = db.table_create("games")
    if not index_first:
        table.insert(documents)
    for name in indexes:
        expression, multi = INDEXES[name]
        table.index_create(name, expression, multi=multi)
    if index_first:
        for document in documents:
            table.insert(document)
    return table


@settings(max_examples=examples(100))
@given(
    data=st.data(),
    documents=documents_strategy,
    indexes=st.sets(st.sampled_from(ALL)).map(sorted),
    page=st.sampled_from([1, 2, 512]),
    few=st.sampled_from([0, 5, 1000]),
)
def test_an_answer_does_not_depend_on_the_indexes(data, documents, indexes, page, few):
    """Filters may be looked up in whatever index there is, and nobody may notice."""
    table_source: Source = (lambda table: table), (lambda found: iter(in_key_order(found))), "table"
    with small(page, few), reactdb.connect(":memory:") as db:
        table = filled(db, documents, indexes, index_first=data.draw(st.booleans()))
        for _ in range(4):
            check(table, documents, table_source, data.draw(rows_of_steps()))


@settings(max_examples=examples(100))
@given(data=st.data(), documents=documents_strategy, page=st.sampled_from([1, 2, 512]))
def test_every_access_path_gives_what_brute_force_gives(data, documents, page):
    with small(page, 0), reactdb.connect(":memory:") as db:
        table = filled(db, documents, ALL, index_first=True)
        for _ in range(4):
            check(table, documents, data.draw(sources()), data.draw(rows_of_steps()))


@settings(max_examples=examples(100))
@given(
    data=st.data(), documents=documents_strategy, others=documents_strategy, gone=st.sets(st.integers(0, 13))
)
def test_the_past_is_read_as_the_present_was(data, documents, others, gone):
    """Every access path, over documents that were changed, deleted and added since."""
    with reactdb.connect(":memory:") as db:
        table = filled(db, documents, ALL, index_first=True)
        then = db.at(db.seq).table("games")
        table.insert(others, conflict="replace")
        for place in gone:
            if place < len(documents):
                table.get(documents[place]["id"]).delete()
        for _ in range(4):
            check(then, documents, data.draw(sources()), data.draw(rows_of_steps()))


@settings(max_examples=examples(100))
@given(
    data=st.data(),
    documents=documents_strategy,
    others=documents_strategy,
    page=st.sampled_from([1, 2, 512]),
    moment=st.sampled_from(["now", "transaction", "past", "transaction of the past"]),
)
def test_a_skip_gives_the_rest_of_the_whole(data, documents, others, page, moment):
    """Skipped documents may stay unread: now, in a transaction with writes that are not in the file yet, and in the past."""
    with small(page, 0), reactdb.connect(":memory:") as db:
        table = filled(db, documents, ALL, index_first=True)
        then = db.seq
        held = db.transaction() if moment.startswith("transaction") else nullcontext()
        with held:
            if moment != "now":
                table.insert(others, conflict="replace")
                for document in documents[::3]:
                    table.get(document["id"]).delete()
            if moment.endswith("past"):
                table = db.at(then).table("games")
            else:
                documents = list(table.run())
            for _ in range(4):
                source, following = data.draw(sources()), data.draw(rows_of_steps())
                skips = data.draw(st.lists(steps(["skip"]), min_size=1, max_size=2))
                check(table, documents, source, [*skips, *following])
                check_parts(
                    source[0](table), data.draw(st.integers(0, 8)), data.draw(st.integers(0, 8)), source[2]
                )


@pytest.mark.parametrize("is_descending", [False, True])
def test_a_skip_that_ends_among_equal_values(is_descending):
    """Pages begin at a value, and the skip has left out some of its entries: they must not come back with the next page."""
    with small(2, 0), reactdb.connect(":memory:") as db:
        table = filled(
            db,
            [{"id": number, "a": number // 40, "b": number % 3} for number in range(80)],
            ["a"],
            index_first=True,
        )
        ordered = table.order_by(index=desc("a") if is_descending else "a")
        whole = list(ordered.run())
        for skip in (1, 7, 39, 40, 41, 79, 80, 2**70):
            wanted = [one for one in whole[skip:] if one["b"] == 1]
            for limit in (1, 5, 30):
                assert wanted[:limit] == ordered.skip(skip).filter({"b": 1}).limit(limit).run()


def check_parts(selection: Any, start: int, length: int, text: str) -> None:
    whole = Outcome(selection.run)
    if whole.error is not None:
        return
    found = whole.value
    assert Outcome(selection[start : start + length].run) == Outcome(lambda: found[start : start + length]), (
        text
    )
    assert Outcome(selection[start:][length:].run) == Outcome(lambda: found[start + length :]), text
    assert Outcome(selection.skip(start).pluck("id").skip(length).run) == Outcome(
        lambda: [{"id": one["id"]} for one in found[start + length :]]
    ), text
    one = Outcome(selection.skip(start).nth(length).run)
    if start + length < len(found):
        assert one == Outcome(lambda: found[start + length]), text
    else:
        assert one.error is MissingValue, text
        with pytest.raises(MissingValue, match=f"Index out of bounds: {length}$"):
            selection.skip(start).nth(length).run()
    session = session_of(selection)
    with session.read() as snapshot:
        pages = encoded_documents(selection.skip(start)._query, snapshot)
        if pages is not None:
            assert Outcome(lambda: [codec.decode(body) for page in pages for body in page]) == Outcome(
                lambda: found[start:]
            ), text
        reads = ReadSet()
        tracked = run(selection.skip(start).limit(length)._query, TrackedSnapshot(snapshot, reads))
        assert Outcome(lambda: tracked) == Outcome(lambda: found[start : start + length]), text


@settings(max_examples=examples(100))
@given(documents=documents_strategy, index=st.sampled_from(ALL), lower=st.sampled_from(KEYS))
def test_least_and_greatest(documents, index, lower):
    with reactdb.connect(":memory:") as db:
        table = filled(db, documents, ALL, index_first=True)
        places = [entry[3] for entry in entries(documents, index)]
        inside = [entry[3] for entry in entries(documents, index) if entry[0] >= collation.key_bytes(lower)]

        assert Outcome(lambda: places[0] if places else None) == Outcome(table.min(index=index).run)
        assert Outcome(lambda: places[-1] if places else None) == Outcome(table.max(index=index).run)
        above = table.between(lower, maxval, index=index)
        assert Outcome(lambda: inside[0] if inside else None) == Outcome(above.min(index=index).run)
        assert Outcome(lambda: inside[-1] if inside else None) == Outcome(above.max(index=index).run)
        for name in FIELDS:
            having = [document for document in in_key_order(documents) if name in document]
            least = sorted_by(having, [(name, False)])[:1]
            greatest = sorted_by(having, [(name, True)])[:1]
            assert Outcome(lambda found=least: found[0] if found else None) == Outcome(table.min(name).run)
            assert Outcome(lambda found=greatest: found[0] if found else None) == Outcome(table.max(name).run)
