"""A monitor in the terminal: tables with their newest changes, one table that follows all writes, changes a second.

Run: python examples/textual_monitor/main.py [FILE]     (without a file, it watches orders that it makes up)
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import deque
from typing import Any, ClassVar

import reactdb
from reactdb import desc

try:
    from reactdb.textual import LiveTable
except ModuleNotFoundError as missing:
    raise SystemExit(str(missing)) from None

from rich.text import Text
from textual.app import App, ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Footer, Header, Label, OptionList, Sparkline


class Monitor(App[None]):
    TITLE = "reactdb monitor"
    BINDINGS: ClassVar = [("q", "quit", "Quit"), ("tab", "app.focus_next", "Tables or rows")]
    CSS = """
    OptionList { width: 34; height: 1fr; border: round $primary; }
    LiveTable { border: round $primary; }
    Sparkline { height: 3; margin: 0 1; }
    Label { padding: 0 1; }
    """

    def __init__(self, db: reactdb.Database) -> None:
        super().__init__()
        self.db = db
        self.names = db.table_list()
        # Table -> its newest change. Writers on any thread put it here, and the screen reads it twice a second.
        self.newest: dict[str, str] = {}
        self.arrived = 0
        self.each_half_second = deque([0.0] * 60, maxlen=60)

    def compose(self) -> ComposeResult:
        yield Header()
        with Horizontal():
            yield OptionList(*[Text(name) for name in self.names])
            with Vertical():
                if self.names:
                    yield LiveTable(self.newest_first(self.names[0]))
        yield Label("changes a second")
        yield Sparkline(list(self.each_half_second))
        yield Footer()

    def newest_first(self, name: str) -> Any:
        table = self.db[name]
        return table.order_by(desc(table.primary_key))

    def on_mount(self) -> None:
        self.watching = self.db.changes(include_types=True).subscribe(self.take)
        self.set_interval(0.5, self.tick)

    def on_unmount(self) -> None:
        self.watching.dispose()

    def take(self, change: dict[str, Any]) -> None:
        document = change["new_val"] or change["old_val"]
        self.newest[change["table"]] = f"{change['type']} {next(iter(document.values()))}"
        self.arrived += 1

    def tick(self) -> None:
        arrived, self.arrived = self.arrived, 0
        self.each_half_second.append(arrived * 2.0)
        self.query_one(Sparkline).data = list(self.each_half_second)
        self.query_one(Label).update(f"{arrived * 2} changes a second")
        tables = self.query_one(OptionList)
        for place, name in enumerate(self.names):
            # A Text is shown as it is; a string would be read as markup.
            tables.replace_option_prompt_at_index(
                place, Text.assemble((name, "bold"), f"\n  {self.newest.get(name, '')}")
            )

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.query_one(LiveTable).selection = self.newest_first(self.names[event.option_index])

    def on_live_table_row_selected(self, event: LiveTable.RowSelected) -> None:
        self.notify(str(reactdb.thaw(event.document)), title=f"key {event.key!r}", markup=False)


def make_orders(db: reactdb.Database) -> threading.Thread:
    """Two tables, and a thread that writes to them about 100 times a second."""
    orders, stock = db.table_create("orders"), db.table_create("stock")
    stock.insert([{"id": name, "pieces": 100} for name in ("apples", "bread", "coffee", "tea")])
    chance = random.Random(7)

    def write() -> None:
        for number in range(1, 1_000_000):
            thing = chance.choice(["apples", "bread", "coffee", "tea"])
            with db.transaction():
                orders.insert({"id": number, "thing": thing, "pieces": chance.randrange(1, 9), "paid": False})
                stock.get(thing).update({"pieces": chance.randrange(100)})
            orders.get(chance.randrange(1, number + 1)).update({"paid": True})
            time.sleep(0.02)

    return threading.Thread(target=write, daemon=True)


def main() -> None:
    if len(sys.argv) > 1:
        try:
            db = reactdb.connect(sys.argv[1], read_only=True)
        except reactdb.errors.ReactDBError as error:
            raise SystemExit(str(error)) from None
    else:
        db = reactdb.connect(":memory:")
        make_orders(db).start()
    with db:
        Monitor(db).run()


if __name__ == "__main__":
    main()
