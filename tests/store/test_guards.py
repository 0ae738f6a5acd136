"""The checks when a file is opened or removed: its file system, its locks, its identity, and the processes that have it open."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.session import session_of
from reactdb.store.engine import Engine
from reactdb.store.file import external_writers, locks, sqlite
from tests.support.processes import another_process

SUFFIXES = ("", "-wal", "-shm", "-journal")
SHIM = Path(__file__).parent.parent / "support" / "nolocks.c"


def files_of(path: Path) -> list[str]:
    return sorted(one.name for one in path.parent.iterdir())


def in_process(script: str, *arguments: object, **environment: str) -> str:
    """What a script prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout.strip()


MOUNTS = rb"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 0:40 / /home rw shared:5 master:2 - nfs4 server:/home rw,vers=4.2
31 27 0:41 / /with\040blank rw - cifs //server/share rw
32 27 0:42 / /mnt/sub rw - btrfs /dev/sdb rw
33 32 0:43 / /mnt/sub/remote rw - fuse.sshfs me@server:/ rw
34 27 0:44 / /over rw - nfs server:/ rw
35 27 0:45 / /over rw - tmpfs tmpfs rw
"""


class TestNetworkFileSystems:
    @pytest.mark.parametrize(
        ("device", "place", "kind"),
        [
            ((0, 40), "/home/me/a.db", "nfs4"),
            ((0, 41), "/with blank/a.db", "cifs"),
            ((0, 43), "/mnt/sub/remote/a.db", "fuse.sshfs"),
            ((254, 0), "/srv/a.db", "ext4"),
            # Btrfs gives its parts devices that are not in the table.
            ((0, 99), "/mnt/sub/a.db", "btrfs"),
            ((0, 99), "/mnt/submarine/a.db", "ext4"),
            ((0, 99), "/with blank/a.db", "cifs"),
            # The later mount covers the earlier.
            ((0, 99), "/over/a.db", "tmpfs"),
        ],
    )
    def test_a_file_system_is_found_by_its_device_or_by_the_longest_folder(self, device, place, kind):
        assert kind == locks.find_mount(MOUNTS, os.makedev(*device), os.fsencode(place))

    def test_lines_that_make_no_sense_are_passed_over(self):
        table = b"\nnonsense\n1 2 3\n1 2 3 4 5 6\n \xff\xff - \n" + MOUNTS

        assert "nfs4" == locks.find_mount(table, os.makedev(0, 40), b"/home/a.db")
        assert "" == locks.find_mount(b"", os.makedev(0, 40), b"/home/a.db")

    @pytest.mark.parametrize(
        "kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "fuse.sshfs", "fuse.rclone"]
    )
    def test_network_file_systems_are_known(self, kind):
        assert locks.is_network(kind)

    @pytest.mark.parametrize(
        "kind", ["", "ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "fuseblk", "fuse.ntfs-3g", "virtiofs"]
    )
    def test_file_systems_of_this_machine_are_none(self, kind):
        assert not locks.is_network(kind)

    @pytest.mark.skipif(not os.path.exists("/proc/self/mountinfo"), reason="no table of mounts here")
    def test_the_machines_own_table_can_be_read(self):
        assert "proc" == locks.read_file_system("/proc/version")
        assert locks.read_file_system("/proc/nowhere/at-all") == ""

    @pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no file system in memory here")
    @pytest.mark.parametrize("read_only", [False, True])
    def test_a_file_on_one_is_refused_unless_the_caller_insists(self, tmp_path, monkeypatch, read_only):
        """A table that says NFS of a file system whose device is no disk's."""
        folder = Path(tempfile.mkdtemp(prefix="reactdb-test-", dir="/dev/shm"))
        device = os.stat(folder).st_dev
        table = tmp_path / "mountinfo"
        table.write_text(f"30 27 {os.major(device)}:{os.minor(device)} / /dev/shm rw - nfs4 server:/ rw\n")
        try:
            if read_only:
                reactdb.connect(folder / "a.db").close()
            before = files_of(folder / "a.db")
            monkeypatch.setattr(locks, "MOUNTS", str(table))

            with pytest.raises(
                reactdb.errors.CannotOpen, match=r"network file system \(nfs4\).*allow_network=True"
            ):
                reactdb.connect(folder / "a.db", read_only=read_only)
            assert before == files_of(folder / "a.db")
            with reactdb.connect(folder / "a.db", read_only=read_only, allow_network=True) as db:
                assert [] == db.table_list()
        finally:
            shutil.rmtree(folder)

    def test_to_insist_is_to_say_true(self, path):
        with pytest.raises(reactdb.InvalidOption, match="allow_network is True or False"):
            reactdb.connect(path, allow_network="yes")  # type: ignore[arg-type]


