"""CouchDB's paths about the whole server, over real sockets: its databases, what happens to them, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

import reactdb
from reactdb.servers.http import serve_in_thread

PATIENCE_S = 60.0


@pytest.fixture
def db() -> Iterator[Any]:
    with reactdb.connect(":memory:") as database:
        yield database


@contextmanager
def served(db: Any) -> Iterator[httpx.Client]:
    with (
        serve_in_thread(db) as server,
        httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=PATIENCE_S, verify=False) as made,
    ):
        yield made


@pytest.fixture
def client(db: Any) -> Iterator[httpx.Client]:
    with served(db) as made:
        yield made


@pytest.fixture(scope="module")
def filled() -> Iterator[httpx.Client]:
    """Of a server with documents and views that no test changes."""
    with reactdb.connect(":memory:") as db, served(db) as made:
        made.put("/todo").raise_for_status()
        docs = [{"_id": id, "n": number} for number, id in enumerate("abcd")]
        docs.append({"_id": "_design/d", "views": {"v": {"map": "function(doc) { emit(doc.n, doc._id) }"}}})
        docs.append({"_id": "_design/r", "views": {"v": {"map": "function(doc) {}", "reduce": "_count"}}})
        made.post("/todo/_bulk_docs", json={"docs": docs}).raise_for_status()
        yield made


def error_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]


def told(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(row["db_name"], row["type"]) for row in rows]


class TestSystemDatabases:
    @pytest.mark.parametrize("name", ["_users", "_replicator", "_global_changes", "%5Fusers"])
    def test_nothing_is_stored_in_one(self, client: httpx.Client, db: Any, name: str) -> None:
        """A password would be kept, and shown, in clear; a replication would be taken, and never run."""
        path = f"/{name}/org.couchdb.user:bob"
        answers = [
            client.put(f"/{name}"),
            client.get(f"/{name}"),
            client.put(path, json={"name": "bob", "password": "secret", "roles": [], "type": "user"}),
            client.post(f"/{name}", json={"password": "secret"}),
            client.post(f"/{name}/_bulk_docs", json={"docs": [{"_id": "bob", "password": "secret"}]}),
            client.put(f"{path}/photo", content=b"bytes"),
            client.get(path),
            client.get(f"/{name}/_all_docs"),
            client.get(f"/{name}/_changes"),
            client.get(f"/{name}/_security"),
            client.delete(path),
            client.delete(f"/{name}"),
        ]

        assert {(501, "not_implemented")} == set(map(error_of, answers))
        assert 501 == client.head(f"/{name}").status_code
        assert [] == db.table_list()
        assert 0 == db.seq

    @pytest.mark.parametrize("name", ["_users", "_replicator"])
    def test_a_table_of_such_a_name_is_not_shown(self, client: httpx.Client, db: Any, name: str) -> None:
        db.table_create(name).insert({"id": "bob", "password": "secret"})
        db.table_create("todo")
        bodies = [
            client.get(path).text
            for path in (
                f"/{name}",
                f"/{name}/bob",
                f"/{name}/_all_docs?include_docs=true",
                "/_all_dbs",
                "/_dbs_info",
            )
        ]
        bodies += [client.get("/_db_updates").text, client.post("/_dbs_info", json={"keys": [name]}).text]

        assert not any("secret" in body for body in bodies)
        assert ["todo"] == client.get("/_all_dbs").json()
        assert ["todo"] == [row["key"] for row in client.get("/_dbs_info").json()]
        assert [{"key": name, "error": "not_found"}] == json.loads(bodies[-1])
        assert [("todo", "created")] == told(client.get("/_db_updates").json()["results"])

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("GET", "/_node/_local"),
            ("GET", "/_node/_local/_config"),
            ("PUT", "/_node/_local/_config/admins/ann"),
            ("GET", "/_node/nonode@nohost/_stats"),
            ("POST", "/_node/_local/_restart"),
            ("GET", "/_scheduler/jobs"),
            ("GET", "/_scheduler/docs"),
            ("GET", "/_scheduler/docs/_replicator/x"),
        ],
    )
    def test_there_are_no_nodes_and_no_scheduler(self, filled: httpx.Client, method: str, path: str) -> None:
        assert (501, "not_implemented") == error_of(filled.request(method, path))


class TestServer:
    def test_it_is_alone(self, filled: httpx.Client) -> None:
        found = filled.get("/_membership").json()

        assert {"all_nodes": ["nonode@nohost"], "cluster_nodes": ["nonode@nohost"]} == found

    def test_infos_of_databases(self, client: httpx.Client, db: Any) -> None:
        for name in ("a", "b", "c"):
            client.put(f"/{name}").raise_for_status()
        client.post("/b", json={}).raise_for_status()
        found = client.get("/_dbs_info?startkey=%22b%22").json()
        asked = client.post("/_dbs_info", json={"keys": ["c", "none", 5]}).json()

        assert [{"key": name, "info": client.get(f"/{name}").json()} for name in ("b", "c")] == found
        assert 1 == found[0]["info"]["doc_count"]
        assert [found[1], *({"key": key, "error": "not_found"} for key in ("none", 5))] == asked

    def test_to_ask_for_all_infos_changes_no_table(self, client: httpx.Client, db: Any) -> None:
        """A table gets revisions when its database is opened."""
        db.table_create("native").insert({"id": 1})
        before = db.seq
        found = client.get("/_dbs_info").json()

        assert [("native", 1)] == [(row["key"], row["info"]["doc_count"]) for row in found]
        assert before == db.seq

    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            ({}, "`keys` member must exist."),
            ({"keys": "a"}, "`keys` member must be an array."),
            ({"keys": ["a"] * 101}, "too_many_keys"),
            ([], "Request body must be a JSON object"),
        ],
    )
    def test_infos_that_are_asked_for_wrongly(self, filled: httpx.Client, body: Any, reason: str) -> None:
        answer = filled.post("/_dbs_info", json=body)

        assert (400, reason) == (answer.status_code, answer.json()["reason"])


class TestUpdates:
    def test_what_has_happened(self, client: httpx.Client, db: Any) -> None:
        client.put("/todo").raise_for_status()
        client.post("/todo", json={}).raise_for_status()
        client.put("/gone").raise_for_status()
        client.delete("/gone").raise_for_status()
        body = client.get("/_db_updates").json()

        assert ["results", "last_seq"] == list(body)
        assert [("todo", "created"), ("todo", "updated"), ("gone", "created"), ("gone", "deleted")] == told(
            body["results"]
        )
        assert ["db_name", "type", "seq"] == list(body["results"][0])
        assert [] == client.get("/_db_updates", params={"since": body["last_seq"]}).json()["results"]
        assert [] == client.get("/_db_updates?since=now").json()["results"]
        second = client.get("/_db_updates", params={"since": body["results"][0]["seq"], "limit": 1}).json()
        assert [("todo", "updated")] == told(second["results"])
        assert second["last_seq"] == body["results"][1]["seq"]
        newest = client.get("/_db_updates?descending=true&limit=1").json()["results"]
        assert [("gone", "deleted")] == told(newest)

    def test_a_long_poll_is_answered_by_the_next_change(self, client: httpx.Client, db: Any) -> None:
        with client.stream("GET", "/_db_updates?feed=longpoll&since=now&heartbeat=60000") as answer:
            lines = answer.iter_lines()
            assert '{"results":[' == next(lines)
            db.table_create("todo")
            body = json.loads('{"results":[' + "".join(lines))

        assert [("todo", "created")] == told(body["results"])

    def test_a_long_poll_whose_time_is_over(self, client: httpx.Client) -> None:
        found = client.get("/_db_updates?feed=longpoll&timeout=1").json()

        assert [] == found["results"]
        assert found["last_seq"].startswith("0-")

    @pytest.mark.parametrize("heartbeat", ["heartbeat=5", "heartbeat=true", "heartbeat=false"])
    def test_continuously(self, client: httpx.Client, db: Any, heartbeat: str) -> None:
        db.table_create("todo")
        with client.stream("GET", f"/_db_updates?feed=continuous&limit=4&{heartbeat}") as answer:
            lines = (json.loads(line) for line in answer.iter_lines() if line)
            assert [("todo", "created")] == told([next(lines)])
            db.table("todo").insert({"id": 1})
            assert [("todo", "updated")] == told([next(lines)])
            client.put("/other").raise_for_status()
            assert [("other", "created")] == told([next(lines)])
            client.delete("/other").raise_for_status()
            assert [("other", "deleted")] == told([last := next(lines)])
            assert [{"last_seq": last["seq"]}] == list(lines)

    def test_a_heartbeat_is_an_empty_line(self, client: httpx.Client) -> None:
        with client.stream("GET", "/_db_updates?feed=continuous&heartbeat=1") as answer:
            lines = answer.iter_lines()

            assert ["", "", ""] == [next(lines) for _ in range(3)]

    def test_as_server_sent_events(self, client: httpx.Client, db: Any) -> None:
        db.table_create("a")
        db.table_create("b")
        body = client.get("/_db_updates?feed=eventsource&limit=2")
        events = [event.split("\n") for event in body.text.split("\n\n")[:2]]

        assert "text/event-stream" == body.headers["content-type"]
        rows = [json.loads(data.removeprefix("data: ")) for data, _ in events]
        assert ["a", "b"] == [row["db_name"] for row in rows]
        assert [row["seq"] for row in rows] == [json.loads(id.removeprefix("id: ")) for _, id in events]
        seq = rows[0]["seq"]
        after = client.get("/_db_updates?feed=eventsource&limit=1", headers={"Last-Event-ID": seq})
        assert '"db_name":"b"' in after.text

    def test_what_is_asked_for_wrongly(self, client: httpx.Client) -> None:
        for query in ("feed=nonsense", "since=nonsense", "limit=x", "heartbeat=x", "timeout=-1"):
            assert (400, "bad_request") == error_of(client.get(f"/_db_updates?{query}"))
        assert 405 == client.post("/_db_updates", json={}).status_code


class TestQueries:
    @pytest.mark.parametrize("path", ["_all_docs/queries", "_all_docs"])
    def test_of_all_documents(self, filled: httpx.Client, path: str) -> None:
        queries = [
            {"keys": ["b", "none"]},
            {"startkey": "c", "limit": 1},
            {"descending": True, "limit": 1, "skip": 1},
            {},
        ]
        found = filled.post(f"/todo/{path}", json={"queries": queries})
        single = [filled.post("/todo/_all_docs", json=query).json() for query in queries]

        assert (200, {"results": single}) == (found.status_code, found.json())

    def test_of_design_documents(self, filled: httpx.Client) -> None:
        queries = [{"keys": ["_design/r"]}, {"limit": 1}, {}]
        found = filled.post("/todo/_design_docs/queries", json={"queries": queries}).json()
        single = [filled.post("/todo/_design_docs", json=query).json() for query in queries]

        assert {"results": single} == found
        assert [1, 1, 2] == [len(one["rows"]) for one in single]

    @pytest.mark.parametrize("path", ["_all_docs", "_design_docs", "_design/d/_view/v"])
    def test_parameters_of_the_url_are_those_of_each_query(self, filled: httpx.Client, path: str) -> None:
        if "_view" in path:
            pytest.importorskip("quickjs")
        queries = [{}, {"limit": 2}]
        found = filled.post(f"/todo/{path}/queries?limit=1", json={"queries": queries}).json()["results"]

        assert [1, 2] == [len(one["rows"]) for one in found]

    @pytest.mark.parametrize("path", ["_view/v/queries", "_view/v"])
    def test_of_a_view(self, filled: httpx.Client, path: str) -> None:
        pytest.importorskip("quickjs")
        queries = [
            {"key": 1},
            {"keys": [3, 0]},
            {"startkey": 2, "include_docs": True},
            {"descending": True, "limit": 1},
        ]
        found = filled.post(f"/todo/_design/d/{path}", json={"queries": queries})
        single = [filled.post("/todo/_design/d/_view/v", json=query).json() for query in queries]

        assert (200, {"results": single}) == (found.status_code, found.json())
        assert [["b"], ["d", "a"], ["c", "d"], ["d"]] == [
            [row["value"] for row in one["rows"]] for one in single
        ]

    @pytest.mark.parametrize(
        ("path", "body", "status"),
        [
            ("_all_docs/queries", {}, 400),
            ("_all_docs/queries", {"queries": {}}, 400),
            ("_all_docs/queries", {"queries": [5]}, 400),
            ("_all_docs/queries", {"queries": [{"keys": 5}]}, 400),
            ("_all_docs/queries", {"queries": [{"limit": -1}]}, 400),
            ("_all_docs", {"queries": [{}], "keys": ["a"]}, 400),
            ("_design_docs/queries", {"keys": ["a"]}, 400),
            ("_design/d/_view/v/queries", {}, 400),
            ("_design/d/_view/none/queries", {"queries": []}, 404),
            ("_design/none/_view/v/queries", {"queries": [{}]}, 404),
            ("_design/r/_view/v/queries", {"queries": [{}]}, 501),
            ("_design/d/_view/v/queries", {"queries": [{}, {"startkey": 2, "endkey": 1}]}, 400),
        ],
    )
    def test_what_is_asked_for_wrongly(self, filled: httpx.Client, path: str, body: Any, status: int) -> None:
        pytest.importorskip("quickjs")
        assert status == filled.post(f"/todo/{path}", json=body).status_code

    def test_none_has_no_answers(self, filled: httpx.Client) -> None:
        pytest.importorskip("quickjs")
        for path in ("_all_docs", "_design_docs", "_design/d/_view/v"):
            assert {"results": []} == filled.post(f"/todo/{path}/queries", json={"queries": []}).json()
            assert 405 == filled.get(f"/todo/{path}/queries").status_code


def test_the_greater_hash_wins_as_bytes(client: httpx.Client) -> None:
    """16 bytes from 170 on are above a letter, which is byte 122."""
    client.put("/todo").raise_for_status()
    for rev in ("1-" + "a" * 32, "1-z"):
        client.put("/todo/a", params={"new_edits": "false"}, json={"_rev": rev}).raise_for_status()
    found = client.get("/todo/a?conflicts=true").json()

    assert {"_id": "a", "_rev": "1-" + "a" * 32, "_conflicts": ["1-z"]} == found
    row = client.get("/todo/_changes?style=all_docs").json()["results"][0]
    assert [{"rev": "1-" + "a" * 32}, {"rev": "1-z"}] == row["changes"]


class TestRefusals:
    """What a stranger may send is refused in words of CouchDB's."""

    @pytest.mark.parametrize("levels", [200, 500, 990, 5_000])
    def test_json_that_is_nested_too_deeply_is_400(self, client: httpx.Client, levels: int) -> None:
        client.put("/todo").raise_for_status()
        deep = "[" * levels + "]" * levels
        headers = {"Content-Type": "application/json"}
        answers = [
            client.put("/todo/a", content=f'{{"a":{deep}}}', headers=headers),
            client.post("/todo/_find", content=f'{{"selector":{{}},"skip":{deep}}}', headers=headers),
        ]
        if levels < 1_000:
            # A longer URL is no URL.
            answers.append(client.get("/todo/_all_docs", params={"startkey": deep}))
        said = (400, {"error": "bad_request", "reason": "The JSON is nested more than 150 levels deep."})
        assert [said] * len(answers) == [(answer.status_code, answer.json()) for answer in answers]

    def test_a_document_of_ninety_levels_is_kept(self, client: httpx.Client) -> None:
        client.put("/todo").raise_for_status()
        deep: Any = 1
        for _ in range(89):
            deep = [deep]
        client.post("/todo/_bulk_docs", json={"docs": [{"_id": "a", "a": deep}]}).raise_for_status()
        assert deep == client.get("/todo/a").json()["a"]

    def test_a_purge_of_what_is_no_list_is_400(self, client: httpx.Client) -> None:
        client.put("/todo").raise_for_status()
        answer = client.post("/todo/_purge", json={"a": 1})
        assert (400, "The revisions of `a` must be an array") == (answer.status_code, answer.json()["reason"])

    @pytest.mark.parametrize(
        ("query", "names"),
        [
            ({"endkey": '["a",1]'}, []),
            ({"startkey": '["a",1]'}, ["a", "b"]),
            ({"startkey": "1", "endkey": '"a"'}, ["a"]),
            ({"startkey": '"b"', "endkey": "{}", "descending": "true"}, ["b", "a"]),
        ],
    )
    def test_a_bound_of_a_list_of_databases_may_be_of_any_type(
        self, client: httpx.Client, query: dict[str, str], names: list[str]
    ) -> None:
        client.put("/a").raise_for_status()
        client.put("/b").raise_for_status()
        assert names == client.get("/_all_dbs", params=query).json()

    def test_a_limit_may_be_any_number(self, client: httpx.Client) -> None:
        client.put("/todo").raise_for_status()
        client.put("/todo/a", json={}).raise_for_status()
        answer = client.get("/todo/_all_docs", params={"limit": str(10**30)})
        assert ["a"] == [row["id"] for row in answer.json()["rows"]]
