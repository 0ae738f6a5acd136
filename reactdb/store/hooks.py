"""Write hooks: functions that derive data from every write of a table, inside its transaction, for any writer.

A dialect needs more of a version than the document: CouchDB its revision, MongoDB the fields that an update touched.
Such data is the entry's metadata, a few bytes in the dialect's own format, and cannot be computed later. A writer may
pass metadata with the write, where other writers of the table need none (`meta` of `WriteTransaction.write`;
MongoDB's updates do so). Where a writer without metadata would spoil the table for all, a hook derives it. A hook is
a function with a name:

    register_hook(name, derive)  every process that may write the table calls this, at the import of the hook's module;
                                 hooks of our own dialects are imported at their first use
    TableInfo.hook              the name, in the file's list of tables: so it binds every writer
    derive(draft) -> Derived    called by `WriteTransaction.write` for each inserted, changed or deleted document

A hook may refuse a write by raising a UsageError, which rolls back this write and nothing else. A hook never changes
the document: stored is what the caller passed. A dialect keeps data of deletions and of losing versions in a hidden
table (`Derived.beside`), written in the same transaction, and reads it back with `Draft.read_document`.

Rule of this file: a hook decides and the transaction writes. So a hook that refuses has written nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol

from reactdb.change import TableReference
from reactdb.errors import HookNotFound, UsageError, describe_function, format_value
from reactdb.store.catalogue import Catalogue, TableInfo
from reactdb.values import codec, collation


class Heads(Protocol):
    """The documents as the transaction sees them."""

    catalogue: Catalogue

    def head(self, table: TableInfo, key: bytes) -> tuple[int, bytes] | None: ...


class Draft:
    """A new version of a document, before it is written.

    Attributes:
        table: Its table.
        key_bytes: Its primary key, as `collation.key_bytes` writes it.
        kind: `change.INSERT`, `UPDATE`, `REPLACE` or `DELETE`.
        old_bytes: The document before, encoded; None where there is none.
        old_meta: The metadata of the version before, which may be a deletion; None where there is none, where it was written
            before the table had a hook, and where compaction has removed the deletion.
        new_bytes: The document after, encoded; None for a deletion.
        asked: A dialect's argument for this write, in its own terms; None from every other writer.
        time: Of the commit, in milliseconds since 1970.
        origin: The writer's own name, or None.
    """

    __slots__ = (
        "_heads",
        "_new",
        "_old",
        "asked",
        "key_bytes",
        "kind",
        "new_bytes",
        "old_bytes",
        "old_meta",
        "origin",
        "table",
        "time",
    )

    def __init__(
        self,
        heads: Heads,
        table: TableInfo,
        key_bytes: bytes,
        kind: int,
        old_bytes: bytes | None,
        old_meta: bytes | None,
        new_bytes: bytes | None,
        asked: Any,
        time: int,
        origin: str | None,
    ) -> None:
        self._heads = heads
        self.table = table
        self.key_bytes = key_bytes
        self.kind = kind
        self.old_bytes = old_bytes
        self.old_meta = old_meta
        self.new_bytes = new_bytes
        self.asked = asked
        self.time = time
        self.origin = origin
        self._old: codec.FrozenDict | None = None
        self._new: codec.FrozenDict | None = None

    @property
    def key(self) -> Any:
        return collation.key_value(self.key_bytes)

    @property
    def old(self) -> codec.FrozenDict | None:
        """The document before, decoded once; it refuses to be changed."""
        if self._old is None and self.old_bytes is not None:
            self._old = codec.decode_frozen(self.old_bytes)
        return self._old

    @property
    def new(self) -> codec.FrozenDict | None:
        """The document after, likewise."""
        if self._new is None and self.new_bytes is not None:
            self._new = codec.decode_frozen(self.new_bytes)
        return self._new

    def beside(self, table: TableReference) -> TableInfo:
        """A table, by its name, that the hook also reads or writes: usually a hidden table that the dialect made
        before it set the hook.

        Raises:
            UsageError: There is none, or it has a hook itself.
        """
        info = self._heads.catalogue.live.get(table)
        if info is None or info.hook is not None:
            raise UsageError(
                f"the write hook `{self.table.hook}` of table `{self.table.name}` needs a table `{table}` without a hook"
            )
        return info

    def read_document(self, table: TableInfo, key: bytes) -> bytes | None:
        """The encoded document of a key of any table, as the transaction sees it; None where there is none."""
        head = self._heads.head(table, key)
        return None if head is None else head[1]


class Derived(NamedTuple):
    """The result of a hook for a draft.

    Attributes:
        meta: The entry's metadata; None: no metadata. For an unchanged document, there is a new version, with an
            entry, only if the metadata differs from the metadata before, or there is metadata and a row in `beside`.
        beside: Writes to other tables, as (table, key, encoded document); a document of None is a deletion, of a row
            that may be missing.
    """

    meta: bytes | None
    beside: Sequence[tuple[TableInfo, bytes, bytes | None]] = ()


Derive = Callable[[Draft], Derived]

_HOOKS: Final[dict[str, Derive]] = {}
# The registry of our own dialects' hooks. By name: the store imports nothing above it.
_OF_DIALECTS: Final = {
    "couchdb.revisions": "reactdb.dialects.couchdb.revisions",
    "mongodb.rules": "reactdb.dialects.mongodb.rules",
}
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*", re.ASCII)


def register_hook(name: str, derive: Derive) -> None:
    """Make a hook known to this process. To register it again, as an import that was interrupted does, changes nothing.

    Args:
        name: The dialect, or another word of the registering program's own, and the hook: `couchdb.revisions`.

    Raises:
        UsageError: It is no such name, or another function has it.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"a write hook's name is two words with a dot between, not {name!r}")
    known, given = describe_function(_HOOKS.get(name, derive)), describe_function(derive)
    if known != given:
        raise UsageError(f"the write hook `{name}` is {known} already, and cannot be {given}, too")
    _HOOKS[name] = derive


def check_hook(hook: str, table: str) -> None:
    """Raises: HookNotFound, where this process does not know the hook."""
    if hook in _OF_DIALECTS and hook not in _HOOKS:
        import_module(_OF_DIALECTS[hook])
    if hook not in _HOOKS:
        raise HookNotFound(hook, table)


def run_hook(draft: Draft) -> Derived:
    """Run the table's hook on a draft.

    Raises:
        HookNotFound: This process does not know it.
        UsageError: The hook refuses the write, or returns invalid metadata.
    """
    name = str(draft.table.hook)
    check_hook(name, draft.table.name)
    derived = _HOOKS[name](draft)
    if type(derived) is not Derived or not (derived.meta is None or type(derived.meta) is bytes):
        raise UsageError(
            f"the write hook `{name}` gave {format_value(derived)}: give Derived(meta), with bytes or None for meta"
        )
    return derived
