"""Who is in a transaction, where several tasks, generators and greenlets share a thread."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import greenlet
import pytest

import reactdb
from reactdb import Database, DatabaseBusy, Table, TransactionOwned, row
from reactdb.errors import TransactionEnded, TransactionRolledBack
from reactdb.session import session_of

HERE = str(Path(__file__))


class Boom(Exception):
    """What takes a transaction back."""


@pytest.fixture(params=["memory", "file"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    path = ":memory:" if request.param == "memory" else tmp_path / "a.db"
    with reactdb.connect(path, durability="soft", busy_timeout=30) as database:
        yield database


@pytest.fixture
def t(db: Database) -> Table:
    return db.table_create("t")


def ids(table: Table) -> list[Any]:
    return sorted(document["id"] for document in table.run())


async def pass_on() -> None:
    """Let every other task come as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def both(*tasks: Awaitable[Any]) -> list[Any]:
    return await asyncio.gather(*tasks, return_exceptions=True)


class TestAnotherTask:
    def test_it_is_refused_and_not_taken_in(self, db: Database, t: Table) -> None:
        async def pay() -> None:
            with db.transaction():
                t.insert({"id": "payment"})
                await pass_on()
                raise ValueError("refused")

        async def sign() -> Any:
            return t.insert({"id": "signature"})

        async def main() -> list[Any]:
            return await both(pay(), sign())

        failed, refused = asyncio.run(main())

        assert isinstance(failed, ValueError)
        assert isinstance(refused, TransactionOwned)
        assert ids(t) == []

    def test_the_error_names_the_owner_and_the_ways_out(self, db: Database, t: Table) -> None:
        async def main() -> TransactionOwned:
            async def sign() -> None:
                t.insert({"id": 1})

            with db.transaction():
                task = asyncio.create_task(sign(), name="sign")
                await asyncio.wait([task])
            error = task.exception()
            assert isinstance(error, TransactionOwned)
            return error

        async def named() -> TransactionOwned:
            return await asyncio.create_task(main(), name="pay")

        error = asyncio.run(named())

        assert error.operation == "insert"
        assert error.owner == "task 'pay'"
        assert error.caller == "task 'sign'"
        assert error.place is not None
        file, line = error.place
        assert file == HERE
        assert "with db.transaction():" in Path(file).read_text().splitlines()[line - 1]
        for part in (
            "insert",
            "task 'pay'",
            f"{HERE}, line {line}",
            "transaction.share()",
            "asyncio.to_thread",
        ):
            assert part in str(error)
        assert isinstance(error, reactdb.UsageError)

    def test_it_reads_the_last_commit(self, db: Database, t: Table) -> None:
        t.index_create("n")
        t.insert([{"id": "kept", "n": 1}, {"id": "gone", "n": 1}])

        async def main() -> dict[str, Any]:
            async def look() -> dict[str, Any]:
                return {
                    "run": ids(t),
                    "get": t.get("new").run(),
                    "changed": t.get("kept").run(),
                    "index": sorted(one["id"] for one in t.get_all(1, index="n").run()),
                    "none": t.get_all(2, index="n").run(),
                    "count": t.count().run(),
                    "tables": db.table_list(),
                    "indexes": t.index_list(),
                    "seq": db.seq,
                    "log": [change.key for change in db.log(table="t") if change.key],
                    "history": [change.new for change in t.get("kept").history()],
                    "token": db.token,
                    "past": sorted(one["id"] for one in db.at(db.seq).table("t").run()),
                    "changes": next(iter(t.changes(include_initial=True).cursor())),
                }

            expected = await look()
            with db.transaction():
                t.insert({"id": "new", "n": 1})
                t.get("kept").update({"n": 2})
                t.get("gone").delete()
                assert ids(t) == ["kept", "new"]
                t.index_create("other")
                t.index_drop("n")
                db.table_create("another")
                assert await asyncio.create_task(look()) == expected
            assert ids(t) == ["kept", "new"]
            return expected

        assert asyncio.run(main())["run"] == ["gone", "kept"]

    @pytest.mark.parametrize(
        "write",
        [
            lambda db, t: t.insert({"id": 1}),
            lambda db, t: t.insert({"id": 1}, conflict=lambda key, old, new: new),
            lambda db, t: t.update({"n": 1}),
            lambda db, t: t.get(1).replace({"id": 1}),
            lambda db, t: t.delete(),
            lambda db, t: db.table_create("u"),
            lambda db, t: db.table_drop("t"),
            lambda db, t: t.index_create("n"),
            lambda db, t: db.blobs.put(b"abc"),
            lambda db, t: db.set_retention(5),
            lambda db, t: db.compact(keep=0),
            lambda db, t: db.consumer("c", t),
            lambda db, t: db.transaction().__enter__(),
            lambda db, t: db.transaction(exclusive=True).__enter__(),
        ],
    )
    def test_everything_that_writes_is_refused_at_once(
        self, db: Database, t: Table, write: Callable[[Database, Table], Any]
    ) -> None:
        async def main() -> None:
            async def other() -> None:
                with pytest.raises(TransactionOwned):
                    write(db, t)

            with db.transaction():
                await asyncio.create_task(other())
                assert db.table_list() == ["t"]

        asyncio.run(main())

        assert t.insert({"id": 1})["inserted"] == 1

    def test_another_handle_on_the_file_is_no_way_in(self, tmp_path: Path) -> None:
        with reactdb.connect(tmp_path / "a.db") as one, reactdb.connect(tmp_path / "a.db") as other:
            t = one.table_create("t")

            async def main() -> None:
                async def write() -> None:
                    other.table("t").insert({"id": 1})

                with one.transaction():
                    other.table("t").insert({"id": 2})
                    with pytest.raises(TransactionOwned):
                        await asyncio.create_task(write())

            asyncio.run(main())

            assert ids(t) == [2]

    def test_it_writes_in_a_thread_when_the_transaction_has_ended(self, db: Database, t: Table) -> None:
        async def main() -> None:
            async def write() -> Any:
                return await asyncio.to_thread(t.insert, {"id": "later"})

            with db.transaction():
                t.insert({"id": "first"})
                task = asyncio.create_task(write())
                await pass_on()
            assert (await task)["inserted"] == 1

        asyncio.run(main())

        assert [change.key for change in db.log(table="t") if change.key != "t"] == ["first", "later"]

    def test_a_loop_inside_of_a_transaction_is_another_flow(self, db: Database, t: Table) -> None:
        async def main() -> None:
            t.insert({"id": 1})

        with db.transaction() as transaction:
            with pytest.raises(TransactionOwned, match=r"thread 'MainThread' .*task 'Task-"):
                asyncio.run(main())

            async def handed() -> None:
                transaction.table("t").insert({"id": 2})

            asyncio.run(handed())

        assert ids(t) == [2]

    def test_it_does_not_see_a_blob_that_is_not_committed(self, db: Database, t: Table) -> None:
        """In memory it is refused: there is no other connection that could read."""
        db.blobs.put(b"before")

        async def main() -> None:
            async def look() -> int:
                return len(list(db.blobs))

            with db.transaction() as transaction:
                transaction.blobs.put(b"inside")
                assert len(list(db.blobs)) == len(list(transaction.blobs)) == 2
                if db.path == ":memory:":
                    with pytest.raises(TransactionOwned):
                        await asyncio.create_task(look())
                else:
                    assert await asyncio.create_task(look()) == 1
            assert await asyncio.create_task(look()) == 2

        asyncio.run(main())

    def test_a_client_of_mongodb_in_the_process_is_refused_too(self, db: Database, t: Table) -> None:
        collection = reactdb.mongodb(db).shop.orders
        collection.insert_one({"_id": 1})

        async def main() -> None:
            async def write() -> None:
                collection.insert_one({"_id": 2})

            async def read() -> list[Any]:
                return [one["_id"] for one in collection.find()]

            with db.transaction():
                collection.insert_one({"_id": 3})
                with pytest.raises(TransactionOwned):
                    await asyncio.create_task(write())
                assert await asyncio.create_task(read()) == [1]
                raise Boom

        with pytest.raises(Boom):
            asyncio.run(main())

        assert [one["_id"] for one in collection.find()] == [1]

    def test_a_transaction_of_mongodb_that_a_task_has_open_is_in_nobodys_way(
        self, db: Database, t: Table
    ) -> None:
        """Its writes are kept until its commit, which waits for nothing."""
        client = reactdb.mongodb(db)
        collection = client.shop.orders

        async def main() -> None:
            async def buy() -> None:
                with client.start_session() as session, session.start_transaction():
                    collection.insert_one({"_id": "mine"}, session=session)
                    await pass_on()

            async def other() -> None:
                collection.insert_one({"_id": "other"})
                assert [one["_id"] for one in collection.find()] == ["other"]

            await asyncio.gather(buy(), other())

        asyncio.run(main())

        assert sorted(one["_id"] for one in collection.find()) == ["mine", "other"]


