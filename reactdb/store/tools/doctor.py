"""The doctor examines whether a file agrees with itself. `reactdb doctor` prints the findings.

Everything in the file but the log can be computed from the log, so each check computes it and compares. A check
yields findings: a problem is a state that no version of reactdb makes, a warning is a state that should not last.

Rule of this file: it reads, on its own connection and as of one moment. It trusts no part of the examined file. A
check that fails over damage reports that as its finding.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Literal

from reactdb.change import CATALOGUE, CATALOGUE_KINDS, DELETE, INSERT, KINDS, TABLE_CREATE, TABLE_DROP
from reactdb.clock import time_ns
from reactdb.errors import CorruptDatabase, IncompatibleFormat, ReactDBError, how_to_install
from reactdb.store import schema
from reactdb.store.blobs import GRACE_MS, NUMBER_BITS, check_pieces, read_blob
from reactdb.store.catalogue import NAME, TableInfo, load
from reactdb.store.checksums import is_entry_whole
from reactdb.store.damage import format_key
from reactdb.store.file import sqlite
from reactdb.store.file.sqlite import Connection, SQLiteError, file_bytes
from reactdb.store.log import read_low_water
from reactdb.store.positions import read_parts
from reactdb.store.schema import BLOCK_BITS
from reactdb.store.snapshot import read_head_seq
from reactdb.store.sums import differences
from reactdb.store.tools.figures import open_file
from reactdb.store.unique import iterate_violations
from reactdb.values import codec, collation
from reactdb.values.blob import HEADER, blobs_in, digest_bytes

# Findings of one check that are reported one by one; damage is often everywhere.
MOST_FINDINGS: Final = 20
# Four times the size at which writers empty it.
LARGE_WAL_BYTES: Final = 64 * 1024 * 1024

Level = Literal["problem", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault, and the name of the check that found it."""

    level: Level
    check: str
    message: str


@dataclass(frozen=True, slots=True)
class Examination:
    """The examined file: a connection inside a read transaction, and the range of its log: low < seq <= head."""

    connection: Connection
    path: str
    low: int
    head: int

    def select(self, statement: str, parameters: tuple[Any, ...] = ()) -> Iterator[Any]:
        """Rows one by one, on a cursor of their own."""
        return iter(self.connection.execute(statement, parameters))

    def value(self, statement: str, parameters: tuple[Any, ...] = ()) -> Any:
        return self.connection.execute(statement, parameters).fetchone()[0]


Found = Iterator[str | Finding]
Check = Callable[[Examination], Found]


def examine(path: str) -> Iterator[tuple[str, list[Finding]]]:
    """Carry out every check in turn: (its name, its findings).

    Raises:
        CannotOpen, NotADatabase, IncompatibleFormat, DatabaseBusy: As `open_file` says.
    """
    with open_file(path) as connection:
        try:
            low, head = read_low_water(connection), read_head_seq(connection)
        except (SQLiteError, CorruptDatabase):
            # `check_settings` reports it; the other checks assume that the log is complete.
            low, head = 0, 0
        examined = Examination(connection, os.path.realpath(path), low, head)
        for name, check in CHECKS.items():
            yield name, list(_run_check(name, check, examined))


def _run_check(name: str, check: Check, examined: Examination) -> Iterator[Finding]:
    problems = check(examined)
    try:
        for one in islice(problems, MOST_FINDINGS):
            yield one if isinstance(one, Finding) else Finding("problem", name, one)
        more = sum(1 for _ in problems)
    except Exception as error:
        # Not only our errors: anything may be wrong in a row, and some line of a check will fail over it.
        yield Finding("problem", name, f"the check could not be finished: {type(error).__name__}: {error}")
        return
    if more:
        yield Finding("problem", name, f"and {more:,} more")


def describe_kind(kind: Any) -> str:
    """For example `an insert`."""
    if kind in CATALOGUE_KINDS:
        return f"of kind {CATALOGUE_KINDS[kind]}"
    if kind not in range(len(KINDS)):
        return "of no known kind"
    return f"{'an' if KINDS[kind][0] in 'iu' else 'a'} {KINDS[kind]}"


def describe_place(table_id: Any, key: Any) -> str:
    return f"table {table_id}, key {format_key(key)}"


# ---------------------------------------------------------------------------------------------------------------
# SQLite's side


