"""python -m tests.swarm: everything that can happen to a file at once, from one seed. A line a round, and a summary. Exit code 1
where a promise was broken, 2 where the faults cannot be injected here."""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.faults import shim
from tests.swarm.mistakes import FORGOTTEN, MISTAKES
from tests.swarm.schedule import round_of

# Rounds within which each mistake has to be noticed.
ROUNDS_OF_A_MISTAKE = 12


def run(seed: int, seconds: float, rounds: int, mistake: str = "", *, is_loud: bool = True) -> list[str]:
    """Rounds, until the time is over or there were so many. What was wrong with the last one."""
    # Here, after the environment of the processes was set: they are forked from a server that is started with the first one.
    from tests.swarm.referee import Referee
    from tests.swarm.stage import Stage

    # In memory where that can be had: what is tested is what the calls return.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="reactdb-swarm-", dir=memory))
    referee = Referee(folder, has_forgotten=mistake == FORGOTTEN)
    referee.prepare()
    faults = shim.Faults(folder, Path(os.environ["FAILING_CONTROL"]))
    stage = Stage(folder, seed, faults, referee.hear, mistake)
    writes: Counter[str] = Counter()
    number, end = 0, time.monotonic() + seconds
    problems: list[str] = []
    while not problems and number < rounds and (not number or time.monotonic() < end):
        number += 1
        plan = round_of(seed, number)
        stage.play(plan, referee.token)
        now = referee.writes()
        writes += now
        problems = referee.judge()
        if is_loud:
            print(f"{'BROKEN' if problems else 'ok':7}round {number}: {in_words(now)}", flush=True)
    if problems and is_loud:
        print(f"seed {seed}; the schedule of the last round:\n{plan}", flush=True)
    if problems and not mistake:
        problems = [*problems, f"the files are kept in {folder}"]
    else:
        shutil.rmtree(folder)
    if is_loud:
        print(f"seed {seed}, {number} rounds: {in_words(writes)}; {counted(stage.done)}")
        print(f"refused, as may be: {counted(referee.trouble) or 'nothing'}")
    return problems


def in_words(writes: Counter[str]) -> str:
    return (
        f"{writes['done']:,} writes acknowledged, {writes['failed']:,} refused, {writes['doubt']:,} in doubt"
    )


def counted(things: Counter[str]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in sorted(things.items()))


def prove(seed: int) -> int:
    """Every mistake must be noticed: a line each. 1 where one is not, else 0."""
    missed = 0
    for mistake in MISTAKES:
        problems = run(seed, 10_000, ROUNDS_OF_A_MISTAKE, mistake, is_loud=False)
        missed += not problems
        print(f"{mistake}: {problems[0][:200] if problems else 'NOT NOTICED'}", flush=True)
    return 1 if missed else 0


def main() -> int:
    # The errors that were ordered are many.
    logging.getLogger("reactdb").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(prog="python -m tests.swarm", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1, help="of the schedule (default: 1)")
    parser.add_argument("--rounds", type=int, default=1_000_000, metavar="N", help="end after so many")
    parser.add_argument("--break", dest="mistake", choices=MISTAKES, default="", help="must then fail")
    parser.add_argument("--prove", action="store_true", help="make each mistake: all must be noticed")
    parser.add_argument("--list", type=int, metavar="N", help="print the schedule of so many rounds")
    options = parser.parse_args()
    if options.list is not None:
        print("\n".join(str(round_of(options.seed, number + 1)) for number in range(options.list)))
        return 0
    reason = shim.why_not()
    if reason:
        print(f"skipped: {reason}")
        return 2
    with tempfile.TemporaryDirectory(prefix="reactdb-swarm-") as folder:
        library = shim.build(Path(folder))
        os.environ.update(shim.environment(library, Path(folder, "control")))
        if options.prove:
            return prove(options.seed)
        problems = run(options.seed, options.minutes * 60, options.rounds, options.mistake)
    for problem in problems[:20]:
        print(f"  {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
