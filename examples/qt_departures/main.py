"""A departures board, fed by another thread. Run: python examples/qt_departures/main.py"""

from __future__ import annotations

import argparse
import sys
import threading
from datetime import date
from itertools import groupby

try:
    from PySide6 import QtCore, QtGui, QtWidgets
except ImportError:
    sys.exit('This example needs Qt: python -m pip install -e ".[qt]"')

import reactdb
from reactdb import row
from reactdb.demo.flights import day_steps
from reactdb.qt import FeedTableModel

AIRPORTS = {"JFK": "Kennedy", "EWR": "Newark", "LGA": "LaGuardia"}
COLOURS = {"scheduled": "#ffd35c", "departed": "#7ee787", "arrived": "#8b98a9", "cancelled": "#ff7b72"}
STYLE = """
QWidget { background: #10141b; color: #ffd35c; font: 14px "DejaVu Sans Mono", monospace; }
QTableView { border: none; selection-background-color: #24324a; }
QHeaderView::section { background: #10141b; color: #8b98a9; border: none; padding: 6px; }
QLabel#title { font-size: 24px; font-weight: bold; padding: 8px; }
"""


def remark(flight: dict) -> str:
    delay_min = flight.get("delay_min", 0)
    if flight["state"] == "departed" and delay_min > 0:
        return f"departed, {delay_min} min late"
    return flight["state"]


class Board(FeedTableModel):
    """The colour of a row says the state of its flight."""

    def data(self, index, role=QtCore.Qt.ItemDataRole.DisplayRole):
        if role == QtCore.Qt.ItemDataRole.ForegroundRole:
            return QtGui.QColor(COLOURS[self.document(index.row())["state"]])
        return super().data(index, role)


def replay(db: reactdb.Database, minutes_per_s: float, stop: threading.Event) -> None:
    """Write the flights of the day, from six o'clock on: each minute of the day is one commit."""
    flights = db.table("flights")
    steps = day_steps(date(2013, 1, 1))
    for minute, group in groupby(steps, key=lambda step: step.at):
        with db.transaction():
            for step in group:
                flights.insert({"id": step.id, **step.fields}, conflict="update")
        if minute.hour >= 6 and stop.wait(1 / minutes_per_s):
            return


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--speed", type=float, default=6, help="minutes of the day in a second (6)")
    parser.add_argument("--seconds", type=float, help="close the window after so many seconds")
    parser.add_argument("--picture", help="save a picture of the window in this file, at the end")
    chosen = parser.parse_args()
    application = QtWidgets.QApplication([])
    application.setStyleSheet(STYLE)
    db = reactdb.connect(":memory:")
    flights = db.table_create("flights")

    def departures(airport: str):
        here = flights.filter((row["origin"] == airport) & (row["state"] != "arrived"))
        return here.order_by("scheduled", "id").limit(18)

    board = Board(
        departures("JFK"),
        [
            ("Time", lambda flight: f"{flight['scheduled']:%H:%M}"),
            ("Flight", lambda flight: f"{flight['carrier']} {flight['flight']}"),
            ("To", "dest"),
            ("Remark", remark),
        ],
    )
    window, title, choice = QtWidgets.QWidget(), QtWidgets.QLabel("Departures"), QtWidgets.QComboBox()
    title.setObjectName("title")
    for code, name in AIRPORTS.items():
        choice.addItem(f"{name} ({code})", code)
    choice.currentIndexChanged.connect(lambda: setattr(board, "selection", departures(choice.currentData())))
    view = QtWidgets.QTableView(showGrid=False)
    view.setModel(board)
    view.verticalHeader().hide()
    view.setEditTriggers(QtWidgets.QAbstractItemView.EditTrigger.NoEditTriggers)
    view.horizontalHeader().setDefaultAlignment(QtCore.Qt.AlignmentFlag.AlignLeft)
    view.horizontalHeader().setStretchLastSection(True)
    for column, width in enumerate((90, 120, 90)):
        view.setColumnWidth(column, width)
    layout, top = QtWidgets.QVBoxLayout(window), QtWidgets.QHBoxLayout()
    top.addWidget(title, 1)
    top.addWidget(choice)
    layout.addLayout(top)
    layout.addWidget(view)
    window.setWindowTitle("Departures")
    window.resize(560, 680)
    window.show()
    stop = threading.Event()
    writer = threading.Thread(target=replay, args=(db, chosen.speed, stop))
    writer.start()
    if chosen.seconds is not None:
        QtCore.QTimer.singleShot(int(chosen.seconds * 1000), application.quit)
    application.exec()
    stop.set()
    writer.join()
    print(
        f"{board.rowCount()} flights on the board, {flights.count().run()} in the database, {db.seq} changes"
    )
    if chosen.picture:
        window.grab().save(chosen.picture)
    board.close()
    db.close()


if __name__ == "__main__":
    main()