def check_sqlite(examined: Examination) -> Found:
    """The library, the mode of the file, the write-ahead log."""
    if sqlite.has_wal_reset_bug():
        version = ".".join(map(str, sqlite.VERSION))
        yield Finding(
            "warning",
            "sqlite",
            f"SQLite {version} has the WAL-reset bug (fixed in 3.51.3): programs other than reactdb that write to this file, "
            f"or checkpoint it, can damage it. reactdb works around it. A fixed SQLite: {how_to_install('sqlite')}",
        )
    mode = examined.value("PRAGMA journal_mode")
    if mode != "wal":
        yield f"the journal mode is {mode}, not wal: another program has switched it, and readers block writers now"
    wal_bytes = file_bytes(examined.path + "-wal")
    if wal_bytes > LARGE_WAL_BYTES:
        yield Finding(
            "warning",
            "sqlite",
            f"the write-ahead log has {wal_bytes:,} bytes: a reader that does not end keeps it from being emptied",
        )


def check_integrity(examined: Examination) -> Found:
    """SQLite's own check of every page and every tree."""
    for (message,) in examined.select("PRAGMA integrity_check"):
        if message != "ok":
            yield str(message)


def check_schema(examined: Examination) -> Found:
    """The tables are those of the format, and nothing else could act on them."""
    # Compared with an empty database of this format in memory. Its name makes it this run's own.
    fresh = sqlite.connect(f"reactdb-doctor-{id(examined):x}", mode="rwc", busy_timeout_s=0, memory=True)
    try:
        version = examined.value("PRAGMA user_version")
        schema.make(fresh, version)
        expected = _schema_objects(fresh)
    finally:
        fresh.close()
    actual = _schema_objects(examined.connection)
    for (kind, name), definition in sorted(expected.items()):
        if (kind, name) not in actual:
            yield f"{kind} {name} is missing"
        elif actual[kind, name] != definition:
            yield f"{kind} {name} is not as format {version} has it"
    for kind, name in sorted(actual.keys() - expected.keys()):
        yield f"{kind} {name} does not belong here"


def _schema_objects(connection: Connection) -> dict[tuple[str, str], str]:
    # SQLite's own objects are named sqlite_%: sequences, statistics, automatic indexes.
    return {
        (kind, name): " ".join((text or "").split())
        for kind, name, text in connection.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        ).fetchall()
    }


# ---------------------------------------------------------------------------------------------------------------
# Settings and catalogue


def check_settings(examined: Examination) -> Found:
    """The settings: database id, beginning of the log, version of the catalogue; and the epochs."""
    facts = dict(examined.select("SELECT name, value FROM facts"))
    if not isinstance(facts.get("database_id"), str) or not facts["database_id"]:
        yield "the database id is missing"
    low, catalogue = facts.get("low_water"), facts.get("catalogue")
    if not isinstance(low, int) or not 0 <= low <= examined.head:
        yield f"the log begins past seq {low!r}, which is not a position in a log that ends at {examined.head}"
    if not isinstance(catalogue, int) or catalogue < 0:
        yield f"the version of the catalogue is {catalogue!r}"
    before = epochs = first = 0
    for epoch, since, position in examined.select(
        "SELECT epoch, since, position FROM epochs ORDER BY position"
    ):
        epochs += 1
        if epochs == 1:
            # Compaction removes the oldest.
            first = position
        elif position != first + epochs - 1:
            yield f"epoch {epoch} is number {position}, after {epochs - 1} others from number {first} on"
            first = position - epochs + 1
        if not before <= since <= examined.head:
            yield f"epoch {epoch} begins at seq {since}, which is not between {before} and {examined.head}"
        before = since
        if epochs == 1 and isinstance(low, int) and since > low:
            yield f"the first epoch begins at seq {since}, and the log can be read from {low}: positions between cannot be named"
    if not epochs:
        yield "there is no epoch: positions in the log cannot be named"


