"""`reactdb.sync` against another reactdb, over HTTP: what both have afterwards, what is sent, and what survives a failure."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import reactdb
from reactdb import cli
from reactdb.database import Database
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.sequences import malformed
from reactdb.replication import remote
from reactdb.replication.peers import Bell, Subset
from reactdb.replication.replicator import SyncProgress, is_temporary
from reactdb.servers.tls import tls_context
from reactdb.servers.users import Credentials
from tests.support.certificates import make_certificate
from tests.support.processes import ROOT

http = pytest.importorskip("reactdb.servers.http")
pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx")

# Nothing that is waited for takes longer, even on a busy machine.
PATIENCE_S = 60.0


@contextmanager
def served(db: Database, **options: Any) -> Iterator[str]:
    with http.serve_in_thread(db, **options) as server:
        yield f"http://127.0.0.1:{server.port}"


@pytest.fixture
def here() -> Iterator[Database]:
    with reactdb.connect(":memory:") as db:
        yield db


@pytest.fixture
def there() -> Iterator[Database]:
    with reactdb.connect(":memory:") as db:
        yield db


@pytest.fixture
def url(there: Database) -> Iterator[str]:
    with served(there) as url:
        yield f"{url}/notes"


def notes(db: Database) -> CouchDatabase:
    return Couch(db).open("notes")


def created(db: Database) -> CouchDatabase:
    return Couch(db).create("notes")


def state(db: Database) -> dict[str, Any]:
    """All that a database has: the leaves of each document, with their ancestors and the bytes of their attachments."""
    database = notes(db)
    ids = {row["id"] for row in database.all_docs()["rows"]}
    feed = database.changes(changes_of_all())
    ids |= {row["id"] for row in feed.rows(1_000)}
    feed.close()
    return {id: database.open_revs(id, "all", revs=True, attachments=True) for id in sorted(ids)}


def changes_of_all() -> Any:
    from reactdb.dialects.couchdb.changes import ChangesRequest

    return ChangesRequest(style="all_docs")


@contextmanager
def serving(path: Path, port: int) -> Iterator[int]:
    """`reactdb serve` in another process, which is killed in the end."""
    words = [sys.executable, "-m", "reactdb.cli", "serve", str(path), "--couchdb", "--http-port", str(port)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.search(r":(\d+)", line)
        assert found is not None, line
        yield int(found[1])
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class Told:
    """Progress as it was told, to wait for."""

    def __init__(self) -> None:
        self.all: list[SyncProgress] = []
        self._changed = threading.Condition()

    def __call__(self, progress: SyncProgress) -> None:
        with self._changed:
            self.all.append(progress)
            self._changed.notify_all()

    def wait_for(self, holds: Callable[[SyncProgress], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: any(map(holds, self.all)), PATIENCE_S), self.all[-5:]


def is_waiting(direction: str) -> Callable[[SyncProgress], bool]:
    return lambda progress: progress.direction == direction and progress.state == "waiting"


class TestOnce:
    def test_both_have_all_that_either_had(self, here, there, url):
        here.table_create("notes", primary_key="_id").insert([{"_id": f"h{number}"} for number in range(3)])
        there.table_create("notes", primary_key="_id").insert([{"_id": f"t{number}"} for number in range(4)])

        done = reactdb.sync(here, "notes", url)

        assert state(here) == state(there)
        assert 7 == len(state(here))
        assert ("complete", 4, 4, 0) == (
            done.pull.state,
            done.pull.docs_read,
            done.pull.docs_written,
            done.pull.doc_write_failures,
        )
        assert ("complete", 3, 3) == (done.push.state, done.push.docs_read, done.push.docs_written)
        assert not done.is_running
        assert done.wait()

    def test_a_second_time_goes_on_where_the_first_ended(self, here, there, url):
        created(here).bulk_docs([{"_id": str(number)} for number in range(10)])
        reactdb.sync(here, "notes", url)
        notes(here).put({"_id": "new"})

        done = reactdb.sync(here, "notes", url)

        assert 1 == done.push.docs_read
        assert 0 == done.pull.docs_read
        assert state(here) == state(there)

    def test_one_direction_only(self, here, there, url):
        created(here).put({"_id": "h"})
        created(there).put({"_id": "t"})

        done = reactdb.sync(here, "notes", url, pull=False)
        assert done.pull is None
        assert ["h"] == [*state(here)]
        assert ["h", "t"] == [*state(there)]

        done = reactdb.sync(here, "notes", url, push=False)
        assert done.push is None
        assert state(here) == state(there)

    def test_what_was_changed_on_both_sides_is_in_conflict_with_one_winner(self, here, there, url):
        created(here).put({"_id": "a", "n": 0})
        reactdb.sync(here, "notes", url)
        for db, text in ((here, "here"), (there, "there")):
            rev = notes(db).get("a")["_rev"]
            notes(db).put({"_id": "a", "n": text, "_rev": rev})

        reactdb.sync(here, "notes", url)

        assert state(here) == state(there)
        assert 1 == len(notes(here).get("a", conflicts=True)["_conflicts"])
        assert here.table("notes").get("a").run() == there.table("notes").get("a").run()

    def test_deletions_and_histories_go_over(self, here, there, url):
        database = created(here)
        rev = database.put({"_id": "a"})["rev"]
        for number in range(20):
            rev = database.put({"_id": "a", "n": number, "_rev": rev})["rev"]
        database.delete("a", rev)

        reactdb.sync(here, "notes", url)

        (leaf,) = state(there)["a"]
        assert (True, 22) == (leaf["ok"]["_deleted"], leaf["ok"]["_revisions"]["start"])
        assert 22 == len(leaf["ok"]["_revisions"]["ids"])
        assert state(here) == state(there)

    @pytest.mark.parametrize("size", [0, 5, remote.INLINE_BYTES + 1])
    def test_attachments_go_both_ways(self, here, there, url, size):
        data = os.urandom(size)
        for db, id in ((here, "h"), (there, "ünï/code")):
            created(db).put({"_id": id})
            rev = notes(db).get(id)["_rev"]
            notes(db).put_attachment(id, "dir/ä b.bin", data, "application/x-thing", rev)

        done = reactdb.sync(here, "notes", url)

        assert (0, 0) == (done.pull.doc_write_failures, done.push.doc_write_failures)
        assert state(here) == state(there)
        for id in ("h", "ünï/code"):
            for db in (here, there):
                stub, opened = notes(db).attachment(id, "dir/ä b.bin")
                with opened() as file:
                    assert data == file.read()
                assert ("application/x-thing", size) == (stub["content_type"], stub["length"])

    def test_an_attachment_that_is_there_is_not_sent_again(self, here, there, url, monkeypatch):
        rev = created(here).put({"_id": "a"})["rev"]
        rev = notes(here).put_attachment("a", "f", b"12345", "text/plain", rev)["rev"]
        reactdb.sync(here, "notes", url)
        here.table("notes").get("a").update({"n": 1})
        there.table("notes").insert({"_id": "b"})
        opened: list[Any] = []
        whole = remote.RemotePeer._pieces
        monkeypatch.setattr(remote.RemotePeer, "_pieces", lambda *args: opened.append(args) or whole(*args))

        reactdb.sync(here, "notes", url)
        there.table("notes").get("a").update({"n": 2})
        reactdb.sync(here, "notes", url)

        assert [] == opened
        assert state(here) == state(there)
        assert b"12345" == notes(there).attachment("a", "f")[1]().read()

    def test_documents_of_other_types_and_keys_come_back_as_they_were(self, here, there, url):
        from decimal import Decimal

        table = here.table_create("notes")
        table.insert([{"id": 5, "price": Decimal("1.10")}, {"id": "x", "_private": b"bytes"}])

        reactdb.sync(here, "notes", url)
        with reactdb.connect(":memory:") as third:
            reactdb.sync(third, "notes", url)
            found = {row["_id"]: row for row in third.table("notes")}

        assert Decimal("1.10") == found[5]["price"]
        assert b"bytes" == found["x"]["_private"]

    def test_more_than_a_batch(self, here, there, url):
        created(there).bulk_docs([{"_id": f"{number:04}", "text": "x" * 100} for number in range(450)])
        told = Told()

        done = reactdb.sync(here, "notes", url, batch_size=100, on_progress=told)

        assert 450 == done.pull.docs_written
        assert [100, 200, 300, 400, 450] == sorted(
            {progress.docs_written for progress in told.all if progress.direction == "pull"} - {0}
        )
        assert state(here) == state(there)

    def test_a_database_that_is_not_there_is_made_or_refused(self, here, there, url):
        created(here).put({"_id": "a"})

        with pytest.raises(reactdb.errors.SyncFailed, match="Database does not exist"):
            reactdb.sync(here, "notes", url, create=False)
        reactdb.sync(here, "notes", url)

        assert ["notes"] == there.table_list()

    def test_a_table_may_have_a_name_that_no_database_of_couchdb_has(self, here, there, url):
        created(there).put({"_id": "a"})

        reactdb.sync(here, "My.Notes", url)
        here.table("My.Notes").insert({"_id": "b"})
        reactdb.sync(here, "My.Notes", url)

        assert ["a", "b"] == [*state(there)]
        assert ["My.Notes"] == here.table_list()

    def test_without_a_table_there_is_nothing_to_send(self, here, url):
        with pytest.raises(reactdb.TableNotFound, match="`notes`"):
            reactdb.sync(here, "notes", url, pull=False)


class TestSubsets:
    def test_of_a_selector(self, here, there, url):
        created(there).bulk_docs([{"_id": str(number), "even": number % 2 == 0} for number in range(6)])
        created(here).bulk_docs([{"_id": "a", "even": True}, {"_id": "b"}])

        reactdb.sync(here, "notes", url, selector={"even": True})

        assert ["0", "2", "4", "a", "b"] == [*state(here)]
        assert ["0", "1", "2", "3", "4", "5", "a"] == [*state(there)]

    def test_of_ids(self, here, there, url):
        created(there).bulk_docs([{"_id": str(number)} for number in range(6)])

        reactdb.sync(here, "notes", url, doc_ids=["1", "3", "none"])

        assert ["1", "3"] == [*state(here)]

    def test_of_a_function_of_the_source(self, here, there, url):
        pytest.importorskip("quickjs")
        design = {"_id": "_design/d", "filters": {"f": "function(doc, req) { return doc.n == req.query.n; }"}}
        created(there).bulk_docs([design, {"_id": "a", "n": 1}, {"_id": "b", "n": 2}])

        reactdb.sync(here, "notes", url, push=False, filter="d/f", query_params={"n": "2"})

        assert ["b"] == [*state(here)]

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "options",
        [
            {"selector": {}, "doc_ids": []},
            {"selector": 5},
            {"doc_ids": "a"},
            {"filter": 5},
            {"push": False, "pull": False},
            {"batch_size": 0},
        ],
    )
    def test_options_that_mean_nothing(self, here, url, options):
        with pytest.raises(reactdb.InvalidOption):
            reactdb.sync(here, "notes", url, **options)


class TestLive:
    @pytest.mark.parametrize("error", [ValueError, GeneratorExit, SystemExit])
    def test_who_waits_hears_that_the_progress_of_a_side_could_not_be_told(self, here, url, error):
        """Whatever the caller's function raises, in every call, in a thread of the synchronisation."""
        created(here)

        def fail(progress):
            raise error("mine")

        live = reactdb.sync(here, "notes", url, live=True, on_progress=fail)
        with pytest.raises(reactdb.errors.SyncFailed, match="mine"):
            live.wait(PATIENCE_S)
        live.stop()

        assert "failed" in (live.push.state, live.pull.state)

    def test_changes_go_both_ways_until_it_is_stopped(self, here, there, url):
        created(here)
        told = Told()
        with reactdb.sync(here, "notes", url, live=True, on_progress=told) as live:
            told.wait_for(is_waiting("pull"))
            there.table("notes").insert({"_id": "t"})
            told.wait_for(lambda progress: progress.direction == "pull" and progress.docs_written == 1)
            here.table("notes").insert({"_id": "h"})
            told.wait_for(lambda progress: progress.direction == "push" and progress.docs_written == 1)
            assert live.is_running
            assert not live.wait(0)

        assert not live.is_running
        assert ("stopped", "stopped") == (live.push.state, live.pull.state)
        assert state(here) == state(there)

    @pytest.mark.slow
    def test_it_goes_on_when_the_server_was_killed_and_is_back(self, here, tmp_path, monkeypatch):
        # However long the other process takes to start, the next attempt is soon after.
        monkeypatch.setattr("reactdb.replication.replicator.FIRST_DELAY_S", 0.05)
        monkeypatch.setattr("reactdb.replication.replicator.LONGEST_DELAY_S", 0.05)
        created(here)
        told = Told()
        path = tmp_path / "there.db"
        with reactdb.connect(path) as there:
            created(there)
            with serving(path, 0) as port:
                live = reactdb.sync(
                    here, "notes", f"http://127.0.0.1:{port}/notes", live=True, on_progress=told
                )
                told.wait_for(is_waiting("pull"))
                told.wait_for(is_waiting("push"))
            with live:
                here.table("notes").insert({"_id": "while it was away"})
                told.wait_for(lambda progress: progress.direction == "push" and progress.state == "retrying")
                with serving(path, port):
                    told.wait_for(
                        lambda progress: progress.direction == "push" and progress.docs_written == 1
                    )
                    there.table("notes").insert({"_id": "back"})
                    told.wait_for(
                        lambda progress: progress.direction == "pull" and progress.docs_written == 1
                    )
                    live.stop()

            assert state(here) == state(there)

    def test_what_cannot_go_on_says_so(self, here, there, url):
        created(here)
        live = reactdb.sync(here, "notes", url, live=True, create=False)

        with (
            live,
            pytest.raises(
                reactdb.errors.SyncFailed,
                match=r"no synchronisation with http://127.*Database does not exist",
            ),
        ):
            live.wait(PATIENCE_S)


