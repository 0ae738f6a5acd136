"""Attachments: their entries in a document, and the source and target of their bytes.

Stored is CouchDB's stub, with the `Blob` of its bytes:

    {"a.txt": {"content_type": "text/plain", "revpos": 1, "digest": "md5-...", "length": 5, "stub": true, "blob": Blob(...)}}

So a native reader sees the stubs, and the bytes stay for as long as an entry of the log refers to them. They are written before
the document, by commits of their own; where the document is refused then, compaction removes them.

The digest is that of the original bytes. (CouchDB compresses text, and shows the digest of the compressed bytes.)

Rule of this file: the bytes of an attachment pass through in pieces, and are never all in memory, except where JSON has them.
"""

from __future__ import annotations

import re
import zlib
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import md5
from typing import Any, Final

from reactdb.blobs import Blobs, pieces_of
from reactdb.budget import CALL_STEPS, check, spend, spend_bytes
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.headers import check_text, header_text
from reactdb.dialects.couchdb.revisions import ATTACHMENTS, KeptLeaf
from reactdb.values.blob import Blob

DEFAULT_TYPE: Final = "application/octet-stream"
PARTS: Final = ("content_type", "revpos", "digest", "length")
_DIGEST: Final = re.compile(r"[a-z0-9]+-[A-Za-z0-9+/=_-]{1,200}", re.ASCII)
"""A digest of any algorithm."""

ZIPPED_BYTES: Final = 16 * 1024
UNZIPPED_BYTES: Final = 256 * 1024
"""Bytes to unpack at a time. One byte of gzip may become a thousand."""

_GZIP: Final = 31
"""zlib's number for a stream with gzip's head and check sum, and a window of any size."""


def stubs_of(fields: Mapping[str, Any]) -> dict[str, dict[str, Any]] | None:
    """The stored stubs of a document; None where it has none, or a native writer has put something else there."""
    stubs = fields.get(ATTACHMENTS)
    if not isinstance(stubs, dict):
        return None
    for stub in stubs.values():
        if not isinstance(stub, dict) or not isinstance(stub.get("blob"), Blob):
            return None
    return stubs


def render_stubs(stubs: Mapping[str, Mapping[str, Any]], generation: int) -> dict[str, Any]:
    """Stubs as CouchDB shows them. Native writers may have left parts out, or put anything there, and earlier versions of the
    dialect took every content type.

    Args:
        generation: Of the document's revision.
    """
    return {name: _render_stub(stub, generation) for name, stub in stubs.items()}


def _render_stub(stub: Mapping[str, Any], generation: int) -> dict[str, Any]:
    content_type, revpos, digest = (stub.get(part) for part in PARTS[:3])
    blob: Blob = stub["blob"]
    return {
        "content_type": (header_text(content_type) if isinstance(content_type, str) else "") or DEFAULT_TYPE,
        # If its revision is unknown, it counts as new.
        "revpos": revpos if type(revpos) is int and 0 < revpos <= generation else generation,
        # The name of the bytes. Clients compare digests, and need not know their algorithm.
        "digest": digest
        if isinstance(digest, str) and _DIGEST.fullmatch(digest)
        else f"sha256-{blob.digest}",
        "length": blob.size,
        "stub": True,
    }


def with_data(
    blobs: Blobs, stubs: Mapping[str, Mapping[str, Any]], generation: int, *, later_than: int | None = None
) -> dict[str, Any]:
    """Stubs with their bytes as base64.

    Args:
        generation: Of the document's revision.
        later_than: A generation: attachments up to it stay stubs.
    """
    rendered = render_stubs(stubs, generation)
    for name, stub in stubs.items():
        if later_than is None or rendered[name]["revpos"] > later_than:
            del rendered[name]["stub"]
            del rendered[name]["length"]
            rendered[name]["data"] = b64encode(blobs.read(stub["blob"])).decode("ascii")
            # It may be large.
            check()
    return rendered


