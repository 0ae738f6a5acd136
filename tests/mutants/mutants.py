"""The mutants: small wrongs that somebody could do to the store or the feeds, each with the tests that must notice.

Rule of this file: a mutant is one exchange of text in one file, and still runs: a syntax error proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One wrong.

    Attributes:
        name: What it does.
        file: In the package, for example "store/writer.py".
        old, new: The text, which is there once, and what stands there instead.
        tests: What must fail, as pytest takes it.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


MUTANTS = [
    # ----- durability
    Mutant(
        "a skipped sync: a hard commit does not wait for the disk",
        "store/writer.py",
        "'FULL' if is_hard else 'NORMAL'",
        "'OFF' if is_hard else 'NORMAL'",
        ("tests/test_crash_power.py",),
    ),
    Mutant(
        "a hard commit is as soft as the others",
        "store/writer.py",
        "'FULL' if is_hard else 'NORMAL'",
        "'NORMAL' if is_hard else 'NORMAL'",
        ("tests/test_crash_power.py",),
    ),
    # ----- one transaction
    Mutant(
        "a head is moved in a later transaction than the one of its log entry",
        "store/transaction.py",
        "            self.execute(MOVE_HEAD, (seq, table.id, key))",
        "            self.memory.__class__.late = getattr(self.memory.__class__, 'late', [])\n"
        "            for move in self.memory.__class__.late:\n"
        "                self.execute(MOVE_HEAD, move)\n"
        "            self.memory.__class__.late = [(seq, table.id, key)]",
        ("tests/test_laws_store.py",),
    ),
    Mutant(
        "a deleted document keeps its head",
        "store/transaction.py",
        "            self.execute(DROP_HEAD, (table.id, key))",
        "            pass",
        ("tests/test_laws_store.py",),
    ),
    Mutant(
        "a write that fails inside a transaction leaves its changes to be told",
        "store/writer.py",
        "                    del transaction.changes[transaction.count :]",
        "                    pass",
        ("tests/test_store_faults.py", "tests/test_feeds_regressions.py", "tests/test_laws_feeds.py"),
    ),
    Mutant(
        "after a rollback the writer believes what it remembered",
        "store/writer.py",
        "            return\n        self._memory.forget()\n        try:\n            if connection.in_transaction:",
        "            return\n        try:\n            if connection.in_transaction:",
        ("tests/test_laws_store.py", "tests/test_store_faults.py", "tests/test_tables.py"),
    ),
    # ----- the log
    Mutant(
        "an entry forgets which one it supersedes",
        "store/transaction.py",
        "        seq = self._append(table, key, kind, prev, old_body, body, meta)",
        "        seq = self._append(table, key, kind, None, old_body, body, meta)",
        ("tests/test_laws_store.py",),
    ),
    Mutant(
        "compaction does not raise the low-water mark",
        "store/retention.py",
        'set_fact(connection, "low_water",',
        'set_fact(connection, "low_water_",',
        ("tests/test_laws_store.py", "tests/test_tables.py"),
    ),
    Mutant(
        "the clock may go back along the log",
        "store/writer.py",
        "        if now < self._last_time:",
        "        if False:",
        ("tests/test_store_faults.py", "tests/test_laws_store.py", "tests/test_tables.py"),
    ),
    # ----- indexes
    Mutant(
        "an index is not maintained by updates",
        "store/transaction.py",
        "            self._index(table, key, old_body, body)",
        "            pass",
        ("tests/test_index_laws.py",),
    ),
    Mutant(
        "an index keeps the entry of the value that was",
        "store/transaction.py",
        "                    self.execute(DROP_ENTRY, (index_id, value, key, tag))",
        "                    pass",
        ("tests/test_index_laws.py",),
    ),
    # ----- the file
    Mutant(
        "nobody looks whether the file is still the file",
        "store/moved.py",
        "        if _identity(file) != self._file:",
        "        if False:",
        ("tests/test_store_faults.py",),
    ),
    Mutant(
        "nobody looks whether the write-ahead log is still there",
        "store/moved.py",
        "            if self._wal is not None:",
        "            if False:",
        ("tests/test_store_faults.py",),
    ),
    # ----- telling
    Mutant(
        "feeds are told before the commit",
        "store/writer.py",
        "        first.is_committing = True\n        try:\n",
        "        first.is_committing = True\n"
        "        self._engine.publisher.publish(\n"
        "            transactions, max(self.last_seq, *(t.first + t.count - 1 for t in transactions))\n"
        "        )\n"
        "        try:\n",
        ("tests/test_store_faults.py",),
    ),
    Mutant(
        "a feed that joins misses what is committed meanwhile",
        "feeds/hub.py",
        "                    if node.seq >= seq:",
        "                    if node.seq + 1 >= seq:",
        ("tests/test_laws_feeds.py",),
    ),
    Mutant(
        "a feed is told once more what its snapshot had",
        "feeds/hub.py",
        "                    if node.seq >= seq:",
        "                    if False:",
        ("tests/test_laws_feeds.py", "tests/test_laws_feeds_threads.py"),
    ),
    Mutant(
        "a queue forgets to count what it dropped",
        "feeds/queue.py",
        "                return\n            self.dropped += 1",
        "                return",
        ("tests/test_laws_feeds_overflow.py",),
    ),
    Mutant(
        "a queue takes one more than it may",
        "feeds/queue.py",
        "        while len(queue) > self._limit:",
        "        while len(queue) > self._limit + 1:",
        ("tests/test_laws_feeds_overflow.py",),
    ),
    Mutant(
        "a window does not look further after it ran short",
        "feeds/window.py",
        "        if self.bound is None:\n            horizon.move(source.start, source.stop)\n        else:",
        "        if self.bound is None:\n            pass\n        elif not self.slots:",
        ("tests/test_feeds_routing.py",),
    ),
    Mutant(
        "a filter's feed is not asked about what a document was",
        "feeds/source.py",
        "        return (before,) if after is None else (before, after)",
        "        return () if after is None else (after,)",
        ("tests/test_laws_feeds.py",),
    ),
    Mutant(
        "a subscriber that raises stops those after it",
        "feeds/hub.py",
        "                    try:\n                        told.run()\n                    except BaseException:",
        "                    try:\n                        told.run()\n                    except GeneratorExit:",
        ("tests/test_feeds_delivery.py", "tests/test_feeds_lifecycle.py", "tests/test_feeds_complaints.py"),
    ),
    # ----- resuming
    Mutant(
        "every process continues the epoch that it finds",
        "store/writer.py",
        "            if not self.has_own_epoch and not self._engine.is_memory:",
        "            if False:",
        ("tests/test_store_faults.py", "tests/test_feeds_resume.py", "tests/test_tables.py"),
    ),
]
