"""Durable consumers as a user sees them: what is given, acknowledged, given again, set aside, and by whom."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb import InvalidOption, UnsupportedFeed, UsageError, desc, row
from reactdb.change import HiddenTable
from reactdb.durable.dead_letters import DEAD_LETTERS
from reactdb.durable.partitions import PartitionReader, partition_of
from reactdb.durable.worker import Batch, Batches, ConsumerClock
from reactdb.errors import LeaseLost
from reactdb.feeds.feed import Cursor
from reactdb.query import Query
from reactdb.session import Session, session_of
from reactdb.store.leases import read_leases
from reactdb.store.writer import Writer
from reactdb.table import Table
from reactdb.testing import VirtualClock
from reactdb.values.collation import key_bytes
from tests.support.processes import another_process
from tests.support.threads import PATIENCE_S, in_thread, started, wait_until


@pytest.fixture
def orders(db: Any) -> Any:
    return db.table_create("orders")


@pytest.fixture
def worker(db: Any, orders: Any, clock: VirtualClock) -> Batches:
    """Of a consumer of `orders` from the start of the log on, which gives all that there is at once."""
    return batches_of(db, clock)


def batches_of(db: Any, clock: VirtualClock, max_changes: int = 500, **options: Any) -> Batches:
    selection = options.pop("selection", db.table("orders"))
    options = {"since": 0, "max_attempts": 3, "backoff_s": 1.0, "scheduler": clock} | options
    return db.consumer("uploader", selection, **options).batches(max_changes, max_wait_s=0)


def keys(batch: Batch | None) -> list[Any] | None:
    return None if batch is None else [change["key"] for change in batch.changes]


def give(worker: Batches) -> Batch:
    batch = worker.poll()
    assert batch is not None
    return batch


def fail(worker: Batches, error: BaseException | None = None) -> None:
    with give(worker):
        raise error or ValueError("no")


class TestBatches:
    def test_a_batch_has_the_changes_in_the_order_of_the_log(self, db, orders, worker):
        orders.insert([{"id": 1, "n": 1}, {"id": 2, "n": 1}])
        orders.get(1).update({"n": 2})
        orders.get(2).delete()

        changes = give(worker).changes

        assert [(1, "add"), (2, "add"), (1, "change"), (2, "remove")] == [
            (change["key"], change["type"]) for change in changes
        ]
        assert {
            "table": "orders",
            "old_val": {"id": 1, "n": 1},
            "new_val": {"id": 1, "n": 2},
            "type": "change",
            "seq": db.seq - 1,
            "key": 1,
            "id": changes[2]["id"],
        } == changes[2]

    def test_an_id_begins_with_the_database_and_ends_with_the_seq_and_stays(self, db, orders, clock):
        orders.insert([{"id": 1}, {"id": 2}])
        first = give(batches_of(db, clock)).changes
        again = give(batches_of(db, clock)).changes

        assert [change["id"] for change in first] == [change["id"] for change in again]
        for change in first:
            database, _, seq = change["id"].split(".")
            assert (session_of(db).database_id, change["seq"]) == (database, int(seq))

    def test_an_id_is_a_token_of_the_position_after_the_change(self, db, orders, worker):
        orders.insert([{"id": 1}, {"id": 2}])
        first, _ = give(worker).changes

        with orders.changes(since=first["id"]).cursor() as cursor:
            assert {"id": 2} == cursor.next(timeout=0)["new_val"]

    def test_a_batch_has_no_more_changes_than_asked_for(self, db, orders, clock):
        orders.insert([{"id": number} for number in range(5)])
        worker = batches_of(db, clock, max_changes=2)
        found = []
        while (batch := worker.poll()) is not None:
            with batch:
                found.append(keys(batch))

        assert [[0, 1], [2, 3], [4]] == found

    def test_a_batch_that_is_not_full_waits_for_more(self, db, orders, clock):
        worker = db.consumer("uploader", orders, scheduler=clock).batches(max_changes=3, max_wait_s=2.0)
        orders.insert({"id": 1})

        assert worker.poll() is None
        assert 2.0 == worker.wait_s
        clock.advance_by(1.0)
        orders.insert({"id": 2})
        assert worker.poll() is None
        clock.advance_by(1.0)
        with give(worker) as batch:
            assert [1, 2] == keys(batch)
        orders.insert([{"id": number} for number in (3, 4, 5)])
        assert [3, 4, 5] == keys(worker.poll())

    def test_a_new_consumer_begins_now_and_goes_on_where_it_stands(self, db, orders):
        orders.insert({"id": 1})
        db.consumer("uploader", orders)
        orders.insert({"id": 2})

        # Since says where a new one begins.
        worker = db.consumer("uploader", orders, since=0).batches(max_wait_s=0)
        assert [2] == keys(worker.poll())

    def test_a_consumer_goes_on_after_the_database_was_opened_again(self, path, clock):
        with reactdb.connect(path) as db:
            orders = db.table_create("orders")
            worker = batches_of(db, clock, max_changes=1)
            orders.insert([{"id": 1}, {"id": 2}])
            with give(worker):
                pass
            # Given, and not acknowledged.
            assert [2] == keys(worker.poll())
        with reactdb.connect(path) as db:
            assert [2] == keys(batches_of(db, clock).poll())

    @pytest.mark.parametrize(
        ("select", "expected"),
        [
            (
                lambda orders: orders.filter(row["n"] > 1),
                [(None, {"id": 1, "n": 2}), ({"id": 1, "n": 2}, None)],
            ),
            (lambda orders: orders.get(2), [(None, {"id": 2, "n": 1})]),
            (lambda orders: orders.between(2, 9), [(None, {"id": 2, "n": 1})]),
            (lambda orders: orders.get_all(2, 2), [(None, {"id": 2, "n": 1})]),
            (
                lambda orders: orders.pluck("n"),
                [(None, {"n": 1}), (None, {"n": 1}), ({"n": 1}, {"n": 2}), ({"n": 2}, None)],
            ),
            (lambda orders: orders.filter(lambda order: order["id"] == 2).map(row["n"]), [(None, 1)]),
            (
                lambda orders: orders.get_all(2, index="n"),
                [(None, {"id": 1, "n": 2}), ({"id": 1, "n": 2}, None)],
            ),
            (
                lambda orders: orders.order_by("n").filter({"n": 2}),
                [(None, {"id": 1, "n": 2}), ({"id": 1, "n": 2}, None)],
            ),
        ],
    )
    def test_a_selection_is_looked_at_document_by_document(self, db, orders, clock, select, expected):
        orders.index_create("n")
        worker = batches_of(db, clock, selection=select(orders))
        orders.insert([{"id": 1, "n": 1}, {"id": 2, "n": 1}])
        orders.get(1).update({"n": 2})
        orders.get(1).delete()

        assert expected == [(change["old_val"], change["new_val"]) for change in give(worker).changes]

    def test_without_a_selection_every_table_is_given_also_later_ones(self, db, orders):
        worker = db.consumer("uploader").batches(max_wait_s=0)
        orders.insert({"id": 1})
        db.table_create("others").insert({"id": 2})

        assert [("orders", 1), ("others", 2)] == [
            (change["table"], change["key"]) for change in give(worker).changes
        ]

    def test_what_does_not_match_is_passed_and_noted_now_and_then(self, db, orders, clock, monkeypatch):
        monkeypatch.setattr("reactdb.durable.worker.PASSED_CHANGES", 100)
        worker = batches_of(db, clock, selection=orders.filter(row["n"] > 0))
        orders.insert([{"id": number, "n": 0} for number in range(150)])

        assert worker.poll() is None
        assert 0 == db.consumers()[0]["seq"]
        worker.poll()
        assert db.seq == db.consumers()[0]["seq"]

    def test_a_commit_may_be_in_several_batches(self, db, orders, clock):
        worker = batches_of(db, clock, max_changes=2)
        with db.transaction():
            orders.insert([{"id": number} for number in range(3)])

        with give(worker) as batch:
            assert [0, 1] == keys(batch)
        assert [2] == keys(worker.poll())


class TestAcknowledging:
    def test_a_block_that_is_left_acknowledges(self, db, orders, worker):
        orders.insert({"id": 1})
        with give(worker) as batch:
            assert (0, 1) == (db.consumers()[0]["seq"], len(batch))

        assert db.seq == db.consumers()[0]["seq"]
        assert worker.poll() is None

    def test_a_loop_that_is_broken_in_the_block_has_acknowledged(self, db, orders):
        consumer = db.consumer("uploader", orders, since=0)
        orders.insert({"id": 1})
        for batch in consumer.batches(max_wait_s=0):
            with batch:
                break

        assert db.seq == db.consumers()[0]["seq"]

    def test_a_loop_that_is_begun_again_goes_on_at_once(self, db, orders):
        """Though the first worker has closed nothing, and the batch is still known."""
        consumer = db.consumer("uploader", orders, since=0)
        orders.insert({"id": 1})
        batch = next(consumer.batches(max_wait_s=0))

        assert keys(batch) == keys(next(consumer.batches(max_wait_s=0)))

    def test_a_batch_that_nobody_acknowledged_is_no_reason_for_the_next(self, db, orders, worker):
        orders.insert({"id": 1})
        give(worker)

        with pytest.raises(UsageError, match="neither acknowledged nor left: use `with batch:`"):
            worker.poll()

    def test_a_batch_is_acknowledged_once(self, db, orders, worker):
        orders.insert({"id": 1})
        batch = give(worker)
        batch.acknowledge()

        with pytest.raises(UsageError, match="this batch was acknowledged before"):
            batch.acknowledge()

    def test_an_acknowledgement_is_part_of_the_transaction(self, path, clock):
        """Others see neither it nor the writes before the commit, and then both."""
        with reactdb.connect(path) as db:
            orders, done = db.table_create("orders"), db.table_create("done")
            orders.insert({"id": 1})
            worker = batches_of(db, clock)
            batch = give(worker)
            with db.transaction():
                done.insert({"id": 1})
                batch.acknowledge()
                assert (0, 0) == in_thread(lambda: (done.count().run(), db.consumers()[0]["seq"]))

            assert (1, batch.until) == (done.count().run(), db.consumers()[0]["seq"])
            assert worker.poll() is None

    def test_a_transaction_that_is_taken_back_takes_the_acknowledgement_with_it(
        self, db, orders, worker, clock
    ):
        done = db.table_create("done")
        orders.insert({"id": 1})
        with give(worker) as batch, db.transaction():
            done.insert({"id": 1})
            batch.acknowledge()
            raise ValueError("after all")

        assert (0, 0) == (done.count().run(), db.consumers()[0]["seq"])
        assert worker.poll() is None
        clock.advance_by(1.0)
        assert [1] == keys(worker.poll())

    def test_an_exception_goes_on_inside_a_transaction_because_it_has_to_be_taken_back(
        self, db, orders, worker
    ):
        done = db.table_create("done")
        orders.insert({"id": 1})
        batch = give(worker)
        with pytest.raises(ValueError, match="no"), db.transaction(), batch:
            done.insert({"id": 1})
            raise ValueError("no")

        assert 0 == done.count().run()

    def test_an_exception_after_the_acknowledgement_is_the_callers(self, db, orders, worker):
        orders.insert({"id": 1})
        with pytest.raises(ValueError, match="too late"), give(worker) as batch:
            batch.acknowledge()
            raise ValueError("too late")

        assert worker.poll() is None

    def test_a_transaction_that_somebody_took_back_unseen_is_a_failure(self, db, orders, worker, clock):
        orders.insert({"id": 1})
        batch = give(worker)
        with pytest.raises(ValueError, match="no"), db.transaction():
            batch.acknowledge()
            raise ValueError("no")

        assert worker.poll() is None
        assert ("the transaction that acknowledged it was taken back" in db.consumers()[0]["error"], 1) == (
            True,
            db.consumers()[0]["attempts"],
        )
        clock.advance_by(1.0)
        assert [1] == keys(worker.poll())

    def test_trouble_with_the_file_at_the_end_of_a_block_makes_the_batch_come_again(
        self, db, orders, worker, clock, monkeypatch
    ):
        """As trouble inside of the block does."""
        orders.insert({"id": 1})

        def refuse(batch: Batch) -> None:
            raise reactdb.DatabaseBusy("somebody writes")

        with monkeypatch.context() as patch:
            patch.setattr(Batch, "acknowledge", refuse)
            with give(worker):
                pass
        assert worker.poll() is None
        clock.advance_by(1.0)

        assert (1, 0) == (give(worker).attempt, db.consumers()[0]["attempts"])

    def test_the_next_batch_is_not_read_inside_a_transaction(self, db, worker):
        with (
            pytest.raises(UsageError, match="iterate outside, and begin a transaction for each batch"),
            db.transaction(),
        ):
            worker.poll()


class TestFailures:
    def test_a_change_that_fails_comes_again_after_a_while_that_doubles(self, db, orders, clock):
        worker = batches_of(db, clock, max_attempts=None, most_backoff_s=5.0)
        orders.insert({"id": 1})
        waits = []
        for attempt in range(1, 6):
            batch = give(worker)
            assert attempt == batch.attempt
            with batch:
                raise ValueError("no")
            assert worker.poll() is None
            waits.append(worker.wait_s)
            clock.advance_by(worker.wait_s)

        assert [1.0, 2.0, 4.0, 5.0, 5.0] == waits

    def test_a_batch_that_fails_comes_again_half_as_long_until_the_change_is_alone(
        self, db, orders, worker, clock
    ):
        orders.insert([{"id": number} for number in range(8)])
        found = []
        for _ in range(20):
            batch = worker.poll()
            if batch is None:
                if db.consumers()[0]["lag"] <= 1:
                    break
                clock.advance_by(10.0)
                continue
            found.append(keys(batch))
            with batch:
                if 3 in keys(batch):
                    raise ValueError("not 3")

        # 2 alone was not tried with 3 again: what has succeeded grows, and what fails shrinks.
        assert [
            list(range(8)),
            [0, 1, 2, 3],
            [0, 1],
            [2, 3, 4, 5],
            [2, 3],
            [2],
            [3, 4],
            [3],
            [3],
            [3],
        ] == found[:10]
        assert {0, 1, 2, 4, 5, 6, 7} == {key for one in found if 3 not in one for key in one}
        assert [3] == [document["key"] for document in db.table(DEAD_LETTERS)]

    def test_after_the_last_attempt_a_change_is_set_aside_with_its_error(self, db, orders, worker, clock):
        orders.insert({"id": 1, "n": 1})
        seq = db.seq
        for _ in range(3):
            fail(worker, ValueError("the receiver\nis gone"))
            worker.poll()
            clock.advance_by(10.0)

        assert worker.poll() is None
        (document,) = db.table(DEAD_LETTERS).run()
        assert document.pop("time").tzinfo is not None
        assert {
            "id": ["uploader", seq],
            "consumer": "uploader",
            "partition": 0,
            "table": "orders",
            "key": 1,
            "seq": seq,
            "type": "add",
            "old_val": None,
            "new_val": {"id": 1, "n": 1},
            "error": "ValueError: the receiver\nis gone",
            "attempts": 3,
        } == document
        assert (1, None, None, 0) == tuple(
            db.consumers()[0][name] for name in ("dead_letters", "failing", "error", "attempts")
        )

    def test_attempts_are_counted_in_the_file_whoever_makes_them(self, db, orders, clock):
        orders.insert({"id": 1})
        for attempt in range(1, 4):
            worker = batches_of(db, clock)
            batch = give(worker)
            assert attempt == batch.attempt
            with batch:
                raise ValueError("no")
            worker.poll()
            worker.close()

        assert 1 == db.table(DEAD_LETTERS).count().run()

    def test_a_failure_counts_also_where_another_worker_wishes_for_the_lease(self, db, orders, clock):
        orders.insert({"id": 1})
        worker = batches_of(db, clock, partitions=2, max_attempts=1)
        batch = give(worker)
        batches_of(db, clock).poll()
        with batch:
            raise ValueError("no")
        worker.poll()

        assert 1 == db.table(DEAD_LETTERS).count().run()

    def test_trouble_with_a_file_and_ctrl_c_are_no_fault_of_a_change(self, db, orders, worker, clock):
        orders.insert({"id": 1})
        for _ in range(5):
            fail(worker, reactdb.DatabaseBusy("somebody writes"))
            worker.poll()
            clock.advance_by(60.0)
        with pytest.raises(KeyboardInterrupt):
            fail(worker, KeyboardInterrupt())

        # At once, too.
        assert 1 == give(worker).attempt
        assert 0 == db.consumers()[0]["attempts"]

    def test_a_change_that_the_selection_cannot_be_worked_out_for_is_set_aside_at_once(
        self, db, orders, clock
    ):
        worker = batches_of(db, clock, selection=orders.map(row["n"] + 1))
        orders.insert([{"id": 1, "n": 1}, {"id": 2, "n": "x"}, {"id": 3, "n": 3}])
        found = []
        while (batch := worker.poll()) is not None:
            with batch:
                found += [change["new_val"] for change in batch]

        assert [2, 4] == found
        (document,) = db.table(DEAD_LETTERS).run()
        assert (2, {"id": 2, "n": "x"}, 1) == tuple(document[name] for name in ("key", "new_val", "attempts"))
        assert "Expected type" in document["error"]

    def test_a_consumer_of_all_tables_that_fails_on_everything_does_not_feed_on_what_it_sets_aside(
        self, db, orders, clock
    ):
        names = ("first", "second")
        workers = [
            db.consumer(name, since=0, max_attempts=1, backoff_s=0, scheduler=clock).batches(1, max_wait_s=0)
            for name in names
        ]
        orders.insert([{"id": number} for number in range(3)])

        # Each failure is a write, and each write is a change. There is an end to it.
        for _ in range(20):
            for worker in workers:
                if (batch := worker.poll()) is not None:
                    with batch:
                        raise ValueError("no")

        assert [None, None] == [worker.poll() for worker in workers]
        assert dict.fromkeys(names, 3) == {one["name"]: one["dead_letters"] for one in db.consumers()}
        assert {"orders"} == {document["table"] for document in db.table(DEAD_LETTERS)}

    def test_a_consumer_of_what_is_set_aside_is_given_it_and_does_not_feed_on_its_own_failures(
        self, db, orders, worker, clock
    ):
        orders.insert([{"id": 1}, {"id": 2}])
        for _ in range(20):
            if (batch := worker.poll()) is not None:
                with batch:
                    raise ValueError("no")
            clock.advance_by(60.0)
        options = {"since": 0, "max_attempts": 1, "backoff_s": 0, "scheduler": clock}
        mourners = [
            db.consumer(name, db.table(DEAD_LETTERS), **options).batches(1, max_wait_s=0) for name in "ab"
        ]

        given = []
        for _ in range(10):
            for mourner in mourners:
                if (batch := mourner.poll()) is not None:
                    with batch:
                        given += [change["new_val"]["key"] for change in batch]
                        raise ValueError("no")

        assert ([1, 1, 2, 2], 2) == (given, db.table(DEAD_LETTERS).count().run())
        assert [2, 2, 2] == [one["dead_letters"] for one in db.consumers()]

    def test_a_consumer_of_all_tables_is_not_given_what_is_hidden(self, db, orders, clock):
        hidden = HiddenTable("tests", "notes")
        session_of(db).make_hidden(hidden)
        worker = db.consumer("all", since=0, partitions=2, scheduler=clock).batches(max_wait_s=0)
        with db.transaction():
            Table(session_of(db), Query(hidden)).insert([{"id": number} for number in range(8)])
            orders.insert([{"id": number} for number in range(8)])
        Table(session_of(db), Query(hidden)).get(1).update({"n": 1})

        given = []
        while (batch := worker.poll()) is not None:
            with batch:
                given += [(change["table"], change["key"]) for change in batch]

        assert [("orders", number) for number in range(8)] == sorted(given)
        # What it has passed without a match is no lag for ever, either: it is noted with the next renewal.
        clock.advance_by(20.0)
        assert worker.poll() is None
        assert [0, 0] == [one["lag"] for one in db.consumers()]

    def test_a_blob_that_a_mapping_made_up_keeps_no_change_from_being_set_aside(self, db, orders, clock):
        worker = batches_of(
            db, clock, max_attempts=1, selection=orders.map(lambda order: reactdb.Blob("0" * 64, order["id"]))
        )
        orders.insert({"id": 1})
        fail(worker)
        assert worker.poll() is None

        assert [(1, None)] == [(one["key"], one["new_val"]) for one in db.table(DEAD_LETTERS)]

    def test_documents_that_do_not_fit_into_one_are_left_in_the_log(self, db, orders, clock):
        worker = batches_of(db, clock, max_attempts=1)
        orders.insert({"id": 1, "text": "x" * 9_000_000})
        orders.get(1).update({"text": "y" * 9_000_000})
        with give(worker):
            raise ValueError("no")
        for _ in range(9):
            clock.advance_by(60.0)
            batch = worker.poll()
            if batch is not None:
                with batch:
                    raise ValueError("no")

        added, changed = db.table(DEAD_LETTERS).order_by("seq").run()
        assert (9_000_000, None) == (len(added["new_val"]["text"]), changed["new_val"])

    def test_what_a_consumer_of_all_tables_sets_aside_does_not_come_back_to_it(self, db, orders, clock):
        worker = batches_of(db, clock, selection=None, max_attempts=1)
        orders.insert({"id": 1})
        fail(worker)
        worker.poll()
        clock.advance_by(60.0)

        assert 1 == db.table(DEAD_LETTERS).count().run()
        assert worker.poll() is None


class TestLeases:
    def test_one_worker_at_a_time_has_a_name(self, db, orders, worker, clock):
        orders.insert({"id": 1})
        other = batches_of(db, clock)
        batch = give(worker)

        assert other.poll() is None
        batch.acknowledge()
        orders.insert({"id": 2})
        assert other.poll() is None
        assert [2] == keys(worker.poll())

    def test_a_worker_that_hangs_is_fenced_off(self, db, orders, worker, clock):
        done = db.table_create("done")
        orders.insert({"id": 1})
        other = batches_of(db, clock)
        hung = give(worker)
        assert other.poll() is None
        clock.advance_by(30.0)

        batch = give(other)
        assert (hung.fence + 1, keys(hung)) == (batch.fence, keys(batch))
        with (
            pytest.raises(
                LeaseLost, match="it was taken over: its fencing number is 2 now, and the batch has 1"
            ),
            db.transaction(),
        ):
            done.insert({"id": 1})
            hung.acknowledge()
        assert 0 == done.count().run()
        batch.acknowledge()
        # What had been out is no trouble for what comes.
        assert worker.poll() is None

    def test_a_position_that_somebody_has_moved_is_not_moved_by_what_was_read_before(
        self, db, orders, worker, clock
    ):
        orders.insert([{"id": 1}, {"id": 2}])
        while db.consumers()[0]["failing"] is None:
            batch = worker.poll()
            if batch is not None:
                with batch:
                    raise ValueError("no")
            clock.advance_by(10.0)
        batch = give(worker)
        db.consumer("uploader", orders).skip()

        with pytest.raises(LeaseLost, match="its position was moved"):
            batch.acknowledge()
        assert [2] == keys(worker.poll())

    def test_leaving_the_block_of_a_batch_that_was_taken_over_raises_too(self, db, orders, worker, clock):
        orders.insert({"id": 1})
        other = batches_of(db, clock)
        batch = give(worker)
        clock.advance_by(30.0)
        give(other)

        with pytest.raises(LeaseLost), batch:
            pass

    def test_a_lease_that_ended_and_that_nobody_took_is_still_ones_own(self, db, orders, worker, clock):
        orders.insert({"id": 1})
        batch = give(worker)
        clock.advance_by(3600.0)
        batch.acknowledge()

        assert worker.poll() is None

    def test_a_worker_that_is_closed_gives_up_at_once(self, db, orders, worker, clock):
        orders.insert({"id": 1})
        other = batches_of(db, clock)
        give(worker)
        assert other.poll() is None
        worker.close()

        assert [1] == keys(other.poll())
        assert worker.poll() is None

    def test_a_worker_that_is_closed_while_it_takes_leases_keeps_none(self, db, orders, worker, monkeypatch):
        """`close` may be called by any thread. Another process could not tell that this holder does not work any more."""
        real = Session.transact

        def transact(session: Session, work: Any, **options: Any) -> Any:
            if options["operation"] == "take a lease":
                worker.close()
            return real(session, work, **options)

        monkeypatch.setattr(Session, "transact", transact)
        orders.insert({"id": 1})

        assert worker.poll() is None
        with session_of(db).read() as snapshot:
            assert [None] == [lease.holder for lease in read_leases(snapshot.connection, "uploader")]

    def test_a_worker_that_is_closed_before_it_waits_hears_of_nothing(self, db, orders, worker, monkeypatch):
        real = Session.watch

        def watch(*arguments: Any) -> Any:
            worker.close()
            return real(*arguments)

        monkeypatch.setattr(Session, "watch", watch)

        with pytest.raises(StopIteration):
            next(worker)
        assert [] == db.subscriptions()

    def test_a_batch_that_was_acknowledged_can_still_be_iterated(self, db, orders, worker, clock):
        """Also where that takes longer than the lease, which it does not renew then."""
        orders.insert([{"id": number} for number in range(5)])
        batch = give(worker)
        batch.acknowledge()
        found = []
        for change in batch:
            clock.advance_by(20.0)
            found.append(change["key"])

        assert [0, 1, 2, 3, 4] == found

    def test_a_lease_that_was_lost_ends_the_batch(self, db, orders, worker, clock):
        """So the next can be read, where the batch is in no `with` block."""
        orders.insert({"id": 1})
        other = batches_of(db, clock)
        batch = give(worker)
        clock.advance_by(30.0)
        give(other)
        with pytest.raises(LeaseLost):
            batch.renew()

        assert worker.poll() is None

    def test_a_worker_that_goes_on_iterating_renews_its_lease(self, db, orders, worker, clock):
        orders.insert([{"id": number} for number in range(5)])
        other = batches_of(db, clock)
        for _ in give(worker):
            clock.advance_by(20.0)
            assert other.poll() is None

    def test_a_long_piece_of_work_renews_it_itself(self, db, orders, worker, clock):
        orders.insert({"id": 1})
        other = batches_of(db, clock)
        batch = give(worker)
        for _ in range(5):
            clock.advance_by(20.0)
            batch.renew()
            assert other.poll() is None
        batch.acknowledge()
        with pytest.raises(UsageError):
            batch.renew()

    def test_an_idle_worker_writes_once_in_half_the_time_of_its_lease(
        self, db, orders, worker, clock, monkeypatch
    ):
        worker.poll()
        writes = []
        real = Session.transact
        monkeypatch.setattr(
            Session,
            "transact",
            lambda self, work, **options: writes.append(options["durability"]) or real(self, work, **options),
        )
        for _ in range(600):
            clock.advance_by(1.0)
            worker.poll()

        # In ten minutes, and no disk was waited for.
        assert ["soft"] * 40 == writes

    def test_a_wall_clock_that_was_set_back_does_not_keep_a_lease_for_ever(
        self, db, orders, worker, clock, monkeypatch
    ):
        orders.insert({"id": 1})
        other = batches_of(db, clock)
        give(worker)
        assert other.poll() is None
        wall_ms = ConsumerClock.wall_ms
        monkeypatch.setattr(ConsumerClock, "wall_ms", lambda self: wall_ms(self) - 86_400_000)
        clock.advance_by(29.0)
        assert other.poll() is None
        clock.advance_by(2.0)

        assert [1] == keys(other.poll())

    def test_partitions_are_shared_evenly_and_each_key_is_in_one(self, db, orders, clock):
        workers = [batches_of(db, clock, partitions=6) for _ in range(3)]
        for _ in range(12):
            for one in workers:
                one.poll()
        assert [2, 2, 2] == [len(one.partitions) for one in workers]

        orders.insert([{"id": number} for number in range(60)])
        given = []
        for one in workers:
            while (batch := one.poll()) is not None:
                with batch:
                    for change in batch:
                        assert batch.partition == partition_of(key_bytes(change["key"]), 6)
                        assert batch.partition in one.partitions
                        given.append(change["key"])
        assert list(range(60)) == sorted(given)

    def test_the_partition_of_a_key_is_the_same_for_ever(self):
        """Positions in files rest on it."""
        found = [partition_of(key_bytes(key), 8) for key in (0, 1, 2, "a", "b", [1, "x"], b"y", 1.5, True)]

        assert PARTITIONS_OF_8 == found

    def test_keys_are_spread_over_partitions(self):
        for partitions in (2, 3, 4, 8, 10, 16):
            for some in (range(20_000), [f"user-{number}" for number in range(20_000)]):
                counts = [0] * partitions
                for key in some:
                    counts[partition_of(key_bytes(key), partitions)] += 1
                assert max(counts) < 1.25 * min(counts), (partitions, counts)

    def test_a_worker_that_ends_leaves_its_partitions_to_the_others(self, db, orders, clock):
        first, second = (batches_of(db, clock, partitions=4) for _ in range(2))
        for _ in range(6):
            first.poll()
            second.poll()
        assert [2, 2] == [len(first.partitions), len(second.partitions)]
        first.close()
        second.poll()

        assert [0, 1, 2, 3] == second.partitions


PARTITIONS_OF_8 = [1, 0, 6, 2, 3, 6, 7, 5, 3]


class TestOtherProcesses:
    SCRIPT = """
