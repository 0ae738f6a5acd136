"""analyse: facts that a condition implies about values, without looking at any document.

Three questions are answered, and each answer errs to the safe side:

    conjuncts        the comparisons with constants that must hold wherever the condition holds
    index_ranges     the ranges of an index with all documents for which it holds, if there are any
    routing_keys     the values that a field must have, so that a feed needs only their changes

Rule of this file: it never evaluates a document, and says nothing that does not follow for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from reactdb.errors import InvalidKey, QueryError
from reactdb.expression.build import Expression, call_node
from reactdb.expression.compile import COMPARISONS, FLIPPED
from reactdb.expression.evaluate import is_spliced, run
from reactdb.expression.predicate import Predicate
from reactdb.expression.registry import OPERATIONS
from reactdb.expression.tree import (
    Call,
    Constant,
    Function,
    Node,
    Row,
    Variable,
    key_of_field,
    name_of_field,
    node_key,
    walk,
)
from reactdb.values.collation import key_bytes, maxval, minval
from reactdb.values.value import Value

FieldPath = tuple[str, ...]

_LAST_CHARACTER: Final = chr(0x10FFFF)
_FIRST_SURROGATE: Final = 0xD800
_AFTER_SURROGATES: Final = 0xE000


class KeyRange(Value):
    """Values from `lower` to `upper`: the meaning of a comparison with a constant. `minval` and `maxval` mean that
    there is no bound.

    It is about values of all types, as comparisons are: above 5 are the greater numbers, and objects and strings.
    """

    __slots__ = ("lower", "lower_closed", "upper", "upper_closed")

    def __init__(self, lower: Any, upper: Any, lower_closed: bool = True, upper_closed: bool = True) -> None:
        self.lower = lower
        self.upper = upper
        self.lower_closed = lower_closed
        self.upper_closed = upper_closed

    @property
    def start(self) -> bytes:
        """The first key bytes that are in it."""
        return key_bytes(self.lower) + (b"" if self.lower_closed else b"\x00")

    @property
    def stop(self) -> bytes:
        """The first key bytes that are above it."""
        return key_bytes(self.upper) + (b"\x00" if self.upper_closed else b"")

    @property
    def is_point(self) -> bool:
        """Whether it holds only one value."""
        return self.lower_closed and self.upper_closed and key_bytes(self.lower) == key_bytes(self.upper)

    @property
    def is_empty(self) -> bool:
        low, high = key_bytes(self.lower), key_bytes(self.upper)
        return low > high or (low == high and not (self.lower_closed and self.upper_closed))

    def intersection(self, other: KeyRange) -> KeyRange:
        """The values that are in both."""
        low = max(self, other, key=lambda one: (key_bytes(one.lower), not one.lower_closed))
        high = min(self, other, key=lambda one: (key_bytes(one.upper), one.upper_closed))
        return KeyRange(low.lower, high.upper, low.lower_closed, high.upper_closed)

    @property
    def has_ends(self) -> bool:
        """Whether it is bounded on both sides; of arrays, whether their first elements are."""
        return _first(self.lower) is not minval and _first(self.upper) is not maxval


def _first(end: Any) -> Any:
    return end[0] if isinstance(end, list) and end else end


class Conjunct(Value):
    """The value of `expression` is in one of `ranges`, wherever the condition holds."""

    __slots__ = ("expression", "ranges")

    def __init__(self, expression: Expression, ranges: tuple[KeyRange, ...]) -> None:
        self.expression = expression
        self.ranges = ranges


# ---------------------------------------------------------------------------------------------------------------
# Comparisons that must hold


def find_conjuncts(condition: Expression | Predicate) -> list[Conjunct]:
    """The values in the condition, each with the ranges that it must be in wherever the condition holds.

    Comparisons with constants are found in `and`s within `and`s, in the dict given to `filter`, in `is_in` and `contains`
    of a list of constants, in `startswith` of a constant, and in `or`s whose parts all compare the same value.
    """
    node = _known_condition(condition)
    if node is None:
        return []
    return [Conjunct(Expression(value), ranges) for value, ranges in _find_implied(node).values()]


def _known_condition(condition: Expression | Predicate) -> Node | None:
    """A condition that holds for every document that passes; None if nothing is known."""
    if isinstance(condition, Expression):
        return condition.node
    if condition.node is None or condition.default is not False:
        # A document that lacks the field could pass, and no comparison says anything about it.
        return None
    return condition.node


_Implied = dict[bytes, tuple[Node, tuple[KeyRange, ...]]]

_RANGES: Final = {
    "eq": lambda value: KeyRange(value, value),
    "lt": lambda value: KeyRange(minval, value, True, False),
    "le": lambda value: KeyRange(minval, value),
    "gt": lambda value: KeyRange(value, maxval, False, True),
    "ge": lambda value: KeyRange(value, maxval),
}


def _find_implied(node: Node) -> _Implied:
    if not isinstance(node, Call) or is_spliced(node):
        return {}
    if node.operation == "and":
        ranges: _Implied = {}
        for child in node.arguments:
            _add_all(ranges, _find_implied(child))
        return ranges
    if node.operation == "or" and node.arguments:
        return _unite([_find_implied(child) for child in node.arguments])
    if node.operation in _RANGES:
        return _find_in_comparison(node)
    if node.operation == "filter_match":
        return _find_in_pattern(*node.arguments)
    if node.operation in ("contains", "includes") and len(node.arguments) == 2:
        return _find_in_list(node.arguments[1], node.arguments[0])
    if node.operation == "is_in":
        return _find_in_list(*node.arguments)
    if node.operation == "startswith":
        return _find_in_prefix(*node.arguments)
    return {}


def _add_all(target: _Implied, more: _Implied) -> None:
    if not target:
        target.update(more)
        return
    for key, (node, ranges) in more.items():
        before = target.get(key)
        target[key] = (node, ranges if before is None else _intersect(before[1], ranges))


def _intersect(first: tuple[KeyRange, ...], second: tuple[KeyRange, ...]) -> tuple[KeyRange, ...]:
    if len(first) * len(second) > 10_000:
        # Either one alone is true as well.
        return min(first, second, key=len)
    crossings = (one.intersection(other) for one in first for other in second)
    return tuple(crossing for crossing in crossings if not crossing.is_empty)


def _unite(parts: list[_Implied]) -> _Implied:
    """The values that all parts look at, with the union of their ranges."""
    return {
        key: (node, tuple(one for part in parts for one in part[key][1]))
        for key, (node, _) in parts[0].items()
        if all(key in part for part in parts)
    }


def _find_in_comparison(node: Call) -> _Implied:
    implied: _Implied = {}
    for left, right in zip(node.arguments, node.arguments[1:], strict=False):
        for value, other, name in ((left, right, node.operation), (right, left, FLIPPED[node.operation])):
            constant = constant_of(other)
            key = None if constant is None else key_of_row(value)
            if constant is not None and key is not None:
                _add_all(implied, {key: (value, (_RANGES[name](constant[0]),))})
    return implied


def _find_in_pattern(value: Node, pattern: Node) -> _Implied:
    implied: _Implied = {}
    for name, wanted in fields_of_pattern(pattern):
        inner = Call("bracket", (value, Constant(name)))
        constant = constant_of(wanted)
        if constant is not None and not isinstance(constant[0], dict):
            _add_all(implied, {node_key(inner): (inner, (KeyRange(constant[0], constant[0]),))})
        elif isinstance(wanted, (Constant, Call)):
            _add_all(implied, _find_in_pattern(inner, wanted))
    return implied


def _find_in_list(value: Node, values: Node) -> _Implied:
    constant, key = constant_of(values), key_of_row(value)
    if constant is None or not isinstance(constant[0], list) or key is None:
        return {}
    points = {key_bytes(one): KeyRange(one, one) for one in constant[0]}
    return {key: (value, tuple(points.values()))}


def _find_in_prefix(value: Node, prefix: Node) -> _Implied:
    constant, key = constant_of(prefix), key_of_row(value)
    if constant is None or not isinstance(constant[0], str) or key is None:
        return {}
    return {key: (value, (texts_with_prefix(constant[0]),))}


def texts_with_prefix(prefix: str) -> KeyRange:
    """The range of the texts that begin with a text. Its end is the first text that is above all of them: texts are in the
    order of their code points, so the last character that has a next one becomes the next one."""
    end = prefix.rstrip(_LAST_CHARACTER)
    if not end:
        # Texts are the last type in the order of values.
        return KeyRange(prefix, maxval)
    after = ord(end[-1]) + 1
    # No text has a surrogate in it.
    end = end[:-1] + chr(_AFTER_SURROGATES if after == _FIRST_SURROGATE else after)
    return KeyRange(prefix, end, True, False)


def constant_of(node: Node) -> tuple[Any] | None:
    """The value of a node, in a tuple, if it is the same for all documents; else None."""
    if isinstance(node, Constant):
        return (node.value,)
    if node.uses_row or isinstance(node, Function) or not is_deterministic(node) or _is_open(node):
        return None
    try:
        value = run(node, None)
        key_bytes(value)
    except (QueryError, InvalidKey):
        return None
    return (value,)


def _is_open(node: Node) -> bool:
    """Whether the node uses variables of a function around it."""
    bound = {
        parameter for inner in walk(node) if isinstance(inner, Function) for parameter in inner.parameters
    }
    return any(isinstance(inner, Variable) and inner.id not in bound for inner in walk(node))


def key_of_row(node: Node) -> bytes | None:
    """The key of a value that the document at hand decides, and nothing else; None for any other."""
    name = name_of_field(node)
    if name is not None:
        return key_of_field(name)
    return node_key(node) if node.uses_row and is_deterministic(node) and not _is_open(node) else None


# ---------------------------------------------------------------------------------------------------------------
# Index ranges


def find_index_ranges(
    condition: Expression | Predicate, index: Expression, *, multi: bool = False
) -> tuple[KeyRange, ...] | None:
    """Ranges of an index that surely have every document for which the condition holds; None if there are none.

    The index has every document for which its expression has a value of any type, with the hidden entries. An empty
    tuple means that the condition holds for no document. The condition must still be tested on each found document:
    it may be narrower than the ranges.

    Args:
        condition: The condition.
        index: The indexed expression of `row`; for a compound index, `make_array` of its parts.
        multi: Each element of the value has an entry of its own. Then `contains` can be looked up.
    """
    (ranges,) = find_ranges_of_indexes(condition, ((index, multi),))
    return ranges


def find_ranges_of_indexes(
    condition: Expression | Predicate, indexes: Sequence[tuple[Expression, bool]]
) -> list[tuple[KeyRange, ...] | None]:
    """The same for several indexes, each with whether it is multi: the condition is looked through once."""
    node = _known_condition(condition)
    if node is None:
        return [None] * len(indexes)
    implied = _find_implied(node)
    return [
        _multi_ranges(node, index.key) if multi else _ranges_of_index(implied, index)
        for index, multi in indexes
    ]


def _ranges_of_index(implied: _Implied, index: Expression) -> tuple[KeyRange, ...] | None:
    conjunct = implied.get(index.key)
    if conjunct is not None:
        return conjunct[1]
    node = index.node
    if isinstance(node, Call) and node.operation == "make_array" and node.arguments:
        return _compound_ranges(implied, node.arguments)
    return None


def find_implied_ranges(condition: Expression | Predicate) -> list[tuple[Expression, bytes, bytes]]:
    """The ranges in which an index would have every document for which the condition holds, for each compared value.

    Returns:
        Triples of the value looked at, as an expression that the index must be on, and the first and the last key bytes,
        start <= key < stop. Points come first and ranges with two ends next: they are likely to leave the fewest documents.
    """
    candidates = []
    for conjunct in find_conjuncts(condition):
        ranges = conjunct.ranges
        if len(ranges) == 1:
            candidates.append(
                (not ranges[0].is_point, not ranges[0].has_ends, conjunct.expression, ranges[0])
            )
    candidates.sort(key=lambda entry: entry[:2])
    return [(expression, one.start, one.stop) for _, _, expression, one in candidates]


def _compound_ranges(implied: _Implied, parts: tuple[Node, ...]) -> tuple[KeyRange, ...] | None:
    """Equality of the first parts, then perhaps a range. Every part must be known to have a value, or the array has none."""
    known: list[KeyRange] = []
    for part in parts:
        conjunct = implied.get(node_key(part))
        if conjunct is None or len(conjunct[1]) > 1:
            return None
        if not conjunct[1]:
            return ()
        known.append(conjunct[1][0])
    prefix: list[Any] = []
    for one in known:
        if not one.is_point:
            break
        prefix.append(one.lower)
    if len(prefix) == len(parts):
        return _check_range(KeyRange(prefix, prefix))
    # The bytes after the deciding parts may be anything: from nothing at all up to `maxval`.
    ends = known[len(prefix)]
    low = [*prefix, ends.lower] if ends.lower_closed else [*prefix, ends.lower, maxval]
    high = [*prefix, ends.upper, maxval] if ends.upper_closed else [*prefix, ends.upper]
    return _check_range(KeyRange(low, high))


def _check_range(candidate: KeyRange) -> tuple[KeyRange, ...] | None:
    """The range, if its ends are values: around a constant with the deepest nesting, there is no array."""
    try:
        key_bytes(candidate.lower), key_bytes(candidate.upper)
    except InvalidKey:
        return None
    return (candidate,)


def _multi_ranges(node: Node, index_key: bytes) -> tuple[KeyRange, ...] | None:
    if not isinstance(node, Call) or is_spliced(node):
        return None
    if node.operation == "and":
        for child in node.arguments:
            ranges = _multi_ranges(child, index_key)
            if ranges is not None:
                return ranges
        return None
    if node.operation == "or" and node.arguments:
        parts = [_multi_ranges(child, index_key) for child in node.arguments]
        return None if None in parts else tuple(one for part in parts if part is not None for one in part)
    if (
        node.operation in ("contains", "includes")
        and len(node.arguments) > 1
        and node_key(node.arguments[0]) == index_key
    ):
        for wanted in node.arguments[1:]:
            constant = constant_of(wanted)
            # A text may be in a text, and the index has no parts of a text.
            is_in_list = node.operation == "contains" or not (constant and isinstance(constant[0], str))
            if constant is not None and is_in_list:
                return (KeyRange(constant[0], constant[0]),)
    return None


# ---------------------------------------------------------------------------------------------------------------
# The sides of a comparison


def find_compared_fields(condition: Predicate) -> list[tuple[FieldPath, Any, str]]:
    """Each comparison of a field of the document with a constant, anywhere in the condition.

    Returns:
        Triples of the field, the constant, and the comparison as it was written.
    """
    if condition.node is None:
        return []
    comparisons = []
    for node in walk(condition.node):
        if isinstance(node, Call) and node.operation in COMPARISONS and len(node.arguments) == 2:
            for one, other in (node.arguments, node.arguments[::-1]):
                path, constant = field_path(one), constant_of(other)
                if path is not None and constant is not None:
                    comparisons.append((path, constant[0], repr(Expression(node))))
    for path, pattern in _find_patterns(condition.node):
        for name, wanted in fields_of_pattern(pattern):
            constant = constant_of(wanted)
            if constant is not None and not isinstance(constant[0], dict):
                node = call_node("eq", (_field((*path, name)), wanted))
                comparisons.append(((*path, name), constant[0], repr(Expression(node))))
    return comparisons


def find_dict_patterns(condition: Predicate) -> list[tuple[str, FieldPath, Any]]:
    """The names in a dict given to `filter` that begin with `$`: each with its field and its value."""
    if condition.node is None:
        return []
    patterns = []
    for path, pattern in _find_patterns(condition.node):
        for name, wanted in fields_of_pattern(pattern):
            if name.startswith("$"):
                constant = constant_of(wanted)
                patterns.append((name, path, constant[0] if constant is not None else Expression(wanted)))
    return patterns


def _find_patterns(node: Node) -> Iterator[tuple[FieldPath, Node]]:
    """The dict that a condition on the document is, and the dicts in it, each with the field where it is."""
    if not (
        isinstance(node, Call) and node.operation == "filter_match" and isinstance(node.arguments[0], Row)
    ):
        return
    pending: list[tuple[FieldPath, Node]] = [((), node.arguments[1])]
    while pending:
        path, pattern = pending.pop()
        yield path, pattern
        pending += [
            ((*path, name), inner) for name, inner in fields_of_pattern(pattern) if fields_of_pattern(inner)
        ]


def fields_of_pattern(pattern: Node) -> list[tuple[str, Node]]:
    if isinstance(pattern, Constant) and isinstance(pattern.value, dict):
        return [(name, Constant(inner)) for name, inner in pattern.value.items()]
    if isinstance(pattern, Call) and pattern.operation == "make_obj":
        return list(pattern.options)
    return []


def _field(path: FieldPath) -> Node:
    field: Node = Row()
    for name in path:
        field = Call("bracket", (field, Constant(name)))
    return field


# ---------------------------------------------------------------------------------------------------------------
# Routing keys


def routing_keys(condition: Expression | Predicate) -> tuple[FieldPath, list[bytes]] | None:
    """A field and its values, as key bytes, that every document has for which the condition holds.

    The field with the fewest values is chosen. None if there is no such field. An empty list: it holds for no document.
    """
    node = _known_condition(condition)
    if node is None:
        return None
    best: tuple[FieldPath, list[bytes]] | None = None
    for value, ranges in _find_implied(node).values():
        path = field_path(value)
        if path is None or not all(one.is_point for one in ranges):
            continue
        if len(path) > 1 and any(isinstance(one.lower, list) for one in ranges):
            # A field of an array is an array of the fields, which no walk along the path would find.
            continue
        keys = list(dict.fromkeys(key_bytes(one.lower) for one in ranges))
        if best is None or len(keys) < len(best[1]):
            best = (path, keys)
    return best


def field_path(expression: Expression | Node) -> FieldPath | None:
    """The names of the fields in `row["a"]["b"]`; None for any other expression."""
    node = expression.node if isinstance(expression, Expression) else expression
    names: list[str] = []
    while isinstance(node, Call) and node.operation in ("bracket", "get_field") and len(node.arguments) == 2:
        node, name = node.arguments
        if not (isinstance(name, Constant) and isinstance(name.value, str)):
            return None
        names.append(name.value)
    return tuple(reversed(names)) if isinstance(node, Row) and names else None


def route_of(document: Any, path: FieldPath) -> bytes | None:
    """The key bytes of the document's value at the path, to be compared with routing keys; None if it has none."""
    for name in path:
        if not isinstance(document, dict) or name not in document:
            return None
        document = document[name]
    return key_bytes(document)


