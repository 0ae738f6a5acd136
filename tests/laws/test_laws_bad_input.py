"""Laws of input: a value is stored exactly or refused with one of reactdb's errors, and a refusal leaves nothing behind."""

from __future__ import annotations

import gc
import math
import struct
import threading
import tracemalloc
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgpack
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import reactdb
from reactdb import row
from reactdb.errors import ReactDBError
from reactdb.store.file import sqlite
from reactdb.values import codec
from tests.support.scaling import examples

# ---------------------------------------------------------------------------------------------------------------
# Values of every kind

EDGES = [edge + step for edge in (2**53, 2**63, 2**64, -(2**53), -(2**63), 2**8190) for step in (-1, 0, 1)]
INTS = st.one_of(st.sampled_from(EDGES), st.integers())
TEXT = st.one_of(
    st.text(max_size=12), st.sampled_from(["", "\0", "a\0b", "'", '"; DROP TABLE log; --', "é", "e\u0301"])
)
MOMENTS = st.datetimes(
    min_value=datetime(2, 1, 1),
    max_value=datetime(9998, 1, 1),
    timezones=st.sampled_from(
        [UTC, timezone(timedelta(hours=-9, minutes=-30)), timezone(timedelta(seconds=1))]
    ),
)
GOOD_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    INTS.filter(lambda number: number.bit_length() <= codec.MAX_INT_BITS),
    st.floats(),
    TEXT,
    st.binary(max_size=12),
    st.decimals(allow_nan=False, allow_infinity=False, places=2),
    st.uuids(),
    st.dates(),
    st.times(),
    st.timedeltas(),
    MOMENTS,
)
GOOD = st.recursive(
    GOOD_SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=12,
)


class Raising:
    """Fails at whatever it is asked."""

    def __repr__(self) -> str:
        raise ZeroDivisionError

    __str__ = __repr__
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError

    def __bool__(self) -> bool:
        raise ZeroDivisionError


class Numeric:
    """What a number of another library looks like: it converts, and is none."""

    dtype = "float64"

    def __float__(self) -> float:
        return 1.0

    def __int__(self) -> int:
        return 1

    def __index__(self) -> int:
        return 1

    def tolist(self) -> list[int]:
        return [1]

    def __array__(self) -> Any:
        raise TypeError


class Unreadable(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise ZeroDivisionError

    def __iter__(self) -> Iterator[str]:
        return iter(["id"])

    def __len__(self) -> int:
        return 1


class NoUUID(UUID):
    @property
    def bytes(self) -> bytes:
        return b"short"


class NoMoment(tzinfo):
    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        raise ZeroDivisionError

    def dst(self, moment: datetime | None) -> None:
        return None

    def tzname(self, moment: datetime | None) -> str:
        return "nowhere"


def nested(levels: int, *, wide: bool = False) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value} if wide else [value]
    return value


def inside_itself() -> Any:
    value: list[Any] = []
    value.append({"again": value})
    return value


def shared_too_often() -> Any:
    """Sixty lists, and 2**60 values to whoever walks through them."""
    value: Any = [1]
    for _ in range(60):
        value = [value, value]
    return value


# What no document can hold, each made anew.
BAD: dict[str, Callable[[], Any]] = {
    "a set": lambda: {1, 2},
    "a frozen set": lambda: frozenset("a"),
    "a generator": lambda: (number for number in [1]),
    "an iterator": lambda: iter([1]),
    "a range": lambda: range(3),
    "an object": object,
    "a class": lambda: int,
    "a function": lambda: len,
    "a complex number": lambda: 1j,
    "something that fails": Raising,
    "a foreign number": Numeric,
    "an exception": lambda: ValueError("x"),
    "not implemented": lambda: NotImplemented,
    "an ellipsis": lambda: ...,
    "a foreign mapping": Unreadable,
    "an extension type": lambda: msgpack.ExtType(1, b"\0"),
    "an unknown extension type": lambda: msgpack.ExtType(99, b""),
    "a timestamp": lambda: msgpack.Timestamp(1, 2),
    "a datetime without a time zone": lambda: datetime(2020, 1, 1),
    "a datetime whose time zone fails": lambda: datetime(2020, 1, 1, tzinfo=NoMoment()),
    "a datetime before the year 1": lambda: datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
    "a time with a time zone": lambda: time(1, tzinfo=UTC),
    "Decimal NaN": lambda: Decimal("NaN"),
    "Decimal sNaN": lambda: Decimal("sNaN"),
    "Decimal Infinity": lambda: Decimal("-Infinity"),
    "a Decimal with too many digits": lambda: Decimal("1" * 5_000),
    "an int with too many bits": lambda: 2**8_191,
    "an int that Python does not print": lambda: 10**5_000,
    "a lone surrogate": lambda: "a\udfff",
    "a lone surrogate in a name": lambda: {"\ud800": 1},
    "an int as a name": lambda: {1: 1},
    "None as a name": lambda: {None: 1},
    "a tuple as a name": lambda: {(1, 2): 1},
    "names of many types": lambda: {"a": 1, 2: 2, None: 3},
    "bytes as a name": lambda: {b"a": 1},
    "too deep a list": lambda: nested(101),
    "too deep a dict": lambda: nested(101, wide=True),
    "far too deep": lambda: nested(50_000),
    "something inside itself": inside_itself,
    "something held too often": shared_too_often,
    "minval": lambda: reactdb.minval,
}
BAD_VALUES = st.sampled_from(sorted(BAD))


