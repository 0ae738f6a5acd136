"""Expression: what a user writes conditions and computed values with.

    (row["score"] > 10) & row["tags"].contains("new")

Each method adds a node and gives a new Expression; the names are ReQL's. The operators compare and compute as ReQL does,
not as Python: 1 equals 1.0 and differs from True, every value can be compared with every other, and `&`, `|` and `~`
are and, or, not. Because `and`, `or`, `not` and `if` cannot be taught, an Expression refuses to be true or false.

An Expression is callable on a document and gives its value, so it can stand wherever a Python function of a document
can: `filter(row["score"] > 10)` means the same to ReQL and to Rx.

Rule of this file: it builds trees and evaluates nothing. What is wrong for every document is refused here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from reactdb.errors import InvalidDocument, QueryError, shown
from reactdb.expression.build_objects import ObjectMethods
from reactdb.expression.build_sequences import SequenceMethods
from reactdb.expression.build_values import ValueMethods
from reactdb.expression.compile import value_function
from reactdb.expression.evaluate import run
from reactdb.expression.order import OrderKey, check_no_sign
from reactdb.expression.registry import find
from reactdb.expression.show import shown_node
from reactdb.expression.tree import (
    Call,
    Constant,
    Function,
    Node,
    Row,
    Variable,
    constant,
    new_variable,
    node_key,
    with_row_as,
)
from reactdb.values.collation import Bound

# Left-nested, these say the same as one call with all arguments; flat, a chain of hundreds is not a deep tree.
_NO_OPTIONS: frozenset[str] = frozenset()

_FLATTENED = frozenset(("and", "or", "add", "sub", "mul", "div"))

_MAX_NESTED_VALUES = 100


class Expression(ValueMethods, ObjectMethods, SequenceMethods):
    """A value that is computed from a document. Immutable; equal in structure means equal in `key` and hash."""

    __slots__ = ("_function", "_is_asked", "_is_infix", "_key", "node")

    node: Node

    def __init__(self, node: Node, *, is_infix: bool = False) -> None:
        """Use `expr`, `row` or `r` to get one; `node` is for dialects that build trees of their own."""
        self.node = node
        self._key: bytes | None = None
        self._function: Callable[[Any], Any] | None = None
        self._is_asked = False
        self._is_infix = is_infix

    @property
    def key(self) -> bytes:
        """Bytes that are equal for expressions of equal structure."""
        if self._key is None:
            self._key = node_key(self.node)
        return self._key

    def __call__(self, document: Any) -> Any:
        """The value for a document.

        Raises:
            QueryError: ReQL's error, such as MissingValue for a field that is not there.
        """
        if self._function is None:
            self._function = value_function(self.node)
        return self._function(document)

    def value_of(self, document: Any) -> Any:
        """As a call, for who may ask only once: a function is written when the expression is asked again. Writing one takes as
        long as walking the tree three times."""
        function = self._function
        if function is not None:
            return function(document)
        if self._is_asked or self.node.rare:
            return self(document)
        self._is_asked = True
        return run(self.node, document)

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return shown_node(self.node)

    def __bool__(self) -> bool:
        # `ops.map(row["score"])` must mean what `feed.map(row["score"])` means, and reactivex asks `mapper or identity`.
        if sys._getframe(1).f_globals.get("__name__", "").startswith("reactivex."):
            return True
        raise QueryError(
            "an expression is neither true nor false before it meets a document: combine conditions with & | ~ "
            'instead of and, or, not, each in parentheses: (row["a"] > 1) & (row["b"] < 2)'
        )

    def __iter__(self) -> Iterator[NoReturn]:
        raise QueryError("an expression cannot be iterated: use its methods map, filter, concat_map")

    def __contains__(self, value: object) -> NoReturn:
        raise QueryError("`in` cannot be used with an expression: use its method contains")

    def __len__(self) -> NoReturn:
        raise QueryError("an expression has no length: use its method count")

    # ----- for the mixins

    def call(self, operation: str, *arguments: Any, **options: Any) -> Expression:
        return call(operation, self, *arguments, **options)

    def field(self, name: Any) -> Expression:
        return field_of_row(name) if self is row and type(name) is str else call("bracket", self, name)

    def call_with_function(self, operation: str, *arguments: Any, **options: Any) -> Expression:
        """The same, where the last argument may be a Python function of Expressions, or an expression of `row`."""
        if not arguments:
            return call(operation, self, **options)
        *others, last = arguments
        return call(operation, self, *others, self._function_argument(last), **options)

    def _function_argument(self, value: Any) -> Expression:
        """A function, or a value for it. An expression of `row` is a function, in which the element stands for `row`."""
        other = expr(value)
        if isinstance(other.node, Function) or not other.node.uses_row:
            return other
        if self.node.uses_row:
            raise QueryError("Cannot use r.row in nested queries.  Use functions instead.")
        return Expression(_of_element(other.node))

    def reversed_call(self, operation: str, left: Any) -> Expression:
        return call(operation, left, self)

    def applied(self, *arguments: Any) -> Expression:
        if not arguments:
            return self
        *others, function = arguments
        return call("funcall", self._function_argument(function), self, *others)

    def merge_call(self, patches: tuple[Any, ...]) -> Expression:
        # `row.merge({"b": row["a"]})`: both are the document.
        build = self.call if isinstance(self.node, Row) else self.call_with_function
        return build("merge", *patches)

    def filter_call(self, predicate: Any, default: Any) -> Expression:
        function = pattern_function(self._function_argument(predicate).node)
        # As a function, because it is only evaluated where something is missing.
        otherwise = Function((), expr(default).node)
        return call("filter", self, Expression(function), default=Expression(otherwise))

    def order_call(self, keys: tuple[Any, ...]) -> Expression:
        arguments = [self._order_argument(key) for key in keys]
        descending = [isinstance(key, OrderKey) and key.descending for key in keys]
        return call("order_by", self, *arguments, **({"descending": descending} if any(descending) else {}))

    def _order_argument(self, key: Any) -> Expression:
        if isinstance(key, OrderKey):
            # Its `row` is always an element: an order has no other document.
            return Expression(_of_element(key.expression.node))
        if isinstance(key, str):
            check_no_sign(key)
        return self._function_argument(key)

    def grouped_call(self, by: tuple[Any, ...], options: dict[str, Any]) -> Expression:
        return call("group", self, *[self._function_argument(one) for one in by], **options)

    def infix(self, operation: str, left: Any, right: Any) -> Expression:
        """`left & right` or `left | right`, remembered as such."""
        return Expression(call(operation, left, right).node, is_infix=True)

    def compared(self, operation: str, sign: str, other: Any) -> Expression:
        if self._is_infix or (isinstance(other, Expression) and other._is_infix):
            raise QueryError(
                f"Calling '{sign}' on result of infix bitwise operator: this is almost always an error of precedence. "
                "`a < b & b < c` means `a < (b & b) < c`; put parentheses around each comparison, or use the methods "
                "and_ and or_ if it is really meant."
            )
        return call(operation, self, other)


_fields: dict[str, Expression] = {}
# Names of fields that programs write down are few; those of a program that makes them up are not worth keeping.
_MOST_FIELDS = 1_024
_LONG_NAME = 64


def field_of_row(name: str) -> Expression:
    """`row[name]`: one for all who ask, so that it is built, and compiled, once."""
    found = _fields.get(name)
    if found is None:
        found = call("bracket", row, name)
        if len(_fields) < _MOST_FIELDS and len(name) < _LONG_NAME:
            _fields[name] = found
    return found


def call(operation: str, *arguments: Any, **options: Any) -> Expression:
    """An operation of the registry, applied to some values.

    Raises:
        QueryError: There is no such operation, or not with so many arguments or with such an option.
    """
    nodes = tuple([expr(argument).node for argument in arguments])
    named = {name: expr(value).node for name, value in options.items()} if options else None
    return Expression(call_node(operation, nodes, named))


def call_node(operation: str, arguments: tuple[Node, ...], options: dict[str, Node] | None = None) -> Call:
    """A checked Call; what dialects use."""
    entry = find(operation)
    for node in arguments:
        if isinstance(node, Call) and node.operation == "args":
            break
    else:
        entry.check(len(arguments), frozenset(options) if options else _NO_OPTIONS)
    first = arguments[0] if arguments else None
    if (
        operation in _FLATTENED
        and isinstance(first, Call)
        and first.operation == operation
        and first.arguments
    ):
        arguments = (*first.arguments, *arguments[1:])
    return Call(operation, arguments, tuple(sorted(options.items())) if options else ())


# ---------------------------------------------------------------------------------------------------------------
# Values as expressions

row = Expression(Row())
"""The document at hand."""


def expr(value: Any) -> Expression:
    """The value as an expression: a document value, a dict or list with expressions in it, a function of expressions.

    Raises:
        InvalidDocument: It is none of these.
        QueryError: A dict has keys that are not str.
    """
    if isinstance(value, Expression):
        return value
    if callable(value) and not isinstance(value, type):
        return Expression(function_node(value))
    return Expression(_node(value, 0))


def _node(value: Any, depth: int) -> Node:
    if isinstance(value, Expression):
        return value.node
    if depth > _MAX_NESTED_VALUES:
        raise QueryError("Nesting depth limit exceeded.")
    if not _holds_expressions(value):
        return constant(value)
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                raise QueryError(f"Object keys must be strings (got {type(name).__name__}).")
        return call_node("make_obj", (), {name: _node(inner, depth + 1) for name, inner in value.items()})
    return call_node("make_array", tuple(_node(inner, depth + 1) for inner in value))


def _holds_expressions(value: Any) -> bool:
    """Whether a dict or list has an expression, or a bound, somewhere inside."""
    pending, known = [value], set()
    while pending:
        one = pending.pop()
        if isinstance(one, (Expression, Bound)):
            return one is not value
        # Each once: sixty lists that hold each other twice are 2**60 values.
        if isinstance(one, (dict, list, tuple)) and id(one) not in known:
            known.add(id(one))
            pending.extend(dict.values(one) if isinstance(one, dict) else one)
    return False


def function_node(function: Callable[..., Any]) -> Function:
    """A Python function of Expressions as a node: called once, with an Expression for each parameter."""
    try:
        # Imported here because it takes as long as the rest of this package.
        import inspect

        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise InvalidDocument(
            f"{shown(function)} is not a value, nor a function whose parameters can be read"
        ) from None
    parameters = tuple(
        new_variable()
        for parameter in signature.parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    )
    body = function(*(Expression(Variable(parameter)) for parameter in parameters))
    return Function(parameters, expr(body).node)


def _of_element(node: Node) -> Function:
    """What is said of `row`, as a function of an element."""
    variable = new_variable()
    return Function((variable,), with_row_as(node, variable))


def pattern_function(node: Node) -> Function:
    """What `filter` was given, as a function: an object is a pattern, of anything else the truth counts."""
    if not isinstance(node, Function):
        variable = new_variable()
        return Function((variable,), call_node("filter_match", (Variable(variable), node)))
    if node.parameters and is_pattern(node.body):
        return Function(node.parameters, call_node("filter_match", (Variable(node.parameters[0]), node.body)))
    return node


def is_pattern(node: Node) -> bool:
    """Whether the node is an object as it was written, which `filter` compares field by field."""
    if isinstance(node, Call):
        return node.operation in ("make_obj", "literal")
    return isinstance(node, Constant) and isinstance(node.value, dict)
