"""Serve a feed over HTTP as server-sent events, with asyncio alone. A browser that comes back gets what it missed.

Run: python examples/server_sent_events/main.py
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import reactdb
import reactdb.json

HEARTBEAT_S = 15


def feed_from(table: reactdb.Table, position: str | None) -> reactdb.Feed:
    """What a browser has missed; everything, where it is new or was away for too long."""
    try:
        return table.changes(batches=True, since=position, include_initial=position is None)
    except (reactdb.HistoryLost, reactdb.HistoryDiverged, reactdb.InvalidOption):
        return table.changes(batches=True, include_initial=True)


async def send(feed: reactdb.Feed, writer: asyncio.StreamWriter) -> None:
    """One message for each commit, until the feed ends or the browser goes."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    with feed.reader(on_ready=lambda: loop.call_soon_threadsafe(ready.set)) as reader:
        while not reader.is_finished:
            # In this order: what comes after the poll sets it again.
            ready.clear()
            for batch in (batches := reader.poll(max=1)):
                writer.write(f"data: {reactdb.json.dumps(batch)}\n".encode())
                writer.write(f"id: {reader.position}\n\n".encode() if reader.position else b"\n")
            if not batches and not reader.is_finished:
                await asyncio.wait([asyncio.create_task(ready.wait())], timeout=HEARTBEAT_S)
                writer.write(b": still here\n\n" if not ready.is_set() else b"")
            await writer.drain()


async def main() -> None:
    with reactdb.connect(":memory:") as db:
        rooms = db.table_create("rooms")
        rooms.insert([{"id": "red", "guests": 1}, {"id": "blue", "guests": 2}])

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
            headers = dict(line.split(": ", 1) for line in lines[1:] if line)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            with suppress(ConnectionError):
                await send(feed_from(rooms, headers.get("Last-Event-ID")), writer)
            writer.close()
            is_over.release()

        async def browse(header: str = "") -> str:
            """It asks, takes one message, and goes away with its id."""
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(f"GET / HTTP/1.1\r\n{header}\r\n".encode())
            await reader.readuntil(b"\r\n\r\n")
            data, last_id = (await reader.readuntil(b"\n\n")).decode().strip().split("\nid: ")
            print([event["new_val"] for event in reactdb.json.loads(data.removeprefix("data: "))])
            writer.close()
            return last_id

        is_over = asyncio.Semaphore(0)
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        print("A new browser gets what there is:")
        last_id = await browse()
        with db.transaction():
            rooms.get("blue").update({"guests": 0})
            rooms.insert({"id": "green", "guests": 2})
        print("It comes back, and gets what it missed, whole commits:")
        print("It is up to date:", await browse(f"Last-Event-ID: {last_id}\r\n") == db.token)
        db.close()
        server.close()
        await is_over.acquire() and await is_over.acquire()


asyncio.run(main())
