"""observe(): a function that reads runs again after each commit that concerns what it has read."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest
from reactivex.scheduler import EventLoopScheduler, VirtualTimeScheduler

import reactdb
from reactdb import row
from tests.support.feeds import is_clean
from tests.support.processes import another_process
from tests.support.threads import PATIENCE_S, from_threads, in_thread, started, wait_until


def follow(db: Any, function: Any, **options: Any) -> tuple[Any, list[Any]]:
    """An observation, and all that it delivers."""
    observation = db.observe(function, **options)
    heard: list[Any] = []
    observation.subscribe(heard.append, lambda error: heard.append(type(error).__name__))
    return observation, heard


@pytest.fixture
def filled(games: Any) -> Any:
    games.index_create("a")
    games.insert([{"id": number, "a": number} for number in range(20)])
    return games


# ---------------------------------------------------------------------------------------------------------------
# When it runs


def test_each_commit_that_concerns_it_gives_the_new_result(db: Any, filled: Any) -> None:
    total, heard = follow(db, lambda db: db.table("games").sum("a").run())
    assert 190 == total.value
    filled.get(1).update({"a": 2})
    with db.transaction():
        filled.get(2).update({"a": 3})
        filled.get(3).update({"a": 4})

    assert [191, 193] == heard
    assert 193 == total.value


READS: dict[str, tuple[Any, Any, Any]] = {
    # What is read, a write that does not concern it, a write that does.
    "a key": (lambda t: t.get(3).run(), lambda t: t.get(4).delete(), lambda t: t.get(3).delete()),
    "an absent key": (
        lambda t: t.get(99).run(),
        lambda t: t.insert({"id": 98}),
        lambda t: t.insert({"id": 99}),
    ),
    "a count of an index range": (
        lambda t: t.between(5, 8, index="a").count().run(),
        lambda t: t.insert({"id": 50, "a": 8}),
        lambda t: t.insert({"id": 51, "a": 7}),
    ),
    "an empty range": (
        lambda t: t.between(100, 200, index="a").run(),
        lambda t: t.insert({"id": 50, "a": 99}),
        lambda t: t.get(4).update({"a": 150}),
    ),
    "a filter that an index answers": (
        lambda t: t.filter(row["a"] >= 15).count().run(),
        lambda t: t.insert({"id": 50, "a": 14}),
        lambda t: t.get(17).update({"a": 0}),
    ),
    "the first by an index": (
        lambda t: t.order_by(index="a").limit(3).run(),
        lambda t: t.get(15).update({"a": 16}),
        lambda t: t.insert({"id": 50, "a": 1}),
    ),
    "the last by an index": (
        lambda t: t.order_by(index=reactdb.desc("a")).limit(3).run(),
        lambda t: t.get(5).update({"a": 6}),
        lambda t: t.get(5).update({"a": 100}),
    ),
    "a range of keys": (
        lambda t: t.between(5, 8).run(),
        lambda t: t.get(8).delete(),
        lambda t: t.get(7).delete(),
    ),
    "keys that a filter names": (
        lambda t: t.filter(row["id"].is_in([3, 99])).run(),
        lambda t: t.get(4).update({"a": 5}),
        lambda t: t.get(3).update({"a": 5}),
    ),
    "an absent key that a filter names": (
        lambda t: t.filter(row["id"].is_in([3, 99])).run(),
        lambda t: t.insert({"id": 98}),
        lambda t: t.insert({"id": 99}),
    ),
    "the values of an index": (
        lambda t: t.between(3, 6, index="a").distinct(index="a").run(),
        lambda t: t.get(6).update({"a": 7}),
        lambda t: t.get(3).update({"a": 4.0}),
    ),
    "a page by an index": (
        lambda t: t.order_by(index="a").skip(3).limit(2).run(),
        lambda t: t.get(5).update({"a": 6}),
        lambda t: t.get(1).update({"a": 6}),
    ),
    "no key at all": (lambda t: t.get_all(*[]).run(), lambda t: t.delete(), None),
}


@pytest.mark.parametrize("name", READS)
def test_only_what_was_read_makes_it_run_again(db: Any, filled: Any, name: str) -> None:
    read, other, own = READS[name]
    observation, heard = follow(db, lambda db: read(db.table("games")))
    other(filled)
    assert (1, []) == (observation.stats()["runs"], heard)
    if own is not None:
        own(filled)
        assert (2, [read(filled)]) == (observation.stats()["runs"], heard)


def test_what_it_reads_may_change_with_what_it_has_read(db: Any, filled: Any) -> None:
    filled.insert({"id": "flag", "on": True})

    def read(db: Any) -> Any:
        games = db.table("games")
        return games.get(1 if games.get("flag").run()["on"] else 2).run()["a"]

    observation, heard = follow(db, read)
    filled.get(2).update({"a": 22})
    assert 1 == observation.stats()["runs"]
    filled.get("flag").update({"on": False})
    filled.get(1).update({"a": 11})
    filled.get(2).update({"a": 23})

    assert [22, 23] == heard
    assert 3 == observation.stats()["runs"]


def test_a_table_that_is_made_later_concerns_it(db: Any) -> None:
    observation, heard = follow(db, lambda db: db.table("later").count())
    assert isinstance(observation.error, reactdb.TableNotFound)
    db.table_create("later").insert({"id": 1})

    assert [0, 1] == heard
    assert (None, "live", 1) == (observation.error, observation.state, observation.value)


def test_a_dropped_index_and_a_dropped_table_concern_it(db: Any, filled: Any) -> None:
    observation, heard = follow(db, lambda db: db.table("games").between(0, 5, index="a").count().run())
    filled.index_drop("a")
    db.table_drop("games")
    db.table_create("games").index_create("a")

    assert ["IndexNotFound", "TableNotFound", "IndexNotFound", 0] == heard
    assert "live" == observation.state


def test_a_transaction_that_is_taken_back_makes_nothing_run(db: Any, filled: Any) -> None:
    observation, _ = follow(db, lambda db: db.table("games").count().run())
    with pytest.raises(ZeroDivisionError), db.transaction():
        filled.insert({"id": 99})
        raise ZeroDivisionError

    assert 1 == observation.stats()["runs"]


def test_inside_a_transaction_the_committed_state_is_observed(db: Any, filled: Any) -> None:
    with db.transaction():
        filled.insert({"id": 99})
        observation, heard = follow(db, lambda db: db.table("games").count().run())
        assert 20 == observation.value

    assert [21] == heard


def test_equal_results_are_delivered_once_unless_all_are_wanted(db: Any, filled: Any) -> None:
    _, different = follow(db, lambda db: db.table("games").count().run())
    _, every = follow(db, lambda db: db.table("games").count().run(), distinct=False)
    filled.get(1).update({"a": 5})
    filled.get(1).delete()

    assert [19] == different
    assert [20, 19] == every


def test_one_and_true_are_different_results(db: Any, games: Any) -> None:
    games.insert({"id": 1, "a": 1})
    _, heard = follow(db, lambda db: db.table("games").get(1).run()["a"])
    games.get(1).update({"a": True})

    assert [True] == heard
    assert heard[0] is True


def test_several_reads_are_of_one_state(db: Any, filled: Any) -> None:
    """A commit while it runs is not seen by its second read, and makes it run again."""
    ran: list[tuple[int, int]] = []

    def read(past: Any) -> Any:
        games = past.table("games")
        first = games.count().run()
        if not ran:
            ran.append((0, 0))
            thread, _ = started(lambda: filled.insert({"id": 99}))
            if db.path != ":memory:":
                # In memory, writers wait for reads.
                thread.join(PATIENCE_S)
            threads.append(thread)
        second = games.count().run()
        ran.append((first, second))
        return second

    threads: list[threading.Thread] = []
    observation = db.observe(read)
    threads[0].join(PATIENCE_S)
    wait_until(lambda: observation.value == 21)

    assert all(first == second for first, second in ran)


def test_another_process_is_followed(tmp_path: Any) -> None:
    with reactdb.connect(tmp_path / "a.db", durability="soft") as db:
        db.table_create("games")
        observation, heard = follow(db, lambda db: db.table("games").count().run())
        with another_process(tmp_path / "a.db") as other:
            other.table("games").insert({"id": 1})
            wait_until(lambda: observation.value == 1)
            other.table("games").insert({"id": 2})
            wait_until(lambda: observation.value == 2)

        assert [1, 2] == heard


def test_a_burst_leads_to_one_run_of_the_newest_state(db: Any, filled: Any) -> None:
    clock = VirtualTimeScheduler()
    observation, heard = follow(db, lambda db: db.table("games").count().run(), scheduler=clock)
    for number in range(100, 400):
        filled.insert({"id": number})
    assert 20 == observation.value
    clock.advance_by(1)

    assert [320] == heard
    assert 2 == observation.stats()["runs"]


# ---------------------------------------------------------------------------------------------------------------
# What the function must not do


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda own, outer: own.table("games").insert({"id": 99}), "only reads"),
        (lambda own, outer: own.table("games").get(1).update({"a": 9}), "only reads"),
        (lambda own, outer: outer.table("games").insert({"id": 99}), "only reads"),
        (lambda own, outer: outer.table("games").get(1).run(), "through the database that it gets"),
        (lambda own, outer: outer.table("games").run(), "through the database that it gets"),
        (lambda own, outer: outer.transaction().__enter__(), "only reads"),
        (lambda own, outer: outer.table("games").changes(), "only reads"),
        (lambda own, outer: own.table("games").changes(), "run again by itself"),
        (lambda own, outer: in_thread(lambda: own.table("games").run()), "for the thread"),
        (lambda own, outer: outer.observe(lambda db: 1), "only reads"),
    ],
)
def test_a_function_that_does_more_than_read_is_refused(db: Any, filled: Any, wrong: Any, words: str) -> None:
    with pytest.raises(reactdb.UsageError, match=words):
        db.observe(lambda own: wrong(own, db))

    assert 20 == filled.count().run()
    filled.insert({"id": 99})
    assert is_clean(db)


def test_the_database_of_the_function_ends_with_its_call(db: Any, filled: Any) -> None:
    kept: list[Any] = []
    db.observe(lambda own: kept.append(own.table("games"))).close()

    with pytest.raises(reactdb.UsageError, match="has returned"):
        kept[0].run()


def test_what_is_lazy_is_read_in_the_call(db: Any, filled: Any) -> None:
    rows, heard = follow(db, lambda db: db.table("games").between(0, 2))
    keys, _ = follow(db, lambda db: (game["id"] for game in db.table("games").between(0, 2)))
    filled.get(1).delete()

    assert [{"id": 0, "a": 0}] == rows.value == heard[0]
    assert [0] == keys.value


def test_an_async_function_is_refused(db: Any) -> None:
    async def read(db: Any) -> int:
        return 1

    with pytest.raises(reactdb.UsageError, match="must not be async"):
        db.observe(read)
    with pytest.raises(reactdb.UsageError, match="must not be async"):
        db.observe(lambda db: read(db))


def test_a_name_that_the_database_of_a_function_does_not_have_is_explained(db: Any) -> None:
    for read in (lambda db: db.user_version, lambda db: db.stats(), lambda db: db.at(0)):
        assert "the tables of one state, and no `" in str(db.observe(read).error)


def test_observe_checks_its_arguments(db: Any) -> None:
    with pytest.raises(reactdb.InvalidOption, match="a function of a database"):
        db.observe(3)
    with pytest.raises(reactdb.InvalidOption, match="distinct"):
        db.observe(lambda db: 1, distinct=1)


# ---------------------------------------------------------------------------------------------------------------
# Errors and ends


def test_after_an_error_the_next_change_tries_again(db: Any, games: Any) -> None:
    games.insert({"id": 1, "a": 4})
    observation, heard = follow(db, lambda db: 8 / db.table("games").get(1).run()["a"])
    games.get(1).update({"a": 0})
    assert isinstance(observation.error, ZeroDivisionError)
    assert 2 == observation.value
    games.get(1).update({"a": 2})

    assert ["ZeroDivisionError", 4] == heard
    assert (None, "live") == (observation.error, observation.state)


def test_an_error_that_nobody_is_told_of_is_logged(db: Any, caplog: Any) -> None:
    with db.observe(lambda db: 1 / 0):
        assert "the function of an Observation failed: ZeroDivisionError" in caplog.text


def test_a_subscriber_may_write_and_leave(db: Any, games: Any) -> None:
    heard: list[int] = []
    with db.observe(lambda db: db.table("games").count().run()) as observation:

        def callback(count: int) -> None:
            heard.append(count)
            if count < 4:
                games.insert({"id": count})
            else:
                end()

        end = observation.subscribe(callback)
        games.insert({"id": 0})
        games.insert({"id": 9})

        assert [1, 2, 3, 4] == heard
        assert 5 == observation.value


def test_no_callback_comes_after_close_has_returned(db: Any, games: Any) -> None:
    """`close` waits for a callback in another thread."""
    inside, go_on = threading.Event(), threading.Event()
    heard: list[Any] = []

    def callback(count: int) -> None:
        inside.set()
        assert go_on.wait(PATIENCE_S)
        heard.append(count)

    observation = db.observe(lambda db: db.table("games").count().run())
    observation.subscribe(callback)
    writing, _ = started(lambda: games.insert({"id": 1}))
    assert inside.wait(PATIENCE_S)
    closing, _ = started(lambda: (observation.close(), heard.append("closed")))
    wait_until(lambda: observation.state == "closed")
    assert [] == heard
    go_on.set()
    closing.join(PATIENCE_S)
    writing.join(PATIENCE_S)
    games.insert({"id": 2})

    assert [1, "closed"] == heard


def test_it_completes_with_its_database() -> None:
    with reactdb.connect(":memory:") as db:
        db.table_create("games")
        observation = db.observe(lambda db: db.table("games").count().run())
        heard: list[Any] = []
        observation.changes.subscribe(heard.append, heard.append, lambda: heard.append("completed"))
        db.table("games").insert({"id": 1})

    assert ([1, "completed"], "closed", 1) == (heard, observation.state, observation.value)


def test_one_that_nobody_refers_to_is_closed(db: Any, games: Any) -> None:
    observation = db.observe(lambda db: db.table("games").count().run())
    reference = weakref.ref(observation)
    del observation
    gc.collect()

    assert reference() is None
    assert is_clean(db)


def test_stats_say_what_was_read_and_where_it_was_much(db: Any, filled: Any) -> None:
    with db.observe(
        lambda db: (db.table("games").get(1).run(), db.table("games").count().run())
    ) as observation:
        stats = observation.stats()

        assert ["games: the whole table"] == stats["reads"]
        assert "reads the whole table 'games'" in stats["hints"][0]
        assert db.seq == stats["seq"]
    with db.observe(lambda db: db.table("games").between(1, 3, index="a").run()) as observation:
        assert (["games: 1 range of index a"], []) == (
            observation.stats()["reads"],
            observation.stats()["hints"],
        )


# ---------------------------------------------------------------------------------------------------------------
# Threads


def test_an_older_state_never_comes_after_a_newer_one(db: Any, games: Any) -> None:
    heard: list[int] = []
    with db.observe(lambda db: db.table("games").count().run()) as observation:
        observation.subscribe(heard.append)
        from_threads(
            4, lambda thread: [games.insert({"id": (thread, n)[1] + 100 * thread}) for n in range(25)]
        )
        wait_until(lambda: observation.value == 100)

        assert sorted(set(heard)) == heard
        assert 100 == heard[-1]


def test_with_a_scheduler_it_runs_in_its_thread_only(db: Any, games: Any) -> None:
    scheduler = EventLoopScheduler()
    threads: list[int] = []
    try:

        def read(db: Any) -> int:
            threads.append(threading.get_ident())
            return int(db.table("games").count().run())

        with db.observe(read, scheduler=scheduler) as observation:
            for number in range(10):
                games.insert({"id": number})
            wait_until(lambda: observation.value == 10)

            assert threading.get_ident() == threads[0]
            assert {threading.get_ident()}.isdisjoint(threads[1:])
            assert 1 == len(set(threads[1:]))
    finally:
        scheduler.dispose()
