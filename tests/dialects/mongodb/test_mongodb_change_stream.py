"""`watch()` in the process, with PyMongo's manners, and its events as an observable."""

import gc
import threading

import pytest
from bson import Timestamp
from pymongo.errors import ConnectionFailure, InvalidOperation, OperationFailure
from reactivex import operators

import reactdb
from reactdb.dialects.mongodb import MongoError
from reactdb.dialects.mongodb.embedded import EmbeddedClient
from reactdb.dialects.mongodb.retries import Retries, RetryableWrite
from reactdb.errors import DatabaseBusy, DatabaseClosed
from tests.support.processes import another_process
from tests.support.threads import wait_until


@pytest.fixture
def client(db):
    return EmbeddedClient(db)


@pytest.fixture
def orders(client):
    return client["shop"]["orders"]


def ids(events):
    return [event["documentKey"]["_id"] for event in events]


def drained(stream):
    return list(iter(stream.try_next, None))


def test_a_stream_gives_what_is_written_after_it_was_opened(orders):
    orders.insert_one({"_id": 0})
    with orders.watch() as stream:
        assert stream.try_next() is None
        orders.insert_one({"_id": 1})
        orders.update_one({"_id": 1}, {"$set": {"a.b": 2}})
        insert, update = stream.next(), stream.next()

    assert ("insert", {"_id": 1}) == (insert["operationType"], insert["fullDocument"])
    assert {"a": {"b": 2}} == update["updateDescription"]["updatedFields"]
    assert not stream.alive
    assert [] == list(stream)


def test_each_level_can_be_watched(client, orders):
    streams = [client.watch(), client["shop"].watch(), orders.watch()]
    client["bank"]["x"].insert_one({"_id": 1})
    client["shop"]["y"].insert_one({"_id": 2})
    orders.insert_one({"_id": 3})

    assert [[1, 2, 3], [2, 3], [3]] == [ids(drained(stream)) for stream in streams]


def test_iteration_waits_for_the_next_event_and_ends_when_the_stream_is_closed(orders):
    stream = orders.watch()
    seen = []

    def read():
        for event in stream:
            seen.append(event["documentKey"]["_id"])
            if len(seen) == 2:
                stream.close()

    reader = threading.Thread(target=read)
    reader.start()
    orders.insert_one({"_id": 1})
    orders.insert_one({"_id": 2})
    reader.join(60)

    assert ([1, 2], False) == (seen, reader.is_alive())


def test_closing_ends_a_reader_that_waits(orders):
    stream = orders.watch()
    reader = threading.Thread(target=list, args=(stream,))
    reader.start()
    stream.close()
    reader.join(60)

    assert not reader.is_alive()


def test_an_invalidated_stream_ends_after_its_last_event(orders):
    orders.insert_one({"_id": 1})
    stream = orders.watch()
    orders.drop()

    assert ["drop", "invalidate"] == [event["operationType"] for event in stream]
    assert not stream.alive
    assert stream.try_next() is None
    orders.insert_one({"_id": 2})
    with pytest.raises(OperationFailure) as caught:
        orders.watch(resume_after=stream.resume_token)
    assert 260 == caught.value.code
    assert [2] == ids(drained(orders.watch(start_after=stream.resume_token)))


def test_the_token_is_that_of_what_was_given_last(client, orders):
    stream = orders.watch()
    start = stream.resume_token
    orders.insert_many([{"_id": number} for number in range(3)])
    client["shop"]["other"].insert_one({})

    first = stream.try_next()
    assert first["_id"] == stream.resume_token
    drained(stream)
    assert stream.resume_token["_data"] > first["_id"]["_data"] > start["_data"]
    assert [0, 1, 2] == ids(drained(orders.watch(resume_after=start)))
    assert [1, 2] == ids(drained(orders.watch(resume_after=first["_id"])))
    assert [] == drained(orders.watch(resume_after=stream.resume_token))
    assert start == orders.watch(resume_after=start).resume_token
    token = stream.resume_token
    token.clear()
    assert stream.resume_token


