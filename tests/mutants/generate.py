"""Mutants of changed lines: small mistakes that are derived from the syntax tree.

    a comparison     < and <=, > and >=, == and !=, is and is not, in and not in change places
    a condition      is negated; `and` and `or` change places
    a constant       a number is one more, a boolean the other one, a short text another one
    a sum            + and - change places
    a statement      a call, an assignment to an attribute or an item, a `del` and a `raise` are left out;
                     `return` returns None; `break` and `continue` change places

Rule of this file: it makes mutants and finds their tests. It runs nothing but `git diff`.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Generated", "changed_lines", "find_tests", "mutants_of"]

_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
}
_ANNOTATIONS = ("annotation", "returns", "decorator_list", "type_params")
_KEY = re.compile(r"[\w$.-]{1,40}")
_HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


@dataclass(frozen=True)
class Generated:
    """One mutant.

    Attributes:
        file: Relative to the project.
        line: Of the code that is changed, in the file as it is.
        function: The function or class around it; "" for the module.
        before, after: The changed code; `after` is "" where a statement is left out.
        source: The whole changed module.
    """

    file: str
    line: int
    function: str
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" + (f" {self.function}" if self.function else "")
        return f"{place}: `{self.before}` " + (f"became `{self.after}`" if self.after else "was left out")


def changed_lines(base: str, root: Path) -> dict[str, set[int]]:
    """The lines of each Python file of the package that differ from a commit, also in files that git does not know yet."""
    diff = _git(root, "diff", "-U0", "--no-color", "--no-ext-diff", base, "--", "reactdb")
    changed: dict[str, set[int]] = {}
    for part in re.split(r"^diff --git .*$", diff, flags=re.MULTILINE)[1:]:
        name = re.search(r"^\+\+\+ b/(.*\.py)$", part, re.MULTILINE)
        if name is None:
            continue
        for start, count in _HUNK.findall(part):
            lines = range(int(start), int(start) + int(count or 1))
            changed.setdefault(name[1], set()).update(lines)
    for name in _git(root, "ls-files", "--others", "--exclude-standard", "--", "reactdb").splitlines():
        if name.endswith(".py"):
            changed[name] = set(range(1, (root / name).read_text(encoding="utf-8").count("\n") + 2))
    return changed


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout


def mutants_of(file: str, source: str, lines: Iterable[int]) -> list[Generated]:
    """The mutants of some lines of a module, from top to bottom; two that give the same module are one."""
    wanted = set(lines)
    tree = ast.parse(source)
    made: dict[str, Generated] = {}
    original = ast.unparse(tree)
    for owner, field, index, node, function in _walk(tree, ""):
        if node.lineno not in wanted:
            continue
        for after in _alternatives(node):
            before_text = ast.unparse(node)
            _set(owner, field, index, after)
            changed = ast.unparse(ast.fix_missing_locations(tree))
            _set(owner, field, index, node)
            after_text = "" if isinstance(after, ast.Pass) else ast.unparse(after)
            if changed != original and changed not in made:
                made[changed] = Generated(
                    file, node.lineno, function, _head(before_text), _head(after_text), changed
                )
    return sorted(made.values(), key=lambda one: one.line)


def _head(text: str) -> str:
    """The first line of some code, at most 100 characters of it."""
    line = text.partition("\n")[0]
    return line if len(line) <= 100 else line[:97] + "..."


def _set(owner: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(owner, field, node)
    else:
        getattr(owner, field)[index] = node


def _walk(owner: ast.AST, function: str) -> Iterator[tuple[ast.AST, str, int | None, Any, str]]:
    """Each statement and expression that does something when the module runs: (owner, field, index, node, function)."""
    if _is_declaration(owner):
        return
    for field, value in ast.iter_fields(owner):
        if field in _ANNOTATIONS:
            continue
        for index, node in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(node, ast.AST):
                continue
            inner = function
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{function}.{node.name}".lstrip(".")
            elif isinstance(node, ast.expr | ast.stmt):
                yield owner, field, index if isinstance(value, list) else None, node, function
            yield from _walk(node, inner)


def _is_declaration(node: ast.AST) -> bool:
    """Imports, documentation, text in f-strings, `__all__`, and what only type checkers read."""
    if isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr):
        return True
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Assign):
        return any(isinstance(one, ast.Name) and one.id == "__all__" for one in node.targets)
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _alternatives(node: ast.AST) -> Iterator[Any]:
    if isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            operators: list[Any] = list(node.ops)
            operators[index] = _SWAPPED[type(operator)]()
            yield ast.Compare(node.left, operators, node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(_SWAPPED[type(node.op)](), node.values)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        if not any(_is_text(one) for one in (node.left, node.right)):
            yield ast.BinOp(node.left, _SWAPPED[type(node.op)](), node.right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.IfExp):
        if not _is_negated_by_its_operator(node.test):
            yield ast.IfExp(_negated(node.test), node.body, node.orelse)
    elif isinstance(node, ast.Constant):
        yield from _constants(node.value)
    else:
        yield from _statements(node)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _negated(test: ast.expr) -> ast.expr:
    is_negation = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    return test.operand if is_negation else ast.UnaryOp(ast.Not(), test)


def _is_negated_by_its_operator(test: ast.expr) -> bool:
    """The mutant of the comparison, or of `not`, is the same."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return not isinstance(test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)


def _constants(value: object) -> Iterator[ast.Constant]:
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int | float):
        yield ast.Constant(value + 1)
    elif isinstance(value, str) and _KEY.fullmatch(value):
        # A key, a name or a state. Longer texts are messages.
        yield ast.Constant(value + "_")


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    if isinstance(node, ast.If | ast.While):
        if not _is_negated_by_its_operator(node.test):
            yield type(node)(_negated(node.test), node.body, node.orelse)
    elif isinstance(node, ast.Return):
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield ast.Return(ast.Constant(None))
    elif isinstance(node, ast.Break):
        yield ast.Continue()
    elif isinstance(node, ast.Continue):
        yield ast.Break()
    elif _can_be_left_out(node):
        yield ast.Pass()


def _can_be_left_out(node: ast.AST) -> bool:
    if isinstance(node, ast.Raise | ast.Delete):
        return True
    if isinstance(node, ast.Expr):
        # What is logged is not what the program does.
        return isinstance(node.value, ast.Call | ast.Await) and not ast.unparse(node).startswith("logger.")
    targets = node.targets if isinstance(node, ast.Assign) else []
    targets = [node.target] if isinstance(node, ast.AugAssign) else targets
    return bool(targets) and all(isinstance(one, ast.Attribute | ast.Subscript) for one in targets)


# ---------------------------------------------------------------------------------------------------------------
# The tests of a file


def find_tests(file: str, root: Path) -> list[str]:
    """The test files that import a module; where none does, the folders of tests for the package that it is in."""
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    importing = [
        test.relative_to(root).as_posix()
        for test in sorted((root / "tests").rglob("test_*.py"))
        if "node_modules" not in test.parts and module in _imported(test)
    ]
    if importing:
        return importing
    for folder in Path(file).relative_to("reactdb").parents:
        if folder != Path() and (root / "tests" / folder).is_dir():
            return [f"tests/{folder.as_posix()}"]
    return ["tests/surface"]


def _imported(test: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(test.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names
