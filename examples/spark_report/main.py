"""Analyse a day of flights with Spark: the log of a database, as rows that SQL can be asked of.

Run: python examples/spark_report/main.py

Spark takes some seconds to start.
"""

from __future__ import annotations

import tempfile
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import reactdb
import reactdb.spark
from reactdb.demo import flights

try:
    reactdb.spark.check()
except reactdb.errors.SparkUnavailable as missing:
    raise SystemExit(f"This example needs Java 17 and Spark: {missing}") from None


def write_flights(path: Path) -> None:
    """What happened on 1 January 2013 at New York's airports, minute by minute."""
    with reactdb.connect(path, durability="soft") as db:
        table = db.table_create("flights")
        for _, minute in groupby(flights.day_steps(flights.parse_day("1")), attrgetter("at")):
            with db.transaction():
                for step in minute:
                    if step.kind == "scheduled":
                        table.insert(step.fields)
                    else:
                        table.get(step.id).update(step.fields)


with tempfile.TemporaryDirectory() as folder, reactdb.spark.session("report") as spark:
    file = Path(folder) / "flights.db"
    write_flights(file)

    # The documents of a table, as they are now: fields are columns.
    spark.read.format("reactdb").option("table", "flights").load(str(file)).createOrReplaceTempView("flights")
    late = "SELECT carrier, count(*) AS flights, round(avg(delay_min)) AS late FROM flights GROUP BY carrier"
    for row in spark.sql(f"{late} HAVING count(*) > 100 ORDER BY late DESC LIMIT 3").collect():
        print(f"{row.carrier}: {row.flights} flights, {row.late:.0f} minutes late on average")

    # The log: every change, with the document before and after.
    changes = spark.read.format("reactdb").option("read", "changes").load(str(file))
    changes.createOrReplaceTempView("changes")
    for row in spark.sql("SELECT op, count(*) AS count FROM changes GROUP BY op ORDER BY op").collect():
        print(f"{row.op}: {row['count']}")

    # How long each flight was in the air, from the two changes that say so.
    flown = spark.sql(
        """SELECT max_by(new.dest, minutes) AS dest, max(minutes) AS longest FROM (
               SELECT new, timestampdiff(MINUTE, new.closed, new.arrived) AS minutes FROM changes
               WHERE new.state = 'arrived')"""
    )
    (row,) = flown.collect()
    print(f"The longest way was to {row.dest}: {row.longest} minutes from gate to gate")
