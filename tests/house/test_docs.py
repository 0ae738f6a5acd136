"""The documentation, carried out: what a page shows is what happens, and every link leads somewhere.

A page is run from top to bottom in one namespace and one empty folder, as a reader would type it:

    ```python                   runs. Where it has `>>>` lines, what they print must be what the page says
    ```python file=NAME.py      is saved under that name; if one of them is a test, pytest runs them when the page is done
    ```console                  each `$ reactdb ...` line runs; what it prints must be what the page says
    ```sh                       is for the reader's machine and is left alone

`...` in what is printed stands for anything, and white space does not count. So errors and figures on a page are real.

Rule of this file: it knows how pages are written, not what is on them; the few tests at its end compare lists.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points, metadata
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import reactdb
from docs import names
from reactdb import cli, errors
from reactdb.errors import SparkUnavailable
from reactdb.expression import OPERATIONS
from reactdb.spark import check as spark_check
from reactdb.store.tools.doctor import CHECKS
from reactdb.table import PointSelection, Selection, Table

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FENCE = re.compile(r"^```(.*?)\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page. `language` is the first word after the fence, `file` what `file=` says, or ""."""

    language: str
    file: str
    text: str
    line: int

    @property
    def is_doctest(self) -> bool:
        return ">>> " in self.text


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        words = found[1].split()
        file = next((word.removeprefix("file=") for word in words if word.startswith("file=")), "")
        yield Block(words[0] if words else "", file, found[2], text.count("\n", 0, found.start()) + 1)


def page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


# ---------------------------------------------------------------------------------------------------------------
# Running a page


def run_doctest(block: Block, page: Path, namespace: dict[str, Any]) -> None:
    # The line in the name, because doctest looks up source lines by it, also of functions of earlier blocks.
    name = f"{page_name(page)}:{block.line}"
    test = doctest.DocTestParser().get_doctest(block.text, {}, name, str(page), block.line)
    # Its own copy would keep the next block from knowing this one's names.
    test.globs = namespace
    report: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append, clear_globs=False)
    assert not report, "".join(report)


def run_code(block: Block, page: Path, namespace: dict[str, Any]) -> None:
    # Blank lines in front, so that a traceback names the page's line.
    # Any free port for the one that a reader's browser knows: other programs of this machine may have it.
    text = block.text.replace("port=5984", "port=0")
    exec(compile("\n" * block.line + text, str(page), "exec"), namespace)


