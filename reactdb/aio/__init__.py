"""aio: the database for programs of asyncio. Each call that reads or writes runs in a thread, and is awaited.

    calls       one call in a thread, awaited by a task: a cancelled call was never made, or it is done
    turns       the order of transactions, over all event loops of the process
    work        where the calls of a database are made: in shared threads, in the thread of a transaction, or at once
    faces       the names that read or write, and are awaited; all others only make something
    selection   AsyncSelection: a selection or a table
    database    AsyncDatabase, its transactions, and `aconnect`

The threads belong to the library, also if anyio is installed, for two reasons. A call in a thread of anyio continues after
`Task.cancel()`, so the program would not know whether it has written. And all calls of a loop share one limited pool of anyio:
writes that wait for a transaction could take all threads, and the owner of the transaction could not go on.

Rule of this folder: it knows no query and no document. It makes the calls of `Database` and `Selection`.
"""
