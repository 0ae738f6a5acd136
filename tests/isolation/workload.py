"""Histories: what concurrent transactions do to one file, from a seed, and what they see.

A lane is a thread that makes one transaction after the other, by one face of the database. A crew is one process with its own
handle, its own MongoDB server, and a lane of each face. All of them read and append to the same few lists; now and then they
go on to others, so that the lists stay short.

Rule of this file: it notes what was done and seen, and judges nothing.
"""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from io import RawIOBase
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple, Protocol

import pymongo
import pymongo.errors

import reactdb
from reactdb import row
from reactdb.database import Database
from reactdb.servers.mongodb import serve_in_thread
from tests.isolation.history import (
    ABORTED,
    COMMITTED,
    DOUBT,
    SERIALIZABLE,
    SNAPSHOT,
    Append,
    Read,
    Transaction,
)
from tests.support.threads import wait_until

DATABASE, COLLECTION = "isolation", "lists"
TABLE: Final = f"{DATABASE}.{COLLECTION}"
KEYS_OF_A_GROUP = 5
# Of one lane, until it goes on to the next keys.
TRANSACTIONS_OF_A_GROUP = 25
PATIENCE_S = 120.0


class Plan(NamedTuple):
    """What one transaction is to do. `steps`: "append" and a key, "read" and a key, or "read all" and a group."""

    steps: tuple[tuple[str, str], ...]
    gives_up: bool = False


class GaveUp(Exception):
    """The transaction was to be aborted."""


class Statements(Protocol):
    """What can be done inside of a transaction."""

    def read(self, key: str) -> Sequence[str]: ...

    def read_all(self, group: str) -> dict[str, Sequence[str]]:
        """By the index, so a key that is not there is left out."""
        ...

    def append(self, key: str, value: str) -> None: ...


class Face:
    """A way to make transactions."""

    name: str
    promise: str
    commits_each = False
    """Whether each statement is committed when it is carried out."""

    def transaction(self) -> Any:
        """A context manager that gives Statements. It commits at its end, and aborts where an exception leaves it."""
        raise NotImplementedError

    def plan(self, chance: Random, group: str) -> Plan:
        """A transaction of two to five steps."""
        keys = keys_of(group)
        steps = []
        for _ in range(chance.randint(2, 5)):
            what = chance.choices(("append", "read", "read all"), (4, 3, 1))[0]
            steps.append((what, group if what == "read all" else chance.choice(keys)))
        return Plan(tuple(steps), gives_up=chance.random() < 0.1)


class NativeStatements:
    def __init__(self, db: Database) -> None:
        self._lists = db.table(TABLE)

    def read(self, key: str) -> Sequence[str]:
        found = self._lists.get(key).run()
        return () if found is None else found["values"]

    def read_all(self, group: str) -> dict[str, Sequence[str]]:
        return {one["_id"]: one["values"] for one in self._lists.get_all(group, index="group").run()}

    def append(self, key: str, value: str) -> None:
        if self._lists.get(key).update({"values": row["values"].append(value)})["skipped"]:
            self._lists.insert({"_id": key, "group": group_of(key), "values": [value]})


class Native(Face):
    name, promise = "native", SERIALIZABLE

    def __init__(self, db: Database) -> None:
        self._db = db

    @contextmanager
    def transaction(self) -> Iterator[Statements]:
        with self._db.transaction() as inside:
            yield NativeStatements(inside)


class NativeReads(Native):
    """One read of several lists outside of any transaction: it sees one moment."""

    name = "native-reads"

    @contextmanager
    def transaction(self) -> Iterator[Statements]:
        yield NativeStatements(self._db)

    def plan(self, chance: Random, group: str) -> Plan:
        return Plan((("read all", group),))


class MongoStatements:
    def __init__(self, lists: Any, session: Any = None) -> None:
        self._lists, self._session = lists, session

    def read(self, key: str) -> Sequence[str]:
        found = self._lists.find_one({"_id": key}, session=self._session)
        return () if found is None else found["values"]

    def read_all(self, group: str) -> dict[str, Sequence[str]]:
        return {
            one["_id"]: one["values"] for one in self._lists.find({"group": group}, session=self._session)
        }

    def append(self, key: str, value: str) -> None:
        update = {"$push": {"values": value}, "$setOnInsert": {"group": group_of(key)}}
        self._lists.update_one({"_id": key}, update, upsert=True, session=self._session)


