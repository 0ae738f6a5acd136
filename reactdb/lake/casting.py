"""Casting: rows that were made, or written, with an older schema, in a later and wider one.

    older                    later                    the value
    -----------------------  -----------------------  ------------------------------------------
    no column, no field      any type                 null
    int64                    double                   the same number, or `InexactNumber`
    struct, list, map        the same of wider types  field by field, element by element

Rule of this file: nothing else is cast, so no value changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds

from reactdb.lake.target import InexactNumber


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows in a wider schema.

    Raises:
        InexactNumber.
    """
    if batch.schema.equals(schema):
        return batch
    arrays = []
    for field in schema:
        place = batch.schema.get_field_index(field.name)
        arrays.append(
            pa.nulls(len(batch), field.type)
            if place < 0
            else cast_array(batch.column(place), field.type, field.name)
        )
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def cast_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield cast_batch(batch, schema)


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


__all__ = ["cast_array", "cast_batch", "cast_batches"]