class TestSchedules:
    """The schedules of which other libraries have reports."""

    @pytest.mark.parametrize("first_ends", ["a", "b"])
    @pytest.mark.parametrize("fails", [True, False])
    def test_two_that_interleave(self, db: Database, t: Table, first_ends: str, fails: bool) -> None:
        """The second is refused at its `with`, whichever would end first."""
        done = {name: asyncio.Event() for name in "ab"}

        async def work(name: str) -> None:
            with db.transaction():
                t.insert({"id": name})
                if name != first_ends:
                    await asyncio.wait_for(done["b" if name == "a" else "a"].wait(), 5)
                await pass_on()
                if fails:
                    raise ValueError(name)

        async def run(name: str) -> None:
            try:
                await work(name)
            finally:
                done[name].set()

        async def main() -> list[Any]:
            return await both(run("a"), run("b"))

        a, b = asyncio.run(main())

        assert isinstance(b, TransactionOwned)
        assert isinstance(a, ValueError) if fails else a is None
        assert ids(t) == ([] if fails else ["a"])

    def test_a_child_that_writes_after_the_commit(self, db: Database, t: Table) -> None:
        async def main() -> None:
            ended = asyncio.Event()

            async def child() -> None:
                await ended.wait()
                t.insert({"id": "child"})

            with db.transaction():
                task = asyncio.create_task(child())
                await pass_on()
                t.insert({"id": "parent"})
            ended.set()
            await task

        asyncio.run(main())

        commits = [change.commit for change in db.log(table="t") if change.key in ("child", "parent")]
        assert len(set(commits)) == 2

    def test_one_that_is_cancelled_between_two_writes(self, db: Database, t: Table) -> None:
        async def main() -> None:
            async def work() -> None:
                with db.transaction():
                    t.insert({"id": 1})
                    await asyncio.Event().wait()
                    t.insert({"id": 2})

            task = asyncio.create_task(work())
            await pass_on()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            t.insert({"id": "other"})

        asyncio.run(main())

        assert ids(t) == ["other"]

    def test_an_async_generator_that_another_task_closes(self, db: Database, t: Table) -> None:
        async def main() -> None:
            async def rows() -> AsyncIterator[int]:
                with db.transaction():
                    t.insert({"id": "generator"})
                    yield 1
                    yield 2

            generator = rows()

            async def begin() -> None:
                await anext(generator)

            async def close() -> None:
                with pytest.raises(TransactionOwned):
                    t.insert({"id": "refused"})
                await generator.aclose()  # type: ignore[attr-defined]
                t.insert({"id": "other"})

            await asyncio.create_task(begin())
            await asyncio.create_task(close())

        asyncio.run(main())

        assert ids(t) == ["other"]

    def test_a_fixture_that_begins_in_one_task_and_ends_in_another(self, db: Database, t: Table) -> None:
        async def main() -> TransactionRolledBack:
            async def fixture() -> AsyncIterator[None]:
                with db.transaction():
                    t.insert({"id": "fixture"})
                    yield

            generator = fixture()

            async def step() -> None:
                await anext(generator)

            await asyncio.create_task(step(), name="begin")
            with pytest.raises(TransactionRolledBack) as caught:
                await asyncio.create_task(step(), name="end")
            return caught.value

        error = asyncio.run(main())

        assert (error.owner, error.ended_by) == ("task 'begin'", "task 'end'")
        assert error.place is not None
        assert error.place[0] == HERE
        assert ids(t) == []
        assert t.insert({"id": 1})["inserted"] == 1

    def test_a_task_that_is_forgotten(self, db: Database, t: Table) -> None:
        """Nothing keeps it: its block ends when it is collected, and others can write."""
        loop = asyncio.new_event_loop()

        async def work() -> None:
            with db.transaction():
                t.insert({"id": "lost"})
                await asyncio.get_running_loop().create_future()

        reported: list[Any] = []
        loop.set_exception_handler(lambda _, context: reported.append(context["message"]))
        task = loop.create_task(work())
        loop.call_soon(loop.stop)
        loop.run_forever()
        del task
        gc.collect()
        assert reported == ["Task was destroyed but it is pending!"]
        loop.close()

        assert t.insert({"id": "kept"})["inserted"] == 1
        assert ids(t) == ["kept"]

    @pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
    def test_an_eager_task_inside_of_a_block(self, db: Database, t: Table) -> None:
        async def main() -> None:
            async def child() -> None:
                t.insert({"id": "child"})

            loop = asyncio.get_running_loop()
            with db.transaction():
                t.insert({"id": "parent"})
                task = asyncio.Task(child(), loop=loop, eager_start=True)  # type: ignore[call-arg]
                with pytest.raises(TransactionOwned):
                    await task

        asyncio.run(main())

        assert ids(t) == ["parent"]


