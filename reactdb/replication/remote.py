"""RemotePeer: a database behind CouchDB's HTTP as a side of a replication: CouchDB itself, a PouchDB server, another reactdb.

It waits for changes with a long poll with heartbeats. A connection without a byte for `SILENCE_S` counts as dead: otherwise a
sleeping laptop, or a change of network, would never be noticed.

Rule of this file: it makes requests, and tries none again.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.multipart import Following, RelatedBody
from reactdb.dialects.couchdb.names import DESIGN, LOCAL
from reactdb.dialects.couchdb.revisions import ATTACHMENTS
from reactdb.errors import InvalidOption, SyncFailed, how_to_install
from reactdb.errors import format_value as shown_value
from reactdb.json import read_plain
from reactdb.replication.peers import (
    AttachmentBytes,
    Bell,
    ChangesPage,
    Peer,
    SourceFailed,
    Subset,
    Transfer,
    Unreadable,
)

if TYPE_CHECKING:
    import httpx

__all__ = ["RemotePeer"]

HEARTBEAT_MS: Final = 2_000
SILENCE_S: Final = 20.0
REQUEST_S: Final = 60.0
INLINE_BYTES: Final = 1 << 20
"""A document with more bytes of attachments than this is sent alone, as multipart, and never all in memory."""

BATCH_CHARACTERS: Final = 4 << 20
"""Documents are sent together up to this many characters of JSON."""

MOST_ANSWER_BYTES: Final = 1 << 29
"""The unpacked bytes of one JSON answer. A page of changes, or the documents of one, are a few megabytes."""

_NOT_THERE: Final = (400, 404, 405, 500, 501)

_OF_DOCUMENT: Final = (400, 412, 413, 422)
"""The statuses of a refusal that one of several documents may cause."""

_OF_SERVER: Final = (401, 408, 425, 429, 503, 504)
"""Statuses that do not depend on the requested document."""


class RemotePeer:
    """See the head of this file, and `Peer`.

    Args:
        url: Of the database: `http://user:password@host:5984/notes`.
        auth: (user, password), where the URL has none.
    """

    def __init__(
        self, url: str, *, auth: tuple[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        parts = _parts_of(url)
        host = parts.netloc.rpartition("@")[2]
        self.name = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        try:
            import httpx
        except ImportError:
            sentence = f"synchronising needs httpx: {how_to_install('sync')}"
            raise SyncFailed(self.name, "httpx is not installed", sentence) from None
        if auth is None and parts.username is not None:
            # httpx takes them from the URL, too, but then they are in the sentences of its errors.
            auth = (unquote(parts.username), unquote(parts.password or ""))
        self._client = httpx.Client(
            auth=auth, headers=dict(headers or {}), timeout=httpx.Timeout(REQUEST_S), follow_redirects=True
        )
        self._has_bulk_get = True

    def close(self) -> None:
        self._client.close()

    # -----------------------------------------------------------------------------------------------------------
    # Requests

    def _url(self, *path: str) -> str:
        return "/".join([self.name, *(_id_in_url(part) for part in path)])

    def _request(self, method: str, *path: str, body: Any = None, **query: Any) -> Any:
        """The JSON of a response. `body`: a JSON value, or bytes of JSON.

        Raises:
            CouchError: The response is an error; httpx.TransportError: there is no response.
        """
        url = self._url(*path) + ("" if path else "/")
        with self._client.stream(method, url, params=query or None, **_request_options(body)) as answer:
            return _read_answer(answer)

    def prepare(self, *, create: bool) -> None:
        try:
            self._request("GET")
        except CouchError as error:
            if not (create and error.status == 404):
                raise
            try:
                self._request("PUT")
            except CouchError as refusal:
                # Another client has made it meanwhile.
                if refusal.status != 412:
                    raise

    # -----------------------------------------------------------------------------------------------------------
    # Changes

    def changes(self, selection: Subset, since: Any, limit: int) -> ChangesPage:
        body = selection.body()
        return _page(
            self._request(
                "GET" if body is None else "POST",
                "_changes",
                body=body,
                **self._changes_query(selection, since, limit),
            )
        )

    def wait(self, selection: Subset, since: Any, limit: int, bell: Bell) -> ChangesPage:
        import httpx

        body = selection.body()
        query = self._changes_query(selection, since, limit) | {
            "feed": "longpoll",
            "heartbeat": str(HEARTBEAT_MS),
        }
        with self._client.stream(
            "GET" if body is None else "POST",
            self._url("_changes"),
            params=query,
            timeout=httpx.Timeout(REQUEST_S, read=SILENCE_S),
            **_request_options(body),
        ) as answer:
            data = bytearray()
            if answer.is_error:
                return _page(_read_answer(answer))
            for piece in _limit_pieces(answer, MOST_ANSWER_BYTES):
                data += piece
                if bell.is_stopped:
                    return ChangesPage([], since)
        return _page(_decode(bytes(data)))

    def _changes_query(self, selection: Subset, since: Any, limit: int) -> dict[str, str]:
        text = since if isinstance(since, str) else json.dumps(since)
        return {"style": "all_docs", "since": text, "limit": str(limit)} | selection.query()

    # -----------------------------------------------------------------------------------------------------------
    # Documents

    def missing(self, revisions: Mapping[str, list[str]]) -> dict[str, dict[str, list[str]]]:
        differences: dict[str, dict[str, list[str]]] = self._request("POST", "_revs_diff", body=revisions)
        return differences

    def leaves(
        self, missing: Mapping[str, Mapping[str, list[str]]], other: Peer
    ) -> Iterator[Transfer | Unreadable]:
        for document in self._documents(missing):
            if isinstance(document, Unreadable):
                yield document
                continue
            ancestors = missing.get(document["_id"], {}).get("possible_ancestors", [])
            sources = {}
            for name, stub in document.get(ATTACHMENTS, {}).items():
                if not other.has_attachment(document["_id"], list(ancestors), name, stub):
                    # CouchDB keeps text compressed, and then says how long it is without.
                    sources[name] = AttachmentBytes(stub.get("length", 0), self._pieces(document, name))
            yield Transfer(document, sources)

    def _documents(
        self, missing: Mapping[str, Mapping[str, list[str]]]
    ) -> Iterator[dict[str, Any] | Unreadable]:
        if self._has_bulk_get:
            requests = [
                {"id": id, "rev": rev} for id, difference in missing.items() for rev in difference["missing"]
            ]
            try:
                answer = self._request(
                    "POST", "_bulk_get", body={"docs": requests}, revs="true", latest="true"
                )
            except Exception as error:
                if isinstance(error, CouchError) and error.status in _NOT_THERE:
                    self._has_bulk_get = False
                elif not _may_be_of_document(error):
                    raise
                # One of them may be the problem: each is requested alone.
            else:
                for result in answer["results"]:
                    yield from _documents_of_rows(result["id"], result["docs"])
                return
        for id, difference in missing.items():
            try:
                rows = self._request(
                    "GET", id, revs="true", latest="true", open_revs=json.dumps(difference["missing"])
                )
            except Exception as error:
                if not _may_be_of_document(error):
                    raise
                yield from (Unreadable(id, rev, error) for rev in difference["missing"])
            else:
                yield from _documents_of_rows(id, rows)

    def _pieces(
        self, document: Mapping[str, Any], name: str
    ) -> Callable[[], AbstractContextManager[Iterator[bytes]]]:
        def read(answer: httpx.Response, most: int) -> Iterator[bytes]:
            try:
                yield from _limit_pieces(answer, most)
            except Exception as error:
                if not _may_be_of_document(error):
                    raise
                raise SourceFailed(error) from error

        @contextmanager
        def pieces() -> Iterator[Iterator[bytes]]:
            url = f"{self._url(document['_id'])}/{quote(name, safe='/', errors='replace')}"
            request = self._client.build_request("GET", url, params={"rev": document["_rev"]})
            try:
                answer = self._client.send(request, stream=True)
                if answer.is_error:
                    _read_answer(answer)
            except Exception as error:
                if not _may_be_of_document(error):
                    raise
                raise SourceFailed(error) from error
            try:
                yield read(answer, document[ATTACHMENTS][name].get("length", 0))
            finally:
                answer.close()

        return pieces

    def has_attachment(self, id: str, revisions: list[str], name: str, stub: Mapping[str, Any]) -> bool:
        # A remote target: the source decides by the generation of the attachment.
        return False

    def write(self, leaves: Iterable[Transfer]) -> list[dict[str, Any] | Unreadable]:
        failures: list[dict[str, Any] | Unreadable] = []
        batch: list[tuple[str, str]] = []
        size = 0
        for leaf in leaves:
            if leaf.bytes > INLINE_BYTES:
                failures += self._put(leaf)
                continue
            text = json.dumps(_with_data(leaf))
            if batch and size + len(text) > BATCH_CHARACTERS:
                failures += self._bulk_docs(batch)
                batch, size = [], 0
            batch.append((leaf.document["_id"], text))
            size += len(text)
        return failures + (self._bulk_docs(batch) if batch else [])

    def _bulk_docs(self, batch: list[tuple[str, str]]) -> list[dict[str, Any]]:
        """Send documents together. `batch`: of each the id and its JSON."""
        content = f'{{"new_edits":false,"docs":[{",".join(text for _, text in batch)}]}}'
        try:
            return [
                row for row in self._request("POST", "_bulk_docs", body=content.encode()) if "error" in row
            ]
        except CouchError as error:
            if error.status not in _OF_DOCUMENT:
                raise
            if len(batch) == 1:
                return [{"id": batch[0][0], "error": error.error, "reason": error.reason}]
            # One of them is refused, and nothing was written.
            middle = len(batch) // 2
            return self._bulk_docs(batch[:middle]) + self._bulk_docs(batch[middle:])

    def _put(self, leaf: Transfer) -> list[dict[str, Any]]:
        """Send one document with its attachments after it, piece by piece."""
        following = {name: Following(one.length, _reader(one)) for name, one in leaf.sources.items()}
        document = leaf.document
        body = RelatedBody(document, following, _encode)
        try:
            with self._client.stream(
                "PUT",
                self._url(document["_id"]),
                params={"new_edits": "false"},
                content=iter(body),
                headers={
                    "Accept": "application/json",
                    "Content-Type": body.content_type,
                    "Content-Length": str(body.length),
                },
            ) as answer:
                _read_answer(answer)
        except CouchError as error:
            if error.status >= 500 or error.status == 401:
                raise
            return [{"id": document["_id"], "error": error.error, "reason": error.reason}]
        return []

    # -----------------------------------------------------------------------------------------------------------
    # Checkpoints

    def get_local(self, id: str) -> dict[str, Any] | None:
        try:
            document: dict[str, Any] = self._request("GET", id)
            return document
        except CouchError as error:
            if error.status != 404:
                raise
            return None

    def put_local(self, document: dict[str, Any]) -> None:
        self._request("PUT", document["_id"], body=document)


def _parts_of(url: str) -> SplitResult:
    """The parts of a database's URL.

    Raises:
        InvalidOption: It is no such URL.
    """
    try:
        parts = urlsplit(url)
        is_one = bool(parts.scheme in ("http", "https") and parts.hostname and parts.path.strip("/"))
        # Reading the port shows whether it is a possible number.
        is_one = is_one and parts.port != 0
    except ValueError:
        is_one = False
    if not is_one:
        raise InvalidOption(f"a database's URL is like http://localhost:5984/notes, not {shown_value(url)}")
    return parts


def _id_in_url(id: str) -> str:
    for prefix in (DESIGN, LOCAL):
        if id.startswith(prefix):
            return prefix + quote(id.removeprefix(prefix), safe="", errors="replace")
    return quote(id, safe="", errors="replace")


def _request_options(body: Any) -> dict[str, Any]:
    """httpx's arguments for a JSON request with a JSON response; a `body` of None: no body."""
    if body is None:
        return {"headers": {"Accept": "application/json"}}
    content = body if isinstance(body, bytes) else _encode(body)
    return {
        "content": content,
        "headers": {"Accept": "application/json", "Content-Type": "application/json"},
    }


