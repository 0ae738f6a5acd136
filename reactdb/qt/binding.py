"""Binding: the Python package through which Qt is reached, chosen once, when `reactdb.qt` is imported.

    1. the one that the program has imported
    2. the one that the environment variable QT_API names, as for qtpy: `pyside6` or `pyqt6`
    3. the one that is installed; PySide6 if both are

Rule of this file: it is the only one that names the two packages. All others use the names from here.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from reactdb.errors import MissingExtra, UsageError, format_value

PACKAGES: Final = ("PySide6", "PyQt6")


def choose_binding() -> str:
    """The name of the package.

    Raises:
        MissingExtra: None is installed, or not the one that QT_API names.
        UsageError: QT_API names neither.
    """
    imported = [name for name in PACKAGES if f"{name}.QtCore" in sys.modules]
    if len(imported) == 1:
        return imported[0]
    api = os.environ.get("QT_API", "")
    if api:
        named = next((name for name in PACKAGES if name.lower() == api.lower()), None)
        if named is None:
            raise UsageError(
                f"the environment variable QT_API is {format_value(api)}, and reactdb.qt works with pyside6 and pyqt6"
            )
        if find_spec(named) is None:
            raise MissingExtra("reactdb.qt, with QT_API as it is,", named, "qt")
        return named
    for name in imported or PACKAGES:
        if find_spec(name) is not None:
            return name
    raise MissingExtra("reactdb.qt", "PySide6 or PyQt6", "qt")


BINDING: Final = choose_binding()


def load(module: str) -> Any:
    """A module of the binding, such as "QtGui". Programs without a window have no QtGui, so it is loaded when it is used."""
    return import_module(f"{BINDING}.{module}")


if TYPE_CHECKING:
    from PySide6 import QtCore
    from PySide6.QtCore import Property, Signal, Slot
else:
    QtCore = load("QtCore")
    IS_PYSIDE = hasattr(QtCore, "Signal")
    Property = QtCore.Property if IS_PYSIDE else QtCore.pyqtProperty
    Signal = QtCore.Signal if IS_PYSIDE else QtCore.pyqtSignal
    Slot = QtCore.Slot if IS_PYSIDE else QtCore.pyqtSlot

__all__ = ["BINDING", "Property", "QtCore", "Signal", "Slot", "load"]


def check_thread(what: str) -> None:
    """Raises: UsageError: There is no application yet, or this is another thread than the application's."""
    application = QtCore.QCoreApplication.instance()
    if application is None:
        raise UsageError(f"{what} lives in the thread of the application: make the QApplication first")
    if application.thread() != QtCore.QThread.currentThread():
        raise UsageError(
            f"{what} lives in the thread of the application: make it there (any thread may write to the database)"
        )


def check_own_thread(owner: QtCore.QObject, what: str) -> None:
    """Raises: UsageError: This is another thread than the one that `owner` lives in."""
    if owner.thread() != QtCore.QThread.currentThread():
        raise UsageError(
            f"{what} in the thread of the window only (any thread may write to the database, and the model follows)"
        )
