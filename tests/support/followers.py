"""FOLLOWERS: every kind of object that follows a table or a database, in the process and over the wire.

A new kind is one class here, with `covers`: the classes of the library that it tries. `tests/feeds/test_ends_of_followers.py`
tries each with every kind of end, and looks that no class is missing.

    with Stage(path) as stage:
        following = [one(stage) for one in FOLLOWERS]
        stage.db.table_drop("games")
        {one.name: one.how_it_ended() for one in following}
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import reactdb
from reactdb import row
from reactdb.cli.tail import follow
from tests.support.threads import PATIENCE_S, wait_until

TABLE = "games"
COMPLETED = "completed"


class Stage:
    """A file with a table, and what it takes to follow it. A context manager, which ends all of that."""

    def __init__(self, path: Path | str) -> None:
        self.path = str(path)
        self.stack = ExitStack()

    def __enter__(self) -> Stage:
        self.db = self.stack.enter_context(reactdb.connect(self.path, durability="soft"))
        self.db.table_create("damaged").insert({"id": 1, "text": "text 1"})
        self.table = self.db.table_create(TABLE)
        self.table.index_create("score")
        self.table.insert([{"id": str(number), "score": number} for number in range(4)])
        self._damage_a_document()
        # There is one change after it.
        self.since = self.db.seq - 1
        self.servers: dict[str, Any] = {}
        return self

    def _damage_a_document(self) -> None:
        """Of a table that nobody follows alone."""
        self.db.close()
        path = Path(self.path)
        path.write_bytes(path.read_bytes().replace(b"text 1", b"text 7"))
        self.db = self.stack.enter_context(reactdb.connect(self.path, durability="soft"))
        self.table = self.db.table(TABLE)

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def server(self, name: str, serve: Callable[[], Any]) -> Any:
        """One server of each kind, for all followers of the stage."""
        if name not in self.servers:
            # Of its own, so that a test can stop it.
            server = ExitStack()
            self.stack.push(server)
            self.servers[name] = (server, server.enter_context(serve()))
        return self.servers[name][1]

    def stop_servers(self) -> None:
        for server, _ in self.servers.values():
            server.close()


class Follower:
    """One kind. It begins when it is made.

    Attributes:
        covers: The classes of the library that are followers, and tried by this one.
        needs: Modules that have to be installed.
        is_of_all: It follows every table.
        needs_index: It ends with the index `score`.
        is_remote: It is told by a server.
        holds_history: Compaction waits for it.
    """

    covers: ClassVar[tuple[str, ...]] = ()
    needs: ClassVar[tuple[str, ...]] = ()
    is_of_all = False
    needs_index = False
    is_remote = False
    holds_history = False

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._ended = threading.Event()
        self._how: list[str] = []
        self.begin()

    @property
    def name(self) -> str:
        return type(self).__name__

    def begin(self) -> None:
        raise NotImplementedError

    def settle(self) -> None:
        """Wait until it has received what was written while the others began."""

    def end(self, how: object = COMPLETED) -> None:
        """Called when it hears of its end."""
        self._how.append(how if isinstance(how, str) else type(how).__name__)
        self._ended.set()

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def how_it_ended(self, timeout_s: float = PATIENCE_S) -> str:
        """The name of the error, or COMPLETED; and never twice."""
        if not self._ended.wait(timeout_s):
            return "nothing was heard"
        return " and ".join(self._how)


class Called(Follower):
    """A feed that calls back."""

    covers = ("Feed", "TypedFeed")

    def feed(self) -> Any:
        return self.stage.table.changes()

    def begin(self) -> None:
        self.feed().subscribe(lambda event: None, self.end, self.end)


class OfOneDocument(Called):
    def feed(self) -> Any:
        return self.stage.table.get("1").changes(include_initial=True)


class OfAFilter(Called):
    def feed(self) -> Any:
        return self.stage.table.filter(row["score"] > 1).changes()


class OfACount(Called):
    def feed(self) -> Any:
        return self.stage.table.count().changes(include_initial=True)


class OfAnIndex(Called):
    needs_index = True

    def feed(self) -> Any:
        return self.stage.table.order_by(index="score").limit(2).changes(include_initial=True)


class OfAllTables(Called):
    is_of_all = True

    def feed(self) -> Any:
        return self.stage.db.changes()


class InBatches(Called):
    def feed(self) -> Any:
        return self.stage.table.changes(batches=True)


class Squashed(Called):
    """Its time never comes while the test runs."""

    def feed(self) -> Any:
        return self.stage.table.changes(squash=3600)


class Spilling(Called):
    def feed(self) -> Any:
        return self.stage.table.changes(changefeed_queue_size=1, on_overflow="spill")


class Resumed(Called):
    """It has read on from the log."""

    def feed(self) -> Any:
        return self.stage.table.changes(since=0)


class Chained(Called):
    def feed(self) -> Any:
        return self.stage.table.changes().filter(row["new_val"]["score"] > 1).pluck("new_val")


class United(Called):
    def feed(self) -> Any:
        return self.stage.table.changes().union(self.stage.table.get("1").changes())


class Piped(Called):
    """By an operator of Rx."""

    def feed(self) -> Any:
        from reactivex import operators

        return self.stage.table.changes().pipe(operators.map(lambda event: event["new_val"]))


class Scheduled(Called):
    def begin(self) -> None:
        from reactivex.scheduler import EventLoopScheduler

        scheduler = EventLoopScheduler()
        self.stage.stack.callback(scheduler.dispose)
        self.feed().subscribe(lambda event: None, self.end, self.end, scheduler=scheduler)


class OfAListOfItsOwn(Follower):
    covers = ("LiveList",)

    def selection(self) -> Any:
        return self.stage.table.order_by("score").limit(2)

    def begin(self) -> None:
        self.board = reactdb.LiveList(self.selection())
        self.board.subscribe(lambda edits: None, on_error=self.end, on_completed=self.end)


class OfAListByAnIndex(OfAListOfItsOwn):
    needs_index = True

    def selection(self) -> Any:
        return self.stage.table.order_by(index="score").limit(2)


class OfAListAsObservable(OfAListOfItsOwn):
    def begin(self) -> None:
        self.board = reactdb.LiveList(self.selection())
        self.board.changes.subscribe(lambda edits: None, self.end, self.end)


class OfAValue(OfAListOfItsOwn):
    covers = ("LiveValue",)

    def begin(self) -> None:
        self.count = self.stage.table.count().live()
        self.count.subscribe(lambda value: None, on_error=self.end, on_completed=self.end)


class OfAFunction(Follower):
    """It has no table of its own: one that is dropped is an error of the function, which is tried again."""

    covers = ("Observation",)

    def begin(self) -> None:
        self.result = self.stage.db.observe(lambda db: "items" in db.table_list())
        self.result.subscribe(lambda value: None, on_error=self.end, on_completed=self.end)


class Waiting(Follower):
    """A thread that waits in a loop."""

    covers = ("Cursor",)

    def loop(self) -> Any:
        """What is iterated; it is there when this returns."""
        return iter(self.stage.table.changes())

    def begin(self) -> None:
        loop = self.loop()
        thread = threading.Thread(target=self._wait, args=(loop,), daemon=True)
        thread.start()

    def _wait(self, loop: Any) -> None:
        try:
            for _ in loop:
                pass
        except Exception as error:
            self.end(error)
        else:
            self.end()


class WaitingForAConsumer(Waiting):
    covers = ("Batches",)
    holds_history = True

    def loop(self) -> Iterator[Any]:
        selection = None if self.is_of_all else self.stage.table
        worker = self.stage.db.consumer(self.name, selection).batches(max_wait_s=0)
        assert worker.poll() is None
        return self._acknowledged(worker)

    @staticmethod
    def _acknowledged(worker: Any) -> Iterator[Any]:
        for batch in worker:
            with batch:
                yield batch


class WaitingForAConsumerOfAllTables(WaitingForAConsumer):
    is_of_all = True

    def settle(self) -> None:
        # A batch that is acknowledged after the database was closed is an error, and not the end of a wait.
        db = self.stage.db
        wait_until(lambda: all(one["lag"] == 0 for one in db.consumers() if one["name"] == self.name))


class Tailing(Waiting):
    """`reactdb tail --follow`."""

    def loop(self) -> Iterator[Any]:
        found = follow(self.stage.db, None if self.is_of_all else TABLE, self.stage.since)
        # It listens before it reads what there is.
        next(found)
        return found


class TailingAllTables(Tailing):
    is_of_all = True


class InACoroutine(Follower):
    """`async for`, in a loop of its own."""

    covers = ("AsyncCursor",)

    def following(self) -> Any:
        return aiter(self.stage.table.changes())

    def begin(self) -> None:
        is_there = threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(self._follow(is_there)), daemon=True)
        thread.start()
        assert is_there.wait(PATIENCE_S)

    async def _follow(self, is_there: threading.Event) -> None:
        following = self.following()
        asyncio.get_running_loop().call_soon(is_there.set)
        try:
            async for _ in following:
                pass
        except Exception as error:
            self.end(error)
        else:
            self.end()


class ConsumerInACoroutine(InACoroutine):
    covers = ("Batches",)
    holds_history = True

    def following(self) -> Any:
        worker = self.stage.db.consumer(self.name, self.stage.table).batches(max_wait_s=0)
        # It has its lease, and writes nothing for a while.
        assert worker.poll() is None
        return worker


class Asked(Follower):
    """A reader that is called back, and then asked until there is no more."""

    covers = ("FeedReader",)

    def begin(self) -> None:
        self.reader = self.stage.table.changes().reader()
        self.reader.on_ready = self._ask

    def _ask(self) -> None:
        try:
            while self.reader.poll():
                pass
        except Exception as error:
            self.end(error)
        else:
            if self.reader.is_finished:
                self.end()


class Kept(Follower):
    """A materialized view. Nobody is called, so it is looked at."""

    covers = ("Materialized",)
    holds_history = True

    def begin(self) -> None:
        self.view = self.stage.db.materialize(self.stage.table.count(), into="kept")

    @property
    def has_ended(self) -> bool:
        return not self.view.is_alive or self.view.error is not None

    def how_it_ended(self, timeout_s: float = PATIENCE_S) -> str:
        passed = threading.Event()
        for _ in range(int(timeout_s * 100)):
            if self.has_ended:
                break
            passed.wait(0.01)
        else:
            return "nothing was heard"
        return COMPLETED if self.view.error is None else type(self.view.error).__name__


class StreamInTheProcess(Waiting):
    """A change stream of MongoDB's dialect."""

    covers = ("EmbeddedChangeStream",)
    needs = ("pymongo",)

    def scope(self) -> Any:
        return reactdb.mongodb(self.stage.db)["reactdb"][TABLE]

    def loop(self) -> Any:
        return self.scope().watch()


