"""The options of a write: `df.write.format("reactdb").option(...)`, from Spark's strings to one frozen value.

Rule of this file: it parses, as `options` does for reads. It opens no database.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote, urlparse

from reactdb.errors import InvalidOption, format_value, format_word
from reactdb.spark import staging
from reactdb.spark.options import FORMS, UPSERT, import_modules
from reactdb.store.catalogue import check_name

NAMES = (
    "path",
    "table",
    "document",
    "primaryKey",
    "conflict",
    "mode",
    "nulls",
    "uuidFields",
    "deleteField",
    "durability",
    "busyTimeout",
    "imports",
    "origin",
    "stagingPath",
    "inlineBytes",
    "checkpointLocation",
    "txnAppId",
    "txnVersion",
)


@dataclass(frozen=True)
class WriteOptions:
    """The options of a write, checked. Their names in Spark are in camelCase.

    Attributes:
        path: The absolute path of the database file.
        table: The name of the table, which is created if it is missing.
        primary_key: The primary key of a new table; None: the existing table's key, or "id".
        conflict: The treatment of an existing key, as in `Table.insert`.
        document: "struct" if the columns are the fields; "json", "variant" or "binary" if one column has whole documents.
        nulls: "drop" or "keep" the null fields of rows and structs.
        uuid_fields: Columns of text to be stored as UUIDs.
        delete_field: A boolean column; a row in which it is true deletes its key. The column is not stored.
        durability, busy_timeout_s, origin: As in `reactdb.connect`.
        imports: Modules that register the table's write hook, or types of values, imported in the driver and in each task.
        staging_path: A staging folder that all machines see; None: a folder beside the database.
        inline_bytes: The output of a task travels in its message up to this size.
        checkpoint: The path of the stream's checkpoint; empty if Spark does not give it.
        sender, delivery: The caller's name and number for this write, so that it is not executed twice.
    """

    path: str
    table: str
    document: str
    primary_key: str | None
    conflict: Literal["error", "replace", "update"]
    nulls: str
    uuid_fields: tuple[str, ...]
    delete_field: str | None
    durability: Literal["hard", "soft"]
    busy_timeout_s: float
    origin: str | None
    imports: tuple[str, ...]
    staging_path: str | None
    inline_bytes: int
    checkpoint: str
    sender: str | None
    delivery: int

    @staticmethod
    def of(options: Mapping[str, str]) -> WriteOptions:
        """The checked options. Raises: InvalidOption, InvalidName."""
        values = {name.lower(): value for name, value in options.items()}
        unknown = sorted(values.keys() - {name.lower() for name in NAMES})
        if unknown:
            raise InvalidOption(
                f"unknown option {format_word(unknown[0])} of a write to reactdb; it knows {', '.join(NAMES)}"
            )
        # `mode=upsert` means conflict=replace; Spark's own `.mode()` does not accept this word.
        is_upsert = "mode" in values and one_of(values, "mode", (UPSERT,))
        if is_upsert and values.setdefault("conflict", "replace").lower() != "replace":
            raise InvalidOption(f"mode={UPSERT} means conflict=replace: leave one of them out")
        path, table = values.get("path"), values.get("table")
        if not path:
            raise InvalidOption('a write to reactdb needs the path of one database file: .save("arena.db")')
        if not table:
            raise InvalidOption('a write to reactdb needs the name of a table: .option("table", "games")')
        check_name("Table", table)
        document = one_of(values, "document", FORMS)
        if document != "struct" and "nulls" in values:
            raise InvalidOption(
                f"nulls is for rows, which cannot tell a null from what is missing: with document={document} nulls stay"
            )
        sender, delivery = values.get("txnappid"), values.get("txnversion")
        if (sender is None) != (delivery is None):
            raise InvalidOption("txnAppId and txnVersion belong together: give both, or neither")
        return WriteOptions(
            path=local_path(path),
            table=table,
            document=document,
            primary_key=values.get("primarykey") or None,
            conflict=one_of(values, "conflict", ("error", "replace", "update")),  # type: ignore[arg-type]
            nulls=one_of(values, "nulls", ("drop", "keep")),
            uuid_fields=tuple(
                name.strip() for name in values.get("uuidfields", "").split(",") if name.strip()
            ),
            delete_field=values.get("deletefield") or None,
            durability=one_of(values, "durability", ("hard", "soft")),  # type: ignore[arg-type]
            busy_timeout_s=number(values, "busyTimeout", 5.0, 86_400),
            origin=values.get("origin") or None,
            imports=import_modules("imports", values.get("imports", "")),
            staging_path=None if not values.get("stagingpath") else local_path(values["stagingpath"]),
            inline_bytes=int(number(values, "inlineBytes", staging.INLINE_BYTES, 1 << 30)),
            checkpoint=values.get("checkpointlocation", ""),
            sender=sender,
            delivery=0 if delivery is None else whole_number("txnVersion", delivery),
        )


def one_of(options: Mapping[str, str], name: str, words: tuple[str, ...]) -> str:
    """The option, or the first of the words if it is not given."""
    given = options.get(name.lower(), words[0])
    if given.lower() not in words:
        raise InvalidOption(f"{name} is {' or '.join(words)}, not {format_word(given)}")
    return given.lower()


def number(options: Mapping[str, str], name: str, default: float, most: float) -> float:
    try:
        value = float(options.get(name.lower(), default))
    except ValueError:
        value = -1.0
    if not 0 <= value <= most:
        raise InvalidOption(
            f"{name} is a number from 0 to {int(most)}, not {format_value(options[name.lower()])}"
        )
    return value


def whole_number(name: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not 0 <= value < 1 << 63:
        raise InvalidOption(f"{name} is a whole number from 0, not {format_value(text)}")
    return value


def local_path(path: str) -> str:
    """The absolute path of a local file, also if Spark gives it as a URI."""
    parts = urlparse(path)
    if parts.scheme == "file":
        path = unquote(parts.path)
    elif parts.scheme and "://" in path:
        raise InvalidOption(f"{path} is no file of this machine: reactdb writes to local or mounted files")
    return os.path.abspath(path)