class TestGreenlets:
    def test_a_switch_inside_of_a_block(self, db: Database, t: Table) -> None:
        refused: list[TransactionOwned] = []

        def other() -> None:
            try:
                assert ids(t) == []
                t.insert({"id": "other"})
            except TransactionOwned as error:
                refused.append(error)

        def work() -> None:
            with db.transaction():
                t.insert({"id": 1})
                greenlet.greenlet(other).switch()
                assert ids(t) == [1]
                raise Boom

        with pytest.raises(Boom):
            greenlet.greenlet(work).switch()

        assert len(refused) == 1
        assert refused[0].owner.startswith("greenlet ")
        assert ids(t) == []

    def test_a_switch_inside_of_a_single_write(self, db: Database, t: Table) -> None:
        t.insert({"id": 1})
        refused: list[TransactionOwned] = []

        def other() -> None:
            with pytest.raises(TransactionOwned, match="is writing in this thread") as caught:
                t.insert({"id": 2})
            refused.append(caught.value)
            assert t.get(1).run() == {"id": 1}

        def change(document: dict[str, Any]) -> dict[str, Any]:
            greenlet.greenlet(other).switch()
            raise ValueError("taken back")

        with pytest.raises(ValueError, match="taken back"):
            t.get(1).update(change)

        assert refused[0].place is None
        assert ids(t) == [1]

    def test_one_that_ends_outside_of_where_it_began(self, db: Database, t: Table) -> None:
        block = db.transaction()
        greenlet.greenlet(block.__enter__).switch()

        with pytest.raises(TransactionRolledBack):
            block.__exit__(None, None, None)

        assert t.insert({"id": 1})["inserted"] == 1


