"""Documents: columns of encoded documents as Arrow arrays, and the treatment of documents that do not fit.

A page of documents is decoded in one call and converted to arrays as a whole. If that fails, the page is cut into smaller and
smaller parts, until a few documents are left, and these are converted one by one. So a document that does not fit costs about as
much as reading its page once more. Then the mode decides, as in Spark's own sources:

    PERMISSIVE      the value is null, and the column for misfits (`_corrupt`) has the value and the reason
    DROPMALFORMED   the row is left out
    FAILFAST        SchemaMismatch, with the document and the place

Rule of this file: bytes in, arrays out. The caller names a row for an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import types as kinds

from reactdb.arrow.arrays import Column, Misfit, Struct, insert_nulls
from reactdb.arrow.decoding import column_decoder, decode_many
from reactdb.errors import SchemaMismatch
from reactdb.json import dumps_plain, encode_plain

# The number of parts into which a failing page is cut. With eight, one bad document in 2,000 is found in three steps, which read
# the page, an eighth of it and a 64th of it in vain; with two parts, twice as much would be read in vain.
PARTS = 8
# So few documents are converted one by one, because a call for them together costs as much.
FEW = 4
Value = TypeVar("Value")


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
        # `None in` compares by identity in C. Most pages have no deletion, and most columns of new documents have no null.
        present: Sequence[Any] = [body for body in bodies if body is not None] if None in bodies else bodies
        if not present:
            return pa.nulls(len(bodies), self.column.arrow)
        if self.is_text:
            # Arrow takes bytes for text, too.
            made = pa.array(list(map(encode_plain, decode_many(present))), self.column.arrow)
        else:
            numbers = [number for number, body in enumerate(bodies) if body is not None]
            made = self._combine(self._arrays(present, numbers, rows, describe))
        return insert_nulls(made, bodies)

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

        def attempt(part: Sequence[bytes]) -> list[Any] | None:
            if self._columns is not None:
                return self._quick_arrays(part)
            try:
                return self._make_arrays(decode_many(part))
            except Misfit:
                return None

        def mended(place: int, body: bytes) -> Any:
            (document,) = decode_many([body])
            try:
                self._make_arrays([document])
            except Misfit as misfit:
                reason = str(misfit)
                if self.mode == "FAILFAST":
                    reason = f"{self.name}: {reason}" if self.name else reason
                    raise SchemaMismatch(describe(numbers[place]), reason) from None
                rows.add(numbers[place], self.name or "document", document, reason)
                return self.column.without_misfits(document)
            return document

        return fit_arrays(bodies, attempt, mended, self._make_arrays)

    def _make_arrays(self, documents: Sequence[Any]) -> list[Any]:
        """The arrays of decoded documents: for a STRUCT an array per field, otherwise the column's array."""
        column = self.column
        if isinstance(column, Struct) and column.names:
            return column.arrays(documents)
        return [column.convert(documents)]

    def _combine(self, arrays: list[Any]) -> Any:
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
        """The arrays of the fields if all documents fit; None if some may not, and have to be decoded to dicts."""
        assert isinstance(self.column, Struct)
        assert self._columns is not None
        try:
            return self.column.arrays_of(self._columns(bodies))
        except Exception:
            return None


def fit_arrays(
    values: Sequence[Value],
    attempt: Callable[[Sequence[Value]], list[Any] | None],
    mended: Callable[[int, Value], Any],
    make: Callable[[Sequence[Any]], list[Any]],
) -> list[Any]:
    """The arrays of many values, also if a few do not fit.

    Args:
        attempt: Makes the arrays of some values; returns None if a value does not fit.
        mended: Takes the place and the value, and returns a fitting value.
        make: Makes the arrays of fitting values.
    """

    arrays_by_piece = list(_pieces(0, values, attempt, mended, make))
    return (
        arrays_by_piece[0]
        if len(arrays_by_piece) == 1
        else [pa.concat_arrays(arrays) for arrays in zip(*arrays_by_piece, strict=True)]
    )


# No function inside `fit_arrays`: a function that calls itself refers to itself, so the page that its arguments belong to would
# stay in memory until the garbage collector runs, which pauses meanwhile.
def _pieces(
    first: int,
    part: Sequence[Value],
    attempt: Callable[[Sequence[Value]], list[Any] | None],
    mended: Callable[[int, Value], Any],
    make: Callable[[Sequence[Any]], list[Any]],
) -> Iterator[list[Any]]:
    """The arrays of consecutive parts of the values."""
    made = attempt(part)
    if made is not None:
        yield made
    elif len(part) <= FEW:
        yield make([mended(place, value) for place, value in enumerate(part, first)])
    else:
        size = -(-len(part) // PARTS)
        for start in range(0, len(part), size):
            yield from _pieces(first + start, part[start : start + size], attempt, mended, make)


def value_array(
    name: str, column: Column, values: Sequence[Any], mode: str, rows: Rows, describe: Callable[[int], str]
) -> Any:
    """The array of values that are not documents, such as keys; misfits are treated in the same way."""

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

    (made,) = fit_arrays(values, attempt, mended, lambda part: [column.convert(part)])
    return made


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
