"""Documents: columns of encoded documents as Arrow arrays, and the treatment of documents that do not fit.

A page of documents is decoded in one call and converted to arrays as a whole. If that fails, it is converted once more column by
column: values of a type that the column does not take are found by their types, and others by trying smaller and smaller parts of
the column. So documents that do not fit cost about as much as reading their page once more. Then the mode decides, as in Spark's
own sources:

    PERMISSIVE      the value is null, and the column for misfits (`_corrupt`) has the value and the reason
    DROPMALFORMED   the row is left out
    FAILFAST        SchemaMismatch, with the document and the place

Rule of this file: bytes in, arrays out. The caller names a row for an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds

from reactdb.arrow.arrays import PARTS, Column, Misfit, Struct, insert_nulls
from reactdb.arrow.decoding import column_decoder, decode_many
from reactdb.errors import SchemaMismatch
from reactdb.json import dumps_plain, encode_plain


def json_texts(bodies: Sequence[bytes | None]) -> Any:
    """Encoded documents as an array of JSON text, in which None is null."""
    # Arrow takes bytes for text, too.
    made = map(encode_plain, decode_many([body for body in bodies if body is not None]))
    return insert_nulls(pa.array(list(made), pa.string()), bodies)


class Rows:
    """Collects the misfit rows of one chunk.

    Attributes:
        reasons: Number of the row -> the text of the column for misfits, in JSON.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.reasons: dict[int, str] = {}

    def add(self, row: int, name: str, value: Any, reason: str) -> None:
        """Note that the value of this column, or a document, does not fit."""
        self.reasons[row] = misfit_text(name, value, reason, self.reasons.get(row))


