"""Models of Qt: each commit is exact steps, what the user has selected stays, edits are written and not echoed."""

from __future__ import annotations

import gc
import logging
import os
import random
import subprocess
import sys
import threading
from functools import partial

import pytest

import reactdb
from reactdb import desc, row
from reactdb.errors import InvalidOption, TableNotFound, UsageError
from reactdb.qt import FeedModel, FeedTableModel
from tests.qt.window import (
    QtCore,
    QtWidgets,
    StepCounter,
    application,
    check,
    documents,
    load,
    run_until,
)

EDIT, CHECK, DISPLAY = (
    int(getattr(QtCore.Qt.ItemDataRole, name)) for name in ("EditRole", "CheckStateRole", "DisplayRole")
)


@pytest.fixture(autouse=True, scope="module")
def app():
    return application()


@pytest.fixture
def db():
    with reactdb.connect(":memory:") as db:
        yield db


@pytest.fixture
def games(db):
    table = db.table_create("games")
    table.insert([{"id": number, "score": number * 10, "name": f"n{number}"} for number in range(1, 6)])
    return table


@pytest.fixture
def model(games):
    model = FeedTableModel(
        games.order_by("score"), ["id", ("Score", "score"), "name"], editable=["score", "name"]
    )
    model.tester = check(model)
    run_until(lambda: model.state == "live" and model.rowCount() == games.count().run())
    yield model
    model.close()


def is_settled(model, selection):
    return lambda: model.state == "live" and documents(model) == selection.run()


def test_a_model_begins_empty_and_loading_and_then_has_the_documents(games):
    model = FeedModel(games.order_by("score"), roles=["name"])
    assert (model.rowCount(), model.state, model.loading) == (0, "loading", True)

    run_until(is_settled(model, games.order_by("score")))

    assert (model.rowCount(), model.loading, model.error) == (5, False, "")
    assert [model.data(model.index(at, 0)) for at in range(5)] == ["n1", "n2", "n3", "n4", "n5"]
    model.close()


@pytest.mark.parametrize(
    ("write", "steps"),
    [
        (lambda games: games.insert({"id": 9, "score": 25}), ["inserted 2 2"]),
        (lambda games: games.insert([{"id": n, "score": n} for n in (98, 99, 100)]), ["inserted 5 7"]),
        (lambda games: games.get(3).delete(), ["removed 2 2"]),
        (lambda games: games.filter(row["score"] > 20).delete(), ["removed 2 4"]),
        (lambda games: games.get(2).update({"name": "x"}), ["changed 1 1 columns 2 2"]),
        (lambda games: games.update({"name": "x"}), ["changed 0 4 columns 2 2"]),
        (lambda games: games.get(2).update({"hidden": 1}), []),
        (lambda games: games.get(1).update({"score": 25}), ["moved 0 before 2", "changed 1 1 columns 1 1"]),
        (lambda games: games.get(1).update({"score": 99}), ["moved 0 before 5", "changed 4 4 columns 1 1"]),
        (lambda games: games.get(5).update({"score": 15}), ["moved 4 before 1", "changed 1 1 columns 1 1"]),
    ],
)
def test_a_commit_is_told_in_exact_steps(model, games, write, steps):
    counter = StepCounter(model)

    write(games)
    run_until(is_settled(model, games.order_by("score")))

    assert steps == counter.steps


def test_a_commit_of_thousands_of_documents_is_three_steps(model, games):
    counter = StepCounter(model)

    with games_transaction(games):
        games.delete()
        games.insert([{"id": number, "score": -number % 977} for number in range(3, 3000)])
    run_until(is_settled(model, games.order_by("score")))

    assert len([step for step in counter.steps if not step.startswith("changed")]) <= 4
    assert "reset" not in counter.steps


def games_transaction(games):
    from reactdb.session import session_of

    return session_of(games).block()