class TestHandingOver:
    def test_a_task_writes_through_the_object(self, db: Database, t: Table) -> None:
        async def main() -> None:
            async def child(transaction: reactdb.OpenTransaction) -> None:
                inside = transaction.table("t")
                inside.insert({"id": "child"})
                assert ids(inside) == ["child", "parent"]
                assert inside.get("parent").run() == {"id": "parent"}
                assert ids(t) == []

            with db.transaction() as transaction:
                t.insert({"id": "parent"})
                await asyncio.create_task(child(transaction))
                raise Boom

        with pytest.raises(Boom):
            asyncio.run(main())

        assert ids(t) == []

    def test_a_task_shares_it(self, db: Database, t: Table) -> None:
        async def main() -> None:
            async def child(transaction: reactdb.OpenTransaction) -> None:
                with transaction.share():
                    t.insert({"id": "inside"})
                    await pass_on()
                    assert ids(t) == ["inside", "parent"]
                with pytest.raises(TransactionOwned):
                    t.insert({"id": "outside"})

            with db.transaction() as transaction:
                t.insert({"id": "parent"})
                await asyncio.gather(asyncio.create_task(child(transaction)))

        asyncio.run(main())

        assert ids(t) == ["inside", "parent"]
        assert len({change.commit for change in db.log(table="t") if change.key != "t"}) == 1

    def test_the_object_raises_after_the_end(self, db: Database, t: Table) -> None:
        with db.transaction() as transaction:
            inside = transaction.table("t")
            assert not transaction.is_closed
        assert transaction.is_closed

        for use in (
            lambda: inside.insert({"id": 1}),
            inside.run,
            inside.get(1).run,
            lambda: transaction.table_create("u"),
            transaction.table_list,
            lambda: transaction.seq,
            lambda: transaction.token,
            lambda: transaction.blobs.put(b"1"),
            lambda: transaction.transaction().__enter__(),
            lambda: transaction.share().__enter__(),
            lambda: inside.changes().cursor(),
        ):
            with pytest.raises(TransactionEnded, match="has ended"):
                use()
        assert ids(t) == []

    def test_it_is_not_for_other_threads(self, db: Database, t: Table) -> None:
        async def main() -> None:
            with db.transaction() as transaction:
                inside = transaction.table("t")
                with pytest.raises(TransactionOwned, match="cannot be used in thread 'asyncio_0'"):
                    await asyncio.to_thread(inside.insert, {"id": 1})

        asyncio.run(main())

        assert ids(t) == []

    def test_nothing_is_left_of_it_for_the_garbage_collector(self, db: Database, t: Table) -> None:
        t.insert({"id": 0})

        def use() -> weakref.ref[Any]:
            with db.transaction() as transaction, transaction.share():
                t.insert({"id": 1})
                with transaction.transaction() as part:
                    part.table("t").insert({"id": 2})
            return weakref.ref(session_of(transaction))

        gc.disable()
        try:
            assert use()() is None
        finally:
            gc.enable()

    def test_it_cannot_be_closed(self, db: Database, t: Table) -> None:
        with db.transaction() as transaction:
            with pytest.raises(reactdb.UsageError, match="share"):
                transaction.close()
            with pytest.raises(reactdb.UsageError, match="share"), transaction:
                pass
            t.insert({"id": 1})

        assert ids(t) == [1]

    def test_it_is_not_committed_while_a_task_shares_it(self, db: Database, t: Table) -> None:
        """What that task has written would be committed by halves."""

        async def main() -> list[Any]:
            ended = asyncio.Event()

            async def child(transaction: reactdb.OpenTransaction) -> None:
                with transaction.share():
                    t.insert({"id": "half"})
                    await ended.wait()
                    t.insert({"id": "other half"})

            async def parent() -> None:
                with db.transaction() as transaction:
                    task.append(asyncio.create_task(child(transaction), name="child"))
                    await pass_on()

            task: list[asyncio.Task[None]] = []
            error = await asyncio.gather(parent(), return_exceptions=True)
            assert ids(t) == []
            t.insert({"id": "of nobody"})
            ended.set()
            return [*error, *await both(*task)]

        refused, ended = asyncio.run(main())

        assert isinstance(refused, TransactionRolledBack)
        assert refused.inner == "task 'child'"
        assert isinstance(ended, TransactionEnded)
        assert ids(t) == ["of nobody"]

    def test_a_part_that_can_fail_alone_is_one_tasks(self, db: Database, t: Table) -> None:
        """Another one's write would be taken back with it."""

        async def main() -> None:
            async def child(transaction: reactdb.OpenTransaction) -> None:
                with transaction.transaction():
                    t.insert({"id": "taken back"})
                    await pass_on()
                    raise Boom

            with db.transaction() as transaction:
                task = asyncio.create_task(child(transaction), name="child")
                await asyncio.sleep(0)
                with pytest.raises(TransactionOwned, match=r"task 'child' is inside of a part"):
                    t.insert({"id": "parent"})
                with pytest.raises(Boom):
                    await task
                t.insert({"id": "parent"})

        asyncio.run(main())

        assert ids(t) == ["parent"]


