"""The workers: what each process of the swarm does until it is killed or the round ends, and what it says of it.

A worker says what it is about to write before it begins, and what came of it before it begins the next: so whatever it does not
say when it dies, the parent knows of one write at most whether it is there.

    begin lane number step    done lane number    failed lane number    doubt lane number
    heard worker seq key old new                                          of a feed in the process that writes, of its own writes
    unheard worker                                                        that feed has ended: compaction was quicker
    told seq key old new token, begins token, lost since oldest           of the follower
    batch [[seq, key, old, new], ...]                                     of the consumer to the outside
    backup file    export file seq                                        of tasks
    trouble error                                                         something was refused, as may be
    error traceback                                                       something else: the round has failed

Rule of this file: a worker judges nothing; the referee knows what must be.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pymongo.errors
import rethinkdb.errors

import reactdb
from reactdb.database import Database
from reactdb.durable import worker

# Servers are imported here, because that takes half a second and forked processes need it at once.
from reactdb.servers import mongodb  # noqa: F401
from reactdb.servers import rethinkdb as _rethinkdb  # noqa: F401
from reactdb.servers.http import HTTPServer, aidbox, couchdb  # noqa: F401
from reactdb.session import session_of
from tests.one_story.story import TABLE, Step
from tests.one_story.ways import WAYS, CouchDB, Native, Way
from tests.support.command import run as run_command
from tests.swarm import mistakes, schedule

PATIENCE_S = 60.0
LEASE_S = 0.4
KEYS_OF_A_LANE = 4
LEDGER, OUTBOX = "ledger", "outbox"
DONE = "done"
DIALECTS = [way for way in WAYS if way is not Native]

Say = Callable[..., None]
# Errors that may be refusals of what was asked for: `is_refusal` knows.
Errors = (
    reactdb.ReactDBError,
    OSError,
    AssertionError,
    sqlite3.Error,
    httpx.HTTPError,
    pymongo.errors.PyMongoError,
    rethinkdb.errors.ReqlError,
)
# Trouble of the file that no fault of the swarm's explains.
NEVER = (
    reactdb.CorruptDatabase,
    reactdb.errors.StorageMoved,
    reactdb.errors.NotADatabase,
    reactdb.errors.IncompatibleFormat,
    reactdb.errors.WalTooLarge,
)
NOTHING_WRITTEN = "nothing was written"


def is_refusal(error: Exception) -> bool:
    """Whether an error is what may come: of a full disk, a server that was killed, or a consumer whose work another has. An
    answer over a socket says why."""
    if isinstance(error, pymongo.errors.OperationFailure):
        # Compaction has removed what a transaction reads, or the server was killed in the middle of it.
        return NOTHING_WRITTEN in str(error) or error.has_error_label("TransientTransactionError")
    if isinstance(error, (AssertionError, rethinkdb.errors.ReqlRuntimeError)):
        return NOTHING_WRITTEN in str(error)
    if isinstance(error, reactdb.ReactDBError):
        return isinstance(
            error, (reactdb.errors.StorageError, reactdb.errors.LeaseLost, reactdb.errors.SyncFailed)
        ) and not (isinstance(error, NEVER))
    if isinstance(error, sqlite3.Error):
        # Of a backup, which is SQLite's own.
        return "disk is full" in str(error)
    return isinstance(
        error,
        (OSError, httpx.TransportError, pymongo.errors.ConnectionFailure, rethinkdb.errors.ReqlDriverError),
    )


def is_known(error: Exception) -> bool:
    """Whether a write that was refused with this is not there, by what is promised."""
    if isinstance(error, reactdb.ReactDBError):
        return not isinstance(error, reactdb.OutcomeUnknown)
    return NOTHING_WRITTEN in str(error)


def check(error: Exception, say: Say) -> None:
    """Raise what is no refusal; else go on a moment later."""
    if not is_refusal(error):
        raise error
    say("trouble", repr(error))
    time.sleep(0.02)


@dataclass(frozen=True)
class Orders:
    """What a process is to do. `life` counts all processes; `since`: where the follower goes on; `task`: of a task."""

    name: str
    folder: str
    seed: int
    round: int
    life: int
    mistake: str = ""
    since: str | None = None
    task: str = ""
    value: Any = None

    @property
    def chance(self) -> Random:
        return Random(f"{self.seed} {self.name} {self.round} {self.life}")

    def file(self, name: str) -> Path:
        return Path(self.folder, name)

    @property
    def here(self) -> Path:
        return self.file("here.db")

    @property
    def there(self) -> Path:
        return self.file("there.db")

    def is_over(self) -> bool:
        """Whether nobody is to begin anything more."""
        return self.file(f"stop-{self.round}").exists()

    def is_closed(self) -> bool:
        """Whether nobody needs a server any more."""
        return self.file(f"close-{self.round}").exists()


class Listener(logging.Handler):
    """Says what is logged as an error."""

    def __init__(self, say: Say) -> None:
        super().__init__(logging.ERROR)
        self.say = say

    def emit(self, record: logging.LogRecord) -> None:
        self.say("error", f"{record.name}: {self.format(record)[-2_000:]}")


class TakenBack(Exception):
    """Ends a transaction that is to leave nothing."""


def live(orders: Orders, pipe: Any) -> None:
    """One process's life, until it is killed or the round ends."""
    lock = threading.Lock()

    def say(*words: Any) -> None:
        with lock:
            pipe.send_bytes(json.dumps(words).encode())

    logging.getLogger().addHandler(Listener(say))
    # RethinkDB's driver complains of sockets that are closed twice.
    logging.getLogger("rethinkdb.logger").disabled = True
    mistakes.make(orders.mistake)
    try:
        if orders.task:
            perform(orders, say)
        else:
            ROLES[orders.name.partition("-")[0]](orders, say)
    except BaseException:
        say("error", traceback.format_exc())


