"""The short form of `python -m tests.fuzz`: the corpus, some generated inputs, and requests and messages over sockets.

It needs no Atheris. The seeds are fixed, so each run tries the same.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import bson
import pytest

from reactdb.servers import mongodb as mongodb_server
from reactdb.servers import rethinkdb as rethinkdb_server
from reactdb.servers.http import HTTPLimits, serve_in_thread
from reactdb.servers.limits import Limits
from reactdb.servers.users import Credentials
from tests.fuzz import http_requests, mongodb_messages, rethinkdb_messages
from tests.fuzz.generating import mutated
from tests.fuzz.in_place import QUERY_S
from tests.fuzz.target import CORPUS, Failure, Target, errors_logged, judge
from tests.fuzz.targets import FILES, find
from tests.servers.mongodb.wire import Wire, message
from tests.support.processes import ROOT
from tests.support.rethinkdb import Raw
from tests.support.rethinkdb_terms import games_database
from tests.support.threads import PATIENCE_S

KEPT = [(path.parent.name, path.name) for path in sorted(CORPUS.glob("*/*"))]


@pytest.mark.parametrize(("target", "name"), KEPT, ids=["-".join(one) for one in KEPT])
def test_an_input_of_the_corpus_gets_an_answer(target: str, name: str) -> None:
    judge(find(target), (CORPUS / target / name).read_bytes())


@pytest.mark.parametrize("name", FILES)
def test_generated_inputs_get_answers(name: str) -> None:
    target = find(name)
    for seed in range(30):
        judge(target, target.generate(Random(seed)))


@pytest.mark.parametrize("name", FILES)
def test_changed_inputs_of_the_corpus_get_answers(name: str) -> None:
    target = find(name)
    kept = [path.read_bytes() for path in target.corpus()]
    for seed in range(20):
        random = Random(seed)
        judge(target, mutated(random.choice(kept), random, target.words, kept))


def test_each_folder_of_the_corpus_is_a_target() -> None:
    assert {path.name for path in CORPUS.iterdir()} == set(FILES)


# ---------------------------------------------------------------------------------------------------------------
# What finds failures finds them


class TestJudge:
    def told(self, run: Any) -> str:
        with pytest.raises(Failure) as caught:
            judge(Target("x", run, lambda random: b""), b"")
        return str(caught.value)

    def test_a_foreign_exception_is_a_failure(self) -> None:
        assert self.told(lambda data: [][0]).startswith("IndexError: list index out of range\n")

    def test_an_error_of_ours_is_none(self) -> None:
        judge(find("json"), b"{")

    def test_a_logged_error_is_a_failure(self) -> None:
        import logging

        told = self.told(lambda data: logging.getLogger("reactdb.x").error("a request failed"))
        assert "logged as an error: a request failed" == told

    def test_a_run_that_does_not_end_is_a_failure(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tests.fuzz.target.MOST_CPU_S", 0.05)

        def run(data: bytes) -> None:
            while True:
                pass

        assert self.told(run).startswith("a run took more than 0.05 s of processor time\n")

    def test_an_answer_with_500_is_a_failure(self) -> None:
        sent = [{"status": 500, "headers": []}, {"body": b'{"error":"unknown_error"}'}]
        with pytest.raises(Failure, match="answered with 500"):
            http_requests.check(sent)

    def test_a_header_with_a_line_end_is_a_failure(self) -> None:
        with pytest.raises(Failure, match="a header that no server can send"):
            http_requests.check([{"status": 200, "headers": [(b"location", b"a\r\nb")]}, {"body": b""}])

    def test_an_error_of_mongodb_that_nobody_foresaw_is_a_failure(self) -> None:
        data = bson.encode({"ok": 0.0, "code": 1, "errmsg": "KeyError: 'x'"})
        with pytest.raises(Failure, match="nobody foresaw: KeyError"):
            mongodb_messages.check(struct.pack("<iiiiIB", 21 + len(data), 1, 7, 2013, 0, 0) + data)

    def test_an_error_of_rethinkdb_that_nobody_foresaw_is_a_failure(self) -> None:
        with pytest.raises(Failure, match="nobody foresaw"):
            rethinkdb_messages.check(b'{"t":18,"r":["KeyError: 1"],"b":[],"e":1000000}')


def test_every_route_of_the_tables_is_generated() -> None:
    made = b"".join(http_requests.HTTP.generate(Random(seed)) for seed in range(3_000)).decode("latin-1")
    asked = set(re.findall(r"([A-Z]+) /(?:couchdb|aidbox)([^? ]*)[? ]", made))
    missing = {*http_requests.couch_routes(), *http_requests.aidbox_routes()} - asked
    assert set() == missing


def test_the_command_keeps_an_input_that_fails(tmp_path: Path) -> None:
    """In a process whose target is broken on purpose, and without Atheris."""
    program = (
        "import sys\n"
        "from tests.fuzz import campaign, texts\n"
        "def run(data): raise KeyError(data[:1])\n"
        "object.__setattr__(texts.URLS, 'run', run)\n"
        "campaign.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "urls", "0.01", "1", str(tmp_path), "--plain"],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    kept = [path for path in tmp_path.iterdir() if path.name.startswith("urls-")]
    assert (1, 1) == (done.returncode, len(kept))
    assert f"the input is in {kept[0]}" in done.stdout


# ---------------------------------------------------------------------------------------------------------------
# Over sockets


def test_requests_over_a_socket_get_answers() -> None:
    """Each on a connection of its own: the server answers, closes, and logs nothing."""
    random = Random(5)
    kept = [path.read_bytes() for path in http_requests.HTTP.corpus()]
    limits = HTTPLimits(request_s=QUERY_S)
    with (
        http_requests.games() as db,
        serve_in_thread(db, dialects=("couchdb", "aidbox"), limits=limits, port=0) as server,
        errors_logged() as records,
    ):
        for data in [*kept, *(http_requests.HTTP.generate(random) for _ in range(60))]:
            for method, target, headers, body in http_requests.requests_in(data):
                if re.search(
                    rb"continuous|eventsource|longpoll|event-stream", target + repr(headers).encode()
                ):
                    # An answer that has no end, or waits.
                    continue
                given = {name.decode(): value.decode("latin-1") for name, value in headers}
                if given.get("content-length", "").isdecimal() and len(given["content-length"]) < 10:
                    # The server would wait for a body that is shorter than that.
                    given["content-length"] = str(len(body))
                request = http_requests.request_of(
                    method, target.decode("latin-1"), body, {**given, "connection": "close"}
                )
                status = answered(server.port, request)
                assert status not in (None, 500), request
    assert [] == [record.getMessage() for record in records]


def answered(port: int, request: bytes) -> int | None:
    """The status of the answer; None where the server has closed the connection without one."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(request)
        head = connection.recv(65_536)
        while head and b" " not in head[9:]:
            head += connection.recv(65_536)
    return int(head.split(b" ")[1]) if head else None