class TestGenerators:
    """A plain generator and its caller are one flow."""

    def test_its_caller_is_in_its_transaction(self, db: Database, t: Table) -> None:
        def rows() -> Iterator[int]:
            with db.transaction():
                t.insert({"id": "generator"})
                yield 1

        generator = rows()
        next(generator)
        t.insert({"id": "caller"})
        generator.close()  # type: ignore[attr-defined]

        assert ids(t) == []

    def test_an_inner_block_that_ends_after_the_outer_one(self, db: Database, t: Table) -> None:
        def inner() -> Iterator[int]:
            with db.transaction():
                t.insert({"id": "inner"})
                yield 1

        def outer() -> Iterator[int]:
            with db.transaction():
                t.insert({"id": "outer"})
                yield 1

        first, second = outer(), inner()
        next(first)
        next(second)
        with pytest.raises(TransactionRolledBack, match="was still inside") as caught:
            next(first)
        assert caught.value.inner_place is not None
        t.insert({"id": "between"})
        with pytest.raises(TransactionEnded):
            next(second)

        assert ids(t) == ["between"]

    @pytest.mark.parametrize("is_flushed", [True, False])
    def test_two_inner_blocks_that_end_in_the_wrong_order(
        self, db: Database, t: Table, is_flushed: bool
    ) -> None:
        def part(name: str) -> Iterator[int]:
            with db.transaction():
                t.insert({"id": name})
                if is_flushed:
                    t.run()
                yield 1

        with db.transaction():
            t.insert({"id": "outer"})
            first, second = part("first"), part("second")
            next(first)
            next(second)
            with pytest.raises(TransactionRolledBack):
                next(first)
            assert ids(t) == ["outer"]
            t.insert({"id": "after"})
            with pytest.raises(TransactionEnded):
                next(second)

        assert ids(t) == ["after", "outer"]

    def test_an_inner_block_of_an_ended_transaction_leaves_the_next_one_alone(
        self, db: Database, t: Table
    ) -> None:
        """Both have a savepoint of the same name."""

        def part(name: str) -> Iterator[int]:
            with db.transaction():
                t.insert({"id": name})
                t.run()
                yield 1

        old = part("old")
        with pytest.raises(Boom), db.transaction():
            next(old)
            raise Boom
        with db.transaction():
            t.insert({"id": "before"})
            new = part("new")
            next(new)
            with pytest.raises(TransactionEnded):
                next(old)
            assert ids(t) == ["before", "new"]
            assert next(new, None) is None

        assert ids(t) == ["before", "new"]


