"""Parsing: turns the driver's JSON into a tree of terms, and refuses mistakes that do not depend on the database.

    5, "a", null             a datum
    {"a": <term>}            an object
    [number, [args], {..}]   a term

Constant parts become one datum: a bulk insert is one value, not a hundred thousand terms.

Rule of this file: it knows shapes, not meanings. Its errors are compile errors.
"""

from __future__ import annotations

from typing import Any, Final

from reactdb.dialects.rethinkdb.errors import CompileError, locate
from reactdb.dialects.rethinkdb.terms import (
    ANY_OPTION,
    ARGS,
    CALENDAR,
    DATUM,
    FUNC,
    IMPLICIT_VAR,
    MAKE_ARRAY,
    MAKE_OBJ,
    TERM_TYPES,
    VAR,
    Path,
    Term,
)
from reactdb.dialects.rethinkdb.wire import EXACT_INTEGERS, read_names, read_number, read_pseudotype
from reactdb.errors import ReactDBError, ResourceLimit
from reactdb.expression.registry import arity_sentence
from reactdb.values.pseudotypes import REQL

MAX_DEPTH: Final = 180
"""The depth of nested terms: evaluation takes up to five Python frames a level."""


def parse(data: Any, array_limit: int = 100_000) -> Term:
    """The tree of a query.

    Args:
        data: The query's JSON, decoded.
        array_limit: The most elements of an array literal.

        Raises:
            CompileError: A term is wrong; the error has its path.
            QueryError: A value is not allowed, such as an infinite number.
    """
    return _Parser(array_limit).term(data, (), 0)


def _fail(message: str, path: Path) -> CompileError:
    error = CompileError(message)
    locate(error, path)
    return error