import reactdb, sys, time
db = reactdb.connect(sys.argv[1])
for batch in db.consumer("uploader", db.table("orders")).batches(max_wait_s=0):
    print([change["key"] for change in batch.changes], flush=True)
    time.sleep(600)
"""

    @pytest.fixture
    def child(self, path: Path) -> Iterator[subprocess.Popen[str]]:
        """One that has a batch, and does nothing with it."""
        with reactdb.connect(path) as db:
            orders = db.table_create("orders")
            db.consumer("uploader", orders)
            orders.insert({"id": 1})
        child = subprocess.Popen(
            [sys.executable, "-c", self.SCRIPT, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        try:
            assert "[1]\n" == child.stdout.readline()
            yield child
        finally:
            child.kill()
            child.wait()
            child.stdout.close()

    def test_a_process_that_died_has_its_lease_no_more(self, path, child):
        with reactdb.connect(path) as db:
            worker = db.consumer("uploader", db.table("orders")).batches(max_wait_s=0)
            assert worker.poll() is None
            assert str(child.pid) in db.consumers()[0]["holder"]
            child.kill()
            child.wait()

            assert db.consumers()[0]["holder"] is None
            assert [1] == keys(worker.poll())

    def test_a_process_that_is_stopped_loses_its_lease_after_its_time(self, path, child, clock):
        with reactdb.connect(path) as db:
            worker = db.consumer("uploader", db.table("orders"), scheduler=clock).batches(max_wait_s=0)
            os.kill(child.pid, signal.SIGSTOP)
            assert worker.poll() is None
            clock.advance_by(31.0)

            assert [1] == keys(worker.poll())


class TestWaiting:
    def test_a_thread_that_waits_is_woken_by_a_commit(self, db, orders):
        consumer = db.consumer("uploader", orders)
        found = []

        def work() -> None:
            with consumer.batches(max_wait_s=0) as batches:
                for batch in batches:
                    with batch:
                        found.extend(keys(batch))
                    if 3 in found:
                        return

        thread, outcome = started(work)
        for number in (1, 2, 3):
            orders.insert({"id": number})
        thread.join(PATIENCE_S)

        assert ([None], [1, 2, 3]) == (outcome, found)

    def test_a_thread_that_waits_is_woken_by_a_commit_of_another_process(self, path):
        with reactdb.connect(path) as db:
            orders = db.table_create("orders")
            batches = db.consumer("uploader", orders).batches(max_wait_s=0)
            thread, outcome = started(lambda: keys(next(batches)))
            script = "import reactdb, sys; reactdb.connect(sys.argv[1]).table('orders').insert({'id': 7})"
            subprocess.run([sys.executable, "-c", script, str(path)], check=True)
            thread.join(PATIENCE_S)

        assert [[7]] == outcome

    @pytest.mark.parametrize("what", ["worker", "database"])
    def test_closing_ends_a_thread_that_waits(self, db, orders, what):
        batches = db.consumer("uploader", orders).batches()
        thread, outcome = started(lambda: list(batches))
        wait_until(lambda: db.subscriptions() != [])
        (batches if what == "worker" else db).close()
        thread.join(PATIENCE_S)

        # A worker that was just about to look says that the database is closed.
        assert [] == outcome[0] or (
            what == "database" and isinstance(outcome[0], reactdb.errors.DatabaseClosed)
        )

    def test_a_coroutine_waits_in_the_same_way(self, db, orders):
        async def run() -> list[Any]:
            found: list[Any] = []
            batches = db.consumer("uploader", orders).batches(max_wait_s=0)

            async def work() -> None:
                async for batch in batches:
                    with batch:
                        found.extend(keys(batch) or [])

            task = asyncio.create_task(work())
            for number in (1, 2, 3):
                await asyncio.to_thread(orders.insert, {"id": number})
                while number not in found:
                    await asyncio.sleep(0)
            batches.close()
            await task
            return found

        assert [1, 2, 3] == asyncio.run(run())

    def test_history_that_only_the_waiting_had_not_heard_of_is_no_trouble(self, db, orders, monkeypatch):
        """A worker that waits hears of commits by a feed, and another process may compact what that has not heard of yet."""
        real = Cursor.next

        def lose(cursor: Cursor, timeout: float | None = None) -> Any:
            monkeypatch.setattr(Cursor, "next", real)
            orders.insert({"id": 1})
            raise reactdb.HistoryLost(1, 3)

        monkeypatch.setattr(Cursor, "next", lose)

        assert [1] == keys(next(db.consumer("uploader", orders).batches(max_wait_s=0)))

    def test_a_table_that_is_dropped_ends_the_iteration_with_an_error(self, db, orders):
        batches = db.consumer("uploader", orders).batches()
        db.table_drop("orders")

        with pytest.raises(reactdb.TableNotFound):
            next(batches)


class TestHistory:
    def test_history_that_a_consumer_has_still_to_read_stays(self, db, orders, worker):
        orders.insert({"id": 1})
        orders.get(1).update({"n": 1})
        orders.get(1).update({"n": 2})
        assert 0 == db.compact(keep=0)["oldest"]

        with give(worker) as batch:
            assert 3 == len(batch)
        assert db.seq == db.compact(keep=0)["oldest"]

    def test_history_stays_for_a_consumer_that_was_made_while_compaction_waited_for_its_turn(
        self, path, monkeypatch
    ):
        begin_upkeep = Writer.begin_upkeep

        def begin_late(writer: Writer, *given: Any) -> None:
            with another_process(path) as other:
                other.consumer("late", other.table("orders"), since=0)
            begin_upkeep(writer, *given)

        with reactdb.connect(path) as db:
            orders = db.table_create("orders")
            orders.insert({"id": 1})
            orders.get(1).update({"n": 1})
            monkeypatch.setattr(Writer, "begin_upkeep", begin_late)

            assert 0 == db.compact(keep=0)["oldest"]
            assert not db.consumers()[0]["is_lost"]

    def test_past_what_the_file_names_it_goes_and_the_consumer_is_told(self, db, orders, worker):
        db.hold(2)
        orders.insert({"id": 1})
        for number in range(5):
            orders.get(1).update({"n": number})
        db.compact(keep=0)

        assert db.consumers()[0]["is_lost"]
        with pytest.raises(
            reactdb.HistoryLost,
            match=r"consumer `uploader` was behind for too long: changes since seq 0 are gone; the log starts at seq 8; .* reset",
        ):
            worker.poll()

    def test_a_consumer_that_lost_history_goes_on_with_what_is_left(self, db, orders, clock):
        db.hold(2)
        consumer = db.consumer("uploader", orders, since=0)
        orders.insert({"id": 1})
        for number in range(5):
            orders.get(1).update({"n": number})
        db.compact(keep=3)
        with pytest.raises(reactdb.HistoryLost) as lost:
            next(consumer.batches(max_wait_s=0))
        consumer.reset(since=lost.value.oldest - 1)

        assert 3 == len(next(consumer.batches(max_wait_s=0)))

    def test_a_worker_that_was_stopped_before_it_read_has_not_lost_what_another_one_handled(
        self, db, orders, clock, monkeypatch
    ):
        """Its lease was taken over, the other one went on, and what that had read was removed: nothing is lost."""
        orders.insert({"id": 1})
        stopped, other = batches_of(db, clock), batches_of(db, clock)
        with give(stopped) as batch:
            assert [1] == keys(batch)
        real = PartitionReader.fill

        def stop(reader: PartitionReader, *arguments: Any) -> bool:
            monkeypatch.setattr(PartitionReader, "fill", real)
            clock.advance_by(60)
            with give(other) as batch:
                assert [2] == keys(batch)
            orders.get(1).delete()
            with give(other) as batch:
                assert [1] == keys(batch)
            assert db.seq == db.compact(keep=0)["oldest"]
            return real(reader, *arguments)

        orders.insert({"id": 2})
        monkeypatch.setattr(PartitionReader, "fill", stop)

        assert stopped.poll() is None
        orders.insert({"id": 3})
        assert stopped.poll() is None
        assert [3] == keys(give(other))

    def test_how_much_is_held_is_kept_in_the_file(self, path):
        with reactdb.connect(path) as db:
            assert 1_000_000 == db.stats()["hold"]
            db.hold(5)
        with reactdb.connect(path) as db:
            assert 5 == db.stats()["hold"]
            for wrong in (-1, True, "x", 1.5, 2**63):
                with pytest.raises(InvalidOption):
                    db.hold(wrong)


class TestMinding:
    def test_how_consumers_fare(self, db, orders, clock):
        assert [] == db.consumers()
        worker = batches_of(db, clock, partitions=2)
        orders.insert([{"id": number} for number in range(3)])
        worker.poll()
        first, second = db.consumers()

        assert ("uploader", 0, 2, 0, 4) == tuple(
            first[name] for name in ("name", "partition", "partitions", "seq", "lag")
        )
        assert 0 <= first["lag_s"] < 60
        assert (worker.name, 1, 0, None, False) == tuple(
            second[name] for name in ("holder", "fence", "attempts", "failing", "is_lost")
        )

    def test_a_consumer_that_is_reset_begins_there_and_whoever_has_it_has_it_no_more(self, db, orders, clock):
        consumer = db.consumer("uploader", orders, since=0, scheduler=clock)
        orders.insert([{"id": 1}, {"id": 2}])
        worker = consumer.batches(max_wait_s=0)
        batch = give(worker)
        consumer.reset()
        with pytest.raises(LeaseLost):
            batch.acknowledge()
        assert worker.poll() is None
        consumer.reset(since=0)

        assert [1, 2] == keys(worker.poll())

    def test_a_change_that_fails_can_be_skipped(self, db, orders, worker, clock):
        consumer = db.consumer("uploader", orders)
        orders.insert({"id": 1})
        with pytest.raises(UsageError, match="nothing of consumer `uploader` is failing"):
            consumer.skip()
        fail(worker)
        worker.poll()
        assert 1 == consumer.skip()

        assert [("ValueError: no", {"id": 1})] == [
            (document["error"], document["new_val"]) for document in db.table(DEAD_LETTERS)
        ]
        clock.advance_by(60.0)
        assert worker.poll() is None

    def test_a_consumer_that_was_removed_is_not_there(self, db, orders, worker):
        consumer = db.consumer("uploader", orders)
        consumer.remove()

        assert [] == db.consumers()
        with pytest.raises(UsageError, match="consumer `uploader` was removed meanwhile"):
            worker.poll()
        for act in (consumer.remove, consumer.reset, consumer.skip):
            with pytest.raises(UsageError, match="there is no consumer 'uploader': the file has none"):
                act()

    def test_another_selection_needs_a_reset(self, db, orders):
        db.consumer("uploader", orders.filter(row["n"] > 1).pluck("n"), since=0)
        db.consumer("uploader", orders.filter(row["n"] > 1).pluck("n"))
        with pytest.raises(UsageError, match="created with another selection, to which its position belongs"):
            db.consumer("uploader", orders.filter(row["n"] > 2).pluck("n"))
        old = db.consumer("uploader", orders.filter(row["n"] > 1).pluck("n")).batches(max_wait_s=0)
        old.poll()
        db.consumer("uploader", orders, reset=True)

        with pytest.raises(UsageError, match="made anew with another selection meanwhile"):
            old.poll()

    def test_fencing_numbers_go_on_where_a_consumer_is_made_anew(self, db, orders, clock):
        """Outside systems refuse lower ones than they have seen."""
        orders.insert({"id": 1})
        for seen in (1, 2, 3):
            with batches_of(db, clock) as worker:
                assert seen == give(worker).fence

        assert give(batches_of(db, clock, partitions=2, reset=True)).fence > 3

    def test_a_python_function_counts_by_its_name(self, db, orders):
        def large(order: Any) -> bool:
            return bool(order["n"] > 1)

        db.consumer("uploader", orders.filter(large))
        db.consumer("uploader", orders.filter(large))
        with pytest.raises(UsageError, match="another selection"):
            db.consumer("uploader", orders.filter(lambda order: order["n"] > 1))

    def test_another_number_of_partitions_needs_a_reset(self, db, orders):
        db.consumer("uploader", orders, partitions=2)
        assert 2 == len(db.consumer("uploader", orders).status())
        with pytest.raises(UsageError, match="has 2 partitions, not 3"):
            db.consumer("uploader", orders, partitions=3)

        assert 3 == len(db.consumer("uploader", orders, partitions=3, reset=True).status())

    @pytest.mark.parametrize(
        "select",
        [
            lambda orders: orders.order_by(desc("n")).limit(3),
            lambda orders: orders.count(),
            lambda orders: orders.sum("n"),
            lambda orders: orders.max("n"),
            lambda orders: orders.group("n").count(),
            lambda orders: orders.distinct(),
            lambda orders: orders.union(orders),
        ],
    )
    def test_a_selection_that_is_not_looked_at_document_by_document_is_refused(self, db, orders, select):
        with pytest.raises(UnsupportedFeed, match="evaluated document by document"):
            db.consumer("uploader", select(orders))
        assert [] == db.consumers()

    @pytest.mark.parametrize(
        "options",
        [
            {"name": "a b"},
            {"name": 7},
            {"selection": "orders"},
            {"since": -1},
            {"since": 1.5},
            {"since": "yesterday"},
            {"partitions": 0},
            {"partitions": 2000},
            {"partitions": True},
            {"lease_s": 0},
            {"lease_s": "30"},
            {"max_attempts": 0},
            {"backoff_s": -1},
            {"most_backoff_s": float("nan")},
            {"reset": 1},
        ],
    )
    def test_what_makes_no_sense_is_refused(self, db, orders, options):
        given = {"name": "uploader", "selection": orders} | options
        with pytest.raises((InvalidOption, reactdb.errors.InvalidName)):
            db.consumer(given.pop("name"), given.pop("selection"), **given)
        assert [] == db.consumers()

    def test_batches_of_no_size_are_refused(self, db, orders):
        consumer = db.consumer("uploader", orders)
        for wrong in ({"max_changes": 0}, {"max_changes": None}, {"max_wait_s": -1}, {"max_wait_s": None}):
            with pytest.raises(InvalidOption, match=next(iter(wrong))):
                consumer.batches(**wrong)

    def test_a_selection_of_another_database_is_refused(self, db, orders, tmp_path):
        with reactdb.connect(":memory:") as other, pytest.raises(InvalidOption, match="of another database"):
            db.consumer("uploader", other.table_create("orders"))

    def test_a_file_that_is_only_read_shows_its_consumers_and_takes_none(self, path):
        with reactdb.connect(path) as db:
            db.consumer("uploader", db.table_create("orders"))
        with reactdb.connect(path, read_only=True) as db:
            assert ["uploader"] == [one["name"] for one in db.consumers()]
            with pytest.raises(reactdb.errors.ReadOnlyDatabase):
                db.consumer("other", db.table("orders"))


def test_a_cancelled_worker_gives_its_leases_up_also_while_its_error_is_kept(db, orders):
    async def work(consumer: Any) -> None:
        async for _ in consumer.batches():
            pass

    async def main() -> None:
        consumer = db.consumer("orders", orders)
        task = asyncio.ensure_future(work(consumer))
        while not consumer.status()[0]["holder"]:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task

        assert caught.value.__traceback__ is not None
        assert consumer.status()[0]["holder"] is None
        assert [] == db.subscriptions()

    asyncio.run(main())
