"""States: a document with all its leaves, as it is read from the table and the rows beside, and how another state is written.

    load(heads, tables, key)            a document's `State`; None if it never existed
    load_many, states_of                the same for many keys, and for entries of the log
    Editor(transaction, tables)         edits of documents inside one transaction
        .edit(...)                      a child of a leaf, for an interactive write
        .add(...)                       a revision from elsewhere with its ancestors, grafted on the tree

The leaf that wins after an edit is put into the table, as an ordinary change; the other leaves are in hidden tables. If the
winner stays, the table has no new entry.

Rule of this file: it knows leaves and where they lie, and no JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from reactdb.change import DELETE, INSERT, REPLACE, Change
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.revisions import (
    ATTACHMENTS,
    KINDS,
    Beside,
    Chunk,
    KeptLeaf,
    Lineage,
    Revised,
    child,
    chunk_key,
    chunk_of,
    decode_leaves,
    decode_lineage,
    first_lineage,
    hash_of,
    hidden_table,
    join_path,
    row_of,
    split_path,
)
from reactdb.dialects.couchdb.trees import Leaf, Path, Rev, graft
from reactdb.errors import DuplicateIndexKey, InvalidDocument
from reactdb.store.catalogue import Catalogue, TableInfo
from reactdb.store.log import read_meta
from reactdb.store.newest import read_newest_of_keys
from reactdb.store.snapshot import Snapshot, read_document
from reactdb.store.transaction import WriteTransaction
from reactdb.values import codec, collation

T = TypeVar("T")


class Tables(NamedTuple):
    """A database's table and its hidden tables; None if a read-only file lacks them."""

    main: TableInfo
    conflicts: TableInfo | None
    tombstones: TableInfo | None
    ancestors: TableInfo | None
    local: TableInfo | None

    @property
    def watched(self) -> list[TableInfo]:
        """The tables whose changes `_changes` returns."""
        return [table for table in self[:3] if table is not None]


def tables_of(catalogue: Catalogue, table_id: int) -> Tables | None:
    """The tables of a database as a catalogue has them; None where it was dropped."""
    main = catalogue.by_id.get(table_id)
    if main is None or catalogue.live.get(main.reference) is not main:
        return None
    return Tables(main, *(catalogue.live.get(hidden_table(kind, table_id)) for kind in KINDS))


class HeadSource(Protocol):
    """Where documents are read: a write transaction, or a snapshot."""

    def head(self, table: TableInfo, key: bytes) -> tuple[int, bytes] | None: ...

    def meta_of(self, seq: int) -> bytes | None: ...


class SnapshotHeads:
    """The documents of a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def head(self, table: TableInfo, key: bytes) -> tuple[int, bytes] | None:
        return read_document(self._snapshot.connection, table, key)

    def meta_of(self, seq: int) -> bytes | None:
        return read_meta(self._snapshot.connection, self._snapshot.catalogue, seq)

    def newest(self, table: TableInfo | None, keys: Iterable[bytes]) -> dict[bytes, Change]:
        """The newest entries of many keys; of no table, none."""
        return {} if table is None else read_newest_of_keys(self._snapshot, table, keys)


class State:
    """A document with all its leaves.

    Attributes:
        seq: Of its newest change, of any leaf.
        body: The winner's document, encoded; None for a deleted document.
        main: (seq, body) of the table's own entry; None for a deleted document.
        lineage: The winner's lineage.
        others: The other leaves, the greatest first; all leaves if the document is deleted.
    """

    __slots__ = ("body", "key_bytes", "lineage", "main", "others", "primary_key", "seq")

    def __init__(
        self,
        primary_key: str,
        key_bytes: bytes,
        seq: int,
        main: tuple[int, bytes] | None,
        lineage: Lineage,
        others: list[KeptLeaf],
    ) -> None:
        self.primary_key = primary_key
        self.key_bytes = key_bytes
        self.seq = seq
        self.main = main
        self.body = None if main is None else main[1]
        self.lineage = lineage
        self.others = others

    @property
    def is_deleted(self) -> bool:
        return self.main is None

    @property
    def rev(self) -> Rev:
        """The winner's."""
        return self.lineage.rev

    @property
    def winner(self) -> KeptLeaf:
        if self.body is None:
            return self.others[0]
        return KeptLeaf(self.lineage, False, fields_of(self.body, self.primary_key))

    @property
    def leaves(self) -> list[KeptLeaf]:
        """All, the winner first."""
        return self.others if self.body is None else [self.winner, *self.others]

    def revs(self) -> list[tuple[Rev, bool]]:
        """The revisions of the leaves, and whether each is deleted, the winner first."""
        beside = [(leaf.lineage.rev, leaf.is_deleted) for leaf in self.others]
        return beside if self.body is None else [(self.rev, False), *beside]


