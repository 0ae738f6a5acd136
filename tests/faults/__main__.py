"""python -m tests.faults: every fault, a line a scenario, and a summary. Exit code 1 where a promise was broken, 2 where the
faults cannot be injected here."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.faults import shim


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="fewer cases: some of the calls of each operation"
    )
    parser.add_argument("--only", action="append", default=[], help="scenarios whose name contains this")
    parser.add_argument("--list", action="store_true", help="name the scenarios")
    parser.add_argument("--break", dest="mutant", help="break the store on purpose; the run must then fail")
    arguments = parser.parse_args()
    reason = shim.why_not()
    if reason:
        print(f"skipped: {reason}")
        return 2
    started = time.monotonic()
    # In memory where that can be had: what is tested is what the calls return.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="reactdb-faults-", dir=memory) as name:
        folder = Path(name)
        library = shim.build(folder)
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.faults.worker", str(folder)]
        command += ["--quick"] * arguments.quick + ["--list"] * arguments.list
        command += [part for text in arguments.only for part in ("--only", text)]
        command += ["--break", arguments.mutant] if arguments.mutant else []
        code = subprocess.run(command, env=shim.environment(library, folder / "control")).returncode
    if not arguments.list:
        print(f"{time.monotonic() - started:.0f} s")
    return 1 if code else 0


if __name__ == "__main__":
    sys.exit(main())