@pytest.mark.parametrize(
    "fault",
    [
        MongoError(43, "cursor id 1 not found"),
        MongoError(189, "stepped down", labels=["ResumableChangeStreamError"]),
        ConnectionFailure("gone"),
        DatabaseBusy("busy"),
    ],
)
def test_one_fault_is_gone_on_after_without_loss_and_without_repetition(client, orders, fault):
    stream, alike = orders.watch(), orders.watch()
    seen = []
    for number in range(10):
        orders.insert_one({"_id": number})
        if number % 3 == 1:
            client.streams.fail(fault)
        seen += drained(stream)

    assert list(range(10)) == ids(seen)
    assert drained(alike) == seen
    assert stream.alive


def test_a_second_fault_is_raised_and_the_stream_lives_if_it_is_resumable(client, orders):
    stream = orders.watch()
    orders.insert_one({"_id": 1})
    client.streams.fail(ConnectionFailure("gone"), ConnectionFailure("gone"))

    with pytest.raises(ConnectionFailure):
        stream.try_next()
    assert stream.alive
    assert [1] == ids(drained(stream))


def test_a_fault_that_is_not_resumable_closes_the_stream(client, orders):
    stream = orders.watch()
    client.streams.fail(MongoError(280, "fatal"))

    with pytest.raises(OperationFailure) as caught:
        stream.try_next()
    assert (280, False) == (caught.value.code, stream.alive)
    assert caught.value.has_error_label("NonResumableChangeStreamError")
    assert [] == list(stream)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (TypeError, {"pipeline": {}}),
        (TypeError, {"full_document": 1}),
        (TypeError, {"batch_size": 1.5}),
        (ValueError, {"batch_size": "x"}),
        (OperationFailure, {"batch_size": True}),
        (TypeError, {"max_await_time_ms": "1"}),
        (TypeError, {"collation": "en"}),
        (OperationFailure, {"pipeline": [1]}),
        (ValueError, {"batch_size": -1}),
        (OperationFailure, {"full_document": "x"}),
        (OperationFailure, {"pipeline": [{"$out": "x"}]}),
        (OperationFailure, {"start_at_operation_time": Timestamp(1, 1), "pipeline": [{"$nothing": 1}]}),
    ],
)
def test_a_wrong_argument_is_refused_as_pymongo_does_it(orders, kind, options):
    with pytest.raises(kind):
        orders.watch(**options)


def test_a_transaction_has_no_stream(client, orders):
    with client.start_session() as session:
        session.start_transaction()
        with pytest.raises(OperationFailure) as caught:
            orders.watch(session=session)
        assert 263 == caught.value.code


def test_a_transaction_is_told_when_it_is_committed_and_not_at_all_when_aborted(client, orders):
    stream = orders.watch()
    with client.start_session() as session:
        with session.start_transaction():
            orders.insert_one({"_id": 1}, session=session)
            orders.insert_one({"_id": 2}, session=session)
            assert stream.try_next() is None
        first, second = drained(stream)
        with pytest.raises(KeyError), session.start_transaction():
            orders.insert_one({"_id": 3}, session=session)
            raise KeyError

    assert ([1, 2], first["clusterTime"]) == (ids((first, second)), second["clusterTime"])
    assert stream.try_next() is None


def test_events_of_a_driver_s_transaction_name_its_session(client, orders):
    stream = orders.watch()
    orders.insert_one({"_id": 0})
    with client.start_session() as session, session.start_transaction():
        session.transaction.retry = RetryableWrite(Retries(are_kept=False), b"s" * 16, 7)
        orders.insert_one({"_id": 1, "x": 1}, session=session)
        orders.update_one({"_id": 0}, {"$set": {"x": 2}}, session=session)
        orders.delete_one({"_id": 0}, session=session)

    alone, *together = drained(stream)

    assert "lsid" not in alone
    assert ["insert", "update", "delete"] == [event["operationType"] for event in together]
    assert [(b"s" * 16, 4, 7)] * 3 == [
        (bytes(e["lsid"]["id"]), e["lsid"]["id"].subtype, e["txnNumber"]) for e in together
    ]
    assert {"x": 2} == together[1]["updateDescription"]["updatedFields"]