def of_both(winner: dict[str, Any], others: list[dict[str, Any]]) -> dict[str, Any]:
    return {**winner, "tags": sorted({tag for one in (winner, *others) for tag in one["tags"]})}


@pytest.mark.parametrize("resolves_there", [False, True])
def test_a_function_ends_conflicts(here: Database, there: Database, url: str, resolves_there: bool) -> None:
    created(here).put({"_id": "a", "tags": ["x"]})
    reactdb.sync(here, "notes", url)
    here.table("notes").get("a").update({"tags": ["x", "here"]})
    there.table("notes").get("a").update({"tags": ["x", "there"]})
    if resolves_there:
        with served(here) as own:
            reactdb.sync(there, "notes", f"{own}/notes", push=False, resolve=of_both)
    reactdb.sync(here, "notes", url, resolve=of_both)
    reactdb.sync(here, "notes", url)
    for db in (here, there):
        assert ["here", "there", "x"] == db.table("notes").get("a").run()["tags"]
        assert "_conflicts" not in notes(db).get("a", conflicts=True)
    assert state(here) == state(there)


def test_a_conflict_that_is_left_can_be_ended_later(here: Database, there: Database, url: str) -> None:
    for db, tag in ((here, "here"), (there, "there")):
        created(db).put({"_id": "a", "tags": [tag]})
    asked: list[Any] = []

    def leave(winner: dict[str, Any], others: list[dict[str, Any]]) -> None:
        asked.append((winner["_id"], len(others)))

    reactdb.sync(here, "notes", url, resolve=leave)
    assert [("a", 1)] == asked
    assert 1 == len(notes(here).get("a", conflicts=True)["_conflicts"])
    # Nothing is fetched any more, but what is there is looked at.
    reactdb.sync(here, "notes", url, resolve=of_both)
    assert ["here", "there"] == here.table("notes").get("a").run()["tags"]


