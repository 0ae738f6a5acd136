"""python -m tests.mutants: do the tests notice mistakes in the code?

    python -m tests.mutants                     the mistakes that are kept by hand, one line each
    python -m tests.mutants queue index         those with these words in their names
    python -m tests.mutants --list              their names
    python -m tests.mutants --changed           mistakes in the lines that are not committed yet
    python -m tests.mutants --changed main      mistakes in the lines that differ from a commit or a branch
    python -m tests.mutants --changed main --tests tests/store --most 50

The exit code is 1 if a mutant survives. Each mutant is made in a copy of the project in a temporary folder, and its tests run
there until the first failure. Before that they run once without a mutant: a test that fails anyway would notice nothing.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.generate import Generated, changed_lines, find_tests, mutants_of
from tests.mutants.mutants import MUTANTS, Mutant
from tests.mutants.patterns import replace
from tests.mutants.project import ROOT, changed_file, copy_project, locate, run_tests

TIMEOUT_S = 600
# A mutant may make tests slower, and the machine may be busy.
LEAST_TIMEOUT_S = 60
TIMES_AS_LONG = 5


def judge(
    name: str, path: Path, source: str, project: Path, tests: tuple[str, ...], **options: float
) -> bool:
    """Whether a test notices the mutant. Prints one line."""
    start = time.perf_counter()
    with changed_file(path, source):
        code, output = run_tests(
            project, tests, timeout_s=options["timeout_s"], with_slow=bool(options["with_slow"])
        )
    # 1: a test failed. 2, 3 and 4 are troubles of pytest, which a module that cannot be imported causes, too.
    verdict = f"caught by {first_failure(output)}" if code == 1 else f"SURVIVED (pytest ended with {code})"
    print(f"{name}: {verdict} ({time.perf_counter() - start:.0f} s)", flush=True)
    return code == 1


def first_failure(output: str) -> str:
    line = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    return line[1] if line else "the end of the run"


def check_healthy(project: Path, tests: tuple[str, ...], *, with_slow: bool) -> float | None:
    """The seconds that the tests take without a mutant; None if one fails."""
    start = time.perf_counter()
    code, output = run_tests(project, tests, timeout_s=None, with_slow=with_slow)
    if code:
        print(output[-3000:])
        print("the tests fail without any mutant")
        return None
    return time.perf_counter() - start


def run_kept(chosen: list[Mutant]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        project = copy_project(Path(folder))
        tests = tuple(dict.fromkeys(test for mutant in chosen for test in mutant.tests))
        if check_healthy(project, tests, with_slow=True) is None:
            return 2
        survivors = []
        for mutant in chosen:
            file, scope = locate(mutant.place, project)
            source = (project / file).read_text(encoding="utf-8")
            mutated = replace(source, scope, mutant.pattern, mutant.replacement)
            if not judge(
                mutant.name,
                project / file,
                mutated,
                project,
                mutant.tests,
                timeout_s=TIMEOUT_S,
                with_slow=True,
            ):
                survivors.append(mutant.name)
    return report(survivors, len(chosen))


def run_changed(base: str, tests: list[str], most: int | None, *, only_list: bool) -> int:
    made = [
        mutant
        for file, lines in sorted(changed_lines(base, ROOT).items())
        for mutant in mutants_of(file, (ROOT / file).read_text(encoding="utf-8"), lines)
    ]
    if most is not None and len(made) > most:
        # Spread over all of the changes.
        made = [made[place * len(made) // most] for place in range(most)]
    if only_list:
        print("\n".join(map(str, made)))
        return 0
    survivors: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        project = copy_project(Path(folder))
        for file in dict.fromkeys(mutant.file for mutant in made):
            own = [mutant for mutant in made if mutant.file == file]
            survivors += judge_file(project, file, own, tuple(tests or find_tests(file, ROOT)))
    return report(survivors, len(made))


def judge_file(project: Path, file: str, made: list[Generated], tests: tuple[str, ...]) -> list[str]:
    """The survivors among the mutants of one file."""
    print(f"{file}: {len(made)} mutants, {' '.join(tests)}", flush=True)
    seconds = check_healthy(project, tests, with_slow=False)
    if seconds is None:
        return [f"{file}: its tests fail"]
    timeout_s = max(LEAST_TIMEOUT_S, TIMES_AS_LONG * seconds)
    return [
        str(mutant)
        for mutant in made
        if not judge(
            str(mutant), project / file, mutant.source, project, tests, timeout_s=timeout_s, with_slow=False
        )
    ]


def report(survivors: list[str], count: int) -> int:
    print(f"{count - len(survivors)} of {count} mutants are caught")
    for name in survivors:
        print(f"survived: {name}")
    return 1 if survivors else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "words", nargs="*", help="only the kept mutants with one of these words in their names"
    )
    parser.add_argument("--list", action="store_true", help="print the mutants and stop")
    parser.add_argument("--changed", nargs="?", const="HEAD", metavar="BASE", help="mutants of changed lines")
    parser.add_argument("--tests", nargs="+", default=[], metavar="PATH", help="the tests of changed lines")
    parser.add_argument("--most", type=int, metavar="N", help="at most so many mutants of changed lines")
    arguments = parser.parse_args()
    if arguments.changed is not None:
        return run_changed(arguments.changed, arguments.tests, arguments.most, only_list=arguments.list)
    words = arguments.words
    chosen = [one for one in MUTANTS if not words or any(word in one.name for word in words)]
    if not chosen:
        parser.error("no mutant has one of these words in its name")
    if arguments.list:
        print("\n".join(one.name for one in chosen))
        return 0
    return run_kept(chosen)


if __name__ == "__main__":
    sys.exit(main())