def test_events_of_a_transaction_name_its_session_and_its_number(client, orders):
    stream = orders.watch()
    with client.start_session() as session:
        for number in (1, 2):
            with session.start_transaction():
                orders.insert_one({"_id": number}, session=session)

    events = drained(stream)

    assert [session.session_id["id"]] * 2 == [event["lsid"]["id"] for event in events]
    assert [1, 2] == [event["txnNumber"] for event in events]


def test_native_writes_are_told(db, client):
    table = db.table_create("games")
    stream = client["reactdb"]["games"].watch(full_document_before_change="required")
    table.insert({"id": 1, "score": 1})
    table.get(1).update({"score": 2})

    insert, update = drained(stream)

    assert {"_id": 1, "score": 1} == insert["fullDocument"] == update["fullDocumentBeforeChange"]
    assert {"score": 2} == update["updateDescription"]["updatedFields"]


def test_a_stream_that_was_forgotten_is_not_woken_any_more(client, orders):
    def forgotten():
        stream = orders.watch(max_await_time_ms=1)
        # Where to look takes longer than it may wait, it does not begin to wait.
        wait_until(lambda: stream.try_next() is None and client.streams.wakers.is_reading)

    forgotten()
    gc.collect()
    orders.insert_one({"_id": 1})

    wait_until(lambda: not client.streams.wakers.is_reading)


def test_an_observer_can_end_it_while_it_is_told(client, orders):
    seen = []
    orders.changes().pipe(operators.take(1)).subscribe(
        seen.append, on_completed=lambda: seen.append("completed")
    )
    orders.insert_many([{"_id": 1}, {"_id": 2}])
    # The thread that follows the file may have found the commit first, and tells it then.
    wait_until(lambda: len(seen) == 2 and not client.streams.wakers.is_reading)

    assert [1, "completed"] == [seen[0]["documentKey"]["_id"], *seen[1:]]
    assert not client.streams.wakers.is_reading


def test_an_observable_goes_on_though_its_subscription_was_forgotten(orders):
    seen = []
    orders.changes().subscribe(seen.append)
    gc.collect()
    orders.insert_one({"_id": 1})

    wait_until(lambda: len(seen) == 1)


def test_an_event_belongs_to_whoever_got_it(orders):
    first, second = orders.watch(), orders.watch()
    orders.insert_one({"_id": 1, "a": {"b": [1]}})

    first.next()["fullDocument"]["a"]["b"].append(2)

    assert {"_id": 1, "a": {"b": [1]}} == second.next()["fullDocument"]


def test_what_another_process_writes_wakes_who_waits(tmp_path):
    with reactdb.connect(tmp_path / "shop.db") as db:
        orders = EmbeddedClient(db)["shop"]["orders"]
        orders.insert_one({"_id": 0})
        with orders.watch() as stream, another_process(tmp_path / "shop.db") as other:
            writer = threading.Thread(
                target=EmbeddedClient(other)["shop"]["orders"].insert_one, args=({"_id": 1},)
            )
            writer.start()

            assert {"_id": 1} == stream.next()["fullDocument"]
            writer.join()


def test_who_waits_is_told_when_the_file_is_closed(tmp_path):
    db = reactdb.connect(tmp_path / "shop.db")
    stream = EmbeddedClient(db)["shop"]["orders"].watch()
    errors = []

    def read():
        try:
            stream.next()
        except DatabaseClosed as error:
            errors.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    db.close()
    reader.join(60)

    assert (1, False) == (len(errors), stream.alive)


def test_an_observable_has_the_same_events_and_completes(client, orders):
    stream, seen = orders.watch(), []
    subscription = orders.changes().subscribe(seen.append, on_completed=lambda: seen.append("completed"))
    orders.insert_one({"_id": 1})
    wait_until(lambda: len(seen) == 1)
    client["shop"]["other"].insert_one({"_id": 1})
    orders.delete_one({"_id": 1})
    orders.drop()
    wait_until(lambda: seen[-1] == "completed")

    assert [*drained(stream), "completed"] == seen
    subscription.dispose()


