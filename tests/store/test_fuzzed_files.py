"""A damaged file gives the right document or one of reactdb's errors, never a wrong document, another error or a crash.

Only what no checksum covers may be missing without an error: a head or an index entry that cannot be found any more. The
doctor always finds that.
"""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlite_utils.utils import sqlite3

import reactdb
from reactdb import row
from reactdb.cli import main
from reactdb.store import sums
from tests import fuzzed_files
from tests.support import kept_files
from tests.support.inspection import problems


@pytest.mark.slow
def test_a_fuzzed_file_gives_no_wrong_document_and_no_strange_error(tmp_path: Path):
    """`python -m tests.fuzzed_files --cases 100000` runs more of the same."""
    wrong, silent, told = [], [], 0
    for seed, words, outcome in fuzzed_files.cases(tmp_path, range(500)):
        wrong += [f"seed {seed}, {words}: {what}" for what in outcome.wrong]
        silent += [f"seed {seed}, {words}: {what}" for what in outcome.missing if not outcome.is_found]
        told += bool(outcome.raised)

    assert ([], []) == (wrong, silent)
    # Otherwise the damage would be none.
    assert told > 100


@pytest.mark.parametrize(
    "name",
    # One of the newest kind that is kept; the others are slow.
    [
        name if name == "format-3-wal" else pytest.param(name, marks=pytest.mark.slow)
        for name in kept_files.kept()
    ],
)
def test_a_fuzzed_file_of_any_format_raises_only_our_errors(name: str, tmp_path: Path):
    """Format 1 has no checksums: there, wrong documents come as they are."""
    path = kept_files.unpack(name, tmp_path)
    copy = tmp_path / "copy.db"
    for suffix in ("", "-wal"):
        if Path(f"{path}{suffix}").exists():
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    with reactdb.connect(copy, read_only=True) as db:
        truth = fuzzed_files.read_truth(db, path)
    other = fuzzed_files.make(tmp_path / "other", in_wal=True)

    strange = []
    for seed in range(1000, 1060):
        case, words = fuzzed_files.damaged(truth, other, tmp_path, seed)
        outcome = fuzzed_files.read_everything(case, truth, may_be_older=True, read_only=bool(seed % 2))
        strange += [f"seed {seed}, {words}: {what}" for what in outcome.wrong if " raised " in what]

    assert [] == strange


def test_the_doctor_finds_every_single_byte_that_changed_in_a_value(tmp_path: Path):
    """Every byte of every document, of present and superseded ones, is changed to another in turn."""
    path = tmp_path / "small.db"
    with reactdb.connect(path) as db:
        table = db.table_create("people")
        table.insert([{"id": n, "name": f"p{n}", "score": n * 1.5} for n in range(6)])
        table.get(2).update({"score": -1})
        table.get(3).delete()
        bodies = [change.new_bytes for change in db.log() if change.new_bytes is not None]
    sound = path.read_bytes()
    chance = random.Random(7)

    unseen, tried = [], 0
    for body in bodies:
        start = sound.index(body)
        for place in range(start, start + len(body)):
            data = bytearray(sound)
            data[place] ^= chance.randrange(1, 256)
            path.write_bytes(data)
            tried += 1
            if not problems(path):
                unseen.append(place)

    assert [] == unseen
    assert tried > 150


