"""`reactdb spark`: the output of each command, and that every mistake is reported in one line before Spark is started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.cli import sparkrun
from reactdb.cli.terminal import Progress
from tests.support.command import error_of, run

pytest.importorskip("pyspark")
pq = pytest.importorskip("pyarrow.parquet")

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with reactdb.connect(tmp_path / "games.db", origin="me") as db:
        games = db.table_create("games")
        games.insert([{"id": 1, "name": "Bob"}, {"id": 2, "name": "Eve"}])
        games.get(1).update({"name": "Bobby"})
        games.get(2).delete()
    return tmp_path / "games.db"


class TestWithoutJava:
    """Commands of the exporter, where Java is missing."""

    @pytest.fixture(autouse=True)
    def without_java(self, monkeypatch, tmp_path):
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
        monkeypatch.setenv("PATH", str(tmp_path))

        def refuse(*_: Any) -> None:
            raise AssertionError("Spark was started")

        monkeypatch.setattr(sparkrun, "run_session", refuse)

    def test_a_snapshot_says_what_was_written_and_up_to_where(self, file, tmp_path):
        result = run("spark", "snapshot", file, "games", tmp_path / "out")

        assert f"1 document written to {tmp_path}/out: 1 inserted\n  {file} up to seq 5\n" == result.stdout
        assert ["Bobby"] == pq.read_table(tmp_path / "out")["name"].to_pylist()

    def test_a_snapshot_of_the_past(self, file, tmp_path):
        result = run("spark", "snapshot", file, "games", tmp_path / "out", "--at", "3", "--json")

        assert {"rows": 2, "positions": {str(file): 3}}.items() <= json.loads(result.stdout).items()
        assert {"Bob", "Eve"} == set(pq.read_table(tmp_path / "out")["name"].to_pylist())

    def test_changes_go_on_where_they_stopped(self, file, tmp_path):
        first, second = (
            run("spark", "changes", file, tmp_path / "out"),
            run("spark", "changes", file, tmp_path / "out"),
        )

        assert first.stdout.startswith(f"4 changes written to {tmp_path}/out\n")
        assert second.stdout.startswith(f"nothing new for {tmp_path}/out\n")

    def test_the_current_state_goes_on_where_it_stopped(self, file, tmp_path):
        first = run("spark", "current", file, tmp_path / "out")
        with reactdb.connect(file) as db:
            db.table("games").insert({"id": 3, "name": {"first": "Zoe"}})
        second = run("spark", "current", file, tmp_path / "out")

        assert first.stdout.startswith(f"1 document written to {tmp_path}/out/latest: 1 inserted\n")
        assert f"1 document written to {tmp_path}/out/latest: 1 inserted\n" in second.stdout
        assert "name: 1 value in column _conflicts, because no column takes it\n" in second.stdout

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["snapshot", "nowhere.db", "games", "out"], "nowhere.db"),
            (["snapshot", "{file}", "nobody", "out"], "Table `nobody` does not exist."),
            (["changes", "{file}", "out", "--table", "nobody"], "Table `nobody` does not exist."),
            (["changes", "{folder}/*.xyz", "out"], "no file matches it"),
            (["changes", "s3://bucket/games.db", "out"], "is no path of the local file system"),
            (["changes", "{file}", "{folder}"], "choose another folder"),
            (["changes", "{file}", "{file}"], "is no folder"),
            (["current", "{file}", "{folder}"], "choose another folder"),
            (["changes", "{folder}", "out", "--files", "*.sqlite"], "*.sqlite"),
        ],
    )
    def test_what_cannot_be_done_is_said_in_one_line(self, arguments, words, file, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)

        result = run("spark", *(text.format(file=file, folder=tmp_path) for text in arguments))

        assert words in error_of(result)
        assert {"games.db", "games.db-shm", "games.db-wal"} >= set(os.listdir(tmp_path))


@pytest.mark.slow
class TestWork:
    """With the session that all tests share, which the commands use and leave running."""

    def test_the_history_of_exported_changes(self, spark, file, tmp_path):
        run("spark", "changes", file, tmp_path / "out")

        history = run("spark", "history", tmp_path / "out", tmp_path / "history")

        assert history.stdout.startswith(f"3 versions written to {tmp_path}/history\n")

    def test_rates_and_audits_are_printed_where_they_have_no_target(self, spark, file):
        (rate,) = map(
            json.loads,
            run("spark", "rates", file, "--bucket", "1 week", "--by", "table,origin").stdout.splitlines(),
        )
        (field,) = map(json.loads, run("spark", "audit", file).stdout.splitlines())

        assert {"table": "games", "origin": "me", "changes": 4, "deletes": 1}.items() <= rate.items()
        assert rate["bucket"].endswith("T00:00:00.000Z")
        assert {"field": "name", "origin": "me", "changes": 1, "keys": 1}.items() <= field.items()

    @pytest.mark.skipif(
        not os.path.isdir("/proc/self"), reason="only Linux has a folder in which nobody writes"
    )
    def test_what_java_says_is_one_line(self, spark, file, tmp_path):
        """Of a disk that is full, too: no exception of PySpark's, but one of the bridge to Java."""
        changes = str(tmp_path / "changes")
        assert 0 == run("spark", "changes", file, changes).exit_code

        result = run("spark", "history", changes, "/proc/history")

        assert error_of(result).startswith("Spark: Mkdirs failed to create file:/proc/.history")
        assert error_of(run("spark", "history", file, "/proc/history")).startswith(
            "/proc/history cannot be written: "
        )


