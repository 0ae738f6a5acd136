"""A state machine with a database of its own, in memory or in a file, that is whole and gone in the end."""

from __future__ import annotations

import shutil
import tempfile
from typing import ClassVar

from hypothesis.stateful import RuleBasedStateMachine

import reactdb
from tests.support.inspection import problems


class Abandoned(Exception):
    """Raised inside a transaction to take it back."""


class LawMachine(RuleBasedStateMachine):
    """`on_file`: the doctor looks at the file in the end."""

    on_file: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="reactdb-laws-")
        self.path = f"{self.folder}/laws.db" if self.on_file else ":memory:"
        self.db = reactdb.connect(self.path, durability="soft")

    def teardown(self) -> None:
        self.db.close()
        found = problems(self.path) if self.on_file else []
        shutil.rmtree(self.folder)
        assert [] == found
