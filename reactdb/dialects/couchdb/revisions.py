"""Stored revisions: the metadata of a document's entry, the hidden tables, and the write hook that writes both.

    the table itself          a live document: its winner. The entry's metadata is the winner's `Lineage`
    conflicts of TABLE        a row per live document with other leaves: these leaves, with their documents
    tombstones of TABLE       a row per deleted document: all its leaves
    ancestors of TABLE        older revisions of lineages, in chunks

A lineage is a revision and its nearest ancestors: CHUNK of them at most, so that an entry does not grow with history. At its end,
a multiple of CHUNK generations, the next chunk begins: a row whose key is the document's key and the newest revision in it. A
chunk is written once, by the edit that goes past it, and shared by all leaves above it.

The hook runs for every write of the table. The dialect passes `Revised` with its own writes. A native write is an edit of the
winner; a native deletion deletes every leaf, because natively the document is gone, and an unseen conflict must not take its
place.

Rule of this file: the hook's result depends on the earlier documents and revisions, and on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import md5
from typing import Any, Final, NamedTuple

from reactdb.change import DELETE, HiddenTable
from reactdb.dialects.couchdb.headers import NO_CONTROLS, is_header_text
from reactdb.dialects.couchdb.trees import Path, Rank, Rev, rank
from reactdb.errors import InvalidDocument
from reactdb.store.hooks import Derived, Draft, register_hook
from reactdb.values import codec, collation
from reactdb.values.blob import Blob

HOOK: Final = "couchdb.revisions"
OWNER: Final = "couchdb"
CHUNK: Final = 16
ATTACHMENTS: Final = "_attachments"

Beside = tuple[HiddenTable, bytes, bytes | None]
"""A row of a hidden table: its key, and its encoded document; None to delete it."""


KINDS: Final = ("conflicts", "tombstones", "ancestors", "local")
"""The hidden tables that belong to a table."""


def hidden_table(kind: str, table_id: int) -> HiddenTable:
    """The hidden table of this kind."""
    return HiddenTable(OWNER, f"{kind}-{table_id}")


# ---------------------------------------------------------------------------------------------------------------
# Lineages


class Lineage(NamedTuple):
    """A revision and its nearest ancestors.

    Attributes:
        start: The generation of the revision.
        ids: The hashes, newest first, down to the next multiple of CHUNK.
        link: The hash of the next ancestor; its chunk has it and the older ones; None if there is none.
        oldest: The lowest known generation.
    """

    start: int
    ids: tuple[str, ...]
    link: str | None
    oldest: int

    @property
    def rev(self) -> Rev:
        return Rev(self.start, self.ids[0])

    def data(self) -> list[Any]:
        """As it is kept."""
        return [self.start, list(map(_pack_hash, self.ids)), _pack_hash(self.link), self.oldest]

    def encode(self) -> bytes:
        return codec.encode_value(self.data())


class Chunk(NamedTuple):
    """Ancestors in a hidden table: the hashes from a generation down, and the hash of the next chunk."""

    ids: tuple[str, ...]
    link: str | None

    def document(self, key: Any, rev: Rev) -> bytes:
        packed = list(map(_pack_hash, self.ids))
        return codec.encode({"id": [key, str(rev)], "ids": packed, "link": _pack_hash(self.link)})


def _pack_hash(hash: str | None) -> bytes | str | None:
    """A hash of 32 hexadecimal digits as 16 bytes."""
    if hash is not None and len(hash) == 32:
        try:
            data = bytes.fromhex(hash)
        except ValueError:
            return hash
        return data if data.hex() == hash else hash
    return hash


def _unpack_hash(hash: bytes | str | None) -> str | None:
    return hash.hex() if type(hash) is bytes else hash  # type: ignore[return-value]


def lineage_of(data: list[Any] | tuple[Any, ...]) -> Lineage:
    start, ids, link, oldest = data
    return Lineage(start, tuple(map(_unpack_hash, ids)), _unpack_hash(link), oldest)  # type: ignore[arg-type]


def decode_lineage(meta: bytes) -> Lineage:
    """The lineage in an entry's metadata."""
    return lineage_of(codec.decode_value(meta))


def chunk_of(body: bytes) -> Chunk:
    row = codec.decode(body)
    return Chunk(tuple(map(_unpack_hash, row["ids"])), _unpack_hash(row["link"]))  # type: ignore[arg-type]


