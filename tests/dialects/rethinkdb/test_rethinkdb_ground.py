"""RethinkDB's driver on the ground of the servers: TLS, several users, a stop with open feeds."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import rethinkdb
from rethinkdb.errors import ReqlAuthError, ReqlDriverError

import reactdb
from reactdb.servers.rethinkdb import Credentials, Limits, serve_in_thread
from reactdb.servers.tls import tls_context
from reactdb.servers.users import User, write_user
from tests.support.certificates import make_certificate
from tests.support.rethinkdb import Raw, subscriptions
from tests.support.threads import started, wait_until

r = rethinkdb.RethinkDB()
table = r.table("games")


@pytest.mark.filterwarnings(r"ignore:ssl\.:DeprecationWarning")
def test_the_driver_writes_and_listens_over_tls(memory: Any, tmp_path: Path) -> None:
    made = make_certificate(tmp_path)
    with serve_in_thread(memory, tls=tls_context(made.certificate, made.key)) as server:
        trusted = {"ca_certs": str(made.certificate)}
        with r.connect(server.host, server.port, ssl=trusted) as connection:
            feed = table.changes().run(connection)
            table.insert([{"id": number, "text": "x" * 1_000} for number in range(3_000)]).run(connection)

            assert 3_000 == len(list(table.run(connection)))
            assert set(range(3_000)) == {feed.next(wait=20)["new_val"]["id"] for _ in range(3_000)}
        wait_until(lambda: subscriptions(memory) == 0)
        with pytest.raises(ReqlDriverError):
            r.connect(server.host, server.port, timeout=5)


def test_each_user_of_the_file_has_a_password_and_a_name_in_the_table_of_jobs(
    memory: Any, tmp_path: Path
) -> None:
    file = tmp_path / "users.txt"
    for name in ("ann", "bob"):
        write_user(file, User.of(name, f"{name}'s", 5_000))
    with serve_in_thread(memory, credentials=Credentials.from_file(file)) as server:
        address = (server.host, server.port)
        with (
            r.connect(*address, user="ann", password="ann's") as ann,
            r.connect(*address, user="bob", password="bob's") as bob,
        ):
            table.changes().run(ann)
            jobs = r.db("rethinkdb").table("jobs")["info"]["user"].run(bob)
            assert ["ann", "bob"] == sorted(jobs)
        for user, password in (("ann", "bob's"), ("eve", "ann's"), ("admin", ""), ("ann", "")):
            with pytest.raises(ReqlAuthError, match="Wrong password"):
                r.connect(*address, user=user, password=password)


def test_a_stop_with_open_feeds_answers_what_was_asked_and_ends_them(tmp_path: Path) -> None:
    """The insert waits for a transaction of native code, which ends when the feeds' connections have been closed."""
    with reactdb.connect(tmp_path / "games.db") as db:
        db.table_create("games")
        limits = Limits(stop_s=20)
        begun, over = threading.Event(), threading.Event()

        def hold() -> None:
            with db.transaction():
                begun.set()
                assert over.wait(20)

        readers = []
        with serve_in_thread(db, limits=limits) as server:
            clients = [Raw((server.host, server.port)) for _ in range(3)]
            for client in clients:
                client.shake_hands()
            writer, listening, idle = clients
            listening.frame(5, b'[1,[152,[[15,["games"]]]]]')
            listening.response()
            listening.frame(5, b"[2]")
            holder, _ = started(hold)
            assert begun.wait(20)
            writer.frame(1, b'[1,[56,[[15,["games"]],{"id":1}]]]')
            wait_until(lambda: bool(server.workers.jobs))

            def read() -> None:
                try:
                    assert b"" == idle.everything() == listening.everything()
                finally:
                    over.set()

            readers.append(started(read))
        for thread, outcome in readers:
            thread.join(20)
            assert [None] == outcome
        assert 1 == writer.response()[1]["r"][0]["inserted"]
        assert b"" == writer.everything()
        holder.join(20)
        assert (0, 1) == (subscriptions(db), db.table("games").count().run())
        for client in clients:
            client.socket.close()