# ---------------------------------------------------------------------------------------------------------------
# Properties


def is_deterministic(expression: Expression | Predicate | Node, *, allow_now: bool = False) -> bool:
    """Whether equal documents always give equal values.

    Args:
        expression: The expression to check. A Python function is assumed to be deterministic.
        allow_now: Take `r.now()` for a constant, as it is within one query or feed.
    """
    if isinstance(expression, Predicate):
        condition, default = expression.node, expression.default
        return (condition is None or is_deterministic(condition, allow_now=allow_now)) and (
            isinstance(default, bool) or is_deterministic(default, allow_now=allow_now)
        )
    node = expression.node if isinstance(expression, Expression) else expression
    if not node.rare:
        return True
    return all(_is_steady(inner, allow_now) for inner in walk(node) if isinstance(inner, Call))


def _is_steady(node: Call, allow_now: bool) -> bool:
    if node.operation == "now":
        return allow_now
    if node.operation == "uuid":
        return len(node.arguments) == 1 and not is_spliced(node)
    return OPERATIONS[node.operation].is_deterministic


def fields_read(expression: Expression) -> frozenset[str] | None:
    """The names of the fields by which a document's value is decided; None where all of it may matter."""
    fields: set[str] = set()
    pending = [expression.node]
    while pending:
        node = pending.pop()
        if isinstance(node, Row):
            return None
        children = node.children
        if isinstance(node, Call) and children and isinstance(children[0], Row):
            names = _fields_read(node)
            if names is None:
                return None
            fields.update(names)
            children = ()
        pending.extend(children)
    return frozenset(fields)


