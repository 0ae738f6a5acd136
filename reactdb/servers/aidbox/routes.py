"""Aidbox's paths: the function for each method of each path, and its answers.

    /                           POST: a Bundle
    /{type}                     GET: search; POST: a new resource
    /{type}/{id}                GET, PUT, PATCH, DELETE
    /{type}/$changes            GET: the changes since a version; `wait=30` waits for one, and
                                `Accept: text/event-stream` follows
    /{type}/{id}/$changes       the same of one resource

Rule of this file: requests become calls of the dialect, and the results become answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from email.utils import formatdate
from typing import Any, Final
from urllib.parse import quote, urlencode

from reactdb import errors
from reactdb.dialects.aidbox.aidbox import Aidbox
from reactdb.dialects.aidbox.changes import ChangesQuery, VersionedPage
from reactdb.dialects.aidbox.errors import AidboxError, outcome
from reactdb.dialects.aidbox.parameters import Parameters, number, page_size, parse_changes
from reactdb.dialects.aidbox.resources import Resource, Writing, Written, version_of
from reactdb.dialects.aidbox.search import bundle_of
from reactdb.feeds.reader import FeedReader
from reactdb.servers.aidbox.event_streams import OpenedEvents
from reactdb.servers.aidbox.media_types import read_body, render
from reactdb.servers.http.protocol import Bodies, Deferred, Opened, Route
from reactdb.servers.http.request_parts import Asking, RequestRefused
from reactdb.servers.http.responses import Answer, logger
from reactdb.servers.http.sessions import Authenticator

__all__ = ["AidboxSpeaker"]

MOST_WAIT_S: Final = 300
CHANGES: Final = "$changes"
EVENTS: Final = "text/event-stream"


class AidboxSpeaker:
    """Aidbox's language, as an application needs it."""

    def __init__(self, box: Aidbox, authenticator: Authenticator) -> None:
        self._box = box
        self.authenticator = authenticator

    def route(self, method: str, parts: list[str], headers: Mapping[str, str]) -> Route:
        """
        Raises:
            AidboxError: 404, there is no such path; 405.
        """
        table = _table(parts)
        match = table.get("GET" if method == "HEAD" else method)
        if match is None:
            allowed = ", ".join([*table, *(["HEAD"] if "GET" in table else [])])
            raise AidboxError(405, "not-supported", f"only {allowed} here", allow=allowed)
        return match

    def call(self, route: Route, asking: Asking) -> Answer | Opened | Deferred:
        try:
            answer: Answer | Opened | Deferred = route.answer(self._box, asking)
            return answer
        except Exception as error:
            return self._refused(error, asking.headers)

    def error_of(self, error: BaseException) -> Answer:
        return self._refused(error, {})

    def _refused(self, error: BaseException, headers: Mapping[str, str]) -> Answer:
        if isinstance(error, AidboxError):
            body, content_type = render(error.outcome, headers)
            return Answer(
                error.status,
                body,
                content_type,
                {"allow": error.details["allow"]} if error.status == 405 else {},
            )
        if isinstance(error, RequestRefused):
            code = {401: "login", 403: "forbidden"}.get(error.status, "processing")
            body, content_type = render(outcome(code, error.sentence), headers)
            return Answer(error.status, body, content_type)
        for kind, status, code in REFUSALS:
            if isinstance(error, kind):
                body, content_type = render(outcome(code, str(error)), headers)
                return Answer(status, body, content_type)
        logger.error("a request failed", exc_info=error)
        body, content_type = render(outcome("exception", type(error).__name__), headers)
        return Answer(500, body, content_type)


# The first matching class decides the answer.
REFUSALS: Final[tuple[tuple[type[BaseException], int, str], ...]] = (
    (errors.ReadOnlyDatabase, 403, "forbidden"),
    (errors.TableNotFound, 404, "not-found"),
    (errors.HistoryLost, 410, "expired"),
    (errors.ResourceLimit, 413, "too-long"),
    (errors.UsageError, 422, "invalid"),
    (errors.DatabaseBusy, 503, "transient"),
    (errors.DiskFull, 507, "no-store"),
    (errors.ReactDBError, 500, "exception"),
)


