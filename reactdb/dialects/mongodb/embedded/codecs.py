"""Codec: what a caller's documents are as BSON, and what is given for them, by PyMongo's codec options.

    codec = Codec(CodecOptions(tz_aware=True, uuid_representation=UuidRepresentation.STANDARD))
    codec.given({"id": uuid4()})        a BSON document, with a Binary
    codec.read(document)                the document as the options want it

Rule of this file: other options than PyMongo's default ones go by BSON's bytes, through PyMongo, so that they mean what they mean
there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import bson
from bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions

from reactdb.dialects.mongodb.embedded.shaping import driver_document, given_document
from reactdb.dialects.mongodb.values import CODEC

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
        # The answer to a write is a dict, whatever documents are.
        self._of_replies: CodecOptions[dict[str, Any]] = options.with_options(
            document_class=dict, unicode_decode_error_handler="replace"
        )

    def given(self, document: Any) -> dict[str, Any]:
        """A document that a caller gave, as BSON has it.

        Raises:
            TypeError, ValueError, bson.errors.InvalidDocument: As PyMongo.
        """
        return given_document(document, self.options)

    def given_any(self, given: Any, name: str = "filter") -> Any:
        """A filter, an update, a pipeline or a stage likewise.

        Raises:
            TypeError: It is neither a mapping nor a list of these; `name` is what it should be.
        """
        if isinstance(given, (list, tuple)):
            return [self.given_any(one, name) for one in given]
        if not isinstance(given, Mapping):
            raise TypeError(
                f"{name} must be an instance of dict, bson.son.SON, or any other type that inherits from "
                f"collections.Mapping, not {type(given)}"
            )
        return self.given(given) if given else {}

    def read(self, document: dict[str, Any]) -> Any:
        """The document that a caller is given for this one.

        Raises:
            bson.errors.InvalidBSON: It has what these options cannot give, such as a date beyond Python's.
        """
        if self._is_plain:
            return driver_document(document)
        return bson.decode(bson.encode(document, codec_options=CODEC), self.options)

    def read_upserted(self, id: Any) -> Any:
        """The `_id` of a document that a write has made. A document is a dict there, whatever documents are."""
        if self._is_plain:
            return driver_document({"_id": id})["_id"]
        return bson.decode(bson.encode({"_id": id}, codec_options=CODEC), self._of_replies)["_id"]


PLAIN: Final = Codec(DEFAULT_CODEC_OPTIONS)
"""What PyMongo does where nobody says otherwise."""
