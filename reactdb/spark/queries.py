"""Queries over change rows, each a few lines of Spark SQL: the current state, its history, rates, an audit of fields.

A read with `read=changes` gives change rows, one for each change:

    seq long, table string, key string, op string, ts timestamp, commit long, origin string, old, new, _source string

`old` and `new` are the documents before and after, both in one form: a struct, a VARIANT, or JSON text. If there is a column
`database` (the pipelines add it), it distinguishes the files of a fleet, because a file can move; otherwise `_source` does. If
there is `key_bytes` (the pipelines request it), it distinguishes the number 1 from the text "1". Rows with the `op` `read` are
not changes: they are the documents as of the beginning of a compacted log.

Rule of this file: SQL over DataFrames. It knows no files and no database. docs/how-to/spark-pipelines.md shows the
same statements.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from reactdb.errors import InvalidOption, format_value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CURRENT: Final = """
SELECT {id} AS database, table, {key}, max(seq) AS seq, max(ts) AS ts, max_by(new, seq) AS document
FROM {changes}
GROUP BY ALL
"""

HISTORY: Final = """
SELECT * FROM (
    SELECT {id} AS database, table, {key}, ts AS valid_from, lead(ts) OVER versions AS valid_to,
           lead(seq) OVER versions IS NULL AS is_current, seq, lead(seq) OVER versions AS next_seq, op, origin,
           new AS document
    FROM {changes}
    WINDOW versions AS (PARTITION BY {id}, table, {key} ORDER BY seq)
)
WHERE document IS NOT NULL
"""

RATES: Final = """
SELECT {id} AS database, {by}, window(ts, :bucket).start AS bucket,
       count(*) AS changes, count_if(op = 'insert') AS inserts, count_if(op = 'update') AS updates,
       count_if(op = 'replace') AS replaces, count_if(op = 'delete') AS deletes,
       count(DISTINCT table, {key}) AS keys, count(DISTINCT commit) AS commits,
       count(*) / :seconds AS changes_per_s
FROM {changes}
WHERE op <> 'read'
GROUP BY ALL
"""

AUDIT: Final = """
WITH documents AS (
    SELECT {id} AS database, table, {key}, origin, ts,
           from_json({old}, 'map<string, string>') AS before, from_json({new}, 'map<string, string>') AS after
    FROM {changes}
    WHERE old IS NOT NULL AND new IS NOT NULL
), fields AS (
    SELECT *, explode(array_union(map_keys(before), map_keys(after))) AS field FROM documents
), steps AS (
    SELECT *, map_contains_key(before, field) AS was_there, map_contains_key(after, field) AS is_there FROM fields
)
SELECT database, table, field, origin,
       count(*) AS changes, count_if(NOT was_there) AS added, count_if(NOT is_there) AS removed,
       count(DISTINCT {key}) AS keys, min(ts) AS first, max(ts) AS last
FROM steps
WHERE was_there <> is_there OR try_element_at(before, field) IS DISTINCT FROM try_element_at(after, field)
GROUP BY ALL
"""

_UNIT_S: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_BUCKET: Final = re.compile(rf"(\d{{1,9}}) *({'|'.join(_UNIT_S)})s?", re.ASCII | re.IGNORECASE)


def current(changes: DataFrame) -> DataFrame:
    """The newest document of each key: `database, table, key, seq, ts, document`, without deleted ones.

    Args:
        changes: All change rows of these keys. After compaction, the keys that have not changed since are missing.
    """
    return _run_statement(CURRENT, changes).where("document IS NOT NULL")


def history(changes: DataFrame) -> DataFrame:
    """Every version of every document, as a slowly changing dimension of type 2.

    Returns:
        `database, table, key`, `valid_from` (inclusive) and `valid_to` (exclusive; null: the version is still valid),
        `is_current`, `seq` and `next_seq` (the same in positions of the log, which are never equal as two times within a
        millisecond are), `op` and `origin` of the change that made the version, and `document`. A deletion ends a version
        and does not begin one. Each key has at most one current version.
    """
    return _run_statement(HISTORY, changes)


def rates(changes: DataFrame, bucket: str = "1 hour", by: Sequence[str] = ("table",)) -> DataFrame:
    """How many changes there were in each bucket of time.

    Args:
        bucket: Its length, as "10 minutes": a whole number of seconds, minutes, hours, days or weeks. Buckets start at multiples
            of it since 1970 in UTC.
        by: Further columns to count by: any of `table`, `key`, `origin`, `op`.

    Returns:
        `database`, the columns of `by`, `bucket` (its start), `changes`, `inserts`, `updates`, `replaces`, `deletes`, `keys`
        (distinct ones), `commits` (transactions with such a change) and `changes_per_s`, a mean over the bucket. Buckets
        without changes are missing.

    Raises:
        InvalidOption: The length or a column is not allowed.
    """
    length_s = check_rates(bucket, by)
    columns = ", ".join(dict.fromkeys(by))
    return _run_statement(
        RATES, changes, columns, args={"bucket": f"{length_s} seconds", "seconds": float(length_s)}
    )


def check_rates(bucket: str, by: Sequence[str]) -> int:
    """The length of a bucket in seconds, if `rates` accepts both arguments. Raises: as `rates`."""
    wrong = [name for name in by if name not in ("table", "key", "origin", "op")]
    if wrong or not by:
        raise InvalidOption(
            f"by is some of table, key, origin and op, not {format_value(wrong[0] if wrong else '')}"
        )
    return bucket_s(bucket)


def bucket_s(text: str) -> int:
    """A length of time such as "1 hour" in seconds.

    Raises:
        InvalidOption.
    """
    match = _BUCKET.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None or not int(match[1]):
        raise InvalidOption(
            f"bucket is a length of time such as '10 minutes' (seconds to weeks), not {format_value(text)}"
        )
    return int(match[1]) * _UNIT_S[match[2].lower()]


def audit(changes: DataFrame) -> DataFrame:
    """The top-level fields that updates and replacements change, how often, and by whom.

    Returns:
        `database, table, field, origin`, `changes` (in which the field's value differs), of these `added` (it was missing) and
        `removed`, `keys` (distinct ones), `first` and `last`. A struct does not distinguish a missing field from null, so
        a field that counts as added may have been null; JSON text and VARIANT do distinguish them.

    Raises:
        InvalidOption: The documents are not decoded.
    """
    form = dict(changes.dtypes)["new"]
    if form == "binary":
        raise InvalidOption(
            "binary documents cannot be compared by fields: read them as JSON, VARIANT or structs"
        )
    as_text = "{}" if form == "string" else "to_json({})"
    return _run_statement(AUDIT, changes, old=as_text.format("old"), new=as_text.format("new"))


def _run_statement(
    statement: str,
    changes: DataFrame,
    by: str = "",
    *,
    args: dict[str, Any] | None = None,
    old: str = "",
    new: str = "",
) -> DataFrame:
    """Run a statement. Braces are filled with DataFrames or names of this file, never with a caller's text."""
    identity = "database" if "database" in changes.columns else "_source"
    key = "key, key_bytes" if "key_bytes" in changes.columns else "key"
    for name, words in (("id", identity), ("key", key), ("by", by), ("old", old), ("new", new)):
        statement = statement.replace(f"{{{name}}}", words)
    return changes.sparkSession.sql(statement, args=args, changes=changes)