OPEN = """
import sys, reactdb
try:
    with reactdb.connect(sys.argv[1], read_only=sys.argv[2] == "ro", allow_network=True) as db:
        print("opened", db.table_list())
except reactdb.errors.CannotOpen as error:
    print("refused", error)
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A library that makes locks have no effect in a process that it is preloaded into."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler on Linux")
    library = tmp_path_factory.mktemp("shim") / "nolocks.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, SHIM, "-ldl"], check=True, timeout=60)
    return str(library)


class TestLocksWithoutEffect:
    @pytest.mark.slow
    @pytest.mark.parametrize("mode", ["rw", "ro"])
    @pytest.mark.parametrize("which", [{}, {"NOLOCK_ALL": "1"}])
    def test_a_file_whose_locks_have_no_effect_is_refused(self, path, shim, mode, which):
        with reactdb.connect(path) as db:
            db.table_create("games").insert({"id": 1})
        before = path.read_bytes()

        told = in_process(OPEN, path, mode, LD_PRELOAD=shim, **which)

        assert told.startswith(f"refused cannot open {path}: locks on it have no effect")
        assert before == path.read_bytes()
        assert "opened ['games']" == in_process(OPEN, path, mode)

    def test_no_new_file_is_made_where_locks_have_no_effect(self, path, shim):
        assert in_process(OPEN, path, "rw", LD_PRELOAD=shim).startswith("refused")

        assert [] == files_of(path)

    def test_what_a_crash_has_left_is_refused_too(self, path, shim):
        """There the first look, by a connection that only reads, may not be possible."""
        in_process(
            "import os, sys, reactdb\n"
            "db = reactdb.connect(sys.argv[1]); db.table_create('games').insert({'id': 1})\n"
            "os._exit(0)",
            path,
        )
        os.unlink(f"{path}-shm")

        assert in_process(OPEN, path, "rw", LD_PRELOAD=shim).startswith("refused")
        assert "opened ['games']" == in_process(OPEN, path, "rw")

    def test_locks_are_found_whatever_else_is_open(self, path, tmp_path):
        """Also where the process has many files open, and this one more than once."""
        with another_process(path) as db:
            db.table_create("games")
            others = [open(os.devnull, "rb") for _ in range(50)]  # noqa: SIM115
            try:
                with another_process(path) as other:
                    assert ["games"] == other.table_list()
            finally:
                for other_file in others:
                    other_file.close()

    def test_a_database_that_is_not_in_wal_mode_can_be_read(self, path):
        """SQLite keeps its lock on such a file only as long as it reads."""
        with reactdb.connect(path) as db:
            db.table_create("games")
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.close()

        with reactdb.connect(path, read_only=True) as db:
            assert ["games"] == db.table_list()
        with reactdb.connect(path) as db:
            db.table("games").insert({"id": 1})
            assert Path(f"{path}-wal").exists()

    @pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no list of descriptors here")
    def test_a_look_leaves_no_descriptor_open(self, path):
        reactdb.connect(path).close()
        before = os.listdir("/proc/self/fd")
        for _ in range(5):
            reactdb.connect(path).close()

        assert len(before) == len(os.listdir("/proc/self/fd"))

    @pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no list of descriptors here")
    def test_a_statement_that_has_not_ended_leaves_no_descriptor_open(self, path):
        """SQLite puts off closing as long as there is one. The last statement of the writer's cursor can be one that failed."""
        before = os.listdir("/proc/self/fd")
        with reactdb.connect(path) as db:
            writer = session_of(db).engine.writer
            assert writer is not None
            writer.cursor.execute("SELECT seq FROM log UNION ALL SELECT 1 UNION ALL SELECT 2")

        assert len(before) == len(os.listdir("/proc/self/fd"))


