"""Errors that a feed's own steps raise for a document: counted, logged once with their place, or raised, but never ignored."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb import InvalidOption, r, row
from reactdb.errors import QueryError

GOOD = {"id": 0, "text": ["milk"], "n": 1, "user": {"name": "Ann"}}
BAD = {"id": 1, "text": 5, "n": "one", "user": "Ann"}


def read_missing(document: Any) -> Any:
    return document["mising"] > 1


class Readers:
    def method(self, document: Any) -> Any:
        return document["mising"]

    def __call__(self, document: Any) -> Any:
        return document["mising"]


# A selection, the error that run() raises for BAD, and what the log calls the step.
STEPS: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "filter": (
        lambda t: t.filter(row["text"].contains("milk")),
        QueryError,
        "filter(row['text'].contains('milk'))",
    ),
    "callable": (lambda t: t.filter(read_missing), KeyError, "filter(read_missing, "),
    "arithmetic": (lambda t: t.filter(row["n"] * 2 > 1), QueryError, "row['n'] * 2"),
    "point arithmetic": (lambda t: t.filter(row["n"] + 1 == 2), QueryError, "row['n'] + 1"),
    "nested field": (lambda t: t.filter(row["user"]["name"] == "Ann"), QueryError, "user.name"),
    "nested range": (lambda t: t.filter(row["user"]["name"] > "A"), QueryError, "user.name"),
    "second filter": (
        lambda t: t.filter(row["id"] < 9).filter(row["text"].contains("milk")),
        QueryError,
        "filter(row['text'].contains('milk'))",
    ),
    "default": (
        lambda t: t.filter(row["none"] == 1, default=r.error()),
        QueryError,
        "filter(row['none'] == 1)",
    ),
    "map": (lambda t: t.map(row["n"] + 1), QueryError, "map(row['n'] + 1)"),
    "missing in a map": (lambda t: t.map(row["none"] + 1), QueryError, "map(row['none'] + 1)"),
    "merge": (lambda t: t.merge({"m": row["n"] + 1}), QueryError, "merge("),
    "map by a callable": (lambda t: t.map(read_missing), KeyError, "map(read_missing, "),
    "limit": (lambda t: t.order_by("id").filter(read_missing).limit(5), KeyError, "filter(read_missing, "),
    "order": (lambda t: t.order_by(row["n"] + 1).limit(5), QueryError, "order_by(asc(row['n'] + 1))"),
    "count": (lambda t: t.filter(read_missing).count(), KeyError, "filter(read_missing, "),
    "sum": (lambda t: t.sum("n"), QueryError, "sum(row['n'])"),
    "max": (lambda t: t.max(row["n"] + 1), QueryError, "max(row['n'] + 1)"),
    "group": (lambda t: t.group(row["n"] + 1).count(), QueryError, "group(row['n'] + 1)"),
    "groups of documents": (lambda t: t.group(row["n"] + 1), QueryError, "group(row['n'] + 1)"),
    "sums of groups": (lambda t: t.group("id").sum("n"), QueryError, "sum(row['n'])"),
    "distinct": (lambda t: t.distinct(row["n"] + 1), QueryError, "distinct(row['n'] + 1)"),
    "union": (lambda t: t.union(t.filter(read_missing)), KeyError, "filter(read_missing, "),
    "get": (lambda t: t.get(1).map(read_missing), KeyError, "map(read_missing, "),
    "get_all": (lambda t: t.get_all(1, 1).map(read_missing), KeyError, "map(read_missing, "),
    "between": (lambda t: t.between(1, 5).filter(read_missing), KeyError, "filter(read_missing, "),
}
each_step = pytest.mark.parametrize(("make", "error", "words"), STEPS.values(), ids=STEPS)


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, "reactdb"):
        yield caplog


@pytest.fixture
def todos() -> Iterator[Any]:
    with reactdb.connect(":memory:") as db:
        yield db.table_create("todos")


def warnings(log: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in log.records if record.levelno == logging.WARNING]


@each_step
def test_a_document_that_fails_is_counted_and_the_first_is_logged(
    todos: Any,
    log: pytest.LogCaptureFixture,
    make: Callable[[Any], Any],
    error: type[Exception],
    words: str,
) -> None:
    feed = make(todos).changes()
    errors: list[Exception] = []
    feed.subscribe(lambda event: None, errors.append)

    todos.insert(BAD)
    before = feed.stats()["failed"]
    todos.get(1).update({"again": True})

    assert (1, 2) == (before, feed.stats()["failed"])
    (line,) = warnings(log)
    assert "'todos'" in line
    assert words in line
    assert "the first is 1: " in line
    assert "stats()['failed']" in line
    assert [] == errors
    with pytest.raises(error):
        make(todos).run()


@each_step
def test_the_error_ends_the_feed_where_that_is_asked_for(
    todos: Any,
    log: pytest.LogCaptureFixture,
    make: Callable[[Any], Any],
    error: type[Exception],
    words: str,
) -> None:
    errors: list[Exception] = []
    heard: list[Any] = []
    others: list[Any] = []
    make(todos).changes(on_predicate_error="raise").subscribe(heard.append, errors.append)
    make(todos).changes().subscribe(others.append)
    todos.changes().subscribe(others.append)

    todos.insert(BAD)
    told = len(heard)
    todos.get(1).delete()

    assert [error] == [type(one) if error is KeyError else QueryError for one in errors]
    assert isinstance(errors[0], error)
    assert told == len(heard)
    assert {"old_val": None, "new_val": BAD} in others
    assert not any(record.levelno >= logging.ERROR for record in log.records)


def test_a_field_that_is_missing_is_no_failure_to_a_filter(todos: Any, log: pytest.LogCaptureFixture) -> None:
    """ReQL's semantics: the default counts."""
    feeds = [
        todos.filter(row["none"] > 1).changes(on_predicate_error="raise"),
        todos.filter(row["user"]["none"] == 1).changes(on_predicate_error="raise"),
        todos.filter(row["none"]["deeper"] == 1).changes(),
        todos.filter(row["none"] * 2 > 1).changes(),
        todos.filter({"none": 1}).changes(on_predicate_error="raise"),
        todos.filter(row["none"] == 1, default=True).changes(on_predicate_error="raise"),
        todos.has_fields("none").changes(on_predicate_error="raise"),
        todos.sum("none").changes(on_predicate_error="raise"),
        todos.group("none").count().changes(on_predicate_error="raise"),
    ]
    errors: list[Exception] = []
    for feed in feeds:
        feed.subscribe(lambda event: None, errors.append)

    todos.insert(GOOD)
    todos.insert({"id": 5, "user": None})

    assert [0] * len(feeds) == [feed.stats()["failed"] for feed in feeds]
    assert [] == warnings(log)
    assert [] == errors


