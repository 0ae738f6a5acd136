"""Target: whole HTTP requests, as they are on the wire, to the applications of CouchDB's and Aidbox's dialects.

The routes are those of the dialects' own tables, and the names of parameters are read out of the source, so that a new one is
tried without a word here. In an input, several requests may stand one behind the other: the second sees what the first wrote.

    POST /games/_purge HTTP/1.1
    Content-Type: application/json

    {"a": 1}

Rule of this file: the application is asked without a socket, on a loop whose time passes at once. `test_fuzz.py` asks also
over one.
"""

from __future__ import annotations

import asyncio
import re
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import reactdb
from reactdb.dialects.aidbox import parameters as aidbox_asked
from reactdb.dialects.couchdb.couch import Couch
from reactdb.servers import http
from reactdb.servers.aidbox import routes
from reactdb.servers.aidbox.application import AidboxApplication
from reactdb.servers.couchdb import routes as couchdb_routes
from reactdb.servers.couchdb.application import CouchApplication
from reactdb.servers.http.limits import HTTPLimits
from tests.fuzz import generating
from tests.fuzz.in_place import QUERY_S, InPlaceWorkers
from tests.fuzz.target import Failure, Target
from tests.fuzz.texts import FIELDS, OPERATORS
from tests.servers.http.asgi import in_no_time

REV = "1-967a00dff5e02add41819138abb3284d"
VIEW = {
    "language": "query",
    "views": {"by_a": {"map": {"fields": {"a": "asc"}}, "options": {"def": {"fields": ["a"]}}}},
}
SINGLE_S = 100
"""Seconds after which the client of a feed goes, on the loop's clock."""


# ---------------------------------------------------------------------------------------------------------------
# Requests

_Route = tuple[str, str]


@cache
def couch_routes() -> list[_Route]:
    """(method, path) of everything in the tables."""
    found: list[_Route] = []

    def put(path: str, table: Any) -> None:
        found.extend((method, path) for method in [*table, *(["HEAD"] if "GET" in table else [])])

    for name, table in couchdb_routes.SERVER.items():
        put(f"/{name}", table)
    put("/games", couchdb_routes.DATABASE)
    put("/new", couchdb_routes.DATABASE)
    for name, table in couchdb_routes.DATABASES.items():
        put(f"/games/{name}", table)
    for name, table in couchdb_routes.QUERIES.items():
        put(f"/games/{name}/queries", table)
    for path in ("/games/a", "/games/_design/d", "/games/_local/l", "/games/new"):
        put(path, couchdb_routes.TABLES["document", False])
    put("/games/a/file.txt", couchdb_routes.TABLES["document", True])
    for path in ("_view/by_a", "_view/by_a/queries", "_update/x"):
        put(f"/games/_design/d/{path}", couchdb_routes._design_table(path.split("/")))
    for path in ("_index/_bulk_delete", "_index/_design/d/json/by_a", "_index/d/json"):
        put(f"/games/{path}", couchdb_routes._BELOW_INDEX)
    return found


@cache
def aidbox_routes() -> list[_Route]:
    tables = {
        "/": routes.ROOT,
        "/Patient": routes.TYPE,
        "/New": routes.TYPE,
        "/Patient/a": routes.RESOURCE,
        "/Patient/new": routes.RESOURCE,
        "/Patient/$changes": routes.OF_CHANGES,
        "/Patient/a/$changes": routes.OF_CHANGES,
    }
    return [(method, path) for path, table in tables.items() for method in table]


@cache
def parameter_names() -> list[str]:
    """The names that functions of `reactdb/servers/http` ask for."""
    source = "".join(path.read_text("utf-8") for path in sorted(Path(http.__file__).parent.glob("*.py")))
    calls = re.findall(
        r"asking\.(?:text|boolean|strict_boolean|count|json_parameter|has|last_of)\(([^()]*)\)", source
    )
    found = {name for call in calls for name in re.findall(r'"(\w[\w-]*)"', call)}
    found |= {
        "startkey",
        "endkey",
        "key",
        "keys",
        "start_key",
        "end_key",
        "open_revs",
        "atts_since",
        "rev",
        "timeout",
        "seq_interval",
    }
    return sorted(
        found | set(aidbox_asked.CHANGES) | set(aidbox_asked.SEARCH) | {".name.0.family", "._id", "."}
    )