def commands_of(block: Block) -> Iterator[tuple[str, str]]:
    """(command, what it should print) of a console block."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def run_command(command: str, environment: dict[str, str]) -> str:
    """What the command prints. One of ours is called within this process; what needs a shell goes to the shell."""
    words = shlex.shlex(command, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    name, *arguments = words
    if name == "reactdb" and not any(set(word) <= set("|&;<>()") for word in arguments):
        return CliRunner().invoke(cli.main, arguments, prog_name="reactdb").output
    done = subprocess.run(
        command,
        shell=True,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr


def run_console(block: Block, page: Path, environment: dict[str, str]) -> None:
    for command, wanted in commands_of(block):
        printed = run_command(command, environment)
        assert doctest.OutputChecker().check_output(wanted, printed, FLAGS), (
            f"{page_name(page)}:{block.line}: $ {command}\nprints\n{printed}\ninstead of\n{wanted}"
        )


def shell_environment(folder: Path) -> dict[str, str]:
    """An environment in which `reactdb` is the one under test, whatever is installed."""
    shim = folder / "bin" / "reactdb"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m reactdb.cli "$@"\n', encoding="utf-8")
    shim.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{shim.parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONPATH": str(ROOT),
        "PYTHONIOENCODING": "utf-8",
    }


def run_page(page: Path, folder: Path) -> None:
    work = folder / "work"
    work.mkdir()
    os.chdir(work)
    environment = shell_environment(folder)
    namespace: dict[str, Any] = {"__name__": "__page__"}
    saved: list[str] = []
    try:
        for block in blocks_of(page):
            if block.file:
                (work / block.file).parent.mkdir(exist_ok=True)
                (work / block.file).write_text(block.text, encoding="utf-8")
                saved.append(block.file)
            elif block.language == "python" and block.is_doctest:
                run_doctest(block, page, namespace)
            elif block.language == "python":
                run_code(block, page, namespace)
            elif block.language == "console":
                run_console(block, page, environment)
    finally:
        for value in list(namespace.values()):
            if isinstance(value, reactdb.Database):
                value.close()
    if any(name.startswith("test_") for name in saved):
        run_saved_tests(environment)


def the_plugin() -> list[str]:
    """pytest finds the plugin of an installed reactdb by itself, and refuses to be told of it again."""
    name = "reactdb.testing.plugin"
    return [] if any(point.value == name for point in entry_points(group="pytest11")) else ["-p", name]


def run_saved_tests(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *the_plugin(), "."],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert 0 == done.returncode, done.stdout + done.stderr


# Those about Spark begin a Java machine each.
DOING = [
    pytest.param(page, marks=pytest.mark.slow) if page.stem.startswith("spark") else page for page in PAGES
]


@pytest.mark.slow
@pytest.mark.parametrize("page", DOING, ids=page_name)
def test_a_page_does_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # For programs that a page starts.
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    if sys.platform == "win32" and any(block.language == "console" for block in blocks_of(page)):
        pytest.skip("its commands are written for a POSIX shell")
    if any("reactdb.spark" in block.text for block in blocks_of(page) if block.language == "python"):
        try:
            spark_check()
        except SparkUnavailable as missing:
            pytest.skip(str(missing))
        # By itself: paths are those of the folder in which a session began, and one may be running here.
        program = (
            "import sys, pathlib; from tests.house import test_docs;"
            "test_docs.run_page(pathlib.Path(sys.argv[1]), pathlib.Path.cwd())"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, str(page)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert 0 == done.returncode, done.stdout + done.stderr
        return

    run_page(page, tmp_path)


def test_the_first_example_prints_what_the_next_block_says(capsys):
    page = ROOT / "README.md"
    blocks = list(blocks_of(page))
    place = next(number for number, block in enumerate(blocks) if block.language == "python")
    namespace: dict[str, Any] = {}
    run_code(blocks[place], page, namespace)
    namespace["db"].close()

    assert ("text", capsys.readouterr().out) == (blocks[place + 1].language, blocks[place + 1].text)


def test_the_first_forty_lines_have_a_picture_the_clone_and_a_live_result():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:40]
    text = "\n".join(lines)

    assert "git clone" in text
    assert re.search(r"^!\[.+\]\(docs/pictures/.+\)$", text, re.MULTILINE)
    assert ".live()" in text
    assert "```text\n" in text


# ---------------------------------------------------------------------------------------------------------------
# Links


def anchors_of(page: Path) -> set[str]:
    """The names that a heading can be linked by, as code hosts make them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(text)}


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_within_the_project_lead_somewhere(page):
    broken = []
    for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)

    assert [] == broken


PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_picture_is_there_and_is_described(page):
    pictures = PICTURE.findall(FENCE.sub("", page.read_text(encoding="utf-8")))

    assert [] == [path for words, path in pictures if not words.strip() or not (page.parent / path).exists()]


# A file or folder of the project, and a program of it, as pages name them.
NAMED_PATH = re.compile(r"`((?:reactdb|tests|benchmarks|docs|examples)/[\w./-]*)`")
NAMED_PROGRAM = re.compile(r"python -m ((?:tests|benchmarks)[\w.]*)")


def test_every_path_and_program_that_a_page_names_is_there():
    missing = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        missing += [
            f"{page_name(page)}: {path}" for path in NAMED_PATH.findall(text) if not (ROOT / path).exists()
        ]
        for program in NAMED_PROGRAM.findall(text):
            place = ROOT / program.rstrip(".").replace(".", "/")
            if not (place.with_suffix(".py").exists() or (place / "__main__.py").exists()):
                missing.append(f"{page_name(page)}: python -m {program}")

    assert [] == missing


def test_every_page_is_reached_from_the_index():
    index = DOCS / "index.md"
    linked = {(DOCS / link).resolve() for link in LINK.findall(index.read_text(encoding="utf-8"))}

    pages = {page for page in DOCS.rglob("*.md") if page != index}
    assert set() == pages - linked


# ---------------------------------------------------------------------------------------------------------------
# The table of operations: | `name` | `example` | `value` | meaning |

ROW = re.compile(r"^\| `(\w+)` \| `(.+?)` \| `(.+?)` \| .*\|$", re.MULTILINE)


def examples_of_operations() -> list[tuple[str, str, str]]:
    page = (DOCS / "reference" / "expressions.md").read_text(encoding="utf-8")
    return [(name, code.replace("\\|", "|"), value) for name, code, value in ROW.findall(page)]


