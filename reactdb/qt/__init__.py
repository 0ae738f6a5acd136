"""Qt: models of Qt that follow a selection, for PySide6 and PyQt6.

    from reactdb.qt import FeedModel, FeedTableModel, undo_actions

    model = FeedTableModel(todos.order_by("due"), columns=["title", ("Due", "due")], editable=["title"])
    view.setModel(model)
    undo, redo = undo_actions(db.undo_stack(origin="ui"), window)

A thread of the model follows the selection, and works out which rows are inserted, removed, moved and changed. The thread of
the window carries these steps out, a few milliseconds at a time. It never reads the database and never waits for it.

In reading order:

    binding       PySide6 or PyQt6
    doorbell      how other threads call the thread of the window
    row_steps     the steps from one list of documents to the next
    follower      the thread that follows the selection
    cells         values of documents as Qt shows and edits them
    cell_edits    what the user has typed, until it is stored
    models        FeedModel and FeedTableModel
    undo          undo_actions
"""

from __future__ import annotations

from reactdb.qt.models import FeedModel, FeedTableModel
from reactdb.qt.undo import UndoAction, undo_actions

__all__ = ["FeedModel", "FeedTableModel", "UndoAction", "undo_actions"]
