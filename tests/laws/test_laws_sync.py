"""The law of synchronisation: after it, both sides have the same revisions and the same documents.

Whoever wrote what, natively or as a client, on either side, in whatever order, and however often the two were synchronised
meanwhile or broken off.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb.database import Database
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.errors import SyncFailed
from reactdb.replication.local import LocalPeer
from reactdb.replication.peers import Bell, Subset
from reactdb.replication.replicator import Replicator, SyncProgress
from tests.support.scaling import examples

IDS = ["a", "b", "_design/d"]


class Breaking(LocalPeer):
    """A side that fails after so many writes."""

    def __init__(self, db: Database, writes: int) -> None:
        super().__init__(db, "notes")
        self.writes = writes

    def write(self, leaves: Any) -> list[dict[str, Any]]:
        self.writes -= 1
        if self.writes < 0:
            raise CouchError(403, "forbidden", "no more")
        return super().write(leaves)


def replicate(source: LocalPeer, target: LocalPeer) -> SyncProgress:
    replicator = Replicator(
        source,
        target,
        Subset(),
        Bell(),
        SyncProgress("push"),
        batch_size=2,
        retries=0,
        tell=lambda progress: None,
    )
    replicator.run(live=False, create=True)
    return replicator.progress


def synchronise(here: Database, there: Database) -> None:
    replicate(LocalPeer(there, "notes"), LocalPeer(here, "notes"))
    replicate(LocalPeer(here, "notes"), LocalPeer(there, "notes"))


def write(db: Database, kind: str, id: str, value: int) -> None:
    notes = Couch(db).open("notes")
    table = db.table("notes")
    if kind == "native":
        table.insert({"_id": id, "n": value}, conflict="replace")
    elif kind == "native delete":
        table.get(id).delete()
    elif kind == "attach":
        try:
            rev = notes.get(id)["_rev"]
        except CouchError:
            return
        notes.put_attachment(id, "f", b"%d" % value, "text/plain", rev)
    else:
        leaves = [] if not known(db, id) else notes.open_revs(id, "all")
        live = [leaf["ok"] for leaf in leaves if not leaf["ok"].get("_deleted")]
        # The leaf that loses, if there is one.
        base = {"_id": id} if not live else {"_id": id, "_rev": live[-1]["_rev"]}
        notes.put({**base, "n": value, **({"_deleted": True} if kind == "delete" and live else {})})


def known(db: Database, id: str) -> bool:
    try:
        Couch(db).open("notes").open_revs(id, "all")
    except CouchError:
        return False
    return True


def state(db: Database) -> dict[str, Any]:
    notes = Couch(db).open("notes")
    return {id: notes.open_revs(id, "all", revs=True, attachments=True) for id in IDS if known(db, id)}


def documents(db: Database) -> list[Any]:
    return sorted(({**row} for row in db.table("notes")), key=lambda row: str(row["_id"]))


KINDS = ["native", "native", "native delete", "attach", "put", "delete"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["here", "there"]), st.sampled_from(KINDS), st.sampled_from(IDS), st.integers(0, 2)
    )
    | st.sampled_from(["synchronise", "break off"]),
    max_size=14,
)


@settings(max_examples=examples(150))
@given(STEPS)
def test_after_a_synchronisation_both_sides_are_equal(steps):
    with reactdb.connect(":memory:") as here, reactdb.connect(":memory:") as there:
        sides = {"here": here, "there": there}
        for db in sides.values():
            Couch(db).create("notes")
        for number, step in enumerate(steps):
            if step == "synchronise":
                synchronise(here, there)
            elif step == "break off":
                try:
                    replicate(LocalPeer(here, "notes"), Breaking(there, number % 2))
                except SyncFailed:
                    pass
            else:
                side, kind, id, value = step
                write(sides[side], kind, id, value)

        synchronise(here, there)

        assert state(here) == state(there)
        assert documents(here) == documents(there)
        again = replicate(LocalPeer(here, "notes"), LocalPeer(there, "notes"))
        assert 0 == again.docs_read
