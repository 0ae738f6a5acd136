"""Computed values: the expressions in documents that are inserted, such as `{"at": r.now()}`, computed.

Rule of this file: an expression is replaced by its value. Everything else stays the caller's own object, so that the codec
can say what is wrong with it.
"""

from __future__ import annotations

from typing import Any, Final

from reactdb.errors import QueryError
from reactdb.expression import Constant, Expression, compile_value, has_expression, r
from reactdb.expression.compile import with_fixed_now

# As for values in an expression.
MOST_NESTED: Final = 100


class ComputedValues:
    """Computes the values of one insert: `now` is one moment for all of its documents."""

    def __init__(self) -> None:
        self._now: Constant | None = None

    def compute(self, document: dict[str, Any]) -> dict[str, Any]:
        """A copy of the document with its expressions computed; the document itself where it has none.

        Raises:
            QueryError: An expression reads `row`, or cannot be computed; or it is too deep inside.
        """
        if not has_expression(document):
            return document
        computed: dict[str, Any] = self.compute_value(document, 0)
        return computed

    def compute_value(self, value: Any, depth: int) -> Any:
        """The same for a value at a depth inside of its document."""
        if isinstance(value, Expression):
            return self._value_of(value)
        if depth > MOST_NESTED:
            raise QueryError("Nesting depth limit exceeded.")
        if isinstance(value, dict):
            return {name: self.compute_value(one, depth + 1) for name, one in dict.items(value)}
        if isinstance(value, (list, tuple)):
            return [self.compute_value(one, depth + 1) for one in value]
        return value

    def _value_of(self, expression: Expression) -> Any:
        node = expression.node
        if node.uses_row:
            raise QueryError(
                f"an inserted document has no `row` before it is stored, so {expression!r} has no value: insert the value, or "
                "write get(key).update({...}) afterwards"
            )
        if "now" in node.rare:
            if self._now is None:
                self._now = Constant(compile_value(r.now())(None))
            node = with_fixed_now(node, self._now)
        return compile_value(Expression(node))(None)
