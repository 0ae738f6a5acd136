"""DocumentType: a Python type for the documents of a table, and the conversion between both.

    todo_type = document_type(Todo)
    todo_type.read({"id": 1, "title": "milk"})      Todo(id=1, title="milk", done=False)
    todo_type.write(Todo(1, "milk"))                {"id": 1, "title": "milk", "done": False}

msgspec converts Structs, dataclasses, attrs classes and TypedDicts. pydantic converts its own models and dataclasses.
Both check the types of all values and convert none: a text does not fit a number or a time, because a document must be read
back as it was stored.

Rule of this file: it knows documents and types, and no table, no session and no feed. A document that does not fit
raises `TypeMisfit`; the caller knows the table and the key, and makes the public error.
"""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from typing import Any, Final, Union, get_args, get_origin, is_typeddict
from uuid import UUID

from reactdb.errors import InvalidOption, MissingExtra, format_value
from reactdb.values.codec import UnknownValue, decode
from reactdb.values.extension_types import EXTENSION_WRITERS

Document = dict[str, Any]
Path = tuple[str | int, ...]

BUILTIN: Final = (bytes, bytearray, memoryview, datetime, date, time, timedelta, UUID, Decimal)
"""Values that a document can hold, and that a converter therefore passes on as they are."""


class TypeMisfit(ValueError):
    """A document does not fit the type.

    Attributes:
        reason: Such as "expected bool, found text".
        path: The place in the document: `("tags", 1)`.
    """

    def __init__(self, reason: str, path: Path = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path


def document_type(kind: Any) -> DocumentType:
    """The DocumentType of a Python type. It is made once for each type.

    Raises:
        InvalidOption: It is not a type that documents can have.
        MissingExtra: msgspec is needed, and is not installed.
    """
    try:
        hash(kind)
    except TypeError:
        raise not_a_type_error(kind) from None
    return _make_type(kind)


@lru_cache(maxsize=256)
def _make_type(kind: Any) -> DocumentType:
    members = _members(kind)
    if any(map(_is_pydantic, members)):
        return PydanticType(kind)
    if all(map(_is_for_msgspec, members)):
        return MsgspecType(kind)
    raise not_a_type_error(kind)


def not_a_type_error(kind: object) -> InvalidOption:
    name = kind.__qualname__ if isinstance(kind, type) else format_value(kind)
    return InvalidOption(
        f"type is a TypedDict, a dataclass, an attrs class, a msgspec.Struct or a pydantic model, not {name}"
    )


def _origin(kind: Any) -> Any:
    """The class of a parametrized class: `Page` of `Page[int]`."""
    return get_origin(kind) or kind


def _is_pydantic(kind: Any) -> bool:
    return isinstance(_origin(kind), type) and hasattr(_origin(kind), "__pydantic_validator__")


def _is_for_msgspec(kind: Any) -> bool:
    origin = _origin(kind)
    return isinstance(origin, type) and (
        is_typeddict(origin)
        or dataclasses.is_dataclass(origin)
        or hasattr(origin, "__attrs_attrs__")
        or hasattr(origin, "__struct_fields__")
        # Of typing_extensions, which typing does not know.
        or (hasattr(origin, "__total__") and hasattr(origin, "__required_keys__"))
    )


def is_object(value: object) -> bool:
    """Whether the value is an object of a class that `document_type` takes; a dict is none."""
    kind = type(value)
    return not isinstance(value, dict) and (_is_pydantic(kind) or _is_for_msgspec(kind))


class DocumentType:
    """See the head of this file.

    Attributes:
        type: The Python type.
        name: Its name, for messages.
        classes: The classes of its objects; `dict` for a TypedDict.
        runs_user_code: `read` may call code of the program, such as `__post_init__` or a validator.

    Thread safety: any thread.
    """

    __slots__ = ("classes", "name", "runs_user_code", "type")

    def __init__(self, kind: Any) -> None:
        self.type = kind
        self.runs_user_code = True
        members = _members(kind)
        self.name = " | ".join(getattr(_origin(one), "__name__", str(one)) for one in members)
        self.classes = tuple(
            dict
            if issubclass(_origin(one), dict) or hasattr(_origin(one), "__required_keys__")
            else _origin(one)
            for one in members
        )

    def __repr__(self) -> str:
        return f"<DocumentType {self.name}>"

    def is_object(self, value: object) -> bool:
        """Whether the value is an object of the type, and no plain document."""
        return isinstance(value, self.classes) and not isinstance(value, dict)

    def read(self, document: Mapping[str, Any]) -> Any:
        """The object of a document.

        Raises:
            TypeMisfit.
        """
        raise NotImplementedError

    def read_bytes(self, body: bytes) -> Any:
        """The object of an encoded document.

        Raises:
            TypeMisfit, CorruptDatabase.
        """
        return self.read(decode(body))

    def read_many(self, documents: Sequence[Mapping[str, Any]]) -> list[Any]:
        """The objects of documents.

        Raises:
            TypeMisfit: One of them does not fit; `read` of each says which.
        """
        return [self.read(document) for document in documents]

    def write(self, value: Any) -> Document:
        """The document of an object of the type, with the names that are stored. Values of classes that no converter knows
        stay as they are."""
        raise NotImplementedError

    def names(self) -> frozenset[str]:
        """The names of fields that objects and their documents may have."""
        raise NotImplementedError

    def unset(self, value: Any) -> frozenset[str]:
        """The names of the fields that an object leaves out on purpose (msgspec's UNSET)."""
        return frozenset()

    def complete(self, document: Mapping[str, Any]) -> Document:
        """A document as the type writes it: checked, with the defaults of missing fields. Fields that the type does not have stay
        as they are.

        Raises:
            TypeMisfit.
        """
        known = self.names()
        own = self.write(self.read(document))
        return own | {name: value for name, value in document.items() if name not in known}


# ---------------------------------------------------------------------------------------------------------------
# msgspec


class MsgspecType(DocumentType):
    """Of a Struct, a dataclass, an attrs class, a TypedDict, or a union of them."""

    __slots__ = (
        "_convert",
        "_decode",
        "_error",
        "_has_dataclasses",
        "_list",
        "_names",
        "_to_builtins",
        "_unset",
    )

    def __init__(self, kind: Any) -> None:
        try:
            import msgspec
        except ImportError:
            raise MissingExtra("a table with a type", "msgspec", "typed") from None
        super().__init__(kind)
        self._convert = msgspec.convert
        self._to_builtins = msgspec.to_builtins
        self._error: type[Exception] = msgspec.ValidationError
        self._unset = msgspec.UNSET
        self._list = list[kind]
        self._names: frozenset[str] | None = None
        try:
            # An annotation that msgspec does not know raises here, before the first document is read.
            self._convert([], self._list, builtin_types=BUILTIN, dec_hook=_read_other)
        except (TypeError, NameError) as error:
            raise InvalidOption(f"type {self.name} cannot be a type of documents: {error}") from error
        kinds = _Kinds(msgspec.inspect.type_info(kind))
        self._has_dataclasses = any(map(dataclasses.is_dataclass, kinds.classes))
        self.runs_user_code = "CustomType" in kinds.names or any(
            hasattr(one, "__post_init__") or hasattr(one, "__attrs_attrs__") for one in kinds.classes
        )
        self._decode = msgspec.msgpack.Decoder(kind).decode if kinds.names <= _PLAIN_KINDS else None

    def read(self, document: Mapping[str, Any]) -> Any:
        try:
            return self._convert(document, self.type, builtin_types=BUILTIN, dec_hook=_read_other)
        except self._error as error:
            raise _misfit(str(error)) from None
        except RecursionError:
            raise TypeMisfit("it is nested too deeply") from None

    def read_bytes(self, body: bytes) -> Any:
        if self._decode is not None:
            try:
                # In a quarter of the time.
                return self._decode(body)
            except Exception:
                # The other way finds the same mistake, and has the words for it.
                pass
        return self.read(decode(body))

    def read_many(self, documents: Sequence[Mapping[str, Any]]) -> list[Any]:
        try:
            objects: list[Any] = self._convert(
                documents, self._list, builtin_types=BUILTIN, dec_hook=_read_other
            )
        except self._error as error:
            raise _misfit(str(error)) from None
        return objects

    def write(self, value: Any) -> Document:
        if self._has_dataclasses:
            set_defaults(value)
        kept: list[Any] = []
        document = self._to_builtins(value, builtin_types=BUILTIN, enc_hook=lambda one: _keep(one, kept))
        return _put_back(document, kept) if kept else document  # type: ignore[no-any-return]

    def names(self) -> frozenset[str]:
        if self._names is None:
            self._names = frozenset(name for one in _members(self.type) for name in _names_of(one))
        return self._names

    def unset(self, value: Any) -> frozenset[str]:
        if not hasattr(value, "__struct_fields__"):
            return frozenset()
        pairs = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        return frozenset(stored for name, stored in pairs if getattr(value, name) is self._unset)


def _members(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


class _Kinds:
    """The kinds of types in a type, as msgspec describes it.

    Attributes:
        classes: The classes with fields.
        names: The names of msgspec's descriptions, such as "IntType".
    """

    def __init__(self, info: Any) -> None:
        self.classes: set[type] = set()
        self.names: set[str] = set()
        self._seen: set[int] = set()
        self._look_at(info)

    def _look_at(self, info: Any) -> None:
        if isinstance(info, (list, tuple)):
            for one in info:
                self._look_at(one)
        elif hasattr(info, "__struct_fields__") and not isinstance(info, type) and id(info) not in self._seen:
            self._seen.add(id(info))
            self.names.add(type(info).__name__)
            if hasattr(info, "cls"):
                self.classes.add(info.cls)
            for name in info.__struct_fields__:
                self._look_at(getattr(info, name))


_PLAIN_KINDS: Final = frozenset(
    {"IntType", "FloatType", "StrType", "BoolType", "NoneType", "ListType", "DictType", "UnionType"}
    | {"StructType", "DataclassType", "TypedDictType", "Field"}
)
"""msgspec's descriptions of values that it reads from MessagePack as `read` does. It would take a text for a time."""


def set_defaults(value: Any) -> None:
    """Give the dataclasses in a value the attributes that only their classes have. msgspec makes objects without the
    attributes of simple defaults, and leaves such fields out when it writes."""
    if isinstance(value, (list, tuple, set, frozenset)):
        parts: Any = value
    elif isinstance(value, dict):
        parts = value.values()
    elif dataclasses.is_dataclass(value):
        names = [one.name for one in dataclasses.fields(value)]
        own = getattr(value, "__dict__", None)
        if own is not None:
            for name in names:
                if name not in own and hasattr(value, name):
                    object.__setattr__(value, name, getattr(value, name))
        parts = [getattr(value, name, None) for name in names]
    elif hasattr(value, "__struct_fields__"):
        parts = [getattr(value, name) for name in value.__struct_fields__]
    elif hasattr(value, "__attrs_attrs__"):
        parts = [getattr(value, one.name, None) for one in value.__attrs_attrs__]
    else:
        return
    for part in parts:
        set_defaults(part)


def _names_of(kind: Any) -> frozenset[str]:
    origin = _origin(kind)
    if hasattr(origin, "__struct_encode_fields__"):
        tag = origin.__struct_config__.tag_field
        return frozenset(origin.__struct_encode_fields__) | ({tag} if tag else frozenset())
    if dataclasses.is_dataclass(origin):
        return frozenset(field.name for field in dataclasses.fields(origin))
    if hasattr(origin, "__attrs_attrs__"):
        return frozenset(field.name for field in origin.__attrs_attrs__)
    return frozenset(origin.__required_keys__ | origin.__optional_keys__)


def _keep(value: Any, kept: list[Any]) -> Any:
    """The form of a value for which msgspec has none. A path is a text; others are kept for the codec, which has more types, or
    refuses them by name."""
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, dict):
        return dict(value)
    kept.append(value)
    return f"{_MARK}{len(kept) - 1}"


_MARK: Final = "\0reactdb kept value "


def _put_back(document: Any, kept: list[Any]) -> Any:
    if isinstance(document, dict):
        return {name: _put_back(value, kept) for name, value in document.items()}
    if isinstance(document, (list, tuple)):
        return [_put_back(value, kept) for value in document]
    if isinstance(document, str) and document.startswith(_MARK):
        return kept[int(document[len(_MARK) :])]
    return document


def _read_other(kind: type, value: Any) -> Any:
    """A value for a field of a class that msgspec does not know."""
    if isinstance(value, _origin(kind)):
        return value
    if isinstance(value, str) and issubclass(_origin(kind), PurePath):
        return kind(value)
    raise ValueError(f"Expected `{kind.__name__}`, got `{type(value).__name__}`")


_EXPECTED: Final = re.compile(r"Expected `([^`]*)`, got `([^`]*)`", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `([^`]*)`", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_WORDS: Final = {"str": "text", "array": "list", "object": "dict", "null": "None", "NoneType": "None"}


def _misfit(message: str) -> TypeMisfit:
    """The error of one of msgspec's: "Expected `bool`, got `str` - at `$.done`"."""
    text, _, place = message.partition(" - at `$")
    path = tuple(
        name or (int(index) if index.isdigit() else index) for name, index in _STEP.findall(place.rstrip("`"))
    )
    expected = _EXPECTED.fullmatch(text)
    if expected is not None:
        return TypeMisfit(f"expected {_in_words(expected[1])}, found {_in_words(expected[2])}", path)
    missing = _MISSING.fullmatch(text)
    if missing is not None:
        return TypeMisfit(f"the field {missing[1]!r} is missing", path)
    return TypeMisfit(text[:1].lower() + text[1:], path)


