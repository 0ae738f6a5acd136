"""The ways into a file and out of it, one class for each: the next dialect is one more line in `NEEDS`.

A way in writes a step; one that has no transactions writes steps of one document only. A way out tells what has happened since a
position of its own, or while it listens.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from importlib.util import find_spec
from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import reactdb
from tests.one_story.story import TABLE, Step, Told, collapsed

if TYPE_CHECKING:
    import httpx

PATIENCE_S = 60.0


class Way:
    """One dialect, while it is connected: to a server of its own, or to the one at `address`, as `serve` gave it.

    Attributes:
        has_commits: A step of several documents is one commit.
        tells_each: Every change is told; otherwise history tells the newest one of each document.
        has_positions: It can go on from where it was; otherwise it only listens.
    """

    name = ""
    has_commits = True
    tells_each = True
    has_positions = True

    def __init__(self, db: Any, stack: ExitStack, address: Any = None) -> None:
        self.db = db
        self.connect(self.serve(db, stack) if address is None else address, stack)

    @classmethod
    def serve(cls, db: Any, stack: ExitStack, port: int = 0) -> Any:
        """Start the server that it needs, at any free port or at this one, and give its address; the stack ends it. None: it
        needs no server."""
        return None

    def connect(self, address: Any, stack: ExitStack) -> None:
        """Connect to the server; the stack ends it."""

    def begin(self) -> None:
        """Called when the table was made."""

    @staticmethod
    def in_order(step: Step) -> Step:
        """The step in the order in which it is carried out."""
        return step

    def write(self, step: Step) -> None:
        raise NotImplementedError

    def numbers(self) -> dict[str, int]:
        """The n of every document."""
        raise NotImplementedError

    def commits(self) -> list[int] | None:
        """How many changes each commit has, from the beginning; None where commits are not told."""
        return None

    def position(self) -> Any:
        """Where the log ends now."""
        raise NotImplementedError

    def since(self, position: Any) -> list[Told]:
        """What has happened after a position."""
        raise NotImplementedError

    def beginning(self) -> Any:
        """The position before everything."""
        raise NotImplementedError

    def documents(self, table: str) -> list[Any]:
        """All documents of a table, in its own words."""
        raise NotImplementedError

    @contextmanager
    def following(self, table: str) -> Iterator[Callable[[int], list[Any]]]:
        """Listen, and give a function that waits for so many changes and gives the new documents, in its own words."""
        raise NotImplementedError
        yield

    def put(self, table: str, key: str, fields: dict[str, Any]) -> bool:
        """Write a new document with these fields, which JSON has. Whether it was taken."""
        raise NotImplementedError

    def content(self, shown: Any) -> Any:
        """A document as shown, without what is known of it besides."""
        return shown

    def write_back(self, table: str, shown: Any) -> bool:
        """Write a document as it was shown, under its key. Whether it was found there; False too, where it was refused."""
        raise NotImplementedError

    @contextmanager
    def listening(self) -> Iterator[Callable[[int], list[Told]]]:
        """Listen, and give a function that waits for so many changes and gives them; where `tells_each` does not hold, until the
        newest n of every document has come."""
        raise NotImplementedError
        yield


def by_key(documents: Iterable[Any], key: str = "_id") -> dict[str, int]:
    return {document[key]: document["n"] for document in documents}


def told_of(old: Any, new: Any, key: str) -> Told:
    kind = "delete" if new is None else "insert" if old is None else "update"
    return Told(kind, key, None if new is None else new["n"])


class Native(Way):
    name = "native"

    def write(self, step: Step) -> None:
        table = self.db.table(TABLE)
        with self.db.transaction():
            for key, n in step:
                if n is None:
                    table.get(key).delete()
                else:
                    table.insert({"_id": key, "n": n}, conflict="replace")

    def numbers(self) -> dict[str, int]:
        return by_key(self.db.table(TABLE))

    def position(self) -> Any:
        return self.db.token

    def beginning(self) -> Any:
        return 0

    def since(self, position: Any) -> list[Told]:
        with self.db.table(TABLE).changes(since=position).reader() as reader:
            return list(self._of(reader))

    def commits(self) -> list[int] | None:
        with self.db.table(TABLE).changes(since=0, batches=True).reader() as reader:
            return [len(batch) for batches in iter(reader.poll, []) for batch in batches]

    @staticmethod
    def _of(reader: Any) -> Iterator[Told]:
        while events := reader.poll():
            for event in events:
                old, new = event.get("old_val"), event.get("new_val")
                yield told_of(old, new, (new or old)["_id"])

    def documents(self, table: str) -> list[Any]:
        found: list[Any] = self.db.table(table).run()
        return found

    @contextmanager
    def following(self, table: str) -> Iterator[Callable[[int], list[Any]]]:
        with self.db.table(table).changes().cursor() as cursor:
            yield lambda count: [cursor.next(timeout=PATIENCE_S)["new_val"] for _ in range(count)]

    def put(self, table: str, key: str, fields: dict[str, Any]) -> bool:
        return bool(self.db.table(table).insert({**fields, "_id": key})["inserted"])

    def write_back(self, table: str, shown: Any) -> bool:
        return bool(self.db.table(table).insert(shown, conflict="replace")["inserted"] == 0)

    @contextmanager
    def listening(self) -> Iterator[Callable[[int], list[Told]]]:
        ready = threading.Event()
        with self.db.table(TABLE).changes().reader(on_ready=ready.set) as reader:
            found: list[Told] = []

            def wait(count: int) -> list[Told]:
                while True:
                    ready.clear()
                    found.extend(self._of(reader))
                    if len(found) >= count:
                        return found
                    assert ready.wait(PATIENCE_S)

            yield wait


class RethinkDB(Way):
    """By its own driver, over a socket. A step is one write; a feed begins when it is opened."""

    name = "rethinkdb"
    has_commits = False
    has_positions = False

    @classmethod
    def serve(cls, db: Any, stack: ExitStack, port: int = 0) -> Any:
        from reactdb.servers.rethinkdb import serve_in_thread

        return stack.enter_context(serve_in_thread(db, port=port)).port

    def connect(self, address: Any, stack: ExitStack) -> None:
        from rethinkdb import r

        self.r = r
        self._open = lambda: stack.enter_context(
            r.connect(host="127.0.0.1", port=address, timeout=PATIENCE_S)
        )
        self.connection = self._open()

    def write(self, step: Step) -> None:
        ((key, n),) = step
        table = self.r.table(TABLE)
        if n is None:
            table.get(key).delete().run(self.connection)
        else:
            table.insert({"_id": key, "n": n}, conflict="replace").run(self.connection)

    def documents(self, table: str) -> list[Any]:
        return list(self.r.table(table).run(self.connection))

    @contextmanager
    def following(self, table: str) -> Iterator[Callable[[int], list[Any]]]:
        feed = self.r.table(table).changes().run(self._open())
        yield lambda count: [feed.next(wait=PATIENCE_S)["new_val"] for _ in range(count)]
        feed.close()

    def content(self, shown: Any) -> Any:
        # Each time that the driver makes has a zone of its own.
        if isinstance(shown, datetime):
            return shown.isoformat()
        if isinstance(shown, dict):
            return {name: self.content(inner) for name, inner in shown.items()}
        return [self.content(inner) for inner in shown] if isinstance(shown, list) else shown

    def put(self, table: str, key: str, fields: dict[str, Any]) -> bool:
        return bool(self._inserted(table, {**fields, "_id": key})["inserted"])

    def write_back(self, table: str, shown: Any) -> bool:
        done = self._inserted(table, shown, conflict="replace")
        return bool(done["replaced"] + done["unchanged"])

    def _inserted(self, table: str, document: Any, **options: Any) -> Any:
        from rethinkdb.errors import ReqlCompileError, ReqlQueryLogicError

        try:
            return self.r.table(table).insert(document, **options).run(self.connection)
        except (ReqlCompileError, ReqlQueryLogicError):
            # The driver, or the server, does not take it.
            return {"inserted": 0, "replaced": 0, "unchanged": 0}

    def numbers(self) -> dict[str, int]:
        return by_key(self.r.table(TABLE).run(self.connection))

    @contextmanager
    def listening(self) -> Iterator[Callable[[int], list[Told]]]:
        feed = self.r.table(TABLE).changes().run(self._open())
        found: list[Told] = []

        def wait(count: int) -> list[Told]:
            while len(found) < count:
                event = feed.next(wait=PATIENCE_S)
                old, new = event["old_val"], event["new_val"]
                found.append(told_of(old, new, (new or old)["_id"]))
            return found

        yield wait
        feed.close()


class OverHTTP(Way):
    """What the dialects over HTTP have in common."""

    @classmethod
    def serve(cls, db: Any, stack: ExitStack, port: int = 0) -> Any:
        from reactdb.servers.http import serve_in_thread

        return stack.enter_context(serve_in_thread(db, port=port, dialects=[cls.name])).port

    def connect(self, address: Any, stack: ExitStack) -> None:
        self.url = f"http://127.0.0.1:{address}"
        self.client = stack.enter_context(self._client())

    def _client(self) -> httpx.Client:
        import httpx

        # No certificates are read, which takes longer than some tests.
        return httpx.Client(base_url=self.url, timeout=PATIENCE_S, verify=False)

    def get(self, path: str, **parameters: Any) -> httpx.Response:
        return self.client.get(path, params=parameters)


class CouchDB(OverHTTP):
    """`_bulk_docs` is a step. History tells the newest change of a document, and so may a feed that has something to catch up."""

    name = "couchdb"
    tells_each = False
    has_commits = False

    def begin(self) -> None:
        # A table has revisions, and tombstones of what is deleted, from when it is first served.
        assert self.get(f"/{TABLE}").status_code == 200

    def write(self, step: Step) -> None:
        ((key, n),) = step
        there = self.get(f"/{TABLE}/{key}")
        assert there.status_code in (200, 404), there.text
        if n is None:
            if there.status_code == 200:
                self._done(self.client.delete(f"/{TABLE}/{key}", params={"rev": there.json()["_rev"]}))
            return
        if there.status_code == 200 and there.json()["n"] == n:
            # In CouchDB this would be one more revision of the same content.
            return
        rev = {"_rev": there.json()["_rev"]} if there.status_code == 200 else {}
        self._done(self.client.put(f"/{TABLE}/{key}", json={"n": n, **rev}))

    @staticmethod
    def _done(answer: httpx.Response) -> None:
        assert answer.status_code in (200, 201), answer.text

    def documents(self, table: str) -> list[Any]:
        answer = self.get(f"/{table}/_all_docs", include_docs="true")
        assert answer.status_code == 200, answer.text
        return [row["doc"] for row in answer.json()["rows"]]

    @contextmanager
    def following(self, table: str) -> Iterator[Callable[[int], list[Any]]]:
        # It is served, and so has revisions, from now on.
        assert self.get(f"/{table}").status_code == 200
        parameters = {"feed": "continuous", "since": "now", "include_docs": "true", "heartbeat": "1000"}
        with (
            self._client() as client,
            client.stream("GET", f"/{table}/_changes", params=parameters) as answer,
        ):
            lines = answer.iter_lines()
            next(lines)
            rows = (json.loads(line) for line in lines if line)
            yield lambda count: [next(rows)["doc"] for _ in range(count)]

    def put(self, table: str, key: str, fields: dict[str, Any]) -> bool:
        answer = self.client.put(f"/{table}/{key}", json=fields)
        assert answer.status_code in (201, 400, 403), answer.text
        return answer.status_code == 201

    def write_back(self, table: str, shown: Any) -> bool:
        answer = self.client.put(f"/{table}/{quote(shown['_id'], safe='')}", json=shown)
        # 405: no client sends the path `..`.
        assert answer.status_code in (201, 400, 405), answer.text
        return answer.status_code == 201

    def numbers(self) -> dict[str, int]:
        rows = self.get(f"/{TABLE}/_all_docs", include_docs="true").json()["rows"]
        return by_key(row["doc"] for row in rows)

    def position(self) -> Any:
        return self.get(f"/{TABLE}/_changes", since="now").json()["last_seq"]

    def beginning(self) -> Any:
        return "0"

    def since(self, position: Any) -> list[Told]:
        rows = self.get(f"/{TABLE}/_changes", since=position, include_docs="true").json()["results"]
        return list(map(self._told, rows))

    @staticmethod
    def _told(row: Any) -> Told:
        is_deleted = row.get("deleted", False)
        return Told("delete" if is_deleted else "update", row["id"], None if is_deleted else row["doc"]["n"])

    @contextmanager
    def listening(self) -> Iterator[Callable[[int], list[Told]]]:
        parameters = {"feed": "continuous", "since": "now", "include_docs": "true", "heartbeat": "1000"}
        with (
            self._client() as client,
            client.stream("GET", f"/{TABLE}/_changes", params=parameters) as answer,
        ):
            lines = answer.iter_lines()
            # The first line is empty: the feed is there.
            next(lines)
            found: list[Told] = []

            def wait(count: int) -> list[Told]:
                """As many as there may be: until the change that is the newest of the file."""
                newest = self.position()
                while True:
                    line = next(lines)
                    if line:
                        row = json.loads(line)
                        found.append(self._told(row))
                        if row["seq"] == newest:
                            return found

            yield wait


class Aidbox(OverHTTP):
    name = "aidbox"

    def write(self, step: Step) -> None:
        entries = []
        for key, n in step:
            if n is not None:
                request = {"method": "PUT", "url": f"/{TABLE}/{key}"}
                entries.append({"resource": {"n": n}, "request": request})
            elif self._has(key):
                entries.append({"request": {"method": "DELETE", "url": f"/{TABLE}/{key}"}})
        if entries:
            self._bundle(entries)

    def _has(self, key: str) -> bool:
        answer = self.get(f"/{TABLE}/{key}")
        assert answer.status_code in (200, 404, 410), answer.text
        return answer.status_code == 200

    @staticmethod
    def in_order(step: Step) -> Step:
        # FHIR's transactions delete first.
        return sorted(step, key=lambda one: one[1] is not None)

    def commits(self) -> list[int] | None:
        found, version = [], 0
        while (answer := self.get(f"/{TABLE}/$changes", version=version, _count=1)).status_code == 200:
            body = answer.json()
            assert version < body["version"]
            found.append(len(body["changes"]))
            version = body["version"]
        return found

    def numbers(self) -> dict[str, int]:
        found: list[Any] = []
        while True:
            answer = self.get(f"/{TABLE}", _count=1000, _page=len(found) // 1000 + 1).json()
            found += [entry["resource"] for entry in answer["entry"]]
            if len(found) >= answer["total"]:
                return by_key(found, "id")

    def _bundle(self, entries: list[Any]) -> None:
        answer = self.client.post("/", json={"type": "transaction", "entry": entries})
        assert answer.status_code == 200, answer.text

    def documents(self, table: str) -> list[Any]:
        answer = self.get(f"/{table}", _count=1_000)
        assert answer.status_code == 200, answer.text
        return [entry["resource"] for entry in answer.json()["entry"]]

    @contextmanager
    def following(self, table: str) -> Iterator[Callable[[int], list[Any]]]:
        headers = {"Accept": "text/event-stream"}
        with self._client() as client, client.stream("GET", f"/{table}/$changes", headers=headers) as answer:
            lines = answer.iter_lines()
            next(lines)
            told = (json.loads(line[6:])["changes"] for line in lines if line.startswith("data: {"))
            changes = (change["resource"] for changes in told for change in changes)
            yield lambda count: [next(changes) for _ in range(count)]

    def content(self, shown: Any) -> Any:
        return {name: value for name, value in shown.items() if name not in ("resourceType", "meta")}

    def put(self, table: str, key: str, fields: dict[str, Any]) -> bool:
        answer = self.client.put(f"/{table}/{key}", json=fields)
        assert answer.status_code in (201, 422), answer.text
        return answer.status_code == 201

    def write_back(self, table: str, shown: Any) -> bool:
        answer = self.client.put(f"/{table}/{quote(shown['id'], safe='')}", json=shown)
        assert answer.status_code in (200, 404, 405, 409, 422), answer.text
        return answer.status_code == 200

    def position(self) -> Any:
        return self.get(f"/{TABLE}/$changes").json()["version"]

    def beginning(self) -> Any:
        return 0

    def since(self, position: Any) -> list[Told]:
        answer = self.get(f"/{TABLE}/$changes", version=position)
        return [] if answer.status_code == 304 else list(map(self._told, answer.json()["changes"]))

    @staticmethod
    def _told(change: Any) -> Told:
        kind = {"created": "insert", "updated": "update", "deleted": "delete"}[change["event"]]
        resource = change["resource"]
        return Told(kind, resource["id"], None if kind == "delete" else resource["n"])

    @contextmanager
    def listening(self) -> Iterator[Callable[[int], list[Told]]]:
        headers = {"Accept": "text/event-stream"}
        with self._client() as client, client.stream("GET", f"/{TABLE}/$changes", headers=headers) as answer:
            lines = answer.iter_lines()
            # A comment: the stream is there.
            next(lines)
            found: list[Told] = []

            def wait(count: int) -> list[Told]:
                while len(found) < count:
                    line = next(lines)
                    if line.startswith("data: {"):
                        found.extend(map(self._told, json.loads(line[6:])["changes"]))
                return found

            yield wait


class MongoDB(Way):
    """By PyMongo, over a socket. A step is a transaction."""

    name = "mongodb"

    @classmethod
    def serve(cls, db: Any, stack: ExitStack, port: int = 0) -> Any:
        from reactdb.servers.mongodb import serve_in_thread

        return stack.enter_context(serve_in_thread(db, port=port)).port

    def connect(self, address: Any, stack: ExitStack) -> None:
        import pymongo
        from bson.timestamp import Timestamp

        self.timestamp = Timestamp
        self.client = stack.enter_context(
            pymongo.MongoClient("127.0.0.1", address, serverSelectionTimeoutMS=60_000)
        )
        # Tables with plain names are the collections of this database.
        self.collection = self.client["reactdb"][TABLE]

    def write(self, step: Step) -> None:
        with self.client.start_session() as session, session.start_transaction():
            for key, n in step:
                if n is None:
                    self.collection.delete_one({"_id": key}, session=session)
                else:
                    self.collection.replace_one({"_id": key}, {"n": n}, upsert=True, session=session)

    def documents(self, table: str) -> list[Any]:
        return list(self._collection(table).find())

    @contextmanager
    def following(self, table: str) -> Iterator[Callable[[int], list[Any]]]:
        with self._collection(table).watch() as stream:
            yield lambda count: [next(stream)["fullDocument"] for _ in range(count)]

    def put(self, table: str, key: str, fields: dict[str, Any]) -> bool:
        from bson.errors import InvalidDocument
        from pymongo.errors import WriteError

        try:
            return self._collection(table).insert_one({**fields, "_id": key}).acknowledged
        except (InvalidDocument, WriteError):
            return False

    def write_back(self, table: str, shown: Any) -> bool:
        from pymongo.errors import WriteError

        if self.timestamp(0, 0) in shown.values():
            # It would be set to the moment of the write, as in MongoDB.
            return False
        try:
            return bool(self._collection(table).replace_one({"_id": shown["_id"]}, shown).matched_count)
        except WriteError:
            return False

    def _collection(self, table: str) -> Any:
        # Documents as they are: no references are made, and dates may be of any year.
        from bson.codec_options import CodecOptions, DatetimeConversion
        from bson.raw_bson import RawBSONDocument

        options: Any = CodecOptions(RawBSONDocument, datetime_conversion=DatetimeConversion.DATETIME_AUTO)
        return self.client["reactdb"].get_collection(table, codec_options=options)

    def numbers(self) -> dict[str, int]:
        return by_key(self.collection.find())

    def position(self) -> Any:
        with self.collection.watch(max_await_time_ms=1) as stream:
            stream.try_next()
            return {"resume_after": stream.resume_token}

    def beginning(self) -> Any:
        return {"start_at_operation_time": self.timestamp(1, 1)}

    def commits(self) -> list[int] | None:
        with self.collection.watch(max_await_time_ms=1, **self.beginning()) as stream:
            times = [event["clusterTime"] for event in iter(stream.try_next, None)]
        return [len(list(events)) for _, events in groupby(times)]

    def since(self, position: Any) -> list[Told]:
        found: list[Told] = []
        while True:
            with self.collection.watch(max_await_time_ms=1, **position) as stream:
                while (event := stream.try_next()) is not None:
                    if event["operationType"] == "invalidate":
                        break
                    if event["operationType"] != "drop":
                        found.append(self._told(event))
                else:
                    return found
            # The collection was dropped: what comes after is told by another stream, and is of another collection.
            found.clear()
            position = {"start_after": event["_id"]}

    @staticmethod
    def _told(event: Any) -> Told:
        kind = {"replace": "update"}.get(event["operationType"], event["operationType"])
        document = event.get("fullDocument")
        if document is None and kind == "update":
            # What was changed, where a native writer has updated it.
            document = event["updateDescription"]["updatedFields"]
        return Told(kind, event["documentKey"]["_id"], None if document is None else document["n"])

    @contextmanager
    def listening(self) -> Iterator[Callable[[int], list[Told]]]:
        with self.collection.watch() as stream:
            found: list[Told] = []

            def wait(count: int) -> list[Told]:
                while len(found) < count:
                    found.append(self._told(next(stream)))
                return found

            yield wait


# A way, and what has to be installed for it.
NEEDS: list[tuple[type[Way], tuple[str, ...]]] = [
    (Native, ()),
    (RethinkDB, ("rethinkdb",)),
    (CouchDB, ("starlette", "uvicorn", "yaml", "httpx")),
    (Aidbox, ("starlette", "uvicorn", "yaml", "httpx")),
    (MongoDB, ("pymongo",)),
]
WAYS: list[type[Way]] = [way for way, modules in NEEDS if all(map(find_spec, modules))]


def same(way: Way, wanted: list[Told], found: list[Told]) -> None:
    """What a way has told is what has happened."""
    if way.tells_each:
        assert wanted == found
    else:
        assert collapsed(wanted) == collapsed(found)


@contextmanager
def connected(path: Any, ways: list[type[Way]]) -> Iterator[tuple[Any, list[Way]]]:
    """The file, opened, and every way connected to it."""
    with reactdb.connect(path) as db, ExitStack() as stack:
        db.table_create(TABLE, primary_key="_id", exist_ok=True)
        found = [way(db, stack) for way in ways]
        for way in found:
            way.begin()
        yield db, found
