"""Reading with Spark: documents and changes agree with the database; they are complete, consistent, and never doubled."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import reactdb
from reactdb import row
from reactdb.spark import environment
from tests.support.read_only import mounted_read_only

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

ID = UUID("0193d3a1-7c3e-7000-9d0c-4c1f7f8d1b2a")
WHEN = datetime(2026, 1, 31, 12, tzinfo=UTC)
Configured = Callable[..., AbstractContextManager[None]]


def game(number: int, **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "name": f"player {number}",
        "score": number * 1.5,
        "when": WHEN + timedelta(hours=number),
        "price": Decimal(number).scaleb(-2),
        "home": {"city": f"city {number % 7}", "ref": ID},
        "tags": ["a", "b"][: number % 3],
        "blob": bytes([number % 256]),
        **more,
    }


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """1,000 inserts in two commits, then an update, a replace, a delete, and another table."""
    file = tmp_path_factory.mktemp("read") / "games.db"
    with reactdb.connect(file, durability="soft", origin="tester") as db:
        games = db.table_create("games")
        games.index_create("score")
        games.insert([game(number) for number in range(600)])
        games.insert([game(number) for number in range(600, 1000)])
        games.get(5).update({"score": 7.0})
        games.get(6).replace(game(6, name="other"))
        games.get(7).delete()
        db.table_create("notes").insert({"id": "n1", "text": "hello"})
    return str(file)


def read(spark: Any, path: str | list[str], **options: Any) -> Any:
    return spark.read.format("reactdb").options(**options).load(path)


def kept(db: Any, seq: int | None = None) -> list[Any]:
    source = db if seq is None else db.at(seq)
    return list(source.table("games").order_by("id").run())


def shown(document: dict[str, Any]) -> dict[str, Any]:
    """A document as Spark hands it to Python: times of the session's zone without one, UUIDs as text."""
    found = dict(document)
    found["when"] = document["when"].astimezone().replace(tzinfo=None)
    found["home"] = {**document["home"], "ref": str(document["home"]["ref"])}
    found["price"] = Decimal(document["price"])
    return found


def plain(rows: list[Any]) -> list[dict[str, Any]]:
    return [each.asDict(recursive=True) for each in rows]


# ---------------------------------------------------------------------------------------------------------------


def test_a_session_in_another_thread_is_the_one_that_runs_and_stays(spark, path):
    """A thread that was started knows no session, and stopped the one of the whole program on its way out."""
    seen = []

    def read() -> None:
        with environment.session("another") as session:
            seen.append(session is spark)
            seen.append(session.read.format("reactdb").option("table", "games").load(path).count())

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()

    assert [True, 999] == seen
    assert 2 == spark.range(2).count()


def test_documents_are_those_of_the_table_with_their_types(spark, path):
    frame = read(spark, path, table="games")

    assert (
        "struct<id:bigint,name:string,score:double,when:timestamp,price:decimal(38,18),"
        "home:struct<city:string,ref:string>,tags:array<string>,blob:binary,_corrupt:string>"
    ) == frame.schema.simpleString()
    with reactdb.connect(path, read_only=True) as db:
        wanted = [
            {**shown(document), "blob": bytearray(document["blob"]), "_corrupt": None}
            for document in kept(db)
        ]
    assert wanted == plain(frame.orderBy("id").collect())


def test_documents_as_of_a_seq_are_those_of_then(spark, path):
    def as_of(seq: int) -> Any:
        reader = spark.read.format("reactdb").options(table="games", asOf=seq, partitionBytes="60k")
        return (
            reader.schema("id bigint, name string, score double").load(path).selectExpr(f"{seq} as seq", "*")
        )

    seqs = [1, 3, 602, 1003, 1005]
    found = as_of(seqs[0])
    for seq in seqs[1:]:
        found = found.unionAll(as_of(seq))
    rows = found.collect()

    with reactdb.connect(path, read_only=True) as db:
        for seq in seqs:
            wanted = [(each["id"], each["name"], each["score"]) for each in kept(db, seq)]
            assert wanted == sorted((r.id, r.name, r.score) for r in rows if r.seq == seq)


