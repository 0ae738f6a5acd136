"""Law 9: whatever ends what somebody follows, whoever follows it hears of it, with the error, and once.

Every kind of follower (`tests/support/followers.py`) meets every kind of end here. `ENDS` says what it hears, where that is not
what most do.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

import reactdb
from reactdb.store import follow
from tests.support import followers
from tests.support.followers import COMPLETED, FOLLOWERS, TABLE, Follower, Stage
from tests.support.looks import without_looks
from tests.support.processes import another_process, run_python

# It goes on.
STAYS: Sequence[str] = ()


class End(NamedTuple):
    """What is done, what most followers hear of it, and what the others do: one of several words."""

    act: Callable[[Stage], None]
    most: Sequence[str]
    others: Mapping[type[Follower], Sequence[str]]
    concerns: Callable[[type[Follower]], bool] = lambda kind: True


def drop_the_table(stage: Stage) -> None:
    stage.db.table_drop(TABLE)


def drop_the_index(stage: Stage) -> None:
    stage.table.index_drop("score")


def close_the_database(stage: Stage) -> None:
    stage.db.close()


def move_the_file(stage: Stage) -> None:
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.rename(f"{stage.path}{suffix}", f"{stage.path}.away{suffix}")


def replace_the_file(stage: Stage) -> None:
    copy = f"{stage.path}.copy"
    Path(copy).write_bytes(Path(stage.path).read_bytes())
    os.replace(copy, stage.path)


def meet_damage(stage: Stage) -> None:
    with pytest.raises(reactdb.CorruptDatabase):
        stage.db.table("damaged").get(1).update({"n": 1})


def lose_history(stage: Stage) -> None:
    """Another process writes and compacts between two looks of this one."""
    with without_looks(stage.db), another_process(Path(stage.path)) as other:
        other.table(TABLE).insert({"id": "new", "score": 0})
        other.table(TABLE).get("new").delete()
        other.compact(keep=0)


def stop_the_servers(stage: Stage) -> None:
    stage.stop_servers()


COUCHDB = (followers.CouchDBContinuous, followers.CouchDBEventSource, followers.CouchDBLongPoll)
# A driver tries once more, and then says that nobody is there.
OF_PYMONGO = ("OperationFailure", "AutoReconnect", "ServerSelectionTimeoutError")
SHOWN = (
    followers.OfAListOfItsOwn,
    followers.OfAListByAnIndex,
    followers.OfAListAsObservable,
    followers.OfAValue,
    followers.OfAFunction,
)
STREAMS = (followers.StreamInTheProcess, followers.StreamOfAllInTheProcess)


def each(kinds: Sequence[type[Follower]], *words: str) -> dict[type[Follower], Sequence[str]]:
    return dict.fromkeys(kinds, words)


# A client of CouchDB's protocol is sent the last line, as by CouchDB, and told the reason when it asks again.
LOST: dict[type[Follower], Sequence[str]] = {
    followers.OfRethinkDB: ["ReqlOpFailedError"],
    followers.OfMongoDB: OF_PYMONGO,
    followers.OfAidbox: ["exception"],
    **each(COUCHDB, COMPLETED),
}
ENDS: dict[str, End] = {
    "the table is dropped": End(
        drop_the_table,
        ["FeedAborted"],
        {
            **{kind: STAYS for kind in FOLLOWERS if kind.is_of_all},
            followers.OfAFunction: STAYS,
            **each((followers.WaitingForAConsumer, followers.ConsumerInACoroutine), "TableNotFound"),
            # After `drop` and `invalidate`.
            **each((followers.StreamInTheProcess, followers.OfMongoDB), COMPLETED),
            **LOST,
            followers.OfMongoDB: [COMPLETED],
            followers.OfAidbox: ["not-found"],
        },
    ),
    "an index is dropped": End(
        drop_the_index,
        ["FeedAborted"],
        {kind: STAYS for kind in FOLLOWERS if not kind.needs_index},
        lambda kind: not kind.is_remote,
    ),
    "the database is closed": End(
        close_the_database,
        [COMPLETED],
        {
            **each(STREAMS, "DatabaseClosed"),
            **each((followers.Tailing, followers.TailingAllTables), COMPLETED, "DatabaseClosed"),
            **LOST,
            followers.OfRethinkDB: [COMPLETED],
            # That the program has closed its database is a mistake of its own.
            followers.OfAidbox: ["invalid"],
        },
    ),
    "the file is moved": End(move_the_file, ["StorageMoved"], LOST),
    "the file is replaced": End(replace_the_file, ["StorageMoved"], LOST, lambda kind: not kind.is_remote),
    "a write meets damage": End(
        meet_damage,
        ["CorruptDatabase"],
        # They read the log themselves, and what other processes write is there.
        dict.fromkeys(STREAMS, STAYS),
        lambda kind: not kind.is_remote,
    ),
    "history is lost": End(
        lose_history,
        ["HistoryLost"],
        # What shows an answer reads it anew.
        {**each(STREAMS, "OperationFailure"), **dict.fromkeys(SHOWN, STAYS)},
        lambda kind: not kind.is_remote and not kind.holds_history,
    ),
    "the servers stop": End(
        stop_the_servers,
        [],
        {
            followers.OfRethinkDB: ["ReqlDriverError"],
            followers.OfMongoDB: OF_PYMONGO,
            followers.OfAidbox: [COMPLETED],
            **each(COUCHDB, COMPLETED),
        },
        lambda kind: kind.is_remote,
    ),
}


# In the process, or over the wire: where it concerns anybody.
TRIED = [
    pytest.param(
        name,
        is_remote,
        id=f"{name}, {'over the wire' if is_remote else 'in the process'}",
        # A server that stops waits for its clients.
        marks=[pytest.mark.slow] if is_remote else [],
    )
    for name, end in ENDS.items()
    for is_remote in (False, True)
    if any(kind.is_remote is is_remote and end.concerns(kind) for kind in FOLLOWERS)
]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path / "a.db") as found:
        yield found


@pytest.mark.skipif(sys.platform == "win32", reason="there an open file cannot be moved")
@pytest.mark.parametrize(("name", "is_remote"), TRIED)
def test_every_kind_of_follower_hears_of_its_end(name: str, is_remote: bool, stage: Stage):
    end = ENDS[name]
    following = [kind(stage) for kind in FOLLOWERS if kind.is_remote is is_remote and end.concerns(kind)]
    for one in following:
        one.settle()
    end.act(stage)

    wanted = {one.name: end.others.get(type(one), end.most) for one in following}
    heard = {one.name: (one.how_it_ended(),) for one in following if wanted[one.name]}
    assert {name: words for name, words in heard.items() if words[0] not in wanted[name]} == {}
    assert [] == [one.name for one in following if not wanted[one.name] and one.has_ended]


def test_the_file_is_looked_at_often_enough_for_that():
    assert follow.LOOK_S + max(follow.SLOW_S, follow.REPORTED_S) < 1.0


IN_A_CHILD = """
import os, sys, warnings
import reactdb
from reactdb.errors import ForkedDatabase, StorageError
warnings.simplefilter("ignore")
db = reactdb.connect(sys.argv[1])
games = db.table_create("games")
board = reactdb.LiveList(games.order_by("id").limit(2))
followers = {
    "cursor": games.changes().cursor(),
    "reader": games.changes().reader(),
    "batches": db.consumer("sender").batches(max_wait_s=0),
    "view": db.materialize(games.count(), into="kept"),
}
child = os.fork()
if child == 0:
    found = [type(board.error).__name__ + " " + board.state]
    for what in (
        lambda: followers["cursor"].next(timeout=0),
        lambda: followers["reader"].poll(),
        lambda: followers["batches"].poll(),
        lambda: followers["view"].catch_up(),
    ):
        try:
            what()
            found.append("nothing was heard")
        except Exception as error:
            found.append(type(error).__name__)
    os.write(1, ", ".join(found).encode())
    os._exit(0)
