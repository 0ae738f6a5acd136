"""MongoDB's collections in the process, with PyMongo's names and results.

    client = reactdb.mongodb(db)
    orders = client["shop"]["orders"]
    orders.insert_one({"item": "tea", "n": 2})
    orders.find_one({"item": "tea"})

    client, database         the databases and collections
    collection               reading and writing a collection
    optioned, codecs         PyMongo's options of these three; encoding and decoding of documents by them
    shaping, spelling        arguments as documents, and documents in PyMongo's form; names
    finding, aggregating     the arguments of `find` as a command; pipelines
    ahead                    reading ahead of the caller
    cursor, tailing          results, one after the other; cursors that wait for inserts
    bulk                     several writes in one call
    checking                 PyMongo's own checks of a write
    session, statements      transactions, and reads of one moment; the link between an operation and its session
    commanding               `database.command(...)`, with the server's commands
    watching, resuming       change streams; resuming after a fault
    observing                change streams as observables
    raising                  PyMongo's errors

Rule of this package: the modules below it compute the results; here they get PyMongo's form.
"""

from __future__ import annotations

from reactdb.dialects.mongodb.embedded.client import EmbeddedClient

__all__ = ["EmbeddedClient"]
