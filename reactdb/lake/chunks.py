"""Chunks: what a run of the exporter collects before it commits: the changes of a stretch of the log, and where it ends.

    ChunkEnd          the stretches, and the positions after them
    ChunkDocuments    of each key its newest document
    ChunkVersions     the versions that begin, and those from before that end

Rule of this file: values out of pages. It reads no file, and writes no table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from reactdb import change
from reactdb.change import KINDS
from reactdb.lake.file_reader import RowPage
from reactdb.lake.file_states import FileState
from reactdb.lake.parts import DatabasePosition, Extent

# The kind of a change as pages have it: a word.
INSERT: Final = KINDS[change.INSERT]


def position_at(file: FileState, seq: int) -> DatabasePosition:
    """The position `seq` of a file, with the epoch that it belongs to."""
    names = [epoch.name for epoch in file.history if epoch.since <= seq] or [file.history[0].name]
    return replace(file.position, epoch=names[-1], seq=seq)


@dataclass(slots=True)
class ChunkEnd:
    """The end of a chunk: the stretches of the log in it, and the positions after it."""

    extents: list[Extent] = field(default_factory=list)
    positions: dict[str, DatabasePosition] = field(default_factory=dict)

    def add(self, file: FileState, since: int, until: int) -> None:
        position = position_at(file, until)
        self.extents.append(Extent(file.database, file.path, position.epoch, since, until))
        self.positions[file.database] = position


class ChunkDocuments:
    """The newest document of each key of a chunk."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.size_bytes = 0
        # File -> key -> (whether there was a document before the chunk, the newest document or None).
        self._documents: dict[str, tuple[FileState, dict[bytes, tuple[bool, bytes | None]]]] = {}

    def add(self, page: RowPage) -> None:
        _, documents = self._documents.setdefault(page.file.database, (page.file, {}))
        for key, op, body in zip(page.keys, page.ops, page.bodies, strict=True):
            known = documents.get(key)
            was_there = op != INSERT if known is None else known[0]
            self.size_bytes += len(body or b"") - len((known and known[1]) or b"")
            documents[key] = (was_there, body)

    def by_file(self) -> Iterable[tuple[FileState, dict[bytes, tuple[bool, bytes | None]]]]:
        return self._documents.values()


class ChunkVersions:
    """The versions that the changes of a chunk begin, and those from before it that they end."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.size_bytes = 0
        self._pages: list[RowPage] = []
        # (database, key) -> seq and time of the change that ended the version from before the chunk.
        self.ended: dict[tuple[str, bytes], tuple[int, int]] = {}
        self._seen: set[tuple[str, bytes]] = set()

    def add(self, page: RowPage) -> None:
        self._pages.append(page)
        self.size_bytes += page.size_bytes
        for key, op, seq, time in zip(page.keys, page.ops, page.seqs, page.times, strict=True):
            name = (page.file.database, key)
            if name not in self._seen:
                self._seen.add(name)
                if op != INSERT:
                    self.ended[name] = (seq, time or 0)

    def begun(self) -> Iterator[tuple[RowPage, list[tuple[int, int] | None]]]:
        """The versions, each with the seq and the time of its end."""
        following: dict[tuple[str, bytes], tuple[int, int]] = {}
        made: list[tuple[RowPage, list[tuple[int, int] | None]]] = []
        for page in reversed(self._pages):
            ends: list[tuple[int, int] | None] = []
            for place in reversed(range(len(page))):
                name = (page.file.database, page.keys[place])
                ends.append(following.get(name))
                following[name] = (page.seqs[place], page.times[place] or 0)
            ends.reverse()
            places = [place for place, body in enumerate(page.bodies) if body is not None]
            if places:
                made.append((page.pick(places), [ends[place] for place in places]))
        yield from reversed(made)
