"""Documents that many readers share: dicts and lists that refuse changes.

A feed hands one document to all of its subscribers. It is a dict still (`isinstance`, `==`, `json.dumps`), but every
changing method raises an error that says how to get a copy. `thaw` makes that copy; `freeze` is the reverse, for
values that reactdb itself has made.

Rule of this file: it treats containers only. Their leaves are never inspected and need not be storable values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Never, cast

__all__ = ["FrozenDict", "FrozenList", "freeze", "thaw"]

_SHARED: Final = "this document is shared by all readers of the feed; change a copy: reactdb.thaw(document)"


def _refuse(*_args: object, **_options: object) -> Never:
    raise TypeError(_SHARED)


class FrozenDict(dict[str, Any]):
    """A read-only dict. It equals a plain dict, and copying, in any way, makes a plain one.

    `copy()` copies one level; `reactdb.thaw`, `copy.deepcopy` and `pickle` all levels.
    """

    __slots__ = ()

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def copy(self) -> dict[str, Any]:
        return dict(self)

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return cast(dict[str, Any], thaw(self))

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return dict, (dict(self),)

    @classmethod
    def fromkeys(cls, keys: Iterable[str], value: Any = None) -> dict[str, Any]:  # type: ignore[override]
        return dict.fromkeys(keys, value)


class FrozenList(list[Any]):
    """A read-only list. It equals a plain list, and copying, in any way, makes a plain one."""

    __slots__ = ()

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def copy(self) -> list[Any]:
        return list(self)

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return cast(list[Any], thaw(self))

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return list, (list(self),)


def thaw(value: Any) -> Any:
    """A copy of the value, or of a document, in plain dicts and lists that may be changed."""
    if isinstance(value, dict):
        return {key: thaw(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [thaw(inner) for inner in value]
    return value


def freeze(value: Any) -> Any:
    """A read-only copy of a value whose leaves are already in the form of a document."""
    if type(value) is FrozenDict or type(value) is FrozenList:
        return value
    if isinstance(value, dict):
        return FrozenDict({key: freeze(inner) for key, inner in value.items()})
    if isinstance(value, (list, tuple)):
        return FrozenList([freeze(inner) for inner in value])
    return value
