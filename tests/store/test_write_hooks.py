"""Write hooks: what they are told, what they may do, and that no way of writing goes past them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb import row
from reactdb.change import DELETE, INSERT, REPLACE, UPDATE
from reactdb.documents.write import Policy, Write
from reactdb.errors import HookNotFound, UsageError
from reactdb.query import Query
from reactdb.session import session_of
from reactdb.store.hooks import Derived, Draft, register_hook
from reactdb.store.tools import doctor
from reactdb.store.transaction import LARGE_BYTES, WriteTransaction
from reactdb.values import codec, collation
from reactdb.values.blob import Blob
from tests.support.hooks import (
    JOURNAL,
    JOURNALLED,
    REVISIONS,
    Conflict,
    journal_of,
    make_journal,
    set_hook,
    whole_log,
)
from tests.support.processes import another_process
from tests.support.threads import from_threads

TOLD = "tests.told"
told: list[tuple[Any, ...]] = []


def tell(draft: Draft) -> Derived:
    told.append((draft.table.name, draft.key, draft.kind, draft.old, draft.old_meta, draft.new, draft.asked))
    return Derived(b"%d" % len(told))


register_hook(TOLD, tell)


@pytest.fixture
def hooked(db: Any) -> Any:
    """A table whose hook notes what it is told."""
    told.clear()
    table = db.table_create("games")
    set_hook(db, "games", TOLD)
    return table


@pytest.fixture
def counted(db: Any) -> Any:
    """A table whose documents have revisions."""
    table = db.table_create("games")
    set_hook(db, "games", REVISIONS)
    return table


@pytest.fixture
def journalled(db: Any) -> Any:
    """The same, and with each write the hook also writes to a hidden table."""
    table = db.table_create("games")
    make_journal(db)
    set_hook(db, "games", JOURNALLED)
    return table


def metas(db: Any) -> list[bytes | None]:
    return [change.meta for change in db.log() if change.catalogue is None]


def meta_of(db: Any, key: Any, table: str = "games") -> bytes | None:
    newest = session_of(db).newest(table, collation.key_bytes(key))
    return None if newest is None else newest.meta


def ask(db: Any, key: Any, document: Any, asked: Any, policy: Policy | None = None) -> dict[str, Any]:
    """A dialect's write of one document."""
    place = collation.key_bytes(key)

    def work(write: Write) -> None:
        write.put_document(place, write.head(place), document, REPLACE, asked)

    given = () if policy is None else (policy,)
    return session_of(db).write("games", work, *given)  # type: ignore[no-any-return]


