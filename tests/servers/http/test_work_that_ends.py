"""Every route of HTTP spends its request's budget: it ends with the answer of a timeout, and when its client goes.

The routes come from the tables of `routing` and `routes`. So a new one is tried without being named here; only those that
look at nothing are.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import reactdb
from reactdb import budget
from reactdb.budget import Budget
from reactdb.dialects.couchdb.couch import Couch
from reactdb.servers.aidbox import routes
from reactdb.servers.aidbox.application import AidboxApplication
from reactdb.servers.couchdb import routes as couchdb_routes
from reactdb.servers.couchdb.application import CouchApplication
from reactdb.servers.http.protocol import Route
from tests.servers.http.asgi import asked

COUNT = 40
IDS = [f"d{number:02}" for number in range(COUNT)]
DESIGN = {"_id": "_design/app", "views": {"all": {"map": "function (doc) { emit(doc._id, doc.n); }"}}}
PATIENCE_S = 10.0


@pytest.fixture
def db() -> Iterator[Any]:
    with reactdb.connect(":memory:") as database:
        todo = Couch(database).create("todo")
        todo.bulk_docs([{"_id": id, "n": number} for number, id in enumerate(IDS)])
        todo.put(DESIGN)
        todo.put_attachment("d00", "file", b"x" * 1_000, rev=todo.get("d00")["_rev"])
        for id in IDS:
            todo.put_local({"_id": f"_local/{id}"})
        box = reactdb.aidbox(database)
        for id in IDS:
            box["Patient"].create({"id": id, "n": 1})
        yield database


# ---------------------------------------------------------------------------------------------------------------
# The routes


def couchdb_paths() -> list[str]:
    """A path for each line of the tables of `routing`."""
    return [
        *(f"/{name}" for name in couchdb_routes.SERVER),
        *(f"/{name}" for name in couchdb_routes.REFUSED),
        "/todo",
        *(f"/todo/{name}" for name in couchdb_routes.DATABASES),
        *(f"/todo/{name}/queries" for name in couchdb_routes.QUERIES),
        "/todo/_index/_design/app/json/all",
        "/todo/_index/_bulk_delete",
        "/todo/_design/app/_view/all",
        "/todo/_design/app/_view/all/queries",
        "/todo/_design/app/_show/all",
        *(
            {"document": "/todo/d00", "design": "/todo/_design/app", "local": "/todo/_local/d00"}[kind]
            + ("/file" if goes_on else "")
            for kind, goes_on in couchdb_routes.TABLES
        ),
    ]


AIDBOX_PATHS = ("/", "/Patient", "/Patient/d00", "/Patient/$changes", "/Patient/d00/$changes")


def table_of(dialect: str, path: str) -> Any:
    parts = [part for part in path.split("/") if part]
    return couchdb_routes._table(parts) if dialect == "couchdb" else routes._table(parts)


ROUTES = [
    (dialect, method, path)
    for dialect, paths in (("couchdb", couchdb_paths()), ("aidbox", AIDBOX_PATHS))
    for path in paths
    for method in table_of(dialect, path)
]

# These look at nothing that could be much.
QUICK = {
    *(f"/{name}" for name in couchdb_routes.REFUSED),
    *("/", "/_up", "/_uuids", "/_membership", "/_active_tasks", "/_replicate", "/_session", "/_reactdb"),
    *("/favicon.ico", "/todo/_security", "/todo/_local/d00/file", "/todo/_design/app/_show/all"),
    "/todo/_view_cleanup",
}
# One table has both, and each is at its own path.
NOT_THERE = {("POST", "/todo/_index/_design/app/json/all"), ("DELETE", "/todo/_index/_bulk_delete")}
SPENDING = [one for one in ROUTES if one[0] == "aidbox" or (one[2] not in QUICK and one[1:] not in NOT_THERE)]

BODIES: dict[str, Any] = {
    "_bulk_docs": {"docs": [{"n": number} for number in range(COUNT)]},
    "_bulk_get": {"docs": [{"id": id} for id in IDS]},
    "_revs_diff": {id: ["2-00000000000000000000000000000000"] for id in IDS},
    "_missing_revs": {id: ["2-00000000000000000000000000000000"] for id in IDS},
    "_purge": {id: ["1-00000000000000000000000000000000"] for id in IDS},
    "_find": {"selector": {"n": {"$gte": 0}}, "limit": COUNT},
    "_explain": {"selector": {"n": 1}},
    "_index": {"index": {"fields": ["n"]}},
    "_revs_limit": 100,
    "_bulk_delete": {"docids": IDS},
    "_dbs_info": {"keys": ["todo"] * COUNT},
    "queries": {"queries": [{"keys": IDS}]},
    "_all_docs": {"keys": IDS},
    "_design_docs": {"keys": IDS},
    "all": {"keys": IDS},
    "": {
        "type": "transaction",
        "entry": [{"request": {"method": "GET", "url": f"Patient/{id}"}} for id in IDS],
    },
}


def body_of(dialect: str, method: str, path: str) -> bytes:
    name = path.rpartition("/")[2]
    if dialect == "aidbox" and method == "PATCH":
        return json.dumps([{"op": "add", "path": f"/{id}", "value": 1} for id in IDS]).encode()
    return json.dumps(BODIES.get(name, {"_id": "new"} if path == "/todo" else {})).encode()


HEADERS = {"content-type": "application/json", "destination": "copied"}


def test_no_table_of_routes_is_forgotten() -> None:
    tables = [couchdb_routes.SERVER, *couchdb_routes.REFUSED.values(), *couchdb_routes.DATABASES.values()]
    for module in (couchdb_routes, routes):
        for value in vars(module).values():
            if isinstance(value, dict):
                tables += [inner for inner in (value, *value.values()) if isinstance(inner, dict)]
    known = {id(one) for table in tables for one in table.values() if isinstance(one, Route)}

    tried = {id(table_of(dialect, path)[method]) for dialect, method, path in ROUTES}

    assert known <= tried


# ---------------------------------------------------------------------------------------------------------------
# What a budget does to them


class TriedBudget(Budget):
    """One that is looked at with each step. The first look is the application's own."""

    looks = 0

    def check(self, *, may_sleep: bool = True) -> None:
        self.looks += 1
        if self.looks > 1:
            self.tried()
        super().check(may_sleep=may_sleep)

    def tried(self) -> None:
        """The route has spent something."""