# ---------------------------------------------------------------------------------------------------------------
# Answers


def render_answer(value: Any, asking: Asking, status: int = 200, **headers: str) -> Answer:
    body, content_type = render(value, asking.headers)
    return Answer(
        status, body, content_type, {name.replace("_", "-"): text for name, text in headers.items()}
    )


def _of_resource(resource: Resource, asking: Asking, status: int = 200) -> Answer:
    headers = {"etag": resource.etag}
    if resource.time is not None:
        headers["last_modified"] = formatdate(resource.time / 1_000, usegmt=True)
    if status == 201:
        headers["location"] = (
            f"{asking.base}/{quote(resource.type)}/{quote(resource.fields['id'], errors='replace')}"
        )
    return render_answer(resource.body, asking, status, **headers)


# ---------------------------------------------------------------------------------------------------------------
# $changes


def _changes(box: Aidbox, asking: Asking) -> Answer | Opened | Deferred:
    type = asking.parts[0]
    id = asking.parts[1] if len(asking.parts) == 3 else None
    request = parse_changes(asking.query)
    seconds = number(asking.query, "wait", 0, MOST_WAIT_S)
    of_type = box[type]
    if EVENTS in asking.headers.get("accept", "").lower():
        return _events(box, asking, request, id)

    def read_page() -> Answer | None:
        page = of_type.read_changes(request, id)
        return None if page is None else render_answer(_with_links(page, asking, request), asking)

    answer = read_page()
    if answer is not None:
        return answer
    late = Answer(304)
    if not seconds:
        return late
    watching = Watching(box, type, id)

    def read_again() -> Answer | None:
        watching.drain()
        return read_page()

    return Deferred(read_again, late, watching.begin, seconds)


def _events(box: Aidbox, asking: Asking, request: ChangesQuery, id: str | None) -> Answer | Opened:
    of_type = box[asking.parts[0]]
    if request.count == 0:
        raise AidboxError(
            400, "invalid", "_count=0 only counts changes, and a stream of events has no end: leave it out"
        )
    event_id = asking.headers.get("last-event-id")
    since = version_of(event_id) if event_id is not None else None
    if since is None:
        since = of_type.version(id) if request.since is None else request.since
    # So that lost history becomes a status before the stream starts.
    of_type.read_changes(replace(request, since=since, count=1, page=1), id)
    if asking.method == "HEAD":
        return Answer(200, b"", EVENTS)
    watching = Watching(box, asking.parts[0], id)

    def page(after: int) -> VersionedPage | None:
        watching.drain()
        try:
            return of_type.read_changes(replace(request, since=after, page=1, count=request.count or 100), id)
        except errors.ReactDBError as error:
            raise _as_event(error) from error

    return OpenedEvents(page, since, watching.begin)


def _as_event(error: errors.ReactDBError) -> AidboxError:
    """An error of a stream whose status was sent before: its client gets it as an event."""
    if isinstance(error, AidboxError):
        return error
    status, code = next(one[1:] for one in REFUSALS if isinstance(error, one[0]))
    return AidboxError(status, code, str(error))


class Watching:
    """A reader that is drained before each try: it only wakes the waiting request."""

    def __init__(self, box: Aidbox, type: str, id: str | None) -> None:
        self._what = box, type, id
        self._reader: FeedReader | None = None

    def begin(self, wake: Callable[[], None]) -> FeedReader:
        box, type, id = self._what
        try:
            self._reader = box.watch(type, id, wake)
        except errors.ReactDBError as error:
            raise _as_event(error) from error
        return self._reader

    def drain(self) -> None:
        # If the type or the file is gone, the next try raises the error.
        with suppress(errors.ReactDBError):
            while self._reader is not None and self._reader.poll():
                pass


def _with_links(page: VersionedPage, asking: Asking, request: ChangesQuery) -> dict[str, Any]:
    body = page.body
    if page.changes is not None and page_size(asking.query):
        body["link"] = _links(asking, request.page, page.pages, has_more=page.has_more)
    return body