class MongoDB(Face):
    """Multi-document transactions of a session. `client`: PyMongo's, or that in the process."""

    promise = SNAPSHOT

    def __init__(self, client: Any, name: str) -> None:
        self.name = name
        self._client = client

    @contextmanager
    def transaction(self) -> Iterator[Statements]:
        lists = self._client[DATABASE][COLLECTION]
        with self._client.start_session() as session, session.start_transaction():
            yield MongoStatements(lists, session)


class MongoDBStatements(MongoDB):
    """One statement outside of any transaction: an append, or a read of several lists."""

    promise = SERIALIZABLE
    commits_each = True

    @contextmanager
    def transaction(self) -> Iterator[Statements]:
        yield MongoStatements(self._client[DATABASE][COLLECTION])

    def plan(self, chance: Random, group: str) -> Plan:
        if chance.random() < 0.5:
            return Plan((("append", chance.choice(keys_of(group))),))
        return Plan((("read all", group),))


def keys_of(group: str) -> list[str]:
    return [f"{group}.{number}" for number in range(KEYS_OF_A_GROUP)]


def group_of(key: str) -> str:
    return key.rpartition(".")[0]


def is_refusal(error: Exception) -> bool:
    """Whether a transaction may end with this: it is to be tried again, or had to wait for too long."""
    if isinstance(error, pymongo.errors.PyMongoError):
        return error.has_error_label("TransientTransactionError") or is_doubt(error)
    return isinstance(error, reactdb.DatabaseBusy) or is_doubt(error)


def is_doubt(error: Exception) -> bool:
    """Whether a commit that ended with this may have been carried out."""
    if isinstance(error, pymongo.errors.PyMongoError):
        return error.has_error_label("UnknownTransactionCommitResult")
    return isinstance(error, reactdb.OutcomeUnknown)


Note = Callable[[Transaction], None]


class Recorder:
    """Carries out one transaction, step by step, and notes it. Any error but a refusal is raised.

    `note` is given the transaction twice: in doubt, before it is committed, and as it has ended.
    """

    def __init__(self, face: Face, name: str, note: Note = lambda _: None) -> None:
        self._face, self._name, self._note = face, name, note
        self._began = 0
        self.operations: list[Read | Append] = []

    def do(self, statements: Statements, what: str, name: str) -> None:
        """One step of a plan."""
        if what == "append":
            value = f"{self._name}.{len(self.operations)}"
            # Before it is done: what an aborted transaction has tried must not be seen either.
            self.operations.append(Append(name, value))
            if self._face.commits_each:
                self._note(self.noted(DOUBT, self._began))
            statements.append(name, value)
        elif what == "read":
            self.operations.append(Read(name, tuple(statements.read(name))))
        else:
            found = statements.read_all(name)
            self.operations += [Read(key, tuple(found.pop(key, ()))) for key in keys_of(name)]
            assert not found, found

    def carry_out(self, plan: Plan) -> Transaction:
        self._began = time.monotonic_ns()
        has_asked = False
        try:
            with self._face.transaction() as statements:
                for what, name in plan.steps:
                    self.do(statements, what, name)
                    # Another thread's turn: so transactions are open at the same time.
                    time.sleep(0)
                if plan.gives_up:
                    raise GaveUp
                has_asked = True
                self._note(self.noted(DOUBT, self._began))
            state = COMMITTED
        except GaveUp:
            state = ABORTED
        except Exception as error:
            if not is_refusal(error):
                raise
            state = DOUBT if has_asked and is_doubt(error) else ABORTED
        done = self.noted(state, self._began)
        self._note(done)
        return done

    def noted(self, state: str, began: int) -> Transaction:
        return Transaction(
            self._name, self._face.promise, tuple(self.operations), state, began, time.monotonic_ns()
        )


@dataclass(frozen=True)
class Orders:
    """What one crew is to do. `count`: transactions of each lane; `notes`: a file for what they do and see."""

    path: Path
    notes: Path
    seed: int
    crew: int
    count: int
    durability: str = "soft"


