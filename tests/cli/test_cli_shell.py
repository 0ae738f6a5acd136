"""`reactdb shell`: the prompt, its names, completion, history and pager; `shell`, `top` and `demo` in a pseudo-terminal."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click
import pytest

import reactdb
from reactdb.cli import shell, terminal, top
from reactdb.cli.shellnames import ShellCompleter, ShellNames
from tests.support.command import done, error_of, run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "arena.db"
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games").insert(
            [{"id": n, "score": n * 10, "player": f"p{n}"} for n in range(1, 201)]
        )
        db.table_create("my-list").insert({"id": 1, "what": "x"})
        db.table_create("list")
    return path


@pytest.fixture
def names(file):
    with reactdb.connect(file, read_only=True) as db:
        yield ShellNames(db, {"db": db, "row": reactdb.row})


# ---------------------------------------------------------------------------------------------------------------
# Names and completion


def test_tables_are_names_and_never_hide_those_of_python(names):
    assert "<Table 'games'>" == repr(names["games"])
    for name in ("list", "nobody"):
        with pytest.raises(KeyError):
            names[name]


@pytest.mark.parametrize(
    ("before", "word", "some"),
    [
        ("", "gam", ["games"]),
        ("x = ", "gam", ["games"]),
        ('db["', "ga", ["games"]),
        ("db['", "my", ["my-list"]),
        ('db.table("', "", ["games", "list", "my-list"]),
        ('games.filter(row["', "sc", ["score"]),
        ('games.order_by("', "", ["id", "player", "score"]),
        ('games.order_by("score", "', "pl", ["player"]),
        ('db["my-list"].pluck("', "", ["id", "what"]),
        ('row["', "", ["id", "player", "score", "what"]),
        ("games.filter(", "sc", ["score="]),
        ("games.filter(player=1, ", "sc", ["score="]),
        ("", "games.ord", ["games.order_by("]),
        ("", "db.table_l", ["db.table_list()"]),
        ("", "nobody.x", []),
    ],
)
def test_tables_fields_and_methods_are_completed(names, before, word, some):
    assert some == ShellCompleter(names).matches(before, word)


def test_an_error_in_a_word_completes_nothing(names, monkeypatch):
    readline = pytest.importorskip("readline")
    monkeypatch.setattr(readline, "get_line_buffer", lambda: "games.x.y.z")
    monkeypatch.setattr(readline, "get_begidx", lambda: 0)

    assert ShellCompleter(names).complete("games.x.y.z", 0) is None


# ---------------------------------------------------------------------------------------------------------------
# Running code


def test_statements_of_standard_input_run_in_order_and_an_error_names_its_line(file):
    result = run("shell", file, input="best = games.get(200)\nbest\nfor n in range(2):\n    n\nmissing\n")

    assert '{"id":200,"score":2000,"player":"p200"}\n0\n1\n' == result.stdout
    assert "standard input, line 5: NameError: name 'missing' is not defined" in result.stderr
    assert 1 == result.exit_code


def test_a_table_that_is_created_has_its_name_at_once(file):
    code = "db.table_create('new'); new.insert({'id': 1}); new.count()"

    assert "1" == done(run("shell", file, "--write", "-c", code)).stdout.splitlines()[-1]


def test_nothing_is_written_without_the_option(file):
    before = file.read_bytes()
    result = run("shell", file, "-c", "games.insert({'id': 0})")

    assert (1, before) == (result.exit_code, file.read_bytes())
    assert result.stderr.endswith("start the shell with --write to change the file\n")


@pytest.mark.parametrize(
    ("code", "first"),
    [
        ("games.live()", '{"id":1,"score":10,"player":"p1"}'),
        ("games.count().live()", "200"),
        ("db.observe(lambda db: db['games'].count().run())", "200"),
        ("[]", ""),
        ("games.get(0)", "None"),
        ("db", "<Database"),
        ("{1, 2}", "{1, 2}"),
        ("games['score'].limit(2)", "10"),
        ("games.group('player').count().limit(1)", '{"'),
        ("20 + 1; _ * 2", "21\n42\n"),
    ],
)
def test_every_kind_of_result_is_printed(file, code, first):
    assert done(run("shell", file, "-c", code)).stdout.startswith(first)


def test_a_feed_is_printed_until_ctrl_c(file, monkeypatch):
    """The interrupt arrives after the initial events."""
    printed = []

    def echo(lines, escape=None):
        printed.extend(lines)
        if len(printed) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(shell, "echo_lines", echo)
    result = run("shell", file, "-c", "games.changes(include_initial=True)\n7")

    assert 0 == result.exit_code, result.output
    assert '{"new_val":{"id":1,"score":10,"player":"p1"}}' == printed[0]
    assert ["7"] == printed[3:]


@pytest.mark.parametrize(
    ("event", "line"),
    [
        ({"old_val": None, "new_val": {"id": 1}}, "add      id: 1"),
        ({"old_val": {"id": 1, "a": 1}, "new_val": {"id": 1, "a": 2}}, "change   1  a: 1 -> 2"),
        ({"old_val": {"id": 1}, "new_val": None}, "remove   id: 1"),
        ({"old_val": 3, "new_val": 4}, "change   3 -> 4"),
        ({"type": "initial", "new_val": {"id": "\x1b"}}, 'initial  id: "\\u001b"'),
        ({"state": "ready"}, '{"state":"ready"}'),
    ],
)
def test_an_event_is_a_line(event, line):
    assert line == click.unstyle(shell.event_line(event))


# ---------------------------------------------------------------------------------------------------------------
# The pager and the history


@pytest.fixture
def on_terminal(monkeypatch):
    for module in (shell, terminal):
        monkeypatch.setattr(module, "is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")


@pytest.mark.parametrize("pager", [None, "", "  ", "no-such-pager -R", "unclosed 'quote"])
def test_without_a_pager_the_first_hundred_are_printed(file, on_terminal, monkeypatch, pager):
    monkeypatch.delenv("PAGER", raising=False)
    if pager is not None:
        monkeypatch.setenv("PAGER", pager)
    header, *lines = done(run("shell", file, "-c", "games")).stdout.splitlines()

    assert ("id  score  player", 101) == (header.strip(), len(lines))
    assert lines[-1].startswith("the first 100; ")


def test_a_pager_with_options_gets_everything(file, on_terminal, monkeypatch, tmp_path):
    program = f"import sys; open({str(tmp_path / 'paged')!r}, 'w').write(sys.argv[1] + sys.stdin.read())"
    (tmp_path / "pager.py").write_text(program)
    monkeypatch.setenv("PAGER", f"{sys.executable} -S -E {tmp_path / 'pager.py'} --option")
    result = done(run("shell", file, "-c", "games"))
    lines = (tmp_path / "paged").read_text().splitlines()

    assert "" == result.stdout
    assert lines[0].startswith("--option")
    assert 200 + 2 == len(lines)
    assert "200   2000  p200" == lines[-1].strip()


@pytest.mark.parametrize(
    ("variable", "folder"), [("state", "state"), ("", "home/.local/state"), (None, "home/.local/state")]
)
def test_the_history_is_in_the_folder_of_states(monkeypatch, tmp_path, variable, folder):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    if variable is not None:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / variable) if variable else "")

    assert tmp_path / folder / "reactdb" / "shell_history" == shell.history_file()


# ---------------------------------------------------------------------------------------------------------------
# The picture of `top`


def test_the_picture_of_top_fits_a_small_window(file):
    feed = {
        "purpose": "feed",
        "selection": "table('games')" * 9,
        "state": "behind",
        "lag": 9,
        "queued": 2,
        "dropped": 0,
        "delivered": 5,
    }
    process = {"process": 4711, "program": "board.py", "feeds": [feed] * 30, "feed_count": 1_030}
    figures = top.Figures(
        path="/x.db", seq=1042, oldest=17, changes_per_s=1.5, newest_age_s=0.2, file_bytes=1, wal_bytes=2,
        tables=tuple(top.TableLine(f"t{n}", n, 0.5) for n in range(40)),
        processes=[process], consumers=[], holds=[{"by": "consumer 'mail'", "from": 900}], others="asked",
    )  # fmt: skip

    lines = [click.unstyle(line) for line in top.figure_lines(figures, 80, 23)]

    assert 23 == len(lines)
    assert max(map(len, lines)) <= 80
    assert "held by consumer 'mail': the history past seq 900 (142 changes)" in lines
    assert "4711 board.py  feed" in "\n".join(lines)
    assert 2 == sum(line.startswith("and ") for line in lines)
    assert len(top.figure_lines(figures)) > 70


def test_top_shows_the_feeds_of_another_handle(file):
    with reactdb.connect(file) as db, db["games"].order_by("score").limit(3).live():
        printed = done(run("top", file, "--count", "1")).stdout

    assert "live list" in printed
    assert "table('games').order_by(" in printed


def test_standard_input_that_is_not_utf_8_is_refused_and_nothing_of_it_runs(file):
    result = run("shell", file, input=b"games.count()\n'\xff'\n")

    assert "standard input is not UTF-8: byte 16" == error_of(result)
    assert 1 == result.exit_code


# ---------------------------------------------------------------------------------------------------------------
# In a pseudo-terminal


class Window:
    """A program in a terminal of a size, and the picture that it has."""

    def __init__(self, folder: Path, *arguments: object, columns: int = 80, lines: int = 24) -> None:
        pexpect, pyte = pytest.importorskip("pexpect"), pytest.importorskip("pyte")
        self._pexpect = pexpect
        self.screen = pyte.HistoryScreen(columns, lines, history=1_000)
        self._stream = pyte.Stream(self.screen)
        environment = {**os.environ, "TERM": "xterm-256color", "HOME": str(folder), "INPUTRC": "/dev/null"}
        for name in ("XDG_STATE_HOME", "PAGER", "NO_COLOR", "COLUMNS", "LINES"):
            environment.pop(name, None)
        command = ["-m", "reactdb.cli", *map(str, arguments)]
        self.child = pexpect.spawn(
            sys.executable,
            command,
            dimensions=(lines, columns),
            encoding="utf-8",
            env=environment,
            timeout=30,
        )

    def wait_for(self, text: str) -> str:
        """The picture, as soon as it has a text, also where the window breaks the text into two lines."""
        end = time.monotonic() + 30
        while text not in (picture := "\n".join(self.screen.display)) and text not in picture.replace(
            "\n", ""
        ):
            assert time.monotonic() < end, picture
            try:
                self._stream.feed(self.child.read_nonblocking(65_536, 1))
            except self._pexpect.TIMEOUT:
                continue
            except self._pexpect.EOF:
                picture = "\n".join(self.screen.display)
                assert text in picture, picture
        return picture

    def end(self) -> int | None:
        """The exit code, after the rest of the output."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                self._stream.feed(self.child.read_nonblocking(65_536, 1))
            except self._pexpect.TIMEOUT:
                continue
            except self._pexpect.EOF:
                break
        self.child.close()
        return self.child.exitstatus


