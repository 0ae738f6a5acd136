"""Block: one `with db.transaction()`. The outermost block is a transaction, inner blocks are savepoints of it.

A block belongs to the flow (see `flows`) that began it. Others write to its transaction only where its object was handed to them:
by the object itself, or, as members, while they share it. An exclusive block has no members: only the object is a way in.

Blocks end in the opposite order of their beginning, each in the flow that began it. In any other order, all half-done
writes are rolled back, and the errors name the block that was in the way.

Rule of this file: it knows the rights of flows, and touches neither SQL nor locks. The thread with the transaction
makes all calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from reactdb.call_stack import find_calling_line
from reactdb.errors import (
    TransactionEnded,
    TransactionOwned,
    TransactionRolledBack,
    UsageError,
)
from reactdb.store.flows import ControlFlow
from reactdb.store.transaction import WriteTransaction

__all__ = ["Block"]


class Participant:
    """A flow inside a transaction, and its place in the program.

    Attributes:
        transaction: The transaction that it takes part in.
        is_left: It is no longer in it, and knows that.
    """

    __slots__ = ("flow", "is_left", "place", "transaction")

    def __init__(self, transaction: WriteTransaction) -> None:
        self.transaction = transaction
        self.flow = ControlFlow()
        self.place = find_calling_line()
        self.is_left = False


class Block(Participant):
    """See the head of this file.

    Attributes:
        outer: The block around it; None where it is the outermost.
        is_exclusive: Only writes through the block's object are in it.
        is_over: The block, or its outer block, has ended.
        members: For the outermost block: itself, the open inner blocks and the flows that share it, in the order of
            their beginning.
        is_shared: Of the outermost block: another flow has, or had, a way in.
    """

    __slots__ = ("is_exclusive", "is_over", "is_shared", "members", "outer")

    def __init__(self, transaction: WriteTransaction, outer: Block | None, *, is_exclusive: bool) -> None:
        super().__init__(transaction)
        self.outer = outer
        self.is_exclusive: bool = is_exclusive or (outer is not None and outer.is_exclusive)
        self.is_over = False
        self.is_shared = False
        self.members: list[Participant] = []
        self.root.members.append(self)
        if outer is not None and not self.flow.is_same(self.root.flow):
            self.root.is_shared = True

    @property
    def root(self) -> Block:
        """The outermost block around it, or itself. (An attribute would be a circle, which only the garbage collector ends.)"""
        return self if self.outer is None else self.outer.root

    def is_current(self) -> bool:
        """Whether the running flow is a part of the block, without using its object."""
        if self.is_exclusive:
            return False
        root = self if self.outer is None else self.outer.root
        if root.flow.is_current():
            return True
        return root.is_shared and any(member.flow.is_current() for member in root.members)

    # -----------------------------------------------------------------------------------------------------------
    # Refusals

    def refusal_error(self, operation: str) -> TransactionOwned:
        """The error for a write outside the block, which cannot wait for its end in the same thread."""
        return TransactionOwned(
            operation,
            self.root.flow.in_words(),
            self.place,
            ControlFlow().in_words(),
            is_exclusive=self.is_exclusive,
        )

    def check_object(self, operation: str) -> None:
        """Something is done through its object.

        Raises:
            TransactionEnded: It is over.
            TransactionOwned: Another thread began the block.
        """
        if self.is_over:
            raise TransactionEnded(operation, self.place)
        flow = ControlFlow()
        if flow.thread != self.flow.thread:
            raise TransactionOwned(
                operation,
                f"thread {self.flow.thread_name()!r}",
                self.place,
                f"thread {flow.thread_name()!r}",
                is_other_thread=True,
            )
        if not self.root.is_shared and not flow.is_same(self.root.flow):
            self.root.is_shared = True

    def check_savepoint(self, operation: str) -> ControlFlow | None:
        """Check that a write may begin. In a shared transaction, a savepoint belongs to one flow: another flow's
        writes inside would be rolled back with it.

        Returns:
            The flow that writes, where the transaction is shared.

        Raises:
            TransactionOwned: Another flow has a savepoint open.
        """
        if not self.root.is_shared:
            return None
        flow = ControlFlow()
        savepoint = self.transaction.savepoint
        if savepoint is not None:
            # A savepoint from before the sharing belongs to the flow that began the transaction.
            owner = savepoint.flow or self.root.flow
            if not flow.is_same(owner):
                inner = next(
                    (one for one in reversed(self.root.members) if one.flow.is_same(owner)), self.root
                )
                raise TransactionOwned(
                    operation, owner.in_words(), inner.place, flow.in_words(), is_inner=True
                )
        return flow

    # -----------------------------------------------------------------------------------------------------------
    # Ends

    def check_end(self) -> None:
        """It is about to end without an exception.

        Raises:
            TransactionEnded: The outer block has ended before.
            TransactionRolledBack: Another flow ends it, or not everything inside has ended. The caller takes it back.
        """
        if self.is_over:
            raise TransactionEnded("the end of the block", self.place)
        if not self.flow.is_current():
            raise TransactionRolledBack(self.place, self.flow.in_words(), ControlFlow().in_words())
        members = self.root.members
        last = members[-1]
        if self.outer is not None:
            # Flows that share the transaction are as much inside of its outermost block.
            last = next(one for one in reversed(members) if isinstance(one, Block))
        if last is not self:
            raise TransactionRolledBack(
                self.place, self.flow.in_words(), None, inner=last.flow.in_words(), inner_place=last.place
            )

    def end(self) -> list[Participant]:
        """Mark the block, and everything inside it, as ended.

        Returns:
            The members that are still open in other flows: they do not know of the end yet.
        """
        members = self.root.members
        inside: list[Participant] = []
        if self in members:
            first = members.index(self)
            for one in members[first:]:
                if isinstance(one, Block):
                    one.is_over = True
                elif self.outer is not None:
                    continue
                inside.append(one)
            members[:] = [one for one in members if one not in inside]
        return [one for one in inside if not one.flow.is_same(self.flow)]

    # -----------------------------------------------------------------------------------------------------------
    # Sharing

    @contextmanager
    def share(self) -> Iterator[None]:
        """Inside, the running flow is a member of the transaction.

        Raises:
            TransactionEnded: The transaction has ended; also raised at the end of the block.
            UsageError: It is exclusive.
        """
        self.check_object("share")
        if self.is_exclusive:
            raise UsageError("an exclusive transaction has no members: write through its object")
        member = Participant(self.transaction)
        root = self.root
        root.members.append(member)
        try:
            yield
        finally:
            member.is_left = True
            if member in root.members:
                root.members.remove(member)
        if root.is_over:
            raise TransactionEnded("the end of the block", member.place)
