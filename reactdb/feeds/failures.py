"""Failures: the documents that a view could not compute. They are counted, and the first of them is logged with its place.

An error of a filter or a mapping for a document must not reach the writer of that document. So the view skips the
document, as RethinkDB does, and notes the failure here: a feed whose condition is wrong for every document would
otherwise be silent for ever, and look exactly like a feed without news. With `raises`, the error ends the feeds of
the view instead.

A missing field is no failure where ReQL has a rule for it: a `filter` has its default.

Rule of this file: it counts and describes; the code that advances the view ends its feeds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from reactdb.errors import format_value
from reactdb.expression import Expression, Predicate, describe_function
from reactdb.logs import logger
from reactdb.query import (
    Aggregate,
    Aggregates,
    ConcatMap,
    Distinct,
    Filter,
    Group,
    HasFields,
    Map,
    OrderBy,
    Step,
)
from reactdb.values import collation


class Failures:
    """See the head of this file. One for each view, and one for each axis of the router.

    Attributes:
        count: How many documents failed.
        seeded: How many of them when the view went live.
        raises: The error is raised, and nothing is counted.

    Thread safety: `note` by the thread that advances the view; `count` may be read by any thread.
    """

    __slots__ = ("_last", "_say", "count", "raises", "seeded", "table")

    def __init__(self, table: str, *, raises: bool = False, say: Say | None = None) -> None:
        """`say` takes a message and logs it where no lock is held; None: it is logged at once."""
        self.table = table
        self.raises = raises
        self.count = 0
        self.seeded = 0
        self._say = say
        self._last: Hashable = None

    def note(self, error: Exception, key: bytes, change: Hashable, where: Callable[[], str]) -> None:
        """A document failed.

        Args:
            key: Its primary key.
            change: Names the change that wrote it: a document with several places in a result is counted once.
            where: Describes the failed step; called for the first failure only.

        Raises:
            error: Where failures are to be raised.
        """
        if self.raises:
            raise error
        if change == self._last:
            return
        self._last = change
        self.count += 1
        if self.count == 1:
            first = FirstFailure(self.table, error, key, where())
            if self._say is None:
                first.run()
            else:
                self._say(first)


class FirstFailure:
    """One message for the log."""

    __slots__ = ("_error", "_key", "_table", "_where")

    def __init__(self, table: str, error: Exception, key: bytes, where: str) -> None:
        self._table = table
        self._error = error
        self._key = key
        self._where = where

    def run(self) -> None:
        """Log the message. If a user's log handler raises, delivery continues."""
        try:
            logger.warning(
                "a feed of table %r passes over documents that %s fails for; the first is %s: %s; "
                "stats()['failed'] counts them, and changes(on_predicate_error='raise') would end the feed",
                self._table,
                self._where,
                format_value(collation.key_value(self._key)),
                format_error(self._error),
            )
        except Exception:
            logger.debug("a failure of a feed could not be logged", exc_info=True)


Say = Callable[[FirstFailure], None]


def format_error(error: Exception) -> str:
    """The first line of the error's message, and the line of the user's code that raised it, where there is one.

    The rest of ReQL's messages is the document, which has no place in a log.
    """
    lines = str(error).splitlines()
    text = f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
    text = text.rstrip(".:")
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_globals.get("__name__", "reactdb").partition(".")[0] == "reactdb":
        return text
    return f"{text} ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"


def describe_step(step: Step) -> str:
    """A step as a message names it: its name, and its expression."""
    if isinstance(step, (Filter, HasFields)):
        return f"filter({describe_expression(step.predicate)})"
    if isinstance(step, Map):
        text = describe_expression(step.function)
        # Of a `pluck` the function is the expression `row.pluck(...)`; `without` and `merge` are as well.
        is_itself = step.name != "map" and text.startswith(f"row.{step.name}(") and text.endswith(")")
        return text.removeprefix("row.") if is_itself else f"{step.name}({text})"
    if isinstance(step, OrderBy):
        return f"order_by({', '.join(repr(key) for key in step.keys)})"
    if isinstance(step, (Group, Distinct)):
        return f"{type(step).__name__.lower()}({describe_expression(step.expression)})"
    if isinstance(step, Aggregates):
        return f"aggregate({', '.join(f'{name}={describe_step(part)}' for name, part in step.parts)})"
    if isinstance(step, Aggregate):
        return f"{step.kind}({describe_expression(step.expression)})"
    return "concat_map" if isinstance(step, ConcatMap) else type(step).__name__.lower()


def describe_expression(function: Any) -> str:
    """An expression as it was written; a Python function by its name and the place of its definition."""
    if isinstance(function, Predicate):
        function = function.function if function.expression is None else function.expression
    if function is None:
        return ""
    if isinstance(function, Expression):
        return format_value(function, 200)
    return describe_function(function)
