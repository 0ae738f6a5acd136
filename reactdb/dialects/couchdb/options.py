"""Options: the members of a `_find`, `_explain` or `_index` request, each checked, with CouchDB's error sentences.

Rule of this file: each member is checked alone, without the others and without the database.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.mango import Selector, erlang

__all__ = [
    "DEFAULT_LIMIT",
    "INDEX",
    "check_bulk_delete",
    "check_find",
    "check_index",
    "check_members",
    "read_sort",
]

DEFAULT_LIMIT: Final = 25


def bad_option(error: str, reason: str) -> CouchError:
    return CouchError(400, error, reason)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise bad_option("invalid_boolean", f"Invalid boolean value: {erlang(value)}")
    return value


def _integer(least: int, error: str, words: str) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise bad_option(error, f"{erlang(value)} is not an integer greater than {words}")
        return value

    return check


_positive: Final = _integer(1, "invalid_pos_integer", "zero")
_not_negative: Final = _integer(0, "invalid_non_neg_integer", "or equal to zero")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise bad_option("invalid_string", f"Invalid string: {erlang(value)}")
    return value


def _name(value: Any) -> str | None:
    if value == "":
        raise bad_option("invalid_empty_string", "Index name or ddoc cannot be empty string")
    return None if value is None else _text(value)


def _selector(value: Any) -> Selector:
    if not isinstance(value, dict):
        raise bad_option("invalid_selector_json", f"Selector must be a JSON object, not: {erlang(value)}")
    return Selector(value)


def _use_index(value: Any) -> list[str]:
    if value is None or value == []:
        return []
    if isinstance(value, str):
        parts = value.split("/")
        if len(parts) > 1 and parts[0] == "_design":
            del parts[0]
        if len(parts) <= 2:
            return parts
    elif isinstance(value, list) and len(value) <= 2 and all(isinstance(part, str) for part in value):
        return value
    raise bad_option("invalid_index_name", f"Invalid index name: {erlang(value)}")


def _bookmark(value: Any) -> str:
    if value is None or value == "":
        return "nil"
    if not isinstance(value, str):
        raise bad_option("invalid_bookmark", f"Invalid bookmark value: {json.dumps(value)}")
    return value


def read_sort(value: Any) -> dict[str, str]:
    """Names of fields, each with `asc` or `desc`, in their order.

    Raises:
        CouchError: It is no list of names, or of objects with one name each; or the directions differ.
    """
    if not isinstance(value, list):
        raise bad_option(
            "invalid_sort_json", f"Sort must be an array of sort specs, not: {erlang(value, with_text=True)}"
        )
    directions: dict[str, str] = {}
    for field in value:
        ((name, direction),) = [(field, "asc")] if isinstance(field, str) else _only_member(field)
        if name == "" or direction not in ("asc", "desc"):
            raise bad_option("invalid_sort_field", f"Invalid sort field: {erlang(field, with_text=True)}")
        directions[name] = direction
    if len(set(directions.values())) > 1:
        raise bad_option(
            "unsupported_mixed_sort", "Sorts currently only support a single direction for all fields."
        )
    return directions


def _only_member(field: Any) -> list[tuple[str, Any]]:
    return list(field.items()) if isinstance(field, dict) and len(field) == 1 else [("", None)]


def _fields(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise bad_option("invalid_fields", f"Fields must be an array of strings, not: {erlang(value)}")
    for field in value:
        if not isinstance(field, str):
            raise bad_option("invalid_field", f"Invalid JSON for field spec: {erlang(field)}")
    return value


def _partition(value: Any) -> str:
    if value != "":
        raise bad_option("bad_request", "Databases are not partitioned here.")
    return ""


def _is_partitioned(value: Any) -> bool:
    if value not in (None, False):
        raise bad_option("invalid_partitioned_option", "Databases are not partitioned here.")
    return False


def _stale(value: Any) -> Any:
    if value not in ("ok", "false", False):
        raise bad_option("invalid_ok_or_false_value", f"Invalid value for stale: {erlang(value)}")
    return value if value == "ok" else False


def _doc_ids(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise bad_option(
            "invalid_bulk_docs", f"Bulk Delete requires an array of non-null docids. Docids: {erlang(value)}"
        )
    return [_text(id) for id in value]


def _anything(value: Any) -> Any:
    return value


_REQUIRED: Final = object()
_Members = Mapping[str, tuple[Any, Callable[[Any], Any]]]

# Each member with its default, or _REQUIRED, and its check.
FIND: Final[_Members] = {
    "selector": (_REQUIRED, _selector),
    "use_index": ([], _use_index),
    "bookmark": ("", _bookmark),
    "limit": (DEFAULT_LIMIT, _not_negative),
    "skip": (0, _not_negative),
    "sort": ([], read_sort),
    "fields": ([], _fields),
    "partition": ("", _partition),
    "r": (1, _positive),
    "conflicts": (False, _boolean),
    "stale": (False, _stale),
    "update": (True, _boolean),
    "stable": (False, _boolean),
    "execution_stats": (False, _boolean),
    "allow_fallback": (True, _boolean),
}
INDEX: Final[_Members] = {
    "index": (_REQUIRED, _anything),
    "type": ("json", _text),
    "name": (None, _name),
    "ddoc": (None, _name),
    "w": (2, _positive),
    "partitioned": (None, _is_partitioned),
}
_DEFINITION: Final[_Members] = {
    "fields": (_REQUIRED, read_sort),
    "partial_filter_selector": ({}, _selector),
}
_BULK_DELETE: Final[_Members] = {"docids": (_REQUIRED, _doc_ids), "w": (2, _positive)}


def check_members(members: _Members, body: dict[str, Any]) -> dict[str, Any]:
    """The members in the order of the table, with their defaults."""
    values = {}
    for name, (default, check) in members.items():
        if name not in body and default is _REQUIRED:
            raise bad_option("missing_required_key", f"Missing required key: {name}")
        values[name] = check(body.get(name, default))
    for name in body:
        if name not in members:
            raise bad_option("invalid_key", f"Invalid key {name} for this request.")
    return values


def check_find(body: dict[str, Any]) -> dict[str, Any]:
    """The members of a `_find`: `selector` is a Selector, `sort` a dict, `bookmark` `nil` without one."""
    return check_members(FIND, body)


def check_index(body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The members of a request for an index, and the members of its `index`."""
    values = check_members(INDEX, body)
    if values["type"] in ("text", "nouveau"):
        raise CouchError(503, "required index service unavailable", values["type"])
    if values["type"] != "json":
        raise bad_option("invalid_index", f"Invalid type for index: {values['type']}")
    if not isinstance(values["index"], dict):
        raise bad_option("invalid_index", f"JSON indexes must be an object, not: {erlang(values['index'])}")
    return values, check_members(_DEFINITION, values["index"])


def check_bulk_delete(body: dict[str, Any]) -> list[str]:
    """The ids of the design documents."""
    return [str(id) for id in check_members(_BULK_DELETE, body)["docids"]]
