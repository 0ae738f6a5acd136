"""Keepers of materialized views that are killed, in the short form; the long one is
`python -m tests.crash --keeper-kills 2000`."""

from __future__ import annotations

import sys

import pytest

from tests.crash.keepers import Keepers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it kills processes by signals")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_each_table_is_its_selection_as_of_its_position_whoever_is_killed(seed: int):
    outcome = Keepers.once(seed, 12)

    assert [] == outcome.losses


# Whether two workers are at one table at the same moment is chance: `python -m tests.crash --prove` has the time for that
# mutant, and `tests/mutants` has a test for it that leaves nothing to chance.
@pytest.mark.slow
@pytest.mark.parametrize("mutant", [name for name in Keepers.mutants if name != "whoever writes is believed"])
def test_keepers_that_are_wrong_are_noticed(mutant: str):
    assert Keepers.noticed(mutant, seed=1).losses