# ---------------------------------------------------------------------------------------------------------------
# What is said, and what happens afterwards


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file in which the document with id 2 has changed on the disk."""
    path = tmp_path / "hurt.db"
    with reactdb.connect(path) as db:
        table = db.table_create("people")
        table.index_create("age")
        table.insert([{"id": n, "name": f"person {n}", "age": n} for n in range(5)])
    data = path.read_bytes()
    assert 1 == data.count(b"person 2")
    path.write_bytes(data.replace(b"person 2", b"person 7"))
    return path


READS: dict[str, Callable[[Any], Any]] = {
    "get": lambda db: db.table("people").get(2).run(),
    "get_all": lambda db: db.table("people").get_all(2, 3).run(),
    "scan": lambda db: db.table("people").run(),
    "scan downwards": lambda db: db.table("people").order_by(index=reactdb.desc("id")).limit(4).run(),
    "between": lambda db: db.table("people").between(1, 4).run(),
    "index": lambda db: db.table("people").between(1, 4, index="age").run(),
    "filter by index": lambda db: db.table("people").filter(reactdb.row["age"] == 2).run(),
    "log": lambda db: list(db.log()),
    "log of a table": lambda db: list(db.log(table="people")),
    "history": lambda db: list(db.table("people").get(2).history()),
    "past": lambda db: db.at(7).table("people").run(),
    "feed from the beginning": lambda db: next(iter(db.table("people").changes(since=4))),
    "feed with initial": lambda db: next(iter(db.table("people").changes(include_initial=True))),
}


@pytest.mark.parametrize("way", READS)
@pytest.mark.parametrize("read_only", [True, False])
def test_every_way_to_read_a_changed_document_says_which_it_is(file: Path, way: str, read_only: bool):
    with reactdb.connect(file, read_only=read_only) as db, pytest.raises(reactdb.CorruptDatabase) as caught:
        READS[way](db)

    assert ("people", 2, 5) == (caught.value.table, caught.value.key, caught.value.seq)
    assert "table `people`, key 2: " in str(caught.value)
    assert "does not match its checksum" in str(caught.value)
    assert "reactdb export --salvage" in str(caught.value)


def test_the_other_documents_are_read(file: Path):
    with reactdb.connect(file) as db:
        assert [0, 1, 3, 4] == [db.table("people").get(n).run()["id"] for n in (0, 1, 3, 4)]
        assert [3, 4] == db.table("people").between(3, 9)["id"].run()


@pytest.mark.parametrize("way", ["update", "replace", "delete", "insert"])
def test_a_write_that_meets_damage_is_the_last(file: Path, way: str):
    with reactdb.connect(file) as db:
        people = db.table("people")
        people.insert({"id": 10})
        damaged = people.get(2)
        with pytest.raises(reactdb.CorruptDatabase, match="key 2"):
            if way == "update":
                damaged.update({"age": 3})
            elif way == "replace":
                damaged.replace({"id": 2})
            elif way == "delete":
                damaged.delete()
            else:
                people.insert({"id": 2}, conflict="update")
        seq = db.seq

        with pytest.raises(reactdb.CorruptDatabase, match=r"^insert: nothing is written any more.*key 2"):
            people.insert({"id": 11})
        with pytest.raises(reactdb.CorruptDatabase, match=r"^compact: nothing is written any more"):
            db.compact(keep=0)

        assert seq == db.seq
        assert {"id": 10} == people.get(10).run()


def test_a_transaction_that_meets_damage_is_taken_back_whole_even_where_the_error_is_caught(file: Path):
    with reactdb.connect(file) as db:
        people = db.table("people")
        with pytest.raises(reactdb.CorruptDatabase, match="key 2"), db.transaction():
            people.insert({"id": 10})
            with pytest.raises(reactdb.CorruptDatabase):
                people.get(2).update({"age": 3})

        assert people.get(10).run() is None


def test_a_write_whose_function_catches_an_error_of_damage_is_taken_back(file: Path):
    with reactdb.connect(file) as db:
        people = db.table("people")
        people.insert({"id": 10})

        def patch(document):
            with pytest.raises(reactdb.CorruptDatabase):
                people.get(2).update({"age": 3})
            return {"age": 4}

        with pytest.raises(reactdb.CorruptDatabase, match="key 2"):
            people.get(10).update(patch)

        assert {"id": 10} == people.get(10).run()


def test_an_index_is_not_built_over_damage(file: Path):
    with reactdb.connect(file) as db:
        with pytest.raises(reactdb.CorruptDatabase, match="key 2"):
            db.table("people").index_create("name")

        assert ["age"] == db.table("people").index_list()


def test_a_feed_ends_with_an_error_where_another_process_wrote_what_is_no_entry(file: Path):
    """By bare SQL, for example, or with a version that knows no checksums."""
    ended = threading.Event()
    errors: list[Exception] = []

    def on_error(error: Exception) -> None:
        errors.append(error)
        ended.set()

    with reactdb.connect(file) as db:
        db.table("people").insert({"id": 10})
        feed = db.table("people").changes().subscribe(on_error=on_error)
        harm(
            file,
            "INSERT INTO log (seq, table_id, kind, step, time, key, body)"
            " SELECT seq + 1, table_id, 0, 0, time, x'99', body FROM log WHERE seq = 8",
        )

        assert ended.wait(10)
        feed.dispose()

    assert isinstance(errors[0], reactdb.CorruptDatabase)
    assert 9 == errors[0].seq


def test_a_list_of_epochs_that_is_lost_is_damage(file: Path):
    harm(file, "DELETE FROM epochs")

    with reactdb.connect(file) as db, pytest.raises(reactdb.CorruptDatabase, match="epoch"):
        db.table("people").insert({"id": 10})


def harm(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DELETE FROM log WHERE seq = 4", "its log entry 4 is missing"),
        ("UPDATE heads SET seq = 7 WHERE seq = 4", "its log entry 7 is another document's"),
        ("UPDATE log SET body = NULL WHERE seq = 4", "its log entry 4 has no document"),
        ("UPDATE log SET seal = NULL WHERE seq = 4", "does not match its checksum"),
        ("UPDATE log SET body = 'text' WHERE seq = 4", "does not match its checksum"),
    ],
)
def test_a_head_that_leads_to_no_document_of_its_own_is_told(file: Path, statement: str, words: str):
    harm(file, statement)

    with reactdb.connect(file) as db:
        for read in (lambda: db.table("people").get(1).run(), lambda: db.table("people").between(0, 2).run()):
            with pytest.raises(reactdb.CorruptDatabase, match=words):
                read()


def test_an_index_entry_without_a_document_is_told(file: Path):
    harm(file, "DELETE FROM heads WHERE seq = 4")

    with reactdb.connect(file) as db, pytest.raises(reactdb.CorruptDatabase):
        db.table("people").get_all(1, index="age").run()


@pytest.mark.slow
def test_damage_may_leave_documents_out_of_an_answer_and_never_adds_one_or_changes_their_order(
    tmp_path: Path,
):
    """The list in docs/explanation/promises.md of what damage may do to trees without checksums."""
    truth = fuzzed_files.make(tmp_path / "made", in_wal=False)
    other = fuzzed_files.make(tmp_path / "made", in_wal=True)
    sound = tmp_path / "sound.db"
    shutil.copy(truth.path, sound)
    with reactdb.connect(sound, read_only=True) as db:
        expected = answers(db)
    wrong = []
    for seed in range(200):
        path, words = fuzzed_files.damaged(truth, other, tmp_path, seed)
        if "write-ahead" not in words:
            try:
                with reactdb.connect(path, read_only=True, busy_timeout=1.0) as db:
                    found = answers(db)
            except reactdb.ReactDBError:
                found = {}
            wrong += [
                f"seed {seed}, {words}: {what} is {answer}"
                for what, answer in found.items()
                if not is_part(answer, expected[what])
            ]
        fuzzed_files.remove(path)

    assert [] == wrong


def answers(db: reactdb.Database) -> dict[str, Any]:
    """What a file answers without an error: lists of keys in their order."""
    people, other = db.table("people"), db.table("other")
    asked: dict[str, Callable[[], Any]] = {
        "people": lambda: [one["id"] for one in people.run()],
        "others": lambda: [one["name"] for one in other.run()],
        "a range": lambda: [one["id"] for one in people.between(10, 40).run()],
        "an index": lambda: [one["id"] for one in people.order_by(index="age").run()],
        "a filter": lambda: [one["id"] for one in people.filter(row["age"] > 3).run()],
        "the past": lambda: [one["id"] for one in db.at(100).table("people").run()],
    }
    found = {}
    for what, ask in asked.items():
        try:
            found[what] = ask()
        except reactdb.ReactDBError:
            continue
    return found


def is_part(found: list[Any], whole: list[Any]) -> bool:
    """Whether nothing was added to a list and nothing has changed places."""
    rest = iter(whole)
    return all(one in rest for one in found)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM heads WHERE seq = 2",
        # One that leads nowhere.
        "INSERT INTO heads SELECT table_id, CAST(key || x'00' AS BLOB), 1000000 FROM heads LIMIT 1",
    ],
)
def test_a_table_that_has_not_as_many_heads_as_documents_were_written_is_told(tmp_path: Path, statement: str):
    file = tmp_path / "small.db"
    with reactdb.connect(file) as db:
        db.table_create("people").insert([{"id": n} for n in range(5)])
    harm(file, statement)

    with reactdb.connect(file) as db:
        table = db.table("people")
        with pytest.raises(reactdb.CorruptDatabase, match=r"`people`: \d documents can be found, and 5 were"):
            table.count().run()
        with pytest.raises(reactdb.CorruptDatabase):
            table.run()
    assert problems(file)


def test_an_index_entry_that_has_no_key_is_told_by_a_filter_that_is_looked_up_in_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
):
    """Pages that changed places make one index's entries another tree's; here in an index too large to be compared before."""
    monkeypatch.setattr(sums, "MOST_COMPARED", 0)
    harm(file, "UPDATE entries SET key = 7 WHERE key IN (SELECT key FROM entries LIMIT 1)")

    with reactdb.connect(file) as db, pytest.raises(reactdb.CorruptDatabase, match="leads to no key"):
        db.table("people").filter(row["age"] >= 0).run()


@pytest.mark.parametrize("seq", [3, 6, 7])
def test_a_gap_in_the_log_is_told(file: Path, seq: int):
    harm(file, f"DELETE FROM log WHERE seq = {seq}")

    with reactdb.connect(file) as db:
        if seq == 7:
            # The newest: nothing in the log says that there was one, but its head does.
            with pytest.raises(reactdb.CorruptDatabase):
                db.table("people").get(4).run()
        else:
            with pytest.raises(reactdb.CorruptDatabase):
                list(db.log(5 if seq == 6 else 0))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tables SET name = 'peoples'",
        "UPDATE tables SET primary_key = 'name'",
        "UPDATE indexes SET multi = 1",
        "UPDATE facts SET value = value + 2 WHERE name = 'low_water'",
        "UPDATE facts SET value = 'x' WHERE name = 'database_id'",
        "DELETE FROM facts WHERE name = 'seal'",
    ],
)
def test_a_change_to_the_lists_of_tables_indexes_and_facts_is_told(file: Path, statement: str):
    harm(file, statement)

    for read_only in (True, False):
        with pytest.raises(reactdb.CorruptDatabase, match=r"not match (its|their) checksum"):
            reactdb.connect(file, read_only=read_only)
    assert any("match its checksum" in message or "match their" in message for message in problems(file))


@pytest.mark.parametrize("read_only", [True, False])
def test_a_log_of_another_database_is_refused_and_nothing_is_touched(tmp_path: Path, read_only: bool):
    one, two = (fuzzed_files.make(tmp_path / name, in_wal=True).path for name in ("one", "two"))
    shutil.copy(f"{two}-wal", f"{one}-wal")
    before = one.read_bytes(), Path(f"{one}-wal").read_bytes()

    with pytest.raises(reactdb.CorruptDatabase, match="is of database"):
        reactdb.connect(one, read_only=read_only)
    result = CliRunner().invoke(main, ["doctor", str(one)])

    assert 1 == result.exit_code
    assert "is of database" in result.stderr
    assert before == (one.read_bytes(), Path(f"{one}-wal").read_bytes())