class Hearing:
    """What the feed of a table was told."""

    def __init__(self, table: Any) -> None:
        self.events: list[Any] = []
        self.errors: list[Exception] = []
        self._handle = table.changes().subscribe(self.events.append, self.errors.append)

    def close(self) -> None:
        self._handle.dispose()


@pytest.fixture(scope="module")
def shelf() -> Iterator[Any]:
    """One database for many examples, each of which leaves it as it was."""
    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")
        games.index_create("a")
        games.insert({"id": 1, "a": "stored"})
        yield db


def refused_whole(db: Any, use: Callable[[Any], Any]) -> ReactDBError:
    """The one error of ours that a bad use ends with; nothing was written or told, and a good write works afterwards."""
    games = db.table("games")
    hearing = Hearing(games)
    before, stored = db.seq, codec.encode_value(games.run())
    try:
        with pytest.raises(ReactDBError) as caught:
            use(games)
        assert before == db.seq
        assert stored == codec.encode_value(games.run())
        assert [] == hearing.events
        games.get(1).update({"n": before})
        assert [before] == [event["new_val"]["n"] for event in hearing.events]
        assert [1] == [document["id"] for document in games.get_all("stored", index="a")]
        assert [] == hearing.errors
    finally:
        hearing.close()
    return caught.value


def error_of(use: Callable[[], Any]) -> ReactDBError | None:
    """The error of ours that it ends with, if it does."""
    try:
        use()
    except ReactDBError as error:
        return error
    return None


# Where a value may come in, other than as a document's key.
DOORS: dict[str, Callable[[Any, Any], Any]] = {
    "insert": lambda games, bad: games.insert({"id": 2, "secret": "hunter2", "a": bad}),
    "insert, in a list": lambda games, bad: games.insert({"id": 2, "secret": "hunter2", "a": [{"b": bad}]}),
    "insert, the last of many": lambda games, bad: games.insert([{"id": 2}, {"id": 3, "a": bad}]),
    "insert, from a generator": lambda games, bad: games.insert(
        one for one in [{"id": 2}, {"id": 3, "a": bad}]
    ),
    "insert, a dict of another type": lambda games, bad: games.insert(OrderedDict(id=2, a=bad)),
    "insert over": lambda games, bad: games.insert({"id": 1, "a": bad}, conflict="replace"),
    "insert into": lambda games, bad: games.insert({"id": 1, "a": bad}, conflict="update"),
    "insert, by a function": lambda games, bad: games.insert(
        {"id": 1}, conflict=lambda key, old, new: {"id": 1, "a": bad}
    ),
    "replace": lambda games, bad: games.get(1).replace({"id": 1, "secret": "hunter2", "a": bad}),
    "replace, by a function": lambda games, bad: games.get(1).replace(lambda old: {"id": 1, "a": bad}),
    "update, by a function": lambda games, bad: games.get(1).update(lambda old: {"a": [bad]}),
    "insert, as a part of a key": lambda games, bad: games.insert({"id": [bad]}),
}


@settings(max_examples=examples(150))
@given(door=st.sampled_from(sorted(DOORS)), name=BAD_VALUES)
def test_a_value_that_cannot_be_kept_is_refused_at_every_door_and_leaves_nothing(
    shelf: Any, door: str, name: str
) -> None:
    error = refused_whole(shelf, lambda games: DOORS[door](games, BAD[name]()))

    assert isinstance(error, (reactdb.UsageError, ValueError))
    assert "hunter2" not in str(error)
    assert len(str(error)) < 1_000
    if door == "insert" and isinstance(error, reactdb.InvalidDocument) and error.path:
        assert ("a",) == error.path[:1]


@pytest.mark.parametrize("name", sorted(BAD))
def test_every_value_that_cannot_be_kept_names_its_place(shelf: Any, name: str) -> None:
    error = refused_whole(shelf, lambda games: games.insert({"id": 2, "deep": {"er": [0, BAD[name]()]}}))

    assert isinstance(error, reactdb.InvalidDocument)
    assert error.path[:3] == ("deep", "er", 1) or error.path == ()


# An extension type of the packer is a tuple to whoever only asks; a function builds an expression.
MEANS_SOMETHING = {"minval", "a class", "a function", "an extension type", "an unknown extension type"}