class TestWhatAHookIsTold:
    def test_key_documents_and_the_metadata_before(self, hooked):
        hooked.insert({"id": 1, "n": 1})
        hooked.get(1).update({"n": 2})
        hooked.get(1).replace({"id": 1, "n": 3})
        hooked.get(1).delete()
        hooked.insert({"id": 1})

        assert told == [
            ("games", 1, INSERT, None, None, {"id": 1, "n": 1}, None),
            ("games", 1, UPDATE, {"id": 1, "n": 1}, b"1", {"id": 1, "n": 2}, None),
            ("games", 1, REPLACE, {"id": 1, "n": 2}, b"2", {"id": 1, "n": 3}, None),
            ("games", 1, DELETE, {"id": 1, "n": 3}, b"3", None, None),
            # The deletion is the version before.
            ("games", 1, INSERT, None, b"4", {"id": 1}, None),
        ]

    def test_inside_a_transaction_the_version_that_is_still_buffered(self, db, hooked):
        with db.transaction():
            hooked.insert({"id": 1})
            hooked.get(1).update({"n": 2})
            hooked.get(1).delete()
            hooked.insert({"id": 1, "n": 3})

        assert [None, b"1", b"2", b"3"] == [one[4] for one in told]
        assert [b"1", b"2", b"3", b"4"] == metas(db)

    def test_what_was_written_before_the_table_had_a_hook_has_no_metadata(self, db):
        told.clear()
        table = db.table_create("games")
        table.insert({"id": 1})
        set_hook(db, "games", TOLD)

        table.get(1).update({"n": 2})

        assert [("games", 1, UPDATE, {"id": 1}, None, {"id": 1, "n": 2}, None)] == told
        assert [None, b"1"] == metas(db)

    def test_nothing_of_a_document_that_stays_equal_unless_something_was_asked(self, db, hooked):
        hooked.insert({"id": 1, "n": 1})
        assert 1 == hooked.get(1).update({"n": 1})["unchanged"]
        assert 1 == len(told)

        assert 1 == ask(db, 1, {"id": 1, "n": 1}, "again")["replaced"]

        assert ("games", 1, REPLACE, {"id": 1, "n": 1}, b"1", {"id": 1, "n": 1}, "again") == told[-1]

    def test_time_origin_and_bytes(self, db):
        drafts: list[Draft] = []

        def keep(draft: Draft) -> Derived:
            drafts.append(draft)
            return Derived(None)

        register_hook("tests.kept", keep)
        table = db.table_create("games")
        set_hook(db, "games", "tests.kept")

        with db.transaction(origin="me"):
            table.insert({"id": 1})

        (change,) = db.log(table="games")
        assert (change.time, "me") == (drafts[0].time, drafts[0].origin)
        assert (collation.key_bytes(1), None, codec.encode({"id": 1})) == (
            drafts[0].key_bytes,
            drafts[0].old_bytes,
            drafts[0].new_bytes,
        )

    def test_a_key_that_is_taken_is_not_told(self, db, hooked):
        hooked.insert({"id": 1})
        for documents in ({"id": 1}, [{"id": 1}, {"id": 2}]):
            with pytest.raises(reactdb.DuplicateKey):
                hooked.insert(documents)

        assert 1 == len(told)
        assert [b"1"] == metas(db)


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "insert": lambda db, table: table.insert({"id": 9}),
    "insert of many": lambda db, table: table.insert([{"id": 9}, {"id": 10}]),
    "insert of very many": lambda db, table: table.insert([{"id": number} for number in range(100, 1_300)]),
    "insert, conflict replace": lambda db, table: table.insert({"id": 1, "n": 5}, conflict="replace"),
    "insert, conflict update": lambda db, table: table.insert({"id": 1, "m": 5}, conflict="update"),
    "insert, conflict callable": lambda db, table: table.insert(
        {"id": 1}, conflict=lambda key, old, new: {**old, "m": 1}
    ),
    "update": lambda db, table: table.get(1).update({"n": 7}),
    "update by an expression": lambda db, table: table.get(1).update({"n": row["n"] + 7}),
    "update by a function": lambda db, table: table.get(1).update(lambda document: {"n": 8}),
    "update of many": lambda db, table: table.update({"n": 9}),
    "replace": lambda db, table: table.get(1).replace({"id": 1, "x": 1}),
    "replace of many": lambda db, table: table.replace(lambda document: {**document, "x": 1}),
    "delete": lambda db, table: table.get(1).delete(),
    "delete of many": lambda db, table: table.delete(),
    "a large document": lambda db, table: table.get(1).update({"text": "x" * 2 * LARGE_BYTES}),
}


class TestEveryWayOfWriting:
    @pytest.mark.parametrize("way", WAYS)
    @pytest.mark.parametrize("is_inside", [False, True], ids=["alone", "in a transaction"])
    @pytest.mark.parametrize("has_index", [False, True], ids=["plain", "indexed"])
    def test_each_entry_has_what_the_hook_derived(self, db, counted, way, is_inside, has_index):
        counted.insert([{"id": 1, "n": 1}, {"id": 2, "n": 2}])
        if has_index:
            counted.index_create("n")
            set_hook(db, "games", REVISIONS)
        before = db.seq

        if is_inside:
            with db.transaction():
                WAYS[way](db, counted)
                counted.get(2).update({"last": True})
        else:
            WAYS[way](db, counted)

        assert db.seq > before
        assert_revised(db)

    @pytest.mark.parametrize("way", WAYS)
    def test_a_process_that_does_not_know_the_hook_writes_nothing(self, db, way):
        table = db.table_create("games")
        table.insert([{"id": 1, "n": 1}, {"id": 2, "n": 2}])
        set_hook(db, "games", "elsewhere.revisions")
        before = db.seq, table.order_by("id").run()

        with pytest.raises(HookNotFound) as caught:
            WAYS[way](db, table)

        assert (
            "Table `games` has the write hook `elsewhere.revisions`, which is unknown in this process: before a write, "
            "import the module that registers the hook (for reactdb's own dialects, `reactdb.dialects.elsewhere`)."
        ) == str(caught.value)
        assert before == (db.seq, table.order_by("id").run())


