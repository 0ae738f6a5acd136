"""Documents that are decoded together equal those that are decoded one by one, or are reported as damaged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reactdb
from reactdb.values import codec
from reactdb.values import decode as values_decode

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.text(), values, max_size=4), max_size=6))
def test_documents_that_are_decoded_together_are_those_one_by_one(documents):
    bodies = [codec.encode(document) for document in documents]
    assert [codec.decode(body) for body in bodies] == codec.decode_many(bodies)
    frozen = codec.decode_many_frozen(bodies)
    assert [codec.decode_frozen(body) for body in bodies] == frozen
    assert all(type(document) is codec.FrozenDict for document in frozen)


@pytest.mark.parametrize(
    "bodies",
    [
        # A text takes what stands between the two, and the next one's beginning; what is left of that is a document.
        (b"\x81\xa1a\xabb", b"\x92\xc0\x81\xa1c\x01"),
        # A float takes all but the last byte of what stands between the two, which is a number by itself.
        (b"\x81\xa1a\xcb", b"\x80"),
        (b"\x80", b"\x01"),
        (b"\x80", b""),
        (b"", b"\x80\x80"),
        (b"\x80", b"\x81\xc4\x01a\x01"),
        (b"\x80", b"\x81\xa1a\xd6\xff\x00\x00\x00\x01"),
    ],
)
def test_bytes_that_are_no_document_are_told_among_others(bodies, monkeypatch):
    fence = b"\xcf\xff" + b"\x01" * 7
    monkeypatch.setattr(values_decode, "_FENCE", fence)
    monkeypatch.setattr(values_decode, "_FENCE_NUMBER", int.from_bytes(fence[1:], "big"))
    for decode in (codec.decode_many, codec.decode_many_frozen):
        with pytest.raises(reactdb.CorruptDatabase):
            decode(bodies)