def fields_of(body: bytes, primary_key: str) -> dict[str, Any]:
    fields = codec.decode(body)
    fields.pop(primary_key, None)
    return fields


def load(heads: HeadSource, tables: Tables, key: bytes) -> State | None:
    """The document of a key; None if it never existed."""
    main = heads.head(tables.main, key)
    if main is None:
        beside = None if tables.tombstones is None else heads.head(tables.tombstones, key)
        if beside is None:
            return None
        others = decode_leaves(beside[1])
        return State(tables.main.primary_key, key, beside[0], None, others[0].lineage, others)
    beside = None if tables.conflicts is None else heads.head(tables.conflicts, key)
    return _alive(tables, key, main, heads.meta_of(main[0]), beside)


def load_many(heads: SnapshotHeads, tables: Tables, keys: Sequence[bytes]) -> dict[bytes, State]:
    """The documents of these keys, also deleted ones, by key: in a few statements."""
    alive = heads.newest(tables.main, keys)
    states = {state.key_bytes: state for state in _all_alive(heads, tables, alive.values())}
    deleted = heads.newest(tables.tombstones, (key for key in keys if key not in alive))
    for key, change in deleted.items():
        others = decode_leaves(change.new_bytes)
        states[key] = State(tables.main.primary_key, key, change.seq, None, others[0].lineage, others)
    return states


def states_of(heads: SnapshotHeads, tables: Tables, changes: Sequence[Change]) -> list[State]:
    """The documents of log entries, in their order. Each entry is the newest of its key in one of the tables."""
    alive = [change for change in changes if change.table_id == tables.main.id]
    by_seq = {
        change.seq: state for change, state in zip(alive, _all_alive(heads, tables, alive), strict=True)
    }
    beside = [change.key_bytes for change in changes if change.seq not in by_seq]
    loaded = load_many(heads, tables, beside) if beside else {}
    states = (by_seq.get(change.seq) or loaded.get(change.key_bytes) for change in changes)
    return [state for state in states if state is not None]


def _all_alive(heads: SnapshotHeads, tables: Tables, changes: Collection[Change]) -> Iterator[State]:
    """The documents of newest entries of the table itself."""
    conflicts = heads.newest(tables.conflicts, (change.key_bytes for change in changes))
    for change in changes:
        other = conflicts.get(change.key_bytes)
        beside = None if other is None or other.new_bytes is None else (other.seq, other.new_bytes)
        assert change.new_bytes is not None
        yield _alive(tables, change.key_bytes, (change.seq, change.new_bytes), change.meta, beside)


def _alive(
    tables: Tables, key: bytes, main: tuple[int, bytes], meta: bytes | None, beside: tuple[int, bytes] | None
) -> State:
    seq = main[0] if beside is None else max(main[0], beside[0])
    others = decode_leaves(None if beside is None else beside[1])
    return State(tables.main.primary_key, key, seq, main, lineage_of_entry(tables, main[1], meta), others)


def lineage_of_entry(tables: Tables, body: bytes, meta: bytes | None) -> Lineage:
    """The lineage of an entry of the table itself."""
    if meta is None:
        return first_lineage(codec.decode(body), tables.main.primary_key)
    return decode_lineage(meta)


def path_of(heads: HeadSource, tables: Tables, key: bytes, lineage: Lineage, most: int) -> Path:
    """The newest `most` revisions of a lineage."""
    if lineage.link is None:
        # Nothing lies beside.
        return Path(lineage.start, lineage.ids[: min(most, lineage.start - lineage.oldest + 1)])

    def chunk_at(place: bytes) -> bytes | None:
        if tables.ancestors is None:
            return None
        head = heads.head(tables.ancestors, place)
        return None if head is None else head[1]

    return join_path(lineage, collation.key_value(key), chunk_at, most)


def earlier(snapshot: Snapshot, tables: Tables, key: bytes) -> Iterator[KeptLeaf]:
    """Every revision of a document that the log still has, the newest of each table first; some occur more than once."""
    for change in snapshot.history(tables.main, key):
        if change.new_bytes is not None:
            lineage = lineage_of_entry(tables, change.new_bytes, change.meta)
            yield KeptLeaf(lineage, False, fields_of(change.new_bytes, tables.main.primary_key))
    for beside in (tables.conflicts, tables.tombstones):
        if beside is not None:
            for change in snapshot.history(beside, key):
                yield from decode_leaves(change.new_bytes)


