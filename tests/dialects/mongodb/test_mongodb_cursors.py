"""What a server keeps of cursors and sessions, and which commands it carries out at once. The clock is the test's."""

import struct
from types import SimpleNamespace

import pytest

pytest.importorskip("bson")

from pymongo.errors import OperationFailure

import reactdb
from reactdb.dialects.mongodb import MongoError
from reactdb.dialects.mongodb.commands import Deployment, is_quick
from reactdb.dialects.mongodb.commands import cursors as cursors_module
from reactdb.dialects.mongodb.commands import session_states as states_module
from reactdb.dialects.mongodb.commands.cursors import IDLE_S, MOST_BATCH_BYTES, Cursors, Results
from reactdb.dialects.mongodb.commands.session_states import IDLE_S as SESSION_IDLE_S
from reactdb.dialects.mongodb.commands.session_states import TRANSACTION_S, SessionStates
from reactdb.dialects.mongodb.namespaces import Namespaces
from reactdb.dialects.mongodb.transactions import Transactions
from reactdb.session import session_of


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only where a test says so."""
    now = SimpleNamespace(s=1_000.0)
    for module in (cursors_module, states_module):
        monkeypatch.setattr(module, "monotonic", lambda: now.s)
    return now


@pytest.fixture
def states(db, clock):
    return SessionStates(Transactions(Namespaces(session_of(db))))


def results(session=None):
    return Results("shop.orders", iter([{"_id": 1}, {"_id": 2}]), session)


def code_of(function, *arguments):
    with pytest.raises(MongoError) as caught:
        function(*arguments)
    return caught.value.code


def test_a_cursor_belongs_to_its_session():
    cursors = Cursors()
    of_one, of_none = cursors.open(results(b"one")), cursors.open(results())

    assert 50738 == code_of(cursors.take, of_one, b"two")
    assert 50737 == code_of(cursors.take, of_one, None)
    assert 50736 == code_of(cursors.take, of_none, b"one")
    assert cursors.find(of_one) is cursors.take(of_one, b"one")


def test_a_cursor_is_used_by_one_command_at_a_time():
    cursors = Cursors()
    number = cursors.open(results())
    taken = cursors.take(number, None)

    assert 143 == code_of(cursors.take, number, None)
    cursors.give_back(taken)
    assert taken is cursors.take(number, None)


def test_a_cursor_that_nobody_uses_ends_and_one_in_use_stays(clock):
    cursors = Cursors()
    idle, used = cursors.open(results()), cursors.open(results())
    cursors.take(used, None)

    clock.s += IDLE_S - 1
    cursors.open(results())
    assert cursors.find(idle) is not None
    clock.s += 2
    cursors.open(results())

    assert cursors.find(idle) is None
    assert cursors.find(used) is not None


def test_a_batch_has_no_more_bytes_than_a_reply_can_have():
    half = "x" * (MOST_BATCH_BYTES // 2)
    cursor = Results("shop.orders", iter([{"_id": number, "x": half} for number in range(3)]))

    assert [1, 1, 1] == [len(cursor.batch(None)) for _ in range(3)]
    assert cursor.is_read


def test_a_session_that_is_idle_is_forgotten(states, clock):
    states.find(b"idle")
    clock.s += SESSION_IDLE_S - 1
    states.find(b"used")
    assert 2 == len(states)
    clock.s += 20

    states.find(b"used")

    assert 1 == len(states)


def test_a_transaction_that_is_open_for_too_long_is_aborted_and_none_that_runs(states, clock):
    kept, running = states.find(b"kept"), states.find(b"running")
    old, used = (state.begin(1, states.transactions) for state in (kept, running))
    clock.s += TRANSACTION_S + 1

    # As another thread's command does.
    running.lock = SimpleNamespace(acquire=lambda blocking: False)
    states.find(b"other")

    assert ("aborted", "open") == (old.state, used.state)


@pytest.mark.parametrize(
    ("durability", "body", "alone", "beside_others"),
    [
        ("memory", {"hello": 1}, True, True),
        ("memory", {"ping": 1}, True, True),
        ("memory", {"insert": "orders", "documents": [{}]}, True, False),
        ("memory", {"find": "orders", "filter": {"_id": 1}}, True, False),
        ("memory", {"find": "orders", "filter": {"a": 1}}, False, False),
        ("soft", {"insert": "orders", "documents": [{}]}, True, False),
        ("soft", {"find": "orders", "filter": {"_id": 1}}, True, True),
        ("soft", {"find": "orders", "filter": {"_id": 1}, "txnNumber": 1}, True, False),
        ("soft", {"update": "orders", "updates": [{"q": {"_id": 1}}]}, True, False),
        ("soft", {"update": "orders", "updates": [{"q": {"_id": {"$gt": 1}}}]}, False, False),
        ("hard", {"insert": "orders", "documents": [{}]}, False, False),
        ("hard", {"find": "orders", "filter": {"_id": 1}}, True, True),
        ("hard", {"nothing": 1}, True, True),
    ],
)
def test_only_what_waits_for_nobody_is_carried_out_at_once(tmp_path, durability, body, alone, beside_others):
    path, kept = (":memory:", "soft") if durability == "memory" else (tmp_path / "shop.db", durability)
    with reactdb.connect(path, durability=kept) as db:
        deployment = Deployment(db)

        found = is_quick(body, deployment, False), is_quick(body, deployment, True)

        assert (alone, beside_others) == found


def test_a_cursor_over_a_collection_that_was_dropped_ends(db):
    orders = reactdb.mongodb(db)["shop"]["orders"]
    orders.insert_many([{"_id": number} for number in range(300)])
    cursor = orders.find()
    next(cursor)
    orders.drop()

    with pytest.raises(OperationFailure) as caught:
        list(cursor)
    assert 175 == caught.value.code


def test_of_two_servers_the_later_has_the_higher_election_id(db, monkeypatch):
    """Drivers that stay use no server with a lower one; a server may be started again within the second."""
    found = []
    for moment in (5_000_000_001, 5_000_000_002, 6_000_000_000):
        monkeypatch.setattr("time.time_ns", lambda moment=moment: moment)
        found.append(Deployment(db).election_id.binary)
    assert [(5, 1, 0), (5, 2, 0), (6, 0, 0)] == [struct.unpack(">3I", one) for one in found]
    assert found == sorted(found)
