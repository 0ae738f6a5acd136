"""Reads by an index of a damaged file give the right answer, or raise CorruptDatabase."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.session import session_of
from reactdb.store import sums
from tests import damaged_indexes
from tests.support.inspection import problems

# Each of them gave a wrong answer before entries were compared: bits of a cell, cells that are left out or change places, a page
# that is another one, the number of an index, cells of other indexes that a search passes.
SEEDS = (4, 7, 8, 17, 24, 33, 5346, 40035)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> damaged_indexes.Sound:
    return damaged_indexes.Sound.make(tmp_path_factory.mktemp("sound"))


@pytest.mark.parametrize("seed", SEEDS)
def test_no_read_by_a_damaged_index_gives_a_wrong_answer(
    sound: damaged_indexes.Sound, tmp_path: Path, seed: int
) -> None:
    outcome = damaged_indexes.try_case(sound, tmp_path, seed)

    assert [] == outcome.wrong
    # Otherwise the damage would be none.
    assert outcome.raised > 0


@pytest.mark.slow
def test_no_read_by_an_index_gives_a_wrong_answer_whatever_is_damaged(tmp_path: Path) -> None:
    """`python -m tests.damaged_indexes --cases 10000` runs more of the same."""
    wrong, told = [], 0
    for seed, outcome in damaged_indexes.cases(tmp_path, range(10_000, 10_200)):
        wrong += [f"seed {seed}, {outcome.words}: {what}" for what in outcome.wrong]
        told += bool(outcome.raised)

    assert [] == wrong
    assert told > 100


@pytest.fixture
def hurt(sound: damaged_indexes.Sound, tmp_path: Path) -> Path:
    """The entries under one value of `tags` are gone."""
    path = tmp_path / "hurt.db"
    data = bytearray(sound.path.read_bytes())
    assert "cells left" in damaged_indexes.damage(data, sound.pages, damaged_indexes.random.Random(12))
    path.write_bytes(data)
    return path


TOLD = r"index `tags` of table `people`: .* can be found, and .* were written"


def test_a_part_of_an_index_that_is_too_large_to_be_compared_may_lack_documents(
    hurt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the page on promises says."""
    monkeypatch.setattr(sums, "MOST_COMPARED", 100)
    with reactdb.connect(hurt) as db:
        people = db.table("people")

        assert 26 > people.get_all("tag 4", index="tags").count().run()
        # What is whole has the sums of all of it.
        with pytest.raises(reactdb.CorruptDatabase, match="can be found"):
            people.order_by(index="tags").run()


READS: dict[str, Any] = {
    "get_all": lambda people: people.get_all(3, index="tags").run(),
    "between": lambda people: people.between(3, 4, index="tags").count().run(),
    "order and limit": lambda people: people.order_by(index="tags").limit(3).run(),
    "iteration": lambda people: list(people.order_by(index="tags")),
    "feed": lambda people: (
        people.get_all(3, index="tags").changes(include_initial=True).cursor().next(timeout=10)
    ),
}


@pytest.mark.parametrize("read", READS)
def test_every_read_by_the_index_tells_of_it_also_where_its_own_part_is_whole(hurt: Path, read: str) -> None:
    with reactdb.connect(hurt) as db:
        for _ in range(2):
            with pytest.raises(reactdb.CorruptDatabase, match=TOLD):
                READS[read](db.table("people"))


def test_a_write_that_moves_a_lost_entry_is_refused_and_does_not_hide_the_damage(hurt: Path) -> None:
    """It would write the new entries, and then the file would be whole, although reads had lacked documents."""
    with reactdb.connect(hurt) as db:
        people = db.table("people")

        with pytest.raises(reactdb.CorruptDatabase, match="index `tags` of table `people` lacks entries"):
            people.update({"tags": ["new"]})
        with pytest.raises(reactdb.CorruptDatabase, match="nothing is written any more"):
            people.insert({"id": "another"})

    assert any("index 'tags' does not have" in words for words in problems(hurt))


def test_reads_by_other_indexes_and_of_all_documents_go_on(hurt: Path) -> None:
    with reactdb.connect(hurt) as db:
        people = db.table("people")

        assert 13 == len(people.get_all(1, index="age").run())
        assert 282 == people.count().run()


def test_an_index_is_compared_once_while_the_file_is_open(
    sound: damaged_indexes.Sound, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []
    compare = sums.compare
    monkeypatch.setattr(
        "reactdb.store.snapshot.compare",
        lambda connection, table, index: compared.append(index.name) or compare(connection, table, index),
    )
    with reactdb.connect(sound.path, read_only=True) as db:
        people = db.table("people")
        for _ in range(3):
            people.get_all(1, 2, 3, index="age").run()
            # Several connections.
            with session_of(db).read():
                people.between(1, 5, index="age").run()

    assert ["age"] == compared


def test_an_index_that_a_transaction_has_changed_is_compared_as_the_transaction_sees_it(
    tmp_path: Path,
) -> None:
    """Over the end of a block of the log, and with what is taken back."""
    with reactdb.connect(tmp_path / "a.db") as db:
        games = db.table_create("games")
        games.index_create("n")
        games.insert([{"id": n, "n": n % 3} for n in range(40)])
    with reactdb.connect(tmp_path / "a.db") as db, db.transaction():
        games = db.table("games")
        games.insert([{"id": n, "n": n % 3} for n in range(40, 100)])
        games.get(5).update({"n": 7})
        games.get(6).delete()

        assert [5] == [game["id"] for game in games.get_all(7, index="n").run()]
