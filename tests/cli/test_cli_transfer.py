"""Import and export: exported documents are imported unchanged, and an interrupted import resumes without loss or repetition."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb.cli import export, import_
from reactdb.values import codec
from reactdb.values.codec import UnknownValue
from tests.support.command import done, error_of, run
from tests.support.inspection import documents
from tests.support.registered_types import Exact, Mark, Release
from tests.support.scaling import examples

EVERY_TYPE = {
    "id": 1,
    "none": None,
    "big": 2**70,
    "float": 1.0,
    "nan": float("nan"),
    "zero": -0.0,
    "text": 'a "b", c\nd\re\x00',
    "number": "42",
    "empty": "",
    "bytes": b"\x00\xff",
    "list": [1, {"x": None}],
    "dict": {"$reql_type$": "no type"},
    "moment": datetime(2013, 1, 1, 5, 15, 0, 1, tzinfo=UTC),
    "decimal": Decimal("1.10"),
    "uuid": UUID(int=7),
    "date": date(2013, 1, 1),
    "span": timedelta(microseconds=-1),
    "registered": [Mark(b"\x00\xff\x00\x01"), Release(1, 10), Exact("01")],
    "unknown": UnknownValue(50, b"\x00bytes"),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.db"
    with reactdb.connect(path) as db:
        db.table_create("people")
    return path


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """2,500 people, one a line."""
    path = tmp_path / "people.jsonl"
    path.write_text("".join(f'{{"id": {n}, "name": "p{n}"}}\n' for n in range(1, 2501)))
    return path


def fill(file, found):
    with reactdb.connect(file) as db:
        db.table("people").insert(found)


# ---------------------------------------------------------------------------------------------------------------
# The law: out and in again


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_every_type_comes_back(file, tmp_path, form):
    fill(file, [EVERY_TYPE, {"id": 2}, {"id": "3", "text": "x"}])
    done(run("export", file, "people", tmp_path / f"out.{form}"))

    done(run("import", tmp_path / "new.db", "people", tmp_path / f"out.{form}", "--create"))

    assert [codec.encode(one) for one in documents(file, "people")] == [
        codec.encode(one) for one in documents(tmp_path / "new.db", "people")
    ]


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
values = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | text
    | st.sampled_from(["42", "", "null", '"a"', "1.0"])
)


@settings(max_examples=examples(30))
@given(
    st.lists(st.dictionaries(text.filter(lambda name: name != "id"), values, max_size=3), max_size=4),
    st.sampled_from(["jsonl", "csv"]),
)
def test_flat_documents_come_back_through_a_pipe(tmp_path_factory, found, form):
    """`reactdb export a.db t | reactdb import b.db t`. CSV keeps all but the order of fields."""
    folder = tmp_path_factory.mktemp("pipe")
    with reactdb.connect(folder / "a.db", durability="soft") as db:
        db.table_create("t").insert([{"id": place, **one} for place, one in enumerate(found)])
    piped = done(run("export", folder / "a.db", "t", "--format", form)).stdout_bytes
    done(run("import", folder / "b.db", "t", "--create", "--format", form, input=piped))

    before, after = documents(folder / "a.db", "t"), documents(folder / "b.db", "t")
    assert len(before) == len(after)
    assert all(codec.same(one, other) for one, other in zip(before, after, strict=True))


def test_an_export_is_sorted_by_key_and_compact(file):
    fill(file, [{"id": 2}, {"id": 1, "a": [1, 2]}])

    assert '{"id":1,"a":[1,2]}\n{"id":2}\n' == done(run("export", file, "people")).stdout


def test_a_csv_has_a_column_for_every_field_and_the_key_first(file):
    fill(file, [{"b": 1, "id": 1}, {"id": 2, "c": None, "a": "x,y"}])

    assert 'id,b,c,a\n1,1,,\n2,,null,"x,y"\n' == done(run("export", file, "people", "--format", "csv")).stdout


def test_strings_alone_are_for_other_programs(file):
    fill(file, [{"id": 1, "zip": "42", "note": ""}])

    assert 'id,zip,note\n1,"""42""",""""""\n' == done(run("export", file, "people", "--format", "csv")).stdout
    assert (
        "id,zip,note\n1,42,\n" == done(run("export", file, "people", "--format", "csv", "--strings")).stdout
    )


# ---------------------------------------------------------------------------------------------------------------
# export


def test_an_export_tells_where_the_next_goes_on(file):
    fill(file, [{"id": 1}, {"id": 2}])

    assert (
        "exported 2 documents of people as of seq 3; --since 3 goes on from here\n"
        == run("export", file, "people").stderr
    )
    assert {"table": "people", "documents": 2, "deletions": 0, "seq": 3} == json.loads(
        run("export", file, "people", "--json").stderr
    )


def test_an_export_since_has_the_newest_state_of_what_changed_and_the_deletions(file):
    fill(file, [{"id": n} for n in range(5)])
    with reactdb.connect(file) as db:
        people = db.table("people")
        people.get(1).update({"a": 1})
        people.get(2).delete()
        people.get(1).update({"a": 2})
        people.insert({"id": 9})

    assert [
        '{"$reactdb_type$":"deleted","value":2}',
        '{"id":1,"a":2}',
        '{"id":9}',
    ] == done(run("export", file, "people", "--since", 6)).stdout.splitlines()


def test_a_copy_kept_up_to_date_by_exports_is_equal(file, tmp_path):
    """Law: a full export, then exports since, imported with --conflict replace, give the same table."""
    copy = tmp_path / "copy.db"
    seq = 0
    for step in range(4):
        with reactdb.connect(file) as db:
            people = db.table("people")
            people.insert([{"id": 10 * step + n, "step": step} for n in range(10)])
            if step:
                people.get(10 * step - 3).delete()
                people.get(10 * step - 4).replace({"id": 10 * step - 4, "new": True})
        out = done(run("export", file, "people", "--since", seq, "--json"))
        seq = json.loads(out.stderr)["seq"]
        done(run("import", copy, "people", "--create", "--conflict", "replace", input=out.stdout_bytes))

        assert documents(file, "people") == documents(copy, "people")


def test_an_export_of_the_past(file):
    fill(file, [{"id": 1}])
    with reactdb.connect(file) as db:
        db.table("people").get(1).delete()

    assert '{"id":1}\n' == done(run("export", file, "people", "--at", 2)).stdout


def test_an_export_of_changes_is_what_tail_prints(file):
    fill(file, [{"id": 1}])
    with reactdb.connect(file) as db:
        db.table("people").get(1).update({"a": 1})

    assert (
        run("tail", file, "people", "--json").stdout
        == done(run("export", file, "people", "--changes")).stdout
    )
    assert 1 == len(done(run("export", file, "people", "--changes", "--since", 2)).stdout.splitlines())


def test_a_since_past_the_end_is_a_mistake(file):
    assert "--since 5 is past the newest change, which has seq 1." in error_of(
        run("export", file, "people", "--since", 5)
    )


@pytest.mark.parametrize("options", [["--since", "0"], ["--changes"]])
def test_csv_has_no_form_for_changes(file, options):
    assert "CSV has no form for changes" in error_of(
        run("export", file, "people", "--format", "csv", *options)
    )


def test_a_failed_export_names_its_target_and_leaves_the_old_file_alone(file, tmp_path, monkeypatch):
    fill(file, [{"id": 1}])
    target = tmp_path / "out.jsonl"
    target.write_text("precious")

    def fails(value):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export, "dumps", fails)
    result = run("export", file, "people", target)

    assert (1, f"{target}: No space left on device") == (result.exit_code, error_of(result))
    assert "precious" == target.read_text()
    assert not list(tmp_path.glob("*.part"))


def test_a_device_stays_a_device(file):
    fill(file, [{"id": 1}])
    done(run("export", file, "people", os.devnull))

    assert not os.path.isfile(os.devnull)


@pytest.mark.parametrize("command", ["export", "import"])
@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_the_database_itself_is_neither_source_nor_target(file, command, suffix):
    """Opening it as a text would drop SQLite's locks."""
    with reactdb.connect(file) as db:
        db.table("people").insert({"id": 1})
        result = run(command, file, "people", str(file) + suffix)

    assert 2 == result.exit_code
    assert "belongs to the database" in error_of(result)
    assert [{"id": 1}] == documents(file, "people")


