"""Documents that one side cannot give, or does not take: they are passed over and told, and all others are copied."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner

import reactdb
from reactdb import cli
from reactdb.database import Database
from reactdb.dialects.couchdb import attachments, database
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.errors import SyncFailed
from reactdb.replication import remote
from reactdb.replication.replicator import SyncProgress

http = pytest.importorskip("reactdb.servers.http")
pytest.importorskip("uvicorn")
pytest.importorskip("httpx")

from reactdb.servers.http import application  # noqa: E402

PATIENCE_S = 60.0
BROKEN = "text/x-broken"
"""An attachment of this type is sent as an earlier version sent one with a line's end in its type: the connection closes."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reactdb.replication.replicator.FIRST_DELAY_S", 0.001)


@pytest.fixture
def here() -> Iterator[Database]:
    with reactdb.connect(":memory:") as db:
        yield db


@pytest.fixture
def there() -> Iterator[Database]:
    with reactdb.connect(":memory:") as db:
        Couch(db).create("notes")
        yield db


@pytest.fixture
def url(there: Database) -> Iterator[str]:
    with http.serve_in_thread(there) as server:
        yield f"http://127.0.0.1:{server.port}/notes"


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many answers with a broken attachment are still to break off, as `left`, and how many have."""
    counts = {"left": 10**6, "broken": 0}
    header_text = application.header_text

    def text(value: str) -> str:
        if value != BROKEN or not counts["left"]:
            return header_text(value)
        counts["left"] -= 1
        counts["broken"] += 1
        return value + "\r\n"

    monkeypatch.setattr(application, "header_text", text)
    return counts


def notes(db: Database) -> CouchDatabase:
    return Couch(db).open("notes")


def fill(db: Database, *broken: str) -> None:
    """Documents a to e; the attachments of those that are named are broken."""
    for id in "abcde":
        kind = BROKEN if id in broken else "text/plain"
        notes(db).put({"_id": id, "_attachments": {"f": {"content_type": kind, "data": "aGk="}}})


def ids(db: Database) -> list[str]:
    return [row["id"] for row in notes(db).all_docs()["rows"]]


class TestPull:
    def test_a_document_whose_connection_closes_each_time_is_passed_over(
        self, here: Database, there: Database, url: str, breaking: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        fill(there, "b")
        with caplog.at_level(logging.WARNING, "reactdb"):
            done = reactdb.sync(here, "notes", url, push=False)

        assert list("acde") == ids(here)
        assert ("complete", 4, 4, 0, 1) == (
            done.pull.state,
            done.pull.docs_read,
            done.pull.docs_written,
            done.pull.doc_write_failures,
            done.pull.doc_read_failures,
        )
        (told,) = done.pull.errors
        assert ("b", notes(there).get("b")["_rev"], "unreadable") == (told["id"], told["rev"], told["error"])
        assert 3 == breaking["broken"]
        messages = [record.getMessage() for record in caplog.records if record.name == "reactdb"]
        assert [f"'b' of {url}"] == [message.partition(" is passed over: ")[0] for message in messages]

    def test_a_second_time_it_is_not_asked_for(
        self, here: Database, there: Database, url: str, breaking: Any
    ) -> None:
        fill(there, "b")
        reactdb.sync(here, "notes", url, push=False)
        notes(there).put({"_id": "new"})
        breaking["broken"] = 0

        done = reactdb.sync(here, "notes", url, push=False)

        assert (1, 0, 0) == (done.pull.docs_written, done.pull.doc_read_failures, breaking["broken"])

    def test_one_that_comes_with_another_attempt_is_copied(
        self, here: Database, there: Database, url: str, breaking: Any
    ) -> None:
        fill(there, "b")
        breaking["left"] = 2

        done = reactdb.sync(here, "notes", url, push=False)

        assert list("abcde") == ids(here)
        assert b"hi" == notes(here).attachment("b", "f")[1]().read()
        assert (5, 0, ()) == (done.pull.docs_written, done.pull.doc_read_failures, done.pull.errors)

    def test_several_on_several_pages_are_each_told_once(
        self, here: Database, there: Database, url: str, breaking: Any
    ) -> None:
        """After each failed attempt all that follows the last checkpoint is compared again."""
        fill(there, "a", "c", "e")

        done = reactdb.sync(here, "notes", url, push=False, batch_size=1)

        assert list("bd") == ids(here)
        assert (2, 3) == (done.pull.docs_written, done.pull.doc_read_failures)
        assert list("ace") == [error["id"] for error in done.pull.errors]

    def test_with_no_retries_it_is_passed_over_at_once(
        self, here: Database, there: Database, url: str, breaking: Any
    ) -> None:
        fill(there, "b")

        done = reactdb.sync(here, "notes", url, push=False, retries=0)

        assert (4, 1, 1) == (done.pull.docs_written, done.pull.doc_read_failures, breaking["broken"])

    def test_live_goes_on(self, here: Database, there: Database, url: str, breaking: Any) -> None:
        fill(there, "b")
        is_there = threading.Event()

        def see(progress: SyncProgress) -> None:
            if progress.state == "waiting" and "later" in ids(here):
                is_there.set()
            elif progress.state == "waiting" and "later" not in ids(there):
                notes(there).put({"_id": "later"})

        with reactdb.sync(here, "notes", url, push=False, live=True, on_progress=see) as sync:
            assert is_there.wait(PATIENCE_S)
            failures = sync.pull.doc_read_failures

        assert [*"acde", "later"] == ids(here)
        assert 1 == failures

    def test_a_source_that_does_not_answer_at_all_is_waited_for(
        self, here: Database, there: Database, url: str, breaking: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fill(there, "b")
        prepare = remote.RemotePeer.prepare

        def busy(peer: Any, *, create: bool) -> None:
            prepare(peer, create=create)
            if breaking["broken"]:
                raise CouchError(503, "service_unavailable", "The server is stopping")

        monkeypatch.setattr(remote.RemotePeer, "prepare", busy)
        told: list[SyncProgress] = []
        with pytest.raises(SyncFailed, match="The server is stopping"):
            reactdb.sync(here, "notes", url, push=False, retries=0, on_progress=told.append)

        assert 0 == told[-1].doc_read_failures

    @pytest.mark.parametrize("how", ["row", "whole"])
    def test_one_that_the_source_refuses_is_passed_over(
        self, here: Database, there: Database, url: str, monkeypatch: pytest.MonkeyPatch, how: str
    ) -> None:
        """`_bulk_get` says so in the row of the document, or cannot be read as a whole, and then each is asked for alone."""
        fill(there)
        open_revs = CouchDatabase.open_revs

        def some(self: CouchDatabase, id: str, wanted: Any, **options: Any) -> Any:
            if id == "b" and self.session is notes(there).session:
                raise CouchError(403, "forbidden", "This document is not for you")
            return open_revs(self, id, wanted, **options)

        def told(self: CouchDatabase, asked: Any, *rest: Any, **options: Any) -> Any:
            if asked["id"] != "b":
                return bulk_told(self, asked, *rest, **options)
            said = {
                "id": "b",
                "rev": asked["rev"],
                "error": "forbidden",
                "reason": "This document is not for you",
            }
            return {"id": "b", "docs": [{"error": said}]}

        def fails(self: CouchDatabase, *_: Any, **options: Any) -> Any:
            raise CouchError(500, "badarg", "unknown")

        bulk_told = CouchDatabase._render_bulk_item
        if how == "row":
            monkeypatch.setattr(CouchDatabase, "_render_bulk_item", told)
        else:
            monkeypatch.setattr(CouchDatabase, "open_revs", some)
            monkeypatch.setattr(CouchDatabase, "bulk_get", fails)

        done = reactdb.sync(here, "notes", url, push=False)

        assert list("acde") == ids(here)
        assert [("b", "forbidden", "This document is not for you")] == [
            (error["id"], error["error"], error["reason"]) for error in done.pull.errors
        ]
        assert 1 == done.pull.doc_read_failures

    def test_the_command_tells_how_many(
        self, tmp_path: Any, there: Database, url: str, breaking: Any
    ) -> None:
        fill(there, "b")

        result = CliRunner().invoke(cli.main, ["sync", f"{tmp_path / 'a.db'}/notes", url, "--pull"])

        assert 0 == result.exit_code, result.output
        assert "4 revisions fetched, 1 not given (b: " in result.output


class TestPush:
    def test_one_that_the_other_side_refuses_keeps_no_other_back(
        self, here: Database, there: Database, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A file of an earlier version has a revision that is refused today, with all that are sent together with it."""
        Couch(here).create("notes")
        with monkeypatch.context() as patched:
            patched.setattr(database, "check_text", lambda *_: None)
            notes(here).bulk_docs(
                [{"_id": id, "_rev": f"1-{id}\n" if id == "b" else f"1-{id}"} for id in "abcde"], False
            )

        done = reactdb.sync(here, "notes", url, pull=False)

        assert list("acde") == ids(there)
        assert ("complete", 4, 1) == (done.push.state, done.push.docs_written, done.push.doc_write_failures)
        assert [("b", "bad_request")] == [(error["id"], error["error"]) for error in done.push.errors]


