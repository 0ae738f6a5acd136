"""Registered types: values of a dialect, or of a program, that documents can hold beside the core's.

    register_type(ValueType("mongodb.objectid", 32, ObjectId, encode=bytes, decode=ObjectId))

A registered type has a number and a name. From then on everything that treats values knows it: documents, keys,
indexes and comparisons, `reactdb.json` with export and import, Spark's columns. It is registered at the import of its
module. A process without that import keeps the bytes: see `UnknownValue`.

Rule of this file: a number, a name and a Python type belong to one registration each. The tables of
`extension_types`, `key_format` and `collation` have their functions, as for the core's types.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from msgpack import ExtType

from reactdb.errors import INTERRUPTS, UsageError, describe_type
from reactdb.values.collation import EQUALS, TYPE_NAMES
from reactdb.values.extension_types import (
    ALLOTTED,
    PROGRAMS_OWN,
    UnknownValue,
    add_extension,
    find_for_base,
)
from reactdb.values.key_format import ENCODERS, key_bytes, registered_key
from reactdb.values.scalars import Refused
from reactdb.values.value import Value

__all__ = ["BY_KIND", "NAMED", "TEXTS", "ValueType", "is_registered", "register_type", "text_of"]

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*", re.ASCII)


class ValueType(Value):
    """A type of values that documents can hold. Its Python objects are immutable, because documents share them.

    Attributes:
        name: The dialect, or another word of the registering program's own, and the type: `mongodb.objectid`.
        code: The number of the extension type: 96 to 127, unless others are allotted to the dialect.
        kind: The Python type; values of its subclasses are stored as it. No subclass of a type that documents have already.
        encode: The bytes of a value. Equal bytes mean that two values are the same. ValueError for a value that
            cannot be stored.
        decode: The value of such bytes. ValueError for bytes that `encode` would not make.
        order: Bytes that sort as the values do; None where those of `encode` do. Among equal ones those of `encode`
            decide.
        equals: Instead of an order of its own, the number, string or other value of the core that a value equals in
            the order. To keys, indexes and comparisons it is that value, but it is stored and returned as its own
            type.
        in_keys: Instead, where some values of this type equal each other: the one of them that keys have for all.
        text: The value as text, for JSON, for people, and for columns of strings in Spark. Hexadecimal, unless given.
        parse: The value of such a text. ValueError for any other.
    """

    __slots__ = ("code", "decode", "encode", "equals", "in_keys", "kind", "name", "order", "parse", "text")

    def __init__(
        self,
        name: str,
        code: int,
        kind: type,
        encode: Callable[[Any], bytes],
        decode: Callable[[bytes], Any],
        *,
        order: Callable[[Any], bytes] | None = None,
        equals: Callable[[Any], Any] | None = None,
        in_keys: Callable[[Any], Any] | None = None,
        text: Callable[[Any], str] | None = None,
        parse: Callable[[str], Any] | None = None,
    ) -> None:
        self.name = name
        self.code = code
        self.kind = kind
        self.encode = encode
        self.decode = decode
        self.order = order
        self.equals = equals
        self.in_keys = in_keys
        self.text = text or (lambda value: encode(value).hex())
        self.parse = parse or (lambda text: self.read(bytes.fromhex(text)))

    def write(self, value: Any) -> Any:
        """The form for the packer.

        Raises:
            Refused: It cannot be stored.
        """
        try:
            return ExtType(self.code, self.encode(value))
        except ValueError as error:
            raise Refused(str(error)) from None
        except INTERRUPTS:
            raise
        except BaseException as error:
            raise Refused(f"a value {describe_type(value)} failed: {type(error).__name__}") from None

    def read(self, data: bytes) -> Any:
        """The value of the bytes in a document; ValueError if `encode` would not make them."""
        try:
            value = self.decode(data)
            is_own = type(value) is self.kind and self.encode(value) == data
        except INTERRUPTS:
            raise
        except BaseException as error:
            raise ValueError(str(error) or type(error).__name__) from None
        if not is_own:
            raise ValueError(f"not what a {self.name} is written as")
        return value

    def format(self, value: Any) -> str:
        """Its text; the hexadecimal of its bytes where that fails, so that one value cannot stop the delivery of
        others."""
        text = self.text_or_none(value)
        return self.encode(value).hex() if text is None else text

    def text_or_none(self, value: Any) -> str | None:
        """Its text; None where that fails, or cannot be sent."""
        try:
            text = self.text(value)
            text.encode()
        except Exception:
            return None
        return text

    def key(self, value: Any, depth: int) -> bytes:
        """The value's bytes in keys and indexes."""
        if self.equals is not None:
            return key_bytes(self.equals(value))
        if self.in_keys is not None:
            value = self.in_keys(value)
        return registered_key(
            self.code, self.encode(value), None if self.order is None else self.order(value)
        )


