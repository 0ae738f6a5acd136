"""aio: the database for programs of asyncio. Each call that reads or writes runs in a thread, and is awaited.

    calls       one call in a thread, awaited by a task: a cancelled call was never made, or it is done
    turns       who may begin a transaction next, over all event loops of the process
    work        where the calls of a database are made: in shared threads, in the thread of a transaction, or at once
    faces       which names act, and are awaited, and which only make something
    selection   AsyncSelection: a selection or a table
    database    AsyncDatabase, its transactions, and `aconnect`

Threads are the library's own, also where anyio is installed. A call in a thread of anyio goes on after `Task.cancel()`, and
nobody knows whether it has written; and all calls of a loop share one limited pool there, so that writes which wait for a
transaction could keep its owner from going on.

Rule of this folder: it knows no query and no document. It makes the calls of `Database` and `Selection`.
"""