def test_messages_of_mongodb_over_a_socket_get_answers() -> None:
    """All on one connection, which has to stay: what cannot be read is told."""
    random = Random(5)
    bodies = [mongodb_messages.body_of(random) for _ in range(80)]
    kept = [path.read_bytes() for path in mongodb_messages.MONGODB.corpus() if "get_more" not in path.name]
    limits = Limits(query_s=QUERY_S)
    with (
        mongodb_messages.games() as db,
        mongodb_server.serve_in_thread(db, limits=limits) as server,
        errors_logged() as records,
        Wire(server.port) as wire,
    ):
        for data in [*kept, *map(_message, bodies)]:
            wire.send(data)
            for _ in range(_count(data)):
                _, reply = wire.receive()
                assert 1 != reply.get("code"), reply
        assert 1.0 == wire.ask({"ping": 1})["ok"]
    assert [] == [record.getMessage() for record in records]


def _count(data: bytes) -> int:
    """How many messages these are."""
    count = 0
    while data:
        data, count = data[int.from_bytes(data[:4], "little") :], count + 1
    return count


def _message(body: dict[str, Any]) -> bytes:
    # A getMore may wait, and is not answered then.
    is_answered = isinstance(body, dict) and next(iter(body), "") != "getMore"
    return message(body if is_answered else {"ping": 1, "$db": "test"})


def test_queries_of_rethinkdb_over_a_socket_get_answers() -> None:
    random = Random(5)
    queries = [path.read_bytes().split(b"\n")[0] for path in rethinkdb_messages.RETHINKDB.corpus()]
    queries += [rethinkdb_messages.RETHINKDB.generate(random).split(b"\n")[0] for _ in range(80)]
    with (
        games_database() as db,
        rethinkdb_server.serve_in_thread(
            db, port=0, credentials=Credentials("admin", ""), limits=Limits(query_s=QUERY_S)
        ) as server,
        errors_logged() as records,
        Raw((server.host, server.port)) as connection,
    ):
        connection.shake_hands()
        for token, body in enumerate([*queries, b"[1,1]"], 1):
            connection.frame(token, body)
            if b'"noreply"' in body:
                continue
            answered, reply = connection.response()
            rethinkdb_messages.check(json.dumps(reply).encode())
            assert token == answered
    assert [] == [record.getMessage() for record in records]
