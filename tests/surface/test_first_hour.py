"""The first hour: what users of other databases type first. Each word works, or its error names what to write.

`WORDS` and `TASKS` are tables of calls. A line has the call and a part of the sentence that its error must have; None
where the call works.
"""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import reactdb
from reactdb import desc, guessed_words, r, row
from reactdb.errors import (
    InvalidOption,
    MissingValue,
    NotExactlyOne,
    OperatorNotFound,
    QueryError,
    UnsupportedFeed,
    UsageError,
)
from reactdb.feeds.livelist import LiveList
from reactdb.table import PointSelection, Selection, Table
from reactdb.wrong_calls import DIRECT

DOCUMENTS = [{"id": key, "v": key % 3, "a": key % 2, "text": f"milk {key}"} for key in range(6)]


@pytest.fixture
def db() -> Iterator[Any]:
    with reactdb.connect(":memory:") as database:
        database.table_create("t").insert(DOCUMENTS)
        yield database


@pytest.fixture
def t(db: Any) -> Any:
    return db["t"]


Call = Callable[[Any, Any], Any]

# The 71 words of the third trial, as it lists them, with those of its second round.
WORDS: dict[str, tuple[Call, str | None]] = {
    "first": (lambda db, t: t.first(), None),
    "one": (lambda db, t: t.filter(id=1).one(), None),
    "all": (lambda db, t: t.all(), "write run()"),
    "exists": (lambda db, t: t.exists(), None),
    "find": (lambda db, t: t.find({"a": 1}), "write filter("),
    "find_one": (lambda db, t: t.find_one(a=1), ".first()"),
    "find_all": (lambda db, t: t.find_all(), "write filter("),
    "where": (lambda db, t: t.where(row["a"] == 1), "write filter("),
    "search": (lambda db, t: t.search(row["a"] == 1), "write filter("),
    "sort": (lambda db, t: t.sort("v"), 'write order_by("score")'),
    "sort_by": (lambda db, t: t.sort_by("v"), 'write order_by("score")'),
    "upsert": (lambda db, t: t.upsert({"id": 1, "v": 9}), None),
    "insert_many": (lambda db, t: t.insert_many([{"id": 91}, {"id": 92}]), None),
    "insert_one": (lambda db, t: t.insert_one({"id": 9}), "write insert(document)"),
    "insert_all": (lambda db, t: t.insert_all([]), "write insert_many(documents)"),
    "add": (lambda db, t: t.add({"id": 9}), "write insert(document)"),
    "create": (lambda db, t: t.create(id=9), "write insert(document)"),
    "save": (lambda db, t: t.save({"id": 9}), "write upsert(document)"),
    "put": (lambda db, t: t.put({"id": 9}), "write upsert(document)"),
    "set": (lambda db, t: t.set(1, {"v": 2}), "write upsert(document)"),
    "upsert of several": (lambda db, t: t.upsert([{"id": 1}, {"id": 9}]), None),
    'db["t"]': (lambda db, t: db["t"].run(), None),
    "db.t": (lambda db, t: db.t, "write db['t']"),
    '"t" in db': (lambda db, t: "t" in db, None),
    "for name in db": (lambda db, t: list(db), None),
    "tables": (lambda db, t: db.tables(), "write table_list()"),
    "table_names": (lambda db, t: db.table_names(), "write table_list()"),
    "list_tables": (lambda db, t: db.list_tables(), "write table_list()"),
    "list_collection_names": (lambda db, t: db.list_collection_names(), "write table_list()"),
    "create_table": (lambda db, t: db.create_table("u"), 'write table_create("todos")'),
    "create_collection": (lambda db, t: db.create_collection("u"), 'write table_create("todos")'),
    "collection": (lambda db, t: db.collection("t"), 'write db["todos"]'),
    "table_rename": (lambda db, t: db.table_rename("t", "u"), None),
    "rename": (lambda db, t: t.rename("u"), "db.table_rename("),
    "drop": (lambda db, t: t.drop(), "db.table_drop("),
    "drop_table": (lambda db, t: db.drop_table("t"), "write table_drop("),
    "truncate": (lambda db, t: t.truncate(), "write delete()"),
    "clear": (lambda db, t: t.clear(), "write delete()"),
    "remove": (lambda db, t: t.remove(1), "write get(key).delete()"),
    "delete_one": (lambda db, t: t.delete_one({"id": 1}), "write get(key).delete()"),
    "delete_many": (lambda db, t: t.delete_many({}), "write filter(...).delete()"),
    "delete with a condition": (lambda db, t: t.delete(row["a"] == 1), "filter(...).delete()"),
    "update_one": (lambda db, t: t.update_one({"id": 1}, {}), "write get(key).update("),
    "update_many": (lambda db, t: t.update_many({}, {}), "write filter(...).update("),
    "replace_one": (lambda db, t: t.replace_one({}, {}), "write get(key).replace(document)"),
    "head": (lambda db, t: t.head(3), "write limit(n)"),
    "tail": (lambda db, t: t.tail(3), 'write order_by(desc("id")).limit(n)'),
    "last": (lambda db, t: t.last(), "[-1]"),
    "sample": (lambda db, t: t.sample(2).run(), None),
    "to_df": (lambda db, t: t.to_df(), "write to_pandas()"),
    "to_list": (lambda db, t: t.to_list(), "write run()"),
    "select": (lambda db, t: t.select("v"), "write pluck("),
    "watch": (lambda db, t: t.watch(), "changes()"),
    "subscribe": (lambda db, t: t.subscribe(print), "changes().subscribe(callback)"),
    "on_change": (lambda db, t: t.on_change(print), "changes().subscribe(callback)"),
    "on": (lambda db, t: t.on("change", print), "changes().subscribe(callback)"),
    "listen": (lambda db, t: t.listen(print), "changes().subscribe(callback)"),
    "filter(a=1)": (lambda db, t: t.filter(a=1).run(), None),
    "filter(a, b)": (lambda db, t: t.filter(row["a"] == 1, row["v"] == 0).run(), None),
    "update(v=5)": (lambda db, t: t.update(v=5), "write update({'v': 5})"),
    "insert(id=9)": (lambda db, t: t.insert(id=9, v=1), "write insert({'id': 9, 'v': 1})"),
    "order_by(reverse=True)": (lambda db, t: t.order_by("a", reverse=True), "desc("),
    'order_by("v", "desc")': (lambda db, t: t.order_by("v", "desc"), "order_by(desc('v'))"),
    "count(condition)": (lambda db, t: t.count(row["a"] == 1), "filter("),
    "len": (lambda db, t: len(t), "count().run()"),
    "t[0]": (lambda db, t: t[0].run(), None),
    "t[1:3]": (lambda db, t: t[1:3].run(), None),
    "nth": (lambda db, t: t.nth(1).run(), None),
    "t[key] = document": (lambda db, t: t.__setitem__(1, {"v": 2}), "table.upsert(document)"),
    "del t[key]": (lambda db, t: t.__delitem__(1), "table.get(key).delete()"),
    "group_by": (lambda db, t: t.group_by("a"), "write group("),
    "commit": (lambda db, t: db.commit(), "with db.transaction()"),
    "begin": (lambda db, t: db.begin(), "with db.transaction()"),
    "execute": (lambda db, t: db.execute("SELECT 1"), "there is no SQL"),
    "run(connection)": (lambda db, t: t.run(db), "write selection.run()"),
    "get(1).run(connection)": (lambda db, t: t.get(1).run(db), "write selection.run()"),
    "changes().run()": (lambda db, t: t.changes().run(), "for change in feed"),
    "insert of now": (lambda db, t: t.insert({"id": 9, "at": r.now()}), None),
    "map of an expression": (lambda db, t: t.map(lambda d: {"x": row["v"] + 1}).run(), None),
    "reactdb.remove": (lambda db, t: reactdb.remove("a.db"), "reactdb.delete_database(path)"),
    "reactdb.open": (lambda db, t: reactdb.open("a.db"), "reactdb.connect(path)"),
    "reactdb.Client": (lambda db, t: reactdb.Client(), "reactdb.connect(path)"),
}
WORDS |= {
    "is_in": (lambda db, t: t.filter(row["v"].is_in([1])).run(), None),
    "startswith": (lambda db, t: t.filter(row["text"].startswith("milk")).run(), None),
    "endswith": (lambda db, t: t.filter(row["text"].endswith("1")).run(), None),
    "contains of a text": (lambda db, t: t.filter(row["text"].contains("milk")).run(), None),
    "like": (lambda db, t: t.filter(row["text"].like("milk%")).run(), "write match("),
    "upper": (lambda db, t: t.map(row["text"].upper()).run(), None),
    "lower": (lambda db, t: t.map(row["text"].lower()).run(), None),
    "len of a field": (lambda db, t: t.map(row["text"].len()).run(), None),
    "length of a field": (lambda db, t: t.map(row["text"].length()).run(), "write len()"),
    "abs": (lambda db, t: t.map(row["v"].abs()).run(), None),
    "round with digits": (lambda db, t: t.map(row["v"].round(1)).run(), "for two digits"),
    "minus a field": (lambda db, t: t.order_by(lambda d: -d["v"]).run(), "0 - row"),
    "index_create(unique=True)": (lambda db, t: t.index_create("id2", unique=True), None),
    "live": (lambda db, t: t.live().close(), None),
    "live().value": (lambda db, t: t.live().value, "use list(live)"),
    "live of a feed": (lambda db, t: t.changes().live(), "selection.live()"),
    "db.live": (lambda db, t: db.live(), 'db["todos"].live()'),
    "db.undo": (lambda db, t: db.undo(), "db.undo_stack()"),
    "backup": (lambda db, t: db.backup("/nonexistent/x.db"), "the folder of the backup does not exist"),
    "migrate of a function": (lambda db, t: db.migrate(lambda db: None), "migrate([step])"),
    "at a number of seconds": (lambda db, t: db.at(0.5), "or a datetime"),
    "get_or_create": (lambda db, t: t.get_or_create(1), "write first()"),
    "aggregate of names": (lambda db, t: t.group("a").aggregate(n="count").run(), "r.count()"),
    "an aggregate without a name": (lambda db, t: t.aggregate(r.count()), "aggregates have names"),
    "a sum of nothing": (lambda db, t: t.aggregate(n=r.sum()), "r.sum needs a value or a field"),
    "reactdb.count": (lambda db, t: reactdb.count(), "reactdb.r.count()"),
    "get(key).upsert": (lambda db, t: t.get(1).upsert({"v": 1}), "a method of a table"),
    "table_create(type=)": (lambda db, t: db.table_create("u", type=dict), "db.table(name, type=...)"),
    "r.table": (lambda db, t: r.table("t"), 'db["todos"]'),
}


