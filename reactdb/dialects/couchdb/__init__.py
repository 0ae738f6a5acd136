"""CouchDB's documents, revisions, changes and queries, on a reactdb file.

There are no sockets and no threads here; `reactdb.servers.http` adds them.
"""