INTEGERS: Final = {
    "log": ("table_id", "kind", "step", "time"),
    "heads": ("table_id", "seq"),
    "graves": ("table_id", "seq"),
    "marks": ("table_id", "block"),
    "entries": ("index_id", "tag"),
    "tables": ("created",),
    "indexes": ("table_id", "multi", "is_unique"),
    "positions": ("part", "fence", "attempts"),
    "blobs": ("size", "piece_bytes", "time", "used", "seal"),
    "pieces": ("seal",),
    "blob_refs": ("seq", "blob"),
}
# Column -> the types that SQLite may report for it.
OTHERS: Final = {
    "log": {
        "prev": "integer null",
        "key": "blob",
        "body": "blob null",
        "origin": "text null",
        "meta": "blob null",
        "seal": "integer",
    },
    "heads": {"key": "blob"},
    "graves": {"key": "blob"},
    "marks": {"newest": "integer null", "sums": "blob null"},
    "entries": {"value": "blob", "key": "blob"},
    "tables": {
        "name": "text",
        "primary_key": "text",
        "dropped": "integer null",
        "owner": "text null",
        "hook": "text null",
    },
    "indexes": {"name": "text", "expression": "blob"},
    "positions": {
        "kind": "text",
        "name": "text",
        "position": "integer null",
        "epoch": "text null",
        "holder": "text null",
        "leased": "integer null",
        "value": "blob null",
    },
    "blobs": {"digest": "blob null"},
    "pieces": {"bytes": "blob"},
}


def check_values(examined: Examination) -> Found:
    """Every column holds values of its type. SQLite itself would store any type anywhere."""
    for table in INTEGERS:
        wanted = dict.fromkeys(INTEGERS[table], "integer") | OTHERS.get(table, {})
        tests = ", ".join(
            "total(typeof({}) NOT IN ({}))".format(column, ", ".join(f"'{kind}'" for kind in kinds.split()))
            for column, kinds in wanted.items()
        )
        (counts,) = examined.select(f"SELECT {tests} FROM {table}")
        for column, count in zip(wanted, counts, strict=True):
            if count:
                yield f"{table}.{column} has {int(count):,} values of another type than {wanted[column]}"


def check_positions(examined: Examination) -> Found:
    """Every position matches its checksum."""
    for kind, name in examined.select("SELECT DISTINCT kind, name FROM positions ORDER BY kind, name"):
        try:
            read_parts(examined.connection, kind, name)
        except ReactDBError as error:
            yield str(error)


def check_catalogue(examined: Examination) -> Found:
    """Tables and indexes: names, lifetimes, expressions; and that no row belongs to an unlisted table or index."""
    for table_id, name, primary_key, created, dropped in examined.select(
        "SELECT id, name, primary_key, created, dropped FROM tables ORDER BY id"
    ):
        if not isinstance(name, str) or NAME.fullmatch(name) is None:
            yield f"table {table_id} has the name {name!r}"
        if not primary_key:
            yield f"table {name!r} has no primary key"
        end = examined.head if dropped is None else dropped
        if not 0 <= created <= end <= examined.head:
            yield f"table {name!r} lives from seq {created} to {end}, in a log that ends at {examined.head}"
    # The entries of the catalogue itself are in the log, and nothing is looked up by them.
    not_catalogue = f" AND table_id != {CATALOGUE}"
    for table, also in {"log": not_catalogue, "heads": "", "graves": "", "marks": not_catalogue}.items():
        for table_id, count in examined.select(
            f"SELECT table_id, count(*) FROM {table} WHERE table_id NOT IN (SELECT id FROM tables){also} GROUP BY table_id"
        ):
            yield f"{count:,} rows of {table} belong to table {table_id}, which is not listed"
    for index_id, name, table_id in examined.select(
        "SELECT id, name, table_id FROM indexes WHERE table_id NOT IN (SELECT id FROM tables)"
    ):
        yield f"index {name!r} ({index_id}) belongs to table {table_id}, which is not listed"
    for index_id, count in examined.select(
        # Hidden entries have the negated number of their index.
        "SELECT abs(index_id) AS number, count(*) FROM entries WHERE number NOT IN (SELECT id FROM indexes) GROUP BY number"
    ):
        yield f"{count:,} index entries belong to index {index_id}, which is not listed"
    for seq, name, created, dropped in examined.select(
        "SELECT l.seq, t.name, t.created, t.dropped FROM log l JOIN tables t ON t.id = l.table_id"
        " WHERE l.seq <= t.created OR l.seq > t.dropped"
    ):
        lifetime = f"created at {created}" + ("" if dropped is None else f" and dropped at {dropped}")
        yield f"log entry {seq} belongs to table {name!r}, {lifetime}"
    try:
        schema.check_catalogue(examined.connection)
    except ReactDBError as error:
        yield str(error)
    try:
        load(examined.connection, is_checked=False)
    except ReactDBError as error:
        yield f"an index cannot be understood: {error}"


