"""Changes: the changes of a type or of one resource since a version, as in `$changes`.

A version is a seq of the log. The version of a type is the seq of its newest change, and before the first change the seq of its
table's creation; one look-up finds it, so a poll without news reads no change. The writing transaction assigns seqs, and they
become visible with it, so after a read no change with a lower version can appear.

Every change is returned, not only the newest of a resource. A page has whole commits, so a client can continue from its version.

Rule of this file: it reads one snapshot. `parameters` parses requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, NamedTuple

from reactdb.budget import STEP_BYTES, spend
from reactdb.change import Change
from reactdb.dialects.aidbox.dot_expressions import DotExpression, passes
from reactdb.dialects.aidbox.errors import AidboxError
from reactdb.dialects.aidbox.fhir import to_fhir
from reactdb.dialects.aidbox.names import id_of, keys_of, resource_of
from reactdb.store.catalogue import TableInfo
from reactdb.store.log import read_low_water
from reactdb.store.snapshot import Snapshot, read_document, read_lost_until
from reactdb.values import collation

PAGE: Final = 500
CHANGE_STEPS: Final = 8
"""The steps of a budget for one change, beside its bytes."""
MOST_CHANGES: Final = 10_000
"""The default size of an answer; the next request continues from the answer's version."""


@dataclass(frozen=True, slots=True)
class ChangesQuery:
    """A request for changes.

    Attributes:
        since: The exclusive lower version; None: the request is only for the newest version.
        until: The inclusive upper version, or None.
        filters: They select resources. For a deleted resource its last state counts.
        omit_resources: Resources have only `id` and `resourceType`.
        fhir: Resources are in FHIR's format.
        count: Changes per page; more if a commit is longer. 0: only the total.
        page: From 1.
        cuts_commits: A page has exactly `count` changes, and may cut a commit apart; its version is then the version of the last
            whole commit.
        total: Whether to count all of them.
    """

    since: int | None = None
    until: int | None = None
    filters: tuple[DotExpression, ...] = ()
    omit_resources: bool = False
    fhir: bool = False
    count: int | None = None
    page: int = 1
    cuts_commits: bool = False
    total: bool = False


class VersionedPage(NamedTuple):
    """An answer.

    Attributes:
        version: For the next request. Changes up to it were returned, or do not pass the filters, or are on an earlier page. If
            changes are only counted, it is the request's own version.
        changes: In Aidbox's form; None if only the version was requested.
        total: Their number on all pages, if requested.
        has_more: There are changes behind this page.
        pages: The number of pages, if all changes were counted.
    """

    version: int
    changes: list[dict[str, Any]] | None = None
    total: int | None = None
    has_more: bool = False
    pages: int | None = None

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"version": self.version}
        if self.changes is not None:
            body["changes"] = self.changes
        if self.total is not None:
            body["total"] = self.total
        return body


def type_version(snapshot: Snapshot, table: TableInfo) -> int:
    return snapshot.newest_seq(table)


def resource_version(snapshot: Snapshot, table: TableInfo, id: str) -> int:
    """
    Raises:
        AidboxError: 404, it never existed, or nothing is left of it.
    """
    for key in keys_of(id):
        newest = snapshot.newest(table, key)
        if newest is not None:
            return newest.seq
        seq = _head_seq(snapshot, table, key)
        if seq is not None:
            return seq
    raise AidboxError(404, "not-found", f"there is no {table.name}/{id}")


def changes_of(
    snapshot: Snapshot, table: TableInfo, id: str | None, request: ChangesQuery
) -> VersionedPage | None:
    """The changes of a type, or of one resource. None: nothing has changed, which is 304.

    Raises:
        AidboxError: 404, there is no such resource; 410, the changes after this version are no longer in the log.
    """
    version = type_version(snapshot, table) if id is None else resource_version(snapshot, table, id)
    if request.since is None:
        return VersionedPage(version)
    until = version if request.until is None else min(request.until, version)
    if until <= request.since:
        return None
    oldest = read_lost_until(snapshot.connection, table)
    if request.since < oldest:
        raise history_lost(table, request.since, oldest)
    # The removed history since then belongs to other types.
    since = max(request.since, read_low_water(snapshot.connection))
    changes = (
        _of_type(snapshot, table, since, until)
        if id is None
        else _of_resource(snapshot, table, id, since, until)
    )
    first = next(changes, None)
    return None if first is None else _page(_chain(first, changes), table, request, until)


