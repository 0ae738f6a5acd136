"""OrderKey: one key by which documents are sorted.

Documents that lack the key come first, or last if the key descends, as in ReQL. Documents with equal keys keep their order.

Rule of this file: the order of values is in `collation`; a key chooses the value of a document, and the direction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from reactdb.errors import MissingValue, QueryError
from reactdb.expression.checks import sort_key

if TYPE_CHECKING:
    from reactdb.expression.build import Expression

Document = TypeVar("Document")


class OrderKey:
    """One key of an order: `asc("score")`, `desc(row["score"])`. A value: it is never changed."""

    __slots__ = ("descending", "expression")

    def __init__(self, expression: Expression, descending: bool = False) -> None:
        self.expression = expression
        self.descending = descending

    @property
    def direction(self) -> str:
        return "desc" if self.descending else "asc"

    @property
    def key(self) -> bytes:
        """Bytes that are equal for equal keys."""
        return self.direction.encode() + b" " + self.expression.key

    def sort_key(self, document: Any) -> bytes:
        """Bytes by which the document sorts, upwards; empty if it lacks the key.

        Raises:
            QueryError: The key cannot be computed for this document.
        """
        return sort_key_by(self.expression, document)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OrderKey) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"{self.direction}({self.expression!r})"


def check_no_sign(name: str) -> None:
    """Raise QueryError for a name with a `-` before it. Other systems write the reverse order so; here it would be the name of a
    field that surely no document has."""
    if name.startswith("-"):
        raise QueryError(
            f"an order does not turn round at a -: write desc({name[1:]!r}); for a field with the name {name!r}, row[{name!r}]"
        )


def sort_key_by(key: Callable[[Any], Any], element: Any) -> bytes:
    """The bytes by which an element sorts, by a function of it; empty if it lacks the key."""
    try:
        return sort_key(key(element))
    except MissingValue:
        return b""


def sort_by_keys(elements: Iterable[Any], keys: Sequence[tuple[Callable[[Any], Any], bool]]) -> list[Any]:
    """The elements in the order of some keys, the first of which counts most: pairs of a function and whether it descends."""
    results = list(elements)
    # Sorting is stable, so the least important key goes first.
    for key, descends in reversed(keys):
        results.sort(key=partial(sort_key_by, key), reverse=descends)
    return results


def sort_documents(documents: Iterable[Document], keys: Sequence[OrderKey]) -> list[Document]:
    """The documents in the order of the keys."""
    return sort_by_keys(documents, [(key.expression, key.descending) for key in keys])
