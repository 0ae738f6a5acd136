"""Profiling: `run(profile=True)` adds the evaluated terms, and the time of each, to the answer.

    [{"description": "Evaluating get.", "duration(ms)": 0.04, "sub_tasks": [...]}]

As on a real server, terms inside others are their sub-tasks. A function that became an expression is compiled, so it has no terms
any more. Reading a stream after its term was evaluated is a task of its own.

Rule of this file: queries without a profile do not pay for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from reactdb.dialects.rethinkdb.evaluator import Evaluator, Scope
from reactdb.dialects.rethinkdb.terms import DATUM, FUNC, VAR, Term

MAX_TASKS: Final = 1_000
"""Further tasks are not listed: a function may be evaluated once for each document."""


class Profiler(Evaluator):
    """An Evaluator that records its work and the time in `tasks`."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.tasks: list[dict[str, Any]] = []
        self._inside = self.tasks
        self._count = 0

    def run(self, term: Term, scope: Scope) -> Any:
        if term.type in (DATUM, VAR, FUNC):
            return super().run(term, scope)
        with self.task(f"Evaluating {term.name}."):
            return super().run(term, scope)

    @contextmanager
    def task(self, description: str) -> Iterator[None]:
        """Record the work in the block as a task."""
        self._count += 1
        if self._count > MAX_TASKS:
            yield
            return
        task: dict[str, Any] = {"description": description, "duration(ms)": 0.0, "sub_tasks": []}
        self._inside.append(task)
        around, self._inside = self._inside, task["sub_tasks"]
        began = time.perf_counter()
        try:
            yield
        finally:
            task["duration(ms)"] = (time.perf_counter() - began) * 1_000
            self._inside = around
