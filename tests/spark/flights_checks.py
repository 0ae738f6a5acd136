"""The pipelines on a database of flights, and the comparison of each with the answers from the CSV.

pyarrow reads the results, without Spark; documents are compared completely, field by field, and times as moments.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from reactdb.lake import Outcome, export
from reactdb.spark import pipelines
from tests.spark import flights_answers as answers
from tests.spark.flights_database import TABLE

FIELDS = (
    "id string, state string, carrier string, flight long, origin string, dest string, distance_miles long,"
    " scheduled timestamp, tailnum string, closed timestamp, delay_min long, arrived timestamp, arrival_delay_min long"
)

STRUCT = ", ".join(field.strip().replace(" ", ": ", 1) for field in FIELDS.split(","))


def grow(file: str, out: Path) -> list[Outcome]:
    """What goes on from run to run."""
    return [
        export(file, TABLE, parquet=f"{out}/{mode}", mode=mode) for mode in ("changes", "current", "scd2")
    ]


def write_once(spark: Any, file: str, out: Path) -> None:
    """What is written from the whole log."""
    seq = export(file, TABLE, parquet=f"{out}/snapshot", at="now").positions[file]
    export(file, TABLE, parquet=f"{out}/half", at=seq // 2)
    pipelines.write_history(spark, file, f"{out}/history", table=TABLE)
    pipelines.write_rates(spark, file, f"{out}/rates", by=["op"])
    pipelines.write_audit(spark, file, f"{out}/audit")
    pipelines.write_history(spark, f"{out}/changes", f"{out}/history-exported", table=TABLE)


def stream(spark: Any, file: str, out: Path) -> None:
    """All changes, by a stream that stops when it has caught up."""
    source = spark.readStream.format("reactdb").option("read", "changes").option("table", TABLE)
    rows = source.schema(f"seq long, key string, op string, ts timestamp, new struct<{STRUCT}>").load(file)
    sink = rows.writeStream.format("parquet").option("checkpointLocation", f"{out}/checkpoint")
    sink.trigger(availableNow=True).start(f"{out}/stream").awaitTermination()


# ---------------------------------------------------------------------------------------------------------------
# Comparisons


def changes_are_right(out: Path, rows: Iterable[answers.Row]) -> None:
    columns = ["seq", "table", "key", "op", "ts", "origin", "old", "new"]
    found = sorted(read(out / "changes", columns), key=lambda row: row["seq"])
    wanted = list(rows)
    assert len(wanted) == len(found)
    for row, right in zip(found, wanted, strict=True):
        assert (right.seq, TABLE, right.key, right.op, right.at, answers.origin_of(right.at)) == (
            row["seq"], row["table"], row["key"], row["op"], row["ts"], row["origin"],
        )  # fmt: skip
        assert right.old == document(row["old"])
        assert right.new == document(row["new"])


def current_is_right(out: Path, rows: list[answers.Row]) -> None:
    found = read(out / "current" / "latest")
    wanted = answers.state(rows, None)
    assert wanted == {row["id"]: document(row) for row in found}
    assert len(wanted) == len(found)


def snapshots_are_right(out: Path, rows: list[answers.Row]) -> None:
    for name, until in (("snapshot", None), ("half", rows[-1].seq // 2)):
        found = read(out / name)
        wanted = answers.state(rows, until)
        assert len(wanted) == len(found)
        assert wanted == {row["id"]: document(row) for row in found}


def history_is_right(out: Path, rows: Iterable[answers.Row], name: str) -> None:
    found = sorted(
        read(out / name, ["key", "seq", "valid_from", "valid_to", "is_current", "document"]),
        key=lambda row: (row["key"], row["seq"]),
    )
    wanted = answers.versions(rows)
    assert len(wanted) == len(found)
    for row, right in zip(found, wanted, strict=True):
        assert (right.key, right.begin, right.end, right.end is None) == (
            row["key"], row["valid_from"], row["valid_to"], row["is_current"],
        )  # fmt: skip
        assert right.document == document(row["document"])


def rates_are_right(out: Path, rows: Iterable[answers.Row]) -> None:
    found = {(row["bucket"], row["op"]): row["changes"] for row in read(out / "rates")}
    assert answers.per_hour(rows) == found


def audit_is_right(out: Path, rows: Iterable[answers.Row]) -> None:
    found = {(row["field"], row["origin"]): (row["changes"], row["added"]) for row in read(out / "audit")}
    assert answers.fields_changed(rows) == found


def stream_is_right(out: Path, rows: Iterable[answers.Row]) -> None:
    found = {row["seq"]: row for row in read(out / "stream")}
    wanted = list(rows)
    assert len(wanted) == len(found) == pq.read_table(out / "stream", columns=["seq"]).num_rows
    for right in wanted:
        row = found[right.seq]
        assert (right.key, right.op, right.at) == (row["key"], row["op"], row["ts"])
        assert right.new == document(row["new"])


def read(folder: Path, columns: list[str] | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(
        folder, columns=columns, coerce_int96_timestamp_unit="us"
    ).to_pylist()
    for row in found:
        for name, value in row.items():
            if isinstance(value, datetime):
                row[name] = value.astimezone(UTC)
    return found


def document(row: dict[str, Any] | None) -> dict[str, Any] | None:
    """A struct as the document that it was: in a struct, null is what is not there."""
    if row is None:
        return None
    return {
        name: value.astimezone(UTC) if isinstance(value, datetime) else value
        for name, value in sorted(row.items())
        if value is not None
    }
