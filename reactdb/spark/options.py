"""The options of a read or a write, from Spark's strings to one frozen value.

Spark hands options over as strings under names of any case, and ignores unknown names without a warning. So names are compared
without their case, and an unknown name or a wrong value is refused, with a list of the known ones.

Rule of this file: it parses. Whether a position, a path or a table exists is checked where the file is opened.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, Final, Literal

from reactdb.errors import InvalidOption, format_value, format_word
from reactdb.lake.fleet import FileOptions, plain_path
from reactdb.store.catalogue import check_name
from reactdb.values.scalars import EPOCH, microseconds_of

READS: Final = ("documents", "changes")
SHAPES: Final = ("reactdb", "delta", "debezium")
FORMS: Final = ("struct", "json", "variant", "binary")
MODES: Final = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
NOW: Final = "now"
# What a write does with a key that is taken.
ON_CONFLICT: Final = ("error", "replace", "update")
# Larger numbers mean the same as this number: no log, no file and no table has as many of anything.
GREATEST: Final = 2**62
# Removed options -> what to do instead.
REMOVED: Final = {
    "pushDown": "filters are not pushed down, because Spark keeps the rows that are left after one filter for every other query "
    "of the same DataFrame: choose a range with start, end or asOf",
    "versionAsOf": "give asOf, which takes a seq or a time",
    "timestampAsOf": "give asOf, which takes a seq or a time",
    "startSeq": "give start, which takes a seq or a time",
    "endSeq": "give end, which takes a seq or a time",
    "startTimestamp": "give start, which takes a seq or a time",
    "endTimestamp": "give end, which takes a seq or a time",
    "startingVersion": "give start: the column commit has the seq with which each commit begins",
    "endingVersion": "give end, the seq of the last change to read",
    "startingTimestamp": "give start, which takes a seq or a time",
    "endingTimestamp": "give end, which takes a seq or a time",
    "startingOffsets": "a stream begins with the first change: give start=now for later writes only",
    "readChangeFeed": "give read=changes and shape=delta",
    "ranges": "give start and end, and load files with other ranges by themselves",
    "strictFields": "a field that your own schema lacks is left out: leave the schema out to have it in _corrupt",
    "samplingSize": "the schema is inferred from 1,000 documents: name the columns with .schema(...) if that does not do",
    "conflicts": "a field with values of several types is a VARIANT: cast it, or name it as STRING in .schema(...)",
    "columnNameOfCorruptRecord": "the column is called _corrupt: rename it with withColumnRenamed",
    "corruptColumn": "the column is called _corrupt: rename it with withColumnRenamed",
    "sourceColumn": "the column is called _source: rename it with withColumnRenamed",
    "pathGlobFilter": "give a glob as the path, such as /data/*.sqlite",
    "recursiveFileLookup": "give a glob as the path, such as /data/**/*.db",
    "maxPartitionBytes": "give partitionBytes",
    "minPartitions": "give a smaller partitionBytes for more partitions",
    "inlineBytes": "all documents are staged in files: leave the option out",
    "nulls": "a null field of a row is left out of the document: write whole documents (document=json) to keep it",
    "uuidFields": "a UUID is kept by document=binary; as a column it is text",
    "durability": "a write is one transaction, and is synchronised to the disk once: leave the option out",
}


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a read. docs/reference/spark.md explains each of them.

    Attributes:
        paths: Files, folders or globs, as given.
        table: None: all tables if changes are read, the only table if documents are.
        read: One of READS.
        shape: One of SHAPES: the columns of change rows.
        as_of: The seq or the time of the state to read.
        start, end: The seq or the time of the first and of the last change to read; None: from the first that is left.
        document: One of FORMS; None: `struct`, or `variant` if changes of several tables are read.
        mode: One of MODES; None: PERMISSIVE if there is a column for misfits, otherwise FAILFAST.
        max_changes: The largest number of changes in a batch of a stream; None: no limit.
        ignore_corrupt_files, ignore_missing_files: See `FileOptions`.
        imports: Modules that register types of values, imported in each reading process.
    """

    paths: tuple[str, ...] = ()
    table: str | None = None
    read: str = "documents"
    shape: str = "reactdb"
    as_of: Moment = NOW
    start: Moment | None = None
    end: Moment = NOW
    document: str | None = None
    mode: str | None = None
    partition_bytes: int = 32 * 1024 * 1024
    fail_on_data_loss: bool = True
    busy_timeout_s: float = 5.0
    allow_network: bool = False
    ignore_corrupt_files: bool = False
    ignore_missing_files: bool = False
    imports: tuple[str, ...] = ()
    max_changes: int | None = None

    @property
    def files(self) -> FileOptions:
        """The files to read, and how they are opened."""
        return FileOptions(
            self.paths,
            busy_timeout_s=self.busy_timeout_s,
            allow_network=self.allow_network,
            ignore_corrupt_files=self.ignore_corrupt_files,
            ignore_missing_files=self.ignore_missing_files,
        )

    @property
    def form(self) -> str:
        """The form of the documents, once the schema has been inferred or given."""
        return self.document or "struct"

    @property
    def is_changes(self) -> bool:
        return self.read == "changes"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a write.

    Attributes:
        path: The absolute path of the database file.
        table: The name of the table, which is created if it is missing.
        document: One of FORMS: "struct" if the columns are the fields, otherwise one column has whole documents.
        primary_key: The primary key of a new table; None: the existing table's key, or "id".
        conflict: The treatment of an existing key, as in `Table.insert`.
        delete_field: A boolean column; a row in which it is true deletes its key. The column is not stored.
        busy_timeout_s, origin: As in `reactdb.connect`.
        imports: Modules that register the table's write hook, or types of values, imported in the driver and in each task.
        staging_path: A staging folder that all machines see; None: a folder beside the database.
        checkpoint: The path of the stream's checkpoint; empty if Spark does not give it.
        sender, delivery: The caller's name and number for this write, so that it is not executed twice.
    """

    path: str
    table: str
    document: str = "struct"
    primary_key: str | None = None
    conflict: Literal["error", "replace", "update"] = "error"
    delete_field: str | None = None
    busy_timeout_s: float = 5.0
    origin: str | None = None
    imports: tuple[str, ...] = ()
    staging_path: str | None = None
    checkpoint: str = ""
    sender: str | None = None
    delivery: int = 0


@dataclass(frozen=True, slots=True)
class Instant:
    """A moment, in microseconds since 1970-01-01 UTC."""

    microseconds: int


Moment = int | Instant | Literal["now"]


def parse(given: Mapping[str, str]) -> Options:
    """The options of `.option(...)`, `.options(...)` and `.load(path)`.

    Raises:
        InvalidOption: A name is unknown, a value is not allowed, or two options contradict each other.
    """
    attributes: dict[str, Any] = {}
    for given_name, value in given.items():
        name = _KNOWN.get(given_name.lower())
        if given_name.lower().startswith("option."):
            raise InvalidOption(
                "the options of a table of Spark's catalogue are lost when it is read: CREATE TEMPORARY VIEW ... USING reactdb "
                "OPTIONS (...) keeps them"
            )
        if name is None:
            raise InvalidOption(_refuse(given_name, NAMES, "the data source"))
        if name in READERS:
            attribute, read = READERS[name]
            attributes[attribute] = read(name, value)
    if not OF_CHANGES.isdisjoint(attributes):
        attributes.setdefault("read", "changes")
    # Spark hands over `load(path)` as `path`, and `load([...])` as `paths`.
    path = attributes.pop("path", None)
    if path is not None:
        attributes["paths"] = (*attributes.get("paths", ()), path)
    options = Options(**attributes)
    if options.is_changes and options.as_of != NOW:
        raise InvalidOption("asOf chooses documents: leave it out, and choose changes with start and end")
    if not options.is_changes and not OF_CHANGES.isdisjoint(attributes):
        raise InvalidOption(
            "shape, start, end and maxChangesPerTrigger choose changes: leave out read=documents, or choose documents with asOf, "
            "which takes a seq or a time"
        )
    return options


def parse_write(given: Mapping[str, str]) -> WriteOptions:
    """The options of `df.write` and `df.writeStream`. Raises: InvalidOption, InvalidName."""
    attributes = {}
    for given_name, value in given.items():
        name = _WRITES.get(given_name.lower())
        if name is None:
            raise InvalidOption(_refuse(given_name, WRITE_READERS, "a write to reactdb"))
        attribute, read = WRITE_READERS[name]
        attributes[attribute] = read(name, value)
    if not attributes.get("path"):
        raise InvalidOption('a write to reactdb needs the path of one database file: .save("arena.db")')
    if not attributes.get("table"):
        raise InvalidOption('a write to reactdb needs the name of a table: .option("table", "games")')
    check_name("Table", attributes["table"])
    if ("sender" in attributes) != ("delivery" in attributes):
        raise InvalidOption("txnAppId and txnVersion belong together: give both, or neither")
    return WriteOptions(**attributes)


def _refuse(name: str, known: Iterable[str], what: str) -> str:
    """The sentence about an option that there is not."""
    for removed, why in REMOVED.items():
        if removed.lower() == name.lower():
            return f"option {removed} was removed: {why}"
    if name.lower() in _KNOWN:
        return f"option {_KNOWN[name.lower()]} is for a read: leave it out of {what}"
    # Imported here because only mistakes need it, and each worker imports this file.
    from reactdb.guessed_words import nearest

    names = tuple(known)
    near = nearest(name, names)
    return f"unknown option {format_word(name)}; {what} knows {', '.join(names)}" + (
        f"; {near}" if near else ""
    )


# ---------------------------------------------------------------------------------------------------------------
# The readers: the name of an option and its text in, its value out, or InvalidOption

Reader = Callable[[str, str], Any]


def _text(name: str, given: str) -> str:
    return given


def _text_or_none(name: str, given: str) -> str | None:
    return given or None


def _local_path(name: str, given: str) -> str | None:
    path = os.path.abspath(plain_path(given)) if given else None
    if path is not None and "*" in path and not os.path.exists(path):
        raise InvalidOption(f"option {name} is one path for a write, not the glob {given}")
    return path


class _Imported(tuple[str, ...]):
    """Names of modules. They are imported when this is made and wherever it is unpickled."""

    __slots__ = ()

    def __new__(cls, names: Iterable[str]) -> _Imported:
        made = super().__new__(cls, names)
        for name in made:
            import_module(name)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return _Imported, (tuple(self),)


def import_modules(name: str, given: str) -> tuple[str, ...]:
    """The modules of an option, imported here and wherever the value is unpickled."""
    names = [module.strip() for module in given.split(",") if module.strip()]
    for module in names:
        if module.startswith("."):
            raise InvalidOption(f"option {name}: {module!r} is no full name of a module")
    try:
        return _Imported(names)
    except ImportError as error:
        raise InvalidOption(f"option {name}: {error}") from None


def _path(name: str, given: str) -> str:
    if not given:
        raise InvalidOption("path is empty: give load() a file, a folder, a glob or a list of those")
    return given


def _paths(name: str, given: str) -> tuple[str, ...]:
    try:
        listed = json.loads(given)
    except ValueError:
        listed = None
    if not isinstance(listed, list) or not all(isinstance(path, str) and path for path in listed):
        raise InvalidOption(
            f"option paths is a JSON list of strings that are not empty, not {format_value(given)}"
        )
    return tuple(listed)


def _choice_of(*allowed: str) -> Reader:
    def read(name: str, given: str) -> str:
        for each in allowed:
            if each.lower() == given.lower():
                return each
        raise InvalidOption(f"option {name} is one of {', '.join(allowed)}, not {format_word(given)}")

    return read


def _flag(name: str, given: str) -> bool:
    if given.lower() in ("true", "false"):
        return given.lower() == "true"
    raise InvalidOption(f"option {name} is true or false, not {format_word(given)}")


def _number_from(least: int) -> Reader:
    def read(name: str, given: str) -> int:
        try:
            number = int(given)
        except ValueError:
            number = least - 1
        if number < least:
            raise InvalidOption(
                f"option {name} is a whole number of at least {least}, not {format_word(given)}"
            )
        return min(number, GREATEST)

    return read


def _seconds(name: str, given: str) -> float:
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86_400:
        raise InvalidOption(f"option {name} is a number of seconds from 0 to 86400, not {format_word(given)}")
    return seconds


_SIZE: Final = re.compile(r"(\d{1,18})([kmg]?)b?", re.ASCII | re.IGNORECASE)


def _bytes(name: str, given: str) -> int:
    match = _SIZE.fullmatch(given.strip())
    if match is None or not int(match[1]):
        raise InvalidOption(
            f"option {name} is a size such as 32m or a number of bytes, not {format_word(given)}"
        )
    return int(match[1]) << 10 * " kmg".index(match[2].lower() or " ")


def _moment(name: str, given: str) -> Moment:
    """A seq, an ISO 8601 text, which is in UTC if it has no offset, or now."""
    text = given.strip()
    if text.lower() == NOW:
        return NOW
    if text.isdecimal():
        # Python reads no number of more than 4,300 digits.
        with suppress(ValueError):
            return min(int(text), GREATEST)
    try:
        value: Any = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidOption(
            f"{name} is a seq, an ISO 8601 time such as 2026-01-31T12:00:00Z, or now, not {format_word(given)}"
        ) from None
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return Instant(microseconds_of(value - EPOCH))


# Attributes of these options are of changes alone, so each of them chooses read=changes.
OF_CHANGES: Final = frozenset({"shape", "start", "end", "max_changes"})
# Name, as messages and documentation write it -> (attribute of Options, how its text is read).
READERS: Final[dict[str, tuple[str, Reader]]] = {
    "path": ("path", _path),
    "paths": ("paths", _paths),
    "table": ("table", _text),
    "read": ("read", _choice_of(*READS)),
    "shape": ("shape", _choice_of(*SHAPES)),
    "asOf": ("as_of", _moment),
    "start": ("start", _moment),
    "end": ("end", _moment),
    "document": ("document", _choice_of(*FORMS)),
    "mode": ("mode", _choice_of(*MODES)),
    "partitionBytes": ("partition_bytes", _bytes),
    "failOnDataLoss": ("fail_on_data_loss", _flag),
    "busyTimeout": ("busy_timeout_s", _seconds),
    "allowNetwork": ("allow_network", _flag),
    "ignoreCorruptFiles": ("ignore_corrupt_files", _flag),
    "ignoreMissingFiles": ("ignore_missing_files", _flag),
    "imports": ("imports", import_modules),
    "maxChangesPerTrigger": ("max_changes", _number_from(1)),
}
WRITE_READERS: Final[dict[str, tuple[str, Reader]]] = {
    "path": ("path", _local_path),
    "table": ("table", _text),
    "document": ("document", _choice_of(*FORMS)),
    "primaryKey": ("primary_key", _text_or_none),
    "conflict": ("conflict", _choice_of(*ON_CONFLICT)),
    "deleteField": ("delete_field", _text_or_none),
    "busyTimeout": ("busy_timeout_s", _seconds),
    "origin": ("origin", _text_or_none),
    "imports": ("imports", import_modules),
    "stagingPath": ("staging_path", _local_path),
    "txnAppId": ("sender", _text),
    "txnVersion": ("delivery", _number_from(0)),
    # Spark's own option of a stream.
    "checkpointLocation": ("checkpoint", _text),
}
_WRITES: Final = {name.lower(): name for name in WRITE_READERS}
NAMES: Final = tuple(dict.fromkeys((*READERS, *WRITE_READERS)))
# A read accepts the options of a write, so that both can be given the same ones.
_KNOWN: Final = {name.lower(): name for name in NAMES}
