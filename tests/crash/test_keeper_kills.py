"""Keepers of materialized views that are killed, in the short form; the long one is
`python -m tests.crash --keeper-kills 2000`."""

from __future__ import annotations

import sys

import pytest

from tests.crash import keepers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it kills processes by signals")


@pytest.mark.parametrize("seed", [1, 2])
def test_each_table_is_its_selection_as_of_its_position_whoever_is_killed(seed: int):
    outcome = keepers.run_scenario(seed, 12)

    assert [] == outcome.losses


@pytest.mark.slow
@pytest.mark.parametrize("mutant", keepers.MUTANTS)
def test_keepers_that_are_wrong_are_noticed(mutant: str):
    assert keepers.noticed(mutant, seed=1).losses
