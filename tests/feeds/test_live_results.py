"""Live lists and live values: any selection, changed in place, with a state; and whose edits they are."""

from __future__ import annotations

import gc
import threading
import weakref
from itertools import pairwise
from typing import Any

import pytest
from reactivex.scheduler import EventLoopScheduler, VirtualTimeScheduler

import reactdb
from reactdb import asc, desc, row
from tests.support.feeds import is_clean
from tests.support.looks import without_looks
from tests.support.processes import another_process
from tests.support.replica import exactly
from tests.support.threads import from_threads, wait_until

SELECTIONS: dict[str, Any] = {
    "a table": lambda t: t,
    "a filter": lambda t: t.filter(row["a"] >= 1),
    "a map": lambda t: t.map(row["a"]),
    "some fields": lambda t: t.pluck("a"),
    "a range": lambda t: t.between(1, 4),
    "an order": lambda t: t.order_by(desc("a")),
    "a limit without an order": lambda t: t.limit(2),
    "a map after a limit": lambda t: t.order_by("a").limit(3).pluck("id"),
    "a union": lambda t: t.filter({"a": 1}).union(t.filter({"a": 2})),
    "different values": lambda t: t.distinct("a"),
    "groups": lambda t: t.group("a").count(),
    "elements": lambda t: t.concat_map(lambda document: [document["a"], document["id"]]),
}
VALUES: dict[str, Any] = {
    "a key": lambda t: t.get(3),
    "a field of a key": lambda t: t.get(3)["a"],
    "a count": lambda t: t.count(),
    "a count of some": lambda t: t.filter(row["a"] == 1).count(),
    "a sum": lambda t: t.sum("a"),
    "a mean of nothing": lambda t: t.avg("missing"),
    "the least": lambda t: t.min("a"),
    "a count after a limit": lambda t: t.order_by("a").limit(3).count(),
    "a count of different values": lambda t: t.distinct("a").count(),
}


@pytest.fixture
def filled(games: Any) -> Any:
    games.insert([{"id": number, "a": number % 3} for number in range(6)])
    return games


def carry_out(edits: Any, documents: list[Any]) -> None:
    for edit in edits:
        if edit["old_offset"] is not None:
            del documents[edit["old_offset"]]
        if edit["new_offset"] is not None:
            documents.insert(edit["new_offset"], edit["new_val"])


def write_some(games: Any) -> None:
    games.insert({"id": 9, "a": 1})
    games.get(3).delete()
    games.filter({"a": 1}).update({"a": 7})
    games.get(0).update({"a": 2})


# ---------------------------------------------------------------------------------------------------------------
# Any selection


@pytest.mark.parametrize("name", SELECTIONS)
def test_every_sequence_is_a_live_list_and_its_edits_lead_from_answer_to_answer(
    filled: Any, name: str
) -> None:
    selection = SELECTIONS[name](filled)
    with selection.live() as board:
        model = list(board)
        unequal: list[Any] = []

        def check(edits: Any) -> None:
            carry_out(edits, model)
            if not exactly(model) == exactly(list(board)) == exactly(selection.run()):
                unequal.append((model, selection.run()))

        board.subscribe(check)
        assert selection.run() == list(board)
        write_some(filled)

        assert [] == unequal
        assert selection.run() == list(board)
        assert isinstance(board, reactdb.LiveList)


@pytest.mark.parametrize("name", VALUES)
def test_every_single_value_is_a_live_value(filled: Any, name: str) -> None:
    selection = VALUES[name](filled)
    with selection.live() as one:
        assert selection.run() == one.value
        heard = [one.value]
        one.subscribe(heard.append)
        for number in range(4):
            filled.insert({"id": 20 + number, "a": 1})
            assert selection.run() == one.value
        write_some(filled)

        assert selection.run() == one.value == heard[-1]
        assert all(before != after for before, after in pairwise(heard))


