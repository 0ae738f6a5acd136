"""What was recorded of CouchDB 3.5.0, asked again here: the same statuses, content types and JSON.

Revisions, seqs and made ids are other ones here. Each that is seen for the first time is matched with the one that stood at the
same place in the recording, and from then on they must go together. So a test of an exchange is a test of all before it, too.
What is different on purpose is in `DEVIATIONS`, with the answer that there is instead.
"""

from __future__ import annotations

import base64
import itertools
import re
import threading
import time
from typing import Any
from uuid import UUID

import httpx
import pytest

import reactdb
from reactdb.dialects.couchdb import database
from reactdb.servers.http import serve_in_thread
from tests.conftest import ACCEPTANCE
from tests.servers.http.matching import MADE, OWN_SEQ, Like, Matches, differences, values
from tests.servers.http.recorded import Exchange, conversation

WIRE = ACCEPTANCE / "couchdb" / "wire-couchdb-3.5.0.txt"
pytestmark = [
    pytest.mark.skipif(not WIRE.exists(), reason="the recorded conversations are not beside the project"),
    pytest.mark.slow,
]

# Nothing that is waited for takes longer, even on a busy machine.
PATIENCE_S = 60.0

FIRST_REV_OF_ALPHA = "1-f5cfa3077faec62918197b00c697e8cd"
DESIGN = {
    "_id": "_design/d",
    "filters": {
        "typex": "function(doc, req) { return doc.type === 'x'; }",
        "byq": "function(doc, req) { return doc.type === req.query.t; }",
        "boom": "function(doc, req) { throw({forbidden: 'nope'}); }",
        "refboom": "function(doc, req) { return doc.a.b.c; }",
    },
    "views": {"v": {"map": "function(doc) { if (doc.type === 'y') emit(doc._id, null); }"}},
}
LEAVES = {
    "w1": [("1-b", False), ("1-a", False)],
    "w2": [("2-a", False), ("1-z", False)],
    "w3": [("3-z", True), ("1-a", False)],
    "w4": [("2-b", True), ("3-a", True)],
    "w5": [("10-a", False), ("9-z", False)],
    "w6": [("1-9", False), ("1-a", False), ("1-A", False)],
    "w7": [("1-aa", False), ("1-b", False)],
}
# What is written while a feed waits.
MEANWHILE = {
    "since=now then a write at 500 ms (raw)": [("put", "lp1")],
    "since=now, heartbeat=300, write at 1000 ms (raw)": [("put", "lp2")],
    "filter rejects the write: keeps waiting until timeout (raw)": [("put", "lp3")],
    "two writes in quick succession (raw)": [("bulk", "lp4", "lp5")],
    "limit=0 longpoll since=now + write (raw)": [("put", "lp6")],
    "heartbeat=300, writes at 500 and 900 (raw)": [("put", "ct1"), ("put", "ct2")],
    "limit=2 then writes (raw)": [("put", "ct3"), ("put", "ct4"), ("put", "ct5")],
    "include_docs, one update + one delete (raw)": [("put", "ct6"), ("delete", "ct6")],
    "history then heartbeat=400, write at 600 (raw)": [("put", "es1")],
    "database deleted under an open continuous feed (raw)": [("drop", "pr40961x")],
}


