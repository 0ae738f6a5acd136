"""Routes: the function for each method of each path, its kind of body, and whether it writes.

    found = route("POST", ["people", "_bulk_docs"])
    found.answer(service, asking)

Rule of this file: a table. Any other path is a document or an attachment.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from reactdb import __version__
from reactdb.dialects.couchdb.collation import raw_key
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.names import SYSTEM
from reactdb.servers.couchdb import attachments, databases, documents, mango, views
from reactdb.servers.couchdb.changes import OpenedFeed, changes, updates
from reactdb.servers.couchdb.wrapped_rows import Counts
from reactdb.servers.http import page
from reactdb.servers.http.protocol import Bodies, Route
from reactdb.servers.http.request_parts import Asking
from reactdb.servers.http.responses import Answer, error_of, etag_of, not_modified, ok, state_etag
from reactdb.servers.http.sessions import Authenticator

__all__ = ["CouchSpeaker", "Service", "route"]

MOST_UUIDS: Final = 1_000
MOST_INFOS: Final = 100
"""Databases per `POST /_dbs_info`, as in CouchDB."""
NODE: Final = "nonode@nohost"
"""The name of a single CouchDB node."""
SPOKEN_VERSION: Final = "3.5.0"
"""The version of CouchDB with these answers. Some clients check it."""


@dataclass(frozen=True, slots=True)
class Service:
    """The served databases and the users."""

    couch: Couch
    authenticator: Authenticator
    counts: Counts


def route(method: str, parts: list[str], headers: Mapping[str, str]) -> Route:
    """
    Raises:
        CouchError: 405, with the existing methods as its `allowed`.
    """
    table = _table(parts)
    match = table.get("GET" if method == "HEAD" else method)
    if match is None:
        raise MethodNotAllowed(_methods(table))
    is_related = headers.get("content-type", "").lower().startswith("multipart/related")
    if match.bodies is Bodies.WHOLE and method == "PUT" and is_related:
        return Route(match.answer, Bodies.SPOOLED, match.writes, match.is_public)
    return match


class CouchSpeaker:
    """CouchDB's language, as an application needs it."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.authenticator = service.authenticator

    def route(self, method: str, parts: list[str], headers: Mapping[str, str]) -> Route:
        """
        Raises:
            CouchError: 405.
        """
        return route(method, parts, headers)

    def call(self, route: Route, asking: Asking) -> Answer | OpenedFeed:
        answer: Answer | OpenedFeed = route.answer(self._service, asking)
        return answer

    def error_of(self, error: BaseException) -> Answer:
        answer = error_of(error)
        if isinstance(error, MethodNotAllowed):
            answer.headers["allow"] = error.allowed
        return answer


class MethodNotAllowed(CouchError):
    """The path has only other methods: `allowed`."""

    def __init__(self, allowed: str) -> None:
        super().__init__(405, "method_not_allowed", f"Only {allowed} allowed")
        self.allowed = allowed


Table = Mapping[str, Route]


def _methods(table: Table) -> str:
    """The methods in CouchDB's order, with HEAD where there is GET."""
    methods = [method for method in ("GET", "POST", "PUT", "DELETE", "COPY") if method in table]
    return ",".join([*methods, *(["HEAD"] if "GET" in table else [])])


def _table(parts: list[str]) -> Table:
    if not parts:
        return SERVER[""]
    if parts[0] in REFUSED:
        return REFUSED[parts[0]]
    if len(parts) == 1:
        return SERVER.get(parts[0], DATABASE)
    if parts[0] in SERVER:
        return {"GET": Route(_no_such_path, is_public=True)}
    if len(parts) == 2 and parts[1] in DATABASES:
        return DATABASES[parts[1]]
    if len(parts) == 3 and parts[2] == "queries" and parts[1] in QUERIES:
        return QUERIES[parts[1]]
    if parts[1] == "_index":
        return _BELOW_INDEX
    kind, rest = _kind(parts)
    return _design_table(rest) if kind == "design" and rest else TABLES[kind, bool(rest)]


def _kind(parts: list[str]) -> tuple[str, list[str]]:
    """(`document`, `design` or `local`, the path's parts after the id)."""
    head = parts[1]
    for prefix, kind in (("_design", "design"), ("_local", "local")):
        if head == prefix and len(parts) > 2:
            return kind, parts[3:]
        if head.startswith(f"{prefix}/"):
            return kind, parts[2:]
    return "document", parts[2:]