def opened(path: Path, orders: Orders, say: Say, **options: Any) -> Database:
    """The file, as soon as it can be opened."""
    while True:
        try:
            return reactdb.connect(path, busy_timeout=PATIENCE_S, **options)
        except reactdb.errors.StorageError as error:
            check(error, say)


# ---------------------------------------------------------------------------------------------------------------
# Writing


def lane(orders: Orders, say: Say, name: str, write: Callable[[Step], None], most: int) -> None:
    """Random steps of up to `most` documents, one after the other, with keys of its own. Returns where the outcome of one is not
    known: what may still come of it must not meet another."""
    chance = Random(name)
    keys = [f"{name}.{place}" for place in range(KEYS_OF_A_LANE)]
    number = 0
    while not orders.is_over():
        number += 1
        chosen = chance.sample(keys, chance.randint(1, most))
        step: Step = [(key, None if chance.random() < 0.25 else number) for key in chosen]
        say("begin", name, number, step)
        if orders.mistake == mistakes.ACKNOWLEDGED_EARLY and name.startswith("native"):
            say("done", name, number)
            time.sleep(0.02)
        try:
            write(step)
        except TakenBack:
            say("failed", name, number)
        except Errors as error:
            check(error, say)
            say("failed" if is_known(error) else "doubt", name, number)
            if not is_known(error):
                return
        else:
            say("done", name, number)
        time.sleep(chance.random() * chance.choice((0.001, 0.01, 0.05)))


def lanes(orders: Orders, say: Say, name: str, write: Callable[[Step], None], most: int) -> None:
    """One lane after the other, to the end."""
    number = 0
    while not orders.is_over():
        number += 1
        lane(orders, say, f"{name}.{orders.round}.{orders.life}.{number}", write, most)


def natively(db: Database, orders: Orders) -> Callable[[Step], None]:
    """Writes of every kind: with and without a transaction, hard and soft, taken back."""
    chance, table = orders.chance, db.table(TABLE)
    way = Native(db, ExitStack())

    def write(step: Step) -> None:
        kind = chance.random()
        durability = chance.choice(("hard", "soft"))
        if kind < 0.1 and orders.mistake == mistakes.NOT_WRITTEN:
            return
        if kind < 0.05:
            with db.transaction():
                way.write(step)
                raise TakenBack
        if len(step) > 1 or kind < 0.3:
            with db.transaction(durability=durability):
                way.write(step)
            return
        ((key, n),) = step
        if n is None:
            table.get(key).delete(durability=durability)
        else:
            table.insert({"_id": key, "n": n}, conflict="replace", durability=durability)

    return write


