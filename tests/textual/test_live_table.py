"""LiveTable: a table for Textual that follows a selection, driven by Textual's pilot."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from rich.cells import cell_len
from textual.app import App

import reactdb
from reactdb import desc, row
from reactdb.errors import InvalidOption, UsageError
from reactdb.textual import Frames, LiveTable


@pytest.fixture
def db():
    with reactdb.connect(":memory:", durability="soft") as database:
        yield database


@pytest.fixture
def games(db):
    table = db.table_create("games")
    table.insert([{"id": number, "player": f"player {number}", "score": number * 10} for number in range(50)])
    return table


class Window(App[None]):
    """An application with one table, which keeps the messages of the table."""

    def __init__(self, table: LiveTable) -> None:
        super().__init__()
        self.table = table
        self.highlighted: list[Any] = []
        self.selected: list[Any] = []
        self.states: list[str] = []

    def compose(self):
        yield self.table

    def on_live_table_row_highlighted(self, message: LiveTable.RowHighlighted) -> None:
        self.highlighted.append(message.key)

    def on_live_table_row_selected(self, message: LiveTable.RowSelected) -> None:
        self.selected.append((message.key, message.document, message.control is self.table))

    def on_live_table_state_changed(self, message: LiveTable.StateChanged) -> None:
        self.states.append(message.state)


class Driver:
    """What a test does with the window."""

    def __init__(self, window: Window, pilot: Any) -> None:
        self.window, self.table, self.pilot = window, window.table, pilot

    async def until(self, condition: Callable[[], Any]) -> None:
        """Let the application work until something is so."""
        for _ in range(2_000):
            if condition():
                await self.pilot.pause()
                return
            await self.pilot.pause(0.005)
        pytest.fail("it never came to be")

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    def lines(self) -> list[str]:
        """The lines of the table on the screen."""
        return [self.table.render_line(y).text for y in range(self.table.size.height)]

    def first_words(self) -> list[str]:
        """The first word of each row on the screen."""
        return [line.split()[0] for line in self.lines()[1:] if line.strip()]

    def is_equal(self, selection: Any) -> bool:
        return list(self.table.live) == selection.run()


@asynccontextmanager
async def opened(table: LiveTable, size: tuple[int, int] = (80, 12)) -> AsyncIterator[Driver]:
    window = Window(table)
    async with window.run_test(size=size) as pilot:
        driver = Driver(window, pilot)
        await driver.until(lambda: table.state != "loading")
        yield driver


def run(test: Callable[[], Any]) -> None:
    asyncio.run(test())


def test_the_documents_are_rows_with_a_header(games):
    async def test():
        async with opened(LiveTable(games)) as driver:
            assert ["id", "player", "score"] == driver.lines()[0].split()
            assert [str(number) for number in range(11)] == driver.first_words()
            assert 50 == driver.table.row_count

    run(test)


def test_columns_may_be_chosen_and_have_titles(games):
    async def test():
        table = LiveTable(games, columns={"score": "Points", "nothing": "Nothing"}, widths={"score": 9})
        async with opened(table) as driver:
            assert " Points     Nothing " == driver.lines()[0][:20]
            assert "         0          " == driver.lines()[1][:20]

    run(test)


def test_the_cursor_stays_on_its_document(games):
    async def test():
        board = games.order_by(desc("score"))
        async with opened(LiveTable(board)) as driver:
            await driver.press("down", "down", "down")
            assert 46 == driver.table.cursor_key

            games.insert([{"id": 100 + number, "score": 1_000 + number} for number in range(30)])
            games.get(48).delete()
            games.get(46).update({"score": 7})
            games.get(10).update({"score": 3_000})
            await driver.until(lambda: driver.is_equal(board))

            assert 46 == driver.table.cursor_key
            assert {"id": 46, "player": "player 46", "score": 7} == driver.table.cursor_document
            assert "46" in driver.first_words()
            assert [49, 48, 47, 46] == driver.window.highlighted

    run(test)


def test_when_its_document_is_deleted_the_cursor_is_on_the_next_one(games):
    async def test():
        async with opened(LiveTable(games)) as driver:
            await driver.press("down", "down")
            games.get(2).delete()
            await driver.until(lambda: driver.table.row_count == 49)

            assert 3 == driver.table.cursor_key
            assert [0, 1, 2, 3] == driver.window.highlighted

    run(test)


def test_a_document_that_leaves_and_comes_back_in_one_commit_keeps_the_cursor(db, games):
    async def test():
        async with opened(LiveTable(games)) as driver:
            await driver.press("down", "down")
            with db.transaction():
                games.get(2).delete()
                games.insert([{"id": -1}, {"id": 2, "player": "again"}])
            await driver.until(lambda: driver.table.row_count == 51)

            assert (2, "again") == (driver.table.cursor_key, driver.table.cursor_document["player"])

    run(test)


def test_rows_above_do_not_move_the_rows_in_the_window(games):
    async def test():
        async with opened(LiveTable(games)) as driver:
            driver.table.scroll_to(y=20, animate=False)
            await driver.pilot.pause()
            before = driver.first_words()

            games.insert([{"id": -number} for number in range(1, 6)])
            games.get(3).delete()
            await driver.until(lambda: driver.table.row_count == 54)

            assert before == driver.first_words()

    run(test)


def test_at_the_top_new_rows_appear(games):
    async def test():
        async with opened(LiveTable(games)) as driver:
            games.insert([{"id": -number} for number in range(1, 21)])
            await driver.until(lambda: driver.table.row_count == 70)

            assert "-20" == driver.first_words()[0]

    run(test)


def test_keys_move_the_cursor_and_scroll(games):
    async def test():
        async with opened(LiveTable(games)) as driver:
            for keys, key in [
                (("down", "down", "up"), 1),
                (("pagedown",), 12),
                (("pageup",), 1),
                (("end",), 49),
                (("down",), 49),
                (("home",), 0),
                (("up",), 0),
            ]:
                await driver.press(*keys)
                assert key == driver.table.cursor_key
                assert str(key) in driver.first_words()

    run(test)


def test_enter_and_a_second_click_select(games):
    async def test():
        async with opened(LiveTable(games)) as driver:
            await driver.press("down", "enter")
            await driver.pilot.click(LiveTable, offset=(5, 4))
            await driver.pilot.click(LiveTable, offset=(5, 4))
            await driver.pilot.click(LiveTable, offset=(5, 0))
            await driver.pilot.pause()

            first, second = driver.window.selected
            assert (1, {"id": 1, "player": "player 1", "score": 10}, True) == first
            assert 3 == second[0]

    run(test)


def test_the_mouse_wheel_scrolls(games):
    async def test():
        async with opened(LiveTable(games)) as driver:
            from textual.events import MouseScrollDown

            driver.table.post_message(
                MouseScrollDown(driver.table, 5, 5, 0, 1, 0, False, False, False, 5, 5, None)
            )
            await driver.until(lambda: driver.table.scroll_offset.y > 0)

            assert 0 == driver.table.cursor_key

    run(test)


def test_move_cursor_takes_a_key_of_any_type(db):
    mixed = db.table_create("mixed")
    mixed.insert([{"id": 1}, {"id": "1"}, {"id": ["a", 1]}, {"id": True}])

    async def test():
        async with opened(LiveTable(mixed)) as driver:
            for key in ("1", ["a", 1], True, 1):
                assert driver.table.move_cursor(key=key)
                assert (key is True, key) == (driver.table.cursor_key is True, driver.table.cursor_key)
            assert not driver.table.move_cursor(key="nowhere")

    run(test)


HOSTILE = [
    "[a] [bold]x[/bold] oops [/x]",
    "one\ntwo\rthree\tfour",
    "\x1b]0;title\x07\x1b[2J",
    "👨‍👩‍👧 ❤️ 🇩🇪 👍🏽",
    "日本語テキスト",
    "e\u0301" * 200,
    "\u202eright to left",
    "x" * 10_000,
    "",
]


def test_no_text_is_markup_and_none_shifts_a_column(db):
    texts = db.table_create("texts")
    texts.insert([{"id": number, "text": text, "z": "end"} for number, text in enumerate(HOSTILE)])
    texts.insert({"id": 100, "text": {"deep": [HOSTILE, {"[/x]": b"\0"}]}, "z": "end"})

    async def test():
        async with opened(LiveTable(texts), size=(80, 15)) as driver:
            lines = driver.lines()
            # Where "end" begins, in cells of the terminal.
            places = {cell_len(line[: line.index(" end")]) for line in lines[1:11]}

            assert 1 == len(places)
            assert {80} == {cell_len(line) for line in lines}
            assert "[a] [bold]x[/bold] oops [/x]" in lines[1]
            assert r"one\ntwo\rthree\tfour" in lines[2]
            assert r"\x1b]0;title\x07\x1b[2J" in lines[3]
            assert all(character.isprintable() for line in lines for character in line)

    run(test)


def test_changed_cells_are_marked_for_a_moment(games):
    async def test():
        async with opened(LiveTable(games, changed_s=60)) as driver:
            table = driver.table
            changed = table.get_component_rich_style("livetable--changed")

            def marked() -> list[str]:
                return [
                    segment.text.strip()
                    for y in range(table.size.height)
                    for segment in table.render_line(y)
                    if segment.style == changed
                ]

            games.get(3).update({"score": 777})
            await driver.until(lambda: "777" in marked())
            assert ["777"] == marked()
            # The timer calls this. A minute later, the mark is gone; before that, it stays.
            table._unmark()
            assert ["777"] == marked()
            later = table._time() + 61
            table._time = lambda: later
            table._unmark()
            assert [] == marked()

    run(test)


def test_fields_that_come_later_get_columns(db):
    empty = db.table_create("empty")

    async def test():
        async with opened(LiveTable(empty)) as driver:
            assert "" == driver.lines()[0].strip()
            empty.insert({"id": 1, "name": "a long name of a thing"})
            await driver.until(lambda: driver.table.row_count == 1)

            assert ["id", "name"] == driver.lines()[0].split()
            assert "1 a long name of a thing" == " ".join(driver.lines()[1].split())

    run(test)


def test_a_field_that_comes_after_many_others_gets_a_column(db):
    wide = db.table_create("wide")
    wide.insert({"id": 1, **{f"f{number}": 0 for number in range(11)}})

    async def test():
        async with opened(LiveTable(wide)) as driver:
            await driver.until(lambda: driver.table.row_count == 1)
            wide.insert({"id": 2, **{f"f{number}": 0 for number in range(11)}, "late": 5})
            await driver.until(lambda: driver.table.row_count == 2)

            assert "late" == driver.lines()[0].split()[-1]

    run(test)


def test_another_selection_is_shown_in_place(games):
    async def test():
        async with opened(LiveTable(games)) as driver:
            driver.table.move_cursor(key=30)
            other = games.filter(row["score"] >= 200).order_by(desc("score"))
            driver.table.selection = other
            await driver.until(lambda: driver.table.row_count == 30 and driver.table.state == "live")
            assert (30, 19) == (driver.table.cursor_key, driver.table.cursor_row)

            games.insert({"id": 60, "score": 600})
            await driver.until(lambda: driver.is_equal(other))
            assert (30, 20) == (driver.table.cursor_key, driver.table.cursor_row)
            assert driver.table.selection is other

    run(test)


def test_a_wrong_selection_changes_nothing(games):
    async def test():
        async with opened(LiveTable(games)) as driver:
            with pytest.raises(UsageError):
                driver.table.selection = games.count()
            assert (50, "live") == (driver.table.row_count, driver.table.state)

    run(test)


def test_a_dropped_table_is_said_and_its_rows_stay(db, games):
    async def test():
        async with opened(LiveTable(games)) as driver:
            db.table_drop("games")
            await driver.until(lambda: driver.table.state == "failed")

            assert "stopped: Changefeed aborted (table unavailable)" == driver.lines()[-1].strip()
            assert "0" == driver.first_words()[0]
            assert ["live", "failed"] == driver.window.states

            driver.table.selection = db.table_create("others")
            await driver.until(lambda: driver.table.state == "live")
            assert 0 == driver.table.row_count

    run(test)


def test_a_missing_table_does_not_end_the_application(db):
    async def test():
        async with opened(LiveTable(db.table("nowhere"))) as driver:
            assert "failed" == driver.table.state
            assert "nowhere" in driver.lines()[-1]
            assert driver.table.error is not None

    run(test)


def test_a_closed_database_is_said(db, games):
    async def test():
        async with opened(LiveTable(games)) as driver:
            db.close()
            await driver.until(lambda: driver.table.state == "closed")

            assert "closed" in driver.lines()[-1]

    run(test)


def test_selections_without_keys_and_values_are_shown(games):
    async def test():
        async with opened(LiveTable(games.pluck("score").limit(3))) as driver:
            assert (["score"], None) == (driver.lines()[0].split(), driver.table.cursor_key)
            driver.table.selection = games.distinct("player")
            await driver.until(
                lambda: driver.table.state == "live" and driver.lines()[0].split() == ["value"]
            )
            games.insert({"id": 70, "player": "a new one"})
            await driver.until(lambda: driver.table.row_count == 51)
            assert "a new one" in driver.lines()[1]

    run(test)


def test_writers_never_wait_for_the_screen(games):
    """All writes are done before the application has had a turn."""

    async def test():
        async with opened(LiveTable(games)) as driver:
            await driver.pilot.pause()
            for number in range(300):
                games.get(number % 50).update({"score": number})
            assert not driver.is_equal(games)

            await driver.until(lambda: driver.is_equal(games))

    run(test)


def test_it_follows_writes_of_two_threads(games):
    def write(seed: int) -> None:
        for number in range(200):
            games.get((number * 7 + seed) % 50).update({"score": number * seed % 91})
            if number % 9 == seed:
                games.get(number % 50).delete()
                games.insert({"id": 1_000 + number * 3 + seed, "score": number})

    async def test():
        board = games.order_by(desc("score"), "id")
        async with opened(LiveTable(board)) as driver:
            threads = [threading.Thread(target=write, args=(seed,)) for seed in (1, 2)]
            for thread in threads:
                thread.start()
            await driver.until(lambda: not any(thread.is_alive() for thread in threads))
            await driver.until(lambda: driver.is_equal(board))

            shown = [str(document["id"]) for document in board.run()]
            top = driver.table.scroll_offset.y
            assert shown[top : top + 11] == driver.first_words()

    run(test)


def test_only_the_rows_on_the_screen_are_drawn(db):
    """The first rows are there before all documents have been read."""
    many = db.table_create("many")
    many.insert([{"id": number, "text": f"text {number}"} for number in range(20_000)])

    async def test():
        table = LiveTable(many)
        async with opened(table) as driver:
            assert 20_000 == table.row_count
            assert len(table._cells) < 200
            await driver.press("end")
            await driver.until(lambda: driver.first_words()[-1] == "19999")

    run(test)


def test_many_functions_of_a_frame_are_called_together():
    async def test():
        calls: list[str] = []
        done = asyncio.Event()

        def end_frame() -> None:
            calls.append("frame")
            done.set()

        frames = Frames(end_frame)
        for name in "abc":
            frames.schedule(lambda *_, name=name: calls.append(name))
        await done.wait()
        assert ["a", "b", "c", "frame"] == calls

        frames.close()
        frames.schedule(lambda *_: calls.append("late"))
        await asyncio.sleep(0)
        assert ["a", "b", "c", "frame"] == calls
        return frames

    frames = asyncio.run(test())
    # The loop is closed, and a writer must not notice.
    frames.schedule(lambda *_: None)


@pytest.mark.parametrize(
    "options",
    [
        {"columns": []},
        {"columns": "id"},
        {"columns": ["a", "a"]},
        {"columns": [1]},
        {"widths": {"a": 0}},
        {"widths": 5},
        {"changed_s": -1},
        {"changed_s": True},
    ],
)
def test_wrong_options_are_refused(games, options):
    with pytest.raises(InvalidOption):
        LiveTable(games, **options)


QUITTING = """
import sys, threading
import reactdb
from reactdb.textual import LiveTable
from textual.app import App

