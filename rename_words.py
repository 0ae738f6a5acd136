# ruff: noqa
"""Rename modules, functions, attributes and local variables of the project, in one go.

    python rename_words.py                    all maps `rename_*.json`, then the table of modules, then ruff
    python rename_words.py --check            validate all maps, change nothing
    python rename_words.py --only FILE.json   apply one map of names and no module, for a try
    python rename_words.py --modules          apply the table of modules and no map
    python rename_words.py --force            as without options, but entries that clash are left out, with the reason

Without options, entries whose name is gone are passed over with a note.

A map is a list of entries, with paths and names as they are before the renames:

    {"file": "reactdb/store/x.py", "scope": "Class.method", "kind": "local", "old": "found", "new": "rows", "how": "scoped"}

kind   function, class, method, property, attribute, local, parameter
how    global   every occurrence of the thing, in all files: for a method, property or attribute each `.old` and each member of a
                class called `old`; for a function or class each one at module level that is called so, with its imports
       file     for a function or class: in its file, and in other files through their imports.
                for a member: in its file and in its class
       scoped   in the function (with its nested functions and comprehensions) or in the class only
also   files in which calls by keyword are renamed too (for a parameter)
merge  true: `new` may exist already as a member of other classes

Every identifier is found by the syntax tree and its binding. After the renames each file is analysed again, and each name must be
bound in the same scope as before: a name that is caught by another one is an error.
"""

from __future__ import annotations

import ast
import builtins
import io
import json
import keyword
import re
import subprocess
import sys
import tokenize
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

ROOT = Path(__file__).resolve().parent
ROOMS = ("reactdb", "tests", "benchmarks", "examples")
MEMBERS = ("method", "property", "attribute")
KINDS = (*MEMBERS, "function", "class", "local", "parameter")
IDENTIFIERS = re.compile(r"[A-Za-z_]\w*(\.\w+)*")
STRING_CALLS = {
    "getattr",
    "setattr",
    "hasattr",
    "delattr",
    "object",
    "attrgetter",
    "methodcaller",
    "multiple",
    "patch",
}


# ----- what is in a file


class Scope:
    """A module, class, function, lambda or comprehension, with the names that it binds."""

    def __init__(self, kind: str, name: str, parent: Scope | None, node: ast.AST) -> None:
        self.kind, self.name, self.parent, self.node = kind, name, parent, node
        self.bound: dict[str, str] = {}
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        if parent is None or parent.kind == "module":
            self.qualname = name
        else:
            self.qualname = f"{parent.qualname}.{name}"

    def lookup(self, name: str) -> Scope | None:
        scope: Scope | None = self
        is_first = True
        while scope is not None:
            if name in scope.globals:
                while scope.parent is not None:
                    scope = scope.parent
                return scope if name in scope.bound else None
            if name in scope.bound and name not in scope.nonlocals and (is_first or scope.kind != "class"):
                return scope
            is_first = False
            scope = scope.parent
        return None

    def is_within(self, other: Scope) -> bool:
        scope: Scope | None = self
        while scope is not None:
            if scope is other:
                return True
            scope = scope.parent
        return False

    def functions(self) -> list[Scope]:
        """The functions around, innermost first."""
        scopes = []
        scope: Scope | None = self
        while scope is not None:
            if scope.kind == "function":
                scopes.append(scope)
            scope = scope.parent
        return scopes


@dataclass(eq=False)
class Occurrence:
    """One identifier: where it is and what it is.

    Attributes:
        role: name, arg, def, attribute, keyword, import (the name that is imported), asname.
        scope: Where it is resolved.
        node: The node that has it.
        call: For a keyword argument, the call.
    """

    line: int
    column: int
    name: str
    role: str
    scope: Scope
    node: ast.AST
    call: ast.Call | None = None
    is_alias_of_itself: bool = False

    @property
    def binding(self) -> Scope | None:
        return self.scope.lookup(self.name)


class File:
    """A source file: its text, tree, scopes and identifiers."""

    def __init__(self, path: str, text: str | None = None) -> None:
        self.path = path
        self.text = (ROOT / path).read_text(encoding="utf-8") if text is None else text
        self.lines = self.text.splitlines(keepends=True)
        self.starts = [0, *accumulate(len(line) for line in self.lines)]
        self.tree = ast.parse(self.text)
        self.module = module_of(path)
        self.scopes: list[Scope] = []
        self.occurrences: list[Occurrence] = []
        self.strings: list[tuple[ast.Constant, tuple[ast.AST, ...]]] = []
        self.docstrings: list[ast.Constant] = []
        Reader(self).read()
        self.by_name: dict[str, list[Occurrence]] = defaultdict(list)
        for occurrence in self.occurrences:
            self.by_name[occurrence.name].append(occurrence)
        self._comments: list[tuple[int, int, str]] | None = None
        # Strings by their last part, where they are names or whole dotted names.
        self.names: dict[str, list[tuple[ast.Constant, tuple[ast.AST, ...]]]] = defaultdict(list)
        for node, parents in self.strings:
            if IDENTIFIERS.fullmatch(node.value):
                for part in set(node.value.split(".")):
                    self.names[part].append((node, parents))

    @property
    def top(self) -> Scope:
        return self.scopes[0]

    @property
    def comments(self) -> list[tuple[int, int, str]]:
        if self._comments is None:
            tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
            self._comments = [
                (*token.start, token.string) for token in tokens if token.type == tokenize.COMMENT
            ]
        return self._comments

    def column(self, line: int, offset: int) -> int:
        """The column in characters of an offset in bytes."""
        text = self.lines[line - 1]
        return offset if text.isascii() else len(text.encode()[:offset].decode())

    def scopes_named(self, qualname: str) -> list[Scope]:
        return [
            scope
            for scope in self.scopes
            if scope.qualname == qualname and scope.kind in ("function", "class")
        ]

    def index(self, line: int, column: int) -> int:
        """The place in the text."""
        return self.starts[line - 1] + column

    def span(self, node: ast.AST) -> tuple[int, int]:
        return (
            self.index(node.lineno, self.column(node.lineno, node.col_offset)),
            self.index(node.end_lineno, self.column(node.end_lineno, node.end_col_offset)),
        )

    def place(self, index: int) -> tuple[int, int]:
        line = bisect_right(self.starts, index)
        return line, index - self.starts[line - 1]


