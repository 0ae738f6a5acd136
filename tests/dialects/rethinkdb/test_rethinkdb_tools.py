"""RethinkDB's own command-line tools from its Python package, used with `reactdb serve FILE --rethinkdb`."""

from __future__ import annotations

import datetime
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import rethinkdb

import reactdb
from reactdb.dialects.rethinkdb import tables
from reactdb.expression import to_data
from reactdb.session import session_of
from reactdb.testing import rethinkdb_connection, rethinkdb_server

r = rethinkdb.RethinkDB()

ZONE = r.make_timezone("+02:00")


@contextmanager
def served(path: Path) -> Iterator[str]:
    """The file behind a port of this process, as host:port, for as long as the block takes."""
    with reactdb.connect(path) as db, rethinkdb_server(db) as (host, port):
        yield f"{host}:{port}"


@contextmanager
def served_by_the_command(path: Path) -> Iterator[str]:
    """The same, by `reactdb serve` in a process of its own."""
    command = [sys.executable, "-m", "reactdb.cli", "serve", str(path), "--rethinkdb", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        found = re.search(r":(\d+)$", server.stdout.readline().strip())
        assert found is not None
        yield f"127.0.0.1:{found[1]}"
    finally:
        server.send_signal(signal.SIGINT)
        _, errors = server.communicate(timeout=20)
    assert (0, "") == (server.returncode, errors)


def tool(name: str, address: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `rethinkdb-NAME` to its end."""
    command = [sys.executable, "-m", "rethinkdb", name, "-c", address, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def carried_out(name: str, address: str, *arguments: str) -> str:
    """The same, which must go well. What it said."""
    found = tool(name, address, *arguments)
    assert (0, "") == (found.returncode, found.stderr), found.stdout
    return found.stdout


def fill(path: Path) -> None:
    """A file with several databases, and in them what documents and indexes can be."""
    with reactdb.connect(path) as db, rethinkdb_connection(db) as connection:

        def run(query: Any) -> Any:
            return query.run(connection)

        run(r.db_create("arena"))
        run(r.table_create("games"))
        run(r.table_create("nothing"))
        run(r.db("arena").table_create("rooms", primary_key="name"))
        games, rooms = r.table("games"), r.db("arena").table("rooms")
        run(games.index_create("score"))
        run(games.index_create("by room", [r.row["room"], r.row["score"]]))
        run(games.index_create("tags", multi=True))
        run(games.index_create("double", lambda game: game["score"] * 2 + 1))
        run(rooms.index_create("opened"))
        run(rooms.set_write_hook(lambda context, old, new: new.merge({"hooked": True})))
        db.table("games").insert(
            [
                {"id": number, "room": f"r{number % 7}", "score": number / 4, "tags": ["x", f"t{number % 3}"]}
                for number in range(3_000)
            ]
        )
        run(
            rooms.insert(
                [
                    {
                        "name": "blue",
                        "opened": datetime.datetime(2026, 11, 21, 10, 0, 0, 123000, tzinfo=ZONE),
                        "picture": r.binary(bytes(range(256))),
                    },
                    {"name": "großer Saal", "nested": {"a": [1, 2.5, None, {"b": []}]}, "open": False},
                    {"name": "", "quote": '"\\\n\t\u2028'},
                ]
            )
        )


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of `fill`. Tests only read it."""
    path = tmp_path_factory.mktemp("filled") / "filled.db"
    fill(path)
    return path


def contents(path: Path) -> dict[str, Any]:
    """All that a dump is to carry: documents, primary keys, indexes and write hooks."""
    with reactdb.connect(path) as db:
        live = session_of(db).engine.catalogue.live
        notes = tables.HOOKS.all(db)
        hooks = [] if notes is None else notes.run()
        return {
            name: {
                "documents": db.table(name).run(),
                "primary_key": live[name].primary_key,
                "indexes": {
                    index.name: (to_data(index.expression), index.multi)
                    for index in live[name].indexes.values()
                },
                "hook": [one["function"] for one in hooks if one["table"] == name],
            }
            for name in db.table_list()
            if not name.startswith("rethinkdb.")
        }


@pytest.mark.slow
def test_a_dump_restored_into_another_file_gives_the_same(filled: Path, tmp_path: Path) -> None:
    archive, copy = str(tmp_path / "dump.tar.gz"), tmp_path / "copy.db"
    with served_by_the_command(filled) as address:
        said = carried_out("dump", address, "-f", archive)
    with served_by_the_command(copy) as address:
        carried_out("restore", address, archive)

    assert "3003 rows exported from 3 tables" in said
    expected, found = contents(filled), contents(copy)
    assert ["arena.rooms", "games", "nothing"] == sorted(found)
    assert len(expected["arena.rooms"]["hook"]) == 1
    assert expected == found


@pytest.mark.slow
def test_an_export_of_one_database_is_imported_into_another_file(filled: Path, tmp_path: Path) -> None:
    directory, copy = str(tmp_path / "export"), tmp_path / "copy.db"
    with served(filled) as address:
        carried_out("export", address, "-e", "arena", "-d", directory)
    with served(copy) as address:
        carried_out("import", address, "-d", directory)

    assert {"arena.rooms": contents(filled)["arena.rooms"]} == contents(copy)


@pytest.mark.slow
def test_lines_of_json_and_csv_go_out_and_in(filled: Path, tmp_path: Path) -> None:
    lines, csv, copy = tmp_path / "lines", tmp_path / "csv", tmp_path / "copy.db"
    with served(filled) as address:
        carried_out("export", address, "-e", "arena.rooms", "--format", "ndjson", "-d", str(lines))
        fields = "id,room,score"
        carried_out(
            "export", address, "-e", "test.games", "--format", "csv", "--fields", fields, "-d", str(csv)
        )
    documents = (lines / "arena" / "rooms.ndjson").read_text().splitlines()
    with served(copy) as address:
        table = csv / "test" / "games.csv"
        carried_out("import", address, "-f", str(table), "--table", "test.scores", "--pkey", "id")

    assert ["", "blue", "großer Saal"] == sorted(json.loads(line)["name"] for line in documents)
    with reactdb.connect(copy) as db:
        # The tool reads every field of a CSV file as a text.
        assert {"id": "7", "room": "r0", "score": "1.75"} == db.table("scores").get("7").run()
        assert 3_000 == db.table("scores").count().run()


@pytest.mark.slow
def test_a_table_that_is_there_is_only_overwritten_by_force(filled: Path, tmp_path: Path) -> None:
    archive, copy = str(tmp_path / "dump.tar.gz"), tmp_path / "copy.db"
    with served(filled) as address:
        carried_out("dump", address, "-e", "arena", "-f", archive)
    with served(copy) as address:
        carried_out("restore", address, archive)
        refused = tool("restore", address, archive)
        carried_out("restore", address, archive, "--force")

    assert 1 == refused.returncode
    assert "Table 'arena.rooms' already exists, run with --force" in refused.stderr
    assert {"arena.rooms": contents(filled)["arena.rooms"]} == contents(copy)


@pytest.mark.slow
def test_indexes_are_rebuilt(filled: Path, tmp_path: Path) -> None:
    """The tool makes each index anew under another name, and renames it over the old one."""
    archive, copy = str(tmp_path / "dump.tar.gz"), tmp_path / "copy.db"
    with served(filled) as address:
        carried_out("dump", address, "-e", "arena", "-f", archive)
    with served(copy) as address:
        carried_out("restore", address, archive)
        nothing_to_do = carried_out("index_rebuild", address)
        said = carried_out("index_rebuild", address, "--force")

    assert "Rebuilding 0 index" in nothing_to_do
    assert "Rebuilding 1 index: `arena.rooms:opened`" in said
    assert {"arena.rooms": contents(filled)["arena.rooms"]} == contents(copy)


def test_a_table_whose_name_no_driver_could_make_is_dumped_too(tmp_path: Path) -> None:
    """Native names may have several dots. What cannot be restored must not be missing from the archive without a word."""
    path, directory = tmp_path / "dots.db", tmp_path / "export"
    with reactdb.connect(path) as db:
        db.table_create("arena.rooms.old").insert({"id": 1})
    with served(path) as address:
        carried_out("export", address, "-d", str(directory))
    with served(tmp_path / "copy.db") as address:
        refused = tool("import", address, "-d", str(directory))

    assert [{"id": 1}] == json.loads((directory / "arena" / "rooms.old.json").read_text())
    assert 1 == refused.returncode
    assert "Table name `rooms.old` invalid" in refused.stderr