class DocumentColumn:
    """A column of encoded documents. A column of a struct, a map or VARIANT is decoded; text is JSON; binary has the bytes as
    they are stored.

    Args:
        name: The column's name for messages; "" if each field of the documents is a column.
        column: From `types.column_of`.
        mode: PERMISSIVE, DROPMALFORMED or FAILFAST.
    """

    def __init__(self, name: str, column: Column, mode: str) -> None:
        self.name = name
        self.mode = mode
        self.is_raw = kinds.is_binary(column.arrow)
        self.is_text = kinds.is_string(column.arrow)
        self.column = column

    def named_arrays(
        self, form: str, bodies: Sequence[bytes], rows: Rows, describe: Callable[[int], str]
    ) -> dict[str, Any]:
        """The arrays by the names of their columns: of the fields with form `struct`, otherwise of the column `document`."""
        if isinstance(self.column, Struct) and (form == "struct" or not self.column.names):
            return dict(zip(self.column.names, self.arrays(bodies, rows, describe), strict=True))
        return {"document": self.array(bodies, rows, describe)}

    def array(self, bodies: Sequence[bytes | None], rows: Rows, describe: Callable[[int], str]) -> Any:
        """The array of the whole column. `describe` names the document of a row for an error."""
        if self.is_raw:
            return pa.array(bodies, self.column.arrow)
        if self.is_text:
            return json_texts(bodies)
        # `None in` compares by identity in C. Most pages have no deletion, and most columns of new documents have no null.
        present: Sequence[Any] = [body for body in bodies if body is not None] if None in bodies else bodies
        if not present:
            return pa.nulls(len(bodies), self.column.arrow)
        numbers = [number for number, body in enumerate(bodies) if body is not None]
        return insert_nulls(self._combine(self._arrays(present, numbers, rows, describe)), bodies)

    def arrays(self, bodies: Sequence[bytes], rows: Rows, describe: Callable[[int], str]) -> list[Any]:
        """An array for each field of the documents."""
        assert isinstance(self.column, Struct)
        return self._arrays(bodies, range(len(bodies)), rows, describe) if self.column.names else []

    def _arrays(
        self,
        bodies: Sequence[bytes],
        numbers: Sequence[int],
        rows: Rows,
        describe: Callable[[int], str],
    ) -> list[Any]:
        """The arrays of the documents of these rows, with null in place of misfits."""
        try:
            arrays, misfits = self.fit(bodies)
        except Misfit:
            for number, body in zip(numbers, bodies, strict=True):
                try:
                    self.fit([body])
                except Misfit as misfit:
                    # Null is not allowed in place of the value.
                    raise SchemaMismatch(describe(number), self._place(misfit)) from None
            raise
        for place in sorted(misfits):
            if self.mode == "FAILFAST":
                raise SchemaMismatch(describe(numbers[place]), self._place(misfits[place]))
            (document,) = decode_many([bodies[place]])
            rows.add(numbers[place], self.name or "document", document, str(misfits[place]))
        return arrays

    def fit(self, bodies: Sequence[bytes]) -> tuple[list[Any], dict[int, Misfit]]:
        """The arrays, for a struct an array per field, otherwise the column's; and the misfits, by the places of the documents.

        Raises:
            Misfit: A value does not fit in a column without nulls.
        """
        column = self.column
        if not isinstance(column, Struct) or not column.names:
            array, misfits = column.fit(decode_many(bodies))
            return [array], misfits
        columns, misfits = self._columns_of(bodies)
        return column.fit_columns(columns, misfits), misfits

    def _columns_of(
        self, bodies: Sequence[bytes], parts: int = PARTS
    ) -> tuple[list[Sequence[Any]], dict[int, Misfit]]:
        """The columns and the misfits as `Struct.columns_of` has them; straight from the bytes where that can be."""
        assert isinstance(self.column, Struct)
        if self._columns is not None:
            try:
                return self._columns(bodies), {}
            except Exception:
                # A field that the schema lacks; or damaged bytes, for which decoding to dicts raises the right error.
                if parts > 1 and len(bodies) > PARTS:
                    return self._columns_of_parts(bodies, parts)
        return self.column.columns_of(decode_many(bodies))

    def _columns_of_parts(
        self, bodies: Sequence[bytes], parts: int
    ) -> tuple[list[Sequence[Any]], dict[int, Misfit]]:
        """The same, part by part, so that a few documents with other fields send only their parts the long way."""
        size = -(-len(bodies) // parts)
        columns: list[list[Sequence[Any]]] = []
        misfits: dict[int, Misfit] = {}
        for start in range(0, len(bodies), size):
            made, found = self._columns_of(bodies[start : start + size], 1)
            columns.append(made)
            misfits.update((start + place, misfit) for place, misfit in found.items())
        return [list(chain.from_iterable(values)) for values in zip(*columns, strict=True)], misfits

    def _place(self, misfit: Misfit) -> str:
        return f"{self.name}: {misfit}" if self.name else str(misfit)

    def _combine(self, arrays: list[Any]) -> Any:
        """The array of the column."""
        if isinstance(self.column, Struct) and self.column.names:
            return pa.StructArray.from_arrays(arrays, fields=list(self.column.arrow))
        (made,) = arrays
        return made

    @cached_property
    def _columns(self) -> Callable[[Sequence[bytes]], list[Sequence[Any]]] | None:
        column = self.column
        if not isinstance(column, Struct) or not column.names or column.other is not None:
            return None
        return column_decoder(column.names, is_complete=column.is_complete)


def value_array(
    name: str, column: Column, values: Sequence[Any], mode: str, rows: Rows, describe: Callable[[int], str]
) -> Any:
    """The array of values that are not documents, such as keys; misfits are treated in the same way."""
    array, misfits = column.fit(values)
    for row in sorted(misfits):
        if mode == "FAILFAST":
            raise SchemaMismatch(describe(row), f"{name}: {misfits[row]}")
        rows.add(row, name, values[row], str(misfits[row]))
    return array


def misfit_text(name: str, document: Any, reason: str, before: str | None) -> str:
    """The text of the column for misfits: the reason, and the document unchanged."""
    if before is None:
        return dumps_plain({"reason": f"{name}: {reason}", name: document})
    return before[:-1] + "," + dumps_plain({name: document})[1:]


def finish_batch(arrays: list[Any], schema: Any, rows: Rows, corrupt: int | None, mode: str) -> Any:
    """The batch of these arrays; depending on the mode, the column for misfits is filled, or rows with misfits are left out."""
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
