"""The standing laws of CouchDB's dialect: whoever writes, natively, as a client or as a replicator, in whatever order,

- each document has the tree that a naive model of all revisions has, and the winner is what native readers see
- grafts give the same trees in any order, also where one database has them from another
- the log, hidden tables included, replays to the same trees; compaction changes none
- `_changes` read in any slices, also from the middle, is one read; and a live feed has told the newest of each document
"""

from __future__ import annotations

from typing import Any, ClassVar

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import reactdb
from reactdb.change import Change
from reactdb.dialects.couchdb.changes import ChangesRequest
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.couchdb.database import CouchDatabase
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.revisions import decode_leaves, decode_lineage
from reactdb.dialects.couchdb.states import tables_of
from reactdb.dialects.couchdb.trees import Leaf, Path, parse_rev
from reactdb.session import session_of
from reactdb.store.log import make_changes, read, read_low_water
from tests.laws.test_laws_couchdb_trees import NaiveTree, grafts, told
from tests.support.scaling import examples

IDS = ("a", "b")
Content = dict[str, Any]


def leaves_of(database: CouchDatabase, id: str) -> list[Leaf]:
    """The leaves of a document as the dialect tells them, the winner first."""
    try:
        found = database.open_revs(id, "all", revs=True)
    except CouchError:
        return []
    leaves = []
    for one in found:
        document = one["ok"]
        revisions = document.pop("_revisions")
        content = {name: value for name, value in document.items() if not name.startswith("_")}
        path = Path(revisions["start"], tuple(revisions["ids"]))
        leaves.append(Leaf(path, document.get("_deleted", False), content))
    return leaves


def graft_document(id: str, leaf: Leaf, content: Content) -> dict[str, Any]:
    revisions = {"start": leaf.path.start, "ids": list(leaf.path.ids)}
    return {"_id": id, "_revisions": revisions, "_deleted": leaf.is_deleted, **content}


def replayed(db: reactdb.Database, database: CouchDatabase) -> dict[Any, list[tuple[Any, ...]]]:
    """The leaves of each key, from nothing but the entries of the log."""
    documents: dict[tuple[str, bytes], Change] = {}
    with session_of(db).read() as snapshot:
        tables = tables_of(snapshot.catalogue, database.table_id)
        assert tables is not None
        names = {table.id: name for name, table in zip(tables._fields, tables, strict=True) if table}
        since, until = read_low_water(snapshot.connection), snapshot.seq
        assert since == 0
        while since < until:
            entries, since = read(snapshot.connection, snapshot.catalogue, since, until)
            for change in make_changes(entries, snapshot.catalogue):
                if change.table_id in names:
                    documents[names[change.table_id], change.key_bytes] = change
    found: dict[Any, list[tuple[Any, ...]]] = {}
    for (name, _), change in documents.items():
        if change.new_bytes is None:
            continue
        if name == "main":
            assert change.meta is not None
            assert change.new_val is not None
            lineage = decode_lineage(change.meta)
            fields = {field: value for field, value in change.new_val.items() if field != "_id"}
            found.setdefault(change.key, []).append((lineage.rev, False, fields))
        elif name in ("conflicts", "tombstones"):
            for leaf in decode_leaves(change.new_bytes):
                found.setdefault(change.key, []).append((leaf.lineage.rev, leaf.is_deleted, leaf.fields))
    return found


