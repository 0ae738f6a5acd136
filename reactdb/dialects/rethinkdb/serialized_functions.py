"""Serialized functions: the `function` of an index or of a write hook in RethinkDB's `index_status` and in the archives of
`rethinkdb-dump`. They are read so that such an archive can be restored with its indexes.

    index       "$reql_index_function$", version of the format: 1 byte, three versions of ReQL: 1 byte each, function,
                multi: 1 byte, geo: 1 byte
    write hook  "$reql_write_hook_function$", function
    function    kind: 1 byte (0 ReQL, 1 JavaScript), variables from around it: varint (how many) and the variables,
                depth of r.row: 4 bytes (if it is 1, whether it has a value: 1 byte), parameters: varint (how many) and
                8 bytes each, length of the body: 4 bytes, body: JSON and a null byte, place for backtraces: 4 bytes
    body        as the driver sends a term, but with that place behind each: [number, [arguments], {options}, place];
                what is no term is [1, value, place]

Numbers are little-endian. RethinkDB has written functions like this since 2.2; before, they were protocol buffers.

Rule of this file: bytes in, the driver's JSON out. `terms_admin` and `hooks` know reactdb's own binaries.

Source: RethinkDB 2.4, rdb_protocol: btree.cc, wire_func.cc, term_storage.cc, term_walker.cc.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from reactdb.errors import QueryError

INDEX_PREFIX: Final = b"$reql_index_function$"
HOOK_PREFIX: Final = b"$reql_write_hook_function$"
# The readable versions of the format: those of RethinkDB 2.2, 2.3 and 2.4.
VERSIONS: Final = range(7, 10)
# All versions that RethinkDB has ever used. The first byte distinguishes its functions from reactdb's.
KNOWN_VERSIONS: Final = range(32)
DATUM: Final = 1
MAKE_ARRAY: Final = 2
FUNC: Final = 69


class IndexFunction(NamedTuple):
    term: list[Any]
    multi: bool
    geo: bool


class _FunctionReader:
    def __init__(self, data: bytes, place: int) -> None:
        self._data = data
        self._place = place

    def take(self, count: int) -> bytes:
        data = self._data[self._place : self._place + count]
        if count < 0 or len(data) < count:
            raise ValueError("it ends too early")
        self._place += count
        return data

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little", signed=True)

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.number(1) & 0xFF
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number
            if shift > 63:
                raise ValueError("a number has no end")


def is_servers_index(data: bytes) -> bool:
    """Whether a RethinkDB server has made the binary."""
    return data.startswith(INDEX_PREFIX) and data[len(INDEX_PREFIX) :][:1] in map(_byte, KNOWN_VERSIONS)


def _byte(number: int) -> bytes:
    return bytes((number,))


def read_index(data: bytes) -> IndexFunction:
    """The function of an index.

    Raises:
        QueryError: It cannot be read; the message says why.
    """
    reader = _FunctionReader(data, len(INDEX_PREFIX))
    try:
        version = reader.number(1)
        if version not in VERSIONS:
            raise QueryError(
                "This index function was made by a RethinkDB before 2.2 or by one that is newer than 2.4; reactdb reads those "
                "of 2.2 to 2.4."
            )
        reader.take(3)
        term = _function(reader)
        return IndexFunction(term, bool(reader.number(1)), bool(reader.number(1)))
    except (ValueError, TypeError, IndexError, RecursionError) as error:
        raise _unreadable("index", error) from None


def read_hook(data: bytes) -> list[Any]:
    """The function of a write hook.

    Raises:
        QueryError: It cannot be read; the message says why.
    """
    try:
        return _function(_FunctionReader(data, len(HOOK_PREFIX)))
    except (ValueError, TypeError, IndexError, RecursionError) as error:
        raise _unreadable("write hook", error) from None


def _unreadable(what: str, error: Exception) -> QueryError:
    return QueryError(
        f"Binary blob passed to {what} create could not be interpreted as a reql_{what.replace(' ', '_')}_function ({error})."
    )


def _function(reader: _FunctionReader) -> list[Any]:
    if reader.number(1) == 1:
        raise QueryError("reactdb has no JavaScript engine: a function of JavaScript cannot be run.")
    captured = reader.varint() > 0
    if not captured and reader.number(4) == 1:
        captured = reader.number(1) == 1
    if captured:
        raise QueryError(
            "This function uses variables from outside it, which reactdb does not read from an archive: make the index or the "
            "write hook anew."
        )
    parameters = [reader.number(8) for _ in range(reader.varint())]
    body = json.loads(reader.take(reader.number(4)).rstrip(b"\0"))
    reader.take(4)
    return [FUNC, [[MAKE_ARRAY, parameters], sendable(body)]]


def sendable(term: list[Any]) -> Any:
    """A stored term in the drivers' form."""
    number, *parts = term[:-1]
    if number == DATUM:
        return sendable_value(parts[0])
    sent: list[Any] = [number]
    arguments = next((part for part in parts if isinstance(part, list)), [])
    sent.append([sendable(argument) for argument in arguments])
    options = next((part for part in parts if isinstance(part, dict)), None)
    if options is not None:
        sent.append({name: sendable(value) for name, value in options.items()})
    return sent


def sendable_value(value: Any) -> Any:
    """A datum in the drivers' form."""
    if isinstance(value, list):
        return [MAKE_ARRAY, [sendable_value(inner) for inner in value]]
    if isinstance(value, dict):
        return {name: sendable_value(inner) for name, inner in value.items()}
    return value
