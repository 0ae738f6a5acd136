"""The names of the prompt of `reactdb shell`, and their completion: tables, fields and methods.

Rule of this file: it knows no terminal. It reads the database, and a table's first documents for the names of its fields.
"""

from __future__ import annotations

import builtins
import keyword
import re
from rlcompleter import Completer
from typing import Any, Final

from reactdb.database import Database
from reactdb.errors import ReactDBError

SAMPLE_DOCUMENTS: Final = 200
# The text before a word in quotes: `db["`, `row['`, `.order_by("`, `, "`. The name is that of the object before the bracket.
_QUOTED: Final = re.compile(r"""(?:([\w.]+)\s*[\[(]|[,\[(])\s*["']$""")
# The text before a named argument of a method that takes fields by their names.
_FIELDS_BY_NAME: Final = re.compile(r"\.filter\(\s*(?:\w+\s*=[^,()]*,\s*)*$")
_WORD: Final = re.compile(r"[^\W\d]\w*")


class ShellNames(dict[str, Any]):
    """The global names of the prompt. A name that Python does not know is looked for among the tables, so a table that is
    created later has its name at once."""

    def __init__(self, database: Database, names: dict[str, Any]) -> None:
        super().__init__(names)
        self._database = database

    def __missing__(self, name: str) -> Any:
        if hasattr(builtins, name) or name not in self.tables():
            raise KeyError(name)
        return self._database.table(name)

    def tables(self) -> list[str]:
        try:
            return self._database.table_list()
        except ReactDBError:
            # The user may have closed the database.
            return []

    def fields(self, table: str | None) -> list[str]:
        """The fields of a table, or of all tables; of the first documents only."""
        names: dict[str, None] = {}
        for one in [table] if table is not None else self.tables():
            try:
                for document in self._database.table(one).limit(SAMPLE_DOCUMENTS).run():
                    names.update(dict.fromkeys(document))
            except ReactDBError:
                continue
        return sorted(names)


class ShellCompleter:
    """Completes a line of the prompt. `complete` is for readline."""

    def __init__(self, names: ShellNames) -> None:
        self._names = names
        self._python = Completer(names)
        self._found: list[str] = []

    def complete(self, word: str, state: int) -> str | None:
        """readline's protocol: the completion with the number `state` for a word, None after the last."""
        if state == 0:
            import readline

            try:
                self._found = self.matches(readline.get_line_buffer()[: readline.get_begidx()], word)
            # The word may be an attribute of anything that the user has made.
            except Exception:
                self._found = []
        return self._found[state] if state < len(self._found) else None

    def matches(self, before: str, word: str) -> list[str]:
        """The possible words, for the text of the line before a word."""
        quoted = _QUOTED.search(before)
        if quoted is not None:
            is_database = quoted[1] in ("db", "db.table", "db.table_drop", "db.table_rename")
            known = self._names.tables() if is_database else self._names.fields(self._table_in(before))
            return [name for name in known if name.startswith(word)]
        found = []
        if _FIELDS_BY_NAME.search(before):
            fields = self._names.fields(self._table_in(before))
            found = [f"{name}=" for name in fields if name.startswith(word) and _WORD.fullmatch(name)]
        if "." not in word:
            found += [
                name
                for name in self._names.tables()
                if name.startswith(word) and _WORD.fullmatch(name) and not keyword.iskeyword(name)
                if word and name not in self._names and not hasattr(builtins, name)
            ]
        number = 0
        while word and (one := self._python.complete(word, number)) is not None:
            found.append(one)
            number += 1
        return list(dict.fromkeys(found))

    def _table_in(self, line: str) -> str | None:
        """The last table that a line names; None where it names none."""
        tables = set(self._names.tables())
        return next((name for name in reversed(re.findall(r"[\w-]+", line)) if name in tables), None)