def _encode(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _decode(text: bytes) -> Any:
    try:
        return read_plain(text)
    except ValueError:
        raise CouchError(502, "bad_gateway", "The other side did not answer in JSON") from None


def _limit_pieces(answer: httpx.Response, most: int) -> Iterator[bytes]:
    """Yield the unpacked pieces of a response, and count their bytes: a packed megabyte may become a gigabyte.

    Raises:
        CouchError: 502, they are more than `most` bytes.
    """
    size = 0
    for piece in answer.iter_bytes():
        size += len(piece)
        if size > most:
            sentence = f"The other side's answer is longer than it may be: {most:,} bytes"
            raise CouchError(502, "bad_gateway", sentence)
        yield piece


def _read_answer(answer: httpx.Response) -> Any:
    """The JSON of an unread response.

    Raises:
        CouchError: It is a refusal, or no JSON, or too long.
    """
    content = b"".join(_limit_pieces(answer, MOST_ANSWER_BYTES))
    if not answer.is_error:
        return _decode(content)
    try:
        members = read_plain(content)
    except ValueError:
        members = None
    if not isinstance(members, dict):
        members = {}
    raise CouchError(
        answer.status_code,
        str(members.get("error", "error")),
        str(members.get("reason", f"HTTP {answer.status_code}")),
    )


def _reader(source: AttachmentBytes) -> Callable[[], Iterator[bytes]]:
    def read() -> Iterator[bytes]:
        with source.open() as pieces:
            yield from pieces

    return read


def _page(answer: Any) -> ChangesPage:
    return ChangesPage(answer["results"], answer["last_seq"], answer.get("pending"))


def _documents_of_rows(id: str, rows: Iterable[Any]) -> Iterator[dict[str, Any] | Unreadable]:
    """The documents of rows `{"ok"}`, or the reason why a row has none. Documents that are deleted or compacted away by now are
    left out."""
    for row in rows:
        if "ok" in row:
            is_one = isinstance(row["ok"], dict) and row["ok"].get("_id") == id
            error = CouchError(500, "bad_document", "The other side sent something else than the document")
            yield row["ok"] if is_one else Unreadable(id, None, error)
        elif row.get("error", {}).get("error") not in (None, "not_found"):
            failure = row["error"]
            # Any such error may be temporary.
            error = CouchError(500, str(failure["error"]), str(failure.get("reason")))
            yield Unreadable(id, failure.get("rev"), error)


def _may_be_of_document(error: Exception) -> bool:
    """Whether this document may be the problem: the server refuses, breaks off, or its response cannot be parsed. (Another
    request shows whether it answers at all.)"""
    import httpx

    if isinstance(error, CouchError):
        return error.status not in _OF_SERVER
    return isinstance(error, (httpx.RemoteProtocolError, httpx.ReadError, httpx.DecodingError))


def _with_data(leaf: Transfer) -> dict[str, Any]:
    """The document with the bytes of its attachments in it."""
    if not leaf.sources:
        return leaf.document
    attachments = {name: dict(stub) for name, stub in leaf.document[ATTACHMENTS].items()}
    for name, source in leaf.sources.items():
        with source.open() as pieces:
            data = b64encode(b"".join(pieces)).decode("ascii")
        for member in ("stub", "length", "encoding", "encoded_length", "digest"):
            attachments[name].pop(member, None)
        attachments[name]["data"] = data
    return {**leaf.document, ATTACHMENTS: attachments}