def assert_revised(db: Any) -> None:
    """Every entry of the table has the revision that follows from the entries before."""
    newest: dict[bytes, bytes | None] = {}
    for change in db.log(table="games"):
        number = int((newest.get(change.key_bytes) or b"0-").partition(b"-")[0]) + 1
        fields = 0 if change.new_bytes is None else len(change.new_val)
        newest[change.key_bytes] = b"%d-%d" % (number, fields)
        assert newest[change.key_bytes] == change.meta, change
    for place, revision in newest.items():
        assert revision == session_of(db).newest("games", place).meta


class TestSettingAHook:
    def test_binds_who_has_the_file_open_already(self, path):
        with reactdb.connect(path) as db, another_process(path) as other:
            table = db.table_create("games")
            other.table("games").insert({"id": 1})

            session_of(db).set_hook("games", REVISIONS)
            other.table("games").get(1).update({"n": 1})
            table.get(1).update({"n": 2})
            session_of(other).set_hook("games", None)
            table.get(1).update({"n": 3})

            assert [None, b"1-2", b"2-2", None] == [change.meta for change in db.log(table="games")]

    def test_outlives_the_process_and_a_new_name(self, path):
        with reactdb.connect(path) as db:
            db.table_create("games")
            session_of(db).set_hook("games", REVISIONS)
            session_of(db).transact(
                lambda change: change.rename_table(change.catalogue.live["games"], "plays")
            )
        with reactdb.connect(path) as db:
            db.table("plays").insert({"id": 1})
            db.table_create("games").insert({"id": 1})

            assert (REVISIONS, None) == (session_of(db).info("plays").hook, session_of(db).info("games").hook)
            assert b"1-1" == meta_of(db, 1, "plays")
            assert meta_of(db, 1, "games") is None

    def test_is_taken_back_with_its_transaction(self, db):
        table = db.table_create("games")
        with pytest.raises(ZeroDivisionError), db.transaction():
            session_of(db).set_hook("games", REVISIONS)
            table.insert({"id": 1})
            assert b"1-1" == meta_of(db, 1)
            raise ZeroDivisionError
        table.insert({"id": 1})

        assert meta_of(db, 1) is None

    def test_of_the_same_name_again_changes_nothing(self, path):
        with reactdb.connect(path) as db:
            db.table_create("games")
            session_of(db).set_hook("games", REVISIONS)
            before = session_of(db).engine.catalogue.version
            session_of(db).set_hook("games", REVISIONS)

            assert before == session_of(db).engine.catalogue.version

    def test_mistakes(self, db):
        with pytest.raises(HookNotFound):
            session_of(db).set_hook("games", "elsewhere.revisions")
        with pytest.raises(reactdb.TableNotFound):
            session_of(db).set_hook("games", REVISIONS)
        db.table_create("games")
        with pytest.raises(reactdb.errors.ReadOnlyDatabase):
            session_of(db.at(db.seq)).set_hook("games", REVISIONS)

        assert session_of(db).info("games").hook is None


def test_threads_that_share_a_commit(path: Path) -> None:
    with reactdb.connect(path) as db:
        table = db.table_create("games")
        set_hook(db, "games", REVISIONS)

        def write(number: int) -> None:
            for step in range(15):
                table.insert({"id": step % 4, "n": number}, conflict="replace")
                table.get(number % 4).update({"step": step, "by": number})
                table.get((number + step) % 4).delete()

        from_threads(8, write)
        assert_revised(db)


@pytest.mark.parametrize("is_deleted", [False, True])
def test_metadata_that_is_not_what_was_written_goes_into_no_revision(path: Path, is_deleted: bool) -> None:
    with reactdb.connect(path) as db:
        table = db.table_create("games")
        set_hook(db, "games", REVISIONS)
        table.insert([{"id": 1}, {"id": 2}])
        if is_deleted:
            table.get(1).delete()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE log SET meta = x'00' WHERE key = ?", (collation.key_bytes(1),))
    connection.commit()
    connection.close()

    with reactdb.connect(path) as db, pytest.raises(reactdb.CorruptDatabase, match="log entry"):
        db.table("games").get(1).replace({"id": 1, "n": 1})