def test_changes_are_the_log(spark, path):
    frame = read(spark, path, read="changes", document="json", partitionBytes="20k")

    assert ["seq", "table", "key", "op", "ts", "commit", "old", "new", "origin"] == frame.columns
    rows = frame.orderBy("seq").collect()
    assert 1 < frame.rdd.getNumPartitions()
    with reactdb.connect(path, read_only=True) as db:
        log = [change for change in db.log() if change.catalogue is None]
    assert [
        (each.seq, each.table, str(each.key), each.kind, each.commit, each.time, "tester") for each in log
    ] == [(r.seq, r.table, r.key, r.op, r.commit, round(r.ts.timestamp() * 1000), r.origin) for r in rows]
    for each, found in zip(log, rows, strict=True):
        for image, text in ((each.old_val, found.old), (each.new_val, found.new)):
            assert (image is None) == (text is None)
            assert image is None or image["id"] == json.loads(text)["id"]


def test_the_three_shapes_tell_the_same_story(spark, path):
    delta = read(spark, path, table="games", read="changes", shape="delta", start=1003)
    debezium = read(spark, path, table="games", read="changes", shape="debezium", start=1003)

    assert [
        ("update_preimage", 1003, 5, 7.5),
        ("update_postimage", 1003, 5, 7.0),
        ("update_preimage", 1004, 6, 9.0),
        ("update_postimage", 1004, 6, 9.0),
        ("delete", 1005, 7, 10.5),
    ] == [
        (r._change_type, r._commit_version, r.id, r.score)
        for r in delta.orderBy("_commit_version", delta["_change_type"].desc()).collect()
    ]
    assert [("u", 5, 7.5, 7.0), ("u", 6, 9.0, 9.0), ("d", 7, 10.5, None)] == [
        (r.op, r.key, r.before.score, r.after and r.after.score) for r in debezium.orderBy("seq").collect()
    ]


@pytest.mark.parametrize(
    ("options", "seqs"),
    [
        ({"start": 1004}, [1004, 1005, 1007]),
        ({"start": 1002, "end": 1003}, [1002, 1003]),
        ({"start": 603, "end": 1002}, list(range(603, 1003))),
        ({"start": 5000}, []),
    ],
)
def test_a_range_of_changes_is_what_it_says(spark, path, options, seqs):
    frame = spark.read.format("reactdb").options(read="changes", **options).schema("seq bigint").load(path)

    assert seqs == sorted(r.seq for r in frame.collect())


def test_a_range_of_times_is_inclusive(spark, path):
    with reactdb.connect(path, read_only=True) as db:
        log = [change for change in db.log() if change.catalogue is None]
    first, last = log[0].time, log[-2].time
    stamp = [datetime.fromtimestamp(ms / 1000, UTC).isoformat() for ms in (first + 1, last)]
    reader = spark.read.format("reactdb").schema("seq bigint")

    found = reader.options(read="changes", start=stamp[0], end=stamp[1]).load(path)

    assert [each.seq for each in log if first < each.time <= last] == sorted(r.seq for r in found.collect())


@pytest.mark.parametrize("document", ["json", "variant", "binary"])
def test_schemaless_documents_come_in_one_piece(spark, path, document):
    frame = read(spark, path, table="games", document=document)

    assert ["key", "document"] == frame.columns
    if document == "binary":
        found = {r.key: reactdb.values.codec.decode(bytes(r.document)) for r in frame.collect()}
        with reactdb.connect(path, read_only=True) as db:
            assert {each["id"]: each for each in kept(db)} == found
        return
    taken = (
        "get_json_object(document, '$.{}')"
        if document == "json"
        else "variant_get(document, '$.{}', 'string')"
    )
    rows = (
        frame.selectExpr("key", taken.format("name"), taken.format("home.city"))
        .orderBy("key")
        .limit(3)
        .collect()
    )
    assert [(0, "player 0", "city 0"), (1, "player 1", "city 1"), (2, "player 2", "city 2")] == [
        tuple(r) for r in rows
    ]


# ---------------------------------------------------------------------------------------------------------------
# Fleets


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    for number in range(3):
        with reactdb.connect(folder / f"device{number}.db", durability="soft") as db:
            db.table_create("games").insert(
                [{"id": n, "device": number, f"only{number}": n} for n in range(4)]
            )
    with reactdb.connect(folder / "other.sqlite", durability="soft") as db:
        db.table_create("games").insert({"id": 99})
    return folder


