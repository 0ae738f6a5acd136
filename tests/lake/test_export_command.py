"""`reactdb export --parquet|--delta|--iceberg FOLDER`: what is printed, and the sentence for each mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("pyarrow")

import reactdb
from reactdb import cli
from reactdb.cli.lake import unlogged_files
from reactdb.logs import logger


@pytest.fixture
def file(tmp_path: Path) -> str:
    with reactdb.connect(tmp_path / "arena.db") as db:
        db.table_create("games").insert([{"id": 1, "score": 5}, {"id": 2, "score": 7}])
    return str(tmp_path / "arena.db")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.main, ["export", *arguments], prog_name="reactdb")


def test_a_second_export_writes_what_has_changed_and_a_third_nothing(file, tmp_path):
    out = str(tmp_path / "games")
    first = run(file, "games", "--parquet", out)
    with reactdb.connect(file) as db:
        db["games"].get(1).update({"score": 6})
        db["games"].get(2).delete()
    second = run(file, "games", "--parquet", out)
    third = run(file, "games", "--parquet", out)

    assert (0, 0, 0) == (first.exit_code, second.exit_code, third.exit_code)
    assert f"2 documents written to {out}/latest: 2 inserted" in first.output
    assert f"2 documents written to {out}/latest: 1 updated, 1 deleted" in second.output
    assert f"nothing new for {out}/latest" in third.output


def test_an_empty_table_gives_no_table_of_the_lake(file, tmp_path):
    with reactdb.connect(file) as db:
        db.table_create("empty")
    done = run(file, "empty", "--parquet", str(tmp_path / "empty"))

    assert f"there are no documents yet, so there is no {tmp_path}/empty" in done.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("games", "--parquet", "a", "--delta", "b"), "--parquet and --delta write two tables: give one."),
        (("games", "--delta", "a", "--changes", "--at", "3"), "it does not go with --changes."),
        (("games", "--delta", "a", "--changes", "--scd2"), "--changes and --scd2 are two kinds of tables"),
        (("games", "--contract", "freeze"), "give --parquet, --delta or --iceberg."),
        (("gmaes", "--parquet", "a"), "The nearest is `games`."),
        (("games", "--parquet", "s3://lake/games"), "is a folder of this machine"),
        (("games", "--delta", ""), "delta is the path of a folder to write to"),
        (("games", "--delta", "a\nb"), "a path of a Delta table cannot have"),
        (("games", "--delta", "a", "--at", "0001-01-01"), "is neither a seq nor a time"),
        (("games", "--delta", "a", "--since", "0"), "with no TARGET, --format, --since"),
        (("games", "games.parquet"), "give `--parquet FOLDER` for Parquet"),
        (("games", ""), "TARGET is empty"),
    ],
)
def test_a_mistake_gets_one_sentence_with_the_way_out(arguments, words, file):
    done = run(file, *arguments)

    assert 0 != done.exit_code
    assert [True] == [words in line for line in done.output.splitlines()]


def test_each_file_that_is_left_out_is_named_once_with_the_reason(file, tmp_path, caplog):
    (tmp_path / "empty.db").touch()
    (tmp_path / "junk.db").write_bytes(b"no database")
    call = (str(tmp_path), "--parquet", str(tmp_path / "out"), "--ignore-corrupt-files")
    done, as_json = run(*call), run(*call, "--json")

    assert (0, 0) == (done.exit_code, as_json.exit_code)
    assert (1, 1) == (done.output.count("empty.db"), done.output.count("junk.db"))
    assert f"  left out: cannot open {tmp_path}/empty.db: it is empty: no database" in done.output
    # Nothing but one object: no warning on standard error.
    assert {"empty.db", "junk.db"} == {Path(name).name for name in json.loads(as_json.output)["ignored"]}
    # Python prints a warning on standard error where the program has set up no log.
    assert [] == caplog.records


def test_other_warnings_are_logged_during_an_export(caplog):
    with unlogged_files():
        logger.warning("the clock was set back")

    assert ["the clock was set back"] == caplog.messages


def test_an_empty_file_is_refused_in_words_of_the_command(tmp_path):
    (tmp_path / "empty.db").touch()
    done = run(str(tmp_path / "empty.db"), "--parquet", str(tmp_path / "out"))

    assert (1, True) == (done.exit_code, "it is empty: no database" in done.output)
    assert "read_only" not in done.output
    assert not (tmp_path / "out").exists()


def test_lost_changes_name_the_option_that_begins_again(file, tmp_path):
    out = str(tmp_path / "changes")
    run(file, "--changes", "--parquet", out)
    with reactdb.connect(file) as db:
        db["games"].get(1).update({"score": 6})
        db["games"].get(1).update({"score": 7})
        db.compact(keep=0)
        db["games"].insert({"id": 3})
    lost = run(file, "--changes", "--parquet", out)
    again = run(file, "--changes", "--parquet", out, "--overwrite")

    assert (1, 0) == (lost.exit_code, again.exit_code)
    assert "are gone" in lost.output
    assert "--overwrite` writes the table anew" in lost.output
