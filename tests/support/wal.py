"""The content of a write-ahead log, whose file may be larger. Source: https://sqlite.org/fileformat2.html, section 4."""

from __future__ import annotations

from pathlib import Path

HEADER_BYTES = 32
FRAME_BYTES = 24 + 4096


def used_bytes(path: str | Path) -> int:
    """The bytes written into the log of a database since its last restart. The file may be larger."""
    log = Path(f"{path}-wal").read_bytes()
    place = HEADER_BYTES
    while len(log) >= place + FRAME_BYTES and log[place + 8 : place + 16] == log[16:24]:
        place += FRAME_BYTES
    return place


def first_commit(path: str | Path) -> list[bytes]:
    """The pages of the first commit in the log since its last restart."""
    log = Path(f"{path}-wal").read_bytes()
    pages = []
    for place in range(HEADER_BYTES, len(log) - FRAME_BYTES + 1, FRAME_BYTES):
        if log[place + 8 : place + 16] != log[16:24]:
            break
        pages.append(log[place + 24 : place + FRAME_BYTES])
        if any(log[place + 4 : place + 8]):
            return pages
    return []
