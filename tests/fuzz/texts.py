"""Targets that read texts: JSON, conditions of the command line, Mango selectors, multipart bodies, paths and parameters.

Rule of this file: a target calls the one function that reads such a text, and then what uses it.
"""

from __future__ import annotations

import io
import json
from random import Random
from typing import Any

import reactdb
from reactdb.condition_text import parse_condition
from reactdb.dialects.couchdb.mango import Selector
from reactdb.dialects.couchdb.multipart import boundary_of, parts_in
from reactdb.expression.predicate import as_predicate
from reactdb.json import dumps_plain
from reactdb.servers.aidbox.media_types import read_body
from reactdb.servers.couchdb.routes import route
from reactdb.servers.http.request_parts import Asking, parameters_of, parts_of, read_json
from reactdb.servers.http.responses import encode_json
from reactdb.values.codec import same
from tests.fuzz import generating
from tests.fuzz.target import Failure, Target

DOCUMENTS: tuple[dict[str, Any], ...] = (
    {"_id": "a", "_rev": "1-a", "a": 1, "b": {"c": "x"}, "d": [1, {"e": None}, "é"]},
    {"_id": "", "a": None, "b": [], "score": 1.5, "text": "a" * 50},
    {"_id": "b", "a": {"a": {"a": True}}, "d": [[1], [2, [3]]]},
)


# ---------------------------------------------------------------------------------------------------------------
# JSON

MOST_YAML_BYTES = 500
"""YAML is read by a program in Python, which takes a millisecond for a hundred bytes."""

OURS = (
    "decimal",
    "uuid",
    "date",
    "time",
    "duration",
    "float",
    "datetime",
    "extension",
    "object",
    "deleted",
    "mongodb.objectid",
)


def _read_json(data: bytes) -> None:
    """As exports have it, and as requests of the dialects have it."""
    text = data.decode("utf-8", "replace")
    for kind, body in (("application/json", data), ("text/yaml", data[:MOST_YAML_BYTES])):
        try:
            encode_json(read_body(body, {"content-type": kind}))
        except reactdb.ReactDBError:
            pass
    try:
        encode_json(read_json(data))
    except reactdb.ReactDBError:
        pass
    found = reactdb.json.loads(text)
    if not same(found, reactdb.json.loads(reactdb.json.dumps(found))):
        raise Failure("a value that was read and written is another one")
    dumps_plain(found)


def _typed(random: Random) -> Any:
    if random.random() < 0.5:
        return generating.value(random)
    name = random.choice(("$reactdb_type$", "$reql_type$"))
    fields = random.choice((("value",), ("data",), ("epoch_time", "timezone"), ("code", "data"), ()))
    texts = (
        "2013-01-31",
        "12:30:00",
        "90.5",
        "1.10",
        "/w==",
        "+00:00",
        "Z",
        "nan:7ff8000000000001",
        "0" * 24,
        *generating.TEXTS,
    )
    return {
        name: random.choice((*OURS, "TIME", "BINARY", 5)),
        **{one: generating.scalar(random, texts) for one in fields},
    }


def _make_json(random: Random) -> bytes:
    found = generating.much_changed({"id": 1, "a": [1, {"b": _typed(random)}], "c": "é"}, random, _typed)
    data = generating.json_text(found).encode("utf-8", "surrogatepass")
    return data if random.random() < 0.6 else generating.mutated(data, random, JSON.words)


JSON = Target(
    "json",
    _read_json,
    _make_json,
    (
        b"{",
        b"[",
        b'"',
        b"NaN",
        b"1e999",
        b"\\ud800",
        b"\xed\xa0\x80",
        b"[" * 500,
        b'{"a":' * 500,
        b"- " * 500,
        b"9" * 5_000,
        b"&a ",
        b"!!int ",
    ),
)


# ---------------------------------------------------------------------------------------------------------------
# Conditions of the command line


def _read_condition(data: bytes) -> None:
    condition = parse_condition(data.decode("utf-8", "replace"))
    passes = as_predicate(condition)
    for document in DOCUMENTS:
        passes(document)


def _condition(random: Random, depth: int = 3) -> str:
    kind = random.randrange(8)
    if kind == 0 and depth:
        return f"not {_condition(random, depth - 1)}"
    if kind < 3 and depth:
        return f"({_condition(random, depth - 1)})" * random.choice((1, 1, 2))
    if kind < 6 and depth:
        return f" {random.choice(('and', 'or'))} ".join(
            _condition(random, depth - 1) for _ in range(random.choice((2, 3, 40)))
        )
    field = random.choice(("a", "b.c", '"x y".z', "d", "score", "not", ".".join("a" * 60)))
    operator = random.choice(("=", "==", "!=", "<", ">=", "=>", "="))
    value = random.choice(("1", "-5", "1e999", "x", "'q'", "9" * 5_000, "null", "007", "1.5"))
    return f"{field}{operator}{value}"


def _make_condition(random: Random) -> bytes:
    data = _condition(random).encode()
    return data if random.random() < 0.4 else generating.mutated(data, random, CONDITIONS.words)


CONDITIONS = Target(
    "conditions",
    _read_condition,
    _make_condition,
    (
        b"(",
        b")",
        b" and ",
        b" or ",
        b"not ",
        b'"',
        b"'",
        b"=",
        b"<",
        b".",
        b"\\u",
        b"(" * 500,
        b"not " * 500,
        b"a.b" * 200,
        b" or a=1" * 300,
    ),
)


