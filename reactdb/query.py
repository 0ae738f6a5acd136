"""Query: a selection as a frozen value. It reads nothing and knows no database.

A query is a table and the steps after it, in the order in which they were written:

    games.filter(row["score"] > 10).order_by(desc("score")).limit(3)
    Query("games", (Filter(...), OrderBy(...), Limit(3)))

Rule of this file: steps are data. `steps` defines the effect of a step on an element, by the step's class: a new step
here is refused everywhere until it is defined there too.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar, Literal

from reactdb.change import TableReference
from reactdb.errors import QueryError
from reactdb.expression import Expression, OrderKey, Predicate, row
from reactdb.values.value import Value

Bound = Literal["open", "closed"]

SINGLE = "Expected type SEQUENCE but found SINGLE_SELECTION."

# The table of a query over every table of the database: `db.changes()`. No table can have this name.
ALL_TABLES = "*"


class Step(Value):
    """One step of a query. See the subclasses.

    A step equals another with surely the same effect.

    Attributes:
        meaning: The names of the fields that decide the effect. The others show how it was written.
    """

    __slots__ = ()
    meaning: ClassVar[tuple[str, ...]] = ()

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """Equal for steps that surely do the same: the class, then as many values as each step of that class has."""
        return (type(self), *[_key_of(getattr(self, name)) for name in self.meaning])

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Step) and self.identity == other.identity)

    def __hash__(self) -> int:
        return hash(self.identity)


def _key_of(value: Any) -> Hashable:
    if isinstance(value, (Expression, Predicate, OrderKey)):
        # They are equal where they surely agree. To compare two expressions with == would build a third.
        value = value.key
    elif isinstance(value, tuple):
        value = tuple(map(_key_of, value))
    try:
        hash(value)
    except TypeError:
        # A callable that cannot be hashed does the same as nothing else.
        return object()
    return value  # type: ignore[no-any-return]


class Get(Step):
    """One document by primary key. `key` is the value, `key_bytes` its collation bytes."""

    __slots__ = ("key", "key_bytes")
    meaning = ("key_bytes",)

    def __init__(self, key: Any, key_bytes: bytes) -> None:
        self.key = key
        self.key_bytes = key_bytes


class GetAll(Step):
    """Documents by keys of the primary key (index None) or of an index. A repeated key counts twice."""

    __slots__ = ("index", "keys", "keys_bytes")
    meaning = ("keys_bytes", "index")

    def __init__(self, keys: tuple[Any, ...], keys_bytes: tuple[bytes, ...], index: str | None) -> None:
        self.keys = keys
        self.keys_bytes = keys_bytes
        self.index = index


class Between(Step):
    """Documents in a range of the primary key (index None) or of an index: start <= key bytes < stop."""

    __slots__ = ("index", "left_bound", "lower", "right_bound", "start", "stop", "upper")
    meaning = ("start", "stop", "index")

    def __init__(
        self,
        lower: Any,
        upper: Any,
        index: str | None,
        left_bound: Bound,
        right_bound: Bound,
        start: bytes,
        stop: bytes,
    ) -> None:
        self.lower = lower
        self.upper = upper
        self.index = index
        self.left_bound = left_bound
        self.right_bound = right_bound
        self.start = start
        self.stop = stop


class Filter(Step):
    """Only documents that pass."""

    __slots__ = ("predicate",)
    meaning = __slots__

    def __init__(self, predicate: Predicate) -> None:
        self.predicate = predicate


class OrderBy(Step):
    """Order by an index, then by keys; without both, by the primary key. `keys` break ties of the index."""

    __slots__ = ("index", "index_descending", "keys")
    meaning = ("keys", "index", "index_descending")

    def __init__(self, keys: tuple[OrderKey, ...], index: str | None, index_descending: bool = False) -> None:
        self.keys = keys
        self.index = index
        self.index_descending = index_descending


class Limit(Step):
    """Only the first `count` documents."""

    __slots__ = ("count",)
    meaning = __slots__

    def __init__(self, count: int) -> None:
        self.count = count


class Skip(Step):
    """All but the first `count` documents."""

    __slots__ = ("count",)
    meaning = __slots__

    def __init__(self, count: int) -> None:
        self.count = count


class Nth(Step):
    """The one element at a place, from 0; below zero it counts from the end. An element that is not there is an error."""

    __slots__ = ("place",)
    meaning = __slots__

    def __init__(self, place: int) -> None:
        self.place = place


class Sample(Step):
    """`count` elements, chosen at random and in a random order, none of them twice; all elements if there are fewer."""

    __slots__ = ("count",)
    meaning = __slots__

    def __init__(self, count: int) -> None:
        self.count = count


class Map(Step):
    """Each document becomes a value: of an expression, or of a callable on a document."""

    __slots__ = ("function", "name")
    meaning = ("function",)

    def __init__(self, function: Any, name: str = "map") -> None:
        self.function = function
        self.name = name


class ConcatMap(Step):
    """Each document becomes the elements of a list."""

    __slots__ = ("function",)
    meaning = __slots__

    def __init__(self, function: Any) -> None:
        self.function = function


class HasFields(Step):
    """Only documents that have the fields, not null."""

    __slots__ = ("predicate",)
    meaning = __slots__

    def __init__(self, predicate: Predicate) -> None:
        self.predicate = predicate


class Union(Step):
    """The documents so far, then those of other queries."""

    __slots__ = ("others",)
    meaning = __slots__

    def __init__(self, others: tuple[Query, ...]) -> None:
        self.others = others


class Distinct(Step):
    """Different values only, in the collation's order. `expression` is None for whole documents."""

    __slots__ = ("expression",)
    meaning: ClassVar[tuple[str, ...]] = __slots__

    def __init__(self, expression: Expression | None) -> None:
        self.expression = expression