@pytest.mark.parametrize("name", sorted(set(BAD) - MEANS_SOMETHING))
def test_a_value_that_cannot_be_kept_cannot_be_asked_for(shelf: Any, name: str) -> None:
    bad = BAD[name]
    for ask in (
        lambda games: games.get(bad()).run(),
        lambda games: games.get_all(bad()).run(),
        lambda games: games.get_all(bad(), index="a").run(),
        lambda games: games.between(bad(), 5).run(),
        lambda games: games.between([bad()], 5, index="a").run(),
        lambda games: games.filter(row["a"] == bad()).run(),
        lambda games: games.filter({"a": {"b": bad()}}).run(),
        lambda games: games.get(1).update({"b": row["a"], "c": bad()}),
    ):
        refused_whole(shelf, ask)


NO_OPTIONS: list[Callable[[], Any]] = [
    Raising,
    object,
    lambda: b"x",
    lambda: {1},
    lambda: float("nan"),
    inside_itself,
]


@pytest.mark.parametrize("make", NO_OPTIONS)
def test_what_is_no_option_of_anything_is_refused_by_every_option(
    shelf: Any, make: Callable[[], Any]
) -> None:
    uses: list[Callable[[Any], Any]] = [
        lambda games: games.insert({"id": 2}, conflict=make()),
        lambda games: games.insert({"id": 2}, durability=make()),
        lambda games: games.insert({"id": 2}, return_changes=make()),
        lambda games: games.get(1).update({"x": 1}, durability=make()),
        lambda games: games.get(1).delete(return_changes=make()),
        lambda games: games.limit(make()).run(),
        lambda games: games.skip(make()).run(),
        lambda games: games.between(1, 2, left_bound=make()).run(),
        lambda games: games.between(1, 2, index=make()).run(),
        lambda games: games.get_all(1, index=make()).run(),
        lambda games: games.order_by(index=make()).run(),
        lambda games: games.index_create(make()),
        lambda games: games.index_create("new", multi=make()),
        lambda games: games.changes(squash=make()),
        lambda games: games.changes(changefeed_queue_size=make()),
        lambda games: games.changes(include_initial=make()),
        lambda games: games.changes(since=make()),
        lambda games: games.changes(on_overflow=make()),
        lambda games: games.changes().cursor().next(timeout=make()),
        lambda games: games.changes().limit(make()),
        lambda games: games.changes().skip(make()),
        lambda games: games.index_drop(make()),
        lambda games: games.index_wait(make()),
        lambda games: shelf.table_drop(make()),
        lambda games: shelf.log(table=make()),
        lambda games: shelf.table(make()),
        lambda games: shelf.table_create(make()),
        lambda games: shelf.table_create("new", primary_key=make()),
        lambda games: shelf.table_create("new", exist_ok=make()),
        lambda games: shelf.log(since=make()),
        lambda games: shelf.log(until=make()),
        lambda games: shelf.at(make()),
        lambda games: shelf.compact(keep=make()),
        lambda games: shelf.compact(0, vacuum=make()),
        lambda games: shelf.transaction(durability=make()).__enter__(),
        lambda games: shelf.transaction(origin=make()).__enter__(),
        lambda games: reactdb.connect(":memory:", durability=make()),
        lambda games: reactdb.connect(":memory:", busy_timeout=make()),
        lambda games: reactdb.connect(":memory:", read_only=make()),
        lambda games: reactdb.connect(":memory:", retention=make()),
        lambda games: reactdb.connect(":memory:", origin=make()),
        lambda games: reactdb.connect(":memory:", scheduler=make()),
    ]
    for place, use in enumerate(uses):
        try:
            error = refused_whole(shelf, use)
        except BaseException as failure:
            failure.add_note(f"use {place}")
            raise
        assert len(str(error)) < 500, place


@pytest.mark.parametrize("timeout", [-1, True, "1", math.inf, math.nan, 10**400, Decimal(1), []])
def test_a_timeout_that_is_no_number_of_seconds_is_refused(shelf: Any, timeout: Any) -> None:
    with (
        shelf.table("games").changes().cursor() as cursor,
        pytest.raises(reactdb.InvalidOption, match="timeout is a"),
    ):
        cursor.next(timeout=timeout)


@pytest.mark.parametrize("number", ["NaN", "sNaN", "Infinity"])
def test_a_decimal_that_is_no_number_is_no_size_and_no_interval(shelf: Any, number: str) -> None:
    for option in ("squash", "changefeed_queue_size"):
        refused_whole(shelf, lambda games, option=option: games.changes(**{option: Decimal(number)}))


# ---------------------------------------------------------------------------------------------------------------
# What is kept is kept exactly


