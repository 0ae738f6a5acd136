"""Reading ahead: what a server sends with the answer to a command is read with the command.

    documents = read_ahead(documents, most)     an error in one of the first is raised here
    documents = Peekable(documents)             whether there are more, before the next one is asked for

Rule of this file: each document is read once, and comes out in its turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from reactdb.dialects.mongodb.commands.cursors import FIRST_BATCH

__all__ = ["Peekable", "read_ahead"]


def read_ahead(documents: Iterator[Any], most: int | None) -> Iterator[Any]:
    """The same documents, of which the first `most` have been read; as many as a server sends where it is None."""
    first = list(islice(documents, FIRST_BATCH if most is None else most))
    return chain(first, documents)


class Peekable(Iterator[Any]):
    """Documents of which the next one can be looked for. One thread at a time."""

    def __init__(self, documents: Iterator[Any]) -> None:
        self._documents = documents
        self._held: list[Any] = []
        self._error: Exception | None = None

    def has_more(self) -> bool:
        """Whether asking for the next document gives one, or an error."""
        if not self._held and self._error is None:
            try:
                self._held.append(next(self._documents))
            except StopIteration:
                return False
            except Exception as error:
                # Whoever asks for the document is told, and nobody else.
                self._error = error
        return True

    def __next__(self) -> Any:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return self._held.pop() if self._held else next(self._documents)
