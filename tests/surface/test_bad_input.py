"""Bad input, from callers and from outside, gets one of reactdb's errors: early, with a helpful message, changing nothing."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb import row
from reactdb.session import session_of

NOBODY = 65534


@contextmanager
def refused(error: type[BaseException], text: str) -> Iterator[None]:
    """The error is raised, is one of ours, and says in one line what is the matter."""
    with pytest.raises(error) as caught:
        yield
    message = str(caught.value)
    assert isinstance(caught.value, reactdb.ReactDBError)
    assert text in message
    assert "\n" not in message
    assert "Error" not in message


def digest(*paths: Path) -> list[str]:
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]


def in_process(script: str, *arguments: object) -> str:
    """What a script prints in another process: plain `open` of a database's file in this one would drop its locks."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert 0 == done.returncode, done.stderr
    return done.stdout.strip()


@contextmanager
def held(path: Path, *statements: str) -> Iterator[None]:
    """Another process has done these to the file, and waits."""
    script = (
        "import sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "for statement in sys.argv[2:]: connection.execute(statement).fetchall()\n"
        "print('ready', flush=True); sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(path), *statements],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert "ready\n" == process.stdout.readline()
    try:
        yield
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


@pytest.fixture
def filled(path: Path) -> Path:
    """A closed file with a table `games` and a document 1."""
    with reactdb.connect(path) as db:
        db.table_create("games").insert({"id": 1})
    return path


class TestPaths:
    def test_not_a_database(self, path):
        path.write_text("a letter to a friend, long enough to be taken for a database of a few pages\n" * 100)
        before = digest(path)

        for read_only in (False, True):
            with refused(reactdb.errors.NotADatabase, "is not a reactdb database: it is not an SQLite file"):
                reactdb.connect(path, read_only=read_only)
        assert before == digest(path)

    @pytest.mark.parametrize("mode", ["delete", "wal"])
    def test_an_sqlite_file_of_another_program_stays_as_it_is(self, path, mode):
        connection = sqlite3.connect(path)
        connection.execute(f"PRAGMA journal_mode={mode}")
        connection.execute("CREATE TABLE notes (text)")
        connection.execute("INSERT INTO notes VALUES ('mine')")
        connection.commit()
        connection.close()
        before = digest(path)

        for read_only in (False, True):
            with refused(reactdb.errors.NotADatabase, "it is an SQLite file of another program"):
                reactdb.connect(path, read_only=read_only)
        assert before == digest(path)

    def test_the_log_that_another_program_left_behind_stays_as_it_is(self, path, tmp_path):
        """A crash of theirs leaves a write-ahead log; to write it into their file is not for us."""
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA journal_mode=wal")
        connection.execute("CREATE TABLE notes (text)")
        connection.commit()
        crashed = tmp_path / "crashed.db"
        wal = tmp_path / "crashed.db-wal"
        in_process("import shutil, sys; shutil.copy(*sys.argv[1:])", path, crashed)
        in_process("import shutil, sys; shutil.copy(*sys.argv[1:])", f"{path}-wal", wal)
        connection.close()
        before = digest(crashed, wal)

        with refused(reactdb.errors.NotADatabase, "another program"):
            reactdb.connect(crashed)
        assert before == digest(crashed, wal)

    def test_a_newer_format(self, filled):
        connection = sqlite3.connect(filled)
        connection.execute("PRAGMA user_version=99")
        connection.close()
        before = digest(filled)

        for read_only in (False, True):
            with refused(reactdb.errors.IncompatibleFormat, "has format 99, written by a newer reactdb"):
                reactdb.connect(filled, read_only=read_only)
        assert before == digest(filled)

    def test_a_newer_format_of_sqlite(self, filled):
        data = bytearray(filled.read_bytes())
        data[18:20] = b"\x09\x09"
        filled.write_bytes(data)

        with refused(reactdb.errors.NotADatabase, str(filled)):
            reactdb.connect(filled)

    def test_a_folder_instead_of_a_file(self, tmp_path):
        with refused(reactdb.errors.CannotOpen, "it is a folder"):
            reactdb.connect(tmp_path)

    def test_a_folder_that_does_not_exist(self, tmp_path):
        with refused(reactdb.errors.CannotOpen, f"the folder {tmp_path / 'no'} does not exist"):
            reactdb.connect(tmp_path / "no" / "a.db")
        assert [] == list(tmp_path.iterdir())

    def test_a_folder_that_is_a_file(self, filled):
        with refused(reactdb.errors.CannotOpen, f"{filled} is not a folder"):
            reactdb.connect(filled / "a.db")

    def test_a_name_that_is_too_long(self, tmp_path):
        with refused(reactdb.errors.CannotOpen, "file name too long"):
            reactdb.connect(tmp_path / ("x" * 300))

    def test_links_that_go_in_a_circle(self, path):
        path.symlink_to(path)

        with refused(reactdb.errors.CannotOpen, "symbolic links"):
            reactdb.connect(path)

    @pytest.mark.parametrize("name", ["", "a\0b", "\ud800", b"a.db", 5, None, 1.5, [], object()])
    def test_what_is_no_path(self, name):
        with refused(reactdb.InvalidOption, "path is the name of a file or ':memory:'"):
            reactdb.connect(name)

    def test_read_only_makes_no_file(self, path):
        with refused(reactdb.errors.CannotOpen, "it does not exist"):
            reactdb.connect(path, read_only=True)
        assert not path.exists()

    def test_read_only_makes_no_database_of_an_empty_file(self, path):
        path.touch()

        with refused(reactdb.errors.CannotOpen, "it is empty: no database, and reading makes none"):
            reactdb.connect(path, read_only=True)
        assert 0 == path.stat().st_size

    def test_read_only_in_memory(self):
        with refused(reactdb.UsageError, "would be empty for ever"):
            reactdb.connect(":memory:", read_only=True)

    def test_an_empty_file_becomes_a_database(self, path):
        path.touch()

        with reactdb.connect(path) as db:
            assert [] == db.table_list()

    @pytest.mark.parametrize("is_there", [True, False])
    def test_a_write_ahead_log_without_its_database(self, filled, tmp_path, is_there):
        """To make a new database beside it would mix the two."""
        lost = tmp_path / "lost.db"
        with reactdb.connect(filled) as db:
            db.table("games").insert({"id": 2})
            in_process("import shutil, sys; shutil.copy(*sys.argv[1:])", f"{filled}-wal", f"{lost}-wal")
        if is_there:
            lost.touch()
        before = digest(tmp_path / "lost.db-wal")

        with refused(reactdb.errors.CannotOpen, "its write-ahead log"):
            reactdb.connect(lost)
        assert before == digest(tmp_path / "lost.db-wal")
        assert is_there == lost.exists()

    def test_names_that_need_quoting(self, tmp_path):
        for name in ("a b.db", "50%.db", "what?.db", "#1.db", "file:a.db", "é.db", os.fsdecode(b"\xff.db")):
            with reactdb.connect(tmp_path / name) as db:
                db.table_create("games").insert({"id": name.encode("utf-8", "replace")})
            assert (tmp_path / name).exists()

    def test_a_relative_path_survives_chdir(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "sub").mkdir()
        with reactdb.connect("a.db") as db:
            games = db.table_create("games")
            monkeypatch.chdir(tmp_path / "sub")
            games.insert({"id": 1})
            with reactdb.connect("../a.db") as other:
                assert {"id": 1} == other.table("games").get(1).run()

        assert [] == list((tmp_path / "sub").iterdir())

    def test_a_link_is_followed_and_its_files_lie_beside_the_target(self, tmp_path):
        (tmp_path / "real").mkdir()
        link = tmp_path / "link.db"
        link.symlink_to(tmp_path / "real" / "a.db")
        with reactdb.connect(link) as db:
            db.table_create("games")

            assert str(tmp_path / "real" / "a.db") == db.path
            assert not (tmp_path / "link.db-wal").exists()


# What will be imported is imported first: the other user may not be able to read it.
READ_ONLY_FOLDER = """
import os, sys
import reactdb
reactdb.connect(":memory:").table_create("games").count().run()
os.setgroups([]); os.setgid({nobody}); os.setuid({nobody})
try:
    db = reactdb.connect(sys.argv[1], read_only=sys.argv[2] == "ro")
    print("read", db.table("games").count().run())
except reactdb.ReactDBError as error:
    print(type(error).__name__, error)
"""

COMMAND_OF_ANOTHER_USER = """
import os, sys
from click.testing import CliRunner
import reactdb
from reactdb.cli import main
arguments = sys.argv[1:]
# As above: imported before, and by what is done: here to no file.
for command in (["doctor"], ["inspect"], ["compact", "--keep", "0"]):
    CliRunner().invoke(main, [*command, "no such file"])
CliRunner().invoke(main, ["export", "--salvage", "no such file"])
reactdb.connect(":memory:").table_create("games").count().run()
os.setgroups([]); os.setgid({nobody}); os.setuid({nobody})
print(CliRunner().invoke(main, arguments).stderr)
"""


class TestPermissions:
    """Root may do everything, so another user tries, in another process."""

    @pytest.fixture
    def folder(self) -> Iterator[Path]:
        if not hasattr(os, "geteuid") or os.geteuid() != 0:
            pytest.skip("only root can become another user")
        folder = Path(tempfile.mkdtemp(prefix="reactdb-test-"))
        yield folder
        shutil.rmtree(folder)

    @staticmethod
    def tried(path: Path, mode: str) -> str:
        path.parent.chmod(0o555)
        return in_process(READ_ONLY_FOLDER.format(nobody=NOBODY), path, mode)

    def test_a_new_file_in_a_read_only_folder(self, folder):
        told = self.tried(folder / "a.db", "rw")

        assert f"CannotOpen cannot open {folder / 'a.db'}: the folder {folder} cannot be written" == told

    def test_a_file_that_may_not_be_read(self, folder):
        reactdb.connect(folder / "a.db").close()
        (folder / "a.db").chmod(0o600)
        told = self.tried(folder / "a.db", "ro")

        assert f"CannotOpen cannot open {folder / 'a.db'}: it may not be read (permission denied)" == told

    @pytest.mark.parametrize("file_mode", [0o444, 0o666])
    def test_a_file_in_a_read_only_folder_is_not_opened_to_write(self, folder, file_mode):
        """SQLite needs its two files beside it, and cannot make them."""
        reactdb.connect(folder / "a.db").close()
        (folder / "a.db").chmod(file_mode)
        told = self.tried(folder / "a.db", "rw")

        assert told.startswith(
            f"CannotOpen cannot open {folder / 'a.db'}: it, or its folder {folder}, may not"
        )
        assert told.endswith("read while it has no writer, or copy it to a folder where files can be made")

    @pytest.mark.parametrize("file_mode", [0o444, 0o666])
    def test_a_file_in_a_read_only_folder_can_be_read(self, folder, file_mode):
        """Nobody writes it, so it can be read without those files."""
        with reactdb.connect(folder / "a.db") as db:
            db.table_create("games").insert({"id": 1})
        (folder / "a.db").chmod(file_mode)

        assert "read 1" == self.tried(folder / "a.db", "ro")

    def test_commits_in_a_log_that_cannot_be_read_are_not_passed_over(self, folder):
        in_process(
            "import os, sys, reactdb\n"
            "db = reactdb.connect(sys.argv[1]); db.table_create('games').insert({'id': 1})\n"
            "os._exit(0)",
            folder / "a.db",
        )
        (folder / "a.db-shm").unlink()
        told = self.tried(folder / "a.db", "ro")

        assert (
            f"its write-ahead log {folder / 'a.db'}-wal may hold commits that are not in the file yet" in told
        )

    @pytest.mark.parametrize("command", ["doctor", "inspect"])
    def test_the_command_line_reads_it_in_a_read_only_folder(self, folder, command):
        assert "" == self.commanded(folder, command, folder / "a.db")

    def test_the_command_line_says_what_helps_in_a_read_only_folder(self, folder):
        told = self.commanded(folder, "compact", folder / "a.db", "--keep", "0")

        assert told.startswith(f"reactdb: cannot open {folder / 'a.db'}: it, or its folder {folder}, may not")
        assert told.endswith("copy it to a folder where files can be made")

    def test_a_salvage_in_a_read_only_folder_says_that_there_can_be_a_target(self, folder):
        told = self.commanded(folder, "export", "--salvage", folder / "a.db")

        assert told == (
            f"reactdb: {folder / 'a.db'}.salvaged: Permission denied; name a TABLE and a TARGET elsewhere to write to: "
            "reactdb export --salvage FILE TABLE TARGET"
        )

    @staticmethod
    def commanded(folder: Path, *arguments: object) -> str:
        with reactdb.connect(folder / "a.db") as db:
            db.table_create("games").insert({"id": 1})
        folder.chmod(0o555)
        return in_process(COMMAND_OF_ANOTHER_USER.format(nobody=NOBODY), *arguments)

    def test_a_file_in_a_read_only_folder_can_be_read_while_a_writer_has_it_open(self, folder):
        with reactdb.connect(folder / "a.db") as db:
            db.table_create("games").insert({"id": 1})
            for suffix in ("", "-wal", "-shm"):
                os.chmod(f"{folder / 'a.db'}{suffix}", 0o666)

            assert "read 1" == self.tried(folder / "a.db", "ro")


class TestLocks:
    def test_a_file_that_another_process_writes_is_busy(self, filled):
        with reactdb.connect(filled, busy_timeout=0.1) as db, held(filled, "BEGIN IMMEDIATE"):
            with refused(reactdb.DatabaseBusy, "is locked by another writer"):
                db.table("games").insert({"id": 2})
            with refused(reactdb.DatabaseBusy, "nothing was written"), db.transaction():
                pass
            assert [{"id": 1}] == db.table("games").run()

        with reactdb.connect(filled) as db:
            db.table("games").insert({"id": 2})
            assert [{"id": 1}, {"id": 2}] == db.table("games").run()

    def test_a_file_that_another_process_writes_can_be_opened(self, filled):
        with held(filled, "BEGIN IMMEDIATE"), reactdb.connect(filled, busy_timeout=0) as db:
            assert [{"id": 1}] == db.table("games").run()

    @pytest.mark.parametrize("read_only", [False, True])
    def test_a_file_that_another_process_has_for_itself(self, filled, read_only):
        statements = ("PRAGMA locking_mode=EXCLUSIVE", "BEGIN IMMEDIATE", "COMMIT")
        with held(filled, *statements), refused(reactdb.DatabaseBusy, "is locked by another"):
            reactdb.connect(filled, busy_timeout=0.1, read_only=read_only)

    def test_a_read_only_handle_follows_the_writer_of_the_same_process(self, filled):
        with reactdb.connect(filled) as db, reactdb.connect(filled, read_only=True) as reader:
            db.table("games").insert({"id": 2})
            db.table_create("more")

            assert [{"id": 1}, {"id": 2}] == reader.table("games").run()
            assert ["games", "more"] == reader.table_list()
            with refused(reactdb.errors.ReadOnlyDatabase, "was opened with read_only=True"):
                reader.table("games").insert({"id": 3})


WRITE = """
import reactdb, sys
with reactdb.connect(sys.argv[1]) as db:
    for n in range(int(sys.argv[2]), int(sys.argv[3])):
        db.table("games").insert({"id": n, "text": "y" * 300}, durability="soft")
"""


class TestMoved:
    """Once the path is another file, or none, nothing is acknowledged any more."""

    @staticmethod
    def rename(path: Path) -> None:
        path.rename(path.with_name("b.db"))

    @staticmethod
    def unlink(path: Path) -> None:
        path.unlink()

    @staticmethod
    def replace(path: Path) -> None:
        other = path.with_name("b.db")
        reactdb.connect(other).close()
        other.replace(path)

    @staticmethod
    def unlink_wal(path: Path) -> None:
        path.with_name("a.db-wal").unlink()

    @staticmethod
    def replace_wal(path: Path) -> None:
        wal = path.with_name("a.db-wal")
        wal.unlink()
        wal.touch()

    @pytest.mark.parametrize("has_written", [True, False])
    @pytest.mark.parametrize("how", ["rename", "unlink", "replace", "unlink_wal", "replace_wal"])
    def test_a_moved_file_is_noticed_before_a_write_is_acknowledged(self, filled, how, has_written):
        with reactdb.connect(filled) as db:
            games = db.table("games")
            if has_written:
                games.insert({"id": 2})
            getattr(self, how)(filled)

            with refused(reactdb.errors.StorageMoved, "nothing is acknowledged any more"):
                games.insert({"id": 3})
            with refused(reactdb.errors.StorageMoved, "close this database"):
                games.insert({"id": 4})
            with refused(reactdb.errors.StorageMoved, "close this database"):
                games.run()

    def test_closing_a_replaced_database_leaves_the_new_one_alone(self, filled):
        db = reactdb.connect(filled)
        for suffix in ("-wal", "-shm"):
            filled.with_name(f"a.db{suffix}").unlink()
        self.replace(filled)
        with pytest.raises(reactdb.errors.StorageMoved):
            db.table("games").insert({"id": 2})

        with reactdb.connect(filled) as other:
            mine = other.table_create("mine")
            db.close()
            mine.insert({"id": 1})
        with reactdb.connect(filled) as other:
            assert [{"id": 1}] == other.table("mine").run()

    @pytest.mark.slow
    @pytest.mark.parametrize("others", [1, 100])
    def test_closing_a_database_that_has_lost_its_log_writes_nothing_over_what_others_wrote(
        self, filled, others
    ):
        """Any `open` of the file in this process drops its locks; the next process to close it then removes the log."""
        db = reactdb.connect(filled)
        games = db.table("games")
        games.insert([{"id": n, "text": "x" * 100} for n in range(2, 50)])
        log = os.stat(f"{filled}-wal").st_ino
        filled.open().close()
        in_process(WRITE, filled, 1000, 1000 + others)
        if os.path.exists(f"{filled}-wal") and os.stat(f"{filled}-wal").st_ino == log:
            db.close()
            pytest.skip("this SQLite kept its log, so that nothing was lost")
        with pytest.raises(reactdb.errors.StorageMoved):
            games.insert([{"id": n, "text": "z" * 300} for n in range(9000, 9003)])
        in_process(WRITE, filled, 5000, 5040)
        db.close()

        found = in_process(
            "import reactdb, sys; print(reactdb.connect(sys.argv[1]).table('games').count().run())", filled
        )
        assert str(49 + others + 40) == found

    def test_a_file_that_came_back_can_be_opened_again(self, filled):
        with reactdb.connect(filled) as db:
            away = filled.with_name("b.db")
            filled.rename(away)
            with pytest.raises(reactdb.errors.StorageMoved):
                db.table("games").insert({"id": 2})
            away.rename(filled)

            with reactdb.connect(filled) as again:
                again.table("games").insert({"id": 3})
        with reactdb.connect(filled) as again:
            assert 3 in [document["id"] for document in again.table("games")]


class TestDiskFull:
    """No room: the write is taken back whole, and the database goes on where there is room again."""

    @staticmethod
    def limit_pages(db: reactdb.Database, pages: int) -> None:
        connection = session_of(db).engine.writer.connection
        used = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={used + pages}").fetchone()

    def test_a_write_without_room(self, db):
        games = db.table_create("games")
        games.index_create("a")
        games.insert({"id": 0, "a": 0})
        self.limit_pages(db, 8)

        with refused(reactdb.errors.DiskFull, "no room left"):
            games.insert([{"id": n, "a": n, "text": "x" * 1000} for n in range(1, 100)])
        assert [{"id": 0, "a": 0}] == games.run()
        assert [{"id": 0, "a": 0}] == games.order_by(index="a").run()
        assert [3] == [change.seq for change in db.log(table="games")]

        self.limit_pages(db, 1_000_000)
        games.insert([{"id": n, "a": n} for n in range(1, 100)])
        assert list(range(3, 103)) == [change.seq for change in db.log(table="games")]

    def test_a_write_without_room_ends_its_whole_transaction(self, db):
        """SQLite takes all of it back then. What follows must not be kept without what went before."""
        games = db.table_create("games")
        with refused(reactdb.errors.DiskFull, "no room left"), db.transaction():
            games.insert({"id": "before"})
            self.limit_pages(db, 8)
            with refused(reactdb.errors.DiskFull, "no room left"):
                games.insert({"id": 2, "text": "x" * 100_000})
            with refused(reactdb.errors.DiskFull, "no room left"):
                games.insert({"id": "after"})

        assert [] == games.run()
        games.insert({"id": "later"})
        assert [{"id": "later"}] == games.run()
        assert [2] == [change.seq for change in db.log(table="games")]

    def test_a_bulk_without_room_ends_its_whole_transaction_or_only_itself(self, db):
        """As SQLite has it: of a statement with many rows it takes back the statement, of one with one row everything."""
        games = db.table_create("games")
        with suppress(reactdb.errors.DiskFull), db.transaction():
            games.insert({"id": "before"})
            self.limit_pages(db, 8)
            with refused(reactdb.errors.DiskFull, "no room left"):
                games.insert([{"id": n, "text": "x" * 1000} for n in range(2, 100)])
            games.insert({"id": "after"})

        assert sorted(one["id"] for one in games.run()) in ([], ["after", "before"])
        assert games.count().run() == len([*db.log(table="games")])
        games.insert({"id": "later"})
        assert "later" == [*db.log()][-1].key

    @pytest.fixture
    def small_disk(self, tmp_path: Path) -> Iterator[Path]:
        """A file system of 1 MB, which only root may make, and not everywhere."""
        folder = tmp_path / "small"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
        try:
            made = subprocess.run(command, capture_output=True).returncode == 0
        except OSError:
            made = False
        if not made:
            pytest.skip("a small file system cannot be mounted here")
        try:
            yield folder
        finally:
            subprocess.run(["umount", "-l", str(folder)], check=True)

    @pytest.mark.parametrize("durability", ["hard", "soft"])
    def test_a_full_disk(self, small_disk, durability):
        with reactdb.connect(small_disk / "a.db", durability=durability) as db:
            games = db.table_create("games")
            games.insert({"id": 0})
            ballast = small_disk / "ballast"
            ballast.write_bytes(b"x" * 500_000)

            with refused(reactdb.errors.DiskFull, "nothing was written"):
                games.insert([{"id": n, "text": "x" * 1000} for n in range(1, 700)])
            assert [{"id": 0}] == games.run()

            ballast.unlink()
            games.insert({"id": 1})
            assert [0, 1] == [document["id"] for document in games.run()]
            assert [2, 3] == [change.seq for change in db.log(table="games")]
        with reactdb.connect(small_disk / "a.db") as db:
            assert [0, 1] == [document["id"] for document in db.table("games").run()]

    def test_a_transaction_that_sqlite_has_taken_back_goes_no_further(self, small_disk):
        with reactdb.connect(small_disk / "a.db", durability="soft") as db:
            games = db.table_create("games")
            # So that the transaction is too big to wait in memory for its commit.
            session_of(db).engine.writer.connection.execute("PRAGMA cache_size=10")
            with pytest.raises(reactdb.errors.DiskFull), db.transaction():
                games.insert({"id": "before"})
                with pytest.raises(reactdb.errors.DiskFull):
                    games.insert([{"id": n, "text": "x" * 10_000} for n in range(200)])
                with pytest.raises(reactdb.errors.DiskFull):
                    games.insert({"id": "after"})
            assert [] == games.run()

            games.insert({"id": "later"})
            assert [{"id": "later"}] == games.run()
            assert [2] == [change.seq for change in db.log(table="games")]


class TestClosed:
    def test_a_closed_database(self, db):
        games = db.table_create("games")
        games.insert({"id": 1})
        past = db.at(1).table("games")
        db.close()
        db.close()

        uses: list[Callable[[], Any]] = [
            games.run,
            games.get(1).run,
            games.count().run,
            games.get(1).delete,
            games.index_list,
            past.run,
            db.table_list,
            lambda: db.compact(keep=0),
            db.stats,
            lambda: games.insert({"id": 2}),
            lambda: db.table_create("more"),
            lambda: list(db.log()),
            lambda: db.transaction().__enter__(),
            lambda: games.changes(),
            lambda: db.seq,
            lambda: db.token,
            lambda: db.at(1),
        ]
        for use in uses:
            with refused(reactdb.errors.DatabaseClosed, f"database {db.path} is closed"):
                use()

    def test_a_database_closed_inside_its_transaction(self, db):
        games = db.table_create("games")

        with refused(reactdb.errors.DatabaseClosed, "is closed"), db.transaction():
            games.insert({"id": 1})
            db.close()

    def test_a_log_that_is_read_on_after_closing(self, db):
        games = db.table_create("games")
        games.insert([{"id": n} for n in range(1500)])
        entries = db.log()
        next(entries)
        db.close()

        with refused(reactdb.errors.DatabaseClosed, "is closed"):
            list(entries)


class TestOptions:
    @pytest.mark.parametrize(
        "options",
        [
            {"read_only": 1},
            {"read_only": None},
            {"durability": "medium"},
            {"durability": None},
            {"durability": []},
            {"busy_timeout": -1},
            {"busy_timeout": "5"},
            {"busy_timeout": True},
            {"busy_timeout": float("nan")},
            {"busy_timeout": float("inf")},
            {"busy_timeout": None},
            {"retention": -1},
            {"retention": "1d"},
            {"retention": True},
            {"retention": 1.5},
            {"scheduler": 5},
            {"origin": 5},
            {"origin": "x" * 257},
            {"origin": "\ud800"},
            {"read_only": True, "retention": 5},
        ],
    )
    def test_connect(self, path, options):
        with refused(reactdb.InvalidOption, ""):
            reactdb.connect(path, **options)
        assert not path.exists()

    def test_what_connect_refuses_leaves_no_engine_behind(self, filled):
        from reactdb.store import registry

        before = dict(registry.opened)
        for options in ({"retention": -1}, {"read_only": True, "retention": 5}, {"scheduler": 5}):
            with pytest.raises(reactdb.InvalidOption):
                reactdb.connect(filled, **options)

        assert before == registry.opened

    BAD: tuple[Callable[[Any, Any], Any], ...] = (
        lambda db, games: db.table_create("x", primary_key=""),
        lambda db, games: db.table_create("x", primary_key=5),
        lambda db, games: db.table_create("x", primary_key=None),
        lambda db, games: db.table_create("x", primary_key="\ud800"),
        lambda db, games: db.table_create("x", exist_ok="yes"),
        lambda db, games: db.table_create(5),
        lambda db, games: db.table_drop(5),
        lambda db, games: db.table(5),
        lambda db, games: db.table(None),
        lambda db, games: db.log(since="1"),
        lambda db, games: db.log(since=-1),
        lambda db, games: db.log(until=1.5),
        lambda db, games: db.log(table=5),
        lambda db, games: db.at("1"),
        lambda db, games: db.at(-1),
        lambda db, games: db.at(True),
        lambda db, games: db.at(10**30),
        lambda db, games: db.compact(keep="all"),
        lambda db, games: db.compact(None),
        lambda db, games: db.compact(keep=-1),
        lambda db, games: db.compact(0, vacuum="x"),
        lambda db, games: db.transaction(durability="x").__enter__(),
        lambda db, games: db.transaction(origin=5).__enter__(),
        lambda db, games: games.insert(5),
        lambda db, games: games.insert(None),
        lambda db, games: games.insert("text"),
        lambda db, games: games.insert([5]),
        lambda db, games: games.insert([{"id": 9}, None]),
        lambda db, games: games.insert({"id": 9}, conflict="ignore"),
        lambda db, games: games.insert({"id": 9}, conflict=[]),
        lambda db, games: games.insert({"id": 9}, durability="x"),
        lambda db, games: games.insert({"id": 9}, return_changes=5),
        lambda db, games: games.get(1).update(5),
        lambda db, games: games.get(1).update({"a": object()}),
        lambda db, games: games.get(1).update({"a": 1}, durability=5),
        lambda db, games: games.get(1).replace(5),
        lambda db, games: games.get(1).replace({"a": 1}),
        lambda db, games: games.get(1).replace({"id": 2}),
        lambda db, games: games.limit("1"),
        lambda db, games: games.limit(True),
        lambda db, games: games.limit(-1),
        lambda db, games: games.limit(1.5),
        lambda db, games: games.limit(float("nan")),
        lambda db, games: games.limit(float("inf")),
        lambda db, games: games.limit(None),
        lambda db, games: games.skip("1"),
        lambda db, games: games.skip(-1),
        lambda db, games: games.skip([]),
        lambda db, games: games.between(None, 5),
        lambda db, games: games.between(object(), 5),
        lambda db, games: games.between(1, "\ud800"),
        lambda db, games: games.between(1, 5, left_bound="shut"),
        lambda db, games: games.between(1, 5, right_bound=None),
        lambda db, games: games.between(1, 5, index=5),
        lambda db, games: games.between(1, 5, index=["a"]),
        lambda db, games: games.between(1, 5, index="nope").run(),
        lambda db, games: games.between(1, 5).between(2, 3).run(),
        lambda db, games: games.get_all(1, index=[]),
        lambda db, games: games.get_all(None),
        lambda db, games: games.get_all({}, index="a"),
        lambda db, games: games.get_all(1, index="nope").run(),
        lambda db, games: games.order_by(5),
        lambda db, games: games.order_by(index=5),
        lambda db, games: games.order_by(index="nope").run(),
        lambda db, games: games.map(row["a"]).order_by(index="a").run(),
        lambda db, games: games.min(index=5),
        lambda db, games: games.max("a", index="a"),
        lambda db, games: games.filter(5),
        lambda db, games: games.filter({"a": object()}),
        lambda db, games: games.pluck(5).run(),
        lambda db, games: games.union(5),
        lambda db, games: games[None],
        lambda db, games: games[0:4:2],
        lambda db, games: games[-2:],
        lambda db, games: games.index_create(5),
        lambda db, games: games.index_create("q", 5),
        lambda db, games: games.index_create("q", [5]),
        lambda db, games: games.index_create("q", multi="yes"),
        lambda db, games: games.index_drop("nope"),
        lambda db, games: games.index_drop(5),
        lambda db, games: games.index_wait("nope"),
    )

    @pytest.mark.parametrize("bad", range(len(BAD)))
    def test_every_option(self, db, bad):
        games = db.table_create("games")
        games.index_create("a")
        games.insert({"id": 1, "a": 1})

        with pytest.raises(reactdb.UsageError):
            self.BAD[bad](db, games)
        assert [{"id": 1, "a": 1}] == games.run()
        assert 3 == db.seq
        assert ["a"] == games.index_list()
        assert ["games"] == db.table_list()

    def test_counts_beyond_every_table(self, games):
        games.insert([{"id": 1}, {"id": 2}])

        assert [1, 2] == [document["id"] for document in games.limit(10**30)]
        assert [1, 2] == [document["id"] for document in games.skip(0).limit(2**63)]
        assert [] == games.skip(10**30).limit(10**30).run()


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


class TestDocuments:
    @pytest.mark.parametrize(
        ("document", "place"),
        [
            ({"id": 1, "a": {1, 2}}, 'document["a"]'),
            ({"id": 1, "a": [0, {"b": object()}]}, 'document["a"][1]["b"]'),
            ({"id": 1, "a": {5: 1}}, 'document["a"]'),
            ({"id": 1, "a": "\ud800"}, 'document["a"]'),
            ({"id": 1, "\ud800": 1}, "document"),
            ({"id": 1, "a": Decimal("Infinity")}, 'document["a"]'),
            ({"id": 1, "a": nested(101)}, 'document["a"][0]'),
            ({"id": 1, "a": b"x" * (16 * 1024 * 1024)}, "document"),
            ({"id": 1, "a": ["x" * 1024 * 1024] * 16}, "document"),
            ({"id": 1, "a": 2**100_000}, 'document["a"]'),
        ],
    )
    def test_what_could_not_come_back_equal_is_refused_with_its_place(self, db, games, document, place):
        for write in (
            lambda: games.insert(document),
            lambda: games.insert([{"id": 0}, document]),
            lambda: games.get(1).replace(document),
        ):
            with pytest.raises(reactdb.InvalidDocument) as caught:
                write()
            assert str(caught.value).replace("'", '"').startswith(place)
            assert len(str(caught.value)) < 1000
        assert [] == [*db.log(table="games")]

    def test_as_deep_and_as_big_as_can_be(self, games):
        games.index_create("a")
        games.index_create("pair", [row["a"], row["id"]])
        deep = {"id": 1, "a": nested(99)}
        games.insert(deep)
        games.insert({"id": 2, "text": "x" * (16 * 1024 * 1024 - 100)})

        assert deep == games.get(1).run()
        assert 16 * 1024 * 1024 - 100 == len(games.get(2).run()["text"])

    def test_a_document_inside_itself(self, games):
        document: dict[str, Any] = {"id": 1}
        document["self"] = document

        with refused(reactdb.InvalidDocument, "or inside itself"):
            games.insert(document)

    @pytest.mark.parametrize(
        "key", [None, {}, {"a": 1}, [None], [{}], float("nan"), float("inf"), "x" * 2000, object(), "\ud800"]
    )
    def test_what_cannot_be_a_key(self, db, games, key):
        for use in (lambda: games.get(key), lambda: games.insert({"id": key})):
            with pytest.raises(reactdb.UsageError) as caught:
                use()
            assert isinstance(
                caught.value,
                (reactdb.errors.InvalidKey, reactdb.InvalidDocument, reactdb.errors.MissingValue),
            )
        assert [] == [*db.log(table="games")]

    def test_numbers_beyond_64_bits_are_keys_and_values(self, games):
        big = 10**30
        games.insert({"id": big, "a": -big})

        assert {"id": big, "a": -big} == games.get(big).run()
        assert [big] == [document["id"] for document in games.between(2**64, 10**31)]

    def test_a_dict_that_makes_up_what_it_is_asked_for_is_not_asked(self, games):
        from collections import defaultdict

        document: dict[str, Any] = defaultdict(int, {"a": 1})
        result = games.insert(document)

        assert {"a": 1} == document
        assert 1 == len(result["generated_keys"])


class TestUnknownNames:
    def test_an_unknown_table(self, db):
        with refused(reactdb.TableNotFound, "Table `nope` does not exist."):
            db.table("nope").run()
        with refused(reactdb.TableNotFound, "Table `nope` does not exist."):
            db.table("nope").insert({"id": 1})
        with refused(reactdb.TableNotFound, "Table `nope` does not exist."):
            db.log(table="nope")

    def test_an_unknown_index(self, games):
        with refused(reactdb.errors.IndexNotFound, "Index `nope` was not found on table `games`."):
            games.get_all(1, index="nope").run()
