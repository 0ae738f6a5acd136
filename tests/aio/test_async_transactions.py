"""Transactions of asyncio: who is inside of one, who waits for it, and what a cancelled task leaves."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import reactdb
from reactdb import AsyncDatabase, DatabaseBusy, TransactionOwned, UsageError
from reactdb.aio import calls, work
from reactdb.errors import TransactionEnded
from tests.aio.stepping import MOST_STEPS, is_cancelled_at
from tests.support.threads import wait_until

Program = Callable[[AsyncDatabase, Any], Coroutine[Any, Any, None]]


def run(place: Any, program: Program, **options: Any) -> None:
    """Run a program with an open database and its empty table `games`."""

    async def main() -> None:
        async with reactdb.aconnect(place, durability="soft", **options) as adb:
            await program(adb, await adb.table_create("games"))

    asyncio.run(main())


async def ids(games: Any) -> list[Any]:
    return [game["id"] for game in await games.run()]


# ---------------------------------------------------------------------------------------------------------------
# All or nothing


def test_a_transaction_is_one_commit(place):
    async def program(adb: AsyncDatabase, games: Any) -> None:
        commits: list[Any] = []
        async with games.changes(batches=True).acursor() as cursor:
            async with adb.transaction():
                await games.insert({"id": 1})
                await games.insert({"id": 2})
            commits.append(await cursor.next())
        assert 2 == len(commits[0])

    run(place, program)


def test_an_error_rolls_back_before_it_leaves_the_block(place):
    async def program(adb: AsyncDatabase, games: Any) -> None:
        with pytest.raises(ZeroDivisionError):
            async with adb.transaction():
                await games.insert({"id": 1})
                raise ZeroDivisionError
        assert [] == await games.run()
        assert [] == adb.sync.table("games").run()
        await games.insert({"id": 2})

    run(place, program)


def test_an_inner_block_can_fail_alone(place):
    async def program(adb: AsyncDatabase, games: Any) -> None:
        async with adb.transaction() as transaction:
            await games.insert({"id": 1})
            with pytest.raises(ZeroDivisionError):
                async with adb.transaction():
                    await games.insert({"id": 2})
                    raise ZeroDivisionError
            async with transaction.transaction():
                await games.insert({"id": 3})
        assert [1, 3] == await ids(games)

    run(place, program)


def test_options_reach_the_transaction(place):
    async def program(adb: AsyncDatabase, games: Any) -> None:
        seq = await adb.seq
        async with adb.transaction(origin="job", durability="hard"):
            await games.insert({"id": 1})
        assert ["job"] == [change.origin async for change in adb.log(since=seq)]
        with pytest.raises(reactdb.InvalidOption):
            async with adb.transaction(durability="softly"):
                pass
        await games.insert({"id": 2})

    run(place, program)


# ---------------------------------------------------------------------------------------------------------------
# Who is inside


def test_the_owner_reads_its_writes_and_other_tasks_read_the_last_commit(place):
    async def program(adb: AsyncDatabase, games: Any) -> None:
        await games.insert({"id": 0})
        async with adb.transaction() as transaction:
            await games.insert({"id": 1})
            assert [0, 1] == await ids(games)
            assert [0] == await asyncio.create_task(ids(games))
            assert [0] == await asyncio.create_task(ids(games.filter(lambda game: True)))
            assert [0, 1] == await asyncio.create_task(ids(transaction.table("games")))
        assert [0, 1] == await asyncio.create_task(ids(games))

    run(place, program)


def test_other_tasks_write_after_its_end_and_keep_their_writes(place):
    order: list[str] = []

    async def program(adb: AsyncDatabase, games: Any) -> None:
        begun = asyncio.Event()

        async def pay() -> None:
            async with adb.transaction():
                await games.insert({"id": "payment"})
                begun.set()
                for _ in range(20):
                    await asyncio.sleep(0)
                order.append("refused")
                raise ValueError

        async def sign() -> None:
            await begun.wait()
            await games.insert({"id": "signature"})
            order.append("signed")

        await asyncio.gather(pay(), sign(), return_exceptions=True)
        assert ["signature"] == await ids(games)

    run(place, program)
    assert ["refused", "signed"] == order


def test_transactions_queue_first_come_first_served(place):
    order: list[int] = []

    async def program(adb: AsyncDatabase, games: Any) -> None:
        await games.insert({"id": "n", "n": 0})

        async def add(number: int) -> None:
            async with adb.transaction():
                order.append(number)
                n = (await games.get("n").run())["n"]
                await games.get("n").update({"n": n + 1})

        await asyncio.gather(*map(add, range(100)))
        assert 100 == (await games.get("n").run())["n"]

    run(place, program, busy_timeout=60)
    assert list(range(100)) == order


def test_a_hundred_tasks_that_wait_do_not_keep_the_owner_from_going_on(place):
    async def program(adb: AsyncDatabase, games: Any) -> None:
        async with adb.transaction():
            tasks = [asyncio.create_task(games.insert({"id": number})) for number in range(100)]
            for _ in range(10):
                await asyncio.sleep(0)
            for number in range(100, 120):
                await games.insert({"id": number})
                assert {"id": number} == await games.get(number).run()
        await asyncio.gather(*tasks)
        assert 120 == await games.count().run()

    run(place, program, busy_timeout=60)


def test_waiting_tasks_take_no_thread(tmp_path):
    async def program(adb: AsyncDatabase, games: Any) -> None:
        async with adb.transaction():
            before = threading.active_count()
            tasks = [asyncio.create_task(games.insert({"id": number})) for number in range(50)]
            for _ in range(10):
                await asyncio.sleep(0)
            assert threading.active_count() <= before
        await asyncio.gather(*tasks)

    run(tmp_path / "a.db", program, busy_timeout=60)


def test_a_task_that_waits_too_long_is_told_whose_transaction_it_was(place):
    async def program(adb: AsyncDatabase, games: Any) -> None:
        async with adb.transaction():
            with pytest.raises(
                DatabaseBusy, match=r"insert: the open transaction of task .*test_async_transactions"
            ) as busy:
                await asyncio.create_task(games.insert({"id": 1}))
            assert "insert" == busy.value.operation
            with pytest.raises(DatabaseBusy, match="transaction"):

                async def begin() -> None:
                    async with adb.transaction():
                        pass

                await asyncio.create_task(begin())
            await games.insert({"id": 2})
        await asyncio.create_task(games.insert({"id": 3}))
        assert [2, 3] == await ids(games)

    run(place, program, busy_timeout=0.01)


def test_the_object_is_a_way_in_for_other_tasks(place):
    async def program(adb: AsyncDatabase, games: Any) -> None:
        async def add(transaction: Any, number: int) -> None:
            await transaction.table("games").insert({"id": number})

        with pytest.raises(ZeroDivisionError):
            async with adb.transaction() as transaction:
                await asyncio.gather(*(add(transaction, number) for number in range(5)))
                assert 5 == await games.count().run()
                raise ZeroDivisionError
        assert [] == await ids(games)

    run(place, program)


def test_a_task_may_share_a_transaction(place):
    async def program(adb: AsyncDatabase, games: Any) -> None:
        async def add(transaction: Any) -> None:
            with transaction.share():
                await games.insert({"id": "inside"})
            assert [] == await ids(games)

        with pytest.raises(ZeroDivisionError):
            async with adb.transaction() as transaction:
                await asyncio.create_task(add(transaction))
                raise ZeroDivisionError
        assert [] == await ids(games)
        with pytest.raises(TransactionEnded), transaction.share():
            pass

    run(place, program)


def test_a_task_that_was_begun_inside_writes_on_its_own_afterwards(place):
    async def program(adb: AsyncDatabase, games: Any) -> None:
        ended = asyncio.Event()

        async def later() -> None:
            await ended.wait()
            await games.insert({"id": "later"})

        async with adb.transaction():
            task = asyncio.create_task(later())
            await games.insert({"id": "inside"})
        ended.set()
        await task
        assert ["inside", "later"] == await ids(games)

    run(place, program)


def test_another_task_cannot_write_into_an_inner_block(place):
    async def program(adb: AsyncDatabase, games: Any) -> None:
        async with adb.transaction() as transaction:
            async with transaction.transaction():
                with pytest.raises(TransactionOwned, match="inside of a part"):
                    await asyncio.create_task(transaction.table("games").insert({"id": 1}))
            await asyncio.create_task(transaction.table("games").insert({"id": 2}))
        assert [2] == await ids(games)

    run(place, program)


def test_the_object_of_an_ended_transaction_is_refused(place):
    async def program(adb: AsyncDatabase, games: Any) -> None:
        async with adb.transaction() as transaction:
            table = transaction.table("games")
        for use in (table.run, lambda: table.insert({"id": 1}), transaction.table_list):
            with pytest.raises(TransactionEnded):
                await use()
        with pytest.raises(TransactionEnded):
            async with transaction.transaction():
                pass
        assert [] == await ids(games)

    run(place, program)


def test_a_transaction_is_entered_once_and_is_not_closed(place):
    async def program(adb: AsyncDatabase, games: Any) -> None:
        block = adb.transaction()
        async with block as transaction:
            with pytest.raises(UsageError):
                await transaction.close()
            with pytest.raises(UsageError):
                _ = transaction.sync
            with pytest.raises(UsageError):
                transaction.table("games").changes()
        with pytest.raises(UsageError, match="begun already"):
            async with block:
                pass

    run(place, program)


def test_only_the_object_is_a_way_into_an_exclusive_transaction(tmp_path):
    async def program(adb: AsyncDatabase, games: Any) -> None:
        async with adb.transaction(exclusive=True) as transaction:
            await transaction.table("games").insert({"id": 1})
            with pytest.raises(TransactionOwned, match="exclusive"):
                await games.insert({"id": 2})
        assert [1] == await ids(games)

    run(tmp_path / "a.db", program)


def test_a_feed_may_be_opened_while_a_transaction_is_open(place):
    async def program(adb: AsyncDatabase, games: Any) -> None:
        await games.insert({"id": 0})

        async def first() -> Any:
            async with games.changes(include_initial=True).acursor() as cursor:
                return await cursor.next()

        async with adb.transaction():
            await games.delete()
            assert {"new_val": {"id": 0}} == await asyncio.create_task(first())

    run(place, program)


# ---------------------------------------------------------------------------------------------------------------
# Cancellation


def test_a_write_that_is_cancelled_while_it_waits_for_its_turn_is_never_made(place):
    async def program(adb: AsyncDatabase, games: Any) -> None:
        async with adb.transaction():
            task = asyncio.create_task(games.insert({"id": 1}))
            await asyncio.sleep(0)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.001):
                    await asyncio.create_task(games.insert({"id": 2}))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await games.insert({"id": 3})
        assert [3] == await ids(games)

    run(place, program)


def test_a_write_that_has_begun_is_done_before_its_task_is_cancelled(tmp_path):
    async def program(adb: AsyncDatabase, games: Any) -> None:
        db = adb.sync
        entered, leave = threading.Event(), threading.Event()

        def hold() -> None:
            with db.transaction():
                entered.set()
                leave.wait(20)

        holder = threading.Thread(target=hold)
        holder.start()
        await asyncio.to_thread(entered.wait, 20)
        task = asyncio.create_task(games.insert({"id": 1}))
        await asyncio.to_thread(wait_until, lambda: len(db._session.engine.write_queue) == 2)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
            assert not task.done()
        leave.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert 3 == task.cancelling()
        await asyncio.to_thread(holder.join)
        assert [1] == await ids(games)

    run(tmp_path / "a.db", program, busy_timeout=20)


def test_a_transaction_that_is_cancelled_before_it_has_begun_does_not_wait_for_other_writers(tmp_path):
    async def program(adb: AsyncDatabase, games: Any) -> None:
        db = adb.sync
        entered, leave = threading.Event(), threading.Event()

        def hold() -> None:
            with db.transaction():
                entered.set()
                leave.wait(20)

        holder = threading.Thread(target=hold)
        holder.start()
        await asyncio.to_thread(entered.wait, 20)

        async def begin() -> None:
            async with adb.transaction():
                raise AssertionError

        task = asyncio.create_task(begin())
        await asyncio.to_thread(wait_until, lambda: len(db._session.engine.write_queue) == 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        leave.set()
        await asyncio.to_thread(holder.join)
        async with adb.transaction():
            await games.insert({"id": 1})
        assert [1] == await ids(games)

    run(tmp_path / "a.db", program, busy_timeout=20)


def test_a_timeout_inside_a_transaction_rolls_it_back(place):
    async def program(adb: AsyncDatabase, games: Any) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001), adb.transaction():
                await games.insert({"id": 1})
                await asyncio.Event().wait()
        assert [] == adb.sync.table("games").run()
        adb.sync.table("games").insert({"id": 2})

    run(place, program)


@pytest.mark.parametrize("kind", ["write", "transaction", "nested"])
def test_a_task_that_is_cancelled_at_any_place_leaves_no_half(place, kind):
    """Cancelled at its n-th suspension, for all n: nothing is stored, or everything, and that does not change afterwards."""

    async def program(adb: AsyncDatabase, games: Any) -> None:
        async def work() -> None:
            if kind == "write":
                await games.insert([{"id": 1}, {"id": 2}])
                return
            async with adb.transaction():
                await games.insert({"id": 1})
                if kind == "nested":
                    async with adb.transaction():
                        await games.insert({"id": 2})
                else:
                    await games.insert({"id": 2})

        for step in range(1, MOST_STEPS):
            is_cancelled = await is_cancelled_at(step, work)
            # Through another thread at once: no transaction is left open.
            found = adb.sync.table("games").run()
            assert [game["id"] for game in found] in ([], [1, 2]), step
            async with adb.transaction():
                await games.insert({"id": 3})
            assert [*[game["id"] for game in found], 3] == await ids(games), step
            await games.delete()
            if not is_cancelled:
                break
        else:
            raise AssertionError("it never came to its end")

    run(place, program)


def test_a_task_that_is_cancelled_while_it_opens_or_closes_leaves_no_open_file(tmp_path):
    path = tmp_path / "a.db"

    async def work() -> None:
        async with reactdb.aconnect(path, durability="soft"):
            pass

    async def main() -> None:
        for step in range(1, MOST_STEPS):
            is_cancelled = await is_cancelled_at(step, work)
            if path.exists():
                await asyncio.to_thread(wait_until, is_closed)
            if not is_cancelled:
                return
        raise AssertionError("it never came to its end")

    def is_closed() -> bool:
        try:
            reactdb.delete_database(path)
        except DatabaseBusy:
            return False
        return True

    asyncio.run(main())


def test_a_dropped_coroutine_rolls_its_transaction_back(place):
    """As where a loop is closed without an end of its tasks: nothing can be awaited any more."""
    reached = asyncio.Event()

    async def work(adb: AsyncDatabase) -> None:
        async with adb.transaction():
            await adb.table("games").insert({"id": 1})
            reached.set()
            await asyncio.Event().wait()

    async def opened() -> AsyncDatabase:
        adb = await reactdb.aconnect(place, durability="soft")
        await adb.table_create("games")
        return adb

    loop = asyncio.new_event_loop()
    adb = loop.run_until_complete(opened())
    task: Any = loop.create_task(work(adb))
    loop.run_until_complete(reached.wait())
    loop.close()
    # Or Python would complain of the task.
    task._log_destroy_pending = False
    task.get_coro().close()

    adb.sync.table("games").insert({"id": 2})
    assert [{"id": 2}] == adb.sync.table("games").run()
    adb.sync.close()


def test_anyio_scopes_cancel_as_asyncio_does(tmp_path):
    anyio = pytest.importorskip("anyio")

    async def program(adb: AsyncDatabase, games: Any) -> None:
        with anyio.move_on_after(0.001) as scope:
            async with adb.transaction():
                await games.insert({"id": 1})
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        assert [] == adb.sync.table("games").run()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await games.insert({"id": 2})
        await games.insert({"id": 3})
        assert 3 in await ids(games)

    run(tmp_path / "a.db", program)


def test_a_result_that_comes_after_its_loop_was_closed_is_dropped():
    loop = asyncio.new_event_loop()

    async def make() -> calls.ThreadCall[int]:
        return calls.ThreadCall(lambda: 1, work.READERS)

    call = loop.run_until_complete(make())
    loop.close()
    call()
