"""The workload with a second process: how soon it gets the event of a commit. See `workloads`; `other_process` has the details.

Rule of this file: as in `workloads`.
"""

from __future__ import annotations

from benchmarks.harness import ROOT, Bench, Figures, Workload, package_folder
from benchmarks.other_process import measure
from benchmarks.peers import NotOffered
from benchmarks.workloads import WORKLOADS

PACE_MS = 5
"""Between two commits: the other process has gone to sleep again, and is not yet drowsy."""


def latency_elsewhere(bench: Bench) -> Figures:
    """Write a document 300 times, soft, a commit each, while another process has a listener; until that is called.

    Answers: how soon does it hear? Look at "after": from the moment when the write has returned here. Expect what it takes to
    wake a process that waits for the log to be written, and to read it.
    """
    if bench.peer.name != "reactdb":
        raise NotOffered
    if package_folder().parent != ROOT:
        raise NotOffered("the other process would have the copy beside the benchmarks")
    [found] = measure(bench.count(300, least=20), "soft", (PACE_MS,), idle_s=0.01)
    return {"p50": found["p50_us"], "p99": found["p99_us"], "after": max(0.001, found["after_p50_us"])}


def register() -> None:
    """Add it. Once."""
    if not any(one.name == "W4-process" for one in WORKLOADS):
        WORKLOADS.append(Workload("W4-process", "µs from write to listener", latency_elsewhere))
