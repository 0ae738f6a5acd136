"""MongoDB's collections in the process, with PyMongo's names and results.

    client = reactdb.mongodb(db)
    orders = client["shop"]["orders"]
    orders.insert_one({"item": "tea", "n": 2})
    orders.find_one({"item": "tea"})

    client, database         which databases and collections there are
    collection               reading and writing one
    optioned, codecs         PyMongo's options of these three; how documents are read and written by them
    shaping, spelling        arguments as documents, and documents as PyMongo gives them; names
    finding, aggregating     the arguments of `find` as a command; pipelines
    ahead                    what is read before it is asked for
    cursor, tailing          results, one after the other; cursors that wait for what is inserted
    bulk                     several writes in one call
    checking                 what PyMongo refuses of a write by itself
    session, statements      transactions, and reads of one moment; what an operation is to its session
    commanding               `database.command(...)`, with the commands that the server has
    watching, resuming       change streams; how one goes on after a fault
    observing                change streams as observables
    raising                  PyMongo's errors

Rule of this package: what an answer is worked out from is below it; here it gets PyMongo's form.
"""

from __future__ import annotations

from reactdb.dialects.mongodb.embedded.client import EmbeddedClient

__all__ = ["EmbeddedClient"]