def _id(asking: Asking) -> str:
    parts = asking.parts
    return f"{parts[1]}/{parts[2]}" if parts[1] in ("_design", "_local") and len(parts) > 2 else parts[1]


def _rest(asking: Asking) -> str:
    """An attachment's name, which may contain slashes."""
    return "/".join(_kind(asking.parts)[1])


# ---------------------------------------------------------------------------------------------------------------
# The server


def _welcome(service: Service, asking: Asking) -> Answer:
    return ok(
        {
            "couchdb": "Welcome",
            "version": SPOKEN_VERSION,
            "git_sha": "",
            "uuid": service.couch.uuid,
            "features": [],
            "vendor": {"name": "reactdb", "version": __version__},
        }
    )


def _up(service: Service, asking: Asking) -> Answer:
    return ok({"status": "ok", "seeds": {}})


def _uuids(service: Service, asking: Asking) -> Answer:
    count = asking.count("count")
    count = 1 if count is None else count
    if count > MOST_UUIDS:
        raise CouchError(400, "bad_request", "count parameter too large")
    uuids = [secrets.token_hex(16) for _ in range(count)]
    return ok(
        {"uuids": uuids},
        etag=etag_of(secrets.token_hex(12)),
        expires="Mon, 01 Jan 1990 00:00:00 GMT",
        pragma="no-cache",
        cache_control="must-revalidate, no-cache",
    )


def _all_dbs(service: Service, asking: Asking) -> Answer:
    names = _names(service, asking)
    etag = state_etag(*names)
    return not_modified(etag) if asking.knows(etag) else ok(names, etag=etag)


def _names(service: Service, asking: Asking) -> list[str]:
    """The names of the requested databases."""
    names = sorted(service.couch.databases(), reverse=asking.strict_boolean("descending"))
    start, end = asking.json_parameter("startkey"), asking.json_parameter("endkey")
    if asking.strict_boolean("descending"):
        start, end = end, start
    # A bound may be of any type. None: no bound.
    first, last = None if start is None else raw_key(start), None if end is None else raw_key(end)
    names = [
        name
        for name in names
        if (first is None or raw_key(name) >= first) and (last is None or raw_key(name) <= last)
    ]
    return names[asking.count("skip") or 0 :][: asking.count("limit")]


def _dbs_info(service: Service, asking: Asking) -> Answer:
    if asking.method != "POST":
        pairs = ((name, _info(service, name)) for name in _names(service, asking))
        # Without databases that were deleted meanwhile.
        return ok([{"key": name, "info": info} for name, info in pairs if info is not None])
    asking.must_be_json()
    keys = asking.json_object().get("keys")
    if keys is None:
        raise CouchError(400, "bad_request", "`keys` member must exist.")
    if not isinstance(keys, list):
        raise CouchError(400, "bad_request", "`keys` member must be an array.")
    if len(keys) > MOST_INFOS:
        raise CouchError(400, "bad_request", "too_many_keys")
    infos = [(key, _info(service, key) if isinstance(key, str) else None) for key in keys]
    return ok(
        [
            {"key": key, "error": "not_found"} if info is None else {"key": key, "info": info}
            for key, info in infos
        ]
    )


def _info(service: Service, name: str) -> dict[str, Any] | None:
    try:
        return service.couch.info(name)
    except CouchError:
        return None


def _membership(service: Service, asking: Asking) -> Answer:
    return ok({"all_nodes": [NODE], "cluster_nodes": [NODE]})


def _active_tasks(service: Service, asking: Asking) -> Answer:
    return ok(service.couch.active_tasks())


def _refusal(status: int, error: str, reason: str) -> Callable[[Service, Asking], NoReturn]:
    """A function that always answers with this error."""

    def refuse(service: Service, asking: Asking) -> NoReturn:
        raise CouchError(status, error, reason)

    return refuse


_no_such_path: Final = _refusal(404, "not_found", "missing")
_no_local_attachment: Final = _refusal(400, "bad_request", "_local documents do not accept attachments.")
_replicate: Final = _refusal(
    501,
    "not_implemented",
    "This server does not replicate by itself: `reactdb sync FILE/TABLE URL` does, or the other side.",
)
_beyond: Final = _refusal(
    501,
    "not_implemented",
    "Of the functions of a design document, this server runs filters, validate_doc_update and views.",
)
_no_settings: Final = _refusal(501, "not_implemented", "The users are given when the server is started.")
_no_node: Final = _refusal(
    501, "not_implemented", "There are no nodes here: settings are given when the server is started."
)
_no_scheduler: Final = _refusal(501, "not_implemented", SYSTEM["_replicator"])