def test_what_somebody_writes_while_a_conflict_is_ended_is_not_lost(
    here: Database, there: Database, url: str
) -> None:
    for db, tag in ((here, "here"), (there, "there")):
        created(db).put({"_id": "a", "tags": [tag]})
    late = iter([True])

    def decide(winner: dict[str, Any], others: list[dict[str, Any]]) -> dict[str, Any]:
        if next(late, False):
            here.table("notes").get("a").update({"tags": [*winner["tags"], "late"]})
        return of_both(winner, others)

    reactdb.sync(here, "notes", url, resolve=decide)
    assert {"here", "there", "late"} == set(here.table("notes").get("a").run()["tags"])


def test_feeds_know_what_was_fetched(here: Database, there: Database, url: str) -> None:
    created(there).put({"_id": "a"})
    table = here.table_create("notes", primary_key="_id")
    heard: list[Any] = []
    own: list[Any] = []
    table.changes(include_origin=True).subscribe(heard.append)
    table.changes(skip_origin=url).subscribe(own.append)
    reactdb.sync(here, "notes", url.replace("//", "//ann:secret@"))
    table.insert({"_id": "b"})
    assert [("a", url), ("b", None)] == [(event["new_val"]["_id"], event["origin"]) for event in heard]
    assert ["b"] == [event["new_val"]["_id"] for event in own]