def test_an_unordered_selection_is_in_the_order_of_keys(games: Any) -> None:
    games.insert([{"id": key} for key in (3, 1, 2)])
    with games.get_all(3, 1).live() as board:
        assert [1, 3] == [game["id"] for game in board]


def test_a_live_list_knows_the_primary_key_of_its_table(games: Any) -> None:
    assert "id" == games.live().primary_key


def test_a_live_list_of_one_value_says_what_to_write(games: Any) -> None:
    with pytest.raises(reactdb.UsageError, match=r"its live\(\) has the value"):
        reactdb.LiveList(games.count())


def test_live_checks_its_options(games: Any) -> None:
    for options in ({"wait": 1}, {"skip_origin": 3}):
        with pytest.raises(reactdb.InvalidOption, match=next(iter(options))):
            games.live(**options)
    with games.live() as board, pytest.raises(reactdb.InvalidOption, match="callback"):
        board.subscribe(3)


def test_live_of_a_missing_table_says_so_at_once(db: Any) -> None:
    for wait in (True, False):
        with pytest.raises(reactdb.TableNotFound):
            db.table("missing").live(wait=wait)


# ---------------------------------------------------------------------------------------------------------------
# Another selection


def test_another_selection_is_told_as_one_set_of_edits(filled: Any) -> None:
    with filled.live() as board:
        model, heard = list(board), []
        board.subscribe(lambda edits: (heard.append(len(edits)), carry_out(edits, model)))
        board.selection = filled.filter(row["a"] >= 1).order_by(desc("a"))

        assert model == list(board) == filled.filter(row["a"] >= 1).order_by(desc("a")).run()
        # Two leave. Of the others, in the order 1 2 4 5, now 2 5 1 4, two move.
        assert [4] == heard
        filled.insert({"id": 9, "a": 5})
        assert model == list(board)
        assert [4, 1] == heard


def test_another_selection_of_another_table_is_told_too(db: Any, filled: Any) -> None:
    others = db.table_create("others", primary_key="name")
    others.insert([{"name": "x"}, {"name": "y"}])
    with filled.live() as board:
        model = list(board)
        board.subscribe(lambda edits: carry_out(edits, model))
        board.select(others)

        assert [{"name": "x"}, {"name": "y"}] == model == list(board)
        assert "others" in repr(board.selection)


def test_hooks_come_before_each_edit_of_another_selection(filled: Any) -> None:
    with filled.live() as board:
        model = list(board)
        board.subscribe(None, lambda edit: carry_out([edit], model))
        board.selection = filled.order_by(desc("id"))

        assert model == list(board) == filled.order_by(desc("id")).run()


def test_a_selection_that_cannot_be_followed_leaves_the_list_as_it_was(db: Any, filled: Any) -> None:
    with filled.live() as board:
        with pytest.raises(reactdb.TableNotFound):
            board.selection = db.table("missing")
        filled.insert({"id": 9})

        assert ("live", 7) == (board.state, len(board))


def test_a_list_that_has_stopped_follows_nothing_any_more(filled: Any) -> None:
    board = filled.live()
    board.close()

    with pytest.raises(reactdb.UsageError, match="closed"):
        board.selection = filled


def test_inside_a_callback_another_selection_comes_after_the_callback(filled: Any) -> None:
    with filled.live() as board:
        heard: list[Any] = []

        def switch(edits: Any) -> None:
            heard.append(len(board))
            if len(heard) == 1:
                board.selection = filled.limit(1)
                heard.append(len(board))

        board.subscribe(switch)
        filled.insert({"id": 9})

        assert [7, 7, 1] == heard


# ---------------------------------------------------------------------------------------------------------------
# The state


def test_each_state_is_told(db: Any, filled: Any) -> None:
    board = filled.live()
    heard: list[str] = []
    board.subscribe(on_state=heard.append)
    board.selection = filled.order_by("a")
    db.table_drop("games")

    assert ["loading", "live", "failed"] == heard
    assert isinstance(board.error, reactdb.errors.FeedAborted)
    board.subscribe(on_state=heard.append)
    assert "failed" == heard[3]


