"""Query: what to select, as a frozen value. It reads nothing and knows no database.

A query is a table and the steps after it, in the order in which they were written:

    games.filter(row["score"] > 10).order_by(desc("score")).limit(3)
    Query("games", (Filter(...), OrderBy(...), Limit(3)))

Rule of this file: steps are data. What a step does to documents is in `reading`, what it does to changes in `feeds`;
both dispatch on the step's class, so a step that is added here is refused there until it is taught.
"""

from __future__ import annotations

from typing import Any, Literal

from reactdb.errors import QueryError
from reactdb.expression import Expression, OrderKey, Predicate
from reactdb.records import record

Bound = Literal["open", "closed"]

# The table of a query over every table of the database: `db.changes()`. No table can have this name.
ALL_TABLES = "*"


_set = object.__setattr__


class Step:
    """One step of a query. See the subclasses."""

    __slots__ = ()


@record
class Get(Step):
    """One document by primary key. `key` is the value, `key_bytes` its collation bytes."""

    key: Any
    key_bytes: bytes

    def __init__(self, key: Any, key_bytes: bytes) -> None:
        _set(self, "key", key)
        _set(self, "key_bytes", key_bytes)


@record
class GetAll(Step):
    """Documents by keys of the primary key (index None) or of an index. A key that is listed twice counts twice."""

    keys: tuple[Any, ...]
    keys_bytes: tuple[bytes, ...]
    index: str | None


@record
class Between(Step):
    """Documents in a range of the primary key (index None) or of an index: start <= key bytes < stop."""

    lower: Any
    upper: Any
    index: str | None
    left_bound: Bound
    right_bound: Bound
    start: bytes
    stop: bytes


@record
class Filter(Step):
    predicate: Predicate


@record
class OrderBy(Step):
    """Order by an index, then by keys; without both, by the primary key. `keys` break ties of the index."""

    keys: tuple[OrderKey, ...]
    index: str | None
    index_descending: bool = False


@record
class Limit(Step):
    count: int


@record
class Skip(Step):
    count: int


@record
class Map(Step):
    """Each document becomes a value: of an expression, or of a callable on a document."""

    function: Any
    name: str = "map"


@record
class ConcatMap(Step):
    """Each document becomes the elements of a list."""

    function: Any


@record
class HasFields(Step):
    """Only documents that have the fields, not null."""

    predicate: Predicate


@record
class Union(Step):
    """The documents so far, then those of other queries."""

    others: tuple[Query, ...]


@record
class Distinct(Step):
    """Different values only, in the collation's order. `field` is an expression or None for whole documents."""

    expression: Expression | None


@record
class Group(Step):
    """Groups by the value of an expression; an aggregate may follow."""

    expression: Expression


Aggregation = Literal["count", "sum", "avg", "min", "max"]


@record
class Aggregate(Step):
    """One value from all documents. min and max give the document, as ReQL does; `index` makes them a limit of one."""

    kind: Aggregation
    expression: Any = None
    index: str | None = None


@record
class Query:
    table: str
    steps: tuple[Step, ...] = ()

    def __init__(self, table: str, steps: tuple[Step, ...] = ()) -> None:
        _set(self, "table", table)
        _set(self, "steps", steps)

    def then(self, step: Step) -> Query:
        """This query with one more step.

        Raises:
            QueryError: What is there has no use for it. Nobody who reads or watches a query has to look for that again.
        """
        if self.steps:
            self.check_is_sequence()
        if isinstance(step, Union):
            for query in (self, *step.others):
                if query.is_point:
                    raise QueryError("Expected type SEQUENCE but found SINGLE_SELECTION.")
                query.check_is_sequence()
        elif isinstance(step, Group) and any(isinstance(before, Group) for before in self.steps):
            raise QueryError("Cannot call `group` on the output of `group`.")
        return Query(self.table, (*self.steps, step))

    def check_is_sequence(self) -> None:
        """Raises: QueryError: An aggregate has made one value of it."""
        last = self.steps[-1] if self.steps else None
        if isinstance(last, Aggregate):
            kind = "OBJECT" if last.kind in ("min", "max") else "NUMBER"
            raise QueryError(f"Cannot convert {kind} to SEQUENCE")

    @property
    def is_point(self) -> bool:
        """True for a query of one document: it gives a document or None, not a list."""
        return bool(self.steps) and isinstance(self.steps[0], Get)
