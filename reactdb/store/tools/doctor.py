"""The doctor: what a file says about itself, and whether it agrees with itself. `reactdb doctor` and `inspect` print it.

Everything in the file but the log can be computed from the log, so each check computes it and compares. A check yields
findings: a problem is something that cannot be, a warning something that can and should not stay.

Rule of this file: it reads, on a connection of its own and as of one moment, and takes nothing for granted that it is
there to examine; where a check itself stumbles over damage, that is its finding.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import Final

from reactdb.change import DELETE, INSERT, KINDS
from reactdb.errors import ReactDBError
from reactdb.store import schema
from reactdb.store.catalogue import NAME, load
from reactdb.store.checksums import is_entry_whole
from reactdb.store.file import sqlite
from reactdb.store.file.sqlite import Connection, SQLiteError, file_bytes
from reactdb.store.schema import BLOCK_BITS
from reactdb.store.snapshot import head_seq, low_water
from reactdb.store.tools.figures import opened
from reactdb.store.tools.findings import (
    Check,
    Finding,
    Found,
    Patient,
    key_in_words,
    kind_in_words,
    place_in_words,
)
from reactdb.values import codec, collation

# Findings of one check that are told one by one; damage has a way of being everywhere.
MOST_FINDINGS: Final = 20
# Four times the size at which writers empty it.
LARGE_WAL_BYTES: Final = 64 * 1024 * 1024


def examine(path: str) -> Iterator[tuple[str, list[Finding]]]:
    """Every check in turn, as (its name, what it found).

    Raises:
        CannotOpen, NotADatabase, IncompatibleFormat, DatabaseBusy: As `opened` says.
    """
    with opened(path) as connection:
        try:
            low, head = low_water(connection), head_seq(connection)
        except (SQLiteError, TypeError, ValueError):
            # The check of the facts says so; the others take the log for complete.
            low, head = 0, 0
        patient = Patient(connection, os.path.realpath(path), low, head)
        for name, check in CHECKS.items():
            yield name, list(_findings(name, check, patient))


def _findings(name: str, check: Check, patient: Patient) -> Iterator[Finding]:
    found = check(patient)
    try:
        for one in islice(found, MOST_FINDINGS):
            yield one if isinstance(one, Finding) else Finding("problem", name, one)
        more = sum(1 for _ in found)
    except Exception as error:
        # Not only our errors: whatever can be wrong in a row, some line here will stumble over it some day.
        yield Finding("problem", name, f"could not be finished: {type(error).__name__}: {error}")
        return
    if more:
        yield Finding("problem", name, f"and {more:,} more")


# ---------------------------------------------------------------------------------------------------------------
# SQLite's side


def check_sqlite(patient: Patient) -> Found:
    """The library, the mode of the file, the write-ahead log."""
    if sqlite.has_wal_reset_bug():
        version = ".".join(map(str, sqlite.VERSION))
        yield Finding(
            "warning",
            "sqlite",
            f"SQLite {version} has the WAL-reset bug (fixed in 3.51.3): programs other than reactdb that write to this file, "
            "or checkpoint it, can damage it. reactdb works around it; `pip install reactdb[sqlite]` brings a fixed SQLite",
        )
    mode = patient.value("PRAGMA journal_mode")
    if mode != "wal":
        yield f"the journal mode is {mode}, not wal: another program has switched it, and readers block writers now"
    wal_bytes = file_bytes(patient.path + "-wal")
    if wal_bytes > LARGE_WAL_BYTES:
        yield Finding(
            "warning",
            "sqlite",
            f"the write-ahead log has {wal_bytes:,} bytes: some reader has been keeping it from being emptied",
        )


def check_integrity(patient: Patient) -> Found:
    """SQLite's own examination: every page, every tree."""
    for (message,) in patient.select("PRAGMA integrity_check"):
        if message != "ok":
            yield str(message)


def check_schema(patient: Patient) -> Found:
    """The tables are those of the format, and there is nothing else that could act on them."""
    # An empty database of this format, made in memory, is what to compare with. Each run has its own, by its name.
    fresh = sqlite.connect(f"reactdb-doctor-{id(patient):x}", mode="rwc", busy_timeout_s=0, memory=True)
    try:
        version = patient.value("PRAGMA user_version")
        schema.make(fresh, version)
        expected = _schema_objects(fresh)
    finally:
        fresh.close()
    actual = _schema_objects(patient.connection)
    for (kind, name), definition in sorted(expected.items()):
        if (kind, name) not in actual:
            yield f"{kind} {name} is missing"
        elif actual[kind, name] != definition:
            yield f"{kind} {name} is not as format {version} has it"
    for kind, name in sorted(actual.keys() - expected.keys()):
        yield f"{kind} {name} does not belong here"