class TestExclusive:
    def test_only_the_object_is_a_way_in(self, db: Database, t: Table) -> None:
        with db.transaction(exclusive=True) as transaction:
            inside = transaction.table("t")
            inside.insert({"id": 1})
            for write in (
                lambda: t.insert({"id": 2}),
                lambda: t.delete(),
                lambda: db.table_create("u"),
                lambda: db.transaction().__enter__(),
            ):
                with pytest.raises(TransactionOwned, match="is exclusive"):
                    write()
            assert ids(inside) == [1]
            assert ids(t) == []
            assert t.get(1).run() is None
            transaction.table_create("u")

        assert ids(t) == [1]
        assert db.table_list() == ["t", "u"]

    def test_the_caller_of_a_generator_is_told_apart(self, db: Database, t: Table) -> None:
        def rows() -> Iterator[int]:
            with db.transaction(exclusive=True) as transaction:
                transaction.table("t").insert({"id": "generator"})
                yield 1
                transaction.table("t").insert({"id": "again"})

        generator = rows()
        next(generator)
        with pytest.raises(TransactionOwned) as caught:
            t.insert({"id": "caller"})
        assert caught.value.place is not None
        next(generator, None)

        assert ids(t) == ["again", "generator"]

    def test_a_part_of_it_is_exclusive_too(self, db: Database, t: Table) -> None:
        with db.transaction(exclusive=True) as transaction:
            transaction.table("t").insert({"id": 1})
            with pytest.raises(Boom), transaction.transaction() as part:
                part.table("t").insert({"id": 2})
                with pytest.raises(TransactionOwned):
                    t.insert({"id": 3})
                raise Boom
            with pytest.raises(TransactionEnded):
                part.table("t").insert({"id": 4})
            transaction.table("t").get(1).update({"n": row["id"] + 1})

        assert t.run() == [{"id": 1, "n": 2}]

    def test_an_exclusive_part_of_a_transaction(self, db: Database, t: Table) -> None:
        with db.transaction():
            t.insert({"id": 1})
            with db.transaction(exclusive=True) as part:
                part.table("t").insert({"id": 2})
                with pytest.raises(TransactionOwned):
                    t.insert({"id": 3})
            t.insert({"id": 4})

        assert ids(t) == [1, 2, 4]

    def test_a_write_in_a_callback_of_a_write_is_refused(self, db: Database, t: Table) -> None:
        def change(document: dict[str, Any]) -> dict[str, Any]:
            t.insert({"id": 2})
            return {"n": 1}

        with db.transaction(exclusive=True) as transaction:
            transaction.table("t").insert({"id": 1})
            with pytest.raises(TransactionOwned):
                transaction.table("t").get(1).update(change)

        assert t.run() == [{"id": 1}]

    def test_it_has_no_members(self, db: Database, t: Table) -> None:
        with (
            db.transaction(exclusive=True) as transaction,
            pytest.raises(reactdb.UsageError, match="no members"),
            transaction.share(),
        ):
            pass

    def test_it_is_true_or_false(self, db: Database) -> None:
        with pytest.raises(reactdb.InvalidOption), db.transaction(exclusive=1):  # type: ignore[arg-type]
            pass


