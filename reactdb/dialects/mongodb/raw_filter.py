"""Raw filters: tests of a stored document by its bytes, before it is decoded.

If a field must be equal to a value, a matching document contains the field's name, and after it that value: in one of its few
encodings, or within an array, or as a value of an extension type. If none of these is among the bytes, the document does not
match, and is not decoded.

Rule of this file: every match passes. Other documents may pass, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from bson.int64 import Int64
from bson.objectid import ObjectId

from reactdb.dialects.mongodb.field_names import parse_name
from reactdb.dialects.mongodb.values import native_value
from reactdb.values import codec

__all__ = ["byte_test"]

MOST_VALUES: Final = 20

# The first bytes of arrays and of values of extension types.
_OTHERS: Final = rb"[\x90-\x9f\xdc\xdd\xc7-\xc9\xd4-\xd8]"
_TAKEN: Final = frozenset({str, int, float, bool, Int64, ObjectId})


def byte_test(
    conditions: Mapping[str, Iterable[tuple[str, Any]]], *, has_collation: bool = False
) -> Callable[[bytes], bool] | None:
    """A test of stored bytes: all documents that meet these conditions pass. None if there is nothing to test.

    Args:
        conditions: By path, operators and their arguments.
        has_collation: Text is not compared by its bytes.
    """
    taken = _TAKEN - {str} if has_collation else _TAKEN
    searches = []
    for path, own in conditions.items():
        name = parse_name(path.rpartition(".")[2])
        if path.partition(".")[0] == "_id" or name.isdigit():
            continue
        for operator, value in own:
            values = [value] if operator == "$eq" else value if operator == "$in" else None
            if (
                isinstance(values, (list, tuple))
                and len(values) <= MOST_VALUES
                # NaN has many bytes.
                and all(type(one) in taken and one == one for one in values)
            ):
                searches.append(re.compile(_pattern(name, values), re.DOTALL).search)
    if not searches:
        return None
    if len(searches) == 1:
        only = searches[0]
        return lambda body: only(body) is not None
    return lambda body: all(search(body) for search in searches)


def _pattern(name: str, values: Iterable[Any]) -> bytes:
    written: dict[bytes, None] = {}
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            written[codec.encode_value(native_value(value))] = None
            continue
        written[codec.encode_value(float(value))] = None
        if abs(value) != float("inf") and value == int(value):
            written[codec.encode_value(int(value))] = None
            if not value:
                # Both zeros are equal, and neither is the other's bytes.
                written |= dict.fromkeys(map(codec.encode_value, (0.0, -0.0)))
    ways = [*map(re.escape, written), _OTHERS]
    return re.escape(codec.encode_value(name)) + b"(?:" + b"|".join(ways) + b")"
