"""Groups of commands. A wrong name gets the nearest name that there is.

Rule of this file: it imports nothing of the library before somebody makes a mistake.
"""

from __future__ import annotations

from collections.abc import Iterable

import click


def nearest(word: str, known: Iterable[str]) -> str:
    """` The nearest is ...`, for the end of a sentence; empty where no name is like the wrong one."""
    from reactdb.guessed_words import nearest as phrase

    found = phrase(word, known)
    return "" if found is None else f" T{found[1:]}."


class Verbs(click.Group):
    """A group that answers a wrong verb with the nearest one."""

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = arguments[0]
        is_option = name[:1] == "-"
        if not is_option and not context.resilient_parsing and self.get_command(context, name) is None:
            raise click.UsageError(
                f"No such command {name!r}.{nearest(name, self.list_commands(context))}", context
            )
        return super().resolve_command(context, arguments)
