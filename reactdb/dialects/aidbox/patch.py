"""Patches of a resource: RFC 7396 (a merge) and RFC 6902 (a list of operations).

    {"active": false, "name": null}                              merge: fields are set, null removes one
    [{"op": "replace", "path": "/active", "value": false}]       operations, all of them or none

Rule of this file: a resource in, a resource out; the arguments are not changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from reactdb.budget import CALL_STEPS, spend, spend_per_element
from reactdb.dialects.aidbox.errors import AidboxError

_PLACE: Final = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)


def apply_patch(resource: dict[str, Any], patch: object) -> dict[str, Any]:
    """
    Raises:
        AidboxError: 400, it is no patch; 422, it cannot be applied, or a test failed.
    """
    if isinstance(patch, Mapping):
        merged = _merge(resource, patch)
    elif isinstance(patch, list):
        merged = _copy_value(resource)
        for operation in patch:
            spend(CALL_STEPS)
            merged = _carry_out(merged, operation)
    else:
        raise AidboxError(400, "invalid", "a patch is an object to merge, or a list of operations")
    if not isinstance(merged, dict):
        raise AidboxError(422, "invalid", "a patch cannot make anything but an object of a resource")
    return merged


def _copy_value(value: Any) -> Any:
    """A copy of a JSON value. It spends the budget: a few operations that copy earlier copies make a small patch large."""
    if isinstance(value, (list, dict)):
        spend(1 + len(value))
    if isinstance(value, list):
        return [_copy_value(one) for one in value]
    if isinstance(value, dict):
        return {name: _copy_value(one) for name, one in value.items()}
    return value


def _merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for name, value in spend_per_element(patch.items()):
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge(merged.get(name), value)
    return merged


def _carry_out(document: Any, operation: object) -> Any:
    if not isinstance(operation, Mapping) or not isinstance(operation.get("path"), str):
        raise AidboxError(400, "invalid", "an operation of a patch has `op` and `path`")
    word = operation.get("op")
    if not isinstance(word, str) or word not in OPERATIONS:
        raise AidboxError(400, "invalid", f"op is one of {', '.join(OPERATIONS)}: not {word!r}")
    for wanted in ("value", "from"):
        if wanted in WANTED.get(word, ()) and wanted not in operation:
            raise AidboxError(400, "invalid", f"the operation {word} has `{wanted}`")
    return OPERATIONS[word](document, operation)


def _steps(pointer: object) -> list[str]:
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise AidboxError(400, "invalid", f"a path is like /name/0/family: not {pointer!r}")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _nowhere(steps: list[str]) -> AidboxError:
    return AidboxError(422, "processing", f"there is nothing at /{'/'.join(steps)}")


def _at(document: Any, steps: list[str]) -> Any:
    for number, step in enumerate(steps):
        if isinstance(document, dict) and step in document:
            document = document[step]
        elif isinstance(document, list) and _PLACE.fullmatch(step) and int(step) < len(document):
            document = document[int(step)]
        else:
            raise _nowhere(steps[: number + 1])
    return document


def _put(document: Any, steps: list[str], value: Any, *, is_there: bool) -> Any:
    if not steps:
        return value
    if is_there:
        _at(document, steps)
    holder, last = _at(document, steps[:-1]), steps[-1]
    if isinstance(holder, dict):
        holder[last] = value
    elif isinstance(holder, list) and is_there:
        holder[int(last)] = value
    elif isinstance(holder, list) and (last == "-" or (_PLACE.fullmatch(last) and int(last) <= len(holder))):
        holder.insert(len(holder) if last == "-" else int(last), value)
    else:
        raise _nowhere(steps)
    return document


def _add(document: Any, operation: Mapping[str, Any]) -> Any:
    return _put(document, _steps(operation["path"]), _copy_value(operation["value"]), is_there=False)


def _put_instead(document: Any, operation: Mapping[str, Any]) -> Any:
    return _put(document, _steps(operation["path"]), _copy_value(operation["value"]), is_there=True)


def _remove(document: Any, operation: Mapping[str, Any]) -> Any:
    steps = _steps(operation["path"])
    _at(document, steps)
    if not steps:
        raise AidboxError(422, "processing", "a resource cannot be removed by a patch: delete it")
    holder = _at(document, steps[:-1])
    del holder[steps[-1] if isinstance(holder, dict) else int(steps[-1])]
    return document


def _move(document: Any, operation: Mapping[str, Any]) -> Any:
    start, end = _steps(operation["from"]), _steps(operation["path"])
    if end[: len(start)] == start and end != start:
        raise AidboxError(422, "processing", "a value cannot be moved into itself")
    value = _at(document, start)
    document = _remove(document, {"path": operation["from"]})
    return _put(document, end, value, is_there=False)


def _copy(document: Any, operation: Mapping[str, Any]) -> Any:
    value = _copy_value(_at(document, _steps(operation["from"])))
    return _put(document, _steps(operation["path"]), value, is_there=False)


def _test(document: Any, operation: Mapping[str, Any]) -> Any:
    steps = _steps(operation["path"])
    if not same(_at(document, steps), operation["value"]):
        raise AidboxError(422, "processing", f"the test of /{'/'.join(steps)} failed")
    return document


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: true is not 1, as it is in Python."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


OPERATIONS: Final[Mapping[str, Callable[[Any, Mapping[str, Any]], Any]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _put_instead,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
WANTED: Final = {
    "add": ("value",),
    "replace": ("value",),
    "test": ("value",),
    "move": ("from",),
    "copy": ("from",),
}
