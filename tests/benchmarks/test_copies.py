"""The benchmark of copies runs, and prints a line for each peer."""

from __future__ import annotations

from benchmarks import copies


def test_it_prints_a_line_for_each_peer_and_size(capsys):
    assert 0 == copies.main(["--documents", "20", "40", "--tables", "2", "--repeat", "1"])

    lines = capsys.readouterr().out.splitlines()
    assert [*copies.PEERS, *copies.PEERS] == [line[10:26].strip() for line in lines[1:]]


def test_the_filled_database_has_the_documents(db):
    copies.fill(db, tables=2, documents=20)

    assert [10, 10] == [db.table(name).count().run() for name in db.table_list()]
