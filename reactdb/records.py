"""record: a class that is its fields, and does not change. What `dataclasses.dataclass(frozen=True, slots=True)` makes, at once.

The standard one writes Python source for each class and compiles it, and its import brings a parser and a disassembler: for the
classes that a program needs to open a file, insert and get, that took longer than all else it imports. Here, methods that serve
all classes alike are given to each.

    @record
    class Range:
        start: bytes
        stop: bytes = b"\\xff"

Equal where class and fields are, hashable where they are. `dataclasses.replace`, `fields` and `asdict` take a record for one of
their own.

Rule of this file: it knows no other. A class that is made very often gives itself an `__init__` (of `object.__setattr__`).
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")
Class = TypeVar("Class", bound=type)


@overload
def record(of: Class) -> Class: ...


@overload
def record(*, eq: bool) -> Callable[[Class], Class]: ...


@dataclass_transform(frozen_default=True)
def record(of: Any = None, *, eq: bool = True) -> Any:
    """Make a class a record, with the fields that are annotated in it. `eq=False`: equal is only what is the same."""
    return (lambda given: _record(given, eq)) if of is None else _record(of, eq)


def replace(one: T, **changes: Any) -> T:
    """A record with some fields changed."""
    kind: Any = type(one)
    for name in kind.__match_args__:
        if name not in changes:
            changes[name] = getattr(one, name)
    return kind(**changes)  # type: ignore[no-any-return]


def _record(given: type, eq: bool) -> type:
    body = {name: value for name, value in given.__dict__.items() if name not in ("__dict__", "__weakref__")}
    names = tuple(body.get("__annotations__", ()))
    defaults = {name: body.pop(name) for name in names if name in body}
    body |= {"__slots__": names, "__match_args__": names, "__qualname__": given.__qualname__}
    body["__dataclass_fields__"] = _Fields(names, defaults)
    made: dict[str, Any] = {"__repr__": _repr, "__reduce__": _reduce}
    if eq:
        made |= {"__eq__": _eq, "__hash__": _hash}
    for name, value in (made | {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}).items():
        body.setdefault(name, value)
    kind: Any = type(given)(given.__name__, given.__bases__, body)
    if "__init__" not in body:
        kind.__init__ = _init(
            given.__name__, names, defaults, [getattr(kind, name).__set__ for name in names]
        )
    kind._values = staticmethod(_values_of(names))
    return kind  # type: ignore[no-any-return]


def _init(
    of: str, names: tuple[str, ...], defaults: dict[str, Any], setters: list[Callable[[Any, Any], None]]
) -> Callable[..., None]:
    count = len(names)
    # Those that may be left out at the end.
    last = tuple(defaults.values())
    required = count - len(last)

    def __init__(self: Any, *given: Any, **named: Any) -> None:
        if len(given) != count or named:
            if named or not required <= len(given) < count:
                given = complete(given, named)
            else:
                given += last[len(given) - required :]
        for give, value in zip(setters, given):  # noqa: B905 (as many: `complete` has seen to it)
            give(self, value)

    def complete(given: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        values = list(given)
        for name in names[len(given) :]:
            if name in named:
                values.append(named.pop(name))
            elif name in defaults:
                values.append(defaults[name])
            else:
                raise TypeError(f"{of}() needs `{name}`")
        if named or len(values) > count:
            raise TypeError(f"{of}() has no {', '.join(sorted(named)) or 'so many fields'} to be given")
        return tuple(values)

    return __init__


def _values_of(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda one: tuple([getattr(one, name) for name in names])


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self._values(self) == self._values(other)


def _hash(self: Any) -> int:
    return hash(self._values(self))


def _repr(self: Any) -> str:
    pairs = zip(self.__match_args__, self._values(self), strict=True)
    return f"{self.__class__.__qualname__}({', '.join(f'{name}={value!r}' for name, value in pairs)})"


def _reduce(self: Any) -> Any:
    return self.__class__, self._values(self)


def _refuse_to_set(self: Any, name: str, _value: Any) -> None:
    raise AttributeError(f"cannot assign to field {name!r} of a {type(self).__name__}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise AttributeError(f"cannot delete field {name!r} of a {type(self).__name__}")


class _Fields:
    """What `dataclasses` finds its own by, made when it asks."""

    def __init__(self, names: tuple[str, ...], defaults: dict[str, Any]) -> None:
        self._names = names
        self._defaults = defaults
        self._made: Any = None

    def __get__(self, one: object, of: type) -> Any:
        if self._made is None:
            # Imported here because that is what this module is for.
            from dataclasses import field, make_dataclass

            defaults = self._defaults
            kind: Any = make_dataclass(
                of.__name__,
                [(n, Any, field(default=defaults[n]) if n in defaults else field()) for n in self._names],
            )
            self._made = kind.__dataclass_fields__
        return self._made