def test_in_a_large_difference_the_selected_documents_and_the_current_one_survive(model, games):
    games.insert([{"id": number, "score": number * 10, "name": "more"} for number in range(6, 1000)])
    run_until(lambda: model.rowCount() == 999)
    view = QtWidgets.QTableView()
    view.setSelectionBehavior(QtWidgets.QAbstractItemView.SelectionBehavior.SelectRows)
    view.setModel(model)
    select = QtCore.QItemSelectionModel.SelectionFlag
    for key in (100, 502):
        view.selectionModel().select(model.index(model.row_of(key), 0), select.Select | select.Rows)
    view.selectionModel().setCurrentIndex(model.index(model.row_of(502), 1), select.NoUpdate)

    model.selection = games.filter(row["id"] % 2 == 0).order_by(desc("score"))
    run_until(is_settled(model, games.filter(row["id"] % 2 == 0).order_by(desc("score"))))

    chosen = {model.key(index.row()) for index in view.selectionModel().selectedRows()}
    assert {100, 502} == chosen
    assert 502 == model.key(view.currentIndex().row())
    view.setModel(None)


def test_where_the_current_document_leaves_in_a_large_difference_its_neighbour_becomes_current(model, games):
    games.insert([{"id": number, "score": number * 10, "name": "more"} for number in range(6, 1000)])
    run_until(lambda: model.rowCount() == 999)
    view = QtWidgets.QTableView()
    view.setModel(model)
    view.setCurrentIndex(model.index(model.row_of(501), 1))

    model.selection = games.filter(row["id"] % 2 == 0).order_by("score")
    run_until(lambda: model.state == "live" and model.rowCount() == 499)

    assert model.key(view.currentIndex().row()) in (500, 502)
    view.setModel(None)


def test_another_process_writes_and_the_model_follows(tmp_path):
    path = tmp_path / "games.db"
    program = "import reactdb, sys; reactdb.connect(sys.argv[1]).table('games').insert({'id': 2})"
    with reactdb.connect(path) as db:
        games = db.table_create("games")
        games.insert({"id": 1})
        model = FeedModel(games, ["id"])
        run_until(lambda: model.rowCount() == 1)
        counter = StepCounter(model)

        subprocess.run([sys.executable, "-c", program, str(path)], check=True, timeout=60)
        run_until(lambda: model.rowCount() == 2)

        assert ["inserted 1 1"] == counter.steps
        model.close()


def test_another_selection_leaves_the_documents_of_both_in_place(model, games):
    counter = StepCounter(model)

    model.selection = games.filter(row["score"] != 30).order_by("score")
    assert "loading" == model.state
    run_until(lambda: model.state == "live" and model.rowCount() == 4)

    assert ["removed 2 2"] == counter.steps


def test_a_wrong_selection_is_refused_at_once_and_the_model_goes_on(model, games, db):
    with pytest.raises(TableNotFound):
        model.selection = db.table("nothing")
    with pytest.raises(UsageError):
        model.selection = games.count()

    games.insert({"id": 6, "score": 60})
    run_until(lambda: model.rowCount() == 6)
    assert "live" == model.state


