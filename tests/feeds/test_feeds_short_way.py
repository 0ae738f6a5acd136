"""From a write to who hears of it: what is told is what was stored, and an interrupt on the way loses and doubles nothing."""

from __future__ import annotations

import gc
import linecache
import sys
from collections.abc import Callable
from decimal import Decimal
from types import CodeType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb import row
from reactdb.change import MOST_IN_HAND
from reactdb.feeds import broadcast, dispatch
from reactdb.session import session_of
from reactdb.values.codec import FrozenDict, decode_frozen
from tests.support.scaling import examples


class Name(str):
    """A name that is no plain one."""


DOCUMENTS: dict[str, Callable[[], dict[Any, Any]]] = {
    "flat": lambda: {"id": 1, "a": 1, "b": "two", "c": 3.5, "d": None, "e": True, "f": b"six"},
    "nested": lambda: {"id": 1, "list": [1, [2]], "dict": {"x": {"y": 1}}},
    "bytearray": lambda: {"id": 1, "data": bytearray(b"ab")},
    "name": lambda: {"id": 1, Name("a"): 1},
    "tuple": lambda: {"id": 1, "pair": (1, 2)},
    "number": lambda: {"id": 1, "n": 2**70, "d": Decimal("1.50"), "zero": -0.0},
    "no key": lambda: {"a": 1},
}


def shape(value: Any) -> Any:
    """A value with the types of all that is in it."""
    if isinstance(value, dict):
        return type(value), [(type(key), key, shape(inner)) for key, inner in value.items()]
    if isinstance(value, list):
        return type(value), [shape(inner) for inner in value]
    return type(value), repr(value)


def as_stored(db: Any) -> list[tuple[Any, Any]]:
    """What the log says of each change, decoded from its bytes."""

    def decoded(data: bytes | None) -> FrozenDict | None:
        return None if data is None else decode_frozen(data)

    return [(decoded(change.old_bytes), decoded(change.new_bytes)) for change in db.log(table="games")]


def told(events: list[Any]) -> list[tuple[Any, Any]]:
    return [(event["old_val"], event["new_val"]) for event in events]


@pytest.mark.parametrize("make", DOCUMENTS.values(), ids=DOCUMENTS)
def test_what_is_told_at_once_is_what_was_stored(
    db: Any, games: Any, make: Callable[[], dict[Any, Any]]
) -> None:
    events: list[Any] = []
    games.changes().subscribe(events.append)
    given = make()

    games.insert(given)
    given["list"] = "changed afterwards"
    for key in ("list", "dict"):
        if isinstance(given.get(key), (list, dict)):
            given[key].clear()
    (key,) = [document["id"] for document in games]
    games.get(key).update({"z": bytearray(b"yz")})
    games.get(key).update({"z": 1, "a": [1]})
    games.get(key).update({"a": 2})
    games.get(key).delete()

    assert shape(as_stored(db)) == shape(told(events))
    with pytest.raises(TypeError, match="shared"):
        events[1]["old_val"]["a"] = 5


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from("abc"),
            st.one_of(
                st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers())
            ),
        ),
        max_size=6,
    )
)
def test_updates_are_told_as_they_are_stored(patches: list[dict[str, Any]]) -> None:
    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")
        events: list[Any] = []
        games.get(1).changes().subscribe(events.append)

        games.insert({"id": 1})
        for patch in patches:
            games.get(1).update(patch)

        assert shape(as_stored(db)) == shape(told(events))


def test_what_a_transaction_writes_is_told_as_it_is_stored(db: Any, games: Any) -> None:
    """Only its first change has documents in hand, and that may have been written over since."""
    events: list[Any] = []
    games.changes().subscribe(events.append)

    with db.transaction():
        games.insert({"id": 1, "a": 1})
    with db.transaction():
        games.get(1).update({"a": 2})
        games.get(1).update({"a": 3})
    with db.transaction():
        with pytest.raises(reactdb.DuplicateKey), db.transaction():
            games.get(1).update({"a": 4})
            games.insert({"id": 1})
        games.insert({"id": 2, "a": 5})
    for write in (lambda: games.get(1).delete(), lambda: games.get(2).replace({"id": 2, "a": 6})):
        with db.transaction():
            with pytest.raises(reactdb.DuplicateKey), db.transaction():
                games.get(1).update({"a": 4})
                games.insert({"id": 2})
            write()

    assert shape(as_stored(db)) == shape(told(events))
    assert [1, 2, 3, 5, None, 6] == [new and new["a"] for _, new in told(events)]


