"""Registering types and operations: what is refused, and what a value of a registered type is to the rest."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgpack
import pytest

import reactdb
from reactdb import InvalidDocument, UsageError, json, r, row
from reactdb.errors import IncompatibleFormat, InvalidKey
from reactdb.expression import OPERATIONS, call, operation
from reactdb.values import codec, collation
from reactdb.values.codec import UnknownValue
from reactdb.values.value import Value
from reactdb.values.value_types import BY_KIND, ValueType, register_type, text_of
from tests.support.processes import run_python
from tests.support.registered_types import TYPES, Exact, Mark, Release, first


class Another(Value):
    __slots__ = ()


def other(name: str = "acme.other", code: int = 99, kind: type = Another, **options: Any) -> ValueType:
    return ValueType(name, code, kind, lambda _: b"", lambda _: Another(), **options)


class TestRegistering:
    @pytest.mark.parametrize(
        ("wanted", "known"),
        [
            (other(name="acme.mark"), "extension type 96, `acme.mark` (tests.support.registered_types.Mark)"),
            (other(code=97), "extension type 97, `acme.release`"),
            (other(kind=Exact), "extension type 98, `acme.exact`"),
        ],
    )
    def test_a_name_a_number_and_a_class_belong_to_one_type_and_the_error_names_both(
        self, wanted: ValueType, known: str
    ) -> None:
        with pytest.raises(UsageError) as refused:
            register_type(wanted)

        assert f"extension type {wanted.code}, `{wanted.name}`" in str(refused.value)
        assert known in str(refused.value)
        assert wanted not in BY_KIND.values()

    def test_the_same_type_may_be_registered_again(self) -> None:
        for one in TYPES:
            register_type(one)

        assert Mark(b"abcd") == codec.decode(codec.encode({"a": Mark(b"abcd")}))["a"]

    @pytest.mark.parametrize(
        ("wanted", "sentence"),
        [
            (other(name="Mark"), "a type's name is two words with a dot between, not 'Mark'"),
            (other(code=32), "the number of `acme.other` is one of 96 to 127, not 32"),
            (other(code=7), "the number of `acme.other` is one of 96 to 127, not 7"),
            (
                other(name="mongodb.other", code=96),
                "the number of `mongodb.other` is one of 32 to 63, not 96",
            ),
            (
                other(kind=bool),
                "`acme.other` cannot be <class 'bool'>: documents have <class 'bool'> already",
            ),
            (other(kind=type("Long", (int,), {})), "documents have <class 'int'> already"),
            (other(kind=type("Bag", (dict,), {})), "documents have <class 'dict'> already"),
            (other(kind=object), "`acme.other` cannot be every object"),
            (other(order=bytes, equals=int), "either an order of its own or equals values of another type"),
            (other(in_keys=bytes, equals=int), "either an order of its own or equals values of another type"),
        ],
    )
    def test_what_cannot_be_registered(self, wanted: ValueType, sentence: str) -> None:
        with pytest.raises(UsageError) as refused:
            register_type(wanted)

        assert sentence in str(refused.value)

    def test_an_operation_belongs_to_one_function_and_the_error_names_both(self) -> None:
        def second(value: Any) -> Any:
            return value

        with pytest.raises(
            UsageError, match=r"operation `acme.first` is both .*registered_types.first and .*second"
        ):
            operation("acme.first", 1)(second)
        assert OPERATIONS["acme.first"].function is first

    def test_two_lambdas_of_a_module_are_two_functions(self) -> None:
        operation("acme.lambda", 1)(lambda value: value)
        try:
            with pytest.raises(UsageError, match=r"is both .*<lambda> in line \d+ and .*<lambda> in line"):
                operation("acme.lambda", 1)(lambda value: [value])
        finally:
            del OPERATIONS["acme.lambda"]

    def test_an_operation_outside_of_the_core_needs_a_word_of_its_own(self) -> None:
        with pytest.raises(UsageError, match=r"operation `second` of .* needs a word of its own"):
            operation("second", 1)(first)


class TestValues:
    def test_what_a_type_refuses_is_refused_with_its_place(self) -> None:
        with pytest.raises(InvalidDocument) as refused:
            codec.encode({"a": [Mark(b"too long")]})

        assert "document['a'][0]: a Mark has four bytes" == str(refused.value)

    def test_a_subclass_is_stored_as_the_type(self) -> None:
        class Own(Mark):
            __slots__ = ()

        assert codec.encode({"a": Mark(b"abcd")}) == codec.encode({"a": Own(b"abcd")})
        assert collation.key_bytes(Mark(b"abcd")) == collation.key_bytes(Own(b"abcd"))

    def test_its_name_is_a_type_of_reql_and_stands_before_strings(self) -> None:
        assert "PTYPE<ACME.MARK>" == r.type_of(Mark(b"abcd"))({})
        assert -1 == collation.compare(UUID(int=2**128 - 1), Mark(b"\0\0\0\0"))
        assert -1 == collation.compare(Mark(b"\xff\xff\xff\xff"), Release(0, 0))
        assert -1 == collation.compare(Release(99, 99), "")

    def test_it_can_be_a_primary_key_and_one_that_equals_a_number_is_that_key(self) -> None:
        with reactdb.connect(":memory:") as db:
            table = db.table_create("known")
            table.insert([{"id": Mark(b"abcd")}, {"id": [Release(1, 10)]}, {"id": Exact("01")}])

            assert {"id": Mark(b"abcd")} == table.get(Mark(b"abcd")).run()
            assert [{"id": [Release(1, 10)]}] == table.between([Release(1, 9)], [Release(2, 0)]).run()
            assert {"id": Exact("01")} == table.get(1).run()
            with pytest.raises(InvalidKey, match="Non-finite number: nan"):
                table.insert({"id": Exact("nan")})

    def test_its_json_is_its_text(self) -> None:
        assert '{"$reactdb_type$":"acme.release","value":"1.10"}' == json.dumps(Release(1, 10))
        assert '"1.10"' == json.dumps_plain(Release(1, 10)) == r.to_json_string(Release(1, 10))({})
        assert ["1.10", "1.10"] == [json.readable(Release(1, 10)), json.plain_text(Release(1, 10))]
        assert "61626364" == text_of(Mark(b"abcd"))
        for text in ("acme.release", "one"), ("acme.mark", "61"):
            with pytest.raises(InvalidDocument, match=f"not a {text[0]}"):
                json.loads(json.dumps_plain({"$reactdb_type$": text[0], "value": text[1]}))


UNKNOWN = UnknownValue(50, b"\0bytes")


class TestUnknown:
    def test_it_is_read_kept_and_written_with_the_same_bytes(self) -> None:
        data = msgpack.packb({"a": [msgpack.ExtType(50, b"\0bytes")]})

        assert {"a": [UNKNOWN]} == codec.decode(data)
        assert data == codec.encode(codec.decode(data))
        assert codec.same(UNKNOWN, codec.decode(data)["a"][0])
        assert "PTYPE<UNKNOWN>" == collation.type_name(UNKNOWN)

    def test_its_json_is_its_bytes_and_becomes_the_value_where_its_type_is_known(self) -> None:
        text = json.dumps({"a": UNKNOWN})

        assert '{"a":{"$reactdb_type$":"extension","code":50,"data":"AGJ5dGVz"}}' == text
        assert {"a": UNKNOWN} == json.loads(text)
        assert Mark(b"abcd") == json.loads(json.dumps(UnknownValue(96, b"abcd")))
        assert '"extension 50: 006279746573"' == json.dumps_plain(UNKNOWN)
        for code in (7, 31, 128, True, "50"):
            with pytest.raises(InvalidDocument, match="not a extension"):
                json.loads(f'{{"$reactdb_type$":"extension","code":{json.dumps(code)},"data":""}}')

    def test_it_has_no_place_in_the_order_and_the_error_says_what_to_import(self) -> None:
        dialects = (
            "extension type 50 is not registered in this process: "
            "import reactdb.dialects.mongodb, or what else registers it, first"
        )
        with pytest.raises(IncompatibleFormat) as refused:
            collation.key_bytes([UNKNOWN])
        assert dialects == str(refused.value)
        with pytest.raises(
            IncompatibleFormat, match=r"extension type 126 .* import the module that registers it"
        ):
            collation.compare(UnknownValue(126, b""), 1)
        with pytest.raises(IncompatibleFormat, match=r"acme.unheard.* import reactdb.dialects.acme"):
            json.loads('{"$reactdb_type$":"acme.unheard","value":""}')

    def test_the_librarys_own_type_is_known_without_a_file_and_its_next_one_needs_a_newer_version(
        self,
    ) -> None:
        text = '{"$reactdb_type$":"reactdb.blob","value":"sha256:%s:3"}' % ("0" * 64)
        printed = run_python("import sys, reactdb; print(reactdb.json.loads(sys.argv[1]))", text)
        assert f"sha256:{'0' * 64}:3\n" == printed
        with pytest.raises(IncompatibleFormat) as refused:
            collation.key_bytes(UnknownValue(65, b""))
        assert "this version of reactdb does not have extension type 65" == str(refused.value)

    def test_its_key_bytes_are_read(self) -> None:
        key = collation.key_bytes(Mark(b"a\0cd")).replace(b"\xc0", b"\x92", 1)
        assert UnknownValue(50, b"a\0cd") == collation.key_value(key)
        key = collation.key_bytes(Release(1, 10)).replace(b"\xc1", b"\x92", 1)
        assert UnknownValue(50, b"1.10") == collation.key_value(key)

    def test_one_that_was_read_before_its_type_was_registered_is_the_value_then(self) -> None:
        assert collation.key_bytes(Mark(b"abcd")) == collation.key_bytes(UnknownValue(96, b"abcd"))
        assert {"a": Mark(b"abcd")} == codec.decode(codec.encode({"a": UnknownValue(96, b"abcd")}))
        for code, data in ((96, b"too long"), (8, b""), (3, b"x" * 16)):
            with pytest.raises(InvalidDocument):
                codec.encode({"a": UnknownValue(code, data)})

    def test_an_operation_that_is_not_registered_cannot_be_written_down(self) -> None:
        with pytest.raises(
            reactdb.errors.QueryError,
            match=r"the operation `mongodb.unheard` is not registered .*import reactdb.dialects.mongodb",
        ):
            call("mongodb.unheard", row["a"])
        with pytest.raises(reactdb.errors.QueryError, match="there is no operation `unheard`"):
            call("unheard", row["a"])