class TestThatItCanStillBeRead:
    def test_without_the_hook(self, tmp_path):
        with reactdb.connect(tmp_path / "a.db") as db:
            table = db.table_create("games")
            set_hook(db, "games", REVISIONS)
            table.insert([{"id": 1}, {"id": 2}])
            table.get(1).update({"n": 1})
            set_hook(db, "games", "elsewhere.revisions")

            assert [{"id": 1, "n": 1}, {"id": 2}] == table.order_by("id").run()
            assert 3 == len(list(table.get(1).history())) + len(list(table.get(2).history()))
            with table.changes(include_initial=True).cursor() as cursor:
                assert {"id": 1, "n": 1} == cursor.next(timeout=5)["new_val"]
            db.compact(keep=0)
            assert 0 == table.get(3).delete()["deleted"]

        assert [] == [
            one
            for _, found in doctor.examine(str(tmp_path / "a.db"))
            for one in found
            if one.level == "problem"
        ]

    def test_in_the_past(self, db, counted):
        counted.insert({"id": 1})
        counted.get(1).update({"n": 1})
        counted.get(1).delete()

        found = [
            session_of(db.at(seq)).newest("games", collation.key_bytes(1))
            for seq in range(db.seq - 3, db.seq + 1)
        ]

        assert [None, b"1-1", b"2-2", b"3-0"] == [None if one is None else one.meta for one in found]

    def test_a_table_that_is_not_there(self, db):
        for session in (session_of(db), session_of(db.at(0))):
            with pytest.raises(reactdb.TableNotFound):
                session.newest("games", b"")

    def test_other_tables_can_be_written(self, db, counted):
        set_hook(db, "games", "elsewhere.revisions")
        db.table_create("plain").insert({"id": 1})

        assert [None] == metas(db)


class TestRefusing:
    def test_takes_back_this_write_and_no_other(self, db, journalled):
        with db.transaction():
            ask(db, 1, {"id": 1}, None)
            with pytest.raises(Conflict):
                ask(db, 2, {"id": 2}, {"after": b"3-3"})
            ask(db, 1, {"id": 1, "n": 1}, {"after": meta_of(db, 1)})

        assert [{"id": 1, "n": 1}] == journalled.run()
        assert [{"id": 1, "revision": b"2-2", "is_deleted": False}] == journal_of(db).run()
        assert [change.kind for change in db.log(table="games")] == ["insert", "replace"]

    def test_the_whole_statement_goes_natively(self, db):
        def refuse(draft: Draft) -> Derived:
            if draft.key == 3:
                raise Conflict("no third")
            return Derived(b"1")

        register_hook("tests.no_third", refuse)
        table = db.table_create("games")
        set_hook(db, "games", "tests.no_third")
        for documents in ([{"id": 1}, {"id": 2}, {"id": 3}], {"id": 3}):
            with pytest.raises(Conflict, match="no third"):
                table.insert(documents)

        # The table was made, and its hook set.
        assert ([], 2) == (table.run(), db.seq)

    def test_a_policy_that_counts_errors_counts_it(self, db, counted):
        class Counting(Policy):
            counts_errors = True

        counted.insert({"id": 1})

        found = ask(db, 1, {"id": 1, "n": 1}, {"after": b"9-9"}, Counting())

        assert (1, 0) == (found["errors"], found["replaced"])
        assert "the newest revision is b'1-1', not b'9-9'" == found["first_error"]
        assert [{"id": 1}] == counted.run()

    def test_what_is_beside_cannot_be_written_and_the_document_is_not_kept_without_it(self, db):
        """Whatever the policy: it is written after the document."""

        def lose(draft: Draft) -> Derived:
            lost = codec.encode({"id": draft.key, "content": Blob("0" * 64, 1)})
            return Derived(b"1", [(draft.beside("leaves"), draft.key_bytes, lost)])

        class Counting(Policy):
            counts_errors = True

        register_hook("tests.lose", lose)
        table = db.table_create("games")
        db.table_create("leaves")
        set_hook(db, "games", "tests.lose")
        made = db.seq
        for policy in (None, Counting()):
            with pytest.raises(reactdb.errors.BlobNotFound):
                ask(db, 1, {"id": 1}, None, policy)

        assert ([], made) == (table.run(), db.seq)

    def test_an_error_that_is_none_of_ours_takes_the_write_back(self, db):
        def fail(draft: Draft) -> Derived:
            raise ZeroDivisionError

        register_hook("tests.fail", fail)
        table = db.table_create("games")
        set_hook(db, "games", "tests.fail")
        with pytest.raises(ZeroDivisionError):
            table.insert({"id": 1})

        # The table was made, and its hook set.
        assert ([], 2) == (table.run(), db.seq)


