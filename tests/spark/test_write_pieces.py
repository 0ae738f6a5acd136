"""The parts of a write, without a session: rows to documents, staging, and the commit."""

from __future__ import annotations

import os
import pickle
import threading
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")
pa = pytest.importorskip("pyarrow")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from pyspark.sql import types as t  # noqa: E402

import reactdb  # noqa: E402
from reactdb.errors import (  # noqa: E402
    CannotOpen,
    DatabaseBusy,
    DuplicateKey,
    HookNotFound,
    InvalidDocument,
    InvalidKey,
    InvalidOption,
    StorageError,
    UsageError,
)
from reactdb.session import session_of  # noqa: E402
from reactdb.spark import staging  # noqa: E402
from reactdb.spark.options import parse_write  # noqa: E402
from reactdb.spark.row_documents import RowDocuments  # noqa: E402
from reactdb.spark.staging import Part, PartWriter, pages  # noqa: E402
from reactdb.spark.write import BatchWriter, StreamWriter  # noqa: E402
from tests.support.hooks import REVISIONS, revision  # noqa: E402
from tests.support.inspection import documents as games  # noqa: E402
from tests.support.processes import run_python  # noqa: E402

NEW_YORK = pa.timestamp("us", tz="America/New_York")


def one_column(data_type: t.DataType) -> t.StructType:
    return t.StructType([t.StructField("value", data_type)])


def made(data_type: t.DataType, values: list[Any], arrow: Any) -> list[Any]:
    """What becomes of the values of one column of this type; "missing" where there is no such field."""
    batch = pa.RecordBatch.from_arrays([pa.array(values, arrow)], names=["value"])
    return [
        document.get("value", "missing") for document in RowDocuments(one_column(data_type)).documents(batch)
    ]


