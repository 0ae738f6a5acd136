"""`reactdb export --salvage`: writes the readable part of a damaged file, with `reactdb.store.tools.salvage`."""

from __future__ import annotations

import os
import sys
from hashlib import sha256
from typing import BinaryIO

import click

from reactdb.cli.export import open_target
from reactdb.cli.files import refuse_database
from reactdb.cli.terminal import Progress, one_line, plural, write_line
from reactdb.errors import TableNotFound
from reactdb.json import dumps
from reactdb.store.damage import format_key
from reactdb.store.tools.salvage import UNREADABLE, Salvage, SavedTable
from reactdb.values.blob import Blob

# At most so many keys of lost documents are listed.
MOST_KEYS = 20


def salvage(file: str, table: str | None, target: str, as_json: bool) -> None:
    """Write one table to `target`; without a table, all of them to a folder beside the file. Ends with the exit code."""
    if target != "-":
        refuse_database(file, target)
    salvaged = Salvage(file)
    chosen = [one for one in salvaged.tables.values() if table in (None, one.name)]
    if table is not None and not chosen:
        raise TableNotFound(table)
    folder = f"{file}.salvaged"
    targets = {}
    with Progress("documents") as progress:
        for one in chosen:
            if table is None:
                make_folder(folder)
                # Names have only letters, digits and _.- unless they are damaged too.
                name = (
                    one.name
                    if one.name.replace(".", "").replace("-", "").isidentifier()
                    else f"table-{one.id}"
                )
                targets[one.id] = os.path.join(folder, f"{name}.jsonl")
            else:
                targets[one.id] = target
            with open_target(targets[one.id]) as out:
                write(salvaged, one, out, progress)
    saved, lost = write_blobs(salvaged, os.path.join(folder, "blobs")) if table is None else (0, [])
    is_whole = salvaged.is_complete and not lost
    if as_json:
        blobs = {"saved": saved, "lost": list(map(str, lost))}
        write_line({**summary(salvaged, chosen, targets), "is_complete": is_whole, "blobs": blobs}, err=True)
    else:
        if saved or lost:
            click.echo(f"saved {plural(saved, 'blob')} to {os.path.join(folder, 'blobs')}", err=True)
        for blob in lost:
            click.echo(f"lost: blob {blob}", err=True)
        for line in lines(salvaged, chosen, targets):
            click.echo(one_line(line), err=True)
    sys.exit(0 if is_whole else 1)


def write_blobs(salvaged: Salvage, folder: str) -> tuple[int, list[Blob]]:
    """Write each blob to the folder, as `export --blobs` does. Returns their number, and the incomplete blobs."""
    saved, lost = 0, []
    for blob, pieces in salvaged.blobs():
        make_folder(folder)
        path = os.path.join(folder, blob.digest)
        digest = sha256()
        try:
            with open_target(path) as out:
                for piece in pieces:
                    digest.update(piece)
                    out.write(piece)
                if digest.hexdigest() != blob.digest:
                    raise ValueError
            saved += 1
        except UNREADABLE:
            lost.append(blob)
    return saved, lost


def make_folder(folder: str) -> None:
    """Create the folder. Raises: ClickException: It cannot be created; the message has advice."""
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise click.ClickException(
            f"{folder}: {error.strerror}; name a TABLE and a TARGET elsewhere to write to: "
            "reactdb export --salvage FILE TABLE TARGET"
        ) from error


def write(salvaged: Salvage, table: SavedTable, out: BinaryIO, progress: Progress) -> None:
    for count, document in enumerate(salvaged.documents(table), 1):
        out.write(dumps(document).encode() + b"\n")
        progress.update(count)


def lines(salvaged: Salvage, chosen: list[SavedTable], targets: dict[int, str]) -> list[str]:
    """The summary as text."""
    report = [f"trouble: {trouble}" for trouble in salvaged.troubles]
    for table in chosen:
        target = "" if targets[table.id] == "-" else f" to {targets[table.id]}"
        report.append(f"saved {plural(table.saved, 'document')} of {table.name}{target}")
        for keys, words in ((table.older, "in an earlier version"), (table.lost, "lost")):
            report += [f"{words}: {table.name}, key {format_key(key)}" for key in keys[:MOST_KEYS]]
            if len(keys) > MOST_KEYS:
                report.append(f"{words}: {table.name}, {len(keys) - MOST_KEYS:,} more")
    older, lost = (sum(map(len, lists)) for lists in ([t.older for t in chosen], [t.lost for t in chosen]))
    if salvaged.is_complete:
        report.append("everything was readable")
    elif not (older or lost or salvaged.unread):
        report.append("every document that is still known of was saved")
    else:
        report.append(
            f"not everything was readable: {plural(lost, 'document')} lost, {older:,} in an earlier version; "
            f"{salvaged.unread:,} log entries unread"
        )
    return report


def summary(salvaged: Salvage, chosen: list[SavedTable], targets: dict[int, str]) -> dict[str, object]:
    """The same as plain JSON."""
    return {
        "is_complete": salvaged.is_complete,
        "troubles": salvaged.troubles,
        "unread_log_entries": salvaged.unread,
        "tables": [
            {
                "table": table.name,
                "primary_key": table.primary_key,
                "target": targets[table.id],
                "saved": table.saved,
                "older": [format_key(key) for key in table.older],
                "lost": [format_key(key) for key in table.lost],
            }
            for table in chosen
        ],
    }
