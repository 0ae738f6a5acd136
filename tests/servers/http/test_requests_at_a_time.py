"""What bounds the work for requests of HTTP, over the socket: how many at a time, and how long one may take."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

import reactdb
from reactdb.dialects.couchdb.couch import Couch
from reactdb.servers.http import HTTPLimits, serve_in_thread
from reactdb.session import session_of
from tests.support.threads import wait_until


def test_a_request_waits_where_as_many_are_carried_out_as_may_be(tmp_path: Path) -> None:
    """The only thread waits for the turn to write. So who asks for the document after it finds it."""
    with reactdb.connect(tmp_path / "a.db") as db:
        Couch(db).create("todo")
        with (
            serve_in_thread(db, limits=HTTPLimits(requests=1)) as server,
            httpx.Client(base_url=f"http://127.0.0.1:{server.port}", verify=False) as client,
            ThreadPoolExecutor(2) as threads,
        ):
            queue = session_of(db).engine.writer.queue
            with db.transaction():
                writing = threads.submit(lambda: client.put("/todo/new", json={"n": 1}))
                wait_until(lambda: len(queue) == 2)
                reading = threads.submit(lambda: client.get("/todo/new"))
                wait_until(lambda: len(server._workers.jobs) == 2)

            assert (201, 200) == (writing.result(10).status_code, reading.result(10).status_code)


def test_a_search_that_takes_too_long_is_answered(tmp_path: Path) -> None:
    with reactdb.connect(tmp_path / "a.db") as db:
        Couch(db).create("todo").bulk_docs([{"_id": f"{number}", "n": number} for number in range(3_000)])
        with (
            serve_in_thread(db, limits=HTTPLimits(request_s=0.001)) as server,
            httpx.Client(base_url=f"http://127.0.0.1:{server.port}", verify=False) as client,
        ):
            answer = client.post("/todo/_find", json={"selector": {"n": {"$gte": 0}}, "limit": 3_000})

            assert (500, "timeout") == (answer.status_code, answer.json()["error"])