# ---------------------------------------------------------------------------------------------------------------
# The log


def check_sequence(examined: Examination) -> Found:
    """Past the low-water mark no seq is missing. (The newest may be: then the heads or tombstones that point to them
    show it.)"""
    for before, seq in examined.select(
        "SELECT before, seq FROM (SELECT seq, lag(seq, 1, ?1) OVER (ORDER BY seq) AS before FROM log WHERE seq > ?1)"
        " WHERE seq > before + 1",
        (examined.low,),
    ):
        yield f"log entries {before + 1} to {seq - 1} are missing"


def check_checksums(examined: Examination) -> Found:
    """Every entry matches its checksum. Format 1 has none."""
    if examined.value("PRAGMA user_version") < 2:
        yield Finding(
            "warning",
            "checksums",
            "the file has format 1, without checksums: a document that changed on the disk goes unnoticed. "
            "Opening it to write brings it to the present format",
        )
        return
    for row in examined.select(f"SELECT {schema.LOG_1}, seal FROM log ORDER BY seq"):
        if not is_entry_whole(row):
            seq, table_id, key = row[0], row[1], row[6]
            place = describe_place(table_id, key)
            yield f"log entry {seq} ({place}) does not match its checksum: it has changed since it was written"


def check_documents(examined: Examination) -> Found:
    """Every document in the log can be decoded, and has the key that it is filed under."""
    primary_keys = dict(examined.select("SELECT id, primary_key FROM tables"))
    for seq, table_id, kind, key, body in examined.select(
        "SELECT seq, table_id, kind, key, body FROM log ORDER BY seq"
    ):
        if table_id == CATALOGUE:
            yield from _check_catalogue_entry(examined, seq, kind, body)
            continue
        if kind not in range(len(KINDS)):
            yield f"log entry {seq} has the kind {kind!r}"
        if (body is None) is not (kind == DELETE):
            yield f"log entry {seq} is {describe_kind(kind)} {'without' if body is None else 'with'} a document"
        if body is None or table_id not in primary_keys:
            continue
        try:
            document = codec.decode(body)
        except ReactDBError as error:
            yield f"the document of log entry {seq} cannot be read: {error}"
            continue
        primary_key = primary_keys[table_id]
        try:
            own = collation.key_bytes(document[primary_key])
        except (KeyError, ReactDBError):
            own = None
        if own != key:
            filed = format_key(key)
            yield f"the document of log entry {seq} has another {primary_key!r} than its key {filed}"


def _check_catalogue_entry(examined: Examination, seq: int, kind: Any, body: Any) -> Found:
    """A change of the catalogue concerns a listed table, and made or dropped it there."""
    if kind not in CATALOGUE_KINDS or body is None:
        yield f"log entry {seq} should change the catalogue, but is {describe_kind(kind)}"
        return
    try:
        table_id = codec.decode(body)["table_id"]
        rows = list(examined.select("SELECT created, dropped FROM tables WHERE id = ?", (table_id,)))
    except (KeyError, ReactDBError) as error:
        yield f"log entry {seq}, a change of the catalogue, cannot be read: {error}"
        return
    if not rows:
        yield f"log entry {seq} is about table {table_id}, which is not listed"
        return
    ((created, dropped),) = rows
    if kind == TABLE_CREATE and created != seq:
        yield f"log entry {seq} made table {table_id}, which is listed as created at {created}"
    if kind == TABLE_DROP and dropped != seq:
        yield f"log entry {seq} dropped table {table_id}, which is listed as dropped at {dropped}"
    if seq < created or (dropped is not None and seq > dropped):
        yield f"log entry {seq} is about table {table_id}, created at {created} and dropped at {dropped}"


