"""Names: types, ids and resources as Aidbox has them, and documents.

    native                                   Aidbox
    ---------------------------------------  ------------------------------------------------------------------------
    a table                                  a resource type; `POST /Patient` makes the table `Patient`
    the primary key                          `id`
    a key that is a string                   itself
    any other key                            its JSON: `5`, `true`. Where a document has that text as its key, too, that one is
                                             read, and neither is written
    values that JSON lacks                   typed objects, as `reactdb.json` writes them
    a field `id`; `resourceType` that is no   `=` and its name, as `=id`; so has one that is called like such a spelling
    text; `meta` that is no object, is empty,
    or has what is known without being stored
    -                                        `resourceType`, `meta.versionId`, `meta.lastUpdated`, `meta.createdAt`: known
                                             without being stored

Rule of this file: values in, values out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from reactdb import json
from reactdb.dialects.aidbox.errors import AidboxError
from reactdb.errors import InvalidDocument, InvalidKey
from reactdb.values import collation
from reactdb.values.pseudotypes import REQL

TYPE: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,99}", re.ASCII)
"""The names for a new type."""
ID: Final = re.compile(r"[A-Za-z0-9\-._~]{1,200}", re.ASCII)
"""The ids for a new resource: characters that a URL shows unchanged. FHIR allows 64 characters, and no `_` or `~`."""
KNOWN_META: Final = frozenset({"versionId", "lastUpdated", "createdAt"})


def check_type(name: str) -> str:
    """
    Raises:
        AidboxError: 400, no type can have this name.
    """
    if not TYPE.fullmatch(name):
        raise AidboxError(
            400,
            "invalid",
            f"a resource type begins with a capital letter, and letters and digits follow: not {name!r}",
        )
    return name


def check_id(id: object) -> str:
    """
    Raises:
        AidboxError: 422, no resource can have this id.
    """
    if not isinstance(id, str) or not ID.fullmatch(id):
        raise AidboxError(
            422, "invalid", f"an id is a text of letters, digits, `-`, `.`, `_` and `~`: not {id!r}"
        )
    return id


def id_of(key: Any) -> str:
    """The id of a primary key. Equal keys, such as 1 and 1.0, have the same id."""
    if isinstance(key, str):
        return key
    return json.dumps(collation.key_value(collation.key_bytes(key)))


def keys_of(id: str) -> list[bytes]:
    """The primary keys that may have this id, the likelier first."""
    keys = []
    for key in (id, _parse_id(id)):
        try:
            keys.append(collation.primary_key_bytes(key))
        except InvalidKey:
            continue
    return keys


def _parse_id(id: str) -> Any:
    try:
        key = json.loads(id)
        return key if not isinstance(key, str) and id_of(key) == id else None
    except (InvalidDocument, ValueError):
        return None


def resource_of(document: Mapping[str, Any], primary_key: str) -> dict[str, Any]:
    """A document as a resource, without its type and without data of the log."""
    resource = {"id": id_of(document[primary_key])}
    for name, value in document.items():
        if name != primary_key:
            shown = json.to_json(value)
            resource["=" + name if _MEANS.fullmatch(name) and _needs_escape(name, shown) else name] = shown
    return resource


_MEANS: Final = re.compile(r"=*(id|resourceType|meta)")
_SPELLED: Final = re.compile(r"=+(id|resourceType|meta)")


def _needs_escape(name: str, shown: Any) -> bool:
    """Whether a field with such a name has to be escaped in a resource."""
    if name == "resourceType":
        return not isinstance(shown, str)
    if name != "meta":
        return True
    is_object = isinstance(shown, Mapping) and json.OURS not in shown and REQL not in shown
    return not is_object or not shown or not KNOWN_META.isdisjoint(shown)


def document_of(resource: Mapping[str, Any], type: str, primary_key: str, key: Any) -> dict[str, Any]:
    """A resource as the document to store under `key`.

    Raises:
        AidboxError: 422, it names another type, or cannot be stored.
    """
    own_type = resource.get("resourceType", type)
    if own_type != type:
        raise AidboxError(422, "invalid", f"the resource has the type {own_type}, but this is {type}")
    document = {primary_key: key}
    for name, value in resource.items():
        if name in ("id", "resourceType"):
            continue
        if name == "meta" and isinstance(value, Mapping):
            value = {word: own_type for word, own_type in value.items() if word not in KNOWN_META}
            if not value:
                continue
        name = name[1:] if _SPELLED.fullmatch(name) else name
        if name == primary_key:
            raise AidboxError(422, "invalid", f"`{name}` is the primary key of this table, and shown as `id`")
        if name in document:
            raise AidboxError(422, "invalid", f"the resource has `{name}` twice, also as `={name}`")
        try:
            document[name] = json.from_json(value, [name])
        except InvalidDocument as error:
            raise AidboxError(422, "invalid", str(error)) from None
    return document
