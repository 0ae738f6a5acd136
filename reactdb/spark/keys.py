"""Keys: collation bytes of primary keys as values, many at once.

Most tables have keys of one kind, whole numbers or strings, and those of a chunk are read together: a fifth of the time of one
by one.

Rule of this file: what it does not know how to read quickly, `collation.key_value` reads.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from reactdb.collation import key_value

# A positive number: its tag, the double with its sign turned, and "exactly". See `key_format`.
NUMBER, STRING, EXACT = 0x30, 0xF0, 0x80
_doubles = struct.Struct(">xdx").iter_unpack
NUMBER_BYTES = 10
# The text's end, and what stands for a zero inside of it.
TEXT_END, ZERO = b"\x00\x01", b"\x00\xff"


def key_values(keys: Sequence[bytes]) -> list[Any]:
    """The primary keys of these bytes."""
    tags = {key[0] for key in keys}
    if tags == {NUMBER} and set(map(len, keys)) == {NUMBER_BYTES}:
        joined = b"".join(keys)
        # Zero and what is below it have the highest bit otherwise, and what is not exact another end.
        if min(joined[1::NUMBER_BYTES]) >= 0x80 and set(joined[9::NUMBER_BYTES]) == {EXACT}:
            values = [-value for (value,) in _doubles(joined)]
            if all(map(float.is_integer, values)):
                return list(map(int, values))
    elif tags == {STRING} and not any(ZERO in key for key in keys):
        return [key[1:-2].decode() for key in keys]
    return list(map(key_value, keys))
