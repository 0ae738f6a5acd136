"""update_inside: the update of one document by key inside a transaction, by the shortest way.

It does what `writing.update_one` does, for what nearly every such update is: a patch of plain values, or of expressions that give
some, to a table without indexes. Whatever else there is it leaves to the general way, before it has done anything.

Rule of this file: written for speed. A call costs as much as a step of SQLite's machine, so there are few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reactdb.codec import encode_again, is_flat, same_bytes
from reactdb.decoding import decode
from reactdb.expression import Expression
from reactdb.store.pending import LARGE_BYTES, MOST, Pending, pend, settle
from reactdb.store.savepoints import Part
from reactdb.writing import NOTHING

if TYPE_CHECKING:
    from reactdb.store.transaction import WriteTransaction
    from reactdb.store.writer import Writer

_UNCHANGED = NOTHING | {"unchanged": 1}
_REPLACED = NOTHING | {"replaced": 1}
_TEXT = frozenset({str})
_PLAIN_OR_EXPRESSION = frozenset({str, int, float, bool, type(None), bytes, Expression})


def update_inside(
    transaction: WriteTransaction, writer: Writer, name: str, key: bytes, patch: dict[str, Any]
) -> dict[str, Any] | None:
    """Merge a patch into a document of the table `name`. ReQL's counters; None: nothing was done, the general way is to do it.

    Raises:
        As `update`; nothing of it is left in the transaction then.
    """
    table = transaction.catalogue.live.get(name)
    if (
        table is None
        or table.indexes
        or transaction.part is not None
        or transaction.origin is not None
        or transaction.ruin is not None
    ):
        return None
    count = transaction.count
    try:
        pending = transaction.pending
        if pending is None or len(pending.rows) >= MOST:
            settle(transaction, writer)
            pending = transaction.pending = Pending(count)
        old = transaction.head(table, key)
        if old is None:
            return None
        body = old[1]
        document = decode(body)
        # A copy, which no other thread can change any more.
        given = patch.copy()
        if not is_flat(given):
            if not (
                _PLAIN_OR_EXPRESSION.issuperset(map(type, given.values()))
                and _TEXT.issuperset(map(type, given))
            ):
                return None
            for field in sorted(given):
                one = given[field]
                if type(one) is Expression:
                    if one.node.rare:
                        return None
                    given[field] = one.value_of(document)
            if not is_flat(given):
                return None
        if table.primary_key in given:
            return None
        fields = len(document)
        document.update(given)
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