def test_a_folder_a_glob_and_a_list_are_read_with_the_file_of_each_row(spark, fleet):
    folder = read(spark, str(fleet))
    rows = folder.collect()

    assert ["id", "device", "only0", "only1", "only2", "_source", "_corrupt"] == folder.columns
    assert {(str(fleet / f"device{d}.db"), d, n) for d in range(3) for n in range(4)} == {
        (r._source, r.device, r.id) for r in rows
    }
    assert not any(r._corrupt for r in rows)
    schema = "seq bigint, _source string"
    one_glob = (
        spark.read.format("reactdb").option("read", "changes").schema(schema).load(str(fleet / "*[12].db"))
    )
    listed = (
        spark.read.format("reactdb")
        .option("read", "changes")
        .schema(schema)
        .load([str(fleet / "device0.db"), str(fleet / "other.sqlite")])
    )
    assert 8 == one_glob.count()
    assert {str(fleet / "device0.db"): 4, str(fleet / "other.sqlite"): 1} == {
        r._source: r["count"] for r in listed.groupBy("_source").count().collect()
    }


# ---------------------------------------------------------------------------------------------------------------
# What does not fit, and what cannot be


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Documents of which some do not fit: a string for a number, and a field that only one has."""
    file = tmp_path_factory.mktemp("odd") / "odd.db"
    with reactdb.connect(file, durability="soft") as db:
        table = db.table_create("games")
        table.insert([{"id": number, "n": number} for number in range(300)])
        table.insert([{"id": 300, "n": "many"}, {"id": 301, "n": 1.5}, {"id": 302, "n": 302, "more": True}])
    return str(file)


def test_modes_decide_what_happens_to_documents_that_do_not_fit(spark, odd):
    def rows(schema: str, **options: Any) -> list[Any]:
        reader = spark.read.format("reactdb").options(table="games", **options).schema(schema)
        return reader.load(odd).where("id >= 299").orderBy("id").collect()

    told = rows("id bigint, n bigint, _corrupt string")
    assert [(299, 299), (300, None), (301, None), (302, 302)] == [(r.id, r.n) for r in told]
    assert [
        None,
        {"reason": "document: n: 'many' is not bigint", "document": {"id": 300, "n": "many"}},
        {"reason": "document: n: 1.5 is not bigint", "document": {"id": 301, "n": 1.5}},
        None,
    ] == [r._corrupt and json.loads(r._corrupt) for r in told]
    assert [299, 302] == [r.id for r in rows("id bigint, n bigint", mode="dropmalformed")]
    assert [299, 300, 301, 302] == [r.id for r in rows("id bigint, n bigint", mode="PERMISSIVE")]
    with pytest.raises(
        Exception, match=r"SchemaMismatch.*key 300 does not fit the schema: n: 'many' is not bigint"
    ):
        rows("id bigint, n bigint")


def test_inference_makes_a_variant_of_a_conflict(spark, odd):
    whole = read(spark, odd, table="games")
    texts = spark.read.format("reactdb").option("table", "games").schema("id bigint, n string").load(odd)

    assert "struct<id:bigint,n:variant,more:boolean,_corrupt:string>" == whole.schema.simpleString()
    assert {"float, int, str"} == {whole.schema["n"].metadata["reactdb.conflict"]}
    assert ["299", "many", "1.5", "302"] == [r.n for r in texts.where("id >= 299").orderBy("id").collect()]


@pytest.mark.parametrize(
    ("options", "schema", "words"),
    [
        ({"tabel": "games"}, None, "unknown option tabel; the data source knows path, paths, table"),
        ({"table": "absent"}, None, "Table `absent` does not exist"),
        ({}, None, "option table is missing: choose one of the tables 'games', 'notes'"),
        ({"table": "games", "asOf": 5000}, None, "seq 5000 is in the future"),
        (
            {"table": "games", "asOf": 0},
            None,
            "Table `games` does not exist. No file had it at the moment of asOf.",
        ),
        ({"read": "changes"}, "seq bigint, sqe bigint", "changes have no column sqe; there are seq, table"),
        ({"read": "changes"}, "ts string", "column ts is timestamp, not string"),
    ],
)
def test_mistakes_are_told_in_one_sentence(spark, path, options, schema, words):
    reader = spark.read.format("reactdb").options(**options)
    if schema is not None:
        reader = reader.schema(schema)

    with pytest.raises(Exception, match=r"reactdb\.errors") as caught:
        reader.load(path).collect()

    assert words in str(caught.value)


def test_a_file_that_is_not_there_is_told(spark):
    with pytest.raises(
        Exception, match=r"CannotOpen: cannot open /nowhere/at/all\.db: the folder /nowhere/at does not"
    ):
        spark.read.format("reactdb").load("/nowhere/at/all.db")


def test_a_file_on_a_read_only_medium_is_read(spark, tmp_path):
    """Nothing can be made beside it, and nobody writes it."""
    (tmp_path / "files").mkdir()
    with reactdb.connect(tmp_path / "files" / "a.db") as db:
        db.table_create("games").insert([{"id": n, "v": n % 2} for n in range(100)])
    with mounted_read_only(tmp_path / "files", tmp_path / "mounted") as place:
        reader = spark.read.format("reactdb").option("table", "games").schema("id bigint, v bigint")
        frame = reader.load(str(place / "a.db"))
        changes = spark.read.format("reactdb").schema("seq bigint").option("read", "changes").load(str(place))

        assert (100, 50) == (frame.count(), frame.where("v = 1").count())
        assert list(range(2, 102)) == sorted(row.seq for row in changes.collect())
        stream = (
            spark.readStream.format("reactdb").schema("seq bigint").option("read", "changes").load(str(place))
        )
        query = (
            stream.writeStream.format("memory")
            .queryName("read_only_medium")
            .trigger(availableNow=True)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        query.awaitTermination()
        assert 100 == spark.table("read_only_medium").count()


def test_history_that_was_compacted_away_is_an_error_or_passed_over(spark, tmp_path):
    file = str(tmp_path / "short.db")
    with reactdb.connect(file, durability="soft") as db:
        table = db.table_create("games")
        for number in range(10):
            table.insert({"id": 1, "n": number}, conflict="replace")
        db.compact(keep=3)
    changes = spark.read.format("reactdb").schema("seq bigint").option("read", "changes")

    assert [9, 10, 11] == sorted(r.seq for r in changes.load(file).collect())
    assert [9, 10, 11] == sorted(
        r.seq for r in changes.options(start=2, failOnDataLoss="false").load(file).collect()
    )
    with pytest.raises(
        Exception, match=r"HistoryLost: changes since seq 1 are gone; the log starts at seq 9"
    ):
        changes.options(start=2, failOnDataLoss="true").load(file).collect()
    with pytest.raises(Exception, match=r"HistoryLost: changes since seq 6 are gone"):
        spark.read.format("reactdb").option("asOf", 6).load(file).collect()


# ---------------------------------------------------------------------------------------------------------------
# While a writer writes


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[tuple[str, Any]]:
    """A file that a writer moves money in until the test is over: the sum never changes."""
    file = str(tmp_path / "bank.db")
    stop = threading.Event()
    with reactdb.connect(file, durability="soft") as db:
        accounts = db.table_create("accounts")
        accounts.insert([{"id": number, "money": 100} for number in range(500)])

        def write() -> None:
            turn = 0
            while not stop.is_set():
                turn += 1
                one, two = turn * 7 % 500, (turn * 13 + 1) % 500
                if one == two:
                    continue
                with db.transaction():
                    accounts.get(one).update({"money": row["money"] - 1})
                    accounts.get(two).update({"money": row["money"] + 1})
                if turn % 50 == 0:
                    # Deleted and back, with the same money.
                    with db.transaction():
                        held = accounts.get(one).run()
                        accounts.get(one).delete()
                        accounts.insert(held)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield file, db
        finally:
            stop.set()
            thread.join()


def test_a_snapshot_is_consistent_while_a_writer_writes(spark, busy):
    """Every partition is as of one seq: no money is lost between them, and it is the state that the database has at that seq."""
    file, db = busy
    seqs = [db.seq, db.seq]
    for _ in range(3):
        seqs.append(db.seq)
        frame = (
            spark.read.format("reactdb")
            .options(table="accounts", partitionBytes="12k")
            .schema("id bigint, money bigint")
            .load(file)
        )
        counted, total = frame.selectExpr("count(*)", "sum(money)").first()
        assert (500, 50_000) == (counted, total)
    for seq in seqs[-2:]:
        frame = (
            spark.read.format("reactdb")
            .options(table="accounts", asOf=seq, partitionBytes="12k")
            .schema("id bigint, money bigint")
            .load(file)
        )
        found = dict(map(tuple, frame.collect()))
        wanted = {each["id"]: each["money"] for each in db.at(seq).table("accounts").run()}
        assert wanted == found
