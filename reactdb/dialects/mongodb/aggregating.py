"""Aggregating: the results of a pipeline on a collection.

The `$match` with which a pipeline begins is looked up by indexes, as the filter of a find is. All other stages are in `stages`.

Rule of this file: where the documents come from, and where `$out` and `$merge` write them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.namespaces import Namespaces
from reactdb.dialects.mongodb.transactions import Transaction

__all__ = ["aggregate"]

Document = dict[str, Any]


def aggregate(
    spaces: Namespaces,
    namespace: MongoNamespace,
    pipeline: Sequence[Mapping[str, Any]],
    *,
    variables: Mapping[str, Any] | None = None,
    collation: Any = None,
    transaction: Transaction | None = None,
) -> Iterator[Document]:
    raise NotImplementedError
