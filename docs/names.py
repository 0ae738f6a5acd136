"""python -m docs.names: writes docs/reference/names.md, the index of the public names, from their docstrings.

Run it after a change of a public name or of the first line of its docstring; a test compares the page with the result.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import reactdb
from reactdb import errors
from reactdb.table import PointSelection, Selection, Table

DOCS: Final = Path(__file__).resolve().parent
REFERENCE: Final = DOCS / "reference"
PAGE: Final = REFERENCE / "names.md"

HEAD: Final = """# Index of names

Every public name, with the first line of its docstring and the page that describes it. `help(reactdb.connect)` shows the
whole docstring. Operations of expressions, such as `row["name"].upper()`, have [their own
table](expressions.md#every-operation), and commands have [theirs](command-line.md).

(`python -m docs.names` writes this page.)
"""


class Name(NamedTuple):
    shown: str
    line: str
    page: str


def first_line(value: Any) -> str:
    """The first sentence of the docstring. A class without one would show that of its base: it has none here."""
    if inspect.isclass(value):
        return shown_line(value.__dict__.get("__doc__") or "")
    return shown_line(inspect.getdoc(value) or "")


def shown_line(docstring: str) -> str:
    """The first sentence of a docstring, without its line breaks, and with a full stop."""
    text = " ".join(inspect.cleandoc(docstring).partition("\n\n")[0].split())
    sentence = re.split(r"(?<=[.!?:])\s(?=[A-Z`0-9])", text)[0].rstrip(":.")
    return sentence.replace("|", "\\|") + "." if sentence else ""


@cache
def texts() -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in sorted(REFERENCE.glob("*.md")) if path != PAGE}


def page_of(name: str, *preferred: str) -> str:
    """The page that names it in code most often: a preferred one, if it does at all."""
    counts = {page: len(re.findall(rf"`[^`\n]*\b{name}\b[^`\n]*`", text)) for page, text in texts().items()}
    for page in preferred:
        if counts[page]:
            return page
    return max(counts, key=lambda page: (counts[page], page))


def names_of_the_package() -> Iterator[Name]:
    for name in reactdb.__all__:
        value = getattr(reactdb, name)
        if not (inspect.isclass(value) and issubclass(value, errors.ReactDBError)):
            line = OBJECTS.get(name) or first_line(value)
            yield Name(f"reactdb.{name}", line, page_of(name, *PAGES.get(name, ())))


OBJECTS: Final = {
    "Feed": "The changes of a result, as an Observable that can also be iterated and awaited.",
    "row": 'The present document in an expression: `row["score"] > 10`.',
    "r": "Functions for expressions, with ReQL's names: `r.now()`, `r.branch(...)`, `r.count()`.",
    "minval": "A bound below all values.",
    "maxval": "A bound above all values.",
}
PAGES: Final[dict[str, tuple[str, ...]]] = {
    "aidbox": ("aidbox.md",),
    "couchdb": ("couchdb.md",),
    "mongodb": ("mongodb.md",),
    "rethinkdb": ("rethinkdb.md",),
    "sync": ("sync.md",),
    "Sync": ("sync.md",),
    "connect": ("databases.md",),
    "Database": ("databases.md",),
    "Table": ("databases.md",),
    "Selection": ("selections.md",),
    "Feed": ("feeds.md",),
    "Change": ("databases.md",),
    "LiveValue": ("live.md",),
}


def methods_of(shown: str, *classes: type, pages: tuple[str, ...]) -> Iterator[Name]:
    found = {name: getattr(one, name) for one in reversed(classes) for name in dir(one) if name[0] != "_"}
    for name in sorted(found):
        # A feed also has ReQL's methods that need an end, to refuse them in a sentence.
        if "would have to wait" in (inspect.getdoc(found[name]) or "") or name in {"to_future"}:
            continue
        yield Name(f"{shown}.{name}", first_line(found[name]), page_of(name, *pages))


def error_names() -> Iterator[Name]:
    for name in errors.__all__:
        yield Name(name, first_line(getattr(errors, name)), "errors.md")


def table_of(names: Iterator[Name]) -> str:
    lines = ["| name | what it is | page |", "| --- | --- | --- |"]
    for name in names:
        page = (REFERENCE / name.page).resolve()
        title = page.read_text("utf-8").partition("\n")[0].removeprefix("# ")
        lines.append(f"| `{name.shown}` | {name.line} | [{title}]({name.page}) |")
    return "\n".join(lines) + "\n"


# Modules with public names that `reactdb` itself does not have, and the page of each, below `docs/`. Those of an extra are
# read without an import, so that the page does not depend on what is installed.
MODULES: Final = {
    "reactdb.json": "reference/documents-and-keys.md",
    "reactdb.testing": "how-to/testing-with-reactdb.md",
    "reactdb.qt": "how-to/qt.md",
    "reactdb.textual": "how-to/textual.md",
    "reactdb.notebook": "how-to/notebook.md",
    "reactdb.web": "how-to/web.md",
}


def names_of_modules() -> Iterator[Name]:
    for module, page in MODULES.items():
        for name, line in sorted(public_names(module).items()):
            yield Name(
                f"{module}.{name}",
                line,
                f"../{page}" if page.startswith("how-to") else page.rpartition("/")[2],
            )


def public_names(module: str) -> dict[str, str]:
    """The names in `__all__` of a module, with the first sentences of their docstrings; none where there is no module."""
    path = DOCS.parent / module.replace(".", "/")
    source = next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.exists()), None)
    if source is None:
        return {}
    tree = ast.parse(source.read_text("utf-8"))
    listed: list[str] = []
    lines: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
                listed = ast.literal_eval(node.value)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            lines.setdefault(node.name, shown_line(ast.get_docstring(node) or ""))
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("reactdb."):
            known = definitions(node.module)
            lines |= {alias.name: known[alias.name] for alias in node.names if alias.name in known}
    return {name: lines.get(name, "") for name in listed}


def definitions(module: str) -> dict[str, str]:
    path = DOCS.parent / module.replace(".", "/")
    source = next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.exists()), None)
    nodes = ast.walk(ast.parse(source.read_text("utf-8"))) if source else ()
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name: shown_line(ast.get_docstring(node) or "") for node in nodes if isinstance(node, kinds)}


def write() -> str:
    sections = {
        "The package": names_of_the_package(),
        "A database": methods_of("db", reactdb.Database, pages=("databases.md",)),
        "Tables and selections": methods_of(
            "table", Table, Selection, PointSelection, pages=("selections.md", "writes.md", "databases.md")
        ),
        "A feed": methods_of("feed", reactdb.Feed, pages=("feeds.md",)),
        "Other modules": names_of_modules(),
        "Errors": error_names(),
    }
    return "\n".join([HEAD, *(f"## {title}\n\n{table_of(names)}" for title, names in sections.items())])


if __name__ == "__main__":
    PAGE.write_text(write(), encoding="utf-8")
