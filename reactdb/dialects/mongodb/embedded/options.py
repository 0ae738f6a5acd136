"""Options: PyMongo's options of a client, a database and a collection, each its own or inherited from its parent.

Codec options define the encoding and decoding of documents. Read preferences, read concerns and write concerns are checked and
kept, and change nothing: there is one member, which has everything.

Rule of this file: an invalid option is refused as in PyMongo.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bson.codec_options import CodecOptions
from pymongo import common
from pymongo.errors import ConfigurationError
from pymongo.read_concern import DEFAULT_READ_CONCERN
from pymongo.read_preferences import ReadPreference
from pymongo.write_concern import DEFAULT_WRITE_CONCERN

from reactdb.dialects.mongodb.embedded.codecs import PLAIN, Codec

__all__ = ["OptionHolder", "client_codec"]


class OptionHolder(common.BaseObject):
    """See the head of this file. `codec_options`, `read_preference`, `write_concern` and `read_concern` are PyMongo's."""

    def __init__(
        self,
        above: OptionHolder | None,
        codec_options: Any = None,
        read_preference: Any = None,
        write_concern: Any = None,
        read_concern: Any = None,
    ) -> None:
        """`above`: the parent, for options that are not given; with None, PyMongo's defaults.

        Raises:
            TypeError: An option is not valid in PyMongo.
        """
        if above is None:
            super().__init__(
                codec_options or PLAIN.options,
                read_preference or ReadPreference.PRIMARY,
                write_concern or DEFAULT_WRITE_CONCERN,
                read_concern or DEFAULT_READ_CONCERN,
            )
        else:
            super().__init__(
                codec_options or above.codec_options,
                read_preference or above.read_preference,
                write_concern or above.write_concern,
                read_concern or above.read_concern,
            )
        own = None if codec_options or above is None else above._codec
        self._codec: Codec = own or Codec(self.codec_options)

    def _options(self, *given: Any) -> tuple[Any, ...]:
        """Its options in the order of `__init__`, replaced by those in `given` that are not None."""
        own = (self.codec_options, self.read_preference, self.write_concern, self.read_concern)
        return tuple(new or old for new, old in zip(given or own, own, strict=True))


_OF_CODECS: Final = {
    **dict.fromkeys(("document_class", "type_registry", "tz_aware", "tzinfo")),
    **dict.fromkeys(("datetime_conversion", "unicode_decode_error_handler")),
    "uuidRepresentation": "uuid_representation",
}
"""The options of PyMongo's `MongoClient` for encoding and decoding documents, with their names in `CodecOptions`, if these
differ."""


def client_codec(options: Mapping[str, Any]) -> CodecOptions[Any]:
    """The codec options of a client's options: `tz_aware=True`, `uuidRepresentation="standard"`.

    Raises:
        ConfigurationError, TypeError, ValueError: An option is unknown, or has an invalid value.
    """
    arguments = {}
    for name, value in options.items():
        if name not in _OF_CODECS:
            raise ConfigurationError(
                f"Unknown option: {name}. A client in the process has {', '.join(_OF_CODECS)}"
            )
        arguments[_OF_CODECS[name] or name] = common.validate(name, value)[1]
    return CodecOptions(**arguments)