class SpentBudget(TriedBudget):
    def tried(self) -> None:
        raise budget.Stopped


class HeldBudget(TriedBudget):
    """The route's first step takes until the client has gone."""

    def __init__(self, has_begun: Any) -> None:
        super().__init__()
        self._has_begun = has_begun
        self._cancelled = threading.Event()

    def tried(self) -> None:
        self._has_begun()
        assert self._cancelled.wait(PATIENCE_S)

    def cancel(self) -> None:
        super().cancel()
        self._cancelled.set()


def application(dialect: str, db: Any, made: Budget) -> Any:
    app = {"couchdb": CouchApplication, "aidbox": AidboxApplication}[dialect](db)
    app._budget = lambda: made
    return app


@pytest.fixture
def each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "STEPS", 1)


@pytest.mark.usefixtures("each_step")
@pytest.mark.parametrize(("dialect", "method", "path"), SPENDING)
def test_a_request_whose_time_is_over_is_told_so(db: Any, dialect: str, method: str, path: str) -> None:
    app = application(dialect, db, SpentBudget())

    answer = asyncio.run(asked(app, method, path, headers=HEADERS, body=body_of(dialect, method, path)))
    app.close()

    assert (500, True) == (answer.status, b"reasonable amount of time" in answer.body), answer.body


@pytest.mark.usefixtures("each_step")
@pytest.mark.parametrize(("dialect", "method", "path"), SPENDING)
def test_a_request_ends_when_its_client_goes(db: Any, dialect: str, method: str, path: str) -> None:
    async def go_away() -> tuple[list[Any], float]:
        loop, begun = asyncio.get_running_loop(), asyncio.Event()
        app = application(dialect, db, HeldBudget(lambda: loop.call_soon_threadsafe(begun.set)))
        gone_at: list[float] = []
        messages = [{"type": "http.request", "body": body_of(dialect, method, path), "more_body": False}]
        sent: list[Any] = []

        async def receive() -> Any:
            if messages:
                return messages.pop(0)
            async with asyncio.timeout(PATIENCE_S):
                await begun.wait()
            gone_at.append(time.monotonic())
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in HEADERS.items()],
        }
        await app(scope, receive, send)
        took_s = time.monotonic() - gone_at[0]
        app.close()
        return sent, took_s

    sent, took_s = asyncio.run(go_away())

    assert [] == sent
    assert took_s < 1.0


MANY = [
    ("couchdb", "POST", "/todo/_bulk_docs"),
    ("couchdb", "POST", "/todo/_bulk_get"),
    ("couchdb", "POST", "/todo/_revs_diff"),
    ("couchdb", "POST", "/todo/_missing_revs"),
    ("couchdb", "POST", "/todo/_purge"),
    ("couchdb", "POST", "/todo/_find"),
    ("couchdb", "GET", "/todo/_all_docs"),
    ("couchdb", "POST", "/todo/_all_docs"),
    ("couchdb", "POST", "/todo/_all_docs/queries"),
    ("couchdb", "GET", "/todo/_local_docs"),
    ("couchdb", "GET", "/todo/_changes"),
    ("couchdb", "GET", "/todo/_changes?filter=_doc_ids&doc_ids=[]"),
    ("couchdb", "GET", "/todo/_design/app/_view/all"),
    ("couchdb", "POST", "/todo/_design/app/_view/all"),
    ("couchdb", "POST", "/_dbs_info"),
    ("aidbox", "POST", "/"),
    ("aidbox", "GET", "/Patient"),
    ("aidbox", "GET", "/Patient/$changes?version=0"),
    ("aidbox", "PATCH", "/Patient/d00"),
]


class CountedBudget(Budget):
    steps = 0

    def spend(self, steps: int) -> None:
        self.steps += steps
        super().spend(steps)


@pytest.mark.parametrize(("dialect", "method", "path"), MANY)
def test_what_a_request_spends_grows_with_what_it_does(db: Any, dialect: str, method: str, path: str) -> None:
    pytest.importorskip("quickjs")
    counted = CountedBudget()
    app = application(dialect, db, counted)
    body = body_of(dialect, method, path.partition("?")[0])

    answer = asyncio.run(asked(app, method, path, headers=HEADERS, body=body))
    app.close()

    assert answer.status in (200, 201), answer.body
    assert COUNT <= counted.steps
