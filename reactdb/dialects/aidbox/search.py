"""Search: the resources of a type that pass dot expressions, in pages, as a Bundle of the type `searchset`.

Resources come in the order of their primary keys. A page is counted from the first resource each time, as in Aidbox: if others
write meanwhile, a client that reads page after page may miss a resource. `$changes` with an upper version misses none.

Rule of this file: it reads one snapshot. The server makes the URLs of links.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from reactdb.budget import CALL_STEPS, STEP_BYTES, spend
from reactdb.dialects.aidbox.dot_expressions import dot_expressions, passes
from reactdb.dialects.aidbox.names import keys_of, resource_of
from reactdb.dialects.aidbox.parameters import (
    SEARCH,
    Parameters,
    check_known,
    has_total,
    last,
    number,
    page_size,
)
from reactdb.dialects.aidbox.resources import Resource, resource_at
from reactdb.store.catalogue import TableInfo
from reactdb.store.snapshot import LEAST, Snapshot, read_document
from reactdb.values import codec

COUNT: Final = 100
ROWS: Final = 500
ROW_STEPS: Final = 8
"""The steps of a budget for one resource, beside its bytes."""


class SearchPage(NamedTuple):
    """A page of results.

    Attributes:
        resources: The page's resources.
        total: Their number on all pages; None if they were not counted.
        page, size: The page's number, and the resources per page. A size of 0: only a count.
        has_more: There is another page.
    """

    resources: list[Resource]
    total: int | None
    page: int
    size: int
    has_more: bool


def search(snapshot: Snapshot, table: TableInfo, parameters: Parameters) -> SearchPage:
    """
    Raises:
        AidboxError: 400, a parameter is unknown or malformed.
    """
    check_known(parameters, SEARCH)
    filters = dot_expressions(parameters)
    size = page_size(parameters)
    count = COUNT if size is None else size
    page = number(parameters, "_page", 1, 10**9) or 1
    total_option = has_total(parameters)
    counts = total_option is None or total_option or not count
    first, resources, total = (page - 1) * count, [], 0
    ids = last(parameters, "_id")
    if ids is None and not filters:
        # Every resource is a result, so those of other pages are not read.
        rows = snapshot.rows(table, limit=count + 1, offset=first)
        for key, body in rows[:count]:
            spend(ROW_STEPS + len(body) // STEP_BYTES)
            resources.append(_resource_of(snapshot, table, key))
        number_of_all = snapshot.count(table) if counts else None
        return SearchPage(resources, number_of_all, page, count, has_more=0 < count < len(rows))
    for key, body in _rows(snapshot, table, ids):
        spend(ROW_STEPS + len(body) // STEP_BYTES)
        if filters and not passes(resource_of(codec.decode(body), table.primary_key), filters):
            continue
        if first <= total < first + count:
            resources.append(_resource_of(snapshot, table, key))
        elif total >= first + count and not counts:
            return SearchPage(resources, None, page, count, has_more=True)
        total += 1
    return SearchPage(resources, total if counts else None, page, count, has_more=0 < count < total - first)


def _resource_of(snapshot: Snapshot, table: TableInfo, key: bytes) -> Resource:
    head = read_document(snapshot.connection, table, key)
    assert head is not None
    return resource_at(snapshot, table, *head)


def _rows(snapshot: Snapshot, table: TableInfo, ids: str | None) -> Iterator[tuple[bytes, bytes]]:
    """(key, encoded document)."""
    if ids is not None:
        for id in dict.fromkeys(ids.split(",")):
            spend(CALL_STEPS)
            for key in keys_of(id):
                body = snapshot.get(table, key)
                if body is not None:
                    yield key, body
                    break
        return
    start = LEAST
    while True:
        rows = snapshot.rows(table, start, limit=ROWS)
        yield from rows
        if len(rows) < ROWS:
            return
        start = rows[-1].key + b"\x00"


def bundle_of(page: SearchPage, links: list[dict[str, str]]) -> dict[str, Any]:
    """The Bundle of a page."""
    body: dict[str, Any] = {"resourceType": "Bundle", "type": "searchset"}
    if page.total is not None:
        body["total"] = page.total
    return {**body, "link": links, "entry": [{"resource": one.body} for one in page.resources]}
