"""Workers of durable consumers that are killed and stopped, in the short form; `python -m tests.crash --worker-kills 2000` is the
long one."""

from __future__ import annotations

import sys

import pytest

from tests.crash.workers import Workers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it kills and stops processes by signals")


@pytest.mark.parametrize("partitions", [1, 4])
def test_each_change_is_handled_once_and_in_order_whoever_is_killed(partitions: int):
    outcome = Workers.once(partitions, 12, partitions=partitions, workers=3)

    assert [] == outcome.losses
    assert outcome.changes > 0


@pytest.mark.slow
def test_a_worker_that_was_stopped_past_its_lease_is_fenced_off():
    outcome = Workers.once(1, 4, partitions=1, workers=2, stops=0.7)

    assert [] == outcome.losses
    assert outcome.stops > 0


@pytest.mark.slow
@pytest.mark.parametrize("mutant", Workers.mutants)
def test_workers_that_are_wrong_are_noticed(mutant: str):
    assert Workers.noticed(mutant, seed=1).losses
