"""Whole documents: a column of JSON text, VARIANT or stored bytes becomes dicts to store; the inverse of reading.

Each document contains its primary key. Any other value is refused, and the error shows the column and the beginning of the value:
text that is not JSON (or has a name twice, or a number beyond the doubles), a value that is not an object, bytes that are not a
document's. Nulls inside stay, because here a missing field differs from null.

Bytes are decoded and encoded again, so that everything is checked before it is stored; the bytes of reactdb's own documents do
not change.

Rule of this file: the result is a document, or an error with the column. No other form is guessed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from math import isinf
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pyspark.sql import types as spark_types

from reactdb.arrow.rows import ROWS_AT_ONCE
from reactdb.errors import CorruptDatabase, InvalidDocument, InvalidOption, format_value
from reactdb.spark.row_documents import variants
from reactdb.spark.schema import FORMS
from reactdb.values import codec

if TYPE_CHECKING:
    import pyarrow as pa

# The usual name of the column of documents, and the columns beside it that a write does not need.
USUAL = "document"
BESIDE = ("key", "key_bytes", "_source")


class WholeDocumentMaker:
    """Makes documents of the batches of one schema, as `DocumentMaker` does. Each task creates one.

    Args:
        form: One of FORMS.
        delete_field: A further boolean column. It becomes a field of each document, which the caller removes again.
        uuid_fields: Fields with text that are stored as UUIDs.

    Raises:
        InvalidOption: There is no column of documents, there are several, or it has another type.
    """

    def __init__(
        self,
        schema: spark_types.StructType,
        form: str,
        *,
        delete_field: str | None = None,
        uuid_fields: tuple[str, ...] = (),
    ) -> None:
        self.column = column_of(schema, form, delete_field)
        self._place = schema.names.index(self.column)
        self._delete_field = delete_field
        self._delete_place = None if delete_field is None else schema.names.index(delete_field)
        self._uuid_fields = uuid_fields
        self._form = form
        if uuid_fields and form == "binary":
            raise InvalidOption(
                "uuidFields is for documents that cannot hold a UUID: leave it out with document=binary"
            )

    def documents(self, batch: pa.RecordBatch) -> Iterator[list[dict[str, Any]]]:
        """The rows of a batch as documents, in lists of at most `ROWS_AT_ONCE`.

        Raises:
            InvalidDocument: A row is not a document.
        """
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            part = batch.slice(start, ROWS_AT_ONCE)
            documents = self._read(part.column(self._place))
            if self._uuid_fields:
                for document in documents:
                    self._with_uuids(document)
            if self._delete_place is not None:
                for document, is_deleted in zip(
                    documents, part.column(self._delete_place).to_pylist(), strict=True
                ):
                    if self._delete_field in document:
                        raise InvalidDocument(
                            f"column {self.column}: a document has a field {self._delete_field!r} of its own, which is also the "
                            "name of the column that deletes: give that another one"
                        )
                    document[str(self._delete_field)] = is_deleted
            yield documents

    def _read(self, column: pa.Array) -> list[dict[str, Any]]:
        if column.null_count:
            raise InvalidDocument(f"column {self.column}: a row has null where a document should be")
        if self._form == "variant":
            try:
                values = variants(column)
            except Exception as error:
                # PySpark's reader of VARIANT raises errors of many kinds.
                raise InvalidDocument(f"column {self.column}: a VARIANT cannot be read: {error}") from error
            return [self._check(value, value) for value in values]
        read: Callable[[Any], Any] = json_value if self._form == "json" else codec.decode
        documents = []
        for given in column.to_pylist():
            try:
                value = read(given)
            except (ValueError, RecursionError, CorruptDatabase) as error:
                what = "JSON" if self._form == "json" else "the bytes of a document"
                why = "nested too deep" if isinstance(error, RecursionError) else str(error)
                raise InvalidDocument(
                    f"column {self.column}: {format_value(given, 80)} is not {what}: {why:.200}"
                ) from None
            documents.append(self._check(value, given))
        return documents

    def _check(self, value: Any, given: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise InvalidDocument(
                f"column {self.column}: a document is an object, not {format_value(given, 80)}"
            )
        return value

    def _with_uuids(self, document: dict[str, Any]) -> None:
        for name in self._uuid_fields:
            text = document.get(name)
            if text is not None:
                try:
                    document[name] = UUID(text)
                except (ValueError, AttributeError, TypeError):
                    raise InvalidDocument(
                        f"column {self.column}: field {name}: {format_value(text)} is not a UUID"
                    ) from None


def column_of(schema: spark_types.StructType, form: str, delete_field: str | None) -> str:
    """The name of the column of documents: `document`, or else the only column.

    Raises:
        InvalidOption: There is no such column, there are others, or it is of another type.
    """
    names = [name for name in schema.names if name != delete_field]
    kind = FORMS[form]
    others = [name for name in names if name != USUAL]
    if USUAL in names and set(others) <= set(BESIDE) and names.count(USUAL) == 1:
        column = USUAL
    elif len(names) == 1:
        (column,) = names
    else:
        raise InvalidOption(
            f"with option document={form} the rows have one column of whole documents, called {USUAL!r} where others that "
            f"reading gives are beside it; these have {', '.join(schema.names)}"
        )
    type_ = schema[column].dataType
    if not isinstance(type_, type(kind)):
        raise InvalidOption(
            f"with option document={form} column {column} is {kind.simpleString()}, not {type_.simpleString()}"
        )
    return column


# ---------------------------------------------------------------------------------------------------------------
# JSON


def json_value(text: str) -> Any:
    """The value of a JSON text that follows RFC 8259 strictly.

    Raises:
        ValueError: It is not JSON, has a name twice in one object, or a number beyond the doubles.
        RecursionError: It is nested too deep.
    """
    return _decode(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise ValueError(f"the name {twice!r} occurs twice")
    return members


def _float(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise ValueError(f"the number {text} is too large for a float")
    return number


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


_decode = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_constant).decode
