"""Files in read-only folders: they are read as files without a writer, or refused with the reason.

Permissions do not stop root, so these tests use a read-only mount of the folder, and are skipped if that is impossible.
`test_bad_input` tries another user in a folder of root's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import reactdb
from reactdb.cli import main
from reactdb.session import session_of
from reactdb.store.file import immutable
from reactdb.store.tools.figures import measure
from tests.support.kept_files import unpack
from tests.support.read_only import mounted_read_only


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that others may look into."""
    found = Path(tempfile.mkdtemp(prefix="reactdb-test-"))
    found.chmod(0o755)
    yield found
    shutil.rmtree(found)


@pytest.fixture
def mounted(folder: Path, tmp_path: Path) -> Iterator[Path]:
    """The same folder, as it is on a medium that cannot be written."""
    with mounted_read_only(folder, tmp_path / "read-only") as place:
        yield place


def fill(path: Path, count: int = 10) -> Path:
    with reactdb.connect(path, durability="soft") as db:
        games = db.table_create("games")
        games.index_create("n")
        games.insert([{"id": n, "n": -n} for n in range(count)])
    return path


def elsewhere(script: str, *arguments: object) -> str:
    """What a script prints in another process."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert 0 == done.returncode, done.stderr
    return done.stdout.strip()


WRITE = """
import sys, reactdb
with reactdb.connect(sys.argv[1]) as db:
    db.table("games").insert({"id": "another"})
