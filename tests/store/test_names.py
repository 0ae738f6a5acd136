"""Names: a file with two names has two write-ahead logs, so it is refused, and nothing that was acknowledged is lost."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.database import Database
from reactdb.session import Session, session_of
from reactdb.store import exports
from reactdb.store.engine import Engine
from reactdb.store.file import names
from reactdb.store.tools.doctor import examine
from reactdb.store.tools.figures import measure
from reactdb.store.tools.salvage import Salvage
from tests.support.command import error_of, run
from tests.support.processes import run_python

TWO_NAMES = r"^cannot open .*: it has 2 names \(hard links"
OTHER_LOG = r"has it open by another name"
# Opens the file, writes what it reads, a number in each line, and says so.
WRITER = """
import sys, reactdb
db = reactdb.connect(sys.argv[1])
print("open", flush=True)
for line in sys.stdin:
    db.table("games").insert({"id": int(line)})
    print(line.strip(), flush=True)
db.close()
"""
OPENER = """
import sys, reactdb
try:
    with reactdb.connect(sys.argv[1], read_only=sys.argv[2] == "True") as db:
        print("open", db.table("games").count().run())
except reactdb.errors.CannotOpen as error:
    print(error)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a database with a table."""
    with reactdb.connect(tmp_path / "a.db") as db:
        db.table_create("games")
    return tmp_path / "a.db"


@pytest.fixture
def link(path: Path) -> Path:
    """A name that the file has not yet."""
    return path.with_name("b.db")


class Writer:
    """Another process that writes to the file."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert "open" == self._said()

    def _said(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def write(self, number: int) -> None:
        """It returns when the write was acknowledged."""
        assert self.process.stdin is not None
        print(number, file=self.process.stdin, flush=True)
        assert str(number) == self._said()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=60)


@contextmanager
def another_writer(path: Path) -> Iterator[Writer]:
    writer = Writer(path)
    try:
        yield writer
    finally:
        writer.process.communicate(timeout=60)


def keys(path: Path) -> list[Any]:
    with reactdb.connect(path) as db:
        return [document["id"] for document in db.table("games").run()]


def connect_by_itself(path: Path) -> Any:
    """An engine that the registry does not know."""
    return Database(Session(Engine(str(path), read_only=False, busy_timeout_s=1.0), "soft"))


