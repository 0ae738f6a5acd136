"""What CouchDB's own replicator asked of CouchDB 3.5.0, asked again here, as the source and as the target of a replication.

The documents have the recorded revisions, because a replicator's writes bring theirs. Seqs are matched as in `matching`. What is
different on purpose: an attachment is kept as it came, and not compressed.
"""

from __future__ import annotations

import gzip
import re
import threading
from collections.abc import Iterator
from email import message_from_bytes
from email.policy import HTTP
from typing import Any

import httpx
import pytest

import reactdb
from reactdb.servers.http import serve_in_thread
from reactdb.servers.users import Credentials
from tests.conftest import ACCEPTANCE
from tests.servers.http.matching import Matches, differences, values
from tests.servers.http.recorded import Exchange, replication

RECORDED = ACCEPTANCE / "couchdb" / "couchdb-replicator-3.5.0"
pytestmark = pytest.mark.skipif(
    not RECORDED.exists(), reason="the recorded replications are not beside the project"
)
PATIENCE_S = 60.0

ROOT = "967a00dff5e02add41819138abb3284d"
ONE, TWO = "7a7e4b29f3af401e69b6f86e4c26b727", "d0df861eb528e79690cd2ff3c4d394f3"
ATTACHMENT = {"content_type": "text/plain", "revpos": 1, "data": "aGVsbG8="}
DOCUMENTS: list[dict[str, Any]] = [
    {"_id": "_design/dd", "views": {}, "_revisions": [1, "0b24e44a44af45e51e562fd124ce3007"]},
    {"_id": "a", "v": 1, "_revisions": [1, ONE]},
    {"_id": "b", "v": 1, "_revisions": [1, ONE]},
    {"_id": "gone", "_revisions": [1, ROOT]},
    {"_id": "gone", "_deleted": True, "_revisions": [2, "eec205a9d413992850a6e32678485900", ROOT]},
    {"_id": "k", "_revisions": [2, "b", "r"]},
    {"_id": "k", "_revisions": [2, "a", "r"]},
    {
        "_id": "att",
        "_attachments": {"f.txt": ATTACHMENT},
        "_revisions": [1, "a5d537a11533f4f796be61f51d2d5110"],
    },
]
EDIT = {"_id": "a", "v": 2, "_revisions": [2, TWO, ONE]}
LATER = {"_id": "w1", "_revisions": [1, ROOT]}

# What a server says of itself, and how attachments are kept: not compared.
OWN = re.compile(
    r"(instance_start_time|purge_seq|sizes\..*|(.*\.)?_attachments\.f\.txt\.(digest|encoding|encoded_length))"
)


class Replicator(Matches):
    """Asks what was recorded, signed in as the replicator was."""

    def __init__(self, client: httpx.Client, url: str) -> None:
        super().__init__({})
        self.client = client
        self.url = url

    def write(self, database: str, *documents: dict[str, Any]) -> None:
        told = []
        for document in documents:
            start, *ids = document["_revisions"]
            told.append({**document, "_revisions": {"start": start, "ids": ids}, "_rev": f"{start}-{ids[0]}"})
        answer = self.client.post(
            f"{self.url}/{database}/_bulk_docs", json={"docs": told, "new_edits": False}
        )
        assert [] == answer.json()

    def differences(self, exchange: Exchange) -> dict[str, Any]:
        answer = self.ask(exchange)
        kind = answer.headers["content-type"].partition(";")[0]
        recorded = values_of(exchange.answer_headers["content-type"], exchange.answer.encode())
        here = values_of(answer.headers["content-type"], answer.content)
        found = {} if answer.status_code == exchange.status else {"status": answer.status_code}
        if kind != exchange.answer_headers["content-type"].partition(";")[0]:
            found["content-type"] = kind
        found |= {
            name: answer.headers.get(name)
            for name in ("etag", "location")
            if (name in exchange.answer_headers) is not (name in answer.headers)
        }
        unlike = differences(self.match(recorded, here), here, "answer")
        return found | {path: value for path, value in unlike.items() if not OWN.fullmatch(path[10:])}

    def ask(self, exchange: Exchange) -> httpx.Response:
        url = self.url + self.translated(exchange.path)
        if exchange.path == "/_session":
            return self.client.post(url, data={"name": "adm", "password": "secret"})
        body = None if exchange.body is None else self.translated(exchange.body).encode()
        if body is not None and "multipart" in exchange.headers["content-type"]:
            # Bytes that are no text were not recorded.
            body = re.sub(
                rb"(gzip\r\n\r\n).*(\r\n--)", rb"\1%b\2" % gzip.compress(b"hello", mtime=0), body, flags=re.S
            )
        return self.client.request(exchange.method, url, headers=exchange.headers, content=body)


