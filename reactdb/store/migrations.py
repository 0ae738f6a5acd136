"""Migrations: a file of an older format, brought to today's with sqlite-utils. The steps are in `schema`.

Rule of this file: it is imported only for a file of an older format, because importing sqlite-utils takes longer than
opening a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlite_utils import Database, Migrations

from reactdb.errors import CorruptDatabase
from reactdb.store.file.sqlite import ADVICE, Connection

Steps = Mapping[int, tuple[str, Callable[[Connection], None]]]
"""`schema.STEPS`: format -> the name of its migration, and the step from the format before."""


def _migration(number: int, step: Callable[[Connection], None]) -> Callable[[Any], None]:
    def migrate(database: Any) -> None:
        # A format's first checksums cover the present rows as they are; so visible damage is looked for first, and
        # left alone.
        if number == 2:
            _look_for_damage(database.conn)
        step(database.conn)

    return migrate


def apply(connection: Connection, steps: Steps) -> None:
    """Bring a database to today's format, from any earlier format, also from none. Inside the caller's transaction.

    Source: sqlite-utils 4, "Migrations"; its own transactions become savepoints inside ours.

    Raises:
        CorruptDatabase: It is damaged, and stays as it is.
    """
    migrations = Migrations("reactdb")
    for number, (name, step) in steps.items():
        migrations(name=name)(_migration(number, step))
    migrations.apply(Database(connection, recursive_triggers=False, execute_plugins=False))


def _look_for_damage(connection: Connection) -> None:
    for (message,) in connection.execute("PRAGMA quick_check(1)").fetchall():
        if message != "ok":
            raise CorruptDatabase(
                f"the file has format 1 and is damaged ({message}); it stays as it is. {ADVICE}"
            )