class TestDocuments:
    @pytest.mark.parametrize(
        ("data_type", "arrow", "value"),
        [
            (t.BooleanType(), pa.bool_(), True),
            (t.ByteType(), pa.int8(), -128),
            (t.LongType(), pa.int64(), 2**63 - 1),
            (t.DoubleType(), pa.float64(), -0.0),
            (t.DecimalType(38, 4), pa.decimal128(38, 4), Decimal("9.9000")),
            (t.StringType(), pa.string(), "zürich \0"),
            (t.BinaryType(), pa.binary(), b"\xff\0"),
            (t.DateType(), pa.date32(), date(1, 1, 1)),
            (t.TimestampType(), NEW_YORK, datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
            (t.TimestampType(), NEW_YORK, datetime(1883, 11, 18, 17, 0, 1, tzinfo=UTC)),
            (t.TimeType(6), pa.time64("ns"), time(23, 59, 59, 999999)),
            (t.DayTimeIntervalType(), pa.duration("us"), timedelta(days=-3, microseconds=1)),
        ],
    )
    def test_a_value_is_stored_as_it_is(self, data_type: t.DataType, arrow: Any, value: Any):
        (found,) = made(data_type, [value], arrow)

        assert (type(value), repr(value)) == (type(found), repr(found))

    def test_a_float_of_32_bits_is_the_same_number(self):
        (found,) = made(t.FloatType(), [0.1], pa.float32())

        assert 0.10000000149011612 == found

    def test_a_null_field_is_left_out(self):
        struct = t.StructType([t.StructField("a", t.LongType()), t.StructField("b", t.LongType())])
        arrow = pa.struct([("a", pa.int64()), ("b", pa.int64())])
        rows = [{"a": 1, "b": None}, {"a": None, "b": None}, None]

        assert [{"a": 1}, {}, "missing"] == made(struct, rows, arrow)

    def test_nulls_in_arrays_and_maps_stay(self):
        assert [[1, None], [], "missing"] == made(
            t.ArrayType(t.LongType()), [[1, None], [], None], pa.list_(pa.int64())
        )
        assert [{"x": 1, "y": None}, {}, "missing"] == made(
            t.MapType(t.StringType(), t.LongType()),
            [[("x", 1), ("y", None)], [], None],
            pa.map_(pa.string(), pa.int64()),
        )

    def test_a_slice_of_a_batch_gives_its_own_rows(self):
        struct = t.StructType([t.StructField("x", t.ArrayType(t.TimestampType()))])
        data_type = t.MapType(t.StringType(), t.ArrayType(struct))
        arrow = pa.map_(pa.string(), pa.list_(pa.struct([("x", pa.list_(NEW_YORK))])))
        now = datetime(2026, 1, 1, tzinfo=UTC)
        rows = [[("a", [{"x": [now, None]}, None])], None, [], [("b", None), ("c", [{"x": None}])]]
        whole = pa.RecordBatch.from_arrays([pa.array(rows, arrow)], names=["value"])
        maker = RowDocuments(one_column(data_type))
        expected = maker.documents(whole)

        for start in range(5):
            for length in range(5 - start):
                assert expected[start : start + length] == maker.documents(whole.slice(start, length))

    @given(
        st.lists(
            st.none()
            | st.lists(
                st.none()
                | st.fixed_dictionaries(
                    {
                        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
                        "f": st.none() | st.floats(allow_nan=False),
                        "m": st.none()
                        | st.dictionaries(st.text(max_size=3), st.none() | st.binary(max_size=3)),
                    }
                ),
                max_size=4,
            ),
            max_size=6,
        )
    )
    def test_what_arrow_holds_is_what_is_stored(self, rows: list[Any]):
        struct = t.StructType(
            [
                t.StructField("n", t.LongType()),
                t.StructField("f", t.DoubleType()),
                t.StructField("m", t.MapType(t.StringType(), t.BinaryType())),
            ]
        )
        arrow = pa.list_(
            pa.struct([("n", pa.int64()), ("f", pa.float64()), ("m", pa.map_(pa.string(), pa.binary()))])
        )

        expected = [
            "missing"
            if row is None
            else [
                None if one is None else {name: value for name, value in one.items() if value is not None}
                for one in row
            ]
            for row in rows
        ]
        assert expected == made(t.ArrayType(struct), rows, arrow)

    def test_a_timestamp_that_no_document_holds_is_refused(self):
        with pytest.raises(InvalidDocument, match="outside the years 1 to 9999"):
            made(t.TimestampType(), [2**60], NEW_YORK)

    @pytest.mark.parametrize(
        ("data_type", "sentence"),
        [
            (t.TimestampNTZType(), "column value is of type timestamp_ntz: it names no moment"),
            (t.ArrayType(t.YearMonthIntervalType()), r"column value\[\] is of type interval year to month"),
            (t.MapType(t.LongType(), t.LongType()), "map with keys of type bigint"),
            (
                t.StructType([t.StructField("a", t.LongType()), t.StructField("a", t.LongType())]),
                "two fields called 'a'",
            ),
        ],
    )
    def test_a_type_without_a_document_is_refused_before_anything_runs(
        self, data_type: t.DataType, sentence: str
    ):
        with pytest.raises(InvalidOption, match=sentence):
            RowDocuments(one_column(data_type))


class TestStaging:
    def test_what_was_staged_is_read_back_in_order(self, tmp_path: Path):
        given = [[[b"1", b"2"], [b"one", b"two" * 100_000]], [[b"3"], [b""]]]
        with PartWriter(tmp_path) as writer:
            for page in given:
                writer.add(*page)
            part = writer.part()

        assert given == list(pages(part))

    def test_a_task_without_rows_leaves_no_file(self, tmp_path: Path):
        with PartWriter(tmp_path) as writer:
            writer.add([], [])
            part = writer.part()

        assert [] == list(pages(part))
        assert [] == list(tmp_path.iterdir())

    def test_a_task_that_fails_leaves_no_file(self, tmp_path: Path):
        with pytest.raises(ValueError, match="no"), PartWriter(tmp_path) as writer:
            writer.add([b"1"], [b"one"])
            assert any(tmp_path.iterdir())
            raise ValueError("no")

        assert [] == list(tmp_path.iterdir())

    def test_a_task_whose_job_is_over_stages_nothing(self, tmp_path: Path):
        with (
            pytest.raises(StorageError, match="cannot stage documents"),
            PartWriter(tmp_path / "gone") as writer,
        ):
            writer.add([b"1"], [b"one"])

        assert [] == list(tmp_path.iterdir())

    @pytest.mark.parametrize("damage", ["cut", "flip", "more", "gone", "a page"])
    def test_a_part_that_is_not_what_was_written_is_refused(self, tmp_path: Path, damage: str):
        with PartWriter(tmp_path) as writer:
            writer.add([b"1"], [b"one"])
            first = Path(writer._path).stat().st_size
            writer.add([b"2"], [b"two"])
            part = writer.part()
        file = Path(part.path)
        data = bytearray(file.read_bytes())
        if damage == "cut":
            file.write_bytes(data[:-1])
        elif damage == "flip":
            data[-1] ^= 1
            file.write_bytes(data)
        elif damage == "more":
            file.write_bytes(data + b"\0")
        elif damage == "gone":
            file.unlink()
        else:
            file.write_bytes(data[:first])

        with pytest.raises(StorageError, match="staged documents"):
            list(pages(part))

    def test_a_damaged_part_gives_no_page_at_all(self, tmp_path: Path):
        with PartWriter(tmp_path) as writer:
            writer.add([b"1"], [b"one"])
            writer.add([b"2"], [b"two"])
            part = writer.part()
        Path(part.path).write_bytes(Path(part.path).read_bytes()[:-1] + b"!")

        with pytest.raises(StorageError):
            next(pages(part))

    def test_jobs_that_begin_and_end_at_once_do_not_take_each_others_folder(self, tmp_path: Path):
        failed: list[BaseException] = []

        def work() -> None:
            try:
                for _ in range(200):
                    staging.remove_folder(staging.make_folder(str(tmp_path / "a.db")))
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert [] == failed
        assert [] == list(tmp_path.iterdir())

    def test_what_a_killed_driver_left_is_removed_after_a_week(self, tmp_path: Path):
        old, theirs, ours = (staging.make_folder(str(tmp_path / name)) for name in ("a.db", "b.db", "a.db"))
        for folder in (old, theirs):
            os.utime(folder, (0, 0))
        running = staging.make_folder(str(tmp_path / "a.db"))

        staging.remove_folder(ours)

        # Nothing of another database is touched, nor of a job that runs.
        assert {theirs, running} == set(tmp_path.iterdir())

    def test_an_address_of_another_storage_is_refused(self):
        assert "/a b/c.db" == parse_write({"path": "file:/a%20b/c.db", "table": "t"}).path
        with pytest.raises(InvalidOption, match="no path of the local file system"):
            parse_write({"path": "s3://bucket/c.db", "table": "t"})

    def test_a_write_to_a_glob_makes_no_file_with_that_name(self):
        with pytest.raises(InvalidOption, match=r"option path is one path for a write, not the glob \*\.db"):
            parse_write({"path": "*.db", "table": "t"})

    def test_an_option_of_a_read_is_refused_as_that(self):
        with pytest.raises(
            InvalidOption, match="option asOf is for a read: leave it out of a write to reactdb"
        ):
            parse_write({"path": "a.db", "table": "t", "asof": "3"})


# ---------------------------------------------------------------------------------------------------------------

GAMES = t.StructType(
    [
        t.StructField("id", t.LongType()),
        t.StructField("player", t.StringType()),
        t.StructField("gone", t.BooleanType()),
    ]
)
ARROW = pa.schema([("id", pa.int64()), ("player", pa.string()), ("gone", pa.bool_())])

Row = tuple[Any, ...]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "arena.db"


def batch_of(rows: list[Row]) -> Any:
    return pa.RecordBatch.from_pylist([dict(zip(ARROW.names, row, strict=False)) for row in rows], ARROW)


def writer(path: Path, *, overwrite: bool = False, stream: bool = False, **options: Any) -> BatchWriter:
    given = {"path": str(path), "table": "games"} | {name: str(value) for name, value in options.items()}
    return (StreamWriter if stream else BatchWriter)(given, GAMES, overwrite)


def write(
    path: Path, *tasks: list[Row], batch: int | None = None, overwrite: bool = False, **options: Any
) -> None:
    """One write of so many tasks, each with its rows."""
    job = writer(path, overwrite=overwrite, stream=batch is not None, **options)
    messages = [job.write(iter([batch_of(rows)])) for rows in tasks]
    if batch is not None:
        # As in a task that Spark runs.
        messages = [replace(cast(Part, message), query="query") for message in messages]
    try:
        if batch is None:
            job.commit(messages)
        else:
            # Spark makes another one for the commit.
            writer(path, overwrite=overwrite, stream=True, **options).commit(messages, batch)
    except BaseException:
        job.abort(messages)
        raise


def staged(path: Path) -> list[Path]:
    return [file for file in path.parent.rglob("*") if not file.name.startswith(path.name)]


class TestWriting:
    def test_rows_become_documents_of_a_table_that_is_made(self, path: Path):
        write(path, [(1, "Ann"), (2, None)], [(3, "Bob")])

        assert [{"id": 1, "player": "Ann"}, {"id": 2}, {"id": 3, "player": "Bob"}] == games(path)
        assert [] == staged(path)

    def test_all_tasks_are_one_commit(self, path: Path):
        write(path, [(1, "Ann")], [(2, "Bob")])

        with reactdb.connect(path) as db:
            assert [1, 1, 1] == [change.commit for change in db.log()]

    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"conflict": "replace"},
            {"conflict": "update"},
            {"conflict": "update", "deleteField": "gone"},
        ],
    )
    def test_a_write_hook_is_asked_for_every_row(self, path: Path, options: dict[str, Any]):
        with reactdb.connect(path) as db:
            db.table_create("games")
            session_of(db).set_hook("games", REVISIONS)
        write(path, [(1, "Ann", False), (2, "Bob", False)], [(3, None, False)])
        if options:
            write(path, [(1, "Ann!", False), (4, "Eve", False), (3, "", True)], **options)
        write(path, [(2, "Bob!", False), (5, "Zoe", False)], overwrite=True)

        newest: dict[Any, bytes | None] = {}
        with reactdb.connect(path) as db:
            for change in db.log(table="games"):
                assert change.meta == revision(newest.get(change.key), change.new_bytes)
                newest[change.key] = change.meta
            assert {1, 2, 3, 5} <= newest.keys()

    def test_the_module_of_a_write_hook_is_imported_where_it_is_named(self, path: Path, monkeypatch: Any):
        """In the driver, which commits, and in each task, to which the writer comes pickled."""
        home = path.parent / "home"
        home.mkdir()
        (home / "spark_hooks.py").write_text(
            "from reactdb.store.hooks import Derived, register_hook\n"
            "def noted(draft):\n"
            "    return Derived(b'noted')\n"
            "register_hook('spark.noted', noted)\n"
        )
        monkeypatch.syspath_prepend(home)
        with reactdb.connect(path) as db:
            db.table_create("games")
            session_of(db).transact(
                lambda transaction: transaction.set_hook(transaction.catalogue.live["games"], "spark.noted")
            )
        with pytest.raises(HookNotFound):
            write(path, [(1, "Ann")])

        write(path, [(1, "Ann"), (2, "Bob")], imports="spark_hooks")

        with reactdb.connect(path) as db:
            assert [b"noted", b"noted"] == [change.meta for change in db.log() if change.catalogue is None]
        assert "True\n" == run_python(
            "import pickle, sys; sys.path.append(sys.argv[2]); pickle.loads(bytes.fromhex(sys.argv[1]));"
            "print('spark_hooks' in sys.modules)",
            pickle.dumps(writer(path, imports="spark_hooks").options).hex(),
            home,
        )
        with pytest.raises(InvalidOption, match="option imports: No module named 'no_such_module'"):
            writer(path, imports="no_such_module")

    def test_a_key_that_is_taken_fails_the_whole_write(self, path: Path):
        write(path, [(2, "Ann")])
        with pytest.raises(DuplicateKey):
            write(path, [(1, "Bob")], [(2, "Bob")])

        assert [{"id": 2, "player": "Ann"}] == games(path)
        assert [] == staged(path)

    def test_replace_and_update_are_upserts(self, path: Path):
        write(path, [(1, "Ann", True), (2, "Bob", True)])
        write(path, [(1, "Eve"), (3, "Joe")], conflict="replace")
        write(path, [(2, None, False)], conflict="update")

        assert [
            {"id": 1, "player": "Eve"},
            {"id": 2, "player": "Bob", "gone": False},
            {"id": 3, "player": "Joe"},
        ] == games(path)

    def test_what_stays_as_it_was_is_not_logged(self, path: Path):
        write(path, [(1, "Ann")])
        write(path, [(1, "Ann")], conflict="replace")

        with reactdb.connect(path) as db:
            assert 2 == db.seq

    def test_a_row_can_delete(self, path: Path):
        write(path, [(1, "Ann", False), (2, "Bob", False)], conflict="replace", deleteField="gone")
        for conflict in ("replace", "update"):
            write(
                path,
                [(2, None, True), (3, "Joe", None), (9, None, True)],
                conflict=conflict,
                deleteField="gone",
            )

        assert [{"id": 1, "player": "Ann"}, {"id": 3, "player": "Joe"}] == games(path)

    def test_overwrite_leaves_the_rows_and_logs_the_difference(self, path: Path):
        write(path, [(number, "Ann") for number in range(2_500)])
        write(
            path,
            [(0, "Ann"), (1, "Bob")],
            [(-1, "Eve")],
            overwrite=True,
        )

        assert [-1, 0, 1] == [game["id"] for game in games(path)]
        with reactdb.connect(path) as db:
            assert 1 + 2_500 + 2 + 2_498 == db.seq

    def test_overwrite_refuses_a_key_that_comes_twice(self, path: Path):
        write(path, [(1, "Ann")])
        with pytest.raises(DuplicateKey):
            write(path, [(2, "Ann")], [(2, "Bob")], overwrite=True)
        write(path, [(2, "Ann")], [(2, "Bob")], overwrite=True, conflict="replace")

        assert [{"id": 2, "player": "Bob"}] == games(path)

    def test_a_missing_key_is_told(self, path: Path):
        with pytest.raises(InvalidKey, match="a row has null in 'id', the primary key of table 'games'"):
            write(path, [(1, "Ann"), (None, "Bob")])
        with pytest.raises(InvalidOption, match="no column 'name', the primary key of table 'games'"):
            writer(path, primaryKey="name")

        assert not path.exists()

    def test_the_primary_key_is_that_of_the_table(self, path: Path):
        with reactdb.connect(path) as db:
            db.table_create("games", primary_key="player")
        write(path, [(1, "Ann")])

        with reactdb.connect(path) as db:
            assert {"id": 1, "player": "Ann"} == db.table("games").get("Ann").run()
        with pytest.raises(InvalidOption, match="has the primary key 'player', but primaryKey is 'id'"):
            writer(path, primaryKey="id")

    def test_a_folder_that_is_not_there_is_told_and_not_made(self, path: Path):
        with pytest.raises(CannotOpen):
            writer(path.parent / "missing" / "arena.db")

        assert [] == list(path.parent.iterdir())

    def test_a_file_that_another_one_has_begun_to_make_is_made(self, path: Path):
        path.touch()
        write(path, [(1, "Ann")])

        assert [{"id": 1, "player": "Ann"}] == games(path)

    def test_a_table_that_was_made_again_with_another_key_is_told(self, path: Path):
        with reactdb.connect(path) as db:
            db.table_create("games")
        job = writer(path)
        message = job.write(iter([batch_of([(1, "Ann")])]))
        with reactdb.connect(path) as db:
            db.table_drop("games")
            db.table_create("games", primary_key="player")

        with pytest.raises(UsageError, match="was made again with the primary key 'player'"):
            job.commit([message])

    def test_a_task_without_a_message_fails_the_write(self, path: Path):
        job = writer(path)
        message = job.write(iter([batch_of([(1, "Ann")])]))
        with pytest.raises(UsageError, match="nothing was written"):
            job.commit([message, None])

    def test_another_writer_is_waited_for_and_then_told(self, path: Path):
        write(path, [(1, "Ann")])
        failed: list[BaseException] = []

        def elsewhere() -> None:
            try:
                write(path, [(3, "Bob")], busyTimeout=0.05)
            except BaseException as error:
                failed.append(error)

        with reactdb.connect(path) as db, db.transaction():
            db.table("games").insert({"id": 2})
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()

        assert [DatabaseBusy] == [type(error) for error in failed]
        assert [1, 2] == [game["id"] for game in games(path)]
        assert [] == staged(path)

    def test_the_origin_is_kept_with_each_change(self, path: Path):
        write(path, [(1, "Ann")], origin="spark")

        with reactdb.connect(path) as db:
            assert ["spark", "spark"] == [change.origin for change in db.log()]


