"""Recording: the trace that `recorder.c` writes, as a list of events, and the marks that the recorded program made in it.

A mark is a line of JSON that the program writes to the file `marks` in the recorded folder: so it stands in the trace between
the calls that were made before it and those made after. The file itself is never part of an image.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

MARKS = "marks"
RECORD = struct.Struct("<QQqQQ")


class Operation(IntEnum):
    """As in recorder.c."""

    OPEN = 1
    CREATE = 2
    WRITE = 3
    RESIZE = 4
    SYNC = 5
    SYNC_FOLDER = 6
    UNLINK = 7
    RENAME = 8
    SYNC_FAILED = 9


@dataclass(slots=True, frozen=True)
class Event:
    """One call that changed a file or the folder.

    Attributes:
        inode: Of the file; 0 where the call names one.
        offset: Of a write, in bytes; of a resize, the new size.
        name: Of the file opened, created or unlinked; of a rename, the old one.
        new_name: Of a rename.
        data: Of a write.
    """

    operation: Operation
    inode: int
    offset: int
    name: str
    new_name: str
    data: bytes


@dataclass(slots=True, frozen=True)
class Mark:
    """What the program said when `place` events had happened."""

    place: int
    said: dict[str, Any]


@dataclass(slots=True, frozen=True)
class Recording:
    """A run: what was in the folder before it, by name as (inode, content), and what happened then."""

    before: dict[str, tuple[int, bytes]]
    events: list[Event]
    marks: list[Mark]


def read_folder(folder: Path) -> dict[str, tuple[int, bytes]]:
    """The files of a folder before it is recorded: to be called once they are all there."""
    return {file.name: (file.stat().st_ino, file.read_bytes()) for file in sorted(folder.iterdir())}


def read_trace(trace: Path, before: dict[str, tuple[int, bytes]]) -> Recording:
    """A trace as `recorder_begin` was told to write it."""
    raw = trace.read_bytes()
    events: list[Event] = []
    marks: list[Mark] = []
    marks_inode = 0
    said = b""
    place = 0
    while place < len(raw):
        operation, inode, offset, name_bytes, data_bytes = RECORD.unpack_from(raw, place)
        place += RECORD.size
        name, _, new_name = raw[place : place + name_bytes].decode().partition("\0")
        place += name_bytes
        data = raw[place : place + data_bytes]
        place += data_bytes
        event = Event(Operation(operation), inode, offset, name, new_name, data)
        if name == MARKS:
            marks_inode = inode
        elif inode and inode == marks_inode:
            said += data
            *lines, said = said.split(b"\n")
            marks += [Mark(len(events), json.loads(line)) for line in lines]
        else:
            events.append(event)
    return Recording(before, events, marks)