@settings(max_examples=examples(60), deadline=None)
@given(grafts(most=6), st.randoms(use_true_random=False))
def test_grafts_in_any_order_give_the_same_documents(parts: list[Leaf], random: Any) -> None:
    naive = NaiveTree()
    for part in parts:
        naive.add(part)
    with reactdb.connect(":memory:") as db:
        couch = Couch(db)
        for number in range(4):
            database = couch.create(f"d{number}")
            shuffled = random.sample(parts, len(parts))
            documents = [graft_document("a", part, {"is": part.content}) for part in shuffled]
            if number % 2:
                assert database.bulk_docs(documents, new_edits=False) == []
            else:
                for document in documents:
                    database.put(document, new_edits=False)
            leaves = leaves_of(database, "a")
            assert told(leaves) == naive.leaves()
            assert tuple(leaves[0].path.rev) == naive.winner()
            assert [leaf.content for leaf in leaves] == [{"is": str(tuple(leaf.path.rev))} for leaf in leaves]
            native = db.table(f"d{number}").run()
            expected = [] if leaves[0].is_deleted else [{"_id": "a", **leaves[0].content}]
            assert native == expected


class Revisions(RuleBasedStateMachine):
    """Two databases, whose documents are written in all ways and replicated between them."""

    is_file: ClassVar[bool] = False

    @initialize()
    def begin(self) -> None:
        self.db = reactdb.connect(":memory:")
        couch = Couch(self.db)
        self.databases = {name: couch.create(name) for name in ("left", "right")}
        self.trees = {(name, id): NaiveTree() for name in self.databases for id in IDS}
        self.contents: dict[str, dict[tuple[str, str], Content]] = {name: {} for name in self.databases}
        self.live = {
            name: self.databases[name].changes(ChangesRequest(style="all_docs")) for name in self.databases
        }
        self.seen: dict[str, dict[str, Any]] = {name: {} for name in self.databases}
        self.number = 0
        self.is_compacted = False

    def teardown(self) -> None:
        self.db.close()

    def fields(self) -> Content:
        self.number += 1
        return {"n": self.number}

    def learn(self, name: str, id: str, path: Path, content: Content, *, is_deleted: bool = False) -> None:
        self.trees[name, id].add(Leaf(path, is_deleted))
        self.contents[name].setdefault((id, str(path.rev)), content)

    def winner(self, name: str, id: str) -> Leaf | None:
        leaves = leaves_of(self.databases[name], id)
        return leaves[0] if leaves else None

    @rule(
        name=st.sampled_from(["left", "right"]),
        id=st.sampled_from(IDS),
        way=st.sampled_from(["native", "couch"]),
    )
    def write(self, name: str, id: str, way: str) -> None:
        fields = self.fields()
        before = self.winner(name, id)
        if way == "native":
            self.db.table(name).insert({"_id": id, **fields}, conflict="replace")
            rev = parse_rev(self.databases[name].get(id)["_rev"])
        else:
            document = {"_id": id, **fields}
            if before is not None and not before.is_deleted:
                document["_rev"] = str(before.path.rev)
            rev = parse_rev(self.databases[name].put(document)["rev"])
        path = Path(1, (rev.hash,))
        if before is not None:
            path = Path(before.path.start + 1, (rev.hash, *before.path.ids))
        assert path.rev == rev
        self.learn(name, id, path, fields)

    @rule(
        name=st.sampled_from(["left", "right"]),
        id=st.sampled_from(IDS),
        which=st.integers(0, 3),
        deletes=st.booleans(),
    )
    def change_a_leaf(self, name: str, id: str, which: int, deletes: bool) -> None:
        alive = [leaf for leaf in leaves_of(self.databases[name], id) if not leaf.is_deleted]
        if not alive:
            return
        leaf = alive[which % len(alive)]
        fields = self.fields()
        document = {"_id": id, "_rev": str(leaf.path.rev), "_deleted": deletes, **fields}
        rev = parse_rev(self.databases[name].put(document)["rev"])
        path = Path(leaf.path.start + 1, (rev.hash, *leaf.path.ids))
        self.learn(name, id, path, fields, is_deleted=deletes)

    @rule(name=st.sampled_from(["left", "right"]), id=st.sampled_from(IDS))
    def delete_natively(self, name: str, id: str) -> None:
        before = leaves_of(self.databases[name], id)
        if not before or before[0].is_deleted:
            return
        self.db.table(name).get(id).delete()
        for leaf in leaves_of(self.databases[name], id):
            assert leaf.is_deleted
            self.learn(name, id, leaf.path, leaf.content, is_deleted=True)
        # Each leaf has a child, or was deleted already; the model has a leaf more where one was passed over.
        assert len(leaves_of(self.databases[name], id)) <= len(before)

    @rule(source=st.sampled_from(["left", "right"]), depth=st.integers(1, 40))
    def replicate(self, source: str, depth: int) -> None:
        """All leaves of one database go to the other, with as many of their ancestors."""
        target = "right" if source == "left" else "left"
        for id in IDS:
            for leaf in leaves_of(self.databases[source], id):
                path = leaf.path.stem_to(depth)
                content = self.contents[source][id, str(leaf.path.rev)]
                given = graft_document(id, leaf._replace(path=path), content)
                assert self.databases[target].bulk_docs([given], new_edits=False) == []
                self.learn(target, id, path, content, is_deleted=leaf.is_deleted)

    @rule(name=st.sampled_from(["left", "right"]), most=st.integers(1, 3))
    def follow(self, name: str, most: int) -> None:
        for row in self.live[name].rows(most):
            self.seen[name][row["id"]] = row["changes"]

    @precondition(lambda self: not self.is_compacted)
    @rule()
    def compact(self) -> None:
        self.is_compacted = True
        for database in self.databases.values():
            database.compact()

    @invariant()
    def trees_are_those_of_the_model(self) -> None:
        for (name, id), naive in self.trees.items():
            database = self.databases[name]
            leaves = leaves_of(database, id)
            assert told(leaves) == naive.leaves()
            for leaf in leaves:
                assert leaf.content == self.contents[name][id, str(leaf.path.rev)]
            native = self.db.table(name).get(id).run()
            if not leaves or leaves[0].is_deleted:
                assert native is None
            else:
                assert native == {"_id": id, **leaves[0].content}
            if leaves:
                assert tuple(leaves[0].path.rev) == naive.winner()
                asked = [f"{generation}-{hash}" for generation, hash in naive.parents]
                assert database.revs_diff({id: asked}) == {}

    @invariant()
    def changes_in_slices_are_one_read(self) -> None:
        for database in self.databases.values():
            whole = database.changes(ChangesRequest(style="all_docs")).rows()
            assert {row["id"]: [one["rev"] for one in row["changes"]] for row in whole} == {
                id: [str(leaf.path.rev) for leaf in leaves]
                for id in IDS
                if (leaves := leaves_of(database, id))
            }
            sliced: list[Any] = []
            since = "0"
            while rows := (feed := database.changes(ChangesRequest(since, limit=1, style="all_docs"))).rows():
                sliced += rows
                since = feed.last_seq
            assert sliced == whole
            down = database.changes(ChangesRequest(descending=True, style="all_docs")).rows()
            assert down == whole[::-1]

    @invariant()
    def the_log_replays_to_the_trees(self) -> None:
        if self.is_compacted:
            return
        for database in self.databases.values():
            found = replayed(self.db, database)
            for id in IDS:
                leaves = leaves_of(database, id)
                expected = [(leaf.path.rev, leaf.is_deleted, leaf.content) for leaf in leaves]
                assert sorted(found.get(id, []), key=repr) == sorted(expected, key=repr)

    @invariant()
    def a_live_feed_has_told_the_newest(self) -> None:
        for name, database in self.databases.items():
            rest = database.changes(ChangesRequest(self.live[name].last_seq, style="all_docs")).rows()
            seen = self.seen[name] | {row["id"]: row["changes"] for row in rest}
            whole = database.changes(ChangesRequest(style="all_docs")).rows()
            assert seen == {row["id"]: row["changes"] for row in whole}


TestRevisions = Revisions.TestCase
TestRevisions.settings = settings(max_examples=examples(40), stateful_step_count=25, deadline=None)