def test_an_observable_takes_the_options_of_a_stream(orders):
    start = orders.watch()
    orders.insert_one({"_id": 1})
    token = start.try_next()["_id"]
    orders.update_one({"_id": 1}, {"$set": {"a": 1}})
    options = [
        {"full_document": "updateLookup", "resume_after": token, "batch_size": 1, "max_await_time_ms": 1},
        {"fullDocument": "updateLookup", "resumeAfter": token},
    ]
    for given in options:
        seen = []
        orders.changes(**given).subscribe(seen.append)
        assert [{"_id": 1, "a": 1}] == [event["fullDocument"] for event in seen]


def test_an_observable_ends_when_it_is_disposed_of(client, orders):
    seen = []
    orders.changes([{"$match": {"operationType": "insert"}}]).subscribe(seen.append).dispose()
    orders.insert_one({"_id": 1})

    wait_until(lambda: not client.streams.wakers.is_reading)
    assert [] == seen


def test_an_observer_that_writes_is_told_of_that_afterwards(orders):
    seen = []

    def observe(event):
        number = event["documentKey"]["_id"]
        seen.append(number)
        if number < 3:
            orders.insert_one({"_id": number + 1})
            assert number == seen[-1]

    subscription = orders.changes().subscribe(observe)
    orders.insert_one({"_id": 0})
    wait_until(lambda: len(seen) == 4)
    subscription.dispose()

    assert [0, 1, 2, 3] == seen


def test_an_observable_that_cannot_go_on_ends_with_the_error(client, orders):
    errors = []
    orders.changes().subscribe(on_error=errors.append)
    client.streams.fail(MongoError(280, "fatal"))
    orders.insert_one({"_id": 1})
    wait_until(lambda: errors)

    assert [280] == [error.code for error in errors]


def test_an_event_without_its_token_is_refused_as_the_server_and_as_the_driver_do_it(orders):
    stream = orders.watch([{"$project": {"_id": 0}}])
    orders.insert_one({"_id": 1})

    with pytest.raises(OperationFailure, match="token is missing") as caught:
        stream.next()
    assert isinstance(caught.value, InvalidOperation)
    assert (280, True) == (caught.value.code, caught.value.has_error_label("NonResumableChangeStreamError"))
    assert (False, None) == (stream.alive, stream.try_next())


def test_an_event_whose_token_was_changed_is_refused_as_the_server_does_it(orders):
    stream = orders.watch([{"$set": {"_id": 1}}])
    orders.insert_one({"_id": 1})

    with pytest.raises(OperationFailure) as caught:
        stream.next()
    assert (280, False) == (caught.value.code, isinstance(caught.value, InvalidOperation))


def test_what_a_stream_begins_with_is_read_when_it_is_opened(client, orders):
    start = orders.watch()
    orders.insert_one({"_id": 1})
    event = start.try_next()
    token, time = event["_id"], event["clusterTime"]

    assert orders.watch(start_at_operation_time=time).resume_token is None
    assert orders.watch(start_at_operation_time=time, batch_size=0).resume_token["_data"] < token["_data"]
    assert orders.watch(start_at_operation_time=Timestamp(2**32 - 1, 1)).resume_token is not None
    # Nothing is left, so it stands after all that there is.
    assert orders.watch(resume_after=token).resume_token["_data"] > token["_data"]
    assert token == orders.watch(resume_after=token, batch_size=0).resume_token


def test_a_fault_at_the_opening_is_raised(client, orders):
    token = orders.watch().resume_token
    orders.insert_one({"_id": 1})
    client.streams.fail(ConnectionFailure("gone"))

    with pytest.raises(ConnectionFailure):
        orders.watch(resume_after=token)
    assert [1] == ids(drained(orders.watch(resume_after=token)))
