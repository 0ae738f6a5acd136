"""`python -m benchmarks`: run workloads, print the table, and the marks with pass or miss.

python -m benchmarks                            everything, about an hour
python -m benchmarks --workload W1 W10-get      these (W1 is every W1-something too)
python -m benchmarks --quick                    a hundredth of the size, once: does it run?
python -m benchmarks --from FILE ...            what --json kept; of a peer in a workload, the last file's counts
python -m benchmarks --beside FOLDER            and another copy of the package, such as an earlier version
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import beside, feed_workloads, machine, marks, peers, report, workloads
from benchmarks.harness import BASE, OURS, Outcome, Workload, measure

QUICK_SCALE = 0.01
STDOUT = "-"
feed_workloads.register()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--workload", nargs="+", action="extend", default=[], metavar="NAME", help="default: all"
    )
    parser.add_argument(
        "--peer",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME",
        help=f"beside {BASE}; default: all that are installed",
    )
    parser.add_argument(
        "--beside",
        type=Path,
        metavar="FOLDER",
        help="compare with the copy of the package that lies in FOLDER; each run of both is a process of its own",
    )
    parser.add_argument("--repeat", type=int, metavar="N", help="default: 5, with --quick 1")
    parser.add_argument(
        "--others", type=int, metavar="N", help="repeat the other databases N times only; default: as often"
    )
    parser.add_argument(
        "--json",
        nargs="?",
        const=STDOUT,
        metavar="FILE",
        help="write every sample here; without FILE, or with -, to standard output in place of the table",
    )
    parser.add_argument(
        "--from", type=Path, nargs="+", metavar="FILE", dest="sources", help="measure nothing, take these"
    )
    parser.add_argument("--markdown", action="store_true", help="print the table as the README has it")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the size: not a measurement")
    parser.add_argument("--list", action="store_true", help="name the workloads and peers, and run nothing")
    given = parser.parse_args(arguments)

    if given.json not in (None, STDOUT):
        # A wrong path must be reported before an hour of measuring, and not after it.
        folder = Path(given.json).absolute().parent
        if not folder.is_dir() or Path(given.json).is_dir():
            parser.error(f"--json cannot write {given.json}: it is a folder, or its folder does not exist")
    if given.sources:
        try:
            kept = report.read(given.sources)
        except OSError as error:
            parser.error(f"--from cannot read {error.filename}: {error.strerror}")
        except (ValueError, KeyError, TypeError):
            parser.error("--from takes files that --json wrote")
        keep(given, *kept)
        show(given, *kept)
        return 0
    known, missing = peers.load()
    try:
        chosen = workloads.chosen(given.workload)
    except KeyError as error:
        parser.error(f"there is no workload {error}; --list names them")
    asked = {name.lower() for name in given.peer}
    for name in given.peer:
        if name.lower() not in {peer.name for peer in known}:
            parser.error(f"there is no peer {name!r}, or it is not installed; --list names them")
    if given.beside is not None and not (given.beside / OURS / "__init__.py").is_file():
        parser.error(f"--beside takes a folder that {OURS} lies in, not {given.beside}")
    if given.list:
        print_lists(chosen, known, missing)
        return 0
    repeat = given.repeat if given.repeat is not None else 1 if given.quick else 5
    if repeat < 1:
        parser.error("--repeat is a number from 1")
    if given.others is not None and given.others < 1:
        parser.error("--others is a number from 1")

    for reason in missing:
        print("left out:", reason, file=sys.stderr)
    taking_part = [peer for peer in known if not asked or peer.name == BASE or peer.name in asked]
    if given.beside is not None:
        taking_part = beside.copies(taking_part, given.beside.resolve())
    scale = QUICK_SCALE if given.quick else 1.0
    what, how = machine.describe(), {"repeat": repeat, "scale": scale}
    outcomes: list[Outcome] = []
    for outcome in measure(chosen, taking_part, repeat=repeat, scale=scale, others=given.others):
        outcomes.append(outcome)
        # Every outcome is written at once, so that a long run can be stopped before its end.
        keep(given, what, how, outcomes)
    show(given, what, how, outcomes)
    return 0


def keep(
    given: argparse.Namespace, what: machine.Machine, how: dict[str, Any], outcomes: Sequence[Outcome]
) -> None:
    if given.json not in (None, STDOUT):
        found = report.data(what, how, outcomes, marks.verdicts(outcomes))
        Path(given.json).write_text(json.dumps(found, indent=1) + "\n")


def show(
    given: argparse.Namespace, what: machine.Machine, how: dict[str, Any], outcomes: Sequence[Outcome]
) -> None:
    found = marks.verdicts(outcomes)
    if given.json == STDOUT:
        print(json.dumps(report.data(what, how, outcomes, found), indent=1))
    elif given.markdown:
        print(report.markdown(outcomes, found))
    else:
        print(report.text(what, how, outcomes, found))


def print_lists(chosen: Sequence[Workload], known: Sequence[peers.Peer], missing: Sequence[str]) -> None:
    for workload in chosen:
        print(f"{workload.name:<24}{workload.title}; {workload.unit}")
    print()
    print("peers:", ", ".join(peer.name for peer in known))
    for reason in missing:
        print("left out:", reason)


if __name__ == "__main__":
    sys.exit(main())
