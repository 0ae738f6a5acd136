"""Pushdown: the filters that make a read smaller.

Spark hands over a conjunction, filter by filter, and trusts what is taken: a filter that is taken is not tested again, so it
must be exact for every row. What is not taken is handed back. Some do both: they make the read smaller and are tested again.

    changes      seq, `ts` and `_commit_timestamp`: a range of the log, exactly
                 `table`: its marks, exactly
                 `key`, equal to one or some: only their changes, up to 10,000, tested again
                 `commit`, `_commit_version`: a range of the log from there on, tested again
    documents    the primary key: a range of keys, tested again
                 a field with an index: the documents that the index leads to, tested again (see `lookup`)

A null passes no comparison, and none of the first two groups is ever null. `IsNotNull` of those is taken with them.

Rule of this file: it is safe to take nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import datasource as ds
from pyspark.sql import types as spark
from pyspark.sql.datasource import Filter

from reactdb.collation import key_bytes
from reactdb.spark.change_plan import ChangePlan
from reactdb.spark.lookup import Condition
from reactdb.spark.snapshot import DocumentPlan

# As a comparison reads with the column on its left.
WORDS: dict[type, str] = {
    ds.EqualTo: "=",
    ds.EqualNullSafe: "=",
    ds.GreaterThan: ">",
    ds.GreaterThanOrEqual: ">=",
    ds.LessThan: "<",
    ds.LessThanOrEqual: "<=",
    ds.In: "in",
    ds.IsNotNull: "there",
    ds.StringStartsWith: "starts",
}
# Keys that are looked up.
MOST_KEYS = 1_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def push(plan: ChangePlan | DocumentPlan, filters: Sequence[Filter]) -> Iterable[Filter]:
    """Make the plan smaller by these filters, and return those that Spark has to test."""
    take = _of_changes if isinstance(plan, ChangePlan) else _of_documents
    return [each for each in filters if not take(plan, each)]  # type: ignore[arg-type]


def parts_of(given: Filter) -> tuple[tuple[str, ...], str, Any]:
    """(attribute, word, value) of a filter; of others than those in WORDS the word is ""."""
    word = WORDS.get(type(given), "")
    if not word:
        return (), "", None
    return given.attribute, word, getattr(given, "value", None)  # type: ignore[attr-defined]


# ---------------------------------------------------------------------------------------------------------------
# Changes


def _of_changes(plan: ChangePlan, given: Filter) -> bool:
    attribute, word, value = parts_of(given)
    if len(attribute) != 1:
        return False
    (name,) = attribute
    # In Delta's shape, all other columns are the documents' own.
    is_delta = plan.options.shape == "delta"
    if name in (plan.options.source_column, plan.options.corrupt_column):
        return False
    if name == "_commit_timestamp" if is_delta else name == "ts":
        return word == "there" or _by_time(plan, word, value)
    if name == "_commit_version" if is_delta else name == "commit":
        _by_commit(plan, word, value)
        return word == "there"
    if is_delta:
        return False
    if name == "seq":
        return word == "there" or _by_seq(plan, word, value)
    if name == "table":
        return word == "there" or _by_table(plan, word, value)
    if name == "key":
        _by_key(plan, word, value)
    return False


def is_whole(value: Any) -> bool:
    return type(value) is int


def _by_seq(plan: ChangePlan, word: str, value: Any) -> bool:
    if word == "in":
        if not all(map(is_whole, value)) or not value:
            return False
        # A range that has them all; those between are tested again.
        plan.narrow(min(value) - 1, max(value))
        return False
    if not is_whole(value):
        return False
    bounds = {
        "=": (value - 1, value),
        ">": (value, None),
        ">=": (value - 1, None),
        "<": (None, value - 1),
        "<=": (None, value),
    }.get(word)
    if bounds is None:
        return False
    plan.narrow(*bounds)
    return True


def _by_commit(plan: ChangePlan, word: str, value: Any) -> None:
    """A commit's changes come at or after the seq that names it."""
    if is_whole(value) and word in ("=", ">", ">="):
        plan.narrow(value - 1, None)


def _by_time(plan: ChangePlan, word: str, value: Any) -> bool:
    """Times never go back along the log, so a time is a place in it, in each file another."""
    if not isinstance(value, datetime) or word not in ("=", ">", ">=", "<", "<="):
        return False
    if value.tzinfo is None:
        return False
    microseconds = (value - EPOCH) // timedelta(microseconds=1)
    # What is at or before the first of these is too early, what is after the second too late.
    early = microseconds // 1000 if word == ">" else -(-microseconds // 1000) - 1
    late = microseconds // 1000 if word in ("=", "<=") else -(-microseconds // 1000) - 1
    plan.narrow_by_time(
        early if word in ("=", ">", ">=") else None, late if word in ("=", "<", "<=") else None
    )
    return True


def _by_table(plan: ChangePlan, word: str, value: Any) -> bool:
    if word == "in" and len(value) == 1:
        word, value = "=", value[0]
    if word != "=" or type(value) is not str or plan.schema["table"].dataType != spark.StringType():
        return False
    if plan.options.table not in (None, value):
        plan.slices = []
    else:
        plan.read_table(value)
    return True


def _by_key(plan: ChangePlan, word: str, value: Any) -> None:
    """Only where the column is of the keys' own type: a number for numbers, a text for texts."""
    values = list(value) if word == "in" else [value] if word == "=" else []
    kind = int if isinstance(plan.schema["key"].dataType, spark.LongType) else str
    if values and len(values) <= MOST_KEYS and {type(each) for each in values} == {kind}:
        plan.narrow_by_keys([key_bytes(each) for each in dict.fromkeys(values)])


# ---------------------------------------------------------------------------------------------------------------
# Documents


def _of_documents(plan: DocumentPlan, given: Filter) -> bool:
    attribute, word, value = parts_of(given)
    sides = (plan.options.source_column, plan.options.corrupt_column)
    if plan.options.document == "struct" and attribute and attribute[0] not in sides:
        plan.conditions.append(Condition(attribute, word, value))
    return False