# ---------------------------------------------------------------------------------------------------------------
# import


def test_an_import_is_in_batches_each_one_commit(file, people):
    result = done(run("import", file, "people", people, "--batch", 1000))

    with reactdb.connect(file) as db:
        commits = {change.commit: change.origin for change in db.log(table="people")}
    assert "imported 2,500 documents into people: 2,500 inserted; seq 2501\n" == result.stdout
    assert [2, 1002, 2002] == list(commits)
    assert [
        "import people.jsonl line 1000",
        "import people.jsonl line 2000",
        "import people.jsonl line 2500",
    ] == [origin.rsplit(" ", 1)[0] for origin in commits.values()]


def test_an_import_tells_its_figures_as_json(file, people):
    assert {
        "table": "people",
        "inserted": 2500,
        "replaced": 0,
        "unchanged": 0,
        "deleted": 0,
        "skipped": 0,
        "lines": 2500,
        "resumed_after": None,
        "seq": 2501,
    } == json.loads(done(run("import", file, "people", people, "--json")).stdout)


def test_a_table_is_made_only_when_asked(tmp_path, people):
    assert "does not exist" in error_of(run("import", tmp_path / "new.db", "people", people))
    assert not (tmp_path / "new.db").exists()

    done(run("import", tmp_path / "new.db", "people", people, "--create", "--primary-key", "name"))

    with reactdb.connect(tmp_path / "new.db") as db:
        assert "name" == db.table("people").primary_key


