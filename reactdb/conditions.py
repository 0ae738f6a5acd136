"""Conditions: the arguments of `filter`, as predicates that must all pass.

    filter(row["score"] > 10)                    one condition
    filter(row["score"] > 10, row["team"] == 1)  two
    filter(done=True, team="red")                fields that must be equal, as in a dict
    filter(row["score"] > 10, default=True)      the result where a field is missing

Rule of this file: it reads arguments. Predicates have their meaning in `expression.predicate`.
"""

from __future__ import annotations

from typing import Any, Final

from reactdb.errors import QueryError
from reactdb.expression import Expression, Predicate, as_predicate

# Django's notation for conditions other than equality, and ours.
SUFFIXES: Final = {
    "gt": 'row["{field}"] > {value!r}',
    "gte": 'row["{field}"] >= {value!r}',
    "lt": 'row["{field}"] < {value!r}',
    "lte": 'row["{field}"] <= {value!r}',
    "ne": 'row["{field}"] != {value!r}',
    "in": 'row["{field}"].is_in({value!r})',
    "contains": 'row["{field}"].contains({value!r})',
    "icontains": 'row["{field}"].match("(?i)" + {value!r})',
    "startswith": 'row["{field}"].startswith({value!r})',
    "endswith": 'row["{field}"].endswith({value!r})',
    "isnull": '~row.has_fields("{field}")',
    "exists": 'row.has_fields("{field}")',
}


def as_predicates(conditions: tuple[Any, ...], default: Any, fields: dict[str, Any]) -> list[Predicate]:
    """The predicates of a filter, in the order of its arguments.

    Args:
        conditions: As for `as_predicate`. The second of two may be the default, as in ReQL: a bool, or an expression
            without `row`, such as `r.error()`.
        fields: Names and values of fields that must be equal.

    Raises:
        QueryError: There is no condition, or one makes no sense for any document.
        InvalidDocument: A value is none that a document can hold.
    """
    if len(conditions) == 2 and _is_default(conditions[-1]):
        *first, default = conditions
        conditions = tuple(first)
    for name, value in fields.items():
        field, _, suffix = name.rpartition("__")
        if field and suffix in SUFFIXES:
            raise QueryError(
                f"filter compares fields for equality: for {name}={value!r} write "
                f"filter({SUFFIXES[suffix].format(field=field, value=value)})"
            )
    given = (*conditions, fields) if fields else conditions
    if not given:
        raise QueryError(
            'filter takes a condition: filter(row["score"] > 10), filter({"done": True}) or filter(done=True)'
        )
    return [as_predicate(one, default) for one in given]


def _is_default(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, Expression) and not value.node.uses_row)
