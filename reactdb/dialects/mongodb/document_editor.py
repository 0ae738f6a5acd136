"""DocumentEditor: changes of one document by paths, for the operators of an update.

    editor = DocumentEditor(document)
    editor.change(("a", "b"), modifier, moment)
    editor.document, editor.description()

Only changed parts of the document are copied. If a path has to be made, the description has its first new component, with
everything in it; otherwise it has the path itself, with its final value.

Rule of this file: paths are without `$`. `updates` resolves a `$` to elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from reactdb.budget import spend, spend_value
from reactdb.dialects.mongodb.bson_order import MISSING, identical
from reactdb.dialects.mongodb.diff import Description, describe
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.operators import KEPT, Modifier, Moment
from reactdb.dialects.mongodb.paths import is_index

__all__ = ["MAX_PADDING", "DocumentEditor"]

CHANGE_STEPS: Final = 8
"""The budget's steps for a change of one path."""
MAX_PADDING: Final = 1_500_000
"""The most nulls for filling up an array before a new element beyond its end."""

_Parts = tuple[str | int, ...]
_Container = dict[str, Any] | list[Any]


class DocumentEditor:
    """A document during its update.

    Attributes:
        document: The present version. Unchanged parts are shared with the original document.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document: dict[str, Any] = dict(document)
        # This list holds the copies, so that no other object gets their identity.
        self._copies: list[_Container] = [self.document]
        self._copied = {id(self.document)}
        self._updated: dict[_Parts, None] = {}
        self._removed: dict[_Parts, None] = {}

    @property
    def is_changed(self) -> bool:
        return bool(self._updated or self._removed)

    def description(self) -> Description:
        """The changed paths."""
        updated = {path: self._value(path) for path in self._updated if not self._is_within(path)}
        removed = [path for path in self._removed if not self._is_within(path)]
        return describe(updated, removed)

    def _is_within(self, path: _Parts) -> bool:
        """Whether the description has a parent of this path as a whole."""
        return len(path) > 1 and any(path[:length] in self._updated for length in range(1, len(path)))

    def _value(self, path: _Parts) -> Any:
        value: Any = self.document
        for part in path:
            value = value[part]
        return value

    # -----------------------------------------------------------------------------------------------------------

    def change(self, parts: Sequence[str], modifier: Modifier, moment: Moment) -> None:
        """Apply one operator.

        Raises:
            MongoError: 28, the path does not exist and cannot be made; and errors of the operator.
        """
        spend(CHANGE_STEPS)
        container: _Container = self.document
        reached: _Parts = ()
        for number, part in enumerate(parts):
            place = _place(container, part)
            if place is None:
                if modifier.creates or modifier.needs_viable_path:
                    raise _not_viable(part, container, reached)
                return
            is_last = number == len(parts) - 1
            value = _get(container, place)
            if is_last or value is MISSING:
                self._change_at(container, (*reached, place), parts[number + 1 :], modifier, moment)
                return
            if type(value) is not dict and type(value) is not list:
                if modifier.creates or modifier.needs_viable_path:
                    raise _not_viable(parts[number + 1], value, (*reached, place))
                return
            container = self._own(container, place, value)
            reached = (*reached, place)

    def _change_at(
        self, container: _Container, path: _Parts, rest: Sequence[str], modifier: Modifier, moment: Moment
    ) -> None:
        """Put the operator's result at the end of the path; `rest` are the components to be made below it."""
        place = path[-1]
        old = MISSING if rest else _get(container, place)
        if old is MISSING and not modifier.creates:
            return
        new = modifier.work(old, moment)
        if new is KEPT:
            return
        if new is MISSING:
            self._remove(container, path)
            return
        _put(container, place, _nest(rest, new))
        if type(old) is list and modifier.appends is not None and modifier.appends(old):
            for index in range(len(old), len(new)):
                self._updated[*path, index] = None
        else:
            self._updated[path] = None

    def _remove(self, container: _Container, path: _Parts) -> None:
        place = path[-1]
        if type(container) is dict:
            del container[cast("str", place)]
            self._removed[path] = None
        elif _get(container, place) is not None:
            # The elements behind it keep their indexes.
            _put(container, place, None)
            self._updated[path] = None

    def _own(self, container: _Container, place: str | int, value: _Container) -> _Container:
        """A changeable part of the document: a copy, unless it is a copy already."""
        if id(value) in self._copied:
            return value
        spend_value(value)
        copy: _Container = dict(value) if type(value) is dict else list(value)
        _put(container, place, copy)
        self._copies.append(copy)
        self._copied.add(id(copy))
        return copy

    # -----------------------------------------------------------------------------------------------------------

    def rename(self, source: Sequence[str], target: Sequence[str]) -> None:
        """Move a value to another path, if it exists.

        Raises:
            MongoError: 2, one of the paths leads into an array; 28, the source leads through a scalar, or the target cannot be
                made; 66, the target is the `_id`.
        """
        value: Any = self.document
        for number, part in enumerate(source):
            if type(value) is list:
                raise _in_array("source", source)
            if type(value) is not dict:
                raise _not_viable(part, value, tuple(source[:number]))
            if part not in value:
                return
            value = value[part]
        if target[0] == "_id":
            raise MongoError(
                66, "Performing an update on the path '_id' would modify the immutable field '_id'"
            )
        above: Any = self.document
        for part in target[:-1]:
            above = above.get(part, MISSING) if type(above) is dict else above
        if type(above) is list:
            raise _in_array("destination", target)
        self.change(target, Modifier(lambda old, moment: KEPT if identical(old, value) else value), Moment())
        self.change(source, Modifier(lambda old, moment: MISSING, creates=False), Moment())


def _in_array(which: str, parts: Sequence[str]) -> MongoError:
    return MongoError(2, f"The {which} field cannot be an array element: '{'.'.join(parts)}'")


def _not_viable(part: str, value: Any, reached: _Parts) -> MongoError:
    where = f"{{{reached[-1] if reached else ''}: {value!r:.60}}}"
    return MongoError(28, f"Cannot create field '{part}' in element {where}")


def _place(container: _Container, part: str) -> str | int | None:
    if type(container) is dict:
        return part
    return int(part) if is_index(part) else None


def _get(container: _Container, place: str | int) -> Any:
    if type(container) is dict:
        return container.get(cast("str", place), MISSING)
    elements, index = cast("list[Any]", container), cast("int", place)
    return elements[index] if index < len(elements) else MISSING


def _put(container: _Container, place: Any, value: Any) -> None:
    if type(container) is list:
        missing = place - len(container)
        if missing > MAX_PADDING:
            raise MongoError(
                2, f"can't backfill more than {MAX_PADDING:,} elements of an array, as index {place} needs"
            )
        container.extend([None] * (missing + 1))
    into: Any = container
    into[place] = value


def _nest(rest: Sequence[str], value: Any) -> Any:
    for part in reversed(rest):
        value = {part: value}
    return value
