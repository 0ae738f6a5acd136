"""The map agrees with the code: the order of the packages, the ways of a write and of an event, and the heads of the packages."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import reactdb
from tests import trace

PACKAGE = Path(reactdb.__file__).parent
ROOT = PACKAGE.parent
PAGE = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")

# `reactdb/` itself has the table of the map. Spark finds the other one by its name.
PACKAGES = sorted(
    file.parent.relative_to(PACKAGE).as_posix()
    for file in PACKAGE.rglob("__init__.py")
    if file.parent != PACKAGE and "by_name" not in file.parts
)
# A line of a reading order: names, and after two spaces, or in the next line, what they are for.
ENTRY = re.compile(r"^ {0,4}((?:[a-z_]+/?)(?:, [a-z_]+/?)*),?(?: {2,}\S.*)?$")


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_the_table_of_packages_has_the_layers_in_their_order():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(one["layers"] for one in contracts["contracts"] if one.get("containers") == ["reactdb"])
    rows = re.findall(r"^\| (`reactdb/.*?) \|", section("The house"), re.MULTILINE)

    # A package may have several rows, one for each of its files.
    named = dict.fromkeys(
        name for row in rows for name in re.findall(r"`reactdb/(\w+)(?:/[\w/]*)?(?:\.py)?`", row)
    )

    assert [name for layer in layers for name in layer.split(" | ")] == list(named)


def test_every_module_on_the_page_has_its_whole_path():
    """So that a reader can open it, and a script that renames files finds it."""
    short = re.findall(r"`(\w+\.py)`", PAGE)

    assert [] == [name for name in short if name != "__init__.py"]


@pytest.mark.parametrize("name", [name for name in trace.JOURNEYS if name.startswith("insert")])
def test_every_file_that_an_insert_enters_is_on_its_way(name):
    ways = section("The way of a write") + section("The way of an event")

    assert [] == [file for file in trace.trace_of(name)[0].files if f"`reactdb/{file}`" not in ways]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_of_a_package_is_named_once_in_its_head(package):
    folder = PACKAGE / package
    head = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    modules = {file.stem for file in folder.glob("*.py")} - {"__init__", "__main__"}
    modules |= {file.parent.name + "/" for file in folder.glob("*/__init__.py")}
    entries = Counter(
        name for line in head.splitlines() if (found := ENTRY.match(line)) for name in found[1].split(", ")
    )
    others = set(re.findall(r"`([a-z_]+/?)`", head))

    assert [] == sorted(modules - set(entries) - others), "they are not named"
    assert [] == sorted(name for name, times in entries.items() if times > 1 and name in modules)