def test_what_failed_before_and_is_mended_is_told_as_new(todos: Any) -> None:
    todos.insert(BAD)
    heard: list[Any] = []
    errors: list[Exception] = []
    feed = todos.filter(row["text"].contains("milk")).changes(on_predicate_error="raise")
    feed.subscribe(heard.append, errors.append)

    todos.get(1).replace({"id": 1, "text": ["milk"]})

    assert [{"old_val": None, "new_val": {"id": 1, "text": ["milk"]}}] == heard
    assert ([], 0) == (errors, feed.stats()["failed"])


def test_each_feed_counts_from_its_own_beginning(todos: Any) -> None:
    selection = todos.filter(row["n"] * 2 > 1)
    early = selection.changes()
    early.subscribe(print)
    todos.insert(BAD)
    late = selection.changes()
    late.subscribe(print)
    todos.insert({**BAD, "id": 2})

    assert (2, 1) == (early.stats()["failed"], late.stats()["failed"])


def test_the_count_stays_when_the_feed_has_ended(todos: Any) -> None:
    feed = todos.filter(read_missing).changes()
    with feed.cursor():
        todos.insert(BAD)
        assert 1 == feed.stats()["failed"]
    todos.insert({**BAD, "id": 2})

    assert 1 == feed.stats()["failed"]