BY_KIND: Final[dict[type, ValueType]] = {}
NAMED: Final[dict[str, ValueType]] = {}
TEXTS: Final[dict[type, Callable[[Any], str]]] = {
    UnknownValue: lambda value: f"extension {value.code}: {value.data.hex()}"
}


def register_type(wanted: ValueType) -> None:
    """Make the type known to this process. To register it again, as an import that was interrupted does, changes nothing.

    Raises:
        UsageError: Its name, number or Python type belongs to another one, or cannot be registered.
    """
    _check(wanted)
    for known in NAMED.values():
        if _identity(known) == _identity(wanted):
            break
        if known.name == wanted.name or known.code == wanted.code or known.kind is wanted.kind:
            raise UsageError(f"{_format_type(wanted)} cannot be registered beside {_format_type(known)}")
    add_extension(wanted.code, wanted.kind, wanted.write, wanted.read)
    ENCODERS[wanted.kind] = wanted.key
    TYPE_NAMES[wanted.kind] = f"PTYPE<{wanted.name.upper()}>"
    if wanted.equals is not None:
        EQUALS[wanted.kind] = wanted.equals
    TEXTS[wanted.kind] = wanted.format
    BY_KIND[wanted.kind] = NAMED[wanted.name] = wanted


def _identity(one: ValueType) -> tuple[Any, ...]:
    return one.name, one.code, one.kind.__module__, one.kind.__qualname__


def _format_type(one: ValueType) -> str:
    return f"extension type {one.code}, `{one.name}` ({one.kind.__module__}.{one.kind.__qualname__})"


def _check(wanted: ValueType) -> None:
    if not _NAME.fullmatch(wanted.name):
        raise UsageError(f"a type's name is two words with a dot between, not {wanted.name!r}")
    codes = ALLOTTED.get(wanted.name.partition(".")[0], PROGRAMS_OWN)
    if wanted.code not in codes:
        raise UsageError(
            f"the number of `{wanted.name}` is one of {codes[0]} to {codes[-1]}, not {wanted.code}"
        )
    others = {kind: kind for kind in (*ENCODERS, object) if kind not in BY_KIND}
    of_core = find_for_base(others, wanted.kind)
    if of_core is not object:
        raise UsageError(f"`{wanted.name}` cannot be {wanted.kind!r}: documents have {of_core!r} already")
    if wanted.kind is object:
        raise UsageError(f"`{wanted.name}` cannot be every object")
    if wanted.equals is not None and (wanted.order is not None or wanted.in_keys is not None):
        raise UsageError(f"`{wanted.name}` has either an order of its own or equals values of another type")


def is_registered(kind: type) -> bool:
    """Whether values of this very type are extensions of a dialect or a program, known here or not."""
    return kind in TEXTS


def text_of(value: Any) -> str | None:
    """A registered value as text; of an unknown one its bytes; None for values of the core."""
    write = TEXTS.get(type(value))
    return None if write is None else write(value)
