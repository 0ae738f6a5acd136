"""The values of terms besides datums: databases, tables, sequences, single documents, functions. The classes have ReQL's names.

    class             ReQL's type
    ----------------  ---------------------------------------------------------------------------------------
    Database          DB
    Sequence          TABLE, TABLE_SLICE, SELECTION<STREAM>, SELECTION<ARRAY>, STREAM, by its `kind`
    Single            SELECTION<OBJECT>: one document of a table, or null
    Function          FUNCTION
    Grouped           GROUPED_DATA
    anything else     a datum

Rule of this file: these classes only hold values; the handlers read, write and watch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from reactdb.dialects.rethinkdb.terms import Path
from reactdb.documents.steps import Operator
from reactdb.errors import MissingValue, QueryError, ReactDBError
from reactdb.expression.markers import Grouped
from reactdb.query import Query, Step
from reactdb.values.codec import pretty
from reactdb.values.collation import type_name

if TYPE_CHECKING:
    from reactdb.dialects.rethinkdb.streams import FeedPlan

TABLE, TABLE_SLICE, SELECTION, ARRAY_SELECTION, STREAM = (
    "TABLE", "TABLE_SLICE", "SELECTION", "ARRAY_SELECTION", "SEQUENCE",
)  # fmt: skip

_TYPES: Final = {
    TABLE: "TABLE",
    TABLE_SLICE: "TABLE_SLICE",
    SELECTION: "SELECTION<STREAM>",
    ARRAY_SELECTION: "SELECTION<ARRAY>",
    STREAM: "STREAM",
}
EAGER = "Cannot call `changes` on an eager stream."


@dataclass(frozen=True, slots=True)
class Database:
    name: str


@dataclass(frozen=True, slots=True)
class TableName:
    """A table's name as the driver gives it, and its name in the file."""

    database: str
    name: str

    @property
    def file_name(self) -> str:
        return file_name(self.database, self.name)

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"


def file_name(database: str, table: str) -> str:
    """The name of a table in the file: plain in `test`, the drivers' default; in other databases after the database's name."""
    return table if database == "test" else f"{database}.{table}"


# Creates an operator for one pass over elements.
MakeOperator = Callable[[], Operator]


@dataclass(frozen=True, slots=True)
class Sequence:
    """Elements that are read when they are needed.

    They have one of three origins: `query` (a native query), `source` (a function that returns an iterator), or `feed`.

    Attributes:
        kind: One of TABLE, TABLE_SLICE, SELECTION, ARRAY_SELECTION, STREAM.
        path: The path of its term.
        table: The table of the documents, so that they can be written; None if they are in no table.
        operators: The operators for the elements of a feed.
        refusal: Why `changes` is not possible: the message, and the path to blame (None: the path of `changes`).
        is_ordered: Whether an index orders it.
        is_limited: Whether it has a limit.
        is_endless: Whether it never ends without being a feed.
        origin: The term of the table from which this was selected.
        is_array: Whether it is really an array: without a table it becomes one (see `Evaluator.read_arrays`), and the driver gets
            a selection as one array, not as a cursor.
        members: The sequences of a union.
    """

    kind: str
    path: Path
    table: TableName | None = None
    query: Query | None = None
    source: Callable[[], Iterator[Any]] | None = None
    feed: FeedPlan | None = None
    operators: tuple[MakeOperator, ...] = ()
    refusal: tuple[str, Path | None] | None = None
    is_ordered: bool = False
    is_limited: bool = False
    is_endless: bool = False
    is_array: bool = False
    origin: Path = ()
    members: tuple[Sequence, ...] = field(default=())

    def then(self, step: Step, kind: str | None = None, **changes: Any) -> Sequence:
        """The sequence with one more step of the native query."""
        assert self.query is not None
        return replace(self, query=self.query.then(step), kind=kind or self.kind, **changes)

    def refuse_changes(self, sentence: str, path: Path | None = None) -> Sequence:
        """The sequence with an error for `changes`; an earlier reason is kept."""
        return self if self.refusal is not None else replace(self, refusal=(sentence, path))

    def through(self, operator: MakeOperator, read: Callable[[], Iterator[Any]]) -> Sequence:
        """The sequence with a step that native queries lack. `read` returns the elements of this sequence."""
        if self.feed is not None:
            return replace(self, kind=STREAM, operators=(*self.operators, operator))
        made = stream(
            lambda: operator().over(read_lazily(read)), self.path, self.refusal or (EAGER, self.path)
        )
        return replace(made, is_endless=self.is_endless, is_array=self.is_array)

    def select(self, operator: MakeOperator, read: Callable[[], Iterator[Any]]) -> Sequence:
        """As `through`, for a step that omits some elements, so that documents of a table can still be written."""
        sequence = self.through(operator, read)
        if self.table is None or self.kind == STREAM:
            return sequence
        return replace(sequence, kind=self.selection_kind, table=self.table)

    @property
    def selection_kind(self) -> str:
        """The kind of a selection from this sequence."""
        if self.kind == STREAM:
            return STREAM
        return ARRAY_SELECTION if self.is_array else SELECTION


