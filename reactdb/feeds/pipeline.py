"""Pipeline: the steps of a query that work on single documents, as one function that also returns the sort key of the
result.

    filter, has_fields     the document passes, or not
    map, pluck, merge, ... a value replaces it
    order_by, min, max     the value passes, and its order key is put before its sort key

A sort key is bytes: results are in the order of their sort keys. Key bytes are prefix-free, so sort keys are made by joining
them; for a descending order every byte is inverted.

Rule of this file: `steps` defines the effect of a step on a value. Errors of a step are raised here too: the view
decides whether such an error ends a feed or leaves a document out.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from reactdb.documents.steps import Convert, Keep, operator_of, sort_key_of
from reactdb.errors import InvalidDocument
from reactdb.expression import Expression, OrderKey, compile_function
from reactdb.feeds.failures import Failures, describe_expression, describe_step
from reactdb.query import Filter, HasFields, Map, OrderBy, Step
from reactdb.values import codec

# The key of a document without the ordered field. It sorts before every other key, and after every other one
# inverted.
MISSING = b"\x00"
INVERTED = bytes(255 - byte for byte in range(256))


def invert(sort_key: bytes) -> bytes:
    """Bytes that sort in the opposite order among inverted sort keys."""
    return sort_key.translate(INVERTED)


class Ranked(Step):
    """For min and max: in order of an expression (None: of the whole value), without elements that lack it."""

    __slots__ = ("expression", "is_max")
    meaning = __slots__

    def __init__(self, expression: Any, is_max: bool) -> None:
        self.expression = expression
        self.is_max = is_max


class Boxed(NamedTuple):
    """A value on its way into an aggregate, where None counts as a value, with its sort key to break ties."""

    value: Any
    sort_key: bytes


# Steps that decide only whether a document is in the result.
TESTS = {Filter, HasFields}

# A value and its sort key -> those of the result; None for a document outside the result.
Sorted = tuple[Any, bytes]
Work = Callable[[Any, bytes], Sorted | None]


class Pipeline:
    """Called with a document and its sort key: (value, sort key) of the result, or None for a document outside it.

    Attributes:
        is_identity: Every document passes unchanged.
        only_tests: Values are the documents themselves and sort keys stay; only whether they are there is decided.
        only_values: Values are the documents themselves.
        boxed: Values are boxed, because they go into an aggregate.
    """

    __slots__ = (
        "_prefix",
        "_run",
        "is_identity",
        "keeps_null",
        "only_tests",
        "only_values",
        "steps",
    )

    def __init__(
        self, steps: Sequence[Step], prefix: bytes | None = None, *, keeps_null: bool = False
    ) -> None:
        """`prefix`: the values go into an aggregate, boxed, with these bytes before their sort keys. There null counts, and with
        `keeps_null`; elsewhere a null result is no result."""
        self.steps = tuple(steps)
        boxed = prefix is not None
        self._prefix = prefix
        kinds = set(map(type, steps))
        has_map = Map in kinds
        self.only_tests = not boxed and kinds <= TESTS
        self.is_identity = not boxed and not self.steps
        self.only_values = not boxed and not has_map
        # A document is never null.
        self.keeps_null = keeps_null or boxed or not has_map
        # Made when the first document comes: most of very many filters never meet one.
        self._run: Work | None = None

    def __call__(self, document: Any, sort_key: bytes) -> Sorted | None:
        return (self._run or self._build())(document, sort_key)

    def _build(self) -> Work:
        works = [_work(step) for step in self.steps]
        if not self.keeps_null:
            works.append(_without_null)
        if self._prefix is not None:
            works.append(_make_boxing(self._prefix))
        self._run = works[0] if len(works) == 1 else _chain(works)
        return self._run

    def attempt(
        self, document: Any, sort_key: bytes, failures: Failures | None, key: bytes, change: Hashable
    ) -> Sorted | None:
        """The same, where a document that cannot be computed is not in the result.

        Args:
            failures: Notes the failure of a newly written document. None for an earlier document: its failure was
                noted then.
            key, change: The primary key of the document, and the name of the change that wrote it.

        Raises:
            MemoryError: It says nothing about the document. Also the error of a step, where failures are to be
            raised.
        """
        try:
            return (self._run or self._build())(document, sort_key)
        except MemoryError:
            raise
        except Exception as error:
            if failures is not None:
                failures.note(error, key, change, lambda: self.failing_step(document, sort_key))
            return None

    def failing_step(self, document: Any, sort_key: bytes) -> str:
        """Which step fails for the document, in words. The steps run once more, one by one."""
        value = document
        for step in self.steps:
            try:
                result = _work(step)(value, sort_key)
            except Exception:
                return _describe_step(step)
            if result is None:
                break
            value, sort_key = result
        # It does not fail twice.
        return " ".join(map(_describe_step, self.steps))


def _describe_step(step: Step) -> str:
    if isinstance(step, Ranked):
        return f"{'max' if step.is_max else 'min'}({describe_expression(step.expression)})"
    return describe_step(step)


IDENTITY = Pipeline(())


def pipeline(steps: Sequence[Step], prefix: bytes | None = None, *, keeps_null: bool = False) -> Pipeline:
    """The pipeline of these steps. All views without steps share one pipeline."""
    if not steps and prefix is None:
        return IDENTITY
    return Pipeline(steps, prefix, keeps_null=keeps_null)


def _work(step: Step) -> Work:
    """The function that a step applies to a value and its sort key."""
    if isinstance(step, OrderBy):
        return _make_ordering(step.keys)
    if isinstance(step, Ranked):
        return _make_ranking(step)
    operator = operator_of(step, value_function)
    if isinstance(operator, Keep):
        test = operator.test
        return lambda value, sort_key: (value, sort_key) if test(value) else None
    assert isinstance(operator, Convert)
    function = operator.function
    return lambda value, sort_key: (function(value), sort_key)


def _chain(works: Sequence[Work]) -> Work:
    def run(value: Any, sort_key: bytes) -> Sorted | None:
        for work in works:
            result = work(value, sort_key)
            if result is None:
                return None
            value, sort_key = result
        return value, sort_key

    return run


def _without_null(value: Any, sort_key: bytes) -> Sorted | None:
    return None if value is None else (value, sort_key)


def _make_boxing(prefix: bytes) -> Work:
    def box(value: Any, sort_key: bytes) -> Sorted:
        return Boxed(value, prefix + sort_key), sort_key

    return box


def _make_ordering(keys: Sequence[OrderKey]) -> Work:
    def order(value: Any, sort_key: bytes) -> Sorted:
        return value, b"".join([_key_bytes(key, value) for key in keys]) + sort_key

    return order


def _key_bytes(key: OrderKey, value: Any) -> bytes:
    key_bytes = key.sort_key(value) or MISSING
    return invert(key_bytes) if key.descending else key_bytes


def _make_ranking(step: Ranked) -> Work:
    key_of = sort_key_of(step.expression)

    def rank(value: Any, sort_key: bytes) -> Sorted | None:
        key_bytes = key_of(value)
        return (
            None
            if key_bytes is None
            else (value, (invert(key_bytes) if step.is_max else key_bytes) + sort_key)
        )

    return rank


def value_function(function: Any) -> Callable[[Any], Any]:
    """An expression or a callable, as a function whose values may be shared: they are frozen, and valid in documents.

    Raises, when called:
        InvalidDocument: A callable returned a value that no document could hold.
    """
    compute = compile_function(function)
    if isinstance(compute, Expression):
        return lambda value: codec.freeze(compute(value))
    # A callable may return a tuple, or a mutable list of its own: encoding and decoding make it a value.
    return lambda value: codec.freeze(codec.decode_value(codec.encode_value(compute(value))))


def same_value(old: Any, new: Any) -> bool:
    """Whether two result values are the same, boxed or not."""
    if old is new:
        return True
    if type(old) is Boxed and type(new) is Boxed:
        return old.sort_key == new.sort_key and same_value(old.value, new.value)
    if old is None or new is None:
        return False
    try:
        return codec.same(old, new)
    except InvalidDocument:
        # An expression may return a function, for example, which is no document value. Objects of a table with a type are none
        # either, and say themselves whether they are equal.
        return type(old) is type(new) and _is_equal(old, new)


def _is_equal(old: Any, new: Any) -> bool:
    try:
        return bool(old == new)
    except Exception:
        return False
