"""The command `profile`.

Rule of this file: it checks the fields. `profiler` writes the entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from reactdb.dialects.mongodb.bson_order import type_name
from reactdb.dialects.mongodb.clock import refuse_cluster_time
from reactdb.dialects.mongodb.commands.profiler import Level
from reactdb.dialects.mongodb.commands.requests import CommandRequest
from reactdb.dialects.mongodb.commands.table import command
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.filters import Filter, is_operators
from reactdb.dialects.mongodb.names import check_database_name
from reactdb.dialects.mongodb.numeric import as_float, is_number, truncate

if TYPE_CHECKING:
    from reactdb.dialects.mongodb.commands.deployment import Deployment

NOTE: Final = "When a filter expression is set, slowms and sampleRate are not used for profiling and slow-query log lines."


def _reads_only(body: dict[str, Any], deployment: Deployment) -> bool:
    return next(iter(body.values())) in (-1, 0)


@command("profile", fields="slowms sampleRate filter", quick=_reads_only)
def profile(request: CommandRequest) -> dict[str, Any]:
    database, level = check_database_name(request.database), request.value
    if level is None:
        raise MongoError(40414, "BSON field 'profile.profile' is missing but a required field")
    if not is_number(level):
        raise MongoError(
            14, f"BSON field 'profile.profile' is the wrong type '{type_name(level)}', expected type 'number'"
        )
    number = truncate(level)
    if not 0 <= number <= 2:
        # Any other number only queries the present level, like -1.
        number = -1
    profiler = request.deployment.profiler
    if number > 0 and not profiler.is_offered:
        raise MongoError(
            115, "in the process, commands are not profiled: profile takes the levels -1 and 0 alone"
        )
    before = profiler.of(database)
    reply: dict[str, Any] = {
        "was": before.number,
        "slowms": profiler.slow_ms,
        "sampleRate": profiler.sample_rate,
    }
    if before.given is not None:
        reply |= {"filter": _expand_equality(before.given), "note": NOTE}
    slow_ms, rate = _number(request, "slowms"), _number(request, "sampleRate")
    if rate is not None and not 0 <= as_float(rate) <= 1:
        raise MongoError(2, "'sampleRate' must be between 0.0 and 1.0 inclusive")
    given, wanted = before.given, before.filter
    if "filter" in request.body:
        filter = request.body["filter"]
        if filter != "unset" and not isinstance(filter, dict):
            raise MongoError(2, "'filter' is an object, or the string 'unset'")
        given = None if filter == "unset" else filter
        wanted = None if given is None else Filter(refuse_cluster_time(given))
    if number >= 0:
        profiler.set(database, Level(number, given, wanted))
    elif given is not before.given:
        profiler.set(database, Level(before.number, given, wanted))
    profiler.slow_ms = profiler.slow_ms if slow_ms is None else truncate(slow_ms)
    profiler.sample_rate = profiler.sample_rate if rate is None else as_float(rate)
    return reply


def _number(request: CommandRequest, name: str) -> Any:
    """A field with a number of any type, or None.

    Raises:
        MongoError: 14, it has another type.
    """
    value = request.body.get(name)
    if value is not None and not is_number(value):
        raise MongoError(
            14, f"BSON field 'profile.{name}' is the wrong type '{type_name(value)}', expected type 'number'"
        )
    return value


def _expand_equality(query: dict[str, Any]) -> dict[str, Any]:
    """A query as MongoDB shows it here: equality is spelled out."""
    return {
        name: value if name.startswith("$") or is_operators(value) else {"$eq": value}
        for name, value in query.items()
    }