BODIES: dict[str, Any] = {
    "/games": {"_id": "b", "a": 1, "_attachments": {"f": {"data": "eA==", "content_type": "text/plain"}}},
    "/games/a": {"_id": "a", "_rev": REV, "a": 1, "_deleted": False, "_revisions": {"start": 1, "ids": [REV[2:]]},
                 "_attachments": {"file.txt": {"stub": True, "revpos": 1}}},
    "/games/new": {"a": [1, {"b": None}], "_attachments": {"f": {"data": "eA==", "digest": "md5-x", "revpos": 1,
        "encoding": "gzip"}}},
    "/games/_design/d": VIEW,
    "/games/_local/l": {"_rev": "0-1", "a": 1},
    "/games/_bulk_docs": {"docs": [{"_id": "b"}, {"_id": "a", "_rev": REV, "_revisions": {"start": 2, "ids": ["b", "a"]}}],
                          "new_edits": False},
    "/games/_bulk_get": {"docs": [{"id": "a", "rev": REV, "atts_since": [REV]}, {"id": "b"}]},
    "/games/_revs_diff": {"a": [REV, "2-b"], "b": ["1-a"]},
    "/games/_missing_revs": {"a": [REV]},
    "/games/_purge": {"a": [REV]},
    "/games/_all_docs": {"keys": ["a", 1], "limit": 3},
    "/games/_all_docs/queries": {"queries": [{"keys": ["a"]}, {"startkey": "a", "descending": True}]},
    "/games/_design_docs/queries": {"queries": [{"limit": 1}]},
    "/games/_design/d/_view/by_a": {"keys": [1, [2]], "group_level": 1},
    "/games/_design/d/_view/by_a/queries": {"queries": [{"key": 1}, {"startkey": [1], "endkey": {}}]},
    "/games/_changes": {"doc_ids": ["a"], "selector": {"a": {"$gt": 0}}, "fields": ["a"]},
    "/games/_find": {"selector": {"a": {"$gt": 0}}, "sort": [{"a": "asc"}], "fields": ["_id", "a"], "limit": 2, "skip": 0,
                     "bookmark": "nil", "use_index": ["d", "by_a"], "execution_stats": True, "conflicts": True},
    "/games/_explain": {"selector": {"$or": [{"a": 1}, {"b": {"$regex": "^a"}}]}, "sort": ["a"]},
    "/games/_index": {"index": {"fields": ["a", {"b": "asc"}], "partial_filter_selector": {"a": 1}}, "name": "i", "ddoc": "d"},
    "/games/_index/_bulk_delete": {"docids": ["_design/d"], "w": 3},
    "/games/_revs_limit": 5,
    "/games/_compact": {},
    "/_session": {"name": "ann", "password": "x"},
    "/_dbs_info": {"keys": ["games"]},
    "/": {"resourceType": "Bundle", "type": "transaction", "entry": [
        {"fullUrl": "urn:1", "resource": {"resourceType": "Patient", "name": [{"family": "W"}]},
        "request": {"method": "POST", "url": "Patient"}},
        {"resource": {"a": {"reference": "urn:1"}}, "request": {"method": "PUT", "url": "Patient/b", "ifMatch": 'W/"1"'}},
        {"request": {"method": "DELETE", "url": "/Patient/a"}}, {"request": {"method": "GET", "url": "Patient?_count=1"}}]},
    "/Patient": {"resourceType": "Patient", "name": [{"family": "Wood", "given": ["A"]}], "active": True},
    "/Patient/a": {"id": "a", "resourceType": "Patient", "meta": {"versionId": "1"}, "name": [{"family": "W"}]},
}  # fmt: skip
PATCHES: tuple[Any, ...] = (
    [
        {"op": "add", "path": "/name/-", "value": {}},
        {"op": "move", "from": "/name", "path": "/a~1b"},
        {"op": "test", "path": "", "value": 1},
    ],
    {"name": None, "a": {"b": 1}},
)
NAMES = (
    "_id", "_rev", "_deleted", "_revisions", "_attachments", "docs", "new_edits", "start", "ids", "data", "stub", "follows",
        "revpos",
    "length", "content_type", "encoding", "selector", "fields", "keys", "queries", "resourceType", "id", "meta", "request",
        "url", "op",
    "path", "value", *FIELDS, *OPERATORS,
)  # fmt: skip
TEXTS = (
    *generating.TEXTS,
    REV,
    "_design/d",
    "_local/x",
    "Patient/a",
    "asc",
    "desc",
    "eA==",
    "gzip",
    "_view",
    "all",
    "/name/0",
    'W/"1"',
)
KINDS = ("application/json", "application/json", "application/json", "text/yaml", "application/json-patch+json",
         'multipart/related; boundary="b"', "text/plain", "", "application/x-www-form-urlencoded",
         "multipart/related")  # fmt: skip
HEADERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("accept", ("application/json", "text/yaml", "text/event-stream", "multipart/mixed", "multipart/related", "*/*", "\xff")),
    ("if-match", (REV, f'"{REV}"', "x", 'W/"1"', "*", "9" * 5_000, "")),
    ("if-none-match", ("*", f'"{REV}"', 'W/"1"', "\xe9")),
    ("range", ("bytes=0-1", "bytes=-1", "bytes=5-", f"bytes={'9' * 5_000}-", "bytes=-0", "\xb2", "bytes=\xb2-")),
    ("last-event-id", ("1", "x", "9" * 5_000, "now", "-1")),
    ("content-encoding", ("gzip", "identity", "br", "gzip, gzip")),
    ("authorization", ("Basic eDp5", "Basic x", "Basic \xff", "Bearer", "basic /w==")),
    ("cookie", ("AuthSession=x", 'AuthSession="\\\\\\"', "AuthSession=" + "=" * 50, "\xff", "a;b;AuthSession=YTpiOmM=")),
    ("origin", ("https://example.org", "null", "\xe9")),
    ("host", ("localhost", "evil.example", "\xe9", "")),
    ("content-length", ("0", "\xb2", "-1", "9" * 5_000, "1")),
    ("destination", ("c", "c?rev=1-a", "_design/x", "%ff", "\xe9", "", "../x")),
    ("x-couch-full-commit", ("true",)),
    ("content-disposition", ("x",)),
)  # fmt: skip


def _make(random: Random) -> bytes:
    found = b"".join(_request(random) for _ in range(random.choice((1, 1, 1, 2, 3))))
    return found if random.random() < 0.9 else generating.mutated(found, random, HTTP.words)


def request_of(
    method: str,
    path: str,
    body: bytes = b"",
    headers: dict[str, str] | None = None,
    *,
    has_length: bool = True,
) -> bytes:
    """The bytes of one request."""
    given = {**({"content-length": str(len(body))} if has_length else {}), **(headers or {})}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def _value(random: Random) -> Any:
    return generating.value(random, TEXTS, NAMES)


def _request(random: Random) -> bytes:
    box = random.random() < 0.25
    method, path = random.choice(aidbox_routes() if box else couch_routes())
    template = random.choice(PATCHES) if method == "PATCH" else BODIES.get(path, {})
    if path == "/" and not box:
        template = {}
    body = generating.json_text(generating.much_changed(template, random, _value)).encode(
        "utf-8", "surrogatepass"
    )
    kind = random.choice(KINDS) if random.random() < 0.3 else "application/json"
    if kind.startswith("multipart"):
        part = (
            b'\r\n\r\n--b\r\ncontent-disposition: attachment; filename="f"\r\n\r\nx'
            if random.random() < 0.7
            else b""
        )
        body = b"--b\r\ncontent-type: application/json\r\n\r\n" + body + part + b"\r\n--b--"
    if random.random() < 0.05:
        body = generating.mutated(body, random, HTTP.words)
    headers = {"content-type": kind}
    for name, values in random.sample(HEADERS, random.choice((0, 0, 1, 2))):
        headers[name] = random.choice(values)
    if method == "COPY" and random.random() < 0.8:
        headers["destination"] = "c"
    if random.random() < 0.1:
        path = path.replace(
            "games", random.choice(("nothing", "_x", "G", "a%2Fb", "%ff", "games%00"))
        ) + random.choice(("", "/", "/x/y"))
    prefix = "/aidbox" if box else "/couchdb"
    return request_of(
        method, prefix + path + _query(random), b"" if method in ("GET", "HEAD") else body, headers
    )


def _query(random: Random) -> str:
    count = random.choice((0, 1, 1, 2, 3))
    if not count:
        return ""
    pairs = []
    for _ in range(count):
        found = _value(random)
        text = found if isinstance(found, str) and random.random() < 0.7 else generating.json_text(found)
        text = random.choice(
            (
                text,
                "true",
                "all",
                "longpoll",
                "continuous",
                "eventsource",
                "1",
                "5",
                "_view",
                "_design",
                "_selector",
            )
        )
        name = random.choice(parameter_names())
        pairs.append(f"{quote(name)}={quote(text[:20_000], errors='replace')}")
    return "?" + "&".join(pairs)


