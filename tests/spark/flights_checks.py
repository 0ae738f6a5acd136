"""The pipelines on a database of flights, and the comparison of each with the answers from the CSV.

pyarrow reads the results, without Spark; documents are compared completely, field by field, and times as moments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from reactdb.spark import pipelines
from reactdb.spark.pipelines import Outcome
from tests.spark import flights_answers as answers
from tests.spark.flights_database import TABLE

FIELDS = (
    "id string, state string, carrier string, flight long, origin string, dest string, distance_miles long,"
    " scheduled timestamp, tailnum string, closed timestamp, delay_min long, arrived timestamp, arrival_delay_min long"
)

STRUCT = ", ".join(field.strip().replace(" ", ": ", 1) for field in FIELDS.split(","))


def grow(spark: Any, file: str, out: Path) -> list[Outcome]:
    """What goes on from run to run."""
    return [
        pipelines.append_changes(
            spark, file, f"{out}/changes", document="struct", schema=FIELDS, table=TABLE
        ),
        pipelines.update_current(
            spark, file, f"{out}/current", document="struct", schema=FIELDS, table=TABLE
        ),
    ]


def write_once(spark: Any, file: str, out: Path) -> None:
    """What is written from the whole log."""
    seq = pipelines.snapshot(spark, file, f"{out}/snapshot", table=TABLE).positions[file]
    pipelines.snapshot(spark, file, f"{out}/half", table=TABLE, as_of=seq // 2)
    pipelines.write_history(spark, file, f"{out}/history", table=TABLE, document="struct")
    pipelines.write_rates(spark, file, f"{out}/rates", by=["op"])
    pipelines.write_audit(spark, file, f"{out}/audit")
    pipelines.write_history(spark, f"{out}/changes", f"{out}/history-exported", table=TABLE)
    pipelines.update_current(
        spark, f"{out}/changes", f"{out}/current-exported", table=TABLE, document="struct", schema=FIELDS
    )


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


def current_is_right(out: Path, rows: Iterable[answers.Row], name: str = "current") -> None:
    found = read(out / name / "latest", ["key", "seq", "ts", "document"])
    wanted = {row.key: row for row in rows}
    assert {row.key: (row.seq, row.at, row.new) for row in wanted.values()} == {
        row["key"]: (row["seq"], row["ts"], document(row["document"])) for row in found
    }
    assert len(wanted) == len(found)


def snapshots_are_right(out: Path, rows: list[answers.Row]) -> None:
    for name, until in (("snapshot", None), ("half", rows[-1].seq // 2)):
        found = read(out / name)
        for row in found:
            row.pop("_source", None)
        wanted = answers.state(rows, until)
        assert len(wanted) == len(found)
        assert wanted == {row["id"]: document(row) for row in found}


def history_is_right(out: Path, rows: Iterable[answers.Row]) -> None:
    found = sorted(
        read(out / "history", ["key", "seq", "valid_from", "valid_to", "is_current", "document"]),
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


def exported_agree(out: Path) -> None:
    """What is made of exported changes is what is made of the file."""
    for one, other in (("history", "history-exported"), ("current/latest", "current-exported/latest")):
        assert counted(read(out / one)) == counted(read(out / other))


def counted(rows: Iterable[dict[str, Any]]) -> Counter[str]:
    """Rows without regard to order, nor to fields that are null."""
    return Counter(
        repr(
            sorted(
                (name, document(value) if isinstance(value, dict) else value) for name, value in row.items()
            )
        )
        for row in rows
    )


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