def tried(call: Call, db: Any) -> str | None:
    """The sentence of a call's error; None where it works."""
    try:
        call(db, db["t"])
    except (reactdb.ReactDBError, AttributeError, TypeError, OSError) as error:
        return str(error)
    return None


@pytest.mark.parametrize("word", WORDS)
def test_a_word_works_or_names_what_to_write(db: Any, word: str) -> None:
    call, sentence = WORDS[word]

    said = tried(call, db)

    assert (sentence is None) == (said is None), said
    assert sentence is None or sentence in str(said)


@pytest.mark.parametrize(
    ("kind", "owner"),
    [
        ("selection", reactdb.Selection),
        ("table", reactdb.Table),
        ("database", reactdb.Database),
        ("feed", reactdb.Feed),
        ("expression", reactdb.Expression),
        ("module", reactdb),
    ],
)
def test_a_guessed_word_is_no_name_of_its_class(kind: str, owner: Any) -> None:
    """The line of such a word is never used, and its sentence is out of date."""
    assert set() == set(guessed_words.KINDS[kind][1]) & set(dir(owner))


# ---------------------------------------------------------------------------------------------------------------
# The tasks of users of TinyDB, PyMongo, sqlite-utils, peewee, SQLAlchemy and Django, by the words that most of them type

TASKS: dict[str, list[tuple[Call, str | None]]] = {
    "open": [(lambda db, t: reactdb.connect(":memory:").close(), None)],
    "a table": [(lambda db, t: db["t"], None), (lambda db, t: db.table("t"), None)],
    "list tables": [
        (lambda db, t: db.table_names(), "table_list()"),
        (lambda db, t: db.tables, "table_list()"),
    ],
    "create a table": [(lambda db, t: db.create_table("u"), "table_create(")],
    "drop a table": [
        (lambda db, t: db.drop_table("t"), "table_drop("),
        (lambda db, t: t.drop(), "table_drop("),
    ],
    "insert one": [(lambda db, t: t.insert({"id": 9}), None), (lambda db, t: t.add({}), "insert(document)")],
    "insert many": [
        (lambda db, t: t.insert_many([{"id": 9}]), None),
        (lambda db, t: t.insert_multiple([]), "insert_many("),
        (lambda db, t: t.bulk_create([]), "insert_many("),
    ],
    "get by key": [(lambda db, t: t.get(1).run(), None)],
    "get or none": [(lambda db, t: t.get_or_none(1), "first()")],
    "get or create": [(lambda db, t: t.get_or_create(id=1), "first()")],
    "find by condition": [
        (lambda db, t: t.filter(row["v"] > 1).run(), None),
        (lambda db, t: t.search(1), "filter("),
        (lambda db, t: t.filter_by(v=1), "filter("),
    ],
    "first match": [(lambda db, t: t.filter(v=1).first(), None), (lambda db, t: t.find_one(v=1), ".first()")],
    "all": [(lambda db, t: t.all(), "run()"), (lambda db, t: t.rows, "run()"), (lambda db, t: list(t), None)],
    "equality": [(lambda db, t: t.filter(v=1).run(), None)],
    "ranges": [
        (lambda db, t: t.filter(row["v"] >= 1).run(), None),
        (lambda db, t: t.filter(v__gt=1), 'row["v"] > 1'),
        (lambda db, t: t.filter(v__in=[1]), 'row["v"].is_in([1])'),
    ],
    "and, or, not": [
        (lambda db, t: t.filter((row["v"] > 1) & ~(row["a"] == 0) | (row["v"] == 0)).run(), None)
    ],
    "field absent": [
        (lambda db, t: t.filter(row.has_fields("v")).run(), None),
        (lambda db, t: row["v"].is_null(), "has_fields("),
        (lambda db, t: row["v"].exists(), "has_fields("),
    ],
    "order": [(lambda db, t: t.order_by("v").run(), None), (lambda db, t: t.sort("v"), "order_by(")],
    "descending": [
        (lambda db, t: t.order_by(desc("v")).run(), None),
        (lambda db, t: t.order_by("-v"), "desc('v')"),
        (lambda db, t: t.order_by("v", -1), "desc('v')"),
        (lambda db, t: t.order_by([("v", -1)]), "desc('v')"),
        (lambda db, t: t.order_by("v", descending=True), "desc("),
    ],
    "limit and skip": [
        (lambda db, t: t.limit(2).skip(1).run(), None),
        (lambda db, t: t[:2].run(), None),
        (lambda db, t: t.offset(2), "skip(n)"),
    ],
    "choose fields": [
        (lambda db, t: t.pluck("id", "v").run(), None),
        (lambda db, t: t.pluck(["id", "v"]).run(), None),
        (lambda db, t: t.select("id"), "pluck("),
        (lambda db, t: t.values("id"), "pluck("),
    ],
    "count": [(lambda db, t: t.count().run(), None), (lambda db, t: t.count_documents({}), "count().run()")],
    "exists": [(lambda db, t: t.filter(v=1).exists(), None)],
    "sum and mean": [(lambda db, t: t.sum("v").run(), None), (lambda db, t: t.mean("v"), 'avg("score")')],
    "group": [(lambda db, t: t.group("a").count().run(), None), (lambda db, t: t.group_by("a"), "group(")],
    "update by key": [
        (lambda db, t: t.get(1).update({"v": 2}), None),
        (lambda db, t: t.update(1, {"v": 2}), "get(key).update("),
        (lambda db, t: t.update_one({}, {}), "get(key).update("),
    ],
    "update matching": [(lambda db, t: t.filter(v=1).update({"v": 2}), None)],
    "upsert": [
        (lambda db, t: t.upsert({"id": 1}), None),
        (lambda db, t: t.update_or_create(id=1), "upsert(document)"),
        (lambda db, t: t.insert({"id": 1}, upsert=True), "upsert(document)"),
    ],
    "replace": [(lambda db, t: t.get(1).replace({"id": 1}), None)],
    "increment": [
        (lambda db, t: t.get(1).update({"v": row["v"] + 1}), None),
        (lambda db, t: t.get(1).update({"$inc": {"v": 1}}), "row['v'] + 1"),
        (lambda db, t: t.get(1).increment("v"), 'row["n"] + 1'),
    ],
    "append to a list": [(lambda db, t: row["tags"].push(1), "append(value)")],
    "delete by key": [
        (lambda db, t: t.get(1).delete(), None),
        (lambda db, t: t.delete(1), "get(key).delete()"),
    ],
    "delete matching": [(lambda db, t: t.filter(v=1).delete(), None)],
    "clear a table": [(lambda db, t: t.delete(), None), (lambda db, t: t.truncate(), "delete()")],
    "distinct": [(lambda db, t: t.distinct("v").run(), None), (lambda db, t: t.unique("v"), "distinct(")],
    "transaction": [
        (lambda db, t: db.atomic(), "db.transaction()"),
        (lambda db, t: db.begin(), "db.transaction()"),
        (lambda db, t: db.begin_nested(), "savepoint"),
    ],
    "create an index": [
        (lambda db, t: t.index_create("v"), None),
        (lambda db, t: t.create_index("v"), "index_create("),
    ],
    "list indexes": [
        (lambda db, t: t.indexes, "index_list()"),
        (lambda db, t: t.list_indexes(), "index_list()"),
    ],
    "watch": [
        (lambda db, t: t.changes().subscribe(print), None),
        (lambda db, t: t.watch(), "changes()"),
        (lambda db, t: db.watch(), "changes()"),
        (lambda db, t: t.changes().listen(print), "subscribe(callback)"),
    ],
    "history": [(lambda db, t: list(db.log()), None), (lambda db, t: db.history(), "log()")],
}