def bits(value: Any) -> Any:
    """The value with its types, and floats by their bits: `==` takes True for 1, and NaN for nothing at all."""
    if isinstance(value, float):
        return "float", struct.pack(">d", value)
    if isinstance(value, dict):
        return "dict", [(name, bits(inner)) for name, inner in value.items()]
    if isinstance(value, list):
        return "list", [bits(inner) for inner in value]
    if isinstance(value, datetime):
        return "datetime", value, value.utcoffset()
    if isinstance(value, Decimal):
        return "Decimal", value.as_tuple()
    return type(value).__name__, value


@given(document=st.dictionaries(TEXT, GOOD, max_size=5))
@example(
    document={
        "a": float("nan"),
        "b": -0.0,
        "c": float("-inf"),
        "d": 2**64,
        "e": -(2**63) - 1,
        "f": [True, 1, 1.0],
    }
)
@example(document={"a": nested(99), "": {"": {"\0": "\0"}}})
def test_an_accepted_document_comes_back_to_the_last_bit(shelf: Any, document: dict[str, Any]) -> None:
    games = shelf.table("games")
    games.insert({**document, "id": "kept"}, conflict="replace")

    found = games.get("kept").run()

    games.get("kept").delete()
    assert bits({**document, "id": "kept"}) == bits(found)


class Text(str):
    def __str__(self) -> str:
        return "lies"

    def encode(self, *arguments: Any) -> bytes:
        return b"lies"

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return False


class Whole(int):
    def __int__(self) -> int:
        return 13

    def bit_length(self) -> int:
        raise ZeroDivisionError

    def __repr__(self) -> str:
        raise ZeroDivisionError

    def __lt__(self, other: object) -> bool:
        raise ZeroDivisionError


class Fields(dict[Any, Any]):
    """Says something else each time."""

    asked = 0

    def _lie(self, *arguments: Any) -> Any:
        Fields.asked += 1
        return Fields.asked

    get = __getitem__ = _lie

    def __contains__(self, key: object) -> bool:
        return True

    def items(self) -> Any:
        return [("id", self._lie())]

    def keys(self) -> Any:
        return ["id"]

    def __iter__(self) -> Iterator[Any]:
        return iter(["id"])


class Row(list[Any]):
    def __iter__(self) -> Iterator[Any]:
        Fields.asked += 1
        return iter([Fields.asked])

    def __len__(self) -> int:
        return 0


LIARS: list[tuple[Any, dict[str, Any]]] = [
    ({"id": Text("key"), "a": Text("value")}, {"id": "key", "a": "value"}),
    ({Text("id"): "key", Text("a"): 1}, {"id": "key", "a": 1}),
    ({"id": Whole(7), "a": [Whole(8)]}, {"id": 7, "a": [8]}),
    ({"id": NoUUID(int=7), "a": [NoUUID(int=8)]}, {"id": UUID(int=7), "a": [UUID(int=8)]}),
    (Fields(id=7, a=Fields(b=1)), {"id": 7, "a": {"b": 1}}),
    ({"id": Row([1, 2]), "a": Row([3])}, {"id": [1, 2], "a": [3]}),
]


@pytest.mark.parametrize(("given_document", "stored"), LIARS)
def test_a_subclass_is_stored_as_what_it_is_a_subclass_of_and_its_methods_are_not_asked(
    db: Any, games: Any, given_document: Any, stored: dict[str, Any]
) -> None:
    games.insert(given_document)
    assert [stored] == games.run()
    assert stored == games.get(stored["id"]).run()

    games.get(stored["id"]).replace(lambda old: {**old, "n": 1})
    games.insert(given_document, conflict="replace")
    assert [stored] == games.run()


@pytest.mark.parametrize(
    "document", [Unreadable(), Raising(), 5, None, "text", b"", [[1]], [[]], range(3), {1, 2}]
)
def test_what_is_no_document_is_refused(shelf: Any, document: Any) -> None:
    refused_whole(shelf, lambda games: games.insert(document))
    refused_whole(shelf, lambda games: games.insert([document]))


def test_the_keys_that_python_takes_for_one_are_what_the_one_order_says(games: Any) -> None:
    games.insert([{"id": True}, {"id": 1}])

    with pytest.raises(reactdb.DuplicateKey):
        games.insert({"id": 1.0})
    with pytest.raises(reactdb.DuplicateKey):
        games.insert([{"id": -0.0}, {"id": 0}])
    games.insert([{"id": 2**53}, {"id": 2**53 + 1}, {"id": float(2**53 + 2)}])
    assert {"id": 2**53 + 1} == games.get(2**53 + 1).run()
    with pytest.raises(reactdb.DuplicateKey):
        games.insert({"id": float(2**53)})
    games.insert([{"id": "é"}, {"id": "e\u0301"}, {"id": "É"}, {"id": "a\0"}, {"id": "a"}])
    assert 10 == games.count().run()


# ---------------------------------------------------------------------------------------------------------------
# What changes while it is written


