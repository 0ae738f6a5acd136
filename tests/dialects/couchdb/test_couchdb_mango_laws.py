"""A selector selects what its description says, evaluated in the simplest way: step by step, with nothing prepared."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reactdb.dialects.couchdb.collation import collation_key, raw_key
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.mango import Selector
from tests.support.scaling import examples

COMPARISONS = {
    "$lt": lambda value, argument: value < argument,
    "$lte": lambda value, argument: value <= argument,
    "$eq": lambda value, argument: value == argument,
    "$ne": lambda value, argument: value != argument,
    "$gte": lambda value, argument: value >= argument,
    "$gt": lambda value, argument: value > argument,
}
ABSENT = object()


def read(document: Any, names: list[str]) -> tuple[Any, bool]:
    """The value, or ABSENT; and whether the object that should hold it is there."""
    for name in names:
        if isinstance(document, dict):
            if name not in document:
                return ABSENT, True
            document = document[name]
        elif isinstance(document, list):
            if not (name.isdigit() and int(name) < len(document)):
                return ABSENT, False
            document = document[int(name)]
        else:
            return ABSENT, False
    return document, True


def naive(selector: Any, document: Any, names: list[str], yes: bool, inside: bool = False) -> bool:
    """Whether a document passes; with `yes` false, whether it passes the selector's negation. Inside of elements a negation is
    just what does not pass."""
    if not isinstance(selector, dict) or not selector:
        return leaf("$eq", selector, document, names, yes)
    if len(selector) > 1:
        parts = [{name: argument} for name, argument in selector.items()]
        return joined("$and", parts, document, names, yes, inside)
    ((name, argument),) = selector.items()
    if name in ("$and", "$or"):
        return joined(name, argument, document, names, yes, inside)
    if inside and name in ("$not", "$nor"):
        parts = argument if name == "$nor" else [argument]
        return not any(naive(part, document, names, True, True) for part in parts)
    if name == "$nor":
        return joined("$or", argument, document, names, not yes, inside)
    if name == "$not":
        return naive(argument, document, names, not yes)
    if name.startswith("$"):
        return leaf(name, argument, document, names, yes)
    return naive(argument, document, names + name.split("."), yes, inside)


def joined(name: str, parts: list[Any], document: Any, names: list[str], yes: bool, inside: bool) -> bool:
    answers = [naive(part, document, names, yes, inside) for part in parts]
    # A negation turns one into the other; without parts both hold.
    return not parts or (all(answers) if (name == "$and") == yes else any(answers))


def leaf(name: str, argument: Any, document: Any, names: list[str], yes: bool) -> bool:
    value, reachable = read(document, names)
    if name == "$exists":
        wanted = argument == yes
        return (value is not ABSENT) if wanted else (value is ABSENT and reachable)
    if value is ABSENT:
        return False
    key = raw_key if names == ["_id"] else collation_key
    if name in COMPARISONS:
        return yes == COMPARISONS[name](key(value), key(argument))
    if name in ("$in", "$nin"):
        values = value if isinstance(value, list) else [value]
        inside = any(key(one) == key(other) for one in values for other in argument)
        return yes == (inside == (name == "$in"))
    if name == "$size":
        return yes == (isinstance(value, list) and len(value) == argument)
    if name == "$type":
        return yes == (argument == {str: "string", list: "array", dict: "object"}.get(type(value), "number"))
    if name == "$elemMatch":
        return yes == (isinstance(value, list) and any(naive(argument, one, [], True, True) for one in value))
    assert name == "$allMatch"
    return yes == (
        bool(value) and isinstance(value, list) and all(naive(argument, one, [], True, True) for one in value)
    )


SCALARS = st.integers(0, 2) | st.sampled_from(["a", "A", "b", "1"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
DOCUMENTS = st.dictionaries(st.sampled_from(["_id", "a", "b"]), VALUES, max_size=3).map(
    lambda document: {**document, "_id": str(document.get("_id", "x"))}
)
OPERATORS = (
    st.tuples(st.sampled_from(sorted(COMPARISONS)), VALUES)
    | st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(VALUES, max_size=2))
    | st.tuples(st.just("$exists"), st.booleans())
    | st.tuples(st.just("$size"), st.integers(0, 2))
    | st.tuples(st.just("$type"), st.sampled_from(["string", "number", "array", "object"]))
).map(lambda pair: dict([pair]))
FIELDS = st.sampled_from(["_id", "a", "b", "a.b", "a.0", "b.a.0"])


def combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        st.tuples(st.sampled_from(["$and", "$or", "$nor"]), st.lists(inner, max_size=2)).map(
            lambda pair: dict([pair])
        )
        | st.builds(lambda part: {"$not": part}, inner)
        | st.tuples(FIELDS, inner | VALUES).map(lambda pair: dict([pair]))
        | st.dictionaries(FIELDS, inner, min_size=2, max_size=2)
        | st.tuples(st.sampled_from(["$elemMatch", "$allMatch"]), inner).map(lambda pair: {"a": dict([pair])})
    )


SELECTORS = st.recursive(OPERATORS, combined, max_leaves=5).map(lambda part: {"$and": [part]})


@settings(max_examples=examples(1_000))
@given(SELECTORS, st.lists(DOCUMENTS, min_size=1, max_size=4))
def test_a_selector_selects_what_its_description_says(selector, documents):
    try:
        passes = Selector(selector).passes
    except CouchError:
        # A condition without a field, at the top.
        return

    assert [naive(selector, document, [], True) for document in documents] == [
        passes(document) for document in documents
    ]


@settings(max_examples=examples(300))
@given(SELECTORS, DOCUMENTS)
def test_what_a_selector_says_of_each_document_holds_for_what_it_selects(selector, document):
    try:
        read_selector = Selector(selector)
    except CouchError:
        return
    if not read_selector.passes(document):
        return

    for field in read_selector.required_fields() - {""}:
        assert read(document, field.split("."))[0] is not ABSENT
    for path, value in read_selector.equalities():
        assert read(document, list(path))[0] == value
