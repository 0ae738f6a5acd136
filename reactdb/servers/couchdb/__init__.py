"""CouchDB's HTTP interface: its paths, and what a request and an answer of each look like.

application    couchdb(db): the ASGI application
routes         which function answers which method of which path
databases, documents, attachments, changes, mango, views
               those functions
feed_stream, wrapped_rows, formats
               `_changes` over time, the rows that are pending, and their bytes

Rule of this folder: it reads requests and writes answers. Their meaning is in `reactdb.dialects.couchdb`; connections, limits
and sessions are in `reactdb.servers.http`.
"""