class TestMistakes:
    """None of these starts Spark."""

    @pytest.fixture(autouse=True)
    def without_spark(self, monkeypatch):
        def refuse(*_: Any) -> None:
            raise AssertionError("Spark was started")

        monkeypatch.setattr(sparkrun, "run_session", refuse)

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["history", "nowhere.db", "out"], "nowhere.db"),
            (["history", "{file}", "out", "--table", "nobody"], "Table `nobody` does not exist."),
            (["rates", "{folder}/*.xyz"], "no file matches it"),
            (["history", "{file}", "{folder}"], "exists: choose another folder"),
            (["history", "{file}", "{folder}", "--overwrite"], "was not written by reactdb"),
            (["history", "{folder}/text", "out"], "text"),
            (["rates", "{file}", "--bucket", "1 month"], "bucket is a length of time"),
            (["rates", "{file}", "--by", "colour"], "by is some of table, key, origin and op"),
            (["audit", "{folder}", "--files", "*.sqlite"], "*.sqlite"),
        ],
    )
    def test_what_cannot_be_done_is_said_in_one_line(self, arguments, words, file, tmp_path, monkeypatch):
        (tmp_path / "text").write_text("no database")
        monkeypatch.chdir(tmp_path)

        result = run("spark", *(text.format(file=file, folder=tmp_path) for text in arguments))

        assert words in error_of(result)
        assert {"games.db", "games.db-shm", "games.db-wal", "text"} >= set(os.listdir(tmp_path))

    @pytest.mark.parametrize("command", ["history", "rates", "audit"])
    def test_parquet_files_that_are_no_changes_are_refused_with_what_to_give(self, command, tmp_path):
        (tmp_path / "lake" / "day=1").mkdir(parents=True)
        (tmp_path / "lake" / "day=1" / "part-0.parquet").touch()

        said = error_of(run("spark", command, tmp_path / "lake", tmp_path / "out"))

        assert f"{tmp_path}/lake: it has Parquet files, and no file that matches *.db" in said
        assert "a folder that `reactdb export --changes --parquet` wrote" in said
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["snapshot", "{file}"], "Missing argument 'TABLE'"),
            (["changes", "{file}", "out", "--document", "json"], "No such option"),
            (["snapshot", "{file}", "games", "out", "--at", "noon"], "is neither a seq nor a time"),
            (["rates", "{file}", "--conf", "colour"], "'colour' is not NAME=VALUE"),
            (["audit", "{file}", "--overwrite"], "--overwrite needs a TARGET."),
            (["fly", "{file}"], "No such command 'fly'"),
        ],
    )
    def test_a_mistake_in_the_command_line(self, arguments, words, file):
        result = run("spark", *(text.format(file=file) for text in arguments))
        assert (2, True) == (result.exit_code, words in error_of(result))

    def test_a_missing_java_is_said_in_one_line(self, file, tmp_path, monkeypatch):
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))

        assert f"JAVA_HOME is {tmp_path}, where there is no bin/java" in error_of(run("spark", "rates", file))


