"""The options of a read or a write, from Spark's strings to one frozen value.

Spark hands options over as strings under names of any case, and Spark ignores unknown names without
a warning. So names are compared without their case, and an unknown name or a wrong value is refused with a sentence that lists
the known ones. The spellings of Spark and Delta are accepted too; the table `SPELLINGS` translates them.

Rule of this file: it parses. Whether a position, a path or a table exists is checked where the file is opened.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any, Final

from reactdb.errors import InvalidOption, shown, word

READS: Final = ("documents", "changes")
SHAPES: Final = ("reactdb", "delta", "debezium")
FORMS: Final = ("struct", "json", "variant", "binary")
MODES: Final = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
OFFSETS: Final = ("earliest", "latest")
# A value of the option `mode` that only writes know.
UPSERT: Final = "upsert"
CONFLICTS: Final = ("variant", "string")

# Other names, in lower case -> ours. `startingVersion` and `endingVersion` are no other names, because they count whole commits.
SPELLINGS: Final = {
    "versionasof": "asof",
    "timestampasof": "asof",
    "startingtimestamp": "starttimestamp",
    "endingtimestamp": "endtimestamp",
    "columnnameofcorruptrecord": "corruptcolumn",
    "sourcecolumn": "sourcecolumn",
    "maxpartitionbytes": "partitionbytes",
    "busytimeout": "busytimeout",
}
# The names as messages and documentation write them. Those after the comment belong to writes; `write_options` reads them.
NAMES: Final = (
    "path",
    "paths",
    "table",
    "read",
    "shape",
    "asOf",
    "ranges",
    "startSeq",
    "endSeq",
    "startTimestamp",
    "endTimestamp",
    "startingVersion",
    "endingVersion",
    "readChangeFeed",
    "document",
    "samplingSize",
    "conflicts",
    "strictFields",
    "mode",
    "corruptColumn",
    "sourceColumn",
    "pathGlobFilter",
    "recursiveFileLookup",
    "partitionBytes",
    "minPartitions",
    "failOnDataLoss",
    "busyTimeout",
    "allowNetwork",
    "imports",
    "maxChangesPerTrigger",
    "startingOffsets",
    # Options of writes.
    "checkpointLocation",
    "primaryKey",
    "conflict",
    "nulls",
    "uuidFields",
    "deleteField",
    "durability",
    "origin",
    "stagingPath",
    "inlineBytes",
    "txnAppId",
    "txnVersion",
)
_KNOWN: Final = {name.lower(): name for name in NAMES}
# Removed options, in lower case -> why they were removed, and what to do instead.
_REMOVED: Final = {
    "pushdown": "filters are not pushed down any more, because Spark keeps the rows that are left after one filter for every "
    "other query of the same DataFrame: leave the option out, and choose a range with startSeq, endSeq or asOf",
}


class Imports(tuple[str, ...]):
    """Names of modules, which are imported where this is made and wherever it is unpickled."""

    __slots__ = ()

    def __new__(cls, names: Iterable[str] = ()) -> Imports:
        made = super().__new__(cls, names)
        for name in made:
            try:
                import_module(name)
            except ImportError as error:
                raise InvalidOption(f"option imports: {error}") from None
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Imports, (tuple(self),)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a read. docs/how-to/spark.md explains each of them.

    Attributes:
        paths: Files, folders or globs, as given.
        table: None: all tables if changes are read, the only table if documents are.
        read: One of READS.
        shape: One of SHAPES: the columns of change rows.
        as_of: A seq, a time in microseconds since 1970 UTC as `Instant`, or None for now.
        ranges: Path -> (since, until) of the changes to read in each file, instead of paths, start and end; documents are read
            as of `until`. None: those three apply.
        start, end: The first and the last change to read, as in `as_of`. `Version` counts whole commits.
        document: One of FORMS.
        sampling_size: How many documents of each file inference reads.
        is_strict: A document with a field that the given schema lacks does not fit; otherwise the field is left out.
        mode: One of MODES; None: PERMISSIVE if there is a column for what does not fit, otherwise FAILFAST. UPSERT in writes.
        max_changes: The largest number of changes in a batch of a stream; None: no limit.
        imports: Modules that register types of values, imported in each process that reads.
        starting_offsets: Where a stream begins: "earliest", or "latest" for only what is written from now on.
    """

    paths: tuple[str, ...] = ()
    table: str | None = None
    read: str = "documents"
    shape: str = "reactdb"
    as_of: int | Instant | None = None
    ranges: tuple[tuple[str, int, int], ...] | None = None
    start: int | Instant | Version | None = None
    end: int | Instant | Version | None = None
    document: str = "struct"
    sampling_size: int = 1_000
    conflicts: str = "variant"
    is_strict: bool = False
    mode: str | None = None
    corrupt_column: str = "_corrupt"
    source_column: str = "_source"
    path_glob: str = "*.db"
    is_recursive: bool = False
    partition_bytes: int = 32 * 1024 * 1024
    min_partitions: int = 1
    fail_on_data_loss: bool = True
    busy_timeout_s: float = 5.0
    allow_network: bool = False
    imports: tuple[str, ...] = ()
    max_changes: int | None = None
    starting_offsets: str = "earliest"

    @property
    def is_changes(self) -> bool:
        return self.read == "changes"