class TestWhatIsAsked:
    def test_a_given_revision(self, db, counted):
        ask(db, 1, {"id": 1}, {"as": b"7-given"})
        counted.get(1).update({"n": 1})

        assert [b"7-given", b"8-2"] == metas(db)

    def test_the_same_document_with_another_revision_is_a_new_version(self, db, counted):
        counted.insert({"id": 1})
        found = ask(db, 1, {"id": 1}, {"as": b"7-given"})

        assert (1, 0) == (found["replaced"], found["unchanged"])
        assert [b"1-1", b"7-given"] == metas(db)
        assert b"7-given" == meta_of(db, 1)

    def test_the_same_document_with_the_same_revision_is_none(self, db, counted):
        counted.insert({"id": 1})
        found = ask(db, 1, {"id": 1}, {"as": b"1-1"})

        assert (0, 1) == (found["replaced"], found["unchanged"])
        assert [b"1-1"] == metas(db)

    @pytest.mark.parametrize("meta", [None, b"1"])
    def test_the_same_document_without_anything_new_is_no_version_but_what_is_beside_is_written(
        self, db, meta
    ):
        def beside(draft: Draft) -> Derived:
            if draft.asked is None:
                return Derived(b"1")
            kept = codec.encode({"id": draft.key, "lost": draft.asked})
            return Derived(meta, [(draft.beside("leaves"), draft.key_bytes, kept)])

        register_hook("tests.leaves", beside)
        table, leaves = db.table_create("games"), db.table_create("leaves")
        set_hook(db, "games", "tests.leaves")
        table.insert({"id": 1})
        events: list[Any] = []
        table.changes().subscribe(events.append)

        counts = ask(db, 1, {"id": 1}, "2-lost")

        assert [{"id": 1, "lost": "2-lost"}] == leaves.run()
        # With metadata, though the same, the dialect's feed hears that there is something beside.
        assert (int(meta is not None), int(meta is None)) == (counts["replaced"], counts["unchanged"])
        assert [b"1"] * (1 + (meta is not None)) == [change.meta for change in db.log(table="games")]
        assert [] == events

    def test_of_a_table_without_a_hook_nothing_can_be_asked(self, db):
        db.table_create("games")
        with pytest.raises(UsageError, match="table `games` has no write hook for the given argument"):
            ask(db, 1, {"id": 1}, {"as": b"1"})

        assert [] == metas(db)


