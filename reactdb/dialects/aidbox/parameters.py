"""The parameters of a request: `version=2,5`, `_count=10`, `omit-resources=true`, `.name.0.family=Wood`.

Rule of this file: texts in, values or a refusal out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from reactdb.dialects.aidbox.changes import ChangesQuery
from reactdb.dialects.aidbox.dot_expressions import dot_expressions
from reactdb.dialects.aidbox.errors import AidboxError

_NUMBER: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
MOST_COUNT: Final = 10_000
TOTALS: Final = {"none": False, "estimate": True, "accurate": True, "count": True}
CHANGES: Final = frozenset(
    {
        "version",
        "fhir",
        "omit-resources",
        "_count",
        "_page",
        "_total",
        "_totalMethod",
        "_cut-commits",
        "wait",
    }
)
SEARCH: Final = frozenset({"_count", "_page", "_total", "_totalMethod", "_id"})

Parameters = list[tuple[str, str]]


def parse_changes(parameters: Parameters) -> ChangesQuery:
    """
    Raises:
        AidboxError: 400, a parameter is unknown or malformed.
    """
    check_known(parameters, CHANGES)
    since, until = versions(last(parameters, "version"))
    return ChangesQuery(
        since=since,
        until=until,
        filters=tuple(dot_expressions(parameters)),
        omit_resources=boolean(parameters, "omit-resources"),
        fhir=boolean(parameters, "fhir"),
        count=page_size(parameters),
        page=number(parameters, "_page", 1, 10**9) or 1,
        cuts_commits=boolean(parameters, "_cut-commits"),
        total=has_total(parameters) or False,
    )


def versions(text: str | None) -> tuple[int | None, int | None]:
    """(exclusive lower, inclusive upper version) of `L` or `L,U`.

    Raises:
        AidboxError: 400, it is neither.
    """
    if text is None:
        return None, None
    lower, comma, upper = text.partition(",")
    if not _NUMBER.fullmatch(lower) or (comma and not _NUMBER.fullmatch(upper)):
        raise AidboxError(
            400, "invalid", f"version is a number, or two with a comma between them: not {text!r}"
        )
    return int(lower), int(upper) if comma else None


def page_size(parameters: Parameters) -> int | None:
    """The size of a page. 0: only the total, as in FHIR's search. None: the parameter is missing."""
    size = number(parameters, "_count", 0, MOST_COUNT)
    return size if size is not None or last(parameters, "_page") is None else 100


def has_total(parameters: Parameters) -> bool | None:
    """Whether to count all of them; None if the parameter is missing."""
    text = last(parameters, "_total")
    text = last(parameters, "_totalMethod") if text is None else text
    if text is None:
        return None
    if text not in TOTALS:
        raise AidboxError(400, "invalid", f"_total is none, estimate or accurate: not {text!r}")
    return TOTALS[text]


def check_known(parameters: Parameters, known: Iterable[str]) -> None:
    for name, _ in parameters:
        if not name.startswith(".") and name not in known:
            raise AidboxError(
                400, "not-supported", f"there is no parameter {name}; there are {', '.join(sorted(known))}"
            )


def last(parameters: Parameters, name: str) -> str | None:
    """The value of a parameter; if it occurs several times, the last value."""
    values = [value for one, value in parameters if one == name]
    return values[-1] if values else None


def boolean(parameters: Parameters, name: str) -> bool:
    text = last(parameters, name)
    if text not in (None, "", "true", "false"):
        raise AidboxError(400, "invalid", f"{name} is true or false: not {text!r}")
    return text in ("", "true")


def number(parameters: Parameters, name: str, least: int, most: int) -> int | None:
    text = last(parameters, name)
    if text is None:
        return None
    if not _NUMBER.fullmatch(text) or not least <= int(text) <= most:
        raise AidboxError(400, "invalid", f"{name} is a number from {least} to {most}: not {text!r}")
    return int(text)


def to_parameters(options: dict[str, Any]) -> Parameters:
    """Options of a call as parameters: True is `true`, and None and False are left out."""
    return [
        (name, "true" if value is True else str(value))
        for name, value in options.items()
        if value is not None and value is not False
    ]
