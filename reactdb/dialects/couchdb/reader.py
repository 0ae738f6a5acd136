"""DocumentReader: reads of one database, each at one moment, and CouchDB's form of documents.

Rule of this file: it writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from reactdb.budget import CALL_STEPS, spend, spend_per_element
from reactdb.dialects.couchdb import attachments as attached
from reactdb.dialects.couchdb import settings
from reactdb.dialects.couchdb.documents import render_document
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.names import id_of, key_bytes_of, key_or_none
from reactdb.dialects.couchdb.revisions import ATTACHMENTS, KeptLeaf, Lineage
from reactdb.dialects.couchdb.sequences import Sequences
from reactdb.dialects.couchdb.states import (
    SnapshotHeads,
    State,
    Tables,
    earlier,
    load,
    load_many,
    path_of,
    tables_of,
)
from reactdb.dialects.couchdb.trees import Path, Rev, parse_rev
from reactdb.errors import DuplicateIndexKey, ReadOnlyDatabase
from reactdb.session import Session, session_of
from reactdb.store.catalogue import Catalogue
from reactdb.store.snapshot import Snapshot
from reactdb.values import collation

if TYPE_CHECKING:
    from reactdb.database import Database


T = TypeVar("T")

SHOW_STEPS: Final = 8
"""The steps of a budget for rendering one document."""


class OpenReading:
    """A snapshot of a database.

    Attributes:
        tables, settings: As they are then.
        newest: The seq of its newest change.
    """

    __slots__ = ("_sequences", "heads", "settings", "snapshot", "tables")

    def __init__(self, snapshot: Snapshot, tables: Tables, sequences: Sequences) -> None:
        self.snapshot = snapshot
        self.tables = tables
        self.heads = SnapshotHeads(snapshot)
        self.settings = settings.read(self.heads, snapshot.catalogue, tables.main.id)
        self._sequences = sequences

    @property
    def newest(self) -> int:
        return self._sequences.newest(self.snapshot, self.tables)

    def seq_text(self, seq: int) -> str:
        """A position as clients see it."""
        return self._sequences.text(self.snapshot, self.tables, self.settings, seq)

    def seq_texts(self, seqs: Sequence[int]) -> list[str]:
        return self._sequences.texts(self.snapshot, self.tables, self.settings, seqs)

    def state(self, id: str) -> State | None:
        spend(CALL_STEPS)
        return load(self.heads, self.tables, key_bytes_of(id))

    def states(self, ids: Iterable[str]) -> dict[str, State]:
        """The existing or deleted documents among these, by id."""
        keys = {id: key for id in spend_per_element(ids) if (key := key_or_none(id)) is not None}
        states = load_many(self.heads, self.tables, list(dict.fromkeys(keys.values())))
        return {id: states[key] for id, key in keys.items() if key in states}

    def state_of(self, key: bytes) -> State | None:
        spend(CALL_STEPS)
        return load(self.heads, self.tables, key)

    def path(self, state: State, lineage: Lineage) -> Path:
        return path_of(self.heads, self.tables, state.key_bytes, lineage, self.settings.revs_limit)

    def knows(self, state: State, rev: Rev) -> bool:
        """Whether the tree has a revision."""
        lineages = [state.lineage, *(leaf.lineage for leaf in state.others)]
        return any(self._has(state, lineage, rev) for lineage in lineages)

    def _has(self, state: State, lineage: Lineage, rev: Rev) -> bool:
        """Whether a revision is the newest of a lineage, or an ancestor of it."""
        if not lineage.oldest <= rev.generation <= lineage.start:
            return False
        place = lineage.start - rev.generation
        path = lineage.ids if place < len(lineage.ids) else self.path(state, lineage).ids
        return place < len(path) and path[place] == rev.hash

    def below(self, state: State, rev: Rev) -> list[KeptLeaf]:
        """The leaves that descend from a revision, or equal it, the winner first."""
        return [leaf for leaf in state.leaves if self._has(state, leaf.lineage, rev)]

    def revision(self, state: State, rev: Rev) -> KeptLeaf | None:
        """A revision of a document, from wherever it still is."""
        for leaf in state.leaves:
            if leaf.lineage.rev == rev:
                return leaf
        leaves = earlier(self.snapshot, self.tables, state.key_bytes)
        return next((leaf for leaf in leaves if leaf.lineage.rev == rev), None)


class DocumentReader:
    """See the head of this file.

    Attributes:
        session, blobs: The native database's.
        table_id: The number of the table.
        sequences: Positions in the log.
    """

    def __init__(self, native: Database, table_id: int) -> None:
        self.session: Session = session_of(native)
        self.blobs = native.blobs
        self.table_id = table_id
        self.sequences = Sequences(session_of(native))

    @contextmanager
    def reading(self) -> Iterator[OpenReading]:
        """A snapshot of the database. Keep it short.

        Raises:
            CouchError: 404, it was deleted.
        """
        spend(CALL_STEPS)
        with self.session.read() as snapshot:
            yield OpenReading(snapshot, self.tables(snapshot.catalogue), self.sequences)

    def tables(self, catalogue: Catalogue) -> Tables:
        tables = tables_of(catalogue, self.table_id)
        if tables is None:
            raise no_database()
        return tables

    def render(self, leaf: KeptLeaf, state: State) -> dict[str, Any]:
        """A leaf as CouchDB shows it, with stubs."""
        spend(SHOW_STEPS)
        stubs = attached.stubs_of(leaf.fields)
        document = render_document(
            id_of(collation.key_value(state.key_bytes)),
            leaf.lineage.rev,
            leaf.fields,
            state.primary_key,
            is_deleted=leaf.is_deleted,
            has_stubs=stubs is not None,
        )
        if stubs:
            document[ATTACHMENTS] = attached.render_stubs(stubs, leaf.lineage.start)
        return document

    def attach(
        self,
        document: dict[str, Any],
        leaf: KeptLeaf,
        path: Path | None = None,
        atts_since: Sequence[str] | None = None,
    ) -> None:
        """Add the bytes to the stubs of a document; only of attachments that are newer than the revisions of `path` in
        `atts_since`."""
        stubs = attached.stubs_of(leaf.fields)
        if stubs:
            later_than = None if path is None else path.newest_of(map(parse_rev, atts_since or ()))
            document[ATTACHMENTS] = attached.with_data(
                self.blobs, stubs, leaf.lineage.start, later_than=later_than
            )


def add_losers(document: dict[str, Any], state: State, *, is_deleted: bool = False) -> None:
    """Add the names of the live leaves beside the winner, or of the deleted leaves, if there are any."""
    revs = [str(rev) for rev, deleted in state.revs()[1:] if deleted is is_deleted]
    if revs:
        document["_deleted_conflicts" if is_deleted else "_conflicts"] = revs


def not_found(reason: str) -> CouchError:
    return CouchError(404, "not_found", reason)


def no_database() -> CouchError:
    return not_found("Database does not exist.")


def call_write(write: Callable[[], T]) -> T:
    """The result of a write.

    Raises:
        CouchError: 403, the file is only read, or a unique index would have a value twice.
    """
    try:
        return write()
    except (ReadOnlyDatabase, DuplicateIndexKey) as error:
        raise CouchError(403, "forbidden", str(error)) from None
