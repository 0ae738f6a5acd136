"""Write hooks as dialects have them: a counter of revisions, the journal of what was superseded, and what was asked."""

from __future__ import annotations

from reactdb.change import DELETE, Change, HiddenTable
from reactdb.database import Database
from reactdb.errors import UsageError
from reactdb.query import Query
from reactdb.session import live_table, session_of
from reactdb.store.hooks import Derived, Draft, register_hook
from reactdb.store.snapshot import read_all_changes
from reactdb.table import Table
from reactdb.values import codec

REVISIONS = "tests.revisions"
JOURNALLED = "tests.journalled"
JOURNAL = HiddenTable("tests", "journal")


class Conflict(UsageError):
    """The write asked for the revision after another one than the newest."""


def revisions(draft: Draft) -> Derived:
    """Each version of a document counts one more than the one before, also across deletions: `number-fields of the document`.

    A write may ask for a revision of its own (`{"as": b"..."}`), or that the newest one is what it saw (`{"after": b"..."}`).
    """
    asked = draft.asked or {}
    if "as" in asked:
        return Derived(asked["as"])
    if "after" in asked and asked["after"] != draft.old_meta:
        raise Conflict(f"the newest revision is {draft.old_meta!r}, not {asked['after']!r}")
    return Derived(revision(draft.old_meta, draft.new_bytes))


def revision(old_meta: bytes | None, body: bytes | None) -> bytes:
    number = 0 if old_meta is None else int(old_meta.partition(b"-")[0])
    return b"%d-%d" % (number + 1, 0 if body is None else len(codec.decode(body)))


def journalled(draft: Draft) -> Derived:
    """The same, and the last revision of every key, also of a deleted one, is in the hidden table `journal`."""
    derived = revisions(draft)
    journal = draft.beside(JOURNAL)
    # As CouchDB's dialect looks up the other branches of a document.
    before = draft.read_document(journal, draft.key_bytes)
    if before is not None and draft.old_meta not in (None, codec.decode(before)["revision"]):
        raise AssertionError(f"beside {draft.old_meta!r} is {codec.decode(before)}")
    kept = {"id": draft.key, "revision": derived.meta, "is_deleted": draft.kind == DELETE}
    return Derived(derived.meta, [(journal, draft.key_bytes, codec.encode(kept))])


register_hook(REVISIONS, revisions)
register_hook(JOURNALLED, journalled)


def set_hook(db: Database, table: str, hook: str | None) -> None:
    """Also one that this process does not know."""
    session_of(db).transact(lambda transaction: transaction.set_hook(live_table(transaction, table), hook))


def make_journal(db: Database) -> None:
    """The table that `journalled` writes to."""
    session_of(db).make_hidden(JOURNAL)


def journal_of(db: Database) -> Table:
    return Table(session_of(db), Query(JOURNAL))


def whole_log(db: Database, since: int = 0) -> list[Change]:
    """The log with the changes of hidden tables, which `db.log` leaves out."""
    with session_of(db).read() as snapshot:
        return list(read_all_changes(snapshot, since))
