"""The text of a query, as a program writes it: `table('games').filter(row['score'] > 10).limit(3)`.

It is for people, so long parts are cut. A Python function is shown by its name and the place of its definition.

Rule of this file: it reads a query and nothing else, and never raises for a query that a feed has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from reactdb.errors import format_value
from reactdb.feeds.failures import describe_step
from reactdb.query import (
    ALL_TABLES,
    Between,
    DistinctOfIndex,
    Get,
    GetAll,
    GroupOfIndex,
    Limit,
    Map,
    Nth,
    OrderBy,
    Query,
    Sample,
    Skip,
    Step,
    Union,
)

MOST_CHARACTERS: Final = 300
# Keys of a `get_all`, or members of a union, that are shown.
MOST_SHOWN: Final = 5
ALL_TABLES_TEXT: Final = "all tables"


def query_text(query: Query, most: int = MOST_CHARACTERS) -> str:
    """The query as text of at most `most` characters."""
    text = ALL_TABLES_TEXT if query.table == ALL_TABLES else f"table({str(query.table)!r})"
    return text_with_steps(text, query, most)


def text_with_steps(text: str, query: Query, most: int = MOST_CHARACTERS) -> str:
    """A text for the table of a query, with the query's steps."""
    for step in query.steps:
        text += f".{_step_text(step)}"
        if len(text) > most:
            return cut(text, most)
    return text


def cut(text: str, most: int = MOST_CHARACTERS) -> str:
    """The text, or its beginning and three dots."""
    return text if len(text) <= most else text[: most - 3] + "..."


def _step_text(step: Step) -> str:
    if isinstance(step, Get):
        return f"get({format_value(step.key)})"
    if isinstance(step, GetAll):
        return f"get_all({_arguments(map(format_value, _some(step.keys)), len(step.keys), step.index)})"
    if isinstance(step, Between):
        return f"between({_bounds(step)})"
    if isinstance(step, OrderBy):
        keys = list(map(repr, step.keys))
        if step.index is not None:
            keys.append(f"index=desc({step.index!r})" if step.index_descending else f"index={step.index!r}")
        return f"order_by({', '.join(keys)})"
    if isinstance(step, (Limit, Skip, Sample)):
        return f"{type(step).__name__.lower()}({step.count})"
    if isinstance(step, Nth):
        return f"nth({step.place})"
    if isinstance(step, Union):
        some = [query_text(one, MOST_CHARACTERS // 2) for one in _some(step.others)]
        return f"union({_arguments(some, len(step.others), None)})"
    if isinstance(step, (DistinctOfIndex, GroupOfIndex)):
        name = "distinct" if isinstance(step, DistinctOfIndex) else "group"
        return f"{name}(index={step.index!r})"
    text = describe_step(step)
    # A step of which only the name is known.
    return text if "(" in text or isinstance(step, Map) else f"{text}(...)"


def _some(values: Any) -> Any:
    return values[:MOST_SHOWN]


def _arguments(shown: Iterable[str], count: int, index: str | None) -> str:
    parts = list(shown)
    if count > len(parts):
        parts.append(f"... {count - len(parts)} more")
    if index is not None:
        parts.append(f"index={index!r}")
    return ", ".join(parts)


def _bounds(step: Between) -> str:
    parts = [format_value(step.lower), format_value(step.upper)]
    if step.index is not None:
        parts.append(f"index={step.index!r}")
    if step.left_bound != "closed":
        parts.append(f"left_bound={step.left_bound!r}")
    if step.right_bound != "open":
        parts.append(f"right_bound={step.right_bound!r}")
    return ", ".join(parts)
