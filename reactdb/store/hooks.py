"""Write hooks: what is derived from every write of a table, inside its transaction, whoever writes.

Of a version of a document a dialect needs more than the document: CouchDB its revision, MongoDB what an update has touched. That
is the entry's metadata, small bytes of the dialect's own. It cannot be worked out later. A writer may give it himself, with the
write, where nobody else's writes need any (`meta` of `WriteTransaction.write`; MongoDB's updates do so). Where one writer that
leaves it out would spoil it for all, a hook derives it. A hook is a function with a name:

    register_hook(name, derive)  every process that may write the table does so, where the module that has the hook is imported;
                                 that of one of our own dialects is imported when it is first asked
    TableInfo.hook              the name, in the file's list of tables, which makes it binding for every writer
    derive(draft) -> Derived    called by `WriteTransaction.write` for each document that is inserted, changed or deleted

A hook may refuse a write by raising a UsageError, which takes back that write and nothing else. It does not change the document:
what a caller has stored is what he gave. What a dialect keeps of a deletion, or of a version that lost against another, goes
to a hidden table beside (`Derived.beside`), in the same transaction; and what it kept there before, it reads (`Draft.stored`).

Rule of this file: a hook decides and the transaction writes, so that a hook which refuses has written nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol

from reactdb.change import TableReference
from reactdb.errors import HookNotFound, UsageError, function_in_words, shown
from reactdb.store.catalogue import Catalogue, TableInfo
from reactdb.values import codec, collation


class Heads(Protocol):
    """The documents as the transaction sees them."""

    catalogue: Catalogue

    def head(self, table: TableInfo, key: bytes) -> tuple[int, bytes] | None: ...


class Draft:
    """A version of a document that is about to be written.

    Attributes:
        table: Its table.
        key_bytes: Its primary key, as `collation.key_bytes` writes it.
        kind: `change.INSERT`, `UPDATE`, `REPLACE` or `DELETE`.
        old_bytes: The document before, encoded; None where there is none.
        old_meta: The metadata of the version before, which may be a deletion; None where there is none, where it was written
            before the table had a hook, and where compaction has removed the deletion.
        new_bytes: The document after, encoded; None for a deletion.
        asked: What a dialect asked of this write, in its own terms; None from every other writer.
        time: Of the commit, in milliseconds since 1970.
        origin: What the writer called itself, or None.
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
        """A table that the hook also reads or writes, by its name: a hidden one, in general, which the dialect has made before it
        set the hook.

        Raises:
            UsageError: There is none, or it has a hook itself.
        """
        found = self._heads.catalogue.live.get(table)
        if found is None or found.hook is not None:
            raise UsageError(
                f"the write hook `{self.table.hook}` of table `{self.table.name}` needs a table `{table}` without a hook"
            )
        return found

    def stored(self, table: TableInfo, key: bytes) -> bytes | None:
        """The encoded document of a key of any table, as the transaction sees it; None where there is none."""
        head = self._heads.head(table, key)
        return None if head is None else head[1]


class Derived(NamedTuple):
    """What a hook makes of a draft.

    Attributes:
        meta: The entry's metadata, or None for none. Where the document stays the same, there is a new version, with an entry,
            only if there is metadata that differs from that before, or metadata and something `beside`.
        beside: (table, key, encoded document) of what is to be written to other tables with it; a document of None is a
            deletion, of what may be there or not.
    """

    meta: bytes | None
    beside: Sequence[tuple[TableInfo, bytes, bytes | None]] = ()


Derive = Callable[[Draft], Derived]

_HOOKS: Final[dict[str, Derive]] = {}
# Where our own dialects register theirs. By name: the store imports nothing that stands on it.
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
    known, given = function_in_words(_HOOKS.get(name, derive)), function_in_words(derive)
    if known != given:
        raise UsageError(f"the write hook `{name}` is {known} already, and cannot be {given}, too")
    _HOOKS[name] = derive


def check_hook(hook: str, table: str) -> None:
    """Raises: HookNotFound, where this process does not know the hook."""
    if hook in _OF_DIALECTS and hook not in _HOOKS:
        import_module(_OF_DIALECTS[hook])
    if hook not in _HOOKS:
        raise HookNotFound(hook, table)


def ask(draft: Draft) -> Derived:
    """What the table's hook makes of the draft.

    Raises:
        HookNotFound: This process does not know it.
        UsageError: It refuses the write, or gives what cannot be metadata.
    """
    name = str(draft.table.hook)
    check_hook(name, draft.table.name)
    derived = _HOOKS[name](draft)
    if type(derived) is not Derived or not (derived.meta is None or type(derived.meta) is bytes):
        raise UsageError(
            f"the write hook `{name}` gave {shown(derived)}: give Derived(meta), with bytes or None for meta"
        )
    return derived
