"""Columns: the columns of documents in a lake's table, which widen while documents are converted.

`reactdb.arrow.widening` has the rules: a new field is a new column, ints become doubles where all of them are exact, and a value
that its column does not take is kept as JSON beside the row. So is a field whose name differs from a column's in case only, or
has a null character. The contract decides about new fields and such values:

    evolve     the columns widen, and the values are kept
    freeze     SchemaMismatch; only {} and [] are kept, because they give no type
    discard    both are left out, and counted

The first run of a table gives it its columns, whatever the contract.

Rule of this file: it decides. Documents become arrays in `reactdb.arrow`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyarrow import types as kinds

from reactdb.arrow.decoding import decode_many
from reactdb.arrow.widening import Converter, make_inference, widen
from reactdb.errors import SchemaMismatch, format_value
from reactdb.json import dumps

ADVICE = "contract evolve takes it into the table, and contract discard leaves it out"


@dataclass(slots=True)
class Evolution:
    """What became of fields and values that did not fit the columns.

    Attributes:
        new_fields, widened_fields: Paths, such as `place.zip`; none in the first run, in which all are new.
        conflicts, discarded: Path -> the number of values.
    """

    new_fields: list[str] = field(default_factory=list)
    widened_fields: list[str] = field(default_factory=list)
    conflicts: Counter[str] = field(default_factory=Counter)
    discarded: Counter[str] = field(default_factory=Counter)


class DocumentColumns:
    """The columns so far, and the conversion to them.

    Args:
        kept: The columns that the table has.
        is_first: The table is made by this run.
        reserved: Names of columns that are not of documents, in small letters. A field of such a name gets no column, whatever
            its case.
        fixed: Paths of ints that stay ints.

    Attributes:
        type: A struct.
        has_conflicts: Whether any value was kept beside its row.
        key_field: The field that gets its column also if a field of another spelling comes before it; None: there is none.
    """

    def __init__(
        self,
        kept: Sequence[pa.Field],
        contract: str,
        *,
        is_first: bool,
        reserved: frozenset[str],
        fixed: frozenset[str],
    ) -> None:
        self.has_conflicts = False
        self.key_field: str | None = None
        self._contract = contract
        self._is_first = is_first
        self._reserved = reserved
        self._fixed = fixed
        self._evolution = Evolution()
        self._take_schema(pa.schema(kept))

    def _take_schema(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.type = pa.struct(list(schema))
        self._converter = Converter(schema)

    def convert(self, bodies: Sequence[bytes | None]) -> tuple[Any, list[str | None] | None]:
        """The documents as an array of structs, and for each row what its columns did not take, as JSON text; None if there is
        nothing of that kind.

        Raises:
            SchemaMismatch: With the contract `freeze`.
        """
        if not any(body is not None for body in bodies):
            return pa.nulls(len(bodies), self.type), None
        structs, rests = self._converter.structs(bodies)
        may_widen = self._is_first or self._contract == "evolve"
        if rests and may_widen and self._widen([body for row in rests if (body := bodies[row]) is not None]):
            structs, rests = self._converter.structs(bodies)
        if rests and self._contract != "evolve":
            reduced = ((row, self._reduce(rest, self.type)) for row, rest in rests.items())
            rests = {row: rest for row, rest in reduced if rest is not None}
        if not rests:
            return structs, None
        self.has_conflicts = True
        for rest in rests.values():
            self._evolution.conflicts.update(leaves(rest, self.type))
        texts = [dumps(rests[row]) if row in rests else None for row in range(len(bodies))]
        return structs, texts

    def _widen(self, bodies: Sequence[bytes]) -> bool:
        """Take what these documents have into the columns. Whether that changed them."""
        inference = make_inference()
        inference.add(decode_many(bodies))
        fields = [one for one in inference.fields() if one.name.lower() not in self._reserved]
        if self.key_field is not None and not self._schema.names:
            other = self.key_field.lower()
            fields = [one for one in fields if one.name == self.key_field or one.name.lower() != other]
        seen = pa.schema(fields)
        widened = widen(self._schema, seen, self._fixed)
        if widened.schema.equals(self._schema):
            return False
        self._take_schema(widened.schema)
        if not self._is_first:
            self._evolution.new_fields += widened.new_fields
            self._evolution.widened_fields += widened.widened_fields
        return True

    def _reduce(self, rest: Any, type_: Any, path: str = "") -> Any:
        """What is kept of values that do not fit, if they are not to be kept: {} and []; None: nothing.

        Raises:
            SchemaMismatch.
        """
        inner = steps(rest, type_, path)
        if inner is not None:
            kept = {name: self._reduce(value, of, place) for name, value, of, place in inner}
            return {name: value for name, value in kept.items() if value is not None} or None
        if rest in ({}, []):
            return rest
        if self._contract == "freeze":
            raise SchemaMismatch("a document", f"{path}: {format_value(rest)}", ADVICE)
        self._evolution.discarded[path] += 1
        return None

    def take_evolution(self) -> Evolution:
        """What has happened since the last call."""
        taken, self._evolution = self._evolution, Evolution()
        return taken


def steps(rest: Any, type_: Any, path: str) -> list[tuple[str, Any, Any, str]] | None:
    """What a column of this type did not take, one step further in: name, value, type and path. None: it is a value itself."""
    if not isinstance(rest, dict) or type_ is None:
        return None
    if kinds.is_struct(type_):
        known = {one.name: one.type for one in type_}
        return [
            (name, value, known.get(name), f"{path}.{name}" if path else name) for name, value in rest.items()
        ]
    if kinds.is_list(type_):
        return [(name, value, type_.value_type, f"{path}[]") for name, value in rest.items()]
    if kinds.is_map(type_):
        return [(name, value, type_.item_type, f"{path}{{}}") for name, value in rest.items()]
    return None


def leaves(rest: Any, type_: Any, path: str = "") -> Iterator[str]:
    """The paths of the values that columns of this type did not take, such as `place.zip` and `tags[]`."""
    inner = steps(rest, type_, path)
    if inner is None:
        yield path
    else:
        for _, value, of, place in inner:
            yield from leaves(value, of, place)
