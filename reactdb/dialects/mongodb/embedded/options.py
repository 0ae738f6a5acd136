"""Options: PyMongo's options of a client, a database and a collection, each its own or inherited from its parent.

Codec options define the encoding and decoding of documents. Read preferences, read concerns and write concerns are checked and
kept, and change nothing: there is one member, which has everything.

Rule of this file: an invalid option is refused as in PyMongo.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bson.codec_options import CodecOptions

from reactdb.dialects.mongodb.embedded import driver
from reactdb.dialects.mongodb.embedded.codecs import PLAIN, Codec

__all__ = ["OptionHolder", "client_codec"]


class OptionHolder:
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
        is_codec = not codec_options or isinstance(codec_options, CodecOptions)
        if read_preference or write_concern or read_concern or not is_codec:
            # PyMongo checks them.
            driver.BaseObject(
                codec_options or PLAIN.options,
                read_preference or driver.ReadPreference.PRIMARY,
                write_concern or driver.DEFAULT_WRITE_CONCERN,
                read_concern or driver.DEFAULT_READ_CONCERN,
            )
        given = read_preference, write_concern, read_concern
        # None: PyMongo's default, which is imported when it is read.
        inherited = (None, None, None) if above is None else above._concerns
        self._concerns: tuple[Any, ...] = tuple(
            own or other for own, other in zip(given, inherited, strict=True)
        )
        self._codec: Codec
        if codec_options:
            self._codec = Codec(codec_options)
        else:
            self._codec = PLAIN if above is None else above._codec

    @property
    def codec_options(self) -> CodecOptions[Any]:
        return self._codec.options

    @property
    def read_preference(self) -> Any:
        return self._concerns[0] or driver.ReadPreference.PRIMARY

    @property
    def write_concern(self) -> Any:
        return self._concerns[1] or driver.DEFAULT_WRITE_CONCERN

    @property
    def read_concern(self) -> Any:
        return self._concerns[2] or driver.DEFAULT_READ_CONCERN

    def _options(self, *given: Any) -> tuple[Any, ...]:
        """Its options in the order of `__init__`, replaced by those in `given` that are not None. An option that is None is
        PyMongo's default."""
        own = (self.codec_options, *self._concerns)
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
    if not options:
        return PLAIN.options
    arguments = {}
    for name, value in options.items():
        if name not in _OF_CODECS:
            raise driver.ConfigurationError(
                f"Unknown option: {name}. A client in the process has {', '.join(_OF_CODECS)}"
            )
        arguments[_OF_CODECS[name] or name] = driver.validate(name, value)[1]
    return CodecOptions(**arguments)