def _schema_objects(connection: Connection) -> dict[tuple[str, str], str]:
    # sqlite_% are SQLite's own: sequences, statistics, automatic indexes.
    return {
        (kind, name): " ".join((text or "").split())
        for kind, name, text in connection.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        ).fetchall()
    }


# ---------------------------------------------------------------------------------------------------------------
# Facts and catalogue


def check_facts(patient: Patient) -> Found:
    """The single values: database id, low-water mark, version of the catalogue; and the epochs."""
    facts = dict(patient.select("SELECT name, value FROM facts"))
    if not isinstance(facts.get("database_id"), str) or not facts["database_id"]:
        yield "the database id is missing"
    low, catalogue = facts.get("low_water"), facts.get("catalogue")
    if not isinstance(low, int) or not 0 <= low <= patient.head:
        yield f"the low-water mark is {low!r}, which is no position in a log that ends at {patient.head}"
    if not isinstance(catalogue, int) or catalogue < 0:
        yield f"the version of the catalogue is {catalogue!r}"
    before = 0
    epochs = 0
    for epoch, since, position in patient.select(
        "SELECT epoch, since, position FROM epochs ORDER BY position"
    ):
        epochs += 1
        if position != epochs:
            yield f"epoch {epoch} is number {position}, after {epochs - 1} others"
            epochs = position
        if not before <= since <= patient.head:
            yield f"epoch {epoch} begins at seq {since}, which is not between {before} and {patient.head}"
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
    "indexes": ("table_id", "multi"),
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
    "entries": {"value": "blob", "key": "blob"},
    "tables": {"name": "text", "primary_key": "text", "dropped": "integer null"},
    "indexes": {"name": "text", "expression": "blob"},
}


def check_values(patient: Patient) -> Found:
    """Every column holds its type: SQLite itself would store anything anywhere."""
    for table in INTEGERS:
        wanted = dict.fromkeys(INTEGERS[table], "integer") | OTHERS.get(table, {})
        tests = ", ".join(
            "total(typeof({}) NOT IN ({}))".format(column, ", ".join(f"'{kind}'" for kind in kinds.split()))
            for column, kinds in wanted.items()
        )
        (counts,) = patient.select(f"SELECT {tests} FROM {table}")
        for column, count in zip(wanted, counts, strict=True):
            if count:
                yield f"{table}.{column} has {int(count):,} values of another type than {wanted[column]}"


def check_catalogue(patient: Patient) -> Found:
    """Tables and indexes: names, lifetimes, expressions; and that nothing belongs to one that is not listed."""
    for table_id, name, primary_key, created, dropped in patient.select(
        "SELECT id, name, primary_key, created, dropped FROM tables ORDER BY id"
    ):
        if not isinstance(name, str) or NAME.fullmatch(name) is None:
            yield f"table {table_id} has the name {name!r}"
        if not primary_key:
            yield f"table {name!r} has no primary key"
        end = patient.head if dropped is None else dropped
        if not 0 <= created <= end <= patient.head:
            yield f"table {name!r} lives from seq {created} to {end}, in a log that ends at {patient.head}"
    for table in ("log", "heads", "graves", "marks"):
        for table_id, count in patient.select(
            f"SELECT table_id, count(*) FROM {table} WHERE table_id NOT IN (SELECT id FROM tables) GROUP BY table_id"
        ):
            yield f"{count:,} rows of {table} belong to table {table_id}, which is not listed"
    for index_id, name, table_id in patient.select(
        "SELECT id, name, table_id FROM indexes WHERE table_id NOT IN (SELECT id FROM tables)"
    ):
        yield f"index {name!r} ({index_id}) belongs to table {table_id}, which is not listed"
    for index_id, count in patient.select(
        # Of hidden entries, the index's number is negated.
        "SELECT abs(index_id) AS number, count(*) FROM entries WHERE number NOT IN (SELECT id FROM indexes) GROUP BY number"
    ):
        yield f"{count:,} index entries belong to index {index_id}, which is not listed"
    for seq, name, created, dropped in patient.select(
        "SELECT l.seq, t.name, t.created, t.dropped FROM log l JOIN tables t ON t.id = l.table_id"
        " WHERE l.seq <= t.created OR l.seq > t.dropped"
    ):
        lifetime = f"created at {created}" + ("" if dropped is None else f" and dropped at {dropped}")
        yield f"log entry {seq} belongs to table {name!r}, {lifetime}"
    try:
        schema.check_catalogue(patient.connection)
    except ReactDBError:
        yield "the facts, tables or indexes do not match their checksum: they are not what was written"
    try:
        load(patient.connection, is_checked=False)
    except ReactDBError as error:
        yield f"an index cannot be understood: {error}"


