"""Revision trees: revisions, the paths to them, what a graft does to a tree, and which leaf wins.

    Rev(3, "c")                   a revision, `3-c`
    Path(3, ("c", "b", "a"))      the same with what is known of its ancestors, newest first
    graft(leaves, leaf)           the leaves of the tree after a path was added
    ranked(leaves)                the leaves, first the one that everybody sees

A tree is its leaves, each with its path. Paths may end before generation 1, where nobody knows more. What one path tells of an
ancestor holds for all paths that have this ancestor. So the same grafts give the same tree in any order, provided that a revision
has one parent; a revision that is a hash of its parent has.

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
    """Whether it can be the hash of a revision in a path: any text that is not empty."""
    return isinstance(text, str) and text != "" and _HASH.fullmatch(text) is not None


def normal_hash(text: str) -> str:
    """A hash as it is kept: one of 32 hexadecimal digits in lower case, as CouchDB has it, any other text as it is."""
    return text.lower() if _HEX.fullmatch(text) else text


class Path(NamedTuple):
    """A revision and its ancestors.

    Attributes:
        start: Its generation.
        ids: Its hash, that of its parent, and so on, as far as is known; never empty.
    """

    start: int
    ids: tuple[str, ...]

    @property
    def rev(self) -> Rev:
        return Rev(self.start, self.ids[0])

    @property
    def oldest(self) -> int:
        """The lowest generation that is known."""
        return self.start - len(self.ids) + 1

    def has(self, rev: Rev) -> bool:
        """Whether the revision is this one, or an ancestor."""
        return (
            self.oldest <= rev.generation <= self.start and self.ids[self.start - rev.generation] == rev.hash
        )

    def newest_of(self, revs: Iterable[Rev]) -> int | None:
        """The generation of the newest of these revisions that is this one or an ancestor; None where none is."""
        return max((rev.generation for rev in revs if self.has(rev)), default=None)

    def revs(self) -> list[Rev]:
        """All of them, newest first."""
        return [Rev(self.start - place, one) for place, one in enumerate(self.ids)]

    def stemmed(self, limit: int) -> Path:
        """With the newest `limit` of its revisions."""
        return self if len(self.ids) <= limit else Path(self.start, self.ids[:limit])

    def deepened(self, other: Path) -> Path:
        """With the ancestors that the other path tells of a revision that both have."""
        if other.oldest >= self.oldest:
            return self
        for generation in range(min(self.start, other.start), self.oldest - 1, -1):
            if self.ids[self.start - generation] == other.ids[other.start - generation]:
                return Path(self.start, self.ids + other.ids[other.start - self.oldest + 1 :])
        return self


class Leaf(NamedTuple):
    """A revision without children.

    Attributes:
        content: What the revision holds, for whoever keeps it.
    """

    path: Path
    is_deleted: bool
    content: Any = None

    @property
    def rank(self) -> Rank:
        """The greatest wins."""
        return rank(self.path.rev, self.is_deleted)


Rank = tuple[bool, int, bytes, str]
"""What leaves are ordered by: see `rank`."""


def rank(rev: Rev, is_deleted: bool) -> Rank:
    """What leaves are ordered by: what is alive wins over what is deleted, more edits over fewer, then the greater hash.

    CouchDB keeps a hash of 32 hexadecimal digits as the 16 bytes that they are, and any other as its text, and compares the
    bytes: `aa...` begins with byte 170, and so is above a hash that begins with the letter z, which is byte 122. A text of just
    those 16 bytes, which CouchDB takes for the same hash, comes after it.
    """
    kept = bytes.fromhex(rev.hash) if _HEX.fullmatch(rev.hash) else rev.hash.encode()
    return not is_deleted, rev.generation, kept, rev.hash


def ranked(leaves: Iterable[Leaf]) -> list[Leaf]:
    """The leaves, the winner first."""
    return sorted(leaves, key=lambda leaf: leaf.rank, reverse=True)


def graft(leaves: Sequence[Leaf], new: Leaf) -> list[Leaf] | None:
    """The leaves of a tree after a path was added to it; None where the tree stays as it is.

    A revision that is known, as a leaf or as an ancestor of one, is not added; but what its path tells of ancestors is.
    """
    path = new.path
    for leaf in leaves:
        path = path.deepened(leaf.path)
    found = [leaf._replace(path=leaf.path.deepened(path)) for leaf in leaves]
    grown = [leaf for leaf, before in zip(found, leaves, strict=True) if leaf.path is not before.path]
    if not any(leaf.path.has(path.rev) for leaf in found):
        found.append(new._replace(path=path))
        grown.append(found[-1])
    # What was a leaf may be an ancestor now, of one of those that tell more than before.
    found = [
        leaf
        for leaf in found
        if not any(other is not leaf and other.path.has(leaf.path.rev) for other in grown)
    ]
    return None if found == list(leaves) else found


def missing(leaves: Sequence[Leaf], revs: Iterable[Rev]) -> list[Rev]:
    """Those revisions that the tree does not know, each once, in their order."""
    return [rev for rev in dict.fromkeys(revs) if not any(leaf.path.has(rev) for leaf in leaves)]