@pytest.mark.parametrize("task", TASKS)
def test_a_task_succeeds_at_the_first_or_the_second_try(db: Any, task: str) -> None:
    for call, sentence in TASKS[task]:
        said = tried(call, db)

        assert (sentence is None) == (said is None), said
        assert sentence is None or sentence in str(said)


# ---------------------------------------------------------------------------------------------------------------
# Results


def test_first_is_the_first_document_or_none(t: Any) -> None:
    assert DOCUMENTS[0] == t.first()
    assert DOCUMENTS[5] == t.order_by(desc("id")).first()
    assert t.filter(a=7).first() is None
    assert (DOCUMENTS[1], None) == (t.get(1).first(), t.get(99).first())
    assert 0 == t["v"].first()
    assert DOCUMENTS[2] == t[2].first()


def test_one_is_the_only_document(t: Any) -> None:
    assert DOCUMENTS[3] == t.filter(id=3).one() == t.get(3).one()
    for selection, count in ((t.filter(id=99), 0), (t.get(99), 0), (t.filter(a=1), 3), (t, 6)):
        with pytest.raises(NotExactlyOne, match=f"found {count or 'none'}") as caught:
            selection.one()
        assert count == caught.value.count
    assert issubclass(NotExactlyOne, LookupError)


def test_exists_says_whether_there_is_any(t: Any) -> None:
    assert [True, False, True, False, True, False] == [
        selection.exists() for selection in (t, t.filter(a=7), t.get(1), t.get(99), t[5], t[6])
    ]


