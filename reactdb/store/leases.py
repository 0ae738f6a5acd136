"""Leases: the state of each durable consumer in the file, and its present worker.

A consumer has one lease for each of its partitions: a row of `positions`, with its position in the log, its holder,
and the end of the holder's time. A worker takes a free lease, renews it while the worker lives, and gives it up at
its end. Each new holder gets the next fencing number, so that a late acknowledgement of an earlier holder is refused.

    free        it has no holder; or its holder is gone, or has been silent past its time
    held        by one worker. Another worker with fewer leases may wish for it
    given up    because of a wish: for some seconds only the wishing worker may take it

Wall clocks decide nothing but how long others wait: a clock that jumps makes a lease change hands early or late, and
the fencing number keeps the position right in any case. No jump makes a worker wait for longer than a few leases: a
time that is further ahead was written under another clock, and does not count.

Rule of this file: it has no clock. Rows in, rows out; the caller brings the time, and the transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from reactdb.errors import LeaseLost
from reactdb.store.file.sqlite import Connection
from reactdb.store.positions import NamedPosition, find_position, read_parts, read_positions, write_position
from reactdb.store.transaction import WriteTransaction
from reactdb.values import codec
from reactdb.values.value import Value

CONSUMER = "consumer"
"""A position of this kind is a lease."""

# How often a worker without every lease checks for free ones, as a part of the time of a lease; so quickly it notices
# a dead process. A lease that was given up waits for twice that time.
LOOKS = 10


class Lease(Value):
    """One partition of a consumer. See the head of this file.

    Attributes:
        name: The consumer's.
        partition: From 0.
        partitions: How many there are.
        selection: A digest of the selection: equal for selections that are written alike.
        seq: Every change up to this seq is processed.
        fence: The fencing number of the present or the last holder.
        holder: The worker that holds the lease; None: free.
        until_ms: When the holder counts as hung, in milliseconds since 1970. For a lease that was given up: until
            when it is reserved for the worker in `wished_by`.
        lease_ms: For how long a holder may be silent.
        wished_by: The worker that would have it.
        attempts: How often the change `failing` has failed alone.
        failing: Seq of the change that fails; None where none does.
        error: The last failure.
        set_aside: How many changes were set aside.
    """

    __slots__ = (
        "attempts",
        "error",
        "failing",
        "fence",
        "holder",
        "lease_ms",
        "name",
        "partition",
        "partitions",
        "selection",
        "seq",
        "set_aside",
        "until_ms",
        "wished_by",
    )

    def __init__(
        self,
        name: str,
        partition: int,
        partitions: int,
        selection: str,
        seq: int,
        fence: int = 0,
        holder: str | None = None,
        until_ms: int = 0,
        lease_ms: int = 0,
        wished_by: str | None = None,
        attempts: int = 0,
        failing: int | None = None,
        error: str | None = None,
        set_aside: int = 0,
    ) -> None:
        self.name = name
        self.partition = partition
        self.partitions = partitions
        self.selection = selection
        self.seq = seq
        self.fence = fence
        self.holder = holder
        self.until_ms = until_ms
        self.lease_ms = lease_ms
        self.wished_by = wished_by
        self.attempts = attempts
        self.failing = failing
        self.error = error
        self.set_aside = set_aside

    # Changes by a worker, or by an administrator of the consumer

    def assign_to(self, worker: str, now_ms: int, lease_ms: int) -> Lease:
        """The worker has it, as the next holder."""
        return self.copy_with(
            fence=self.fence + 1,
            holder=worker,
            until_ms=now_ms + lease_ms,
            lease_ms=lease_ms,
            # The worker of an older wish has left by now, or wishes again.
            wished_by=None,
        )

    def extend(self, now_ms: int) -> Lease:
        """Extend the lease: the holder was alive just now."""
        return self.copy_with(until_ms=now_ms + self.lease_ms)

    def release(self, now_ms: int) -> Lease:
        """Free the lease. A worker that has wished for it comes first."""
        return self.copy_with(holder=None, until_ms=now_ms + 2 * self.lease_ms // LOOKS)

    def advance(self, seq: int) -> Lease:
        """Set the position: all changes up to `seq` are processed, and no failure is pending."""
        return self.copy_with(seq=seq, attempts=0, failing=None, error=None)

    def reset(self, seq: int, selection: str) -> Lease:
        """Begin again at `seq`. A present holder loses the lease."""
        return self.advance(seq).copy_with(
            selection=selection, fence=self.fence + 1, holder=None, until_ms=0, wished_by=None
        )

    def is_renewal_due(self, now_ms: int) -> bool:
        """Whether it is time to renew it. Also where it would last for longer than a lease does: the clock was ahead when it was
        renewed, and others count it as silent if nothing changes."""
        return not self.lease_ms // 2 < self.until_ms - now_ms <= self.lease_ms

    def waits_for(self, worker: str | None, now_ms: int) -> bool:
        """Whether the lease is reserved for this worker. False where the reservation would last longer than it ever
        should: the clock was ahead then, and the worker may have ended."""
        return worker is not None and 0 < self.until_ms - now_ms <= self.lease_ms

    def is_over(self, now_ms: int) -> bool:
        """Whether the holder's time is over, by the clock alone. Also where the end would be later than a lease can
        last: the clock was ahead at the last renewal."""
        return not 0 < self.until_ms - now_ms <= 2 * self.lease_ms


# ---------------------------------------------------------------------------------------------------------------
# The next steps of a worker


def next_leases(
    leases: Sequence[Lease],
    worker: str,
    now_ms: int,
    lease_ms: int,
    is_silent: Callable[[Lease], bool],
) -> Iterator[Lease]:
    """The leases that a worker changes now, in their new state: it gives up wished leases, renews half-used leases,
    and takes free leases. A worker with at least two leases fewer than another wishes for one.

    Args:
        leases: All of a consumer.
        is_silent: Whether the holder of a lease is gone, or hangs.
    """
    # How many each living worker has, and will have.
    held: Counter[str] = Counter({worker: 0})
    kept: list[Lease] = []
    for lease in leases:
        if lease.holder == worker:
            if lease.wished_by not in (None, worker):
                yield lease.release(now_ms)
                continue
            if lease.is_renewal_due(now_ms):
                yield lease.extend(now_ms)
            held[worker] += 1
        elif lease.holder is not None and not is_silent(lease):
            held[lease.holder] += 1
            kept.append(lease)
        elif (
            lease.holder is not None
            or lease.wished_by == worker
            or not lease.waits_for(lease.wished_by, now_ms)
        ):
            yield lease.assign_to(worker, now_ms, lease_ms)
            held[worker] += 1
    if any(lease.wished_by == worker for lease in leases):
        return
    (richest, most), *_ = held.most_common(1)
    if most > held[worker] + 1:
        wanted = next((one for one in kept if one.holder == richest and one.wished_by is None), None)
        if wanted is not None:
            yield wanted.copy_with(wished_by=worker)


# ---------------------------------------------------------------------------------------------------------------
# In the file


def read_lease(connection: Connection, name: str, partition: int) -> Lease | None:
    """The lease of a partition, or None where there is none.

    Raises:
        CorruptDatabase: The row does not match its checksum. All reads below raise it, too.
    """
    position = find_position(connection, CONSUMER, name, partition)
    return None if position is None else _decode_lease(position)


def read_leases(connection: Connection, name: str) -> list[Lease]:
    """All leases of a consumer, by partition; none where there is no such consumer."""
    return [_decode_lease(row) for row in read_parts(connection, CONSUMER, name)]


def read_all_leases(connection: Connection) -> list[Lease]:
    """The leases of all consumers, by name and partition."""
    return [_decode_lease(row) for row in read_positions(connection, CONSUMER)]


def read_held_leases(connection: Connection) -> list[Lease]:
    """The leases that a worker holds."""
    return [lease for lease in read_all_leases(connection) if lease.holder is not None]


def free_leases(transaction: WriteTransaction, leases: Iterable[Lease]) -> None:
    """Write these leases without their holders, in a copy of the database: the holders work on the original."""
    for lease in leases:
        write_lease(transaction, lease.copy_with(holder=None, wished_by=None, until_ms=0))


def write_lease(transaction: WriteTransaction, lease: Lease) -> None:
    """Write the lease in place of the stored one with this name and partition."""
    value = {
        "partitions": lease.partitions,
        "selection": lease.selection,
        "lease_ms": lease.lease_ms,
        "wished_by": lease.wished_by,
        "failing": lease.failing,
        "error": lease.error,
        "set_aside": lease.set_aside,
    }
    row = NamedPosition(
        CONSUMER,
        lease.name,
        lease.partition,
        position=lease.seq,
        fence=lease.fence,
        holder=lease.holder,
        leased=lease.until_ms,
        attempts=lease.attempts,
        value=codec.encode(value),
    )
    write_position(transaction, row)


def _decode_lease(row: NamedPosition) -> Lease:
    value: dict[str, Any] = codec.decode(row.value or b"")
    return Lease(
        row.name,
        row.part,
        seq=row.position or 0,
        fence=row.fence,
        holder=row.holder,
        until_ms=row.leased or 0,
        attempts=row.attempts,
        **value,
    )


def check_still_held(transaction: WriteTransaction, held: Lease) -> Lease:
    """Read the lease again, and check that its holder and its position are unchanged. Every write that depends on an
    earlier read of the lease calls this first, in the same transaction.

    Raises:
        LeaseLost: Another worker has the lease, or its position was moved.
    """
    lease = read_lease(transaction.connection, held.name, held.partition)
    if lease is None or (lease.fence, lease.holder, lease.seq) != (held.fence, held.holder, held.seq):
        raise LeaseLost(held.name, held.partition, held.fence, None if lease is None else lease.fence)
    return lease


def find_lowest_position(connection: Connection, oldest: int) -> tuple[int, str] | None:
    """The lowest position, from `oldest` on, from which a consumer has still to read the log, and the consumer's
    name; None: there is none."""
    return min(positions_from(connection, oldest), default=None)


def positions_from(connection: Connection, oldest: int) -> list[tuple[int, str]]:
    """The positions from `oldest` on from which consumers have still to read the log, each with the consumer's name. A consumer
    of several partitions has several."""
    needed = ((row.position, row.name) for row in read_positions(connection, CONSUMER))
    return [(seq, name) for seq, name in needed if seq is not None and seq >= oldest]
