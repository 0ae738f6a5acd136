"""The mutants of `python -m tests.mutants` still fit the code: one that does not apply would prove nothing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants.mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_one_place_and_is_still_a_program(mutant: Mutant) -> None:
    text = (ROOT / "reactdb" / mutant.file).read_text()

    assert text.count(mutant.old) == 1
    ast.parse(text.replace(mutant.old, mutant.new))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_tests_that_are_to_notice_a_mutant_are_there(mutant: Mutant) -> None:
    for test in mutant.tests:
        file, *names = test.split("::")
        text = (ROOT / file).read_text()
        for name in names:
            assert f"class {name}:\n" in text or f"def {name}(" in text
