"""Routes: the paths of the inspector, their functions, and errors as answers.

All JSON is plain (`reactdb.json.dumps(plain=True)`), and every key is a text (`reactdb.key_spelling.key_text`). An error is
`{"error": sentence}`.

Rule of this file: it finds and calls; what an answer contains is in the other files.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from reactdb import errors, json
from reactdb.database import Database
from reactdb.servers.http.protocol import Bodies, Route
from reactdb.servers.http.request_parts import Asking, RequestRefused
from reactdb.servers.http.responses import JSON, Answer
from reactdb.servers.http.sessions import Authenticator
from reactdb.servers.inspector import edits, log_pages, overview
from reactdb.servers.inspector.change_stream import OpenedStream
from reactdb.servers.inspector.page_files import INDEX, page_file
from reactdb.servers.inspector.parameters import flag, instant, number, primary_key, table_name, text
from reactdb.servers.inspector.row_pages import MOST_ROWS, RowPages

__all__ = ["READING", "ROUTES", "WRITES", "InspectorService", "InspectorSpeaker"]

READING: Final = frozenset({"GET", "HEAD"})
HISTORY: Final = 50
"""Versions of a document in one answer."""
logger = logging.getLogger(__name__)


class InspectorService:
    """What the routes work with.

    Attributes:
        db: The database.
        can_write: Whether there are routes that write.
        rows: Pages of tables.
        editor: Writes and undo; None if nothing is written.
    """

    def __init__(self, db: Database, *, can_write: bool) -> None:
        self.db = db
        self.can_write = can_write
        self.rows = RowPages(db)
        self.editor = edits.InspectorEdits(db) if can_write else None

    def close(self) -> None:
        self.rows.close()


def ok(value: Any) -> Answer:
    return Answer(200, json.dumps(value, plain=True).encode(), JSON)


# ---------------------------------------------------------------------------------------------------------------
# Reading


def read_overview(service: InspectorService, asking: Asking) -> Answer:
    shown = overview.read_overview(service.db, service.can_write, number(asking, "at", None))
    if service.editor is not None:
        shown["undo"] = service.editor.undo_state()
    return ok(shown)


def read_rows(service: InspectorService, asking: Asking) -> Answer:
    page = service.rows.read(
        table_name(asking),
        at=number(asking, "at", None),
        where=text(asking, "where"),
        order=text(asking, "order"),
        is_descending=flag(asking, "desc"),
        offset=number(asking, "offset", 0),
        limit=number(asking, "limit", 50, MOST_ROWS),
        anchor=asking.text("anchor"),
        lead=number(asking, "lead", 0),
    )
    return Answer(200, page.encode(), JSON)


def read_document(service: InspectorService, asking: Asking) -> Answer:
    return ok(
        log_pages.read_document(
            service.db,
            table_name(asking),
            primary_key(asking),
            at=number(asking, "at", None),
            before=number(asking, "before", None),
            limit=number(asking, "limit", HISTORY, log_pages.MOST_CHANGES),
        )
    )


def read_log(service: InspectorService, asking: Asking) -> Answer:
    return ok(
        log_pages.read_log(
            service.db,
            before=number(asking, "before", None),
            limit=number(asking, "limit", 100, log_pages.MOST_CHANGES),
            table=text(asking, "table"),
            origin=asking.text("origin"),
            kind=text(asking, "kind"),
        )
    )


def open_stream(service: InspectorService, asking: Asking) -> OpenedStream:
    return OpenedStream(service.db, number(asking, "after", None))


def read_activity(service: InspectorService, asking: Asking) -> Answer:
    return ok(overview.read_activity(service.db))


def find_seq(service: InspectorService, asking: Asking) -> Answer:
    return ok({"seq": service.db.seq_at(instant(asking, "time"))})


# ---------------------------------------------------------------------------------------------------------------
# Writing


def write(service: InspectorService, asking: Asking) -> Answer:
    if service.editor is None:
        raise RequestRefused(403, "forbidden", READ_ONLY)
    return ok(service.editor.write(asking.parts[1], asking))


READ_ONLY: Final = "The inspector only reads here: begin it with --write, or inspector(db, write=True)."

ROUTES: Final[dict[str, Route]] = {
    "overview": Route(read_overview),
    "rows": Route(read_rows),
    "document": Route(read_document),
    "log": Route(read_log),
    "stream": Route(open_stream),
    "activity": Route(read_activity),
    "seq_at": Route(find_seq),
}
"""What `GET api/...` gives."""
WRITES: Final[dict[str, Route]] = {name: Route(write, Bodies.WHOLE, writes=True) for name in edits.OPERATIONS}
"""What `POST api/...` does."""


def send_file(service: InspectorService, asking: Asking) -> Answer:
    found = page_file(asking.parts[0] if asking.parts else INDEX)
    if found is None:
        raise RequestRefused(404, "not_found", "There is no such file here.")
    return found


class InspectorSpeaker:
    """Finds the function of a request, calls it, and makes an answer of an error: see `http.protocol.Speaker`."""

    def __init__(self, service: InspectorService) -> None:
        self._service = service
        # The gate has checked the user.
        self.authenticator = Authenticator(None)

    def route(self, method: str, parts: list[str], headers: Mapping[str, str]) -> Route:
        is_api = len(parts) == 2 and parts[0] == "api"
        known = {*ROUTES, *WRITES} if is_api else ()
        if is_api and method in READING and parts[1] in ROUTES:
            return ROUTES[parts[1]]
        if is_api and method == "POST" and parts[1] in WRITES:
            if not self._service.can_write:
                raise RequestRefused(403, "forbidden", READ_ONLY)
            return WRITES[parts[1]]
        if (is_api and parts[1] in known) or (len(parts) < 2 and method not in READING):
            raise RequestRefused(405, "method_not_allowed", f"This path has no method {method[:20]}.")
        if len(parts) < 2:
            return Route(send_file)
        raise RequestRefused(404, "not_found", "There is no such path here.")

    def call(self, route: Route, asking: Asking) -> Any:
        return route.answer(self._service, asking)

    def error_of(self, error: BaseException) -> Answer:
        if isinstance(error, RequestRefused):
            status, sentence = error.status, error.sentence
        elif isinstance(error, errors.ReactDBError):
            status = next((number for kind, number in STATUSES if isinstance(error, kind)), 500)
            sentence = str(error)
        else:
            logger.error("a request to the inspector failed", exc_info=error)
            status, sentence = 500, f"The request failed: {type(error).__name__}."
        return Answer(status, json.dumps({"error": sentence}, plain=True).encode(), JSON)


STATUSES: Final[tuple[tuple[type[BaseException], int], ...]] = (
    (errors.Conflict, 409),
    (errors.DuplicateKey, 409),
    (errors.TableNotFound, 404),
    (errors.HistoryLost, 410),
    (errors.ReadOnlyDatabase, 403),
    (errors.DatabaseClosed, 503),
    (errors.DatabaseBusy, 503),
    (errors.UsageError, 400),
)
"""The status of each kind of error; the first that fits."""
