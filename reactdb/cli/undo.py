"""`reactdb undo`: takes back the newest commits, by writing the old values of their documents in one new commit.

The log has all that is needed. The origin of the new commit names the commits that it takes back:

    undo of seq 12-14, 9

so the next undo passes over them and over itself, and takes the commit before. The undo of an undo makes its changes again.

A document that another commit has changed since is never overwritten.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import click

from reactdb.change import Change
from reactdb.cli.changelines import format_value
from reactdb.cli.files import file_argument, json_option, open_database, timestamp
from reactdb.cli.terminal import format_age, note, plural, safe, write_line
from reactdb.database import Database
from reactdb.errors import Conflict
from reactdb.json import to_json
from reactdb.store.materialized_tables import consumer_of
from reactdb.values.codec import same, thaw

ORIGIN: Final = re.compile(r"undo of seq (\d+(?:-\d+)?(?:, \d+(?:-\d+)?)*)")
LONGEST_ORIGIN: Final = 256


class StoredCommit(NamedTuple):
    """The changes of one transaction in the log: the seqs of the first and the last, the writer's name, the time in
    milliseconds."""

    first: int
    last: int
    origin: str | None
    time: int

    def changes(self, database: Database) -> list[Change]:
        """Its changes of documents, oldest first; without those of materialized views, which follow other tables by
        themselves.

        Raises:
            HistoryLost.
        """
        consumers = {one["name"] for one in database.consumers()}
        found = database.log(self.first - 1, self.last)
        return [
            one for one in found if one.catalogue is None and consumer_of(str(one.table)) not in consumers
        ]


@click.command()
@file_argument
@click.option(
    "--count", type=click.IntRange(min=1), help="Take back the newest so many commits.  [default: 1]"
)
@click.option("--since", type=click.IntRange(min=0), help="Take back all commits past this seq.")
@click.option(
    "--commit", "seq", type=click.IntRange(min=1), help="Take back the commit with this seq, also an undo."
)
@click.option("--origin", help="Only commits of this writer.")
@click.option(
    "--skip-conflicts", is_flag=True, help="Leave out documents that another commit has changed since."
)
@click.option("--dry-run", is_flag=True, help="Print what it would do, and write nothing.")
@json_option("The result as one JSON object.")
def undo(
    file: str,
    count: int | None,
    since: int | None,
    seq: int | None,
    origin: str | None,
    skip_conflicts: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Take back the newest commits.

    The old values of the documents are written as one new commit. The next undo takes the commit before. An undo is a commit
    too: --commit with its seq makes the changes again.

    In Python: db.undo_stack(origin="ui").undo(), which knows the commits after the stack was made
    """
    if sum(one is not None for one in (count, since, seq)) > 1:
        raise click.UsageError("--count, --since and --commit are three ways: give one of them.")
    with open_database(file, write=not dry_run) as database:
        chosen = choose(database, 1 if count is None and since is None else count, since, seq, origin)
        # Read before the transaction: a long history must not keep other writers waiting.
        changes = [change for commit in chosen for change in reversed(commit.changes(database))]
        if dry_run:
            restored = {(change.table, change.key_bytes) for change in changes}
            skipped: list[dict[str, Any]] = []
            newest = database.seq
        else:
            with database.transaction(origin=origin_of(chosen)):
                restored, skipped = take_back(database, changes, skip_conflicts)
                newest = database.seq
    if as_json:
        write_line(
            {
                "commits": [
                    {"first": one.first, "last": one.last, "origin": one.origin, "time": timestamp(one.time)}
                    for one in chosen
                ],
                "restored": len(restored),
                "skipped": [{"table": one["table"], "key": to_json(one["key"])} for one in skipped],
                "seq": newest,
            }
        )
        return
    tables: dict[str, int] = {}
    for table, _ in restored:
        tables[table] = tables.get(table, 0) + 1
    documents = " and ".join(
        f"{plural(number, 'document')} of {safe(table)}" for table, number in tables.items()
    )
    word = "would take back" if dry_run else "took back"
    for one in chosen:
        click.echo(f"{word} {describe(one)}")
    if dry_run:
        click.echo(f"{documents or 'no document'} would be as before; nothing was written")
        return
    for left in skipped:
        key = format_value(left["key"])
        note(f"left out, because another commit has changed it since: {left['table']} {key}")
    click.echo(f"{documents or 'no document'} as before; seq {newest}")
    if restored:
        click.echo(f"to make it again: reactdb undo {safe(file)} --commit {newest}")


