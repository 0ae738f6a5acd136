"""Read a CSV into a table, make indexes, and ask.

Run: python examples/import_csv_and_query/main.py
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import reactdb
from reactdb import desc, r, row

# Highest summits of some islands; a file would do as well.
CSV = """name,island,metres,climbed
Teide,Tenerife,3715,1582
Kinabalu,Borneo,4095,1888
Puncak Jaya,New Guinea,4884,1962
Fuji,Honshu,3776,663
Mauna Kea,Hawaii,4207,
Etna,Sicily,3403,
Pico Duarte,Hispaniola,3101,1851
"""


def documents(text: str) -> Iterator[dict[str, Any]]:
    """The rows as documents: numbers as numbers, and an empty cell as a field that is not there."""
    for line in csv.DictReader(io.StringIO(text)):
        yield {name: int(cell) if cell.isdigit() else cell for name, cell in line.items() if cell}


with reactdb.connect(":memory:") as db:
    summits = db.table_create("summits", primary_key="name")
    result = summits.insert(documents(CSV))
    print(f"{result['inserted']} summits")

    summits.index_create("metres")
    summits.index_create("century", (row["climbed"] / 100).floor() + 1)

    print("Highest:", summits.order_by(index=desc("metres")).limit(2)["name"].run())
    print("3,500 to 4,000 m:", summits.between(3500, 4000, index="metres")["name"].run())
    print("First climbed in the 19th century:", summits.get_all(19, index="century")["name"].run())
    print("Nobody knows when:", summits.filter(~row.has_fields("climbed"))["island"].run())

    high = row["metres"] > 4000
    for group in summits.group(r.branch(high, "above 4,000 m", "below")).count().run():
        print(f"{group['group']}: {group['reduction']}")

    question = summits.filter((row["metres"] >= 3500) & (row["metres"] < 4000))
    print("Read by:", question.explain()["access"])
