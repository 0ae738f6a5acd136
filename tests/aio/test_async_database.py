"""`aconnect`: the names of the synchronous library, each that reads or writes awaited."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
from typing import Any

import pytest

import reactdb
from reactdb import AsyncDatabase, InvalidOption, TableNotFound, UsageError, desc, row
from reactdb.aio import faces
from reactdb.aio.selection import AsyncSelection
from reactdb.errors import FeedAborted, NotAValue
from reactdb.table import Selection
from tests.support.feeds import changed
from tests.support.threads import in_thread

pytestmark = pytest.mark.filterwarnings("error")


def test_it_is_awaited_or_entered(place):
    async def main() -> None:
        adb = await reactdb.aconnect(place, durability="soft")
        assert isinstance(adb, AsyncDatabase)
        await adb.close()
        assert adb.is_closed
        async with reactdb.aconnect(place, durability="soft") as entered:
            assert not entered.is_closed
        assert entered.is_closed

    asyncio.run(main())


def test_reads_and_writes_are_awaited_and_selections_are_lazy(place):
    async def main() -> None:
        async with reactdb.aconnect(place, durability="soft") as adb:
            games = await adb.table_create("games")
            assert (
                3
                == (await games.insert([{"id": number, "v": number * 10} for number in range(3)]))["inserted"]
            )
            assert {"id": 1, "v": 10} == await games.get(1).run()
            assert [{"id": 2, "v": 20}] == await games.filter(row["v"] > 10).run()
            assert 3 == await adb.table("games").count().run()
            assert [2, 1] == [game["id"] async for game in games.order_by(desc("v")).limit(2)]
            assert 2 == (await games.filter(row["v"] > 0).update({"seen": True}))["replaced"]
            assert [True, True] == await games["seen"].run()
            assert 1 == (await games.get(0).delete())["deleted"]
            assert [1, 2] == sorted(
                game["id"] for game in await games.union(games.filter(row["v"] > 99)).run()
            )

    asyncio.run(main())


def test_the_database_has_its_names_too(place):
    async def main() -> None:
        async with reactdb.aconnect(place, durability="soft") as adb:
            games = await adb.table_create("games")
            assert [] == await adb["games"].run()
            await games.index_create("v")
            assert ["games"] == await adb.table_list()
            assert ["v"] == await games.index_list()
            assert "id" == await games.primary_key
            seq = await adb.seq
            await games.insert({"id": 1})
            assert seq + 1 == await adb.seq
            assert (await adb.token).endswith(f".{seq + 1}")
            assert [seq + 1] == [change.seq async for change in adb.log(since=seq)]
            assert 1 == (await adb.stats())["tables"]["games"]
            past = await adb.at(seq)
            assert [] == await past.table("games").run()
            assert seq == await past.seq
            await adb.compact(keep=0)
            assert {"tables_dropped": 1} == await adb.table_drop("games")

    asyncio.run(main())


def test_the_log_is_read_in_pages(place):
    async def main() -> None:
        async with reactdb.aconnect(place, durability="soft") as adb:
            games = await adb.table_create("games")
            await games.insert([{"id": number} for number in range(1_000)])
            since = await adb.seq - 1_000
            expected = list(range(since + 1, since + 1_001))
            assert expected == [change.seq async for change in adb.log(since=since)]

    asyncio.run(main())


def test_errors_are_those_of_the_synchronous_library(place):
    async def main() -> None:
        async with reactdb.aconnect(place, durability="soft") as adb:
            with pytest.raises(TableNotFound):
                await adb.table("nothing").run()
            games = await adb.table_create("games")
            with pytest.raises(reactdb.DuplicateKey):
                await games.insert([{"id": 1}, {"id": 1}])
            assert [] == await games.run()
            with pytest.raises(UsageError, match="not a sequence"):
                async for _ in games.get(1):
                    pass
        with pytest.raises(reactdb.errors.DatabaseClosed):
            await games.run()
        with pytest.raises(InvalidOption):
            await reactdb.aconnect(place, durability="softly")

    asyncio.run(main())


def test_a_selection_is_not_its_result(place):
    async def main() -> None:
        async with reactdb.aconnect(place, durability="soft") as adb:
            games = await adb.table_create("games")
            for use in (
                lambda: games == [],
                lambda: games != [],
                lambda: bool(games),
                lambda: len(games),
                lambda: 1 in games,
                lambda: "games" in adb,
            ):
                with pytest.raises(NotAValue):
                    use()
            with pytest.raises(UsageError, match="async for"):
                iter(games)
            with pytest.raises(UsageError, match="table_list"):
                iter(adb)
            with pytest.raises(UsageError, match="run"):
                await games

    asyncio.run(main())


def test_an_unknown_name_has_the_error_of_the_synchronous_object(place):
    async def main() -> None:
        async with reactdb.aconnect(place, durability="soft") as adb:
            with pytest.raises(AttributeError) as awaited:
                adb.table("games").watch_me()
            with pytest.raises(AttributeError) as synchronous:
                adb.sync.table("games").watch_me()
            assert str(synchronous.value) == str(awaited.value)
            with pytest.raises(AttributeError, match=r"asyncio\.to_thread"):
                adb.consumer("name", adb.sync.table("games"))

    asyncio.run(main())


def test_every_name_that_acts_is_a_coroutine_function(place):
    async def main() -> None:
        async with reactdb.aconnect(place, durability="soft") as adb:
            games = await adb.table_create("games")
            for face, kind in ((adb, reactdb.Database), (games, reactdb.Table)):
                for name in faces.READS | faces.WRITES:
                    if callable(getattr(kind, name, None)):
                        assert inspect.iscoroutinefunction(getattr(face, name)), name

    asyncio.run(main())


def test_a_live_result_is_awaited_and_read_in_a_thread(place):
    async def main() -> None:
        async with reactdb.aconnect(place, durability="soft") as adb:
            games = await adb.table_create("games")
            await games.insert([{"id": number, "v": -number} for number in range(3)])

            live = games.order_by("v").live()
            assert live is await live
            assert ("live", [2, 1, 0]) == (live.state, [game["id"] for game in live])
            async with games.count().live() as count:
                assert 3 == count.value
            assert "closed" == count.state
            threads = await games.map(lambda game: threading.get_ident()).live()
            assert threading.get_ident() not in threads

    asyncio.run(main())


def test_a_live_result_that_has_failed_raises_its_error_when_it_is_awaited(place):
    async def main() -> None:
        async with reactdb.aconnect(place, durability="soft") as adb:
            games = await adb.table_create("games")
            live = await games.live()
            loop, failed = asyncio.get_running_loop(), asyncio.Event()
            live.subscribe(on_error=lambda error: loop.call_soon_threadsafe(failed.set))
            await adb.table_drop("games")
            await failed.wait()
            with pytest.raises(FeedAborted):
                await live

    asyncio.run(main())


def test_a_forgotten_async_or_await_is_explained():
    async def main() -> None:
        with pytest.raises(UsageError, match=r"async with reactdb\.aconnect"), reactdb.aconnect(":memory:"):
            pass
        with pytest.raises(AttributeError, match=r"await reactdb\.aconnect"):
            reactdb.aconnect(":memory:").table("games")
        async with reactdb.aconnect(":memory:") as adb:
            with pytest.raises(UsageError, match=r"async with adb.transaction\(\)"), adb.transaction():
                pass

    asyncio.run(main())


# Methods that make something, and read nothing but the names of tables and indexes.
LAZY = {
    *(
        "aggregate",
        "avg",
        "between",
        "changes",
        "concat_map",
        "count",
        "distinct",
        "filter",
        "get",
        "get_all",
        "group",
    ),
    *(
        "has_fields",
        "limit",
        "live",
        "map",
        "max",
        "merge",
        "min",
        "nth",
        "order_by",
        "pluck",
        "sample",
        "skip",
        "sum",
    ),
    *("union", "with_fields", "without"),
}
# They are written out, or are on the synchronous handle alone.
OWN = {"close", "is_closed", "log", "name", "path", "table", "transaction"}


@pytest.mark.parametrize("kind", [reactdb.Database, Selection, reactdb.Table])
def test_every_public_name_is_known_to_act_or_to_be_lazy(kind):
    """A new method of the synchronous library needs its place in the tables of `faces`, or in the sets above."""
    elsewhere = AsyncDatabase.elsewhere
    known = faces.READS | faces.WRITES | faces.READ_PROPERTIES | LAZY | OWN | elsewhere
    public = {name for name in dir(kind) if not name.startswith("_")}

    assert set() == public - known


def test_dir_has_the_names(place):
    async def main() -> None:
        async with reactdb.aconnect(place, durability="soft") as adb:
            assert {"table", "table_list", "transaction", "seq", "sync"} <= set(dir(adb))
            assert "consumer" not in dir(adb)
            assert {"insert", "run", "filter", "changes"} <= set(dir(adb.table("games")))
            assert "AsyncDatabase of" in repr(adb)
            assert "AsyncSelection of" in repr(adb.table("games"))

    asyncio.run(main())


def test_a_feed_is_read_by_async_for(place):
    async def main() -> None:
        async with reactdb.aconnect(place, durability="soft") as adb:
            games = await adb.table_create("games")
            async with games.changes().acursor() as cursor, adb.changes().acursor() as whole:
                await games.insert({"id": 1})
                assert changed(None, {"id": 1}) == await cursor.next()
                assert {"table": "games", **changed(None, {"id": 1})} == await whole.next()
            async for event in games.changes(include_initial=True):
                assert {"new_val": {"id": 1}} == event
                break

    asyncio.run(main())


# ---------------------------------------------------------------------------------------------------------------
# Threads


def test_nothing_on_a_file_is_done_in_the_thread_of_the_loop(tmp_path):
    threads: set[int] = set()

    def note(document: Any) -> bool:
        threads.add(threading.get_ident())
        return True

    async def main() -> None:
        async with reactdb.aconnect(tmp_path / "a.db", durability="soft") as adb:
            games = await adb.table_create("games")
            await games.insert({"id": 1})
            await games.filter(note).run()
            await games.filter(note).update({"v": 1})
            async with adb.transaction():
                await games.filter(note).run()
            assert [1] == [game["id"] async for game in games.filter(note)]

    asyncio.run(main())
    assert threads
    assert threading.get_ident() not in threads


def test_a_small_read_in_memory_is_done_at_once_and_a_large_one_in_a_thread():
    threads: list[int] = []

    def note(document: Any) -> bool:
        threads.append(threading.get_ident())
        return True

    async def main() -> None:
        async with reactdb.aconnect(":memory:") as adb:
            games = await adb.table_create("games")
            await games.insert({"id": 1})
            await games.filter(note).run()
            assert [threading.get_ident()] == threads
            threads.clear()
            await games.insert([{"id": number} for number in range(2, 600)])
            await games.filter(note).run()
            assert threading.get_ident() not in threads

    asyncio.run(main())


def test_small_reads_give_other_tasks_a_turn():
    async def main() -> None:
        async with reactdb.aconnect(":memory:") as adb:
            games = await adb.table_create("games")
            turns = 0

            async def count_turns() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            task = asyncio.create_task(count_turns())
            for _ in range(640):
                await games.get(1).run()
            task.cancel()
            assert turns >= 9

    asyncio.run(main())


def test_the_line_of_the_program_is_named_where_a_handle_was_lost(tmp_path):
    async def main() -> Any:
        return await reactdb.aconnect(tmp_path / "a.db")

    adb = asyncio.run(main())
    with pytest.warns(ResourceWarning, match=r"test_async_database\.py"):
        del adb


# ---------------------------------------------------------------------------------------------------------------
# Loops


def test_one_handle_serves_one_loop_after_the_other(place):
    async def opened() -> AsyncDatabase:
        adb = await reactdb.aconnect(place, durability="soft")
        await adb.table_create("games")
        return adb

    async def write(adb: AsyncDatabase, number: int) -> int:
        async with adb.transaction():
            await adb.table("games").insert({"id": number})
        return await adb.table("games").count().run()

    adb = asyncio.run(opened())
    assert 1 == asyncio.run(write(adb, 1))
    assert 2 == asyncio.run(write(adb, 2))
    asyncio.run(adb.close())


def test_two_loops_in_two_threads_use_one_handle(tmp_path):
    async def opened() -> AsyncDatabase:
        adb = await reactdb.aconnect(tmp_path / "a.db", durability="soft", busy_timeout=60)
        await adb.table_create("games")
        await adb.table("games").insert({"id": "n", "n": 0})
        return adb

    async def add(adb: AsyncDatabase) -> None:
        games = adb.table("games")
        for _ in range(20):
            async with adb.transaction():
                n = (await games.get("n").run())["n"]
                await games.get("n").update({"n": n + 1})
            await games.get("n").update({"n": row["n"] + 1})

    adb = asyncio.run(opened())
    other, outcome = threading.Thread(target=lambda: asyncio.run(add(adb))), []
    other.start()
    asyncio.run(add(adb))
    other.join(60)
    assert [] == outcome
    assert 80 == in_thread(lambda: adb.sync.table("games").get("n").run()["n"])
    asyncio.run(adb.close())


def test_a_loop_that_is_closed_with_a_feed_and_a_transaction_open_leaves_the_file_usable(tmp_path):
    async def main(adb: AsyncDatabase) -> None:
        games = await adb.table_create("games")
        async with adb.transaction():
            await games.insert({"id": 1})
            async for _ in games.changes():
                pass

    loop = asyncio.new_event_loop()
    adb = loop.run_until_complete(reactdb.aconnect(tmp_path / "a.db", durability="soft")._connect())
    task = loop.create_task(main(adb))
    while not adb.sync.subscriptions():
        loop.run_until_complete(asyncio.sleep(0))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()

    assert [] == adb.sync.table("games").run()
    adb.sync.table("games").insert({"id": 2})
    assert [] == adb.sync.subscriptions()
    adb.sync.close()


FORGETFUL = """
import asyncio, sys, warnings
import reactdb
warnings.simplefilter("ignore")
async def main():
    adb = await reactdb.aconnect(sys.argv[1])
    games = await adb.table_create("games")
    await games.insert({"id": 1})
    cursor = games.changes().acursor()
    transaction = adb.transaction()
    await transaction.__aenter__()
    await games.insert({"id": 2})
    print("written", flush=True)
    return adb, cursor, transaction