class TestEdits:
    def test_an_edit_is_stored_with_its_origin_and_told_once(self, games, db):
        model = FeedTableModel(games, ["name"], editable=["name"], origin="ui")
        run_until(lambda: model.rowCount() == 5)
        counter = StepCounter(model)
        stack = db.undo_stack(origin="ui")

        assert model.setData(model.index(1, 0), "Ada")
        games.insert({"id": 99})
        run_until(lambda: model.rowCount() == 6)

        assert "Ada" == games.get(2).run()["name"]
        assert ["changed 1 1 columns 0 0", "inserted 5 5"] == counter.steps
        assert "ui" == games.get(2).history()[-1].origin
        assert stack.can_undo
        model.close()

    def test_the_text_of_an_editor_becomes_the_type_of_the_field(self, model, games):
        games.get(1).update({"name": 2.5})
        run_until(is_settled(model, games.order_by("score")))

        assert model.setData(model.index(0, 1), "7")
        assert "2.5" == model.data(model.index(0, 2), EDIT)
        assert model.setData(model.index(0, 2), "1e3")

        assert {"id": 1, "score": 7, "name": 1000.0} == games.get(1).run()

    def test_a_text_that_does_not_fit_is_refused_in_a_sentence(self, model, games):
        told = []
        model.failed.connect(told.append)

        assert not model.setData(model.index(0, 1), "many")

        assert ["score was not changed: 'many' is not an integer"] == told
        assert 10 == model.data(model.index(0, 1))

    def test_an_edit_never_overwrites_what_the_user_has_not_seen(self, model, games):
        """The other commit is in the file, and not yet in the model, whose loop does not run."""
        told = []
        model.failed.connect(told.append)
        games.get(1).update({"name": "theirs"})

        assert not model.setData(model.index(0, 2), "mine")

        assert [
            "name was not changed: another writer has changed name of 1 since; it was not overwritten"
        ] == told
        assert "theirs" == games.get(1).run()["name"]

    def test_a_second_use_of_a_unique_value_is_told(self, model, games):
        games.index_create("name", unique=True)
        told = []
        model.failed.connect(told.append)

        assert not model.setData(model.index(0, 2), "n5")

        assert 1 == len(told)
        assert "n1" == model.data(model.index(0, 2))

    def test_a_stored_edit_is_shown_until_its_commit_has_come(self, model):
        """The thread that works out the steps is slower than the one that writes."""
        gate, shown, index = threading.Event(), [], model.index(0, 2)
        model.dataChanged.connect(lambda *_: shown.append(model.data(index)))
        model._follower._threads.run(partial(gate.wait, 30))
        # As after a pause, so that the model takes at once what is done.
        run_until(lambda: not (model._timer.isActive() or model._bell._is_ringing))
        model._last_taken = 0.0

        assert model.setData(index, "mine")
        run_until(lambda: model._edits._threads.is_idle and not model._bell._is_ringing)
        gate.set()
        run_until(lambda: not model._edits)

        assert {"mine"} == set(shown)

    def test_what_comes_while_a_failure_is_shown_in_a_dialog_is_not_left_out(self, model, games, db):
        inside, finish, told = threading.Event(), threading.Event(), []

        def show(sentence):
            """A dialog, with an event loop of its own, until the other commit was announced to the model."""
            games.insert({"id": 6, "score": 60, "name": "n6"})
            run_until(lambda: bool(model._follower._messages))
            run_until(lambda: not model._bell._is_ringing)
            told.append(sentence)

        def hold():
            with db.transaction():
                games.get(1).update({"name": "theirs"})
                inside.set()
                finish.wait(30)

        model.failed.connect(show)
        other = threading.Thread(target=hold)
        other.start()
        inside.wait(30)
        assert model.setData(model.index(0, 2), "mine")
        finish.set()
        other.join()
        run_until(lambda: bool(told))

        run_until(lambda: model.rowCount() == 6)

    def test_an_edit_that_waits_for_another_writer_is_shown_and_goes_back_where_it_fails(
        self, model, games, db
    ):
        """The window does not wait for the other writer's transaction."""
        told, inside, finish = [], threading.Event(), threading.Event()
        model.failed.connect(told.append)

        def hold():
            with db.transaction():
                games.get(1).update({"name": "theirs"})
                inside.set()
                finish.wait(30)

        other = threading.Thread(target=hold)
        other.start()
        inside.wait(30)
        assert model.setData(model.index(0, 2), "mine")
        assert "mine" == model.data(model.index(0, 2))
        finish.set()
        other.join()
        run_until(lambda: bool(told))
        run_until(lambda: model.data(model.index(0, 2)) == "theirs")

        assert "it was not overwritten" in told[0]

    def test_a_box_is_ticked(self, games):
        model = FeedTableModel(games, ["name", "done"], checkable=["done"])
        run_until(lambda: model.rowCount() == 5)
        box = model.index(0, 1)
        checked = QtCore.Qt.CheckState.Checked

        assert QtCore.Qt.CheckState.Unchecked == model.data(box, CHECK)
        assert model.setData(box, checked.value, CHECK)

        assert checked == model.data(box, CHECK)
        assert games.get(1).run()["done"] is True
        model.close()

    def test_what_may_not_be_edited_is_not(self, model):
        assert not model.flags(model.index(0, 0)) & QtCore.Qt.ItemFlag.ItemIsEditable
        assert model.flags(model.index(0, 1)) & QtCore.Qt.ItemFlag.ItemIsEditable
        assert not model.setData(model.index(0, 0), 7)

    def test_an_edit_after_the_database_was_closed_is_told(self, games, db):
        model = FeedTableModel(games, ["name"], editable=["name"])
        run_until(lambda: model.rowCount() == 5)
        told = []
        model.failed.connect(told.append)
        db.close()

        assert not model.setData(model.index(0, 0), "x")

        assert 1 == len(told)
        assert "closed" in told[0]
        run_until(lambda: model.state == "closed")
        assert 5 == model.rowCount()