@pytest.mark.slow
def test_what_runs_is_listed(here: Database, there: Database, url: str) -> None:
    created(there).put({"_id": "a"})
    told = Told()
    with served(here) as own, reactdb.sync(here, "notes", url, live=True, on_progress=told):
        told.wait_for(is_waiting("pull"))
        told.wait_for(is_waiting("push"))
        pull, push = httpx.get(f"{own}/_active_tasks").json()
        assert [] == httpx.get(f"{url.removesuffix('/notes')}/_active_tasks").json()
    with served(here) as own:
        assert [] == httpx.get(f"{own}/_active_tasks").json()
    assert ("replication", True, url, push["source"]) == (
        pull["type"],
        pull["continuous"],
        pull["source"],
        pull["target"],
    )
    assert (1, 1, 0) == (pull["docs_read"], pull["docs_written"], push["docs_written"])
    assert pull["checkpointed_source_seq"] == pull["through_seq"] != "0"
    assert pull["started_on"] <= pull["updated_on"]


def test_what_no_longer_fits_is_sent_once_more(here: Database, there: Database, url: str) -> None:
    source = created(there)
    for id in "abc":
        source.put({"_id": id, "list": "home"})
    options: dict[str, Any] = {"push": False, "selector": {"list": "home"}, "removals": True}
    reactdb.sync(here, "notes", url, **options)
    assert 3 == here.table("notes").count().run()
    there.table("notes").get("a").update({"list": "work"})
    there.table("notes").get("b").delete()
    there.table("notes").insert({"_id": "d", "list": "work"})
    reactdb.sync(here, "notes", url, **options)
    assert {"a": "work", "c": "home"} == {row["_id"]: row["list"] for row in here.table("notes")}