def choose(
    database: Database, count: int | None, since: int | None, seq: int | None, origin: str | None
) -> list[StoredCommit]:
    """The commits that the options mean, the newest first.

    Raises:
        ClickException: There are none, or fewer.
    """
    if seq is not None:
        return [commit_of(database, seq)]
    chosen = []
    undone: list[tuple[int, int]] = []
    for commit in commits(database, database.seq):
        if since is not None and commit.first <= since:
            break
        if any(first <= commit.first <= last for first, last in undone):
            continue
        undo_of = None if commit.origin is None else ORIGIN.fullmatch(commit.origin)
        if undo_of is not None:
            undone += [seqs_of(part) for part in undo_of[1].split(", ")]
        elif (origin is None or commit.origin == origin) and commit.changes(database):
            chosen.append(commit)
            if len(chosen) == count:
                break
    if not chosen or (count is not None and len(chosen) < count):
        by = "" if origin is None else f" of {origin!r}"
        past = "" if since is None else f" past seq {since}"
        has = plural(len(chosen), "commit").replace("0 ", "no ")
        raise click.ClickException(f"the log has {has}{by}{past} to take back")
    return chosen


def commit_of(database: Database, seq: int) -> StoredCommit:
    """The commit that a change belongs to.

    Raises:
        ClickException: There is no such change, or the commit changed no document.
    """
    if seq > database.seq:
        raise click.ClickException(f"there is no seq {seq} yet; the newest is {database.seq}")
    first = next(database.log(seq - 1, seq), None)
    found: StoredCommit | None = None
    for change in database.log(seq - 1) if first is not None else ():
        # The commit may go on after `seq`.
        if first is None or change.commit != first.commit:
            break
        found = StoredCommit(change.commit, change.seq, change.origin, change.time)
    if found is None or not found.changes(database):
        raise click.ClickException(
            f"the commit of seq {seq} changed no document, so there is nothing to take back"
        )
    return found


def commits(database: Database, seq: int) -> Iterator[StoredCommit]:
    """The commits up to `seq` that the log still has, the newest first; without those of materialized views."""
    oldest = database.stats()["oldest"]
    consumers = {one["name"] for one in database.consumers()}
    while seq > oldest:
        # The log has gaps for this reader where a dialect has stored entries of its own.
        change = next(database.log(seq - 1, seq), None)
        if change is None or consumer_of(str(change.table)) in consumers:
            seq -= 1
            continue
        yield StoredCommit(change.commit, change.seq, change.origin, change.time)
        seq = change.commit - 1


def seqs_of(text: str) -> tuple[int, int]:
    """`12-14` as (12, 14), `9` as (9, 9)."""
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def origin_of(chosen: list[StoredCommit]) -> str:
    """The origin of the commit that takes these back. Commits that follow each other are one range in it.

    Raises:
        ClickException: There are too many ranges for an origin.
    """
    ranges: list[list[int]] = []
    for commit in chosen:
        if ranges and commit.last + 1 == ranges[-1][0]:
            ranges[-1][0] = commit.first
        else:
            ranges.append([commit.first, commit.last])
    origin = "undo of seq " + ", ".join(f"{a}-{b}" if a != b else str(a) for a, b in ranges)
    if len(origin) > LONGEST_ORIGIN:
        raise click.ClickException("these are too many separate commits for one undo: give a smaller --count")
    return origin


def take_back(
    database: Database, changes: list[Change], skip_conflicts: bool
) -> tuple[set[tuple[str, bytes]], list[dict[str, Any]]]:
    """Write the old values, in a transaction. `changes` are the newest first.

    Returns:
        The restored documents as (table, bytes of the key), and those left out, as `Conflict` has them.

    Raises:
        Conflict: Another commit has changed a document since; unless `skip_conflicts`.
    """
    # The documents as they are after the changes that were looked at.
    documents: dict[tuple[str, bytes], Any] = {}
    conflicts: dict[tuple[str, bytes], dict[str, Any]] = {}
    for change in changes:
        place = change.table, change.key_bytes
        if place in conflicts:
            continue
        if change.table not in database:
            # The table was dropped, or has another name now.
            conflicts[place] = {"table": change.table, "key": change.key, "document": None}
            continue
        target = database.table(change.table).get(change.key)
        present = documents[place] if place in documents else target.run()
        expected = change.new_val
        if (present is None) != (expected is None) or (expected is not None and not same(present, expected)):
            conflicts[place] = {"table": change.table, "key": change.key, "document": target.run()}
            continue
        documents[place] = change.old_val
    if conflicts and not skip_conflicts:
        advice = f"; --skip-conflicts leaves {'it' if len(conflicts) == 1 else 'them'} out"
        raise Conflict("undo", "changed by another commit since", list(conflicts.values()), advice)
    # Not before all are known: a document with a conflict keeps all of its changes.
    for change in changes:
        if (change.table, change.key_bytes) in conflicts:
            continue
        if change.old_val is None:
            database.table(change.table).get(change.key).delete()
        else:
            database.table(change.table).insert(thaw(change.old_val), conflict="replace")
    return documents.keys() - conflicts.keys(), list(conflicts.values())


def describe(commit: StoredCommit) -> str:
    """As `seq 12 to 14 (ui, 3 min ago)`."""
    seqs = str(commit.first) if commit.first == commit.last else f"{commit.first} to {commit.last}"
    writer = f"{safe(commit.origin)}, " if commit.origin else ""
    return f"seq {seqs} ({writer}{format_age(max(0.0, time.time() - commit.time / 1000))} ago)"
