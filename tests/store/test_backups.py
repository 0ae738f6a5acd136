"""`db.backup`: a whole file of one commit, made while others write, or nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb import HistoryDiverged, InvalidOption, UsageError, row
from reactdb.errors import CannotOpen
from reactdb.store import backups
from reactdb.store.file import copying
from tests.support.inspection import problems


@pytest.fixture
def db(tmp_path: Path) -> Any:
    with reactdb.connect(tmp_path / "a.db", durability="soft", retention=None) as database:
        table = database.table_create("t")
        table.index_create("v")
        table.insert({"id": number, "v": number % 7} for number in range(500))
        table.get(3).update({"v": 100})
        yield database


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "backups").mkdir()
    return tmp_path / "backups" / "b.db"


def content(db: reactdb.Database) -> Any:
    return [
        (entry.seq, entry.table, entry.kind, entry.key, entry.new_bytes, entry.time) for entry in db.log()
    ], {name: db.table(name).order_by().run() for name in db.table_list()}


class TestTheCopy:
    def test_it_has_the_documents_the_log_and_the_indexes(self, db, target):
        answer = db.backup(target)
        assert answer == {"path": str(target), "seq": db.seq, "bytes": target.stat().st_size}
        assert os.listdir(target.parent) == ["b.db"]
        assert problems(target) == []
        with reactdb.connect(target) as copy:
            assert content(copy) == content(db)
            assert copy.table("t").get_all(100, index="v").run() == [{"id": 3, "v": 100}]
            assert copy.at(3).table("t").count().run() == db.at(3).table("t").count().run()

    def test_a_database_in_memory_becomes_a_file(self, target):
        with reactdb.connect(":memory:") as db:
            db.table_create("t").insert({"id": 1})
            db.backup(target)
            with reactdb.connect(target) as copy:
                assert content(copy) == content(db)
        assert problems(target) == []

    def test_large_values_are_in_it(self, db, target):
        blob = db.blobs.put(b"x" * 300_000)
        db.table("t").insert({"id": "scan", "bytes": blob})
        db.backup(target)
        with reactdb.connect(target) as copy:
            assert copy.blobs.read(copy.table("t").get("scan").run()["bytes"]) == b"x" * 300_000

    def test_inside_a_transaction_it_is_the_last_commit(self, db, target):
        before = db.seq
        with db.transaction():
            db.table("t").insert({"id": "new"})
            assert db.backup(target)["seq"] == before
        with reactdb.connect(target) as copy:
            assert copy.table("t").get("new").run() is None

    def test_a_read_only_handle_makes_one(self, db, target):
        with reactdb.connect(db.path, read_only=True) as reader:
            reader.backup(target)
        assert problems(target) == []

    def test_another_process_makes_one(self, db, target):
        program = "import reactdb, sys; reactdb.connect(sys.argv[1]).backup(sys.argv[2])"
        subprocess.run([sys.executable, "-c", program, db.path, str(target)], check=True)
        with reactdb.connect(target) as copy:
            assert content(copy) == content(db)

    def test_the_workers_of_consumers_do_not_hold_it(self, db, target):
        consumer = db.consumer("outbox", db.table("t"), since=0)
        for batch in consumer.batches(max_changes=10, max_wait_s=0):
            batch.acknowledge()
            db.backup(target)
            assert db.consumers()[0]["holder"] is not None
            break
        with reactdb.connect(target) as copy:
            assert copy.consumers()[0]["holder"] is None
            assert copy.consumers()[0]["seq"] == db.consumers()[0]["seq"]


class TestTokens:
    def test_a_token_from_before_is_valid_in_the_copy_and_one_from_later_has_diverged(self, db, target):
        earlier = db.token
        db.table("t").insert({"id": "a"})
        db.backup(target)
        db.table("t").insert({"id": "b"})
        with reactdb.connect(target) as copy:
            copy.table("t").insert([{"id": "c"}, {"id": "d"}])
            with copy.changes(since=earlier).cursor() as cursor:
                assert [cursor.next(timeout=5)["new_val"]["id"] for _ in range(3)] == ["a", "c", "d"]
            with pytest.raises(HistoryDiverged):
                copy.changes(since=db.token)

    def test_a_token_from_later_has_diverged_before_the_first_write(self, db, target):
        db.backup(target)
        db.table("t").insert({"id": "b"})
        with reactdb.connect(target) as copy, pytest.raises(HistoryDiverged):
            copy.changes(since=db.token)


class TestWhileOthersWrite:
    def test_each_copy_is_of_one_commit(self, db, target):
        """Two documents are always written together."""
        table = db.table("t")
        table.insert([{"id": "left", "n": 0}, {"id": "right", "n": 0}])
        is_over = threading.Event()
        errors: list[BaseException] = []

        def write() -> None:
            try:
                number = 0
                while not is_over.is_set():
                    number += 1
                    with db.transaction():
                        table.get("left").update({"n": number})
                        table.get("right").update({"n": number})
            except BaseException as error:
                errors.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for number in range(5):
                db.backup(target, overwrite=number > 0)
                with reactdb.connect(target) as copy:
                    left, right = (copy.table("t").get(name).run() for name in ("left", "right"))
                    assert left["n"] == right["n"]
        finally:
            is_over.set()
            writer.join()
        assert errors == []

    def test_a_writer_postpones_its_checkpoint(self, db, target, monkeypatch):
        monkeypatch.setattr("reactdb.store.checkpoints.RETRY_BYTES", 0)
        checkpoints = db._session.engine.writer.checkpoints
        checkpoints.due_bytes = checkpoints._room_bytes = 0
        tries: list[int] = []
        monkeypatch.setattr(checkpoints, "run", lambda **options: tries.append(1) or True)
        with copying.announce_copy(db.path):
            db.table("t").insert({"id": "during"})
            assert tries == []
        checkpoints.due_bytes = checkpoints._room_bytes = 0
        db.table("t").insert({"id": "after"})
        assert tries == [1]

    @pytest.mark.skipif(sys.platform != "linux", reason="locks that others can see are used on Linux only")
    def test_another_process_sees_that_a_backup_is_made(self, db):
        program = (
            "import reactdb, sys\n"
            "from reactdb.store.file.copying import is_being_copied\n"
            "with reactdb.connect(sys.argv[1]) as db: print(is_being_copied(sys.argv[1]))\n"
        )

        def ask() -> str:
            child = subprocess.run(
                [sys.executable, "-c", program, db.path], capture_output=True, text=True, check=True
            )
            return child.stdout.strip()

        with copying.announce_copy(db.path), copying.announce_copy(db.path):
            assert ask() == "True"
        assert (ask(), copying.is_being_copied(db.path)) == ("False", False)


class TestProgress:
    def test_it_tells_the_copied_bytes_and_all_bytes(self, db, target, monkeypatch):
        monkeypatch.setattr(backups, "STEP_PAGES", 4)
        told: list[tuple[int, int]] = []
        db.backup(target, progress=lambda done, total: told.append((done, total)))
        assert len(told) > 3
        assert told == sorted(told)
        assert len({total for _, total in told}) == 1
        assert told[-1][0] == told[-1][1]

    def test_an_exception_ends_the_backup_and_leaves_nothing(self, db, target):
        def stop(done: int, total: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            db.backup(target, progress=stop)
        assert os.listdir(target.parent) == []
        db.backup(target)


class TestKilled:
    def test_a_process_that_is_killed_in_the_middle_leaves_no_backup_and_the_file_whole(self, db, target):
        program = (
            "import os, reactdb, signal, sys\n"
            "from reactdb.store import backups\n"
            "backups.STEP_PAGES = 4\n"
            "db = reactdb.connect(sys.argv[1])\n"
            "db.backup(sys.argv[2], progress=lambda *_: os.kill(os.getpid(), signal.SIGKILL))\n"
        )
        killed = subprocess.run([sys.executable, "-c", program, db.path, str(target)], check=False)
        assert killed.returncode == -9
        assert not target.exists()
        db.table("t").insert({"id": "after"})
        assert db.backup(target)["seq"] == db.seq

    def test_a_process_that_is_killed_in_a_migration_has_not_had_the_step(self, tmp_path):
        program = (
            "import os, reactdb, signal, sys\n"
            "def step(db):\n"
            "    db.table('t').insert({'id': 2})\n"
            "    os.kill(os.getpid(), signal.SIGKILL)\n"
            "reactdb.connect(sys.argv[1]).migrate([lambda db: db.table_create('t').insert({'id': 1}), step])\n"
        )
        path = tmp_path / "m.db"
        assert subprocess.run([sys.executable, "-c", program, str(path)], check=False).returncode == -9
        with reactdb.connect(path) as db:
            assert (db.user_version, db.table("t").run()) == (1, [{"id": 1}])
        assert problems(path) == []


class TestRefusals:
    def test_a_file_that_exists_stays(self, db, target):
        target.write_text("letters")
        with pytest.raises(CannotOpen, match="it exists: name another file"):
            db.backup(target)
        assert target.read_text() == "letters"
        db.backup(target, overwrite=True)
        assert problems(target) == []

    @pytest.mark.parametrize("overwrite", [False, True])
    def test_the_database_itself(self, db, tmp_path, overwrite):
        (tmp_path / "link.db").symlink_to(db.path)
        for path in (db.path, tmp_path / "link.db"):
            with pytest.raises(CannotOpen, match="the database itself"):
                db.backup(path, overwrite=overwrite)

    def test_a_missing_folder_and_a_folder(self, db, target):
        with pytest.raises(CannotOpen, match="folder of the backup does not exist"):
            db.backup(target.parent / "none" / "b.db")
        with pytest.raises(CannotOpen, match="it is a folder"):
            db.backup(target.parent, overwrite=True)

    def test_a_write_ahead_log_of_another_file(self, db, target):
        Path(f"{target}-wal").write_bytes(b"frames")
        with pytest.raises(CannotOpen, match="-wal is there"):
            db.backup(target)

    def test_a_transaction_in_memory(self, target):
        with (
            reactdb.connect(":memory:") as db,
            db.transaction(),
            pytest.raises(UsageError, match="cannot be part"),
        ):
            db.backup(target)

    def test_options_have_their_types(self, db, target):
        async def told_later(copied: int, total: int) -> None:
            raise AssertionError("nobody awaits this")

        for options in ({"progress": 3}, {"progress": told_later}, {"overwrite": "yes"}):
            with pytest.raises(InvalidOption):
                db.backup(target, **options)
        for path in (":memory:", 3, None):
            with pytest.raises(InvalidOption):
                db.backup(path)

    def test_a_disk_without_room_leaves_nothing(self, db, target, monkeypatch):
        def fail(path: str) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(backups, "flush", fail)
        with pytest.raises(CannotOpen, match="No space left on device"):
            db.backup(target)
        assert os.listdir(target.parent) == []
        assert db.table("t").filter(row["v"] == 100).count().run() == 1