def test_an_empty_answer_is_live_too(games: Any) -> None:
    with games.live() as board, games.get(1).live() as one:
        assert ("live", "live") == (board.state, one.state)


@pytest.mark.parametrize("name", ["different values", "a map after a limit"])
def test_a_list_that_is_asked_again_fails_where_its_table_is_dropped(db: Any, filled: Any, name: str) -> None:
    board = SELECTIONS[name](filled).live()
    db.table_drop("games")

    assert "failed" == board.state
    assert isinstance(board.error, reactdb.TableNotFound)
    assert is_clean(db)


@pytest.mark.parametrize("name", [*SELECTIONS, *VALUES, "a place"])
def test_a_live_result_goes_on_where_its_table_is_renamed(db: Any, filled: Any, name: str) -> None:
    select = (SELECTIONS | VALUES | {"a place": lambda t: t.order_by("a")[0]})[name]
    live = select(filled).live()

    with db.transaction():
        db.table_rename("games", "matches")
        db.table_create("games").insert({"id": 3, "a": 77})
    db["matches"].insert([{"id": -1, "a": 1}, {"id": 99, "a": -1}])
    db["matches"].get(3).update({"a": 2})

    answer = select(db["matches"]).run()
    assert "live" == live.state
    assert exactly(answer) == exactly(list(live) if isinstance(answer, list) else live.value)


def test_lost_history_is_read_anew_as_a_difference(tmp_path: Any) -> None:
    class Stage:
        path = str(tmp_path / "a.db")

    with reactdb.connect(Stage.path, durability="soft") as db:
        table = db.table_create("games")
        table.insert([{"id": str(number), "score": number} for number in range(4)])
        Stage.db, Stage.table = db, table
        board, total = table.live(), table.count().live()
        model, states = list(board), []
        board.subscribe(lambda edits: carry_out(edits, model), on_state=states.append)
        with another_process(tmp_path / "a.db") as other, without_looks(db):
            other.table("games").insert({"id": "x", "score": 9})
            other.table("games").get("0").delete()
            other.compact(keep=0)
        # The subscriber gets the edits after the board has them, in another thread.
        wait_until(lambda: model == table.run() and total.value == 4 and board.state == "live")

        assert model == list(board)
        assert ["loading", "live"] == states
        table.insert({"id": "y"})
        assert (5, model) == (total.value, list(board))


# ---------------------------------------------------------------------------------------------------------------
# Whose edits


def test_edits_and_hooks_know_the_writer(db: Any, filled: Any) -> None:
    with filled.live() as board:
        heard: list[Any] = []
        board.subscribe(lambda edits: heard.append(edits.origin), lambda edit: heard.append(edit["origin"]))
        with db.transaction(origin="ui"):
            filled.insert([{"id": 8}, {"id": 9}])
        filled.insert({"id": 10})

        assert ["ui", "ui", "ui", None, None] == heard


def test_a_drag_is_not_applied_twice(db: Any, filled: Any) -> None:
    """Finding 13: the program moves the row in its own model and writes; the others' later edits fit to that model."""
    with filled.order_by("a").live(skip_origin="ui") as board:
        model, heard = list(board), []
        board.subscribe(lambda edits: (heard.append(edits.origin), carry_out(edits, model)))
        dragged = model.pop(0)
        model.append({**dragged, "a": 9})
        with db.transaction(origin="ui"):
            filled.get(dragged["id"]).update({"a": 9})
        assert [] == heard
        assert model == list(board)
        filled.get(4).delete()
        filled.insert({"id": 7, "a": 8})

        assert [None, None] == heard
        assert model == list(board) == filled.order_by("a").run()


