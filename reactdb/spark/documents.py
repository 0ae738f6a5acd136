"""Documents: columns of encoded documents as Arrow arrays, and what happens to those that do not fit.

A chunk of documents is decoded in one call, and made into arrays as a whole. Only where that fails is each document of the chunk
looked at, so that rows that fit cost nothing for those that may not. Then the mode decides, as it does in Spark's own sources:

    PERMISSIVE      what does not fit is null, and the column for it (`_corrupt`) says what was there, and why
    DROPMALFORMED   the row is left out
    FAILFAST        SchemaMismatch, which names the document and the place

Rule of this file: it knows bytes and columns. Where they come from is `changes`' and `snapshot`'s business.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from types import GenericAlias
from typing import Any

import msgpack
import pyarrow as pa
from pyspark.sql import types as spark

from reactdb.codec import decode
from reactdb.errors import SchemaMismatch
from reactdb.extension_types import read_extension
from reactdb.spark.columns import Column, Misfit, Struct, column_for, placed
from reactdb.spark.jsontext import json_of

ARRAY_32 = b"\xdd"


def decode_many(bodies: Sequence[bytes]) -> list[dict[str, Any]]:
    """The documents of these bytes, which a seal has vouched for: two thirds of the time of one by one, a third with msgspec.

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
        quick = self._quick_arrays(present)
        if quick is not None:
            return placed(pa.StructArray.from_arrays(quick, fields=list(self.column.arrow)), bodies)
        documents: list[Any] = decode_many(present)
        if self.is_text:
            return placed(pa.array(list(map(json_of, documents)), self.column.arrow), bodies)
        try:
            made = self.column.convert(documents)
        except Misfit:
            documents = self._patched(documents, bodies, rows, describe)
            made = self.column.convert(documents)
        return placed(made, bodies)

    def arrays(self, bodies: Sequence[bytes], rows: Rows, describe: Callable[[int], str]) -> list[Any]:
        """The fields of the documents, each as an array."""
        assert isinstance(self.column, Struct)
        if not self.column.names:
            return []
        quick = self._quick_arrays(bodies)
        if quick is not None:
            return quick
        documents: list[Any] = decode_many(bodies)
        try:
            return self.column.arrays(documents)
        except Misfit:
            return self.column.arrays(self._patched(documents, bodies, rows, describe))

    @cached_property
    def _columns(self) -> Callable[[Sequence[bytes]], list[Sequence[Any]]] | None:
        column = self.column
        if not isinstance(column, Struct) or not column.names:
            return None
        return column_decoder(column.names, is_complete=column.is_complete)

    def _quick_arrays(self, bodies: Sequence[bytes]) -> list[Any] | None:
        """The fields of documents that are all as they should be; None where the careful way has to look."""
        if self._columns is None or not bodies:
            return None
        assert isinstance(self.column, Struct)
        try:
            return self.column.arrays_of(self._columns(bodies))
        except Exception:
            return None

    def _patched(
        self,
        documents: list[Any],
        bodies: Sequence[bytes | None],
        rows: Rows,
        describe: Callable[[int], str],
    ) -> list[Any]:
        """The documents with null where something did not fit, each of those noted in `rows`."""
        found = []
        numbers = [number for number, body in enumerate(bodies) if body is not None]
        for number, document in zip(numbers, documents, strict=True):
            try:
                self.column.convert([document])
            except Misfit as misfit:
                if self.mode == "FAILFAST":
                    place = f"{self.name}: " if self.name else ""
                    raise SchemaMismatch(describe(number), f"{place}{misfit}") from None
                before = rows.reasons.get(number)
                rows.reasons[number] = told(self.name or "document", document, str(misfit), before)
                document = self.column.patched(document)
            found.append(document)
        return found


def value_array(
    name: str, column: Column, values: Sequence[Any], mode: str, rows: Rows, describe: Callable[[int], str]
) -> Any:
    """A column of values that are no documents, keys for example; what does not fit goes the same way."""
    try:
        return column.convert(values)
    except Misfit:
        kept = []
        for number, value in enumerate(values):
            try:
                column.convert([value])
                kept.append(value)
            except Misfit as misfit:
                if mode == "FAILFAST":
                    raise SchemaMismatch(describe(number), f"{name}: {misfit}") from None
                rows.reasons[number] = told(name, value, str(misfit), rows.reasons.get(number))
                kept.append(None)
        return column.convert(kept)


def told(name: str, document: Any, reason: str, before: str | None) -> str:
    """What the column for misfits says of a row: the reason, and the document as it is."""
    if before is None:
        return json_of({"reason": f"{name}: {reason}", name: document})
    return before[:-1] + "," + json_of({name: document})[1:]


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
