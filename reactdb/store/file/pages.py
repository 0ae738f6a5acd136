"""Pages: reads the rows of a file that SQLite cannot read, page by page, without the trees above them.

Only leaves are read. A leaf has the places of its rows, and a row is complete in it, except that a long row continues
in a chain of overflow pages. A row may have been deleted long ago, if its page was freed; the caller has to find that
out.

Rule of this file: it reads bytes and never fails over them. Senseless bytes are skipped. It opens the file itself, so
no connection of this process may be open on it: https://sqlite.org/howtocorrupt.html, section 2.2.

Source: https://sqlite.org/fileformat2.html, sections 1.3 to 1.6, 2.1 and 4.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any, BinaryIO, Self

from reactdb.store.file.sqlite import PAGE_BYTES

TABLE_LEAF, INDEX_LEAF, INDEX_INTERIOR = 0x0D, 0x0A, 0x02
# No row of reactdb is longer, because a document has 64 MiB at most.
MOST_BYTES = 256 * 1024 * 1024
WAL_HEADER, FRAME_HEADER = 32, 24
INTEGER_BYTES = (0, 1, 2, 3, 4, 6, 8)


class Pages:
    """The pages of a file as its write-ahead log makes them. A context manager."""

    def __init__(self, path: str, *, with_log: bool = True) -> None:
        files = self._files = ExitStack()
        self._file: BinaryIO = files.enter_context(open(path, "rb"))  # noqa: SIM115  the stack closes it
        self._log: BinaryIO | None = None
        self._frames: dict[int, int] = {}
        # The log has commits that SQLite ignores, because they come after a damaged frame.
        self.is_log_damaged = False
        size = int.from_bytes(self._file.read(18)[16:18], "big")
        self.page_bytes = 65536 if size == 1 else size
        if self.page_bytes < 512 or self.page_bytes & (self.page_bytes - 1):
            self.page_bytes = PAGE_BYTES
        self._file.seek(0, 2)
        self.count = -(-self._file.tell() // self.page_bytes)
        if with_log and os.path.exists(path + "-wal"):
            self._log = files.enter_context(open(path + "-wal", "rb"))  # noqa: SIM115  the same
            self._read_frames(self._log)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.close()

    def _read_frames(self, log: BinaryIO) -> None:
        """Note which pages of complete commits the log has, up to the first frame with other salts.

        SQLite stops at the first frame with a wrong checksum. Here the later frames count all the same.
        """
        header = log.read(WAL_HEADER)
        order = {0x377F0682: "<", 0x377F0683: ">"}.get(int.from_bytes(header[:4], "big"), "<")
        sums = wal_checksum(header[:24], (0, 0), order)
        is_sound = struct.pack(">II", *sums) == header[24:32]
        pending: dict[int, int] = {}
        place, frames = WAL_HEADER, 0
        while True:
            log.seek(place)
            frame = log.read(FRAME_HEADER)
            data = log.read(self.page_bytes)
            if len(data) < self.page_bytes or frame[8:16] != header[16:24]:
                return
            if is_sound:
                sums = wal_checksum(data, wal_checksum(frame[:8], sums, order), order)
                is_sound = struct.pack(">II", *sums) == frame[16:24]
            frames += 1
            number = int.from_bytes(frame[:4], "big")
            pending[number] = place + FRAME_HEADER
            if any(frame[4:8]):
                self._frames.update(pending)
                self.count = max([self.count, *(page for page in pending if page <= self.count + frames)])
                pending.clear()
                self.is_log_damaged = not is_sound
            place += FRAME_HEADER + self.page_bytes

    def page(self, number: int) -> bytes:
        """A page; the first is 1. If the file ends inside of it, the rest is zeros."""
        place = self._frames.get(number)
        if place is None or self._log is None:
            self._file.seek((number - 1) * self.page_bytes)
            data = self._file.read(self.page_bytes)
        else:
            self._log.seek(place)
            data = self._log.read(self.page_bytes)
        return data.ljust(self.page_bytes, b"\0")

    def rows(self) -> Iterator[tuple[bool, list[Any]]]:
        """Every row of every leaf: (whether it is a table row, its values). A table row begins with its rowid."""
        for number in range(1, self.count + 1):
            page = self.page(number)
            start = 100 if number == 1 else 0
            if page[start] not in (TABLE_LEAF, INDEX_LEAF, INDEX_INTERIOR):
                continue
            is_table = page[start] == TABLE_LEAF
            pointers = start + (12 if page[start] == INDEX_INTERIOR else 8)
            for index in range(int.from_bytes(page[start + 3 : start + 5], "big")):
                place = int.from_bytes(page[pointers + 2 * index : pointers + 2 * index + 2], "big")
                try:
                    row = self._row(page, place + (4 if page[start] == INDEX_INTERIOR else 0), is_table)
                except (IndexError, ValueError):
                    continue
                yield is_table, row

    def _row(self, page: bytes, place: int, is_table: bool) -> list[Any]:
        size, place = read_varint(page, place)
        rowid = None
        if is_table:
            rowid, place = read_varint(page, place)
        if size > MOST_BYTES:
            raise ValueError("no row of ours")
        usable = self.page_bytes
        most = usable - 35 if is_table else (usable - 12) * 64 // 255 - 23
        local = size
        if size > most:
            least = (usable - 12) * 32 // 255 - 23
            local = least + (size - least) % (usable - 4)
            local = local if local <= most else least
        payload = page[place : place + local]
        if size > local:
            payload = self._read_overflow(
                payload, int.from_bytes(page[place + local : place + local + 4], "big"), size
            )
        if len(payload) < size:
            raise ValueError("it is cut off")
        values = record(payload)
        return [rowid, *values] if is_table else values

    def _read_overflow(self, payload: bytes, number: int, size: int) -> bytes:
        parts, left = [payload], size - len(payload)
        while left > 0:
            if not 0 < number <= self.count:
                raise ValueError("the chain leads nowhere")
            page = self.page(number)
            parts.append(page[4 : 4 + left])
            left -= self.page_bytes - 4
            number = int.from_bytes(page[:4], "big")
        return b"".join(parts)


def wal_checksum(data: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    """SQLite's checksum of a part of its log; `sums` is the checksum of everything before that part."""
    one, two = sums
    words = struct.unpack(f"{order}{len(data) // 8 * 2}I", data[: len(data) // 8 * 8])
    for first, second in zip(words[::2], words[1::2], strict=True):
        one = (one + first + two) & 0xFFFF_FFFF
        two = (two + second + one) & 0xFFFF_FFFF
    return one, two


def read_varint(data: bytes, place: int) -> tuple[int, int]:
    """Read SQLite's integer of one to nine bytes: (its value, the place after it)."""
    value = 0
    for count in range(8):
        byte = data[place + count]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + count + 1
    value = value << 8 | data[place + 8]
    return value - (1 << 64) if value >= 1 << 63 else value, place + 9


def record(payload: bytes) -> list[Any]:
    """The values of a record.

    Raises:
        ValueError, IndexError: It is not a record.
    """
    end, place = read_varint(payload, 0)
    values: list[Any] = []
    body = end
    while place < end:
        kind, place = read_varint(payload, place)
        if kind == 0:
            values.append(None)
            continue
        if kind in (8, 9):
            values.append(kind - 8)
            continue
        if kind < 0 or kind in (10, 11):
            raise ValueError("no such type")
        size = INTEGER_BYTES[kind] if kind < 7 else 8 if kind == 7 else (kind - 12) // 2
        value = payload[body : body + size]
        body += size
        if body > len(payload):
            raise ValueError("it is cut off")
        if kind < 7:
            values.append(int.from_bytes(value, "big", signed=True))
        else:
            values.append(value if kind == 7 or kind % 2 == 0 else value.decode())
    return values
