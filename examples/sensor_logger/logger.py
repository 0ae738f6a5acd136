"""The program of a device. It writes readings to a file and uploads them; both continue after a crash.

Run: python examples/sensor_logger/logger.py readings.db http://127.0.0.1:8000/ --interval 0.5
"""

from __future__ import annotations

import argparse
import itertools
import math
import threading
import urllib.request
from datetime import timedelta

import reactdb
import reactdb.json
from reactdb import r


def open_file(path: str) -> reactdb.Database:
    """The file keeps readings for a week and the history of a day. What is not uploaded yet stays in the history longer.

    Soft durability: a reading survives the death of this program, and is not flushed to the disk one by one.
    """
    db = reactdb.connect(path, durability="soft", retention=timedelta(days=1))
    db.table_create("readings", expire_after=timedelta(days=7), field="at", exist_ok=True)
    return db


def write_readings(db: reactdb.Database, interval_s: float, until: int | None, stop: threading.Event) -> None:
    """Writes a reading at each interval, with the number that comes next in the file."""
    readings = db["readings"]
    first = readings.count().run()
    for number in itertools.count(first):
        if number == until or stop.wait(interval_s):
            return
        celsius = round(20 + 5 * math.sin(number / 10), 2)
        readings.insert({"id": number, "celsius": celsius, "at": r.now()})


def upload(db: reactdb.Database, url: str, until: int | None) -> None:
    """Sends each reading. The server knows a repeated one by its id. A failed request is repeated, after a growing pause."""
    # since=0: a consumer that is created late also gets the readings from before.
    consumer = db.consumer("uploader", db["readings"], since=0, max_attempts=None, most_backoff_s=30)

    def is_done() -> bool:
        return (
            until is not None and db["readings"].count().run() == until and consumer.status()[0]["lag"] == 0
        )

    with consumer.batches(max_changes=50, max_wait_s=0.05) as batches:
        for batch in () if is_done() else batches:
            with batch:
                new = [
                    {"change": change["id"], **change["new_val"]}
                    for change in batch
                    if change["type"] == "add"
                ]
                if new:
                    body = reactdb.json.dumps(new, plain=True).encode()
                    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
                    urllib.request.urlopen(request, timeout=10).close()
            if is_done():
                return


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("url")
    parser.add_argument("--interval", type=float, default=0.5, help="seconds between two readings")
    parser.add_argument(
        "--until", type=int, help="end when the file has so many readings, and all are uploaded"
    )
    given = parser.parse_args()
    stop = threading.Event()
    with open_file(given.file) as db:
        writer = threading.Thread(target=write_readings, args=(db, given.interval, given.until, stop))
        writer.start()
        try:
            upload(db, given.url, given.until)
        finally:
            stop.set()
            writer.join()


if __name__ == "__main__":
    main()
