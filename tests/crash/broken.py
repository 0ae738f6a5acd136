"""Stores and consumers that are broken on purpose, to show that the crash tests notice.

Each of these is applied inside the process that will be killed. Some break nothing while the process lives, and show only after
a kill. (`mutants.py` is for power cuts, which also lose what was not flushed; `tests/mutants` changes the text of a copy of the
project, to show that the ordinary tests notice.)

Rule of this file: a mutant changes one thing, and names it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from reactdb.feeds.feed import Feed
from reactdb.store import retention, snapshot, transaction
from reactdb.store.file.sqlite import Connection
from reactdb.store.hooks import Derived
from reactdb.store.transaction import Savepoint, WriteTransaction
from reactdb.store.writer import Writer

from .lanes import Say

# Long enough for a kill to fall into, where the real store has nothing between two lines.
PAUSE_S = 0.002


def acknowledged_before_commit() -> None:
    """A write is acknowledged as soon as it is begun. `teller` does it."""


def early_acknowledgement(say: Say) -> Say:
    """What is announced is acknowledged at once."""

    def tell(message: dict[str, Any]) -> None:
        if "done" in message:
            return
        say(message)
        if "op" in message:
            say({"done": message["op"], "seq": None, "ended": None})

    return tell


def transaction_in_two_halves() -> None:
    """A transaction is committed after each of its writes, and goes on. When it is done, nobody can tell."""
    write = Writer.write

    def write_and_commit(self: Writer, *args: Any, **options: Any) -> Any:
        outer = self.current
        result = write(self, *args, **options)
        # Not one that is going to be taken back: that would show without a kill.
        if outer is not None and outer.savepoint is None and not (outer.origin or "").endswith("-back"):
            outer.flush()
            self.connection.execute("COMMIT")
            time.sleep(PAUSE_S)
            self.connection.execute("BEGIN IMMEDIATE")
        return result

    Writer.write = write_and_commit  # type: ignore[method-assign]


def head_moved_later() -> None:
    """The log entry of an update is committed; its head is moved in a transaction of its own, at once."""
    pending: list[tuple[int, int, bytes]] = []
    move_heads = WriteTransaction._move_heads
    commit = Writer._commit

    def leave_the_head(self: WriteTransaction, heads: Any, *rest: Any) -> None:
        (name, (row, *_, place)), *others = heads.items()
        if others or place != transaction.MOVED or self.savepoint is not None or self.origin:
            move_heads(self, heads, *rest)
        else:
            pending.append((row[0], *name))

    def move(connection: Connection) -> None:
        while pending:
            connection.execute(transaction.MOVE_HEAD, pending.pop())

    def commit_and_move(self: Writer, *args: Any) -> None:
        commit(self, *args)
        if pending:
            time.sleep(PAUSE_S)
            self.connection.execute("BEGIN IMMEDIATE")
            move(self.connection)
            self.connection.execute("COMMIT")

    WriteTransaction._move_heads = leave_the_head  # type: ignore[method-assign]
    Writer._commit = commit_and_move  # type: ignore[method-assign]


def index_not_maintained() -> None:
    """One write in twenty forgets the indexes."""
    moves, random = transaction.index_moves, Random(1)

    def sometimes(*args: Any, **options: Any) -> Any:
        found = moves(*args, **options)
        return found if random.random() > 0.05 else (None, found[1])

    transaction.index_moves = sometimes


def feed_told_before_commit() -> None:
    """Feeds hear of a commit just before it is done."""
    commit = Writer._commit

    def tell_and_commit(self: Writer, transactions: Sequence[WriteTransaction], *rest: Any) -> None:
        publisher = self.engine.publisher
        publisher.publish(transactions, max(t.first + t.count - 1 for t in transactions))
        publisher.drain()
        time.sleep(PAUSE_S)
        commit(self, transactions, *rest)

    Writer._commit = tell_and_commit  # type: ignore[method-assign]


def low_water_not_raised() -> None:
    """Compaction removes entries and does not say so."""
    retention.set_fact = lambda *_: None


def compaction_in_two_halves() -> None:
    """Compaction raises the low-water mark in a transaction of its own, after it has removed."""
    set_fact = retention.set_fact

    def later(connection: Connection, name: str, value: Any) -> None:
        if name == "low_water":
            connection.execute("COMMIT")
            time.sleep(4 * PAUSE_S)
            connection.execute("BEGIN IMMEDIATE")
        set_fact(connection, name, value)

    retention.set_fact = later


def seq_given_twice() -> None:
    """The newest entry gives the next seq, also where compaction has removed the one after it."""
    snapshot.HEAD = "SELECT (SELECT max(seq) FROM log), 0"


def token_one_ahead() -> None:
    """A feed's token is past an event that was not told yet."""
    token = Feed.token.fget  # type: ignore[attr-defined]

    def ahead(self: Feed) -> str | None:
        name, _, seq = (token(self) or "").rpartition(".")
        return f"{name}.{int(seq) + 1}" if name else None

    Feed.token = property(ahead)  # type: ignore[assignment, method-assign]


def part_not_taken_back() -> None:
    """What failed inside a transaction stays, where the transaction goes on."""

    def nothing(self: Savepoint, is_of_sqlite: bool) -> bool:
        return True

    Savepoint._take_back = nothing  # type: ignore[method-assign]


def hook_not_asked() -> None:
    """One write in twenty goes past the table's write hook."""
    derived, random = WriteTransaction._derive, Random(1)

    def sometimes(self: WriteTransaction, *args: Any) -> Any:
        found = derived(self, *args)
        return found if random.random() > 0.05 else Derived(None)

    WriteTransaction._derive = sometimes  # type: ignore[method-assign]


MUTANTS: dict[str, Callable[[], None]] = {
    mutant.__name__: mutant
    for mutant in (
        acknowledged_before_commit,
        transaction_in_two_halves,
        head_moved_later,
        index_not_maintained,
        feed_told_before_commit,
        low_water_not_raised,
        compaction_in_two_halves,
        seq_given_twice,
        token_one_ahead,
        part_not_taken_back,
        hook_not_asked,
    )
}


def apply(name: str | None) -> None:
    if name is not None:
        MUTANTS[name]()


def teller(name: str | None, say: Say) -> Say:
    return early_acknowledgement(say) if name == acknowledged_before_commit.__name__ else say