def prepare(path: Path) -> None:
    """Make the lists and their indexes, of both kinds."""
    with reactdb.connect(path) as db:
        lists = db.table_create(TABLE, primary_key="_id")
        lists.index_create("group")
        reactdb.mongodb(db)[DATABASE][COLLECTION].create_index([("group", 1)], name="group_of_mongodb")


def crew(orders: Orders) -> None:
    """A process with its own handle and server, and a lane of each face."""
    with ExitStack() as stack:
        # On a busy machine a writer waits for long: that is no anomaly.
        db = stack.enter_context(
            reactdb.connect(orders.path, durability=orders.durability, busy_timeout=PATIENCE_S)
        )
        server = stack.enter_context(serve_in_thread(db))
        client: Any = stack.enter_context(pymongo.MongoClient(server.uri))
        inside = reactdb.mongodb(db)
        faces = [
            Native(db),
            MongoDB(inside, "mongodb-inside"),
            MongoDB(client, "mongodb"),
            MongoDB(client, "mongodb-too"),
            NativeReads(db),
            MongoDBStatements(client, "mongodb-statements"),
        ]
        pool = stack.enter_context(ThreadPoolExecutor(len(faces)))
        # Each note is one call of the system, so a process that is killed leaves whole ones.
        notes = stack.enter_context(orders.notes.open("ab", buffering=0))
        for done in [pool.submit(lane, face, orders, notes) for face in faces]:
            done.result(PATIENCE_S)


def lane(face: Face, orders: Orders, notes: RawIOBase) -> None:
    chance = Random(f"{orders.seed} {orders.crew} {face.name}")
    for number in range(orders.count):
        plan = face.plan(chance, group_at(number))
        name = f"{face.name}.{orders.crew}.{number}"
        Recorder(face, name, lambda one: notes.write(pickle.dumps(one))).carry_out(plan)


def read_notes(path: Path) -> list[Transaction]:
    """What a crew has noted: of each transaction the last word."""
    found: dict[str, Transaction] = {}
    if path.exists():
        with path.open("rb") as notes:
            while notes.peek(1):
                one = pickle.load(notes)
                found[one.name] = one
    return list(found.values())


def group_at(number: int) -> str:
    return f"group{number // TRANSACTIONS_OF_A_GROUP}"


def last_look(path: Path, count: int) -> Transaction:
    """All lists at the end, read in one transaction."""
    with reactdb.connect(path) as db:
        groups = dict.fromkeys(group_at(number) for number in range(count))
        return Recorder(Native(db), "last-look").carry_out(
            Plan(tuple(("read all", group) for group in groups))
        )


def run_round(path: Path, seed: int, count: int, processes: int, kills: int = 0) -> list[Transaction]:
    """The history of one round on a new file: of this process alone, or of others, so many at once, of which some are killed and
    replaced."""
    prepare(path)
    notes = [path.with_name(f"{path.stem}.{number}.notes") for number in range(max(1, processes + kills))]
    orders = [
        Orders(path, one, seed, number, count, ("soft", "hard")[number % 2])
        for number, one in enumerate(notes)
    ]
    if processes:
        run_processes(orders, processes, Random(f"{seed} kills"))
    else:
        crew(orders[0])
    return [*(one for file in notes for one in read_notes(file)), last_look(path, count)]


def run_processes(orders: Sequence[Orders], at_once: int, chance: Random) -> None:
    """A process for each of the orders, of which so many run at once. For each of the others the oldest one is killed."""
    context = multiprocessing.get_context("spawn")
    running: list[tuple[Any, Orders]] = []
    for one in orders:
        if len(running) == at_once:
            process, killed = running.pop(0)
            # Some 300 bytes are one note.
            wait_until(
                partial(is_past, process, killed.notes, chance.randrange(3_000, 300 * killed.count)),
                PATIENCE_S,
            )
            process.kill()
            process.join(PATIENCE_S)
            assert process.exitcode in (0, -signal.SIGKILL), f"crew {killed.crew} has failed"
        process = context.Process(target=crew, args=(one,))
        process.start()
        running.append((process, one))
    for process, ended in running:
        process.join(PATIENCE_S)
        assert process.exitcode == 0, f"crew {ended.crew} has failed"


def is_past(process: Any, notes: Path, size: int) -> bool:
    """Whether a crew has noted so many bytes, or has ended."""
    return not process.is_alive() or (notes.exists() and notes.stat().st_size >= size)