class Replay(Matches):
    """The server that is asked, and what of the recording stands for what here."""

    def __init__(self, client: httpx.Client, url: str) -> None:
        # Attachments are not compressed, so their digests are other ones.
        super().__init__({"md5-EGZM0DR7tfylLvvZCXP1ug==": "md5-ZnptFLLcFU/qw2LdrU1MqA=="})
        self.client = client
        self.url = url

    def make(self) -> None:
        """What was there before the recording began."""
        db = f"{self.url}/pr40961"
        assert 201 == self.client.put(db).status_code
        put = self._put
        rev = put("alpha", {"type": "x", "n": 1})
        self.here[FIRST_REV_OF_ALPHA] = rev
        put("beta", {"type": "y", "n": 2})
        put("alpha", {"_rev": rev, "type": "x", "n": 3})
        rev = put("gamma", {"type": "x", "n": 4})
        self.client.delete(f"{db}/gamma", params={"rev": rev}).raise_for_status()
        self.graft(
            {"_id": "conf", "w": "a", "_revisions": {"start": 2, "ids": ["aaa", "root"]}},
            {"_id": "conf", "w": "b", "_revisions": {"start": 2, "ids": ["bbb", "root"]}},
            {"_id": "conf", "_deleted": True, "_revisions": {"start": 3, "ids": ["ccc", "aac", "root"]}},
        )
        put("_design/d", {name: value for name, value in DESIGN.items() if name != "_id"})
        data = base64.b64encode(b"hello hello hello").decode()
        put("att", {"_attachments": {"a.txt": {"content_type": "text/plain", "data": data}}})

    def _put(self, id: str, document: dict[str, Any]) -> str:
        answer = self.client.put(f"{self.url}/pr40961/{id}", json=document)
        assert 201 == answer.status_code, answer.text
        return str(answer.json()["rev"])

    def graft(self, *documents: dict[str, Any]) -> None:
        for document in documents:
            path = document["_revisions"]
            document["_rev"] = f"{path['start']}-{path['ids'][0]}"
        body = {"docs": list(documents), "new_edits": False}
        answer = self.client.post(f"{self.url}/pr40961/_bulk_docs", json=body)
        assert [] == answer.json()

    def leaf(self, id: str, rev: str, deleted: bool) -> None:
        start, _, hash = rev.partition("-")
        ids = [hash, *(f"{hash}{place}" for place in range(int(start) - 1, 0, -1))]
        document = {"_id": id, "from": rev, "_revisions": {"start": int(start), "ids": ids}}
        self.graft({**document, "_deleted": True} if deleted else document)

    def before(self, exchange: Exchange) -> None:
        """What was done without being recorded."""
        if exchange.title.startswith("database deleted"):
            self.client.put(f"{self.url}/pr40961x")
            self.client.put(f"{self.url}/pr40961x/a", json={})
        if exchange.title == "GET it by rev":
            self.client.put(f"{self.url}/pr40961/d3", json={"_deleted": True}).raise_for_status()
        if exchange.title == "same id twice in one request":
            # See the deviation of "mix of ok and conflict".
            self._put("nosuch9", {})
        match = re.match(r"(w\d) .*: leaves", exchange.title)
        if match is not None:
            for rev, deleted in LEAVES[match[1]]:
                self.leaf(match[1], rev, deleted)
        if exchange.title.startswith("w1: after") or exchange.title.startswith("w1: same"):
            self.leaf("w1", "1-0", False)

    def meanwhile(self, step: tuple[str, ...]) -> None:
        db = f"{self.url}/pr40961"
        if step[0] == "put":
            self.client.put(f"{db}/{step[1]}", json={"k": 1}).raise_for_status()
        elif step[0] == "delete":
            rev = self.client.get(f"{db}/{step[1]}").json()["_rev"]
            self.client.delete(f"{db}/{step[1]}", params={"rev": rev}).raise_for_status()
        elif step[0] == "bulk":
            self.client.post(f"{db}/_bulk_docs", json={"docs": [{"_id": id} for id in step[1:]]})
        else:
            self.client.delete(f"{self.url}/{step[1]}").raise_for_status()

    def ask(self, exchange: Exchange) -> tuple[int, httpx.Headers, str]:
        headers = {name: self.translated(value) for name, value in exchange.headers.items()}
        content = None if exchange.body is None else self.translated(exchange.body).encode()
        if content is not None and "content-type" not in headers:
            headers["content-type"] = "application/json"
        if headers.get("content-type") == "None":
            del headers["content-type"]
        steps = list(MEANWHILE.get(exchange.title, []))
        # Short waits are seen, too. Where something is written meanwhile, a slow machine must have the time for it.
        waits = {"timeout": 4_000 if steps else 120, "heartbeat": 80}
        path = re.sub(
            r"(timeout|heartbeat)=\d{3,4}\b", lambda match: f"{match[1]}={waits[match[1]]}", exchange.path
        )
        url = self.url + self.translated(path)
        # A feed that has all its rows is about to end: what is written then may be in its last line or not.
        most_rows = re.search(r"\blimit=([1-9]\d*)", path)
        writers, given = [], len(steps)
        end = time.monotonic() + PATIENCE_S
        with self.client.stream(exchange.method, url, headers=headers, content=content) as answer:
            parts = []
            most = exchange.answer.count("\n") if exchange.has_times else 10**9
            for part in answer.iter_raw():
                parts.append(part)
                assert time.monotonic() < end, "it has told less than was recorded"
                # A part may end inside of a character.
                text = b"".join(parts).decode(errors="ignore")
                # The next write comes when what the one before has led to was told.
                told = text.count('"seq"')
                is_over = most_rows and told >= int(most_rows[1])
                is_due = told >= given - len(steps) or "H" == exchange.section
                if steps and is_due and not is_over:
                    writers.append(threading.Thread(target=self.meanwhile, args=(steps.pop(0),)))
                    writers[-1].start()
                is_told = told >= exchange.answer.count('"seq"') and len(text.split("\n")) > most + 3
                if exchange.has_times and "heartbeat" in path and is_told:
                    # It would go on for ever.
                    break
        for writer in writers:
            writer.join()
        for step in steps:
            # The feed has ended before.
            self.meanwhile(step)
        return answer.status_code, answer.headers, b"".join(parts).decode()


