"""The live table of a notebook: its model in the kernel, with the messages of views that a test plays."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import threading
from queue import Empty, Queue
from types import SimpleNamespace
from typing import Any

import pytest

import reactdb
from reactdb import clock, desc
from reactdb.errors import InvalidOption, TableNotFound, UsageError
from reactdb.notebook import LiveTable, live_table, running_cell
from reactdb.notebook.paced_thread import PacedThread

# ipywidgets keeps every widget for the life of the process, and some versions of its parts warn at their first use.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def db():
    with reactdb.connect(":memory:", durability="soft") as database:
        yield database


@pytest.fixture
def games(db):
    table = db.table_create("games")
    table.insert([{"id": number, "score": number * 10} for number in range(100)])
    return table


class View:
    """What the browser does for one view: it asks, applies messages, and notices gaps."""

    def __init__(self, table: LiveTable, name: str = "view") -> None:
        self.table, self.name = table, name
        self.messages: Queue[dict[str, Any]] = Queue()
        self.page: dict[str, Any] = {}
        self.number = 0

    def send(self, **content: Any) -> None:
        self.table._handle_custom_msg({"view": self.name, **content}, [])

    def ask(self, offset: int = 0, count: int = 5) -> dict[str, Any]:
        self.send(kind="ask", offset=offset, count=count)
        while self.take()["kind"] != "page":
            pass
        return self.page

    def take(self) -> dict[str, Any]:
        """Apply the next message for this view."""
        message = json.loads(json.dumps(self.messages.get(timeout=20)))
        if message["kind"] == "page":
            self.page, self.number = message, message["number"]
        elif message["kind"] == "changes":
            assert message["number"] == self.number + 1
            self.number += 1
            self.page["total"] = message["total"]
            rows = dict(enumerate(self.page["rows"])) | {int(at): row for at, row in message["rows"].items()}
            self.page["rows"] = [rows[place] for place in range(message["count"])]
        return message

    def until(self, condition: Any) -> None:
        while not condition():
            self.take()

    @property
    def keys(self) -> list[str]:
        return [key for key, _ in self.page["rows"]]


@pytest.fixture
def opened():
    """Makes tables, whose messages go to the views of a test, and closes them."""
    tables = []

    def open_table(selection: Any, *names: str, **options: Any) -> Any:
        table = LiveTable(selection, **options)
        views = [View(table, name) for name in names or ("view",)]
        of_name = {view.name: view for view in views}
        table.send = lambda content, buffers=None: of_name[content["view"]].messages.put(content)
        tables.append(table)
        return (table, *views)

    yield open_table
    for table in tables:
        table.close()


def wait_for_no_feed(db: Any) -> None:
    done = threading.Event()
    for _ in range(2_000):
        if not db.subscriptions():
            return
        done.wait(0.005)
    pytest.fail("a feed is still open")


def test_before_a_view_asks_there_are_the_first_rows_and_no_feed(db, games, opened):
    table, _ = opened(games, rows=3)

    assert [["=0", ["0", "0"]], ["=1", ["1", "10"]], ["=2", ["2", "20"]]] == table.page["rows"]
    assert (["id", "score"], "loading") == (table.page["columns"], table.page["state"])
    assert ([], False) == (db.subscriptions(), table.is_live)


def test_a_view_gets_its_page_and_then_the_rows_that_change(games, opened):
    _, view = opened(games)
    page = view.ask(offset=20)
    assert (20, 100, "live") == (page["offset"], page["total"], page["state"])
    assert ["=20", "=21", "=22", "=23", "=24"] == view.keys

    games.get(22).update({"score": 7})
    message = view.take()

    assert {"2": ["=22", ["22", "7"]]} == message["rows"]
    assert "changes" == message["kind"]
    assert len(json.dumps(message)) < 200


def test_a_commit_outside_of_the_page_sends_no_row(games, opened):
    _, view = opened(games)
    view.ask(offset=20)
    games.get(50).update({"score": 7})
    games.get(24).update({"score": 8})

    assert ["4"] == list(view.take()["rows"])


def test_inserts_and_removals_move_the_rows(games, opened):
    _, view = opened(games.order_by(desc("score")))
    view.ask()
    with_new = games.insert({"id": "new", "score": 5_000})
    view.until(lambda: view.page["total"] == 101)
    games.get(98).delete()
    view.until(lambda: view.page["total"] == 100)

    assert 1 == with_new["inserted"]
    assert ["new", "=99", "=97", "=96", "=95"] == view.keys


def test_after_1000_writes_two_views_have_the_same_rows(games, opened):
    _table, one, other = opened(games.order_by(desc("score"), "id"), "one", "other")
    one.ask()
    other.ask()
    for number in range(1_000):
        games.get(number * 7 % 100).update({"score": number * 13 % 977})
    games.insert({"id": "last", "score": 10_000})
    one.until(lambda: one.keys[0] == "last")
    other.until(lambda: other.keys[0] == "last")

    expected = [str(document["score"]) for document in games.order_by(desc("score"), "id").limit(5).run()]
    assert expected == [texts[1] for _, texts in one.page["rows"]]
    assert one.page["rows"] == other.page["rows"]


def test_scrolling_asks_for_pages_of_100000_rows(db, opened):
    many = db.table_create("many")
    many.insert([{"id": number} for number in range(100_000)])
    _, view = opened(many)

    for offset in (0, 50_000, 99_995):
        page = view.ask(offset=offset)
        assert f"={offset}" == view.keys[0]
        assert len(json.dumps(page)) < 1_000
    # Beyond the end, the last page.
    assert 99_995 == view.ask(offset=1_000_000)["offset"]


def test_a_view_notices_a_lost_message_by_its_number(games, opened):
    _, view = opened(games)
    view.ask()
    games.get(1).update({"score": 7})
    view.messages.get(timeout=20)
    view.send(kind="alive")
    alive = view.take()
    assert alive["number"] == view.number + 1

    view.ask()
    assert "7" == view.page["rows"][1][1][1]


def test_fields_that_come_later_get_columns(games, opened):
    _, view = opened(games)
    view.ask()
    games.get(1).update({"name": "Ann"})
    view.until(lambda: view.page["columns"] == ["id", "score", "name"])

    assert ["1", "10", "Ann"] == view.page["rows"][1][1]


def test_columns_may_be_chosen_and_have_titles(games, opened):
    _table, view = opened(games, columns={"score": "Points"})
    view.ask()

    assert (["Points"], ["10"]) == (view.page["columns"], view.page["rows"][1][1])


def test_keys_of_different_types_are_different_texts(db, opened):
    mixed = db.table_create("mixed")
    mixed.insert([{"id": key} for key in (1, "1", "=1", True, ["a"], b"x", "")])
    _, view = opened(mixed)
    view.ask(count=10)

    assert 7 == len(set(view.keys))
    assert {"1", "=1", "=true", ""} < set(view.keys)


def test_when_the_last_view_has_gone_the_feed_ends_and_a_later_view_begins_it_again(db, games, opened):
    table, view = opened(games)
    view.ask()
    assert 1 == len(db.subscriptions())

    view.send(kind="bye")
    wait_for_no_feed(db)
    assert not table.is_live

    games.get(0).update({"score": 5})
    view.send(kind="alive")
    assert "number" not in view.take()
    assert "5" == view.ask()["rows"][0][1][1]


def test_a_new_view_keeps_the_feed_when_the_old_one_goes(db, games, opened):
    """Such as when the page is drawn again."""
    table, old, new = opened(games, "old", "new")
    old.ask()
    feed = db.subscriptions()
    old.send(kind="bye")
    new.ask()

    assert (True, 1, 1) == (table.is_live, len(feed), len(db.subscriptions()))


def test_a_view_that_is_silent_for_three_minutes_is_gone(db, games, opened, monkeypatch):
    table, view = opened(games)
    view.ask()
    late = clock.monotonic() + live_table.LEASE_S + 1
    monkeypatch.setattr(live_table.clock, "monotonic", lambda: late)
    table._when_idle()

    wait_for_no_feed(db)


def test_a_silent_view_of_a_table_that_is_always_written_is_gone(db, games, opened, monkeypatch):
    table, view = opened(games)
    view.ask()
    late = clock.monotonic() + live_table.LEASE_S + 1
    monkeypatch.setattr(live_table.clock, "monotonic", lambda: late)
    # As if the next commit always came before the thread is idle.
    monkeypatch.setattr(table._pace, "_when_idle", lambda: None)
    games.get(0).update({"score": -1})
    wait_for_no_feed(db)
    assert not table.is_live


def test_a_closed_table_has_no_feed(db, games, opened):
    table, view = opened(games)
    view.ask()
    table.close()

    wait_for_no_feed(db)
    view.send(kind="ask", offset=0, count=5)
    assert [] == db.subscriptions()


def test_100_runs_of_a_cell_leave_one_feed(db, games, opened, monkeypatch):
    runs = iter(range(1_000))
    monkeypatch.setattr(live_table, "find_running_cell", lambda: ("cell of this test", next(runs)))
    for _ in range(99):
        # The view has asked, and its answer is not awaited.
        opened(games)[1].send(kind="ask", offset=0, count=5)
    table, view = opened(games)
    view.ask()

    assert (1, True) == (len(db.subscriptions()), table.is_live)


def test_two_tables_of_one_run_of_a_cell_are_both_live(db, games, opened, monkeypatch):
    monkeypatch.setattr(live_table, "find_running_cell", lambda: ("another cell", "a run"))
    for _ in range(2):
        opened(games)[1].ask()

    assert 2 == len(db.subscriptions())


def test_the_cell_of_jupyter_is_found(monkeypatch):
    parent = {"metadata": {"cellId": "abc"}, "header": {"msg_id": "7"}}
    shell = SimpleNamespace(kernel=SimpleNamespace(get_parent=lambda: parent))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert ("jupyter abc", "7") == running_cell.find_running_cell()

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert running_cell.find_running_cell() is None


def test_a_table_that_nobody_refers_to_is_not_kept_by_its_cell():
    class Ended:
        def end(self) -> None:
            raise AssertionError("it is gone")

    running_cell.replace_earlier_runs(Ended().end, ("a cell of this test", 1))
    gc.collect()
    running_cell.replace_earlier_runs(Ended().end, ("a cell of this test", 2))


def test_the_page_of_the_trait_follows_for_the_saved_notebook(games, opened):
    table, view = opened(games)
    view.ask()
    games.get(0).update({"score": 123})
    view.take()
    view.send(kind="bye")
    for _ in range(2_000):
        if not table.is_live:
            break
        threading.Event().wait(0.005)

    assert ["0", "123"] == table.page["rows"][0][1]


def test_the_answer_has_html_and_text_for_front_ends_without_widgets(games, opened):
    table, _ = opened(games, rows=3)
    data, _ = table._repr_mimebundle_()

    assert {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"} == set(data)
    assert "<td" in data["text/html"]
    assert "this copy is not live" in data["text/html"]
    assert "the first 3 documents" in data["text/plain"]


def test_a_dropped_table_is_said(db, games, opened):
    _table, view = opened(games)
    view.ask()
    db.table_drop("games")
    view.until(lambda: view.page["state"] == "failed")

    assert "Changefeed aborted (table unavailable)" == view.page["error"]
    assert "=0" == view.keys[0]


def test_a_table_that_is_dropped_before_the_first_view_is_said(db, games, opened):
    _, view = opened(games)
    db.table_drop("games")

    assert "failed" == view.ask()["state"]
    assert "games" in view.page["error"]


@pytest.mark.parametrize(
    "content",
    [
        None,
        "text",
        {},
        {"view": 5, "kind": "ask"},
        {"view": "x" * 100, "kind": "ask", "offset": 0, "count": 1},
        {"view": "v", "kind": "ask", "offset": "0", "count": 1},
        {"view": "v", "kind": "ask", "offset": 0, "count": True},
        {"view": "v", "kind": "drop"},
    ],
)
def test_any_other_message_of_a_browser_is_ignored(db, games, opened, content):
    table, view = opened(games)
    table._handle_custom_msg(content, [])

    assert [] == db.subscriptions()
    assert view.messages.empty()


def test_a_page_has_at_most_200_rows(games, opened):
    games.insert([{"id": number} for number in range(1_000, 2_000)])
    _, view = opened(games)

    assert 200 == len(view.ask(offset=-5, count=100_000)["rows"])


def test_wrong_arguments_are_refused(db, games):
    for options in ({"rows": 0}, {"rows": 201}, {"rows": True}, {"columns": []}):
        with pytest.raises(InvalidOption):
            LiveTable(games, **options)
    with pytest.raises(UsageError):
        LiveTable(games.count())
    with pytest.raises(UsageError):
        LiveTable([1, 2])
    with pytest.raises(TableNotFound):
        LiveTable(db.table("nowhere"))


def test_the_pace_calls_together_and_goes_on_after_an_error(caplog):
    calls: Queue[str] = Queue()
    hold, begun = threading.Event(), threading.Event()
    pace = PacedThread(lambda: calls.put("after"), lambda: calls.put("idle"))

    def wait(*_: Any) -> None:
        begun.set()
        hold.wait(20)

    def fail(*_: Any) -> None:
        raise ValueError("of the test")

    pace.schedule(wait)
    assert begun.wait(20)
    pace.schedule(fail)
    pace.schedule(lambda *_: calls.put("a"))
    pace.schedule(lambda *_: calls.put("b"))
    hold.set()

    assert ["after", "a", "b", "after"] == [calls.get(timeout=20) for _ in range(4)]
    pace.close()
    pace.schedule(lambda *_: calls.put("late"))
    with pytest.raises(Empty):
        calls.get(block=False)
    assert "of the test" in caplog.text


def test_without_anywidget_the_sentence_says_what_to_install():
    script = "import sys; sys.modules['anywidget'] = None; import reactdb.notebook"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert "reactdb.notebook needs anywidget: python -m pip install 'reactdb[notebook]'" in done.stderr
