"""Aidbox: a file as an Aidbox server sees it: `reactdb.aidbox(db)`.

    box = reactdb.aidbox(db)
    box["Patient"].create({"id": "pt-1", "name": [{"family": "Smith"}]})
    box["Patient"].changes(version=1)       {"version": 2, "changes": [...]}, or None: nothing has changed
    box.bundle({"type": "transaction", "entry": [...]})

Every table is a resource type, and native documents are resources. See `names`.

Rule of this file: it opens snapshots and transactions, and closes them. Any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from reactdb.budget import CALL_STEPS, check, in_turn, spend, spend_per_element
from reactdb.database import Database
from reactdb.dialects.aidbox import bundles
from reactdb.dialects.aidbox.changes import ChangesQuery, VersionedPage, changes_of, resource_version
from reactdb.dialects.aidbox.errors import AidboxError
from reactdb.dialects.aidbox.fhir import instant
from reactdb.dialects.aidbox.names import keys_of
from reactdb.dialects.aidbox.parameters import Parameters, parse_changes, to_parameters
from reactdb.dialects.aidbox.resources import Resource, Writing, Written, no_type, read_resource
from reactdb.dialects.aidbox.search import SearchPage, bundle_of, search
from reactdb.errors import DuplicateIndexKey, InvalidOption, ReadOnlyDatabase, format_value
from reactdb.query import Get, Query
from reactdb.session import session_of
from reactdb.store.catalogue import TableInfo
from reactdb.store.snapshot import Snapshot
from reactdb.store.transaction import WriteTransaction

if TYPE_CHECKING:
    from reactdb.feeds.reader import FeedReader

T = TypeVar("T")


def aidbox(db: Database) -> Aidbox:
    """A database as Aidbox has it: its tables are resource types. `aidbox(db)["Patient"].changes(version=1)`.

    Raises:
        InvalidOption: It is no open Database.
    """
    if not isinstance(db, Database):
        raise InvalidOption(f"aidbox takes an open Database, as `connect` returns it, not {format_value(db)}")
    return Aidbox(db)


class Aidbox:
    """See the head of this file."""

    def __init__(self, db: Database) -> None:
        self._session = session_of(db)

    def __getitem__(self, type: str) -> ResourceType:
        """A resource type. It may be missing: its first resource makes it."""
        return ResourceType(self, type)

    def __repr__(self) -> str:
        return f"<Aidbox of {self._session.engine.path}>"

    def types(self) -> list[str]:
        """The names of all resource types, sorted."""
        return sorted(self._session.tables())

    def bundle(self, bundle: Mapping[str, Any]) -> dict[str, Any]:
        """Execute a Bundle of the type `transaction` (all or nothing, one commit) or `batch`, and return the Bundle of answers.

        Raises:
            AidboxError: 400, it is no Bundle; in a transaction, the refusal of the first failed entry.
        """
        kind, entries = bundles.entries_of(bundle)
        if kind == "transaction":
            return bundles.bundle_of(kind, self._transaction(entries))
        return bundles.bundle_of(kind, [self._one(entry) for entry in entries])

    def _transaction(self, entries: list[bundles.BundledRequest]) -> list[dict[str, Any]]:
        order = bundles.in_order(entries)
        entries = bundles.resolve_references(entries)

        def work(transaction: WriteTransaction) -> dict[int, Written]:
            writing = Writing(transaction)
            return {
                place: bundles.carry_out(writing, entries[place])
                for place in order
                if entries[place].method != "GET"
            }

        written = self.write(work)
        times = self._times(written.values())
        return [
            self._render_entry(written[place], times[written[place].version])
            if place in written
            else self._read(entry)
            for place, entry in spend_per_element(enumerate(entries))
        ]

    def _one(self, entry: bundles.BundledRequest) -> dict[str, Any]:
        check()
        try:
            if entry.method == "GET":
                return self._read(entry)
            written = self.write(lambda transaction: bundles.carry_out(Writing(transaction), entry))
            return self._render_entry(written, self._times([written])[written.version])
        except AidboxError as error:
            return bundles.refusal_of(error)

    def _read(self, entry: bundles.BundledRequest) -> dict[str, Any]:
        of_type = self[entry.type]
        if entry.id is None:
            return {"resource": bundle_of(of_type.find(entry.parameters), []), "response": {"status": "200"}}
        resource = of_type.resource(entry.id)
        return {"resource": resource.body, "response": {"status": "200", "etag": resource.etag}}

    def _render_entry(self, written: Written, time: int | None) -> dict[str, Any]:
        resource = Resource(written.type, written.fields, written.version, time)
        modified = None if time is None else instant(time)
        return bundles.entry_of(written, resource.body, modified)

    def _times(self, written: Iterable[Written]) -> dict[int, int | None]:
        """When these versions were made, by version; None where the log no longer has it."""
        times: dict[int, int | None] = {}
        with self._session.read() as snapshot:
            for one in spend_per_element(written):
                entry = snapshot.entry(one.version)
                times[one.version] = None if entry is None else entry.time
        return times

    # -----------------------------------------------------------------------------------------------------------
    # For the HTTP server

    def reading(self, type: str, read: Callable[[Snapshot, TableInfo], T]) -> T:
        """The result of `read` in one snapshot.

        Raises:
            AidboxError: 404, there is no such type.
        """
        spend(CALL_STEPS)
        with self._session.read() as snapshot:
            table = snapshot.table(type)
            if table is None:
                raise no_type(type)
            return read(snapshot, table)

    def write(self, work: Callable[[WriteTransaction], T]) -> T:
        """One commit.

        Raises:
            AidboxError: 403, the file is only read; 409, a unique index would have a value twice; errors of `work`: then
                nothing was written.
        """

        def one(transaction: WriteTransaction) -> T:
            with in_turn():
                spend(CALL_STEPS)
                return work(transaction)

        try:
            return self._session.transact(one)
        except ReadOnlyDatabase as error:
            raise AidboxError(403, "forbidden", str(error)) from None
        except DuplicateIndexKey as error:
            raise AidboxError(409, "duplicate", str(error)) from None

    def resource_of(self, written: Written) -> Resource:
        """The written resource, in Aidbox's form."""
        time = self._times([written])[written.version]
        return Resource(written.type, written.fields, written.version, time)

    def watch(self, type: str, id: str | None, on_ready: Callable[[], object]) -> FeedReader:
        """A reader that calls `on_ready` when a type, or one resource, has changed: poll it until it is empty, and then read the
        changes. Close it.

        Raises:
            AidboxError: 404, there is no such type.
        """
        table = self._session.find(type)
        if table is None:
            raise no_type(type)
        keys = [] if id is None else keys_of(id)
        query = Query(type)
        if len(keys) == 1:
            query = query.then(Get(id, keys[0]))
        return self._session.reader(query, {}, on_ready, purpose="aidbox")