class _Digested:
    """The pieces of a source, and their MD5 and length after the last piece. More than `most` bytes are refused."""

    def __init__(self, source: Any, most: int | None) -> None:
        self._source = source
        self._most = most
        self._digest = md5(usedforsecurity=False)
        self.length = 0

    def __iter__(self) -> Iterator[bytes]:
        for piece in pieces_of(self._source):
            spend_bytes(len(piece))
            self._digest.update(piece)
            self.length += len(piece)
            if self._most is not None and self.length > self._most:
                sentence = f"The attachment is too large: at most {self._most} bytes"
                raise CouchError(413, "attachment_too_large", sentence)
            yield piece

    @property
    def digest(self) -> str:
        return "md5-" + b64encode(self._digest.digest()).decode("ascii")


def keep(
    blobs: Blobs, source: Any, content_type: str, *, encoding: str | None = None, most: int | None = None
) -> dict[str, Any]:
    """Write the bytes of an attachment, and give its stub, without `revpos`.

    Args:
        source: bytes, a binary file, or an iterable of bytes.
        encoding: "gzip": the source is compressed, and kept as it was before.
        most: How many bytes it may have, as they are kept.

    Raises:
        CouchError: 400, it is not compressed; 413, it is too large; 415, it has another encoding.
    """
    if encoding not in (None, "identity", "gzip"):
        sentence = "Only gzip and identity content-encodings are supported"
        raise CouchError(415, "bad_content_type", sentence)
    digested = _Digested(_limit_pieces(unzip(source)) if encoding == "gzip" else source, most)
    blob = blobs.put(digested)
    return {
        "content_type": content_type,
        "digest": digested.digest,
        "length": digested.length,
        "stub": True,
        "blob": blob,
    }


class _Allowance:
    """How many bytes may still come out of compressed attachments."""

    __slots__ = ("left", "most")

    def __init__(self, most: int) -> None:
        self.most = self.left = most

    def take(self, count: int) -> None:
        """
        Raises:
            CouchError: 413.
        """
        self.left -= count
        if self.left < 0:
            sentence = f"The attachments are too large: at most {self.most} bytes in one request when they are unpacked"
            raise CouchError(413, "attachment_too_large", sentence)


_allowance: ContextVar[_Allowance | None] = ContextVar("allowance", default=None)


@contextmanager
def limit_unpacked(most: int) -> Iterator[None]:
    """Within the block, all compressed attachments together unpack to at most so many bytes. Each alone may be within its bound,
    but a small request may have thousands."""
    outer = _allowance.set(_Allowance(most))
    try:
        yield
    finally:
        _allowance.reset(outer)


def unzip(source: Any) -> Iterator[bytes]:
    """The unpacked bytes of gzip, in pieces of at most UNZIPPED_BYTES, for any ratio of compression.

    Args:
        source: bytes, a binary file, or an iterable of bytes. It may have several members, which follow one another.

    Raises:
        CouchError: 400, it is not compressed with gzip, or its end is missing.
    """
    inflate = zlib.decompressobj(wbits=_GZIP)
    try:
        for left in _small(pieces_of(source)):
            while left:
                spend(CALL_STEPS)
                if inflate.eof:
                    # The next member begins here.
                    inflate = zlib.decompressobj(wbits=_GZIP)
                data = inflate.decompress(left, UNZIPPED_BYTES)
                # zlib may return the rest of the output with the next input: the check sum at the end is input, too.
                left = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
                if data:
                    yield data
    except zlib.error:
        raise _not_gzip() from None
    if not inflate.eof:
        raise _not_gzip()


def _limit_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
    allowance = _allowance.get()
    for piece in pieces:
        if allowance is not None:
            allowance.take(len(piece))
        yield piece


