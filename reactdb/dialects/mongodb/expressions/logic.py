"""Operators that decide: comparisons, `$and`, `$or`, `$not`, `$cond`, `$ifNull`, `$switch`, and `$literal`.

False, zero, null and missing values count as false; everything else as true.

Rule of this file: an argument that is not needed is not evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bson.decimal128 import Decimal128

from reactdb.budget import spend_value
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions.compile import (
    Evaluate,
    NamedArguments,
    Scope,
    argument,
    arguments,
    check_named_parts,
    compile_value,
    constant,
    constant_of,
    is_nullish,
    syntax,
)
from reactdb.dialects.mongodb.numeric import decimal_of

__all__ = ["is_true"]


def is_true(value: Any) -> bool:
    """Whether a value counts as true."""
    if value is True:
        return True
    if value is False or is_nullish(value):
        return False
    if isinstance(value, int | float):
        return value != 0
    if type(value) is Decimal128:
        decimal = decimal_of(value)
        return bool(decimal.is_nan() or decimal != 0)
    return True


# --- Comparisons ---


def _comparison(name: str, holds: Callable[[int], Any]) -> None:
    @syntax(name)
    def compiler(spec: Any, scope: Scope) -> Evaluate:
        left, right = arguments(name, spec, scope, 2, 2)
        compare = scope.compare()

        def evaluate(document: Any, variables: dict[str, Any]) -> Any:
            one, other = left(document, variables), right(document, variables)
            if type(one) is str:
                spend_value(one)
            return holds(compare(one, other))

        return evaluate


_comparison("$cmp", lambda order: order)
_comparison("$eq", lambda order: order == 0)
_comparison("$ne", lambda order: order != 0)
_comparison("$gt", lambda order: order > 0)
_comparison("$gte", lambda order: order >= 0)
_comparison("$lt", lambda order: order < 0)
_comparison("$lte", lambda order: order <= 0)


# --- Truth ---


@syntax("$and")
def _and(spec: Any, scope: Scope) -> Evaluate:
    parts = arguments("$and", spec, scope)
    return lambda document, variables: all(is_true(part(document, variables)) for part in parts)


@syntax("$or")
def _or(spec: Any, scope: Scope) -> Evaluate:
    parts = arguments("$or", spec, scope)
    if any(is_true(constant_of(part)) for part in parts):
        return constant(True)
    return lambda document, variables: any(is_true(part(document, variables)) for part in parts)


@syntax("$not")
def _not(spec: Any, scope: Scope) -> Evaluate:
    part = argument("$not", spec, scope)
    return lambda document, variables: not is_true(part(document, variables))


# --- Choices ---


@syntax("$cond")
def _cond(spec: Any, scope: Scope) -> Evaluate:
    if isinstance(spec, Mapping):
        for name in spec:
            if name not in {"if", "then", "else"}:
                raise MongoError(17083, f"$cond has no argument '{name}'")
        for name, code in (("if", 17080), ("then", 17081), ("else", 17082)):
            if name not in spec:
                raise MongoError(code, f"$cond needs the argument '{name}'")
        parts = [compile_value(spec[name], scope) for name in ("if", "then", "else")]
    else:
        parts = arguments("$cond", spec, scope, 3, 3)
    test, then, otherwise = parts

    def evaluate(document: Any, variables: dict[str, Any]) -> Any:
        return (then if is_true(test(document, variables)) else otherwise)(document, variables)

    return evaluate


@syntax("$ifNull")
def _if_null(spec: Any, scope: Scope) -> Evaluate:
    if not isinstance(spec, list | tuple) or len(spec) < 2:
        raise MongoError(1257300, "$ifNull needs at least two arguments")
    parts = arguments("$ifNull", spec, scope, 2, None)
    *candidates, last = parts

    def evaluate(document: Any, variables: dict[str, Any]) -> Any:
        for candidate in candidates:
            value = candidate(document, variables)
            if not is_nullish(value):
                return value
        return last(document, variables)

    return evaluate


_BRANCH = NamedArguments(40062, 40063, {"case": 40064, "then": 40065})


@syntax("$switch")
def _switch(spec: Any, scope: Scope) -> Evaluate:
    if not isinstance(spec, Mapping):
        raise MongoError(40060, "$switch takes an object with 'branches'")
    branches: list[tuple[Evaluate, Evaluate]] = []
    default: Evaluate | None = None
    for name, value in spec.items():
        if name == "branches":
            if not isinstance(value, list | tuple):
                raise MongoError(40061, "$switch takes an array of branches")
            for branch in value:
                parts = check_named_parts("a branch of $switch", branch, _BRANCH)
                branches.append((compile_value(parts["case"], scope), compile_value(parts["then"], scope)))
        elif name == "default":
            default = compile_value(value, scope)
        else:
            raise MongoError(40067, f"$switch has no argument '{name}'")
    if not branches:
        raise MongoError(40068, "$switch needs at least one branch")

    def evaluate(document: Any, variables: dict[str, Any]) -> Any:
        for test, then in branches:
            if is_true(test(document, variables)):
                return then(document, variables)
        if default is None:
            raise MongoError(40069, "no branch of $switch holds, and it has no default")
        return default(document, variables)

    return evaluate


@syntax("$literal")
@syntax("$const")
def _literal(spec: Any, _scope: Scope) -> Evaluate:
    return constant(spec)