def _in_words(names: str) -> str:
    """`str | null` as "text or None"."""
    return " or ".join(_WORDS.get(name, name) for name in names.split(" | "))


# ---------------------------------------------------------------------------------------------------------------
# pydantic


class PydanticType(DocumentType):
    """Of a pydantic model or dataclass, or of a union of them."""

    __slots__ = ("_adapter", "_error", "_names")

    def __init__(self, kind: Any) -> None:
        import pydantic

        super().__init__(kind)
        self._error = pydantic.ValidationError
        try:
            self._adapter: Any = pydantic.TypeAdapter(kind)
        except pydantic.PydanticUserError as error:
            raise InvalidOption(f"type {self.name} cannot be a type of documents: {error}") from error
        self._names: frozenset[str] | None = None

    def read(self, document: Mapping[str, Any]) -> Any:
        try:
            return self._adapter.validate_python(document, strict=True)
        except self._error as error:
            problems = error.errors(include_url=False, include_context=True)
        for problem in problems:
            if not _is_spelling(problem):
                raise _pydantic_misfit(problem)
        # A set, a tuple, an Enum, a path or a dataclass inside, which are stored as lists, texts and dicts.
        try:
            return self._adapter.validate_python(document)
        except self._error as error:
            raise _pydantic_misfit(error.errors(include_url=False, include_context=True)[0]) from None

    def write(self, value: Any) -> Document:
        if hasattr(value, "model_dump"):
            document = value.model_dump(mode="python", by_alias=True)
        else:
            document = self._adapter.dump_python(value, mode="python", by_alias=True)
        return _plain(document)  # type: ignore[no-any-return]

    def names(self) -> frozenset[str]:
        if self._names is None:
            self._names = frozenset(name for one in _members(self.type) for name in _pydantic_names(one))
        return self._names


