"""Store: one SQLite file with the change log, and the data derived from it. Only this room speaks SQL.

Read it in this order.

The file, as it is laid out:

    schema          the tables in the file, and its facts; `migrations` brings an older format to today's
    catalogue       tables and indexes, as a value
    checksums       what each log entry and the catalogue carry, so that a changed byte is noticed; `damage` words the errors
    sums            how many documents and index entries there must be, so that one which damage hides is noticed
    epochs          the stretches of the file's history, for tokens

The way of a write, from top to bottom:

    writer          queue, BEGIN, work, COMMIT, publish: the whole way; the other files are its steps
    write_queue     which thread is next, and whose writes share a commit
    blocks          who is in a transaction; `flows` tells tasks and greenlets of a thread apart
    transaction     the write buffer: log entries, heads and index entries, and savepoints
    hooks           what is derived from each write of a table; `kept` has the hook that refuses all writers but one
    log             entries of the log, written and read; `clock` has the time that they get
    publisher       gives the commit to the feeds, in log order
    checkpoints     empties SQLite's write-ahead log into the file; `wal_room` keeps room in it
    retention       removes history, where it takes more than its `room`; before that, `sweeps` make smaller what hooks keep

The way of a read:

    open_file       what the parts of an engine ask of it and of its writer
    engine          one open file: `get` and `snapshot`, each on a reader's connection
    readers         the connections that read
    snapshot        the documents, indexes and log as of one seq; `undo` takes changes back, for an earlier one
    newest          the newest entry of each document, also below the low-water mark
    walk            a long read that does not keep the write-ahead log from being emptied
    exports         the log and the documents in bulk, as columns of bytes
    blobs           large values in pieces, and which log entries refer to them
    positions       how far consumers and senders have come, by name; `leases` who may work for a consumer

Around them:

    registry        one engine for a file in a process, however often it is opened
    follow          learns what other processes commit, and whether the file is still there
    file/           what SQLite and the file system do: opening, locks, identity, flushing, fork()
    tools/          the doctor and salvage: they read a file that nobody has open

Rule of this room: it knows keys, bytes and seqs; the meaning of queries, and the subscribers, are known above it.
"""
