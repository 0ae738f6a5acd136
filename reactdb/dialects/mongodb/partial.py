"""Partial: whether a document is in a partial index.

Rule of this file: the filter is the dialect's, and the document native.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from reactdb.dialects.mongodb.entries import to_document
from reactdb.dialects.mongodb.filters import Filter
from reactdb.dialects.mongodb.values import to_bson
from reactdb.store.catalogue import TableInfo
from reactdb.values import codec

__all__ = ["passes"]


def passes(document: Mapping[str, Any], index: Mapping[str, Any]) -> bool:
    """Whether the native document passes the index's `partial`."""
    # How its documents are shown depends on nothing else of a table.
    table = TableInfo(0, "", index["primary_key"], 0, None, {})
    test = _filter(codec.encode({"partial": index["partial"]}))
    return test.matches(to_document(table, document))


@lru_cache(maxsize=256)
def _filter(data: bytes) -> Filter:
    return Filter(to_bson(codec.decode(data)["partial"]))