def _refusing_table(refuse: Callable[[Service, Asking], NoReturn]) -> Table:
    """An unsupported path, for all methods. The body is not even read: it may contain a password."""
    return {method: Route(refuse) for method in ("GET", "POST", "PUT", "DELETE", "COPY")}


REFUSED: Final[dict[str, Table]] = {
    "_node": _refusing_table(_no_node),
    "_scheduler": _refusing_table(_no_scheduler),
    **{name: _refusing_table(_refusal(501, "not_implemented", reason)) for name, reason in SYSTEM.items()},
}
"""By the first part of a path, and everything below it."""


SERVER: Final[dict[str, Table]] = {
    "": {"GET": Route(_welcome, is_public=True)},
    "_up": {"GET": Route(_up, is_public=True)},
    "_uuids": {"GET": Route(_uuids)},
    "_all_dbs": {"GET": Route(_all_dbs)},
    "_dbs_info": {"GET": Route(_dbs_info), "POST": Route(_dbs_info, Bodies.WHOLE)},
    "_db_updates": {"GET": Route(lambda service, asking: updates(service.couch, asking))},
    "_membership": {"GET": Route(_membership)},
    "_active_tasks": {"GET": Route(_active_tasks)},
    "_replicate": {"POST": Route(_replicate, Bodies.WHOLE)},
    "_session": {
        "GET": Route(lambda service, asking: service.authenticator.session(asking), is_public=True),
        "POST": Route(
            lambda service, asking: service.authenticator.log_in(asking), Bodies.WHOLE, is_public=True
        ),
        "DELETE": Route(lambda service, asking: service.authenticator.log_out(asking), is_public=True),
    },
    "_reactdb": {"GET": Route(lambda service, asking: page.page())},
    "favicon.ico": {"GET": Route(_no_such_path, is_public=True)},
}


# ---------------------------------------------------------------------------------------------------------------
# One database


def _of_database(
    answer: Callable[[CouchDatabase, Asking], Answer | OpenedFeed],
    bodies: Bodies = Bodies.NONE,
    *,
    writes: bool = False,
) -> Route:
    def call(service: Service, asking: Asking) -> Answer | OpenedFeed:
        return answer(service.couch.open(asking.parts[0]), asking)

    return Route(call, bodies, writes)


def _changes(service: Service, asking: Asking) -> Answer | OpenedFeed:
    return changes(service.couch.open(asking.parts[0]), asking, service.counts)


DATABASE: Final[Table] = {
    "GET": _of_database(databases.info),
    "POST": _of_database(databases.post, Bodies.WHOLE, writes=True),
    "PUT": Route(
        lambda service, asking: databases.create(service.couch, asking.parts[0], asking), writes=True
    ),
    "DELETE": Route(
        lambda service, asking: databases.drop(service.couch, asking.parts[0], asking), writes=True
    ),
}

DATABASES: Final[dict[str, Table]] = {
    "_changes": {"GET": Route(_changes), "POST": Route(_changes, Bodies.WHOLE)},
    "_bulk_docs": {"POST": _of_database(databases.bulk_docs, Bodies.WHOLE, writes=True)},
    "_bulk_get": {"POST": _of_database(databases.bulk_get, Bodies.WHOLE)},
    "_revs_diff": {"POST": _of_database(databases.revs_diff, Bodies.WHOLE)},
    "_missing_revs": {"POST": _of_database(databases.missing_revs, Bodies.WHOLE)},
    "_all_docs": {
        "GET": _of_database(databases.all_docs),
        "POST": _of_database(databases.all_docs, Bodies.WHOLE),
    },
    "_design_docs": {
        "GET": _of_database(databases.design_docs),
        "POST": _of_database(databases.design_docs, Bodies.WHOLE),
    },
    "_local_docs": {"GET": _of_database(databases.local_docs)},
    "_find": {"POST": _of_database(mango.find, Bodies.WHOLE)},
    "_explain": {"POST": _of_database(mango.explain, Bodies.WHOLE)},
    "_index": {
        "GET": _of_database(mango.indexes),
        "POST": _of_database(mango.create_index, Bodies.WHOLE, writes=True),
    },
    "_security": {"GET": _of_database(databases.security), "PUT": Route(_no_settings, Bodies.WHOLE)},
    "_revs_limit": {
        "GET": _of_database(databases.revs_limit),
        "PUT": _of_database(databases.set_revs_limit, Bodies.WHOLE, writes=True),
    },
    "_compact": {"POST": _of_database(databases.compact, Bodies.WHOLE, writes=True)},
    "_view_cleanup": {"POST": _of_database(databases.view_cleanup, Bodies.WHOLE)},
    "_purge": {"POST": _of_database(databases.purge, Bodies.WHOLE, writes=True)},
    "_ensure_full_commit": {"POST": _of_database(databases.ensure_full_commit, Bodies.WHOLE)},
}

