"""Findings: what a check of the doctor gets, and what it gives; and the words in which it speaks of entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from reactdb.change import KINDS
from reactdb.store.file.sqlite import Connection
from reactdb.values import collation

Level = Literal["problem", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong, by which check, in a sentence."""

    level: Level
    check: str
    message: str


@dataclass(frozen=True, slots=True)
class Patient:
    """The file under examination: a connection inside a read transaction, and the range of its log: low < seq <= head."""

    connection: Connection
    path: str
    low: int
    head: int

    def select(self, statement: str, parameters: tuple[Any, ...] = ()) -> Iterator[Any]:
        """Rows one by one, on a cursor of their own."""
        return iter(self.connection.execute(statement, parameters))

    def value(self, statement: str, parameters: tuple[Any, ...] = ()) -> Any:
        return self.connection.execute(statement, parameters).fetchone()[0]


Found = Iterator[str | Finding]
Check = Callable[[Patient], Found]


def kind_in_words(kind: Any) -> str:
    """As `an insert`."""
    if kind not in range(len(KINDS)):
        return "of no known kind"
    return f"{'an' if KINDS[kind][0] in 'iu' else 'a'} {KINDS[kind]}"


def place_in_words(table_id: Any, key: Any) -> str:
    return f"table {table_id}, key {key_in_words(key)}"


def key_or_bytes(key: Any) -> Any:
    """The primary key; of a damaged one, what there is of it."""
    try:
        return collation.key_value(key)
    except Exception:
        return key


def key_in_words(key: Any) -> str:
    try:
        return repr(collation.key_value(key))[:100]
    except Exception:
        # A damaged key is shown as it is.
        return f"x'{key.hex()[:100]}'" if isinstance(key, bytes) else repr(key)[:100]