kept = asyncio.run(main())
"""


def test_a_program_that_closes_nothing_ends_and_its_last_commit_is_whole(tmp_path):
    path = tmp_path / "a.db"
    ended = subprocess.run(
        [sys.executable, "-c", FORGETFUL, str(path)], capture_output=True, text=True, timeout=60, check=False
    )

    assert (0, "written\n") == (ended.returncode, ended.stdout), ended.stderr
    with reactdb.connect(path) as db:
        assert [{"id": 1}] == db.table("games").run()


def test_it_works_in_uvloop(tmp_path):
    uvloop = pytest.importorskip("uvloop")

    async def main() -> list[Any]:
        async with reactdb.aconnect(tmp_path / "a.db", durability="soft") as adb:
            games = await adb.table_create("games")
            async with games.changes().acursor() as cursor:
                async with adb.transaction():
                    await games.insert({"id": 1})
                return [await cursor.next(), await games.run()]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert [changed(None, {"id": 1}), [{"id": 1}]] == runner.run(main())


def test_another_loop_than_of_asyncio_is_refused():
    connecting = reactdb.aconnect(":memory:").__await__()
    with pytest.raises(UsageError, match="Trio"):
        next(connecting)


def test_aconnect_needs_no_anyio():
    code = "import sys; sys.modules['anyio'] = None; import reactdb; reactdb.aconnect(':memory:')"
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)


def test_importing_reactdb_imports_no_asyncio():
    code = "import sys, reactdb; reactdb.connect(':memory:').close(); sys.exit('asyncio' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)


def test_a_face_covers_selections_only(place):
    async def main() -> None:
        async with reactdb.aconnect(place, durability="soft") as adb:
            games = await adb.table_create("games")
            assert isinstance(games.filter(row["v"] > 1), AsyncSelection)
            assert isinstance(await games.explain(), dict)

    asyncio.run(main())


def test_waiting_for_a_feed_in_the_loop_is_refused_and_in_a_thread_allowed(place):
    async def main() -> None:
        async with reactdb.aconnect(place, durability="soft") as adb:
            games = await adb.table_create("games")
            for feed in (games.changes(), adb.changes(), games.changes().filter(row["new_val"]["n"] > 0)):
                for wait in (iter, lambda feed: feed.cursor()):
                    with pytest.raises(UsageError, match="async for change in feed"):
                        wait(feed)
            feed = games.changes(include_initial=True)
            await games.insert({"id": 1})

            def take() -> Any:
                with feed.cursor() as cursor:
                    return cursor.next(timeout=20)

            assert {"new_val": {"id": 1}} == await asyncio.to_thread(take)

    asyncio.run(main())


def test_a_version_is_read_by_await_and_an_assignment_says_what_to_write(place):
    async def main() -> None:
        async with reactdb.aconnect(place, durability="soft") as adb:
            assert [1] == await adb.migrate([lambda db: db.table_create("games")])
            assert 1 == await adb.user_version
            with pytest.raises(UsageError, match=r"await adb\.migrate\(steps\)"):
                adb.user_version = 5

    asyncio.run(main())
