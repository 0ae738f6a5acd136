"""Hypothesis strategies for BSON documents: every type that BSON has, in every form that the driver decodes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from bson.binary import Binary
from bson.code import Code
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp
from hypothesis import strategies as st

__all__ = ["bson_documents", "bson_values", "field_names", "scalars"]

_LONE = st.characters(exclude_categories=["Cs"])
_TEXTS = st.text(_LONE, max_size=6)
field_names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)
_U32 = st.integers(0, 2**32 - 1)


def _dates() -> st.SearchStrategy[Any]:
    return st.datetimes().map(lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000))


def scalars() -> st.SearchStrategy[Any]:
    """Values that are neither documents nor arrays."""
    return st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**31), 2**31 - 1),
        st.integers(-(2**63), 2**63 - 1).map(Int64),
        st.integers(-3, 3).map(Int64),
        st.floats(),
        _TEXTS,
        st.binary(max_size=5),
        st.binary(min_size=12, max_size=12).map(ObjectId),
        st.binary(min_size=16, max_size=16).map(Decimal128.from_bid),
        st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-1000, max_value=1000).map(
            lambda number: Decimal128(str(number))
        ),
        _dates(),
        st.integers(-(2**63), 2**63 - 1).map(_date),
        st.builds(Timestamp, _U32, _U32),
        st.builds(Binary, st.binary(max_size=4), st.integers(1, 255)),
        st.builds(Binary, st.binary(min_size=16, max_size=16), st.sampled_from([3, 4, 5])),
        st.builds(Regex, st.sampled_from(["a", "^b.*", "/"]), st.sampled_from([0, 2, 8, 10, 126])),
        st.just(MinKey()),
        st.just(MaxKey()),
        st.builds(Code, _TEXTS, st.none() | st.dictionaries(st.sampled_from("ab"), st.integers(0, 3))),
    )


def _date(ms: int) -> Any:
    beyond = not -62_135_596_800_000 <= ms <= 253_402_300_799_999
    return DatetimeMS(ms) if beyond else datetime(1970, 1, 1)


def bson_values() -> st.SearchStrategy[Any]:
    return st.recursive(
        scalars(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(field_names, inner, max_size=3),
        max_leaves=8,
    )


def bson_documents() -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(field_names | st.just("_id"), bson_values(), max_size=5)
