"""Multipart bodies: whatever is in the parts, they come out as they went in."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactdb.dialects.couchdb import multipart
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.multipart import boundary_of, part_head, parts_in

BOUNDARY = "xX"
# Pieces that look like boundaries and line ends.
CONTENTS = st.lists(
    st.one_of(
        st.binary(max_size=20),
        st.sampled_from([b"\r\n", b"\n", b"--", b"--xX", b"\r\n--x", b"\r\n-", b"xX", b"\r"]),
    ),
    max_size=12,
).map(b"".join)


def body_of(parts: list[bytes], boundary: str = BOUNDARY, before: bytes = b"") -> bytes:
    pieces = [before]
    for number, part in enumerate(parts):
        pieces += [
            part_head(boundary, {"Content-Type": "text/plain", "X-Number": str(number)}),
            part,
            b"\r\n",
        ]
    return b"".join([*pieces, f"--{boundary}--\r\n".encode()])


@given(
    parts=st.lists(CONTENTS.filter(lambda part: b"\r\n--xX" not in b"\r\n" + part), max_size=4),
    block=st.integers(1, 40),
)
def test_parts_come_out_as_they_went_in_wherever_a_block_ends(parts: list[bytes], block: int) -> None:
    file = io.BytesIO(body_of(parts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(multipart, "BLOCK", block)
        found = parts_in(file, BOUNDARY.encode())

    assert parts == [part.open(file).read() for part in found]
    assert [str(number) for number in range(len(parts))] == [part.headers["x-number"] for part in found]


def test_what_is_before_the_first_boundary_means_nothing() -> None:
    file = io.BytesIO(body_of([b"one"], before=b"This is a message of several parts.\r\n"))

    assert [b"one"] == [part.open(file).read() for part in parts_in(file, BOUNDARY.encode())]


@pytest.mark.parametrize("cut", [1, 5, 12])
def test_a_body_that_is_cut_off_is_refused(cut: int) -> None:
    file = io.BytesIO(body_of([b"one", b"two"])[: -cut - 3])

    with pytest.raises(CouchError, match="cut off"):
        parts_in(file, BOUNDARY.encode())


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        ('multipart/related; boundary="a b"', b"a b"),
        ("multipart/related;boundary=abc;type=x", b"abc"),
        ("Multipart/Related; Boundary=abc", b"abc"),
    ],
)
def test_the_boundary_is_in_the_content_type(content_type: str, boundary: bytes) -> None:
    assert boundary == boundary_of(content_type)


@pytest.mark.parametrize(
    "content_type", ["multipart/related", 'multipart/related; boundary=""', "application/json"]
)
def test_a_content_type_without_a_boundary_is_refused(content_type: str) -> None:
    with pytest.raises(CouchError, match="no boundary"):
        boundary_of(content_type)


def test_a_head_without_an_end_is_refused() -> None:
    file = io.BytesIO(b"--xX\r\nContent-Type: text/plain\r\n--xX--")

    with pytest.raises(CouchError, match="no end of its headers"):
        parts_in(file, BOUNDARY.encode())


def test_what_is_sent_is_what_is_read() -> None:
    names = ["a b", 'q"\\', "line\nend", "not sent", "ä"]
    data = {name: name.encode() * 3 for name in names if name != "not sent"}
    stubs = {name: {"content_type": "text/plain\r\nx: y", "stub": True, "length": 99} for name in names}
    document = {"_id": "x", "_attachments": stubs}
    following = {
        name: multipart.Following(len(found), lambda found=found: iter([found[:2], found[2:]]))
        for name, found in data.items()
    }
    body = multipart.RelatedBody(document, following, lambda value: json.dumps(value).encode())
    whole = b"".join(body)
    assert body.length == len(whole)
    file = io.BytesIO(whole)
    first, *rest = parts_in(file, boundary_of(body.content_type))
    said = json.loads(first.open(file).read())["_attachments"]
    assert list(data.values()) == [part.open(file).read() for part in rest]
    assert [(str(len(found)), "text/plain  x: y") for found in data.values()] == [
        (part.headers["content-length"], part.headers["content-type"]) for part in rest
    ]
    assert {"not sent"} == {name for name, stub in said.items() if "stub" in stub}
    assert {name: len(found) for name, found in data.items()} == {
        name: stub["length"] for name, stub in said.items() if stub.get("follows")
    }
