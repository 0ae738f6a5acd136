"""Primary keys that ReQL cannot say: how they are shown, and what a key that a driver sends stands for.

A date, a UUID or a whole number beyond 2**53 would be shown as a text or a number that is another key. As a primary key it is
shown as a text that stands for it (see `reactdb.key_spelling`): in each document of a table, in events, in the changes that a
write returns, and where a query gives nothing but the key. That text is the key wherever a key is sent: to `get`, `get_all` and
`between`, in a document that is written, and compared with the key in a `filter`.

Native queries see the key itself. So a function that computes something of it gets a value like that of any other field.

Rule of this file: keys and documents. It reads and writes no tables.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from reactdb.dialects.rethinkdb.wire import RESPELLING, is_exact
from reactdb.expression import Call, Constant, Expression, Node, Row
from reactdb.expression.tree import constant
from reactdb.key_spelling import SIGN, KeySpelling
from reactdb.query import Aggregate, ConcatMap, Distinct, Group, Limit, Map, Query, Skip, Union

__all__ = [
    "Show",
    "is_spelled",
    "shown_document",
    "shown_documents",
    "shown_event",
    "shown_part",
    "stored_key",
    "with_stored_keys",
]

KEYS: Final = KeySpelling(RESPELLING.shown)

Show = Callable[[Any], Any]


def is_spelled(key: Any) -> bool:
    """Whether a value may have another form as a primary key than in other fields. False for the usual keys."""
    kind = type(key)
    if kind is str:
        return bool(key[:1] == SIGN)
    if kind is datetime:
        return bool(key.microsecond % 1_000)
    return kind is not float and not is_exact(key)


def stored_key(value: Any) -> Any:
    """The primary key that is shown as this value."""
    return KEYS.stored(value) if type(value) is str and value[:1] == SIGN else value


def shown_document(document: Any, primary_key: str) -> Any:
    """A document of a table, or null, with its key as it is shown. It is not changed."""
    if isinstance(document, dict):
        key = document.get(primary_key)
        if is_spelled(key):
            return {**document, primary_key: KEYS.shown(key)}
    return document


def shown_documents(found: list[Any], query: Query, primary_key: str) -> list[Any]:
    """What a query has found, with the keys in it as they are shown."""
    show = shown_part(query, primary_key)
    if show is None:
        return found
    # Most keys are texts, and a look at them is quicker than a call.
    return [
        one
        if type(one) is dict and type(key := one.get(primary_key)) is str and key[:1] != SIGN
        else show(one)
        for one in found
    ]


def shown_part(query: Query, primary_key: str) -> Show | None:
    """The function that shows an element of a query's result; None where the query has computed something else."""
    is_key = False
    for step in query.steps:
        if isinstance(step, Map):
            if _is_key(getattr(step.function, "node", None), primary_key):
                is_key = True
            elif step.name not in _OF_FIELDS:
                return None
        elif isinstance(step, Union):
            if is_key or not all(shown_part(other, primary_key) for other in step.others):
                return None
        elif isinstance(step, _COMPUTING) or (is_key and not isinstance(step, (Limit, Skip))):
            return None
    if is_key:
        return lambda key: KEYS.shown(key) if is_spelled(key) else key
    return lambda document: shown_document(document, primary_key)


_OF_FIELDS: Final = frozenset(("pluck", "without", "merge"))
"""Terms that leave the other fields of a document as they are."""
_COMPUTING: Final = (Aggregate, ConcatMap, Distinct, Group)


def shown_event(event: Any, show: Show) -> Any:
    """An event of a feed, with its documents in the form that `show` gives them."""
    if not isinstance(event, dict):
        return event
    changed = {}
    for name in ("old_val", "new_val"):
        value = event.get(name)
        if value is not None and (shown := show(value)) is not value:
            changed[name] = shown
    return {**event, **changed} if changed else event


# ---------------------------------------------------------------------------------------------------------------
# Conditions

_COMPARING: Final = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))


def _is_key(node: Any, primary_key: str) -> bool:
    """Whether an expression is the primary key of the document at hand."""
    return (
        isinstance(node, Call)
        and node.operation in ("bracket", "get_field")
        and len(node.arguments) == 2
        and isinstance(node.arguments[0], Row)
        and isinstance(node.arguments[1], Constant)
        and node.arguments[1].value == primary_key
    )


def with_stored_keys(expression: Expression, primary_key: str) -> Expression:
    """A condition in which what a driver has compared with the primary key is the key that it stands for."""
    node = _stored_node(expression.node, primary_key)
    return expression if node is expression.node else Expression(node)


def _stored_node(node: Node, primary_key: str) -> Node:
    if not isinstance(node, Call):
        return node
    if node.operation in _COMPARING and any(_is_key(one, primary_key) for one in node.arguments):
        found = tuple(map(_stored_constant, node.arguments))
    else:
        found = tuple(_stored_node(one, primary_key) for one in node.arguments)
    is_same = all(one is other for one, other in zip(found, node.arguments, strict=True))
    return node if is_same else Call(node.operation, found, node.options)


def _stored_constant(node: Node) -> Node:
    if not isinstance(node, Constant):
        return node
    key = stored_key(node.value)
    return node if key is node.value else constant(key)