QUERIES: Final[dict[str, Table]] = {
    "_all_docs": {"POST": _of_database(databases.all_docs_queries, Bodies.WHOLE)},
    "_design_docs": {"POST": _of_database(databases.design_docs_queries, Bodies.WHOLE)},
}
"""`queries` below these."""


# ---------------------------------------------------------------------------------------------------------------
# One document, one attachment


def _of_document(
    answer: Callable[[CouchDatabase, str, Asking], Answer],
    bodies: Bodies = Bodies.NONE,
    *,
    writes: bool = False,
) -> Route:
    return _of_database(lambda database, asking: answer(database, _id(asking), asking), bodies, writes=writes)


def _read_attachment(database: CouchDatabase, id: str, asking: Asking) -> Answer:
    return attachments.read(database, id, _rest(asking), asking)


def _write_attachment(database: CouchDatabase, id: str, asking: Asking) -> Answer:
    return attachments.write(database, id, _rest(asking), asking, documents.base_revision(asking))


def _delete_attachment(database: CouchDatabase, id: str, asking: Asking) -> Answer:
    return attachments.delete(database, id, _rest(asking), documents.base_revision(asking))


_DOCUMENT: Final[Table] = {
    "GET": _of_document(documents.read),
    "PUT": _of_document(documents.write, Bodies.WHOLE, writes=True),
    "DELETE": _of_document(documents.delete, writes=True),
    "COPY": _of_document(documents.copy, writes=True),
}
_LOCAL: Final[Table] = {
    "GET": _of_document(documents.read_local),
    "PUT": _of_document(documents.write_local, Bodies.WHOLE, writes=True),
    "DELETE": _of_document(documents.delete_local, writes=True),
}
_ATTACHMENT: Final[Table] = {
    "GET": _of_document(_read_attachment),
    "PUT": _of_document(_write_attachment, Bodies.SPOOLED, writes=True),
    "DELETE": _of_document(_delete_attachment, writes=True),
}
_BELOW_INDEX: Final[Table] = {
    "POST": _of_database(mango.below_index, Bodies.WHOLE, writes=True),
    "DELETE": _of_database(mango.below_index, writes=True),
}
_NO_ATTACHMENT: Final[Table] = {method: Route(_no_local_attachment) for method in ("GET", "PUT", "DELETE")}
_BEYOND: Final[Table] = {method: Route(_beyond, Bodies.WHOLE) for method in ("GET", "POST", "PUT", "DELETE")}

_VIEW: Final[Table] = {"GET": _of_database(views.rows), "POST": _of_database(views.rows, Bodies.WHOLE)}
_VIEW_QUERIES: Final[Table] = {"POST": _of_database(views.queries, Bodies.WHOLE)}

# (kind of document, whether the path goes on after its id)
TABLES: Final[dict[tuple[str, bool], Table]] = {
    ("document", False): _DOCUMENT,
    ("document", True): _ATTACHMENT,
    ("design", False): _DOCUMENT,
    ("local", False): _LOCAL,
    ("local", True): _NO_ATTACHMENT,
}


def _design_table(rest: list[str]) -> Table:
    """The paths below a design document: an attachment, or a result of its functions; here only views have one."""
    if rest[0] == "_view" and len(rest) == 2:
        return _VIEW
    if rest[0] == "_view" and len(rest) == 3 and rest[2] == "queries":
        return _VIEW_QUERIES
    return _BEYOND if rest[0].startswith("_") else _ATTACHMENT
