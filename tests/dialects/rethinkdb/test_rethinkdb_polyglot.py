"""RethinkDB's own test files, run with its own driver against reactdb."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dialects.rethinkdb.acceptance import FOLDER
from tests.dialects.rethinkdb.acceptance.polyglot import Runner

POLYGLOT = FOLDER / "polyglot"
CHANGEFEEDS = sorted(POLYGLOT.glob("*changefeeds/*.yaml"))
RELATED = sorted(POLYGLOT.glob("related/*.yaml"))

if not CHANGEFEEDS:
    pytest.skip(f"RethinkDB's test files are not at {POLYGLOT}", allow_module_level=True)

GEOMETRY = "geometry is stored and read, not indexed nor computed with"
CLUSTER = "there is no cluster: nothing to reconfigure, and a status that never changes and cannot be watched"
JAVASCRIPT = "there is no JavaScript engine"
RUBY = "the recorded line is Ruby that no one translated: a real server fails it as well"
LITERAL = (
    "a real server fails it as well: it removes a field that an earlier, untranslated line would have made"
)
NEXT = "of RethinkDB's branch `next`: does not hold on a real 2.4 server"
FILLED = "an index is filled when it is made, so it never shows progress"

# File -> line -> why it differs.
DIFFERENT: dict[str, dict[int, str]] = {
    "geo.rb.yaml": {4: GEOMETRY, 7: GEOMETRY, 20: GEOMETRY, 22: GEOMETRY, 25: GEOMETRY},
    "point.yaml": {135: CLUSTER, 137: CLUSTER, 140: CLUSTER, 143: CLUSTER},
    "atomic_get_set.yaml": {66: RUBY, 68: LITERAL},
    "default.yaml": {130: JAVASCRIPT, 134: JAVASCRIPT},
    "insert.yaml": {198: RUBY, 200: RUBY},
    "now.py_one.next-branch.yaml": {5: NEXT, 8: NEXT},
    "replace.yaml": {83: JAVASCRIPT},
    "sindex_status.yaml": {44: FILLED, 66: FILLED},
    "transformation.yaml": {369: RUBY, 374: RUBY},
    "update.yaml": {125: JAVASCRIPT, 153: RUBY},
}


@pytest.mark.parametrize("path", [*CHANGEFEEDS, *RELATED], ids=lambda path: path.stem)
def test_a_file_of_rethinkdb_passes(path: Path) -> None:
    """But for the lines that are listed, and those must still differ."""
    runner = Runner(path)
    runner.run()

    listed = DIFFERENT.get(path.name, {})
    assert [] == [failure for failure in runner.failures if failure[0] not in listed]
    assert set(listed) == {line for line, _, _ in runner.failures}


def test_the_changefeed_files_hold_259_assertions_without_geometry_and_clusters() -> None:
    passed = 0
    for path in CHANGEFEEDS:
        runner = Runner(path)
        runner.run()
        passed += runner.checked - len(runner.failures)

    assert passed >= 259