class StreamOfAllInTheProcess(StreamInTheProcess):
    is_of_all = True

    def scope(self) -> Any:
        return reactdb.mongodb(self.stage.db)


# ---------------------------------------------------------------------------------------------------------------
# Over the wire


class OfRethinkDB(Waiting):
    covers = ("RethinkDBConversation", "Session", "Conversation")
    needs = ("rethinkdb",)
    is_remote = True

    def loop(self) -> Any:
        from rethinkdb import r

        from reactdb.servers.rethinkdb import serve_in_thread

        server = self.stage.server("rethinkdb", lambda: serve_in_thread(self.stage.db))
        connection = r.connect(host="127.0.0.1", port=server.port, timeout=PATIENCE_S)
        self.stage.stack.callback(connection.close, noreply_wait=False)
        return r.table(TABLE).changes(include_states=False).run(connection)


class OfMongoDB(Waiting):
    covers = ("MongoDBConversation",)
    needs = ("pymongo",)
    is_remote = True

    def loop(self) -> Any:
        import pymongo

        from reactdb.servers.mongodb import serve_in_thread

        server = self.stage.server("mongodb", lambda: serve_in_thread(self.stage.db))
        client: Any = pymongo.MongoClient(server.uri, serverSelectionTimeoutMS=3_000)
        self.stage.stack.callback(client.close)
        stream = client["reactdb"][TABLE].watch(max_await_time_ms=1_000)
        stream.try_next()
        return stream


