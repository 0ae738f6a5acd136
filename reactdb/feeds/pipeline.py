"""Pipeline: the steps of a query that look at one document at a time, as one function.

    filter, has_fields     the document goes on, or not
    map, pluck, merge, ... a value goes on in its place
    order_by               the value goes on, and what it sorts by is put before its place

A place is bytes: results are in the order of their places. Key bytes are prefix-free, so places are made by joining them,
and turned round byte by byte for a descending order.

Rule of this file: what a step raises is raised. Whether that ends a feed or leaves a document out is for the view to say.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from reactdb.errors import InvalidDocument, MissingValue
from reactdb.expression import Expression, OrderKey, as_function
from reactdb.feeds.failures import Failures, in_words, step_in_words
from reactdb.query import Filter, HasFields, Map, OrderBy, Step
from reactdb.values import codec, collation

# Sorts before every key, and after every key when it is turned round: what lacks the field that is ordered by.
MISSING = b"\x00"
TURNED = bytes(255 - byte for byte in range(256))


def turned(place: bytes) -> bytes:
    """Bytes that sort the other way round, among places that were turned round."""
    return place.translate(TURNED)


class Ranked(Step):
    """For min and max: in order of an expression (None: of the whole value), without what has no value of it."""

    __slots__ = ("expression", "is_max")

    def __init__(self, expression: Any, is_max: bool) -> None:
        self.expression = expression
        self.is_max = is_max


class Boxed(NamedTuple):
    """A value on its way into an aggregate, where None counts as a value, with its place to break ties."""

    value: Any
    place: bytes


Operation = Callable[[Any, bytes], "tuple[Any, bytes] | None"]


class Pipeline:
    """Called with a document and its place: (value, place) of the result, or None for a document that is not in it.

    Attributes:
        is_identity: Every document goes on as it is.
        only_tests: Values are the documents themselves and places stay; only their being there is decided.
        only_values: Values are the documents themselves.
    """

    __slots__ = (
        "_operations",
        "_prefix",
        "_tests",
        "boxed",
        "drop_null",
        "is_identity",
        "only_tests",
        "only_values",
        "steps",
    )

    def __init__(
        self, steps: Sequence[Step], prefix: bytes | None = None, *, keeps_null: bool = False
    ) -> None:
        """`prefix`: the values go into an aggregate, boxed, with their places behind these bytes. There null counts, and
        with `keeps_null`; elsewhere a null result is no result."""
        self.steps = tuple(steps)
        self.boxed = boxed = prefix is not None
        self._prefix = prefix or b""
        # Compiled when the first document comes: most of very many filters never meet one.
        self._tests: tuple[Callable[[Any], Any], ...] | None = None
        self.only_tests = not boxed and all(isinstance(step, (Filter, HasFields)) for step in steps)
        self.is_identity = not boxed and not self.steps
        self.only_values = not boxed and not any(isinstance(step, Map) for step in steps)
        self._operations = () if self.only_tests else tuple(_operation(step) for step in steps)
        # A document is never null.
        self.drop_null = not keeps_null and not boxed and any(isinstance(step, Map) for step in steps)

    @property
    def tests(self) -> tuple[Callable[[Any], Any], ...]:
        """Of a pipeline of nothing else."""
        tests = self._tests
        if tests is None:
            tests = self._tests = _tests(self.steps)
        return tests

    def __call__(self, document: Any, place: bytes) -> tuple[Any, bytes] | None:
        if self.only_tests:
            for test in self.tests:
                if not test(document):
                    return None
            return document, place
        value = document
        for operation in self._operations:
            found = operation(value, place)
            if found is None:
                return None
            value, place = found
        if self.drop_null and value is None:
            return None
        return (Boxed(value, self._prefix + place) if self.boxed else value), place

    def quietly(self, document: Any, place: bytes) -> tuple[Any, bytes] | None:
        """The same, where a document that cannot be computed is not in the result. For what was written before: that it fails was
        noted then.

        Raises:
            MemoryError: That says nothing of the document.
        """
        try:
            return self(document, place)
        except MemoryError:
            raise
        except Exception:
            return None

    def noting(
        self, document: Any, place: bytes, failures: Failures, key: bytes, change: Hashable
    ) -> tuple[Any, bytes] | None:
        """The same for what is written now: a document that cannot be computed is noted.

        Raises:
            MemoryError: That says nothing of the document.
            What a step raised, where failures are to be raised.
        """
        try:
            return self(document, place)
        except MemoryError:
            raise
        except Exception as error:
            failures.note(error, key, change, lambda: self.failing_step(document, place))
            return None

    def failing_step(self, document: Any, place: bytes) -> str:
        """Which step fails for the document, in words. They are done once more, one by one."""
        value = document
        for step in self.steps:
            try:
                found = _operation(step)(value, place)
            except Exception:
                return _in_words(step)
            if found is None:
                break
            value, place = found
        # It does not fail twice.
        return " ".join(map(_in_words, self.steps))


def _in_words(step: Step) -> str:
    if isinstance(step, Ranked):
        return f"{'max' if step.is_max else 'min'}({in_words(step.expression)})"
    return step_in_words(step)


def _tests(steps: Sequence[Step]) -> tuple[Callable[[Any], Any], ...]:
    return tuple(step.predicate.test for step in steps if isinstance(step, (Filter, HasFields)))


IDENTITY = Pipeline(())


def pipeline(steps: Sequence[Step], prefix: bytes | None = None, *, keeps_null: bool = False) -> Pipeline:
    """The pipeline of these steps; of none, the one that all views without steps share."""
    if not steps and prefix is None:
        return IDENTITY
    return Pipeline(steps, prefix, keeps_null=keeps_null)


def _operation(step: Step) -> Operation:
    if isinstance(step, (Filter, HasFields)):
        return _test(step.predicate.test)
    if isinstance(step, Map):
        return _map(value_function(step.function))
    if isinstance(step, Ranked):
        return _ranked(step)
    assert isinstance(step, OrderBy)
    return _order(step.keys)


def _test(test: Callable[[Any], Any]) -> Operation:
    return lambda value, place: (value, place) if test(value) else None


def _map(function: Callable[[Any], Any]) -> Operation:
    return lambda value, place: (function(value), place)


def _order(keys: Sequence[OrderKey]) -> Operation:
    def order(value: Any, place: bytes) -> tuple[Any, bytes]:
        return value, b"".join([_sort_bytes(key, value) for key in keys]) + place

    return order


def _ranked(step: Ranked) -> Operation:
    function = None if step.expression is None else as_function(step.expression)

    def rank(value: Any, place: bytes) -> tuple[Any, bytes] | None:
        try:
            found = collation.key_bytes(value if function is None else function(value))
        except MissingValue:
            return None
        return value, (turned(found) if step.is_max else found) + place

    return rank


def _sort_bytes(key: OrderKey, value: Any) -> bytes:
    place = key.place(value) or MISSING
    return turned(place) if key.descending else place


def value_function(function: Any) -> Callable[[Any], Any]:
    """An expression or a callable, as a function that gives values which may be shared: frozen, and as a document holds them.

    Raises, when called:
        InvalidDocument: A callable returned what no document could hold.
    """
    compute = as_function(function)
    if isinstance(compute, Expression):
        return lambda value: codec.freeze(compute(value))
    # A callable may return a tuple, or somebody's mutable list: its own round trip makes it a value.
    return lambda value: codec.freeze(codec.decode_value(codec.encode_value(compute(value))))


def same_value(old: Any, new: Any) -> bool:
    """Whether two result values are the same, boxed or not."""
    if old is new:
        return True
    if type(old) is Boxed and type(new) is Boxed:
        return old.place == new.place and same_value(old.value, new.value)
    if old is None or new is None:
        return False
    try:
        return codec.same(old, new)
    except InvalidDocument:
        # What an expression made is no document value, such as a function.
        return False
