"""Columns: the columns of documents in a lake's table, which widen while documents are converted.

Rule of this file: it decides by the contract. `reactdb.arrow` has the types and converts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from reactdb.arrow.arrays import Misfit, insert_nulls
from reactdb.arrow.decoding import decode_many
from reactdb.arrow.inference import TypeInference
from reactdb.arrow.types import INFERRED, struct_of
from reactdb.lake.casting import cast_array


@dataclass(slots=True)
class Evolution:
    """What became of fields and values that did not fit the columns.

    Attributes:
        new_fields, widened_fields: Paths, such as `place.zip`.
        conflicts, discarded: Path -> the number of values.
    """

    new_fields: list[str] = field(default_factory=list)
    widened_fields: list[str] = field(default_factory=list)
    conflicts: Counter[str] = field(default_factory=Counter)
    discarded: Counter[str] = field(default_factory=Counter)


class DocumentColumns:
    def __init__(
        self,
        kept: Any,
        contract: str,
        *,
        is_first: bool,
        reserved: frozenset[str],
        fixed: frozenset[tuple[str, ...]],
    ) -> None:
        self.type = pa.struct([]) if kept is None else kept
        self.evolution = Evolution()
        self.has_conflicts = False

    def take_evolution(self) -> Evolution:
        taken, self.evolution = self.evolution, Evolution()
        return taken

    def convert(self, bodies: Sequence[bytes | None]) -> tuple[Any, list[str | None] | None]:
        present = [body for body in bodies if body is not None]
        documents = decode_many(present)
        for _ in range(2):
            column = struct_of(list(self.type), INFERRED)
            try:
                if not column.names and documents:
                    raise Misfit("")
                made = (
                    pa.StructArray.from_arrays(column.arrays(documents), fields=list(self.type))
                    if documents
                    else None
                )
                break
            except Misfit:
                inference = TypeInference()
                inference.add(documents)
                self.type = _merge(self.type, pa.struct(inference.fields()))
        else:
            raise NotImplementedError
        if made is None:
            return pa.nulls(len(bodies), self.type), None
        return insert_nulls(made, bodies), None

    def cast(self, array: Any) -> Any:
        return cast_array(array, self.type)


def _merge(kept: Any, seen: Any) -> Any:
    if pa.types.is_struct(kept) and pa.types.is_struct(seen):
        fields = {one.name: one for one in kept}
        for one in seen:
            fields[one.name] = (
                pa.field(one.name, _merge(fields[one.name].type, one.type)) if one.name in fields else one
            )
        return pa.struct(list(fields.values()))
    if {kept, seen} == {pa.int64(), pa.float64()}:
        return pa.float64()
    return kept
