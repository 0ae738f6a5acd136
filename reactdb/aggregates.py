"""The aggregates of `aggregate(...)`, and the fields of aggregates and groups.

    from reactdb.aggregates import count, sum

    games.group("team").aggregate(games=count(), points=sum("score"))

`r` has the same: `r.count()`, `r.sum("score")`. They are in this module under their own names because `sum`, `min` and `max`
would hide Python's in a program that imports everything else from `reactdb`.

Rule of this file: it makes steps of a query and computes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reactdb.errors import UsageError, format_value
from reactdb.expression import Call, Constant, Expression, Function, Node, Row, expr, row
from reactdb.query import Aggregate, Aggregates, Aggregation

__all__ = ["avg", "count", "max", "min", "sum"]

_KINDS: dict[str, Aggregation] = {
    "count": "count",
    "sum": "sum",
    "avg": "avg",
    "min": "min",
    "max": "max",
}


def count() -> Aggregate:
    """How many documents: a number."""
    return Aggregate("count")


def sum(field: Any = None) -> Aggregate:
    """The sum of a field or expression over the documents that have it; 0 for none."""
    return _of("sum", field)


def avg(field: Any = None) -> Aggregate:
    """The mean of a field or expression over the documents that have it; None for none."""
    return _of("avg", field)


def min(field: Any = None) -> Aggregate:
    """The document with the least value of a field or expression; None for none."""
    return _of("min", field)


def max(field: Any = None) -> Aggregate:
    """The document with the greatest value of a field or expression; None for none."""
    return _of("max", field)


def _of(kind: Aggregation, field: Any) -> Aggregate:
    return Aggregate(kind, None if field is None else field_or_expression(field))


def several(named: Mapping[str, Any]) -> Aggregates:
    """The step of `aggregate(n=count(), total=sum("score"))`.

    Raises:
        UsageError: There is none, or one of them is no aggregate.
    """
    if not named:
        raise UsageError('aggregate takes aggregates by name: aggregate(n=r.count(), total=r.sum("score"))')
    return Aggregates(tuple((name, _read(name, value)) for name, value in named.items()))


def _read(name: str, value: Any) -> Aggregate:
    """The aggregate of an argument: of a function of this module, or of an expression such as `r.sum("score")`."""
    if isinstance(value, Aggregate) and not isinstance(value, Aggregates):
        return value
    if isinstance(value, Expression):
        found = _read_term(value.node)
        if found is not None:
            return found
    raise UsageError(
        f"aggregate({name}=...) takes r.count(), r.sum(field), r.avg(field), r.min(field) or r.max(field), not "
        f"{format_value(value)}"
    )


def _read_term(node: Node) -> Aggregate | None:
    if not isinstance(node, Call) or node.operation not in _KINDS or len(node.arguments) != 1 or node.options:
        return None
    kind, (of,) = _KINDS[node.operation], node.arguments
    if kind == "count":
        return Aggregate(kind) if isinstance(of, Row) else None
    if isinstance(of, Function):
        return None
    if isinstance(of, Constant):
        return Aggregate(kind, row[of.value]) if isinstance(of.value, str) else None
    return Aggregate(kind, Expression(of))


def field_or_expression(field: Any) -> Expression:
    """The expression of a field's name, of an expression, or of a function that makes one of its argument."""
    if isinstance(field, str):
        return row[field]
    return field if isinstance(field, Expression) else expr(field(row) if callable(field) else field)


def one_or_list(fields: tuple[Any, ...], *, missing_is_none: bool) -> Expression | None:
    """The value of one field, or the list of the values of several; None without fields. A list of fields counts as
    those fields.

    Args:
        missing_is_none: In a list, None stands for a field that is missing; otherwise a document has no list then.
    """
    given = [one for field in fields for one in (field if isinstance(field, (list, tuple)) else (field,))]
    if not given:
        return None
    expressions = [field_or_expression(field) for field in given]
    if len(expressions) == 1:
        return expressions[0]
    return expr([one.default(None) if missing_is_none else one for one in expressions])
