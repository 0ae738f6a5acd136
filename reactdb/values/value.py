"""Value: the base of small classes whose objects are equal where class and fields are equal.

    class Range(Value):
        __slots__ = ("start", "stop")

        def __init__(self, start: bytes = b"", stop: bytes = b"\\xff") -> None:
            self.start = start
            self.stop = stop

A value is never changed after its creation, because several objects share it; `copy_with` makes another one.

Dataclasses and NamedTuples need fewer lines, but Python makes each of them by running text: those that a program
needs before its first document cost it a tenth of its start.

Rule of this file: it knows no other.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self


class Value:
    __slots__: ClassVar[tuple[str, ...]] = ()

    def copy_with(self, **fields: Any) -> Self:
        """The same with some other fields."""
        return type(self)(**{name: getattr(self, name) for name in self.__slots__} | fields)

    def _fields(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.__slots__])

    def __eq__(self, other: object) -> bool:
        return other is self or (type(other) is type(self) and self._fields() == other._fields())

    def __hash__(self) -> int:
        return hash((type(self), self._fields()))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"
