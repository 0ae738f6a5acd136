"""The frames and bytecodes of common operations stay within a budget, so that growth is a decision.

`python -m tests.trace` prints the figures. A commit that changes a limit says why. Times depend on the machine; these counts do
not, but they depend on the version of Python.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests import trace

# Frames and bytecodes of CPython 3.11, of all Python code: the package, the standard library and reactivex.
LIMITS = {
    "insert(doc), nobody listens": (42, 1872),
    "insert(doc), one callback on the table": (59, 2736),
    "insert(doc), a filter feed read by a cursor": (74, 3129),
    "update(patch), nobody listens": (55, 2084),
    "update(patch), one callback on the table": (73, 2959),
    "update(patch), 100 filter feeds, none concerned": (68, 2705),
    "update(patch), a feed of the first 10": (114, 4553),
    "update(patch) in a transaction of 100": (41, 1365),
    "update(patch) in a transaction of 100, squashed": (47, 1674),
    "get(key).run()": (13, 329),
    "changes().subscribe(f) and dispose": (194, 3895),
    "filter(...).changes().subscribe(f)": (238, 5038),
    "dispose of filter(...).changes()": (45, 829),
    "MongoDB in the process: insert_one(doc)": (56, 2077),
    "MongoDB in the process: update_one(filter, update)": (206, 5414),
}
# A figure may be so much below its limit. Below that, the limit is lowered to it.
SLACK = 0.03


@pytest.fixture(scope="module")
def figures():
    """Frames and bytecodes of each operation, counted in a process of its own, because objects of other tests would count too."""
    command = [sys.executable, "-m", "tests.trace"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    print(printed)
    lines = [(line[: trace.NAME_WIDTH].strip(), line.split()) for line in printed.splitlines()[1:]]
    return {name: (int(words[-2]), int(words[-1])) for name, words in lines}


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the limits are counts of CPython 3.11")
@pytest.mark.parametrize("name", trace.JOURNEYS)
def test_an_operation_executes_as_many_bytecodes_as_its_limit_allows(name, figures):
    frames, bytecodes = figures[name]
    most_frames, most_bytecodes = LIMITS[name]

    print(f"{name}: {frames} frames, {bytecodes} bytecodes")
    assert frames <= most_frames
    assert most_bytecodes * (1 - SLACK) <= bytecodes <= most_bytecodes
