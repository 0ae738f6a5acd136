"""MongoDB's documents, queries, updates and change streams, on a reactdb file.

    errors                   how a refusal is told
    natives                  values that Python has no type for, as documents hold them
    values                   BSON documents and native ones, exact inverses of each other
    ordering                 the order and equality of BSON values
    paths                    what of a document a dotted path leads to
    filters, conditions      queries; what one of their operators says of one value
    schemas                  `$jsonSchema`
    updates, array_filters   update arguments; which elements `$[name]` means
    editing, operators       how an update follows its paths; what one of its operators makes of one value
    projection               what find shows of a document
    diff                     the difference of two versions, as change events tell it

There are no sockets and no threads here; `reactdb.servers.mongodb` adds them.
"""

from __future__ import annotations

from reactdb.dialects.mongodb import ids as _ids
from reactdb.dialects.mongodb import natives as _natives
from reactdb.dialects.mongodb.errors import MongoError

# A process that imports the dialect knows its types of values.
_TYPES = (*_natives.__all__, *_ids.__all__)

__all__ = ["MongoError"]
