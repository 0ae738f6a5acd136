"""CouchDB's documents, revisions, changes and queries, on a reactdb file.

    couch                    the databases of a file: `reactdb.couchdb(db)`
    database, reader         one database: documents in and out
    changes, waking          `_changes`, and who is called when there are some
    updates                  `_db_updates`: which databases were made, changed and deleted
    states                   a document with all its leaves, and edits of it
    revisions                what is kept of revisions, and the write hook that keeps it
    trees                    revision trees, as pure functions
    sweeping                 what is removed before a compaction: ancestors that no path reaches any more
    documents, attachments, locals, listing, settings, sequences, spelling
                             how each of these is told and kept
    mango, collation         selectors, and the order of values
    finding, indexes, planning, options
                             `_find`: what it reads, which indexes there are, which one serves, and what a request may say
    filters, designs, javascript
                             which changes are told, and what design documents have for it
    removals                 which documents have left a filter
    script_process, script_runner
                             the process that runs JavaScript, and the program that it runs
    views, validating        the rows that map functions emit; the functions that refuse documents
    conflicts                documents in conflict as a feed, and how a conflict is ended
    multipart                documents with their attachments as one body
    tasks                    what runs over a file in this process
    headers                  which texts of documents may be in a header
    errors                   how a refusal is told

There are no sockets and no threads here; `reactdb.servers.http` adds them.
"""

from __future__ import annotations

from reactdb.dialects.couchdb import revisions as _revisions
from reactdb.dialects.couchdb.errors import CouchError

# A process that imports the dialect knows its write hook.
_HOOK = _revisions.HOOK

__all__ = ["CouchError"]
