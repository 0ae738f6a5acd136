"""Sums, means and similar operators on arguments or on an array. All of them are also accumulators.

With several arguments, an operator works on their values; with a single array, on its elements.

Rule of this file: `totals` computes the value of an accumulator.
"""

from __future__ import annotations

from typing import Any

from reactdb.budget import spend_value
from reactdb.dialects.mongodb.expressions.compile import (
    Evaluate,
    NamedArguments,
    Scope,
    arguments,
    check_named_parts,
    compile_value,
    constant_of,
    is_nullish,
    syntax,
)
from reactdb.dialects.mongodb.totals import TOTALS_OF_ARGUMENTS, quantiles

__all__: list[str] = []

Variables = dict[str, Any]


def _summary(name: str) -> None:
    @syntax(name)
    def compiler(spec: Any, scope: Scope) -> Evaluate:
        parts = arguments(name, spec, scope)
        begin = TOTALS_OF_ARGUMENTS[name]
        text = scope.text

        def evaluate(document: Any, variables: Variables) -> Any:
            values = [part(document, variables) for part in parts]
            if len(values) == 1 and isinstance(values[0], list):
                values = values[0]
            spend_value(values)
            summary = begin(text)
            for value in values:
                summary.add(value)
            return summary.result()

        return evaluate


for _name in TOTALS_OF_ARGUMENTS:
    _summary(_name)

_PERCENTILE = NamedArguments(40414, 40415, {"input": 40414, "p": 40414, "method": 40414})
_MEDIAN = NamedArguments(40414, 40415, {"input": 40414, "method": 40414})


@syntax("$percentile")
def _percentile(spec: Any, scope: Scope) -> Evaluate:
    parts = check_named_parts("$percentile", spec, _PERCENTILE)
    return _quantile(parts, constant_of(compile_value(parts["p"], scope)), scope)


@syntax("$median")
def _median(spec: Any, scope: Scope) -> Evaluate:
    inner = _quantile(check_named_parts("$median", spec, _MEDIAN), [0.5], scope)
    return lambda document, variables: inner(document, variables)[0]


def _quantile(parts: Any, wanted: Any, scope: Scope) -> Evaluate:
    source = compile_value(parts["input"], scope)
    compute = quantiles(wanted, parts["method"])

    def evaluate(document: Any, variables: Variables) -> Any:
        value = source(document, variables)
        values = value if isinstance(value, list) else [] if is_nullish(value) else [value]
        return compute(values)

    return evaluate
