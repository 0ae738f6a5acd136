"""Consume a feed in asyncio while a thread writes: bounded, in order, and cancelled cleanly.

Run: python examples/async_consumer/main.py
"""

from __future__ import annotations

import asyncio

import reactdb
from reactdb import row


async def watch(orders: reactdb.Table, ready: asyncio.Event) -> None:
    """Tell of every large order, for as long as nobody cancels."""
    large = orders.filter(row["euros"] >= 100)
    try:
        async for event in large.changes(include_initial=True, include_states=True):
            if event.get("state") == "ready":
                print("that was the present; now for what comes")
                ready.set()
            elif "new_val" in event:
                print(f"order {event['new_val']['id']}: {event['new_val']['euros']} euros")
    finally:
        print("the watcher goes home")


def sell(orders: reactdb.Table) -> None:
    """Runs in a thread: writing waits for the disk, and an event loop must not wait."""
    for number in range(2, 8):
        orders.insert({"id": number, "euros": number * 20})


async def main() -> None:
    with reactdb.connect(":memory:") as db:
        orders = db.table_create("orders")
        orders.insert({"id": 1, "euros": 500})

        ready = asyncio.Event()
        watcher = asyncio.create_task(watch(orders, ready))
        await ready.wait()
        await asyncio.to_thread(sell, orders)
        # What was sold is in the feed by now; let the watcher hear it before it is sent home.
        await asyncio.sleep(0)
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)
        print(f"{orders.count().run()} orders in all")


asyncio.run(main())