def check_history(examined: Examination) -> Found:
    """Each entry's `prev` is the entry of the same key that it superseded, or was compacted away."""
    low = examined.low
    for seq, prev, table_id, key, other_table, other_key in examined.select(
        "SELECT l.seq, l.prev, l.table_id, l.key, p.table_id, p.key FROM log l JOIN log p ON p.seq = l.prev"
        " WHERE l.prev >= l.seq OR p.table_id != l.table_id OR p.key != l.key"
    ):
        if prev >= seq:
            yield f"log entry {seq} supersedes {prev}, which is not before it"
        else:
            other = describe_place(other_table, other_key)
            yield f"log entry {seq} ({describe_place(table_id, key)}) supersedes {prev} ({other})"
    for prev, count in examined.select(
        "SELECT prev, count(*) FROM log WHERE prev IS NOT NULL GROUP BY prev HAVING count(*) > 1"
    ):
        yield f"log entry {prev} is superseded {count} times"
    for seq, kind, prev, has_old in examined.select(
        "SELECT l.seq, l.kind, l.prev, p.body IS NOT NULL FROM log l LEFT JOIN log p ON p.seq = l.prev"
        " WHERE l.seq > ?1 AND l.table_id != ?3 AND (l.kind = ?2) = (p.body IS NOT NULL)",
        (low, INSERT, CATALOGUE),
    ):
        if has_old:
            yield f"log entry {seq} is an insert, but supersedes the document of entry {prev}"
        else:
            yield f"log entry {seq} is {describe_kind(kind)}, but the document that it superseded is missing"
    for seq, prev in examined.select(
        "SELECT l.seq, l.prev FROM log l LEFT JOIN log p ON p.seq = l.prev"
        " WHERE p.seq IS NULL AND l.prev > ? AND l.prev <= ?",
        (low, examined.head),
    ):
        yield f"log entry {seq} supersedes {prev}, which is missing"
    for seq, prev in examined.select(
        "SELECT l.seq, l.prev FROM log l JOIN log p ON p.seq = l.prev WHERE l.seq <= ? AND l.prev < l.seq",
        (low,),
    ):
        yield Finding(
            "warning",
            "history",
            f"log entry {prev}, superseded by {seq}, takes room: compaction left it behind",
        )


def check_commits(examined: Examination) -> Found:
    """The changes of one commit are consecutive, and have one time and one origin; times never decrease."""
    for seq, step in examined.select("SELECT seq, step FROM log WHERE step < 0 OR step >= seq"):
        yield f"log entry {seq} is number {step} of its commit"
    for seq, step, before, is_same in examined.select(
        "SELECT l.seq, l.step, b.step, l.time = b.time AND l.origin IS b.origin"
        " FROM log l JOIN log b ON b.seq = l.seq - 1"
        " WHERE l.step != 0 AND (l.step != b.step + 1 OR l.time != b.time OR l.origin IS NOT b.origin)"
    ):
        if step != before + 1:
            yield f"log entry {seq} is number {step} of its commit, but follows number {before}"
        elif not is_same:
            yield f"log entry {seq} has another time or origin than the entry before it, in one commit"
    for seq, time, before_time in examined.select(
        "SELECT seq, time, before FROM (SELECT seq, time, lag(time) OVER (ORDER BY seq) AS before FROM log)"
        " WHERE time < before"
    ):
        yield f"log entry {seq} was written at {time}, before its predecessor's {before_time}"


def check_block_index(examined: Examination) -> Found:
    """The block index is complete: every table with entries in a block of the log has a row (a mark) for it. Reading the changes
    of a table skips blocks without a mark. If a mark says that a table's newest entry was removed, it was."""
    for table_id, block, seq in examined.select(
        f"SELECT l.table_id, l.seq >> {BLOCK_BITS}, min(l.seq) FROM log l WHERE l.seq > ? AND NOT EXISTS"
        f" (SELECT 1 FROM marks m WHERE m.table_id = l.table_id AND m.block = l.seq >> {BLOCK_BITS}) GROUP BY 1, 2",
        (examined.low,),
    ):
        yield f"the block index lacks block {block} of the log for table {table_id}: its changes from seq {seq} on are not read"
    for table_id, newest in examined.select(
        "SELECT table_id, newest FROM marks WHERE newest > ?", (examined.low,)
    ):
        yield f"the block index says that seq {newest} of table {table_id} was removed, but the log is whole past {examined.low}"


# ---------------------------------------------------------------------------------------------------------------
# Checks against the log

# The newest entry of each key: no other supersedes it.
NEWEST: Final = "l.seq NOT IN (SELECT prev FROM log WHERE prev IS NOT NULL)"


