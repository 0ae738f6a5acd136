"""What the methods of Expression build with; Expression itself says how.

Rule of this file: only the words that the families of methods share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reactdb.expression.build import Expression


class Methods:
    """The base of the families of methods."""

    __slots__ = ()

    def call(self, operation: str, *arguments: Any, **options: Any) -> Expression:
        """An operation of the registry, applied to this value and the arguments."""
        raise NotImplementedError

    def field(self, name: Any) -> Expression:
        """`[name]`: a field of this value, or an element."""
        raise NotImplementedError

    def call_with_function(self, operation: str, *arguments: Any, **options: Any) -> Expression:
        """The same, where the last argument may be a Python function of Expressions, or an expression of `row`."""
        raise NotImplementedError

    def infix(self, operation: str, left: Any, right: Any) -> Expression:
        """`left & right` or `left | right`, remembered as such."""
        raise NotImplementedError

    def compared(self, operation: str, sign: str, other: Any) -> Expression:
        """A comparison by operator, refused where precedence has surely gone wrong."""
        raise NotImplementedError

    def reversed_call(self, operation: str, left: Any) -> Expression:
        """An operation of another value and this one: `5 - row["a"]`."""
        raise NotImplementedError

    def applied(self, *arguments: Any) -> Expression:
        """`do`: a function, the last of the arguments, applied to this value and the other arguments."""
        raise NotImplementedError

    def merge_call(self, patches: tuple[Any, ...]) -> Expression:
        """`merge`, where `row` in a patch is the document of the query if this is it, else what is merged into."""
        raise NotImplementedError

    def filter_call(self, predicate: Any, default: Any) -> Expression:
        """`filter`, where an object is a pattern."""
        raise NotImplementedError

    def order_call(self, keys: tuple[Any, ...]) -> Expression:
        """`order_by`, where a key may be an OrderKey."""
        raise NotImplementedError

    def grouped_call(self, by: tuple[Any, ...], options: dict[str, Any]) -> Expression:
        """`group`, by any number of fields or functions."""
        raise NotImplementedError