def _pydantic_names(kind: Any) -> set[str]:
    names = set()
    fields = getattr(kind, "model_fields", None) or kind.__pydantic_fields__
    for name, field in fields.items():
        names |= {name, field.alias or name, field.serialization_alias or name}
        if isinstance(field.validation_alias, str):
            names.add(field.validation_alias)
    return names


_SPELLINGS: Final = frozenset(
    {"set_type", "frozen_set_type", "tuple_type", "dataclass_exact_type", "is_instance_of", "is_subclass_of"}
)
_STORED_AS_THEY_ARE: Final = frozenset({"UUID", "Decimal"})


def _is_spelling(problem: Mapping[str, Any]) -> bool:
    """Whether a problem of the strict check is only that documents have no such type: their lists are a model's sets."""
    return (
        problem["type"] in _SPELLINGS and problem.get("ctx", {}).get("class") not in _STORED_AS_THEY_ARE
    ) or problem["type"].startswith("url")


_PYDANTIC_KINDS: Final = {
    "string": "text",
    "model": "dict",
    "mapping": "dict",
    "dataclass": "dict",
    "time_delta": "timedelta",
}


def _pydantic_misfit(problem: Mapping[str, Any]) -> TypeMisfit:
    kind, path = problem["type"], tuple(problem["loc"])
    if kind == "missing":
        return TypeMisfit(f"the field {path[-1]!r} is missing", path[:-1])
    found = type(problem["input"]).__name__.removeprefix("Frozen").lower()
    found = "None" if problem["input"] is None else _WORDS.get(found, found)
    if kind == "is_instance_of":
        return TypeMisfit(f"expected {problem['ctx']['class']}, found {found}", path)
    for end in ("_type", "_parsing", "_from_float"):
        if kind.endswith(end):
            name = kind.removesuffix(end)
            return TypeMisfit(f"expected {_PYDANTIC_KINDS.get(name, name)}, found {found}", path)
    text = str(problem["msg"])
    return TypeMisfit(text[:1].lower() + text[1:], path)