@pytest.mark.slow
def test_a_session_at_the_prompt(file, tmp_path):
    with reactdb.connect(file) as db:
        db["my-list"].insert({"id": 2, "what": "\x1b]0;own\x07"})
    home = tmp_path / "home"
    home.mkdir()
    window = Window(home, "shell", file)
    try:
        assert "tables: games, list, my-list" in window.wait_for(">>> ")
        window.child.send("gam\t.li\tmit(2)\r")
        window.wait_for("2     20  p2")
        window.child.send('db["my-list"]\r')
        window.wait_for("\\x1b]0;own\\x07")
        window.child.send("games.insert({'id': 0})\r")
        window.wait_for("start the shell with --write")
        window.child.send("games.changes()\r")
        window.wait_for("events until Ctrl-C")
        with reactdb.connect(file) as db:
            db["games"].insert({"id": 5_000, "player": "new"})
        window.wait_for('add      id: 5000, player: "new"')
        window.child.sendintr()
        window.child.send("1 + 2000\r")
        window.wait_for("2001")
        window.child.sendeof()

        assert 0 == window.end()
        assert "" == window.screen.title
    finally:
        window.child.close(force=True)
    history = home / ".local/state/reactdb/shell_history"
    assert "games.limit(2)" in history.read_text()
    assert 0o600 == history.stat().st_mode & 0o777


