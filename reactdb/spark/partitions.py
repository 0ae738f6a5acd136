"""Partitions: ranges of files for one task.

A slice is a range of one file: of seqs for changes, of keys for documents. A large file is cut into slices of about
`partitionBytes`; small files share a partition, because a task costs more than a small file.

Rule of this file: plain values that pickle small. The driver makes them, and an executor gets nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from reactdb.spark.options import Options

# The cost of opening a file, in bytes that could be read in the same time.
OPENING_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class ChangeSlice:
    """Changes of one file with since < seq <= until.

    Attributes:
        path: Absolute.
        database_id: The planned database; another database under this path is refused.
        weight_bytes: The approximate amount to read.
    """

    path: str
    database_id: str
    since: int
    until: int
    weight_bytes: int = 0


@dataclass(frozen=True, slots=True)
class DocumentSlice:
    """Documents of one table of one file as of `seq`, with start <= key < stop."""

    path: str
    database_id: str
    table_id: int
    seq: int
    start: bytes
    stop: bytes
    weight_bytes: int = 0


Slice = ChangeSlice | DocumentSlice


class Split(InputPartition):
    """The slices of one task, in their order. `value` is the tuple of them."""

    def __init__(self, slices: tuple[Slice, ...]) -> None:
        super().__init__(slices)

    @property
    def slices(self) -> tuple[Slice, ...]:
        return self.value  # type: ignore[no-any-return]


def split_slice(part: ChangeSlice, most_bytes: int) -> list[ChangeSlice]:
    """A range of changes, cut into ranges of similar size of at most about `most_bytes` each."""
    changes = part.until - part.since
    if changes <= 0:
        return []
    pieces = max(1, min(changes, -(-part.weight_bytes // most_bytes)))
    bounds = [part.since + changes * number // pieces for number in range(pieces + 1)]
    return [
        ChangeSlice(part.path, part.database_id, since, until, part.weight_bytes // pieces)
        for since, until in pairwise(bounds)
    ]


def piece_bytes(options: Options, total_bytes: int) -> int:
    """The size of a partition: `partition_bytes`, or less if that would give fewer than `min_partitions`."""
    return max(1, min(options.partition_bytes, -(-total_bytes // options.min_partitions)))


def pack_slices(slices: Iterable[Slice], most_bytes: int) -> list[Split]:
    """Slices in their order, packed into partitions of at most about `most_bytes`."""
    splits: list[Split] = []
    held: list[Slice] = []
    size = 0
    for part in slices:
        weight = part.weight_bytes + OPENING_BYTES
        # A partition that is a quarter too large is better than a further, nearly empty partition.
        if held and size + weight > most_bytes * 5 // 4:
            splits.append(Split(tuple(held)))
            held, size = [], 0
        held.append(part)
        size += weight
    if held:
        splits.append(Split(tuple(held)))
    return splits
