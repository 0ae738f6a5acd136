"""Laws of what MongoDB's filters say natively: it leads to whatever they match, and what serves a query changes no answer."""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from hashlib import sha256

import pytest
from bson import Binary, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st
from pymongo.errors import OperationFailure

import reactdb
from reactdb.dialects.mongodb import MongoError, natives
from reactdb.dialects.mongodb.entries import document_of
from reactdb.dialects.mongodb.filters import Filter
from reactdb.dialects.mongodb.find import FilterSelection, Scan, select
from reactdb.dialects.mongodb.ids import IdValue
from reactdb.dialects.mongodb.native_filters import native_conditions
from reactdb.dialects.mongodb.partial_index import implies
from reactdb.dialects.mongodb.query_plan import conditions_of, demands_field
from reactdb.dialects.mongodb.values import native_value, normalise
from reactdb.expression import row
from reactdb.session import session_of
from reactdb.values import codec, collation
from reactdb.values.blob import Blob
from tests.dialects.mongodb.documents import scalars
from tests.support.scaling import examples

pytestmark = pytest.mark.examples

BLOB = b"a blob"
OBJECT_ID = ObjectId(b"k" * 12)
DIGITS = "5." + "0" * 40
# Values that are near to each other, of the types of BSON.
NEAR = st.sampled_from(
    [
        *[0, -0.0, 1, 1.0, 5, Int64(5), 5.0, 5.5, Decimal128("5.00"), Decimal128("5.5"), 2**31, Int64(2**60)],
        *[float("nan"), float("inf"), Decimal128("-Infinity"), Decimal128("1E+6144"), Decimal128("1E-6176")],
        *[Decimal128("NaN"), Decimal128("sNaN")],
        *["", "a", "b", "2026-01-02", "01:02:03", True, False, None, OBJECT_ID, ObjectId(b"l" * 12)],
        *[datetime(2026, 1, 2), datetime(2026, 1, 2, microsecond=1_000), datetime.min],
        *[DatetimeMS(-(10**15)), DatetimeMS(10**15), datetime(9999, 12, 31, 23, 59, 59, 999_000)],
        *[b"a", Binary(b"a", 5), Binary(b"k" * 16, 4), MinKey(), MaxKey(), Timestamp(1, 2), Regex("a")],
    ]
)
# What BSON does not have, which a program may write.
BEYOND = st.sampled_from(
    [
        *[
            date(2026, 1, 2),
            time(1, 2, 3),
            timedelta(seconds=5),
            10**40,
            Decimal("1E+7000"),
            Decimal("1E-7000"),
        ],
        *[Decimal(DIGITS + "1"), Decimal(DIGITS[:-1]), Decimal("4." + "9" * 50), Decimal(1) / 3],
        datetime(2026, 1, 2, microsecond=1_999, tzinfo=UTC),
        datetime(1960, 1, 2, microsecond=1, tzinfo=UTC),
        Blob(sha256(BLOB).hexdigest(), len(BLOB)),
    ]
)
ONE = (NEAR | scalars()).map(lambda one: normalise({"": one})[""])
SCALARS = ONE.map(native_value) | BEYOND
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["b", "c"]), inner, max_size=2)
    ),
    max_leaves=4,
)
FIELDS = {"a": VALUES, "b": VALUES, "id": VALUES}
OPERATORS = st.sampled_from(["$eq", "$gt", "$gte", "$lt", "$lte", "$ne"])
CONDITIONS = st.one_of(
    ONE,
    st.builds(lambda operator, one: {operator: one}, OPERATORS, ONE),
    st.lists(ONE, max_size=3).map(lambda several: {"$in": several}),
    st.builds(lambda low, high: {"$gte": low, "$lt": high}, ONE, ONE),
    st.booleans().map(lambda is_there: {"$exists": is_there}),
    st.builds(lambda one, other: {"$not": {"$gt": one}, "$lte": other}, ONE, ONE),
    ONE.map(lambda one: {"$elemMatch": {"$gte": one}}),
)
PATHS = st.sampled_from(["a", "b", "_id", "id", "a.b", "a.0"])
SPECS = st.recursive(
    st.dictionaries(PATHS, CONDITIONS, min_size=1, max_size=3),
    lambda inner: st.builds(
        lambda name, parts: {name: parts},
        st.sampled_from(["$and", "$or"]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=3,
)


def filter_of(spec):
    """The filter, or None where it is none."""
    try:
        return Filter(normalise(spec))
    except MongoError:
        return None


class Table:
    """As much of a table as it takes to show a document."""

    def __init__(self, primary_key):
        self.primary_key = primary_key


IDS = ONE.map(native_value).filter(lambda one: not isinstance(one, (natives.Regex, natives.MinKey)))


@pytest.mark.slow
@given(
    st.fixed_dictionaries({}, optional=FIELDS),
    SCALARS | IDS.map(IdValue),
    SPECS,
    st.sampled_from(["_id", "id", "b"]),
)
@settings(max_examples=examples(1_500), deadline=None)
def test_native_ranges_lead_to_whatever_a_filter_matches(document, key, spec, primary_key):
    wanted = filter_of(spec)
    native = native_conditions(conditions_of(normalise(spec)), primary_key)
    if wanted is None or not native:
        return
    document = codec.decode(codec.encode({**document, primary_key: key}))
    if wanted.matches(document_of(Table(primary_key), codec.encode(document))):
        for said in native:
            data = collation.key_bytes(document[said.field])
            assert any(start <= data < stop for start, stop in said.ranges())


KEYS = st.sampled_from(
    [1, 2, 5, "a", "k", natives.ObjectId(b"k" * 12), [5, 1], IdValue(None), IdValue(float("inf"))]
)
DOCUMENTS = st.lists(
    st.tuples(KEYS | SCALARS, st.fixed_dictionaries({}, optional=FIELDS)), min_size=1, max_size=8
)


# What a partial index may be conditioned on, of few values, so that queries often imply it.
FEW = st.sampled_from([0, 1, 5, Int64(5), 5.0, 5.5, Decimal128("5.5"), "a", "b", "", True, False, OBJECT_ID])
SOME = FEW | NEAR
PART = st.one_of(
    SOME,
    st.builds(
        lambda operator, one: {operator: one}, st.sampled_from(["$eq", "$gt", "$gte", "$lt", "$lte"]), SOME
    ),
    st.lists(SOME, min_size=1, max_size=4).map(lambda several: {"$in": several}),
    st.builds(lambda low, high: {"$gte": low, "$lt": high}, SOME, SOME),
    st.just({"$exists": True}),
    st.sampled_from(["string", "number", "date"]).map(lambda name: {"$type": name}),
)
PARTIALS = st.recursive(
    st.dictionaries(st.sampled_from(["a", "b", "a.b"]), PART, max_size=2),
    lambda inner: st.builds(
        lambda name, parts: {name: parts},
        st.sampled_from(["$and", "$or"]),
        st.lists(inner, min_size=1, max_size=2),
    ),
    max_leaves=2,
)
QUERIES = st.one_of(
    PARTIALS,
    st.dictionaries(st.sampled_from(["a", "b", "a.b"]), PART | CONDITIONS, min_size=1, max_size=3),
    SPECS,
)


@given(DOCUMENTS, QUERIES, PARTIALS)
@settings(max_examples=examples(1_500), deadline=None)
def test_what_matches_a_query_that_implies_a_condition_passes_the_condition(stored, spec, partial):
    query, condition = filter_of(spec), filter_of(partial)
    if query is None or condition is None:
        return
    conditions = conditions_of(normalise(spec))
    if not implies(conditions, normalise(partial), False, lambda path: demands_field(path, conditions)):
        return
    for key, document in stored:
        try:
            native = codec.decode(codec.encode({**document, "_id": key}))
        except reactdb.ReactDBError:
            continue
        shown = document_of(Table("_id"), codec.encode(native))
        assert condition.matches(shown) or not query.matches(shown)


@given(DOCUMENTS, st.lists(QUERIES, min_size=1, max_size=4), PARTIALS, st.sampled_from(["a", "b", "a.b"]))
@settings(max_examples=examples(200), deadline=None)
def test_a_partial_index_changes_no_answer(stored, specs, partial, path):
    if filter_of(partial) is None:
        return
    with reactdb.connect(":memory:") as db:
        db.blobs.put(BLOB)
        table = db.table_create("shop.orders", primary_key="_id")
        table.insert([{**document, "_id": number} for number, (_, document) in enumerate(stored)])
        orders = reactdb.mongodb(db, datetime_conversion="DATETIME_AUTO")["shop"]["orders"]
        asked = [normalise(spec) for spec in [*specs, partial] if filter_of(spec) is not None]
        before = [[one["_id"] for one in orders.find(spec)] for spec in asked]
        sorted_before = [[one["_id"] for one in orders.find(spec).sort(path, 1)] for spec in asked]
        try:
            orders.create_index(path, partialFilterExpression=normalise(partial))
        except OperationFailure:
            return
        for spec, ids, in_order in zip(asked, before, sorted_before, strict=True):
            assert sorted(ids) == sorted(one["_id"] for one in orders.find(spec))
            assert in_order == [one["_id"] for one in orders.find(spec).sort(path, 1)]
            assert len(ids[:2]) == len(list(orders.find(spec).limit(2)))


INDEXES = {"a": row["a"], "b": row["b"], "_id": row["_id"], "both": [row["a"], row["b"]], "each": row["a"]}
INDEXES |= {"three": [row["b"], row["_id"], row["id"]], "inner": row["a"]["b"], "inners": row["b"]["0"]}
SEVERAL = st.builds(
    lambda one, other, more: {"a": one, "b": other, **more},
    CONDITIONS,
    CONDITIONS,
    st.dictionaries(PATHS, CONDITIONS, max_size=1),
)


@given(
    DOCUMENTS,
    st.lists(SPECS | SEVERAL, min_size=1, max_size=5),
    st.sampled_from(["_id", "id"]),
    st.sets(st.sampled_from([*INDEXES]), min_size=1),
)
@settings(max_examples=examples(500), deadline=None)
def test_native_indexes_change_no_answer(stored, specs, primary_key, names):
    with reactdb.connect(":memory:") as db:
        db.blobs.put(BLOB)
        table = db.table_create("shop.orders", primary_key=primary_key)
        for key, document in stored:
            try:
                table.insert({**document, primary_key: key}, conflict="replace")
            except reactdb.ReactDBError:
                # No primary key can be that.
                continue
        for name in names - {primary_key}:
            table.index_create(name, INDEXES[name], multi=name in ("each", "inners"))
        with session_of(db).read() as snapshot:
            info = snapshot.table("shop.orders")
            everything = [document for _, document in select(snapshot, info, (), FilterSelection({}))]
            for spec in specs:
                wanted = filter_of(spec)
                if wanted is None:
                    continue
                selection = FilterSelection(normalise(spec))
                expected = [repr(one) for one in everything if wanted.matches(one)]
                # What BSON takes for one `_id` may be several keys: dates within a millisecond.
                chosen = selection.plan((), info)
                if all(part.keys is None for part in (chosen, *chosen.parts)):
                    found = [repr(one) for _, one in select(snapshot, info, (), selection)]
                    assert sorted(found) == sorted(expected)
                    assert found == [repr(one) for one in Scan(session_of(db), info).documents(selection, ())]


@given(DOCUMENTS.map(lambda some: [document for _, document in some]), SPECS)
@settings(max_examples=examples(60), deadline=None)
def test_updates_and_deletes_find_what_a_query_finds(stored, spec):
    wanted = filter_of(spec)
    if wanted is None:
        return
    with reactdb.connect(":memory:") as db:
        db.blobs.put(BLOB)
        table = db.table_create("shop.orders", primary_key="_id")
        table.insert([{**document, "_id": number} for number, document in enumerate(stored)])
        table.index_create("a")
        orders = reactdb.mongodb(db, datetime_conversion="DATETIME_AUTO")["shop"]["orders"]
        expected = [one["_id"] for one in orders.find() if wanted.matches(one)]
        spec = normalise(spec)
        assert [one["_id"] for one in orders.find(spec)] == expected
        assert orders.count_documents(spec) == len(expected)
        assert [one["_id"] for one in orders.aggregate([{"$match": spec}])] == expected
        assert sorted(orders.distinct("_id", spec)) == expected
        assert orders.update_many(spec, {"$set": {"seen": 1}}).matched_count == len(expected)
        assert [one["_id"] for one in orders.find({"seen": 1})] == expected
        assert orders.delete_many({"seen": 1, "a": {"$exists": True}}).deleted_count <= len(expected)