@pytest.mark.slow
def test_top_in_a_window_is_ended_by_ctrl_c(file, tmp_path):
    window = Window(tmp_path, "top", file)
    try:
        picture = window.wait_for("games")
        window.child.sendintr()

        assert 0 == window.end()
        assert "Ctrl-C ends" in picture
        assert "reactdb:" not in "\n".join(window.screen.display)
    finally:
        window.child.close(force=True)


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "lines", "airports"), [(80, 24, 2), (200, 60, 3)])
def test_the_demo_fills_the_window_and_ends_with_what_to_try_next(tmp_path, columns, lines, airports):
    window = Window(tmp_path, "demo", "--speed", "400", columns=columns, lines=lines)
    try:
        window.wait_for("events of these lists")
        window.child.sendintr()
        code = window.end()
    finally:
        window.child.close(force=True)
    everything = "\n".join(
        ["".join(line[place].data for place in range(columns)) for line in window.screen.history.top]
        + list(window.screen.display)
    )

    assert 130 == code
    assert "reactdb demo" in everything
    assert "Ctrl-C stops" in everything
    assert airports == sum(name in everything for name in ("EWR Newark", "JFK Kennedy", "LGA LaGuardia"))
    assert "reactdb open flights.db" in everything
    assert "reactdb shell flights.db" in everything