BEGINNING = {"instance_start_time": Like(r"\d+")}
INFO = {
    "purge_seq": "0",
    "sizes.file": Like(r"\d+"),
    "sizes.external": Like(r"\d+"),
    "sizes.active": Like(r"\d+"),
}


def refused(reason: str) -> dict[str, Any]:
    """A mistake to which CouchDB says 500, or nothing at all."""
    return {"status": 400, "error": "bad_request", "reason": reason, "ref": None}


# Title -> what is different here, by its path in the JSON. Nothing else may be.
DEVIATIONS: dict[str, dict[str, Any]] = {
    "server root": {
        "git_sha": "",
        "uuid": Like(r"[0-9a-f]{32}"),
        "features": [],
        "vendor.name": "reactdb",
        "vendor.version": reactdb.__version__,
    },
    "db info": {**BEGINNING, **INFO},
    "db info trailing slash": {**BEGINNING, **INFO},
    "_ensure_full_commit": BEGINNING,
    # Mistakes that CouchDB tells as its own.
    "limit=abc": refused("The limit parameter should be a non-negative integer"),
    "style=bogus": refused("The style parameter should be main_only or all_docs"),
    "timeout=abc, feed=longpoll since=now": refused("The timeout parameter should be a non-negative integer"),
    "timeout=abc on normal feed": refused("The timeout parameter should be a non-negative integer"),
    "timeout=-1, feed=longpoll since=now": {
        "status": 400,
        "content-type": "application/json",
        "": [{"error": "bad_request", "reason": "The timeout value should be a non-negative integer"}],
    },
    "_view malformed": refused("`view` must be of the form `designname/viewname`"),
    "bad: not lists": refused("The revisions of `alpha` must be an array"),
    "ddoc filter throwing forbidden": {"reason": 'The filter d/boom failed: {"forbidden":"nope"}'},
    "ddoc filter ReferenceError/TypeError": {
        "reason": "The filter d/refboom failed: TypeError: cannot read property 'b' of undefined"
    },
    # Attachments are kept as they are given, and not compressed.
    "include_docs + att_encoding_info": {
        "results[0].doc._attachments.a.txt.encoding": None,
        "results[0].doc._attachments.a.txt.encoded_length": None,
    },
    "attachment GET": {"accept-ranges": "bytes"},
    "GET ?local_seq=true": {"_local_seq": Like(OWN_SEQ.pattern)},
    # The winner is always first.
    "GET conf ?open_revs=all": {
        "[0].ok._rev": "2-bbb",
        "[0].ok.w": "b",
        "[1].ok._rev": "2-aaa",
        "[1].ok.w": "a",
    },
    "GET conf ?open_revs=all&revs=true": {
        "[0].ok._rev": "2-bbb",
        "[0].ok.w": "b",
        "[0].ok._revisions.ids[0]": "bbb",
        "[1].ok._rev": "2-aaa",
        "[1].ok.w": "a",
        "[1].ok._revisions.ids[0]": "aaa",
    },
    "GET conf ?open_revs=all multipart/mixed": {
        "[2]._rev": "2-bbb",
        "[2].w": "b",
        "[5]._rev": "2-aaa",
        "[5].w": "a",
    },
    "id only of a conflicted doc": {
        "results[0].docs[0].ok._rev": "2-bbb",
        "results[0].docs[0].ok.w": "b",
        "results[0].docs[1].ok._rev": "2-aaa",
        "results[0].docs[1].ok._deleted": None,
        "results[0].docs[1].ok.w": "a",
        "results[0].docs[2].ok._rev": "3-ccc",
        "results[0].docs[2].ok._deleted": True,
        "results[0].docs[2].ok.w": None,
    },
    # The leaf that descends from it, as PouchDB's own tests want it, and not the winner.
    "GET conf ?rev=2-aaa&latest=true": {"_rev": "2-aaa", "w": "a"},
    # A revision that nobody has made is a conflict, however many documents come with it.
    "mix of ok and conflict": {
        "[2].ok": None,
        "[2].rev": None,
        "[2].error": "conflict",
        "[2].reason": "Document update conflict.",
    },
    "_session": {"userCtx.name": None, "info.authenticated": None},
    "_find": {"bookmark": Like(r"[A-Za-z0-9_=-]+")},
    "_all_dbs": {"": ["pr40961"]},
}


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch) -> Any:
    # Ids that are made are in the places among others where the recorded ones were.
    ids = (UUID(int=0xBDE511C867151BAF65A0719977000000 + number).hex for number in itertools.count())
    monkeypatch.setattr(database, "new_ids", lambda: ids)
    with (
        reactdb.connect(":memory:") as db,
        serve_in_thread(db) as server,
        httpx.Client(timeout=PATIENCE_S, verify=False) as client,
    ):
        made = Replay(client, f"http://127.0.0.1:{server.port}")
        made.make()
        yield made


