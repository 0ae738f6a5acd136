"""Shapes of documents: kept, excluded and computed fields of `$project`, `$addFields` and `$unset`.

A shape is a tree of fields. It goes through arrays: the rule for `a.b` applies to each document of the array `a`. Kept fields
stay in the order of the document; computed fields follow in the order of the shape, unless they existed before.

Rule of this file: a document is never changed. Unchanged parts are shared with the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reactdb.budget import spend, spend_value
from reactdb.dialects.mongodb.bson_order import MISSING, is_text, sort_key, type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions import Evaluate, Scope
from reactdb.dialects.mongodb.expressions.compile import OPERATORS, compile_value
from reactdb.dialects.mongodb.numeric import NUMBERS

__all__ = ["FieldTree", "Reshape", "additions", "exclusion", "field_path", "projection"]

Reshape = Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]
"""A function of a document and of the variables' values."""

_ZERO = sort_key(0)
MAX_DEPTH = 200


class FieldTree:
    """A node of the tree: the rules for the fields of a document.

    `kept` and `left_out` are names. `computed` has an expression for a name, `inner` another node.
    """

    __slots__ = ("computed", "has_computed", "inner", "kept", "left_out")

    def __init__(self) -> None:
        self.kept: set[str] = set()
        self.left_out: set[str] = set()
        self.computed: dict[str, Evaluate] = {}
        self.inner: dict[str, FieldTree] = {}
        self.has_computed = False

    def place(
        self, parts: tuple[str, ...], codes: tuple[int, int], code_twice: int | None = None
    ) -> tuple[FieldTree, str]:
        """The node and the name at the end of a path.

        Raises:
            MongoError: There is a rule for a part of the path (`codes[0]`), or for a field below it (`codes[1]`).
        """
        node = self
        *above, last = parts
        for name in above:
            if node.has_rule(name):
                raise MongoError(codes[0], f"Path collision at {'.'.join(parts)}: '{name}' is there, too")
            node = node.inner.setdefault(name, FieldTree())
        if node.has_rule(last):
            raise MongoError(
                code_twice or codes[0], f"Path collision at {'.'.join(parts)}: it is there twice"
            )
        if last in node.inner:
            raise MongoError(codes[1], f"Path collision at {'.'.join(parts)}: a part of it is there, too")
        return node, last

    def has_rule(self, name: str) -> bool:
        """Whether there is a rule for exactly this field."""
        return name in self.kept or name in self.left_out or name in self.computed

    def finish(self) -> bool:
        """Notes in each node whether something is computed there or below."""
        below = [node.finish() for node in self.inner.values()]
        self.has_computed = bool(self.computed) or any(below)
        return self.has_computed

    # --- Application of a shape ---

    def include_fields(self, document: dict[str, Any]) -> dict[str, Any]:
        """The kept fields."""
        kept, inner = self.kept, self.inner
        spend_value(document)
        if not inner:
            return {name: value for name, value in document.items() if name in kept}
        result = {}
        for name, value in document.items():
            if name in kept:
                result[name] = value
            elif name in inner:
                part = inner[name].include_value(value)
                if part is not MISSING:
                    result[name] = part
        return result

    def include_value(self, value: Any) -> Any:
        """The kept part of a value; MISSING for a scalar, unless a computed field takes its place."""
        if isinstance(value, dict):
            return self.include_fields(value)
        if isinstance(value, list):
            spend_value(value)
            parts = (self.include_value(element) for element in value)
            return [part for part in parts if part is not MISSING]
        return value if self.has_computed else MISSING

    def exclude_fields(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document without the excluded fields."""
        left_out, inner = self.left_out, self.inner
        spend_value(document)
        result = {}
        for name, value in document.items():
            if name in inner:
                result[name] = inner[name].exclude_value(value)
            elif name not in left_out:
                result[name] = value
        return result

    def exclude_value(self, value: Any) -> Any:
        """A value without its excluded fields."""
        if isinstance(value, dict):
            return self.exclude_fields(value)
        if isinstance(value, list):
            spend_value(value)
            return [self.exclude_value(element) for element in value]
        return value

    def compute_fields(
        self, target: dict[str, Any], root: dict[str, Any], variables: dict[str, Any]
    ) -> dict[str, Any]:
        """`target` with the fields computed from `root`. It is changed in place: the caller has made it for this."""
        spend(len(self.computed))
        for name, evaluate in self.computed.items():
            value = evaluate(root, variables)
            if value is MISSING:
                target.pop(name, None)
            else:
                target[name] = value
        for name, node in self.inner.items():
            if node.has_computed:
                target[name] = node.compute_value(target.get(name, MISSING), root, variables)
        return target

    def compute_value(self, value: Any, root: dict[str, Any], variables: dict[str, Any]) -> Any:
        """A value with its computed fields; a scalar becomes a document of them."""
        if isinstance(value, list):
            spend_value(value)
            return [self.compute_value(element, root, variables) for element in value]
        return self.compute_fields(dict(value) if isinstance(value, dict) else {}, root, variables)


# --- Reading a shape ---


def field_path(path: Any, *, what: str = "a field") -> tuple[str, ...]:
    """The checked parts of a path.

    Raises:
        MongoError: It is no text (14) or empty (40352), ends with a dot (40353), has an empty name (15998) or a name that begins
            with `$` (16410).
    """
    if not is_text(path):
        raise MongoError(14, f"{what} is a text, not {type_name(path)}")
    if not path:
        raise MongoError(40352, f"{what} needs a name")
    if path.endswith("."):
        raise MongoError(40353, f"{what} must not end with a dot: '{path}'")
    parts = tuple(path.split("."))
    for part in parts:
        if not part:
            raise MongoError(15998, f"{what} has no empty names in its path: '{path}'")
        if part.startswith("$") and part not in {"$id", "$ref", "$db"}:
            raise MongoError(16410, f"{what} has no name that begins with '$': '{path}'")
        if "\0" in part:
            raise MongoError(16411, f"{what} has no null character in its name")
    if len(parts) > MAX_DEPTH:
        raise MongoError(15, f"{what} is nested at most {MAX_DEPTH} deep")
    return parts


def _is_flag(value: Any) -> bool:
    return type(value) is bool or type(value) in NUMBERS


def _is_set(value: Any) -> bool:
    return value is True or (value is not False and sort_key(value) != _ZERO)


def _is_operator(value: Any) -> bool:
    return isinstance(value, Mapping) and any(name.startswith("$") for name in value)


class _ProjectionReader:
    """Reads a projection into a shape, and finds out whether it keeps or leaves out."""

    def __init__(self, scope: Scope) -> None:
        self.shape = FieldTree()
        self.scope = scope
        self.first_kept: str | None = None
        self.first_left_out: str | None = None
        self.keeps_id: bool | None = None

    def read(self, spec: Mapping[str, Any], prefix: tuple[str, ...]) -> None:
        for path, value in spec.items():
            parts = (*prefix, *field_path(path))
            if _is_flag(value):
                self._flag(parts, _is_set(value))
            elif isinstance(value, Mapping) and not _is_operator(value):
                if not value:
                    raise MongoError(51270, "an object in a projection has at least one field")
                self.read(value, parts)
            else:
                self._computed(parts, value)

    def _flag(self, parts: tuple[str, ...], is_set: bool) -> None:
        node, name = self.shape.place(parts, (31249, 31250))
        if is_set:
            node.kept.add(name)
        else:
            node.left_out.add(name)
        path = ".".join(parts)
        if path == "_id":
            self.keeps_id = is_set
            return
        if is_set:
            if self.first_left_out is not None:
                raise MongoError(31253, f"Cannot do inclusion on field {path} in exclusion projection")
            self.first_kept = path
        else:
            if self.first_kept is not None:
                raise MongoError(31254, f"Cannot do exclusion on field {path} in inclusion projection")
            self.first_left_out = path

    def _computed(self, parts: tuple[str, ...], value: Any) -> None:
        path = ".".join(parts)
        if self.first_left_out is not None:
            code = 31252 if _is_operator(value) else 31310
            raise MongoError(code, f"Cannot compute {path} in exclusion projection")
        if _is_operator(value) and len(value) == 1 and next(iter(value)) not in OPERATORS:
            raise MongoError(31325, f"Unknown expression {next(iter(value))}")
        evaluate = compile_value(value, self.scope)
        node, name = self.shape.place(parts, (31249, 31250))
        node.computed[name] = evaluate
        self.first_kept = path


def projection(spec: Mapping[str, Any], scope: Scope) -> Reshape:
    """The function of `$project`.

    Raises:
        MongoError: It is empty (51272), mixes kept and excluded fields (31253, 31254), has two rules for a field (31249, 31250),
            or has an invalid expression.
    """
    if not spec:
        raise MongoError(51272, "a projection has at least one field")
    reader = _ProjectionReader(scope)
    reader.read(spec, ())
    shape = reader.shape
    shape.finish()
    if reader.first_kept is None and not (reader.keeps_id is True and reader.first_left_out is None):
        if reader.keeps_id is True:
            shape.kept.discard("_id")
        return lambda document, _variables: shape.exclude_fields(document)
    if reader.keeps_id is None and "_id" not in shape.inner and "_id" not in shape.computed:
        shape.kept.add("_id")
    if not shape.has_computed:
        return lambda document, _variables: shape.include_fields(document)
    return lambda document, variables: shape.compute_fields(
        shape.include_fields(document), document, variables
    )


def additions(spec: Mapping[str, Any], scope: Scope) -> Reshape:
    """The function of `$addFields`.

    Raises:
        MongoError: It has two rules for a field (40176), or an invalid expression.
    """
    shape = FieldTree()
    _read_additions(spec, (), shape, scope)
    shape.finish()
    return lambda document, variables: shape.compute_fields(dict(document), document, variables)


def _read_additions(spec: Mapping[str, Any], prefix: tuple[str, ...], shape: FieldTree, scope: Scope) -> None:
    for path, value in spec.items():
        if prefix and "." in path:
            raise MongoError(40183, f"an object of new fields has no dots in its names: '{path}'")
        parts = (*prefix, *field_path(path))
        if isinstance(value, Mapping) and value and not _is_operator(value):
            _read_additions(value, parts, shape, scope)
        else:
            node, name = shape.place(parts, (40176, 40176))
            node.computed[name] = compile_value(value, scope)


def exclusion(paths: list[str]) -> Reshape:
    """The function of `$unset` for these paths.

    Raises:
        MongoError: Two paths concern one field (31249, 31250).
    """
    shape = FieldTree()
    for path in paths:
        node, name = shape.place(field_path(path), (31249, 31250), code_twice=31250)
        node.left_out.add(name)
    return lambda document, _variables: shape.exclude_fields(document)
