"""Variables: a command's `let`, as the values that filters, updates and pipelines use.

Rule of this file: each value is computed once, before the first document is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions.compiling import Scope, compiled, variable_name
from reactdb.dialects.mongodb.times import now

__all__ = ["values_of"]


def values_of(let: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The values of variables by name, and `NOW`; None where there are none.

    Raises:
        MongoError: An expression of them is wrong.
    """
    if not let:
        return None
    if not isinstance(let, Mapping):
        raise MongoError(14, "BSON field 'let' is the wrong type, expected type 'object'")
    values: dict[str, Any] = {}
    for name, value in let.items():
        check_name(name)
        values[name] = compiled(value, Scope(frozenset(values), has_document=False))({}, values)
    return {"NOW": now(), **values}


def check_name(name: str) -> None:
    """
    Raises:
        MongoError: 9, no variable has such a name; 4738901, the system has one of it.
    """
    if not name:
        raise MongoError(9, "empty variable names are not allowed")
    if name in ("NOW", "CLUSTER_TIME"):
        raise MongoError(4738901, f"the variable {name} is the system's own")
    variable_name(name)
