"""Aggregation expressions: `compile_expression`, and a file for each group of operators.

compile                  the compiler of expressions, and the register of operators
logic                    comparisons, truth, choices
arithmetic               numbers
arrays                   arrays, sets, and variables: $map, $filter, $reduce, $let
strings, number_text     texts; numbers as texts
dates                    dates and timestamps
objects                  objects and their fields
types, conversions       types and sizes; values of one type as values of another
summaries                sums, means and similar operators on arguments
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reactdb.dialects.mongodb.bson_order import TextKey
from reactdb.dialects.mongodb.expressions import (
    arithmetic as _arithmetic,
)
from reactdb.dialects.mongodb.expressions import (
    arrays as _arrays,
)
from reactdb.dialects.mongodb.expressions import (
    dates as _dates,
)
from reactdb.dialects.mongodb.expressions import (
    objects as _objects,
)
from reactdb.dialects.mongodb.expressions import (
    strings as _strings,
)
from reactdb.dialects.mongodb.expressions import (
    summaries as _summaries,
)
from reactdb.dialects.mongodb.expressions import (
    types as _types,
)
from reactdb.dialects.mongodb.expressions.compile import OPERATORS, Evaluate, Scope, compile_value
from reactdb.dialects.mongodb.expressions.logic import is_true

__all__ = ["OPERATORS", "Evaluate", "Scope", "compile_expression", "is_true"]

# Importing a group registers its operators.
_GROUPS = (_arithmetic, _arrays, _dates, _objects, _strings, _summaries, _types)


def compile_expression(spec: Any, variables: Iterable[str] = (), *, text: TextKey | None = None) -> Evaluate:
    """The function `(document, variables) -> value` of an expression. A missing value is `ordering.MISSING`.

    Args:
        spec: The expression.
        variables: The names of the user's variables in scope, as `$$name`. Each call takes their values, in a dict by name; with
            `NOW` in it, the time is the same for several calls.
        text: The collation, if there is one.

    Raises:
        MongoError: It is no expression: 168 for an unknown operator, 17276 for an undefined variable, and others.
    """
    return compile_value(spec, Scope(frozenset(variables), text))
