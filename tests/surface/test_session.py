"""The session, on which dialects are built: writing with a policy, reading, facts about tables, and views of the past."""

from __future__ import annotations

from typing import Any

import pytest

import reactdb
from reactdb.change import REPLACE, UPDATE
from reactdb.documents.write import SKIPPED, Policy, Prepared, Write, insert
from reactdb.query import ALL_TABLES, Filter, Query
from reactdb.session import session_of
from reactdb.table import query_of
from reactdb.values.codec import decode, encode, same_in_order
from reactdb.values.collation import primary_key_bytes


class Counting(Policy):
    """A mistake is counted, and shown in words of its own."""

    counts_errors = True

    def sentence(self, error: reactdb.ReactDBError) -> str:
        return f"no: {type(error).__name__}"


class Ordered(Policy):
    """Documents whose fields stand in another order are others."""

    is_same = staticmethod(same_in_order)


def key(value: Any) -> bytes:
    return primary_key_bytes(value)


def doubled(document: Any) -> Any:
    return {**document, "n": document["n"] * 2}


def double_three(write: Write) -> None:
    for value in (1, 2, 3):
        write.change(key(value), doubled, UPDATE)


@pytest.fixture
def rooms(db: reactdb.Database) -> reactdb.Table:
    table = db.table_create("rooms")
    table.insert([{"id": 1, "n": 1}, {"id": 2, "n": {}}, {"id": 3, "n": 3}])
    return table


def test_a_policy_that_counts_goes_on_after_a_mistake(db, rooms):
    def work(write: Write) -> None:
        for value in (1, 2, 3):
            write.change(
                key(value), lambda old: {**old, "id": old["id"] * (1 if old["id"] != 2 else 9)}, UPDATE
            )
            write.change(key(value), lambda old: {**old, "seen": True}, UPDATE)

    answer = session_of(db).write("rooms", work, Counting())

    assert (3, 1, 2) == (answer["replaced"], answer["errors"], answer["unchanged"])
    assert "no: InvalidKey" == answer["first_error"]
    assert [True, True, True] == [document["seen"] for document in rooms]


def test_a_document_whose_fields_were_reordered_is_logged_where_the_policy_sees_their_order(db, rooms):
    reordered = {"n": 1, "id": 1}
    seen: list[Any] = []
    rooms.filter({"n": 1}).changes().subscribe(seen.append)

    def write(policy: Policy) -> dict[str, Any]:
        return session_of(db).write(
            "rooms", lambda write: write.change(key(1), lambda old: reordered, REPLACE), policy
        )

    assert 1 == write(Policy())["unchanged"]
    assert ["id", "n"] == list(rooms.get(1).run())
    before = db.seq
    assert 1 == write(Ordered())["replaced"]
    assert before + 1 == db.seq
    assert ["n", "id"] == list(rooms.get(1).run())
    assert [["id", "n"], ["n", "id"]] == [list(seen[0]["old_val"]), list(seen[0]["new_val"])]
    assert 1 == write(Ordered())["unchanged"] == rooms.get(1).replace({"id": 1, "n": 1})["unchanged"]
    assert 1 == len(seen)


def test_the_native_policy_raises_and_nothing_is_written(db, rooms):
    before = db.seq

    with pytest.raises(reactdb.errors.InvalidKey):
        session_of(db).write("rooms", lambda write: write.change(key(1), lambda old: {"id": 2}, REPLACE))
    with pytest.raises(TypeError):
        session_of(db).write("rooms", double_three)

    assert before == db.seq
    assert 1 == rooms.get(1).run()["n"]


def test_a_mistake_that_is_no_error_of_ours_is_never_counted(db, rooms):
    """`{} * 2` is a mistake of the dialect's own code, and no answer to a user."""
    with pytest.raises(TypeError):
        session_of(db).write("rooms", double_three, Counting())

    assert 1 == rooms.get(1).run()["n"]


