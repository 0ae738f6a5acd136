"""Another copy of the package as a peer, such as an earlier version: `python -m benchmarks --beside FOLDER`.

A process can have one copy of the package only. So each run of a workload is made in a new process, with this copy as well as
with the other, and with the workloads and peers of this folder. They take turns as all peers do.

Rule of this file: a copy that lacks something leaves the workload out, and says why.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import BESIDE, OURS, ROOT
from benchmarks.peers import NotOffered, Peer

PROGRAM = """
import sys
folder, root, workload, scale = sys.argv[1:]
sys.path.insert(0, folder)
import reactdb
# Only the package is the other copy: both have the same benchmarks.
sys.path[0] = root
from benchmarks.beside import run_alone
run_alone(workload, float(scale))
"""
# Seconds: making a file of a million documents is in it.
LONGEST_S = 1_800


class Copy(Peer):
    """reactdb from a folder, in a process for each run."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder

    def figures(self, workload: str, scale: float) -> dict[str, float] | None:
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(self.folder), str(ROOT), workload, str(scale)],
            cwd=tempfile.gettempdir(),
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
        )
        if ended.returncode:
            raise NotOffered((ended.stderr.strip().splitlines() or ["it ended without a word"])[-1])
        figures: dict[str, float] | str = json.loads(ended.stdout.splitlines()[-1])
        if isinstance(figures, str):
            raise NotOffered(figures)
        return figures


def copies(peers: Sequence[Peer], other: Path) -> list[Peer]:
    """The peers, with reactdb in processes of its own, and with the copy in the folder `other` after it."""
    found: list[Peer] = []
    for peer in peers:
        found += [Copy(OURS, ROOT), Copy(f"{BESIDE}{other.name}", other)] if peer.name == OURS else [peer]
    return found


def run_alone(name: str, scale: float) -> None:
    """Run a workload once, with the copy that is imported, and print its figures as JSON; a sentence where it cannot."""
    from benchmarks import feed_workloads, workloads
    from benchmarks.documents import documents
    from benchmarks.feed_workloads import ignore
    from benchmarks.harness import Bench
    from benchmarks.peers.reactdb import PEERS

    feed_workloads.register()
    [workload] = [each for each in workloads.WORKLOADS if each.name == name]
    [document] = documents(1)
    found: Any
    with tempfile.TemporaryDirectory(prefix="reactdb-benchmarks-") as folder:
        bench = Bench(PEERS[0], scale, Path(folder))
        # What is imported at the first use is not what a workload measures, but W12, which has processes of its own.
        with bench.empty() as store:
            store.hear_table(ignore)
            store.insert_all([document])
            store.get_each([document["id"]])
            store.hush()
        try:
            found = workload.run(bench)
        except NotOffered as reason:
            found = str(reason)
    print(json.dumps(found))
