"""The evaluator: computes the value of a term.

Each file of terms registers a handler under a term's name. A handler gets a TermCall: the term, the values of its arguments, and
methods that check and convert them. A term without a handler is reactdb's operation of the same name.

    strict   the arguments are evaluated first, from the left; if the first is grouped data, the handler runs once for each group
    lazy     the handler evaluates only the arguments that it needs

Rule of this file: it knows no single term. An error is marked once, with the path of the innermost term around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from reactdb.database import Database as NativeDatabase
from reactdb.dialects.rethinkdb.errors import CompileError, locate, with_path
from reactdb.dialects.rethinkdb.functions import Function
from reactdb.dialects.rethinkdb.keys import shown_documents
from reactdb.dialects.rethinkdb.terms import ARGS, DATUM, FUNC, MAKE_ARRAY, MAKE_OBJ, VAR, Path, Term
from reactdb.dialects.rethinkdb.values import (
    STREAM,
    Database,
    Sequence,
    Single,
    TableName,
    expected,
    expected_kind,
)
from reactdb.dialects.rethinkdb.wire import read_number
from reactdb.errors import MissingValue, QueryError, ReactDBError
from reactdb.expression import OPERATIONS
from reactdb.expression.checks import check_array, each, integer, is_number, truth
from reactdb.expression.markers import Grouped
from reactdb.expression.operations.times import now
from reactdb.expression.registry import arity_sentence
from reactdb.session import session_of
from reactdb.values.collation import type_name

if TYPE_CHECKING:
    from reactdb.dialects.rethinkdb.jobs import Job

Scope = Mapping[int, Any]
Handler = Callable[["TermCall"], Any]

TERMINAL: Final = (
    "Cannot call a terminal (`reduce`, `count`, etc.) on an infinite stream (such as a changefeed)."
)
ENDLESS: Final = "Cannot use an infinite stream with an aggregation function (`reduce`, `count`, etc.) or coerce it to an array."
DEFAULT_ARRAY_LIMIT: Final = 100_000
UNCOUNTED: Final[AbstractContextManager[None]] = nullcontext()


@dataclass(frozen=True, slots=True)
class Registered:
    function: Handler
    is_lazy: bool
    takes_groups: bool


HANDLERS: Final[dict[str, Registered]] = {}


def handles(name: str, *, lazy: bool = False, takes_groups: bool = False) -> Callable[[Handler], Handler]:
    """Register the function below as the meaning of a term.

    `lazy`: the handler evaluates its arguments itself. `takes_groups`: it gets grouped data as a whole.
    """

    def register(function: Handler) -> Handler:
        assert name not in HANDLERS, name
        HANDLERS[name] = Registered(function, lazy, takes_groups or lazy)
        return function

    return register


@dataclass(slots=True)
class RunOptions:
    """The options of `run`.

    Attributes:
        database: The database of tables without `db`.
        array_limit: The most elements of an array.
        queue_size: The queue size of feeds without an option of their own; None for the default.
        max_batch_rows: The most items of one response.
        profile: Whether the answer has a profile.
    """

    database: str = "test"
    array_limit: int = DEFAULT_ARRAY_LIMIT
    queue_size: Any = None
    max_batch_rows: int | None = None
    durability: str | None = None
    read_mode: str | None = None
    profile: bool = False
    others: dict[str, Any] = field(default_factory=dict)


class Evaluator:
    """One query on one database. One thread at a time."""

    def __init__(self, database: NativeDatabase, options: RunOptions) -> None:
        self.native = database
        self.options = options
        # The query's entry in the table of jobs; None if it has none.
        self.job: Job | None = None
        self._now: datetime | None = None

    def task(self, _description: str) -> AbstractContextManager[None]:
        """A context around a part of the work. The Profiler overrides it."""
        return UNCOUNTED

    @property
    def now(self) -> datetime:
        """The moment of the query, the same for each `now`."""
        if self._now is None:
            self._now = session_of(self.native).timed(now)()
        return self._now

    # -----------------------------------------------------------------------------------------------------------
    # Evaluating

    def run(self, term: Term, scope: Scope) -> Any:
        """The term's value, of any type.

        Raises:
            ReactDBError: Marked with the path of the term at fault.
        """
        kind = term.type
        if kind is DATUM:
            return term.value
        if kind is VAR:
            return scope[term.parameters[0]]
        if kind is FUNC:
            return Function(self, term, scope)
        try:
            if term.has_args:
                term = self.spread(term, scope)
            if kind is MAKE_OBJ:
                return {name: self.datum(option, scope) for name, option in term.options.items()}
            if kind is MAKE_ARRAY:
                return check_array(
                    [self.as_datum(value, path) for value, path in self.arguments(term, scope)]
                )
            return self._call(term, scope)
        except (ReactDBError, RecursionError) as error:
            locate(error, term.path)
            raise

    def _call(self, term: Term, scope: Scope) -> Any:
        registered = HANDLERS.get(term.type.name)
        if registered is None:
            return self._operation(term, scope)
        if registered.is_lazy:
            return registered.function(TermCall(self, term, scope, [], []))
        pairs = self.arguments(term, scope)
        values, paths = [value for value, _ in pairs], [path for _, path in pairs]
        if values and type(values[0]) is Grouped and not registered.takes_groups:
            rest = values[1:]
            return Grouped(
                [
                    (
                        group,
                        self._in_group(
                            registered.function(TermCall(self, term, scope, [value, *rest], paths))
                        ),
                    )
                    for group, value in values[0].groups
                ]
            )
        return self.read_arrays(registered.function(TermCall(self, term, scope, values, paths)))

    def read_arrays(self, value: Any) -> Any:
        """The value; a sequence that is really an array is read, such as an unindexed order, or a sample that is no longer a
        selection of documents."""
        if type(value) is Sequence and value.kind == STREAM and value.is_array and value.feed is None:
            elements = list(islice(self.read(value), self.options.array_limit + 1))
            return check_array(elements) if len(elements) > self.options.array_limit else elements
        return value

    def _in_group(self, value: Any) -> Any:
        """The value of a group as a datum: streams are read."""
        return list(self.elements(value, ())) if isinstance(value, Sequence) else value

    def arguments(self, term: Term, scope: Scope) -> list[tuple[Any, Path]]:
        """The arguments' values with their paths."""
        return [(self.run(argument, scope), argument.path) for argument in term.arguments]

    def spread(self, term: Term, scope: Scope) -> Term:
        """The term with the elements of each `args` as its arguments.

        This comes first, as on a real server: so lazy terms have the same arguments as other terms, and an error in one of them
        is raised even if the term would not use it.

        Raises:
            QueryError: `args` has no array, or the number of arguments is wrong.
        """
        arguments: list[Term] = []
        for argument in term.arguments:
            if argument.type is ARGS:
                arguments += [
                    Term(DATUM, path=argument.path, value=value) for value in self.run(argument, scope)
                ]
            else:
                arguments.append(argument)
        sentence = arity_sentence(term.type.at_least, term.type.at_most, len(arguments))
        if sentence is not None:
            raise QueryError(sentence)
        return Term(term.type, tuple(arguments), term.options, term.path)

    def _operation(self, term: Term, scope: Scope) -> Any:
        """The value of a term for which reactdb has an operation."""
        name = term.type.name
        operation = OPERATIONS.get(name)
        if operation is None:
            raise CompileError(f"reactdb does not have the term `{name}`.")
        if operation.is_lazy:
            later = [lambda argument=argument: self.datum(argument, scope) for argument in term.arguments]
            return operation.function(*later)
        pairs = self.arguments(term, scope)
        options = {option: self.datum(value, scope) for option, value in term.options.items()}
        if pairs and type(pairs[0][0]) is Grouped and not operation.acts_on_groups:
            rest = [self.as_argument(value, path) for value, path in pairs[1:]]
            return Grouped(
                [(group, operation.function(value, *rest, **options)) for group, value in pairs[0][0].groups]
            )
        values = [self.as_argument(value, path) for value, path in pairs]
        return exact(operation.function(*values, **options))

    def as_argument(self, value: Any, path: Path) -> Any:
        """The argument of an operation: a datum, or a function."""
        return value if isinstance(value, Function) else self.as_datum(value, path)

    # -----------------------------------------------------------------------------------------------------------
    # Checked values

    def datum(self, term: Term, scope: Scope) -> Any:
        """The term's value, which must be a datum."""
        return term.value if term.type is DATUM else self.as_datum(self.run(term, scope), term.path)

    def as_datum(self, value: Any, path: Path) -> Any:
        """The value as a datum; the document of a single selection.

        Raises:
            QueryError: It is a table, a stream, a function, ...
        """
        kind = type(value)
        if kind is Single:
            try:
                return value.document()
            except ReactDBError as error:
                locate(error, path)
                raise
        if kind is Sequence or kind is Database or kind is Function or kind is Grouped:
            raise with_path(expected("DATUM", value), path)
        return value

    def elements(self, value: Any, path: Path) -> Iterator[Any]:
        """The elements of an array or of a stream that ends.

        Raises:
            QueryError: It is not a sequence, or it never ends.
        """
        if isinstance(value, Sequence):
            if value.feed is not None:
                raise with_path(QueryError(TERMINAL), value.path)
            if value.is_endless:
                raise with_path(QueryError(ENDLESS), path)
            return self.read(value)
        datum = value if isinstance(value, list) else self.as_datum(value, path)
        if isinstance(datum, list):
            return iter(each(datum))
        raise cannot_convert(datum)

    def read(self, sequence: Sequence) -> Iterator[Any]:
        """The present elements of a finite sequence.

        If an element cannot be computed, the elements before it come first, and then its error. They are read together, because a
        snapshot that stays open until the driver's last request would keep the log of the file from being cleared.
        """
        if sequence.query is not None:
            query = sequence.query
            elements, error = session_of(self.native).read_until_error(query)
            table = session_of(self.native).find(query.table) if elements else None
            if table is not None:
                elements = shown_documents(elements, query, table.primary_key)
            if error is None:
                return iter(elements)
            if not elements:
                raise error
            return chain(elements, raise_at_first_read(error))
        assert sequence.source is not None
        return sequence.source()