class TestAFileWithTwoNames:
    @pytest.mark.parametrize("name", ["a.db", "b.db"])
    @pytest.mark.parametrize(
        "act",
        [
            lambda path: reactdb.connect(path),
            lambda path: reactdb.connect(path, read_only=True),
            lambda path: connect_by_itself(path),
            lambda path: list(examine(str(path))),
            lambda path: measure(str(path)),
            lambda path: Salvage(str(path)),
            lambda path: exports.open_to_read(str(path), busy_timeout_s=1.0, allow_network=False).__enter__(),
            lambda path: reactdb.delete_database(path),
        ],
        ids=["write", "read", "engine", "doctor", "inspect", "salvage", "Spark", "remove"],
    )
    def test_it_is_refused_by_every_door(self, path, link, name, act: Callable[[Path], Any]):
        os.link(path, link)

        with pytest.raises(reactdb.errors.CannotOpen, match=TWO_NAMES):
            act(path.with_name(name))
        assert ["a.db", "b.db"] == sorted(one.name for one in path.parent.iterdir())

    @pytest.mark.parametrize(
        "arguments",
        [
            ["rows", "{}", "games"],
            ["doctor", "{}"],
            ["inspect", "{}"],
            ["tail", "{}"],
            ["export", "{}", "games"],
            ["export", "--salvage", "{}"],
            ["compact", "--keep", "1", "{}"],
            ["consumers", "{}"],
        ],
        ids=lambda arguments: " ".join(arguments).replace(" {}", ""),
    )
    def test_the_commands_say_the_same(self, path, link, arguments):
        os.link(path, link)

        assert "it has 2 names (hard links" in error_of(run(*[one.format(link) for one in arguments]))

    def test_a_link_in_another_folder_counts(self, path, tmp_path):
        (tmp_path / "elsewhere").mkdir()
        os.link(path, tmp_path / "elsewhere" / "a.db")

        with pytest.raises(reactdb.errors.CannotOpen, match=TWO_NAMES) as caught:
            reactdb.connect(path)
        assert str(path) == caught.value.path

    def test_the_error_says_which_names_there_are_and_which_to_keep(self, path, link):
        with another_writer(path) as writer:
            writer.write(1)
            writer.kill()
        os.link(path, link)

        with pytest.raises(reactdb.errors.CannotOpen) as caught:
            reactdb.connect(link)
        assert f"also {path}" in caught.value.reason
        assert f"keep {path}, which has a -wal beside it" in caught.value.reason

    def test_one_that_was_renamed_is_refused_by_both(self, path, link):
        os.link(path, link)
        link.rename(link.with_name("c.db"))

        for name in ("a.db", "c.db"):
            with pytest.raises(reactdb.errors.CannotOpen, match=TWO_NAMES):
                reactdb.connect(path.with_name(name))

    def test_it_can_be_opened_when_the_other_name_is_gone(self, path, link):
        os.link(path, link)
        with pytest.raises(reactdb.errors.CannotOpen):
            reactdb.connect(link)
        path.unlink()

        assert [] == keys(link)

    def test_a_copy_of_it_can_be_opened(self, path, link, tmp_path):
        os.link(path, link)
        shutil.copy(path, tmp_path / "copy.db")

        assert [] == keys(tmp_path / "copy.db")

    def test_it_is_refused_where_the_system_has_neither_such_locks_nor_attributes(
        self, path, link, monkeypatch
    ):
        monkeypatch.setattr(names, "fcntl", None)
        for function in ("getxattr", "setxattr", "removexattr"):
            monkeypatch.delattr(os, function, raising=False)
        with reactdb.connect(path) as db:
            db.table("games").insert({"id": 1})
            os.link(path, link)
            with pytest.raises(reactdb.errors.CannotOpen, match=TWO_NAMES):
                reactdb.connect(link)
        link.unlink()

        assert [1] == keys(path)

    def test_a_file_system_without_attributes_is_no_trouble(self, path, monkeypatch):
        def refuse(*arguments: Any) -> None:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")

        for function in ("getxattr", "setxattr", "removexattr"):
            monkeypatch.setattr(os, function, refuse, raising=False)
        with reactdb.connect(path) as db:
            db.table("games").insert({"id": 1})

        assert [1] == keys(path)

    def test_a_symbolic_link_is_no_name(self, path, tmp_path):
        (tmp_path / "folder").mkdir()
        symbolic = tmp_path / "folder" / "b.db"
        symbolic.symlink_to(path)
        (tmp_path / "same").symlink_to(tmp_path)
        with reactdb.connect(path) as db:
            db.table("games").insert({"id": 1})
            for name in (symbolic, tmp_path / "same" / "a.db"):
                assert "open 1\n" == run_python(OPENER, name, False)
        assert ["folder", "same"] == sorted(one.name for one in tmp_path.iterdir() if one.is_dir())
        assert ["b.db"] == os.listdir(tmp_path / "folder")


