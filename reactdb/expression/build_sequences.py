"""Methods of Expression: arrays.

Where a function is taken, it is a Python function of Expressions, `lambda tag: tag.upcase()`, which is called once to
see what it builds; or an expression of `row`, which is then the element.

Rule of this file: a method names its operation and passes its arguments on; what they mean is with the operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reactdb.expression.build_base import Methods

if TYPE_CHECKING:
    from reactdb.expression.build import Expression


class SequenceMethods(Methods):
    """Methods for arrays."""

    __slots__ = ()

    # ----- places and parts

    def nth(self, place: Any) -> Expression:
        """The element there; below zero counts from the end."""
        return self.call("nth", place)

    def slice(self, *places: Any, **options: Any) -> Expression:
        """The part from one place up to another; `left_bound` and `right_bound` may be `open` or `closed`."""
        return self.call("slice", *places, **options)

    def limit(self, count: Any) -> Expression:
        """The first so many elements."""
        return self.call("limit", count)

    def skip(self, count: Any) -> Expression:
        """All but the first so many elements."""
        return self.call("skip", count)

    def append(self, value: Any) -> Expression:
        """With a value at the end."""
        return self.call("append", value)

    def prepend(self, value: Any) -> Expression:
        """With a value at the start."""
        return self.call("prepend", value)

    def insert_at(self, place: Any, value: Any) -> Expression:
        """With a value before that place."""
        return self.call("insert_at", place, value)

    def splice_at(self, place: Any, values: Any) -> Expression:
        """With the elements of another array before that place."""
        return self.call("splice_at", place, values)

    def change_at(self, place: Any, value: Any) -> Expression:
        """With another value at that place."""
        return self.call("change_at", place, value)

    def delete_at(self, place: Any, *end: Any) -> Expression:
        """Without the element there, or without those from there up to `end`."""
        return self.call("delete_at", place, *end)

    # ----- sets

    def difference(self, others: Any) -> Expression:
        """Without the elements that are among the others."""
        return self.call("difference", others)

    def set_insert(self, value: Any) -> Expression:
        """Each element once, with the value among them."""
        return self.call("set_insert", value)

    def set_union(self, others: Any) -> Expression:
        """Each element of both once."""
        return self.call("set_union", others)

    def set_intersection(self, others: Any) -> Expression:
        """Each element that both have once."""
        return self.call("set_intersection", others)

    def set_difference(self, others: Any) -> Expression:
        """Each element that the others lack once."""
        return self.call("set_difference", others)

    def distinct(self) -> Expression:
        """Each element once, in order."""
        return self.call("distinct")

    # ----- each element

    def map(self, *arguments: Any) -> Expression:
        """A function's value for each element; with other arrays first, for elements side by side."""
        return self.call_with_function("map", *arguments)

    def concat_map(self, function: Any) -> Expression:
        """The elements of a function's values."""
        return self.call_with_function("concat_map", function)

    def filter(self, predicate: Any, default: Any = False) -> Expression:
        """The elements that pass a function, or have the fields of an object. `default` counts where something is missing."""
        return self.filter_call(predicate, default)

    def contains(self, *values: Any) -> Expression:
        """True if every value is an element, and every function true for one. `row` is the document here too."""
        return self.call("contains", *values)

    def offsets_of(self, value: Any) -> Expression:
        """The places of a value, or of what passes a function."""
        return self.call_with_function("offsets_of", value)

    def is_empty(self) -> Expression:
        """True without elements."""
        return self.call("is_empty")

    def count(self, *value: Any) -> Expression:
        """The number of elements, or of those that equal a value or pass a function."""
        return self.call_with_function("count", *value)

    def union(self, *others: Any, **options: Any) -> Expression:
        """The elements of all arrays."""
        return self.call("union", *others, **options)

    def zip(self) -> Expression:
        """Joined pairs as one object each."""
        return self.call("zip")

    def inner_join(self, other: Any, function: Any) -> Expression:
        """Pairs of elements for which a function is true."""
        return self.call_with_function("inner_join", other, function)

    def outer_join(self, other: Any, function: Any) -> Expression:
        """The same, with the elements that have no partner."""
        return self.call_with_function("outer_join", other, function)

    def order_by(self, *keys: Any) -> Expression:
        """In order of fields or functions, each `asc` or `desc`."""
        return self.order_call(keys)

    def sample(self, size: Any) -> Expression:
        """So many elements by chance."""
        return self.call("sample", size)

    # ----- all elements

    def reduce(self, function: Any) -> Expression:
        """All elements made one by a function of two."""
        return self.call_with_function("reduce", function)

    def fold(self, base: Any, function: Any, **options: Any) -> Expression:
        """What a function of two makes of `base` and the elements; `emit` and `final_emit` as in ReQL."""
        return self.call("fold", base, function, **options)

    def sum(self, *by: Any) -> Expression:
        """The sum of the elements, or of a field or function of each."""
        return self.call_with_function("sum", *by)

    def avg(self, *by: Any) -> Expression:
        """The average of the elements, or of a field or function of each."""
        return self.call_with_function("avg", *by)

    def min(self, *by: Any) -> Expression:
        """The least element, or the one with the least field or function."""
        return self.call_with_function("min", *by)

    def max(self, *by: Any) -> Expression:
        """The greatest element, or the one with the greatest field or function."""
        return self.call_with_function("max", *by)

    def group(self, *by: Any, **options: Any) -> Expression:
        """The elements in groups by fields or functions; what follows is done to each group."""
        return self.grouped_call(by, options)

    def ungroup(self) -> Expression:
        """The groups as an array of objects: `group` and `reduction`."""
        return self.call("ungroup")