class Growing(tzinfo):
    """A time zone that changes the document it stands in whenever it is asked."""

    def __init__(self, change: Callable[[], object]) -> None:
        self.change = change
        self.left = 5

    def utcoffset(self, moment: datetime | None) -> timedelta:
        if self.left:
            self.left -= 1
            self.change()
        return timedelta(0)

    def dst(self, moment: datetime | None) -> None:
        return None

    def tzname(self, moment: datetime | None) -> str:
        return "growing"


@pytest.mark.parametrize("what", ["list", "dict", "bad name", "deeper"])
def test_a_document_that_changes_itself_while_it_is_written_is_stored_whole_or_refused(
    games: Any, what: str
) -> None:
    inner: Any = [] if what in ("list", "deeper") else {}
    changes: dict[str, Callable[[], object]] = {
        "list": lambda: inner.append(1),
        "dict": lambda: inner.update({f"k{len(inner)}": 1}),
        "bad name": lambda: inner.update({len(inner): 1}),
        "deeper": lambda: inner.append(nested(150)),
    }
    moment = datetime(2020, 1, 1, tzinfo=Growing(changes[what]))
    if isinstance(inner, list):
        inner.append(moment)
    else:
        inner["at"] = moment
    try:
        games.insert({"id": 1, "inner": inner, "after": [1, 2]})
    except reactdb.InvalidDocument:
        assert [] == games.run()
    else:
        assert [1, 2] == games.get(1).run()["after"]


class GrowingName(str):
    """A name that changes the dict that it is in, as another thread might, when it is asked what it begins with."""

    holder: dict[Any, Any]

    def startswith(self, *args: Any) -> bool:
        self.holder[f"k{len(self.holder)}"] = 1
        return super().startswith(*args)


@pytest.mark.parametrize("where", ["in the patch", "inside of it", "given by a function"])
def test_a_patch_that_changes_while_its_names_are_read_is_merged_as_it_was(games: Any, where: str) -> None:
    games.insert({"id": 1})
    name = GrowingName("a")
    name.holder = {name: {}}
    patch = {"inner": name.holder} if where == "inside of it" else name.holder
    games.get(1).update((lambda document: patch) if where == "given by a function" else patch)
    stored = games.get(1).run()
    assert (stored["inner"] if where == "inside of it" else stored)["a"] == {}
    assert len(name.holder) > 1


@pytest.mark.parametrize("where", ["in the patch", "inside of it"])
def test_a_patch_with_expressions_that_changes_while_it_is_read_is_merged_as_it_was(
    games: Any, where: str
) -> None:
    games.insert({"id": 1, "n": 1})
    holder: dict[str, Any] = {}
    moment = datetime(2020, 1, 1, tzinfo=Growing(lambda: holder.update({f"k{len(holder)}": 1})))
    holder.update({"at": moment, "n": reactdb.row["n"] + 1, "list": []})
    games.get(1).update({"inner": holder} if where == "inside of it" else holder)
    stored = games.get(1).run()
    assert (stored["inner"] if where == "inside of it" else stored)["n"] == 2
    assert len(holder) > 3


@pytest.mark.examples
@pytest.mark.parametrize("door", ["insert", "many", "replace", "update"])
def test_a_document_that_another_thread_changes_is_stored_under_the_key_that_is_in_it(door: str) -> None:
    """Whatever the other thread does, what is stored is a document, filed under its own key; or it is refused."""
    moment = datetime(2020, 1, 1, tzinfo=UTC)
    shared: dict[str, Any] = {"id": 0, "list": [moment], "dict": {"a": moment}}
    is_over = threading.Event()

    def change() -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            shared["id"] = number % 1_000
            shared["list"].append(moment)
            shared["dict"][f"k{number % 20}"] = moment
            if number % 10 == 0:
                shared["list"].clear()
                shared["dict"].clear()
            shared[f"x{number % 7}"] = number
            shared.pop(f"x{(number + 3) % 7}", None)

    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")
        games.insert({"id": "fixed"})
        changing = threading.Thread(target=change)
        changing.start()
        try:
            for _ in range(examples(1_500)):
                try:
                    if door == "insert":
                        games.insert(shared, conflict="replace")
                    elif door == "many":
                        games.insert([shared] * 3, conflict="replace")
                    elif door == "update":
                        games.get("fixed").update({"list": shared["list"], "dict": shared["dict"]})
                    else:
                        games.get(shared["id"]).replace(shared)
                except reactdb.UsageError:
                    pass
        finally:
            is_over.set()
            changing.join()

        for document in games.run():
            assert document == games.get(document["id"]).run()
        assert len(list(db.log())) == db.seq


# ---------------------------------------------------------------------------------------------------------------
# Functions of the caller's


