"""Runs of a target, each killed before its n-th step: `python -m tests.lake.killed_runs delta FOLDER`.

A run locks the table, reads its position and makes the next of a few commits. Every call that changes a file or commits is a
step. For each number that is read, the program forks a run that is killed before that step, or gets to its end. Then it forks
another process, which locks the table, so that the remains of the kill are removed, and compares the rows with the position. It
prints the run's exit status, the position, and "ok" or a difference. The processes share only the imports, which take longest.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFile
from sqlalchemy.orm import Session

from reactdb.lake import data_files, delta, iceberg
from reactdb.lake.target import LakeTable
from tests.lake.target_suite import DATABASE, batches_of, exact, keys_of, note, table_of

NARROW = pa.schema([("id", pa.int64()), ("v", pa.int64())])
WIDE = pa.schema([("id", pa.int64()), ("v", pa.float64()), ("new", pa.list_(pa.string()))])
OTHER = pa.schema([("id", pa.int64()), ("v", pa.string())])
STEPS = ("remove", "rmdir", "rename", "replace", "makedirs", "mkdir", "open", "fsync", "close")

Rows = list[dict[str, Any]]


def narrow(ids: range, value: int) -> Rows:
    return [{"id": id_, "v": value} for id_ in ids]


# The rows after each commit, by its position.
AFTER: list[Rows] = [
    [],
    narrow(range(6), 1),
    [*narrow(range(2), 2), *narrow(range(3, 6), 1), *narrow(range(6, 8), 2)],
    [*narrow(range(2), 2), *narrow(range(3, 6), 1), *narrow(range(6, 8), 2), *narrow(range(8, 9), 3)],
    [{"id": 0, "v": 0.5, "new": ["x"]}, {"id": 1, "v": 2.0, "new": None}],
    [{"id": 5, "v": "other"}],
    [],
]
SETTINGS: dict[str, Any] = {"mode": "current"}


def run(target: LakeTable) -> None:
    with target.lock():
        state = target.state({DATABASE: ["e0"]})
        seq = 0 if state is None else state.positions[DATABASE].seq
        after = note(seq + 1, SETTINGS)
        if seq == 0:
            target.create(NARROW, batches_of(AFTER[1], NARROW), after)
        elif seq == 1:
            rows = [*narrow(range(2), 2), *narrow(range(6, 8), 2)]
            target.merge(table_of(rows, NARROW), keys_of([2], NARROW), ["id"], after)
        elif seq == 2:
            target.append(NARROW, batches_of(narrow(range(8, 9), 3), NARROW), after)
        elif seq == 3:
            target.widen(WIDE)
            rows = [{"id": 0, "v": 0.5, "new": ["x"]}]
            target.merge(table_of(rows, WIDE), keys_of(range(3, 9), WIDE), ["id"], after)
        elif seq == 4:
            target.replace(OTHER, batches_of(AFTER[5], OTHER), note(5, {"mode": "other"}))
        elif seq == 5:
            target.merge(OTHER.empty_table(), keys_of([5], OTHER), ["id"], note(6, {"mode": "other"}))


def check(target: LakeTable, folder: Path) -> str:
    with target.lock():
        state = target.state({DATABASE: ["e0"]})
        if state is None:
            left = sorted(folder.rglob("*.parquet"))
            return f"0 {left or 'ok'}"
        seq = state.positions[DATABASE].seq
        found = exact(
            {name: value for name, value in row.items() if name != "new" or value is not None}
            for batch in target.scan()
            for row in batch.to_pylist()
        )
        # A kill after `widen` leaves the wider table with the position before.
        wide = seq == 3 and state.schema.equals(WIDE)
        rows = [{**row, "v": float(row["v"])} if wide else row for row in AFTER[seq]]
        expected = exact({name: value for name, value in row.items() if value is not None} for row in rows)
        settings = {"mode": "other" if seq > 4 else "current"}
        if found != expected or state.settings != settings:
            return f"{seq} {found} {state.settings}"
        unlisted = unlisted_files(target, folder)
        return f"{seq} {unlisted or 'ok'}"


def unlisted_files(target: LakeTable, folder: Path) -> set[str]:
    """The files with rows, and of Iceberg the metadata, that no version of the table has."""
    there = {str(path) for path in folder.rglob("*.parquet") if "_delta_log" not in path.parts}
    if isinstance(target, delta.DeltaTarget):
        table = DeltaTable(target.path)
        for version in range(table.version() + 1):
            table.load_as_version(version)
            there -= {uri.removeprefix("file://") for uri in table.file_uris()}
    else:
        assert isinstance(target, iceberg.IcebergTarget)
        with target._existing() as table:
            for snapshot in table.snapshots():
                tasks = table.scan(snapshot_id=snapshot.snapshot_id).plan_files()
                there -= {task.file.file_path.removeprefix("file://") for task in tasks}
            committed = {entry.metadata_file for entry in table.metadata.metadata_log} | {
                table.metadata_location
            }
        metadata = {str(path) for path in folder.rglob("*.metadata.json")}
        there |= metadata - {name.removeprefix("file://") for name in committed}
    return there


def kill_at(number: int) -> None:
    """Let this process die before its n-th step."""
    steps = [0]

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            steps[0] += 1
            if steps[0] == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        return step

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))
    shutil.rmtree = counted(shutil.rmtree)  # type: ignore[assignment]
    iceberg.rmtree = counted(iceberg.rmtree)  # type: ignore[assignment]
    writer = data_files.DataFileWriter
    for name in ("_write_held", "_end_file"):
        setattr(writer, name, counted(getattr(writer, name)))
    for owner, name in (
        (DeltaTable, "create_write_transaction"),
        (deltalake.table.TableAlterer, "set_table_properties"),
        (deltalake, "write_deltalake"),
        (PyArrowFile, "create"),
        (SqlCatalog, "commit_table"),
        (Session, "commit"),
    ):
        setattr(owner, name, counted(getattr(owner, name)))
    DeltaTable.create = staticmethod(counted(DeltaTable.create))  # type: ignore[method-assign]


def make(kind: str, folder: str) -> LakeTable:
    return delta.DeltaTarget(folder) if kind == "delta" else iceberg.IcebergTarget(folder, "t")


def main(kind: str, folder: str) -> None:
    # The libraries are imported before the forks, and used only in them, because a fork has no threads.
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            try:
                kill_at(int(line))
                run(make(kind, folder))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), end=" ", flush=True)
        pid = os.fork()
        if not pid:
            try:
                print(check(make(kind, folder), Path(folder)), flush=True)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        if os.waitpid(pid, 0)[1]:
            print("check failed", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