class Reader(ast.NodeVisitor):
    """Collects scopes and identifiers of a file."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.scope = Scope("module", "", None, file.tree)
        file.scopes.append(self.scope)
        self.parents: list[ast.AST] = []

    def read(self) -> None:
        self.visit(self.file.tree)

    def visit(self, node: ast.AST) -> None:
        self.parents.append(node)
        super().visit(node)
        self.parents.pop()

    def add(self, line: int, column: int, name: str, role: str, node: ast.AST, **more) -> None:
        self.file.occurrences.append(Occurrence(line, column, name, role, self.scope, node, **more))

    def add_at(self, index: int, name: str, role: str, node: ast.AST, **more) -> None:
        self.add(*self.file.place(index), name, role, node, **more)

    def bind(self, name: str, how: str) -> None:
        scope = self.scope
        if how == "walrus":
            while scope.kind == "comprehension":
                scope = scope.parent
        scope.bound.setdefault(name, how)

    def search(self, node: ast.AST, name: str, pattern: str = r"\b{}\b") -> int:
        """Where a name without a node of its own is, in the text of a node."""
        start, end = self.file.span(node)
        match = re.compile(pattern.format(re.escape(name))).search(self.file.text, start, end)
        assert match, (self.file.path, node.lineno, name)
        return match.end() - len(name)

    def inside(self, kind: str, name: str, node: ast.AST) -> Scope:
        scope = Scope(kind, name, self.scope, node)
        self.file.scopes.append(scope)
        return scope

    def note_docstring(self, node) -> None:
        if node.body and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant):
            if isinstance(node.body[0].value.value, str):
                self.file.docstrings.append(node.body[0].value)

    def visit_Module(self, node) -> None:
        self.note_docstring(node)
        self.generic_visit(node)

    def visit_FunctionDef(self, node) -> None:
        for each in node.decorator_list:
            self.visit(each)
        self.bind(node.name, "def")
        self.add_at(self.search(node, node.name, r"def\s+{}\b"), node.name, "def", node)
        self.note_docstring(node)
        arguments = node.args
        for each in (
            *arguments.defaults,
            *(default for default in arguments.kw_defaults if default is not None),
        ):
            self.visit(each)
        everything = [
            *arguments.posonlyargs,
            *arguments.args,
            *arguments.kwonlyargs,
            arguments.vararg,
            arguments.kwarg,
        ]
        for each in everything:
            if each is not None and each.annotation is not None:
                self.visit(each.annotation)
        if node.returns is not None:
            self.visit(node.returns)
        outer, self.scope = self.scope, self.inside("function", node.name, node)
        self.take_arguments(everything)
        for each in node.body:
            self.visit(each)
        self.scope = outer

    visit_AsyncFunctionDef = visit_FunctionDef

    def take_arguments(self, everything) -> None:
        for each in everything:
            if each is not None:
                self.bind(each.arg, "parameter")
                self.add(each.lineno, self.file.column(each.lineno, each.col_offset), each.arg, "arg", each)

    def visit_Lambda(self, node) -> None:
        arguments = node.args
        for each in (
            *arguments.defaults,
            *(default for default in arguments.kw_defaults if default is not None),
        ):
            self.visit(each)
        outer, self.scope = self.scope, self.inside("lambda", "<lambda>", node)
        self.take_arguments(
            [
                *arguments.posonlyargs,
                *arguments.args,
                *arguments.kwonlyargs,
                arguments.vararg,
                arguments.kwarg,
            ]
        )
        self.visit(node.body)
        self.scope = outer

    def visit_ClassDef(self, node) -> None:
        for each in node.decorator_list:
            self.visit(each)
        self.bind(node.name, "class")
        self.add_at(self.search(node, node.name, r"class\s+{}\b"), node.name, "def", node)
        self.note_docstring(node)
        for each in (*node.bases, *node.keywords):
            self.visit(each)
        outer, self.scope = self.scope, self.inside("class", node.name, node)
        for each in node.body:
            self.visit(each)
        self.scope = outer

    def visit_comprehension_of(self, node, *results) -> None:
        self.visit(node.generators[0].iter)
        outer, self.scope = self.scope, self.inside("comprehension", "<comprehension>", node)
        for number, generator in enumerate(node.generators):
            self.visit(generator.target)
            if number:
                self.visit(generator.iter)
            for each in generator.ifs:
                self.visit(each)
        for each in results:
            self.visit(each)
        self.scope = outer

    def visit_ListComp(self, node) -> None:
        self.visit_comprehension_of(node, node.elt)

    visit_SetComp = visit_GeneratorExp = visit_ListComp

    def visit_DictComp(self, node) -> None:
        self.visit_comprehension_of(node, node.key, node.value)

    def visit_NamedExpr(self, node) -> None:
        self.bind(node.target.id, "walrus")
        self.add_name(node.target)
        self.visit(node.value)

    def add_name(self, node) -> None:
        self.add(node.lineno, self.file.column(node.lineno, node.col_offset), node.id, "name", node)

    def visit_Name(self, node) -> None:
        if isinstance(node.ctx, (ast.Store, ast.Del)):
            self.bind(node.id, "assignment")
        self.add_name(node)

    def visit_Attribute(self, node) -> None:
        self.visit(node.value)
        column = self.file.column(node.end_lineno, node.end_col_offset) - len(node.attr)
        self.add(node.end_lineno, column, node.attr, "attribute", node)

    def visit_Call(self, node) -> None:
        self.visit(node.func)
        for each in node.args:
            self.visit(each)
        for each in node.keywords:
            if each.arg is not None:
                column = self.file.column(each.lineno, each.col_offset)
                self.add(each.lineno, column, each.arg, "keyword", each, call=node)
            self.visit(each.value)

    def visit_Global(self, node) -> None:
        for name in node.names:
            self.scope.globals.add(name)
            self.scope_top().bound.setdefault(name, "assignment")
            self.add_at(self.search(node, name), name, "name", node)

    def scope_top(self) -> Scope:
        return self.file.scopes[0]

    def visit_Nonlocal(self, node) -> None:
        for name in node.names:
            self.scope.nonlocals.add(name)
            self.add_at(self.search(node, name), name, "name", node)

    def visit_ExceptHandler(self, node) -> None:
        if node.type is not None:
            self.visit(node.type)
        if node.name is not None:
            self.bind(node.name, "assignment")
            start = self.file.span(node.type)[1]
            match = re.compile(rf"\bas\s+{node.name}\b").search(self.file.text, start)
            self.add_at(match.end() - len(node.name), node.name, "name", node)
        for each in node.body:
            self.visit(each)

    def visit_Import(self, node) -> None:
        for alias in node.names:
            self.add_alias(
                node, alias, alias.name.partition(".")[0] if alias.asname is None else alias.asname
            )

    def visit_ImportFrom(self, node) -> None:
        for alias in node.names:
            self.add_alias(node, alias, alias.asname or alias.name)

    def add_alias(self, node, alias, name) -> None:
        if name == "*":
            return
        self.bind(name, "import")
        start, end = self.file.span(alias)
        if alias.asname is not None:
            if isinstance(node, ast.ImportFrom):
                self.add_at(start, alias.name, "import", alias)
            self.add_at(end - len(alias.asname), alias.asname, "asname", alias)
        else:
            self.add_at(start, name, "asname", alias)

    def visit_MatchAs(self, node) -> None:
        if node.pattern is not None:
            self.visit(node.pattern)
        if node.name is not None:
            self.bind(node.name, "assignment")
            self.add_at(self.file.span(node)[1] - len(node.name), node.name, "name", node)

    def visit_MatchStar(self, node) -> None:
        if node.name is not None:
            self.bind(node.name, "assignment")
            self.add_at(self.file.span(node)[1] - len(node.name), node.name, "name", node)

    def visit_MatchMapping(self, node) -> None:
        self.generic_visit(node)
        if node.rest is not None:
            self.bind(node.rest, "assignment")
            self.add_at(self.search(node, node.rest, r"\*\*\s*{}\b"), node.rest, "name", node)

    def visit_MatchClass(self, node) -> None:
        self.visit(node.cls)
        for each in node.patterns:
            self.visit(each)
        for name, pattern in zip(node.kwd_attrs, node.kwd_patterns, strict=True):
            self.add_at(self.search(node, name, r"\b{}(?=\s*=)"), name, "attribute", node)
            self.visit(pattern)

    def visit_JoinedStr(self, node) -> None:
        for each in node.values:
            if isinstance(each, ast.FormattedValue):
                self.visit(each)

    def visit_FormattedValue(self, node) -> None:
        self.visit(node.value)
        if node.format_spec is not None:
            self.visit(node.format_spec)

    def visit_Constant(self, node) -> None:
        if isinstance(node.value, str):
            self.file.strings.append((node, tuple(self.parents[:-1])))


def module_of(path: str) -> str:
    parts = path.removesuffix(".py").split("/")
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


# ----- the project


class Project:
    """All source files, and who imports what."""

    def __init__(self) -> None:
        paths = subprocess.run(
            ["git", "ls-files", *ROOMS], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.splitlines()
        self.files = {path: File(path) for path in paths if path.endswith(".py") and (ROOT / path).exists()}
        self.of_module = {file.module: file for file in self.files.values()}
        self.imports = {path: imports_of(file, self.of_module) for path, file in self.files.items()}


@dataclass
class Imported:
    """A name that a file has from another module of the project.

    Attributes:
        module: The module that is imported from, or that is the imported thing itself where `name` is None.
    """

    module: str
    name: str | None
    scope: Scope
    local: str
    alias: ast.alias
    occurrence: Occurrence | None = None


def absolute(file: File, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = file.module.split(".")
    if not file.path.endswith("__init__.py"):
        parts.pop()
    parts = parts[: len(parts) - (node.level - 1)]
    return ".".join([*parts, *([node.module] if node.module else [])])


def imports_of(file: File, modules: dict[str, File]) -> list[Imported]:
    found = []
    scopes = {id(one.node): one.scope for one in file.occurrences if one.role == "asname"}
    for node in ast.walk(file.tree):
        if isinstance(node, ast.ImportFrom):
            module = absolute(file, node)
            for alias in node.names:
                if alias.name == "*":
                    continue
                scope = scopes[id(alias)]
                local = alias.asname or alias.name
                if f"{module}.{alias.name}" in modules:
                    found.append(Imported(f"{module}.{alias.name}", None, scope, local, alias))
                elif module in modules:
                    found.append(Imported(module, alias.name, scope, local, alias))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname is not None and alias.name in modules:
                    found.append(Imported(alias.name, None, scopes[id(alias)], alias.asname, alias))
    return found


def last_name(node: ast.AST) -> str:
    """The name of what is called: `c` of `a.b().c`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def dotted(node: ast.AST) -> str | None:
    """`a.b.c` of a chain of attributes."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


# ----- entries


@dataclass
class Entry:
    source: str
    file: str
    scope: str
    kind: str
    old: str
    new: str
    how: str
    also: list[str] = field(default_factory=list)
    merge: bool = False
    count: int = 0

    def __str__(self) -> str:
        where = f"{self.file}:{self.scope}" if self.scope else self.file
        return f"{self.source}: {where} {self.kind} {self.old} -> {self.new} ({self.how})"

    @property
    def rank(self) -> int:
        return {"scoped": 0, "file": 1, "global": 2}[self.how]


class Renamer:
    """Turns entries into edits of all files."""

    def __init__(self, project: Project, entries: list[Entry], is_lenient: bool = False) -> None:
        self.project = project
        self.entries = entries
        self.is_lenient = is_lenient
        self.culprits: set[int] = set()
        self.errors: list[str] = []
        self.warnings: list[str] = []
        # By file: place -> (rank, old, new, entry)
        self.edits: dict[str, dict[int, tuple[int, str, str, Entry]]] = defaultdict(dict)
        self.scoped_in: set[tuple[str, str, str]] = {
            (one.file, one.scope, one.old) for one in entries if one.how == "scoped"
        }

    def run(self) -> None:
        for entry in self.entries:
            before = len(self.errors)
            if not self.is_whole(entry):
                continue
            if entry.kind in MEMBERS:
                self.rename_member(entry)
            elif entry.how == "global" and entry.kind in ("local", "parameter"):
                self.rename_everywhere(entry)
            elif entry.how == "global" and not self.is_nested(entry):
                for file in self.project.files.values():
                    how = file.top.bound.get(entry.old)
                    if how is not None and how != "import":
                        self.rename_in_module(entry, file)
            elif entry.how == "file" or not entry.scope:
                if self.is_nested(entry):
                    self.rename_in_scope(entry)
                else:
                    self.rename_in_module(entry, self.project.files[entry.file])
            else:
                self.rename_in_scope(entry)
            if not entry.count and len(self.errors) == before:
                self.problem(entry, f"{entry}: the name is not there", is_missing=True)

    def problem(self, entry: Entry, sentence: str, is_missing: bool = False) -> None:
        """Note what is wrong with an entry. What is gone since the map was made matters to its author only."""
        if is_missing and self.is_lenient:
            self.warnings.append(sentence)
            return
        self.errors.append(sentence)
        self.culprits.add(id(entry))

    def is_nested(self, entry: Entry) -> bool:
        """Whether a function or class is one inside another function."""
        if entry.file not in self.project.files:
            return False
        file = self.project.files[entry.file]
        return bool(entry.scope) and entry.scope != entry.old and entry.old not in file.top.bound

    def is_whole(self, entry: Entry) -> bool:
        """Whether an entry has the form of one, and its place exists."""
        before = len(self.errors)
        if entry.kind not in KINDS or entry.how not in ("global", "file", "scoped"):
            self.problem(entry, f"{entry}: unknown kind or how")
        if not entry.new.isidentifier() or keyword.iskeyword(entry.new) or entry.new == entry.old:
            self.problem(entry, f"{entry}: no name")
        if entry.file not in self.project.files:
            if entry.how != "global" or not self.is_lenient:
                self.problem(entry, f"{entry}: no such file", is_missing=True)
                return False
        elif (
            entry.how != "global"
            and entry.scope
            and not self.scopes_of(entry)
            and not self.is_module_name(entry)
        ):
            self.problem(entry, f"{entry}: no such scope", is_missing=True)
            return False
        if any(path not in self.project.files for path in entry.also):
            self.problem(entry, f"{entry}: no such file in also", is_missing=True)
            entry.also = [path for path in entry.also if path in self.project.files]
        return len(self.errors) == before

    def is_module_name(self, entry: Entry) -> bool:
        return entry.kind in ("function", "class") and entry.old in self.project.files[entry.file].top.bound

    def scopes_of(self, entry: Entry) -> list[Scope]:
        """The scopes that an entry names; a function may be named itself where its parent is meant."""
        file = self.project.files[entry.file]
        return file.scopes_named(entry.scope)

    def edit(self, file: File, index: int, old: str, new: str, entry: Entry) -> None:
        assert file.text[index : index + len(old)] == old, (
            file.path,
            file.place(index),
            old,
            file.text[index : index + 20],
        )
        edits = self.edits[file.path]
        there = edits.get(index)
        if there is not None and there[2] != new:
            if there[0] == entry.rank:
                line = file.place(index)[0]
                self.problem(
                    entry, f"{entry}: {file.path}:{line} is also renamed to {there[2]} by {there[3]}"
                )
                return
            if there[0] < entry.rank:
                entry.count += 1
                return
        edits[index] = (entry.rank, old, new, entry)
        entry.count += 1

    def rename(self, file: File, one: Occurrence, entry: Entry) -> None:
        self.edit(file, file.index(one.line, one.column), one.name, entry.new, entry)

    # ----- members of classes

    def rename_member(self, entry: Entry) -> None:
        files = (
            list(self.project.files.values()) if entry.how == "global" else [self.project.files[entry.file]]
        )
        for path in entry.also:
            files.append(self.project.files[path])
        inside = self.scopes_of(entry) if entry.how == "scoped" and entry.scope else None
        if inside and inside[0].kind == "function":
            inside = [scope.parent for scope in inside]
        # For `file`, members are renamed in the class that is named and in those that inherit, so in the whole file.
        for file in files:
            for one in file.by_name.get(entry.old, ()):
                if inside is not None and not any(one.scope.is_within(scope) for scope in inside):
                    continue
                if one.role == "attribute":
                    if not self.is_module_attribute(file, one):
                        self.rename(file, one, entry)
                elif (
                    one.role in ("def", "name") and one.scope.kind == "class" and entry.old in one.scope.bound
                ):
                    self.rename(file, one, entry)
                    if one.role == "def" and self.is_foreign(one.scope):
                        self.warnings.append(
                            f"{entry}: {file.path}: a base of {one.scope.name} may call it by its name"
                        )
                    if entry.new in one.scope.bound:
                        self.errors.append(
                            f"{entry}: {file.path}: {one.scope.qualname} has {entry.new} already"
                        )
                elif one.role == "keyword" and self.is_field(one, entry):
                    self.rename(file, one, entry)
            self.rename_strings(file, entry, inside)
            self.rename_prose(file, entry, inside)
        if entry.how != "global":
            elsewhere = Counter(
                file.path
                for file in self.project.files.values()
                if file not in files
                for one in file.by_name.get(entry.old, ())
                if one.role == "attribute" and not self.is_module_attribute(file, one)
            )
            if elsewhere:
                self.warnings.append(f"{entry}: .{entry.old} is left in {dict(elsewhere)}")
        if not entry.merge and entry.how == "global":
            there = Counter(
                file.path
                for file in self.project.files.values()
                for one in file.by_name.get(entry.new, ())
                if one.role == "attribute" or (one.role == "def" and one.scope.kind == "class")
            )
            if there:
                self.warnings.append(
                    f"{entry}: .{entry.new} is there already in {dict(there.most_common(5))}"
                )
        if entry.how == "global":
            self.rename_docs(entry)
        else:
            module = module_of(entry.file)
            for file in self.project.files.values():
                if file not in files:
                    for node, _ in file.names.get(entry.old, ()):
                        if node.value.startswith(module + "."):
                            self._rename_member_path(file, node, entry)
        self.rename_patterns(entry)

    def rename_patterns(self, entry: Entry) -> None:
        """Code that the mutants have as strings."""
        before = r"(?<=\.)" if entry.kind in MEMBERS else r"(?<![\w.])"
        after = r"\b" if entry.kind in MEMBERS else r"(?=\()"
        if entry.how == "scoped":
            return
        module = module_of(entry.file)
        for file in self.project.files.values():
            if not file.path.startswith("tests/mutants/") or file.path.rpartition("/")[2].startswith("test_"):
                continue
            docstrings = set(map(id, file.docstrings))
            for node, parents in file.strings:
                if entry.how == "file" and not self.is_mutant_of(parents, module, entry.file):
                    continue
                if (
                    entry.old in node.value
                    and id(node) not in docstrings
                    and not IDENTIFIERS.fullmatch(node.value)
                ):
                    start, end = file.span(node)
                    for match in re.compile(before + entry.old + after).finditer(file.text, start, end):
                        self.edit(file, match.start(), entry.old, entry.new, entry)

    def is_mutant_of(self, parents: tuple[ast.AST, ...], module: str, path: str) -> bool:
        """Whether a string is of a mutant in a module."""
        for parent in reversed(parents):
            if isinstance(parent, ast.Call):
                places = [
                    one.value
                    for one in parent.args
                    if isinstance(one, ast.Constant) and isinstance(one.value, str)
                ]
                return any(
                    one == module or one.startswith(module + ".") or path == f"reactdb/{one}"
                    for one in places
                )
        return False

    def is_module_attribute(self, file: File, one: Occurrence) -> bool:
        """Whether `a.old` is a name of a module that the file has imported."""
        value = one.node.value if isinstance(one.node, ast.Attribute) else None
        if not isinstance(value, ast.Name):
            return False
        scope = one.scope.lookup(value.id)
        return scope is not None and scope.bound.get(value.id) == "import" and not value.id[:1].isupper()

    def is_foreign(self, scope: Scope) -> bool:
        """Whether a class has a base of another library, which may call a member by its name."""
        if not hasattr(self, "_classes"):
            self._classes = {
                each.name
                for file in self.project.files.values()
                for each in file.scopes
                if each.kind == "class"
            } | {"Protocol", "Generic", "NamedTuple", "Exception", "ABC", "TypedDict", "Enum", "IntEnum"}
        bases = [base.value if isinstance(base, ast.Subscript) else base for base in scope.node.bases]
        return any((dotted(base) or "").rpartition(".")[2] not in self._classes for base in bases)

    def is_field(self, one: Occurrence, entry: Entry) -> bool:
        """Whether a keyword argument sets a field of a dataclass that has the name."""
        if one.call is None or not self.classes_with_field(entry.old):
            return False
        name = last_name(one.call.func)
        if name in ("replace", "_replace", "SimpleNamespace"):
            return True
        return name in self.classes_with_field(entry.old)

    def classes_with_field(self, name: str) -> set[str]:
        if not hasattr(self, "_fields"):
            self._fields: dict[str, set[str]] = defaultdict(set)
            heirs: dict[str, set[str]] = defaultdict(set)
            fields: dict[str, set[str]] = {}
            for file in self.project.files.values():
                for scope in file.scopes:
                    if scope.kind != "class":
                        continue
                    fields.setdefault(scope.name, set()).update(
                        one.target.id
                        for one in scope.node.body
                        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
                    )
                    for base in scope.node.bases:
                        heirs[(dotted(base) or "").rpartition(".")[2]].add(scope.name)
            todo = list(fields)
            while todo:
                name_of_base = todo.pop()
                for heir in heirs.get(name_of_base, ()):
                    if not fields[name_of_base] <= fields[heir]:
                        fields[heir] |= fields[name_of_base]
                        todo.append(heir)
            for cls, names in fields.items():
                for each in names:
                    self._fields[each].add(cls)
        return self._fields[name]

    # ----- names of a module

    def rename_in_module(self, entry: Entry, file: File, name: str | None = None) -> None:
        seen: set[tuple[str, str]] = set()
        self._rename_export(entry, file, seen)
        self.rename_patterns(entry)
        if entry.how == "global":
            self.rename_docs(entry)

    def _rename_export(self, entry: Entry, file: File, seen: set[tuple[str, str]]) -> None:
        """Rename a name at the top of a module, and what other files have of it."""
        if (file.path, entry.old) in seen:
            return
        seen.add((file.path, entry.old))
        for one in file.by_name.get(entry.old, ()):
            if one.role in ("name", "def", "asname", "arg") and one.binding is file.top:
                if one.role == "asname" and isinstance(one.node, ast.alias) and one.node.asname is not None:
                    continue
                self.rename(file, one, entry)
        self.rename_strings(file, entry, None)
        self.rename_prose(file, entry, None)
        module = file.module
        for path, imports in self.project.imports.items():
            other = self.project.files[path]
            for imported in imports:
                if imported.module == module and imported.name == entry.old:
                    if imported.alias.asname is not None:
                        start = other.span(imported.alias)[0]
                        self.edit(other, start, entry.old, entry.new, entry)
                    elif imported.scope is other.top:
                        self._rename_export(entry, other, seen)
                    else:
                        for one in other.by_name.get(entry.old, ()):
                            if one.role in ("name", "asname") and one.binding is imported.scope:
                                self.rename(other, one, entry)
                elif imported.module == module and imported.name is None:
                    for one in other.by_name.get(entry.old, ()):
                        if (
                            one.role == "attribute"
                            and isinstance(one.node, ast.Attribute)
                            and isinstance(one.node.value, ast.Name)
                            and one.node.value.id == imported.local
                            and one.scope.lookup(imported.local) is imported.scope
                        ):
                            self.rename(other, one, entry)
                    self._rename_strings_of_module(other, imported.local, entry)
            for one in other.by_name.get(entry.old, ()):
                if one.role == "attribute" and isinstance(one.node, ast.Attribute):
                    if dotted(one.node.value) == module and "." in module:
                        self.rename(other, one, entry)
            self._rename_dotted(other, module, entry)
            self._rename_lazy(other, module, entry, seen)

    def _rename_strings_of_module(self, file: File, local: str, entry: Entry) -> None:
        for node, parents in file.names.get(entry.old, ()):
            if node.value == entry.old and parents and isinstance(parents[-1], ast.Call):
                call = parents[-1]
                if len(call.args) > 1 and call.args[1] is node and dotted(call.args[0]) == local:
                    self.edit_string(file, node, entry.old, entry)

    def _rename_dotted(self, file: File, module: str, entry: Entry) -> None:
        whole = f"{module}.{entry.old}"
        for node, _ in file.names.get(entry.old, ()):
            if node.value == whole or node.value.startswith(whole + "."):
                start, end = file.span(node)
                index = file.text.find(whole, start, end)
                if index >= 0:
                    self.edit(file, index + len(module) + 1, entry.old, entry.new, entry)

    def _rename_lazy(self, file: File, module: str, entry: Entry, seen: set[tuple[str, str]]) -> None:
        """A table of modules and the names that are imported from them when they are first used."""
        for node, parents in file.names.get(module.rpartition(".")[2], ()):
            if node.value == module and parents:
                parent = parents[-1]
                if isinstance(parent, ast.Dict):
                    for key, value in zip(parent.keys, parent.values, strict=True):
                        if key is node and isinstance(value, (ast.Tuple, ast.List)):
                            for each in value.elts:
                                if isinstance(each, ast.Constant) and each.value == entry.old:
                                    self.edit_string(file, each, entry.old, entry)
                                    self._rename_export(entry, file, seen)
                        elif value is node and isinstance(key, ast.Constant) and key.value == entry.old:
                            self.edit_string(file, key, entry.old, entry)
                            self._rename_export(entry, file, seen)
                elif isinstance(parent, ast.Tuple) and parent.elts[0] is node and len(parent.elts) > 1:
                    each = parent.elts[1]
                    if isinstance(each, ast.Constant) and each.value == entry.old:
                        self.edit_string(file, each, entry.old, entry)

    # ----- names of functions and below

    def rename_in_scope(self, entry: Entry) -> None:
        file = self.project.files[entry.file]
        scopes = self.scopes_of(entry)
        renamed = False
        for scope in scopes:
            if scope.kind == "class":
                self.problem(entry, f"{entry}: a {entry.kind} has no class as its scope")
                return
            for one in file.by_name.get(entry.old, ()):
                if one.role not in ("name", "arg", "def", "asname") or not self.is_of(one, scope, entry):
                    continue
                if one.role == "asname" and isinstance(one.node, ast.alias) and one.node.asname is None:
                    self.problem(entry, f"{entry}: {file.path}:{one.line} imports it")
                    continue
                self.rename(file, one, entry)
                renamed = True
            if renamed:
                self.rename_prose(file, entry, [scope])
            if entry.kind == "parameter":
                function = scope.name if scope.name != "__init__" else scope.parent.name
                for path in (entry.file, *entry.also):
                    other = self.project.files[path]
                    for one in other.by_name.get(entry.old, ()):
                        if one.role == "keyword" and last_name(one.call.func) == function:
                            self.rename(other, one, entry)

    def is_of(self, one: Occurrence, scope: Scope, entry: Entry) -> bool:
        """Whether a name is one of a function: bound in it, or in what is nested in it and has no entry of its own."""
        binding = one.binding
        if binding is None or not binding.is_within(scope):
            return False
        for function in binding.functions():
            if function is scope:
                return True
            if (entry.file, function.qualname, entry.old) in self.scoped_in:
                return False
        return False

    def rename_everywhere(self, entry: Entry) -> None:
        for file in self.project.files.values():
            for one in file.by_name.get(entry.old, ()):
                binding = one.binding
                if one.role == "keyword" or (
                    one.role in ("name", "arg")
                    and binding is not None
                    and binding.kind not in ("module", "class")
                ):
                    self.rename(file, one, entry)

    # ----- strings and prose

    def edit_string(self, file: File, node: ast.Constant, old: str, entry: Entry) -> None:
        start, end = file.span(node)
        index = file.text.find(old, start, end)
        if index >= 0 and file.text.find(old, index + 1, end) < 0:
            self.edit(file, index, old, entry.new, entry)

    def rename_strings(self, file: File, entry: Entry, inside: list[Scope] | None) -> None:
        """Strings that name a member or a name of a module: for `getattr`, `__slots__`, `__all__`."""
        for node, parents in file.names.get(entry.old, ()):
            if node.value != entry.old:
                if entry.kind in MEMBERS and node.value.startswith("reactdb."):
                    self._rename_member_path(file, node, entry)
                elif (
                    entry.kind in MEMBERS
                    and re.fullmatch(rf"[\w.]+\.{entry.old}", node.value)
                    and self.is_attrgetter(parents)
                ):
                    start, end = file.span(node)
                    self.edit(
                        file, file.text.find("." + entry.old, start, end) + 1, entry.old, entry.new, entry
                    )
                continue
            if inside is not None:
                line = node.lineno
                if not any(scope.node.lineno <= line <= scope.node.end_lineno for scope in inside):
                    continue
            if self.is_naming(parents, node, entry):
                self.edit_string(file, node, entry.old, entry)

    def is_attrgetter(self, parents) -> bool:
        return (
            bool(parents)
            and isinstance(parents[-1], ast.Call)
            and (dotted(parents[-1].func) or "").endswith("attrgetter")
        )

    def _rename_member_path(self, file: File, node: ast.Constant, entry: Entry) -> None:
        """`reactdb.store.writer.Writer.old`: a member by its whole name."""
        if not re.fullmatch(r"[\w.]+", node.value):
            return
        parts = node.value.split(".")
        for count in range(len(parts), 0, -1):
            if ".".join(parts[:count]) in self.project.of_module:
                break
        start, _ = file.span(node)
        for number in range(count, len(parts)):
            if parts[number] == entry.old and parts[number - 1][:1].isupper():
                offset = len(".".join(parts[:number])) + 1
                index = file.text.find(node.value, start)
                self.edit(file, index + offset, entry.old, entry.new, entry)

    def is_naming(self, parents: tuple[ast.AST, ...], node: ast.Constant, entry: Entry) -> bool:
        for parent in reversed(parents):
            if isinstance(parent, ast.Call):
                name = (dotted(parent.func) or "").rpartition(".")[2]
                if name not in STRING_CALLS:
                    return False
                if name in ("attrgetter", "methodcaller"):
                    return entry.kind in MEMBERS
                if len(parent.args) < 2 or node is not parent.args[1]:
                    return False
                # A name of a module is renamed by the module that is imported.
                return entry.kind in MEMBERS
            if isinstance(parent, (ast.Assign, ast.AnnAssign)):
                targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
                names = {one.id for one in targets if isinstance(one, ast.Name)}
                wanted = {"__slots__", "__match_args__"} if entry.kind in MEMBERS else {"__all__"}
                return bool(names & wanted)
            if not isinstance(parent, (ast.Tuple, ast.List, ast.Starred, ast.Set)):
                return False
        return False

    def rename_prose(self, file: File, entry: Entry, inside: list[Scope] | None) -> None:
        """Rename in backticks, in comments and docstrings."""
        if entry.old not in file.text:
            return
        spans = [file.span(node) for node in file.docstrings]
        spans += [
            (file.index(line, column), file.index(line, column) + len(text))
            for line, column, text in file.comments
        ]
        for start, end in spans:
            if inside is not None:
                line = file.place(start)[0]
                if not any(scope.node.lineno <= line <= scope.node.end_lineno for scope in inside):
                    continue
            for index in in_backticks(file.text, entry.old, start, end):
                before = entry.count
                self.edit(file, index, entry.old, entry.new, entry)
                entry.count = before

    def rename_docs(self, entry: Entry) -> None:
        for path in documents():
            # Pages for users name what is public; the pages about the source name what is inside.
            if not path.startswith(("docs/explanation/", "benchmarks/")):
                continue
            text = text_of(path)
            for index in in_backticks(text, entry.old, 0, len(text)):
                self.edits[path].setdefault(index, (entry.rank, entry.old, entry.new, entry))


def in_backticks(text: str, name: str, start: int, end: int) -> list[int]:
    """Where a name is, as `name`, `name(...)`, `a.name` or `name.b`, in backticks."""
    if text.find(name, start, end) < 0:
        return []
    places = []
    for span in re.compile(r"(?<!`)`([A-Za-z_][\w.]*)(\([^`\n]*\))?`(?!`)").finditer(text, start, end):
        for match in re.compile(rf"(?<![\w]){re.escape(name)}(?![\w])").finditer(
            text, span.start(1), span.end(1)
        ):
            places.append(match.start())
    return places


_TEXTS: dict[str, str] = {}


def documents() -> list[str]:
    if not _TEXTS:
        paths = subprocess.run(
            ["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.splitlines()
        _TEXTS.update(
            (path, (ROOT / path).read_text(encoding="utf-8")) for path in paths if path != "CHANGELOG.md"
        )
    return list(_TEXTS)


def text_of(path: str) -> str:
    documents()
    return _TEXTS[path]


def applied(text: str, edits: dict[int, tuple[int, str, str, Entry]]) -> str:
    parts = []
    end = 0
    for index in sorted(edits):
        _, old, new, _ = edits[index]
        parts += [text[end:index], new]
        end = index + len(old)
    return "".join([*parts, text[end:]])


# ----- nothing is caught


def bindings(file: File) -> list[tuple[Occurrence, int]]:
    """Each identifier with the number of the scope that binds it, in the order of the tree."""
    numbers = {id(scope): number for number, scope in enumerate(file.scopes)}
    rows = []
    for one in file.occurrences:
        if one.role in ("attribute", "keyword", "import"):
            rows.append((one, -2))
        else:
            binding = one.binding
            rows.append((one, -1 if binding is None else numbers[id(binding)]))
    return rows


def changed_bindings(before: File, after: File) -> list[tuple[str, set[str]]]:
    """What a rename has changed beside names, with the names: empty where each name is bound as before."""
    old, new = bindings(before), bindings(after)
    if len(old) != len(new) or len(before.scopes) != len(after.scopes):
        return [(f"{before.path}: another tree", set())]
    problems = []
    names: dict[tuple[int, str], str] = {}
    back: dict[tuple[int, str], str] = {}
    for (first, scope), (second, other) in zip(old, new, strict=True):
        where = f"{before.path}:{first.line}: {first.name} -> {second.name}"
        both = {first.name, second.name}
        if scope != other:
            problems.append((f"{where}: it means another thing now ({second.name} is bound elsewhere)", both))
        elif scope >= 0:
            if names.setdefault((scope, first.name), second.name) != second.name:
                there = names[scope, first.name]
                problems.append((f"{where}: {first.name} is {there} elsewhere in this scope", both | {there}))
            if back.setdefault((scope, second.name), first.name) != first.name:
                there = back[scope, second.name]
                problems.append((f"{where}: {there} has this name too, in the same scope", both | {there}))
        elif scope == -1 and first.name != second.name:
            problems.append((f"{where}: it was a name from outside", both))
    return problems


# ----- the maps


def read_maps(names: list[str] | None) -> list[Entry]:
    paths = sorted(ROOT.glob("rename_*.json")) if names is None else [Path(name).resolve() for name in names]
    entries = []
    seen: dict[tuple, Entry] = {}
    for path in paths:
        for row in json.loads(path.read_text(encoding="utf-8")):
            row = {key: value for key, value in row.items() if key in Entry.__dataclass_fields__}
            row.setdefault("scope", "")
            entry = Entry(path.name, **row)
            key = (
                entry.file if entry.how != "global" else "",
                entry.scope if entry.how == "scoped" else "",
                entry.kind,
            )
            key = (*key, entry.old)
            if key in seen and seen[key].new == entry.new:
                continue
            seen[key] = entry
            entries.append(entry)
    return entries


def rename_names(
    entries: list[Entry], is_check: bool, is_lenient: bool = False, is_forced: bool = False
) -> bool:
    """Apply entries, or say what is wrong with them; true if nothing is.

    `is_lenient`: what is gone is passed over. `is_forced`: entries that clash are left out.
    """
    project = Project()
    while True:
        for entry in entries:
            entry.count = 0
        renamer = Renamer(project, entries, is_lenient)
        renamer.run()
        errors = renamer.errors
        texts: dict[str, str] = {}
        for path, edits in renamer.edits.items():
            if not edits:
                continue
            if path not in project.files:
                texts[path] = applied(text_of(path), edits)
                continue
            texts[path] = applied(project.files[path].text, edits)
            try:
                problems = changed_bindings(project.files[path], File(path, texts[path]))
            except SyntaxError as error:
                problems = [(f"{path}: {error}", set())]
            for sentence, names in problems:
                by = {
                    id(entry): entry
                    for _, old, _, entry in edits.values()
                    if not names or {old, entry.new} & names
                }
                renamer.culprits |= set(by)
                errors.append(f"{sentence}; {next((str(entry) for entry in by.values()), '')}")
        if not errors or not is_forced or not renamer.culprits:
            break
        for entry in entries:
            if id(entry) in renamer.culprits:
                print("left out:", entry)
        for error in errors:
            print("because:", error)
        entries = [entry for entry in entries if id(entry) not in renamer.culprits]
    for warning in renamer.warnings:
        print("note:", warning)
    for error in errors:
        print("error:", error)
    total = sum(len(edits) for edits in renamer.edits.values())
    print(f"{len(entries)} entries, {total} places in {len(texts)} files, {len(errors)} errors")
    if errors or is_check:
        return not errors
    for path, text in texts.items():
        (ROOT / path).write_text(text, encoding="utf-8")
    return True


# ----- members that other files reach through an object


def repair(entries: list[Entry]) -> None:
    """Rename `.old` where mypy says that the class of the object has it no longer, as the entry of that class says."""
    members: dict[str, list[tuple[str, Entry]]] = defaultdict(list)
    for entry in entries:
        if entry.kind in MEMBERS and entry.scope and entry.how != "global":
            parts = entry.scope.split(".")
            owner = parts[-2] if parts[-1] == entry.old and len(parts) > 1 else parts[-1]
            members[entry.old].append((owner, entry))
    for _ in range(4):
        project = Project()
        bases: dict[str, set[str]] = defaultdict(set)
        for file in project.files.values():
            for scope in file.scopes:
                if scope.kind == "class":
                    for base in scope.node.bases:
                        base = base.value if isinstance(base, ast.Subscript) else base
                        bases[scope.name].add(last_name(base))
        done = subprocess.run(
            ["mypy", "--no-error-summary", "--show-error-end", "--no-pretty"],
            cwd=ROOT,
            check=False,
            capture_output=True,
            text=True,
        )
        edits: dict[str, dict[int, tuple[int, str, str, Entry]]] = defaultdict(dict)
        for line in done.stdout.splitlines():
            match = re.match(
                r"(?P<path>[^:]+):(?P<line>\d+):(?P<column>\d+):\d+:\d+: error: .*?\"(?P<owner>[\w.\[\], ]+)\""
                r"(?: of \"[^\"]*\")? has no attribute \"(?P<name>\w+)\"",
                line,
            )
            if match is None or match["path"] not in project.files:
                continue
            owner = re.sub(r"^(?:type\[)?([\w.]+).*", r"\1", match["owner"]).rpartition(".")[2]
            families = {owner}
            todo = [owner]
            while todo:
                for base in bases[todo.pop()] - families:
                    families.add(base)
                    todo.append(base)
            news = {entry.new: entry for cls, entry in members[match["name"]] if cls in families}
            if len(news) != 1:
                continue
            entry = next(iter(news.values()))
            file = project.files[match["path"]]
            for one in file.by_name.get(match["name"], ()):
                at = (one.node.lineno, file.column(one.node.lineno, one.node.col_offset) + 1)
                if one.role == "attribute" and at == (int(match["line"]), int(match["column"])):
                    index = file.index(one.line, one.column)
                    edits[file.path][index] = (0, entry.old, entry.new, entry)
        for path, places in edits.items():
            (ROOT / path).write_text(applied(project.files[path].text, places), encoding="utf-8")
        print(f"repaired {sum(map(len, edits.values()))} members by their types")
        if not edits:
            return


# ----- modules: files and rooms

# Old path -> new path, without `.py`. A row whose old file is gone is passed over.
_TABLE = """
reactdb/keyed                       reactdb/durable/keyed_result
reactdb/set_aside                   reactdb/durable/dead_letters
reactdb/batches                     reactdb/durable/worker
reactdb/partitions                  reactdb/durable/partitions
reactdb/consumer                    reactdb/durable/consumer
reactdb/materialize                 reactdb/durable/materialized_views
reactdb/reading                     reactdb/documents/read
reactdb/writing                     reactdb/documents/write
reactdb/access                      reactdb/documents/access_path
reactdb/steps                       reactdb/documents/steps
reactdb/hints                       reactdb/documents/hints
reactdb/feeds/listening             reactdb/feeds/handles
reactdb/store/file/opening          reactdb/store/file/open_checks
reactdb/store/kept                  reactdb/store/materialized_tables
reactdb/values/decoding             reactdb/values/decode
reactdb/values/printing             reactdb/values/reql_text
reactdb/values/respelling           reactdb/values/shown_values
reactdb/expression/stored           reactdb/expression/serialize
reactdb/expression/operations_array     reactdb/expression/operations/arrays
reactdb/expression/operations_logic     reactdb/expression/operations/logic
reactdb/expression/operations_number    reactdb/expression/operations/numbers
reactdb/expression/operations_object    reactdb/expression/operations/objects
reactdb/expression/operations_sequence  reactdb/expression/operations/sequences
reactdb/expression/operations_string    reactdb/expression/operations/strings
reactdb/expression/operations_time      reactdb/expression/operations/times
reactdb/expression/operations_type      reactdb/expression/operations/types
reactdb/replication/syncing         reactdb/replication/sync
reactdb/cli/exporting               reactdb/cli/export
reactdb/cli/importing               reactdb/cli/import_
reactdb/cli/inspecting              reactdb/cli/inspect_
reactdb/cli/salvaging               reactdb/cli/salvage
reactdb/servers/listening           reactdb/servers/sockets
reactdb/servers/http/serving        reactdb/servers/http/server
reactdb/servers/http/speaking       reactdb/servers/http/protocol
reactdb/servers/http/polling        reactdb/servers/http/long_poll
reactdb/servers/http/waking         reactdb/servers/http/loop_waiter
reactdb/servers/http/routing        reactdb/servers/couchdb/routes
reactdb/servers/http/databases      reactdb/servers/couchdb/databases
reactdb/servers/http/documents      reactdb/servers/couchdb/documents
reactdb/servers/http/attaching      reactdb/servers/couchdb/attachments
reactdb/servers/http/changing       reactdb/servers/couchdb/changes
reactdb/servers/http/selecting      reactdb/servers/couchdb/mango
reactdb/servers/http/viewing        reactdb/servers/couchdb/views
reactdb/servers/http/streaming      reactdb/servers/couchdb/feed_stream
reactdb/servers/http/wrapped_rows   reactdb/servers/couchdb/wrapped_rows
reactdb/servers/http/formats        reactdb/servers/couchdb/formats
reactdb/servers/http/resourcing     reactdb/servers/aidbox/routes
reactdb/servers/http/rendering      reactdb/servers/aidbox/media_types
reactdb/servers/http/event_streams  reactdb/servers/aidbox/event_streams
reactdb/dialects/aidbox/asked       reactdb/dialects/aidbox/parameters
reactdb/dialects/aidbox/dotted      reactdb/dialects/aidbox/dot_expressions
reactdb/dialects/aidbox/patching    reactdb/dialects/aidbox/patch
reactdb/dialects/aidbox/searching   reactdb/dialects/aidbox/search
reactdb/dialects/aidbox/spelling    reactdb/dialects/aidbox/names
reactdb/dialects/couchdb/finding    reactdb/dialects/couchdb/find
reactdb/dialects/couchdb/listing    reactdb/dialects/couchdb/all_docs
reactdb/dialects/couchdb/planning   reactdb/dialects/couchdb/mango_plan
reactdb/dialects/couchdb/spelling   reactdb/dialects/couchdb/names
reactdb/dialects/couchdb/sweeping   reactdb/dialects/couchdb/ancestor_sweep
reactdb/dialects/couchdb/validating reactdb/dialects/couchdb/validate_doc_update
reactdb/dialects/couchdb/waking     reactdb/dialects/couchdb/change_waiters
reactdb/dialects/rethinkdb/administering  reactdb/dialects/rethinkdb/terms_admin
reactdb/dialects/rethinkdb/aggregating    reactdb/dialects/rethinkdb/terms_aggregate
reactdb/dialects/rethinkdb/changing       reactdb/dialects/rethinkdb/terms_changes
reactdb/dialects/rethinkdb/configuring    reactdb/dialects/rethinkdb/terms_config
reactdb/dialects/rethinkdb/ordering       reactdb/dialects/rethinkdb/terms_order
reactdb/dialects/rethinkdb/selecting      reactdb/dialects/rethinkdb/terms_select
reactdb/dialects/rethinkdb/transforming   reactdb/dialects/rethinkdb/terms_transform
reactdb/dialects/rethinkdb/writing        reactdb/dialects/rethinkdb/terms_write
reactdb/dialects/rethinkdb/feeding        reactdb/dialects/rethinkdb/open_feed
reactdb/dialects/rethinkdb/netting        reactdb/dialects/rethinkdb/commit_difference
reactdb/dialects/rethinkdb/printing       reactdb/dialects/rethinkdb/query_text
reactdb/dialects/rethinkdb/serialized     reactdb/dialects/rethinkdb/serialized_functions
reactdb/dialects/rethinkdb/storing        reactdb/dialects/rethinkdb/write_checks
reactdb/dialects/mongodb/aggregating   reactdb/dialects/mongodb/pipeline_result
reactdb/dialects/mongodb/bulk_writing  reactdb/dialects/mongodb/bulk_write
reactdb/dialects/mongodb/capped        reactdb/dialects/mongodb/capped_collections
reactdb/dialects/mongodb/converting    reactdb/dialects/mongodb/convert_to_capped
reactdb/dialects/mongodb/editing       reactdb/dialects/mongodb/document_editor
reactdb/dialects/mongodb/explaining    reactdb/dialects/mongodb/validation_error
reactdb/dialects/mongodb/hinting       reactdb/dialects/mongodb/hint
reactdb/dialects/mongodb/implying      reactdb/dialects/mongodb/partial_index
reactdb/dialects/mongodb/opening       reactdb/dialects/mongodb/mongodb
reactdb/dialects/mongodb/ordering      reactdb/dialects/mongodb/bson_order
reactdb/dialects/mongodb/planning      reactdb/dialects/mongodb/query_plan
reactdb/dialects/mongodb/reading       reactdb/dialects/mongodb/find
reactdb/dialects/mongodb/scanning      reactdb/dialects/mongodb/raw_filter
reactdb/dialects/mongodb/sorting       reactdb/dialects/mongodb/sort
reactdb/dialects/mongodb/splitting     reactdb/dialects/mongodb/split_events
reactdb/dialects/mongodb/sweeping      reactdb/dialects/mongodb/ttl_sweep
reactdb/dialects/mongodb/tailing       reactdb/dialects/mongodb/tailable
reactdb/dialects/mongodb/viewing       reactdb/dialects/mongodb/views
reactdb/dialects/mongodb/waking        reactdb/dialects/mongodb/stream_waiters
reactdb/dialects/mongodb/walking       reactdb/dialects/mongodb/index_walk
reactdb/dialects/mongodb/writing       reactdb/dialects/mongodb/write_statements
reactdb/dialects/mongodb/commands/administering   reactdb/dialects/mongodb/commands/collections
reactdb/dialects/mongodb/commands/authenticating  reactdb/dialects/mongodb/commands/authentication
reactdb/dialects/mongodb/commands/profiling       reactdb/dialects/mongodb/commands/profile
reactdb/dialects/mongodb/commands/reading         reactdb/dialects/mongodb/commands/find
reactdb/dialects/mongodb/commands/renaming        reactdb/dialects/mongodb/commands/rename_collection
reactdb/dialects/mongodb/commands/streaming       reactdb/dialects/mongodb/commands/change_streams
reactdb/dialects/mongodb/commands/tailing         reactdb/dialects/mongodb/commands/tailable_cursors
reactdb/dialects/mongodb/commands/writing         reactdb/dialects/mongodb/commands/writes
reactdb/dialects/mongodb/embedded/aggregating  reactdb/dialects/mongodb/embedded/aggregate
reactdb/dialects/mongodb/embedded/checking     reactdb/dialects/mongodb/embedded/argument_checks
reactdb/dialects/mongodb/embedded/commanding   reactdb/dialects/mongodb/embedded/command
reactdb/dialects/mongodb/embedded/finding      reactdb/dialects/mongodb/embedded/find
reactdb/dialects/mongodb/embedded/observing    reactdb/dialects/mongodb/embedded/observable
reactdb/dialects/mongodb/embedded/optioned     reactdb/dialects/mongodb/embedded/options
reactdb/dialects/mongodb/embedded/raising      reactdb/dialects/mongodb/embedded/errors
reactdb/dialects/mongodb/embedded/resuming     reactdb/dialects/mongodb/embedded/resuming_stream
reactdb/dialects/mongodb/embedded/shaping      reactdb/dialects/mongodb/embedded/documents
reactdb/dialects/mongodb/embedded/spelling     reactdb/dialects/mongodb/embedded/names
reactdb/dialects/mongodb/embedded/tailing      reactdb/dialects/mongodb/embedded/tailable
reactdb/dialects/mongodb/embedded/watching     reactdb/dialects/mongodb/embedded/change_stream
reactdb/dialects/mongodb/expressions/compiling reactdb/dialects/mongodb/expressions/compile
reactdb/dialects/mongodb/stages/filling        reactdb/dialects/mongodb/stages/fill_densify
reactdb/dialects/mongodb/stages/grouping       reactdb/dialects/mongodb/stages/group
reactdb/dialects/mongodb/stages/joining        reactdb/dialects/mongodb/stages/lookup
reactdb/dialects/mongodb/stages/rounding       reactdb/dialects/mongodb/stages/preferred_numbers
reactdb/dialects/mongodb/stages/selecting      reactdb/dialects/mongodb/stages/select_sort
reactdb/dialects/mongodb/stages/shaping        reactdb/dialects/mongodb/stages/project
reactdb/dialects/mongodb/stages/windowing      reactdb/dialects/mongodb/stages/set_window_fields
reactdb/dialects/mongodb/stages/writing        reactdb/dialects/mongodb/stages/out_merge
tests/dialects/couchdb/test_couch_sweeping          tests/dialects/couchdb/test_couch_ancestor_sweep
tests/dialects/couchdb/test_couchdb_finding         tests/dialects/couchdb/test_couchdb_find
tests/dialects/mongodb/test_mongodb_aggregating     tests/dialects/mongodb/test_mongodb_pipeline_result
tests/dialects/mongodb/test_mongodb_bulk_writing    tests/dialects/mongodb/test_mongodb_bulk_write
tests/dialects/mongodb/test_mongodb_commanding      tests/dialects/mongodb/test_mongodb_command
tests/dialects/mongodb/test_mongodb_hinting         tests/dialects/mongodb/test_mongodb_hint
tests/dialects/mongodb/test_mongodb_ordering        tests/dialects/mongodb/test_mongodb_bson_order
tests/dialects/mongodb/test_mongodb_shaping         tests/dialects/mongodb/test_mongodb_documents
tests/dialects/mongodb/test_mongodb_watching        tests/dialects/mongodb/test_mongodb_change_stream
tests/servers/http/test_streaming                   tests/servers/http/test_feed_stream
tests/servers/mongodb/test_sweeping                 tests/servers/mongodb/test_ttl_sweep
tests/servers/mongodb/test_watching                 tests/servers/mongodb/test_change_streams
tests/values/test_decoding                          tests/values/test_decode
"""

# What leaves a module for another one: the applications of the dialects leave the ground of HTTP.
_SPLITS = {
    "reactdb/servers/http/application.py": {
        "couchdb": "reactdb/servers/couchdb/application.py",
        "CouchApplication": "reactdb/servers/couchdb/application.py",
        "aidbox": "reactdb/servers/aidbox/application.py",
        "AidboxApplication": "reactdb/servers/aidbox/application.py",
    }
}
_SPLIT_HEADS = {
    "reactdb/servers/couchdb/application.py": '''"""CouchApplication: the ASGI application that answers CouchDB's clients: `couchdb(db)`.

    app.mount("/db", reactdb.servers.http.couchdb(db))        inside a Starlette or FastAPI program
    uvicorn.run(reactdb.servers.http.couchdb(db))             by itself

