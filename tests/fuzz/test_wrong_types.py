"""Each part of each request is given a value of each type: what a part may not be is refused."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

import bson
import pytest

from reactdb.dialects.mongodb.commands.table import COMMANDS
from tests.fuzz import http_requests, mongodb_messages
from tests.fuzz.bson_documents import VALUES
from tests.fuzz.generating import Deep, json_text
from tests.fuzz.target import Failure, Target, judge
from tests.servers.mongodb.wire import message

JSON_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 10**30, 1e300, "", "x", "\0", "\ud800", "9" * 5_000, [], [1], ["x"], [[]], [None], {}, {"a": 1},
    {"": {}}, {"$x": 1}, Deep(130, is_object=False), Deep(600, is_object=True),
)  # fmt: skip
BSON_VALUES: tuple[Any, ...] = (
    *VALUES, None, True, -1, 0, 2**31 - 1, 1.5, "", "x", "$a", "9" * 5_000, [], [1], [{}], [[]], [None], {}, {"a": 1}, {"$a": 1},
    {"": 1}, {"a": None},
)  # fmt: skip


WORDS = (
    "", "x", "-1", "9" * 5_000, "%FF", "%ED%A0%80", "%22%5Cud800%22", "null", "true", "[1,{}]", "{%22a%22:[]}", "%22x%22", "1.5",
    "%00", "now",
)  # fmt: skip


def replaced(found: Any, value: Any) -> Iterator[Any]:
    """The JSON value with each of its parts in turn replaced by this one."""
    yield value
    if isinstance(found, dict):
        for name, inner in found.items():
            for other in replaced(inner, value):
                yield {**found, name: other}
    elif isinstance(found, list):
        for place, inner in enumerate(found):
            for other in replaced(inner, value):
                yield [*found[:place], other, *found[place + 1 :]]


def failures(target: Target, inputs: Iterator[bytes]) -> list[str]:
    """What the inputs end in, each once. As many as a target takes are given to it together, which is quicker."""
    found: dict[str, None] = {}
    while data := b"".join(islice(inputs, 8)):
        try:
            judge(target, data)
        except Failure as failure:
            found[f"{str(failure)[:1_000]}\n{data[:2_000]!r}"] = None
    return list(found)


def http_bodies() -> Iterator[tuple[str, str, Any]]:
    """(method, path, body) of each route that reads one."""
    for method, path in http_requests.couch_routes():
        if method in ("POST", "PUT") and path in http_requests.BODIES:
            yield method, f"/couchdb{path}", http_requests.BODIES[path]
    for method, path in http_requests.aidbox_routes():
        if method == "PATCH":
            yield from ((method, f"/aidbox{path}", body) for body in http_requests.PATCHES)
        elif method in ("POST", "PUT") and path in http_requests.BODIES:
            yield method, f"/aidbox{path}", http_requests.BODIES[path]


@pytest.mark.slow
@pytest.mark.parametrize("value", JSON_VALUES, ids=range(len(JSON_VALUES)))
def test_each_part_of_each_body_may_be_of_any_type(value: Any) -> None:
    headers = {"content-type": "application/json"}
    inputs = (
        http_requests.request_of(method, path, json_text(body).encode("utf-8", "surrogatepass"), headers)
        for method, path, template in http_bodies()
        for body in replaced(template, value)
    )
    assert [] == failures(http_requests.HTTP, inputs)


@pytest.mark.slow
@pytest.mark.parametrize("name", http_requests.parameter_names())
def test_each_parameter_may_be_anything_on_each_path(name: str) -> None:
    """Two of the words on each path, another two on the next one."""
    words = cycle(WORDS)
    inputs = (
        http_requests.request_of(method, f"/{mount}{path}?{name}={next(words)}")
        for mount, routes in (
            ("couchdb", http_requests.couch_routes()),
            ("aidbox", http_requests.aidbox_routes()),
        )
        for method, path in routes
        if method == "GET"
        for _ in range(2)
    )
    assert [] == failures(http_requests.HTTP, inputs)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({found.name for found in COMMANDS.values()}))
def test_each_field_of_each_command_may_be_of_any_type(name: str) -> None:
    assert [] == failures(mongodb_messages.MONGODB, commands(name))


def commands(name: str) -> Iterator[bytes]:
    base = mongodb_messages.template(name)
    fields = sorted({*base, *(COMMANDS[name].fields or ())})
    for value in BSON_VALUES:
        for field in fields:
            parts = replaced(base.get(field), value) if field in base else iter((value,))
            for part in parts:
                try:
                    yield message({**base, field: part})
                except (bson.errors.BSONError, OverflowError, TypeError):
                    continue
