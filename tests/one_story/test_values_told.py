"""What one door takes, every other door tells: extreme values and keys, written natively and told by each dialect.

A dialect that cannot say a value shows it otherwise, and never ends a connection. Documents before and after it are told as ever.
Who writes a document back as it was shown has changed nothing, or is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import date
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import reactdb
from reactdb.values import codec
from reactdb.values.value_types import NAMED
from tests.one_story.ways import WAYS, Way
from tests.support.command import done, run
from tests.support.extreme_values import NAMES, dialect_modules, keys, of_every_object, of_every_type
from tests.support.registered_types import Mark

Document = dict[str, Any]

VALUES = [
    {"_id": f"{number:03} {name}", "v": value} for number, (name, value) in enumerate(of_every_type().items())
]
OBJECTS = [
    document
    for number, (name, value) in enumerate(of_every_object().items())
    for document in (
        {"_id": f"{number:03} {name}", "v": value},
        {"_id": f"{number:03} {name} itself", **value},
    )
]
KEYS = [{"_id": key, "name": name} for name, key in keys().items()]
FAMILIES = {"values": VALUES, "objects": OBJECTS, "keys": KEYS}
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def db() -> Iterator[Any]:
    with reactdb.connect(":memory:") as db:
        yield db


@pytest.fixture(scope="module")
def ways(db: Any) -> Iterator[dict[str, Way]]:
    with ExitStack() as stack:
        yield {way.name: way(db, stack) for way in WAYS}


def new_table(db: Any) -> str:
    name = f"t{next(NUMBERS)}"
    db.table_create(name, primary_key="_id")
    return name


def stored(db: Any, table: str) -> dict[bytes, bytes]:
    return {codec.encode_value(document["_id"]): codec.encode(document) for document in db.table(table)}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("way", [way.name for way in WAYS])
def test_every_document_is_told_by_every_door_in_the_order_of_the_log(db, ways, way, family):
    documents, table = FAMILIES[family], new_table(db)
    with ways[way].following(table) as wait:
        for document in documents:
            db.table(table).insert(document)
        told = wait(len(documents))

    shown = ways[way].documents(table)
    assert len(shown) == len(documents)
    # Each document has a field that all doors can say, and that no other document has.
    mark = "name" if family == "keys" else "_id"
    names = [document[mark] for document in documents]
    if way == "aidbox" and mark == "_id":
        # It shows the primary key under this name.
        mark = "id"
    assert names == [one[mark] for one in told]
    assert sorted(names) == sorted(one[mark] for one in shown)
    # What a feed shows is what reading shows. (As texts, because NaN does not equal itself.)
    content = ways[way].content
    read, heard = ({one[mark]: repr(content(one)) for one in found} for found in (shown, told))
    assert read == heard


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("way", [way.name for way in WAYS])
def test_who_writes_back_what_was_shown_changes_nothing_or_is_refused(db, ways, way, family):
    table = new_table(db)
    db.table(table).insert(FAMILIES[family])
    before = stored(db, table)
    for shown in ways[way].documents(table):
        ways[way].write_back(table, shown)
    after = stored(db, table)
    damaged = [
        (codec.decode(body), codec.decode(after[key]) if key in after else None)
        for key, body in before.items()
        if key not in after or not codec.same_bytes(body, after[key])
    ]
    assert not damaged
    assert before.keys() == after.keys()


# Aidbox shows a number and its text alike, and refuses to write them where both are there.
@pytest.mark.parametrize("way", [way.name for way in WAYS if way.name != "aidbox"])
def test_keys_that_differ_are_shown_as_values_that_differ(db, ways, way):
    table = new_table(db)
    db.table(table).insert(KEYS)

    shown = [repr(ways[way].content(one["_id"])) for one in ways[way].documents(table)]

    assert len(set(shown)) == len(KEYS)


@pytest.mark.parametrize("way", [way.name for way in WAYS])
def test_who_writes_a_document_under_its_shown_key_changes_no_other(db, ways, way):
    table = new_table(db)
    db.table(table).insert(KEYS)
    names = {key: codec.decode(body)["name"] for key, body in stored(db, table).items()}
    changed, refused = set(), set()

    for shown in ways[way].documents(table):
        was_taken = ways[way].write_back(table, {**shown, "name": f"new {shown['name']}"})
        (changed if was_taken else refused).add(shown["name"])

    assert {key: codec.decode(body)["name"] for key, body in stored(db, table).items()} == {
        key: f"new {name}" if name in changed else name for key, name in names.items()
    }
    assert changed | refused == set(names.values())
    # What is refused has a reason that is the dialect's own, as RethinkDB's limit of 127 bytes.
    assert len(refused) <= len(names) // 10, sorted(refused)


JSON_FIELDS = [value for value in of_every_object().values() if type(next(iter(value.values()))) is not date]


@pytest.mark.parametrize("way", [way.name for way in WAYS])
def test_what_a_door_takes_of_objects_that_mean_something_is_told_by_all_doors(db, ways, way):
    table, taken = new_table(db), []
    for number, fields in enumerate(JSON_FIELDS):
        for key, document in ((f"{number}a", fields), (f"{number}b", {"v": fields})):
            if ways[way].put(table, key, {**document, "mark": key}):
                taken.append(key)

    assert len(taken) > len(JSON_FIELDS) / 2
    for other in ways.values():
        assert (other.name, sorted(taken)) == (
            other.name,
            sorted(one["mark"] for one in other.documents(table)),
        )


@pytest.mark.parametrize("way", [way.name for way in WAYS])
def test_a_program_whose_texts_fail_ends_no_stream(db, ways, way, monkeypatch):
    def fail(_: Any) -> str:
        raise RuntimeError("a mistake of the program")

    table, value = new_table(db), Mark(b"\0\1\2\3")
    with ways[way].following(table) as wait:
        monkeypatch.setattr(NAMED["acme.mark"], "text", fail)
        db.table(table).insert([{"_id": "a"}, {"_id": "b", "v": [value]}, {"_id": "c"}])
        assert len(wait(3)) == 3
    for shown in ways[way].documents(table):
        ways[way].write_back(table, shown)
    assert db.table(table).get("b")["v"].run() == [value]


LEAVES = st.sampled_from(list(of_every_type().values()))


def holding(inner: Any) -> Any:
    """Such values, and lists and dicts of them."""
    return inner | st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)


TREES = holding(holding(LEAVES))


@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.large_base_example],
)
@given(st.lists(TREES, min_size=1, max_size=6))
def test_whatever_is_inside_one_another_is_told_and_comes_back(db, ways, trees):
    table = new_table(db)
    for number, tree in enumerate(trees):
        db.table(table).insert({"_id": str(number), "v": tree})
    before = stored(db, table)
    for way in ways.values():
        shown = way.documents(table)
        assert (way.name, len(trees)) == (way.name, len(shown))
        for one in shown:
            way.write_back(table, one)
        after = stored(db, table)
        assert before.keys() == after.keys(), way.name
        for key, body in before.items():
            assert codec.same_bytes(body, after[key]), (
                way.name,
                codec.decode(body),
                codec.decode(after[key]),
            )


# ---------------------------------------------------------------------------------------------------------------
# Doors that carry whole tables


@pytest.fixture
def folder(tmp_path: Any) -> Any:
    """A file with a table of each family."""
    with reactdb.connect(tmp_path / "a.db") as db:
        for family, documents in FAMILIES.items():
            db.table_create(family, primary_key="_id").insert(documents)
    return tmp_path


def contents(path: Any, table: str) -> list[Any]:
    """The documents in the order of keys, their fields sorted."""
    with reactdb.connect(path) as db:
        return [
            sorted((name, codec.encode_value(value)) for name, value in one.items())
            for one in db.table(table)
        ]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("form", ["jsonl", "json", "csv"])
def test_an_export_is_imported_as_it_was(folder, family, form):
    done(run("export", folder / "a.db", family, folder / f"out.{form}"))
    done(run("import", folder / "b.db", family, folder / f"out.{form}", "--create", "--primary-key", "_id"))
    assert contents(folder / "a.db", family) == contents(folder / "b.db", family)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_synchronised_table_is_as_it_was(folder, family):
    http = pytest.importorskip("reactdb.servers.http")
    with (
        reactdb.connect(folder / "a.db") as here,
        http.serve_in_thread(here) as server,
        reactdb.connect(folder / "b.db") as there,
    ):
        there.table_create(family, primary_key="_id")
        reactdb.sync(there, family, f"http://127.0.0.1:{server.port}/{family}", push=False)
    ours, theirs = contents(folder / "a.db", family), contents(folder / "b.db", family)
    if family == "keys":
        # Keys that are equal are one, as 1 and 1.0 are: a new document has the usual one.
        ours, theirs = ([dict(document)["name"] for document in found] for found in (ours, theirs))
    assert ours == theirs


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_spark_reads_and_writes_whole_documents_as_they_were(folder, spark, family):
    # As JSON and as VARIANT they have JSON's types.
    def options() -> dict[str, str]:
        imports = ",".join([*dialect_modules(), Mark.__module__])
        return {"table": family, "document": "binary", "primaryKey": "_id", "imports": imports}

    rows = spark.read.format("reactdb").options(**options()).load(str(folder / "a.db"))
    assert rows.count() == len(FAMILIES[family])
    rows.write.format("reactdb").mode("append").options(**options()).save(str(folder / "b.db"))
    assert contents(folder / "a.db", family) == contents(folder / "b.db", family)