class TestState:
    def test_a_dropped_table_stops_the_model_and_its_rows_stay(self, model, db):
        states = []
        model.stateChanged.connect(states.append)

        db.table_drop("games")
        run_until(lambda: model.state == "failed")

        assert ["failed"] == states
        assert "Changefeed aborted (table unavailable)" == model.error
        assert 5 == model.rowCount()

    def test_after_close_nothing_comes_any_more(self, model, games):
        model.close()
        counter = StepCounter(model)

        games.insert({"id": 77})
        other = FeedModel(games, ["id"])
        run_until(lambda: other.rowCount() == 6)

        assert [] == counter.steps
        assert "closed" == model.state
        with pytest.raises(UsageError, match="is closed"):
            model.selection = games
        other.close()

    def test_a_model_that_is_destroyed_ends_its_threads_and_its_feed(self, games, db, caplog):
        model = FeedModel(games, ["id"])
        run_until(lambda: model.rowCount() == 5)

        model = None
        gc.collect()
        games.insert({"id": 78})
        run_until(lambda: not any("Qt model" in thread.name for thread in threading.enumerate()))

        assert [] == [record for record in caplog.records if record.levelno >= logging.WARNING]

    def test_a_function_that_raises_is_logged_and_its_cell_is_empty(self, games, caplog):
        model = FeedTableModel(games, [("Broken", lambda game: game["nothing"])])
        run_until(lambda: model.rowCount() == 5)

        assert model.data(model.index(0, 0)) is None
        assert "Broken" in caplog.text
        model.close()


