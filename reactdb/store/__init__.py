"""Store: one SQLite file with the change log, and the data derived from it. Only this package speaks SQL.

Read it in this order.

The file, as it is laid out:

    schema          the tables in the file, and its facts; `migrations` brings an older format to today's
    catalogue       tables and indexes, as a value
    checksums       of each log entry and the catalogue, so that a changed byte is noticed; `damage` words the errors
    sums            how many documents and index entries must exist, so that a hidden one is noticed
    epochs          the stretches of the file's history, for tokens

The way of a write, from top to bottom:

    writer          queue, BEGIN, work, COMMIT, publish: the whole path; the other files are its steps
    write_queue     the order of threads, and the writes that share a commit
    blocks          the members of a transaction; `flows` separates the tasks and greenlets of a thread
    transaction     the write buffer: log entries, heads and index entries, and savepoints
    unique          unique indexes: no value in two documents at the end of a transaction; `mongodb_indexes` has the values
                    that MongoDB's documents may share
    hooks           data derived from each write of a table; `materialized_tables` has the hook that refuses all writers but one
    log             entries of the log, written and read; `clock` has their times
    publisher       gives the commit to the feeds, in log order
    checkpoints     empties SQLite's write-ahead log into the file; `wal_room` keeps room in it
    retention       removes history; `room` measures what history may take, and `sweeps` first remove rows that hooks have stored
    expiry          deletes documents at their end; `expirer` has the thread

The way of a read:

    open_file       the interface of an engine and of its writer for their parts
    engine          one open file: `get` and `snapshot`, each on a reader's connection
    readers         the read connections
    snapshot        the documents, indexes and log as of one seq; `undo` reverts changes, for an earlier one
    key_pages       keys by their place, counts, and numbers of changes, for views of a file; `old_versions` has the version of
                    each document at an earlier seq, `later_changes` the changes since then, as far as an answer needs them
    newest          the newest entry of each document, also below the low-water mark
    walk            a long read during which the write-ahead log can be emptied
    backups         a file with the content of an open database, made while others write
    exports         the log and the documents in bulk, as columns of bytes
    copies          a new database in memory with the content of an open one
    blobs           large values in pieces, and their references from log entries
    positions       the positions of consumers and senders, by name; `leases` the workers of consumers
    user_version    a number of the program's own, which migrations count

Around them:

    registry        one engine for a file in a process, however often it is opened
    activity        asks the other processes that have feeds on a file, and answers them
    follow          notices commits of other processes, and a moved file
    file/           SQLite and the file system: opening, locks, identity, flushing, fork()
    tools/          the doctor and salvage: they read a closed file

Rule of this package: it knows keys, bytes and seqs. It knows neither the meaning of a query nor the subscribers.
"""
