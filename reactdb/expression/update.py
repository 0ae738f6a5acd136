"""Updates: makes functions of a document out of the arguments of `update`, `replace` and `map`.

A patch is merged: objects field by field; any other value replaces the old one. `literal(value)` replaces an object as a whole,
and `literal()` removes the field.

Rule of this file: the document that comes in is never changed; the result may share parts of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reactdb.errors import QueryError
from reactdb.expression.build import Expression, expr
from reactdb.expression.checks import kind
from reactdb.expression.compile import value_function, value_once
from reactdb.expression.operations_object import merged
from reactdb.expression.tree import Call
from reactdb.values.codec import pretty

Document = dict[str, Any]


def merge_document(old: Document, patch: Any) -> Document:
    """The document with a patch merged into it. The patch may hold `literal` values, as `as_patch` makes them.

    Raises:
        QueryError: The patch is not an object.
    """
    if not isinstance(patch, dict):
        raise QueryError(f"Inserted value must be an OBJECT (got {kind(patch)}):\n{pretty(patch)}")
    result: Document = merged(old, patch)
    return result


def as_patch(value: Any, *, is_for_one: bool = False) -> Callable[[Document], Any]:
    """The argument of `update` as a function from the old document to the patch for it.

    Args:
        value: An expression, a dict that may hold expressions, or a Python function of the document. What the function
            returns may hold expressions again.
        is_for_one: It will be called for one document only.

    Raises:
        QueryError: It makes no sense for any document.
    """
    if type(value) is dict:
        flat = flat_patch(value)
        if callable(flat):
            return flat
    elif callable(value) and not isinstance(value, Expression):
        return _evaluating(value)
    node = expr(value).node
    # A literal as the whole patch has no field to be put into.
    is_literal = isinstance(node, Call) and node.operation == "literal"
    return (value_once if is_for_one else value_function)(node, literals_allowed=not is_literal)


def flat_patch(value: dict[Any, Any]) -> Callable[[Document], Document] | Document | None:
    """The commonest patches: a dict of plain values as it is; a dict with expressions among its values as a function that
    computes each. None for any other patch.

    An expression that is used again and again is compiled once, by itself, because the dict around it is new each time.
    """
    functions = {}
    for name, one in value.items():
        kind = type(one)
        if kind is Expression:
            if one.node.rare:
                return None
            functions[name] = one.value_of
        elif kind not in _PLAIN:
            return None
    if not _TEXT.issuperset(map(type, value)):
        return None
    if not functions:
        return value
    if len(value) == 1:
        [(only, function)] = functions.items()
        return lambda document: {only: function(document)}
    # In this order, as `make_obj` has it.
    fields = [(name, functions.get(name), value[name]) for name in sorted(value)]
    return lambda document: {
        name: one if function is None else function(document) for name, function, one in fields
    }


_TEXT = frozenset({str})
# Values that need no conversion. A value that no document may hold is refused when the document is encoded.
_PLAIN = frozenset({str, int, float, bool, type(None), bytes})


def _evaluating(function: Callable[[Document], Any]) -> Callable[[Document], Any]:
    def patch(document: Document) -> Any:
        return as_patch(_not_callable(function(document)), is_for_one=True)(document)

    return patch


def _not_callable(value: Any) -> Any:
    if callable(value) and not isinstance(value, Expression):
        raise QueryError("the function given to update returned a function")
    return value


def as_update(value: Any) -> Callable[[Document], Document]:
    """The argument of `update` as a function from the old document to the new one."""
    patch = as_patch(value)

    def update(document: Document) -> Document:
        return merge_document(document, patch(document))

    return update


def as_function(value: Any) -> Callable[[Document], Any]:
    """The argument of `map` or `replace` as a function of a document.

    Args:
        value: An expression, a Python function of the document, or a value that may hold expressions.
    """
    if isinstance(value, Expression):
        return value
    if callable(value):
        function: Callable[[Document], Any] = value
        return function
    return expr(value)
