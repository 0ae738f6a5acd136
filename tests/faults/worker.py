"""The process with the faults: started by `python -m tests.faults`, with the failing library loaded before all others."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from reactdb.store import checkpoints
from tests.faults.mutants import MUTANTS
from tests.faults.operations import OPERATIONS, Operation
from tests.faults.scenarios import SCENARIOS, SLOW, Skipped
from tests.faults.shim import Faults
from tests.faults.sweep import SWEPT, Sweep, Tally

# Of each kind of call, the 1st, 3rd, 9th, 27th, ... fails; of those that go on failing, the 1st, 9th, ...
QUICK_GROWTH = 3.0


def sweep(operation: Operation, folder: Path, faults: Faults, growth: float) -> Tally:
    """All faults of one operation."""
    total = Tally()
    here = Sweep(operation, folder, faults)
    for call, error in SWEPT:
        for is_sticky in (False, True):
            # SQLite tries for ten seconds before it gives up a lock on the shared memory: a scenario has that one.
            most = 0 if call == "lock" and is_sticky else None
            step = growth * growth if is_sticky else growth
            for _, tally in islice(here.faults_of(call, error, is_sticky, step), most):
                total.add(tally)
    return total


def play(scenario: Callable[[Path, Faults], None], folder: Path, faults: Faults) -> tuple[str, str]:
    """(ok, skipped or BROKEN; why)."""
    try:
        scenario(folder, faults)
    except Skipped as reason:
        return "skipped", str(reason)
    except Exception as error:
        logging.getLogger("tests.faults").debug("it broke", exc_info=True)
        return "BROKEN", f"{type(error).__name__}: {error}"
    finally:
        faults.lift()
    return "ok", ""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--break", dest="mutant")
    arguments = parser.parse_args()
    logging.getLogger("reactdb").addHandler(logging.NullHandler())
    logging.getLogger("reactdb").propagate = False
    checkpoints.LOCK_WAIT_S = 0.02
    if arguments.mutant:
        MUTANTS[arguments.mutant][0]()
    faults = Faults(arguments.folder)
    growth = QUICK_GROWTH if arguments.quick else 1.0
    total, count, broken = Tally(), 0, 0
    every: list[Operation | Callable[[Path, Faults], None]] = [*OPERATIONS, *SCENARIOS]
    for place, one in enumerate(every):
        name = (
            f"sweep {one.name}"
            if isinstance(one, Operation)
            else f"scenario {one.__name__.replace('_', ' ')}"
        )
        if arguments.only and not any(text in name for text in arguments.only):
            continue
        if arguments.quick and one in SLOW:
            continue
        count += 1
        if arguments.list:
            print(name)
            continue
        started = time.monotonic()
        folder = arguments.folder / str(place)
        folder.mkdir()
        if isinstance(one, Operation):
            tally = sweep(one, folder, faults, growth)
            total.add(tally)
            verdict = "BROKEN" if tally.broken else "ok"
            errors = [f"{errors} {kind}" for kind, errors in sorted(tally.errors.items())]
            said = ", ".join([f"{tally.cases} faults", f"{tally.absorbed} without effect", *errors])
        else:
            tally = Tally()
            verdict, said = play(one, folder, faults)
        broken += verdict == "BROKEN"
        seconds = f"({time.monotonic() - started:.1f} s)"
        print(f"{verdict:7} {name}{': ' if said else ''}{said} {seconds}", flush=True)
        for line in tally.broken[:20]:
            print("       ", line, flush=True)
    if not arguments.list:
        print(f"{count} scenarios, {total.cases} faults of single calls, {broken} scenarios broken")
    return 1 if broken or not count else 0


if __name__ == "__main__":
    sys.exit(main())