def check_current_documents(examined: Examination) -> Found:
    """The list of documents (heads): each row is the newest entry of its key, and each key with a document has a row."""
    yield from _check_newest(examined, "heads", "document", "which deleted it")
    for table_id, key, seq in _select_unfiled(examined, "heads", "NOT NULL"):
        yield f"log entry {seq} is the newest of {describe_place(table_id, key)}, but the list of documents does not have it"


def check_deleted_documents(examined: Examination) -> Found:
    """The list of deleted documents (graves) whose history is kept: each row is a deletion, the newest entry of its key."""
    yield from _check_newest(examined, "graves", "deletion", "which is a document")
    for table_id, key in examined.select(
        "SELECT g.table_id, g.key FROM graves g JOIN heads h ON h.table_id = g.table_id AND h.key = g.key"
    ):
        yield f"{describe_place(table_id, key)} is listed as a document and as a deleted document"
    for table_id, key, seq in _select_unfiled(examined, "graves", "NULL"):
        yield f"log entry {seq} deleted {describe_place(table_id, key)}, but the list of deleted documents does not have it"


def _check_newest(examined: Examination, tree: str, what: str, is_other: str) -> Iterator[str]:
    """Each row of a tree, heads or graves, leads to the newest entry of its key. `is_other`: the message for the
    wrong kind."""
    for table_id, key, seq, own_table, own_key in examined.select(
        f"SELECT t.table_id, t.key, t.seq, l.table_id, l.key FROM {tree} t LEFT JOIN log l ON l.seq = t.seq"
        " WHERE l.seq IS NULL OR l.table_id != t.table_id OR l.key != t.key OR (l.body IS NULL) = ?",
        (tree == "heads",),
    ):
        place = describe_place(table_id, key)
        if own_table is None:
            yield f"the {what} of {place} is log entry {seq}, which is missing"
        elif (own_table, own_key) != (table_id, key):
            yield f"the {what} of {place} is log entry {seq}, which is of {describe_place(own_table, own_key)}"
        else:
            yield f"the {what} of {place} is log entry {seq}, {is_other}"
    for table_id, key, seq in examined.select(
        f"SELECT t.table_id, t.key, t.seq FROM {tree} t WHERE t.seq IN (SELECT prev FROM log WHERE prev IS NOT NULL)"
    ):
        yield f"the {what} of {describe_place(table_id, key)} is log entry {seq}, which was superseded"


def _select_unfiled(examined: Examination, tree: str, body: str) -> Iterator[Any]:
    """The newest entries whose body is NULL, or NOT NULL, and to which no row of the tree leads."""
    return examined.select(
        f"SELECT l.table_id, l.key, l.seq FROM log l LEFT JOIN {tree} t ON t.table_id = l.table_id AND t.key = l.key"
        f" WHERE l.table_id != {CATALOGUE} AND l.body IS {body} AND t.seq IS NOT l.seq AND {NEWEST}"
    )


def check_indexes(examined: Examination) -> Found:
    """Each index has exactly the entries that its expression gives for the documents, and a unique index has each value in one
    document."""
    yield from iterate_violations(examined.connection, load(examined.connection, is_checked=False))
    for table in load(examined.connection, is_checked=False).by_id.values():
        if table.dropped is not None and table.dropped <= examined.low:
            # Compaction removes it, a part at a time.
            continue
        try:
            yield from _check_indexes_of(examined, table)
        except IncompatibleFormat as error:
            yield Finding("warning", "indexes", f"table {table.name!r} was not checked to its end: {error}")


