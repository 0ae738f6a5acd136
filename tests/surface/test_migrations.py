"""`db.migrate`, `db.user_version`, `db.seq_at` and `db.at` of a moment."""

from __future__ import annotations

import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb import HistoryLost, InvalidOption, UsageError
from reactdb.errors import IncompatibleSchema, ReadOnlyDatabase
from reactdb.testing import VirtualClock
from tests.support.inspection import problems


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "program.db"


def make_todos(db: reactdb.Database) -> None:
    db.table_create("todos").insert({"id": 1, "text": "Tea"})


def add_field(db: reactdb.Database) -> None:
    db.table("todos").update({"done": False})
    db.table("todos").index_create("done")


class TestUserVersion:
    def test_a_new_file_has_0_and_keeps_what_is_set(self, path):
        with reactdb.connect(path) as db:
            assert db.user_version == 0
            db.user_version = 7
        with reactdb.connect(path, read_only=True) as db:
            assert db.user_version == 7
            with pytest.raises(ReadOnlyDatabase):
                db.user_version = 8
        assert problems(path) == []

    def test_it_is_a_part_of_the_transaction(self):
        with reactdb.connect(":memory:") as db:
            with pytest.raises(ValueError, match="no"), db.transaction():
                db.user_version = 3
                assert db.user_version == 3
                raise ValueError("no")
            assert db.user_version == 0

    @pytest.mark.parametrize("version", [-1, 2**31, True, 1.0, "1", None])
    def test_it_is_a_whole_number(self, version):
        with reactdb.connect(":memory:") as db, pytest.raises(InvalidOption, match="user_version is a whole"):
            db.user_version = version


class TestMigrate:
    def test_each_step_runs_once(self, path):
        with reactdb.connect(path) as db:
            assert db.migrate([make_todos]) == [1]
            assert db.migrate([make_todos]) == []
            assert db.migrate([make_todos, add_field]) == [2]
            assert db.user_version == 2
            assert db.table("todos").get_all(False, index="done").run() == [
                {"id": 1, "text": "Tea", "done": False}
            ]

    def test_a_step_that_raises_leaves_the_steps_before_it(self, path):
        def fail(db: Any) -> None:
            db.table("todos").delete()
            raise ValueError("third")

        with reactdb.connect(path) as db:
            with pytest.raises(ValueError, match="third"):
                db.migrate([make_todos, add_field, fail])
            assert (db.user_version, db.table("todos").count().run()) == (2, 1)
            assert db.migrate([make_todos, add_field, lambda db: None]) == [3]

    def test_an_older_program_is_refused_before_it_writes(self, path):
        with reactdb.connect(path) as db:
            db.migrate([make_todos, add_field])
            seq = db.seq
            with pytest.raises(
                IncompatibleSchema, match="has user_version 2, and this program knows 1 migrations"
            ):
                db.migrate([make_todos])
            assert db.seq == seq

    def test_several_threads_run_each_step_once(self, path):
        ran: list[str] = []
        barrier = threading.Barrier(4)

        def work() -> None:
            with reactdb.connect(path) as db:
                barrier.wait()
                db.migrate([make_todos, lambda db: ran.append("second")])

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with reactdb.connect(path) as db:
            assert (ran, db.user_version, db.table("todos").count().run()) == (["second"], 2, 1)

    def test_several_processes_run_each_step_once(self, path):
        program = (
            "import sys, reactdb\n"
            "with reactdb.connect(sys.argv[1]) as db:\n"
            "    steps = [lambda db: db.table_create('runs')]\n"
            "    steps += [lambda db, n=n: db.table('runs').insert({'id': n}) for n in range(20)]\n"
            "    db.migrate(steps)\n"
        )
        children = [subprocess.Popen([sys.executable, "-c", program, str(path)]) for _ in range(3)]
        assert [0, 0, 0] == [child.wait() for child in children]
        with reactdb.connect(path) as db:
            assert (db.user_version, db.table("runs").count().run()) == (21, 20)

    def test_inside_a_transaction_it_is_refused(self):
        with (
            reactdb.connect(":memory:") as db,
            db.transaction(),
            pytest.raises(UsageError, match="commit of its own"),
        ):
            db.migrate([make_todos])

    @pytest.mark.parametrize("step", [3, "ALTER TABLE", None])
    def test_a_step_is_a_function(self, step):
        with (
            reactdb.connect(":memory:") as db,
            pytest.raises(InvalidOption, match="a migration is a function"),
        ):
            db.migrate([step])

    def test_an_asynchronous_step_is_refused(self):
        async def step(db: Any) -> None:
            pass

        with reactdb.connect(":memory:") as db:
            with pytest.raises(InvalidOption, match="migrate was given an async function"):
                db.migrate([step])
            with pytest.raises(InvalidOption, match="returned something to await"):
                db.migrate([lambda db: step(db)])
            assert 0 == db.user_version


def moment_of(hour: float) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hour)


class TestMoments:
    @pytest.fixture
    def clock(self) -> VirtualClock:
        return VirtualClock(moment_of(0))

    @pytest.fixture
    def db(self, clock: VirtualClock) -> Any:
        with reactdb.connect(":memory:", retention=None, clock=clock) as database:
            table = database.table_create("t")
            for hour in range(1, 11):
                clock.advance_by(3600)
                table.insert({"id": "one", "hour": hour}, conflict="replace")
            clock.advance_by(7200)
            yield database

    @pytest.mark.parametrize("hour", range(1, 11))
    def test_a_moment_leads_to_the_newest_change_at_or_before_it(self, db, hour):
        seqs = [change.seq for change in db.log(table="t")]
        for moment in (moment_of(hour), moment_of(hour + 0.5)):
            assert db.seq_at(moment) == seqs[hour - 1]
            assert db.at(moment).table("t").get("one").run()["hour"] == hour

    def test_before_the_first_change_there_is_nothing(self, db):
        assert db.seq_at(moment_of(-1)) == 0
        assert db.at(moment_of(-1)).table_list() == []

    def test_the_future_is_the_newest_seq(self, db):
        assert db.seq_at(moment_of(1000)) == db.seq

    def test_another_time_zone_is_the_same_moment(self, db):
        moment = moment_of(5).astimezone(timezone(timedelta(hours=-7)))
        assert db.at(moment).table("t").get("one").run()["hour"] == 5

    def test_a_moment_in_the_removed_history_is_lost(self, db):
        seqs = [change.seq for change in db.log(table="t")]
        db.compact(keep=3)
        assert db.seq_at(moment_of(8)) == seqs[7]
        for hour in (2, 6):
            with pytest.raises(HistoryLost, match="the state of 2026-01-01T0"):
                db.at(moment_of(hour))
        assert db.seq_at(moment_of(13)) == db.seq

    def test_after_a_removed_deletion_only_the_present_is_known(self, db, clock):
        db.table("t").delete()
        db.compact(keep=0)
        clock.advance_by(7200)
        assert db.seq_at(moment_of(14)) == db.seq
        with pytest.raises(HistoryLost):
            db.seq_at(moment_of(11))

    @pytest.mark.parametrize("moment", [datetime(2026, 1, 1), "2026-01-01", 3, None])
    def test_a_moment_has_a_time_zone(self, db, moment):
        with pytest.raises(InvalidOption, match="a datetime with a time zone"):
            db.seq_at(moment)

    def test_a_datetime_without_a_zone_is_refused_by_at(self, db):
        with pytest.raises(InvalidOption, match="a datetime with a time zone"):
            db.at(datetime(2026, 1, 1))
