"""Makers: everything that a program can make with reactdb and be done with, as one register.

A kind is a function that makes one of it and ends it, in one of the ways in which it can end: closed, dropped, cancelled, lost.
`tests/laws/test_laws_leaks.py` has each of them done many times, and looks whether anything stays behind. A kind names the
public methods that it tries; `NO_MAKERS` has the others. A new public method has to be in one of the two.

Rule of this file: a kind leaves the documents and the tables of the stage as they were.
"""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import sys
import threading
import urllib.parse
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import timedelta
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import reactdb
from reactdb import row
from reactdb.change import HiddenTable
from reactdb.feeds import background
from reactdb.session import session_of
from reactdb.testing import Recorder, VirtualClock
from tests.support.threads import wait_until

Kind = Callable[["Stage"], object]

KINDS: dict[str, Kind] = {}
# The public methods that are tried, as "Class.method".
TRIED: set[str] = set()


def kind(name: str, *methods: str) -> Callable[[Kind], Kind]:
    """Put a function into the register. `methods`: what it tries."""

    def register(make_and_unmake: Kind) -> Kind:
        assert name not in KINDS
        KINDS[name] = make_and_unmake
        TRIED.update(methods)
        return make_and_unmake

    return register


# What functools.lru_cache makes.
CACHE = type(cache(lambda: None))
# Python's sqlite3 keeps weak references to some hundred cursors that are gone. Readers keep the sums of a state that they have
# read until they read another one. A connection keeps its newest statements, up to 128; a cursor that is kept is counted itself.
PASSING = ("weakref.ReferenceType", "reactdb.store.sums.Sums", "sqlite3.Statement")


# Blocks of memory that a round may leave, where there are many rounds: with few, what Python's sqlite3 keeps for a while is more.
BLOCKS = 20
LEAST_ROUNDS = 50


