"""A live table for notebooks: Jupyter, marimo and others that show widgets of anywidget.

    from reactdb.notebook import LiveTable
    LiveTable(games.order_by(desc("score")))

    running_cell    the cell that is being run, so that running it again ends the feed of the run before
    paced_thread    a thread that calls waiting functions together, at most 20 times a second
    live_table      the widget, in the kernel

The widget in the browser is `live_table.js` with `live_table.css`. It needs nothing from elsewhere.

Objects of reactdb that show themselves need nothing of this package: see `reactdb/representation.py`.
"""

from __future__ import annotations

from reactdb.errors import MissingExtra

try:
    import anywidget as _anywidget  # noqa: F401
except ModuleNotFoundError as missing:
    raise MissingExtra("reactdb.notebook", "anywidget", "notebook") from missing

from reactdb.notebook.live_table import LiveTable

__all__ = ["LiveTable"]
