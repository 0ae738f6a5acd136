"""Workers that carry a request out where it is submitted, so that a run of a server's code has one thread and one order.

Rule of this file: what `reactdb.servers.workers` has, without threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from reactdb.budget import Crowd

QUERY_S = 1.0
"""Seconds that one request may be evaluated. What takes longer is ended by the budget,
which is an answer; what does not ask the
budget is found by `judge`."""


class InPlaceWorkers:
    def __init__(self) -> None:
        self.crowd = Crowd()
        self.jobs: set[Future[Any]] = set()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        job: Future[Any] = Future()
        try:
            job.set_result(function(*arguments))
        except Exception as error:
            job.set_exception(error)
        return job

    def put_off(self, work: Callable[[], None]) -> bool:
        return False

    def close(self) -> None:
        pass
