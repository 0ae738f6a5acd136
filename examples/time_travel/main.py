"""Read the past: the history of one document, the whole table as it was, and a mistake that is undone.

Run: python examples/time_travel/main.py
"""

from __future__ import annotations

import reactdb
from reactdb import row

with reactdb.connect(":memory:") as db:
    prices = db.table_create("prices")
    prices.insert([{"id": "tea", "cents": 250}, {"id": "coffee", "cents": 300}, {"id": "cake", "cents": 420}])
    prices.get("tea").update({"cents": 260})
    good = db.seq

    # A tenth more for everything was meant, not ten times as much.
    prices.update({"cents": row["cents"] * 10})
    prices.get("cake").delete()

    print("What happened to the cake:")
    for change in prices.get("cake").history():
        print(f"  seq {change.seq}: {change.kind:6} {change.new_val}")

    print(f"Everything as of seq {good}:")
    for document in db.at(good).table("prices"):
        print(f"  {document['id']}: {document['cents']}")

    # Undoing is writing the old documents again. The mistake stays in the log, where it can be learned from.
    with db.transaction(origin="undo"):
        prices.delete()
        prices.insert(db.at(good).table("prices").run())

    print("Prices now:", [(document["id"], document["cents"]) for document in prices])
    print("Changes by the undoing:", sum(change.origin == "undo" for change in db.log()))
