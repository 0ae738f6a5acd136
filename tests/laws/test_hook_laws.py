"""The standing law of write hooks: whatever writes, each version of a document has the metadata that follows from the versions
before, the log replays to it, and what the hook writes beside agrees with it.

The hook counts revisions, and keeps the last one of every key, also of a deleted one, in a table beside. Natively, as a dialect,
through the RethinkDB dialect, from the command line and through another engine on the same file: all write alike.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
import rethinkdb
from click.testing import CliRunner
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

import reactdb
from reactdb import row
from reactdb.change import REPLACE
from reactdb.cli import main
from reactdb.documents.write import Write
from reactdb.session import Session, session_of
from reactdb.testing import rethinkdb_connection
from reactdb.values import codec, collation
from tests.support.hooks import JOURNAL, JOURNALLED, Conflict, make_journal, revision, set_hook
from tests.support.law_machine import Abandoned, LawMachine
from tests.support.processes import another_process
from tests.support.scaling import examples

R = rethinkdb.r
KEYS = st.integers(0, 5)
NUMBERS = st.integers(0, 3)
WAYS = st.sampled_from(
    ["insert", "replace", "update", "add", "delete", "function", "large", "upsert", "wrong key"]
)


def write(table: Any, way: str, key: int, number: int) -> None:
    """Write natively, perhaps in vain."""
    document = {"id": key, "n": number}
    if way == "insert":
        table.insert(document)
    elif way == "replace":
        table.get(key).replace(document)
    elif way == "update":
        table.get(key).update({"n": number})
    elif way == "add":
        table.update({"n": row["n"] + number})
    elif way == "delete":
        table.filter(row["n"] == number).delete()
    elif way == "function":
        table.get(key).update(lambda found: {"m": found["n"]})
    elif way == "large":
        table.get(key).update({"text": "x" * 20_000})
    elif way == "upsert":
        table.insert([document, {"id": key + 1, "n": number}], conflict="update")
    else:
        table.get(key).update({"id": "other"})


def ask(session: Session, key: int, document: Any, asked: dict[str, bytes] | None) -> None:
    """Write as a dialect does."""
    place = collation.key_bytes(key)

    def work(write: Write) -> None:
        write.put_document(place, write.head(place), document, REPLACE, asked)

    session.write("games", work)


class HookLaws(LawMachine):
    def __init__(self) -> None:
        super().__init__()
        self.games = self.db.table_create("games")
        self.checked = self.db.seq
        self.given = 0
        # Of each key, the revision of its newest version, and the seq of that; and whether it is a deletion.
        self.newest: dict[bytes, tuple[bytes, int, bool]] = {}

    @initialize(before=st.lists(KEYS, unique=True))
    def found(self, before: list[int]) -> None:
        self.games.insert([{"id": key, "n": 0} for key in before])
        self.checked = self.db.seq
        make_journal(self.db)
        set_hook(self.db, "games", JOURNALLED)

    # -- writers

    @rule(way=WAYS, key=KEYS, number=NUMBERS)
    def natively(self, way: str, key: int, number: int) -> None:
        with suppress(reactdb.UsageError):
            write(self.games, way, key, number)

    @rule(keys=st.lists(st.integers(0, 40), min_size=2, max_size=20))
    def many(self, keys: list[int]) -> None:
        with suppress(reactdb.DuplicateKey):
            self.games.insert([{"id": key, "n": key % 4} for key in keys])

    @rule(steps=st.lists(st.tuples(WAYS, KEYS, NUMBERS, st.booleans()), max_size=6), is_kept=st.booleans())
    def in_a_transaction(self, steps: list[Any], is_kept: bool) -> None:
        with suppress(Abandoned), self.db.transaction():
            for way, key, number, is_part_kept in steps:
                with suppress(Abandoned, reactdb.UsageError), self.db.transaction():
                    write(self.games, way, key, number)
                    if not is_part_kept:
                        raise Abandoned
            if not is_kept:
                raise Abandoned

    @rule(key=KEYS, number=NUMBERS, is_in_transaction=st.booleans())
    def a_given_revision(self, key: int, number: int, is_in_transaction: bool) -> None:
        self.given += 1
        asked = {"as": b"%d-given" % (1_000 * self.given)}
        if is_in_transaction:
            with self.db.transaction():
                write(self.games, "replace", key, number)
                ask(session_of(self.db), key, {"id": key, "n": number}, asked)
        else:
            ask(session_of(self.db), key, {"id": key, "n": number}, asked)

    @rule(key=KEYS, number=NUMBERS, is_known=st.booleans())
    def after_a_revision(self, key: int, number: int, is_known: bool) -> None:
        change = session_of(self.db).newest("games", collation.key_bytes(key))
        known = None if change is None else change.meta
        asked = {"after": known if is_known else b"0-none"}
        if is_known:
            ask(session_of(self.db), key, {"id": key, "n": number}, asked)
            return
        with pytest.raises(Conflict):
            ask(session_of(self.db), key, {"id": key, "n": number}, asked)

    @rule(key=KEYS, number=NUMBERS, conflict=st.sampled_from(["error", "replace", "update"]))
    def through_the_rethinkdb_dialect(self, key: int, number: int, conflict: str) -> None:
        games = R.db("test").table("games")
        with rethinkdb_connection(self.db) as connection:
            games.insert([{"id": key, "n": number}, {"id": 50 + key}], conflict=conflict).run(connection)
            games.get(key).update({"m": number}).run(connection)
            games.get(number).delete().run(connection)

    @precondition(lambda self: self.on_file)
    @rule(way=WAYS, key=KEYS, number=NUMBERS)
    def in_another_process(self, way: str, key: int, number: int) -> None:
        with another_process(self.path) as other, suppress(reactdb.UsageError):
            write(other.table("games"), way, key, number)

    @precondition(lambda self: self.on_file)
    @rule(keys=st.lists(KEYS, min_size=1, max_size=3), number=NUMBERS)
    def from_the_command_line(self, keys: list[int], number: int) -> None:
        lines = "".join(json.dumps({"id": key, "n": number}) + "\n" for key in keys)
        given = ["import", str(self.path), "games", "-", "--conflict", "replace"]
        done = CliRunner().invoke(main, given, input=lines)
        assert 0 == done.exit_code, done.output

    # -- what else happens to a file

    @precondition(lambda self: self.on_file)
    @rule()
    def reopen(self) -> None:
        self.db.close()
        self.db = reactdb.connect(self.path, durability="soft")
        self.games = self.db.table("games")

    @rule()
    def index(self) -> None:
        if "n" in self.games.index_list():
            self.games.index_drop("n")
        else:
            self.games.index_create("n")

    @rule(keep=st.integers(0, 20))
    def compact(self, keep: int) -> None:
        oldest = self.db.compact(keep=keep)["oldest"]
        # What was deleted so long ago begins anew when it comes back.
        self.newest = {key: one for key, one in self.newest.items() if not one[2] or one[1] > oldest}

    # -- laws

    @invariant()
    def each_version_follows_from_the_one_before(self) -> None:
        for change in self.db.log(self.checked, table="games"):
            before = self.newest.get(change.key_bytes)
            expected = revision(None if before is None else before[0], change.new_bytes)
            assert change.meta is not None
            assert change.meta == expected or change.meta.endswith(b"-given"), change
            self.newest[change.key_bytes] = change.meta, change.seq, change.new_bytes is None
        self.checked = self.db.seq

    @invariant()
    def the_head_of_each_key_has_it(self) -> None:
        for key, (meta, seq, _) in self.newest.items():
            newest = session_of(self.db).newest("games", key)
            assert newest is not None
            assert (seq, meta) == (newest.seq, newest.meta)

    @invariant()
    def what_was_written_beside_agrees(self) -> None:
        for key, (meta, _, is_deleted) in self.newest.items():
            beside = session_of(self.db).newest(JOURNAL, key)
            assert beside is not None
            assert beside.new_bytes is not None
            kept = codec.decode(beside.new_bytes)
            assert (meta, is_deleted) == (kept["revision"], kept["is_deleted"])


class FileLaws(HookLaws):
    on_file = True


TestInMemory = HookLaws.TestCase
TestInMemory.settings = settings(max_examples=examples(25), stateful_step_count=25)
TestOnFile = FileLaws.TestCase
TestOnFile.settings = settings(max_examples=examples(15), stateful_step_count=25)
