"""CouchDatabase: one database, stored as a table. Documents in and out, with their revisions.

Each read sees one moment. Each write is one commit, except `bulk_docs`: many documents are several commits, so that no other
writer waits for all of them.

Rule of this file: HTTP has checked the JSON types of arguments as far as it can. Their meaning is checked here, and refused with
a CouchError in CouchDB's words.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from secrets import token_hex
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, NamedTuple, TypeVar

from reactdb.budget import CALL_STEPS, STEP_BYTES, check, in_turn, spend, spend_per_element
from reactdb.clock import time_ns
from reactdb.dialects.couchdb import attachments as attached
from reactdb.dialects.couchdb import settings
from reactdb.dialects.couchdb.all_docs import IdRange, designs, list_range
from reactdb.dialects.couchdb.changes import ChangesFeed, ChangesRequest
from reactdb.dialects.couchdb.documents import GivenDocument, parse_document, render_path
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.headers import check_text
from reactdb.dialects.couchdb.locals import delete_local, get_local, local_docs, put_local
from reactdb.dialects.couchdb.names import LOCAL, check_id, id_of, key_bytes_of, key_of
from reactdb.dialects.couchdb.reader import DocumentReader, OpenReading, add_losers, call_write, not_found
from reactdb.dialects.couchdb.revisions import ATTACHMENTS, HOOK, KeptLeaf
from reactdb.dialects.couchdb.states import (
    Editor,
    Fill,
    PreparedRevision,
    State,
    Tables,
    conflict,
    earlier,
    prepare,
)
from reactdb.dialects.couchdb.tasks import active_tasks, list_task
from reactdb.dialects.couchdb.trees import Path, Rev, parse_rev
from reactdb.store.catalogue import TableInfo
from reactdb.store.retention import Retention, read_retention
from reactdb.store.transaction import WriteTransaction
from reactdb.values import collation

if TYPE_CHECKING:
    from reactdb.database import Database
    from reactdb.dialects.couchdb.change_waiters import Wakers

T = TypeVar("T")

PAGE: Final = 500
"""Documents of `bulk_get` per snapshot."""

# How many documents of a bulk one commit writes: at least the first number, which take some milliseconds, and at most what the
# others allow, so that no other writer waits for longer than 50 ms.
FEWEST_TOGETHER: Final = 8
MOST_TOGETHER: Final = 500
READ_TOGETHER: Final = 100
MOST_TOGETHER_BYTES: Final = 1 << 20
MOST_TOGETHER_S: Final = 0.02
PURGED_TOGETHER: Final = 100
"""Documents of `purge` in one commit."""
PAUSE: Final = 0.25
"""The pause before the next commit of the same bulk, as a share of a commit's time: a writer in another process tries several
times in a second to write, and must not fail each time."""

Opened = tuple[Rev, "tuple[State, KeptLeaf, Path] | None"]
"""A requested revision, and its leaf; None if it is missing."""

Counts = dict[int, tuple[int, int, int]]
"""By table number: the seq of the newest change, and the number of documents at that seq, alive and deleted."""


class BulkEdit(NamedTuple):
    """One document of a bulk.

    Attributes:
        document: The caller's document.
        key: Of its id; empty for a `_local/` document.
        refusal: The error of this document alone; None if there is none.
        prepared: None if its fields depend on stored data.
    """

    document: Any
    given: GivenDocument
    id: str
    key: bytes
    fill: Fill
    refusal: CouchError | None
    prepared: PreparedRevision | None

    @property
    def size(self) -> int:
        body = None if self.prepared is None else self.prepared.body
        return 0 if body is None else len(body)


class CouchDatabase(DocumentReader):
    """See the head of this file, and `Couch.open`.

    Attributes:
        name: CouchDB's name of the database.
        origin: The origin of its writes in the log; None: the origin of the native database.
        most_attachment_bytes: The largest attachment, unpacked; None: as large as a blob.
    """

    def __init__(self, native: Database, name: str, table: TableInfo, wakers: Wakers, counts: Counts) -> None:
        """
        Args:
            counts: The document counts of all databases of the file.
        """
        super().__init__(native, table.id)
        self.name = name
        self.origin: str | None = None
        self.most_attachment_bytes: int | None = None
        self._primary_key = table.primary_key
        self._wakers = wakers
        self._counts = counts

    # -----------------------------------------------------------------------------------------------------------
    # The database

    def info(self) -> dict[str, Any]:
        """The answer of `GET /{db}`."""
        with self.reading() as reading:
            count, deleted_count = self._count(reading)
            return {
                "instance_start_time": reading.settings.created,
                "db_name": self.name,
                "purge_seq": "0",
                "update_seq": reading.seq_text(reading.newest),
                "sizes": {"file": 0, "external": 0, "active": 0},
                "props": {},
                "doc_del_count": deleted_count,
                "doc_count": count,
                "disk_format_version": 8,
                "compact_running": self._is_compacting(),
                "cluster": {"q": 1, "n": 1, "w": 1, "r": 1},
            }

    def _is_compacting(self) -> bool:
        compaction = {"type": "database_compaction", "database": self.name}
        return any(compaction.items() <= task.items() for task in active_tasks(self.session))

    def _count(self, reading: OpenReading) -> tuple[int, int]:
        """How many documents there are, alive and deleted. To count takes as long as to read all keys, so it is remembered."""
        snapshot, tables = reading.snapshot, reading.tables
        newest = reading.newest
        known = self._counts.get(self.table_id)
        if known is None or known[0] != newest:
            deleted = 0 if tables.tombstones is None else snapshot.count(tables.tombstones)
            known = self._counts[self.table_id] = newest, snapshot.count(tables.main), deleted
        return known[1:]

    @property
    def instance_start_time(self) -> str:
        """When it was first served, in seconds since 1970, as text."""
        with self.reading() as reading:
            return reading.settings.created

    @property
    def revs_limit(self) -> int:
        """How many revisions of a path are kept."""
        with self.reading() as reading:
            return reading.settings.revs_limit

    @revs_limit.setter
    def revs_limit(self, limit: int) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise CouchError(400, "bad_request", "Rev limit has to be an integer from 1 on")
        self._transact(
            lambda transaction, _: settings.change(transaction, table_id=self.table_id, revs_limit=limit)
        )

    @property
    def update_seq(self) -> str:
        """The position of the newest change."""
        with self.reading() as reading:
            return reading.seq_text(reading.newest)

    def compact(self) -> None:
        """Remove old history: bodies of old revisions, but nothing of the trees. The history belongs to the whole file, so all
        its tables are compacted. Under the retention "auto", all history is removed."""
        spend(CALL_STEPS)
        with self.session.read() as snapshot:
            retention = read_retention(snapshot.connection)
        if retention is None:
            # All history stays. Ancestors that no path has any more are removed only here.
            self.session.sweep()
            return
        with list_task(self.session, lambda: {"type": "database_compaction", "database": self.name}):
            self.session.compact(Retention(changes=0) if retention.is_auto else retention)

    def _write(self, work: Callable[[Editor], T]) -> T:
        def one(transaction: WriteTransaction, tables: Tables) -> T:
            limit = settings.read(transaction, transaction.catalogue, self.table_id).revs_limit
            return work(Editor(transaction, tables, limit))

        return self._transact(one)

    def _transact(self, work: Callable[[WriteTransaction, Tables], T]) -> T:
        """Call `work` with a transaction and the tables of this database, as one commit, and return its result.

        Raises:
            CouchError: 403, the file or the table cannot be written; 404, the database was deleted.
        """

        def one(transaction: WriteTransaction) -> T:
            tables = self.tables(transaction.catalogue)
            if tables.main.hook != HOOK:
                reason = (
                    f"`{self.name}` has the write hook `{tables.main.hook}`, and cannot be written from here."
                )
                raise CouchError(403, "forbidden", reason)
            with in_turn():
                spend(CALL_STEPS)
                return work(transaction, tables)

        return call_write(lambda: self.session.transact(one, origin=self.origin))

    # -----------------------------------------------------------------------------------------------------------
    # Reading documents

    def get(
        self,
        id: str,
        *,
        rev: str | None = None,
        revs: bool = False,
        revs_info: bool = False,
        conflicts: bool = False,
        deleted_conflicts: bool = False,
        local_seq: bool = False,
        attachments: bool = False,
        atts_since: Sequence[str] | None = None,
        latest: bool = False,
    ) -> dict[str, Any]:
        """A document, or one revision of it.

        Args:
            latest: With `rev`: the leaf that descends from it.
            atts_since: Revisions that the caller has: only attachments that are newer come with their bytes.

        Raises:
            CouchError: 404, it is `missing`, or `deleted` if it existed once.
        """
        if id.startswith(LOCAL):
            return self.get_local(id)
        wanted = None if rev is None else parse_rev(rev)
        with self.reading() as reading:
            state, leaf = _find_leaf(reading, id, wanted, latest=latest)
            path = reading.path(state, leaf.lineage)
            document = self.render(leaf, state)
            if revs:
                document["_revisions"] = render_path(path)
            if revs_info:
                document["_revs_info"] = _revs_info(reading, state, path)
            if conflicts:
                add_losers(document, state)
            if deleted_conflicts:
                add_losers(document, state, is_deleted=True)
            if local_seq:
                document["_local_seq"] = reading.seq_text(state.seq)
        # Outside of the snapshot, because they may be large.
        if attachments or atts_since is not None:
            self.attach(document, leaf, path, atts_since)
        return document

    def open_revs(
        self,
        id: str,
        wanted: Sequence[str] | Literal["all"],
        *,
        revs: bool = False,
        latest: bool = False,
        attachments: bool = False,
        atts_since: Sequence[str] | None = None,
    ) -> list[dict[str, Any]]:
        """Revisions of a document, as `{"ok": document}` or `{"missing": rev}`; "all": its leaves.

        Raises:
            CouchError: 400, a revision has no valid form; 404, all leaves of a document that never existed.
        """
        revs_or_none = None if wanted == "all" else [parse_rev(one) for one in spend_per_element(wanted)]
        with self.reading() as reading:
            opened = _open_revisions(reading, reading.state(id), revs_or_none, latest=latest)
        return self._render_revisions(opened, revs=revs, attachments=attachments, atts_since=atts_since)

    def _render_revisions(
        self,
        opened: Iterable[Opened],
        *,
        revs: bool,
        attachments: bool,
        atts_since: Sequence[str] | None,
    ) -> list[dict[str, Any]]:
        """Revisions in the form of `open_revs`. Called after the snapshot is closed: reading large attachments takes
        long."""
        results: list[dict[str, Any]] = []
        for rev, there in opened:
            spend(CALL_STEPS)
            if there is None:
                results.append({"missing": str(rev)})
                continue
            state, leaf, path = there
            document = self.render(leaf, state)
            if revs:
                document["_revisions"] = render_path(path)
            if attachments or atts_since is not None:
                self.attach(document, leaf, path, atts_since)
            results.append({"ok": document})
        return results

    def bulk_get(
        self,
        requests: Sequence[Any],
        *,
        revs: bool = False,
        latest: bool = False,
        attachments: bool = False,
    ) -> list[dict[str, Any]]:
        """One result per request, in order: `{"id", "docs": [{"ok": document} or {"error": {...}}]}`. A request is `{"id", "rev",
        "atts_since"}`; without `rev`, it means all leaves."""
        results: list[dict[str, Any]] = []
        for place in range(0, len(requests), PAGE):
            some = [one if isinstance(one, dict) else {} for one in requests[place : place + PAGE]]
            with self.reading() as reading:
                states = reading.states(id for one in some if isinstance(id := one.get("id"), str))
                opened = [_open_bulk_item(reading, states, one, latest=latest) for one in some]
            results += [
                self._render_bulk_item(one, there, revs=revs, attachments=attachments)
                for one, there in zip(some, opened, strict=True)
            ]
        return results

    def _render_bulk_item(
        self, request: dict[str, Any], opened: list[Opened] | CouchError, *, revs: bool, attachments: bool
    ) -> dict[str, Any]:
        id, rev = request.get("id"), request.get("rev")

        def failed(error: str, reason: str) -> dict[str, Any]:
            rev_or_undefined = "undefined" if rev is None and id is not None else rev
            entry = {"id": id, "rev": rev_or_undefined, "error": error, "reason": reason}
            return {"id": id, "docs": [{"error": entry}]}

        if id is None:
            rev = None
            return failed("bad_request", "document id missed")
        if isinstance(opened, CouchError):
            return failed(opened.error, opened.reason)
        if any(there is None for _, there in opened):
            return failed("not_found", "missing")
        since = request.get("atts_since") if attachments else None
        try:
            docs = self._render_revisions(
                opened,
                revs=revs,
                attachments=attachments,
                atts_since=since if isinstance(since, list) else None,
            )
        except CouchError as error:
            return failed(error.error, error.reason)
        return {"id": id, "docs": docs}

    def design_documents(self) -> list[dict[str, Any]]:
        """All design documents, as `get` returns them, in the order of ids."""
        with self.reading() as reading:
            states = designs(reading.snapshot, reading.tables, reading.heads)
            return [self.render(state.winner, state) for state in states]

    def revs_diff(self, revisions: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """The revisions that are missing here: `{id: {"missing": [...], "possible_ancestors": [...]}}`.

        Raises:
            CouchError: 400, the argument has no lists of revisions.
        """
        result: dict[str, Any] = {}
        with self.reading() as reading:
            for id, texts in revisions.items():
                wanted = list(dict.fromkeys(_parse_revs(id, texts)))
                state = None if not id else reading.state(id)
                missing = [
                    rev for rev in spend_per_element(wanted) if state is None or not reading.knows(state, rev)
                ]
                if not missing:
                    continue
                result[id] = {"missing": [str(rev) for rev in missing]}
                highest = max(rev.generation for rev in missing)
                leaves = [] if state is None else [rev for rev, _ in state.revs()]
                ancestors = [str(rev) for rev in leaves if rev.generation < highest]
                if ancestors:
                    result[id]["possible_ancestors"] = ancestors
        return result

    def all_docs(
        self,
        *,
        keys: Sequence[Any] | None = None,
        startkey: Any = None,
        endkey: Any = None,
        inclusive_end: bool = True,
        descending: bool = False,
        limit: int | None = None,
        skip: int = 0,
        include_docs: bool = False,
        conflicts: bool = False,
        attachments: bool = False,
        update_seq: bool = False,
    ) -> dict[str, Any]:
        """The answer of `_all_docs`. None as `startkey` or `endkey` is no bound."""
        with self.reading() as reading:
            total, _ = self._count(reading)
            offset: int | None = None
            selected: list[tuple[Any, State | None]]
            if keys is not None:
                selected = [
                    (key, reading.state(key) if isinstance(key, str) and key else None)
                    for key in spend_per_element(keys)
                ]
                selected = selected[::-1] if descending else selected
                selected = selected[skip:][: limit if limit is not None else len(selected)]
            else:
                wanted = IdRange(startkey, endkey, inclusive_end, descending, limit, skip)
                offset, states = list_range(reading.snapshot, reading.tables, reading.heads, wanted)
                selected = [(None, state) for state in states]
            documents = [
                None
                if state is None or state.is_deleted or not include_docs
                else self.render(state.winner, state)
                for _, state in selected
            ]
            seq = reading.seq_text(reading.newest)
        rows = []
        for (key, state), document in spend_per_element(zip(selected, documents, strict=True)):
            if state is None:
                rows.append({"key": key, "error": "not_found"})
                continue
            id = id_of(collation.key_value(state.key_bytes))
            value: dict[str, Any] = {"rev": str(state.rev)}
            if state.is_deleted:
                value["deleted"] = True
            row: dict[str, Any] = {"id": id, "key": id, "value": value}
            if include_docs:
                if document is not None and conflicts:
                    add_losers(document, state)
                if document is not None and attachments:
                    self.attach(document, state.winner)
                row["doc"] = document
            rows.append(row)
        answer: dict[str, Any] = {"total_rows": total, "offset": offset, "rows": rows}
        return answer | {"update_seq": seq} if update_seq else answer

    # -----------------------------------------------------------------------------------------------------------
    # Writing documents

    def put(
        self,
        document: dict[str, Any],
        *,
        rev: str | None = None,
        new_edits: bool = True,
        parts: Mapping[str, Any] | None = None,
        losers: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Write one document, as its `_id` and `_rev` say.

        Args:
            rev: The same as `_rev`, from another part of the request.
            new_edits: False: the revision is from another server, and grafted on the tree.
            parts: By name, the bytes (a binary file, or an iterable of bytes) of attachments with `follows`.
            losers: Revisions of other leaves to delete in the same commit; if that is impossible, nothing is written.

        Returns:
            `{"ok": True, "id", "rev"}`.

        Raises:
            CouchError: 409, it is not a leaf's `_rev`; 400, it cannot be a document; 412, an attachment is only named; 413, it is
                too large.
        """
        if isinstance(document, dict) and str(document.get("_id", "")).startswith(LOCAL):
            return self.put_local(document if rev is None else {**document, "_rev": rev})
        given = self._parse_document(document)
        id = given.id if given.id is not None else next(self.session.timed(new_ids)())
        if rev is not None:
            wanted = parse_rev(rev)
            if given.rev is not None and given.rev != wanted:
                raise CouchError(
                    400,
                    "bad_request",
                    "Document rev from request body and query string have different values",
                )
            given = given._replace(rev=wanted, path=given.path or Path(wanted.generation, (wanted.hash,)))
        key = key_bytes_of(id)
        fill = self._fill(given, id, parts, is_new_edit=new_edits)
        if new_edits:
            gone = list(map(parse_rev, losers))

            def work(editor: Editor) -> Rev:
                made = editor.edit(key, given.rev, fill, is_deleted=given.is_deleted)
                for loser in gone:
                    editor.edit(key, loser, no_fields, is_deleted=True)
                return made

            return {"ok": True, "id": id, "rev": str(self._write(work))}
        path = _require_path(given)
        self._write(lambda editor: editor.add(key, path, fill, is_deleted=given.is_deleted))
        return {"ok": True, "id": id, "rev": str(path.rev)}

    def delete(self, id: str, rev: str | None) -> dict[str, Any]:
        """Delete a leaf. Nothing of its fields is kept.

        Raises:
            CouchError: 404, there is no such document; 409, it is not a leaf's revision.
        """
        if id.startswith(LOCAL):
            return self.delete_local(id)
        return self._edit_existing(id, rev, no_fields, is_deleted=True)

    def _edit_existing(self, id: str, rev: str | None, fill: Fill, *, is_deleted: bool) -> dict[str, Any]:
        """Edit an existing document.

        Raises:
            CouchError: 404, it is missing; 409, the revision is not a leaf; errors of `fill`.
        """
        check_id(id)
        key = key_bytes_of(id)
        wanted = None if rev is None else parse_rev(rev)

        def work(editor: Editor) -> Rev:
            _must_live(editor.load(key))
            if wanted is None:
                raise conflict()
            return editor.edit(key, wanted, fill, is_deleted=is_deleted)

        return {"ok": True, "id": id, "rev": str(self._write(work))}

    def bulk_docs(self, documents: Sequence[Any], new_edits: bool = True) -> list[dict[str, Any]]:
        """Write many documents: some of them in one commit, then the next.

        Returns:
            One row per document, `{"ok", "id", "rev"}` or `{"id", "error", "reason"}`; with new_edits=False only the failures.

        Raises:
            CouchError: 400, one of them cannot be a document. Nothing was written.
            Any error of a commit. The commits before it stay.
        """
        for document in documents:
            spend(CALL_STEPS)
            self._parse_bulk_document(document, new_edits)
        rows: list[dict[str, Any]] = []
        ids = self.session.timed(new_ids)()
        # Prepared, and not yet written. Only some at a time, because the notes on a document take more room than the document.
        edits: list[BulkEdit] = []
        place = 0
        while edits or place < len(documents):
            until = place + MOST_TOGETHER - len(edits)
            edits += [self._bulk_edit(one, ids, is_new_edit=new_edits) for one in documents[place:until]]
            place = until
            check()
            began = time.perf_counter()
            count, written = self._write(partial(_write_some, edits, new_edits, self.put_local))
            del edits[:count]
            rows += written
            if edits or place < len(documents):
                time.sleep(PAUSE * (time.perf_counter() - began))
        return rows

    def _parse_bulk_document(self, document: Any, is_new_edit: bool) -> GivenDocument:
        """
        Raises:
            CouchError: 400, it cannot be a document.
        """
        given = self._parse_document(document)
        if not is_new_edit:
            _require_path(given)
        if given.id is not None and not given.id.startswith(LOCAL):
            key_bytes_of(given.id)
        return given

    def _bulk_edit(self, document: Any, ids: Iterator[str], *, is_new_edit: bool) -> BulkEdit:
        """A document of a bulk, with all that can be computed before a lock is taken. `ids`: for documents without an id."""
        given = self._parse_document(document)
        id = next(ids) if given.id is None else given.id
        key = b"" if id.startswith(LOCAL) else key_bytes_of(id)
        refusal = prepared = None
        fill: Fill = no_fields
        try:
            fill = self._fill(given, id, None, is_new_edit=is_new_edit)
            if key and not given.attachments:
                is_deleted = given.is_deleted
                prepared = prepare(
                    given.fields,
                    self._primary_key,
                    key_of(id),
                    given.rev,
                    is_edit=is_new_edit,
                    is_deleted=is_deleted,
                )
        except CouchError as error:
            refusal = error
        edit = BulkEdit(document, given, id, key, fill, refusal, prepared)
        spend(CALL_STEPS + edit.size // STEP_BYTES)
        return edit

    def _parse_document(self, document: object) -> GivenDocument:
        return parse_document(document, self._primary_key)

    def _fill(
        self, given: GivenDocument, id: str, parts: Mapping[str, Any] | None, *, is_new_edit: bool
    ) -> Fill:
        """The function that makes the fields of the new revision. The bytes of attachments are written now."""
        if not given.attachments:
            return lambda near, generation: given.fields
        attachments = attached.Given(
            self.blobs, id, given.attachments, parts, most=self.most_attachment_bytes
        )

        def fill(near: Sequence[KeptLeaf], generation: int) -> dict[str, Any]:
            stubs = attachments.stubs(near, generation, is_new_edit=is_new_edit)
            return {**given.fields, ATTACHMENTS: stubs}

        return fill

    # -----------------------------------------------------------------------------------------------------------
    # Attachments

    def attachment(
        self, id: str, name: str, rev: str | None = None
    ) -> tuple[dict[str, Any], Callable[[], BinaryIO]]:
        """An attachment: its stub, and a function that opens its bytes as a seekable binary file.

        Raises:
            CouchError: 404, it does not exist.
        """
        wanted = None if rev is None else parse_rev(rev)
        with self.reading() as reading:
            _, leaf = _find_leaf(reading, id, wanted)
        stub = (attached.stubs_of(leaf.fields) or {}).get(name)
        if stub is None:
            raise attached.missing()
        return attached.render_stubs({name: stub}, leaf.lineage.start)[name], partial(
            self.blobs.open, stub["blob"]
        )

    def put_attachment(
        self,
        id: str,
        name: str,
        stream: Any,
        content_type: str | None = None,
        rev: str | None = None,
        *,
        encoding: str | None = None,
    ) -> dict[str, Any]:
        """Add an attachment to a document, or replace one; a missing document is made.

        Args:
            stream: bytes, a binary file, or an iterable of bytes.
            encoding: "gzip": the stream is compressed, and kept as it was before.

        Raises:
            CouchError: 409, it is not a leaf's revision; 400, 413 and 415, see `attachments.keep`.
        """
        check_id(id)
        content_type = content_type or attached.DEFAULT_TYPE
        attached.check_name(name)
        attached.check_new(name, content_type)
        wanted = None if rev is None else parse_rev(rev)
        key = key_bytes_of(id)
        self._check_leaf(id, wanted)
        stub = attached.keep(
            self.blobs,
            stream,
            content_type,
            encoding=encoding,
            most=self.most_attachment_bytes,
        )

        def fill(near: Sequence[KeptLeaf], generation: int) -> dict[str, Any]:
            fields = dict(near[0].fields) if near and not near[0].is_deleted else {}
            own = {"content_type": stub["content_type"], "revpos": generation, **stub}
            return {**fields, ATTACHMENTS: {**(attached.stubs_of(fields) or {}), name: own}}

        made = self._write(lambda editor: editor.edit(key, wanted, fill, is_deleted=False))
        return {"ok": True, "id": id, "rev": str(made)}

    def _check_leaf(self, id: str, wanted: Rev | None) -> None:
        """Before many bytes are read.

        Raises:
            CouchError: 409.
        """
        with self.reading() as reading:
            state = reading.state(id)
        if wanted is None:
            if state is not None and not state.is_deleted:
                raise conflict()
        elif state is None or (wanted, False) not in state.revs():
            raise conflict()

    def delete_attachment(self, id: str, name: str, rev: str | None) -> dict[str, Any]:
        """
        Raises:
            CouchError: 404, there is no such document or attachment; 409, it is not a leaf's revision.
        """

        def fill(near: Sequence[KeptLeaf], generation: int) -> dict[str, Any]:
            stubs = dict(attached.stubs_of(near[0].fields) or {})
            if name not in stubs:
                raise attached.missing()
            del stubs[name]
            fields = {field: value for field, value in near[0].fields.items() if field != ATTACHMENTS}
            return {**fields, ATTACHMENTS: stubs} if stubs else fields

        return self._edit_existing(id, rev, fill, is_deleted=False)

    # -----------------------------------------------------------------------------------------------------------
    # Local documents and changes

    def get_local(self, id: str) -> dict[str, Any]:
        """A `_local/` document. Raises: CouchError, 404."""
        with self.reading() as reading:
            return get_local(reading.heads, reading.tables, id)

    def put_local(self, document: dict[str, Any]) -> dict[str, Any]:
        """Write a `_local/` document; the last write wins."""
        return self._transact(lambda transaction, tables: put_local(transaction, tables, document))

    def delete_local(self, id: str, rev: str | None = None) -> dict[str, Any]:
        """Delete a `_local/` document. Raises: CouchError, 404."""
        return self._transact(lambda transaction, tables: delete_local(transaction, tables, id))

    def local_docs(self, *, include_docs: bool = False) -> dict[str, Any]:
        """The answer of `_local_docs`."""
        with self.reading() as reading:
            return local_docs(reading.snapshot, reading.tables, include_docs=include_docs)

    def purge(self, revisions: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
        """Remove leaves from trees, without a tombstone; of many documents in several commits. Returns the removed revisions by
        id.

        Raises:
            CouchError: 400, the argument has no lists of revisions.
        """
        wanted = [
            (id, key_bytes_of(id), _parse_revs(id, revs)) for id, revs in spend_per_element(revisions.items())
        ]
        purged: dict[str, list[str]] = {}
        place = 0
        while place < len(wanted):
            some = wanted[place : place + PURGED_TOGETHER]
            check()

            def work(editor: Editor, some: Sequence[Any] = some) -> dict[str, list[str]]:
                return {id: [str(rev) for rev in editor.purge(key, revs)] for id, key, revs in some}

            purged |= self._write(work)
            place += len(some)
        return purged

    def changes(self, request: ChangesRequest | None = None, **asked: Any) -> ChangesFeed:
        """A feed of the database's changes.

        Args:
            asked: The fields of a request by name, instead of `request`: `changes(since="0", include_docs=True)`.

        Raises:
            CouchError: 400, `since` is no position of this database.
        """
        return ChangesFeed(self, request or ChangesRequest(**asked), self._wakers)


# ---------------------------------------------------------------------------------------------------------------


def new_ids() -> Iterator[str]:
    """Ids for the documents of a request without ids. Each is greater than the one before, because keys in order are written
    faster: 48 bits of milliseconds, 48 random bits, and a number."""
    begin = f"{time_ns() // 1_000_000:012x}{token_hex(6)}"
    return (f"{begin}{number:08x}" for number in count(1))


def no_fields(near: Sequence[KeptLeaf], generation: int) -> dict[str, Any]:
    """The fields of a deleted document."""
    return {}


def _write_some(
    edits: Sequence[BulkEdit],
    is_new_edit: bool,
    put_local: Callable[[dict[str, Any]], dict[str, Any]],
    editor: Editor,
) -> tuple[int, list[dict[str, Any]]]:
    """Write the next documents of a bulk in one commit. Returns how many these were, and their rows."""
    began, size = time.perf_counter(), 0
    rows: list[dict[str, Any]] = []
    for place, edit in enumerate(edits):
        if place % READ_TOGETHER == 0:
            page = edits[place : place + READ_TOGETHER]
            editor.load_all(list(dict.fromkeys(edit.key for edit in page if edit.key)))
        if place and size + edit.size > MOST_TOGETHER_BYTES:
            return place, rows
        if place >= FEWEST_TOGETHER and time.perf_counter() - began > MOST_TOGETHER_S:
            return place, rows
        size += edit.size
        row = _write_one(edit, is_new_edit, put_local, editor)
        if row is not None:
            rows.append(row)
    return len(edits), rows


def _write_one(
    edit: BulkEdit,
    is_new_edit: bool,
    put_local: Callable[[dict[str, Any]], dict[str, Any]],
    editor: Editor,
) -> dict[str, Any] | None:
    """The row of the result; None for none."""
    key, given, prepared = edit.key, edit.given, edit.prepared
    is_deleted = given.is_deleted
    try:
        if edit.refusal is not None:
            raise edit.refusal
        if not key:
            made_local = put_local(edit.document)
            return made_local if is_new_edit else None
        if is_new_edit:
            made = editor.edit(key, given.rev, edit.fill, is_deleted=is_deleted, prepared=prepared)
            return {"ok": True, "id": edit.id, "rev": str(made)}
        editor.add(key, _require_path(given), edit.fill, is_deleted=is_deleted, prepared=prepared)
        return None
    except CouchError as error:
        return {"id": edit.id, "error": error.error, "reason": error.reason}


def _parse_revs(id: str, texts: object) -> list[Rev]:
    """
    Raises:
        CouchError: 400, it is no list of revisions.
    """
    if not isinstance(texts, list):
        raise CouchError(400, "bad_request", f"The revisions of `{id}` must be an array")
    return list(map(parse_rev, spend_per_element(texts)))


def _must_live(state: State | None) -> State:
    """
    Raises:
        CouchError: 404, there is no such document, or it was deleted.
    """
    if state is None:
        raise not_found("missing")
    if state.is_deleted:
        raise not_found("deleted")
    return state


def _find_leaf(
    reading: OpenReading, id: str, wanted: Rev | None, *, latest: bool = False
) -> tuple[State, KeptLeaf]:
    """A document and its winner, or the wanted revision; `latest`: the leaf that descends from it.

    Raises:
        CouchError: 404, it does not exist.
    """
    state = reading.state(id)
    if wanted is None:
        state = _must_live(state)
        return state, state.winner
    leaf = None
    if state is not None:
        leaf = next(iter(reading.below(state, wanted)), None) if latest else reading.revision(state, wanted)
    if state is None or leaf is None:
        raise not_found("missing")
    return state, leaf


def _open_revisions(
    reading: OpenReading, state: State | None, wanted: Sequence[Rev] | None, *, latest: bool = False
) -> list[Opened]:
    """Revisions of a document; None: its leaves.

    Raises:
        CouchError: 404, all leaves of a document that never existed.
    """
    if state is None:
        if wanted is None:
            raise not_found("missing")
        return [(rev, None) for rev in wanted]
    leaves: dict[Rev, KeptLeaf | None] = {}
    if wanted is None:
        leaves = {leaf.lineage.rev: leaf for leaf in state.leaves}
    for rev in spend_per_element(wanted or ()):
        below = reading.below(state, rev) if latest else []
        if below:
            leaves |= {leaf.lineage.rev: leaf for leaf in below}
        else:
            leaves[rev] = reading.revision(state, rev)
    return [
        (rev, None if leaf is None else (state, leaf, reading.path(state, leaf.lineage)))
        for rev, leaf in leaves.items()
    ]


def _open_bulk_item(
    reading: OpenReading, states: Mapping[str, State], request: dict[str, Any], *, latest: bool
) -> list[Opened] | CouchError:
    """The result of one request of `bulk_get`, or its error."""
    rev = request.get("rev")
    try:
        id = check_id(request.get("id"))
        if id not in states:
            # An id that cannot be a key is refused.
            key_bytes_of(id)
        return _open_revisions(
            reading, states.get(id), None if rev is None else [parse_rev(rev)], latest=latest
        )
    except CouchError as error:
        return error


def _require_path(given: GivenDocument) -> Path:
    """
    Raises:
        CouchError: 400, the document says nothing of its revision, or a revision has control characters.
    """
    if given.path is None:
        raise CouchError(
            400,
            "bad_request",
            "When `new_edits: false`, the document needs `_rev` or `_revisions` specified",
        )
    # Each is the ETag of its revision.
    check_text("".join(given.path.ids), "A revision")
    return given.path


def _revs_info(reading: OpenReading, state: State, path: Path) -> list[dict[str, str]]:
    there = {
        leaf.lineage.rev: "deleted" if leaf.is_deleted else "available"
        for leaf in [*earlier(reading.snapshot, reading.tables, state.key_bytes), *state.leaves]
    }
    return [{"rev": str(rev), "status": there.get(rev, "missing")} for rev in path.revs()]