def test_a_list_counts_what_it_begins_without(todos: Any, log: pytest.LogCaptureFixture) -> None:
    """For each subscriber; and the log has it once."""
    todos.insert([GOOD, BAD, {**BAD, "id": 2}])
    best = todos.order_by("id").filter(row["text"].contains("milk")).limit(5)
    feeds = [best.changes(include_initial=True), best.changes(include_initial=True)]
    heard: list[Any] = []
    for feed in feeds:
        feed.subscribe(heard.append)
    todos.insert({**BAD, "id": 3})

    assert [{"new_val": GOOD}] * 2 == heard
    assert [3, 3] == [feed.stats()["failed"] for feed in feeds]
    assert 1 == len(warnings(log))


def test_a_list_that_cannot_be_worked_out_does_not_begin_where_errors_are_raised(todos: Any) -> None:
    todos.insert([GOOD, BAD])
    best = todos.order_by("id").filter(row["text"].contains("milk")).limit(5)

    with pytest.raises(QueryError, match="Cannot convert NUMBER to SEQUENCE"):
        best.changes(on_predicate_error="raise").cursor()


@pytest.mark.parametrize(
    "make", [lambda t: t.filter(read_missing), lambda t: t.order_by("id").filter(read_missing).limit(9)]
)
def test_what_is_read_from_the_log_is_counted_once(
    todos: Any, log: pytest.LogCaptureFixture, make: Callable[[Any], Any]
) -> None:
    """Also when the feed is live again."""
    todos.insert({"id": 10, "mising": 2})
    feed = make(todos).changes(since=0)
    todos.insert([BAD, {**BAD, "id": 2}])
    with feed.cursor() as cursor:
        assert {"id": 10, "mising": 2} == cursor.next(timeout=1)["new_val"]
        todos.insert({"id": 11, "mising": 2})
        assert {"id": 11, "mising": 2} == cursor.next(timeout=1)["new_val"]
        todos.insert({**BAD, "id": 3})
        todos.insert({"id": 12, "mising": 2})
        assert {"id": 12, "mising": 2} == cursor.next(timeout=1)["new_val"]

        assert 3 == feed.stats()["failed"]


def test_what_the_log_has_before_the_error_is_told_first(todos: Any) -> None:
    todos.insert([{"id": 10, "mising": 2}, BAD, {"id": 11, "mising": 2}])

    with todos.filter(read_missing).changes(since=0, on_predicate_error="raise").cursor() as cursor:
        assert {"id": 10, "mising": 2} == cursor.next(timeout=1)["new_val"]
        with pytest.raises(KeyError, match="mising"):
            cursor.next(timeout=1)


def test_what_a_spilled_feed_reads_from_the_log_is_counted_once(todos: Any) -> None:
    feed = todos.filter(read_missing).changes(changefeed_queue_size=2, on_overflow="spill")
    with feed.cursor() as cursor:
        for number in range(6):
            todos.insert({"id": number, "mising": 2})
            todos.insert({"id": number + 100})
        told = [cursor.next(timeout=1)["new_val"]["id"] for _ in range(6)]

        assert list(range(6)) == told
        assert 6 == feed.stats()["failed"]


def test_the_strict_feed_hears_of_documents_that_its_routing_would_have_left_out(todos: Any) -> None:
    """`run()` meets the failing part first. A feed that skips looks only at what could pass; a strict one at everything."""
    selection = todos.filter((row["n"] * 2 > 1) & (row["kind"] == "a"))
    strict, lax = selection.changes(on_predicate_error="raise"), selection.changes()
    errors: list[Exception] = []
    strict.subscribe(lambda event: None, errors.append)
    lax.subscribe(lambda event: None)

    todos.insert({**BAD, "kind": "b"})

    assert [QueryError] == [type(error) for error in errors]
    assert 0 == lax.stats()["failed"]
    assert "hashed by the value of kind (1)" == lax.explain()["routing"]
    assert "every change of the table" == strict.explain()["routing"]


