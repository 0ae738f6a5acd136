"""Variables: a command's `let`, as the values that filters, updates and pipelines use.

Rule of this file: each value is computed once, before the first document is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reactdb.dialects.mongodb.clock import ClusterClock, mentions_cluster_time
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions.compiling import variable_name
from reactdb.dialects.mongodb.stages import Setting
from reactdb.dialects.mongodb.times import now

__all__ = ["values_of"]


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
    values: dict[str, Any] = {"NOW": now()}
    if wants_time:
        values["CLUSTER_TIME"] = clock.newest()
    for name, value in (let or {}).items():
        if name not in values:
            check_name(name)
        values[name] = Setting(variables=values).expression(value)({}, values)
    return values


def check_name(name: str) -> None:
    """
    Raises:
        MongoError: 9, no variable has such a name.
    """
    if not name:
        raise MongoError(9, "empty variable names are not allowed")
    variable_name(name)
