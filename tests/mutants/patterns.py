"""Patterns: Python code with placeholders, found in the syntax tree of one function and replaced there.

    _            any expression, or as `x._` any attribute
    _1, _2 ...   the same, and the replacement can repeat it; twice the same placeholder means twice the same code
    ...          the rest of a block, as a statement of its own

A pattern is one expression, or one or more statements that follow each other. Comments and line breaks do not count.

Rule of this file: text in, text out. It reads no file and knows no mutant.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

PLACEHOLDER = re.compile(r"_\d*")
REST = "..."


def replace(source: str, scope: list[str], pattern: str, replacement: str) -> str:
    """The module with the one place of a pattern replaced; an empty `replacement` removes statements.

    Args:
        scope: The names of the classes and functions that lead to the place; empty for the whole module.

    Raises:
        LookupError: There is no such scope, or the pattern has not exactly one place in it.
    """
    tree = ast.parse(source)
    places = find_places(tree, scope, pattern, replacement)
    if len(places) != 1:
        raise LookupError(f"{pattern!r} has {len(places)} places, not one")
    _put(places[0], ast.parse(replacement).body)
    return ast.unparse(ast.fix_missing_locations(tree))


def find_places(tree: ast.Module, scope: list[str], pattern: str, replacement: str) -> list[Place]:
    """The places of a pattern. It is an expression where it and its replacement are each one expression.

    Raises:
        LookupError: There is no such scope.
    """
    wanted, filling = ast.parse(pattern).body, ast.parse(replacement).body
    roots = _find_scope(tree, scope)
    if _is_expression(wanted) and _is_expression(filling):
        return [place for root in roots for place in _expressions(root, wanted[0].value)]
    return [place for root in roots for place in _runs(root, wanted)]


class Place:
    """A place of a pattern: in `owner`'s field, at an index where the field is a list, with what the placeholders stand for."""

    def __init__(
        self, owner: ast.AST, field: str, index: int | None, length: int, held: dict[str, Any]
    ) -> None:
        self.owner, self.field, self.index, self.length, self.held = owner, field, index, length, held


def _is_expression(body: list[ast.stmt]) -> bool:
    return len(body) == 1 and isinstance(body[0], ast.Expr) and not _is_rest(body[0])


def _find_scope(tree: ast.Module, scope: list[str]) -> list[ast.AST]:
    found: list[ast.AST] = [tree]
    for name in scope:
        found = [
            node
            for one in found
            for node in _nested(one)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name
        ]
    if not found:
        raise LookupError(f"there is no {'.'.join(scope)}")
    return found


def _nested(node: ast.AST) -> Iterator[ast.AST]:
    """The definitions directly within a module, a class or a function, in whatever block of it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _nested(child)


def _expressions(root: ast.AST, wanted: ast.expr) -> Iterator[Place]:
    for owner in ast.walk(root):
        for field, value in ast.iter_fields(owner):
            for index, node in enumerate(value if isinstance(value, list) else [value]):
                held: dict[str, Any] = {}
                if isinstance(node, ast.expr) and _matches(node, wanted, held):
                    yield Place(owner, field, index if isinstance(value, list) else None, 1, held)


def _runs(root: ast.AST, wanted: list[ast.stmt]) -> Iterator[Place]:
    """The places where statements follow each other as in the pattern."""
    for owner in ast.walk(root):
        for field, body in ast.iter_fields(owner):
            if not isinstance(body, list) or not all(isinstance(one, ast.stmt) for one in body):
                continue
            for start in range(len(body) - len(wanted) + 1):
                held: dict[str, Any] = {}
                run = body[start : start + len(wanted)]
                if _matches(run, wanted, held):
                    yield Place(owner, field, start, len(wanted), held)


def _matches(node: Any, wanted: Any, held: dict[str, Any]) -> bool:
    if isinstance(wanted, ast.Name) and PLACEHOLDER.fullmatch(wanted.id):
        return isinstance(node, ast.expr) and _hold(wanted.id, node, held)
    if isinstance(wanted, ast.AST):
        return type(node) is type(wanted) and all(
            _matches(getattr(node, field), getattr(wanted, field), held)
            for field in wanted._fields
            if field not in ("ctx", "type_comment", "kind")
        )
    if isinstance(wanted, list):
        if wanted and _is_rest(wanted[-1]):
            before = len(wanted) - 1
            held[REST] = node[before:]
            return len(node) >= before and _matches(node[:before], wanted[:-1], held)
        return len(node) == len(wanted) and all(
            _matches(one, other, held) for one, other in zip(node, wanted, strict=True)
        )
    if isinstance(wanted, str) and isinstance(node, str) and PLACEHOLDER.fullmatch(wanted):
        return _hold(wanted, node, held)
    return type(node) is type(wanted) and bool(node == wanted)


def _hold(name: str, value: Any, held: dict[str, Any]) -> bool:
    if name == "_":
        return True
    before = held.setdefault(name, value)
    return _text(before) == _text(value)


def _text(value: Any) -> str:
    return ast.unparse(value) if isinstance(value, ast.AST) else str(value)


def _is_rest(statement: Any) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and statement.value.value is ...
    )


class _Filled(ast.NodeTransformer):
    """Puts what was found in the place of the placeholders."""

    def __init__(self, held: dict[str, Any]) -> None:
        self._held = held

    def visit_Name(self, node: ast.Name) -> Any:
        return self._held.get(node.id, node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        self.generic_visit(node)
        node.attr = self._held.get(node.attr, node.attr)
        return node

    def visit_Expr(self, node: ast.Expr) -> Any:
        return self._held.get(REST, node) if _is_rest(node) else self.generic_visit(node)


def _put(place: Place, replacement: list[ast.stmt]) -> None:
    filled = _Filled(place.held).visit(ast.Module(replacement, [])).body
    value = getattr(place.owner, place.field)
    if place.index is not None and isinstance(value[place.index], ast.stmt):
        value[place.index : place.index + place.length] = filled
        if not value:
            value.append(ast.Pass())
    elif place.index is not None:
        value[place.index] = filled[0].value
    else:
        setattr(place.owner, place.field, filled[0].value)
