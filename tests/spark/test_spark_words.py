"""The documentation of the pipelines agrees with them: the SQL on the pages is the SQL that runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from reactdb.spark import options, queries

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "how-to" / "spark-pipelines.md"
# As a reader writes it, who has a view of that name.
WORDS = {
    "{id} AS database": "database", "{id}": "database", "{key}": "key", "{by}": "table", "{old}": "old", "{new}": "new",
    "{changes}": "changes",
}  # fmt: skip


@pytest.mark.parametrize("name", ["CURRENT", "HISTORY", "RATES", "AUDIT"])
def test_the_sql_of_a_pipeline_is_on_the_page(name):
    statement = getattr(queries, name)
    for ours, theirs in WORDS.items():
        statement = statement.replace(ours, theirs)
    shown = [
        text.split() for text in re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    ]

    assert statement.split() in shown


def test_the_reference_has_every_option():
    """In its tables of options, with the default and the meaning; an option that was removed is in none."""
    text = (PAGE.parent.parent / "reference" / "spark.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]+) \|", text.partition("## Types")[0], re.MULTILINE)
    shown = {name for cell in rows for name in re.findall(r"`(\w+)`", cell)}

    # `paths` is Spark's own form of a list given to load(), and `checkpointLocation` an option of every stream.
    assert set(options.NAMES) - {"paths", "checkpointLocation"} == shown