def _small(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in small pieces: each member leaves a copy of the bytes after it, and a member may have only 20 bytes."""
    for piece in pieces:
        for start in range(0, len(piece), ZIPPED_BYTES):
            yield piece[start : start + ZIPPED_BYTES]


def _not_gzip() -> CouchError:
    return CouchError(400, "bad_request", "The attachment is not compressed with gzip")


# ---------------------------------------------------------------------------------------------------------------
# Attachments in a write


class Given:
    """The `_attachments` of a document before its write. Its constructor stores the bytes, so they are stored before the
    write."""

    def __init__(
        self,
        blobs: Blobs,
        id: str,
        attachments: object,
        parts: Mapping[str, Any] | None,
        *,
        most: int | None = None,
    ) -> None:
        """
        Args:
            parts: The sources of the attachments that follow the document, by name.
            most: The bytes that each may have.

        Raises:
            CouchError: 400, they are malformed; 413, one is too large; 415, one has an unknown encoding.
        """
        self._id = id
        self._most = most
        self._stubs: dict[str, dict[str, Any]] = {}
        # Attachments that only refer to existing bytes of the document: name and digest.
        self._old: dict[str, str | None] = {}
        if not isinstance(attachments, dict):
            raise CouchError(400, "bad_request", "Attachments must be a JSON object")
        for name, entry in attachments.items():
            spend(CALL_STEPS)
            check_name(name)
            if not isinstance(entry, dict):
                raise CouchError(400, "bad_request", f"Invalid attachment `{name}`: it is a JSON object")
            self._take(blobs, name, entry, parts or {})

    def _take(self, blobs: Blobs, name: str, entry: dict[str, Any], parts: Mapping[str, Any]) -> None:
        content_type = entry.get("content_type", DEFAULT_TYPE)
        if not isinstance(content_type, str):
            raise CouchError(400, "bad_request", f"Invalid content_type of attachment `{name}`")
        source: Any
        if "data" in entry:
            try:
                source = b64decode(entry["data"], validate=True)
            except (NotBase64, TypeError, ValueError):
                raise CouchError(400, "bad_request", f"Invalid attachment data for {name}") from None
        elif entry.get("follows") is True:
            if name not in parts:
                raise CouchError(400, "bad_request", f"The bytes of attachment `{name}` do not follow")
            source = parts[name]
        elif entry.get("stub") is True:
            digest = entry.get("digest")
            self._old[name] = digest if isinstance(digest, str) else None
            return
        else:
            raise CouchError(400, "bad_request", f"Invalid attachment data for {name}")
        check_new(name, content_type)
        stub = keep(blobs, source, content_type, encoding=entry.get("encoding"), most=self._most)
        revpos = entry.get("revpos")
        self._stubs[name] = stub if not isinstance(revpos, int) else {**stub, "revpos": revpos}

    def stubs(self, near: Sequence[KeptLeaf], generation: int, *, is_new_edit: bool) -> dict[str, Any]:
        """The stored form: the stubs of all attachments.

        Args:
            near: The leaves that may have the attachments of bare stubs, the nearest first.

        Raises:
            CouchError: 412, none has.
        """
        stubs = {}
        for name, stub in self._stubs.items():
            revpos = generation if is_new_edit else min(stub.get("revpos", generation), generation)
            parts = {"content_type": stub["content_type"], "revpos": revpos, **stub}
            parts["revpos"] = revpos
            stubs[name] = parts
        for name, digest in self._old.items():
            stubs[name] = self._existing_stub(near, name, digest, is_new_edit)
        return stubs

    def _existing_stub(
        self, near: Sequence[KeptLeaf], name: str, digest: str | None, is_new_edit: bool
    ) -> dict[str, Any]:
        candidates = []
        for leaf in near:
            stub = (stubs_of(leaf.fields) or {}).get(name)
            if stub is not None:
                candidates.append(stub)
        for stub in candidates:
            if is_new_edit or digest is None or stub.get("digest") == digest:
                return stub
        if candidates:
            # Its digest is that of compressed bytes, or comes from another server.
            return candidates[0]
        raise CouchError(412, "missing_stub", f"Invalid attachment stub in {self._id} for {name}")


def check_new(name: str, content_type: str) -> None:
    """Check the entry of a new attachment.

    Raises:
        CouchError: 400, the name or the content type has control characters.
    """
    check_text(name, f"The name of attachment `{header_text(name)}`")
    check_text(content_type, f"The content type of attachment `{name}`")


def check_name(name: str) -> None:
    """Raises: CouchError."""
    if name.startswith("_"):
        raise CouchError(400, "bad_request", f"Attachment name '{name}' starts with prohibited character '_'")
    if not name:
        raise CouchError(400, "bad_request", "Attachment name is empty")


def missing() -> CouchError:
    return CouchError(404, "not_found", "Document is missing attachment")
