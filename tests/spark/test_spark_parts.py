"""Parts of Parquet: each is there once or not at all, whenever a run is killed, and never mixed with others. Without Spark."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reactdb import DatabaseBusy, UsageError
from reactdb.errors import StorageError
from reactdb.lake.parts import (
    GENERATION,
    LATEST,
    MANIFEST,
    DatabasePosition,
    Manifest,
    PartFolder,
    parquet_rows,
    whole_folder,
)

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from tests.spark import killed_parts  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
FINISHED, KILLED = "0", "-9"


def manifest(kind: str = "changes", number: int = 1, rows: int = 1) -> Manifest:
    return Manifest(
        kind, number, rows, {"table": None}, {}, [], {"d": DatabasePosition("/a.db", "e", rows, {"t": 0})}
    )


def put(folder: PartFolder, number: int, values: list[int]) -> None:
    with folder.stage() as staged:
        os.mkdir(staged)
        pq.write_table(pa.table({"seq": values}), f"{staged}/part-0.parquet")
        folder.commit(staged, manifest(folder.kind, number, len(values)))


def runs_killed_at_each_step(mode: str, folder: Path) -> Iterator[int]:
    """Run after run, killed before the first step, the second, and so on, until one gets to its end."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.spark.killed_parts", mode, str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as runs:
        assert runs.stdin is not None
        assert runs.stdout is not None
        for number in range(1, 100):
            runs.stdin.write(f"{number}\n")
            runs.stdin.flush()
            outcome = runs.stdout.readline().strip()
            assert outcome in (FINISHED, KILLED)
            yield number
            if outcome == FINISHED:
                return
    raise AssertionError("it never got to its end")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a kill that cannot be caught")
class TestKills:
    def test_each_change_is_there_once_whatever_step_a_run_is_killed_before(self, tmp_path):
        folder = tmp_path / "numbers"
        kills = 0
        for kills in runs_killed_at_each_step("append", folder):  # noqa: B007
            if folder.exists() and PartFolder(str(folder), "numbers").numbers():
                values = sorted(pq.read_table(folder)["seq"].to_pylist())
                assert list(range(1, len(values) + 1)) == values
                assert len(values) == PartFolder(str(folder), "numbers").newest().positions["d0"].seq

        assert kills > 8
        # What the killed ones left was cleared away by the last.
        assert [] == [name for name in os.listdir(folder) if name.startswith("_staging")]

    def test_a_reader_of_the_newest_state_sees_one_state_whatever_step_a_run_is_killed_before(self, tmp_path):
        folder = tmp_path / "state"
        killed_parts.replace(str(folder))
        kills = 0
        for kills in runs_killed_at_each_step("replace", folder):  # noqa: B007
            values = sorted(pq.read_table(folder / LATEST)["seq"].to_pylist())
            assert list(range(1, len(values) + 1)) == values

        newest = PartFolder(str(folder), "state", GENERATION).newest()
        assert kills > 10
        assert len(values) == newest.rows == newest.positions["d0"].seq
        assert 2 == len(PartFolder(str(folder), "state", GENERATION).numbers())


