"""Targets: the destination of a statement's writes, and the state of its reads.

A `WriteTransaction` of the store is a target: the writes become a part of its commit. The other kind is a transaction of the
dialect (`transactions`), which buffers its writes until its commit. Statements are written once, for both.

Rule of this file: it has the common part of both, and nothing else.
"""

from __future__ import annotations

from typing import Any, Protocol

from reactdb.store.catalogue import Catalogue, TableInfo
from reactdb.store.snapshot import Snapshot

__all__ = ["Target"]


class Target(Protocol):
    """See the head of this file."""

    @property
    def catalogue(self) -> Catalogue:
        """The tables as this target sees them."""

    @property
    def first(self) -> int:
        """The seq of its first entry, as far as it is known."""

    @property
    def count(self) -> int:
        """The number of entries written so far."""

    def head(self, table: TableInfo, key: bytes) -> tuple[int, bytes] | None:
        """(seq, bytes) of a document, or None."""

    def write(
        self,
        table: TableInfo,
        key: bytes,
        kind: int,
        old: tuple[int, bytes] | None,
        body: bytes | None,
        *,
        asked: Any = None,
        meta: bytes | None = None,
    ) -> bool:
        """Put `body` where `old` was, as `WriteTransaction.write` does."""

    def greatest_key(self, table: TableInfo) -> bytes:
        """The greatest key of a table; b"" if it has none."""

    def create_table(self, name: str, primary_key: str, owner: str | None = None) -> TableInfo:
        """Make a table; with an `owner`, a hidden one."""

    def snapshot(self) -> Snapshot:
        """A snapshot that includes the writes so far."""
