"""python -m tests.fuzz --minutes 10: gives every target inputs that a stranger might send, and tells what fails.

Each target runs in a process of its own, one after the other; the minutes are shared among them. An input that fails is kept
in the
folder of `--findings`; put it into tests/fuzz/corpus/TARGET/, where the ordinary run tries it for ever. Exit code 1 where
there was
a failure.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.target import Failure, judge
from tests.fuzz.targets import FILES, find

GRACE_S = 300
"""How much longer than it was told a campaign may take, before it is taken for stuck."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="of all targets together")
    parser.add_argument(
        "--target", action="append", choices=sorted(FILES), help="only this one; may be given again"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--findings", type=Path, help="the folder for inputs that fail; a temporary one by default"
    )
    parser.add_argument("--plain", action="store_true", help="without Atheris, also where it is installed")
    parser.add_argument("--input", type=Path, help="run one target with this file, and nothing else")
    parser.add_argument("--list", action="store_true", help="name the targets")
    arguments = parser.parse_args()
    names = arguments.target or list(FILES)
    if arguments.list:
        print("\n".join(FILES))
        return 0
    if arguments.input is not None:
        return run_input(names, arguments.input)
    if importlib.util.find_spec("atheris") is None and not arguments.plain:
        print(
            "Atheris is not installed (pip install 'reactdb[fuzz]'): inputs are changed at random, without coverage."
        )
    folder = arguments.findings or Path(tempfile.mkdtemp(prefix="reactdb-fuzz-"))
    folder.mkdir(parents=True, exist_ok=True)
    seconds = arguments.minutes * 60 / len(names)
    codes = [run_campaign(name, seconds, arguments.seed, folder, is_plain=arguments.plain) for name in names]
    return 1 if any(codes) else 0


def run_input(names: list[str], path: Path) -> int:
    for name in names:
        try:
            judge(find(name), path.read_bytes())
        except Failure as failure:
            print(f"{name}: {failure}")
            return 1
    return 0


def run_campaign(name: str, seconds: float, seed: int, folder: Path, *, is_plain: bool) -> int:
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.campaign",
        name,
        str(seconds),
        str(seed),
        str(folder),
        *["--plain"] * is_plain,
    ]
    try:
        code = subprocess.run(command, timeout=seconds + GRACE_S).returncode
    except subprocess.TimeoutExpired:
        code = -1
    if code not in (0, 1):
        print(f"{name}: the process ended with {code}, at the input in {folder / f'{name}.current'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
