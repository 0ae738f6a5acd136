"""Casting: rows that were made, or written, with an older schema, in a later and wider one.

    older                    later                    the value
    -----------------------  -----------------------  ------------------------------------------
    no column, no field      any type                 null
    struct without fields    text                     {}
    int64                    double                   the same number, or `InexactNumber`
    struct, list, map        the same of wider types  field by field, element by element

Rule of this file: nothing else is cast, so no value changes.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds


class InexactNumber(Exception):
    """An int of a column that is to become a column of doubles is not exact in a double. Nothing was changed.

    Attributes:
        path: The column, and the fields within it, such as `place.zip`, `tags[]` or `counts{}`.
    """

    def __init__(self, path: str) -> None:
        super().__init__(f"column {path} has an int that no double holds exactly")
        self.path = path


def cast_batch(batch: Any, schema: pa.Schema) -> Any:
    """The rows in a wider schema.

    Args:
        batch: A RecordBatch or a Table.

    Raises:
        InexactNumber.
    """
    if batch.schema.equals(schema):
        return batch
    columns = []
    for field in schema:
        place = batch.schema.get_field_index(field.name)
        if place < 0:
            columns.append(pa.nulls(batch.num_rows, field.type))
            continue
        column = batch.column(place)
        if isinstance(column, pa.ChunkedArray) and not column.type.equals(field.type):
            chunks = [cast_array(chunk, field.type, field.name) for chunk in column.chunks]
            columns.append(pa.chunked_array(chunks, field.type))
        else:
            columns.append(cast_array(column, field.type, field.name))
    return type(batch).from_arrays(columns, schema=schema)


def cast_array(array: Any, type_: Any, path: str = "") -> Any:
    """An array in a wider type. `path` names it for the error."""
    if array.type.equals(type_):
        return array
    if kinds.is_null(array.type):
        return pa.nulls(len(array), type_)
    if kinds.is_int64(array.type) and kinds.is_float64(type_):
        try:
            return array.cast(type_)
        except pa.ArrowInvalid:
            raise InexactNumber(path) from None
    if kinds.is_struct(array.type) and kinds.is_struct(type_):
        return _cast_struct(array, type_, path)
    if kinds.is_struct(array.type) and not array.type.num_fields and kinds.is_string(type_):
        return pc.if_else(array.is_valid(), "{}", pa.scalar(None, type_))
    if kinds.is_list(array.type) and kinds.is_list(type_):
        array = _from_zero(array)
        values = cast_array(array.values, type_.value_type, f"{path}[]")
        return _with_values(array, type_, values)
    if kinds.is_map(array.type) and kinds.is_map(type_):
        array = _from_zero(array)
        items = cast_array(array.items, type_.item_type, f"{path}{{}}")
        entries = pa.StructArray.from_arrays([array.keys, items], fields=[type_.key_field, type_.item_field])
        return _with_values(array, type_, entries)
    # Types of one meaning, such as string and large_string. The cast is safe, so it raises rather than change a value.
    return array.cast(type_)


def _cast_struct(array: Any, type_: Any, path: str) -> Any:
    names = {field.name: place for place, field in enumerate(array.type)}
    # `flatten` gives the fields with the nulls of the struct.
    parts = array.flatten()
    made = [
        cast_array(parts[names[field.name]], field.type, f"{path}.{field.name}")
        if field.name in names
        else pa.nulls(len(array), field.type)
        for field in type_
    ]
    if not made:
        return array.cast(type_)
    return pa.StructArray.from_arrays(
        made, fields=list(type_), mask=array.is_null() if array.null_count else None
    )


def _from_zero(array: Any) -> Any:
    """The same lists, not as a slice of others."""
    return array.take(pa.array(range(len(array)), pa.int64())) if array.offset else array


def _with_values(array: Any, type_: Any, values: Any) -> Any:
    return pa.Array.from_buffers(type_, len(array), array.buffers()[:2], array.null_count, 0, [values])


__all__ = ["InexactNumber", "cast_array", "cast_batch"]
