"""Updates: makes functions of a document out of the arguments of `update`, `replace` and `map`.

A patch is merged: objects field by field; any other value replaces the old one. `literal(value)` replaces an object as a whole,
and `literal()` removes the field.

A key that begins with `$` is refused: in another system it would be an operator, here it would be stored as a field.

Rule of this file: the document that comes in is never changed; the result may share parts of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reactdb.async_functions import refuse_async, refuse_awaitable
from reactdb.errors import QueryError, format_value
from reactdb.expression.build import Expression, expr, has_expression
from reactdb.expression.checks import kind
from reactdb.expression.compile import value_function, value_once
from reactdb.expression.operations.objects import merge_patch
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
    result: Document = merge_patch(old, patch)
    return result


def as_patch(value: Any, *, is_for_one: bool = False) -> Callable[[Document], Any]:
    """The argument of `update` as a function from the old document to the patch for it.

    Args:
        value: An expression, a dict that may hold expressions, or a Python function of the document. The function's
            result may hold expressions again.
        is_for_one: It will be called for a single document.

    Raises:
        QueryError: It makes no sense for any document.
    """
    if type(value) is dict:
        flat = flat_patch(value)
        if callable(flat):
            return flat
    elif callable(value) and not isinstance(value, Expression):
        return _evaluate_patch(value)
    node = expr(value).node
    # A literal as the whole patch has no field to be put into.
    is_literal = isinstance(node, Call) and node.operation == "literal"
    return (value_once if is_for_one else value_function)(node, literals_allowed=not is_literal)


def flat_patch(value: dict[Any, Any]) -> Callable[[Document], Document] | Document | None:
    """The commonest patches: a dict of plain values as it is; a dict with expressions among its values as a function that
    computes each. None for any other patch.

    A reused expression is compiled once, by itself, because the dict around it is new each time.
    """
    functions = {}
    for name, one in value.items():
        kind = type(one)
        if type(name) is not str:
            return None
        if kind is Expression:
            if one.node.rare:
                return None
            functions[name] = one.value_of
        elif kind not in _PLAIN:
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


# Values that need no conversion. The encoding of the document refuses values that no document may hold.
_PLAIN = frozenset({str, int, float, bool, type(None), bytes})


def _evaluate_patch(function: Callable[[Document], Any]) -> Callable[[Document], Any]:
    def patch(document: Document) -> Any:
        return as_patch(_not_callable(function(document)), is_for_one=True)(document)

    return patch


def _not_callable(value: Any) -> Any:
    if callable(value) and not isinstance(value, Expression):
        raise QueryError("the function given to update returned a function")
    return value


def as_function(value: Any) -> Callable[[Document], Any]:
    """The argument of `map` or `replace` as a function of a document.

    Args:
        value: An expression, a Python function of the document, or a value that may hold expressions.
    """
    if isinstance(value, Expression):
        return value
    if callable(value):
        refuse_async(value, "map, concat_map, merge or replace")
        function: Callable[[Document], Any] = value
        return function
    return expr(value)


def compile_function(value: Any) -> Callable[[Document], Any]:
    """An argument of `as_function`, as a function that returns values. Expressions that a Python function returns,
    alone or inside a dict or a list, are computed with the function's own document as `row`."""
    function = as_function(value)
    if isinstance(function, Expression):
        return function
    return lambda document: compute_returned(function(document), document)


def compute_returned(value: Any, document: Any) -> Any:
    """The result of a Python function, with its expressions computed for the document.

    Raises:
        QueryError: An expression cannot be computed for it.
    """
    if type(value) in _PLAIN or value is document:
        return value
    # A flat dict is the commonest, and this looks at it four times as fast.
    if type(value) is dict and _PLAIN.issuperset(map(type, value.values())):
        return value
    if not has_expression(value):
        refuse_awaitable(value, "a query or a write")
        return value
    return value_once(expr(value).node)(document)


# ---------------------------------------------------------------------------------------------------------------
# Patches, checked


def check_patch(patch: Any, *, is_for_one: bool) -> Document | Callable[[Document], Any]:
    """The argument of `update`: a dict without expressions as it is, anything else converted by `as_patch`.

    Raises:
        QueryError: It makes no sense for any document, or has another system's operators.
    """
    if type(patch) is dict:
        # A copy, which no other thread can change any more.
        patch = patch.copy()
        flat = flat_patch(patch)
        if flat is not None:
            if "$" in "".join(patch):
                check_no_operators(patch)
            return flat
    if isinstance(patch, dict):
        check_no_operators(patch)
        if not has_expression(patch):
            return patch
    if is_user_code(patch):
        refuse_async(patch, "update")
        return as_patch(refuse_operators(patch), is_for_one=is_for_one)
    return as_patch(patch, is_for_one=is_for_one)


def refuse_operators(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function, where the patches that it gives are looked at."""

    def patch(document: Any) -> Any:
        given = function(document)
        if not isinstance(given, dict):
            refuse_awaitable(given, "update")
        else:
            given = given.copy() if type(given) is dict else given
            check_no_operators(given)
        return given

    return patch


# MongoDB's operators of updates, and how a field's new value is said here.
OPERATORS = {
    "$set": "{value}",
    "$inc": "{field} + {value}",
    "$mul": "{field} * {value}",
    "$min": "r.branch({field} > {value}, {value}, {field})",
    "$max": "r.branch({field} < {value}, {value}, {field})",
    "$unset": "literal()",
    "$push": "{field}.append({value})",
    "$addToSet": "{field}.set_insert({value})",
    "$pull": "{field}.difference([{value}])",
    "$currentDate": "r.now()",
}


def check_no_operators(patch: dict[Any, Any]) -> None:
    """Raise QueryError where a key of a patch begins with `$`: it would be stored in every document, as a field of that name.

    Not for the contents of a list, an expression or `literal`: nothing is merged there. Documents may have such
    fields.
    """
    # Each with its own name and that of its parent: a path for each would take the square of their depth.
    pending: list[tuple[Any, dict[Any, Any]]] = [(None, patch)]
    known = {id(patch)}
    while pending:
        way, part = pending.pop()
        # On a copy, because another thread may change the patch's contents.
        for name, value in dict.copy(part).items():
            if isinstance(name, str) and name.startswith("$"):
                path: list[Any] = []
                while way is not None:
                    way, step = way
                    path.append(step)
                raise QueryError(operator_message(tuple(reversed(path)), name, value))
            # Each once: a dict may be inside itself, which is refused later.
            if isinstance(value, dict) and id(value) not in known:
                known.add(id(value))
                pending.append(((way, name), value))


def operator_message(path: tuple[Any, ...], name: str, value: Any) -> str:
    if not path and isinstance(value, dict) and value:
        field, value = next(iter(dict.items(value)))
        path = (field,)
    instead = "an expression of row says how a value is computed"
    if name in OPERATORS and path:
        steps = [format_value(step, 30) for step in path]
        field = "row" + "".join(f"[{step}]" for step in steps)
        spelling = OPERATORS[name].format(field=field, value=format_value(value, 40))
        instead = f"write {''.join(f'{{{step}: ' for step in steps)}{spelling}{'}' * len(steps)}"
    return (
        f"a patch is merged as it is, and {format_value(name)} would be the name of a field: {instead}; "
        "to store a field of that name, give the patch as r.expr({...}), or use replace"
    )


def is_user_code(function: Any) -> bool:
    """Whether it is a Python function of the user's, which may do anything, and not an expression."""
    return callable(function) and not isinstance(function, Expression)