Rule of this file: it connects the dialect with HTTP. How a request is read and answered is in `servers.http.application`.
"""''',
    "reactdb/servers/aidbox/application.py": '''"""AidboxApplication: the ASGI application that answers Aidbox's clients: `aidbox(db)`.

    app.mount("/fhir", reactdb.servers.http.aidbox(db))       inside a Starlette or FastAPI program

Rule of this file: it connects the dialect with HTTP. How a request is read and answered is in `servers.http.application`.
"""''',
}

_NEW_HEADS = {
    "reactdb/documents/__init__.py": '''"""Documents: how queries read them and how writes change them. Each module may import those after it.

write         what insert, update, replace and delete do to documents, inside one write transaction
read          the result of a query, from one snapshot
hints         messages about parts of a query that its author probably did not mean
access_path   by which index or range of keys a query reads
steps         what each step of a query does to one element, and to a sequence of elements

Rule of this folder: it works on a snapshot or a transaction of the store, and knows neither SQL nor feeds.
"""
''',
    "reactdb/durable/__init__.py": '''"""Durable consumers: workers that continue after a restart where they were, because their position is in the file.

consumer             DurableConsumer: create, describe, reset, skip and remove a consumer
worker               one worker: its leases, and the batches of changes that it gets
partitions           the log as events of a consumer, each change in the partition of its key
dead_letters         the changes that a consumer could not process, in a table of the file
materialized_views   tables that are kept equal to a selection, by a consumer's lease and a view
keyed_result         the result of a selection as documents by key, for these tables