def test_a_missing_table_is_an_error(file, people):
    assert "Table `nobody` does not exist. With --create the import makes it." == error_of(
        run("import", file, "nobody", people)
    )


def test_a_table_that_has_another_primary_key_is_left_alone(file, people):
    with reactdb.connect(file) as db:
        db.table_create("named", primary_key="name")

    result = run("import", file, "named", people, "--create", "--primary-key", "id")

    assert "table `named` has the primary key 'name', not 'id'" == error_of(result)


def test_a_name_that_no_table_can_have_makes_no_file(people, tmp_path):
    result = run("import", tmp_path / "new.db", "my people", people, "--create")

    assert "Table name 'my people' is invalid" in error_of(result)
    assert not (tmp_path / "new.db").exists()


def test_a_missing_source_makes_no_file(tmp_path):
    result = run("import", tmp_path / "new.db", "people", tmp_path / "no.jsonl", "--create")

    assert 1 == result.exit_code
    assert "No such file or directory" in error_of(result)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("[1]", "a line is one JSON object, not list"),
        ('{"id": null}', "NULL"),
        ('{"id": {"a": 1}}', "Primary keys must be"),
        ('{"id": 9, "a": "\\ud800"}', 'document["a"]: '.replace('"', "'")),
        ('{"id": 9, "a": NaN}', "NaN is not JSON"),
        ('{"id": 1}', "Duplicate primary key `id`"),
        ('{"id": 2499}', "Duplicate primary key `id`"),
    ],
)
def test_a_bad_line_is_named_and_nothing_of_its_batch_is_stored(file, people, line, reason):
    with people.open("a") as out:
        out.write(line + '\n{"id": 99999}\n')

    result = run("import", file, "people", people)
    message = error_of(result)

    assert (1, "") == (result.exit_code, result.stdout)
    assert message.startswith(f"{people}, line 2501: ")
    assert reason in message
    assert message.endswith("2,000 documents of the lines before are stored, and --resume goes on after them")
    assert 2000 == len(documents(file, "people"))


def test_a_line_that_is_not_utf_8_is_named(file, tmp_path):
    (tmp_path / "x.jsonl").write_bytes(b'{"id": 1}\n{"id": "\xff"}\n')

    message = error_of(run("import", file, "people", tmp_path / "x.jsonl"))

    assert message.endswith("x.jsonl, line 2: not UTF-8: byte 9 of the line; nothing was stored")


def test_a_line_without_end_is_refused_before_it_fills_the_memory(file, monkeypatch):
    monkeypatch.setattr(import_, "LONGEST_LINE_BYTES", 100)

    message = error_of(run("import", file, "people", input='{"id": 1}\n{"id": "' + "x" * 100))

    assert "standard input, line 2: longer than 100 bytes; nothing was stored" == message


def test_blank_lines_and_a_byte_order_mark_are_passed_over(file):
    done(run("import", file, "people", input=b'\xef\xbb\xbf{"id": 1}\n\n  \n{"id": 2}'))

    assert [{"id": 1}, {"id": 2}] == documents(file, "people")


@pytest.mark.parametrize(
    ("conflict", "stored", "counted"),
    [("replace", {"id": 1, "b": 2}, "1 replaced"), ("update", {"id": 1, "a": 1, "b": 2}, "1 replaced")],
)
def test_a_taken_key_is_what_conflict_says(file, conflict, stored, counted):
    fill(file, [{"id": 1, "a": 1}])

    result = done(run("import", file, "people", "--conflict", conflict, input='{"id": 1, "b": 2}\n'))

    assert [stored] == documents(file, "people")
    assert counted in result.stdout


def test_documents_without_a_key_get_one(file):
    done(run("import", file, "people", input='{"name": "Bob"}\n'))

    (document,) = documents(file, "people")
    assert ("Bob", 36) == (document["name"], len(document["id"]))


