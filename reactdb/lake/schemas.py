"""Schemas: the types that a lake's table can have, and what becomes of its rows under a wider schema.

Rule of this file: it compares types, and refuses what would change a value. `reactdb.arrow.casting` casts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds

from reactdb.arrow.casting import cast_batch
from reactdb.errors import SchemaMismatch, UsageError


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with the columns of `schema` in its order: a missing column or field is null, and whole numbers become doubles.

    Raises:
        SchemaMismatch: A column that the schema lacks, or a type that would change values.
        InexactNumber: A whole number that no double is equal to.
    """
    if rows.schema.equals(schema):
        return rows.replace_schema_metadata(schema.metadata)
    for field in rows.schema:
        at = schema.get_field_index(field.name)
        reason = "the table has no such column" if at < 0 else why_lossy(field.type, schema.field(at).type)
        if reason:
            raise SchemaMismatch(f"column `{field.name}`", reason, "write the table anew")
    return cast_batch(rows, schema)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema as documents have it: every field may be null, no metadata, and each type in its usual size."""
    return pa.schema([pa.field(field.name, _plain_type(field.type)) for field in schema])


def _plain_type(type_: pa.DataType) -> pa.DataType:
    if kinds.is_struct(type_):
        return pa.struct([pa.field(field.name, _plain_type(field.type)) for field in type_])
    if _is_list(type_):
        return pa.list_(_plain_type(type_.value_type))
    if kinds.is_map(type_):
        return pa.map_(_plain_type(type_.key_type), _plain_type(type_.item_type))
    family = _family(type_)
    return {"text": pa.string(), "bytes": pa.binary(), "moment": pa.timestamp("us", "UTC")}.get(
        family or "", type_
    )


def differing_types(have: pa.DataType, want: pa.DataType) -> Iterator[tuple[Any, Any]]:
    """The pairs of types, innermost, at the places where two types differ; None for a field that `want` lacks."""
    if kinds.is_struct(have) and kinds.is_struct(want):
        for field in have:
            at = want.get_field_index(field.name)
            if at < 0:
                yield field, None
            else:
                yield from differing_types(field.type, want.field(at).type)
    elif _is_list(have) and _is_list(want):
        yield from differing_types(have.value_type, want.value_type)
    elif kinds.is_map(have) and kinds.is_map(want):
        yield from differing_types(have.key_type, want.key_type)
        yield from differing_types(have.item_type, want.item_type)
    elif not have.equals(want):
        yield have, want


def why_lossy(have: pa.DataType, want: pa.DataType) -> str | None:
    """Why values of type `have` cannot be kept as `want`; None if they can, perhaps after a check of each value.

    Arrow's own cast would drop a field of a struct without a word, and would make text of numbers.
    """
    for one, other in differing_types(have, want):
        if other is None:
            return f"no field `{one.name}` in {want}"
        if not _is_kept(one, other):
            return f"{one} is not {other}"
    return None


def _is_kept(have: pa.DataType, want: pa.DataType) -> bool:
    if kinds.is_dictionary(have):
        return why_lossy(have.value_type, want) is None
    if kinds.is_signed_integer(have) and kinds.is_signed_integer(want):
        return bool(have.bit_width <= want.bit_width)
    is_number = kinds.is_signed_integer(have) or kinds.is_floating(have)
    return bool(kinds.is_null(have) or _is_same_family(have, want) or (is_number and kinds.is_float64(want)))


def _is_list(type_: pa.DataType) -> bool:
    return bool(kinds.is_list(type_) or kinds.is_large_list(type_))


def _family(type_: pa.DataType) -> str | None:
    """Types of one family have the same values, stored in another way; `cast` checks the moments."""
    if str(type_) in ("string", "large_string", "string_view"):
        return "text"
    if str(type_) in ("binary", "large_binary", "binary_view"):
        return "bytes"
    if kinds.is_timestamp(type_):
        return "moment" if type_.tz is not None else "local time"
    return None


def _is_same_family(have: pa.DataType, want: pa.DataType) -> bool:
    return _family(have) is not None and _family(have) == _family(want)


def needs_rewrite(have: pa.DataType, want: pa.DataType) -> bool:
    """Whether files with type `have` must be written anew to be read as `want`. A field that a struct lacks is read as null."""
    pairs = differing_types(have, want)
    return any(other is not None and not _is_same_family(one, other) for one, other in pairs)


def check_widening(have: pa.Schema, want: pa.Schema) -> bool:
    """Check that every row of a table with schema `have` can be kept under `want`, and say whether files must be written anew.

    Raises:
        SchemaMismatch.
    """
    rewrite = False
    for field in have:
        at = want.get_field_index(field.name)
        reason = "a table does not lose columns" if at < 0 else why_lossy(field.type, want.field(at).type)
        if reason:
            raise SchemaMismatch(f"column `{field.name}`", reason, "write the table anew")
        rewrite = rewrite or needs_rewrite(field.type, want.field(at).type)
    return rewrite


def check_types(schema: pa.Schema, format_name: str) -> None:
    """Refuse types that neither Delta nor Iceberg has, before anything is written.

    Raises:
        UsageError: The sentence names the column and its type.
    """
    for field in schema:
        wrong = _unknown_type(field.type)
        if wrong is not None:
            raise UsageError(f"column `{field.name}` has type {wrong}, which {format_name} does not have")


def _unknown_type(type_: pa.DataType) -> pa.DataType | None:
    if kinds.is_struct(type_):
        # Parquet cannot hold a struct without fields.
        if not type_.num_fields:
            return type_
        inner = [field.type for field in type_]
    elif kinds.is_list(type_):
        inner = [type_.value_type]
    elif kinds.is_map(type_):
        inner = [type_.key_type, type_.item_type]
    else:
        known = (
            kinds.is_boolean(type_)
            or (kinds.is_signed_integer(type_) and type_.bit_width >= 32)
            or kinds.is_float32(type_)
            or kinds.is_float64(type_)
            or kinds.is_string(type_)
            or kinds.is_binary(type_)
            or kinds.is_date32(type_)
            or type_.equals(pa.timestamp("us", "UTC"))
            or (kinds.is_decimal128(type_) and 0 <= type_.scale <= type_.precision)
        )
        return None if known else type_
    return next((wrong for one in inner if (wrong := _unknown_type(one)) is not None), None)