class TestFilesOfEarlierVersions:
    """Their attachments have any content type. What is sent of them is one that every header may have."""

    @pytest.fixture(params=[10, 2 << 20], ids=["small", "large"])
    def size(self, request: pytest.FixtureRequest) -> int:
        """Small ones are sent in JSON, large ones as parts."""
        found: int = request.param
        return found

    @contextmanager
    def old(self, db: Database, size: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        with monkeypatch.context() as patched:
            patched.setattr(attachments, "check_new", lambda *_: None)
            notes(db).put({"_id": "a"})
            notes(db).put_attachment("b", "f", b"x" * size, "text/plain\r\nX-Mine: 1")
        yield

    def test_they_are_pulled(
        self, here: Database, there: Database, url: str, size: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with self.old(there, size, monkeypatch):
            done = reactdb.sync(here, "notes", url, push=False)

        assert (2, 0, 0) == (
            done.pull.docs_written,
            done.pull.doc_write_failures,
            done.pull.doc_read_failures,
        )
        assert "text/plain  X-Mine: 1" == notes(here).get("b")["_attachments"]["f"]["content_type"]
        assert notes(there).get("b")["_rev"] == notes(here).get("b")["_rev"]

    def test_they_are_pushed(
        self, here: Database, there: Database, url: str, size: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Couch(here).create("notes")
        with self.old(here, size, monkeypatch):
            done = reactdb.sync(here, "notes", url, pull=False)

        assert (2, 0) == (done.push.docs_written, done.push.doc_write_failures)
        assert b"x" * size == notes(there).attachment("b", "f")[1]().read()