# ---------------------------------------------------------------------------------------------------------------
# Mango

OPERATORS = (
    "$and", "$or", "$not", "$nor", "$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists", "$type", "$size",
        "$mod",
    "$regex", "$all", "$elemMatch", "$allMatch", "$keyMapMatch", "$beginsWith", "$text", "$where", "$unknown",
)  # fmt: skip
FIELDS = ("_id", "a", "b.c", "d", "a\\.b", "a..b", ".", "", "\\", "$a", "x" * 50)
PATTERNS = ("^a", "a+", "(a", "a{2,1}", "\\p{L}", "(?i)x", "[", "a{0,1000}$", "number", "string", "\ud800")


def _selector(random: Random, depth: int = 4) -> Any:
    kind = random.randrange(8)
    if kind == 0 or depth == 0:
        return generating.value(random, (*generating.TEXTS, *PATTERNS), (*OPERATORS, *FIELDS))
    if kind == 1:
        return [_selector(random, depth - 1) for _ in range(random.randrange(3))]
    names = FIELDS if kind < 4 else OPERATORS
    return {random.choice(names): _selector(random, depth - 1) for _ in range(random.choice((1, 1, 2)))}


def _read_selector(data: bytes) -> None:
    given = read_json(data)
    if not isinstance(given, dict):
        return
    selector = Selector(given)
    for document in DOCUMENTS:
        selector.passes(document)
    json.dumps(selector.normal)


def _make_selector(random: Random) -> bytes:
    data = generating.json_text(_selector(random)).encode()
    return data if random.random() < 0.7 else generating.mutated(data, random, MANGO.words)


MANGO = Target(
    "mango", _read_selector, _make_selector, tuple(f'"{name}":'.encode() for name in (*OPERATORS, "a"))
)


# ---------------------------------------------------------------------------------------------------------------
# Multipart


def _read_multipart(data: bytes) -> None:
    """The first line is the content type; what follows is the body."""
    head, _, body = data.partition(b"\n")
    file = io.BytesIO(body)
    for part in parts_in(file, boundary_of(head.decode("latin-1"))):
        part.open(file).read()


def _make_multipart(random: Random) -> bytes:
    boundary = random.choice(("b", "b", "--", "b c", "x" * 80))
    parts = b"".join(
        b"\r\n--" + boundary.encode() + random.choice((b"\r\n", b"\r\n", b"\n", b"  \r\n", b"x"))
        + random.choice((b"", b"Content-Type: application/json\r\n", b"a\r\n", b"a:b\r\n c\r\n")) + random.choice((b"\r\n",
        b"\n", b""))
        + random.choice((b"", b"{}", b"x" * 300, b"--" + boundary.encode()))
        for _ in range(random.randrange(4))
    )  # fmt: skip
    end = random.choice((b"--", b"--", b"--\r\n", b""))
    head = f'multipart/related; boundary="{boundary}"\n'.encode()
    data = head + parts + b"\r\n--" + boundary.encode() + end
    return data if random.random() < 0.3 else generating.mutated(data, random, MULTIPART.words)


MULTIPART = Target(
    "multipart",
    _read_multipart,
    _make_multipart,
    (
        b"\r\n",
        b"--b",
        b"\r\n--b\r\n",
        b"--b--",
        b"boundary=",
        b"boundary*0=",
        b"boundary*=utf-8''%ff",
        b'"',
        b";",
        b"\0",
    ),
)


# ---------------------------------------------------------------------------------------------------------------
# Paths and parameters


def _read_url(data: bytes) -> None:
    """The path and the query of a URL, each read as requests do."""
    path, _, query = data.partition(b"?")
    parts = parts_of(path, "")
    asking = Asking("GET", parts, parameters_of(query), {}, "http://localhost")
    asking.url(*parts)
    for method in ("GET", "POST", "PUT", "DELETE", "COPY", "HEAD", "TRACE"):
        try:
            route(method, parts, {})
        except reactdb.ReactDBError:
            pass
    for name in ("key", "limit", "descending"):
        for read in (asking.json_parameter, asking.count, asking.strict_boolean):
            try:
                read(name)
            except reactdb.ReactDBError:
                pass


def _make_url(random: Random) -> bytes:
    parts = (
        "",
        "db",
        "_all_docs",
        "_design",
        "_design%2Fx",
        "_local",
        "%ff",
        "%",
        "..",
        "_index",
        "queries",
        "_node",
        "a" * 100,
        "%00",
    )
    path = "/" + "/".join(random.choice(parts) for _ in range(random.randrange(5)))
    words = (
        "1",
        "-1",
        '"a"',
        "true",
        "[1]",
        "%5B" * 600,
        "9" * 5_000,
        "NaN",
        "%ff",
        "1_0",
        "%D9%A1",
        "",
        '{"a":' * 700,
        "1e400",
    )
    query = "&".join(
        f"{random.choice(('key', 'limit', 'descending', 'KEY', ''))}={random.choice(words)}"
        for _ in range(random.randrange(4))
    )
    data = f"{path}?{query}".encode()
    return data if random.random() < 0.5 else generating.mutated(data, random, URLS.words)


URLS = Target(
    "urls",
    _read_url,
    _make_url,
    (b"/", b"?", b"&", b"=", b"%", b"%ff", b"%2F", b"key=", b"limit=", b"[" * 500, b";"),
)
