"""Peers: the databases that run the workloads, each in a file of its own.

A module in this folder takes part if it lists its peers in `PEERS`; it is left out if it cannot be imported, because its
package is not installed. `raw` comes first, because every ratio is relative to it.

Rule of this folder: a store does what its docstring says, in the way that a careful programmer who knows that database
would write it, with its loops. For work that the database cannot do, `Store` raises NotOffered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Literal

from benchmarks.documents import Document

Durability = Literal["soft", "hard"]
Key = str | int
Hear = Callable[[Any], None]
"""A listener: called with each event, a dict with `old_val` and `new_val`."""


class NotOffered(Exception):
    """This peer cannot do that. The workload is left out for it."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What a database has to be ready for.

    Attributes:
        integer_keys: Every key is an int; otherwise a str.
        indexed: There is an index on `score`.
    """

    integer_keys: bool = False
    indexed: bool = False


PLAIN = Layout()


class Store:
    """An open database with one table of documents. `id` is the key; an `each` is a commit for each, an `all` one commit."""

    def insert_all(self, documents: Sequence[Document]) -> None:
        """Add documents whose keys are free, as one commit."""
        raise NotOffered

    def insert_each(self, documents: Sequence[Document]) -> None:
        """Add documents whose keys are free, in a commit each."""
        raise NotOffered

    def insert_from_threads(self, batches: Sequence[Sequence[Document]]) -> None:
        """`insert_each` of each batch in a thread of its own, all at once. Every commit is done when this returns."""
        raise NotOffered

    def add_to_each(self, keys: Sequence[Key]) -> None:
        """Read a document, add 1 to its score, write it: in a commit each."""
        raise NotOffered

    def add_to_all(self, keys: Sequence[Key]) -> None:
        """The same as one commit. A later one sees what an earlier one wrote."""
        raise NotOffered

    def score_each(self, scores: Sequence[tuple[Key, int]]) -> None:
        """Give documents new scores, in a commit each."""
        raise NotOffered

    def score_all(self, scores: Sequence[tuple[Key, int]]) -> AbstractContextManager[None]:
        """The same as one commit: done inside when the block begins, committed, and told, when it ends."""
        raise NotOffered

    def get_each(self, keys: Sequence[Key]) -> int:
        """Read each document by its key; the sum of the scores."""
        raise NotOffered

    def get_ranges(self, ranges: Sequence[tuple[int, int]]) -> int:
        """Read the documents with low <= score < high by the index, in its order; how many they were."""
        raise NotOffered

    def page(self, skip: int, count: int) -> list[int]:
        """The scores of `count` documents after the first `skip`, in the order of the index on the score."""
        raise NotOffered

    def get_each_then(self, keys: Sequence[Key]) -> int:
        """Read each document by its key as it was at the middle of the log, each time through a new view of the past; the sum
        of the scores."""
        raise NotOffered

    def scan(self) -> int:
        """Read every document; the sum of the scores."""
        raise NotOffered

    def replay(self, *, decode: bool) -> int:
        """Read every change of the log, oldest first, each with the document before and after; how many they were.

        Args:
            decode: Unpack both documents, instead of only passing their bytes by.
        """
        raise NotOffered

    def top(self, count: int) -> list[int]:
        """The greatest scores, by the index where there is one, of documents that are read and decoded."""
        raise NotOffered

    def hear_table(self, hear: Hear) -> None:
        """One more listener to every change, called when its commit is done. So are all that follow."""
        raise NotOffered

    def hear_key(self, key: Key, hear: Hear) -> None:
        """To the changes of one document, which need not exist."""
        raise NotOffered

    def hear_rating(self, rating: float, hear: Hear) -> None:
        """To the changes of documents with this rating."""
        raise NotOffered

    def hear_top(self, count: int, hear: Hear) -> None:
        """To the changes among the documents with the greatest scores, by the index."""
        raise NotOffered

    def hear_net(self, hear: Hear) -> None:
        """To every change, but only once an hour, as the net difference of each document."""
        raise NotOffered

    def hear_all(self, hear: Hear) -> None:
        """To every change from the beginning of the log. What there is has been told when this returns."""
        raise NotOffered

    def hear_present(self, hear: Hear) -> None:
        """To every change, and first to every document as it is now, told when this returns."""
        raise NotOffered

    def hush(self) -> None:
        """End all listeners."""
        raise NotOffered

    def close(self) -> None:
        """Leave nothing behind that is not in the file."""


class Peer:
    """One way to keep documents.

    Attributes:
        name: As the tables have it.
        imports: The statement that a program begins with to use it; None where there is none in Python.
        imports_to_open: The same, and everything that opening a database imports.
        most_documents: More would take minutes to insert.
    """

    name: str
    imports: str | None = None
    imports_to_open: str | None = None
    most_documents: int = 1_000_000_000

    def open(self, folder: Path, layout: Layout, durability: Durability) -> Store:
        """Open the database in this folder; make it where there is none."""
        raise NotImplementedError

    def figures(self, workload: str, scale: float) -> dict[str, float] | None:
        """Run this workload in a process of its own that measures itself, for databases that are not Python's; None: run it here.

        Raises:
            NotOffered: It does not have this workload.
        """
        return None

    def missing(self) -> str | None:
        """What has to be installed before this peer can take part, as one sentence; None: nothing."""
        return None


def load() -> tuple[list[Peer], list[str]]:
    """The peers, raw first, and the modules that were left out with the reason why."""
    found: list[Peer] = []
    missing: list[str] = []
    for module in iter_modules(__path__):
        try:
            found.extend(import_module(f"{__name__}.{module.name}").PEERS)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] in ("benchmarks", "reactdb"):
                # Ours to mend, not somebody's package that is not installed.
                raise
            missing.append(f"{module.name}: {error}")
    missing += [f"{peer.name}: {reason}" for peer in found if (reason := peer.missing()) is not None]
    found = [peer for peer in found if peer.missing() is None]
    found.sort(key=lambda peer: (peer.name != "raw", peer.name))
    return found, missing
