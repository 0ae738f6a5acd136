"""Pushdown: the filters that make a read smaller.

Spark hands over a conjunction, filter by filter, and trusts what is taken: a filter that is taken is not tested again, so it
must be exact for every row. What is not taken is handed back. Some do both: they make the read smaller and are tested again.

    both         `_source`: whole files, exactly
    changes      seq, `ts` and `_commit_timestamp`: a range of the log, exactly
                 `table`: its marks, exactly
                 `key`: only the changes of the keys that can pass, up to 10,000, tested again
                 `commit`, `_commit_version`: a range of the log from there on, tested again
    documents    the primary key: ranges of keys, tested again
                 a field with an index, also one inside of another: the documents that the index leads to, tested again

What the last two of each go by is in `lookup`. A null passes no comparison, and what is taken exactly is never null.
`IsNotNull` of those is taken with them.

Spark 4.3 keeps what came of a filter with the DataFrame that was loaded, for whoever reads that next: with another filter in the
same query, or with none, when it does not even ask. A source cannot notice. So a read takes filters only where option `pushdown`
says that each `load()` is filtered once.

Rule of this file: it is safe to take nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from operator import contains, eq, ge, gt, le, lt
from typing import Any

from pyspark.sql import datasource as ds
from pyspark.sql import types as spark
from pyspark.sql.datasource import Filter

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
# Strings of Python have the order of their UTF-8, as Spark's have.
TESTS: dict[type, Callable[[str, str], bool]] = {
    ds.EqualTo: eq,
    ds.EqualNullSafe: eq,
    ds.In: eq,
    ds.GreaterThan: gt,
    ds.GreaterThanOrEqual: ge,
    ds.LessThan: lt,
    ds.LessThanOrEqual: le,
    ds.StringStartsWith: str.startswith,
    ds.StringEndsWith: str.endswith,
    ds.StringContains: contains,
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def push(plan: ChangePlan | DocumentPlan, filters: Sequence[Filter]) -> Iterable[Filter]:
    """Make the plan smaller by these filters, and return those that Spark has to test."""
    take = _of_changes if isinstance(plan, ChangePlan) else _of_documents
    return [each for each in filters if not (_by_file(plan, each) or take(plan, each))]  # type: ignore[arg-type]


def parts_of(given: Filter) -> tuple[tuple[str, ...], str, Any]:
    """(attribute, word, value) of a filter; of others than those in WORDS the word is ""."""
    word = WORDS.get(type(given), "")
    if not word:
        return (), "", None
    return given.attribute, word, getattr(given, "value", None)  # type: ignore[attr-defined]


# ---------------------------------------------------------------------------------------------------------------
# The file that a row is from


def _by_file(plan: ChangePlan | DocumentPlan, given: Filter) -> bool:
    """A filter on the column of files is the same for all rows of a file."""
    is_wanted = file_test(given, plan.options.source_column)
    names = plan.schema.fieldNames()
    # One with a collation of its own is compared otherwise.
    if (
        is_wanted is None
        or plan.options.source_column not in names
        or plan.schema[plan.options.source_column].dataType != spark.StringType()
    ):
        return False
    plan.keep_files(is_wanted)
    return True


def file_test(given: Filter, column: str) -> Callable[[str], bool] | None:
    """What a filter says of a text in this column, which is never null; None where it is another's, or not understood."""
    if isinstance(given, ds.Not):
        inner = file_test(given.child, column)
        return None if inner is None else lambda text: not inner(text)
    if getattr(given, "attribute", None) != (column,):
        return None
    if isinstance(given, (ds.IsNull, ds.IsNotNull)):
        is_there = isinstance(given, ds.IsNotNull)
        return lambda text: is_there
    value = getattr(given, "value", None)
    wanted: list[Any] = list(value) if isinstance(given, ds.In) and value is not None else [value]
    # With a null among them, NOT IN passes nothing.
    if {type(each) for each in wanted} != {str}:
        return None
    test = TESTS.get(type(given))
    return None if test is None else lambda text: any(test(text, each) for each in wanted)


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
        plan.conditions.append(Condition(attribute, word, value))
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


# ---------------------------------------------------------------------------------------------------------------
# Documents


def _of_documents(plan: DocumentPlan, given: Filter) -> bool:
    attribute, word, value = parts_of(given)
    sides = (plan.options.source_column, plan.options.corrupt_column)
    if attribute and attribute[0] not in sides:
        plan.conditions.append(Condition(attribute, word, value))
    return False
