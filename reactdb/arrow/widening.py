"""Widening: the columns of a table that grows, strictly. No value is rounded, and none is lost.

A lake's table has the types of its first documents. Later documents widen it:

    kept                      seen now                  the column
    ------------------------  ------------------------  ------------------------------------------------------------------
    no such field             any type                  is new, and null before
    struct, list, map         the same                  is widened by field, by element, by value
    map                       struct                    is a map still, widened by the types of the fields
    int64                     double                    is double, if the kept ints are exact in it: `casting` finds out
    double                    int64                     is double still
    any type                  another type              keeps its type

A value that a column does not take is null there, and is in `rest` of the same row: the values by their paths, such as
{"score": "five", "place": {"zip": [1]}}. In a list, the elements are counted from 0: {"tags": {"1": "two"}}. `restore` puts a
document together again from both. So no document changes on the way, except that a null field of a dict is as a missing one, a
UUID, a time of day, a duration and a value of a registered type are their texts, and a datetime is in UTC.

A field of which only null, {} or [] were seen gets no column yet, because its type is unknown.

Of two fields of one dict whose names differ in case only, such as `a` and `A`, the first gets the column, and the other is in
`rest`: Delta, DuckDB and Spark take both names for one column. A field whose name has a null character is in `rest` too: Arrow's
interface between libraries ends a name there. So is a value within more than MOST_NESTED dicts and lists, which readers refuse. A
kept schema that has such fields keeps them.

A map with the name `_other` at the top has the fields of an open set (see `inference`): once it is there, no further field gets a
column. `spread` lays its fields out again. So a field of this name in the documents, if it is a dict of any keys, gets no column.

Rule of this file: schemas and arrays. The caller writes the columns, and decides where the rest goes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import types as kinds

from reactdb.arrow.arrays import insert_nulls
from reactdb.arrow.documents import DocumentColumn
from reactdb.arrow.inference import OTHER, TypeInference
from reactdb.arrow.types import CONFLICT_MARK, MARK, OTHERS_MARK, ColumnRules, struct_of

# Types within each other in one column. Readers of Parquet take about 50 of them, and Delta's 42.
MOST_NESTED = 32
RULES = ColumnRules(is_complete=True, keeps_rest=True, texts=frozenset({timedelta}))


class Widened(NamedTuple):
    """A schema that takes more than the kept one. Fields are named by their paths: `place.zip`, `tags[]`, `counts{}`.

    Attributes:
        schema: The kept fields in their order, then the new ones; without metadata for new ones.
        new_fields: The fields that the kept schema lacks.
        widened_fields: The fields of ints that are doubles now: `casting` shows whether all kept ints are exact.
        conflicts: The fields with values of another type than the column's, and those whose names no column can have.
    """

    schema: pa.Schema
    new_fields: tuple[str, ...]
    widened_fields: tuple[str, ...]
    conflicts: tuple[str, ...]


def make_inference() -> TypeInference:
    """Inference for `widen`: a field whose values have no common type gets the type of most of them."""
    return TypeInference(None)


def widen(kept: pa.Schema | None, seen: pa.Schema, fixed: Collection[str] = ()) -> Widened:
    """The schema that takes the rows of a kept schema, and documents with an inferred one. See the head of this file.

    Args:
        kept: None: there is no table yet.
        seen: From the fields of `make_inference`.
        fixed: Paths of ints that stay ints, because some are not exact as doubles.
    """
    widening = _Widening(frozenset(fixed))
    fields = widening.fields([] if kept is None else list(kept), list(seen), "", is_new=False)
    conflicts = tuple(dict.fromkeys(widening.conflicts))
    return Widened(
        pa.schema(fields, None if kept is None else kept.metadata),
        tuple(widening.new_fields),
        tuple(widening.widened_fields),
        conflicts,
    )


class _Widening:
    def __init__(self, fixed: frozenset[str]) -> None:
        self.fixed = fixed
        self.new_fields: list[str] = []
        self.widened_fields: list[str] = []
        self.conflicts: list[str] = []
        self._depth = 0

    def fields(self, kept: Sequence[Any], seen: Sequence[Any], path: str, *, is_new: bool) -> list[Any]:
        """The fields of a struct. `is_new`: it is in a field that is new itself."""
        found = {field.name: field for field in seen}
        if not path and OTHER in found and kinds.is_map(found[OTHER].type) and not _is_other(found[OTHER]):
            # Their own field would be read as the one of an open set.
            del found[OTHER]
        fields = []
        for field in kept:
            if not path and is_other_field(field):
                continue
            other = found.pop(field.name, None)
            fields.append(field if other is None else self._kept_field(field, other, path + field.name))
        others = [field for field in kept if not path and is_other_field(field)]
        if others:
            return [*fields, self._kept_others(others[0], list(found.values()))]
        taken = {field.name.lower() for field in kept}
        for name, field in found.items():
            if name.lower() in taken or "\0" in name:
                self.conflicts.append(path + name)
                continue
            type_ = self._new_type(field, path + name)
            if type_ is not None:
                taken.add(name.lower())
                if not is_new:
                    self.new_fields.append(path + name)
                fields.append(pa.field(name, type_))
        return fields

    def _kept_field(self, kept: Any, seen: Any, path: str) -> Any:
        self._note_conflict(seen, path)
        type_ = None if _is_guess(seen) else self.type(seen.type, path)
        return kept if type_ is None else kept.with_type(self.merged(kept.type, type_, path))

    def _kept_others(self, kept: Any, seen: Sequence[Any]) -> Any:
        """The field of an open set, widened by further fields."""
        item = kept.type.item_field
        for field in seen:
            type_ = None if _is_guess(field) else self.type(field.type, field.name)
            if type_ is not None and _is_other(field):
                type_ = type_.item_type
            if type_ is not None:
                item = item.with_type(self.merged(item.type, type_, f"{OTHER}{{}}"))
        return kept.with_type(pa.map_(kept.type.key_field, item))

    def _new_type(self, field: Any, path: str) -> Any:
        self._note_conflict(field, path)
        return None if _is_guess(field) else self.type(field.type, path)

    def _note_conflict(self, field: Any, path: str) -> None:
        if CONFLICT_MARK in (field.metadata or {}):
            self.conflicts.append(path)

    def type(self, seen: Any, path: str) -> Any:
        """The type of a lake for an inferred type; None if nothing has it yet, or if it is nested too deep."""
        if self._depth == MOST_NESTED:
            return None
        self._depth += 1
        try:
            return self._nested_type(seen, path)
        finally:
            self._depth -= 1

    def _nested_type(self, seen: Any, path: str) -> Any:
        if kinds.is_struct(seen):
            fields = self.fields([], list(seen), f"{path}.", is_new=True)
            return pa.struct(fields) if fields else None
        if kinds.is_list(seen):
            inner = self.type(seen.value_type, f"{path}[]")
            return None if inner is None else pa.list_(inner)
        if kinds.is_map(seen):
            inner = self.type(seen.item_type, f"{path}{{}}")
            return None if inner is None else pa.map_(pa.string(), inner)
        if kinds.is_null(seen):
            return None
        return pa.string() if kinds.is_time(seen) or kinds.is_duration(seen) else seen

    def merged(self, kept: Any, seen: Any, path: str) -> Any:
        """The type of a column that has the type `kept`, where `seen` was seen."""
        if kinds.is_struct(kept) and kinds.is_struct(seen):
            return pa.struct(self.fields(list(kept), list(seen), f"{path}.", is_new=False))
        if kinds.is_list(kept) and kinds.is_list(seen):
            inner = kept.value_field
            return pa.list_(inner.with_type(self.merged(inner.type, seen.value_type, f"{path}[]")))
        if kinds.is_map(kept) and (kinds.is_map(seen) or kinds.is_struct(seen)):
            item = kept.item_field
            for other in [seen.item_field] if kinds.is_map(seen) else list(seen):
                item = item.with_type(self.merged(item.type, other.type, f"{path}{{}}"))
            return pa.map_(kept.key_field, item)
        if kinds.is_int64(kept) and kinds.is_float64(seen) and path not in self.fixed:
            self.widened_fields.append(path)
            return seen
        if not _takes(kept, seen):
            self.conflicts.append(path)
        return kept


def is_other_field(field: Any) -> bool:
    """Whether this field at the top of a kept schema has the fields of an open set."""
    return bool(field.name == OTHER and kinds.is_map(field.type))


def _is_other(field: Any) -> bool:
    return OTHERS_MARK in (field.metadata or {})


def _is_guess(field: Any) -> bool:
    """Whether no value but null, {} and [] was seen."""
    marks = field.metadata or {}
    return MARK in marks and CONFLICT_MARK not in marks


def _takes(kept: Any, seen: Any) -> bool:
    """Whether a column of one type takes values of another; a few may not fit all the same, and these are found in their rows."""
    if kept.equals(seen) or (_is_text(kept) and _is_text(seen)) or (_is_bytes(kept) and _is_bytes(seen)):
        return True
    if kinds.is_decimal(kept):
        return bool(kinds.is_decimal(seen) or kinds.is_int64(seen))
    return bool(kinds.is_float64(kept) and kinds.is_int64(seen))


def _is_text(type_: Any) -> bool:
    return bool(kinds.is_string(type_) or kinds.is_large_string(type_))


def _is_bytes(type_: Any) -> bool:
    return bool(kinds.is_binary(type_) or kinds.is_large_binary(type_))


# ---------------------------------------------------------------------------------------------------------------
# Documents to columns, and back


@dataclass(slots=True)
class Converted:
    """A page of documents as columns.

    Attributes:
        arrays: An array for each field of the schema.
        rests: By the numbers of rows, what the arrays lack of the document. Most rows have none.
    """

    arrays: list[Any]
    rests: dict[int, dict[str, Any]]


class Converter:
    """Makes columns of a given schema of pages of encoded documents. Every document fits; what a column does not take is in the
    rest of its row.

    Raises:
        InvalidOption: Documents have no values of one of the types.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._struct = pa.struct(list(schema))
        fields = [
            field.with_metadata({OTHERS_MARK: b"True"}) if is_other_field(field) else field
            for field in schema
        ]
        self._column = DocumentColumn("", struct_of(fields, RULES), "PERMISSIVE")

    def convert(self, bodies: Sequence[bytes]) -> Converted:
        """The documents as columns.

        Raises:
            CorruptDatabase: Some of the bytes are not a document's.
        """
        arrays, misfits = self._column.fit(bodies)
        rests = {row: misfits[row].rest for row in sorted(misfits) if misfits[row].rest}
        return Converted(arrays, rests)

    def structs(self, bodies: Sequence[bytes | None]) -> tuple[Any, dict[int, dict[str, Any]]]:
        """The documents as one array of structs, in which None is null; and the rests by the numbers of rows."""
        places = [place for place, body in enumerate(bodies) if body is not None]
        made = self.convert([body for body in bodies if body is not None])
        structs = (
            pa.StructArray.from_arrays(made.arrays, fields=list(self._struct))
            if self.schema.names
            else pa.array([{}] * len(places), self._struct)
        )
        return insert_nulls(structs, bodies), {places[row]: rest for row, rest in made.rests.items()}


def restore(columns: Any, rest: Any) -> Any:
    """A document, or a value of one, from a row of the columns as Python's values, and what they lack of it (None: nothing)."""
    if rest is None:
        return columns
    if isinstance(columns, dict) and isinstance(rest, dict):
        return {**columns, **{name: restore(columns.get(name), inner) for name, inner in rest.items()}}
    if isinstance(columns, list) and isinstance(rest, dict):
        restored = list(columns)
        for number, inner in rest.items():
            restored[int(number)] = restore(restored[int(number)], inner)
        return restored
    return rest


def spread(columns: dict[str, Any], schema: pa.Schema) -> dict[str, Any]:
    """A row with the fields of the open set beside the others. `restore` takes it then."""
    if OTHER not in schema.names or not is_other_field(schema.field(OTHER)):
        return columns
    return {name: value for name, value in columns.items() if name != OTHER} | (columns[OTHER] or {})


__all__ = [
    "Converted",
    "Converter",
    "Widened",
    "make_inference",
    "restore",
    "spread",
    "widen",
]