_AS_THEY_ARE: Final = frozenset(
    {str, int, float, bool, type(None), *BUILTIN, *EXTENSION_WRITERS, UnknownValue}
)


def _plain(value: Any) -> Any:
    """A value of Python's types, as pydantic returns it, in the types of documents. Other values stay, and the codec refuses
    them."""
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if isinstance(value, dict):
        return {_plain(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(inner) for inner in value]
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, PurePath) or kind.__module__.startswith("pydantic"):
        # Also URLs and similar values of pydantic's own.
        return str(value)
    return value


# ---------------------------------------------------------------------------------------------------------------
# A save


def merge_known(stored: Mapping[str, Any], known: Mapping[str, Any], new: Mapping[str, Any]) -> Document:
    """The stored document after a typed save: with the values of the new one in the fields that the type knows, at every depth.

    Args:
        stored: The document.
        known: The part of it that the type knows: the document of its object.
        new: The document to be stored.
    """
    merged = {name: value for name, value in stored.items() if name in new or name not in known}
    for name, value in new.items():
        before, seen = stored.get(name), known.get(name)
        if isinstance(value, dict) and isinstance(before, dict) and isinstance(seen, dict):
            merged[name] = merge_known(before, seen, value)
        elif name not in stored or name not in known or not _is_same(seen, value):
            merged[name] = value
    return merged


def _is_same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and bool(left == right)
