"""A to-do list with undo, in two windows on one file. Run: python examples/qt_todo/main.py [FILE]"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

try:
    from PySide6 import QtCore, QtWidgets
except ImportError:
    sys.exit('This example needs Qt: python -m pip install -e ".[qt]"')

import reactdb
from reactdb import row
from reactdb.qt import FeedTableModel, undo_actions

FIRST = ["Water the plants", "Answer Ada's letter", "Book the train to Oslo", "Repair the bicycle"]


class Window(QtWidgets.QMainWindow):
    """One user's window. Its edits have their own origin, so its undo leaves the edits of the other window alone."""

    def __init__(self, path: str, name: str) -> None:
        super().__init__()
        self.db = reactdb.connect(path, origin=name)
        self.stack = self.db.undo_stack()
        self.todos = self.db.table_create("todos", exist_ok=True)
        everything = self.todos.order_by("number")
        self.filters = {
            "All": everything,
            "Open": everything.filter(row["done"] == False),  # noqa: E712
            "Done": everything.filter(row["done"] == True),  # noqa: E712
        }

        # The three lines that bind the window to the database.
        self.model = FeedTableModel(
            everything,
            [("", "done"), ("To do", "title")],
            editable=["title"],
            checkable=["done"],
            parent=self,
        )
        self.model.failed.connect(lambda sentence: self.statusBar().showMessage(sentence, 10_000))
        self.undo, self.redo = undo_actions(self.stack, self)

        self.undo.failed.connect(lambda sentence: self.statusBar().showMessage(sentence, 10_000))
        self.setWindowTitle(f"To do: {name}")
        self.resize(460, 380)
        self.view = view = QtWidgets.QTableView(alternatingRowColors=True, showGrid=False)
        view.setModel(self.model)
        view.setSelectionBehavior(QtWidgets.QAbstractItemView.SelectionBehavior.SelectRows)
        view.verticalHeader().hide()
        view.horizontalHeader().setStretchLastSection(True)
        view.setColumnWidth(0, 32)
        self.entry = QtWidgets.QLineEdit(placeholderText="What is to be done?", clearButtonEnabled=True)
        self.entry.returnPressed.connect(self.add)
        choice = QtWidgets.QComboBox()
        choice.addItems(list(self.filters))
        choice.currentTextChanged.connect(self.show_only)
        remove = QtWidgets.QPushButton("Delete")
        remove.clicked.connect(self.delete)
        top, middle = QtWidgets.QHBoxLayout(), QtWidgets.QWidget()
        for widget in (self.entry, choice, remove):
            top.addWidget(widget)
        layout = QtWidgets.QVBoxLayout(middle)
        layout.addLayout(top)
        layout.addWidget(view)
        self.setCentralWidget(middle)
        bar = self.addToolBar("Edit")
        bar.setMovable(False)
        bar.addActions([self.undo, self.redo])
        for signal in (self.model.countChanged, self.model.stateChanged):
            signal.connect(self.count)

    def show_only(self, name: str) -> None:
        self.model.selection = self.filters[name]

    def add(self) -> None:
        if title := self.entry.text().strip():
            number = (self.todos.max("number").run() or {"number": 0})["number"] + 1
            self.todos.insert({"number": number, "title": title, "done": False})
            self.entry.clear()

    def delete(self) -> None:
        keys = [self.model.key(index.row()) for index in self.view.selectionModel().selectedRows()]
        with self.stack.group("delete"):
            self.todos.get_all(*keys).delete()

    def count(self) -> None:
        self.statusBar().showMessage(f"{self.model.rowCount()} shown")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", nargs="?", help="default: a new file, which goes at the end")
    parser.add_argument("--seconds", type=float, help="close the windows after so many seconds")
    parser.add_argument("--picture", help="save a picture of the windows in this file, at the end")
    chosen = parser.parse_args()
    application = QtWidgets.QApplication([])
    application.setStyle("Fusion")
    with tempfile.TemporaryDirectory() as folder:
        path = chosen.file or str(Path(folder) / "todo.db")
        with reactdb.connect(path) as db:
            todos = db.table_create("todos", exist_ok=True)
            if not todos.exists():
                todos.insert({"number": n, "title": t, "done": n == 1} for n, t in enumerate(FIRST))
            windows = [Window(path, name) for name in ("Ada", "Bo")]
            for place, window in enumerate(windows):
                window.move(80 + 500 * place, 80)
                window.show()
            if chosen.seconds is not None:
                QtCore.QTimer.singleShot(int(chosen.seconds * 1000), application.quit)
            application.exec()
            print(
                f"{windows[0].model.rowCount()} to-dos in the first window, {todos.count().run()} in the file"
            )
            if chosen.picture:
                windows[0].grab().save(chosen.picture)
            for window in windows:
                window.model.close()
                window.db.close()


if __name__ == "__main__":
    main()