@pytest.mark.parametrize("method", ["first", "one", "exists"])
def test_a_value_has_no_first_document(t: Any, method: str) -> None:
    with pytest.raises(QueryError, match="Cannot convert NUMBER to SEQUENCE"):
        getattr(t.count(), method)()


def test_exists_reads_one_document_of_an_index(t: Any) -> None:
    """The limit reaches the access path, so a large table is not read."""
    read: list[int] = []

    assert t.map(lambda document: read.append(document["id"])).exists()
    assert [0] == read


def test_a_number_in_brackets_is_the_document_there(t: Any) -> None:
    assert DOCUMENTS[0] == t[0].run()
    assert DOCUMENTS[5] == t[-1].run()
    assert DOCUMENTS[3] == t.nth(-3).run() == t.skip(2)[1].run() == t.filter(a=1)[1].run()
    assert "milk 2" == t[2]["text"].run() == t["text"][2].run()
    assert {"v": 1} == t[1].pluck("v").run()
    assert t[1].filter(v=0).run() is None


@pytest.mark.parametrize("place", [6, 99, -7])
def test_a_place_beyond_the_end_is_an_error_when_it_is_run(t: Any, place: int) -> None:
    selection = t[place]

    with pytest.raises(MissingValue, match=f"Index out of bounds: {place}"):
        selection.run()