def read_lazily(read: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """The elements of `read`. Its call is delayed, because it may compute a first element, and some steps need none."""
    yield from read()


def stream(
    source: Callable[[], Iterator[Any]], path: Path, refusal: tuple[str, Path | None] | None = None
) -> Sequence:
    return Sequence(STREAM, path, source=source, refusal=refusal or (EAGER, path))


def is_array(value: Any) -> bool:
    """Whether the value is an array, or a selection that is really an array; its derivatives are arrays too."""
    return isinstance(value, list) or (isinstance(value, Sequence) and value.is_array and value.feed is None)


@dataclass(frozen=True, slots=True)
class Single:
    """One document of a table.

    Attributes:
        query: The query for it: `get`, or an order with a limit of one.
        key: The bytes of its primary key; None if the query finds it each time.
        read: Returns the document, or None.
        error: The error to raise when it is used.
    """

    table: TableName
    path: Path
    query: Query
    read: Callable[[], Any]
    key: bytes | None = None
    is_first_of_order: bool = False
    error: ReactDBError | None = None

    def document(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.read()


# ---------------------------------------------------------------------------------------------------------------
# Names


def type_of(value: Any) -> str:
    """The type's name as `type_of` gives it."""
    if isinstance(value, Database):
        return "DB"
    if isinstance(value, Sequence):
        return _TYPES[value.kind]
    if isinstance(value, Single):
        return "SELECTION<OBJECT>" if value.document() is not None else "NULL"
    if isinstance(value, Grouped):
        return "GROUPED_DATA"
    if callable(value):
        return "FUNCTION"
    return type_name(value)


def literal_type(value: Any) -> str:
    """The type's name as error messages give it."""
    if isinstance(value, Database):
        return "DATABASE"
    if isinstance(value, Sequence):
        return SELECTION if value.kind == ARRAY_SELECTION else value.kind
    if isinstance(value, Single):
        return "SINGLE_SELECTION"
    if isinstance(value, Grouped):
        return "GROUPED_DATA"
    return "FUNCTION" if callable(value) else "DATUM"


def format_value(value: Any) -> str:
    """The value as error messages print it."""
    if isinstance(value, Database):
        return f'db("{value.name}")'
    if isinstance(value, Sequence):
        if value.kind == TABLE and value.table is not None:
            return f'table("{value.table.name}")'
        return "VALUE SEQUENCE" if value.table is None else f"SELECTION ON table({value.table.name})"
    if isinstance(value, Single):
        return pretty(value.document())
    if isinstance(value, Grouped):
        return "VALUE GROUPED_DATA"
    return "VALUE FUNCTION" if callable(value) else cut(pretty(value))


def cut(text: str, limit: int = 5_000) -> str:
    """The text of a value, cut to RethinkDB's length for error messages."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def expected(wanted: str, value: Any) -> ReactDBError:
    """The error for a value of the wrong type; for null, it is the error for a missing value."""
    is_null = value is None
    sentence = f"Expected type {wanted} but found {literal_type(value)}:\n{format_value(value)}"
    return (MissingValue if is_null else QueryError)(sentence)


def expected_kind(wanted: str, value: Any) -> ReactDBError:
    """The same for datums, with the names of datum types."""
    return (MissingValue if value is None else QueryError)(
        f"Expected type {wanted} but found {type_name(value)}."
    )


def stray_literal() -> QueryError:
    return QueryError(
        "Stray literal keyword found: literal is only legal inside of the object passed to merge or update and cannot nest "
        "inside other literals."
    )
