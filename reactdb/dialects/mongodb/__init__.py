"""MongoDB's documents, queries, updates and change streams, on a reactdb file.

    errors                   how a refusal is told
    values                   BSON documents and native ones, exact inverses of each other

There are no sockets and no threads here; `reactdb.servers.mongodb` adds them.
"""

from __future__ import annotations

from reactdb.dialects.mongodb.errors import MongoError

__all__ = ["MongoError"]
