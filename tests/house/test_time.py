"""Nothing but `reactdb/clock.py` reads time: so a virtual clock covers everything, and a frozen time stops no wait."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import reactdb
from tests.house.test_house import nodes

PACKAGE = Path(reactdb.__file__).parent

# Functions that read a clock.
READERS = {
    "time": {
        "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "clock_gettime",
        "gmtime", "localtime", "process_time", "thread_time",
    },
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}  # fmt: skip

# A file or folder, and the reason why it may read time by itself.
ALLOWED = {
    "clock.py": "it is the clock",
    "cli": "a command draws for a person",
    "demo": "the demo plays and measures for a person",
    "spark": "Spark's processes wait for Spark, and look at the age of files",
    "dialects/couchdb/database.py": "how long a step has computed, so that others get a turn",
    "dialects/couchdb/find.py": "how long a query took, for its answer",
    "dialects/rethinkdb/profiling.py": "how long a term took, for the profile",
    "dialects/rethinkdb/embedded.py": "the driver's deadline is a moment of `time.time`",
    "dialects/mongodb/commands/dispatch.py": "how long a command took, for the profile",
    "dialects/mongodb/ttl_sweep.py": "the store's expiry takes its place",
}


def readings(file: Path) -> Iterator[str]:
    """The places in a file that read time, or import a function that does."""
    for node in nodes(file):
        if isinstance(node, ast.Attribute) and isinstance(node.value, (ast.Name, ast.Attribute)):
            owner = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            if node.attr in READERS.get(owner, ()):
                yield f"{node.lineno}: {owner}.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (f"{node.lineno}: {one.name}" for one in node.names if one.name in READERS["time"])


def is_allowed(name: str) -> bool:
    return any(name == place or name.startswith(f"{place}/") for place in ALLOWED)


def test_only_the_clock_reads_time():
    files = {file.relative_to(PACKAGE).as_posix(): file for file in sorted(PACKAGE.rglob("*.py"))}

    assert [] == [
        f"reactdb/{name}:{place}: use reactdb.clock"
        for name, file in files.items()
        if not is_allowed(name)
        for place in readings(file)
    ]


def test_a_reading_of_time_is_found(tmp_path):
    file = tmp_path / "a.py"
    file.write_text(
        "import time, datetime\nfrom time import monotonic, sleep\ntime.sleep(1)\nx = time.time()\n"
        "def f(measure=time.monotonic): ...\ndatetime.datetime.now()\ndatetime.date.today()\n",
        encoding="utf-8",
    )

    assert [
        "2: monotonic",
        "4: time.time",
        "5: time.monotonic",
        "6: datetime.now",
        "7: date.today",
    ] == sorted(readings(file))
