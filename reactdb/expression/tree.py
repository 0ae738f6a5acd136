"""The expression tree: the common form of every spelling of a condition or of a computed value.

    node      its meaning
    --------  ----------------------------------------------------------------------------------------------------
    Constant  a document value, `minval` or `maxval`
    Row       the document at hand: ReQL's `r.row`
    Variable  a parameter of the function around it
    Function  a function of some parameters, as for `map` or `contains`
    Call      an operation of the registry, by its ReQL name in lower case, its arguments and its options

There is no node for any single operation: a dialect maps its terms to the names in the registry and is done.

Rule of this file: nodes are immutable, know nothing about operations, and are never deeper than `MAX_TREE_DEPTH`, so
that code which walks a tree may recurse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import count
from typing import Any, Final

from reactdb.errors import QueryError
from reactdb.values.codec import decode_value, encode_value, freeze, with_sorted_keys
from reactdb.values.collation import maxval, minval

MAX_TREE_DEPTH: Final = 200
"""Levels of a tree. Evaluation needs up to three Python frames a level, and Python allows a thousand."""

_PLAIN_INTEGERS: Final = 1 << 63
_SHORT: Final = 4096

_variable_ids = count(1)


RARE: Final = frozenset(("group", "literal", "now", "random", "sample", "uuid"))
"""Operations with special care in compiling or checking a tree; most trees have none of them. Every operation that is not
deterministic is here."""

_NOTHING_RARE: Final[frozenset[str]] = frozenset()


class Node:
    """Any part of a tree. `depth` counts levels, `uses_row` is true where the document at hand is mentioned, `rare` are the
    operations of RARE in it."""

    __slots__ = ()

    # Of the class where they are the same for all of its nodes: there may be very many conditions.
    depth: int = 1
    uses_row: bool = False
    rare: frozenset[str] = _NOTHING_RARE

    @property
    def children(self) -> tuple[Node, ...]:
        return ()


class Constant(Node):
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        """`value` is a document value, frozen, or a bound."""
        self.value = value


class Row(Node):
    __slots__ = ()
    uses_row = True


class Variable(Node):
    __slots__ = ("id",)

    def __init__(self, id: int) -> None:
        self.id = id


class Function(Node):
    __slots__ = ("body", "depth", "parameters", "rare", "uses_row")

    def __init__(self, parameters: tuple[int, ...], body: Node) -> None:
        self.parameters = parameters
        self.body = body
        self.depth = _increase_depth(body.depth)
        self.uses_row = body.uses_row
        self.rare = body.rare

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.body,)


class Call(Node):
    __slots__ = ("arguments", "depth", "operation", "options", "rare", "uses_row")

    def __init__(
        self, operation: str, arguments: tuple[Node, ...] = (), options: tuple[tuple[str, Node], ...] = ()
    ) -> None:
        """`options` are pairs of a name and a node, sorted by name."""
        self.operation = operation
        self.arguments = arguments
        self.options = options
        deepest, uses_row = 0, False
        rare = frozenset((operation,)) if operation in RARE else _NOTHING_RARE
        for child in self.children if options else arguments:
            if child.depth > deepest:
                deepest = child.depth
            if child.uses_row:
                uses_row = True
            if child.rare:
                rare |= child.rare
        self.depth = _increase_depth(deepest)
        self.uses_row = uses_row
        self.rare = rare

    @property
    def children(self) -> tuple[Node, ...]:
        if not self.options:
            return self.arguments
        return (*self.arguments, *(node for _, node in self.options))


def _increase_depth(depth: int) -> int:
    if depth >= MAX_TREE_DEPTH:
        raise QueryError(f"the expression is nested too deeply: more than {MAX_TREE_DEPTH} levels")
    return depth + 1


def constant(value: Any) -> Constant:
    """A constant that cannot be changed from outside: a document value is checked and copied.

    Raises:
        InvalidDocument: It is not a value that a document may hold.
    """
    if value is None or value is True or value is False or value is minval or value is maxval:
        return Constant(value)
    kind = type(value)
    if (kind is int and -_PLAIN_INTEGERS < value < _PLAIN_INTEGERS) or (
        kind is str and len(value) < _SHORT and value.isascii()
    ):
        # These are valid and immutable.
        return Constant(value)
    # Encoding and decoding checks it, copies it and gives its normal form at once.
    return Constant(freeze(decode_value(encode_value(value))))


def new_variable() -> int:
    """The id of a parameter that no other function has."""
    return next(_variable_ids)


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, parents first."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(node.children))


def replace_nodes(node: Node, change: Callable[[Node], Node | None]) -> Node:
    """The tree with some nodes replaced: those for which `change` returns another. Unchanged parts are shared."""
    other = change(node)
    if other is not None:
        return other
    if isinstance(node, Function):
        body = replace_nodes(node.body, change)
        return node if body is node.body else Function(node.parameters, body)
    if isinstance(node, Call):
        arguments = tuple(replace_nodes(child, change) for child in node.arguments)
        options = tuple((name, replace_nodes(child, change)) for name, child in node.options)
        if all(new is old for new, old in zip(arguments, node.arguments, strict=True)) and all(
            new[1] is old[1] for new, old in zip(options, node.options, strict=True)
        ):
            return node
        return Call(node.operation, arguments, options)
    return node


def replace_row(node: Node, variable: int) -> Node:
    """The tree with the document at hand replaced by a variable."""
    if not node.uses_row:
        return node
    return replace_nodes(node, lambda inner: Variable(variable) if isinstance(inner, Row) else None)


# ---------------------------------------------------------------------------------------------------------------
# Keys


def node_key(node: Node) -> bytes:
    """Bytes that are equal for trees of the same structure, so that equal views and compiled code can be shared.

    Constants count by their encoding (1, 1.0 and true differ), whatever the order of their keys; the names of
    variables do not count.
    """
    name = name_of_field(node)
    if name is not None:
        return key_of_field(name)
    parts: list[bytes] = []
    _write_key(node, parts, {})
    return b"".join(parts)


def name_of_field(node: Node) -> str | None:
    """The name, where the node is `row[name]`, which is in most conditions."""
    if type(node) is Call and node.operation == "bracket" and len(node.arguments) == 2 and not node.options:
        value, name = node.arguments
        if type(value) is Row and type(name) is Constant and type(name.value) is str:
            return name.value
    return None


@lru_cache(maxsize=1_024)
def key_of_field(name: str) -> bytes:
    """`node_key` of `row[name]`."""
    return _key_of_call("bracket", 2, 0) + b"r" + _key_of_constant(name)


@lru_cache(maxsize=1_024)
def _key_of_call(operation: str, arguments: int, options: int) -> bytes:
    """The first part of the key of a call. The keys of its arguments and of its options follow."""
    name = operation.encode()
    return b"(%d:%b%d,%d." % (len(name), name, arguments, options)


def _key_of_constant(value: Any) -> bytes:
    if value is minval or value is maxval:
        return b"m" if value is minval else b"M"
    data = encode_value(with_sorted_keys(value) if isinstance(value, (dict, list)) else value)
    return b"c%d:%b" % (len(data), data)


def _write_key(node: Node, parts: list[bytes], names: Mapping[int, int]) -> None:
    # Every part says its own length or number of parts, so no two trees have the same bytes.
    if isinstance(node, Call):
        arguments = node.arguments
        parts.append(_key_of_call(node.operation, len(arguments), len(node.options)))
        for argument in arguments:
            name = name_of_field(argument)
            if name is None:
                _write_key(argument, parts, names)
            else:
                parts.append(key_of_field(name))
        for option, argument in node.options:
            parts.append(b"%d:%b" % (len(option.encode()), option.encode()))
            _write_key(argument, parts, names)
    elif isinstance(node, Constant):
        parts.append(_key_of_constant(node.value))
    elif isinstance(node, Row):
        parts.append(b"r")
    elif isinstance(node, Variable):
        parts.append(b"v%d." % names.get(node.id, -node.id))
    elif isinstance(node, Function):
        inner = dict(names)
        for parameter in node.parameters:
            inner[parameter] = len(inner)
        parts.append(b"f%d." % len(node.parameters))
        _write_key(node.body, parts, inner)
