"""Expression: the form in which users write conditions and computed values.

    (row["score"] > 10) & row["tags"].contains("new")

Each method adds a node and gives a new Expression; the names are ReQL's. The operators compare and compute as ReQL does,
not as Python: 1 equals 1.0 and differs from True, every value can be compared with every other, and `&`, `|` and `~`
are and, or, not. Because `and`, `or`, `not` and `if` cannot be taught, an Expression refuses to be true or false.

An Expression is callable on a document and returns its value, so it can stand wherever a Python function of a
document can: `filter(row["score"] > 10)` means the same to ReQL and to Rx.

Where a method takes a function, pass a Python function of Expressions, `lambda tag: tag.upcase()`, which is called
once to build its expression; or an expression of `row`, where `row` is then the element.

Rule of this file: it builds trees and evaluates nothing. A method names its operation and passes its arguments on;
the registry has the operation's meaning. Mistakes that hold for every document are refused here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from reactdb.errors import InvalidDocument, QueryError, format_value
from reactdb.expression.compile import value_function
from reactdb.expression.evaluate import run
from reactdb.expression.order import OrderKey, check_no_sign
from reactdb.expression.registry import find
from reactdb.expression.show import format_node
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
    replace_row,
)
from reactdb.values.collation import Bound, key_bytes

_NO_OPTIONS: frozenset[str] = frozenset()

# Left-nested, these mean the same as one call with all arguments; flat, a chain of hundreds is not a deep tree.
_FLATTENED = frozenset(("and", "or", "add", "sub", "mul", "div"))

_MAX_NESTED_VALUES = 100

# Types of values that are no functions, and have no parts.
_PLAIN = frozenset((str, int, float, bool, type(None)))


class Expression:
    """A value computed from a document. Immutable; equal in structure means equal in `key` and hash."""

    __slots__ = ("_function", "_is_infix", "_is_used", "_key", "node")

    node: Node

    def __init__(self, node: Node, *, is_infix: bool = False) -> None:
        """Use `expr`, `row` or `r` to get one; `node` is for dialects that build trees of their own."""
        self.node = node
        self._key: bytes | None = None
        self._function: Callable[[Any], Any] | None = None
        self._is_used = False
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
            QueryError: ReQL's error, such as MissingValue for a missing field.
        """
        if self._function is None:
            self._function = value_function(self.node)
        return self._function(document)

    def value_of(self, document: Any) -> Any:
        """As a call, where the expression may be used only once: a function is generated at the second use.
        Generating one takes as long as walking the tree three times."""
        function = self._function
        if function is not None:
            return function(document)
        if self._is_used or self.node.rare:
            return self(document)
        self._is_used = True
        return run(self.node, document)

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return format_node(self.node)

    def __bool__(self) -> bool:
        # `ops.map(row["score"])` must mean the same as `feed.map(row["score"])`, and reactivex evaluates `mapper or
        # identity`.
        if sys._getframe(1).f_globals.get("__name__", "").startswith("reactivex."):
            return True
        raise QueryError(
            "an expression is neither true nor false before it meets a document: combine conditions with & | ~ "
            'instead of and, or, not, each in parentheses: (row["a"] > 1) & (row["b"] < 2)'
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raises: AttributeError, with the right name."""
            from reactdb.guessed_words import missing_name

            raise missing_name(self, "expression", name, dir(type(self)))

    def __iter__(self) -> Iterator[NoReturn]:
        raise QueryError("an expression cannot be iterated: use its methods map, filter, concat_map")

    def __contains__(self, value: object) -> NoReturn:
        raise QueryError(
            "`in` cannot be used with an expression: use its method contains, or is_in for a value in a list"
        )

    def __len__(self) -> NoReturn:
        raise QueryError("an expression has no length before it meets a document: use its method len")

    def __abs__(self) -> Expression:
        return self._call("abs")

    def __round__(self, digits: object = None) -> Expression:
        if digits is not None:
            raise QueryError(
                'round of an expression gives an integer: for two digits write (row["a"] * 100).round() / 100'
            )
        return self._call("round")

    def __neg__(self) -> NoReturn:
        raise QueryError(
            'an expression has no sign: write 0 - row["score"], and desc("score") for an order from high to low'
        )

    # ----- operators

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return self._compare_by_sign("eq", "==", other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return self._compare_by_sign("ne", "!=", other)

    def __lt__(self, other: Any) -> Expression:
        return self._compare_by_sign("lt", "<", other)

    def __le__(self, other: Any) -> Expression:
        return self._compare_by_sign("le", "<=", other)

    def __gt__(self, other: Any) -> Expression:
        return self._compare_by_sign("gt", ">", other)

    def __ge__(self, other: Any) -> Expression:
        return self._compare_by_sign("ge", ">=", other)

    def __and__(self, other: Any) -> Expression:
        return _call_infix("and", self, other)

    def __rand__(self, other: Any) -> Expression:
        return _call_infix("and", other, self)

    def __or__(self, other: Any) -> Expression:
        return _call_infix("or", self, other)

    def __ror__(self, other: Any) -> Expression:
        return _call_infix("or", other, self)

    def __invert__(self) -> Expression:
        return self._call("not")

    def __add__(self, other: Any) -> Expression:
        return self._call("add", other)

    def __radd__(self, other: Any) -> Expression:
        return call("add", other, self)

    def __sub__(self, other: Any) -> Expression:
        return self._call("sub", other)

    def __rsub__(self, other: Any) -> Expression:
        return call("sub", other, self)

    def __mul__(self, other: Any) -> Expression:
        return self._call("mul", other)

    def __rmul__(self, other: Any) -> Expression:
        return call("mul", other, self)

    def __truediv__(self, other: Any) -> Expression:
        return self._call("div", other)

    def __rtruediv__(self, other: Any) -> Expression:
        return call("div", other, self)

    def __mod__(self, other: Any) -> Expression:
        return self._call("mod", other)

    def __rmod__(self, other: Any) -> Expression:
        return call("mod", other, self)

    # ----- comparison and logic

    def is_in(self, values: Any, *more: Any) -> Expression:
        """True if this equals an element of `values`: a list or another iterable, or an expression of a list. An index
        of this finds the documents, as `get_all` does."""
        if more:
            raise QueryError("is_in takes one list of values: write is_in([1, 2]) and not is_in(1, 2)")
        return call("is_in", self, _list_of(values))

    def eq(self, *others: Any) -> Expression:
        """True if all are equal."""
        return self._call("eq", *others)

    def ne(self, *others: Any) -> Expression:
        """True unless all are equal."""
        return self._call("ne", *others)

    def lt(self, *others: Any) -> Expression:
        """True if each is below the next one, in the one order over all values."""
        return self._call("lt", *others)

    def le(self, *others: Any) -> Expression:
        """True if none is above the next one."""
        return self._call("le", *others)

    def gt(self, *others: Any) -> Expression:
        """True if each is above the next one."""
        return self._call("gt", *others)

    def ge(self, *others: Any) -> Expression:
        """True if none is below the next one."""
        return self._call("ge", *others)

    def and_(self, *others: Any) -> Expression:
        """The first value that is null or false, or the last one."""
        return self._call("and", *others)

    def or_(self, *others: Any) -> Expression:
        """The first value that is neither null nor false, or the last one."""
        return self._call("or", *others)

    def not_(self) -> Expression:
        """True for null and false."""
        return self._call("not")

    def default(self, otherwise: Any) -> Expression:
        """`otherwise` where this is null or not there; of a function, its value for the error's message."""
        return self._call("default", otherwise)

    def branch(self, value: Any, *others: Any) -> Expression:
        """`value` if this is true; else the same with the others: test, value, ..., otherwise."""
        return self._call("branch", value, *others)

    def do(self, *arguments: Any) -> Expression:
        """The value of a function, given last, of this and the other arguments."""
        if not arguments:
            return self
        *others, function = arguments
        return call("funcall", self._function_argument(function), self, *others)

    # ----- arithmetic

    def add(self, *others: Any) -> Expression:
        """Sum of numbers; strings or arrays one after the other; a time and seconds."""
        return self._call("add", *others)

    def sub(self, *others: Any) -> Expression:
        """Difference of numbers; seconds between times; a time less seconds."""
        return self._call("sub", *others)

    def mul(self, *others: Any) -> Expression:
        """Product of numbers; an array repeated as often as the number says."""
        return self._call("mul", *others)

    def div(self, *others: Any) -> Expression:
        """Quotient of numbers."""
        return self._call("div", *others)

    def mod(self, other: Any) -> Expression:
        """The remainder of a division of integers, with the sign of this one."""
        return self._call("mod", other)

    def abs(self) -> Expression:
        """The number without its sign."""
        return self._call("abs")

    def floor(self) -> Expression:
        """The integer below."""
        return self._call("floor")

    def ceil(self) -> Expression:
        """The integer above."""
        return self._call("ceil")

    def round(self, digits: object = None) -> Expression:
        """The nearest integer; halves away from zero. There is no rounding to digits: `(row["a"] * 100).round() / 100`."""
        return self.__round__(digits)

    def bit_and(self, *others: Any) -> Expression:
        """The bits that all have."""
        return self._call("bit_and", *others)

    def bit_or(self, *others: Any) -> Expression:
        """The bits that any has."""
        return self._call("bit_or", *others)

    def bit_xor(self, *others: Any) -> Expression:
        """The bits that an odd number of them have."""
        return self._call("bit_xor", *others)

    def bit_not(self) -> Expression:
        """The bits that this does not have."""
        return self._call("bit_not")

    def bit_sal(self, places: Any) -> Expression:
        """Shifted to the left."""
        return self._call("bit_sal", places)

    def bit_sar(self, places: Any) -> Expression:
        """Shifted to the right."""
        return self._call("bit_sar", places)

    # ----- strings

    def match(self, pattern: Any) -> Expression:
        """The first match of a regular expression as an object, or null. Its cost is bounded: see `pattern`."""
        return self._call("match", pattern)

    def split(self, *arguments: Any) -> Expression:
        """The parts between separators (spaces, unless given); the second argument is the greatest number of cuts."""
        return self._call("split", *arguments)

    def startswith(self, prefix: Any) -> Expression:
        """True if this is a text that begins with `prefix`. An index of this finds the documents."""
        return self._call("startswith", _check_text("startswith", prefix))

    def endswith(self, suffix: Any) -> Expression:
        """True if this is a text that ends with `suffix`."""
        return self._call("endswith", _check_text("endswith", suffix))

    def upper(self) -> Expression:
        """The string with A to Z for a to z; other letters stay."""
        return self._call("upcase")

    def lower(self) -> Expression:
        """The string with a to z for A to Z; other letters stay."""
        return self._call("downcase")

    def upcase(self) -> Expression:
        """ReQL's name of `upper`."""
        return self._call("upcase")

    def downcase(self) -> Expression:
        """ReQL's name of `lower`."""
        return self._call("downcase")

    # ----- types

    def type_of(self) -> Expression:
        """ReQL's name of the type."""
        return self._call("type_of")

    def coerce_to(self, type_name: Any) -> Expression:
        """The value as another type: "string", "number", "bool", "array", "object" or "binary"."""
        return self._call("coerce_to", type_name)

    def to_json_string(self) -> Expression:
        """The value as JSON."""
        return self._call("to_json_string")

    # ----- times

    def in_timezone(self, zone: Any) -> Expression:
        """The same moment elsewhere: `+hh:mm`."""
        return self._call("in_timezone", zone)

    def timezone(self) -> Expression:
        """The time's zone."""
        return self._call("timezone")

    def during(self, start: Any, end: Any, **options: Any) -> Expression:
        """True from `start` on and before `end`; `left_bound` and `right_bound` may be `open` or `closed`."""
        return self._call("during", start, end, **options)

    def date(self) -> Expression:
        """The midnight before."""
        return self._call("date")

    def time_of_day(self) -> Expression:
        """Seconds since midnight."""
        return self._call("time_of_day")

    def year(self) -> Expression:
        """The year."""
        return self._call("year")

    def month(self) -> Expression:
        """The month, from 1."""
        return self._call("month")

    def day(self) -> Expression:
        """The day of the month."""
        return self._call("day")

    def day_of_week(self) -> Expression:
        """The day of the week; Monday is 1."""
        return self._call("day_of_week")

    def day_of_year(self) -> Expression:
        """The day of the year, from 1."""
        return self._call("day_of_year")

    def hours(self) -> Expression:
        """The hour."""
        return self._call("hours")

    def minutes(self) -> Expression:
        """The minute."""
        return self._call("minutes")

    def seconds(self) -> Expression:
        """The seconds, with milliseconds."""
        return self._call("seconds")

    def to_iso8601(self) -> Expression:
        """The time as a string."""
        return self._call("to_iso8601")

    def to_epoch_time(self) -> Expression:
        """Seconds since 1970."""
        return self._call("to_epoch_time")

    # ----- objects

    def __getitem__(self, place: Any) -> Expression:
        """`[name]` a field, `[number]` an element, `[start:stop]` a part."""
        if not isinstance(place, slice):
            is_field = self is row and type(place) is str
            return field_of_row(place) if is_field else call("bracket", self, place)
        if place.step is not None:
            raise QueryError("an expression's slice has no step")
        start = 0 if place.start is None else place.start
        return self._call("slice", start) if place.stop is None else self._call("slice", start, place.stop)

    def get_field(self, name: Any) -> Expression:
        """The field of that name; of an array, of each element that has it."""
        return self._call("get_field", name)

    def has_fields(self, *paths: Any) -> Expression:
        """True if all are there and not null: `"a"`, `{"a": "b"}`, `{"a": {"b": True}}`. Of an array, a filter."""
        return self._call("has_fields", *paths)

    def with_fields(self, *paths: Any) -> Expression:
        """The elements that have those fields, with those only."""
        return self._call("with_fields", *paths)

    def pluck(self, *paths: Any) -> Expression:
        """The object with those fields only."""
        return self._call("pluck", *paths)

    def without(self, *paths: Any) -> Expression:
        """The object without those fields."""
        return self._call("without", *paths)

    def merge(self, *patches: Any) -> Expression:
        """The object with others merged into it; a patch may be a function of it."""
        # `row.merge({"b": row["a"]})`: both are the document.
        build = self._call if isinstance(self.node, Row) else self._call_with_function
        return build("merge", *patches)

    def keys(self) -> Expression:
        """The names of the fields, sorted."""
        return self._call("keys")

    def values(self) -> Expression:
        """The values of the fields, by name."""
        return self._call("values")

    # ----- places and parts

    def nth(self, place: Any) -> Expression:
        """The element there; below zero counts from the end."""
        return self._call("nth", place)

    def slice(self, *places: Any, **options: Any) -> Expression:
        """The part from one place up to another; `left_bound` and `right_bound` may be `open` or `closed`."""
        return self._call("slice", *places, **options)

    def limit(self, count: Any) -> Expression:
        """The first `count` elements."""
        return self._call("limit", count)

    def skip(self, count: Any) -> Expression:
        """All but the first `count` elements."""
        return self._call("skip", count)

    def append(self, value: Any) -> Expression:
        """With a value at the end."""
        return self._call("append", value)

    def prepend(self, value: Any) -> Expression:
        """With a value at the start."""
        return self._call("prepend", value)

    def insert_at(self, place: Any, value: Any) -> Expression:
        """With a value before that place."""
        return self._call("insert_at", place, value)

    def splice_at(self, place: Any, values: Any) -> Expression:
        """With the elements of another array before that place."""
        return self._call("splice_at", place, values)

    def change_at(self, place: Any, value: Any) -> Expression:
        """With another value at that place."""
        return self._call("change_at", place, value)

    def delete_at(self, place: Any, *end: Any) -> Expression:
        """Without the element there, or without those from there up to `end`."""
        return self._call("delete_at", place, *end)

    # ----- sets

    def difference(self, others: Any) -> Expression:
        """Without the elements that are among the others."""
        return self._call("difference", others)

    def set_insert(self, value: Any) -> Expression:
        """Each element once, with the value among them."""
        return self._call("set_insert", value)

    def set_union(self, others: Any) -> Expression:
        """Each element of both once."""
        return self._call("set_union", others)

    def set_intersection(self, others: Any) -> Expression:
        """Each element that both have once."""
        return self._call("set_intersection", others)

    def set_difference(self, others: Any) -> Expression:
        """Each element that the others lack once."""
        return self._call("set_difference", others)

    def distinct(self) -> Expression:
        """Each element once, in order."""
        return self._call("distinct")

    # ----- each element

    def map(self, *arguments: Any) -> Expression:
        """A function's value for each element; with other arrays first, for elements side by side."""
        return self._call_with_function("map", *arguments)

    def concat_map(self, function: Any) -> Expression:
        """The elements of a function's values."""
        return self._call_with_function("concat_map", function)

    def filter(self, predicate: Any, default: Any = False) -> Expression:
        """The elements that pass a function, or have the fields of an object. `default` counts where something is missing."""
        function = pattern_function(self._function_argument(predicate).node)
        # As a function, because it is only evaluated where something is missing.
        otherwise = Function((), expr(default).node)
        return call("filter", self, Expression(function), default=Expression(otherwise))

    def contains(self, *values: Any) -> Expression:
        """Of an array: true if every value is an element, and every function true for one. `row` is the document here
        too. Of a text: true if it has every one of the texts in it."""
        return self._call("includes", *values)

    def offsets_of(self, value: Any) -> Expression:
        """The places of a value, or of elements for which a function is true."""
        return self._call_with_function("offsets_of", value)

    def is_empty(self) -> Expression:
        """True without elements."""
        return self._call("is_empty")

    def len(self) -> Expression:
        """The number of elements, of fields, of characters of a text or of bytes."""
        return self._call("count")

    def count(self, *value: Any) -> Expression:
        """The number of elements, or of the elements equal to a value or true for a function."""
        return self._call_with_function("count", *value)

    def union(self, *others: Any, **options: Any) -> Expression:
        """The elements of all arrays."""
        return self._call("union", *others, **options)

    def zip(self) -> Expression:
        """Joined pairs as one object each."""
        return self._call("zip")

    def inner_join(self, other: Any, function: Any) -> Expression:
        """Pairs of elements for which a function is true."""
        return self._call_with_function("inner_join", other, function)

    def outer_join(self, other: Any, function: Any) -> Expression:
        """The same, with the elements that have no partner."""
        return self._call_with_function("outer_join", other, function)

    def order_by(self, *keys: Any) -> Expression:
        """In order of fields or functions, each `asc` or `desc`."""
        arguments = [self._order_argument(key) for key in keys]
        descending = [isinstance(key, OrderKey) and key.descending for key in keys]
        return call("order_by", self, *arguments, **({"descending": descending} if any(descending) else {}))

    def sample(self, size: Any) -> Expression:
        """`size` elements by chance."""
        return self._call("sample", size)

    # ----- all elements

    def reduce(self, function: Any) -> Expression:
        """All elements combined into one by a function of two."""
        return self._call_with_function("reduce", function)

    def fold(self, base: Any, function: Any, **options: Any) -> Expression:
        """The result of a function of two over `base` and the elements; `emit` and `final_emit` as in ReQL."""
        return self._call("fold", base, function, **options)

    def sum(self, *by: Any) -> Expression:
        """The sum of the elements, or of a field or function of each."""
        return self._call_with_function("sum", *by)

    def avg(self, *by: Any) -> Expression:
        """The average of the elements, or of a field or function of each."""
        return self._call_with_function("avg", *by)

    def min(self, *by: Any) -> Expression:
        """The least element, or the one with the least field or function."""
        return self._call_with_function("min", *by)

    def max(self, *by: Any) -> Expression:
        """The greatest element, or the one with the greatest field or function."""
        return self._call_with_function("max", *by)

    def group(self, *by: Any, **options: Any) -> Expression:
        """The elements in groups by fields or functions; later operations apply to each group."""
        return call("group", self, *[self._function_argument(one) for one in by], **options)

    def ungroup(self) -> Expression:
        """The groups as an array of objects: `group` and `reduction`."""
        return self._call("ungroup")

    # ----- how the methods build

    def _call(self, operation: str, *arguments: Any, **options: Any) -> Expression:
        """An operation of the registry, applied to this value and the arguments."""
        return call(operation, self, *arguments, **options)

    def _call_with_function(self, operation: str, *arguments: Any, **options: Any) -> Expression:
        """The same, where the last argument may be a Python function of Expressions, or an expression of `row`."""
        if not arguments:
            return call(operation, self, **options)
        *others, last = arguments
        return call(operation, self, *others, self._function_argument(last), **options)

    def _function_argument(self, value: Any) -> Expression:
        """A function, or a value for it. An expression of `row` is a function, with the element as `row`."""
        other = expr(value)
        if isinstance(other.node, Function) or not other.node.uses_row:
            return other
        if self.node.uses_row:
            raise QueryError("Cannot use r.row in nested queries.  Use functions instead.")
        return Expression(_bind_element(other.node))

    def _order_argument(self, key: Any) -> Expression:
        """A key of `order_by`: an OrderKey, the name of a field, or a function."""
        if isinstance(key, OrderKey):
            # Its `row` is always an element: an order has no other document.
            return Expression(_bind_element(key.expression.node))
        if isinstance(key, str):
            check_no_sign(key)
        return self._function_argument(key)

    def _compare_by_sign(self, operation: str, sign: str, other: Any) -> Expression:
        """A comparison by operator, refused where precedence has surely gone wrong."""
        if self._is_infix or (isinstance(other, Expression) and other._is_infix):
            raise QueryError(
                f"Calling '{sign}' on result of infix bitwise operator: this is almost always an error of precedence. "
                "`a < b & b < c` means `a < (b & b) < c`; put parentheses around each comparison, or use the methods "
                "and_ and or_ if it is really meant."
            )
        return call(operation, self, other)


def _call_infix(operation: str, left: Any, right: Any) -> Expression:
    """`left & right` or `left | right`, remembered as such."""
    return Expression(call(operation, left, right).node, is_infix=True)


_fields: dict[str, Expression] = {}
# Field names that programs write down are few; generated names are not worth keeping.
_MOST_FIELDS = 1_024
_LONG_NAME = 64


def field_of_row(name: str) -> Expression:
    """`row[name]`: one shared object, so that it is built, and compiled, once."""
    field = _fields.get(name)
    if field is None:
        field = call("bracket", row, name)
        if len(_fields) < _MOST_FIELDS and len(name) < _LONG_NAME:
            _fields[name] = field
    return field


def call(operation: str, *arguments: Any, **options: Any) -> Expression:
    """An operation of the registry, applied to some values.

    Raises:
        QueryError: There is no such operation, or not with this number of arguments or with such an option.
    """
    nodes = tuple([node_of(argument) for argument in arguments])
    named = {name: node_of(value) for name, value in options.items()} if options else None
    return Expression(call_node(operation, nodes, named))


def call_node(operation: str, arguments: tuple[Node, ...], options: dict[str, Node] | None = None) -> Call:
    """A checked Call, for dialects."""
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
    return value if isinstance(value, Expression) else Expression(node_of(value))


def node_of(value: Any) -> Node:
    """The node of `expr(value)`. Errors as there."""
    if isinstance(value, Expression):
        return value.node
    if type(value) in _PLAIN:
        return constant(value)
    if callable(value) and not isinstance(value, type):
        return function_node(value)
    return _node(value, 0)


def _node(value: Any, depth: int) -> Node:
    if isinstance(value, Expression):
        return value.node
    if depth > _MAX_NESTED_VALUES:
        raise QueryError("Nesting depth limit exceeded.")
    if isinstance(value, Bound) or not has_expression(value, (Expression, Bound)):
        return constant(value)
    if isinstance(value, dict):
        # A copy, which no other thread can change any more.
        value = dict.copy(value)
        for name in value:
            if not isinstance(name, str):
                raise QueryError(f"Object keys must be strings (got {type(name).__name__}).")
        return call_node("make_obj", (), {name: _node(inner, depth + 1) for name, inner in value.items()})
    return call_node("make_array", tuple(_node(inner, depth + 1) for inner in value))


def _list_of(values: Any) -> Any:
    """The argument of `is_in`, as a list or an expression of one."""
    if isinstance(values, (Expression, list)):
        return values
    if isinstance(values, (set, frozenset)):
        # The order of a set differs from run to run, and equal conditions should be equal expressions.
        return sorted(values, key=key_bytes)
    if hasattr(type(values), "run"):
        raise QueryError(
            "is_in takes values and no selection: run the selection first, is_in(selection.run())"
        )
    if isinstance(values, (str, bytes, dict)) or not hasattr(values, "__iter__"):
        raise QueryError(f"is_in takes a list of values, not {format_value(values)}")
    return list(values)


def _check_text(method: str, text: Any) -> Any:
    if not isinstance(text, (str, Expression)):
        raise QueryError(f"{method} takes a text, not {format_value(text)}")
    return text


def has_expression(value: Any, kinds: tuple[type, ...] = (Expression,)) -> bool:
    """Whether it is an expression, or a dict or list with one somewhere inside."""
    pending, known = [value], set()
    while pending:
        one = pending.pop()
        if isinstance(one, kinds):
            return True
        # Each once: a dict may be inside itself, which is refused later, and sixty lists that hold each other twice
        # are 2**60.
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
            f"{format_value(function)} is not a value, nor a function whose parameters can be read"
        ) from None
    parameters = tuple(
        new_variable()
        for parameter in signature.parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    )
    body = function(*(Expression(Variable(parameter)) for parameter in parameters))
    return Function(parameters, expr(body).node)


def _bind_element(node: Node) -> Function:
    """An expression of `row`, as a function of an element."""
    variable = new_variable()
    return Function((variable,), replace_row(node, variable))


def pattern_function(node: Node) -> Function:
    """The argument of `filter`, as a function: an object is a pattern, of anything else the truth counts."""
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
