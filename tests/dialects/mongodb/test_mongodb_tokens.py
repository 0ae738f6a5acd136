"""Resume tokens as text."""

import pytest
from bson import Binary, Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from reactdb.dialects.mongodb import MongoError
from reactdb.dialects.mongodb.tokens import Token, TokenOrigin, mark, parse
from tests.support.scaling import examples

ORIGIN = TokenOrigin("0123456789abcdef", "fedcba987654")
EVENTS = st.builds(
    Token,
    st.integers(0, 3),
    st.integers(0, 300),
    st.just(True),
    st.integers(0, 3),
    st.integers(0, 3),
    st.booleans(),
    st.integers(0, 300),
    st.just(b"u" * 16) | st.none(),
    st.just(ORIGIN),
)
MARKS = st.builds(mark, st.integers(0, 3), st.integers(0, 300), st.just(ORIGIN))
SOME = Token(7, 9, True, 1, 0, False, 0, b"u" * 16, ORIGIN)
DATA = SOME.document()["_data"]


@given(EVENTS | MARKS, EVENTS | MARKS)
@settings(max_examples=examples(200))
def test_tokens_sort_as_the_stream_goes_and_can_be_read_back(one, other):
    first, second = one.document()["_data"], other.document()["_data"]

    assert one == parse({"_data": first})
    assert (one[:7] < other[:7]) == (first < second if one[:7] != other[:7] else False)


def test_a_token_begins_with_its_cluster_time():
    assert DATA.startswith("82" + "00000007" + "00000009")
    assert Timestamp(7, 9) == SOME.time


@pytest.mark.parametrize("data", [DATA[:-2], DATA.lower(), DATA + "00", DATA + "FF"])
def test_what_drivers_take_liberties_with_is_tolerated(data):
    assert SOME == parse({"_data": data, "_typeBits": b"", "more": 1})


@pytest.mark.parametrize(
    ("code", "token"),
    [
        (40647, {}),
        (40647, {"_data": 1}),
        (40647, {"_data": None}),
        (40647, {"_data": Binary(b"x")}),
        (40649, {"_data": ""}),
        (9, {"_data": "xyz"}),
        (9, {"_data": DATA[:-1]}),
        (9, {"_data": "82 00"}),
        (50811, {"_data": "00" + DATA[2:]}),
        (50811, {"_data": DATA + "07"}),
        (15, {"_data": DATA[:-4]}),
        (15, {"_data": "82"}),
        (40648, {"_data": DATA, "_typeBits": 1}),
    ],
)
def test_what_is_no_token_has_its_code(code, token):
    with pytest.raises(MongoError) as caught:
        parse(token)

    assert code == caught.value.code