def native(orders: Orders, say: Say) -> None:
    name = f"{orders.name}.{orders.round}.{orders.life}"

    def hear(event: Any) -> None:
        seq, key, *rest = change_of(event)
        if key.startswith(f"{name}."):
            say("heard", name, seq, key, *rest)

    def on_error(error: Exception) -> None:
        if isinstance(error, reactdb.HistoryLost):
            # Another process has removed what this one had still to read of the others' writes.
            say("unheard", name)
        else:
            say("error", f"a feed of {name} has ended: {error!r}")

    with opened(orders.here, orders, say) as db:
        db.table(TABLE).changes(include_seq=True).subscribe(hear, on_error)
        lanes(orders, say, orders.name, natively(db, orders), 3)


def serve(db: Database, ways: Sequence[type[Way]], file: Path, stack: ExitStack) -> None:
    """Servers at the ports that they had in an earlier life, so that their clients find them again. The file has the ports."""
    before = json.loads(file.read_text()) if file.exists() else {}
    ports = {}
    for way in ways:
        try:
            ports[way.name] = way.serve(db, stack, before.get(way.name, 0))
        except reactdb.errors.CannotListen:
            # Another program was quicker.
            ports[way.name] = way.serve(db, stack)
    new = file.with_suffix(f".{os.getpid()}")
    new.write_text(json.dumps(ports))
    new.rename(file)


def server(orders: Orders, say: Say) -> None:
    """Every dialect, over its sockets."""
    with opened(orders.here, orders, say) as db, ExitStack() as stack:
        serve(db, DIALECTS, orders.file("servers"), stack)
        while not orders.is_closed():
            time.sleep(0.02)


