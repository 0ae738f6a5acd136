"""The mutants that are kept by hand: mistakes about durability and order, each with the tests that must notice it.

They are changes of the source, made in a copy of the project: do the ordinary tests notice them? `tests/crash/broken.py`,
`tests/crash/mutants.py` and `tests/faults/mutants.py` are different: there a program breaks its own store while it runs, to show
that the tests of crashes and faults can notice a broken store. Mutants of changed lines are generated: see `generate.py`.

Rule of this file: a place is the dotted name of a function, a class or a module. The change is a pattern (see `patterns.py`) that
repeats few private names, so that a rename breaks few mutants. A mutant names the fewest tests that notice it, so that all
mutants take minutes.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One mistake.

    Attributes:
        name: What the mutant does wrong.
        place: Where the pattern is searched, for example "reactdb.store.writer.Writer.flush". It has to be there once.
        pattern: The code that is replaced.
        replacement: The code that takes its place; "" removes it.
        tests: What must fail, as pytest takes it.
    """

    name: str
    place: str
    pattern: str
    replacement: str
    tests: tuple[str, ...]


MUTANTS = [
    # ----- The disk: what is flushed, and when
    Mutant(
        "a skipped sync: a hard commit does not wait for the disk",
        "reactdb.store.writer.Writer._begin",
        "'FULL' if _1 else 'NORMAL'",
        "'OFF' if _1 else 'NORMAL'",
        ("tests/crash/test_power_cuts.py::TestImages::test_hard_commits_outlive_every_cut",),
    ),
    Mutant(
        "a hard commit is as soft as the others",
        "reactdb.store.writer.Writer._begin",
        "'FULL' if _1 else 'NORMAL'",
        "'NORMAL' if _1 else 'NORMAL'",
        ("tests/crash/test_power_cuts.py::TestImages::test_hard_commits_outlive_every_cut",),
    ),
    Mutant(
        "a failed flush is forgotten",
        "reactdb.store.file.flush.Flushes.notice",
        "self._ = True",
        "",
        (
            "tests/crash/test_power_cuts.py::TestFlushes::test_after_a_failed_flush_the_log_is_written_again_before_the_next_transaction",
        ),
    ),
    Mutant(
        "a hard write that changes nothing flushes nothing",
        "reactdb.store.writer.Writer._commit",
        "not _ or _ or self._ is None",
        "True",
        (
            "tests/crash/test_power_cuts.py::TestFlushes::test_a_hard_write_that_changes_nothing_flushes_what_it_rests_on_once",
        ),
    ),
    Mutant(
        "what another process has written counts as flushed",
        "reactdb.store.file.flush.Flushes.make_sure",
        "self._ = False\nif _1:\n    ...",
        "if _1:\n    ...",
        (
            "tests/crash/test_power_cuts.py::TestFlushes::test_what_another_process_has_written_counts_as_not_flushed",
        ),
    ),
    Mutant(
        "a unique index is not looked at where a single write ends",
        "reactdb.store.writer.Writer._write_in_turn",
        "if _.claims is not None:\n    ...",
        "if False:\n    ...",
        ("tests/store/test_unique_indexes.py::TestSingleWrites",),
    ),
    Mutant(
        "a unique index is not looked at where a transaction ends",
        "reactdb.store.writer.Writer._check_unique",
        "_.claims is None or self._",
        "True",
        ("tests/store/test_unique_indexes.py::TestTransactions",),
    ),
    Mutant(
        "a write that shares a commit brings its duplicate to the commit",
        "reactdb.store.write_queue.write_group",
        "_.check_unique()",
        "None",
        (
            "tests/store/test_unique_indexes.py::TestProcessesAndThreads::test_in_a_group_commit_a_duplicate_fails_alone",
        ),
    ),
    Mutant(
        "a long transaction forgets duplicates that a rollback brings back",
        "reactdb.store.unique.Claims.shorten",
        "_1 >= start",
        "True",
        (
            "tests/store/test_unique_indexes.py::TestTransactions::test_claims_that_are_forgotten_early_change_nothing",
        ),
    ),
    Mutant(
        "a checkpoint does not have the write lock",
        "reactdb.store.checkpoints.Checkpoints._copy_log",
        "'BEGIN IMMEDIATE'",
        "'BEGIN'",
        (
            "tests/crash/test_power_cuts.py::TestFlushes::test_a_log_that_is_being_copied_into_the_file_is_not_written_to",
        ),
    ),
    Mutant(
        "a log over its limit refuses nobody",
        "reactdb.store.checkpoints.Checkpoints.after_commit",
        "self.is_over = True",
        "",
        (
            "tests/store/test_store_checkpoints.py::test_writes_are_refused_beyond_the_limit_until_the_log_can_be_emptied",
        ),
    ),
    # ----- The write buffer and savepoints
    Mutant(
        "a head is moved in a later transaction than the one of its log entry",
        "reactdb.store.transaction.WriteTransaction._move_heads",
        "if _1:\n    _2(MOVE_HEAD, _1)",
        "late = globals().setdefault('LATE', [])\nlate.append(_1)\nif len(late) > 1:\n    _2(MOVE_HEAD, late.pop(0))",
        ("tests/surface/test_tables.py::TestUpdateReplaceDelete::test_update_merges",),
    ),
    Mutant(
        "a deleted document keeps its head",
        "reactdb.store.transaction.WriteTransaction._move_heads",
        "_(DROP_HEAD, _)",
        "",
        (
            "tests/surface/test_tables.py::TestUpdateReplaceDelete",
            "tests/surface/test_tables.py::TestUpdateReplaceDelete::test_delete_of_a_selection",
        ),
    ),
    Mutant(
        "a write that fails inside a transaction leaves its changes to be told",
        "reactdb.store.transaction.Savepoint._take_back",
        "_1.drop_changes_after(_2)",
        "_1.count = _2",
        ("tests/feeds/test_feeds_delivery.py::test_a_write_that_fails_inside_a_transaction_is_not_told",),
    ),
    Mutant(
        "a write that fails inside a transaction is not taken back",
        "reactdb.store.transaction.Savepoint._take_back",
        "_(f'ROLLBACK TO write{_}')",
        "",
        ("tests/surface/test_tables.py::TestTransactions::test_a_failed_write_inside_is_taken_back_alone",),
    ),
    Mutant(
        "a part of a transaction that fails is flushed all the same",
        "reactdb.store.transaction.WriteTransaction.drop_changes_after",
        "self._, self._ = (_, find_latest(_))",
        "",
        ("tests/store/test_write_buffer.py::test_a_part_that_fails_while_all_waits_leaves_nothing",),
    ),
    Mutant(
        "a flush inside a savepoint does not make it where it was opened",
        "reactdb.store.transaction.WriteTransaction.secure",
        "self._(_.start)",
        "",
        (
            "tests/store/test_write_buffer.py::test_a_part_that_fails_after_a_flush_leaves_what_was_buffered_before_it",
        ),
    ),
    Mutant(
        "what is buffered is forgotten when the transaction ends",
        "reactdb.store.writer.Writer.transaction",
        "self.flush(_, _)",
        "",
        ("tests/store/test_write_buffer.py::test_no_more_than_so_many_wait",),
    ),
    Mutant(
        "a read inside a transaction does not see what is buffered",
        "reactdb.store.transaction.WriteTransaction.snapshot",
        "self.flush()",
        "",
        ("tests/store/test_write_buffer.py::test_a_snapshot_of_a_transaction_sees_what_is_buffered",),
    ),
    Mutant(
        "what was half flushed when Ctrl-C struck is flushed beside itself",
        "reactdb.store.transaction.WriteTransaction._flush_until",
        "if self._:\n    self.execute(_1, _2)\n    ...",
        "if False:\n    self.execute(_1, _2)\n    ...",
        ("tests/store/test_write_buffer.py::test_what_ctrl_c_tears_is_written_again",),
    ),
    Mutant(
        "what was half flushed when Ctrl-C struck is flushed again with what came later",
        "reactdb.store.transaction.WriteTransaction._flush_until",
        "self._1(self.torn_until)",
        "self._1(self.count)",
        ("tests/store/test_write_buffer.py::test_what_ctrl_c_tears_is_written_again",),
    ),
    Mutant(
        "a transaction goes on when what was buffered could not be written",
        "reactdb.store.writer.Writer.flush",
        "_.ruin = _",
        "",
        ("tests/store/test_write_buffer.py::test_an_error_of_the_file_fails_the_whole_transaction",),
    ),
    Mutant(
        "the last of many entries are left out",
        "reactdb.store.log.append",
        "if _1 % _2:\n    ...",
        "if _1 < _2:\n    ...",
        ("tests/store/test_bulk.py::test_many_are_stored_as_one_by_one",),
    ),
    Mutant(
        "after a rollback the writer believes what it remembered",
        "reactdb.store.writer.Writer.roll_back",
        "self._.forget()",
        "",
        (
            "tests/surface/test_tables.py::TestTransactions::test_what_is_taken_back_leaves_nothing_in_the_writers_memory",
        ),
    ),
    # ----- What is stored
    Mutant(
        "a migration that fails is committed as far as it came",
        "reactdb.store.schema.migrate",
        "'ROLLBACK'",
        "'COMMIT'",
        ("tests/store/test_format.py::test_a_migration_that_fails_anywhere_leaves_the_old_format_whole",),
    ),
    Mutant(
        "an entry forgets which one it supersedes",
        "reactdb.store.transaction.WriteTransaction.write",
        "_1, _2 = old",
        "_1, _2 = (None, old[1])",
        ("tests/surface/test_tables.py::TestLogAndTime::test_history_goes_through_a_deletion",),
    ),
    Mutant(
        "compaction does not raise the low-water mark",
        "reactdb.store.retention.compact_step",
        "'low_water'",
        "'low_water_'",
        ("tests/surface/test_tables.py::TestCompaction",),
    ),
    Mutant(
        "the clock may go back along the log",
        "reactdb.store.writer.Writer._begin",
        "_ < self.last_time",
        "False",
        (
            "tests/surface/test_tables.py::TestLogAndTime::test_times_in_the_log_never_go_back_though_the_clock_does",
        ),
    ),
    Mutant(
        "a document is read with no look at its checksum",
        "reactdb.store.snapshot.read_document",
        "not is_whole(_, _, _, _)",
        "False",
        (
            "tests/store/test_fuzzed_files.py::test_every_way_to_read_a_changed_document_says_which_it_is",
            "tests/store/test_fuzzed_files.py::test_a_write_that_meets_damage_is_the_last",
        ),
    ),
    Mutant(
        "the log is read with no look at its checksums",
        "reactdb.store.log.verify_rows",
        "not are_entries_whole(_)",
        "False",
        ("tests/store/test_fuzzed_files.py::test_every_way_to_read_a_changed_document_says_which_it_is",),
    ),
    Mutant(
        "an index is not maintained by updates",
        "reactdb.store.transaction.WriteTransaction.write",
        "index_moves(_, _, _, _, has_places=_)",
        "(None, {})",
        ("tests/surface/test_tables.py::TestIndexes::test_updates_and_deletes_move_the_entries",),
    ),
    Mutant(
        "an index keeps the entry of the value that was",
        "reactdb.store.transaction.WriteTransaction._move_index_entries",
        "_._(DROP_ENTRY, sorted(_1)).rowcount",
        "len(_1)",
        ("tests/surface/test_tables.py::TestIndexes::test_updates_and_deletes_move_the_entries",),
    ),
    Mutant(
        "a position is taken without a look at its checksum",
        "reactdb.store.positions._verify_position",
        "_ != checksum",
        "False",
        ("tests/store/test_positions.py",),
    ),
    Mutant(
        "a position alone is not committed",
        "reactdb.store.transaction.WriteTransaction.is_empty",
        "_1 or _2 or _",
        "_1 or _2",
        ("tests/store/test_positions.py",),
    ),
    # ----- The file is still the file
    Mutant(
        "a commit does not look whether the file is still the file",
        "reactdb.store.writer.Writer._commit",
        "self.check_same_file()",
        "0",
        ("tests/store/test_storage_moved.py::test_a_write_is_refused",),
    ),
    Mutant(
        "nobody looks whether the file is still the file",
        "reactdb.store.file.guard.FileGuard.look",
        "(_.st_dev, _.st_ino) != self.identity",
        "False",
        ("tests/store/test_storage_moved.py::test_a_write_is_refused",),
    ),
    Mutant(
        "nobody looks whether the write-ahead log is still there",
        "reactdb.store.file.guard.FileGuard.look",
        "self._ is not None",
        "False",
        ("tests/store/test_storage_moved.py::test_a_write_is_refused",),
    ),
    Mutant(
        "nobody looks whether the write-ahead log was cut off",
        "reactdb.store.file.guard.FileGuard._look_closely",
        "_(_, 0, _) < _",
        "False",
        ("tests/store/test_stray_logs.py::test_nothing_is_acknowledged_behind_a_log_that_was_cut_off",),
    ),
    Mutant(
        "a log that others begin anew names no database",
        "reactdb.store.file.guard.FileGuard.look_before",
        "None if _ == _ else _1",
        "_1",
        (
            "tests/store/test_stray_logs.py::test_the_first_commit_of_a_log_that_was_begun_anew_names_its_database",
        ),
    ),
    Mutant(
        "nobody reads whose log it is before SQLite does",
        "reactdb.store.file.open_checks.prepare",
        "check_log_is_own(_)",
        "None",
        (
            "tests/store/test_stray_logs.py::test_a_log_that_was_begun_anew_is_refused_beside_another_database",
        ),
    ),
    Mutant(
        "a child of fork() goes on with what it has inherited",
        "reactdb.store.file.fork._after_in_child",
        "_.abandon()",
        "pass",
        (
            "tests/store/test_store_faults.py::TestFork::test_a_fork_inside_a_transaction_leaves_it_to_the_parent",
        ),
    ),
    Mutant(
        "a poll that failed is not made up for",
        "reactdb.store.follow.Watched.poll",
        "self._1 |= _2",
        "self._1 = _2",
        ("tests/store/test_follow.py::test_a_poll_that_failed_is_made_up_for_by_the_next",),
    ),
    # ----- Order: feeds get each commit once, whole, after it
    Mutant(
        "feeds are told before the commit",
        "reactdb.store.writer.Writer._commit",
        "_1.is_committing = True",
        "_1.is_committing = True\n"
        "self.engine.publisher.publish(transactions, max(self.last_seq, *(t.first + t.count - 1 for t in transactions)))",
        ("tests/feeds/test_feeds_delivery.py::test_a_commit_that_fails_is_told_to_nobody",),
    ),
    Mutant(
        "a feed that joins misses what is committed meanwhile",
        "reactdb.feeds.dispatch.LiveViews.dispatch",
        "_1.seq >= _2",
        "_1.seq + 1 >= _2",
        (
            "tests/feeds/test_feeds_delivery.py::test_subscribing_among_writers_loses_and_doubles_nothing",
            "tests/feeds/test_feeds_routing.py",
        ),
    ),
    Mutant(
        "a feed is told once more what its snapshot had",
        "reactdb.feeds.dispatch.LiveViews.dispatch",
        "_ >= seq",
        "False",
        ("tests/laws/test_laws_feeds_threads.py::test_a_commit_that_is_not_published_yet_is_told_once",),
    ),
    Mutant(
        "a queue forgets to count what it dropped",
        "reactdb.feeds.queues.FeedQueue.add",
        "self._ += 1",
        "",
        ("tests/feeds/test_feeds_resume.py::test_what_comes_while_a_feed_begins_is_bounded_too",),
    ),
    Mutant(
        "a queue takes one more than it may",
        "reactdb.feeds.queues.FeedQueue.add",
        "self._limit",
        "self._limit + 1",
        ("tests/feeds/test_feeds_resume.py::test_what_comes_while_a_feed_begins_is_bounded_too",),
    ),
    Mutant(
        "a shared queue keeps one more than it may for those who are called",
        "reactdb.feeds.broadcast.Broadcast._take",
        "_1.number - _2",
        "_1.number - _2 - 1",
        ("tests/feeds/test_feeds_shared.py::test_subscribers_hear_what_they_would_with_queues_of_their_own",),
    ),
    Mutant(
        "a squashing queue forgets what was last told",
        "reactdb.feeds.queues.SquashQueue._fold_one",
        "_1[_2] = (_3[0], _4)",
        "_1[_2] = (_4, _4)",
        (
            "tests/feeds/test_feeds_complaints.py::test_the_old_value_of_a_squashed_feed_is_what_was_last_told",
        ),
    ),
    Mutant(
        "who is disposed of while others are told is told too",
        "reactdb.feeds.broadcast.Recipients.exclude",
        "self._[_] = ignore",
        "pass",
        ("tests/feeds/test_feeds_shared.py::test_who_is_disposed_while_others_are_told_hears_nothing_more",),
    ),
    Mutant(
        "a reader of a shared queue does not hear what it missed",
        "reactdb.feeds.broadcast.ReadPosition.next",
        "self._ += _",
        "pass",
        ("tests/feeds/test_feeds_shared.py::test_subscribers_hear_what_they_would_with_queues_of_their_own",),
    ),
    Mutant(
        "every process continues the epoch that it finds",
        "reactdb.store.writer.Writer._begin",
        "not self.has_own_epoch and _",
        "False",
        (
            "tests/feeds/test_feeds_resume.py::test_a_position_of_a_future_that_was_lost",
            "tests/store/test_store_faults.py::TestTokens",
        ),
    ),
    Mutant(
        "after a commit that may be there or not, the epoch goes on",
        "reactdb.store.writer.Writer._commit_failed",
        "self.has_own_epoch = False",
        "",
        (
            "tests/crash/test_power_cuts.py::TestFlushes::test_after_a_commit_that_may_be_there_or_not_another_epoch_begins",
        ),
    ),
    Mutant(
        "a writer queues in one step and looks in another",
        "reactdb.store.write_queue.WriteQueue.acquire",
        "with _1:\n    _2._3.append(_4)\n    ...",
        "_2._3.append(_4)\nwith _1:\n    ...",
        ("tests/schedules/test_schedules.py::test_no_schedule_of_the_short_form_breaks_a_law",),
    ),
    Mutant(
        "the dispatcher does not look at its line again after giving the turn back",
        "reactdb.feeds.dispatch.Dispatcher.run",
        "while _1:\n    if _2:\n        return\n    ...",
        "if _1:\n    if _2:\n        return\n    ...",
        (
            "tests/feeds/test_feeds_delivery.py::test_what_becomes_ready_while_the_turn_is_given_back_is_delivered_at_once",
        ),
    ),
    Mutant(
        "a feed that is behind goes live though another thread has ended it",
        "reactdb.feeds.subscription.Subscription._move",
        "_ not in _[self._1]",
        "self._1 == 'closed'",
        ("tests/feeds/test_feeds_subscription.py",),
    ),
    Mutant(
        "a batch is nowhere while it is taken from the queue",
        "reactdb.feeds.queues.Pace.take",
        "self._ = deque()",
        "",
        ("tests/schedules/test_schedules.py::test_no_schedule_of_the_short_form_breaks_a_law",),
    ),
    Mutant(
        "a cursor looks before it remembers which signal it has heard",
        "reactdb.feeds.consumers.PullConsumer.next",
        "_1 = self._2\n_3 = self._4()",
        "_3 = self._4()\n_1 = self._2",
        ("tests/schedules/test_schedules.py::test_no_schedule_of_the_short_form_breaks_a_law",),
    ),
    Mutant(
        "a page of the log ends inside of a commit",
        "reactdb.feeds.log_reader.LogReader.read",
        "self._ and (not _)",
        "False",
        ("tests/feeds/test_feeds_readers.py::test_a_commit_is_read_from_the_log_as_a_whole",),
    ),
    Mutant(
        "a feed of whole commits begins in the middle of one",
        "reactdb.feeds.bootstrap.Bootstrap.at",
        "_ = find_commit_start(_, _)",
        "pass",
        ("tests/feeds/test_feeds_readers.py::test_a_commit_is_read_from_the_log_as_a_whole",),
    ),
    Mutant(
        "what a view could compute of a commit before it failed is told as a whole one",
        "reactdb.feeds.dispatch.Node.publish",
        "not _ and _._._.batches",
        "False",
        ("tests/feeds/test_feeds_readers.py::test_a_commit_that_fails_in_the_middle_is_not_told_in_part",),
    ),
    Mutant(
        "the position of net differences is past one that came to nothing",
        "reactdb.feeds.queues.SquashQueue._fold",
        "_1 and (not self._)",
        "_1",
        (
            "tests/feeds/test_feeds_readers.py::test_net_differences_that_wait_are_resumed_from_before_all_of_them",
        ),
    ),
    # ----- History, large values and durable readers
    Mutant(
        "history that a consumer has still to read is removed",
        "reactdb.store.retention.Compaction._limit_by_consumers",
        "_1 if _ is None else min(_1, _)",
        "_1",
        (
            "tests/surface/test_consumers.py::TestHistory::test_history_that_a_consumer_has_still_to_read_stays",
        ),
    ),
    Mutant(
        "compaction removes a blob that is being written",
        "reactdb.store.blobs.remove_unused",
        "max(_1, _)",
        "_1",
        ("tests/surface/test_blobs.py",),
    ),
    Mutant(
        "a blob that documents refer to is removed when it is old",
        "reactdb.store.blobs",
        "UNUSED: Final = _",
        "UNUSED: Final = f'SELECT {COLUMNS} FROM blobs WHERE time < ?1"
        " AND (digest IS NOT NULL OR time < ?2) ORDER BY time'",
        ("tests/surface/test_blobs.py",),
    ),
    Mutant(
        "an acknowledgement of a worker that was fenced off is believed",
        "reactdb.store.leases.check_still_held",
        "(_, _, _1.seq) != (_, _, _2.seq)",
        "_1.seq != _2.seq",
        ("tests/surface/test_consumers.py::TestLeases::test_a_worker_that_hangs_is_fenced_off",),
    ),
    Mutant(
        "a new holder gets the fencing number of the last",
        "reactdb.store.leases.Lease.assign_to",
        "self.fence + 1",
        "self.fence",
        ("tests/surface/test_consumers.py::TestLeases::test_a_worker_that_hangs_is_fenced_off",),
    ),
    Mutant(
        "a position is moved by what was read before somebody moved it",
        "reactdb.store.leases.check_still_held",
        "(_1, _2, _.seq) != (_3, _4, _.seq)",
        "(_1, _2) != (_3, _4)",
        (
            "tests/surface/test_consumers.py::TestLeases::test_a_position_that_somebody_has_moved_is_not_moved_by_what_was_read_before",
        ),
    ),
    Mutant(
        "what was read is written, whoever has taken over",
        "reactdb.durable.materialized_views.Materialized._write.work",
        "check_still_held(_, _1)",
        "_1",
        (
            "tests/surface/test_materialize.py::TestOneWorker::test_a_worker_that_was_taken_over_while_it_read_writes_nothing",
        ),
    ),
    Mutant(
        "half a commit is taken in",
        "reactdb.durable.materialized_views.Materialized._read",
        "_1 and _[0].commit > _",
        "_1",
        (
            "tests/surface/test_materialize.py::TestFollowing::test_a_transaction_that_is_longer_than_a_page_is_taken_in_whole",
        ),
    ),
]
