"""Reading ahead: a command also reads the documents of a server's first batch.

    documents = read_ahead(documents, most)     an error in the first documents is raised here
    documents = Peekable(documents)             whether there is a next document, before it is read

Rule of this file: each document is read once, and comes out in its turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from reactdb.dialects.mongodb.command_fields import FIRST_BATCH

__all__ = ["Peekable", "read_ahead"]


def read_ahead(documents: Iterator[Any], most: int | None) -> Iterator[Any]:
    """The same documents; the first `most` are read already. None stands for a server's batch size."""
    first = list(islice(documents, FIRST_BATCH if most is None else most))
    return chain(first, documents)


class Peekable(Iterator[Any]):
    """Documents with a check for the next one. One thread at a time."""

    def __init__(self, documents: Iterator[Any]) -> None:
        self._documents = documents
        self._held: list[Any] = []
        self._error: Exception | None = None

    def has_more(self) -> bool:
        """Whether the next read returns a document, or an error."""
        if not self._held and self._error is None:
            try:
                self._held.append(next(self._documents))
            except StopIteration:
                return False
            except Exception as error:
                # The read of the document raises it, and no earlier call.
                self._error = error
        return True

    def __next__(self) -> Any:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return self._held.pop() if self._held else next(self._documents)
