"""A file whose types and operations this process has not registered: nothing is lost, nothing is wrong, and the rest goes on."""

from __future__ import annotations

from pathlib import Path

import reactdb
from reactdb import json, row
from reactdb.expression import call
from reactdb.store.tools import doctor
from tests.support.processes import run_python
from tests.support.registered_types import Exact, Mark, Release

ANOTHER_PROCESS = """
import sys

import reactdb
from reactdb import json, row
from reactdb.store.tools import doctor
from reactdb.values.codec import UnknownValue

def refused(work, *arguments):
    try:
        work(*arguments)
    except reactdb.errors.IncompatibleFormat as error:
        return str(error)
    raise AssertionError("it was not refused")

db = reactdb.connect(sys.argv[1])
marked, indexed, computed, other = map(db.table, ("marked", "indexed", "computed", "other"))

# Read, shown, compared by other fields, changed, copied and exported: with the same bytes.
assert marked.get(1).run() == {"id": 1, "a": UnknownValue(96, b"abcd"), "n": 1}
assert [1, 2] == marked.order_by("n")["n"].run()
assert [2] == marked.filter(row["n"] > 1)["id"].run()
print(json.dumps(marked.get(2).run()))
seen = []
marked.changes().subscribe(seen.append)
marked.get(1).update({"n": 10})
other.insert([{**document, "id": f"copy of {document['id']}"} for document in marked])
assert [UnknownValue(96, b"abcd")] == [event["new_val"]["a"] for event in seen]

# Compared: refused, where the value must have a place.
TYPE = "extension type 96 is not registered in this process: import the module that registers it, first"
assert TYPE == refused(marked.filter(row["a"] == 1).run)
assert TYPE == refused(marked.order_by("a").run)
assert TYPE == refused(marked.index_create, "a")
assert [] == marked.index_list()

# Its key in an index: to write it needs its place, to read by another key does not.
assert [1] == [document["id"] for document in indexed.get_all("x", index="b")]
assert "extension type 97 is" in refused(indexed.get(1).update, {"b": "y"})
assert "extension type 97 is" in refused(indexed.get(1).delete)
indexed.insert({"id": 2, "a": 5, "b": "y"})
assert [2] == [document["id"] for document in indexed.get_all(5, index="a")]

# An operation of an index: the table can be read by all other ways, and not be written.
OPERATION = (
    "index `first`: the operation `acme.first` is not registered in this process: "
    "import reactdb.dialects.acme, or what else registers it, first"
)
assert [1, 2] == computed.order_by("id")["id"].run() == computed.filter(row["n"] > 0).order_by("id")["id"].run()
assert ["first", "n"] == computed.index_list()
assert "acme.first(row['a'])" == repr(db._session.info("computed").indexes["first"].expression)
before = db.seq
for work in (
    lambda: computed.insert({"id": 3}),
    lambda: computed.insert([{"id": 3}, {"id": 4}]),
    lambda: computed.get(1).update({"n": 7}),
    lambda: computed.delete(),
    lambda: computed.get_all(1, index="first").run(),
    lambda: computed.order_by(index="first").run(),
    lambda: computed.between(1, 2, index="first").changes().subscribe(print),
):
    assert OPERATION == refused(work), refused(work)
assert before == db.seq
with db.transaction():
    other.insert({"id": "kept"})
    assert OPERATION == refused(computed.insert, {"id": 3})
assert other.get("kept").run() is not None

# The log, the past and compaction treat bytes.
assert [UnknownValue(96, b"abcd")] == [
    change.new_val["a"] for change in db.log() if change.table == "marked" and change.key == 1
][:1]
assert {"id": 1, "a": UnknownValue(96, b"abcd"), "n": 1} == db.at(before - 4).table("marked").get(1).run()
db.compact(keep=1)
db.close()
found = [one for _, all in doctor.examine(sys.argv[1]) for one in all if one.check != "sqlite"]
assert [("warning", "indexes")] * 2 == [(one.level, one.check) for one in found], found
assert "table 'indexed' was not checked to its end: extension type 97 is" in found[0].message
assert "table 'computed' was not checked to its end: " + OPERATION == found[1].message
"""


def test_a_process_that_has_not_registered_them_goes_on_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "app.reactdb"
    with reactdb.connect(path) as db:
        marked, indexed, computed, _ = map(db.table_create, ("marked", "indexed", "computed", "other"))
        marked.insert([{"id": 1, "a": Mark(b"abcd"), "n": 1}, {"id": 2, "a": [Exact("01")], "n": 2}])
        indexed.index_create("a")
        indexed.index_create("b")
        indexed.insert({"id": 1, "a": Release(1, 10), "b": "x"})
        computed.index_create("first", call("acme.first", row["a"]))
        computed.index_create("n")
        computed.insert([{"id": 1, "a": Mark(b"\1bcd"), "n": 1}, {"id": 2, "a": Release(2, 0), "n": 2}])

    printed = run_python(ANOTHER_PROCESS, path)

    assert {"id": 2, "a": [Exact("01")], "n": 2} == json.loads(printed)
    with reactdb.connect(path) as db:
        assert {"id": 1, "a": Mark(b"abcd"), "n": 10} == db.table("marked").get(1).run()
        assert {"id": "copy of 2", "a": [Exact("01")], "n": 2} == db.table("other").get("copy of 2").run()
        assert [1] == db.table("computed").get_all(1, index="first")["id"].run()
        assert [1] == db.table("indexed").filter(row["a"] > Release(1, 9))["id"].run()
    assert [] == [one for _, found in doctor.examine(str(path)) for one in found if one.check != "sqlite"]


def test_a_process_that_imports_them_later_goes_on_with_the_file_that_it_has_open(tmp_path: Path) -> None:
    path = tmp_path / "app.reactdb"
    with reactdb.connect(path) as db:
        table = db.table_create("computed")
        table.index_create("first", call("acme.first", row["a"]))
        table.insert({"id": 1, "a": Mark(b"\1bcd")})

    printed = run_python(
        """
import sys
import reactdb

db = reactdb.connect(sys.argv[1])
table = db.table("computed")
try:
    table.insert({"id": 2})
except reactdb.errors.IncompatibleFormat:
    print("refused")
import tests.support.registered_types as acme
table.insert({"id": 2, "a": acme.Mark(b"\\2bcd")})
print(table.order_by(index="first")["id"].run())
""",
        path,
    )

    assert "refused\n[1, 2]\n" == printed
