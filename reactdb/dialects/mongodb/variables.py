"""Variables: a command's `let`, evaluated for filters, updates and pipelines.

Rule of this file: each value is computed once, before the first document is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from reactdb.dialects.mongodb.clock import ClusterClock, mentions_cluster_time
from reactdb.dialects.mongodb.errors import MongoError

__all__ = ["SYSTEM_VARIABLES", "values_of"]

SYSTEM_VARIABLES: Final = frozenset({"NOW", "CLUSTER_TIME"})
"""Variables with values from the system. A program's own variables cannot have these names."""


def values_of(let: Mapping[str, Any] | None, clock: ClusterClock, *specs: Any) -> dict[str, Any] | None:
    """The values of variables by name, and `NOW`; None without variables.

    Args:
        clock: The source of the cluster time.
        specs: The users of the variables. `CLUSTER_TIME` is a variable only if one of them, or `let`, contains it.

    Raises:
        MongoError: One of their expressions is invalid.
    """
    wants_time = any(map(mentions_cluster_time, (let, *specs)))
    if not let and not wants_time:
        return None
    if let and not isinstance(let, Mapping):
        raise MongoError(14, "BSON field 'let' is the wrong type, expected type 'object'")
    known: dict[str, Any] = {"NOW": clock.now()}
    if wants_time:
        known["CLUSTER_TIME"] = clock.newest()
    if not let:
        return known
    # Imported here because most commands have no variables.
    from reactdb.dialects.mongodb.expressions.compile import Scope, compile_value

    values: dict[str, Any] = {}
    for name, value in let.items():
        check_name(name)
        values[name] = compile_value(value, Scope(frozenset(values), has_document=False))(
            {}, {**known, **values}
        )
    return {**known, **values}


def check_name(name: str) -> None:
    """
    Raises:
        MongoError: 9, the name is invalid for variables; 4738901, it is a system variable.
    """
    if not name:
        raise MongoError(9, "empty variable names are not allowed")
    if name in SYSTEM_VARIABLES:
        raise MongoError(4738901, f"the variable {name} is the system's own")
    from reactdb.dialects.mongodb.expressions.compile import variable_name

    variable_name(name)
