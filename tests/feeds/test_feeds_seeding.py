"""Views with state bootstrap beside the writers: no writer waits, and no event is lost or delivered twice meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb import TableNotFound, UsageError, desc, row
from reactdb.feeds import bootstrap, hub
from reactdb.feeds.log_reader import LogReader
from reactdb.session import session_of
from tests.support.feed_kinds import Kind, prepare
from tests.support.replica import Replica

PATIENCE_S = 20.0

KINDS = [
    Kind("sum", lambda db: db.table("games").sum("v"), shape="one"),
    Kind("group", lambda db: db.table("games").group("a").count(), shape="groups"),
    Kind("distinct", lambda db: db.table("games").distinct("v")),
    Kind("limit", lambda db: db.table("games").order_by(index=desc("a")).limit(3), has_offsets=True),
    Kind("order", lambda db: db.table("games").order_by("v"), has_offsets=True),
    Kind("union", lambda db: db.table("games").order_by("v").limit(2).union(db.table("others"))),
]


@pytest.fixture
def filed(tmp_path: Path) -> Iterator[Any]:
    """On a file: in memory, a commit waits for the reads that are going on."""
    with reactdb.connect(tmp_path / "test.db", durability="soft") as db:
        prepare(db)
        db.table("games").insert([{"id": key, "a": key % 3, "v": key % 4} for key in range(10)])
        yield db


NUMBERS = count()


def write(db: Any, number: int) -> None:
    """So many changes, each of them one."""
    for step in range(number):
        body = {"a": step % 5, "v": step % 7, "number": next(NUMBERS)}
        db.table("games").insert({"id": step % 17, **body}, conflict="replace")


class Listener:
    def __init__(self, db: Any, kind: Kind, **options: Any) -> None:
        self.kind = kind
        self.replica = Replica(
            [] if "since" not in options else kind.answer(db),
            by_offset=kind.has_offsets,
            name_of=kind.name_of,
        )
        self.errors: list[Exception] = []
        asked = {"include_initial": "since" not in options, "include_offsets": kind.has_offsets, **options}
        kind.ask(db).changes(**asked).subscribe(self.replica.apply, self.errors.append)

    def check(self, db: Any) -> None:
        assert [] == self.errors
        self.replica.assert_equals(self.kind.answer(db), self.kind)


def test_nobody_waits_while_a_view_is_seeded(filed: Any) -> None:
    games = filed.table("games")
    is_seeding, is_written = threading.Event(), threading.Event()
    told: list[Any] = []

    def slow(document: Any) -> bool:
        is_seeding.set()
        return is_written.wait(PATIENCE_S)

    watched = games.filter(slow).count()
    thread = threading.Thread(target=lambda: watched.changes(include_initial=True).subscribe(told.append))
    thread.start()
    assert is_seeding.wait(PATIENCE_S)

    writer = threading.Thread(target=games.insert, args=({"id": 99},))
    writer.start()
    writer.join(PATIENCE_S / 2)
    has_waited = writer.is_alive()
    is_written.set()
    thread.join()
    writer.join()

    assert not has_waited
    assert [{"new_val": 11}] == told


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("number", [1, hub.LAST_CHANGES, hub.LAST_CHANGES + 1, 700])
def test_what_is_written_while_a_view_is_seeded_is_in_it_once(
    filed: Any, kind: Kind, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = LogReader.seed
    left = [number]

    def seed_and_write(reader: LogReader, now: Any) -> None:
        seed(reader, now)
        if left:
            write(filed, left.pop())

    monkeypatch.setattr(LogReader, "seed", seed_and_write)
    listener = Listener(filed, kind)

    assert [] == left
    listener.check(filed)
    write(filed, 30)
    listener.check(filed)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_writers_that_are_always_quicker_wait_once(
    filed: Any, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Subscribing comes to an end whatever they do."""
    read = LogReader.read

    def read_and_write(reader: LogReader, now: Any, *limit: int) -> Any:
        found = read(reader, now, *limit)
        if not hub.hub_of(session_of(filed).engine)._is_busy:
            write(filed, 3)
        return found

    monkeypatch.setattr(hub, "LAST_CHANGES", 1)
    monkeypatch.setattr(hub, "BOOTSTRAPS", 2)
    monkeypatch.setattr(bootstrap, "ROUNDS", 2)
    monkeypatch.setattr(LogReader, "read", read_and_write)
    seed = LogReader.seed
    monkeypatch.setattr(LogReader, "seed", lambda reader, now: (seed(reader, now), write(filed, 3)))
    listener = Listener(filed, kind)

    listener.check(filed)
    write(filed, 30)
    listener.check(filed)