class TestParts:
    def test_parts_add_up_for_any_reader_of_parquet(self, tmp_path):
        folder = PartFolder(str(tmp_path / "out"), "changes")
        with folder.lock():
            put(folder, 1, [1, 2])
            put(folder, 2, [3])

        table = pq.read_table(folder.path)
        assert [1, 2, 3] == sorted(table["seq"].to_pylist())
        assert [1, 1, 2] == sorted(table["increment"].to_pylist())

    def test_a_manifest_comes_back_as_it_was_written(self, tmp_path):
        folder = PartFolder(str(tmp_path / "out"), "changes")
        with folder.lock():
            put(folder, 1, [1, 2])

        assert manifest(rows=2) == folder.newest()

    def test_a_number_is_given_once(self, tmp_path):
        folder = PartFolder(str(tmp_path / "out"), "changes")
        with folder.lock():
            put(folder, 1, [1])
            with pytest.raises(DatabaseBusy, match="another run has written"):
                put(folder, 1, [1])

        assert [1] == pq.read_table(folder.path)["seq"].to_pylist()

    def test_only_one_writes_at_a_time(self, tmp_path):
        pytest.importorskip("fcntl")
        folder = PartFolder(str(tmp_path / "out"), "changes")
        with folder.lock(), pytest.raises(DatabaseBusy, match="another run is writing to"):  # noqa: SIM117
            with PartFolder(folder.path, "changes").lock():
                pass

    def test_a_folder_with_other_things_in_it_is_left_alone(self, tmp_path):
        (tmp_path / "photo.jpg").write_bytes(b"")
        with pytest.raises(UsageError, match=r"photo.jpg"), PartFolder(str(tmp_path), "changes").lock():
            pass

        assert ["photo.jpg"] == os.listdir(tmp_path)

    def test_a_folder_of_another_kind_is_refused(self, tmp_path):
        folder = PartFolder(str(tmp_path / "out"), "changes")
        with folder.lock():
            put(folder, 1, [1])

        with pytest.raises(
            UsageError, match="was written with mode changes, not numbers: choose another folder"
        ):
            PartFolder(folder.path, "numbers").newest()

    @pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": 2}', '{"format": 1}'])
    def test_a_manifest_that_is_none_is_an_error_that_names_it(self, text, tmp_path):
        folder = PartFolder(str(tmp_path / "out"), "changes")
        with folder.lock():
            put(folder, 1, [1])
        Path(folder.folder_of(1), MANIFEST).write_text(text)

        with pytest.raises(StorageError, match=MANIFEST):
            folder.newest()


class TestWholeFolders:
    @pytest.fixture
    def write(self, tmp_path: Path) -> Callable[..., None]:
        def write(values: list[int], overwrite: bool = False) -> None:
            with whole_folder(str(tmp_path / "out"), overwrite) as (staged, commit):
                os.mkdir(staged)
                pq.write_table(pa.table({"seq": values}), f"{staged}/part-0.parquet")
                commit(manifest("history", 1, len(values)))

        return write

    def test_a_folder_is_written_once_and_replaced_where_that_is_said(self, write: Any, tmp_path):
        write([1])
        with pytest.raises(UsageError, match="exists"):
            write([2])
        write([3], overwrite=True)

        assert [3] == pq.read_table(tmp_path / "out")["seq"].to_pylist()
        assert ["out"] == os.listdir(tmp_path)

    def test_what_was_not_written_so_is_never_overwritten(self, write: Any, tmp_path):
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "photo.jpg").write_bytes(b"")

        with pytest.raises(UsageError, match="left alone"):
            write([1], overwrite=True)
        assert ["photo.jpg"] == os.listdir(tmp_path / "out")

    def test_a_write_that_fails_leaves_nothing(self, tmp_path):
        with pytest.raises(KeyboardInterrupt), whole_folder(str(tmp_path / "out"), False) as (staged, _):
            os.mkdir(staged)
            raise KeyboardInterrupt

        assert [] == os.listdir(tmp_path)

    def test_what_was_to_be_replaced_comes_back_where_the_new_folder_cannot_take_its_place(
        self, write: Any, tmp_path, monkeypatch
    ):
        write([1])
        rename = os.rename

        def refuse_staged(source: str, target: str) -> None:
            if target == str(tmp_path / "out") and not source.endswith("-old"):
                raise OSError(errno.EIO, "Input/output error")
            rename(source, target)

        monkeypatch.setattr(os, "rename", refuse_staged)
        with pytest.raises(OSError, match="Input/output error"):
            write([3], overwrite=True)

        assert [1] == pq.read_table(tmp_path / "out")["seq"].to_pylist()
        assert ["out"] == os.listdir(tmp_path)

    def test_a_target_that_stays_empty_is_found_out(self, tmp_path):
        """As where executors write to a disk of their own."""
        with pytest.raises(StorageError, match="must see this folder under this path"):
            parquet_rows(str(tmp_path))

    def test_a_file_of_no_bytes_is_found_out(self, tmp_path):
        (tmp_path / "part-0.parquet").write_bytes(b"")

        with pytest.raises(StorageError, match="cannot be read"):
            parquet_rows(str(tmp_path))