class Usage(NamedTuple):
    """What a process and a file take.

    Attributes:
        descriptors: Open files and sockets.
        threads: Threads that live.
        objects: How many objects there are, by type.
        blocks: Blocks of memory that Python has given out, also for texts and numbers.
        rows: How many rows each table of the file has, without history.
        file_bytes: Pages of the file that are in use.
    """

    descriptors: int
    threads: int
    objects: Counter[str]
    blocks: int
    rows: dict[str, int]
    file_bytes: int

    def growth(self, later: Usage, rounds: int, *, has_loop: bool = False) -> list[str]:
        """What has become more by at least one a round, in words.

        Args:
            has_loop: There is an event loop, which keeps up to a hundred timers that were cancelled. Then only objects of
                reactdb's own types count.
        """
        found = []
        if later.descriptors - self.descriptors >= max(2, rounds // 2):
            found.append(f"{later.descriptors - self.descriptors} descriptors")
        if later.threads - self.threads >= max(2, rounds // 2):
            found.append(f"{later.threads - self.threads} threads")
        for name, number in later.objects.items():
            grown = number - self.objects.get(name, 0)
            if grown >= rounds and name not in PASSING and (not has_loop or name.startswith("reactdb.")):
                found.append(f"{grown} objects of {name}")
        for name, number in later.rows.items():
            grown = number - self.rows.get(name, 0)
            if grown >= max(2, rounds // 2):
                found.append(f"{grown} rows of {name}")
        if rounds >= LEAST_ROUNDS and later.blocks - self.blocks >= BLOCKS * rounds:
            found.append(f"{later.blocks - self.blocks} blocks of memory")
        if later.file_bytes - self.file_bytes > 8 * 4_096:
            found.append(f"{later.file_bytes - self.file_bytes} bytes of the file")
        return found


class Stage:
    """A file with a table of some documents, and what kinds need beside: a second file's path, servers.

    Attributes:
        db: The database.
        games: Its table.
        other: The path of another file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.other = folder / "other.db"
        self._stack = ExitStack()
        self.db = self._stack.enter_context(
            reactdb.connect(folder / "stage.db", durability="soft", retention=None)
        )
        self.games = self.db.table_create("games")
        self.games.insert([{"id": n, "n": n} for n in range(5)])
        self.names = count()
        self._servers: dict[str, Any] = {}

    def close(self) -> None:
        self._stack.close()

    @property
    def has_servers(self) -> bool:
        return bool(self._servers)

    def server(self, protocol: str) -> Any:
        """A server of the stage's database that runs until the stage is closed."""
        if protocol not in self._servers:
            from reactdb.servers import http, mongodb, rethinkdb

            home = {"http": http, "mongodb": mongodb, "rethinkdb": rethinkdb}[protocol]
            self._servers[protocol] = self._stack.enter_context(home.serve_in_thread(self.db))
        return self._servers[protocol]

    def write(self) -> None:
        """One commit that every feed of the table hears of."""
        self.games.get(0).update({"n": row["n"] + 1})

    def usage(self) -> Usage:
        """What there is now, without what only waits to be tidied up."""
        self.write()
        self.db.compact(keep=0)
        for module in [one for name, one in sys.modules.items() if name.startswith("reactdb.")]:
            for one in list(vars(module).values()):
                # Such a cache has a bound. Half full it looks like a leak.
                if isinstance(one, CACHE):
                    one.cache_clear()
        # It keeps the addresses of clients, and each server has another port.
        urllib.parse.clear_cache()
        for _ in range(2):
            gc.collect()
        with session_of(self.db).read() as snapshot:
            connection = snapshot.connection
            tables = [
                name
                for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
                if not name.startswith("sqlite_")
            ]
            rows = {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            (free,) = connection.execute("PRAGMA freelist_count").fetchone()
        return Usage(
            len(os.listdir("/proc/self/fd")),
            # Without a server's workers: their pool grows by chance, up to its bound.
            sum(1 for thread in threading.enumerate() if not thread.name.startswith("reactdb-server_")),
            Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects()),
            sys.getallocatedblocks(),
            rows,
            (pages - free) * 4_096,
        )


# ---------------------------------------------------------------------------------------------------------------
# Tables and what is in them


@kind(
    "a table that is dropped",
    "Database.table_create",
    "Database.table_drop",
    "ReadableDatabase.table",
    "Table.insert",
)
def _table(stage: Stage) -> None:
    name = f"t{next(stage.names)}"
    table = stage.db.table_create(name)
    table.index_create("n")
    table.insert([{"id": n, "n": n} for n in range(3)])
    stage.db.table_drop(name)


@kind("an index that is dropped", "Table.index_create", "Table.index_drop", "Table.index_wait")
def _index(stage: Stage) -> None:
    stage.games.index_create("x", [row["n"], row["id"]])
    stage.games.index_wait("x")
    stage.games.index_drop("x")


@kind("a document that is deleted", "Selection.delete", "Selection.replace", "Selection.update", "Table.get")
def _document(stage: Stage) -> None:
    stage.games.insert({"id": "x"})
    stage.games.get("x").update({"n": 1})
    stage.games.get("x").replace({"id": "x", "n": 2})
    stage.games.get("x").delete()


@kind("a hidden table that is dropped")
def _hidden(stage: Stage) -> None:
    hidden = HiddenTable("leaks", f"h{next(stage.names)}")
    session_of(stage.db).make_hidden(hidden)
    session_of(stage.db).write(hidden, lambda write: None)
    session_of(stage.db).transact(lambda inside: inside.drop_table(inside.catalogue.live[hidden]))


@kind(
    "a blob that is removed",
    "ReadableDatabase.blobs",
    "Blobs.put",
    "Blobs.remove_unused",
    "Blobs.open",
    "Blobs.read",
)
def _blob(stage: Stage) -> None:
    blob = stage.db.blobs.put(b"x" * 300_000)
    with stage.db.blobs.open(blob) as file:
        file.read(10)
    stage.db.blobs.open(blob).read(10)
    stage.db.blobs.read(blob)
    stage.db.blobs.remove_unused(timedelta())


@kind("a transaction", "Database.transaction")
def _transaction(stage: Stage) -> None:
    with stage.db.transaction(), suppress(ValueError), stage.db.transaction():
        stage.games.insert({"id": "x"})
        raise ValueError
    with suppress(ValueError), stage.db.transaction():
        stage.games.insert({"id": "x"})
        raise ValueError


@kind("an answer", "Selection.run", "Selection.explain", "PointSelection.history", "Table.get_all")
def _answer(stage: Stage) -> None:
    stage.games.filter(row["n"] >= 0).order_by("n").limit(2).run()
    stage.games.get_all(1, 2).explain()
    stage.games.get(1).history()
    next(iter(stage.games))


@kind("the log, left in the middle", "ReadableDatabase.log")
def _log(stage: Stage) -> None:
    stage.write()
    stage.write()
    next(stage.db.log(stage.db.seq - 2))


@kind("a view of the past", "Database.at")
def _past(stage: Stage) -> None:
    stage.write()
    then = stage.db.at(stage.db.seq - 1)
    then.table("games").run()


# ---------------------------------------------------------------------------------------------------------------
# Handles


@kind("a table with an expiry", "Table.set_expiry")
def _expiring_table(stage: Stage) -> None:
    db = stage.db
    db.table_create("expiring", expire_after=timedelta(days=365), field="at")
    db.table("expiring").set_expiry(None)
    db.table_drop("expiring")


@kind("a backup", "Database.backup")
def _backup(stage: Stage) -> None:
    stage.db.backup(f"{stage.other}.backup", overwrite=True)


@kind("a migration", "Database.migrate")
def _migration(stage: Stage) -> None:
    stage.db.user_version = 0
    stage.db.migrate([lambda inside: inside.table("games").get(1).run()])


@kind("an undo stack with a subscriber", "Database.undo_stack")
def _undo_stack(stage: Stage) -> None:
    stack = stage.db.undo_stack(origin="ui")
    end = stack.subscribe(lambda stack: None)
    with stage.db.transaction(origin="ui"):
        stage.db.table("games").insert({"id": "undone"})
    stack.undo()
    end()


@kind("a table that is renamed", "Database.table_rename")
def _renamed_table(stage: Stage) -> None:
    stage.db.table_create("before")
    stage.db.table_rename("before", "after")
    stage.db.table_drop("after")


@kind("a handle that is closed", "Database.close")
def _handle(stage: Stage) -> None:
    with reactdb.connect(stage.other, durability="soft") as db:
        db.table_create("t", exist_ok=True).insert({"id": 1}, conflict="replace")
        with reactdb.connect(stage.other, read_only=True) as reader:
            reader.table("t").run()
            list(reader.table("t").changes(include_initial=True).limit(1))


@kind("a handle that is lost")
def _lost_handle(stage: Stage) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        db = reactdb.connect(stage.other, durability="soft")
        feed = db.table_create("t", exist_ok=True).changes()
        next(iter(db.table("t").changes(include_states=True)))
        del db, feed
        cycle: list[Any] = [reactdb.connect(stage.other)]
        cycle.append(cycle)
        del cycle
        gc.collect()


@kind("a second handle of the file")
def _second_handle(stage: Stage) -> None:
    with reactdb.connect(stage.db.path) as db:
        db.table("games").run()


@kind("a database in memory")
def _memory(stage: Stage) -> None:
    with reactdb.connect(":memory:") as db:
        db.table_create("t").changes().subscribe(print)
    lost = reactdb.connect(":memory:")
    lost.table_create("t").changes().subscribe(print)


@kind("a database with a virtual clock")
def _virtual_clock(stage: Stage) -> None:
    clock = VirtualClock()
    with reactdb.connect(":memory:", clock=clock) as db:
        table = db.table_create("t")
        table.changes(squash=60).subscribe(lambda event: None)
        table.insert({})
        clock.advance_by(30)
        table.insert({})


@kind("a copy", "Database.copy")
def _copy(stage: Stage) -> None:
    with stage.db.copy() as copy, copy.copy() as other:
        other.table("games").changes().subscribe(print)
    stage.db.copy().table("games").run()


# ---------------------------------------------------------------------------------------------------------------
# Followers


def _feeds(stage: Stage) -> list[Any]:
    """Of each kind of view one, and with each option that keeps something."""
    games = stage.games
    return [
        games.changes(include_initial=True),
        games.get(1).changes(include_initial=True),
        games.filter(row["n"] > 1).changes(squash=True),
        games.filter(lambda game: True).changes(on_overflow="spill", changefeed_queue_size=1),
        games.order_by("n").limit(2).changes(include_initial=True, include_offsets=True),
        games.count().changes(),
        games.group("n").count().changes(),
        games.changes(since=stage.db.seq).filter(row["new_val"]).limit(100),
        games.changes(batches=True),
        games.changes().union(stage.db.changes(include_catalogue=True)),
    ]


@kind(
    "a subscription",
    "FeedSource.changes",
    "Feed.subscribe",
    "Handle.dispose",
)
def _subscription(stage: Stage) -> None:
    handles = [feed.subscribe(lambda event: None) for feed in _feeds(stage)]
    stage.write()
    for handle in handles:
        handle.dispose()


@kind("a cursor", "Feed.cursor", "Cursor.next", "Feed.union")
def _cursor(stage: Stage) -> None:
    cursors = [feed.cursor() for feed in _feeds(stage)]
    stage.write()
    cursors[0].next(timeout=20)
    for cursor in cursors[::2]:
        cursor.close()


@kind("a loop that is left")
def _loop(stage: Stage) -> None:
    for _ in stage.games.changes(include_initial=True):
        break
    with suppress(ValueError):
        for _ in stage.games.changes(include_initial=True):
            raise ValueError


@kind("a reader", "Feed.reader")
def _reader(stage: Stage) -> None:
    readers = [feed.reader(lambda: None) for feed in _feeds(stage)]
    stage.write()
    for reader in readers[::2]:
        reader.poll()
        reader.close()


@kind("a feed that begins in a thread")
def _beginning(stage: Stage) -> None:
    # Every read counts as long. One after the other, because each thread that reads at the same time has a connection.
    before, background.MOST_DOCUMENTS = background.MOST_DOCUMENTS, -1
    try:
        for is_closed in (True, False):
            reader = stage.games.count().changes(include_initial=True).reader()
            if is_closed:
                reader.close()
            wait_until(lambda: background.background.threads.is_idle)
    finally:
        background.MOST_DOCUMENTS = before
    reader.poll()
    stage.write()


@kind(
    "an awaited database",
    "AsyncReadable.table",
    "AsyncReadable.log",
    "AsyncDatabase.changes",
    "AsyncDatabase.close",
    "AsyncDatabase.transaction",
    "AsyncOpenTransaction.share",
    "AsyncSelection.changes",
    "AsyncSelection.live",
)
def _awaited(stage: Stage) -> None:
    async def main() -> None:
        async with reactdb.aconnect(stage.db.path, durability="soft") as adb:
            games = adb.table("games")
            async with games.changes().acursor() as cursor, adb.changes().acursor():
                async with adb.transaction():
                    await games.insert({"id": "awaited"})
                await cursor.next()
            async with adb.transaction() as transaction:
                with transaction.share():
                    await games.get("awaited").delete()
            task = asyncio.ensure_future(games.insert({"id": "cancelled"}))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await games.get("cancelled").delete()
            with suppress(ValueError):
                async with adb.transaction():
                    raise ValueError
            async for _ in adb.log(since=await adb.seq - 1):
                break
            async with games.live() as board, games.count().live() as count:
                board.subscribe(lambda edits: None)
                count.subscribe(lambda value: None)

    asyncio.run(main())


@kind("a task that is cancelled", "AsyncCursor.aclose", "AsyncCursor.next", "Feed.acursor")
def _task(stage: Stage) -> None:
    async def follow(feed: Any) -> None:
        async for _ in feed:
            pass

    async def main() -> None:
        tasks = [asyncio.ensure_future(follow(feed)) for feed in _feeds(stage)]
        await asyncio.sleep(0)
        stage.write()
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with stage.games.changes(include_initial=True).acursor() as events:
            await events.next()

    asyncio.run(main())


@kind("a recorder")
def _recorder(stage: Stage) -> None:
    recorder = Recorder(stage.games.changes())
    stage.write()
    recorder.close()


@kind("a list")
def _list(stage: Stage) -> None:
    board = reactdb.LiveList(stage.games.order_by("n").limit(3))
    board.subscribe(lambda edits: None)
    stage.write()
    board.close()


@kind("live results", "Selection.live")
def _live(stage: Stage) -> None:
    with (
        stage.games.live() as board,
        stage.games.count().live() as count,
        stage.games.distinct("n").live() as values,
    ):
        board.subscribe(lambda edits: None)
        count.subscribe(lambda value: None)
        board.selection = stage.games.order_by("n")
        stage.write()
    assert values.state == "closed"
    # Without an end of its own.
    stage.games.live()


@kind("an observation", "Database.observe")
def _observation(stage: Stage) -> None:
    observation = stage.db.observe(lambda db: db.table("games").count().run())
    observation.subscribe(lambda value: None)
    stage.write()
    observation.close()


@kind("a feed whose table is dropped")
def _ended(stage: Stage) -> None:
    name = f"t{next(stage.names)}"
    table = stage.db.table_create(name)
    table.changes().subscribe(lambda event: None, lambda error: None)
    cursor = table.changes().cursor()
    stage.db.table_drop(name)
    with suppress(reactdb.errors.FeedError):
        cursor.next(timeout=20)


@kind("a durable consumer that is removed", "Database.consumer", "Database.consumers")
def _consumer(stage: Stage) -> None:
    consumer = stage.db.consumer("c", stage.games, partitions=2)
    with consumer.batches(max_wait_s=0) as batches:
        stage.write()
        with next(batches) as batch:
            list(batch)
    consumer.batches().poll()
    consumer.remove()


@kind("a materialized view that is dropped", "Database.materialize")
def _view(stage: Stage) -> None:
    view = stage.db.materialize(stage.games.filter(row["n"] > 1), into="view")
    stage.write()
    view.drop()


# ---------------------------------------------------------------------------------------------------------------
# Dialects and servers


@kind("a MongoDB client in the process")
def _mongodb(stage: Stage) -> None:
    client = reactdb.mongodb(stage.db)
    with client.start_session() as session, session.start_transaction():
        client["games"]["x"].insert_one({"_id": 1}, session=session)
    with client["games"]["x"].watch() as stream:
        client["games"]["x"].insert_one({"_id": 2})
        next(stream)
    list(client["games"]["x"].find())
    client.drop_database("games")
    client.close()


@kind("Aidbox in the process")
def _aidbox(stage: Stage) -> None:
    name = f"Kind{next(stage.names)}"
    aidbox = reactdb.aidbox(stage.db)
    stage.db.table_create(name)
    aidbox[name].create({"id": "a"})
    stage.db.table_drop(name)


@kind("a connection of RethinkDB's driver")
def _rethinkdb(stage: Stage) -> None:
    from rethinkdb import r

    connection = r.connect(port=stage.server("rethinkdb").port)
    feed = r.table("games").changes(include_states=True).run(connection)
    next(feed)
    connection.close(noreply_wait=False)
    _wait_for_no_subscription(stage)


@kind("a connection of MongoDB's driver")
def _pymongo(stage: Stage) -> None:
    from pymongo import MongoClient

    # The answer to a write that a driver may send again is kept for half an hour, and for 10,000 sessions at most.
    uri = stage.server("mongodb").uri
    with MongoClient(uri, retryWrites=False) as client, client["leaks"]["x"].watch() as stream:
        client["leaks"]["x"].insert_one({"_id": 1})
        next(stream)
        client.drop_database("leaks")


@kind("an HTTP connection")
def _http(stage: Stage) -> None:
    import httpx

    url = f"http://127.0.0.1:{stage.server('http').port}"
    with httpx.Client(base_url=url, timeout=20, verify=False) as client:
        assert client.get("/games").is_success
        with client.stream("GET", "/games/_changes?feed=continuous&since=now") as lines:
            assert lines.is_success
            stage.write()
            next(lines.iter_lines())


@kind("a socket that says nothing")
def _socket(stage: Stage) -> None:
    for protocol in ("rethinkdb", "mongodb"):
        server = stage.server(protocol)
        with socket.create_connection((server.host, server.port), timeout=20):
            pass


@kind("a server that is stopped")
def _server(stage: Stage) -> None:
    from reactdb.servers import http, mongodb, rethinkdb

    for home in (rethinkdb, mongodb, http):
        with home.serve_in_thread(stage.db):
            pass


@kind("an inspector on a port, a server that is stopped")
def _inspector(stage: Stage) -> None:
    import httpx

    from reactdb.servers.inspector.server import InspectorServer
    from reactdb.servers.server import in_thread

    own = {"X-Reactdb-Inspector": "1"}
    server = InspectorServer(stage.db, token=None)
    with (
        in_thread(server),
        httpx.Client(base_url=server.url, headers=own, timeout=20, verify=False) as client,
    ):
        for path in (
            "api/overview",
            "api/activity",
            "api/log",
            "api/document?table=games&key==0",
            "api/rows?table=games",
            "api/rows?table=games&order=n&where=n>1",
            f"api/rows?table=games&order=n&at={stage.db.seq}",
        ):
            answer = client.get(path)
            assert answer.is_success, answer.text
        for has_end in (True, False):
            with client.stream("GET", "api/stream") as answer:
                lines = answer.iter_lines()
                next(lines)
                if has_end:
                    stage.write()
                    next(lines)


@kind("streams for browsers, of a server that is stopped")
def _streams(stage: Stage) -> None:
    from tests.web.server import Program, follow, serving

    with serving(Program()) as program:
        program.serve({"all": stage.games, "best": stage.games.order_by("n").limit(2)})
        with follow(program) as client, follow(program) as other:
            client.next()
            stage.write()
            other.next()
            client.response.close()
            program.stop()


@kind("a synchronisation")
def _sync(stage: Stage) -> None:
    url = f"http://127.0.0.1:{stage.server('http').port}/games"
    # Each pair of databases has a document that says how far they are, and keeps it. So it is the same pair each time.
    with reactdb.connect(stage.other, durability="soft") as other:
        reactdb.sync(other, "games", url, push=False)


@kind("a synchronisation that goes on until it is stopped")
def _live_sync(stage: Stage) -> None:
    url = f"http://127.0.0.1:{stage.server('http').port}/games"
    with (
        reactdb.connect(stage.other, durability="soft") as other,
        reactdb.sync(other, "games", url, push=False, live=True),
    ):
        pass


def _wait_for_no_subscription(stage: Stage) -> None:
    wait_until(lambda: not stage.db.subscriptions())


# Public methods that make nothing which has to end: they say something, write something down, or describe what is to be read.
NO_MAKERS: dict[str, str] = {
    "ReadableDatabase": "changes_to_arrow path seq table_list token",
    "Database": "activity compact hold is_closed seq_at set_retention stats subscriptions user_version",
    "Selection": "aggregate avg between concat_map count distinct exists filter first group has_fields limit map max merge min "
    "nth one order_by pluck sample skip sum to_arrow to_pandas to_polars union with_fields without",
    "PointSelection": "attachment run",
    "Table": "index_list insert_many name primary_key upsert",
    "Feed": "average avg coerce_to concat_map contains count default distinct explain filter fold for_each group has_fields "
    "is_list limit map max merge min nth order_by pluck reduce run sample skip stats sum to_future token "
    "with_fields without",
    "Blobs": "get totals",
    "Cursor": "token",
    "AsyncCursor": "token",
    "AsyncDatabase": "sync user_version",
    "AsyncOpenTransaction": "close sync",
    "FeedReader": "is_ending is_finished is_reading on_ready poll position queued rest",
    "LiveList": "primary_key select selection subscribe",
}