@pytest.mark.parametrize("ask", [lambda t: t.distinct("a"), lambda t: t.count()])
def test_own_commits_are_not_told_where_the_answer_is_asked_again(db: Any, filled: Any, ask: Any) -> None:
    with ask(filled).live(skip_origin="ui") as one:
        heard: list[Any] = []
        one.subscribe(heard.append)
        with db.transaction(origin="ui"):
            filled.insert({"id": 9, "a": 9})
        assert [] == heard
        filled.insert({"id": 10, "a": 10})

        assert 1 == len(heard)


def test_own_edits_cannot_be_left_out_of_net_differences(filled: Any) -> None:
    feed = filled.order_by("a").changes(include_initial=True, include_offsets=True, squash=True)
    with pytest.raises(reactdb.UsageError, match="squash"):
        reactdb.LiveList(feed, skip_origin="ui")


# ---------------------------------------------------------------------------------------------------------------
# Without waiting


@pytest.mark.parametrize("ask", [lambda t: t, lambda t: t.distinct("id"), lambda t: t.count()])
def test_without_waiting_the_answer_comes_where_the_scheduler_says(filled: Any, ask: Any) -> None:
    clock = VirtualTimeScheduler()
    one = ask(filled).live(wait=False, scheduler=clock)
    states: list[str] = []
    one.subscribe(on_state=states.append)

    def read() -> Any:
        return one.value if isinstance(one, reactdb.LiveValue) else len(one)

    # The thread has read it, and put it where nobody has looked yet.
    wait_until(lambda: len(clock._queue) > 0)
    assert "loading" == one.state
    assert not read()
    clock.advance_by(1)
    assert ("live", 6, ["live"]) == (one.state, read(), states)
    filled.insert({"id": 9})
    assert 6 == read()
    clock.advance_by(1)
    assert 7 == read()
    one.close()


def test_without_waiting_and_without_a_scheduler_it_follows_too(filled: Any) -> None:
    with filled.live(wait=False) as board:
        wait_until(lambda: board.state == "live")
        filled.insert({"id": 9})

        assert list(board) == filled.run()


def test_without_waiting_subscribers_get_the_first_answer_as_edits(filled: Any) -> None:
    clock = VirtualTimeScheduler()
    with filled.live(wait=False, scheduler=clock) as board:
        model: list[Any] = []
        board.subscribe(lambda edits: carry_out(edits, model))
        wait_until(lambda: board.state == "live" or clock.advance_by(1) is not None)

        assert model == list(board) == filled.run()


def test_a_scheduler_that_no_other_thread_may_call_is_refused_at_once(filled: Any) -> None:
    from reactivex.scheduler.mainloop import TkinterScheduler

    with pytest.raises(reactdb.InvalidOption, match="TkinterScheduler"):
        filled.live(wait=False, scheduler=TkinterScheduler(object()))


@pytest.mark.parametrize(
    "ask", [lambda t: t, lambda t: t.count(), lambda t: t.order_by("a").limit(3).count()]
)
def test_a_scheduler_that_is_disposed_of_meanwhile_leaves_no_error_in_a_thread_and_no_feed(
    filled: Any, ask: Any
) -> None:
    scheduler = EventLoopScheduler()
    scheduler.dispose()
    one = ask(filled).live(wait=False, scheduler=scheduler)

    # pytest fails a test whose thread ends with an exception.
    wait_until(
        lambda: all(thread.name != "reactdb: reading a live result" for thread in threading.enumerate())
    )
    assert is_clean(filled)
    one.close()


# ---------------------------------------------------------------------------------------------------------------
# Ends


def test_one_that_nobody_refers_to_is_closed(db: Any, games: Any) -> None:
    kept = [games.live(), games.count().live(), games.distinct("a").live(), games.live(wait=False)]
    wait_until(lambda: kept[-1].state == "live")
    references = [weakref.ref(one) for one in kept]
    kept.clear()
    gc.collect()

    assert [None] * 4 == [reference() for reference in references]
    assert is_clean(db)


def test_with_a_subscriber_it_lives_as_long_as_the_database(games: Any) -> None:
    heard: list[Any] = []
    end = games.count().live().subscribe(heard.append)
    gc.collect()
    games.insert({"id": 1})
    assert [1] == heard
    end.dispose()
    del end
    gc.collect()

    assert is_clean(games)