def test_no_table_is_read_while_writers_wait(filed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """However quick they are: only the changes since the last look are read then."""
    read, seed = LogReader.read, LogReader.seed
    feeds = hub.hub_of(session_of(filed).engine)
    are_waiting: list[bool] = []

    def read_and_write(reader: LogReader, now: Any, *limit: int) -> Any:
        found = read(reader, now, *limit)
        if not feeds._is_busy:
            write(filed, 3)
        return found

    def seed_and_note(reader: LogReader, now: Any) -> None:
        are_waiting.append(feeds._is_busy)
        seed(reader, now)

    monkeypatch.setattr(hub, "LAST_CHANGES", 1)
    monkeypatch.setattr(LogReader, "read", read_and_write)
    monkeypatch.setattr(LogReader, "seed", seed_and_note)

    with filed.table("games").count().changes().cursor():
        assert [False] == are_waiting


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> list[int]:
    """Do something once, between the seed and joining. Returns what will hold how often views were seeded."""
    seed = LogReader.seed
    seeded: list[int] = []

    def seed_and_act(reader: LogReader, now: Any) -> None:
        seed(reader, now)
        seeded.append(now.seq)
        if len(seeded) == 1:
            act()

    monkeypatch.setattr(LogReader, "seed", seed_and_act)
    return seeded


def test_a_table_that_is_dropped_while_a_view_is_seeded_is_not_found(
    filed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = filed.table("games").count().changes()
    meanwhile(monkeypatch, lambda: filed.table_drop("games"))

    with pytest.raises(TableNotFound):
        feed.subscribe(print)
    assert hub.hub_of(session_of(filed).engine).is_clean


def test_an_index_that_is_made_again_while_a_view_is_seeded_is_read_anew(
    filed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    games = filed.table("games")
    kind = Kind("limit", lambda db: games.order_by(index="a").limit(3), has_offsets=True)

    def replace() -> None:
        games.index_drop("a")
        games.index_create("a", row["v"])

    seeded = meanwhile(monkeypatch, replace)
    listener = Listener(filed, kind)

    assert len(seeded) > 1
    listener.check(filed)
    write(filed, 30)
    listener.check(filed)


def test_history_that_is_compacted_while_a_view_is_seeded_is_not_missed(
    filed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compact() -> None:
        write(filed, 200)
        filed.compact(keep=0)

    meanwhile(monkeypatch, compact)
    listener = Listener(filed, KINDS[0])

    listener.check(filed)
    write(filed, 30)
    listener.check(filed)


def test_a_second_subscriber_of_the_same_question_is_not_seeded(
    filed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Listener(filed, KINDS[0])
    seeded = meanwhile(monkeypatch, lambda: None)

    second = Listener(filed, KINDS[0])
    write(filed, 30)

    assert [] == seeded
    first.check(filed)
    second.check(filed)


def test_two_who_seed_the_same_question_at_once_share_one_view(
    filed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    others: list[Listener] = []
    meanwhile(monkeypatch, lambda: in_a_thread(lambda: others.append(Listener(filed, KINDS[0]))))

    listener = Listener(filed, KINDS[0])
    write(filed, 30)

    assert 1 == len(hub.hub_of(session_of(filed).engine).open_views)
    for one in (listener, *others):
        one.check(filed)


def in_a_thread(act: Callable[[], None]) -> None:
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


def test_a_predicate_that_subscribes_while_it_is_seeded_is_refused(filed: Any) -> None:
    games = filed.table("games")
    refused: list[str] = []

    def subscribing(document: Any) -> bool:
        try:
            games.changes().subscribe(print)
        except UsageError as error:
            refused.append(str(error))
        return True

    games.filter(subscribing).count().changes().subscribe(print)

    assert 10 == len(refused)
    assert "must not subscribe" in refused[0]


@pytest.mark.parametrize(
    ("late", "expected"), [(hub.LAST_CHANGES, [True]), (hub.LAST_CHANGES + 1, [False, True])]
)
def test_who_goes_live_again_reads_no_more_than_a_few_changes_under_the_lock(
    filed: Any, late: int, expected: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writers wait meanwhile. Where more is left, it goes on reading beside them, and tries again."""
    rejoin = hub.FeedHub.rejoin
    results: list[bool] = []

    def write_and_rejoin(self: Any, subscription: Any, reader: Any) -> bool:
        if not results:
            write(filed, late)
        results.append(rejoin(self, subscription, reader))
        return results[-1]

    monkeypatch.setattr(hub.FeedHub, "rejoin", write_and_rejoin)
    feed = filed.table("games").changes(include_seq=True, changefeed_queue_size=1, on_overflow="spill")
    with feed.cursor() as cursor:
        since = filed.seq
        write(filed, 3)
        told = []
        while len(told) < 3 + late:
            told.append(cursor.next(timeout=PATIENCE_S)["seq"])
        with pytest.raises(TimeoutError):
            cursor.next(timeout=0)

    assert expected == results
    assert list(range(since + 1, since + 4 + late)) == told