def calls_itself(games: Any) -> Any:
    return games.get(1).update(lambda old: games.get(1).update({"x": 1}) and {})


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "a number": lambda games: games.get(1).update(lambda old: 5),
    "nothing": lambda games: games.get(1).update(lambda old: None),
    "a text": lambda games: games.get(1).update(lambda old: "text"),
    "a list": lambda games: games.get(1).update(lambda old: [old]),
    "a generator": lambda games: games.get(1).update(lambda old: (one for one in [1])),
    "a function": lambda games: games.get(1).update(lambda old: len),
    "its own document, without its key": lambda games: games.get(1).replace(
        lambda old: old.pop("id") and old
    ),
    "its own document, with another key": lambda games: games.get(1).replace(
        lambda old: old.update(id=2) or old
    ),
    "its own document, inside itself": lambda games: games.get(1).replace(
        lambda old: old.update(me=old) or old
    ),
    "a generator, by replace": lambda games: games.get(1).replace(lambda old: (one for one in [1])),
    "an object that fails": lambda games: games.get(1).replace(lambda old: Raising()),
    "a mapping that fails": lambda games: games.get(1).replace(lambda old: Unreadable()),
    "a write into the same document": calls_itself,
    "a write into another": lambda games: games.get(1).replace(lambda old: games.insert({"id": 9}) and old),
    "a delete": lambda games: games.update(lambda old: games.delete() and {}),
    "a patch inside itself": lambda games: games.get(1).update({"a": inside_itself()}),
    "a patch that is too deep": lambda games: games.get(1).update(nested(100_000, wide=True)),
    "a conflict's nonsense": lambda games: games.insert({"id": 1}, conflict=lambda key, old, new: 5),
}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_function_that_gives_nonsense_writes_nothing(shelf: Any, name: str) -> None:
    error = refused_whole(shelf, FUNCTIONS[name])

    assert isinstance(error, reactdb.UsageError)


class Mine(Exception):
    pass


def failing(*_: Any) -> Any:
    raise Mine


def fails_later() -> Iterator[Any]:
    yield {"id": 2}
    raise Mine


@pytest.mark.parametrize(
    "use",
    [
        lambda games: games.get(1).update(failing),
        lambda games: games.get(1).replace(failing),
        lambda games: games.insert({"id": 1}, conflict=failing),
        lambda games: games.filter(failing).delete(),
        lambda games: games.insert(fails_later()),
    ],
)
def test_an_error_of_the_callers_own_function_comes_back_as_it_is_and_nothing_is_written(
    shelf: Any, use: Callable[[Any], Any]
) -> None:
    games = shelf.table("games")
    before = shelf.seq

    with pytest.raises(Mine):
        use(games)
    assert before == shelf.seq
    games.get(1).update({"n": before})


def test_a_function_that_changes_what_it_is_given_changes_nothing_stored(games: Any) -> None:
    games.insert({"id": 1, "tags": ["a"]})

    games.get(1).update(lambda old: old["tags"].append("b") or old.clear() or {})

    assert {"id": 1, "tags": ["a"]} == games.get(1).run()


# ---------------------------------------------------------------------------------------------------------------
# Sizes


def of_bytes(size: int) -> dict[str, Any]:
    """A document of exactly so many bytes."""
    document = {"id": 1, "a": b""}
    rest = size - len(codec.encode({"id": 1, "a": b"x" * 2**16}))
    document["a"] = b"x" * (2**16 + rest)
    assert size == len(msgpack.packb(document))
    return document


@pytest.mark.parametrize("more", [-1, 0])
def test_a_document_of_the_largest_size_is_kept(games: Any, more: int) -> None:
    document = of_bytes(codec.MAX_DOCUMENT_BYTES + more)
    games.insert(document)

    assert document == games.get(1).run()


def test_one_byte_more_is_refused(shelf: Any) -> None:
    document = {**of_bytes(codec.MAX_DOCUMENT_BYTES + 1), "id": 2}

    for use in (
        lambda games: games.insert(document),
        lambda games: games.insert([{"id": 3}, document]),
        lambda games: games.get(1).replace({**document, "id": 1}),
        lambda games: games.get(1).update({"a": document["a"]}),
    ):
        assert "the limit is 16,777,216" in str(refused_whole(shelf, use))


@pytest.mark.parametrize("levels", [codec.MAX_DEPTH - 2, codec.MAX_DEPTH - 1])
def test_as_deep_as_may_be(games: Any, levels: int) -> None:
    for wide in (False, True):
        games.insert({"id": 1, "a": nested(levels, wide=wide)}, conflict="replace")
        assert nested(levels, wide=wide) == games.get(1).run()["a"]


@pytest.mark.soak
def test_a_hundred_thousand_fields(games: Any) -> None:
    document: dict[str, Any] = {"id": 1, **{f"field {number}": number for number in range(100_000)}}
    games.insert(document)

    assert document == games.get(1).run()
    games.get(1).update({"field 7": None})
    assert 100_001 == len(games.get(1).run())


