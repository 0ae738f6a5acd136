"""`db.activity()`: the feeds of every process that has the file open."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb import desc, row
from reactdb.errors import InvalidOption
from reactdb.session import session_of
from reactdb.store import activity
from tests.support.processes import ROOT, run_python
from tests.support.threads import wait_until

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="processes are not asked there")

# Two feeds of another process: a callback, and a cursor that takes nothing.
OTHER = """
import sys, reactdb
from reactdb import row
db = reactdb.connect(sys.argv[1], durability="soft")
games = db.table("games")
games.filter(row["score"] > 10).changes().subscribe(lambda event: None)
cursor = games.changes(changefeed_queue_size=50, on_overflow="error").cursor()
print("open", flush=True)
sys.stdin.readline()
"""
FORKING = """
import os, sys, reactdb
with reactdb.connect(sys.argv[1], durability="soft") as db:
    db.table("games").changes().subscribe(print)
    reading, writing = os.pipe()
    asking, asked = os.pipe()
    child = os.fork()
    if not child:
        inner = reactdb.connect(sys.argv[1], durability="soft")
        inner.table("games").changes().subscribe(print)
        os.write(writing, b"x")
        os.read(asking, 1)
        os._exit(0)
    os.read(reading, 1)
    found = []
    while child not in found:
        found = [one["process"] for one in db.activity(wait_s=0.3)["processes"]]
    print(found == [os.getpid(), child])
    os.write(asked, b"x")
    os.waitpid(child, 0)