class TestThreads:
    @pytest.fixture
    def db(self, db: Database, tmp_path: Path) -> Iterator[Database]:
        """Another handle on the same file, that waits for a moment only."""
        path = ":memory:" if db.path == ":memory:" else db.path
        with reactdb.connect(path, durability="soft", busy_timeout=0.1) as impatient:
            yield impatient

    def test_a_thread_for_which_the_owner_waits_is_told_who_both_are(self, db: Database, t: Table) -> None:
        async def main() -> None:
            with db.transaction():
                await asyncio.to_thread(t.insert, {"id": 1})

        async def named() -> None:
            await asyncio.create_task(main(), name="pay")

        with pytest.raises(DatabaseBusy) as caught:
            asyncio.run(named())

        error = caught.value
        assert error.operation == "insert"
        assert error.owner == "task 'pay' of thread 'MainThread'"
        assert error.place is not None
        assert error.place[0] == HERE
        for part in (
            "insert",
            "thread 'asyncio_0'",
            "task 'pay'",
            "'MainThread'",
            f"{HERE}, line {error.place[1]}",
        ):
            assert part in str(error)
        assert ids(t) == []

    def test_a_generator_that_is_forgotten_is_named(self, db: Database, t: Table) -> None:
        def rows() -> Iterator[int]:
            with db.transaction():
                yield 1

        generator = rows()
        next(generator)
        errors: list[BaseException] = []

        def write() -> None:
            try:
                t.insert({"id": 1})
            except DatabaseBusy as error:
                errors.append(error)

        thread = threading.Thread(target=write, name="writer")
        thread.start()
        thread.join(10)
        generator.close()  # type: ignore[attr-defined]

        assert "thread 'writer'" in str(errors[0])
        assert HERE in str(errors[0])

    def test_a_read_in_memory_that_waits_is_told_too(self) -> None:
        with reactdb.connect(":memory:", busy_timeout=0.1) as db:
            t = db.table_create("t")

            async def main() -> None:
                with db.transaction():
                    t.insert({"id": 1})
                    await asyncio.to_thread(t.run)

            with pytest.raises(DatabaseBusy, match=r"read, in thread 'asyncio_0', waited for .* task 'Task-"):
                asyncio.run(main())

    def test_one_that_another_thread_ends_is_rolled_back(self, db: Database, t: Table) -> None:
        """As a generator does whose steps are carried out by a pool of threads."""

        def rows() -> Iterator[int]:
            with db.transaction():
                t.insert({"id": "generator"})
                yield 1

        generator = rows()
        next(generator)
        errors: list[BaseException] = []

        def end() -> None:
            try:
                next(generator)
            except TransactionRolledBack as error:
                errors.append(error)

        thread = threading.Thread(target=end, name="other")
        thread.start()
        thread.join(10)

        assert "thread 'MainThread' began it, and thread 'other' ended it" in str(errors[0])
        assert ids(t) == []
        assert t.insert({"id": 1})["inserted"] == 1


