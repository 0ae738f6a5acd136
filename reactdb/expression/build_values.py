"""Methods of Expression: comparison, logic, arithmetic, strings, times and types.

Rule of this file: a method names its operation and passes its arguments on; what they mean is with the operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reactdb.expression.build_base import Methods

if TYPE_CHECKING:
    from reactdb.expression.build import Expression


class ValueMethods(Methods):
    """Methods for single values."""

    __slots__ = ()

    # ----- operators

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return self.compared("eq", "==", other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return self.compared("ne", "!=", other)

    def __lt__(self, other: Any) -> Expression:
        return self.compared("lt", "<", other)

    def __le__(self, other: Any) -> Expression:
        return self.compared("le", "<=", other)

    def __gt__(self, other: Any) -> Expression:
        return self.compared("gt", ">", other)

    def __ge__(self, other: Any) -> Expression:
        return self.compared("ge", ">=", other)

    def __and__(self, other: Any) -> Expression:
        return self.infix("and", self, other)

    def __rand__(self, other: Any) -> Expression:
        return self.infix("and", other, self)

    def __or__(self, other: Any) -> Expression:
        return self.infix("or", self, other)

    def __ror__(self, other: Any) -> Expression:
        return self.infix("or", other, self)

    def __invert__(self) -> Expression:
        return self.call("not")

    def __add__(self, other: Any) -> Expression:
        return self.call("add", other)

    def __radd__(self, other: Any) -> Expression:
        return self.reversed_call("add", other)

    def __sub__(self, other: Any) -> Expression:
        return self.call("sub", other)

    def __rsub__(self, other: Any) -> Expression:
        return self.reversed_call("sub", other)

    def __mul__(self, other: Any) -> Expression:
        return self.call("mul", other)

    def __rmul__(self, other: Any) -> Expression:
        return self.reversed_call("mul", other)

    def __truediv__(self, other: Any) -> Expression:
        return self.call("div", other)

    def __rtruediv__(self, other: Any) -> Expression:
        return self.reversed_call("div", other)

    def __mod__(self, other: Any) -> Expression:
        return self.call("mod", other)

    def __rmod__(self, other: Any) -> Expression:
        return self.reversed_call("mod", other)

    # ----- comparison and logic

    def eq(self, *others: Any) -> Expression:
        """True if all are equal."""
        return self.call("eq", *others)

    def ne(self, *others: Any) -> Expression:
        """True unless all are equal."""
        return self.call("ne", *others)

    def lt(self, *others: Any) -> Expression:
        """True if each is below the next one, in the one order over all values."""
        return self.call("lt", *others)

    def le(self, *others: Any) -> Expression:
        """True if none is above the next one."""
        return self.call("le", *others)

    def gt(self, *others: Any) -> Expression:
        """True if each is above the next one."""
        return self.call("gt", *others)

    def ge(self, *others: Any) -> Expression:
        """True if none is below the next one."""
        return self.call("ge", *others)

    def and_(self, *others: Any) -> Expression:
        """The first value that is null or false, or the last one."""
        return self.call("and", *others)

    def or_(self, *others: Any) -> Expression:
        """The first value that is neither null nor false, or the last one."""
        return self.call("or", *others)

    def not_(self) -> Expression:
        """True for null and false."""
        return self.call("not")

    def default(self, otherwise: Any) -> Expression:
        """`otherwise` where this is null or not there; of a function, its value for the error's message."""
        return self.call("default", otherwise)

    def branch(self, value: Any, *others: Any) -> Expression:
        """`value` if this is true; else the same with the others: test, value, ..., otherwise."""
        return self.call("branch", value, *others)

    def do(self, *arguments: Any) -> Expression:
        """The value of a function, given last, of this and the other arguments."""
        return self.applied(*arguments)

    # ----- arithmetic

    def add(self, *others: Any) -> Expression:
        """Sum of numbers; strings or arrays one after the other; a time and seconds."""
        return self.call("add", *others)

    def sub(self, *others: Any) -> Expression:
        """Difference of numbers; seconds between times; a time less seconds."""
        return self.call("sub", *others)

    def mul(self, *others: Any) -> Expression:
        """Product of numbers; an array so many times."""
        return self.call("mul", *others)

    def div(self, *others: Any) -> Expression:
        """Quotient of numbers."""
        return self.call("div", *others)

    def mod(self, other: Any) -> Expression:
        """The rest of a division of integers, with the sign of this one."""
        return self.call("mod", other)

    def floor(self) -> Expression:
        """The integer below."""
        return self.call("floor")

    def ceil(self) -> Expression:
        """The integer above."""
        return self.call("ceil")

    def round(self) -> Expression:
        """The nearest integer; halves away from zero."""
        return self.call("round")

    def bit_and(self, *others: Any) -> Expression:
        """The bits that all have."""
        return self.call("bit_and", *others)

    def bit_or(self, *others: Any) -> Expression:
        """The bits that any has."""
        return self.call("bit_or", *others)

    def bit_xor(self, *others: Any) -> Expression:
        """The bits that an odd number of them have."""
        return self.call("bit_xor", *others)

    def bit_not(self) -> Expression:
        """The bits that this does not have."""
        return self.call("bit_not")

    def bit_sal(self, places: Any) -> Expression:
        """Shifted to the left."""
        return self.call("bit_sal", places)

    def bit_sar(self, places: Any) -> Expression:
        """Shifted to the right."""
        return self.call("bit_sar", places)

    # ----- strings

    def match(self, pattern: Any) -> Expression:
        """The first match of a regular expression as an object, or null. Its cost is bounded: see `pattern`."""
        return self.call("match", pattern)

    def split(self, *arguments: Any) -> Expression:
        """The parts between separators (spaces, unless given), at most so many cuts."""
        return self.call("split", *arguments)

    def upcase(self) -> Expression:
        """The string with A to Z for a to z."""
        return self.call("upcase")

    def downcase(self) -> Expression:
        """The string with a to z for A to Z."""
        return self.call("downcase")

    # ----- types

    def type_of(self) -> Expression:
        """ReQL's name of the type."""
        return self.call("type_of")

    def coerce_to(self, type_name: Any) -> Expression:
        """The value as another type: "string", "number", "bool", "array", "object" or "binary"."""
        return self.call("coerce_to", type_name)

    def to_json_string(self) -> Expression:
        """The value as JSON."""
        return self.call("to_json_string")

    # ----- times

    def in_timezone(self, zone: Any) -> Expression:
        """The same moment elsewhere: `+hh:mm`."""
        return self.call("in_timezone", zone)

    def timezone(self) -> Expression:
        """The time's zone."""
        return self.call("timezone")

    def during(self, start: Any, end: Any, **options: Any) -> Expression:
        """True from `start` on and before `end`; `left_bound` and `right_bound` may be `open` or `closed`."""
        return self.call("during", start, end, **options)

    def date(self) -> Expression:
        """The midnight before."""
        return self.call("date")

    def time_of_day(self) -> Expression:
        """Seconds since midnight."""
        return self.call("time_of_day")

    def year(self) -> Expression:
        """The year."""
        return self.call("year")

    def month(self) -> Expression:
        """The month, from 1."""
        return self.call("month")

    def day(self) -> Expression:
        """The day of the month."""
        return self.call("day")

    def day_of_week(self) -> Expression:
        """The day of the week; Monday is 1."""
        return self.call("day_of_week")

    def day_of_year(self) -> Expression:
        """The day of the year, from 1."""
        return self.call("day_of_year")

    def hours(self) -> Expression:
        """The hour."""
        return self.call("hours")

    def minutes(self) -> Expression:
        """The minute."""
        return self.call("minutes")

    def seconds(self) -> Expression:
        """The seconds, with milliseconds."""
        return self.call("seconds")

    def to_iso8601(self) -> Expression:
        """The time as a string."""
        return self.call("to_iso8601")

    def to_epoch_time(self) -> Expression:
        """Seconds since 1970."""
        return self.call("to_epoch_time")
