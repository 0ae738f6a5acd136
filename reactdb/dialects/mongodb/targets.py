"""Targets: where a statement's writes go, and which state its reads see.

A `WriteTransaction` of the store is one: its writes are a part of that commit. The other is a transaction of the dialect
(`transactions`), which keeps its writes until it is committed. Statements are written once, for both.

Rule of this file: what both have in common, and nothing else.
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
        """The seq of the first entry that is written here, as far as it is known."""

    @property
    def count(self) -> int:
        """How many entries were written here so far."""

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
        """The greatest key of a table; b"" where it has none."""

    def create_table(self, name: str, primary_key: str, owner: str | None = None) -> TableInfo:
        """Make a table; with an `owner`, a hidden one."""

    def snapshot(self) -> Snapshot:
        """Reads that see what was written here so far."""