class TestRoles:
    def test_the_roles_have_names_for_qml(self, games):
        model = FeedModel(games, roles=["name", ("double", lambda game: game["score"] * 2)])
        run_until(lambda: model.rowCount() == 5)
        names = {bytes(name).decode(): role for role, name in model.roleNames().items()}

        assert {"name", "double", "display", "edit", "document"} == set(names)
        assert 20 == model.data(model.index(0, 0), names["double"])
        assert {"id": 1, "score": 10, "name": "n1"} == model.data(model.index(0, 0), names["document"])
        model.close()

    def test_keys_and_rows(self, model):
        assert 3 == model.key(2)
        assert 2 == model.row_of(3)
        assert -1 == model.row_of("3")
        assert model.key(99) is None
        assert model.document(99) is None

    def test_values_that_qt_lacks_are_texts(self, games):
        games.get(1).update({"score": 2**70, "name": b"\x01\x02\x03"})
        model = FeedTableModel(games, ["score", "name"])
        run_until(lambda: model.rowCount() == 5)

        assert (str(2**70), "AQID") == tuple(model.data(model.index(0, column)) for column in (0, 1))
        model.close()

    @pytest.mark.parametrize(
        "options",
        [
            {"columns": [7]},
            {"columns": []},
            {"columns": ["a"], "editable": ["b"]},
            {"columns": ["a"], "origin": 1},
        ],
    )
    def test_wrong_options_are_refused(self, games, options):
        with pytest.raises(InvalidOption):
            FeedTableModel(games, **options)

    def test_an_edit_of_the_primary_key_is_refused_in_one_line(self, games):
        model, heard = FeedTableModel(games, ["id"], editable=["id"]), []
        model.failed.connect(heard.append)
        run_until(lambda: model.state == "live")

        assert model.setData(model.index(0, 0), 77) is False
        assert [
            "id was not changed: the primary key of a document stays: delete the document, and insert a new one"
        ] == heard
        model.close()

    def test_columns_and_roles_that_are_no_list_are_refused(self, games):
        """A text would make a column of each letter; a dict would lose its titles."""
        for columns in ("score", {"score": "Score"}, None):
            with pytest.raises(InvalidOption, match="columns is a list, such as"):
                FeedTableModel(games, columns)
            with pytest.raises(InvalidOption, match="roles is a list, such as"):
                FeedModel(games, roles=columns)

    def test_a_model_is_not_changed_from_another_thread(self, model, games):
        raised = []

        def change():
            for act in (
                lambda: setattr(model, "selection", games),
                lambda: model.setData(model.index(0, 1), 7),
            ):
                try:
                    act()
                except UsageError as error:
                    raised.append(str(error))

        thread = threading.Thread(target=change)
        thread.start()
        thread.join()

        assert ["assign the selection", "edit a cell"] == [text.split(" of a model")[0] for text in raised]
        assert 10 == games.get(1).run()["score"]

    def test_a_model_of_another_thread_is_refused(self, games):
        raised = []

        def make():
            try:
                FeedModel(games, ["id"])
            except UsageError as error:
                raised.append(str(error))

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()

        assert "lives in the thread of the application" in raised[0]


def write_at_random(db, seed, count):
    """Commits of every kind, of one document and of many."""
    games, chosen = db.table("games"), random.Random(seed)
    for _ in range(count):
        key, kind = chosen.randrange(60), chosen.random()
        document = {"id": key, "score": chosen.randrange(50), "name": str(chosen.random())}
        if kind < 0.55:
            games.insert(document, conflict="update")
        elif kind < 0.75:
            games.get(key).delete()
        elif kind < 0.98:
            games.get(key).update({"score": chosen.randrange(50)})
        else:
            with db.transaction():
                for other in chosen.sample(range(60), 20):
                    games.insert({**document, "id": other, "score": chosen.randrange(50)}, conflict="replace")


def test_two_writing_threads_and_filter_switches_leave_the_model_equal_to_the_query(db, games):
    """3,000 writes, under the checker of Qt, with a proxy on top."""
    selections = [
        games.order_by("score", "id"),
        games.filter(row["score"] > 25).order_by(desc("score"), "id"),
        games.order_by("name").limit(10),
        games,
    ]
    model = FeedTableModel(selections[0], ["id", "score", "name"])
    proxy = QtCore.QSortFilterProxyModel()
    proxy.setSourceModel(model)
    proxy.sort(2)
    testers = [check(model), check(proxy)]
    threads = [threading.Thread(target=write_at_random, args=(db, seed, 1500)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    switches = 0
    while any(thread.is_alive() for thread in threads) or switches < len(selections):
        switches += 1
        model.selection = selection = selections[switches % len(selections)]
        run_until(lambda: model.state == "live")

    run_until(is_settled(model, selection))
    assert sorted(document["name"] for document in documents(model)) == [
        proxy.data(proxy.index(at, 2)) for at in range(proxy.rowCount())
    ]
    assert testers
    model.close()


def test_the_binding_that_is_imported_is_used():
    assert load("QtCore") is QtCore


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_of_a_fork_while_a_model_reads_has_its_collector_on():
    program = """
import gc, os
from reactdb.qt.follower import collector_pause
collector_pause.begin()
child = os.fork()
if child == 0:
    os._exit(0 if gc.isenabled() else 3)
assert os.waitpid(child, 0)[1] == 0 and not gc.isenabled()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