@pytest.mark.parametrize(("name", "code", "value"), examples_of_operations())
def test_an_example_of_an_operation_gives_what_the_page_says(name, code, value):
    page = DOCS / "reference" / "expressions.md"
    namespace: dict[str, Any] = {}
    for block in blocks_of(page):
        if block.language == "python" and not block.is_doctest:
            run_code(block, page, namespace)

    given = eval(code, namespace)(namespace["document"])

    assert value == repr(given)


# ---------------------------------------------------------------------------------------------------------------
# Nothing is left out


def words_in_code(name: str) -> set[str]:
    """Every identifier that stands in backticks on a page of the reference."""
    text = FENCE.sub("", (DOCS / "reference" / name).read_text(encoding="utf-8"))
    return {word for code in re.findall(r"`([^`]+)`", text) for word in re.findall(r"\w+", code)}


def public_methods(*classes: type) -> set[str]:
    return {name for one in classes for name in dir(one) if not name.startswith("_")}


def test_every_operation_is_on_the_page_of_expressions():
    assert set() == {name for name in OPERATIONS.names() if "." not in name} - words_in_code("expressions.md")


def test_every_error_is_on_the_page_of_errors():
    assert set() == set(errors.__all__) - words_in_code("errors.md")


def test_every_method_of_a_selection_is_in_the_reference():
    named = words_in_code("selections.md") | words_in_code("writes.md")

    assert set() == public_methods(Selection, PointSelection, Table) - named


def test_every_method_of_a_database_is_in_the_reference():
    named = words_in_code("databases.md")

    assert set() == public_methods(reactdb.Database) - named


def test_every_public_name_is_in_the_reference():
    pages = [page.name for page in (DOCS / "reference").glob("*.md")]
    named = {word for page in pages for word in words_in_code(page)}

    assert set() == set(reactdb.__all__) - named


def test_every_check_of_the_doctor_is_on_the_page_of_commands():
    assert set() == set(CHECKS) - words_in_code("command-line.md")


def test_every_option_is_on_the_page_of_commands():
    """But for those of the demo, which is no tool."""
    page = (DOCS / "reference" / "command-line.md").read_text(encoding="utf-8")
    commands = [
        getattr(import_module(module), name) for module, name, _ in cli.COMMANDS.values() if name != "demo"
    ]
    commands += [inner for command in commands for inner in getattr(command, "commands", {}).values()]
    given = {option for command in commands for one in command.params for option in one.opts}

    assert set() == {option for option in given if option[:2] == "--"} - set(
        re.findall(r"--[a-z0-9-]+", page)
    )


# ---------------------------------------------------------------------------------------------------------------
# The index of names, and extras


def test_the_index_of_names_is_current():
    """`python -m docs.names` writes it."""
    assert names.PAGE.read_text(encoding="utf-8") == names.write()


def test_every_name_of_the_index_has_a_line():
    assert [] == re.findall(r"^\| (`[^|]+`) \|  \|", names.PAGE.read_text(encoding="utf-8"), re.MULTILINE)


NAMED_EXTRAS = re.compile(r"reactdb\[([\w,-]+)\]|[\"']\.\[([\w,-]+)\]|how_to_install\([\"']([\w-]+)[\"']\)")
# What the package offers as it is built or installed, so that a hint does not name an extra that pip would only warn about.
EXTRAS = set(metadata("reactdb").get_all("Provides-Extra") or ())


def test_every_extra_that_is_named_anywhere_exists():
    """pip installs nothing for an unknown extra, and exits with 0."""
    named = {}
    sources = [path for folder in ("reactdb", "examples") for path in (ROOT / folder).rglob("*.py")]
    for path in [*PAGES, *sources, ROOT / "benchmarks" / "README.md", *(ROOT / "examples").rglob("*.md")]:
        for found in NAMED_EXTRAS.findall(path.read_text(encoding="utf-8")):
            named |= {extra: page_name(path) for extra in "".join(found).split(",")}

    assert {} == {extra: page for extra, page in named.items() if extra not in EXTRAS}


def test_the_page_of_installation_has_every_extra():
    page = (DOCS / "how-to" / "install.md").read_text(encoding="utf-8")
    listed = {
        extra
        for cell in re.findall(r"^\| (`.+?`) \|", page, re.MULTILINE)
        for extra in re.findall(r"`([\w-]+)`", cell)
    }

    assert EXTRAS == listed


def test_no_page_installs_from_an_index_that_does_not_have_reactdb():
    """Only an installed reactdb, or a checkout, knows its extras."""
    found = [
        page_name(page)
        for page in PAGES
        if re.search(r"pip install (-U )?reactdb\b(?!`? does not)", page.read_text("utf-8"))
    ]

    assert [] == found
