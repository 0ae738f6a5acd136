"""Go on after a restart: a consumer that keeps its position hears every change, also those made while it was away.

The position is a token, kept with the consumer's results, after they are done. So if the consumer dies in between, it hears
the last change again, never one too few.

Run: python examples/resume_after_restart.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import reactdb


def run_consumer(folder: Path, name: str) -> None:
    """One life of the consumer: print what is new since the last one, and remember how far it came."""
    memory = folder / "position.txt"
    since = memory.read_text(encoding="utf-8") if memory.exists() else 0
    with reactdb.connect(folder / "shop.db", read_only=True) as db:
        newest = db.seq
        feed = db.table("orders").changes(since=since, include_seq=True)
        with feed.cursor() as cursor:
            seq = 0
            while seq < newest:
                event = cursor.next(timeout=10)
                seq = event["seq"]
                print(f"{name}: order {event['new_val']['id']} is {event['new_val']['state']}")
                memory.write_text(feed.token, encoding="utf-8")


with tempfile.TemporaryDirectory() as name, reactdb.connect(Path(name) / "shop.db") as db:
    folder = Path(name)
    orders = db.table_create("orders")
    orders.insert([{"id": 1, "state": "new"}, {"id": 2, "state": "new"}])
    run_consumer(folder, "first life")

    # Nobody listens now.
    orders.get(1).update({"state": "paid"})
    orders.insert({"id": 3, "state": "new"})
    orders.get(1).update({"state": "sent"})

    run_consumer(folder, "second life")
