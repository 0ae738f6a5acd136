"""Peers: the interface of a replication's two sides, and the values between them.

Rule of this file: no side is named.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

__all__ = [
    "AttachmentBytes",
    "Bell",
    "ChangesPage",
    "Peer",
    "SourceFailed",
    "Subset",
    "Transfer",
    "Unreadable",
]


@dataclass(frozen=True, slots=True)
class Subset:
    """The documents to replicate: all, those of a selector, these ids, or those that pass a filter of the source.

    Attributes:
        name: `design/filter`, with `parameters` for the filter's `req.query`.
        removals: A document that has left the selection is replicated once more, if the source can report it.
    """

    selector: Mapping[str, Any] | None = None
    doc_ids: tuple[str, ...] | None = None
    name: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    removals: bool = False

    def query(self) -> dict[str, str]:
        """As parameters of `_changes`."""
        parameters = self._filter()
        return parameters | {"removals": "true"} if self.removals and parameters else parameters

    def _filter(self) -> dict[str, str]:
        if self.selector is not None:
            return {"filter": "_selector"}
        if self.doc_ids is not None:
            return {"filter": "_doc_ids"}
        return {} if self.name is None else {"filter": self.name, **self.parameters}

    def body(self) -> dict[str, Any] | None:
        """As the body of a POST to `_changes`; None if there is none."""
        if self.selector is not None:
            return {"selector": dict(self.selector)}
        return None if self.doc_ids is None else {"doc_ids": list(self.doc_ids)}


class ChangesPage(NamedTuple):
    """Changes of a source: rows of `_changes`, the position after them, and the number of further changes, if it is known."""

    rows: list[dict[str, Any]]
    last_seq: Any
    pending: int | None = None


class AttachmentBytes(NamedTuple):
    """The bytes of an attachment: their number, and a function that opens them as pieces."""

    length: int
    open: Callable[[], AbstractContextManager[Iterator[bytes]]]


class Transfer(NamedTuple):
    """A revision on its way: the document with `_revisions` and with stubs of its attachments, and the bytes of attachments that
    the target lacks, by name."""

    document: dict[str, Any]
    sources: dict[str, AttachmentBytes]

    @property
    def bytes(self) -> int:
        return sum(source.length for source in self.sources.values())


class Unreadable(NamedTuple):
    """A revision that the source has, but did not deliver, and the reason."""

    id: str
    rev: str | None
    error: Exception


class SourceFailed(Exception):
    """The source broke off while the target read the bytes of an attachment: `error` says how."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Bell(threading.Event):
    """Wakes a waiting replication: for a change, or for another attempt. With `is_stopped` it ends."""

    def __init__(self) -> None:
        super().__init__()
        self.is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True
        self.set()


class Peer(Protocol):
    """A side. Refusals and failures are a CouchError or an error of the connection."""

    name: str
    """For messages and checkpoints: without a password."""

    def prepare(self, *, create: bool) -> None:
        """Check that the database exists, or make it."""

    def changes(self, selection: Subset, since: Any, limit: int) -> ChangesPage:
        """The next existing changes; if they are fewer than `limit`, they are the last."""

    def wait(self, selection: Subset, since: Any, limit: int, bell: Bell) -> ChangesPage:
        """The same, after waiting for changes. Empty if the bell stopped it, or nothing came for a while."""

    def missing(self, revisions: Mapping[str, list[str]]) -> dict[str, dict[str, list[str]]]:
        """The revisions that are missing here, in the form of `_revs_diff`."""

    def leaves(
        self, missing: Mapping[str, Mapping[str, list[str]]], other: Peer
    ) -> Iterator[Transfer | Unreadable]:
        """The revisions that `other` lacks, from its `missing`. Deleted ones are left out."""

    def has_attachment(self, id: str, revisions: list[str], name: str, stub: Mapping[str, Any]) -> bool:
        """Whether one of these revisions is here with this attachment, so that a stub of it suffices."""

    def write(self, leaves: Iterable[Transfer]) -> list[dict[str, Any] | Unreadable]:
        """Add revisions unchanged. Returns the refused revisions, `{"id", "error", "reason"}`, and the revisions with attachments
        that the source did not deliver."""

    def get_local(self, id: str) -> dict[str, Any] | None:
        """A `_local/` document."""

    def put_local(self, document: dict[str, Any]) -> None:
        """Write a `_local/` document."""
