"""Aidbox over HTTP, on real sockets: the manual's examples, resources, bundles, long polls, server-sent events, refusals."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml
from starlette.applications import Starlette
from starlette.routing import Mount

import reactdb
from reactdb.dialects.aidbox.aidbox import Aidbox
from reactdb.servers.http import HTTPLimits, HTTPServer, aidbox, serve_in_thread
from reactdb.servers.http.long_poll import LongPoll
from reactdb.servers.http.protocol import Deferred
from reactdb.servers.http.responses import Answer
from reactdb.servers.users import Credentials
from tests.servers.http.asgi import asked

PATIENCE_S = 60.0
JSON = {"Content-Type": "application/json"}
YAML = {"Accept": "text/yaml", "Content-Type": "text/yaml"}


@pytest.fixture
def db() -> Iterator[Any]:
    with reactdb.connect(":memory:") as database:
        database.table_create("Patient")
        yield database


@pytest.fixture
def server(db: Any) -> Iterator[HTTPServer]:
    with serve_in_thread(db, dialects=["aidbox"]) as running:
        yield running


def client_of(server: HTTPServer, **options: Any) -> httpx.Client:
    return httpx.Client(
        base_url=f"http://127.0.0.1:{server.port}", timeout=PATIENCE_S, verify=False, **options
    )


@pytest.fixture
def client(server: HTTPServer) -> Iterator[httpx.Client]:
    with client_of(server) as made:
        yield made


JOHN = "id: pt-1\nname:\n- family: Smith\n  given: [John]\n"
AMANDA = "id: pt-2\nname:\n- family: Wood\n  given: [Amanda]\n"
SMITH = {"event": "created", "resource": {"id": "pt-1", "name": [{"family": "Smith", "given": ["John"]}]}}
WOOD = {"event": "created", "resource": {"id": "pt-2", "name": [{"family": "Wood", "given": ["Amanda"]}]}}

# The examples of Aidbox's page about its Changes API, in order. Source: https://docs.aidbox.app, "Changes API".
MANUAL = [
    ("GET", "/Patient/$changes", None, 200, {"version": 1}),
    ("GET", "/Patient/$changes?version=1", None, 304, None),
    ("POST", "/Patient", JOHN, 201, ...),
    ("POST", "/Patient", AMANDA, 201, ...),
    ("GET", "/Patient/$changes?version=1", None, 200, {"version": 3, "changes": [SMITH, WOOD]}),
    ("GET", "/Patient/$changes?version=1&.name.0.family=Wood", None, 200, {"version": 3, "changes": [WOOD]}),
    ("GET", "/Patient/$changes?version=1,2", None, 200, {"version": 2, "changes": [SMITH]}),
    ("GET", "/Patient/pt-1/$changes", None, 200, {"version": 2}),
    ("GET", "/Patient/pt-1/$changes?version=1", None, 200, {"version": 2, "changes": [SMITH]}),
    (
        "GET",
        "/Patient/$changes?version=1&omit-resources=true",
        None,
        200,
        {
            "version": 3,
            "changes": [
                {"event": "created", "resource": {"id": "pt-1", "resourceType": "Patient"}},
                {"event": "created", "resource": {"id": "pt-2", "resourceType": "Patient"}},
            ],
        },
    ),
]


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_the_examples_of_the_manual(client, form):
    for method, path, body, status, wanted in MANUAL:
        if form == "yaml":
            answer = client.request(method, path, content=body, headers=YAML)
        else:
            answer = client.request(method, path, json=None if body is None else yaml.safe_load(body))
        assert (path, status) == (path, answer.status_code)
        if wanted is None:
            assert (b"", None) == (answer.content, answer.headers.get("content-type"))
        elif wanted is not ...:
            kind = answer.headers["content-type"]
            assert kind == ("text/yaml" if form == "yaml" else "application/json")
            assert wanted == (yaml.safe_load(answer.text) if form == "yaml" else answer.json())


class TestForms:
    def test_yaml_is_what_json_can_say(self, client):
        body = "id: a\nborn: 2012-01-02\nat: 12:30:00\nsmokes: yes\nn: 010\nok: true\nx: 1.5\nnothing: ~\n"

        client.post("/Patient", content=body, headers=YAML)

        found = client.get("/Patient/a").json()
        assert {
            "born": "2012-01-02",
            "at": "12:30:00",
            "smokes": "yes",
            "n": "010",
            "ok": True,
            "x": 1.5,
            "nothing": None,
        } == {name: value for name, value in found.items() if name not in ("id", "meta", "resourceType")}
        # Whoever reads it as YAML 1.1 gets the same texts.
        assert found == yaml.safe_load(client.get("/Patient/a", headers=YAML).text)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("content", "kind"),
        [
            ("{", "application/json"),
            ("[1]", "application/json"),
            ('{"a": NaN}', "application/json"),
            ("a: [", "text/yaml"),
            ("a: &x [1]\nb: *x\n", "text/yaml"),
            ("!!python/object:os.system {}", "text/yaml"),
            ("a: !!binary aGk=", "text/yaml"),
            ("a: !!timestamp 2012-01-02", "text/yaml"),
            ("a: !!set {x}", "text/yaml"),
            ("[" * 20_000, "text/yaml"),
            ("[" * 20_000, "application/json"),
        ],
    )
    def test_what_is_no_resource_is_refused(self, client, content, kind):
        answer = client.post("/Patient", content=content, headers={"Content-Type": kind})

        assert 400 == answer.status_code
        outcome = answer.json()
        assert ("OperationOutcome", "structure") == (outcome["resourceType"], outcome["issue"][0]["code"])


class TestResources:
    def test_one_is_made_read_replaced_patched_and_deleted(self, client):
        made = client.post("/Patient", json={"resourceType": "Patient", "id": "a", "n": 1})
        assert (201, 'W/"2"') == (made.status_code, made.headers["etag"])
        assert made.headers["location"].endswith("/Patient/a")
        assert "2" == made.json()["meta"]["versionId"]

        read = client.get("/Patient/a")
        assert made.json() == read.json()
        assert 304 == client.get("/Patient/a", headers={"If-None-Match": 'W/"2"'}).status_code
        assert 200 == client.put("/Patient/a", json={"n": 2}).status_code
        assert 3 == client.patch("/Patient/a", json={"m": 3}).json()["m"]
        assert 9 == client.patch("/Patient/a", json=[{"op": "replace", "path": "/n", "value": 9}]).json()["n"]
        gone = client.delete("/Patient/a")
        assert (200, 9, 3) == (gone.status_code, gone.json()["n"], gone.json()["m"])
        assert 410 == client.get("/Patient/a").status_code
        assert 404 == client.get("/Patient/b").status_code

    def test_a_write_can_depend_on_the_version(self, client):
        client.post("/Patient", json={"id": "a"})

        assert 412 == client.put("/Patient/a", json={"n": 1}, headers={"If-Match": 'W/"1"'}).status_code
        assert 200 == client.put("/Patient/a", json={"n": 1}, headers={"If-Match": 'W/"2"'}).status_code
        assert 412 == client.delete("/Patient/a", headers={"If-Match": '"2"'}).status_code
        assert 412 == client.patch("/Patient/a", json={}, headers={"If-Match": '"2"'}).status_code
        assert 412 == client.put("/Patient/a", json={}, headers={"If-None-Match": "*"}).status_code
        assert 412 == client.put("/Patient/b", json={}, headers={"If-Match": "1"}).status_code
        assert 201 == client.put("/Patient/b", json={}, headers={"If-None-Match": "*"}).status_code

    def test_of_two_that_write_at_the_same_version_one_wins(self, client, server):
        client.post("/Patient", json={"id": "a", "n": 0})
        statuses = []

        def write(n: int) -> None:
            with client_of(server) as own:
                statuses.append(own.put("/Patient/a", json={"n": n}, headers={"If-Match": "2"}).status_code)

        threads = [threading.Thread(target=write, args=(n,)) for n in range(1, 7)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)

        assert [200, 412, 412, 412, 412, 412] == sorted(statuses)

    def test_refusals_name_what_is_wrong(self, client):
        client.post("/Patient", json={"id": "a"})

        for method, path, body, status, sentence in (
            ("POST", "/Patient", {"id": "a"}, 409, "there is a Patient/a already"),
            ("POST", "/Patient", {"resourceType": "Device"}, 422, "the resource has the type Device"),
            ("PUT", "/Patient/a", {"id": "b"}, 422, "the resource has the id 'b'"),
            ("POST", "/patient", {}, 400, "begins with a capital letter"),
            ("POST", "/Patient", {"id": "a b"}, 422, "an id is a text of letters"),
            (
                "PATCH",
                "/Patient/a",
                [{"op": "test", "path": "/n", "value": 1}],
                422,
                "there is nothing at /n",
            ),
            ("PATCH", "/Patient/a", [{"op": "burn", "path": "/n"}], 400, "op is one of"),
            ("PATCH", "/Patient/a", 5, 400, "a patch is an object to merge"),
            ("GET", "/Nothing", None, 404, "there is no resource type Nothing"),
            ("GET", "/Patient?x=1", None, 400, "there is no parameter x"),
            ("GET", "/Patient/$changes?version=x", None, 400, "version is a number"),
            ("GET", "/Patient/a/b/c", None, 404, "there is nothing at /Patient/a/b/c"),
            ("DELETE", "/Patient", None, 405, "only GET, POST, HEAD here"),
            ("DELETE", "/Patient/b", None, 404, "there is no Patient/b"),
        ):
            answer = client.request(method, path, json=body)
            assert (path, status) == (path, answer.status_code)
            assert sentence in answer.json()["issue"][0]["diagnostics"]

    def test_search_pages_through_what_passes(self, client):
        for n in range(5):
            client.post("/Patient", json={"id": f"p{n}", "even": n % 2 == 0})

        page = client.get("/Patient?.even=true&_count=2").json()
        assert (3, ["p0", "p2"]) == (page["total"], [one["resource"]["id"] for one in page["entry"]])
        links = {link["relation"]: link["url"] for link in page["link"]}
        assert {"first", "self", "next", "last"} == set(links)
        assert ["p4"] == [one["resource"]["id"] for one in client.get(links["next"]).json()["entry"]]
        assert ["p1", "p3"] == [
            one["resource"]["id"] for one in client.get("/Patient?_id=p1,p3,p9").json()["entry"]
        ]
        assert "total" not in client.get("/Patient?_total=none").json()

    def test_a_count_of_0_counts(self, client):
        for n in range(5):
            client.post("/Patient", json={"id": f"p{n}"})

        found = client.get("/Patient?_count=0&_page=2").json()
        assert (5, []) == (found["total"], found["entry"])
        assert ["self"] == [link["relation"] for link in found["link"]]
        changes = client.get("/Patient/$changes?version=1&_count=0")
        assert (200, {"version": 1, "changes": [], "total": 5}) == (changes.status_code, changes.json())
        assert 304 == client.get("/Patient/$changes?version=6&_count=0").status_code
        stream = client.get("/Patient/$changes?version=1&_count=0", headers={"Accept": "text/event-stream"})
        assert (400, True) == (stream.status_code, "_count=0" in stream.text)
        assert 400 == client.get("/Patient?_count=10001").status_code


class TestBundles:
    def test_a_transaction_is_one_commit(self, client, db):
        bundle = {
            "resourceType": "Bundle",
            "type": "transaction",
            "entry": [
                {
                    "fullUrl": "urn:uuid:1",
                    "resource": {"n": 1},
                    "request": {"method": "POST", "url": "/Patient"},
                },
                {
                    "resource": {"subject": {"uri": "urn:uuid:1"}},
                    "request": {"method": "PUT", "url": "/Observation/o"},
                },
            ],
        }

        answer = client.post("/", json=bundle).json()

        patient, observation = (entry["resource"] for entry in answer["entry"])
        assert "transaction-response" == answer["type"]
        assert ["201", "201"] == [entry["response"]["status"] for entry in answer["entry"]]
        assert {"resourceType": "Patient", "id": patient["id"]} == observation["subject"]
        # One in which the table of patients was made, and this one.
        assert 2 == len({entry.commit for entry in db.log()})

    def test_or_nothing(self, client):
        client.post("/Patient", json={"id": "a"})
        entries = [
            {"resource": {"id": "b"}, "request": {"method": "POST", "url": "/Patient"}},
            {"resource": {"n": 2}, "request": {"method": "PUT", "url": "/Patient/a", "ifMatch": 'W/"1"'}},
        ]

        answer = client.post("/", json={"type": "transaction", "entry": entries})

        assert 412 == answer.status_code
        assert 404 == client.get("/Patient/b").status_code
        assert 304 == client.get("/Patient/$changes?version=2").status_code

    def test_in_a_batch_each_is_for_itself(self, client):
        entries = [
            {"resource": {"id": "b"}, "request": {"method": "POST", "url": "Patient"}},
            {"request": {"method": "DELETE", "url": "Patient/nobody"}},
            {"request": {"method": "GET", "url": "Patient/b"}},
            {"request": {"method": "GET", "url": "Patient?_id=b"}},
        ]

        answer = client.post("/", json={"type": "batch", "entry": entries}).json()

        assert ["201", "404", "200", "200"] == [entry["response"]["status"] for entry in answer["entry"]]
        assert "there is no Patient/nobody" in json.dumps(answer["entry"][1]["response"]["outcome"])

    @pytest.mark.parametrize(
        "bundle",
        [
            {"type": "searchset"},
            {"type": "batch", "entry": {}},
            {"type": "batch", "entry": [{}]},
            {"type": "batch", "entry": [{"request": {"method": "POST", "url": "/Patient/a"}}]},
            {"type": "batch", "entry": [{"request": {"method": "BURN", "url": "/Patient/a"}}]},
            {"type": "transaction", "entry": [{"request": {"method": "DELETE", "url": "/Patient/a"}}] * 2},
        ],
    )
    def test_what_is_none_is_refused(self, client, bundle):
        assert 400 == client.post("/", json=bundle).status_code


class TestChanges:
    def test_pages_have_links(self, client):
        for n in range(5):
            client.post("/Patient", json={"id": f"p{n}"})

        page = client.get("/Patient/$changes?version=1,6&_count=2&_total=accurate").json()
        assert (5, 3) == (page["total"], page["version"])
        ids = [one["resource"]["id"] for one in page["changes"]]
        while True:
            url = {link["relation"]: link["url"] for link in page["link"]}.get("next")
            if url is None:
                break
            page = client.get(url).json()
            ids += [one["resource"]["id"] for one in page["changes"]]
        assert [f"p{n}" for n in range(5)] == ids
        assert 6 == page["version"]

    def test_history_that_is_gone_is_410_and_names_the_oldest_version(self, client, db):
        for n in range(3):
            client.put("/Patient/a", json={"n": n})
        db.compact(keep=0)

        answer = client.get("/Patient/$changes?version=1")
        assert 410 == answer.status_code
        assert 304 == client.get(f"/Patient/$changes?version={answer.json()['oldest']}").status_code
        events = client.get("/Patient/$changes?version=1", headers={"Accept": "text/event-stream"})
        assert 410 == events.status_code

    def test_head_and_a_poll_that_finds_nothing_have_no_body(self, client):
        assert (200, b"") == ((answer := client.head("/Patient/$changes")).status_code, answer.content)
        assert (304, b"") == (
            (answer := client.get("/Patient/$changes?version=1")).status_code,
            answer.content,
        )


class TestWaiting:
    def ask(self, server: HTTPServer, path: str, found: list[httpx.Response]) -> threading.Thread:
        def get() -> None:
            with client_of(server) as own:
                found.append(own.get(path))

        thread = threading.Thread(target=get)
        thread.start()
        return thread

    def until_waiting(self, server: HTTPServer, count: int = 1) -> None:
        wait = threading.Event()
        for _ in range(60_000):
            if server.feed_count == count:
                return
            wait.wait(0.001)
        raise AssertionError("nobody waits")

    @pytest.mark.parametrize("path", ["/Patient/$changes", "/Patient/a/$changes"])
    def test_a_long_poll_is_answered_by_the_first_change(self, server, client, db, path):
        client.put("/Patient/a", json={"n": 0})
        found: list[httpx.Response] = []
        thread = self.ask(server, f"{path}?version=2&wait=50", found)
        self.until_waiting(server)
        client.put("/Patient/a", json={"n": 1})
        thread.join(PATIENCE_S)

        assert {"version": 3, "changes": [{"event": "updated", "resource": {"id": "a", "n": 1}}]} == found[
            0
        ].json()
        self.until_waiting(server, 0)

    @pytest.mark.slow
    def test_one_that_is_late_is_304(self, client):
        assert 304 == client.get("/Patient/$changes?version=1&wait=1").status_code

    def test_a_server_that_stops_answers_it(self, db):
        found: list[httpx.Response] = []
        with serve_in_thread(db, dialects=["aidbox"]) as server:
            thread = self.ask(server, "/Patient/$changes?version=1&wait=300", found)
            self.until_waiting(server)
        thread.join(PATIENCE_S)

        assert 304 == found[0].status_code

    def test_a_client_that_goes_away_leaves_nothing(self, server):
        with client_of(server) as own, pytest.raises(httpx.ReadTimeout):
            own.get("/Patient/$changes?version=1&wait=300", timeout=httpx.Timeout(PATIENCE_S, read=0.2))
        self.until_waiting(server, 0)

    def test_events_follow_and_go_on_where_a_client_was(self, server, client):
        client.post("/Patient", json={"id": "a"})

        first = self.events(server, {}, "/Patient/$changes?version=1", 1)
        assert [(2, ["a"])] == first
        client.post("/Patient", json={"id": "b"})
        client.post("/Patient", json={"id": "c"})
        assert [(4, ["b", "c"])] == self.events(server, {"Last-Event-ID": "2"}, "/Patient/$changes", 1)

    def test_events_begin_now_where_no_version_is_said(self, server, client):
        client.post("/Patient", json={"id": "before"})
        told: list[Any] = []
        thread = threading.Thread(target=lambda: told.extend(self.events(server, {}, "/Patient/$changes", 1)))
        thread.start()
        self.until_waiting(server)
        client.post("/Patient", json={"id": "after"})
        thread.join(PATIENCE_S)

        assert [(3, ["after"])] == told

    def test_a_head_of_events_has_no_body(self, client):
        answer = client.head("/Patient/$changes", headers={"Accept": "text/event-stream"})

        assert (200, b"") == (answer.status_code, answer.content)

    def test_one_that_waits_looks_only_when_something_has_changed(self):
        looks, wakes = [], []

        class Watched:
            def close(self) -> None:
                wakes.clear()

        def watch(wake: Any) -> Watched:
            wakes.append(wake)
            return Watched()

        async def run(function: Any, *arguments: Any) -> Any:
            return function(*arguments)

        def again() -> Answer | None:
            looks.append(len(looks))
            return Answer(200) if len(looks) == 3 else None

        async def ask() -> Answer:
            poll = LongPoll(Deferred(again, Answer(304), watch, 60.0), run)
            asking = asyncio.ensure_future(poll.answer())
            for count in (1, 2):
                for _ in range(20):
                    await asyncio.sleep(0)
                assert count == len(looks)
                wakes[0]()
            return await asking

        assert 200 == asyncio.run(ask()).status
        assert ([0, 1, 2], []) == (looks, wakes)

    def test_events_are_told_as_they_come(self, server, client):
        told: list[Any] = []
        thread = threading.Thread(
            target=lambda: told.extend(self.events(server, {}, "/Patient/$changes?.even=true", 2))
        )
        thread.start()
        self.until_waiting(server)
        for n in range(3):
            client.post("/Patient", json={"id": f"p{n}", "even": n % 2 == 0})
        thread.join(PATIENCE_S)

        assert ["p0", "p2"] == [id for _, ids in told for id in ids][:2]

    def test_a_type_that_goes_before_its_stream_begins_is_an_event(self, db, server, client, monkeypatch):
        """The status was sent by then."""
        client.post("/Patient", json={"id": "a"})
        watch = Aidbox.watch

        def drop_first(self: Aidbox, type: str, *arguments: Any) -> Any:
            db.table_drop(type)
            return watch(self, type, *arguments)

        monkeypatch.setattr(Aidbox, "watch", drop_first)
        stream = client.get("/Patient/$changes", headers={"Accept": "text/event-stream"})

        assert 200 == stream.status_code
        assert stream.text.startswith("event: error\ndata: {")
        assert "not-found" in stream.text

    def events(
        self, server: HTTPServer, headers: dict[str, str], path: str, count: int
    ) -> list[tuple[int, list[str]]]:
        """The first events with changes: (id, the ids of the resources), and as many changes at least."""
        found: list[tuple[int, list[str]]] = []
        with (
            client_of(server) as own,
            own.stream("GET", path, headers={"Accept": "text/event-stream", **headers}) as answer,
        ):
            assert answer.headers["content-type"].startswith("text/event-stream")
            id = 0
            for line in answer.iter_lines():
                if line.startswith("id: "):
                    id = int(line[4:])
                elif line.startswith("data: {"):
                    changes = json.loads(line[6:])["changes"]
                    found.append((id, [one["resource"]["id"] for one in changes]))
                    if sum(len(ids) for _, ids in found) >= count:
                        return found
        return found


class TestServing:
    def test_dialects_that_are_served_together_have_prefixes(self, db):
        with serve_in_thread(db, dialects=["couchdb", "aidbox"]) as server, client_of(server) as client:
            assert "Welcome" == client.get("/couchdb/").json()["couchdb"]
            made = client.post("/aidbox/Patient", json={"id": "a"})
            assert made.headers["location"].endswith("/aidbox/Patient/a")
            assert 1 == client.get("/couchdb/_all_dbs").status_code // 200
            assert {"version": 2} == client.get("/aidbox/Patient/$changes").json()

    def test_it_is_mounted_into_a_program(self, db):
        async def both() -> tuple[Any, Any]:
            program = Starlette(routes=[Mount("/box", app=aidbox(db))])
            made = await asked(program, "POST", "/box/Patient", headers=JSON, body=b'{"id": "a"}')
            return made, await asked(program, "GET", "/box/Patient?_count=1", headers={"Host": "example.org"})

        made, found = asyncio.run(both())
        assert 201 == made.status
        assert json.loads(found.body)["link"][0]["url"].startswith("http://example.org/box/Patient?")

    def test_a_server_that_only_reads_refuses_what_writes(self, db):
        with serve_in_thread(db, dialects=["aidbox"], read_only=True) as server, client_of(server) as client:
            assert 403 == client.post("/Patient", json={}).status_code
            assert "OperationOutcome" == client.post("/", json={}).json()["resourceType"]
            assert {"version": 1} == client.get("/Patient/$changes").json()

    def test_who_has_to_say_who_they_are_is_told_so(self, db):
        with serve_in_thread(db, dialects=["aidbox"], credentials=Credentials("ann", "secret")) as server:
            with client_of(server) as client:
                refused = client.get("/Patient/$changes")
                assert (401, "login") == (refused.status_code, refused.json()["issue"][0]["code"])
            with client_of(server, auth=("ann", "secret")) as client:
                assert 200 == client.get("/Patient/$changes").status_code

    def test_what_every_application_refuses_is_told_as_an_outcome(self, db):
        with (
            serve_in_thread(db, dialects=["aidbox"], limits=HTTPLimits(body_bytes=100)) as server,
            client_of(server) as client,
        ):
            large = client.post("/Patient", json={"note": "x" * 100})
            strange = client.get("/Patient/%ff")

        assert [413, 400] == [large.status_code, strange.status_code]
        assert ["processing", "processing"] == [one.json()["issue"][0]["code"] for one in (large, strange)]

    def test_a_dialect_that_there_is_not_is_refused(self, db):
        with pytest.raises(reactdb.InvalidOption, match="one of couchdb, aidbox"):
            HTTPServer(db, dialects=["oracle"])