class TestTheSwitchToWal:
    def test_a_switch_that_only_seems_to_have_worked_is_found_out(self, path, monkeypatch):
        """After a failed sync, the connection that switched believes in a write-ahead log that the file does not have."""

        class Deluded:
            def __init__(self, connection: Any) -> None:
                self.connection = connection

            def __getattr__(self, name: str) -> Any:
                return getattr(self.connection, name)

            def execute(self, statement: str, *arguments: Any) -> Any:
                if statement == "PRAGMA journal_mode=WAL":
                    statement = "SELECT 'wal'"
                return self.connection.execute(statement, *arguments)

        real = Engine.connect
        monkeypatch.setattr(
            Engine,
            "connect",
            lambda self, mode: Deluded(real(self, mode)) if mode == "rwc" else real(self, mode),
        )

        with pytest.raises(reactdb.errors.CannotOpen, match="cannot keep a write-ahead log"):
            reactdb.connect(path)


def make_other(path: Path, kind: str) -> None:
    """Something with a name that is no regular file."""
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
    else:
        path.symlink_to(os.devnull)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such files")
@pytest.mark.parametrize("kind", ["fifo", "socket", "device"])
class TestWhatIsNoRegularFile:
    @pytest.fixture
    def path(self) -> Iterator[Path]:
        # The name of a socket must be short.
        with tempfile.TemporaryDirectory(prefix="reactdb-") as folder:
            yield Path(folder) / "a.db"

    @pytest.mark.parametrize("read_only", [False, True])
    def test_it_is_refused_and_nothing_is_left_beside_it(self, path, kind, read_only):
        make_other(path, kind)
        with pytest.raises(reactdb.errors.CannotOpen, match=r"it is not a regular file$"):
            reactdb.connect(path, read_only=read_only)

        assert ["a.db"] == files_of(path)
        assert not any(os.path.lexists(os.devnull + suffix) for suffix in SUFFIXES[1:])

    def test_it_is_not_removed(self, path, kind):
        make_other(path, kind)
        with pytest.raises(reactdb.errors.CannotOpen, match=r"it is not a regular file$"):
            reactdb.delete_database(path)

        assert ["a.db"] == files_of(path)
        assert os.path.exists(os.devnull)


FOREIGN_READER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(connection.execute("SELECT count(*) FROM log").fetchone()[0])
connection.close()
"""


READ = """
import sys, reactdb
with reactdb.connect(sys.argv[1]) as db:
    print(db.table("games").run())
"""

FORKED = """
import os, subprocess, sys, warnings
import reactdb
warnings.simplefilter("ignore", DeprecationWarning)
path = sys.argv[1]
db = reactdb.connect(path)
db.table_create("games").insert({"id": 1})
opened, closed = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    with reactdb.connect(path) as own:
        games = own.table("games")
        games.insert({"id": 2})
        os.write(opened[1], b"x")
        os.read(closed[0], 1)
        # Somebody who comes and goes, when the parent has gone.
        code = "import reactdb, sys; reactdb.connect(sys.argv[1]).close()"
        subprocess.run([sys.executable, "-c", code, path], check=True)
        games.insert({"id": 3})
        print(os.path.exists(path + "-wal"), [document["id"] for document in games], flush=True)
    os._exit(0)
