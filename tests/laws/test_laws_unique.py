"""Unique indexes against a model, over all ways in: a commit is there whole and has no duplicates, or is not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

import reactdb
from reactdb.dialects.aidbox.errors import AidboxError
from reactdb.dialects.couchdb.couch import Couch
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.errors import DuplicateIndexKey
from reactdb.store import unique
from tests.support.law_machine import Abandoned, LawMachine
from tests.support.scaling import examples

pytest.importorskip("pymongo")
r = pytest.importorskip("rethinkdb").RethinkDB()

KEYS = st.sampled_from("abcd")
MISSING = "missing"
EMAILS = st.sampled_from([MISSING, None, 1, 2, 3, "x"])
TAGS = st.lists(st.integers(0, 4), max_size=2)
FIELDS = st.builds(
    lambda email, tags: {"tags": tags} if email == MISSING else {"email": email, "tags": tags}, EMAILS, TAGS
)
STEPS = st.lists(st.tuples(KEYS, st.none() | FIELDS), min_size=1, max_size=4)
Model = Mapping[str, dict[str, Any]]


def has_duplicates(model: Model) -> bool:
    emails = [one["email"] for one in model.values() if one.get("email") is not None]
    tags = [tag for one in model.values() for tag in set(one["tags"])]
    return len(set(emails)) < len(emails) or len(set(tags)) < len(tags)


def after(model: Model, steps: list[tuple[str, dict[str, Any] | None]]) -> dict[str, dict[str, Any]]:
    """The model after some steps; None deletes."""
    changed = dict(model)
    for key, fields in steps:
        if fields is None:
            changed.pop(key, None)
        else:
            changed[key] = fields
    return changed


class UniqueMachine(LawMachine):
    """`has_couch`: the table is a database of CouchDB's dialect; else a type of Aidbox's."""

    has_couch: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        name = "users" if self.has_couch else "User"
        if self.has_couch:
            Couch(self.db).create(name)
        else:
            self.db.table_create(name)
        self.table = self.db.table(name)
        self.key = self.table.primary_key
        self.table.index_create("email", unique=True)
        self.table.index_create("tags", multi=True, unique=True)
        self.model: dict[str, dict[str, Any]] = {}
        self.driver = reactdb.rethinkdb(self.db)
        self.mongodb = reactdb.mongodb(self.db)["reactdb"][name]

    def teardown(self) -> None:
        self.driver.close()
        super().teardown()

    def document(self, key: str, fields: dict[str, Any]) -> dict[str, Any]:
        return {self.key: key, **fields}

    def take_whole(self, steps: list[Any], write: Any, errors: Any = DuplicateIndexKey) -> None:
        """A write that is checked at its end."""
        wanted = after(self.model, steps)
        try:
            write()
        except errors:
            assert has_duplicates(wanted)
        else:
            assert not has_duplicates(wanted)
            self.model = wanted

    def take_each(self, steps: list[Any]) -> list[bool]:
        """A write whose documents are checked one by one. Returns whether each is taken."""
        taken = []
        for step in steps:
            wanted = after(self.model, [step])
            taken.append(not has_duplicates(wanted))
            if taken[-1]:
                self.model = wanted
        return taken

    @invariant()
    def the_documents_are_the_models(self) -> None:
        found = {
            one[self.key]: {name: value for name, value in one.items() if name in ("email", "tags")}
            for one in self.table
        }
        assert found == self.model
        assert not has_duplicates(found)

    # Native

    @rule(key=KEYS, fields=FIELDS, conflict=st.sampled_from(["replace", "callable"]))
    def insert(self, key: str, fields: dict[str, Any], conflict: str) -> None:
        given: Any = conflict if conflict == "replace" else lambda key, old, new: new
        document = self.document(key, fields)
        self.take_whole([(key, fields)], lambda: self.table.insert(document, conflict=given))

    @rule(given=st.dictionaries(KEYS, FIELDS, min_size=1))
    def insert_together(self, given: dict[str, Any]) -> None:
        new = {key: fields for key, fields in given.items() if key not in self.model}
        documents = [self.document(key, fields) for key, fields in new.items()]
        self.take_whole(list(new.items()), lambda: self.table.insert(documents))

    @rule(key=KEYS, fields=FIELDS)
    def replace(self, key: str, fields: dict[str, Any]) -> None:
        document = self.document(key, fields)
        self.take_whole([(key, fields)], lambda: self.table.get(key).replace(document))

    @rule(email=st.integers(1, 3))
    def update_all(self, email: int) -> None:
        steps = [(key, {**fields, "email": email}) for key, fields in self.model.items()]
        self.take_whole(steps, lambda: self.table.update({"email": email}))

    @rule()
    def rotate(self) -> None:
        """Each document gets the email of the next one, in one transaction."""
        emails = [fields.get("email") for fields in self.model.values()]
        steps = [
            (key, {**fields, "email": email})
            for (key, fields), email in zip(self.model.items(), emails[1:] + emails[:1], strict=True)
        ]
        self.transaction(steps, [])
        assert dict(steps) == self.model

    @rule(steps=STEPS, abandoned=STEPS)
    def transaction(self, steps: list[Any], abandoned: list[Any]) -> None:
        def write() -> None:
            with self.db.transaction():
                self.write_each(steps[:1])
                try:
                    with self.db.transaction():
                        self.write_each(abandoned)
                        raise Abandoned
                except Abandoned:
                    pass
                with self.db.transaction():
                    self.write_each(steps[1:])

        self.take_whole(steps, write)

    def write_each(self, steps: list[Any]) -> None:
        for key, fields in steps:
            if fields is None:
                self.table.get(key).delete()
            else:
                self.table.insert(self.document(key, fields), conflict="replace")

    @rule(key=KEYS)
    def delete(self, key: str) -> None:
        self.table.get(key).delete()
        self.model.pop(key, None)

    @rule(index=st.sampled_from(["email", "tags"]))
    def make_the_index_again(self, index: str) -> None:
        self.table.index_drop(index)
        self.table.index_create(index, multi=index == "tags", unique=True)

    # Dialects

    @rule(steps=st.lists(st.tuples(KEYS, FIELDS), min_size=1, max_size=3))
    def rethinkdb_insert(self, steps: list[Any]) -> None:
        given = [self.document(key, fields) for key, fields in steps]
        done = r.table(self.table.name).insert(given, conflict="replace").run(self.driver)
        assert self.take_each(steps).count(False) == done["errors"]

    @rule(key=KEYS, email=st.integers(1, 3))
    def rethinkdb_update(self, key: str, email: int) -> None:
        done = r.table(self.table.name).get(key).update({"email": email}).run(self.driver)
        if key in self.model:
            assert self.take_each([(key, {**self.model[key], "email": email})]) == [not done["errors"]]

    @rule(given=st.dictionaries(KEYS, FIELDS, min_size=1))
    def mongodb_insert_many(self, given: dict[str, Any]) -> None:
        from pymongo.errors import BulkWriteError

        new = [(key, fields) for key, fields in given.items() if key not in self.model]
        errors: list[Any] = []
        if new:
            try:
                self.mongodb.insert_many([{"_id": key, **fields} for key, fields in new], ordered=False)
            except BulkWriteError as error:
                errors = error.details["writeErrors"]
        failed = [one["index"] for one in errors if one["code"] == 11000]
        assert len(errors) == len(failed)
        assert [place not in failed for place in range(len(new))] == self.take_each(new)

    @rule(key=KEYS, fields=FIELDS)
    def mongodb_replace(self, key: str, fields: dict[str, Any]) -> None:
        from pymongo.errors import DuplicateKeyError

        def write() -> None:
            self.mongodb.replace_one({"_id": key}, fields, upsert=True)

        self.take_whole([(key, fields)], write, DuplicateKeyError)

    @precondition(lambda self: self.has_couch)
    @rule(steps=st.lists(st.tuples(KEYS, FIELDS), min_size=1, max_size=3, unique_by=lambda step: step[0]))
    def couchdb_bulk(self, steps: list[Any]) -> None:
        users = Couch(self.db)[self.table.name]
        given = []
        for key, fields in steps:
            known = {"_rev": users.get(key)["_rev"]} if key in self.model else {}
            given.append({"_id": key, **known, **fields})
        rows = users.bulk_docs(given)
        assert ["ok" in one for one in rows] == self.take_each(steps)
        assert {"forbidden"} >= {one["error"] for one in rows if "ok" not in one}

    @precondition(lambda self: self.has_couch)
    @rule(key=KEYS, fields=FIELDS)
    def couchdb_put(self, key: str, fields: dict[str, Any]) -> None:
        users = Couch(self.db)[self.table.name]
        known = {"_rev": users.get(key)["_rev"]} if key in self.model else {}
        self.take_whole([(key, fields)], lambda: users.put({"_id": key, **known, **fields}), CouchError)

    @precondition(lambda self: not self.has_couch)
    @rule(key=KEYS, fields=FIELDS)
    def aidbox_put(self, key: str, fields: dict[str, Any]) -> None:
        users = reactdb.aidbox(self.db)[self.table.name]
        self.take_whole([(key, fields)], lambda: users.put(key, fields), AidboxError)

    @precondition(lambda self: not self.has_couch)
    @rule(steps=st.lists(st.tuples(KEYS, FIELDS), min_size=1, max_size=3, unique_by=lambda step: step[0]))
    def aidbox_transaction(self, steps: list[Any]) -> None:
        name = self.table.name
        bundle = {
            "resourceType": "Bundle",
            "type": "transaction",
            "entry": [
                {
                    "resource": {"resourceType": name, **fields},
                    "request": {"method": "PUT", "url": f"/{name}/{key}"},
                }
                for key, fields in steps
            ],
        }
        self.take_whole(steps, lambda: reactdb.aidbox(self.db).bundle(bundle), AidboxError)


class UniqueOnFile(UniqueMachine):
    """And transactions forget claims all the time."""

    on_file = True

    def __init__(self) -> None:
        self.most_claims = unique.MOST_CLAIMS
        unique.MOST_CLAIMS = 1  # type: ignore[misc]
        super().__init__()

    def teardown(self) -> None:
        unique.MOST_CLAIMS = self.most_claims  # type: ignore[misc]
        super().teardown()


class UniqueWithCouch(UniqueMachine):
    has_couch = True


TestUnique = UniqueMachine.TestCase
TestUniqueOnFile = UniqueOnFile.TestCase
TestUniqueWithCouch = UniqueWithCouch.TestCase
TestUnique.settings = settings(max_examples=examples(100), stateful_step_count=20)
TestUniqueOnFile.settings = settings(max_examples=examples(60), stateful_step_count=20)
TestUniqueWithCouch.settings = settings(max_examples=examples(100), stateful_step_count=20)
