"""IBM's clients, the real ones, in Node: `couchbackup` and the Cloudant SDK, which compress what they send."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import reactdb
from reactdb.servers.http import serve_in_thread
from tests.servers.http.pouch import FOLDER, PATIENCE_S, needs_pouchdb

pytestmark = [
    *needs_pouchdb,
    pytest.mark.skipif(
        not (FOLDER / "node_modules" / "@cloudant" / "couchbackup").exists(),
        reason="couchbackup is missing: run `npm ci` in tests/pouchdb",
    ),
]


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with reactdb.connect(":memory:") as db, serve_in_thread(db) as server:
        url = f"http://127.0.0.1:{server.port}"
        with httpx.Client(base_url=url, timeout=PATIENCE_S, verify=False) as made:
            yield made


def run(command: list[str], given: bytes = b"") -> bytes:
    """What a program of the packages writes."""
    done = subprocess.run(
        command, cwd=FOLDER, input=given, capture_output=True, timeout=2 * PATIENCE_S, check=False
    )
    assert 0 == done.returncode, done.stderr.decode()
    return done.stdout


def leaves(client: httpx.Client, name: str) -> dict[str, Any]:
    """Every leaf of every document, with its revisions and the bytes of its attachments."""
    rows = client.get(f"/{name}/_changes?style=all_docs").json()["results"]
    asked = {"docs": [{"id": row["id"]} for row in rows]}
    found = client.post(f"/{name}/_bulk_get?revs=true&attachments=true", json=asked).json()["results"]
    return {one["id"]: sorted(json.dumps(leaf, sort_keys=True) for leaf in one["docs"]) for one in found}


def fill(client: httpx.Client) -> None:
    client.put("/todo").raise_for_status()
    # Only ASCII: couchrestore 2.11.12 spoils a letter of several bytes where a piece of its input ends.
    documents = [{"_id": f"d{number:03}", "number": number, "text": "x" * number} for number in range(600)]
    revs = [row["rev"] for row in client.post("/todo/_bulk_docs", json={"docs": documents}).json()]
    client.delete("/todo/d001", params={"rev": revs[1]}).raise_for_status()
    client.put("/todo/d002", json={"_rev": revs[2], "changed": True}).raise_for_status()
    branches = [{"_id": "torn", "_rev": rev, "of": rev} for rev in ("1-a", "1-b")]
    client.post("/todo/_bulk_docs", json={"docs": branches, "new_edits": False}).raise_for_status()
    client.put(
        "/todo/_design/d", json={"views": {"v": {"map": "function(d) { emit(d._id) }"}}}
    ).raise_for_status()


@pytest.mark.parametrize("attachments", [False, True])
def test_a_backup_restored_is_an_equal_database(client: httpx.Client, attachments: bool) -> None:
    """Documents, deletions, conflicts, revisions and, where it is asked to, attachments."""
    fill(client)
    if attachments:
        client.put("/todo/file/a.txt", content=b"hello " * 1_000).raise_for_status()
    client.put("/copy").raise_for_status()
    bin = "node_modules/@cloudant/couchbackup/bin"
    options = ["--url", str(client.base_url).rstrip("/"), *(["--attachments"] if attachments else [])]
    backup = run(["node", f"{bin}/couchbackup.bin.js", "--db", "todo", *options])
    run(["node", f"{bin}/couchrestore.bin.js", "--db", "copy", *options], backup)

    expected = leaves(client, "todo")
    assert 602 + attachments == len(expected)
    assert expected == leaves(client, "copy")


def test_the_sdk_reads_what_it_has_written(client: httpx.Client) -> None:
    program = """
        const { CloudantV1 } = require("@ibm-cloud/cloudant"), { NoAuthAuthenticator } = require("ibm-cloud-sdk-core");
        const service = new CloudantV1({authenticator: new NoAuthAuthenticator()}), db = "todo", docId = "a";
        service.setServiceUrl(process.argv[1].replace(/[/]$/, ""));
        (async () => {
          await service.putDatabase({db});
          await service.putDocument({db, docId, document: {text: "ä".repeat(5000)}});
          await service.postBulkDocs({db, bulkDocs: {docs: [{_id: "b"}, {_id: "c"}]}});
          await service.putAttachment({db, docId: "d", attachmentName: "f", contentType: "text/plain",
                                       attachment: Buffer.from("hello ".repeat(500))});
          const found = [(await service.getDocument({db, docId})).result.text.length];
          const {results} = (await service.postAllDocsQueries({db, queries: [{keys: ["b"]}, {limit: 1, skip: 2}]})).result;
          found.push(results.map(({rows}) => rows.map(row => row.id)));
          found.push((await service.postDbsInfo({keys: [db]})).result[0].info.docCount);
          found.push((await service.getMembershipInformation()).result.allNodes.length);
          const refused = await service.putDocument({db: "_users", docId: "org.couchdb.user:bob", document: {password: "pw"}})
            .catch(error => error);
          found.push(refused.code);
          console.log(JSON.stringify(found));
        })().catch(error => { console.error(error); process.exit(1); });
    """
    found = json.loads(run(["node", "-e", program, str(client.base_url)]))

    assert [5_000, [["b"], ["c"]], 4, 1, 501] == found
    assert b"hello " * 500 == client.get("/todo/d/f").content
