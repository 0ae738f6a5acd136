"""MongoDB's collections in the process, with PyMongo's names and results.

    client = reactdb.mongodb(db)
    orders = client["shop"]["orders"]
    orders.insert_one({"item": "tea", "n": 2})
    orders.find_one({"item": "tea"})

    client, database         which databases and collections there are
    collection               reading and writing one
    cursor                   results, one after the other
    bulk                     several writes in one call
    session                  transactions
    raising                  PyMongo's errors

Rule of this package: what an answer is worked out from is below it; here it gets PyMongo's form.
"""

from __future__ import annotations

from reactdb.dialects.mongodb.embedded.client import EmbeddedClient

__all__ = ["EmbeddedClient"]