def _fields_read(node: Call) -> Iterable[str] | None:
    rest, fields = node.children[1:], OPERATIONS[node.operation].fields
    if fields is None or node.options:
        return None
    constants = [child.value for child in rest if isinstance(child, Constant)]
    return fields(*constants) if len(constants) == len(rest) else None


def may_fail(expression: Expression | Predicate | Node) -> bool:
    """Whether some document, whatever it holds, could raise another error than MissingValue.

    A condition that cannot fail may be tested on the documents of an index alone, without a visible difference.
    """
    if isinstance(expression, Predicate):
        return expression.node is None or may_fail(expression.node)
    node = expression.node if isinstance(expression, Expression) else expression
    if not isinstance(node, Call):
        return isinstance(node, Function)
    if is_spliced(node):
        return True
    if any(may_fail(child) for child in node.children):
        return True
    if node.operation in ("bracket", "get_field"):
        # A document is an object; the values of its fields may be none.
        return not (isinstance(node.arguments[0], Row) and field_path(node) is not None)
    if node.operation == "is_in":
        values = node.arguments[1]
        is_list = isinstance(values, Constant) and isinstance(values.value, list)
        return not (is_list or (isinstance(values, Call) and values.operation == "make_array"))
    if node.operation in ("has_fields", "filter_match"):
        return not (isinstance(node.arguments[0], Row) and _paths_are_good(node))
    return not OPERATIONS[node.operation].never_fails


def _paths_are_good(node: Call) -> bool:
    if node.operation == "filter_match":
        return True
    prepare = OPERATIONS[node.operation].prepare
    if prepare is None or not all(isinstance(child, Constant) for child in node.arguments[1:]):
        return False
    try:
        prepare(*(child.value for child in node.arguments[1:] if isinstance(child, Constant)))
    except QueryError:
        return False
    return True
