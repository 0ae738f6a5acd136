"""InspectorEdits: what the page writes: inserts, replacements, patches and deletions of single documents, and their undo.

Each is a commit of its own with the origin "inspector". An edit may name the version that the user saw (`expect_seq`); a newer
one is a conflict, and nothing is written.

Rule of this file: one document an edit.
"""

from __future__ import annotations

from typing import Any, Final

from reactdb.database import Database
from reactdb.key_spelling import key_of, key_text
from reactdb.servers.http.request_parts import Asking, RequestRefused
from reactdb.servers.inspector.parameters import bad, members
from reactdb.session import session_of
from reactdb.values.collation import primary_key_bytes

__all__ = ["OPERATIONS", "ORIGIN", "InspectorEdits"]

ORIGIN: Final = "inspector"
OPERATIONS: Final = ("insert", "replace", "update", "delete", "undo", "redo")


class InspectorEdits:
    """See the head of this file.

    Thread safety: any thread.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._stack = db.undo_stack(ORIGIN)

    def undo_state(self) -> dict[str, Any]:
        """What can be undone and redone, and the texts for it."""
        can_undo, can_redo, undo_label, redo_label = self._stack.state()
        return {"undo": can_undo, "redo": can_redo, "undo_text": undo_label, "redo_text": redo_label}

    def write(self, operation: str, asking: Asking) -> dict[str, Any]:
        """Carry out one of OPERATIONS.

        Returns:
            `seq`, the newest of the file; `key`, of the document; `undo`, see `undo_state`.

        Raises:
            RequestRefused: 400, 409 and 415; errors of a write.
        """
        done: dict[str, Any] = {}
        if operation in ("undo", "redo"):
            members(asking)
            moved = self._stack.undo() if operation == "undo" else self._stack.redo()
            done["restored"] = 0 if moved is None else moved["restored"]
        elif operation == "insert":
            done["key"] = self._insert(**members(asking, "table", "doc"))
        else:
            content = {"replace": ("doc",), "update": ("patch",), "delete": ()}[operation]
            given = members(asking, "table", "key", *content, optional=("expect_seq",))
            done["key"] = self._change(operation, given)
        return {"seq": self._db.seq, **done, "undo": self.undo_state()}

    def _insert(self, table: Any, doc: Any) -> str:
        if not isinstance(doc, dict):
            raise bad("doc is a JSON object.")
        primary_key = self._db.table(text_of("table", table)).primary_key
        with self._stack.group(f"Insert into {table}"), self._db.transaction(origin=ORIGIN) as transaction:
            result = transaction.table(table).insert(doc)
        keys = result.get("generated_keys")
        return key_text(keys[0] if keys else doc[primary_key])

    def _change(self, operation: str, given: dict[str, Any]) -> str:
        table, spelled = text_of("table", given["table"]), text_of("key", given["key"])
        key = key_of(spelled)
        expected = given.get("expect_seq")
        if expected is not None and (isinstance(expected, bool) or not isinstance(expected, int)):
            raise bad("expect_seq is the seq of a version.")
        for name in ("doc", "patch"):
            if name in given and not isinstance(given[name], dict):
                raise bad(f"{name} is a JSON object.")
        label = f"{LABELS[operation]} {table} {spelled}"
        with self._stack.group(label), self._db.transaction(origin=ORIGIN) as transaction:
            newest = session_of(transaction).newest(table, primary_key_bytes(key))
            if newest is None or newest.new_bytes is None:
                raise conflict("There is no document with this key any more: it was deleted.")
            if expected is not None and newest.seq != expected:
                writer = "" if newest.origin is None else f" by {newest.origin}"
                raise conflict(
                    f"The document was changed{writer} since you opened it (seq {newest.seq}, not {expected}): look at it again."
                )
            document = transaction.table(table).get(key)
            if operation == "replace":
                document.replace(given["doc"])
            elif operation == "update":
                document.update(given["patch"])
            else:
                document.delete()
        return key_text(key)


LABELS: Final = {"replace": "Edit of", "update": "Edit of", "delete": "Deletion of"}


def conflict(sentence: str) -> RequestRefused:
    return RequestRefused(409, "conflict", sentence)


def text_of(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise bad(f"{name} is a text.")
    return value
