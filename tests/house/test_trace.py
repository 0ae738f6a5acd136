"""The command python -m tests.trace counts the calls of an operation."""

from __future__ import annotations

import threading

import reactdb
from tests import trace


def test_a_journey_is_counted_from_what_the_program_calls_downwards():
    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")
        games.insert({"id": 1})

        found = trace.traced(lambda: games.get(1).run())

    names = [code.co_qualname for _, code in found.calls]
    assert (1, "Table.get") == (found.calls[0][0], names[0])
    assert found.files[0] == "table.py"
    assert 1 < found.depth < len(found.calls) >= found.functions >= len(found.files) > 2


def test_a_journey_is_printed_with_its_files_and_calls(capsys):
    assert 0 == trace.main(["--files", "--calls", "insert(doc), nobody", "get(key)"])

    printed = capsys.readouterr().out
    assert "get(key).run()" in printed
    assert "     1 table.py\n" in printed
    assert "Table.insert  table.py:" in printed


def test_words_choose_journeys(capsys):
    trace.main(["get(key)"])

    assert 2 == len(capsys.readouterr().out.splitlines())


def test_no_thread_follows_the_file_while_journeys_are_counted(tmp_path):
    before = set(threading.enumerate())
    with trace.without_follower(), reactdb.connect(tmp_path / "games.db") as db:
        db.table_create("games").changes().subscribe(print)

        assert before == set(threading.enumerate())