def history_lost(table: TableInfo, since: int, oldest: int) -> AidboxError:
    return AidboxError(
        410,
        "expired",
        f"the changes of {table.name} since version {since} are no longer kept; read the resources anew, and then the changes "
        f"since their version: the oldest one that can be asked from is {oldest}",
        oldest=oldest,
    )


def _head_seq(snapshot: Snapshot, table: TableInfo, key: bytes) -> int | None:
    """The seq of a resource whose change was compacted away."""
    head = read_document(snapshot.connection, table, key)
    return None if head is None else head[0]


def _chain(first: Change, rest: Iterator[Change]) -> Iterator[Change]:
    yield first
    yield from rest


def _of_type(snapshot: Snapshot, table: TableInfo, since: int, until: int) -> Iterator[Change]:
    while since < until:
        page = snapshot.changes(since, until, table, PAGE)
        yield from page
        if len(page) < PAGE:
            return
        since = page[-1].seq


def _of_resource(snapshot: Snapshot, table: TableInfo, id: str, since: int, until: int) -> Iterator[Change]:
    changes: list[Change] = []
    for key in keys_of(id):
        for change in snapshot.history(table, key):
            spend(CHANGE_STEPS)
            if change.seq <= since:
                break
            if change.seq <= until:
                changes.append(change)
        if changes:
            break
    return iter(changes[::-1])


def _page(changes: Iterable[Change], table: TableInfo, request: ChangesQuery, until: int) -> VersionedPage:
    """One page, and its end. The pages before it are walked through, because their ends depend on commits."""
    if request.count == 0:
        # No change is returned, so the version to continue from is the request's own.
        count = sum(_entry(change, table, request) is not None for change in changes)
        return VersionedPage(request.since or 0, [], count)
    most = request.count or MOST_CHANGES
    entries: list[dict[str, Any]] = []
    page, on_page, total = 1, 0, 0
    # The end of the last whole commit, and the end of the requested page.
    boundary, version = request.since or 0, None
    for _, commit in groupby(changes, key=lambda change: change.commit):
        ended = boundary
        is_first = True
        for change in commit:
            ended = change.seq
            entry = _entry(change, table, request)
            if entry is None:
                continue
            if on_page >= most and (is_first or request.cuts_commits):
                if page == request.page:
                    version = boundary
                    if not request.total:
                        return VersionedPage(version, entries, has_more=True)
                page, on_page = page + 1, 0
            if page == request.page:
                entries.append(entry)
            is_first = False
            on_page += 1
            total += 1
        boundary = ended
    has_more = version is not None
    return VersionedPage(
        until if version is None else version,
        entries,
        total if request.total else None,
        has_more,
        page if request.total else None,
    )


def _entry(change: Change, table: TableInfo, request: ChangesQuery) -> dict[str, Any] | None:
    """A change in Aidbox's form; None if it does not pass. A deletion has the last state."""
    spend(CHANGE_STEPS + len(change.new_bytes or change.old_bytes or b"") // STEP_BYTES)
    if change.is_of_meta_alone:
        # A change that only another dialect has.
        return None
    new, old = change.new_val, change.old_val
    document = old if new is None else new
    resource = (
        {"id": id_of(collation.key_value(change.key_bytes))}
        if document is None
        else resource_of(document, table.primary_key)
    )
    if not passes(resource, request.filters):
        return None
    event = "deleted" if new is None else "created" if old is None else "updated"
    if request.omit_resources:
        resource = {"id": resource["id"], "resourceType": table.name}
    elif request.fhir:
        resource = to_fhir(resource, table.name, change.seq, change.time)
    return {"event": event, "resource": resource}
