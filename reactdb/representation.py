"""Represented: a base for objects that a notebook shows by themselves, as HTML and as text.

IPython, Jupyter and marimo call `_repr_html_`; IPython calls `_repr_pretty_` for the text beside it. `repr()` stays one short
line, because logs and debuggers call it.

Rule of this file: showing an object never raises, never begins a feed, and never reads a whole table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reactdb.html_view import Preview


class Represented:
    """A base of classes with a `_preview`."""

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" in cls.__dict__:
            # IPython takes the first class with either method, so they have to be in the same one.
            cls._repr_pretty_ = Represented._repr_pretty_  # type: ignore[method-assign]

    def _preview(self) -> Preview:
        """What is shown. It may raise."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        # Imported here because most programs show nothing.
        from reactdb.html_view import to_html

        return to_html(self._preview_or_error())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        from reactdb.html_view import to_text

        printer.text(to_text(self._preview_or_error()))

    def _preview_or_error(self) -> Preview:
        from reactdb.html_view import Preview

        try:
            return self._preview()
        except Exception as error:
            return Preview(repr(self), note=str(error))
