"""Named positions: rows with a checksum each, written in the transaction of what they stand for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.session import session_of
from reactdb.store.positions import (
    NamedPosition,
    find_position,
    read_parts,
    read_positions,
    remove_position,
    write_position,
)
from tests.support.inspection import problems
from tests.support.kept_files import kept, unpack

FULL = NamedPosition("test", "mine", 1, 7, "e", 3, "holder", 1234, 2, b"more")


def written(db: Any, *positions: NamedPosition) -> None:
    with db.transaction():
        for position in positions:
            session_of(db).transact(
                lambda transaction, position=position: write_position(transaction, position)
            )


def test_a_position_comes_back_as_it_was(path: Path):
    other = NamedPosition("test", "other", position=2**62)
    with reactdb.connect(path) as db:
        written(db, FULL, FULL._replace(part=0, value=None), other)
    with reactdb.connect(path, read_only=True) as db, session_of(db).read() as snapshot:
        connection = snapshot.connection
        assert find_position(connection, "test", "mine", 1) == FULL
        assert find_position(connection, "test", "mine", 2) is None
        assert find_position(connection, "another kind", "mine", 1) is None
        assert [FULL._replace(part=0, value=None), FULL] == read_parts(connection, "test", "mine")
        assert ["mine", "mine", "other"] == [one.name for one in read_positions(connection, "test")]
    assert [] == problems(path)


def test_it_is_committed_although_no_document_changes_and_takes_no_seq(db: Any):
    before = db.seq
    written(db, FULL)
    written(db, FULL._replace(position=8))

    assert before == db.seq
    with session_of(db).read() as snapshot:
        assert 8 == find_position(snapshot.connection, "test", "mine", 1).position  # type: ignore[union-attr]


def test_it_is_taken_back_with_its_transaction_or_alone(db: Any):
    written(db, FULL)
    with pytest.raises(ZeroDivisionError), db.transaction():
        written(db, FULL._replace(position=8))
        raise ZeroDivisionError
    with db.transaction():
        db.table_create("games").insert({"id": 1})
        with pytest.raises(ZeroDivisionError), db.transaction():
            written(db, FULL._replace(position=9))
            raise ZeroDivisionError

    with session_of(db).read() as snapshot:
        assert find_position(snapshot.connection, "test", "mine", 1) == FULL


def test_it_is_removed_with_all_of_its_parts(db: Any):
    written(db, FULL, FULL._replace(part=0), FULL._replace(name="other"))

    assert 2 == session_of(db).transact(lambda transaction: remove_position(transaction, "test", "mine"))
    assert 0 == session_of(db).transact(lambda transaction: remove_position(transaction, "test", "mine"))
    with session_of(db).read() as snapshot:
        assert ["other"] == [one.name for one in read_positions(snapshot.connection, "test")]


@pytest.mark.parametrize(
    "damage",
    [
        "position = 8",
        "epoch = 'f'",
        "fence = 4",
        "holder = NULL",
        "leased = 0",
        "attempts = 0",
        "value = x'00'",
        "seal = 0",
    ],
)
def test_every_column_is_covered_by_its_checksum(path: Path, damage: str):
    with reactdb.connect(path) as db:
        written(db, FULL)
        with db.transaction():
            session_of(db).transact(lambda transaction: transaction.execute(f"UPDATE positions SET {damage}"))
            written(db, FULL._replace(name="other"))
        with session_of(db).read() as snapshot:
            with pytest.raises(reactdb.CorruptDatabase, match="test mine does not match its checksum"):
                find_position(snapshot.connection, "test", "mine", 1)
            assert find_position(snapshot.connection, "test", "other", 1) is not None
    assert any("test mine does not match" in message for message in problems(path))


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("name", [name for name in kept() if "-long" in name])
def test_receipts_of_older_files_are_positions(name: str, read_only: bool, tmp_path: Path):
    path = unpack(name, tmp_path)
    with reactdb.connect(path, read_only=read_only) as db, session_of(db).read() as snapshot:
        assert [("a stream people", 11), ("another stream people", 0)] == [
            (one.name, one.position) for one in read_positions(snapshot.connection, "receipt")
        ]