class ResourceType:
    """One resource type: `box["Patient"]`. Answers are those of the HTTP interface, as Python values."""

    def __init__(self, box: Aidbox, name: str) -> None:
        self._box = box
        self.name = name

    def __repr__(self) -> str:
        return f"<resource type {self.name}>"

    # -----------------------------------------------------------------------------------------------------------
    # $changes

    def version(self, id: str | None = None) -> int:
        """The version of the type, or of one resource.

        Raises:
            AidboxError: 404, there is no such type or resource.
        """

        def read(snapshot: Snapshot, table: TableInfo) -> int:
            return snapshot.newest_seq(table) if id is None else resource_version(snapshot, table, id)

        return self._box.reading(self.name, read)

    def changes(
        self,
        version: int | str | tuple[int, int] | None = None,
        *,
        id: str | None = None,
        where: Mapping[str, Any] | None = None,
        omit_resources: bool = False,
        fhir: bool = False,
        count: int | None = None,
        page: int | None = None,
        total: str | None = None,
        cut_commits: bool = False,
    ) -> dict[str, Any] | None:
        """The changes since a version: `{"version": ..., "changes": [...]}`, as from `GET /{type}/$changes`.

        Args:
            version: The exclusive lower version; or (exclusive lower, inclusive upper), also as a text `"2,5"`. None: only the
                version is returned.
            id: Of one resource alone.
            where: Dot expressions: `{".name.0.family": "Wood"}`.
            omit_resources: Resources have only `id` and `resourceType`.
            fhir: Resources in FHIR's format.
            count: Changes per page, at most 10,000; more if a commit is longer, unless `cut_commits`. 0: only `total`, and
                `version` is the request's own.
            page: From 1.
            total: `accurate` counts all pages' changes.

        Returns:
            None if nothing has changed, which is 304 over HTTP.

        Raises:
            AidboxError: 400, an option is malformed; 404, the type or resource does not exist; 410, changes after this version
                are no longer in the log: `details["oldest"]` is the oldest possible version.
        """
        if isinstance(version, tuple):
            version = ",".join(map(str, version))
        conditions = {
            name if name.startswith(".") else "." + name: _text(value)
            for name, value in (where or {}).items()
        }
        request = parse_changes(
            to_parameters(
                {
                    "version": version if version is None else str(version),
                    "omit-resources": omit_resources,
                    "fhir": fhir,
                    "_count": count if count is None else str(count),
                    "_page": page if page is None else str(page),
                    "_total": total,
                    "_cut-commits": cut_commits,
                    **conditions,
                }
            )
        )
        answer = self.read_changes(request, id)
        return None if answer is None else answer.body

    def read_changes(self, request: ChangesQuery, id: str | None = None) -> VersionedPage | None:
        """`changes`, with parsed options."""
        return self._box.reading(self.name, lambda snapshot, table: changes_of(snapshot, table, id, request))

    # -----------------------------------------------------------------------------------------------------------
    # Resources

    def read(self, id: str) -> dict[str, Any]:
        """
        Raises:
            AidboxError: 404, there is no such resource; 410, it was deleted.
        """
        return self.resource(id).body

    def resource(self, id: str) -> Resource:
        """The same, with its version and time."""
        return self._box.reading(self.name, lambda snapshot, table: read_resource(snapshot, table, id))

    def create(self, resource: Mapping[str, Any]) -> dict[str, Any]:
        """A new resource, under its `id` or a new one.

        Raises:
            AidboxError: 409, the id exists, or the value of a unique index; 400, 422: it cannot be stored.
        """
        return self._write(lambda writing: writing.create(self.name, _object(resource)))

    def put(
        self, id: str, resource: Mapping[str, Any], *, if_match: int | str | None = None
    ) -> dict[str, Any]:
        """Replace the resource, or make it.

        Args:
            if_match: Its required version.

        Raises:
            AidboxError: 412, it has another version; 409, a unique index has a value of it; 400, 422: it cannot be stored.
        """
        match = None if if_match is None else str(if_match)
        return self._write(lambda writing: writing.put(self.name, id, _object(resource), match))

    def patch(self, id: str, patch: Any, *, if_match: int | str | None = None) -> dict[str, Any]:
        """Merge an object into a resource (RFC 7396), or apply a list of operations to it (RFC 6902).

        Raises:
            AidboxError: 404, it does not exist; 412, it has another version; 400, 422: the patch is malformed, or cannot be
                applied.
        """
        match = None if if_match is None else str(if_match)
        return self._write(lambda writing: writing.patch(self.name, id, patch, match))

    def delete(self, id: str, *, if_match: int | str | None = None) -> dict[str, Any]:
        """Delete a resource, and give its last state.

        Raises:
            AidboxError: 404, it does not exist; 412, it has another version.
        """
        match = None if if_match is None else str(if_match)
        return self._write(lambda writing: writing.delete(self.name, id, match))

    def search(self, where: Mapping[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        """The resources that pass dot expressions, as a Bundle of the type `searchset`.

        Args:
            where: `{".name.0.family": "Wood"}`.
            options: `count` (100; at most 10,000; 0: only `total`), `page` (1), `total` (`accurate`).

        Raises:
            AidboxError: 400, an option is malformed; 404, there is no such type.
        """
        conditions = {
            name if name.startswith(".") else "." + name: _text(value)
            for name, value in (where or {}).items()
        }
        return bundle_of(
            self.find(
                to_parameters({**{f"_{name}": str(value) for name, value in options.items()}, **conditions})
            ),
            [],
        )

    def find(self, parameters: Parameters) -> SearchPage:
        """`search`, by the parameters of a URL."""
        return self._box.reading(self.name, lambda snapshot, table: search(snapshot, table, parameters))

    def _write(self, write: Callable[[Writing], Written]) -> dict[str, Any]:
        return self._box.resource_of(self._box.write(lambda transaction: write(Writing(transaction)))).body


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _object(resource: object) -> Mapping[str, Any]:
    if not isinstance(resource, Mapping):
        raise AidboxError(400, "invalid", "a resource is an object")
    return resource
