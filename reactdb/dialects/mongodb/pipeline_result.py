"""Aggregation: the results of a pipeline on a collection.

The leading `$match` of a pipeline, and a `$skip` there, are those of a find. All stages are in `stages`.

`$out` writes to a new collection, and then swaps it with the old one; `$merge` changes documents one by one. Either is one
commit.

Rule of this file: it connects a pipeline with its source, and `$out` and `$merge` with their target.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from sys import maxsize
from typing import Any, Final
from uuid import uuid4

from bson.objectid import ObjectId

from reactdb.dialects.mongodb.bson_order import MISSING, equal
from reactdb.dialects.mongodb.collation import SIMPLE, expand_collation, simple, text_key
from reactdb.dialects.mongodb.collection import CollectionWork
from reactdb.dialects.mongodb.counts import counting_stages
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.find import FilterSelection
from reactdb.dialects.mongodb.indexes import indexes_of
from reactdb.dialects.mongodb.names import MongoNamespace, namespace_of
from reactdb.dialects.mongodb.namespaces import Namespaces
from reactdb.dialects.mongodb.numeric import whole
from reactdb.dialects.mongodb.paths import ends, split
from reactdb.dialects.mongodb.stages import MergeTarget, Pipeline, Setting
from reactdb.dialects.mongodb.transactions import Transaction, check_in_transaction
from reactdb.dialects.mongodb.variables import values_of
from reactdb.dialects.mongodb.view_graph import MOST_VIEWS, check_views, too_deep

__all__ = ["aggregate", "check_pipeline"]

Document = dict[str, Any]

_WITHOUT_COLLECTION: Final = frozenset(
    {"$documents", "$currentOp", "$listSessions", "$listLocalSessions", "$changeStream"}
)


def aggregate(
    spaces: Namespaces,
    namespace: MongoNamespace,
    pipeline: Sequence[Mapping[str, Any]],
    *,
    variables: Mapping[str, Any] | None = None,
    collation: Any = None,
    transaction: Transaction | None = None,
    bypasses: bool = False,
    hint: Any = None,
) -> Iterator[Document]:
    """The results of a pipeline, lazily. With `$out` or `$merge`, everything is written at once.

    Args:
        namespace: A collection, or a database for a pipeline with its own documents.
        variables: `let`: constants and expressions by name.
        collation: A collation's document; None for the collation of the collection or view.
        bypasses: Writes of `$out` and `$merge` are not validated.
        hint: The index of the collection for reading documents in its order.

    Raises:
        MongoError: The pipeline is invalid: 73, it needs a collection; 263, it cannot be in a transaction; 165, views are nested
            too deeply, or in a circle.
    """
    if transaction is not None:
        check_in_transaction(namespace)
    if namespace.coll is not None:
        collation = CollectionWork(spaces, namespace, transaction).collation(collation)
        _check_view(spaces, namespace, collation)
    requested, depth = namespace, 0
    while namespace.coll is not None and (view := spaces.view(namespace)) is not None:
        depth += 1
        if depth > MOST_VIEWS:
            raise too_deep()
        namespace, pipeline = view[0], [*view[1], *pipeline]
    text = text_key(collation)
    values = values_of(variables, spaces.clock, pipeline) or {"NOW": spaces.clock.now()}
    beside = _Beside(spaces, namespace, transaction, bypasses)
    setting = Setting(beside, str(namespace), values, text)
    first = next(iter(pipeline[0])) if pipeline and isinstance(pipeline[0], Mapping) and pipeline[0] else None
    compiled = Pipeline(pipeline, setting)
    if setting.reads:
        # Before the first read: a circle of views has no end.
        check_views(spaces, [*map(namespace_of, setting.reads), *([requested] if depth else ())])
    if compiled.writes and transaction is not None:
        stage = next(iter(pipeline[-1]))
        raise MongoError(263, f"Cannot run '{stage}' in a multi-document transaction.")
    if first in _WITHOUT_COLLECTION:
        if namespace.coll is not None:
            raise MongoError(73, f"{first} must be run against the whole database with {{aggregate: 1}}")
        return compiled.run(iter(()))
    if namespace.coll is None:
        raise MongoError(73, "{aggregate: 1} is not valid for a pipeline that does not begin with $documents")
    work = CollectionWork(spaces, namespace, transaction)
    given = pipeline[0]["$match"] if first == "$match" else {}
    rest = pipeline[1:] if first == "$match" else pipeline
    selection = FilterSelection(given, variables=values, collation=text) if given else FilterSelection({})
    counting = counting_stages(rest)
    count = None if counting is None else work.count_matches(selection, hint)
    if counting is not None and count is not None:
        return Pipeline(rest[counting.number :], setting).run(counting.documents(count))
    skip = 0
    while rest and "$skip" in rest[0]:
        skip, rest = min(skip + int(whole(rest[0]["$skip"]) or 0), maxsize), rest[1:]
    documents = work.along(selection, hint, skip)
    return (compiled if rest is pipeline else Pipeline(rest, setting)).run(documents)


def _check_view(spaces: Namespaces, namespace: MongoNamespace, collation: Any) -> None:
    """Raises: MongoError: 167, a view is read by another collation than its own."""
    if spaces.view(namespace) is None:
        return
    own = simple(spaces.collation(namespace))
    requested = simple(collation)
    if (own and expand_collation(own)) != (requested and expand_collation(requested)):
        raise MongoError(167, f"Cannot override a view's default collation: {namespace}")


def check_pipeline(
    spaces: Namespaces,
    pipeline: Sequence[Mapping[str, Any]],
    *,
    variables: Mapping[str, Any] | None = None,
    collation: Any = None,
) -> None:
    """
    Raises:
        MongoError: As `aggregate` would, before it reads anything.
    """
    values = values_of(variables, spaces.clock, pipeline) or {"NOW": spaces.clock.now()}
    Pipeline(pipeline, Setting(variables=values, text=text_key(collation)))


class _Beside:
    """The collections of a file, for stages that read or write other collections."""

    def __init__(
        self, spaces: Namespaces, namespace: MongoNamespace, transaction: Transaction | None, bypasses: bool
    ) -> None:
        self._bypasses = bypasses
        self._spaces = spaces
        self._namespace = namespace
        self._transaction = transaction

    def documents(self, namespace: str) -> Iterable[Document]:
        """All documents of a collection; none if it does not exist."""
        target = namespace_of(namespace)
        if self._spaces.view(target) is not None:
            return aggregate(self._spaces, target, [], transaction=self._transaction)
        return CollectionWork(self._spaces, target, self._transaction).matching(FilterSelection({}))

    def replace(self, namespace: str, documents: Iterable[Document]) -> None:
        """Make a collection hold these documents and no others."""
        spaces, target = self._spaces, namespace_of(namespace)
        given = list(documents)
        own = MongoNamespace(target.db, f"tmp.agg_out.{uuid4()}")
        with spaces.session.transaction():
            before = spaces.find(target)
            if before is not None and before.options.get("capped"):
                raise MongoError(17152, f"namespace '{target}' is capped so it can't be used for $out")
            spaces.create(own, {} if before is None else before.options)
            work = CollectionWork(spaces, own, bypasses=self._bypasses)
            if before is not None and before.indexes:
                work.create_indexes(before.indexes)
            if given:
                _check(work.insert(given))
            spaces.rename(own, target, drop_target=True)

    def merge(self, merging: MergeTarget, documents: Iterable[Document]) -> None:
        """Write each document into a collection."""
        spaces, target = self._spaces, namespace_of(merging.namespace)
        given = list(documents)
        with spaces.session.transaction():
            work = CollectionWork(spaces, target, bypasses=self._bypasses)
            if given and merging.when_not_matched == "insert":
                spaces.ensure(target)
            self._check_unique(merging, target)
            for document in given:
                _merge(work, merging, document)

    def _check_unique(self, merging: MergeTarget, target: MongoNamespace) -> None:
        if merging.on == ("_id",):
            return
        table = self._spaces.table(target)
        if table is None:
            raise MongoError(51183, "Cannot find index to verify that join fields will be unique")
        unique = [set(one.key) for one in indexes_of(table) if one.is_unique and not one.is_partial]
        if set(merging.on) not in unique:
            raise MongoError(51183, "Cannot find index to verify that join fields will be unique")

    def statistics(self, stage: str, spec: Mapping[str, Any]) -> Iterable[Document]:
        """The documents of `$collStats` and `$indexStats`; other such stages have none here."""
        if stage not in ("$collStats", "$indexStats"):
            return []
        work = CollectionWork(self._spaces, self._namespace)
        if stage == "$indexStats":
            since = self._spaces.clock.now()
            return [
                {"name": one["name"], "key": one["key"], "accesses": {"ops": 0, "since": since}, "spec": one}
                for one in work.list_indexes()
            ]
        if self._spaces.table(self._namespace) is None:
            raise MongoError(26, f"Collection [{self._namespace}] not found.")
        document: Document = {"ns": str(self._namespace), "localTime": self._spaces.clock.now()}
        if "count" in spec:
            document["count"] = work.count({})
        if "storageStats" in spec:
            own = self._spaces.find(self._namespace)
            document["storageStats"] = {
                "count": work.count({}),
                "nindexes": len(work.list_indexes()),
                **({"capped": False} if own is None else own.cap),
            }
        return [document]


def _check(answer: Mapping[str, Any]) -> None:
    """Raises: MongoError: A write failed."""
    for error in answer.get("writeErrors", ()):
        details = {name: error[name] for name in ("keyPattern", "keyValue", "errInfo") if name in error}
        raise MongoError(error["code"], error["errmsg"], **details)


def _merge(work: CollectionWork, merging: MergeTarget, document: Document) -> None:
    """Write one document of a `$merge`."""
    wanted: Document = {}
    has_id = "_id" in document
    if not has_id:
        document = {"_id": ObjectId(), **document}
    for path in merging.on:
        values = ends(document, split(path))
        if len(values) != 1 or isinstance(values[0], list):
            raise MongoError(51185, "$merge write error: 'on' field cannot be an array")
        wanted[path] = {"$eq": None if values[0] is MISSING else values[0]}
    matched = merging.when_matched
    there = next(work.find({"filter": wanted, "limit": 1, "collation": SIMPLE}), None)
    if there is None:
        if merging.when_not_matched == "fail":
            raise MongoError(
                13113,
                "$merge could not find a matching document in the target collection for at least one document",
            )
        if merging.when_not_matched == "insert":
            # The matching fields are written: null if the document lacks one.
            absent = {path: None for path in merging.on if path not in document and "." not in path}
            _check(work.insert([{**document, **absent}]))
        return
    if matched == "keepExisting":
        return
    if matched == "fail":
        _check(work.insert([document]))
        return
    if has_id and matched in ("replace", "merge") and not equal(document["_id"], there["_id"]):
        raise MongoError(66, "$merge failed to update the matching document: the _id field cannot be changed")
    statement: Document = {"q": {"_id": {"$eq": there["_id"]}}, "collation": SIMPLE}
    if matched == "replace":
        statement["u"] = {
            name: value for name, value in document.items() if name != "_id" or "_id" in merging.on
        }
        _check(work.update([statement]))
    elif matched == "merge":
        # A pipeline, so that change streams get the changed fields.
        statement["u"] = [{"$replaceWith": {"$mergeObjects": ["$$ROOT", "$$new"]}}]
        own = {name: value for name, value in document.items() if name != "_id"}
        _check(work.update([statement], variables=_literal({"new": own})))
    else:
        statement["u"] = matched
        given = {name: evaluate(document, {}) for name, evaluate in merging.variables.items()}
        _check(work.update([statement], variables=_literal({**given, "new": document})))


def _literal(values: Mapping[str, Any]) -> dict[str, Any]:
    """Variables with evaluated values: a text that begins with `$` is no field path."""
    return {name: {"$literal": value} for name, value in values.items() if value is not MISSING}