# ---------------------------------------------------------------------------------------------------------------
# The log


def check_sequence(patient: Patient) -> Found:
    """Past the low-water mark no seq is missing. (The newest ones may be: then the heads or graves that point to them tell.)"""
    for before, seq in patient.select(
        "SELECT before, seq FROM (SELECT seq, lag(seq, 1, ?1) OVER (ORDER BY seq) AS before FROM log WHERE seq > ?1)"
        " WHERE seq > before + 1",
        (patient.low,),
    ):
        yield f"log entries {before + 1} to {seq - 1} are missing"


def check_checksums(patient: Patient) -> Found:
    """Every entry is what was written. (Format 1 has no checksums; the connection makes them up.)"""
    if patient.value("PRAGMA user_version") < 2:
        yield Finding(
            "warning",
            "checksums",
            "the file has format 1, without checksums: a document that changed on the disk goes unnoticed. "
            "Opening it to write brings it to the present format",
        )
        return
    for row in patient.select(f"SELECT {schema.LOG_1}, seal FROM log ORDER BY seq"):
        if not is_entry_whole(row):
            seq, table_id, key = row[0], row[1], row[6]
            place = place_in_words(table_id, key)
            yield f"log entry {seq} ({place}) does not match its checksum: it is not what was written"


def check_documents(patient: Patient) -> Found:
    """Every document in the log can be read, and its key is the key that it is filed under."""
    primary_keys = dict(patient.select("SELECT id, primary_key FROM tables"))
    for seq, table_id, kind, key, body in patient.select(
        "SELECT seq, table_id, kind, key, body FROM log ORDER BY seq"
    ):
        if kind not in range(len(KINDS)):
            yield f"log entry {seq} has the kind {kind!r}"
        if (body is None) is not (kind == DELETE):
            yield f"log entry {seq} is {kind_in_words(kind)} {'without' if body is None else 'with'} a document"
        if body is None or table_id not in primary_keys:
            continue
        try:
            document = codec.decode(body)
        except ReactDBError as error:
            yield f"the document of log entry {seq} cannot be read: {error}"
            continue
        primary_key = primary_keys[table_id]
        try:
            own = collation.primary_key_bytes(document[primary_key])
        except (KeyError, ReactDBError):
            own = None
        if own != key:
            filed = key_in_words(key)
            yield f"the document of log entry {seq} has another {primary_key!r} than the key {filed} it is filed under"


def check_chains(patient: Patient) -> Found:
    """Each entry's `prev` is the entry of the same key that it superseded, or was compacted away."""
    low = patient.low
    for seq, prev, table_id, key, other_table, other_key in patient.select(
        "SELECT l.seq, l.prev, l.table_id, l.key, p.table_id, p.key FROM log l JOIN log p ON p.seq = l.prev"
        " WHERE l.prev >= l.seq OR p.table_id != l.table_id OR p.key != l.key"
    ):
        if prev >= seq:
            yield f"log entry {seq} supersedes {prev}, which is not before it"
        else:
            other = place_in_words(other_table, other_key)
            yield f"log entry {seq} ({place_in_words(table_id, key)}) supersedes {prev} ({other})"
    for prev, count in patient.select(
        "SELECT prev, count(*) FROM log WHERE prev IS NOT NULL GROUP BY prev HAVING count(*) > 1"
    ):
        yield f"log entry {prev} is superseded {count} times"
    for seq, kind, prev, has_old in patient.select(
        "SELECT l.seq, l.kind, l.prev, p.body IS NOT NULL FROM log l LEFT JOIN log p ON p.seq = l.prev"
        " WHERE l.seq > ?1 AND (l.kind = ?2) = (p.body IS NOT NULL)",
        (low, INSERT),
    ):
        if has_old:
            yield f"log entry {seq} is an insert, but supersedes the document of entry {prev}"
        else:
            yield f"log entry {seq} is {kind_in_words(kind)}, but the document that it superseded is not there"
    for seq, prev in patient.select(
        "SELECT l.seq, l.prev FROM log l LEFT JOIN log p ON p.seq = l.prev"
        " WHERE p.seq IS NULL AND l.prev > ? AND l.prev <= ?",
        (low, patient.head),
    ):
        yield f"log entry {seq} supersedes {prev}, which is missing"
    for seq, prev in patient.select(
        "SELECT l.seq, l.prev FROM log l JOIN log p ON p.seq = l.prev WHERE l.seq <= ? AND l.prev < l.seq",
        (low,),
    ):
        yield Finding(
            "warning",
            "chains",
            f"log entry {prev}, superseded by {seq}, takes room: compaction left it behind",
        )