def test_what_a_statement_does_to_each_document_is_counted(db, rooms):
    def work(write: Write) -> None:
        write.change(key(1), lambda old: None, REPLACE)
        write.change(key(2), lambda old: SKIPPED, REPLACE)
        write.change(key(3), lambda old: old, REPLACE)
        write.change(key(4), lambda old: {"id": 4}, REPLACE)
        write.put(key(5), write.head(key(5)), encode({"id": 5}), REPLACE)
        write.put(key(6), write.head(key(6)), None, REPLACE)
        insert(write, Prepared("id", [key(7), key(8)], [encode({"id": 7}), encode({"id": 8})]))

    answer = session_of(db).write("rooms", work, return_changes="always")

    assert {"deleted": 1, "errors": 0, "inserted": 4, "replaced": 0, "skipped": 2, "unchanged": 1} == {
        name: count for name, count in answer.items() if name != "changes"
    }
    assert 8 == len(answer["changes"])
    assert [2, 3, 4, 5, 7, 8] == [document["id"] for document in rooms]


def test_what_is_known_of_a_table(db, rooms):
    rooms.index_create("n")

    session = session_of(db)
    assert ("rooms", "id", ["n"]) == (
        session.info("rooms").name,
        session.info("rooms").primary_key,
        list(session.info("rooms").indexes),
    )
    assert (None, None) == (session.find_cached("halls"), session.find("halls"))
    with pytest.raises(reactdb.TableNotFound):
        session.info("halls")
    with pytest.raises(reactdb.TableNotFound):
        session.write("halls", double_three)
    assert ["rooms"] == session.tables()


def test_reading_by_key_by_query_and_in_a_snapshot(db, rooms):
    session = session_of(db)

    assert {"id": 1, "n": 1} == decode(session.get("rooms", key(1)))
    assert None is session.get("rooms", key(9))
    assert [{"id": 1, "n": 1}] == session.run(query_of(rooms.filter({"n": 1})))
    with session.read() as snapshot:
        rooms.insert({"id": 9}) if db.path != ":memory:" else None
        assert 3 == snapshot.count(snapshot.table("rooms"))


def test_a_feed_is_polled(db, rooms):
    calls: list[None] = []
    reader = session_of(db).reader(query_of(rooms.filter({"n": 5})), {}, lambda: calls.append(None))
    assert [] == reader.poll()

    rooms.insert([{"id": 5, "n": 5}, {"id": 6}])

    assert [None] == calls
    assert [{"old_val": None, "new_val": {"id": 5, "n": 5}}] == reader.poll()
    assert [] == reader.poll()
    reader.close()
    assert reader.is_finished


def test_a_session_of_the_past_reads_and_does_nothing_else(db, rooms):
    past = session_of(db.at(db.seq))
    rooms.delete()

    assert {"id": 1, "n": 1} == decode(past.get("rooms", key(1)))
    assert 3 == len(past.run(Query("rooms")))
    for write in (
        lambda: past.write("rooms", double_three),
        lambda: past.transact(lambda transaction: None),
        past.transaction,
    ):
        with pytest.raises(reactdb.errors.ReadOnlyDatabase, match="is the past, and cannot be written"):
            write()
    for watch in (
        lambda: past.watch(Query(ALL_TABLES), {}),
        lambda: past.reader(Query(ALL_TABLES), {}),
    ):
        with pytest.raises(reactdb.UsageError, match="the past does not change"):
            watch()


def test_a_closed_session_says_so(db, rooms):
    session = session_of(db)
    db.close()

    for use in (
        session.read,
        lambda: session.get("rooms", key(1)),
        lambda: session.info("rooms"),
        lambda: session.write("rooms", double_three),
        session.transaction,
        session.token,
        lambda: session.database_id,
        lambda: session.watch(Query("rooms", (Filter,)), {}),
    ):
        with pytest.raises(reactdb.errors.DatabaseClosed):
            use()
