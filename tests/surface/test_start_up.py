"""The imports of a program before its first live result; and a feed is an Observable all the same.

The programs run in processes of their own, because this one has already imported everything.
"""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

LIVE = """
    import sys
    import reactdb
    db = reactdb.connect(":memory:")
    table = db.table_create("games")
    feed = table.changes()
    heard = []
    subscription = feed.subscribe(heard.append)
    table.insert({"id": 1})
    assert [{"old_val": None, "new_val": {"id": 1}}] == heard
"""


def printed_by(program: str) -> list[str]:
    code = dedent(LIVE) + dedent(program)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (0, "") == (result.returncode, result.stderr)
    return result.stdout.split()


def test_what_takes_long_to_import_is_imported_when_it_is_used():
    heavy = ["asyncio", "dataclasses", "inspect", "logging", "reactivex", "sqlite_utils", "subprocess"]

    assert [] == printed_by(f"print(*(name for name in {heavy} if name in sys.modules))")


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "assert isinstance(feed, reactivex.Observable)",
        "assert isinstance(feed, reactivex.abc.ObservableBase)",
        "assert isinstance(table.changes(), reactivex.Observable)",
        "assert isinstance(feed.filter({}), reactivex.Observable)",
        "assert isinstance(feed, reactdb.Feed)",
        "assert not isinstance(feed, reactivex.Subject)",
        "assert feed == feed and feed != None and feed != table.changes() and feed != reactivex.never()",
        "assert isinstance(feed, reactivex.Observable) and isinstance(subscription, reactivex.abc.DisposableBase)",
        "feed.pipe(reactivex.operators.take(1)).subscribe(heard.append); table.insert({'id': 2}); assert len(heard) == 3",
        "reactivex.merge(feed, feed).subscribe(heard.append); table.insert({'id': 2}); assert len(heard) == 4",
        "assert {'pipe', 'subscribe', 'token'} <= set(dir(feed)) and not {'take', 'lock'} & set(dir(feed))",
        "assert not hasattr(feed, 'nothing_like_it')",
    ],
)
def test_reactivex_knows_a_feed_that_was_there_before_it(statement):
    """Whoever asks has imported reactivex, if only after the feed was made."""
    printed_by(f"import reactivex\nimport reactivex.operators\n{statement}")


def test_a_pipe_needs_no_import_of_the_programs_own():
    printed_by("feed.pipe().subscribe(heard.append); table.insert({'id': 2}); assert len(heard) == 3")
