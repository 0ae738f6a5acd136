"""Documents: columns of encoded documents as Arrow arrays, and what happens to those that do not fit.

A page of documents is decoded in one call and converted to arrays as a whole. If that fails, the page is cut into smaller and
smaller parts, until a few documents are left that are converted one by one. So a document that does not fit costs about as much
as reading its page once more. Then the mode decides, as it does in Spark's own sources:

    PERMISSIVE      what does not fit is null, and the column for it (`_corrupt`) says what was there, and why
    DROPMALFORMED   the row is left out
    FAILFAST        SchemaMismatch, which names the document and the place

Rule of this file: it knows bytes and columns. `changes` and `snapshot` read them.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from types import GenericAlias
from typing import Any, TypeVar

import msgpack
import pyarrow as pa
from pyspark.sql import types as spark

from reactdb.errors import SchemaMismatch
from reactdb.json import dumps_plain
from reactdb.spark.columns import Column, Misfit, Struct, column_for, placed
from reactdb.values.codec import decode
from reactdb.values.extension_types import read_extension

ARRAY_32 = b"\xdd"
# What does not fit as a whole is cut into so many parts. With eight, one document in 2,000 is found in three steps, which read
# its page once, an eighth of it and a 64th of it in vain; with two parts, twice as much would be read in vain.
PARTS = 8
# Documents that are looked at one by one: a call for so few costs as much as they do.
FEW = 4
Value = TypeVar("Value")


def decode_many(bodies: Sequence[bytes]) -> list[dict[str, Any]]:
    """The documents of these bytes, whose checksums were compared: two thirds of the time of one by one, a third with msgspec.

    Raises:
        CorruptDatabase: Some are no document's bytes.
    """
    try:
        found = _decode(joined(bodies))
        if set(map(type, found)) <= {dict}:
            return found  # type: ignore[no-any-return]
    except Exception:
        pass
    # One of them is wrong: the careful way says so.
    return [decode(body) for body in bodies]


def joined(bodies: Sequence[bytes]) -> bytes:
    """Documents as one array of them."""
    return b"".join((ARRAY_32, len(bodies).to_bytes(4, "big"), *bodies))


def column_decoder(
    names: Sequence[str], *, is_complete: bool
) -> Callable[[Sequence[bytes]], list[Sequence[Any]]] | None:
    """What makes columns of the fields with these names straight from the bytes of documents, with msgspec; None without it.

    It needs three fifths of the time of dicts first, and a third where two of eight fields are wanted. It raises anything at all
    where a document is not as it should be, or has another field and `is_complete`: then ask the careful way.
    """
    try:
        from msgspec import defstruct, field
        from msgspec.msgpack import Decoder
        from msgspec.structs import astuple
    except ImportError:
        return None
    # A missing field and a null are the same. Names of fields are anything, those of attributes are not.
    fields: Any = [(f"f{place}", Any, field(default=None, name=name)) for place, name in enumerate(names)]
    kind = defstruct("Fields", fields, forbid_unknown_fields=is_complete, gc=False)
    decode_rows = Decoder(
        GenericAlias(list, (kind,)), ext_hook=lambda code, data: read_extension(code, bytes(data))
    ).decode

    def columns(bodies: Sequence[bytes]) -> list[Sequence[Any]]:
        return list(zip(*map(astuple, decode_rows(joined(bodies))), strict=True))

    return columns


def _decoder() -> Callable[[bytes], Any]:
    """msgspec's, where it is installed: it needs half the time of msgpack's."""
    try:
        from msgspec.msgpack import Decoder
    except ImportError:
        return partial(msgpack.unpackb, ext_hook=read_extension)
    decode_any: Callable[[bytes], Any] = Decoder(
        ext_hook=lambda code, data: read_extension(code, bytes(data))
    ).decode
    return decode_any


_decode = _decoder()


@contextmanager
def without_collector() -> Iterator[None]:
    """Python's garbage collector at rest: it would walk through a page while it is made, again and again, and find nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Rows:
    """Says for the rows of one chunk what became of those that did not fit.

    Attributes:
        reasons: By the number of the row: what is to be said of it, in JSON.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.reasons: dict[int, str] = {}

    def add(self, row: int, name: str, value: Any, reason: str) -> None:
        """Note that the value of this column, or a document, does not fit."""
        self.reasons[row] = told(name, value, reason, self.reasons.get(row))


class DocumentColumn:
    """A column that is made of encoded documents, by its Spark type.

    A STRUCT or a MAP is decoded, a STRING is JSON text, a VARIANT is one, a BINARY has the bytes as they are stored.

    Args:
        name: Of the column, for messages; "" for the fields of the documents as columns of their own.
        mode: PERMISSIVE, DROPMALFORMED or FAILFAST.
        is_complete: See `columns.Struct`.
    """

    def __init__(self, name: str, type_: spark.DataType, mode: str, *, is_complete: bool = False) -> None:
        self.name = name
        self.mode = mode
        self.is_raw = isinstance(type_, spark.BinaryType)
        self.is_text = isinstance(type_, spark.StringType)
        self.column: Column = column_for(type_, is_complete=is_complete)

    def array(self, bodies: Sequence[bytes | None], rows: Rows, describe: Callable[[int], str]) -> Any:
        """One array of the whole column. `describe` says which document a row has, for an error."""
        if self.is_raw:
            return pa.array(bodies, self.column.arrow)
        # By identity, in C: most pages have no deletion, and most columns of new documents no null.
        present: Sequence[Any] = [body for body in bodies if body is not None] if None in bodies else bodies
        if not present:
            return pa.nulls(len(bodies), self.column.arrow)
        if self.is_text:
            made = pa.array(list(map(dumps_plain, decode_many(present))), self.column.arrow)
        else:
            numbers = [number for number, body in enumerate(bodies) if body is not None]
            made = self._joined(self._arrays(present, numbers, rows, describe))
        return placed(made, bodies)

    def arrays(self, bodies: Sequence[bytes], rows: Rows, describe: Callable[[int], str]) -> list[Any]:
        """The fields of the documents, each as an array."""
        assert isinstance(self.column, Struct)
        return self._arrays(bodies, range(len(bodies)), rows, describe) if self.column.names else []

    def _arrays(
        self,
        bodies: Sequence[bytes],
        numbers: Sequence[int],
        rows: Rows,
        describe: Callable[[int], str],
    ) -> list[Any]:
        """The arrays of documents, which have these rows, with nulls where something does not fit."""

        def attempt(part: Sequence[bytes]) -> list[Any] | None:
            if self._columns is not None:
                return self._quick_arrays(part)
            try:
                return self._made(decode_many(part))
            except Misfit:
                return None

        def mended(place: int, body: bytes) -> Any:
            (document,) = decode_many([body])
            try:
                self._made([document])
            except Misfit as misfit:
                reason = str(misfit)
                if self.mode == "FAILFAST":
                    reason = f"{self.name}: {reason}" if self.name else reason
                    raise SchemaMismatch(describe(numbers[place]), reason) from None
                rows.add(numbers[place], self.name or "document", document, reason)
                return self.column.patched(document)
            return document

        return fitted(bodies, attempt, mended, self._made)

    def _made(self, documents: Sequence[Any]) -> list[Any]:
        """The arrays of decoded documents: of a STRUCT one for each field, and otherwise the one of the column."""
        column = self.column
        if isinstance(column, Struct) and column.names:
            return column.arrays(documents)
        return [column.convert(documents)]

    def _joined(self, arrays: list[Any]) -> Any:
        """The array of the column."""
        if isinstance(self.column, Struct) and self.column.names:
            return pa.StructArray.from_arrays(arrays, fields=list(self.column.arrow))
        (made,) = arrays
        return made

    @cached_property
    def _columns(self) -> Callable[[Sequence[bytes]], list[Sequence[Any]]] | None:
        column = self.column
        if not isinstance(column, Struct) or not column.names:
            return None
        return column_decoder(column.names, is_complete=column.is_complete)

    def _quick_arrays(self, bodies: Sequence[bytes]) -> list[Any] | None:
        """The fields of documents that are all as they should be; None where the careful way has to look."""
        assert isinstance(self.column, Struct)
        assert self._columns is not None
        try:
            return self.column.arrays_of(self._columns(bodies))
        except Exception:
            return None


def fitted(
    values: Sequence[Value],
    attempt: Callable[[Sequence[Value]], list[Any] | None],
    mended: Callable[[int, Value], Any],
    make: Callable[[Sequence[Any]], list[Any]],
) -> list[Any]:
    """The arrays of many values, of which a few may not fit.

    Args:
        attempt: The arrays of some values; None where one of them does not fit.
        mended: A single value, given with its place, as one that fits.
        make: The arrays of those.
    """

    def pieces(first: int, part: Sequence[Value]) -> Iterator[list[Any]]:
        made = attempt(part)
        if made is not None:
            yield made
        elif len(part) <= FEW:
            yield make([mended(place, value) for place, value in enumerate(part, first)])
        else:
            size = -(-len(part) // PARTS)
            for start in range(0, len(part), size):
                yield from pieces(first + start, part[start : start + size])

    found = list(pieces(0, values))
    return found[0] if len(found) == 1 else [pa.concat_arrays(arrays) for arrays in zip(*found, strict=True)]


def value_array(
    name: str, column: Column, values: Sequence[Any], mode: str, rows: Rows, describe: Callable[[int], str]
) -> Any:
    """A column of values that are no documents, keys for example; what does not fit goes the same way."""

    def attempt(part: Sequence[Any]) -> list[Any] | None:
        try:
            return [column.convert(part)]
        except Misfit:
            return None

    def mended(row: int, value: Any) -> Any:
        try:
            column.convert([value])
        except Misfit as misfit:
            if mode == "FAILFAST":
                raise SchemaMismatch(describe(row), f"{name}: {misfit}") from None
            rows.add(row, name, value, str(misfit))
            return None
        return value

    (made,) = fitted(values, attempt, mended, lambda part: [column.convert(part)])
    return made


def told(name: str, document: Any, reason: str, before: str | None) -> str:
    """What the column for misfits says of a row: the reason, and the document as it is."""
    if before is None:
        return dumps_plain({"reason": f"{name}: {reason}", name: document})
    return before[:-1] + "," + dumps_plain({name: document})[1:]


def finished(arrays: list[Any], schema: Any, rows: Rows, corrupt: int | None, mode: str) -> Any:
    """The batch of these arrays, with the column for misfits filled, or the rows that have some left out."""
    if corrupt is not None:
        is_told = mode == "PERMISSIVE" and rows.reasons
        arrays[corrupt] = (
            pa.array([rows.reasons.get(row) for row in range(rows.count)], pa.string())
            if is_told
            else pa.nulls(rows.count, pa.string())
        )
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    if mode == "DROPMALFORMED" and rows.reasons:
        return batch.filter(pa.array([row not in rows.reasons for row in range(rows.count)], pa.bool_()))
    return batch
