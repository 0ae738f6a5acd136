"""Bookmark: how far somebody has been told, which is what a token says and where `since` goes on.

    Bookmark(seq)           everything up to this change; what is past it is in the log
    Bookmark(seq, inside)   of the initial values as of this change, those up to this place; the rest is read again as of then
    ANEW                    a part of what cannot be read again from its middle: an order with a limit, groups, a union, ...

The second is possible where initial values are read in the order of keys, or of an index, and told in it.

As text a token is `database id.epoch.seq`, and inside of initial values `database id.epoch.seq.inside`, where `inside` is
`order-key`, or for an index `order-value-key-tag`, in hexadecimal digits; without a place yet, `order` alone.

Rule of this file: a bookmark is never ahead of what was told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from reactdb.errors import HistoryDiverged, InvalidOption, shown
from reactdb.store.walk import Place

# A key and a value of an index are far shorter.
MOST_DIGITS = 20_000
INSIDE = r"[0-9a-f]{8}(-([0-9a-f]{2})+|-([0-9a-f]{2})+-([0-9a-f]{2})+-[0-9]{1,10})?"


class Inside(NamedTuple):
    """A place in the initial values.

    Attributes:
        order: Names what they are read in the order of. A place means something there and nowhere else.
        place: That of the last one that was told; None before the first.
    """

    order: str
    place: Place | None


class Bookmark(NamedTuple):
    """See the head of this file."""

    seq: int
    inside: Inside | None = None

    @property
    def suffix(self) -> str:
        """What the token has after the seq."""
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
"""No token leads to the rest, so there is none, and who comes back begins anew."""


def first_of(bookmarks: Iterable[Bookmark]) -> Bookmark:
    """The one that is ahead of none of them."""
    found = list(bookmarks)
    if len(found) == 1:
        return found[0]
    if any(one.inside is not None or one == ANEW for one in found):
        # One token for several, of which one is inside of its initial values, would have to name that one.
        return ANEW
    return Bookmark(min(one.seq for one in found))


def taken_apart(since: int | str) -> tuple[int | str, Inside | None]:
    """`since` as the position in the log, and the place in the initial values as of then; None for past them.

    Raises:
        InvalidOption: It is no token.
    """
    if isinstance(since, int) or since.count(".") != 3:
        return since, None
    token, _, text = since.rpartition(".")
    if len(text) > MOST_DIGITS or re.fullmatch(INSIDE, text) is None:
        raise no_token(since)
    order, *parts = text.split("-")
    if not parts:
        return token, Inside(order, None)
    if len(parts) == 1:
        return token, Inside(order, bytes.fromhex(parts[0]))
    value, key, tag = parts
    return token, Inside(order, (bytes.fromhex(value), bytes.fromhex(key), int(tag)))


def no_token(since: object) -> InvalidOption:
    return InvalidOption(f"since is a seq or a token of feed.token or db.token, not {shown(since)}")


def name_of_order(table_id: int, index_id: int | None, *, is_reversed: bool) -> str:
    """The name of an order of documents, which no other has: an index that was made anew has another id."""
    text = f"{table_id} {index_id} {is_reversed}"
    # Imported here because it takes as long as opening a file, and only a token in the middle of initial values has a checksum.
    from hashlib import blake2s

    return blake2s(text.encode("ascii"), digest_size=4).hexdigest()


def not_this_order() -> HistoryDiverged:
    return HistoryDiverged(
        "this token is inside the initial values of another query, or the index that they were read by was made anew: "
        "begin again with include_initial=True"
    )
