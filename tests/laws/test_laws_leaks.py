"""Whatever is made and unmade leaves nothing: after N rounds descriptors, threads, objects and the file are as after N/2."""

from __future__ import annotations

import gc
import inspect
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import reactdb
from reactdb.aio.database import AsyncOpenTransaction, AsyncReadable
from reactdb.aio.selection import AsyncSelection
from reactdb.blobs import Blobs
from reactdb.database import ReadableDatabase
from reactdb.feed_source import FeedSource
from reactdb.feeds.feed import AsyncCursor, Cursor, Handle
from reactdb.table import PointSelection
from tests.support import makers
from tests.support.makers import KINDS, NO_MAKERS, TRIED, Kind, Stage
from tests.support.threads import PATIENCE_S

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")

# What is made once, such as a thread or a cache, is made in these.
WARM_UP = 3
ROUNDS = 6
# Where a round takes some hundred milliseconds, by words of the kind's name.
FEW_ROUNDS = 3
COSTLY = ("synchronisation", "HTTP", "server")
MANY_ROUNDS = 60


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    # Objects of other tests are no leaks of these, and to count them takes a second a time.
    gc.collect()
    gc.freeze()
    made = Stage(tmp_path)
    yield made
    made.close()


def leaks(stage: Stage, make_and_unmake: Kind, rounds: int, patience_s: float = PATIENCE_S) -> list[str]:
    """What grows by one a round or more. What another thread is about to tidy up, it may: a leak is there for ever."""
    for _ in range(min(WARM_UP, rounds - 1)):
        make_and_unmake(stage)
    # A cache that was still filling is full some rounds later.
    for _ in range(3):
        before = stage.usage()
        for _ in range(rounds):
            make_and_unmake(stage)
        found = before.growth(stage.usage(), rounds, has_loop=stage.has_servers)
        if not found:
            return []
    end, passed = time.monotonic() + patience_s, threading.Event()
    while found and time.monotonic() < end:
        passed.wait(0.05)
        found = before.growth(stage.usage(), rounds, has_loop=stage.has_servers)
    return found


@pytest.mark.parametrize("name", KINDS)
def test_what_is_made_and_unmade_leaves_nothing(name: str, stage: Stage):
    rounds = FEW_ROUNDS if any(word in name for word in COSTLY) else ROUNDS

    assert [] == leaks(stage, KINDS[name], rounds)


@pytest.mark.soak
@pytest.mark.parametrize("name", KINDS)
def test_what_is_made_and_unmade_many_times_leaves_nothing(name: str, stage: Stage):
    assert [] == leaks(stage, KINDS[name], MANY_ROUNDS)


@pytest.mark.parametrize(
    "what",
    [
        lambda stage: kept.append(stage.games.changes().cursor()),
        lambda stage: kept.append(open(os.devnull, "rb")),  # noqa: SIM115
        lambda stage: stage.db.table_create(f"kept{next(stage.names)}"),
        lambda stage: stage.games.changes().subscribe(print),
        lambda stage: stage.db.consumer(f"kept{next(stage.names)}").batches().poll(),
        lambda stage: stage.db.blobs.put(f"kept {next(stage.names)}".encode()),
    ],
    ids=["a cursor", "a descriptor", "a table", "a subscription", "a consumer", "a blob"],
)
def test_what_is_kept_is_found(what: Kind, stage: Stage):
    """The law can fail."""
    try:
        assert leaks(stage, what, ROUNDS, patience_s=0)
    finally:
        for one in kept:
            one.close()
        kept.clear()


kept: list = []


def test_every_public_maker_is_in_the_register():
    """So a new kind of object is tried, or it is said that there is nothing to end."""
    classes = (
        ReadableDatabase,
        reactdb.Database,
        FeedSource,
        reactdb.Selection,
        PointSelection,
        reactdb.Table,
        reactdb.Feed,
        Blobs,
        Handle,
        Cursor,
        AsyncCursor,
        AsyncReadable,
        reactdb.AsyncDatabase,
        AsyncOpenTransaction,
        AsyncSelection,
        reactdb.FeedReader,
        reactdb.LiveList,
    )
    public = {
        f"{one.__name__}.{name}"
        for one in classes
        for name, member in vars(one).items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    }
    known = TRIED | {f"{one}.{name}" for one, names in NO_MAKERS.items() for name in names.split()}

    assert [] == sorted(public - known), "put it into a kind of tests/support/makers.py, or into NO_MAKERS"
    assert [] == sorted(known - public)


def test_every_public_function_that_opens_something_is_tried():
    source = inspect.getsource(makers)

    assert [] == [
        name
        for name in ("connect", "aconnect", "aidbox", "mongodb", "sync", "LiveList")
        if f"reactdb.{name}(" not in source
    ]
