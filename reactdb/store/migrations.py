"""Migrations: a file of an older format, brought to today's with sqlite-utils. The steps are in `schema`.

Rule of this file: only who finds an older format imports it, because importing sqlite-utils takes longer than opening a file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlite_utils import Database, Migrations

from reactdb.errors import CorruptDatabase
from reactdb.store.file.sqlite import ADVICE, Connection
from reactdb.store.schema import STEPS, check_format_2

migrations = Migrations("reactdb")


def _migration(number: int, step: Callable[[Connection], None]) -> Callable[[Any], None]:
    def migrate(database: Any) -> None:
        # The checksums that a format begins with say "as it is"; so damage that shows is looked for first, and left alone.
        if number == 2:
            _look_for_damage(database.conn)
        if number == 3:
            check_format_2(database.conn)
        step(database.conn)

    return migrate


for _number, (_name, _step) in STEPS.items():
    migrations(name=_name)(_migration(_number, _step))


def apply(connection: Connection) -> None:
    """Bring a database to today's format, from whichever earlier one it has, also from none. Inside the caller's transaction.

    Source: sqlite-utils 4, "Migrations"; its own transactions become savepoints inside ours.

    Raises:
        CorruptDatabase: It is damaged, and stays as it is.
    """
    migrations.apply(Database(connection, recursive_triggers=False, execute_plugins=False))


def _look_for_damage(connection: Connection) -> None:
    for (message,) in connection.execute("PRAGMA quick_check(1)").fetchall():
        if message != "ok":
            raise CorruptDatabase(
                f"the file has format 1 and is damaged ({message}); it stays as it is. {ADVICE}"
            )
