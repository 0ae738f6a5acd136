"""A dialect in the tests: three types of values and two operations, registered when this is imported.

    Mark     four bytes, which sort as they are
    Release  a version such as 1.10, which is after 1.9: its order is not that of its bytes
    Exact    a number with its own spelling: it equals the number, and comes back spelled as it was

Rule of this file: what the order must be is said by `place`, in Python's own order and without the library.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from reactdb.expression import operation
from reactdb.values.value import Value
from reactdb.values.value_types import ValueType, register_type


class Mark(Value):
    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class Release(Value):
    __slots__ = ("major", "minor")

    def __init__(self, major: int, minor: int) -> None:
        self.major = major
        self.minor = minor

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class Exact(Value):
    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def _mark_bytes(mark: Mark) -> bytes:
    if len(mark.data) != 4:
        raise ValueError("a Mark has four bytes")
    return mark.data


def _release_of(text: str) -> Release:
    major, minor = text.split(".")
    return Release(int(major), int(minor))


def _number(exact: Exact) -> Any:
    return Decimal(exact.text) if exact.text.lower() != "nan" else float("nan")


TYPES = (
    ValueType("acme.mark", 96, Mark, _mark_bytes, Mark),
    ValueType(
        "acme.release",
        97,
        Release,
        lambda release: str(release).encode(),
        lambda data: _release_of(data.decode("ascii")),
        order=lambda release: release.major.to_bytes(4, "big") + release.minor.to_bytes(4, "big"),
        text=str,
        parse=_release_of,
    ),
    ValueType(
        "acme.exact",
        98,
        Exact,
        lambda exact: exact.text.encode(),
        lambda data: Exact(data.decode("ascii")),
        equals=_number,
        text=lambda exact: exact.text,
        parse=Exact,
    ),
)
for one in TYPES:
    register_type(one)


@operation("acme.first", 1, never_fails=True)
def first(value: Any) -> Any:
    """The first byte of a mark, or the major version; of others, whether they are strings."""
    if isinstance(value, Mark):
        return value.data[0]
    return value.major if isinstance(value, Release) else isinstance(value, str)


@operation("acme.in_reverse", 1, never_fails=True)
def in_reverse(value: Any) -> bytes:
    """Bytes that sort releases downwards, and all others after them: an order of a dialect's own."""
    if isinstance(value, Release):
        return (2**64 - 1 - (value.major << 32) - value.minor).to_bytes(8, "big")
    return b"\xff" * 9


def place(value: Any) -> tuple[Any, ...]:
    """Where a number, a string or a registered value stands, as something that Python orders."""
    if isinstance(value, Exact):
        value = _number(value)
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return (1, value != value, 0 if value != value else value)
    if isinstance(value, Mark):
        return (2, value.data)
    return (3, value.major, value.minor) if isinstance(value, Release) else (4, value)
