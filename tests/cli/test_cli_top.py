"""`reactdb top`: the figures, and how they are drawn."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import reactdb
from reactdb.cli import terminal, top
from tests.support.command import run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "games.db"
    with reactdb.connect(path, durability="soft") as db:
        db.table_create("games").insert([{"id": 1}, {"id": 2}])
        db.table_create("quiet")
    return path


@pytest.fixture
def observe(file):
    """An observer of the file, and the clocks that it looks at: [monotonic, wall]."""
    clocks = [100.0, 0.0]
    with reactdb.connect(file, read_only=True) as db:
        yield top.Observer(db, lambda: clocks[0], lambda: clocks[1]), clocks


def test_the_first_look_has_figures_and_no_rates(observe, file):
    figures = observe[0].look()

    assert (4, 0, None) == (figures.seq, figures.oldest, figures.changes_per_s)
    assert (top.TableLine("games", 2, None), top.TableLine("quiet", 0, None)) == figures.tables
    assert file.stat().st_size == figures.file_bytes


def test_rates_are_of_the_time_since_the_look_before(observe, file):
    observer, clocks = observe
    observer.look()
    with reactdb.connect(file, durability="soft") as db:
        db.table("quiet").insert([{"id": n} for n in range(6)])
        db.table("games").get(1).delete()
    clocks[0] += 2.0

    figures = observer.look()
    clocks[0] += 1.0

    assert 3.5 == figures.changes_per_s
    assert (top.TableLine("quiet", 6, 3.0), top.TableLine("games", 1, 0.5)) == figures.tables
    assert 0.0 == observer.look().changes_per_s


def test_a_table_that_was_dropped_is_gone_and_its_changes_count(observe, file):
    observer, clocks = observe
    observer.look()
    with reactdb.connect(file, durability="soft") as db:
        db.table("games").insert({"id": 3})
        db.table_drop("games")
    clocks[0] += 1.0

    figures = observer.look()

    # Its end is a change, too.
    assert 2.0 == figures.changes_per_s
    assert ["quiet"] == [table.name for table in figures.tables]


def test_where_compaction_was_quicker_tables_have_no_rate(observe, file):
    observer, clocks = observe
    observer.look()
    with reactdb.connect(file, durability="soft") as db:
        db.table("games").insert([{"id": 3}, {"id": 4}])
        db.compact(0)
    clocks[0] += 1.0

    figures = observer.look()

    assert 2.0 == figures.changes_per_s
    assert {None} == {table.changes_per_s for table in figures.tables}
    assert figures.newest_age_s is None


def test_the_age_is_that_of_the_newest_change(observe, file):
    observer, clocks = observe
    with reactdb.connect(file, read_only=True) as db:
        newest = list(db.log())[-1]
    clocks[1] = newest.time / 1000 + 90.0

    assert 90.0 == pytest.approx(observer.look().newest_age_s)


def test_json_is_one_object_a_refresh(file, monkeypatch):
    pauses = []
    monkeypatch.setattr(top, "pause", pauses.append)

    result = run("top", file, "--json", "--count", 3)

    looks = [json.loads(line) for line in result.stdout.splitlines()]
    assert [4, 4, 4] == [look["seq"] for look in looks]
    assert {"name": "quiet", "documents": 0, "changes_per_s": None} == looks[0]["tables"][1]
    # The pauses are not slept here, so each is longer by what was not waited before.
    assert 2 == len(pauses)
    assert 0.0 < pauses[0] <= top.REFRESH_S


def test_without_a_terminal_pictures_follow_each_other(file):
    result = run("top", file, "--count", 1)

    assert 0 == result.exit_code
    lines = result.stdout.splitlines()
    assert str(file.resolve()) == lines[0]
    assert lines[1].startswith("seq 4; - changes a second, the newest ")
    assert [["table", "documents", "changes/s"], ["games", "2", "-"], ["quiet", "0", "-"]] == [
        line.split() for line in lines[4:7]
    ]


def test_ctrl_c_is_how_it_ends(file, monkeypatch):
    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(top, "pause", interrupt)
    result = run("top", file, "--json")

    assert (0, 1) == (result.exit_code, len(result.stdout.splitlines()))


def test_it_never_writes(file):
    before = file.read_bytes()
    run("top", file, "--count", 1)

    assert before == file.read_bytes()


def test_a_screen_leaves_the_last_picture(capsys):
    with top.TextScreen() as draw:
        draw(["first"])
        draw(["games  2", "[not markup]"])

    assert "games  2\n[not markup]" in capsys.readouterr().out


def test_without_rich_pictures_follow_each_other_and_a_sentence_says_why(monkeypatch, capsys):
    monkeypatch.setattr(top, "is_terminal", lambda stream: True)
    monkeypatch.setitem(sys.modules, "rich.console", None)

    with top.open_screen() as draw:
        draw(["first"])
        draw(["second"])

    output = capsys.readouterr()
    assert "first\n\nsecond\n\n" == output.out
    assert f"{terminal.NO_RICH}\n" == output.err


@pytest.mark.parametrize(
    ("age_s", "words"),
    [(0.44, "0.4 s"), (119, "119.0 s"), (121, "2 min"), (7_200, "2 h"), (200_000, "2 days")],
)
def test_an_age_is_in_the_unit_that_fits(age_s, words):
    assert words == top.format_age(age_s)
    assert terminal.width(words) <= 7
