"""The forms of text that `reactdb import` recognises: arrays, delimiters, encodings, line ends."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

import reactdb
from reactdb.cli import sources
from reactdb.cli.sources import BadLine, recognise
from tests.support.command import done, run


def imported(tmp_path: Path, name: str, data: bytes, *options: str) -> tuple[list[dict[str, object]], str]:
    """The documents after an import of a file, and the remarks on standard error."""
    (tmp_path / name).write_bytes(data)
    result = done(run("import", tmp_path / "x.db", "t", tmp_path / name, "--create", *options))
    with reactdb.connect(tmp_path / "x.db", read_only=True) as db:
        return db["t"].run(), result.stderr.strip().rpartition(f"{name}: ")[2]


TWO = [{"id": 1, "name": "a,b"}, {"id": 2, "name": "é"}]


@pytest.mark.parametrize(
    ("name", "data", "options", "remark"),
    [
        ("t.json", json.dumps(TWO).encode(), [], "a JSON array"),
        ("t.json", json.dumps(TWO, indent=2).encode(), [], "a JSON array"),
        ("t.json", b"\xef\xbb\xbf\n " + json.dumps(TWO, ensure_ascii=False).encode(), [], "a JSON array"),
        ("t.json", "\n".join(json.dumps(one, indent=1) for one in TWO).encode(), [], ""),
        ("t.json", "\n".join(map(json.dumps, TWO)).encode(), [], ""),
        ("t.txt", "\r".join(map(json.dumps, TWO)).encode(), [], "line ends without a line feed"),
        ("t.csv", 'id,name\r\n1,"a,b"\r\n2,é\r\n'.encode(), [], ""),
        ("t.csv", "id;name\n1;a,b\n2;é\n".encode(), [], "CSV with semicolons"),
        ("t.csv", '"id";"name"\r1;a,b\r2;é\r'.encode(), [], "line ends without a line feed, CSV with semicolons"),
        ("t.csv", "id\tname\n1\ta,b\n2\té\n".encode(), [], "CSV with tabs"),
        ("t.csv", 'id|name\n1|"a,b"\n2|é\n'.encode(), [], "CSV with bars"),
        ("t.tsv", "\ufeffid\tname\n1\ta,b\n2\té\n".encode(), [], ""),
        ("t.tsv", "id\tname\r\n1\ta,b\r\n2\té\r\n".encode("utf-16"), [], "UTF-16"),
        ("t.txt", "id\tname\n1\ta,b\n2\té\n".encode(), ["--delimiter", "tab"], ""),
        ("t.csv", "id:name\n1:a,b\n2:é\n".encode(), ["--delimiter", ":"], ""),
        ("t.txt", "id;name\n1;a,b\n2;é\n".encode(), ["--format", "csv"], "CSV with semicolons"),
    ],
)  # fmt: skip
def test_a_source_is_recognised_and_what_is_unusual_is_said(tmp_path, name, data, options, remark):
    assert (TWO, remark) == imported(tmp_path, name, data, *options)


@pytest.mark.parametrize(
    ("text", "number", "reason"),
    [
        ('[{"a":1},', 2, "the array has no end"),
        ('[{"a":1},]', 2, "a comma before the end of the array"),
        ('[{"a":1} {"a":2}]', 2, "a comma is missing"),
        ('[{"a":1}] x', 2, "text after the end of the array"),
        ('[{"a":1},{"b":', 2, "not JSON"),
        ("[" * 100_000, 1, "nested too deeply"),
    ],
)
def test_a_wrong_array_is_refused_at_the_element_where_it_is_wrong(text, number, reason):
    source = recognise(io.BytesIO(text.encode()), "x.json", None, None)

    with pytest.raises(BadLine, match=reason) as refused:
        while source.lines.readline(10**6):
            pass
    assert (number, "document") == (refused.value.line, source.unit)


def test_a_long_array_on_one_line_is_read_element_by_element(monkeypatch):
    monkeypatch.setattr(sources, "HEAD_BYTES", 64)
    documents = [{"id": number, "text": "ü" * (number % 90), "deep": [[{}]]} for number in range(200)]
    text = json.dumps(documents, ensure_ascii=False).encode()
    source = recognise(io.BytesIO(text), "x.json", None, None)

    assert documents == [json.loads(line) for line in iter(lambda: source.lines.readline(10**6), b"")]


def test_an_import_of_an_array_is_resumed_after_its_last_batch(tmp_path):
    (tmp_path / "t.json").write_text('[{"id":1},{"id":2},{"id":3},4]')
    command = ("import", tmp_path / "x.db", "t", tmp_path / "t.json", "--create", "--batch", "2", "--resume")
    stopped = run(*command)
    (tmp_path / "t.json").write_text('[{"id":1},{"id":2},{"id":3},{"id":4}]')
    resumed = done(run(*command))

    assert (
        "document 4: a line is one JSON object, not int; 2 documents before it are stored" in stopped.stderr
    )
    assert "imported 2 documents into t after line 2: 2 inserted" in resumed.stdout


def test_csv_that_was_not_recognised_gets_advice(tmp_path):
    result = run("import", tmp_path / "x.db", "t", "--create", input="id,name\n1,a\n")

    assert "line 1: not JSON" in result.stderr
    assert "if it is CSV, give --format csv; nothing was stored" in result.stderr
