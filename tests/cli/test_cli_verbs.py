"""Verbs of the command line on tables, documents, indexes and commits: in pipes, on a terminal, interrupted, with wrong input."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

import reactdb
from reactdb import cli
from reactdb.cli import document, index, main, rows, shell, tables, terminal
from tests.support.command import done, error_of, run

TERMINALS = (document, index, rows, shell, tables, terminal)
# It sets the title of a terminal: with the escape character, and with the one character of ISO 6429 for both.
TITLES = "\x1b]0;own\x07 \x9d0;own\x9c\x7f\u202e"


@pytest.fixture(scope="module")
def origin_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("verbs") / "arena.db"
    with reactdb.connect(path, origin="arena") as db:
        games = db.table_create("games")
        games.index_create("score")
        games.insert([{"id": 1, "player": "Bob", "score": 12}, {"id": 2, "player": "Eve", "score": 9}])
        games.insert({"id": "x", "player": "Ann", "score": 3, "home": {"city": "Rome"}})
        db.table_create("quiet")
    return path


@pytest.fixture
def file(origin_file, tmp_path) -> Path:
    """A database of its own for a test that may write."""
    return Path(shutil.copy(origin_file, tmp_path / "arena.db"))


@pytest.fixture
def on_terminal(monkeypatch):
    """Standard output and input are a terminal of 80 columns."""
    for module in TERMINALS:
        monkeypatch.setattr(module, "is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("PAGER", raising=False)


BOB = '{"id":1,"player":"Bob","score":12}\n'
EVE = '{"id":2,"player":"Eve","score":9}\n'
ANN = '{"id":"x","player":"Ann","score":3,"home":{"city":"Rome"}}\n'


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        ("rows F games", BOB + EVE + ANN),
        ("rows F games --limit 1 --offset 1", EVE),
        ("rows F games --offset 9", ""),
        ("rows F games --order score --limit 2", ANN + EVE),
        ("rows F games --order score --desc --offset 1", EVE + ANN),
        ("rows F games --where score>5 --offset 1", EVE),
        ("rows F games --column player,id --limit 1", '{"player":"Bob","id":1}\n'),
        ("rows F games --column home.city", '{}\n{}\n{"home.city":"Rome"}\n'),
        ("rows F games --count", "3\n"),
        ("rows F games --count --where score>5", "2\n"),
        ("rows F games --count --at 4", "2\n"),
        ("rows F games --at 2999-01-01 --limit 1", BOB),
        ("rows F games --csv --column id,player", "id,player\n1,Bob\n2,Eve\nx,Ann\n"),
        ("rows F games --tsv --where id=x", 'id\tplayer\tscore\thome\nx\tAnn\t3\t"{""city"":""Rome""}"\n'),
        ("rows F games --long --limit 1", "id      1\nplayer  Bob\nscore   12\n"),
        ("get F games 2 1", EVE + BOB),
        ("get F games x", ANN),
        ("index list F quiet", ""),
        (
            "index list F",
            '{"table":"games","name":"score","expression":"row[\'score\']","multi":false,"unique":false,"entries":3}\n',
        ),
        ("put F games {\"id\":2,\"score\":1} {\"id\":9}", "2 documents in games: 1 inserted, 1 replaced\n"),
        ("put F games --update {\"id\":2,\"score\":9}", "1 document in games: 1 unchanged\n"),
        ("delete F games 1 x", "deleted 2 documents of games; reactdb undo F brings them back\n"),
        ("table create F new --primary-key name", "created table new\n"),
        ("table rename F quiet loud", "renamed table quiet to loud\n"),
        ("table drop F games --yes", "dropped table games with 3 documents\n"),
        ("index create F games by --field score --field player", "created index by of table games, from 3 documents\n"),
        ("index drop F games score", "dropped index score of table games\n"),
        ("shell F -c games.count()", "3\n"),
        ("shell F -c games.get(2);None;1+1", EVE + "2\n"),
        ("shell F -c games.order_by(desc('score')).limit(1)", BOB),
        ("shell F -c {print,1}.__len__()", "2\n"),
        ("shell F --write -c db.table('quiet').insert({'id':1})['inserted']", "1\n"),
    ],
)  # fmt: skip
def test_a_verb_in_a_pipe_prints_exactly_this(file, arguments, printed):
    result = run(*(str(file) if word == "F" else word for word in arguments.split()), input="")

    assert printed.replace("undo F", f"undo {file}") == done(result).stdout
    assert "" == result.stderr


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        ("tabels F", 2, "No such command 'tabels'. The nearest is `tables`. Try `main --help`."),
        ("table lst F", 2, "No such command 'lst'. The nearest is `list`."),
        ("rows F games --limt 1", 2, "--limit"),
        ("rows F gmaes", 1, "Table `gmaes` does not exist. The nearest is `games`."),
        ("tail F gmaes", 1, "The nearest is `games`."),
        ("inspect F gmaes", 1, "The nearest is `games`."),
        ("export F gmaes", 1, "The nearest is `games`."),
        ("import F gmaes", 1, "The nearest is `games`."),
        ("index drop F games scor", 1, "Index `scor` was not found on table `games`. The nearest is `score`."),
        ("shell F -c gmaes", 1, "-c: NameError: name 'gmaes' is not defined. The nearest is `games`."),
        ("shell F -c db['gmaes'].run()", 1, "Table `gmaes` does not exist. The nearest is `games`."),
        ("shell F -c games.delete()", 1, "start the shell with --write to change the file"),
        ("shell F -c )", 1, "-c: SyntaxError: unmatched ')'"),
        ("rows F games --json --csv", 2, "--json and --csv are two forms"),
        ("rows F games --count --limit 1", 2, "--count counts"),
        ("rows F games --desc", 2, "--desc needs an order"),
        ("rows F --where a=1", 2, "Missing argument 'TABLE'"),
        ("rows F games --at 2000-01-01", 1, "Table `games` does not exist."),
        ("rows F games --at soon", 2, "'soon' is neither a seq nor a time"),
        ("rows F games --at 99", 1, "99"),
        ("get F games 1 7", 1, "table `games` has no document 7"),
        ("delete F games 1 7", 1, "table `games` has no document 7; nothing was deleted"),
        ("put F games [1]", 1, "document 1 is [1], and not a JSON object"),
        ("put F games {", 1, "document 1: "),
        ("put F games {\"id\":1} --insert", 1, "Duplicate primary key"),
        ("put F games --insert --update {}", 2, "give one of them"),
        ("table drop F games", 2, "this removes table games with 3 documents: give --yes"),
        ("table create F games", 1, "Table `games` already exists"),
        ("table create F no/name", 1, "invalid"),
        ("tail F --since 99", 2, "--since 99 is past the end: the newest change has seq"),
        ("backup F F", 1, "exists: name another TARGET, or replace it with --overwrite"),
        ("backup F F --overwrite", 1, "cannot open"),
        ("put F games {a", 1, "document 1: not JSON: "),
        ("undo F --count 9", 1, "the log has 2 commits to take back"),
        ("undo F --origin nobody", 1, "the log has no commits of 'nobody' to take back"),
        ("undo F --commit 99", 1, "there is no seq 99 yet"),
        ("undo F --commit 1", 1, "the commit of seq 1 changed no document"),
        ("undo F --count 1 --since 1", 2, "give one of them"),
        ("import F games --delimiter ab", 2, "'ab' is not one character"),
        ("import F games --format json --delimiter ;", 2, "--delimiter is for CSV"),
        ("import F games --format csv --type nme=int", 1, "there is no column 'nme', which --type names. The nearest is `name`"),
        ("completion tcsh", 2, "tcsh"),
        ("rows F games --limit x", 2, "'x' is not a whole number. Try"),
        ("demo --speed x", 2, "'x' is not a number. Try"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_line_with_its_reason_and_changes_nothing(file, arguments, exit_code, words):
    words_given = [str(file) if word == "F" else word for word in arguments.split()]
    before = file.read_bytes()
    result = run(*words_given, input="id,name\n" if "csv" in arguments else "")

    line = result.stderr.splitlines()[-1]
    assert exit_code == result.exit_code, result.output
    assert line.startswith("reactdb: ")
    assert words in line
    assert "Traceback" not in result.output
    assert before == file.read_bytes()


@pytest.mark.parametrize(
    "arguments",
    ["tables F", "rows F t", "get F t 1", "put F t {}", "delete F t 1", "table rename F t u", "table drop F t", "table list F",
     "index create F t a", "index drop F t a", "index list F", "backup F G", "undo F", "shell F", "shell F --write -c 1"],
)  # fmt: skip
def test_a_mistyped_file_is_not_created_and_gets_the_nearest(file, arguments):
    wrong = file.with_name("arean.db")
    result = run(*(str(wrong) if word == "F" else word for word in arguments.split()), input="")

    assert 1 == result.exit_code
    assert error_of(result) == f"cannot open {wrong}: it does not exist; the nearest is `arena.db`"
    assert not wrong.exists()


@pytest.mark.parametrize(
    ("arguments", "field"),
    [("--where scor>1", "scor"), ("--order scor", "scor"), ("--column id,scor", "scor")],
)
def test_a_field_that_no_document_has_gets_the_nearest_and_is_no_error(file, arguments, field):
    result = run("rows", file, "games", *arguments.split())

    assert (
        f"reactdb: no document of table `games` has the field `{field}`. The nearest is `score`.\n"
        == done(result).stderr
    )


@pytest.mark.parametrize("verb", ["tables", "rows", "table list"])
def test_tables_are_listed_with_their_newest_change(file, verb):
    first, second = map(json.loads, done(run(*verb.split(), file)).stdout.splitlines())

    assert ("games", "id", 3, ["score"], 5) == tuple(
        first[name] for name in ("name", "primary_key", "documents", "indexes", "seq")
    )
    assert ("quiet", 0, None) == (second["name"], second["documents"], second["seq"])


def test_the_newest_change_of_a_table_is_found_in_any_log(tmp_path):
    with reactdb.connect(tmp_path / "x.db", durability="soft") as db:
        for name in ("a", "b", "c"):
            db.table_create(name)
        db["a"].insert({"id": 1})
        db["b"].insert([{"id": n} for n in range(100)])
        db["a"].insert([{"id": n} for n in range(2, 40)])

        found = [tables.newest_change(db, name) for name in ("a", "b", "c")]

        assert [142, 104, None] == [change and change.seq for change in found]


# ---------------------------------------------------------------------------------------------------------------
# On a terminal


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        ("rows F games --column id,player", "id  player\n1   Bob\n2   Eve\nx   Ann\n"),
        ("rows F games --where id=x --long", 'id      x\nplayer  Ann\nscore   3\nhome    {"city":"Rome"}\n'),
        ("get F games 1", "id      1\nplayer  Bob\nscore   12\n"),
        (
            "index list F games",
            "table  index  expression    multi  unique  entries\ngames  score  row['score']  no     no            3\n",
        ),
        ("shell F -c games.limit(2)", "id  player  score\n 1  Bob        12\n 2  Eve         9\n"),
        ("shell F -c {'inserted':1}", "inserted  1\n"),
        ("shell F -c 'a'", "'a'\n"),
    ],
)  # fmt: skip
def test_a_terminal_gets_tables(file, on_terminal, arguments, printed):
    result = run(*(str(file) if word == "F" else word for word in arguments.split()))

    assert printed.replace(" ", "") == done(result).stdout.replace(" ", "")
    assert printed.splitlines()[-1] == result.stdout.splitlines()[-1]


def test_a_table_that_is_empty_says_so_beside_the_result(file, on_terminal):
    assert ("", "reactdb: no documents\n") == (
        run("rows", file, "quiet").stdout,
        run("rows", file, "quiet").stderr,
    )


@pytest.mark.parametrize("arguments", [(), ("--json",), ("--csv",), ("--tsv",), ("--long",)])
def test_no_value_reaches_the_terminal_as_a_control_character(file, on_terminal, arguments):
    with reactdb.connect(file) as db:
        db["games"].insert({"id": TITLES, TITLES: [TITLES]})

    for command in (
        ("rows", file, "games", *arguments),
        ("tail", file),
        ("shell", file, "-c", "games.run()"),
    ):
        printed = done(run(*command)).stdout

        assert "own" in printed
        assert not {"\x1b", "\x07", "\x9d", "\x9c", "\x7f", "\u202e"} & set(printed)


def test_json_on_a_terminal_is_the_same_value(file, on_terminal):
    with reactdb.connect(file) as db:
        db["quiet"].insert({"id": 1, "text": TITLES})

    assert {"id": 1, "text": TITLES} == json.loads(run("rows", file, "quiet", "--json").stdout)


def test_colours_are_left_out_where_no_color_is_set(file, on_terminal):
    coloured = run("rows", file, "games", color=True).stdout
    plain = run("rows", file, "games", color=True, env={"NO_COLOR": "1"}).stdout

    assert "\x1b[1m" in coloured
    assert "\x1b" not in plain


def test_wide_documents_keep_every_column_on_the_screen(file, on_terminal):
    with reactdb.connect(file) as db:
        db["quiet"].insert({"id": 1, **{f"field{n}": "x" * 50 for n in range(6)}})

    header, line = run("rows", file, "quiet").stdout.splitlines()

    assert header.endswith("field5")
    assert max(len(header), len(line)) <= 80


def test_fields_without_room_on_the_screen_are_named_and_the_key_is_whole(file, on_terminal):
    key = "2026-11-29-long-key-of-a-flight"
    with reactdb.connect(file) as db:
        db["quiet"].insert({"id": key, **{f"field{n}": "x" * 50 for n in range(9)}})

    header, line, rest = run("rows", file, "quiet").stdout.splitlines()
    named = run("rows", file, "quiet", "--column", "id,field6,field7,field8").stdout.splitlines()

    assert line.split()[0] == key
    assert header.split() == ["id", "field0", "field1", "field2"]
    assert rest.startswith("and 6 fields more (--long shows all): field3, field4")
    assert max(map(len, (header, line, rest))) <= 80
    assert named[0].split() == ["id", "field6", "field7", "field8"]


def test_a_drop_asks_on_a_terminal(file, on_terminal):
    refused = run("table", "drop", file, "games", input="n\n")
    dropped = run("table", "drop", file, "games", input="y\n")

    assert (130, 0) == (refused.exit_code, dropped.exit_code)
    assert "Remove table games with 3 documents?" in dropped.stderr


# ---------------------------------------------------------------------------------------------------------------
# Interrupted


def test_ctrl_c_ends_a_verb_with_130_and_one_line(file, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(rows, "documents", interrupted)
    result = run("rows", file, "games")

    assert (130, "reactdb: interrupted") == (result.exit_code, result.stderr.strip())


def test_a_reader_that_has_enough_is_no_error(file):
    with reactdb.connect(file, durability="soft") as db:
        db["quiet"].insert([{"id": n, "text": "x" * 100} for n in range(3_000)])
    command = [sys.executable, "-m", "reactdb.cli", "rows", str(file), "quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline().startswith(b'{"id":0,')
        child.stdout.close()

        assert (b"", 0) == (child.stderr.read(), child.wait(30))


# ---------------------------------------------------------------------------------------------------------------
# Documents, backup, undo


def test_put_reads_lines_and_names_the_keys_that_it_makes(file):
    result = run("put", file, "quiet", "--origin", "me", input='{"id": 1}\n\n{"a": 2}\n')

    assert done(result).stdout.startswith("2 documents in quiet: 2 inserted; key ")
    with reactdb.connect(file) as db:
        assert 2 == db["quiet"].count().run()
        assert {"me"} == {change.origin for change in db.log(db.seq - 2)}


def test_put_takes_line_separators_of_unicode_as_text(file):
    text = "a\u2028b\u2029c\x85d"

    done(run("put", file, "quiet", input=json.dumps({"id": 1, "text": text}, ensure_ascii=False) + "\r\n"))

    with reactdb.connect(file) as db:
        assert text == db["quiet"].get(1).run()["text"]


def test_a_backup_is_a_database_of_the_same_content(file, tmp_path):
    result = json.loads(done(run("backup", file, tmp_path / "copy.db", "--json")).stdout)

    assert (6, str(tmp_path / "copy.db")) == (result["seq"], result["path"])
    assert 1 == run("backup", file, tmp_path / "copy.db").exit_code
    assert done(run("backup", file, tmp_path / "copy.db", "--overwrite")).stdout.endswith(
        f"as of seq 6 to {tmp_path / 'copy.db'}\n"
    )
    assert BOB + EVE + ANN == run("rows", tmp_path / "copy.db", "games").stdout


def content(file: Path) -> dict[object, dict[str, object]]:
    with reactdb.connect(file, read_only=True) as db:
        return {one["id"]: one for one in db["games"].run()}


def test_each_undo_takes_the_commit_before_and_an_undo_can_be_undone(file):
    states = [content(file)]
    for command in (("put", '{"id":1}'), ("delete", "2"), ("put", "--update", '{"id":1,"a":1}')):
        done(run(command[0], file, "games", *command[1:]))
        states.append(content(file))

    for state in reversed(states[:-1]):
        done(run("undo", file))
        assert state == content(file)
    undone = json.loads(done(run("undo", file, "--commit", "12", "--json")).stdout)

    assert states[1] == content(file)
    assert ("undo of seq 7", 1, []) == (undone["commits"][0]["origin"], undone["restored"], undone["skipped"])


def test_an_undo_says_what_it_did_and_how_to_make_it_again(file):
    done(run("delete", file, "games", "1", "--origin", "ui"))
    first, second, third = done(run("undo", file)).stdout.splitlines()

    assert first.startswith("took back seq 7 (ui, ")
    assert "1 document of games as before; seq 8" == second
    assert f"to make it again: reactdb undo {file} --commit 8" == third


def test_a_dry_run_writes_nothing(file):
    before = content(file)
    result = done(run("undo", file, "--since", "2", "--dry-run"))

    assert "3 documents of games would be as before; nothing was written" in result.stdout
    assert before == content(file)


def test_several_commits_are_taken_back_as_one(file):
    done(run("undo", file, "--count", "2"))

    with reactdb.connect(file) as db:
        assert [] == db["games"].run()
        assert {"undo of seq 3-5"} == {change.origin for change in db.log(6)}
        assert 1 == len({change.commit for change in db.log(6)})


def test_only_the_commits_of_an_origin_are_taken_back(file):
    done(run("put", file, "games", '{"id": 1}', "--origin", "ui"))
    done(run("put", file, "games", '{"id": 2}', "--origin", "sync"))
    done(run("undo", file, "--origin", "ui"))

    assert ({"id": 1, "player": "Bob", "score": 12}, {"id": 2}) == (content(file)[1], content(file)[2])


def test_a_document_with_a_conflict_keeps_all_of_its_changes(file):
    for score, origin in ((1, "ui"), (2, "sync"), (3, "ui")):
        done(run("put", file, "games", json.dumps({"id": 1, "score": score}), "--origin", origin))
    before = content(file)
    result = done(run("undo", file, "--origin", "ui", "--count", "2", "--skip-conflicts"))

    assert "left out" in result.stderr
    assert before == content(file)


def test_a_document_that_was_changed_since_is_not_overwritten(file):
    done(run("put", file, "games", '{"id": 1}', '{"id": 2}', "--origin", "ui"))
    done(run("put", file, "games", '{"id": 2, "new": true}'))
    refused = run("undo", file, "--origin", "ui")
    unchanged = content(file)
    done(run("undo", file, "--origin", "ui", "--skip-conflicts"))

    assert (
        "undo: changed by another commit since: games/2; nothing was written; --skip-conflicts leaves it out"
        == error_of(refused)
    )
    assert {"id": 1} == unchanged[1]
    assert ("Bob", True) == (content(file)[1]["player"], content(file)[2]["new"])


def test_a_commit_of_a_materialized_view_is_passed_over(file):
    with reactdb.connect(file) as db:
        view = db.materialize(db["games"].group("player").count(), "counts")
        db["games"].insert({"id": 50, "player": "Bob"})
        view.close()

    assert "1 document of games as before" in done(run("undo", file)).stdout


# ---------------------------------------------------------------------------------------------------------------
# Completion


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_printed(name):
    assert "_REACTDB_COMPLETE" in done(run("completion", name)).stdout


@pytest.mark.parametrize(
    ("arguments", "word", "found"),
    [
        ([], "ta", ["table", "tables", "tail"]),
        ([], "--v", ["--version"]),
        (["rows", "F"], "ga", ["games"]),
        (["rows", "F"], "", ["games", "quiet"]),
        (["tail", "F"], "q", ["quiet"]),
        (["rows", "F", "games"], "--li", ["--limit"]),
        (["table"], "re", ["rename"]),
        (["rows", "missing.db"], "", []),
        (["import", "F", "games", "--format"], "c", ["csv"]),
    ],
)  # fmt: skip
def test_commands_options_and_tables_are_completed(file, arguments, word, found):
    completer = ShellComplete(main, {}, "reactdb", "_REACTDB_COMPLETE")
    given = [str(file) if one == "F" else one for one in arguments]

    assert found == [one.value for one in completer.get_completions(given, word)]


def test_files_are_left_to_the_shell(file):
    completer = ShellComplete(main, {}, "reactdb", "_REACTDB_COMPLETE")

    assert ["file"] == [one.type for one in completer.get_completions(["rows"], "ar")]


def test_the_help_of_every_verb_of_data_has_its_python_line():
    without = {"completion", "demo", "spark", "table", "index"}

    assert [] == [
        name for name in set(cli.COMMANDS) - without if "In Python" not in run(name, "--help").stdout
    ]
    for group, names in (
        ("table", ("create", "rename", "drop", "list")),
        ("index", ("create", "drop", "list")),
    ):
        assert all("In Python" in run(group, name, "--help").stdout for name in names)