class TestAborting:
    def test_an_aborted_write_leaves_no_row_and_no_file(self, path: Path):
        job = writer(path)
        message = job.write(iter([batch_of([(1, "Ann")])]))
        assert [] != staged(path)
        job.abort([message, None])

        assert [] == staged(path)
        assert not path.exists()

    def test_a_task_that_goes_on_after_the_abort_leaves_nothing(self, path: Path):
        job = writer(path)
        job.abort([None, None])
        with pytest.raises(StorageError, match="cannot stage"):
            job.write(iter([batch_of([(1, "Ann")])]))

        assert [] == staged(path)

    def test_a_batch_of_a_stream_is_cleaned_up_without_any_message(self, path: Path):
        options = {"checkpointLocation": "/some/where"}
        job = writer(path, stream=True, **options)
        job.write(iter([batch_of([(1, "Ann")])]))
        writer(path, stream=True, **options).abort([None], 0)

        assert [] == staged(path)

    def test_a_configured_folder_is_left_as_it_was(self, path: Path, tmp_path: Path):
        shared = tmp_path / "shared"
        shared.mkdir()
        (shared / "foreign").mkdir()
        os.utime(shared / "foreign", (0, 0))
        write(path, [(1, "Ann")], stagingPath=shared)

        assert [shared / "foreign"] == list(shared.iterdir())

    def test_a_folder_that_cannot_be_made_is_told(self, path: Path, tmp_path: Path):
        (tmp_path / "file").touch()
        with pytest.raises(StorageError, match="option stagingPath names another place"):
            writer(path, stagingPath=tmp_path / "file")