def test_a_subscription_ends_by_a_call_or_its_block(games: Any) -> None:
    heard: list[Any] = []
    with games.live() as board:
        with board.subscribe(lambda edits: heard.append("block")):
            games.insert({"id": 1})
        end = board.subscribe(lambda edits: heard.append("call"))
        games.insert({"id": 2})
        end()
        games.insert({"id": 3})

    assert ["block", "call"] == heard


def test_a_live_value_completes_with_its_database() -> None:
    with reactdb.connect(":memory:") as db:
        one = db.table_create("games").count().live()
        heard: list[Any] = []
        one.subscribe(heard.append, heard.append, lambda: heard.append("completed"))
        one.changes.subscribe(heard.append, heard.append, lambda: heard.append("completed"))

    assert (["completed"] * 2, "closed", 0) == (heard, one.state, one.value)


def test_a_live_result_is_not_copied(games: Any) -> None:
    import copy

    with games.live() as board, pytest.raises(reactdb.UsageError, match="list"):
        copy.copy(board)


# ---------------------------------------------------------------------------------------------------------------
# Threads


def test_no_thread_sees_half_of_a_commit_and_edits_fit(db: Any, games: Any) -> None:
    """Each commit keeps the sum of all; the selection is switched all the time."""
    games.insert([{"id": number, "a": 10} for number in range(6)])
    with games.live() as board:
        model, wrong = list(board), []

        def check(edits: Any) -> None:
            carry_out(edits, model)
            if model != list(board) or 60 != sum(game["a"] for game in model):
                wrong.append(list(model))

        board.subscribe(check)

        def work(number: int) -> None:
            for turn in range(30):
                if number == 0:
                    board.selection = games.order_by(asc("a") if turn % 2 else desc("a"))
                elif number == 1:
                    seen = list(board)
                    if 60 != sum(game["a"] for game in seen):
                        wrong.append(seen)
                else:
                    with db.transaction():
                        games.get((turn + number) % 6).update({"a": row["a"] + 1})
                        games.get((turn + number + 1) % 6).update({"a": row["a"] - 1})

        from_threads(4, work)
        wait_until(lambda: board.state == "live" and not board._line)

        assert [] == wrong
        assert exactly(sorted(games.run(), key=str)) == exactly(sorted(board, key=str))


def test_a_list_with_a_scheduler_changes_in_its_thread_only(filled: Any) -> None:
    scheduler = EventLoopScheduler()
    try:
        with filled.live(wait=False, scheduler=scheduler) as board:
            threads: set[int] = set()
            board.subscribe(
                lambda edits: threads.add(threading.get_ident()),
                on_state=lambda state: threads.add(threading.get_ident()),
            )
            for number in range(10, 20):
                filled.insert({"id": number})
            wait_until(lambda: len(board) == 16)

            assert 1 == len(threads)
            assert threading.get_ident() not in threads
    finally:
        scheduler.dispose()


def test_a_live_value_follows_another_selection(filled: Any) -> None:
    live, heard = filled.count().live(), []
    live.subscribe(heard.append)

    live.selection = filled.filter(a=1).count()
    assert (2, [2], "live") == (live.value, heard, live.state)
    filled.get(0).delete()
    filled.get(1).delete()
    assert (1, [2, 1]) == (live.value, heard)

    with pytest.raises(reactdb.UsageError, match="this selection is a sequence"):
        live.selection = filled
    live.close()
    with pytest.raises(reactdb.UsageError, match="follows nothing any more"):
        live.selection = filled.count()


def test_only_a_selection_can_be_followed(db: Any, filled: Any) -> None:
    for call in (
        lambda: reactdb.LiveList(db),
        lambda: filled.live().select(None),
        lambda: filled.count().live().select(filled.changes()),
    ):
        with pytest.raises(reactdb.UsageError, match="a live result follows a selection"):
            call()
