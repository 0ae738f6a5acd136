"""The newest changes in memory: what they reach, and that a stream which is woken tells what the log says."""

import pytest

import reactdb
from reactdb.change import INSERT, Change
from reactdb.dialects.mongodb import recent, stream_waiters
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.namespaces import Namespaces
from reactdb.dialects.mongodb.recent import MOST, RecentChanges
from reactdb.dialects.mongodb.scopes import StreamScope
from reactdb.dialects.mongodb.streams import ChangeStreams
from reactdb.session import session_of
from reactdb.store.engine import Engine

ORDERS = MongoNamespace("shop", "orders")


def changes(*seqs, size=10):
    return [Change(seq, "t", 1, b"k", INSERT, None, None, bytes(size), seq, 0) for seq in seqs]


def seqs_of(found):
    return None if found is None else [change.seq for change in found]


class TestReach:
    def test_they_begin_where_the_first_came(self):
        kept = RecentChanges()
        assert kept.between(0, 0) is None
        kept.add(changes(5, 6, 8))

        assert [5, 6, 8] == seqs_of(kept.between(4, 8))
        assert [8] == seqs_of(kept.between(6, 8))
        assert [5] == seqs_of(kept.between(4, 5))
        assert kept.between(3, 8) is None

    def test_what_was_added_last_is_given_as_it_is(self):
        kept = RecentChanges()
        kept.add(changes(5))
        newest = changes(6, 7)
        kept.add(newest)

        assert kept.between(5, 7) is newest
        assert [[5, 6, 7], [6], [7]] == [
            seqs_of(kept.between(*between)) for between in ((4, 7), (5, 6), (6, 7))
        ]
        kept.clear()
        assert kept.between(5, 7) is None

    def test_what_has_not_come_yet_is_missing(self):
        kept = RecentChanges()
        kept.add(changes(5))
        assert kept.between(4, 6) is None

    def test_the_oldest_go(self):
        kept = RecentChanges()
        for seq in range(1, MOST + 3):
            kept.add(changes(seq))
        assert kept.between(1, MOST + 2) is None
        assert list(range(3, MOST + 3)) == seqs_of(kept.between(2, MOST + 2))

    def test_many_at_once_are_kept_from_where_they_can_be(self):
        kept = RecentChanges()
        kept.add(changes(1))
        kept.add(changes(*range(2, 2 * MOST + 2)))
        assert list(range(MOST + 2, 2 * MOST + 2)) == seqs_of(kept.between(MOST + 1, 2 * MOST + 1))
        assert kept.between(MOST, 2 * MOST + 1) is None

    def test_large_ones_go_sooner_or_are_not_kept(self, monkeypatch):
        monkeypatch.setattr(recent, "MOST_BYTES", 100)
        kept = RecentChanges()
        kept.add(changes(1, 2, 3, size=40))
        assert (None, [2, 3]) == (kept.between(0, 3), seqs_of(kept.between(1, 3)))
        kept.add(changes(4, size=200))
        assert kept.between(3, 4) is None
        kept.add(changes(5))
        assert [5] == seqs_of(kept.between(4, 5))

    def test_after_a_gap_they_begin_anew(self):
        kept = RecentChanges()
        kept.add(changes(1, 2))
        kept.clear()
        kept.add(changes(4))
        assert (None, [4]) == (kept.between(2, 4), seqs_of(kept.between(3, 4)))


@pytest.fixture
def owner(db):
    spaces = Namespaces(session_of(db))
    spaces.create(ORDERS)
    return ChangeStreams(spaces)


def listening(owner, *stages, **options):
    stream = owner.open(StreamScope(ORDERS), [{"$changeStream": options}, *stages])
    stream.on_ready(lambda: None)
    return stream


