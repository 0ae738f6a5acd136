"""What was recorded, replayed through the real server in real time: probes, traces and RethinkDB's own test files.

Each has a database of its own behind a server of its own, and they run in parallel. The ordinary run has a selection that does
not depend on times, so that a busy machine changes nothing. The whole takes a minute on two idle cores, and includes the feeds
that wait:

    pytest -m long tests/dialects/rethinkdb/test_rethinkdb_real_time.py
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.dialects.rethinkdb import test_rethinkdb_polyglot as polyglot
from tests.dialects.rethinkdb.acceptance import FOLDER, fuzz
from tests.dialects.rethinkdb.acceptance.deviations import deviations
from tests.dialects.rethinkdb.acceptance.polyglot import Runner
from tests.dialects.rethinkdb.acceptance.probes import read, replay, squash_of
from tests.dialects.rethinkdb.acceptance.real_time import RealTime

PROBES = read()
AT_A_TIME = 8

if not PROBES:
    pytest.skip(f"the recordings are not at {FOLDER}", allow_module_level=True)


def is_timed(probe: dict[str, Any]) -> bool:
    return any(squash_of(step.get("wire")) for step in probe["steps"])


SELECTED = [probe for probe in PROBES if not is_timed(probe)][::12]


def wrong(probes: list[dict[str, Any]]) -> dict[str, Any]:
    """Name -> what a probe gave that is neither recorded nor a known difference."""

    def one(probe: dict[str, Any]) -> Any:
        try:
            found = replay(probe, RealTime())
        except Exception:
            return traceback.format_exc()
        return None if found == deviations().get(probe["id"], {}) else found

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        found = dict(zip([probe["id"] for probe in probes], pool.map(one, probes), strict=True))
    return {name: trouble for name, trouble in found.items() if trouble is not None}


def beside_one_another(function: Callable[[Any], list[Any]], inputs: list[Any]) -> list[Any]:
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return [trouble for troubles in pool.map(function, inputs) for trouble in troubles]


def played(path: Path) -> list[Any]:
    """What of a file of RethinkDB's differs otherwise than listed."""
    runner = Runner(path, is_served=True)
    runner.run()
    listed = polyglot.DIFFERENT.get(path.name, {})
    unlisted = [(path.name, *failure) for failure in runner.failures if failure[0] not in listed]
    missing = set(listed) - {line for line, _, _ in runner.failures}
    return [*unlisted, *((path.name, line, "does not differ any more") for line in sorted(missing))]


@pytest.mark.slow
def test_selected_probes_go_as_recorded_through_the_server() -> None:
    assert {} == wrong(SELECTED)


@pytest.mark.long
def test_every_probe_goes_as_recorded_through_the_server() -> None:
    assert {} == wrong(PROBES)


@pytest.mark.long
def test_every_trace_goes_as_recorded_through_the_server() -> None:
    assert [] == beside_one_another(lambda name: fuzz.differences(name, RealTime()), fuzz.names())


@pytest.mark.long
def test_every_file_of_rethinkdb_passes_through_the_server() -> None:
    assert [] == beside_one_another(played, [*polyglot.CHANGEFEEDS, *polyglot.RELATED])
