"""What a transaction has done and seen. A history is all transactions of a run, in any order.

The state of a key is a list, empty at the beginning. Every appended value is unique in the history of its key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SERIALIZABLE: Final = "serializable"
"""All reads and writes happen at one moment."""

SNAPSHOT: Final = "snapshot"
"""All reads happen at one moment, all writes at a later one, and nobody else writes the same keys between the two."""

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
DOUBT: Final = "in doubt"


@dataclass(slots=True, frozen=True)
class Read:
    """All values of a key's list, as they were seen."""

    key: str
    values: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class Append:
    key: str
    value: str


@dataclass(slots=True, frozen=True)
class Transaction:
    """One transaction.

    Attributes:
        promise: SERIALIZABLE or SNAPSHOT.
        state: COMMITTED, ABORTED, or DOUBT: it is not known whether it was committed.
        began, ended: Nanoseconds of one clock: before its first operation, and after its end was acknowledged.
    """

    name: str
    promise: str
    operations: tuple[Read | Append, ...]
    state: str
    began: int
    ended: int