class TestALinkThatIsMadeWhileTheFileIsOpen:
    @pytest.mark.parametrize("read_only", [False, True])
    def test_nobody_opens_the_file_by_it_and_the_first_goes_on(self, path, link, read_only):
        with reactdb.connect(path) as db:
            games = db.table("games")
            games.insert({"id": "first"})
            os.link(path, link)

            assert "it has 2 names" in run_python(OPENER, link, read_only)
            with pytest.raises(reactdb.errors.CannotOpen, match=TWO_NAMES):
                reactdb.connect(link)
            games.insert({"id": "third"})
            assert 3 == db.seq
        link.unlink()

        assert ["first", "third"] == keys(path)

    @pytest.mark.parametrize("number", range(3))
    def test_nothing_is_lost_where_the_first_is_killed(self, path, link, number):
        with another_writer(path) as writer:
            writer.write(0)
            os.link(path, link)
            for one in range(1, number + 2):
                writer.write(one)
            writer.kill()
        for name in (path, link):
            with pytest.raises(reactdb.errors.CannotOpen, match=TWO_NAMES):
                reactdb.connect(name)
        link.unlink()

        assert list(range(number + 2)) == keys(path)


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="elsewhere than on Linux no lock names the log"
)
class TestAnotherNameThatIsInUse:
    """The number of links says nothing: the other name is gone again, or it is a mount."""

    @pytest.mark.parametrize("read_only", [False, True])
    def test_the_file_is_refused_until_the_process_that_uses_the_other_name_has_ended(
        self, path, link, read_only
    ):
        with another_writer(path) as writer:
            writer.write(1)
            os.link(path, link)
            path.unlink()
            with pytest.raises(reactdb.errors.CannotOpen, match=f"process {writer.process.pid} {OTHER_LOG}"):
                reactdb.connect(link, read_only=read_only)
            with pytest.raises(reactdb.errors.CannotOpen, match=OTHER_LOG):
                measure(str(link))
            os.link(link, path)
            link.unlink()

        assert [1] == keys(path)

    def test_who_only_reads_by_it_counts_too(self, path, link):
        reader = """
import sys, reactdb
with reactdb.connect(sys.argv[1], read_only=True):
    print("open", flush=True)
    sys.stdin.readline()
"""
        with subprocess.Popen(
            [sys.executable, "-c", reader, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert "open\n" == process.stdout.readline()
            path.rename(link)
            with pytest.raises(reactdb.errors.CannotOpen, match=OTHER_LOG):
                reactdb.connect(link)
            process.communicate("\n", timeout=60)

        assert [] == keys(link)

    def test_the_lock_stays_whatever_else_is_opened_and_closed(self, path, link):
        with reactdb.connect(path) as db:
            # Another engine of this process, readers that are opened and closed, and a checkpoint.
            reactdb.connect(path, read_only=True).close()
            with session_of(db).engine.snapshot(), session_of(db).engine.snapshot():
                db.table("games").insert({"id": 1})
            db.compact(keep=1, vacuum=True)
            os.link(path, link)
            path.unlink()

            assert OTHER_LOG in run_python(OPENER, link, False)

    def test_a_file_that_is_opened_for_the_first_time_is_locked_too(self, tmp_path, link):
        with reactdb.connect(tmp_path / "new.db") as db:
            db.table_create("games")
            os.link(tmp_path / "new.db", link)
            (tmp_path / "new.db").unlink()

            assert OTHER_LOG in run_python(OPENER, link, False)

    def test_a_bind_mount_of_the_file_is_refused_and_one_of_its_folder_is_not(self, path, tmp_path):
        (tmp_path / "file").touch()
        (tmp_path / "folder").mkdir()
        with mounted(path, tmp_path / "file"), mounted(path.parent, tmp_path / "folder"):
            with reactdb.connect(path) as db:
                db.table("games").insert({"id": 1})

                assert OTHER_LOG in run_python(OPENER, tmp_path / "file", False)
                assert OTHER_LOG in run_python(OPENER, tmp_path / "file", True)
                assert "open 1\n" == run_python(OPENER, tmp_path / "folder" / "a.db", False)
            assert "open 1\n" == run_python(OPENER, tmp_path / "file", False)

    def test_each_name_and_each_folder_has_a_byte_of_its_own(self, tmp_path):
        (tmp_path / "folder").mkdir()
        places = [str(tmp_path / "a.db"), str(tmp_path / "b.db"), str(tmp_path / "folder" / "a.db")]
        found = {names.log_byte(place) for place in places}

        assert 3 == len(found)
        assert all(names.LOGS <= byte < names.LOGS + names.LOG_COUNT for byte in found)


class TestALogThatWasLeftBehind:
    """By a process that was killed, or whose file was renamed while it was open."""

    @pytest.fixture(autouse=True)
    def skip_without_notes(self, path: Path) -> None:
        try:
            os.setxattr(path, "user.test", b"1")
        except (AttributeError, OSError):
            pytest.skip("files have no attributes here")

    LEFT = r"^cannot open .*b\.db: its newest commits are in .*a\.db-wal"

    @pytest.mark.parametrize("is_killed", [False, True])
    def test_nothing_is_lost_where_a_file_is_renamed_without_its_log(self, path, link, is_killed):
        with another_writer(path) as writer:
            writer.write(1)
            path.rename(link)
            if is_killed:
                writer.kill()
        for act in (
            lambda: reactdb.connect(link),
            lambda: reactdb.connect(link, read_only=True),
            lambda: measure(str(link)),
        ):
            with pytest.raises(reactdb.errors.CannotOpen, match=self.LEFT):
                act()
        assert "its newest commits are in" in " ".join(Salvage(str(link)).troubles)
        link.rename(path)

        assert [1] == keys(path)
        path.rename(link)
        assert [1] == keys(link)

    def test_the_log_can_be_moved_to_the_new_name(self, path, link):
        with another_writer(path) as writer:
            writer.write(1)
            writer.kill()
        path.rename(link)
        with pytest.raises(reactdb.errors.CannotOpen, match=self.LEFT):
            reactdb.connect(link)
        Path(f"{path}-wal").rename(f"{link}-wal")

        assert [1] == keys(link)

    def test_nothing_is_lost_where_the_name_that_has_the_log_is_removed(self, path, link):
        with another_writer(path) as writer:
            writer.write(1)
            os.link(path, link)
            writer.write(2)
            writer.kill()
        path.unlink()

        with pytest.raises(reactdb.errors.CannotOpen, match=self.LEFT):
            reactdb.connect(link)
        os.link(link, path)
        link.unlink()
        assert [1, 2] == keys(path)

    def test_who_removes_it_does_without(self, path, link):
        with another_writer(path) as writer:
            writer.write(1)
            writer.kill()
        path.rename(link)
        Path(f"{path}-wal").unlink()

        assert [] == keys(link)

    def test_a_file_that_was_closed_can_be_renamed_and_copied_as_one_likes(self, path, link, tmp_path):
        with reactdb.connect(path) as db:
            db.table("games").insert({"id": 1})
        path.rename(link)
        shutil.copy2(link, path)
        with reactdb.connect(path) as db, reactdb.connect(link) as other:
            assert [1, 1] == [one.table("games").count().run() for one in (db, other)]
        with another_writer(path) as writer:
            writer.write(2)
            # The copy has the note of this one, and is another file.
            shutil.copy2(path, tmp_path / "copy.db")
            writer.kill()
        assert [1] == keys(tmp_path / "copy.db")
        assert ["user.test"] == os.listxattr(link)

    def test_all_files_of_it_can_be_renamed_together(self, path, link):
        with another_writer(path) as writer:
            writer.write(1)
            writer.kill()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{path}{suffix}").rename(f"{link}{suffix}")

        assert [1] == keys(link)

    def test_the_log_of_another_database_is_none_of_it(self, path, link):
        """The note names a log, and meanwhile that is another one with the same inode."""
        with another_writer(path) as writer:
            writer.write(1)
            writer.kill()
        path.rename(link)
        with another_writer(path.with_name("c.db")) as writer:
            writer.kill()
        Path(f"{path}-wal").write_bytes(Path(f"{path.with_name('c.db')}-wal").read_bytes())

        assert [] == keys(link)

    def test_a_bind_mount_of_the_file_is_refused_after_a_kill_too(self, path, link):
        link.touch()
        with mounted(path, link):
            with another_writer(path) as writer:
                writer.write(1)
                writer.kill()
            with pytest.raises(reactdb.errors.CannotOpen, match=self.LEFT):
                reactdb.connect(link)
            assert [1] == keys(path)
            assert [1] == keys(link)


@contextmanager
def mounted(what: Path, where: Path) -> Iterator[None]:
    """Skips the test where this user may not mount."""
    if shutil.which("mount") is None or os.geteuid() != 0:
        pytest.skip("to mount takes root")
    done = subprocess.run(["mount", "--bind", what, where], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", where], check=True)
