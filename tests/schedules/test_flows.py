"""Flows: the short form of `python -m tests.schedules --flows`, and a proof that it finds known mistakes."""

from __future__ import annotations

from threading import get_ident

import pytest

from reactdb.store.blocks import Block
from reactdb.store.flows import ControlFlow
from tests.schedules.flows import FLOW_SCENARIOS, SHORT_RUNS, FlowScenario, explore_flows, run_flows

BY_NAME = {scenario.name: scenario for scenario in FLOW_SCENARIOS}


@pytest.mark.parametrize("scenario", FLOW_SCENARIOS, ids=lambda scenario: scenario.name)
def test_nobody_sees_keeps_or_loses_anothers_write(scenario: FlowScenario) -> None:
    report = explore_flows(scenario, SHORT_RUNS)

    assert report.failures == []
    assert report.runs == SHORT_RUNS or not report.left


@pytest.mark.long
@pytest.mark.parametrize("scenario", FLOW_SCENARIOS, ids=lambda scenario: scenario.name)
def test_nor_does_anybody_in_more_schedules(scenario: FlowScenario) -> None:
    assert explore_flows(scenario, 1_000).failures == []


@pytest.mark.parametrize("kind", ["tasks", "greenlets"])
@pytest.mark.parametrize("words", ["one is rolled back", "two transactions interleave", "three"])
def test_an_owner_that_is_a_thread_is_found(monkeypatch: pytest.MonkeyPatch, kind: str, words: str) -> None:
    """As it was before: a transaction takes in what every flow of the thread writes."""
    monkeypatch.setattr(ControlFlow, "is_current", lambda self: self.thread == get_ident())
    monkeypatch.setattr(ControlFlow, "is_same", lambda self, other: self.thread == other.thread)
    (scenario,) = (
        one for name, one in BY_NAME.items() if name.startswith(f"{kind}: {words}") and "share" not in name
    )

    assert explore_flows(scenario, SHORT_RUNS).failures


def test_a_part_that_takes_back_what_another_flow_wrote_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Block, "check_savepoint", lambda self, operation: None)

    assert explore_flows(BY_NAME["tasks: a part is another flow's"]).failures


def test_a_transaction_that_ends_before_those_who_share_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Block, "check_end", lambda self: None)

    assert explore_flows(BY_NAME["tasks: it is shared"]).failures


def test_a_schedule_does_the_same_each_time() -> None:
    scenario = BY_NAME["tasks: three, and two of them share"]
    schedule = ["a", "b", "a", "c", "b", "a"]

    assert run_flows(scenario, schedule) == run_flows(scenario, schedule)
