"""A synchronisation that brings a duplicate of a unique index: the target refuses it, and both sides keep their documents."""

from __future__ import annotations

from typing import Any

import pytest

import reactdb
from reactdb.dialects.couchdb.couch import Couch

http = pytest.importorskip("reactdb.servers.http")
pytest.importorskip("uvicorn")
pytest.importorskip("httpx")


@pytest.mark.parametrize("direction", ["pull", "push"])
def test_the_duplicate_is_refused_and_named_and_all_others_are_copied(direction: str):
    with reactdb.connect(":memory:") as here, reactdb.connect(":memory:") as there:
        for db in (here, there):
            Couch(db).create("users")
        source, target = (there, here) if direction == "pull" else (here, there)
        target.table("users").index_create("email", unique=True)
        Couch(target)["users"].put({"_id": "own", "email": "a"})
        Couch(source)["users"].bulk_docs(
            [{"_id": "b", "email": "b"}, {"_id": "c", "email": "a"}, {"_id": "d", "email": "d"}]
        )

        def sync() -> Any:
            with http.serve_in_thread(there) as server:
                url = f"http://127.0.0.1:{server.port}/users"
                done = reactdb.sync(here, "users", url, pull=direction == "pull", push=direction == "push")
            return getattr(done, direction)

        done = sync()

        assert ("complete", 2, 1) == (done.state, done.docs_written, done.doc_write_failures)
        assert [("c", "forbidden")] == [(error["id"], error["error"]) for error in done.errors]
        assert ["b", "d", "own"] == [one["_id"] for one in target.table("users")]
        assert ["b", "c", "d"] == [one["_id"] for one in source.table("users")]

        # A second one ends, too, and the document comes when it has changed.
        assert 0 == sync().docs_written
        other = Couch(source)["users"].get("c")
        Couch(source)["users"].put({**other, "email": "c"})
        assert 1 == sync().docs_written
        assert "c" == target.table("users").get("c").run()["email"]
