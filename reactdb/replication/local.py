"""LocalPeer: a table of a file as one side of a replication.

Rule of this file: it adds nothing to CouchDB's dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, BinaryIO

from reactdb.blobs import pieces_of
from reactdb.database import Database
from reactdb.dialects.couchdb.changes import ChangesFeed, ChangesRequest
from reactdb.dialects.couchdb.conflicts import ids_in_conflict, in_conflict, resolve
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.documents import path_of_revisions
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.filters import filter_of
from reactdb.dialects.couchdb.names import database_name
from reactdb.dialects.couchdb.revisions import ATTACHMENTS
from reactdb.dialects.couchdb.trees import parse_rev
from reactdb.replication.peers import (
    AttachmentBytes,
    Bell,
    ChangesPage,
    Peer,
    SourceFailed,
    Subset,
    Transfer,
    Unreadable,
)

__all__ = ["LocalPeer", "Resolver"]

Resolver = Callable[[dict[str, Any], list[dict[str, Any]]], dict[str, Any] | None]
"""Gets the winner and the other live leaves of a document in conflict. Returns the resolved document, or None to leave them."""


class LocalPeer:
    """See the head of this file, and `Peer`."""

    def __init__(
        self, db: Database, table: str, *, resolve: Resolver | None = None, origin: str | None = None
    ) -> None:
        """
        Args:
            resolve: Resolves conflicts of documents that are written here.
            origin: The origin of these writes in the log.
        """
        self._resolve = resolve
        self._has_settled = False
        self._origin = origin
        self._db = db
        self._couch = Couch(db)
        self._table = table
        self._opened: CouchDatabase | None = None
        self.name = f"{self._couch.uuid}/{table}"

    @property
    def _database(self) -> CouchDatabase:
        if self._opened is None:
            self._opened = self._couch.open_table(database_name(self._table))
            self._opened.origin = self._origin
        return self._opened

    def prepare(self, *, create: bool) -> None:
        if create and self._table not in self._db.table_list():
            self._db.table_create(self._table, primary_key="_id", exist_ok=True)
        self._require_database()
        if self._resolve is not None and not self._has_settled:
            # Existing conflicts; a killed run may have left some.
            self._has_settled = True
            self._settle_all(ids_in_conflict(self._database))

    def _require_database(self) -> None:
        """
        Raises:
            CouchError: 404, the database was deleted.
        """
        with self._database.reading():
            pass

    def changes(self, selection: Subset, since: Any, limit: int) -> ChangesPage:
        feed = self._feed(selection, since)
        try:
            return ChangesPage(feed.rows(limit), feed.last_seq, feed.pending)
        finally:
            feed.close()

    def wait(self, selection: Subset, since: Any, limit: int, bell: Bell) -> ChangesPage:
        feed = self._feed(selection, since)
        try:
            while True:
                bell.clear()
                feed.on_ready(bell.set)
                rows = feed.rows(limit)
                if rows or bell.is_stopped:
                    return ChangesPage(rows, feed.last_seq, feed.pending)
                if feed.is_finished:
                    self._require_database()
                bell.wait()
        finally:
            feed.close()

    def _feed(self, selection: Subset, since: Any) -> ChangesFeed:
        chosen = filter_of(self._database, selection.query(), selection.body())
        request = ChangesRequest(
            since=str(since), style="all_docs", filter=chosen, removals=selection.removals
        )
        return self._database.changes(request)

    def missing(self, revisions: Mapping[str, list[str]]) -> dict[str, dict[str, list[str]]]:
        return self._database.revs_diff(revisions)

    def leaves(self, missing: Mapping[str, Mapping[str, list[str]]], other: Peer) -> Iterator[Transfer]:
        for id, difference in missing.items():
            for result in self._database.open_revs(id, difference["missing"], revs=True, latest=True):
                if "ok" in result:
                    yield self._leaf(result["ok"], difference.get("possible_ancestors", []))

    def _leaf(self, document: dict[str, Any], ancestors: list[str]) -> Transfer:
        # The other side has all attachments up to there.
        common = path_of_revisions(document["_revisions"]).newest_of(map(parse_rev, ancestors)) or 0
        sources = {}
        for name, stub in document.get(ATTACHMENTS, {}).items():
            if isinstance(stub, dict) and stub.get("stub") and stub.get("revpos", 0) > common:
                attachment, opened = self._database.attachment(document["_id"], name, document["_rev"])
                sources[name] = AttachmentBytes(attachment["length"], _pieces_of(opened))
        return Transfer(document, sources)

    def has_attachment(self, id: str, revisions: list[str], name: str, stub: Mapping[str, Any]) -> bool:
        if not revisions:
            return False
        for result in self._database.open_revs(id, revisions):
            here = result.get("ok", {}).get(ATTACHMENTS, {}).get(name, {})
            if here.get("digest") == stub.get("digest"):
                return True
        return False

    def write(self, leaves: Iterable[Transfer]) -> list[dict[str, Any] | Unreadable]:
        leaves = list(leaves)
        failures = self._write(leaves)
        self._settle_all(dict.fromkeys(leaf.document["_id"] for leaf in leaves))
        return failures

    def _settle_all(self, ids: Iterable[str]) -> None:
        for id in ids:
            if self._resolve is not None:
                self._settle(id, self._resolve)

    def _settle(self, id: str, decide: Resolver) -> None:
        """Resolve a document's conflict, if it is in one. If it changes meanwhile, decide again."""
        while True:
            winner, others = in_conflict(self._database, id)
            if winner is None or not others:
                return
            document = decide(dict(winner), [dict(other) for other in others])
            if document is None:
                return
            try:
                resolve(self._database, {**document, "_id": id, "_rev": winner["_rev"]}, others)
            except CouchError as error:
                if error.status != 409:
                    raise

    def _write(self, leaves: Iterable[Transfer]) -> list[dict[str, Any] | Unreadable]:
        plain: list[dict[str, Any]] = []
        failures: list[dict[str, Any] | Unreadable] = []
        for leaf in leaves:
            if leaf.sources:
                failures += self._put(leaf)
            else:
                plain.append(leaf.document)
        try:
            return [*failures, *self._database.bulk_docs(plain, new_edits=False)]
        except CouchError:
            # One of them cannot be a document, and nothing was written.
            return failures + [failed for document in plain for failed in self._put(Transfer(document, {}))]

    def _put(self, leaf: Transfer) -> list[dict[str, Any] | Unreadable]:
        attachments = dict(leaf.document.get(ATTACHMENTS, {}))
        with ExitStack() as opened:
            for name in leaf.sources:
                stub = {
                    key: value for key, value in attachments[name].items() if key not in ("stub", "encoding")
                }
                attachments[name] = {**stub, "follows": True}
            document = {**leaf.document, ATTACHMENTS: attachments} if attachments else leaf.document
            try:
                parts = {name: opened.enter_context(source.open()) for name, source in leaf.sources.items()}
                self._database.put(document, new_edits=False, parts=parts)
            except SourceFailed as failure:
                return [Unreadable(document["_id"], document["_rev"], failure.error)]
            except CouchError as error:
                return [{"id": document.get("_id"), "error": error.error, "reason": error.reason}]
        return []

    def get_local(self, id: str) -> dict[str, Any] | None:
        try:
            return self._database.get_local(id)
        except CouchError as error:
            if error.status != 404:
                raise
            return None

    def put_local(self, document: dict[str, Any]) -> None:
        self._database.put_local(document)


def _pieces_of(open: Callable[[], BinaryIO]) -> Callable[[], AbstractContextManager[Iterator[bytes]]]:
    @contextmanager
    def pieces() -> Iterator[Iterator[bytes]]:
        with open() as file:
            yield pieces_of(file)

    return pieces