class OverHTTP(Waiting):
    """One request, whose answer goes on until it ends."""

    needs = ("starlette", "uvicorn", "yaml", "httpx")
    is_remote = True
    dialect = "couchdb"
    path = f"/{TABLE}/_changes"
    parameters: ClassVar[dict[str, str]] = {}
    headers: ClassVar[dict[str, str]] = {}
    last = ""

    def loop(self) -> Iterator[str]:
        import httpx

        from reactdb.servers.http import serve_in_thread

        server = self.stage.server(
            self.dialect, lambda: serve_in_thread(self.stage.db, dialects=[self.dialect])
        )
        client = httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=PATIENCE_S, verify=False)
        self.stage.stack.callback(client.close)
        assert client.get(f"/{TABLE}").status_code == 200
        answer = self.stage.stack.enter_context(
            client.stream("GET", self.path, params=self.parameters, headers=self.headers)
        )
        assert answer.status_code == 200
        return answer.iter_lines()

    def _wait(self, loop: Any) -> None:
        try:
            for line in loop:
                self.last = line or self.last
        except Exception as error:
            self.end(error)
        else:
            self.end(self._said())

    def _said(self) -> str:
        """What its last line says of the end: an issue of FHIR, or nothing but where to go on."""
        last = self.last.removeprefix("data: ")
        issues = json.loads(last).get("issue") if last.startswith("{") else None
        return issues[0]["code"] if issues else COMPLETED


class CouchDBContinuous(OverHTTP):
    parameters: ClassVar = {"feed": "continuous", "since": "now", "heartbeat": "100"}


class CouchDBEventSource(OverHTTP):
    parameters: ClassVar = {"feed": "eventsource", "since": "now", "heartbeat": "100"}


class CouchDBLongPoll(OverHTTP):
    parameters: ClassVar = {"feed": "longpoll", "since": "now", "heartbeat": "100"}


class OfAidbox(OverHTTP):
    dialect = "aidbox"
    path = f"/{TABLE}/$changes"
    headers: ClassVar = {"Accept": "text/event-stream"}


def kinds() -> Iterator[type[Follower]]:
    """Every kind whose modules are installed."""

    def below(kind: type[Follower]) -> Iterator[type[Follower]]:
        for one in kind.__subclasses__():
            if one is not OverHTTP:
                yield one
            yield from below(one)

    return (kind for kind in below(Follower) if all(map(find_spec, kind.needs)))


FOLLOWERS: list[type[Follower]] = list(kinds())
