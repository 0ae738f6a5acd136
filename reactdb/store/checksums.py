"""Checksums: each log entry carries a checksum, so that a read notices a byte that changed on the disk.

SQLite checks the structure of a file and not the values in it: a flipped byte in a document comes back as if it had
been written. The checksum of an entry (the column `seal`) is one integer of two parts:

    low 32 bits     Adler-32 of the table's number, the key and the document (nothing, for a deletion). A read
                    of documents checks it, with the key that the read looked for, so that a head which points to
                    another document's entry is noticed too.
    above them      the entry's other columns, as a sum weighted by small primes, modulo 2^31 - 1. A read of the log
                    checks this, too. The modulus is a prime, so that no change of a single byte of one column
                    leaves the sum as it was.

Small and seldom written rows have the CRC-32 of their values in msgpack: each fact, each position; and the tables and
indexes together, in the fact `seal`.

Adler-32 and not CRC-32: of 190 bytes it takes 80 ns where zlib's CRC-32 takes 190, and every read of a document pays
it. It notices every change of one or two bytes, and of longer changes all but one in 10^6 (a few bytes long) to 10^9.

Rule of this file: pure functions. Their results are part of the file format and never change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress, repeat
from operator import add
from typing import Any
from zlib import adler32, crc32

from msgpack import packb

from reactdb.change import INSERT

# The weights of the columns; `time` has 1. Of origin and meta, the Adler-32 is weighed.
SEQ, STEP, KIND, PREV, ORIGIN, META = 31, 37, 41, 43, 47, 53
MODULUS = 2**31 - 1
LOW = 0xFFFF_FFFF
ONE_HIGH = 1 << 32


def entry_checksum(
    seq: int,
    table_id: int,
    kind: int,
    step: int,
    prev: int | None,
    time: int,
    key: bytes,
    body: bytes | None,
    origin: str | None,
    meta: bytes | None,
) -> int:
    """The checksum of an entry."""
    rest = seq * SEQ + step * STEP + kind * KIND + time
    if prev is not None:
        rest += prev * PREV
    if origin is not None or meta is not None:
        rest += _sum_labels(origin, meta)
    return adler32(body or b"", adler32(key, table_id)) + rest % MODULUS * ONE_HIGH


def insert_checksums(
    first: int,
    table_id: int,
    step: int,
    time: int,
    keys: Sequence[bytes],
    bodies: Sequence[bytes],
    origin: str | None,
) -> tuple[int, Iterable[int]]:
    """The checksums of consecutive inserts of one commit, the first with the given seq and step; none has a `prev`.

    Returns:
        (the sum of their low parts, the checksums).
    """
    assert INSERT == 0
    low = list(map(adler32, bodies, map(adler32, keys, repeat(table_id))))
    rest = (first * SEQ + step * STEP + time + _sum_labels(origin, None)) % MODULUS
    end = rest + (SEQ + STEP) * len(keys)
    if end < MODULUS:
        return sum(low), map(add, low, range(rest * ONE_HIGH, end * ONE_HIGH, (SEQ + STEP) * ONE_HIGH))
    return sum(low), map(add, low, (sum_ % MODULUS * ONE_HIGH for sum_ in range(rest, end, SEQ + STEP)))


def is_whole(table_id: int, key: bytes, body: Any, checksum: Any) -> bool:
    """Whether a document matches the checksum that was stored for this key. In damaged rows values can have any
    type."""
    try:
        return bool(adler32(body, adler32(key, table_id)) == checksum & LOW)
    except TypeError:
        return False


def are_whole(table_id: int, keys: Sequence[bytes], bodies: Sequence[Any], checksums: Sequence[Any]) -> bool:
    """The same for many documents at once, by comparing sums: three times as quick as single calls."""
    try:
        total = sum(map(adler32, bodies, map(adler32, keys, repeat(table_id))))
        return bool((sum(checksums) - total) % ONE_HIGH == 0)
    except TypeError:
        return False


def is_entry_whole(entry: Sequence[Any]) -> bool:
    """Whether a log entry matches its checksum: its columns in the order of `entry_checksum`, and its checksum."""
    *columns, checksum = entry
    try:
        return bool(entry_checksum(*columns) == checksum)
    except (TypeError, AttributeError, ValueError):
        # A column of another type, or text that no encoding carries.
        return False


def are_entries_whole(columns: Sequence[Sequence[Any]]) -> bool:
    """The same of many at once, by comparing sums.

    Args:
        columns: Of the entries; and perhaps two more, the documents before and their checksums. Whether an entry may be without
            a document before is for the caller to check.
    """
    seqs, table_ids, kinds, steps, prevs, times, keys, bodies, origins, metas, checksums, *before = columns
    try:
        seeds = list(map(adler32, keys, table_ids))
        if None in bodies:
            bodies = [b"" if body is None else body for body in bodies]
        low = sum(map(adler32, bodies, seeds))
        rest = _sum_upper_parts(seqs, kinds, steps, prevs, times, origins, metas)
        high, remainder = divmod(sum(checksums) - low, ONE_HIGH)
        if remainder or (high - rest) % MODULUS:
            return False
        if not before:
            return True
        olds, old_checksums = before
        old_low = sum(map(adler32, filter(None, olds), compress(seeds, olds)))
        return bool((sum(compress(old_checksums, olds)) - old_low) % ONE_HIGH == 0)
    except (TypeError, AttributeError, ValueError):
        return False


def are_steps_whole(columns: Sequence[Sequence[Any]]) -> bool:
    """The same for entries without their documents, by the upper part of the checksums. Tables and keys are not in
    it.

    Args:
        columns: `seqs, kinds, steps, prevs, times, origins, metas, checksums`.
    """
    *others, checksums = columns
    try:
        return bool(
            (sum(checksum >> 32 for checksum in checksums) - _sum_upper_parts(*others)) % MODULUS == 0
        )
    except (TypeError, AttributeError, ValueError):
        return False


def _sum_upper_parts(
    seqs: Sequence[int],
    kinds: Sequence[int],
    steps: Sequence[int],
    prevs: Sequence[int | None],
    times: Sequence[int],
    origins: Sequence[str | None],
    metas: Sequence[bytes | None],
) -> int:
    """The sum of the upper parts of the checksums."""
    rest = (
        sum(seqs) * SEQ + sum(steps) * STEP + sum(kinds) * KIND + sum(filter(None, prevs)) * PREV + sum(times)
    )
    count = len(seqs)
    if origins.count(None) < count or metas.count(None) < count:
        rest += sum(map(_sum_labels, origins, metas))
    return rest


def checksum_or_none(*columns: Any) -> int | None:
    """`entry_checksum` for SQL; None for a row that cannot be an entry: a read of it reports that."""
    try:
        return entry_checksum(*columns)
    except (TypeError, AttributeError, ValueError):
        return None


def values_checksum(*values: Any) -> int:
    """The checksum of a small, seldom written row: a fact, a position, the rows of `tables` and `indexes`."""
    return crc32(packb(values))


def _sum_labels(origin: str | None, meta: bytes | None) -> int:
    total = 0
    if origin is not None:
        total += adler32(origin.encode()) * ORIGIN
    if meta is not None:
        total += adler32(meta) * META
    return total