def values_of(content_type: str, body: bytes) -> list[Any]:
    """The JSON of an answer; of one in parts, that of each, and the headers of attachments."""
    if not content_type.startswith("multipart/"):
        return values(body.decode())
    whole = message_from_bytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body, policy=HTTP)
    found: list[Any] = []
    for part in whole.walk():
        if part.get_content_type() == "application/json":
            found += values(part.get_payload(decode=True).decode())
        elif not part.is_multipart():
            found.append([part.get_content_type(), part["Content-Disposition"]])
    return found


@pytest.fixture
def replicator() -> Iterator[Replicator]:
    credentials = Credentials("adm", "secret")
    with (
        reactdb.connect(":memory:") as db,
        serve_in_thread(db, credentials=credentials) as server,
        httpx.Client(timeout=PATIENCE_S, verify=False) as client,
    ):
        made = Replicator(client, f"http://127.0.0.1:{server.port}")
        client.post(f"{made.url}/_session", data={"name": "adm", "password": "secret"}).raise_for_status()
        yield made


def wrong(
    replicator: Replicator, exchanges: list[Exchange], database: str, *, is_source: bool
) -> list[tuple[str, Any]]:
    """What is answered in another way."""
    found = []
    sessions = 0
    for number, exchange in enumerate(exchanges, 1):
        sessions += exchange.path == "/_session"
        if sessions == 2 and exchange.path == "/_session" and is_source:
            # The second time, one document has changed.
            replicator.write(database, EDIT)
        unlike = replicator.differences(exchange)
        if unlike:
            found.append((f"#{number} {exchange.title}", unlike))
    return found


def test_it_can_pull_from_here(replicator: Replicator) -> None:
    exchanges = replication(RECORDED / "pull-from-reactdb.txt")
    database = exchanges[1].path.strip("/")
    replicator.client.put(f"{replicator.url}/{database}").raise_for_status()
    replicator.write(database, *DOCUMENTS)

    assert 27 == len(exchanges)
    assert [] == wrong(replicator, exchanges, database, is_source=True)


def test_it_can_push_to_here(replicator: Replicator) -> None:
    exchanges = replication(RECORDED / "push-to-reactdb.txt")
    database = exchanges[1].path.strip("/")
    replicator.client.put(f"{replicator.url}/{database}").raise_for_status()

    assert 28 == len(exchanges)
    assert [] == wrong(replicator, exchanges, database, is_source=False)
    url = f"{replicator.url}/{database}"
    assert b"hello" == replicator.client.get(f"{url}/att/f.txt").content
    assert 2 == replicator.client.get(f"{url}/a").json()["v"]
    assert ["2-a"] == replicator.client.get(f"{url}/k", params={"conflicts": "true"}).json()["_conflicts"]
    assert 404 == replicator.client.get(f"{url}/gone").status_code


def test_it_can_pull_from_here_continuously(replicator: Replicator) -> None:
    exchanges = replication(RECORDED / "pull-continuous.txt")
    database = exchanges[1].path.strip("/")
    replicator.client.put(f"{replicator.url}/{database}").raise_for_status()
    replicator.write(database, *DOCUMENTS)
    (feed,) = [exchange for exchange in exchanges if "/_changes" in exchange.path]
    # What it asked right after it began to listen was before the write.
    place = exchanges.index(feed)
    before, rest = [*exchanges[:place], exchanges[place + 1]], exchanges[place + 2 :]

    assert [] == wrong(replicator, before, database, is_source=False)
    recorded = values(feed.answer.partition("(client aborted")[0])
    here: list[Any] = []
    writer = threading.Thread(target=replicator.write, args=(database, LATER))
    with replicator.client.stream("GET", replicator.url + feed.path) as answer:
        for line in answer.iter_lines():
            here += values(line)
            if len(here) == len(recorded) - 1 and not writer.ident:
                writer.start()
            if len(here) == len(recorded):
                break
    writer.join()
    assert {} == differences(replicator.match(recorded, here), here)
    assert [] == wrong(replicator, rest, database, is_source=False)