"""

CRASH = """
import os, sys, reactdb
db = reactdb.connect(sys.argv[1])
db.table("games").insert([{"id": f"new {n}"} for n in range(5)])
os._exit(0)
"""


def test_a_file_on_a_read_only_medium_is_read(folder: Path, mounted: Path):
    fill(folder / "a.db")
    before = sorted(os.listdir(folder))

    with reactdb.connect(mounted / "a.db", read_only=True) as db:
        games = db.table("games")
        assert {"id": 3, "n": -3} == games.get(3).run()
        assert 10 == games.count().run()
        assert [{"id": 9, "n": -9}] == games.get_all(-9, index="n").run()
        assert list(range(3, 13)) == [change.seq for change in db.log(table="games")]
        assert 4 == db.at(6).table("games").count().run()
        with games.changes(since=db.token).cursor():
            pass
        with games.changes(include_initial=True).cursor() as cursor:
            assert list(range(10)) == [cursor.next(timeout=5)["new_val"]["id"] for _ in range(10)]
            with reactdb.connect(mounted / "a.db", read_only=True) as second:
                assert second.token == db.token
        with pytest.raises(reactdb.errors.ReadOnlyDatabase):
            games.delete()

    assert before == sorted(os.listdir(folder))


def test_an_older_format_is_read_there_as_it_is(folder: Path, mounted: Path):
    path = unpack("format-1-closed", folder)

    with reactdb.connect(mounted / path.relative_to(folder), read_only=True) as db:
        assert db.table_list()
        for name in db.table_list():
            assert db.table(name).count().run() == len(db.table(name).run())


def test_to_write_there_is_refused_with_what_helps(folder: Path, mounted: Path):
    fill(folder / "a.db")

    with pytest.raises(reactdb.errors.CannotOpen, match=r"may not be written .* read_only=True"):
        reactdb.connect(mounted / "a.db")


def test_commits_in_a_log_that_cannot_be_read_are_not_passed_over(folder: Path, mounted: Path):
    fill(folder / "a.db")
    elsewhere(CRASH, folder / "a.db")
    (folder / "a.db-shm").unlink()
    assert (folder / "a.db-wal").stat().st_size

    openings: tuple[Callable[[], object], ...] = (
        lambda: reactdb.connect(mounted / "a.db", read_only=True),
        lambda: measure(str(mounted / "a.db")),
    )
    for opening in openings:
        with pytest.raises(
            reactdb.errors.CannotOpen, match=r"a\.db-wal may hold commits that are not in the file yet"
        ):
            opening()

    told = CliRunner().invoke(main, ["rows", str(mounted / "a.db"), "games"])
    assert 1 == told.exit_code
    assert "may hold commits" in told.stderr


def test_commits_in_a_log_that_can_be_read_are_read(folder: Path, mounted: Path):
    """SQLite reads what is there: it can make nothing, but has nothing to make."""
    fill(folder / "a.db")
    elsewhere(CRASH, folder / "a.db")

    with reactdb.connect(mounted / "a.db", read_only=True) as db:
        assert 15 == db.table("games").count().run()


def test_a_log_that_is_empty_holds_nothing(folder: Path, mounted: Path):
    fill(folder / "a.db")
    (folder / "a.db-wal").touch()

    with reactdb.connect(mounted / "a.db", read_only=True) as db:
        assert 10 == db.table("games").count().run()


def test_somebody_who_begins_to_write_is_noticed_by_the_next_read(folder: Path, mounted: Path):
    fill(folder / "a.db")
    with reactdb.connect(mounted / "a.db", read_only=True) as db:
        games = db.table("games")
        assert 10 == games.count().run()
        with reactdb.connect(mounted / "a.db", read_only=True) as second:
            assert 10 == second.table("games").count().run()

        elsewhere(WRITE, folder / "a.db")

        for use in (
            lambda: games.get(1).run(),
            games.run,
            lambda: db.token,
            lambda: games.changes().cursor(),
        ):
            with pytest.raises(
                reactdb.errors.StorageMoved,
                match=r"without writers, and has changed: close this .* open it again",
            ):
                use()

    with reactdb.connect(mounted / "a.db", read_only=True) as db:
        assert 11 == db.table("games").count().run()


def test_a_writer_who_has_it_open_is_followed_and_one_who_comes_later_ends_the_feeds(
    folder: Path, mounted: Path
):
    fill(folder / "a.db")
    with reactdb.connect(mounted / "a.db", read_only=True) as db:
        errors: list[Exception] = []
        db.table("games").changes().subscribe(lambda event: None, errors.append)
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import sys, reactdb\n"
                "db = reactdb.connect(sys.argv[1]); db.table('games').insert({'id': 'x'}); print('done', flush=True); input()",
                str(folder / "a.db"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            assert "done" == process.stdout.readline().strip()
            end = time.monotonic() + 10
            while not errors and time.monotonic() < end:
                time.sleep(0.01)
            assert [reactdb.errors.StorageMoved] == [type(error) for error in errors]
            assert "has a writer now" in str(errors[0])
            with (
                reactdb.connect(mounted / "a.db", read_only=True) as again,
                again.table("games").changes(since=0).cursor() as cursor,
            ):
                assert "x" == [cursor.next(timeout=5)["new_val"]["id"] for _ in range(11)][-1]
        finally:
            process.communicate("\n", timeout=30)


def test_a_file_that_changes_while_it_is_read_is_noticed_by_that_read(folder: Path, mounted: Path):
    fill(folder / "a.db")
    with (
        reactdb.connect(mounted / "a.db", read_only=True) as db,
        pytest.raises(reactdb.errors.StorageMoved, match="has changed"),
        session_of(db).engine.snapshot() as snapshot,
    ):
        assert 12 == snapshot.seq
        elsewhere(WRITE, folder / "a.db")


@pytest.mark.parametrize(
    "command",
    [
        ["rows", "FILE", "games"],
        ["inspect", "FILE", "--json"],
        ["tail", "FILE", "games", "--since", "3", "--json"],
        ["export", "FILE", "games", "-"],
        ["doctor", "FILE", "--json"],
    ],
    ids=lambda command: command[0],
)
def test_the_commands_read_it(folder: Path, mounted: Path, command: list[str]):
    path = fill(folder / "a.db")
    on_disk = CliRunner().invoke(main, [str(path) if word == "FILE" else word for word in command])
    read_only = CliRunner().invoke(
        main, [str(mounted / "a.db") if word == "FILE" else word for word in command]
    )

    assert (0, 0) == (on_disk.exit_code, read_only.exit_code), (on_disk.output, read_only.output)
    assert on_disk.stdout.replace(str(path), "") == read_only.stdout.replace(str(mounted / "a.db"), "")


def test_salvage_reads_it_with_sqlite(folder: Path, mounted: Path, tmp_path: Path):
    fill(folder / "a.db")

    told = CliRunner().invoke(
        main, ["export", "--salvage", str(mounted / "a.db"), "games", str(tmp_path / "games.jsonl")]
    )

    assert 0 == told.exit_code, told.output
    assert "SQLite cannot read the file" not in told.output
    saved = (tmp_path / "games.jsonl").read_text().splitlines()
    assert list(range(10)) == sorted(json.loads(line)["id"] for line in saved)


class TestDecision:
    """What `why_not_immutable` and the guard say of files as they can be found."""

    def test_a_file_that_was_closed_can_be_read(self, folder: Path):
        assert "" == immutable.check_immutable(str(fill(folder / "a.db")))

    @pytest.mark.parametrize(
        ("suffix", "content", "words"),
        [
            ("-wal", b"x", "a.db-wal may hold commits"),
            ("-wal", b"", ""),
            ("-shm", b"x" * 32768, ""),
            ("-journal", b"x", "a crash left it half-made"),
        ],
    )
    def test_what_lies_beside_it_counts(self, folder: Path, suffix: str, content: bytes, words: str):
        path = fill(folder / "a.db")
        Path(f"{path}{suffix}").write_bytes(content)
        reason = immutable.check_immutable(str(path))

        assert words in reason if words else "" == reason

    def test_a_process_that_has_it_open_is_named(self, folder: Path):
        path = fill(folder / "a.db")
        script = "import sys, reactdb\ndb = reactdb.connect(sys.argv[1]); print('open', flush=True); input()"
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            assert "open" == process.stdout.readline().strip()
            with open(path, "rb"):
                # As SQLite's connection does, it has a descriptor of the file.
                reason = immutable.check_immutable(str(path))
            assert reason.startswith(f"process {process.pid} has it open")
        finally:
            process.communicate("\n", timeout=30)

    def test_the_guard_sees_a_log_with_commits_and_a_file_that_changed(self, folder: Path):
        path = fill(folder / "a.db")
        guard = immutable.ImmutableGuard(str(path))
        assert (0, "") == guard.look()

        wal = Path(f"{path}-wal")
        wal.touch()
        assert (0, "") == guard.look()
        wal.write_bytes(b"x")
        assert "has a writer now" in guard.look()[1]
        wal.unlink()
        os.utime(path, ns=(1, 1))
        assert "has changed" in guard.look()[1]
        path.unlink()
        assert "is gone" in guard.look()[1]

    def test_a_folder_that_can_be_written_is_never_read_so(self, folder: Path, monkeypatch):
        """Whatever is wrong there, it is something else."""
        path = fill(folder / "a.db")
        assert not immutable.may_make_nothing(str(path))
        monkeypatch.setattr(os, "access", lambda name, mode, **options: mode != os.W_OK)
        assert immutable.may_make_nothing(str(path))
        assert not immutable.may_make_nothing(str(folder))