# ---------------------------------------------------------------------------------------------------------------
# Answers


def games(path: str = ":memory:") -> reactdb.Database:
    """The database that requests are about: documents, a design document, an attachment, a resource."""
    db = reactdb.connect(path, durability="soft")
    couch = Couch(db)
    database = couch.create("games") or couch.open("games")
    text = {"file.txt": {"data": "eHl6", "content_type": "text/plain"}}
    database.bulk_docs(
        [
            {"_id": "a", "a": 1},
            {"_id": "c", "a": [1]},
            {"_id": "_design/d", **VIEW},
            {"_id": "f", "_attachments": text},
        ]
    )
    db.table_create("Patient")
    db.table("Patient").insert({"id": "a", "name": [{"family": "Wood"}]})
    return db


def requests_in(data: bytes) -> list[tuple[str, bytes, list[tuple[bytes, bytes]], bytes]]:
    """(method, target, headers, body) of the requests that stand one behind the other, as far as they can be read."""
    found = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n" if b"\r\n\r\n" in data else b"\n\n")
        first, *lines = head.replace(b"\r\n", b"\n").split(b"\n")
        words = first.split(b" ")
        if len(words) < 2 or not words[0].isascii() or not words[1].startswith(b"/"):
            break
        headers = []
        for line in lines:
            name, colon, value = line.partition(b":")
            # As a web server has it: it refuses other lines by itself.
            if (
                colon
                and re.fullmatch(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name)
                and not re.search(rb"[\0\r\n]", value)
            ):
                headers.append((name.lower(), value.strip(b" \t")))
        length = dict(headers).get(b"content-length", b"")
        # Where it is no number, the rest is the body.
        count = int(length) if re.fullmatch(rb"[0-9]{1,9}", length) else len(data)
        found.append((words[0].decode(), words[1], headers, data[:count]))
        data = data[count:]
    return found


def _ask(data: bytes) -> None:
    limits = HTTPLimits(request_s=QUERY_S)
    with games() as db:
        apps: dict[bytes, Any] = {
            b"/couchdb": CouchApplication(db, limits=limits, workers=InPlaceWorkers()),
            b"/aidbox": AidboxApplication(db, limits=limits, workers=InPlaceWorkers()),
        }
        for method, target, headers, body in requests_in(data)[:8]:
            mount = b"/aidbox" if target.startswith(b"/aidbox") else b"/couchdb"
            in_no_time(_asked(apps[mount], mount, method, target, headers, body))


async def _asked(app: Any, mount: bytes, method: str, target: bytes, headers: Any, body: bytes) -> None:
    raw_path, _, query = target.partition(b"?")
    if not raw_path.startswith(mount):
        raw_path = mount + raw_path
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Any] = []

    async def receive() -> Any:
        if messages:
            return messages.pop(0)
        await asyncio.sleep(SINGLE_S)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": raw_path.decode("utf-8", "replace"),
        "raw_path": raw_path,
        "root_path": mount.decode(),
        "query_string": query,
        "headers": headers,
        "server": ("localhost", 80),
        "client": ("127.0.0.1", 1),
    }
    await app(scope, receive, send)
    check(sent)


def check(sent: list[Any]) -> None:
    """
    Raises:
        Failure: It is no answer that a client can be sent, or says that nobody foresaw it.
    """
    if not sent:
        # A client that has gone before an answer is not told any.
        return
    status, content = sent[0]["status"], b"".join(message["body"] for message in sent[1:])
    for name, value in sent[0]["headers"]:
        if not re.fullmatch(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or re.search(rb"[\0\r\n]", value):
            raise Failure(f"a header that no server can send: {name!r}: {value!r:.200}")
    if status == 500 and b"reasonable amount of time" not in content:
        raise Failure(f"answered with 500: {content[:300]!r}")


HTTP = Target(
    "http", _ask, _make,
    (
        b"\r\n", b"\r\n\r\n", b'{"a":', b"[", b'"_id"', b"null", b"%ff", b"%22", b"&", b"=", b"/", b"?", b"\xff",
        b"PUT /couchdb/games/new",
        b"content-type: application/json\r\n", b'{"a":' * 700, b"[" * 700, b"%5B" * 700,
    ),
)  # fmt: skip
