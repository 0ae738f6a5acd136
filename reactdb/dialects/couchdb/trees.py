"""Revision trees: revisions, their paths, the effect of a graft on a tree, and the choice of the winner.

    Rev(3, "c")                   a revision, `3-c`
    Path(3, ("c", "b", "a"))      the same with its known ancestors, newest first
    graft(leaves, leaf)           the leaves of the tree after a path was added
    ranked(leaves)                the leaves, the winner first

A tree is its leaves, each with its path. A path may end before generation 1, if older ancestors are unknown. If one path knows
more ancestors of a shared revision, all paths through this revision get them. So the same grafts give the same tree in any order,
provided that a revision has only one parent; a hash of the parent ensures that.

Rule of this file: pure functions of values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from reactdb.dialects.couchdb.errors import CouchError

_HEX: Final = re.compile(r"[0-9a-fA-F]{32}", re.ASCII)
# UTF-8 cannot carry half of a surrogate pair.
_HASH: Final = re.compile(r"[^\ud800-\udfff]*")
_REV: Final = re.compile(rf"([0-9]{{1,18}})-({_HASH.pattern})", re.ASCII)


class Rev(NamedTuple):
    """A revision: how many edits led to it, and its hash, which is any text."""

    generation: int
    hash: str

    def __str__(self) -> str:
        return f"{self.generation}-{self.hash}"


def parse_rev(text: object) -> Rev:
    """
    Raises:
        CouchError: 400, it is no revision.
    """
    match = _REV.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise CouchError(400, "bad_request", "Invalid rev format")
    return Rev(int(match[1]), normal_hash(match[2]))


def is_hash(text: object) -> bool:
    """Whether it can be the hash of a revision in a path: any non-empty text."""
    return isinstance(text, str) and text != "" and _HASH.fullmatch(text) is not None


def normal_hash(text: str) -> str:
    """The stored form of a hash: 32 hexadecimal digits in lower case, as in CouchDB; any other text unchanged."""
    return text.lower() if _HEX.fullmatch(text) else text


class Path(NamedTuple):
    """A revision and its ancestors.

    Attributes:
        start: Its generation.
        ids: Its hash, its parent's hash, and so on, as far as they are known; never empty.
    """

    start: int
    ids: tuple[str, ...]

    @property
    def rev(self) -> Rev:
        return Rev(self.start, self.ids[0])

    @property
    def oldest(self) -> int:
        """The lowest known generation."""
        return self.start - len(self.ids) + 1

    def has(self, rev: Rev) -> bool:
        """Whether the revision or an ancestor equals `rev`."""
        return (
            self.oldest <= rev.generation <= self.start and self.ids[self.start - rev.generation] == rev.hash
        )

    def newest_of(self, revs: Iterable[Rev]) -> int | None:
        """The highest generation of these revisions on the path; None if none is on it."""
        return max((rev.generation for rev in revs if self.has(rev)), default=None)

    def revs(self) -> list[Rev]:
        """All of them, newest first."""
        return [Rev(self.start - place, one) for place, one in enumerate(self.ids)]

    def stem_to(self, limit: int) -> Path:
        """With the newest `limit` of its revisions."""
        return self if len(self.ids) <= limit else Path(self.start, self.ids[:limit])

    def deepen(self, other: Path) -> Path:
        """The path with further ancestors of a shared revision from the other path."""
        if other.oldest >= self.oldest:
            return self
        for generation in range(min(self.start, other.start), self.oldest - 1, -1):
            if self.ids[self.start - generation] == other.ids[other.start - generation]:
                return Path(self.start, self.ids + other.ids[other.start - self.oldest + 1 :])
        return self


class Leaf(NamedTuple):
    """A revision without children.

    Attributes:
        content: The caller's data for the revision.
    """

    path: Path
    is_deleted: bool
    content: Any = None

    @property
    def rank(self) -> Rank:
        """The greatest wins."""
        return rank(self.path.rev, self.is_deleted)


Rank = tuple[bool, int, bytes, str]
"""The sort key of leaves: see `rank`."""


def rank(rev: Rev, is_deleted: bool) -> Rank:
    """The order of leaves: live wins over deleted, more edits over fewer, then the greater hash.

    CouchDB stores a hash of 32 hexadecimal digits as 16 bytes, any other as its text, and compares the bytes: `aa...` begins with
    byte 170, and so is above a hash with the first letter z, which is byte 122. CouchDB takes a text of exactly these 16 bytes
    for the same hash; here it comes after.
    """
    kept = bytes.fromhex(rev.hash) if _HEX.fullmatch(rev.hash) else rev.hash.encode()
    return not is_deleted, rev.generation, kept, rev.hash


def rank_leaves(leaves: Iterable[Leaf]) -> list[Leaf]:
    """The leaves, the winner first."""
    return sorted(leaves, key=lambda leaf: leaf.rank, reverse=True)


def graft(leaves: Sequence[Leaf], new: Leaf) -> list[Leaf] | None:
    """The leaves of a tree after a path was added to it; None where the tree stays as it is.

    A known revision, a leaf or an ancestor, is not added; but further ancestors from its path are.
    """
    path = new.path
    for leaf in leaves:
        path = path.deepen(leaf.path)
    merged = [leaf._replace(path=leaf.path.deepen(path)) for leaf in leaves]
    grown = [leaf for leaf, before in zip(merged, leaves, strict=True) if leaf.path is not before.path]
    if not any(leaf.path.has(path.rev) for leaf in merged):
        merged.append(new._replace(path=path))
        grown.append(merged[-1])
    # An earlier leaf may be an ancestor now, of a leaf with a longer path.
    merged = [
        leaf
        for leaf in merged
        if not any(other is not leaf and other.path.has(leaf.path.rev) for other in grown)
    ]
    return None if merged == list(leaves) else merged


def missing_revisions(leaves: Sequence[Leaf], revs: Iterable[Rev]) -> list[Rev]:
    """The revisions that are not in the tree, each once, in their order."""
    return [rev for rev in dict.fromkeys(revs) if not any(leaf.path.has(rev) for leaf in leaves)]
