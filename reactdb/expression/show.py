"""Expressions as text, as a user would have written them: for `explain`, and for messages.

Rule of this file: the text is only to be read. It need not run as Python, and long constants are cut.
"""

from __future__ import annotations

from typing import Any, Final

from reactdb.expression.tree import Call, Constant, Function, Node, Row, Variable

_INFIX: Final = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "and": "&",
    "or": "|",
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "mod": "%",
}
_FREE: Final = frozenset(
    [
        "branch",
        "error",
        "literal",
        "now",
        "uuid",
        "random",
        "range",
        "epoch_time",
        "iso8601",
        "time",
        "json",
        "binary",
        "object",
        "args",
        "union",
    ]
)
# Operations whose method has another name.
_SPELLINGS: Final = {"includes": "contains"}
_LONGEST_CONSTANT: Final = 60


def format_node(node: Node) -> str:
    """The node as Python source."""
    if isinstance(node, Constant):
        text = repr(_plain(node.value))
        return text if len(text) <= _LONGEST_CONSTANT else text[: _LONGEST_CONSTANT - 3] + "..."
    if isinstance(node, Row):
        return "row"
    if isinstance(node, Variable):
        return f"x{node.id}"
    if isinstance(node, Function):
        parameters = ", ".join(f"x{parameter}" for parameter in node.parameters)
        return (
            f"lambda {parameters}: {format_node(node.body)}"
            if parameters
            else f"lambda: {format_node(node.body)}"
        )
    assert isinstance(node, Call)
    return _format_call(node)


def _plain(value: Any) -> Any:
    return value if not isinstance(value, (dict, list)) else value.copy()


def _format_call(node: Call) -> str:
    # Each child is shown once, and perhaps put in parentheses: to show it again for that would double at every level.
    name, arguments = node.operation, [format_node(child) for child in node.arguments]
    operands = [_operand(child, text) for child, text in zip(node.arguments, arguments, strict=True)]
    if name == "bracket" and len(arguments) == 2:
        return f"{operands[0]}[{arguments[1]}]"
    if name in _INFIX and len(arguments) > 1:
        return f" {_INFIX[name]} ".join(operands)
    if name == "filter_match" and isinstance(node.arguments[0], Row):
        # As `filter` takes it: no method of an expression has this name.
        return arguments[1]
    if name == "not":
        return f"~{operands[0]}"
    if name == "make_obj":
        return "{" + ", ".join(f"{field!r}: {format_node(child)}" for field, child in node.options) + "}"
    if name == "make_array":
        return f"[{', '.join(arguments)}]"
    options = [f"{option}={format_node(child)}" for option, child in node.options]
    if "." in name:
        # A dialect's, which has no spelling here.
        return f"{name}({', '.join([*arguments, *options])})"
    if name in _FREE or not arguments:
        return f"r.{name}({', '.join([*arguments, *options])})"
    return f"{operands[0]}.{_SPELLINGS.get(name, name)}({', '.join([*arguments[1:], *options])})"


def _operand(node: Node, text: str) -> str:
    """The text of a node, in parentheses where it needs them to be one thing."""
    infix = isinstance(node, Call) and node.operation in _INFIX and len(node.arguments) > 1
    if infix or isinstance(node, Function):
        return f"({text})"
    return f"r.expr({text})" if isinstance(node, Constant) and isinstance(node.value, (dict, list)) else text
