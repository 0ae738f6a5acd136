"""Predicate: the argument of `filter` as one value that can be tested, compared, analysed and explained.

    row["score"] > 10                  compiled; can be looked up in an index and routed
    {"room": 5, "user": {"id": 1}}     equality of the fields; the same
    lambda document: ...               any Python function of a document; only tested, one document after the other
    True, False                        all, none

Rule of this file: a predicate is a value. `test` is compiled at its first use, and everything else is in `compile`
and `analyse`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reactdb.async_functions import refuse_async, refuse_awaitable
from reactdb.errors import QueryError
from reactdb.expression.build import Expression, call_node, expr, has_expression, is_pattern
from reactdb.expression.compile import truth_function, truth_once, with_fixed_now
from reactdb.expression.tree import Call, Constant, Node, Row

Document = dict[str, Any]
# Operations that are either true or false.
CONDITIONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "has_fields", "contains"}) | {
    "includes",
    "is_in",
    "startswith",
    "endswith",
}


class Predicate:
    """A condition on documents.

    Attributes:
        node: The condition as a tree; None for a Python function.
        function: The Python function; None for an expression.
        default: The result where something is missing: a bool, or an expression (as `r.error()`) that may raise.
        key: Equal for predicates that surely agree on every document; hashable.
    """

    __slots__ = ("_test", "default", "function", "key", "node")

    key: Any

    def __init__(
        self,
        expression: Expression | None,
        function: Callable[[Document], Any] | None = None,
        default: bool | Expression = False,
    ) -> None:
        # The expression around it is left out to save memory: there may be very many predicates.
        self.node = None if expression is None else expression.node
        self.function = function
        self.default = default
        self._test: Callable[[Document], bool] | None = None
        if expression is None:
            self.key = ("function", function)
        else:
            self.key = expression.key
        # The usual default is left out of the key, also to save memory.
        if default is not False:
            self.key = (self.key, b"1" if default is True else b"e" + default.key)

    @property
    def expression(self) -> Expression | None:
        """The condition as an expression; None for a Python function."""
        return None if self.node is None else Expression(self.node)

    @property
    def test(self) -> Callable[[Document], bool]:
        """The condition as a function of a document. An expression that a Python function returns is computed for the document.

        It raises QueryError where ReQL does. A Python function's errors are its own.
        """
        if self._test is None:
            self._test = self._compile()
        return self._test

    def _compile(self) -> Callable[[Document], bool]:
        default = self.default if isinstance(self.default, bool) else self.default.node
        if self.node is not None:
            return truth_function(self.node, default)
        function = self.function
        assert function is not None

        def test(document: Document) -> bool:
            result = function(document)
            if type(result) is bool:
                return result
            if not has_expression(result):
                refuse_awaitable(result, "filter")
                return bool(result)
            return truth_once(expr(result).node, default)(document)

        return test

    def __call__(self, document: Document) -> bool:
        return self.test(document)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Predicate) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"Predicate({self.explain()})"

    def explain(self) -> str:
        """The condition in words: as an expression, or why there is none."""
        if self.node is None:
            name = getattr(self.function, "__qualname__", None) or repr(self.function)
            return f"the Python function {name}: tested on every document, neither indexed nor routed"
        default = "" if self.default is False else f", default={self.default!r}"
        return f"{self.expression!r}{default}"


def as_predicate(value: Any, default: Any = False) -> Predicate:
    """The argument of `filter` as a Predicate.

    Args:
        value: An expression, a dict of fields that must be equal (where it holds a dict, field by field again), a
            Python function of a document, or a bool.
        default: The result where something is missing: False, True, or an expression, such as `r.error()`.

    Raises:
        QueryError: The value is none of these, or makes no sense for any document; or `default` is one more
            condition.
        InvalidDocument: The dict holds a value that no document can hold.
    """
    if isinstance(value, Predicate):
        return value
    if default is not False and is_second_condition(default):
        raise QueryError(
            "default is the result of a filter where a field is missing, and this is one more condition: "
            "join conditions with &, each in parentheses; the filter of a selection takes several: filter(first, second)"
        )
    if callable(value) and not isinstance(value, Expression):
        refuse_async(value, "filter")
        return Predicate(None, value, _default(default))
    if not isinstance(value, (Expression, dict, bool)):
        raise QueryError(
            f"filter takes an expression, a dict, a function of a document or a bool, not {type(value).__name__}"
        )
    node = _condition(expr(value).node)
    return Predicate(Expression(with_fixed_now(node)), default=_default(default))


def describe_function(function: Callable[..., Any]) -> str:
    """A Python function as a message names it: its name, and the file and line of its definition, if they are known."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    target: Any = function
    for _ in range(8):
        code = getattr(target, "__code__", None)
        if code is not None:
            return f"{name}, {code.co_filename}:{code.co_firstlineno}"
        # A method, a result of functools.partial or functools.wraps, or an object that can be called.
        inner = [getattr(target, one, None) for one in ("__func__", "func", "__wrapped__")]
        target = next((one for one in inner if one is not None), vars(type(target)).get("__call__"))
    return name


def is_second_condition(default: Any) -> bool:
    """Whether the argument `default` was surely meant as one more condition: `filter(row["a"] > 1, row["b"] < 2)`. As
    a default it would only count for documents without `a`."""
    if isinstance(default, Expression):
        node = default.node
        return isinstance(node, Call) and node.operation in CONDITIONS and node.uses_row
    return callable(default) or isinstance(default, dict)


def _condition(node: Node) -> Node:
    return call_node("filter_match", (Row(), node)) if is_pattern(node) else node


def _default(value: Any) -> bool | Expression:
    if isinstance(value, bool):
        return value
    other = expr(value)
    if isinstance(other.node, Constant):
        return other.node.value is not None and other.node.value is not False
    return other
