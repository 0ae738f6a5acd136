"""MongoDB's collections in the process, with PyMongo's names and results.

    client = reactdb.mongodb(db)
    orders = client["shop"]["orders"]
    orders.insert_one({"item": "tea", "n": 2})
    orders.find_one({"item": "tea"})

    client, database         the databases and collections
    collection               reading and writing a collection
    driver, results          PyMongo's classes, imported when they are used; the results of writes
    options, codecs          PyMongo's options of these three; encoding and decoding of documents by them
    documents, names, index_specification
                             arguments as documents, and documents in PyMongo's form; names; specifications of indexes
    find, aggregate          the arguments of `find` as a command; pipelines
    ahead                    reading ahead of the caller
    cursor, tailable         results, one after the other; cursors that wait for inserts
    bulk                     several writes in one call
    argument_checks          PyMongo's own checks of a write
    session, statements      transactions, and reads of one moment; the link between an operation and its session
    command                  `database.command(...)`, with the server's commands
    change_stream, resuming_stream  change streams; resuming after a fault
    observable               change streams as observables
    errors, removed_token    PyMongo's errors

`import pymongo`, the commands, pipelines and change streams take most of the time of a first import. They are imported when they
are first used, and a first write or read uses none of them.

Rule of this package: the modules below it compute the results; here they get PyMongo's form.
"""

from __future__ import annotations

from reactdb.dialects.mongodb.embedded.client import EmbeddedClient

__all__ = ["EmbeddedClient"]