# ---------------------------------------------------------------------------------------------------------------
# Edits


Fill = Callable[[Sequence[KeptLeaf], int], dict[str, Any]]
"""Returns the fields of a new revision, from the leaves that may have its attachments, the nearest first, and its generation."""


class PreparedRevision(NamedTuple):
    """A new revision, computed before a lock is taken.

    Attributes:
        fields: The result of `Fill`.
        parent: The edited revision; None for a new document.
        hash: Its own hash, if `parent` is its parent; None if it is not needed.
        body: Its document, encoded; None if it is deleted.
    """

    fields: dict[str, Any]
    parent: Rev | None
    hash: str | None
    body: bytes | None


def prepare(
    fields: dict[str, Any],
    primary_key: str,
    key: Any,
    parent: Rev | None,
    *,
    is_edit: bool,
    is_deleted: bool,
) -> PreparedRevision:
    """
    Raises:
        CouchError: 413, it cannot be stored: it is too large, or nested too deep.
    """
    hash = (
        within_size(lambda: hash_of(fields, primary_key, parent, is_deleted=is_deleted)) if is_edit else None
    )
    body = None if is_deleted else encode_document({primary_key: key, **fields})
    return PreparedRevision(fields, parent, hash, body)


def conflict() -> CouchError:
    return CouchError(409, "conflict", "Document update conflict.")


