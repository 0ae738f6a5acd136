"""The command line: what it prints, its exit codes, and that every error is one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest

import reactdb
from reactdb import cli, row
from reactdb.cli import changelines, documentlines, files, main, terminal
from reactdb.store.retention import MAKE_ROOM
from tests.support.command import error_of, run


def lines(result):
    assert 0 == result.exit_code, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "games.db"
    with reactdb.connect(path) as db:
        games = db.table_create("games")
        games.index_create("score")
        games.insert([{"id": 1, "name": "Bob", "score": 5}, {"id": 2, "name": "Eve"}])
        games.get(1).update({"score": 9, "tags": ["new"]})
        with db.transaction(origin="cleaner"):
            games.get(2).delete()
    return path


# ---------------------------------------------------------------------------------------------------------------
# The command itself


def test_help_lists_every_command_in_its_own_words():
    result = run("--help")

    assert 0 == result.exit_code
    for name, (_, _, words) in cli.COMMANDS.items():
        command = main.get_command(click.Context(main), name)
        assert words == command.get_short_help_str(limit=200)
        assert f"{name} " in result.stdout


def test_help_imports_neither_the_database_nor_a_command():
    """`reactdb --help` answers at once."""
    program = (
        "import sys; from reactdb.cli import main\n"
        "try: main(['--help'], prog_name='reactdb')\n"
        "except SystemExit: pass\n"
        "heavy = ('reactdb.', 'sqlite', 'msgpack', 'reactivex')\n"
        "print(*(name for name in sys.modules if name.startswith(heavy)), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert {"reactdb.cli", "reactdb.cli.groups", "reactdb.cli.terminal", "reactdb.errors"} == set(
        result.stderr.split()
    )


@pytest.mark.parametrize("command", sorted(cli.COMMANDS))
def test_every_command_explains_itself(command):
    result = run(command, "--help")

    assert 0 == result.exit_code
    assert result.stdout.startswith(f"Usage: main {command} ")


def test_version_names_what_a_bug_report_needs():
    result = run("--version")

    assert result.stdout.startswith(f"reactdb {reactdb.__version__}, SQLite 3.")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rows"], "Missing argument 'FILE'."),
        (["nothing"], "No such command 'nothing'."),
        (["rows", "x", "y", "--limit", "-1"], "--limit"),
        (["compact", "x"], "Say what to keep"),
        (["tail", "x", "--since", "soon"], "--since"),
    ],
)
def test_a_mistake_in_the_command_line_is_one_line_and_exit_code_2(arguments, words):
    result = run(*arguments)

    assert 2 == result.exit_code
    assert words in error_of(result)


@pytest.mark.parametrize(
    "arguments",
    [
        ["rows", "FILE", "t"],
        ["tail", "FILE"],
        ["inspect", "FILE"],
        ["inspect", "FILE", "t", "1"],
        ["doctor", "FILE"],
        ["compact", "FILE", "--keep", "0"],
        ["export", "FILE", "t"],
        ["import", "FILE", "t"],
    ],
)
@pytest.mark.parametrize(
    ("content", "words"), [(None, "does not exist"), (b"hello, world\n" * 500, "is not a reactdb database")]
)
def test_a_file_that_is_no_database_is_one_line_and_untouched(tmp_path, arguments, content, words):
    path = tmp_path / "x.db"
    if content is not None:
        path.write_bytes(content)

    result = run(*(path if argument == "FILE" else argument for argument in arguments), input="")

    assert 1 == result.exit_code
    assert words in error_of(result)
    assert content == (path.read_bytes() if path.exists() else None)


@pytest.mark.parametrize("command", ["rows", "tail", "inspect", "export"])
def test_an_unknown_table_is_one_line(file, command):
    assert "Table `nobody` does not exist." == error_of(run(command, file, "nobody"))


def test_a_message_of_many_lines_becomes_one():
    assert 'Duplicate primary key `id`: { "id": 1 }' == terminal.one_line(
        'Duplicate primary key `id`:\n{\n\t"id":\t1\n}'
    )


def test_a_closed_pipe_is_no_error_worth_a_word(file):
    """`reactdb rows ... | head -1`."""
    with reactdb.connect(file) as db:
        db.table("games").insert([{"id": n, "text": "x" * 100} for n in range(10, 5000)])
    process = subprocess.Popen(
        [sys.executable, "-m", "reactdb.cli", "rows", str(file), "games"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()

    assert b"" == process.stderr.read()
    process.stderr.close()
    process.wait()


def test_a_terminal_that_cannot_show_a_letter_gets_its_number(file):
    with reactdb.connect(file) as db:
        db.table("games").insert({"id": 3, "name": "Zoë 世"})
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}

    result = subprocess.run(
        [sys.executable, "-m", "reactdb.cli", "tail", str(file), "games"],
        env=environment,
        capture_output=True,
        check=True,
    )

    assert b"Zo\xeb \\u4e16" in result.stdout


# ---------------------------------------------------------------------------------------------------------------
# rows


def test_rows_are_json_lines_where_nobody_watches(file):
    assert [{"id": 1, "name": "Bob", "score": 9, "tags": ["new"]}] == lines(run("rows", file, "games"))


def test_rows_of_the_past(file):
    assert [{"id": 1, "name": "Bob", "score": 5}, {"id": 2, "name": "Eve"}] == lines(
        run("rows", file, "games", "--at", 4)
    )


def test_rows_of_the_future_are_an_error(file):
    assert "seq 99 is in the future" in error_of(run("rows", file, "games", "--at", 99))


@pytest.mark.parametrize("limit", [0, 1, 499, 500, 501, 1200, 5000])
def test_rows_come_in_pages_without_a_seam(file, limit):
    with reactdb.connect(file) as db:
        db.table("games").insert([{"id": n} for n in range(3, 1300)])

    found = lines(run("rows", file, "games", "--limit", limit))

    assert [1, *range(3, 1300)][:limit] == [document["id"] for document in found]


def test_a_page_stands_still_while_others_write(file):
    with reactdb.connect(file) as db:
        games = db.table("games")
        games.insert([{"id": n} for n in range(3, 1300)])
        then = db.at(db.seq)
        found = files.documents(then, "games")
        first = next(found)
        games.delete()

        assert [1, *range(3, 1300)] == [first["id"], *(document["id"] for document in found)]


def test_columns_have_the_key_first_and_fit_the_screen():
    documents = [
        {"name": "Bob", "score": 5, "id": 1},
        {"name": "E\x1b[31mve", "id": 20, "note": "x" * 100},
        {"name": "世界", "id": 3, "score": 10},
    ]

    header, *body = [click.unstyle(line) for line in documentlines.as_columns(documents, "id", 60)]

    assert "id  name         score  note" == header
    assert " 1  Bob              5" == body[0]
    assert body[1].startswith("20  E\\x1b[31mve         xxx")
    assert 60 == terminal.width(body[1])
    assert body[1].endswith("…")
    assert " 3  世界            10" == body[2]


# ---------------------------------------------------------------------------------------------------------------
# tail


def test_tail_prints_what_the_log_holds(file):
    output = [click.unstyle(line)[25:] for line in run("tail", file, "games").stdout.splitlines()]

    assert [
        '     3  insert   1  id: 1, name: "Bob", score: 5',
        '     4  insert   2  id: 2, name: "Eve"',
        '     5  update   1  score: 5 -> 9, + tags: ["new"]',
        "     6  delete   2  (cleaner)",
    ] == output


def test_tail_since(file):
    assert [5, 6] == [change["seq"] for change in lines(run("tail", file, "games", "--since", 4, "--json"))]


def test_tail_of_all_tables_names_them(file):
    with reactdb.connect(file) as db:
        db.table_create("other").insert({"id": "x"})

    assert [
        ["6", "delete", "games", "2"],
        ["7", "table_create", "other", '"other"'],
        ["8", "insert", "other", '"x"'],
    ] == [line.split()[2:6] for line in run("tail", file, "--since", 5).stdout.splitlines()]


def test_tail_tells_of_tables_and_indexes(file):
    assert [
        '     1  table_create  games  "games"  primary_key: "id"',
        '     2  index_create  games  ["games","score"]  multi: false',
    ] == [click.unstyle(line)[25:] for line in run("tail", file).stdout.splitlines()][:2]
    first = lines(run("tail", file, "--json"))[0]
    assert {"table": "games", "table_id": 1, "primary_key": "id"} == first["catalogue"]
    assert ("table_create", None, None) == (first["kind"], first["old_val"], first["new_val"])


def test_tail_json_is_the_whole_change(file):
    change = lines(run("tail", file, "games", "--since", 5, "--json"))[0]
    moment = datetime.fromisoformat(change.pop("time"))

    assert {
        "seq": 6,
        "table": "games",
        "key": 2,
        "kind": "delete",
        "commit": 6,
        "origin": "cleaner",
        "old_val": {"id": 2, "name": "Eve"},
        "new_val": None,
    } == change
    assert timedelta() <= datetime.now(UTC) - moment < timedelta(minutes=5)


def test_tail_begins_where_the_log_does(file):
    run("compact", file, "--keep", 1)

    assert [6] == [change["seq"] for change in lines(run("tail", file, "games", "--json"))]


def test_tail_since_what_is_gone_is_an_error(file):
    run("compact", file, "--keep", 1)

    assert "changes since seq 1 are gone; the log starts at seq 6" == error_of(
        run("tail", file, "games", "--since", 1)
    )


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ({"a": 1}, {"a": 2}, ["a: 1 -> 2"]),
        ({"a": 0}, {"a": False}, ["a: 0 -> false"]),
        ({"a": 1, "b": 2}, {"b": 2}, ["- a: 1"]),
        ({"b": 2}, {"a": 1, "b": 2}, ["+ a: 1"]),
        ({"a": {"b": {"c": 1, "d": 1}}}, {"a": {"b": {"c": 2, "d": 1}}}, ["a.b.c: 1 -> 2"]),
        ({"a": {"b": 1}}, {"a": [1]}, ['a: {"b":1} -> [1]']),
        ({"a b": 1}, {"a b": 2}, ['"a b": 1 -> 2']),
        ({"a": "x" * 99}, {"a": 1}, ['a: "' + "x" * 58 + "… -> 1"]),
        (None, {"a": 1, "b": None}, ["a: 1", "b: null"]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, []),
    ],
)
def test_the_fields_that_changed_are_told(old, new, told):
    assert told == list(changelines.differences(old, new))


def test_colours_are_for_terminals_and_not_where_no_color_is_set(file):
    coloured = run("tail", file, "games", color=True).stdout
    without = run("tail", file, "games", color=True, env={"NO_COLOR": "1"}).stdout
    piped = run("tail", file, "games").stdout

    assert "\x1b[" in coloured
    assert "\x1b[" not in piped
    assert without == piped


# ---------------------------------------------------------------------------------------------------------------
# inspect


def test_inspect_shows_tables_indexes_and_the_log(file):
    output = run("inspect", file).stdout

    assert "seq 6; the log can be read from the beginning: 6 entries" in output
    assert ["games", "id", "1"] == next(
        line.split()[:3] for line in output.splitlines() if line.startswith("games")
    )
    assert ["score", "games", "no", "1"] == next(
        line.split()[:4] for line in output.splitlines() if line.startswith("score")
    )


def test_inspect_of_an_empty_database(tmp_path):
    reactdb.connect(tmp_path / "x.db").close()

    assert run("inspect", tmp_path / "x.db").stdout.endswith("\nno tables\n")


def test_inspect_json_has_every_figure(file):
    (figures,) = lines(run("inspect", file, "--json"))

    assert (6, 0, 6, 1) == (figures["seq"], figures["oldest"], figures["log_entries"], len(figures["tables"]))
    assert [{"name": "score", "expression": str(row["score"]), "multi": False, "entries": 1}] == figures[
        "tables"
    ][0]["indexes"]
    assert figures["file_bytes"] == file.stat().st_size


def test_inspect_of_a_table_is_its_part(file):
    (figures,) = lines(run("inspect", file, "games", "--json"))

    assert ("games", 1, 4) == (figures["name"], figures["documents"], figures["log_entries"])


@pytest.mark.parametrize("key", ["2", "2.0", '{"$reactdb_type$":"decimal","value":"2"}'])
def test_inspect_of_a_document_is_its_history(file, key):
    assert ["insert", "delete"] == [
        change["kind"] for change in lines(run("inspect", file, "games", key, "--json"))
    ]


def test_a_key_that_looks_like_a_number_may_be_a_string(file):
    with reactdb.connect(file) as db:
        db.table("games").insert([{"id": "2"}, {"id": "77"}, {"id": "Bob"}])

    def key_found(text):
        return lines(run("inspect", file, "games", text, "--json"))[0]["key"]

    assert [2, "2", "77", "Bob"] == [key_found(text) for text in ("2", '"2"', "77", "Bob")]


def test_a_document_that_never_was_is_an_error(file):
    assert 'has no document 5 or "5"' in error_of(run("inspect", file, "games", "5"))


def test_the_last_line_of_a_history_says_how_it_stands(file):
    assert "2 entries; the newest is seq 5" == run("inspect", file, "games", 1).stdout.splitlines()[-1]
    assert "2 entries; deleted" == run("inspect", file, "games", 2).stdout.splitlines()[-1]


# ---------------------------------------------------------------------------------------------------------------
# compact


def test_compact_removes_history_and_tells_figures(file):
    (result,) = lines(run("compact", file, "--keep", 0, "--json"))

    assert {"entries": 5, "tables": 0, "oldest": 6} == result["removed"]
    assert (6, 1) == (result["before"]["log_entries"], result["after"]["log_entries"])
    assert 0 == run("doctor", file).exit_code


def test_compact_by_age_keeps_what_is_young(file):
    assert "removed 0 entries and 0 tables" == run("compact", file, "--keep-days", 1).stdout.splitlines()[0]


def test_vacuum_makes_the_file_smaller(file):
    with reactdb.connect(file) as db:
        db.table("games").insert([{"id": n, "text": "x" * 500} for n in range(10, 2000)])
        db.table("games").between(10, 2000).delete()
    before = file.stat().st_size

    result = run("compact", file, "--keep", 0, "--vacuum")

    assert 0 == result.exit_code, result.output
    assert file.stat().st_size < before / 5


@pytest.mark.parametrize("arguments", [("compact", "--keep", 0), ("rows", "games"), ("import", "games")])
def test_an_empty_file_is_not_made_a_database(tmp_path, arguments):
    path = tmp_path / "empty.db"
    path.touch()
    command, *rest = arguments

    assert "it is empty: no database" in error_of(run(command, path, *rest))
    assert 0 == path.stat().st_size
    assert [path] == list(tmp_path.iterdir())


def test_compact_without_room_advises_its_own_option(file, monkeypatch):
    def refuse(*arguments, **options):
        raise reactdb.errors.DiskFull(f"compact: no room left: {MAKE_ROOM}")

    monkeypatch.setattr(reactdb.Database, "compact", refuse)
    error = error_of(run("compact", file, "--keep", 0))

    assert "vacuum=" in MAKE_ROOM
    assert "vacuum=" not in error
    assert "with --vacuum when there is room" in error


def test_compact_wants_one_of_the_two(file):
    assert 2 == run("compact", file, "--keep", 1, "--keep-days", 1).exit_code
    assert "'--keep-days': 'nan' is not a finite number." in run("compact", file, "--keep-days", "nan").stderr


# ---------------------------------------------------------------------------------------------------------------
# Text for people


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (5 * 10**15, "5000.0 TB"),
    ],
)
def test_sizes_have_four_digits_at_most(count, text):
    assert text == terminal.size(count)


def test_control_characters_never_reach_a_terminal():
    assert "a\\x1b]0;x\\x07\\n\\u202e" == terminal.safe("a\x1b]0;x\x07\n\u202e")


def test_plurals():
    assert ["1 entry", "2 entries", "0 changes", "1,000 tables", "2 indexes"] == [
        terminal.plural(*pair)
        for pair in [(1, "entry"), (2, "entry"), (0, "change"), (1000, "table"), (2, "index")]
    ]


def test_the_command_alone_shows_its_help():
    result = run()
    assert (0, True) == (result.exit_code, result.stdout.startswith("Usage: "))
    assert "doctor" in result.stdout


def test_a_mistake_in_the_command_line_is_a_sentence_with_an_end(file):
    assert error_of(run("rows", file, "games", "--where", "score>")).endswith(
        "found the end. Try `main rows --help`."
    )
