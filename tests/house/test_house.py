"""The rules of the house, run as tests: what is exported, what is imported when, where SQL is spoken.

One test a rule; it lists the offenders.
"""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import reactdb
from reactdb import errors

PACKAGE = Path(reactdb.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


@cache
def nodes(file: Path) -> list[ast.AST]:
    return list(ast.walk(parsed(file)))


def named(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


def imported(file: Path) -> Iterator[str]:
    """The modules that a file imports, wherever it does."""
    for node in nodes(file):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""


def strings(file: Path) -> Iterator[str]:
    """The strings of a file that are values: without those that are documentation."""
    prose = {id(node.value) for node in nodes(file) if isinstance(node, ast.Expr)}
    for node in nodes(file):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


@cache
def private_names(file: Path) -> frozenset[str]:
    """The private names that a file gives to something: functions, classes, variables, attributes, slots."""
    found = set()
    for node in nodes(file):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return frozenset(name for name in found if is_private(name))


class TestExports:
    def test_the_list_of_names_is_sorted_and_names_nothing_twice(self):
        assert sorted(set(reactdb.__all__)) == reactdb.__all__

    def test_every_name_has_a_home_and_every_home_is_listed(self):
        homes = [name for names in reactdb._HOMES.values() for name in names]

        assert sorted(homes) == reactdb.__all__
        for names in reactdb._HOMES.values():
            assert sorted(names) == list(names)

    @pytest.mark.parametrize("name", reactdb.__all__)
    def test_every_name_can_be_imported_and_is_what_its_home_says(self, name):
        home = next(module for module, names in reactdb._HOMES.items() if name in names)

        assert getattr(reactdb, name) is getattr(importlib.import_module(home), name)
        assert name in dir(reactdb)

    def test_type_checkers_see_the_same_names(self):
        tree = parsed(PACKAGE / "__init__.py")
        block = next(
            node
            for node in tree.body
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        )
        seen = {
            node.module: tuple(alias.asname or alias.name for alias in node.names)
            for node in block.body
            # `reactdb.errors` is a module of its own.
            if isinstance(node, ast.ImportFrom) and node.module != "reactdb"
        }

        assert {module: sorted(names) for module, names in reactdb._HOMES.items()} == {
            str(module): sorted(names) for module, names in seen.items()
        }

    def test_a_name_that_is_not_there(self):
        with pytest.raises(AttributeError, match="module 'reactdb' has no attribute 'nope'"):
            reactdb.nope  # noqa: B018

    def test_an_error_that_is_not_at_the_top_is_reached_through_errors(self):
        assert reactdb.errors is errors
        with pytest.raises(AttributeError, match=r"'DiskFull': it is reactdb\.errors\.DiskFull"):
            reactdb.DiskFull  # noqa: B018

    def test_every_error_is_on_the_map(self):
        """The head of `errors` draws them all, each below the class that it inherits from."""
        assert errors.__doc__ is not None
        drawn = re.findall(r"^ {4}([│├└─ ]*)(\w+)", errors.__doc__, re.MULTILINE)
        parents: list[str] = []
        bases = {}
        for lines, name in drawn:
            depth = len(lines) // 4
            del parents[depth:]
            bases[name] = parents[-1] if parents else "Exception"
            parents.append(name)

        assert bases == {name: getattr(errors, name).__bases__[0].__name__ for name in errors.__all__}


class TestImports:
    HEAVY = (
        "sqlite_utils",
        "reactivex",
        "asyncio",
        "pyspark",
        "pyarrow",
        "rich",
        "click",
        "msgpack",
        "sqlite3",
        "ctypes",
    )

    @staticmethod
    def loaded_by(statement: str) -> set[str]:
        script = f"{statement}; import sys; print('\\n'.join(sys.modules))"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        return {name.partition(".")[0] for name in done.stdout.split()}

    def test_importing_the_package_is_light(self):
        assert set() == self.loaded_by("import reactdb") & set(self.HEAVY)

    def test_reading_and_writing_needs_no_rx_and_no_asyncio(self):
        statement = (
            "import reactdb; db = reactdb.connect(':memory:'); games = db.table_create('games');"
            " games.insert({'id': 1}); assert games.filter({'id': 1}).count().run() == 1"
        )

        assert set() == self.loaded_by(statement) & {"reactivex", "asyncio", "pyspark", "rich"}

    def test_opening_a_file_inserting_and_getting_loads_little(self, tmp_path):
        """Each of these takes as long as opening the file, or longer."""
        statement = (
            f"import reactdb; db = reactdb.connect({str(tmp_path / 'a.db')!r});"
            " games = db.table_create('games', exist_ok=True); games.insert({'id': 1}, conflict='replace');"
            " assert games.get(1).run() == {'id': 1}; db.close()"
        )
        heavy = {
            "reactivex",
            "asyncio",
            "sqlite_utils",
            "click",
            "pluggy",
            "numpy",
            "ctypes",
            "json",
            "urllib",
            "random",
            "dataclasses",
            "inspect",
        }

        assert set() == self.loaded_by(statement) & heavy
        # An existing file, too.
        assert set() == self.loaded_by(statement) & heavy

    def test_opening_a_file_inserting_and_getting_loads_neither_feeds_nor_operations(self, tmp_path):
        script = (
            "import reactdb, sys; db = reactdb.connect(sys.argv[1]); games = db.table_create('games');"
            " games.insert({'id': 1}); games.get(1).run(); print('\\n'.join(sys.modules))"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / "a.db")], capture_output=True, text=True, check=True
        )
        loaded = set(done.stdout.split())

        assert "reactdb.expression.tree" in loaded
        assert [] == [
            name
            for name in sorted(loaded)
            if name.startswith(
                ("reactdb.feeds", "reactdb.dialects", "reactdb.store.migrations", "reactdb.store.follow")
            )
            or name in {"reactdb.expression.pattern", "reactdb.expression.operations.sequences"}
        ]

    @pytest.mark.slow
    def test_only_the_store_knows_the_database_underneath(self):
        assert [] == self.importers_of({"sqlite3", "sqlite_utils", "pysqlite3"}, but=PACKAGE / "store")

    def test_nothing_is_ever_unpickled(self):
        assert [] == self.importers_of({"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle"})

    @staticmethod
    def importers_of(modules: set[str], but: Path | None = None) -> list[str]:
        """The files outside the folder `but` that import any of these top-level modules."""
        return [
            named(file)
            for file in FILES
            if (but is None or but not in file.parents)
            and modules & {name.partition(".")[0] for name in imported(file)}
        ]