def test_pyspark_that_is_missing_is_said_in_one_line(file, tmp_path):
    """In a process that cannot find it."""
    program = (
        "import importlib.metadata as m, sys; real = m.version\n"
        "def version(name):\n"
        "    if name == 'pyspark': raise m.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "m.version = version; sys.modules['pyspark'] = None\n"
        "from reactdb.cli import main; main(prog_name='reactdb')"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, "spark", "audit", str(file)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (1, "", f"reactdb: pyspark is not installed: {reactdb.errors.how_to_install('spark')}\n") == (
        done.returncode,
        done.stdout,
        done.stderr,
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "[X] Traceback\nreactdb.errors.HistoryLost: changes since seq 1 are gone\n at java",
            "changes since seq 1 are gone",
        ),
        (
            "[PYTHON_DATA_SOURCE_ERROR] Failed: Traceback\n  File\nModuleNotFoundError: No module named 'x'\n SQLSTATE",
            "Spark: No module named 'x'",
        ),
        ("[PATH_NOT_FOUND] It is not there.\nmore", "Spark: [PATH_NOT_FOUND] It is not there."),
        (
            "An error occurred while calling o1.parquet.\n: org.apache.spark.SparkException: Job aborted.\n\tat a.b(C.scala:1)\n"
            "Caused by: org.apache.spark.SparkException: Task failed.\nCaused by: java.io.IOException: No space left on device",
            "Spark: No space left on device",
        ),
        (
            "An error occurred while calling o1.count.\n: java.lang.OutOfMemoryError: Java heap space",
            "Spark: Java heap space",
        ),
        ("Answer from Java side is empty", "Spark: Answer from Java side is empty"),
    ],
)
def test_an_error_of_sparks_is_one_sentence(text, sentence, tmp_path):
    with (tmp_path / "log").open("w+b") as log:
        assert sentence == sparkrun.sentence_of(text, log)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_an_interrupt_while_spark_starts_counts_when_it_has_started():
    """The JVM that is starting would be left behind."""
    steps = []
    before = signal.getsignal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), sparkrun.delay_interrupt(Progress("tasks")):
        os.kill(os.getpid(), signal.SIGINT)
        steps.append("Spark has started")

    assert ["Spark has started"] == steps
    assert before is signal.getsignal(signal.SIGINT)


def test_what_is_written_to_standard_error_while_spark_starts_goes_to_its_log(tmp_path, capfd):
    with (tmp_path / "log").open("w+b") as log:
        with sparkrun.redirect_stderr(log):
            subprocess.run([sys.executable, "-c", "import sys; print('noise', file=sys.stderr)"], check=True)
        print("ours", file=sys.stderr)

    assert b"noise\n" == (tmp_path / "log").read_bytes()
    assert "ours\n" == capfd.readouterr().err


def test_a_spark_that_does_not_start_says_what_its_log_says(tmp_path):
    with (tmp_path / "log").open("w+b") as log:
        log.write(b"Picked up options\nError: Could not create the Java Virtual Machine.\nSomething else\n")

        assert (
            "Spark did not start: Error: Could not create the Java Virtual Machine."
            == sparkrun.sentence_of("[JAVA_GATEWAY_EXITED] Java gateway process exited", log)
        )
