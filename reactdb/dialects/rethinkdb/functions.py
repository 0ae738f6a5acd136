"""Functions of a query: closures over its variables, and pure ones also as expressions.

A function of only its argument becomes an expression of reactdb: it is compiled, uses indexes, and is routed. A function that
reads tables, or has terms without an expression, is evaluated term by term. Both give the same values. If an expression fails,
the terms are evaluated again, because only that gives the path to the term at fault.

Rule of this file: it evaluates no terms; the evaluator does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from reactdb.budget import CALL_STEPS, current
from reactdb.dialects.rethinkdb.errors import locate
from reactdb.dialects.rethinkdb.keys import with_stored_keys
from reactdb.dialects.rethinkdb.terms import DATUM, FUNC, MAKE_OBJ, VAR, Term
from reactdb.errors import MissingValue, QueryError, ReactDBError
from reactdb.expression import (
    OPERATIONS,
    Call,
    Constant,
    Expression,
    Node,
    Predicate,
    Row,
    Variable,
    maxval,
    minval,
)
from reactdb.expression import Function as FunctionNode
from reactdb.expression.checks import truth
from reactdb.expression.compile import value_function
from reactdb.expression.operations.logic import EmptyError
from reactdb.expression.operations.objects import filter_match
from reactdb.expression.registry import wrong_call
from reactdb.expression.tree import constant, new_variable

if TYPE_CHECKING:
    from reactdb.dialects.rethinkdb.evaluator import Evaluator

Scope = Mapping[int, Any]


class Function:
    """A function: its parameters, its body and the variables around it. A call takes datums and returns a datum."""

    __slots__ = ("_expression", "body", "evaluator", "parameters", "path", "scope")

    def __init__(self, evaluator: Evaluator, term: Term, scope: Scope) -> None:
        self.evaluator = evaluator
        self.parameters = term.parameters
        self.body = term.arguments[0]
        self.scope = scope
        self.path = term.path
        self._expression: bool | Expression | None = False

    def value(self, *values: Any) -> Any:
        """The value of the body, of any type."""
        names = self.parameters
        if names and len(names) != len(values):
            error = wrong_call(len(names), len(values))
            locate(error, self.path)
            raise error
        budget = current.get()
        if budget is not None:
            budget.spend(CALL_STEPS)
        return self.evaluator.run(self.body, {**self.scope, **dict(zip(names, values, strict=False))})

    def __call__(self, *values: Any) -> Any:
        return self.evaluator.as_datum(self.value(*values), self.body.path)

    @property
    def is_pattern(self) -> bool:
        """Whether its body is an object, which `filter` compares field by field."""
        return self.body.type is MAKE_OBJ or (self.body.type is DATUM and isinstance(self.body.value, dict))

    def test(self, element: Any) -> bool:
        """Whether its value is true; if the body is an object, whether the element matches it."""
        value = self(element)
        return filter_match(element, value) if self.is_pattern else truth(value)

    @property
    def is_deterministic(self) -> bool:
        return is_deterministic(self.body)

    @property
    def expression(self) -> Expression | None:
        """The function as an expression of a document; None if it has none. For functions of one argument only."""
        if self._expression is False:
            self._expression = self._as_expression()
        return self._expression  # type: ignore[return-value]

    def _as_expression(self) -> Expression | None:
        if len(self.parameters) > 1:
            return None
        bindings: dict[int, Node] = {self.parameters[0]: Row()} if self.parameters else {}
        try:
            return LocatedExpression(to_node(self.body, self.scope, bindings, self.evaluator), self)
        except (NotPure, ReactDBError):
            return None


class LocatedExpression(Expression):
    """An expression whose errors have the path to the term at fault."""

    __slots__ = ("_walk",)

    def __init__(self, node: Node, walk: Callable[[Any], Any]) -> None:
        super().__init__(node)
        self._walk = walk
        self._function = value_function(node)

    def __call__(self, document: Any) -> Any:
        try:
            return self._function(document)  # type: ignore[misc]
        except (QueryError, RecursionError):
            return self._walk(document)


class LocatedPredicate(Predicate):
    """A condition whose errors have the path to the term at fault."""

    __slots__ = ("_walk",)

    def __init__(
        self, expression: Expression, walk: Callable[[Any], bool], default: bool | Expression = False
    ) -> None:
        super().__init__(expression, default=default)
        self._walk = walk

    def _compile(self) -> Callable[[Any], bool]:
        test, walk = super()._compile(), self._walk

        def located(document: Any) -> bool:
            try:
                return test(document)
            except (QueryError, RecursionError):
                return walk(document)

        return located


def predicate(function: Function, default: Term | None, primary_key: str | None = None) -> Predicate:
    """The condition of `filter`: whether a function's value is true; `default` decides if a field is missing.

    Args:
        primary_key: The name of the field in which the documents have a key that may be shown otherwise.
    """

    def walk(document: Any) -> bool:
        try:
            return function.test(document)
        except MissingValue as missing:
            return is_default_true(function.evaluator, function.scope, default, missing)

    expression = function.expression
    if expression is None:
        return Predicate(None, walk)
    if primary_key is not None:
        expression = with_stored_keys(expression, primary_key)
    if function.is_pattern:
        expression = Expression(Call("filter_match", (Row(), expression.node)))
    otherwise: bool | Expression = False
    if default is not None:
        if default.is_constant:
            otherwise = truth(default.value)
        else:
            try:
                otherwise = Expression(to_node(default, function.scope, {}, function.evaluator))
            except (NotPure, ReactDBError):
                return Predicate(None, walk)
    return LocatedPredicate(expression, walk, otherwise)


def is_default_true(evaluator: Evaluator, scope: Scope, default: Term | None, missing: MissingValue) -> bool:
    """Whether a filter's default is true; raises the error again if the default is `r.error()`."""
    if default is None:
        return False
    try:
        return truth(evaluator.datum(default, scope))
    except EmptyError:
        raise missing from None