Rule of this folder: a position is in the file and nowhere else, so a crash, a rollback or another worker makes nothing wrong.
"""
''',
    "reactdb/servers/couchdb/__init__.py": '''"""CouchDB's HTTP interface: its paths, and what a request and an answer of each look like.

application    couchdb(db): the ASGI application
routes         which function answers which method of which path
databases, documents, attachments, changes, mango, views
               those functions
feed_stream, wrapped_rows, formats
               `_changes` over time, the rows that are pending, and their bytes

Rule of this folder: it reads requests and writes answers. Their meaning is in `reactdb.dialects.couchdb`; connections, limits
and sessions are in `reactdb.servers.http`.
"""
''',
    "reactdb/servers/aidbox/__init__.py": '''"""Aidbox's HTTP interface: its paths, and what a request and an answer of each look like.

application    aidbox(db): the ASGI application
routes         which function answers which method of which path
media_types    JSON and YAML
event_streams  the changes of a type as server-sent events

Rule of this folder: it reads requests and writes answers. Their meaning is in `reactdb.dialects.aidbox`; connections, limits
and sessions are in `reactdb.servers.http`.
"""
''',
    "reactdb/expression/operations/__init__.py": '''"""Operations of expressions, one module for each family. A module registers its operations when it is imported.

logic       comparisons, and, or, not, branch, default
numbers     arithmetic
strings     text
times       dates and times
types       types and conversions
arrays      lists
objects     objects and their fields
sequences   what works on a sequence of values

