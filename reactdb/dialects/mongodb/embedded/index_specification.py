"""Specifications of indexes, as PyMongo makes them.

    index_specification([("a", 1), ("b", -1)], {"unique": True})    {"unique": True, "name": "a_1_b_-1", "key": {"a": 1, "b": -1}}

Rule of this file: PyMongo's form and errors. MongoDB's checks come with the execution of the command.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from reactdb.dialects.mongodb.embedded.argument_checks import collation_document
from reactdb.dialects.mongodb.embedded.documents import index_pairs, order_document

__all__ = ["index_name", "index_specification"]


def index_specification(keys: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The specification of an index, equal to the document of PyMongo's `IndexModel(keys, **options)`.

    Raises:
        TypeError, ValueError, IndexError: As `IndexModel`.
    """
    pairs = index_pairs(keys)
    name = _joined(pairs) if options.get("name") is None else options["name"]
    specification = {**options, "name": name, "key": order_document(pairs)}
    collation = collation_document(specification.pop("collation", None))
    if collation is not None:
        specification["collation"] = collation
    return specification


def index_name(given: Any) -> str:
    """The name of an index, from its name or a list of its keys.

    Raises:
        TypeError, IndexError: As PyMongo's.
    """
    name = _joined(given) if isinstance(given, list) else given
    if not isinstance(name, str):
        raise TypeError("index_or_name must be an instance of str or list")
    return name


def _joined(pairs: Iterable[Any]) -> str:
    return "_".join("{}_{}".format(*pair) for pair in pairs)
