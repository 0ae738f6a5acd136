"""The exporter: fleets, contracts, keys, moments, lost history. `test_export_machine` has the law for any run of writes."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

import reactdb  # noqa: E402
from reactdb import DatabaseBusy, HistoryDiverged, HistoryLost, InvalidOption, TableNotFound, UsageError  # noqa: E402
from reactdb.errors import SchemaMismatch  # noqa: E402
from reactdb.lake import export, run  # noqa: E402
from reactdb.lake.parts import PartFolder  # noqa: E402
from reactdb.store import exports  # noqa: E402
from tests.lake import answers  # noqa: E402
from tests.lake.small_chunks import small_chunks  # noqa: E402


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "games.db"


@pytest.fixture
def out(tmp_path: Path) -> str:
    return str(tmp_path / "out")


def insert(file: Path, *documents: dict[str, Any], table: str = "games") -> None:
    with reactdb.connect(file) as db:
        db.table_create(table, exist_ok=True).insert(list(documents), conflict="replace")


class TestContracts:
    """A struct export that meets a new field, or a value of another type."""

    @pytest.mark.parametrize("mode", ["current", "changes", "scd2"])
    def test_evolve_goes_on_with_a_new_field(self, mode, file, out):
        insert(file, {"id": 1, "score": 2})
        export(file, parquet=out, mode=mode)
        insert(file, {"id": 100, "new_field": "x", "place": {"zip": 1}})

        outcome = export(file, parquet=out, mode=mode)

        assert (1, ["new_field", "place"]) == (outcome.rows, outcome.new_fields)
        rows = answers.read(outcome.path)
        names = {"current": None, "changes": "new", "scd2": "document"}[mode]
        documents = rows if names is None else [row[names] for row in rows]
        assert {None, "x"} == {document["new_field"] for document in documents}

    @pytest.mark.parametrize("mode", ["current", "changes", "scd2"])
    @pytest.mark.parametrize("document", [{"id": 2, "level": 9}, {"id": 2, "score": "five"}])
    def test_freeze_stops_each_time_and_writes_nothing(self, document, mode, file, out):
        """Also nothing of the chunks before it."""
        insert(file, {"id": 1, "score": 2})
        export(file, parquet=out, mode=mode)
        insert(file, {"id": 3, "score": 3})
        insert(file, document)
        before = sorted(str(path) for path in Path(out).rglob("*"))

        for _ in range(2):
            with small_chunks(), pytest.raises(SchemaMismatch, match=r"level|score"):
                export(file, parquet=out, mode=mode, contract="freeze")

        assert before == sorted(str(path) for path in Path(out).rglob("*"))
        assert 2 == export(file, parquet=out, mode=mode).rows

    @pytest.mark.parametrize("mode", ["current", "changes", "scd2"])
    def test_discard_leaves_them_out_and_says_so(self, mode, file, out):
        insert(file, {"id": 1, "score": 2, "place": {"zip": 1}})
        export(file, parquet=out, mode=mode)
        schema = pq.read_schema(next(Path(out).rglob("*.parquet")))
        insert(file, {"id": 2, "score": "five", "level": 9, "place": {"zip": "x", "town": "y"}})

        outcome = export(file, parquet=out, mode=mode, contract="discard")

        assert {"score": 1, "level": 1, "place.zip": 1, "place.town": 1} == outcome.discarded
        assert (1, {}, []) == (outcome.rows, outcome.conflicts, outcome.new_fields)
        assert all(schema == pq.read_schema(path) for path in Path(out).rglob("*.parquet"))

    def test_one_and_a_half_in_a_column_of_ints_never_becomes_one(self, file, out):
        insert(file, {"id": 1, "score": 1})
        export(file, parquet=out)
        insert(file, {"id": 2, "score": 1.5})

        outcome = export(file, parquet=out)

        table = pq.read_table(outcome.path)
        assert (["score"], pa.float64()) == (outcome.widened_fields, table.schema.field("score").type)
        assert [1.0, 1.5] == sorted(table["score"].to_pylist())

    @pytest.mark.parametrize("mode", ["current", "changes", "scd2"])
    def test_an_int_that_no_double_holds_keeps_its_column_and_the_fraction_is_kept_beside(
        self, mode, file, out
    ):
        insert(file, {"id": 1, "score": 2**53 + 1, "in": {"list": [2**53 + 1]}})
        export(file, parquet=out, mode=mode)
        insert(file, {"id": 2, "score": 1.5, "in": {"list": [0.5]}})

        outcome = export(file, parquet=out, mode=mode)

        assert {"score": 1, "in.list[]": 1} == outcome.conflicts
        with reactdb.connect(file) as db:
            rows = answers.read(outcome.path)
            wanted = {
                "current": (answers.wanted_current, answers.current),
                "changes": (answers.wanted_changes, answers.changes),
                "scd2": (answers.wanted_versions, answers.versions),
            }[mode]
            assert wanted[0](db) == wanted[1](rows)

    def test_what_does_not_fit_is_kept_beside_the_row(self, file, out):
        insert(file, {"id": 1, "score": 1, "place": {"zip": 1}}, {"id": 2, "score": 1})
        export(file, parquet=out)
        insert(file, {"id": 2, "score": "five", "place": {"zip": [1]}, "nothing": []})

        outcome = export(file, parquet=out)

        assert {"score": 1, "place.zip": 1, "nothing": 1} == outcome.conflicts
        rows = {row["id"]: row for row in answers.read(outcome.path)}
        assert (None, None) == (rows[1]["_conflicts"], rows[2]["score"])
        assert {"score": "five", "place": {"zip": [1]}, "nothing": []} == answers.loads(rows[2]["_conflicts"])

    def test_documents_with_fields_of_the_exporters_names_lose_nothing(self, file, out):
        insert(file, {"id": 1, "_conflicts": "mine", "_key": 5, "_database": "d", "increment": 3})

        outcome = export(file, parquet=out)

        with reactdb.connect(file) as db:
            rows = answers.read(outcome.path)
            assert {"_conflicts": 1, "_key": 1} == outcome.conflicts
            assert ("d", 3) == (rows[0]["_database"], rows[0]["increment"])
            assert {"_conflicts": "mine", "_key": 5} == answers.loads(rows[0]["_conflicts"])
            assert 1 == db.table("games").count().run()


class TestKeys:
    def test_keys_of_several_types_have_a_column_of_their_own(self, file, out):
        insert(file, {"id": 1, "kind": "number"}, {"id": "1", "kind": "text"}, {"id": 1.5, "kind": "real"})

        outcome = export(file, parquet=out)

        rows = {row["_key"]: row["kind"] for row in answers.read(outcome.path)}
        assert {"1": "number", '"1"': "text", "1.5": "real"} == rows

    def test_a_later_key_of_another_type_writes_the_table_anew(self, file, out):
        insert(file, {"id": 1}, {"id": 2})
        export(file, parquet=out)
        insert(file, {"id": "x"})
        with pytest.raises(SchemaMismatch, match="a key of table `games`"):
            export(file, parquet=out, contract="discard")

        outcome = export(file, parquet=out)
        with reactdb.connect(file) as db:
            db.table("games").get(1).delete()
        after = export(file, parquet=out)

        assert (True, False, 1) == (outcome.was_rewritten, after.was_rewritten, after.deleted)
        assert (3, None) == (outcome.rows, outcome.inserted)
        assert {"2", '"x"'} == {row["_key"] for row in answers.read(after.path)}

    def test_a_uuid_and_its_text_are_two_keys(self, file, out):
        import uuid

        one = uuid.uuid4()
        insert(file, {"id": one, "kind": "uuid"}, {"id": str(one), "kind": "text"})

        assert 2 == len({row["_key"] for row in answers.read(export(file, parquet=out).path)})


class TestFleets:
    def test_rows_of_several_files_are_told_apart_and_a_file_that_moved_is_known(self, tmp_path, out):
        fleet = tmp_path / "fleet"
        fleet.mkdir()
        for name in ("a", "b"):
            insert(fleet / f"{name}.db", {"id": 1, "name": name}, {"id": 2, "name": name})
        first = export(fleet, "games", parquet=out)
        insert(fleet / "c.db", {"id": 1, "name": "c"})
        os.rename(fleet / "a.db", fleet / "d.db")
        insert(fleet / "d.db", {"id": 3, "name": "a", "level": 1})
        with reactdb.connect(fleet / "b.db") as db:
            db.table("games").get(2).delete()

        second = export(fleet, "games", parquet=out)

        rows = answers.read(second.path)
        assert (4, 3, False) == (first.rows, second.rows, second.was_rewritten)
        assert [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("c", 1)] == sorted(
            (row["name"], row["id"]) for row in rows
        )
        assert 3 == len({row["_database"] for row in rows})
        assert 0 == export(fleet, "games", parquet=out).rows

    def test_a_file_that_is_not_there_keeps_its_rows_also_if_the_table_is_written_anew(self, tmp_path, out):
        fleet = tmp_path / "fleet"
        fleet.mkdir()
        for name in ("a", "b"):
            insert(fleet / f"{name}.db", {"id": 1, "name": name})
        export(fleet, "games", parquet=out)
        os.rename(fleet / "a.db", tmp_path / "a.db")
        insert(fleet / "b.db", {"id": "text", "name": "b"})

        outcome = export(fleet, "games", parquet=out)

        assert outcome.was_rewritten
        assert {("1", "a"), ("1", "b"), ('"text"', "b")} == {
            (row["_key"], row["name"]) for row in answers.read(outcome.path)
        }

    @pytest.mark.parametrize("mode", ["current", "scd2"])
    def test_a_table_that_a_file_gets_later_is_followed_from_its_beginning(self, mode, tmp_path, out):
        fleet = tmp_path / "fleet"
        fleet.mkdir()
        insert(fleet / "a.db", {"id": 1})
        insert(fleet / "b.db", {"id": 1}, table="other")
        export(fleet, "games", parquet=out, mode=mode)
        insert(fleet / "b.db", {"id": 2})

        outcome = export(fleet, "games", parquet=out, mode=mode)

        assert (1, 1, False) == (outcome.rows, outcome.inserted, outcome.was_rewritten)
        assert 2 == len(answers.read(outcome.path))

    def test_a_commit_notes_the_files_that_have_news(self, tmp_path, out):
        """And a file without changes once, so that the next run finds nothing new."""
        fleet = tmp_path / "fleet"
        fleet.mkdir()
        insert(fleet / "a.db", {"id": 1})
        reactdb.connect(fleet / "b.db").close()
        first = export(fleet, "games", parquet=out, mode="changes")
        again = export(fleet, "games", parquet=out, mode="changes")
        insert(fleet / "a.db", {"id": 2})
        export(fleet, "games", parquet=out, mode="changes")

        parts = PartFolder(out, "changes")
        extents = [
            [(Path(one.path).name, one.since, one.until) for one in parts.manifest(number).extents]
            for number in parts.numbers()
        ]
        assert {str(fleet / "a.db"): 2, str(fleet / "b.db"): 0} == first.positions == again.positions
        assert [[("a.db", 0, 2), ("b.db", 0, 0)], [("a.db", 2, 3)]] == extents

    def test_a_bad_file_is_passed_over_if_that_was_asked_for(self, tmp_path, out):
        fleet = tmp_path / "fleet"
        fleet.mkdir()
        insert(fleet / "a.db", {"id": 1})
        (fleet / "empty.db").touch()
        (fleet / "junk.db").write_bytes(b"no database" * 1000)
        with pytest.raises(reactdb.errors.StorageError):
            export(fleet, "games", parquet=out)

        outcome = export(fleet, "games", parquet=out, ignore_corrupt_files=True)

        assert [str(fleet / "empty.db"), str(fleet / "junk.db")] == sorted(outcome.ignored)
        assert "it is empty" in outcome.ignored[str(fleet / "empty.db")]
        assert "is not a reactdb database" in outcome.ignored[str(fleet / "junk.db")]
        assert 1 == outcome.rows


class TestHistory:
    def test_a_file_that_was_restored_from_an_older_backup_is_refused(self, file, tmp_path, out):
        insert(file, {"id": 1})
        shutil.copyfile(file, tmp_path / "backup")
        insert(file, {"id": 2}, {"id": 3})
        export(file, parquet=out, mode="changes")
        reactdb.delete_database(file)
        shutil.copyfile(tmp_path / "backup", file)

        with pytest.raises(HistoryDiverged, match="was read up to seq 4"):
            export(file, parquet=out, mode="changes")
        insert(file, *({"id": number} for number in range(10, 20)))
        with pytest.raises(HistoryDiverged, match="was read up to seq 4"):
            export(file, parquet=out, mode="changes")

    @pytest.mark.parametrize("mode", ["current", "changes", "scd2"])
    def test_a_file_that_went_on_from_before_the_position_is_refused(self, mode, file, tmp_path, out):
        """Its newest changes were lost, and it has others since, with the same seqs."""
        with reactdb.connect(file) as db:
            games = db.table_create("games")
            games.insert({"id": 1})
            db.backup(tmp_path / "backup")
            games.insert({"id": 2})
        export(file, parquet=out, mode=mode)
        reactdb.delete_database(file)
        shutil.copyfile(tmp_path / "backup", file)
        insert(file, *({"id": number} for number in range(10, 20)))

        with pytest.raises(
            HistoryDiverged, match="read up to seq 3, and its history went on from seq 2 without it"
        ):
            export(file, parquet=out, mode=mode)
        assert 2 == len(answers.read(out if mode == "changes" else f"{out}/latest"))

    def test_another_database_at_the_same_path_is_refused(self, file, out):
        insert(file, {"id": 1})
        export(file, parquet=out)
        reactdb.delete_database(file)
        insert(file, {"id": 2})

        with pytest.raises(HistoryDiverged, match="is another database"):
            export(file, parquet=out)

    @pytest.mark.parametrize("mode", ["changes", "scd2"])
    def test_changes_that_compaction_removed_before_they_were_read_are_missed_aloud(self, mode, file, out):
        with reactdb.connect(file) as db:
            games = db.table_create("games")
            games.insert({"id": 1})
            export(db, parquet=out, mode=mode)
            games.get(1).update({"score": 1})
            games.get(1).update({"score": 2})
            db.compact(keep=0)

        with pytest.raises(HistoryLost):
            export(file, parquet=out, mode=mode)

    @pytest.mark.parametrize("mode", ["changes", "scd2"])
    def test_changes_that_went_together_with_their_epoch_are_lost_too(self, mode, file, out):
        """Each connection begins an epoch, and compaction removes those that ended before the log begins."""
        insert(file, {"id": 1})
        export(file, parquet=out, mode=mode)
        for number in range(2, 5):
            with reactdb.connect(file) as db:
                db.table("games").insert({"id": number})
                db.compact(keep=0)

        with pytest.raises(HistoryLost):
            export(file, parquet=out, mode=mode)

    def test_a_file_that_became_shorter_after_the_run_looked_at_it_is_refused(self, file, out, monkeypatch):
        insert(file, {"id": 1})
        read_file_states = run.read_file_states

        def restored(*arguments: Any, **options: Any) -> Any:
            with reactdb.connect(file) as db:
                db.backup(file.parent / "backup")
                db.table("games").insert({"id": 2})
            states = read_file_states(*arguments, **options)
            reactdb.delete_database(file)
            shutil.copyfile(file.parent / "backup", file)
            return states

        monkeypatch.setattr(run, "read_file_states", restored)
        with pytest.raises(HistoryDiverged, match="ends at seq 2 now, and had seq 3"):
            export(file, parquet=out)
        assert not os.path.exists(f"{out}/latest")

    def test_documents_need_no_history(self, file, out):
        with reactdb.connect(file) as db:
            games = db.table_create("games")
            games.insert([{"id": 1}, {"id": 2}])
            export(db, parquet=out)
            games.get(1).update({"score": 1})
            games.get(2).delete()
            db.compact(keep=0)

        outcome = export(file, parquet=out)

        assert outcome.was_rewritten
        assert [{"id": 1, "score": 1}] == answers.read(outcome.path)

    def test_a_compacted_log_begins_with_the_documents_as_they_were(self, file, tmp_path):
        with reactdb.connect(file) as db:
            games = db.table_create("games")
            games.insert([{"id": 1, "score": 1}, {"id": 2, "score": 1}, {"id": 3, "score": 1}])
            games.get(3).delete()
            db.compact(keep=0)
            games.get(1).update({"score": 2})
        changes = export(file, parquet=str(tmp_path / "changes"), mode="changes")
        versions = export(file, parquet=str(tmp_path / "scd2"), mode="scd2")

        assert [str(file)] == changes.begins_late
        assert ["read", "read", "update"] == sorted(row["op"] for row in answers.read(changes.path))
        rows = sorted(answers.read(versions.path), key=lambda row: (row["key"], row["seq"]))
        assert [("1", "read", False), ("1", "update", True), ("2", "read", True)] == [
            (row["key"], row["op"], row["is_current"]) for row in rows
        ]
        assert rows[0]["next_seq"] == rows[1]["seq"]

    def test_a_log_without_changes_begins_with_the_documents_of_its_tables(self, file, tmp_path, out):
        insert(file, {"id": 1}, {"id": 2})
        insert(file, {"id": 3}, table="other")
        with reactdb.connect(file) as db:
            db.compact(keep=0)

        games = export(file, "games", parquet=out, mode="changes")
        both = export(file, parquet=tmp_path / "both", mode="changes")

        assert [("games", "1"), ("games", "2")] == sorted(
            (row["table"], row["key"]) for row in answers.read(games.path)
        )
        assert (2, 3, [str(file)]) == (games.rows, both.rows, both.begins_late)
        assert 0 == export(file, "games", parquet=out, mode="changes").rows

    @pytest.mark.parametrize("mode", ["current", "changes", "scd2"])
    def test_a_log_that_is_whole_does_not_begin_late(self, mode, file, out):
        insert(file, {"id": 1})

        assert [] == export(file, parquet=out, mode=mode).begins_late

    def test_a_dropped_table_leaves_the_rows_of_its_file(self, tmp_path, out):
        fleet = tmp_path / "fleet"
        fleet.mkdir()
        for name in ("a", "b"):
            insert(fleet / f"{name}.db", {"id": 1, "name": name})
        export(fleet, "games", parquet=out)
        with reactdb.connect(fleet / "a.db") as db:
            db.table_drop("games")

        outcome = export(fleet, "games", parquet=out)

        assert outcome.was_rewritten
        assert ["b"] == [row["name"] for row in answers.read(outcome.path)]


class TestMoments:
    def test_documents_as_of_a_seq_or_a_moment_are_written_once(self, file, tmp_path):
        with reactdb.connect(file) as db:
            games = db.table_create("games")
            games.insert({"id": 1, "n": 1})
            games.get(1).update({"n": 2})
        then = export(file, parquet=str(tmp_path / "then"), at=2)
        now = export(file, parquet=str(tmp_path / "now"), at="now")
        moment = datetime.now(UTC) + timedelta(days=1)
        late = export(file, parquet=str(tmp_path / "late"), at=moment)

        assert [1, 2, 2] == [pq.read_table(one.path)["n"][0].as_py() for one in (then, now, late)]
        assert {str(file): 2} == then.positions
        with pytest.raises(
            UsageError, match=r"exists: choose another folder, or .* overwrite=True \(--overwrite\)"
        ):
            export(file, parquet=then.path, at=3)
        assert 1 == export(file, parquet=then.path, at=3, overwrite=True).rows

    @pytest.mark.parametrize("at", [-1, True, "yesterday", datetime(2026, 1, 1), 1.5])
    def test_a_moment_that_is_none_is_refused(self, at, file, out):
        insert(file, {"id": 1})
        with pytest.raises(InvalidOption, match="at is a seq"):
            export(file, parquet=out, at=at)

    def test_a_seq_of_the_future_is_refused(self, file, out):
        insert(file, {"id": 1})
        with pytest.raises(InvalidOption, match="in the future"):
            export(file, parquet=out, at=99)
        assert not os.path.exists(out)

    def test_a_table_that_is_younger_than_the_moment_is_refused_as_such(self, file, out):
        insert(file, {"id": 1})
        with pytest.raises(TableNotFound, match=r"does not exist\. It was not there at that moment\.$"):
            export(file, parquet=out, at=0)
        assert not os.path.exists(out)


class TestMistakes:
    def test_a_misspelt_table_gets_the_nearest_name(self, file, out):
        insert(file, {"id": 1})

        with pytest.raises(TableNotFound, match=r"`gmaes` does not exist\. The nearest is `games`\."):
            export(file, "gmaes", parquet=out)

    def test_an_address_is_no_folder(self, file, out):
        """A folder named `s3:` on this disk would be a surprise."""
        insert(file, {"id": 1})

        with pytest.raises(InvalidOption, match="is a folder of this machine, not 's3://lake/games'"):
            export(file, "games", delta="s3://lake/games")

    def test_a_table_goes_on_as_it_was_begun(self, file, out, tmp_path):
        insert(file, {"id": 1})
        insert(file, {"id": 1}, table="other")
        export(file, "games", parquet=out)

        with pytest.raises(
            UsageError, match="written from table 'games', and cannot go on from table 'other'"
        ):
            export(file, "other", parquet=out)
        with pytest.raises(UsageError, match="was written with another mode than changes"):
            export(file, "games", parquet=out, mode="changes")
        with pytest.raises(
            UsageError, match="written from one file, and cannot go on from a folder or several files"
        ):
            export(tmp_path, "games", parquet=out)
        with PartFolder(out, "current", "_generation-").lock(), pytest.raises(DatabaseBusy):
            export(file, "games", parquet=out)

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({}, "exactly one of parquet=, delta= and iceberg="),
            ({"parquet": "a", "delta": "b"}, "exactly one of"),
            ({"parquet": "a", "mode": "all"}, "mode is one of current, changes, scd2"),
            ({"parquet": "a", "contract": "drop"}, "contract is one of evolve, freeze, discard"),
            ({"parquet": "a", "mode": "changes", "at": 1}, "at goes with mode 'current'"),
        ],
    )
    def test_wrong_arguments_are_refused(self, given, words, file):
        insert(file, {"id": 1})
        with pytest.raises(InvalidOption, match=words):
            export(file, **given)

    def test_a_table_has_to_be_named_if_there_are_several(self, file, out, tmp_path):
        insert(file, {"id": 1})
        insert(file, {"id": 1}, table="other")
        with pytest.raises(
            InvalidOption, match="give the name of a table: choose one of the tables 'games', 'other'"
        ):
            export(file, parquet=out)
        with pytest.raises(TableNotFound):
            export(file, "nobody", parquet=out)
        assert not os.path.exists(out)

        rows = answers.read(export(file, parquet=out, mode="changes").path)
        assert {("games", '{"id":1}'), ("other", '{"id":1}')} == {(row["table"], row["new"]) for row in rows}

    def test_a_file_beside_stays(self, file, tmp_path):
        insert(file, {"id": 1})
        (tmp_path / "text").write_text("mine")
        with pytest.raises(UsageError, match="choose another folder"):
            export(file, parquet=tmp_path, overwrite=True)


def test_an_empty_table_makes_no_lakes_table_until_it_has_documents(file, out):
    insert(file)
    assert 0 == export(file, parquet=out).rows
    insert(file, {"id": 1})
    assert 1 == export(file, parquet=out).rows


def test_a_run_that_finds_nothing_new_writes_nothing(file, out):
    insert(file, {"id": 1})
    export(file, parquet=out)
    before = {path: path.stat().st_mtime_ns for path in Path(out).rglob("*") if path.name != "_lock"}

    outcome = export(file, parquet=out)

    assert 0 == outcome.rows
    assert before == {path: path.stat().st_mtime_ns for path in Path(out).rglob("*") if path.name != "_lock"}


@pytest.mark.parametrize("mode", ["current", "changes", "scd2"])
def test_changes_of_another_table_advance_the_position_without_rows(mode, file, out):
    """Otherwise compaction of them would be taken for lost changes."""
    with reactdb.connect(file) as db:
        db.table_create("games").insert({"id": 1})
        other = db.table_create("other")
        export(db, "games", parquet=out, mode=mode)
        other.insert([{"id": n} for n in range(5)])
        outcome = export(db, "games", parquet=out, mode=mode)
        seq = db.seq
        db.compact(keep=0)
        db.table("games").insert({"id": 2})

        after = export(db, "games", parquet=out, mode=mode)

        assert (0, {str(file): seq}) == (outcome.rows, outcome.positions)
        assert (1, False) == (after.rows, after.was_rewritten)


class TestChunks:
    """Each chunk is one commit of the table. Three commits of ten documents, of five bytes each, have the seqs 2 to 31."""

    @pytest.fixture(autouse=True)
    def three_commits(self, file):
        for first in (10, 20, 30):
            insert(file, *({"id": first + n} for n in range(10)))

    @staticmethod
    def chunks(out: str) -> list[tuple[int, int, int]]:
        """Of each commit of the table: the number of its rows, and their first and last seqs."""
        parts = PartFolder(out, "changes")
        seqs = [pq.read_table(parts.folder_of(number))["seq"].to_pylist() for number in parts.numbers()]
        return [(len(some), min(some), max(some)) for some in seqs]

    @pytest.mark.parametrize("page_rows", [1, 7, 10])
    def test_a_chunk_ends_with_a_commit(self, page_rows, file, out):
        """A reader of the lake never sees a part of a transaction."""
        with small_chunks(page_rows=page_rows):
            assert 30 == export(file, parquet=out, mode="changes").rows

        assert [(10, 2, 11), (10, 12, 21), (10, 22, 31)] == self.chunks(out)

    def test_a_chunk_ends_at_its_size(self, file, out, tmp_path):
        for folder, chunk_bytes in ((out, 50), (str(tmp_path / "more"), 51)):
            with small_chunks(chunk_bytes):
                export(file, parquet=folder, mode="changes")

        assert [(10, 2, 11), (10, 12, 21), (10, 22, 31)] == self.chunks(out)
        assert [(20, 2, 21), (10, 22, 31)] == self.chunks(str(tmp_path / "more"))

    def test_each_commit_notes_its_stretch_of_the_log(self, file, out):
        """Also the epoch, because other connections have begun new ones since."""
        with small_chunks():
            export(file, parquet=out, mode="changes")

        parts = PartFolder(out, "changes")
        manifests = [parts.manifest(number) for number in parts.numbers()]
        extents = [(one.epoch, one.since, one.until) for manifest in manifests for one in manifest.extents]
        positions = [
            (position.epoch, position.seq)
            for manifest in manifests
            for position in manifest.positions.values()
        ]
        with exports.open_to_read(str(file)) as engine, engine.snapshot() as snapshot:
            epochs = [engine.epochs.at(snapshot.connection, seq) for seq in (11, 21, 31)]
        assert epochs[0] != epochs[1]
        assert [(epochs[0], 0, 11), (epochs[1], 11, 21), (epochs[2], 21, 31)] == extents
        assert [*zip(epochs, (11, 21, 31), strict=True)] == positions

    @pytest.mark.parametrize("mode", ["current", "scd2"])
    def test_rows_are_counted_once(self, mode, file, out):
        """A run says the same of many chunks as of one, where each chunk has keys of its own."""
        export(file, parquet=out, mode=mode)
        with reactdb.connect(file) as db:
            games = db.table("games")
            games.insert([{"id": 1}, {"id": 2}])
            games.get(10).update({"n": 1})
            games.get(11).delete()
            with db.transaction():
                games.insert({"id": 3})
                games.get(3).update({"n": 1})
                games.insert({"id": 4})
                games.get(4).delete()

        with small_chunks():
            outcome = export(file, parquet=out, mode=mode)

        counts = (outcome.rows, outcome.inserted, outcome.updated, outcome.deleted)
        # Versions: those of 1, 2, 10, 4 and two of 3 are new, and those of 10 and 11 from before have ended.
        assert {"current": (5, 3, 1, 1), "scd2": (8, 6, 2, None)}[mode] == counts

    @pytest.mark.parametrize("mode", ["current", "scd2"])
    def test_a_chunk_may_have_deletions_alone(self, mode, file, out):
        export(file, parquet=out, mode=mode)
        with reactdb.connect(file) as db:
            db.table("games").get(10).delete()
            db.table("games").get(11).delete()
            with small_chunks():
                assert 2 == export(db, parquet=out, mode=mode).rows

            rows = answers.read(f"{out}/latest")
            if mode == "current":
                assert answers.wanted_current(db) == answers.current(rows)
            else:
                assert answers.wanted_versions(db) == answers.versions(rows)

    @pytest.mark.parametrize("mode", ["current", "changes", "scd2"])
    def test_progress_goes_up_to_its_total(self, mode, file, out):
        seen: list[tuple[int, int]] = []
        export(file, parquet=out, mode=mode, progress=lambda done, total: seen.append((done, total)))

        assert {"current": (30, 30), "changes": (30, 31), "scd2": (60, 62)}[mode] == seen[-1]


@pytest.mark.parametrize("mode", ["current", "changes", "scd2"])
def test_a_first_run_without_a_document_makes_no_table(mode, file, out):
    insert(file)

    outcome = export(file, parquet=out, mode=mode)

    assert (0, {}, False) == (outcome.rows, outcome.positions, Path(out).exists())


def test_discard_leaves_out_no_field_of_the_first_run(file, out, monkeypatch):
    """Also if the rows of a later chunk are made again, because the ints of the table are not exact as doubles."""
    monkeypatch.setattr(run, "CHUNK_BYTES", 1)
    # A page of the log has 2,000 changes, so these are in chunks of their own.
    insert(file, *({"id": n, "size": 2**53 + 1} for n in range(2_000)))
    insert(file, {"id": 2_000, "size": 0.5, "name": "half"})

    outcome = export(file, parquet=out, mode="changes", contract="discard")

    assert (2_001, {"size": 1}) == (outcome.rows, outcome.discarded)
    (last,) = [row["new"] for row in answers.read(out) if row["key"] == "2000"]
    assert {"id": 2_000, "size": None, "name": "half"} == last


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
@pytest.mark.parametrize("chunk_bytes", [1, 10**6])
def test_each_format_follows_the_same_writes(kind, chunk_bytes, file, tmp_path):
    """Inserts, updates, deletions, new fields, other types, large ints, a table that is made again, keys of another type."""
    if kind != "parquet":
        pytest.importorskip({"delta": "deltalake", "iceberg": "pyiceberg"}[kind])
    steps = [
        lambda games: games.insert([{"id": n, "score": n, "place": {"zip": n}} for n in range(6)]),
        lambda games: games.get(1).update({"score": 2**53 + 1}),
        lambda games: games.get(2).delete(),
        lambda games: games.insert({"id": 9, "score": 0.5, "tags": ["a"], "place": {"zip": "x", "y": 1.5}}),
        lambda games: games.get(3).update({"score": "five", "tags": [1], "nothing": {}}),
        lambda games: games.insert({"id": 2, "raw": b"x", "tags": []}),
        lambda games: games.delete(),
        lambda games: games.insert([{"id": "text"}, {"id": 1, "score": 1}]),
    ]
    with small_chunks(chunk_bytes), reactdb.connect(file) as db:
        games = db.table_create("games")
        for step in steps:
            step(games)
            found = {}
            for mode in ("current", "changes", "scd2"):
                outcome = export(db, "games", mode=mode, **{kind: str(tmp_path / mode)})
                found[mode] = answers.read(outcome.path, kind)
                assert 0 == export(db, "games", mode=mode, **{kind: str(tmp_path / mode)}).rows
            assert answers.wanted_current(db) == answers.current(found["current"])
            assert answers.wanted_changes(db) == answers.changes(found["changes"])
            assert answers.wanted_versions(db) == answers.versions(found["scd2"])
