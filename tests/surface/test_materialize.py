"""db.materialize: what a user sees of a table that is kept equal to a selection."""

from __future__ import annotations

import subprocess
import sys
import threading
import tracemalloc
from functools import partial

import pytest

import reactdb
from reactdb import row
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.couchdb.names import database_name
from reactdb.durable import materialized_views
from reactdb.errors import HistoryLost, InvalidOption, QueryError, TableNotFound, UnsupportedFeed, UsageError
from reactdb.session import session_of
from reactdb.store.leases import CONSUMER, read_lease, write_lease
from reactdb.store.materialized_tables import MATERIALIZED
from reactdb.store.positions import read_positions
from reactdb.testing import Recorder, VirtualClock
from tests.support.command import done, run

# How each interface drops the table `shop.totals`.
DROPS = {
    "reactdb": lambda db: db.table_drop("shop.totals"),
    "CouchDB": lambda db: Couch(db).drop(database_name("shop.totals")),
    "MongoDB": lambda db: reactdb.mongodb(db)["shop"]["totals"].drop(),
}


@pytest.fixture
def db(tmp_path):
    with reactdb.connect(tmp_path / "a.db", durability="soft") as db:
        db.table_create("orders").insert(
            [
                {"id": number, "city": "Oslo" if number % 2 else "Bergen", "euros": number}
                for number in range(6)
            ]
        )
        yield db


def totals(db, **options):
    return db.materialize(db.table("orders").group("city").sum("euros"), into="totals", **options)


