"""python -m tests.schedules: does any schedule of threads break a law?

    python -m tests.schedules                     all schedules with up to two preemptions: minutes
    python -m tests.schedules --most 500          so many of each scenario: a sample, the same each time
    python -m tests.schedules --short             the sample that runs with the other tests
    python -m tests.schedules queue cursors       scenarios with these words in their names
    python -m tests.schedules --preemptions 3
    python -m tests.schedules --whole             preempted at every line of reactdb, not of where threads meet only
    python -m tests.schedules --fine              preempted between the instructions of a line, too
    python -m tests.schedules "queue: two hard" --replay 11:1,40:0     one schedule, told line by line
    python -m tests.schedules --prove             of small programs with known mistakes, each must be found
    python -m tests.schedules --flows             of tasks, generators and greenlets in one thread, in the place of threads
    python -m tests.schedules --flows "tasks: three" --replay a,b,a
    python -m tests.schedules --list

Ends with status 1 where a law is broken, or where a scenario does not do the same each time.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.schedules.explorer import Scenario

ROOT = Path(__file__).resolve().parents[2]
WHOLE = ("reactdb.store", "reactdb.feeds")


def ask(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.schedules", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("words", nargs="*")
    parser.add_argument("--preemptions", type=int, default=2)
    parser.add_argument("--most", type=int)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--fine", action="store_true")
    parser.add_argument("--replay")
    parser.add_argument("--prove", action="store_true")
    parser.add_argument("--flows", action="store_true")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args(arguments)


def check(scenario: Scenario, asked: argparse.Namespace) -> bool:
    """Explore it, and print what was found. Whether all laws hold."""
    from tests.schedules.explorer import explore

    start = perf_counter()
    most_runs = scenario.short_runs if asked.short else asked.most
    report = explore(scenario, preemptions=asked.preemptions, most_runs=most_runs)
    took_s = perf_counter() - start
    left = f", {report.left} left" if report.left else ""
    print(f"{scenario.name}: {report.runs} schedules in {took_s:.1f} s{left}", flush=True)
    if report.diverged:
        print(
            f"    {report.diverged} of them did not come to where they should: it does not do the same each time"
        )
    for schedule, broken in report.failures:
        print(f"    --replay {','.join(map(str, schedule)) or '-'}    {broken}")
    return not report.failures and not report.diverged


def prove() -> bool:
    """Whether the mistakes of the samples are found, and nothing is found where there is none."""
    from tests.schedules.explorer import explore
    from tests.schedules.samples import RIGHT, WRONG

    is_proven = True
    for scenario in (*RIGHT, *WRONG):
        report = explore(scenario)
        is_right = (bool(report.failures) is (scenario in WRONG)) and not report.diverged
        found = report.failures[0][1] if report.failures else "nothing wrong"
        print(
            f"{scenario.name}: {report.runs} schedules, {found}{'' if is_right else '    NOT AS IT SHOULD BE'}"
        )
        is_proven &= is_right
    return is_proven


def replay(scenario: Scenario, wanted: str) -> bool:
    """Run it under one schedule, and print which thread ran which line."""
    from tests.schedules.explorer import Decision, run_once

    steps = [] if wanted == "-" else [tuple(map(int, one.split(":"))) for one in wanted.split(",")]
    schedule: tuple[Decision, ...] = ()
    for _ in range(2):
        run_once(scenario)
    gc.collect()
    for step, thread in steps:
        # A schedule names the places where it decides; they are where the run with the decisions before it comes to.
        places = {option.step: option.place for option in run_once(scenario, schedule).run.options}
        schedule = (*schedule, Decision(step, thread, places[step]))
    outcome = run_once(scenario, schedule, is_told=True)
    before = ""
    for thread_name, path, line, function in outcome.run.story or ():
        if thread_name != before:
            print(f"{thread_name}:")
            before = thread_name
        text = Path(path).read_text().splitlines()[line - 1].strip()
        print(f"    {Path(path).name}:{line} {function}: {text}")
    print(outcome.broken or "all laws hold")
    return not outcome.broken


def check_flows(asked: argparse.Namespace) -> int:
    """The scenarios of flows. Python's locks stay: nothing else runs."""
    from tests.schedules.flows import FLOW_SCENARIOS, SHORT_RUNS, explore_flows, run_flows

    chosen = [
        one for one in FLOW_SCENARIOS if not asked.words or any(word in one.name for word in asked.words)
    ]
    is_right = bool(chosen)
    for scenario in chosen:
        if asked.list:
            print(scenario.name)
        elif asked.replay:
            turns, _, broken = run_flows(scenario, asked.replay.split(","))
            print(",".join(turns), broken or "all laws hold")
            return 1 if broken else 0
        else:
            report = explore_flows(scenario, SHORT_RUNS if asked.short else asked.most)
            print(f"{scenario.name}: {report.runs} schedules, {report.left} left", flush=True)
            for schedule, broken in report.failures:
                print(f"    --replay {','.join(schedule)}    {broken}")
            is_right &= not report.failures
    return 0 if is_right else 1


def main() -> int:
    asked = ask()
    if asked.flows:
        return check_flows(asked)
    from tests.schedules.control import install

    install()
    if asked.prove:
        return 0 if prove() else 1
    from tests.schedules.scenarios import SCENARIOS

    chosen = [one for one in SCENARIOS if not asked.words or any(word in one.name for word in asked.words)]
    if not chosen:
        print("no scenario has these words in its name")
        return 2
    for scenario in chosen:
        scenario.is_fine = asked.fine
        if asked.whole:
            scenario.modules = WHOLE
    if asked.list:
        for scenario in chosen:
            print(scenario.name)
        return 0
    if asked.replay:
        return 0 if replay(chosen[0], asked.replay) else 1
    is_right = True
    for scenario in chosen:
        is_right &= check(scenario, asked)
    return 0 if is_right else 1


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets of names must be the same in each process, or a schedule could not be replayed in another.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.schedules", *sys.argv[1:]])
    status = main()
    sys.stdout.flush()
    # Threads that wait for ever are left where they are.
    os._exit(status)
