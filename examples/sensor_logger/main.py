"""A device that logs and uploads is killed three times, and no reading is lost or stored twice.

Run: python examples/sensor_logger/main.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Condition, Thread
from typing import Any

import reactdb

READINGS, KILLED_AT = 200, (20, 70, 120)
received: dict[str, dict[str, Any]] = {}
arrived = Condition()


class Receiver(BaseHTTPRequestHandler):
    """The server: it stores each reading under the id of its change, so a repeated reading changes nothing."""

    def do_POST(self) -> None:
        readings = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with arrived:
            received.update({reading["change"]: reading for reading in readings})
            arrived.notify_all()
        self.send_response(204)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        """Nothing on the terminal."""


class Server(HTTPServer):
    def handle_error(self, *request: object) -> None:
        """A killed device leaves half a request, which is no error of the server."""


with Server(("127.0.0.1", 0), Receiver) as server, tempfile.TemporaryDirectory() as folder:
    Thread(target=server.serve_forever, daemon=True).start()
    file = Path(folder, "readings.db")
    url = f"http://127.0.0.1:{server.server_port}/"
    command = [sys.executable, str(Path(__file__).with_name("logger.py")), str(file), url]
    command += ["--interval", "0.002", "--until", str(READINGS)]

    for count in KILLED_AT:
        device = subprocess.Popen(command)
        with arrived:
            assert arrived.wait_for(lambda least=count: len(received) >= least, timeout=30)
        device.kill()
        device.wait()
        print(f"killed after {count} readings or more had arrived")

    subprocess.run(command, check=True, timeout=60)
    server.shutdown()

    with reactdb.connect(file, read_only=True) as db:
        written = {reading["id"]: reading["celsius"] for reading in db["readings"]}
    stored = {reading["id"]: reading["celsius"] for reading in received.values()}
    print(f"the device has written {len(written)} readings")
    print(f"the server has all of them, with the same values: {stored == written}")
    print(f"stored twice: {len(received) - len(stored)}")
