"""r: the names of ReQL that are functions, in one namespace, as the drivers have them.

    from reactdb import r, row, asc, desc, branch, literal
    r.branch(row["score"] > 10, "high", "low")

Rule of this file: it builds expressions; the operations have their meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reactdb.errors import QueryError
from reactdb.expression.build import Expression, call, expr, row
from reactdb.expression.order import OrderKey, check_no_sign
from reactdb.values.collation import Bound, maxval, minval

Key = str | Expression | OrderKey | Callable[[Expression], Any]


def as_order_key(key: Key) -> OrderKey:
    """A key of an order: the name of a field, an expression, a function of an Expression, or an OrderKey.

    Raises:
        QueryError: It is something else, or a name with a `-` before it, as other systems have it for the reverse order.
    """
    if isinstance(key, OrderKey):
        return key
    if isinstance(key, str):
        check_no_sign(key)
        return OrderKey(row[key])
    if isinstance(key, Expression):
        return OrderKey(key)
    if callable(key):
        return OrderKey(expr(key(row)))
    raise QueryError(f"an order's key is the name of a field or an expression, not {type(key).__name__}")


def asc(key: Key) -> OrderKey:
    """Upwards in the order of a key."""
    return OrderKey(as_order_key(key).expression)


def desc(key: Key) -> OrderKey:
    """Downwards in the order of a key."""
    return OrderKey(as_order_key(key).expression, descending=True)


def branch(test: Any, *values: Any) -> Expression:
    """`branch(test, value, otherwise)`: one of the two. More pairs of a test and a value may come before
    `otherwise`."""
    return call("branch", test, *values)


def literal(*value: Any) -> Expression:
    """Inside a patch: put this value in whole. Without a value: take the field away."""
    return call("literal", *value)


class Namespace:
    """The class of `r`. Every name is also a name of ReQL.

    Every method of Expression is here too, with its object as the first argument: `r.add(1, 2)`.
    """

    __slots__ = ()

    row: Expression = row
    minval: Bound = minval
    maxval: Bound = maxval

    monday, tuesday, wednesday, thursday, friday, saturday, sunday = range(1, 8)
    january, february, march, april, may, june = range(1, 7)
    july, august, september, october, november, december = range(7, 13)

    asc = staticmethod(asc)
    desc = staticmethod(desc)
    branch = staticmethod(branch)
    literal = staticmethod(literal)
    expr = staticmethod(expr)

    def error(self, *message: Any) -> Expression:
        """Raise RaisedError with that message. Without one, inside `default`: let the first error through."""
        return call("error", *message)

    def count(self, *values: Any) -> Expression:
        """The number of elements of an array. Without arguments: how many documents, in `aggregate(n=r.count())`."""
        return expr(values[0]).count(*values[1:]) if values else call("count", row)

    def args(self, values: Any) -> Expression:
        """Among the arguments of an operation: each element as a separate argument."""
        return call("args", values)

    def do(self, *arguments: Any) -> Expression:
        """The value of a function, given last, of the other arguments."""
        if not arguments:
            raise QueryError("Expected 1 or more arguments but found 0.")
        return call("funcall", arguments[-1], *arguments[:-1])

    def and_(self, *values: Any) -> Expression:
        """The first value that is null or false, or the last one."""
        return call("and", *values)

    def or_(self, *values: Any) -> Expression:
        """The first value that is neither null nor false, or the last one."""
        return call("or", *values)

    def object(self, *names_and_values: Any) -> Expression:
        """An object of names and values, given in turn."""
        return call("object", *names_and_values)

    def binary(self, value: Any) -> Expression:
        """A string's UTF-8."""
        return call("binary", value)

    def range(self, *bounds: Any) -> Expression:
        """Integers from 0, or the first bound, up to the last one."""
        return call("range", *bounds)

    def union(self, *arrays: Any, **options: Any) -> Expression:
        """The elements of all arrays."""
        return call("union", *arrays, **options)

    def json(self, text: Any) -> Expression:
        """The value of a JSON text."""
        return call("json", text)

    def now(self) -> Expression:
        """The moment when the query starts: the same for all documents."""
        return call("now")

    def time(self, *parts: Any) -> Expression:
        """A time of year, month, day and zone (`Z`, `+01:00`), or also hours, minutes and seconds before the zone."""
        return call("time", *parts)

    def epoch_time(self, seconds: Any) -> Expression:
        """The time `seconds` after 1970."""
        return call("epoch_time", seconds)

    def iso8601(self, text: Any, **options: Any) -> Expression:
        """The time that a string says; `default_timezone` if it may lack one."""
        return call("iso8601", text, **options)

    def uuid(self, *name: Any) -> Expression:
        """A random UUID as a string; of a string, always the same one."""
        return call("uuid", *name)

    def random(self, *bounds: Any, **options: Any) -> Expression:
        """A number by chance: of 0 to 1, or an integer within bounds; `float=True` within bounds."""
        return call("random", *bounds, **options)

    def __getattr__(self, name: str) -> Callable[..., Expression]:
        method = None if name.startswith("_") else getattr(Expression, name, None)
        if not callable(method):
            instead = (
                ': write db["todos"], with db = reactdb.connect(path)'
                if name in ("table", "db", "connect")
                else ""
            )
            raise AttributeError(f"ReQL has no term `{name}` here{instead}", name=name)

        def term(*values: Any, **options: Any) -> Expression:
            if not values:
                raise QueryError(f"r.{name} needs a value or a field: r.{name}(...)")
            value, *arguments = values
            result: Expression = getattr(expr(value), name)(*arguments, **options)
            return result

        return term


r = Namespace()