@pytest.mark.soak
def test_a_hundred_megabytes_are_refused_and_given_back(shelf: Any) -> None:
    """A copy or two may be made to find out how much it is; none of them stays."""
    big = {"id": 2, "a": "x" * 100_000_000}
    games = shelf.table("games")
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(3):
            for use in (
                lambda: games.insert(big),
                lambda: games.insert([big]),
                lambda: games.get(2).replace(big),
                lambda: games.get(1).update({"a": big["a"]}),
                lambda: games.get(big["a"]).run(),
                lambda: games.insert({"id": big["a"]}),
                lambda: games.filter(row["a"] == big["a"]).run(),
                lambda: shelf.table(big["a"]),
                lambda: games.changes(since=big["a"]),
                lambda: games.insert({"id": 1}, durability=big["a"]),
            ):
                with pytest.raises(reactdb.UsageError) as caught:
                    use()
                assert len(str(caught.value)) < 1_000
                del caught
        left, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert left < 5_000_000
    assert peak < 500_000_000


# ---------------------------------------------------------------------------------------------------------------
# Names, and what reaches SQL

NAMES = st.one_of(
    st.text(max_size=20),
    st.text(alphabet="abAB01_.-é\"'`;*\0 ", min_size=1, max_size=140),
    st.sampled_from(
        [
            "sqlite_master",
            "log",
            "heads",
            "NULL",
            "select",
            "*",
            "",
            ".",
            "-",
            "a\nb",
            "\uff21",
            "x" * 10_000_000,
        ]
    ),
)


@settings(max_examples=examples(60))
@given(name=NAMES)
def test_a_name_is_taken_or_refused_and_means_only_itself(name: str) -> None:
    with reactdb.connect(":memory:") as db:
        refusal = error_of(lambda: db.table_create(name))
        table = db.table_create("good") if refusal is not None else db.table(name)
        if refusal is not None:
            assert isinstance(refusal, reactdb.errors.InvalidName)
            assert len(str(refusal)) < 300
            assert ["good"] == db.table_list()
        else:
            assert [name] == db.table_list()
            assert name.isascii()
            assert len(name) <= 128
            other = name.swapcase()
            if other != name:
                db.table_create(other).insert({"id": 2})
        refusal = error_of(lambda: table.index_create(name))
        assert refusal is None or isinstance(
            refusal, (reactdb.errors.InvalidName, reactdb.errors.IndexExists)
        )
        assert ([name] if refusal is None else []) == table.index_list()
        table.insert({"id": 1, name: 5})
        assert [{"id": 1, name: 5}] == table.run()


WORDS = st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=12, max_size=16).map(lambda word: f"zz{word}")


@settings(max_examples=examples(25))
@given(words=st.lists(WORDS, min_size=5, max_size=5, unique=True))
def test_no_name_field_or_value_becomes_a_part_of_a_statement(words: list[str]) -> None:
    """Every statement is looked at before values are bound: none has a word of the caller's in it."""
    table_name, index_name, field, value, key = words
    prepared: list[str] = []

    class WatchedCursor(sqlite.sqlite3.Cursor):
        def execute(self, sql: str, *arguments: Any) -> Any:
            prepared.append(sql)
            return super().execute(sql, *arguments)

        def executemany(self, sql: str, *arguments: Any) -> Any:
            prepared.append(sql)
            return super().executemany(sql, *arguments)

    class Watched(sqlite.Tracked):
        def execute(self, sql: str, *arguments: Any) -> Any:
            prepared.append(sql)
            return super().execute(sql, *arguments)

        def executemany(self, sql: str, *arguments: Any) -> Any:
            prepared.append(sql)
            return super().executemany(sql, *arguments)

        def cursor(self, *arguments: Any) -> Any:
            assert not arguments, "another cursor would not be watched"
            return super().cursor(WatchedCursor)

    connect = sqlite.sqlite3.connect

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            sqlite.sqlite3,
            "connect",
            lambda *a, **options: connect(*a, **{**options, "factory": Watched}),
        )
        with reactdb.connect(":memory:", origin=value) as db:
            table = db.table_create(table_name, primary_key=field)
            table.index_create(index_name, row[value])
            table.index_create("pair", [row[index_name], row[value]])
            table.insert([{field: key, value: value, index_name: 1}, {field: 1}])
            table.get(key).update({value: index_name})
            table.get_all(index_name, index=index_name).run()
            table.between(value, key, index=index_name).order_by(index=index_name).limit(1).run()
            table.filter(row[value] == index_name).order_by(value).run()
            table.filter({value: {field: 1}}).count().run()
            table.pluck(field).run()
            with table.changes(include_initial=True).cursor() as cursor:
                cursor.next(timeout=5)
            list(db.log(table=table_name))
            db.at(1).table(table_name).run()
            table.get(key).delete()
            table.index_drop(index_name)
            db.table_drop(table_name)
            db.compact(keep=0)

    assert len(prepared) > 50
    assert [] == [sql for sql in prepared for word in words if word in sql]


# ---------------------------------------------------------------------------------------------------------------
# Positions

