"""An outbox: every order reaches a server over HTTP, though the server often fails, and this program may die at any moment.

The position is in the database, and moves when the server has the order. What was sent but not acknowledged is sent again, with
the same id, by which the server knows it. An order that the server will never take becomes a dead letter.

Run: python examples/outbox/main.py
"""

from __future__ import annotations

import json
import logging
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from random import Random
from threading import Thread
from typing import Any

import reactdb

random = Random(7)
received: dict[str, Any] = {}
repeated = 0


class Receiver(BaseHTTPRequestHandler):
    """Fails for a third of the requests, half of the time after it has stored the order already."""

    def do_POST(self) -> None:
        global repeated
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key, luck = self.headers["Idempotency-Key"], random.random()
        if order["euros"] < 0:
            status = 422
        elif luck < 0.17:
            status = 503
        else:
            repeated += key in received
            received[key] = order
            status = 503 if luck < 0.34 else 204
        self.send_response(status)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        """Nothing on the terminal."""


def post(port: int, change: dict[str, Any]) -> None:
    """Raises: urllib.error.HTTPError, which makes the change come again."""
    headers = {"Idempotency-Key": change["id"], "Content-Type": "application/json"}
    body = json.dumps(change["new_val"]).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/orders", body, headers)
    with urllib.request.urlopen(request, timeout=10):
        pass


logging.getLogger("reactdb").setLevel(logging.ERROR)  # A failed batch is a warning.
with HTTPServer(("127.0.0.1", 0), Receiver) as server, reactdb.connect(":memory:") as db:
    Thread(target=server.serve_forever, daemon=True).start()
    orders = db.table_create("orders")
    outbox = db.consumer("outbox", orders, max_attempts=8, backoff_s=0.001, most_backoff_s=0.01)
    orders.insert([{"id": number, "euros": -5 if number == 13 else 10 * number} for number in range(1, 31)])

    with outbox.batches(max_changes=1, max_wait_s=0) as batches:
        for batch in batches:
            with batch:
                for change in batch:
                    post(server.server_port, change)
            if len(received) == 29:
                break
    server.shutdown()

    numbers = [order["id"] for order in received.values()]
    print(f"the server has {len(numbers)} orders, in order: {numbers == sorted(numbers)}")
    print(f"it knew some by their ids: {repeated > 0}")
    for dead in db.table("consumers.dead_letters"):
        print(f"order {dead['key']} is a dead letter after {dead['attempts']} attempts: {dead['error']}")
