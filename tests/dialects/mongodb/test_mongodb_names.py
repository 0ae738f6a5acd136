"""Names of collections and of tables."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reactdb.dialects.mongodb import MongoError
from reactdb.dialects.mongodb.names import MongoNamespace, Names
from reactdb.store.catalogue import NAME
from tests.support.scaling import examples

DATABASE_LETTERS = st.characters(exclude_characters='/\\. "$\0', exclude_categories=["Cs"])
DATABASES = st.text(DATABASE_LETTERS, min_size=1, max_size=3) | st.sampled_from(
    ["reactdb", "_", "-", "__-", "a-"]
)
LETTERS = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
PARTS = st.text(LETTERS, min_size=1, max_size=3) | st.sampled_from(
    ["-.2d", "a-.b", "-", "fs.files", "_-x", "é-.c3"]
)
COLLECTIONS = PARTS.filter(lambda name: name[0] != "." and name[-1] != ".")


@pytest.mark.parametrize(
    ("db", "coll", "table"),
    [
        ("shop", "orders", "shop.orders"),
        ("shop", "fs.files", "shop.fs.files"),
        ("my-app", "my-orders", "my-app.my-orders"),
        ("reactdb", "orders", "orders"),
        ("reactdb", "fs.files", "reactdb.fs.files"),
        ("shop", "größe", "shop.gr-.c3-.b6-.c3-.9fe"),
        ("shop-", "x", "shop-.2d.x"),
        ("-", "x", "_-.2d.x"),
    ],
)
def test_a_collection_is_the_table_of_this_name(db, coll, table):
    names = Names()

    assert table == names.table(MongoNamespace(db, coll))
    assert MongoNamespace(db, coll) == names.namespace(table)


@given(DATABASES, COLLECTIONS)
@settings(max_examples=examples(200))
def test_each_name_is_spelled_so_that_it_can_be_read_back(db, coll):
    names = Names()

    table = names.table(MongoNamespace(db, coll))

    assert NAME.fullmatch(table)
    assert MongoNamespace(db, coll) == names.namespace(table)


@given(st.from_regex(NAME, fullmatch=True))
@settings(max_examples=examples(200))
def test_a_table_is_a_collection_only_where_its_name_is_what_that_is_spelled_as(table):
    names = Names()

    found = names.namespace(table)

    assert found is None or table == names.table(found)


def test_a_native_table_belongs_to_the_default_database():
    assert MongoNamespace("reactdb", "orders") == Names().namespace("orders")
    assert MongoNamespace("test", "orders") == Names("test").namespace("orders")
    assert Names().namespace("reactdb.orders") is None


@pytest.mark.parametrize(
    ("db", "coll"),
    [
        ("", "x"),
        ("a b", "x"),
        ("a$", "x"),
        ("d" * 64, "x"),
        ("d", ""),
        ("d", ".x"),
        ("d", "x."),
        ("d", "x\0"),
        ("d", "x" * 130),
    ],
)
def test_what_can_be_no_name_is_refused_with_its_code(db, coll):
    with pytest.raises(MongoError) as caught:
        Names().table(MongoNamespace(db, coll))

    assert (73, "InvalidNamespace") == (caught.value.code, caught.value.code_name)