os.read(opened[0], 1)
db.close()
os.write(closed[1], b"x")
assert os.waitpid(child, 0)[1] == 0
"""


FORKED_INSIDE = """
import os, sys
import reactdb
db = reactdb.connect(sys.argv[1])
games = db.table_create("games")
games.insert({"id": 1})
with db.transaction():
    games.insert({"id": 2})
    child = os.fork()
    if child == 0:
        try:
            reactdb.connect(sys.argv[1])
        except reactdb.errors.ForkedDatabase as error:
            print(type(error).__name__)
        try:
            reactdb.connect(sys.argv[1], read_only=True)
        except reactdb.errors.ForkedDatabase as error:
            print(type(error).__name__, flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
print(games.run())
"""


class TestLostLocks:
    """Whatever opens the file by itself in this process, and closes it, takes SQLite's locks with it."""

    def test_a_write_after_the_locks_were_lost_is_not_acknowledged(self, path):
        with reactdb.connect(path) as db:
            games = db.table_create("games")
            games.insert({"id": 1})
            path.read_bytes()
            # Nobody else seems to have it open, so whoever closes it now takes the write-ahead log away.
            assert "2" == in_process(FOREIGN_READER, path)
            assert not Path(f"{path}-wal").exists()

            with pytest.raises(reactdb.errors.StorageMoved):
                games.insert({"id": 2})
            with pytest.raises(reactdb.errors.StorageMoved):
                games.insert({"id": 3})

        with pytest.raises(reactdb.errors.StorageMoved, match="start the program again"):
            reactdb.connect(path)
        assert "[{'id': 1}]" == in_process(READ, path)

    def test_a_file_of_its_own_inode_can_be_opened_where_the_log_of_another_was_lost(self, path):
        with reactdb.connect(path) as db:
            db.table_create("games")
            os.unlink(f"{path}-wal")
        with pytest.raises(reactdb.errors.StorageMoved, match="start the program again"):
            reactdb.delete_database(path)
        path.unlink()

        with reactdb.connect(path) as db:
            db.table_create("games").insert({"id": 1})

    def test_locks_that_this_process_has_lost_are_taken_again(self, path):
        """Opened once more, the process has them as SQLite believes, and nobody takes the write-ahead log away."""
        with reactdb.connect(path) as db:
            games = db.table_create("games")
            path.read_bytes()
            with reactdb.connect(path, read_only=True):
                assert "1" == in_process(FOREIGN_READER, path)
                games.insert({"id": 2})

                assert Path(f"{path}-wal").exists()

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
    def test_a_child_of_fork_has_locks_of_its_own(self, path):
        """The parent's do not come along, and SQLite does not notice. When the parent closes the file, it must stay the
        child's."""
        assert "True [1, 2, 3]" == in_process(FORKED, path)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
    def test_a_child_that_was_forked_inside_a_transaction_is_told_that_it_cannot_open_the_file(self, path):
        """SQLite takes the parent's transaction for one of the child's own, and would wait for it for ever."""
        told = in_process(FORKED_INSIDE, path)

        assert ["ForkedDatabase", "ForkedDatabase", "[{'id': 1}, {'id': 2}]"] == told.splitlines()

    def test_every_connection_is_of_one_copy_of_sqlite(self):
        """pysqlite3 where it is installed, and then for everything."""
        from sqlite_utils.utils import sqlite3 as chosen

        assert sqlite.sqlite3 is chosen

    @pytest.mark.parametrize("has_dbapi2", [True, False])
    def test_a_copy_that_is_installed_is_chosen_as_sqlite_utils_chooses(self, has_dbapi2, tmp_path):
        """Also where half of it is there."""
        package = tmp_path / "pysqlite3"
        package.mkdir()
        (package / "__init__.py").write_text("from sqlite3 import *\nfrom sqlite3 import dbapi2 as _dbapi2\n")
        if has_dbapi2:
            (package / "dbapi2.py").write_text("from sqlite3.dbapi2 import *\n")
        script = (
            "import sys; sys.path.insert(0, sys.argv[1]); from reactdb.store.file import sqlite;"
            " from sqlite_utils.utils import sqlite3 as chosen; assert sqlite.sqlite3 is chosen; print(chosen.__name__)"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
        )

        assert ("pysqlite3" if has_dbapi2 else "sqlite3") == done.stdout.strip()


class TestTheWalResetBug:
    @pytest.fixture
    def told(self, monkeypatch, caplog) -> Any:
        monkeypatch.setattr(external_writers, "wal_reset", external_writers.WalResetNotice())
        monkeypatch.setattr(sqlite, "has_wal_reset_bug", lambda: True)
        caplog.set_level(logging.WARNING, "reactdb")
        return lambda: [record.message for record in caplog.records if "WAL-reset" in record.message]

    def test_a_process_alone_is_told_nothing(self, path, told):
        for _ in range(3):
            with reactdb.connect(path, durability="soft") as db:
                games = db.table_create("games", exist_ok=True)
                for n in range(3):
                    games.insert({"n": n})
                with pytest.raises(ZeroDivisionError), db.transaction():
                    raise ZeroDivisionError
                db.compact(0)
                games.insert({"n": 3})

        assert [] == told()

    def test_one_that_writes_beside_another_is_told_once(self, path, told):
        with reactdb.connect(path, durability="soft") as db, another_process(path) as other:
            games = db.table_create("games")
            for n in range(3):
                games.insert({"n": n})
                other.table("games").insert({"n": -n})

        (message,) = told()
        assert str(path) in message
        assert sqlite.sqlite3.sqlite_version in message
        assert "pip install 'reactdb[sqlite]'" in message

    def test_with_a_newer_sqlite_nothing_is_said(self, path, told, monkeypatch):
        monkeypatch.setattr(sqlite, "has_wal_reset_bug", lambda: False)
        with reactdb.connect(path, durability="soft") as db, another_process(path) as other:
            games = db.table_create("games")
            for n in range(3):
                games.insert({"n": n})
                other.table("games").insert({"n": -n})

        assert [] == told()


NEW_FILE = """
import os, sys, reactdb
os.umask(int(sys.argv[2], 8))
with reactdb.connect(sys.argv[1]) as db:
    db.table_create("games").insert({"id": 1})
    print(*[oct(os.stat(sys.argv[1] + suffix).st_mode & 0o777) for suffix in ("", "-wal", "-shm")])
"""


class TestNewFiles:
    @pytest.mark.slow
    @pytest.mark.skipif(os.name == "nt", reason="no umask there")
    @pytest.mark.parametrize(
        ("umask", "mode"), [("022", 0o644), ("077", 0o600), ("027", 0o640), ("002", 0o664), ("000", 0o666)]
    )
    def test_a_new_file_and_those_beside_it_are_as_the_umask_has_it(self, path, umask, mode):
        assert " ".join([oct(mode)] * 3) == in_process(NEW_FILE, path, umask)

    @pytest.mark.skipif(os.name == "nt", reason="no umask there")
    def test_the_files_beside_an_older_one_have_its_permissions(self, path):
        in_process(NEW_FILE, path, "022")
        path.chmod(0o600)
        with reactdb.connect(path) as db:
            db.table("games").insert({"id": 2})

            assert [0o600] * 3 == [
                stat.S_IMODE(os.stat(f"{path}{suffix}").st_mode) for suffix in ("", "-wal", "-shm")
            ]

    def test_many_processes_that_make_one_file_at_once_make_one_database(self, path):
        script = (
            "import sys, reactdb\n"
            "print('ready', flush=True); sys.stdin.readline()\n"
            "with reactdb.connect(sys.argv[1], durability='soft', busy_timeout=30) as db:\n"
            "    db.table_create('games', exist_ok=True).insert({'id': int(sys.argv[2])})\n"
        )
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", script, str(path), str(n)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for n in range(6)
        ]
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in processes:
            process.communicate(timeout=60)
            assert 0 == process.returncode

        with reactdb.connect(path) as db:
            assert list(range(6)) == [document["id"] for document in db.table("games")]


