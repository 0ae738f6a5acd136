"""Databases, tables, selections, feeds and live results show themselves in a notebook."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import pytest

import reactdb
from reactdb import desc, row


class Table(HTMLParser):
    """The title, the cells by row, and the note of a view."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.text: list[str] = []
        self.tags: set[str] = set()
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")
        self.inside = tag

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside in ("th", "td"):
            self.rows[-1][-1] += data
        elif self.inside != "style":
            self.text.append(data)


class Printer:
    """The part of IPython's printer that is called."""

    def __init__(self, value: Any) -> None:
        self.written = ""
        # It takes the first class that has one of the methods.
        kind = next(one for one in type(value).__mro__ if {"_repr_pretty_", "__repr__"} & vars(one).keys())
        vars(kind)["_repr_pretty_"](value, self, False)

    def text(self, text: str) -> None:
        self.written += text


def shown(value: Any) -> Table:
    return Table(value._repr_html_())


@pytest.fixture
def db():
    with reactdb.connect(":memory:") as database:
        yield database


@pytest.fixture
def games(db):
    table = db.table_create("games")
    table.insert([{"id": number, "score": number * 10} for number in range(30)])
    return table


@pytest.fixture(scope="module")
def large():
    """A database with a table too large to be read in a moment."""
    with reactdb.connect(":memory:", durability="soft") as database:
        table = database.table_create("many")
        table.insert(
            [{"id": number, "score": number % 7, "team": f"t{number % 3}"} for number in range(2_000)]
        )
        yield database


@pytest.fixture
def many(large):
    return large["many"]


def test_a_table_shows_its_first_20_documents_of_how_many(games):
    view = shown(games)

    assert ["id", "score"] == view.rows[0]
    assert [str(number) for number in range(20)] == [cells[0] for cells in view.rows[1:]]
    assert "20 of 30 documents" in "".join(view.text)


def test_the_text_says_as_much_as_the_html(games):
    lines = Printer(games).written.splitlines()

    assert "Table games · 20 of 30 documents" == lines[0]
    assert ["id", "score"] == lines[1].split()
    assert ["19", "190"] == lines[-1].split()


def test_a_document_is_a_list_of_its_fields(games):
    view = shown(games.get(3))

    assert [["field", "value"], ["id", "3"], ["score", "30"]] == view.rows


def test_no_document_is_said(games):
    assert "no document" in "".join(shown(games.get(-1)).text)


def test_a_value_is_shown(games):
    assert "30" in "".join(shown(games.count()).text)


def test_a_database_lists_its_tables(db):
    db.table_create("games").index_create("score")
    db["games"].insert({"id": 1})

    assert [["table", "documents", "primary key", "indexes"], ["games", "1", "id", "score"]] == shown(db).rows


def test_everything_in_a_document_is_escaped(games):
    games.insert({"id": '<img src=x onerror="a">', "<b>field</b>": "<script>alert(1)</script>"})

    view = shown(games.get('<img src=x onerror="a">'))

    assert {"div", "style", "b", "table", "thead", "tbody", "tr", "th", "td"} >= view.tags
    assert ["<b>field</b>", "<script>alert(1)</script>"] in view.rows


def test_control_characters_are_shown_by_their_escapes(games):
    games.insert({"id": "a", "text": "one\ntwo\x1b[31m\x00\u202e"})

    assert ["text", r"one\ntwo\x1b[31m\x00\u202e"] in shown(games.get("a")).rows


def test_at_most_20_rows_and_10_columns_are_shown(games):
    games.insert(
        [{"id": f"wide {number}", **{f"f{field}": field for field in range(40)}} for number in range(40)]
    )

    view = shown(games.filter(row.has_fields("f1")))

    assert 21 == len(view.rows)
    assert {10} == {len(cells) for cells in view.rows}
    assert "31 more fields" in "".join(view.text)


def test_a_long_value_is_cut_before_it_is_written(games):
    games.insert({"id": "long", "text": "x" * 10_000, "list": list(range(10_000))})

    assert all(len(text) <= 200 for cells in shown(games.get("long")).rows for text in cells)
    assert len(games._repr_html_()) < 10_000


def test_a_selection_of_a_small_table_shows_its_result(games):
    view = shown(games.order_by(desc("score")).limit(3))

    assert ["29", "28", "27"] == [cells[0] for cells in view.rows[1:]]
    assert "3 documents" in "".join(view.text)


