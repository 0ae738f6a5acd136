"""Dialects: other databases' words for what this one does.

    rethinkdb/      RethinkDB's query language
    couchdb/        CouchDB's documents, revisions and changes
    aidbox/         Aidbox's resources and `$changes`
    mongodb/        MongoDB's queries, updates, aggregation and change streams

Rule of this folder: a dialect parses a request, reads the log or a feed, and renders. It has no sockets and no threads, and
knows no other dialect.
"""