def check_commits(patient: Patient) -> Found:
    """The changes of one commit are consecutive, and have one time and one origin; times never go back."""
    for seq, step in patient.select("SELECT seq, step FROM log WHERE step < 0 OR step >= seq"):
        yield f"log entry {seq} is number {step} of its commit"
    for seq, step, before, is_same in patient.select(
        "SELECT l.seq, l.step, b.step, l.time = b.time AND l.origin IS b.origin"
        " FROM log l JOIN log b ON b.seq = l.seq - 1"
        " WHERE l.step != 0 AND (l.step != b.step + 1 OR l.time != b.time OR l.origin IS NOT b.origin)"
    ):
        if step != before + 1:
            yield f"log entry {seq} is number {step} of its commit, but follows number {before}"
        elif not is_same:
            yield f"log entry {seq} has another time or origin than the entry before it, in one commit"
    for seq, time, before_time in patient.select(
        "SELECT seq, time, before FROM (SELECT seq, time, lag(time) OVER (ORDER BY seq) AS before FROM log)"
        " WHERE time < before"
    ):
        yield f"log entry {seq} was written at {time}, before its predecessor's {before_time}"


def check_marks(patient: Patient) -> Found:
    """Every table that has entries in a block of the log has a mark there: reading its changes goes by them."""
    for table_id, block, seq in patient.select(
        f"SELECT l.table_id, l.seq >> {BLOCK_BITS}, min(l.seq) FROM log l WHERE l.seq > ? AND NOT EXISTS"
        f" (SELECT 1 FROM marks m WHERE m.table_id = l.table_id AND m.block = l.seq >> {BLOCK_BITS}) GROUP BY 1, 2",
        (patient.low,),
    ):
        yield f"table {table_id} has no mark for block {block} of the log: its changes from seq {seq} on are not seen"


# ---------------------------------------------------------------------------------------------------------------
# What is computed from the log

# The newest entries: those that none supersedes.
NEWEST: Final = "l.seq NOT IN (SELECT prev FROM log WHERE prev IS NOT NULL)"


def check_heads(patient: Patient) -> Found:
    """The documents: each head is the newest entry of its key, and each key whose newest entry is a document has one."""
    for table_id, key, seq, own_table, own_key, is_deleted in patient.select(
        "SELECT h.table_id, h.key, h.seq, l.table_id, l.key, l.body IS NULL FROM heads h LEFT JOIN log l ON l.seq = h.seq"
        " WHERE l.seq IS NULL OR l.table_id != h.table_id OR l.key != h.key OR l.body IS NULL"
    ):
        place = place_in_words(table_id, key)
        if own_table is None:
            yield f"the document of {place} is log entry {seq}, which is missing"
        elif (own_table, own_key) != (table_id, key):
            yield f"the document of {place} is log entry {seq}, which is of {place_in_words(own_table, own_key)}"
        elif is_deleted:
            yield f"the document of {place} is log entry {seq}, which deleted it"
    for table_id, key, seq in patient.select(
        f"SELECT l.table_id, l.key, l.seq FROM log l LEFT JOIN heads h ON h.table_id = l.table_id AND h.key = l.key"
        f" WHERE l.body IS NOT NULL AND h.seq IS NOT l.seq AND {NEWEST}"
    ):
        yield f"log entry {seq} is the newest of {place_in_words(table_id, key)}, but no document points to it"
    for table_id, key, seq in patient.select(
        "SELECT h.table_id, h.key, h.seq FROM heads h"
        " WHERE h.seq IN (SELECT prev FROM log WHERE prev IS NOT NULL)"
    ):
        yield f"the document of {place_in_words(table_id, key)} is log entry {seq}, which was superseded"


