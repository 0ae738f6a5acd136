"""The budget of each test: a plugin that fails a run in which an unmarked test takes too much CPU time.

    python -m pytest -p tests.support.budget

It counts the CPU time of the test, its fixtures and its child processes, and not elapsed time: a busy machine delays a test,
but adds little to its CPU time. A test above the budget must become cheaper, or get a marker: slow, long or soak.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

MOST_S = 3.0

_costs: list[tuple[float, str]] = []
_begun = pytest.StashKey[float]()


def spent_s() -> float:
    """CPU time of this process, and of those that it started and that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_begun] = spent_s()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    if call.when == "teardown" and _begun in item.stash:
        # The report carries it from the process that ran the test to the one that prints.
        item.user_properties.append(("cpu_s", spent_s() - item.stash[_begun]))
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "teardown":
        _costs.extend(
            (float(value), report.nodeid) for name, value in report.user_properties if name == "cpu_s"
        )


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.exitstatus == pytest.ExitCode.OK and any(cost > MOST_S for cost, _ in _costs):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _costs:
        return
    terminalreporter.section("CPU time")
    terminalreporter.write_line(
        f"{sum(cost for cost, _ in _costs):.0f} s in {len(_costs)} tests; the dearest:"
    )
    for cost, name in sorted(_costs, reverse=True)[:20]:
        terminalreporter.write_line(f"{cost:6.2f} s {'TOO MUCH ' if cost > MOST_S else ''}{name}")
