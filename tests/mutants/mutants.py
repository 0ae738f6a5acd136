"""The mutants: small wrongs that somebody could do to the store or the feeds, each with the tests that must notice.

These are texts, put into a copy of the project: what a slip of the pen could do, and whether the ordinary tests notice it.
`tests/crash/broken.py`, `tests/crash/mutants.py` and `tests/faults/mutants.py` are another thing: there a program about to be
killed, recorded or made to fail breaks its own store while it runs, to show that those tests can tell a wrong store at all.

Rule of this file: a mutant is one exchange of text in one file, and still runs: a syntax error proves nothing. Its tests are the
fewest that notice, so that all mutants take minutes.
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


SCHEDULES = ("tests/schedules/test_schedules.py::test_no_schedule_of_the_short_form_breaks_a_law",)

MUTANTS = [
    # ----- durability
    Mutant(
        "a skipped sync: a hard commit does not wait for the disk",
        "store/writer.py",
        "'FULL' if is_hard else 'NORMAL'",
        "'OFF' if is_hard else 'NORMAL'",
        ("tests/crash/test_power_cuts.py::TestImages::test_hard_commits_outlive_every_cut",),
    ),
    Mutant(
        "a hard commit is as soft as the others",
        "store/writer.py",
        "'FULL' if is_hard else 'NORMAL'",
        "'NORMAL' if is_hard else 'NORMAL'",
        ("tests/crash/test_power_cuts.py::TestImages::test_hard_commits_outlive_every_cut",),
    ),
    Mutant(
        "a failed flush is forgotten",
        "store/file/flush.py",
        "        self.is_doubtful = True\n",
        "",
        (
            "tests/crash/test_power_cuts.py::TestFlushes::test_after_a_failed_flush_the_log_is_written_again_before_the_next_transaction",
        ),
    ),
    Mutant(
        "a hard write that changes nothing flushes nothing",
        "store/writer.py",
        "            if not self._is_synchronous or self.flushes.is_complete or self.guard is None:",
        "            if True:",
        (
            "tests/crash/test_power_cuts.py::TestFlushes::test_a_hard_write_that_changes_nothing_flushes_what_it_rests_on_once",
        ),
    ),
    Mutant(
        "what another process has written counts as flushed",
        "store/file/flush.py",
        ("        self.is_complete = False\n        if not self.is_doubtful or"),
        "        if not self.is_doubtful or",
        (
            "tests/crash/test_power_cuts.py::TestFlushes::test_what_another_process_has_written_counts_as_not_flushed",
        ),
    ),
    Mutant(
        "a checkpoint does not have the write lock",
        "store/checkpoints.py",
        ('            connection.execute("BEGIN IMMEDIATE")\n            try:\n                trouble'),
        ('            connection.execute("BEGIN")\n            try:\n                trouble'),
        (
            "tests/crash/test_power_cuts.py::TestFlushes::test_a_log_that_is_being_copied_into_the_file_is_not_written_to",
        ),
    ),
    Mutant(
        "what a feed begins with is read from the log to its end, whoever waits for that",
        "store/checkpoints.py",
        "        self._writer.engine.settle_reads()\n",
        "",
        (
            "tests/store/test_store_checkpoints.py::test_a_feed_that_begins_while_the_log_is_being_emptied_does_not_keep_it",
        ),
    ),
    Mutant(
        "a read of this process is taken for one of another program",
        "store/checkpoints.py",
        "                    self._is_ours = not are_held",
        "                    self._is_ours = False",
        (
            "tests/store/test_store_checkpoints.py::test_a_read_of_this_process_is_told_from_one_of_another_program",
        ),
    ),
    Mutant(
        "reads go on while the log is being emptied for the second time",
        "store/engine.py",
        "                if not readers.rest(end):",
        "                if False:",
        (
            "tests/store/test_store_checkpoints.py::test_reads_that_follow_each_other_without_a_gap_do_not_keep_the_log",
        ),
    ),
    Mutant(
        "a thread that writes publishes all that another process has committed",
        "store/publisher.py",
        "            head - self.published > MOST_CHANGES and self.is_heard()",
        "            False and self.is_heard()",
        ("tests/store/test_follow.py::TestAWriteAfterALongTransactionElsewhere",),
    ),
    Mutant(
        "a subscriber that writes waits for itself",
        "store/publisher.py",
        "        self._catching_up.add(thread)\n",
        "",
        (
            "tests/store/test_follow.py::TestAWriteAfterALongTransactionElsewhere::test_a_subscriber_that_writes_while_it_is_told_of_that_does_not_wait_for_itself",
        ),
    ),
    Mutant(
        "a file with two names is opened",
        "store/file/names.py",
        "    if status.st_nlink > 1 and",
        "    if False and",
        ("tests/store/test_names.py::TestAFileWithTwoNames",),
    ),
    Mutant(
        "nobody looks whether another name of the file is in use",
        "store/file/names.py",
        "            if found != fcntl.F_UNLCK:",
        "            if False:",
        ("tests/store/test_names.py::TestAnotherNameThatIsInUse",),
    ),
    Mutant(
        "a log that another name has left behind is forgotten",
        "store/file/names.py",
        "    _check_no_log_is_left(path)\n",
        "    pass\n",
        ("tests/store/test_names.py::TestALogThatWasLeftBehind",),
    ),
    Mutant(
        "a log over its limit refuses nobody",
        "store/checkpoints.py",
        "            self.is_over = True",
        "            self.is_over = False",
        (
            "tests/store/test_store_checkpoints.py::test_writes_are_refused_beyond_the_limit_until_the_log_can_be_emptied",
        ),
    ),
    # ----- one transaction
    Mutant(
        "a head is moved in a later transaction than the one of its log entry",
        "store/transaction.py",
        "        if moved:\n            executemany(MOVE_HEAD, moved)\n",
        (
            "        late = self.memory.__class__.late = getattr(self.memory.__class__, 'late', [])\n"
            "        late.append(moved)\n"
            "        if len(late) > 1:\n"
            "            executemany(MOVE_HEAD, late.pop(0))\n"
        ),
        ("tests/surface/test_tables.py::TestUpdateReplaceDelete::test_update_merges",),
    ),
    Mutant(
        "a deleted document keeps its head",
        "store/transaction.py",
        "            executemany(DROP_HEAD, [(table_id, key) for _, table_id, key in buried])\n",
        "",
        (
            "tests/surface/test_tables.py::TestUpdateReplaceDelete",
            "tests/surface/test_tables.py::TestUpdateReplaceDelete::test_delete_of_a_selection",
        ),
    ),
    Mutant(
        "a write that fails inside a transaction leaves its changes to be told",
        "store/transaction.py",
        "        transaction.forget_after(self.start)\n",
        "        transaction.count = self.start\n",
        ("tests/feeds/test_feeds_delivery.py::test_a_write_that_fails_inside_a_transaction_is_not_told",),
    ),
    Mutant(
        "a write that fails inside a transaction is not taken back",
        "store/transaction.py",
        '            execute(f"ROLLBACK TO write{self.depth}")\n',
        "",
        ("tests/surface/test_tables.py::TestTransactions::test_a_failed_write_inside_is_taken_back_alone",),
    ),
    Mutant(
        "a part of a transaction that fails is flushed all the same",
        "store/transaction.py",
        "            del self._buffer[kept:]\n",
        "",
        (
            "tests/store/test_write_buffer.py::test_a_failed_update_leaves_those_before_it_waiting_right",
            "tests/store/test_parts.py",
        ),
    ),
    Mutant(
        "a flush inside a savepoint does not make it where it was opened",
        "store/transaction.py",
        "            self._flush_until(savepoint.start)\n",
        "",
        (
            "tests/store/test_write_buffer.py::test_a_part_that_fails_after_a_flush_leaves_what_was_buffered_before_it",
        ),
    ),
    # ----- running sums
    Mutant(
        "what a part of a transaction had counted stays counted when it is taken back",
        "store/transaction.py",
        "            transaction.memory.forget()\n",
        "",
        ("tests/store/test_sums.py::test_what_is_taken_back_of_a_transaction_is_not_counted",),
    ),
    Mutant(
        "a flush that begins a block in its middle counts nothing of what it had before that",
        "store/transaction.py",
        "            for table_id in {entry[0] for entry in entries}:\n                self._sums_of(table_id, seq - 1)\n",
        "            pass\n",
        (
            "tests/store/test_hidden_by_damage.py::test_a_flush_that_goes_on_into_a_new_block_counts_what_it_had_before_that",
        ),
    ),
    Mutant(
        "what was torn is counted twice when it is written again",
        "store/transaction.py",
        "            self.memory.forget_sums()\n            self._is_torn = True\n",
        "            self._is_torn = True\n",
        ("tests/store/test_hidden_by_damage.py::test_sums_are_right_after_ctrl_c_in_the_middle_of_a_flush",),
    ),
    Mutant(
        "a new index has no sums",
        "store/transaction.py",
        "            sums.add_index(index.id)\n            add_entries(sums.indexes, entries)\n",
        "            sums.add_index(index.id)\n",
        ("tests/store/test_sums.py",),
    ),
    Mutant(
        "compaction leaves sums that have to be rolled forward through what it removes",
        "store/retention.py",
        "        _keep_sums(connection, low, goal)\n",
        "",
        ("tests/store/test_sums.py::test_compaction_takes_nothing_that_the_sums_still_need",),
    ),
    Mutant(
        "a scan of pages adds up the last page only",
        "access.py",
        "snapshot.page(self.table, start, stop, reverse, size, tally)",
        "snapshot.page(self.table, start, stop, reverse, size)",
        ("tests/store/test_hidden_by_damage.py::test_a_scan_of_several_pages_is_compared_as_a_whole",),
    ),
    Mutant(
        "a reader remembers what an earlier state of the file had to have",
        "store/engine.py",
        "            reader.known = {}\n",
        "",
        ("tests/store/test_sums.py::test_a_reader_does_not_compare_with_an_earlier_state",),
    ),
    Mutant(
        "only the number of documents is compared",
        "store/sums.py",
        "(total - written[1]) & LOW == 0",
        "True",
        (
            "tests/store/test_hidden_by_damage.py::test_a_page_of_heads_from_before_is_noticed_although_the_number_is_right",
        ),
    ),
    # ----- who is in a transaction
    Mutant(
        "another task of the thread is in the transaction",
        "store/flows.py",
        "        elif self._task() is not task:\n            return False\n",
        "",
        ("tests/surface/test_transaction_owners.py::TestAnotherTask::test_it_is_refused_and_not_taken_in",),
    ),
    Mutant(
        "a transaction is committed by another task than the one that began it",
        "store/blocks.py",
        "        if not self.flow.is_current():\n            raise TransactionRolledBack(",
        "        if False:\n            raise TransactionRolledBack(",
        (
            "tests/surface/test_transaction_owners.py::TestSchedules::test_a_fixture_that_begins_in_one_task_and_ends_in_another",
        ),
    ),
    Mutant(
        "another task's write is taken back with a part that fails",
        "store/blocks.py",
        "            if not flow.is_same(owner):",
        "            if False:",
        (
            "tests/surface/test_transaction_owners.py::TestHandingOver::test_a_part_that_can_fail_alone_is_one_tasks",
        ),
    ),
    Mutant(
        "a task that does not know that its transaction has ended writes commits of its own",
        "store/writer.py",
        "                if member.flow.is_current():\n",
        "                if False:\n",
        (
            "tests/surface/test_transaction_owners.py::TestHandingOver::test_it_is_not_committed_while_a_task_shares_it",
        ),
    ),
    # ----- the write buffer
    Mutant(
        "what is buffered is forgotten when the transaction ends",
        "store/writer.py",
        "                    self.flush(transaction, waiter.operation)\n",
        "",
        ("tests/store/test_write_buffer.py::test_no_more_than_so_many_wait",),
    ),
    Mutant(
        "a read inside a transaction does not see what is buffered",
        "store/transaction.py",
        "        self.flush()\n        return Snapshot(",
        "        return Snapshot(",
        ("tests/store/test_write_buffer.py::test_a_snapshot_of_a_transaction_sees_what_is_buffered",),
    ),
    Mutant(
        "a read by key inside a transaction does not see what is buffered",
        "store/transaction.py",
        "        if latest is not None:\n            seq, body = latest\n",
        "        if False:\n            seq, body = latest\n",
        ("tests/store/test_write_buffer.py::test_writes_wait_for_the_end_of_the_transaction",),
    ),
    Mutant(
        "a tombstone that is still buffered is not seen",
        "store/transaction.py",
        "            return latest[0], True",
        "            return None, True",
        ("tests/store/test_write_buffer.py::test_a_key_may_come_and_go_while_it_waits",),
    ),
    Mutant(
        "a tombstone that is still buffered is taken for one that is never written",
        "store/transaction.py",
        "            # one flush the key's first entry says what the file has.\n            return latest[0], True",
        "            # one flush the key's first entry says what the file has.\n            return latest[0], False",
        (
            "tests/store/test_write_buffer.py::"
            "test_a_key_that_comes_back_after_the_buffer_was_flushed_between_has_no_tombstone",
        ),
    ),
    Mutant(
        "a key that comes back keeps its tombstone",
        "store/transaction.py",
        "            if had_tombstone:\n",
        "            if False:\n",
        ("tests/store/test_write_buffer.py::test_a_key_may_come_and_go_while_it_waits",),
    ),
    Mutant(
        "what was half flushed when Ctrl-C struck is flushed beside itself",
        "store/transaction.py",
        "        if self.torn_until:",
        "        if False:",
        ("tests/store/test_write_buffer.py::test_what_ctrl_c_tears_is_written_again",),
    ),
    Mutant(
        "what was half flushed when Ctrl-C struck is flushed again with what came later",
        "store/transaction.py",
        ("                self._write_out(self.torn_until, SET_HEAD)"),
        ("                self._write_out(self.count, SET_HEAD)"),
        ("tests/store/test_write_buffer.py::test_what_ctrl_c_tears_is_written_again",),
    ),
    Mutant(
        "a transaction goes on when what was buffered could not be written",
        "store/writer.py",
        "            transaction.ruin = translated\n            raise translated from error",
        "            raise translated from error",
        ("tests/store/test_write_buffer.py::test_an_error_of_the_file_fails_the_whole_transaction",),
    ),
    Mutant(
        "an index entry that comes and goes while it waits stays",
        "store/transaction.py",
        "                    if entry in here:",
        "                    if False:",
        (
            "tests/store/test_write_buffer.py::test_index_entries_that_go_and_come_while_they_wait_are_as_they_should_be",
        ),
    ),
    Mutant(
        "the last of many entries are left out",
        "store/log.py",
        "    if count % APPENDED:",
        "    if count < APPENDED:",
        ("tests/store/test_bulk.py::test_many_are_stored_as_one_by_one",),
    ),
    Mutant(
        "after a rollback the writer believes what it remembered",
        "store/writer.py",
        (
            "            return\n"
            "        self.memory.forget()\n"
            "        try:\n"
            "            if connection.in_transaction:"
        ),
        ("            return\n        try:\n            if connection.in_transaction:"),
        (
            "tests/surface/test_tables.py::TestTransactions::test_what_is_taken_back_leaves_nothing_in_the_writers_memory",
        ),
    ),
    Mutant(
        "the file is migrated outside of a transaction",
        "store/schema.py",
        (
            '    connection.execute("BEGIN IMMEDIATE")\n'
            "    try:\n"
            "        # Looked at again under the lock: another process may have made the tables since.\n"
            "        version = identify(connection, path)\n"
            "        if version < FORMAT_VERSION:\n"
            "            if version:\n"
            "                # Imported here because most files have today's format.\n"
            "                from reactdb.store import migrations\n"
            "\n"
            "                migrations.apply(connection, STEPS)\n"
            "            else:\n"
            "                make(connection)\n"
            '            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")\n'
            '            connection.execute(f"PRAGMA user_version={FORMAT_VERSION}")\n'
            "            name_log(connection)\n"
            '        connection.execute("COMMIT")\n'
        ),
        (
            "    try:\n"
            "        # Looked at again under the lock: another process may have made the tables since.\n"
            "        version = identify(connection, path)\n"
            "        if version < FORMAT_VERSION:\n"
            "            if version:\n"
            "                # Imported here because most files have today's format.\n"
            "                from reactdb.store import migrations\n"
            "\n"
            "                migrations.apply(connection, STEPS)\n"
            "            else:\n"
            "                make(connection)\n"
            '            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")\n'
            '            connection.execute(f"PRAGMA user_version={FORMAT_VERSION}")\n'
            "        if connection.in_transaction:\n"
            '            connection.execute("COMMIT")\n'
        ),
        ("tests/store/test_format.py::test_a_migration_that_fails_anywhere_leaves_the_old_format_whole",),
    ),
    # ----- the log
    Mutant(
        "an entry forgets which one it supersedes",
        "store/transaction.py",
        "            prev, old_body = old\n",
        "            prev, old_body = None, old[1]\n",
        ("tests/surface/test_tables.py::TestLogAndTime::test_history_goes_through_a_deletion",),
    ),
    Mutant(
        "compaction does not raise the low-water mark",
        "store/retention.py",
        'set_fact(connection, "low_water",',
        'set_fact(connection, "low_water_",',
        ("tests/surface/test_tables.py::TestCompaction",),
    ),
    Mutant(
        "history may take any room",
        "store/room.py",
        "return max(low, self._target) if used > LEAST_BYTES else low",
        "return low",
        ("tests/store/test_retention_auto.py::TestHowMuch",),
    ),
    Mutant(
        "dropped tables take no room",
        "store/room.py",
        "+ sum(size for _, size in self.dropped)",
        "",
        ("tests/store/test_retention_auto.py::TestTheEstimate::test_the_lowest_mark_without_so_many_bytes",),
    ),
    Mutant(
        "a large commit removes what it owes in one turn's step alone",
        "store/retention.py",
        "            owed = 2 * written - step.changes\n",
        "",
        ("tests/store/test_store_faults.py::TestUpkeep::test_retention_keeps_up_with_big_commits",),
    ),
    Mutant(
        "a dropped table goes by a fixed number of rows a look",
        "store/retention.py",
        "            owed = max(owed, 2 * rows - step.table_rows)\n",
        "            pass\n",
        ("tests/store/test_retention_keeps_up.py",),
    ),
    Mutant(
        "a short step waits for as many changes as a long one",
        "store/retention.py",
        "min(RETAIN_EVERY, max(1, step.changes // 2))",
        "RETAIN_EVERY",
        ("tests/store/test_retention_keeps_up.py::test_removal_keeps_up_with_large_documents",),
    ),
    Mutant(
        "after a wrong clock the time of the log stands still",
        "store/clock.py",
        "shown_ms + max(0, now_ms - then_ms) if shown_ms >= newest_ms else newest_ms",
        "newest_ms",
        ("tests/store/test_wrong_clocks.py",),
    ),
    Mutant(
        "after a wrong clock what was written before it is old at once",
        "store/retention.py",
        "        if after_jump > before_jump:\n            found",
        "        if True:\n            found",
        ("tests/store/test_wrong_clocks.py",),
    ),
    Mutant(
        "the traceback of a cancelled task keeps its subscription",
        "feeds/feed.py",
        "keeps the error.\n            del self\n",
        "keeps the error.\n",
        ("tests/feeds/test_feeds_delivery.py",),
    ),
    Mutant(
        "what the file says is kept is not asked",
        "store/retention.py",
        "                retention = named_retention(writer.connection)\n",
        "                retention = AUTO\n",
        ("tests/store/test_retention_auto.py::TestTheFileSays",),
    ),
    Mutant(
        "the clock may go back along the log",
        "store/writer.py",
        "        if now < self.last_time:",
        "        if False:",
        (
            "tests/surface/test_tables.py::TestLogAndTime::test_times_in_the_log_never_go_back_though_the_clock_does",
        ),
    ),
    Mutant(
        "a document is read with no look at its checksum",
        "store/snapshot.py",
        "    if not is_whole(table.id, key, body, checksum):",
        "    if False:",
        (
            "tests/store/test_fuzzed_files.py::test_every_way_to_read_a_changed_document_says_which_it_is",
            "tests/store/test_fuzzed_files.py::test_a_write_that_meets_damage_is_the_last",
        ),
    ),
    Mutant(
        "documents are read with no look at their checksums",
        "store/snapshot.py",
        "        if not are_whole(table.id, keys, bodies, checksums):",
        "        if False:",
        ("tests/store/test_fuzzed_files.py::test_every_way_to_read_a_changed_document_says_which_it_is",),
    ),
    Mutant(
        "the log is read with no look at its checksums",
        "store/log.py",
        "    if not are_entries_whole(columns):",
        "    if False:",
        ("tests/store/test_fuzzed_files.py::test_every_way_to_read_a_changed_document_says_which_it_is",),
    ),
    Mutant(
        "documents that are decoded together may take some of each other's bytes",
        "values/decoding.py",
        "    if found[1::2].count(_FENCE_NUMBER) != len(bodies) - 1:",
        "    if False:",
        ("tests/values/test_decoding.py::test_bytes_that_are_no_document_are_told_among_others",),
    ),
    Mutant(
        "an index whose operation is not registered has no entries, instead of keeping its table from being written",
        "store/catalogue.py",
        "        except (QueryError, InvalidKey):",
        "        except (QueryError, InvalidKey, IncompatibleFormat):",
        ("tests/store/test_unregistered.py",),
    ),
    Mutant(
        "an index whose operation is not registered is read",
        "access.py",
        "    index.check()\n",
        "",
        ("tests/store/test_unregistered.py",),
    ),
    Mutant(
        "a value of an unknown type is compared as if its bytes were its order",
        "values/extension_types.py",
        "        if not is_extension(self.code):",
        "        if False:",
        ("tests/values/test_value_types.py",),
    ),
    Mutant(
        "a registered type takes the number of another one",
        "values/value_types.py",
        " or known.code == wanted.code",
        "",
        ("tests/values/test_value_types.py",),
    ),
    Mutant(
        "a registered value is read without a look whether its bytes are its own",
        "values/value_types.py",
        "        if not is_own:",
        "        if False:",
        ("tests/laws/test_registered_laws.py::test_bytes_are_either_a_values_own_or_damage",),
    ),
    Mutant(
        "the order of fields is not seen where the policy asks for it",
        "writing.py",
        "        elif asked is None and self.policy.is_same(old_body, body):",
        "        elif asked is None and codec.same_bytes(old_body, body):",
        ("tests/surface/test_session.py",),
    ),
    Mutant(
        "who has looked at another file than the one that was opened reads it",
        "store/engine.py",
        " and self.guard.identity == probe.identity:",
        ":",
        (
            "tests/store/test_storage_moved.py::test_who_looked_at_another_file_before_it_was_opened_does_not_read",
        ),
    ),
    Mutant(
        "the lists of tables and indexes are read with no look at their checksum",
        "store/catalogue.py",
        "        check_catalogue(connection, rows)",
        "        pass",
        ("tests/store/test_fuzzed_files.py::test_a_change_to_the_lists_of_tables_indexes_and_facts_is_told",),
    ),
    # ----- indexes
    Mutant(
        "an index is not maintained by updates",
        "store/transaction.py",
        "            moves, places = index_moves(table, key, old_body, body, has_places=self.changes is not None)",
        "            moves, places = None, {}",
        ("tests/surface/test_tables.py::TestIndexes::test_updates_and_deletes_move_the_entries",),
    ),
    Mutant(
        "an index keeps the entry of the value that was",
        "store/transaction.py",
        "            found = self.cursor.executemany(DROP_ENTRY, sorted(dropped)).rowcount\n",
        "            found = len(dropped)\n",
        ("tests/surface/test_tables.py::TestIndexes::test_updates_and_deletes_move_the_entries",),
    ),
    Mutant(
        "a stream that has given its events never tells how far it has read",
        "dialects/mongodb/streams.py",
        "self._ready or self._changes or self._position > self._given_seq",
        "self._ready or self._changes",
        (
            "tests/dialects/mongodb/test_mongodb_streams.py::test_a_batch_that_was_cut_is_followed_by_the_token_of_all_that_was_read",
        ),
    ),
    Mutant(
        "an index takes values for the same that Python takes for equal",
        "store/catalogue.py",
        "type(one) is type(other) in _EXACT and one == other",
        "one == other",
        ("tests/store/test_index_moves.py::test_the_indexes_have_what_the_documents_say",),
    ),
    # ----- the file, and its locks
    Mutant(
        "a commit does not look whether the file is still the file",
        "store/writer.py",
        "        wal_bytes = self.check_same_file()",
        "        wal_bytes = 0",
        ("tests/store/test_storage_moved.py::test_a_write_is_refused",),
    ),
    Mutant(
        "nobody looks whether the file is still the file",
        "store/file/guard.py",
        "        if (file.st_dev, file.st_ino) != self.identity:",
        "        if False:",
        ("tests/store/test_storage_moved.py::test_a_write_is_refused",),
    ),
    Mutant(
        "nobody looks whether the write-ahead log is still there",
        "store/file/guard.py",
        "            if self._wal is not None:",
        "            if False:",
        ("tests/store/test_storage_moved.py::test_a_write_is_refused",),
    ),
    Mutant(
        "nobody looks whether the write-ahead log was cut off",
        "store/file/guard.py",
        "                if lseek(self._log, 0, SEEK_END) < state.bytes:",
        "                if False:",
        ("tests/store/test_stray_logs.py::test_nothing_is_acknowledged_behind_a_log_that_was_cut_off",),
    ),
    Mutant(
        "a log that others begin anew names no database",
        "store/file/guard.py",
        '                    return None if copied == frames else salts, ""',
        '                    return salts, ""',
        (
            "tests/store/test_stray_logs.py::test_the_first_commit_of_a_log_that_was_begun_anew_names_its_database",
        ),
    ),
    Mutant(
        "nobody reads whose log it is before SQLite does",
        "store/file/opening.py",
        "    named = check_log_is_own(path)",
        "    named = None",
        (
            "tests/store/test_stray_logs.py::test_a_log_that_was_begun_anew_is_refused_beside_another_database",
        ),
    ),
    Mutant(
        "who notices that the file was moved tells no feed",
        "store/engine.py",
        "            self.publisher.note(StorageMoved(message))",
        "            pass",
        ("tests/feeds/test_file_errors_end_feeds.py::test_a_coroutine_hears_it_too",),
    ),
    Mutant(
        "a feed that was told of an error of the file completes when the database is closed",
        "store/engine.py",
        "        self.publisher.end_feeds()\n        listener",
        "        listener",
        (
            "tests/feeds/test_file_errors_end_feeds.py::test_a_handle_that_only_reads_ends_its_feeds_when_it_is_closed_after_the_file_was_moved",
        ),
    ),
    Mutant(
        "a child of fork() goes on with what it has inherited",
        "store/file/fork.py",
        "        engine.abandon()",
        "        pass",
        (
            "tests/store/test_store_faults.py::TestFork::test_a_fork_inside_a_transaction_leaves_it_to_the_parent",
        ),
    ),
    Mutant(
        "reads that begin while a fork waits are let through",
        "store/engine.py",
        "        if not readers.is_resting:",
        "        if True:",
        ("tests/store/test_processes.py::TestReaders::test_nobody_takes_a_reader_while_all_of_them_rest",),
    ),
    Mutant(
        "a poll that failed is not made up for",
        "store/follow.py",
        "            self._is_behind |= engine.has_news()",
        "            self._is_behind = engine.has_news()",
        ("tests/store/test_follow.py::test_a_poll_that_failed_is_made_up_for_by_the_next",),
    ),
    Mutant(
        "nobody looks whether locks have an effect",
        "store/file/opening.py",
        "    locks.make_sure_of_locks(path)",
        "    pass",
        (
            "tests/store/test_guards.py::TestLocksWithoutEffect::test_a_file_whose_locks_have_no_effect_is_refused",
        ),
    ),
    Mutant(
        "a network file system is taken for a disk",
        "store/file/locks.py",
        "    if is_network(kind):",
        "    if False:",
        (
            "tests/store/test_guards.py::TestNetworkFileSystems::test_a_file_on_one_is_refused_unless_the_caller_insists",
        ),
    ),
    # ----- telling
    Mutant(
        "feeds are told before the commit",
        "store/writer.py",
        ("            first.is_committing = True\n            try:\n"),
        (
            "            first.is_committing = True\n"
            "            self.engine.publisher.publish(\n"
            "                transactions, max(self.last_seq, *(t.first + t.count - 1 for t in transactions))\n"
            "            )\n"
            "            try:\n"
        ),
        ("tests/feeds/test_feeds_delivery.py::test_a_commit_that_fails_is_told_to_nobody",),
    ),
    Mutant(
        "a feed that joins misses what is committed meanwhile",
        "feeds/dispatch.py",
        "                if node.seq >= seq or",
        "                if node.seq + 1 >= seq or",
        (
            "tests/feeds/test_feeds_delivery.py::test_subscribing_among_writers_loses_and_doubles_nothing",
            "tests/feeds/test_feeds_routing.py",
        ),
    ),
    Mutant(
        "a feed is told once more what its snapshot had",
        "feeds/dispatch.py",
        "                if node.seq >= seq or",
        "                if False or",
        ("tests/laws/test_laws_feeds_threads.py::test_a_commit_that_is_not_published_yet_is_told_once",),
    ),
    Mutant(
        "a queue forgets to count what it dropped",
        "feeds/queues.py",
        ("                return\n            self.dropped += 1"),
        "                return",
        ("tests/feeds/test_feeds_resume.py::test_what_comes_while_a_feed_begins_is_bounded_too",),
    ),
    Mutant(
        "a queue takes one more than it may",
        "feeds/queues.py",
        "        while len(queue) > self._limit:",
        "        while len(queue) > self._limit + 1:",
        ("tests/feeds/test_feeds_resume.py::test_what_comes_while_a_feed_begins_is_bounded_too",),
    ),
    Mutant(
        "a shared queue keeps one more than it may for those who are called",
        "feeds/broadcast.py",
        "        floor = tail.number - limit\n",
        "        floor = tail.number - limit - 1\n",
        ("tests/feeds/test_feeds_shared.py::test_subscribers_hear_what_they_would_with_queues_of_their_own",),
    ),
    Mutant(
        "after a document that cannot be decoded, those who were to hear it hear what follows",
        "feeds/broadcast.py",
        "                self.strike(member)\n                member.break_off(as_end(error))",
        "                member.break_off(as_end(error))",
        ("tests/feeds/test_feeds_short_way.py::test_what_is_read_before_a_document_that_cannot_be_is_told",),
    ),
    Mutant(
        "what waits keeps the documents that the writer has handed on",
        "feeds/hub.py",
        "                in_hand.popleft().let_go()",
        "                in_hand.popleft()",
        ("tests/feeds/test_feeds_short_way.py::test_what_was_told_to_one_waits_for_another_as_bytes",),
    ),
    Mutant(
        "a transaction that goes on keeps the documents of all its changes",
        "store/transaction.py",
        "            if documents is not None and self.count < MOST_IN_HAND:",
        "            if documents is not None:",
        ("tests/feeds/test_feeds_short_way.py::test_a_transaction_that_goes_on_holds_few_documents",),
    ),
    Mutant(
        "a function that updates gets the document that the feeds are handed",
        "writing.py",
        "        given = write.call(patch, codec.decode(body))",
        "        given = write.call(patch, document)",
        ("tests/feeds/test_feeds_short_way.py::test_a_function_that_updates_gets_a_document_of_its_own",),
    ),
    Mutant(
        "a squashing queue forgets what was last told",
        "feeds/queues.py",
        "            pending[identity] = (entry[0], delta)",
        "            pending[identity] = (delta, delta)",
        (
            "tests/feeds/test_feeds_complaints.py::test_the_old_value_of_a_squashed_feed_is_what_was_last_told",
        ),
    ),
    Mutant(
        "a squashing queue forgets to count what it dropped",
        "feeds/queues.py",
        ("                del pending[next(iter(pending))]\n                self.dropped += 1"),
        "                del pending[next(iter(pending))]",
        (
            "tests/feeds/test_feeds_resume.py::test_documents_that_a_squashing_queue_has_no_room_for_are_counted_too",
        ),
    ),
    Mutant(
        "a window's route stays where it was, when all is held",
        "feeds/views/window.py",
        "            moving_range.move(source.start, source.stop)",
        "            pass",
        (
            "tests/feeds/test_feeds_routing.py::test_a_window_that_holds_all_that_is_left_hears_of_whatever_comes",
        ),
    ),
    Mutant(
        "a window does not look further after it ran short",
        "feeds/views/window.py",
        "            moving_range.move(*source.values_until(self.bound, key))",
        (
            "            if (moving_range.start, moving_range.stop) == (source.start, source.stop):\n"
            "                moving_range.move(*source.values_until(self.bound, key))"
        ),
        ("tests/feeds/test_feeds_routing.py::test_a_window_that_runs_short_looks_further_afterwards",),
    ),
    Mutant(
        "a route that moved is not found where it is",
        "feeds/views/base.py",
        ("            if self.on_move is not None:\n                self.on_move()"),
        "            pass",
        ("tests/feeds/test_feeds_routing.py",),
    ),
    Mutant(
        "a filter's feed is not asked about what a document was",
        "feeds/views/axes.py",
        "        return (before,) if after is None else (before, after)",
        "        return () if after is None else (after,)",
        (
            "tests/feeds/test_feeds_complaints.py::test_a_document_that_leaves_one_filter_and_enters_another_is_told_to_both",
        ),
    ),
    Mutant(
        "a subscriber that raises stops those who are told with it",
        "feeds/broadcast.py",
        "                    except BaseException as error:\n                        recipients, reached = self",
        "                    except GeneratorExit as error:\n                        recipients, reached = self",
        (
            "tests/feeds/test_feeds_shared.py::test_who_raises_is_taken_out_and_the_others_are_told",
            "tests/feeds/test_feeds_delivery.py::test_the_only_subscriber_of_a_view_that_raises_ends_its_own_feed_only",
        ),
    ),
    Mutant(
        "what is no Exception goes on from a subscriber to the writer",
        "feeds/broadcast.py",
        "                    except BaseException as error:\n                        recipients, reached = self",
        "                    except Exception as error:\n                        recipients, reached = self",
        ("tests/feeds/test_feeds_user_code.py::test_what_a_subscriber_raises_stays_with_it",),
    ),
    Mutant(
        "what is no Exception goes on from a predicate to the writer",
        "feeds/dispatch.py",
        "                if self._current is None or isinstance(error, INTERRUPTS):\n",
        "                if True:\n",
        ("tests/feeds/test_feeds_user_code.py::test_what_a_subscriber_raises_stays_with_it",),
    ),
    Mutant(
        "net differences of a list come in the order of their places",
        "feeds/edits.py",
        "sorted(moves, key=self._moment_of_move)",
        "moves",
        (
            "tests/feeds/test_feeds_edits.py::test_net_differences_of_one_commit_come_in_the_order_in_which_it_wrote",
        ),
    ),
    Mutant(
        "who is disposed of while others are told is told too",
        "feeds/broadcast.py",
        "            self.calls[index] = ignore",
        "            pass",
        ("tests/feeds/test_feeds_shared.py::test_who_is_disposed_while_others_are_told_hears_nothing_more",),
    ),
    Mutant(
        "all who are told together get one event",
        "feeds/broadcast.py",
        "                            call(copy())",
        "                            call(event)",
        ("tests/feeds/test_feeds_shared.py::test_each_gets_an_event_of_its_own",),
    ),
    Mutant(
        "a reader of a shared queue does not hear what it missed",
        "feeds/broadcast.py",
        "        self._dropped += number - self._number",
        "        pass",
        ("tests/feeds/test_feeds_shared.py::test_subscribers_hear_what_they_would_with_queues_of_their_own",),
    ),
    Mutant(
        "a reader that sleeps is not woken",
        "feeds/broadcast.py",
        "                member.wake()",
        "                pass",
        ("tests/feeds/test_feeds_shared.py::test_readers_who_sleep_are_woken_by_one_change",),
    ),
    # ----- resuming
    Mutant(
        "every process continues the epoch that it finds",
        "store/writer.py",
        "            if not self.has_own_epoch and not engine.is_memory:",
        "            if False:",
        (
            "tests/feeds/test_feeds_resume.py::test_a_position_of_a_future_that_was_lost",
            "tests/store/test_store_faults.py::TestTokens",
        ),
    ),
    Mutant(
        "after a commit that may be there or not, the epoch goes on",
        "store/writer.py",
        "            self.has_own_epoch = False\n",
        "",
        (
            "tests/crash/test_power_cuts.py::TestFlushes::test_after_a_commit_that_may_be_there_or_not_another_epoch_begins",
        ),
    ),
    # ----- the server
    Mutant(
        "a wrong password is as good as the right one",
        "servers/scram.py",
        "        if not (is_right and len(",
        "        if not (len(",
        (
            "tests/surface/test_security.py::test_a_stranger_and_a_wrong_password_are_told_the_same_after_the_same_work",
        ),
    ),
    Mutant(
        "a user who is not known may come in with the password",
        "servers/users.py",
        "        return self._users.get(place, stranger)",
        "        return self._users.get(place, next(iter(self._users.values())))",
        (
            "tests/surface/test_security.py::test_a_stranger_who_knows_the_password_and_the_right_salt_stays_one",
        ),
    ),
    # ----- the ground of the servers
    Mutant(
        "what comes with the end of a TLS handshake is thrown away",
        "servers/connection.py",
        "            self._early += data\n",
        "            self._early += data[:0]\n",
        (
            "tests/servers/test_connection.py::test_what_comes_in_one_packet_with_the_end_of_the_tls_handshake_is_heard",
        ),
    ),
    Mutant(
        "a client that does not read is written to without end",
        "servers/connection.py",
        "        return self._job is None and not self._is_writing_paused and",
        "        return self._job is None and",
        ("tests/servers/test_connection.py::test_an_answer_in_pieces_is_made_as_the_client_reads_it",),
    ),
    Mutant(
        "a client may send ahead without end",
        "servers/connection.py",
        "        if is_ahead and not",
        "        if False and is_ahead and not",
        ("tests/servers/test_connection.py::test_what_a_client_sends_ahead_does_not_pile_up",),
    ),
    Mutant(
        "a client that sends much ahead has the loop for itself",
        "servers/connection.py",
        "            for _ in range(REQUESTS_IN_A_ROW):",
        "            for _ in range(REQUESTS_IN_A_ROW * 1_000):",
        (
            "tests/servers/test_connection.py::test_a_client_that_sends_much_ahead_does_not_keep_the_others_waiting",
        ),
    ),
    Mutant(
        "a request goes on when its client has gone",
        "servers/connection.py",
        "        self._conversation.cancel()\n        if self._job is None:",
        "        if self._job is None:",
        ("tests/servers/test_connection.py::test_a_client_that_goes_in_the_middle_of_a_request_cancels_it",),
    ),
    Mutant(
        "a server that stops throws away what it has received",
        "servers/connection.py",
        "        self._pause_reading()\n        self.advance()",
        "        self._pause_reading()\n        self.abort()",
        ("tests/servers/test_connection.py::test_a_server_that_stops_answers_what_it_has_received",),
    ),
    Mutant(
        "an error that ends a connection is lost while the client sends",
        "servers/connection.py",
        "        if self._is_stopping or not self._transport.can_write_eof():",
        "        if True:",
        (
            "tests/servers/test_connection.py::test_a_message_above_the_limit_is_answered_while_the_client_still_sends",
        ),
    ),
    Mutant(
        "a request that came in time is late, because nobody has looked at it",
        "servers/connection.py",
        "        if self._needs_bytes:\n            self._transport.abort()",
        "        self._transport.abort()",
        (
            "tests/servers/test_connection.py::test_a_request_that_has_come_while_its_client_read_nothing_came_in_time",
        ),
    ),
    Mutant(
        "a moment that was put off comes when it was to come first",
        "servers/connection.py",
        "        if left_s > 0:\n",
        "        if False:\n",
        ("tests/servers/test_waiting.py::TestMoments::test_a_moment_that_was_put_off_comes_at_its_time",),
    ),
    Mutant(
        "who is woken by what was put off is told by another turn of the loop",
        "servers/workers.py",
        "        while self._put_off:\n",
        "        self._busy_thread = None\n        while self._put_off:\n",
        ("tests/servers/test_waiting.py::TestWhatIsPutOff",),
    ),
    Mutant(
        "a query may fill any amount of memory",
        "budget.py",
        "        if self._held_bytes > most_bytes:",
        "        if grown > most_bytes:",
        (
            "tests/dialects/rethinkdb/test_rethinkdb_memory.py::test_what_one_query_fills_is_not_counted_for_another",
        ),
    ),
    Mutant(
        "a right password makes any password right",
        "servers/users.py",
        '        return hmac.compare_digest(self._verified.get(self._place(name), b""), self._kept(password))',
        "        return self._place(name) in self._verified",
        ("tests/servers/test_users.py::test_a_right_password_is_hashed_once",),
    ),
    Mutant(
        "of strangers the newest has to leave",
        "servers/places.py",
        "        one = next(iter(some))\n",
        "        one = next(reversed(some))\n",
        (
            "tests/servers/test_strangers.py::test_of_strangers_the_one_leaves_that_has_been_silent_for_the_longest_time",
        ),
    ),
    Mutant(
        "a driver that has said hello counts as known",
        "servers/mongodb/conversation.py",
        "        self.is_admitted = not self._is_stranger\n",
        "        self.is_admitted = True\n",
        ("tests/servers/test_strangers.py::test_whoever_has_only_said_hello_is_a_stranger",),
    ),
    Mutant(
        "a later request may take any time to come",
        "servers/http/connections.py",
        "        elif self._deadline is None:\n",
        "        elif False:\n",
        (
            "tests/servers/http/test_connections.py::test_half_a_head_of_a_later_request_does_not_hold_a_connection",
        ),
    ),
    # ----- Spark
    Mutant(
        "with a schema of the user's, each reader of a DataFrame pins a state of its own",
        "spark/source.py",
        "            self.pins()\n        except",
        "            pass\n        except",
        (
            "tests/spark/test_one_state.py::test_every_reader_of_one_pickled_source_reads_the_state_in_which_it_was_pickled",
        ),
    ),
    Mutant(
        "a page of documents is as many rows as it may have, however large they are",
        "store/log.py",
        "        if size >= most_bytes:",
        "        if size < 0:",
        ("tests/store/test_pages_in_bulk.py::test_no_row_is_fetched_after_those_that_fill_a_page",),
    ),
    Mutant(
        "where one document of a page does not fit, all of them are looked at one by one",
        "spark/documents.py",
        "        elif len(part) <= FEW:",
        "        elif part:",
        ("tests/spark/test_misfits.py::test_one_document_in_a_page_that_does_not_fit_is_looked_at_alone",),
    ),
    Mutant(
        "of a name that is twice in a document of JSON, the last is stored without a word",
        "spark/whole_documents.py",
        "if len(found) != len(pairs):",
        "if not found and pairs:",
        ("tests/spark/test_whole_documents.py::test_what_is_no_document_is_refused_in_one_sentence",),
    ),
    Mutant(
        "a field that an inferred schema does not have vanishes without a word",
        "spark/documents.py",
        "forbid_unknown_fields=is_complete",
        "forbid_unknown_fields=False",
        (
            "tests/spark/test_spark_columns.py::test_columns_straight_from_bytes_are_those_by_way_of_documents",
        ),
    ),
    Mutant(
        "a writer queues in one step and looks in another",
        "store/write_queue.py",
        (
            "        with self._mutex:\n"
            "            # To queue and to look who is first is one step: in between, the work could be done, "
            "and the waiter be gone.\n"
            "            self._queue.append(waiter)\n"
        ),
        "        self._queue.append(waiter)\n        with self._mutex:\n",
        SCHEDULES,
    ),
    Mutant(
        "a feed forgets who came while it was telling",
        "feeds/consumers.py",
        "                    wait_s = self.wait_s\n                    if wait_s:\n",
        "                    wait_s = self.wait_s\n                    self._is_asked = False\n                    if wait_s:\n",
        SCHEDULES,
    ),
    Mutant(
        "the dispatcher does not look at its line again after giving the turn back",
        "feeds/dispatch.py",
        "        while line:\n            if turn._is_owned()",
        "        if line:\n            if turn._is_owned()",
        (
            "tests/feeds/test_feeds_delivery.py"
            "::test_what_becomes_ready_while_the_turn_is_given_back_is_delivered_at_once",
        ),
    ),
    Mutant(
        "a feed that is behind goes live though another thread has ended it",
        "feeds/subscription.py",
        "            if to not in MOVES[self.state]:",
        '            if self.state == "closed":',
        ("tests/feeds/test_feeds_subscription.py",),
    ),
    Mutant(
        "a batch is nowhere while it is taken from the queue",
        "feeds/queues.py",
        "        self.batch = deque()\n",
        "",
        SCHEDULES,
    ),
    Mutant(
        "a cursor looks before it remembers which signal it has heard",
        "feeds/consumers.py",
        "            signal = self._signal\n            event = self.take()\n",
        "            event = self.take()\n            signal = self._signal\n",
        SCHEDULES,
    ),
    # ----- durable consumers
    Mutant(
        "an acknowledgement of a worker that was fenced off is believed",
        "store/leases.py",
        "if lease is None or (lease.fence, lease.holder, lease.seq) != (held.fence, held.holder, held.seq):",
        "if lease is None or lease.seq != held.seq:",
        ("tests/surface/test_consumers.py::TestLeases::test_a_worker_that_hangs_is_fenced_off",),
    ),
    Mutant(
        "a new holder gets the fencing number of the last",
        "store/leases.py",
        "            fence=self.fence + 1,\n            holder=worker,",
        "            fence=self.fence,\n            holder=worker,",
        ("tests/surface/test_consumers.py::TestLeases::test_a_worker_that_hangs_is_fenced_off",),
    ),
    Mutant(
        "a position is moved by what was read before somebody moved it",
        "store/leases.py",
        "(lease.fence, lease.holder, lease.seq) != (held.fence, held.holder, held.seq)",
        "(lease.fence, lease.holder) != (held.fence, held.holder)",
        (
            "tests/surface/test_consumers.py::TestLeases::test_a_position_that_somebody_has_moved_is_not_moved_by_what_was_read_before",
        ),
    ),
    Mutant(
        "a consumer that is reset stays with who has it",
        "store/leases.py",
        "fence=self.fence + 1, holder=None, until_ms=0",
        "until_ms=0",
        (
            "tests/surface/test_consumers.py::TestMinding::test_a_consumer_that_is_reset_begins_there_and_whoever_has_it_has_it_no_more",
        ),
    ),
    Mutant(
        "a lease that was given up is for anybody",
        "store/leases.py",
        "not lease.waits_for(lease.wished_by, now_ms)",
        "True",
        (
            "tests/store/test_leases.py::test_a_wish_is_granted_by_giving_up_and_only_who_wished_may_take_it_for_a_while",
        ),
    ),
    Mutant(
        "a failure is forgotten where the lease is given up",
        "batches.py",
        "        self._settle()\n        self._mind()\n",
        "        self._mind()\n        self._settle()\n",
        (
            "tests/surface/test_consumers.py::TestFailures::test_a_failure_counts_also_where_another_worker_wishes_for_the_lease",
        ),
    ),
    Mutant(
        "a lease is never renewed",
        "store/leases.py",
        "            if lease.is_half_gone(now_ms):\n                yield lease.renewed(now_ms)\n",
        "",
        (
            "tests/surface/test_consumers.py::TestLeases::test_an_idle_worker_writes_once_in_half_the_time_of_its_lease",
        ),
    ),
    Mutant(
        "a wall clock that was set back keeps a lease",
        "batches.py",
        "            or 1_000 * (now_s - since_s) >= lease.lease_ms\n",
        "",
        (
            "tests/surface/test_consumers.py::TestLeases::test_a_wall_clock_that_was_set_back_does_not_keep_a_lease_for_ever",
        ),
    ),
    Mutant(
        "a worker that is closed meanwhile takes leases",
        "batches.py",
        "            return leases\n        changed = {",
        "            pass\n        changed = {",
        (
            "tests/surface/test_consumers.py::TestLeases::test_a_worker_that_is_closed_while_it_takes_leases_keeps_none",
        ),
    ),
    Mutant(
        "every other process is gone",
        "holders.py",
        "return not _is_running(process)",
        "return True",
        (
            "tests/surface/test_consumers.py::TestOtherProcesses::test_a_process_that_is_stopped_loses_its_lease_after_its_time",
        ),
    ),
    Mutant(
        "no other process is ever gone",
        "holders.py",
        "return not _is_running(process)",
        "return False",
        (
            "tests/surface/test_consumers.py::TestOtherProcesses::test_a_process_that_died_has_its_lease_no_more",
        ),
    ),
    Mutant(
        "an exception ends in the block of a batch also inside a transaction",
        "batches.py",
        "        return is_outside\n",
        "        return True\n",
        (
            "tests/surface/test_consumers.py::TestAcknowledging::test_an_exception_goes_on_inside_a_transaction_because_it_has_to_be_taken_back",
        ),
    ),
    Mutant(
        "an acknowledgement that was taken back counts",
        "batches.py",
        "if progress.lease.seq >= batch.until:",
        "if True:",
        (
            "tests/surface/test_consumers.py::TestAcknowledging::test_a_transaction_that_somebody_took_back_unseen_is_a_failure",
        ),
    ),
    Mutant(
        "a batch that failed comes again as long as it was",
        "batches.py",
        "progress.size = len(batch) // 2",
        "progress.size = len(batch)",
        (
            "tests/surface/test_consumers.py::TestFailures::test_a_batch_that_fails_comes_again_half_as_long_until_the_change_is_alone",
        ),
    ),
    Mutant(
        "trouble with the file counts as an attempt",
        "batches.py",
        "if isinstance(batch.error, StorageError):",
        "if batch.error is None:",
        (
            "tests/surface/test_consumers.py::TestFailures::test_trouble_with_a_file_and_ctrl_c_are_no_fault_of_a_change",
        ),
    ),
    Mutant(
        "a batch has more changes than asked for",
        "partitions.py",
        "        if len(waiting) <= most:\n",
        "        if True:\n",
        (
            "tests/surface/test_consumers.py::TestFailures::test_a_batch_that_fails_comes_again_half_as_long_until_the_change_is_alone",
        ),
    ),
    Mutant(
        "each partition reads the log for itself",
        "partitions.py",
        "            takers = [one for one in parts if one.failure is None and len(one.waiting) < enough]\n",
        "            takers = [part]\n",
        ("tests/surface/test_partitions.py::test_a_worker_reads_the_log_once_for_all_its_partitions",),
    ),
    Mutant(
        "a partition that has enough for a batch is passed by, and reads again",
        "partitions.py",
        "            enough = max(most, MOST_HELD // len(parts))\n",
        "            enough = most\n",
        ("tests/surface/test_partitions.py::test_a_worker_reads_the_log_once_for_all_its_partitions",),
    ),
    Mutant(
        "a partition is given once more what it has looked at",
        "partitions.py",
        "        return read_to is not None and change.seq > read_to\n",
        "        return read_to is not None\n",
        ("tests/surface/test_partitions.py::test_partitions_that_stand_apart_are_each_given_what_they_miss",),
    ),
    Mutant(
        "a partition that waits holds any number of changes, and the others none",
        "partitions.py",
        "                takers = [part]\n",
        "                return False\n",
        (
            "tests/surface/test_partitions.py::test_what_one_partition_cannot_get_rid_of_does_not_keep_the_others_from_going_on",
        ),
    ),
    Mutant(
        "what is set aside is set aside again, for ever",
        "set_aside.py",
        '    if change["table"] != DEAD_LETTERS:\n',
        "    if True:\n",
        (
            "tests/surface/test_consumers.py::TestFailures::test_a_consumer_of_what_is_set_aside_is_given_it_and_does_not_feed_on_its_own_failures",
        ),
    ),
    Mutant(
        "a consumer of all tables is given what was set aside",
        "partitions.py",
        "if self._is_of_all and change.table == DEAD_LETTERS:",
        "if False:",
        (
            "tests/surface/test_consumers.py::TestFailures::test_a_consumer_of_all_tables_that_fails_on_everything_does_not_feed_on_what_it_sets_aside",
        ),
    ),
    Mutant(
        "history that a consumer has still to read is removed",
        "store/retention.py",
        "        return target if behind is None else min(target, behind[0])",
        "        return target",
        (
            "tests/surface/test_consumers.py::TestHistory::test_history_that_a_consumer_has_still_to_read_stays",
        ),
    ),
    # ----- write hooks
    Mutant(
        "many documents at once go past the write hook",
        "store/transaction.py",
        "        if table.hook is not None or self._may_have_tombstones(table):",
        "        if self._may_have_tombstones(table):",
        ("tests/store/test_write_hooks.py::TestEveryWayOfWriting",),
    ),
    Mutant(
        "a write hook is told of a key that is taken",
        "store/transaction.py",
        "        if self.savepoint is None and table.hook is None:",
        "        if self.savepoint is None:",
        ("tests/store/test_write_hooks.py::TestWhatAHookIsTold::test_a_key_that_is_taken_is_not_told",),
    ),
    Mutant(
        "a write hook does not see the version that is still buffered",
        "store/transaction.py",
        "self._buffer[place][5] if place >= 0",
        "None if place >= 0",
        ("tests/store/test_write_hooks.py::TestWhatAHookIsTold",),
    ),
    Mutant(
        "a write hook forgets a document when it is deleted",
        "store/transaction.py",
        "        old_meta = None if prev is None else self.meta_of(prev)",
        "        old_meta = None if prev is None or old_body is None else self.meta_of(prev)",
        ("tests/store/test_write_hooks.py::TestWhatAHookIsTold",),
    ),
    Mutant(
        "what a write hook derived stays out of the entry of a document that was there",
        "store/transaction.py",
        "            meta, beside = derived\n",
        "            meta, beside = derived\n            meta = meta if old is None else None\n",
        ("tests/store/test_write_hooks.py::TestEveryWayOfWriting",),
    ),
    Mutant(
        "what a write hook writes beside is forgotten",
        "store/transaction.py",
        "        for other in beside:",
        "        for other in beside[1:]:",
        ("tests/store/test_write_hooks.py::TestWritingBeside",),
    ),
    # ----- blobs
    Mutant(
        "a blob that a document refers to is forgotten with another document",
        "store/blobs.py",
        "        if connection.execute(IS_REFERRED, (blob,)).fetchone() is None:",
        "        if True:",
        ("tests/store/test_blob_rows.py",),
    ),
    Mutant(
        "an update writes a blob that is not there",
        "store/transaction.py",
        "        if body is not None and may_have_blobs(body):",
        "        if old is None and body is not None and may_have_blobs(body):",
        ("tests/surface/test_blobs.py",),
    ),
    Mutant(
        "documents of a bulk refer to nothing",
        "store/transaction.py",
        "        add_references(self.connection, [(seqs[number], bodies[number]) for number in blobs])\n",
        "",
        ("tests/store/test_blob_rows.py",),
    ),
    Mutant(
        "compaction removes a blob that is being written",
        "store/blobs.py",
        "    bounds = (now - unused_ms + 1, now - max(unused_ms, GRACE_MS) + 1)",
        "    bounds = (now - unused_ms + 1, now - unused_ms + 1)",
        ("tests/surface/test_blobs.py",),
    ),
    Mutant(
        "a blob is found while its pieces are being removed",
        "store/blobs.py",
        "            _keep(connection, stored._replace(digest=None, time=0))\n        most -=",
        "            pass\n        most -=",
        ("tests/surface/test_blobs.py",),
    ),
    Mutant(
        "a put whose last commit has failed removes what is whole",
        "blobs.py",
        '            if write_rows(self._session, lambda rows, _: give_up_blob(rows, blob), "soft", "blobs.put"):',
        "            if True:",
        ("tests/store/test_blob_rows.py",),
    ),
    Mutant(
        "a piece is not compared with its checksum",
        "store/blobs.py",
        " or piece_checksum(piece, data) != checksum:",
        ":",
        ("tests/cli/test_cli_doctor.py",),
    ),
    Mutant(
        "a blob is not compared with its digest",
        "store/blobs.py",
        "    if digest != stored.digest:",
        "    if False:",
        ("tests/surface/test_blobs.py::test_other_bytes_under_a_right_checksum_are_not_the_blob",),
    ),
    Mutant(
        "a blob that documents refer to is removed when it is old",
        "store/blobs.py",
        (
            ' used = 0 AND time < ?1 AND (digest IS NOT NULL OR time < ?2)"\n'
            '    " AND NOT EXISTS (SELECT 1 FROM blob_refs WHERE blob = blobs.id)'
        ),
        " time < ?1 AND (digest IS NOT NULL OR time < ?2)",
        ("tests/surface/test_blobs.py",),
    ),
    Mutant(
        "removal goes through all tombstones of a table",
        "store/retention.py",
        '            "DELETE FROM graves WHERE table_id = ? AND key = ? AND seq = ?",',
        '            "DELETE FROM graves WHERE table_id = ? AND +key = ? AND seq = ?",',
        ("tests/store/test_retention_auto.py::TestSteps",),
    ),
    Mutant(
        "a commit waits for removal and a checkpoint",
        "store/retention.py",
        "        if not is_in_commit:\n",
        "        if True:\n",
        ("tests/store/test_retention_auto.py::TestSteps",),
    ),
    Mutant(
        "a dropped table keeps its blobs",
        "store/retention.py",
        "    drop_references(connection, written, (table_id, upto))\n",
        "",
        ("tests/surface/test_blobs.py",),
    ),
    Mutant(
        "the same content is stored twice",
        "store/blobs.py",
        "    if renew_blob(connection, digest, time):\n        _keep(",
        "    if False:\n        _keep(",
        ("tests/surface/test_blobs.py",),
    ),
    Mutant(
        "a process that does not know a write hook writes without",
        "store/hooks.py",
        "    if hook not in _HOOKS:",
        "    if False:",
        ("tests/store/test_write_hooks.py::TestEveryWayOfWriting",),
    ),
    Mutant(
        "a new version of the same document is left out, though something was asked",
        "writing.py",
        "        elif asked is None and self.policy.is_same(",
        "        elif self.policy.is_same(",
        ("tests/store/test_write_hooks.py::TestWhatIsAsked",),
    ),
    Mutant(
        "feeds tell of a version of which only the metadata is new",
        "feeds/dispatch.py",
        "(is_silent and not node.includes_meta)",
        "False",
        ("tests/store/test_write_hooks.py::TestFeeds",),
    ),
    Mutant(
        "feeds that read the log tell of a version of which only the metadata is new",
        "feeds/log_reader.py",
        "                if change.meta is None or includes_meta or not change.is_of_meta_alone:",
        "                if True:",
        ("tests/store/test_write_hooks.py::TestFeeds",),
    ),
    Mutant(
        "a refusal is counted where it is to be raised",
        "writing.py",
        "            if not self.policy.counts_errors or self.transaction.count != before:\n                raise\n",
        "",
        ("tests/store/test_write_hooks.py::TestRefusing",),
    ),
    # ----- materialized views
    Mutant(
        "anybody may write a kept table",
        "store/kept.py",
        "if draft.asked is not _KEEPER:",
        "if False:",
        ("tests/surface/test_materialize.py::TestWhatIsRefused::test_other_writes",),
    ),
    Mutant(
        "what was read is written, whoever has taken over",
        "materialize.py",
        "            lease = still_held(transaction, read)\n",
        "            lease = read\n",
        (
            "tests/surface/test_materialize.py::TestOneWorker::test_a_worker_that_was_taken_over_while_it_read_writes_nothing",
        ),
    ),
    Mutant(
        "a view that has stayed behind goes on from where it was",
        "materialize.py",
        "if reading.reader.position < lease.seq or lease.holder != self._worker:",
        "if False:",
        (
            "tests/surface/test_materialize.py::TestOneWorker::test_a_worker_that_comes_back_does_not_trust_what_it_remembers",
        ),
    ),
    Mutant(
        "a consumer that was moved by hand moves the table",
        "materialize.py",
        "if (contents.seq, contents.table, contents.sources) != (lease.seq, table.id, reading.sources):",
        "if (contents.table, contents.sources) != (table.id, reading.sources):",
        (
            "tests/surface/test_materialize.py::TestGoingOn::test_a_consumer_that_was_moved_by_hand_passes_nothing_over",
        ),
    ),
    Mutant(
        "half a commit is taken in",
        "materialize.py",
        "if following and following[0].commit > reader.position:",
        "if following:",
        (
            "tests/surface/test_materialize.py::TestFollowing::test_a_transaction_that_is_longer_than_a_page_is_taken_in_whole",
        ),
    ),
    Mutant(
        "a kept table that is dropped leaves its position behind",
        "store/kept.py",
        "        forget(transaction, table.name)\n",
        "        pass\n",
        ("tests/surface/test_materialize.py::TestGoingOn::test_a_table_that_was_dropped_is_made_again",),
    ),
    Mutant(
        "CouchDB's interface drops a kept table as any other",
        "dialects/couchdb/couch.py",
        "            drop_table(transaction, table)\n",
        "            transaction.drop_table(table)\n",
        ("tests/surface/test_materialize.py",),
    ),
    # ----- format 3
    Mutant(
        "a fact is taken without a look at its checksum",
        "store/schema.py",
        "    if values_checksum(name, value) != checksum:",
        "    if False:",
        ("tests/store/test_format.py::test_a_fact_that_changed_on_the_disk_is_damage",),
    ),
    Mutant(
        "lists of format 2 that are damaged get checksums as they are",
        "store/schema.py",
        '    """\n    check_format_2(connection)\n',
        '    """\n',
        ("tests/store/test_format.py::test_lists_of_format_2_that_are_damaged_are_not_migrated",),
    ),
    Mutant(
        "a migration forgets tables whose newest entry is gone",
        "store/schema.py",
        "    _note_newest(connection)\n",
        "",
        ("tests/store/test_newest_seq.py",),
    ),
    Mutant(
        "a position is taken without a look at its checksum",
        "store/positions.py",
        "    if values_checksum(*values) != checksum:",
        "    if False:",
        ("tests/store/test_positions.py",),
    ),
    Mutant(
        "a position alone is not committed",
        "store/transaction.py",
        "        return not (self.count or self.is_catalogue_changed or self.has_other_rows)",
        "        return not (self.count or self.is_catalogue_changed)",
        ("tests/store/test_positions.py",),
    ),
    Mutant(
        "compaction forgets where the newest change of a table was",
        "store/retention.py",
        "        _note_newest(connection, *window)\n",
        "",
        ("tests/store/test_newest_seq.py",),
    ),
    Mutant(
        "compaction takes the newest mark of a table",
        "store/retention.py",
        ' AND block <"\n            " (SELECT n.block FROM marks n WHERE n.table_id = marks.table_id AND n.block <= ?1"\n'
        '            " AND (n.block < ?1 OR n.newest <= ?2) ORDER BY n.block DESC LIMIT 1)",',
        ' AND ?2 IS NOT NULL",',
        ("tests/store/test_newest_seq.py",),
    ),
    Mutant(
        "compaction keeps the mark of a table's end alone",
        "store/retention.py",
        ' AND n.block <= ?1"\n            " AND (n.block < ?1 OR n.newest <= ?2) ORDER',
        '"\n            " AND ?1 + ?2 > 0 ORDER',
        ("tests/dialects/aidbox/test_aidbox_changes.py::TestHistoryThatIsGone",),
    ),
    Mutant(
        "compaction notes where a table ends only where that is a deletion",
        "store/retention.py",
        "WHERE seq > ? AND seq <= ? GROUP BY table_id",
        "WHERE seq > ? AND seq <= ? AND body IS NULL GROUP BY table_id",
        ("tests/dialects/aidbox/test_aidbox_changes.py::TestHistoryThatIsGone",),
    ),
    Mutant(
        "compaction leaves the entries of tables behind",
        "store/retention.py",
        "(body IS NULL OR table_id = 0)",
        "body IS NULL",
        ("tests/feeds/test_feeds_catalogue.py::test_compaction_removes_them_below_the_mark",),
    ),
    Mutant(
        "every feed of all tables tells of tables",
        "feeds/views/select.py",
        "if change.table_id != CATALOGUE or self._has_catalogue:",
        "if True:",
        ("tests/feeds/test_feeds_catalogue.py",),
    ),
    Mutant(
        "hidden tables are shown",
        "store/log.py",
        "    return type(change.table) is str",
        "    return True",
        ("tests/store/test_hidden_tables.py",),
    ),
    Mutant(
        "changes of tables are squashed away",
        "feeds/views/base.py",
        "            return (CATALOGUE, change.seq)\n",
        "            return (CATALOGUE, change.key_bytes)\n",
        ("tests/feeds/test_feeds_catalogue.py",),
    ),
    Mutant(
        "a dropped table keeps its documents, for who follows all tables",
        "feeds/views/select.py",
        "change.kind_code in (TABLE_DROP, TABLE_RENAME)",
        "change.kind_code in (TABLE_RENAME,)",
        ("tests/feeds/test_feeds_dropped_tables.py",),
    ),
    Mutant(
        "changes that are read from the log have the table's name of today",
        "store/log.py",
        "                if place < len(steps):\n",
        "                if False:\n",
        ("tests/feeds/test_feeds_dropped_tables.py",),
    ),
    Mutant(
        "subscribers of a list are not told of its end",
        "feeds/livelist.py",
        "            self._tell_end(one)\n",
        "            pass\n",
        ("tests/feeds/test_feeds_delivery.py",),
    ),
    Mutant(
        "a view that has stopped is held by the worker that has stopped",
        "materialize.py",
        " or lease.error is not None:\n",
        ":\n",
        ("tests/surface/test_materialize.py",),
    ),
    Mutant(
        "the past has tables under their names of today",
        "store/snapshot.py",
        "        names = undo.names(seq)\n",
        "        names: dict[int, str] = {}\n",
        ("tests/feeds/test_feeds_catalogue.py", "tests/laws/test_laws_catalogue.py"),
    ),
    Mutant(
        "compaction keeps every epoch",
        "store/retention.py",
        "        remove_epochs(connection, goal)\n",
        "",
        ("tests/store/test_epochs.py",),
    ),
    Mutant(
        "a page of the log ends inside of a commit",
        "feeds/log_reader.py",
        "        if self._is_whole and not is_last:",
        "        if False:",
        ("tests/feeds/test_feeds_readers.py::test_a_commit_is_read_from_the_log_as_a_whole",),
    ),
    Mutant(
        "a feed of whole commits begins in the middle of one",
        "feeds/bootstrap.py",
        "                position = before_commit(position, snapshot)",
        "                pass",
        ("tests/feeds/test_feeds_readers.py::test_a_commit_is_read_from_the_log_as_a_whole",),
    ),
    Mutant(
        "what a view could compute of a commit before it failed is told as a whole one",
        "feeds/dispatch.py",
        "                if not is_whole and subscription.request.options.batches:",
        "                if False:",
        ("tests/feeds/test_feeds_readers.py::test_a_commit_that_fails_in_the_middle_is_not_told_in_part",),
    ),
    Mutant(
        "the position of net differences is past one that came to nothing",
        "feeds/queues.py",
        "        if deltas and not self._pending:\n",
        "        if deltas:\n",
        (
            "tests/feeds/test_feeds_readers.py::test_net_differences_that_wait_are_resumed_from_before_all_of_them",
        ),
    ),
    Mutant(
        "members of a union tell a commit one after the other",
        "feeds/consumers.py",
        "not other.is_closed and other.look() == seq:",
        "not other.is_closed and False:",
        ("tests/laws/test_laws_feeds_batches.py",),
    ),
    Mutant(
        "members of a union of whole commits begin at moments of their own",
        "feeds/consumers.py",
        "            self._begin_together()\n",
        "",
        ("tests/feeds/test_feeds_readers.py::test_members_of_a_union_begin_together",),
    ),
    Mutant(
        "a reader is not told of what comes after it was polled empty",
        "feeds/consumers.py",
        "                        self._is_told = False\n                        wait_s",
        "                        wait_s",
        ("tests/feeds/test_feeds_readers.py::test_a_reader_calls_once_until_everything_was_polled",),
    ),
    # ----- CouchDB's queries, and synchronisation
    Mutant(
        "the negation of several conditions asks that all of them fail",
        "dialects/couchdb/mango.py",
        '{"$or" if name == "$and" else "$and":',
        "{name:",
        ("tests/dialects/couchdb/test_couchdb_mango_laws.py",),
    ),
    Mutant(
        "who waits for an element of a list is looked for among the fields of objects",
        "dialects/couchdb/mango.py",
        'name.lstrip("+").isdecimal() for',
        "name.isdecimal() for",
        ("tests/dialects/couchdb/test_couch_changes.py::test_who_waits_for_an_element_of_a_list_is_woken",),
    ),
    Mutant(
        "an attachment that follows is in the document besides",
        "servers/http/documents.py",
        "atts_since=None if as_parts else since",
        "atts_since=since",
        (
            "tests/servers/http/test_http_server.py::TestAttachments::test_only_newer_attachments_are_sent_to_who_has_the_others",
        ),
    ),
    Mutant(
        "an index is asked for numbers above one bound, where texts pass, too",
        "dialects/couchdb/mango.py",
        'if bounds["$g"] and bounds["$l"]:',
        'if bounds["$g"] or bounds["$l"]:',
        ("tests/dialects/couchdb/test_couchdb_finding.py",),
    ),
    Mutant(
        "a page begins with the last document of the page before",
        "dialects/couchdb/finding.py",
        "else place <= after",
        "else place < after",
        ("tests/dialects/couchdb/test_couchdb_finding.py::TestBookmarks",),
    ),
    Mutant(
        "a replication goes on from the later of two positions",
        "replication/checkpoints.py",
        "return min(seqs,",
        "return max(seqs,",
        ("tests/replication/test_checkpoints.py",),
    ),
    Mutant(
        "the end of a page is in the checkpoint before its documents are there",
        "replication/replicator.py",
        "        found = list(self._source.leaves(missing, self._target))\n",
        "        self._checkpoints.write(page.last_seq)\n        found = list(self._source.leaves(missing, self._target))\n",
        ("tests/laws/test_laws_sync.py",),
    ),
    Mutant(
        "a losing revision is not sent",
        "replication/replicator.py",
        'for change in row["changes"]',
        'for change in row["changes"][:1]',
        ("tests/laws/test_laws_sync.py",),
    ),
    # ----- CouchDB's revisions
    Mutant(
        "a deleted leaf wins over one that is alive",
        "dialects/couchdb/trees.py",
        "    return not is_deleted, rev.generation, kept, rev.hash",
        "    return is_deleted, rev.generation, kept, rev.hash",
        ("tests/laws/test_laws_couchdb_trees.py",),
    ),
    Mutant(
        "a hash of 32 hexadecimal digits is compared as its text",
        "dialects/couchdb/trees.py",
        "kept = bytes.fromhex(rev.hash) if _HEX.fullmatch(rev.hash) else rev.hash.encode()",
        "kept = rev.hash.encode()",
        ("tests/dialects/couchdb/test_couch_documents.py::test_the_greater_hash_wins_as_bytes",),
    ),
    Mutant(
        "a leaf that became an ancestor stays a leaf",
        "dialects/couchdb/trees.py",
        "other is not leaf and other.path.has(leaf.path.rev)",
        "False",
        ("tests/laws/test_laws_couchdb_trees.py",),
    ),
    Mutant(
        "what another path tells of ancestors is not taken over",
        "dialects/couchdb/trees.py",
        "        path = path.deepened(leaf.path)\n",
        "        pass\n",
        ("tests/laws/test_laws_couchdb_trees.py",),
    ),
    Mutant(
        "a revision that began a path of its own is added once more",
        "dialects/couchdb/states.py",
        "before.lineage.oldest <= path.oldest and not is_joining:",
        "before.lineage.oldest <= path.oldest:",
        (
            "tests/dialects/couchdb/test_couch_documents.py::test_a_revision_that_another_path_began_with_joins_the_two_paths",
        ),
    ),
    Mutant(
        "a chunk of ancestors that has more is written over by one that has less",
        "dialects/couchdb/states.py",
        "            if known is None or (",
        "            if True or (",
        (
            "tests/dialects/couchdb/test_couch_documents.py::test_a_shared_chunk_keeps_what_another_leaf_needs",
        ),
    ),
    Mutant(
        "the chunk that an edit leaves behind is not written",
        "dialects/couchdb/revisions.py",
        "    return Lineage(lineage.start + 1, (hash,), lineage.ids[0], lineage.oldest), left",
        "    return Lineage(lineage.start + 1, (hash,), lineage.ids[0], lineage.oldest), None",
        ("tests/dialects/couchdb/test_couch_documents.py::test_a_long_history_is_kept_in_chunks",),
    ),
    Mutant(
        "a chunk of ancestors that another leaf needs is swept away",
        "dialects/couchdb/sweeping.py",
        "        for lineage in [state.lineage, *(leaf.lineage for leaf in state.others)]:",
        "        for lineage in [state.lineage]:",
        ("tests/dialects/couchdb/test_couch_sweeping.py::test_what_any_leaf_reaches_stays",),
    ),
    Mutant(
        "compaction leaves ancestors that no path reaches",
        "session.py",
        "            self.sweep()\n",
        "            pass\n",
        (
            "tests/dialects/couchdb/test_couch_sweeping.py::test_a_document_that_is_edited_for_ever_takes_as_much_room_as_its_revisions",
        ),
    ),
    Mutant(
        "of many documents only the first of a hundred are looked up",
        "store/newest.py",
        "    while some := list(islice(wanted, PICKED)):",
        "    if some := list(islice(wanted, PICKED)):",
        ("tests/store/test_newest.py",),
    ),
    Mutant(
        "a native deletion lets a conflict take its place",
        "dialects/couchdb/revisions.py",
        "        for leaf in [leaf for leaf in leaves.values() if not leaf.is_deleted]:",
        "        for leaf in []:",
        ("tests/dialects/couchdb/test_couch_documents.py::test_native_writes_are_edits_of_the_winner",),
    ),
    Mutant(
        "a tombstone is quoted as the parent of an edit",
        "dialects/couchdb/states.py",
        "leaf.lineage.rev == parent and not leaf.is_deleted",
        "leaf.lineage.rev == parent",
        (
            "tests/dialects/couchdb/test_couch_documents.py::test_a_document_is_written_read_changed_and_deleted",
        ),
    ),
    Mutant(
        "a document has a row for each of its tables",
        "dialects/couchdb/changes.py",
        "        return [newest[change.seq] for change in changes if change.seq in newest]",
        "        return states_of(reading.heads, reading.tables, changes)",
        ("tests/laws/test_laws_couchdb.py",),
    ),
    Mutant(
        "a feed is not woken again after it was read",
        "dialects/couchdb/changes.py",
        "        with self._lock:\n            self._is_told = False\n        self._passed_seq",
        "        self._passed_seq",
        ("tests/dialects/couchdb/test_couch_changes.py::test_a_live_feed_is_woken_once_until_it_is_read",),
    ),
    Mutant(
        "a revision that comes of a leaf lies beside it",
        "dialects/couchdb/states.py",
        "            return path.ids[path.start - lineage.start] != lineage.ids[0]",
        "            return True",
        ("tests/laws/test_laws_couchdb.py",),
    ),
    Mutant(
        "an ancestor of a leaf lies beside it",
        "dialects/couchdb/states.py",
        "place < len(lineage.ids) and lineage.ids[place] != path.ids[0]",
        "place < len(lineage.ids)",
        ("tests/laws/test_laws_couchdb.py",),
    ),
    Mutant(
        "deletions are passed over where the target has the document",
        "replication/replicator.py",
        'if id not in deleted or said.get("possible_ancestors")',
        "if id not in deleted",
        ("tests/replication/test_sync.py::test_what_a_side_never_had_needs_no_deletion",),
    ),
    Mutant(
        "a conflict that was there before is left",
        "replication/local.py",
        "            self._settle_all(ids_in_conflict(self._database))",
        "            ids_in_conflict(self._database)",
        ("tests/replication/test_sync.py::test_a_conflict_that_is_left_can_be_ended_later",),
    ),
    Mutant(
        "a feed that begins while the server stops is left open",
        "servers/http/application.py",
        "        if self._is_ending:\n            one.end()\n",
        "",
        (
            "tests/servers/http/test_http_server.py::TestFeeds::test_who_asks_again_while_the_server_stops_is_answered",
        ),
    ),
    Mutant(
        "what was found but not given to anybody counts as told",
        "dialects/couchdb/changes.py",
        "            if not found:\n                self._passed_seq",
        "            if True:\n                self._passed_seq",
        (
            "tests/dialects/couchdb/test_couch_changes_options.py::test_the_position_passes_what_is_rejected_while_nothing_is_found",
        ),
    ),
    Mutant(
        "a document that has left a filter is told of only where it is in the newest entry",
        "dialects/couchdb/removals.py",
        "            if change.seq <= self._settled or",
        "            if change.seq < self._settled or",
        ("tests/dialects/couchdb/test_couch_changes_options.py",),
    ),
    Mutant(
        "a removal is told of what no page has told",
        "dialects/couchdb/removals.py",
        "place < len(self._pages) and self._pages[place][1] < later",
        "place < len(self._pages)",
        ("tests/dialects/couchdb/test_couch_changes_options.py",),
    ),
    Mutant(
        "who waits for a value is not woken when it goes",
        "dialects/couchdb/waking.py",
        '("old_val", "new_val") if event',
        '("new_val",) if event',
        (
            "tests/dialects/couchdb/test_couch_changes_options.py::test_who_waits_for_a_value_is_woken_when_it_goes",
        ),
    ),
    Mutant(
        "seqs of a database begin where the file is",
        "dialects/couchdb/settings.py",
        "seq - self.served + self.older",
        "seq + self.older",
        ("tests/dialects/couchdb/test_couch_changes.py::test_seqs_of_each_database_begin_with_1",),
    ),
    Mutant(
        "the newest entries below the low-water mark are passed over",
        "store/newest.py",
        "    if marked > since and (not reverse",
        "    if False and (not reverse",
        ("tests/store/test_newest.py",),
    ),
    # ----- HTTP
    Mutant(
        "a feed that stops waiting does not look once more",
        "servers/http/streaming.py",
        "            if is_last:\n                continue\n            prefix",
        "            if is_last:\n                break\n            prefix",
        ("tests/servers/http/test_streaming.py::test_a_feed_looks_once_more_before_it_ends",),
    ),
    Mutant(
        "heartbeats are given up while rows are searched for",
        "servers/http/streaming.py",
        "(searching,), timeout=waiting.heartbeat_s)",
        "(searching,), timeout=None)",
        ("tests/servers/http/test_streaming.py::test_a_search_that_takes_long_gives_heartbeats",),
    ),
    Mutant(
        "chunks of a feed are bounded by rows only",
        "servers/http/streaming.py",
        "min(MOST_ROWS, max(1, CHUNK_BYTES * len(found) // len(chunk)))",
        "MOST_ROWS",
        (
            "tests/servers/http/test_streaming.py::test_about_as_many_bytes_are_read_at_a_time_whatever_the_documents_are",
        ),
    ),
    Mutant(
        "the beginning of a boundary at the end of a block is thrown away",
        "dialects/couchdb/multipart.py",
        "min(len(held), len(needle) - 1)",
        "0",
        ("tests/dialects/couchdb/test_couchdb_multipart.py",),
    ),
    Mutant(
        "a document whose answer breaks off once is passed over",
        "replication/replicator.py",
        "self._failed_reads[one.id, one.rev] < most:",
        "self._failed_reads[one.id, one.rev] < 1:",
        (
            "tests/replication/test_unreadable.py::TestPull::test_one_that_comes_with_another_attempt_is_copied",
        ),
    ),
    Mutant(
        "a document is passed over while its source does not answer",
        "replication/replicator.py",
        "        self._source.prepare(create=False)\n        most",
        "        most",
        (
            "tests/replication/test_unreadable.py::TestPull::test_a_source_that_does_not_answer_at_all_is_waited_for",
        ),
    ),
    Mutant(
        "a stored text goes into a header as it is",
        "servers/http/application.py",
        'header_text(value).encode("latin-1", "replace")',
        'value.encode("latin-1", "replace")',
        ("tests/servers/http/test_header_texts.py::TestStored",),
    ),
    Mutant(
        "a page that hides its origin writes",
        "servers/http/origins.py",
        'request.get("sec-fetch-site", "none" if origin is None else "")',
        '"none" if origin is None else request.get("sec-fetch-site", "")',
        ("tests/servers/http/test_origins.py::TestWrites",),
    ),
    Mutant(
        "with users every page may write",
        "servers/http/application.py",
        'origins = ("*",) if speaker.authenticator.is_open else ()',
        'origins = ("*",)',
        ("tests/servers/http/test_origins.py::TestUsers",),
    ),
    Mutant(
        "a name that leads to the loopback is answered",
        "servers/http/serving.py",
        "            hosts = ()\n",
        "            pass\n",
        ("tests/servers/http/test_origins.py::TestHosts",),
    ),
    Mutant(
        "whoever asks with a cookie is let in",
        "servers/http/sessions.py",
        "if not text or not hmac.compare_digest(proof, hmac_sha256(self._key, text)):",
        "if not text:",
        ("tests/servers/http/test_http_server.py::TestEntrance::test_a_cookie_that_somebody_made_up",),
    ),
    Mutant(
        "a server that only reads stores attachments",
        "servers/http/routing.py",
        '"PUT": _of_document(_write_attachment, Bodies.SPOOLED, writes=True)',
        '"PUT": _of_document(_write_attachment, Bodies.SPOOLED)',
        ("tests/servers/http/test_http_server.py::TestReadOnly",),
    ),
    Mutant(
        "a compressed body that is cut off is taken as it is",
        "dialects/couchdb/attachments.py",
        "    if not inflate.eof:\n        raise _not_zipped()\n",
        "",
        ("tests/servers/http/test_encodings.py::TestRefusals::test_what_is_not_whole",),
    ),
    Mutant(
        "what is behind the first member of a compressed body is dropped",
        "dialects/couchdb/attachments.py",
        "                if inflate.eof:\n                    # The next member begins here.\n"
        "                    inflate = zlib.decompressobj(wbits=_GZIP)\n",
        "                if inflate.eof:\n                    return\n",
        ("tests/servers/http/test_encodings.py",),
    ),
    Mutant(
        "the limit of a body counts what comes, and not what is in it",
        "servers/http/encodings.py",
        "            size += len(piece)\n",
        "            size = packed.tell()\n",
        ("tests/servers/http/test_encodings.py::TestSizes",),
    ),
    Mutant(
        "an attachment within a document may become as large as it likes",
        "dialects/couchdb/attachments.py",
        "if self._most is not None and self.length > self._most:",
        "if False:",
        ("tests/servers/http/test_encodings.py::TestSizes",),
    ),
    Mutant(
        "any encoding of a body is taken for none",
        "servers/http/encodings.py",
        "    if len(codings) > 1 or any(coding not in GZIP for coding in codings):",
        "    if False:",
        ("tests/servers/http/test_encodings.py::TestRefusals",),
    ),
    Mutant(
        "a native table of users is shown",
        "dialects/couchdb/couch.py",
        "return sorted(name for name in names if name not in RESERVED)",
        "return sorted(names)",
        ("tests/servers/http/test_couchdb_server.py::TestSystemDatabases",),
    ),
    Mutant(
        "a database's branches that lose wake nobody who waits for updates",
        "dialects/couchdb/updates.py",
        "                wanted[tables.conflicts.id] = tables.conflicts.reference\n",
        "                pass\n",
        ("tests/dialects/couchdb/test_couch_updates.py",),
    ),
    Mutant(
        "a table that is being removed ends the database that has its name",
        "dialects/couchdb/updates.py",
        "if table.owner is not None or (table.dropped is not None and table.dropped <= low):",
        "if table.owner is not None:",
        ("tests/dialects/couchdb/test_couch_updates.py",),
    ),
    Mutant(
        "a view maps design documents",
        "dialects/couchdb/views.py",
        'if not document["_id"].startswith(DESIGN):',
        "if True:",
        ("tests/dialects/couchdb/test_couchdb_views.py",),
    ),
    Mutant(
        "a range of a view that is descending has the end that it shall not have",
        "dialects/couchdb/views.py",
        "is_after=query.inclusive_end is not is_descending)",
        "is_after=query.inclusive_end)",
        ("tests/dialects/couchdb/test_couchdb_views.py",),
    ),
    Mutant(
        "a document is written before it was checked",
        "servers/http/documents.py",
        "    validating.check(database, document, asking.user)\n    done = database.put(document, rev=rev, new_edits=is_new",
        "    done = database.put(document, rev=rev, new_edits=is_new",
        ("tests/servers/http/test_http_server.py::TestValidation",),
    ),
    # ----- MongoDB's documents, queries and updates
    Mutant(
        "what a look to the front repeats is not bounded",
        "dialects/mongodb/pattern_bounds.py",
        "                done.append(text)\n",
        "",
        ("tests/dialects/mongodb/test_mongodb_filters.py",),
    ),
    Mutant(
        "NaN of two types is two ids of MongoDB",
        "dialects/mongodb/ids.py",
        "        in_keys=_in_keys,\n",
        "",
        (
            "tests/dialects/mongodb/test_mongodb_entries.py::test_what_has_equal_numbers_is_one_id_and_keeps_its_types",
        ),
    ),
    Mutant(
        "the sum of large int64 and doubles of MongoDB is rounded before the end",
        "dialects/mongodb/totals.py",
        "(self._lost + lost + (self._whole - int(upper)))",
        "self._lost",
        ("tests/dialects/mongodb/test_mongodb_pipelines.py",),
    ),
    Mutant(
        "the hint of a write of MongoDB does not say which document is the first",
        "dialects/mongodb/writing.py",
        "            found = IndexWalk(hint, {}).rows(held, lambda row: row.document)\n",
        "            found = held\n",
        ("tests/dialects/mongodb/test_mongodb_hinting.py::TestOrderOfWrites",),
    ),
    Mutant(
        "a write of MongoDB changes what the index of its hint does not have",
        "dialects/mongodb/writing.py",
        "(row for row in found if hint.holds(row.document))",
        "found",
        ("tests/dialects/mongodb/test_mongodb_hinting.py::TestOrderOfWrites",),
    ),
    Mutant(
        "a scaled value of MongoDB begins at 0, whatever its least is",
        "dialects/mongodb/window_functions.py",
        "yield added(multiplied(share, width), least)",
        "yield multiplied(share, width)",
        ("tests/dialects/mongodb/test_mongodb_windows.py",),
    ),
    Mutant(
        "a write of MongoDB is carried out on a collection of another UUID",
        "dialects/mongodb/collection.py",
        '        if refused := self._refused(len(documents), ordered):\n            return self._ended({"n": 0}, refused)\n',
        "",
        ("tests/servers/mongodb/test_collection_uuids.py",),
    ),
    Mutant(
        "a class of Unicode's is nothing beyond ASCII to who bounds a search",
        "dialects/mongodb/unicode_classes.py",
        'return own + r"\\x{80}-\\x{10ffff}"',
        'return own or "z"',
        (
            "tests/dialects/mongodb/test_mongodb_filters.py::test_a_pattern_whose_search_might_never_end_is_refused",
        ),
    ),
    Mutant(
        "a write of MongoDB with j: true does not wait for the disk",
        "dialects/mongodb/commands/dispatch.py",
        "        if wants_disk(body):\n            deployment.flush()\n",
        "",
        ("tests/servers/mongodb/test_durability.py",),
    ),
    Mutant(
        "a cursor of a transaction of MongoDB goes on after it",
        "dialects/mongodb/commands/cursors.py",
        "    if own is asking:\n",
        "    if True:\n",
        ("tests/servers/mongodb/test_orders_and_cursors.py::TestACursorGoesOnOnlyInItsTransaction",),
    ),
    Mutant(
        "a commit of MongoDB's dialect takes its own documents for somebody else's",
        "dialects/mongodb/transactions.py",
        "old[0] <= newest:",
        "old[0] <= snapshot.seq:",
        (
            "tests/dialects/mongodb/test_mongodb_transactions.py::TestMakingCollections::"
            "test_what_it_inserts_may_be_changed_by_it",
        ),
    ),
    Mutant(
        "documents without a place come twice in natural order",
        "dialects/mongodb/natural.py",
        "if key > until and key not in given]",
        "if key not in given]",
        ("tests/dialects/mongodb/test_mongodb_natural.py::TestOrder",),
    ),
    Mutant(
        "a small int64 of MongoDB is stored as an int32",
        "dialects/mongodb/values.py",
        "return natives.Int64(plain) if -(2**31) <= plain < 2**31 else plain",
        "return plain",
        ("tests/dialects/mongodb/test_mongodb_values.py",),
    ),
    Mutant(
        "a Decimal128 with other bits than the usual ones loses them",
        "dialects/mongodb/values.py",
        "if number.is_finite() and Decimal128(number).bid == value.bid:",
        "if number.is_finite():",
        ("tests/dialects/mongodb/test_mongodb_values.py",),
    ),
    Mutant(
        "a scalar in an array on the path of a query is a field that is missing",
        "dialects/mongodb/paths.py",
        "        if type(value) is dict:\n            found += ends(value, parts, start)",
        "        found += ends(value, parts, start)",
        ("tests/dialects/mongodb/test_mongodb_filters.py",),
    ),
    Mutant(
        "a query negates element by element",
        "dialects/mongodb/filters.py",
        "    return Test(lambda found: not holds(found))",
        "    return Test(lambda found: any(not holds((value,)) for value in found))",
        ("tests/dialects/mongodb/test_mongodb_filters.py",),
    ),
    Mutant(
        "the elements of an $elemMatch are looked into",
        "dialects/mongodb/filters.py",
        "self.field(path, operand, depth, expands=False)]",
        "self.field(path, operand, depth, expands=True)]",
        ("tests/dialects/mongodb/test_mongodb_filters.py",),
    ),
    Mutant(
        "a path that an update has made is told as deep as it goes",
        "dialects/mongodb/editing.py",
        "(*reached, place), parts[number + 1 :], modifier",
        "(*reached, place), () if not parts[number + 1 :] else parts[number + 1 : number + 2], modifier",
        ("tests/dialects/mongodb/test_mongodb_updates.py",),
    ),
    Mutant(
        "a part of an array that is told whole is told again",
        "dialects/mongodb/editing.py",
        "        return len(path) > 1 and any(path[:length] in",
        "        return False and any(path[:length] in",
        ("tests/dialects/mongodb/test_mongodb_updates.py",),
    ),
    Mutant(
        "an update changes the document that it was given",
        "dialects/mongodb/editing.py",
        "        copy: _Container = dict(value) if type(value) is dict else list(value)",
        "        copy: _Container = value",
        ("tests/dialects/mongodb/test_mongodb_updates.py",),
    ),
    Mutant(
        "a push into an empty array is told element by element",
        "dialects/mongodb/operators.py",
        "return bool(old) and order is None",
        "return order is None",
        ("tests/dialects/mongodb/test_mongodb_updates.py",),
    ),
    Mutant(
        "an update may change one thing twice",
        "dialects/mongodb/updates.py",
        "        if len(changes) > 1:\n            _check_apart(",
        "        if len(changes) > 9:\n            _check_apart(",
        ("tests/dialects/mongodb/test_mongodb_updates.py",),
    ),
    Mutant(
        "a partial index of what is above a value serves what is at least that",
        "dialects/mongodb/implying.py",
        "    compare = (ge if is_strict else gt) if",
        "    compare = ge if",
        ("tests/dialects/mongodb/test_mongodb_partial_indexes.py",),
    ),
    Mutant(
        "a partial index serves where one of several values is in it",
        "dialects/mongodb/implying.py",
        "            and all(_is_single(one, has_collation)",
        "            and any(_is_single(one, has_collation)",
        ("tests/dialects/mongodb/test_mongodb_partial_indexes.py",),
    ),
    Mutant(
        "the id is given the time, too, where it is an empty timestamp",
        "dialects/mongodb/clock.py",
        ' and name != "_id"\n',
        "\n",
        ("tests/servers/mongodb/test_clock.py",),
    ),
    Mutant(
        "a total of a window keeps what the window has left behind",
        "dialects/mongodb/window_functions.py",
        "            if start != first or end < until:",
        "            if end < until:",
        ("tests/dialects/mongodb/test_mongodb_windows.py",),
    ),
    Mutant(
        "a range ends before the documents that lie at its end",
        "dialects/mongodb/windows.py",
        "len(keys) if self.upper is None else bisect_right(",
        "len(keys) if self.upper is None else bisect_left(",
        ("tests/dialects/mongodb/test_mongodb_windows.py",),
    ),
    Mutant(
        "a difference that takes as much room as the new version is told",
        "dialects/mongodb/diff.py",
        "if not is_always and _size(parts) >= _size(after):",
        "if False:",
        ("tests/dialects/mongodb/test_mongodb_diff.py",),
    ),
    Mutant(
        "a part that takes more room than the new value is told by its parts",
        "dialects/mongodb/diff.py",
        "return parts if _size(parts) < room else None",
        "return parts",
        ("tests/dialects/mongodb/test_mongodb_diff.py",),
    ),
    # ----- MongoDB's collections
    Mutant(
        "a transaction overwrites what was committed since it has begun",
        "dialects/mongodb/transactions.py",
        "            if undo.one(table.id, step.key, self._seq)[0]:",
        "            if False:",
        ("tests/dialects/mongodb/test_mongodb_transactions.py",),
    ),
    Mutant(
        "two transactions may write one document",
        "dialects/mongodb/transactions.py",
        "            return self._written.setdefault(place, transaction) is transaction",
        "            return self._written.setdefault(place, transaction) is not None",
        ("tests/dialects/mongodb/test_mongodb_transactions.py",),
    ),
    Mutant(
        "a transaction does not see its own writes",
        "dialects/mongodb/transactions.py",
        "        return {**self._undo.old(table_id, seq), **self._written.get(table_id, {})}",
        "        return self._undo.old(table_id, seq)",
        ("tests/dialects/mongodb/test_mongodb_transactions.py",),
    ),
    Mutant(
        "a unique index lets a second document pass",
        "dialects/mongodb/indexes.py",
        "                if entry.key != key:",
        "                if False:",
        ("tests/dialects/mongodb/test_mongodb_indexes.py",),
    ),
    Mutant(
        "a moderate validator is asked of documents that never matched",
        "dialects/mongodb/rules.py",
        'self._level == "moderate"',
        'self._level == "strict"',
        ("tests/dialects/mongodb/test_mongodb_rules.py::TestValidators",),
    ),
    Mutant(
        "a capped collection has one document more than it may",
        "dialects/mongodb/capped.py",
        "count > cap.most",
        "count > cap.most + 1",
        ("tests/dialects/mongodb/test_mongodb_rules.py::TestCapped",),
    ),
    Mutant(
        "an update of a capped document is a new place",
        "dialects/mongodb/capped.py",
        "        number, before = old\n",
        "        number, before = totals.next, old[1]\n",
        ("tests/dialects/mongodb/test_mongodb_rules.py::TestCapped",),
    ),
    Mutant(
        "the upper bound of a hinted index is inclusive",
        "dialects/mongodb/hinting.py",
        "self._most is None or place < self._most",
        "self._most is None or not self._most < place",
        ("tests/dialects/mongodb/test_mongodb_hinting.py",),
    ),
    Mutant(
        "the answer to a retryable write is not kept in its commit",
        "dialects/mongodb/collection.py",
        "        if target.count > before:\n            retry.remember",
        "        if target.count < before:\n            retry.remember",
        ("tests/servers/mongodb/test_retries.py::TestWrites",),
    ),
    Mutant(
        "a session that goes on after a restart knows nothing of before",
        "dialects/mongodb/commands/session_states.py",
        "SessionState(before, self",
        "SessionState(None, self",
        ("tests/servers/mongodb/test_retries.py::TestWrites",),
    ),
    Mutant(
        "what nobody will send again stays in the file for ever",
        "dialects/mongodb/retries.py",
        "            remove_expired(transaction, KIND, transaction.time, MOST_KEPT)\n",
        "            pass\n",
        ("tests/servers/mongodb/test_retries.py::TestHowLong",),
    ),
    Mutant(
        "a tailable cursor passes over what was deleted before it was read",
        "dialects/mongodb/tailing.py",
        "self._stands_at_one and not has_place",
        "self._stands_at_one and has_place is None and not has_place",
        ("tests/dialects/mongodb/test_mongodb_rules.py::TestTailing",),
    ),
    Mutant(
        "change streams tell of what makes room in a capped collection",
        "dialects/mongodb/events.py",
        "change.kind_code == DELETE and is_cut(change.meta)",
        "change.kind_code == INSERT and is_cut(change.meta)",
        ("tests/dialects/mongodb/test_mongodb_rules.py::TestCapped",),
    ),
    Mutant(
        "the bytes of a number are those of an int alone",
        "dialects/mongodb/scanning.py",
        "        written[codec.encode_value(float(value))] = None",
        "        written[codec.encode_value(value)] = None",
        ("tests/dialects/mongodb/test_mongodb_indexes.py",),
    ),
    Mutant(
        "a scan passes over arrays",
        "dialects/mongodb/scanning.py",
        '_OTHERS: Final = rb"[\\x90-\\x9f\\xdc\\xdd\\xc7-\\xc9\\xd4-\\xd8]"',
        '_OTHERS: Final = rb"[\\xc7-\\xc9\\xd4-\\xd8]"',
        ("tests/dialects/mongodb/test_mongodb_indexes.py",),
    ),
    Mutant(
        "an index leaves out the value that a range ends with",
        "dialects/mongodb/planning.py",
        'FieldBound(start, data + b"\\xff") if operator in _BELOW else FieldBound(data, stop)',
        "FieldBound(start, data) if operator in _BELOW else FieldBound(data, stop)",
        ("tests/dialects/mongodb/test_mongodb_indexes.py",),
    ),
    Mutant(
        "an event without a document has no field that is missing",
        "dialects/mongodb/routing.py",
        'if None in points and path.startswith(f"{DOCUMENT}."):',
        "if False:",
        ("tests/dialects/mongodb/test_mongodb_routing.py",),
    ),
    Mutant(
        "a stream is found by the parts of a choice that say something",
        "dialects/mongodb/routing.py",
        "if None not in parts and sum",
        "if sum",
        ("tests/dialects/mongodb/test_mongodb_routing.py",),
    ),
    Mutant(
        "an index is walked for a sort though a document has several places in it",
        "dialects/mongodb/index_keys.py",
        'if index.get("marks") and (len(found) > 1 or',
        'if index.get("marks") and (False or',
        ("tests/dialects/mongodb/test_mongodb_indexes.py",),
    ),
    Mutant(
        "an index that has no marks is walked for a sort",
        "dialects/mongodb/walking.py",
        "if not self.by.has_marks or snapshot",
        "if snapshot",
        ("tests/dialects/mongodb/test_mongodb_indexes.py",),
    ),
    Mutant(
        "texts under a collation are looked for by their bytes",
        "dialects/mongodb/scanning.py",
        "taken = _TAKEN - {str} if has_collation else _TAKEN",
        "taken = _TAKEN",
        ("tests/dialects/mongodb/test_mongodb_default_collations.py",),
    ),
    Mutant(
        "a command that names the simple collation gets that of the collection",
        "dialects/mongodb/namespaces.py",
        "        if given:\n            return simple(given)\n",
        "        if simple(given):\n            return given\n",
        ("tests/dialects/mongodb/test_mongodb_default_collations.py",),
    ),
    Mutant(
        "nothing within an empty array is null",
        "dialects/mongodb/planning.py",
        ' and value is None and "." not in path',
        " and value is None",
        ("tests/dialects/mongodb/test_mongodb_indexes.py",),
    ),
    Mutant(
        "a sparse index has documents without the field",
        "dialects/mongodb/planning.py",
        'return not index.spec["sparse"] or any(',
        "return True or any(",
        ("tests/dialects/mongodb/test_mongodb_indexes.py",),
    ),
    Mutant(
        "a choice is read from what serves some of its parts",
        "dialects/mongodb/planning.py",
        "        if len(served) < len(parts):\n            continue\n",
        "        if not served:\n            continue\n",
        ("tests/dialects/mongodb/test_mongodb_indexes.py",),
    ),
    Mutant(
        "an image that is required and missing is no error of an event that was passed over",
        "dialects/mongodb/routing.py",
        'if options.is_expanded or "required" in (options.full_document, options.before_change):',
        "if options.is_expanded:",
        ("tests/dialects/mongodb/test_mongodb_routing.py",),
    ),
    Mutant(
        "a document in a table with another primary key is looked up as it is stored",
        "dialects/mongodb/routing.py",
        "if self.field == DOCUMENT and self.path[0] == primary_key:",
        "if False:",
        ("tests/dialects/mongodb/test_mongodb_routing.py",),
    ),
    Mutant(
        "an update that is told as a replacement is no replacement",
        "dialects/mongodb/routing.py",
        'UPDATE: ["update", "replace"],',
        'UPDATE: ["update"],',
        ("tests/dialects/mongodb/test_mongodb_routing.py",),
    ),
    Mutant(
        "a woken stream passes over what it was woken by",
        "dialects/mongodb/waking.py",
        "return max(position, min(first - 1, head))",
        "return max(position, min(first, head))",
        ("tests/dialects/mongodb/test_mongodb_routing.py",),
    ),
    Mutant(
        "a stream passes over changes that nobody has looked at",
        "dialects/mongodb/waking.py",
        "        self._unbroken_from = None\n        for waiting",
        "        for waiting",
        ("tests/dialects/mongodb/test_mongodb_routing.py",),
    ),
    Mutant(
        "a woken stream forgets that it was woken again",
        "dialects/mongodb/waking.py",
        "            if last > position:\n",
        "            if False:\n",
        ("tests/dialects/mongodb/test_mongodb_routing.py",),
    ),
    Mutant(
        "a stream passes over a table that has come and that it does not listen to yet",
        "dialects/mongodb/streams.py",
        "        self._is_unsure |= any(change.table_id == CATALOGUE for change in page.beside)\n",
        "",
        ("tests/laws/test_laws_mongodb_routing.py",),
    ),
    Mutant(
        "a stream that looks documents up finds them by what they were",
        "dialects/mongodb/streams.py",
        'if self.options.full_document == "updateLookup" and self.interest.is_of_documents:',
        "if False:",
        ("tests/dialects/mongodb/test_mongodb_routing.py",),
    ),
    Mutant(
        "a woken stream takes what is in memory for all that there is",
        "dialects/mongodb/recent.py",
        "if since is None or since > position or",
        "if since is None or",
        ("tests/dialects/mongodb/test_mongodb_recent.py",),
    ),
    Mutant(
        "changes before a gap are kept with those after it",
        "dialects/mongodb/waking.py",
        "        self.recent.clear()\n        self._unbroken_from = None\n",
        "        self._unbroken_from = None\n",
        ("tests/dialects/mongodb/test_mongodb_recent.py",),
    ),
    Mutant(
        "an argument shares its lists with the caller",
        "dialects/mongodb/embedded/shaping.py",
        "found[place] = inner = value.copy()",
        "inner = value",
        ("tests/dialects/mongodb/test_mongodb_shaping.py",),
    ),
    Mutant(
        "what BSON has no int32 for is kept as one",
        "dialects/mongodb/embedded/shaping.py",
        "if not -0x80000000 <= value <= 0x7FFFFFFF:",
        "if False:",
        ("tests/dialects/mongodb/test_mongodb_shaping.py",),
    ),
    Mutant(
        "a stream that looks for its place evaluates what it is about alone",
        "dialects/mongodb/streams.py",
        "if lookups is None or self._sought is not None:",
        "if lookups is None:",
        ("tests/laws/test_laws_mongodb_routing.py",),
    ),
    Mutant(
        "a stream that finds nothing in a page says nothing of it",
        "dialects/mongodb/pages.py",
        "found = {}, [*self.changes[-1:]]",
        "found = {}, []",
        ("tests/dialects/mongodb/test_mongodb_routing.py",),
    ),
    Mutant(
        "an index has a moment with its microseconds",
        "dialects/mongodb/index_keys.py",
        "datetime: lambda value: value.replace(microsecond=value.microsecond // 1_000 * 1_000),",
        "datetime: lambda value: value,",
        ("tests/dialects/mongodb/test_mongodb_indexes.py",),
    ),
    Mutant(
        "a native filter passes over arrays",
        "dialects/mongodb/native_filters.py",
        "        _FIELD < False,\n",
        "",
        ("tests/dialects/mongodb/test_mongodb_indexes.py",),
    ),
    Mutant(
        "a native filter passes over dates and durations",
        "dialects/mongodb/native_filters.py",
        "        (_FIELD >= date.min) & (_FIELD < _FIRST_MOMENT),\n",
        "",
        ("tests/dialects/mongodb/test_mongodb_indexes.py",),
    ),
    Mutant(
        "a native filter passes over what a primary key cannot be",
        "dialects/mongodb/native_filters.py",
        '        (_FIELD > _LAST_OF_MONGODB) & (_FIELD < ""),\n',
        "",
        ("tests/dialects/mongodb/test_mongodb_indexes.py",),
    ),
    Mutant(
        "a native filter has a number to its last digit",
        "dialects/mongodb/native_filters.py",
        "low, high = _EXACT.subtract(number, beside), _EXACT.add(number, beside)",
        "low = high = number",
        ("tests/dialects/mongodb/test_mongodb_indexes.py",),
    ),
    Mutant(
        "a native filter has a moment to its microsecond",
        "dialects/mongodb/native_filters.py",
        "        last = moment + timedelta(microseconds=999)\n",
        "        last = moment\n",
        ("tests/dialects/mongodb/test_mongodb_indexes.py",),
    ),
    Mutant(
        "a native filter takes a path for a name",
        "dialects/mongodb/native_filters.py",
        '        if "." in path:\n            continue\n',
        "",
        ("tests/dialects/mongodb/test_mongodb_indexes.py",),
    ),
    Mutant(
        "a native filter says what one of two values says",
        "dialects/mongodb/native_filters.py",
        "return reduce(or_, known) if len(known) == len(said) else None",
        "return reduce(or_, known) if known else None",
        ("tests/dialects/mongodb/test_mongodb_indexes.py",),
    ),
    Mutant(
        "a native index of elements answers two comparisons at once",
        "dialects/mongodb/native_filters.py",
        "        if is_of_elements and parts:\n",
        "        if False:\n",
        ("tests/dialects/mongodb/test_mongodb_indexes.py",),
    ),
    Mutant(
        "a native index of several fields has documents that lack one",
        "dialects/mongodb/planning.py",
        "            _demands_field(path, conditions.get(path, ()), has_collation) for path in paths[1:]\n",
        "            True for path in paths[1:]\n",
        ("tests/dialects/mongodb/test_mongodb_indexes.py",),
    ),
    Mutant(
        "a value of the first of several fields is that of all",
        "dialects/mongodb/native_filters.py",
        'key_bytes(one.upper) + b"\\xff" if one.upper_closed else one.stop',
        "one.stop",
        ("tests/dialects/mongodb/test_mongodb_indexes.py",),
    ),
    Mutant(
        "a cursor reads what is there when it gets there",
        "dialects/mongodb/reading.py",
        "        return PastSnapshot(now, self._seq, self._undo)",
        "        return now",
        ("tests/dialects/mongodb/test_mongodb_collections.py",),
    ),
    Mutant(
        "a quiet stream's token is that of its last event",
        "dialects/mongodb/streams.py",
        "        if self._position <= self._given_seq:\n            return\n        token",
        "        return\n        token",
        ("tests/dialects/mongodb/test_mongodb_streams.py",),
    ),
    Mutant(
        "the token after a batch is ahead of what was given",
        "dialects/mongodb/streams.py",
        "        if self._position <= self._given_seq:\n            return\n        token",
        "        token",
        ("tests/dialects/mongodb/test_mongodb_streams.py",),
    ),
    Mutant(
        "a stream goes on with tables whose collection was made anew",
        "dialects/mongodb/streams.py",
        "        end = min((change.seq for change in beside if change.table_id == CATALOGUE), default=head)\n",
        "        end = head\n",
        ("tests/laws/test_laws_mongodb_streams.py",),
    ),
    Mutant(
        "a stream that is resumed gives its event again",
        "dialects/mongodb/streams.py",
        "                if not sought.fragment:\n                    return\n",
        "",
        ("tests/dialects/mongodb/test_mongodb_streams.py",),
    ),
    Mutant(
        "a collection that makes room for another one is told as dropped",
        "dialects/mongodb/events.py",
        "is_view=table_id in self._views) and not makes_room",
        "is_view=table_id in self._views)",
        ("tests/dialects/mongodb/test_mongodb_streams.py",),
    ),
    Mutant(
        "a stream is told of a view that is dropped as of a collection",
        "dialects/mongodb/events.py",
        "is_view=table_id in self._views)",
        "is_view=False)",
        ("tests/dialects/mongodb/test_mongodb_stream_facts.py",),
    ),
    Mutant(
        "a token whose event is not the stream's is refused before the log goes on",
        "dialects/mongodb/streams.py",
        "points.position_at(snapshot, self._sought) < self._position",
        "points.position_at(snapshot, self._sought) <= self._position",
        ("tests/dialects/mongodb/test_mongodb_streams.py",),
    ),
    Mutant(
        "a database stream ends with one of its collections",
        "dialects/mongodb/scopes.py",
        "return self.is_collection or (self.is_database and uuid is None)",
        "return True",
        ("tests/dialects/mongodb/test_mongodb_streams.py",),
    ),
    Mutant(
        "images are shown whatever the option was",
        "dialects/mongodb/images.py",
        "if change is not None and body is not None and _has_images(table, change.seq, snapshot):",
        "if change is not None and body is not None:",
        ("tests/dialects/mongodb/test_mongodb_streams.py",),
    ),
    Mutant(
        "what was compacted away is passed over in silence",
        "dialects/mongodb/points.py",
        "        raise history_lost()\n    return first\n",
        "        pass\n    return first\n",
        ("tests/dialects/mongodb/test_mongodb_streams.py",),
    ),
    Mutant(
        "the event of the oldest position is looked for where it was compacted away",
        "dialects/mongodb/points.py",
        "    if seq == low:\n        return low, False\n",
        "",
        ("tests/dialects/mongodb/test_mongodb_streams.py",),
    ),
    Mutant(
        "who waits for a collection that is made is not woken by its documents",
        "dialects/mongodb/streams.py",
        "            elif self._on_ready is not None:\n                self._listen()\n",
        "",
        ("tests/dialects/mongodb/test_mongodb_streams.py",),
    ),
    Mutant(
        "the answer to a write waits for those who are told of it",
        "dialects/mongodb/waking.py",
        "if self.put_off is None or not self.put_off(self._look):",
        "if True:",
        (
            "tests/servers/mongodb/test_watching.py::TestWaiting::test_an_answer_does_not_wait_for_those_who_are_told",
        ),
    ),
    Mutant(
        "an insert wakes the streams of all collections",
        "dialects/mongodb/waking.py",
        "        for changed in places:\n",
        "        for changed in [*self._waiting]:\n",
        ("tests/dialects/mongodb/test_mongodb_streams.py",),
    ),
    Mutant(
        "an epoch that begins after an event changes its token",
        "dialects/mongodb/points.py",
        "max(seq - 1, 0)",
        "seq",
        ("tests/dialects/mongodb/test_mongodb_streams.py",),
    ),
    Mutant(
        "a resumed stream begins where the first one began",
        "dialects/mongodb/embedded/resuming.py",
        '        self._options["startAfter"] = self.token\n',
        "",
        ("tests/dialects/mongodb/test_mongodb_watching.py",),
    ),
    Mutant(
        "an update of a table with a hook says what it has touched",
        "store/transaction.py",
        "            meta, beside = derived\n",
        "            meta, beside = meta or derived.meta, derived.beside\n",
        ("tests/dialects/mongodb/test_mongodb_entries.py",),
    ),
    Mutant(
        "a name with a sign is spelled as another one",
        "dialects/mongodb/names.py",
        '|-(?=\\.)"',
        '"',
        ("tests/dialects/mongodb/test_mongodb_names.py",),
    ),
]