class _Parser:
    """Parses terms and tracks the scope: the variables, and the possible functions for `r.row`."""

    def __init__(self, array_limit: int) -> None:
        self.array_limit = array_limit
        self.variables: set[int] = set()
        self.functions: list[int] = []

    def term(self, data: Any, path: Path, depth: int) -> Term:
        if depth > MAX_DEPTH:
            raise _fail("The query is nested too deeply.", path)
        if isinstance(data, list):
            return self._list(data, path, depth)
        if isinstance(data, dict):
            return self._object(data, path, depth)
        if isinstance(data, (int, float)) and not isinstance(data, bool):
            return self._datum(read_number(data), path)
        return self._datum(data, path)

    def _datum(self, value: Any, path: Path) -> Term:
        return Term(DATUM, path=path, value=value)

    def _object(self, data: dict[str, Any], path: Path, depth: int) -> Term:
        if is_plain(data):
            return self._datum(data, path)
        fields = read_names(
            {name: self.term(value, (*path, name), depth + 1) for name, value in data.items()}
        )
        if all(term.is_constant for term in fields.values()):
            value = {name: term.value for name, term in fields.items()}
            return self._datum(_pseudotype(value, path) if REQL in data else value, path)
        return Term(MAKE_OBJ, (), fields, path)

    def _list(self, data: list[Any], path: Path, depth: int) -> Term:
        if not data or isinstance(data[0], bool) or not isinstance(data[0], int) or len(data) > 3:
            raise _fail(
                "Expected a TermType as a NUMBER, but the term is not an array that begins with one.", path
            )
        number = data[0]
        arguments = data[1] if len(data) > 1 else []
        options = data[2] if len(data) > 2 else {}
        if isinstance(arguments, dict) and len(data) == 2:
            arguments, options = [], arguments
        if number == DATUM.number:
            return self.term(data[1] if len(data) > 1 else None, path, depth + 1)
        if not isinstance(arguments, list) or not isinstance(options, dict):
            raise _fail("Expected an ARRAY of arguments and an OBJECT of options.", path)
        if number in CALENDAR:
            return self._datum(CALENDAR[number][1], path)
        kind = TERM_TYPES.get(number)
        if kind is None:
            raise _fail(f"Unrecognized TermType: {number}.", path)
        if kind is FUNC:
            return self._function(arguments, path, depth)
        if kind is VAR:
            return self._variable(arguments, path)
        if kind is IMPLICIT_VAR:
            return self._row(path)
        parsed = tuple(
            self.term(argument, (*path, place), depth + 1) for place, argument in enumerate(arguments)
        )
        has_args = ARGS in [argument.type for argument in parsed]
        if kind is MAKE_ARRAY:
            return self._array(parsed, path, has_args)
        if kind is MAKE_OBJ:
            return self._object(options, path, depth)
        if not has_args:
            sentence = arity_sentence(kind.at_least, kind.at_most, len(parsed))
            if sentence is not None:
                raise _fail(sentence, path)
        if kind.options is not ANY_OPTION and kind.options != ANY_OPTION:
            for name in options:
                if name not in kind.options:
                    raise _fail(f"Unrecognized optional argument `{name}`.", (*path, name))
        named = {name: self.term(value, (*path, name), depth + 1) for name, value in options.items()}
        return Term(kind, parsed, named, path, has_args=has_args)

    def _array(self, parsed: tuple[Term, ...], path: Path, has_args: bool) -> Term:
        if not all(element.is_constant for element in parsed):
            return Term(MAKE_ARRAY, parsed, None, path, has_args=has_args)
        if len(parsed) > self.array_limit:
            error = ResourceLimit(array_sentence(self.array_limit))
            locate(error, path)
            raise error
        return self._datum([element.value for element in parsed], path)

    def _function(self, arguments: list[Any], path: Path, depth: int) -> Term:
        if len(arguments) != 2:
            raise _fail(f"Expected 2 arguments but found {len(arguments)}.", path)
        names = arguments[0]
        if isinstance(names, list) and len(names) == 2 and names[0] == MAKE_ARRAY.number:
            names = names[1]
        if not isinstance(names, list) or not all(
            isinstance(name, int) and not isinstance(name, bool) for name in names
        ):
            raise _fail("CLIENT ERROR: FUNC variables must be a list of numbers.", path)
        parameters = tuple(names)
        before = self.variables
        self.variables = before | set(parameters)
        if len(parameters) == 1:
            self.functions.append(parameters[0])
        body = self.term(arguments[1], (*path, 1), depth + 1)
        if len(parameters) == 1:
            self.functions.pop()
        self.variables = before
        return Term(FUNC, (body,), None, path, parameters=parameters)

    def _variable(self, arguments: list[Any], path: Path) -> Term:
        if len(arguments) != 1:
            raise _fail(f"Expected 1 argument but found {len(arguments)}.", path)
        name = arguments[0]
        if isinstance(name, list) and len(name) == 2 and name[0] == DATUM.number:
            name = name[1]
        if isinstance(name, bool) or not isinstance(name, int):
            raise _fail("CLIENT ERROR: VAR needs a number.", path)
        if name not in self.variables:
            raise _fail("Variable name not found.", path)
        return Term(VAR, (), None, path, parameters=(name,))

    def _row(self, path: Path) -> Term:
        if not self.functions:
            raise _fail("r.row is not defined in this context.", path)
        if len(self.functions) > 1:
            raise _fail("Cannot use r.row in nested queries.  Use functions instead.", path)
        return Term(VAR, (), None, path, parameters=(self.functions[-1],))


def is_plain(data: dict[str, Any]) -> bool:
    """Whether the object has only plain values and no terms, as the documents of most bulk inserts."""
    for value in data.values():
        kind = type(value)
        if kind is int:
            if not -EXACT_INTEGERS <= value <= EXACT_INTEGERS:
                return False
        elif not (kind is str or value is None or kind is bool):
            return False
    # Also `=$reql_type$`, an escaped name.
    return REQL not in "".join(data)


def _pseudotype(value: dict[str, Any], path: Path) -> Any:
    try:
        return read_pseudotype(value)
    except ReactDBError as error:
        locate(error, path)
        raise


def array_sentence(limit: int) -> str:
    return (
        f"Array over size limit `{limit}`.  To raise the number of allowed elements, modify the `array_limit` "
        "option to `.run` (not available in the Data Explorer), or use an index."
    )
