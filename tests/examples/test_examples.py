"""The examples run as a newcomer runs them, each in a process of its own, and print what they are meant to show.

Rule of this file: it runs the examples of `OUTPUT`. Those with a window, a browser or a notebook have a test file of their own
in this folder. The rules at the end are for all examples.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from reactdb.errors import SparkUnavailable
from reactdb.spark import check

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = sorted(
    path for path in (ROOT / "examples").iterdir() if path.is_dir() and path.name != "__pycache__"
)
PROGRAMS = [folder / "main.py" for folder in EXAMPLES if (folder / "main.py").exists()]

# Name of the example -> lines that it must print, in this order, others between them allowed.
OUTPUT: dict[str, list[str]] = {
    "async_consumer": [
        "order 1: 500 euros",
        "that was the present; now for what comes",
        "order 5: 100 euros",
        "order 7: 140 euros",
        "the watcher goes home",
        "7 orders in all",
    ],
    "follow_a_table": [
        "It gets warmer.",
        "  attic came in, 26 degrees",
        "  attic: 26 -> 31 degrees",
        "  attic is fine again",
    ],
    "import_csv_and_query": [
        "7 summits",
        "Highest: ['Puncak Jaya', 'Mauna Kea']",
        "3,500 to 4,000 m: ['Teide', 'Fuji']",
        "First climbed in the 19th century: ['Kinabalu', 'Pico Duarte']",
        "Nobody knows when: ['Sicily', 'Hawaii']",
        "above 4,000 m: 3",
        "below: 4",
        "Read by: a range of index `metres`, implied by the filter",
    ],
    "leaderboard": [
        "At first: Cem 70, Dia 60, Ann 50",
        "Bob has a good day: Bob 140, Cem 70, Dia 60",
        "  insert row 2: Eve",
        "  delete row 1",
        "One commit, two writes: Bob 140, Eve 65, Dia 60",
        "The list equals a fresh query.",
    ],
    "outbox": [
        "the server has 29 orders, in order: True",
        "it knew some by their ids: True",
        "order 13 is a dead letter after 8 attempts: HTTPError: HTTP Error 422: Unprocessable Entity",
    ],
    "materialized_totals": [
        "one order later it is 0 changes behind",
        "second life: [{'id': 'Bergen', 'sum': 3660}, {'id': 'Oslo', 'sum': 3238}, {'id': 'Rome', 'sum': 2907}]",
        "as if counted just now: True",
        "refused: table `totals` is kept equal to a selection by db.materialize",
    ],
    "rethinkdb_chat": [
        "lobby:  hello",
        "lobby:  anybody there?",
        "newest: 'who took my cup?' came, 'nothing' went",
        "newest: 'anybody there?' came, 'hello' went",
        "native: 3 messages",
    ],
    "mongodb_without_mongodb": [
        "low: {'_id': 'tea', 'pieces': 2}",
        "refused: not enough tea; the stock is still {'_id': 'tea', 'pieces': 2}",
        "sold: {'tea': 3}",
        "in the table: {'_id': 'tea', 'pieces': 2}",
    ],
    "pytest_repository": [
        "order 1 is paid: print its invoice",
        "refused: order 1 is paid already",
        "income: 50 euros",
    ],
    "sensor_logger": [
        "killed after 20 readings or more had arrived",
        "killed after 120 readings or more had arrived",
        "the device has written 200 readings",
        "the server has all of them, with the same values: True",
        "stored twice: 0",
    ],
    "spark_report": [
        "EV: 116 flights, 33 minutes late on average",
        "insert: 842",
        "update: 1679",
        "The longest way was to HNL: 681 minutes from gate to gate",
    ],
    "time_travel": [
        "  seq 4: insert {'id': 'cake', 'cents': 420}",
        "  seq 9: delete None",
        "Everything as of seq 5:",
        "  tea: 260",
        "Prices now: [('cake', 420), ('coffee', 300), ('tea', 260)]",
        "Changes by the undoing: 5",
    ],
}


def run(*arguments: str, folder: Path, timeout_s: int = 60) -> subprocess.CompletedProcess[str]:
    """Warnings are errors, and the library is the one beside the examples, installed or not."""
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=folder,
        # Without byte code, so that an example with modules of its own leaves nothing in its folder.
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONIOENCODING": "utf-8",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=timeout_s,
        check=False,
    )


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.spark, pytest.mark.slow]) if name.startswith("spark_") else name
        for name in OUTPUT
    ],
)
def test_an_example_prints_what_it_shows(name, tmp_path):
    if name.startswith("spark_"):
        try:
            check()
        except SparkUnavailable as missing:
            pytest.skip(str(missing))
    # Spark takes some seconds to start, and more where others are busy.
    done = run(
        str(ROOT / "examples" / name / "main.py"),
        folder=tmp_path,
        timeout_s=240 if name.startswith("spark_") else 60,
    )

    assert 0 == done.returncode, done.stderr
    # Java and Spark's launcher have their say before anybody can ask them to be quiet.
    assert done.stderr == "" or name.startswith("spark_")
    printed = iter(done.stdout.splitlines())
    # `in` on an iterator goes on where it stopped: so the order is tested too.
    missing = [line for line in OUTPUT[name] if line not in printed]
    assert [] == missing, done.stdout
    assert [] == list(tmp_path.iterdir()), "an example leaves nothing behind"


def test_the_tests_of_the_examples_pass(tmp_path):
    """In one process, with the fixtures of the plugin, as the READMEs of the examples say."""
    folders = [str(folder) for folder in EXAMPLES if any(folder.glob("test_*.py"))]
    done = run("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *folders, folder=ROOT)

    assert 0 == done.returncode, done.stdout + done.stderr
    assert "8 passed" in done.stdout


# ---------------------------------------------------------------------------------------------------------------
# Rules for all examples


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: path.name)
def test_an_example_has_a_readme_with_the_way_to_run_it(folder):
    readme = (folder / "README.md").read_text(encoding="utf-8")

    assert f"examples/{folder.name}" in readme
    assert 3 <= len(readme.splitlines()) <= 20


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.parent.name)
def test_a_program_says_first_what_it_is_and_how_to_run_it(program):
    docstring = ast.get_docstring(ast.parse(program.read_text(encoding="utf-8"))) or ""

    assert f"examples/{program.parent.name}/main.py" in docstring


def test_the_list_of_examples_has_them_all():
    page = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")

    assert sorted(re.findall(r"^\| \[\w+\]\((\w+)\)", page, re.MULTILINE)) == [path.name for path in EXAMPLES]


# What every reactdb has; other packages come with an extra.
ALWAYS_THERE = {"reactdb", "reactivex", "msgpack", "click", "sqlite_utils", *sys.stdlib_module_names}


def needed_packages(program: Path) -> set[str]:
    """The packages that a program imports, but for those of every reactdb and for modules beside the program."""
    nodes = list(ast.walk(ast.parse(program.read_text(encoding="utf-8"))))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    beside = {path.stem for path in program.parent.glob("*.py")}
    return {name.partition(".")[0] for name in names} - ALWAYS_THERE - beside


NEEDY = [program for program in PROGRAMS if needed_packages(program)]


WITHOUT = """
import runpy, sys
program, *packages = sys.argv[1:]
sys.modules.update(dict.fromkeys(packages))
sys.path.insert(0, program.rpartition("/")[0])
sys.argv = [program]
runpy.run_path(program, run_name="__main__")
"""


@pytest.mark.parametrize("program", NEEDY, ids=lambda path: path.parent.name)
def test_without_its_extra_a_program_says_what_to_install(program, tmp_path):
    done = run("-c", WITHOUT, program.as_posix(), *needed_packages(program), folder=tmp_path)

    assert (1, "", 1) == (done.returncode, done.stdout, len(done.stderr.splitlines())), done.stderr
    commands = re.findall(r"pip install .*?(?:'reactdb|-e [\"']\.)\[([\w,-]+)\][\"']", done.stderr)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    assert 1 == len(set(commands)), done.stderr
    assert set() == set(commands[0].split(",")) - set(extras)