class TestReplays:
    def test_a_batch_that_comes_again_is_left_alone(self, path: Path):
        for _ in range(2):
            write(path, [(1, "Ann")], batch=0)
        write(path, [(2, "Bob")], batch=1)
        write(path, [(1, "Ann")], batch=0)

        assert [1, 2] == [game["id"] for game in games(path)]

    def test_a_replay_does_not_undo_what_others_have_written_since(self, path: Path):
        write(path, [(1, "Ann")], txnAppId="a", txnVersion=5, conflict="replace")
        write(path, [(1, "Eve")], conflict="replace")
        write(path, [(1, "Ann")], txnAppId="a", txnVersion=5, conflict="replace")

        assert [{"id": 1, "player": "Eve"}] == games(path)

    def test_an_empty_batch_is_remembered_too(self, path: Path):
        write(path, [], txnAppId="a", txnVersion=5)
        write(path, [(1, "Ann")], txnAppId="a", txnVersion=5)

        assert [] == games(path)

    def test_a_batch_that_failed_has_no_receipt(self, path: Path):
        write(path, [(1, "Ann")])
        with pytest.raises(DuplicateKey):
            write(path, [(1, "Bob")], txnAppId="a", txnVersion=5)
        with reactdb.connect(path) as db:
            db.table("games").get(1).delete()
        write(path, [(1, "Bob")], txnAppId="a", txnVersion=5)

        assert [{"id": 1, "player": "Bob"}] == games(path)

    def test_one_delivery_may_write_several_tables(self, path: Path):
        for table in ("games", "others"):
            write(path, [(1, "Ann")], table=table, txnAppId="a", txnVersion=5)

        with reactdb.connect(path) as db:
            assert [1, 1] == [db.table(table).count().run() for table in ("games", "others")]

    def test_receipts_show_nowhere(self, path: Path):
        write(path, [(1, "Ann")], txnAppId="a", txnVersion=5)

        with reactdb.connect(path) as db:
            assert (["games"], 2) == (db.table_list(), db.seq)
            assert {"games": 1} == db.stats()["tables"]

    def test_a_batch_of_nobody_knows_whose_query_is_refused(self, path: Path):
        job = writer(path, stream=True)
        message = job.write(iter([batch_of([(1, "Ann")])]))
        with pytest.raises(UsageError, match="has not told the tasks which query they belong to"):
            job.commit([message], 0)

    def test_a_stream_is_not_given_numbers_of_its_own(self, path: Path):
        """They would be those of every batch, and all but the first be taken for replays."""
        with pytest.raises(InvalidOption, match="txnAppId and txnVersion are for batches"):
            writer(path, stream=True, txnAppId="a", txnVersion=1)


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "sentence"),
        [
            ({"conflikt": "replace"}, "unknown option conflikt"),
            ({"conflict": "merge"}, "conflict is one of error, replace, update, not merge"),
            ({"busyTimeout": "soon"}, "busyTimeout is a number of seconds from 0 to 86400, not soon"),
            ({"txnAppId": "a"}, "txnAppId and txnVersion belong together"),
            ({"txnAppId": "a", "txnVersion": "-1"}, "txnVersion is a whole number of at least 0"),
            ({"uuidFields": "id"}, "option uuidFields was removed: a UUID is kept by document=binary"),
            ({"nulls": "keep"}, "option nulls was removed: .* write whole documents"),
            ({"inlineBytes": "0"}, "option inlineBytes was removed: all documents are staged in files"),
            ({"durability": "soft"}, "option durability was removed: a write is one transaction"),
            ({"mode": "upsert"}, "option mode is for a read: leave it out of a write"),
            ({"deleteField": "player"}, "deleteField names 'player', which is not a boolean column"),
            ({"deleteField": "gone"}, "deleteField goes with conflict=replace or conflict=update"),
            ({"table": ""}, "needs the name of a table"),
            ({"table": "a b"}, "Table name 'a b' is invalid"),
        ],
    )
    def test_a_wrong_option_is_told_before_anything_runs(
        self, path: Path, options: dict[str, str], sentence: str
    ):
        with pytest.raises(reactdb.UsageError, match=sentence):
            writer(path, **options)

        assert [] == staged(path)

    def test_a_write_needs_a_path(self):
        with pytest.raises(InvalidOption, match="needs the path of one database file"):
            BatchWriter({"table": "games"}, GAMES, False)

    def test_names_of_options_have_no_case(self, path: Path):
        assert "replace" == writer(path, CONFLICT="Replace").options.conflict
