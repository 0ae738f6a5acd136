"""The parts of the Spark source that need no Spark: options, files, partitions, pages of the store, the environment."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reactdb
from reactdb import HistoryDiverged, HistoryLost, InvalidOption
from reactdb.errors import SparkUnavailable
from reactdb.spark import environment
from reactdb.spark.options import NAMES, REMOVED, Instant, parse, parse_write
from reactdb.store import exports
from reactdb.store.file.sqlite import connect
from reactdb.values.collation import key_bytes
from tests.support.processes import run_python

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql import types as t

from reactdb.lake import fleet
from reactdb.spark import schema as schemas
from reactdb.spark.batches import BatchMaker
from reactdb.spark.plan import FileSlice, pack_slices, plan_slices, split_changes
from reactdb.spark.source import BatchReader, ReactdbSource
from reactdb.spark.types import infer_documents, spark_field

# ---------------------------------------------------------------------------------------------------------------
# Options


def test_modules_that_register_types_are_imported_wherever_the_options_arrive():
    options = parse({"path": "a.db", "imports": "tests.support.registered_types, json"})

    assert ("tests.support.registered_types", "json") == options.imports
    printed = run_python(
        "import pickle, sys; pickle.loads(bytes.fromhex(sys.argv[1]));"
        "print('tests.support.registered_types' in sys.modules)",
        pickle.dumps(options).hex(),
    )
    assert "True\n" == printed
    with pytest.raises(InvalidOption, match=r"option imports: No module named 'no_such_module'"):
        parse({"imports": "no_such_module"})


def test_option_names_have_no_case():
    options = parse(
        {
            "PATH": "a.db",
            "Read": "CHANGES",
            "sTART": "2026-01-31T12:00:00+02:00",
            "END": "7",
            "partitionbytes": "16m",
            "Mode": "dropMalformed",
        }
    )

    assert ("changes", 7, 16 << 20, "DROPMALFORMED") == (
        options.read,
        options.end,
        options.partition_bytes,
        options.mode,
    )
    assert Instant(1_769_853_600_000_000) == options.start


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tabel": "x"}, "unknown option tabel; the data source knows path"),
        ({"tabel": "x"}, "; the nearest is `table`"),
        ({"read": "feeds"}, "option read is one of documents, changes, not feeds"),
        ({"shape": "x"}, "option shape is one of reactdb, delta, debezium"),
        ({"asOf": "yesterday"}, "asOf is a seq, an ISO 8601 time such as"),
        ({"read": "changes", "start": "x"}, "start is a seq, an ISO 8601 time such as"),
        ({"end": "-5"}, "end is a seq, an ISO 8601 time such as"),
        (
            {"read": "changes", "asOf": "5"},
            "asOf chooses documents: leave it out, and choose changes with start and end",
        ),
        (
            {"read": "documents", "start": "5"},
            "choose changes: leave out read=documents, or choose documents with asOf",
        ),
        (
            {"read": "documents", "shape": "delta"},
            "choose changes: leave out read=documents, or choose documents with asOf",
        ),
        (
            {"start": "5", "asOf": "5"},
            "asOf chooses documents: leave it out, and choose changes with start and end",
        ),
        ({"startSeq": "1"}, "option startSeq was removed: give start, which takes a seq or a time"),
        ({"endTimestamp": "2026-01-31"}, "option endTimestamp was removed: give end, which takes"),
        ({"pathGlobFilter": "*.x"}, "option pathGlobFilter was removed: give a glob as the path, such as"),
        ({"maxChangesPerTrigger": "0"}, "option maxChangesPerTrigger is a whole number of at least 1"),
        ({"partitionBytes": "lots"}, "option partitionBytes is a size such as 32m"),
        ({"partitionBytes": "0"}, "option partitionBytes is a size"),
        (
            {"pushDown": "true"},
            "option pushDown was removed: filters are not pushed down, because Spark",
        ),
        ({"paths": "[1]"}, "option paths is a JSON list of strings"),
        ({"readChangeFeed": "true"}, "option readChangeFeed was removed: give read=changes and shape=delta"),
        ({"STARTINGVERSION": "3"}, "option startingVersion was removed: give start:"),
        ({"versionasof": "6"}, "option versionAsOf was removed: give asOf"),
        ({"minPartitions": "3"}, "option minPartitions was removed: give a smaller partitionBytes"),
        ({"asOf": "9" * 5_000}, "asOf is a seq, an ISO 8601 time"),
        ({"imports": ".registered_types"}, "option imports: '.registered_types' is no full name of a module"),
    ],
)
def test_an_option_that_cannot_be_is_refused(options, words):
    with pytest.raises(InvalidOption) as caught:
        parse(options)

    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("7", 7), ("7b", 7), (" 2K ", 2_048), ("2kb", 2_048), ("3m", 3 << 20), ("1GB", 1 << 30)],
)
def test_a_size_has_a_unit(text, size_bytes):
    assert size_bytes == parse({"partitionBytes": text}).partition_bytes


@pytest.mark.parametrize("text", ["", "m", "1t", "1kk", "1 m", "-1", "0b", "²", "9" * 19])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(InvalidOption, match="option partitionBytes is a size such as 32m"):
        parse({"partitionBytes": text})


def test_a_removed_option_is_no_option():
    assert {name.lower() for name in REMOVED}.isdisjoint(name.lower() for name in NAMES)
    for name in REMOVED:
        with pytest.raises(InvalidOption, match=f"option {name} was removed: "):
            parse({name.upper(): "1"})
        with pytest.raises(InvalidOption, match=f"option {name} was removed: "):
            parse_write({"path": "a.db", "table": "games", name: "1"})


# ---------------------------------------------------------------------------------------------------------------
# Files and partitions


def test_paths_mean_files_sorted_each_once(tmp_path):
    for name in ("b.db", "a.db", "a.db-wal", "c.txt", "deep/d.db"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    def files(*paths: str, **options: str) -> list[str]:
        given = parse({"paths": str(list(paths)).replace("'", '"'), **options})
        return [str(Path(file).relative_to(tmp_path)) for file in fleet.Fleet(given.files).paths()]

    folder = str(tmp_path)
    assert ["a.db", "b.db"] == files(folder)
    assert ["a.db", "b.db", "deep/d.db"] == files(folder + "/**/*.db")
    assert ["c.txt"] == files(folder + "/*.txt")
    assert ["a.db"] == files(f"{folder}/a*")
    assert ["b.db", "a.db"] == files(f"{folder}/b.db", f"file://{folder}/*.db")
    with pytest.raises(reactdb.errors.CannotOpen, match="no file matches it"):
        files(f"{folder}/z*")
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        reactdb.errors.CannotOpen,
        match=r"matches \*\.db: give a glob instead of the folder, such as .*/empty/\*",
    ):
        files(f"{folder}/empty")
    with pytest.raises(InvalidOption, match="no path of the local file system"):
        files("s3://bucket/a.db")


def test_a_relative_path_is_absolute_in_the_plan(tmp_path, monkeypatch):
    with reactdb.connect(tmp_path / "a.db", durability="soft") as db:
        db.table_create("games").insert({"id": 1})
    monkeypatch.chdir(tmp_path)

    (part,) = plan_slices(parse({"path": "a.db"}))

    assert (str((tmp_path / "a.db").resolve()), 2) == (part.path, part.until)


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(1, 500), st.integers(1, 10**6)), max_size=6),
    st.integers(1, 10**6),
)
def test_partitions_have_every_change_once(files, most):
    slices = [
        FileSlice(str(n), "", since, since + count, weight) for n, (since, count, weight) in enumerate(files)
    ]

    splits = pack_slices((piece for part in slices for piece in split_changes(part, most)), most)

    found = [
        (p.path, seq) for split in splits for p in split.slices for seq in range(p.since + 1, p.until + 1)
    ]
    assert [(p.path, seq) for p in slices for seq in range(p.since + 1, p.until + 1)] == found


def test_small_files_share_a_partition_and_large_ones_are_cut():
    small = [FileSlice(str(n), "", 0, 10, 1_000) for n in range(100)]
    large = FileSlice("x", "", 0, 1_000_000, 320 << 20)

    assert 1 == len(pack_slices(small, 32 << 20))
    assert 10 == len(pack_slices(split_changes(large, 32 << 20), 32 << 20))


def test_partitions_and_readers_travel(path):
    for options in ({"table": "games"}, {"read": "changes"}):
        source = ReactdbSource({"path": path, **options})
        reader = source.reader(source.schema())

        copy = pickle.loads(pickle.dumps(reader))

        assert sum(batch.num_rows for split in reader.partitions() for batch in copy.read(split)) in (90, 112)
        assert len(pickle.dumps(reader.partitions()[0])) < 1_000


# ---------------------------------------------------------------------------------------------------------------
# Pages of the store


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """100 documents, of which 10 are changed and 10 deleted; one key that changed; a second table in between."""
    file = tmp_path_factory.mktemp("pieces") / "pieces.db"
    with reactdb.connect(file, durability="soft") as db:
        games = db.table_create("games")
        games.index_create("n")
        games.insert([{"id": number, "n": number % 10} for number in range(100)])
        db.table_create("notes").insert({"id": "a"})
        games.between(0, 10).delete()
        games.get(10).update({"n": 77})
        # And two tables and an index.
        assert 115 == db.seq
    return str(file)


def test_pages_of_changes_and_of_documents_agree_with_the_database(path):
    with (
        exports.open_to_read(path) as engine,
        engine.snapshot() as snapshot,
        reactdb.connect(path, read_only=True) as db,
    ):
        head = snapshot.seq
        table = snapshot.table("games")
        assert table is not None
        for limit in (1, 3, 7, 50, 1000):
            position, seqs = 0, []
            while position < head:
                page, position = exports.changes(snapshot, position, head, with_old=True, limit=limit)
                seqs += [] if page is None else list(page.seqs)
            assert [*range(3, 103), *range(104, head + 1)] == seqs
            for seq in (1, 50, 102, 104, 107, head):
                start: bytes | None = b""
                keys: list[bytes] = []
                while start is not None:
                    found = exports.documents(snapshot, table, seq, start, b"\xff", limit=limit)
                    keys += found.keys
                    start = found.next_start
                wanted = [each["id"] for each in db.at(seq).table("games").order_by("id").run()]
                assert [key_bytes(each) for each in wanted] == keys


def test_seqs_and_commits_are_those_of_the_log(path):
    names = ["seq", "commit"]
    schema = t.StructType([t.StructField(name, t.LongType()) for name in names])
    reader = ReactdbSource({"path": path, "read": "changes"}).reader(schema)

    batches = [batch for split in reader.partitions() for batch in reader.read(split)]

    with reactdb.connect(path, read_only=True) as db:
        wanted = [(change.seq, change.commit) for change in db.log() if change.catalogue is None]
    assert wanted == [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def test_a_sample_is_taken_from_several_places(tmp_path, monkeypatch):
    """Fields of documents that it has not seen do not fit an inferred schema."""
    monkeypatch.setattr(schemas, "SAMPLE", 10)
    monkeypatch.setattr(schemas, "LEAST", 10)
    file = str(tmp_path / "a.db")
    with reactdb.connect(file, durability="soft") as db:
        rest = [{"id": number, "n": number} for number in range(300)]
        rest[155]["half"] = True
        db.table_create("games").insert(
            [*rest, {"id": 300, "n": "many"}, {"id": 301, "n": 1.5}, {"id": 302, "n": 302, "more": True}]
        )
    source = ReactdbSource({"path": file, "table": "games"})

    inferred = source.schema()

    assert "struct<id:bigint,n:bigint,half:boolean,_corrupt:string>" == inferred.simpleString()
    reader = source.reader(inferred)
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert [300, 301, 302] == [row["id"] for row in rows if row["_corrupt"] is not None]


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        ({"read": "changes", "shape": "delta"}, "struct<key:string,document:variant,_change_type:string,"),
        (
            {"read": "changes"},
            "struct<seq:bigint,table:string,key:string,op:string,ts:timestamp,commit:bigint,old:variant",
        ),
        (
            {"read": "changes", "document": "struct"},
            "struct<seq:bigint,table:string,key:string,op:string,ts:timestamp,commit:bigint,old:struct<id:",
        ),
        (
            {"read": "changes", "table": "notes"},
            "struct<seq:bigint,table:string,key:string,op:string,ts:timestamp,"
            "commit:bigint,old:struct<id:string>",
        ),
    ],
)
def test_documents_of_several_tables_are_variants(path, options, columns):
    source = ReactdbSource({"path": path, **options})

    found = source.schema()

    assert found.simpleString().startswith(columns)
    reader = pickle.loads(pickle.dumps(source)).reader(found)
    count = sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))
    assert count == {"delta": 113, "notes": 1}.get(options.get("shape", options.get("table", "")), 112)


def test_a_key_that_changed_many_times_is_taken_back(tmp_path, monkeypatch):
    monkeypatch.setattr(exports, "LONG_HISTORY", 5)
    with reactdb.connect(tmp_path / "a.db", durability="soft") as db:
        games = db.table_create("games")
        for number in range(20):
            games.insert({"id": 1, "n": number}, conflict="replace")
    with exports.open_to_read(str(tmp_path / "a.db")) as engine, engine.snapshot() as snapshot:
        table = snapshot.table("games")
        assert table is not None
        for seq in (2, 8, 21):
            found = exports.documents(snapshot, table, seq, b"", b"\xff")
            assert [{"id": 1, "n": seq - 2}] == [reactdb.values.codec.decode(body) for body in found.bodies]


def damage(path: str, statement: str) -> None:
    connection = connect(path, mode="rw", busy_timeout_s=1)
    connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE log SET time = time + 1 WHERE seq = 5",
        "UPDATE log SET kind = 3 WHERE seq = 5",
        "DELETE FROM log WHERE seq = 5",
        "UPDATE log SET key = 'text' WHERE seq = 5",
        "UPDATE log SET prev = 4 WHERE seq = 5",
        "UPDATE log SET origin = 'x' WHERE seq = 5",
    ],
)
def test_damage_is_told_by_every_read_of_changes(tmp_path, statement):
    file = make_damaged(tmp_path, statement)
    for names in (["seq"], ["seq", "origin"], ["new"], ["old", "new"]):
        with pytest.raises(reactdb.CorruptDatabase):
            read_columns(file, names)


def test_damage_to_a_document_is_told_where_documents_are_read(tmp_path):
    """Columns that need no document read none."""
    file = make_damaged(tmp_path, "UPDATE log SET body = x'81a26964ff' WHERE seq = 5")

    assert list(range(2, 11)) == [row["seq"] for row in read_columns(file, ["seq", "origin"])]
    for names in (["new"], ["seq", "old"]):
        with pytest.raises(reactdb.CorruptDatabase, match="log entry 5"):
            read_columns(file, names)


@pytest.mark.parametrize("damaged", ["x''", "x'ff'", "x'f0c32801'", "x'f00001f00001'"])
@pytest.mark.parametrize("key", [3, "three"])
def test_a_damaged_key_that_cannot_be_decoded_is_told_without_documents(tmp_path, key, damaged):
    file = make_damaged(tmp_path, f"UPDATE log SET key = {damaged} WHERE seq = 5", key)

    with pytest.raises(reactdb.CorruptDatabase, match="log entry 5"):
        read_columns(file, ["key"])


def make_damaged(folder: Path, statement: str, key: int | str = 3) -> str:
    """A database of nine documents, at the seqs 2 to 10, after this statement."""
    file = str(folder / "a.db")
    with reactdb.connect(file, durability="soft") as db:
        keys = [key + number if isinstance(key, int) else f"{key} {number}" for number in range(9)]
        db.table_create("games").insert([{"id": each} for each in keys])
    damage(file, statement)
    return file


def read_columns(file: str, names: list[str]) -> list[dict[str, Any]]:
    """Columns of the changes, read as an executor does."""
    types = {"seq": t.LongType(), "origin": t.StringType(), "new": t.BinaryType(), "old": t.BinaryType()}
    schema = t.StructType([t.StructField(name, types.get(name, t.StringType())) for name in names])
    rows = BatchMaker(schema, parse({"path": file, "read": "changes"}))
    with fleet.open_file(file, parse({"path": file}).files) as engine:
        batches = rows.batches([FileSlice(file, engine.database_id, 0, 10)])
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("form", ["json", "binary", "struct"])
@pytest.mark.parametrize("read", ["changes", "documents"])
def test_a_page_is_freed_without_the_garbage_collector(tmp_path, form, read):
    """The collector pauses while pages are read. Pages that refer to themselves would all stay in memory meanwhile."""
    file = str(tmp_path / "a.db")
    with reactdb.connect(file, durability="soft") as db:
        db.table_create("games").insert([{"id": number, "body": "x" * 4_000} for number in range(10)])
    source = ReactdbSource({"path": file, "read": read, "document": form, "table": "games"})
    reader = source.reader(source.schema())
    (partition,) = reader.partitions()
    gc.collect()
    gc.disable()
    try:
        sizes = [batch.num_rows for batch in reader.read(partition)]
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found = {type(each).__name__ for each in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()

    # Of these, each page has one.
    assert [10] == sizes
    assert found.isdisjoint({"Entries", "SourcePage", "Rows"})


def test_damage_to_a_document_is_told_with_its_key(tmp_path):
    file = str(tmp_path / "a.db")
    with reactdb.connect(file, durability="soft") as db:
        db.table_create("games").insert([{"id": number} for number in range(10)])
    damage(file, "UPDATE log SET body = x'81a26964ff' WHERE seq = 5")
    options = parse({"path": file})
    plan = BatchReader(
        t.StructType([t.StructField("id", t.LongType())]),
        options,
        plan_slices(options),
        is_inferred=False,
    )

    with pytest.raises(reactdb.CorruptDatabase, match="key 3"):
        list(plan.rows().batches([part for split in plan.splits for part in split.slices]))


def test_a_file_that_was_replaced_after_the_plan_is_refused(tmp_path):
    file = tmp_path / "a.db"
    schema = t.StructType([t.StructField("seq", t.LongType())])
    options = parse({"path": str(file), "read": "changes"})
    for count, words in ((5, None), (3, "is database .* now, and was")):
        if words is not None:
            reactdb.delete_database(file)
        with reactdb.connect(file, durability="soft") as db:
            db.table_create("games").insert([{"id": number} for number in range(count)])
        if words is None:
            plan = BatchReader(schema, options, plan_slices(options), is_inferred=False)
            assert [5] == [
                batch.num_rows for split in plan.splits for batch in plan.rows().batches(split.slices)
            ]
        else:
            with pytest.raises(HistoryDiverged, match=words):
                [list(plan.read(part)) for part in plan.partitions()]


def test_changes_of_a_table_that_no_file_has_are_an_error(path):
    options = parse({"path": path, "read": "changes", "table": "gmaes"})
    with pytest.raises(reactdb.TableNotFound, match="gmaes"):
        BatchReader(
            t.StructType([t.StructField("seq", t.LongType())]),
            options,
            plan_slices(options),
            is_inferred=False,
        )


def test_compaction_between_plan_and_read_is_an_error_and_no_gap(tmp_path):
    file = tmp_path / "a.db"
    options = parse({"path": str(file), "read": "changes"})
    with reactdb.connect(file, durability="soft") as db:
        games = db.table_create("games")
        for number in range(10):
            games.insert({"id": 1, "n": number}, conflict="replace")
        schema = t.StructType([t.StructField("seq", t.LongType())])
        plan = BatchReader(schema, options, plan_slices(options), is_inferred=False)
        db.compact(keep=2)

        with pytest.raises(HistoryLost):
            [list(plan.read(part)) for part in plan.partitions()]


# ---------------------------------------------------------------------------------------------------------------
# Inference


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([1, None], "bigint"),
        ([1, 2**70], "decimal(38,0)"),
        ([1, 2.5], "double"),
        ([2**60, 2.5], "variant"),
        ([True, 1], "variant"),
        ([None], "string"),
        ([{}], "string"),
        ([[], [1]], "array<bigint>"),
        ([[1, "a"]], "array<variant>"),
        ([{"a": 1}, {"b": [{"c": None}]}], "struct<a:bigint,b:array<struct<c:string>>>"),
        ([{str(n): n for n in range(1001)}], "map<string,bigint>"),
        ([{str(n): n if n % 2 else "x" for n in range(1001)}], "variant"),
        ([{f"u{n}": 1} for n in range(1000)], "map<string,bigint>"),
    ],
)
def test_the_type_that_holds_all_values(values, type_):
    inference = infer_documents()
    inference.add({"x": value} for value in values)

    assert [type_] == [spark_field(field).dataType.simpleString() for field in inference.fields()]


# ---------------------------------------------------------------------------------------------------------------
# The environment


def test_importing_the_package_imports_nothing_of_pyspark():
    code = "import sys, reactdb.spark; print([n for n in ('pyspark', 'pyarrow', 'py4j') if n in sys.modules])"

    assert "[]" == subprocess.check_output([sys.executable, "-c", code], text=True).strip()


# What a process that reads has no use for: the writing side, live results, and what takes long to import.
NOT_FOR_WORKERS = (
    "reactdb.database",
    "reactdb.dialects",
    "reactdb.documents",
    "reactdb.feeds",
    "reactdb.lake.run",
    "reactdb.query",
    "reactdb.session",
    "reactdb.spark.stream",
    "reactdb.spark.write",
    "reactdb.table",
    "importlib.metadata",
    "pandas",
    "reactivex",
    "sqlite_utils",
    "subprocess",
)


def test_a_worker_that_reads_imports_only_what_it_needs():
    """After a pause Spark starts new workers, and each of them imports the reader anew."""
    code = (
        "import sys, pyspark.worker, pyspark.sql.worker.plan_data_source_read\n"
        "had = set(sys.modules)\n"
        "import reactdb.spark.source\n"
        f"print(*(name for name in {NOT_FOR_WORKERS} if name in sys.modules and name not in had))"
    )

    assert "" == subprocess.check_output([sys.executable, "-c", code], text=True).strip()


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "pyspark is not installed: python -m pip install 'reactdb"),
        ("4.1.9", "pyspark 4.1.9 does not do, 4.2 or newer, before 5 is needed: python -m pip install"),
        ("5.0.0", "pyspark 5.0.0 does not do"),
    ],
)
def test_a_package_that_is_missing_or_of_another_version_is_told(monkeypatch, found, words):
    monkeypatch.setattr(environment, "version_of", lambda name: found)
    with pytest.raises(SparkUnavailable) as caught:
        environment.check()

    assert words in str(caught.value)


def test_java_that_is_missing_or_too_old_is_told(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkUnavailable, match=r"Java is missing: install a Java runtime of version 17"):
        environment.check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkUnavailable) as caught:
        environment.check_java()
    assert str(caught.value).startswith(f"JAVA_HOME is {tmp_path}, where there is no bin/java: correct it")
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    (tmp_path / "release").write_text('JAVA_VERSION="11.0.2"\n')
    with pytest.raises(SparkUnavailable, match=r"is Java 11, and Spark needs 17 or newer"):
        environment.check_java()


def test_the_interpreter_is_set_where_nobody_has_set_one(monkeypatch):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "mine")

    environment.set_interpreter()

    assert (sys.executable, "mine") == tuple(
        environment.os.environ[name] for name in environment.INTERPRETERS
    )


def test_spark_connect_names_the_package_that_it_needs(monkeypatch):
    installed = {"pyspark": "4.2", "pyarrow": "99"} | dict.fromkeys(environment.CONNECT_PACKAGES, "2099.1")
    del installed["grpcio"]
    monkeypatch.setattr(environment, "version_of", installed.get)
    monkeypatch.setenv("SPARK_REMOTE", "sc://server")
    monkeypatch.setenv("JAVA_HOME", "/nope")
    with pytest.raises(SparkUnavailable) as caught:
        environment.check()

    assert str(caught.value).startswith(
        "grpcio is not installed: Spark Connect needs it (SPARK_REMOTE is sc://server)"
    )
    assert "reactdb[spark-connect]" in str(caught.value)
    installed["grpcio"] = "2099.1"
    environment.check()


class ConnectSession:
    """A session of Spark Connect, which has no `sparkContext`."""

    def __init__(self) -> None:
        self.registered: list[str] = []
        self.dataSource = self

    def register(self, source: Any) -> None:
        self.registered.append(source.name())

    def __getattr__(self, name: str) -> Any:
        from pyspark.errors import PySparkAttributeError

        raise PySparkAttributeError(
            errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": name}
        )


def test_a_session_of_spark_connect_is_made_quiet_and_knows_the_format(monkeypatch):
    for name in environment.INTERPRETERS:
        monkeypatch.delenv(name, raising=False)
    session = ConnectSession()

    environment.quieten(session)
    environment.use_interpreter(session)
    reactdb.spark.register(session)

    assert ["reactdb"] == session.registered
