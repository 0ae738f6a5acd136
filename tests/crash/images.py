"""Images: the possible contents of the disk after a power cut, computed from a recording.

A disk keeps everything that was flushed. Of later calls it may have all, none, or some in any order, whole or in
part. `Disk` follows a recording event by event. For each file it knows what is certain (the content at the last flush) and
what is pending (the writes and resizes since); for the folder, which name led to which file at its last flush, and to which
files since. An image is one choice for each file and each name. `power.py` lists the choices.

No image has effects that drives do not have: a change of bytes outside of a written range, or the loss of a flushed byte.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from .recording import Event, Operation, Recording

SECTOR_BYTES = 512
Image = dict[str, bytes]


@dataclass(slots=True, frozen=True)
class Pending:
    """One call that may or may not have reached the disk: a write, or (`data` is None) a resize to `offset` bytes."""

    offset: int
    data: bytes | None


@dataclass(slots=True)
class File:
    """One file's content. `doubtful`: its flush has failed, so that a later one does not make sure of what came before."""

    certain: bytearray
    pending: list[Pending] = field(default_factory=list)
    doubtful: int = 0

    def flush(self) -> None:
        if not self.doubtful:
            for call in self.pending:
                put(self.certain, call)
            self.pending.clear()
            return
        # What came after the flush that failed is certain, what came before it stays in doubt; but where a later call has
        # written over it, it does not matter any more.
        kept = self.pending[self.doubtful :]
        covered = [(call.offset, call.offset + len(call.data)) for call in kept if call.data is not None]
        for call in kept:
            put(self.certain, call)
        self.pending = [
            piece
            for call in self.pending[: self.doubtful]
            for piece in uncovered(call, covered)
            if not any(later.data is None for later in kept)
        ]
        self.doubtful = len(self.pending)


def uncovered(call: Pending, covered: list[tuple[int, int]]) -> list[Pending]:
    """What is left of a write where others have not been written over it."""
    if call.data is None:
        return []
    pieces = [(call.offset, call.offset + len(call.data))]
    for start, stop in covered:
        pieces = [
            piece
            for low, high in pieces
            for piece in ((low, min(high, start)), (max(low, stop), high))
            if piece[0] < piece[1]
        ]
    return [Pending(low, call.data[low - call.offset : high - call.offset]) for low, high in pieces]


def put(content: bytearray, call: Pending) -> None:
    """Carry out a call."""
    end = call.offset + (len(call.data) if call.data is not None else 0)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    if call.data is None:
        del content[call.offset :]
    else:
        content[call.offset : end] = call.data


class Disk:
    """A folder, after as many events as `advance` was given.

    Attributes:
        files: By inode.
        names: Of the folder at its last flush: name -> inode.
        pending_names: What happened to names since, in order: (name, inode, or None where it was removed).
    """

    def __init__(self, recording: Recording) -> None:
        self.files = {inode: File(bytearray(content)) for inode, content in recording.before.values()}
        self.names: dict[str, int] = {name: inode for name, (inode, _) in recording.before.items()}
        self.pending_names: list[tuple[str, int | None]] = []

    def advance(self, event: Event) -> None:
        operation = event.operation
        if operation == Operation.CREATE:
            self.files[event.inode] = File(bytearray())
            self.pending_names.append((event.name, event.inode))
        elif operation == Operation.WRITE:
            self.files[event.inode].pending.append(Pending(event.offset, event.data))
        elif operation == Operation.RESIZE:
            self.files[event.inode].pending.append(Pending(event.offset, None))
        elif operation == Operation.SYNC:
            self.files[event.inode].flush()
        elif operation == Operation.SYNC_FAILED:
            file = self.files[event.inode]
            file.doubtful = len(file.pending)
        elif operation == Operation.SYNC_FOLDER:
            self.names = self.names_now()
            self.pending_names.clear()
        elif operation == Operation.UNLINK:
            self.pending_names.append((event.name, None))
        elif operation == Operation.RENAME:
            self.pending_names.append((event.new_name, self.names_now().get(event.name)))
            self.pending_names.append((event.name, None))

    def names_now(self) -> dict[str, int]:
        """As the running program sees the folder."""
        names: dict[str, int | None] = dict(self.names)
        names.update(self.pending_names)
        return {name: inode for name, inode in names.items() if inode is not None}

    def names_of_a_cut(self, random: Random) -> dict[str, int]:
        """Each name as it was at one moment since the folder's last flush."""
        names: dict[str, int | None] = dict(self.names)
        for name in {name for name, _ in self.pending_names}:
            states = [
                self.names.get(name),
                *(inode for changed, inode in self.pending_names if changed == name),
            ]
            names[name] = random.choice(states)
        return {name: inode for name, inode in names.items() if inode is not None}

    @property
    def is_settled(self) -> bool:
        """Nothing is pending: there is one image only."""
        return not self.pending_names and not any(file.pending for file in self.files.values())


# ---------------------------------------------------------------------------------------------------------------
# What may become of one file: functions of (file, random) to its content

Fate = Callable[[File, Random], bytes]


def everything(file: File, random: Random) -> bytes:
    """Every call reached the disk."""
    return with_calls(file, file.pending)


def nothing(file: File, random: Random) -> bytes:
    """Only what was flushed."""
    return bytes(file.certain)


def all_but_one(file: File, random: Random) -> bytes:
    lost = random.randrange(len(file.pending))
    return with_calls(file, file.pending[:lost] + file.pending[lost + 1 :])