def test_a_place_is_read_without_the_documents_behind_it(t: Any) -> None:
    read: list[int] = []

    t.map(lambda document: read.append(document["id"]))[2].run()

    assert [0, 1, 2] == read


def test_a_place_of_groups_is_one_document_of_each(t: Any) -> None:
    assert [{"group": 0, "reduction": 2}, {"group": 1, "reduction": 3}] == t.group("a")[1]["id"].run()


def test_a_part_is_skip_and_limit(t: Any) -> None:
    assert [1, 2] == t[1:3]["id"].run()
    assert [0, 1] == t[:2]["id"].run()
    assert [4, 5] == t[4:]["id"].run()
    assert DOCUMENTS == t[:].run()
    assert [] == t[3:1].run() == t[9:].run()


@pytest.mark.parametrize(
    "place", [slice(0, 4, 2), slice(-2, None), slice(None, -1), None, 1.5, True, slice("a", None)]
)
def test_other_brackets_are_refused(t: Any, place: Any) -> None:
    with pytest.raises(QueryError):
        t[place]


def test_a_value_has_no_places(t: Any) -> None:
    for mistake in (lambda: t.count()[0], lambda: t.count()[:], lambda: t[0][0], lambda: t[0].limit(1)):
        with pytest.raises(QueryError):
            mistake()
    with pytest.raises(QueryError, match="SINGLE_SELECTION"):
        t.get(1)[0].run()


def test_a_sample_has_different_documents_of_the_selection(t: Any) -> None:
    found = t.filter(a=1).sample(2).run()

    assert 2 == len({document["id"] for document in found})
    assert all(document["a"] == 1 for document in found)
    assert sorted(t.sample(99)["id"].run()) == t["id"].run()
    assert [] == t.sample(0).run()


def test_places_and_samples_can_be_written(t: Any) -> None:
    assert 1 == t.order_by(desc("id"))[0].update({"v": 9})["replaced"]
    assert 9 == t.get(5)["v"].run()
    assert 1 == t[0].delete()["deleted"]
    assert 2 == t.sample(2).delete()["deleted"]
    assert 3 == t.count().run()
    with pytest.raises(MissingValue):
        t[99].delete()


def test_parts_of_an_order_can_be_watched_and_places_and_samples_cannot(t: Any) -> None:
    board = LiveList(t.order_by("id")[1:3])
    t.get(0).delete()

    assert [2, 3] == [document["id"] for document in board]
    for selection in (t.order_by("id")[1], t.sample(1), t.sample(1).count(), t.union(t).sample(1)):
        with pytest.raises(UnsupportedFeed):
            selection.changes()


def test_all_conditions_of_a_filter_must_pass(t: Any) -> None:
    same = t.filter((row["v"] > 0) & (row["a"] == 1)).run()

    assert same == t.filter(row["v"] > 0, row["a"] == 1).run()
    assert same == t.filter(row["v"] > 0, a=1).run()
    assert same == t.filter({"a": 1}, lambda document: document["v"] > 0).run()
    assert same == t.filter(lambda document: document["v"] > 0, row["a"], {"a": 1}).run()
    assert [DOCUMENTS[1]] == t.filter(v=1, a=1).run()