def raise_at_first_read(error: Exception) -> Iterator[Any]:
    """No elements, and then the error."""
    raise error
    yield


def exact(value: Any) -> Any:
    """The result of an operation with its numbers as doubles, as in ReQL."""
    if type(value) is float or type(value) is int:
        return read_number(value)
    return value


def cannot_convert(value: Any) -> ReactDBError:
    return (MissingValue if value is None else QueryError)(f"Cannot convert {type_name(value)} to SEQUENCE")


class TermCall:
    """One evaluation of one term: the argument of a handler."""

    __slots__ = ("evaluator", "paths", "scope", "term", "values")

    def __init__(
        self, evaluator: Evaluator, term: Term, scope: Scope, values: list[Any], paths: list[Path]
    ) -> None:
        self.evaluator = evaluator
        self.term = term
        self.scope = scope
        self.values = values
        self.paths = paths

    def __len__(self) -> int:
        return len(self.values)

    @property
    def path(self) -> Path:
        return self.term.path

    # -----------------------------------------------------------------------------------------------------------
    # Arguments

    def datum(self, place: int) -> Any:
        return self.evaluator.as_datum(self.values[place], self.paths[place])

    def datums(self, start: int = 0) -> list[Any]:
        return [self.datum(place) for place in range(start, len(self.values))]

    def string(self, place: int) -> str:
        value = self.datum(place)
        if not isinstance(value, str):
            raise with_path(expected_kind("STRING", value), self.paths[place])
        return value

    def integer(self, place: int) -> int:
        value = self.datum(place)
        try:
            return integer(value)
        except ReactDBError as error:
            raise with_path(error, self.paths[place]) from None

    def elements(self, place: int, part: Sequence | None = None) -> Iterator[Any]:
        """The elements of an argument; with `part`, a part of them.

        Raises:
            QueryError: It is not a sequence. The error blames the argument if that is a document of a table, otherwise the term.
        """
        value = self.values[place] if part is None else part
        if type(value) is Single:
            raise with_path(expected("SEQUENCE", value), self.paths[place])
        if not isinstance(value, (Sequence, list)):
            raise with_path(cannot_convert(self.datum(place)), self.path)
        try:
            return self.evaluator.elements(value, self.paths[place])
        except ReactDBError as error:
            locate(error, self.paths[place])
            raise

    def array(self, place: int) -> list[Any]:
        """The elements as a list. Raises if there are more than `array_limit`."""
        elements: list[Any] = []
        limit = self.evaluator.options.array_limit
        for element in self.elements(place):
            elements.append(element)
            if len(elements) > limit:
                check_array(elements)
        return elements

    def function(self, place: int) -> Function:
        value = self.values[place]
        if isinstance(value, Function):
            return value
        raise with_path(expected("FUNCTION", self.datum(place)), self.paths[place])

    def table(self, place: int = 0) -> Sequence:
        value = self.values[place]
        if isinstance(value, Sequence) and value.kind == "TABLE":
            return value
        raise with_path(expected("TABLE", value), self.paths[place])

    def table_name(self) -> TableName:
        """The name of the table in the first argument."""
        name = self.table().table
        assert name is not None
        return name

    # -----------------------------------------------------------------------------------------------------------
    # Options

    def option(self, name: str, default: Any = None) -> Any:
        """The datum of an option, or the default if it was not given."""
        term = self.term.options.get(name)
        return default if term is None else self.evaluator.datum(term, self.scope)

    def has_option(self, name: str) -> bool:
        return name in self.term.options

    def option_path(self, name: str) -> Path:
        return (*self.term.path, name)

    def flag(self, name: str) -> bool:
        """Whether an option is true in ReQL's sense."""
        return truth(self.option(name, False))

    def string_option(self, name: str) -> str | None:
        if name not in self.term.options:
            return None
        value = self.option(name)
        if not isinstance(value, str):
            raise with_path(expected_kind("STRING", value), self.option_path(name))
        return value

    def durability(self) -> str | None:
        """The option `durability`, or None if it was not given."""
        value = self.string_option("durability")
        if value not in (None, "hard", "soft"):
            error = QueryError(f'Durability option `{value}` unrecognized (options are "hard" and "soft").')
            raise with_path(error, self.option_path("durability"))
        return value


def check_limit(limit: Any) -> int:
    """The checked value of the run option `array_limit`."""
    if not is_number(limit):
        raise expected_kind("NUMBER", limit)
    checked = integer(limit)
    if checked < 1:
        raise QueryError(f"Illegal array size limit `{checked}`.  (Must be >= 1.)")
    return checked