@dataclass(frozen=True, slots=True)
class Instant:
    """A moment, in microseconds since 1970-01-01 UTC."""

    microseconds: int


@dataclass(frozen=True, slots=True)
class Version:
    """A position that counts whole commits, as Delta does: the `commit` of a change."""

    commit: int


def parse(given: Mapping[str, str]) -> Options:
    """The options of `.option(...)`, `.options(...)` and `.load(path)`.

    Raises:
        InvalidOption: A name is unknown, a value is not allowed, or two options contradict each other.
    """
    values: dict[str, str] = {}
    for name, value in given.items():
        known = SPELLINGS.get(name.lower(), name.lower())
        if name.lower().startswith("option."):
            raise InvalidOption(
                "the options of a table of Spark's catalogue are lost when it is read: CREATE TEMPORARY VIEW ... USING reactdb "
                "OPTIONS (...) keeps them"
            )
        if known in _REMOVED:
            raise InvalidOption(f"option {known} was removed: {_REMOVED[known]}")
        if known not in _KNOWN:
            raise InvalidOption(f"unknown option {shown(name)}; the data source knows {', '.join(NAMES)}")
        if known in values and values[known] != value:
            raise InvalidOption(
                f"option {_KNOWN[known]} was given twice, as {shown(values[known])} and {shown(value)}"
            )
        values[known] = value
    # Only these options show that the read is a stream, and a stream always reads changes.
    of_streams = "maxchangespertrigger" in values or "startingoffsets" in values
    read = _word(values, "read", READS, "changes" if of_streams else "documents")
    if _flag(values, "readchangefeed", False):
        if values.get("read", "changes").lower() != "changes":
            raise InvalidOption("readChangeFeed reads changes, and read says documents")
        read = "changes"
        values.setdefault("shape", "delta")
    shape = _word(values, "shape", SHAPES, "reactdb")
    if read == "documents" and "shape" in values:
        raise InvalidOption("shape is of changes: it needs option read=changes")
    as_of = _position(values, "asof")
    start = _one_of(values, "startseq", "startingversion", "starttimestamp")
    end = _one_of(values, "endseq", "endingversion", "endtimestamp")
    if read == "changes" and as_of is not None:
        raise InvalidOption("asOf is of documents; changes are read from startSeq to endSeq")
    if read == "documents" and (start is not None or end is not None):
        raise InvalidOption(
            "a range of changes needs option read=changes; documents are read asOf a seq or a timestamp"
        )
    if "ranges" in values and (start, end, as_of) != (None, None, None):
        raise InvalidOption("option ranges says where to begin and to end: leave the others out")
    mode = values.get("mode")
    if mode is not None:
        mode = _word(values, "mode", (*MODES, UPSERT), "")
    return Options(
        paths=_paths(values),
        table=values.get("table"),
        read=read,
        shape=shape,
        as_of=as_of,
        ranges=_ranges(values),
        start=start,
        end=end,
        document=_word(values, "document", FORMS, "struct"),
        sampling_size=_number(values, "samplingsize", 1_000, least=1),
        conflicts=_word(values, "conflicts", CONFLICTS, "variant"),
        is_strict=_flag(values, "strictfields", False),
        mode=mode,
        corrupt_column=values.get("corruptcolumn", "_corrupt"),
        source_column=values.get("sourcecolumn", "_source"),
        path_glob=values.get("pathglobfilter", "*.db"),
        is_recursive=_flag(values, "recursivefilelookup", False),
        partition_bytes=_bytes(values, "partitionbytes", 32 * 1024 * 1024),
        min_partitions=_number(values, "minpartitions", 1, least=1),
        fail_on_data_loss=_flag(values, "failondataloss", True),
        busy_timeout_s=_seconds(values, "busytimeout", 5.0),
        allow_network=_flag(values, "allownetwork", False),
        imports=Imports(name.strip() for name in values.get("imports", "").split(",") if name.strip()),
        max_changes=_number(values, "maxchangespertrigger", 0, least=1) or None,
        starting_offsets=_word(values, "startingoffsets", OFFSETS, OFFSETS[0]),
    )