def test_what_a_side_never_had_needs_no_deletion(here: Database, there: Database, url: str) -> None:
    source, target = created(there), created(here)
    for id in "abc":
        source.put({"_id": id})
    # This one is here, and is deleted there.
    target.put(source.get("b", revs=True), new_edits=False)
    for id in "ab":
        source.delete(id, source.get(id)["_rev"])
    options: dict[str, Any] = {"push": False, "skip_old_deletions": True}
    reactdb.sync(here, "notes", url, **options)
    assert ["c"] == [row["_id"] for row in here.table("notes")]
    assert {"b", "c"} == state(here).keys()
    source.put({"_id": "d", "_deleted": True})
    reactdb.sync(here, "notes", url, **options)
    # From then on, all are told.
    assert {"b", "c", "d"} == state(here).keys()


def test_deletions_that_come_after_the_first_synchronisation_go_over(
    here: Database, there: Database, url: str
) -> None:
    source, told = created(there), Told()
    source.bulk_docs([{"_id": "a"}, {"_id": "old", "_deleted": True}])
    options: dict[str, Any] = {"push": False, "skip_old_deletions": True, "live": True, "on_progress": told}
    with reactdb.sync(here, "notes", url, **options):
        told.wait_for(is_waiting("pull"))
        source.put({"_id": "late", "_deleted": True})
        told.wait_for(lambda progress: progress.docs_written == 2)
    assert {"a", "late"} == state(here).keys()


def test_a_connection_over_which_nothing_comes_is_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "SILENCE_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            line, _ = listening.accept()
            with line:
                line.recv(65_536)
                # A first heartbeat, and then none, until the other side hangs up.
                line.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n")
                line.recv(1)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        peer = remote.RemotePeer(f"http://127.0.0.1:{listening.getsockname()[1]}/notes")
        with pytest.raises(httpx.ReadTimeout) as caught:
            peer.wait(Subset(), "0", 10, Bell())
        peer.close()
        thread.join(PATIENCE_S)

    # It is tried again.
    assert is_temporary(caught.value)


def broken(monkeypatch: pytest.MonkeyPatch, is_broken: Callable[[int], bool]) -> list[int]:
    """Let these calls for documents fail, counted from 1. Returns: what grows with each call."""
    whole = remote.RemotePeer._documents
    calls: list[int] = []

    def documents(*args: Any) -> Any:
        calls.append(1)
        if is_broken(len(calls)):
            raise httpx.ReadError("broken")
        return whole(*args)

    monkeypatch.setattr(remote.RemotePeer, "_documents", documents)
    return calls