def chunk_key(key: Any, rev: Rev) -> bytes:
    return collation.key_bytes([key, str(rev)])


def split_path(path: Path) -> tuple[Lineage, list[tuple[Rev, Chunk]]]:
    """A path as it is kept: its lineage, and the chunks of older revisions."""
    ends: list[int] = list(range((path.start - 1) // CHUNK * CHUNK, path.oldest - 1, -CHUNK))
    parts = []
    above = path.start
    for end in [*ends, path.oldest - 1]:
        parts.append((above, path.ids[path.start - above : path.start - end]))
        above = end
    links = [part[1][0] for part in parts[1:] if part[1]]
    (start, ids), *rest = parts
    lineage = Lineage(start, ids, links[0] if links else None, path.oldest)
    chunks = [
        (Rev(top, hashes[0]), Chunk(hashes, links[place + 1] if place + 1 < len(links) else None))
        for place, (top, hashes) in enumerate(rest)
        if hashes
    ]
    return lineage, chunks


def join_path(lineage: Lineage, key: Any, chunk_at: Callable[[bytes], bytes | None], most: int) -> Path:
    """The path of a lineage: the newest `most` revisions of it. `chunk_at`: the encoded row of a chunk's key."""
    ids = list(lineage.ids)
    link = lineage.link
    known = min(most, lineage.start - lineage.oldest + 1)
    while link is not None and len(ids) < known:
        body = chunk_at(chunk_key(key, Rev(lineage.start - len(ids), link)))
        if body is None:
            break
        chunk = chunk_of(body)
        ids += chunk.ids
        link = chunk.link
    return Path(lineage.start, tuple(ids[:known]))


def child(lineage: Lineage, hash: str) -> tuple[Lineage, tuple[Rev, Chunk] | None]:
    """The lineage of a revision's child, and the chunk below it if the child begins a new one."""
    if lineage.start % CHUNK:
        return Lineage(lineage.start + 1, (hash, *lineage.ids), lineage.link, lineage.oldest), None
    left = lineage.rev, Chunk(lineage.ids, lineage.link)
    return Lineage(lineage.start + 1, (hash,), lineage.ids[0], lineage.oldest), left


# ---------------------------------------------------------------------------------------------------------------
# Hashes


def hash_of(
    fields: Mapping[str, Any] | None, primary_key: str, parent: Rev | None, *, is_deleted: bool = False
) -> str:
    """The hash of a revision: the same edit of the same parent has the same hash in every database.

    Args:
        fields: The document, as it is stored.
    """
    content = {} if fields is None else {name: fields[name] for name in fields if name != primary_key}
    attachments = content.get(ATTACHMENTS)
    if isinstance(attachments, dict):
        # Not when each was attached.
        content[ATTACHMENTS] = {
            name: {part: stub[part] for part in ("content_type", "digest") if part in stub}
            if isinstance(stub, dict)
            else stub
            for name, stub in attachments.items()
        }
    hashed = [is_deleted, None if parent is None else list(parent), codec.with_sorted_keys(content)]
    return md5(codec.encode_value(hashed), usedforsecurity=False).hexdigest()


def first_lineage(fields: Mapping[str, Any], primary_key: str) -> Lineage:
    """The lineage of a document from before its table had revisions."""
    return Lineage(1, (hash_of(fields, primary_key, None),), None, 1)


# ---------------------------------------------------------------------------------------------------------------
# Rows beside


class KeptLeaf(NamedTuple):
    """A leaf in a hidden table.

    Attributes:
        fields: Its document as it is stored natively, without the primary key.
    """

    lineage: Lineage
    is_deleted: bool
    fields: dict[str, Any]

    @property
    def rank(self) -> Rank:
        return rank(self.lineage.rev, self.is_deleted)


def decode_leaves(body: bytes | None) -> list[KeptLeaf]:
    """The leaves of a row beside."""
    if body is None:
        return []
    return [
        KeptLeaf(lineage_of(leaf["lineage"]), leaf["deleted"], leaf["fields"])
        for leaf in codec.decode(body)["leaves"]
    ]


def row_of(key: Any, leaves: Iterable[KeptLeaf]) -> bytes | None:
    """The row of these leaves; None if there are none."""
    ordered = sorted(leaves, key=lambda leaf: leaf.rank, reverse=True)
    if not ordered:
        return None
    kept = [
        {"lineage": leaf.lineage.data(), "deleted": leaf.is_deleted, "fields": leaf.fields}
        for leaf in ordered
    ]
    return codec.encode({"id": key, "leaves": kept})


# ---------------------------------------------------------------------------------------------------------------
# The hook


class Revised(NamedTuple):
    """The revision that the dialect passes with its own write."""

    lineage: Lineage
    beside: list[Beside]


def revisions(draft: Draft) -> Derived:
    """The write hook: the revision of a version, and the rows in hidden tables."""
    request = draft.asked
    if request is None:
        request = _native(draft)
    beside = [(draft.beside(table), key, body) for table, key, body in request.beside]
    return Derived(request.lineage.encode(), beside)


def _native(draft: Draft) -> Revised:
    """A write without a `Revised`: an edit of the winner."""
    primary_key = draft.table.primary_key
    conflicts, tombstones, ancestors = (hidden_table(kind, draft.table.id) for kind in KINDS[:3])
    beside: list[Beside] = []
    parent: Lineage | None = None
    is_deleted = draft.kind == DELETE
    if not is_deleted:
        _check_attachments(draft)
    if draft.old_bytes is None:
        others = _read_leaves(draft, tombstones)
        if others:
            parent = others.pop(0).lineage
            beside.append((tombstones, draft.key_bytes, None))
    else:
        others = _read_leaves(draft, conflicts)
        parent = (
            first_lineage(draft.old or {}, primary_key)
            if draft.old_meta is None
            else decode_lineage(draft.old_meta)
        )

    def edited(before: Lineage | None, fields: Mapping[str, Any] | None) -> Lineage:
        parent_rev = None if before is None else before.rev
        hash = hash_of(fields, primary_key, parent_rev, is_deleted=is_deleted)
        if before is None:
            return Lineage(1, (hash,), None, 1)
        lineage, left = child(before, hash)
        if left is not None:
            beside.append((ancestors, chunk_key(draft.key, left[0]), left[1].document(draft.key, left[0])))
        return lineage

    lineage = edited(parent, None if is_deleted else draft.new)
    # Another writer may have made the same edit, and sent it without its parent.
    leaves = {leaf.lineage.rev: leaf for leaf in others if leaf.lineage.rev != lineage.rev}
    if is_deleted:
        for leaf in [leaf for leaf in leaves.values() if not leaf.is_deleted]:
            del leaves[leaf.lineage.rev]
            tombstone = KeptLeaf(edited(leaf.lineage, None), True, {})
            leaves[tombstone.lineage.rev] = tombstone
        leaves[lineage.rev] = KeptLeaf(lineage, True, {})
        beside.append((tombstones, draft.key_bytes, row_of(draft.key, leaves.values())))
        if others:
            beside.append((conflicts, draft.key_bytes, None))
    elif len(leaves) < len(others) or (others and draft.old_bytes is None):
        beside.append((conflicts, draft.key_bytes, row_of(draft.key, leaves.values())))
    return Revised(lineage, beside)


def _check_attachments(draft: Draft) -> None:
    """
    Raises:
        InvalidDocument: A blob would become an attachment whose name or content type no header can have, and the document did not
            have it before.
    """
    for name, stub in _attachments(draft.new).items():
        if not isinstance(stub, dict) or not isinstance(stub.get("blob"), Blob):
            continue
        content_type = stub.get("content_type")
        what = "name"
        path: tuple[str, ...] = ATTACHMENTS, name
        if is_header_text(name):
            if not isinstance(content_type, str) or is_header_text(content_type):
                continue
            what, path = "content type", (ATTACHMENTS, name, "content_type")
        if _attachments(draft.old).get(name) != stub:
            raise InvalidDocument(f"the {what} of an attachment {NO_CONTROLS}", path)


def _attachments(fields: Mapping[str, Any] | None) -> dict[str, Any]:
    attachments = None if fields is None else fields.get(ATTACHMENTS)
    return attachments if isinstance(attachments, dict) else {}


def _read_leaves(draft: Draft, table: HiddenTable) -> list[KeptLeaf]:
    return decode_leaves(draft.read_document(draft.beside(table), draft.key_bytes))


register_hook(HOOK, revisions)