def _check_indexes_of(examined: Examination, table: TableInfo) -> Found:
    expected = dict.fromkeys((index.id for index in table.indexes.values()), 0)
    documents = examined.select(
        "SELECT h.key, l.body FROM heads h JOIN log l ON l.seq = h.seq WHERE h.table_id = ?", (table.id,)
    )
    for key, body in documents if table.indexes else ():
        document = codec.decode(body)
        for index in table.indexes.values():
            for index_id, value, tag in index.stored_entries(document):
                expected[index.id] += 1
                if not examined.value(
                    "SELECT count(*) FROM entries WHERE index_id = ? AND value = ? AND key = ? AND tag = ?",
                    (index_id, value, key, tag),
                ):
                    yield f"index {index.name!r} does not have {describe_place(table.id, key)} under {format_key(value)}"
    for index in table.indexes.values():
        # All entries that belong there were found above. If there are no more than those, there are no others.
        if (
            examined.value("SELECT count(*) FROM entries WHERE index_id IN (?1, -?1)", (index.id,))
            <= expected[index.id]
        ):
            continue
        for index_id, value, key, tag, body in examined.select(
            "SELECT e.index_id, e.value, e.key, e.tag, l.body FROM entries e"
            " LEFT JOIN heads h ON h.table_id = ?1 AND h.key = e.key"
            " LEFT JOIN log l ON l.seq = h.seq WHERE e.index_id IN (?2, -?2)",
            (table.id, index.id),
        ):
            if body is None or (index_id, value, tag) not in index.stored_entries(codec.decode(body)):
                filed = f"{describe_place(table.id, key)} under {format_key(value)}"
                yield f"index {index.name!r} has {filed}, which is wrong"


def check_table_checksums(examined: Examination) -> Found:
    """The checksum of each table (its running sums, rolled forward to now) is that of its documents and index entries."""
    for table in load(examined.connection, is_checked=False).by_id.values():
        try:
            yield from differences(examined.connection, table)
        except IncompatibleFormat as error:
            yield Finding(
                "warning", "table_checksums", f"table {table.name!r} was not checked to its end: {error}"
            )
        except CorruptDatabase as error:
            yield str(error)


def check_blobs(examined: Examination) -> Found:
    """Large values: their pieces are there and match their checksums, and together their digests; and each log entry refers to
    the blobs that its document holds."""
    connection = examined.connection
    left, left_bytes = 0, 0
    whole: dict[int, bytes] = {}
    for (number,) in examined.select("SELECT id FROM blobs ORDER BY id"):
        try:
            stored = read_blob(connection, number)
            is_referred = bool(
                examined.value("SELECT EXISTS (SELECT 1 FROM blob_refs WHERE blob = ?)", (number,))
            )
            if is_referred is not bool(stored.used):
                yield f"blob {number} is marked as {'' if stored.used else 'un'}used, but is not"
            if not is_referred and stored.time < time_ns() // 1_000_000 - 2 * GRACE_MS:
                left += 1
                left_bytes += stored.size
            if stored.digest is not None:
                whole[number] = stored.digest
                check_pieces(connection, stored)
        except ReactDBError as error:
            yield str(error)
    for number, count in examined.select(
        f"SELECT id >> {NUMBER_BITS} AS blob, count(*) FROM pieces WHERE blob NOT IN (SELECT id FROM blobs) GROUP BY blob"
    ):
        yield f"{count:,} pieces belong to blob {number}, which is missing"
    refs: dict[int, set[bytes | None]] = {}
    for seq, number in examined.select("SELECT seq, blob FROM blob_refs"):
        refs.setdefault(seq, set()).add(whole.get(number))
    for seq, body in examined.select("SELECT seq, body FROM log WHERE instr(body, ?) > 0", (HEADER,)):
        try:
            held = {digest_bytes(blob.digest) for blob in blobs_in(body)}
        except ReactDBError:
            # `check_documents` reports it.
            refs.pop(seq, None)
            continue
        if held != refs.pop(seq, set()):
            yield f"log entry {seq} does not refer to the blobs in its document, or they are missing"
    for seq in sorted(refs):
        yield f"a blob is referred to by log entry {seq}, which is missing or has no blob"
    if left:
        yield Finding(
            "warning",
            "blobs",
            f"{left:,} blobs, of {left_bytes:,} bytes, are not used by any document: `reactdb compact` removes them",
        )


CHECKS: Final[dict[str, Check]] = {
    "sqlite": check_sqlite,
    "integrity": check_integrity,
    "schema": check_schema,
    "settings": check_settings,
    "values": check_values,
    "positions": check_positions,
    "catalogue": check_catalogue,
    "sequence": check_sequence,
    "checksums": check_checksums,
    "documents": check_documents,
    "history": check_history,
    "commits": check_commits,
    "block_index": check_block_index,
    "current_documents": check_current_documents,
    "deleted_documents": check_deleted_documents,
    "indexes": check_indexes,
    "table_checksums": check_table_checksums,
    "blobs": check_blobs,
}