def test_a_filter_of_a_large_table_reads_500_documents(many):
    found = shown(many.filter(row["score"] == 3))
    none = shown(many.filter(row["id"] == "nowhere").pluck("id"))

    assert 21 == len(found.rows)
    assert "0 found in the first 500 documents" in "".join(none.text)
    assert "3 documents" in "".join(shown(many.filter(row["score"] == 3).limit(3)).text)


@pytest.mark.parametrize(
    "select",
    [
        lambda table: table.order_by("score"),
        lambda table: table.count(),
        lambda table: table.group("team").count(),
        lambda table: table.distinct("team"),
        lambda table: table.skip(1_500),
        lambda table: table.nth(1_999),
    ],
)
def test_what_needs_all_documents_of_a_large_table_is_not_read(many, select):
    view = shown(select(many))

    assert [] == view.rows
    assert "not read" in "".join(view.text)


def test_a_function_of_the_program_is_not_called(games):
    calls: list[Any] = []

    view = shown(games.filter(lambda document: calls.append(document) or True))

    assert [] == calls
    assert "not read: it calls a function" in "".join(view.text)


def test_a_filter_of_fields_is_shown_as_it_is_written(db):
    games = db.table_create("filtered")

    assert "<Selection 'filtered'.filter({'score': 3})>" == repr(games.filter(score=3))
    assert "<Selection 'filtered'.filter({'a': {'b': row['c']}})>" == repr(
        games.filter({"a": {"b": row["c"]}})
    )


def test_a_selection_says_its_steps(games):
    selection = games.filter(row["score"] > 10).order_by(desc("score")).skip(1).limit(3).pluck("id")

    assert (
        "<Selection 'games'.filter(row['score'] > 10).order_by(desc(row['score'])).skip(1).limit(3).pluck('id')>"
        == repr(selection)
    )


def test_showing_a_feed_does_not_begin_it(db, games):
    feed = games.changes()

    before = shown(feed)

    assert [] == db.subscriptions()
    assert "not begun" in "".join(before.text)
    with feed.subscribe(lambda event: None):
        assert "open" in "".join(shown(feed).text)


def test_a_live_list_and_a_live_value_show_their_content(games):
    board, count, one = (
        games.order_by(desc("score")).limit(2).live(),
        games.count().live(),
        games.get(1).live(),
    )

    assert [["id", "score"], ["29", "290"], ["28", "280"]] == shown(board).rows
    assert "30" in "".join(shown(count).text)
    assert ["score", "10"] in shown(one).rows
    assert "live" in "".join(shown(board).text)


def test_an_observation_shows_its_value(db):
    observation = db.observe(lambda db: 7)

    assert "7" in "".join(shown(observation).text)


def test_a_view_of_the_past_is_shown_without_undoing_many_changes(large):
    assert "as of seq 1" in "".join(shown(large.at(1)).text)
    assert "of the past" in "".join(shown(large.at(1)["many"]).text)
    assert 21 == len(shown(large.at(large.seq)["many"]).rows)


def test_nothing_raises_when_the_database_is_closed(db, games):
    values = [
        db, games, games.get(1), games.count(), games.filter(row["score"] > 1), games.changes(), db.changes(),
        games.live(), games.count().live(), db.observe(lambda db: 1),
    ]  # fmt: skip
    db.close()

    for value in values:
        assert "reactdb-view" in value._repr_html_()
        assert Printer(value).written
        assert repr(value)


def test_a_missing_table_is_said_and_not_raised(db):
    assert "nowhere" in db.table("nowhere")._repr_html_()


def test_a_table_with_a_type_shows_its_documents(db):
    @dataclass
    class Todo:
        id: int
        text: str

    pytest.importorskip("msgspec")
    db.table_create("todos")
    todos = db.table("todos", type=Todo)
    todos.insert(Todo(1, "milk"))

    assert [["id", "text"], ["1", "milk"]] == shown(todos).rows
    assert [["id", "text"], ["1", "milk"]] == shown(todos.live()).rows


def test_colours_are_the_notebook_s_own(games):
    """Text inherits its colour, lines and shades are a transparent grey, and every rule has the class before it."""
    style = re.search(r"<style>(.*?)</style>", games._repr_html_())
    assert style is not None
    rules = [rule for rule in style[1].split("}") if rule]
    colours = set(re.findall(r"(?:color|background):([^;}]+)|(rgba?\([^)]*\)|#\w+)", style[1]))

    assert all(part.startswith(".reactdb-view") for rule in rules for part in rule.split("{")[0].split(","))
    assert {"inherit", "none", "rgba(128,128,128,.3)", "rgba(128,128,128,.09)"} >= {
        one or other for one, other in colours
    }
