"""Query text: a query as text, as the table of jobs shows it: `r.table("games").changes()`.

RethinkDB prints JavaScript, whichever driver sent the query, and so does this file.

Rule of this file: terms in, text out. The text is for reading and not for running.
"""

from __future__ import annotations

import json

from reactdb.dialects.rethinkdb.terms import DATUM, FUNC, MAKE_ARRAY, MAKE_OBJ, VAR, Term
from reactdb.dialects.rethinkdb.wire import render
from reactdb.errors import ReactDBError

# Terms that follow `r` and not their first argument.
_AT_THE_ROOT = frozenset(
    (
        "args", "asc", "branch", "db", "db_create", "db_drop", "db_list", "desc", "epoch_time", "error", "iso8601", "json",
        "literal", "maxval", "minval", "now", "object", "point", "random", "range", "time", "uuid",
    )
)  # fmt: skip


def print_term(term: Term) -> str:
    kind = term.type
    if kind is DATUM:
        try:
            return json.dumps(render(term.value), ensure_ascii=False)
        except ReactDBError:
            return repr(term.value)
    if kind is VAR:
        return f"var_{term.parameters[0]}"
    if kind is FUNC:
        names = ", ".join(f"var_{number}" for number in term.parameters)
        return f"function({names}) {{ return {print_term(term.arguments[0])}; }}"
    if kind is MAKE_ARRAY:
        return f"[{', '.join(map(print_term, term.arguments))}]"
    if kind is MAKE_OBJ:
        return f"{{{_fields(term)}}}"
    arguments = list(term.arguments)
    if term.name == "funcall":
        # In `do`, the function comes first on the wire.
        arguments = [*arguments[1:], arguments[0]]
    is_root = not arguments or term.name in _AT_THE_ROOT or (term.name == "table" and len(arguments) == 1)
    start = "r" if is_root else _print_receiver(arguments.pop(0))
    rest = [print_term(argument) for argument in arguments]
    if term.options:
        rest.append(f"{{{_fields(term)}}}")
    if term.name == "bracket":
        return f"{start}({', '.join(rest)})"
    return f"{start}.{_camel_case('do' if term.name == 'funcall' else term.name)}({', '.join(rest)})"


def _print_receiver(first: Term) -> str:
    """The text of a term, ready for an appended `.name()`."""
    text = print_term(first)
    return f"r.expr({text})" if first.type in (DATUM, MAKE_ARRAY, MAKE_OBJ) else text


def _fields(term: Term) -> str:
    return ", ".join(f"{json.dumps(name)}: {print_term(value)}" for name, value in term.options.items())


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.title() for other in others)
