"""Pages of documents: at every offset and moment they are what a query answers."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from reactivex.scheduler import VirtualTimeScheduler

import reactdb
from reactdb import desc, row
from reactdb.errors import UsageError
from reactdb.key_spelling import key_of, key_text
from reactdb.servers.http.request_parts import RequestRefused
from reactdb.servers.inspector import past_tables, row_pages
from reactdb.session import session_of
from reactdb.store import old_versions
from reactdb.store.old_versions import OldVersions
from reactdb.values import codec
from reactdb.values.collation import key_value
from tests.servers.inspector.service import Inspector
from tests.support.threads import wait_until

KEYS: list[Any] = [*range(12), "0", "1", "=1", "a b", b"\x00", [1, "x"], 1.5]
VIEWS: list[dict[str, Any]] = [
    {},
    {"where": "score>3"},
    {"order": "score"},
    {"order": "score", "desc": "1"},
    {"where": "kind=even and not (score=1)", "order": "deep.value"},
]


@pytest.fixture(scope="module")
def db() -> Iterator[Any]:
    """A table with a random past: documents come, change, go and come back."""
    with reactdb.connect(":memory:") as database:
        games = database.table_create("games")
        database.table_create("others")
        choose = random.Random(38)
        for step in range(150):
            key = choose.choice(KEYS)
            if choose.random() < 0.3:
                games.get(key).delete()
            else:
                score = choose.randrange(8)
                document: dict[str, Any] = {
                    "id": key,
                    "score": score,
                    "kind": "odd" if score % 2 else "even",
                    "step": step,
                }
                if choose.random() < 0.5:
                    document["deep"] = {"value": choose.randrange(4)}
                games.insert(document, conflict="replace")
            database.table("others").insert({"id": step})
        yield database


@pytest.fixture(scope="module")
def page(db: Any) -> Iterator[Inspector]:
    inspector = Inspector(db)
    yield inspector
    inspector.application.close()


def answer_of(database: Any, view: dict[str, Any]) -> list[dict[str, Any]]:
    """The documents by the public interface."""
    selection = database.table("games")
    if "kind" in view.get("where", ""):
        selection = selection.filter((row["kind"] == "even") & (row["score"] != 1))
    elif "where" in view:
        selection = selection.filter(row["score"] > 3)
    if "order" in view:
        field = row["deep"]["value"] if view["order"] == "deep.value" else row["score"]
        selection = selection.order_by(desc(field) if "desc" in view else field)
    else:
        selection = selection.order_by("id")
    return list(selection.run())


def steps_of(documents: list[dict[str, Any]]) -> list[int]:
    return [document["step"] for document in documents]


@pytest.mark.parametrize("view", VIEWS, ids=str)
@pytest.mark.parametrize("at", [None, 279, 250, 123, 60, 10], ids=str)
def test_the_pages_together_are_the_answer_of_a_query(
    db: Any, page: Inspector, view: dict[str, Any], at: int | None
) -> None:
    expected = answer_of(db if at is None else db.at(at), view)

    found: list[Any] = []
    while True:
        answer = page.ask("rows", table="games", at=at, offset=len(found), limit=4, **view)
        assert answer["total"] == len(expected)
        if not answer["rows"]:
            break
        found += answer["rows"]

    assert [one["doc"]["step"] for one in found] == steps_of(expected)
    assert [one["key"] for one in found] == [key_text(document["id"]) for document in expected]


def test_keys_of_every_type_come_back_from_their_texts() -> None:
    for key in KEYS:
        assert key_of(key_text(key)) == key
    assert len({key_text(key) for key in KEYS}) == len(KEYS)


def test_keys_can_be_shown_from_the_last_to_the_first(db: Any, page: Inspector) -> None:
    expected = steps_of(answer_of(db, {}))[::-1]
    found = page.ask("rows", table="games", desc=1, offset=2, limit=5)
    assert [one["doc"]["step"] for one in found["rows"]] == expected[2:7]


@pytest.mark.parametrize("at", [None, 200], ids=str)
@pytest.mark.parametrize("view", [*VIEWS, {"desc": "1"}], ids=str)
def test_a_page_can_begin_some_rows_before_a_key(
    db: Any, page: Inspector, view: dict[str, Any], at: int | None
) -> None:
    if at is not None and view == {"desc": "1"}:
        view = {}
    rows = page.ask("rows", table="games", at=at, limit=100, **view)["rows"]
    for place in (0, len(rows) // 2, len(rows) - 1):
        answer = page.ask(
            "rows", table="games", at=at, limit=3, offset=1, anchor=rows[place]["key"], lead=2, **view
        )
        assert answer["anchor"] == place
        assert answer["offset"] == max(0, place - 2)
        assert answer["rows"] == rows[max(0, place - 2) :][:3]


def test_without_the_key_the_offset_counts(page: Inspector) -> None:
    for view in VIEWS:
        answer = page.ask("rows", table="games", limit=3, offset=1, anchor="nobody", lead=2, **view)
        assert (answer["anchor"], answer["offset"]) == (None, 1)


def test_a_followed_page_has_every_commit(page: Inspector, db: Any) -> None:
    games = db.table_create("live")
    query = games.filter(row["score"] > 2).order_by("score")
    inspector = Inspector(db)
    for number in range(20):
        games.insert({"id": number, "score": number % 5})

        def is_answer() -> bool:
            rows = inspector.ask("rows", table="live", where="score>2", order="score")["rows"]
            return [one["doc"] for one in rows] == list(query.run())

        # The list is kept current in its own thread, so the page is the answer soon.
        wait_until(is_answer)
    inspector.application.close()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"where": "score>"}, "position 7"),
        ({"where": "score ~ 3"}, "expected one of ="),
        ({"order": "a..b"}, "order: position"),
        ({"offset": "-1"}, "whole number"),
        ({"at": "x"}, "whole number"),
        ({"table": ""}, "Name the table"),
    ],
    ids=str,
)
def test_a_wrong_parameter_is_refused_with_a_sentence_that_helps(
    page: Inspector, wrong: dict[str, Any], words: str
) -> None:
    assert words in page.ask("rows", 400, **{"table": "games", **wrong})["error"]


def test_an_unknown_table_is_named(page: Inspector) -> None:
    assert "`nothing`" in page.ask("rows", 404, table="nothing")["error"]


def test_a_removed_moment_is_refused() -> None:
    with reactdb.connect(":memory:") as database:
        table = database.table_create("t")
        for number in range(50):
            table.insert({"id": number})
        inspector = Inspector(database)
        assert inspector.ask("rows", table="t", at=20, order="id")["total"] == 19
        database.compact(keep=5)
        assert "gone" in inspector.ask("rows", 410, table="t", at=20, order="id")["error"]
        assert "gone" in inspector.ask("rows", 410, table="t", at=20)["error"]
        inspector.application.close()


def test_a_past_page_stays_the_same_while_others_write() -> None:
    with reactdb.connect(":memory:") as database:
        table = database.table_create("t")
        table.insert([{"id": number, "a": 0} for number in range(30)])
        inspector = Inspector(database)
        at = database.seq
        before = inspector.ask("rows", table="t", at=at, limit=100)["rows"]
        choose = random.Random(7)
        for step in range(60):
            key = choose.randrange(40)
            if choose.random() < 0.3:
                table.get(key).delete()
            else:
                table.insert({"id": key, "a": step + 1}, conflict="replace")
            if step % 20 == 0:
                assert inspector.ask("rows", table="t", at=at, limit=100)["rows"] == before
        assert inspector.ask("rows", table="t", at=at, limit=100)["rows"] == before
        inspector.application.close()


def test_a_large_table_is_filtered_as_of_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_pages, "MOST_FOLLOWED", 10)
    with reactdb.connect(":memory:") as database:
        table = database.table_create("t")
        table.insert([{"id": number} for number in range(20)])
        inspector = Inspector(database)
        answer = inspector.ask("rows", table="t", where="id>=15")
        assert (answer["total"], answer["as_of"]) == (5, database.seq)
        assert inspector.ask("activity")["processes"][0]["feeds"] == []
        inspector.application.close()


def test_few_lists_are_followed_at_a_time_and_idle_ones_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with reactdb.connect(":memory:") as database:
        database.table_create("t").insert({"id": 1})
        inspector = Inspector(database)
        for number in range(10):
            inspector.ask("rows", table="t", where=f"id={number}")
        assert len(database.subscriptions()) == row_pages.MOST_LISTS
        monkeypatch.setattr(row_pages, "IDLE_S", -1.0)
        inspector.application._service.rows.end_idle()
        assert database.subscriptions() == []
        inspector.application.close()


def test_a_page_has_few_megabytes() -> None:
    with reactdb.connect(":memory:") as database:
        table = database.table_create("t")
        text = "x" * 3_000_000
        table.insert([{"id": number, "text": text} for number in range(6)])
        inspector = Inspector(database)
        rows = inspector.ask("rows", table="t")["rows"]
        assert [one.get("cut", False) for one in rows] == [False, False, True, True, True, True]
        assert [one["key"] for one in rows] == [f"={number}" for number in range(6)]
        inspector.application.close()


def test_a_value_keeps_its_digits_and_dates_are_texts() -> None:
    with reactdb.connect(":memory:") as database:
        database.table_create("t").insert({"id": 2**60, "data": b"\x01", "big": 2**53 + 1})
        inspector = Inspector(database)
        (only,) = inspector.ask("rows", table="t")["rows"]
        assert only == {"key": f"={2**60}", "doc": {"id": str(2**60), "data": "AQ==", "big": str(2**53 + 1)}}
        inspector.application.close()


@pytest.mark.parametrize("part", [5_000, 3])
def test_moments_in_any_order_have_the_documents_of_then(
    db: Any, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(old_versions, "PART_ENTRIES", part)
    inspector = Inspector(db)
    choose = random.Random(5)
    for _ in range(40):
        at = choose.randrange(3, db.seq + 1)
        order = choose.choice([None, "score"])
        rows = inspector.ask("rows", table="games", at=at, limit=100, order=order)["rows"]
        expected = answer_of(db.at(at), {} if order is None else {"order": order})
        assert [one["doc"]["step"] for one in rows] == steps_of(expected)
    inspector.application.close()


def test_what_is_read_in_parts_is_of_one_moment_while_others_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old_versions, "PART_ENTRIES", 7)
    monkeypatch.setattr(old_versions, "PART_KEYS", 3)
    choose = random.Random(11)
    with reactdb.connect(":memory:") as database:
        table = database.table_create("t")
        engine = session_of(database).engine

        def write() -> None:
            key = choose.randrange(25)
            if choose.random() < 0.4:
                table.get(key).delete()
            else:
                table.insert({"id": key, "a": choose.random()}, conflict="replace")

        def write_and_look() -> Any:
            write()
            return engine.fresh_snapshot()

        for _ in range(150):
            write()
        moments = {
            seq: {one["id"]: one for one in database.at(seq).table("t").run()} for seq in range(20, 110, 6)
        }
        info = find_table_at_now(engine)
        known: list[OldVersions] = []
        for seq in choose.sample(sorted(moments), len(moments)):
            versions = OldVersions(info, seq)
            later = min((one for one in known if one.seq >= seq), key=lambda one: one.seq, default=None)
            if later is not None:
                versions.begin_from(later, write_and_look)
            versions.catch_up(write_and_look)
            keys = versions.keys(write_and_look)
            with engine.fresh_snapshot() as now:
                versions.follow(now)
                found = {key_value(key): codec.decode(versions.read(key) or b"") for key in keys}
            assert found == moments[seq]
            assert keys == sorted(keys)
            known.append(versions)


def find_table_at_now(engine: Any) -> Any:
    with engine.fresh_snapshot() as now:
        return now.table("t")


def read_filtered(pages: row_pages.RowPages, where: str) -> dict[str, Any]:
    text = pages.read("games", at=None, where=where, order=None, is_descending=False, offset=0, limit=50)
    return dict(json.loads(text))


def test_a_list_that_is_ended_while_it_is_read_is_read_again(
    db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = row_pages.RowPages(db)
    wait = row_pages.wait_until_read
    ended: list[Any] = []

    def end_first(documents: Any) -> None:
        if not ended:
            # As the requests of another window do, which need its place.
            ended.append(documents)
            pages._followed.clear()
            documents.close()
        wait(documents)

    # The first list gets no thread, so it is closed before its result.
    monkeypatch.setattr(row_pages, "wait_until_read", end_first)
    monkeypatch.setattr(pages, "_find_scheduler", make_slow_once(pages._find_scheduler))
    try:
        expected = len(answer_of(db, {"where": "score>3"}))
        assert 0 < expected == read_filtered(pages, "score>3")["total"]
    finally:
        pages.close()


def make_slow_once(find: Any) -> Any:
    """`find`, but first a scheduler that runs nothing."""
    schedulers = [VirtualTimeScheduler()]
    return lambda: schedulers.pop() if schedulers else find()


def test_no_list_is_followed_after_the_application_was_closed(
    db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = row_pages.RowPages(db)
    find = pages._find_scheduler

    def close_and_find() -> Any:
        pages.close()
        return find()

    monkeypatch.setattr(pages, "_find_scheduler", close_and_find)
    with pytest.raises(RequestRefused, match="closed"):
        read_filtered(pages, "score>3")
    assert pages._scheduler is None


def test_a_list_whose_place_was_taken_before_it_began_is_closed(
    db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = row_pages.RowPages(db)
    select = pages._selection
    made: list[Any] = []

    def lose_place_once(*arguments: Any) -> Any:
        if len(made) == 1:
            # `_query` has made the first selection, and `_find_list` makes this one.
            pages._followed.clear()
        made.append(select(*arguments))
        return made[-1]

    monkeypatch.setattr(pages, "_selection", lose_place_once)
    found: list[Any] = []
    wait = row_pages.wait_until_read
    monkeypatch.setattr(
        row_pages, "wait_until_read", lambda documents: (found.append(documents), wait(documents))[1]
    )
    try:
        assert len(answer_of(db, {"where": "score>3"})) == read_filtered(pages, "score>3")["total"]
        assert ["closed", "live"] == [documents.state for documents in found]
    finally:
        pages.close()


def test_results_of_the_past_that_failed_are_not_kept_for_ever(
    db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = row_pages.RowPages(db)

    def fail(*arguments: Any) -> Any:
        raise UsageError("too much")

    monkeypatch.setattr(pages._past, "_run", fail)
    for score in range(3 * past_tables.MOST_LISTS):
        with pytest.raises(UsageError, match="too much"):
            pages.read(
                "games", at=db.seq, where=f"score={score}", order=None, is_descending=False, offset=0, limit=1
            )
    assert past_tables.MOST_LISTS >= len(pages._past._kept)


def test_a_large_table_is_shown_anew_when_its_moment_is_no_history_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(row_pages, "MOST_FOLLOWED", 1)
    with reactdb.connect(":memory:") as database:
        games = database.table_create("games")
        games.insert([{"id": number, "score": number} for number in range(5)])
        pages = row_pages.RowPages(database)
        first = read_filtered(pages, "score>2")
        games.insert({"id": 9, "score": 9})
        database.compact(0)
        second = read_filtered(pages, "score>2")

        assert [2, 3] == [first["total"], second["total"]]
        assert database.seq == second["as_of"]
