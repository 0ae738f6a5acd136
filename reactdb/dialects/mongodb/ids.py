"""IdValue: an `_id` that MongoDB has and a table's primary key cannot be: null, a document, NaN, an infinity.

    ext  value      bytes
    ---  ---------  -----------------------------------
    63   IdValue    the value, as in a document

It is only ever the primary key of a native document. Its place in the order is that of registered types, in the order of the
values inside.

Rule of this file: it needs no `bson`.
"""

from __future__ import annotations

from typing import Any

from reactdb.values import collation
from reactdb.values.codec import decode_value, encode_value, freeze
from reactdb.values.value import Value
from reactdb.values.value_types import ValueType, register_type

__all__ = ["IdValue"]


class IdValue(Value):
    """See the head of this file.

    Attributes:
        value: The native value of the `_id`. It refuses to be changed.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = freeze({"": value})[""]


register_type(
    ValueType(
        "mongodb.id",
        63,
        IdValue,
        lambda one: encode_value(one.value),
        lambda data: IdValue(decode_value(data)),
        order=lambda one: collation.key_bytes(one.value),
    )
)
