"""Asking: one request for the functions that answer it: parts of the path, parameters, headers, the body.

    asking.parts            the path's parts, decoded: ["people", "_design/x"] and so on
    asking.boolean("revs")  a parameter; upper and lower case are equal in names, and the last value of a name counts
    asking.json()           the body

Errors that do not depend on the dialect are raised as RequestRefused, so that each speaker can use its own form. Parameters and
bodies that only CouchDB has are refused with CouchError, in CouchDB's words.

Rule of this file: values of a request, no socket and no database.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import IO, Any, Final
from urllib.parse import parse_qsl, quote, unquote_to_bytes

from reactdb.dialects.couchdb.errors import CouchError
from reactdb.errors import InvalidDocument, UsageError
from reactdb.servers.http import json_bodies

__all__ = ["Asking", "RequestRefused", "parameters_of", "parts_of", "read_json"]

JSON_PARAMETERS: Final = ("key", "keys", "startkey", "start_key", "endkey", "end_key")
"""Parameters whose value is JSON, also for a text."""

MOST_COUNT: Final = 2**61
MOST_PARAMETERS: Final = 1_000
"""Parameters of a URL. Each look-up of a parameter goes through all."""

NOT_AN_OBJECT: Final = "Request body must be a JSON object"


class RequestRefused(UsageError):
    """A request that no application accepts: the HTTP status, a word for the error, and a sentence."""

    def __init__(self, status: int, word: str, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.word = word
        self.sentence = sentence


@dataclass(slots=True)
class Asking:
    """See the head of this file.

    Attributes:
        method: "GET" also for HEAD, which has the same answer without its body.
        parts: The path's parts, decoded.
        query: (name, value), in the order of the URL.
        headers: Names are in lower case.
        base: The application's URL, without a slash at its end.
        body: The whole body of a small request.
        spool: The body in a file, from its beginning.
        packed: A compressed body, until `encodings` has unpacked it.
        most_json_bytes: The largest JSON within a body in a file.
        given: A POST body's values for parameters that are JSON, by their names in lower case. It counts before `query`.
        user: The name of the user, or None if the server needs no credentials.
    """

    method: str
    parts: list[str]
    query: list[tuple[str, str]] = field(default_factory=list)
    headers: Mapping[str, str] = field(default_factory=dict)
    base: str = ""
    body: bytes = b""
    spool: IO[bytes] | None = None
    packed: IO[bytes] | None = None
    most_json_bytes: int | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    user: str | None = None

    def text(self, name: str) -> str | None:
        """The value of the last parameter of this name, or None."""
        return next((value for known, value in reversed(self.query) if known.lower() == name), None)

    def last_of(self, *names: str) -> str | None:
        """The value of the last of these parameters in the URL."""
        return next((value for known, value in reversed(self.query) if known.lower() in names), None)

    def boolean(self, name: str) -> bool:
        """Whether the parameter is `true`: any other value means no, as in CouchDB."""
        return self.text(name) == "true"

    def strict_boolean(self, name: str, default: bool = False) -> bool:
        """
        Raises:
            CouchError: 400, neither `true` nor `false`.
        """
        value = self.text(name)
        if value is None:
            return default
        if value not in ("true", "false"):
            raise CouchError(400, "query_parse_error", f"Invalid boolean parameter: {_quote(value)}")
        return value == "true"

    def count(self, name: str) -> int | None:
        """A number from 0 on, or None where there is no such parameter.

        Raises:
            CouchError: 400.
        """
        value = self.text(name)
        if value is None:
            return None
        try:
            number = int(value)
        except ValueError:
            raise CouchError(
                400, "query_parse_error", f"Invalid value for integer: {_quote(value)}"
            ) from None
        if number < 0:
            raise CouchError(400, "query_parse_error", f"Invalid value for positive integer: {number}")
        # SQLite has no greater numbers, and nothing has as many rows.
        return min(number, MOST_COUNT)

    def json_parameter(self, name: str) -> Any:
        """The parameter's JSON value; None if it is missing.

        Raises:
            CouchError: 400, it is not JSON.
        """
        if name in self.given:
            return self.given[name]
        value = self.text(name)
        return None if value is None else read_json(value.encode("utf-8", "replace"))

    def has(self, name: str) -> bool:
        return name in self.given or any(known.lower() == name for known, _ in self.query)

    # -----------------------------------------------------------------------------------------------------------
    # The body

    def must_be_json(self) -> None:
        """
        Raises:
            CouchError: 415, the content type is not JSON.
        """
        if self.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise CouchError(415, "bad_content_type", "Content-Type must be application/json")

    def json(self) -> Any:
        """
        Raises:
            CouchError: 400, the body is not JSON.
        """
        return read_json(self.body)

    def json_object(self) -> dict[str, Any]:
        """
        Raises:
            CouchError: 400, the body is no JSON object.
        """
        value = self.json()
        if not isinstance(value, dict):
            raise CouchError(400, "bad_request", NOT_AN_OBJECT)
        return value

    def with_members(self) -> Asking:
        """The same request, with the members of a POST's body as further parameters: they count before the URL's.

        Raises:
            CouchError: 415 and 400, the body is no JSON object.
        """
        return self if self.method != "POST" else self._with(self._members())

    def queries(self) -> list[Asking] | None:
        """For each of the `queries` in a POST's body the same request, with the query's members as its parameters, too.

        None where the body has no `queries`.

        Raises:
            CouchError: 415 and 400, the body is no JSON object, or has no list of objects there.
        """
        members = {} if self.method != "POST" else self._members()
        queries = members.get("queries")
        if queries is None:
            return None
        if not (isinstance(queries, list) and all(isinstance(query, dict) for query in queries)):
            raise CouchError(400, "bad_request", "`queries` member must be an array of objects.")
        if members.get("keys") is not None:
            raise CouchError(400, "bad_request", "`keys` and `queries` are mutually exclusive")
        return [self._with(query) for query in queries]

    def must_have_queries(self) -> list[Asking]:
        """
        Raises:
            CouchError: As `queries`; 400, the body has none.
        """
        queries = self.queries()
        if queries is None:
            raise CouchError(400, "bad_request", "POST body must include `queries` parameter.")
        return queries

    def _members(self) -> dict[str, Any]:
        """The body of a POST, which may be empty."""
        self.must_be_json()
        return self.json_object() if self.body else {}

    def _with(self, members: Mapping[str, Any]) -> Asking:
        more = [
            (name, value if isinstance(value, str) else json.dumps(value))
            for name, value in members.items()
            if name.lower() not in JSON_PARAMETERS
        ]
        given = {name.lower(): value for name, value in members.items() if name.lower() in JSON_PARAMETERS}
        return replace(self, query=[*self.query, *more], given={**self.given, **given})

    # -----------------------------------------------------------------------------------------------------------
    # Headers

    def accepts(self, kind: str) -> bool:
        """Whether the client asks for this content type by its name."""
        accepted = self.headers.get("accept", "").lower().split(",")
        return any(part.partition(";")[0].strip() == kind for part in accepted)

    def knows(self, etag: str) -> bool:
        """Whether the client already has the data of this ETag."""
        known = self.headers.get("if-none-match")
        if known is None:
            return False
        return any(part.strip().removeprefix("W/") in ("*", etag) for part in known.split(","))

    def url(self, *parts: str) -> str:
        """The URL of something in this application."""
        return "/".join((self.base, *(quote(part, safe="", errors="replace") for part in parts)))


def read_json(text: bytes) -> Any:
    """
    Raises:
        CouchError: 400, it is not JSON in UTF-8, or nested too deeply.
        ResourceLimit, Stopped: See `json_bodies.read_json`.
    """
    try:
        return json_bodies.read_json(text)
    except InvalidDocument as error:
        raise CouchError(400, "bad_request", f"The JSON is {error.reason}.") from None
    except ValueError:
        raise CouchError(400, "bad_request", "invalid UTF-8 JSON") from None


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def parts_of(raw_path: bytes, mounted_at: str) -> list[str]:
    """The parts of a raw path, each decoded by itself, so that `%2F` stays inside a part.

    `mounted_at`: the path of the application within a larger one: the beginning of the raw path.

    Raises:
        RequestRefused: 400, it is not UTF-8.
    """
    depth = len([part for part in mounted_at.split("/") if part])
    raw = raw_path.partition(b"?")[0].split(b"/")[1 + depth :]
    if raw and raw[-1] == b"" and len(raw) > 1:
        del raw[-1]
    try:
        parts = [unquote_to_bytes(part).decode("utf-8") for part in raw]
    except UnicodeDecodeError:
        raise RequestRefused(400, "bad_request", "The path is not UTF-8.") from None
    return [] if parts == [""] else parts


def parameters_of(query: bytes) -> list[tuple[str, str]]:
    """The parameters of a URL: (name, value).

    Raises:
        RequestRefused: 400, there are too many.
    """
    text = query.decode("ascii", "replace")
    if text.count("&") >= MOST_PARAMETERS:
        raise RequestRefused(400, "bad_request", f"A request has at most {MOST_PARAMETERS:,} parameters.")
    return parse_qsl(text, keep_blank_values=True, errors="replace")
