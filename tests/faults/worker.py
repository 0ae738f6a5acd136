"""The process that suffers the faults: started by `python -m tests.faults`, with the library that fails before all others."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from itertools import islice
from pathlib import Path

from reactdb.store import checkpoints

from tests.faults.mutants import MUTANTS
from tests.faults.operations import OPERATIONS, Operation
from tests.faults.shim import Faults
from tests.faults.sweep import SWEPT, Sweep, Tally

# 1, 2, 3, 4, 6, 9, 13, ...
QUICK_GROWTH = 1.5
SLOW_CASES = 0


def sweep(operation: Operation, folder: Path, faults: Faults, growth: float) -> Tally:
    """All faults of one operation."""
    total = Tally()
    here = Sweep(operation, folder, faults)
    for call, error in SWEPT:
        for is_sticky in (False, True):
            # SQLite tries for ten seconds before it gives up a lock on the shared memory.
            most = SLOW_CASES if call == "lock" and is_sticky else None
            for _, tally in islice(here.faults_of(call, error, is_sticky, growth), most):
                total.add(tally)
    return total


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--break", dest="mutant")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    checkpoints.LOCK_WAIT_S = 0.02
    if arguments.mutant:
        MUTANTS[arguments.mutant][0]()
    faults = Faults(arguments.folder)
    total, scenarios = Tally(), 0
    for operation in OPERATIONS:
        name = f"sweep {operation.name}"
        if arguments.only and not any(text in name for text in arguments.only):
            continue
        if arguments.list:
            print(name)
            continue
        started = time.monotonic()
        folder = arguments.folder / f"operation{scenarios}"
        folder.mkdir()
        tally = sweep(operation, folder, faults, QUICK_GROWTH if arguments.quick else 1.0)
        total.add(tally)
        scenarios += 1
        errors = ", ".join(f"{count} {kind}" for kind, count in sorted(tally.errors.items()))
        print(
            f"{'ok    ' if not tally.broken else 'BROKEN'} {name}: {tally.cases} faults, {tally.absorbed} without effect"
            f"{', ' + errors if errors else ''} ({time.monotonic() - started:.1f} s)",
            flush=True,
        )
        for broken in tally.broken[:20]:
            print("      ", broken, flush=True)
    if not arguments.list:
        print(f"{scenarios} scenarios, {total.cases} faults, {len(total.broken)} promises broken")
    return 1 if total.broken else 0


if __name__ == "__main__":
    sys.exit(main())