# Private names of other libraries' classes, which some class of ours happens to have too.
NOT_OURS = {("feeds/schedulers.py", "_loop"), ("store/log.py", "_make")}
# The names that several classes have. The list shrinks: what is no longer so is taken out of it, and nothing is added.
SHARED_NAMES: dict[str, list[str]] = {
    "Database": ["database.py", "dialects/rethinkdb/values.py"],
    "Filter": ["dialects/mongodb/filters.py", "query.py"],
    "Function": ["dialects/rethinkdb/functions.py", "expression/tree.py"],
    # One table for two toolkits.
    "LiveTable": ["notebook/live_table.py", "textual.py"],
    "Node": ["expression/tree.py", "feeds/dispatch.py"],
    "UnreadablePattern": ["dialects/mongodb/patterns.py", "expression/pattern_reader.py"],
    "Pipeline": ["dialects/mongodb/stages/pipeline.py", "feeds/pipeline.py"],
    "Row": ["expression/tree.py", "store/snapshot.py"],
    "Session": ["dialects/rethinkdb/session.py", "session.py"],
}


class TestSeams:
    def test_nobody_reaches_into_another_file_for_something_private(self):
        """`x._name` where `_name` is of another file is a seam that is missing."""
        everywhere = {name for file in FILES for name in private_names(file)}
        found = {
            (named(file), name) for file in FILES for name in self.reached_for(file) if name in everywhere
        }

        assert set() == found - NOT_OURS

    @staticmethod
    def reached_for(file: Path) -> Iterator[str]:
        """The private names that a file uses and does not give, of modules and of what is not `self`."""
        for node in nodes(file):
            names = []
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in {"self", "cls", "super()"}:
                names = [node.attr]
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("reactdb"):
                names = [alias.name for alias in node.names]
            yield from (name for name in names if is_private(name) and name not in private_names(file))

    def test_one_word_is_one_class(self):
        """Two ideas have two names: a reader who looks for a class finds one."""
        found: dict[str, list[str]] = {}
        for file in FILES:
            for node in nodes(file):
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, []).append(named(file))

        assert SHARED_NAMES == {name: files for name, files in found.items() if len(files) > 1}


class TestSources:
    SQL = re.compile(
        r"\b(SELECT\b.+\bFROM|INSERT (OR \w+ )?INTO|UPDATE \w+ SET|DELETE FROM|(CREATE|DROP|ALTER) (TABLE|INDEX)"
        r"|PRAGMA \w+|BEGIN IMMEDIATE|ROLLBACK TO)\b",
        re.DOTALL,
    )

    def test_a_file_begins_by_saying_what_it_is(self):
        assert [] == [named(file) for file in FILES if not (ast.get_docstring(parsed(file)) or "").strip()]

    def test_only_the_store_speaks_sql(self):
        # What the pipelines ask is asked of Spark, and of no file.
        assert [] == [
            (named(file), text)
            for file in FILES
            if PACKAGE / "store" not in file.parents and file != PACKAGE / "spark" / "queries.py"
            for text in strings(file)
            if self.SQL.search(text)
        ]

    def test_code_is_generated_in_one_place_only(self):
        assert [] == [
            f"{named(file)}:{node.lineno} {node.func.id}"
            for file in FILES
            for node in nodes(file)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if node.func.id in {"eval", "exec", "compile", "__import__"}
            and not (node.func.id in {"exec", "compile"} and file == PACKAGE / "expression" / "compile.py")
        ]

    def test_nothing_is_left_to_be_done_later(self):
        assert [] == [
            named(file)
            for file in FILES
            if re.search(r"\b(TODO|FIXME|XXX)\b", file.read_text(encoding="utf-8"))
        ]

    def test_the_package_says_that_it_is_typed(self):
        assert (PACKAGE / "py.typed").exists()


def test_one_module_registers_with_the_interpreter_for_forks():
    """The order of several hooks would matter, and be nowhere to read."""
    assert ["store/file/fork.py"] == [
        named(file)
        for file in FILES
        if any(isinstance(node, ast.Attribute) and node.attr == "register_at_fork" for node in nodes(file))
    ]