def test_the_default_of_a_filter_is_an_option(t: Any) -> None:
    t.insert({"id": 9, "default": 1})

    assert [9] == t.filter(row["v"] == 99, default=True)["id"].run()
    assert [9] == t.filter(row["v"] == 99, True)["id"].run()
    assert [9] == t.filter(row["v"] == 99, row["a"] == 99, default=True)["id"].run()
    assert [9] == t.filter({"default": 1})["id"].run()
    with pytest.raises(MissingValue):
        t.filter(row["v"] == 99, default=r.error()).run()
    with pytest.raises(QueryError, match="filter takes a condition"):
        t.filter()


def test_a_filter_of_two_conditions_uses_an_index_and_is_watched(t: Any) -> None:
    t.index_create("v")
    selection = t.filter(row["text"].match("milk"), v=1)
    heard: list[Any] = []
    selection.changes().subscribe(heard.append)

    t.insert([{"id": 7, "v": 1, "text": "milk"}, {"id": 8, "v": 1, "text": "tea"}])

    assert [7] == [event["new_val"]["id"] for event in heard]
    assert "v" == t.filter(row["id"] >= 0, v=1).explain()["index"]


def test_events_are_filtered_by_several_conditions(t: Any) -> None:
    heard: list[Any] = []
    t.changes().filter(row["new_val"]["a"] == 1, old_val=None).subscribe(heard.append)

    t.insert([{"id": 7, "a": 1}, {"id": 8, "a": 0}])

    assert [7] == [event["new_val"]["id"] for event in heard]


def test_names_of_fields_may_be_in_a_list(t: Any) -> None:
    for method in ("pluck", "without", "has_fields", "with_fields", "order_by"):
        assert getattr(t, method)("v", "id").run() == getattr(t, method)(["v", "id"]).run()
    assert t.order_by(desc("v"), "id").run() == t.order_by([desc("v"), "id"]).run()


def test_a_field_with_the_name_of_a_direction_can_be_sorted_by(t: Any) -> None:
    t.update({"desc": row["id"] * -1})

    assert [5, 4, 3, 2, 1, 0] == t.order_by("desc")["id"].run()
    assert t.order_by(row["a"], row["desc"])["id"].run() == [4, 2, 0, 5, 3, 1]
    for word in ("DESC", "asc", "Ascending"):
        with pytest.raises(QueryError, match=r"write order_by\((asc|desc)\('v'\)\)"):
            t.order_by("v", word)


def test_upsert_says_what_it_did(t: Any) -> None:
    result = t.upsert([{"id": 1, "v": 9}, {"id": 2, "v": 2}, {"id": 9}], return_changes=True)

    assert (1, 1, 1) == (result["inserted"], result["replaced"], result["unchanged"])
    assert 2 == len(result["changes"])
    assert {**DOCUMENTS[1], "v": 9} == t.get(1).run()
    assert 1 == len(t.upsert({"v": 1})["generated_keys"])


def test_insert_many_takes_an_iterable_and_no_single_document(t: Any) -> None:
    assert 2 == t.insert_many({"id": key} for key in (8, 9))["inserted"]
    assert 1 == t.insert_many([{"id": 8, "v": 1}], conflict="update")["replaced"]
    with pytest.raises(QueryError, match=r"write insert\(document\) for one"):
        t.insert_many({"id": 10})


# ---------------------------------------------------------------------------------------------------------------
# Expressions in inserted documents


def test_an_inserted_expression_is_computed(t: Any) -> None:
    """Finding 3 of the third trial: only `update` took `r.now()`."""
    t.insert({"id": key, "at": r.now(), "in": {"list": [r.now() - 60, r.expr(1) + 1]}} for key in (8, 9))
    first, second = t.get_all(8, 9).run()

    assert first["at"] == second["at"]
    assert 60 == (first["at"] - first["in"]["list"][0]).total_seconds()
    assert 2 == first["in"]["list"][1]


@pytest.mark.parametrize("many", [False, True])
def test_a_single_document_and_a_list_may_have_expressions(t: Any, many: bool) -> None:
    document = {"n": r.expr(1) + 1, "id": r.expr("a") + "b"}

    t.insert([document, {"id": 99}] if many else document)

    assert {"id": "ab", "n": 2} == t.get("ab").run()
    assert isinstance(document["n"], reactdb.Expression)


def test_an_inserted_expression_has_no_row(t: Any) -> None:
    with pytest.raises(QueryError, match=r"row\['v'\] \+ 1 has no value"):
        t.insert([{"id": 8}, {"id": 9, "v": row["v"] + 1}])

    assert 6 == t.count().run()


def test_a_document_that_cannot_be_stored_says_so_as_before(t: Any) -> None:
    with pytest.raises(reactdb.InvalidDocument, match=r"document\['x'\]: a value of type object"):
        t.insert({"id": 9, "at": r.now(), "x": object()})
    loop: dict[str, Any] = {"id": 9, "at": r.now()}
    loop["self"] = loop
    with pytest.raises(UsageError):
        t.insert(loop)


# ---------------------------------------------------------------------------------------------------------------
# Async functions


async def ignored(*arguments: Any) -> Any:
    raise AssertionError("nobody awaits this")


class Later:
    async def __call__(self, *arguments: Any) -> Any:
        raise AssertionError("nobody awaits this")