class TestFollowers:
    def test_a_callback_writes_a_commit_of_its_own_after_the_transaction(
        self, db: Database, t: Table
    ) -> None:
        log = db.table_create("log")
        t.changes().subscribe(lambda change: log.insert({"id": change["new_val"]["id"]}) and None)

        async def main() -> None:
            with db.transaction():
                t.insert({"id": 1})
                await pass_on()
                assert ids(log) == []
            assert ids(log) == [1]

        asyncio.run(main())

    def test_a_task_that_subscribes_beside_a_transaction_begins_with_the_last_commit(
        self, db: Database, t: Table
    ) -> None:
        t.insert({"id": 0})
        told: list[Any] = []

        async def main() -> None:
            async def follow() -> None:
                t.changes(include_initial=True).subscribe(lambda change: told.append(change["new_val"]["id"]))
                assert told == [0]

            with db.transaction():
                t.insert({"id": 1})
                await asyncio.create_task(follow())
                t.insert({"id": 2})
                assert told == [0]
            assert told == [0, 1, 2]

        asyncio.run(main())

    def test_a_database_that_another_task_closes(self, db: Database, t: Table) -> None:
        """It does not wait for the transaction, which could not end."""

        async def main() -> None:
            async def close() -> None:
                db.close()

            with db.transaction():
                t.insert({"id": 1})
                await asyncio.create_task(close())

        with pytest.raises(reactdb.ReactDBError):
            asyncio.run(main())


class TestWebFramework:
    """Requests of one loop, as Starlette and FastAPI run them."""

    def test_a_request_that_was_answered_with_200_is_stored(self, db: Database, t: Table) -> None:
        import httpx
        from starlette.applications import Starlette
        from starlette.requests import Request
        from starlette.responses import JSONResponse
        from starlette.routing import Route

        async def pay(request: Request) -> JSONResponse:
            with db.transaction():
                t.insert({"id": f"payment {request.query_params['n']}"})
                await pass_on()
                raise Boom

        async def sign(request: Request) -> JSONResponse:
            return JSONResponse(t.insert({"id": f"signature {request.query_params['n']}"}))

        async def sign_in_a_thread(request: Request) -> JSONResponse:
            counts = await asyncio.to_thread(t.insert, {"id": f"thread {request.query_params['n']}"})
            return JSONResponse(counts)

        async def refused(request: Request, error: Exception) -> JSONResponse:
            return JSONResponse("refused", 402)

        async def busy(request: Request, error: Exception) -> JSONResponse:
            return JSONResponse(str(error), 503)

        app = Starlette(
            routes=[
                Route("/pay", pay),
                Route("/sign", sign),
                Route("/thread", sign_in_a_thread),
            ],
            exception_handlers={Boom: refused, TransactionOwned: busy},
        )

        async def main() -> list[tuple[str, int]]:
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:

                async def get(path: str, number: int) -> tuple[str, int]:
                    answer = await client.get(f"/{path}?n={number}")
                    return f"{path} {number}", answer.status_code

                return await asyncio.gather(
                    *[get(path, number) for number in range(5) for path in ("pay", "sign", "thread")]
                )

        answers = asyncio.run(main())

        names = {"pay": "payment", "sign": "signature", "thread": "thread"}
        answered = sorted(
            f"{names[path.split()[0]]} {path.split()[1]}" for path, status in answers if status == 200
        )
        assert ids(t) == answered
        assert {status for path, status in answers if path.startswith("thread")} == {200}
        assert 503 in {status for _, status in answers}
