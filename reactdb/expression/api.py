"""The three ways to get from an expression to a value.

    compile_value        a generated function of a document
    compile_predicate    the same for its truth, with a default where something is missing
    evaluate             the reference: walks the tree

Rule of this file: it takes whatever can become an expression; the work is in `compile` and `evaluate`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reactdb.expression.build import expr
from reactdb.expression.compile import value_function, with_fixed_now
from reactdb.expression.evaluate import check_literals, run
from reactdb.expression.predicate import as_predicate


def compile_value(value: Any) -> Callable[[Any], Any]:
    """A function of a document that gives the expression's value.

    Raises:
        QueryError: The expression makes no sense for any document. The function raises it for a single document.
    """
    return value_function(expr(value).node)


def compile_predicate(value: Any, default: Any = False) -> Callable[[dict[str, Any]], bool]:
    """A function of a document that gives the condition's truth: ReQL's, where only null and false are false.

    Args:
        value: An argument of `filter`: see `as_predicate`.
        default: The result where something is missing: a bool, or an expression, such as `r.error()`.
    """
    return as_predicate(value, default).test


def evaluate(value: Any, document: Any) -> Any:
    """The expression's value for a document, by walking its tree: slow, and right by definition.

    Raises:
        QueryError: ReQL's error.
    """
    node = expr(value).node
    check_literals(node)
    return run(with_fixed_now(node), document)