# ---------------------------------------------------------------------------------------------------------------
# Terms as nodes


class NotPure(Exception):
    """No expression is equivalent to the term."""


# These terms mean something else than the operations of the same name, or need the evaluator.
_EXCLUDED: Final = frozenset(("group", "ungroup", "order_by", "args", "sample", "http"))


def to_node(term: Term, scope: Scope, bindings: Mapping[int, Node], evaluator: Evaluator) -> Node:
    """The equivalent expression tree.

    Args:
        term: A term of a function's body.
        scope: The values of the variables around the function.
        bindings: Nodes of the function's own variables.
        evaluator: Gives the query's `now`.

    Raises:
        NotPure: There is no equivalent expression.
    """
    kind = term.type
    if kind is DATUM:
        return constant(term.value)
    if kind is VAR:
        name = term.parameters[0]
        if name in bindings:
            return bindings[name]
        value = scope[name]
        if _is_datum(value):
            return constant(value)
        raise NotPure
    if kind is FUNC:
        numbers = {name: new_variable() for name in term.parameters}
        inner = {**bindings, **{name: Variable(number) for name, number in numbers.items()}}
        return FunctionNode(tuple(numbers.values()), to_node(term.arguments[0], scope, inner, evaluator))
    if kind.name in ("minval", "maxval"):
        return Constant(minval if kind.name == "minval" else maxval)
    if kind.name == "now":
        return Constant(evaluator.now)
    operation = OPERATIONS.get(kind.name)
    if operation is None or kind.name in _EXCLUDED or (kind.name == "range" and not term.arguments):
        raise NotPure
    if term.has_args:
        raise NotPure
    arguments = tuple(to_node(argument, scope, bindings, evaluator) for argument in term.arguments)
    if operation.options is not None and not operation.options.issuperset(term.options):
        raise NotPure
    options = tuple(
        (name, to_node(term.options[name], scope, bindings, evaluator)) for name in sorted(term.options)
    )
    operation.check(len(arguments), frozenset(term.options))
    return Call(kind.name, arguments, options)


def _is_datum(value: Any) -> bool:
    return (
        value is None
        or isinstance(value, (bool, int, float, str, list, dict, bytes))
        or hasattr(value, "isoformat")
    )


# ---------------------------------------------------------------------------------------------------------------
# Determinism

_CHANGING: Final = frozenset(
    (
        "random", "javascript", "http", "sample", "table", "insert", "update", "replace", "delete", "for_each", "changes",
        "db_create", "db_drop", "db_list", "table_create", "table_drop", "table_list", "index_create", "index_drop",
        "index_list", "index_status", "index_wait", "index_rename", "config", "status", "wait", "reconfigure", "rebalance",
        "sync", "info", "db",
    )
)  # fmt: skip


def is_deterministic(term: Term) -> bool:
    """Whether the term always has the same value. `now` has, because it is one moment for the whole query."""
    name = term.type.name
    if name in _CHANGING or (name == "uuid" and not term.arguments):
        return False
    return all(map(is_deterministic, term.arguments)) and all(map(is_deterministic, term.options.values()))
