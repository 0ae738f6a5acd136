"""JSON or YAML, as a client of Aidbox wants it and sends it.

    Accept: text/yaml            an answer in YAML; anything else, and nothing: JSON
    Content-Type: text/yaml      a request in YAML; JSON needs its content type, too

A body without a content type, or with another one, is refused: before a browser sends JSON or YAML to another origin, it requests
permission, but it sends form types, and a body without a type, directly.

YAML is limited to JSON's values: a date is a text, `yes` is a text, and there are no anchors.

Rule of this file: bytes in, values out, and the other way round.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Mapping
from typing import Any, Final

import yaml

from reactdb.budget import CALL_STEPS, spend
from reactdb.dialects.aidbox.errors import AidboxError
from reactdb.errors import InvalidDocument
from reactdb.json import MOST_LEVELS, is_deeper, too_deep
from reactdb.servers.http.json_bodies import read_json
from reactdb.servers.http.responses import JSON, encode_in_pieces

__all__ = ["YAML", "read_body", "render", "wants_yaml"]

YAML: Final = "text/yaml"
YAMLS: Final = frozenset({"text/yaml", "application/yaml", "application/x-yaml", "text/x-yaml"})
_JSONS: Final = re.compile(r"application/(?:[a-z0-9.-]+\+)?json", re.ASCII)
"""`application/fhir+json`, `application/json-patch+json` and so on are JSON, too."""


def wants_yaml(headers: Mapping[str, str]) -> bool:
    """Whether YAML comes before JSON in `Accept`."""
    for part in headers.get("accept", "").lower().split(","):
        kind = part.partition(";")[0].strip()
        if kind in YAMLS:
            return True
        if "json" in kind:
            return False
    return False


def render(value: Any, headers: Mapping[str, str]) -> tuple[bytes, str]:
    """(the bytes, their content type)."""
    if wants_yaml(headers):
        text = yaml.dump(value, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=2**31)
        return text.encode("utf-8", "replace"), YAML
    return encode_in_pieces(value), JSON


def read_body(body: bytes, headers: Mapping[str, str]) -> Any:
    """
    Raises:
        AidboxError: 415, the header names neither JSON nor YAML; 400, the body does not match the header.
        ResourceLimit, Stopped: See `read_json`.
    """
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in YAMLS and _JSONS.fullmatch(kind) is None:
        raise AidboxError(
            415,
            "not-supported",
            "the content type of a body is application/json, another type of JSON, or text/yaml",
        )
    try:
        if kind in YAMLS:
            return _of_yaml(body)
        return read_json(body.removeprefix(BOM_UTF8))
    except InvalidDocument as error:
        raise AidboxError(400, "structure", f"the body is {error.reason}") from None
    except (ValueError, yaml.YAMLError) as error:
        line = str(error).splitlines()[0]
        raise AidboxError(
            400, "structure", f"the body is no {'YAML' if kind in YAMLS else 'JSON'}: {line}"
        ) from None


def _of_yaml(body: bytes) -> Any:
    try:
        value = yaml.load(body, _Simple)
    except RecursionError:
        raise too_deep() from None
    if is_deeper(value, MOST_LEVELS):
        raise too_deep()
    return value


class _Simple(yaml.SafeLoader):
    """Loads JSON's values."""

    def fetch_more_tokens(self) -> Any:
        spend(CALL_STEPS)
        return super().fetch_more_tokens()

    def fetch_flow_collection_start(self, token: Any) -> None:
        # PyYAML looks ahead by 1,024 characters at each level, and a writer may not keep others waiting for so long.
        if self.flow_level > MOST_LEVELS:
            raise too_deep()
        super().fetch_flow_collection_start(token)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        spend(CALL_STEPS)
        return super().construct_object(node, deep)

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            # A few lines of them can mean more than fits into memory.
            raise yaml.YAMLError("there are no anchors here")
        return super().compose_node(parent, index)


_CORE: Final = ("map", "seq", "str", "int", "float", "bool", "null")
# Other tags, such as a date or bytes, have no JSON value.
_Simple.yaml_constructors = {
    name: construct
    for name, construct in yaml.SafeLoader.yaml_constructors.items()
    # None: the constructor for any other tag, which refuses it.
    if name is None or name.removeprefix("tag:yaml.org,2002:") in _CORE
}


class _Plain(yaml.SafeDumper):
    """Writes everything as often as it is there."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_data(self, data: Any) -> Any:
        spend(CALL_STEPS)
        return super().represent_data(data)

    def emit(self, event: Any) -> None:
        spend(CALL_STEPS)
        super().emit(event)


# As in JSON: a date, a time of day or `yes` is a text. (The output has quotes around such a text, for readers of YAML 1.1.)
_Simple.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ("", "~", "n", "N")),
    ("int", r"-?(?:0|[1-9][0-9]*)", "-0123456789"),
    ("float", r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", "-0123456789"),
):
    _Simple.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})\\Z"), list(_first))