class TestWritingBeside:
    def test_is_a_part_of_the_same_commit(self, db, journalled):
        journalled.insert([{"id": 1}, {"id": 2}])
        journalled.get(2).delete()

        assert [
            ("games", 1, 4),
            (JOURNAL, 1, 4),
            ("games", 2, 4),
            (JOURNAL, 2, 4),
            ("games", 2, 8),
            (JOURNAL, 2, 8),
        ] == [(change.table, change.key, change.commit) for change in whole_log(db, since=3)]
        assert [
            {"id": 1, "revision": b"1-1", "is_deleted": False},
            {"id": 2, "revision": b"2-0", "is_deleted": True},
        ] == journal_of(db).order_by("id").run()

    def test_is_taken_back_with_the_write(self, db, journalled):
        journalled.insert({"id": 1})
        with pytest.raises(ZeroDivisionError), db.transaction():
            journalled.insert({"id": 2})
            raise ZeroDivisionError
        with db.transaction():
            with pytest.raises(ZeroDivisionError), db.transaction():
                journalled.insert({"id": 3})
                raise ZeroDivisionError
            journalled.insert({"id": 4})

        assert [1, 4] == [one["id"] for one in journal_of(db).order_by("id").run()]

    def test_a_deletion_beside(self, db):
        def only_live(draft: Draft) -> Derived:
            body = None if draft.new is None else codec.encode({"id": draft.key})
            return Derived(None, [(draft.beside("live"), draft.key_bytes, body)])

        register_hook("tests.only_live", only_live)
        table = db.table_create("games")
        live = db.table_create("live")
        set_hook(db, "games", "tests.only_live")
        table.insert([{"id": 1}, {"id": 2}])
        table.get(1).delete()
        # What is equal already is not written again.
        table.get(2).update({"n": 1})

        assert [{"id": 2}] == live.run()
        assert 3 == len(list(db.log(table="live")))

    def test_the_hook_reads_what_it_wrote(self, db):
        def count(draft: Draft) -> Derived:
            totals = draft.beside("totals")
            stored = draft.read_document(totals, collation.key_bytes("all"))
            number = 1 if stored is None else codec.decode(stored)["number"] + 1
            total = codec.encode({"id": "all", "number": number})
            return Derived(b"%d" % number, [(totals, collation.key_bytes("all"), total)])

        register_hook("tests.total", count)
        table = db.table_create("games")
        totals = db.table_create("totals")
        set_hook(db, "games", "tests.total")
        with db.transaction():
            table.insert([{"id": 1}, {"id": 2}])
            table.insert({"id": 3})
        table.get(1).delete()

        assert [{"id": "all", "number": 4}] == totals.run()

    def test_a_table_that_is_not_there_or_has_a_hook_itself_is_refused(self, db, journalled):
        set_hook(db, JOURNAL, REVISIONS)
        drop = lambda transaction: transaction.drop_table(transaction.catalogue.live[JOURNAL])  # noqa: E731
        for change in (lambda: None, lambda: session_of(db).transact(drop)):
            change()
            set_hook(db, "games", JOURNALLED)
            with pytest.raises(UsageError) as caught:
                journalled.insert({"id": 1})
            assert (
                "the write hook `tests.journalled` of table `games` needs a table `journal of tests` without a hook"
            ) == str(caught.value)

        assert [] == journalled.run()


class TestBadHooks:
    @pytest.mark.parametrize("name", ["revisions", "Couch.revisions", "couchdb.", "a.b.c", "a b.c", ""])
    def test_a_name_is_two_words(self, name):
        with pytest.raises(UsageError, match="two words with a dot between"):
            register_hook(name, tell)

    def test_two_lambdas_of_a_module_are_two_functions(self):
        register_hook("tests.first_lambda", lambda draft: Derived(b"1"))
        with pytest.raises(
            UsageError, match=r"<lambda> in line \d+ already, and cannot be .*<lambda> in line"
        ):
            register_hook("tests.first_lambda", lambda draft: Derived(b"2"))

    def test_a_name_belongs_to_one_function(self):
        register_hook(TOLD, tell)
        with pytest.raises(UsageError) as caught:
            register_hook(TOLD, lambda draft: Derived(None))

        assert "the write hook `tests.told` is tests.store.test_write_hooks.tell already" in str(caught.value)

    @pytest.mark.parametrize("given", [b"1", None, (b"1", ()), Derived("1"), Derived(bytearray(b"1"))])
    def test_what_it_gives_is_checked(self, db, given):
        table = db.table_create("games")
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(reactdb.store.hooks._HOOKS, "tests.wrong", lambda draft: given)
            set_hook(db, "games", "tests.wrong")
            with pytest.raises(UsageError, match=r"give Derived\(meta\), with bytes or None for meta"):
                table.insert({"id": 1})

        assert [] == table.run()

    def test_it_must_not_write_itself(self, db):
        def write(draft: Draft) -> Derived:
            db.table("other").insert({"id": 1})
            return Derived(None)

        table = db.table_create("games")
        db.table_create("other")
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(reactdb.store.hooks._HOOKS, "tests.wrong", write)
            set_hook(db, "games", "tests.wrong")
            with pytest.raises(UsageError, match=r"the write hook `tests\.wrong` has written itself"):
                table.insert({"id": 1})

        assert [] == metas(db)