EXCHANGES = conversation(WIRE) if WIRE.exists() else []


def test_what_couchdb_was_asked_is_answered_the_same(replay: Replay) -> None:
    wrong = []
    seen = set()
    for exchange in EXCHANGES:
        replay.before(exchange)
        found = compared(replay, exchange)
        expected = DEVIATIONS.get(exchange.title, {})
        if found:
            seen.add(exchange.title)
        if expected != found:
            wrong.append(f"{exchange.section} {exchange.title}: {found}")

    assert [] == wrong, "\n".join(wrong)
    assert set(DEVIATIONS) == seen


def compared(replay: Replay, exchange: Exchange) -> dict[str, Any]:
    """What is different, by its path."""
    status, headers, text = replay.ask(exchange)
    found: dict[str, Any] = {} if status == exchange.status else {"status": status}
    kind = headers.get("content-type", "").partition(";")[0]
    if exchange.answer_headers.get("content-type", "").partition(";")[0] != kind:
        found["content-type"] = kind
    for name in ("etag", "location", "allow", "accept-ranges"):
        recorded = exchange.answer_headers.get(name)
        if (recorded is None) != (name not in headers) or (
            name in ("allow", "accept-ranges") and recorded != headers.get(name)
        ):
            found[name] = headers.get(name)
    for name, pattern in (("etag", r"(.*)"), ("content-type", r'.*boundary="(.*)"')):
        pair = [re.fullmatch(pattern, one.get(name, "")) for one in (exchange.answer_headers, headers)]
        if pair[0] is not None and pair[1] is not None and MADE.fullmatch(pair[0][1].strip('"')):
            replay.here[pair[0][1].strip('"')] = pair[1][1].strip('"')
    recorded_values, values_here = values(replay.translated(exchange.answer)), values(text)
    expected = replay.match(recorded_values, values_here)
    if len(expected) == len(values_here) == 1:
        return found | differences(expected[0], values_here[0])
    return found | differences(expected, values_here)