ASYNC: dict[str, Callable[[Any, Any], Any]] = {
    "filter": lambda t, f: t.filter(f),
    "map": lambda t, f: t.map(f),
    "concat_map": lambda t, f: t.concat_map(f),
    "merge": lambda t, f: t.merge(f),
    "update": lambda t, f: t.get(1).update(f),
    "replace": lambda t, f: t.get(1).replace(f),
    "conflict": lambda t, f: t.insert({"id": 1}, conflict=f),
    "subscribe": lambda t, f: t.changes().subscribe(f),
    "on_error": lambda t, f: t.changes().subscribe(print, f),
    "feed.filter": lambda t, f: t.changes().filter(f),
    "feed.map": lambda t, f: t.changes().map(f),
    "LiveList": lambda t, f: LiveList(t.order_by("id")).subscribe(f),
    "on_state": lambda t, f: t.live().subscribe(on_state=f),
    "LiveValue": lambda t, f: t.count().live().subscribe(f),
}


@pytest.mark.parametrize("place", ASYNC)
def test_an_async_function_is_refused_where_nobody_would_await_it(t: Any, place: str) -> None:
    for function in (ignored, Later()):
        with pytest.raises(InvalidOption, match="async function, which nobody would await"):
            ASYNC[place](t, function)

    assert DOCUMENTS == t.run()


@pytest.mark.parametrize("place", ["filter", "map", "update", "replace"])
def test_a_lambda_that_returns_a_coroutine_is_refused_when_it_is_called(t: Any, place: str) -> None:
    def called() -> Any:
        result = ASYNC[place](t, lambda document: ignored(document))
        return result.run() if isinstance(result, Selection) else result

    with pytest.raises(InvalidOption, match="returned something to await"):
        called()
    assert DOCUMENTS == t.run()


# ---------------------------------------------------------------------------------------------------------------
# The table of guessed words

OWNERS: dict[str, Callable[[Any], Any]] = {
    "database": lambda db: db,
    "table": lambda db: db["t"],
    "selection": lambda db: db["t"].filter(a=1),
    "document": lambda db: db["t"].get(1),
    "feed": lambda db: db["t"].changes(),
    "live list": lambda db: db["t"].live(),
    "live value": lambda db: db["t"].count().live(),
    "observation": lambda db: db.observe(lambda db: 1),
    "expression": lambda db: row["a"],
    "module": lambda db: reactdb,
}


@pytest.mark.parametrize("kind", OWNERS)
def test_every_guessed_word_is_answered(db: Any, kind: str) -> None:
    owner = OWNERS[kind](db)

    for word, instead in guessed_words.KINDS[kind][1].items():
        # A word that has become a name is not looked up.
        if word in dir(owner):
            continue
        with pytest.raises(AttributeError) as caught:
            getattr(owner, word)
        # reactivex has some of the names of feeds.
        assert instead in str(caught.value) or isinstance(caught.value, OperatorNotFound)
        assert word == caught.value.name
        assert not hasattr(owner, word)


def test_a_misspelt_name_gets_the_nearest(db: Any) -> None:
    t = db["t"]
    for call, right in (
        (lambda: db.tabel_create, "table_create"),
        (lambda: t.fliter, "filter"),
        (lambda: t.get(1).updtae, "update"),
        (lambda: t.changes().subscibe, "subscribe"),
        (lambda: row["a"].upcse, "upcase"),
        (lambda: reactdb.conect, "connect"),
    ):
        with pytest.raises(AttributeError, match=f"the nearest is `{right}`"):
            call()


def test_a_field_is_reached_with_brackets() -> None:
    with pytest.raises(AttributeError, match=r"write \['score'\] for a field of that name"):
        row.score  # noqa: B018


@pytest.mark.parametrize("kind", OWNERS)
def test_a_name_of_pythons_protocols_is_no_guess(db: Any, kind: str) -> None:
    owner = OWNERS[kind](db)

    for name in ("__array__", "_repr_png_", "__fspath__", "_ipython_display_"):
        assert not hasattr(owner, name)
        assert getattr(owner, name, None) is None


@pytest.mark.parametrize("kind", ["table", "selection", "document", "database"])
def test_a_selection_is_copied_in_no_other_way_than_before(db: Any, kind: str) -> None:
    owner = OWNERS[kind](db)

    with pytest.raises(UsageError, match="cannot be pickled or copied"):
        pickle.dumps(owner)
    if isinstance(owner, Selection):
        assert owner.run() == copy.copy(owner).run()


def test_an_expression_is_copied() -> None:
    """Its copy is made without `__init__`, and has no attribute at first."""
    assert 2 == copy.deepcopy(row["a"] + 1)({"a": 1}) == pickle.loads(pickle.dumps(row["a"] + 1))({"a": 1})


