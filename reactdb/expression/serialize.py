"""Trees as document values, so that an index can keep its expression in the file.

    node              value
    ----------------  ------------------------------------------------
    Constant          ["constant", value]
    minval, maxval    ["minval"], ["maxval"]
    Row               ["row"]
    Variable          ["variable", n]
    Function          ["function", [n, ...], body]
    Call              ["call", name, [argument, ...], {option: node}]

Rule of this file: it only ever grows. A written file is readable for ever. Data is never evaluated: a call names an
operation of the registry, and an expression with an unknown name can be read and shown, but not computed.
"""

from __future__ import annotations

from typing import Any

from reactdb.errors import IncompatibleFormat
from reactdb.expression.build import Expression
from reactdb.expression.registry import OPERATIONS
from reactdb.expression.tree import Call, Constant, Function, Node, Row, Variable, constant, walk
from reactdb.values.collation import maxval, minval


def to_data(expression: Expression) -> list[Any]:
    """The expression as nested lists. Variables are numbered from 0, so that equal trees give equal data."""
    return _node_to_data(expression.node, {})


def _node_to_data(node: Node, names: dict[int, int]) -> list[Any]:
    if isinstance(node, Constant):
        if node.value is minval or node.value is maxval:
            return ["minval" if node.value is minval else "maxval"]
        return ["constant", node.value]
    if isinstance(node, Row):
        return ["row"]
    if isinstance(node, Variable):
        return ["variable", names[node.id]]
    if isinstance(node, Function):
        inner = dict(names)
        for parameter in node.parameters:
            inner[parameter] = len(inner)
        return [
            "function",
            [inner[parameter] for parameter in node.parameters],
            _node_to_data(node.body, inner),
        ]
    assert isinstance(node, Call)
    arguments = [_node_to_data(argument, names) for argument in node.arguments]
    return [
        "call",
        node.operation,
        arguments,
        {name: _node_to_data(option, names) for name, option in node.options},
    ]


def from_data(data: list[Any]) -> Expression:
    """The expression again. It may have operations that this process does not know: see `check_known`.

    Raises:
        IncompatibleFormat: A node that this version does not have.
    """
    return Expression(_read(data))


def check_known(expression: Expression) -> None:
    """Raises: IncompatibleFormat: An operation is not registered in this process."""
    for node in walk(expression.node):
        if isinstance(node, Call):
            OPERATIONS[node.operation]


def _read(data: list[Any]) -> Node:
    match data:
        case ["constant", value]:
            return constant(value)
        case ["minval"]:
            return Constant(minval)
        case ["maxval"]:
            return Constant(maxval)
        case ["row"]:
            return Row()
        case ["variable", number]:
            return Variable(number)
        case ["function", parameters, body]:
            return Function(tuple(parameters), _read(body))
        case ["call", name, arguments, options]:
            return Call(
                name,
                tuple(_read(argument) for argument in arguments),
                tuple((option, _read(options[option])) for option in sorted(options)),
            )
    raise IncompatibleFormat("an index has an expression that this version cannot read")