def check_graves(patient: Patient) -> Found:
    """The deleted keys whose history is kept: each grave is a deletion, the newest entry of its key."""
    for table_id, key, seq, own_table, own_key, is_deleted in patient.select(
        "SELECT g.table_id, g.key, g.seq, l.table_id, l.key, l.body IS NULL FROM graves g LEFT JOIN log l ON l.seq = g.seq"
        " WHERE l.seq IS NULL OR l.table_id != g.table_id OR l.key != g.key OR l.body IS NOT NULL"
    ):
        place = place_in_words(table_id, key)
        if own_table is None:
            yield f"the grave of {place} is log entry {seq}, which is missing"
        elif (own_table, own_key) != (table_id, key):
            yield f"the grave of {place} is log entry {seq}, which is of {place_in_words(own_table, own_key)}"
        elif not is_deleted:
            yield f"the grave of {place} is log entry {seq}, which is a document"
    for table_id, key in patient.select(
        "SELECT g.table_id, g.key FROM graves g JOIN heads h ON h.table_id = g.table_id AND h.key = g.key"
    ):
        yield f"{place_in_words(table_id, key)} has a document and a grave"
    for table_id, key, seq in patient.select(
        "SELECT l.table_id, l.key, l.seq FROM log l LEFT JOIN graves g ON g.table_id = l.table_id AND g.key = l.key"
        f" WHERE l.body IS NULL AND g.seq IS NOT l.seq AND {NEWEST}"
    ):
        yield f"log entry {seq} deleted {place_in_words(table_id, key)}, but there is no grave that points to it"
    for table_id, key, seq in patient.select(
        "SELECT g.table_id, g.key, g.seq FROM graves g WHERE g.seq IN (SELECT prev FROM log WHERE prev IS NOT NULL)"
    ):
        yield f"the grave of {place_in_words(table_id, key)} is log entry {seq}, which was superseded"


def check_indexes(patient: Patient) -> Found:
    """Each index has exactly the entries that its expression gives for the documents."""
    catalogue = load(patient.connection, is_checked=False)
    for table in catalogue.by_id.values():
        expected = dict.fromkeys((index.id for index in table.indexes.values()), 0)
        documents = patient.select(
            "SELECT h.key, l.body FROM heads h JOIN log l ON l.seq = h.seq WHERE h.table_id = ?", (table.id,)
        )
        for key, body in documents if table.indexes else ():
            document = codec.decode(body)
            for index in table.indexes.values():
                for index_id, value, tag in index.stored_entries(document):
                    expected[index.id] += 1
                    if not patient.value(
                        "SELECT count(*) FROM entries WHERE index_id = ? AND value = ? AND key = ? AND tag = ?",
                        (index_id, value, key, tag),
                    ):
                        yield f"index {index.name!r} does not have {place_in_words(table.id, key)} under {key_in_words(value)}"
        for index in table.indexes.values():
            # Every one that belongs there was looked for above; so as many as those, and there are no others.
            if (
                patient.value("SELECT count(*) FROM entries WHERE index_id IN (?1, -?1)", (index.id,))
                <= expected[index.id]
            ):
                continue
            for index_id, value, key, tag, body in patient.select(
                "SELECT e.index_id, e.value, e.key, e.tag, l.body FROM entries e"
                " LEFT JOIN heads h ON h.table_id = ?1 AND h.key = e.key"
                " LEFT JOIN log l ON l.seq = h.seq WHERE e.index_id IN (?2, -?2)",
                (table.id, index.id),
            ):
                if body is None or (index_id, value, tag) not in index.stored_entries(codec.decode(body)):
                    filed = f"{place_in_words(table.id, key)} under {key_in_words(value)}"
                    yield f"index {index.name!r} has {filed}, where it does not belong"


CHECKS: Final[dict[str, Check]] = {
    "sqlite": check_sqlite,
    "integrity": check_integrity,
    "schema": check_schema,
    "facts": check_facts,
    "values": check_values,
    "catalogue": check_catalogue,
    "sequence": check_sequence,
    "checksums": check_checksums,
    "documents": check_documents,
    "chains": check_chains,
    "commits": check_commits,
    "marks": check_marks,
    "heads": check_heads,
    "graves": check_graves,
    "indexes": check_indexes,
}
