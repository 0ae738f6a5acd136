"""Views over real sockets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import reactdb
from reactdb.servers.http import serve_in_thread

pytest.importorskip("quickjs")

VIEW = "/todo/_design/app/_view/by_tag"
DESIGN = {
    "views": {
        "by_tag": {
            "map": "function (doc) { (doc.tags || []).forEach(function (tag) { emit(tag, doc.n); }); }"
        },
        "sum": {"map": "function (doc) { emit(null, doc.n); }", "reduce": "_sum"},
    }
}


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with reactdb.connect(":memory:") as db:
        db.table_create("todo", primary_key="_id")
        with (
            serve_in_thread(db) as server,
            httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=60, verify=False) as client,
        ):
            client.put("/todo/_design/app", json=DESIGN)
            for number, tags in enumerate((["x", "y"], ["x"], ["y"])):
                client.put(f"/todo/{number}", json={"tags": tags, "n": number})
            yield client


def told(answer: httpx.Response) -> list[tuple[str, Any]]:
    assert 200 == answer.status_code, answer.text
    return [(row["id"], row["key"]) for row in answer.json()["rows"]]


X, Y = [("0", "x"), ("1", "x")], [("0", "y"), ("2", "y")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ({}, X + Y),
        ({"key": '"x"'}, X),
        ({"keys": '["y","x"]'}, Y + X),
        ({"start_key": '"y"'}, Y),
        ({"endkey": '"y"', "inclusive_end": "false"}, X),
        ({"endkey": "null"}, []),
        ({"startkey": '"x"', "startkey_docid": "1"}, X[1:] + Y),
        ({"end_key": '"x"', "end_key_doc_id": "0"}, X[:1]),
        ({"descending": "true", "limit": "1", "skip": "1"}, Y[:1]),
    ],
    ids=str,
)
def test_parameters_mean_the_same_in_the_url_and_in_the_body(
    client: httpx.Client, query: dict[str, str], rows: list[Any]
) -> None:
    body = {name: text if "doc" in name else json.loads(text) for name, text in query.items()}

    assert rows == told(client.get(VIEW, params=query))
    assert rows == told(client.post(VIEW, json=body))
    assert rows == told(client.get(VIEW.replace("_design/", "_design%2F"), params=query))


def test_the_whole_answer(client: httpx.Client) -> None:
    asked = {"key": '"x"', "include_docs": "true", "update_seq": "true", "limit": "1"}
    answer = client.get(VIEW, params=asked).json()
    document = client.get("/todo/0").json()

    assert client.get("/todo").json()["update_seq"] == answer.pop("update_seq")
    row = {"id": "0", "key": "x", "value": 0, "doc": document}
    assert {"total_rows": 4, "offset": 0, "rows": [row]} == answer
    assert ["rows"] == list(client.get(VIEW, params={"sorted": "false"}).json())


def test_who_has_the_rows_is_told_so(client: httpx.Client) -> None:
    etag = client.get(VIEW).headers["etag"]
    assert 304 == client.get(VIEW, headers={"If-None-Match": etag}).status_code
    assert 200 == client.get(VIEW, params={"limit": 1}, headers={"If-None-Match": etag}).status_code
    by_body = client.post(VIEW, json={"limit": 1})
    assert by_body.headers["etag"] not in (etag, client.post(VIEW, json={"limit": 2}).headers["etag"])
    client.put("/todo/9", json={})
    assert etag != client.get(VIEW, headers={"If-None-Match": etag}).headers["etag"]


def test_a_view_has_what_was_just_written(client: httpx.Client) -> None:
    rev = client.get("/todo/1").json()["_rev"]
    client.delete("/todo/1", params={"rev": rev})
    client.put("/todo/3", json={"tags": ["x"]})

    assert [("0", "x"), ("3", "x")] == told(client.get(VIEW, params={"key": '"x"'}))


@pytest.mark.parametrize(
    ("path", "status", "error", "reason"),
    [
        ("none/_view/v", 404, "not_found", "missing"),
        ("app/_view/v", 404, "not_found", "missing_named_view"),
        (
            "app/_view/by_tag?startkey=2&endkey=1",
            400,
            "query_parse_error",
            "No rows can match your key range",
        ),
        ("app/_view/by_tag?limit=x", 400, "query_parse_error", 'Invalid value for integer: "x"'),
        ("app/_view/by_tag?key=1&keys=[1]", 400, "query_parse_error", "`keys` is incompatible"),
        ("app/_view/by_tag?group=true", 400, "query_parse_error", "Reduce is invalid for map-only views."),
        ("app/_view/sum?group=true", 501, "not_implemented", "Nothing is reduced here"),
        ("app/_view/sum", 501, "not_implemented", "Nothing is reduced here"),
    ],
)
def test_what_is_refused(client: httpx.Client, path: str, status: int, error: str, reason: str) -> None:
    answer = client.get(f"/todo/_design/{path}")

    assert (status, error) == (answer.status_code, answer.json()["error"])
    assert answer.json()["reason"].startswith(reason)


def test_a_design_document_that_was_deleted_has_no_views(client: httpx.Client) -> None:
    assert 3 == len(told(client.get("/todo/_design/app/_view/sum?reduce=false")))
    client.delete("/todo/_design/app", params={"rev": client.get("/todo/_design/app").json()["_rev"]})

    assert (404, "deleted") == ((answer := client.get(VIEW)).status_code, answer.json()["reason"])