def do_a_bit_of_everything(db):
    """Gives the control back after each commit."""
    orders = reactdb.mongodb(db)["shop"]["orders"]
    other = reactdb.mongodb(db)["shop"]["others"]
    yield orders.insert_one({"_id": 1, "n": 1})
    yield other.insert_one({"_id": 1})
    yield orders.insert_many([{"_id": number, "n": number} for number in range(2, MOST + 10)])
    yield orders.update_one({"_id": 1}, {"$set": {"n": 5}, "$unset": {"m": 1}})
    yield orders.replace_one({"_id": 1}, {"n": "x" * 1_000})
    yield orders.update_many({"_id": {"$lt": 5}}, {"$inc": {"k": 1}})
    yield orders.insert_one({"_id": "large", "text": "x" * recent.MOST_BYTES})
    yield orders.delete_many({"_id": {"$lt": 3}})
    yield orders.create_index("n")
    yield orders.insert_one({"_id": 1})
    yield db.table("shop.orders").insert({"_id": "native"})
    yield orders.drop()


@pytest.mark.parametrize("step", [1, 2, 5])
@pytest.mark.parametrize("options", [{}, {"fullDocument": "updateLookup"}, {"showExpandedEvents": True}])
def test_a_stream_that_is_woken_tells_what_the_log_says(db, owner, options, step):
    woken = [
        listening(owner, **options),
        listening(
            owner, {"$match": {"operationType": {"$in": ["insert", "delete", "invalidate"]}}}, **options
        ),
    ]
    start = woken[0].batch().token
    told = [[], []]
    for number, _ in enumerate(do_a_bit_of_everything(db)):
        if number % step == 0:
            for stream, events in zip(woken, told, strict=True):
                events += stream.batch().events
    for stream, events in zip(woken, told, strict=True):
        events += stream.batch().events
    from_the_log = owner.open(StreamScope(ORDERS), [{"$changeStream": {**options, "startAfter": start}}])
    expected = from_the_log.batch().events

    if "fullDocument" in options:
        # Those are as of when it was asked.
        told[0] = [{**one, "fullDocument": None} for one in told[0]]
        told[1] = [{**one, "fullDocument": None} for one in told[1]]
        expected = [{**one, "fullDocument": None} for one in expected]
    assert expected == told[0]
    some = ("insert", "delete", "invalidate")
    assert [one for one in expected if one["operationType"] in some] == told[1]


def test_a_batch_asks_memory_once(db, owner, monkeypatch):
    asked = []
    between = RecentChanges.between
    stream = listening(owner)
    monkeypatch.setattr(RecentChanges, "between", lambda *given: asked.append(given) or between(*given))
    reactdb.mongodb(db)["shop"]["orders"].insert_one({"_id": 1})
    assert (1, 1) == (len(stream.batch().events), len(asked))


def test_changes_that_were_passed_over_are_read_from_the_log(db, owner, monkeypatch):
    monkeypatch.setattr(stream_waiters, "MOST_QUEUED", 3)
    stream = listening(owner)
    orders = db.table("shop.orders")
    orders.insert({"_id": 0})
    orders.insert([{"_id": number} for number in range(1, 20)])
    orders.insert({"_id": 20})

    assert list(range(21)) == [event["documentKey"]["_id"] for event in stream.batch().events]


def test_one_that_is_up_to_date_but_for_a_commit_reads_nothing_of_the_file(monkeypatch):
    def no_snapshot(_engine):
        raise AssertionError("it reads")

    with reactdb.connect(":memory:") as db:
        owner = ChangeStreams(Namespaces(session_of(db)))
        owner.spaces.create(ORDERS)
        stream = listening(owner)
        orders = db.table("shop.orders")
        orders.insert({"_id": 0})
        assert 1 == len(stream.batch().events)
        monkeypatch.setattr(Engine, "snapshot", no_snapshot)
        orders.insert({"_id": 1})
        events = stream.batch().events
        monkeypatch.undo()
        stream.close()

    assert [1] == [event["documentKey"]["_id"] for event in events]
