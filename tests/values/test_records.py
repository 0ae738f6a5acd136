"""Records: what a frozen dataclass with slots is, they are."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from reactdb.records import record, replace


@record
class Range:
    """Two ends."""

    start: int
    stop: Any = None

    @property
    def is_point(self) -> bool:
        return bool(self.start == self.stop)


@record
class Other:
    start: int
    stop: Any = None


@record
class Alone:
    only: Any


@record(eq=False)
class Same:
    start: int


def test_fields_are_given_by_place_or_by_name_or_not_at_all():
    assert Range(1, 2) == Range(1, stop=2) == Range(stop=2, start=1)
    assert Range(1) == Range(1, None)
    assert (1, 2) == (Range(1, 2).start, Range(1, 2).stop)
    assert Range(2, 2).is_point


@pytest.mark.parametrize(
    "wrong", [lambda: Range(), lambda: Range(1, 2, 3), lambda: Range(1, nope=2), lambda: Range(1, start=2)]
)
def test_what_is_not_a_field_or_is_missing_is_refused(wrong):
    with pytest.raises(TypeError, match="Range\\(\\)"):
        wrong()


def test_a_record_does_not_change():
    with pytest.raises(AttributeError, match="cannot assign to field 'start' of a Range"):
        Range(1).start = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="cannot delete field 'start' of a Range"):
        del Range(1).start
    with pytest.raises(AttributeError):
        Range(1).nope = 2  # type: ignore[attr-defined]


def test_equal_are_those_of_one_class_with_equal_fields():
    assert len({Range(1, 2), Range(1, 2), Range(1, 3)}) == 2
    assert Range(1, 2) != Other(1, 2)
    assert Alone((1,)) == Alone((1,))
    assert Alone(1) != Alone((1,))
    assert Same(1) != Same(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Alone([]))


def test_a_record_shows_its_fields():
    assert "Range(start=1, stop='x')" == repr(Range(1, "x"))
    assert "Alone(only=1)" == repr(Alone(1))
    assert Range.__doc__ == "Two ends."


def test_copies_are_equal():
    one = Range(1, [2])
    assert copy.copy(one) == copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one


def test_one_with_some_fields_changed():
    assert Range(1, 3) == replace(Range(1, 2), stop=3) == dataclasses.replace(Range(1, 2), stop=3)
    assert {"start": 1, "stop": 2} == dataclasses.asdict(Range(1, 2))
    assert ["start", "stop"] == [field.name for field in dataclasses.fields(Range)]  # type: ignore[arg-type]


def test_a_pattern_takes_them_apart():
    match Range(1, 2):
        case Range(start, stop=2):
            assert start == 1
        case _:
            raise AssertionError
