"""The mutants of `python -m tests.mutants` still fit the code: one that does not apply would prove nothing."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.mutants.mutants import MUTANTS

ROOT = Path(__file__).parents[2]


def test_each_mutant_changes_one_place_and_is_still_a_program():
    files = {mutant.file: (ROOT / "reactdb" / mutant.file).read_text() for mutant in MUTANTS}

    assert [] == [mutant.name for mutant in MUTANTS if files[mutant.file].count(mutant.old) != 1]
    for mutant in MUTANTS:
        ast.parse(files[mutant.file].replace(mutant.old, mutant.new))


def test_the_tests_that_are_to_notice_a_mutant_are_there():
    named = {test for mutant in MUTANTS for test in mutant.tests}
    files = {file: (ROOT / file).read_text() for file in {test.split("::")[0] for test in named}}

    assert [] == [
        test
        for test in sorted(named)
        for name in test.split("::")[1:]
        if f"class {name}:\n" not in files[test.split("::")[0]]
        and f"def {name}(" not in files[test.split("::")[0]]
    ]