class DistinctOfIndex(Distinct):
    """The different values of an index."""

    __slots__ = ("index",)
    meaning = __slots__

    def __init__(self, index: str) -> None:
        super().__init__(None)
        self.index = index


class Group(Step):
    """Groups by the value of an expression; an aggregate may follow."""

    __slots__ = ("expression",)
    meaning: ClassVar[tuple[str, ...]] = __slots__

    def __init__(self, expression: Expression) -> None:
        self.expression = expression


class GroupOfIndex(Group):
    """Groups by the value of an index."""

    __slots__ = ("index",)
    meaning = __slots__

    def __init__(self, index: str) -> None:
        super().__init__(row)
        self.index = index


Aggregation = Literal["count", "sum", "avg", "min", "max", "aggregate"]


class Aggregate(Step):
    """One value from all documents. min and max return the document, as ReQL does; `index` makes them a limit of
    one."""

    __slots__ = ("expression", "index", "kind")
    meaning: ClassVar[tuple[str, ...]] = ("kind", "expression", "index")

    def __init__(self, kind: Aggregation, expression: Any = None, index: str | None = None) -> None:
        self.kind = kind
        self.expression = expression
        self.index = index


class Aggregates(Aggregate):
    """Several aggregates at once: one dict of their values, by their names."""

    __slots__ = ("parts",)
    meaning = ("parts",)

    def __init__(self, parts: tuple[tuple[str, Aggregate], ...]) -> None:
        super().__init__("aggregate")
        self.parts = parts


class Query(Value):
    """A table and the steps after it."""

    __slots__ = ("steps", "table")

    def __init__(self, table: TableReference, steps: tuple[Step, ...] = ()) -> None:
        # A hidden table is named by its owner alone.
        self.table: str = table  # type: ignore[assignment]
        self.steps = steps

    def then(self, step: Step) -> Query:
        """This query with one more step.

        Raises:
            QueryError: It cannot follow the earlier steps. Reading and watching need not check that again.
        """
        if self.is_list_of_groups:
            is_of_table = isinstance(step, (Between, Union)) or getattr(step, "index", None) is not None
            if is_of_table:
                raise QueryError("Expected type TABLE_SLICE but found SEQUENCE.")
        elif self.steps and not (self.is_nth and isinstance(step, (Filter, HasFields, Map))):
            self.check_is_sequence()
        if isinstance(step, Union):
            for query in (self, *step.others):
                if query.is_point:
                    raise QueryError("Expected type SEQUENCE but found SINGLE_SELECTION.")
                query.check_is_sequence()
        elif isinstance(step, Group) and any(isinstance(before, Group) for before in self.steps):
            raise QueryError("Cannot call `group` on the output of `group`.")
        return Query(self.table, (*self.steps, step))

    def in_index_order(self, order: OrderBy) -> Query:
        """This query in the order of an index. The order goes before filters: that gives the same documents in the same
        order, and the index is walked instead of sorting what passes.

        Raises:
            QueryError: As `then`.
        """
        place = len(self.steps)
        while place and isinstance(self.steps[place - 1], (Filter, HasFields)):
            place -= 1
        if place == len(self.steps) or not (
            place == 0 or (place == 1 and isinstance(self.steps[0], Between))
        ):
            return self.then(order)
        return Query(self.table, (*self.steps[:place], order, *self.steps[place:]))

    def check_is_sequence(self) -> None:
        """Raises: QueryError: An aggregate, or `nth`, has made one value of it."""
        last = self.steps[-1] if self.steps else None
        if self.is_nth:
            raise QueryError(SINGLE)
        if isinstance(last, Aggregate):
            kind = "NUMBER" if last.kind in ("count", "sum", "avg") else "OBJECT"
            raise QueryError(f"Cannot convert {kind} to SEQUENCE")

    @property
    def is_list_of_groups(self) -> bool:
        """An aggregate of groups ends it, so its answer is a list of dicts with `group` and `reduction`."""
        return self._end_of_groups == len(self.steps)

    @property
    def steps_on_groups(self) -> tuple[Step, ...]:
        """The steps after the aggregate of groups. They are applied to the list of groups."""
        end = self._end_of_groups
        return () if end is None else self.steps[end:]

    @property
    def without_steps_on_groups(self) -> Query:
        """The query up to the aggregate of groups."""
        tail = self.steps_on_groups
        return Query(self.table, self.steps[: -len(tail)]) if tail else self

    @property
    def _end_of_groups(self) -> int | None:
        """The place after the first aggregate that follows a group; None where there is none."""
        if len(self.steps) < 2:
            # Most queries.
            return None
        is_grouped = False
        for place, step in enumerate(self.steps, 1):
            if is_grouped and isinstance(step, Aggregate):
                return place
            is_grouped = is_grouped or isinstance(step, Group)
        return None

    @property
    def is_nth(self) -> bool:
        """Whether its result is one element of a sequence, or of each group."""
        return any(type(step) is Nth for step in self.steps)

    @property
    def is_grouped(self) -> bool:
        """Whether its result is a list of groups."""
        return any(isinstance(step, Group) for step in self.steps)

    @property
    def is_point(self) -> bool:
        """True for a query of one document: its result is a document or None, not a list."""
        return bool(self.steps) and isinstance(self.steps[0], Get)

    def callables(self) -> list[str]:
        """The sentence of `explain()` about predicates that are the user's functions and no expressions."""
        filters = [step.predicate for step in self.steps if isinstance(step, Filter)]
        return [predicate.explain() for predicate in filters if predicate.node is None]