class TestFeeds:
    def again(self, db: Any, key: Any) -> None:
        """A new revision of the same document."""
        newest = session_of(db).newest("games", collation.key_bytes(key))
        ask(db, key, dict(newest.new_val), {"as": b"99-given"})

    @pytest.mark.parametrize(
        "selected",
        [
            lambda table: table,
            lambda table: table.get(1),
            lambda table: table.filter(row["n"] > 0),
            lambda table: table.order_by("n").limit(2),
            lambda table: table.sum("n"),
            lambda table: table.map(row["n"]),
        ],
        ids=["table", "point", "filter", "limit", "sum", "map"],
    )
    @pytest.mark.parametrize("is_resumed", [False, True], ids=["live", "from the log"])
    def test_tell_nothing_of_a_version_that_changed_only_metadata(self, db, counted, selected, is_resumed):
        counted.insert({"id": 1, "n": 1})
        start = db.seq
        events: list[Any] = []
        if not is_resumed:
            selected(counted).changes(include_seq=True).subscribe(events.append)

        self.again(db, 1)
        counted.get(1).update({"n": 2})
        if is_resumed:
            selected(counted).changes(include_seq=True, since=start).subscribe(events.append)

        assert [start + 2] == [event["seq"] for event in events]

    def test_tell_nothing_of_it_in_a_commit_that_does_more(self, db, counted):
        counted.insert({"id": 1, "n": 1})
        start = db.seq
        events: list[Any] = []
        counted.changes(include_seq=True).subscribe(events.append)

        with db.transaction():
            self.again(db, 1)
            counted.get(1).update({"n": 2})

        assert [start + 2] == [event["seq"] for event in events]

    @pytest.mark.parametrize("is_resumed", [False, True], ids=["live", "from the log"])
    def test_a_dialect_sees_the_metadata_of_each(self, db, counted, is_resumed):
        counted.insert({"id": 1, "n": 1})
        start = db.seq
        told: list[Any] = []
        given = {"include_meta": True, "include_seq": True}
        if not is_resumed:
            session_of(db).watch(Query("games"), given).subscribe(told.append)

        self.again(db, 1)
        counted.get(1).update({"n": 2})
        counted.get(1).delete()
        if is_resumed:
            session_of(db).watch(Query("games"), {**given, "since": start}).subscribe(told.append)

        document = {"id": 1, "n": 1}
        assert told == [
            {"old_val": document, "new_val": document, "seq": 4, "meta": b"99-given"},
            {"old_val": document, "new_val": {"id": 1, "n": 2}, "seq": 5, "meta": b"100-2"},
            {"old_val": {"id": 1, "n": 2}, "new_val": None, "seq": 6, "meta": b"101-0"},
        ]

    def test_one_with_and_one_without_do_not_share_a_view(self, db, counted):
        with_meta: list[Any] = []
        without: list[Any] = []
        counted.changes().subscribe(without.append)
        session_of(db).watch(Query("games"), {"include_meta": True}).subscribe(with_meta.append)
        counted.insert({"id": 1})

        self.again(db, 1)

        assert (2, 1) == (len(with_meta), len(without))

    def test_the_log_shows_it(self, db, counted):
        counted.insert({"id": 1})
        self.again(db, 1)

        assert [("insert", b"1-1"), ("replace", b"99-given")] == [
            (change.kind, change.meta) for change in counted.get(1).history()
        ]


def test_a_transaction_takes_a_document_for_a_key_whatever_is_there(path: Path) -> None:
    with reactdb.connect(path) as db:
        db.table_create("games")
        key, bodies = collation.key_bytes(1), [codec.encode({"id": 1, "n": number}) for number in range(2)]

        def work(transaction: WriteTransaction) -> list[bool]:
            table = transaction.catalogue.live["games"]
            given = (None, bodies[0], bodies[0], bodies[1], None, None, bodies[0])
            return [transaction.put(table, key, body) for body in given]

        assert [False, True, False, True, True, False, True] == session_of(db).transact(work)
        assert ["insert", "replace", "delete", "insert"] == [change.kind for change in db.log(table="games")]