class Editor:
    """Edits of a database's documents inside one transaction."""

    def __init__(self, transaction: WriteTransaction, tables: Tables, revs_limit: int) -> None:
        self._transaction = transaction
        self._tables = tables
        self._revs_limit = revs_limit
        # The documents from `load_all` that were not written since.
        self._loaded: dict[bytes, State | None] = {}

    def load(self, key: bytes) -> State | None:
        if key in self._loaded:
            return self._loaded[key]
        return load(self._transaction, self._tables, key)

    def load_all(self, keys: Sequence[bytes]) -> None:
        """Read many documents before their edits: a few statements in place of two per document."""
        states = load_many(SnapshotHeads(self._transaction.snapshot()), self._tables, keys)
        self._loaded = {key: states.get(key) for key in keys}

    def edit(
        self,
        key: bytes,
        parent: Rev | None,
        fill: Fill,
        *,
        is_deleted: bool,
        prepared: PreparedRevision | None = None,
    ) -> Rev:
        """Make a child of a leaf, or a new document.

        Args:
            parent: The revision of a live leaf; None for a missing or deleted document.
            prepared: For the same fields as the result of `fill`.

        Raises:
            CouchError: 409, there is no such leaf, or the document exists; errors of `fill`.
        """
        state = self.load(key)
        leaves = [] if state is None else state.leaves
        before: KeptLeaf | None = None
        if parent is not None:
            before = next(
                (leaf for leaf in leaves if leaf.lineage.rev == parent and not leaf.is_deleted), None
            )
            if before is None:
                raise conflict()
        elif state is not None:
            if not state.is_deleted:
                raise conflict()
            before = leaves[0]
        generation = 1 if before is None else before.lineage.start + 1
        fields = fill([] if before is None else [before], generation)
        primary_key = self._tables.main.primary_key
        parent_rev = None if before is None else before.lineage.rev
        if prepared is not None and prepared.hash is not None and prepared.parent == parent_rev:
            hash = prepared.hash
        else:
            hash = within_size(lambda: hash_of(fields, primary_key, parent_rev, is_deleted=is_deleted))
        chunks: list[tuple[Rev, Chunk]] = []
        first = Lineage(1, (hash,), None, 1)
        lineage = first if before is None else self._child(before.lineage, hash, chunks)
        others = [leaf for leaf in leaves if leaf is not before]
        if any(leaf.lineage.oldest == lineage.start for leaf in others):
            # Another path begins with this generation, perhaps with this very revision: another writer has made the same edit.
            path = self._path(key, before, lineage)
            grafted = self._graft(key, leaves, path, lambda *_: fields, is_deleted, chunks)
            if grafted is not None:
                self._write(key, state, grafted, chunks, prepared)
        else:
            new = KeptLeaf(lineage, is_deleted, fields)
            self._write(key, state, [*others, new], chunks, prepared)
        return lineage.rev

    def add(
        self,
        key: bytes,
        path: Path,
        fill: Fill,
        *,
        is_deleted: bool,
        prepared: PreparedRevision | None = None,
    ) -> bool:
        """Graft a revision with its ancestors on the document's tree. Whether the tree has changed.

        Args:
            prepared: For the same fields as the result of `fill`.

        Raises:
            Errors of `fill`.
        """
        path = path.stem_to(self._revs_limit)
        state = self.load(key)
        leaves = [] if state is None else state.leaves
        same = next((leaf for leaf in leaves if leaf.lineage.rev == path.rev), None)
        if same is not None and same.lineage.oldest <= path.oldest:
            return False
        chunks: list[tuple[Rev, Chunk]] = []
        if len(path.ids) > 1:
            parent = Rev(path.start - 1, path.ids[1])
            before = next((leaf for leaf in leaves if leaf.lineage.rev == parent), None)
            # A path that begins with this generation may begin with this revision.
            is_joining = any(leaf.lineage.oldest == path.start for leaf in leaves)
            if before is not None and before.lineage.oldest <= path.oldest and not is_joining:
                # The usual case: no ancestor has to be read, and the path adds nothing to the tree's knowledge.
                fields = fill([before], path.start)
                new = KeptLeaf(self._child(before.lineage, path.ids[0], chunks), is_deleted, fields)
                others = [leaf for leaf in leaves if leaf is not before]
                self._write(key, state, [*others, new], chunks, prepared)
                return True
        grafted = self._graft(key, leaves, path, fill, is_deleted, chunks)
        if grafted is None:
            return False
        self._write(key, state, grafted, chunks, prepared)
        return True

    def purge(self, key: bytes, revs: Sequence[Rev]) -> list[Rev]:
        """Remove leaves from the tree, with the ancestors that no other leaf has. Returns the removed leaves."""
        state = self.load(key)
        if state is None:
            return []
        gone = [leaf.lineage.rev for leaf in state.leaves if leaf.lineage.rev in revs]
        if gone:
            self._write(key, state, [leaf for leaf in state.leaves if leaf.lineage.rev not in gone], [])
        return gone

    def _path(self, key: bytes, before: KeptLeaf | None, lineage: Lineage) -> Path:
        """The path of a leaf's child, before the leaf's chunk is written."""
        if before is None:
            return Path(lineage.start, lineage.ids)
        path = path_of(self._transaction, self._tables, key, before.lineage, self._revs_limit)
        return Path(lineage.start, (lineage.ids[0], *path.ids))

    def _child(self, lineage: Lineage, hash: str, chunks: list[tuple[Rev, Chunk]]) -> Lineage:
        next_lineage, left = child(lineage, hash)
        if left is not None:
            chunks.append(left)
        return next_lineage

    def _graft(
        self,
        key: bytes,
        leaves: list[KeptLeaf],
        path: Path,
        fill: Fill,
        is_deleted: bool,
        chunks: list[tuple[Rev, Chunk]],
    ) -> list[KeptLeaf] | None:
        """The leaves of the tree with a path; None where nothing changes."""
        if all(self._is_apart(leaf, path) for leaf in leaves):
            # The usual conflict. With many leaves, to compare all paths takes most of the time.
            lineage, older = split_path(path.stem_to(self._revs_limit))
            chunks += older
            return [*leaves, KeptLeaf(lineage, is_deleted, fill([], path.start))]
        paths = [
            path_of(self._transaction, self._tables, key, leaf.lineage, self._revs_limit) for leaf in leaves
        ]
        tree = [
            Leaf(one, leaf.is_deleted, place)
            for place, (one, leaf) in enumerate(zip(paths, leaves, strict=True))
        ]
        grafted = graft(tree, Leaf(path, is_deleted, len(leaves)))
        if grafted is None:
            return None
        kept = []
        for leaf in grafted:
            if leaf.content < len(leaves) and leaf.path == paths[leaf.content]:
                kept.append(leaves[leaf.content])
                continue
            lineage, older = split_path(leaf.path.stem_to(self._revs_limit))
            chunks += older
            if leaf.content < len(leaves):
                kept.append(leaves[leaf.content]._replace(lineage=lineage))
            else:
                # Attachments may come from any leaf: the nearest leaf shares an ancestor with the new revision.
                near = sorted(
                    (place for place, one in enumerate(leaves) if ATTACHMENTS in one.fields),
                    key=lambda place: -sum(map(paths[place].has, path.revs()[:64])),
                )
                fields = fill([leaves[place] for place in near], path.start)
                kept.append(KeptLeaf(lineage, is_deleted, fields))
        return kept

    def _is_apart(self, leaf: KeptLeaf, path: Path) -> bool:
        """Whether a leaf and a path clearly add nothing to each other, and neither is the other's ancestor."""
        lineage = leaf.lineage
        if ATTACHMENTS in leaf.fields or lineage.oldest != path.oldest:
            return False
        if lineage.start < path.start:
            return path.ids[path.start - lineage.start] != lineage.ids[0]
        place = lineage.start - path.start
        is_whole = lineage.start - lineage.oldest < self._revs_limit
        return is_whole and place < len(lineage.ids) and lineage.ids[place] != path.ids[0]

    def _write(
        self,
        key: bytes,
        state: State | None,
        leaves: list[KeptLeaf],
        chunks: Sequence[tuple[Rev, Chunk]],
        prepared: PreparedRevision | None = None,
    ) -> None:
        """Write the leaves of the document. `prepared`: of a new leaf."""
        transaction, tables = self._transaction, self._tables
        self._loaded.pop(key, None)
        assert tables.conflicts is not None
        assert tables.tombstones is not None
        ordered = leaves if len(leaves) < 2 else sorted(leaves, key=lambda leaf: leaf.rank, reverse=True)
        winner = ordered[0] if ordered else None
        lives = winner is not None and not winner.is_deleted
        losers = ordered[1:] if lives else ordered
        beside = self._chunk_rows(collation.key_value(key), chunks) if chunks else []
        if state is not None and state.others:
            # A leaf may move from one hidden table to the other.
            left = tables.tombstones if state.is_deleted else tables.conflicts
            if state.is_deleted is lives or len(ordered) <= lives:
                beside.append((reference(left), key, None))
        if losers:
            kept = within_size(lambda: row_of(collation.key_value(key), losers))
            beside.append((reference(tables.conflicts if lives else tables.tombstones), key, kept))
        main = None if state is None else state.main
        body = None
        if winner is not None and lives:
            if state is not None and main is not None and state.lineage.rev == winner.lineage.rev:
                body = main[1]
            else:
                own = collation.key_value(key)
                if main is not None and not isinstance(own, str):
                    # Equal keys, such as 1 and 1.0, are one key. The document keeps its own form.
                    own = codec.decode(main[1])[tables.main.primary_key]
                elif prepared is not None and winner.fields is prepared.fields:
                    body = prepared.body
                body = body or encode_document({tables.main.primary_key: own, **winner.fields})
            is_same = state is not None and main is not None and state.lineage == winner.lineage
        else:
            is_same = main is None
        if not is_same:
            lineage = Lineage(1, ("",), None, 1) if winner is None else winner.lineage
            kind = DELETE if body is None else INSERT if main is None else REPLACE
            _check_free(transaction, tables.main, key, main, body)
            transaction.write(tables.main, key, kind, main, body, Revised(lineage, beside))
            return
        for table, place, row in beside:
            transaction.put(transaction.catalogue.live[table], place, row)

    def _chunk_rows(self, key: Any, chunks: Sequence[tuple[Rev, Chunk]]) -> list[Beside]:
        """The rows of chunks. An existing longer chunk stays as it is: another leaf needs it."""
        ancestors = self._tables.ancestors
        assert ancestors is not None
        longest: dict[Rev, Chunk] = {}
        for rev, chunk in chunks:
            if rev not in longest or len(longest[rev].ids) < len(chunk.ids):
                longest[rev] = chunk
        rows: list[Beside] = []
        for rev, chunk in longest.items():
            place = chunk_key(key, rev)
            stored = self._transaction.head(ancestors, place)
            known = None if stored is None else chunk_of(stored[1])
            if known is None or (len(known.ids), known.link is not None) < (
                len(chunk.ids),
                chunk.link is not None,
            ):
                rows.append((reference(ancestors), place, chunk.document(key, rev)))
        return rows


def _check_free(
    transaction: WriteTransaction,
    table: TableInfo,
    key: bytes,
    main: tuple[int, bytes] | None,
    body: bytes | None,
) -> None:
    """
    Raises:
        CouchError: 403, another document has the value of a unique index. Not 409: clients would read the document, and try again
            without end.
    """
    try:
        transaction.check_free(table, key, None if main is None else main[1], body)
    except DuplicateIndexKey as error:
        raise CouchError(403, "forbidden", str(error)) from None


def reference(table: TableInfo) -> Any:
    return table.reference


def encode_document(document: dict[str, Any]) -> bytes:
    """
    Raises:
        CouchError: 413, it cannot be stored: it is too large, or nested too deep.
    """
    return within_size(lambda: codec.encode(document))


def within_size(encode: Callable[[], T]) -> T:
    """
    Raises:
        CouchError: 413.
    """
    try:
        return encode()
    except InvalidDocument as error:
        raise CouchError(413, "document_too_large", str(error)) from None
