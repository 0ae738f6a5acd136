"""Codec: converts a caller's documents to BSON, and results back, by PyMongo's codec options.

    codec = Codec(CodecOptions(tz_aware=True, uuid_representation=UuidRepresentation.STANDARD))
    codec.given({"id": uuid4()})        a BSON document, with a Binary
    codec.read(document)                the document in the form of the options

Rule of this file: options other than PyMongo's defaults convert through BSON's bytes and PyMongo, so that they have the same
effect.
"""

from __future__ import annotations

from typing import Any, Final

import bson
from bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions

from reactdb.dialects.mongodb.embedded.documents import driver_document, to_bson_document
from reactdb.dialects.mongodb.values import CODEC, is_document

__all__ = ["PLAIN", "Codec"]


class Codec:
    """See the head of this file. Any thread.

    Attributes:
        options: PyMongo's.
    """

    __slots__ = ("_is_plain", "_of_replies", "options")

    def __init__(self, options: CodecOptions[Any]) -> None:
        self.options = options
        self._is_plain = options is DEFAULT_CODEC_OPTIONS or options == DEFAULT_CODEC_OPTIONS
        # The reply to a write is a dict, whatever the document class is.
        self._of_replies: CodecOptions[dict[str, Any]] = options.with_options(
            document_class=dict, unicode_decode_error_handler="replace"
        )

    def given(self, document: Any) -> dict[str, Any]:
        """A caller's document as BSON.

        Raises:
            TypeError, ValueError, bson.errors.InvalidDocument: As PyMongo.
        """
        return to_bson_document(document, self.options)

    def given_value(self, value: Any) -> Any:
        """Any value, such as a pipeline. Errors as for `given`."""
        return self.given({"": value})[""]

    def given_filter(self, filter: Any) -> dict[str, Any]:
        """A filter likewise.

        Raises:
            TypeError: It is no mapping.
        """
        if not is_document(filter):
            raise TypeError(
                "filter must be an instance of dict, bson.son.SON, or any other type that inherits from "
                f"collections.Mapping, not {type(filter)}"
            )
        return self.given(filter) if filter else {}

    def read(self, document: dict[str, Any]) -> Any:
        """A BSON document in the caller's form.

        Raises:
            bson.errors.InvalidBSON: A value has no form under these options, such as a date beyond Python's years.
        """
        if self._is_plain:
            return driver_document(document)
        return bson.decode(bson.encode(document, codec_options=CODEC), self.options)

    def read_upserted(self, id: Any) -> Any:
        """The `_id` of an upserted document. If it is a document, it is a dict, whatever the document class is."""
        if self._is_plain:
            return driver_document({"_id": id})["_id"]
        return bson.decode(bson.encode({"_id": id}, codec_options=CODEC), self._of_replies)["_id"]


PLAIN: Final = Codec(DEFAULT_CODEC_OPTIONS)
"""PyMongo's defaults."""
