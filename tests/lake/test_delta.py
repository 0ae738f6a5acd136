"""Tables of Delta, written by reactdb and read by delta-rs, Arrow and polars."""

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from reactdb.errors import CannotOpen, DatabaseBusy, DiskFull, SchemaMismatch, StorageError, UsageError
from reactdb.lake import data_files
from reactdb.lake.delta import DeltaTarget
from tests.lake.target_suite import (
    EVERYTHING,
    TargetSuite,
    batches_of,
    exact,
    keys_of,
    names_that_differ_in_case,
    note,
    table_of,
)

deltalake = pytest.importorskip("deltalake")

SMALL = pa.schema([("id", pa.int64()), ("v", pa.string())])


class TestDelta(TargetSuite):
    format = "delta"

    def make(self, folder: Path) -> DeltaTarget:
        return DeltaTarget(str(folder))

    def read(self, folder: Path) -> pa.Table:
        return deltalake.DeltaTable(str(folder)).to_pyarrow_table()

    @pytest.mark.slow
    def test_killed_runs_leave_whole_commits(
        self, killed_runs: Callable[[int], tuple[str, int, str]]
    ) -> None:
        self.check_kills(killed_runs)

    @pytest.mark.slow
    def test_memory_is_bounded(self, tmp_path: Path) -> None:
        self.check_memory(tmp_path / "t")

    @pytest.mark.parametrize("schema", names_that_differ_in_case())
    def test_names_that_differ_in_case_only_are_refused(self, tmp_path: Path, schema: pa.Schema) -> None:
        """Before anything is written: delta-rs would fail in the middle."""
        with self.make(tmp_path / "t").lock(), pytest.raises(SchemaMismatch, match="ignores case"):
            self.make(tmp_path / "t").create(schema, iter(()), note(1))
        assert not (tmp_path / "t").exists()

        target = self.filled(tmp_path / "u", [{"id": 1}], pa.schema([("id", pa.int64())]))
        with target.lock(), pytest.raises(SchemaMismatch, match="ignores case"):
            target.widen(schema)
        assert 1 == self.seq(tmp_path / "u")

    @pytest.mark.parametrize(
        "type_",
        [
            pa.time64("us"),
            pa.duration("us"),
            pa.null(),
            pa.uint64(),
            pa.timestamp("ns", "UTC"),
            pa.struct([]),
        ],
        ids=str,
    )
    def test_types_that_delta_lacks_are_refused(self, tmp_path: Path, type_: pa.DataType) -> None:
        schema = pa.schema([("id", pa.int64()), ("x", pa.list_(type_))])

        with self.make(tmp_path / "t").lock(), pytest.raises(UsageError, match="column `x`"):
            self.make(tmp_path / "t").create(schema, iter(()), note(1))

    def test_a_table_of_another_program_is_left_alone(self, tmp_path: Path) -> None:
        deltalake.write_deltalake(tmp_path / "t", pa.table({"id": [1]}))

        with pytest.raises(UsageError, match="reactdb did not write"), self.make(tmp_path / "t").lock():
            pass
        with pytest.raises(UsageError, match="reactdb did not write"):
            self.make(tmp_path / "t").state({})
        assert not (tmp_path / "t" / "_lock").exists()

    def test_rows_that_another_program_adds_or_compacts_stay(self, tmp_path: Path) -> None:
        """Positions are kept through compaction, checkpoints, and the cleaning of the log and of old files."""
        folder = tmp_path / "t"
        target = self.filled(folder, [{"id": 1, "v": "a"}], SMALL)
        deltalake.write_deltalake(folder, table_of([{"id": 50, "v": "other"}], SMALL), mode="append")
        for seq in range(2, 8):
            with target.lock():
                target.append(SMALL, batches_of([{"id": seq, "v": "b"}], SMALL), note(seq))
        table = deltalake.DeltaTable(folder)
        table.optimize.compact()
        table.create_checkpoint()
        table.cleanup_metadata()
        table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

        assert 7 == self.seq(folder)
        with target.lock():
            target.merge(table_of([{"id": 3, "v": "c"}], SMALL), keys_of([4]), ["id"], note(8))
        values = {1: "a", 2: "b", 3: "c", 5: "b", 6: "b", 7: "b", 50: "other"}
        assert exact({"id": id_, "v": value} for id_, value in values.items()) == self.rows(folder)

    def test_a_commit_of_another_program_in_between_is_no_loss(self, tmp_path: Path) -> None:
        """Another program rewrites the file that a merge is about to replace: the merge is refused, and can be run again."""
        folder = tmp_path / "t"
        target = self.filled(folder, [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}], SMALL)
        with target._existing() as stale:
            pass
        deltalake.DeltaTable(folder).update({"v": "'theirs'"}, predicate="id = 2")

        with pytest.MonkeyPatch.context() as patch, target.lock():
            patch.setattr(target, "_existing", lambda: nullcontext(stale))
            with pytest.raises(DatabaseBusy, match="another program"):
                target.merge(table_of([{"id": 1, "v": "c"}], SMALL), keys_of([]), ["id"], note(2))
        assert 1 == self.seq(folder)

        with target.lock():
            target.merge(table_of([{"id": 1, "v": "c"}], SMALL), keys_of([]), ["id"], note(2))
        assert exact([{"id": 1, "v": "c"}, {"id": 2, "v": "theirs"}]) == self.rows(folder)

    def test_a_table_with_deletion_vectors_is_refused(self, tmp_path: Path) -> None:
        target = self.filled(tmp_path / "t", [{"id": 1, "v": "a"}], SMALL)
        log = tmp_path / "t" / "_delta_log" / f"{2:020}.json"
        features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
        log.write_text(
            json.dumps({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}) + "\n"
        )

        with pytest.raises(UsageError, match="deletionVectors"):
            target.state({})

    def test_remains_of_a_commit_do_not_disturb(self, tmp_path: Path) -> None:
        """delta-rs writes a commit under another name first."""
        folder = tmp_path / "t"
        (folder / "_delta_log").mkdir(parents=True)
        (folder / "_delta_log" / "_commit_1.json.tmp").write_text("{")
        (folder / f"reactdb-{1:020}-{'0' * 32}.parquet").write_text("half")
        target = self.filled(folder, [{"id": 1, "v": "a"}], SMALL)
        (folder / f"reactdb-{9:020}-{'0' * 32}.parquet").write_text("half")

        with target.lock():
            assert 1 == self.seq(folder)
        assert 1 == len(list(folder.glob("*.parquet")))

    def test_readers_find_the_same_rows_with_a_filter(self, tmp_path: Path) -> None:
        """Each predicate finds what the rows themselves answer, whatever statistics the log has."""
        pl = pytest.importorskip("polars")
        schema = pa.schema(
            [
                ("id", pa.int64()),
                ("real", pa.float64()),
                ("text", pa.string()),
                ("day", pa.date32()),
                ("moment", pa.timestamp("us", "UTC")),
                ("none", pa.int64()),
            ]
        )
        folder = tmp_path / "t"
        rows: list[dict[str, Any]] = [
            {
                "id": id_,
                "real": float("nan") if id_ % 5 == 0 else id_ / 2,
                "text": f"{id_:04}" * (20 if id_ % 3 == 0 else 1),
                "day": date(2000, 1, 1 + id_ % 28),
                "moment": datetime(1 + id_ * 90, 1, 1, 0, 0, 0, 999_999 - id_, UTC),
                "none": None,
            }
            for id_ in range(100)
        ]
        target = self.filled(folder, rows[:10], schema)
        for at in range(10, 100, 10):
            with target.lock():
                target.append(schema, batches_of(rows[at : at + 10], schema), note(at))
        frame = pl.scan_delta(str(folder))
        wanted = [
            (pl.col("id") > 55, lambda row: row["id"] > 55),
            (pl.col("text") >= "0093", lambda row: row["text"] >= "0093"),
            (pl.col("day") == date(2000, 1, 28), lambda row: row["day"] == date(2000, 1, 28)),
            (pl.col("moment") > rows[71]["moment"], lambda row: row["moment"] > rows[71]["moment"]),
            (pl.col("moment") == rows[72]["moment"], lambda row: row["moment"] == rows[72]["moment"]),
            (pl.col("none").is_null(), lambda row: True),
            (pl.col("real").is_nan(), lambda row: row["real"] != row["real"]),
        ]
        for predicate, test in wanted:
            expected = sorted(row["id"] for row in rows if test(row))
            assert expected == sorted(frame.filter(predicate).collect()["id"].to_list())
        actions = pa.table(deltalake.DeltaTable(folder).get_add_actions(flatten=True))
        assert [10] * 10 == actions.column("num_records").to_pylist()
        dataset = deltalake.DeltaTable(folder).to_pyarrow_dataset()
        for field, value in (("real", 20.0), ("text", "0050"), ("moment", rows[71]["moment"]), ("id", 55)):
            found = dataset.to_table(filter=pc.field(field) > value).column("id").to_pylist()
            assert [row["id"] for row in rows if row[field] > value] == sorted(found)

    def test_small_files_become_one(self, tmp_path: Path) -> None:
        """Merges that only add rows would otherwise leave a file each."""
        folder = tmp_path / "t"
        target = self.filled(folder, [], SMALL)
        for seq in range(2, 40):
            with target.lock():
                target.merge(table_of([{"id": seq, "v": "x"}], SMALL), keys_of([]), ["id"], note(seq))
            assert data_files.SMALL_FILES + 1 >= len(deltalake.DeltaTable(folder).file_uris())
        assert list(range(2, 40)) == sorted(self.read(folder).column("id").to_pylist())

    def test_large_tables_have_several_files_and_groups(self, tmp_path: Path) -> None:
        """Only the files with changed keys are written again."""
        folder = tmp_path / "t"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(data_files, "ROW_GROUP_BYTES", 2_000)
            patch.setattr(data_files, "FILE_BYTES", 3_000)
            patch.setattr(data_files, "SMALL_FILE_BYTES", 0)
            rows = [{"id": id_, "v": os.urandom(20).hex()} for id_ in range(1_000)]
            target = self.filled(folder, rows, SMALL)
            before = set(deltalake.DeltaTable(folder).file_uris())
            with target.lock():
                target.merge(table_of([{"id": 500, "v": "new"}], SMALL), keys_of([501]), ["id"], note(2))
            after = set(deltalake.DeltaTable(folder).file_uris())
        assert len(before) > 5
        assert len(before - after) <= 2
        rows[500]["v"] = "new"
        assert exact(row for row in rows if row["id"] != 501) == self.rows(folder)

    def test_a_full_disk_leaves_the_table_as_it_was(self, tmp_path: Path) -> None:
        folder = tmp_path / "t"
        target = self.filled(folder, [{"id": 1, "v": "a"}], SMALL)
        files = self.files(folder)
        rows = [{"id": id_, "v": os.urandom(500).hex()} for id_ in range(1_000)]

        with target.lock(), files_of_at_most(50_000), pytest.raises(DiskFull):
            target.merge(table_of(rows, SMALL), keys_of([]), ["id"], note(2))

        assert files == self.files(folder)
        assert 1 == self.seq(folder)
        with target.lock():
            target.merge(table_of(rows, SMALL), keys_of([]), ["id"], note(2))
        assert 1_000 == len(self.rows(folder))

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_folder_without_permission_is_an_error_of_one_sentence(self, tmp_path: Path) -> None:
        (tmp_path / "closed").mkdir(mode=0o500)

        with pytest.raises(CannotOpen), self.make(tmp_path / "closed" / "t").lock():
            pass

    def test_a_damaged_file_is_an_error_with_its_name(self, tmp_path: Path) -> None:
        folder = tmp_path / "t"
        target = self.filled(folder, [{"id": 1, "v": "a"}], SMALL)
        (path,) = folder.glob("*.parquet")
        path.write_bytes(b"PAR1 nothing")

        with target.lock(), pytest.raises(StorageError, match=path.name):
            target.merge(table_of([{"id": 1, "v": "b"}], SMALL), keys_of([]), ["id"], note(2))

    def test_a_column_of_another_program_is_kept(self, tmp_path: Path) -> None:
        folder = tmp_path / "t"
        target = self.filled(folder, [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}], SMALL)
        deltalake.DeltaTable(folder).alter.add_columns(
            [deltalake.Field("note", deltalake.schema.PrimitiveType("string"))]
        )
        deltalake.DeltaTable(folder).update({"note": "'mine'"})

        with target.lock():
            target.merge(table_of([{"id": 1, "v": "c"}], SMALL), keys_of([]), ["id"], note(2))

        assert exact([{"id": 1, "v": "c", "note": None}, {"id": 2, "v": "b", "note": "mine"}]) == self.rows(
            folder
        )

    def test_everything_is_read_by_polars_too(self, tmp_path: Path) -> None:
        pl = pytest.importorskip("polars")
        rows = [{"id": 1, "whole": 2**63 - 1, "text": "", "place": {"zip": 1, "lines": []}}, {"id": 2}]
        self.filled(tmp_path / "t", rows)

        frame = pl.read_delta(str(tmp_path / "t")).sort("id")

        assert [2**63 - 1, None] == frame["whole"].to_list()
        assert ["", None] == frame["text"].to_list()
        assert EVERYTHING.names == frame.columns


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """A disk on which files cannot grow beyond a size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
