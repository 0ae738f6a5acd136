"""MongoDB's documents, queries, updates and change streams, on a reactdb file.

In reading order:

    errors                   how a refusal is told
    field_names              names of fields that BSON cannot say
    natives, ids             values that Python has no type for, as documents hold them; `_id`s that no key can be
    values                   BSON documents and native ones, exact inverses of each other
    ordering, collation      the order and equality of BSON values; of texts as a command asks for it
    paths                    what of a document a dotted path leads to
    numeric, times, zones    arithmetic of BSON's numbers; its dates; calendars
    patterns, pattern_bounds, unicode_classes
                             regular expressions; which of them may never end; the characters of Unicode's categories
    expressions/             expressions of aggregation
    filters, conditions, schemas
                             queries; what one of their operators says of one value; `$jsonSchema`
    sorting, shapes, projection
                             orders; which fields are kept or computed; what find shows of a document
    accumulators, totals, windows, window_totals, window_functions, stages/
                             what makes one value of many; what makes one of those around each document; pipelines
    updates, array_filters, editing, operators
                             update arguments; which elements `$[name]` means; how an update follows its paths; what one of
                             its operators makes of one value
    diff                     the difference of two versions, as change events tell it
    names, option_checks, options, namespaces
                             what may be a name; options of collections, one by one and together; databases and collections as
                             tables
    entries                  how a document is stored, and what an update says of itself in the log
    index_keys, partial, indexes, hinting, native_filters, implying, planning, scanning
                             what an index holds, what a hint asks of it, what a query says natively, whether a partial index has
                             all that it matches, and which index serves it; what bytes say before they are decoded
    explaining, rules, capped, tailing
                             validators and their reasons, and what is cut off: the write hook of tables that have them
    natural                  the order in which documents were inserted
    targets, transactions, retries, reading, walking, writing, bulk_writing, sweeping, variables, collection,
    view_graph, aggregating, viewing
                             the work of the commands, without the wire
    tokens, points, clock, scopes, recent, pages, events, images, splitting, stream_options, stream_conditions, stream_stages,
    routing, streams, waking
                             change streams; by which values a change finds them
    opening, embedded/       `reactdb.mongodb(db)`: PyMongo's names in the process
    commands/                the commands that drivers send

There are no sockets and no threads here; `reactdb.servers.mongodb` adds them.
"""

from __future__ import annotations

from reactdb.dialects.mongodb import ids as _ids
from reactdb.dialects.mongodb import natives as _natives
from reactdb.dialects.mongodb.errors import MongoError

# A process that imports the dialect knows its types of values.
_TYPES = (*_natives.__all__, *_ids.__all__)

__all__ = ["MongoError"]