def test_nothing_is_something_too(file):
    assert (
        "imported 0 documents into people: nothing to do; seq 1\n"
        == done(run("import", file, "people", input="")).stdout
    )


# ---------------------------------------------------------------------------------------------------------------
# CSV


def test_csv_cells_have_the_types_that_they_show(file):
    done(run("import", file, "people", "--format", "csv", input="id,zip,price,ok,note\n1,01234,1.5,true,\n"))

    assert [{"id": 1, "zip": "01234", "price": 1.5, "ok": True}] == documents(file, "people")


def test_csv_columns_can_be_declared(file):
    done(
        run(
            *(
                "import",
                file,
                "people",
                "--format",
                "csv",
                "--strings",
                "--type",
                "price=decimal",
                "--type",
                "a=b=int",
            ),
            input="id,price,a=b\n1,1.50,007\n",
        )
    )

    assert [{"id": "1", "price": Decimal("1.50"), "a=b": 7}] == documents(file, "people")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,a\n1,2\n3\n", "line 3: 1 cells, but the header has 2"),
        ('id,a\n1,"x\ny"\n2,3,4\n', "line 4: 3 cells"),
        ('id,a\n1,"x\n', "line 2: not CSV"),
        ("id,\n1,2\n", "line 1: column 2 has no name"),
        ("id,id\n1,2\n", "line 1: two columns have the name"),
        ("id,a\n1,2\n1,3\n", "line 3: Duplicate primary key"),
    ],
)
def test_a_bad_row_is_named_by_its_first_line(file, text, words):
    message = error_of(run("import", file, "people", "--format", "csv", input=text))

    assert message.startswith("standard input, " + words)
    assert message.endswith("; nothing was stored")


@pytest.mark.parametrize("declared", ["price", "price=money", "=int"])
def test_a_declaration_is_column_and_type(file, declared):
    assert 2 == run("import", file, "people", "--format", "csv", "--type", declared, input="").exit_code


def test_a_declared_column_must_be_there(file):
    message = error_of(
        run("import", file, "people", "--format", "csv", "--type", "price=int", input="id\n1\n")
    )

    assert "there is no column 'price'" in message


def test_excels_line_ends_and_byte_order_mark_are_understood(file):
    done(
        run(
            "import",
            file,
            "people",
            "--format",
            "csv",
            input=b'\xef\xbb\xbfid,a\r\n1,"x\r\ny"\r\n\r\n2,z\r\n',
        )
    )

    assert [{"id": 1, "a": "x\r\ny"}, {"id": 2, "a": "z"}] == documents(file, "people")


# ---------------------------------------------------------------------------------------------------------------
# Going on


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_an_import_goes_on_where_it_stopped(file, tmp_path, form):
    """After a line was corrected: nothing is lost, nothing comes twice."""
    source = tmp_path / f"people.{form}"
    header = ["id,text"] if form == "csv" else []
    row = '{n},"a\nb"' if form == "csv" else '{{"id": {n}, "text": "a\\nb"}}'
    good = [*header, *(row.format(n=n) for n in range(25))]
    source.write_text("\n".join([*good[:20], "{bad", *good[20:]]) + "\n")
    assert 1 == run("import", file, "people", source, "--batch", 7).exit_code
    stored = len(documents(file, "people"))
    assert 0 < stored < 20

    source.write_text("\n".join(good) + "\n")
    result = done(run("import", file, "people", source, "--batch", 7, "--resume", "--json"))

    assert [{"id": n, "text": "a\nb"} for n in range(25)] == documents(file, "people")
    assert 25 - stored == json.loads(result.stdout)["inserted"]


def test_a_finished_import_goes_on_with_what_was_appended(file, people):
    done(run("import", file, "people", people))
    with people.open("a") as out:
        out.write('\n{"id": 2501}\n')

    result = done(run("import", file, "people", people, "--resume"))

    assert "imported 1 document into people after line 2,500: 1 inserted; seq 2502\n" == result.stdout


def test_standard_input_can_be_resumed_too(file, people):
    done(run("import", file, "people", input=people.read_bytes()[:1000].rpartition(b"\n")[0]))
    done(run("import", file, "people", "--resume", input=people.read_bytes()))

    assert 2500 == len(documents(file, "people"))


def test_another_source_of_the_same_name_is_refused(file, people):
    done(run("import", file, "people", people))
    people.write_text(people.read_text().replace("p1500", "other"))

    result = run("import", file, "people", people, "--resume")

    assert (
        "the source differs from the imported part up to line 2500 at seq 2501: it has changed"
        == error_of(result)
    )