def test_what_waits_does_not_hold_the_documents_of_the_writer(games: Any) -> None:
    """It waits as bytes, and is decoded when it is read."""
    cursor = games.changes().cursor()

    before = documents_held()
    for number in range(3):
        games.insert({"id": number})

    assert before == documents_held()
    assert [{"id": number} for number in range(3)] == [next(cursor)["new_val"] for _ in range(3)]


def test_what_was_told_to_one_waits_for_another_as_bytes(db: Any, games: Any) -> None:
    """The writer takes its documents back when the commit was delivered."""
    games.insert([{"id": 1}, {"id": 2}])
    cursor = games.changes().cursor()
    heard: list[Any] = []
    games.get(1).changes().subscribe(lambda event: heard.append(event["new_val"]["a"]))

    before = documents_held()
    for number in range(3):
        games.get(1).update({"a": number})
    with db.transaction():
        for number in range(3, 90):
            games.get(1 + number % 2).update({"a": number})

    assert before == documents_held()
    assert [*range(3), *range(4, 90, 2)] == heard
    assert [*range(90)] == [next(cursor)["new_val"]["a"] for _ in range(90)]


def test_a_transaction_that_goes_on_holds_few_documents(db: Any, games: Any) -> None:
    games.insert({"id": 1})
    games.changes().subscribe(lambda event: None)

    before = documents_held()
    with db.transaction():
        for number in range(200):
            games.get(1).update({"a": number})
        held = documents_held() - before

    assert 0 < held <= 2 * MOST_IN_HAND


def test_a_function_that_updates_gets_a_document_of_its_own(games: Any) -> None:
    """Also where a feed is handed what the write has decoded."""
    games.insert({"id": 1, "a": [1]})
    events: list[Any] = []
    games.changes().subscribe(events.append)

    def change(document: Any) -> Any:
        document["a"].append(2)
        document["b"] = "unasked"
        return {"c": 3}

    games.get(1).update(change)

    assert [({"id": 1, "a": [1]}, {"id": 1, "a": [1], "c": 3})] == told(events)


