"""Methods of Expression: objects and their fields.

Rule of this file: a method names its operation and passes its arguments on; what they mean is with the operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reactdb.errors import QueryError
from reactdb.expression.build_base import Methods

if TYPE_CHECKING:
    from reactdb.expression.build import Expression


class ObjectMethods(Methods):
    """Methods for objects, and for arrays of objects."""

    __slots__ = ()

    def __getitem__(self, place: Any) -> Expression:
        """`[name]` a field, `[number]` an element, `[start:stop]` a part."""
        if not isinstance(place, slice):
            return self.field(place)
        if place.step is not None:
            raise QueryError("an expression's slice has no step")
        start = 0 if place.start is None else place.start
        return self.call("slice", start) if place.stop is None else self.call("slice", start, place.stop)

    def get_field(self, name: Any) -> Expression:
        """The field of that name; of an array, of each element that has it."""
        return self.call("get_field", name)

    def has_fields(self, *paths: Any) -> Expression:
        """True if all are there and not null: `"a"`, `{"a": "b"}`, `{"a": {"b": True}}`. Of an array, a filter."""
        return self.call("has_fields", *paths)

    def with_fields(self, *paths: Any) -> Expression:
        """The elements that have those fields, with those only."""
        return self.call("with_fields", *paths)

    def pluck(self, *paths: Any) -> Expression:
        """The object with those fields only."""
        return self.call("pluck", *paths)

    def without(self, *paths: Any) -> Expression:
        """The object without those fields."""
        return self.call("without", *paths)

    def merge(self, *patches: Any) -> Expression:
        """The object with others merged into it; a patch may be a function of it."""
        return self.merge_call(patches)

    def keys(self) -> Expression:
        """The names of the fields, sorted."""
        return self.call("keys")

    def values(self) -> Expression:
        """The values of the fields, by name."""
        return self.call("values")
