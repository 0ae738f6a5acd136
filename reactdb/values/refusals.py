"""Refusals: why a value cannot be stored, and what to write instead.

Values are recognised by their modules, methods and marks: none of the libraries that are named here is imported.

Rule of this file: it makes sentences, and converts nothing.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from reactdb.errors import describe_type

HOOK = "or give connect(encode=...) a function that converts such values"


def explain_refusal(value: object) -> str:
    """The sentence about a value that a document cannot hold."""
    # A class may bring its own sentence: the bounds of a range do.
    reason = getattr(type(value), "refused_as_value", None)
    if isinstance(reason, str):
        return reason
    if isinstance(value, (set, frozenset)):
        return f"a set has no order that could be kept; make it a list: write list(x) or sorted(x), {HOOK}"
    spelling = find_spelling(value)
    way_out = HOOK.removeprefix("or ") if spelling is None else f"write {spelling}, {HOOK}"
    return f"a value {describe_type(value)} cannot be stored: {way_out}"


def explain_document(value: object) -> str | None:
    """The sentence about a document of a foreign type, such as a pydantic model or a DataFrame; None for other values."""
    spelling = find_table_spelling(value) or find_object_spelling(value)
    if spelling is None:
        return None
    typed = (
        "" if find_object_spelling(value) is None else f", or use db.table(name, type={type(value).__name__})"
    )
    return f"a document is a dict, not a value {describe_type(value)}: write {spelling}{typed}"


def find_spelling(value: Any) -> str | None:
    """The expression that makes a storable value of this one, which it calls x; None where no such expression is known."""
    kind = type(value)
    if isinstance(value, Enum):
        return "x.value"
    if hasattr(kind, "__fspath__"):
        return "str(path)"
    if kind.__module__.partition(".")[0] == "numpy":
        return _find_numpy_spelling(value)
    if isinstance(value, range) or kind.__name__ in ("deque", "generator", "map", "filter", "zip"):
        return "list(x)"
    return find_table_spelling(value) or find_object_spelling(value)


def find_table_spelling(value: object) -> str | None:
    """The same for tables and columns of other libraries."""
    kind = type(value)
    if kind.__name__ == "DataFrame":
        # polars; pandas.
        return "x.to_dicts()" if hasattr(kind, "to_dicts") else "x.to_dict('records')"
    if hasattr(kind, "to_pylist"):
        return "x.to_pylist()"
    return "x.to_list()" if kind.__name__ == "Series" else None


def find_object_spelling(value: object) -> str | None:
    """The same for objects with fields."""
    kind = type(value)
    if hasattr(kind, "model_dump"):
        return "x.model_dump()"
    if hasattr(kind, "__struct_fields__"):
        return "msgspec.structs.asdict(x)"
    if hasattr(kind, "__attrs_attrs__"):
        return "attrs.asdict(x)"
    return "dataclasses.asdict(x)" if hasattr(kind, "__dataclass_fields__") else None


def _find_numpy_spelling(value: Any) -> str:
    if getattr(value, "shape", ()) != ():
        return "x.tolist()"
    kinds = {"b": "bool(x)", "i": "int(x)", "u": "int(x)", "f": "float(x)", "U": "str(x)", "S": "bytes(x)"}
    return kinds.get(getattr(getattr(value, "dtype", None), "kind", ""), "x.item()")