class TestFailures:
    def test_nobody_is_there(self, here, monkeypatch):
        monkeypatch.setattr("reactdb.replication.replicator.FIRST_DELAY_S", 0.001)
        told = Told()

        with pytest.raises(
            reactdb.errors.SyncFailed, match=r"^no synchronisation with http://127.0.0.1:1/notes: "
        ) as caught:
            reactdb.sync(here, "notes", "http://me:secret@127.0.0.1:1/notes", retries=3, on_progress=told)

        assert "secret" not in str(caught.value)
        assert 3 == sum(progress.state == "retrying" for progress in told.all)
        assert "failed" == told.all[-1].state

    @pytest.mark.parametrize("url", ["notes", "ftp://localhost/notes", "http://localhost", "http:///notes"])
    def test_what_is_no_url(self, here, url):
        with pytest.raises(reactdb.InvalidOption, match="a database's URL is like"):
            reactdb.sync(here, "notes", url)

    def test_without_httpx_the_extra_is_named(self, here, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "httpx", None)

        with pytest.raises(reactdb.errors.SyncFailed, match=r"^synchronising needs httpx: .*reactdb\[sync\]"):
            reactdb.sync(here, "notes", "http://localhost/notes")

    def test_each_attempt_is_told_and_the_last_says_what_to_look_at(self, here, monkeypatch):
        monkeypatch.setattr("reactdb.replication.replicator.FIRST_DELAY_S", 0.001)
        told = Told()

        with pytest.raises(
            reactdb.errors.SyncFailed, match=r"refused, after 4 attempts in \d+ s; is a server running there"
        ):
            reactdb.sync(here, "notes", "http://127.0.0.1:1/notes", retries=3, on_progress=told)

        retrying = [progress for progress in told.all if progress.state == "retrying"]
        assert [(1, 0.001), (2, 0.002), (3, 0.004)] == [(one.attempts, one.retry_s) for one in retrying]

    def test_a_name_that_does_not_exist_is_not_tried_again(self, here, monkeypatch):
        def unknown(*_: Any, **__: Any) -> Any:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        told = Told()

        with pytest.raises(reactdb.errors.SyncFailed, match=r"there is no host of that name; check the URL$"):
            reactdb.sync(here, "notes", "http://nowhere.example/notes", on_progress=told)

        assert ["failed"] == [progress.state for progress in told.all]

    def test_tls_on_a_plain_port_is_not_tried_again(self, here, url):
        told = Told()

        with pytest.raises(reactdb.errors.SyncFailed, match="the server on that port does not use TLS"):
            reactdb.sync(here, "notes", url.replace("http:", "https:"), on_progress=told)

        assert ["failed"] == [progress.state for progress in told.all]

    def test_a_certificate_that_is_not_trusted_is_not_tried_again(self, here, there, tmp_path):
        told = Told()
        made = make_certificate(tmp_path)
        tls = tls_context(str(made.certificate), str(made.key))

        with (
            served(there, tls=tls) as url,
            pytest.raises(reactdb.errors.SyncFailed, match="its certificate is not trusted here"),
        ):
            reactdb.sync(here, "notes", f"{url}/notes".replace("http:", "https:"), on_progress=told)

        assert ["failed"] == [progress.state for progress in told.all]

    def test_a_name_that_was_found_before_is_tried_again(self, here, there, url, monkeypatch):
        created(there).put({"_id": "a"})
        monkeypatch.setattr("reactdb.replication.replicator.FIRST_DELAY_S", 0.001)
        whole = remote.RemotePeer._documents
        calls: list[int] = []

        def failing(*args: Any) -> Any:
            calls.append(1)
            if len(calls) == 1:
                raise httpx.ConnectError("no network") from socket.gaierror(socket.EAI_NONAME, "not known")
            return whole(*args)

        monkeypatch.setattr(remote.RemotePeer, "_documents", failing)

        done = reactdb.sync(here, "notes", url, push=False)

        assert (1, 2) == (done.pull.docs_written, len(calls))

    def test_a_batch_that_fails_is_copied_again_and_nothing_twice(self, here, there, url, monkeypatch):
        created(there).bulk_docs([{"_id": f"{number:03}"} for number in range(250)])
        monkeypatch.setattr("reactdb.replication.replicator.FIRST_DELAY_S", 0.001)
        calls = broken(monkeypatch, lambda call: call in (2, 3))

        done = reactdb.sync(here, "notes", url, push=False, batch_size=100)

        assert (250, 250, 5) == (done.pull.docs_read, done.pull.docs_written, len(calls))
        assert state(here) == state(there)

    def test_only_failures_in_a_row_count(self, here, there, url, monkeypatch):
        created(there).bulk_docs([{"_id": f"{number:03}"} for number in range(250)])
        monkeypatch.setattr("reactdb.replication.replicator.FIRST_DELAY_S", 0.001)
        calls = broken(monkeypatch, lambda call: call % 2 == 1)

        done = reactdb.sync(here, "notes", url, push=False, batch_size=100, retries=1)

        assert (250, 6) == (done.pull.docs_written, len(calls))

    def test_one_that_was_broken_off_goes_on_from_its_checkpoint(self, here, there, url, monkeypatch):
        created(there).bulk_docs([{"_id": f"{number:03}"} for number in range(250)])
        broken(monkeypatch, lambda call: call == 3)
        with pytest.raises(reactdb.errors.SyncFailed):
            reactdb.sync(here, "notes", url, push=False, retries=0, batch_size=100)

        done = reactdb.sync(here, "notes", url, push=False, batch_size=100)

        assert 50 == done.pull.docs_read
        assert state(here) == state(there)

    def test_a_source_that_lost_the_position_of_its_checkpoint_is_compared_from_the_start(
        self, here, there, url, monkeypatch
    ):
        created(there).put({"_id": "a"})
        reactdb.sync(here, "notes", url, push=False)
        notes(there).put({"_id": "b"})
        asked: list[Any] = []
        whole = remote.RemotePeer.changes

        def lost(peer, selection, since, limit):
            asked.append(since)
            if since != "0":
                raise malformed()
            return whole(peer, selection, since, limit)

        monkeypatch.setattr(remote.RemotePeer, "changes", lost)
        done = reactdb.sync(here, "notes", url, push=False)

        assert (1, "0") == (done.pull.docs_written, asked[1])
        assert 2 == len(asked)

    @pytest.mark.parametrize("has_bulk_get", [True, False])
    def test_what_is_gone_by_the_time_it_is_fetched_is_left_out(self, there, url, has_bulk_get):
        rev = created(there).put({"_id": "a"})["rev"]
        peer = remote.RemotePeer(url)
        peer._has_bulk_get = has_bulk_get
        missing = {"a": {"missing": [rev, f"9-{'0' * 32}"]}}
        try:
            assert [rev] == [leaf.document["_rev"] for leaf in peer.leaves(missing, peer)]
        finally:
            peer.close()

    def test_documents_are_sent_together_up_to_a_size(self, here, there, url, monkeypatch):
        created(here).bulk_docs([{"_id": f"{number:02}", "text": "x" * 300} for number in range(20)])
        monkeypatch.setattr(remote, "BATCH_CHARACTERS", 2_000)
        sent: list[int] = []
        whole = remote.RemotePeer._bulk_docs
        monkeypatch.setattr(
            remote.RemotePeer,
            "_bulk_docs",
            lambda peer, texts: sent.append(sum(map(len, texts))) or whole(peer, texts),
        )

        reactdb.sync(here, "notes", url)

        assert max(sent) <= 2_000
        assert 4 <= len(sent) <= 6
        assert state(here) == state(there)

    @pytest.mark.slow
    @pytest.mark.parametrize("direction", ["push", "pull"])
    def test_one_that_was_killed_goes_on_from_its_checkpoint(self, there, url, tmp_path, direction):
        path = tmp_path / "here.db"
        with reactdb.connect(path) as here:
            created(here)
            created(there)
            filled = notes(here if direction == "push" else there)
            filled.bulk_docs([{"_id": f"{number:03}", "n": number} for number in range(300)])
        program = """
import os, signal, sys, reactdb

def die(progress):
    if progress.docs_written >= 120:
        os.kill(os.getpid(), signal.SIGKILL)

with reactdb.connect(sys.argv[1]) as db:
    reactdb.sync(db, "notes", sys.argv[2], batch_size=20, on_progress=die)
"""
        words = [sys.executable, "-c", program, str(path), url]
        killed = subprocess.run(words, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
        assert killed.returncode < 0

        with reactdb.connect(path) as here:
            done = reactdb.sync(here, "notes", url, batch_size=20)
            progress = done.push if direction == "push" else done.pull

            assert (180, 0) == (progress.docs_read, progress.doc_write_failures)
            assert state(here) == state(there)

    def test_a_side_that_was_replaced_is_compared_from_the_start(self, here, there, url):
        created(here).bulk_docs([{"_id": "a"}, {"_id": "b"}])
        reactdb.sync(here, "notes", url)
        Couch(there).drop("notes")

        done = reactdb.sync(here, "notes", url)

        assert 2 == done.push.docs_read
        assert state(here) == state(there)

    def test_a_name_and_a_password(self, here, there):
        created(there).put({"_id": "a"})
        with served(there, credentials=Credentials("ann", "s3cret/ä")) as url:
            with pytest.raises(reactdb.errors.SyncFailed, match="unauthorized"):
                reactdb.sync(here, "notes", f"{url}/notes")
            reactdb.sync(here, "notes", f"{url}/notes", auth=("ann", "s3cret/ä"))
            here.table("notes").insert({"_id": "b"})
            reactdb.sync(here, "notes", url.replace("//", "//ann:s3cret%2F%C3%A4@") + "/notes")

        assert state(here) == state(there)


class TestTheCommand:
    def run(self, *words: str) -> tuple[int, str]:
        result = CliRunner().invoke(cli.main, ["sync", *words], prog_name="reactdb")
        return result.exit_code, result.output

    def test_once(self, there, url, tmp_path):
        created(there).bulk_docs([{"_id": "a", "n": 1}, {"_id": "b", "n": 2}])
        place = f"{tmp_path / 'here.db'}/notes"

        assert (0, "pull: 2 revisions fetched\npush: 0 revisions sent\n") == self.run(place, url)
        with reactdb.connect(tmp_path / "here.db") as here:
            here.table("notes").insert({"_id": "c"})
            assert (0, "push: 1 revision sent\n") == self.run(place, url, "--push")
            assert state(here) == state(there)

    def test_a_selector_or_a_function(self, there, url, tmp_path):
        created(there).bulk_docs([{"_id": "a", "n": 1}, {"_id": "b", "n": 2}])
        place = f"{tmp_path / 'here.db'}/notes"

        assert (0, "pull: 1 revision fetched\n") == self.run(
            place, url, "--pull", "--filter", '{"n": {"$gt": 1}}'
        )
        code, output = self.run(place, url, "--pull", "--filter", "none/f")
        assert 1 == code
        assert "reactdb: no synchronisation with" in output
        assert "not_found (404): missing" in output

    def test_a_line_for_each_attempt(self, tmp_path, monkeypatch):
        monkeypatch.setattr("reactdb.replication.replicator.FIRST_DELAY_S", 0.001)
        code, output = self.run(f"{tmp_path / 'here.db'}/notes", "http://127.0.0.1:1/notes")

        lines = output.splitlines()
        assert (1, 6) == (code, len(lines))
        assert lines[1].startswith("pull: 0 revisions fetched; trying again in 0.002 s (2 of 5) after: ")
        assert "after 6 attempts" in lines[-1]
        assert [] == list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        ("words", "sentence"),
        [
            (["new.db/notes", "localhost"], "a database's URL is like"),
            (["new.db/notes", "http://localhost:x/notes"], "a database's URL is like"),
            (["new.db/notes", "http://localhost/notes", "--filter", "{x"], "--filter is no JSON"),
            (["new.db/notes", "http://localhost/notes", "--push"], "it does not exist"),
            (["new.db", "notes", "http://localhost/notes"], "FILE/TABLE is one word"),
            (["./new.db", "notes", "http://localhost/notes"], "FILE/TABLE is one word"),
        ],
    )
    def test_what_fails_leaves_no_file(self, words, sentence, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)

        code, output = self.run(*words)

        assert code in (1, 2)
        assert sentence in output
        assert [] == list(tmp_path.iterdir())

    def test_an_address_without_use_leaves_no_file(self, url, tmp_path):
        code, output = self.run(f"{tmp_path / 'new.db'}/notes", url.replace("http:", "https:"))

        assert 1 == code
        assert "the server on that port does not use TLS" in output
        assert [] == list(tmp_path.iterdir())

    def test_a_server_that_refuses_leaves_no_file(self, there, tmp_path):
        with served(there, credentials=Credentials("ann", "s3cret")) as url:
            for options in ([], ["--pull"], ["--live"]):
                code, output = self.run(f"{tmp_path / 'new.db'}/notes", f"{url}/notes", *options)
                assert 1 == code
                assert "unauthorized (401)" in output
        with served(there) as url:
            code, output = self.run(f"{tmp_path / 'new.db'}/notes", f"{url}/notes", "--pull")
            assert (1, True) == (code, "not_found (404): Database does not exist." in output)
            assert [] == list(tmp_path.iterdir())
            # What is not there is made where something is sent.
            assert 0 == self.run(f"{tmp_path / 'new.db'}/notes", f"{url}/notes")[0]

    def test_without_httpx_no_file_is_made(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "httpx", None)

        code, output = self.run(f"{tmp_path / 'new.db'}/notes", "http://localhost/notes")

        assert (1, f"reactdb: synchronising needs httpx: {reactdb.errors.how_to_install('sync')}\n") == (
            code,
            output,
        )
        assert [] == list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        "words",
        [
            ["notes.db", "http://localhost/x"],
            ["a/b", "http://localhost/x", "--filter", "{x"],
            ["a/b", "localhost"],
        ],
    )
    def test_mistakes(self, words, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "a").touch()

        code, output = self.run(*words)

        assert code in (1, 2)
        assert output.startswith("reactdb: ")
