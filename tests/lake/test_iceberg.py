"""Tables of Iceberg, written by reactdb and read by pyiceberg and Arrow."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reactdb.errors import DatabaseBusy, DiskFull, SchemaMismatch, StorageError, UsageError
from reactdb.lake.iceberg import IcebergTarget
from tests.lake.answers import read_iceberg
from tests.lake.target_suite import EVERYTHING, TargetSuite, batches_of, exact, keys_of, note, table_of
from tests.lake.test_delta import SMALL, files_of_at_most

pytest.importorskip("pyiceberg")

from pyiceberg.catalog.sql import SqlCatalog


@contextmanager
def opened(folder: Path, name: str = "t", catalogue: str = "reactdb") -> Iterator[Any]:
    with closing(SqlCatalog(catalogue, uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))) as found:
        yield found.load_table(("reactdb", name))


class TestIceberg(TargetSuite):
    format = "iceberg"

    def make(self, folder: Path, table: str = "t") -> IcebergTarget:
        return IcebergTarget(str(folder), table)

    def read(self, folder: Path) -> pa.Table:
        return read_iceberg(str(folder), "t")

    @pytest.mark.slow
    @pytest.mark.timeout(1_200)
    def test_killed_runs_leave_whole_commits(
        self, killed_runs: Callable[[int], tuple[str, int, str]]
    ) -> None:
        self.check_kills(killed_runs)

    @pytest.mark.slow
    def test_a_table_follows_its_model_through_random_commits(self, tmp_path: Path) -> None:
        super().test_a_table_follows_its_model_through_random_commits(tmp_path)

    @pytest.mark.slow
    def test_memory_is_bounded(self, tmp_path: Path) -> None:
        self.check_memory(tmp_path / "t")

    def test_pyiceberg_reads_what_was_written(self, tmp_path: Path) -> None:
        """With its own reader, which finds columns by their ids, and with predicates."""
        folder = tmp_path / "t"
        rows = [
            {"id": id_, "text": f"{id_:04}" * 9, "place": {"zip": id_, "lines": []}, "map": []}
            for id_ in range(50)
        ]
        target = self.filled(folder, rows)
        with target.lock():
            target.widen(EVERYTHING.append(pa.field("later", pa.string())))
            changed = {**rows[7], "whole": 2**63 - 1, "later": "x"}
            schema = EVERYTHING.append(pa.field("later", pa.string()))
            target.merge(table_of([changed], schema), keys_of([8]), ["id"], note(2))

        with opened(folder) as table:
            assert 49 == table.scan().to_arrow().num_rows
            assert [(7, "x")] == [
                (row["id"], row["later"]) for row in table.scan(row_filter="whole > 5").to_arrow().to_pylist()
            ]
            assert [9] == table.scan(row_filter=f"text = '{'0009' * 9}'").to_arrow().column("id").to_pylist()
            assert [(9, 9)] == [
                (row["id"], row["place"]["zip"])
                for row in table.scan(row_filter="place.zip = 9").to_arrow().to_pylist()
            ]
            first = table.metadata.snapshots[0]
            assert 50 == table.scan(snapshot_id=first.snapshot_id).to_arrow().num_rows

    def test_files_have_the_ids_of_nested_fields(self, tmp_path: Path) -> None:
        self.filled(tmp_path / "t", [{"id": 1}])

        (path,) = (tmp_path / "t").rglob("*.parquet")
        schema = pq.read_schema(path)
        with opened(tmp_path / "t") as table:
            wanted = {
                name: table.schema().find_field(name).field_id for name in ("id", "place.zip", "list.element")
            }
        found = [
            schema.field("id"),
            schema.field("place").type.field("zip"),
            schema.field("list").type.value_field,
        ]
        assert list(wanted.values()) == [int(field.metadata[b"PARQUET:field_id"]) for field in found]

    @pytest.mark.parametrize("name", ["..", "a/b", "a.b", "é '", "x" * 300, "%2F"])
    def test_a_table_may_have_any_name(self, tmp_path: Path, name: str) -> None:
        target = self.make(tmp_path / "t", name)
        with target.lock():
            target.create(SMALL, batches_of([{"id": 1, "v": name}], SMALL), note(1))

        assert [{"id": 1, "v": name}] == read_iceberg(str(tmp_path / "t"), name).to_pylist()
        assert {"t"} == {path.name for path in tmp_path.iterdir()}
        assert {"_lock", "catalog.db", "reactdb"} == {path.name for path in (tmp_path / "t").iterdir()}

    def test_a_folder_may_have_several_tables(self, tmp_path: Path) -> None:
        for number, name in enumerate(("a", "A", "a.", "a/")):
            target = self.make(tmp_path / "t", name)
            with target.lock():
                assert target.state({}) is None
                target.create(SMALL, batches_of([{"id": number, "v": name}], SMALL), note(1))

        for number, name in enumerate(("a", "A", "a.", "a/")):
            assert [{"id": number, "v": name}] == read_iceberg(str(tmp_path / "t"), name).to_pylist()

    def test_a_kill_in_one_table_is_cleaned_up_by_a_run_on_another(self, tmp_path: Path) -> None:
        folder = tmp_path / "t"
        first = self.filled(folder, [{"id": 1, "v": "a"}], SMALL)
        before = self.files(folder)
        with pytest.MonkeyPatch.context() as patch, first.lock():
            patch.setattr(first, "_remove_remains", lambda: None)
            patch.setattr(first, "_finish", broken)
            with pytest.raises(RuntimeError, match="broken"):
                first.append(SMALL, batches_of([{"id": 2, "v": "b"}], SMALL), note(2))
        (folder / "reactdb" / "t" / "data" / before[0].rsplit("/")[-1].replace("00001", "00002")).write_text(
            "half"
        )
        marked = (folder / "_writing").read_text()

        with self.make(folder, "other").lock():
            pass

        assert not (folder / "_writing").exists()
        assert "commit" in marked
        assert exact([{"id": 1, "v": "a"}]) == self.rows(folder)

    def test_a_moved_table_is_refused_with_the_reason(self, tmp_path: Path) -> None:
        self.filled(tmp_path / "t", [{"id": 1}])
        (tmp_path / "t").rename(tmp_path / "moved")

        with pytest.raises(StorageError, match="cannot be moved"):
            self.make(tmp_path / "moved").state({})

    def test_other_catalogues_are_left_alone(self, tmp_path: Path) -> None:
        for name, statement in (("plain", "CREATE TABLE t (a)"), ("junk", None)):
            (tmp_path / name).mkdir()
            file = tmp_path / name / "catalog.db"
            if statement is None:
                file.write_bytes(b"no database" * 100)
            else:
                with closing(sqlite3.connect(file)) as connection:
                    connection.execute(statement)
            before = file.read_bytes()

            with pytest.raises(UsageError, match="no catalogue of reactdb"):
                self.make(tmp_path / name).state({})
            assert before == file.read_bytes()
        folder = tmp_path / "theirs"
        folder.mkdir()
        with closing(
            SqlCatalog("reactdb", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
        ) as catalogue:
            catalogue.create_namespace("sales")

        with pytest.raises(UsageError, match="no catalogue of reactdb"):
            self.make(folder).state({})

    def test_a_table_of_another_program_is_left_alone(self, tmp_path: Path) -> None:
        self.filled(tmp_path / "t", [{"id": 1}])
        with closing(
            SqlCatalog("reactdb", uri=f"sqlite:///{tmp_path}/t/catalog.db", warehouse=str(tmp_path))
        ) as found:
            found.create_table(("reactdb", "theirs"), schema=SMALL)

        with pytest.raises(UsageError, match="not written by reactdb"):
            self.make(tmp_path / "t", "theirs").state({})

    def test_columns_that_another_program_changed_are_refused(self, tmp_path: Path) -> None:
        """A renamed column has its old name in the files, by which reactdb reads them."""
        target = self.filled(tmp_path / "t", [{"id": 1, "v": "a"}], SMALL)
        with opened(tmp_path / "t") as table, table.update_schema() as update:
            update.rename_column("v", "w")

        with pytest.raises(UsageError, match="changed by another program"):
            target.state({})

    def test_rows_that_another_program_adds_stay(self, tmp_path: Path) -> None:
        folder = tmp_path / "t"
        target = self.filled(folder, [{"id": 1, "v": "a"}], SMALL)
        with opened(folder) as table:
            table.append(table_of([{"id": 2, "v": "theirs"}], SMALL))

        with target.lock():
            target.merge(table_of([{"id": 1, "v": "b"}], SMALL), keys_of([]), ["id"], note(2))

        assert exact([{"id": 1, "v": "b"}, {"id": 2, "v": "theirs"}]) == self.rows(folder)

    def test_a_merge_that_replaces_no_row_adds_files_only(self, tmp_path: Path) -> None:
        """Readers that follow the table take such a version for new rows, and read it without the rest."""
        target = self.filled(tmp_path / "t", [{"id": 1, "v": "a"}], SMALL)
        for seq, id_ in ((2, 2), (3, 1)):
            with target.lock():
                target.merge(table_of([{"id": id_, "v": "b"}], SMALL), keys_of([]), ["id"], note(seq))

        with opened(tmp_path / "t") as table:
            operations = [snapshot.summary.operation.value for snapshot in table.snapshots()]
        assert ["append", "append"] == operations[:2]
        assert "overwrite" in operations[2:]

    def test_a_commit_of_another_program_in_between_is_no_loss(self, tmp_path: Path) -> None:
        folder = tmp_path / "t"
        target = self.filled(folder, [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}], SMALL)
        real = target._finish

        def finish(*arguments: Any, **options: Any) -> None:
            with opened(folder) as table:
                table.delete("id = 2")
            real(*arguments, **options)

        with pytest.MonkeyPatch.context() as patch, target.lock():
            patch.setattr(target, "_finish", finish)
            with pytest.raises(DatabaseBusy, match="another program"):
                target.merge(table_of([{"id": 1, "v": "c"}], SMALL), keys_of([]), ["id"], note(2))
        assert 1 == self.seq(folder)
        assert exact([{"id": 1, "v": "a"}]) == self.rows(folder)

    @pytest.mark.parametrize(
        "schema",
        [
            pa.schema([("a.b", pa.int64()), ("a", pa.struct([("b", pa.int64())]))]),
            pa.schema([("l", pa.list_(pa.int64())), ("l.element", pa.int64())]),
        ],
    )
    def test_names_that_look_like_paths_are_refused(self, tmp_path: Path, schema: pa.Schema) -> None:
        with self.make(tmp_path / "t").lock(), pytest.raises(SchemaMismatch, match="dot in its name"):
            self.make(tmp_path / "t").create(schema, iter(()), note(1))

    def test_a_full_disk_leaves_the_table_as_it_was(self, tmp_path: Path) -> None:
        folder = tmp_path / "t"
        target = self.filled(folder, [{"id": 1, "v": "a"}], SMALL)
        files = self.files(folder)
        rows = [{"id": id_, "v": os.urandom(500).hex()} for id_ in range(1_000)]

        with target.lock(), files_of_at_most(50_000), pytest.raises(DiskFull):
            target.merge(table_of(rows, SMALL), keys_of([]), ["id"], note(2))

        assert files == self.files(folder)
        assert 1 == self.seq(folder)

    def test_every_file_is_on_the_disk_before_the_catalogue_names_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A power cut after the catalogue's commit would lose the table otherwise."""
        from sqlalchemy.orm import Session

        folder = tmp_path / "t"
        flushed: dict[tuple[int, int], int] = {}
        looks: list[int] = []
        real_fsync, real_commit = os.fsync, Session.commit

        def fsync(file: int) -> None:
            real_fsync(file)
            status = os.fstat(file)
            flushed[status.st_dev, status.st_ino] = status.st_size

        def commit(session: Session) -> None:
            names = list((folder / "reactdb").rglob("*"))
            looks.append(len(names))
            for path in [folder, folder / "reactdb", *names] if names else ():
                status = path.stat()
                size = flushed.get((status.st_dev, status.st_ino))
                assert size is not None, f"{path} was not flushed"
                assert path.is_dir() or status.st_size == size, f"{path} was written to afterwards"
            real_commit(session)

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(Session, "commit", commit)
        target = self.filled(folder, [{"id": 1, "v": "a"}], SMALL)
        with target.lock():
            target.merge(table_of([{"id": 1, "v": "b"}], SMALL), keys_of([]), ["id"], note(2))
            target.widen(SMALL.append(pa.field("w", pa.int64())))
            target.advance(note(3))

        # The first commits are those of the catalogue itself. A table has files of metadata, lists of files, and the rows.
        assert [True] * 4 == [count > 4 for count in looks if count]
        assert exact([{"id": 1, "v": "b"}]) == self.rows(folder)

    def test_a_path_with_a_mark_of_addresses_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="cannot have"):
            self.make(tmp_path / "a#b")

    def test_old_metadata_is_removed(self, tmp_path: Path) -> None:
        target = self.filled(tmp_path / "t", [{"id": 1}])
        for seq in range(2, 30):
            with target.lock():
                target.advance(note(seq))

        assert 22 >= len(list((tmp_path / "t").rglob("*.metadata.json")))
        assert 29 == self.seq(tmp_path / "t")


def broken(*arguments: Any, **options: Any) -> None:
    raise RuntimeError("broken")