def _links(asking: Asking, page: int, pages: int | None, *, has_more: bool) -> list[dict[str, str]]:
    """The links to the pages around this page, as in a search."""
    wanted = {"first": 1, "self": page}
    if page > 1:
        wanted["previous"] = page - 1
    if has_more:
        wanted["next"] = page + 1
    if pages is not None:
        wanted["last"] = max(1, pages)
    return [{"relation": word, "url": _url(asking, place)} for word, place in wanted.items()]


def _url(asking: Asking, page: int) -> str:
    query: Parameters = [(name, value) for name, value in asking.query if name != "_page"]
    path = "/".join(quote(part, safe="$") for part in asking.parts)
    return f"{asking.base}/{path}?{urlencode([*query, ('_page', str(page))], safe='$,')}"


# ---------------------------------------------------------------------------------------------------------------
# Resources


def _search(box: Aidbox, asking: Asking) -> Answer:
    page = box[asking.parts[0]].find(asking.query)
    if not page.size:
        # FHIR: no entries, and no links to pages.
        return render_answer(bundle_of(page, [{"relation": "self", "url": _url(asking, 1)}]), asking)
    pages = None if page.total is None else -(-page.total // page.size)
    return render_answer(bundle_of(page, _links(asking, page.page, pages, has_more=page.has_more)), asking)


def _read(box: Aidbox, asking: Asking) -> Answer:
    resource = box[asking.parts[0]].resource(asking.parts[1])
    known = asking.headers.get("if-none-match")
    if known is not None and version_of(known) == resource.version:
        return Answer(304, headers={"etag": resource.etag})
    return _of_resource(resource, asking)


def _create(box: Aidbox, asking: Asking) -> Answer:
    return _write(box, asking, lambda writing: writing.create(asking.parts[0], _resource(asking)))


def _put(box: Aidbox, asking: Asking) -> Answer:
    type, id = asking.parts
    is_new = asking.headers.get("if-none-match", "").strip() == "*"
    resource = _resource(asking)
    match = asking.headers.get("if-match")
    return _write(box, asking, lambda writing: writing.put(type, id, resource, match, is_new=is_new))


def _patch(box: Aidbox, asking: Asking) -> Answer:
    type, id = asking.parts
    patch = read_body(asking.body, asking.headers)
    match = asking.headers.get("if-match")
    return _write(box, asking, lambda writing: writing.patch(type, id, patch, match))


def _delete(box: Aidbox, asking: Asking) -> Answer:
    type, id = asking.parts
    match = asking.headers.get("if-match")
    return _write(box, asking, lambda writing: writing.delete(type, id, match))


def _bundle(box: Aidbox, asking: Asking) -> Answer:
    return render_answer(box.bundle(_resource(asking)), asking)


def _write(box: Aidbox, asking: Asking, write: Callable[[Writing], Written]) -> Answer:
    written = box.write(lambda transaction: write(Writing(transaction)))
    return _of_resource(box.resource_of(written), asking, 201 if written.event == "created" else 200)


def _resource(asking: Asking) -> dict[str, Any]:
    resource = read_body(asking.body, asking.headers)
    if not isinstance(resource, dict):
        raise AidboxError(400, "structure", "the body is an object")
    return resource


# ---------------------------------------------------------------------------------------------------------------
# Paths

Table = Mapping[str, Route]
ROOT: Final[Table] = {"POST": Route(_bundle, Bodies.WHOLE, writes=True)}
TYPE: Final[Table] = {"GET": Route(_search), "POST": Route(_create, Bodies.WHOLE, writes=True)}
RESOURCE: Final[Table] = {
    "GET": Route(_read),
    "PUT": Route(_put, Bodies.WHOLE, writes=True),
    "PATCH": Route(_patch, Bodies.WHOLE, writes=True),
    "DELETE": Route(_delete, writes=True),
}
OF_CHANGES: Final[Table] = {"GET": Route(_changes)}


def _table(parts: list[str]) -> Table:
    """
    Raises:
        AidboxError: 404.
    """
    if parts and parts[-1] == CHANGES and len(parts) in (2, 3):
        return OF_CHANGES
    if len(parts) < 3 and not any(part.startswith("$") for part in parts):
        return (ROOT, TYPE, RESOURCE)[len(parts)]
    raise AidboxError(404, "not-found", f"there is nothing at /{'/'.join(parts)}")
