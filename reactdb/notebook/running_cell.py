"""The cell of a notebook that is being run, and the tables that its last run has made.

A front end keeps the widgets of a cell that is run again, for as long as the kernel lives. So a table is ended here when its cell
runs again.

Rule of this file: Jupyter and marimo are asked only if the program has imported them.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

__all__ = ["find_running_cell", "replace_earlier_runs"]

# For each cell: the run that made the tables, and what ends them.
_runs: dict[str, tuple[object, list[weakref.WeakMethod[Callable[[], None]]]]] = {}


def find_running_cell() -> tuple[str, object] | None:
    """The id of the cell, and an object that is another one for each run of it. None outside of a notebook, and where the
    front end gives no ids."""
    return _cell_of_jupyter() or _cell_of_marimo()


def _cell_of_jupyter() -> tuple[str, object] | None:
    ipython = sys.modules.get("IPython")
    shell: Any = None if ipython is None else ipython.get_ipython()
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return None
    parent = kernel.get_parent() or {}
    cell = (parent.get("metadata") or {}).get("cellId")
    return None if cell is None else (f"jupyter {cell}", (parent.get("header") or {}).get("msg_id"))


def _cell_of_marimo() -> tuple[str, object] | None:
    contexts: Any = sys.modules.get("marimo._runtime.context")
    if contexts is None:
        return None
    try:
        context = contexts.get_context()
        cell = context.execution_context
        return None if cell is None else (f"marimo {cell.cell_id}", cell)
    except Exception:
        # Outside of a cell, or another version of marimo: its front end closes the table.
        return None


def replace_earlier_runs(end: Callable[[], None], running: tuple[str, object] | None) -> None:
    """Remember how a new table is ended, and end the tables of earlier runs of its cell.

    Args:
        end: A method of the table.
        running: The result of `find_running_cell`.
    """
    if running is None:
        return
    cell, run = running
    earlier_run, ends = _runs.get(cell, (run, []))
    if earlier_run != run:
        for one in ends:
            method = one()
            if method is not None:
                method()
        ends = []
    ends.append(weakref.WeakMethod(end))
    _runs[cell] = run, ends
