"""update_inside: the update of one document by key inside a transaction, by the shortest way.

It does what `writing.update_one` does, for what nearly every such update is: a patch of plain values, or of expressions that give
some, to a table without indexes. Whatever else there is it leaves to the general way, before it has done anything.

Rule of this file: written for speed. A call costs as much as a step of SQLite's machine, so there are few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reactdb.codec import encode_again, same_bytes
from reactdb.decoding import decode
from reactdb.expression import Expression
from reactdb.store.pending import LARGE_BYTES, MOST, Pending, pend, settle
from reactdb.store.savepoints import Part
from reactdb.writing import NOTHING

if TYPE_CHECKING:
    from reactdb.database import Database

_UNCHANGED = NOTHING | {"unchanged": 1}
_REPLACED = NOTHING | {"replaced": 1}
_TEXT = frozenset({str})
_PLAIN = frozenset({str, int, float, bool, type(None), bytes})
_all_plain = _PLAIN.issuperset
_all_plain_or_expressions = (_PLAIN | {Expression}).issuperset


def update_inside(database: Database, name: str, key: bytes, patch: dict[str, Any]) -> dict[str, Any] | None:
    """Merge a patch into a document of the table `name`. ReQL's counters; None: nothing was done, the general way is to do it.

    Raises:
        As `update`; nothing of it is left in the transaction then.
    """
    transaction = database._engine.transaction_as_it_is()
    if (
        transaction is None
        or transaction.part is not None
        or transaction.ruin is not None
        or database._is_closed
    ):
        return None
    table = transaction.catalogue.live.get(name)
    if table is None or table.indexes:
        return None
    count = transaction.count
    writer = database._engine.writer
    assert writer is not None
    try:
        pending = transaction.pending
        if pending is None or len(pending.rows) >= MOST:
            settle(transaction, writer)
            pending = transaction.pending = Pending(count)
        old = pending.latest.get((table.id, key)) or transaction.head(table, key)
        if old is None:
            return None
        body = old[1]
        document = decode(body)
        # A copy, which no other thread can change any more.
        given = patch.copy()
        # A name with a $ may be another system's operator, which the general way refuses.
        if not _TEXT.issuperset(map(type, given)) or table.primary_key in given or "$" in "".join(given):
            return None
        plain = evaluated(given, document)
        if plain is None:
            return None
        fields = len(document)
        document.update(plain)
        new = encode_again(document)
        # As `update_one` has it.
        if new == body or (len(document) != fields and same_bytes(body, new)):
            return _UNCHANGED.copy()
        if len(new) > LARGE_BYTES:
            return None
        pend(transaction, pending, table, key, old, new)
    except BaseException:
        if transaction.pending is not None:
            transaction.pending.take_back(transaction, count)
        # It says in our words what SQLite said, and whether the transaction can go on.
        with Part(transaction, writer, "update"):
            raise
    return _REPLACED.copy()


def evaluated(patch: dict[str, Any], document: dict[str, Any]) -> dict[str, Any] | None:
    """The patch with the values of its expressions; None where not all there is are plain values then."""
    if _all_plain(map(type, patch.values())):
        return patch
    if not _all_plain_or_expressions(map(type, patch.values())):
        return None
    found = {}
    # By name, as `flat_patch` has it.
    for name in sorted(patch):
        value = patch[name]
        if type(value) is Expression:
            if value.node.rare:
                return None
            value = value.value_of(document)
            if type(value) not in _PLAIN:
                return None
        found[name] = value
    return found
