"""Receipts, the idempotency keys of senders: they are written in the transaction of the documents, in every file format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.errors import CorruptDatabase
from reactdb.session import session_of
from reactdb.store.positions import give_receipt, read_last_receipt
from reactdb.store.tools import doctor
from tests.support.kept_files import kept, unpack


def take_in(db: Any, number: int, documents: list[dict[str, Any]]) -> None:
    with db.transaction():
        session_of(db).transact(lambda transaction: give_receipt(transaction, "sender", number))
        db.table("games").insert(documents)


def last(db: Any) -> int | None:
    with session_of(db).read() as snapshot:
        return read_last_receipt(snapshot.connection, "sender")


def test_a_sender_that_never_sent_has_no_receipt(db: Any):
    assert last(db) is None


def test_a_receipt_is_there_together_with_the_documents(db: Any, games: Any):
    take_in(db, 7, [{"id": 1}])

    assert (7, 1) == (last(db), games.count().run())


def test_a_receipt_is_taken_back_together_with_the_documents(db: Any, games: Any):
    take_in(db, 7, [{"id": 1}])
    with pytest.raises(reactdb.DuplicateKey):
        take_in(db, 8, [{"id": 2}, {"id": 1}])

    assert (7, 1) == (last(db), games.count().run())


def test_a_receipt_for_nothing_is_kept_as_well(db: Any):
    session_of(db).transact(lambda transaction: give_receipt(transaction, "sender", 3))

    assert 3 == last(db)
    assert 0 == db.seq


def test_a_receipt_is_there_after_reopening_and_the_file_is_sound(tmp_path: Path):
    path = tmp_path / "a.db"
    with reactdb.connect(path) as db:
        db.table_create("games")
        take_in(db, 7, [{"id": 1}])
    with reactdb.connect(path) as db:
        assert 7 == last(db)
        db.table_create("others")
        take_in(db, 8, [{"id": 2}])
        db.compact(keep=0)
        assert 8 == last(db)
        assert ["games", "others"] == db.table_list()
    assert [] == [
        finding
        for _, findings in doctor.examine(str(path))
        for finding in findings
        if finding.level == "problem"
    ]


def test_another_process_learns_nothing_new_of_tables_by_a_receipt(db: Any, games: Any):
    """Its version counts changes to tables and indexes, which everybody then reads again."""
    before = session_of(db).engine.catalogue.version
    take_in(db, 7, [{"id": 1}])

    with session_of(db).read() as snapshot:
        assert before == snapshot.catalogue.version


@pytest.mark.parametrize("name", list(kept()))
def test_a_file_of_every_format_takes_receipts(name: str, tmp_path: Path):
    path = unpack(name, tmp_path)
    with reactdb.connect(path) as db:
        session_of(db).transact(lambda transaction: give_receipt(transaction, "sender", 3))
    with reactdb.connect(path) as db:
        assert 3 == last(db)


def test_a_receipt_that_changed_on_the_disk_is_damage(db: Any):
    def spoil(transaction: Any) -> None:
        give_receipt(transaction, "sender", 1)
        transaction.execute("UPDATE positions SET position = 2")

    session_of(db).transact(spoil)

    with pytest.raises(CorruptDatabase, match="receipt sender does not match its checksum"):
        last(db)
