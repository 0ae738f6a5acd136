"""The hook of `connect(encode=...)`: a function of the program, called with a value that cannot be stored.

    reactdb.connect("todos.db", encode=str)         paths and UUIDs of another library become texts

The result is stored in place of the value. It may contain other values for the hook. The hook is never called for values
that can be stored.

Rule of this file: it copies what it changes, and leaves checks of storable values to the codec.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgpack import ExtType

from reactdb.errors import InvalidDocument, describe_type
from reactdb.values.codec import MAX_DEPTH
from reactdb.values.extension_types import EXTENSION_WRITERS, find_for_base

EncodeHook = Callable[[Any], Any]

_STORABLE: Final = (str, int, float, bool, type(None), bytes, bytearray, memoryview, ExtType)


def encode_values(
    value: Any, hook: EncodeHook, is_kept: Callable[[Any], bool], path: tuple[str | int, ...] = ()
) -> Any:
    """The value with the results of the hook in place of values that cannot be stored.

    Args:
        is_kept: Says which other values stay as they are, such as expressions in a patch.

    Raises:
        InvalidDocument: The hook raised, with the place and its error; or the value is nested too deep.
    """
    kind = type(value)
    if kind in EXTENSION_WRITERS or isinstance(value, _STORABLE) or is_kept(value):
        return value
    if len(path) > MAX_DEPTH:
        raise InvalidDocument(f"nested more than {MAX_DEPTH} levels deep, or inside itself", path[:3])
    if isinstance(value, dict):
        return {name: encode_values(inner, hook, is_kept, (*path, name)) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode_values(inner, hook, is_kept, (*path, place)) for place, inner in enumerate(value)]
    if find_for_base(EXTENSION_WRITERS, kind) is not None:
        return value
    try:
        result = hook(value)
    except Exception as error:
        raise InvalidDocument(
            f"the function encode raised {type(error).__name__} for a value {describe_type(value)}: {error!s:.200}",
            path,
        ) from error
    if result is value:
        # For the codec to refuse, with its sentence.
        return value
    if type(result) is kind:
        raise InvalidDocument(f"the function encode returned a value {describe_type(result)} again", path)
    return encode_values(result, hook, is_kept, path)