class TestFollowing:
    def test_it_is_there_and_whole_when_it_is_made(self, db):
        kept = totals(db)

        assert [{"id": "Bergen", "sum": 6}, {"id": "Oslo", "sum": 9}] == db.table("totals").run()
        assert (0, db.seq, None) == (kept.lag, kept.position, kept.error)

    def test_a_commit_is_taken_in_before_the_write_returns(self, db):
        totals(db)
        db.table("orders").insert({"id": 7, "city": "Oslo", "euros": 0.5})

        assert {"id": "Oslo", "sum": 9.5} == db.table("totals").get("Oslo").run()

    def test_a_transaction_is_taken_in_whole(self, db):
        totals(db)
        seen = Recorder()
        db.table("totals").changes(include_seq=True).subscribe(seen)
        with db.transaction():
            db.table("orders").get(1).update({"euros": 0})
            db.table("orders").get(3).update({"euros": 4})

        assert [{"id": "Oslo", "sum": 9}] == db.table("totals").get_all("Oslo").run()
        assert [] == seen.events

    def test_a_transaction_that_is_longer_than_a_page_is_taken_in_whole(self, db):
        kept = totals(db, follow=False)
        orders = db.table("orders")
        with db.transaction():
            for number in range(1_500):
                orders.insert({"id": 100 + number, "city": "Oslo", "euros": 1})
        orders.get(100).delete()
        seen = Recorder()
        db.table("totals").changes().subscribe(seen)
        kept.catch_up()

        assert {"id": "Oslo", "sum": 1_508} == db.table("totals").get("Oslo").run()
        assert 1 == len(seen.events)

    def test_with_a_scheduler_it_follows_there(self, db):
        clock = VirtualClock()
        kept = totals(db, scheduler=clock)
        db.table("orders").get(5).delete()
        assert kept.lag
        clock.advance_by(0.1)

        assert 0 == kept.lag

    def test_after_close_it_stays_as_it_is(self, db):
        with totals(db) as kept:
            pass
        db.table("orders").get(5).delete()

        assert {"id": "Oslo", "sum": 9} == db.table("totals").get("Oslo").run()
        assert db.consumers()[0]["holder"] is None
        with pytest.raises(UsageError, match="follows no more"):
            kept.catch_up()

    def test_one_follows_what_another_one_keeps(self, db):
        totals(db)
        db.materialize(db.table("totals").max("sum"), into="best")
        db.table("orders").insert({"id": 7, "city": "Bergen", "euros": 100})

        assert [{"id": "all", "max": {"id": "Bergen", "sum": 106}}] == db.table("best").run()

    def test_threads_write_at_once_and_it_is_exact(self, db):
        kept = totals(db)

        def write(first):
            for number in range(first, first + 50):
                db.table("orders").insert({"id": number, "city": "Oslo", "euros": 1})

        threads = [threading.Thread(target=write, args=(1_000 * number,)) for number in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        kept.catch_up()

        assert {"id": "Oslo", "sum": 209} == db.table("totals").get("Oslo").run()

    def test_a_dropped_source_is_said_and_nothing_is_lost(self, db):
        kept = totals(db)
        db.table_drop("orders")

        assert 2 == db.table("totals").count().run()
        assert kept.error is not None
        with pytest.raises(TableNotFound):
            kept.catch_up()
        db.table_create("orders").insert({"id": 1, "city": "Oslo", "euros": 1})
        kept.catch_up()
        assert [{"id": "Oslo", "sum": 1}] == db.table("totals").run()

    def test_what_cannot_be_worked_out_stops_it_and_is_said(self, db):
        kept = totals(db)
        db.table("orders").insert({"id": 7, "city": "Oslo", "euros": 1})
        db.table("orders").insert({"id": 8, "city": "Oslo", "euros": "many"})
        db.table("orders").insert({"id": 9, "city": "Oslo", "euros": 1})

        assert isinstance(kept.error, QueryError)
        assert {"id": "Oslo", "sum": 10} == db.table("totals").get("Oslo").run()
        with pytest.raises(QueryError, match="Expected type NUMBER but found STRING"):
            kept.catch_up()
        db.table("orders").get(8).update({"euros": 1})
        assert kept.error is not None
        kept.close()
        totals(db, rebuild=True)
        assert {"id": "Oslo", "sum": 12} == db.table("totals").get("Oslo").run()


def stop(db):
    """Write a document that no sum can be made of."""
    db.table("orders").insert({"id": 8, "city": "Oslo", "euros": "many"})
    db.table("orders").insert({"id": 9, "city": "Oslo", "euros": 1})


STOPPED = "Expected type NUMBER but found STRING"


class TestStopped:
    """A view has met a document that its selection cannot be worked out for."""

    def test_made_again_it_raises_at_once_while_the_first_one_is_still_open(self, db):
        totals(db)
        stop(db)
        with pytest.raises(QueryError, match=STOPPED):
            totals(db)

        assert {"id": "Oslo", "sum": 9} == db.table("totals").get("Oslo").run()

    def test_made_again_it_follows_as_soon_as_the_document_is_gone(self, db):
        first = totals(db)
        stop(db)
        db.table("orders").get(8).delete()
        again = totals(db)
        db.table("orders").insert({"id": 10, "city": "Oslo", "euros": 5})

        assert {"id": "Oslo", "sum": 15} == db.table("totals").get("Oslo").run()
        assert (None, None) == (again.error, first.error)
        assert {} == db.stats()["stopped_views"]

    def test_caught_up_it_follows_as_soon_as_the_document_is_gone(self, db):
        kept = totals(db)
        stop(db)
        db.table("orders").get(8).update({"euros": 1})
        kept.catch_up()
        db.table("orders").insert({"id": 10, "city": "Oslo", "euros": 5})

        assert None is kept.error
        assert {"id": "Oslo", "sum": 16} == db.table("totals").get("Oslo").run()

    def test_a_program_starts_again_when_the_document_is_gone(self, tmp_path):
        path = tmp_path / "a.db"
        with reactdb.connect(path) as db:
            db.table_create("orders").insert({"id": 1, "city": "Oslo", "euros": 1})
            totals(db)
            stop(db)
        with reactdb.connect(path) as db:
            with pytest.raises(QueryError, match=STOPPED):
                totals(db)
            db.table("orders").get(8).delete()
        with reactdb.connect(path) as db:
            kept = totals(db)

            assert (None, 0) == (kept.error, kept.lag)
            assert [{"id": "Oslo", "sum": 2}] == db.table("totals").run()

    def test_a_long_table_stays_as_it_was_while_the_document_is_there(self, db):
        orders = db.table("orders")
        orders.insert([{"id": number, "city": f"city {number}", "euros": 1} for number in range(100, 1_500)])
        db.materialize(orders.merge({"twice": row["euros"] * 2}), into="doubled").close()
        stop(db)
        for _ in range(2):
            with pytest.raises(QueryError):
                db.materialize(orders.merge({"twice": row["euros"] * 2}), into="doubled")
            assert 1_406 == db.table("doubled").count().run()
        orders.get(8).delete()
        kept = db.materialize(orders.merge({"twice": row["euros"] * 2}), into="doubled")

        assert (None, 0, 1_407) == (kept.error, kept.lag, db.table("doubled").count().run())

    def test_whoever_holds_another_object_of_the_table_sees_it(self, db):
        kept, other = totals(db), totals(db)
        stop(db)

        assert STOPPED in str(kept.error)
        assert STOPPED in str(other.error)

    def test_the_file_says_it_to_every_process(self, db):
        totals(db)
        stop(db)
        reason = "QueryError: Expected type NUMBER but found STRING."

        assert {"totals": reason} == db.stats()["stopped_views"]
        assert [reason] == [one["error"] for one in db.consumers()]
        inspected = done(run("inspect", db.path)).output
        assert f"table totals is no longer kept up to date: {reason}" in inspected
        assert "materialized.totals: stopped: QueryError" in done(run("consumers", db.path)).output

    def test_a_source_that_was_dropped_and_made_again_is_followed_again(self, db):
        kept = totals(db)
        db.table_drop("orders")
        assert "FeedAborted" in db.stats()["stopped_views"]["totals"]
        orders = db.table_create("orders")
        kept.catch_up()
        orders.insert({"id": 1, "city": "Oslo", "euros": 1})

        assert None is kept.error
        assert [{"id": "Oslo", "sum": 1}] == db.table("totals").run()


class TestWhatIsRefused:
    def test_other_writes(self, db):
        totals(db)
        for write in (
            lambda: db.table("totals").insert({"id": "Rome", "sum": 1}),
            lambda: db.table("totals").update({"sum": 1}),
            lambda: db.table("totals").delete(),
            lambda: db.table("totals").insert([{"id": number} for number in range(200)]),
        ):
            with pytest.raises(
                UsageError, match=r"table `totals` is kept equal to a selection by db\.materialize"
            ):
                write()

    def test_other_writes_in_a_process_that_keeps_nothing(self, db):
        totals(db)
        code = (
            "import reactdb, sys\n"
            f"db = reactdb.connect({db.path!r})\n"
            "try:\n    db.table('totals').delete()\n"
            "except reactdb.UsageError as error:\n    print(error)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

        assert "is kept equal to a selection" in done.stdout

    def test_an_ordinary_table(self, db):
        db.table_create("totals")
        for rebuild in (False, True):
            with pytest.raises(UsageError, match="is an ordinary table, and its documents would be lost"):
                totals(db, rebuild=rebuild)

    def test_another_selection(self, db):
        totals(db).close()
        selection = db.table("orders").group("city").max("euros")
        with pytest.raises(UsageError, match="is kept equal to another selection"):
            db.materialize(selection, into="totals")
        db.materialize(selection, into="totals", rebuild=True)

        assert 5 == db.table("totals").get("Oslo").run()["max"]["euros"]

    @pytest.mark.parametrize(
        ("selection", "sentence"),
        [
            (
                lambda orders: orders.limit(3),
                "Cannot get changes on the first elements of an unordered stream.",
            ),
            (
                lambda orders: orders.concat_map(lambda one: [one]),
                "Cannot call `changes` after `concat_map`.",
            ),
            (lambda orders: orders.group("city"), "a group is kept as one document"),
            (lambda orders: orders.union(orders), "a union may have several documents of one key"),
        ],
    )
    def test_what_cannot_be_kept_leaves_nothing(self, db, selection, sentence):
        with pytest.raises(UnsupportedFeed) as refused:
            db.materialize(selection(db.table("orders")), into="totals")

        assert sentence in str(refused.value)
        assert ["orders"] == db.table_list()
        assert [] == db.consumers()

    def test_a_document_that_cannot_be_worked_out_leaves_nothing(self, db):
        db.table("orders").insert({"id": 8, "city": "Oslo", "euros": "many"})
        with pytest.raises(QueryError):
            totals(db)

        assert ["orders"] == db.table_list()
        assert [] == db.consumers()
        db.table("orders").get(8).delete()
        assert 0 == totals(db).lag

    def test_inside_a_transaction(self, db):
        kept = totals(db)
        with db.transaction():
            with pytest.raises(UsageError, match="inside a transaction"):
                kept.catch_up()
            with pytest.raises(UsageError, match="inside a transaction"):
                totals(db)

    def test_arguments(self, db):
        with pytest.raises(InvalidOption, match="selection is a table or a result from one"):
            db.materialize("orders", into="totals")
        with pytest.raises(InvalidOption, match="rebuild is True or False"):
            totals(db, rebuild=1)
        with pytest.raises(InvalidOption, match="lease_s is a number of seconds"):
            totals(db, lease_s=0)


class TestTheDocuments:
    def test_a_key_that_was_left_out_is_there(self, db):
        db.materialize(db.table("orders").filter(row["euros"] > 4).pluck("euros"), into="high")

        assert [{"id": 5, "euros": 5}] == db.table("high").run()

    def test_a_value_that_is_no_document(self, db):
        db.materialize(db.table("orders").filter(row["euros"] > 4).map(row["euros"]), into="high")

        assert [{"id": 5, "value": 5}] == db.table("high").run()

    def test_another_primary_key(self, db):
        db.table_create("games", primary_key="name").insert({"name": "chess", "score": 1})
        db.materialize(db.table("games").without("name"), into="copy")

        assert "name" == db.table("copy").primary_key
        assert [{"name": "chess", "score": 1}] == db.table("copy").run()

    def test_a_group_that_cannot_be_a_key(self, db):
        db.table("orders").insert({"id": 8, "euros": 1})
        totals(db)
        (found,) = db.table("totals").filter({"group": None}).run()

        assert (None, 1, bytes) == (found["group"], found["sum"], type(found["id"]))

    def test_a_union_that_is_grouped(self, db):
        db.table_create("returns").insert({"id": 1, "city": "Oslo", "euros": -1})
        db.materialize(db.table("orders").union(db.table("returns")).group("city").sum("euros"), into="net")
        db.table("returns").insert({"id": 2, "city": "Bergen", "euros": -2})

        assert [{"id": "Bergen", "sum": 4}, {"id": "Oslo", "sum": 8}] == db.table("net").run()


class TestGoingOn:
    def test_it_goes_on_where_it_was(self, tmp_path):
        with reactdb.connect(tmp_path / "a.db") as db:
            db.table_create("orders").insert({"id": 1, "city": "Oslo", "euros": 1})
            totals(db)
            number = session_of(db).info("totals").id
        with reactdb.connect(tmp_path / "a.db") as db:
            db.table("orders").insert({"id": 2, "city": "Oslo", "euros": 2})
            totals(db)

            assert [{"id": "Oslo", "sum": 3}] == db.table("totals").run()
            assert number == session_of(db).info("totals").id

    def test_history_that_is_gone_means_to_build_it_anew(self, db):
        totals(db).close()
        number = session_of(db).info("totals").id
        db.table("totals").index_create("sum")
        db.hold(0)
        for euros in range(5):
            db.table("orders").get(1).update({"euros": 100 + euros})
        db.compact(keep=0)
        totals(db)

        assert {"id": "Oslo", "sum": 112} == db.table("totals").get("Oslo").run()
        assert number != session_of(db).info("totals").id
        assert ["sum"] == db.table("totals").index_list()

    def test_history_that_is_removed_before_a_build_holds_it_means_to_begin_again(self, db, monkeypatch):
        compactions = []

        def then_compact(*arguments, **options):
            """Between the first look at the source, and the commit from which on history is kept for the table."""
            if len(compactions) < 2:
                compactions.append(db.table("orders").get(1).update({"euros": 100 + len(compactions)}))
                db.compact(keep=0)
            return partial(*arguments, **options)

        monkeypatch.setattr(materialized_views, "partial", then_compact)
        kept = totals(db)

        assert 2 == len(compactions)
        assert {"id": "Oslo", "sum": 109} == db.table("totals").get("Oslo").run()
        # Its position is one that the log still has.
        db.at(kept.position)

    def test_history_that_is_removed_again_and_again_is_told(self, db, monkeypatch):
        def then_compact(*arguments, **options):
            db.table("orders").get(1).update({"euros": reactdb.row["euros"] + 1})
            db.compact(keep=0)
            return partial(*arguments, **options)

        monkeypatch.setattr(materialized_views, "partial", then_compact)
        with pytest.raises(HistoryLost):
            totals(db)

        assert "totals" not in db.table_list()

    def test_history_that_it_has_still_to_read_is_kept(self, db):
        totals(db).close()
        number = session_of(db).info("totals").id
        db.table("orders").get(1).delete()
        db.table("orders").get(3).delete()
        db.compact(keep=0)
        totals(db)

        assert [{"id": "Bergen", "sum": 6}, {"id": "Oslo", "sum": 5}] == db.table("totals").run()
        assert number == session_of(db).info("totals").id

    def test_a_consumer_that_was_moved_by_hand_passes_nothing_over(self, db):
        totals(db).close()
        db.table("orders").get(1).delete()
        db.consumer("materialized.totals", db.table("orders"), reset=True)
        totals(db)

        assert {"id": "Oslo", "sum": 8} == db.table("totals").get("Oslo").run()

    def test_a_build_that_was_begun_is_no_table(self, db, monkeypatch):
        from reactdb.durable import keyed_result, materialized_views

        monkeypatch.setattr(keyed_result, "STEP", 1)

        def dies(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as broken:
            broken.setattr(materialized_views, "write_kept", dies)
            with pytest.raises(KeyboardInterrupt):
                totals(db)
        assert ["orders", "totals.building"] == db.table_list()
        totals(db)

        assert ["orders", "totals"] == db.table_list()
        assert 2 == db.table("totals").count().run()

    def test_a_large_table_is_built_in_steps_and_is_there_when_it_is_whole(self, db):
        db.table("orders").insert([{"id": number, "city": "Oslo", "euros": 1} for number in range(10, 3_000)])
        seen = []
        db.changes().subscribe(lambda event: seen.append((event["table"], "copy" in db.table_list())))
        db.materialize(db.table("orders"), into="copy")

        # Built under the one name, and then moved to the other at once.
        assert {("copy.building", False), ("copy.building", True), ("copy", True)} == set(seen)
        assert db.table("orders").run() == db.table("copy").run()

    def test_who_follows_all_tables_is_told_every_document_of_one_that_was_built_in_steps(self, db):
        orders = db.table("orders")
        orders.insert([{"id": number, "city": "Rome", "euros": number} for number in range(10, 2_500)])
        told: dict[str, dict] = {}

        def follow(event):
            kind, table = event.get("kind"), event["table"]
            if kind == "table_rename":
                told[event["new_name"]] = told.pop(table)
            elif kind == "table_drop":
                told.pop(table, None)
            elif kind is None and table != "orders":
                rows = told.setdefault(table, {})
                if event["old_val"] is not None:
                    del rows[event["old_val"]["id"]]
                if event["new_val"] is not None:
                    rows[event["new_val"]["id"]] = event["new_val"]

        db.changes(include_catalogue=True).subscribe(follow)
        kept = db.materialize(orders.filter(row["euros"] > 1).pluck("id", "euros"), into="copies")
        orders.get(10).delete()
        kept.close()
        assert 2_493 == len(told["copies"])
        assert {one["id"]: one for one in db.table("copies")} == told["copies"]

        # The one before stays until the new one is whole.
        db.materialize(orders.pluck("id"), into="copies", rebuild=True).close()
        assert {one["id"]: one for one in db.table("copies")} == told["copies"]
        assert "copies.building" not in told

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "select",
        [
            lambda orders: orders.group("city").sum("euros"),
            lambda orders: orders.filter(row["euros"] >= 0).count(),
            lambda orders: orders.between(0, 10_000, index="euros").avg("euros"),
            lambda orders: orders.distinct("city"),
            lambda orders: orders.filter(row["euros"] >= 0).pluck("city"),
        ],
    )
    def test_a_build_reads_the_source_page_by_page(self, db, select):
        orders = db.table("orders")
        orders.index_create("euros")
        for first in range(10, 8_010, 500):
            orders.insert(
                [
                    {"id": n, "city": "Rome", "euros": n, "text": f"{n}" * 500}
                    for n in range(first, first + 500)
                ]
            )
        source_bytes = sum(len(one["text"]) for one in orders if "text" in one)

        tracemalloc.start()
        try:
            db.materialize(select(orders), into="totals", follow=False)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert (True, True) == (source_bytes > 14_000_000, peak < source_bytes / 3), (source_bytes, peak)

    def test_drop_forgets_it(self, db):
        kept = totals(db)
        kept.drop()

        assert ["orders"] == db.table_list()
        assert [] == db.consumers()

    def test_a_table_that_was_dropped_is_made_again(self, db):
        kept = totals(db)
        db.table_drop("totals")
        assert [] == db.consumers()
        kept.catch_up()

        assert 2 == db.table("totals").count().run()

    @pytest.mark.parametrize("interface", sorted(DROPS))
    def test_whoever_drops_it_its_lease_and_its_position_are_gone(self, db, interface):
        db.materialize(db.table("orders").group("city").sum("euros"), into="shop.totals")
        DROPS[interface](db)

        assert ["orders"] == db.table_list()
        with session_of(db).read() as snapshot:
            assert [] == read_positions(snapshot.connection, MATERIALIZED)
            assert [] == read_positions(snapshot.connection, CONSUMER)


class TestOneWorker:
    def test_who_has_it_keeps_it_and_the_other_one_stands_by(self, db):
        first = totals(db)
        second = totals(db)
        holder = db.consumers()[0]["holder"]
        db.table("orders").get(1).delete()

        assert holder == db.consumers()[0]["holder"]
        assert (0, None, None) == (second.lag, first.error, second.error)
        first.close()
        db.table("orders").get(3).delete()
        assert holder != db.consumers()[0]["holder"]
        assert {"id": "Oslo", "sum": 5} == db.table("totals").get("Oslo").run()

    def test_catch_up_takes_over_and_both_stay_exact(self, db):
        first, second = totals(db, follow=False), totals(db, follow=False)
        for number in range(10, 16):
            db.table("orders").insert({"id": number, "city": "Oslo", "euros": 1})
            (first, second)[number % 2].catch_up()

            assert {"id": "Oslo", "sum": number} == db.table("totals").get("Oslo").run()

    def test_a_worker_of_another_process_that_died_is_taken_over_at_once(self, db):
        held = totals(db)
        name = db.consumers()[0]["holder"]
        held.close()

        def hold(transaction):
            lease = read_lease(transaction.connection, "materialized.totals", 0)
            # No process has such a number.
            dead = f"{name.rpartition('/')[0].rpartition('/')[0]}/999999999/1"
            write_lease(transaction, lease.copy_with(holder=dead, until_ms=2**52))

        session_of(db).transact(hold)
        db.table("orders").get(1).delete()

        assert 0 == totals(db).lag

    def test_a_worker_that_was_taken_over_while_it_read_writes_nothing(self, db, monkeypatch):
        first = totals(db, follow=False)
        second = totals(db, follow=False)
        db.table("orders").insert({"id": 10, "city": "Oslo", "euros": 1})
        write = type(first)._write

        def late(self, *arguments):
            monkeypatch.setattr(type(first), "_write", write)
            db.table("orders").insert({"id": 11, "city": "Oslo", "euros": 1})
            second.catch_up()
            return write(self, *arguments)

        monkeypatch.setattr(type(first), "_write", late)
        before = db.seq
        first.catch_up()

        assert {"id": "Oslo", "sum": 11} == db.table("totals").get("Oslo").run()
        assert 2 == db.seq - before

    def test_a_worker_that_comes_back_does_not_trust_what_it_remembers(self, db):
        best = db.table("orders").order_by(reactdb.desc("euros")).limit(1)
        first, second = (db.materialize(best, into="best", follow=False) for _ in range(2))
        db.table("orders").insert({"id": 10, "euros": 100})
        first.catch_up()
        db.table("orders").insert({"id": 11, "euros": 200})
        second.catch_up()
        db.table("orders").get(11).delete()
        first.catch_up()

        assert [{"id": 10, "euros": 100}] == db.table("best").run()
