"""The real PouchDB replicates from a file, to it, and live both ways, while Python reads and writes the same documents."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.dialects.couchdb.couch import Couch
from reactdb.servers.http import serve_in_thread
from tests.servers.http.pouch import (
    PATIENCE_S,
    is_telling,
    needs_pouchdb,
    next_of,
    run_pouchdb,
    running_pouchdb,
)
from tests.support.processes import ROOT

pytestmark = needs_pouchdb


@pytest.fixture
def db(path: Path) -> Iterator[Any]:
    with reactdb.connect(path) as database:
        yield database


@pytest.fixture
def url(db: Any) -> Iterator[str]:
    with serve_in_thread(db) as server:
        yield f"http://127.0.0.1:{server.port}/todo"


def test_what_pouchdb_pushes_is_in_the_table(db: Any, url: str) -> None:
    (done,) = run_pouchdb(
        """
        const local = memory("push");
        await local.bulkDocs([{_id: "milk", done: false}, {_id: "bread", done: true, n: {of: [1, 2.5, null]}}]);
        await local.put({...(await local.get("milk")), done: true});
        await local.remove(await local.put({_id: "gone"}).then(() => local.get("gone")));
        print(await local.replicate.to(url));
        """,
        url,
    )

    assert (True, 3, 0) == (done["ok"], done["docs_written"], done["doc_write_failures"])
    assert [
        {"_id": "bread", "done": True, "n": {"of": [1, 2.5, None]}},
        {"_id": "milk", "done": True},
    ] == db.table("todo").order_by("_id").run()


def test_what_python_writes_is_pulled(db: Any, url: str) -> None:
    todo = db.table_create("todo", primary_key="_id")
    todo.insert([{"_id": f"t{number:03}", "n": number} for number in range(250)])
    todo.get("t001").update({"n": "one"})
    program = """
        const local = memory("pull");
        print(await local.replicate.from(url));
        print(await local.replicate.from(url));
        const {_rev, ...one} = await local.get("t001");
        print(one);
        print(await until(async () => { await local.replicate.from(url);
                                        return local.get("t002").then(() => null, error => error.reason); }));
        print((await local.info()).doc_count);
    """
    with running_pouchdb(program, url) as process:
        first, again, one = (next_of(process) for _ in range(3))
        todo.get("t002").delete()
        reason, count = (next_of(process) for _ in range(2))

    assert (True, 250) == (first["ok"], first["docs_written"])
    assert 0 == again["docs_read"]
    assert {"_id": "t001", "n": "one"} == one
    assert ("deleted", 249) == (reason, count)


def test_live_changes_go_both_ways(db: Any, url: str) -> None:
    todo = db.table_create("todo", primary_key="_id")
    program = """
        const local = memory("live");
        const sync = local.sync(url, {live: true, retry: true});
        await heard(sync, "paused");
        print("ready");
        print(await until(() => local.get("from python").catch(() => null)));
        await local.put({_id: "from pouchdb", n: 2});
        await until(() => local.get("last").catch(() => null));
        sync.cancel();
    """
    with running_pouchdb(program, url) as process, todo.changes().cursor() as changes:
        assert "ready" == next_of(process)
        todo.insert({"_id": "from python", "n": 1})
        document = next_of(process)
        heard = [changes.next(PATIENCE_S)["new_val"] for _ in range(2)]
        todo.insert({"_id": "last"})
        assert 0 == process.wait(timeout=PATIENCE_S)

    assert {"_id": "from python", "n": 1} == {name: document[name] for name in ("_id", "n")}
    assert [{"_id": "from python", "n": 1}, {"_id": "from pouchdb", "n": 2}] == heard


def test_both_sides_choose_the_same_winner_and_know_the_loser(db: Any, url: str) -> None:
    here, there, after = run_pouchdb(
        """
        const local = memory("conflict"), remote = new PouchDB(url);
        await local.put({_id: "a", v: 0});
        await local.replicate.to(remote);
        for (const [side, v] of [[local, "local"], [remote, "remote"]]) await side.put({...(await side.get("a")), v});
        await local.sync(remote);
        print(await local.get("a", {conflicts: true}));
        print(await remote.get("a", {conflicts: true}));
        const {_conflicts} = await local.get("a", {conflicts: true});
        await local.remove("a", _conflicts[0]);
        await local.sync(remote);
        print(await (await fetch(url + "/a?conflicts=true&deleted_conflicts=true")).json());
        """,
        url,
    )

    assert here == there
    assert 1 == len(here["_conflicts"])
    assert "_conflicts" not in after
    assert 1 == len(after["_deleted_conflicts"])
    assert {"_id": "a", "v": here["v"]} == db.table("todo").get("a").run()


def test_attachments_go_there_and_come_back(db: Any, url: str) -> None:
    pulled, alone = run_pouchdb(
        """
        const local = memory("one"), other = memory("two");
        const data = Buffer.alloc(300000, "reactdb ").toString("base64");
        await local.put({_id: "a", _attachments: {"big.bin": {content_type: "application/octet-stream", data},
                                                  "ä note.txt": {content_type: "text/plain", data: "aGVsbG8="}}});
        await local.replicate.to(url);
        await other.replicate.from(url);
        const doc = await other.get("a", {attachments: true});
        const {"big.bin": big, "ä note.txt": note} = doc._attachments;
        print([big.data === data, note.data, doc._rev === (await local.get("a"))._rev]);
        print((await new PouchDB(url).getAttachment("a", "ä note.txt")).toString());
        """,
        url,
    )

    assert [True, "aGVsbG8=", True] == pulled
    assert "hello" == alone


def test_filters_and_named_documents(url: str) -> None:
    selected, named, by_function = run_pouchdb(
        """
        const remote = new PouchDB(url);
        await remote.bulkDocs([{_id: "a", type: "x"}, {_id: "b", type: "y"}, {_id: "c", type: "x"}]);
        await remote.put({_id: "_design/f", filters: {of: "function(doc, req) { return doc.type === req.query.type; }"}});
        const ids = async options => { const local = memory(JSON.stringify(options));
                                       await local.replicate.from(remote, options);
                                       return (await local.allDocs()).rows.map(row => row.id); };
        print(await ids({selector: {type: "x"}}));
        print(await ids({doc_ids: ["b", "nobody"]}));
        print(await ids({filter: "f/of", query_params: {type: "y"}}));
        """,
        url,
    )

    assert (["a", "c"], ["b"], ["b"]) == (selected, named, by_function)


def test_changes_while_they_happen(db: Any, url: str) -> None:
    todo = db.table_create("todo", primary_key="_id")
    todo.insert({"_id": "before"})
    program = """
        const changes = new PouchDB(url).changes({live: true, since: "now", include_docs: true, heartbeat: 500});
        changes.on("change", change => { print(change); if (change.id === "last") changes.cancel(); });
        changes.on("error", error => { throw error; });
        setTimeout(() => print("listening"), 0);
        await heard(changes, "complete");
    """
    with running_pouchdb(program, url) as process:
        assert "listening" == next_of(process)
        # `now` is asked for by a request of its own: until that has been answered a document is a part of the past.
        number = 0
        while not is_telling(process, within_s=0.02):
            todo.insert({"_id": f"early{number}"})
            number += 1
        todo.insert({"_id": "last"})
        while (heard := next_of(process))["id"] != "last":
            assert heard["id"].startswith("early")
        assert 0 == process.wait(timeout=PATIENCE_S)

    assert "last" == heard["doc"]["_id"]


def serve(path: Path, port: int = 0) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, "-m", "reactdb.cli", "serve", str(path), "--couchdb", "--http-port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    match = re.search(r":(\d+)/$", process.stdout.readline().strip())
    assert match is not None
    return process, int(match[1])


def test_a_server_that_is_killed_in_the_middle_loses_nothing(path: Path) -> None:
    """PouchDB goes on where it was, when a new server is there."""
    server, port = serve(path)
    program = """
        // What PouchDB asks while it opens a database has nobody to hear that the server is gone.
        process.on("unhandledRejection", () => {});
        const local = memory("kill");
        await local.bulkDocs(Array.from({length: 600}, (_, n) => ({_id: "d" + String(n).padStart(3, "0"), n})));
        const sync = local.sync(url, {live: true, retry: true, batch_size: 20, back_off_function: () => 50});
        let written = 0, told = false;
        sync.on("change", change => { if (change.direction === "push") written += change.change.docs.length;
                                      if (written > 100 && !told) { told = true; print("kill"); } });
        const remote = new PouchDB(url);
        await until(async () => (await remote.info().catch(() => ({}))).doc_count === 601);
        await until(() => local.get("from python").catch(() => null));
        print((await local.info()).doc_count);
        sync.cancel();
    """
    try:
        with running_pouchdb(program, f"http://127.0.0.1:{port}/todo") as process:
            assert "kill" == next_of(process)
            server.kill()
            server.communicate()
            with reactdb.connect(path) as db:
                kept = db.table("todo").count().run()
                db.table("todo").insert({"_id": "from python"})
            server, _ = serve(path, port)
            assert 601 == next_of(process)
            assert 0 == process.wait(timeout=PATIENCE_S)
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=PATIENCE_S)

    assert 100 < kept
    with reactdb.connect(path) as db:
        assert 601 == db.table("todo").count().run()
        assert 599 == db.table("todo").get("d599").run()["n"]


def test_what_is_there_already_is_not_written_again(db: Any, url: str) -> None:
    program = """
        const local = memory("a");
        await local.bulkDocs(Array.from({length: 30}, (_, n) => ({_id: "d" + n})));
        const done = await local.replicate.to(url, {batch_size: 10});
        print([done.docs_read, done.docs_written]);
    """
    assert [[30, 30]] == run_pouchdb(program, url)
    before = db.seq
    assert [[0, 0]] == run_pouchdb(program.replace('memory("a")', 'memory("b")'), url)
    changed = {entry.table for entry in db.log(since=before)}

    # Only the checkpoint was written, which is in no table.
    assert set() == changed


def test_documents_that_leave_a_filter_leave_the_device(db: Any, url: str) -> None:
    todo = db.table_create("todo", primary_key="_id")
    todo.insert([{"_id": id, "list": "home"} for id in "abc"])
    first, second = run_pouchdb(
        """
        const local = memory("part"), remote = new PouchDB(url);
        const options = {selector: {list: "home"}, query_params: {removals: "true"}};
        const lists = async () => (await local.allDocs({include_docs: true})).rows.map(({doc}) => [doc._id, doc.list]);
        await local.replicate.from(url, options);
        print(await lists());
        await remote.put({...(await remote.get("a")), list: "work"});
        await remote.remove(await remote.get("b"));
        await remote.put({_id: "d", list: "work"});
        await local.replicate.from(url, options);
        print(await lists());
        """,
        url,
    )

    assert [["a", "home"], ["b", "home"], ["c", "home"]] == first
    assert [["a", "work"], ["c", "home"]] == second


def test_conflicts_of_several_devices_are_resolved_as_the_page_says(db: Any, url: str) -> None:
    page = (ROOT / "docs" / "how-to" / "pouchdb.md").read_text(encoding="utf-8")
    (resolving,) = re.findall(r"```js\n(.*?)```", page, re.DOTALL)
    run_pouchdb(
        f"""
        const devices = ["one", "two", "three"].map(memory);
        for (const device of devices) await device.put({{_id: "milk", text: device.name}});
        for (const device of [...devices, ...devices]) await device.sync(url);
        const db = devices[0];
        {resolving}
        await db.sync(url);
        """,
        url,
    )

    assert {"one", "two", "three"} == set(db.table("todo").get("milk").run()["text"].split(" / "))
    assert "_conflicts" not in Couch(db).open("todo").get("milk", conflicts=True)