def clients(orders: Orders, say: Say) -> None:
    """A client of each dialect, in a thread of its own."""

    def run(way: type[Way]) -> None:
        try:
            client(orders, say, way)
        except BaseException:
            say("error", traceback.format_exc())

    threads = [threading.Thread(target=run, args=(way,)) for way in DIALECTS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def client(orders: Orders, say: Say, way: type[Way]) -> None:
    number = 0
    while not orders.is_over():
        number += 1
        name = f"{way.name}.{orders.round}.{orders.life}.{number}"
        try:
            address = json.loads(orders.file("servers").read_text())[way.name]
            with ExitStack() as stack:
                connected = way(None, stack, address)
                lane(orders, say, name, connected.write, 3 if way.has_commits else 1)
        except Errors as error:
            check(error, say)


# ---------------------------------------------------------------------------------------------------------------
# Delivering


def consumer(db: Database, name: str) -> Any:
    return db.consumer(
        name, db.table(TABLE), since=0, lease_s=LEASE_S, backoff_s=0.001, most_backoff_s=0.01
    ).batches(max_changes=20, max_wait_s=0)


def note(db: Database, batch: Any, mistake: str = "") -> None:
    """What a batch has, into the ledger, by the transaction that acknowledges it."""
    seqs = [change["seq"] for change in batch]
    if mistake == mistakes.NOTED_APART:
        db.table(DONE).insert({"seqs": seqs})
        time.sleep(0.02)
    with batch, db.transaction():
        if mistake != mistakes.NOTED_APART:
            db.table(DONE).insert({"seqs": seqs})
        # The database may have ended the batch by itself, where another worker has the lease.
        if batch.state == worker.OPEN:
            batch.acknowledge()


def deliver(orders: Orders, say: Say, name: str, take: Callable[[Database, Any], None]) -> None:
    """Give the batches of a durable consumer to `take`, one after the other."""
    with opened(orders.here, orders, say) as db:
        while not orders.is_over():
            try:
                with consumer(db, name) as worker:
                    while not orders.is_over():
                        batch = worker.poll()
                        if batch is None:
                            time.sleep(0.005)
                        else:
                            take(db, batch)
            except Errors as error:
                check(error, say)


def ledger(orders: Orders, say: Say) -> None:
    deliver(orders, say, LEDGER, lambda db, batch: note(db, batch, orders.mistake))


def outbox(orders: Orders, say: Say) -> None:
    chance = orders.chance

    def take(db: Database, batch: Any) -> None:
        with batch:
            changes = list(batch)
            if orders.mistake == mistakes.NOT_DELIVERED and chance.random() < 0.1:
                changes.pop()
            say("batch", [change_of(change) for change in changes])

    deliver(orders, say, OUTBOX, take)


def change_of(change: Any) -> list[Any]:
    """seq, key, and the n before and after, None for no document."""
    old, new = change["old_val"], change["new_val"]
    return [
        change["seq"],
        (new or old)["_id"],
        None if old is None else old["n"],
        None if new is None else new["n"],
    ]


def follower(orders: Orders, say: Say) -> None:
    """Every change of the table, as a feed delivers it, with the token behind it."""
    with opened(orders.here, orders, say) as db:
        since = orders.since
        while not orders.is_over():
            try:
                if since is None:
                    since = db.token
                    say("begins", since)
                feed = db.table(TABLE).changes(since=since, include_seq=True, on_overflow="spill")
                with feed.cursor() as cursor:
                    while not orders.is_over():
                        try:
                            change = cursor.next(timeout=0.05)
                        except TimeoutError:
                            continue
                        since = feed.token
                        say("told", *change_of(change), since)
            except reactdb.HistoryLost as error:
                say("lost", error.since, error.oldest)
                since = None
            except Errors as error:
                check(error, say)


# ---------------------------------------------------------------------------------------------------------------
# The other file


def there(orders: Orders, say: Say) -> None:
    """The other file, behind CouchDB's HTTP, and written natively."""
    with opened(orders.there, orders, say) as db, ExitStack() as stack:
        serve(db, [CouchDB], orders.file("other"), stack)
        lanes(orders, say, orders.name, natively(db, orders), 3)
        while not orders.is_closed():
            time.sleep(0.02)


def url_of(address: Any) -> str:
    return f"http://127.0.0.1:{address}/{TABLE}"


def syncer(orders: Orders, say: Say) -> None:
    with opened(orders.here, orders, say) as db:
        while not orders.is_over():
            try:
                address = json.loads(orders.file("other").read_text())[CouchDB.name]
                reactdb.sync(db, TABLE, url_of(address), batch_size=5)
            except Errors as error:
                check(error, say)
            time.sleep(0.02)


ROLES: dict[str, Callable[[Orders, Say], None]] = {
    "native": native,
    "server": server,
    "clients": clients,
    "ledger": ledger,
    "outbox": outbox,
    "follower": follower,
    "there": there,
    "syncer": syncer,
}


# ---------------------------------------------------------------------------------------------------------------
# Tasks


def perform(orders: Orders, say: Say) -> None:
    """One task of upkeep, on the file here."""
    try:
        if orders.task == schedule.BACKUP:
            say("backup", str(back_up(orders)))
        elif orders.task == schedule.EXPORT:
            export(orders, say)
        else:
            with reactdb.connect(orders.here, busy_timeout=PATIENCE_S) as db:
                tidy(db, orders.task, orders.value)
    except Errors as error:
        check(error, say)


def tidy(db: Database, task: str, value: Any) -> None:
    kept = {"1 s": timedelta(seconds=1), "all": None, "vacuum": 0}.get(value, value)
    if task == schedule.COMPACT:
        db.compact(kept, vacuum=value == "vacuum")
    elif task == schedule.RETAIN:
        db.set_retention(kept)
    else:
        writer = session_of(db).engine.writable()
        writer.run_in_turn(writer.checkpoints.run)


def back_up(orders: Orders) -> Path:
    """A copy by SQLite's own means, which looks at no promise of reactdb's. Its name keeps the faults away from it."""
    target = orders.file(f"backup-{orders.life}.copy")
    with (
        closing(sqlite3.connect(f"file:{orders.here}?mode=ro", uri=True, timeout=PATIENCE_S)) as source,
        closing(sqlite3.connect(target)) as copy,
    ):
        source.backup(copy, pages=20)
    return target


def export(orders: Orders, say: Say) -> None:
    target = orders.file(f"export-{orders.life}.jsonl")
    done = run_command("export", orders.here, TABLE, target, "--json")
    if done.exit_code == 0:
        say("export", str(target), json.loads(done.stderr)["seq"])
    else:
        say("trouble", f"export: {done.stderr}")