def test_very_many_feeds_of_one_field_are_not_asked_about_a_document_that_has_no_such_field(
    todos: Any, log: pytest.LogCaptureFixture
) -> None:
    """It is noted where they are found by that field, once for all of them: a bad document costs no more than a good one."""
    asked: list[Any] = []
    feeds = [
        todos.filter(row["user"]["name"] == f"name {number}")
        .filter(lambda document: asked.append(document) or True)
        .changes()
        for number in range(50)
    ]
    for feed in feeds:
        feed.subscribe(print)

    todos.insert([BAD, {**BAD, "id": 2}])

    assert [2] * 50 == [feed.stats()["failed"] for feed in feeds]
    assert [] == asked
    assert 1 == len(warnings(log))


def test_the_log_names_the_line_of_a_callable_and_the_line_that_raised(
    todos: Any, log: pytest.LogCaptureFixture
) -> None:
    def outer(document: Any) -> Any:
        return inner(document)

    def inner(document: Any) -> Any:
        return document["mising"]

    todos.filter(outer).changes().subscribe(print)
    todos.insert(BAD)

    defined, raised = outer.__code__.co_firstlineno, inner.__code__.co_firstlineno + 1
    (line,) = warnings(log)
    assert f"{Path(__file__).name}:{defined})" in line
    assert f"KeyError: 'mising' ({__file__}:{raised})" in line


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (functools.partial(read_missing), f"{Path(__file__).name}:{read_missing.__code__.co_firstlineno}"),
        (Readers().method, "Readers.method, "),
        (Readers(), "Readers, "),
        (int, "int"),
    ],
)
def test_whatever_can_be_called_has_a_name_in_the_log(
    todos: Any, log: pytest.LogCaptureFixture, function: Any, name: str
) -> None:
    todos.map(function).changes().subscribe(print)
    todos.insert(BAD)

    (line,) = warnings(log)
    assert name in line


def test_the_log_has_nothing_of_the_document_but_its_key(todos: Any, log: pytest.LogCaptureFixture) -> None:
    todos.map(row["none"]).changes().subscribe(print)
    todos.insert({"id": 1, "password": "swordfish"})

    (line,) = warnings(log)
    assert "No attribute `none` in object" in line
    assert "swordfish" not in line


def test_a_handler_of_the_log_may_write_to_the_database(todos: Any) -> None:
    """It is called where no lock is held. One that raises keeps nobody else from hearing."""

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            todos.insert({"id": "log", "text": [record.getMessage()]})
            raise RuntimeError("a handler that does not behave")

    heard: list[Any] = []
    todos.filter(row["text"].contains("milk")).changes().subscribe(heard.append)
    todos.changes().subscribe(heard.append)
    handler = Keep()
    logging.getLogger("reactdb").addHandler(handler)
    try:
        todos.insert(BAD)
        todos.insert(GOOD)
    finally:
        logging.getLogger("reactdb").removeHandler(handler)

    assert "passes over documents" in todos.get("log").run()["text"][0]
    assert 2 == sum(event["new_val"] == GOOD for event in heard)


def test_a_term_after_changes_that_fails_ends_the_feed_as_it_does_in_reql(todos: Any) -> None:
    """Whatever the option says: there is no document to pass over, but an event that was promised."""
    for make in (
        lambda feed: feed.filter(lambda event: event["new_val"]["mising"] > 1),
        lambda feed: feed.map(lambda event: event["mising"]),
        lambda feed: feed.merge({"n": row["new_val"]["n"] + 1}),
        lambda feed: feed.filter(row["new_val"]["text"].contains("milk")),
    ):
        errors: list[Exception] = []
        make(todos.changes()).subscribe(lambda event: None, errors.append)
        todos.insert(BAD, conflict="replace")
        todos.get(1).delete()
        assert 1 == len(errors)


@pytest.mark.parametrize("value", ["ignore", None, True, 1, "SKIP"])
def test_the_option_is_one_of_two_words(db: Any, games: Any, value: Any) -> None:
    with pytest.raises(InvalidOption, match='on_predicate_error is "skip" or "raise"'):
        games.changes(on_predicate_error=value)
    with pytest.raises(InvalidOption, match='on_predicate_error is "skip" or "raise"'):
        db.changes(on_predicate_error=value)


def test_explain_names_the_option(games: Any) -> None:
    assert "skip" == games.changes().explain()["on_predicate_error"]
    assert "raise" == games.changes(on_predicate_error="raise").explain()["on_predicate_error"]
