"""Bundles: many requests in one, `POST /`.

    transaction    all of them, or none; one commit of the log
    batch          each alone, with its own answer

In a transaction, writes are executed in FHIR's order (DELETE, POST, PUT and PATCH, GET), and a reference to the `fullUrl` of a
new entry becomes a reference to its type and id. Source: http://hl7.org/fhir/R4/http.html#transaction.

Rule of this file: the entries of a bundle, and their order. `resources` executes an entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from reactdb.budget import CALL_STEPS, spend, spend_per_element
from reactdb.dialects.aidbox.errors import AidboxError
from reactdb.dialects.aidbox.names import check_id
from reactdb.dialects.aidbox.resources import Writing, Written, etag_of
from reactdb.identifiers import new_key

ORDER: Final = {"DELETE": 0, "POST": 1, "PUT": 2, "PATCH": 2, "GET": 3}
STATUSES: Final = {"created": "201", "updated": "200", "unchanged": "200", "deleted": "200"}


class BundledRequest(NamedTuple):
    """One request of a bundle.

    Attributes:
        type, id: Of the resource; no id in a POST, or a search.
        parameters: Of the URL.
        resource: The body.
        if_match: The required version.
        full_url: Its name in other entries.
    """

    method: str
    type: str
    id: str | None
    parameters: list[tuple[str, str]]
    resource: Any
    if_match: str | None
    full_url: str | None


def entries_of(bundle: object) -> tuple[str, list[BundledRequest]]:
    """(transaction or batch, the requests).

    Raises:
        AidboxError: 400, it is no such bundle.
    """
    if not isinstance(bundle, Mapping) or bundle.get("resourceType", "Bundle") != "Bundle":
        raise AidboxError(400, "invalid", "the body is a Bundle")
    kind, entries = bundle.get("type"), bundle.get("entry", [])
    if kind not in ("transaction", "batch"):
        raise AidboxError(400, "invalid", f"a bundle has the type transaction or batch: not {kind!r}")
    if not isinstance(entries, list):
        raise AidboxError(400, "invalid", "`entry` is a list")
    return str(kind), [_entry(entry, number) for number, entry in enumerate(entries)]


def _entry(entry: object, number: int) -> BundledRequest:
    spend(CALL_STEPS)
    where = f"entry {number}"
    request = entry.get("request") if isinstance(entry, Mapping) else None
    if not isinstance(entry, Mapping) or not isinstance(request, Mapping):
        raise AidboxError(400, "invalid", f"{where} has a `request` with `method` and `url`")
    method, url = request.get("method"), request.get("url")
    if not isinstance(method, str) or method.upper() not in ORDER or not isinstance(url, str):
        raise AidboxError(
            400, "invalid", f"{where}: a request has a method of {', '.join(ORDER)}, and a `url`"
        )
    path, _, query = url.partition("?")
    parts = [unquote(part) for part in path.strip("/").split("/")]
    method = method.upper()
    wanted = (1,) if method == "POST" else (1, 2) if method == "GET" else (2,)
    if len(parts) not in wanted or not all(parts):
        raise AidboxError(
            400,
            "invalid",
            f"{where}: {method} is of /type{'' if method == 'POST' else '/id'}: not of {url!r}",
        )
    resource = entry.get("resource")
    if method in ("POST", "PUT") and not isinstance(resource, Mapping):
        raise AidboxError(400, "invalid", f"{where}: {method} has a `resource`")
    match, full_url = request.get("ifMatch"), entry.get("fullUrl")
    return BundledRequest(
        method,
        parts[0],
        parts[1] if len(parts) == 2 else None,
        parse_qsl(query, keep_blank_values=True),
        resource,
        match if isinstance(match, str) else None,
        full_url if isinstance(full_url, str) else None,
    )


def carry_out(writing: Writing, entry: BundledRequest) -> Written:
    """Execute a request that writes."""
    spend(CALL_STEPS)
    if entry.method == "POST":
        return writing.create(entry.type, entry.resource)
    assert entry.id is not None
    if entry.method == "PUT":
        return writing.put(entry.type, entry.id, entry.resource, entry.if_match)
    if entry.method == "PATCH":
        return writing.patch(entry.type, entry.id, entry.resource, entry.if_match)
    return writing.delete(entry.type, entry.id, entry.if_match)


def in_order(entries: list[BundledRequest]) -> list[int]:
    """The places of entries in the order of execution in a transaction.

    Raises:
        AidboxError: 400, one resource is written twice.
    """
    seen = set()
    for entry in spend_per_element(entries):
        named = (entry.type, entry.id)
        if entry.method != "GET" and entry.id is not None:
            if named in seen:
                raise AidboxError(
                    400, "invalid", f"{entry.type}/{entry.id} is written twice in one transaction"
                )
            seen.add(named)
    return sorted(range(len(entries)), key=lambda place: ORDER[entries[place].method])


def resolve_references(entries: list[BundledRequest]) -> list[BundledRequest]:
    """The entries with an id for every new resource, and with references to these ids.

    Raises:
        AidboxError: 422, an id is invalid.
    """
    made, named = [], {}
    for entry in entries:
        spend(CALL_STEPS)
        if entry.method == "POST":
            given = entry.resource.get("id")
            id = new_key() if given is None else check_id(given)
            entry = entry._replace(resource={**entry.resource, "id": id})
            if entry.full_url is not None:
                named[entry.full_url] = (entry.type, id)
        elif entry.full_url is not None and entry.id is not None:
            named[entry.full_url] = (entry.type, entry.id)
        made.append(entry)
    if not named:
        return made
    return [entry._replace(resource=_replace_references(entry.resource, named)) for entry in made]


def _replace_references(value: Any, named: Mapping[str, tuple[str, str]]) -> Any:
    if isinstance(value, (list, Mapping)):
        spend(1 + len(value))
    if isinstance(value, list):
        return [_replace_references(one, named) for one in value]
    if not isinstance(value, Mapping):
        return value
    result = {name: _replace_references(one, named) for name, one in value.items()}
    target = named.get(value["reference"]) if isinstance(value.get("reference"), str) else None
    if target is not None:
        result["reference"] = f"{target[0]}/{target[1]}"
    target = named.get(value["uri"]) if isinstance(value.get("uri"), str) else None
    if target is not None:
        del result["uri"]
        result = {"resourceType": target[0], "id": target[1], **result}
    return result


def entry_of(written: Written, body: dict[str, Any] | None, modified: str | None) -> dict[str, Any]:
    """The entry for the answer of a write."""
    response = {"status": STATUSES[written.event], "etag": etag_of(written.version)}
    if modified is not None:
        response["lastModified"] = modified
    if written.event == "created":
        response["location"] = f"/{written.type}/{written.fields['id']}/_history/{written.version}"
    return {"response": response} if body is None else {"resource": body, "response": response}


def refusal_of(error: AidboxError) -> dict[str, Any]:
    """The entry for a refused request of a batch."""
    return {"response": {"status": str(error.status), "outcome": error.outcome}}


def bundle_of(kind: str, entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {"resourceType": "Bundle", "type": f"{kind}-response", "entry": entries}