PIECES = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["", "0", "-1", "1_0", "٣", "²", "1e3", " 1", "9" * 19, "9" * 20, "9" * 5_000, "0x1"]),
)


@settings(max_examples=examples(150))
@given(pieces=st.lists(PIECES, max_size=4), own=st.tuples(st.booleans(), st.booleans()))
def test_a_token_is_a_position_of_this_file_or_refused(
    shelf: Any, pieces: list[str], own: tuple[bool, bool]
) -> None:
    database, epoch, number = shelf.token.split(".")
    parts = [database if own[0] else "other", epoch if own[1] else "other", *pieces]
    for token in (".".join(pieces), ".".join(parts), "".join(pieces)):
        refusal = error_of(lambda token=token: shelf.table("games").changes(since=token))
        if refusal is not None:
            assert isinstance(refusal, (reactdb.InvalidOption, reactdb.HistoryDiverged))
            assert len(str(refusal)) < 300
        else:
            assert token.startswith(f"{database}.{epoch}.")
            assert int(token.rpartition(".")[2]) <= int(number)


def test_a_position_of_the_future_or_of_another_file_is_refused(shelf: Any) -> None:
    with reactdb.connect(":memory:") as other:
        for since in (other.token, shelf.seq + 1, 2**63, 10**30):
            with pytest.raises(reactdb.HistoryDiverged):
                shelf.table("games").changes(since=since)
        for wrong in (-1, True, 1.5, b"1", [], math.inf):
            with pytest.raises(reactdb.InvalidOption):
                shelf.table("games").changes(since=wrong)


# ---------------------------------------------------------------------------------------------------------------
# Expressions

PATTERNS = [
    "(a+)+$",
    "(a|aa)+$",
    "([a-z]+)*$",
    "(.*a){12}$",
    "(x+x+)+y",
    "((((((a*)*)*)*)*)*)$",
    "(a?){200}a{200}",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_that_explodes_elsewhere_costs_little_here(games: Any, pattern: str) -> None:
    """`re` takes 2**60 steps and more for the first: this test would not end."""
    games.insert({"id": 1, "a": "a" * 60 + "!", "long": "a" * 20_000 + "!"})

    for text in (row["a"], row["long"]):
        refusal = error_of(lambda text=text: games.filter(text.match(pattern)).run())
        assert refusal is None or (
            isinstance(refusal, reactdb.errors.ResourceLimit) and "too costly" in str(refusal)
        )


@settings(max_examples=examples(200))
@given(
    pattern=st.text(alphabet="ab()[]{}*+?|\\.^$,019-:<>=!P#\n", max_size=24),
    text=st.text(alphabet="ab", max_size=60),
)
def test_any_text_as_a_pattern_matches_or_is_refused(pattern: str, text: str) -> None:
    try:
        found = row["a"].match(pattern)({"a": text})
    except reactdb.errors.QueryError:
        return
    assert found is None or found["str"] in text


def deep_expression(levels: int) -> Any:
    expression = row["a"]
    for _ in range(levels):
        expression = expression + 1
    return expression


def test_an_expression_of_five_thousand_levels_is_computed_or_refused_like_any_other() -> None:
    deep = deep_expression(5_000)
    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")
        games.insert({"id": 1, "a": 1})
        uses: list[Callable[[], Any]] = [
            lambda: games.filter(deep > 1).run(),
            lambda: games.map(deep).run(),
            lambda: games.order_by(deep).run(),
            lambda: games.get(1).update({"b": deep}),
            lambda: games.index_create("deep", deep),
            lambda: games.filter(deep > 1).changes(),
            lambda: repr(deep),
        ]
        for use in uses:
            refusal = error_of(use)
            assert refusal is None or (isinstance(refusal, reactdb.UsageError) and len(str(refusal)) < 1_000)
        games.insert({"id": 2, "a": 1})
        assert 2 == games.count().run()


@pytest.mark.parametrize(
    "make",
    [
        lambda: row["a"] == "x" * 20_000_000,
        lambda: row["a"] == 2**100_000,
        lambda: row["a"] == nested(500),
        lambda: row["a"] == shared_too_often(),
        lambda: row["a"] == inside_itself(),
        lambda: row["a"] == {1},
        lambda: (row["a"] + 1).add(object()),
    ],
)
def test_a_constant_that_no_document_can_hold_is_in_no_expression(
    shelf: Any, make: Callable[[], Any]
) -> None:
    refused_whole(shelf, lambda games: games.filter(make()).run())


def test_a_function_that_a_subscriber_brings_stands_in_nobodys_way(shelf: Any) -> None:
    """An expression that fails for a document ends its own feed; the write is done."""
    games = shelf.table("games")
    errors: list[Exception] = []
    handle = games.filter(lambda document: 1 / 0).changes().subscribe(lambda event: None, errors.append)
    try:
        games.get(1).update({"n": -1})
    finally:
        handle.dispose()
    assert -1 == games.get(1).run()["n"]