Rule of this folder: an operation is a function of values. How a tree of operations is built and evaluated is in
`reactdb.expression`.
"""
''',
}

_LAZY_HTTP = """
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from reactdb.errors import MissingExtra

try:
    import starlette  # noqa: F401
    import uvicorn  # noqa: F401
    import yaml  # noqa: F401
except ImportError as error:
    missing = (error.name or "").partition(".")[0]
    if missing not in ("starlette", "uvicorn", "yaml"):
        raise
    raise MissingExtra("serving HTTP", "pyyaml" if missing == "yaml" else missing, "server") from None

if TYPE_CHECKING:
    from reactdb.servers.aidbox.application import aidbox
    from reactdb.servers.couchdb.application import couchdb
    from reactdb.servers.http.limits import HTTPLimits
    from reactdb.servers.http.server import HTTPServer, serve_in_thread

# They are imported when they are first used: the applications of the dialects stand on this package.
_HOMES = {
    "HTTPLimits": "reactdb.servers.http.limits",
    "HTTPServer": "reactdb.servers.http.server",
    "aidbox": "reactdb.servers.aidbox.application",
    "couchdb": "reactdb.servers.couchdb.application",
    "serve_in_thread": "reactdb.servers.http.server",
}

__all__ = ["HTTPLimits", "HTTPServer", "aidbox", "couchdb", "serve_in_thread"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
"""

# Entries that a package's head gets for its new rooms: after the line that begins so.
_NEW_ENTRIES = {
    "reactdb/servers/__init__.py": [
        ("http/", ["couchdb/      CouchDB's paths over HTTP", "aidbox/       Aidbox's paths over HTTP"])
    ],
    "reactdb/expression/__init__.py": [],
}

# Modules of the trunk whose old name is also the word for a thing: prose elsewhere means the thing.
_WORDS = {
    "batches",
    "partitions",
    "consumer",
    "materialize",
    "keyed",
    "set_aside",
    "access",
    "hints",
    "steps",
}

_ROOM_ROWS = {
    "reactdb/durable/": "durable consumers, their workers and dead letters, and tables that are kept equal to a selection",
    "reactdb/documents/": "how queries read documents and how writes change them",
}

_CONTRACTS = """
[[tool.importlinter.contracts]]
name = "Durable consumers are built up in this order"
type = "layers"
containers = ["reactdb.durable"]
exhaustive = true
layers = [
    "materialized_views",
    "consumer | keyed_result",
    "worker",
    "partitions",
    "dead_letters",
]

[[tool.importlinter.contracts]]
name = "Documents are read and written in this order"
type = "layers"
containers = ["reactdb.documents"]
exhaustive = true
layers = [
    "write",
    "hints | read",
    "access_path",
    "steps",
]

[[tool.importlinter.contracts]]
name = "The paths of a dialect stand on HTTP, and HTTP knows none of them"
type = "layers"
layers = [
    "reactdb.servers.http.server",
    "reactdb.servers.aidbox | reactdb.servers.couchdb",
    "reactdb.servers.http.application",
]
"""


class Modules:
    """The table of modules on the state of the project, and the rewriting of everything that names one."""

    def __init__(self) -> None:
        self.moves: dict[str, str] = {}
        for row in _TABLE.split("\n"):
            if row.strip():
                old, new = (f"{name}.py" for name in row.split())
                if (ROOT / new).exists():
                    print(f"note: {new} is there already")
                elif (ROOT / old).exists():
                    self.moves[old] = new
                else:
                    print(f"note: {old} is gone")
        self.names = {module_of(old): module_of(new) for old, new in self.moves.items()}
        self.splits = {
            (module_of(path), name): module_of(new)
            for path, names in _SPLITS.items()
            if (ROOT / path).exists()
            for name, new in names.items()
        }
        self.stems: dict[str, list[str]] = defaultdict(list)
        for old in self.moves:
            self.stems[old.rpartition("/")[2]].append(old)

    # ----- names in text

    def text(self, text: str, path: str, bound: set[str] = frozenset()) -> str:
        """A text with new names: whole module names, paths, and modules in backticks."""
        text = re.sub(r"(?<![\w./-])(?:reactdb|tests)(?:\.[A-Za-z_]\w*)+", self._dotted, text)
        text = re.sub(
            r"(?<![\w./-])[\w.-]+(?:/[\w.-]+)*\.py\b", lambda found: self._path(found[0], path), text
        )
        return re.sub(
            r"(?<![`\w])`([a-z_]+(?:\.[a-z_]+)?|[a-z_]+(?:/[a-z_]+)+)`",
            lambda found: f"`{self._short(found[1], path, bound)}`",
            text,
        )

    def _dotted(self, found: re.Match[str]) -> str:
        return self.dotted(found[0])

    def dotted(self, name: str) -> str:
        parts = name.split(".")
        for count in range(len(parts), 1, -1):
            module = ".".join(parts[:count])
            if count < len(parts) and (module, parts[count]) in self.splits:
                return ".".join([self.splits[module, parts[count]], *parts[count:]])
            if module in self.names:
                return ".".join([self.names[module], *parts[count:]])
        return name

    def _path(self, name: str, path: str) -> str:
        if name in self.moves:
            return self.moves[name]
        if f"reactdb/{name}" in self.moves:
            return self.moves[f"reactdb/{name}"].removeprefix("reactdb/")
        if "/" in name:
            wholes = [old for old in self.moves if old.endswith("/" + name)]
        else:
            if not path.endswith(".py"):
                return name
            wholes = self.stems.get(name, [])
            wholes = [old for old in wholes if old.rpartition("/")[0] == path.rpartition("/")[0]]
        if len(wholes) != 1:
            if wholes:
                print(f"note: {path}: {name} may be any of {wholes}")
            return name
        new = self.moves[wholes[0]]
        if new.rpartition("/")[0] == wholes[0].rpartition("/")[0]:
            return "/".join([*name.split("/")[:-1], new.rpartition("/")[2]])
        return new.removeprefix("reactdb/")

    def _short(self, name: str, path: str, bound: set[str]) -> str:
        """A module that a comment or a docstring calls by its last name."""
        if not path.endswith(".py") or name in bound:
            return name
        separator = "/" if "/" in name else "."
        wanted = name.replace("/", ".")
        package = module_of(path) if path.endswith("__init__.py") else module_of(path).rpartition(".")[0]
        own = self.moves.get(path, path).removesuffix("/__init__.py").removesuffix(".py")
        own = (
            own.replace("/", ".")
            if path.endswith("__init__.py")
            else own.rpartition("/")[0].replace("/", ".")
        )
        for start in dict.fromkeys((package, package.rpartition(".")[0], "reactdb")):
            old = f"{start}.{wanted}"
            new = self.names.get(old)
            if new is None or old == module_of(path):
                continue
            if start == "reactdb" and name in _WORDS and not own.startswith("reactdb.durable"):
                return name
            # From within its package a module is called by its last name.
            parent = new.rpartition(".")[0]
            if parent == own or parent == old.rpartition(".")[0]:
                short = [*(wanted.split(".")[:-1] if parent != own else []), new.rpartition(".")[2]]
                return separator.join(short)
            return new.removeprefix("reactdb.").replace(".", separator)
        return name

    # ----- source files

    def source(self, file: File) -> str:
        """The text of a source file with new names."""
        replaced: dict[tuple[int, int], str] = {}
        renames: dict[tuple[int, str], str] = {}
        scopes = {id(one.node): one.scope for one in file.occurrences if one.role == "asname"}
        for node in ast.walk(file.tree):
            if isinstance(node, ast.ImportFrom):
                self._import_from(file, node, scopes, replaced, renames)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    new = self.names.get(alias.name)
                    if new is not None:
                        start, _ = file.span(alias)
                        replaced[start, start + len(alias.name)] = new
            elif isinstance(node, ast.Attribute):
                name = dotted(node)
                if name is not None and name.startswith("reactdb.") and self.dotted(name) != name:
                    start, end = file.span(node)
                    if file.text[start:end] == name and not any(s <= start < e for s, e in replaced):
                        replaced[start, end] = self.dotted(name)
        numbers = {id(scope): number for number, scope in enumerate(file.scopes)}
        for one in file.occurrences:
            if one.role in ("name", "arg", "def") and one.binding is not None:
                new = renames.get((numbers[id(one.binding)], one.name))
                if new is not None:
                    start = file.index(one.line, one.column)
                    replaced[start, start + len(one.name)] = new
        # A name that the file has for another thing is not a module in its prose.
        modules = {name for number, name in renames}
        bound = {one.name for one in file.occurrences if one.role != "import"} - modules
        strings = [file.span(node) for node, parents in file.strings]
        for node in ast.walk(file.tree):
            if isinstance(node, ast.JoinedStr):
                strings.append(file.span(node))
        comments = [
            (file.index(line, column), file.index(line, column) + len(text))
            for line, column, text in file.comments
        ]
        for start, end in [*strings, *comments]:
            new = self.text(file.text[start:end], file.path, bound)
            if new != file.text[start:end] and not any(s < end and start < e for s, e in replaced):
                replaced[start, end] = new
        text = file.text
        for (start, end), new in sorted(replaced.items(), reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def _import_from(self, file: File, node: ast.ImportFrom, scopes, replaced, renames) -> None:
        module = absolute(file, node)
        lines: dict[str, list[str]] = defaultdict(list)
        is_changed = is_split = False
        numbers = {id(scope): number for number, scope in enumerate(file.scopes)}
        for alias in node.names:
            whole = f"{module}.{alias.name}"
            target, name, local = module, alias.name, alias.asname
            if whole in self.names:
                target, _, name = self.names[whole].rpartition(".")
                if alias.asname is None:
                    local = self._local(file, scopes[id(alias)], alias.name, name, target, renames)
                elif alias.asname == f"_{alias.name}":
                    local = self._local(
                        file, scopes[id(alias)], alias.asname, f"_{name.rstrip('_')}", target, renames
                    )
                is_split = True
            elif (module, alias.name) in self.splits:
                target = self.splits[module, alias.name]
                is_split = True
            elif module in self.names:
                target = self.names[module]
            is_changed = is_changed or (target, name) != (module, alias.name)
            lines[target].append(name if local is None or local == name else f"{name} as {local}")
        if not is_changed:
            return
        start, end = file.span(node)
        if not is_split:
            if node.level:
                at = file.text.index("." * node.level + (node.module or ""), start)
                replaced[at, at + node.level + len(node.module or "")] = next(iter(lines))
            else:
                at = file.text.index(module, start)
                replaced[at, at + len(module)] = next(iter(lines))
            return
        line_end = file.text.find("\n", end)
        comment = ""
        for line, column, text in file.comments:
            place = file.index(line, column)
            if start <= place <= line_end:
                comment = f"  {text}"
                end = max(end, place + len(text))
        indent = " " * file.column(node.lineno, node.col_offset)
        statements = [
            f"from {target} import {', '.join(names)}{comment}" for target, names in sorted(lines.items())
        ]
        replaced[start, end] = f"\n{indent}".join(statements)

    def _local(self, file: File, scope: Scope, old: str, new: str, package: str, renames) -> str | None:
        """What a renamed module is called in a file: its new name, unless that is taken there."""
        numbers = {id(each): number for number, each in enumerate(file.scopes)}
        for name in (new, f"{package.rpartition('.')[2]}_{new}".replace("__", "_"), f"{new}_module"):
            users = [
                one
                for one in file.by_name.get(old, ())
                if one.role in ("name", "asname") and one.binding is scope
            ]
            is_taken = name != old and (
                any(
                    one.role not in ("attribute", "keyword", "import") and one.binding is scope
                    for one in file.by_name.get(name, ())
                )
                or any(one.scope.lookup(name) is not None for one in users)
                or any(
                    taken == name for (number, _), taken in renames.items() if number == numbers[id(scope)]
                )
                or hasattr(builtins, name)
            )
            if not is_taken:
                renames[numbers[id(scope)], old] = name
                return name
        return old

    def split(self, path: str, texts: dict[str, str]) -> None:
        """Move what leaves a module into modules of their own; ruff removes the imports that they do not need."""
        text = texts[path]
        file = File(path, text)
        homes = _SPLITS[path]
        bodies: dict[str, list[str]] = defaultdict(list)
        cuts = []
        last_import = max(
            node.end_lineno for node in file.tree.body if isinstance(node, (ast.Import, ast.ImportFrom))
        )
        first_import = min(
            node.lineno for node in file.tree.body if isinstance(node, (ast.Import, ast.ImportFrom))
        )
        imports = "".join(file.lines[first_import - 1 : last_import])
        exported = [
            node.name
            for node in file.tree.body
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name not in homes
        ]
        for node in file.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in homes:
                bodies[homes[node.name]].append("".join(file.lines[node.lineno - 1 : node.end_lineno]))
                cuts.append((node.lineno - 1, node.end_lineno))
        lines = list(file.lines)
        for start, end in reversed(cuts):
            del lines[start:end]
        rest = "".join(lines)
        others = re.escape(module_of(path))
        for new, parts in bodies.items():
            names = sorted(name for name, home in homes.items() if home == new)
            mine = re.sub(rf"(?m)^from {others} import .*\n", "", imports)
            body = "\n\n\n".join(part.rstrip() for part in parts)
            body = body.replace("_options(", "application_options(")
            # The other dialect's modules are imported by nobody here, and go with ruff.
            texts[new] = (
                f"{_SPLIT_HEADS[new]}\n\n{mine}\nfrom {module_of(path)} import {', '.join([*exported, 'application_options'])}\n\n"
                f"__all__ = {json.dumps(names)}\n\n\n{body}\n"
            )
        rest = rest.replace("_options(", "application_options(")
        for name in homes:
            rest = re.sub(rf'(?m)^(__all__ = \[.*?)"{name}"(, )?', r"\1", rest)
        rest = re.sub(r"(?m)^__all__ = \[", '__all__ = ["application_options", "mount", "mountable", ', rest)
        texts[path] = rest

    # ----- other files

    def head(self, path: str, text: str) -> str:
        """The reading order at the head of a package, with new names and without those that have left."""
        package = path.rpartition("/")[0]
        gone = {
            old.rpartition("/")[2].removesuffix(".py"): new
            for old, new in self.moves.items()
            if old.rpartition("/")[0] == package
        }
        if not gone:
            return text
        entry = re.compile(r"^( {0,4})((?:[a-z_]+/?)(?:, [a-z_]+/?)*)(,?)( {2,}\S.*)?$")
        start = text.index('"""')
        end = text.index('"""', start + 3)
        lines: list[str] = []
        is_gone = False
        rooms: set[str] = set()
        for line in text[start:end].split("\n"):
            match = entry.match(line)
            if match is None:
                # A line that goes on with the words about an entry goes with it.
                if is_gone and line.startswith("  "):
                    continue
                is_gone = False
                lines.append(line)
                continue
            is_gone = False
            names = []
            for name in match[2].split(", "):
                new = gone.get(name)
                if new is None:
                    names.append(name)
                elif new.rpartition("/")[0] == package:
                    names.append(new.rpartition("/")[2].removesuffix(".py"))
                elif new.startswith(package + "/"):
                    room = new.removeprefix(package + "/").partition("/")[0] + "/"
                    if room not in rooms:
                        rooms.add(room)
                        names.append(room)
            if not names:
                is_gone = True
                continue
            left = match[1] + ", ".join(names) + match[3]
            words = (match[4] or "").strip()
            if words:
                column = len(line) - len((match[4] or "").lstrip())
                left = left.ljust(column) if len(left) + 2 <= column else left + "  "
                if len(left + words) > 130:
                    lines.append(left.rstrip())
                    left = " " * column
            lines.append((left + words).rstrip())
        head = "\n".join(lines)
        for beginning, entries in _NEW_ENTRIES.get(path, []):
            for added in entries:
                if added.split()[0] not in head:
                    head = re.sub(
                        rf"(?m)^({re.escape(beginning)}.*)$",
                        lambda found: f"{found[1]}\n{added}",
                        head,
                        count=1,
                    )
        return text[:start] + head + text[end:]

    def project_file(self, text: str) -> str:
        """pyproject.toml: whole names, the names in the layers, and contracts for the new rooms."""
        contracts = re.split(r"(?m)(?=^\[\[tool\.importlinter\.contracts\]\]$)", text)
        for number, contract in enumerate(contracts):
            match = re.search(r'containers = \["([\w.]+)"\]', contract)
            if match and "layers = [" in contract:
                start, end = contract.index("layers = ["), contract.index("\n]", contract.index("layers = ["))
                contract = contract[:start] + self._layers(contract[start:end], match[1]) + contract[end:]
            contracts[number] = contract
        text = "".join(contracts)
        text = re.sub(r"(?<![\w./-])reactdb(?:\.[a-z_]\w*)+", self._dotted, text)
        text = re.sub(
            r"(?<![\w./-])[\w.-]+(?:/[\w.-]+)*\.py\b",
            lambda found: self._path(found[0], "pyproject.toml"),
            text,
        )
        # The modules of a new room are one source of a contract.
        lines = []
        for line in text.split("\n"):
            line = re.sub(r'^(    )"reactdb\.(documents|durable)\.\w+",$', r'\1"reactdb.\2",', line)
            if (
                lines
                and line in ('    "reactdb.documents",', '    "reactdb.durable",')
                and line in lines[lines_start(lines) :]
            ):
                continue
            lines.append(line)
        text = "\n".join(lines)
        if 'reactdb.durable"]' not in text:
            before = '[[tool.importlinter.contracts]]\nname = "Only the store speaks SQL"'
            text = text.replace(before, _CONTRACTS.lstrip() + "\n" + before)
        for room in ("aidbox", "couchdb"):
            if f'    "reactdb.servers.{room}",\n' not in text:
                text = text.replace(
                    '    "reactdb.servers.http",\n',
                    f'    "reactdb.servers.{room}",\n    "reactdb.servers.http",\n',
                )
        return text

    def _layers(self, text: str, container: str) -> str:
        seen: set[str] = set()
        lines = []
        for line in text.split("\n"):
            match = re.fullmatch(r'(\s*)"([^"]*)",', line)
            if match:
                names = []
                for name in match[2].split(" | "):
                    new = self.names.get(f"{container}.{name}", f"{container}.{name}").removeprefix(
                        container + "."
                    )
                    if container == "reactdb":
                        new = new.partition(".")[0]
                    if new not in seen:
                        seen.add(new)
                        names.append(new)
                if not names:
                    continue
                line = f'{match[1]}"{" | ".join(names)}",'
            lines.append(line)
        return "\n".join(lines)

    def page(self, path: str, text: str) -> str:
        """A page: names and paths, and the rows of a map whose files are in a new room."""
        lines = []
        seen: set[str] = set()
        for line in text.split("\n"):
            cell = re.match(r"^\| (`reactdb/[^|]*) \|", line)
            if cell:
                rooms = set()
                for name in re.findall(r"`(reactdb/[\w/]+\.py)`", cell[1]):
                    new = self.moves.get(name, name)
                    rooms.add(next((room for room in _ROOM_ROWS if new.startswith(room)), None))
                if len(rooms) == 1 and None not in rooms:
                    room = rooms.pop()
                    if room in seen:
                        continue
                    seen.add(room)
                    line = f"| `{room}` | {_ROOM_ROWS[room]} |"
            lines.append(line)
        text = "\n".join(lines)
        everything = self.by_stem()

        def short(found: re.Match[str]) -> str:
            """A file without its folder: in the folder of which the page has spoken last."""
            wholes = everything.get(found[1], [])
            folders = {whole.rpartition("/")[0]: whole for whole in wholes if whole.startswith("reactdb/")}
            if not any(whole in self.moves for whole in folders.values()):
                return found[0]
            before = text[: found.start()].rpartition("\n## ")[2]
            places = {
                folder: max(before.rfind(folder + "/"), before.rfind(f"`{folder.removeprefix('reactdb/')}/"))
                for folder in folders
            }
            folder = max(places, key=lambda one: (places[one], len(one)))
            if places[folder] < 0 and len(wholes) > 1:
                print(f"note: {path}: {found[1]} may be any of {wholes}")
                return found[0]
            old = folders[folder]
            new = self.moves.get(old, old)
            if new.rpartition("/")[0] == folder:
                return f"`{new.rpartition('/')[2]}`"
            return f"`{new}`"

        text = re.sub(r"`([a-z_]+\.py)`", short, text)
        return self.text(text, path)

    def by_stem(self) -> dict[str, list[str]]:
        """All source files by their last name, as they were before."""
        if not hasattr(self, "_by_stem"):
            self._by_stem: dict[str, list[str]] = defaultdict(list)
            listed = subprocess.run(
                ["git", "ls-files", "*.py"], cwd=ROOT, check=True, capture_output=True, text=True
            )
            for path in listed.stdout.splitlines():
                self._by_stem[path.rpartition("/")[2]].append(path)
        return self._by_stem

    def run(self) -> None:
        project = Project()
        texts: dict[str, str] = {}
        for path, file in project.files.items():
            new = self.source(file)
            if new != file.text:
                texts[path] = new
        for path in _SPLITS:
            if (module_of(path), next(iter(_SPLITS[path]))) in self.splits and path in project.files:
                texts.setdefault(path, project.files[path].text)
                if "class CouchApplication" in texts[path]:
                    self.split(path, texts)
        for path in [
            path for path in project.files if path.endswith("__init__.py") and path.startswith("reactdb/")
        ]:
            text = texts.get(path, project.files[path].text)
            new = self.head(path, text)
            if path == "reactdb/servers/http/__init__.py" and "_HOMES" not in new:
                end = new.index('"""', 3) + 3
                new = new[:end] + "\n" + _LAZY_HTTP
            if path == "reactdb/expression/__init__.py":
                new = new.replace(
                    'f"reactdb.expression.operations_{family}"', 'f"reactdb.expression.operations.{family}"'
                )
                families = '("array", "logic", "number", "object", "sequence", "string", "time", "type")'
                new = new.replace(
                    families,
                    '("arrays", "logic", "numbers", "objects", "sequences", "strings", "times", "types")',
                )
            if new != project.files[path].text:
                texts[path] = new
        for path in documents():
            new = self.page(path, text_of(path))
            if new != text_of(path):
                texts[path] = new
        texts["pyproject.toml"] = self.project_file((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        for path, text in _NEW_HEADS.items():
            if not (ROOT / path).exists():
                texts[path] = text
        for path, text in texts.items():
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(text, encoding="utf-8")
        for old, new in self.moves.items():
            (ROOT / new).parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["git", "mv", old, new], cwd=ROOT, check=True)
        subprocess.run(
            ["git", "add", "-N", *[path for path in texts if path not in self.moves]], cwd=ROOT, check=True
        )
        print(f"{len(self.moves)} modules moved, {len(texts)} files rewritten")


def lines_start(lines: list[str]) -> int:
    """Where the list that the last line belongs to begins."""
    return max((number for number, line in enumerate(lines) if line.endswith("= [")), default=0)


def main(arguments: list[str]) -> int:
    is_check = "--check" in arguments
    maps = [one for one in arguments if one.endswith(".json")] or None
    is_lenient = maps is None and not is_check
    if "--modules" not in arguments and not rename_names(
        read_maps(maps), is_check, is_lenient, "--force" in arguments
    ):
        return 1
    if is_check:
        return 0
    if "--modules" not in arguments:
        repair(read_maps(maps))
    if maps is None:
        _TEXTS.clear()
        Modules().run()
    tidy()
    return 0


def tidy() -> None:
    """Imports in order, and lines in form."""
    for _ in range(2):
        subprocess.run(
            ["ruff", "check", "--fix", "-q", *ROOMS], cwd=ROOT, check=False, stdout=subprocess.DEVNULL
        )
        subprocess.run(["ruff", "format", "-q", *ROOMS], cwd=ROOT, check=True)
    done = subprocess.run(
        ["ruff", "check", "--select", "E501", "--output-format", "json", *ROOMS],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    for path in sorted({row["filename"] for row in json.loads(done.stdout)}):
        wrap(Path(path))


def wrap(path: Path) -> None:
    """Take words from a line of prose that has become too long to the next one."""
    file = File(path.relative_to(ROOT).as_posix())
    prose = {line for node in file.docstrings for line in range(node.lineno, node.end_lineno + 1)}
    prose |= {line for line, column, _ in file.comments if not file.lines[line - 1][:column].strip()}
    lines = file.text.split("\n")
    number = 0
    while number < len(lines):
        line = lines[number]
        # Lines are numbered as before, but for those that were added above.
        if len(line) > 130 and number + 1 in prose:
            comment = re.match(r"\s*# ", line)
            indent = comment[0] if comment else re.match(r"\s*", line)[0]
            column = re.match(r"( *\S+(?:,? \S+)*  +)\S", line)
            if column and not comment:
                indent = " " * len(column[1])
            quotes = '"""' if line.endswith('"""') and not comment else ""
            at = line.rfind(" ", 0, 131 - len(quotes))
            if at <= len(indent):
                number += 1
                continue
            more = line[at + 1 :]
            lines[number] = line[:at]
            below = lines[number + 1] if number + 1 < len(lines) else ""
            is_same = below.startswith(indent) and below[len(indent) :][:1] not in (
                "",
                " ",
                "#",
                "-",
                "|",
                '"',
            )
            if is_same and not quotes and "  " not in below.strip():
                lines[number + 1] = f"{indent}{more} {below[len(indent) :]}"
            else:
                lines.insert(number + 1, indent + more)
                prose = {one + 1 if one > number + 1 else one for one in prose} | {number + 2}
        number += 1
    path.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