def _paths(values: Mapping[str, str]) -> tuple[str, ...]:
    """Spark hands over `load(path)` as `path`, and `load([...])` as `paths` in JSON."""
    found: list[str] = []
    if values.get("path") == "":
        raise InvalidOption("path is empty: give load() a file, a folder, a glob or a list of those")
    if "paths" in values:
        try:
            listed = json.loads(values["paths"])
        except ValueError:
            listed = None
        if not isinstance(listed, list) or not all(isinstance(path, str) and path for path in listed):
            raise InvalidOption(
                f"option paths is a JSON list of strings that are not empty, not {shown(values['paths'])}"
            )
        found += listed
    if "path" in values:
        found.append(values["path"])
    return tuple(found)


def _ranges(values: Mapping[str, str]) -> tuple[tuple[str, int, int], ...] | None:
    """Option `ranges`: `{"/data/a.db": [100, 200]}`."""
    if "ranges" not in values:
        return None
    try:
        listed = json.loads(values["ranges"])
        found = tuple((path, since, until) for path, (since, until) in listed.items())
    except (ValueError, TypeError, AttributeError):
        found = (("", -1, -1),)
    if not all(
        type(since) is int and type(until) is int and 0 <= since <= until for _, since, until in found
    ):
        raise InvalidOption(
            "option ranges is JSON as {path: [since, until]}, of changes with since < seq <= until, "
            f"not {shown(values['ranges'])}"
        )
    return found


def _word(values: Mapping[str, str], name: str, allowed: Iterable[str], default: str) -> str:
    given = values.get(name, default)
    for each in allowed:
        if each.lower() == given.lower():
            return each
    raise InvalidOption(f"option {_KNOWN[name]} is one of {', '.join(allowed)}, not {word(given)}")


def _flag(values: Mapping[str, str], name: str, default: bool) -> bool:
    given = values.get(name)
    if given is None:
        return default
    if given.lower() in ("true", "false"):
        return given.lower() == "true"
    raise InvalidOption(f"option {_KNOWN[name]} is true or false, not {word(given)}")


def _number(values: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    given = values.get(name)
    if given is None:
        return default
    try:
        number = int(given)
    except ValueError:
        number = least - 1
    if number < least:
        raise InvalidOption(f"option {_KNOWN[name]} is a whole number of at least {least}, not {word(given)}")
    return number


def _seconds(values: Mapping[str, str], name: str, default: float) -> float:
    given = values.get(name, str(default))
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86_400:
        raise InvalidOption(
            f"option {_KNOWN[name]} is a number of seconds from 0 to 86400, not {word(given)}"
        )
    return seconds


_UNITS: Final = {
    "": 1,
    "b": 1,
    "k": 1 << 10,
    "kb": 1 << 10,
    "m": 1 << 20,
    "mb": 1 << 20,
    "g": 1 << 30,
    "gb": 1 << 30,
}


def _bytes(values: Mapping[str, str], name: str, default: int) -> int:
    given = values.get(name)
    if given is None:
        return default
    digits = given.strip().rstrip("bBkKmMgG")
    unit = _UNITS.get(given.strip()[len(digits) :].lower())
    if not digits.isdecimal() or unit is None or not int(digits) * unit:
        raise InvalidOption(
            f"option {_KNOWN[name]} is a size such as 32m or a number of bytes, not {word(given)}"
        )
    return int(digits) * unit


def _one_of(values: Mapping[str, str], seq: str, version: str, time: str) -> int | Instant | Version | None:
    given = [name for name in (seq, version, time) if name in values]
    if len(given) > 1:
        raise InvalidOption(
            f"options {' and '.join(_KNOWN[name] for name in given)} say the same thing twice: give one"
        )
    if not given:
        return None
    (name,) = given
    if name == seq:
        return _number(values, seq, 0, least=0)
    if name == version:
        return Version(_number(values, version, 0, least=0))
    return instant_of(values[name], _KNOWN[name])


def _position(values: Mapping[str, str], name: str) -> int | Instant | None:
    given = values.get(name)
    if given is None or given.strip().lower() == "now":
        return None
    if given.strip().isdecimal():
        return int(given)
    return instant_of(given, _KNOWN[name])


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def instant_of(text: str, name: str = "a timestamp") -> Instant:
    """The moment of an ISO 8601 text, which is in UTC if it has no offset.

    Raises:
        InvalidOption: The text is not a time in ISO 8601.
    """
    try:
        value: Any = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidOption(
            f"{name} is a seq or an ISO 8601 time such as 2026-01-31T12:00:00Z, not {word(text)}"
            if name == "asOf"
            else f"{name} is an ISO 8601 time such as 2026-01-31T12:00:00Z, not {word(text)}"
        ) from None
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return Instant((value - _EPOCH) // timedelta(microseconds=1))
