"""Variables: a command's `let`, as the values that filters, updates and pipelines use.

Rule of this file: each value is computed once, before the first document is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from reactdb.dialects.mongodb.clock import ClusterClock, mentions_cluster_time
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions.compiling import Scope, compiled, variable_name
from reactdb.dialects.mongodb.times import now

__all__ = ["SYSTEM_VARIABLES", "values_of"]

SYSTEM_VARIABLES: Final = frozenset({"NOW", "CLUSTER_TIME"})
"""Those whose values a command has from the system. A program's own cannot have their names."""


def values_of(let: Mapping[str, Any] | None, clock: ClusterClock, *specs: Any) -> dict[str, Any] | None:
    """The values of variables by name, and `NOW`; None where there are none.

    Args:
        clock: What gives the cluster time.
        specs: What the variables are for. Only where one of them, or `let`, names `CLUSTER_TIME`, that is a variable.

    Raises:
        MongoError: An expression of them is wrong.
    """
    wants_time = any(map(mentions_cluster_time, (let, *specs)))
    if not let and not wants_time:
        return None
    if let and not isinstance(let, Mapping):
        raise MongoError(14, "BSON field 'let' is the wrong type, expected type 'object'")
    known: dict[str, Any] = {"NOW": now()}
    if wants_time:
        known["CLUSTER_TIME"] = clock.newest()
    values: dict[str, Any] = {}
    for name, value in (let or {}).items():
        check_name(name)
        values[name] = compiled(value, Scope(frozenset(values), has_document=False))({}, {**known, **values})
    return {**known, **values}


def check_name(name: str) -> None:
    """
    Raises:
        MongoError: 9, no variable has such a name; 4738901, the system has one of it.
    """
    if not name:
        raise MongoError(9, "empty variable names are not allowed")
    if name in SYSTEM_VARIABLES:
        raise MongoError(4738901, f"the variable {name} is the system's own")
    variable_name(name)
