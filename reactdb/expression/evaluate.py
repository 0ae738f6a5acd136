"""evaluate: the meaning of an expression, by walking its tree.

This is the reference. Generated code is quicker and must give the same value, or raise the same error, for every
document; where it has no quick way for a part of the tree, or a document surprises it, it comes back here.

Rule of this file: no shortcuts. It is the reference for correct results, so every node is done in one way, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reactdb.errors import QueryError
from reactdb.expression.checks import array
from reactdb.expression.markers import Grouped
from reactdb.expression.registry import OPERATIONS, Operation, wrong_call
from reactdb.expression.tree import Call, Constant, Function, Node, Row, Variable

Variables = Mapping[int, Any]

_NONE: Variables = {}


def run(node: Node, row: Any, variables: Variables = _NONE) -> Any:
    """The node's value, for the document at hand and the values of the variables around it.

    Raises:
        QueryError: ReQL's error, whatever the mistake was.
    """
    if isinstance(node, Call):
        operation = OPERATIONS[node.operation]
        if operation.is_lazy:
            return operation.function(*_postpone(node, row, variables))
        values = _values(node, row, variables)
        options = {name: run(child, row, variables) for name, child in node.options}
        return apply(operation, values, options)
    if isinstance(node, Constant):
        return node.value
    if isinstance(node, Row):
        return row
    if isinstance(node, Variable):
        return variables[node.id]
    assert isinstance(node, Function)
    return closure(node, row, variables)


def apply(operation: Operation, values: list[Any], options: dict[str, Any]) -> Any:
    """The operation's result; for grouped data, one for each group."""
    if values and type(values[0]) is Grouped and not operation.acts_on_groups:
        rest = values[1:]
        return Grouped(
            [(group, operation.function(value, *rest, **options)) for group, value in values[0].groups]
        )
    return operation.function(*values, **options)


def closure(function: Function, row: Any, variables: Variables) -> Callable[..., Any]:
    """The function as a Python callable that remembers the document and the variables around it."""
    parameters = function.parameters

    def call(*arguments: Any) -> Any:
        if parameters and len(arguments) != len(parameters):
            raise wrong_call(len(parameters), len(arguments))
        return run(function.body, row, {**variables, **dict(zip(parameters, arguments, strict=False))})

    return call


def _values(node: Call, row: Any, variables: Variables) -> list[Any]:
    values: list[Any] = []
    spliced = False
    for child in node.arguments:
        if isinstance(child, Call) and child.operation == "args":
            spliced = True
            values.extend(array(run(child.arguments[0], row, variables)))
        else:
            values.append(run(child, row, variables))
    if spliced:
        # Their number is known only now.
        OPERATIONS[node.operation].check(len(values), frozenset())
    return values


def _postpone(node: Call, row: Any, variables: Variables) -> list[Callable[[], Any]]:
    if is_spliced(node):
        return [_return_known(value) for value in _values(node, row, variables)]
    return [_run_later(child, row, variables) for child in node.arguments]


def _return_known(value: Any) -> Callable[[], Any]:
    return lambda: value


def _run_later(node: Node, row: Any, variables: Variables) -> Callable[[], Any]:
    return lambda: run(node, row, variables)


def is_spliced(node: Call) -> bool:
    """Whether `r.args` among the arguments leaves their number open until evaluation."""
    return "args" in [child.operation for child in node.arguments if isinstance(child, Call)]


def check_literals(node: Node, allowed: bool = False) -> None:
    """Refuse `literal` outside of merged values, as ReQL does, before any document is looked at.

    Args:
        node: The tree.
        allowed: The tree's value will be merged, as in `update`.
    """
    if "literal" not in node.rare:
        return
    if isinstance(node, Call):
        if node.operation == "literal" and not allowed:
            raise QueryError(
                "Stray literal keyword found: literal is only legal inside of the object passed to merge or update "
                "and cannot nest inside other literals."
            )
        if node.operation in ("make_obj", "make_array"):
            for child in node.children:
                check_literals(child, allowed)
            return
        for position, child in enumerate(node.arguments):
            merged = node.operation in ("merge", "filter_match") and position > 0
            # A patch or pattern may hold literals. The whole patch may not be one; the whole pattern may.
            is_literal = isinstance(child, Call) and child.operation == "literal"
            check_literals(child, merged and not (is_literal and node.operation == "merge"))
        for _, child in node.options:
            check_literals(child)
    elif isinstance(node, Function):
        check_literals(node.body, allowed)