"""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions of other tests do not come here."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@pytest.fixture
def db(path: Path) -> Iterator[Any]:
    with reactdb.connect(path, durability="soft") as database:
        database.table_create("games")
        yield database


@contextmanager
def another_process(path: Path) -> Iterator[int]:
    """A process with two feeds. Yields its number."""
    process = subprocess.Popen(
        [sys.executable, "-c", OTHER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    assert "open\n" == process.stdout.readline()
    try:
        yield process.pid
    finally:
        process.communicate("\n", timeout=60)


def find_process(db: Any, number: int, is_there: Callable[[Any], bool] = bool) -> dict[str, Any]:
    """The answer of a process, as soon as it has come and is the expected one."""
    found: list[dict[str, Any]] = []

    def look() -> bool:
        processes = db.activity(wait_s=0.3)["processes"]
        found[:] = [one for one in processes if one["process"] == number]
        return bool(found) and is_there(found[0])

    wait_until(look)
    return found[0]


def own_feeds(db: Any) -> list[dict[str, Any]]:
    return db.activity(wait_s=0)["processes"][0]["feeds"]


def user_folder(tmp_path: Path) -> Path:
    return tmp_path / "temporary" / f"reactdb-{os.getuid()}"


def file_folder(db: Any) -> Path:
    """The folder of questions about the file, made as an asking process makes it."""
    places = activity.find_folder(session_of(db).engine)
    assert places is not None
    for place in places:
        os.mkdir(place, 0o700)
    return Path(places[1])


# ---------------------------------------------------------------------------------------------------------------
# This process


def test_a_feed_is_described_by_its_selection_its_routing_and_its_position(db):
    cursor = db.table("games").between(1, 9).changes(changefeed_queue_size=7, on_overflow="drop").cursor()
    db.table("games").insert([{"id": 5}, {"id": 12}])

    (feed,) = own_feeds(db)
    assert {
        "purpose": "feed",
        "selection": "table('games').between(1, 9)",
        "table": "games",
        "kind": "range",
        "routing": "by a range of the primary key",
        "delivery": "cursor",
        "state": "live",
        "delivered": 0,
        "queued": 1,
        "dropped": 0,
        "queue_size": 7,
        "on_overflow": "drop",
        "squash_s": None,
        "seq": db.seq - 2,
        "lag": 2,
    } == feed
    cursor.close()


def test_live_results_and_observations_say_what_they_are(db):
    games = db.table("games")
    kept = [games.live(), games.count().live(), games.distinct().live()]
    kept.append(db.observe(lambda db: db.table("games").get(1).run()))

    feeds = own_feeds(db)
    assert [
        ("live list", "table('games').order_by()"),
        ("live value", "table('games').count()"),
        ("live list", "table('games').distinct()"),
    ] == [(feed["purpose"], feed["selection"]) for feed in feeds[:3]]
    assert ("observation", "games: 1 key") == (feeds[3]["purpose"], feeds[3]["routing"])
    assert "test_activity.py" in feeds[3]["selection"]
    for one in kept:
        one.close()


def test_an_undo_stack_and_a_consumer_say_what_they_are(db):
    end = db.undo_stack("ui").subscribe(lambda stack: None)
    with db.consumer("mail", db.table("games")).batches(max_wait_s=0) as batches:
        db.table("games").insert({"id": 1})
        next(batches)

        found = db.activity(wait_s=0)

    assert {"undo stack", "durable consumer"} == {feed["purpose"] for feed in found["processes"][0]["feeds"]}
    assert ["mail"] == [one["name"] for one in found["consumers"]]
    end()


def test_a_feed_of_a_dialect_has_the_name_of_the_dialect(db):
    r = pytest.importorskip("rethinkdb").RethinkDB()
    with reactdb.rethinkdb(db) as connection:
        feed = r.table("games").changes().run(connection)

        assert {"rethinkdb"} == {feed["purpose"] for feed in own_feeds(db)}
        feed.close()


def test_feeds_of_a_read_only_handle_belong_to_the_process(db, path):
    with reactdb.connect(path, read_only=True) as reading:
        reading.table("games").changes().subscribe(lambda event: None)
        db.changes().subscribe(lambda event: None)

        for handle in (db, reading):
            (process,) = handle.activity(wait_s=0)["processes"]
            assert {"all tables", "table('games')"} == {feed["selection"] for feed in process["feeds"]}


def test_of_very_many_feeds_the_first_are_described_and_all_are_counted(db, monkeypatch):
    monkeypatch.setattr(activity, "MOST_FEEDS", 2)
    for number in range(3):
        db.table("games").get(number).changes().subscribe(lambda event: None)

    (process,) = db.activity(wait_s=0)["processes"]
    assert (3, 2) == (process["feed_count"], len(process["feeds"]))


def test_a_database_in_memory_has_this_process_alone():
    with reactdb.connect(":memory:") as db:
        found = db.activity(wait_s=60)

        assert activity.IN_MEMORY == found["others"]
        assert [True] == [one["is_this"] for one in found["processes"]]


@pytest.mark.parametrize("wait_s", [-1, 61, True, "1", None])
def test_a_wait_that_is_no_number_of_seconds_is_refused(db, wait_s):
    with pytest.raises(InvalidOption, match="wait_s is a number of seconds from 0 to 60"):
        db.activity(wait_s=wait_s)


# ---------------------------------------------------------------------------------------------------------------
# Other processes


def test_the_feeds_of_another_process_are_seen_with_their_lag(db, path, tmp_path):
    with another_process(path) as number, reactdb.connect(path, read_only=True) as reading:
        db.table("games").insert([{"id": 1, "score": 20}, {"id": 2, "score": 5}])

        process = find_process(reading, number, lambda one: 1 == one["feeds"][0]["delivered"])
        assert (False, 2, "python -c") == (process["is_this"], process["feed_count"], process["program"])
        first, second = process["feeds"]
        assert ("table('games').filter(row['score'] > 10)", 0) == (first["selection"], first["lag"])
        assert (2, 2, 50, "error") == (
            second["queued"],
            second["lag"],
            second["queue_size"],
            second["on_overflow"],
        )
    # Nothing is left but the user's own folder.
    assert [] == list(user_folder(tmp_path).iterdir())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_parent_and_child_of_a_fork_are_two_processes(path):
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games")

    assert "True\n" == run_python(FORKING, path)


def test_both_engines_of_a_process_give_one_answer(db, path):
    with reactdb.connect(path, read_only=True) as reading:
        folder = file_folder(db)
        (folder / "1-a.ask").touch()
        for handle in (db, reading, db):
            activity.answer_questions(session_of(handle).engine)

        (answer,) = folder.glob("1-a.ask.*.json")
        assert os.getpid() == json.loads(answer.read_bytes())["process"]


def test_a_question_whose_process_has_died_is_not_answered_and_the_next_one_removes_it(db):
    folder = file_folder(db)
    old = folder / "1-a.ask"
    old.touch()
    os.utime(old, (1_000_000, 1_000_000))

    activity.answer_questions(session_of(db).engine)
    assert [old] == list(folder.iterdir())
    db.activity(wait_s=0.001)
    assert not folder.exists()


def test_a_withdrawn_question_leaves_no_answer(db):
    folder = file_folder(db)
    with pytest.raises(FileNotFoundError):
        activity._write_answer(str(folder), "1-a.ask", b"{}")

    assert [] == list(folder.iterdir())


def test_an_answer_that_is_no_answer_is_passed_over(db, monkeypatch):
    engine = session_of(db).engine

    def answer_badly(_: float) -> None:
        folder = Path(activity.find_folder(engine)[1])  # type: ignore[index]
        (question,) = folder.iterdir()
        for number, text in enumerate(["", "[1]", '{"process": "x"}', '{"process": 7, "feeds": []}']):
            (folder / f"{question.name}.{number}.json").write_text(text)

    monkeypatch.setattr(activity.time, "sleep", answer_badly)
    assert [7] == [one["process"] for one in db.activity()["processes"][1:]]


@pytest.mark.parametrize("kind", ["open to others", "a link", "a file"])
def test_a_folder_that_others_could_use_is_not_used(db, tmp_path, kind):
    folder = user_folder(tmp_path)
    if kind == "open to others":
        folder.mkdir()
        folder.chmod(0o777)
    elif kind == "a link":
        (tmp_path / "elsewhere").mkdir(0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.touch(0o600)

    found = db.activity(wait_s=60)

    assert f"{folder} is no folder of this user's alone, and so it is not used" == found["others"]
    assert [os.getpid()] == [one["process"] for one in found["processes"]]
    activity.answer_questions(session_of(db).engine)
    assert not (tmp_path / "elsewhere").exists() or [] == list((tmp_path / "elsewhere").iterdir())


def test_without_a_question_a_look_makes_nothing(db, tmp_path):
    activity.answer_questions(session_of(db).engine)

    assert not user_folder(tmp_path).exists()


def test_a_system_without_users_says_so(db, monkeypatch):
    monkeypatch.delattr(os, "getuid")

    assert activity.NO_USERS == db.activity(wait_s=60)["others"]
    activity.answer_questions(session_of(db).engine)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ([], "python"),
        ([""], "python"),
        (["-c"], "python -c"),
        (["/a/board.py"], "board.py"),
        (["/lib/reactdb/__main__.py"], "reactdb"),
    ],
)
def test_a_program_has_the_name_that_it_was_started_with(monkeypatch, arguments, name):
    monkeypatch.setattr(sys, "argv", arguments)

    assert name == activity.name_program()


# ---------------------------------------------------------------------------------------------------------------
# The text of a selection


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda games: games.get("a"), "table('games').get('a')"),
        (lambda games: games.get_all(*range(7)), "table('games').get_all(0, 1, 2, 3, 4, ... 2 more)"),
        (
            lambda games: games.between(1, 2, left_bound="open", right_bound="closed"),
            "table('games').between(1, 2, left_bound='open', right_bound='closed')",
        ),
        (
            lambda games: games.order_by(desc("score")).limit(3),
            "table('games').order_by(desc(row['score'])).limit(3)",
        ),
        (
            lambda games: games.order_by(index=desc("score")).limit(3),
            "table('games').order_by(index=desc('score')).limit(3)",
        ),
        (
            lambda games: games.get_all(1, index="score").map(row["score"]),
            "table('games').get_all(1, index='score').map(row['score'])",
        ),
        (lambda games: games.union(games.get_all(1)), "table('games').union(table('games').get_all(1))"),
        (lambda games: games.group("score").count(), "table('games').group(row['score']).count()"),
        (lambda games: games.filter(row["a"] == "x" * 999), None),
    ],
)
def test_a_selection_is_shown_as_it_was_written(db, make, text):
    db.table("games").index_create("score")
    selection = make(db.table("games"))

    with selection.changes().cursor():
        (feed,) = own_feeds(db)

    assert text == feed["selection"] or (text is None and len(feed["selection"]) <= 300)


def test_a_question_survives_that_another_one_removes_the_folder(tmp_path, monkeypatch):
    with reactdb.connect(tmp_path / "arena.db", durability="soft") as db:
        make = os.mkdir
        removed: list[object] = []

        def make_and_lose(path: Any, mode: int = 0o777) -> None:
            make(path, mode)
            if path == activity.find_folder(session_of(db).engine)[1] and not removed:
                # The other process had its answers in this moment.
                removed.append(path)
                os.rmdir(path)

        monkeypatch.setattr(os, "mkdir", make_and_lose)
        answers = activity.ask_others(session_of(db).engine, 0.0)

        assert (activity.ASKED, 1) == (answers.others, len(removed))
        assert not activity._own_questions
