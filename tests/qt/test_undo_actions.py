"""The actions Undo and Redo: their texts and states follow the stack, and a conflict is a sentence."""

from __future__ import annotations

import threading

import pytest

import reactdb
from reactdb.errors import InvalidOption, UsageError
from reactdb.qt import undo_actions
from tests.qt.window import QtCore, application, run_until


@pytest.fixture(autouse=True, scope="module")
def app():
    return application()


@pytest.fixture(name="cards")
def cards_and_stack():
    with reactdb.connect(":memory:", origin="ui") as db:
        cards = db.table_create("cards")
        cards.insert({"id": 1, "column": "todo"})
        parent = QtCore.QObject()
        stack = db.undo_stack()
        undo, redo = undo_actions(stack, parent)
        yield db, cards, stack, undo, redo
        del parent


def column(cards):
    return cards.get(1).run()["column"]


def test_the_actions_follow_the_stack(cards):
    _, cards, stack, undo, redo = cards
    assert (undo.text(), undo.isEnabled(), redo.isEnabled()) == ("Undo", False, False)

    with stack.group("Move the card"):
        cards.get(1).update({"column": "done"})
    run_until(undo.isEnabled)
    assert "Undo Move the card" == undo.text()
    assert undo.shortcuts()

    undo.trigger()
    run_until(redo.isEnabled)
    assert ("todo", "Redo Move the card", "Undo") == (column(cards), redo.text(), undo.text())
    assert not undo.isEnabled()

    redo.trigger()
    run_until(undo.isEnabled)
    assert "done" == column(cards)


def test_a_commit_of_another_origin_is_no_step(cards):
    db, cards, _, undo, _ = cards
    with db.transaction(origin="sync"):
        cards.get(1).update({"column": "theirs"})
    cards.insert({"id": 2})
    run_until(undo.isEnabled)

    undo.trigger()
    run_until(lambda: not undo.isEnabled())

    assert "theirs" == column(cards)
    assert cards.get(2).run() is None


def test_an_undo_in_conflict_writes_nothing_and_is_told_and_the_stack_goes_on(cards):
    db, cards, stack, undo, _ = cards
    told = []
    undo.failed.connect(told.append)
    cards.get(1).update({"column": "mine"})
    with db.transaction(origin="sync"):
        cards.get(1).update({"column": "theirs"})
    run_until(undo.isEnabled)

    undo.trigger()
    run_until(lambda: bool(told))

    assert ["undo is not possible: another writer has changed cards/1 since; nothing was written"] == told
    assert "theirs" == column(cards)
    run_until(undo.isEnabled)
    stack.clear()
    run_until(lambda: not undo.isEnabled())


def test_the_window_does_not_wait_for_an_undo_that_waits(cards):
    db, cards, _, undo, redo = cards
    cards.get(1).update({"column": "mine"})
    run_until(undo.isEnabled)
    inside, finish = threading.Event(), threading.Event()

    def hold():
        with db.transaction(origin="sync"):
            cards.insert({"id": 7})
            inside.set()
            finish.wait(30)

    other = threading.Thread(target=hold)
    other.start()
    inside.wait(30)
    undo.trigger()
    assert not undo.isEnabled()
    finish.set()
    other.join()
    run_until(redo.isEnabled)

    assert "todo" == column(cards)


def test_actions_end_with_their_window_and_with_the_database(cards):
    db, cards, stack, undo, _ = cards
    cards.get(1).update({"column": "mine"})
    run_until(undo.isEnabled)
    parent = QtCore.QObject()
    others = undo_actions(stack, parent, texts=("Zurück", "Wieder"), skip_conflicts=True)
    assert "Zurück" == others[0].text()

    del others, parent
    told = []
    undo.failed.connect(told.append)
    db.close()
    undo.trigger()
    run_until(lambda: bool(told))

    assert "closed" in told[0]
    run_until(lambda: not undo.isEnabled())


def test_wrong_arguments_are_refused(cards):
    db, _, stack, _, _ = cards
    with pytest.raises(UsageError, match=r"db\.undo_stack"):
        undo_actions(db)
    with pytest.raises(InvalidOption):
        undo_actions(stack, texts="Undo")
    with pytest.raises(InvalidOption):
        undo_actions(stack, skip_conflicts=1)
