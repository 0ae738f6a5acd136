"""Lean pages of the log and documents that are decoded together: they say what the long way says, or leave it to that."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reactdb
from reactdb.change import Change
from reactdb.store import lean_pages, log_pages
from reactdb.store.log_pages import DecodedChange, LeanChange
from reactdb.values import codec, decoding

COLUMNS = [name for name in Change.__slots__ if name not in ("_old", "_new", "old_bytes")]

steps = st.lists(
    st.tuples(
        st.sampled_from(["insert", "update", "replace", "delete", "together"]),
        st.sampled_from(["games", "games", "games", "others"]),
        st.integers(0, 3),
        st.sampled_from([None, None, "somebody"]),
    ),
    max_size=25,
)


def write(db: reactdb.Database, kind: str, name: str, key: int, origin: str | None) -> None:
    table, document = db.table(name), {"id": key, "kind": kind, "tags": [key, {"a": None}]}
    with db.transaction(origin=origin):
        if kind == "insert":
            table.insert(document, conflict="replace")
        elif kind == "update":
            table.get(key).update({"score": key})
        elif kind == "replace":
            table.get(key).replace(document)
        elif kind == "delete":
            table.get(key).delete()
        else:
            table.insert([{"id": number} for number in range(4)], conflict="replace")


def columns_of(changes: Any) -> list[list[Any]]:
    return [[getattr(change, name) for name in COLUMNS] for change in changes]


def documents_of(changes: Any) -> list[Any]:
    return [(change.old_bytes, change.old_val, change.new_val) for change in changes]


@given(steps, st.integers(1, 7))
def test_the_log_says_the_same_in_lean_pages_as_in_all_its_columns(given_steps, size):
    with pytest.MonkeyPatch.context() as patch, reactdb.connect(":memory:", durability="soft") as db:
        patch.setattr(log_pages, "PAGE_CHANGES", size)
        patch.setattr(log_pages, "FULL_CHANGES", size)
        patch.setattr(log_pages, "DECODED", 2)
        for name in ("games", "others"):
            db.table_create(name)
        for step in given_steps:
            write(db, *step)
        with db.session.read() as snapshot:
            expected = snapshot.changes(0, limit=1_000)
        assert columns_of(expected) == columns_of(db.log())
        assert columns_of(expected) == columns_of(list(db.log()))
        assert documents_of(expected) == documents_of(db.log())
        assert documents_of(expected) == documents_of(list(db.log()))
        assert [change.new_val for change in expected] == [change.new_val for change in db.log()]
        both = [(change.new_val, change.old_val, *columns_of([change])[0]) for change in db.log()]
        assert [(change.new_val, change.old_val, *columns_of([change])[0]) for change in expected] == both


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.db"
    with reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games")
        games.insert([{"id": number, "score": number} for number in range(10)])
        games.update({"score": 100})
        games.get(3).delete()
    return path


def test_a_page_is_lean_where_it_can_be(path):
    with reactdb.connect(path) as db:
        assert {LeanChange} == set(map(type, db.log()))


def test_documents_are_decoded_with_their_page_once_somebody_has_asked_for_both(path, monkeypatch):
    monkeypatch.setattr(log_pages, "PAGE_CHANGES", 4)
    with reactdb.connect(path) as db:
        kinds = [type(change) for change in db.log() if (change.old_val, change.new_val)]
    assert [LeanChange] * 4 + [DecodedChange] * 17 == kinds


@pytest.mark.parametrize("seq", [2, 12, 21])
@pytest.mark.parametrize(
    "damage",
    [
        "step = step + 1",
        "step = -1",
        "kind = (kind + 1) % 4",
        "kind = 9",
        "prev = ifnull(prev, 0) + 1",
        "prev = 9223372036854775807",
        "time = time + 256",
        "time = -time",
        "time = 9223372036854775807",
        "time = x'00'",
        "key = (SELECT key FROM log l WHERE l.seq = log.seq - 1)",
        "key = 'text'",
        "body = x'80'",
        "body = 7",
        "origin = 'nobody'",
        "meta = x'00'",
        "table_id = table_id + 1",
        "seal = seal + 1",
        "seal = seal + 4294967296",
        "seal = 'text'",
        "seal = 1.5",
    ],
)
def test_a_column_that_changed_on_the_disk_is_told(path, damage, seq):
    with sqlite3.connect(path) as other:
        other.execute(f"UPDATE log SET {damage} WHERE seq = ?", (seq,))
    other.close()
    with reactdb.connect(path) as db:
        with pytest.raises(reactdb.CorruptDatabase):
            list(db.log())
        with pytest.raises(reactdb.CorruptDatabase):
            [(change.old_val, change.new_val) for change in db.log()]


def test_an_entry_that_is_missing_is_told(path):
    with sqlite3.connect(path) as other:
        other.execute("DELETE FROM log WHERE seq = 5")
    other.close()
    with reactdb.connect(path) as db, pytest.raises(reactdb.CorruptDatabase, match="5"):
        list(db.log())


@pytest.mark.parametrize("damage", ["body = x'80'", "body = NULL", "seal = seal + 1", "seal = NULL"])
def test_a_document_before_that_changed_on_the_disk_is_told_with_a_page_that_is_lean(path, damage):
    with sqlite3.connect(path) as other:
        other.execute(f"UPDATE log SET {damage} WHERE seq = 3")
    other.close()
    with reactdb.connect(path) as db, db.session.read() as snapshot:
        assert lean_pages.lean_rows(snapshot.connection, 10, 20, 1) is not None
        assert lean_pages.lean_rows(snapshot.connection, 10, 20, 1, has_old=True) is None


def test_two_columns_can_be_taken_out_of_one_number():
    most = lean_pages.MODULUS - 1
    for time, kind, prev, step in [(0, 0, None, 0), (lean_pages.MOST_TIME - 1, 3, most, most)]:
        dated, placed = time + lean_pages.DATED * kind, step + lean_pages.PLACED * (prev or 0)
        assert max(dated, placed) < 2**63
        assert (time, kind, prev, step) == lean_pages.taken_apart((b"", b"", 0, dated, placed))


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.text(), values, max_size=4), max_size=6))
def test_documents_that_are_decoded_together_are_those_one_by_one(documents):
    bodies = [codec.encode(document) for document in documents]
    assert [codec.decode(body) for body in bodies] == codec.decode_many(bodies)
    frozen = codec.decode_many_frozen(bodies)
    assert [codec.decode_frozen(body) for body in bodies] == frozen
    assert all(type(document) is codec.FrozenDict for document in frozen)


@pytest.mark.parametrize(
    "bodies",
    [
        # A text takes what stands between the two, and the next one's beginning; what is left of that is a document.
        (b"\x81\xa1a\xabb", b"\x92\xc0\x81\xa1c\x01"),
        # A float takes all but the last byte of what stands between the two, which is a number by itself.
        (b"\x81\xa1a\xcb", b"\x80"),
        (b"\x80", b"\x01"),
        (b"\x80", b""),
        (b"", b"\x80\x80"),
        (b"\x80", b"\x81\xc4\x01a\x01"),
        (b"\x80", b"\x81\xa1a\xd6\xff\x00\x00\x00\x01"),
    ],
)
def test_bytes_that_are_no_document_are_told_among_others(bodies, monkeypatch):
    fence = b"\xcf\xff" + b"\x01" * 7
    monkeypatch.setattr(decoding, "_FENCE", fence)
    monkeypatch.setattr(decoding, "_FENCE_NUMBER", int.from_bytes(fence[1:], "big"))
    for decode in (codec.decode_many, codec.decode_many_frozen):
        with pytest.raises(reactdb.CorruptDatabase):
            decode(bodies)