os.waitpid(child, 0)
assert (board.error, board.state) == (None, "live")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_in_a_forked_child_every_follower_that_is_asked_says_that_it_is_the_parents(tmp_path: Path):
    said = run_python(IN_A_CHILD, tmp_path / "a.db")

    assert "ForkedDatabase failed, " + ", ".join(["ForkedDatabase"] * 4) == said


# ---------------------------------------------------------------------------------------------------------------
# The register

# What an object has that is asked, or that calls, for as long as something is followed.
FOLLOWS = ("__next__", "__anext__", "subscribe", "poll", "catch_up")
NOT_FOLLOWERS = {
    "BlobFile": "reads what is there",
    "BodyPartReader": "reads what is there",
    "Lines": "reads what is there",
    "Peekable": "reads what is there",
    "OldVersions": "reads what is there",
    "Walk": "reads what is there",
    "EmbeddedCommandCursor": "reads what is there",
    "EmbeddedCursor": "reads what is there; of a tailable cursor see `TailedDocuments`",
    "Pieces": "reads what is there",
    "RawBatchCursor": "reads what is there",
    "RawBatchCommandCursor": "reads what is there",
    "TailedDocuments": "waits for a second, and then asks the file again",
    "ReaderConsumer": "what a FeedReader stands on",
    "FollowedFeed": "stands on a FeedReader; the ends of streams are in tests/web",
    "RowFollower": "stands on a LiveList; the ends of models are in tests/qt",
    "Subscription": "what every feed stands on",
    "UndoStack": "reads the log when it is asked; its subscribers stand on a feed",
    "Engine": "the open file",
    "OpenFile": "the open file",
    "WritableFile": "the open file",
    "Publisher": "the open file",
    "Watched": "the open file",
    "FlushedWriter": "writes a file",
}


@pytest.mark.slow
def test_every_class_that_follows_something_is_in_the_register():
    found = set()
    for module in pkgutil.walk_packages(reactdb.__path__, "reactdb."):
        if module.name.endswith("__main__"):
            continue
        try:
            names = vars(importlib.import_module(module.name))
        except ImportError:
            # Of something that is not installed here.
            continue
        found |= {
            name
            for name, one in names.items()
            if inspect.isclass(one) and one.__module__ == module.name and not name.startswith("_")
            if any(hasattr(one, method) for method in FOLLOWS)
        }
    covered = {name for kind in FOLLOWERS for name in kind.covers}

    assert set() == found - covered - set(NOT_FOLLOWERS)
    assert set() == covered & set(NOT_FOLLOWERS)