def only_one(file: File, random: Random) -> bytes:
    return with_calls(file, [random.choice(file.pending)])


def only_the_last(file: File, random: Random) -> bytes:
    """The drive wrote the newest first."""
    return with_calls(file, file.pending[-random.choice((1, 2, 3)) :])


def first_few(file: File, random: Random) -> bytes:
    """In order, and then the power went."""
    return with_calls(file, file.pending[: random.randrange(len(file.pending) + 1)])


def some(file: File, random: Random) -> bytes:
    """Any subset: what was written later may be there without what was written before."""
    share = random.choice((0.1, 0.5, 0.9))
    return with_calls(file, [call for call in file.pending if random.random() < share])


def torn_at_sector(file: File, random: Random) -> bytes:
    """One call is there in part: the sectors of its beginning, of its end, or any of them. The others in order up to it,
    or all of them."""
    torn = random.randrange(len(file.pending))
    rest = file.pending[torn + 1 :] if random.random() < 0.5 else []
    pieces = sectors(file.pending[torn])
    cut = random.randrange(len(pieces) + 1)
    kept = random.choice((pieces[:cut], pieces[cut:], [piece for piece in pieces if random.random() < 0.5]))
    return with_calls(file, [*file.pending[:torn], *kept, *rest])


def torn_at_byte(file: File, random: Random) -> bytes:
    """The power went in the middle of a call."""
    torn = random.randrange(len(file.pending))
    call = file.pending[torn]
    part = [] if call.data is None else [Pending(call.offset, call.data[: random.randrange(len(call.data))])]
    return with_calls(file, [*file.pending[:torn], *part])


def any_sectors(file: File, random: Random) -> bytes:
    """Each sector as it was at some moment since the last flush, whatever the others are: writes in any order."""
    even = random.random() < 0.5
    last = len(file.pending)
    moments: dict[int, int] = {}
    content = bytearray(file.certain)
    for place, call in enumerate(file.pending):
        if call.data is None:
            # The size is as of one moment, too.
            if random.random() < 0.5:
                put(content, call)
            continue
        for piece in sectors(call):
            sector = piece.offset // SECTOR_BYTES
            if sector not in moments:
                # Half of the time nearly everything is there: what is missing is then found out the least.
                moments[sector] = (
                    random.randrange(last + 1) if even else random.choice((last, last, last, last, 0))
                )
            if place < moments[sector]:
                put(content, piece)
    return bytes(content)


def grown_with_zeros(file: File, random: Random) -> bytes:
    """The file has the size that it got, and where it grew, zeros instead of what was written: all of it, or some."""
    content = bytearray(with_calls(file, file.pending))
    start = min(len(file.certain), len(content))
    share = random.choice((0.5, 1.0))
    for offset in range(start, len(content), SECTOR_BYTES):
        if random.random() < share:
            end = min(offset + SECTOR_BYTES, len(content))
            content[offset:end] = bytes(end - offset)
    return bytes(content)


def garbage(file: File, random: Random) -> bytes:
    """Sectors that were being written hold neither the old nor the new, where these are not the same."""
    content = bytearray(with_calls(file, file.pending))
    pieces = [piece for call in file.pending for piece in sectors(call) if piece.data is not None]
    for piece in random.sample(pieces, min(len(pieces), random.choice((1, 2, 8)))):
        assert piece.data is not None
        old = file.certain[piece.offset : piece.offset + len(piece.data)]
        same = next((place for place, byte in enumerate(old) if byte != piece.data[place]), len(old))
        start, end = piece.offset + same, min(piece.offset + len(piece.data), len(content))
        if start < end:
            content[start:end] = random.randbytes(end - start)
    return bytes(content)


def with_calls(file: File, calls: list[Pending]) -> bytes:
    content = bytearray(file.certain)
    for call in calls:
        put(content, call)
    return bytes(content)


def sectors(call: Pending) -> list[Pending]:
    """A write cut at the boundaries of sectors. A resize is one piece."""
    if call.data is None:
        return [call]
    pieces = []
    start, end = call.offset, call.offset + len(call.data)
    while start < end:
        stop = min(end, start - start % SECTOR_BYTES + SECTOR_BYTES)
        pieces.append(Pending(start, call.data[start - call.offset : stop - call.offset]))
        start = stop
    return pieces


FATES: tuple[Fate, ...] = (
    everything,
    nothing,
    all_but_one,
    only_one,
    only_the_last,
    first_few,
    some,
    torn_at_sector,
    torn_at_byte,
    any_sectors,
    grown_with_zeros,
    garbage,
)
MIXED = len(FATES)
# How many kinds of images there are: one where all files have the same fate, for each fate, and one where each has its own.
KINDS = len(FATES) + 1


def image(disk: Disk, kind: int, random: Random) -> Image:
    """One legal image of the disk: `kind` is a place in FATES, or MIXED for a fate of its own for each file."""
    if kind == 0:
        names = disk.names_now()
    elif kind == 1:
        names = disk.names
    else:
        names = random.choice((disk.names_now(), disk.names_of_a_cut(random), disk.names_of_a_cut(random)))
    found = {}
    for name, inode in sorted(names.items()):
        file = disk.files[inode]
        fate = FATES[kind] if kind != MIXED else random.choice(FATES)
        found[name] = fate(file, random) if file.pending else bytes(file.certain)
    return found