def test_a_source_that_became_shorter_is_refused(file, people):
    done(run("import", file, "people", people))
    people.write_text('{"id": 1}\n')

    assert error_of(run("import", file, "people", people, "--resume")).endswith("it ends at line 1")


def test_the_first_import_may_be_resumed_and_begins_at_the_first_line(file, people):
    result = run("import", file, "people", people, "--resume")

    assert "imported 2,500 documents into people: 2,500 inserted; seq 2501" == result.stdout.strip()
    assert (
        "reactdb: no earlier import of people.jsonl into table people: it begins at the first line"
        == result.stderr.strip()
    )


def test_an_import_whose_position_may_have_been_removed_is_not_begun_again(file, people):
    done(run("import", file, "people", people))
    with reactdb.connect(file) as db:
        db.compact(0)

    message = error_of(run("import", file, "people", people, "--resume"))

    assert message.startswith(
        "the log knows of no import of people.jsonl into table `people`, and its beginning was removed"
    )


def test_a_position_is_found_under_many_other_changes(file, people):
    done(run("import", file, "people", people))
    with reactdb.connect(file) as db:
        db.table("people").insert([{"id": f"x{n}"} for n in range(3 * import_.SEARCH_CHANGES)])
        db.table_create("other").insert([{"id": n} for n in range(import_.SEARCH_CHANGES)])

        found = import_.last_position(db, "people", "people.jsonl")

    assert (2500, 2501) == (found.line, found.seq)


def test_a_long_name_fits_into_an_origin(file, tmp_path):
    source = tmp_path / ("n" * 240 + ".jsonl")
    source.write_text('{"id": 1}\n')
    done(run("import", file, "people", source))

    assert "0 documents" in done(run("import", file, "people", source, "--resume")).stdout


def test_ctrl_c_keeps_whole_batches(file):
    """A real process, interrupted when it has stored two batches and waits for the rest of a third."""
    command = [sys.executable, "-m", "reactdb.cli", "import", str(file), "people", "--batch", "2"]
    with (
        reactdb.connect(file, durability="soft") as db,
        db.table("people").changes().cursor() as heard,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process,
    ):
        assert process.stdin is not None
        try:
            process.stdin.write(b"".join(b'{"id": %d}\n' % n for n in range(5)))
            process.stdin.flush()
            for _ in range(4):
                heard.next(timeout=60)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()

    assert (130, b"") == (process.returncode, out)
    assert err.splitlines()[-1].startswith(
        b"reactdb: interrupted; 4 documents of the lines before are stored"
    )
    assert 4 == len(documents(file, "people"))


def test_ctrl_c_after_a_commit_counts_what_was_committed(file, monkeypatch):
    write = import_.write

    def struck(*arguments):
        write(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(import_, "write", struck)
    result = run("import", file, "people", "--batch", "2", input='{"id": 1}\n{"id": 2}\n{"id": 3}\n')

    assert 130 == result.exit_code
    assert error_of(result).startswith("interrupted; 2 documents of the lines before are stored")
    assert [1, 2] == [one["id"] for one in documents(file, "people")]


def test_ctrl_c_before_a_commit_counts_what_was_there_before(file, monkeypatch):
    write = import_.write

    def struck(database, table, group, *arguments):
        if group[0].what["id"] == 3:
            raise KeyboardInterrupt
        return write(database, table, group, *arguments)

    monkeypatch.setattr(import_, "write", struck)
    result = run("import", file, "people", "--batch", "2", input='{"id": 1}\n{"id": 2}\n{"id": 3}\n')

    assert error_of(result).startswith("interrupted; 2 documents of the lines before are stored")


def test_a_missing_file_is_told_how_to_be_made(tmp_path):
    error = error_of(run("import", tmp_path / "none.db", "people", input='{"id": 1}\n'))

    assert error.endswith("none.db: it does not exist; --create makes one, and the table in it")
    assert [] == list(tmp_path.iterdir())


def test_an_export_to_a_folder_that_is_missing_names_its_target(file, tmp_path):
    target = tmp_path / "missing" / "people.jsonl"

    assert f"{target}: No such file or directory" == error_of(run("export", file, "people", target))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a device that is full")
def test_an_export_to_a_full_disk_names_its_target(file):
    fill(file, [{"id": 1}])
    result = run("export", file, "people", "/dev/full")

    assert 1 == result.exit_code
    assert "/dev/full: No space left on device" == error_of(result)
