"""Power cuts, in the bounded form; `python -m tests.crash --power-images 20000` is the long one. What is tested, and how, is
in the head of `crash/power.py`."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reactdb
from reactdb.database import Database
from reactdb.session import Session, session_of
from reactdb.store import writer
from reactdb.store.engine import Engine
from reactdb.store.file import flush, sqlite
from reactdb.store.file.guard import FileGuard
from reactdb.store.tools import doctor
from tests.crash import images, power
from tests.crash.images import FATES, Disk, File, Pending
from tests.crash.power import Workshop
from tests.crash.power_check import Run, problems_of
from tests.crash.recorder import NoRecorder
from tests.crash.recording import Event, Operation, Recording
from tests.support.wal import HEADER_BYTES, used_bytes

IMAGES = 1_500


@pytest.fixture(scope="module")
def shop() -> Iterator[Workshop]:
    try:
        with power.workshop(jobs=1) as shop:
            shop.record("creation", 1)
            yield shop
    except NoRecorder as error:
        pytest.skip(str(error))


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "a.db")


# One of them shows in CI that the judge judges; the others are tried with the long campaigns.
LATER = pytest.mark.long


class TestImages:
    @pytest.mark.long
    def test_every_image_of_every_scenario_is_as_promised(self, shop, capsys):
        code = power.run(IMAGES, seed=1, jobs=2)

        printed = capsys.readouterr().out
        assert code == 0, printed
        assert int(re.search(r"^power cuts: (\d+) images, 0 wrong", printed, re.MULTILINE)[1]) >= IMAGES

    @pytest.mark.parametrize(
        ("mutant", "scenario", "seed", "complaint"),
        [
            pytest.param("synchronous=OFF", "writes", 1, "no prefix of the commits", marks=pytest.mark.slow),
            pytest.param("soft judged as hard", "writes", 1, "no prefix of the commits", marks=LATER),
            pytest.param("synchronous=OFF", "trees", 1, "no prefix of the commits", marks=LATER),
            pytest.param("log apart from heads", "writes", 1, "doctor, current_documents", marks=LATER),
            pytest.param("a feed is told early", "writes", 1, "no prefix of the commits", marks=LATER),
            pytest.param(
                "a failed flush is forgotten",
                "a flush fails, mixed",
                6,
                "no prefix of the commits",
                marks=LATER,
            ),
            pytest.param(
                "acknowledged apart from the work", "consumers", 1, "the consumer is at", marks=LATER
            ),
            pytest.param(
                "an answer is not flushed", "writes, mixed", 1, "no prefix of the commits", marks=LATER
            ),
            pytest.param(
                "what is beside is committed apart", "hooks", 1, "no prefix of the commits", marks=LATER
            ),
            pytest.param("a blob is found before its pieces", "blobs", 1, "is missing", marks=LATER),
            pytest.param("references are committed apart", "blobs", 1, "doctor, blobs", marks=LATER),
            pytest.param("a blob in use is removed", "blobs", 1, "doctor, blobs", marks=LATER),
        ],
    )
    def test_a_store_that_is_wrong_is_found_out(self, shop, mutant, scenario, seed, complaint):
        result = power.cut(shop, scenario, 60, seed=seed, mutant=mutant)

        assert any(complaint in failure for failure in result.failures)
        # And without the mutant, the same run is right.
        assert [] == power.cut(shop, scenario, 20, seed=seed).failures

    def test_hard_commits_outlive_every_cut(self, shop):
        """The shortest form of the above, for whoever changes how commits are flushed."""
        assert [] == power.cut(shop, "writes", 60, seed=1).failures

    def test_what_a_write_hook_derives_is_there_with_its_document_or_not_at_all(self, shop):
        assert [] == power.cut(shop, "hooks", 40, seed=1).failures

    @pytest.mark.slow
    def test_history_that_goes_beside_the_writers_takes_nothing_with_it(self, shop):
        """`retention="auto"`, with less room than any file has."""
        result = power.cut(shop, "retention, auto", 80, seed=1)

        assert [] == result.failures
        assert result.lost

    @pytest.mark.parametrize("operation", [Operation.SYNC, Operation.SYNC_FOLDER])
    def test_a_disk_that_does_not_flush_is_found_out(self, shop, monkeypatch, operation):
        real = Disk.advance
        monkeypatch.setattr(
            Disk, "advance", lambda self, event: event.operation == operation or real(self, event)
        )

        result = power.cut(shop, "reopenings", 60, seed=1)

        assert any("no prefix of the commits" in failure for failure in result.failures)

    def test_positions_that_are_given_twice_are_found_out(self, shop, monkeypatch):
        """Here it is the process after the cut that is wrong: it goes on with the epoch that it finds."""
        monkeypatch.setattr(writer, "start_epoch", lambda connection, since: None)

        result = power.cut(shop, "writes, soft", 60, seed=1)

        assert any("was given twice" in failure for failure in result.failures)
        assert any("is not refused as such" in failure for failure in result.failures)


class TestDisk:
    """What the images rest on."""

    @staticmethod
    def disk(*events: tuple[Any, ...]) -> Disk:
        disk = Disk(Recording({}, [], []))
        for operation, inode, offset, name, data in events:
            disk.advance(Event(operation, inode, offset, name, "", data))
        return disk

    def test_a_name_lasts_from_the_next_flush_of_the_folder_on(self):
        create = (Operation.CREATE, 1, 0, "a", b"")
        write, flush = (Operation.WRITE, 1, 0, "", b"x"), (Operation.SYNC, 1, 0, "", b"")

        assert {} == images.image(self.disk(create, write, flush), 1, Random(1))
        flush_folder = (Operation.SYNC_FOLDER, 0, 0, "", b"")
        assert {"a": b"x"} == images.image(self.disk(create, write, flush, flush_folder), 1, Random(1))

    def test_what_a_failed_flush_was_to_flush_stays_in_doubt(self):
        create = (Operation.CREATE, 1, 0, "a", b"")
        first, second = (Operation.WRITE, 1, 0, "", b"one"), (Operation.WRITE, 1, 3, "", b"two")
        failed, flush = (Operation.SYNC_FAILED, 1, 0, "", b""), (Operation.SYNC, 1, 0, "", b"")

        disk = self.disk(create, first, failed, second, flush)
        assert bytearray(b"\0\0\0two") == disk.files[1].certain
        assert [Pending(0, b"one")] == disk.files[1].pending
        disk = self.disk(create, first, failed, second, flush, first, flush)
        assert bytearray(b"onetwo") == disk.files[1].certain
        assert [] == disk.files[1].pending

    @given(
        certain=st.binary(max_size=1_500),
        calls=st.lists(st.tuples(st.integers(0, 1_500), st.binary(min_size=1, max_size=1_100)), min_size=1),
        seed=st.integers(0, 1_000),
        fate=st.sampled_from(FATES),
    )
    def test_no_fate_changes_a_flushed_byte_that_was_not_written_to(self, certain, calls, seed, fate):
        file = File(bytearray(certain), [Pending(offset, data) for offset, data in calls])
        touched = {place for offset, data in calls for place in range(offset, offset + len(data))}

        content = fate(file, Random(seed))
        assert len(content) >= len(certain)
        assert all(content[place] == certain[place] for place in range(len(certain)) if place not in touched)


class TestHalfMadeFiles:
    def test_a_file_that_was_cut_while_it_was_made_is_not_read_but_made(self, shop, tmp_path):
        """A journal is beside it that says how to undo what was begun."""
        for name, content in half_made(shop.record("creation", 1)).items():
            (tmp_path / name).write_bytes(content)
        path = tmp_path / "a.db"

        with pytest.raises(reactdb.errors.CannotOpen, match="a crash left it half-made"):
            reactdb.connect(path, read_only=True)
        with pytest.raises(reactdb.errors.CannotOpen, match="a crash left it half-made"):
            list(doctor.examine(str(path)))
        with reactdb.connect(path) as database:
            assert [] == database.table_list()
        assert [] == list(problems_of(path))


class TestFlushes:
    """What the images have shown to be missing."""

    def test_a_hard_write_that_changes_nothing_flushes_what_it_rests_on_once(self, path):
        with reactdb.connect(path) as database:
            games = database.table_create("games")
            games.insert({"id": 1})
            sizes = [used_bytes(path)]
            for durability in ("hard", "soft", "soft", "hard", "hard"):
                games.insert({"id": 2}, conflict="replace", durability=durability)
                sizes.append(used_bytes(path))

            # The document; then, it being there: flushed already.
            assert sizes[0] < sizes[1] == sizes[2] == sizes[3] == sizes[4] == sizes[5]
            games.insert({"id": 3}, durability="soft")
            before = used_bytes(path)
            games.get(3).update({}, durability="soft")
            assert before == used_bytes(path)
            games.get(3).update({}, durability="hard")
            after = used_bytes(path)
            assert before < after
            games.get(3).update({}, durability="hard")
            assert after == used_bytes(path)
            assert 4 == database.seq

    def test_what_another_process_has_written_counts_as_not_flushed(self, path):
        with reactdb.connect(path) as database:
            games = database.table_create("games")
            games.insert({"id": 1})
            games.get(1).update({})
            before = used_bytes(path)
            # An engine that knows nothing of the first: to SQLite, another process.
            with Database(Session(Engine(path, read_only=False, busy_timeout_s=5.0), "soft")) as other:
                other.table("games").insert({"id": 2})
            written = used_bytes(path)
            assert before < written

            games.get(2).update({})
            assert written < used_bytes(path)

    def test_after_a_failed_flush_the_log_is_written_again_before_the_next_transaction(
        self, path, monkeypatch
    ):
        written = []
        real = flush.write_again
        monkeypatch.setattr(flush, "write_again", lambda file: (written.append(file), real(file)))
        with reactdb.connect(path, durability="soft") as database:
            games = database.table_create("games")
            games.insert({"id": 1})
            content = Path(path + "-wal").read_bytes()
            engine_writer = session_of(database).engine.writer
            assert engine_writer is not None

            engine_writer.doubt(flush_error())
            assert [] == written
            with database.transaction():
                pass
            assert 1 == len(written)
            assert content == Path(path + "-wal").read_bytes()

    def test_a_log_that_cannot_be_written_again_takes_no_more_writes_and_is_not_emptied(
        self, path, monkeypatch, caplog
    ):
        def fail(file: int) -> None:
            raise OSError(5, "Input/output error")

        database = reactdb.connect(path, durability="soft")
        games = database.table_create("games")
        games.insert({"id": 1})
        engine_writer = session_of(database).engine.writer
        assert engine_writer is not None
        with monkeypatch.context() as patch:
            patch.setattr(flush, "write_again", fail)
            engine_writer.doubt(flush_error())

            with pytest.raises(reactdb.errors.StorageError, match="an earlier flush has failed"):
                games.insert({"id": 2})
            assert 1 == games.count().run()
        games.insert({"id": 2})
        engine_writer.doubt(flush_error())
        monkeypatch.setattr(flush, "write_again", fail)
        with caplog.at_level(logging.WARNING, logger="reactdb"):
            database.close()
        assert "its write-ahead log is left as it is" in caplog.text
        assert used_bytes(path) > HEADER_BYTES
        with reactdb.connect(path, read_only=True) as after:
            assert 2 == after.table("games").count().run()

    def test_what_was_closed_in_doubt_is_made_sure_of_by_whoever_opens_it_next(self, path, monkeypatch):
        def fail(file: int) -> None:
            raise OSError(5, "Input/output error")

        database = reactdb.connect(path, durability="soft")
        database.table_create("games").insert({"id": 1})
        engine_writer = session_of(database).engine.writer
        assert engine_writer is not None
        engine_writer.doubt(flush_error())
        written = []
        with monkeypatch.context() as patch:
            patch.setattr(flush, "write_again", fail)
            database.close()
            with pytest.raises(reactdb.errors.StorageError, match=r"^open: .* an earlier flush has failed"):
                reactdb.connect(path, busy_timeout=0)
        real = flush.write_again
        monkeypatch.setattr(flush, "write_again", lambda file: (written.append(file), real(file)))

        with reactdb.connect(path, busy_timeout=0) as again:
            assert 1 == again.table("games").count().run()
        reactdb.connect(path).close()
        assert 1 == len(written)

    def test_what_was_closed_in_doubt_is_no_concern_of_another_file_at_its_place(self, path, monkeypatch):
        def fail(file: int) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(flush, "write_again", fail)
        database = reactdb.connect(path, durability="soft")
        engine_writer = session_of(database).engine.writer
        assert engine_writer is not None
        engine_writer.doubt(flush_error())
        database.close()
        for suffix in ("", "-wal"):
            os.rename(path + suffix, path + "-kept" + suffix)

        with reactdb.connect(path, busy_timeout=0) as new:
            assert [] == new.table_list()

    def test_after_a_commit_that_may_be_there_or_not_another_epoch_begins(self, path, monkeypatch):
        """Should a power cut bring it back, its position is not the one that is given out next."""
        with reactdb.connect(path) as database:
            games = database.table_create("games")
            games.insert({"id": 1})
            before = database.token
            engine_writer = session_of(database).engine.writer
            assert engine_writer is not None
            connection = engine_writer.connection
            execute, failures = connection.execute, [flush_error()]

            def fail(statement: str, *parameters: Any) -> Any:
                if statement == "COMMIT" and failures:
                    raise failures.pop()
                return execute(statement, *parameters)

            with monkeypatch.context() as patch:
                cursor = engine_writer.cursor
                failing = SimpleNamespace(execute=fail, executemany=cursor.executemany, connection=connection)
                patch.setattr(engine_writer, "cursor", failing)
                with pytest.raises(reactdb.OutcomeUnknown):
                    games.insert({"id": 2})
            games.insert({"id": 3})

            assert str(before).rpartition(".")[0] != str(database.token).rpartition(".")[0]
            assert [1, 2, 3] == [change.seq for change in database.log()]

    def test_a_log_that_is_being_copied_into_the_file_is_not_written_to(self, path, monkeypatch):
        """Before SQLite 3.51.3, a commit just then could be lost."""
        seen: list[str] = []
        with reactdb.connect(path) as database:
            other = sqlite.connect(path, mode="rw", busy_timeout_s=0)
            database.table_create("games").insert({"id": 1})
            engine_writer = session_of(database).engine.writer
            assert engine_writer is not None
            connect = engine_writer.engine.connect

            def copier(mode: str) -> Any:
                connection = connect(mode)
                connection.set_trace_callback(look)
                return connection

            def look(statement: str) -> None:
                if "wal_checkpoint" in statement:
                    try:
                        other.execute("BEGIN IMMEDIATE")
                        other.execute("ROLLBACK")
                        seen.append("written to")
                    except sqlite.SQLiteError as error:
                        seen.append(str(error))

            monkeypatch.setattr(engine_writer.engine, "connect", copier)
            assert engine_writer.run_in_turn(engine_writer.checkpoints.run)
            other.close()

        assert ["database is locked"] == seen

    def test_a_flush_is_one_of_the_disk_also_on_macos(self, path):
        with reactdb.connect(path) as database:
            engine_writer = session_of(database).engine.writer
            assert engine_writer is not None

            assert (1,) == engine_writer.connection.execute("PRAGMA fullfsync").fetchone()

    def test_a_log_that_is_not_ours_is_not_written_to(self, path):
        with reactdb.connect(path) as database:
            database.table_create("games")
            flushes = flush.Flushes(path, FileGuard(path))
            assert flushes.notice(flush_error())
            os.rename(path + "-wal", path + "-kept")
            Path(path + "-wal").write_bytes(b"another's")

            with pytest.raises(reactdb.errors.StorageError, match=r"^insert: .*is another file now"):
                flushes.make_sure("insert")
            os.rename(path + "-kept", path + "-wal")
            flushes.make_sure("insert")
            assert not flushes.is_doubtful


def half_made(run: Run) -> images.Image:
    """Everything that was on its way to the disk when the file had begun to be written."""
    disk = Disk(run.recording)
    for event in run.recording.events:
        disk.advance(event)
        made = images.image(disk, 0, Random(1))
        if made.get("a.db") and made.get("a.db-journal"):
            return made
    raise AssertionError("the file was made without a journal")


def flush_error() -> Exception:
    """As SQLite reports a flush that failed."""
    error = sqlite.sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = "SQLITE_IOERR_FSYNC"
    return error