@pytest.mark.parametrize("kind", OWNERS)
def test_completion_has_only_real_names(db: Any, kind: str) -> None:
    owner = OWNERS[kind](db)

    guessed = set(guessed_words.KINDS[kind][1]) & set(dir(owner))
    assert guessed == {name for name in guessed if hasattr(owner, name)}
    assert not {"find", "where", "tables", "listen", "Client", "like"} & set(dir(owner))


def test_a_closed_database_explains_a_word_too() -> None:
    db = reactdb.connect(":memory:")
    db.close()

    with pytest.raises(AttributeError, match=r"write table_list\(\)"):
        db.tables  # noqa: B018


def test_a_view_of_the_past_and_a_transaction_have_the_words(db: Any) -> None:
    with pytest.raises(AttributeError, match=r"write table_list\(\)"):
        db.at(db.seq).tables  # noqa: B018
    with pytest.raises(AttributeError, match=r"write db\['t'\]"):
        db.at(db.seq).t  # noqa: B018
    with db.transaction() as transaction, pytest.raises(AttributeError, match=r"write table_list\(\)"):
        transaction.tables  # noqa: B018


def test_tables_are_found_by_their_names(db: Any) -> None:
    past = db.at(db.seq)
    db.table_create("u")

    assert (True, True, False, False) == ("t" in db, "u" in db, "x" in db, 5 in db)
    assert (True, False) == ("t" in past, "u" in past)
    assert ["t", "u"] == list(db)
    assert DOCUMENTS == past["t"].run()
    with db.transaction() as transaction:
        transaction["u"].insert({"id": 1})
    assert 1 == db["u"].count().run()
    with pytest.raises(reactdb.errors.InvalidName):
        db[5]
    for mistake in (lambda: db.__setitem__("x", []), lambda: db.__delitem__("t")):
        with pytest.raises(UsageError):
            mistake()


# ---------------------------------------------------------------------------------------------------------------
# Wrong options


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda db, t: t.changes(include_inital=True), "the nearest is `include_initial`"),
        (lambda db, t: db.changes(include_inital=True), "the nearest is `include_initial`"),
        (lambda db, t: t.index_create("v", mutli=True), "the nearest is `multi`"),
        (lambda db, t: t.between(1, 2, indx="v"), "the nearest is `index`"),
        (lambda db, t: db.table_create("x", exists_ok=True), "the nearest is `exist_ok`"),
        (lambda db, t: db.table_create("x", if_not_exists=True), "exist_ok=True"),
        (lambda db, t: db.compact(keeep=0), "the nearest is `keep`"),
        (lambda db, t: db.transaction(durabilty="soft"), "the nearest is `durability`"),
        (lambda db, t: reactdb.connect(":memory:", readonly=True), "read_only=True"),
        (lambda db, t: reactdb.connect(":memory:", durablity="soft"), "the nearest is `durability`"),
        (lambda db, t: t.insert({}, overwrite=True), "conflict='replace'"),
        (lambda db, t: t.insert({}, zzz=True), "it has documents, conflict, durability, return_changes"),
        (lambda db, t: t.changes().subscribe(print, scheduller=None), "the nearest is `scheduler`"),
        (lambda db, t: t.changes(True), "changes(include_initial=True)"),
        (lambda db, t: t.limit(), "limit(): missing a required argument: 'count'"),
    ],
)
def test_a_wrong_option_is_told_the_right_one(db: Any, call: Call, sentence: str) -> None:
    with pytest.raises(TypeError) as caught:
        call(db, db["t"])

    assert sentence in str(caught.value)
    assert isinstance(caught.value, InvalidOption)


def test_a_type_error_of_the_users_own_code_is_not_changed(t: Any) -> None:
    def wrong(document: Any) -> Any:
        return document["v"] + "text"

    with pytest.raises(TypeError, match="unsupported operand") as caught:
        t.update(wrong)
    assert not isinstance(caught.value, InvalidOption)


def test_methods_keep_their_signatures() -> None:
    import inspect

    assert ["self", "patch", "expect", "durability", "return_changes"] == list(
        inspect.signature(Selection.update).parameters
    )[:5]
    assert "Merge a patch" in str(Selection.update.__doc__)
    assert "update" == Selection.update.__name__


def test_the_quickest_methods_are_called_directly() -> None:
    for owner, name in ((Table, "get"), (PointSelection, "run"), (Selection, "run")):
        assert name in DIRECT
        assert not hasattr(vars(owner)[name], "__wrapped__")


def test_a_word_of_another_owner_is_not_looked_up() -> None:
    """Whatever an object has is found first, also where the table has the word."""
    owner = SimpleNamespace(find=1)

    assert 1 == owner.find
    assert "has no `find`" in str(guessed_words.missing_name(owner, "table", "find"))


def test_the_words_are_imported_by_a_mistake_and_never_before() -> None:
    program = (
        "import sys, reactdb; db = reactdb.connect(':memory:'); t = db.table_create('t'); t.insert({'id': 1}); t.get(1).run();"
        "print('reactdb.guessed_words' in sys.modules); hasattr(db, 'tables'); print('reactdb.guessed_words' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ["False", "True"] == done.stdout.split()
