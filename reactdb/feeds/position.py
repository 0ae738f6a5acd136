"""Positions: how far a feed was delivered, as a seq within one process and as a token beyond it.

    Bookmark(seq)           everything up to this change; the rest is in the log
    Bookmark(seq, inside)   the initial values of this change's state, up to this sort key; the rest is read again
    ANEW                    a part of a result without a re-readable middle: an order with a limit, groups, a union, ...

The second is possible where initial values are read in the order of keys, or of an index, and are delivered in it.

As text a token is `database id.epoch.seq`, and inside of initial values `database id.epoch.seq.inside`, where
`inside` is `order-key`, or for an index `order-value-key-tag`, in hexadecimal digits; `order` alone before the first.
The token may be used with another file, or with a file whose newest commits were lost and written over; both are
detected, because a seq alone would silently have another meaning.

Rule of this file: a bookmark is never ahead of the delivered events, and a position is good or refused, never
guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from reactdb.errors import HistoryDiverged, HistoryLost, InvalidOption, format_value
from reactdb.store.engine import Engine
from reactdb.store.epochs import end_of
from reactdb.store.log import read_low_water
from reactdb.store.snapshot import Snapshot
from reactdb.store.walk import Place

# A key and a value of an index are far shorter.
MOST_DIGITS = 20_000
INSIDE = r"[0-9a-f]{8}(-([0-9a-f]{2})+|-([0-9a-f]{2})+-([0-9a-f]{2})+-[0-9]{1,10})?"


class Inside(NamedTuple):
    """A position in the initial values.

    Attributes:
        order: The name of the reading order. A place is valid in that order only.
        place: The place of the last delivered value; None before the first.
    """

    order: str
    place: Place | None


class Bookmark(NamedTuple):
    """How far a feed was delivered: see the head of this file."""

    seq: int
    inside: Inside | None = None

    @property
    def suffix(self) -> str:
        """The part of the token after the seq."""
        if self.inside is None:
            return ""
        order, place = self.inside
        if place is None:
            return f".{order}"
        if isinstance(place, bytes):
            return f".{order}-{place.hex()}"
        value, key, tag = place
        return f".{order}-{value.hex()}-{key.hex()}-{tag}"


ANEW = Bookmark(-1)
"""No token leads to the rest, so there is none, and a feed that resumes begins from the start."""


def find_first(bookmarks: Iterable[Bookmark]) -> Bookmark:
    """The bookmark that is ahead of none of the others."""
    positions = list(bookmarks)
    if len(positions) == 1:
        return positions[0]
    if any(one.inside is not None or one == ANEW for one in positions):
        # A common token for several feeds, with one inside of its initial values, would have to name that feed.
        return ANEW
    return Bookmark(min(one.seq for one in positions))


def parse_since(since: int | str) -> tuple[int | str, Inside | None]:
    """`since` as the position in the log, and the place in the initial values as of then; None for past them.

    Raises:
        InvalidOption: It is no token.
    """
    if isinstance(since, int) or since.count(".") != 3:
        return since, None
    token, _, text = since.rpartition(".")
    if len(text) > MOST_DIGITS or re.fullmatch(INSIDE, text) is None:
        raise not_a_token_error(since)
    order, *parts = text.split("-")
    if not parts:
        return token, Inside(order, None)
    if len(parts) == 1:
        return token, Inside(order, bytes.fromhex(parts[0]))
    value, key, tag = parts
    return token, Inside(order, (bytes.fromhex(value), bytes.fromhex(key), int(tag)))


def not_a_token_error(since: object) -> InvalidOption:
    return InvalidOption(f"since is a seq or a token of feed.token or db.token, not {format_value(since)}")


def name_of_order(table_id: int, index_id: int | None, *, is_reversed: bool) -> str:
    """The name of an order of documents, unique in the file: an index that was dropped and made again has another
    id."""
    text = f"{table_id} {index_id} {is_reversed}"
    # Imported here because it takes as long as opening a file, and only a token in the middle of initial values has a checksum.
    from hashlib import blake2s

    return blake2s(text.encode("ascii"), digest_size=4).hexdigest()


def other_order_error() -> HistoryDiverged:
    return HistoryDiverged(
        "this token is inside the initial values of another query, or their index was dropped and made again: "
        "begin again with include_initial=True"
    )


def resolve_since(since: int | str, engine: Engine, snapshot: Snapshot) -> int:
    """The seq that `since` names in this file; inside of initial values, the seq of their snapshot.

    Raises:
        InvalidOption: It is no token.
        HistoryDiverged: The position belongs to another file, or to a future that this file does not have.
        HistoryLost: The changes past it were compacted away.
    """
    since, _ = parse_since(since)
    oldest = read_low_water(snapshot.connection)
    seq = since if isinstance(since, int) else _read_token(since, engine, snapshot, oldest)
    head = snapshot.seq
    if seq > head:
        raise HistoryDiverged(
            f"there is no position {format_value(seq)} in this history: its newest change has seq {head}"
        )
    if seq < oldest:
        raise HistoryLost(seq, oldest + 1)
    return seq


def _read_token(token: str, engine: Engine, snapshot: Snapshot, oldest: int) -> int:
    parts = token.split(".")
    # No seq has more than 19 digits, and Python converts no more than some thousand of them.
    if (
        len(parts) != 3
        or not all(parts)
        # SQLite is given no half of a surrogate pair, and there are digits beyond ASCII.
        or not token.isascii()
        or not parts[2].isdecimal()
        or len(parts[2]) > 19
    ):
        raise not_a_token_error(token)
    database, name, number = parts
    if database != engine.database_id:
        raise HistoryDiverged("this token is of another database")
    seq = int(number)
    is_known, end = end_of(snapshot.connection, name)
    # An epoch that ended before the log begins has been removed with its changes, and the position is too old in any case.
    if not is_known and seq >= oldest:
        raise HistoryDiverged("this token is of a stretch of history that this file does not have")
    if end is not None and seq > end:
        raise HistoryDiverged(f"position {seq} was lost: this history went on from seq {end} without it")
    return seq
