"""IdValue: an `_id` of MongoDB that a table's primary key cannot be: null, a document, NaN, an infinity.

    ext  value      bytes
    ---  ---------  -----------------------------------
    63   IdValue    the value, as in a document

It is only ever the primary key of a native document. Its place in the order is with the registered types, in the order of the
inner values. Two values that differ only in the types of their numbers, like `{a: 1}` and `{a: 1.0}`, or both NaN, are the same
key.

Rule of this file: it needs no `bson`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from reactdb.dialects.mongodb.natives import Decimal128, Int64
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


_NUMBERS: Final = frozenset((int, float, Decimal, Int64, Decimal128))


def _in_keys(one: IdValue) -> IdValue:
    return IdValue(_with_plain_numbers(one.value))


def _with_plain_numbers(value: Any) -> Any:
    """The value with each number in the form of its key: equal numbers become identical."""
    if isinstance(value, dict):
        return {name: _with_plain_numbers(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_with_plain_numbers(inner) for inner in value]
    return collation.key_value(collation.key_bytes(value)) if type(value) in _NUMBERS else value


register_type(
    ValueType(
        "mongodb.id",
        63,
        IdValue,
        lambda one: encode_value(one.value),
        lambda data: IdValue(decode_value(data)),
        order=lambda one: collation.key_bytes(one.value),
        in_keys=_in_keys,
    )
)