CRASHED = """
import os, sys, reactdb
db = reactdb.connect(sys.argv[1])
db.table_create("games").insert({"id": 1})
os._exit(0)
"""

HOLDER = """
import sys, reactdb
with reactdb.connect(sys.argv[1], read_only=sys.argv[2] == "ro") as db:
    print("ready", flush=True)
    sys.stdin.read()
"""


class TestRemove:
    def test_all_files_of_a_database_are_removed(self, path):
        in_process(CRASHED, path)
        assert ["a.db", "a.db-shm", "a.db-wal"] == files_of(path)

        assert reactdb.delete_database(path) is None
        assert [] == files_of(path)

    def test_a_database_made_anew_has_nothing_of_the_old_one(self, path):
        in_process(CRASHED, path)
        reactdb.delete_database(path)

        with reactdb.connect(path) as db:
            assert [] == db.table_list()
            assert 0 == db.seq

    @pytest.mark.parametrize("read_only", [False, True])
    def test_what_this_process_has_open_is_not_removed(self, path, read_only):
        reactdb.connect(path).close()
        with reactdb.connect(path, read_only=read_only):
            before = files_of(path)
            with pytest.raises(reactdb.DatabaseBusy, match="is open in this process; close it first"):
                reactdb.delete_database(path)
            assert before == files_of(path)
        reactdb.delete_database(path)

        assert [] == files_of(path)

    @pytest.mark.parametrize("mode", ["rw", "ro"])
    def test_what_another_process_has_open_is_not_removed(self, path, mode):
        reactdb.connect(path).close()
        command = [sys.executable, "-c", HOLDER, str(path), mode]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
            assert holder.stdout is not None
            holder.stdout.readline()
            before = files_of(path)
            with pytest.raises(reactdb.DatabaseBusy, match="is open in another process; nothing was deleted"):
                reactdb.delete_database(path)
            assert before == files_of(path)
            holder.communicate(timeout=60)
        reactdb.delete_database(path)

        assert [] == files_of(path)

    @pytest.mark.parametrize("is_there", [True, False])
    def test_a_write_ahead_log_that_lost_its_file_is_removed(self, path, is_there):
        """What `connect` refuses to open, and says so."""
        in_process(CRASHED, path)
        path.unlink()
        if is_there:
            path.touch()
        with pytest.raises(reactdb.errors.CannotOpen, match=r"reactdb\.delete_database\(path\)"):
            reactdb.connect(path)
        reactdb.delete_database(path)

        assert [] == files_of(path)

    def test_a_damaged_database_can_be_removed(self, path):
        with reactdb.connect(path) as db:
            db.table_create("games").insert({"id": 1})
        content = path.read_bytes()
        path.write_bytes(content[:200] + bytes(len(content) - 200))
        reactdb.delete_database(path)

        assert [] == files_of(path)

    def test_other_files_are_not_removed(self, path):
        path.write_text("a letter to a friend, long enough to be taken for a database\n" * 100)
        with pytest.raises(reactdb.errors.NotADatabase):
            reactdb.delete_database(path)
        foreign = path.with_name("b.db")
        connection = sqlite3.connect(foreign)
        connection.execute("CREATE TABLE letters (text)")
        connection.close()
        before = foreign.read_bytes()
        with pytest.raises(reactdb.errors.NotADatabase):
            reactdb.delete_database(foreign)

        assert ["a.db", "b.db"] == files_of(path)
        assert before == foreign.read_bytes()

    def test_neighbours_with_longer_names_stay(self, path):
        reactdb.connect(path).close()
        for name in ("a.db-walrus", "a.db2", "a.db-wal.txt"):
            path.with_name(name).touch()
        reactdb.delete_database(path)

        assert ["a.db-wal.txt", "a.db-walrus", "a.db2"] == files_of(path)

    def test_where_nothing_is_there_is_nothing_to_remove(self, path):
        with pytest.raises(reactdb.errors.CannotOpen, match="it does not exist"):
            reactdb.delete_database(path)
        with pytest.raises(reactdb.errors.CannotOpen, match="it is a folder"):
            reactdb.delete_database(path.parent)
        with pytest.raises(reactdb.InvalidOption, match="in memory"):
            reactdb.delete_database(":memory:")
        with pytest.raises(reactdb.InvalidOption, match="name of a file"):
            reactdb.delete_database(None)  # type: ignore[arg-type]
