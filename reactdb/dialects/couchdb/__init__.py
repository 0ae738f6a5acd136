"""CouchDB's documents, revisions, changes and queries, on a reactdb file.

    couch                    the databases of a file: `reactdb.couchdb(db)`
    database, reader         one database: documents in and out
    changes, change_waiters  `_changes`, and the callbacks after a change
    updates                  `_db_updates`: created, changed and deleted databases
    states                   a document with all its leaves, and edits of it
    revisions                stored revisions, and the write hook that stores them
    trees                    revision trees, as pure functions
    ancestor_sweep           cleaning before a compaction: ancestors that no path reaches any more
    documents, attachments, locals, all_docs, settings, sequences, names
                             the API's form and the stored form of each of these
    mango, collation         selectors, and the order of values
    find, indexes, mango_plan, options
                             `_find`: its access path, the indexes, the choice of one, and a request's options
    filters, designs, javascript
                             filters of changes, and their functions in design documents
    removals                 documents that have left a filter
    script_process, script_runner
                             the process that runs JavaScript, and its program
    views, validate_doc_update  the rows of map functions; functions that refuse documents
    conflicts                documents in conflict as a feed, and the resolution of a conflict
    multipart                documents with their attachments as one body
    tasks                    running tasks of a file in this process
    headers                  texts of documents in HTTP headers
    errors                   the errors of the dialect

There are no sockets and no threads here; `reactdb.servers.http` adds them.
"""

from __future__ import annotations

from reactdb.dialects.couchdb import revisions as _revisions
from reactdb.dialects.couchdb.errors import CouchError

# A process that imports the dialect knows its write hook.
_HOOK = _revisions.HOOK

__all__ = ["CouchError"]
