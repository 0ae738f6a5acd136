"""`$setWindowFields`: new fields from the documents around each document.

Documents are partitioned by the value of an expression, and each partition is sorted. Partitions come in the order of these
values; a missing value is null.

Rule of this file: `window_functions` computes the values of a partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from reactdb.dialects.mongodb.bson_order import MISSING, sort_key, type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions import Evaluate
from reactdb.dialects.mongodb.shapes import FieldTree, field_path
from reactdb.dialects.mongodb.sort import Order
from reactdb.dialects.mongodb.stages.stage import Document, MemoryBound, Setting, Stage, stage
from reactdb.dialects.mongodb.window_functions import Over, compile_window_function
from reactdb.dialects.mongodb.windows import Partition

__all__ = ["partition_key", "split_partitions"]

_OPTIONS: Final = ("partitionBy", "sortBy", "output")


@stage("$setWindowFields")
def _set_window_fields(spec: Any, setting: Setting) -> Stage:
    order = _read_order(spec, setting)
    scope = setting.scope()
    shape = FieldTree()
    functions: dict[str, Over] = {}
    for path, how in spec["output"].items():
        node, name = shape.place(field_path(path), (40176, 40176))
        node.computed[name] = _result_of(path)
        functions[path] = compile_window_function(how, order, scope, path=path)
    shape.finish()
    key_of = partition_key(spec.get("partitionBy"), setting)

    def run(documents: Iterator[Document]) -> Iterator[Document]:
        held = MemoryBound("$setWindowFields", setting).counting(documents)
        for part in split_partitions(held, key_of, order):
            partition = Partition(part, order, setting.variables)
            # The functions advance together, so that only the results of one document are in memory.
            results = [iter(function(partition)) for function in functions.values()]
            for document in part:
                values = {path: next(result) for path, result in zip(functions, results, strict=True)}
                yield shape.compute_fields(dict(document), document, values)

    return Stage("$setWindowFields", run)


def _read_order(spec: Any, setting: Setting) -> Order | None:
    """The order of the stage, or None."""
    if not isinstance(spec, Mapping):
        raise MongoError(9, f"the $setWindowFields specification is an object, not {type_name(spec)}")
    for name in spec:
        if name not in _OPTIONS:
            raise MongoError(40415, f"$setWindowFields has no option '{name}'")
    for name in ("sortBy", "output"):
        if spec.get(name) is not None and not isinstance(spec[name], Mapping):
            raise MongoError(14, f"$setWindowFields takes an object as '{name}', not {type_name(spec[name])}")
    if spec.get("output") is None:
        raise MongoError(40414, "$setWindowFields needs the option 'output'")
    return Order(spec["sortBy"], setting.text) if spec.get("sortBy") is not None else None


def _result_of(path: str) -> Evaluate:
    return lambda _document, results: results[path]


# --- Partitions ---


def partition_key(by: Any, setting: Setting) -> Callable[[Document], Any] | None:
    """The partition key of a document, by an expression; None for a single partition.

    Raises:
        MongoError: The expression gives an array (14).
    """
    if by is None:
        return None
    if isinstance(by, list | tuple):
        raise MongoError(14, "a partition is no array")
    evaluate, variables, text = setting.expression(by), setting.variables, setting.text

    def key(document: Document) -> Any:
        value = evaluate(document, variables)
        if isinstance(value, list):
            raise MongoError(14, "a partition is no array")
        return sort_key(None if value is MISSING else value, text)

    return key


def split_partitions(
    documents: Iterator[Document], key_of: Callable[[Document], Any] | None, order: Order | None
) -> Iterator[list[Document]]:
    """The partitions, each in its order, sorted by their keys."""
    parts: dict[Any, list[Document]] = {}
    for document in documents:
        parts.setdefault(None if key_of is None else key_of(document), []).append(document)
    for key in sorted(parts) if key_of is not None else list(parts):
        part = parts.pop(key)
        yield part if order is None else order.sorted(part)