db = reactdb.connect(":memory:")
games = db.table_create("games")
games.insert([{"id": number, "score": 0} for number in range(100)])

def write():
    number = 0
    while True:
        number += 1
        games.get(number % 100).update({"score": number})

class Board(App):
    def compose(self):
        yield LiveTable(games)

    def on_mount(self):
        threading.Thread(target=write, daemon=True).start()
        self.set_timer(0.3, self.exit)

Board().run(headless=True)
"""


@pytest.mark.slow
def test_quitting_within_a_burst_ends_the_process_at_once():
    done = subprocess.run(
        [sys.executable, "-c", QUITTING], capture_output=True, text=True, timeout=60, check=False
    )

    assert (0, "") == (done.returncode, done.stderr)
    assert "Traceback" not in done.stdout


def test_without_textual_the_sentence_says_what_to_install():
    script = "import sys; sys.modules['textual'] = None; import reactdb.textual"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert "reactdb.textual needs textual: python -m pip install 'reactdb[textual]'" in done.stderr


def test_a_table_with_a_type_shows_its_objects(db):
    pytest.importorskip("msgspec")

    @dataclass
    class Todo:
        id: int
        text: str

    db.table_create("todos")
    todos = db.table("todos", type=Todo)
    todos.insert([Todo(1, "milk"), Todo(2, "tea")])

    async def test():
        async with opened(LiveTable(todos)) as driver:
            assert ["id text", "1 milk", "2 tea"] == [" ".join(line.split()) for line in driver.lines()[:3]]
            await driver.press("down", "enter")
            todos.get(1).delete()
            await driver.until(lambda: driver.table.row_count == 1)
            assert (2, Todo(2, "tea")) == driver.window.selected[0][:2]
            assert 2 == driver.table.cursor_key

    run(test)


def test_a_feed_with_offsets_is_followed(games):
    feed = games.order_by("score").limit(3).changes(include_initial=True, include_offsets=True)

    async def test():
        async with opened(LiveTable(feed)) as driver:
            games.get(1).delete()
            await driver.until(lambda: driver.first_words() == ["0", "2", "3"])

    run(test)