@pytest.mark.parametrize("is_late", [False, True])
def test_what_is_read_before_a_document_that_cannot_be_is_told(
    db: Any, games: Any, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    """And nothing after it."""
    since = db.seq
    heard: list[Any] = []
    errors: list[Exception] = []

    def listen(**options: Any) -> None:
        games.changes(**options).subscribe(lambda event: heard.append(event["new_val"]["id"]), errors.append)

    def decode_unless_broken(body: bytes) -> FrozenDict:
        if b"broken" in body:
            raise reactdb.CorruptDatabase("broken")
        return decode_frozen(body)

    monkeypatch.setattr("reactdb.values.codec.decode_frozen", decode_unless_broken)
    if not is_late:
        listen()
    games.insert([{"id": number, "a": "broken" if number == 70 else "whole"} for number in range(80)])
    if is_late:
        listen(since=since)

    assert [*range(70)] == heard
    assert ["broken"] == list(map(str, errors))


def documents_held() -> int:
    gc.collect()
    return sum(isinstance(one, FrozenDict) for one in gc.get_objects())


def test_a_write_within_on_next_is_told_after_what_is_being_told(games: Any) -> None:
    heard: list[Any] = []

    def tell(event: Any) -> None:
        number = event["new_val"]["id"]
        if number < 5:
            games.insert({"id": number + 1})
            games.insert({"id": number + 11})
        heard.append(number)

    games.changes().subscribe(tell)
    games.insert({"id": 1})

    assert [1, 2, 12, 3, 13, 4, 14, 5, 15] == heard


def test_a_key_that_nobody_hears_of_is_passed_over(db: Any, games: Any) -> None:
    events: list[Any] = []
    games.get(1).changes().subscribe(events.append)

    games.insert({"id": 2})
    games.insert({"id": 1})

    assert [1] == [event["new_val"]["id"] for event in events]
    assert db.seq == 3


def test_a_range_of_keys_hears_beside_a_key(games: Any) -> None:
    one: list[Any] = []
    many: list[Any] = []
    games.get(1).changes().subscribe(one.append)
    games.between(0, 5).changes().subscribe(many.append)

    for number in (1, 3, 7):
        games.insert({"id": number})

    assert ([1], [1, 3]) == ([e["new_val"]["id"] for e in one], [e["new_val"]["id"] for e in many])


def test_who_hears_of_all_tables_hears_beside_a_table(db: Any, games: Any) -> None:
    one: list[Any] = []
    every: list[Any] = []
    games.changes().subscribe(one.append)
    db.changes().subscribe(every.append)
    other = db.table_create("other")

    games.insert({"id": 1})
    other.insert({"id": 2})

    assert ([1], [1, 2]) == ([e["new_val"]["id"] for e in one], [e["new_val"]["id"] for e in every])


@pytest.mark.parametrize("is_one", [True, False])
def test_a_queue_that_is_full_drops_the_earliest_of_a_commit(db: Any, games: Any, is_one: bool) -> None:
    """Whether its changes come together or one by one."""
    events: list[Any] = []

    def tell(event: Any) -> None:
        events.append(event)
        if len(events) == 1:
            if is_one:
                with db.transaction():
                    games.insert([{"id": number} for number in range(1, 7)])
            else:
                for number in range(1, 7):
                    games.insert({"id": number})

    games.changes(changefeed_queue_size=2).subscribe(tell)
    games.insert({"id": 0})

    assert {"error": "Changefeed cache over array size limit, skipped 4 elements."} == events[1]
    assert [0, 5, 6] == [event["new_val"]["id"] for event in events if "new_val" in event]


@pytest.mark.parametrize("on_overflow", ["drop", "error", "spill"])
@pytest.mark.parametrize("squash", [False, True])
def test_a_commit_is_taken_in_as_its_changes_one_by_one_would_be(on_overflow: str, squash: bool) -> None:
    """A filter that looks at nothing is told change by change."""
    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")
        options = {"on_overflow": on_overflow, "squash": squash, "changefeed_queue_size": 4}
        cursors = [
            games.changes(**options).cursor(),
            games.filter(lambda one: True).changes(**options).cursor(),
        ]
        with db.transaction():
            games.insert([{"id": number} for number in range(3)])
            games.get(0).update({"a": 1})
            games.get(1).update({"a": 1})
            games.get(2).delete()
            games.insert({"id": 5})
        with db.transaction():
            games.insert([{"id": 6}, {"id": 7}])

        heard = [drained(cursor) for cursor in cursors]

    assert heard[0] == heard[1]
    assert len(heard[0]) > 1


def drained(cursor: Any) -> list[Any]:
    found = []
    try:
        while True:
            found.append(cursor.next(timeout=0))
    except (TimeoutError, StopIteration):
        return found
    except reactdb.FeedOverflow as error:
        return [*found, str(error)]


class Struck(BaseException):
    pass


# Where an event is passed on, and subscribers come and go: what is half done there is felt by others.
FILES = {dispatch.__file__, broadcast.__file__}
Line = tuple[CodeType, int]


def lines_of(work: Callable[[], Any]) -> list[Line]:
    """The lines of these files that it comes by."""
    found: dict[Line, None] = {}

    def trace(frame: Any, event: str, argument: Any) -> Any:
        # Python raises Ctrl-C after calls and jumps, and `Dispatcher.run` gives its lock back by that.
        if frame.f_code.co_filename not in FILES or frame.f_code is dispatch.Dispatcher.run.__code__:
            return None
        if event == "line" and not is_at_mark(frame):
            found[frame.f_code, frame.f_lineno] = None
        return trace

    traced(trace, work)
    return list(found)


def is_at_mark(frame: Any) -> bool:
    """Whether the line only sets or resets the mark of the routing thread: between it and the `try` around the work there is no
    call, so Python raises no Ctrl-C there."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return line == "try:" or "routing_thread" in line


def struck_at(place: Line, work: Callable[[], Any]) -> None:
    """Do it, and strike where that line of that code begins, once."""
    code, line = place
    is_armed = [True]

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code is not code:
            return None
        if event == "line" and frame.f_lineno == line and is_armed:
            is_armed.clear()
            raise Struck
        return trace

    traced(trace, work)


def traced(trace: Any, work: Callable[[], Any]) -> None:
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except Struck:
        pass
    finally:
        sys.settrace(before)


def test_ctrl_c_on_the_way_loses_and_doubles_nothing() -> None:
    """Wherever it strikes in telling one listener: the feed ends, or it hears of every change once."""
    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")
        handle = games.changes().subscribe(lambda event: None)
        games.insert({"id": 0})
        places = lines_of(lambda: games.insert({"id": 1}))
        handle.dispose()
        assert len(places) > 50
        for number, place in enumerate(places):
            events: list[Any] = []
            ended: list[Any] = []
            handle = games.changes().subscribe(events.append, ended.append)
            games.insert({"id": (number, 0)})

            struck_at(place, lambda key=(number, 1): games.insert({"id": key}))
            games.insert({"id": (number, 2)})

            heard = [tuple(event["new_val"]["id"]) for event in events]
            assert heard == [(number, part) for part in range(3)][: len(heard)], place
            assert len(heard) == 3 or ended, place
            handle.dispose()


def test_filters_of_a_table_tell_who_enters_and_who_leaves(games: Any) -> None:
    heard: dict[str, list[Any]] = {"equal": [], "range": [], "both": [], "broken": []}
    games.filter({"a": 1}).changes(include_types=True).subscribe(heard["equal"].append)
    games.filter(row["a"] > 1).changes(include_types=True).subscribe(heard["range"].append)
    games.filter(row["a"] > 0).filter(row["b"] == 2).changes(include_types=True).subscribe(
        heard["both"].append
    )
    games.filter(lambda one: one["c"] > 1).changes(include_types=True).subscribe(heard["broken"].append)

    games.insert({"id": 1, "a": 1})
    games.get(1).update({"b": 2})
    games.get(1).update({"a": 2})
    games.get(1).update({"c": 2})
    games.get(1).update({"c": "text"})
    games.get(1).update({"b": 3, "a": None})
    games.get(1).delete()

    assert ["add", "change", "remove"] == [event["type"] for event in heard["equal"]]
    assert ["add", "change", "change", "remove"] == [event["type"] for event in heard["range"]]
    assert ["add", "change", "change", "change", "remove"] == [event["type"] for event in heard["both"]]
    assert ["add", "remove"] == [event["type"] for event in heard["broken"]]


@pytest.mark.slow
def test_ctrl_c_while_a_subscriber_comes_or_goes_harms_nobody_else() -> None:
    """Those who are there hear every change once, or that their feed has ended; and nothing is left of it."""

    def comes_and_goes(games: Any) -> None:
        Listener(games.changes()).handle.dispose()
        games.changes().cursor().close()

    def looked_at(others: int, place: Line | None) -> list[Line]:
        db = reactdb.connect(":memory:")
        games = db.table_create("games")
        there = [Listener(games.changes()) for _ in range(others)]
        found: list[Line] = []
        if place is None:
            comes_and_goes(games)
            found = lines_of(lambda: comes_and_goes(games))
        else:
            struck_at(place, lambda: Listener(games.changes()).handle.dispose())
            games.insert({"id": 1})
            struck_at(place, lambda: games.changes().cursor().close())
            games.insert({"id": 2})
            for one in there:
                assert one.heard == [1, 2] or (one.ended and one.heard == [1, 2][: len(one.heard)]), place
        db.close()
        assert (
            session_of(db).engine.publisher.listener is None
            or not session_of(db).engine.publisher.listener.live.nodes
        ), place
        return found

    for others in range(3):
        for place in looked_at(others, None):
            looked_at(others, place)


class Listener:
    def __init__(self, feed: Any) -> None:
        self.heard: list[Any] = []
        self.ended: list[Any] = []
        self.handle = feed.subscribe(
            lambda event: self.heard.append(event["new_val"]["id"]), self.ended.append
        )
